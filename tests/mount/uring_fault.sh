#!/bin/bash
# SPDX-License-Identifier: MIT
# The kernel refuses calls of io_uring: if it does so for lack of memory, no answer gets lost; otherwise the mount ends.
. "${srcdir:-.}/tests/mount/lib.sh" || exit 1
. "${srcdir:-.}/tests/mount/uring_lib.sh" || exit 1
requires helper:iogen jq taskset python3

parked_none() { [ "$(stat_of .parked_now)" = 0 ]; }
JOBS=()
backing tmpfs
head -c 4M /dev/urandom >"$SRC/file"
faults_ready

# More answers than a call can submit, while calls fail: 600 requests wait, and all are admitted at once.  The ring thread
# is woken late, so that it finds many answers.
uring cache=strict,read_iops=1,read_iops_burst=0
on_cpu 0 iogen --op read --size 4K --clients 600 --threads --count 1 --path "$MNT/file" >/dev/null &
reader=$!
within 10s parked 590 || fail "$(stat_of .parked_now) of 600 wait"
fault wake delay=500 count=1
fault io_uring_enter errno=EAGAIN count=100
ctl set "$MNT" read_iops=0 >/dev/null || fail "set"
within 10s gone $reader || fail "answers were lost while the kernel had no memory"
wait $reader || fail "reads failed while the kernel had no memory"
struck io_uring_enter 100 || fail "no call failed"
heal
settled "while the kernel had no memory"
unmount_ratefs

# The mount ends while a ring thread is about to park a request: the mount waits for that thread, so the caller gets the same
# answer as all others.
uring cache=strict,read_bps=1K,read_bps_burst=0,window=1ms,max_wait=1h
cat "$MNT/file" >/dev/null &
JOBS+=($!)
within 5s parked 1 || fail "nobody waits"
kill -9 "${JOBS[@]}"
within 5s parked_none || fail "a dead reader waits"
exec 4<"$MNT/file"
fault proc delay=6000 count=1 # longer than the mount takes to end otherwise
dd bs=64K count=1 <&4 >/dev/null 2>"$TMP/said" &
reader=$!
within 5s hanging proc || fail "nobody is about to be parked"
exec 4<&-
kill -TERM "$DAEMON"
within 20s gone $reader || fail "a reader that was about to be parked when the mount ended stays"
wait $reader
grep -q "Transport endpoint is not connected" "$TMP/said" || fail "the mount has not waited for a ring thread: $(cat "$TMP/said")"
LOG_EXPECTED="$LOG_EXPECTED|still in use"
daemon_ended_well
heal

# A ring that cannot be used any more: its callers must not wait for ever.
LOG_EXPECTED="$LOG_EXPECTED|io_uring: Input/output error|still in use"
uring cache=strict
fault io_uring_enter errno=EIO count=1
stat "$MNT/file" >/dev/null 2>&1 &
within 10s gone "$DAEMON" || fail "a mount whose ring cannot be used stays"
wait "$DAEMON"
DAEMON=
grep -q 'io_uring: Input/output error' "$LOG" || fail "the log does not say why the mount has ended"
! mountpoint -q "$MNT" || fail "the mount is still there"
none_hangs

# There is no memory to make page faults wait, and they may not be refused: workers carry them out, because the source is on a
# disk.  Afterwards requests wait for workers as before.
loop_works || { say "no ext4: loop devices don't work here"; exit 0; }
unbacking
backing ext4
head -c 4M /dev/urandom >"$SRC/file"
LOG_EXPECTED="$LOG_EXPECTED|[Mm]emory|alloc"
uring cache=strict,read_iops=1,read_iops_burst=0
exec 4<"$MNT/file"
dd bs=4K count=2 <&4 >/dev/null 2>&1 || fail "reads"
fault pread delay=0 # nothing is in the page cache
fault malloc errno=ENOMEM
python3 -c '
import mmap
m = mmap.mmap(4, 4 << 20, mmap.MAP_PRIVATE, mmap.PROT_READ)
m.madvise(mmap.MADV_RANDOM)
for at in range(0, 4 << 20, 1 << 16):
    m[at]' &
reader=$!
sanitized || within 5s struck malloc 3 || fail "no allocation failed"
nap 400ms
faultctl "$FAULTS" clear malloc
kill -0 "$DAEMON" || fail "the daemon is gone after page faults without memory"
ctl set "$MNT" read_iops=0 >/dev/null || fail "set"
ends 10s $reader
sanitized || [ "$(stat_of .classes.read.no_room)" -ge 5 ] || fail "there was memory for page faults to wait"
iogen --op read --size 4K --clients 4 --count 2000 --path "$MNT/file" >/dev/null &
reader=$!
ends 30s $reader
exec 4<&-
heal
settled "after page faults without memory"
unmount_ratefs
