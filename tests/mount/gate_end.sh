#!/bin/bash
# SPDX-License-Identifier: MIT
# The end of a mount with many requests parked: nothing hangs, nothing leaks, the daemon ends with
# exit status 0 if the user asked for the end, and acknowledged data is in the backing tree.
LOG_EXPECTED="^ratefs: (serving|limits|.*: still in use; its open files stop working)"
. "${srcdir:-.}/tests/mount/lib.sh" || exit 1
. "${srcdir:-.}/tests/mount/hard_lib.sh" || exit 1
requires helper:iogen helper:acked jq

backing tmpfs
head -c 8M /dev/zero >"$SRC/file"
PARK=${RATEFS_TEST_PARK:-1000}

for signal in TERM INT; do
	mount_ratefs -o read_bps=64K
	park_readers "$PARK" --size 64K
	t0=$(now_ms)
	stop_ratefs $signal
	[ $(($(now_ms) - t0)) -lt 3000 ] || fail "SIG$signal took $(($(now_ms) - t0)) ms"
	unpark
done

# Reads through the page cache are not refused (an error might be the end of a program), and more and more arrive.
mount_ratefs -o cache=page,read_bps=64K,read_bps_burst=0
for i in 1 2 3 4; do
	head -c 64M /dev/zero >"$SRC/large$i"
	cat "$MNT/large$i" >/dev/null 2>&1 &
	cats[i]=$!
done
within 10s parked 2 || fail "nothing parked"
t0=$(now_ms)
stop_ratefs TERM
[ $(($(now_ms) - t0)) -lt 3000 ] || fail "SIGTERM while files are read through the page cache took $(($(now_ms) - t0)) ms"
kill -9 "${cats[@]}" 2>/dev/null
wait "${cats[@]}" 2>/dev/null
rm "$SRC"/large?

# umount -l: parked requests are served, or end when their processes exit; then the daemon ends.
mount_ratefs -o read_bps=64K
park_readers "$PARK" --size 64K
ok umount -l "$MNT"
unpark
daemon_ended_well

# umount -f: the kernel cuts the connection.
mount_ratefs -o read_bps=64K
park_readers 100 --size 64K
umount -f "$MNT" 2>/dev/null
unpark
umount -l "$MNT" 2>/dev/null
daemon_ended_well

# The daemon is killed: clients get errors immediately.
mount_ratefs -o read_bps=64K
park_readers 100 --size 64K
kill -9 "$DAEMON"
wait "$DAEMON" 2>/dev/null
within 3s gone "$PARKED" || fail "readers survive the death of the daemon"
DAEMON=
wait "$PARKED" 2>/dev/null
umount -l "$MNT"

# SIGTERM while 500 writes wait.  Every acknowledged write is in the source, and draining carries
# out the waiting ones.
mount_ratefs -o write_iops=20
acked write "$MNT/acked" 500 >"$TMP/acked" &
writer=$!
within 20s parked 400 || fail "nothing parked"
stop_ratefs TERM
wait $writer || fail "acked"
acked check "$SRC/acked" <"$TMP/acked" || fail "a write was acknowledged but not written"
[ "$(wc -l <"$TMP/acked")" -ge 100 ] || fail "only $(wc -l <"$TMP/acked") of 500 writes were done"
