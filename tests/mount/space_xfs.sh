#!/bin/bash
# SPDX-License-Identifier: MIT
# XFS preallocates blocks for files that grow.  They are neither held beyond size nor counted as data.  Nor can a program make it
# allocate more than it writes.
. "${srcdir:-.}/tests/mount/space_lib.sh" || exit 1
requires mkfs.xfs python3
loop_works || skip "no loop devices"
backing_xfs || skip "no xfs in this kernel"

size=$((64 << 20))
# Blocks for the block maps of files come on top: one or two for each file with more than about 20 pieces.  The busier the
# machine, the more pieces: preallocated blocks are freed every second.
within_size() { [ "$(held)" -le $((size + $1 * 2 * 4096)) ]; } # FILES
is_full() { # FILES
	local used
	used=$(space used)
	{ [ "$used" -ge $size ] && [ "$used" -le $((size + $1 * 2 * 4096)) ]; } || fail "$used bytes are counted with size=$size"
}
# append FILES WHAT: appends to files in turn until nothing fits; then keeps them open.  Run it in the
# background.
append() {
	exec python3 - "$1" "$2" <<'EOF'
import ctypes, os, sys, time
mnt, what = os.environ["MNT"], sys.argv[2]
fallocate = ctypes.CDLL(None, use_errno=True).fallocate
append = [os.O_APPEND, 0]  # the daemon knows the cost of some writes without O_APPEND in advance
files = [os.open(f"{mnt}/f{i}", os.O_CREAT | os.O_WRONLY | append[i % 2]) for i in range(int(sys.argv[1]))]
if what == "requested":  # with KEEP_SIZE: from then on XFS frees no preallocated blocks of this file
    for fd in files:
        assert fallocate(fd, 1, ctypes.c_long(0), ctypes.c_long(4096)) == 0
try:
    while True:
        for fd in files:
            os.write(fd, bytes(65536))
            if what == "requested":
                os.fsync(fd)
except OSError as e:
    print(e.strerror, flush=True)
time.sleep(1000)
EOF
}
full() { grep -q "No space left" "$TMP/said"; }
export MNT

# Files that are open: all data fits, and what was preallocated is freed soon.
mount_ratefs -o "size=$size"
append 20 plain >"$TMP/said" &
writer=$!
within 60s full || fail "it never became full"
within 10s within_size 20 || fail "20 open files: the source holds $(held) bytes"
is_full 20
kill $writer
wait $writer 2>/dev/null
counts_exactly "20 files"
is_full 20
rm -f "$MNT"/*

# Files that are opened, appended to and closed again and again keep what was preallocated; it is
# freed, and never takes the place of data.
for _ in $(seq 150); do
	for i in 1 2 3 4; do
		head -c 100000 /dev/zero >>"$MNT/g$i" || fail "60 MB do not fit into 64 MiB"
	done
done
counts_exactly "closed files"
[ "$(held)" -le $((60000000 + 4 * (4096 + 2 * 4096))) ] || fail "closed files: the source holds $(held) bytes for 60 MB"
rm -f "$MNT"/*

# Nor do preallocated blocks become data beyond the limit when a file is made longer without writing them: XFS preallocates up
# to 7 MiB for each of four files of 9 MiB.
longer() { # HOW
	head -c 3M /dev/zero >"$MNT/plain"
	python3 - "$MNT" "$1" <<'END' || fail "files cannot be made longer: $1"
import os, sys, time
mnt, how = sys.argv[1:]
files = []  # stay open: what is preallocated for closed files is freed
def longer(fd):
    if how == "truncate":
        os.ftruncate(fd, 100 << 20)
    elif how == "write":
        os.pwrite(fd, b"x", 100 << 20)
    else:
        os.posix_fallocate(fd, 9 << 20, 4096)
for i in range(4):
    fd = os.open(f"{mnt}/l{i}", os.O_CREAT | os.O_WRONLY)
    files.append(fd)
    left = 9 << 20
    while left:
        left -= os.write(fd, bytes(min(left, 1 << 16)))
    for attempt in range(20):  # what does not fit is freed soon
        try:
            longer(fd)
            break
        except OSError as e:
            print(how, i, e)
            time.sleep(0.5)
    else:
        sys.exit(1)
END
	sync -f "$SRC"
	within_size 4 || fail "the source holds $(held) bytes after files were made longer: $1"
	counts_exactly "after files were made longer: $1"
	rm -f "$MNT"/*
}
for how in truncate write fallocate; do
	longer $how
done

# Files whose preallocated blocks XFS does not free: it gets no opportunity to preallocate any.
append 3 requested >"$TMP/said" &
writer=$!
within 60s full || fail "it never became full"
within_size 3 || fail "files with requested blocks: the source holds $(held) bytes"
is_full 3
data=$(find "$SRC" -name 'f*' -printf '%s\n' | awk '{ n += $1 } END { print n }')
[ "$data" -ge $((size - 65536)) ] || fail "only $data bytes of data fit into $size"
kill $writer
wait $writer 2>/dev/null
# The file is known after the next mount, too.
ok truncate -s 10M "$MNT/f0"
ok rm "$MNT/f1" "$MNT/f2"
unmount_ratefs
mount_ratefs -o "size=$size"
for _ in $(seq 160); do
	head -c 65536 /dev/zero >>"$MNT/f0" || fail "appending"
done
ok sync "$MNT/f0"
# Its block map may need a block or two.
[ "$(held)" -le $(((20 << 20) + 16384)) ] || fail "the source holds $(held) bytes after appending to a file of the last mount"
counts_exactly "after appending to a file of the last mount"
rm -f "$MNT"/*

# A hint for the size of extents would let every small write allocate a large extent.
python3 - "$MNT" "$SRC" <<'END' || fail "hints for the size of extents"
import fcntl, os, struct, sys
GET, SET, EXTSZINHERIT = 0x801C581F, 0x401C5820, 0x1000
mnt, src = sys.argv[1:]
def hint(path, size):
    fd = os.open(path, os.O_RDONLY)
    x = bytearray(28)
    fcntl.ioctl(fd, GET, x)
    flags, _, *rest = struct.unpack("IIIII8s", x)
    flags = flags | EXTSZINHERIT if size else flags & ~EXTSZINHERIT
    try:
        fcntl.ioctl(fd, SET, struct.pack("IIIII8s", flags, size, *rest))
    except PermissionError:
        return False
    finally:
        os.close(fd)
    return True
os.mkdir(mnt + "/d")
assert not hint(mnt + "/d", 16 << 20), "it can be set"
assert hint(src + "/d", 16 << 20)
assert hint(mnt + "/d", 16 << 20), "other attributes cannot be changed if there is a hint"
assert not hint(mnt + "/d", 32 << 20), "it can be changed"
assert hint(mnt + "/d", 0), "it cannot be removed"
END
unmount_ratefs
unbacking
