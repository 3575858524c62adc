#!/bin/bash
# SPDX-License-Identifier: MIT
# Metrics report what was done, over HTTP and as a file; hostile clients of the exporter do not
# affect others.
. "${srcdir:-.}/tests/mount/lib.sh" || exit 1
requires helper:iogen jq python3
EXPORTER=${EXPORTER:-$builddir/ratefs-exporter}
install_bin "$EXPORTER"

backing tmpfs
head -c 8M /dev/zero >"$SRC/file"
cat >"$TMP/conf" <<END
[global]
bps = 1G
[mount:da"ta]
source = $SRC
mountpoint = $MNT
read_bps = 4M
max_inflight = 8
allow_other = yes
[class:batch]
match = uid:1001
write_bps = 1M
END
: >"$LOG"
"$RATEFS" -f -c "$TMP/conf" >>"$LOG" 2>&1 &
DAEMON=$!
within 10s answers || fail "the mount did not come up"
chmod 777 "$MNT"
iogen --op read --size 64K --count 64 --path "$MNT/file" >"$TMP/read" || fail "iogen read"
iogen --op write --size 16K --count 32 --uids 1001 --path "$MNT/new" >"$TMP/write" || fail "iogen write"

# value NAME LABELS...: prints the value of the sample that has all of these labels.
value() {
	local name=$1 label lines
	shift
	lines=$(grep -F "$name{" "$TMP/metrics" | grep "^$name{")
	for label in "$@"; do lines=$(grep -F "$label" <<<"$lines"); done
	[ "$(wc -l <<<"$lines")" = 1 ] || fail "not one $name $*: '$lines'"
	echo "${lines##* }"
}
ok ctl metrics >"$TMP/metrics"
M='mount="da\"ta"'
equal "$(value ratefs_operations_total "$M" 'op="read"')" "$(json .total.ops "$TMP/read")" "reads"
equal "$(value ratefs_bytes_total "$M" 'op="read"')" "$(json .total.bytes "$TMP/read")" "bytes read"
equal "$(value ratefs_class_bytes_total "$M" 'op="write"' 'class="batch"')" "$(json .total.bytes "$TMP/write")" "bytes of the class"
equal "$(value ratefs_limit_bytes_per_second 'limit="read_bps"')" 4194304
equal "$(value ratefs_limit_permits 'limit="max_inflight"')" 8
equal "$(value ratefs_limit_bytes_per_second 'scope="global"')" 1073741824
equal "$(value ratefs_mounted "$M")" 1
# Who waited, for what: reads for read_bps, writes of the class for its own limit.
waited=$(ctl stats 'da"ta' --json | jq .classes.read.parked_total)
[ "$waited" -gt 30 ] || fail "only $waited reads have waited"
equal "$(value ratefs_wait_seconds_count 'class=""' 'limit="read_bps"')" "$waited" "waits for read_bps"
[ "$(value ratefs_wait_seconds_count 'class="batch"' 'limit="class:batch.write_bps"')" -gt 10 ] || fail "waits of the class"
equal "$(value ratefs_wait_seconds_bucket 'class=""' 'limit="read_bps"' 'le="+Inf"')" "$waited"
awk -v s="$(value ratefs_wait_seconds_sum 'class=""' 'limit="read_bps"')" 'BEGIN { exit !(s > 0.4) }' || fail "the sum of waits"
awk -v s="$(value ratefs_limit_blocking_seconds_total 'limit="read_bps"' 'scope="mount"')" 'BEGIN { exit !(s > 0.4 && s < 60) }' ||
	fail "time that read_bps refused"
value ratefs_top_user_wait_seconds "$M" 'user="root"' >/dev/null
# How long the oldest request has waited, of one that is never admitted, too.
equal "$(value ratefs_oldest_wait_seconds "$M")" 0
ok ctl pause 'da"ta' >/dev/null
stat "$MNT/nothing" >/dev/null 2>&1 &
waiter=$!
nap 1200ms
ctl metrics >"$TMP/later"
ok ctl resume 'da"ta' >/dev/null
wait $waiter
awk '/^ratefs_oldest_wait_seconds/ { exit !($NF > 0.5 && $NF < 60) }' "$TMP/later" || fail "oldest wait: $(grep ratefs_oldest "$TMP/later")"
if command -v promtool >/dev/null; then
	ok promtool check metrics <"$TMP/metrics"
	ok promtool check rules "$srcdir/conf/prometheus/ratefs.rules.yml" >/dev/null
fi
# The dashboard: its panels have an id each, lie side by side in 24 columns, and ask the chosen data source.
board() { ok jq -e "$1" "$srcdir/conf/grafana/ratefs.json" >/dev/null; }
board '.panels | length > 10'
board '[.panels[].id] | (unique | length) == length'
board 'all(.panels[].gridPos; .x >= 0 and .w > 0 and .h > 0 and .x + .w <= 24)'
# shellcheck disable=SC2016 # of jq and Grafana
board '[.panels[].gridPos | range(.x; .x + .w) as $x | range(.y; .y + .h) as $y | [$x, $y]] | (unique | length) == length'
# shellcheck disable=SC2016 # of jq and Grafana
board '[.panels[], .panels[].targets[], (.templating.list[] | select(.type == "query"))] |
	all(.datasource == {type: "prometheus", uid: "${datasource}"})'
board 'all(.panels[].targets; (map(.refId) | unique | length) == length)'
board 'any(.panels[].targets[]; .expr | contains("ratefs_daemons_failed"))'
# Hosts are told apart.  Figures have colours of their own: by default, Grafana shows 80 of anything in red, and 1 in green.
board '[.panels[] | select(.type == "timeseries").targets[]] | all(.legendFormat | contains("{{instance}}"))'
board '[.panels[] | select(.type == "timeseries").targets[].expr | select(contains(" by "))] | length > 3 and all(contains("by (instance, "))'
board '[.panels[] | select(.type == "stat")] | all(.fieldConfig.defaults.thresholds.steps[0].value == null)'
board '[.panels[] | select(.targets[0].expr | test("daemons_failed|stuck|paused|bypassing"))] |
	length == 4 and all(.fieldConfig.defaults.thresholds.steps[1].value == 1)'
# Every metric that rules and dashboard ask for exists.
grep -Eoh '\bratefs_[a-z_]+' "$srcdir/conf/prometheus/ratefs.rules.yml" "$srcdir/conf/grafana/ratefs.json" | sort -u >"$TMP/names"
while read -r name; do
	grep -q "^# TYPE ${name%_bucket} " "$TMP/metrics" || fail "there is no metric $name"
done <"$TMP/names"

# Over HTTP.
PORT=$((20000 + RANDOM % 20000))
ratefs-exporter --listen "$PORT" >"$TMP/exporter" 2>&1 & # means 127.0.0.1
exporter=$!
# get PATH [METHOD]: the body; the status and the type in $TMP/head.  False: the status is not 200.
get() {
	local line
	exec 5<>"/dev/tcp/127.0.0.1/$PORT" || return
	printf '%s %s HTTP/1.0\r\n\r\n' "${2:-GET}" "$1" >&5
	read -t 15 -r _ status _ <&5 || return
	echo "$status" >"$TMP/head"
	while read -t 15 -r line <&5 && [ "$line" != $'\r' ]; do
		case $line in Content-Type:*) echo "${line%$'\r'}" >>"$TMP/head" ;; esac
	done
	cat <&5
	exec 5>&-
	[ "$status" = 200 ]
}
within 10s get / >/dev/null 2>&1 || fail "the exporter does not answer: $(cat "$TMP/exporter")"
equal "$(cat "$TMP/exporter")" "ratefs-exporter: serving metrics at http://127.0.0.1:$PORT/metrics" "what it says"
ok get /metrics >"$TMP/metrics"
equal "$(paste -sd ' ' "$TMP/head")" "200 Content-Type: text/plain; version=0.0.4; charset=utf-8"
equal "$(value ratefs_bytes_total "$M" 'op="read"')" "$(json .total.bytes "$TMP/read")" "bytes read, over HTTP"
refused get /other
refused get /metrics POST
equal "$(get /metrics HEAD 2>/dev/null)" ""
says 'ADDRESS:PORT' ratefs-exporter --listen :80
says "cannot listen on 127.0.0.1:$PORT: Address already in use" ratefs-exporter --listen "127.0.0.1:$PORT"
says "cannot listen on 127.0.0.1:$PORT: Address already in use" ratefs-exporter --listen "$PORT"
says 'number from 0 to 100' ratefs-exporter --users many
# By default, only this machine is served.
ratefs-exporter --help | grep -q 'default 127.0.0.1:' || fail "the default address"

# Hostile clients: garbage, half a request, many that never read.
socks=()
for i in {1..60}; do
	exec {sock}<>"/dev/tcp/127.0.0.1/$PORT" || break
	socks+=("$sock")
	case $((i % 4)) in
	0) printf 'GET /metrics HTTP/1.1\r\n' ;;
	1) head -c 1000 /dev/urandom ;;
	2) printf 'GET /metrics HTTP/1.0\r\n\r\n' ;;
	3) head -c 4096 /dev/zero | tr '\0' A ;;
	esac >&"$sock"
done
[ ${#socks[@]} -ge 32 ] || fail "only ${#socks[@]} hostile clients"
within 20s get /metrics >/dev/null 2>&1 || fail "the exporter does not answer beside hostile clients"
for sock in "${socks[@]}"; do exec {sock}>&-; done
within 20s get /metrics >/dev/null 2>&1 || fail "the exporter does not answer after hostile clients"
# Clients that are never idle, and never finish their requests: more than there are connections.
python3 - "$PORT" <<'END' &
import socket, sys, time
all = []
for i in range(400):
    s = socket.create_connection(("127.0.0.1", int(sys.argv[1])), 10)
    s.sendall(b"GET /metrics HTTP/1.1\r\nX: ")
    all.append(s)
print("connected", flush=True)
for i in range(60):
    time.sleep(0.5)
    for s in all:
        try: s.sendall(b"a")
        except OSError: pass
END
slow=$!
nap 2s
for i in 1 2 3; do
	within 5s get /metrics >/dev/null 2>&1 || fail "the exporter does not answer beside clients that are never idle"
	nap 1s
done
kill $slow
wait $slow 2>/dev/null

# Daemons are asked at most once a second, however many clients ask.
nap 1s
get /metrics >"$TMP/once"
ctl set 'da"ta' read_bps=3M >/dev/null
get /metrics >"$TMP/twice"
equal "$(grep -c ' 3145728$' "$TMP/twice")" 0 "a change that is younger than the answer"
changed() { get /metrics | grep -q 'limit="read_bps"} 3145728$'; }
within 5s changed || fail "the answer is kept for ever"
ctl set 'da"ta' read_bps=4M >/dev/null
nap 1s

# A daemon that does not answer is counted, and delays a scrape only for a limited time.
kill -STOP "$DAEMON"
before 15s get /metrics >"$TMP/metrics"
kill -CONT "$DAEMON"
grep -q '^ratefs_daemons_failed 1$' "$TMP/metrics" || fail "a daemon that does not answer"

# Without a daemon, `metrics` prints only an error, so that a file for node_exporter keeps its last
# contents.
stop_ratefs
rc=0
"$RATEFSCTL" metrics >"$TMP/none" 2>"$TMP/none.err" || rc=$?
equal "$rc $(cat "$TMP/none")" "3 " "exit status and output of metrics without a daemon"
grep -q 'no running ratefs daemons' "$TMP/none.err" || fail "metrics without a daemon: $(cat "$TMP/none.err")"
nap 1s
get /metrics >"$TMP/metrics"
grep -q '^ratefs_daemons 0$' "$TMP/metrics" || fail "no daemon"
kill "$exporter"
within 5s gone "$exporter" || fail "the exporter does not end"
wait "$exporter" || fail "the exporter ended with $?"
! grep -Eq 'Sanitizer|runtime error' "$TMP/exporter" || fail "$(cat "$TMP/exporter")"
