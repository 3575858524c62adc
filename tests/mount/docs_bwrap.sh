#!/bin/bash
# SPDX-License-Identifier: MIT
# The sandbox of README: its storage is throttled, and the tree behind it is out of reach.
. "${srcdir:-.}/tests/mount/lib.sh" || exit 1
requires bwrap

backing tmpfs
mount_ratefs -o write_bps=2M,iops=500,cache=strict
box() {
	bwrap --ro-bind / / --dev /dev --proc /proc --tmpfs "$SRC" --bind "$MNT" /mnt --chdir /mnt \
		--unshare-all --die-with-parent --new-session "$@"
}
box true 2>/dev/null || skip "bwrap cannot make a sandbox here"

# 4 MiB at 2 MiB/s, of which a window of 100 ms is available immediately.
between 1800ms 20s box dd if=/dev/zero of=out bs=64k count=64 status=none
equal "$(stat -c %s "$SRC/out")" 4194304
equal "$(box ls "$SRC")" "" "the sandbox sees the backing tree"
refused box touch "$TMP/outside"
# Killing the sandbox does not wait for its limit.
box dd if=/dev/zero of=big bs=1M count=1000 status=none 2>/dev/null &
pid=$!
nap 500ms
kill -9 $pid
wait $pid 2>/dev/null
within 2s umounted || fail "the sandbox is still there"
daemon_ended_well
