#!/bin/bash
# SPDX-License-Identifier: MIT
# Each request that waits has a buffer for the largest one.  When many large ones have been served, their memory is released.
. "${srcdir:-.}/tests/mount/lib.sh" || exit 1
. "${srcdir:-.}/tests/mount/uring_lib.sh" || exit 1
requires helper:iogen jq taskset

backing tmpfs
head -c 1M /dev/urandom >"$SRC/file"
CLIENTS=500
! sanitized || CLIENTS=300
fits() { [ "$(daemon_kb)" -lt $((start_kb + $1 * 1024)) ]; }
fits_soon() { # MB, after what
	sanitized || within 30s fits "$1" || fail "$2: the daemon had $start_kb kB, and keeps $(daemon_kb) kB"
}

# Reads that have waited: there is an entry for each.  On one CPU at most 128 MB are kept for a while, and 32 MB for longer;
# threads of the daemon have buffers, too.
uring cache=strict,read_iops=1,read_iops_burst=0,max_parked_bytes=1G
start_kb=$(daemon_kb)
on_cpu 0 iogen --op read --size 1M --clients $CLIENTS --threads --count 1 --path "$MNT/file" >/dev/null &
load=$!
within 20s parked $((CLIENTS - 10)) || fail "$(stat_of .parked_now) of $CLIENTS wait"
ctl set "$MNT" read_iops=0 >/dev/null || fail "set"
ends 60s $load
say "$CLIENTS reads of 1M have waited: the daemon had $start_kb kB, and has $(daemon_kb) kB"
sanitized || within 1s fits 230 || fail "after $CLIENTS reads: the daemon had $start_kb kB, and has $(daemon_kb) kB"
fits_soon 130 "$CLIENTS reads of 1M that waited"
say "later it has $(daemon_kb) kB"

# Writes that have not: more arrive at once than the thread of a CPU can take.
on_cpu 0 iogen --op write --size 1M --clients $CLIENTS --threads --count 1 --path "$MNT/file" >/dev/null || fail "writes"
say "$CLIENTS concurrent writes of 1M: the daemon has $(daemon_kb) kB"
sanitized || within 1s fits 230 || fail "after writes: the daemon had $start_kb kB, and has $(daemon_kb) kB"
fits_soon 130 "$CLIENTS concurrent writes of 1M"

# Memory that is used again comes back with the right data.
cp "$SRC/file" "$TMP/file"
for i in 1 2 3 4 5 6 7 8; do
	before 10s cp "$TMP/file" "$MNT/copy$i"
	cmp "$TMP/file" "$MNT/copy$i" || fail "copy $i"
done
unmount_ratefs
none_hangs
