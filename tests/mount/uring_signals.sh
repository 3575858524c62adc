#!/bin/bash
# SPDX-License-Identifier: MIT
# Signals in each state of a request: not yet assigned to an entry, assigned but not taken by the
# daemon, parked, answered.  The kernel reports only signals that arrive after the daemon took the
# request.  While the daemon is stopped, it takes none.
. "${srcdir:-.}/tests/mount/lib.sh" || exit 1
. "${srcdir:-.}/tests/mount/uring_lib.sh" || exit 1
requires helper:flood helper:iogen helper:noise helper:oneread helper:reap helper:signalled jq taskset

backing "${URING_BACKING:-tmpfs}"
head -c 1M /dev/zero >"$SRC/file"
goes_on() { kill -CONT "$DAEMON"; }
# Uses up what the limit allows for the next minutes.
spend() {
	cat "$MNT/file" >/dev/null &
	SPENDER=$!
	within 5s parked 1 || fail "nobody waits"
	slay $SPENDER
}
# Reads from a file that is open already.
start_reader() { # [direct] [other]
	rm -f "$TMP/in"
	mkfifo "$TMP/in"
	oneread "$MNT/file" "$@" <"$TMP/in" >"$TMP/said" &
	READER=$!
	exec 4>"$TMP/in"
	within 5s grep -q open "$TMP/said" || fail "the reader did not start"
}

# The reader gets a signal after it has sent its request and before the daemon takes it.
signal_before_taken() { # KILL [direct] [other]
	local signal=$1
	shift
	start_reader "$@"
	stop_daemon
	echo >&4
	nap 50ms
	kill "-$signal" $READER
	nap 50ms
	goes_on
}
reader_is_gone() { # after what
	within 1s gone $READER || fail "$1: still there a second after that"
	wait $READER 2>/dev/null
	exec 4>&-
}

# The reader is killed before the daemon took its request.
uring cache=strict,read_bps=1K,read_bps_burst=0,window=1ms,max_wait=1h
spend
signal_before_taken KILL
reader_is_gone "killed before its request was taken"
signal_before_taken KILL direct
reader_is_gone "killed before its request was taken, which was made with O_DIRECT"
# The reader gets a signal that it handles before the daemon took its request: it continues to wait,
# and can still be killed.
signal_before_taken USR1
nap 300ms
equal "$(tail -n 1 "$TMP/said")" open "interrupt=fatal: what a handled signal does"
kill -KILL $READER
reader_is_gone "killed after a signal that came too early"
# The same, but another thread of the reader handles that signal, so that it is not pending any more.
signal_before_taken USR1 other
nap 300ms
equal "$(tail -n 1 "$TMP/said")" taken "interrupt=fatal: what a signal does that another thread handles"
kill -KILL $READER
reader_is_gone "killed after a signal that came too early and was handled by another thread"
killed_in_time read "$MNT/file"

# Thousands of requests: some have no entry, some have one that the daemon has not taken.
THREADS=3000
! sanitized || THREADS=1500
mkfifo "$TMP/go"
exec 3<>"$TMP/go"
for how in killed signalled; do
	: >"$TMP/out"
	flood hold "$MNT/file" $THREADS <"$TMP/go" >"$TMP/out" &
	hog=$!
	within 5s pgrep -x flood >/dev/null
	nap 5ms
	stop_daemon
	within 20s grep -q started "$TMP/out" || say "not all threads could be started while the daemon was stopped"
	if [ $how = signalled ]; then # which they handle; the kernel reports no signal to those that have no entry, even later
		echo >&3
		within 20s grep -q signalled "$TMP/out" || say "not all threads were signalled"
		goes_on
		within 20s parked $((THREADS / 2)) || fail "$(stat_of .parked_now) of $THREADS wait that were signalled before their requests were taken"
	fi
	kill -KILL $hog
	nap 50ms
	goes_on
	within 10s gone $hog || fail "$(find /proc/$hog/task -mindepth 1 -maxdepth 1 | wc -l) threads stay that were killed, $how before their requests were taken"
	wait $hog 2>/dev/null
done
none_hangs
none_parked() { [ "$(stat_of .parked_now)" = 0 ]; }
within 5s none_parked || fail "dead callers still wait"
stop_ratefs

# interrupt=any: the reader gets EINTR, although the kernel does not report the signal.
uring cache=strict,read_bps=1K,read_bps_burst=0,window=1ms,max_wait=1h,interrupt=any
spend
signal_before_taken USR1
within 1s grep -q 'error 4' "$TMP/said" || fail "interrupt=any: no EINTR a second after a signal that came early: $(tail -n 1 "$TMP/said")"
wait $READER
exec 4>&-
# Even if another thread has handled the signal by then, as with /dev/fuse.
signal_before_taken USR1 other
within 1s grep -q 'error 4' "$TMP/said" || fail "interrupt=any: no EINTR after a signal that another thread handled: $(tail -n 1 "$TMP/said")"
wait $READER
exec 4>&-
stop_ratefs
# Readers are killed at any moment, among others when their answer is being committed: each request waits about a
# millisecond.
uring cache=strict,read_iops=4k,window=1ms
for ((i = 0; i < 60; i++)); do
	iogen --op read --size 4K --clients 4 --threads --forever --path "$MNT/file" >/dev/null 2>&1 &
	READER=$!
	nap $((RANDOM % 40 + 5))ms
	kill -KILL $READER
	within 5s gone $READER || fail "a reader that was killed while it was served stays"
	wait $READER 2>/dev/null
done
[ "$(stat_of '.classes.read | .parked_total > 0 and .ok > 0')" = true ] || fail "nothing waited, or nothing was answered"
settled "after readers were killed while they were served"
unmount_ratefs
uring meta_iops=100,window=20ms,interrupt=any
out=$(signalled "$MNT" 10) || fail "signalled"
[[ $out =~ ,\ [1-9][0-9]*\ interrupted ]] || fail "interrupt=any: $out"
unmount_ratefs
none_hangs
