#!/bin/bash
# SPDX-License-Identifier: MIT
# Rules by user and by program, measured: caps for each, weights, reservations.
. "${srcdir:-.}/tests/mount/lib.sh" || exit 1
. "${srcdir:-.}/tests/mount/rules_lib.sh" || exit 1
requires helper:shares jq

backing tmpfs
head -c 1M /dev/zero >"$SRC/file"
chmod 666 "$SRC/file"
# A cap for each user, however many processes the user has; it can be changed while they run.
mount_ratefs -o fair=uid,each.read_bps=2M,name=m
together 2 a="as_user alice shares" b="as_user bob shares"
near "${GOT[a]}" $((2 * MIB)) 2 "a user with four processes and a cap of 2 MiB/s"
near "${GOT[b]}" $((2 * MIB)) 2 "a user beside him"
ok ctl set m each.read_bps=4M >/dev/null
nap 200ms
together 1.5 a="as_user alice shares" b="as_user bob shares"
near "${GOT[a]}" $((4 * MIB)) 1.5 "a user with a cap of 4 MiB/s"
near "${GOT[b]}" $((4 * MIB)) 1.5 "another user with a cap of 4 MiB/s"
ctl stats m --json | jq -e '.limits_met[] | select(.name == "each.read_bps") | .bottleneck' >/dev/null ||
	fail "the limit for each is not marked"
ctl stats m --json | jq -e '.keys_by_wait[0].each.read_bps.level < 500000' >/dev/null || fail "keys do not show their caps"

# Weights of classes: 3 to 1.
ok ctl set m each.read_bps=off read_bps=8M >/dev/null
ok ctl class add m first match=uid:1001 weight=3
ok ctl class add m second match=uid:1002
together 2 a="as_user alice shares" b="as_user bob shares"
near "${GOT[a]}" $((6 * MIB)) 2 "a class with weight 3"
near $((GOT[b] + GOT[b2])) $((2 * MIB)) 2 "a class with weight 1"

# A reservation comes before weights.
ok ctl set m bps=8M >/dev/null
says "reservations in mount 'm' add up to 9M, above its bps=8M" ctl set m/second reserve.bps=9M
ok ctl set m/second reserve.bps=5M >/dev/null
says "reservations in global add up to 5M, above its bps=4M" ctl set global bps=4M
says "reservations in fs 'm' add up to 5M, above its bps=4M" ctl set fs:m bps=4M
together 2 a="as_user alice shares" b="as_user bob shares"
near "${GOT[b]}" $((5 * MIB)) 2 "a class with a reservation of 5 MiB/s"
near "${GOT[a]}" $((3 * MIB)) 2 "what the other class has left"

# Programs.
cp "$BIN/shares" "$BIN/alpha"
cp "$BIN/shares" "$BIN/beta"
ok ctl class remove m/first
ok ctl class remove m/second
ok ctl class add m a match=comm:alpha bps=1M
ok ctl class add m b 'match=comm:bet*' bps=3M
together 2 a="$BIN/alpha" b="$BIN/beta"
near "${GOT[a]}" $MIB 2 "a program with a limit of 1 MiB/s"
near "${GOT[b]}" $((3 * MIB)) 2 "a program with a limit of 3 MiB/s"
ctl list | grep -Eq '^m/[ab] +class .*bps=[13]M\*' || fail "the limit of a class is not marked in list: $(ctl list)"
equal "$(ctl class list m | awk 'NR > 1 { print $1, $3 }' | tr '\n' ' ')" "m/a comm:alpha m/b comm:bet* "
ok ctl class remove m/a
ok ctl class remove m/b

# Cgroups: two with limits, below a parent that bounds both, and one that no rule names.
if make_cgroups one two two/deep three; then
	ok ctl class add m all 'match=none' read_bps=5M
	ok ctl class add m one "match=cgroup:$(cgroup_path one)" read_bps=1M parent=all
	ok ctl class add m two "match=cgroup:$(cgroup_path two)/**" parent=all
	ok ctl set m bps=off read_bps=off >/dev/null
	ok ctl set m read_bps=8M >/dev/null
	together 2 one="in_cgroup one shares" two="in_cgroup two/deep shares" three="in_cgroup three shares"
	near "${GOT[one]}" $MIB 2 "a cgroup with a limit of 1 MiB/s"
	near "${GOT[two]}" $((3 * MIB)) 2 "what is left of the parent's share of 4 MiB/s"
	near "${GOT[three]}" $((4 * MIB)) 2 "one that no rule names"
	remove_cgroups
else
	say "no cgroups"
fi
unmount_ratefs
