#!/bin/bash
# SPDX-License-Identifier: MIT
# The edges of a filesystem are those of the backing: read-only, full, out of links.
. "${srcdir:-.}/tests/mount/lib.sh" || exit 1
requires helper:conform

read_only() {
	(cd "$PLAIN" && conform readonly_before) >/dev/null || fail "cannot prepare"
	(cd "$SRC" && conform readonly_before) >/dev/null || fail "cannot prepare"
	mount --bind "$PLAIN" "$PLAIN"
	mount -o remount,bind,ro "$PLAIN"
	mount_ratefs -o ro
	same_on_both conform readonly
	unmount_ratefs
	umount "$PLAIN"
}
# A mount that may write, on a source that may not be written.
read_only_source() {
	mount --bind "$SRC" "$SRC"
	mount -o remount,bind,ro "$SRC"
	mount_ratefs
	refused touch "$MNT/new"
	refused touch "$MNT/readonly/f"
	says 'Read-only file system' rm "$MNT/readonly/f"
	ok cat "$MNT/readonly/f"
	unmount_ratefs
	umount "$SRC"
}
both() {
	read_only
	read_only_source
}
on_each_backing both

# full KIND cache: nothing is lost that was acknowledged, and space that is given back can be used.
full() {
	backing "$1" 16M
	BACKING=$1
	conforms "cache=$2" full
	unbacking
}
full tmpfs strict
full tmpfs page
full tmpfs auto
if loop_works; then
	full ext4 strict
	full ext4 auto
	backing ext4
	BACKING=ext4
	conforms cache=auto many_links
fi
