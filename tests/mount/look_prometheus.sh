#!/bin/bash
# SPDX-License-Identifier: MIT
# A real Prometheus scrapes a mount under load; what it answers is what fio did.
. "${srcdir:-.}/tests/mount/lib.sh" || exit 1
requires prometheus promtool fio jq
unset http_proxy HTTP_PROXY all_proxy ALL_PROXY
EXPORTER=${EXPORTER:-$builddir/ratefs-exporter}
install_bin "$EXPORTER"

backing tmpfs
head -c 16M /dev/zero >"$SRC/file"
mount_ratefs -o read_bps=2M,cache=strict
ok ctl reset-stats
PORT=$((20000 + RANDOM % 20000))
PROM=$((PORT + 1))
cat >"$TMP/prometheus.yml" <<END
global: {scrape_interval: 500ms, scrape_timeout: 500ms, evaluation_interval: 500ms}
rule_files: ['$srcdir/conf/prometheus/ratefs.rules.yml']
scrape_configs:
  - {job_name: ratefs, static_configs: [{targets: ['127.0.0.1:$PORT']}]}
END
ratefs-exporter --listen "127.0.0.1:$PORT" >"$TMP/exporter" 2>&1 &
exporter=$!
prometheus --config.file="$TMP/prometheus.yml" --storage.tsdb.path="$TMP/tsdb" --web.listen-address="127.0.0.1:$PROM" \
	>"$TMP/prometheus.log" 2>&1 &
prometheus=$!

# query EXPRESSION: the value of the one sample that it has, or nothing
query() {
	promtool query instant --format=json "http://127.0.0.1:$PROM" "$1" 2>/dev/null |
		jq -r 'if length == 1 then .[0].value[1] else "" end'
}
is_up() { [ "$(query 'up{job="ratefs"}')" = 1 ]; }
within 20s is_up || fail "no scrape: $(tail -5 "$TMP/prometheus.log") $(query 'up')"

fio --name=f --filename="$MNT/file" --rw=read --bs=64k --size=8M --direct=1 --ioengine=psync \
	--output-format=json >"$TMP/fio" 2>/dev/null || fail "fio"
bytes=$(json '.jobs[0].read.io_bytes' "$TMP/fio")
ops=$(json '.jobs[0].read.total_ios' "$TMP/fio")
[ "$bytes" = 8388608 ] || fail "fio read $bytes bytes"
scraped() { [ "$(query 'sum(ratefs_bytes_total{op="read"})')" = "$bytes" ]; }
within 10s scraped || fail "Prometheus has $(query 'sum(ratefs_bytes_total{op="read"})') bytes, fio read $bytes"
equal "$(query 'sum(ratefs_operations_total{op="read"})')" "$ops" "reads"
# Requests waited for read_bps and nothing else, and the buckets can be evaluated.
equal "$(query 'count(ratefs_wait_seconds_count)')" 1 "limits for which anybody waited"
[ "$(query 'ratefs_wait_seconds_count{limit="read_bps"}')" -gt 50 ] || fail "waits for read_bps"
p99=$(query 'histogram_quantile(0.99, ratefs_wait_seconds_bucket)')
awk -v p="$p99" 'BEGIN { exit !(p > 0.005 && p < 5) }' || fail "99th percentile of waiting: '$p99'"
# The highest rate that it saw is that of the limit, and the limit refused nearly all the time.
rate=$(query 'max_over_time(rate(ratefs_bytes_total{op="read"}[2s])[20s:500ms])')
awk -v r="$rate" 'BEGIN { exit !(r > 1.6e6 && r < 2.9e6) }' || fail "the rate was '$rate' bytes/s"
share=$(query 'max_over_time(rate(ratefs_limit_blocking_seconds_total{limit="read_bps"}[2s])[20s:500ms])')
awk -v s="$share" 'BEGIN { exit !(s > 0.7 && s < 1.3) }' || fail "it refused '$share' of the time"
rule_works() { [ -n "$(query 'count(ratefs:bytes:rate5m)')" ]; }
within 5s rule_works || fail "the rules give nothing"

kill "$prometheus" "$exporter"
within 10s gone "$prometheus" || kill -9 "$prometheus"
wait "$prometheus" "$exporter" 2>/dev/null
unmount_ratefs
