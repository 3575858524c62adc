#!/bin/bash
# SPDX-License-Identifier: MIT
# Least privilege: every thread of root's daemon has only the capabilities of the list, no_new_privs
# and a system call filter; no inherited files, no core dumps; and everything works with these
# restrictions, even mounts added later.
. "${srcdir:-.}/tests/mount/lib.sh" || exit 1
. "${srcdir:-.}/tests/mount/hard_lib.sh" || exit 1
requires jq

backing tmpfs
chmod 1777 "$SRC"
head -c 1M /dev/zero >"$SRC/file"
! sanitized || skip "sanitizers cannot live in a sandbox"

exec 9<"$SRC/file"
mount_ratefs -o bps=100M
exec 9<&-
status() { awk -v f="$2:" '$1 == f { print $2 }' "/proc/$1/status"; }
as_user alice dd if="$MNT/file" of="$MNT/copy" bs=64K status=none || fail "it does not work at all"

LIST=00000000882002df	# see needed[] in src/daemon/privileges.c
for thread in "/proc/$DAEMON/task"/*; do
	t=$DAEMON/task/${thread##*/}
	# fs operations lower some of them for a moment, so a thread may have less
	for set in CapEff CapPrm CapBnd; do
		equal $((0x$(status "$t" $set) & ~0x$LIST)) 0 "$set of thread ${thread##*/} has more than the list"
	done
	equal "$(status "$t" CapInh)" 0000000000000000
	equal "$(status "$t" CapAmb)" 0000000000000000
	equal "$(status "$t" NoNewPrivs)" 1 "a thread without no_new_privs"
	equal "$(status "$t" Seccomp)" 2 "a thread without a filter"
done
equal "$(awk '/^Max core file size/ { print $5, $6 }' "/proc/$DAEMON/limits")" "0 0" "core dumps are possible"
! find "/proc/$DAEMON/fd" -printf '%l\n' | grep -q "^$SRC/file" || fail "an inherited file is still open"

# A crash leaves no core: dumpable is off, so /proc/PID belongs to root, whichever user runs the
# daemon.
ulimit -c unlimited
cd "$TMP" || fail "cd"
kill -ABRT "$DAEMON"
wait "$DAEMON" 2>/dev/null
DAEMON=
! ls "$TMP"/core* 2>/dev/null || fail "a core was dumped"
umount -l "$MNT"

# With the filter: a configuration with several mounts, one of them added and one removed by a
# reload.
mkdir -p "$TMP/m1" "$TMP/m2" "$TMP/m3"
conf() {
	local m
	for m in "$@"; do
		printf '[mount:%s]\nsource = %s\nmountpoint = %s\n' "$m" "$SRC" "$TMP/$m"
	done >"$TMP/conf"
}
conf m1 m2
"$RATEFS" -f -c "$TMP/conf" >"$LOG" 2>&1 &
DAEMON=$!
within 10s mountpoint -q "$TMP/m2" || fail "the mounts of the configuration did not come up"
cmp "$SRC/file" "$TMP/m1/file" || fail "m1"
conf m2 m3
ok ctl reload >/dev/null
within 5s mountpoint -q "$TMP/m3" || fail "a reload could not mount"
! mountpoint -q "$TMP/m1" || fail "a reload could not unmount"
cmp "$SRC/file" "$TMP/m3/file" || fail "m3"
ok ctl set m3 iops=100 >/dev/null
ok ctl unmount m2 >/dev/null
ok ctl mount m2 >/dev/null
cmp "$SRC/file" "$TMP/m2/file" || fail "m2"
kill -TERM "$DAEMON"
LOG_EXPECTED="$LOG_EXPECTED|reload|mount"
daemon_ended_well

# As a user (with a name, which fusermount3 needs): no_new_privs would stop fusermount3.
if [ -u "$(command -v fusermount3)" ]; then
	if ! as_user 65534 test -w /dev/fuse; then # in this namespace, for this test
		ok mknod -m 666 "$TMP/fuse" c 10 229
		ok mount --bind "$TMP/fuse" /dev/fuse
	fi
	mkdir -m 777 "$TMP/of-user" "$TMP/user-src"
	chown 65534 "$TMP/of-user" "$TMP/user-src"
	echo hello >"$TMP/user-src/f"
	as_user 65534 env XDG_RUNTIME_DIR=/nonexistent ratefs "$TMP/user-src" "$TMP/of-user" -o iops=1000,control=off ||
		fail "a user cannot mount"
	equal "$(as_user 65534 cat "$TMP/of-user/f")" hello
	ok as_user 65534 fusermount3 -u "$TMP/of-user"
fi
