#!/bin/bash
# SPDX-License-Identifier: MIT
# max_wait ends a wait with EAGAIN or, if configured, ETIMEDOUT; page faults still succeed.
. "${srcdir:-.}/tests/mount/lib.sh" || exit 1
requires helper:nonblock

backing tmpfs
head -c 1M /dev/zero >"$SRC/file"

fails_with() {	# text command
	local text=$1 out
	shift
	out=$("$@" 2>&1) && fail "'$*' did not fail"
	[[ $out == *"$text"* ]] || fail "'$*' said '$out', not '$text'"
}
mount_ratefs -o read_bps=10K,max_wait=200ms
fails_with 'Resource temporarily unavailable' dd if="$MNT/file" of=/dev/null bs=64K count=4
unmount_ratefs
mount_ratefs -o read_bps=10K,max_wait=200ms,on_timeout=etimedout
fails_with 'Connection timed out' dd if="$MNT/file" of=/dev/null bs=64K count=4
unmount_ratefs
mount_ratefs -o read_bps=300K,max_wait=50ms
equal "$(nonblock mmap "$MNT/file")" "read by mmap" "page faults past max_wait"
unmount_ratefs
