# SPDX-License-Identifier: MIT
# shellcheck shell=bash
# Verbs that make load and look at the daemon; part of lib.sh.
# All of it by iogen (see `iogen --help`); prefixes such as `as_user noisy` come first.

JOBS=()
# Writes 64 KiB blocks into a file of its own until it is killed or the test ends.
write_forever() { "$@" iogen --op write --size 64K --file-size 16M --forever --path "$MNT/forever.$BASHPID"; }
read_forever() { "$@" iogen --op read --size 64K --forever --path "${READ_FILE:-$MNT/file}"; }

# park_readers N [iogen options]: N readers of $READ_FILE (default $MNT/file) have each entered a
# read when this returns; on a mount whose read budget is spent they wait in it.  Pid in PARKED.
park_readers() {
	local n=$1
	shift
	rm -f "$TMP/parked"
	iogen --op read --clients "$n" --threads --size 4K --forever --path "${READ_FILE:-$MNT/file}" \
		--ready "$TMP/parked" "$@" >/dev/null 2>&1 &
	PARKED=$!
	JOBS+=("$PARKED")
	within 20s test -e "$TMP/parked" || fail "$n readers did not start"
	nap 100ms
}
unpark() {
	kill -9 "${PARKED:?}" 2>/dev/null
	wait "$PARKED" 2>/dev/null
	PARKED=
}
# beside_noise command: NOISE_MS is then how late this machine was by itself meanwhile (helpers/noise.c).
beside_noise() {
	local pid rc=0
	noise >"$TMP/noise" &
	pid=$!
	"$@" || rc=$?
	kill -TERM $pid
	wait $pid
	NOISE_MS=$(<"$TMP/noise")
	return $rc
}
# killed_in_time OP PATH [MOUNTPOINT]: a process that is killed while it waits in OP (see helpers/reap.c) is gone within
# the promised 50 ms, plus the noise of this machine: the longest of what it took to end processes that merely slept, killed
# at the same moments, and of what it was late by itself meanwhile; twice, since the daemon has to wake up and then the process.
# The fastest of several needs no such allowance.
killed_in_time() {
	local ms best noise kills
	beside_noise before 60s reap "$@" >"$TMP/reap" || fail "reap $*"
	read -r ms best noise kills <"$TMP/reap"
	[ "$kills" -ge 3 ] || best=0
	awk -v ms="$ms" -v best="$best" -v a="$noise" -v b="$NOISE_MS" 'BEGIN { exit !(best <= 50 && ms <= 50 + 2 * (a > b ? a : b)) }' ||
		fail "killed in $1: gone after $ms ms, the slowest of $kills (the fastest $best); one that sleeps takes $noise ms, noise is $NOISE_MS ms"
}
# in_parallel N command: N concurrently, all must succeed; $I is the number of each.
in_parallel() {
	local n=$1 i pids=() p
	shift
	for ((i = 1; i <= n; i++)); do
		I=$i "$@" &
		pids+=($!)
	done
	for p in "${pids[@]}"; do
		wait "$p" || fail "one of $n '$*' ended with $?"
	done
}
# json '.total.bytes' file: a number out of iogen's (or ratefsctl's) answer.
json() { jq -r "$1" "$2" || fail "$2 has no '$1'"; }
# about 3% value expected
about() {
	awk -v p="${1%\%}" -v v="$2" -v e="$3" 'BEGIN { d = v - e; if (d < 0) d = -d; exit !(d <= e * p / 100) }' ||
		fail "$2 is not within $1 of $3"
}
# Sanitizers keep freed memory for a while: what the daemon holds says little then.
sanitized() { grep -qa '__[at]san_init' "$RATEFS"; }
# Memory and open files of the daemon.
daemon_kb() { awk '/^VmRSS:/ { print $2 }' "/proc/$DAEMON/status"; }
daemon_fds() { find "/proc/$DAEMON/fd" -mindepth 1 2>/dev/null | wc -l; }
