#!/bin/bash
# SPDX-License-Identifier: MIT
# Records that several programs append to one file all arrive whole, also through two mounts.
. "${srcdir:-.}/tests/mount/lib.sh" || exit 1
requires helper:iogen fold uniq

# complete FILE RECORDS_PER_WRITER WRITERS: no record is torn or lost.
complete() {
	local n
	equal "$(stat -c %s "$1")" $(($2 * $3 * 100)) "size of $1"
	n=$(fold -w 100 "$1" | sort | uniq -c | awk -v each="$2" '$1 == each' | wc -l)
	equal "$n" "$3" "writers whose records are all there"
}
append() { iogen --op write --append --shared --size 100 --count 200 --clients "${2:-6}" --path "$1" >/dev/null; }

each() {
	local mode first
	mkdir -p "$TMP/mnt2"
	for mode in auto strict page; do
		rm -f "$SRC/log"
		mount_ratefs -o "cache=$mode"
		before 30s append "$MNT/log"
		complete "$SRC/log" 200 6
		complete "$MNT/log" 200 6
		# The same file through a second mount at the same time: cached attributes must not
		# decide where the end of the file is.
		[ "$mode" != page ] || { unmount_ratefs; continue; }
		rm "$MNT/log"
		first=$DAEMON
		MNT=$TMP/mnt2 mount_ratefs -o "cache=$mode"
		before 30s both_mounts
		equal "$(stat -c %s "$SRC/log")" $((2 * 200 * 3 * 100)) "size after both"
		equal "$(fold -w 100 "$SRC/log" | sort -u | wc -l)" 3 "torn records"
		MNT=$TMP/mnt2 unmount_ratefs
		DAEMON=$first
		unmount_ratefs
	done
}
both_mounts() {
	append "$MNT/log" 3 &
	append "$TMP/mnt2/log" 3 && wait $!
}
on_each_backing each
