#!/bin/bash
# SPDX-License-Identifier: MIT
# Mounts whose source hangs do not block the control plane while they are mounted or unmounted:
# list, stats, set and signals are served meanwhile, and the daemon can be ended.
LOG_EXPECTED=.
. "${srcdir:-.}/tests/mount/lib.sh" || exit 1
. "${srcdir:-.}/tests/mount/hard_lib.sh" || exit 1
requires jq python3 helper:iogen
# A daemon that abandons what hangs exits while threads remain, which ThreadSanitizer would wait for and report.
export TSAN_OPTIONS="${TSAN_OPTIONS-}:report_thread_leaks=0:atexit_sleep_ms=0"

backing tmpfs
mkdir "$SRC/a" "$SRC/b" "$TMP/a" "$TMP/b" "$TMP/c"
head -c 1M /dev/zero >"$SRC/a/file"
head -c 1M /dev/zero >"$SRC/b/file"
lower_ready "$SRC/a"
CONF=$TMP/ratefs.conf
conf_b() { printf '[mount:b]\nsource = %s\nmountpoint = %s\niops = 1k\n' "$SRC/b" "$TMP/b"; }
conf_a() { printf '[mount:a]\nsource = %s\nmountpoint = %s\ncache = strict\ntransport = %s\n' "$1" "$TMP/a" "${RATEFS_TEST_TRANSPORT:-dev}"; }
start() {
	"$RATEFS" -f -c "$CONF" >"$LOG" 2>&1 &
	DAEMON=$!
	within 10s grep -q "serving.*$TMP/b" "$LOG" || fail "no mounts"
}
state() { ctl list --json | jq -r ".daemons[0].mounts[] | select(.name == \"$1\") | .state"; }
stuck() { [ "$(ctl stats a --json | jq .in_source.requests)" -ge "$1" ]; }
# Everything that does not need the hung source works.
alive() {
	before 1s ctl list >/dev/null
	before 1s ctl stats b >/dev/null
	before 1s ctl set b iops=2k >/dev/null
	before 1s cat "$TMP/b/file" >/dev/null
}
hang() {
	READ_FILE=$TMP/a/file park_readers "${1:-5}"
	lower_hangs
	within 5s stuck 5 || fail "the readers do not hang"
}

# unmount waits and says so; the daemon continues.  Then unmount --force, while the first one waits.
{ conf_a "$LOWER"; conf_b; } >"$CONF"
start
hang
some_are_stuck() { ctl unmount a 2>&1 | grep -q 'a: is in use: 5 open files, 5 requests stuck in the source; --force'; }
within 5s some_are_stuck || fail "unmount: $(ctl unmount a 2>&1)"
ctl unmount a --force >"$TMP/said" 2>&1 &
client=$!
alive
wait $client || fail "unmount --force: $(cat "$TMP/said")"
within 2s gone "$PARKED" || fail "clients hang"
equal "$(state a)" unmounted
lower_goes_on

# umount -f of the hung mount: with a few requests, and with more than there are threads to receive them.
state_is() { [ "$(state "$1")" = "$2" ]; }
for readers in 5 100; do
	ok ctl mount a
	hang $readers
	[ $readers = 5 ] || nap 1s # until all threads hang
	umount -f "$TMP/a" 2>/dev/null
	within 2s gone "$PARKED" || fail "clients hang after umount -f"
	alive
	within 8s state_is a unmounting || fail "a is listed as $(state a)"
	within 2s test ! -e "$TMP/a/file" || fail "the dead mount stays in the tree"
	lower_goes_on
	within 5s state_is a unmounted || fail "a does not come to its end: $(state a)"
done

# A reload that removes the hung mount and mounts another source in its place.
ok ctl mount a
hang
{ conf_a "$SRC/b"; conf_b; } >"$CONF"
ctl reload --force >"$TMP/said" 2>&1 &
client=$!
alive
wait $client || fail "reload: $(cat "$TMP/said")"
grep -q "mount 'a': is still being unmounted, with 5 requests in the source: read, for" "$TMP/said" ||
	fail "reload said: $(cat "$TMP/said")"
grep -q "mount 'a': mounted" "$TMP/said" || fail "the new mount did not come up: $(cat "$TMP/said")"
before 1s cat "$TMP/a/file" >/dev/null
ctl list | grep -Eq 'a +unmounting .*5 stuck in the source: read' || fail "$(ctl list)"
unpark_after() { lower_goes_on; unpark; }
unpark_after
gone_from_list() { ! ctl list | grep -q unmounting; }
within 5s gone_from_list || fail "the dropped mount does not come to its end"

# A hung mount that a reload has removed or replaced can be abandoned by its name.
{ conf_a "$LOWER"; conf_b; } >"$CONF"
ok ctl reload >/dev/null
for then in dropped replaced; do
	hang
	{ [ $then = dropped ] || conf_a "$SRC/b"; conf_b; } >"$CONF"
	ctl reload --force >"$TMP/said" 2>&1
	[ $then = replaced ] || says 'a: is no longer configured, and is being unmounted' ctl set a iops=1k
	ok ctl unmount a --force >"$TMP/said"
	grep -Eq "mount 'a': unmounted; abandoned 5 requests in the source: read" "$TMP/said" ||
		fail "unmount --force of a $then mount: $(cat "$TMP/said")"
	within 2s gone "$PARKED" || fail "clients of a $then mount hang"
	lower_goes_on
	nothing_abandoned() { ! ctl list | grep -q abandoned; }
	within 5s nothing_abandoned || fail "what was abandoned does not come back"
	{ conf_a "$LOWER"; conf_b; } >"$CONF"
	ctl reload >/dev/null
	[ "$(state a)" = mounted ] || ok ctl mount a
done

# A reload that adds a mount whose source hangs, beside a mount whose source does not.
lower_hangs
{ conf_a "$SRC/b"; conf_b; printf '[mount:c]\nsource = %s\nmountpoint = %s\n' "$LOWER/." "$TMP/c"; } >"$CONF"
ctl reload >"$TMP/said" 2>&1 &
client=$!
alive
within 5s state_is c mounting || fail "c is $(state c)" # two seconds of patience with its source pass first
wait $client || fail "reload: $(cat "$TMP/said")"
grep -q "mount 'c': is still being mounted: the source or the mountpoint does not respond" "$TMP/said" ||
	fail "reload said: $(cat "$TMP/said")"
says 'c: is still being mounted' ctl unmount c
ok ctl unmount c --force
equal "$(state c)" unmounted
lower_goes_on
nap 300ms
! mountpoint -q "$TMP/c" || fail "a mount that was given up came up"
kill -TERM "$DAEMON"
daemon_ended_well

# A reload that waits for the users of a mount, at a path that hangs, is answered if another one removes that mount meanwhile.
mkdir "$SRC/a/place"
{ conf_b; printf '[mount:d]\nsource = %s\nmountpoint = %s\n' "$SRC/b" "$LOWER/place"; } >"$CONF"
start
within 5s state_is d mounted || fail "d is $(state d)"
conf_b >"$CONF"
lower_hangs
"$RATEFSCTL" reload >"$TMP/said" 2>&1 &
client=$!
nap 500ms
"$RATEFSCTL" reload --force >/dev/null 2>&1 &
other=$!
within 4s gone $client || fail "a reload is never answered"
wait $client || fail "reload: $(cat "$TMP/said")"
lower_goes_on
wait $other
kill -TERM "$DAEMON"
daemon_ended_well

# A configuration file or a profile that hangs delays only the reload, which is refused after a while.
mkdir "$SRC/a/profiles"
printf '[profile]\ntitle = of this test\n[options]\niops = 300\n' >"$SRC/a/profiles/own.ini"
export RATEFS_PROFILES=$LOWER/profiles
for what in file profile; do
	case $what in
	file) CONF=$LOWER/ratefs.conf file=$SRC/a/ratefs.conf hung=$LOWER/ratefs.conf ;;
	profile) CONF=$TMP/ratefs.conf file=$TMP/ratefs.conf hung=$LOWER/profiles/own.ini ;;
	esac
	{ conf_b; echo "profile = own"; } >"$file"
	start
	{ conf_b | sed s/1k/3k/; echo "profile = own"; } >"$file"
	lower_hangs
	"$RATEFSCTL" reload >"$TMP/said" 2>&1 &
	client=$!
	kill -HUP "$DAEMON"
	nap 300ms
	alive
	wait $client && fail "a reload whose $what hangs has worked"
	grep -qF "$hung: does not respond" "$TMP/said" || fail "$what: reload said: $(cat "$TMP/said")"
	says "$hung: does not respond" ctl reload # immediately, as long as the first attempt hangs
	alive
	lower_goes_on
	reloads() { ctl reload >/dev/null 2>&1 && [ "$(ctl show b --json | jq -r .options.iops.value)" = 3k ]; }
	within 10s reloads || fail "$what: no reload after it hung"
	kill -TERM "$DAEMON"
	daemon_ended_well
done
unset RATEFS_PROFILES
CONF=$TMP/ratefs.conf

# A daemon that starts with such a source: the other mounts come up, though later, and the daemon
# can be ended.
lower_hangs
{ conf_a "$LOWER/."; conf_b; } >"$CONF"
start
alive
equal "$(state a)" mounting
kill -TERM "$DAEMON"
unmounted() { ! mountpoint -q "$1"; }
within 2s unmounted "$TMP/b" || fail "b is still mounted"
kill -TERM "$DAEMON"
within 5s grep -q "mount 'a': left while it was being mounted: source '$LOWER'" "$LOG" || fail "nothing was said"
lower_goes_on
within 5s gone "$DAEMON" || fail "told twice, and still there"
wait "$DAEMON"
DAEMON=
umount -l "$TMP/a" 2>/dev/null

# SIGTERM while the source hangs: the control plane continues.  A second SIGTERM releases all mounts
# and clients, and the log says what was abandoned.  (The process exits when the kernel releases its
# threads.)
{ conf_a "$LOWER"; conf_b; } >"$CONF"
start
hang
kill -TERM "$DAEMON"
nap 300ms
before 1s ctl list >"$TMP/said"
grep -Eq 'a +unmounting' "$TMP/said" || fail "$(cat "$TMP/said")"
! mountpoint -q "$TMP/b" || fail "b is still mounted"
kill -TERM "$DAEMON"
within 2s gone "$PARKED" || fail "clients hang"
! mountpoint -q "$TMP/a" || fail "a is still mounted"
within 2s grep -Eq "mount 'a': abandoned 5 requests in the source: read, for" "$LOG" || fail "nothing was said"
lower_goes_on
within 5s gone "$DAEMON" || fail "told twice, and still there"
wait "$DAEMON"
equal $? 1 "exit code"
DAEMON=

# A single SIGTERM does the same, after a while.
start
hang
t0=$(now_ms)
kill -TERM "$DAEMON"
within 15s gone "$PARKED" || fail "clients hang"
t=$(($(now_ms) - t0))
[ $t -gt 5000 ] || fail "abandoned after $t ms, without patience"
lower_goes_on
within 5s gone "$DAEMON" || fail "still there"
wait "$DAEMON"
DAEMON=
# Every command of the protocol that concerns the mount whose source hangs is answered immediately.
start
hang
cat >"$TMP/all.py" <<'END'
import json, socket, sys, time
asked = [
    {"do": "list"}, {"do": "find", "target": "a"}, {"do": "show", "target": "a"},
    {"do": "set", "target": "a", "values": {"iops": 5000}}, {"do": "stats", "target": "a", "keys": 100}, {"do": "stats"},
    {"do": "reset-stats"}, {"do": "pause", "target": "a"}, {"do": "resume", "target": "a"},
    {"do": "class-add", "target": "a", "class": "x", "values": {"match": "uid:7", "bps": "1M"}},
    {"do": "class-list"}, {"do": "class-remove", "target": "a/x"},
    {"do": "set", "target": "a", "values": {"size": "10G"}}, {"do": "rescan", "target": "a"},
    {"do": "stats", "target": "a"}, {"do": "set", "target": "a", "values": {"size": "off"}},
    {"do": "mount", "target": "a"}, {"do": "reload"}, {"do": "subscribe", "target": "a"}, {"do": "unmount", "target": "b"},
    {"do": "mount", "target": "b"},
]
commands = set(sys.argv[2:])
for request in asked:
    s = socket.socket(socket.AF_UNIX); s.settimeout(10); s.connect(sys.argv[1])
    begin = time.monotonic()
    s.sendall(json.dumps({"v": 1, **request}).encode() + b"\n")
    answer = s.makefile().readline()
    took = time.monotonic() - begin
    commands.discard(request["do"])
    if not answer or took > 1:
        print(request, "took", took, "answer", answer)
if commands:
    print("not asked:", *commands)
END
mapfile -t commands < <(sed -n 's/^[[:blank:]]*{"\([a-z-]*\)", do_.*/\1/p' "${srcdir:-.}/src/daemon/commands.c")
equal "$(python3 "$TMP/all.py" /run/ratefs/*-"$DAEMON".sock "${commands[@]}")" "" "commands that had to wait"
alive
kill -TERM "$DAEMON"
within 5s state_is a unmounting || fail "SIGTERM was ignored" # two signals that are both pending would be one
kill -TERM "$DAEMON"
within 5s gone "$PARKED" || fail "clients hang"
lower_goes_on
within 10s gone "$DAEMON" || fail "still there"
wait "$DAEMON"
DAEMON=

# The credentials of a pool hang when its helper is started again.
if [ -x "$BIN/ratefs-pool" ]; then
	(umask 077 && echo secret >"$SRC/a/auth")
	{ conf_b; printf 'pool = p\n[pool:p]\nserver = redis://127.0.0.1:1\nauth_file = %s\nbps = 1G\n' "$LOWER/auth"; } >"$CONF"
	start
	helper_runs() { pgrep -x ratefs-pool >/dev/null; }
	within 5s helper_runs || fail "no helper"
	lower_hangs
	pkill -9 -x ratefs-pool
	not_there() { ctl stats pool:p --json | grep -q "auth_file: $LOWER/auth does not respond"; }
	within 15s not_there || fail "nothing is said: $(ctl stats pool:p --json)"
	before 1s ctl list >/dev/null
	lower_goes_on
	within 15s helper_runs || fail "no helper afterwards"
	kill -TERM "$DAEMON"
	daemon_ended_well
fi
lower_gone
