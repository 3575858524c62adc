#!/bin/bash
# SPDX-License-Identifier: MIT
# ratefs-pool has as few rights as possible, is restarted with growing pauses, and is the only
# process that uses the network.
. "${srcdir:-.}/tests/mount/pool_lib.sh"
requires jq python3 strace

POOL=pool=p,pool.bps=8M,pool.lease=300ms
mode() { ctl stats pool:p -j | jq -r '.pools[0].mode'; }
mode_is() { [ "$(mode)" = "$1" ]; }
starts() { ctl stats pool:p -j | jq -r '.pools[0].helper_starts'; }

# Which process opens which sockets?  If the server does not exist, the helper keeps trying.
mkdir -p "$TMP/s1" "$TMP/m1"
if ! sanitized; then
	strace -f -qq -e trace=socket,connect,execve -o "$TMP/trace" "$RATEFS" -f "$TMP/s1" "$TMP/m1" \
		-o "$POOL,pool.server=redis://127.0.0.1:1" >"$TMP/log1" 2>&1 &
	HOST[1]=$!
	within 20s host_said 1 'Connection refused' || fail "no line: $(cat "$TMP/log1")"
	helper=$(awk '/execve\(.*ratefs-pool", .*= 0$/ { print $1; exit }' "$TMP/trace")
	[ -n "$helper" ] || fail "no helper in the trace"
	grep -Eq "^$helper .*AF_INET" "$TMP/trace" || fail "the helper opened no network socket"
	! grep -E 'AF_INET|AF_PACKET|AF_NETLINK' "$TMP/trace" | grep -Ev "^$helper " || fail "somebody else opened a network socket"
	pkill -x ratefs
	within 10s gone "${HOST[1]}" || fail "the daemon does not end"
	wait "${HOST[1]}"
fi

# Its rights.
host_up 1 -o "$POOL,pool.server=unix:$TMP/p.sock"
within 10s mode_is leased || fail "no lease: $(cat "$TMP/log1")"
helper=$(pgrep -x ratefs-pool) || fail "there is no helper"
status() { awk -v key="$1:" '$1 == key { $1 = ""; print }' "/proc/$helper/status"; }
equal "$(status Uid)" " 65534 65534 65534 65534" "its uids"
equal "$(status Gid)" " 65534 65534 65534 65534" "its gids"
equal "$(status Groups)" "" "its groups"
for set in CapInh CapPrm CapEff CapBnd CapAmb; do
	equal "$(status $set)" " 0000000000000000" "$set"
done
equal "$(status NoNewPrivs)" " 1" "no new privileges"
sanitized || equal "$(status Seccomp)" " 2" "its system call filter"
equal "$(tr '\0' ' ' <"/proc/$helper/cmdline")" "ratefs-pool --helper " "its command line"
equal "$(tr -d '\0' <"/proc/$helper/environ")" "" "its environment"
equal "$(stat -c %a "$TMP/p.sock")" 600 "the rights of the socket"

# A helper that is killed is restarted soon, and the lease continues.
kill -9 "$helper"
again() { pgrep -x ratefs-pool >/dev/null; }
within 2s again || fail "no other helper"
within 3s mode_is leased || fail "no lease of the other helper"
! host_said 1 'this host keeps|nothing is admitted' || fail "a killed helper cost the lease: $(cat "$TMP/log1")"

# If the helper cannot run, pauses grow and one line is logged; with a helper that works, the daemon
# recovers.
mv "$BIN/ratefs-pool" "$BIN/good"
printf '#!/bin/sh\nexit 1\n' >"$BIN/ratefs-pool" && chmod 755 "$BIN/ratefs-pool"
before=$(starts)
pkill -9 -x ratefs-pool
within 5s host_said 1 "pool 'p': ratefs-pool has ended; this host keeps to its share" || fail "not told: $(cat "$TMP/log1")"
nap 4s
tries=$(($(starts) - before))
{ [ $tries -ge 3 ] && [ $tries -le 12 ]; } || fail "$tries helpers were started in about 5 seconds"
equal "$(grep -c 'keeps to its share' "$TMP/log1")" 1 "lines in the log"
mv "$BIN/good" "$BIN/ratefs-pool"
within 10s host_said 1 'leases again' || fail "does not recover: $(cat "$TMP/log1")"

# The daemon and its helper are killed: the socket file that they leave behind does no harm.
host_crash 1
within 5s sh -c '! pgrep -x ratefs-pool' || fail "the helper outlived the daemon"
[ -S "$TMP/p.sock" ] || fail "the socket file is not there"
host_up 1 -o "$POOL,pool.server=unix:$TMP/p.sock"
within 10s mode_is leased || fail "no lease after a crash: $(cat "$TMP/log1")"
host_down 1

# A file that is not a socket is in its place: it is not removed.
echo precious >"$TMP/file"
host_up 1 -o "$POOL,pool.server=unix:$TMP/file"
within 5s host_said 1 "$TMP/file: is there, and is not a socket; nothing is admitted" || fail "not told: $(cat "$TMP/log1")"
equal "$(cat "$TMP/file")" precious "the file"
rm "$TMP/file"
within 10s mode_is leased || fail "does not recover: $(cat "$TMP/log1")"
host_down 1
# A socket of another user is not trusted: a server could grant anything.
mkdir "$TMP/open" && chmod 777 "$TMP/open"
python=$(PATH=/usr/bin:/bin command -v python3) || skip "needs a python3 that every user can run"
as_user 4242 "$python" -c '
import socket, sys, time
s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
s.bind(sys.argv[1])
s.listen()
time.sleep(60)' "$TMP/open/sock" &
within 5s test -S "$TMP/open/sock" || fail "no foreign server"
host_up 1 -o "$POOL,pool.server=unix:$TMP/open/sock"
within 5s host_said 1 "$TMP/open/sock: another user serves it; nothing is admitted" || fail "not told: $(cat "$TMP/log1")"
host_down 1
kill %% 2>/dev/null
exit 0
