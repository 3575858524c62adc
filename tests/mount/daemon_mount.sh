#!/bin/bash
# SPDX-License-Identifier: MIT
# ratefs as a mount program: background, mount(8), one-line errors with nothing left behind, termination.
. "${srcdir:-.}/tests/mount/lib.sh" || exit 1

backing tmpfs
echo hello >"$SRC/file"
mounted() { mountpoint -q "$MNT"; }
nobody_there() { ! mounted && [ -z "$(ls -A /run/ratefs)" ]; }
gone_quietly() { within 5s nobody_there || fail "something is left: $(ls -A /run/ratefs)"; }

# The parent exits silently when the mount works; the daemon has closed everything inherited.
out=$("$RATEFS" "$SRC" "$MNT" 2>&1) || fail "background mount"
equal "$out" "" "what the parent says"
equal "$(cat "$MNT/file")" hello
equal "$(findmnt -no FSTYPE,SOURCE "$MNT" | tr -s ' ')" "fuse.ratefs $SRC"
df "$MNT" >/dev/null || fail "df"
pid=$(ctl list --json | jq -r '.daemons[0].pid')
for fd in 0 1 2; do
	equal "$(readlink "/proc/$pid/fd/$fd")" /dev/null "descriptor $fd of the daemon"
done
equal "$(readlink "/proc/$pid/cwd")" / "directory of the daemon"
umount "$MNT" || fail "umount"
gone_quietly

# Inherited descriptors are closed.
exec 9<"$SRC/file"
"$RATEFS" "$SRC" "$MNT" || fail "mount"
exec 9<&-
pid=$(ctl list --json | jq -r '.daemons[0].pid')
! find "/proc/$pid/fd" -lname "$SRC/file" | grep -q . || fail "the daemon keeps what it inherited"
kill "$pid"
gone_quietly

# Mounting by mount(8), by fstab, and with the old syntax.
# mount(8) looks for its helpers in /sbin, and these look for ratefs in a PATH of their own.
installed() {	# directory name...: as if `make install` had put it there
	local dir=$1 name
	shift
	mkdir -p "$TMP/in$dir"
	for name in "$@"; do ln -s "$RATEFS" "$TMP/in$dir/$name"; done
	mount -t overlay -o "lowerdir=$TMP/in$dir:$dir" overlay "$dir" 2>/dev/null
}
installed /usr/bin ratefs || skip "the part with mount(8): no overlay here"
mount -t fuse.ratefs "$SRC" "$MNT" -o iops=200,noatime,nosuid || fail "mount -t fuse.ratefs"
findmnt -no OPTIONS "$MNT" | grep -q nosuid || fail "nosuid got lost"
findmnt -no OPTIONS "$MNT" | grep -q noatime || fail "noatime got lost"
equal "$(ctl show "$MNT" --json | jq -r .options.iops.value)" 200
umount "$MNT"
gone_quietly
echo "$SRC $MNT fuse.ratefs ro,noauto,user,nofail,x-systemd.automount,read_bps=1M 0 0" >"$TMP/fstab"
mount -T "$TMP/fstab" "$MNT" || fail "mount from fstab"
refused touch "$MNT/new"
umount "$MNT"
gone_quietly
mount -t fuse "ratefs#$SRC" "$MNT" || fail "mount -t fuse ratefs#SOURCE"
umount "$MNT"
gone_quietly

installed /usr/sbin mount.ratefs mount.fuse.ratefs || skip "the part with mount(8): no overlay here"
for type in ratefs fuse.ratefs; do
	mount -t $type "$SRC" "$MNT" -o ro,write_bps=1M || fail "mount -t $type by our helper"
	equal "$(ctl show "$MNT" --json | jq -r .options.write_bps.value)" 1M
	mount -f -t $type "$SRC" "$TMP" || fail "mount -f"
	umount "$MNT"
	gone_quietly
done

# Relative paths.
(cd "$TMP" && "$RATEFS" "${SRC#"$TMP"/}" mnt) || fail "relative paths"
equal "$(findmnt -no SOURCE "$MNT")" "$SRC"
umount "$MNT"
gone_quietly

# Mount errors: exit 1, one line; usage: exit 2, one line; nothing mounted, no socket, no daemon.
code() {	# code command...
	local want=$1 rc=0
	shift
	"$@" >/dev/null 2>&1 || rc=$?
	equal "$rc" "$want" "exit code of '$*'"
	gone_quietly
}
says "source '/nonexistent': No such file" "$RATEFS" /nonexistent "$MNT"
says "mountpoint '/nonexistent': No such file" "$RATEFS" "$SRC" /nonexistent
says "mountpoint .*/file': not a directory" "$RATEFS" "$SRC" "$SRC/file"
says "source .*/file': not a directory" "$RATEFS" "$SRC/file" "$MNT"
says "unknown option 'iosp'; did you mean 'iops'" "$RATEFS" "$SRC" "$MNT" -o iosp=3
says "iops: '10Q': unknown suffix 'Q'" "$RATEFS" "$SRC" "$MNT" -o iops=10Q
says "needs SOURCE and MOUNTPOINT" "$RATEFS" "$SRC"
code 1 "$RATEFS" /nonexistent "$MNT"
code 1 "$RATEFS" "$SRC" /nonexistent
code 2 "$RATEFS" "$SRC" "$MNT" -o iosp=3
code 2 "$RATEFS" "$SRC"
code 0 "$RATEFS" --help
code 0 "$RATEFS" -V

# A dead mount is replaced, with a message.
"$RATEFS" -f "$SRC" "$MNT" 2>/dev/null &
pid=$!
within 5s mounted
kill -9 "$pid"
wait "$pid" 2>/dev/null
out=$("$RATEFS" "$SRC" "$MNT" 2>&1) || fail "mount over a dead mount: $out"
[[ $out == *"removed the dead mount"* ]] || fail "not a word about the dead mount: '$out'"
equal "$(cat "$MNT/file")" hello
equal "$(find /run/ratefs -name '*.sock' | wc -l)" 1 "sockets, with that of the dead daemon removed"
umount "$MNT"
gone_quietly

# SIGINT and SIGTERM end the daemon with exit status 0; so does umount, even with files open and
# after umount -l.
for signal in INT TERM; do
	mount_ratefs
	stop_ratefs "$signal"
done
mount_ratefs
exec 8<"$MNT/file"
umount -l "$MNT"
nap 200ms
! gone "$DAEMON" || fail "the daemon is gone while a file is open"
exec 8<&-
daemon_ended_well
