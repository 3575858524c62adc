#!/bin/bash
# SPDX-License-Identifier: MIT
# One limit over many hosts: how exact the sum is, how soon an idle host's share is used elsewhere, and what it costs the
# server; and beside it a fixed split of the rate, and a script call for each request (GCRA).
#
# Each host is a daemon with a mount; two readers per host read blocks of 16 KiB (poolload).  The hosts may save up
# `window` of the rate (100 ms, a tenth of what they use in a second) while they are idle.  The measurement therefore begins after
# three seconds of load, when that is used up.  Later, the lease of a host that becomes idle shrinks, and so does what it may
# save up: the bar for any second is the same with changing demand.
#
# A share that moves from one host to another is not used for a moment (about 55 ms of the whole rate in total), so the sum
# with changing demand depends on how often that happens: always measure for 20 seconds, with phases of five.
#
# BENCH_ROWS=RE: only rows that match (even, uneven, changing, server).
if [ -z "${POOL_TEST_NET:-}" ]; then
	unshare --net true 2>/dev/null || { echo "bench_pool: skipped: needs network namespaces" >&2; exit 77; }
	POOL_TEST_NET=1 exec unshare --net bash "$0" "$@"
fi
. "${srcdir:-.}/tests/bench/lib.sh" || exit 1
requires redis-server redis-cli ip helper:poolcheck
ip link set lo up

SKIP=3 T=20 COUNTS='3 16'
RATE=$((16 << 20))
declare -A HOST
redis-server --bind 127.0.0.1 --port 6379 --unixsocket "$TMP/redis.sock" --save '' --dir "$TMP" >/dev/null 2>&1 &
REDIS=$!
within 10s test -S "$TMP/redis.sock" || fail "redis-server does not start"
head -c 16M /dev/zero >"$TMP/data"

# --- hosts -----------------------------------------------------------------------------------

hosts_up() { # COUNT WAY
	local n options
	for n in $(seq "$1"); do
		mkdir -p "$TMP/s$n" "$TMP/m$n"
		[ -e "$TMP/s$n/file" ] || ln "$TMP/data" "$TMP/s$n/file"
		case $2 in
		pool) options=pool.server=redis://127.0.0.1,pool.key=farm$1,pool.bps=$RATE ;;
		split) options=bps=$((RATE / $1)) ;;
		esac
		"$RATEFS" -f "$TMP/s$n" "$TMP/m$n" -o "allow_other,$options" >"$TMP/log$n" 2>&1 &
		HOST[$n]=$!
	done
	for n in $(seq "$1"); do
		within 10s mounted_at "$TMP/m$n" || fail "host $n did not come up"
	done
}
hosts_down() {
	[ ${#HOST[@]} -gt 0 ] || return 0
	kill "${HOST[@]}"
	wait "${HOST[@]}"
	HOST=()
}

# The demand of host NUMBER of COUNT: "all" (without a pause), a fraction of the rate, or in which seconds it reads.
demand_of() { # even|uneven|changing NUMBER COUNT
	local a=$((SKIP + T / 4)) b=$((SKIP + T / 2)) c=$((SKIP + T * 3 / 4)) end=$((SKIP + T + 1))
	case $1 in
	even) echo all ;;
	uneven) # a third reads without a pause, a third little, a third nothing
		case $(($2 % 3)) in
		1) echo all ;;
		2) awk -v n="$3" 'BEGIN { print 0.3 / n }' ;;
		0) echo 0-1 ;;
		esac ;;
	changing) # four phases; in each, another third is idle, and in the last one nobody
		case $(($2 % 3)) in
		1) echo "0-$a,$b-$end" ;;
		2) echo "0-$b,$c-$end" ;;
		0) echo "$a-$end" ;;
		esac ;;
	esac
}

# --- the server's work -----------------------------------------------------------------------

evals() { redis-cli -s "$TMP/redis.sock" info commandstats | sed -nE 's/^cmdstat_eval(sha)?:calls=([0-9]+).*/\2/p' | awk '{ n += $1 } END { print n + 0 }'; }
cpu_ms() { awk -v hz="$(getconf CLK_TCK)" '{ sub(/.*\) /, ""); print ($12 + $13) * 1000 / hz }' "/proc/$REDIS/stat"; }
script_us() { redis-cli -s "$TMP/redis.sock" info latencystats | sed -nE "s/^latency_percentiles_usec_evalsha:.*$1=([0-9.]+).*/\1/p"; }
per() { awk -v a="$1" -v b="$2" -v n="$3" 'BEGIN { printf "%.3f\n", (b - a) / n }'; }

# load ROW WAY DEMAND COUNT: into $TMP/out, and what the server did meanwhile.
load() {
	local n args=() calls cpu
	for n in $(seq "$4"); do
		case $2 in
		gcra) args+=("gcra:$TMP/redis.sock=$(demand_of "$3" "$n" "$4")") ;;
		*) args+=("$TMP/m$n/file=$(demand_of "$3" "$n" "$4")") ;;
		esac
	done
	calls=$(evals) cpu=$(cpu_ms)
	poolload "$RATE" "$SKIP" "$T" "${args[@]}" >"$TMP/out" || fail "poolload failed"
	jq -c --arg row "$1" --arg way "$2" '{row: $row, way: $way} + .' "$TMP/out"
	CALLS=$(per "$calls" "$(evals)" $(((SKIP + T) * $4)))
	CPU=$(per "$cpu" "$(cpu_ms)" $(((SKIP + T) * $4)))
}
value() { jq -r "$1" "$TMP/out"; }

measure() { # DEMAND COUNT
	local row="$2 hosts, $1" way bar
	wanted "$row" || return 0
	for way in pool split gcra; do
		[ $way = gcra ] || hosts_up "$2" $way
		bar=
		[ $way != pool ] || bar=yes
		load "$row" $way "$1" "$2"
		verdict "$row" "$way: sum off the rate" "$(value '.off_percent | fabs | . * 100 | round / 100')" % ${bar:+'<=' 1}
		verdict "$row" "$way: above it, any second" "$(value '[(.most_in_a_second - 1) * 100, 0] | max | . * 100 | round / 100')" % \
			${bar:+'<=' 2}
		[ "$1" != changing ] || verdict "$row" "$way: idle share in use" "$(value '.handover_s | max')" s ${bar:+'<=' 1}
		verdict "$row" "$way: calls, host and s" "$CALLS" /s
		verdict "$row" "$way: server CPU, host and s" "$CPU" ms
		hosts_down
	done
}
for count in $COUNTS; do
	for demand in even uneven changing; do
		measure "$demand" "$count"
	done
done

# --- many hosts on one server ------------------------------------------------------------------

for m in 100 1000; do
	row="$m simulated hosts, server"
	wanted "$row" || continue
	redis-cli -s "$TMP/redis.sock" config resetstat >/dev/null
	cpu=$(cpu_ms)
	line=$(poolcheck load "$TMP/redis.sock" "$srcdir/src/ctl/pool.lua" "$m" 10)
	verdict "$row" "CPU of the server" "$(per "$cpu" "$(cpu_ms)" 100)" %
	verdict "$row" "calls" "$(jq .calls_per_s <<<"$line")" /s
	verdict "$row" "script, p50" "$(script_us p50)" us
	verdict "$row" "script, p99" "$(script_us p99)" us
	verdict "$row" "script, p99.9" "$(script_us 'p99\.9')" us
	verdict "$row" "round trip, p99" "$(jq .p99_us <<<"$line")" us
done
kill "$REDIS"
table
