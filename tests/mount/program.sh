#!/bin/bash
# SPDX-License-Identifier: MIT
# ratefs as a mount program: background, foreground, mount(8), fstab, what other programs see of the
# mount, and one clear line if it cannot mount.
. "${srcdir:-.}/tests/mount/lib.sh" || exit 1
requires mount findmnt df

backing tmpfs
echo hello >"$SRC/file"

# Counts the daemons of this test; it has a pid namespace of its own.
daemons() { pgrep -x "$(basename "$RATEFS")" | wc -l; }
no_daemon() { [ "$(daemons)" = 0 ]; }
mounted() { findmnt -n "$MNT" >/dev/null; }
nothing_left() {
	! mounted || fail "$1: something is mounted"
	within 2s no_daemon || fail "$1: a daemon is left"
	equal "$(find /run/ratefs "$XDG_RUNTIME_DIR" -type s | wc -l)" 0 "$1: sockets left"
}
options_of() { findmnt -n -o OPTIONS "$MNT"; }
has_option() {
	case ,$(options_of), in
	*,"$1",*) ;;
	*) fail "option $1 is not among $(options_of)" ;;
	esac
}

# --- background: the parent returns when the mount answers -----------------------------------
for i in 1 2 3 4 5; do
	ok "$RATEFS" "$SRC" "$MNT"
	equal "$(cat "$MNT/file")" hello "right after start $i"
	ok umount "$MNT"
	nothing_left "umount $i"
done
out=$("$RATEFS" "$SRC" "$MNT" 2>&1 </dev/null) || fail "background start"	# closes what it inherits
equal "$out" ""
equal "$(readlink "/proc/$(pgrep -x "$(basename "$RATEFS")")/cwd")" / "working directory of the daemon"
kill "$(pgrep -x "$(basename "$RATEFS")")"
within 2s no_daemon || fail "SIGTERM does not end it"
nothing_left SIGTERM

# --- foreground ------------------------------------------------------------------------------
mount_ratefs
equal "$(cat "$MNT/file")" hello
stop_ratefs INT
mount_ratefs
stop_ratefs TERM
mount_ratefs
unmount_ratefs
nothing_left foreground

# --- mount(8) and fstab ----------------------------------------------------------------------
if command -v mount.fuse3 >/dev/null || command -v mount.fuse >/dev/null; then
	mount --bind "$BIN" /usr/local/sbin	# where mount.fuse3 looks, in this namespace
	ok mount -t fuse.ratefs "$SRC" "$MNT" -o iops=100k,ro,noexec,noatime,allow_other
	equal "$(cat "$MNT/file")" hello
	for o in ro noexec noatime; do has_option $o; done
	ok umount "$MNT"
	nothing_left "mount -t fuse.ratefs"
	echo "$SRC $MNT fuse.ratefs nosuid,nodev,write_bps=100M,noauto 0 0" >"$TMP/fstab"
	ok mount -T "$TMP/fstab" "$MNT"
	for o in rw nosuid nodev; do has_option $o; done
	echo more >>"$MNT/file"
	ok umount "$MNT"
	nothing_left fstab
fi

# --- what others see -------------------------------------------------------------------------
"$RATEFS" "$SRC" "$MNT" -o nosuid,nodev,noexec,noatime
equal "$(findmnt -n -o FSTYPE "$MNT")" fuse.ratefs
equal "$(findmnt -n -o SOURCE "$MNT")" "$SRC"
for o in nosuid nodev noexec noatime; do has_option $o; done
equal "$(df --output=size,iavail,itotal "$MNT" | tail -1)" "$(df --output=size,iavail,itotal "$SRC" | tail -1)" df
umount "$MNT"
"$RATEFS" "$SRC" "$MNT" -o fsname=something,subtype=else
equal "$(findmnt -n -o SOURCE "$MNT")" something
equal "$(findmnt -n -o FSTYPE "$MNT")" fuse.else
umount "$MNT"
nothing_left options

# --- help and version ------------------------------------------------------------------------
"$RATEFS" -h >"$TMP/help" || fail "-h"
grep -q '^usage: ratefs SOURCE MOUNTPOINT' "$TMP/help" || fail "-h does not say how"
"$RATEFS" --help >/dev/null || fail "--help"
[[ $("$RATEFS" -V) =~ ^ratefs\ [0-9]+\.[0-9]+ ]] || fail "-V"

# --- one clear line, and nothing left behind ---------------------------------------------------
touch "$TMP/a-file"
says "source '/nonexistent': No such file" "$RATEFS" /nonexistent "$MNT"
says "mountpoint '/nonexistent': No such file" "$RATEFS" "$SRC" /nonexistent
says "source .*not a directory" "$RATEFS" "$TMP/a-file" "$MNT"
says "mountpoint .*not a directory" "$RATEFS" "$SRC" "$TMP/a-file"
says "unknown option 'nonsense'" "$RATEFS" "$SRC" "$MNT" -o nonsense
says "did you mean 'write_bps'" "$RATEFS" "$SRC" "$MNT" -o write_bsp=10M
says "write_bps.*10Q.*unknown suffix" "$RATEFS" "$SRC" "$MNT" -o write_bps=10Q
says "bits" "$RATEFS" "$SRC" "$MNT" -o write_bps=10mbit
says "cache.*sometimes" "$RATEFS" "$SRC" "$MNT" -o cache=sometimes
says "needs SOURCE and MOUNTPOINT" "$RATEFS"
says "needs SOURCE and MOUNTPOINT" "$RATEFS" "$SRC"
says "--nonsense" "$RATEFS" --nonsense
says "cannot mount on '$MNT': the kernel does not accept 'context=foo'" "$RATEFS" "$SRC" "$MNT" -o context=foo
exits() {
	local want=$1 rc=0
	shift
	"$@" >/dev/null 2>&1 || rc=$?
	equal "$rc" "$want" "exit code of '$*'"
}
exits 2 "$RATEFS" "$SRC" "$MNT" -o allow_other,allow_root
exits 2 "$RATEFS" "$SRC" "$MNT" -o iops_burst=10
exits 2 "$RATEFS" "$SRC" "$MNT" -o source=/usr
exits 2 "$RATEFS" "$SRC" "$MNT" iops=5
says "$TMP" "$RATEFS" "$SRC" "$MNT" "$TMP"
says "No such file|cannot" "$RATEFS" -c /nonexistent/ratefs.conf
nothing_left errors
# In the background, a failure of the daemon is reported by the parent: /dev/fuse is missing here.
says "/dev/fuse" unshare -m sh -c 'mount -t tmpfs tmpfs /dev && exec "$@"' sh "$RATEFS" "$SRC" "$MNT"
nothing_left "no /dev/fuse"

# --- what a mount would hide -------------------------------------------------------------------
for dir in / /proc /dev/ /sys/../sys; do
	says "the system needs what is there; .*--force" "$RATEFS" "$SRC" "$dir"
done
nothing_left "system directories"
ok "$RATEFS" "$SRC" "$MNT"
says "ratefs is mounted there already; .*--force" "$RATEFS" "$SRC" "$MNT"
equal "$(daemons)" 1
ok "$RATEFS" "$SRC" "$MNT" --force
equal "$(findmnt -n "$MNT" | wc -l)" 2 "mounts with --force"
ok umount "$MNT"
equal "$(head -1 "$MNT/file")" hello "below the second mount"
ok umount "$MNT"
nothing_left "second mount"
