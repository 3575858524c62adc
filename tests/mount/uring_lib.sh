# SPDX-License-Identifier: MIT
# shellcheck shell=bash
# Verbs of the tests of transport=uring; source lib.sh first.  Only one of these tests runs at a
# time, also of those in other build trees, since each changes a parameter of the kernel, which is restored at the end.
. "${srcdir:-.}/tests/mount/hard_lib.sh" || exit 1
. "${srcdir:-.}/tests/mount/load.sh" || exit 1

# shellcheck disable=SC2154 # of lib.sh
parameter=$uring_parameter
[ -e "$parameter" ] || skip "this kernel has no FUSE over io_uring"
umount "$parameter" 2>/dev/null # that of lib.sh
[ -n "${URING_LOCKED:-}" ] || { exec 9<"$parameter"; flock 9; } # by run-mount-test
was=$(cat "$parameter")
enable() { echo "$1" 2>/dev/null >"$parameter" || skip "enable_uring cannot be changed here"; }
put_back() { echo "$was" >"$parameter"; }
enable Y
trap 'rc=$?; put_back; (exit $rc); cleanup_lower' EXIT

LOG_EXPECTED="$LOG_EXPECTED|no io_uring, requests come by /dev/fuse"
used() { ctl show "$MNT" --json | jq -r .transport; }
uring() { # options
	mount_ratefs -o "transport=uring,$1"
	equal "$(used)" uring "transport"
}
# ends TIME PID: a background job succeeds within this time.
ends() { # 10s PID
	within "$1" gone "$2" || fail "process $2 is still there after $1"
	wait "$2" || fail "process $2 ended with $?"
}
# Returns when no thread of the daemon runs.
all_stopped() { ! grep -h '^State:' "/proc/$DAEMON/task/"*/status 2>/dev/null | grep -qv stopped; }
stop_daemon() { kill -STOP "$DAEMON" && within 10s all_stopped || fail "the daemon does not stop"; }
on_cpu() { taskset -c "$@"; } # CPU command

# No process that this test has started stays in D state.
nobody_hangs() { ps -eo stat=,pid=,comm= | awk '/^D/ { print; n = 1 } END { exit n }'; }
none_hangs() { within "${1:-5s}" nobody_hangs >"$TMP/hangs" || fail "in D state: $(cat "$TMP/hangs")"; }
