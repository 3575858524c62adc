#!/bin/bash
# SPDX-License-Identifier: MIT
# Limits are enforced until the end: requests that arrive while a mount drains are refused; data written into a
# mapping earlier is not lost.
LOG_EXPECTED=.
. "${srcdir:-.}/tests/mount/lib.sh" || exit 1
requires jq python3

backing tmpfs
CONF=$TMP/ratefs.conf
start() {
	printf '[mount:out]\nsource = %s\nmountpoint = %s\nwrite_bps = 2M\ncache = %s\n' "$SRC" "$MNT" "$1" >"$CONF"
	"$RATEFS" -f -c "$CONF" >"$LOG" 2>&1 &
	DAEMON=$!
	within 5s grep -q serving "$LOG" || fail "no mount"
}
# A program that writes until a write fails, and then prints the error.
cat >"$TMP/writer.py" <<'EOF2'
import os, sys
fd = os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT, 0o644)
try:
    while True:
        os.pwrite(fd, b"x" * 65536, 0)
        os.fstat(fd)
except OSError as e:
    print(os.strerror(e.errno))
EOF2
has_written() { [ "$(written "$1")" -ge 1000000 ]; }
written() { awk '/^wchar/ { print $2 }' "/proc/$1/io"; }

ended_by() {
	local how=$1 writer before said
	start auto
	python3 "$TMP/writer.py" "$MNT/out" >"$TMP/said" &
	writer=$!
	within 10s has_written $writer || fail "$how: nothing was written"
	before=$(written $writer)
	"$how" >"$TMP/ctl" 2>&1
	within 3s gone_or_count $writer || fail "$how: the writer goes on"
	wait $writer || fail "$how: the writer failed"
	after=$(cat "$TMP/count")
	# At most what was parked, and what the limit allowed until draining began.
	[ $((after - before)) -lt 4000000 ] || fail "$how: $((after - before)) bytes passed afterwards"
	said=$(cat "$TMP/said")
	case $said in
	"Transport endpoint is not connected" | "Software caused connection abort") ;;
	*) fail "$how: the writer got '$said'" ;;
	esac
}
# True: the process is gone.  Until then, remembers how much it has written.
gone_or_count() {
	local n
	n=$(written "$1" 2>/dev/null)
	[ -z "$n" ] || echo "$n" >"$TMP/count"
	gone "$1"
}

by_signal() { kill -TERM "$DAEMON"; }
by_force() { ctl unmount out --force; }
by_reload() {
	printf '[global]\niops = off\n[mount:other]\nsource = %s\nmountpoint = %s\n' "$SRC" "$PLAIN" >"$CONF"
	ctl reload --force
}
ended_by by_signal
daemon_ended_well
ended_by by_force
kill -TERM "$DAEMON"
daemon_ended_well
ended_by by_reload
kill -TERM "$DAEMON"
daemon_ended_well

# Dirty pages of a mapping: at 2 MiB/s, writing them would take four seconds; the end of the mount
# takes half a second, and no program gets an error.
start page
head -c 8M /dev/zero >"$SRC/mapped"
cat >"$TMP/mapper.py" <<'EOF2'
import mmap, os, sys, time
fd = os.open(sys.argv[1], os.O_RDWR)
m = mmap.mmap(fd, 8 << 20)
for at in range(0, 8 << 20, 4096):
    m[at] = 120
open(sys.argv[2], "w").close()
time.sleep(60)
EOF2
ok ctl set out write_bps=64K >/dev/null
python3 "$TMP/mapper.py" "$MNT/mapped" "$TMP/dirty" &
mapper=$!
within 10s test -e "$TMP/dirty" || fail "nothing is dirty"
kill -TERM "$DAEMON"
nap 50ms
kill -9 $mapper # its pages are written when it goes
wait $mapper 2>/dev/null
daemon_ended_well
n=$(tr -d '\0' <"$SRC/mapped" | wc -c)
equal "$n" 2048 "dirty pages that reached the source"
