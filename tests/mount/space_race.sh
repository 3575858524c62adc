#!/bin/bash
# SPDX-License-Identifier: MIT
# Operations that are in progress when a count of the tree begins or ends are counted once.
. "${srcdir:-.}/tests/mount/space_lib.sh" || exit 1
. "${srcdir:-.}/tests/mount/hard_lib.sh" || exit 1

scan_is_over() { [ "$(space rescanning)" = false ]; }

# made_during_a_rescan CALL COMMAND...: a rescan sees what the command has just created, while the
# daemon still waits for the call to return.
made_during_a_rescan() {
	local call=$1
	fault "$call" after delay=700 count=1
	shift
	ok "$@" &
	within 5s hanging "$call" || fail "$call was not made"
	ok ctl rescan "$MNT"
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

# The same if the limit was set while it was being created, and nothing was counted when it began.
rm -rf "$TMP/state"
mount_ratefs
fault mkdirat after delay=1500 count=1
ok mkdir "$MNT/early" &
within 5s hanging mkdirat || fail "mkdirat was not made"
ok ctl set "$MNT" size=10M >/dev/null
within 10s scan_is_over || fail "the count does not end"
wait $! || fail "mkdir"
heal
counts_exactly "mkdir, while the tree was counted for the first time"
unmount_ratefs
