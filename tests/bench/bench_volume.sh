#!/bin/bash
# SPDX-License-Identifier: MIT
# What a volume of ratefs-volume costs beside one of Docker's own driver: created, mounted for a container that ends at
# once, removed.
. "${srcdir:-.}/tests/bench/lib.sh" || exit 1
. "${srcdir:-.}/tests/mount/volume_lib.sh" || exit 1
. "${srcdir:-.}/tests/mount/docker_lib.sh" || exit 1
target local
target ratefs

ROUNDS=${BENCH_ROUNDS:-${FULL:+15}}
ROUNDS=${ROUNDS:-5}
# shellcheck disable=SC2119 # it has options of its own
start_plugin
# A daemon is there, as on a machine with more than one volume.
ok docker volume create -d ratefs -o iops=10k other >/dev/null
ok run -d --name other -v other:/data box sleep 1000 >/dev/null

ms() { # COMMAND...
	local t0
	t0=$(now_us)
	"$@" >/dev/null 2>&1 || fail "'$*' ended with $?"
	awk -v us=$(($(now_us) - t0)) 'BEGIN { print us / 1000 }'
}
now_us() { echo "${EPOCHREALTIME/./}"; }

for ((round = 1; round <= ROUNDS; round++)); do
	for t in local ratefs; do
		options=()
		[ $t = local ] || options=(-d ratefs -o iops=10k -o write_bps=100M)
		a=$(ms docker volume create "${options[@]}" "vol-$t") || exit 1
		b=$(ms run --rm -v "vol-$t:/data" box touch /data/file) || exit 1
		c=$(ms docker volume rm "vol-$t") || exit 1
		sample "volume: create" ms $t $round "$a"
		sample "volume: run" ms $t $round "$b"
		sample "volume: remove" ms $t $round "$c"
		sample "volume: all" ms $t $round "$(awk -v a="$a" -v b="$b" -v c="$c" 'BEGIN { print a + b + c }')"
	done
done
for row in create run remove all; do
	summary "volume: $row"
	compare "volume: $row" ratefs local
done
docker rm -f other >/dev/null
kill_plugin TERM
stop_daemon
table
