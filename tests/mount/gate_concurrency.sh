#!/bin/bash
# SPDX-License-Identifier: MIT
# max_inflight bounds concurrent requests to the source: further ones wait by default, or fail fast as with a
# bulkhead; max_open bounds handles; max_parked bounds the queue.  Permits are always released.
. "${srcdir:-.}/tests/mount/lib.sh" || exit 1
. "${srcdir:-.}/tests/mount/hard_lib.sh" || exit 1
requires helper:iogen helper:noise helper:reap jq

backing tmpfs
mkdir "$SRC/deep"
head -c 1M /dev/zero >"$SRC/deep/file"

# Eight readers of a disk that does not respond: two of them are in the source, the others wait for a permit.
faults_ready
fault pread hang
mount_ratefs -o max_inflight=2
iogen --op read --size 64K --clients 8 --threads --count 3 --path "$MNT/deep/file" >"$TMP/out" &
reader=$!
within 10s parked 6 || fail "$(faultctl "$FAULTS" waiting pread) are at the backing tree, $(stat_of .parked_now) wait"
nap 200ms
equal "$(faultctl "$FAULTS" waiting pread)" 2 "requests at the backing tree"
equal "$(stat_of .inflight.now)" 2 "requests in flight"
heal
wait $reader || fail "reads that waited for a permit failed"
equal "$(json .total.ops "$TMP/out")" 24
settled
unmount_ratefs
DAEMON_WRAPPER=()

# A slow disk: another ratefs below, where a read of 64K takes 100 ms or more.
SLOW=$TMP/slow
mkdir "$SLOW"
"$RATEFS" -f "$SRC/deep" "$SLOW" -o allow_other,read_bps=640K,window=1ms >"$TMP/slow.log" 2>&1 &
slow_pid=$!
within 10s mountpoint -q "$SLOW" || fail "the slow disk did not come up"
REAL_SRC=$SRC SRC=$SLOW

mount_ratefs -o max_inflight=1,on_full=reject
# It must have the file open before anything else can have the only permit, because its open would be refused, too.
iogen --op read --threads --size 64K --forever --path "$MNT/file" --ready "$TMP/reading" >/dev/null 2>&1 &
reader=$!
within 20s test -e "$TMP/reading" || fail "the reader did not start"
rejected=
for _ in {1..200}; do
	if ! out=$(dd if="$MNT/file" of=/dev/null bs=64K count=1 2>&1); then
		[[ $out == *'temporarily unavailable'* ]] || fail "a full bulkhead said '$out'"
		rejected=1
		break
	fi
done
[ -n "$rejected" ] || fail "the bulkhead never rejected"
kill -9 $reader 2>/dev/null
wait $reader 2>/dev/null
within 5s dd if="$MNT/file" of=/dev/null bs=64K count=1 2>/dev/null || fail "the permit did not come back"
unmount_ratefs

kill "$slow_pid"
wait "$slow_pid" || fail "the slow disk ended badly"
SRC=$REAL_SRC

mount_ratefs -o max_open=5
exec 11<"$MNT/deep/file" 12<"$MNT/deep/file" 13<"$MNT/deep/file" 14<"$MNT/deep/file" 15<"$MNT/deep/file"
out=$(cat "$MNT/deep/file" 2>&1 >/dev/null) && fail "a sixth handle was opened"
[[ $out == *'Too many open files in system'* ]] || fail "past max_open: '$out'"
equal "$(ctl stats "$MNT" --json | jq -c '.classes.openclose | [.too_many_open, .errors, .failed, .ops - .ok]')" '[1,0,0,1]' "refusals, errors, failures"
exec 11<&-
within 2s cat "$MNT/deep/file" >/dev/null 2>&1 || fail "a closed handle did not free its place"
exec 12<&- 13<&- 14<&- 15<&-
unmount_ratefs

mount_ratefs -o read_bps=4K,max_parked=3
READ_FILE=$MNT/deep/file park_readers 3 --size 64K
out=$(dd if="$MNT/deep/file" of=/dev/null bs=64K count=2 2>&1) && fail "a fourth request was parked"
[[ $out == *'temporarily unavailable'* ]] || fail "past max_parked: '$out'"
# A refused caller gets its error 100 ms later, or as soon as it is killed.
refused() { ! dd if="$MNT/deep/file" of=/dev/null bs=64K count=2 2>/dev/null; }
at_least 90ms refused
killed_in_time read "$MNT/deep/file"
unpark
# Delayed errors do not delay the end of the mount either.
READ_FILE=$MNT/deep/file park_readers 3 --size 64K
for i in {1..20}; do
	head -c 64K "$MNT/deep/file" >/dev/null 2>&1 &
done
nap 50ms
before 3s kill -TERM "$DAEMON"
within 3s gone "$DAEMON" || fail "still there 3 s after SIGTERM, with refusals held back"
wait "$DAEMON" || fail "it ended with $?"
DAEMON=
unpark
wait
