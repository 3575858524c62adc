# SPDX-License-Identifier: MIT
# shellcheck shell=bash
# A Docker of the test's own, with the image "box" (busybox); skips the test if it does not run.  To
# be sourced after volume_lib.sh, so that the plugin is where this Docker looks for it.
#
#	start_engine, docker ARGUMENT..., run ARGUMENT... (docker run without a network); ENGINE its pid
#	PARENT	the cgroup of its containers

. "${srcdir:-.}/tests/mount/container_lib.sh" || exit 1
requires dockerd containerd runc
DOCKER=/usr/bin/docker
[ -x "$DOCKER" ] || DOCKER=$(command -v docker) || skip "needs the command 'docker'"

# Docker looks for plugins only in /run/docker.
mkdir -p /run/docker /run/containerd
mount -t tmpfs -o mode=755 tmpfs /run/docker || skip "no private /run/docker"
mount -t tmpfs -o mode=755 tmpfs /run/containerd || skip "no private /run/containerd"
# shellcheck disable=SC2034 # volume_lib.sh looks at it
SOCK=/run/docker/plugins/ratefs.sock
export DOCKER_HOST=unix://$TMP/docker.sock DOCKER_CONFIG=$TMP/docker-config
PARENT=ratefs-test-$$-$RANDOM

start_engine() {
	dockerd --storage-driver=vfs --iptables=false --bridge=none --data-root="$TMP/docker" \
		--exec-root="$TMP/exec" --pidfile="$TMP/docker.pid" -H "$DOCKER_HOST" --cgroup-parent="/$PARENT" \
		>>"$TMP/dockerd.log" 2>&1 &
	ENGINE=$!
	within 60s engine_answers && ! gone "$ENGINE"
}
engine_answers() { $DOCKER version >/dev/null 2>&1 || gone "$ENGINE"; }
docker() { "$DOCKER" "$@"; }
engine() { docker "$@"; }
create_volume() { docker volume create -d ratefs "$@" >/dev/null; }
run() { docker run --network=none "$@"; }

make_image
start_engine || skip "dockerd does not run here: $(tail -n 1 "$TMP/dockerd.log")"
tar -C "$TMP/image" -c . | docker import - box >/dev/null || fail "docker import"
run --rm box true 2>"$TMP/out" || skip "containers do not run here: $(head -n 1 "$TMP/out")"

# Whatever happens, no cgroups of containers stay behind.
end_engine() {
	docker ps -q | xargs -r "$DOCKER" kill >/dev/null 2>&1
	kill "$ENGINE" 2>/dev/null
	within 20s gone "$ENGINE" || kill -9 "$ENGINE"
	find /sys/fs/cgroup -depth -type d -path "*/$PARENT*" -exec rmdir {} + 2>/dev/null
}
end_all() {
	local rc=$?
	end_engine
	(exit $rc)
	cleanup
}
trap end_all EXIT
