#!/bin/bash
# SPDX-License-Identifier: MIT
# Which threads a request passes through if the source is on a disk (ring_workers.c), counted by how often they go to sleep:
# a worker that has carried out one request gets the next directly, and what the page cache has costs no worker.
. "${srcdir:-.}/tests/mount/lib.sh" || exit 1
. "${srcdir:-.}/tests/mount/uring_lib.sh" || exit 1
requires helper:iogen jq taskset
! sanitized || skip "counts what a sanitizer changes"

backing ext4
head -c 1M /dev/urandom >"$SRC/file"
uring cache=strict
# sleeps KIND: how often the threads of this kind that belong to CPU 0 have gone to sleep.
sleeps() { # ring|worker
	local t name sum=0
	for t in "/proc/$DAEMON/task"/*; do
		[ "$(awk '/^Cpus_allowed_list/ { print $2 }' "$t/status" 2>/dev/null)" = 0 ] || continue
		[ "$(cat "$t/comm")" = ratefs-work ] && name=worker || name=ring
		[ $name != "$1" ] || sum=$((sum + $(awk '/^voluntary_ctxt_switches/ { print $2 }' "$t/status")))
	done
	echo $sum
}
# Runs a command on CPU 0; RING and WORKER say how often these threads slept meanwhile.
counted() {
	RING=$(sleeps ring) WORKER=$(sleeps worker)
	on_cpu 0 "$@" || fail "$*"
	RING=$(($(sleeps ring) - RING)) WORKER=$(($(sleeps worker) - WORKER))
}

# Writes may block, so workers carry them out, and take the next one themselves.
on_cpu 0 iogen --op write --size 4K --count 100 --path "$MNT/w" >/dev/null || fail "writes"
counted iogen --op write --size 4K --count 2000 --path "$MNT/w" >/dev/null
say "2000 writes: the ring thread slept $RING times, workers $WORKER times"
[ $RING -lt 1000 ] || fail "the ring thread was woken $RING times for 2000 writes, which a worker gets directly"

# Several workers wait for requests of their own now.  Reads of what is in memory are not passed to them for long.
on_cpu 0 iogen --op write --size 4K --clients 4 --count 200 --path "$MNT/w" >/dev/null || fail "writes"
counted iogen --op read --size 4K --clients 2 --count 5000 --path "$MNT/file" >/dev/null
say "10000 reads: the ring thread slept $RING times, workers $WORKER times"
[ $WORKER -lt 2000 ] || fail "workers were woken $WORKER times for 10000 reads that the ring thread can carry out itself"
unmount_ratefs
