#!/bin/bash
# SPDX-License-Identifier: MIT
# Every limit of every scope throttles its class of operations, and no other class.
. "${srcdir:-.}/tests/mount/lib.sh" || exit 1
requires helper:iogen jq

backing tmpfs
head -c 8M /dev/zero >"$SRC/file"

# limited OPTIONS OP COUNT TIME [iogen options]: COUNT operations take TIME, as long as their tokens
# take to arrive.  Not less, except for 5 ms, by which a late wake-up may be backdated.  Not much
# more: half as much again is allowed for the machine.
limited() {
	local options=$1 op=$2 count=$3 time_ms
	time_ms=$(ms_of "$4")
	shift 4
	mount_ratefs -o "window=100ms,$options"
	between $((time_ms - 5))ms $((time_ms * 3 / 2))ms iogen --op "$op" --count "$count" --path "$MNT/file" "$@" >/dev/null
	unmount_ratefs
}
# The same for operations of which some take the kernel more than one request: they take that long
# or longer.
limited_at_least() {
	local options=$1 op=$2 count=$3 least=$4
	shift 4
	mount_ratefs -o "window=100ms,$options"
	at_least "$least" iogen --op "$op" --count "$count" --path "$MNT/file" "$@" >/dev/null
	unmount_ratefs
}
# free OPTIONS OP COUNT MOST: the operations are not throttled, and take less than MOST.
free() {
	local options=$1 op=$2 count=$3 most=$4
	shift 4
	mount_ratefs -o "window=100ms,$options"
	before "$most" iogen --op "$op" --count "$count" --path "$MNT/file" "$@" >/dev/null
	unmount_ratefs
}

# 100/s, and the bucket holds a tenth of a second's worth: 60 operations take half a second.
limited read_iops=100 read 60 500ms --size 4K
limited write_iops=100 write 60 500ms --size 4K
limited meta_iops=100 fsync 60 500ms
limited meta_iops=100,iops=1M fsync 60 500ms
limited_at_least iops=100 read 60 500ms --size 4K
limited_at_least iops=100 write 60 500ms --size 4K
limited_at_least meta_iops=100,cache=strict stat 60 500ms
limited_at_least meta_iops=100 mkdir 30 500ms
limited_at_least meta_iops=100 open 60 500ms
limited_at_least iops=100 open 60 500ms
limited_at_least iops=100 readdir 60 500ms --path "$MNT"
# 1000 KiB/s, and the bucket holds 100 KiB: 10 blocks of 60 KiB take half a second.
limited read_bps=1000K read 10 500ms --size 60K
limited write_bps=1000K write 10 500ms --size 60K
limited bps=1000K read 10 500ms --size 60K
limited bps=1000K write 10 500ms --size 60K
# Wider and narrower scopes.
limited global.read_bps=1000K read 10 500ms --size 60K
limited fs.write_bps=1000K write 10 500ms --size 60K
limited global.read_iops=100,read_iops=1M,fs.read_iops=1M read 60 500ms --size 4K
# A request larger than the capacity waits for a full bucket, and is charged in full.
limited read_bps=1M,window=10ms read 3 2000ms --size 1M

free read_bps=1M write 100 2s --size 64K
free write_bps=1M read 100 2s --size 64K
free meta_iops=10 read 200 2s --size 4K
free read_iops=10 write 200 2s --size 4K
# Burst: the first second's worth proceeds immediately.
free iops=100,iops_burst=100 read 100 500ms --size 4K
free iops=100,iops_once=100 read 100 500ms --size 4K
