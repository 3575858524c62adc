#!/bin/bash
# SPDX-License-Identifier: MIT
# Limits and shares hold while other callers list directories, close files or never wait, and while
# limits are changed: the upper bounds follow from the rate, the shares from fair=uid.
. "${srcdir:-.}/tests/mount/lib.sh" || exit 1
requires helper:shares

backing tmpfs
mkdir "$SRC/big"
ok shares fill "$SRC/big" 5000 # more than 1 MiB of names
head -c 1M /dev/zero >"$SRC/file"
chmod 666 "$SRC/file"
MIB=1048576

# holds CONDITION WHAT: CONDITION is an awk expression with the numbers filled in.
holds() { awk "BEGIN { exit !($1) }" || fail "$2: $1"; }
alice() { as_user alice shares "$@"; }
bob() { as_user bob shares "$@"; }
# beside COMMAND -- COMMAND: runs both concurrently; their output is in $A and $B.
beside() {
	local first=()
	while [ "$1" != -- ]; do first+=("$1"); shift; done
	shift
	"${first[@]}" >"$TMP/a" &
	local pid=$!
	"$@" >"$TMP/b" || fail "'$*' ended with $?"
	wait $pid || fail "'${first[*]}' ended with $?"
	A=$(cat "$TMP/a") B=$(cat "$TMP/b")
}

# Listings obey the limit, however many there are and however much each asks for.
listings() { # read_bps threads
	mount_ratefs -o "read_bps=$1,fair=uid"
	local n
	n=$(alice list "$MNT/big" $MIB "$2" 2) || fail "list"
	holds "$n <= $1 * 2.2 + $1 / 10 + $MIB" "$2 threads listing at $1 bytes per second for 2 s"
	holds "$n > 0" "$2 threads listing"
}
listings $MIB 10
unmount_ratefs
listings $((10 * MIB)) 200
# Listings cause no debt for others.
nap 300ms
beside alice list "$MNT/big" $MIB 200 3 -- bob read "$MNT/file" 65536 3
holds "${B% *} >= 10 * $MIB * 3 * 0.3" "bytes that a reader gets beside 200 threads that list"
holds "${B#* } <= 1500" "the longest wait of a reader beside 200 threads that list, ms"
equal "$(find "$MNT/big" -type f | wc -l)" 5000 "names in a listing that was cut into pieces"
unmount_ratefs

# Closes are charged to the user who closes.
mount_ratefs -o iops=1000,fair=uid
beside alice close "$MNT/file" 2 -- bob pause "$MNT/file" 2
read -r _ mean worst <<<"$B"
holds "$mean <= 15" "mean wait beside one who closes without end, ms"
holds "$worst <= 200" "longest wait beside one who closes without end, ms"
holds "$A >= 3000" "closes that did not wait"
# At 1000 per second, paying for these closes takes a while, and alice's next request waits for it.
as_user alice timeout -s KILL 0.5 "$BIN/shares" pause "$MNT/file" 0.01 >/dev/null 2>&1
equal $? 137 "the next request of one who has closed $A times"
unmount_ratefs

# A program that retries in a loop gets the same share as one that polls.
mount_ratefs -o read_bps=$MIB,fair=uid
beside alice spin "$MNT/file" 4096 3 -- bob poll "$MNT/file" 4096 3
holds "$A <= 1.6 * $B && $B <= 1.6 * $A" "bytes of one who spins and of one who polls"
holds "$A + $B <= $MIB * 3.2 + $MIB / 10" "bytes of both in 3 s"
unmount_ratefs

# Byte limits apply to the values of extended attributes.
if setfattr -n user.probe -v "$(head -c 16384 /dev/zero | tr '\0' x)" "$SRC/file" 2>/dev/null; then
	mount_ratefs -o bps=$MIB
	n=$(shares getxattr "$MNT/file" user.probe 2) || fail "getxattr"
	holds "$n <= $MIB * 2.2 + $MIB / 10 + 65536" "bytes of attributes read in 2 s"
	holds "$n >= $MIB" "bytes of attributes read in 2 s"
	nap 200ms
	n=$(shares setxattr "$MNT/file" user.probe 16384 2) || fail "setxattr"
	holds "$n <= $MIB * 2.2 + $MIB / 10 + 16384" "bytes of attributes written in 2 s"
	holds "$n >= $MIB" "bytes of attributes written in 2 s"
	unmount_ratefs
fi

# Setting and removing limits does not change the shares of others.
mount_ratefs -o read_bps=$MIB,fair=uid
readers=()
for uid in 1001 1002 1003 1004 1005; do
	as_user $uid shares read "$MNT/file" 16384 3 >"$TMP/share.$uid" &
	readers+=($!)
done
for _ in {1..25}; do
	ok ctl set "$MNT" write_iops=1000 >/dev/null
	nap 50ms
	ok ctl set "$MNT" write_iops=off >/dev/null
	nap 50ms
done
wait "${readers[@]}" || fail "a reader ended with $?"
sort -n "$TMP"/share.* >"$TMP/shares"
holds "$(awk 'NR == 1 { print $1 }' "$TMP/shares") * 1.5 >= $(awk 'END { print $1 }' "$TMP/shares")" \
	"the smallest and the largest of five equal shares while a limit is toggled"
unmount_ratefs
