#!/bin/bash
# SPDX-License-Identifier: MIT
# Members that break the rules, a helper that hangs while it serves the others, and a server that loses its data without end.
. "${srcdir:-.}/tests/mount/pool_lib.sh"
. "$srcdir/tests/mount/pool_trouble.sh"
requires python3 helper:poolcheck

POOL=pool=farm,pool.bps=8M,pool.lease=300ms
LOCAL=$POOL,pool.server=unix:$TMP/sock
host_up 1 -o "$LOCAL"
within 10s mode_is leased || fail "no lease to begin with"
helper=$(pgrep -x ratefs-pool) || fail "there is no helper"

# Calls that no member makes are not answered, and the answers to others stay as they are.
poolcheck hostile "$TMP/sock" 'ratefs:{farm}' || fail "the helper answered a call that is out of range"
nap 1s
state() { ctl stats pool:farm -j "--daemon=${HOST[1]}" | jq -c '.pools[0] | [.mode, .helper_starts, .errors, .limits.bps.rate]'; }
equal "$(state)" '["leased",1,0,8388608]' "the pool after calls that are out of range"

# The helper that serves hangs, and nobody else can connect to it: the helper of another daemon says so, and does not outlive
# its daemon.
kill -STOP "$helper"
python3 "$srcdir/tests/mount/pool_foreign.py" crowd "$TMP/sock" >"$TMP/crowd" &
crowd=$!
within 10s grep -q full "$TMP/crowd" || fail "there is still room for connections"
host_up 2 -o "$LOCAL"
within 10s host_said 2 "$TMP/sock: the helper that serves the pool does not answer; nothing is admitted" ||
	fail "a helper that hangs is not told: $(cat "$TMP/log2")"
host_down 2
alone() { [ "$(pgrep -x ratefs-pool)" = "$helper" ]; }
within 5s alone || fail "a helper outlived its daemon"
kill "$crowd"
kill -CONT "$helper"
within 10s mode_is leased || fail "the pool does not recover: $(cat "$TMP/log1")"
host_down 1

# Somebody deletes the pool's data, as a server does that evicts keys: a host that has just started gets nothing, and says why.
redis_up
redis-cli -s "$TMP/redis.sock" -r -1 -i 0.02 del 'ratefs:{farm}' >/dev/null &
evict=$!
host_up 1 -o "$POOL,pool.server=redis://127.0.0.1"
within 20s host_said 1 "redis://127.0.0.1 loses data or has its clock set again and again" || fail "not told: $(cat "$TMP/log1")"
equal "$(mode)" starting "the mode while the server learns"
nap 1s
equal "$(grep -c 'again and again' "$TMP/log1")" 1 "lines in the log"
kill "$evict"
within 10s mode_is leased || fail "does not recover: $(cat "$TMP/log1")"
host_down 1
redis_down
