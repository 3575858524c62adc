#!/bin/bash
# SPDX-License-Identifier: MIT
# Errors of the backing filesystem reach the caller unchanged, and have no lasting effect.
. "${srcdir:-.}/tests/mount/lib.sh" || exit 1
. "${srcdir:-.}/tests/mount/hard_lib.sh" || exit 1
requires jq

backing tmpfs
faults_ready
mkdir "$SRC/dir"
head -c 1M /dev/urandom >"$SRC/file"

read_file() { cat "$MNT/file" >"$TMP/out"; }
write_file() { dd if="$SRC/file" of="$MNT/new" bs=64K status=none; }
append_file() { dd if="$SRC/file" of="$MNT/new" bs=64K oflag=append conv=notrunc status=none; }
sync_file() { dd if="$SRC/file" of="$MNT/new" bs=64K conv=fsync status=none; }
allocate() { fallocate -l 64K "$MNT/new"; }
cut() { truncate -s 10 "$MNT/new"; }
open_new() { : >"$MNT/created.$RANDOM"; }
make_dir() { mkdir "$MNT/dir.$RANDOM"; }
list_dir() { ls -l "$MNT" >/dev/null; }
hard_link() { ln "$MNT/file" "$MNT/link.$RANDOM"; }
soft_link() { ln -s file "$MNT/soft.$RANDOM"; }
remove() { rm "$MNT/new"; }

# try CALL ERRNO ACTION TEXT: while CALL fails with ERRNO, ACTION fails with the message TEXT.
try() {
	local call=$1 error=$2 action=$3 text=$4
	[ -e "$SRC/new" ] || cp "$SRC/file" "$SRC/new"
	fault "$call" "errno=$error"
	gets "$text" "$action"
	struck "$call" || fail "$action does not use $call: the test is wrong"
	heal
	before 5s "$action"
	settled "after $error of $call"
}

# Limited and unlimited: both paths through the daemon.  Timeouts of 0, so that every lookup and
# stat is a request.
for options in "read_bps=100M,write_bps=100M,iops=10K,max_inflight=8" "cache=strict" "cache=page"; do
	mount_ratefs -o "$options,attr_timeout=0,entry_timeout=0"
	try pread EIO read_file "Input/output error"
	cmp "$TMP/out" "$SRC/file" || fail "what was read after the error is not the file"
	try pwrite ENOSPC write_file "No space left on device"
	try pwrite EDQUOT write_file "Disk quota exceeded"
	try pwrite EIO append_file "Input/output error"
	try fsync EIO sync_file "Input/output error"
	try fallocate ENOSPC allocate "No space left on device"
	try ftruncate EIO cut "Input/output error"
	try open_by_handle_at EMFILE read_file "Too many open files"
	try open_by_handle_at EIO read_file "Input/output error"
	try openat EMFILE open_new "Too many open files"
	try openat ENOMEM open_new "Cannot allocate memory"
	try openat EIO open_new "Input/output error"
	try mkdirat ENOSPC make_dir "No space left on device"
	try fstatat EIO list_dir "Input/output error"
	try linkat ENOSPC hard_link "No space left on device"
	try symlinkat EIO soft_link "Input/output error"
	try unlinkat EROFS remove "Read-only file system"
	unmount_ratefs
done
