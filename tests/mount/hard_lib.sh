# SPDX-License-Identifier: MIT
# shellcheck shell=bash
# More verbs, for tests of faults and of hostile clients; source lib.sh first.

# --- faults below the daemon (helpers/faults.c) -------------------------------------------------

FAULTS=$TMP/faults
faults_ready() {
	requires helper:faultctl
	[ -e "$HELPERS/faults.so" ] || skip "needs faults.so: run make"
	install -m 644 "$HELPERS/faults.so" "$TMP/faults.so"
	faultctl "$FAULTS" new
	# shellcheck disable=SC2034 # of lib.sh
	DAEMON_WRAPPER=(env "LD_PRELOAD=$TMP/faults.so" "FAULTS=$FAULTS"
		"ASAN_OPTIONS=${ASAN_OPTIONS:-}:verify_asan_link_order=0")
}
# fault pread errno=EIO count=3: see helpers/faultctl.c
fault() { faultctl "$FAULTS" set "$@" || fail "fault $*"; }
heal() { faultctl "$FAULTS" clear; }
struck() { [ "$(faultctl "$FAULTS" hits "$1")" -ge "${2:-1}" ]; }
hanging() { [ "$(faultctl "$FAULTS" waiting "$1")" -ge "${2:-1}" ]; }

# --- what is held -------------------------------------------------------------------------------

stat_of() { ctl stats "$MNT" --json >"$TMP/stats.json" && jq -r "$1" "$TMP/stats.json"; }
nothing_held() {
	[ "$(stat_of '.parked_now == 0 and .parked_bytes_now == 0 and .inflight.now == 0 and
		.open_handles == 0 and .open.now == 0 and
		([.classes[] | .ops - .ok - .failed - .too_many_open - .no_space - .aborted] | add) == 0')" = true ]
}
# Nothing waits, nothing runs, nothing is open, every admission has ended, and the mount is alive.
settled() {
	within 5s nothing_held || { cat "$TMP/stats.json" >&2; fail "${1:-something} is still held"; }
	before 10s stat "$MNT/." >/dev/null
}
parked() { [ "$(stat_of .parked_now)" -ge "$1" ]; }
# The bucket is full again: unused tokens were refunded.
full_again() { [ "$(stat_of ".limits.$1 | .level >= .capacity")" = true ]; }

# --- errors -------------------------------------------------------------------------------------

# gets 'No space left on device' command: the command fails, and the last line that it prints ends
# with this text.
gets() {
	local text=$1 out
	shift
	out=$("$@" 2>&1 </dev/null) && fail "'$*' worked but must fail with '$text'"
	[[ $out == *"$text"* ]] || fail "'$*' said '$out', not '$text'"
}

# slay PID: kills a background job of as_user and everything that it has started.
slay() {
	local p
	for p in $(pgrep -P "$1"); do slay "$p"; done
	kill -9 "$1" 2>/dev/null
	wait "$1" 2>/dev/null
}

# --- a source that hangs ------------------------------------------------------------------------

# lower_ready DIR: a FUSE mount of DIR at $LOWER (with LOWER_OPTIONS), whose daemon can be stopped: threads that use it
# as a source then hang in the kernel, and cannot be killed, until it continues.
LOWER=$TMP/lower LOWER_DAEMON=
lower_ready() {
	mkdir -p "$LOWER"
	"$RATEFS" -f "$1" "$LOWER" -o "cache=strict,${LOWER_OPTIONS:-iops=1M},control=off" >"$TMP/lower.log" 2>&1 &
	LOWER_DAEMON=$!
	within 10s mountpoint -q "$LOWER" || fail "no lower mount"
	within 5s stat "$LOWER/." >/dev/null || fail "the lower mount does not answer"
}
lower_hangs() { kill -STOP "$LOWER_DAEMON"; }
lower_goes_on() { kill -CONT "$LOWER_DAEMON"; }
lower_gone() {
	kill -CONT "$LOWER_DAEMON"
	umount -l "$LOWER" 2>/dev/null
	within 5s gone "$LOWER_DAEMON" || kill -9 "$LOWER_DAEMON"
	wait "$LOWER_DAEMON" 2>/dev/null
	LOWER_DAEMON=
}
cleanup_lower() {
	local rc=$?
	[ -z "$LOWER_DAEMON" ] || kill -9 "$LOWER_DAEMON"
	(exit $rc)
	cleanup
}
trap cleanup_lower EXIT
