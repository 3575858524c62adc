#!/bin/bash
# SPDX-License-Identifier: MIT
# Daemons, helpers and servers of different versions, or whose data somebody has changed: one line says what to do.
. "${srcdir:-.}/tests/mount/pool_lib.sh"
requires jq python3 redis-server redis-cli setpriv

POOL=pool=p,pool.bps=8M,pool.lease=300ms
mode_is() { [ "$(ctl stats pool:p -j "--daemon=${HOST[1]}" | jq -r '.pools[0].mode')" = "$1" ]; }
python=$(PATH=/usr/bin:/bin command -v python3)
foreign=("$python" "$srcdir/tests/mount/pool_foreign.py")
cli() { redis-cli -s "$TMP/redis.sock" "$@"; }

# --- daemon and helper ---
equal "$("${foreign[@]}" daemon "$BIN/ratefs-pool")" 01000000 "the version that a helper tells a foreign daemon"
host_up 1 -o "$POOL,pool.server=unix:$TMP/p.sock"
within 10s mode_is leased || fail "no lease: $(cat "$TMP/log1")"
instead() {	# PROGRAM ARGUMENT...: is the helper from now on
	[ -e "$BIN/good" ] || mv "$BIN/ratefs-pool" "$BIN/good"
	printf '#!/bin/sh\nexec %s\n' "$*" >"$BIN/new" && chmod 755 "$BIN/new" && mv "$BIN/new" "$BIN/ratefs-pool"
	kill -9 "$(pgrep -x ratefs-pool)"
}
instead "${foreign[@]}" helper
within 10s host_said 1 "invalid message from ratefs-pool; if ratefs was upgraded, restart it; this host keeps" ||
	fail "a foreign helper: $(cat "$TMP/log1")"
mv "$BIN/good" "$BIN/ratefs-pool"
within 20s host_said 1 'leases again' || fail "does not recover: $(cat "$TMP/log1")"
# A helper of root that cannot become nobody does not run.
if [ "$(awk '{ print $1 $2 }' /proc/self/uid_map)" = 00 ]; then
	instead "$(command -v setpriv)" --inh-caps=-setgid --bounding-set=-setgid "$BIN/good" --helper
	within 10s host_said 1 "cannot become nobody" || fail "a helper without CAP_SETGID: $(cat "$TMP/log1")"
	mv "$BIN/good" "$BIN/ratefs-pool"
	within 20s mode_is leased || fail "does not recover: $(cat "$TMP/log1")"
fi

# --- helper and helper ---
"${foreign[@]}" clients "$TMP/p.sock" 128 >"$TMP/clients" &
clients=$!
within 10s grep -q connected "$TMP/clients" || fail "128 clients cannot connect"
host_up 2 -o "$POOL,pool.server=unix:$TMP/p.sock"
within 10s host_said 2 "p.sock: has too many helpers already; nothing is admitted" || fail "helper 129: $(cat "$TMP/log2")"
kill "$clients"
within 20s host_said 2 'leases again' || fail "does not recover: $(cat "$TMP/log2")"
host_down 2
host_down 1
"${foreign[@]}" server "$TMP/foreign.sock" &
server=$!
within 5s test -S "$TMP/foreign.sock" || fail "no foreign server"
host_up 1 -o "$POOL,pool.server=unix:$TMP/foreign.sock"
within 10s host_said 1 "foreign.sock: a daemon of another version of ratefs serves it: restart that daemon; nothing" ||
	fail "a foreign server: $(cat "$TMP/log1")"
kill "$server"
within 20s mode_is leased || fail "does not recover: $(cat "$TMP/log1")"
host_down 1

# --- the data in Redis ---
redis_up
host_up 1 -o "$POOL,pool.key=k,pool.server=redis://127.0.0.1"
within 10s mode_is leased || fail "no lease: $(cat "$TMP/log1")"
cli hset k v 99 >/dev/null
within 10s host_said 1 "ERR another version of ratefs uses this pool; choose another key.*this host keeps" ||
	fail "another format: $(cat "$TMP/log1")"
cli hset k v 1 >/dev/null
within 10s host_said 1 'leases again' || fail "does not recover: $(cat "$TMP/log1")"
# A lease that comes and goes is told less and less often.
lost_lines() { grep -c 'keeps to its share' "$TMP/log1"; }
lines=$(lost_lines)
for ((i = 0; i < 6; i++)); do
	cli hset k v 99 >/dev/null
	within 10s mode_is share || fail "the mode is not share"
	cli hset k v 1 >/dev/null
	within 10s mode_is leased || fail "the mode is not leased"
done
lines=$(($(lost_lines) - lines))
[ $lines -le 4 ] || fail "$lines lines about 6 losses of the lease: $(cat "$TMP/log1")"
# Somebody deletes a member that has just been killed: its share is not lost.
first=$(cli hkeys k | grep '^m:')
host_up 2 -o "$POOL,pool.key=k,pool.server=redis://127.0.0.1"
rates 2 1 2
second=$(cli hkeys k | grep '^m:' | grep -vx "$first")
host_crash 2
cli hdel k "$second" >/dev/null
nap 1s
rates 2 1
near sum $((8 << 20)) 7 "after a member was deleted by hand"
host_down 1
redis_down
