#!/bin/bash
# SPDX-License-Identifier: MIT
# ratefs-volume with a real Podman.
. "${srcdir:-.}/tests/mount/lib.sh" || exit 1
. "${srcdir:-.}/tests/mount/volume_lib.sh" || exit 1
. "${srcdir:-.}/tests/mount/container_lib.sh" || exit 1
requires podman

export CONTAINERS_CONF=$TMP/containers.conf CONTAINERS_STORAGE_CONF=$TMP/storage.conf
# crun refuses hybrid cgroups
RUNTIME=$(command -v runc || command -v crun) || skip "needs runc or crun"
cat >"$CONTAINERS_CONF" <<END
[containers]
log_driver = "k8s-file"
[engine]
cgroup_manager = "cgroupfs"
events_logger = "file"
runtime = "${RUNTIME##*/}"
[engine.volume_plugins]
ratefs = "$SOCK"
END
cat >"$CONTAINERS_STORAGE_CONF" <<END
[storage]
driver = "vfs"
graphroot = "$TMP/podman"
runroot = "$TMP/podman-run"
END
mkdir -p /run/libpod /run/containers
mount -t tmpfs tmpfs /run/libpod
PARENT=ratefs-test-$$-$RANDOM
run() { podman run --network=none --cgroup-parent="/$PARENT" "$@"; }

make_image
tar -C "$TMP/image" -c . | podman import - box >/dev/null 2>"$TMP/out" || skip "podman does not work here: $(tail -n 1 "$TMP/out")"
run --rm box true 2>"$TMP/out" || skip "containers do not run here: $(tail -n 1 "$TMP/out")"
end_engine() {
	podman rm -af >/dev/null 2>&1
	find /sys/fs/cgroup -depth -type d -path "*/$PARENT*" -exec rmdir {} + 2>/dev/null
}
end_all() {
	local rc=$?
	end_engine
	(exit $rc)
	cleanup
}
trap end_all EXIT

start_plugin
podman volume create --driver ratefs -o iops=x bad >"$TMP/out" 2>&1 && fail "a wrong option is accepted"
grep -q "iops: 'x': " "$TMP/out" || fail "the message is lost: $(cat "$TMP/out")"
ok podman volume create --driver ratefs -o write_bps=2M -o cache=strict vol >/dev/null

# 4 MiB at 2 MiB/s, of which 100 ms are available immediately
between 1800ms 60s run --rm -v vol:/data box dd if=/dev/zero of=/data/f bs=64k count=64 2>/dev/null
equal "$(stat -c %s "$STATE"/data/vol-*/f)" 4194304
run -d --name first -v vol:/data box sleep 1000 >/dev/null || fail "podman run"
id=$(podman inspect -f '{{.Id}}' first)
equal "$(asks Get '{"Name":"vol"}' '.Volume.Status.containers[0]')" "$id" "the container is not seen"
ok podman volume inspect vol >/dev/null
refused podman volume rm vol
kill_plugin
ok podman exec first touch /data/after-plugin
start_plugin
ok podman rm -f -t 0 first >/dev/null
within 10s sh -c "! mountpoint -q '$STATE/mnt/vol'" || fail "the volume stays mounted"
ok podman volume rm vol >/dev/null
equal "$(asks List '' '.Volumes | length')" 0
kill_plugin TERM
stop_daemon
