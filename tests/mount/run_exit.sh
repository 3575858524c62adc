#!/bin/bash
# SPDX-License-Identifier: MIT
# ratefs run ends in the same way as its command, and says clearly why it could not start it.
. "${srcdir:-.}/tests/mount/lib.sh" || exit 1
. "$srcdir/tests/mount/run_lib.sh" || exit 1

# Every exit code, several runs concurrently.
pids=()
for code in {0..255}; do
	run -q -- sh -c "exit $code" &
	pids+=($!)
	[ $((code % 16)) = 15 ] || continue
	for i in {0..15}; do
		wait "${pids[i]}"
		equal $? $((code - 15 + i)) "exit code of 'ratefs run'"
	done
	pids=()
done
nothing_left

# dies_by SIGNAL: ratefs run itself dies by the signal, instead of exiting with a code above 128.
dies_by() {
	local out
	out=$(perl -e 'system(@ARGV); print $? & 127, " ", $? & 128' "$RATEFS" run -q -- sh -c "kill -$1 \$\$")
	equal "$out" "$(kill -l "$1") 0" "how ratefs run ended after SIG$1"
}
requires perl
for signal in HUP INT QUIT ABRT KILL SEGV USR1 PIPE ALRM TERM XCPU; do
	dies_by "$signal"
done
! ls core* 2>/dev/null || fail "a core file is left"
nothing_left

ends 127 run -q -- no-such-command 2>"$TMP/err"
equal "$(cat "$TMP/err")" "ratefs: no-such-command: No such file or directory"
echo text >"$DIR/plain"
ends 126 run -q -- ./plain 2>"$TMP/err"
equal "$(cat "$TMP/err")" "ratefs: ./plain: Permission denied"
ends 126 run -q -- "$DIR" 2>/dev/null

# Errors of the command line: exit status 125 and one line.
wrong() {
	local pattern=$1 rc=0
	shift
	says "$pattern" "$RATEFS" run "$@"
	"$RATEFS" run "$@" >/dev/null 2>&1 || rc=$?
	equal $rc 125 "exit code of 'ratefs run $*'"
}
wrong 'needs a COMMAND'
wrong "unknown flag '--nonsense'" --nonsense true
wrong "unknown flag '-x'" -x true
wrong "'-C' needs a value" -C
wrong "iops: '10Q'" -o iops=10Q true
wrong 'unknown option' -o nonsense=1 true
wrong 'has no meaning for ratefs run' -o auto_unmount true
wrong 'is for configuration files' -o source=/tmp true
wrong '-C /nonexistent: No such file' -C /nonexistent true
wrong 'plain: not a directory' -C plain true
wrong 'the system needs' -C / true
wrong 'the system needs' -C /proc true
mkdir -p a/b
wrong 'is inside it' -C a -C a/b true
wrong 'is inside it' -C a/b -C a true
wrong 'report=/nonexistent/x: No such' --report=/nonexistent/x true
nothing_left

# A directory called run is not the command.
mkdir run
"$RATEFS" -f ./run "$MNT" >"$LOG" 2>&1 &
DAEMON=$!
within 10s answers || fail "ratefs ./run MOUNTPOINT"
unmount_ratefs

# Without a limit the report says so; with --quiet there is none.
run -- true 2>"$TMP/err" || fail "true"
grep -q 'nothing was limited' "$TMP/err" || fail "no word about limits: $(cat "$TMP/err")"
equal "$(run -q -o iops=100 -- true 2>&1)" "" "what --quiet says"
nothing_left
