#!/bin/bash
# SPDX-License-Identifier: MIT
# A log that nobody reads stops neither the daemon nor its mounts: a pipe, or the system log, whose disk may hang.  Lines that
# are lost are counted.
LOG_EXPECTED=.
. "${srcdir:-.}/tests/mount/lib.sh" || exit 1
requires python3

backing tmpfs
echo hello >"$SRC/file"
# Changes a limit 3,000 times; each change is logged.
cat >"$TMP/change.py" <<'END_OF_PROGRAM'
import glob, socket
s = socket.socket(socket.AF_UNIX)
s.settimeout(20)
s.connect(glob.glob("/run/ratefs/*.sock")[0])
f = s.makefile("rw")
for i in range(3000):
    f.write('{"v":1,"do":"set","target":"mnt","values":{"iops":%d}}\n' % (5000 + i))
    f.flush()
    assert '"ok":true' in f.readline()
END_OF_PROGRAM
change() { python3 "$TMP/change.py" 2>"$TMP/err" || fail "$1: $(tail -n 1 "$TMP/err")"; }
alive() {
	before 2s ctl list >/dev/null
	nap 1100ms # names and attributes are cached for a second
	equal "$(timeout 5 cat "$MNT/file")" hello "$1: a file"
}
# counted FILE: whoever reads again learns how many lines were lost.
counted() {
	ok ctl set mnt iops=7 >/dev/null
	grep -q 'set iops=7$' "$1" && grep -Eq '[0-9]{3} lines of the log were lost: it was not read' "$1"
}

mkfifo "$TMP/pipe"
exec 7<>"$TMP/pipe"
LOG=$TMP/pipe
mount_ratefs -o iops=5000
LOG=$TMP/read
: >"$LOG"
change "a pipe that nobody reads"
alive "a pipe that nobody reads"
cat <&7 >>"$TMP/read" &
reader=$!
within 10s counted "$TMP/read" || fail "lost lines are not counted: $(tail -n 3 "$TMP/read")"
grep -q "set iops=5001$" "$TMP/read" || fail "the first lines are not there"
unmount_ratefs
kill $reader
wait $reader 2>/dev/null

# A /dev of this test's own, with a system logger that begins to read when it is told to.
mkdir "$TMP/dev"
mount -t tmpfs -o mode=755 tmpfs "$TMP/dev"
for device in null zero full random urandom tty fuse; do
	touch "$TMP/dev/$device"
	mount --bind "/dev/$device" "$TMP/dev/$device" || skip "cannot make a /dev"
done
ln -s /proc/self/fd "$TMP/dev/fd"
mount --rbind "$TMP/dev" /dev
cat >"$TMP/logger.py" <<'END_OF_PROGRAM'
import os, socket, sys, time
s = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
s.bind("/dev/log")
while not os.path.exists(sys.argv[1]):
    time.sleep(0.05)
while True:
    print(s.recv(4096).decode(), flush=True)
END_OF_PROGRAM
python3 "$TMP/logger.py" "$TMP/go" >"$TMP/read" 2>&1 &
logger=$!
within 5s test -S /dev/log || fail "no logger: $(cat "$TMP/read")"
timeout 20 "$RATEFS" "$SRC" "$MNT" -o iops=5000 || fail "no mount"
DAEMON=$(pgrep -xn "${RATEFS##*/}")
change "a logger that does not read"
alive "a logger that does not read"
touch "$TMP/go"
within 10s counted "$TMP/read" || fail "lost lines are not counted: $(tail -n 3 "$TMP/read")"
grep -Eq "^<30>[A-Z][a-z]{2} [ 0-9][0-9] [0-9]{2}:[0-9]{2}:[0-9]{2} ratefs\[$DAEMON\]: mount 'mnt': set iops=5001$" "$TMP/read" ||
	fail "the system log has: $(head -n 3 "$TMP/read")"
# A logger that is started again gets the next lines.
kill $logger
wait $logger 2>/dev/null
rm /dev/log
ok ctl set mnt iops=8 >/dev/null
python3 "$TMP/logger.py" "$TMP/go" >"$TMP/again" 2>&1 &
logger=$!
within 5s test -S /dev/log || fail "no logger: $(cat "$TMP/again")"
ok ctl set mnt iops=9 >/dev/null
within 5s grep -q 'set iops=9$' "$TMP/again" || fail "a logger that was started again has: $(cat "$TMP/again")"
umount "$MNT" || fail "umount"
within 10s gone "$DAEMON" || fail "the daemon did not end"
DAEMON=
kill $logger
wait $logger 2>/dev/null
umount -l /dev
