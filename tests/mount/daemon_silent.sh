#!/bin/bash
# SPDX-License-Identifier: MIT
# A daemon that does not answer (stopped here) is named by the programs that talk to daemons, and delays them only briefly:
# the other daemons are served.  A daemon that works on a long command is not taken for one.
LOG_EXPECTED=.
. "${srcdir:-.}/tests/mount/lib.sh" || exit 1
. "${srcdir:-.}/tests/mount/hard_lib.sh" || exit 1
requires jq python3 tmux

backing tmpfs
mkdir "$SRC/one" "$SRC/two" "$TMP/one" "$TMP/two"
start() { # NAME: serves it from a configuration file; sets PID
	printf '[mount:%s]\nsource = %s\nmountpoint = %s\niops = 100\n' "$1" "${2:-$SRC/$1}" "$TMP/$1" >"$TMP/$1.conf"
	"$RATEFS" -f -c "$TMP/$1.conf" >"$TMP/$1.log" 2>&1 &
	PID=$!
	within 5s grep -q serving "$TMP/$1.log" || fail "no mount '$1'"
}
start one
one=$PID
start two
DAEMON=$PID LOG=$TMP/two.log
SOCK=$(echo /run/ratefs/*-"$one".sock)
LINE="ratefsctl: $SOCK: daemon $one does not answer, because it is stopped; 'kill -CONT $one' lets it continue"

# try STATUS ARGUMENT...: ratefsctl is done after two seconds of patience; standard output is in $TMP/said.
try() {
	local status=$1 rc=0 t0
	shift
	t0=$(now_ms)
	timeout 30 "$RATEFSCTL" "$@" >"$TMP/said" 2>"$TMP/err" || rc=$?
	equal "$rc" "$status" "exit status of '$*': $(cat "$TMP/err")"
	t0=$(($(now_ms) - t0))
	[ $t0 -lt 8000 ] || fail "'$*' took $t0 ms"
}
named() { grep -qxF "$LINE" "$TMP/err" || fail "said: $(cat "$TMP/err")"; }

kill -STOP "$one"
try 1 list
named
grep -q '^two ' "$TMP/said" || fail "the other daemon is not listed: $(cat "$TMP/said")"
[ "$(wc -l <"$TMP/err")" = 1 ] || fail "said: $(cat "$TMP/err")"
try 1 list --json
equal "$(jq -r '.daemons[].mounts[].name' "$TMP/said")" two
try 1 stats
named
try 1 reset-stats
named
try 1 class list
named
try 1 --daemon="$one" list
named
try 1 --daemon="$SOCK" unmount one
named
# A target of another daemon is found; one that may belong to the stopped daemon is not, and that is said.
try 0 set two iops=200
equal "$(cat "$TMP/err")" ""
try 0 set "$TMP/two" iops=100
try 3 set one iops=200
named
try 0 metrics
grep -q '^ratefs_daemons_failed 1$' "$TMP/said" || fail "metrics do not count it"
# Even if no other daemon is there.
mkdir "$TMP/alone"
ln -s "$SOCK" "$TMP/alone/one-$one.sock"
RATEFS_RUNTIME_DIR=$TMP/alone try 0 metrics
grep -q '^ratefs_daemons 0$' "$TMP/said" || fail "metrics of a stopped daemon: $(cat "$TMP/said")"
grep -q '^ratefs_daemons_failed 1$' "$TMP/said" || fail "metrics do not count the only daemon: $(cat "$TMP/said" "$TMP/err")"
RATEFS_RUNTIME_DIR=$TMP/alone try 1 list
# watch goes on with the others.
timeout 10 "$RATEFSCTL" watch --json >"$TMP/said" 2>"$TMP/err" &
watcher=$!
twice() { [ "$(grep -c '"name":"two"' "$TMP/said")" -ge 2 ]; }
within 8s twice || fail "watch --json has stopped: $(cat "$TMP/said" "$TMP/err")"
named
kill $watcher
wait $watcher
timeout 5 "$RATEFSCTL" trace >"$TMP/said" 2>"$TMP/err" &
tracer=$!
nap 3s
ok ctl --daemon="$DAEMON" set two iops=150 >/dev/null
wait $tracer
named
grep -q 'limit_changed iops=150' "$TMP/said" || fail "trace of the other daemon: $(cat "$TMP/said")"

# top shows the other daemon and the line; keys are obeyed meanwhile.
tmux -S "$TMP/tmux" -f /dev/null new-session -d -x 120 -y 24 "$RATEFSCTL top; echo ended >$TMP/ended"
screen() { tmux -S "$TMP/tmux" capture-pane -p; }
shows() { screen | grep -q "$1"; }
within 10s shows "two.iops" || fail "top: $(screen)"
within 5s shows "daemon $one does not answer" || fail "top: $(screen)"
tmux -S "$TMP/tmux" send-keys q
within 4s test -e "$TMP/ended" || fail "top does not end: $(screen)"

# Nor is the start of another daemon delayed, even if the queue of the stopped daemon's socket is full.
python3 - "$SOCK" <<'END' &
import socket, sys, time
all = []
try:
    for i in range(300):
        s = socket.socket(socket.AF_UNIX); s.settimeout(0.2); s.connect(sys.argv[1]); all.append(s)
except OSError:
    pass
print(len(all), flush=True)
time.sleep(60)
END
crowd=$!
nap 2s
try 1 list
named
mkdir "$TMP/three"
start three "$SRC/two"
kill -TERM "$PID"
within 5s gone "$PID" || fail "the third daemon does not end"
kill "$crowd"
kill -CONT "$one"
try 0 list
grep -q '^one ' "$TMP/said" || fail "it continues, and is not listed: $(cat "$TMP/said")"

# A reload that waits five seconds for a source is not cut off, since the daemon answers others.
lower_ready "$SRC/one"
lower_hangs
printf '[mount:late]\nsource = %s\nmountpoint = %s\n' "$LOWER/." "$TMP/three" >>"$TMP/one.conf"
try 0 --daemon="$one" reload
grep -q "mount 'late': is still being mounted" "$TMP/said" || fail "reload said: $(cat "$TMP/said") $(cat "$TMP/err")"
# The same, but then the daemon stops.
ok ctl unmount late --force
timeout 60 "$RATEFSCTL" mount late >"$TMP/said" 2>"$TMP/err" &
client=$!
nap 500ms
kill -STOP "$one"
t0=$(now_ms)
refused wait $client
[ $(($(now_ms) - t0)) -lt 10000 ] || fail "the client waited for a daemon that had stopped"
named
kill -CONT "$one"
lower_goes_on

# When one of two daemons exits, trace goes on with the other, and ends with the last.
timeout 60 "$RATEFSCTL" trace >"$TMP/said" 2>"$TMP/err" &
tracer=$!
nap 500ms
kill -TERM "$one"
within 15s gone "$one" || fail "the first daemon does not end"
within 5s grep -qF "$SOCK: the connection to the daemon is lost: it has exited" "$TMP/err" || fail "trace said: $(cat "$TMP/err")"
ok ctl set two iops=300 >/dev/null
within 5s grep -q 'limit_changed iops=300' "$TMP/said" || fail "trace ended with the first daemon: $(cat "$TMP/said" "$TMP/err")"
kill -TERM "$DAEMON"
daemon_ended_well
rc=0
wait $tracer || rc=$?
equal $rc 1 "exit status of trace"
lower_gone
