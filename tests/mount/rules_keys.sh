#!/bin/bash
# SPDX-License-Identifier: MIT
# Fifteen thousand users with a cap each: what the daemon remembers of them is bounded, and reading
# their statistics delays no requests.
. "${srcdir:-.}/tests/mount/lib.sh" || exit 1
. "${srcdir:-.}/tests/mount/rules_lib.sh" || exit 1
requires helper:noise helper:shares jq python3

backing tmpfs
head -c 64K /dev/zero >"$SRC/file"
chmod 666 "$SRC/file"
N=15000
rss() { awk '/^VmRSS:/ { print $2 * 1024 }' "/proc/$DAEMON/status"; }

mount_ratefs -o fair=uid,each.iops=1000,each.bps=100M,max_keys=20000,attr_timeout=0,entry_timeout=0,name=m
before=$(rss)
python3 - "$MNT/file" $N <<'END' || fail "the users did nothing"
import ctypes, os, sys
libc = ctypes.CDLL(None)
fd = os.open(sys.argv[1], os.O_RDONLY)
for uid in range(100000, 100000 + int(sys.argv[2])):
	libc.setfsuid(uid)
	os.fstat(fd)
END
after=$(rss)
keys=$(ctl stats m --json | jq .keys_now)
[ "$keys" -ge $N ] || fail "only $keys of $N users are told apart"
each=$(((after - before) / N))
say "$each bytes for each of $keys users"
sanitized || [ $each -le 4096 ] || fail "$each bytes for each user"

# One process reads statistics as often as it can, while another one does I/O.
look() { until [ -e "$TMP/enough" ]; do ctl stats m --json >"$TMP/stats" || return 1; done; }
look &
looker=$!
beside_noise as_user alice shares pause "$MNT/file" 3 >"$TMP/pauses" || fail "shares pause"
touch "$TMP/enough"
wait $looker || fail "ratefsctl stats"
read -r n mean worst <"$TMP/pauses"
say "$n operations beside stats took $mean ms, at most $worst; noise is $NOISE_MS ms"
sanitized || awk -v w="$worst" -v noise="$NOISE_MS" 'BEGIN { exit !(w <= 20 + 2 * noise) }' ||
	fail "looking delays others: $worst ms, noise is $NOISE_MS ms"
unmount_ratefs
