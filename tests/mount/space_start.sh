#!/bin/bash
# SPDX-License-Identifier: MIT
# The first count: it can be watched and interrupted, does not enter other mounts, and works for
# ordinary users and on read-only sources.
# shellcheck disable=SC2016 # expanded by the shell that runs it
. "${srcdir:-.}/tests/mount/space_lib.sh" || exit 1

# A slow source: another, throttled mount.
mkdir -p "$TMP/tree" "$SRC"
for i in $(seq 200); do : >"$TMP/tree/$i"; done
"$RATEFS" -f "$TMP/tree" "$SRC" -o iops=20,cache=strict >"$TMP/slow.log" 2>&1 &
slow=$!
within 10s mountpoint -q "$SRC" || fail "the slow source did not come up"
for signal in TERM INT; do
	"$RATEFS" -f "$SRC" "$MNT" -o size=1G >"$LOG" 2>&1 &
	DAEMON=$!
	within 10s sh -c '"$0" list | grep -q "counting what the source holds"' "$RATEFSCTL" || fail "list does not show the count"
	! mountpoint -q "$MNT" || fail "mounted before it was counted"
	t0=$(now_ms)
	kill -"$signal" "$DAEMON"
	within 5s gone "$DAEMON" || fail "SIG$signal does not interrupt the count"
	wait "$DAEMON"
	DAEMON=
	! mountpoint -q "$MNT" || fail "mounted all the same"
done
# Set while mounted: nothing waits for the count, and nothing is refused before it is complete.
mount_ratefs
ctl set "$MNT" size=4k >/dev/null || fail "set"
ctl stats "$MNT" | grep -q "not enforced yet: counting" || fail "stats does not show the count"
ok touch "$MNT/new"
stop_ratefs
kill "$slow"
wait "$slow"
rm -rf "$TMP/tree"

# Mounts inside the source are not counted.
mkdir -p "$SRC/inside"
mount -t tmpfs tmpfs "$SRC/inside"
head -c 3M /dev/zero >"$SRC/inside/other"
head -c 1M /dev/zero >"$SRC/file"
mount_ratefs -o size=10M
umount "$SRC/inside"
counts_exactly "with a mount inside"
unmount_ratefs

# A daemon of an ordinary user, with a state directory of its own.
chown -R 1001:1001 "$SRC"
mkdir -m 700 "$TMP/home" "$TMP/alice"
chown 1001:1001 "$TMP/home" "$TMP/alice" "$MNT"
# /dev/fuse is open to everybody on most systems, and users have names; make it so in this namespace.
mknod "$TMP/fuse" c 10 229
chmod 666 "$TMP/fuse"
cp /etc/passwd "$TMP/passwd"
getent passwd 1001 >/dev/null || echo 'alice:x:1001:1001::/:/bin/sh' >>"$TMP/passwd"
if [ -u "$(command -v fusermount3)" ] && mount --bind "$TMP/fuse" /dev/fuse && mount --bind "$TMP/passwd" /etc/passwd; then
	as_alice() { as_user alice env -u RATEFS_STATE_DIR -u XDG_STATE_HOME HOME="$TMP/home" RATEFS_RUNTIME_DIR="$TMP/alice" "$@"; }
	: >"$LOG"
	as_alice "$RATEFS" -f "$SRC" "$MNT" -o size=2M >"$LOG" 2>&1 &
	user_daemon=$!
	within 10s as_alice mountpoint -q "$MNT" || fail "the user's mount did not come up"
	as_alice dd if=/dev/zero of="$MNT/big" bs=4k count=1000 2>/dev/null && fail "3 MiB in 2"
	equal "$(held)" $((2 << 20)) "in a user's mount"
	ok as_alice "$RATEFSCTL" unmount "$MNT"
	wait "$user_daemon" || fail "the user's daemon ended with exit code $?"
	log_silent
	grep -qsx 'state clean' "$TMP"/home/.local/state/ratefs/space/* || fail "the user's total was not kept"
fi

# If totals cannot be stored, limits work nevertheless, and the log says so.
rm -rf "$TMP/state"
: >"$TMP/state"
LOG_EXPECTED="$LOG_EXPECTED|cannot be kept in"
mount_ratefs -o size=10M,ro
grep -q "cannot be kept in" "$LOG" || fail "it does not say that the total cannot be kept"
equal "$(space used)" "$(held)" "read-only"
refused touch "$MNT/x"
unmount_ratefs
