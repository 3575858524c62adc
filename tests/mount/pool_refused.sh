#!/bin/bash
# SPDX-License-Identifier: MIT
# A server that does not work from the start: no share is known, so on_lost=share admits nothing.
# Passwords and their file.
. "${srcdir:-.}/tests/mount/pool_lib.sh"
POOL_BIND=10.77.0.254
ip addr add 10.77.0.254/24 dev lo
. "$srcdir/tests/mount/pool_trouble.sh"
requires python3

POOL=pool=farm,pool.bps=8M,pool.lease=300ms
mark() { MARK=0 && : >"$TMP/log1"; }	# each trouble begins with a new daemon
redis_up
port() { host_up 1 -o "$POOL,pool.server=redis://10.77.0.254:6380"; }
nothing_there() { proxy && port; }
slow() { proxy 30000 && port; }
liar() { proxy "${1:-rubbish}" && port; }
trouble "never there" "10.77.0.254:6380: Connection refused" stop nothing_there
over proxy 0
host_down 1
trouble "an answer after 30 seconds" "10.77.0.254:6380: no answer in time" stop slow
over proxy 0
host_down 1
trouble "rubbish" "10.77.0.254:6380: (Protocol error|invalid answer)" stop liar
over proxy 0
host_down 1
# Answers without an end occupy the helper neither for long nor with much memory.
kinds="huge endless dripping"
! sanitized || kinds="endless dripping"	# the memory of a helper is not limited then
for kind in $kinds; do
	trouble "an answer that is $kind" "10.77.0.254:6380: (no answer in time|the answer is too long)" stop liar "$kind"
	equal "$(ctl stats pool:farm -j | jq -r '.pools[0].helper_starts')" 1 "$kind: helpers started"
	helper=$(pgrep -x ratefs-pool)
	kill "${HOST[1]}" && wait "${HOST[1]}"
	within 3s gone "$helper" || fail "$kind: the helper stays when its daemon has ended"
done
# Errors that take turns do not fill the log.
trouble "always another error" "10.77.0.254:6380: ERR [0-9]+" stop liar moody
nap 4s
most_lines() { [ "$(grep -Ec "$LOST" "$TMP/log1")" -le "$1" ]; }
most_lines 3 || fail "too many lines: $(cat "$TMP/log1")"
host_down 1
# A server that hangs has not refused the password: the same helper goes on trying.
echo secret >"$TMP/auth" && chmod 600 "$TMP/auth"
slow_locked() { proxy 30000 && host_up 1 -o "$POOL,pool.server=redis://10.77.0.254:6380,pool.auth_file=$TMP/auth"; }
trouble "no answer to the password" "10.77.0.254:6380: no answer in time" stop slow_locked
nap 2s
equal "$(ctl stats pool:farm -j | jq -r '.pools[0].helper_starts')" 1 "helpers started while the server hangs"
host_down 1
proxy
unnamed() { host_up 1 -o "$POOL,pool.on_lost=open,pool.server=redis://farm.test"; }
trouble "an unknown name" "farm.test:6379: .*[Nn]ame" open unnamed
before 5s cat "$TMP/m1/file" >/dev/null	# 64 MiB: not limited
over name farm.test 10.77.0.254
host_down 1
# A name with two addresses, the first of which does not answer.
name farm.test 10.77.0.253 10.77.0.254
host_up 1 -o "$POOL,pool.server=redis://farm.test"
within 10s mode_is leased || fail "the second address is not tried: $(cat "$TMP/log1")"
host_down 1

# The first address is that of a replica, of Redis 6, which words its errors differently inside a script.
ip addr add 10.77.0.252/24 dev lo
LISTEN=10.77.0.252 python3 "$srcdir/tests/mount/pool_proxy.py" 6379 0 5 0 &
PROXY=$!
replica_listens() { ss -Hltn 'src 10.77.0.252:6379' | grep -q LISTEN; }
within 10s replica_listens || fail "the replica does not start"
name farm.test 10.77.0.252
trouble "a replica of Redis 6" "farm.test:6379: READONLY You can't write against a read only replica" stop \
	host_up 1 -o "$POOL,pool.server=redis://farm.test"
over name farm.test 10.77.0.252 10.77.0.254
host_down 1
proxy

# The largest limit and window.
host_up 1 -o "pool=large,pool.bps=4T,pool.window=1h,pool.lease=300ms,pool.server=redis://10.77.0.254"
within 10s mode_is leased large || fail "no lease of a large pool: $(cat "$TMP/log1")"
host_down 1

# The rights that the manual page lists are enough.
read -ra rights < <(sed -n 's/^\.Dl ACL SETUSER ratefs on >PASSWORD //p' "$srcdir/man/ratefs-pool.8")
[ ${#rights[@]} -gt 3 ] || fail "the manual page lists no rights"
# A password that is wrong, then right: the file is read again.
quietly cli acl setuser ratefs on '>sesame' "${rights[@]}"
quietly cli acl setuser default off
echo ratefs:wrong >"$TMP/auth" && chmod 600 "$TMP/auth"
locked() { host_up 1 -o "$POOL,pool.server=redis://10.77.0.254/1,pool.auth_file=$TMP/auth"; }
trouble "a wrong password" "WRONGPASS .*; see auth_file" stop locked
over sh -c "echo ratefs:sesame >'$TMP/auth'"
# The password is visible nowhere.
for pid in $(pgrep ratefs); do
	! tr '\0' ' ' <"/proc/$pid/cmdline" | grep -q sesame || fail "the password can be seen in a command line"
done
! ctl show pool:farm | grep sesame || fail "ratefsctl show prints the password"
! ctl stats pool:farm -j | grep sesame || fail "ratefsctl stats prints the password"
! grep sesame "$TMP/log1" || fail "the password is in the log"
host_down 1
# A password file that others can read, or that is not a regular file, is refused.
rm "$TMP/auth"
bad_auth() {
	host_up 1 -o "$POOL,pool.server=redis://10.77.0.254/1,pool.auth_file=$TMP/auth"
	within 5s host_said 1 "auth_file: $TMP/auth.*$1.*$LOST" || fail "$2: $(cat "$TMP/log1")"
	host_down 1
}
bad_auth "No such file" "no file"
mkfifo -m 600 "$TMP/auth"
bad_auth "must be a file" "a pipe"
rm "$TMP/auth" && echo ratefs:sesame >"$TMP/auth" && chmod 640 "$TMP/auth"
bad_auth "only its owner can read" "readable by a group"
chmod 600 "$TMP/auth" && chown 4242 "$TMP/auth"
bad_auth "only its owner can read" "of another user"
chown 0 "$TMP/auth" && printf '%0600d\n' 0 >"$TMP/auth"
bad_auth "its line is too long" "longer than a password can be"
redis_down
