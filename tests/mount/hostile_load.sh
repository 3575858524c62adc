#!/bin/bash
# SPDX-License-Identifier: MIT
# A user who takes everything possible — handles, parked requests, processes, signals — starves nobody, and the memory of
# the daemon stays below the bound that SECURITY states.
. "${srcdir:-.}/tests/mount/lib.sh" || exit 1
. "${srcdir:-.}/tests/mount/hard_lib.sh" || exit 1
requires jq helper:hostile helper:iogen

backing tmpfs
chmod 1777 "$SRC"
head -c 4M /dev/zero >"$SRC/file"
chmod 666 "$SRC/file"

no_more_fds() { [ "$(daemon_fds)" -le $((fds + 40)) ]; }
HANDLES=20000 FORKS=2000 PARK=2000 HOGS=200 SLOW=3
! sanitized || HANDLES=3000 FORKS=300 PARK=300 HOGS=60 SLOW=10

# Handles: more than the daemon can have.  Other users can still open files.
DAEMON_WRAPPER=(prlimit --nofile=$((HANDLES / 2)):$((HANDLES / 2)))
mount_ratefs
fds=$(daemon_fds)
HOSTILE_HOLD=600 as_user alice hostile handles "$MNT/file" $HANDLES >"$TMP/had" &
hog=$!
within 60s test -s "$TMP/had" || fail "the handles were not had"
had=$(cat "$TMP/had")
[ "$had" -lt $((HANDLES / 2)) ] || fail "$had handles with $((HANDLES / 2)) descriptors"
[ "$had" -gt $((HANDLES / 4)) ] || fail "only $had handles: is there another limit?"
before $((5 * SLOW))s as_user bob cat "$MNT/file" >"$TMP/out"
before $((5 * SLOW))s as_user bob sh -c "echo hello >$MNT/bob && cat $MNT/bob" >/dev/null
before $((5 * SLOW))s as_user bob ls -l "$MNT" >/dev/null
slay $hog
settled "after $had handles"
within 5s no_more_fds || fail "descriptors leaked: $fds before, $(daemon_fds) now"
unmount_ratefs

# max_open: the same by configuration.
mount_ratefs -o max_open=500
HOSTILE_HOLD=600 as_user alice hostile handles "$MNT/file" 2000 >"$TMP/had" &
hog=$!
within 60s test -s "$TMP/had"
[ "$(cat "$TMP/had")" -le 500 ] || fail "max_open was passed: $(cat "$TMP/had")"
slay $hog
settled "after max_open"
unmount_ratefs
DAEMON_WRAPPER=()

# Parked requests: as many threads as possible wait in writes of 1 MiB; memory is bounded, others get their turn.
mount_ratefs -o write_bps=1M,read_bps=100M,max_parked_bytes=32M,fair=uid
kb=$(daemon_kb)
as_user alice iogen --op write --clients $HOGS --threads --size 1M --forever --path "$MNT/hog" >/dev/null 2>&1 &
hog=$!
within 20s parked 20 || fail "nothing parked"
nap 500ms
# A refused caller cannot retry ten thousand times a second.
refusals=$(stat_of '.classes.write.no_room')
nap 1s
refusals=$(($(stat_of '.classes.write.no_room') - refusals))
[ $refusals -gt 0 ] || fail "nobody was refused"
[ $refusals -lt $((HOGS * 20)) ] || fail "$refusals refusals in a second, of $HOGS callers"
before $((5 * SLOW))s as_user bob dd if="$MNT/file" of=/dev/null bs=64K status=none
before $((20 * SLOW))s as_user bob dd if=/dev/zero of="$MNT/of-bob" bs=64K count=8 status=none
grown=$(($(daemon_kb) - kb))
sanitized || [ $grown -lt $((32 * 1024 + 160 * 1024)) ] || fail "the daemon has grown by $grown KiB"
[ "$(stat_of .parked_bytes_now)" -le $((32 << 20)) ] || fail "more is parked than max_parked_bytes"
slay $hog
settled "after big writes"
unmount_ratefs

# The number of parked requests: beyond max_parked, the hog is refused, others are not.
# (Each in a directory of its own: a caller that waits for a name delays those that look up the same one, see SECURITY.)
mkdir "$SRC/dir-alice" "$SRC/dir-bob"
cp "$SRC/file" "$SRC/dir-alice/"
head -c 100K "$SRC/file" >"$SRC/dir-bob/file"
mount_ratefs -o iops=50,max_parked=$PARK,fair=uid
as_user alice iogen --op read --clients $((PARK * 2)) --threads --forever --path "$MNT/dir-alice/file" >/dev/null 2>&1 &
hog=$!
within 30s parked $((PARK / 2)) || fail "nothing parked"
before $((20 * SLOW))s as_user bob cat "$MNT/dir-bob/file" >/dev/null
[ "$(stat_of .parked_now)" -le "$PARK" ] || fail "more is parked than max_parked"
slay $hog
settled "after $PARK parked"
unmount_ratefs

# Short-lived processes: the table of keys stays bounded, and no request is refused.
mount_ratefs -o iops=5000,fair=process,max_keys=64,attr_timeout=0
kb=$(daemon_kb)
equal "$(as_user alice hostile forks "$MNT/file" $FORKS 32)" 0 "processes failed"
[ "$(stat_of .keys_now)" -le 64 ] || fail "more keys than max_keys"
grown=$(($(daemon_kb) - kb))
sanitized || [ $grown -lt $((64 * 1024)) ] || fail "the daemon has grown by $grown KiB over $FORKS processes"
settled "after $FORKS processes"
unmount_ratefs

# Storms of signals: no read fails because of them, and others are served.
mount_ratefs -o iops=500,fair=uid
storms=()
for i in 1 2 3 4; do
	as_user alice hostile storm "$MNT/file" 3 >"$TMP/storm.$i" &
	storms+=($!)
done
nap 500ms
before $((3 * SLOW))s as_user bob cat "$MNT/file" >/dev/null
wait "${storms[@]}"
for i in 1 2 3 4; do equal "$(cat "$TMP/storm.$i")" 0 "reads failed in a storm of harmless signals"; done
settled "after a storm"
unmount_ratefs

# Names change while others read through them.
mkdir -p "$SRC/a" "$SRC/b"
chmod 777 "$SRC/a" "$SRC/b"
for ((i = 0; i < 50; i++)); do echo "$i" >"$SRC/a/$i"; done
mount_ratefs -o iops=1M,entry_timeout=0,attr_timeout=0
(while :; do mv "$MNT/a" "$MNT/c"; mv "$MNT/b" "$MNT/a"; mv "$MNT/c" "$MNT/b"; done) 2>/dev/null &
mover=$!
end=$(($(now_ms) + 3000))
while [ "$(now_ms)" -lt $end ]; do
	cat "$MNT"/a/* >/dev/null 2>&1
	grep -rq 49 "$MNT/b" 2>/dev/null
	{ echo new >"$MNT/a/new"; } 2>/dev/null
done
slay $mover
settled "after renames"
equal "$(cat "$MNT"/[abc]/49)" 49
unmount_ratefs
