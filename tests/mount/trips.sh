#!/bin/bash
# SPDX-License-Identifier: MIT
# cache=strict: every system call is counted, and sends no more requests to the daemon than
# necessary.
. "${srcdir:-.}/tests/mount/lib.sh" || exit 1
requires jq python3

backing tmpfs
mkdir "$SRC/dir"
echo file >"$SRC/file"
echo file >"$SRC/dir/file"
cat >"$TMP/calls.py" <<'END'
import os, sys
what, n, path = sys.argv[1], int(sys.argv[2]), sys.argv[3]
fd = os.open(path, os.O_RDONLY) if what in ("fstat", "both") else -1
for i in range(n):
    if what == "fstat":
        os.fstat(fd)
    elif what in ("stat", "both"):
        os.stat(path)
    elif what == "open":
        os.close(os.open(path, os.O_RDONLY))
    elif what == "open_fstat":
        fd = os.open(path, os.O_RDONLY)
        os.fstat(fd)
        os.close(fd)
END
# How many requests of CLASS (a jq expression) are counted for N calls of a kind.
counted() { # CLASS KIND N PATH
	ok ctl reset-stats
	ok python3 "$TMP/calls.py" "$2" "$3" "$MNT/$4"
	ctl stats "$MNT" --json | jq "$1"
}
both='.classes.meta.ops + .classes.openclose.ops'
# The least of several rounds, since on a busy machine attributes can expire before the kernel uses
# them again.
least() { # CLASS KIND N PATH
	local i n best=1000000
	for i in 1 2 3 4 5 6 7 8; do
		n=$(counted "$@")
		[ "$n" -ge "$best" ] || best=$n
		[ "$n" -ge "$3" ] || fail "$3 calls ($2 $4) were counted as $n"
	done
	echo "$best"
}
cheaper() { # NAME COUNT BOUND
	[ "$2" -lt "$3" ] || fail "$1: $2 requests, not below $3"
}

mount_ratefs -o cache=strict,meta_iops=100k
# If the kernel asked for the attributes of the directory each time, and for those of the file
# twice, a stat would cost 3 requests and an open 4.
cheaper "50 stats" "$(least .classes.meta.ops stat 50 file)" 125
cheaper "50 stats below a directory" "$(least .classes.meta.ops stat 50 dir/file)" 200
cheaper "50 opens" "$(least "$both" open 50 file)" 175

# Every fstat of an open file is counted, even right after it was opened.
for n in 1 100; do
	[ "$(counted .classes.meta.ops fstat $n file)" -gt "$n" ] || fail "$n fstats right after an open"
done
[ "$(counted .classes.meta.ops open_fstat 50 file)" -ge 100 ] || fail "50 lookups and fstats"
[ "$(counted .classes.openclose.ops open_fstat 50 file)" = 50 ] || fail "50 opens"
# So is every stat of a file that is open, because its attributes are not cached.
[ "$(counted .classes.meta.ops both 50 file)" -ge 100 ] || fail "50 stats of an open file"

# Changes in the source are visible immediately.
for i in 1 2 3 4 5 6 7 8 9 10; do
	echo "$i and more" >"$SRC/dir/new$i"
	equal "$(stat -c %s "$MNT/dir/new$i")" "$(stat -c %s "$SRC/dir/new$i")" "size of a new file"
	echo "$i and still more" >>"$SRC/dir/new$i"
	equal "$(stat -c %s "$MNT/dir/new$i")" "$(stat -c %s "$SRC/dir/new$i")" "size of a longer file"
	chmod 60$((i % 8)) "$SRC/dir/new$i"
	equal "$(stat -c %a "$MNT/dir/new$i")" "$(stat -c %a "$SRC/dir/new$i")" "mode"
done
unmount_ratefs
