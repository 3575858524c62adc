#!/bin/bash
# SPDX-License-Identifier: MIT
# Rules by user and by program, measured: caps for each, weights, reservations.
. "${srcdir:-.}/tests/mount/lib.sh" || exit 1
. "${srcdir:-.}/tests/mount/rules_lib.sh" || exit 1
requires helper:shares jq

backing tmpfs
head -c 1M /dev/zero >"$SRC/file"
chmod 666 "$SRC/file"
# Rates are low and readers many, so that some requests of each class wait all the time, and the window is wide, so that nothing
# is lost if this machine stops for a quarter of a second.
READERS=8
# A cap for each user, however many processes the user has; it can be changed while they run.
mount_ratefs -o fair=uid,each.read_bps=512K,window=250ms,name=m
together 2 a="as_user alice shares" b="as_user bob shares"
near "${GOT[a]}" $((MIB / 2)) 2 "a user with many processes and a cap of 512 KiB/s"
near "${GOT[b]}" $((MIB / 2)) 2 "a user beside him"
ok ctl set m each.read_bps=1M >/dev/null
nap 200ms
together 2 a="as_user alice shares" b="as_user bob shares"
near "${GOT[a]}" $MIB 2 "a user with a cap of 1 MiB/s"
near "${GOT[b]}" $MIB 2 "another user with a cap of 1 MiB/s"
ctl stats m --json | jq -e '.limits_met[] | select(.name == "each.read_bps") | .bottleneck' >/dev/null ||
	fail "the limit for each is not marked"
ctl stats m --json | jq -e '.keys_by_wait[0].each.read_bps.level < 500000' >/dev/null || fail "keys do not show their caps"

# Weights of classes: 3 to 1; inside the first, 1 to 2.
ok ctl set m each.read_bps=off read_bps=2M >/dev/null
ok ctl class add m first match=uid:1001 weight=3
ok ctl class add m second match=uid:1002
together 2 a="as_user alice shares" b="as_user bob shares"
near $((GOT[a] + GOT[b])) $((2 * MIB)) 2 "two classes with a limit of 2 MiB/s"
shares_are "${GOT[a]}" "${GOT[b]}" 3 "classes with weights 3 and 1"
ok ctl class add m inner match=uid:1003 parent=first weight=2
ok ctl set m/first fair=uid >/dev/null
together 2 a="as_user alice shares" b="as_user bob shares" c="as_user 1003 shares"
near $((GOT[a] + GOT[b] + GOT[c])) $((2 * MIB)) 2 "three classes with a limit of 2 MiB/s"
shares_are $((GOT[a] + GOT[c])) "${GOT[b]}" 3 "classes with weights 3 and 1, when there is another one in the first"
shares_are "${GOT[c]}" "${GOT[a]}" 2 "a class with weight 2 and a user beside it"
ok ctl class remove m/inner

# The same at the cap of one user, who uses three programs.
cp "$BIN/shares" "$BIN/alpha"
cp "$BIN/shares" "$BIN/beta"
cp "$BIN/shares" "$BIN/gamma"
ok ctl set m read_bps=off each.read_bps=2M >/dev/null
ok ctl class add m outer match=none weight=3
ok ctl class add m alpha match=comm:alpha parent=outer --before=first
ok ctl class add m beta match=comm:beta parent=outer weight=2 --before=first
ok ctl class add m gamma match=comm:gamma --before=first
together 2 a="as_user alice $BIN/alpha" b="as_user alice $BIN/beta" c="as_user alice $BIN/gamma"
near $((GOT[a] + GOT[b] + GOT[c])) $((2 * MIB)) 2 "three programs of a user with a cap of 2 MiB/s"
shares_are $((GOT[a] + GOT[b])) "${GOT[c]}" 3 "classes with weights 3 and 1 at the cap of a user"
shares_are "${GOT[b]}" "${GOT[a]}" 2 "classes with weights 2 and 1 in a class, at the cap of a user"
for class in alpha beta outer gamma; do ok ctl class remove "m/$class"; done
ok ctl set m each.read_bps=off read_bps=2M >/dev/null

# A reservation comes before weights.
ok ctl set m bps=2M >/dev/null
says "reservations in mount 'm' add up to 3M, above its bps=2M" ctl set m/second reserve.bps=3M
ok ctl set m/second reserve.bps=1280K >/dev/null
says "global: reserve.bps: reservations in global add up to 1280K, above its bps=1M" ctl set global bps=1M
says "fs:m: reserve.bps: reservations in fs 'm' add up to 1280K, above its bps=1M" ctl set fs:m bps=1M
together 2 a="as_user alice shares" b="as_user bob shares"
near $((GOT[a] + GOT[b])) $((2 * MIB)) 2 "a class with a reservation and another one"
near "${GOT[b]}" $((1280 * 1024)) 2 "a class with a reservation of 1280 KiB/s"
near "${GOT[a]}" $((768 * 1024)) 2 "what the other class has left"

# The same for operations, of a program beside another one with more weight.
ok ctl set m bps=off read_bps=off >/dev/null
ok ctl set m iops=100 >/dev/null
ok ctl class add m heavy match=comm:alpha weight=9 --before=first
ok ctl class add m light match=comm:beta reserve.iops=60 --before=first
together 2 a="as_user alice $BIN/alpha" b="as_user alice $BIN/beta"
near "${GOT[b]}" $((60 * 16384)) 2 "a program with a reservation of 60 operations"
near "${GOT[a]}" $((40 * 16384)) 2 "what the program with more weight has left"
ok ctl class remove m/heavy
ok ctl class remove m/light
ok ctl set m iops=off bps=2M read_bps=2M >/dev/null

# Programs.
ok ctl class remove m/first
ok ctl class remove m/second
ok ctl class add m a match=comm:alpha bps=256K window=250ms
ok ctl class add m b 'match=comm:bet*' bps=768K window=250ms
together 2 a="$BIN/alpha" b="$BIN/beta"
near "${GOT[a]}" $((256 * 1024)) 2 "a program with a limit of 256 KiB/s"
near "${GOT[b]}" $((768 * 1024)) 2 "a program with a limit of 768 KiB/s"
ctl list | grep -Eq '^m/[ab] +class .*bps=(256|768)K\*' || fail "the limit of a class is not marked in list: $(ctl list)"
equal "$(ctl class list m | awk 'NR > 1 { print $1, $3 }' | tr '\n' ' ')" "m/a comm:alpha m/b comm:bet* "
ok ctl class remove m/a
ok ctl class remove m/b

# Cgroups: two with limits, below a parent that bounds both, and one that no rule names.
if make_cgroups one two two/deep three; then
	ok ctl class add m all 'match=none' read_bps=1280K window=250ms
	ok ctl class add m one "match=cgroup:$(cgroup_path one)" read_bps=256K window=250ms parent=all
	ok ctl class add m two "match=cgroup:$(cgroup_path two)/**" parent=all
	ok ctl set m bps=off read_bps=off >/dev/null
	ok ctl set m read_bps=2M >/dev/null
	together 2 one="in_cgroup one shares" two="in_cgroup two/deep shares" three="in_cgroup three shares"
	near "${GOT[one]}" $((256 * 1024)) 2 "a cgroup with a limit of 256 KiB/s"
	near "${GOT[two]}" $((768 * 1024)) 2 "what is left of the parent's share of 1 MiB/s"
	near "${GOT[three]}" $MIB 2 "one that no rule names"
	shares_are $((GOT[one] + GOT[two])) "${GOT[three]}" 1 "the parent and the other one"
	# A reservation of a cgroup whose parent has little weight.
	ok ctl class remove m/one
	ok ctl set m bps=2M >/dev/null
	ok ctl set m/two reserve.bps=1280K >/dev/null
	ok ctl class add m three "match=cgroup:$(cgroup_path three)" weight=9
	together 2 two="in_cgroup two/deep shares" three="in_cgroup three shares"
	near "${GOT[two]}" $((1280 * 1024)) 2 "a cgroup with a reservation of 1280 KiB/s"
	near "${GOT[three]}" $((768 * 1024)) 2 "what a cgroup with more weight has left"
	remove_cgroups
else
	say "no cgroups"
fi
unmount_ratefs
