# SPDX-License-Identifier: MIT
# shellcheck shell=bash
# What the tests of `ratefs run` share.  To be sourced after lib.sh.

DIR=$SRC
cd "$DIR" || fail "no $DIR"
# The container's /run/user may be missing; users have their control sockets here.
chmod 755 "$XDG_RUNTIME_DIR"
export RATEFS_RUNTIME_DIR=$XDG_RUNTIME_DIR

run() { "$RATEFS" run "$@"; }

# ends CODE command
ends() {
	local want=$1 rc=0
	shift
	"$@" || rc=$?
	equal "$rc" "$want" "exit code of '$*'"
}

# No process of ratefs and no mount is left.  The test has a pid namespace of its own.
ratefs_left() { pgrep -x ratefs >/dev/null; }
ratefs_mounts() { grep -c ' fuse.ratefs ' /proc/self/mounts; }
MOUNTS_BEFORE=$(ratefs_mounts) # of others on this machine
mounts_left() { [ "$(ratefs_mounts)" -gt "$MOUNTS_BEFORE" ]; }
nothing_left() {
	! mounts_left || fail "a mount is visible outside"
	within "${1:-5s}" no_ratefs || { ps ax -o pid,ppid,stat,args >&2; fail "a process is left"; }
}
no_ratefs() { ! ratefs_left; }
# An unprivileged user with /dev/fuse and user namespaces.
users_can() {
	open_fuse_to_users || return 1
	as_user alice unshare --user true 2>/dev/null
}
