# SPDX-License-Identifier: MIT
# shellcheck shell=bash
# Verbs for tests of failures of a pool: each failure must cause one line in the log and the
# fallback, and the daemon must recover by itself once the cause is removed.  Sourced after
# pool_lib.sh.
: "${srcdir:?}"
requires jq ss "${POOL_SERVER:=redis-server}" redis-cli

# Names that exist for this test alone: name NAME ADDRESS...
cp /etc/hosts "$TMP/hosts"
mount --bind "$TMP/hosts" /etc/hosts || fail "no private /etc/hosts"
name() {
	local host=$1
	shift
	grep -v " $host\$" "$TMP/hosts" >"$TMP/hosts.new"
	[ $# = 0 ] || printf "%s $host\n" "$@" >>"$TMP/hosts.new"
	cat "$TMP/hosts.new" >"$TMP/hosts"
}
cli() { redis-cli -s "$TMP/redis.sock" --no-auth-warning "$@"; }
quietly() { "$@" >/dev/null || fail "'$*' ended with $?"; }

# What the daemon of host 1 has said since `mark`.
mark() { MARK=$(wc -l <"$TMP/log1"); }
said() { tail -n "+$((MARK + 1))" "$TMP/log1" | grep -Eq -- "$1"; }
LOST='; (this host keeps to its share|nothing is admitted until|the pool.s limits are off)'
# shellcheck disable=SC2153 # HOST is of pool_lib.sh
mode() { ctl stats "pool:${1:-farm}" -j "--daemon=${HOST[1]}" | jq -r '.pools[0].mode'; }
mode_is() { [ "$(mode "${2:-farm}")" = "$1" ]; }

# trouble WHAT PATTERN MODE COMMAND...: the command causes the failure; a line of the log matches,
# and the fallback is MODE.
trouble() {
	TROUBLE=$1 PATTERN=$2
	local pattern=$2 mode=$3
	shift 3
	mark
	watch_noise
	"$@"
	within 15s said "$pattern.*$LOST" || fail "$TROUBLE: the log does not say: $pattern: $(cat "$TMP/log1")"
	within 3s mode_is "$mode" "${POOL_NAME:-farm}" || fail "$TROUBLE: the mode is $(mode "${POOL_NAME:-farm}"), not $mode"
	say "$TROUBLE: $(tail -n "+$((MARK + 1))" "$TMP/log1" | grep -E "$LOST")"
}
told() { tail -n "+$((MARK + 1))" "$TMP/log1" | grep -E "$LOST"; }
# From now on until noise_until_now, as beside_noise does it.
WATCH=
watch_noise() {
	[ -z "$WATCH" ] || kill -TERM "$WATCH"
	noise >"$TMP/noise.trouble" &
	WATCH=$!
}
# shellcheck disable=SC2034 # for was_busy
noise_until_now() {
	kill -TERM "$WATCH"
	wait "$WATCH"
	WATCH='' NOISE_BEFORE=0
	read -r NOISE_MS MEAN_NOISE_MS <"$TMP/noise.trouble"
}
# over COMMAND...: the command removes the cause; the daemon gets leases again, and has logged only
# one line meanwhile.  (And possibly another one while a proxy is replaced: a different error.  A machine that
# makes processes wait longer than a lease allows adds lines that say so.)
over() {
	local other='Connection (refused|reset)'
	"$@"
	within 20s said "leases again" || fail "$TROUBLE: does not recover"
	within 3s mode_is leased "${POOL_NAME:-farm}" || fail "$TROUBLE: the mode is $(mode "${POOL_NAME:-farm}") afterwards"
	noise_until_now
	! was_busy || other+='|Server closed the connection|no answer in time|no answer from the server|takes longer than'
	equal "$({
		told | grep -E -- "$PATTERN" | sed -E "2,\${/$other/d}"
		told | grep -Ev -- "$PATTERN" | grep -Ev "$other"
	} | wc -l)" 1 "$TROUBLE: lines in the log (processes were up to $NOISE_MS ms late): $(told)"
}
# A proxy in front of the server: proxy DELAY_MS, or proxy rubbish, huge, endless, dripping, moody.
listening() { ss -Hltn "sport = :$1" | grep -q LISTEN; }
PROXY=
proxy() {
	[ -z "$PROXY" ] || { kill "$PROXY"; wait "$PROXY" 2>/dev/null; }
	PROXY=
	[ $# = 1 ] || return 0
	case $1 in
	rubbish) python3 "$srcdir/tests/mount/pool_proxy.py" 6380 0 0 0 & ;;
	huge) python3 "$srcdir/tests/mount/pool_proxy.py" 6380 0 1 0 & ;;
	endless) python3 "$srcdir/tests/mount/pool_proxy.py" 6380 0 2 0 & ;;
	dripping) python3 "$srcdir/tests/mount/pool_proxy.py" 6380 0 3 0 & ;;
	moody) python3 "$srcdir/tests/mount/pool_proxy.py" 6380 0 4 0 & ;;
	*) python3 "$srcdir/tests/mount/pool_proxy.py" 6380 6379 "$1" 0 & ;;
	esac
	PROXY=$!
	within 10s listening 6380 || fail "the proxy does not start"
}
