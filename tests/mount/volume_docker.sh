#!/bin/bash
# SPDX-License-Identifier: MIT
# ratefs-volume with a real Docker: create, run, inspect, limits inside of containers, restarts and crashes.
. "${srcdir:-.}/tests/mount/lib.sh" || exit 1
. "${srcdir:-.}/tests/mount/volume_lib.sh" || exit 1
. "${srcdir:-.}/tests/mount/docker_lib.sh" || exit 1

start_plugin --collect-after=3
says "iops: .x.: " docker volume create -d ratefs -o iops=x bad
says 'is set by the volume driver' docker volume create -d ratefs -o mountpoint=/etc bad
says 'not allowed: no source is' docker volume create -d ratefs -o source=/etc bad
ok docker volume create -d ratefs -o write_bps=2M -o iops=5k -o fair=cgroup -o cache=strict vol >/dev/null

run -d --name first -v vol:/data box sleep 1000 >/dev/null || fail "docker run"

# --- rates: two containers on one volume share its limit.  8 MiB at 2 MiB/s, of which 100 ms are available immediately.
fill() { run --rm -v vol:/data box dd if=/dev/zero of=/data/"$1" bs=64k count=64 2>/dev/null; }
both() {
	fill a & local a=$!
	fill b || return 1
	wait $a
}
between 3700ms 60s both
equal "$(stat -c %s "$STATE"/data/vol-*/[ab] | xargs)" "4194304 4194304"

# fair=cgroup tells the two apart.
equal "$(ctl stats vol --json | jq -r '[.keys_by_wait[] | select(.kind == "cgroup") | .name] | unique | .[]' |
	grep -Ec "$PARENT.*/[0-9a-f]{64}$")" 2 "the containers are not told apart: $(ctl stats vol --json | jq -c .keys_by_wait)"
ctl show vol | grep -Eq '^# cgroups here: v[12]' || fail "show does not say which cgroups: $(ctl show vol)"

# --- space: ENOSPC inside of a container at the block where the volume is full, and not before
space() {
	local data full
	ok docker volume create -d ratefs -o size=8M -o inodes=20 full >/dev/null
	run --rm -v full:/data box dd if=/dev/zero of=/data/f bs=64k 2>"$TMP/out" && fail "no end of 8 MiB"
	grep -q 'No space left on device' "$TMP/out" || fail "not ENOSPC: $(cat "$TMP/out")"
	data=$(echo "$STATE"/data/full-*)
	full=$(allocated "$data")
	equal "$full" 8388608 "full with"
	run --rm -v full:/data box df /data | grep -Eq ' 8192 .* 100% ' || fail "df: $(run --rm -v full:/data box df /data)"
	# shellcheck disable=SC2016 # for sh
	run --rm -v full:/data box sh -c 'echo >/data/f; for i in 1 2 3 4 5 6 7 8 9 0; do touch /data/$i /data/a$i || exit 1; done' \
		2>/dev/null && fail "more than 20 inodes"
	[ "$(find "$data" | wc -l)" -le 20 ] || fail "$(find "$data" | wc -l) inodes"
	ok docker volume rm full >/dev/null
}
if knows size; then
	space
else
	say "this ratefs has no size=: not tested"
fi

# --- while a container runs: inspect, list, set
id=$(docker inspect -f '{{.Id}}' first)
status=$(docker volume inspect vol | jq '.[0].Status')
equal "$(jq -r '.containers[0]' <<<"$status")" "$id" "inspect does not name the container: $status"
equal "$(jq -r '.limits.write_bps.rate' <<<"$status")" 2097152
equal "$(docker volume inspect -f '{{.Mountpoint}}' vol)" "$STATE/mnt/vol"
ctl list | grep -q "${id:0:12}" || fail "ratefsctl list does not name the container: $(ctl list)"
ok ctl set vol write_bps=200M >/dev/null
before 20s docker exec first dd if=/dev/zero of=/data/fast bs=64k count=256 2>/dev/null
# A class for one container, by its cgroup: 2 MiB at 1 MiB/s, of which 100 ms are available
# immediately.
ok ctl class add vol noisy "match=cgroup:/$PARENT/$id, cgroup:/$PARENT/$id/**" write_bps=1M >/dev/null
between 1800ms 40s docker exec first dd if=/dev/zero of=/data/noisy bs=64k count=32 2>/dev/null
ok ctl class remove vol/noisy >/dev/null
refused docker volume rm vol
refused docker exec first ls "$STATE"	# the source is out of reach
daemon=$(daemon_pid)

# --- a killed writer is gone immediately, although it would have to wait long for its limit: within 50 ms, beside a
# container that is killed while it sleeps
ends_in() { # NAME
	local t0
	t0=$(now_ms)
	ok docker kill "$1" >/dev/null
	within 10s sh -c "! $DOCKER ps -q --no-trunc --filter name=$1 | grep -q ." || fail "the container does not end"
	MS=$(($(now_ms) - t0))
}
ok ctl set vol write_bps=64K >/dev/null
run -d --name sleeper -v vol:/data box sleep 1000 >/dev/null
run -d --name slow -v vol:/data box dd if=/dev/zero of=/data/slow bs=1M count=1000 >/dev/null
nap 1s
ends_in sleeper
sleeper=$MS
ends_in slow
say "docker kill of a throttled writer took $MS ms, of one that sleeps $sleeper ms"
[ "$MS" -le $((50 + 2 * sleeper)) ] || fail "a throttled writer was gone after $MS ms, one that sleeps after $sleeper ms"
ok ctl set vol write_bps=200M >/dev/null

# --- the plugin is killed: containers continue; the next call finds everything
kill_plugin
ok docker exec first touch /data/after-plugin
start_plugin --collect-after=3
equal "$(docker volume ls -q --filter driver=ratefs | xargs)" vol
equal "$(docker volume inspect vol | jq -r '.[0].Status.containers[0]')" "$id"

# --- the engine is restarted: its containers end, volumes and data stay
kill "$ENGINE"
within 60s gone "$ENGINE" || fail "dockerd does not end"
start_engine || fail "dockerd does not start again"
equal "$(docker volume ls -q --filter driver=ratefs | xargs)" vol
docker start first >/dev/null || fail "the container does not start again"
ok docker exec first stat /data/after-plugin >/dev/null
equal "$(daemon_pid)" "$daemon" "the daemon has changed"

# --- the daemon is killed: a container that starts has a working volume again
kill -9 "$daemon"
ok docker restart -t 0 first >/dev/null
ok docker exec first touch /data/after-daemon

# --- the engine is killed, and its containers with it: their references are collected
init=$(docker inspect -f '{{.State.Pid}}' first)
shim=$(awk '$1 == "PPid:" { print $2 }' "/proc/$init/status")
# shellcheck disable=SC2046 # pids are words
kill -9 "$ENGINE" $(pgrep -P "$ENGINE") "$shim" "$init"
wait "$ENGINE" 2>/dev/null
vol_is_gone() { ! mountpoint -q "$STATE/mnt/vol"; }
within 60s vol_is_gone || fail "references of a dead engine are kept: $(cat "$STATE/volumes.json")"
rm -f "$TMP/docker.pid"
start_engine || fail "dockerd does not start after a crash"
docker rm -f first slow sleeper >/dev/null 2>&1

# --- remove
ok docker volume rm vol >/dev/null
equal "$(docker volume ls -q --filter driver=ratefs)" ""
[ -z "$(ls "$STATE/data")" ] || fail "data of a removed volume is left"
kill_plugin TERM
stop_daemon
