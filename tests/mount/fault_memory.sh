#!/bin/bash
# SPDX-License-Identifier: MIT
# No memory for a while: operations fail with ENOMEM or work, nothing crashes, and afterwards all is well.
. "${srcdir:-.}/tests/mount/lib.sh" || exit 1
. "${srcdir:-.}/tests/mount/hard_lib.sh" || exit 1
requires jq

backing tmpfs
faults_ready
mkdir "$SRC/tree"
for ((i = 0; i < 200; i++)); do echo $i >"$SRC/tree/$i"; done

# Whatever it says, it must say it soon.
try() { timeout 10 "$@" >/dev/null 2>"$TMP/err"; [ $? -lt 124 ] || fail "'$*' hung: $(cat "$TMP/err")"; }

mount_ratefs -o iops=2000,window=10ms,attr_timeout=0,entry_timeout=0
for ((round = 0; round < 40; round++)); do
	fault malloc errno=ENOMEM count=$((round * 3 + 1))
	try ls -l "$MNT/tree"
	try cat "$MNT/tree/$round"
	try sh -c "echo x >$MNT/tree/new.$round"
	try mkdir "$MNT/tree/dir.$round"
	try grep -rq nothing "$MNT/tree"
	heal
	kill -0 "$DAEMON" || fail "the daemon is gone"
done
[ -n "${RATEFS_TEST_NO_MALLOC:-}" ] || grep -q malloc "$FAULTS" || fail "no rule was set"
settled "after a lack of memory"
equal "$(find "$MNT/tree" | wc -l)" "$(find "$SRC/tree" | wc -l)"
LOG_EXPECTED="$LOG_EXPECTED|[Mm]emory|alloc"
unmount_ratefs
