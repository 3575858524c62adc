#!/bin/bash
# SPDX-License-Identifier: MIT
# The edges of a filesystem are those of the backing: read-only, full, out of links.
. "${srcdir:-.}/tests/mount/lib.sh" || exit 1
requires helper:conform

read_only() {
	(cd "$PLAIN" && conform readonly_before) >/dev/null || fail "cannot prepare"
	(cd "$SRC" && conform readonly_before) >/dev/null || fail "cannot prepare"
	mount --bind "$PLAIN" "$PLAIN"
	mount -o remount,bind,ro "$PLAIN"
	mount_ratefs -o ro
	same_on_both conform readonly
	unmount_ratefs
	umount "$PLAIN"
}
# A writable mount of a read-only source.
read_only_source() {
	mount --bind "$SRC" "$SRC"
	mount -o remount,bind,ro "$SRC"
	mount_ratefs
	refused touch "$MNT/new"
	refused touch "$MNT/readonly/f"
	says 'Read-only file system' rm "$MNT/readonly/f"
	ok cat "$MNT/readonly/f"
	unmount_ratefs
	umount "$SRC"
}
both() {
	read_only
	read_only_source
}
on_each_backing both

# full KIND CACHE: on a full disk, no acknowledged data is lost, and freed space can be used again.
full() {
	backing "$1" 16M
	BACKING=$1
	conforms "cache=$2" full
	unbacking
}
full tmpfs strict
full tmpfs page
full tmpfs auto
if loop_works; then
	full ext4 strict
	full ext4 auto
	backing ext4
	BACKING=ext4
	conforms cache=auto many_links
fi

# Reading does not update access times of the source if noatime was given.
backing tmpfs
mkdir "$SRC/d"
echo x >"$SRC/d/f"
old=2001-02-03T04:05:06
for cache in auto strict page; do
	for o in noatime ro relatime; do
		mount_ratefs -o cache=$cache,$o
		touch -a -d $old "$SRC/d" "$SRC/d/f"
		cat "$MNT/d/f" >/dev/null
		ls "$MNT/d" >/dev/null
		unmount_ratefs
		equal "$(stat -c %X "$SRC/d" "$SRC/d/f" | grep -vc "$(date -d $old +%s)")" "$([ $o = relatime ] && echo 2 || echo 0)" \
			"access times that moved with cache=$cache,$o"
	done
done
# With strictatime every read updates them, even if the source is mounted otherwise.
mount --bind "$SRC" "$SRC"
mount -o remount,bind,noatime "$SRC"
ok grep -q " $SRC .*noatime" /proc/self/mounts
for cache in auto strict page; do
	mount_ratefs -o cache=$cache,strictatime
	touch -d 2030-01-01 "$SRC/d" "$SRC/d/f"	# relatime would not
	cat "$MNT/d/f" >/dev/null
	ls "$MNT/d" >/dev/null
	unmount_ratefs
	equal "$(stat -c %X "$SRC/d" "$SRC/d/f" | grep -vc "$(date -d 2030-01-01 +%s)")" 2 \
		"access times that moved with cache=$cache,strictatime"
done
umount "$SRC"
mount_ratefs -o nodiratime
touch -a -d $old "$SRC/d" "$SRC/d/f"
cat "$MNT/d/f" >/dev/null
ls "$MNT/d" >/dev/null
equal "$(stat -c %X "$SRC/d" "$SRC/d/f" | grep -vc "$(date -d $old +%s)")" 1 "access times that moved with nodiratime"
unmount_ratefs

# A file handle that a program has kept finds its file again, even if the kernel has forgotten the
# file.
cat >"$TMP/handle.py" <<'EOF'
import ctypes, os, sys, time
class Handle(ctypes.Structure):
	_fields_ = ("bytes", ctypes.c_uint), ("type", ctypes.c_int), ("data", ctypes.c_ubyte * 128)
libc = ctypes.CDLL(None, use_errno=True)
def handle(path):
	h = Handle(128)
	assert libc.name_to_handle_at(-100, path.encode(), ctypes.byref(h), ctypes.byref(ctypes.c_int()), 0) == 0
	return h
def number(h):
	fd = libc.open_by_handle_at(mount, ctypes.byref(h), os.O_RDONLY)
	return os.strerror(ctypes.get_errno()) if fd < 0 else os.fstat(fd).st_ino
os.chdir(sys.argv[1])
mount = os.open(".", os.O_RDONLY)
open("gone", "w").close()
paths = ["d", "d/f", "gone"]
known = [(p, os.stat(p).st_ino, handle(p)) for p in paths]
os.unlink("gone")
open("/proc/sys/vm/drop_caches", "w").write("2")
time.sleep(0.2)
print(*[p if number(h) == ino else number(h) for p, ino, h in known])
EOF
for cache in auto strict; do
	mount_ratefs -o cache=$cache
	equal "$(python3 "$TMP/handle.py" "$MNT")" "d d/f Stale file handle" "open_by_handle_at after drop_caches, cache=$cache"
	unmount_ratefs
done

# This also holds on the mount of the next daemon; a handle that was not issued for this source
# finds nothing.
cat >"$TMP/keep.py" <<'EOF'
import ctypes, os, pickle, sys
class Handle(ctypes.Structure):
	_fields_ = ("bytes", ctypes.c_uint), ("type", ctypes.c_int), ("data", ctypes.c_ubyte * 128)
libc = ctypes.CDLL(None, use_errno=True)
def handle(path):
	h = Handle(128)
	if libc.name_to_handle_at(-100, path.encode(), ctypes.byref(h), ctypes.byref(ctypes.c_int()), 0):
		sys.exit(os.strerror(ctypes.get_errno()))
	return bytes(h)
def what(raw):
	fd = libc.open_by_handle_at(mount, ctypes.byref(Handle.from_buffer_copy(raw)), os.O_RDONLY)
	if fd < 0: return "-%d" % ctypes.get_errno()
	return str(os.fstat(fd).st_ino)
do, where, saved, *names = sys.argv[1:]
os.chdir(where)
mount = os.open(".", os.O_RDONLY)
if do == "save":
	pickle.dump([handle(n) for n in names], open(saved, "wb"))
	print(*[os.stat(n).st_ino for n in names])
else:
	handles = pickle.load(open(saved, "rb"))
	if do == "forge":	# behind length and type: eight bytes of id, four of generation
		handles = [h[:8 + i] + bytes([h[8 + i] ^ 1]) + h[9 + i:] for h in handles for i in range(12)]
	print(*[what(h) for h in handles])
EOF
keep() { python3 "$TMP/keep.py" "$@"; }
restarted() {
	local was
	mkdir -p "$SRC/d/deep" "$SRC/out" "$BACK/beside"
	echo x >"$SRC/d/f"
	echo x >"$SRC/d/deep/gone"
	mount_ratefs
	was=$(keep save "$MNT" "$TMP/saved" d d/f d/deep d/deep/gone out) || fail "$BACKING: no handles"
	unmount_ratefs
	mv "$SRC/d/f" "$SRC/moved"
	rm "$SRC/d/deep/gone"
	touch "$SRC"/new{1..50}			# perhaps one of them gets its number
	mv "$SRC/out" "$BACK/beside/out"
	mount_ratefs
	equal "$(keep open "$MNT" "$TMP/saved")" "$(cut -d" " -f1-3 <<<"$was") -116 -116" "$BACKING: handles after a restart"
	equal "$(keep forge "$MNT" "$TMP/saved" | tr " " "\n" | grep -vc "^-116\$")" 0 "$BACKING: changed handles that find a file"
	unmount_ratefs
	# The same filesystem, but not this source.
	mv "$SRC/d" "$BACK/beside/d"
	SRC=$BACK/beside mount_ratefs
	equal "$(keep open "$MNT" "$TMP/saved")" "-116 -116 -116 -116 -116" "$BACKING: handles of another source"
	unmount_ratefs
}
unbacking
[ ! -r /etc/machine-id ] || on_each_backing restarted
# If the source cannot provide this, the mount offers no file handles.
backing tmpfs
mkdir "$TMP/over" "$BACK/low" "$BACK/up" "$BACK/work"
if mount -t overlay overlay -o "lowerdir=$BACK/low,upperdir=$BACK/up,workdir=$BACK/work" "$TMP/over"; then
	SRC=$TMP/over mount_ratefs
	touch "$MNT/f"
	says 'Operation not supported' keep save "$MNT" "$TMP/saved" f
	unmount_ratefs
	umount "$TMP/over"
fi
unbacking
backing tmpfs
mkdir "$SRC/d"
echo x >"$SRC/d/f"

# Root can use up the remaining descriptors and the mount still works: the daemon keeps some for itself.
mkdir "$SRC/many"
touch "$SRC/many"/{1..1100}
DAEMON_WRAPPER=(prlimit --nofile=1024:1024)
mount_ratefs
coproc hog { python3 -c '
import os, resource, sys
fds = []
resource.setrlimit(resource.RLIMIT_NOFILE, (2000, 2000))
try:
	for i in range(1, 1101): fds.append(os.open("%s/many/%d" % (sys.argv[1], i), os.O_RDONLY))
except OSError as e:
	print(os.strerror(e.errno), flush=True)
sys.stdin.readline()' "$MNT"; }
hogging=$!
read -r -t 20 -u "${hog[0]}" line
equal "$line" "Too many open files in system"
ok stat "$MNT/many/1099" >/dev/null
ok mkdir "$MNT/many/new"
ok mv "$MNT/many/1098" "$MNT/many/new/"
ok rm "$MNT/many/new/1098"
ok rmdir "$MNT/many/new"
equal "$(as_user alice cat "$MNT/d/f")" x
echo >&"${hog[1]}"
wait $hogging
unmount_ratefs
DAEMON_WRAPPER=()
unbacking

# O_DIRECT with memory that does not begin on a page: the kernel splits the transfer into requests
# that are not whole blocks.
cat >"$TMP/direct.py" <<'EOF'
import mmap, os
room = mmap.mmap(-1, 8 << 20)
fd = os.open("direct", os.O_RDWR | os.O_CREAT | os.O_DIRECT)
def get(call, *a):
	try: return call(*a)
	except OSError as e: return os.strerror(e.errno)
for at in 0, 512, 1024, 2048:
	for size in 4096, 1 << 20, (1 << 20) + 4096, 3 << 20:
		data = bytes(i * 7 & 255 for i in range(4096)) * (size // 4096)
		part = memoryview(room)[at:at + size]
		part[:] = data
		wrote = get(os.pwritev, fd, [part], 0)
		part[:] = bytes(size)
		got = get(os.preadv, fd, [part], 0)
		print(at, size, wrote, got, part == data)
for at, size in (1, 4096), (0, 4095), (512, 4096), (4096, 512):
	print(at, size, get(os.pwritev, fd, [memoryview(room)[:size]], at), get(os.preadv, fd, [memoryview(room)[:size]], at))
EOF
truncate -s 64M "$TMP/blocks.img"
if loop=$(losetup --sector-size 4096 -f --show "$TMP/blocks.img" 2>/dev/null); then
	mkfs.ext4 -q "$loop" || fail mkfs.ext4
	ok mount "$loop" "$BACK"
	mkdir "$SRC" "$PLAIN"
	for cache in auto strict; do
		mount_ratefs -o cache=$cache
		same_on_both python3 "$TMP/direct.py"
		grep -q '^512 1048576 1048576 1048576 True' "$TMP/out.mount" || fail
		unmount_ratefs
	done
	umount "$BACK"
	losetup -d "$loop"
fi
