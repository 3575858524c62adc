#!/bin/bash
# SPDX-License-Identifier: MIT
# The script in Redis grants what the server in memory grants: the same random calls on the same fake clock.
. "${srcdir:-.}/tests/mount/lib.sh"
requires helper:poolcheck redis-cli

serves() { [ "$(redis-cli -s "$TMP/sock" ping 2>/dev/null)" = PONG ]; }
compare() {	# the server's program
	"$1" --port 0 --unixsocket "$TMP/sock" --save '' --appendonly no --dir "$TMP" >"$TMP/server.log" 2>&1 &
	server=$!
	within 30s serves || fail "$1 does not start: $(tail -n 3 "$TMP/server.log")"
	poolcheck compare "$TMP/sock" "$srcdir/src/ctl/pool.lua" 5000 || fail "the script of $1 and the server differ"
	poolcheck compare "$TMP/sock" "$srcdir/src/ctl/pool.lua" 2000 "${RATEFS_SEED:-$RANDOM}" || fail "they differ (seed above)"
	# The state is a few hundred bytes per member.
	poolcheck fill "$TMP/sock" "$srcdir/src/ctl/pool.lua" 200 || fail "200 members"
	bytes=$(redis-cli -s "$TMP/sock" --raw memory usage '{p}' samples 0)
	members=$(redis-cli -s "$TMP/sock" --raw hkeys '{p}' | grep -c '^m:')
	say "$bytes bytes for $members members"
	{ [ "$members" = 200 ] && [ $((bytes / members)) -lt 600 ]; } || fail "$bytes bytes for $members members"
	kill "$server"
	wait "$server"
	rm -f "$TMP/sock"
}

compared=
for program in redis-server valkey-server; do
	if command -v "$program" >/dev/null; then
		compare "$program"
		compared=yes
	fi
done
[ -n "$compared" ] || skip "needs redis-server or valkey-server"
