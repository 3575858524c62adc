#!/bin/bash
# SPDX-License-Identifier: MIT
# A pool in every scope, added, moved and removed by reloads; several pools in one daemon; what
# commands show of them.
. "${srcdir:-.}/tests/mount/pool_lib.sh"
requires jq

RATE_POOL=$((4 << 20))
mkdir -p "$TMP/sa" "$TMP/ma" "$TMP/mb"
truncate -s 48M "$TMP/sa/file"
# conf [POOLS] [GLOBAL] [FS] [MOUNT_A] [CLASS]: the pool sections, and the lines about pools in each
# other section.
conf() {
	cat >"$TMP/conf" <<-END
		$1
		[global]
		$2
		[fs:data]
		source = $TMP/sa
		$3
		[mount:a]
		fs = data
		mountpoint = $TMP/ma
		allow_other = yes
		$4
		[mount:b]
		fs = data
		mountpoint = $TMP/mb
		[class:some]
		match = uid:4242
		mounts = a
		$5
	END
	[ -z "${DAEMON:-}" ] || ok ctl reload >/dev/null
}
pool() { printf '[pool:%s]\nserver = unix:%s/pool.sock\n%s\n' "$1" "$TMP" "$2"; }
free() { before 5s cat "$TMP/m$1/file" >/dev/null; }
limited() {	# WHAT MOUNT...
	local what=$1
	shift
	rates 1 "$@"
	rates 2 "$@"
	near sum "$RATE_POOL" 8 "$what"
}
met() { ctl stats "$1" -j | jq -r '.limits_met[] | select(.scope == "pool") | "\(.of).\(.name)=\(.value) by \(.joined_by)"'; }

# The daemon starts without any pool, and gets its first by a reload.
conf '' '' '' '' ''
"$RATEFS" -f -c "$TMP/conf" >"$LOG" 2>&1 &
DAEMON=$!
both() { mountpoint -q "$TMP/ma" && mountpoint -q "$TMP/mb"; }
within 10s both || fail "the mounts did not come up: $(cat "$LOG")"
free a
says 'no daemon has|there is no pool' ctl show pool:p
conf "$(pool p 'bps = 4M')" 'pool = p' '' '' ''
limited "in [global]" a b
equal "$(met a)" "p.bps=4M by global" "limits that apply to the mount"
equal "$(ctl stats a -j | jq -r '.limits_met[] | select(.bottleneck) | .scope')" pool "the bottleneck"

# In other scopes: an fs includes both mounts, a mount only itself, a class some of the mount's
# requests.
conf "$(pool p 'bps = 4M')" '' 'pool = p' '' ''
limited "in [fs:data]" a b
equal "$(met b)" "p.bps=4M by fs" "limits that apply to the mount"
conf "$(pool p 'bps = 4M')" '' '' 'pool = p' ''
limited "in [mount:a]" a
free b
conf "$(pool p 'bps = 4M')" '' '' '' 'pool = p'
free a
at_least 1500ms as_user 4242 dd if="$TMP/ma/file" of=/dev/null bs=64k count=128 2>/dev/null
equal "$(met a/some)" "p.bps=4M by class" "limits that apply to the class"

# Two pools with different kinds of limits, in different scopes.
conf "$(pool p 'bps = 4M'; pool q 'iops = 100')" '' 'pool = p' '' 'pool = q'
limited "with two pools" a b
at_least 1s as_user 4242 bash -c "for ((i = 0; i < 120; i++)); do stat --cached=never '$TMP/ma/file'; done" >/dev/null
equal "$(ctl stats global -j | jq -c '[.pools[].name] | sort')" '["p","q"]' "pools in stats"
equal "$(pgrep -xc ratefs-pool)" 2 "one helper for each pool"

# Commands: list, show, stats, set --save.
ctl list >"$TMP/list" || fail "list"
grep -E '^a .* pool:p\.bps=4M' "$TMP/list" >/dev/null || fail "list does not show the pool: $(cat "$TMP/list")"
grep -E '^a/some .* pool:q\.iops=100' "$TMP/list" >/dev/null || fail "list does not show the class's pool: $(cat "$TMP/list")"
ctl show pool:p >"$TMP/show" || fail "show"
grep -Eq '^bps +4M' "$TMP/show" || fail "show: $(cat "$TMP/show")"
ctl stats a >"$TMP/stats" || fail "stats"
grep -Eq '^  pool:p\.bps ' "$TMP/stats" || fail "stats do not list the pool's limit: $(cat "$TMP/stats")"
grep -Eq '^  member ' "$TMP/stats" || fail "stats do not list members: $(cat "$TMP/stats")"
ok ctl set pool:p bps=2M --save >/dev/null
sed -n '/^\[pool:p\]/,/^$/p' "$TMP/conf" | grep -q '^bps = 2M$' || fail "not saved: $(cat "$TMP/conf")"
RATE_POOL=$((2 << 20))
limited "after set --save" a b
ok ctl reload >/dev/null
equal "$(ctl show pool:p -j | jq -r .options.bps.value)" 2M "after a reload of the saved file"

# Another key, another server: the daemon leaves the old pool and joins the new one.
conf "$(pool p 'bps = 4M'; echo key = other)" '' 'pool = p' '' ''
RATE_POOL=$((4 << 20))
limited "with another key" a b
equal "$(ctl stats pool:p -j | jq -c '.pools[0] | [.key, .members]')" '["other",1]' "the new key"
conf "$(pool p 'bps = 4M' | sed 's/pool.sock/pool2.sock/')" '' 'pool = p' '' ''
limited "with another server" a b
ok ctl set pool:p server="unix:$TMP/pool.sock" >/dev/null
limited "with another server, set" a b
says 'neither redis' ctl set pool:p server=nowhere

# A request that belonged to the same pool by two scopes would be charged twice, so this is refused.
sed '0,/^fs = data/s//&\npool = p/' "$TMP/conf" >"$TMP/conf2"
says "already takes part in pool 'p' by \[fs:data\]" "$RATEFS" --check -c "$TMP/conf2"

# The same while serving, whichever of the two scopes changes; nothing is changed then.
says "mount 'a': class 'some': pool: already takes part in pool 'p' by \[fs:data\]" ctl set a/some pool=p
says "mount 'a': pool: already takes part in pool 'p' by \[fs:data\]" ctl set a pool=p
says "fs 'data': pool: already takes part in pool 'p' by \[global\]" ctl set global pool=p
ok ctl set fs:data pool=none >/dev/null
ok ctl set a/some pool=p >/dev/null
says "mount 'a': class 'some': pool: already takes part in pool 'p' by \[fs:data\]" ctl set fs:data pool=p
says "mount 'a': class 'some': pool: already takes part in pool 'p' by \[global\]" ctl set global pool=p
equal "$(ctl show global -j | jq -r .options.pool.value) $(ctl show fs:data -j | jq -r .options.pool.value)" "none none" "after refusals"
free b

# Without the pool, nothing is limited any more; a scope cannot name a pool that does not exist.
conf '' '' '' '' ''
free a
free b
equal "$(ctl stats global -j | jq -c '.pools')" null "no pools"
sed -i '0,/^fs = data/s//&\npool = p/' "$TMP/conf"
says 'there is no \[pool:p\]' ctl reload
kill "$DAEMON"
within 10s gone "$DAEMON" || fail "the daemon does not end"
wait "$DAEMON" || fail "the daemon ended with $?: $(cat "$LOG")"
DAEMON=
