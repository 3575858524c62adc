#!/bin/bash
# SPDX-License-Identifier: MIT
# Shares: equal between processes whatever their block size, by weight where asked, by user; a light
# caller waits about one turn; other classes don't wait at all.
#
# A client that is not on a CPU does not ask for its share, so a busy machine can spoil a try: each
# check has three.  Exactness belongs to the unit tests on the fake clock.
. "${srcdir:-.}/tests/mount/lib.sh" || exit 1
requires helper:iogen jq

backing tmpfs
head -c 8M /dev/zero >"$SRC/file"
sanitized && SLOW=4 || SLOW=1	# a sanitizer's build serves so much less

three_tries() {
	local i
	for i in 1 2 3; do
		"$@" && return
		say "try $i of '$*': $WHY"
	done
	fail "$*: $WHY"
}
holds() { WHY=$1; awk "BEGIN { exit !($1) }"; }
reads() { iogen --op read --skip 0.5 --path "$MNT/file" "$@" >"$TMP/out" || fail "iogen"; }

equal_shares() {
	reads --size 4K,16K,64K,256K,1M --clients 8 --time 3
	holds "$(json .jain "$TMP/out") >= 0.97" && holds "$(json .total.bytes_per_s "$TMP/out") > $RATE * 0.95" &&
		holds "$(json .total.bytes_per_s "$TMP/out") < $RATE * 1.15"
}
RATE=$((20 * 1048576 / SLOW))
mount_ratefs -o read_bps=$RATE
three_tries equal_shares
unmount_ratefs

share() { jq "([.clients[] | select(.uid == $1) | .bytes] | add) / .total.bytes * 7" "$TMP/out"; }
weighted_shares() {
	local uid
	reads --size 16K --clients 6 --uids 1001,1002,1003 --time 3
	for uid in 1001 1002 1003; do
		holds "$(share $uid) > 2 ^ ($uid - 1001) * 0.9" && holds "$(share $uid) < 2 ^ ($uid - 1001) * 1.1" || return
	done
}
mount_ratefs -o "read_bps=$((5 / SLOW + 1))M,fair=uid,weight=uid:1001=1,weight=uid:1002=2,weight=uid:1003=4"
three_tries weighted_shares
unmount_ratefs

# 16 heavy readers of 1 MiB at 20 MB/s: a turn is 50 ms; in FIFO order a light one would wait 800.
light_reader() {
	reads --size 1M --clients 17 --light 1 --time 4
	holds "$(jq '.clients[-1].lat_us.p50' "$TMP/out") < 150000"
}
mount_ratefs -o read_bps=20M
three_tries light_reader
# And ls does not wait behind reads: 200 of them would take 10 s.
park_readers 200 --size 1M
list_often() { for _ in {1..20}; do ls -l "$MNT/" >/dev/null || return; done; }
before 5s list_often
unpark
unmount_ratefs
