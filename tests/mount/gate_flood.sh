#!/bin/bash
# SPDX-License-Identifier: MIT
# A killed process is gone within 50 ms although another user has thousands of requests parked whose
# callers have all caught a signal: after a signal the kernel reports no second one, so the daemon has to
# check each of them repeatedly.
. "${srcdir:-.}/tests/mount/lib.sh" || exit 1
. "${srcdir:-.}/tests/mount/hard_lib.sh" || exit 1
requires jq helper:flood

backing tmpfs
faults_ready
echo data >"$SRC/file"
THREADS=${RATEFS_TEST_FLOOD:-8000} KILLS=10 LIMIT_MS=50
! sanitized || THREADS=1000 LIMIT_MS=250

# The promise is 50 ms; the machine may have stopped during one of five kills.
quick() {	# what
	local out took worst noise
	out=$(before 60s as_user bob flood kill "$MNT/file" $KILLS) || fail "flood kill"
	read -r took worst noise <<<"$out"
	say "$1: gone within $took ms (worst $worst) of what a process takes that only sleeps (at most $noise)"
	awk -v ms="$took" -v limit="$LIMIT_MS" 'BEGIN { exit !(ms <= limit) }' ||
		fail "$1: killed processes stay $took ms, more than $LIMIT_MS"
}

mount_ratefs -o read_iops=1,read_iops_burst=0,fair=uid,max_parked=100000
mkfifo "$TMP/go"
as_user alice flood hold "$MNT/file" "$THREADS" <"$TMP/go" >"$TMP/out" &
hog=$!
exec 3>"$TMP/go"
within 60s grep -q started "$TMP/out" || fail "the threads were not started"
within 60s parked $((THREADS - 5)) || fail "not everything is parked"
quick "beside $THREADS that wait"
echo >&3
within 60s grep -q signalled "$TMP/out" || fail "the threads were not signalled"
quick "beside $THREADS that wait and have caught a signal"
slay $hog

# Nor does it matter how long the daemon takes to close a file, which may delete a large one.
echo large >"$SRC/large"
stat "$MNT/large" >/dev/null
rm "$SRC/large"
fault close hang
within 30s hanging close 1 || fail "what was deleted in the source is not closed"
quick "while a file is being closed"
heal
unmount_ratefs
