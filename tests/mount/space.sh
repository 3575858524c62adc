#!/bin/bash
# SPDX-License-Identifier: MIT
# size and inodes: requests that do not fit are refused, exactly to the block; df shows the limits;
# set changes them.
# shellcheck disable=SC2016 # expanded by the shell that runs it
. "${srcdir:-.}/tests/mount/space_lib.sh" || exit 1
requires python3

df_of() { df --output="$1" -B1 "$MNT" | tail -n 1 | tr -d ' %'; }
bytes_in() { stat -c %s "$1"; }
fill() { dd if=/dev/zero of="$1" bs=64k count=3200 2>/dev/null && fail "all of it fitted"; true; }

boundary() {
	truncate -s 40M "$TMP/40M"
	local block before
	mkdir "$SRC/d"
	head -c 3M /dev/zero >"$SRC/a"
	ln "$SRC/a" "$SRC/d/same"
	truncate -s 100M "$SRC/hole"
	mount_ratefs -o size=20M,inodes=30
	block=$(stat -f -c %S "$SRC")
	counts_exactly "at the start"
	equal "$(df_of size)" $((20 << 20)) "df: size"
	equal "$(df_of used)" "$(space used)" "df: used"
	equal "$(as_user alice df --output=avail -B1 "$MNT" | tail -n 1 | tr -d ' ')" $(((20 << 20) - $(held))) "df: avail"
	equal "$(df --output=itotal "$MNT" | tail -n 1 | tr -d ' ')" 30 "df -i"
	equal "$(df --output=iused "$MNT" | tail -n 1 | tr -d ' ')" "$(names_held)" "df -i: used"
	equal "$(as_user alice df --output=itotal,iused,iavail "$MNT" | tail -n 1 | xargs)" \
		"30 $(names_held) $((30 - $(names_held)))" "df -i of a user"

	# Exact to the block: a file that takes exactly what is left fits, one byte more does not.
	before=$(df_of avail)
	head -c "$before" /dev/zero >"$MNT/big" || fail "$before bytes do not fit into $before"
	refused sh -c 'echo >>"$0"' "$MNT/big"
	equal "$(df_of avail)" 0
	equal "$(held)" $((20 << 20)) "what is held when it is full"
	# Blocks that are already allocated can be overwritten, even if nothing is left.
	ok dd if=/dev/zero of="$MNT/big" bs=64k count=10 conv=notrunc status=none
	refused dd if=/dev/zero of="$MNT/hole" bs=4k count=1 seek=5 conv=notrunc status=none
	if [ "$BACKING" = tmpfs ]; then # its directories and extended attributes take no blocks
		ok mkdir "$MNT/new"
		ok rmdir "$MNT/new"
		ok python3 -c 'import os, sys; os.setxattr(sys.argv[1], "trusted.a", b"x")' "$MNT/big"
	else
		refused mkdir "$MNT/new"
	fi
	# A write that fits in part is done in part.
	truncate -s -$((3 * block)) "$MNT/big"
	dd if=/dev/zero of="$MNT/hole" bs=$((8 * block)) count=1 conv=notrunc status=none 2>/dev/null && fail "8 blocks in 3"
	equal "$(du -B1 "$SRC/hole" | cut -f 1)" $((3 * block)) "of a write that fits in part"
	ok rm "$MNT/hole"
	ok fallocate -l $((2 * block)) "$MNT/big2"
	refused fallocate -o $((2 * block)) -l $((4 * block)) "$MNT/big2"
	ok rm "$MNT/big2"
	counts_exactly "after the boundary"

	# Deleted but open files take space until they are closed.
	exec 8<>"$MNT/big"
	before=$(df_of avail)
	ok rm "$MNT/big"
	equal "$(df_of avail)" "$before" "what is left while a deleted file is open"
	exec 8>&-
	within 5s sh -c '[ "$(df --output=avail -B1 "$0" | tail -n 1)" -gt 15000000 ]' "$MNT" || fail "it was never given back"
	counts_exactly "after a deleted file was closed"

	# Another name does not need another inode, a new file does.
	for i in $(seq 100); do
		: 2>/dev/null >"$MNT/f$i" || break
	done
	equal "$(names_held)" 30 "files with inodes=30"
	ok rm "$MNT/f1"
	ok ln "$MNT/a" "$MNT/again"
	ok touch "$MNT/f1"
	refused touch "$MNT/one_more"
	# These are refusals, not failures of the source.
	equal "$(ctl stats "$MNT" --json | jq '[.classes[].failed] | add')" 0 "failed"
	equal "$(ctl stats "$MNT" --json | jq '[.classes[].no_space] | add')" "$(space refused)" "no_space"
	rm -f "$MNT"/f*

	# on_quota chooses the error.
	ctl set "$MNT" on_quota=edquot >/dev/null || fail "set on_quota"
	says "quota exceeded" cp --sparse=never "$TMP/40M" "$MNT/big"

	# Changed while mounted: to more, to less than is used, to none.
	ctl set "$MNT" size=40M >/dev/null || fail "set size"
	ok dd if=/dev/zero of="$MNT/more" bs=1M count=15 status=none
	ctl set "$MNT" size=1M >/dev/null || fail "set size"
	equal "$(df_of avail)" 0
	refused dd if=/dev/zero of="$MNT/none" bs=4k count=1 status=none
	ok rm "$MNT/more"
	ctl set "$MNT" size=off >/dev/null || fail "set size"
	ok dd if=/dev/zero of="$MNT/more" bs=1M count=30 status=none
	counts_exactly "after live changes"
	ctl show "$MNT" | grep -q '^inodes *30' || fail "show"
	ctl list | grep -q 'inodes=30 (.* used)' || fail "list"

	# A rescan finds changes that were made directly in the source.
	head -c 1M /dev/zero >"$SRC/behind"
	ok ctl rescan "$MNT"
	counts_exactly "after a rescan"
	unmount_ratefs
	rm -rf "${SRC:?}"/*
}
on_each_counted boundary

# Limits that are set while mounted apply to files that are already open.
backing tmpfs
head -c 5M /dev/zero >"$SRC/old"
mount_ratefs
exec 9<>"$MNT/old"
dd if=/dev/zero of="$MNT/old" bs=1M count=3 conv=notrunc status=none
ctl set "$MNT" size=8M >/dev/null || fail "set"
within 5s sh -c '[ "$('"$RATEFSCTL"' stats "$0" --json | jq -r .space.state)" = enforced ]' "$MNT" || fail "not counted"
exec 9>&-
counts_exactly "set while mounted"
fill "$MNT/new"
equal "$(held)" $((8 << 20)) "set while mounted"
unmount_ratefs
rm -rf "${SRC:?}"/* "$TMP/state"

# A file is open in passthrough when the limit is set: the kernel then maps it for later opens, too, and stores into such a
# mapping reach no daemon.  They are noticed as long as one of these is open.
truncate -s 20M "$SRC/sparse"
mount_ratefs
exec 9<>"$MNT/sparse"
if [ "$(ctl stats "$MNT" --json | jq .passthrough_handles)" -gt 0 ]; then
	ctl set "$MNT" size=100M >/dev/null || fail "set"
	within 5s sh -c '[ "$('"$RATEFSCTL"' stats "$0" --json | jq -r .space.state)" = enforced ]' "$MNT" || fail "not counted"
	python3 - "$MNT/sparse" "$TMP/go" >"$TMP/said" <<'END' &
import mmap, os, sys, time
fd = os.open(sys.argv[1], os.O_RDWR)
print("open", flush=True)
while not os.path.exists(sys.argv[2]):
    time.sleep(0.01)
m = mmap.mmap(fd, 20 << 20)
for at in range(0, 2 << 20, 4096):
    m[at] = 1
print("stored", flush=True)
time.sleep(1000)
END
	mapper=$!
	within 10s grep -q open "$TMP/said" || fail "python3"
	exec 9>&-
	touch "$TMP/go"
	within 10s grep -q stored "$TMP/said" || fail "python3"
	within 8s is_exact || fail "stores into a mapping: counted $(space used) bytes; there are $(held)"
	kill $mapper
	wait $mapper 2>/dev/null
else
	say "no passthrough"
	exec 9>&-
	ctl set "$MNT" size=100M >/dev/null || fail "set"
fi
unmount_ratefs

# After a crash the tree is scanned again, after a clean end it is not.
mount_ratefs -o size=20M
equal "$(space scans)" 0 "scans after an orderly end"
head -c 1M /dev/zero >"$MNT/crash"
kill -9 "$DAEMON"
wait "$DAEMON" 2>/dev/null
umount "$MNT"
mount_ratefs -o size=20M
equal "$(space scans)" 1 "scans after a crash"
counts_exactly "after a crash"
unmount_ratefs
unbacking

# One size for all mounts of an fs.
backing tmpfs
mkdir "$TMP/other"
cat >"$TMP/ratefs.conf" <<END
[fs:box]
source = $SRC
size = 10M
[mount:one]
fs = box
mountpoint = $MNT
[mount:two]
fs = box
mountpoint = $TMP/other
size = 5M
END
"$RATEFS" -f -c "$TMP/ratefs.conf" >"$LOG" 2>&1 &
DAEMON=$!
within 10s mountpoint -q "$TMP/other" || fail "the mounts did not come up"
ok dd if=/dev/zero of="$MNT/a" bs=1M count=4 status=none
fill "$TMP/other/b"
equal "$(held)" $((5 << 20)) "by the smaller limit"
fill "$MNT/c"
equal "$(held)" $((10 << 20)) "by the limit of the fs"
ctl set fs:box size=12M >/dev/null || fail "set fs:box"
fill "$MNT/c"
equal "$(held)" $((12 << 20)) "by the new limit of the fs"
equal "$(space used fs:box)" $((12 << 20))
stop_ratefs

# Mounts that count one source separately are told so.
sed -i '/^fs = /d; /^\[fs:/,/^size/d; s|^mountpoint|source = '"$SRC"'\nsize = 20M\n&|; /^size = 5M/d' "$TMP/ratefs.conf"
"$RATEFS" -f -c "$TMP/ratefs.conf" >"$LOG" 2>&1 &
DAEMON=$!
within 10s mountpoint -q "$TMP/other" || fail "the mounts did not come up"
within 10s mountpoint -q "$MNT" || fail "the mounts did not come up"
grep -q "another mount counts this source separately" "$LOG" || fail "no warning of two counts of one source"
LOG_EXPECTED="$LOG_EXPECTED|another mount counts this source separately"
stop_ratefs
