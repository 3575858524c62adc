#!/bin/bash
# SPDX-License-Identifier: MIT
# How eight clients with blocks from 4 KiB to 512 KiB share one limit over time, on ratefs and on bindfs: a
# picture, $BENCH_PICTURE (shares.svg in the build tree by default), and Jain's index of each.
. "${srcdir:-.}/tests/bench/lib.sh" || exit 1
requires bindfs gnuplot dd
wanted shares || exit 0

PICTURE=${BENCH_PICTURE:-$builddir/shares.svg}
T=${FULL:+20}
T=${T:-10}
RATE=40000000
SIZES=(4K 8K 16K 32K 64K 128K 256K 512K)
backing tmpfs 1G
truncate -s 8G "$SRC/data" # a hole: reading it costs the source nothing

target ratefs "$RATEFS" -o "allow_other,read_bps=$RATE"
target bindfs bindfs --multithreaded -o direct_io "--read-rate=$RATE"
targets_up

# Bytes that each client has read so far.
read_so_far() {
	local pid bytes
	for pid in "$@"; do
		read -r _ bytes <"/proc/$pid/io" # rchar: N
		printf ' %s' "$bytes"
	done
}

# shares TARGET: lines "seconds, share of client 1 … 8 in percent" in $TMP/TARGET.dat, and the sums.
shares() {
	local pids=() size t0 end
	for size in "${SIZES[@]}"; do
		dd if="$(dir_of "$1")/data" of=/dev/null bs="$size" status=none &
		pids+=($!)
	done
	sleep 1 # past the burst at the start
	t0=$(now_ms)
	end=$((t0 + T * 1000))
	while [ "$(now_ms)" -lt "$end" ]; do
		echo "$(($(now_ms) - t0))$(read_so_far "${pids[@]}")"
		sleep 0.25
	done >"$TMP/$1.read"
	kill "${pids[@]}"
	wait "${pids[@]}" 2>/dev/null
	# Over a second, so that the largest blocks are seen as the stream that they are.
	awk '
	{
		for (i = 0; i <= NF; i++) at[NR, i] = i ? $i : 0
		for (old = NR - 4; old >= 1; ) {
			sum = 0
			for (i = 2; i <= NF; i++) sum += $i - at[old, i]
			if (!sum) break
			printf "%.3f", $1 / 1000
			for (i = 2; i <= NF; i++) printf " %.3f", 100 * ($i - at[old, i]) / sum
			print ""
			break
		}
	}' "$TMP/$1.read" >"$TMP/$1.dat"
	awk 'NR == 1 { for (i = 2; i <= NF; i++) a[i] = $i }
	{ for (i = 2; i <= NF; i++) b[i] = $i; n = NF - 1 }
	END {
		for (i in a) { x = b[i] - a[i]; s += x; q += x * x }
		printf "%.4f\n", q ? s * s / (n * q) : 0
	}' "$TMP/$1.read" >"$TMP/$1.jain"
	[ "$(wc -l <"$TMP/$1.dat")" -ge "$T" ] || fail "too few samples of $1"
}

for t in ratefs bindfs; do
	shares $t
done
verdict shares "Jain index" "$(<"$TMP/ratefs.jain")" - '>=' 0.995
verdict shares "bindfs: Jain index" "$(<"$TMP/bindfs.jain")" -
targets_down

gnuplot -e "dir='$TMP'; out='$TMP/shares.svg'; rate='40 MB/s'; sizes='${SIZES[*]}'; seconds=$T" \
	"$srcdir/tests/bench/shares.gp" || fail "gnuplot"
cp "$TMP/shares.svg" "$PICTURE"
echo "wrote $PICTURE"
table
