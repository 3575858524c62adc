#!/bin/bash
# SPDX-License-Identifier: MIT
# Is a limit exact, is it shared fairly, and what does it cost callers that are not limited?
# Once for each transport; one of them: BENCH_TRANSPORT=dev|uring.  The first word of a row says which.
. "${srcdir:-.}/tests/bench/lib.sh" || exit 1
requires bindfs

backing tmpfs 2G
head -c 64M /dev/zero | tr '\0' x >"$SRC/data"
T=${FULL:+10}
T=${T:-4}
SIZES=4K,16K,64K,128K,256K,512K,1M
TRANSPORTS=${BENCH_TRANSPORT:-dev}
if [ -z "${BENCH_TRANSPORT:-}" ]; then
	if [ "$(cat "$uring_parameter" 2>/dev/null)" = Y ]; then TRANSPORTS="dev uring"
	else say "only by /dev/fuse: io_uring is disabled for FUSE: echo Y > $uring_parameter"; fi
fi
ratefs_target() { target "$1" "$RATEFS" -o "allow_other,transport=$BY,$2"; }

# held TARGET ROW WHAT VALUE UNIT OP BAR: a verdict; the bar is for ratefs, others are shown beside it.
held() {
	case $1 in
	ratefs) verdict "$2" "$3" "$4" "$5" "$6" "$7" ;;
	*) verdict "$2" "$1: $3" "$4" "$5" ;;
	esac
}

# --- accuracy --------------------------------------------------------------------------------
# Low rates leave the machine idle, so those runs share their seconds; a high one has it alone.

# accuracy_run NAME CLIENTS BLOCKS: load on target NAME, the answer in $TMP/NAME.CLIENTS.BLOCKS
accuracy_run() {
	local shape=(--size 128K)
	[ "$3" = equal ] || shape=(--size "$SIZES" --mix)
	case $1:$3 in
	*iops:equal) shape=(--size 4K) ;;
	*iops:*) shape=(--size "4K,16K,64K" --mix) ;;
	esac
	iogen --op read --clients "$2" "${shape[@]}" --skip 1 --time "$T" --random \
		--path "$(dir_of "$1.$2.$3")/data" >"$TMP/$1.$2.$3.json"
}

# accuracy_verdict NAME WANTED FILTER LARGEST CLIENTS BLOCKS
accuracy_verdict() {
	local got off room row="$BY: $1, $5 client(s), $6"
	got=$(json "$3" "$TMP/$1.$5.$6.json")
	off=$(awk -v g="$got" -v w="$2" 'BEGIN { printf "%.4f\n", (g - w) / w * 100 }')
	# 0.2 % and one request.
	room=$(awk -v w="$2" -v t="$T" -v l="$4" 'BEGIN { printf "%.4f\n", 0.2 + l / (w * t) * 100 }')
	case $1 in
	bindfs*) verdict "$row" "off the rate" "$off" % ;;
	*) verdict "$row" "off the rate" "${off#-}" % '<=' "$room" ;;
	esac
}

# accuracy NAME WANTED FILTER TARGET-COMMAND...: to be run by the next accuracy_go.
declare -a ACCURACY
accuracy() {
	local name=$1 want=$2 filter=$3 clients blocks largest
	wanted "accuracy $name" || return 0
	shift 3
	for clients in 1 8; do
		for blocks in equal mixed; do
			target "$name.$clients.$blocks" "$@"
			case $filter:$blocks in
			*bytes*:equal) largest=131072 ;;
			*bytes*) largest=1048576 ;;
			*) largest=1 ;;
			esac
			ACCURACY+=("$name $want $filter $largest $clients $blocks")
		done
	done
}
bps() {
	accuracy "$1MBps" $(($1 * 1000000)) .total.bytes_per_s "$RATEFS" -o "allow_other,transport=$BY,read_bps=$1MB"
	accuracy "bindfs:$1MBps" $(($1 * 1000000)) .total.bytes_per_s bindfs --multithreaded -o direct_io \
		"--read-rate=$(($1 * 1000000))"
}
iops() { accuracy "$1iops" "$1" .total.ops_per_s "$RATEFS" -o "allow_other,transport=$BY,read_iops=$1"; }

# accuracy_go together|alone: what was listed since the last time.
accuracy_go() {
	local entry f pids=() p
	targets_up
	for entry in "${ACCURACY[@]}"; do
		read -ra f <<<"$entry"
		accuracy_run "${f[0]}" "${f[4]}" "${f[5]}" &
		pids+=($!)
		[ "$1" = together ] || { wait "$!" || fail "accuracy: ${f[*]}"; pids=(); }
	done
	for p in "${pids[@]}"; do wait "$p" || fail "accuracy: a load failed"; done
	for entry in "${ACCURACY[@]}"; do
		read -ra f <<<"$entry"
		accuracy_verdict "${f[@]}"
	done
	targets_forget
	ACCURACY=()
}

accuracy_rows() {
	bps 1
	bps 10
	iops 10
	iops 1000
	accuracy_go together
	bps 100
	bps 500
	iops 20000
	accuracy_go alone
}

# --- fairness --------------------------------------------------------------------------------

# jain CLIENTS: block sizes from 4K to 1M; bindfs gets equal ones, which is easier.
jain() {
	local t out
	wanted "fairness" || return 0
	for t in "${TARGETS[@]}"; do
		out=$(iogen --op read --clients "$1" --size "$SIZES" --skip 1 --time "$2" --random \
			--path "$(dir_of "$t")/data") || fail "fairness on $t"
		held "$t" "$BY: fairness, $1 clients, 4K-1M" "Jain index" "$(number .jain <<<"$out")" - '>=' 0.995
	done
}
fairness() {
	wanted "fairness weights light" || return 0
	ratefs_target ratefs read_bps=50MB,fair=process
	target bindfs bindfs --multithreaded -o direct_io --read-rate=50000000
	targets_up
	jain 8 10
	jain 64 10
	light
	targets_forget
}

# One 4 KiB read in 100 ms beside 64 that read a megabyte at a time; in units of such a read's time.
light() {
	local t out bulk_us=20971.52
	for t in "${TARGETS[@]}"; do
		out=$(iogen --op read --clients 65 --light 1 --interval 0.1 --size 1M --skip 1 --time 10 \
			--random --path "$(dir_of "$t")/data") || fail "light client on $t"
		light_verdict "$t" p50 1 "$(number ".light.lat_us.p50 / $bulk_us" <<<"$out")"
		light_verdict "$t" p99 2 "$(number ".light.lat_us.p99 / $bulk_us" <<<"$out")"
	done
}
light_verdict() {
	held "$1" "$BY: 4K beside 64 bulk readers" "$2" "$(printf %.3f "$4")" turns '<=' "$3"
}

weights() {
	local out i share
	wanted weights || return 0
	ratefs_target ratefs "read_bps=100MB,fair=uid,weight=uid:1001=1+uid:1002=2+uid:1003=4"
	targets_up
	out=$(iogen --op read --clients 12 --uids 1001,1002,1003 --size 64K --skip 1 --time "$T" --random \
		--path "$(dir_of ratefs)/data") || fail "weights"
	for i in 1 2 4; do
		share=$(number "[.clients[] | select(.uid == $((1001 + i / 2))) | .bytes] | add" <<<"$out")
		share=$(number "$share / .total.bytes * 7 / $i * 100 - 100 | fabs" <<<"$out")
		verdict "$BY: weights 1:2:4" "off the share of $i" "$(printf %.3f "$share")" % '<=' 2
	done
	targets_forget
}

# --- parked requests -------------------------------------------------------------------------

stat_p50() {
	iogen --op stat --time 1 --path "$(dir_of "$1")/other" | number .total.lat_us.p50
}
# park N: N readers wait on target ratefs, whose limit is 1 KB/s.
park() {
	READ_FILE=$(dir_of ratefs)/data park_readers "$1" --size 64K
	nap 500ms
}

# One stat takes as long while 1000 reads wait.
beside_parked() {
	local round row="$BY: stat beside 1000 parked reads"
	wanted "$row" || return 0
	echo x >"$SRC/other"
	ratefs_target ratefs read_bps=1kB,attr_timeout=0,entry_timeout=0
	targets_up
	for round in 1 2 3; do
		sample "$row" us idle "$round" "$(stat_p50 ratefs)"
		park 1000
		sample "$row" us parked "$round" "$(stat_p50 ratefs)"
		unpark
		sleep 0.5
	done
	summary "$row"
	verdict "$row" "p50 against idle" "$(awk -v r="$(speed_ratio "$row" parked idle)" \
		'BEGIN { printf "%.3f\n", 1 / r }')" x '<=' 2
	targets_forget
}

killed() {
	local out
	wanted "kill -9 of a parked reader" || return 0
	ratefs_target ratefs read_bps=1kB
	targets_up
	park 1
	out=$(parkkill "$(dir_of ratefs)/data" 200) || fail "parkkill"
	unpark
	verdict "$BY: kill -9 of a parked reader" "gone after, p99" "$(number .p99_ms <<<"$out")" ms '<=' 50
	verdict "$BY: kill -9 of a parked reader" "gone after, p50" "$(number .p50_ms <<<"$out")" ms
	targets_forget
}

rss_kb() { awk '/^VmRSS:/ { print $2 }' "/proc/$1/status"; }
five_thousand() {
	local n=5000 before pid t0
	wanted "5000 parked reads: memory, SIGTERM" || return 0
	ratefs_target ratefs read_bps=1kB
	targets_up
	pid=${TARGET_PID[ratefs]}
	park 10
	unpark
	sleep 0.3
	before=$(rss_kb "$pid")
	park $n
	sleep 1
	verdict "$BY: 5000 parked reads" "memory of each" \
		"$(awk -v a="$before" -v b="$(rss_kb "$pid")" -v n=$n 'BEGIN { printf "%.0f\n", (b - a) * 1024 / n }')" \
		B '<=' 2048
	t0=$(now_ms)
	kill "$pid"
	within 10s gone "$pid" || fail "SIGTERM: still there after 10 s"
	verdict "$BY: 5000 parked reads" "SIGTERM to exit" $(($(now_ms) - t0)) ms '<=' 1000
	wait "$pid" || fail "SIGTERM: exit code $?"
	TARGET_PID[ratefs]=
	unpark
	targets_forget
}

# --- limits that never bind ------------------------------------------------------------------

cost_row() {
	local row="$BY: unbound: $1" round t rounds=${FULL:+31} out cpu
	rounds=${BENCH_ROUNDS:-${rounds:-15}}
	wanted "$row" || return 0
	shift
	for ((round = 1; round <= rounds; round++)); do
		for t in "${TARGETS[@]}"; do
			cpu=$(cpu_us "$t")
			out=$(iogen "$@" --time 0.3 --path "$(dir_of "$t")/data") || fail "$row on $t"
			cpu=$(($(cpu_us "$t") - cpu))
			sample "$row" ops/s "$t" "$round" "$(number .total.ops_per_s <<<"$out")"
			sample "$row: daemon's CPU" us/op "$t" "$round" "$(number "$cpu / ([.total.ops, 1] | max)" <<<"$out")"
		done
	done
	summary "$row"
	compare "$row" limited free 0.97
	compare "$row: daemon's CPU" limited free
}
unbound() {
	wanted unbound || return 0
	ratefs_target free cache=strict
	ratefs_target limited cache=strict,iops=10000000,bps=100G,read_bps=100G
	targets_up
	cost_row "stat" --op stat
	cost_row "read 4K x1" --op read --size 4K --random
	cost_row "read 4K x4" --op read --size 4K --random --clients 4
	cost_row "read 128K x1" --op read --size 128K
	targets_forget
}

for BY in $TRANSPORTS; do
	accuracy_rows
	fairness
	weights
	beside_parked
	killed
	five_thousand
	unbound
done
table
