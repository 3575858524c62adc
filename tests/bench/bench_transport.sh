#!/bin/bash
# SPDX-License-Identifier: MIT
# FUSE over io_uring beside /dev/fuse: how fast is cache=strict by either transport, beside bindfs and beside a
# daemon that does nothing (floor.c) by the same transport.
# All rows take about eleven minutes; some of them:
#	BENCH_ROWS='^(read|write) 4K x' tests/bench/bench_transport.sh
. "${srcdir:-.}/tests/bench/lib.sh" || exit 1
. "${srcdir:-.}/tests/bench/pair_lib.sh" || exit 1
requires bindfs root
# Off unless somebody has enabled it: a bench changes nothing of the kernel.
[ "$(cat /sys/module/fuse/parameters/enable_uring 2>/dev/null)" = Y ] || {
	say "skipped: io_uring is disabled for FUSE: echo Y > /sys/module/fuse/parameters/enable_uring"
	exit 0
}

ROUNDS=${BENCH_ROUNDS:-${FULL:+15}}
ROUNDS=${ROUNDS:-5}
SECONDS_EACH=${FULL:+0.5}
SECONDS_EACH=${SECONDS_EACH:-0.2}
NAMES=${FULL:+20000}
NAMES=${NAMES:-4000}

declare -A CPU OPS
# How much CPU the daemons use is read at the beginning and the end of a row: it is counted in ticks.
cpu_begins() { local t; for t in "${TARGETS[@]}"; do CPU[$t]=$(cpu_us "$t"); OPS[$t]=0; done; }
per_op() { awk -v us="$1" -v n="$2" 'BEGIN { print us / (n > 0 ? n : 1) }'; }
cpu_ends() {
	local row="$1: daemon's CPU" t
	for t in "${TARGETS[@]}"; do
		sample "$row" us/op "$t" 1 "$(per_op $(($(cpu_us "$t") - CPU[$t])) "${OPS[$t]}")"
	done
	summary "$row"
	compare "$row" uring dev
}

# in_turn ROUND: the targets, each round in another order.
in_turn() {
	local i n=${#TARGETS[@]}
	for ((i = 0; i < n; i++)); do echo "${TARGETS[($1 + i) % n]}"; done
}

# load ROW LOAD...: a row of iogen; its path is added.
load() {
	local row=$1 round t out
	wanted "$row" || return 1
	shift
	cpu_begins
	for ((round = 1; round <= ROUNDS; round++)); do
		for t in $(in_turn "$round"); do
			out=$(iogen "$@" --skip 0.03 --time "$SECONDS_EACH" --file-size 16M --path "$(dir_of "$t")/w") ||
				fail "$row on $t"
			sample "$row" ops/s "$t" "$round" "$(number .total.ops_per_s <<<"$out")"
			sample "$row: p99" us "$t" "$round" "$(number .total.lat_us.p99 <<<"$out")"
			OPS[$t]=$((OPS[$t] + $(number .total.ops <<<"$out")))
		done
	done
	summary "$row"
	summary "$row: p99"
	compare "$row: p99" uring dev
	cpu_ends "$row"
}

# bars ROW BAR [BAR_BINDFS]: BAR is that of uring against dev.
bars() {
	compare "$1" uring dev "$2"
	compare "$1" uring bindfs_dio ${3:+"$3"}
	compare "$1" uring floor_uring 0.9
	compare "$1" dev floor_dev 0.9
	# The same, if the floor makes the calls to the source that every mirror has to make.
	compare "$1" uring floor_uring_calls 0.9
	compare "$1" dev floor_dev_calls 0.9
	compare "$1" floor_uring floor_dev
}

small_rows() {	# SUFFIX BAR BAR BAR: 4K reads and writes of 1, 4 and 16 clients
	local op bindfs=1.7
	[ -z "$1" ] || bindfs=
	for op in read write; do
		load "$op 4K x1$1" --op $op --size 4K --random && bars "$op 4K x1$1" "$2"
		load "$op 4K x4$1" --op $op --size 4K --random --clients 4 &&
			bars "$op 4K x4$1" "$3" "$bindfs"
		load "$op 4K x16$1" --op $op --size 4K --random --clients 16 && bars "$op 4K x16$1" "$4"
	done
}

attribute_rows() { # SUFFIX BAR OP...
	local suffix=$1 bar=$2 op clients row
	shift 2
	for op; do
		for clients in 1 4; do
			row="$op x$clients$suffix"
			[ "$op" != open ] || row="open+close x$clients$suffix"
			load "$row" --op "$op" --clients $clients && bars "$row" "$bar"
		done
	done
}

name_rows() {
	local clients round t what seconds p99 before
	declare -A used
	for clients in 1 4; do
		wanted "create unlink x$clients" || continue
		used=()
		for ((round = 1; round <= ROUNDS; round++)); do
			for t in $(in_turn "$round"); do
				for what in create unlink; do
					before=$(cpu_us "$t")
					read -r seconds p99 < <(names $what "$(dir_of "$t")" "$NAMES" $clients)
					[ -n "${p99:-}" ] || fail "$what on $t"
					used[$what $t]=$((${used[$what $t]:-0} + $(cpu_us "$t") - before))
					sample "$what x$clients" s "$t" "$round" "$seconds"
					sample "$what x$clients: p99" us "$t" "$round" "$p99"
				done
			done
		done
		for what in create unlink; do
			for t in "${TARGETS[@]}"; do
				sample "$what x$clients: daemon's CPU" us/op "$t" 1 "$(per_op "${used[$what $t]}" $((ROUNDS * NAMES)))"
			done
			summary "$what x$clients"
			bars "$what x$clients" 0.97
			for t in p99 "daemon's CPU"; do
				summary "$what x$clients: $t"
				compare "$what x$clients: $t" uring dev
			done
		done
	done
}

large_rows() {
	local op size clients row
	for size in 128K 1M; do
		for op in read write; do
			for clients in 1 4; do
				row="$op $size x$clients"
				load "$row" --op $op --size $size --clients $clients && bars "$row" 0.97
			done
		done
	done
}

hog() {	# as long as the bench runs
	local i
	while kill -0 $$ 2>/dev/null; do for ((i = 0; i < 100000; i++)); do :; done; done
}
hog_rows() {
	local hogs=() i row any=
	for row in {read,write}" 4K x"{1,4,16} {stat,open+close}" x"{1,4}; do
		! wanted "$row beside two CPU hogs" || any=1
	done
	[ -n "$any" ] || return 0
	for i in 1 2; do
		hog &
		hogs+=($!)
	done
	small_rows " beside two CPU hogs" 0.97 0.97 0.97
	attribute_rows " beside two CPU hogs" 0.97 stat open
	kill "${hogs[@]}"
	wait "${hogs[@]}" 2>/dev/null
}

# Limits that never bind, against none.
limit_rows() {
	local limits=iops=10000000,bps=100G,read_bps=100G clients
	wanted "limits: read 4K x1" || wanted "limits: write 4K x4" || wanted "limits: stat x1" || return 0
	targets_forget
	target uring "$RATEFS" -o allow_other,cache=strict,transport=uring
	target limited "$RATEFS" -o allow_other,cache=strict,transport=uring,$limits
	targets_up
	ROUNDS=$((ROUNDS * 3)) # a small difference
	for clients in 1 4; do
		load "limits: read 4K x$clients" --op read --size 4K --random --clients $clients &&
			compare "limits: read 4K x$clients" limited uring 0.97
		load "limits: write 4K x$clients" --op write --size 4K --random --clients $clients &&
			compare "limits: write 4K x$clients" limited uring 0.97
		load "limits: stat x$clients" --op stat --clients $clients &&
			compare "limits: stat x$clients" limited uring 0.97
	done
}

# Precise, on one CPU: what ratefs itself costs, beside a daemon that makes the same calls to the source.
paired_rows() {
	local op t strict=allow_other,cache=strict
	targets_forget
	pair_file
	for op in read write fstat stat open create; do
		for t in dev uring; do
			pair_row "one CPU: $op, $t / floor" 0.9 $op "$RATEFS -o $strict,transport=$t" "$BENCH_HELPERS/floor $t calls"
		done
		pair_row "one CPU: $op, uring / dev" 0.97 $op "$RATEFS -o $strict,transport=uring" "$RATEFS -o $strict,transport=dev"
	done
}

# A source on a disk, which ring threads may not wait for; its data is in the page cache.
disk_rows() {
	local op size clients row
	wanted "ext4: read 4K x1" || wanted "ext4: write 4K x1" || return 0
	targets_forget
	unbacking
	backing ext4 1G
	fill
	target dev "$RATEFS" -o allow_other,cache=strict,transport=dev
	target uring "$RATEFS" -o allow_other,cache=strict,transport=uring
	targets_up
	for op in read write; do
		for size in 4K 128K; do
			for clients in 1 4; do
				row="ext4: $op $size x$clients"
				load "$row" --op $op --size $size --random --clients $clients && compare "$row" uring dev 0.97
			done
		done
	done
	for op in stat open; do
		row="ext4: $op x1"
		load "$row" --op $op && compare "$row" uring dev 0.97
	done
}

fill() {
	local i
	for i in {0..15}; do head -c 16M /dev/zero >"$SRC/w.$i"; done
	cp "$SRC/w.0" "$SRC/w"
}

backing tmpfs 1G
fill
# Before 1.17 it is libfuse's option only.
bindfs --help | grep -q -- --direct-io && direct=--direct-io || direct='-o direct_io'
target dev "$RATEFS" -o allow_other,cache=strict,transport=dev
target uring "$RATEFS" -o allow_other,cache=strict,transport=uring
target bindfs_dio bindfs --multithreaded "$direct" -o attr_timeout=0,entry_timeout=0
target floor_dev "$BENCH_HELPERS/floor" dev
target floor_uring "$BENCH_HELPERS/floor" uring
target floor_dev_calls "$BENCH_HELPERS/floor" dev calls
target floor_uring_calls "$BENCH_HELPERS/floor" uring calls
targets_up
small_rows "" 1.3 1.7 1.25
attribute_rows "" 1.6 stat fstat open
name_rows
large_rows
hog_rows
limit_rows
paired_rows
disk_rows
targets_down
matrix
table
