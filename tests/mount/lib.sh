# SPDX-License-Identifier: MIT
# shellcheck shell=bash
# The verbs of the mount tests.  A test is a bash script that sources this file first:
#
#	. "${srcdir:-.}/tests/mount/lib.sh"
#	mount_ratefs -o write_bps=1M,fair=uid
#	write_forever as_user noisy &
#	before 3s as_user quiet cp "$TMP/small" "$MNT/"
#	unmount_ratefs
#
# Names a test may use
#	TMP	scratch directory of this test, mode 755, removed at the end
#	BACK	a filesystem of its own if `backing` was called, else a directory in TMP
#	SRC	the source ($BACK/src); MNT the mountpoint (a directory in TMP)
#	PLAIN	a directory beside SRC that is not mounted, to compare with
#	LOG	the daemon's log; DAEMON its pid
# Environment
#	srcdir, builddir	as automake sets them
#	RATEFS, RATEFSCTL	other binaries to test (default: those of builddir)
#	RATEFS_TEST_SHARED=1	stay in the caller's namespaces, to look at a mount from outside
#	RATEFS_TEST_KEEP=1	leave the scratch directory of a failed test
#	RATEFS_TEST_BACKINGS	instead of "tmpfs ext4"; RATEFS_TEST_FULL=1: every mode on each of them
#	RATEFS_TEST_FILES	how many files many_files.sh makes; RATEFS_TEST_DIFF: lines of a difference shown
#	RATEFS_TEST_TRANSPORT	dev (the default) or uring: the transport of all mounts.  mount_ratefs sets it; elsewhere,
#				transport=auto chooses it, since with dev FUSE over io_uring looks disabled in this namespace
#	RATEFS_TEST_FLOOD	how many threads gate_flood.sh starts
#	RATEFS_SEED, RATEFS_ROUNDS	the sequence of differ.sh and storm.sh, and its length
#
# Each test runs in mount and pid namespaces of its own: whatever happens to it, its mounts and its
# daemons end with it, and no others are touched.  Exit 77 means skipped, with a reason.

set -u -o pipefail
umask 022
export LC_ALL=C
unset MAKEFLAGS MFLAGS MAKELEVEL

srcdir=$(cd "${srcdir:-.}" && pwd)
builddir=$(cd "${builddir:-.}" && pwd)
export srcdir builddir
HELPERS=$builddir/tests/mount/helpers

say() { printf '%s: %s\n' "${0##*/}" "$*" >&2; }
skip() { say "skipped: $*"; exit 77; }
fail() { say "FAILED: $*"; show_log; exit 1; }

# Skips the test unless all of these are available: commands, "root", "fuse", "user NAME".
#	requires fio root
requires() {
	local what
	for what in "$@"; do
		case $what in
		root) [ "$(id -u)" = 0 ] || skip "needs root" ;;
		fuse) [ -c /dev/fuse ] || skip "needs /dev/fuse" ;;
		helper:*) [ -x "$HELPERS/${what#helper:}" ] || skip "needs ${what#helper:}: run make" ;;
		*) command -v "$what" >/dev/null || skip "needs the command '$what'" ;;
		esac
	done
}

requires root fuse
if [ -z "${RATEFS_TEST_INSIDE:-}${RATEFS_TEST_SHARED:-}" ]; then
	requires unshare
	unshare --mount --pid --fork true 2>/dev/null || skip "needs namespaces (unshare)"
	RATEFS_TEST_INSIDE=1 exec unshare --mount --pid --fork --kill-child --mount-proc \
		--propagation private bash "$0" "$@"
fi

TMP=$(mktemp -d "${TMPDIR:-/tmp}/ratefs-test.XXXXXX") || exit 1
chmod 755 "$TMP"
BACK=$TMP/back SRC=$TMP/back/src PLAIN=$TMP/back/plain MNT=$TMP/mnt LOG=$TMP/log
BIN=$TMP/bin		# copies that other users can reach, wherever builddir is
DAEMON=
DAEMON_WRAPPER=()	# e.g. (prlimit --nofile=2000:2000)
# Lines that the daemon may log at startup, and about changes by `set` and `reload`; any other line
# in the log is a failure.  "unmounted" is logged for a mount that was told to end before the daemon
# had logged that it serves it.
LOG_EXPECTED=${LOG_EXPECTED:-'^ratefs: (serving|mount .*: unmounted$|.* models a device: |limits?[ :]|.* limits?: |.*: set |.*, was )'}
mkdir -p "$SRC" "$PLAIN" "$MNT" "$BIN"

cleanup() {
	local rc=$? m
	trap - EXIT INT TERM
	cd /
	if [ -n "$DAEMON" ] && kill -0 "$DAEMON" 2>/dev/null; then
		kill "$DAEMON" 2>/dev/null
		within 3s gone "$DAEMON" || kill -9 "$DAEMON" 2>/dev/null
	fi
	awk -v t="$TMP/" 'index($2, t) == 1 { print $2 }' /proc/self/mounts | tac | while read -r m; do
		umount -l "$(printf '%b' "$m")"
	done
	if [ $rc != 0 ] && [ -n "${RATEFS_TEST_KEEP:-}" ]; then
		say "left $TMP for you to look at"
	else
		rm -rf --one-file-system "$TMP"
	fi
	exit $rc
}
trap cleanup EXIT
trap 'exit 1' INT TERM

# --- binaries --------------------------------------------------------------------------------

install_bin() {	# path -> a copy in BIN, and its name
	[ -x "$1" ] || skip "needs $1: run make"
	[ -x "$BIN/${1##*/}" ] || install -m 755 "$1" "$BIN/"
}
RATEFS=${RATEFS:-$builddir/ratefs}
RATEFSCTL=${RATEFSCTL:-$builddir/ratefsctl}
install_bin "$RATEFS"
RATEFS=$BIN/${RATEFS##*/}
if [ -x "$RATEFSCTL" ]; then
	install_bin "$RATEFSCTL"
	RATEFSCTL=$BIN/${RATEFSCTL##*/}
fi
[ ! -x "$builddir/ratefs-pool" ] || install_bin "$builddir/ratefs-pool"	# which ratefs looks for beside itself
for helper in "$HELPERS"/*; do
	[ ! -f "$helper" ] || [ ! -x "$helper" ] || install_bin "$helper"
done
PATH=$BIN:$PATH
# Each test has control sockets of its own: root's are in /run/ratefs, which is private to this
# namespace.
XDG_RUNTIME_DIR=$TMP/run
# Device profiles of this tree, not those of an installed ratefs.
RATEFS_PROFILES=$srcdir/conf/profiles
# Saved totals of trees with a size limit: none from other tests.
RATEFS_STATE_DIR=$TMP/state
export PATH XDG_RUNTIME_DIR RATEFS_PROFILES RATEFS_STATE_DIR
mkdir -m 700 "$XDG_RUNTIME_DIR"
if [ -n "${RATEFS_TEST_INSIDE:-}" ]; then
	mkdir -p /run/ratefs
	mount -t tmpfs -o mode=755 tmpfs /run/ratefs || fail "no private /run/ratefs"
fi
uring_parameter=/sys/module/fuse/parameters/enable_uring
if [ -n "${RATEFS_TEST_INSIDE:-}" ] && [ "${RATEFS_TEST_TRANSPORT:-dev}" = dev ] && [ -e $uring_parameter ]; then
	echo N >"$TMP/enable_uring"
	mount --bind "$TMP/enable_uring" $uring_parameter || fail "cannot hide $uring_parameter"
fi

# In `ctl … | grep -q`, grep stops reading at its match; this is not a failure of ratefsctl.
ctl() {
	local rc=0
	"$RATEFSCTL" "$@" || rc=$?
	[ $rc = 141 ] || return $rc
}

# --- backing filesystems ---------------------------------------------------------------------

# backing tmpfs|ext4 [size]: SRC and PLAIN on a filesystem of their own.
backing() {
	local size=${2:-1G}
	case $1 in
	tmpfs)
		mount -t tmpfs -o "size=$size,mode=755" tmpfs "$BACK" || skip "cannot mount a tmpfs"
		;;
	ext4)
		requires mkfs.ext4
		truncate -s "$size" "$TMP/ext4.img"
		# With project IDs, if the kernel supports them.
		mount_ext4 -O project,quota || mount_ext4 ||
			skip "cannot mount a loop image: no free /dev/loop* or no right to use it"
		;;
	dir) ;;
	*) fail "backing: '$1' is neither tmpfs nor ext4" ;;
	esac
	mkdir -p "$SRC" "$PLAIN"
}

mount_ext4() {
	mkfs.ext4 -q -F -E lazy_itable_init=1 -m 0 "$@" "$TMP/ext4.img" || fail "mkfs.ext4"
	mount -t ext4 -o loop "$TMP/ext4.img" "$BACK" 2>/dev/null
}
unbacking() {
	if mountpoint -q "$BACK"; then
		umount "$BACK" || fail "the backing filesystem is still in use"
	fi
	rm -f "$TMP/ext4.img"
}

# on_each_backing FUNCTION [args]: calls it once on tmpfs and once on ext4, each new and empty.
on_each_backing() {
	local kind done_one=
	for kind in ${RATEFS_TEST_BACKINGS:-tmpfs ext4}; do
		[ "$kind" != ext4 ] || loop_works || { say "no ext4: loop devices don't work here"; continue; }
		done_one=1
		backing "$kind"
		BACKING=$kind
		"$@"
		unbacking
	done
	[ -n "$done_one" ] || skip "no backing filesystem could be made"
}
# Modes on this backing: all of them with RATEFS_TEST_FULL=1.
modes() {
	case ${RATEFS_TEST_FULL:+all}$BACKING in
	tmpfs) echo auto strict ;;
	ext4) echo page ;;
	all*) echo auto strict page ;;
	esac
}
loop_works() { losetup -f >/dev/null 2>&1; }

# --- mounting --------------------------------------------------------------------------------

# mount_ratefs [-o options] [more arguments]: mounts SRC at MNT, by a daemon that stays in the
# foreground as a background job; its log is in LOG.  Returns when the mount answers.  If run by
# root, others may use it (allow_other).
mount_ratefs() {
	try_mount_ratefs "$@" || fail "the mount did not come up"
}
try_mount_ratefs() {
	: >"$LOG"
	"${DAEMON_WRAPPER[@]}" "$RATEFS" -f "$SRC" "$MNT" -o "allow_other,transport=${RATEFS_TEST_TRANSPORT:-dev}" \
		"$@" >>"$LOG" 2>&1 &
	DAEMON=$!
	within 10s answers_or_gone || return 1
	kill -0 "$DAEMON" 2>/dev/null && answers
}
# Asks the daemon, since the kernel caches the attributes of a dead mount for a second.  The
# directory below a dead mount that was just removed answers, too, but it is on the device of TMP.
answers() {
	local device
	findmnt -nM "$MNT" -o FSTYPE 2>/dev/null | grep -q '^fuse' || return
	device=$(stat --cached=never -c %d "$MNT/." 2>/dev/null) && [ "$device" != "$(stat -c %d "$TMP")" ]
}
answers_or_gone() { answers || gone "$DAEMON"; }
gone() { ! kill -0 "$1" 2>/dev/null; }

# Unmounts; the daemon must then end by itself with exit status 0 and no unexpected line in its log.
unmount_ratefs() {
	within 2s umounted || { busy; fail "umount"; }
	daemon_ended_well
}
umounted() { umount "$MNT" 2>/dev/null; }	# may be busy for the moment that a killed client takes
# The same, by signal.
stop_ratefs() {
	kill -"${1:-TERM}" "$DAEMON" || fail "no daemon to signal"
	daemon_ended_well
	! mountpoint -q "$MNT" || fail "the mount outlived its daemon"
}
# kill -9 of the only daemon.  A process that the daemon has started has its name for a moment.
kill_the_daemon() {
	within 5s one_daemon || fail "there are $(pgrep -xc "${RATEFS##*/}") processes called ${RATEFS##*/}"
	pkill -9 -x "${RATEFS##*/}"
}
one_daemon() { [ "$(pgrep -xc "${RATEFS##*/}")" = 1 ]; }
daemon_ended_well() {
	local rc
	within 10s gone "$DAEMON" || fail "the daemon is still there 10 s after the unmount"
	wait "$DAEMON"
	rc=$?
	DAEMON=
	[ $rc = 0 ] || fail "the daemon ended with exit code $rc"
	log_silent
}
log_silent() {
	! sanitizer_report || fail "a sanitizer complained"
	! grep -Evq "$LOG_EXPECTED" "$LOG" || fail "the daemon's log is not silent"
}
# Is the daemon built with a sanitizer?  Then it is slower, uses more memory, which it keeps for a while when it is freed,
# and runs without its sandbox.
sanitized() { grep -qa '__[at]san_init' "$RATEFS"; }
sanitizer_report() {
	grep -Eq 'Sanitizer|runtime error:|Assertion .* failed' "$LOG"
}
show_log() {
	[ ! -s "${LOG:-/nonexistent}" ] || sed 's/^/  daemon: /' "$LOG" | head -60 >&2
}
busy() {
	local p
	for p in /proc/[0-9]*; do
		if find "$p/cwd" "$p/fd" -printf '%l\n' 2>/dev/null | grep -qF "$MNT"; then
			say "in use by ${p#/proc/}: $(tr '\0' ' ' <"$p/cmdline")"
		fi
	done
}

# --- users -----------------------------------------------------------------------------------

uid_of() {
	case $1 in
	alice | noisy) echo 1001 ;;
	bob | quiet) echo 1002 ;;
	root) echo 0 ;;
	*[!0-9]*) fail "no user '$1' in these tests" ;;
	*) echo "$1" ;;
	esac
}
# as_user NAME command: runs it with the user's own group, and with group 2000, which all have.
as_user() {
	local uid
	uid=$(uid_of "$1") || exit 1
	shift
	setpriv --reuid "$uid" --regid "$uid" --groups "$uid,2000" --inh-caps=-all -- "$@"
}

# In the namespace of the test, /dev/fuse is open to everybody, as on most systems.
open_fuse_to_users() {
	[ "$(stat -c %a /dev/fuse)" = 666 ] ||
		{ mknod "$TMP/fuse" c 10 229 && chmod 666 "$TMP/fuse" && mount --bind "$TMP/fuse" /dev/fuse; }
}
# alice, who is user 1001, can mount by fusermount3, which wants to know her name.
users_can_mount() {
	open_fuse_to_users || skip "cannot open /dev/fuse to users"
	if ! getent passwd 1001 >/dev/null; then
		cp /etc/passwd "$TMP/passwd"
		echo 'alice:x:1001:1001::/:/bin/sh' >>"$TMP/passwd"
		mount --bind "$TMP/passwd" /etc/passwd || skip "cannot name a user"
	fi
}

# --- time ------------------------------------------------------------------------------------

now_ms() { local t=${EPOCHREALTIME/./}; echo $((t / 1000)); }
ms_of() {	# 3s, 250ms, 2
	case $1 in
	*ms) echo "${1%ms}" ;;
	*) awk -v s="${1%s}" 'BEGIN { printf "%d\n", s * 1000 }' ;;
	esac
}
nap() { sleep "$(awk -v ms="$(ms_of "$1")" 'BEGIN { print ms / 1000 }')"; }

# within 3s condition: checks it repeatedly; true as soon as it holds, false when the time is over.
within() {
	local end
	end=$(($(now_ms) + $(ms_of "$1")))
	shift
	until "$@"; do
		[ "$(now_ms)" -lt "$end" ] || return 1
		sleep 0.01
	done
}
# before 3s command: it must succeed in less than that; it is killed if it does not end.
before() {
	local limit=$1 t0 pid rc=0
	shift
	t0=$(now_ms)
	set -m
	"$@" &
	pid=$!
	set +m
	if ! within "$limit" gone "$pid"; then
		kill -9 -- "-$pid" 2>/dev/null
		fail "'$*' was not done after $limit"
	fi
	wait "$pid" || rc=$?
	[ $rc = 0 ] || fail "'$*' ended with $rc"
	TOOK_MS=$(($(now_ms) - t0))
}
# at_least 2s command: it must succeed, and not faster than that.
at_least() {
	local least=$1 t0
	shift
	t0=$(now_ms)
	"$@" || fail "'$*' ended with $?"
	TOOK_MS=$(($(now_ms) - t0))
	[ $TOOK_MS -ge "$(ms_of "$least")" ] || fail "'$*' took only $TOOK_MS ms, expected $least"
}
# between 2s 4s command
between() {
	local low=$1 high=$2
	shift 2
	before "$high" "$@"
	[ $TOOK_MS -ge "$(ms_of "$low")" ] || fail "'$*' took only $TOOK_MS ms, expected $low"
}

# --- checks ----------------------------------------------------------------------------------

ok() { "$@" || fail "'$*' ended with $?"; }
refused() { ! "$@" 2>/dev/null || fail "'$*' worked but must not"; }
equal() { [ "$1" = "$2" ] || fail "${3:-values differ}: '$1' is not '$2'"; }
# says 'pattern' command: the command fails, with one line that matches.
says() {
	local pattern=$1 out rc=0
	shift
	out=$("$@" 2>&1 </dev/null) || rc=$?
	[ $rc != 0 ] || fail "'$*' worked but must not"
	[ "$(printf '%s\n' "$out" | wc -l)" = 1 ] || fail "'$*' said more or less than a line: $out"
	printf '%s\n' "$out" | grep -Eq -- "$pattern" || fail "'$*' said '$out', not '$pattern'"
}
# same_on_both command: run in PLAIN and in MNT; exit code and output must be the same.
same_on_both() {
	local rc1=0 rc2=0
	(cd "$PLAIN" && "$@") >"$TMP/out.plain" 2>&1 </dev/null || rc1=$?
	(cd "$MNT" && "$@") >"$TMP/out.mount" 2>&1 </dev/null || rc2=$?
	if [ $rc1 != $rc2 ] || ! cmp -s "$TMP/out.plain" "$TMP/out.mount"; then
		say "'$*' differs: exit $rc1 on the backing directory, $rc2 on the mount (${BACKING:-})"
		diff "$TMP/out.plain" "$TMP/out.mount" | head -n "${RATEFS_TEST_DIFF:-40}" >&2
		show_log
		exit 1
	fi
}
# conforms options: `conform` (see helpers/conform.h) on the backing directory and on a mount with
# these options; the traces must be equal.
conforms() {
	local options=$1 trace
	shift
	trace=$TMP/trace.$BACKING.${*// /-}
	if [ ! -e "$trace" ]; then
		(cd "$PLAIN" && conform "$@") >"$trace" 2>&1 || { tail -5 "$trace"; fail "conform fails on $BACKING itself"; }
	fi
	mount_ratefs -o "$options"
	(cd "$MNT" && conform "$@") >"$TMP/trace.mount" 2>&1
	if ! cmp -s "$trace" "$TMP/trace.mount"; then
		say "on $BACKING with $options ('<' backing directory, '>' mount):"
		diff "$trace" "$TMP/trace.mount" | grep '^[<>]' | head -n "${RATEFS_TEST_DIFF:-40}" >&2
		fail "$BACKING, $options: $(diff "$trace" "$TMP/trace.mount" | grep -c '^>') lines differ," \
			"first: $(diff "$trace" "$TMP/trace.mount" | grep '^[<>]' | head -n 2 | tr '\n' ' ')"
	fi
	unmount_ratefs
}
# Everything that a program can see of a tree, including times, except inode numbers and atimes.
tree_of() {
	(cd "$1" && find . -type d -printf '%P %m %U %G %n %T@\n' | sort &&
		find . ! -type d -printf '%P %y %m %U %G %s %n %l %T@\n' | sort &&
		find . -type f -print0 | sort -z | xargs -0r sha256sum &&
		find . -print0 | sort -z | xargs -0r getfattr -hd -m - -- 2>/dev/null &&
		find . ! -type l -print0 | sort -z | xargs -0r getfacl -pn -- 2>/dev/null)
}
same_tree() {
	tree_of "$1" >"$TMP/tree.1"
	tree_of "$2" >"$TMP/tree.2"
	if ! cmp -s "$TMP/tree.1" "$TMP/tree.2"; then
		diff "$TMP/tree.1" "$TMP/tree.2" | head -40 >&2
		fail "$1 and $2 differ"
	fi
}

. "$srcdir/tests/mount/load.sh"
