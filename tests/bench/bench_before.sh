#!/bin/bash
# SPDX-License-Identifier: MIT
# Is this program as fast as an earlier one, to 1 %?  RATEFS_BEFORE is the earlier `ratefs`.
#	RATEFS_BEFORE=../before/build/ratefs tests/bench/bench_before.sh
# Without it, the only question is what limits cost that never bind.  The rows "same program" show how much noise is left.
. "${srcdir:-.}/tests/bench/lib.sh" || exit 1
. "${srcdir:-.}/tests/bench/pair_lib.sh" || exit 1

backing tmpfs 1G
pair_file

plain='-o allow_other,cache=strict'
limited="$plain,iops=10000000,bps=100G,read_bps=100G,write_bps=100G"
now=$RATEFS

# in_scopes PROGRAM -o OPTIONS -f SOURCE MOUNTPOINT: the same limits in three scopes, nine for each request.
cat >"$BIN/in_scopes" <<-'END'
	#!/bin/bash
	conf=$6.conf limits=$(tr , '\n' <<<"${3#*cache=strict,}")
	printf '[global]\n%s\n[fs:f]\nsource=%s\n%s\n[mount:m]\nfs=f\nmountpoint=%s\nallow_other=yes\ncache=strict\n%s\n' \
		"$limits" "$5" "$limits" "$6" "$limits" >"$conf"
	"$1" -f -c "$conf" &
	until mountpoint -q "$6"; do sleep 0.1; done
	while mountpoint -q "$6"; do sleep 0.1; done
	kill $! 2>/dev/null; wait $! || : # an earlier program may report that its mount is gone
END
chmod +x "$BIN/in_scopes"
if [ -n "${RATEFS_BEFORE:-}" ]; then
	[ "$(cat /sys/module/fuse/parameters/enable_uring 2>/dev/null)" != Y ] ||
		fail "only one of the programs may know io_uring: echo N > /sys/module/fuse/parameters/enable_uring"
	install -m 755 "$RATEFS_BEFORE" "$BIN/ratefs-before" || fail "RATEFS_BEFORE=$RATEFS_BEFORE"
	before=$BIN/ratefs-before
	for op in read write fstat stat open; do
		pair_row "before: $op, limited" 0.99 $op "$now $limited" "$before $limited"
		pair_row "before: $op, no limits" 0.99 $op "$now $plain" "$before $plain"
		pair_row "before: $op, 4 clients" 0.99 $op "$now $limited" "$before $limited" 4
	done
	pair_row "before: read, limited in 3 scopes" 0.99 read "$BIN/in_scopes $now $limited" \
		"$BIN/in_scopes $before $limited"
else
	say "RATEFS_BEFORE is not set: no comparison with an earlier program"
fi
pair_row "limits that never bind: read, 3 scopes" 0.97 read "$BIN/in_scopes $now $limited" "$now $plain"
pair_row "same program: read" 0.995 read "$now $limited" "$now $limited"
pair_row "same program: read, 4 clients" 0.98 read "$now $limited" "$now $limited" 4
for op in read write fstat stat open; do
	pair_row "limits that never bind: $op" 0.97 $op "$now $limited" "$now $plain"
done
table
