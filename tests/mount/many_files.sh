#!/bin/bash
# SPDX-License-Identifier: MIT
# A tree with far more files than the daemon may have open is listed completely; memory is freed
# when the kernel forgets inodes.  RATEFS_TEST_FILES=1000000 for the full size.
. "${srcdir:-.}/tests/mount/lib.sh" || exit 1

files=${RATEFS_TEST_FILES:-60000}
nofile=2000
[ "$files" -lt 500000 ] || nofile=20000

fill_tree() {
	local dirs=$((files / 1000)) d
	for ((d = 0; d < dirs; d++)); do
		mkdir "$1/d$d"
		(cd "$1/d$d" && seq -f 'file-%g' 1000 | xargs touch)
	done
}
# The daemon holds hardly more files and memory than at the start.
forgotten() {
	echo 2 >/proc/sys/vm/drop_caches || skip "cannot drop caches"
	[ "$(daemon_fds)" -le $((start_fds + 50)) ] || return 1
	sanitized || [ "$(daemon_kb)" -le $((start_kb + 8192 + (full_kb - start_kb) / 4)) ]
}

backing tmpfs 3G
fill_tree "$SRC"
mkdir "$SRC/one"	# and as many in one directory, by a third
(cd "$SRC/one" && seq -f 'a-name-of-some-length-%g' $((files / 3)) | xargs touch)
expected=$(find "$SRC" | wc -l)
DAEMON_WRAPPER=(prlimit "--nofile=$nofile:$nofile")
for mode in auto strict; do
	mount_ratefs -o cache=$mode
	start_kb=$(daemon_kb) start_fds=$(daemon_fds)
	equal "$(find "$MNT" | wc -l)" "$expected" "cache=$mode: names"
	equal "$(find "$MNT" -size 0 -type f | wc -l)" $((expected - files / 1000 - 2)) "cache=$mode: files by stat"
	equal "$(find "$MNT/one" -type f | wc -l)" $((files / 3)) "cache=$mode: one directory"
	full_kb=$(daemon_kb)
	[ "$(daemon_fds)" -le $nofile ] || fail "$(daemon_fds) files open"
	# All of them are in use concurrently, and each can still be opened, read and written.
	ok sh -c "cat '$MNT'/d*/file-7 >/dev/null"
	echo text >"$MNT/d3/file-77"
	equal "$(cat "$SRC/d3/file-77")" text
	ok mv "$MNT/d3/file-77" "$MNT/d4/renamed"
	ok mv "$MNT/d4/renamed" "$MNT/d3/file-77"
	truncate -s 0 "$MNT/d3/file-77"
	# Many files open concurrently: about a quarter of the descriptors that the daemon may have.
	exec {hold}<"$MNT/d0/file-1"
	for ((i = 1; i < nofile / 4 && i < 900; i++)); do
		exec {fd}<"$MNT/d1/file-$i" || fail "open $i"
		held[i]=$fd
	done
	equal "$(find "$MNT/d2" -printf "%m %s\n" | wc -l)" 1001 "listing beside open files"
	for fd in "${held[@]}"; do
		exec {fd}<&-
	done
	held=()
	exec {hold}<&-
	within 20s forgotten || fail "at start $start_fds files open and $start_kb kB, $full_kb kB with all names," \
		"$(daemon_fds) files and $(daemon_kb) kB after forget"
	say "cache=$mode: $start_kb kB at start, $full_kb kB with $expected names, $(daemon_kb) kB after forget"
	unmount_ratefs
done
