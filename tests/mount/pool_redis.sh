#!/bin/bash
# SPDX-License-Identifier: MIT
# Three hosts, each in a network of its own, share a pool through Redis; then all kinds of failures
# happen.
POOL_BIND=10.77.0.254
. "${srcdir:-.}/tests/mount/pool_lib.sh"
! command -v valkey-server >/dev/null || POOL_SERVER=valkey-server # the other tests use Redis
requires jq "${POOL_SERVER:=redis-server}" redis-cli python3

# A network: a bridge with the server's address, and a cable to each host.
mkdir -p /run/netns
mount -t tmpfs tmpfs /run/netns
ip link add br0 type bridge || skip "needs bridges"
ip addr add 10.77.0.254/24 dev br0
ip link set br0 up
for n in 1 2 3; do
	ip netns add "h$n"
	ip link add "v$n" type veth peer name eth0 netns "h$n" || skip "needs veth"
	ip link set "v$n" master br0 up
	ip -n "h$n" addr add "10.77.0.$n/24" dev eth0
	ip -n "h$n" link set eth0 up
	ip -n "h$n" link set lo up
done
connected() { timeout 1 nsenter "--net=/run/netns/h$1" redis-cli -h 10.77.0.254 ping >/dev/null 2>&1; }

RATE_POOL=$((6 << 20))
redis_up
within 10s connected 3 || fail "no network"
POOL=pool.server=redis://10.77.0.254,pool.key=farm,pool.bps=6M
for n in 1 2 3; do
	host_up $n -o "$POOL"
done

# All hosts are busy: the sum is the pool's rate, and each gets a third.
rates 1 1 2 3
rates 4 1 2 3
near sum "$RATE_POOL" 5 "three hosts"
near 2 $((RATE_POOL / 3)) 12 "a third"
# One busy host gets all of it.
rates 1 2
rates 3 2
near sum "$RATE_POOL" 6 "one host alone"
equal "$(redis-cli -s "$TMP/redis.sock" type farm)" hash "the pool's key"
[ "$(redis-cli -s "$TMP/redis.sock" hkeys farm | grep -c ^m:)" = 3 ] || fail "there are not three members"

# A cable is pulled: that host keeps to a third, and the others share the rest; it recovers by
# itself.
ip link set v1 down
within 5s host_said 1 "pool 'farm': .*; this host keeps to its share" || fail "host 1 does not say that it is alone"
rates 3 1
near sum $((RATE_POOL / 3)) 8 "a third without the server"
rates 3 2 3
near sum "$RATE_POOL" 8 "two hosts without the third"
ip link set v1 up
within 20s host_said 1 "pool 'farm': .* leases again" || fail "host 1 does not recover"
rates 1 1 2 3
rates 3 1 2 3
near sum "$RATE_POOL" 6 "three hosts again"

# The server is killed and comes back empty: meanwhile hosts keep to their shares, and never exceed
# the rate together.  Before that, they admit nothing for one lease, so nothing is said of how little they use at first.
redis_down 9
rates 3 1 2 3
no_more_than_pool "$RATE_POOL" "without the server"
rates 3 1 2 3
near sum "$RATE_POOL" 8 "shares without the server"
redis_up
within 20s host_said 2 "leases again" || fail "host 2 does not recover"
rates 3 1 2 3
no_more_than_pool "$RATE_POOL" "with an empty server"
rates 3 1 2 3
near sum "$RATE_POOL" 6 "after the server lost its data"

# Helpers are killed: their daemons start others.
pkill -9 -x ratefs-pool
rates 3 1 2 3
no_more_than_pool "$RATE_POOL" "while helpers start"
three_helpers() { [ "$(pgrep -xc ratefs-pool)" = 3 ]; }
within 5s three_helpers || fail "helpers were not started again"
rates 3 1 2 3
near sum "$RATE_POOL" 6 "after helpers were killed"

all_leased() {
	local n
	for n in 1 2 3; do
		[ "$(ctl stats pool:farm -j "--daemon=${HOST[$n]}" | jq -r '.pools[0].mode')" = leased ] || return 1
	done
}
# A server that stops answering; the script is forgotten; the key is of the wrong type.
kill -STOP "$REDIS"
within 5s host_said 3 "no answer in time|no answer" || fail "a silent server is not told"
kill -CONT "$REDIS"
within 10s all_leased || fail "the hosts do not recover when the server answers again"
redis-cli -s "$TMP/redis.sock" script flush >/dev/null
rates 3 1 2 3
near sum "$RATE_POOL" 8 "after SCRIPT FLUSH"
redis-cli -s "$TMP/redis.sock" eval "redis.call('del', 'farm') return redis.call('set', 'farm', 'x')" 0 >/dev/null
within 5s host_said 1 "WRONGTYPE" || fail "a wrong type is not told"
redis-cli -s "$TMP/redis.sock" del farm >/dev/null
within 10s all_leased || fail "the hosts do not recover when the key is of the right type"
rates 3 1 2 3
near sum "$RATE_POOL" 8 "after the key was of another type"

# A host that is killed loses its share when its lease ends; one that leaves loses it immediately.
host_crash 3
nap 1s
rates 3 1 2
near sum "$RATE_POOL" 6 "after a host was killed"
host_down 2
host_down 1
[ "$(redis-cli -s "$TMP/redis.sock" hkeys farm | grep -c ^m:)" -le 1 ] || fail "those who left are still there"

# A bad line: 60 ms each way, and every twentieth packet cuts the connection.  Hosts get most of the
# rate, and not much more.
python3 "$srcdir/tests/mount/pool_proxy.py" 6380 6379 60 5 &
proxy=$!
for n in 1 2; do
	host_up $n -o "pool.server=redis://10.77.0.254:6380,pool.key=bad,pool.bps=6M"
done
rates 2 1 2
rates 5 1 2
no_more_than_pool "$RATE_POOL" "on a bad line"
[ "$SUM" -ge $((RATE_POOL * 75 / 100)) ] || fail "a bad line costs too much: $SUM"
host_down 2
host_down 1

kill "$proxy"
redis_down
