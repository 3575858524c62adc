#!/bin/bash
# SPDX-License-Identifier: MIT
# Whatever four writers do concurrently, the count agrees with du and never exceeds size.
# RATEFS_SEED, RATEFS_ROUNDS: the sequence of an earlier run, a longer one.
. "${srcdir:-.}/tests/mount/space_lib.sh" || exit 1
requires helper:spacestorm
seed=${RATEFS_SEED:-$RANDOM} rounds=${RATEFS_ROUNDS:-2}
say "RATEFS_SEED=$seed"
LOG_EXPECTED="$LOG_EXPECTED|too many changes during a recount"

storms() { # MODE...
	local i mode how before
	for mode in "$@"; do
		mount_ratefs -o "cache=$mode,size=1G"
		for i in $(seq "$rounds"); do
			ok spacestorm "$MNT" $((seed + i)) 150
			counts_exactly "$BACKING, cache=$mode, seed $((seed + i))"
		done
		# What it does during a scan is counted once; if it renames directories, the scan does not count.
		for how in still moving; do
			ok spacestorm "$MNT" $((seed + 100)) 150 4 ${how#moving} &
			nap 100ms
			ok ctl rescan "$MNT"
			wait $! || fail "spacestorm"
			within 10s scan_is_over || fail "the rescan does not end"
			counts_exactly "$BACKING, cache=$mode, $how during a rescan"
		done
		before="$(space used) counted, $(held) held"
		unmount_ratefs
		mount_ratefs -o "cache=$mode,size=1G"
		equal "$(space scans)" 0 "the total of the last time was to be used"
		counts_exactly "$BACKING, cache=$mode, mounted again (before: $before)"
		unmount_ratefs
		rm -rf "${SRC:?}"/* "$TMP/state" # it was not to be changed while not mounted
	done
}
scan_is_over() { [ "$(space rescanning)" = false ]; }

# Little room: most requests are refused, and du never shows more than size, except for block maps
# and directories.
full() { # [BYTES for block maps and directories]
	mount_ratefs -o size=4M,inodes=150
	ok spacestorm "$MNT" "$seed" 300
	counts_exactly "$BACKING, full"
	[ "$(space refused)" -gt 0 ] || fail "nothing was refused"
	[ "$(held)" -le $((4 * 1048576 + ${1:-131072})) ] || fail "$BACKING holds $(held) bytes with size=4M"
	[ "$(names_held)" -le 150 ] || fail "$(names_held) files with inodes=150"
	unmount_ratefs
	rm -rf "${SRC:?}"/* "$TMP/state" # it was not to be changed while not mounted
}
# Blocks for a file's block map appear when its data is written to disk: long after the file was
# closed, or while it is still open.
late() {
	[ "$BACKING" != tmpfs ] || return 0
	mount_ratefs -o size=1G
	exec 9<>"$MNT/open"
	for at in $(seq 0 2 40); do
		for f in open closed; do
			ok dd if=/dev/zero of="$MNT/$f" bs=4k count=1 seek="$at" conv=notrunc status=none
		done
	done
	nap 7s
	counts_exactly "$BACKING, written late"
	exec 9>&-
	unmount_ratefs
	rm -rf "${SRC:?}"/* "$TMP/state" # it was not to be changed while not mounted
}
each() {
	late
	storms auto strict page
	full
}
on_each_counted each
# Without extents, a file of more than 48 KiB needs at least one block for its map, and the files of
# a storm at most two.
if loop_works && backing_indirect; then
	BACKING=indirect
	late
	storms auto
	full $((131072 + 150 * 2 * 4096))
	unbacking
else
	say "no ext4 without extents: loop devices don't work here"
fi
