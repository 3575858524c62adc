#!/bin/bash
# SPDX-License-Identifier: MIT
# Limits change, reloads and pauses happen while hundreds of requests wait: nothing is lost, nothing hangs.
. "${srcdir:-.}/tests/mount/lib.sh" || exit 1
requires helper:iogen jq

backing tmpfs
head -c 8M /dev/zero >"$SRC/file"
LOG_EXPECTED="$LOG_EXPECTED|reloaded"
CONF=$TMP/c.conf
conf() {	# limits of the mount, a line each
	printf '[global]\niops = 1M\n[mount:m]\nsource = %s\nmountpoint = %s\n' "$SRC" "$MNT"
	printf '%s\n' "$@"
} >"$CONF"

conf 'read_bps = 500K' 'meta_iops = 1k'
"$RATEFS" -f -c "$CONF" >"$LOG" 2>&1 &
DAEMON=$!
within 5s answers || fail "no mount"
READ_FILE=$MNT/file
park_readers 300
iogen --op stat --clients 4 --time 4 --path "$MNT/file" >"$TMP/stat" &
stats=$!

for ((i = 0; i < 40; i++)); do
	case $((i % 8)) in
	0) ctl set m read_bps=$((300 + RANDOM % 500))K iops=$((2000 + RANDOM)) ;;
	1) ctl set m fair=uid weight=uid:0=$((1 + RANDOM % 9)) max_wait=off ;;
	2) ctl set global read_bps=$((300 + RANDOM % 500))K ;;
	3) ctl set fs:m read_iops=$((50 + RANDOM % 500)) max_inflight=$((1 + RANDOM % 20)) ;;
	4) ctl pause m && ctl stats m && ctl resume m ;;
	5) conf "read_bps = $((300 + RANDOM % 500))K" 'fair = process' && ctl reload ;;
	6) ctl set m fair=process read_bps=off iops=off && ctl set m read_bps=400K ;;
	7) kill -HUP "$DAEMON" && ctl stats m --json ;;
	esac >/dev/null || fail "round $i"
done
equal "$(ctl stats m --json | jq '.parked_now > 100')" true "readers that still wait"
unpark
wait "$stats" || fail "stat under changing limits"
nobody_waits() { [ "$(ctl stats m --json | jq .parked_now)" = 0 ]; }
within 3s nobody_waits || fail "somebody waits who is gone"
equal "$(ctl stats m --json | jq '.inflight.now')" 0 "permits that did not come back"
# New requests are subject to the last limits; without limits they proceed immediately.
ctl set m read_bps=off read_iops=off meta_iops=off iops=off >/dev/null
ctl set fs:m read_iops=off max_inflight=off >/dev/null
ctl set global read_bps=off iops=off >/dev/null
before 3s cat "$MNT/file" >/dev/null
unmount_ratefs
