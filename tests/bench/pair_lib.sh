# SPDX-License-Identifier: MIT
# shellcheck shell=bash
# Rows that compare two mounts to a fraction of a percent; source after lib.sh.
#
# Ordinary noise is several percent, so the comparison avoids what causes it:
#	- `pair` alternates between the two mounts every 5 ms, in one process;
#	- clients and daemons share one CPU, so that the time of a request is all the work that it causes, and does not
#	  depend on which CPU the kernel wakes a thread on (rows with several clients use all CPUs and are noisier);
#	- each row uses several pairs of fresh daemons, because the place of code and data in memory alone makes 1 %.
# A row's ratio is the median over its pairs of daemons of the median over blocks of turns.  Its 95 % interval is a bootstrap
# over the pairs of daemons.
#
# Environment: BENCH_CPU, BENCH_SECONDS (of each pair), BENCH_ROUNDS (pairs of daemons)
requires taskset

LIVES=${BENCH_ROUNDS:-${FULL:+15}}
LIVES=${LIVES:-7}
PIN="taskset -c ${BENCH_CPU:-0}"

# The file that pair_row uses: call after `backing`.
pair_file() { head -c 64M /dev/zero | tr '\0' x >"$SRC/data"; }

# pair_row NAME BAR OP A B [CLIENTS]: how fast is the mount of command A, compared with that of command B?
pair_row() {
	local name=$1 bar=$2 op=$3 a=$4 b=$5 clients=${6:-1} pin=$PIN life
	wanted "$name" || return 0
	[ "$clients" -eq 1 ] || pin=
	: >"$TMP/blocks"
	for ((life = 0; life < LIVES; life++)); do
		# shellcheck disable=SC2086 # pin and commands are several words
		{
			target a $pin $a
			target b $pin $b
			targets_up
			$pin pair "$op" "${BENCH_SECONDS:-2}" "$(dir_of a)/data" "$(dir_of b)/data" \
				"$clients" >"$TMP/pair" || fail "$name"
		}
		sed "s/^/$life /" "$TMP/pair" >>"$TMP/blocks"
		targets_forget
	done
	pair_result "$name" "$bar"
}

# pair_result ROW BAR
pair_result() {
	local ratio low high a b
	read -r ratio low high a b <<<"$(awk '
		function sort_of(v, n,   i, j, x) {
			for (i = 2; i <= n; i++) {
				x = v[i]
				for (j = i - 1; j >= 1 && v[j] > x; j--) v[j + 1] = v[j]
				v[j + 1] = x
			}
		}
		function median(v, n) {
			sort_of(v, n)
			return n % 2 ? v[(n + 1) / 2] : (v[n / 2] + v[n / 2 + 1]) / 2
		}
		{ q[$1, ++n[$1]] = $3 / $2; a[NR] = $2; b[NR] = $3 }
		END {
			srand(1)
			for (l in n) {
				for (i = 1; i <= n[l]; i++) v[i] = q[l, i]
				lives[++k] = median(v, n[l])
			}
			for (r = 1; r <= 2000; r++) {
				for (i = 1; i <= k; i++) v[i] = lives[1 + int(rand() * k)]
				m[r] = median(v, k)
			}
			sort_of(m, 2000)
			printf "%.4f %.4f %.4f %.0f %.0f\n", median(lives, k), m[51], m[1950], median(a, NR), median(b, NR)
		}' "$TMP/blocks")"
	printf '{"row":"%s","ns_a":%s,"ns_b":%s,"ratio":%s,"low":%s,"high":%s,"pairs":%s}\n' \
		"$1" "$a" "$b" "$ratio" "$low" "$high" "$LIVES"
	verdict "$1" "speed, 95 %: $low … $high" "$ratio" x '>=' "$2"
}
