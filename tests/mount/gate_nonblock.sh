#!/bin/bash
# SPDX-License-Identifier: MIT
# O_NONBLOCK handles get EAGAIN instead of waiting, partial transfers, and poll reports when to retry.
. "${srcdir:-.}/tests/mount/lib.sh" || exit 1
requires helper:nonblock

backing tmpfs
head -c 1M /dev/zero >"$SRC/file"
mkdir "$SRC/dir"
touch "$SRC/dir/"{1..50}

# 100 KiB/s, 10 KiB available: the first read is shortened to that, the next one gets nothing.
mount_ratefs -o read_bps=100K,write_bps=100K
nap 300ms
mapfile -t got < <(nonblock read "$MNT/file" 65536 2)
[[ ${got[0]} =~ ^[0-9]+$ ]] && [ "${got[0]}" -ge 4096 ] && [ "${got[0]}" -lt 65536 ] ||
	fail "a read that the budget covers in part was answered '${got[0]}'"
equal "${got[1]}" EAGAIN "a read without budget"
mapfile -t got < <(nonblock write "$MNT/file" 65536 2)
[[ ${got[0]} =~ ^[0-9]+$ ]] && [ "${got[0]}" -ge 4096 ] && [ "${got[0]}" -lt 65536 ] ||
	fail "a write that the budget covers in part was answered '${got[0]}'"
equal "${got[1]}" EAGAIN "a write without budget"

equal "$(nonblock toggle "$MNT/file" 4096 | tr '\n' ' ')" "EAGAIN 4096 " "F_SETFL is read per request"

for how in poll select epoll epollet; do
	nap 150ms
	read -r rc ms n < <(nonblock wait $how "$MNT/file" 4096)
	equal "$rc" 1 "$how"
	[ "$ms" -ge 10 ] || fail "$how said ready after $ms ms, without tokens"
	[ "$ms" -le 2000 ] || fail "$how took $ms ms"
	equal "$n" 4096 "the read after $how"
done
# An edge-triggered epoll asks only once: it must be notified whenever tokens are available again.
equal "$(nonblock edge "$MNT/file" 4096 5)" 5 "edges after whole reads"
equal "$(nonblock edge "$MNT/file" 65536 5)" 5 "edges after reads in part"
unmount_ratefs

# Directories, metadata and page faults never get EAGAIN.
mount_ratefs -o iops=50,window=20ms
equal "$(nonblock dir "$MNT/dir")" 52 "names in a directory opened with O_NONBLOCK"
equal "$(nonblock mmap "$MNT/file")" "read by mmap" "page faults"
ok ls -R "$MNT" >/dev/null
unmount_ratefs

# nonblock=wait makes them wait like others.
mount_ratefs -o read_bps=100K,nonblock=wait
at_least 500ms nonblock read "$MNT/file" 32768 3 >"$TMP/out"
equal "$(tr '\n' ' ' <"$TMP/out")" "32768 32768 32768 " "nonblock=wait"
unmount_ratefs

# O_DIRECT transfers are shortened only to whole blocks, since the backing file would return EINVAL
# otherwise; also if a block is larger than the capacity of the bucket.
in_blocks() {
	head -c 1M /dev/zero >"$SRC/file"
	for limit in 100K 20K; do
		mount_ratefs -o "read_bps=$limit,write_bps=$limit"
		equal "$(nonblock direct "$MNT/file" 65536 5)" "5" "reads and writes with O_DIRECT at $limit"
		unmount_ratefs
	done
}
umount "$BACK"
loop_works || exit 0
on_each_backing in_blocks
