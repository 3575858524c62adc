#!/bin/bash
# SPDX-License-Identifier: MIT
# A cap for each user of a mount holds for all that the user does, whichever classes take it.
. "${srcdir:-.}/tests/mount/lib.sh" || exit 1
. "${srcdir:-.}/tests/mount/rules_lib.sh" || exit 1
requires helper:shares jq

backing tmpfs
head -c 1M /dev/zero >"$SRC/file"
chmod 666 "$SRC/file"
cp "$BIN/shares" "$BIN/alpha"
cp "$BIN/shares" "$BIN/beta"
both() { # WHAT RATE SECONDS: each user, with all programs together
	near $((GOT[a] + GOT[a2] + GOT[a3])) "$2" "$3" "alice, $1"
	near $((GOT[b] + GOT[b2])) "$2" "$3" "bob, $1"
}
all() { # SECONDS
	together "$1" a="as_user alice shares" a2="as_user alice $BIN/alpha" a3="as_user alice $BIN/beta" \
		b="as_user bob shares" b2="as_user bob $BIN/alpha"
}

# Two classes by program, one inside the other, whose keys are processes.
mount_ratefs -o fair=uid,each.bps=2M,name=m
ok ctl class add m a match=comm:alpha
ok ctl class add m b match=comm:beta parent=a
all 2
both "with classes" $((2 * MIB)) 2
for who in a a2 a3 b b2; do
	[ "${GOT[$who]}" -ge $((MIB / 8)) ] || fail "$who was left with ${GOT[$who]} bytes"
done
# The class has twice as many processes as alice has outside it, and still gets half of her cap.
half=$((2 * 2 * MIB / 2))
awk "BEGIN { exit !(${GOT[a]} >= $half * 0.8 && ${GOT[a]} <= $half * 1.2) }" ||
	fail "alice read ${GOT[a]} bytes outside the class, not about $half"
ctl stats m/b --json | jq -e '.limits_met[] | select(.scope == "mount" and .name == "each.bps") | .bottleneck' >/dev/null ||
	fail "the cap of the mount is not marked at the class"
equal "$(ctl stats m/a --json | jq -c '[.keys_by_wait[] | select(.class == "a") | .limit | [.scope, .name]] | unique')" \
	'[["mount","each.bps"]]' "what the keys of a class wait for"
ctl list | grep -Eq '^m +mounted .* each.bps=2M\*' || fail "the cap is not marked in list: $(ctl list)"

# A cap of the class as well: the smaller one holds, for each of its processes.
ok ctl set m/b each.bps=64K >/dev/null
nap 200ms
all 2
both "with a cap in a class, too" $((2 * MIB)) 2
[ "${GOT[a3]}" -le $((2 * 4 * 65536 * 12 / 10)) ] || fail "beta read ${GOT[a3]} bytes, past 64 KiB/s for each process"

# Both change while requests of the classes wait; then the classes go.
all 2.5 &
nap 1.2s
ok ctl set m each.bps=4M >/dev/null
ok ctl set m/b each.bps=off parent=none >/dev/null
ok ctl class remove m/a
wait $! || fail "readers beside changes"
ok ctl class add m a match=op:read fair=cgroup
all 2
both "with another cap" $((4 * MIB)) 2
unmount_ratefs
