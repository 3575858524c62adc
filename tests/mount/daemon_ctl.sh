#!/bin/bash
# SPDX-License-Identifier: MIT
# ratefsctl: every command, with its error messages.
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

says 'you have no running ratefs daemons' ctl list
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
# Any path on the mount denotes it; a plain word is a name, not a file in the current directory.
ln -s "$MNT/file" "$TMP/to-file"
for target in "$MNT/file" "$MNT/no/such/file" "$MNT/../mnt/." "$TMP/to-file" "$TMP/link/mnt/file"; do
	ctl stats "$target" | grep -q '^mount slow' || fail "'$target' is not found"
done
(cd "$MNT" && ctl stats . >/dev/null && ctl show ./file >/dev/null) || fail "'.' is not found"
(cd "$MNT" && code 3 ctl stats file) || exit 1
# A class that was mistyped is not taken for a file, even where ./slow is the mount.
ln -s "$MNT" "$TMP/slow"
(cd "$TMP" && says "'slow' has no class 'x'; .* write ./slow/x for a path" ctl set slow/x iops=7) || exit 1
(cd "$TMP" && ok ctl stats ./slow/x && ok ctl stats slow/ && ok ctl stats slow/a/b) >/dev/null || exit 1
ctl show slow | grep -Eq '^iops +7 ' && fail "a mistyped class changed the mount"
says 'is neither on a mount of your daemons nor a MOUNT' ctl stats "$TMP"
says "'abc' is neither a process ID nor a path" ctl -d abc list
says 'is not the control socket of a ratefs daemon' ctl -d /etc/passwd list
code 3 ctl stats nowhere
code 3 ctl stats fs:nowhere

# set: all changes or none, with immediate effect on waiting requests.
iogen --op read --size 1M --bytes 8M --path "$MNT/file" >/dev/null &
reader=$!
nap 300ms
equal "$(ctl set "$MNT" read-bps=1G write_bps=50M)" "$(printf 'read_bps=1G\nwrite_bps=50M')"
within 2s gone "$reader" || fail "the waiting reader did not feel the new limit"
equal "$(value read_bps) $(value write_bps)" "1G 50M"
grep -q "mount 'slow': set read_bps=1G" "$LOG" || fail "set is not in the log"
says "slow: write_bps: '5X': unknown suffix" ctl set slow read_bps=1M write_bps=5X
says "slow: unknown option 'raed_bps'; did you mean 'read_bps'" ctl set slow raed_bps=1M
says "slow: cache: cannot be changed" ctl set slow iops=5 cache=strict
says "global: fair: belongs to the mount scope" ctl set global fair=uid
says "slow: 'iops': write KEY=VALUE" ctl set slow iops
says "slow: 'iops=20,bps=10M': not one option; separate options with spaces" ctl set slow iops=20,bps=10M
says "slow: 'global.iops': belongs to another scope; use 'ratefsctl set global iops=100'" ctl set slow global.iops=100
says "slow: 'fs.iops': belongs to another scope; use 'ratefsctl set fs:slow iops=100'" ctl set slow fs.iops=100
says "slow: weight: .*',' does not separate weights; write '\+'" ctl set slow weight=uid:0=4,uid:1=2
says "slow: bps: .*rates are per second" ctl set slow bps=10MB/min
says "slow: bps_burst: has no effect without bps" ctl set slow bps_burst=10M
says "slow: max_parked: '0': must be at least 1" ctl set slow max_parked=0
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
says 'nothing was changed: the target has no configuration file' ctl set slow iops=4k --save
equal "$(value iops)" 5k

# Warnings: a weight of another kind than `fair`, and fair=cgroup if all processes are in one cgroup.
says_too() { # PATTERN COMMAND
	local pattern=$1
	shift
	"$@" >/dev/null 2>"$TMP/err" || fail "'$*'"
	grep -Eq -- "$pattern" "$TMP/err" || fail "'$*' said '$(cat "$TMP/err")', not '$pattern'"
}
says_too "weight=gid:5=2 has no effect with fair=uid" ctl set slow fair=uid weight=uid:0=3+gid:5=2
LOG_EXPECTED="$LOG_EXPECTED|has no effect|tells nobody apart here|limits all callers together|class '(ci|k)' (added|removed)"
says_too "with fair=none, each.\* limits all callers together" ctl set slow fair=none each.iops=50k
says_too "with fair=none, each.\* limits all callers together" ctl set slow each.bps=1G
ok ctl set slow each.iops=off each.bps=off >/dev/null
says_too "class 'k': with fair=none, each.\* limits all callers together" ctl class add slow k match=uid:5 fair=none each.iops=50k
says_too "class 'k': weight=gid:5=2 has no effect with fair=none" ctl set slow/k weight=gid:5=2
equal "$(ctl show slow --json | jq -r '.advice[]' | grep -c "class 'k'")" 2
# Weights of a mount apply to the keys of its classes, too.
ok ctl set slow/k fair=gid >/dev/null
equal "$(ctl set slow fair=uid weight=gid:5=2 2>&1 >/dev/null)" "" "a weight that has an effect in a class"
ok ctl class remove slow/k
ok ctl set slow fair=uid weight=uid:0=3 >/dev/null
if [ "$(cat /proc/[0-9]*/cgroup 2>/dev/null | sed -nE 's/^(0:|.*:name=systemd)://p' | sort -u | wc -l)" = 1 ]; then
	says_too "mount 'slow': fair=cgroup has no effect here" ctl set slow fair=cgroup
	ok ctl set slow fair=process >/dev/null
	says_too "mount 'slow', class 'ci': match=cgroup: tells nobody apart here" ctl class add slow ci 'match=cgroup:/ci/**'
	equal "$(ctl show slow --json | jq -r '.advice[]' | grep -c "cgroup:")" 1
	says_too "class 'ci': fair=cgroup has no effect here" ctl set slow/ci match=uid:0 fair=cgroup
	ok ctl class remove slow/ci >/dev/null
	equal "$(ctl show slow --json | jq -r '.advice[]' | grep -c cgroup)" 0
else
	equal "$(ctl set slow fair=cgroup weight=cgroup:/a=2 2>&1)" "$(printf 'fair=cgroup\nweight=cgroup:/a=2')"
fi

# pause and resume; pause says how to continue, and a paused mount can be unmounted.
ctl pause fs:slow | grep -q '^To continue: ratefsctl resume fs:slow$' || fail "pause of an fs does not say how to continue"
ok ctl resume fs:slow
ctl pause slow >"$TMP/out" || fail "pause"
grep -q '^To continue: ratefsctl resume slow$' "$TMP/out" || fail "pause does not say how to continue"
grep -q '^To unmount it: ratefsctl unmount slow$' "$TMP/out" || fail "pause does not say how to unmount"
ctl list | grep -q '^slow .*paused' || fail "list does not show the pause"
cat "$MNT/file" >"$TMP/copy" &
reader=$!
nap 300ms
! gone "$reader" || fail "a paused mount let somebody pass"
ok ctl resume slow
within 3s gone "$reader" || fail "resume did not let it pass"
for scope in fs:slow global; do
	ok ctl pause "$scope" >/dev/null
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
# One view immediately, and one after each second.
"$RATEFSCTL" watch slow --json >"$TMP/watch" &
watcher=$!
views() { local n; n=$(jq -s length "$TMP/watch" 2>/dev/null) && [ "${n:-0}" -ge "$1" ]; }
at_least 1900ms within 20s views 3
kill $watcher
wait $watcher 2>/dev/null

# Usage.
code 2 ctl
code 2 ctl nonsense
says "unknown command 'lst'; did you mean 'list'" ctl lst
says "unknown command 'foo'; see ratefsctl --help" ctl foo
says "'class' needs add, remove or list" ctl class
says "ratefsctl: unknown flag '--colour'; see ratefsctl --help" ctl --colour
says "ratefsctl: '-d' needs a value; see ratefsctl --help" ctl -d
code 2 ctl set slow
code 2 ctl stats slow --save
code 2 ctl pause slow --json

# Output that cannot be written is an error, also of commands that run until they are interrupted.
full() { timeout 10 "$RATEFSCTL" "$@" >/dev/full; }
for words in list "list --json" metrics "stats slow" "show slow" --version watch "watch --json" "watch slow"; do
	# shellcheck disable=SC2086 # words
	says 'cannot write the output' full $words
	# shellcheck disable=SC2086 # words
	code 1 full $words
done
code 0 ctl --help
code 0 ctl --version
equal "$(ctl --dump-commands | wc -l)" 18
says 'no daemon has a configuration file' ctl reload
says 'slow: this daemon has no configuration file' ctl reload slow

# Two daemons: each handles its own targets; a name that both have is ambiguous.
mkdir "$TMP/other"
"$RATEFS" "$SRC" "$TMP/other" || fail "a second daemon"
equal "$(ctl list --json | jq '.daemons | length')" 2
ok ctl set other iops=77 >/dev/null
equal "$(value iops other) $(value iops slow)" "77 5k"
says "'global': 2 daemons have this target" ctl show global
pid=$(ctl list --json | jq '.daemons[] | select(.mounts[0].name == "other").pid')
ok ctl --daemon="$pid" show global >/dev/null
equal "$(ctl stats --json | jq -r .name | sort | tr '\n' ' ')" "other slow " "stats without a target"
equal "$(ctl stats | grep -c '^mount ')" 2
ok ctl unmount other
within 3s gone "$pid" || fail "a daemon without mounts stays"
! mountpoint -q "$TMP/other" || fail "unmount left the mount"
ok ctl stats >/dev/null
unmount_ratefs

# A limit set after files were opened: the processes that bypass it are named.
mount_ratefs -o name=slow
exec 8<"$MNT/file"
if [ "$(ctl stats slow --json | jq .passthrough_handles)" = 1 ]; then
	ctl set slow read_bps=1M 2>"$TMP/err" >/dev/null || fail "set"
	grep -Eq "mount 'slow': 1 open file bypasses limits .*: process $$ \(.*, user root, 1 file\)\$" "$TMP/err" ||
		fail "the file that bypasses the limit: $(cat "$TMP/err")"
	exec 8<&-
	equal "$(ctl set slow read_bps=2M 2>&1)" read_bps=2M
else
	say "no kernel passthrough here: nothing bypasses"
fi
exec 8<&-
unmount_ratefs

# A paused mount can be ended.
mount_ratefs -o name=slow
ok ctl pause slow >/dev/null
before 5s ctl unmount slow
daemon_ended_well

# --save keeps comments and order.
mkdir "$TMP/m1"
printf '# top\n[mount:a]  \nsource = %s\nmountpoint = %s # here\niops = 5k ; five\n# end\n' "$SRC" "$TMP/m1" >"$TMP/c.conf"
"$RATEFS" -c "$TMP/c.conf" || fail "-c"
ok ctl set a iops=6k max-open=50 --save >/dev/null
ok ctl set global bps=1G --save >/dev/null
equal "$(cat "$TMP/c.conf")" "$(printf '# top\n[mount:a]  \nsource = %s\nmountpoint = %s # here\niops = 6k ; five\nmax_open = 50\n# end\n\n[global]\nbps = 1G\n' "$SRC" "$TMP/m1")"
says 'has no configuration file' ctl set fs:a iops=3 --save
ok ctl reload
equal "$(value iops a) $(value max_open a) $(value bps global)" "6k 50 1G"
umount "$TMP/m1"
