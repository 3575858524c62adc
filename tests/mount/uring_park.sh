#!/bin/bash
# SPDX-License-Identifier: MIT
# Thousands of requests wait on one CPU, more than its queue has spare entries: all of them reach the gate, and others on
# that CPU are served meanwhile.
. "${srcdir:-.}/tests/mount/lib.sh" || exit 1
. "${srcdir:-.}/tests/mount/uring_lib.sh" || exit 1
requires helper:flood helper:iogen helper:noise helper:reap jq taskset

backing "${URING_BACKING:-tmpfs}"
echo data >"$SRC/file"
THREADS=20000
! sanitized || THREADS=3000

# Stops the daemon while the threads start, so that there are surely more requests than spare entries.
stop_meanwhile() {
	within 5s parked 1 || fail "nobody waits"
	kill -STOP "$DAEMON"
}

uring cache=strict,read_iops=1,read_iops_burst=0,max_parked=100k
mkfifo "$TMP/go"
on_cpu 0 flood hold "$MNT/file" $THREADS <"$TMP/go" >"$TMP/out" &
hog=$!
exec 3>"$TMP/go"
stop_meanwhile
within 30s grep -q started "$TMP/out" || fail "the threads were not started"
kill -CONT "$DAEMON"
# A request that waits in the kernel for an entry would be parked only when others are answered,
# which is one per second.
within 30s parked $((THREADS - 40)) || fail "$(stat_of .parked_now) of $THREADS reached the daemon"
say "$(stat_of .parked_now) parked on one CPU; the daemon has $(daemon_kb) kB"
# The kernel's part of an entry, the request, and the first page of its buffer if that was used before; on a disk, the stacks of threads.
sanitized || [ "$(daemon_kb)" -lt $((40000 + THREADS * 7)) ] || fail "the daemon has $(daemon_kb) kB while $THREADS wait"
for cpu in $(seq 0 $(($(nproc) - 1))); do
	before 5s on_cpu "$cpu" stat "$MNT/file" >/dev/null
	before 5s on_cpu "$cpu" sh -c "echo $cpu >$MNT/new && rm $MNT/new"
done
slay $hog
none_parked() { [ "$(stat_of .parked_now)" = 0 ]; }
within 15s none_parked || fail "$(stat_of .parked_now) dead callers still wait"
exec 3>&-
# A read once a second is admitted immediately, unless others wait for that.
park_readers 20
within 10s parked 15 || fail "nobody waits"
killed_in_time read "$MNT/file"
unpark
none_hangs
stop_ratefs

# The same if nobody reads: the daemon finds a file to kick the queue with.
uring cache=strict,meta_iops=1,meta_iops_burst=0,meta_iops_once=50,max_parked=100k
on_cpu 0 flood fstat "$MNT/file" $THREADS <"$TMP/go" >"$TMP/out" &
hog=$!
exec 3>"$TMP/go"
stop_meanwhile
within 30s grep -q started "$TMP/out" || fail "the threads that ask for attributes were not started"
kill -CONT "$DAEMON"
within 30s parked $((THREADS - 100)) || fail "$(stat_of .parked_now) of $THREADS that ask for attributes reached the daemon"
slay $hog
within 15s none_parked || fail "$(stat_of .parked_now) dead callers still wait"
exec 3>&-
none_hangs
stop_ratefs

# No more may wait: the others are refused, a moment later.
uring cache=strict,read_iops=1,read_iops_burst=0,max_parked=100
exec 3<>"$TMP/go"
on_cpu 0 flood try "$MNT/file" 300 <"$TMP/go" >"$TMP/out" &
hog=$!
within 30s grep -q started "$TMP/out" || fail "the threads were not started"
threads() { find "/proc/$(pgrep -x flood)/task" -mindepth 1 -maxdepth 1 2>/dev/null | wc -l; }
refused_all() { [ "$(threads)" -le 110 ]; }
within 10s refused_all || fail "$(threads) of 300 threads wait, although only 100 may"
echo >&3
within 10s gone $hog || fail "threads of a process that has ended still wait"
exec 3>&-
none_hangs
stop_ratefs

# No more entries can be made: the last ones are left to requests that need not wait, and others are refused.
faults_ready
uring cache=strict,read_iops=1,read_iops_burst=0
fault mmap16M errno=ENOMEM
exec 3<>"$TMP/go"
on_cpu 0 flood try "$MNT/file" 1500 <"$TMP/go" >"$TMP/out" &
hog=$!
within 30s grep -q started "$TMP/out" || fail "the threads were not started"
within 10s parked 900 || fail "$(stat_of .parked_now) of 1500 wait although there are 1024 entries"
for cpu in $(seq 0 $(($(nproc) - 1))); do
	before 5s on_cpu "$cpu" stat "$MNT/file" >/dev/null
	before 5s on_cpu "$cpu" sh -c "echo $cpu >$MNT/new && rm $MNT/new"
done
# Nor do workers take the last entries: on a disk, one that has just opened the file would get the first read, too.
all_wait() { [ "$(threads)" -le $(($(stat_of .parked_now) + 2)) ]; }
within 10s all_wait || fail "$(threads) threads remain, and $(stat_of .parked_now) wait"
waiting=$(stat_of .parked_now)
for ((i = 0; i < 60; i++)); do
	on_cpu 0 head -c 4K "$MNT/file" >/dev/null 2>&1 &
	JOBS+=($!)
	nap 20ms
done
more=$(($(stat_of .parked_now) - waiting))
[ $more -le 16 ] || fail "$more more wait, which have taken the last entries"
echo >&3
within 5s grep -q errors "$TMP/out" || fail "the threads were not counted"
say "without more entries, $waiting of 1500 wait; $(grep errors "$TMP/out")"
within 10s gone $hog || fail "threads of a process that has ended still wait"
exec 3>&-
heal
none_hangs
stop_ratefs
