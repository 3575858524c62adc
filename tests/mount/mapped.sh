#!/bin/bash
# SPDX-License-Identifier: MIT
# A write(2) and a store into a shared mapping of the same page: neither is lost, however long the write waits.
. "${srcdir:-.}/tests/mount/lib.sh" || exit 1
requires helper:mapwrite

backing tmpfs
BACKING=tmpfs
spend() { dd if=/dev/zero of="$MNT/other" bs="$1" count=3 conv=notrunc status=none; }	# what is saved up

# The write waits for a second; the store comes after 0.3 s.
truncate -s 8M "$SRC/f"
mount_ratefs -o write_iops=1
spend 1
ok mapwrite late "$MNT/f" 0 100 4000
ok mapwrite late "$MNT/f" 4000 200 4096
unmount_ratefs
equal "$(head -c 100 "$SRC/f" | tr -d W)" "" "what the source has of the write"

# A write that arrives in pieces: the store hits a page whose piece has not been sent yet.
mount_ratefs -o write_bps=2M
spend 1M
ok mapwrite late "$MNT/f" 100 3000000 2500000
ok mapwrite late "$MNT/f" 100 3000000 3000100
unmount_ratefs

# A write that is killed while it waits does not affect the store.
truncate -s 0 "$SRC/f"
truncate -s 8K "$SRC/f"
mount_ratefs -o write_iops=1
spend 1
python3 - "$MNT/f" <<'END' || fail "a store beside a killed write"
import mmap, os, signal, sys, time
fd = os.open(sys.argv[1], os.O_RDWR)
page = mmap.mmap(fd, 4096)
writer = os.fork()
if writer == 0:
	while True: os.pwrite(fd, b"W" * 100, 0)
time.sleep(0.1)
page[200] = 0x53
os.kill(writer, signal.SIGKILL)
os.waitpid(writer, 0)
page.flush()
assert os.pread(fd, 1, 200) == b"S" and page[200] == 0x53
END
# A write whose data is the mapped page that it writes to.
python3 - "$MNT/f" <<'END' || fail "a write from a mapping of the same page"
import mmap, os, sys
fd = os.open(sys.argv[1], os.O_RDWR)
page = mmap.mmap(fd, 4096)
page[0:8] = b"12345678"
assert os.pwrite(fd, memoryview(page)[0:4], 4) == 4
page[1000] = 0x53
page.flush()
assert os.pread(fd, 8, 0) == b"12341234" and page[0:8] == b"12341234" and os.pread(fd, 1, 1000) == b"S"
END
unmount_ratefs

# Many writes and stores to the same pages at the same time.
slots() {
	for mode in "$@"; do
		mount_ratefs -o "$mode"
		ok mapwrite slots "$MNT/slots" 1000 4
		ok mapwrite slots "$MNT/slots" 1000 4 processes
		ok mapwrite slots "$MNT/slots" 300 8
		unmount_ratefs
	done
}
slots cache=strict iops=20000 bps=40M cache=page cache=auto
if loop_works; then
	unbacking
	backing ext4
	slots cache=strict write_iops=5000
fi
