#!/bin/bash
# SPDX-License-Identifier: MIT
# Every limit of every scope holds its class back, and only its class.
. "${srcdir:-.}/tests/mount/lib.sh" || exit 1
requires helper:iogen jq

backing tmpfs
head -c 8M /dev/zero >"$SRC/file"

# limited OPTIONS OP COUNT LEAST [iogen options]: COUNT operations take at least LEAST.
limited() {
	local options=$1 op=$2 count=$3 least=$4
	shift 4
	mount_ratefs -o "window=100ms,$options"
	at_least "$least" iogen --op "$op" --count "$count" --path "$MNT/file" "$@" >/dev/null
	unmount_ratefs
}
# free OPTIONS OP COUNT MOST: they are not held back.
free() {
	local options=$1 op=$2 count=$3 most=$4
	shift 4
	mount_ratefs -o "window=100ms,$options"
	before "$most" iogen --op "$op" --count "$count" --path "$MNT/file" "$@" >/dev/null
	unmount_ratefs
}

# 100/s with a tenth of a second in stock: 60 operations take half a second.
limited iops=100 read 60 450ms --size 4K
limited iops=100 write 60 450ms --size 4K
limited read_iops=100 read 60 450ms --size 4K
limited write_iops=100 write 60 450ms --size 4K
limited meta_iops=100,cache=strict stat 60 450ms
limited meta_iops=100,iops=1M,cache=strict stat 60 450ms
limited meta_iops=100 mkdir 30 450ms
limited meta_iops=100 open 60 450ms
limited iops=100 open 60 450ms
limited iops=100 readdir 60 450ms --path "$MNT"
# 1 MiB/s: 64K blocks, 100 KiB in stock: 10 blocks take half a second.
limited read_bps=1M read 10 450ms --size 64K
limited write_bps=1M write 10 450ms --size 64K
limited bps=1M read 10 450ms --size 64K
limited bps=1M write 10 450ms --size 64K
# Wider and narrower scopes.
limited global.read_bps=1M read 10 450ms --size 64K
limited fs.write_bps=1M write 10 450ms --size 64K
limited global.iops=100,iops=1M,fs.iops=1M read 60 450ms --size 4K
# A request larger than the capacity goes, and is paid for.
limited read_bps=1M,window=10ms read 3 1500ms --size 1M

free read_bps=1M write 100 2s --size 64K
free write_bps=1M read 100 2s --size 64K
free meta_iops=10 read 200 2s --size 4K
free read_iops=10 write 200 2s --size 4K
# Burst: the first second's worth goes at once.
free iops=100,iops_burst=100 read 100 500ms --size 4K
free iops=100,iops_once=100 read 100 500ms --size 4K
