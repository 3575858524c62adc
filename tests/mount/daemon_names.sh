#!/bin/bash
# SPDX-License-Identifier: MIT
# Names of users and groups come from a service that opens sockets, uses keys, is slow or crashes
# (helpers/nss_ratefstest.c): the serving daemon does none of that and continues meanwhile.
. "${srcdir:-.}/tests/mount/lib.sh" || exit 1
requires jq
[ -e "$HELPERS/libnss_ratefstest.so.2" ] || skip "needs libnss_ratefstest.so.2: run make"
[ -e /etc/nsswitch.conf ] || skip "needs /etc/nsswitch.conf"

install -D -m 755 "$HELPERS/libnss_ratefstest.so.2" "$TMP/nss/libnss_ratefstest.so.2"
printf 'passwd: files ratefstest\ngroup: files ratefstest\n' >"$TMP/nsswitch.conf"
mount --bind "$TMP/nsswitch.conf" /etc/nsswitch.conf || skip "cannot replace nsswitch.conf"
export LD_LIBRARY_PATH=$TMP/nss NSS_TEST=$TMP/how
echo 0 >"$NSS_TEST"
[ "$(getent passwd remote | cut -d: -f3)" = 4321 ] || skip "the C library does not take the module"

CONF=$TMP/ratefs.conf
backing tmpfs
# conf USER WEIGHT
conf() {
	cat >"$CONF" <<-END
		[mount:m]
		source = $SRC
		mountpoint = $MNT
		fair = uid
		bps = 100M
		weight = uid:$1=$2+gid:root=2
	END
}
weight() { ctl show m --json | jq -r .options.weight.value; }
weight_is() { [ "$(weight)" = "$1" ]; }

conf remote 2
LOG_EXPECTED='.'
"$RATEFS" -f -c "$CONF" >"$LOG" 2>&1 &
DAEMON=$!
within 10s answers || fail "the mount did not come up"
equal "$(weight)" "uid:remote=2+gid:root=2" "at the start"

# A reload looks up names outside the daemon.
conf remote 3
ok ctl reload
equal "$(weight)" "uid:remote=3+gid:root=2" "after a reload"
conf nobody-has-this-name 3
says "there is no user 'nobody-has-this-name'" ctl reload
equal "$(weight)" "uid:remote=3+gid:root=2" "after a reload that was refused"

# The client may leave before the answer: the reload is done nevertheless.
echo 1 >"$NSS_TEST"
conf remote 7
"$RATEFSCTL" reload >/dev/null 2>&1 &
job=$!
nap 400ms
kill -9 $job
wait $job 2>/dev/null
within 10s weight_is "uid:remote=7+gid:root=2" || fail "a reload whose client has left was forgotten"

# A slow service delays only the reload, even if that was requested by a signal.
echo 2 >"$NSS_TEST"
conf remote 4
ctl reload >"$TMP/reload" 2>&1 &
job=$!
nap 300ms
before 1s ctl list >/dev/null
before 1s ctl stats m >/dev/null
before 1s ctl set m bps=200M >/dev/null
before 1s stat --cached=never "$MNT/." >/dev/null
equal "$(weight)" "uid:remote=7+gid:root=2" "while the reload waits"
wait $job || fail "the reload: $(cat "$TMP/reload")"
equal "$(weight)" "uid:remote=4+gid:root=2" "after the slow reload"
conf remote 5
kill -HUP "$DAEMON"
nap 300ms
before 1s ctl list >/dev/null
within 8s weight_is "uid:remote=5+gid:root=2" || fail "SIGHUP did not reload"

# A reload that also adds and removes mounts: its client gets all results once names are known and
# everything is done.
mkdir "$TMP/second"
conf remote 5
printf '[mount:second]\nsource = %s\nmountpoint = %s\n' "$SRC" "$TMP/second" >>"$CONF"
out=$(before 20s ctl reload) || fail "the reload that adds a mount: $out"
equal "$out" "mount 'second': mounted" "what the client hears"
mountpoint -q "$TMP/second" || fail "answered before it was mounted"
conf remote 5
out=$(before 20s ctl reload) || fail "the reload that removes a mount: $out"
equal "$out" "mount 'second': unmounted" "what the client hears"
mountpoint -q "$TMP/second" && fail "answered before it was unmounted"

# A client that gives up does no harm.
timeout 0.5 "$RATEFSCTL" reload >/dev/null 2>&1
before 1s ctl list >/dev/null
nap 2s
before 1s ctl list >/dev/null

# If the service does not respond or crashes, the reload fails; the next one is not affected.
echo 100 >"$NSS_TEST"
conf remote 6
says "user 'remote' cannot be looked up now; give the number" ctl reload
echo crash >"$NSS_TEST"
says "user 'remote' cannot be looked up now; give the number" ctl reload
echo 0 >"$NSS_TEST"
ok ctl reload
equal "$(weight)" "uid:remote=6+gid:root=2" "after all that"

# ratefsctl looks names up itself.
ok ctl set m weight=uid:remote=7+gid:remote=2 >/dev/null
equal "$(weight)" "uid:4321=7+gid:4321=2" "set by name"
says "there is no group 'no-such-group'" ctl set m weight=gid:no-such-group=1

# The helper process has no privileges and exits with the daemon.
helper=$(pgrep -P "$DAEMON" -x ratefs-names) || fail "no helper process"
equal "$(awk '/^Cap(Eff|Prm|Bnd)/ { print $2 }' "/proc/$helper/status" | sort -u)" 0000000000000000 "its capabilities"
equal "$(find "/proc/$helper/fd" -type l -printf '%f\n' | sort | tr '\n' ' ')" "0 1 2 3 " "its descriptors"
stop_ratefs
within 2s gone "$helper" || fail "the helper is still there"
