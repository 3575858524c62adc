#!/bin/bash
# SPDX-License-Identifier: MIT
# Whatever goes wrong with a server: one clear line in the log, the fallback, and recovery without
# intervention.
. "${srcdir:-.}/tests/mount/pool_lib.sh"
POOL_BIND=10.77.0.254
ip addr add 10.77.0.254/24 dev lo
. "$srcdir/tests/mount/pool_trouble.sh"

POOL=pool=farm,pool.bps=8M,pool.lease=300ms
redis_up
host_up 1 -o "$POOL,pool.server=redis://10.77.0.254"
within 10s mode_is leased || fail "no lease to begin with"

trouble "refused" "10.77.0.254:6379: Connection refused" share redis_down 9
over redis_up

set_pool_type() { quietly cli eval "redis.call('del', KEYS[1]) return redis.call('set', KEYS[1], 'x')" 1 'ratefs:{farm}'; }
trouble "wrong type" "WRONGTYPE .*; another program uses the key: choose another key" share set_pool_type
over quietly cli del 'ratefs:{farm}'

trouble "memory full" "OOM .*; give the server more memory" share quietly cli config set maxmemory 1
over quietly cli config set maxmemory 0

# The stored state is corrupted, which is an error of the script.  The key expires, and a new one is
# created.
trouble "script error" "user_script:.*; the pool.s data is damaged and expires soon" share quietly cli hset 'ratefs:{farm}' s rubbish
over true

trouble "a user without rights" "NOPERM .*evalsha.*; ratefs-pool\(8\) lists the rights" share quietly cli acl setuser default -evalsha
over quietly cli acl setuser default +evalsha
trouble "a user without rights inside the script" "ratefs-pool\(8\) lists the rights" share quietly cli acl setuser default -hset
over quietly cli acl setuser default +hset
lock() {
	quietly cli config set requirepass sesame
	quietly cli -a sesame client kill type normal skipme yes
}
trouble "a password is needed" "(NOAUTH|unauthenticated).*; give its password by auth_file" share lock
over quietly cli -a sesame config set requirepass ''
# Servers that refuse a connection by an error, and close it.  Every call has the same error: none uses the closed connection.
always_refused() {
	local i
	for ((i = 0; i < 30; i++)); do
		ctl stats pool:farm -j | jq -r '.pools[0].error'
		nap 50ms
	done >"$TMP/errors"
	! grep -Eq 'Broken pipe|reset by peer|closed the connection' "$TMP/errors" ||
		fail "$TROUBLE: a call uses the closed connection: $(sort "$TMP/errors" | uniq -c)"
}
protect() {
	quietly cli config set protected-mode yes
	quietly cli client kill type normal skipme yes
}
trouble "protected mode" "DENIED .*; see bind and protected-mode in its configuration, and auth_file" share protect
always_refused
over quietly cli config set protected-mode no
coproc CLI { cli; }	# keeps the only connection
crowd() { printf 'config set maxclients 1\nclient kill type normal skipme yes\n' >&"${CLI[1]}"; }
vacate() { echo 'config set maxclients 100' >&"${CLI[1]}"; }
trouble "too many clients" "ERR max number of clients reached" share crowd
always_refused
over vacate

# The server answers, but not in time; then no packet reaches it.
trouble "a server that hangs" "no answer in time" share kill -STOP "$REDIS"
over kill -CONT "$REDIS"
if command -v nft >/dev/null && nft add table inet ratefs_test 2>/dev/null; then
	nft add chain inet ratefs_test in '{ type filter hook input priority 0; }'
	trouble "packets are dropped" "no answer in time|Connection timed out|timed out" share \
		nft add rule inet ratefs_test in tcp dport 6379 drop
	over nft flush chain inet ratefs_test in
	trouble "connections are rejected" "reset by peer|refused|no answer" share \
		nft add rule inet ratefs_test in tcp dport 6379 reject with tcp reset
	over nft flush chain inet ratefs_test in
else
	say "without nft: packets are not dropped by a firewall"
fi
host_down 1
redis_down
