#!/bin/bash
# SPDX-License-Identifier: MIT
# ratefs run for users without privileges, and a clear message if the system does not allow it.
. "${srcdir:-.}/tests/mount/lib.sh" || exit 1
. "$srcdir/tests/mount/run_lib.sh" || exit 1
users_can || skip "users cannot make namespaces here"
chown 1001:1001 "$DIR" "$RATEFS_RUNTIME_DIR"
as_alice() { as_user alice "$@"; }
echo text >file
chown 1001:1001 file

equal "$(as_alice "$RATEFS" run -q -- sh -c 'id -u; id -g; pwd; cat file')" "1001
1001
$DIR
text"
ends 5 as_alice "$RATEFS" run -q -- sh -c 'exit 5'
equal "$(as_alice "$RATEFS" run -q -- grep -c ' fuse.ratefs ' /proc/self/mounts)" $((MOUNTS_BEFORE + 1))
equal "$(as_alice "$RATEFS" run -q -- sh -c 'grep -E "Cap(Inh|Prm|Eff|Amb)" /proc/self/status | cut -f 2 | sort -u')" 0000000000000000 "capabilities of the command"
nothing_left

# The command can do what the user can, no more and no less.
mkdir -m 1777 open
mkdir -m 2770 team
chgrp 2000 team
echo root >open/roots
mkdir -m 700 closed
as_alice "$RATEFS" run -q -- sh -c 'echo mine >open/mine && echo ours >team/ours' || fail "directories that the user may write"
equal "$(stat -c %u:%g open/mine team/ours | tr '\n' ' ')" "1001:1001 1001:2000 "
refused as_alice "$RATEFS" run -q -- rm -f open/roots
refused as_alice "$RATEFS" run -q -- sh -c 'echo x >>open/roots'
refused as_alice "$RATEFS" run -q -- ls closed
refused as_alice "$RATEFS" run -q -- chown 0 file
chmod 000 file
refused as_alice "$RATEFS" run -q -- cat file
chmod 644 file
wrong() {
	local pattern=$1 rc=0
	shift
	says "$pattern" as_alice "$RATEFS" run "$@"
	as_alice "$RATEFS" run "$@" >/dev/null 2>&1 || rc=$?
	equal $rc 125
}
wrong 'closed: Permission denied' -C closed true
nothing_left

# Limits, report, nesting, children in the background.
between 450ms 20s as_alice "$RATEFS" run -q -o iops=20,window=1ms -- sh -c 'for i in 1 2 3 4 5; do cat file; done' >/dev/null
equal "$(as_alice "$RATEFS" run -q -- "$RATEFS" run -q -- "$RATEFS" run -q -- cat file)" text "run in run in run"
as_alice "$RATEFS" run -- sh -c 'sleep 0.5 & exit 3' 2>"$TMP/err"
equal $? 3
grep -q 'still running' "$TMP/err" || fail "no word about the child"
nothing_left
as_alice "$RATEFS" run -q -- sleep 100 &
sleep 0.5
pkill -9 -x ratefs
wait
pkill -x sleep
nothing_left

# Root without CAP_SYS_ADMIN, as in a container: can use files of root and files that everybody may
# read.
mkdir roots
equal "$(setpriv --bounding-set=-sys_admin --inh-caps=-sys_admin "$RATEFS" run -q -- sh -c 'id -u; cat file; echo r >roots/f')" "0
text" "root without CAP_SYS_ADMIN"
equal "$(stat -c %u roots/f)" 0
nothing_left

# If it is not allowed: one line that says what to do.
says 'max_user_namespaces' unshare --user --map-root-user sh -c "
	echo 0 >/proc/sys/user/max_user_namespaces &&
	exec setpriv --bounding-set=-sys_admin --inh-caps=-sys_admin '$RATEFS' run true"
says '/dev/fuse: .*modprobe fuse' unshare --mount sh -c "mount -t tmpfs tmpfs /dev && exec '$RATEFS' run true"
says '/dev/fuse: Permission denied; the user' unshare --mount sh -c "
	mknod '$TMP/closed' c 10 229 && chmod 600 '$TMP/closed' && mount --bind '$TMP/closed' /dev/fuse &&
	exec setpriv --reuid 1001 --regid 1001 --clear-groups --inh-caps=-all '$RATEFS' run true"
if command -v bwrap >/dev/null && bwrap --dev-bind / / --unshare-user --disable-userns true 2>/dev/null; then
	says 'ratefs: .*;' bwrap --dev-bind / / --unshare-user --disable-userns --cap-drop ALL "$RATEFS" run true
fi
nothing_left
