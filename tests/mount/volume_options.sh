#!/bin/bash
# SPDX-License-Identifier: MIT
# Options of volumes that concern more than one volume or more than a rate: profile, size and its status, one source for several
# volumes, pools.
. "${srcdir:-.}/tests/mount/lib.sh" || exit 1
. "${srcdir:-.}/tests/mount/volume_lib.sh" || exit 1

mkdir -p "$TMP/allowed/box"
cat >"$TMP/volume.conf" <<END
[pool:farm]
server = unix:$TMP/pool.sock
write_bps = 2M

[class:backups]
match = comm:backup*
reserve.bps = 1M
END
start_plugin --allow-source="$TMP/allowed"
value() { ctl show "$1" --json | jq -r ".options.$2.value"; }

# --- a profile
asks Create '{"Name":"disk","Opts":{"profile":"hdd-7200"}}'
asks Mount '{"Name":"disk","ID":"one"}'
equal "$(value disk profile)" hdd-7200
asks Unmount '{"Name":"disk","ID":"one"}'
asks Remove '{"Name":"disk"}'

# --- what the administrator wrote is checked together with the options: no volume can make the daemon's file invalid
refuses 400 "reserve" Create '{"Name":"bad","Opts":{"bps":"500K"}}'

# --- space, and its status
asks Create '{"Name":"small","Opts":{"size":"4M","inodes":"10","cache":"strict"}}'
mnt=$(asks Mount '{"Name":"small","ID":"one"}' .Mountpoint)
dd if=/dev/zero of="$mnt/f" bs=64k count=16 status=none
space=$(asks Get '{"Name":"small"}' .Volume.Status.space)
used=$(allocated "$STATE"/data/small-*)
equal "$(jq -r '"\(.state) \(.size) \(.used) \(.inodes) \(.inodes_used)"' <<<"$space")" "enforced 4194304 $used 10 2" "$space:"
refused dd if=/dev/zero of="$mnt/g" bs=64k count=100 status=none
equal "$(asks Get '{"Name":"small"}' .Volume.Status.space.used)" "$(allocated "$STATE"/data/small-*)"
[ "$(asks Get '{"Name":"small"}' .Volume.Status.space.refused)" -ge 1 ] || fail "the refusal is not counted"
asks Unmount '{"Name":"small","ID":"one"}'
asks Remove '{"Name":"small"}'

# --- two volumes with one source: what both store is counted together, and each stops at its own size
for size in 4 8; do
	asks Create "{\"Name\":\"s$size\",\"Opts\":{\"source\":\"$TMP/allowed/box\",\"size\":\"${size}M\"}}"
	asks Mount "{\"Name\":\"s$size\",\"ID\":\"one\"}"
done
equal "$(ctl list --json | jq '.daemons | length')" 1
ok dd if=/dev/zero of="$STATE/mnt/s8/a" bs=64k count=32 status=none
refused dd if=/dev/zero of="$STATE/mnt/s4/b" bs=64k count=48 status=none
[ "$(allocated "$TMP/allowed/box")" -le 4194304 ] || fail "$(allocated "$TMP/allowed/box") bytes, 4 MiB are allowed"
refused dd if=/dev/zero of="$STATE/mnt/s8/c" bs=64k count=100 status=none
[ "$(allocated "$TMP/allowed/box")" -le 8388608 ] || fail "$(allocated "$TMP/allowed/box") bytes, 8 MiB are allowed"
for size in 4 8; do
	equal "$(asks Get "{\"Name\":\"s$size\"}" .Volume.Status.space.used)" "$(allocated "$TMP/allowed/box")"
	asks Unmount "{\"Name\":\"s$size\",\"ID\":\"one\"}"
done
equal "$(grep -c '^\[fs:' "$STATE/ratefs.conf")" 0

# --- a pool of the administrator's: 6 MiB of two volumes at 2 MiB/s, of which at most a second's worth is available immediately
refuses 400 'there is no .pool:nosuch.' Create '{"Name":"bad","Opts":{"pool":"nosuch"}}'
for i in 1 2; do
	asks Create "{\"Name\":\"p$i\",\"Opts\":{\"pool\":\"farm\",\"cache\":\"strict\"}}"
	asks Mount "{\"Name\":\"p$i\",\"ID\":\"one\"}"
done
equal "$(value p1 pool)" farm
both() {
	dd if=/dev/zero of="$STATE/mnt/p1/f" bs=64k count=48 status=none & local other=$!
	dd if=/dev/zero of="$STATE/mnt/p2/f" bs=64k count=48 status=none || return 1
	wait $other
}
between 1800ms 60s both
for i in 1 2; do
	asks Unmount "{\"Name\":\"p$i\",\"ID\":\"one\"}"
	asks Remove "{\"Name\":\"p$i\"}"
done
kill_plugin TERM
stop_daemon
! grep -E 'Sanitizer|runtime error' "$TMP/plugin.log" || fail "a sanitizer complained"
