#!/bin/bash
# SPDX-License-Identifier: MIT
# fio writes with every engine and reads back what it wrote.
. "${srcdir:-.}/tests/mount/lib.sh" || exit 1
requires fio

verify() {	# name, more options
	local name=$1
	shift
	fio --name="$name" --directory="$MNT" --size=6M --bsrange=512-128k --rw=randwrite --ioengine=psync \
		--verify=crc32c --do_verify=1 --verify_fatal=1 --randrepeat=1 --numjobs=2 \
		--output="$TMP/fio.out" "$@" >/dev/null 2>&1 || { tail -30 "$TMP/fio.out" >&2; fail "fio $name ($*)"; }
	rm -f "$MNT/$name".*
}
each() {
	local mode
	for mode in $(modes); do
		mount_ratefs -o "cache=$mode"
		verify psync
		verify aligned --bs=4k --bsrange=4k-64k --rw=randrw
		verify vsync --ioengine=vsync
		verify mmap --ioengine=mmap --bs=4k
		verify direct --direct=1 --bsrange=4k-128k --blockalign=4k
		verify libaio --ioengine=libaio --direct=1 --iodepth=16 --bsrange=4k-64k --blockalign=4k
		verify io_uring --ioengine=io_uring --iodepth=16
		verify large --bs=3m --bsrange=3m-3m --rw=write
		unmount_ratefs
	done
}
on_each_backing each
