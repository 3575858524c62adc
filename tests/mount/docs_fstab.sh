#!/bin/bash
# SPDX-License-Identifier: MIT
# The line of fstab that README and ratefs(8) show: mount(8) finds ratefs and reports its errors.
. "${srcdir:-.}/tests/mount/lib.sh" || exit 1
requires mount.fuse3 findmnt

# Installs ratefs where mount(8) looks for it, in the test's own namespace.
mount -t tmpfs -o mode=755 tmpfs /usr/local/bin || skip "cannot mount a tmpfs"
install -m 755 "$RATEFS" /usr/local/bin/ratefs

backing tmpfs
echo hello >"$SRC/file"
cat >"$TMP/fstab" <<EOF
$SRC $MNT fuse.ratefs iops=200,read_bps=10M,fair=uid,weight=uid:0=4+uid:50=2,nosuid,nodev,nofail,_netdev,x-systemd.requires=x 0 0
EOF
ok mount -T "$TMP/fstab" "$MNT"
equal "$(cat "$MNT/file")" hello
equal "$(findmnt -no SOURCE,FSTYPE "$MNT" | tr -s ' ')" "$SRC fuse.ratefs"
findmnt -no OPTIONS "$MNT" | grep -q nosuid,nodev || fail "nosuid,nodev are lost: $(findmnt -no OPTIONS "$MNT")"
pid=$(ctl list --json | jq '.daemons[0].pid')
equal "$(ctl show "$MNT" --json | jq -r '.options | .iops.value, .read_bps.value, .weight.value' | tr '\n' ' ')" \
	"200 10M uid:0=4+uid:50=2 "

# Flags can be changed while mounted; limits stay, and a message says so.
has_flag() { findmnt -no OPTIONS "$MNT" | grep -qw "$1"; }
mount -T "$TMP/fstab" -o remount,ro,noexec "$MNT" 2>"$TMP/err" || fail "remount: $(cat "$TMP/err")"
grep -q "'ratefsctl set' changes limits" "$TMP/err" || fail "nothing was said about limits: $(cat "$TMP/err")"
has_flag ro && has_flag noexec && has_flag nosuid && has_flag nodev || fail "$(findmnt -no OPTIONS "$MNT")"
refused touch "$MNT/new"
ok mount -o remount,rw "$MNT"
ok touch "$MNT/new"
has_flag noexec || fail "a flag was lost: $(findmnt -no OPTIONS "$MNT")"
equal "$(ctl show "$MNT" --json | jq -r '.options.iops.value')" 200
ok mount -o remount,nosymfollow,noatime "$MNT"
ok mount -o remount,exec "$MNT"
has_flag nosymfollow && has_flag noatime && ! has_flag noexec || fail "$(findmnt -no OPTIONS "$MNT")"
ok mount -o remount,atime,symfollow "$MNT"
! has_flag nosymfollow && ! has_flag noatime || fail "$(findmnt -no OPTIONS "$MNT")"
says 'is not a FUSE mount' ratefs "$SRC" "$BACK" -o remount,ro
ok umount "$MNT"
within 15s gone "$pid" || fail "the daemon is still there after umount"

says "iops: '20mbit': bits are not accepted" mount -t fuse.ratefs "$SRC" "$MNT" -o iops=20mbit
says "source '.*/nothing': No such file or directory" mount -t fuse.ratefs "$TMP/nothing" "$MNT" -o iops=20
! mountpoint -q "$MNT" || fail "something is mounted"
