#!/bin/bash
# SPDX-License-Identifier: MIT
# What happens to the source behind the mount shows through: at once with cache=strict, else when
# the timeouts are over.
. "${srcdir:-.}/tests/mount/lib.sh" || exit 1

content_is() { [ "$(cat "$1" 2>/dev/null)" = "$2" ]; }
shows() { within "$patience" content_is "$MNT/$1" "$2" || fail "$mode: $1 shows '$(cat "$MNT/$1" 2>&1)', not '$2'"; }
gone_from_mount() { [ ! -e "$MNT/$1" ]; }
is_gone() { within "$patience" gone_from_mount "$1" || fail "$mode: $1 is still there"; }
mode_is() { [ "$(stat -c %a "$MNT/$1")" = "$2" ]; }

each() {
	for mode in strict auto page; do
		rm -rf "${SRC:?}"/*
		mkdir "$SRC/d"
		echo one >"$SRC/f"
		patience=3s
		[ $mode != strict ] || patience=1ms
		mount_ratefs -o cache=$mode
		shows f one
		refused cat "$MNT/new"			# and its absence may be remembered
		echo new >"$SRC/new"
		shows new new
		echo longer than before >"$SRC/f"
		shows f "longer than before"
		echo other >"$SRC/g"
		mv "$SRC/g" "$SRC/f"			# another file under the same name
		shows f other
		chmod 600 "$SRC/f"
		within "$patience" mode_is f 600 || fail "$mode: mode"
		rm "$SRC/f"
		is_gone f
		mkdir "$SRC/f"				# and another type
		touch "$SRC/f/in"
		within "$patience" test -d "$MNT/f" || fail "$mode: not a directory yet"
		ok test -e "$MNT/f/in"
		mv "$SRC/f" "$SRC/d/moved"
		within "$patience" test -e "$MNT/d/moved/in" || fail "$mode: did not move"
		is_gone f
		# An open file stays what it is, and grows under its reader.
		echo kept >"$SRC/open"
		shows open kept
		exec {fd}<"$MNT/open"
		rm "$SRC/open"
		equal "$(cat <&$fd)" kept "an open file"
		exec {fd}<&-
		is_gone open
		printf a >"$SRC/grows"
		shows grows a
		exec {fd}<"$MNT/grows"
		equal "$(cat <&$fd)" a
		printf b >>"$SRC/grows"
		nap 1100ms
		equal "$(cat <&$fd)" b "$mode: what was appended behind the reader"
		exec {fd}<&-
		unmount_ratefs
	done
}
backing tmpfs
BACKING=tmpfs
each

# A file that nobody has open gives its blocks back, even where the kernel still remembers it; what has only not
# been used for as long is found again.
blocks_back() { [ "$(stat -f -c %f "$BACK")" -ge "$free" ]; }
mkdir "$SRC/still"
free=$(stat -f -c %f "$BACK")
dd if=/dev/zero of="$SRC/big" bs=1M count=64 status=none
mount_ratefs
setfattr -n user.a -v 1 "$MNT/big" || fail "no extended attribute"
cd "$MNT/still" || fail "cd"
touch here
rm "$SRC/big"
within 20s blocks_back || fail "a deleted file keeps its blocks"
nap 6s
touch here2
equal "$(echo *)" "here here2" "in a directory that was not used"
cd / || fail "cd"
unmount_ratefs
