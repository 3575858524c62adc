#!/bin/bash
# SPDX-License-Identifier: MIT
# The verbs of lib.sh notice the failures that they are meant to notice.
. "${srcdir:-.}/tests/mount/lib.sh" || exit 1
requires setfattr setfacl

notices() {	# the command must fail the test it is in
	if ("$@") 2>/dev/null; then
		fail "'$*' notices nothing"
	fi
}
notices before 200ms sleep 5
notices before 5s false
notices at_least 300ms true
notices between 300ms 1s true
notices equal a b
notices ok false
notices refused true
notices says 'one line' true
notices says 'one line' sh -c 'echo one line; echo two; exit 1'
notices says 'one line' sh -c 'echo another; exit 1'
notices in_parallel 3 false
notices about 1% 102 100
before 2s true
between 100ms 2s sleep 0.2
at_least 100ms sleep 0.2
says 'one line' sh -c 'echo one line; exit 1'
in_parallel 3 true
about 1% 100.5 100
equal "$(as_user alice id -u) $(as_user bob id -G)" "1001 1002 2000"

backing tmpfs
echo a >"$SRC/f"
change() {	# a description, what differs
	rm -rf "${PLAIN:?}"/*
	cp -a "$SRC/." "$PLAIN/"
	same_tree "$SRC" "$PLAIN"
	"$@"
	notices same_tree "$SRC" "$PLAIN"
}
change chmod 600 "$PLAIN/f"
change touch "$PLAIN/f"
change chown 5 "$PLAIN/f"
change touch "$PLAIN/g"
change ln "$PLAIN/f" "$PLAIN/g"
change rm "$PLAIN/f"
change setfattr -n user.a -v b "$PLAIN/f"
change setfacl -m u:1001:r "$PLAIN/f"
change sh -c "echo b >'$PLAIN/f' && touch -r '$SRC/f' '$PLAIN/f'"

# A daemon that logs something, fails or does not end is noticed.
printf '#!/bin/bash\necho "ratefs: something is wrong" >&2\nexec "%s" "$@"\n' "$RATEFS" >"$BIN/talks"
chmod 755 "$BIN/talks"
talking() {
	RATEFS=$BIN/talks
	mount_ratefs
	unmount_ratefs
}
notices talking
umount -l "$MNT" 2>/dev/null
printf '#!/bin/bash\n"%s" "$@"; exit 3\n' "$RATEFS" >"$BIN/fails"
chmod 755 "$BIN/fails"
failing() {
	RATEFS=$BIN/fails
	mount_ratefs
	unmount_ratefs
}
notices failing
equal "$(iogen --op write --size 4K --count 10 --path "$PLAIN/x" | jq .total.bytes)" 40960 iogen
