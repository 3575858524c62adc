#!/bin/bash
# SPDX-License-Identifier: MIT
# The daemon unmounts its own mount and no other, whatever is at its path by then.
LOG_EXPECTED=.
. "${srcdir:-.}/tests/mount/lib.sh" || exit 1

backing tmpfs
echo hello >"$SRC/file"
fstype() { findmnt -no FSTYPE -M "$1" | tail -1; }
stop_any() {
	kill -TERM "$DAEMON"
	daemon_ended_well
}
log_says() { grep -Eq "$1" "$LOG" || fail "the log does not say '$1': $(cat "$LOG")"; }

# Something else was mounted on top: that stays, and our mount below it is dead.
mount_ratefs
mount -t tmpfs top "$MNT"
echo top >"$MNT/mine"
stop_any
equal "$(fstype "$MNT")" tmpfs "what lies on top"
equal "$(cat "$MNT/mine")" top
log_says 'cannot be unmounted and remains, dead: another mount is on it, at'
ok umount "$MNT"
refused ls "$MNT"
ok umount "$MNT"

# A mount inside ours belongs to somebody else, too: it stays.
mkdir "$SRC/dir"
mount_ratefs
mount -t tmpfs inside "$MNT/dir"
stop_any
grep -q " $MNT/dir " /proc/self/mounts || fail "a mount inside was taken away"
log_says 'another mount is on it, at .*/dir'
umount -l "$MNT"

# The parent directory was renamed, and its name leads to another mount: ours is unmounted, the
# other one stays.
mkdir -p "$TMP/parent/mnt" "$TMP/theirs/mnt"
mount -t tmpfs theirs "$TMP/theirs/mnt"
MNT=$TMP/parent/mnt mount_ratefs
mv "$TMP/parent" "$TMP/moved"
ln -s "$TMP/theirs" "$TMP/parent"
stop_any
equal "$(fstype "$TMP/theirs/mnt")" tmpfs "somebody else's mount"
! mountpoint -q "$TMP/moved/mnt" || fail "the moved mount outlived its daemon"

# The same with a directory in place of the link.
rm "$TMP/parent"
mv "$TMP/moved" "$TMP/parent"
MNT=$TMP/parent/mnt mount_ratefs
mv "$TMP/parent" "$TMP/moved"
mv "$TMP/theirs" "$TMP/parent"
stop_any
equal "$(fstype "$TMP/parent/mnt")" tmpfs "somebody else's mount"
! mountpoint -q "$TMP/moved/mnt" || fail "the moved mount outlived its daemon"

# One mount of a daemon inside another: both are unmounted.
mkdir "$SRC/inner" "$TMP/other"
printf '[mount:outer]\nsource = %s\nmountpoint = %s\ncache = strict\n[mount:inner]\nsource = %s\nmountpoint = %s\n' \
	"$SRC" "$MNT" "$TMP/other" "$MNT/inner" >"$TMP/ratefs.conf"
"$RATEFS" -f -c "$TMP/ratefs.conf" >"$LOG" 2>&1 &
DAEMON=$!
within 5s grep -q "serving.*inner" "$LOG" || fail "no mounts"
ok mountpoint -q "$MNT/inner"
stop_any
! grep -q " $MNT" /proc/self/mounts || fail "left behind: $(grep " $MNT" /proc/self/mounts)"
