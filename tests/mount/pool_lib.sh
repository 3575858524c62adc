# SPDX-License-Identifier: MIT
# shellcheck shell=bash
# Hosts of a pool for the mount tests: each is a daemon with a source, a mount and a log of its own.
# In place of lib.sh; the test gets a network namespace of its own.
. "${srcdir:-.}/tests/mount/net_lib.sh"
. "${srcdir:-.}/tests/mount/lib.sh"
requires nsenter taskset jq helper:iogen helper:noise
declare -A HOST	# pid by number
LOG_POOL='^ratefs: (serving|mount .*: unmounted$|limits?[ :]|.* limits?: |pool )'

# host_up 1 [options]: serves $TMP/s1 at $TMP/m1; in the network of host 1, if `network` made one.
host_up() {
	local n=$1 enter=()
	shift
	mkdir -p "$TMP/s$n" "$TMP/m$n"
	[ -s "$TMP/s$n/file" ] || truncate -s 64M "$TMP/s$n/file"	# a hole: a slow disk does not matter
	[ ! -e "/run/netns/h$n" ] || enter=(nsenter "--net=/run/netns/h$n")
	"${enter[@]}" "$RATEFS" -f "$TMP/s$n" "$TMP/m$n" -o allow_other "$@" >"$TMP/log$n" 2>&1 &
	HOST[$n]=$!
	within 10s host_answers "$n" || { cat "$TMP/log$n" >&2; fail "host $n did not come up"; }
}
host_answers() { findmnt -nM "$TMP/m$1" -o FSTYPE 2>/dev/null | grep -q '^fuse'; }
# The daemon must end with exit status 0; the test checks what it logged about the pool.
host_down() {
	local n=$1 rc=0
	kill "${HOST[$n]}" 2>/dev/null
	within 10s gone "${HOST[$n]}" || fail "host $n does not end"
	wait "${HOST[$n]}" || rc=$?
	[ $rc = 0 ] || { cat "$TMP/log$n" >&2; fail "the daemon of host $n ended with $rc"; }
	! grep -Ev "$LOG_POOL" "$TMP/log$n" || fail "host $n said more than it should"
}
host_crash() {
	kill -9 "${HOST[$1]}"
	wait "${HOST[$1]}" 2>/dev/null
	umount -l "$TMP/m$1"
}
host_said() { grep -Eq "$2" "$TMP/log$1"; }

# reading 1: reads on host 1 endlessly, in the background; read_end stops all such readers.
READERS=()
reading() {
	iogen --op read --size 64K --clients 2 --forever --path "$TMP/m$1/file" &
	READERS+=($!)
}
read_end() {
	[ ${#READERS[@]} = 0 ] || kill "${READERS[@]}" 2>/dev/null
	wait "${READERS[@]}" 2>/dev/null
	READERS=()
}
# rates 4 1 2 3: measures the bytes per second of hosts 1, 2 and 3 over 4 seconds while all read;
# sets RATE[n] and SUM.
declare -A RATE
rates() {
	RATES_AGAIN=("$@") NOISE_BEFORE=${NOISE_MS:-0}
	beside_noise_of_cpus read_all "$@"
}
# beside_noise on each CPU (of the first eight): NOISE_MS and MEAN_NOISE_MS are those of the worst.  A virtual machine may not
# get one of its CPUs for a while, and stops only the processes there.
beside_noise_of_cpus() {
	local cpu pids=() rc=0
	for ((cpu = 0; cpu < 8 && cpu < $(nproc); cpu++)); do
		taskset -c $cpu noise >"$TMP/noise.$cpu" 2>/dev/null &
		pids+=($!)
	done
	"$@" || rc=$?
	kill -TERM "${pids[@]}" 2>/dev/null
	wait "${pids[@]}"
	read -r NOISE_MS MEAN_NOISE_MS < <(awk '$1 > most { most = $1 } $2 > mean { mean = $2 } END { print most + 0, mean + 0 }' \
		"$TMP"/noise.[0-7])
	return $rc
}
read_all() {
	local time=$1 n pids=() out t0 bytes=0 files=()
	shift
	t0=$(now_ms)
	for n in "$@"; do
		iogen --op read --size 64K --clients 2 --skip 0 --time "$time" --path "$TMP/m$n/file" >"$TMP/rate$n" &
		pids+=($!)
	done
	wait "${pids[@]}"
	RATES_MS=$(($(now_ms) - t0))
	SUM=0 RATES_HOSTS=$#
	for n in "$@"; do
		out=$(jq -r .total.bytes_per_s "$TMP/rate$n")
		RATE[$n]=${out%.*}
		SUM=$((SUM + RATE[$n]))
		bytes=$((bytes + $(jq -r .total.bytes "$TMP/rate$n")))
		files+=("$TMP/rate$n")
	done
	TOGETHER=$((bytes * 1000 / RATES_MS))
	# The times of the hosts begin and end apart by this much; a host that reads alone can use the whole rate.
	ALONE=$(jq -s "([.[].began_ns] | max - min) / 1e9 / $time * $SUM | ceil" "${files[@]}")
	say "rates: $(for n in "$@"; do printf '%s ' "${RATE[$n]}"; done) sum $SUM"
}
# near HOST|sum WANTED PERCENT WHAT: checks a host's rate, or the sum, of the last `rates`.  On any
# machine, what they have read in total, from the first start to the last end, may exceed the rate
# only by what the hosts had saved up (100 ms of the rate) and by one request of each.  (They do not start at
# exactly the same time, and until all have, some get more than later: so this is not the sum of their rates.)
# It may be lower by twice PERCENT, and the rate of one host by three times, because how much of a
# lease clients use depends on the machine; under a sanitizer clients are slow.
# A rate that is too low, or that of one host which is too high because another could not read, is measured again: once, and
# four times if the machine made processes wait meanwhile, because that says nothing about the pool.
near() {
	local tries=1 why
	while :; do
		[ "$1" != sum ] || no_more_than_pool "$2" "$4"
		why=$(is_off "$@") || return 0
		why+="; processes were up to $NOISE_MS ms late, $MEAN_NOISE_MS ms on average"
		if [ $tries = 5 ] || { [ $tries -ge 2 ] && ! was_busy; }; then
			fail "$why"
		fi
		tries=$((tries + 1))
		say "$why: measured again"
		rates "${RATES_AGAIN[@]}"
	done
}
# During the last `rates`, or so long during the one before that a lease may have been lost.
was_busy() {
	awk -v most="$NOISE_MS" -v mean="$MEAN_NOISE_MS" -v before="$NOISE_BEFORE" 'BEGIN { exit !(most > 40 || mean > 2 || before > 100) }'
}
# True, with the reason: the rate is too low, or that of a host is too high.
is_off() {
	local rate=$SUM below=$(($3 * 2)) above=$3 most
	if [ "$1" != sum ]; then
		rate=${RATE[$1]} below=$(($3 * 3))
	fi
	! sanitized || below=50 above=45	# a client that is slow leaves its part to others
	most=$(($2 * (100 + above) / 100 + ALONE))
	if [ "$rate" -lt $(($2 * (100 - below) / 100)) ]; then
		echo "$4: $rate is less than $((100 - below)) % of $2"
	elif [ "$1" != sum ] && [ "$rate" -gt "$most" ]; then
		echo "$4: $rate is more than $most; the rate is $2"
	else
		return 1
	fi
}
# no_more_than_pool RATE WHAT: checks only the upper bound.  A host that the machine stops for so long that it loses its lease
# uses its fallback, while others have what it was granted: then this is measured again.
no_more_than_pool() {
	local tries=1
	until is_no_more_than "$1"; do
		if [ $tries = 5 ] || ! was_stopped; then
			fail "$2: $TOGETHER is more than the rate, $1, and what hosts may save; processes were up to $NOISE_MS ms late"
		fi
		tries=$((tries + 1))
		say "$2: $TOGETHER is more than $1; processes were up to $NOISE_MS ms late: measured again"
		rates "${RATES_AGAIN[@]}"
	done
}
is_no_more_than() {
	local most=$(($1 * 1005 / 1000 + ($1 / 10 + RATES_HOSTS * 65536) * 1000 / RATES_MS))
	[ "$TOGETHER" -le "$most" ]
}
was_stopped() { awk -v ms="$NOISE_MS" -v before="$NOISE_BEFORE" 'BEGIN { exit !(ms > 200 || before > 200) }'; }

# --- the server ------------------------------------------------------------------------------

REDIS=
redis_up() {	# [arguments]
	local program=${POOL_SERVER:-redis-server}
	"$program" --bind "${POOL_BIND:-127.0.0.1}" --protected-mode no --port 6379 --unixsocket "$TMP/redis.sock" \
		--save '' --dir "$TMP" "$@" >"$TMP/redis.log" 2>&1 &
	REDIS=$!
	within 10s redis_answers || { tail -n 5 "$TMP/redis.log" >&2; fail "$program does not start"; }
}
redis_answers() { redis-cli -s "$TMP/redis.sock" ping 2>&1 | grep -Eq 'PONG|NOAUTH'; }
redis_down() {
	kill "-${1:-TERM}" "$REDIS"
	wait "$REDIS" 2>/dev/null
	rm -f "$TMP/redis.sock"
}
