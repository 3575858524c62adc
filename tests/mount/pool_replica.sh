#!/bin/bash
# SPDX-License-Identifier: MIT
# A server that has lost data, or whose clock was set, learns for the duration of a lease: tokens
# may be lost, but never created.  A replica is promoted, a server is restarted with its data and
# without, its clock jumps.
. "${srcdir:-.}/tests/mount/pool_lib.sh"
. "$srcdir/tests/mount/pool_trouble.sh"

POOL_RATE=$((6 << 20))
POOL=pool=farm,pool.bps=6M,pool.lease=300ms
server() {	# ADDRESS [arguments]: another server there; its process id is in SERVER
	local address=$1
	shift
	mkdir -p "$TMP/$address"
	CLOCKSHIFT=$TMP/clock "$POOL_SERVER" --bind "$address" --port 6379 --protected-mode no --save '' --dir "$TMP/$address" "$@" \
		>"$TMP/$address/log" 2>&1 &
	SERVER=$!
	within 10s at "$address" ping >/dev/null || fail "the server at $address does not start"
}
at() { redis-cli -h "$@" 2>/dev/null; }
learned() { host_said "$1" "pool 'farm': .* has lost data, its clock was set, or"; }
# during COMMAND...: both hosts read for 4 seconds; after one second, the command runs.  Over the
# whole time, both hosts together stay below the rate.
during() {
	(nap 1s && "$@") &
	local meanwhile=$!
	rates 4 1 2
	wait "$meanwhile"
	[ "$SUM" -le $((POOL_RATE * 107 / 100)) ] || fail "tokens were made up by '$*': $SUM"
}
full_rate() {
	rates 1 1 2
	rates 2 1 2
	near sum "$POOL_RATE" 8 "$1"
}
hosts_up() {
	for n in 1 2; do
		host_up $n -o "$POOL,pool.server=redis://farm.test"
	done
	rates 1 1 2
}
hosts_down() {
	host_down 2
	host_down 1
}

# The primary is killed and its replica promoted, while both addresses belong to the server's name.
server 127.0.0.1
primary=$SERVER
server 127.0.0.2 --replicaof "127.0.0.1 6379"
in_step() { at 127.0.0.2 info replication | grep -q 'master_link_status:up'; }
within 10s in_step || fail "no replication"
name farm.test 127.0.0.1 127.0.0.2
hosts_up
full_rate "with a primary and a replica"
promote() {
	kill -9 "$primary"
	nap 200ms
	at 127.0.0.2 replicaof no one >/dev/null
}
during promote
within 10s mode_is leased || fail "no lease of the promoted replica: $(cat "$TMP/log1")"
learned 1 || learned 2 || fail "the promoted replica did not learn: $(cat "$TMP/log1")"
equal "$(at 127.0.0.2 hlen 'ratefs:{farm}')" 7 "fields of the pool: v s l w r and two members"
full_rate "after the promotion"
hosts_down
at 127.0.0.2 shutdown nosave

# A server that is restarted with its data (an append-only file), then without: it learns in both
# cases, and never grants too much.
name farm.test 127.0.0.1
server 127.0.0.1 --appendonly yes --appendfsync always
hosts_up
restart() {
	pkill -9 -x "$POOL_SERVER"
	nap 100ms
	server 127.0.0.1 "$@"
}
during restart --appendonly yes --appendfsync always
learned 1 || learned 2 || fail "a server that was restarted with its data did not learn"
full_rate "after a restart with data"
during restart
full_rate "after a restart without data"
pkill -9 -x "$POOL_SERVER"
hosts_down

# The clock jumps forward by an hour, then back by two.  Members keep their leases, which they measure themselves.
[ -e "$builddir/tests/mount/helpers/clockshift.so" ] || { say "without clockshift.so the clock is not set"; exit 0; }
set_clock() { echo "$1" >"$TMP/clock.new" && mv "$TMP/clock.new" "$TMP/clock"; }
set_clock 0
LD_PRELOAD=$builddir/tests/mount/helpers/clockshift.so server 127.0.0.1
hosts_up
t0=$(at 127.0.0.1 time | head -n 1)
during set_clock 3600
[ $(($(at 127.0.0.1 time | head -n 1) - t0)) -ge 3600 ] || fail "the server's clock was not set"
learned 1 || learned 2 || fail "a clock that was set forward is not noticed: $(cat "$TMP/log1")"
full_rate "after the clock was set forward"
during set_clock -3600
full_rate "after the clock was set back"
! grep -E "$LOST" "$TMP/log1" "$TMP/log2" || fail "a clock that is set costs the lease"
hosts_down
pkill -9 -x "$POOL_SERVER"
