#!/bin/bash
# SPDX-License-Identifier: MIT
# A slow and a hanging disk: callers that do not need it are served, parked requests can be killed, the daemon can be ended.
. "${srcdir:-.}/tests/mount/lib.sh" || exit 1
. "${srcdir:-.}/tests/mount/hard_lib.sh" || exit 1
requires jq python3 helper:iogen

backing tmpfs
faults_ready
head -c 4M /dev/zero >"$SRC/file"

# Slow: 30 reads of 200 ms run concurrently, and others do not wait for them.
mount_ratefs -o iops=100K
fault pread delay=200
read_one() { dd if="$MNT/file" of=/dev/null bs=4K count=1 iflag=direct status=none; }
before 5s in_parallel 30 read_one
in_parallel 30 read_one &
load=$!
within 20s hanging pread 8 || fail "the slow disk is not busy"
before 1s stat "$MNT/file" >/dev/null
before 1s mkdir "$MNT/dir"
wait $load || fail "slow reads failed"
heal

# Hanging: the same, for as long as it hangs.
fault pread hang
park_readers 30
within 20s hanging pread 20 || fail "the disk does not hang"
before 2s stat "$MNT/file" >/dev/null
before 2s ls -l "$MNT" >/dev/null
before 2s cp "$SRC/file" "$MNT/other"
before 2s ctl set "$MNT" iops=50K >/dev/null
heal
unpark
settled "after the disk came back"
unmount_ratefs

# With max_inflight, all further requests are parked, and parked requests can be killed.
mount_ratefs -o max_inflight=4
fault pread hang
park_readers 4
within 20s hanging pread 4 || fail "the disk does not hang"
for ((i = 0; i < 40; i++)); do
	cat "$MNT/file" >/dev/null 2>&1 &
	waiting[i]=$!
done
within 20s parked 40 || fail "not parked behind max_inflight"
t0=$(now_ms)
kill -9 "${waiting[@]}"
wait "${waiting[@]}" 2>/dev/null
[ $(($(now_ms) - t0)) -lt 1500 ] || fail "killed while parked: gone after $(($(now_ms) - t0)) ms"
heal
unpark
settled "after the disk came back"
unmount_ratefs

# More requests are admitted at once than there are workers, and these hang: those that no worker has taken can be killed.
mount_ratefs -o cache=strict,read_iops=1,read_iops_burst=0
fault pread hang
readers=()
for ((i = 0; i < 80; i++)); do
	dd if="$MNT/file" of=/dev/null bs=4K count=1 status=none 2>/dev/null &
	readers+=($!)
done
within 20s parked 70 || fail "$(stat_of .parked_now) of 80 wait"
ok ctl set "$MNT" read_iops=1M >/dev/null
within 20s hanging pread 64 || fail "only $(faultctl "$FAULTS" waiting pread) reads are at the source"
kill -9 "${readers[@]}"
only_running() { [ "$(pgrep -cx dd)" -le "$(faultctl "$FAULTS" waiting pread)" ]; }
within 2s only_running || fail "$(pgrep -cx dd) of 80 readers survive SIGKILL, $(faultctl "$FAULTS" waiting pread) of them in the source"
[ "$(pgrep -cx dd)" -le 75 ] || fail "no reader waited for a worker"
heal
wait "${readers[@]}" 2>/dev/null
settled "after the disk came back"
unmount_ratefs

# All threads that receive messages hang, so that the daemon does not learn about signals.  Requests that wait for a limit can
# be killed nevertheless, and only these.
mount_ratefs -o cache=strict,name=m
LOG_EXPECTED="$LOG_EXPECTED|class 'paused' added"
echo text >"$SRC/other"
cat >"$TMP/readers.py" <<'END'
import os, sys, threading
fd = os.open(sys.argv[1], os.O_RDONLY)
print("open", flush=True)
sys.stdin.readline()
for i in range(70):
    threading.Thread(target=os.pread, args=(fd, 4096, i * 4096)).start()
END
mkfifo "$TMP/begin"
python3 "$TMP/readers.py" "$MNT/file" <"$TMP/begin" >"$TMP/said" &
load=$!
exec 5>"$TMP/begin"
within 10s grep -q open "$TMP/said" || fail "the readers have not opened the file"
ok ctl class add m paused match=comm:stat >/dev/null
ok ctl pause m/paused >/dev/null
cat "$MNT/other" >/dev/null # the kernel knows the name, and no stat waits for the lookup of another
waiting=()
for ((i = 0; i < 40; i++)); do
	stat "$MNT/other" >/dev/null 2>&1 &
	waiting[i]=$!
done
within 20s parked 40 || fail "$(stat_of .parked_now) of 40 stats wait"
fault pread hang
echo >&5
within 20s hanging pread 64 || fail "only $(faultctl "$FAULTS" waiting pread) reads are at the source"
nap 1s # also after the daemon would rest
kill -9 "${waiting[@]:20}"
others_are_gone() { [ "$(pgrep -cx stat)" -le 20 ]; }
within 10s others_are_gone || fail "$(pgrep -cx stat) of 40 stats exist after 20 were killed"
equal "$(pgrep -cx stat)" 20 "stats that wait after others were killed"
kill -9 "${waiting[0]}"
within 10s gone "${waiting[0]}" || fail "a stat that was killed later stays"
heal
ok ctl resume m/paused >/dev/null
for pid in "${waiting[@]:1:19}"; do
	wait "$pid" || fail "a stat failed because others were killed"
done
wait $load "${waiting[@]}" 2>/dev/null
exec 5>&-
settled "after the disk came back"
unmount_ratefs

# SIGTERM while the disk hangs: the daemon waits for it.  At a second SIGTERM it exits immediately,
# and the mount is gone.  (Threads that hang cannot be joined then.)
export TSAN_OPTIONS="${TSAN_OPTIONS:-}:report_thread_leaks=0"
mount_ratefs -o cache=strict
fault pread hang
park_readers 3
within 20s hanging pread 3 || fail "the disk does not hang"
kill -TERM "$DAEMON"
nap 800ms
! gone "$DAEMON" || fail "the daemon left reads in the middle"
kill -TERM "$DAEMON"
within 3s gone "$DAEMON" || fail "told twice, and still there"
wait "$DAEMON"
DAEMON=
grep -q 'abandoned 3 requests in the source: read' "$LOG" || fail "the log does not say what was abandoned"
! mountpoint -q "$MNT" || fail "the mount outlived its daemon"
unpark
heal
mount_ratefs
unmount_ratefs

# A source that hangs while it is mounted, at statfs (NFS answers what comes before that from its cache): commands that concern
# its space do not wait for it.
LOG_EXPECTED=.
mkdir "$SRC/b" "$TMP/b"
printf '[mount:b]\nsource = %s\nmountpoint = %s\n' "$SRC/b" "$TMP/b" >"$TMP/conf"
"${DAEMON_WRAPPER[@]}" "$RATEFS" -f -c "$TMP/conf" >"$LOG" 2>&1 &
DAEMON=$!
within 10s mountpoint -q "$TMP/b" || fail "no mount"
printf '[mount:late]\nsource = %s\nmountpoint = %s\n' "$SRC" "$MNT" >>"$TMP/conf"
fault fstatvfs hang
ctl reload >"$TMP/said" 2>&1 &
client=$!
within 10s hanging fstatvfs || fail "the new mount does not hang"
before 2s ctl set fs:late size=1G >/dev/null
wait $client
grep -q 'is still being mounted' "$TMP/said" || fail "reload said: $(cat "$TMP/said")"
ok ctl unmount late --force
sed -i '/late/,$d' "$TMP/conf"
before 4s ctl reload >/dev/null
before 2s ctl list >/dev/null
heal
kill -TERM "$DAEMON"
daemon_ended_well
! mountpoint -q "$MNT" || fail "a mount that was given up has come up"
