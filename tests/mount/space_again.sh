#!/bin/bash
# SPDX-License-Identifier: MIT
# A tree that is mounted again while its last mount is still storing the total: the new mount uses that total and enforces
# the limits.
. "${srcdir:-.}/tests/mount/space_lib.sh" || exit 1
. "${srcdir:-.}/tests/mount/hard_lib.sh" || exit 1
requires python3

backing tmpfs
faults_ready
head -c 2M /dev/zero >"$SRC/old"
mkdir "$TMP/own"
# Reads the section again, as ratefs-volume does.
mount_own() {
	python3 - "$(echo /run/ratefs/*.sock)" <<'END'
import socket, sys
s = socket.socket(socket.AF_UNIX)
s.connect(sys.argv[1])
s.sendall(b'{"v":1,"do":"mount","target":"own","read":true}\n')
sys.exit('"ok":true' not in s.makefile().readline().replace(" ", ""))
END
}
mount_shared() { ctl mount shared >/dev/null; }

# again NAME DIRECTORY: writing the total takes a second; meanwhile the mount is unmounted and mounted again.
again() {
	equal "$(space used "$1")" "$(held)" "$1: before"
	fault fsync delay=1000 count=1
	ok ctl unmount "$1" >/dev/null
	ok "mount_$1"
	within 5s struck fsync || fail "$1: the total was not stored"
	heal
	equal "$(space state "$1")" enforced "$1: mounted again"
	equal "$(space scans "$1")" 0 "$1: scans, although the total was stored"
	dd if=/dev/zero of="$2/big" bs=64k count=320 2>/dev/null && fail "$1: 20 MiB in 10"
	equal "$(held)" $((10 << 20)) "$1: mounted again"
	rm "$2/big"
}

printf '[fs:box]\nsource = %s\nsize = 10M\n[mount:shared]\nfs = box\nmountpoint = %s\n' "$SRC" "$MNT" >"$TMP/ratefs.conf"
"${DAEMON_WRAPPER[@]}" "$RATEFS" -f -c "$TMP/ratefs.conf" >"$LOG" 2>&1 &
DAEMON=$!
within 10s mountpoint -q "$MNT" || fail "the mount did not come up"
again shared "$MNT"
stop_ratefs

printf '[mount:own]\nsource = %s\nsize = 10M\nmountpoint = %s\n' "$SRC" "$TMP/own" >"$TMP/ratefs.conf"
"${DAEMON_WRAPPER[@]}" "$RATEFS" -f -c "$TMP/ratefs.conf" >"$LOG" 2>&1 &
DAEMON=$!
within 10s mountpoint -q "$TMP/own" || fail "the mount did not come up"
again own "$TMP/own"
stop_ratefs
