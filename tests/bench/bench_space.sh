#!/bin/bash
# SPDX-License-Identifier: MIT
# What counting space costs, against the same mount without a size; and how long the first count takes, beside du.
# BENCH_ONLY_SCAN=1: the latter only; BENCH_ONLY_COST=1: the former.
. "${srcdir:-.}/tests/bench/lib.sh" || exit 1

# Many short rounds, the two in turn first: that shows differences of a few percent.
ROUNDS=${BENCH_ROUNDS:-${FULL:+61}}
ROUNDS=${ROUNDS:-25}
T=0.2
N=1500
FILES=${FULL:+1000000}
FILES=${RATEFS_TEST_FILES:-${FILES:-100000}}

# writes SIZE KIND: overwrites, or into new files each time.
writes() {
	local t
	for t in "${TARGETS[@]}"; do
		sample "write $1" ops/s "$t" "$2" "$(iogen --op write --size "$1" --time "$T" \
			--path "$(dir_of "$t")/data" | number .total.ops_per_s)"
	done
}
growing() {	# a file of 32 MiB from nothing
	local t t0
	for t in "${TARGETS[@]}"; do
		rm -f "$SRC/new"
		t0=${EPOCHREALTIME/./}
		dd if=/dev/zero of="$(dir_of "$t")/new" bs="$1" count=$((32 * 1024 / ${1%K})) status=none || fail dd
		sample "new blocks $1" us "$t" "$2" $((${EPOCHREALTIME/./} - t0))
	done
}
many() {
	local t
	for t in "${TARGETS[@]}"; do
		rm -rf "$SRC/many"
		mkdir "$SRC/many"
		sample create s "$t" "$1" "$(names create "$(dir_of "$t")/many" "$N")"
		sample unlink s "$t" "$1" "$(names unlink "$(dir_of "$t")/many" "$N")"
	done
}

cost() {
	local round row
	head -c 64M /dev/zero >"$SRC/data"
	# Direct I/O on both: without a size nothing would come by the daemon.
	target plain "$RATEFS" -o allow_other,cache=strict
	target size "$RATEFS" -o allow_other,cache=strict,size=100G,inodes=100M
	targets_up
	for round in $(seq "$ROUNDS"); do
		TARGETS=("${TARGETS[1]}" "${TARGETS[0]}")
		writes 4K "$round"
		writes 128K "$round"
		growing 4K "$round"
		growing 128K "$round"
		many "$round"
	done
	for row in "write 4K" "write 128K" "new blocks 4K" "new blocks 128K" create unlink; do
		summary "$row"
		compare "$row" size plain 0.95
	done
	targets_forget
}

first_count() {
	local round t0

	names tree "$SRC" "$FILES" >/dev/null || fail "names"
	for round in 1 2 3; do
		t0=${EPOCHREALTIME/./}
		du -s "$SRC" >/dev/null
		sample "count $FILES files" us du "$round" $((${EPOCHREALTIME/./} - t0))
		rm -rf "$TMP/state"
		mount_ratefs -o size=100G
		sample "count $FILES files" us ratefs "$round" \
			"$(ctl stats "$MNT" --json | number '.space.scan_ns / 1000')"
		unmount_ratefs
	done
	summary "count $FILES files"
	compare "count $FILES files" ratefs du
}

LOG_EXPECTED="$LOG_EXPECTED|counting what it holds"
backing "${BENCH_BACKING:-tmpfs}" 3G
[ -n "${BENCH_ONLY_SCAN:-}" ] || cost
[ -n "${BENCH_ONLY_COST:-}" ] || first_count
table
