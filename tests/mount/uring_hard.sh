#!/bin/bash
# SPDX-License-Identifier: MIT
# transport=uring under adverse conditions: CPU hogs, clients that move from CPU to CPU, no memory
# to lock, users without privileges, and daemons that are killed at any moment.
. "${srcdir:-.}/tests/mount/lib.sh" || exit 1
. "${srcdir:-.}/tests/mount/uring_lib.sh" || exit 1
requires helper:iogen jq taskset

backing tmpfs
head -c 8M /dev/urandom >"$SRC/file"
cpus=$(nproc)
patience=20s # the hogs get most of the CPUs, and other tests may run at the same time
! sanitized || patience=60s

# A hog on each CPU, and clients whose CPU changes in the middle of their requests.
uring cache=strict
hogs=()
for ((i = 0; i < cpus; i++)); do
	on_cpu $i sh -c 'while :; do :; done' &
	hogs+=($!)
done
iogen --op write --size 4K --clients 4 --count 300 --path "$MNT/w" >/dev/null &
writers=$!
for ((i = 0; i < 100; i++)); do
	for p in $(pgrep -x iogen); do taskset -cp $((RANDOM % cpus)) "$p" >/dev/null 2>&1; done
	gone $writers && break
done
for p in $(pgrep -x iogen); do taskset -cp "0-$((cpus - 1))" "$p" >/dev/null 2>&1; done
ends $patience $writers
before $patience cmp "$SRC/file" "$MNT/file"
kill -9 "${hogs[@]}"
wait "${hogs[@]}" 2>/dev/null
settled "beside CPU hogs"
unmount_ratefs

# The daemon is killed at any moment of a mixed load: no client is left waiting.
for ((round = 0; round < 6; round++)); do
	uring cache=strict,read_bps=64M
	iogen --op read --size 64K --clients 8 --threads --forever --path "$MNT/file" >/dev/null 2>&1 &
	a=$!
	iogen --op write --size 4K --clients 4 --forever --path "$MNT/w" >/dev/null 2>&1 &
	b=$!
	iogen --op stat --forever --clients 2 --path "$MNT/file" >/dev/null 2>&1 &
	c=$!
	nap $((RANDOM % 150))ms
	kill -KILL "$DAEMON"
	within 5s gone "$DAEMON" || fail "the daemon stays after SIGKILL"
	wait "$DAEMON" 2>/dev/null
	none_hangs
	slay $a
	slay $b
	slay $c
	umount -l "$MNT" 2>/dev/null
done
DAEMON=

# Where threads are few, io_uring gets those that the mount can do without: it comes up with as few as with /dev/fuse.
with_threads() { # n TRANSPORT: BY is how requests come with n threads, or empty: the mount does not come up
	BY=
	fault pthread_create errno=EAGAIN spare="$1"
	if try_mount_ratefs -o "transport=$2"; then
		before 5s cmp "$SRC/file" "$MNT/file"
		BY=$(used)
		heal
		unmount_ratefs
	else
		within 5s gone "$DAEMON" || fail "transport=$2: not mounted with $1 threads, but the daemon stays"
		wait "$DAEMON"
		DAEMON=
		heal
	fi
}
if ! sanitized; then # a sanitizer starts threads itself
	faults_ready
	for ((n = 1; n < 20 + cpus; n++)); do
		with_threads $n dev
		dev=$BY
		with_threads $n uring
		[ "$BY" != uring ] || break
		equal "$BY" "$dev" "with $n threads, transport=uring compared with transport=dev"
	done
	equal "$BY $dev" "uring dev" "with $n threads"
	say "io_uring is used if $n threads can be started"
	DAEMON_WRAPPER=()
fi

# An ordinary user with little memory to lock: io_uring or /dev/fuse is used, and the daemon says
# which.
user_answers() { as_user alice stat "$MNT/." >/dev/null 2>&1 && as_user alice mountpoint -q "$MNT"; }
if [ -u "$(command -v fusermount3)" ]; then
	users_can_mount
	chown -R 1001:1001 "$SRC" "$MNT"
	chown 1001 "$XDG_RUNTIME_DIR"
	for limit in "$(ulimit -Hl)" 64; do
		rm -f "$LOG"
		(ulimit -l "$limit"; exec setpriv --reuid 1001 --regid 1001 --clear-groups -- \
				"$RATEFS" -f "$SRC" "$MNT" -o transport=uring,cache=strict) >"$LOG" 2>&1 &
		DAEMON=$!
		within 10s user_answers || fail "a user's mount did not come up"
		within 5s grep -Eq 'requests by io_uring|no io_uring, requests come by /dev/fuse: cannot set it up' "$LOG" ||
			fail "the log does not say how requests come"
		say "a user with $limit kB to lock: $(grep -o 'requests by io_uring\|no io_uring.*' "$LOG" | tail -n 1)"
		ok as_user alice cmp "$SRC/file" "$MNT/file"
		ok as_user alice sh -c "echo text >$MNT/mine && rm $MNT/mine"
		ok as_user alice fusermount3 -u "$MNT"
		daemon_ended_well
	done
fi
none_hangs
