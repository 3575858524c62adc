#!/bin/bash
# SPDX-License-Identifier: MIT
# cache=strict: every call is counted, and asks the daemon no more than it needs to.
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
# Requests that are counted, of CLASS (a jq expression), for N calls of a kind.
counted() { # CLASS KIND N PATH
	ok ctl reset-stats
	ok python3 "$TMP/calls.py" "$2" "$3" "$MNT/$4"
	ctl stats "$MNT" --json | jq "$1"
}
both='.classes.meta.ops + .classes.openclose.ops'
# The least of some rounds, since on a busy machine a moment can be over before the kernel asks again.
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
# With the attributes of the directory each time, and of the file a second time, a stat would be 3 and an open 4.
cheaper "50 stats" "$(least .classes.meta.ops stat 50 file)" 125
cheaper "50 stats below a directory" "$(least .classes.meta.ops stat 50 dir/file)" 200
cheaper "50 opens" "$(least "$both" open 50 file)" 175

# What is asked of an open file is counted each time, also right after it was opened.
for n in 1 100; do
	[ "$(counted .classes.meta.ops fstat $n file)" -gt "$n" ] || fail "$n fstats right after an open"
done
[ "$(counted .classes.meta.ops open_fstat 50 file)" -ge 100 ] || fail "50 lookups and fstats"
[ "$(counted .classes.openclose.ops open_fstat 50 file)" = 50 ] || fail "50 opens"
# So is a stat of a file that somebody has open: its attributes are asked for.
[ "$(counted .classes.meta.ops both 50 file)" -ge 100 ] || fail "50 stats of an open file"

# What changes in the source shows at once.
for i in 1 2 3 4 5 6 7 8 9 10; do
	echo "$i and more" >"$SRC/dir/new$i"
	equal "$(stat -c %s "$MNT/dir/new$i")" "$(stat -c %s "$SRC/dir/new$i")" "size of a new file"
	echo "$i and still more" >>"$SRC/dir/new$i"
	equal "$(stat -c %s "$MNT/dir/new$i")" "$(stat -c %s "$SRC/dir/new$i")" "size of a longer file"
	chmod 60$((i % 8)) "$SRC/dir/new$i"
	equal "$(stat -c %a "$MNT/dir/new$i")" "$(stat -c %a "$SRC/dir/new$i")" "mode"
done
unmount_ratefs
