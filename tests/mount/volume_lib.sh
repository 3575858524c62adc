# SPDX-License-Identifier: MIT
# shellcheck shell=bash
# Verbs for tests of ratefs-volume: the plugin on a state directory of the test's own.
#
#	start_plugin [OPTION...]	PLUGIN is its pid; its socket $SOCK, its log $TMP/plugin.log
#	post CALL JSON			one call; the answer in ANSWER, its HTTP status in STATUS
#	asks CALL JSON [JQ]		a call that must succeed; prints what JQ finds in the answer
#	refuses STATUS PATTERN CALL JSON
#	daemon_pid			of the ratefs daemon that serves the volumes

requires curl jq
VOLUME=${VOLUME:-$builddir/ratefs-volume}
install_bin "$VOLUME"
VOLUME=$BIN/${VOLUME##*/}
STATE=$TMP/state
SOCK=$TMP/plugin.sock
PLUGIN=

start_plugin() {
	"$VOLUME" --state="$STATE" --socket="$SOCK" --ratefs="$RATEFS" --config="$TMP/volume.conf" "$@" \
		>>"$TMP/plugin.log" 2>&1 &
	PLUGIN=$!
	within 20s plugin_answers || fail "the plugin does not answer: $(cat "$TMP/plugin.log")"
}
plugin_answers() {
	curl -s --unix-socket "$SOCK" -X POST http://localhost/Plugin.Activate >/dev/null || gone "$PLUGIN"
}
kill_plugin() {
	kill -"${1:-KILL}" "$PLUGIN"
	wait "$PLUGIN" 2>/dev/null
}

# -d @-: a body may be larger than an argument.
post() {
	ANSWER=$(printf '%s' "$2" | curl -s --unix-socket "$SOCK" --max-time 60 -w '\n%{http_code}' \
		-d @- "http://localhost/$1") || return 1
	STATUS=${ANSWER##*$'\n'}
	ANSWER=${ANSWER%$'\n'*}
}
asks() {
	post "VolumeDriver.$1" "$2" || fail "$1 $2: no answer"
	equal "$STATUS $(jq -r .Err <<<"$ANSWER")" "200 " "$1 $2"
	jq -r "${3:-empty}" <<<"$ANSWER"
}
refuses() {
	local status=$1 pattern=$2
	post "VolumeDriver.$3" "$4" || fail "$3 $4: no answer"
	equal "$STATUS" "$status" "$3 $4: $ANSWER"
	jq -r .Err <<<"$ANSWER" | grep -Eq -- "$pattern" || fail "$3 $4: said $ANSWER, not '$pattern'"
}

show_log() {
	tail -n 20 "$TMP/plugin.log" "$TMP/dockerd.log" 2>/dev/null | sed 's/^/  /' >&2
}
# knows size: does this ratefs have the option?
knows() { "$RATEFS" --dump-options | cut -f 1 | grep -qx -- "$1"; }
# Bytes that a tree occupies on the disk.
allocated() { du -s --block-size=1 "$1" | cut -f 1; }
daemon_pid() { ctl list --json 2>/dev/null | jq -r '.daemons[0].pid // empty'; }
# Ends the daemon and its mounts.
stop_daemon() {
	local pid
	pid=$(daemon_pid)
	[ -n "$pid" ] || return 0
	kill "$pid"
	within 20s gone "$pid" || fail "the daemon did not end"
}
