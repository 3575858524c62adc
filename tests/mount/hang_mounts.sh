#!/bin/bash
# SPDX-License-Identifier: MIT
# A source that hangs stops only its own mount; hanging requests are shown and can be abandoned.
LOG_EXPECTED=.
. "${srcdir:-.}/tests/mount/lib.sh" || exit 1
. "${srcdir:-.}/tests/mount/hard_lib.sh" || exit 1
requires jq helper:iogen

backing tmpfs
mkdir "$SRC/a" "$SRC/b" "$TMP/a" "$TMP/b"
head -c 4M /dev/zero >"$SRC/a/file"
head -c 4M /dev/zero >"$SRC/b/file"
lower_ready "$SRC/a"
CONF=$TMP/ratefs.conf
cat >"$CONF" <<-END
	[mount:a]
	source = $LOWER
	mountpoint = $TMP/a
	cache = strict
	iops = 1k
	transport = ${RATEFS_TEST_TRANSPORT:-dev}

	[mount:b]
	source = $SRC/b
	mountpoint = $TMP/b
	read_iops = 50
END
"$RATEFS" -f -c "$CONF" >"$LOG" 2>&1 &
DAEMON=$!
within 5s grep -q "serving.*$TMP/b" "$LOG" || fail "no mounts"

of_a() { ctl stats a --json | jq -r "$1"; }
listed() { ctl list --json | jq -r ".daemons[0].mounts[] | select(.name == \"$1\") | $2"; }

# 120 readers hang in a.  The reads of b have to wait for their limit, and so for a worker.
READ_FILE=$TMP/a/file park_readers 120
lower_hangs
stuck() { [ "$(of_a .in_source.stuck)" -ge "$1" ]; }
within 10s stuck 60 || fail "the readers do not hang"
before 4s dd if="$TMP/b/file" of=/dev/null bs=4K count=100 iflag=direct status=none
[ $TOOK_MS -ge 1000 ] || fail "b is not limited"
read_b() { exec dd if="$TMP/b/file" of=/dev/null bs=4K count=900 iflag=direct status=none; }
read_b &
reader=$!
nap 300ms
kill -9 $reader
within 500ms gone $reader || fail "a reader of b survives SIGKILL"
wait $reader 2>/dev/null

# Number, operation and age are in stats and list, as text and as JSON.
of_a .in_source | jq -e '.stuck <= .requests and .oldest_op == "read" and .oldest_ns > 1e9 and
	.ops[0].name == "read" and .ops[0].requests >= 60' >/dev/null || fail "in_source: $(of_a .in_source)"
[ "$(of_a .inflight.now)" -ge 60 ] || fail "in flight: $(of_a .inflight.now)"
ctl stats a | grep -Eq 'STUCK in the source [0-9]+: [0-9]+ read for' || fail "$(ctl stats a)"
ctl list | grep -Eq 'a .*\([0-9]+ stuck in the source: read, for' || fail "$(ctl list)"
[ "$(listed a .stuck.requests)" -ge 60 ] && equal "$(listed a .stuck.oldest_op)" read
equal "$(listed b .stuck)" null
before 1s ctl set a iops=2k >/dev/null

# Abandoning: the readers get an answer, the mount is gone and can be mounted again; b continues.
ctl unmount a --force >"$TMP/said" || fail "unmount --force"
grep -Eq "mount 'a': unmounted; abandoned [0-9]+ requests in the source: read, for [0-9.]+ s" "$TMP/said" ||
	fail "unmount --force said: $(cat "$TMP/said")"
within 2s gone "$PARKED" || fail "readers of an abandoned mount hang"
wait "$PARKED" 2>/dev/null
! mountpoint -q "$TMP/a" || fail "a is still mounted"
equal "$(listed a .state)" unmounted
ctl list | grep -Eq 'a +abandoned' || fail "list does not show what was abandoned"
before 1s dd if="$TMP/b/file" of=/dev/null bs=4K count=1 iflag=direct status=none
lower_goes_on
back() { ! ctl list | grep -q abandoned; }
within 5s back || fail "what was abandoned does not come back"
ok ctl mount a
before 2s cat "$TMP/a/file" >/dev/null

# The same with permits that both mounts share: those of the hung mount are released with it.
ok ctl set global max_inflight=4
READ_FILE=$TMP/a/file park_readers 4
lower_hangs
within 10s stuck 4 || fail "the readers do not hang"
read_b &
reader=$!
nap 300ms
[ "$(ctl stats b --json | jq .parked_now)" = 1 ] || fail "b got a permit that there is not"
before 4s ctl unmount a --force >/dev/null
before_b() { [ "$(ctl stats b --json | jq .classes.read.ok)" -gt 105 ]; }
within 4s before_b || fail "abandoned requests keep their permits"
kill -9 $reader
wait $reader 2>/dev/null
unpark
lower_goes_on
within 5s back || fail "what was abandoned does not come back"
kill -TERM "$DAEMON"
daemon_ended_well
lower_gone

# Stacked mounts: the source of b is the mountpoint of a, and both are limited.  Requests that b has
# admitted wait in a.
cat >"$CONF" <<-END
	[mount:a]
	source = $SRC/a
	mountpoint = $TMP/a
	iops = 200

	[mount:b]
	source = $TMP/a
	mountpoint = $TMP/b
	iops = 2k
END
"$RATEFS" -f -c "$CONF" >"$LOG" 2>&1 &
DAEMON=$!
within 5s grep -q "serving.*$TMP/b" "$LOG" || fail "no stacked mounts"
READ_FILE=$TMP/b/file park_readers 150
ok ctl pause b
all_wait() { [ "$(ctl stats b --json | jq .parked_now)" = 150 ]; }
within 5s all_wait || fail "not all readers wait"
ok ctl resume b
# Aborts all connections; otherwise clients that hang could not be killed.
abort_all() {
	mount -t fusectl none "$PLAIN"
	findmnt -rno MAJ:MIN -t fuse.ratefs | while IFS=: read -r _ n; do echo 1 >"$PLAIN/$n/abort"; done
	umount "$PLAIN"
}
ops_b() { ctl stats b --json | jq .classes.read.ok; }
for i in 1 2 3; do
	n=$(ops_b)
	nap 500ms
	[ "$(ops_b)" -gt "$n" ] || { abort_all; fail "stacked mounts stand still after $i rounds, at $n reads"; }
done
unpark
kill -TERM "$DAEMON"
daemon_ended_well
