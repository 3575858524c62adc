#!/bin/bash
# SPDX-License-Identifier: MIT
# Shares: equal between processes whatever their block size, by weight if set, by user; a light
# caller waits about one turn; other classes don't wait at all.
#
# A client that does not get a CPU does not ask for its share, so the delays of the machine itself
# (beside_noise) are added to the bounds.  Exactness belongs to the unit tests with the fake clock.
. "${srcdir:-.}/tests/mount/lib.sh" || exit 1
requires helper:iogen helper:noise jq

backing tmpfs
head -c 8M /dev/zero >"$SRC/file"
sanitized && SLOW=4 || SLOW=1	# a sanitizer's build serves so much less

TIME=3	# seconds that are measured
reads() {
	beside_noise iogen --op read --skip 0.5 --time $TIME --path "$MNT/file" "$@" >"$TMP/out" || fail "iogen"
	LOST=$(awk -v ms="$NOISE_MS" -v s=$TIME 'BEGIN { print ms / 1000 / s }')	# of the time
}
holds() { awk "BEGIN { exit !($1) }" || fail "$2: not true that $1 (the machine was late by $NOISE_MS ms)"; }

# Rates are low and clients many, so that each client, or another one of its user, waits although this machine delays them.
# The rate may be exceeded by what the bucket holds, a tenth of a second's worth, and by 5 ms.
RATE=$((8 * 1048576 / SLOW))
mount_ratefs -o read_bps=$RATE
reads --size 8K,32K,128K,512K --clients 8
holds "$(json .jain "$TMP/out") >= 0.97 - $LOST" "equal shares"
holds "$(json .total.bytes_per_s "$TMP/out") > $RATE * (0.95 - $LOST)" "the rate is used"
holds "$(json .total.bytes_per_s "$TMP/out") < $RATE * (1.04 + $LOST)" "the rate is kept"
unmount_ratefs

mount_ratefs -o "read_bps=$((5 / SLOW + 1))M,fair=uid,weight=uid:1001=1,weight=uid:1002=2,weight=uid:1003=4"
reads --size 16K --clients 24 --uids 1001,1002,1003
# What is read while some clients are delayed may be anybody's: LOST is of the total, which is 7.
for uid in 1001 1002 1003; do
	share=$(jq "([.clients[] | select(.uid == $uid) | .bytes] | add) / .total.bytes * 7" "$TMP/out")
	holds "$share > 2 ^ ($uid - 1001) * 0.9 - 7 * $LOST" "the share of $uid"
	holds "$share < 2 ^ ($uid - 1001) * 1.1 + 7 * $LOST" "the share of $uid"
done
unmount_ratefs

# 16 heavy readers of 1 MiB at 20 MB/s: a turn is 50 ms.  The light one waits for the turn that is being taken and for its
# own; in FIFO order it would wait 800 ms.
mount_ratefs -o read_bps=20M
reads --size 1M --clients 17 --light 1
holds "$(jq '.clients[-1].lat_us.p50' "$TMP/out") < 100000 + 1000 * $NOISE_MS" "half of the light reads"
# ls does not wait behind reads: 200 of these would take 10 s.
park_readers 200 --size 1M
list_often() { for _ in {1..20}; do ls -l "$MNT/" >/dev/null || return; done; }
before 5s list_often
unpark
unmount_ratefs
