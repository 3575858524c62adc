#!/bin/bash
# SPDX-License-Identifier: MIT
# Pools in a configuration file: several scopes of a daemon are one member; limits change for all members.
. "${srcdir:-.}/tests/mount/pool_lib.sh"
requires jq

mkdir -p "$TMP/sa" "$TMP/sb" "$TMP/ma" "$TMP/mb"
truncate -s 64M "$TMP/sa/file"
ln "$TMP/sa/file" "$TMP/sb/file"
conf() {	# BPS
	cat >"$TMP/conf" <<-END
		[pool:p]
		server = unix:$TMP/p.sock
		bps = $1
		[pool:q]
		server = unix:$TMP/p.sock
		iops = 50
		[mount:a]
		source = $TMP/sa
		mountpoint = $TMP/ma
		allow_other = yes
		pool = p
		[mount:b]
		source = $TMP/sb
		mountpoint = $TMP/mb
		pool = p
		[class:slow]
		match = uid:4242
		mounts = a
		pool = q
	END
}
conf 4M
"$RATEFS" -f -c "$TMP/conf" >"$LOG" 2>&1 &
DAEMON=$!
HOST[a]=$DAEMON
both() { mountpoint -q "$TMP/ma" && mountpoint -q "$TMP/mb"; }
within 10s both || fail "the mounts did not come up"
leased() { ctl stats pool:p -j | jq -e '.pools[0].mode == "leased" and .pools[0].limits.bps.granted > 1000' >/dev/null; }
within 10s leased || fail "nothing is leased: $(ctl stats pool:p -j)"

# Two mounts, one member: together they stay below the pool's rate, and share it.
equal "$(ctl stats pool:p -j | jq -c '.pools[0] | [.members, .scopes]')" '[1,2]' "members and scopes"
rates 2 a b
rates 4 a b
near sum $((4 << 20)) 7 "two mounts"
near a $((2 << 20)) 20 "half of it"
rates 2 a
rates 3 a
near sum $((4 << 20)) 7 "one of two mounts"
# They share it by their weights.
ok ctl set a mount_weight=3 >/dev/null
rates 2 a b
near a $((3 << 20)) 10 "three quarters of it"
ok ctl set a mount_weight=1 >/dev/null

# A class takes part in a pool of its own: 50 operations per second.
at_least 3s as_user 4242 bash -c "for ((i = 0; i < 200; i++)); do stat --cached=never '$TMP/ma/file'; done" >/dev/null

# ratefsctl set changes the limit on this host and on the other one, which logs who did it.
host_up 2 -o "pool=there,pool.server=unix:$TMP/p.sock,pool.key=ratefs:{p},pool.bps=4M"
ok ctl set pool:p bps=8M >/dev/null
within 5s host_said 2 "pool 'there': bps=8M.*, set by" || fail "host 2 does not know: $(cat "$TMP/log2")"
rates 2 a b 2
rates 4 a b 2
near sum $((8 << 20)) 7 "after ratefsctl set"
near 2 $((4 << 20)) 15 "hosts share, not mounts"
# A mount whose requests have waited less than those of another one, which is idle now, has the share of its host, too.
reading 2
nap 1s
rates 2 b
near b $((4 << 20)) 10 "the other mount alone"
read_end
equal "$(ctl show pool:p -j | jq -r .options.bps.value)" 8M "show"
shown() { ctl stats >"$TMP/stats" && grep -q '^pool p at unix:.*: leased, 2 members' "$TMP/stats"; }
within 5s shown || fail "stats do not show the pool: $(cat "$TMP/stats")"
says 'no daemon has' ctl set pool:x bps=1M
says 'between 1 and|no limit' ctl set pool:p bps=off
# The other host sees the limits that are in force, can set its own configuration's again, and does not change limits of
# kinds that it was not asked to change.
equal "$(ctl show pool:there -j | jq -r .options.bps.value)" 8M "show on the other host"
ok ctl set pool:p iops=900 >/dev/null
within 5s host_said 2 "pool 'there': iops=900, set by" || fail "host 2 does not know: $(cat "$TMP/log2")"
ok ctl set pool:there bps=4M >/dev/null
pool_is() { [ "$(ctl stats pool:p -j | jq -c '.pools[0].limits | [.bps.rate, .iops.rate] | map(floor)')" = "$1" ]; }
within 5s pool_is '[4194304,900]' || fail "set on host 2: $(ctl stats pool:p -j)"
within 5s grep -q "pool 'p': bps=4M, set by" "$LOG" || fail "host 1 does not say who changed it: $(cat "$LOG")"
ok ctl set pool:p bps=8M iops=off >/dev/null
within 5s host_said 2 "pool 'there': iops=off, set by" || fail "host 2 does not know: $(cat "$TMP/log2")"
ok ctl set pool:p bps_burst=1M >/dev/null
within 5s host_said 2 "pool 'there': another burst or window of bps, set by" || fail "host 2 does not know: $(cat "$TMP/log2")"
ok ctl set pool:p bps_burst=0 >/dev/null
# A limit of another kind is enforced, too.
ok ctl set pool:p iops=20 >/dev/null
nap 1s
at_least 2s bash -c "for ((i = 0; i < 60; i++)); do stat --cached=never '$TMP/mb/file'; done" >/dev/null
ok ctl set pool:p iops=off >/dev/null

# A host with a larger window, whose capacity for the same rate is larger, sets another limit: that of bps stays.
host_up 3 -o "pool=wide,pool.server=unix:$TMP/p.sock,pool.key=ratefs:{p},pool.bps=4M,pool.window=2s"
# A limit that this host has not configured is enforced here, too.
ok ctl set pool:p iops=20 >/dev/null
within 5s host_said 3 "pool 'wide': iops=20, set by" || fail "host 3 does not know: $(cat "$TMP/log3")"
nap 500ms
at_least 2s bash -c "for ((i = 0; i < 60; i++)); do stat --cached=never '$TMP/m3/file'; done" >/dev/null
burst() { ctl show pool:p -j | jq -r .options.bps_burst.value; }
was=$(burst)
ok ctl set pool:wide iops=700 >/dev/null
within 5s pool_is '[8388608,700]' || fail "set on host 3: $(ctl stats pool:p -j)"
equal "$(burst)" "$was" "the burst of a limit that was not named"
ok ctl set pool:wide iops=off >/dev/null
no_iops() { ctl stats pool:p -j | jq -e '.pools[0].limits.iops == null' >/dev/null; }
within 5s no_iops || fail "iops is not off: $(ctl stats pool:p -j)"
host_down 3

# A limit that is set elsewhere does not apply to files that are open in kernel passthrough; the log says so.
META=pool=meta,pool.server=unix:$TMP/meta.sock,pool.meta_iops=1000,cache=auto
host_up 4 -o "$META"
host_up 5 -o "$META"
exec 8<"$TMP/m4/file"
if [ "$(ctl stats "$TMP/m4" -j | jq .passthrough_handles)" = 1 ]; then
	ok ctl set pool:meta "--daemon=${HOST[5]}" bps=100M >/dev/null
	within 5s host_said 4 "1 open file bypasses limits on reads and writes until closed" ||
		fail "host 4 does not tell what bypasses the limit: $(cat "$TMP/log4")"
	! host_said 5 bypass || fail "nothing bypasses the limit on host 5: $(cat "$TMP/log5")"
else
	say "no kernel passthrough here: nothing bypasses"
fi
exec 8<&-
sed -i '/ bypasses limits on reads /d' "$TMP/log4"
host_down 4
host_down 5

# A reload compares the file with what this host has set (bps=8M, iops=800), and keeps what another one has set since.
ok ctl set pool:there bps=6M >/dev/null
within 5s grep -q "pool 'p': bps=6M, set by" "$LOG" || fail "host 1 does not know: $(cat "$LOG")"
ok ctl set pool:p iops=800 >/dev/null
within 5s pool_is '[6291456,800]' || fail "set on both hosts: $(ctl stats pool:p -j)"
conf 8M
ok ctl reload >/dev/null
within 5s no_iops || fail "a reload does not turn iops off: $(ctl stats pool:p -j)"
equal "$(ctl stats pool:p -j | jq '.pools[0].limits.bps.rate | floor')" 6291456 "what host 2 has set, after a reload"

# A reload with another limit does the same; after a reload without the pool, its limits no longer
# apply to the mounts.
conf 2M
ok ctl reload >/dev/null
nap 1s
rates 4 a b 2
near sum $((2 << 20)) 10 "after a reload"
host_down 2
sed -i '/^pool = p/d' "$TMP/conf"
ok ctl reload >/dev/null
before 15s cat "$TMP/ma/file" >/dev/null	# 64 MiB: with the limit, 32 s
kill "$DAEMON"
within 10s gone "$DAEMON" || fail "the daemon does not end"
wait "$DAEMON" || fail "the daemon ended with $?"
DAEMON=
