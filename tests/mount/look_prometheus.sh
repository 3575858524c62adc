#!/bin/bash
# SPDX-License-Identifier: MIT
# A real Prometheus scrapes a mount under load; its answers agree with what fio did.  Every
# expression of the dashboard and of the rules returns data.
. "${srcdir:-.}/tests/mount/lib.sh" || exit 1
requires prometheus promtool fio jq python3 helper:iogen
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

# query EXPRESSION: prints the value if the result is a single sample, or nothing.
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
# The highest rate that Prometheus saw is that of the limit, and requests waited for the limit
# nearly all the time.
rate=$(query 'max_over_time(rate(ratefs_bytes_total{op="read"}[2s])[20s:500ms])')
awk -v r="$rate" 'BEGIN { exit !(r > 1.6e6 && r < 2.9e6) }' || fail "the rate was '$rate' bytes/s"
share=$(query 'max_over_time(rate(ratefs_limit_blocking_seconds_total{limit="read_bps"}[2s])[20s:500ms])')
least=0.7
! sanitized || least=0.1 # a slow daemon takes much of the time itself
awk -v s="$share" -v l=$least 'BEGIN { exit !(s > l && s < 1.3) }' || fail "it refused '$share' of the time"
rule_works() { [ -n "$(query 'count(ratefs:bytes:rate5m)')" ]; }
within 5s rule_works || fail "the rules give nothing"

# A second daemon provides what else the dashboard shows: a class, a pool, a size limit that is
# reached.
mkdir "$TMP/src2" "$TMP/mnt2"
head -c 1M /dev/zero >"$TMP/src2/file"
cat >"$TMP/conf" <<END
[pool:farm]
server = unix:$TMP/pool.sock
read_bps = 2M
read_iops = 1000
[mount:second]
source = $TMP/src2
mountpoint = $TMP/mnt2
pool = farm
size = 4M
inodes = 100
max_inflight = 100
meta_iops = 10000
[class:batch]
match = uid:0
read_bps = 1M
END
"$RATEFS" -f -c "$TMP/conf" >"$TMP/log2" 2>&1 &
second=$!
within 10s mountpoint -q "$TMP/mnt2" || fail "the second daemon: $(cat "$TMP/log2")"
iogen --op read --size 64K --forever --clients 2 --path "$TMP/mnt2/file" >/dev/null 2>&1 &
load=$!
! head -c 8M /dev/zero 2>/dev/null >"$TMP/mnt2/large" || fail "the size was not reached"

# Sends the queries that Grafana would send, and prints what is wrong.  A comparison at the end of an
# expression is left out, since its condition is not met here.
cat >"$TMP/ask.py" <<'END'
import json, re, sys, urllib.parse, urllib.request
url, dashboard = sys.argv[1:]

def get(path, **args):
    query = urllib.parse.urlencode(args)
    try:
        with urllib.request.urlopen(f"{url}/api/v1/{path}?{query}", timeout=10) as answer:
            return json.load(answer)["data"]
    except urllib.error.HTTPError as e:
        return {"error": json.load(e)["error"]}

def check(where, expression, legend=""):
    for name, value in (("$__rate_interval", "5s"), ("$instance", ".*"), ("$daemon", ".*"), ("$mount", ".*")):
        expression = expression.replace(name, value)
    answer = get("query", query=re.sub(r" > 0$", "", expression))
    if "error" in answer:
        print(f"{where}: {expression}: {answer['error']}")
    elif not answer["result"]:
        print(f"{where}: no data for {expression}")
    else:
        for label in re.findall(r"{{\s*(\w+)\s*}}", legend):
            if not any(label in sample["metric"] for sample in answer["result"]):
                print(f"{where}: no label {label} in {expression}")

board = json.load(open(dashboard))
ids = [panel["id"] for panel in board["panels"]]
if len(ids) != len(set(ids)):
    print("two panels have the same id")
for panel in board["panels"]:
    for target in panel["targets"]:
        check(panel["title"], target["expr"], target["legendFormat"])
variables = [v for v in board["templating"]["list"] if v["type"] == "query"]
if len(variables) < 3:
    print(f"only {len(variables)} variables")
for variable in variables:
    values = re.match(r"label_values\((.*), (\w+)\)$", variable["query"]["query"])
    if values:
        check("variable " + variable["name"], values[1], "{{" + values[2] + "}}")
    else:
        print(f"variable {variable['name']}: unknown query")
rules = [rule for group in get("rules")["groups"] for rule in group["rules"]]
if len(rules) < 15:
    print(f"only {len(rules)} rules")
for rule in rules:
    if rule["health"] != "ok":
        print(f"rule {rule['name']}: {rule['health']} {rule.get('lastError', '')}")
    # Without its threshold, the expression of an alert has data, too.
    compared = re.split(r"\b(?:or|and|unless)\b(?: on \([^)]*\))?", rule["query"])
    for part in compared:
        check("rule " + rule["name"], re.sub(r" *(>|==) *[0-9.]+ *$", "", part.strip()).replace("5m", "5s").replace("rate5s", "rate5m").replace("ratio5s", "ratio5m").replace("99_5s", "99_5m"))
END
all_answered() {
	python3 "$TMP/ask.py" "http://127.0.0.1:$PROM" "$srcdir/conf/grafana/ratefs.json" >"$TMP/unanswered" 2>&1 && [ ! -s "$TMP/unanswered" ]
}
within 40s all_answered || fail "not answered: $(cat "$TMP/unanswered")"
# A daemon that is killed leaves no metrics, and is missed.
alert() { [ "$(query "count(ALERTS{alertname=\"$1\",mount=\"$2\"})")" = 1 ]; }
! alert RatefsMountGone second || fail "an alert for a mount that is there"
kill -9 "$second"
wait "$second" 2>/dev/null
within 15s alert RatefsMountGone second || fail "no alert for a daemon that was killed: $(query 'count by (alertname, mount) (ALERTS)')"
! alert RatefsMountGone mnt || fail "an alert for the mount of another daemon"
kill "$load"
wait "$load" 2>/dev/null
umount -l "$TMP/mnt2"

kill "$prometheus" "$exporter"
within 10s gone "$prometheus" || kill -9 "$prometheus"
wait "$prometheus" "$exporter" 2>/dev/null
unmount_ratefs
