#!/bin/bash
# SPDX-License-Identifier: MIT
# Is this program as fast as an earlier one, to 1 %?  RATEFS_BEFORE is the earlier `ratefs`.
#	RATEFS_BEFORE=../before/build/ratefs tests/bench/bench_before.sh
# Without it, the only question is what limits cost that never bind.
#
# Ordinary noise is several percent, so the comparison avoids what causes it:
#	- `pair` alternates between the two mounts every 5 ms, in one process;
#	- clients and daemons share one CPU, so that the time of a request is all the work that it causes, and does not
#	  depend on which CPU the kernel wakes a thread on
#	  (except in the rows with four clients, which use all CPUs and are noisier);
#	- each row uses several pairs of fresh daemons, because the place of code and data in memory alone makes 1 %.
# A row's ratio is the median over its pairs of daemons of the median over blocks of turns.  Its 95 % interval is a bootstrap
# over the pairs of daemons.  The row "same program" shows how much noise is left.
. "${srcdir:-.}/tests/bench/lib.sh" || exit 1
requires taskset

backing tmpfs 1G
head -c 64M /dev/zero | tr '\0' x >"$SRC/data"
LIVES=${BENCH_ROUNDS:-${FULL:+15}}
LIVES=${LIVES:-7}
CPU=${BENCH_CPU:-0} # empty: any
PIN=${CPU:+taskset -c $CPU}

# row NAME BAR OP A-PROGRAM A-OPTIONS B-PROGRAM B-OPTIONS [CLIENTS]: how fast is A, compared with B?
row() {
	local name=$1 bar=$2 op=$3 a=$4 a_options=$5 b=$6 b_options=$7 clients=${8:-1} life
	wanted "$name" || return 0
	: >"$TMP/blocks"
	for ((life = 0; life < LIVES; life++)); do
		# shellcheck disable=SC2086 # PIN and programs may be several words
		{
			target a $PIN $a -o "allow_other,$a_options"
			target b $PIN $b -o "allow_other,$b_options"
			targets_up
			$PIN pair "$op" "${BENCH_SECONDS:-2}" "$(dir_of a)/data" "$(dir_of b)/data" \
				"$clients" >"$TMP/pair" || fail "$name"
		}
		sed "s/^/$life /" "$TMP/pair" >>"$TMP/blocks"
		targets_forget
	done
	result "$name" "$bar"
}

# result ROW BAR
result() {
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

three=iops=10000000,bps=100G,read_bps=100G,write_bps=100G
now=$RATEFS

# in_scopes PROGRAM -o OPTIONS -f SOURCE MOUNTPOINT: the same limits in three scopes, nine for each request.
cat >"$BIN/in_scopes" <<-'END'
	#!/bin/bash
	conf=$6.conf limits=$(tr , '\n' <<<"${3#*cache=strict,}")
	printf '[global]\n%s\n[fs:f]\nsource=%s\n%s\n[mount:m]\nfs=f\nmountpoint=%s\nallow_other=yes\ncache=strict\n%s\n' \
		"$limits" "$5" "$limits" "$6" "$limits" >"$conf"
	"$1" -f -c "$conf" &
	until mountpoint -q "$6"; do sleep 0.1; done
	while mountpoint -q "$6"; do sleep 0.1; done
	kill $! 2>/dev/null; wait $!
END
chmod +x "$BIN/in_scopes"
if [ -n "${RATEFS_BEFORE:-}" ]; then
	install -m 755 "$RATEFS_BEFORE" "$BIN/ratefs-before" || fail "RATEFS_BEFORE=$RATEFS_BEFORE"
	before=$BIN/ratefs-before
	for op in read write fstat stat open; do
		row "before: $op, limited" 0.99 $op "$now" cache=strict,$three "$before" cache=strict,$three
		row "before: $op, no limits" 0.99 $op "$now" cache=strict "$before" cache=strict
		PIN='' row "before: $op, 4 clients" 0.99 $op "$now" cache=strict,$three "$before" cache=strict,$three 4
	done
	row "before: read, limited in 3 scopes" 0.99 read "$BIN/in_scopes $now" cache=strict,$three \
		"$BIN/in_scopes $before" cache=strict,$three
else
	say "RATEFS_BEFORE is not set: no comparison with an earlier program"
fi
row "limits that never bind: read, 3 scopes" 0.97 read "$BIN/in_scopes $now" cache=strict,$three "$now" cache=strict
row "same program: read" 0.995 read "$now" cache=strict,$three "$now" cache=strict,$three
PIN='' row "same program: read, 4 clients" 0.98 read "$now" cache=strict,$three "$now" cache=strict,$three 4
for op in read write fstat stat open; do
	row "limits that never bind: $op" 0.97 $op "$now" cache=strict,$three "$now" cache=strict
done
table
