# SPDX-License-Identifier: MIT
# shellcheck shell=bash
# An image for container engines: busybox, and nothing else; and what is tested with each of them.  Their tests define
#
#	engine ARGUMENT...		docker or podman
#	run ARGUMENT...			engine run, without a network
#	create_volume OPTION... NAME

! sanitized || skip "an engine adds nothing to what the sanitizers see in volume_plugin.sh"

# Prints the first static busybox that works.
busybox_static() {
	local b
	for b in /bin/busybox /usr/bin/busybox; do
		if [ -x "$b" ] && ! ldd "$b" >/dev/null 2>&1; then
			echo "$b"
			return
		fi
	done
	return 1
}
# make_image: creates the image as a tree in $TMP/image.
make_image() {
	local busybox applet
	busybox=$(busybox_static) || skip "needs a static busybox"
	mkdir -p "$TMP/image/bin" "$TMP/image/data" "$TMP/image/tmp"
	cp "$busybox" "$TMP/image/bin/busybox"
	for applet in sh cat chroot dd df head ls mkdir mknod mount sleep stat sync touch true umount unshare wc id; do
		ln -s busybox "$TMP/image/bin/$applet"
	done
}

# --- what every engine's volumes promise -------------------------------------------------------

# Two containers on one volume, with write_bps=2M, share its limit: 8 MiB, of which 100 ms are available immediately.
two_share_the_rate() { # VOLUME
	fill() { run --rm -v "$1:/data" box dd if=/dev/zero of=/data/"$2" bs=64k count=64 2>/dev/null; }
	both() {
		fill "$1" a & local a=$!
		fill "$1" b || return 1
		wait "$a"
	}
	between 3700ms 60s both "$1"
	equal "$(stat -c %s "$STATE"/data/"$1"-*/[ab] | xargs)" "4194304 4194304"
}

# ENOSPC inside of a container at the block where the volume is full, and not before; the same for inodes.
full_at_the_block() {
	local data
	ok create_volume -o size=8M -o inodes=20 full
	run --rm -v full:/data box dd if=/dev/zero of=/data/f bs=64k 2>"$TMP/out" && fail "no end of 8 MiB"
	grep -q 'No space left on device' "$TMP/out" || fail "not ENOSPC: $(cat "$TMP/out")"
	data=$(echo "$STATE"/data/full-*)
	equal "$(allocated "$data")" 8388608 "full with"
	run --rm -v full:/data box df /data | grep -Eq ' 8192 .* 100% ' || fail "df: $(run --rm -v full:/data box df /data)"
	# shellcheck disable=SC2016 # for sh
	run --rm -v full:/data box sh -c 'echo >/data/f; for i in 1 2 3 4 5 6 7 8 9 0; do touch /data/$i /data/a$i || exit 1; done' \
		2>/dev/null && fail "more than 20 inodes"
	[ "$(find "$data" | wc -l)" -le 20 ] || fail "$(find "$data" | wc -l) inodes"
	ok engine volume rm full >/dev/null
}

# At most max_open files are open at the same time, whatever the container's own limit is.
open_files_are_bounded() {
	local opened
	ok create_volume -o max_open=10 few
	# shellcheck disable=SC2016 # for sh
	opened=$(run --rm -v few:/data box sh -c \
		'for i in 1 2 3 4 5 6 7 8 9 0; do for j in 1 2; do (exec <>/data/$i$j && echo opened && sleep 3) & done; done; wait' \
		2>"$TMP/out" | grep -c opened)
	{ [ "$opened" -ge 5 ] && [ "$opened" -le 10 ]; } || fail "$opened files of 20 were opened, max_open is 10: $(cat "$TMP/out")"
	grep -q 'oo many open files' "$TMP/out" || fail "not EMFILE or ENFILE: $(cat "$TMP/out")"
	ok engine volume rm few >/dev/null
}

# A container sees its volume, but neither the tree behind it nor the control socket, and cannot unmount what it has.
source_is_out_of_reach() { # VOLUME
	local tree attempt
	tree=$(echo "$STATE/data/$1"-*)
	touch "$tree/secret"
	for attempt in "ls $STATE" "ls /proc/1/root$tree" "ls /run/ratefs" "umount /data" "umount -l /data" \
		"mount -o remount,rw /" "mount -t tmpfs tmpfs /data" "unshare -m true" "unshare -rm umount /data" \
		"mknod /data/disk b 7 0 && cat /data/disk" "test -e /dev/fuse"; do
		run --rm -v "$1:/data" box sh -c "[ -e /data/secret ] && { $attempt; }" >/dev/null 2>&1 &&
			fail "in a container this worked: $attempt"
	done
	rm -f "$tree/secret" "$tree/disk"
}

# A killed writer is gone immediately, although it would have to wait long for its limit: within 50 ms, beside a container that
# is killed while it sleeps.
killed_writer_is_gone() { # VOLUME
	local sleeper
	killed_in() { # NAME
		local t0
		t0=$(now_ms)
		ok engine kill "$1" >/dev/null
		within 10s ended "$1" || fail "the container does not end"
		MS=$(($(now_ms) - t0))
	}
	ended() { [ "$(engine inspect -f '{{.State.Running}}' "$1")" = false ]; }
	ok ctl set "$1" write_bps=64K >/dev/null
	run -d --name sleeper -v "$1:/data" box sleep 1000 >/dev/null
	run -d --name slow -v "$1:/data" box dd if=/dev/zero of=/data/slow bs=1M count=1000 >/dev/null
	nap 1s
	killed_in sleeper
	sleeper=$MS
	killed_in slow
	say "a killed container with a throttled writer was gone after $MS ms, one that sleeps after $sleeper ms"
	[ "$MS" -le $((50 + 2 * sleeper)) ] || fail "a throttled writer was gone after $MS ms, one that sleeps after $sleeper ms"
	ok ctl set "$1" write_bps=200M >/dev/null
	engine rm -f sleeper slow >/dev/null 2>&1
}

# The plugin is killed while the engine starts a container, at any moment and in the middle of a call.  The container starts or
# does not, but the next one does.
plugin_dies_in_a_run() { # VOLUME PLUGIN-OPTION...
	local volume=$1 i starting
	shift
	for i in 1 2 3 4; do
		[ $i -gt 1 ] || kill -STOP "$PLUGIN" # the first: it has the call, and will not answer
		run --rm -v "$volume:/data" box touch "/data/run$i" >/dev/null 2>&1 &
		starting=$!
		nap $((i == 1 ? 1500 : 20 + RANDOM % 300))ms
		kill_plugin
		start_plugin "$@"
		wait $starting
		run --rm -v "$volume:/data" box touch "/data/again$i" || fail "no container starts after the plugin was killed"
		[ -e "$(echo "$STATE/data/$volume"-*)/again$i" ] || fail "the container had another volume"
	done
}

# The daemon is killed: a container that starts again has a working volume, at the latest when the plugin has looked.
daemon_dies() { # CONTAINER
	starts_again() {
		engine restart -t 0 "$1" >/dev/null 2>"$TMP/out" && engine exec "$1" touch /data/after-daemon
	}
	kill -9 "$(daemon_pid)"
	within 60s starts_again "$1" || fail "the container does not start again: $(cat "$TMP/out")"
}
