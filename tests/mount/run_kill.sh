#!/bin/bash
# SPDX-License-Identifier: MIT
# kill -9 of each process, and many concurrent runs: nothing stays mounted, and no process is left.
. "${srcdir:-.}/tests/mount/lib.sh" || exit 1
. "$srcdir/tests/mount/run_lib.sh" || exit 1
echo text >file

begin() {
	rm -f ready
	"$RATEFS" run "$@" -- sh -c 'touch ready; sleep 100; cat file' 2>"$TMP/err" &
	WRAPPER=$!
	within 5s test -e ready || fail "the command did not start"
	SHELL_PID=$(pgrep -P "$WRAPPER" -x sh)
	SERVER=$(pgrep -P "$WRAPPER" -x ratefs)
}
no_command() { ! pgrep -x sleep >/dev/null; }

begin
kill -9 "$SHELL_PID"
wait "$WRAPPER"
equal $? 137 "after kill -9 of the command"
pkill -x sleep # the command's child: as without ratefs, it lives on
nothing_left

begin
kill -9 "$WRAPPER"
within 5s gone "$SHELL_PID" || fail "the command outlived the wrapper"
ratefs_left || fail "the daemon is gone before the last process"
pkill -x sleep
nothing_left

begin
kill -9 "$SERVER"
within 5s grep -q 'daemon is gone' "$TMP/err" || fail "nobody was told of the daemon's end"
pkill -x sleep
wait "$WRAPPER"
equal $? 1 "the command's own code when it cannot read"
nothing_left
begin
kill "$SERVER"
within 5s grep -q 'daemon is gone' "$TMP/err" || fail "nobody was told of the daemon's end"
kill "$SHELL_PID"
pkill -x sleep
wait "$WRAPPER"
nothing_left
# shellcheck disable=SC2016
run -q -- sh -c 'kill -9 $(pgrep -P $PPID -x ratefs); sleep 0.2; exit 0' 2>/dev/null
equal $? 125 "success without a daemon"
nothing_left

# All processes together, and while starting.
begin
kill -9 "$SERVER" "$WRAPPER" "$SHELL_PID"
pkill -x sleep
nothing_left
for _ in $(seq 20); do
	"$RATEFS" run -q -- sleep 30 &
	sleep "0.0$((RANDOM % 50 + 10))"
	kill -9 $!
done
wait
within 5s no_command || pkill -9 -x sleep
nothing_left

# While a request of the command waits.
"$RATEFS" run -q -o iops=1,window=1ms -- sh -c 'while :; do cat file; done' >/dev/null 2>&1 &
sleep 0.5
kill -9 $!
nothing_left 10s

# Many concurrent runs, each with its own exit code.
n=${RATEFS_TEST_RUNS:-200}
pids=()
for i in $(seq "$n"); do
	timeout 120 "$RATEFS" run -q -o iops=5000 -- sh -c "cat file >/dev/null && exit $((i % 100))" &
	pids+=($!)
	[ $((i % 50)) != 0 ] || sleep 0.2
done
i=0
for pid in "${pids[@]}"; do
	i=$((i + 1))
	wait "$pid"
	equal $? $((i % 100)) "exit code of run $i of $n"
done
nothing_left 20s
