#!/bin/bash
# SPDX-License-Identifier: MIT
# How fast is the mirror beside the directory itself, beside bindfs, and beside a daemon that does
# nothing (floor.c): no daemon that is asked for every read and write is faster than that one.
. "${srcdir:-.}/tests/bench/lib.sh" || exit 1
requires bindfs

backing tmpfs 4G
target native
target auto "$RATEFS" -o allow_other
target strict "$RATEFS" -o allow_other,cache=strict
# Off unless somebody has enabled it: a bench changes nothing of the kernel.
[ "$(cat /sys/module/fuse/parameters/enable_uring 2>/dev/null)" != Y ] ||
	target uring "$RATEFS" -o allow_other,cache=strict,transport=uring
target page "$RATEFS" -o allow_other,cache=page
target bindfs bindfs --multithreaded
# Before 1.17 it is libfuse's option only.
bindfs --help | grep -q -- --direct-io && direct=--direct-io || direct='-o direct_io'
target bindfs_dio bindfs --multithreaded "$direct"
target floor "$BENCH_HELPERS/floor" dev

ROUNDS=${BENCH_ROUNDS:-${FULL:+9}}
ROUNDS=${ROUNDS:-3}
SECONDS_EACH=${FULL:+1}
SECONDS_EACH=${SECONDS_EACH:-0.25}
JOBS_LIST="1 4 16"

# --- data ------------------------------------------------------------------------------------

# data ROW UNIT OP SIZE CLIENTS [iogen options]
data() {
	local row=$1 unit=$2 op=$3 size=$4 clients=$5 round t dir out cpu file
	wanted "$row" || return 0
	shift 5
	file=data
	[ "$op" = write ] && file=w
	for ((round = 1; round <= ROUNDS; round++)); do
		for t in "${TARGETS[@]}"; do
			dir=$(dir_of "$t")
			cpu=$(cpu_us "$t")
			out=$(iogen --op "$op" --size "$size" --clients "$clients" --time "$SECONDS_EACH" \
				--file-size 16M --path "$dir/$file" "$@") || fail "$row on $t"
			cpu=$(($(cpu_us "$t") - cpu))
			sample "$row" "$unit" "$t" "$round" "$(number '.total.bytes_per_s / 1e6' <<<"$out")"
			[ "$cpu" = 0 ] || sample "$row: daemon's CPU" us/op "$t" "$round" \
				"$(number ".total.ops as \$n | $cpu / (if \$n > 0 then \$n else 1 end)" <<<"$out")"
			[ "$clients" = 1 ] || continue
			case $row in
			*random*4K*)
				sample "$row: latency p50" us "$t" "$round" "$(number .total.lat_us.p50 <<<"$out")"
				sample "$row: latency p99" us "$t" "$round" "$(number .total.lat_us.p99 <<<"$out")"
				;;
			esac
		done
	done
	summary "$row"
}

data_rows() {
	local op size jobs row native_bar
	for op in read write; do
		native_bar=0.95
		[ $op = write ] && native_bar=0.90
		for jobs in $JOBS_LIST; do
			for size in 128K 1M; do
				row="seq $op $size x$jobs"
				data "$row" MB/s "$op" "$size" "$jobs"
				compare "$row" auto native $native_bar
				compare "$row" strict bindfs_dio "$([ $size = 128K ] && echo 1.3 || echo 1)"
				compare "$row" strict floor
				compare "$row" page bindfs
			done
			row="random $op 4K x$jobs"
			data "$row" MB/s "$op" 4K "$jobs" --random
			compare "$row" auto native $native_bar
			compare "$row" strict bindfs_dio 2
			compare "$row" floor bindfs_dio
			compare "$row" strict floor
			compare "$row" page bindfs
			compare "$row: daemon's CPU" strict bindfs_dio
		done
	done
}

# Latency of one stat that reaches the daemon: names and attributes are not kept by the kernel.
stat_latency() {
	local row="stat, not cached" round t out
	wanted "$row" || return 0
	for ((round = 1; round <= ROUNDS; round++)); do
		for t in "${TARGETS[@]}"; do
			case $t in auto | bindfs) continue ;; esac
			out=$(iogen --op stat --time "$SECONDS_EACH" --path "$(dir_of "$t")/data") || fail "$row on $t"
			sample "$row: p50" us "$t" "$round" "$(number .total.lat_us.p50 <<<"$out")"
			sample "$row: p99" us "$t" "$round" "$(number .total.lat_us.p99 <<<"$out")"
		done
	done
	summary "$row: p50"
	summary "$row: p99"
	compare "$row: p50" strict bindfs_nc 2
}

# --- names -----------------------------------------------------------------------------------

# With cache=strict every call is a round trip; so it is with bindfs_nc, whose timeouts are 0 too.
meta_compare() {
	compare "$1" auto bindfs 2
	compare "$1" strict bindfs_nc 2
	compare "$1" auto native
}

# 20,000 files: made, looked at by a mount that has not seen them, removed.
many_files() {
	local round t dir what n=20000
	wanted "create stat unlink" || return 0
	for ((round = 1; round <= ROUNDS; round++)); do
		for t in "${TARGETS[@]}"; do
			! skipped "$t" "$round" || continue
			dir=$(dir_of "$t")/many
			mkdir -p "$SRC/many"
			fresh "$t"
			for what in create stat unlink; do
				[ $what != stat ] || fresh "$t"
				sample "$what 20k files" s "$t" "$round" \
					"$(names "$what" "$dir" $n)" || fail "$what on $t"
			done
		done
	done
	for what in create stat unlink; do
		summary "$what 20k files"
		meta_compare "$what 20k files"
	done
}

# The slow pair need not be measured each time to be compared.
skipped() { [ -z "$FULL" ] && [ "$2" -gt 1 ] && [[ $1 = strict || $1 = bindfs_nc ]]; }

timed() {	# seconds of a command, its output dropped
	local t0=$EPOCHREALTIME
	"$@" >/dev/null || fail "'$*'"
	awk -v a="$t0" -v b="$EPOCHREALTIME" 'BEGIN { printf "%.6f\n", b - a }'
}

# A tree of 50,000 files in 500 directories: first by a fresh mount, then again.
walks() {
	local round t dir what
	wanted "find ls" || return 0
	names tree "$SRC/tree" 50000 >/dev/null || fail "cannot make the tree"
	for ((round = 1; round <= ROUNDS; round++)); do
		for t in "${TARGETS[@]}"; do
			! skipped "$t" "$round" || continue
			dir=$(dir_of "$t")/tree
			for what in "find" "find -size" "ls -lR"; do
				fresh "$t"
				walk "$what, cold" "$t" "$round" "$dir"
				walk "$what, warm" "$t" "$round" "$dir"
			done
		done
	done
	rm -rf "$SRC/tree"
	for what in "find" "find -size" "ls -lR"; do
		summary "$what, cold"
		meta_compare "$what, cold"
		summary "$what, warm"
		meta_compare "$what, warm"
	done
}
walk() {
	case $1 in
	"find -size"*) sample "$1" s "$2" "$3" "$(timed find "$4" -size +1000G)" ;;
	find*) sample "$1" s "$2" "$3" "$(timed find "$4")" ;;
	ls*) sample "$1" s "$2" "$3" "$(timed ls -lR "$4")" ;;
	esac
}

# --- all of it -------------------------------------------------------------------------------

head -c 64M /dev/zero | tr '\0' x >"$SRC/data"
for i in {0..15}; do head -c 16M /dev/zero >"$SRC/w.$i"; done
cp "$SRC/w.0" "$SRC/w"
targets_up
data_rows
targets_forget
target native
target auto "$RATEFS" -o allow_other
target strict "$RATEFS" -o allow_other,cache=strict
target bindfs bindfs --multithreaded
target bindfs_nc bindfs --multithreaded -o attr_timeout=0,entry_timeout=0
targets_up
stat_latency
many_files
walks
targets_down
matrix
table
