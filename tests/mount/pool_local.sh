#!/bin/bash
# SPDX-License-Identifier: MIT
# Daemons of one machine share a pool through a Unix socket: one of their helpers serves it.
. "${srcdir:-.}/tests/mount/pool_lib.sh"
requires jq

POOL=pool.server=unix:$TMP/pool.sock,pool.key=p
host_up 1 -o "$POOL,pool.bps=8M"

# Alone it has the whole pool.
rates 1 1
rates 3 1
near sum $((8 << 20)) 5 "one member"
equal "$(ctl stats "$TMP/m1" -j | jq -r '.keys_by_wait[0].limit | "\(.scope):\(.of).\(.name)"')" pool:p.bps "what it waited for"

# The helper runs as user nobody, without capabilities, with a system call filter; the daemon has no
# network socket.
helper=$(pgrep -x ratefs-pool) || fail "there is no helper"
equal "$(awk '/^Uid/ { print $2 }' "/proc/$helper/status")" 65534 "uid of the helper"
grep -q '^CapEff:[[:space:]]*0*$' "/proc/$helper/status" || fail "the helper has capabilities"
if ! ldd "$RATEFS" | grep -q san; then
	grep -q '^Seccomp:[[:space:]]*2' "/proc/$helper/status" || fail "the helper has no filter"
fi

# Two members share the pool: the sum stays the same, and each gets half.
host_up 2 -o "$POOL,pool.bps=8M"
rates 1 1 2
rates 3 1 2
near sum $((8 << 20)) 5 "two members"
near 1 $((4 << 20)) 10 "half of it"

# A third member with a weight; an idle member leaves its share to the others.
host_up 3 -o "$POOL,pool.bps=8M,pool.pool_weight=2"
rates 1 1 2 3
rates 3 1 2 3
near sum $((8 << 20)) 5 "three members"
near 3 $((4 << 20)) 12 "weight 2 of 4"
rates 1 1 2
rates 3 1 2
near sum $((8 << 20)) 6 "one of three is idle"

# The helper that serves is killed: another one takes over, the sum stays.
kill -9 "$helper"
rates 3 1 2 3
no_more_than_pool $((8 << 20)) "while another helper takes over"
rates 3 1 2 3
near sum $((8 << 20)) 8 "after another helper took over"

# A member that is killed loses its share to the others when its lease ends.  (Its helper may be the one that serves now: then
# another one takes over, and learns.)
settled() {	# MEMBERS HOST...
	local members=$1 n
	shift
	for n in "$@"; do
		[ "$(ctl stats pool:p -j "--daemon=${HOST[$n]}" | jq -c '.pools[0] | [.mode, .learning, .members]')" = "[\"leased\",false,$members]" ] ||
			return 1
	done
}
host_crash 3
within 10s settled 2 1 2 || fail "a killed member stays: $(ctl stats pool:p -j "--daemon=${HOST[1]}")"
rates 3 1 2
near sum $((8 << 20)) 5 "after one was killed"
host_down 2
within 10s settled 1 1 || fail "a member that left stays: $(ctl stats pool:p -j "--daemon=${HOST[1]}")"
rates 3 1
near sum $((8 << 20)) 5 "after one left"

# One helper serves many keys one after the other, 32 at a time: it forgets those that nobody has used for twenty leases.  (Each
# new key takes a lease at least, in which the server learns.)
host_up 2 -o "pool=there,pool.server=unix:$TMP/pool.sock,pool.key=k0,pool.bps=8M,pool.lease=200ms"
leased() { [ "$(ctl stats pool:there -j "--daemon=${HOST[2]}" | jq -r '.pools[0].mode')" = leased ]; }
for ((i = 1; i <= 33; i++)); do
	ok ctl set pool:there "key=k$i" "--daemon=${HOST[2]}" >/dev/null
	within 20s leased || fail "key $i: $(ctl stats pool:there -j "--daemon=${HOST[2]}")"
done
kill "${HOST[2]}" && wait "${HOST[2]}"
host_down 1
within 3s sh -c '! pgrep -x ratefs-pool' || fail "a helper outlived its daemon"

# Invalid configurations are refused, in one line.
says 'pool: server: is missing' "$RATEFS" "$SRC" "$MNT" -o pool.bps=1M
says 'pool: server: .http://x. is neither' "$RATEFS" "$SRC" "$MNT" -o pool.server=http://x,pool.bps=1M
says 'pool: server: .redis://h:65536.: ports are between' "$RATEFS" "$SRC" "$MNT" -o pool.server=redis://h:65536,pool.bps=1M
says 'pool: server: .redis://\[::1. is not redis:' "$RATEFS" "$SRC" "$MNT" -o 'pool.server=redis://[::1,pool.bps=1M'
says 'pool: has no limit' "$RATEFS" "$SRC" "$MNT" -o pool.server=unix:/x
says 'names and passwords go into the file' "$RATEFS" "$SRC" "$MNT" -o pool.server=redis://u:p@h,pool.bps=1M
says "pool: 'x' needs a server and a limit" "$RATEFS" "$SRC" "$MNT" -o pool=x
says 'bps_peak: belongs to' "$RATEFS" "$SRC" "$MNT" -o pool.server=unix:/x,pool.bps=1M,pool.bps_peak=2M
says 'lease: .1ms' "$RATEFS" "$SRC" "$MNT" -o pool.server=unix:/x,pool.bps=1M,pool.lease=1ms
