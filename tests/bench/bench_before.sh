#!/bin/bash
# SPDX-License-Identifier: MIT
# Is this program as fast as an earlier one?  RATEFS_BEFORE is the earlier `ratefs`; without it there is nothing to do.
#	RATEFS_BEFORE=../before/build/ratefs tests/bench/bench_before.sh
# Both serve the same directory and are measured in turn.  No rules are set: limits that never bind, and none.
. "${srcdir:-.}/tests/bench/lib.sh" || exit 1
[ -n "${RATEFS_BEFORE:-}" ] || { say "skipped: RATEFS_BEFORE names no program to compare with"; exit 0; }

backing tmpfs 1G
head -c 64M /dev/zero | tr '\0' x >"$SRC/data"
install -m 755 "$RATEFS_BEFORE" "$BIN/ratefs-before" || fail "RATEFS_BEFORE=$RATEFS_BEFORE"

ROUNDS=${BENCH_ROUNDS:-${FULL:+61}}
ROUNDS=${ROUNDS:-31}

# row NAME OPTIONS LOAD...: the order within a round alternates, so that neither is always the second.
row() {
	local name=$1 options=$2 round t out order
	declare -A cpu=() ops=()
	wanted "$name" || return 0
	shift 2
	target before "$BIN/ratefs-before" -o "allow_other,$options"
	target now "$RATEFS" -o "allow_other,$options"
	targets_up
	for t in before now; do cpu[$t]=-$(cpu_us $t); done
	for ((round = 1; round <= ROUNDS; round++)); do
		order="before now"
		[ $((round % 2)) = 0 ] || order="now before"
		for t in $order; do
			out=$(iogen "$@" --time 0.25 --path "$(dir_of "$t")/data") || fail "$name on $t"
			sample "$name" ops/s "$t" "$round" "$(number .total.ops_per_s <<<"$out")"
			ops[$t]=$((${ops[$t]:-0} + $(number .total.ops <<<"$out")))
		done
	done
	for t in before now; do cpu[$t]=$((${cpu[$t]} + $(cpu_us $t))); done
	summary "$name"
	compare "$name" now before 0.99
	# Less disturbed by what else the machine does: the best tenth of the rounds, and CPU time.
	verdict "$name" "now / before, best rounds" "$(awk -F '\t' -v row="$name" '
		$1 == row { print $3, $5 }' "$SAMPLES" | sort -k 1,1 -k 2,2gr | awk -v n=$((ROUNDS / 10 + 1)) '
		count[$1]++ < n { sum[$1] += $2 } END { printf "%.4f", sum["now"] / sum["before"] }')" x '>=' 0.99
	verdict "$name" "daemon's CPU, now / before" "$(awk "BEGIN { printf \"%.4f\", \
		${cpu[now]} / ${ops[now]} / (${cpu[before]} / ${ops[before]}) }")" x '<=' 1.01
	targets_forget
}

limits=cache=strict,iops=10000000,bps=100G,read_bps=100G
row "limited: stat" $limits --op stat
row "limited: read 4K x1" $limits --op read --size 4K --random
row "limited: read 4K x4" $limits --op read --size 4K --random --clients 4
row "limited: read 128K x1" $limits --op read --size 128K
row "unlimited: read 4K x1" cache=strict --op read --size 4K --random
table
