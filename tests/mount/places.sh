#!/bin/bash
# SPDX-License-Identifier: MIT
# Unusual places: over the source, inside the source, on top of FUSE, overlay and submounts.
. "${srcdir:-.}/tests/mount/lib.sh" || exit 1

fresh() {
	backing tmpfs
	mkdir "$SRC/dir" "$SRC/dir/sub"
	echo data >"$SRC/dir/file"
}
answered() {	# path: the tree of fresh is there and can be written
	equal "$(before 5s cat "$1/dir/file")" data "$1"
	before 5s touch "$1/dir/sub/new"
	before 5s find "$1" >/dev/null
	rm "$1/dir/sub/new"
}

fresh
# Over the source itself.
MNT=$SRC mount_ratefs
answered "$SRC"
findmnt -nM "$SRC" -o FSTYPE | grep -q fuse.ratefs || fail "not mounted over"
MNT=$SRC unmount_ratefs
[ -e "$SRC/dir/file" ] || fail "the source is gone"

# Inside the source: the mountpoint shows what is below it in the source, and there is no recursion.
mkdir "$SRC/dir/here"
echo below >"$SRC/dir/here/covered"
MNT=$SRC/dir/here mount_ratefs
answered "$SRC/dir/here"
equal "$(cat "$SRC/dir/here/dir/here/covered")" below "what the mount covers"
[ ! -e "$SRC/dir/here/dir/here/dir" ] || fail "it recurses"
before 5s ls -R "$SRC/dir/here" >/dev/null
before 5s rm "$SRC/dir/here/dir/here/covered"
MNT=$SRC/dir/here unmount_ratefs

# A filesystem mounted below the source is not part of the mirror.
mkdir "$SRC/other"
mount -t tmpfs tmpfs "$SRC/other"
touch "$SRC/other/foreign"
mount_ratefs
[ ! -e "$MNT/other/foreign" ] || fail "a submount shines through"
ok touch "$MNT/other/underneath"
unmount_ratefs
umount "$SRC/other"
[ -e "$SRC/other/underneath" ] || fail "not written below the submount"

# Two mounts of one source see each other's changes.
mkdir "$TMP/mnt2"
mount_ratefs -o attr_timeout=0,entry_timeout=0
first=$DAEMON
MNT=$TMP/mnt2 mount_ratefs -o attr_timeout=0,entry_timeout=0
echo one >"$MNT/shared"
equal "$(cat "$TMP/mnt2/shared")" one
echo two >"$TMP/mnt2/shared"
equal "$(cat "$MNT/shared")" two
MNT=$TMP/mnt2 unmount_ratefs
DAEMON=$first
unmount_ratefs

# ratefs on ratefs.
mount_ratefs -o cache=strict
first=$DAEMON
one=$MNT
SRC=$one MNT=$TMP/mnt2 mount_ratefs
answered "$TMP/mnt2"
# The lower mount may forget inodes that the upper one still knows.
coproc holder { python3 -c '
import os, sys
fd = os.open(sys.argv[1], os.O_PATH)
print("ready", flush=True)
sys.stdin.readline()
os.stat("/proc/self/fd/%d" % fd)
print("found", flush=True)' "$TMP/mnt2/dir/file"; }
holding=$!
read -r -t 10 -u "${holder[0]}" line
sync
echo 2 >/proc/sys/vm/drop_caches
nap 1500ms	# the attributes that the kernel remembers
echo >&"${holder[1]}"
read -r -t 10 -u "${holder[0]}" line
equal "$line" found "a file that the lower mount forgot"
wait $holding
MNT=$TMP/mnt2 unmount_ratefs
DAEMON=$first
unmount_ratefs

# Another FUSE filesystem below.
if command -v bindfs >/dev/null; then
	bindfs "$SRC" "$TMP/mnt2" || fail bindfs
	SRC=$TMP/mnt2 mount_ratefs
	answered "$MNT"
	unmount_ratefs
	umount "$TMP/mnt2"
fi

# An overlay below.
mkdir "$BACK/upper" "$BACK/work"
if mount -t overlay -o "lowerdir=$SRC,upperdir=$BACK/upper,workdir=$BACK/work" overlay "$TMP/mnt2" 2>/dev/null; then
	SRC=$TMP/mnt2 mount_ratefs
	answered "$MNT"
	echo changed >"$MNT/dir/file"	# copied up
	equal "$(cat "$TMP/mnt2/dir/file")" changed
	ok mv "$MNT/dir/file" "$MNT/moved"
	ok rm -r "$MNT/dir"
	[ ! -e "$TMP/mnt2/dir" ] || fail "still there"
	unmount_ratefs
	umount "$TMP/mnt2"
else
	say "no overlay here"
fi

# A source that shows several devices: an overlay of two filesystems, whose files may have the same numbers.
mkdir -p "$TMP/lower" "$TMP/top" "$TMP/mnt3"
if mount -t tmpfs -o mode=755 lower "$TMP/lower" && mount -t tmpfs -o mode=755 top "$TMP/top" &&
	mkdir "$TMP/top/upper" "$TMP/top/work" "$TMP/lower/d" && touch "$TMP"/lower/d/l{1..40} &&
	mount -t overlay -o "xino=off,lowerdir=$TMP/lower,upperdir=$TMP/top/upper,workdir=$TMP/top/work" overlay "$TMP/mnt3" \
		2>/dev/null; then
	touch "$TMP"/mnt3/d/u{1..40}
	numbers() { stat -c "%i" "$1"/d/[lu]* | sort | uniq -d | wc -l; }
	[ "$(numbers "$TMP/mnt3")" -gt 0 ] || say "no two files have the same number here"
	SRC_BEFORE=$SRC SRC=$TMP/mnt3
	mount_ratefs
	equal "$(numbers "$MNT")" 0 "different files with the same number"
	unmount_ratefs
	SRC=$SRC_BEFORE
	umount "$TMP/mnt3" "$TMP/lower" "$TMP/top"
fi

# Names that a parser of options or paths could misinterpret.
odd="$BACK/a, b=c\\d \"e\""
mkdir "$odd" "$TMP/to, b"
touch "$odd/x"
SRC=$odd MNT="$TMP/to, b" mount_ratefs
[ -e "$TMP/to, b/x" ] || fail "odd names"
umount "$TMP/to, b"
daemon_ended_well

# A path through a link is refused if that was asked for, wherever on the path the link is; any other is not.
ln -s src "$BACK/link"
for place in link link/dir src; do
	printf '[mount:m]\nsource = "%s"\nmountpoint = "%s"\nsource_nofollow = yes\n' "$BACK/$place" "$MNT" >"$TMP/conf"
	[ $place = src ] || says 'its path leads through a symbolic link' "$RATEFS" -c "$TMP/conf"
done
ok "$RATEFS" -c "$TMP/conf"
answered "$MNT"
umount "$MNT"
