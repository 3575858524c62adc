#!/bin/bash
# SPDX-License-Identifier: MIT
# A process that is killed while its request is parked is gone in milliseconds, whatever it does,
# and its tokens are not spent.
. "${srcdir:-.}/tests/mount/lib.sh" || exit 1
requires helper:reap

backing tmpfs
head -c 16M /dev/zero >"$SRC/file"
mkdir "$SRC/dir"

# 50 ms is promised, and measured by the bench; here a busy machine gets more, and three tries.  Without
# the promise a killed process stays until its token comes, up to half a second.
LIMIT_MS=${RATEFS_TEST_KILL_MS:-150}
gone_in_time() {	# op path
	local ms
	for _ in 1 2 3; do
		ms=$(before 60s reap "$1" "$2" 1) || fail "$1"
		awk -v ms="$ms" -v limit="$LIMIT_MS" 'BEGIN { exit !(ms <= limit) }' && return
		say "killed in $1 (cache=$cache): gone after $ms ms"
	done
	fail "killed in $1 (cache=$cache): never gone within $LIMIT_MS ms"
}

for cache in auto page; do
	mount_ratefs -o "cache=$cache,iops=2,window=1ms,attr_timeout=0,entry_timeout=0"
	for op in read aio mmap write open stat mkdir readdir fsync rename getxattr; do
		[ $op != aio ] || dd if="$SRC/file" iflag=direct bs=64K count=1 of=/dev/null 2>/dev/null || continue
		[ $cache = auto ] || [ $op = read ] || [ $op = mmap ] || [ $op = write ] || continue
		# A page of the cache is read once: each try needs new ones.
		path=$MNT/file
		[ $op != readdir ] || path=$MNT/dir
		[ $cache.$op != page.read ] || continue
		gone_in_time $op "$path"
	done
	stop_ratefs
done
