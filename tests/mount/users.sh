#!/bin/bash
# SPDX-License-Identifier: MIT
# Privileges on files work through the mount as they do on the backing filesystem: set-user-ID and
# set-group-ID programs, file capabilities, device files; and not where the mount says no.
. "${srcdir:-.}/tests/mount/lib.sh" || exit 1

prepare() {
	local d
	for d in "$SRC" "$PLAIN"; do
		cp /usr/bin/id /bin/cat "$d"
		cp /usr/bin/id "$d/gid"
		chmod 4755 "$d/id"
		chmod 2755 "$d/gid"
		mknod -m 666 "$d/null" c 1 3
		echo secret >"$d/secret"
		chmod 600 "$d/secret"
		if command -v setfattr >/dev/null; then
			setfattr -n trusted.of-root -v 1 "$d/cat"
			setfattr -n user.of-all -v 1 "$d/cat"
		fi
		if command -v setcap >/dev/null; then
			setcap cap_dac_override+ep "$d/cat" || say "no file capabilities"
		fi
	done
}
try() {
	as_user alice ./id -u
	as_user alice ./gid -g
	as_user alice ./cat secret
	as_user alice sh -c 'echo x >null && echo written'
	as_user alice ./cat null
	as_user alice id -G
	# A thread that has opened files in passthrough may still have CAP_SYS_ADMIN: nevertheless,
	# users do not see attributes of root.
	# shellcheck disable=SC2016 # expanded by the inner shell
	as_user alice sh -c 'for f in id gid cat; do head -c 1 $f; done >/dev/null; getfattr -m - cat'
	as_user alice setfattr -n trusted.mine -v 1 cat
	as_user alice setfattr -n security.mine -v 1 cat
}
each() {
	mount -o remount,suid,dev,exec "$BACK"
	prepare
	mount_ratefs
	same_on_both try
	equal "$(cd "$MNT" && as_user alice ./id -u)" 0 "set-user-ID"
	unmount_ratefs
	# The mount's own nosuid, nodev and noexec apply as well.
	mount --bind "$PLAIN" "$PLAIN"
	mount -o remount,bind,nosuid,nodev "$PLAIN"
	mount_ratefs -o nosuid,nodev
	same_on_both try
	equal "$(cd "$MNT" && as_user alice ./id -u)" 1001 "nosuid"
	unmount_ratefs
	mount -o remount,bind,noexec "$PLAIN"
	mount_ratefs -o noexec
	same_on_both sh -c './id || echo refused'
	unmount_ratefs
	umount "$PLAIN"
}
on_each_backing each
