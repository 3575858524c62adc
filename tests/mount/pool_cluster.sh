#!/bin/bash
# SPDX-License-Identifier: MIT
# A cluster: hosts that know different nodes share one pool, even while its key moves and after a
# node is lost.
. "${srcdir:-.}/tests/mount/pool_lib.sh"
. "$srcdir/tests/mount/pool_trouble.sh"

POOL_RATE=$((6 << 20))
KEY='ratefs:{farm}'
declare -A NODE
node() {	# number
	mkdir -p "$TMP/n$1"
	"$POOL_SERVER" --bind 127.0.0.1 --port "700$1" --protected-mode no --cluster-enabled yes --cluster-node-timeout 1000 \
		--save '' --dir "$TMP/n$1" >"$TMP/n$1/log" 2>&1 &
	NODE[$1]=$!
	within 10s at "$1" ping >/dev/null || fail "node $1 does not start"
}
at() {	# number command...
	local n=$1
	shift
	timeout 10 redis-cli -p "700$n" "$@" 2>/dev/null
}
settled() { at "$1" cluster info | grep -q cluster_state:ok; }
for n in 1 2 3 4; do
	node $n
done
timeout 30 redis-cli --cluster create 127.0.0.1:700{1,2,3} --cluster-yes >"$TMP/create" 2>&1 || { cat "$TMP/create"; fail "no cluster"; }
for n in 1 2 3; do
	within 15s settled $n || fail "node $n is not in the cluster"
done
# The node that has the key, and the node that will get it.
slot=$(at 1 cluster keyslot "$KEY")
id() { at "$1" cluster myid; }
owner_at() {	# node that is asked -> number of the node that has the slot
	at "$1" cluster slots | awk -v slot="$slot" '{ a[NR] = $0 }
		END { for (i = 1; i < NR; i++) if (a[i] ~ /^[0-9]+$/ && a[i + 1] ~ /^[0-9]+$/ && a[i + 2] ~ /^127/ &&
			a[i] + 0 <= slot && slot <= a[i + 1] + 0) { print a[i + 3] - 7000; exit } }'
}
owner=$(owner_at 1)
[ -n "$owner" ] || fail "nobody has slot $slot"
other=$((owner % 3 + 1)) third=$(((owner + 1) % 3 + 1))

# Each host knows another node.  Two of them are referred to the one that has the key.
up() { host_up "$1" -o "pool=farm,pool.server=redis://127.0.0.1:700$1,pool.bps=6M,pool.lease=300ms"; }
for n in 1 2 3; do
	up $n
done
rates 2 1 2 3
rates 3 1 2 3
near sum "$POOL_RATE" 8 "three hosts"
equal "$(at "$owner" hlen "$KEY")" 8 "fields of the pool: v s l w r and three members"

# The slot moves to another node (ASK, then MOVED): no host loses its lease.
quietly at "$other" cluster setslot "$slot" importing "$(id "$owner")"
quietly at "$owner" cluster setslot "$slot" migrating "$(id "$other")"
quietly at "$owner" migrate 127.0.0.1 "700$other" "$KEY" 0 5000
rates 2 1 2 3
for n in $other $owner $third; do
	quietly at "$n" cluster setslot "$slot" node "$(id "$other")"
done
rates 2 1 2 3
[ "$SUM" -le $((POOL_RATE * 107 / 100)) ] || fail "tokens were made up while the key moved: $SUM"
near sum "$POOL_RATE" 8 "after the key has moved"
equal "$(at "$other" hlen "$KEY")" 8 "fields of the pool on its new node"
! grep -E "$LOST" "$TMP"/log[123] || fail "a key that moves costs the lease"

# The node that has the slot now gets a replica and is killed.  The cluster promotes the replica,
# and hosts that know another node find it.
within 10s at 4 cluster meet 127.0.0.1 7001 >/dev/null
knows() { at 4 cluster nodes | grep -q "$(id "$other")" && settled 4; }
within 10s knows || fail "node 4 does not join"
within 10s at 4 cluster replicate "$(id "$other")" >/dev/null
in_step() { at 4 info replication | grep -q master_link_status:up; }
within 15s in_step || fail "no replication"
kill -9 "${NODE[$other]}"
promoted() { at 4 role | head -n 1 | grep -q master; }
within 20s promoted || fail "the cluster promotes no replica"
back() { [ "$(at 4 hkeys "$KEY" | grep -c ^m:)" = 2 ]; }
within 20s back || { cat "$TMP"/log?; fail "the hosts do not find the new primary"; }
rates 2 "$owner" "$third"
rates 3 "$owner" "$third"
[ "$SUM" -le $((POOL_RATE * 107 / 100)) ] || fail "tokens were made up by the promoted replica: $SUM"
near sum "$POOL_RATE" 10 "after the promotion"
# The host that knew only the lost node keeps to its share until that node is back.
host_said "$other" "127.0.0.1:700$other: Connection refused; this host keeps to its share" || fail "host $other: $(cat "$TMP/log$other")"
node "$other"
within 20s host_said "$other" "leases again" || fail "host $other does not recover"
for n in 1 2 3; do
	host_down $n
done
