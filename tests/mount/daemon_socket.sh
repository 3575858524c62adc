#!/bin/bash
# SPDX-License-Identifier: MIT
# The control socket copes with garbage, incomplete lines, many clients and clients that don't read; strangers are refused.
. "${srcdir:-.}/tests/mount/lib.sh" || exit 1
requires helper:ctlnoise jq python3

backing tmpfs
echo hello >"$SRC/file"
LOG_EXPECTED='^ratefs: (serving|limits of|mount .*: set iops=|control socket: refused user 1001)'
mount_ratefs
SOCK=$(echo /run/ratefs/*.sock)
equal "$(stat -c %a "$SOCK")" 600 "mode of the socket"
alive() {
	before 2s ctl list >/dev/null
	equal "$(cat "$MNT/file")" hello
}
sockets() { find "/proc/$DAEMON/fd" -lname 'socket:*' | wc -l; }
only_the_listener() { [ "$(sockets)" = 1 ]; }
for noise in garbage half deep long nul binary empty pipelined hangup; do
	ok ctlnoise "$noise" "$SOCK"
	alive
done

# 200 concurrent clients, more than there is room for: each gets a reply.
ok ctlnoise crowd "$SOCK" 200
alive
ok ctlnoise crowd "$SOCK" 400
alive

# A client that sends many requests at once has only some of them served before others have their turn.
cat >"$TMP/turns.py" <<'END_OF_PROGRAM'
import json, os, signal, socket, sys
path, daemon = sys.argv[1], int(sys.argv[2])

def connect():
    s = socket.socket(socket.AF_UNIX)
    s.settimeout(20)
    s.connect(path)
    return s, s.makefile("rw")

many, answers = connect()
answers.write('{"v":1,"do":"find","target":"mnt"}\n')
answers.flush()
answers.readline()
os.kill(daemon, signal.SIGSTOP)
many.sendall(b"".join(b'{"v":1,"do":"set","target":"mnt","values":{"iops":%d}}\n' % (5001 + i) for i in range(400)))
_, other = connect()
other.write('{"v":1,"do":"show","target":"mnt"}\n')
other.flush()
os.kill(daemon, signal.SIGCONT)
print(json.loads(other.readline())["options"]["iops"]["value"])
for i in range(400):
    assert json.loads(answers.readline())["values"]["iops"] == str(5001 + i)
END_OF_PROGRAM
served=$(python3 "$TMP/turns.py" "$SOCK" "$DAEMON") || fail "many requests at once are not answered"
[ "$served" -lt 5100 ] || fail "another client was served after $((served - 5000)) of 400 requests"
ok ctl set mnt iops=off >/dev/null
alive

# Without file descriptors for new clients, the daemon waits for some instead of spinning.
if command -v prlimit >/dev/null; then
	files=$(prlimit --pid "$DAEMON" --nofile --noheadings --output SOFT,HARD | awk '{ print $1 ":" $2 }')
	within 5s only_the_listener || fail "clients are left"
	free=0
	while [ -L "/proc/$DAEMON/fd/$free" ]; do free=$((free + 1)); done
	prlimit --pid "$DAEMON" --nofile="$free:${files#*:}"
	ticks() { awk '{ print $14 + $15 }' "/proc/$DAEMON/stat"; }
	timeout 20 "$RATEFSCTL" list >"$TMP/said" 2>&1 &
	client=$!
	nap 200ms
	used=$(ticks)
	nap 2s
	used=$(($(ticks) - used))
	prlimit --pid "$DAEMON" --nofile="$files"
	say "ticks of CPU without file descriptors: $used"
	[ $used -lt 10 ] || fail "the daemon used $used ticks of CPU while it had no file descriptors"
	wait $client
	alive
fi

# A client that never reads, one that stops in the middle of a line, and idle ones.
ctlnoise deaf "$SOCK" &
deaf=$!
ctlnoise stuck "$SOCK" &
stuck=$!
nap 300ms
alive
within 20s gone "$deaf" || fail "a client that does not read was not dropped"
within 20s gone "$stuck" || fail "a client that sends half a line was not dropped"
within 2s only_the_listener || fail "$(sockets) sockets are open"
[ "$(daemon_kb)" -lt 200000 ] || fail "$(daemon_kb) KiB of memory"

# A stranger, even if the permissions of the socket would allow it.
chmod 755 /run/ratefs
chmod 666 "$SOCK"
says 'permission denied' as_user alice "$RATEFSCTL" --daemon="$SOCK" list
alive
unmount_ratefs

# Sockets without a daemon are removed; a configured path is used.
"$RATEFS" -f "$SRC" "$MNT" 2>/dev/null &
pid=$!
within 5s mountpoint -q "$MNT"
kill -9 "$pid"
wait "$pid" 2>/dev/null
umount -l "$MNT"
says 'you have no running ratefs daemons' ctl list
equal "$(ls /run/ratefs)" "" "sockets of dead daemons"
mount_ratefs -o control="$TMP/sock"
ok ctl --daemon="$TMP/sock" list >/dev/null
mkdir "$TMP/other"
says 'another daemon listens there' "$RATEFS" "$SRC" "$TMP/other" -o control="$TMP/sock"
unmount_ratefs
test ! -e "$TMP/sock" || fail "the socket outlived its daemon"
echo keep >"$TMP/file"
says 'the file exists already' "$RATEFS" "$SRC" "$MNT" -o control="$TMP/file"
equal "$(cat "$TMP/file")" keep
mount_ratefs -o control=off
equal "$(ls /run/ratefs)" "" "sockets with control=off"
unmount_ratefs

# Directories that belong to somebody else, or that others may write to, are refused for sockets.
no_place() {
	LOG_EXPECTED="^ratefs: (serving|limits of|ratefsctl will not reach this daemon: $1)"
	mount_ratefs
	grep -q "$1" "$LOG" || fail "it was not told: $1"
	equal "$(ls /run/ratefs)" "" "sockets"
	says "$1" ctl list
	unmount_ratefs
}
chown 1001 /run/ratefs
no_place '/run/ratefs: belongs to another user'
chown 0 /run/ratefs
chmod 777 /run/ratefs
no_place '/run/ratefs: other users can write to it'
chmod 700 /run/ratefs

# allow_root admits only root and the owner, for every request that the kernel does not answer from its cache.
"$RATEFS" -f "$SRC" "$MNT" -o allow_root >"$LOG" 2>&1 &
DAEMON=$!
within 10s answers || fail "no mount with allow_root"
equal "$(cat "$MNT/file")" hello
nap 1100ms
for cmd in stat ls cat; do
	refused as_user alice $cmd "$MNT/file"
	refused as_user alice $cmd "$MNT"
done
unmount_ratefs
