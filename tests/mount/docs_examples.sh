#!/bin/bash
# SPDX-License-Identifier: MIT
# Every configuration in conf/ works as it is, except that its paths are moved below a directory of
# the test; a file can be written and read on each of its writable mounts.
. "${srcdir:-.}/tests/mount/lib.sh" || exit 1
requires jq

conf=$TMP/test.conf
# A slow machine gives the pools of ratefs.conf.example time to find that their servers do not exist.
LOG_EXPECTED="$LOG_EXPECTED|all processes are in one cgroup|pool '(farm|metadata)': .*redis.example.net"
serve() { # EXAMPLE
	local at root=$TMP/${1##*/}
	sed -E "s#^((source|mountpoint)[ \t]*=[ \t]*)/#\\1$root/#" "$1" >"$conf"
	sed -nE 's#^(source|mountpoint)[ \t]*=[ \t]*(/.*)#\2#p' "$conf" | xargs mkdir -p
	"$RATEFS" -f -c "$conf" >"$LOG" 2>&1 &
	DAEMON=$!
	within 10s served || fail "${1##*/} is not served"
	ctl list --json | jq -r '.daemons[].mounts[].mountpoint' >"$TMP/mounts"
	equal "$(wc -l <"$TMP/mounts")" "$(grep -c '^\[mount:' "$conf")" "mounts of ${1##*/}"
	while read -r at; do
		carries "$at"
	done <"$TMP/mounts"
}
served() { ctl list --json 2>/dev/null | jq -e '[.daemons[].mounts[].state == "mounted"] | all' >/dev/null || gone "$DAEMON"; }
carries() {
	mountpoint -q "$1" || fail "nothing is mounted at $1"
	if awk -v m="$1" '$2 == m && $4 ~ /(^|,)ro(,|$)/ { found = 1 } END { exit !found }' /proc/self/mounts; then
		ok ls -l "$1" >/dev/null
		return
	fi
	echo hello >"$1/file" || fail "cannot write in $1"
	equal "$(cat "$1/file")" hello
}
no_jobs() { [ "$(jobs -pr)" = "$DAEMON" ]; }
stop() {
	kill "$DAEMON"
	daemon_ended_well
}

for example in "$srcdir"/conf/*.conf "$srcdir/conf/ratefs.conf.example"; do
	serve "$example"
	case $example in
	*/slow-disk.conf)
		# 120 operations per second, 12 of them available immediately: 40 files take at
		# least 80 operations.
		hdd=$TMP/slow-disk.conf/mnt/hdd
		# shellcheck disable=SC2016 # the inner shell expands
		at_least 500ms bash -c 'for ((i = 0; i < 40; i++)); do : >"$1/$i" || exit; done' bash "$hdd"
		# 16 reads at 20 operations per second: those that would wait longer than half a second fail.
		failing=$TMP/slow-disk.conf/mnt/failing
		for ((i = 0; i < 16; i++)); do
			dd if="$failing/file" of=/dev/null bs=1 count=1 2>>"$TMP/said" &
		done
		within 20s no_jobs || fail "readers of a failing disk hang"
		grep -q 'timed out' "$TMP/said" || fail "nobody got ETIMEDOUT from a disk that is too slow"
		;;
	esac
	stop
done
