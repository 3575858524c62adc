#!/bin/bash
# SPDX-License-Identifier: MIT
# Classes are added, removed, moved and changed while hundreds of requests wait in them: every
# request gets one answer, and the right one.
. "${srcdir:-.}/tests/mount/lib.sh" || exit 1
. "${srcdir:-.}/tests/mount/rules_lib.sh" || exit 1
LOG_EXPECTED="$LOG_EXPECTED|reloaded|another order|is called"
requires jq python3

backing tmpfs
python3 -c 'import sys; sys.stdout.buffer.write(b"".join(b"%08d" % i * 512 for i in range(400)))' >"$SRC/file"
chmod 644 "$SRC/file"
CONF=$TMP/conf
mounts="[mount:m]
source = $SRC
mountpoint = $MNT
read_iops = 20
fair = uid
"
printf '%s' "$mounts" >"$CONF"
"$RATEFS" -f -c "$CONF" >"$LOG" 2>&1 &
DAEMON=$!
within 10s answers || fail "the mount did not come up"

# 400 threads of eight users, four reads each; every answer is checked.
cat >"$TMP/readers" <<'END'
import os, sys, threading
wrong = []
def read(n):
	fd = os.open(sys.argv[1], os.O_RDONLY)
	for _ in range(4):
		try:
			if os.pread(fd, 4096, n * 4096) != b"%08d" % n * 512: wrong.append("data")
		except OSError as e: wrong.append(str(e))
first = int(sys.argv[2])
os.setresuid(*[1000 + first % 8] * 3)
threads = [threading.Thread(target=read, args=(n,)) for n in range(first * 50, first * 50 + 50)]
for t in threads: t.start()
for t in threads: t.join()
sys.exit("\n".join(wrong) if wrong else 0)
END
readers=()
for i in 0 1 2 3 4 5 6 7; do
	python3 "$TMP/readers" "$MNT/file" $i &
	readers+=($!)
done
many_wait() { [ "$(ctl stats m --json | jq .parked_now)" -ge 200 ]; }
within 20s many_wait || fail "too few requests wait"

# By command.
for i in 0 1 2 3 4 5 6 7; do
	ok ctl class add m "u$i" "match=uid:100$i" read_iops=$((10 + i)) each.read_iops=9
done
[ "$(ctl stats m/u3 --json | jq .parked_now)" -gt 10 ] || fail "requests that wait did not move to their class"
ok ctl class add m top match=none weight=2
for i in 0 2 4 6; do ok ctl set m/u$i parent=top reserve.iops=2 each.read_iops=off >/dev/null; done
ok ctl class remove m/u1
ok ctl class remove m/u6
[ "$(ctl stats m --json | jq .parked_now)" -gt 100 ] || fail "too few requests still wait"

# By the configuration file: other classes, in another order, with other parents.
printf '%s[class:all]\nread_iops = 10\n[class:low]\nmatch=uid:1003, uid:1002\nparent=all\n[class:u0]\nmatch=uid:1000, uid:1001\nparent=all\n' \
	"$mounts" >"$CONF"
out=$(ctl reload) || fail "reload: $out"
for line in "mount 'm': class 'u2' removed" "mount 'm': class 'low' added" "class 'm/u0': parent=all, was top"; do
	grep -qF "$line" <<<"$out" || fail "reload did not say \"$line\": $out"
done
# A file with an invalid class is refused as a whole.
printf '%s[class:a]\nmatch=uid:1\nparent=b\n' "$mounts" >"$CONF"
says "\[class:a\] parent: there is no class 'b'" ctl reload
equal "$(ctl class list m --json | jq -c '[.mounts[0].classes[].name]')" '["all","low","u0"]'
# Without a mount: only what the daemon said, and nothing about containers, which are not looked for.
equal "$(ctl class list --json | jq -c '[.daemons[].mounts[] | [.classes[0].name, has("containers")]]')" '[["all",false]]'
printf '%s[class:u0]\nmatch=uid:1000, uid:1001\n[class:low]\nmatch=uid:1003, uid:1002\n' "$mounts" >"$CONF"
ctl reload | grep -q "another order" || fail "classes that change places are not told"
[ "$(ctl stats m --json | jq .parked_now)" -gt 50 ] || fail "too few requests wait at the end"
printf '%s' "${mounts/read_iops = 20/}" >"$CONF"
ok ctl reload >/dev/null
for pid in "${readers[@]}"; do
	within 20s gone "$pid" || fail "a reader was lost"
	wait "$pid" || fail "a reader got a wrong answer"
done
equal "$(ctl stats m --json | jq .classes.read.ops)" 1600 "reads that were admitted"
equal "$(ctl stats m --json | jq .parked_now)" 0 "requests that are left"

# --save adds the class to the file, where a reload finds it.
ok ctl class add m saved 'match=uid:1000 & op:read, comm:x*' read_iops=5k weight=2 --save >/dev/null
tail -n 6 "$CONF" | diff - <(printf '[class:saved]\nmounts = m\nmatch = uid:1000 & op:read, comm:x*\nread_iops = 5k\nweight = 2\n' | cat <(echo) -) ||
	fail "the class is saved otherwise"
ok ctl reload >/dev/null
equal "$(ctl class list m --json | jq -c '[.mounts[0].classes[].name]')" '["saved"]'
# A class is set, shown and saved as itself, not as its mount.
equal "$(ctl set m/saved read_iops=6k fair=process --save | tr '\n' ' ')" 'read_iops=6k fair=process '
equal "$(ctl show m/saved --json | jq -r .options.read_iops.value)" 6k
tail -n 6 "$CONF" | grep -q '^read_iops = 6k$' || fail "set --save of a class changed something else: $(cat "$CONF")"
"$RATEFS" --check -c "$CONF" || fail "the file is broken by set --save"
# A class that contains others is saved before them, and the file stays valid.
cp "$CONF" "$TMP/conf.before"
says "^ratefsctl: m: match: is missing; write match=none for a class that only contains others" ctl class add m group bps=1M --save
ok ctl class add m group match=none bps=1M --save >/dev/null
"$RATEFS" --check -c "$CONF" || fail "the file is broken by a class that does not contain another yet"
ok ctl class add m part match=uid:9 parent=group --save >/dev/null
ok ctl class remove m/part
ok ctl class remove m/group
cp "$TMP/conf.before" "$CONF"
# What the file does not have cannot be saved in part: a daemon would not start with a class that lacks its match or parent.
ok ctl class add m part match=uid:9 read_iops=5k >/dev/null
says "nothing was changed: .* has no section \[class:part\]; add it there, or leave --save out" ctl set m/part read_iops=6k --save
says "nothing was changed: .* has no section \[class:part\] for the parent; add" ctl class add m sub match=uid:10 parent=part --save
says "nothing was changed: .* has no section \[class:part\] for the parent; add" ctl set m/saved parent=part --save
equal "$(ctl show m/part --json | jq -r .options.read_iops.value)" 5k
equal "$(ctl class list m --json | jq -c '[.mounts[0].classes[].name]')" '["saved","part"]'
equal "$(ctl show m/saved --json | jq -r .options.parent.value)" none
cmp "$CONF" "$TMP/conf.before" || fail "a command that failed has changed the file"
ok ctl set m/saved parent=none --save >/dev/null
cp "$TMP/conf.before" "$CONF"
ok ctl class remove m/part
# Before another: a class behind one that matches everything would never be used.
ok ctl class add m rest match=all --save >/dev/null
says "class 'late': match: the class is never used: 'rest', .*; put this class before 'rest'" ctl class add m late match=uid:7
says "before: there is no class 'nobody'" ctl class add m late match=uid:7 --before=nobody
says "has no section \[class:nobody\]" ctl class add m late match=uid:7 --before=nobody --save
ok ctl set m/rest reserve.iops=3 >/dev/null
ctl list | grep -q 'm/rest .* all .* reserve.iops=3$' || fail "list does not show a reservation: $(ctl list)"
ok ctl class add m early match=uid:7 --before=saved >/dev/null
ok ctl class add m late match=uid:8 --before=rest --save >/dev/null
equal "$(ctl class list m --json | jq -c '[.mounts[0].classes[].name]')" '["early","saved","late","rest"]'
ok ctl reload >/dev/null
equal "$(ctl class list m --json | jq -c '[.mounts[0].classes[].name]')" '["saved","late","rest"]'
# A class is paused alone, also if it changes meanwhile, and is shown as paused.
ok ctl class add m held match=uid:1009 --before=saved >/dev/null
ctl pause m/held | grep -q '^To continue: ratefsctl resume m/held$' || fail "pause of a class does not say how to continue"
as_user 1009 head -c1 "$MNT/file" >"$TMP/held" &
reader=$!
waits_in_held() { [ "$(ctl stats m/held --json | jq .parked_now)" -ge 1 ]; }
within 5s waits_in_held || fail "a request of a paused class does not wait"
ok ctl set m/held weight=3 >/dev/null
ok timeout 20 head -c1 "$MNT/file" >"$TMP/other"
! gone "$reader" || fail "a paused class let somebody pass"
equal "$(ctl show m/held --json | jq -c '[.paused, .paused_by]')" '[true,"class"]'
equal "$(ctl stats m/held --json | jq .paused)" true
equal "$(ctl show m --json | jq -c '[.paused, .paused_by]')" '[false,null]'
ok ctl resume m/held
within 10s gone "$reader" || fail "resume of a class did not let it pass"
equal "$(cat "$TMP/held")" 0
equal "$(ctl show m/held --json | jq .paused)" false
ok ctl class remove m/held
ok ctl class remove m/rest
ok ctl class remove m/late
ok ctl class remove m/saved
# Limits of each key: those of the class that takes the request, and those of the scopes around it.
ok ctl set m each.read_iops=7k >/dev/null
ok ctl class add m own match=uid:3 each.read_iops=3k >/dev/null
equal "$(ctl show m/own --json | jq -c '[.limits_met[] | select(.name | startswith("each.")) | .scope, .value]')" \
	'["class","3k","mount","7k"]' "limits of each key"
ok ctl set m each.read_iops=off >/dev/null
ok ctl class remove m/own
says "nothing was changed: .* already has a section \[class:saved\]" ctl class add m saved match=uid:5 --save
equal "$(ctl class list m --json | jq -c '[.mounts[]?.classes[].name]')" '[]'
# A class is saved so that it can be loaded again, also if the name of its mount is not that of its section.
printf '%sname = other\n' "$mounts" >"$CONF"
ok ctl reload >/dev/null
ok ctl class add other again match=uid:5 --save >/dev/null
ok ctl reload >/dev/null
equal "$(ctl class list other --json | jq -c '[.mounts[].classes[].name]')" '["again"]'
stop_ratefs
