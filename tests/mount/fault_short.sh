#!/bin/bash
# SPDX-License-Identifier: MIT
# Short reads and writes, and EINTR, of the backing filesystem lose no byte and truncate no file.
. "${srcdir:-.}/tests/mount/lib.sh" || exit 1
. "${srcdir:-.}/tests/mount/hard_lib.sh" || exit 1
requires jq helper:hostile

backing tmpfs
faults_ready
head -c 3M /dev/urandom >"$SRC/file"

for cache in auto strict page; do
	mount_ratefs -o "cache=$cache,bps=500M"
	for what in "short=1000" "short=70000" "errno=EINTR count=3"; do
		rm -f "$SRC"/copy* "$SRC/mapped"
		# shellcheck disable=SC2086 # words of a rule
		fault pread $what
		# shellcheck disable=SC2086
		fault pwrite $what
		before 20s cp "$MNT/file" "$MNT/copy"
		before 20s dd if="$MNT/file" of="$MNT/copy2" bs=100000 iflag=fullblock status=none
		before 20s hostile mmap-copy "$MNT/file" "$MNT/mapped"
		struck pread || fail "nothing was struck"
		struck pwrite || fail "nothing was struck"
		heal
		for copy in copy copy2 mapped; do
			cmp "$SRC/file" "$SRC/$copy" || fail "$copy differs (cache=$cache, $what)"
			cmp "$MNT/file" "$MNT/$copy" || fail "$copy differs in the mount (cache=$cache, $what)"
		done
		rm "$MNT"/copy* "$MNT/mapped"
	done
	settled
	unmount_ratefs
done
