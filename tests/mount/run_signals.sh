#!/bin/bash
# SPDX-License-Identifier: MIT
# Signals, job control on a terminal and children in the background, as if ratefs run were not there.
. "${srcdir:-.}/tests/mount/lib.sh" || exit 1
. "$srcdir/tests/mount/run_lib.sh" || exit 1
requires helper:ptytalk timeout

# Signals to the wrapper reach the command, which decides.
for signal in HUP INT QUIT TERM USR1 USR2 ALRM; do
	rm -f ready
	# Started by perl, because a shell makes background jobs ignore SIGINT.
	perl -e '$SIG{$_} = "DEFAULT" for qw(INT QUIT); exec @ARGV' "$RATEFS" run -q -- \
		perl -e '$SIG{$ARGV[0]} = sub { exit 42 }; open F, ">ready"; close F; sleep 1 while 1' "$signal" &
	within 5s test -e ready || fail "the command did not start"
	kill -"$signal" $!
	wait $!
	equal $? 42 "exit code after SIG$signal"
done
nothing_left
rc=0
timeout 0.5 "$RATEFS" run -q -- sleep 60 || rc=$?
equal $rc 124 "timeout ratefs run"
rc=0
timeout 0.5 "$RATEFS" run -q -- sh -c 'trap "" TERM; timeout 1 sleep 0.8; exit 3' || rc=$?
equal $rc 124 "a command that ignores SIGTERM"
nothing_left

# A command that stops itself stops the wrapper, and continues with it.
"$RATEFS" run -q -- sh -c 'kill -STOP $$; exit 4' &
pid=$!
state_is() { [ "$(cut -d ' ' -f 3 "/proc/$1/stat")" = "$2" ]; }
within 5s state_is $pid T || fail "the wrapper did not stop with its command"
kill -CONT $pid
wait $pid
equal $? 4

# At a terminal: Ctrl-C, Ctrl-Z, fg, bg, a shell inside, Ctrl-\, hang-up.
export PS1='ready> '
talk() { ptytalk bash --norc --noprofile -i -- "$@" || fail "on a terminal"; }
talk '<ready> ' ">ratefs run -q -- sh -c 'echo be''gun; sleep 100'\r" '<begun' '~300' '>\x03' '<ready> ' '>echo code=$?\r' '<code=130' '>exit\r'
talk '<ready> ' ">ratefs run -q -- sh -c 'trap \"echo caught; exit 7\" INT; echo be''gun; while :; do sleep 0.1; done'\r" '<begun' '~300' '>\x03' '<caught' '<ready> ' \
	'>echo code=$?\r' '<code=7' '>exit\r'
talk '<ready> ' ">ratefs run -q -- sh -c 'echo be''gun; read line; echo got=\$line; exit 8'\r" '<begun' '~300' '>\x1a' '<Stopped' '<ready> ' '~300' \
	'>fg\r' '~200' '>hello\r' '<got=hello' '<ready> ' '>echo code=$?\r' '<code=8' '>exit\r'
# Ctrl-C and Ctrl-Z wait a moment: a shell that is just starting a program may miss them, with or without ratefs.
cat >"$TMP/until_go" <<'END'
$| = 1; print "be", "gun\n"; select(undef, undef, undef, 0.05) until -e "go"; print "do", "ne\n";
END
talk '<ready> ' ">ratefs run -q -- perl $TMP/until_go\r" '<begun' '~300' '>\x1a' '<Stopped' '<ready> ' \
	'>touch go; bg; sleep 1.5\r' '<done' '>wait; echo code=$?\r' '<code=' '>exit\r'
rm -f go
# A command that ignores Ctrl-Z is not stopped.
talk '<ready> ' ">ratefs run -q -- sh -c 'trap \"\" TSTP; echo be''gun; read line; echo got=\$line'\r" '<begun' '~300' '>\x1a' '~300' '>more\r' '<got=more' '!Stopped' '<ready> ' '>exit\r'
# A shell inside, with jobs of its own.
talk '<ready> ' '>ratefs run -q -- bash --norc --noprofile -i\r' '<ready> ' '>sleep 100\r' '~300' '>\x1a' '<Stopped' '>kill -9 %1; while kill -0 %1 2>/dev/null; do sleep 0.1; done; echo gone=$?\r' '<gone=0' '>exit 12\r' \
	'<ready> ' '>echo code=$?\r' '<code=12' '>exit\r'
talk '<ready> ' '>ratefs run -q -- bash --norc --noprofile -i\r' '<ready> ' '>sleep 100\r' '~300' '>\x03' '<ready> ' '>echo in''side=$?\r' '<inside=130' \
	'>exit 0\r' '<ready> ' '>exit\r'
talk '<ready> ' ">ratefs run -q -- sh -c 'echo be''gun; sleep 100'\r" '<begun' '~300' '>\x1c' '<ready> ' '>echo code=$?\r' '<code=131' '>exit\r'
nothing_left
# The terminal goes away.
ptytalk sh -c 'exec ratefs run -q -- sh -c "echo begun; sleep 100"' -- '<begun' '~300' '^'
equal $? 129 "exit status after SIGHUP"
nothing_left

# Children in the background: a message mentions them, and the mount ends with the last of them.
echo text >file
run -o iops=1000 -- sh -c '(sleep 1; cat file >late) & exit 3' 2>"$TMP/err"
equal $? 3
grep -q 'still running in the background.*sh' "$TMP/err" || fail "no word about the child: $(cat "$TMP/err")"
ratefs_left || fail "the daemon is gone before the child"
within 5s test -s late || fail "the child could not read"
nothing_left
# A child in the background that has closed standard error does not keep it open.
before 2s sh -c "'$RATEFS' run -q -- sh -c 'sleep 3 >/dev/null 2>&1 </dev/null &' 2>&1 | cat"
nothing_left
# Children that are about to end are not mentioned.
equal "$(run -q -- sh -c 'sleep 0.02 & exit 0' 2>&1)" ""
nothing_left
