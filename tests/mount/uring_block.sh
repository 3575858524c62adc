#!/bin/bash
# SPDX-License-Identifier: MIT
# A source that blocks delays the requests that need it, but no others on their CPU.
. "${srcdir:-.}/tests/mount/lib.sh" || exit 1
. "${srcdir:-.}/tests/mount/uring_lib.sh" || exit 1
requires helper:iogen helper:noise jq python3 taskset

backing tmpfs
head -c 4M /dev/urandom >"$SRC/file"
echo text >"$SRC/other"
faults_ready
export TSAN_OPTIONS="${TSAN_OPTIONS:-}:report_thread_leaks=0" # threads that hang when it ends cannot be joined
uring cache=strict
taskset -cp 0 $$ >/dev/null # all of this on one CPU

# 10 ms for each read.  If they blocked the thread of the CPU, the others would do no more than a hundred operations in a second.
fault pread delay=10
iogen --op read --size 4K --clients 4 --threads --forever --path "$MNT/file" >/dev/null 2>&1 &
slow=$!
within 5s struck pread 8 || fail "nobody reads"
iogen --op stat --time 2 --path "$MNT/other" >"$TMP/out" || fail "stat beside slow reads"
ops=$(json .total.ops "$TMP/out")
say "$ops stats in 2 s beside reads that take 10 ms"
[ "${ops%.*}" -ge 1000 ] || fail "only $ops stats in 2 s beside reads that take 10 ms"
slay $slow
heal

# Reads that hang, more than there are threads at first; then they continue.
fault pread hang
iogen --op read --size 4K --clients 40 --threads --count 40 --path "$MNT/file" >"$TMP/out" &
slow=$!
within 20s hanging pread 40 || fail "only $(faultctl "$FAULTS" waiting pread) reads are at the source"
before 5s stat "$MNT/other" >/dev/null
before 5s sh -c "echo more >>$MNT/other"
before 5s ls -l "$MNT" >/dev/null
# As many as there are workers for a CPU: further readers wait for one, and can be killed.
iogen --op read --size 4K --clients 60 --threads --count 60 --path "$MNT/file" >"$TMP/out2" &
slow2=$!
within 20s hanging pread 60 || fail "only $(faultctl "$FAULTS" waiting pread) reads are at the source"
start_readers() { # how many
	for ((i = 0; i < $1; i++)); do
		dd if="$MNT/file" of=/dev/null bs=4K count=1 status=none 2>/dev/null &
		readers+=($!)
	done
}
readers_gone() { [ "$(pgrep -cx dd)" -le 4 ]; } # a few may be in the source
start_readers 40
nap 200ms
! gone "${readers[0]}" || fail "a reader got through although the source hangs"
kill -9 "${readers[@]}"
within 2s readers_gone || fail "$(pgrep -cx dd) of 40 readers that wait for a worker survive SIGKILL"
# Killed before the daemon has taken the requests: the kernel does not report it.
kill -STOP "$DAEMON"
start_readers 10
nap 100ms
kill -9 "${readers[@]}"
nap 20ms
kill -CONT "$DAEMON"
within 2s readers_gone || fail "$(pgrep -cx dd) of 10 readers survive SIGKILL, which they got before the daemon took their requests"
wait "${readers[@]}" 2>/dev/null
heal
ends 10s $slow
ends 10s $slow2
settled "after a source that hung"

# The mount ends at the moment when a worker has passed an answer to the ring thread: the answer still reaches the client.
# (The worker does so after more than eight reads in a row.)
fault pread delay=900 spare=15
dd if="$MNT/file" of="$TMP/last" bs=4K count=16 status=none 2>/dev/null &
slow=$!
within 5s hanging pread || fail "nobody reads"
fault wake delay=200
LOG_EXPECTED="$LOG_EXPECTED|still in use"
stop_ratefs
within 5s gone $slow || fail "the reader of a mount that has ended stays"
equal "$(stat -c %s "$TMP/last")" 65536 "bytes read when the mount ended: the last answer"
heal
uring cache=strict

# A worker hangs with a request that it has got directly (ring_workers.c).  After the second SIGTERM nothing waits for it.
on_cpu 0 iogen --op write --size 4K --count 50 --path "$MNT/w" >/dev/null || fail "writes"
fault pwrite hang
dd if=/dev/zero of="$MNT/other" bs=4K count=1 conv=notrunc 2>/dev/null &
slow=$!
within 5s hanging pwrite || fail "nobody writes"
kill -TERM "$DAEMON"
nap 300ms
second_time() { kill -TERM "$DAEMON" && within 10s gone $slow; }
beside_noise at_least 0 second_time
sanitized || awk -v ms=$TOOK_MS -v n="$NOISE_MS" 'BEGIN { exit !(ms <= 600 + 2 * n) }' ||
	fail "a writer was gone $TOOK_MS ms after the second SIGTERM; noise is $NOISE_MS ms"
within 10s gone "$DAEMON" || fail "the daemon stays"
heal
wait $slow "$DAEMON" 2>/dev/null
uring cache=strict

# SIGTERM while it hangs: the daemon logs what it abandoned, and no caller is left waiting.
fault pread hang
cat "$MNT/file" >/dev/null 2>&1 &
slow=$!
within 5s hanging pread 1 || fail "nobody reads"
kill -TERM "$DAEMON"
nap 300ms
kill -TERM "$DAEMON"
within 10s gone "$DAEMON" || fail "the daemon stays"
grep -q 'abandoned 1 request in the source: read' "$LOG" || fail "the log does not say what was abandoned"
heal
within 5s gone $slow || fail "the reader of a source that hung stays"
wait $slow "$DAEMON" 2>/dev/null
DAEMON=
none_hangs

# If the source is in memory, the thread of the CPU carries out everything itself, except what takes long there, too.  A deleted
# file that is open does not change that, as long as there is room.
DAEMON_WRAPPER=()
has_worked() { [ "$(workers)" -ge 1 ]; }
workers() { cat "/proc/$DAEMON/task"/*/comm 2>/dev/null | grep -c ratefs-work; }
by_worker() { # COMMAND on a large file
	head -c 80M /dev/zero >"$SRC/large"
	uring cache=strict,size=1G
	exec 5<>"$MNT/other" 6<>"$MNT/large"
	rm "$MNT/other"
	iogen --op write --size 4K --count 50 --path "$MNT/w" >/dev/null || fail "writes"
	{ echo text >"$MNT/other" && : >"$MNT/other"; } || fail "a small file"
	equal "$(workers)" 0 "workers after small changes"
	before 20s "$@"
	within 5s has_worked || fail "the thread of the CPU itself has carried out: $*"
	exec 5<&- 6<&-
	unmount_ratefs
}
by_worker truncate --no-create -s 1M "$MNT/large"
by_worker sh -c ": >$MNT/large"
by_worker python3 -c 'import os; os.ftruncate(6, 0)'
by_worker python3 -c 'import os; os.lseek(6, 0, os.SEEK_HOLE)'
# The last close of a file that was deleted in the source frees it.
by_worker python3 -c 'import os, sys; fd = os.open(sys.argv[1], 0); os.unlink(sys.argv[2]); os.close(fd)' "$MNT/large" "$SRC/large"
none_hangs
