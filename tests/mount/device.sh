#!/bin/bash
# SPDX-License-Identifier: MIT
# A modelled device: its times as clients measure them; requests that are killed, changed and
# drained while in the device.
. "${srcdir:-.}/tests/mount/lib.sh" || exit 1
requires fio

backing tmpfs
head -c 512M /dev/zero >"$SRC/file"
mkdir "$SRC/dir"

stat_of() { ctl stats --json "$MNT" | python3 -c "
import json, sys
d = json.load(sys.stdin)
for k in sys.argv[1].split('.'): d = d[k]
print(d)" "$1"; }
in_range() {	# NAME IS LEAST MOST
	awk -v is="$2" -v least="$3" -v most="$4" 'BEGIN { exit !(is >= least && is <= most) }' ||
		fail "$1: $2, not between $3 and $4"
}
fio_mean_ms() {	# FILE OPTIONS...: fio's mean completion latency of reads
	local out=$TMP/fio.$BASHPID file=$1
	shift
	fio --name=x --filename="$file" --ioengine=psync --output-format=json "$@" >"$out" 2>"$out.err" ||
		{ cat "$out.err" >&2; fail "fio $*"; }
	python3 -c "
import json, sys
d = json.load(open('$out'))['jobs'][0]['read']
print(d['lat_ns']['mean'] / 1e6, d['bw_bytes'] / 1e6)"
}

in_device() { [ "$(stat_of device_now)" = "$1" ]; }

# fixed latencies by class
mount_ratefs -o "read_latency=40ms,write_latency=80ms,meta_latency=0ms,sync_latency=300ms"
within 3s grep -q "bypass the page cache" "$LOG" || fail "the log does not say that the page cache is bypassed"
between 400ms 900ms dd if="$MNT/file" of=/dev/null bs=4K count=10 status=none
between 800ms 1500ms dd if=/dev/zero of="$MNT/new" bs=4K count=10 status=none
at_least 300ms sync "$MNT/new"
equal "$(stat_of classes.read.device.count)" 10 "reads in the device"
equal "$(stat_of classes.read.parked_total)" 0 "reads that waited for a limit"
ctl stats "$MNT" | grep -q '^  IN DEVICE ' || fail "ratefsctl stats does not show the time in the device"
stop_ratefs

# a disk: random reads take seek and rotation, sequential ones its rate
export RATEFS_PROFILES=$srcdir/conf/profiles
mount_ratefs -o "profile=hdd-7200,seed=1"
within 3s grep -q "limits of .* profile=hdd-7200" "$LOG" || fail "the log does not name the profile"
ctl show "$MNT" | grep -Eq 'rotation.*8330us' || { ctl show "$MNT" >&2; fail "ratefsctl show does not know the profile's rotation"; }
# Seek and rotation take 12.66 ms on average.  This machine adds about as much to them as to a fixed
# latency that is measured at the same time.
mkdir "$TMP/fixed"
"$RATEFS" -f "$SRC" "$TMP/fixed" -o allow_other,read_latency=12660us,meta_latency=0ms >"$TMP/fixed.log" 2>&1 &
fixed_daemon=$!
within 10s mountpoint -q "$TMP/fixed" || fail "no second mount"
fio_mean_ms "$TMP/fixed/file" --rw=randread --bs=4k --size=512M --io_size=1200K --randseed=3 >"$TMP/fixed.ms" &
fixed_fio=$!
read -r ms _ < <(fio_mean_ms "$MNT/file" --rw=randread --bs=4k --size=512M --io_size=1200K --randseed=3)
wait $fixed_fio || fail "fio on the second mount"
read -r fixed _ <"$TMP/fixed.ms"
umount "$TMP/fixed"
wait $fixed_daemon || fail "the second daemon"
say "random 4K reads take $ms ms, reads of 12.66 ms take $fixed ms"
# The tolerance is 5 %, plus a quarter of what the machine adds, which varies.
awk -v ms="$ms" -v fixed="$fixed" 'BEGIN { noise = fixed - 12.66; off = ms - noise - 12.66; if (off < 0) off = -off
	exit !(off <= 12.66 * 0.05 + noise / 4) }' ||
	fail "random 4K reads take $ms ms, not 12.66, beside reads of 12.66 ms that take $fixed ms"
read -r _ mb < <(fio_mean_ms "$MNT/file" --rw=read --bs=1M --size=512M --io_size=240M)
in_range "sequential reads, MB/s" "$mb" 60 172 # 160, and a window of 100 ms
stop_ratefs

# killed in device time; the queue continues
mount_ratefs -o "latency=60s,max_inflight=1,meta_latency=0ms"
dd if="$MNT/file" of=/dev/null bs=4K count=1 status=none &
pid=$!
within 5s in_device 1
kill -9 "$pid"
within 1s gone "$pid" || fail "killed in device time, but still there a second later"
wait "$pid" 2>/dev/null
equal "$(stat_of device_now)" 0 "requests in the device"
equal "$(stat_of inflight.now)" 0 "permits in use"
equal "$(stat_of classes.read.aborted)" 1 "aborted reads"

# a change applies to later requests; dates that were set remain
dd if="$MNT/file" of=/dev/null bs=4K count=1 status=none &
pid=$!
within 5s in_device 1
ok ctl set "$MNT" latency=10ms max_inflight=off
between 0ms 2000ms dd if="$MNT/file" of=/dev/null bs=4K count=1 status=none
equal "$(stat_of device_now)" 1 "requests in the device"
ok ctl set "$MNT" latency=off
kill -0 "$pid" || fail "the change ended a request in device time"

# the end of the mount does not wait for dates
stop_ratefs
wait "$pid"
exit 0
