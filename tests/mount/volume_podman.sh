#!/bin/bash
# SPDX-License-Identifier: MIT
# ratefs-volume with a real Podman.
. "${srcdir:-.}/tests/mount/lib.sh" || exit 1
. "${srcdir:-.}/tests/mount/volume_lib.sh" || exit 1
. "${srcdir:-.}/tests/mount/container_lib.sh" || exit 1
requires podman python3

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
graphroot = "/run/libpod/storage"
runroot = "/run/libpod/run"
END
mkdir -p /run/libpod /run/containers
# Short paths: where they are long, every `podman run` takes 20 s.
mount -t tmpfs tmpfs /run/libpod || skip "no private /run/libpod"
PARENT=ratefs-test-$$-$RANDOM
# Podman waits up to 20 s for a process that has ended, until its parent has seen that.  It is an orphan, so its parent
# would be this shell, which is often busy otherwise.
cat >"$TMP/reaper" <<'END'
import ctypes, os, subprocess, sys
PR_SET_CHILD_SUBREAPER = 36
ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
child = subprocess.Popen(sys.argv[1:])
pid = 0
while pid != child.pid:
    pid, status = os.wait()
os._exit(os.waitstatus_to_exitcode(status) & 255)
END
podman() { python3 "$TMP/reaper" podman "$@"; }
run() { podman run --network=none --cgroup-parent="/$PARENT" "$@"; }
engine() { podman "$@"; }
create_volume() { podman volume create --driver ratefs "$@" >/dev/null; }

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

start_plugin --collect-after=3
says "iops: 'x': " podman volume create --driver ratefs -o iops=x bad
ok create_volume -o write_bps=2M -o fair=cgroup -o cache=strict vol

run -d --name first -v vol:/data box sleep 1000 >/dev/null || fail "podman run"
two_share_the_rate vol
full_at_the_block
open_files_are_bounded

# --- while a container runs: who has it, set
id=$(podman inspect -f '{{.Id}}' first)
equal "$(asks Get '{"Name":"vol"}' '.Volume.Status.containers[0]')" "$id" "the container is not seen"
ctl list | grep -q "${id:0:12}" || fail "ratefsctl list does not name the container: $(ctl list)"
ok podman volume inspect vol >/dev/null
refused podman volume rm vol
ok ctl set vol write_bps=200M >/dev/null
before 20s podman exec first dd if=/dev/zero of=/data/fast bs=64k count=256 2>/dev/null
source_is_out_of_reach vol
killed_writer_is_gone vol

# --- the plugin is killed: containers continue; the next call finds everything
kill_plugin
ok podman exec first touch /data/after-plugin
start_plugin --collect-after=3
equal "$(asks Get '{"Name":"vol"}' '.Volume.Status.containers[0]')" "$id"

daemon_dies first
plugin_dies_in_a_run vol --collect-after=3

# --- a container that dies without Podman: Podman still counts it, so the volume must stay for the next one
init=$(podman inspect -f '{{.State.Pid}}' first)
conmon=$(awk '$1 == "PPid:" { print $2 }' "/proc/$init/status")
kill -9 "$conmon" "$init"
within 10s gone "$init" || fail "the container does not end"
nap 10s # three searches
run --rm -v vol:/data box touch /data/after-crash || fail "the volume of a container that died was collected"

# --- remove
ok podman rm -af -t 0 >/dev/null
within 20s sh -c "! mountpoint -q '$STATE/mnt/vol'" || fail "the volume stays mounted"
ok podman volume rm vol >/dev/null
equal "$(asks List '' '.Volumes | length')" 0
kill_plugin TERM
stop_daemon
