#!/bin/bash
# SPDX-License-Identifier: MIT
# Sandboxes by bubblewrap, unshare and systemd-run: none can exceed its rate, its space, its inodes or its open files, or reach
# the source, and a killed one is gone in milliseconds.
. "${srcdir:-.}/tests/mount/lib.sh" || exit 1
. "${srcdir:-.}/tests/mount/load.sh" || exit 1

backing tmpfs
SPACE=
! "$RATEFS" --dump-options | grep -q '^size	' || SPACE=,size=6M,inodes=40
mount_ratefs -o "write_bps=2M,iops=2000,max_open=20,cache=strict$SPACE"

EXEC=	# exec: the sandbox takes the place of the shell
by_bwrap() {
	$EXEC bwrap --ro-bind / / --dev /dev --proc /proc --tmpfs "$BACK" --bind "$MNT" /mnt --chdir /mnt \
		--unshare-all --die-with-parent --new-session "$@"
}
# The same by hand: a private mount namespace, the mount over /mnt, an empty directory over the source.
# shellcheck disable=SC2016 # for sh
by_unshare() {
	$EXEC unshare --mount --pid --fork --kill-child --mount-proc --propagation private sh -c \
		'mount --bind "$1" /mnt && mount -t tmpfs tmpfs "$2" && shift 2 && cd /mnt && exec "$@"' \
		sh "$MNT" "$BACK" "$@"
}
by_systemd() {
	$EXEC systemd-run -q --wait --unit=ratefs-test-$$ --collect --pipe -p BindPaths="$MNT:/mnt" -p TemporaryFileSystem="$BACK" \
		-p WorkingDirectory=/mnt -p PrivateTmp=no "$@"
}

# ends_in COMMAND: MS is how long a sandbox that runs it takes to be gone when it is killed.
ends_in() {
	local pid t0
	EXEC='exec'
	# shellcheck disable=SC2086 # words
	$by $1 2>/dev/null &
	pid=$!
	EXEC=
	within 10s runs "$1" || fail "$by: $1 does not run"
	nap 500ms
	t0=$(now_ms)
	[ $by != by_systemd ] || systemctl kill -s KILL ratefs-test-$$
	kill -9 $pid 2>/dev/null
	wait $pid 2>/dev/null
	within 5s not runs "$1" || fail "$by: the sandbox is still there"
	MS=$(($(now_ms) - t0))
}
# A sandbox is gone within 50 ms, beside one that is killed while it sleeps.  The end of a mount namespace waits for every
# other mount and unmount on this machine, so not every attempt is as fast.
killed_soon() {
	local sleeper
	ends_in 'sleep 54321'
	sleeper=$MS
	beside_noise ends_in 'dd if=/dev/zero of=big bs=1M count=1000 conv=notrunc status=none'
	say "$by: killed sandbox gone after $MS ms, one that sleeps after $sleeper ms, noise $NOISE_MS ms"
	[ "$MS" -le $((50 + 2 * (sleeper > ${NOISE_MS%.*} ? sleeper : ${NOISE_MS%.*}))) ]
}
runs() { pgrep -xf "$1" >/dev/null; }
not() { ! "$@"; }

tried=0
for by in by_bwrap by_unshare by_systemd; do
	$by true >"$TMP/out" 2>&1 || { say "no $by here: $(head -n 1 "$TMP/out")"; continue; }
	tried=$((tried + 1))
	# 4 MiB at 2 MiB/s, of which a window of 100 ms is available immediately.
	between 1800ms 30s $by dd if=/dev/zero of=out bs=64k count=64 status=none
	equal "$(stat -c %s "$SRC/out")" 4194304
	equal "$($by ls "$BACK")" "" "$by: the sandbox sees the source"
	# 20 open files at most, whatever the sandbox's own limit is
	# shellcheck disable=SC2016 # for bash
	$by bash -c 'for i in $(seq 30); do exec {fd}>f$i || exit 7; done' 2>/dev/null && fail "$by: max_open does not hold"
	if [ -n "$SPACE" ]; then
		refused $by dd if=/dev/zero of=more bs=64k count=64 status=none
		[ "$(du -s --block-size=1 "$SRC" | cut -f 1)" -le 6291456 ] || fail "$by: more than 6 MiB"
		$by bash -c 'touch n{1..50}' 2>/dev/null && fail "$by: more than 40 inodes"
		rm -f "$SRC"/*
		ok ctl rescan mnt >/dev/null
	fi
	# Killing the sandbox does not wait for its limit: it has more than a second of writing ahead of it.
	for i in 1 2 3; do
		! killed_soon || break
		[ $i -lt 3 ] || fail "$by: three killed sandboxes took longer than 50 ms"
	done
	rm -f "$SRC"/*
	[ -z "$SPACE" ] || ok ctl rescan mnt >/dev/null
done
[ $tried -gt 0 ] || skip "no kind of sandbox works here"
unmount_ratefs
