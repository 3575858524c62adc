#!/bin/bash
# SPDX-License-Identifier: MIT
# A process that is killed while its request is parked is gone in milliseconds, whatever it does,
# and its tokens are not spent.
. "${srcdir:-.}/tests/mount/lib.sh"
requires helper:reap

backing tmpfs
head -c 16M /dev/zero >"$SRC/file"
mkdir "$SRC/dir"

LIMIT_MS=${RATEFS_TEST_KILL_MS:-250}	# 50 ms is promised; a loaded test machine gets more
for cache in auto page; do
	mount_ratefs -o "cache=$cache,iops=4,window=1ms,attr_timeout=0,entry_timeout=0"
	for op in read aio mmap write open stat mkdir readdir fsync rename getxattr; do
		[ $op != aio ] || dd if="$SRC/file" iflag=direct bs=64K count=1 of=/dev/null 2>/dev/null || continue
		[ $cache = auto ] || [ $op = read ] || [ $op = mmap ] || [ $op = write ] || continue
		# A page of the cache is read once: each try needs new ones.
		path=$MNT/file
		[ $op != readdir ] || path=$MNT/dir
		[ $cache.$op != page.read ] || continue
		ms=$(before 60s reap $op "$path" 2) || fail "$op"
		awk -v ms="$ms" -v limit="$LIMIT_MS" 'BEGIN { exit !(ms <= limit) }' ||
			fail "killed in $op (cache=$cache): gone after $ms ms"
	done
	stop_ratefs
done
