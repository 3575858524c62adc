#!/bin/bash
# SPDX-License-Identifier: MIT
# transport=uring and auto: if it cannot be used, the daemon says why; if it can, it carries requests,
# and waiting callers are released when they are killed, when the daemon dies and when the mount ends.
. "${srcdir:-.}/tests/mount/lib.sh" || exit 1
. "${srcdir:-.}/tests/mount/uring_lib.sh" || exit 1
requires helper:noise helper:reap helper:iogen jq python3 taskset

backing tmpfs
head -c 16M /dev/urandom >"$SRC/file"

# Disabled in the kernel: /dev/fuse is used, and the log says how to enable io_uring.
enable N
mount_ratefs -o transport=uring,cache=strict
equal "$(used)" dev
grep -q "no io_uring, requests come by /dev/fuse: .*echo Y > $parameter" "$LOG" || fail "the log gives no reason"
ctl show "$MNT" | grep -q "no io_uring.*enable_uring" || fail "show gives no reason"
cmp "$SRC/file" "$MNT/file" || fail "data by /dev/fuse"
unmount_ratefs

mount_ratefs -o transport=auto
equal "$(used)" dev "transport=auto"
grep -q "^ratefs: serving .* at $MNT, requests by /dev/fuse; no io_uring: .*: echo Y > $parameter" "$LOG" ||
	fail "auto: the log gives no reason"
ctl show "$MNT" | grep -q "no io_uring.*enable_uring" || fail "auto: show gives no reason"
unmount_ratefs
mount_ratefs -o transport=dev
equal "$(ctl show "$MNT" --json | jq -r .transport_reason)" "" "transport=dev needs no reason"
unmount_ratefs

# Enabled: auto uses it, too, unless its threads would be many.
enable Y
mount_ratefs -o transport=auto
equal "$(used)" uring "transport=auto"
grep -q "serving .*, requests by io_uring" "$LOG" || fail "auto: the log does not say that io_uring is used"
cmp "$SRC/file" "$MNT/file" || fail "data, transport=auto"
# A source that may be on a network or in another program.
mkdir "$TMP/second"
"$RATEFS" -f "$MNT" "$TMP/second" -o allow_other >"$TMP/second.log" 2>&1 &
second=$!
within 10s grep -q "serving .*, requests by /dev/fuse; no io_uring: the source is not on a local disk; transport=uring" "$TMP/second.log" ||
	fail "auto: a source that is not on a local disk: $(cat "$TMP/second.log")"
umount "$TMP/second"
ends 10s $second
unmount_ratefs
# Where the address space is limited, /dev/fuse is used, and the mount works as it does with transport=dev.
if ! sanitized; then # a sanitizer needs all addresses
	for kb in 150000 300000 340000 400000 3000000; do
		(ulimit -v $kb; exec "$RATEFS" -f "$SRC" "$MNT" -o allow_other) >"$LOG" 2>&1 &
		DAEMON=$!
		within 10s answers || fail "no mount with $kb kB of addresses: $(cat "$LOG")"
		within 5s grep -q "requests by /dev/fuse; no io_uring: .*ulimit -v" "$LOG" || fail "the log does not say why, with $kb kB of addresses"
		before 5s cmp "$SRC/file" "$MNT/file" || fail "data, with $kb kB of addresses"
		unmount_ratefs
	done
	(ulimit -d 3000000; exec "$RATEFS" -f "$SRC" "$MNT" -o allow_other,transport=uring) >"$LOG" 2>&1 &
	DAEMON=$!
	within 10s answers || fail "no mount with a limit of data: $(cat "$LOG")"
	equal "$(used)" dev "transport=uring with a limit of data"
	unmount_ratefs
fi
# Where memory is not overcommitted, the buffers of waiting requests would take it from others: only if that is asked for.
echo 2 >"$TMP/overcommit"
mount --bind "$TMP/overcommit" /proc/sys/vm/overcommit_memory || fail "bind"
mount_ratefs -o transport=auto
equal "$(used)" dev "transport=auto without overcommitment"
grep -q "no io_uring: .*vm.overcommit_memory" "$LOG" || fail "the log does not say why, without overcommitment"
unmount_ratefs
uring cache=strict
unmount_ratefs
umount /proc/sys/vm/overcommit_memory
# Each CPU needs a thread that runs there.  (One CPU more than there are stands for one that a cpuset forbids.)
cpus=$(getconf _NPROCESSORS_CONF)
echo "0-$cpus" >"$TMP/online"
mount --bind "$TMP/online" /sys/devices/system/cpu/online || fail "bind"
mount_ratefs -o transport=auto
equal "$(used)" dev "transport=auto if the daemon may not run on all CPUs"
grep -q "no io_uring: the daemon may not run on all CPUs" "$LOG" || fail "the log does not say why, with a CPU that is not allowed"
unmount_ratefs
uring cache=strict
unmount_ratefs
umount /sys/devices/system/cpu/online
# Where to run now does not matter.
DAEMON_WRAPPER=(taskset -c 0)
mount_ratefs -o transport=auto
equal "$(used)" uring "transport=auto if the daemon is started on one CPU"
unmount_ratefs
DAEMON_WRAPPER=()
most=32
for ((i = 0; i < most / cpus + 3; i++)); do
	mkdir "$TMP/m$i"
	printf '[mount:m%d]\nsource = %s\nmountpoint = %s\n%s\n' $i "$SRC" "$TMP/m$i" "$([ $i != 0 ] || echo transport = uring)"
done >"$TMP/many.conf"
"$RATEFS" -f -c "$TMP/many.conf" >"$LOG" 2>&1 &
DAEMON=$!
all_up() { [ "$(grep -c serving "$LOG")" = "$i" ]; }
within 20s all_up || fail "no mounts"
few=$((most / cpus > 1 ? most / cpus : 1))
by_uring=$(grep -c "requests by io_uring" "$LOG")
[ "$by_uring" -le "$few" ] && [ "$by_uring" -ge 1 ] || fail "$by_uring of $i mounts use io_uring, $few expected"
grep -q "no io_uring: other mounts of this daemon have" "$LOG" || fail "the log does not say why"
equal "$(ctl show m0 --json | jq -r .transport)" uring "explicit transport"
kill -TERM "$DAEMON"
within 10s gone "$DAEMON" || fail "the daemon stays"
wait "$DAEMON" || fail "ended with $?"

# Disabled again while mounted.
uring cache=strict
ctl show "$MNT" | grep -q "requests come by io_uring" || fail "show"
cmp "$SRC/file" "$MNT/file" || fail "data by io_uring"
enable N
before 10s cp "$SRC/file" "$MNT/copy"
cmp "$SRC/copy" "$SRC/file" || fail "data written by io_uring"
unmount_ratefs
enable Y

# Clients that move from CPU to CPU.
uring cache=strict
for cpu in $(seq 0 $(($(nproc) - 1))); do
	taskset -c "$cpu" iogen --op read --size 4K --count 200 --path "$MNT/file" >/dev/null || fail "reads on CPU $cpu"
done
iogen --op write --size 1M --count 20 --clients 4 --path "$MNT/w" >/dev/null || fail "large writes"
unmount_ratefs

# Somebody has a lease on a file of the source: only those wait who open or cut this file, although the source is in memory.
echo text >"$SRC/leased"
uring cache=strict
python3 -c 'import fcntl, os, signal, sys
signal.signal(signal.SIGIO, signal.SIG_IGN)
f = os.open(sys.argv[1], os.O_RDWR)
fcntl.fcntl(f, fcntl.F_SETLEASE, fcntl.F_WRLCK)
print("leased", flush=True)
signal.pause()' "$SRC/leased" >"$TMP/said" &
lessee=$!
within 5s grep -q leased "$TMP/said" || fail "no lease"
JOBS=()
on_cpu 0 cat "$MNT/leased" >/dev/null &
JOBS+=($!)
on_cpu 0 python3 -c 'import os, sys; os.truncate(sys.argv[1], 1)' "$MNT/leased" &
JOBS+=($!)
nap 300ms
before 10s on_cpu 0 cat "$MNT/file" >/dev/null
for job in "${JOBS[@]}"; do
	! gone "$job" || fail "nobody waited for the lease"
done
kill -9 $lessee
for job in "${JOBS[@]}"; do
	ends 10s "$job"
done
wait $lessee 2>/dev/null
unmount_ratefs

# Many requests wait on one CPU: others on that CPU are served, and callers that are killed exit.  Meanwhile, io_uring is disabled
# again, so that all further entries are made after that.
uring read_bps=16K
enable N
taskset -cp 0 $$ >/dev/null
park_readers 400 --size 64K
within 20s parked 350 || fail "$(stat_of .parked_now) of 400 parked"
before 5s stat "$MNT/file" >/dev/null || fail "stat beside 400 that wait"
before 5s touch "$MNT/other" || fail "touch beside 400 that wait"
unpark
nobody_waits() { [ "$(stat_of .parked_now)" = 0 ]; }
within 10s nobody_waits || fail "dead readers still wait"
stop_ratefs
enable Y
taskset -cp "0-$(($(nproc --all) - 1))" $$ >/dev/null

# SIGTERM while files are read through the page cache: such reads are not refused, and more and more arrive.
LOG_EXPECTED="$LOG_EXPECTED|still in use"
uring cache=page,read_bps=64K,read_bps_burst=0
for i in 1 2 3 4 5 6 7 8; do
	truncate -s 64M "$SRC/large$i"
	cat "$MNT/large$i" >/dev/null 2>&1 &
	JOBS+=($!)
done
within 10s parked 2 || fail "nothing parked"
kill -TERM "$DAEMON"
within 5s gone "$DAEMON" || fail "the daemon stays while files are read through the page cache"
daemon_ended_well
kill -9 "${JOBS[@]}" 2>/dev/null
rm "$SRC"/large?
