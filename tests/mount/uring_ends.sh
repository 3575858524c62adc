#!/bin/bash
# SPDX-License-Identifier: MIT
# However and whenever a mount ends, no caller is left waiting: those of requests that the daemon has not taken, of requests that
# have no entry, and of requests that wait; when a mount comes up, and while it ends.
. "${srcdir:-.}/tests/mount/lib.sh" || exit 1
. "${srcdir:-.}/tests/mount/uring_lib.sh" || exit 1
requires helper:flood helper:iogen jq taskset

LOG_EXPECTED="$LOG_EXPECTED|still in use"
mountpoint -q /sys/fs/fuse/connections || mount -t fusectl fusectl /sys/fs/fuse/connections
abort_mount() { echo 1 >"/sys/fs/fuse/connections/$(findmnt -rnM "$MNT" -o MAJ:MIN | cut -d : -f 2)/abort"; }
end_mount() { # TERM|KILL|force|lazy|abort
	case $1 in
	force) umount -f "$MNT" 2>/dev/null ;;
	lazy) umount -l "$MNT" ;;
	abort) abort_mount ;;
	*) kill -"$1" "$DAEMON" ;;
	esac
}
daemon_gone() { # after what
	within 10s gone "$DAEMON" || kill -TERM "$DAEMON"
	within 10s gone "$DAEMON" || fail "the daemon stays ($1)"
	wait "$DAEMON" 2>/dev/null
	umount -l "$MNT" 2>/dev/null
	none_hangs
}
# On a disk, workers wait for requests of their own after that.
write_some() { before 20s iogen --op write --size 4K --clients 4 --count 50 --path "$MNT/w" >/dev/null; }

# Clients that read and write, each by a file that it has opened already; they wait until fd 8 is closed.
client() { # dd's arguments; its file is fd 6
	exec 7<"$TMP/go" 8>&-
	echo >>"$TMP/opened"
	read -r <&7
	exec dd bs=4K count=1 "$@" 2>/dev/null
}
all_opened() { [ "$(wc -l <"$TMP/opened")" = ${#JOBS[@]} ]; }
start_clients() { # how many of each kind
	rm -f "$TMP/go"
	mkfifo "$TMP/go"
	exec 8<>"$TMP/go"
	: >"$TMP/opened"
	JOBS=()
	for ((i = 0; i < $1; i++)); do
		client <"$MNT/file" >/dev/null &
		JOBS+=($!)
		client conv=notrunc </dev/zero 1<>"$MNT/w" &
		JOBS+=($!)
	done
	within 20s all_opened || fail "the clients did not start"
}

# Requests were assigned to entries, but the daemon, which is stopped, has not taken them.
not_taken() {
	for how in TERM KILL force lazy abort; do
		uring cache=strict
		write_some
		start_clients 30
		stop_daemon
		exec 8>&-
		nap 200ms
		! gone "${JOBS[0]}" || fail "the daemon was not stopped"
		end_mount $how & # umount -f waits for the daemon
		nap 100ms
		kill -CONT "$DAEMON" 2>/dev/null
		for job in "${JOBS[@]}"; do
			within 10s gone "$job" || fail "a client whose request was not taken stays ($how)"
		done
		wait "${JOBS[@]}" 2>/dev/null
		daemon_gone "$how, after it was stopped"
	done
}

# The same with thousands, so that most have no entry.
no_entry() {
	local threads=3000
	! sanitized || threads=1500
	rm -f "$TMP/line"
	mkfifo "$TMP/line"
	for how in KILL abort; do
		uring cache=strict
		exec 3<>"$TMP/line"
		on_cpu 0 flood try "$MNT/file" $threads <"$TMP/line" >"$TMP/out" &
		hog=$!
		within 5s reads || fail "nobody reads"
		stop_daemon
		within 30s grep -q started "$TMP/out" || fail "the threads were not started"
		end_mount $how &
		nap 100ms
		kill -CONT "$DAEMON" 2>/dev/null
		echo >&3
		within 10s gone $hog || fail "threads stay whose requests had no entry ($how)"
		wait $hog 2>/dev/null
		exec 3>&-
		daemon_gone "$how, after thousands of requests found it stopped"
	done
}
reads() { [ "$(stat_of .classes.read.ok)" -ge 1 ]; }

# Requests wait, and somebody has a file open all the time, so that the kernel does not close the connection by itself.
waiting() {
	for how in TERM KILL force lazy abort; do
		uring read_bps=16K
		write_some
		[ $how = lazy ] || { sleep 1000 7<"$MNT/file" & holder=$!; }
		park_readers 20 --size 64K
		within 10s parked 15 || fail "nothing parked ($how)"
		end_mount $how
		[ $how != lazy ] || unpark # the mount ends with its last user
		daemon_gone $how
		[ -z "$PARKED" ] || unpark
		[ $how = lazy ] || slay "$holder"
	done
}

# The daemon is killed while the mount comes up, and while it ends.
look() { while kill -0 "$DAEMON" 2>/dev/null; do stat --cached=never "$MNT/." "$MNT/file" >/dev/null 2>&1; done; }
coming_and_going() {
	local most=100
	! sanitized || most=1000
	for ((round = 0; round < 6; round++)); do
		"$RATEFS" -f "$SRC" "$MNT" -o allow_other,transport=uring,cache=strict >"$LOG" 2>&1 &
		DAEMON=$!
		look &
		looking=$!
		nap $((RANDOM % most))ms
		kill -KILL "$DAEMON"
		within 5s gone $looking || fail "a client stays whose daemon was killed while the mount came up"
		wait $looking 2>/dev/null
		daemon_gone "killed while the mount came up"
	done
	for ((round = 0; round < 3; round++)); do
		uring cache=strict,read_bps=16K
		park_readers 20 --size 64K
		iogen --op write --size 4K --clients 4 --forever --path "$MNT/w" >/dev/null 2>&1 &
		writers=$!
		within 10s parked 15 || fail "nothing parked"
		kill -TERM "$DAEMON"
		nap $((RANDOM % 700))ms
		kill -KILL "$DAEMON" 2>/dev/null
		daemon_gone "killed while it ended"
		unpark
		slay $writers
	done
}

all_ends() {
	head -c 16M /dev/urandom >"$SRC/file"
	head -c 1M /dev/zero >"$SRC/w"
	not_taken
	no_entry
	waiting
	coming_and_going
	DAEMON=
}
on_each_backing all_ends
