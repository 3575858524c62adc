#!/bin/bash
# SPDX-License-Identifier: MIT
# A user without privileges mounts a directory of their own by fusermount3, and can do there what
# their rights allow.
. "${srcdir:-.}/tests/mount/lib.sh" || exit 1
requires fusermount3 helper:differ
[ -u "$(command -v fusermount3)" ] || skip "needs fusermount3 to be set-user-ID"

users_can_mount

own() {
	chown 1001:1001 "$SRC" "$PLAIN" "$MNT"
	chown 1001 "$XDG_RUNTIME_DIR"
	rm -f "$LOG"
	as_user alice "$RATEFS" -f "$SRC" "$MNT" "$@" >"$LOG" 2>&1 &
	DAEMON=$!
	within 10s user_answers || fail "the mount did not come up"
}
user_answers() { as_user alice mountpoint -q "$MNT" && as_user alice stat "$MNT/." >/dev/null 2>&1; }
disown_it() {
	as_user alice fusermount3 -u "$MNT" || fail "fusermount3 -u"
	daemon_ended_well
}

their_mount() {
	own "$@"
	findmnt -n -o OPTIONS "$MNT" | grep -q 'user_id=1001' || fail "not alice's mount"
	findmnt -n -o OPTIONS "$MNT" | grep -q nosuid || fail "set-user-ID of a user's mount"
	ok as_user alice sh -c "cd '$MNT' && echo text >f && mkdir d && mv f d/g && cat d/g && ln d/g h && rm -r d" >"$TMP/out"
	equal "$(cat "$TMP/out")" text
	equal "$(stat -c '%u:%g' "$SRC/h")" 1001:1001
	refused as_user bob ls "$MNT"
	refused as_user alice chown 1002 "$MNT/h"
	refused as_user alice mknod "$MNT/dev" c 1 3
	rm "$SRC/h"
	as_user alice env RATEFS_ROUNDS=3000 differ "$PLAIN" "$MNT" >"$TMP/differ" 2>&1 ||
		{ tail -n 45 "$TMP/differ" | cut -c1-700; fail "differs"; }
	disown_it
	rm -rf "${SRC:?}"/* "${PLAIN:?}"/*
	find "$SRC" "$PLAIN" -mindepth 1 -delete
}
each() {
	their_mount
	their_mount -o cache=strict
	their_mount -o cache=page
	their_mount -o bps=1T
}
on_each_backing each

# This works in the background, too; directories of other users are refused in one line.
backing tmpfs
chown 1001 "$SRC" "$MNT" "$XDG_RUNTIME_DIR"
ok as_user alice "$RATEFS" "$SRC" "$MNT"
ok as_user alice touch "$MNT/x"
ok as_user alice fusermount3 -u "$MNT"
# auto_unmount, by a process of the same user.
own -o auto_unmount
kill_the_daemon
wait "$DAEMON" 2>/dev/null
DAEMON=
not_mounted() { ! grep -q " $MNT " /proc/self/mounts; }
within 5s not_mounted || fail "auto_unmount did not unmount"
says "strictatime.*root" as_user alice "$RATEFS" "$SRC" "$MNT" -o strictatime
mkdir "$TMP/roots"
says "." as_user alice "$RATEFS" "$SRC" "$TMP/roots"
chmod 700 "$SRC"
chown 0 "$SRC"
says "[Pp]ermission denied" as_user alice "$RATEFS" "$SRC" "$MNT"
! mountpoint -q "$MNT" || fail "something is mounted"

# At its end, a user's daemon unmounts its own mount by fusermount3, but not what root has mounted
# on top of it.
# shellcheck disable=SC2034 # of lib.sh
LOG_EXPECTED=.
own
mount -t tmpfs top "$MNT"
user_daemon=$(pgrep -P "$DAEMON")
kill -TERM "${user_daemon:-$DAEMON}"
within 5s gone "$DAEMON" || fail "the user's daemon does not end"
DAEMON=
equal "$(findmnt -no FSTYPE -M "$MNT" | tail -1)" tmpfs "what lies on top"
grep -q 'another mount is on it' "$LOG" || fail "nothing was said of the mount on top"
umount "$MNT"
umount "$MNT"
