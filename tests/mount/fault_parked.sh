#!/bin/bash
# SPDX-License-Identifier: MIT
# The backing filesystem breaks while requests are parked and others are in flight: each caller gets the error in its turn,
# bytes that were not transferred are refunded, permits are released, nothing is left behind.
. "${srcdir:-.}/tests/mount/lib.sh" || exit 1
. "${srcdir:-.}/tests/mount/hard_lib.sh" || exit 1
requires jq

backing tmpfs 32M
faults_ready
head -c 1M /dev/zero >"$SRC/file"
READERS=24

reader() { dd if="$MNT/file" of=/dev/null bs=64K count=1 iflag=fullblock,direct status=none 2>"$TMP/err.$1"; }
writer() { dd if=/dev/zero of="$MNT/out.$1" bs=64K count=1 oflag=direct status=none 2>"$TMP/err.$1"; }
start() { # N of these, each in the background
	local i
	PIDS=()
	rm -f "$TMP"/err.*
	for ((i = 1; i <= READERS; i++)); do
		"$@" "$i" &
		PIDS+=($!)
	done
}
# Requests admitted earlier may have succeeded; all others must fail with the error.
all_end() { # TEXT
	local p failures=0
	for p in "${PIDS[@]}"; do
		wait "$p" || failures=$((failures + 1))
	done
	[ $failures -ge 10 ] || fail "only $failures of $READERS failed"
	[ "$(grep -l "$1" "$TMP"/err.* | wc -l)" = $failures ] ||
		fail "not '$1' but: $(cat "$TMP"/err.* | grep -v "$1" | head -3)"
}

# 64 KiB each at 64 KiB/s would take 24 seconds if it worked.  It fails, so the bytes are refunded immediately.
mount_ratefs -o read_bps=64K,write_bps=64K,max_inflight=4
for way in reader writer; do
	call=pread; [ $way = reader ] || call=pwrite
	for error in EIO ENOSPC ENOMEM; do
		case $error in
		EIO) text="Input/output error" ;;
		ENOSPC) text="No space left on device" ;;
		ENOMEM) text="Cannot allocate memory" ;;
		esac
		start $way
		within 20s parked 10 || fail "nothing parked"
		fault $call errno=$error
		t0=$(now_ms)
		all_end "$text"
		[ $(($(now_ms) - t0)) -lt 12000 ] || fail "failed requests were charged ($way, $error): $(($(now_ms) - t0)) ms"
		struck $call || fail "nothing was struck"
		heal
		settled "after $error with $READERS parked"
		within 3s full_again read_bps || fail "read tokens are lost"
		within 3s full_again write_bps || fail "write tokens are lost"
		rm -f "$SRC"/out.*
	done
done
unmount_ratefs

# A really full disk: it fills up while writers are parked.
mount_ratefs -o write_bps=256K
start writer
within 20s parked 10 || fail "nothing parked"
dd if=/dev/zero of="$PLAIN/fill" bs=1M status=none 2>/dev/null
all_end "No space left on device"
rm "$PLAIN/fill" "$SRC"/out.*
before 5s cp "$SRC/file" "$MNT/again"
settled "after a full disk"
unmount_ratefs

# The source is removed below parked readers: open files still work, the rest is gone, the mount still works.
mount_ratefs -o read_bps=256K
start reader
within 20s parked 10 || fail "nothing parked"
rm -r "$SRC"
for p in "${PIDS[@]}"; do
	wait "$p" || fail "an open file ended with its name: $(cat "$TMP"/err.* | head -2)"
done
gets "No such file or directory" cat "$MNT/new-name"
gets "No such file or directory" mkdir "$MNT/dir"
settled "after the source was removed"
unmount_ratefs
mkdir "$SRC"

# The source is remounted read-only while metadata operations are parked.  (These change files:
# operations that create names would wait for the kernel's lock on the directory instead.)
for ((i = 1; i <= READERS; i++)); do : >"$SRC/file.$i"; done
mount_ratefs -o meta_iops=4,window=1s
changer() { chmod 600 "$MNT/file.$1" 2>"$TMP/err.$1"; }
start changer
within 20s parked 10 || fail "nothing parked"
mount -o remount,ro "$BACK" || fail "remount"
ok ctl set "$MNT" meta_iops=1000 >/dev/null
all_end "Read-only file system"
mount -o remount,rw "$BACK"
before 5s mkdir "$MNT/works-again"
settled "after read-only"
unmount_ratefs
