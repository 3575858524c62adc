#!/bin/bash
# SPDX-License-Identifier: MIT
# No more threads can be started (ulimit -u, pids.max of a cgroup): requests that need a worker are carried out by a thread
# that exists, so none waits for ever, and the mount ends as usual.
. "${srcdir:-.}/tests/mount/lib.sh" || exit 1
. "${srcdir:-.}/tests/mount/hard_lib.sh" || exit 1
requires helper:iogen helper:noise helper:reap jq
! sanitized || skip "a sanitizer starts threads itself"

backing tmpfs
head -c 4M /dev/urandom >"$SRC/file"
faults_ready
no_more_threads() { fault pthread_create errno=EAGAIN; }
workers() { cat "/proc/$DAEMON/task"/*/comm 2>/dev/null | grep -c ratefs-work; }

# Requests that wait: afterwards a worker would carry them out.
mount_ratefs -o cache=strict,write_iops=100,write_iops_burst=0,read_bps=1M,read_bps_burst=0
no_more_threads
equal "$(workers)" 0 "workers"
before 10s iogen --op write --size 4K --clients 4 --threads --count 50 --path "$MNT/w" >/dev/null
before 10s dd if="$MNT/file" of="$TMP/copy" bs=64K count=32 status=none
cmp -n 2M "$SRC/file" "$TMP/copy" || fail "data"
[ "$(stat_of '[.classes[].parked_total] | add')" -gt 10 ] || fail "no request had to wait"
equal "$(workers)" 0 "workers"
struck pthread_create || fail "no thread was missing"
settled "without workers"
# Threads can be started again, and are.
heal
before 10s iogen --op write --size 4K --clients 4 --threads --count 50 --path "$MNT/w" >/dev/null
[ "$(workers)" -ge 1 ] || fail "no worker was started although that is possible again"
unmount_ratefs

# A caller that waits can be killed.
mount_ratefs -o cache=strict,read_bps=16K
no_more_threads
park_readers 20 --size 64K
within 10s parked 15 || fail "nothing waits"
killed_in_time read "$MNT/file"
unpark
heal
unmount_ratefs

# The mount ends while requests wait, among them some that are carried out in any case.
LOG_EXPECTED="$LOG_EXPECTED|still in use"
mount_ratefs -o cache=page,read_bps=64K,read_bps_burst=0
no_more_threads
park_readers 20 --size 64K
within 10s parked 1 || fail "nothing waits"
stop_ratefs TERM
unpark

# Nor does the control plane wait for a source that hangs, if there is no thread for what may hang in it.
LOG_EXPECTED=.
heal
mkdir "$SRC/a" "$SRC/b" "$TMP/a" "$TMP/b"
head -c 1M /dev/zero >"$SRC/a/file"
lower_ready "$SRC/a"
printf '[mount:a]\nsource = %s\nmountpoint = %s\ncache = strict\n' "$LOWER" "$TMP/a" >"$TMP/conf"
printf '[mount:b]\nsource = %s\nmountpoint = %s\n' "$SRC/b" "$TMP/b" >>"$TMP/conf"
"${DAEMON_WRAPPER[@]}" "$RATEFS" -f -c "$TMP/conf" >"$LOG" 2>&1 &
DAEMON=$!
within 10s grep -q "serving.*$TMP/b" "$LOG" || fail "no mounts: $(cat "$LOG")"
no_more_threads
lower_hangs
cat "$TMP/a/file" >/dev/null 2>&1 &
reader=$!
stuck() { [ "$(ctl stats a --json | jq .in_source.requests)" -ge 1 ]; }
within 5s stuck || fail "the reader does not hang"
"$RATEFSCTL" unmount a --force >"$TMP/said" 2>&1 & # takes the only spare thread
client=$!
"$RATEFSCTL" reload >"$TMP/said2" 2>&1 &
second=$!
for i in 1 2 3; do
	before 2s ctl list >/dev/null
	before 2s ctl stats b >/dev/null
	nap 300ms
done
heal # now there are threads for what had to wait
wait $second || fail "reload: $(cat "$TMP/said2")"
lower_goes_on
wait $client $reader
kill -TERM "$DAEMON"
daemon_ended_well
lower_gone
