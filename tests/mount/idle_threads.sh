#!/bin/bash
# SPDX-License-Identifier: MIT
# Many idle mounts have few threads (of io_uring see uring.sh); load adds more, which exit again when the mounts are idle.
. "${srcdir:-.}/tests/mount/lib.sh" || exit 1
requires helper:iogen

MOUNTS=50
AT_MOST=3	# of an idle mount
backing tmpfs
head -c 4M /dev/zero >"$SRC/file"
CONF=$TMP/ratefs.conf
LOG_EXPECTED=.
for i in $(seq $MOUNTS); do
	mkdir "$TMP/m$i"
	printf '[mount:m%d]\nsource = %s\nmountpoint = %s\ntransport = dev\niops = 1M\n' "$i" "$SRC" "$TMP/m$i"
done >"$CONF"
"$RATEFS" -f -c "$CONF" >"$LOG" 2>&1 &
DAEMON=$!
threads() { find "/proc/$DAEMON/task" -mindepth 1 -maxdepth 1 | wc -l; }
all_up() { [ "$(grep -c serving "$LOG")" = $MOUNTS ]; }
within 20s all_up || fail "no mounts"
few() { [ "$(threads)" -le $((AT_MOST * MOUNTS + 5)) ]; }	# main, scheduler and the like
within 10s few || fail "$MOUNTS idle mounts have $(threads) threads"

# Under load there are more than at rest.
rest=$(threads)
iogen --op read --size 4K --random --direct --clients 4 --time 2 --path "$TMP/m1/file" >/dev/null &
more() { [ "$(threads)" -gt $((rest + 4)) ]; }
within 2s more || fail "under load $(threads) threads, at rest $rest"
wait $!
within 10s few || fail "after the load $(threads) threads, before $rest"
rested() { [ "$(threads)" -le "$rest" ]; }
within 10s rested || fail "after the load $(threads) threads, before $rest"
ok cat "$TMP/m1/file" >/dev/null
