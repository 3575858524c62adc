#!/bin/bash
# SPDX-License-Identifier: MIT
# ratefsctl: every command, with what it says when it cannot.
. "${srcdir:-.}/tests/mount/lib.sh" || exit 1
requires helper:iogen jq

backing tmpfs
head -c 16M /dev/zero >"$SRC/file"
value() { ctl show "${2:-$MNT}" --json | jq -r ".options.$1.value"; }
code() {
	local want=$1 rc=0
	shift
	"$@" >/dev/null 2>&1 || rc=$?
	equal "$rc" "$want" "exit code of '$*'"
}

says 'no ratefs daemon of yours runs' ctl list
code 3 ctl list
mount_ratefs -o read_bps=100K,fair=uid,name=slow

# list and show, for people and programs.
ctl list | grep -q "^slow .*mounted .*$MNT" || fail "list"
ctl list --json | jq -e ".daemons[0].mounts[0].mountpoint == \"$MNT\"" >/dev/null || fail "list --json"
ctl show slow | grep -Eq '^read_bps +100K *$' || fail "show"
ctl show slow | grep -Eq '^fair +uid *$' || fail "show"
ctl show global | grep -Eq '^iops +off +default' || fail "show global"

# A target is a mountpoint, however it is spelled, a name, fs:NAME or global.
ln -s "$TMP" "$TMP/link"
for target in "$MNT" "$MNT/" "$TMP/link/mnt" slow fs:slow global; do
	ok ctl stats "$target" >/dev/null
done
(cd "$TMP" && ctl stats mnt >/dev/null) || fail "a relative mountpoint"
code 3 ctl stats nowhere
code 3 ctl stats fs:nowhere

# set: as a whole or not at all; felt at once by who waits.
iogen --op read --size 1M --bytes 8M --path "$MNT/file" >/dev/null &
reader=$!
nap 300ms
equal "$(ctl set "$MNT" read-bps=1G write_bps=50M)" "$(printf 'read_bps=1G\nwrite_bps=50M')"
within 2s gone "$reader" || fail "the waiting reader did not feel the new limit"
equal "$(value read_bps) $(value write_bps)" "1G 50M"
says "slow: write_bps: '5X': unknown suffix" ctl set slow read_bps=1M write_bps=5X
says "slow: unknown option 'raed_bps'; did you mean 'read_bps'" ctl set slow raed_bps=1M
says "slow: cache: cannot be changed" ctl set slow iops=5 cache=strict
says "global: fair: belongs to the mount scope" ctl set global fair=uid
says "slow: 'iops': write KEY=VALUE" ctl set slow iops
code 2 ctl set slow read_bps=5X
equal "$(value read_bps) $(value write_bps) $(value iops)" "1G 50M off"
for kv in iops=5k max_inflight=8 max_open=900 on_full=reject on_full=wait max_wait=30s \
	on_timeout=etimedout interrupt=any nonblock=wait fair=gid weight=uid:0=3+gid:5=2 mount_weight=2 \
	max_keys=100 max_parked=900 max_parked_bytes=8M window=1s iops_burst=10 iops_once=20 dry_run=yes; do
	ok ctl set slow "$kv" >/dev/null
	equal "$(value "${kv%%=*}")" "${kv#*=}" "$kv"
done
ok ctl set slow dry_run=no window=100ms >/dev/null
ok ctl set fs:slow read_bps=300M >/dev/null
equal "$(value read_bps fs:slow)" 300M
ok ctl set global iops=9k >/dev/null
equal "$(value iops global)" 9k
says 'nothing was changed: the target is in no configuration file' ctl set slow iops=4k --save
equal "$(value iops)" 5k

# pause and resume.
ok ctl pause slow
ctl list | grep -q '^slow .*paused' || fail "list does not show the pause"
cat "$MNT/file" >"$TMP/copy" &
reader=$!
nap 300ms
! gone "$reader" || fail "a paused mount let somebody pass"
ok ctl resume slow
within 3s gone "$reader" || fail "resume did not let it pass"
for scope in fs:slow global; do
	ok ctl pause "$scope"
	(head -c1 "$MNT/file" >/dev/null) &
	reader=$!
	nap 200ms
	! gone "$reader" || fail "paused $scope let somebody pass"
	ok ctl resume "$scope"
	within 3s gone "$reader" || fail "resume of $scope did not let it pass"
done

# reset-stats, watch.
ok ctl reset-stats
equal "$(ctl stats slow --json | jq '[.classes[].ops] | add')" 0
(timeout 2.5 "$RATEFSCTL" watch slow --json || true) >"$TMP/watch"
equal "$(jq -s length "$TMP/watch")" 3 "views in two and a half seconds"

# Usage.
code 2 ctl
code 2 ctl nonsense
code 2 ctl set slow
code 2 ctl stats slow --save
code 2 ctl pause slow --json
code 0 ctl --help
code 0 ctl --version
equal "$(ctl --dump-commands | wc -l)" 11
says 'no daemon has a configuration file' ctl reload
says 'slow: this daemon has no configuration file' ctl reload slow

# Two daemons: each answers for its own; what both have must be told apart.
mkdir "$TMP/other"
"$RATEFS" "$SRC" "$TMP/other" || fail "a second daemon"
equal "$(ctl list --json | jq '.daemons | length')" 2
ok ctl set other iops=77 >/dev/null
equal "$(value iops other) $(value iops slow)" "77 5k"
says "'global': 2 daemons have it" ctl show global
pid=$(ctl list --json | jq '.daemons[] | select(.mounts[0].name == "other").pid')
ok ctl --daemon="$pid" show global >/dev/null
says 'more than one mount' ctl stats
ok ctl unmount other
within 3s gone "$pid" || fail "a daemon without mounts stays"
! mountpoint -q "$TMP/other" || fail "unmount left the mount"
ok ctl stats >/dev/null
unmount_ratefs

# --save keeps comments and order.
mkdir "$TMP/m1"
printf '# top\n[mount:a]  \nsource = %s\nmountpoint = %s # here\niops = 5k ; five\n# end\n' "$SRC" "$TMP/m1" >"$TMP/c.conf"
"$RATEFS" -c "$TMP/c.conf" || fail "-c"
ok ctl set a iops=6k max-open=50 --save >/dev/null
ok ctl set global bps=1G --save >/dev/null
equal "$(cat "$TMP/c.conf")" "$(printf '# top\n[mount:a]  \nsource = %s\nmountpoint = %s # here\niops = 6k ; five\nmax_open = 50\n# end\n\n[global]\nbps = 1G\n' "$SRC" "$TMP/m1")"
says 'in no configuration file' ctl set fs:a iops=3 --save
ok ctl reload
equal "$(value iops a) $(value max_open a) $(value bps global)" "6k 50 1G"
umount "$TMP/m1"
