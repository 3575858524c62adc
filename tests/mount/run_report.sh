#!/bin/bash
# SPDX-License-Identifier: MIT
# The report of ratefs run: what it counts, which limit it names, --json, --compare, dry_run; and how long
# a run takes to start.
. "${srcdir:-.}/tests/mount/lib.sh" || exit 1
. "$srcdir/tests/mount/run_lib.sh" || exit 1
requires python3
head -c 1M /dev/zero >data

json() { python3 -c 'import json, sys; r = json.load(open(sys.argv[1])); print(eval(sys.argv[2]))' "$@"; }

run --report="$TMP/r" --json -o read_bps=2M,window=10ms -- cat data >/dev/null || fail "cat"
equal "$(json "$TMP/r" 'r["classes"]["read"]["bytes"]')" 1048576
equal "$(json "$TMP/r" 'r["exit_code"], r["directories"], r["command"]')" "(0, ['$DIR'], ['cat', 'data'])"
equal "$(json "$TMP/r" '0.4 < r["seconds"] < 20')" True
equal "$(json "$TMP/r" '[(l["name"], l["value"], l["blocking_ns"] > 2e8) for l in r["limits"]]')" "[('read_bps', '2M', True)]"
equal "$(json "$TMP/r" 'r["classes"]["read"]["waited"] > 0 and r["classes"]["read"]["wait_ns"] > 2e8')" True
run --report="$TMP/r" --json -- sh -c 'kill -9 $$' 2>/dev/null
equal "$(json "$TMP/r" 'r["signal"]')" 9

run -o read_bps=2M,window=10ms -- cat data >/dev/null 2>"$TMP/err" || fail "cat"
grep -Eq '^  read +[0-9]+ +1.0M ' "$TMP/err" || fail "no line for reads: $(cat "$TMP/err")"
grep -Eq '^  read_bps=2M: requests waited for it for [0-9.]+m?s, [0-9]+% of the time' "$TMP/err" || fail "no line for the limit: $(cat "$TMP/err")"
run -o mount.iops=100,fs.iops=100k -- true 2>"$TMP/err"
grep -q "mount.iops=100 of $DIR" "$TMP/err" || fail "no line for a mount's limit: $(cat "$TMP/err")"

# A modelled device: the report shows its time, and does not claim that nothing was limited.
run -o latency=20ms -- cat data >/dev/null 2>"$TMP/err" || fail "cat"
grep -Eq '^  device: [0-9]+ requests \(read\) took [0-9.]+m?s, 2[0-9.]+ms each on average' "$TMP/err" || fail "no device time: $(cat "$TMP/err")"
! grep -q 'nothing was limited' "$TMP/err" || fail "a device is said to limit nothing"
run --json --report="$TMP/r" -o profile=hdd-7200 -- cat data >/dev/null || fail "cat"
equal "$(json "$TMP/r" 'r["profile"], r["classes"]["read"]["device"] > 0, r["classes"]["read"]["device_ns"] > 5e5')" "('hdd-7200', True, True)"

# What would the command need?
run --json --report="$TMP/r" -o dry_run -- sh -c 'cat data >/dev/null; sleep 1.2' || fail "dry run"
equal "$(json "$TMP/r" '8e5 < r["peak"]["read_bps"] < 1.3e6')" True
json "$TMP/r" 'r["suggested"]' | grep -Eq '^iops=[0-9]+k?,read_bps=[0-9]+[KM]$' || fail "suggests $(json "$TMP/r" 'r["suggested"]')"
limits=$(json "$TMP/r" 'r["suggested"]')
before 5s run -q -o "$limits" -- cat data >/dev/null
run -o dry_run,iops=10 -- sh -c 'for i in 1 2 3 4 5 6; do cat data; done' >/dev/null 2>"$TMP/err"
grep -Eq 'iops=10: [1-9][0-9]* requests would have waited' "$TMP/err" || fail "$(cat "$TMP/err")"
grep -q 'the busiest second needs: -o iops=' "$TMP/err" || fail "$(cat "$TMP/err")"

# --compare: twice, from the same input, without ratefs first.
seq 5 >"$TMP/in"
out=$(run --compare --json --report="$TMP/r" -o iops=20,window=1ms -- sh -c 'cat data data data data >/dev/null; cat' <"$TMP/in") || fail "--compare"
equal "$(wc -l <<<"$out")" 10 "lines of both runs"
equal "$(json "$TMP/r" 'r["times_as_long"] > 2')" True
says 'cannot be read twice' sh -c "echo x | '$RATEFS' run --compare cat"
rc=0
run -q --compare -- sh -c 'kill -TERM $$' </dev/null || rc=$?
equal $rc 143 "--compare of a command that is killed"

# ratefsctl shows the mount while the command runs.
"$RATEFS" run -q -o iops=1000 -- sh -c "touch up; until [ -e down ]; do sleep 0.05; done" &
within 5s test -e up || fail "did not start"
ctl list | grep -q "$DIR" || fail "ratefsctl list does not show it: $(ctl list)"
ctl set global iops=2000 >/dev/null || fail "ratefsctl set"
touch down
wait $! || fail "run"
nothing_left

# Start-up time: printed, and bounded with a wide margin.
times=$(for _ in $(seq 15); do
	t=${EPOCHREALTIME/./}
	run -q true || exit 1
	echo $((${EPOCHREALTIME/./} - t))
done | sort -n | sed -n 8p)
say "ratefs run true takes $((times / 1000)) ms (median of 15)"
! sanitized || exit 0
[ "$times" -lt 600000 ] || fail "ratefs run true takes $times us"
