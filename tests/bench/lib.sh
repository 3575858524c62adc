# SPDX-License-Identifier: MIT
# shellcheck shell=bash
# The verbs of the benches, on top of those of the mount tests.
#
# Several mirrors of the same directory ("targets") are measured in turn, in many short rounds
# (A B C, A B C, ...), so that whatever else the machine does hits all of them; what is compared is
# the median over the rounds of the ratio within a round.
#
# Out come JSON objects, one a line, for programs, and at the end a table for people:
#	{"row","target","unit","median","min","max","rounds"}	what was measured
#	{"row","what","value","unit","bar","verdict"}		what it was held against
#
# Environment
#	BENCH_FULL=1	longer rounds and more of them (the figures of the issue)
#	BENCH_ROUNDS=N	that many rounds
#	BENCH_ROWS=RE	only rows that match
#	BENCH_STRICT=1 (or the argument --strict)	exit 1 where a bar is missed

. "${srcdir:-.}/tests/mount/lib.sh" || exit 1
umount "$uring_parameter" 2>/dev/null # of lib.sh: benches choose the transport themselves
requires jq awk helper:iogen

case " $* " in *" --strict "*) BENCH_STRICT=1 ;; esac
# shellcheck disable=SC2034 # the benches look at it
FULL=${BENCH_FULL:-}
BENCH_HELPERS=$builddir/tests/bench
PATH=$BENCH_HELPERS:$PATH
SAMPLES=$TMP/samples VERDICTS=$TMP/verdicts
: >"$SAMPLES"
: >"$VERDICTS"

wanted() { [[ $1 =~ ${BENCH_ROWS:-.} ]]; }

# --- targets ---------------------------------------------------------------------------------

declare -A TARGET_CMD TARGET_PID
TARGETS=()

# target NAME command...: a mirror program that stays in the foreground, called with SRC and its
# mountpoint added; no command: SRC itself.
target() {
	local name=$1
	shift
	TARGETS+=("$name")
	TARGET_CMD[$name]=$*
}
dir_of() { [ -z "${TARGET_CMD[$1]}" ] && echo "$SRC" || echo "$TMP/on/$1"; }

target_up() {
	local name=$1 dir cmd
	[ -n "${TARGET_CMD[$name]}" ] || return 0
	dir=$(dir_of "$name")
	mkdir -p "$dir"
	read -ra cmd <<<"${TARGET_CMD[$name]}"
	"${cmd[@]}" -f "$SRC" "$dir" >"$TMP/log.$name" 2>&1 &
	TARGET_PID[$name]=$!
	within 10s mounted_at "$dir" || {
		LOG=$TMP/log.$name
		fail "$name did not come up: ${cmd[*]}"
	}
}
mounted_at() { mountpoint -q "$1" && stat "$1/." >/dev/null 2>&1; }

target_down() {
	local name=$1
	[ -n "${TARGET_PID[$name]:-}" ] || return 0
	within 5s unmounted "$(dir_of "$name")" || fail "$name cannot be unmounted"
	within 10s gone "${TARGET_PID[$name]}" || fail "$name is still there after its unmount"
	wait "${TARGET_PID[$name]}" || fail "$name ended with exit code $?"
	TARGET_PID[$name]=
}
unmounted() { ! mountpoint -q "$1" || umount "$1" 2>/dev/null; }

# Nothing known of the tree any more, in the kernel or in the daemon.
fresh() { target_down "$1" && target_up "$1"; }
targets_up() { local t; for t in "${TARGETS[@]}"; do target_up "$t"; done; }
targets_down() { local t; for t in "${TARGETS[@]}"; do target_down "$t"; done; }
targets_forget() { targets_down; TARGETS=(); }

# us of CPU that the daemon of a target has used, also on threads that are gone; 0 for SRC itself.
cpu_us() {
	local pid=${TARGET_PID[$1]:-}
	[ -n "$pid" ] || { echo 0; return; }
	awk -v hz="$(getconf CLK_TCK)" '{ sub(/.*\) /, ""); printf "%.0f\n", ($12 + $13) * 1e6 / hz }' \
		"/proc/$pid/stat"
}

# --- results ---------------------------------------------------------------------------------

# sample ROW UNIT TARGET ROUND VALUE
sample() { printf '%s\t%s\t%s\t%s\t%s\n' "$@" >>"$SAMPLES"; }
# Units of which less is better.
LESS='s us us/op ms KiB B'

# summary ROW: the JSON lines of what was measured.
summary() {
	awk -F '\t' -v row="$1" '
	$1 == row {
		if (!($3 in n)) order[++targets] = $3
		unit = $2; v[$3, ++n[$3]] = $5
	}
	function sort_of(t,   i, j, x) {
		for (i = 2; i <= n[t]; i++) {
			x = v[t, i]
			for (j = i - 1; j >= 1 && v[t, j] > x; j--) v[t, j + 1] = v[t, j]
			v[t, j + 1] = x
		}
	}
	END {
		for (k = 1; k <= targets; k++) {
			t = order[k]; sort_of(t); m = n[t]
			med = m % 2 ? v[t, (m + 1) / 2] : (v[t, m / 2] + v[t, m / 2 + 1]) / 2
			printf "{\"row\":\"%s\",\"target\":\"%s\",\"unit\":\"%s\",\"median\":%.6g,\"min\":%.6g,\"max\":%.6g,\"rounds\":%d}\n",
				row, t, unit, med, v[t, 1], v[t, m], m
		}
	}' "$SAMPLES"
}

# speed_ratio ROW A B: how many times as fast as B is A, median over the rounds.
speed_ratio() {
	awk -F '\t' -v row="$1" -v a="$2" -v b="$3" -v less=" $LESS " '
	$1 == row && $3 == a { x[$4] = $5 }
	$1 == row && $3 == b { y[$4] = $5 }
	$1 == row { lower = index(less, " " $2 " ") }
	END {
		for (r in x) if (r in y && x[r] > 0 && y[r] > 0)
			q[++n] = lower ? y[r] / x[r] : x[r] / y[r]
		for (i = 2; i <= n; i++) {
			z = q[i]
			for (j = i - 1; j >= 1 && q[j] > z; j--) q[j + 1] = q[j]
			q[j + 1] = z
		}
		if (n) printf "%.4f\n", n % 2 ? q[(n + 1) / 2] : (q[n / 2] + q[n / 2 + 1]) / 2
	}' "$SAMPLES"
}
has_samples() { awk -F '\t' -v r="$1" -v t="$2" '$1 == r && $3 == t { f = 1 } END { exit !f }' "$SAMPLES"; }

# compare ROW A B [BAR]: a verdict on the speed ratio.
compare() {
	local ratio
	has_samples "$1" "$2" && has_samples "$1" "$3" || return 0
	ratio=$(speed_ratio "$1" "$2" "$3")
	[ -z "$ratio" ] || verdict "$1" "$2 / $3" "$ratio" x ${4:+'>=' "$4"}
}

# verdict ROW WHAT VALUE UNIT [>=|<= BAR]
verdict() {
	local word=- bar=
	if [ $# -ge 6 ]; then
		bar="$5 $6"
		if awk -v v="$3" -v o="$5" -v b="$6" 'BEGIN { exit !(o == "<=" ? v <= b : v >= b) }'; then
			word=PASS
		else
			word='FALLS SHORT'
		fi
	fi
	printf '{"row":"%s","what":"%s","value":%s,"unit":"%s","bar":"%s","verdict":"%s"}\n' \
		"$1" "$2" "$3" "$4" "$bar" "$word"
	printf '%s\t%s\t%s\t%s\t%s\t%s\n' "$1" "$2" "$3" "$4" "$bar" "$word" >>"$VERDICTS"
}

# All verdicts as a table; the exit status of the bench.
table() {
	awk -F '\t' '
	BEGIN { printf "\n%-34s %-26s %12s %-6s %-10s %s\n", "row", "what", "value", "unit", "bar", "verdict" }
	{ printf "%-34s %-26s %12s %-6s %-10s %s\n", $1, $2, $3, $4, $5, $6 }
	$6 == "PASS" { pass++ } $6 == "FALLS SHORT" { short++ }
	END { printf "%d of %d bars reached\n", pass, pass + short }' "$VERDICTS"
	[ -z "${BENCH_STRICT:-}" ] || ! grep -q 'FALLS SHORT' "$VERDICTS"
}

# The medians of all samples: a line for each row, a column for each target.
matrix() {
	awk -F '\t' '
	{
		if (!($1 in unit)) rows[++nr] = $1
		if (!($3 in col)) { col[$3] = ++nc; name[nc] = $3 }
		unit[$1] = $2; v[$1, $3, ++n[$1, $3]] = $5
	}
	function median(r, t,   i, j, x, m) {
		m = n[r, t]
		if (!m) return "-"
		for (i = 2; i <= m; i++) {
			x = v[r, t, i]
			for (j = i - 1; j >= 1 && v[r, t, j] > x; j--) v[r, t, j + 1] = v[r, t, j]
			v[r, t, j + 1] = x
		}
		x = m % 2 ? v[r, t, (m + 1) / 2] : (v[r, t, m / 2] + v[r, t, m / 2 + 1]) / 2
		return sprintf(x >= 1000 ? "%.0f" : "%.4g", x)
	}
	END {
		printf "\n%-26s %-7s", "row", "unit"
		for (c = 1; c <= nc; c++) printf " %12s", name[c]
		print ""
		for (k = 1; k <= nr; k++) {
			printf "%-26s %-7s", rows[k], unit[rows[k]]
			for (c = 1; c <= nc; c++) printf " %12s", median(rows[k], name[c])
			print ""
		}
	}' "$SAMPLES"
}

# number FILTER: out of iogen's answer on stdin.
number() { jq -r "$1"; }
