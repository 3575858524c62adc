#!/bin/bash
# SPDX-License-Identifier: MIT
# tar, rsync and cp -a copy a tree to the mount and back: data, holes, hard links, owners, modes,
# times, attributes and ACLs are those of the original.
. "${srcdir:-.}/tests/mount/lib.sh" || exit 1
requires tar rsync cp setfattr setfacl getfacl

make_tree() {
	mkdir -p "$1/dir/sub" "$1/private" "$1/shared"
	head -c 300000 /dev/urandom >"$1/dir/random"
	echo text >"$1/dir/text"
	ln "$1/dir/text" "$1/dir/sub/hard"
	ln "$1/dir/text" "$1/hard2"
	ln -s ../dir/text "$1/dir/sub/soft"
	ln -s nowhere "$1/dangling"
	truncate -s 5M "$1/sparse"
	printf data | dd of="$1/sparse" bs=1 seek=2000000 conv=notrunc status=none
	printf data | dd of="$1/sparse" bs=1 seek=4999000 conv=notrunc status=none
	mkfifo "$1/fifo"
	mknod "$1/device" c 1 3
	printf 'odd' >"$1/$(printf 'na\001me \377\n*')"
	: >"$1/$(printf 'n%.0s' {1..255})"
	chown 1001:1002 "$1/dir/random"
	chown -h 1002:2000 "$1/dangling"
	chmod 4711 "$1/dir/random"
	chmod 2775 "$1/shared"
	chmod 1777 "$1/private"
	setfattr -n user.colour -v blue "$1/dir/text"
	setfattr -n trusted.note -v 0x00ff01 "$1/dir"
	setfacl -m u:1001:rw,g:2000:r "$1/dir/text"
	setfacl -d -m u:1002:rwx "$1/shared"
	# Old times, because rsync does not correct times that differ by less than a second.
	find "$1" -exec touch -h -d '2010-10-10 10:10:10.987654321' {} +
	touch -d '1999-12-31 23:59:59.123456789' "$1/dir/text"
	touch -h -d '2001-02-03 04:05:06.789' "$1/dir/sub/soft"
	touch -d '2005-05-05 05:05:05.5' "$1/dir" "$1/shared" "$1"
}
holes() { [ "$(stat -c %b "$1/sparse")" -lt 2000 ] || fail "$1/sparse is not sparse any more"; }

each() {
	local mode
	for mode in $(modes); do
		rm -rf "${PLAIN:?}"/* "${SRC:?}"/*
		make_tree "$PLAIN"
		mount_ratefs -o "cache=$mode"
		cp -a "$PLAIN" "$MNT/cp" || fail "cp -a onto the mount"
		same_tree "$PLAIN" "$MNT/cp"
		same_tree "$PLAIN" "$SRC/cp"
		holes "$MNT/cp"
		(cd "$PLAIN" && tar cf - -S --acls --xattrs --xattrs-include='*' .) >"$TMP/tar"
		mkdir "$MNT/tar"
		(cd "$MNT/tar" && tar xpf "$TMP/tar" --acls --xattrs --xattrs-include='*') || fail "tar x"
		same_tree "$PLAIN" "$MNT/tar"
		holes "$MNT/tar"
		rsync -aHAXS --devices --specials "$PLAIN/" "$MNT/rsync/" || fail "rsync onto the mount"
		same_tree "$PLAIN" "$MNT/rsync"
		# Back again.
		rsync -aHAXS --devices --specials "$MNT/cp/" "$BACK/back-rsync/" || fail "rsync off the mount"
		same_tree "$PLAIN" "$BACK/back-rsync"
		(cd "$MNT/cp" && tar cf - -S --acls --xattrs --xattrs-include='*' .) >"$TMP/tar2"
		mkdir "$BACK/back-tar"
		(cd "$BACK/back-tar" && tar xpf "$TMP/tar2" --acls --xattrs --xattrs-include='*') || fail "tar x"
		same_tree "$PLAIN" "$BACK/back-tar"
		cp -a "$MNT/rsync" "$BACK/back-cp" || fail "cp -a off the mount"
		same_tree "$PLAIN" "$BACK/back-cp"
		equal "$(rsync -aHAXSni --devices --specials "$PLAIN/" "$MNT/rsync/")" "" "rsync sees changes"
		rm -rf "$BACK"/back-* || fail "rm -r"
		rm -rf "${MNT:?}"/* || fail "rm -r on the mount"
		unmount_ratefs
	done
}
on_each_backing each
