#!/bin/bash
# SPDX-License-Identifier: MIT
# Callers that work through AIO, io_uring and mappings are in the class of the program and of the user who opened.
. "${srcdir:-.}/tests/mount/lib.sh" || exit 1
. "${srcdir:-.}/tests/mount/rules_lib.sh" || exit 1
requires fio jq python3

backing tmpfs
mount_ratefs -o bps=1G,cache=page,name=m
bytes() { ctl stats "$1" --json | jq "[.classes[].bytes] | add"; } # TARGET

# Threads of io_uring have names and numbers of their own.
ok ctl class add m fio match=comm:fio
for engine in "libaio --direct=1" io_uring "io_uring --force_async=1 --direct=1" mmap; do
	before=$(bytes m/fio)
	outside=$(($(bytes m) - before))
	# shellcheck disable=SC2086
	fio --name=x --directory="$MNT" --size=2M --bs=64k --rw=write --iodepth=8 --thread --end_fsync=1 --fallocate=none \
		--ioengine=$engine --output="$TMP/out" || { cat "$TMP/out"; fail "fio $engine"; }
	sync -f "$MNT"
	after=$(bytes m/fio)
	[ $((after - before)) -ge $((2 * MIB)) ] || fail "$engine: only $((after - before)) bytes of 2 MiB are in the class"
	[ $(($(bytes m) - after - outside)) -lt 65536 ] || fail "$engine: $(($(bytes m) - after - outside)) bytes are outside"
	rm -f "$MNT"/x.*
done
ok ctl class remove m/fio

# What the kernel writes back on behalf of root is of the user who opened.
ok ctl class add m alice match=uid:1001
truncate -s 1M "$SRC/map"
chmod 666 "$SRC/map"
python3 -c '
import mmap, os, sys, time
os.setresuid(1001, 1001, 1001)
m = mmap.mmap(os.open(sys.argv[1], os.O_RDWR), 1 << 20)
m[:] = b"x" * (1 << 20)
print("written", flush=True)
time.sleep(20)' "$MNT/map" >"$TMP/ready" &
mapper=$!
within 5s test -s "$TMP/ready" || fail "the mapping was not written"
before=$(ctl stats m/alice --json | jq .classes.write.bytes)
sync -f "$MNT"
after=$(ctl stats m/alice --json | jq .classes.write.bytes)
[ $((after - before)) -ge $MIB ] || fail "only $((after - before)) bytes of a mapping are charged to who opened"
kill $mapper
wait $mapper 2>/dev/null
unmount_ratefs
