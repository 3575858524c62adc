#!/bin/bash
# SPDX-License-Identifier: MIT
# A user without privileges mounts through fusermount3 and controls the mount.
. "${srcdir:-.}/tests/mount/lib.sh" || exit 1
requires fusermount3 jq

open_fuse_to_users || skip "cannot open /dev/fuse to others"
[ -u "$(command -v fusermount3)" ] || skip "needs fusermount3 with its set-user-ID bit"

# fusermount3 wants to know the user's name.
ME=(setpriv --reuid 65534 --regid 65534 --clear-groups --inh-caps=-all -- env XDG_RUNTIME_DIR="$TMP/me")
me() { "${ME[@]}" "$@"; }
other() { setpriv --reuid 1 --regid 1 --clear-groups --inh-caps=-all -- "$@"; }
is_mounted() { grep -q " $1 fuse.ratefs " /proc/self/mounts; }	# root may not look into it
getent passwd 65534 >/dev/null || skip "needs a user with id 65534"
echo hello >"$SRC/file"
chown -R 65534 "$SRC" "$MNT"
mkdir "$TMP/roots" "$TMP/second"
chmod 700 "$TMP/roots"
mkdir "$TMP/me"
chown 65534 "$TMP/second" "$TMP/me"
DIR=$TMP/me/ratefs

out=$(me "$RATEFS" "$SRC" "$MNT" -o read_bps=1M 2>&1) || fail "mount by a user: $out"
equal "$out" ""
equal "$(me cat "$MNT/file")" hello
refused cat "$MNT/file"		# without allow_other not even root
me touch "$MNT/new" || fail "the user cannot write to what is his"
findmnt -no OPTIONS "$MNT" | grep -q nosuid || fail "a user's mount without nosuid"

# The control socket is for the user and root only.
equal "$(stat -c %a "$DIR")" 700 "mode of the directory"
sock=$(echo "$DIR"/*.sock)
equal "$(stat -c %a "$sock")" 600 "mode of the socket"
me "$RATEFSCTL" set "$MNT" read_bps=2M >/dev/null || fail "set by the user"
ctl --daemon="$sock" show "$MNT" | grep -q '^read_bps *2M' || fail "root cannot look"
refused other "$RATEFSCTL" --daemon="$sock" list
chmod 755 "$DIR"
chmod 666 "$sock"
says 'permission denied' other "$RATEFSCTL" --daemon="$sock" list
me "$RATEFSCTL" list >/dev/null || fail "the user was shut out with the stranger"

# What the user may not do fails with a one-line error and leaves nothing behind.
says 'Permission denied|no write access' me "$RATEFS" "$SRC" "$TMP/roots"
says 'Permission denied' me "$RATEFS" "$TMP/roots" "$TMP/second"
grep -q '^user_allow_other' /etc/fuse.conf 2>/dev/null ||
	says 'user_allow_other' me "$RATEFS" "$SRC" "$TMP/second" -o allow_other
! is_mounted "$TMP/second" || fail "something was mounted"

# A directory that others may write to is refused for sockets.
chmod 777 "$DIR"
out=$(me "$RATEFS" "$SRC" "$TMP/second" 2>&1) || fail "mount without a socket: $out"
[[ $out == *"other users can write to it"* ]] || fail "no word about the directory: '$out'"
me fusermount3 -u "$TMP/second" || fail "fusermount3 -u"
chmod 700 "$DIR"

# A reload that cannot make a mount does not cost the user the one that runs: what can be known before is refused, and what
# only fusermount3 knows is undone.
CONF=$TMP/me/r.conf
conf() { printf '[mount:mine]\nsource = %s\nmountpoint = %s\niops = 1k\n%s\n' "$SRC" "$1" "${2-}" >"$CONF"; }
conf "$TMP/second"
"${ME[@]}" "$RATEFS" -f -c "$CONF" >"$LOG" 2>&1 &
pid=$!
within 5s is_mounted "$TMP/second" || fail "no mount"
mkdir "$TMP/third"
conf "$TMP/third"
says "r.conf:3: \[mount:mine\] mountpoint '$TMP/third': Permission denied" me "$RATEFSCTL" --daemon=$pid reload
equal "$(me cat "$TMP/second/file")" hello
chown 65534 "$TMP/third"
if ! grep -q '^user_allow_other' /etc/fuse.conf 2>/dev/null; then
	conf "$TMP/third" allow_other=yes
	rc=0
	me "$RATEFSCTL" --daemon=$pid reload >"$TMP/said" 2>&1 || rc=$?
	equal $rc 1 "exit status of a reload: $(cat "$TMP/said")"
	grep -q "not reloaded, everything is as before: mount 'mine': .*user_allow_other" "$TMP/said" || fail "said: $(cat "$TMP/said")"
	equal "$(me cat "$TMP/second/file")" hello
	! is_mounted "$TMP/third" || fail "something was mounted"
	conf "$TMP/third"
fi
out=$(me "$RATEFSCTL" --daemon=$pid reload 2>&1) || fail "reload: $out"
is_mounted "$TMP/third" || fail "the mount did not move"
kill -TERM "$pid"
rc=0
wait "$pid" || rc=$?
equal "$rc" 0 "exit code of the daemon: $(cat "$LOG")"

# The end: by fusermount3, by signal.
me fusermount3 -u "$MNT" || fail "fusermount3 -u"
nothing() { [ -z "$(ls "$DIR")" ]; }
within 5s nothing || fail "a socket is left"
"${ME[@]}" "$RATEFS" -f "$SRC" "$MNT" >"$LOG" 2>&1 &
pid=$!
within 5s is_mounted "$MNT" || fail "no mount"
kill -TERM "$pid"
rc=0
wait "$pid" || rc=$?
equal "$rc" 0 "exit code after SIGTERM"
! is_mounted "$MNT" || fail "the mount outlived its daemon"
