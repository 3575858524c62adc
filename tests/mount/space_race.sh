#!/bin/bash
# SPDX-License-Identifier: MIT
# Operations that are in progress when a count of the tree begins or ends are counted once.
. "${srcdir:-.}/tests/mount/space_lib.sh" || exit 1
. "${srcdir:-.}/tests/mount/hard_lib.sh" || exit 1

counted() { [ "$(space scans)" -gt 0 ]; }
scan_is_over() { [ "$(space rescanning)" = false ]; }

# made_during_a_rescan CALL COMMAND...: a rescan that has begun before sees what the command has just
# created, while the daemon still waits for the call to return.
made_during_a_rescan() {
	local call=$1
	shift
	fault openat hang count=1
	ok ctl rescan "$MNT"
	within 5s hanging openat || fail "the rescan does not begin"
	fault "$call" after delay=700 count=1
	ok "$@" &
	within 5s hanging "$call" || fail "$call was not made"
	faultctl "$FAULTS" clear openat
	within 10s scan_is_over || fail "the rescan does not end"
	wait $! || fail "$*"
	heal
	counts_exactly "$*, while a rescan ended"
}

backing tmpfs
faults_ready
mount_ratefs -o size=10M
made_during_a_rescan mkdirat mkdir "$MNT/directory"
made_during_a_rescan symlinkat ln -s target "$MNT/link"
made_during_a_rescan linkat ln "$MNT/link" "$MNT/second"
unmount_ratefs

# The limit is set while something is being created: nothing was counted when that began.
rm -rf "$TMP/state"
mount_ratefs
ls "$MNT" >/dev/null
fault mkdirat delay=1500 count=1
ok mkdir "$MNT/early" &
within 5s hanging mkdirat || fail "mkdirat is not delayed"
ok ctl set "$MNT" size=10M >/dev/null
within 10s counted || fail "the count does not end"
wait $! || fail "mkdir"
heal
is_exact && fail "it was not created after the count"
within 60s is_exact || fail "counted $(space inodes_used) inodes; there are $(names_held)"
unmount_ratefs
