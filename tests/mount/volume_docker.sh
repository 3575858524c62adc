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

# The recipe of README, as it is written there, with an image of this test.
recipe=$(sed -nE '/^systemctl enable --now ratefs-volume.socket/,/^```/ { s/[ \t]+#.*//; /^(docker|ratefsctl) /p }' "$srcdir/README.md")
[ "$(wc -l <<<"$recipe")" -ge 5 ] || fail "README has no recipe for Docker: $recipe"
while read -ra words; do
	case ${words[*]} in
	*IMAGE) run -d --name recipe "${words[@]:2:2}" box sleep 1000 >/dev/null || fail "docker run of README" ;;
	*) ok "${words[@]}" >"$TMP/out" ;;
	esac
done <<<"$recipe"
equal "$(jq -r '.[0].Status.limits.write_bps.rate' "$TMP/out")" 5242880 "write_bps of README's volume"
ok docker rm -f recipe >/dev/null
ok docker volume rm box >/dev/null

ok docker volume create -d ratefs -o write_bps=2M -o iops=5k -o fair=cgroup -o cache=strict vol >/dev/null

run -d --name first -v vol:/data box sleep 1000 >/dev/null || fail "docker run"

two_share_the_rate vol

# fair=cgroup tells the two apart.
equal "$(ctl stats vol --json | jq -r '[.keys_by_wait[] | select(.kind == "cgroup") | .name] | unique | .[]' |
	grep -Ec "$PARENT.*/[0-9a-f]{64}$")" 2 "the containers are not told apart: $(ctl stats vol --json | jq -c .keys_by_wait)"
ctl show vol | grep -Eq '^# cgroups here: v[12]' || fail "show does not say which cgroups: $(ctl show vol)"

full_at_the_block
open_files_are_bounded

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
source_is_out_of_reach vol
daemon=$(daemon_pid)

killed_writer_is_gone vol

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

kill -9 "$daemon"
ok docker restart -t 0 first >/dev/null # Docker asks for the volume again, so this works immediately
daemon_dies first
plugin_dies_in_a_run vol --collect-after=3

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
docker rm -f first >/dev/null 2>&1

# --- remove
ok docker volume rm vol >/dev/null
equal "$(docker volume ls -q --filter driver=ratefs)" ""
[ -z "$(ls "$STATE/data")" ] || fail "data of a removed volume is left"
kill_plugin TERM
stop_daemon
