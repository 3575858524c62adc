#!/bin/bash
# SPDX-License-Identifier: MIT
# The sandboxes of ratefs(8), README and conf/sandbox.conf, by bubblewrap, unshare and systemd-run, run as they are written there:
# none can exceed its rate, its space, its inodes or its open files, reach the source or change its limits, and a killed one
# is gone in milliseconds.
. "${srcdir:-.}/tests/mount/lib.sh" || exit 1
. "${srcdir:-.}/tests/mount/load.sh" || exit 1
. "${srcdir:-.}/tests/mount/systemd_lib.sh" || exit 1
requires unshare nsenter setpriv jq

# The directories of the recipes, in this namespace only.
mount -t tmpfs -o mode=755 tmpfs /srv || fail "tmpfs"
mount -t tmpfs -o mode=755 tmpfs /run || fail "tmpfs"
mkdir /run/ratefs /srv/tools
cp "$RATEFSCTL" /srv/tools/ratefsctl

# --- the recipes -----------------------------------------------------------------------------

# documented COMMAND: that command of ratefs(8), joined to a line.
joined() { sed -E ':more; /\\$/ { N; s/[ \t]*\\\n[ \t]*/ /; b more }'; }
documented() {
	sed -n '/^A sandbox with limited storage/,/^Find out what/p' "$srcdir/man/ratefs.8" |
		sed "s/\\\\e/\\\\/g; s/\\\\(aq/'/g" | joined | grep "^$1 "
}
MOUNT=$(documented ratefs)
BWRAP=$(documented bwrap)
UNSHARE=$(documented unshare)
SYSTEMD=$(documented systemd-run)
CHOWN=$(documented chown)
# README shows the first two, too.
in_readme=$(joined <"$srcdir/README.md" | sed -n '/^\*\*A sandbox with/,/^\*\*A Docker volume/p' | grep -E '^(ratefs|bwrap) ')
equal "$in_readme" "$MOUNT"$'\n'"$BWRAP" "README and ratefs(8) differ:"

# Each recipe ends in `sh`, which reads a script.
box() { # SCRIPT
	bash -c "$RECIPE" <<<"$1"
}

# --- attempts to get out ---------------------------------------------------------------------

# Prints every attempt that worked; none of them harms the host if it does.  $1 is the directory that must stay hidden, in which there is a file "secret"; $2 the mount.
cat >/srv/tools/escape <<'E2'
hidden=$1 mount=$2
worked() { echo "worked: $*"; }
try() { "$@" >/dev/null 2>&1 </dev/null && worked "$@"; }
sees() { [ -e "$1" ] && worked "sees $1"; }
sees "$hidden/secret"
sees "/proc/1/root$hidden/secret"
sees "/proc/self/root$hidden/secret"
sees "$mount/secret"
for pid in /proc/[0-9]*; do
	sees "$pid/root$hidden/secret"
	sees "$pid/cwd$hidden/secret"
done
try umount "$hidden"
try umount -l "$hidden"
try umount -l /run
try umount -l /mnt
try mount -o remount,rw "$hidden"
try mount -o remount,rw /
try mount -o remount,bind,rw /
try mount --bind / /mnt
try mount --rbind / /mnt
try mount --move "$hidden" /mnt
try mount -t tmpfs tmpfs /mnt
try mount -t proc proc /mnt
try nsenter -t 1 -m true
try nsenter -t 1 -a true
try nsenter -t 1 -U -m umount "$hidden"
try chroot / true
try unshare -m true
try unshare -Urm umount "$hidden"
try unshare -Urm umount -l "$hidden"
try unshare -Urm umount -l /run
try unshare -Urm mount -o remount,bind,rw "$hidden"
try unshare -Urm sh -c "mount --bind / /mnt && test -e /mnt$hidden/secret"
try unshare -Urm sh -c "mount --bind /srv /mnt && test -e /mnt${hidden#/srv}/secret"
try unshare -Urm sh -c "mount --rbind / /mnt && umount -l /mnt$hidden"
try unshare -UrmpCn --fork sh -c "mount -t proc proc /proc && test -e /proc/1/root$hidden/secret"
try mknod /mnt/disk b 7 0
try mknod /mnt/memory c 1 1
try touch "$hidden/file"
try mkdir "$hidden/directory"
for path in / /run /srv /proc/sys/kernel/sysrq /proc/sysrq-trigger; do
	try test -w $path
done
try /srv/tools/ratefsctl list
try /srv/tools/ratefsctl set box size=off
try /srv/tools/ratefsctl set /mnt write_bps=off
try /srv/tools/ratefsctl set /mnt size=off
try /srv/tools/ratefsctl pause /mnt
for socket in $(find /run /tmp /var/tmp -maxdepth 3 -type s 2>/dev/null); do
	case $socket in *ratefs*) worked "sees $socket" ;; esac
done
grep -q '^CapEff:[[:blank:]]*0*$' /proc/self/status || worked "has capabilities: $(grep Cap /proc/self/status)"
grep -q '^CapBnd:[[:blank:]]*0*$' /proc/self/status || worked "can get capabilities: $(grep Cap /proc/self/status)"
grep -q '^NoNewPrivs:[[:blank:]]*1$' /proc/self/status || worked "can get privileges"
E2
# cannot_escape HIDDEN MOUNT COMMAND...: the command runs the script on its standard input.
cannot_escape() {
	local hidden=$1 mount=$2
	shift 2
	touch "$hidden/secret"
	{ printf 'set -- %q %q\n' "$hidden" "$mount"; cat /srv/tools/escape; echo 'echo over'; } | "$@" >"$TMP/out" 2>&1
	equal "$(cat "$TMP/out")" over "$*: the sandbox can get out:"
	equal "$(find "$hidden" -type b -o -type c -o -name file -o -name directory)" "" "the sandbox left traces in its source:"
	rm -f "$hidden/secret"
}

# The attempts are worth something: without these restrictions, the first of them works.
mkdir /srv/open
touch /srv/open/secret
# shellcheck disable=SC2016 # for sh
ok unshare --mount --propagation private sh -c \
	'mount -t tmpfs tmpfs "$1" && [ ! -e "$1/secret" ] && umount "$1" && [ -e "$1/secret" ]' sh /srv/open

# --- limits ----------------------------------------------------------------------------------

# ends_in COMMAND: MS is how long a sandbox that runs it takes to be gone when it is killed.
ends_in() {
	local pid t0
	bash -c "exec $RECIPE" <<<"exec $1" 2>/dev/null &
	pid=$!
	within 10s runs "$1" || fail "$kind: $1 does not run"
	nap 500ms
	t0=$(now_ms)
	[ $kind != systemd-run ] || in_systemd systemctl kill -s KILL $UNIT
	kill -9 $pid 2>/dev/null
	wait $pid 2>/dev/null
	within 5s not runs "$1" || fail "$kind: the sandbox is still there"
	MS=$(($(now_ms) - t0))
}
# A sandbox is gone within 50 ms, beside one that is killed while it sleeps.  The end of a mount namespace waits for every
# other mount and unmount on this machine, so not every attempt is as fast.
killed_soon() {
	local sleeper
	ends_in 'sleep 54321'
	sleeper=$MS
	beside_noise ends_in 'dd if=/dev/zero of=big bs=1M count=1000 conv=notrunc status=none'
	say "$kind: killed sandbox gone after $MS ms, one that sleeps after $sleeper ms, noise $NOISE_MS ms"
	[ "$MS" -le $((50 + 2 * (sleeper > ${NOISE_MS%.*} ? sleeper : ${NOISE_MS%.*}))) ]
}
runs() { pgrep -xf "$1" >/dev/null; }
not() { ! "$@"; }
empty() {
	rm -f /srv/box/*
	ok ctl rescan box >/dev/null
}

limits_hold() {
	local i
	# 4 MiB at 2 MiB/s, of which a window of 100 ms is available immediately.
	between 1800ms 30s box 'dd if=/dev/zero of=out bs=64k count=64 status=none'
	equal "$(stat -c %s /srv/box/out)" 4194304
	equal "$(box 'df -k . | tail -n 1' | awk '{ print $2 }')" 1048576 "$kind: size in df"
	# smaller limits, which are reached sooner
	ok ctl set box size=6M inodes=40 max_open=20 iops=2000 >/dev/null
	refused box 'dd if=/dev/zero of=more bs=64k count=64 status=none 2>/dev/null'
	[ "$(du -s --block-size=1 /srv/box | cut -f 1)" -le 6291456 ] || fail "$kind: more than 6 MiB"
	# whatever the sandbox's own limit of open files is
	# shellcheck disable=SC2016 # for bash
	refused box 'exec bash -c '\''for i in $(seq 30); do exec {fd}<>f$i || exit 7; done'\'' 2>/dev/null'
	empty
	refused box 'exec bash -c "touch n{1..50}" 2>/dev/null'
	[ "$(find /srv/box | wc -l)" -le 40 ] || fail "$kind: more than 40 inodes"
	empty
	# Killing the sandbox does not wait for its limit: it has more than a second of writing ahead of it.
	for i in 1 2 3; do
		! killed_soon || break
		[ $i -lt 3 ] || fail "$kind: three killed sandboxes took longer than 50 ms"
	done
	empty
}

tried=0
UNIT=ratefs-test-$$
for kind in bwrap unshare systemd-run; do
	mkdir -p /srv/box /run/box
	chown 0:0 /srv/box
	case $kind in
	bwrap) RECIPE=$BWRAP ;;
	unshare) RECIPE=$UNSHARE ;;
	systemd-run) RECIPE=${SYSTEMD/ --pty / -q --wait --pipe --collect --unit=$UNIT } ;;
	esac
	[ -n "$RECIPE" ] || fail "ratefs(8) has no line for $kind"
	[ $kind = bwrap ] || ok bash -c "$CHOWN"
	# Where users without /run/user/UID have their sockets.
	RATEFS_RUNTIME_DIR=$(mktemp -d /tmp/ratefs-XXXXXX)
	export RATEFS_RUNTIME_DIR
	ok bash -c "$MOUNT" >/dev/null
	if [ $kind = systemd-run ] && systemd_begins; then
		RECIPE="nsenter --target=$SYSTEMD_INIT --mount --pid --cgroup -- $RECIPE"
	fi
	if box true >"$TMP/out" 2>&1; then
		tried=$((tried + 1))
		cannot_escape /srv/box /run/box bash -c "$RECIPE"
		limits_hold
		cannot_escape /srv/box /run/box bash -c "$RECIPE"
	else
		say "no $kind here: $(head -n 1 "$TMP/out")"
		[ $kind != unshare ] || fail "unshare works elsewhere in this test"
	fi
	systemd_ends
	pid=$(ctl list --json | jq '.daemons[0].pid')
	within 5s umount /run/box || fail "umount /run/box"
	within 15s gone "$pid" || fail "the daemon does not end"
	rmdir "$RATEFS_RUNTIME_DIR"
	unset RATEFS_RUNTIME_DIR
done

# --- conf/sandbox.conf -----------------------------------------------------------------------

RECIPE=$(sed -n '/^#	bwrap/,/^#$/s/^#[ \t]*//p' "$srcdir/conf/sandbox.conf" | sed -E ':more; /\\$/ { N; s/[ \t]*\\\n[ \t]*/ /; b more }')
mkdir -p /srv/sandbox/a /srv/sandbox/b /run/sandbox/a /run/sandbox/b
"$RATEFS" -f -c "$srcdir/conf/sandbox.conf" >"$LOG" 2>&1 &
DAEMON=$!
within 20s mountpoint -q /run/sandbox/b || fail "no mounts: $(cat "$LOG")"
printf '#!/bin/sh\nexec sh\n' >/srv/sandbox/a/untrusted
chmod +x /srv/sandbox/a/untrusted
if bash -c "$RECIPE" </dev/null >"$TMP/out" 2>&1; then
	cannot_escape /srv/sandbox /run/sandbox/a bash -c "$RECIPE"
	equal "$(bash -c "$RECIPE" <<<'df -k . | tail -n 1' | awk '{ print $2 }')" 10485760 "size of conf/sandbox.conf"
else
	say "no bwrap here: $(head -n 1 "$TMP/out")"
fi
kill "$DAEMON"
daemon_ended_well
[ $tried -gt 0 ] || skip "no kind of sandbox works here"
