#!/bin/bash
# SPDX-License-Identifier: MIT
# Random sequences of operations by three users have the same results on the mount and on a plain
# directory.
# RATEFS_SEED, RATEFS_ROUNDS: another sequence, a longer one (see helpers/differ.c).
. "${srcdir:-.}/tests/mount/lib.sh" || exit 1
requires helper:differ

sequence() {
	mkdir "$PLAIN/$2" "$SRC/$2" "$PLAIN/$2.data" "$SRC/$2.data"
	mount_ratefs -o "$1"
	differ "$PLAIN/$2" "$MNT/$2" >"$TMP/differ" 2>&1 ||
		{ tail -n 45 "$TMP/differ" | cut -c1-500; fail "$BACKING with $1"; }
	RATEFS_ONLY_DATA=1 differ "$PLAIN/$2.data" "$MNT/$2.data" >"$TMP/differ" 2>&1 ||
		{ tail -n 45 "$TMP/differ" | cut -c1-500; fail "data: $BACKING with $1"; }
	unmount_ratefs
}
# With kernel passthrough, root's writes keep set-id bits only if these were set when the file was
# opened, so the random sequence does not use them; `conform` tests them.
each_mode() {
	local mode n=0
	for mode in cache=auto cache=strict cache=page bps=1T,iops=100M; do
		n=$((n + 1))
		case $mode in
		cache=auto) RATEFS_SET_IDS=0 sequence $mode $n ;;
		*) sequence $mode $n ;;
		esac
	done
}
export RATEFS_ROUNDS=${RATEFS_ROUNDS:-3000}
on_each_backing each_mode

