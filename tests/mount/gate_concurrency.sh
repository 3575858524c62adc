#!/bin/bash
# SPDX-License-Identifier: MIT
# max_inflight bounds what is at the backing tree at once: waits by default, fails fast as a
# bulkhead; max_open bounds handles; max_parked bounds the queue.  Permits always come back.
. "${srcdir:-.}/tests/mount/lib.sh" || exit 1
requires helper:iogen jq

backing tmpfs
mkdir "$SRC/deep"
head -c 1M /dev/zero >"$SRC/deep/file"

# A slow disk: another ratefs below, where a read of 64K takes 100 ms or more.
SLOW=$TMP/slow
mkdir "$SLOW"
"$RATEFS" -f "$SRC/deep" "$SLOW" -o allow_other,read_bps=640K,window=1ms >"$TMP/slow.log" 2>&1 &
slow_pid=$!
within 10s mountpoint -q "$SLOW" || fail "the slow disk did not come up"
REAL_SRC=$SRC SRC=$SLOW

mount_ratefs -o max_inflight=2
iogen --op read --size 64K --clients 4 --threads --count 3 --path "$MNT/file" >"$TMP/out" ||
	fail "reads that wait for a permit failed"
equal "$(json .total.ops "$TMP/out")" 12
unmount_ratefs

mount_ratefs -o max_inflight=1,on_full=reject
iogen --op read --threads --size 64K --forever --path "$MNT/file" >/dev/null 2>&1 &
reader=$!
rejected=
for _ in {1..200}; do
	if ! out=$(dd if="$MNT/file" of=/dev/null bs=64K count=1 2>&1); then
		[[ $out == *'temporarily unavailable'* ]] || fail "a full bulkhead said '$out'"
		rejected=1
		break
	fi
done
[ -n "$rejected" ] || fail "the bulkhead never rejected"
kill -9 $reader
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
exec 11<&-
within 2s cat "$MNT/deep/file" >/dev/null 2>&1 || fail "a closed handle did not free its place"
exec 12<&- 13<&- 14<&- 15<&-
unmount_ratefs

mount_ratefs -o read_bps=4K,max_parked=3
READ_FILE=$MNT/deep/file park_readers 3 --size 64K
out=$(dd if="$MNT/deep/file" of=/dev/null bs=64K count=2 2>&1) && fail "a fourth request was parked"
[[ $out == *'temporarily unavailable'* ]] || fail "past max_parked: '$out'"
# Who is refused is told a tenth of a second later, or when it is killed.
refused() { ! dd if="$MNT/deep/file" of=/dev/null bs=64K count=2 2>/dev/null; }
at_least 90ms refused
exec 11<"$MNT/deep/file"
soon=0
for i in {1..5}; do
	head -c 64K <&11 >/dev/null 2>&1 &
	nap 20ms
	kill -9 $!
	! within 50ms gone $! || soon=$((soon + 1))
	wait $! 2>/dev/null
done
[ $soon -gt 0 ] || fail "none of the refused that were killed was gone before its time"
exec 11<&-
unpark
# Nor do they hold up the end.
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
