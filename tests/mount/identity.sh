#!/bin/bash
# SPDX-License-Identifier: MIT
# A source that checks identity itself (helpers/idsource.c) sees the right user on every call, while
# users and root alternate on the same threads; and users whom it denies get nothing, whatever the
# call.
. "${srcdir:-.}/tests/mount/lib.sh" || exit 1
requires helper:idsource helper:idclient

REAL=$TMP/real SEEN=$TMP/seen UNCACHED=attr_timeout=0,entry_timeout=0
backing tmpfs
mkdir "$REAL"
mount -t tmpfs -o mode=755 tmpfs "$REAL" || skip "cannot mount a tmpfs"
# Files whose modes allow everything, so that only the source can refuse.
for who in u0 u1001 u1002 g2000; do
	mkdir -m 777 "$REAL/$who" "$REAL/$who/dir"
	echo text >"$REAL/$who/file"
	chmod 666 "$REAL/$who/file"
	ln -s file "$REAL/$who/link"
done
idsource "$REAL" "$SEEN" "$SRC" -o allow_other || fail "the source did not come up"
within 5s mountpoint -q "$SRC" || fail "no source"

# together NAME: runs the rounds of all three users concurrently.
together() {
	local pids=() p who
	for who in root alice bob; do
		if [ $who = root ]; then
			idclient "$MNT/u0" 15 &
		else
			as_user $who idclient "$MNT/u$(uid_of $who)" 15 &
		fi
		pids+=($!)
	done
	for p in "${pids[@]}"; do
		wait "$p" || fail "$1: a call was refused to whom it is allowed"
	done
}
# No call reached the source as the wrong user.
nobody_denied() {
	! grep -q DENIED "$SEEN" || { sort "$SEEN" | grep DENIED | uniq -c | head >&2; fail "$1: somebody else was asking"; }
}
every_call_was_seen() {
	local op
	for op in getattr readlink mknod mkdir unlink rmdir symlink rename link chmod chown truncate utimens open create \
		read write statfs flush fsync fallocate lseek setxattr getxattr listxattr removexattr opendir readdir \
		ioctl; do
		for id in 0 1001 1002; do
			grep -q "^$op /.* $id $id\$" "$SEEN" || fail "$1: no $op by $id was seen"
		done
	done
}

# The kernel caches names and attributes for all users together, but this source's answers depend on
# the user.
for options in cache=strict cache=page,$UNCACHED cache=auto,$UNCACHED iops=20000,window=1ms,$UNCACHED; do
	: >"$SEEN"
	mount_ratefs -o "$options"
	together "$options"
	nobody_denied "$options"
	every_call_was_seen "$options"
	# By users who have no access to a directory; this source gives root no privileges.
	: >"$SEEN"
	ok idclient "$MNT/u1001" refused
	ok as_user bob idclient "$MNT/u1001" refused
	ok as_user alice idclient "$MNT/u0" refused
	[ "$(grep -c DENIED "$SEEN")" -gt 20 ] || fail "the source was not asked"
	# A hundred opens each, concurrently, by the owner and by a user who is denied.
	# shellcheck disable=SC2016 # expanded by the inner shell
	as_user alice bash -c 'for _ in {1..100}; do read -r x <"$0" && [ "$x" = text ] || echo refused; done' \
		"$MNT/u1001/file" >"$TMP/alice" 2>&1 &
	job=$!
	# shellcheck disable=SC2016 # expanded by the inner shell
	as_user bob bash -c 'for _ in {1..100}; do read -r x <"$0" && echo "$x"; done' \
		"$MNT/u1001/file" >"$TMP/bob" 2>/dev/null
	wait $job
	equal "$(cat "$TMP/alice" "$TMP/bob")" "" "$options: the owner's opens, and those of the other"
	# A supplementary group is enough where the source says so.
	ok as_user alice cat "$MNT/g2000/file" >/dev/null
	refused setpriv --reuid 1001 --regid 1001 --clear-groups cat "$MNT/g2000/file"
	ok as_user bob cat "$MNT/g2000/file" >/dev/null
	unmount_ratefs
done
umount "$SRC"
