#!/bin/bash
# SPDX-License-Identifier: MIT
# A reload takes effect as a whole: observers see the limits of all scopes change together, one bad line changes nothing,
# and what is the same in the file keeps its state.
. "${srcdir:-.}/tests/mount/lib.sh" || exit 1
requires jq python3

backing tmpfs
mkdir "$TMP/m1" "$TMP/m2"
head -c 1M /dev/zero >"$SRC/file"
CONF=$TMP/ratefs.conf
LOG_EXPECTED=.

write_conf() { # RATE
	cat >"$CONF" <<-END
	[global]
	bps = $1
	[fs:data]
	source = $SRC
	bps = $1
	[mount:one]
	fs = data
	mountpoint = $TMP/m1
	bps = $1
	[mount:two]
	fs = data
	mountpoint = $TMP/m2
	iops = 5
	[class:some]
	mounts = one
	match = uid:12345
	bps = $1
	[weights]
	uid:12345 = 3
	END
}
write_conf 1000000
"$RATEFS" -f -c "$CONF" >"$LOG" 2>&1 &
DAEMON=$!
serving() { grep -q serving "$LOG" || gone "$DAEMON"; }
within 5s serving || fail "no mounts"
SOCK=$(echo /run/ratefs/*-"$DAEMON".sock)
everything() {
	local t
	for t in global fs:data one two one/some; do ctl show "$t" --json; done
	ctl list --json | jq '.daemons[].mounts'
}

# An observer keeps asking for the class; the answer contains the limits of its mount, of the fs and
# of the global scope.
cat >"$TMP/observe.py" <<'END'
import json, os, socket, sys
s = socket.socket(socket.AF_UNIX); s.connect(sys.argv[1]); f = s.makefile("rw")
seen = {}
while not os.path.exists(sys.argv[2]):
    f.write('{"v":1,"do":"stats","target":"one/some"}\n'); f.flush()
    limits = [l for l in json.loads(f.readline())["limits_met"] if l["name"] == "bps"]
    rates = tuple(sorted({int(l["rate"]) for l in limits}))
    seen[rates, len(limits)] = seen.get((rates, len(limits)), 0) + 1
for what, n in sorted(seen.items()):
    print(*what[0], "of", what[1])
END
python3 "$TMP/observe.py" "$SOCK" "$TMP/stop" >"$TMP/seen" 2>"$TMP/observe.err" &
observer=$!
nap 300ms
for i in 1 2 3 4 5 6 7 8 9 10; do
	write_conf 2000000
	ok ctl reload >/dev/null
	nap 30ms
	write_conf 1000000
	ok ctl reload >/dev/null
	nap 30ms
done
touch "$TMP/stop"
wait $observer || fail "the observer: $(cat "$TMP/observe.err")"
equal "$(cat "$TMP/seen")" "$(printf '1000000 of 4\n2000000 of 4')" "what was seen of four scopes"

# One bad line among good ones: nothing changes, whichever scope it is in.
everything >"$TMP/before"
# shellcheck disable=SC2016 # sed's $
for bad in 's/^iops = 5/iops = 5Q/' 's/^match = .*/match = uid:/' 's/^uid:12345 = 3/uid:12345 = none/' '$anonsense'; do
	write_conf 3000000
	sed -i "$bad" "$CONF"
	says 'ratefs.conf' ctl reload
	everything >"$TMP/after"
	cmp -s "$TMP/before" "$TMP/after" || fail "$bad: $(diff "$TMP/before" "$TMP/after")"
done

# Unchanged limits keep their state: a reload that changes other scopes does not refill the empty
# bucket of `two`.
write_conf 1000000
ok ctl reload >/dev/null
for i in 1 2 3; do cat "$TMP/m2/file" >/dev/null; done
spent=$(ctl stats two --json | jq '.limits_met[] | select(.scope == "mount" and .name == "iops") | .level')
write_conf 2000000
ok ctl reload >/dev/null
level=$(ctl stats two --json | jq '.limits_met[] | select(.scope == "mount" and .name == "iops") | .level')
awk -v a="$spent" -v b="$level" 'BEGIN { exit !(b <= a + 3) }' || fail "a reload refilled what it should not touch: $spent, then $level"

kill -TERM "$DAEMON"
daemon_ended_well
