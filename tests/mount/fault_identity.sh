#!/bin/bash
# SPDX-License-Identifier: MIT
# If a thread cannot assume the identity of the caller, the request fails with EIO, whichever system call
# failed, and this is logged once.
. "${srcdir:-.}/tests/mount/lib.sh" || exit 1
. "${srcdir:-.}/tests/mount/hard_lib.sh" || exit 1
requires jq
LOG_EXPECTED="$LOG_EXPECTED|cannot act as user"

backing tmpfs
faults_ready
chmod 777 "$SRC"
mkdir -m 777 "$SRC/made"
head -c 100K /dev/urandom >"$SRC/file"
echo text >"$SRC/small"
user=5000

# try CALL WHAT command: runs the command as a user that no thread has served before, so that
# threads have to change their identity.
try() {
	local call=$1 what=$2
	shift 2
	user=$((user + 1))
	fault "$call" errno=ENOMEM
	gets "Input/output error" as_user $user "$@"
	struck "$call" || fail "$what: $call was not needed: the test is wrong"
	[ -z "$(find "$SRC/made" -mindepth 1)" ] || fail "$what was done as somebody else ($call)"
	heal
	ok as_user $user "$@" >/dev/null
	[ -z "$(find "$SRC/made" -mindepth 1 ! -user $user)" ] || fail "$what was not done as user $user ($call)"
	rm -rf "${MNT:?}/made/"*
}
# Only a thread that acted as root has capabilities to drop.
by_root() {
	local i
	for i in {1..40}; do stat --cached=never "$MNT/." >/dev/null; done
}

for options in cache=strict cache=page bps=1T,attr_timeout=0,entry_timeout=0; do
	began=$SECONDS
	mount_ratefs -o "$options"
	for call in setfsuid setfsgid capset; do
		by_root
		# shellcheck disable=SC2016 # expanded by the inner shell
		try $call "a file" sh -c 'echo x >"$0"' "$MNT/made/x"
		by_root
		try $call "a directory" mkdir "$MNT/made/d"
		by_root
		try $call "reading" cat "$MNT/file"
		by_root
		try $call "looking" stat --cached=never "$MNT/small"
		by_root
		try $call "listing" ls "$MNT/made"
	done
	# Groups are set for chgrp.
	as_user alice touch "$MNT/mine"
	fault setgroups errno=ENOMEM
	gets "Input/output error" as_user alice chgrp 2000 "$MNT/mine"
	struck setgroups || fail "setgroups was not needed: the test is wrong"
	heal
	ok as_user alice chgrp 2000 "$MNT/mine"
	equal "$(stat -c %g "$SRC/mine")" 2000
	rm "$MNT/mine"
	# Once a minute at most.
	lines=$(grep -c 'cannot act as user' "$LOG")
	{ [ "$lines" -ge 1 ] && [ "$lines" -le $((1 + (SECONDS - began) / 60)) ]; } || fail "$options: $lines lines in the log"
	settled "$options: something"
	unmount_ratefs
done
