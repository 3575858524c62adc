#!/bin/bash
# SPDX-License-Identifier: MIT
# Many programs change one tree concurrently: nothing hangs, nothing is logged, the mount shows exactly
# what is on the backing filesystem, and the daemon frees its memory and closes its files
# afterwards.
. "${srcdir:-.}/tests/mount/lib.sh" || exit 1
requires helper:differ

blow() { RATEFS_SEED=$((${RATEFS_SEED:-$RANDOM} + I)) differ "$1" >/dev/null; }
storm() {
	local mode fds
	for mode in $(modes); do
		mkdir "$SRC/tree"
		mount_ratefs -o "cache=$mode"
		fds=$(daemon_fds)
		before 60s in_parallel 6 blow "$MNT/tree"
		within 5s same_names || fail "names differ"
		echo 2 >/proc/sys/vm/drop_caches
		same_tree "$MNT/tree" "$SRC/tree"
		echo 2 >/proc/sys/vm/drop_caches
		within 3s few_fds "$fds" || fail "$(daemon_fds) files open, $fds at start"
		before 20s rm -rf "$MNT/tree"
		unmount_ratefs
		[ ! -e "$SRC/tree" ] || fail "rm -r left something"
	done
}
same_names() { [ "$(cd "$MNT" && find . | sort | sha256sum)" = "$(cd "$SRC" && find . | sort | sha256sum)" ]; }
few_fds() { [ "$(daemon_fds)" -le $(($1 + 40)) ] || { echo 2 >/proc/sys/vm/drop_caches; false; }; }
export RATEFS_ROUNDS=${RATEFS_ROUNDS:-2000}
on_each_backing storm
