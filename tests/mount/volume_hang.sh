#!/bin/bash
# SPDX-License-Identifier: MIT
# ratefs-volume with a source that hangs: only its own volume waits, even if the plugin and the daemon are killed and start again
# while it hangs.
. "${srcdir:-.}/tests/mount/lib.sh" || exit 1
. "${srcdir:-.}/tests/mount/hard_lib.sh" || exit 1
. "${srcdir:-.}/tests/mount/volume_lib.sh" || exit 1
trap cleanup_lower EXIT

mkdir -p "$SRC/remote/allowed" "$TMP/near"
allowed=(--allow-source="$LOWER/allowed" --allow-source="$LOWER" --allow-source="$TMP/near")
lower_ready "$SRC/remote"
start_plugin "${allowed[@]}"
asks Create "{\"Name\":\"remote\",\"Opts\":{\"source\":\"$LOWER\"}}"
asks Create '{"Name":"local"}'
asks Mount '{"Name":"remote","ID":"one"}'
remote=$STATE/mnt/remote local=$STATE/mnt/local
echo before >"$remote/file"

# --- everything starts again while the source hangs.  The plugin answers, and other volumes are mounted: the daemon is told to
# mount both, and waits for the hanging one.
kill_plugin
lower_hangs
kill -9 "$(daemon_pid)"
start_plugin "${allowed[@]}"
before 30s asks List ''
before 60s asks Mount '{"Name":"local","ID":"one"}'
echo hello >"$local/file" || fail "the other volume does not work"
before 30s asks Create '{"Name":"new"}'
before 30s asks Mount '{"Name":"new","ID":"one"}'
before 30s asks Unmount '{"Name":"new","ID":"one"}'
before 30s asks Remove '{"Name":"new"}'
# a source of its own, although the first directory that is allowed hangs
before 30s asks Create "{\"Name\":\"near\",\"Opts\":{\"source\":\"$TMP/near\"}}"
before 30s asks Mount '{"Name":"near","ID":"one"}'
before 30s asks Unmount '{"Name":"near","ID":"one"}'
before 30s asks Remove '{"Name":"near"}'
refuses 500 'does not answer|still being mounted' Mount '{"Name":"remote","ID":"two"}'

# --- it goes on
lower_goes_on
works() {
	post VolumeDriver.Mount '{"Name":"remote","ID":"one"}' && [ "$STATUS" = 200 ] &&
		[ "$(cat "$remote/file" 2>/dev/null)" = before ]
}
within 60s works || fail "the volume does not come back: $ANSWER"
equal "$(asks Get '{"Name":"remote"}' .Volume.Status.references)" 1

# --- a daemon is started for a volume whose tree takes minutes to count: others are served meanwhile
for name in remote local; do
	asks Unmount "{\"Name\":\"$name\",\"ID\":\"one\"}"
	asks Remove "{\"Name\":\"$name\"}"
done
stop_daemon
kill_plugin TERM
lower_gone
mkdir "$SRC/large"
seq -f "$SRC/large/%g" 4000 | xargs touch
LOWER_OPTIONS=iops=20 lower_ready "$SRC/large"
start_plugin --allow-source="$LOWER"
asks Create "{\"Name\":\"large\",\"Opts\":{\"source\":\"$LOWER\",\"size\":\"1G\"}}"
post VolumeDriver.Mount '{"Name":"large","ID":"one"}' &
waiting=$!
state_of() { ctl show "$1" --json 2>/dev/null | jq -r .state; }
is_counted() { [ "$(state_of large)" = mounting ]; }
within 30s is_counted || fail "large is not being mounted, but $(state_of large)"
asks Create '{"Name":"second"}'
asks Mount '{"Name":"second","ID":"one"}'
ok touch "$STATE/mnt/second/file"
equal "$(state_of large)" mounting "the second volume waited for the first, which is"
asks Unmount '{"Name":"second","ID":"one"}'
asks Remove '{"Name":"second"}'
equal "$(state_of large)" mounting "the second volume waited for the first, which is"
kill_plugin
kill $waiting 2>/dev/null
kill -9 "$(daemon_pid)"
kill -9 "$LOWER_DAEMON"
LOWER_DAEMON=
! grep -E 'Sanitizer|runtime error' "$TMP/plugin.log" || fail "a sanitizer complained"
