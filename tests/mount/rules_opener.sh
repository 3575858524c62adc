#!/bin/bash
# SPDX-License-Identifier: MIT
# Requests through AIO, io_uring and mappings belong to the class of the program and user that
# opened the file.
. "${srcdir:-.}/tests/mount/lib.sh" || exit 1
. "${srcdir:-.}/tests/mount/rules_lib.sh" || exit 1
requires fio jq python3

backing tmpfs
mount_ratefs -o bps=1G,cache=page,name=m
bytes() { ctl stats "$1" --json | jq "[.classes[].bytes] | add"; } # TARGET

# Worker threads of io_uring have names and ids of their own.
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

# Data that the kernel writes back as root is charged to the user who opened the file.
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
within 20s test -s "$TMP/ready" || fail "the mapping was not written"
before=$(ctl stats m/alice --json | jq .classes.write.bytes)
sync -f "$MNT"
after=$(ctl stats m/alice --json | jq .classes.write.bytes)
[ $((after - before)) -ge $MIB ] || fail "only $((after - before)) bytes of a mapping are charged to who opened"
kill $mapper
wait $mapper 2>/dev/null
ok ctl class remove m/alice

# This also holds if the program that opened the file has exited and its pid can be reused, while
# its child still uses the mapping.
cat >"$TMP/heir" <<'END'
import ctypes, mmap, os, sys, time
ctypes.CDLL(None).prctl(15, b"opener", 0, 0, 0)
m = mmap.mmap(os.open(sys.argv[1], os.O_RDWR), 1 << 20)
opener = os.getpid()
if os.fork():
	os._exit(0)
ctypes.CDLL(None).prctl(15, b"heir", 0, 0, 0)
while os.getppid() == opener:
	time.sleep(0.01)
m[:] = b"y" * (1 << 20)
print(os.getpid(), flush=True)
time.sleep(20)
END
inherits() { # CLASS [COMMAND that starts the opener]
	local before after heir
	before=$(bytes "m/$1")
	"${@:2}" python3 "$TMP/heir" "$MNT/map" >"$TMP/heir.ready"
	within 20s test -s "$TMP/heir.ready" || fail "the heir has not written"
	heir=$(<"$TMP/heir.ready")
	nap 1100ms # what is known of a process is a second old at most
	sync -f "$MNT"
	after=$(bytes "m/$1")
	[ $((after - before)) -ge $MIB ] || fail "$1: only $((after - before)) bytes of a gone opener's mapping"
	kill "$heir"
	within 20s gone "$heir" || fail "the heir does not end"
	rm -f "$TMP/heir.ready"
}
ok ctl class add m name match=comm:opener
inherits name
ok ctl class remove m/name
if make_cgroups one; then
	ok ctl class add m cgroup "match=cgroup:$(cgroup_path one)"
	inherits cgroup in_cgroup one
	remove_cgroups
else
	say "no cgroups"
fi
unmount_ratefs
