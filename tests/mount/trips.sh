#!/bin/bash
# SPDX-License-Identifier: MIT
# cache=strict: every system call is counted, and sends no more requests to the daemon than
# necessary.
. "${srcdir:-.}/tests/mount/lib.sh" || exit 1
requires jq python3

backing tmpfs
mkdir "$SRC/dir" "$SRC/many"
echo file >"$SRC/file"
echo file >"$SRC/dir/file"
for i in {1..50}; do echo "$i" >"$SRC/many/file$i"; done
mkdir -p "$SRC"/tree/dir{1..5}
for i in {1..10}; do echo "$i" | tee "$SRC"/tree/dir{1..5}/"file$i" >/dev/null; done
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
    elif what == "open_write":
        os.close(os.open(path, os.O_WRONLY))
    elif what == "open_fstat":
        fd = os.open(path, os.O_RDONLY)
        os.fstat(fd)
        os.close(fd)
    elif what == "create":
        os.close(os.open(path + str(i), os.O_CREAT | os.O_EXCL | os.O_WRONLY))
    elif what == "unlink":
        os.unlink(path + str(i))
    elif what == "mkdir":
        os.mkdir(path + str(i))
    elif what == "rmdir":
        os.rmdir(path + str(i))
    elif what == "list":
        os.listdir(path)
END
CALLS=50
# How many requests of CLASS (a jq expression) are counted for N calls of a kind.
counted() { # CLASS KIND N PATH
	ok ctl reset-stats
	ok python3 "$TMP/calls.py" "$2" "$3" "$MNT/$4"
	ctl stats "$MNT" --json | jq "$1"
}
all='[.classes[].ops] | add'
# costs REQUESTS KIND PATH: the table of Round trips in ratefs(8).  No call is uncounted.  Now and then the attributes of
# directories are added, on a busy machine often; so the best of several rounds counts.
costs() {
	local i n best=1000000 base
	base=$(counted "$all" "$2" 0 "$3") # opens the file for fstat
	for i in 1 2 3 4 5 6 7 8; do
		n=$(($(counted "$all" "$2" $CALLS "$3") - base))
		[ $n -ge $((CALLS * $1 - base)) ] || fail "$CALLS calls ($2 $3) were counted as $n requests, not $1 for each"
		[ $n -ge $best ] || best=$n
		[ $best -ge $((CALLS * $1 + CALLS / 4)) ] || break
		case $2 in create) rm "$SRC"/new* ;; mkdir) rmdir "$SRC"/new* ;; unlink) touch_all ;; rmdir) mkdir_all ;; esac
	done
	[ $best -lt $((CALLS * $1 + CALLS / 4)) ] || fail "$CALLS calls ($2 $3) cost $best requests, not $1 for each"
}
new_names() { seq -f "$SRC/new%.0f" 0 $((CALLS - 1)); }
touch_all() { new_names | xargs touch; }
mkdir_all() { new_names | xargs mkdir; }

mount_ratefs -o cache=strict,meta_iops=100k
costs 1 stat file
costs 2 stat dir/file
costs 1 fstat file
costs 2 both file
costs 2 open file
costs 3 open_write file
# One more than the table says for each change of a directory: its attributes, which the change made invalid.
costs 5 create new
costs 3 unlink new
costs 3 mkdir new
costs 3 rmdir new
costs 4 list dir
# What ls -l asks for, beside the directory itself: attributes, and two extended attributes, with two lookups each.
ls_l() {
	ok ctl reset-stats
	ok ls -l "$MNT/many" >/dev/null
	n=$(ctl stats "$MNT" --json | jq "$all")
	[ "$n" -ge 400 ] && [ "$n" -lt 450 ]
}
# In a subdirectory one more lookup for each of these, and 16 requests for the subdirectory itself, which is looked at and listed.
ls_lR() {
	ok ctl reset-stats
	ok ls -lR "$MNT/tree" >/dev/null
	n=$(ctl stats "$MNT" --json | jq "$all")
	[ "$n" -ge 630 ] && [ "$n" -lt 690 ]
}
case $(ls --version) in
*coreutils*)
	within 10s ls_l || fail "ls -l of 50 files: $n requests, not 8 for each"
	within 10s ls_lR || fail "ls -lR of 5 directories with 10 files each: $n requests, not 16 for each directory and 11 for each file"
	;;
esac

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
