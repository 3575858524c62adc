#!/bin/bash
# SPDX-License-Identifier: MIT
# Shares: equal between processes whatever their block size, by weight where asked, by user; a light
# caller waits about one turn; other classes don't wait at all.
. "${srcdir:-.}/tests/mount/lib.sh"
requires helper:iogen jq

backing tmpfs
head -c 8M /dev/zero >"$SRC/file"
at_most() { awk -v v="$1" -v m="$2" 'BEGIN { exit !(v <= m) }' || fail "$3: $1, not at most $2"; }
at_least_value() { awk -v v="$1" -v m="$2" 'BEGIN { exit !(v >= m) }' || fail "$3: $1, not at least $2"; }

mount_ratefs -o read_bps=20M
iogen --op read --size 4K,16K,64K,256K,1M --clients 8 --skip 0.5 --time 3 --path "$MNT/file" >"$TMP/out" || fail iogen
at_least_value "$(json .jain "$TMP/out")" 0.98 "Jain index of processes with blocks of 4K to 1M"
about 3% "$(json .total.bytes_per_s "$TMP/out")" 20971520
unmount_ratefs

mount_ratefs -o read_bps=5M,fair=uid,weight=uid:1001=1,weight=uid:1002=2,weight=uid:1003=4
iogen --op read --size 16K --clients 6 --uids 1001,1002,1003 --skip 0.5 --time 3 --path "$MNT/file" >"$TMP/out" || fail iogen
share() { jq "([.clients[] | select(.uid == $1) | .bytes] | add) / .total.bytes * 7" "$TMP/out"; }
about 6% "$(share 1001)" 1
about 5% "$(share 1002)" 2
about 5% "$(share 1003)" 4
unmount_ratefs

# 16 heavy readers of 1 MiB at 20 MB/s: a turn is 50 ms; in FIFO order a light one would wait 800.
mount_ratefs -o read_bps=20M
iogen --op read --size 1M --clients 17 --light 1 --skip 0.5 --time 4 --path "$MNT/file" >"$TMP/out" || fail iogen
at_most "$(jq '.clients[-1].lat_us.p50' "$TMP/out")" 120000 "median wait of a light reader beside 16 heavy ones"
# And stat does not wait behind reads.
park_readers 200 --size 1M
t0=$(now_ms); for _ in {1..20}; do ls -l "$MNT/" >/dev/null; done; t1=$(now_ms)
[ $((t1 - t0)) -lt 2000 ] || fail "20 times ls took $((t1 - t0)) ms beside parked reads"
unpark
unmount_ratefs
