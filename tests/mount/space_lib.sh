# SPDX-License-Identifier: MIT
# shellcheck shell=bash
# What the tests of size and inodes share.
. "${srcdir:-.}/tests/mount/lib.sh" || exit 1
requires jq

space() { ctl stats "${2:-$MNT}" --json | jq -r ".space.$1"; }
held() { du -s --block-size=1 "$SRC" | cut -f 1; }
names_held() { find "$SRC" -printf '%i\n' | sort -u | wc -l; }
# The count agrees with what the tree holds.
is_exact() {
	[ "$(space used)" = "$(held)" ] && [ "$(space inodes_used)" = "$(names_held)" ]
}
# Writing data to disk may need blocks for the block map of its file; the daemon then checks the
# file again.
counts_exactly() {
	sync -f "$SRC"
	within 10s is_exact ||
		fail "$1: counted $(space used) bytes, $(space inodes_used) inodes; there are $(held), $(names_held)"
}
# backing_xfs: like `backing`, with a filesystem that preallocates blocks for open files.
# The image is in memory: a thousand syncs on a busy disk can take more than a minute.
backing_xfs() {
	local image=$TMP/memory/xfs.img
	mkdir -p "$TMP/memory"
	mountpoint -q "$TMP/memory" || mount -t tmpfs tmpfs "$TMP/memory" || fail "tmpfs"
	truncate -s 512M "$image"
	mkfs.xfs -q -f "$image" || fail "mkfs.xfs"
	mount -t xfs -o loop "$image" "$BACK" 2>/dev/null || return 1
	mkdir -p "$SRC" "$PLAIN"
}
# backing_indirect: like `backing`, with a filesystem whose block maps take blocks of their own.
backing_indirect() {
	truncate -s 1G "$TMP/ext4.img"
	mount_ext4 -O ^extents,^64bit || return 1
	mkdir -p "$SRC" "$PLAIN"
}
# on_each_counted FUNCTION: calls it on ext4, xfs and tmpfs, as far as these are available.
on_each_counted() {
	on_each_backing "$@"
	if command -v mkfs.xfs >/dev/null && loop_works && backing_xfs; then
		BACKING=xfs
		"$@"
		unbacking
		rm -f "$TMP/memory/xfs.img"
	else
		say "no xfs: no mkfs.xfs, no loop device or no such filesystem in this kernel"
	fi
}
