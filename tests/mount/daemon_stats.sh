#!/bin/bash
# SPDX-License-Identifier: MIT
# Statistics add up to what was done and name the callers that waited; dry_run reports which
# requests would have waited.
. "${srcdir:-.}/tests/mount/lib.sh" || exit 1
requires helper:iogen jq

backing tmpfs
head -c 8M /dev/zero >"$SRC/file"
stats() { ctl stats "${2:-$MNT}" --json | jq -r "$1"; }
nobody_waits() { [ "$(stats .parked_now)" = 0 ]; }

mount_ratefs -o read_bps=8M,write_iops=2k,cache=strict,fair=uid
chmod 777 "$MNT"
ok ctl reset-stats
iogen --op read --size 64K --count 40 --clients 2 --uids 1001,1002 --path "$MNT/file" >"$TMP/read" || fail "iogen read"
iogen --op write --size 4K --count 100 --path "$MNT/new" >"$TMP/write" || fail "iogen write"
for scope in "$MNT" fs:mnt global; do
	equal "$(stats .classes.read.ops "$scope")" "$(json .total.ops "$TMP/read")" "reads of $scope"
	equal "$(stats .classes.read.bytes "$scope")" "$(json .total.bytes "$TMP/read")" "bytes read of $scope"
	equal "$(stats .classes.write.ops "$scope")" "$(json .total.ops "$TMP/write")" "writes of $scope"
	equal "$(stats .classes.write.bytes "$scope")" "$(json .total.bytes "$TMP/write")" "bytes written of $scope"
	equal "$(stats '.classes.read | .ops == .ok + .failed + .aborted' "$scope")" true "outcomes of $scope"
	equal "$(stats '.classes.read | .ops == .at_once + .parked_total' "$scope")" true "admissions of $scope"
	equal "$(stats '.classes.read | .wait.count == .parked_total and .parked_now == 0' "$scope")" true "waits of $scope"
done
equal "$(stats '.limits.read_bps.blocking_share * .seconds > 0.2')" true "time that read_bps refused"
equal "$(stats '.classes.read.wait | .p50_ns <= .p90_ns and .p90_ns <= .p99_ns and .p99_ns <= .max_ns * 9 / 8 and .max_ns > 0')" true "quantiles"
equal "$(stats '[.keys_by_wait[].id] | sort | join(",")')" 1001,1002 "who waited"
equal "$(stats '.keys_by_use[0] | .kind == "uid" and .wait_ns > 0 and .bytes > 0')" true "a key"
ctl stats "$MNT" | grep -q 'read_bps .*8.0M/s' || fail "stats for people"

# A caller has used what it has moved, not what it asked for.
echo hi >"$SRC/tiny"
ok ctl set "$MNT" read_iops=50 >/dev/null
ok ctl reset-stats
for ((i = 0; i < 15; i++)); do cat "$MNT/tiny" >/dev/null; done # two reads each, of 128 KiB
equal "$(stats '.keys_by_use[0] | .ops > 15 and .bytes <= 45')" true "what was used: $(stats '.keys_by_use[0] | .ops, .bytes' | xargs)"
# What many users have done is not attributed to the one that came last.
for who in "none:all callers" "gid:gid 0 $(id -gn)"; do
	ok ctl set "$MNT" fair="${who%%:*}" >/dev/null
	for ((i = 0; i < 5; i++)); do cat "$MNT/tiny" >/dev/null; done
	ctl stats "$MNT" | grep -Eq "^  ${who#*:}  +[0-9]" || fail "with fair=${who%%:*}: $(ctl stats "$MNT")"
done
ok ctl set "$MNT" fair=uid read_iops=off >/dev/null

# Each operation is counted once, in its class: a hundred more of them are a hundred more in the statistics.
counted() { # CLASS OP COUNT
	ok ctl reset-stats
	iogen --op "$2" --count "$3" --path "$MNT/file" >/dev/null || fail "iogen $2"
	stats ".classes.$1.ops"
}
equal $(($(counted meta fsync 150) - $(counted meta fsync 50))) 100 "metadata operations of 100 fsyncs"
equal $(($(counted openclose open 150) - $(counted openclose open 50))) 100 "opens of 100 opens"

# The same, counted by another program.
if command -v fio >/dev/null; then
	ok ctl reset-stats
	fio --name=f --filename="$MNT/fio" --rw=randrw --bs=4k --size=2M --direct=1 --ioengine=psync \
		--fallocate=none --overwrite=1 --refill_buffers --output-format=json >"$TMP/fio" 2>/dev/null || fail "fio"
	equal "$(stats .classes.read.ops)" "$(json '.jobs[0].read.total_ios' "$TMP/fio")" "reads that fio made"
	equal "$(stats .classes.read.bytes)" "$(json '.jobs[0].read.io_bytes' "$TMP/fio")" "bytes that fio read"
fi

# Waiting requests are shown while they wait; showing them changes nothing.
ok ctl set "$MNT" read_bps=10K >/dev/null
park_readers 20
equal "$(stats '.parked_now >= 15')" true "waiting now"
equal "$(stats '.classes.read.parked_now == .parked_now')" true "waiting by class"
before 2s ctl stats "$MNT" >/dev/null
unpark
within 2s nobody_waits || fail "dead readers still wait"
equal "$(stats '.classes.read.cancelled > 0')" true "cancelled"
unmount_ratefs

# All limits that apply are shown, and the one that requests wait for is marked, whatever its scope.
bottleneck() { jq -r '.limits_met[] | select(.bottleneck) | .scope + "." + .name'; }
for scope in global fs; do
	mount_ratefs -o iops=50k,fs.bps=1G,global.max_open=1000,$scope.read_bps=2M
	equal "$(ctl list --json | jq -r '[.daemons[0].mounts[0].limits_met[] | .scope + "." + .name] | sort | join(" ")')" \
		"$(printf '%s\n' mount.iops fs.bps global.max_open $scope.read_bps | sort | paste -sd ' ')"
	equal "$(ctl stats mnt --json | bottleneck)" "" "nobody has waited"
	iogen --op read --size 64K --count 16 --path "$MNT/file" >/dev/null
	equal "$(ctl stats mnt --json | bottleneck)" $scope.read_bps
	equal "$(ctl show mnt --json | bottleneck)" $scope.read_bps
	ctl stats mnt | grep -Eq "^  $scope\.read_bps .*%  <- requests wait for this one" || fail "stats do not mark it"
	ctl show mnt | grep -Eq "^$scope\.read_bps +2M  <- requests wait" || fail "show does not mark it"
	ctl list | grep -Eq "iops=50k .*$scope\.read_bps=2M\*" || fail "list does not mark it"
	ok ctl pause global >/dev/null
	ctl list | grep -q '^mnt *paused' || fail "list does not show the pause of global"
	ctl stats mnt | grep -q 'PAUSED (global)' || fail "stats do not show the pause of global"
	ok ctl resume global
	unmount_ratefs
done

# Failures of the source are counted; a reply such as ENOENT is not a failure.
mount_ratefs -o iops=50k
refused cat "$MNT/nothing" "$MNT/nothing-else"
refused rmdir "$MNT/file"
equal "$(stats '.classes.meta | .failed == 0 and .ok >= 2')" true "ENOENT is not a failure"
unmount_ratefs
mount_ratefs -o read_bps=10K,max_wait=50ms
refused dd if="$MNT/file" of=/dev/null bs=64K count=4
equal "$(stats '.classes.read.timed_out >= 1')" true "timed out"
unmount_ratefs

# dry_run: nothing waits, everything is counted.
mount_ratefs -o read_bps=1M,dry_run
before 2s iogen --op read --size 64K --count 128 --path "$MNT/file" >/dev/null
equal "$(stats .dry_run)" true
equal "$(stats '.classes.read.would_wait | .count > 50 and .max_ns > 30000000 and .max_ns < 100000000')" true "what would have waited"
equal "$(stats '.classes.read | .wait.count + .parked_total')" 0 "nothing waited"
equal "$(stats .parked_now)" 0
# Statistics of the dry run name the limit and the caller.
equal "$(stats '.limits_met[] | select(.bottleneck) | .name + " " + (.would_wait > 50 | tostring)')" "read_bps true"
equal "$(stats '.keys_by_wait[0] | .kind == "process" and .would_wait_total > 50 and .would_wait_ns > 0 and .wait_ns == 0 and .would_limit.name == "read_bps"')" true "who would have waited"
equal "$(stats '.would_wait[0] | .limit.name == "read_bps" and .sum_ns > 0')" true "how long, by limit"
equal "$(stats '.waits | length')" 0 "nothing waited for any limit"
ctl metrics | grep -q '^ratefs_would_wait_seconds_count{.*limit="read_bps"' || fail "no metric of what would have waited"
! ctl metrics | grep -q '^ratefs_wait_seconds_count' || fail "a metric of waits in a dry run"
ctl stats "$MNT" | grep -q '<- requests would wait for this one' || fail "stats do not mark the limit"
# A dry run leaves no debt that would have to be paid once the limit is enforced.
ok ctl set "$MNT" dry_run=no >/dev/null
before 1s iogen --op read --size 64K --count 2 --path "$MNT/file" >/dev/null
# What waits from now on is counted apart from it.
would=$(stats .classes.read.would_wait.count)
iogen --op read --size 64K --count 8 --path "$MNT/file" >/dev/null
equal "$(stats '.classes.read | .wait.count > 0 and .wait.count == .parked_total')" true "requests that waited"
equal "$(stats .classes.read.would_wait.count)" "$would" "requests that would have waited"
ctl stats "$MNT" | grep -q "In dry runs, $would requests would have waited" || fail "stats do not tell dry runs apart"
unmount_ratefs

# A request that waits for two limits waited for both of them, each for its time.
mount_ratefs -o iops=20,window=1ms -o global.read_bps=1M
ctl trace --json "$MNT" >"$TMP/trace" &
trace=$!
within 5s test -e "$TMP/trace"
iogen --op read --size 128K --count 12 --path "$MNT/file" >/dev/null
# shellcheck disable=SC2016 # variables of jq
both='(.waits | map(select(.limit.name == "iops"))[0].sum_ns) as $iops | (.waits | map(select(.limit.scope == "global"))[0].sum_ns) as $bps'
equal "$(stats "$both | \$iops > 100000000 and \$bps > 100000000")" true "both limits"
equal "$(stats "$both | (\$iops + \$bps - ([.classes[].wait.sum_ns] | add)) | fabs < 2000000")" true "the sum of both is the whole wait"
equal "$(stats '.keys_by_wait[0].limits | length')" 2 "limits of the caller"
two_in_trace() { jq -s -e 'any(.event == "admitted" and (.limits | length) == 2 and ([.limits[].wait_ns] | add) == .wait_ns)' "$TMP/trace" >/dev/null; }
within 5s two_in_trace || fail "no event of a request that waited for two limits"
kill $trace
wait $trace
unmount_ratefs

# Handles whose data bypasses the daemon are counted, and so are those of which only memory mappings
# do.
mount_ratefs
exec 5<>"$MNT/file"
if [ "$(stats .passthrough_handles)" = 1 ]; then
	equal "$(stats .passthrough_maps)" 0 "handles of an unlimited mount"
	equal "$(stats .bypassing_handles)" 0 "handles that bypass limits, where there are none"
	ok ctl set "$MNT" bps=1M >/dev/null
	exec 6<"$MNT/file"
	exec 7<>"$MNT/file"
	exec 8>>"$MNT/file"
	equal "$(stats .passthrough_handles)" 1 "opened before the limit"
	equal "$(stats .passthrough_maps)" 2 "opened after it: who cannot read cannot map"
	equal "$(stats '.bypassing_handles, .bypassing_maps' | paste -sd ' ')" "1 2" "handles that bypass the limit"
	ctl stats "$MNT" | grep -q '2 handles bypass it through memory mappings' || fail "maps in stats for people"
	at_least 700ms dd of=/dev/null bs=64K count=16 status=none <&6
	exec 5>&- 6>&- 7>&- 8>&-
	all_closed() { [ "$(stats '.passthrough_handles + .passthrough_maps')" = 0 ]; }
	within 2s all_closed || fail "closed handles are still counted"
	exec 6<>"$MNT/file"
	equal "$(stats '.passthrough_handles + .passthrough_maps')" 0 "opened when nobody is in passthrough"
	exec 6>&-
fi
exec 5>&-
unmount_ratefs
