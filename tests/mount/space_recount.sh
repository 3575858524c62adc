#!/bin/bash
# SPDX-License-Identifier: MIT
# A count that fails, or that may be wrong, does not replace a good one, and is repeated.
. "${srcdir:-.}/tests/mount/space_lib.sh" || exit 1
. "${srcdir:-.}/tests/mount/hard_lib.sh" || exit 1
requires python3
LOG_EXPECTED="$LOG_EXPECTED|too many changes during a recount|directories were renamed during the count|cannot recount what the source holds|cannot count what the source holds"

scan_is_over() { [ "$(space rescanning)" = false ]; }
is() { [ "$(space state)" = "$1" ]; }
rescan() {
	ok ctl rescan "$MNT"
	within 60s scan_is_over || fail "the rescan does not end"
}

backing tmpfs
faults_ready
mkdir -p "$SRC/a/big" "$SRC/b"
head -c 5M /dev/zero >"$SRC/a/big/data"
touch "$SRC"/a/{1..30} "$SRC"/b/{1..4} # the scan looks at the two at different times
mount_ratefs -o size=10M
counts_exactly "at the start"
before=$(space used) scans=$(space scans)

# While a directory is moved to and fro, a scan misses it now and then.
python3 - "$MNT" <<'END' &
import os, sys, time
os.chdir(sys.argv[1])
while True:
    os.rename("a/big", "b/big")
    time.sleep(0.02)
    os.rename("b/big", "a/big")
    time.sleep(0.02)
END
mover=$!
fault statx delay=3
for _ in $(seq 20); do
	rescan
	equal "$(space used)" "$before" "after a rescan while a directory was being moved"
done
kill $mover
wait $mover 2>/dev/null
heal
rescan
[ "$(space scans)" -gt "$scans" ] || fail "no rescan succeeds any more"
counts_exactly "after the directory was moved"

# A directory that cannot be read to its end.
fault readdir errno=EIO spare=3 count=1
rescan
struck readdir || fail "no directory was read"
heal
grep -q "cannot recount what the source holds: Input/output error" "$LOG" || fail "an error is taken for the end of a directory"
counts_exactly "after a directory could not be read"
# Files that disappear during the scan are no errors.
scans=$(space scans)
fault statx errno=ESTALE spare=3 count=1
rescan
heal
[ "$(space scans)" -gt "$scans" ] || fail "a file that disappears makes the scan fail"
rescan
counts_exactly "after a file had disappeared"
unmount_ratefs

# The first count fails.  Setting the limit again repeats it immediately.
rm -rf "$TMP/state"
mount_ratefs
fault readdir errno=EIO
ok ctl set "$MNT" size=10M >/dev/null
within 10s is failed || fail "the count was to fail: $(space state)"
heal
ok ctl set "$MNT" size=9M >/dev/null
within 10s is enforced || fail "a count that has failed is not repeated when the limit is set again"
counts_exactly "counted again"
refused dd if=/dev/zero of="$MNT/more" bs=1M count=5 status=none
unmount_ratefs
