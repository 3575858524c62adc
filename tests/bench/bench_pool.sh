#!/bin/bash
# SPDX-License-Identifier: MIT
# One limit over many hosts: how exact is the sum, how soon is an idle host's share at work elsewhere, what does it
# cost the server; and beside it a fixed split, and a script call for each request.
if [ -z "${POOL_TEST_NET:-}" ]; then
	unshare --net true 2>/dev/null || { echo "bench_pool: skipped: needs network namespaces" >&2; exit 77; }
	POOL_TEST_NET=1 exec unshare --net bash "$0" "$@"
fi
. "${srcdir:-.}/tests/bench/lib.sh" || exit 1
requires redis-server redis-cli redis-benchmark ip
ip link set lo up

T=${FULL:+20}
T=${T:-6}
R=$((16 << 20))
declare -A HOST
redis-server --bind 127.0.0.1 --port 6379 --unixsocket "$TMP/redis.sock" --save '' --dir "$TMP" >/dev/null 2>&1 &
REDIS=$!
within 10s test -S "$TMP/redis.sock" || fail "redis-server does not start"
head -c 32M /dev/zero >"$TMP/data"

host_up() { # NUMBER OPTIONS
	mkdir -p "$TMP/s$1" "$TMP/m$1"
	[ -e "$TMP/s$1/file" ] || ln "$TMP/data" "$TMP/s$1/file"
	"$RATEFS" -f "$TMP/s$1" "$TMP/m$1" -o "allow_other,$2" >"$TMP/log$1" 2>&1 &
	HOST[$1]=$!
	within 10s mounted_at "$TMP/m$1" || fail "host $1 did not come up"
}
all_down() {
	kill "${HOST[@]}"
	wait "${HOST[@]}"
	HOST=()
}
pool() { echo "pool.server=redis://127.0.0.1,pool.key=$1,pool.bps=$R"; }
load() { # NUMBER SECONDS [MORE]: reads on a host; the answer is in $TMP/out.NUMBER
	local n=$1 time=$2
	shift 2
	iogen --op read --size 16K --clients 2 --time "$time" --path "$TMP/m$n/file" "$@" >"$TMP/out.$n" &
}
sum_of() { cat "$TMP"/out.* | jq -s 'map(.total.bytes_per_s) | add'; }
off() { awk -v g="$1" -v w="$R" 'BEGIN { d = (g - w) / w * 100; printf "%.2f\n", d < 0 ? -d : d }'; }

# --- the sum ---------------------------------------------------------------------------------

even_of() { # MEMBERS WAY
	local n
	rm -f "$TMP"/out.*
	for n in $(seq "$1"); do
		if [ "$2" = pool ]; then host_up "$n" "$(pool "even$1")"; else host_up "$n" "bps=$((R / $1))"; fi
	done
	for n in $(seq "$1"); do load "$n" "$T" --skip 2; done
	within "$((T + 10))s" no_jobs
	verdict "pool, $1 members, even" "$2: off the rate" "$(off "$(sum_of)")" % ${3:+'<='} ${3:+"$3"}
	rm -f "$TMP"/out.*
	load 1 "$T" --skip 2 # the others are idle
	within "$((T + 10))s" no_jobs
	verdict "pool, $1 members, one busy" "$2: off the rate" "$(off "$(sum_of)")" % ${3:+'<='} ${3:+"$3"}
	all_down
}
no_jobs() { ! pgrep -x iogen >/dev/null; }
members=3
[ -z "$FULL" ] || members='3 16'
for m in $members; do
	even_of "$m" pool 1
	even_of "$m" 'fixed split'
done

# --- time until an idle host's share is used ---------------------------------------------------

for n in 1 2; do host_up "$n" "$(pool idle)"; done
rm -f "$TMP"/out.*
load 1 6
load 2 3
sleep 3
before=$(now_ms)
while :; do
	a=$(awk '/^rchar/ { print $2 }' "/proc/${HOST[1]}/io")
	sleep 0.1
	b=$(awk '/^rchar/ { print $2 }' "/proc/${HOST[1]}/io")
	[ $((10 * (b - a))) -lt $((R * 9 / 10)) ] && [ $(($(now_ms) - before)) -lt 5000 ] || break
done
verdict "pool, an idle host's share" "is used after" "$(awk -v ms=$(($(now_ms) - before)) 'BEGIN { print ms / 1000 }')" s '<=' 1.1
within 10s no_jobs
calls_before=$(redis-cli -s "$TMP/redis.sock" info commandstats | sed -nE 's/^cmdstat_evalsha:calls=([0-9]+).*/\1/p')
sleep 4
calls=$(redis-cli -s "$TMP/redis.sock" info commandstats | sed -nE 's/^cmdstat_evalsha:calls=([0-9]+).*/\1/p')
verdict "pool, server" "calls per member and second" "$(awk -v n=$((calls - calls_before)) 'BEGIN { print n / 8 }')" /s
all_down

# --- the server --------------------------------------------------------------------------------

cpu_of() { awk '{ print $14 + $15 }' "/proc/$REDIS/stat"; }
for m in 100 1000; do
	c=$(cpu_of)
	line=$(poolcheck load "$TMP/redis.sock" "$srcdir/src/ctl/pool.lua" "$m" 4)
	verdict "pool, $m members on one server" "p99 of a call" "$(jq .p99_us <<<"$line")" us
	verdict "pool, $m members on one server" "calls" "$(jq .calls_per_s <<<"$line")" /s
	verdict "pool, $m members on one server" "CPU of the server" "$(awk -v t=$(($(cpu_of) - c)) 'BEGIN { print t / 4 }')" %
done
# The other way: a script call for each request, however small its window of tokens.
gcra="local t = redis.call('TIME') local now = t[1] * 1e6 + t[2] local tat = tonumber(redis.call('GET', KEYS[1]) or now)
if tat < now then tat = now end if tat - now > 1e5 then return 0 end redis.call('SET', KEYS[1], string.format('%.0f', tat + 1)) return 1"
rate=$(redis-benchmark -s "$TMP/redis.sock" -n 50000 -c 16 --csv eval "$gcra" 1 gcra 2>/dev/null | awk -F '"' 'END { print $4 }')
verdict "a script call for each request" "requests of all hosts together, at most" "${rate:-0}" /s
kill "$REDIS"
table
