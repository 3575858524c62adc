#!/bin/bash
# SPDX-License-Identifier: MIT
# A process that is killed while its request is parked is gone within 50 ms, whatever kind of
# request it is, and the request consumes no tokens.
. "${srcdir:-.}/tests/mount/lib.sh" || exit 1
. "${srcdir:-.}/tests/mount/hard_lib.sh" || exit 1
requires helper:noise helper:reap helper:iogen jq

backing tmpfs
head -c 16M /dev/zero >"$SRC/file"
mkdir "$SRC/dir"
: >"$SRC/dir/one"

# One read of 64K takes four seconds of the rate.  Forty readers wait for the next one; those that
# are killed consume no tokens.
mount_ratefs -o read_bps=16K
park_readers 40 --size 64K
within 5s parked 35 || fail "nothing parked"
level() { stat_of '"\(.limits.read_bps.level) \(.classes.read.ops)"'; }
nobody_waits() { [ "$(stat_of .parked_now)" = 0 ]; }
read -r before_kill admitted < <(level)
unpark
within 2s nobody_waits || fail "dead readers still wait"
read -r after_kill admitted_then < <(level)
equal "$admitted_then" "$admitted" "reads that were admitted while they were killed"
[ "$after_kill" -ge "$before_kill" ] || fail "killed readers spent tokens: level $before_kill, then $after_kill"
stop_ratefs

uring=
if (requires helper:hostile; hostile uring-read "$SRC/file" 1 >/dev/null 2>&1); then uring=1; else say "no io_uring"; fi
for cache in auto page; do
	mount_ratefs -o "cache=$cache,iops=1,iops_once=1M,window=1ms,attr_timeout=0,entry_timeout=0"
	for op in read direct-read direct-write aio aio-plain aio-plain-write uring uring-async uring-direct uring-direct-async mmap write open create stat fstat statfs mkdir rmdir unlink rename link symlink readlink \
		readdir chmod truncate fallocate fsync getxattr setxattr; do
		case $op in aio | direct-* | uring-direct*) dd if="$SRC/file" iflag=direct bs=64K count=1 of=/dev/null 2>/dev/null || continue ;; esac
		case $op in uring*) [ -n "$uring" ] || continue ;; esac
		# With the page cache, only these behave differently.
		case $cache.$op in auto.* | page.mmap | page.write | page.direct-*) ;; *) continue ;; esac
		path=$MNT/file
		[ $op != readdir ] || path=$MNT/dir
		killed_in_time $op "$path" "$MNT"
		case $op in aio* | uring*) say "killed in $op: gone after $(cut -d ' ' -f 1 "$TMP/reap") ms; noise $NOISE_MS ms" ;; esac
	done
	stop_ratefs
done
