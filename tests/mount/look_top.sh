#!/bin/bash
# SPDX-License-Identifier: MIT
# ratefsctl top in a terminal: what it shows, how it answers to keys, and what it costs; on a pipe, plain lines.
. "${srcdir:-.}/tests/mount/lib.sh" || exit 1
requires helper:iogen tmux jq

backing tmpfs
head -c 64M /dev/zero >"$SRC/file"
mount_ratefs -o read_bps=4M,global.bps=1G,each.iops=400,fair=process
chmod 777 "$MNT"

tm() { tmux -S "$TMP/tmux" -f /dev/null "$@"; }
screen() { tm capture-pane -p -t top; }
shows() { screen >"$TMP/screen" && grep -Eq -- "$1" "$TMP/screen"; }
must_show() {
	within 10s shows "$1" || {
		sed 's/^/  screen: /' "$TMP/screen" >&2
		fail "the screen does not show '$1'"
	}
}
type_keys() { tm send-keys -t top "$@"; }
limit_is() { [ "$(ctl show mnt --json | jq -r '.options.read_bps.value')" = "$1" ]; }
top_pid() { pgrep -f 'ratefsctl [t]op' | head -n 1; }

as_user alice iogen --op read --size 64K --forever --clients 3 --path "$MNT/file" >/dev/null 2>&1 &
load=$!
tm new-session -d -s top -x 80 -y 24 "$RATEFSCTL top; echo \"ended with \$?\"; sleep 60"

# 80 x 24: the limits of all scopes, who waits, for what.
must_show '^> mnt\.read_bps +\[#{15,18}\.{0,3}\] +(3\.[5-9]|4\.[0-9])M +4\.0M .* (9[0-9]|100)%'
must_show '^  mnt\.each\.iops .* 400 +each '
must_show '^  global\.bps .*1\.0G'
must_show '^1001 +iogen +- .*M +(9[0-9]|100)% read_bps +[1-9] +[0-9.]+ms'
equal "$(wc -l <"$TMP/screen")" 24 "lines of the screen"
must_show 'q quit'

# A larger terminal shows more.
tm resize-window -t top -x 140 -y 40
must_show '^mnt +1001 +[0-9]+ +iogen'
tm resize-window -t top -x 80 -y 24

# Sort, filter, help, pause.
type_keys s
must_show 'sorted by ops'
type_keys / nobody Enter
must_show 'nobody who matches the filter'
type_keys Escape
must_show '^1001 +iogen'
type_keys h
must_show 'share of the time in which requests waited for it'
type_keys h p
must_show PAUSED
type_keys p

# A limit is changed in place: by a tenth, by a typed value; one that makes no sense is refused.
type_keys +
within 10s limit_is 4506K || fail "+ has not changed the limit: $(ctl show mnt --json | jq -c .options.read_bps)"
must_show 'set mnt read_bps=4506K'
type_keys "=" 2M Enter
within 10s limit_is 2M || fail "a typed value has not changed the limit"
must_show '^> mnt\.read_bps .* 2\.0M'
type_keys "=" 2Q Enter
must_show "2Q.*unknown suffix"
limit_is 2M || fail "a wrong value has changed the limit"

# What it costs: 20 ms of CPU a second, a generous multiple of it under load and sanitizers.
pid=$(top_pid)
[ -n "$pid" ] || fail "top is not there"
ticks() { awk '{ sub(/.*\) /, ""); print $12 + $13 }' "/proc/$pid/stat"; }
t0=$(ticks)
sleep 3
used=$(($(ticks) - t0))
say "CPU of top: $((used * 1000 / $(getconf CLK_TCK) / 3)) ms a second"
[ -n "${RATEFS_TEST_SANITIZED:-}" ] || [ $used -le $(($(getconf CLK_TCK) * 3 / 10)) ] || fail "top used $used ticks in 3 s"

# The daemon goes, another one comes.
type_keys q
must_show 'ended with 0'
tm kill-server

# On a pipe: the same as lines.
(timeout 2.5 "$RATEFSCTL" top || true) >"$TMP/plain"
grep -Eq '^> mnt\.read_bps +\[#' "$TMP/plain" || fail "no limit on a pipe: $(head -20 "$TMP/plain")"
grep -Eq '^mnt +1001 +[0-9]+ +iogen ' "$TMP/plain" || fail "no key on a pipe"
! grep -q "$(printf '\033')" "$TMP/plain" || fail "control codes on a pipe"
! grep -q 'q quit' "$TMP/plain" || fail "keys to press on a pipe"
says 'no daemon has a mount' "$RATEFSCTL" top nonexistent
pkill -KILL -x iogen # of this test's own pid namespace
wait "$load" 2>/dev/null
unmount_ratefs
