#!/bin/bash
# SPDX-License-Identifier: MIT
# Every example of ratefs-control(7) works, errors have their codes, and events arrive.
. "${srcdir:-.}/tests/mount/lib.sh" || exit 1
requires helper:iogen jq python3

backing tmpfs
head -c 1M /dev/zero >"$SRC/file"
printf '[mount:slow]\nsource = %s\nmountpoint = %s\nread_bps = 50M\n' "$SRC" "$MNT" >"$TMP/c.conf"
page=${srcdir:-.}/man/ratefs-control.7
control=${srcdir:-.}/conf/examples/control.py
"$RATEFS" -c "$TMP/c.conf" || fail "-c"
SOCK=$(echo /run/ratefs/*.sock)

# Sends each line of stdin over one connection and prints the answers.
ask() {
	python3 -c '
import socket, sys
s = socket.socket(socket.AF_UNIX); s.connect(sys.argv[1]); f = s.makefile("rw")
for line in sys.stdin:
    f.write(line); f.flush(); print(f.readline(), end="")' "$SOCK"
}
code() { # CODE REQUEST
	equal "$(ask <<<"$2" | jq -r '.error.code // "ok"')" "$1" "$2"
}

code wrong-state '{"v":1,"do":"rescan","target":"slow"}' # before it has a size
code wrong-state '{"v":1,"do":"mount","target":"slow"}' # it is mounted
# The examples, in the order of the page.  subscribe is the last one.
sed -n 's/^\.Dl \({.*\)$/\1/p' "$page" >"$TMP/examples"
[ "$(wc -l <"$TMP/examples")" -ge 15 ] || fail "the page has too few examples"
ask <"$TMP/examples" >"$TMP/answers"
equal "$(wc -l <"$TMP/answers")" "$(wc -l <"$TMP/examples")" "answers"
paste "$TMP/examples" "$TMP/answers" | while IFS=$'\t' read -r request answer; do
	[ "$(jq -r '.v == 1 and .ok' <<<"$answer")" = true ] || fail "$request: $answer"
done || exit 1
equal "$(jq -r 'select(.id) | .id' "$TMP/answers")" mine "the id of a request"
# Each command of the daemon has an example there.
while read -r command; do
	grep -q "\"do\":\"$command\"" "$TMP/examples" || fail "no example of $command"
done < <(sed -n 's/^[[:blank:]]*{"\([a-z-]*\)", do_.*/\1/p' "${srcdir:-.}/src/daemon/commands.c")
equal "$(ctl show slow --json | jq -r .options.iops.value)" off "what reload undid"

# Every member is in the page; those of some objects are named by options, limits or operations.
jq -r '[paths | map(select(type == "string")) | select(length > 0) |
	select(length < 2 or (.[-2] | IN("options", "values", "classes", "limits", "each", "share") | not)) | .[-1]] | unique[]' \
	"$TMP/answers" | sort -u >"$TMP/members"
[ "$(wc -l <"$TMP/members")" -ge 90 ] || fail "the answers have few members: $(cat "$TMP/members")"
while read -r member; do
	grep -qE "(Ql|Pq Ql) ([a-z_0-9]+ , )*$member( |\$)" "$page" || fail "$member: is not in the page"
done <"$TMP/members"

# Codes.
code bad-request 'list'
code bad-request '{"do":"list"}'
code bad-version '{"v":2,"do":"list"}'
code unknown-command '{"v":1,"do":"lst"}'
code bad-argument '{"v":1,"do":"show"}'
code bad-argument '{"v":1,"do":"list","force":true}'
code bad-request '{"v":"1","do":"list"}'
code bad-argument '{"v":1,"do":"stats","keys":-1}'
code bad-argument '{"v":1,"do":"subscribe","min_wait_ns":-1}'
code bad-argument '{"v":1,"do":"subscribe","key":-1}'
equal "$(ask <<<'{"v":1,"do":"subscribe","key":1.5}' | jq -r .error.text)" '"key" is not a string or a whole number, 0 or larger'
code no-target '{"v":1,"do":"show","target":"nothing"}'
code wrong-target '{"v":1,"do":"class-remove","target":"slow"}'
code unknown-option '{"v":1,"do":"set","target":"slow","values":{"ipos":5}}'
code bad-value '{"v":1,"do":"set","target":"slow","values":{"iops":5,"bps":"5X"}}'
code not-live '{"v":1,"do":"set","target":"slow","values":{"cache":"strict"}}'
code ok '{"v":1,"do":"set","target":"slow","values":{"iops":5000,"dry_run":false}}'
exec 5<"$MNT/file"
code in-use '{"v":1,"do":"unmount","target":"slow"}'
exec 5<&-
code ok '{"v":1,"do":"class-add","target":"slow","class":"idle","values":{"match":"uid:7"}}'
code ok '{"v":1,"do":"unmount","target":"slow","force":true}'
code wrong-state '{"v":1,"do":"pause","target":"slow/idle"}'
code ok '{"v":1,"do":"mount","target":"slow"}'
code ok '{"v":1,"do":"class-remove","target":"slow/idle"}'
equal "$(ask <<<'{"v":1,"do":"unmount","target":"slow/no"}' | jq -r .error.place)" slow/no "the place of an error"
# The error and its remedy are separate members; ratefsctl joins them.
parts() { # TEXT REMEDY REQUEST
	equal "$(ask <<<"$3" | jq -r '.error | .text + "|" + .remedy + "|" + .place')" "$1|$2|slow" "$3"
}
parts "unknown option 'ipos'" "did you mean 'iops'?" '{"v":1,"do":"set","target":"slow","values":{"ipos":5}}'
parts "bps: '10mbit': bits are not accepted" "write bytes, for example 1250K" '{"v":1,"do":"set","target":"slow","values":{"bps":"10mbit"}}'
parts "window: '100': has no unit" "write for example 100ms or 100s" '{"v":1,"do":"set","target":"slow","values":{"window":100}}'
parts "cache: cannot be changed while it is mounted" "change the configuration and mount it anew" \
	'{"v":1,"do":"set","target":"slow","values":{"cache":"strict"}}'
says "slow: window: '100': has no unit; write for example 100ms or 100s" ctl set slow window=100
echo nonsense >>"$TMP/c.conf"
code bad-file '{"v":1,"do":"reload"}'
sed -i '$d' "$TMP/c.conf"

# The example program.
[ "$(wc -l <"$control")" -le 30 ] || fail "control.py is no longer short"
says 'no running ratefs daemons' env RATEFS_RUNTIME_DIR="$TMP/none" "$control" list
timeout 20 "$control" subscribe target=slow >"$TMP/events" 2>&1 &
subscriber=$!
within 5s grep -q '"ok": true' "$TMP/events" || fail "control.py subscribe: $(cat "$TMP/events")"
! "$control" show slow 2>"$TMP/usage" || fail "control.py takes a word that is not MEMBER=VALUE"
grep -q 'COMMAND \[MEMBER=VALUE...\]' "$TMP/usage" || fail "control.py says: $(cat "$TMP/usage")"
"$control" show target=slow | jq -e '.options.iops.value == "5k"' >/dev/null || fail "control.py show"
"$control" set target=slow 'values={"iops": 70, "bps": 1e6, "dry_run": true}' |
	jq -e '.values.iops == "70" and .values.dry_run == "yes"' >/dev/null || fail "control.py set: numbers and booleans"
equal "$("$control" stats target=slow | jq '.limits_met[] | select(.scope == "mount" and .name == "bps") | .rate')" 1000000 "1e6"
"$control" set target=slow 'values={"bps": "off", "dry_run": false, "iops": 5000.0}' >/dev/null || fail "control.py set"
equal "$("$control" stats target=slow keys=0 | jq -c .dry_run)" false "dry_run by control.py"
says 'no-target' "$control" unmount target=nothing force=true
"$control" set target=slow 'values={"read_bps": "1M"}' | jq -e '.values.read_bps == "1M"' >/dev/null || fail "control.py set"
says 'no-target' "$control" show target=nothing
within 5s grep -q '"event": "limit_changed".*"read_bps"' "$TMP/events" || fail "control.py subscribe: $(cat "$TMP/events")"
kill $subscriber
wait $subscriber 2>/dev/null

# trace, as JSON and as text: a reader that waits, a change of a limit, a reader that is killed.
"$RATEFSCTL" trace slow --json >"$TMP/trace" 2>"$TMP/trace.err" &
json=$!
"$RATEFSCTL" trace slow --min-wait=20ms >"$TMP/people" &
people=$!
"$RATEFSCTL" trace --key=no-such-command >"$TMP/none" &
none=$!
subscribed() { [ "$(find "/proc/$(pgrep -nx ratefs)/fd" -lname 'socket:*' | wc -l)" -ge 4 ]; }
within 10s subscribed || fail "trace does not subscribe"
iogen --op read --size 64K --count 32 --path "$MNT/file" >/dev/null || fail "iogen"
ctl set slow write_bps=5M >/dev/null || fail "set"
ctl pause slow >/dev/null
cat "$MNT/file" >/dev/null 2>&1 &
reader=$!
nap 300ms
kill -9 $reader
wait $reader 2>/dev/null
ctl resume slow >/dev/null
arrived() { grep -q '"event":"resumed"' "$TMP/trace"; }
within 10s arrived || fail "events are missing: $(cat "$TMP/trace" "$TMP/trace.err")"
jq -se '[.[] | select(.event == "admitted" and .op == "read" and .limit.name == "read_bps" and .command == "iogen" and .wait_ns > 0)] | length > 10' \
	"$TMP/trace" >/dev/null || fail "admitted: $(head -3 "$TMP/trace")"
jq -se '[.[] | select(.event == "limit_changed" and .key == "write_bps" and .value == "5M")] | length == 1' "$TMP/trace" >/dev/null ||
	fail "limit_changed"
jq -se '[.[] | select(.event == "cancelled")] | length >= 1' "$TMP/trace" >/dev/null || fail "cancelled"
grep -Eq 'slow +admitted +read +64\.0K after [0-9.]+m?s for read_bps  process [0-9]+ iogen \(root\)' "$TMP/people" ||
	fail "trace for people: $(head -3 "$TMP/people")"
! grep -q limit_changed "$TMP/people" || fail "--min-wait shows changes"
equal "$(cat "$TMP/none")" "" "events of nobody"
kill $json $people $none
wait $json $people $none 2>/dev/null

# A subscriber that never reads costs the daemon a buffer, and does not affect others.
python3 -c '
import socket, sys, time
s = socket.socket(socket.AF_UNIX); s.connect(sys.argv[1])
s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
s.sendall(b"{\"v\":1,\"do\":\"subscribe\"}\n")
print("up", flush=True)
sys.stdin.readline()
f = s.makefile("rb")
lost = got = 0
s.settimeout(5)
try:
    for line in f:
        got += 1
        if b"\"dropped\"" in line:
            lost += int(line.split(b":")[-1].strip(b"}\n"))
            break
except OSError:
    pass
print(got, lost, flush=True)' "$SOCK" >"$TMP/deaf" < <(sleep 9; echo) &
deaf=$!
within 5s grep -q up "$TMP/deaf" || fail "the subscriber is not there"
ok ctl set slow read_bps=off iops=4k window=1ms >/dev/null
iogen --op fsync --clients 8 --time 5 --path "$MNT/file" >/dev/null 2>&1 || true
before 2s ctl stats slow >/dev/null
wait $deaf
read -r got lost < <(tail -n 1 "$TMP/deaf")
[ "$got" -gt 100 ] && [ "$lost" -gt 0 ] || fail "of a deaf subscriber's events $got arrived and $lost were counted as lost"
[ "$(ctl stats slow --json | jq '.parked_now')" = 0 ] || fail "requests are left"
ctl unmount slow --force >/dev/null || fail "unmount"
