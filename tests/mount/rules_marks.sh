#!/bin/bash
# SPDX-License-Identifier: MIT
# The limit that is marked is the one that makes the requests of this mount or class wait: not one that only others wait
# for, though it applies to both.  Statistics of a class include the classes inside it.
. "${srcdir:-.}/tests/mount/lib.sh" || exit 1
. "${srcdir:-.}/tests/mount/rules_lib.sh" || exit 1
LOG_EXPECTED="$LOG_EXPECTED|reloaded"
requires helper:shares jq

backing tmpfs
head -c 1M /dev/zero >"$SRC/file"
chmod 644 "$SRC/file"
CONF=$TMP/conf
mkdir "$TMP/idle"
cat >"$CONF" <<END
[global]
read_bps = 8M
[mount:m]
source = $SRC
mountpoint = $MNT
fair = uid
each.read_bps = 1M
max_keys = 1
[mount:idle]
source = $SRC
mountpoint = $TMP/idle
[class:outer]
mounts = m
[class:inner]
mounts = m
parent = outer
match = comm:alpha
read_bps = 256K
END
cp "$BIN/shares" "$BIN/alpha"
"$RATEFS" -f -c "$CONF" >"$LOG" 2>&1 &
DAEMON=$!
within 10s answers || fail "the mount did not come up"
marked() { ctl stats "$1" --json | jq -r '[.limits_met[] | select(.bottleneck) | .scope + ":" + .of + "." + .name] | join(" ")'; }

# One program waits at the cap of its user, the other one at the limit of its class.
together 2 a="as_user alice shares" b="as_user bob $BIN/alpha"
near "${GOT[a]}" $MIB 2 "alice"
near "${GOT[b]}" $((MIB / 4)) 2 "bob, in a class"
equal "$(marked m/inner)" class:inner.read_bps "the mark of a class"
equal "$(marked m/outer)" "" "the mark of a class whose requests wait inside it"
equal "$(marked idle)" "" "the mark of a mount without requests"
ctl stats m/outer --json | jq -e '[.keys_by_wait[].class] == ["inner","inner","inner","inner"]' >/dev/null ||
	fail "statistics of a class do not include the keys of a class inside it: $(ctl stats m/outer)"

# The limit of all mounts makes one of them wait, and not the other.
ok ctl set m each.read_bps=off >/dev/null
ok ctl set m/inner read_bps=off >/dev/null
ok ctl reset-stats
together 1 a="as_user alice shares" b="as_user bob shares"
equal "$(marked m)" global:global.read_bps "the mark of a mount"
equal "$(marked idle)" "" "the mark of an idle mount beside it"
equal "$(ctl list --json | jq -c '[.daemons[0].mounts[] | [.limits_met[] | .bottleneck] | any]')" '[true,false]' "marks in list"
equal "$(marked global)" global:global.read_bps "the mark of global"

# Before anybody has been admitted, what requests wait for now is marked.
ok ctl set m read_iops=1 >/dev/null
ok ctl reset-stats
park_readers 5
ok ctl reset-stats
equal "$(marked m)" mount:m.read_iops "the mark while all wait"
unpark

# Past max_keys, the keys that callers share are named.
ok ctl set m read_iops=100 >/dev/null
ok ctl reset-stats
together 1 a="as_user alice shares" b="as_user bob shares"
ctl stats m --json | jq -e 'any(.keys_by_wait[]; .kind == "shared")' >/dev/null || fail "shared keys are not named: $(ctl stats m)"
stop_ratefs
