#!/bin/bash
# SPDX-License-Identifier: MIT
# A reload changes nothing about the limits of a pool that only another host has set: neither when it succeeds, nor when it is
# undone because a mount fails, nor while there is no server.  Then a mount that takes the place of another one.
. "${srcdir:-.}/tests/mount/pool_lib.sh"
requires jq redis-server redis-cli

mkdir -p "$TMP/sa" "$TMP/ma" "$TMP/mb"
truncate -s 1M "$TMP/sa/file"
conf() {	# BPS
	cat >"$TMP/conf" <<-END
		[pool:p]
		server = redis://127.0.0.1
		bps = $1
		lease = 300ms
		on_lost = stop
		[mount:a]
		source = $TMP/sa
		mountpoint = $TMP/ma
		pool = p
	END
}
# Fails only when it is mounted.
bad() { printf '[mount:bad]\nsource = %s\nmountpoint = %s\ncontext = nonsense\n' "$TMP/sa" "$TMP/mb" >>"$TMP/conf"; }
redis_up
conf 4M
"$RATEFS" -f -c "$TMP/conf" >"$LOG" 2>&1 &
DAEMON=$!
HOST[a]=$DAEMON
within 10s mountpoint -q "$TMP/ma" || fail "the mount did not come up"
host_up 2 -o "pool=there,pool.server=redis://127.0.0.1,pool.key=ratefs:{p},pool.bps=4M,pool.lease=300ms"
mode_is() { [ "$(ctl stats pool:p -j | jq -r '.pools[0].mode')" = "$1" ]; }
within 10s mode_is leased || fail "nothing is leased: $(ctl stats pool:p -j)"
pool_is() { [ "$(ctl stats pool:there -j | jq -c '.pools[0].limits | [.bps.rate, .iops.rate] | map(floor)')" = "$1" ]; }

# What another host has set first is not what it has set last.
for iops in 900 500; do
	ok ctl set pool:there iops=$iops >/dev/null
	within 5s grep -q "pool 'p': iops=$iops, set by" "$LOG" || fail "host 1 does not know: $(cat "$LOG")"
done
undone() {
	local rc=0
	"$RATEFSCTL" reload >"$TMP/said" 2>&1 || rc=$?
	equal $rc 1 "exit status of a reload that said $(cat "$TMP/said")"
	grep -q "not reloaded, everything is as before: mount 'bad'" "$TMP/said" || fail "the reload said $(cat "$TMP/said")"
}
bad
undone
nap 1s
pool_is '[4194304,500]' || fail "a reload that failed changed limits: $(ctl stats pool:there -j)"
conf 4M
ok ctl reload >/dev/null
nap 1s
pool_is '[4194304,500]' || fail "a reload changed what another host has set: $(ctl stats pool:there -j)"
# A limit that the failed reload has changed is that of this host again; the other one stays.
conf 2M
bad
undone
within 5s pool_is '[4194304,500]' || fail "a reload is not undone: $(ctl stats pool:there -j)"
equal "$(grep -c "pool 'p': iops=" "$LOG")" 2 "changes of iops: $(cat "$LOG")"
conf 4M
ok ctl reload >/dev/null
within 5s mode_is leased || fail "nothing is leased: $(ctl stats pool:p -j)"

# Without the server, nothing is admitted.  A request that waits for the limit that another host has set goes on waiting.
kill -STOP "$REDIS"
within 10s mode_is stop || fail "the server has stopped: $(ctl stats pool:p -j)"
stat --cached=never "$TMP/ma/file" >/dev/null &
WAITS=$!
waits() { ctl stats a -j | jq -e '.parked_now > 0' >/dev/null; }
within 5s waits || fail "no request waits: $(ctl stats a -j)"
ok ctl reload >/dev/null
conf 4M
bad
undone
nap 1s
! gone "$WAITS" || fail "a request that waited proceeded when the file was read again"
refused timeout 1 stat --cached=never "$TMP/ma/file"
kill -CONT "$REDIS"
within 10s gone "$WAITS" || fail "a request still waits"

# With a long lease, the next call of the server may be ten seconds away: a mount that takes the place of another one gets the
# lease without it.
conf 4M
sed -i 's/^lease = .*/lease = 20s/' "$TMP/conf"
ok ctl reload >/dev/null
within 10s mode_is leased || fail "nothing is leased: $(ctl stats pool:p -j)"
for i in 1 2; do
	before 5s cat "$TMP/ma/file" >/dev/null
	ok ctl unmount a >/dev/null
	ok ctl mount a >/dev/null
done
before 5s cat "$TMP/ma/file" >/dev/null

kill "$DAEMON"
within 10s gone "$DAEMON" || fail "the daemon does not end"
wait "$DAEMON" || fail "the daemon ended with $?"
DAEMON=
host_down 2
redis_down
