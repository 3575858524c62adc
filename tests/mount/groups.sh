#!/bin/bash
# SPDX-License-Identifier: MIT
# Callers that are in very many groups, as with a directory service: a signal that they handle does
# not end their wait, and every group gives the same access as on the backing filesystem.
. "${srcdir:-.}/tests/mount/lib.sh" || exit 1
requires helper:signalled
[ -x /usr/bin/python3 ] || skip "needs /usr/bin/python3"

backing tmpfs
chmod 777 "$SRC" "$PLAIN"

# in_groups N command: runs the command as alice, in groups 10000 … 10000 + N - 1.
in_groups() {
	local n=$1
	shift
	/usr/bin/python3 -c '
import os, sys
n = int(sys.argv[1])
os.setgroups(range(10000, 10000 + n))
os.setresgid(1001, 1001, 1001)
os.setresuid(1001, 1001, 1001)
os.execvp(sys.argv[2], sys.argv[2:])' "$n" "$@"
}

mount_ratefs
for n in 1 255 257 350 5000 65535; do
	last=$((10000 + n - 1))
	rm -f "$MNT/f" "$PLAIN/f"
	same_on_both in_groups "$n" sh -c "touch f && chgrp $last f && stat -c %u:%g:%a f && chmod 2765 f && echo x >>f && stat -c %a f"
	equal "$(stat -c %g "$SRC/f")" "$last" "chgrp to the last of $n groups"
	same_on_both in_groups "$n" chgrp 9999 f
	# Reading by membership alone.
	echo secret >"$SRC/f"
	chown "0:$last" "$SRC/f"
	chmod 640 "$SRC/f"
	within 2s in_groups "$n" cat "$MNT/f" >/dev/null || fail "a member of the last of $n groups may not read"
done
unmount_ratefs

mount_ratefs -o meta_iops=200,window=20ms
for n in 400 65535; do
	out=$(in_groups "$n" signalled "$MNT" 4) || fail "signalled"
	[[ $out =~ ^[1-9][0-9]*\ signals,\ 0\ interrupted,\ 0\ failed$ ]] || fail "in $n groups: $out"
	rm -f "$SRC/timer-file"
done
unmount_ratefs
