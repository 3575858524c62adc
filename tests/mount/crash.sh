#!/bin/bash
# SPDX-License-Identifier: MIT
# The daemon is killed under load: clients get errors immediately, data that was fsynced is on the backing filesystem,
# a new daemon replaces the dead mount and says so, and everything continues.
. "${srcdir:-.}/tests/mount/lib.sh" || exit 1
. "${srcdir:-.}/tests/mount/hard_lib.sh" || exit 1
requires helper:iogen

backing tmpfs
head -c 4M /dev/urandom >"$SRC/file"
WRITERS=6

# Files of known content, each named in a list as soon as its fsync was acknowledged.
write_files() {
	local n
	set +o pipefail # yes ends by SIGPIPE
	for ((n = 0; ; n++)); do
		{ yes "$1.$n" | head -c 100000 | dd of="$MNT/w.$1.$n" bs=32K iflag=fullblock conv=fsync status=none; } 2>/dev/null ||
			return 0
		echo "$1.$n" >>"$TMP/acknowledged.$1"
	done
}

crash() { # OPTIONS
	local i pids=() t0 name missing=0
	rm -f "$SRC"/w.* "$TMP"/acknowledged.*
	mount_ratefs "$@"
	for ((i = 0; i < WRITERS; i++)); do
		write_files $i &
		pids+=($!)
	done
	park_readers 20 --size 64K
	within 10s acknowledged 20 || fail "no writes are acknowledged"
	kill -9 "$DAEMON"
	t0=$(now_ms)
	wait "$DAEMON" 2>/dev/null
	DAEMON=
	# Open files in kernel passthrough no longer need the daemon: their readers continue.
	[ $# -gt 0 ] || unpark
	for i in "${pids[@]}" ${PARKED:+"$PARKED"}; do
		within 10s gone "$i" || fail "a client hangs after the death of the daemon"
		wait "$i" 2>/dev/null
	done
	[ $(($(now_ms) - t0)) -lt 10000 ] || fail "errors came only after $(($(now_ms) - t0)) ms"
	gets "Transport endpoint is not connected" ls "$MNT"
	while read -r name; do
		cmp <(yes "$name" | head -c 100000) "$SRC/w.$name" || missing=$((missing + 1))
	done < <(cat "$TMP"/acknowledged.*)
	[ $missing = 0 ] || fail "$missing files that were acknowledged are not on the backing filesystem"
}
two_mounts() { [ "$(awk -v m="$MNT" '$2 == m' /proc/self/mounts | wc -l)" = 2 ]; }
not_mounted() { ! grep -q " $MNT " /proc/self/mounts; }
acknowledged() { [ "$(cat "$TMP"/acknowledged.* 2>/dev/null | wc -l)" -ge "$1" ]; }

LOG_EXPECTED="$LOG_EXPECTED|removed the dead mount"
for options in bps=20M cache=page,bps=20M cache=strict,iops=2000 ""; do
	crash ${options:+-o "$options"}
	# The next daemon replaces the mount of the last one.
	mount_ratefs ${options:+-o "$options"}
	grep -q "mountpoint '$MNT': removed the dead mount" "$LOG" || fail "nothing was said about the dead mount"
	[ "$(awk -v m="$MNT" '$2 == m' /proc/self/mounts | wc -l)" = 1 ] || fail "mounts lie on top of each other"
	cmp "$SRC/file" "$MNT/file" || fail "the new mount does not work"
	before 10s cp "$MNT/file" "$MNT/again"
	settled "after the restart"
	unmount_ratefs
done

# Dead mounts below dead mounts: two daemons were killed on the same mountpoint.
mount_ratefs
first=$DAEMON
"$RATEFS" --force -f "$SRC" "$MNT" -o control=off >"$TMP/log.2" 2>&1 &
second=$!
within 5s two_mounts || fail "no second mount"
kill -9 "$first" "$second"
wait "$first" "$second" 2>/dev/null
DAEMON=
mount_ratefs
cmp "$SRC/file" "$MNT/file" || fail "the new mount does not work"
unmount_ratefs
! mountpoint -q "$MNT" || fail "a dead mount is left below"

# auto_unmount: a helper process unmounts when the daemon dies.
watchers() { pgrep -x ratefs-unmount | wc -l; }
no_watchers() { [ "$(watchers)" = 0 ]; }
one_watcher() { [ "$(watchers)" = 1 ]; } # takes its name a moment after the mount answers
mount_ratefs -o auto_unmount
within 2s one_watcher || fail "no process that unmounts"
exec 8<"$MNT/file"
kill -9 "$DAEMON"
wait "$DAEMON" 2>/dev/null
DAEMON=
within 5s not_mounted || fail "auto_unmount did not unmount"
exec 8<&-
within 2s no_watchers || fail "the process that unmounts stays"
# The helper does not keep the mount busy, does not outlive the daemon, and does not keep the
# standard output of the program that started the daemon open.
mount_ratefs -o auto_unmount
unmount_ratefs
no_watchers || fail "a process is left after umount"
out=$("$RATEFS" "$SRC" "$MNT" -o auto_unmount 2>&1) || fail "background start: $out"
# A filesystem that was mounted there meanwhile stays mounted.
mount -t tmpfs tmpfs "$MNT"
touch "$MNT/other"
kill_the_daemon
within 2s no_watchers || fail "the process that unmounts stays"
ok test -e "$MNT/other"
umount "$MNT"
umount -l "$MNT"
