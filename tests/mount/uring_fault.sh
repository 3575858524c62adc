#!/bin/bash
# SPDX-License-Identifier: MIT
# The kernel refuses calls of io_uring: if it does so for lack of memory, no answer gets lost; otherwise the mount ends.
. "${srcdir:-.}/tests/mount/lib.sh" || exit 1
. "${srcdir:-.}/tests/mount/uring_lib.sh" || exit 1
requires helper:iogen jq taskset

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
