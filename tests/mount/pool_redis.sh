#!/bin/bash
# SPDX-License-Identifier: MIT
# Three hosts, each in a network of its own, share a pool through Redis; then all kinds of failures
# happen.
POOL_BIND=10.77.0.254
. "${srcdir:-.}/tests/mount/pool_lib.sh"
requires jq redis-server redis-cli python3

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
rates 2 1 2 3
rates 4 1 2 3
near "$SUM" "$RATE_POOL" 5 "three hosts"
near "${RATE[2]}" $((RATE_POOL / 3)) 12 "a third"
# One busy host gets all of it.
rates 2 2
rates 3 2
near "$SUM" "$RATE_POOL" 6 "one host alone"
equal "$(redis-cli -s "$TMP/redis.sock" type farm)" hash "the pool's key"
[ "$(redis-cli -s "$TMP/redis.sock" hkeys farm | grep -c ^m:)" = 3 ] || fail "there are not three members"

# A cable is pulled: that host keeps to a third, and the others share the rest; it recovers by
# itself.
ip link set v1 down
within 5s host_said 1 "pool 'farm': .*; this host keeps to its share" || fail "host 1 does not say that it is alone"
rates 3 1
near "$SUM" $((RATE_POOL / 3)) 8 "a third without the server"
rates 3 2 3
near "$SUM" "$RATE_POOL" 8 "two hosts without the third"
ip link set v1 up
within 20s host_said 1 "pool 'farm': .* leases again" || fail "host 1 does not recover"
rates 2 1 2 3
rates 3 1 2 3
near "$SUM" "$RATE_POOL" 6 "three hosts again"

# The server is killed and comes back empty: meanwhile hosts keep to their shares, and never exceed
# the rate together.  Before that, they admit nothing for one lease, so nothing is said of how little they use at first.
redis_down 9
rates 3 1 2 3
no_more_than_pool "$RATE_POOL" "without the server"
rates 3 1 2 3
near "$SUM" "$RATE_POOL" 8 "shares without the server"
redis_up
within 20s host_said 2 "leases again" || fail "host 2 does not recover"
rates 3 1 2 3
no_more_than_pool "$RATE_POOL" "with an empty server"
rates 3 1 2 3
near "$SUM" "$RATE_POOL" 6 "after the server lost its data"

# Helpers are killed: their daemons start others.
pkill -9 -x ratefs-pool
rates 3 1 2 3
no_more_than_pool "$RATE_POOL" "while helpers start"
three_helpers() { [ "$(pgrep -xc ratefs-pool)" = 3 ]; }
within 5s three_helpers || fail "helpers were not started again"
rates 3 1 2 3
near "$SUM" "$RATE_POOL" 6 "after helpers were killed"

# A server that stops answering; the script is forgotten; the key is of the wrong type.
kill -STOP "$REDIS"
within 5s host_said 3 "no answer in time|no answer" || fail "a silent server is not told"
kill -CONT "$REDIS"
nap 3s
redis-cli -s "$TMP/redis.sock" script flush >/dev/null
rates 3 1 2 3
near "$SUM" "$RATE_POOL" 8 "after SCRIPT FLUSH"
redis-cli -s "$TMP/redis.sock" eval "redis.call('del', 'farm') return redis.call('set', 'farm', 'x')" 0 >/dev/null
within 5s host_said 1 "WRONGTYPE" || fail "a wrong type is not told"
redis-cli -s "$TMP/redis.sock" del farm >/dev/null
nap 2s
rates 3 1 2 3
near "$SUM" "$RATE_POOL" 8 "after the key was of another type"

# A host that is killed loses its share when its lease ends; one that leaves loses it immediately.
host_crash 3
nap 1s
rates 3 1 2
near "$SUM" "$RATE_POOL" 6 "after a host was killed"
host_down 2
host_down 1
[ "$(redis-cli -s "$TMP/redis.sock" hkeys farm | grep -c ^m:)" -le 1 ] || fail "those who left are still there"

# A bad line: 60 ms each way, and every twentieth packet cuts the connection.  Hosts get most of the
# rate, and not much more.
python3 "$srcdir/tests/mount/pool_proxy.py" 6380 6379 60 5 &
proxy=$!
python3 "$srcdir/tests/mount/pool_proxy.py" 6381 0 0 0 &
liar=$!
for n in 1 2; do
	host_up $n -o "pool.server=redis://10.77.0.254:6380,pool.key=bad,pool.bps=6M"
done
rates 2 1 2
rates 5 1 2
no_more_than_pool "$RATE_POOL" "on a bad line"
[ "$SUM" -ge $((RATE_POOL * 75 / 100)) ] || fail "a bad line costs too much: $SUM"
host_down 2
host_down 1

# A server that sends garbage, and one that does not exist.
host_up 1 -o "pool.server=redis://10.77.0.254:6381,pool.key=x,pool.bps=6M"
within 5s host_said 1 "pool 'x': 10.77.0.254:6381: .*; nothing is admitted" || fail "rubbish is not told: $(cat "$TMP/log1")"
host_down 1
host_up 1 -o "pool.server=redis://no.such.host.invalid,pool.key=x,pool.bps=6M,pool.on_lost=open"
within 15s host_said 1 "pool 'x': no.such.host.invalid:6379: .*; the pool's limits are off" || fail "a bad name is not told: $(cat "$TMP/log1")"
host_down 1
kill "$proxy" "$liar"

# A password: read from a file that only its owner can read, and visible nowhere.
redis_down
redis_up --requirepass sesame
echo sesame >"$TMP/auth" && chmod 644 "$TMP/auth"
host_up 1 -o "$POOL,pool.auth_file=$TMP/auth,pool.on_lost=stop"
within 5s host_said 1 "auth_file: .* only its owner can read .*; nothing is admitted" || fail "a readable password file was taken"
host_down 1
chmod 600 "$TMP/auth"
echo wrong >"$TMP/auth"
host_up 1 -o "$POOL,pool.auth_file=$TMP/auth,pool.on_lost=open"
within 5s host_said 1 "(WRONGPASS|NOAUTH|invalid).*; the pool's limits are off" || fail "a wrong password is not told"
before 5s cat "$TMP/m1/file" >/dev/null
host_down 1
echo sesame >"$TMP/auth"
host_up 1 -o "$POOL,pool.auth_file=$TMP/auth"
rates 2 1
rates 3 1
near "$SUM" "$RATE_POOL" 6 "with a password"
for pid in $(pgrep ratefs); do
	! tr "\0" " " <"/proc/$pid/cmdline" | grep -q sesame || fail "the password can be seen"
done
! grep -qs sesame "$TMP"/log* || fail "the password is in a log"
host_down 1
redis_down
