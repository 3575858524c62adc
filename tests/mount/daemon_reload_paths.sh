#!/bin/bash
# SPDX-License-Identifier: MIT
# A reload that cannot make one of its new mounts changes nothing: what runs goes on, the exit status is not 0, and the
# message names the line and the path.
. "${srcdir:-.}/tests/mount/lib.sh" || exit 1
. "${srcdir:-.}/tests/mount/hard_lib.sh" || exit 1
requires jq

LOG_EXPECTED=.
backing tmpfs
mkdir "$SRC/a" "$SRC/b" "$TMP/a" "$TMP/b" "$TMP/c" "$TMP/full"
echo text | tee "$SRC/a/file" "$SRC/b/file" "$TMP/full/file" "$TMP/plain" >/dev/null
CONF=$TMP/ratefs.conf
mount_of() { printf '[mount:%s]\nsource = %s\nmountpoint = %s\niops = %s\n' "$1" "$2" "$3" "${4:-100}"; }
good() { mount_of a "$SRC/a" "$TMP/a" "${1:-}"; mount_of b "$SRC/b" "$TMP/b"; }
good >"$CONF"
"$RATEFS" -f -c "$CONF" >>"$LOG" 2>&1 & # appends: the log is emptied below
DAEMON=$!
serving() { grep -q "serving.*$TMP/b" "$LOG"; }
within 5s serving || fail "no mounts"
exec 7<"$TMP/a/file"
everything() {
	ctl list --json | jq -c '.daemons[].mounts[] | [.name, .state, .mountpoint, .source]'
	ctl show a --json | jq -c "[.options[].value]"
	stat -c '%m %d' "$TMP/a/file" "$TMP/b/file"
}
everything >"$TMP/before"
kept() { # what was tried
	everything >"$TMP/after"
	cmp -s "$TMP/before" "$TMP/after" || fail "$1: $(diff "$TMP/before" "$TMP/after")"
	read -r _ <&7 || exec 7<"$TMP/a/file"
	grep -q text "$TMP/a/file" "$TMP/b/file" || fail "$1: the mounts do not answer"
}
# refuses LINE TEXT: the reload is refused, whether or not --force would end mounts in use; so is a SIGHUP.
refuses() {
	local rc=0 flag
	for flag in "" --force; do
		"$RATEFSCTL" reload $flag >"$TMP/said" 2>&1 || rc=$?
		equal $rc 1 "exit status of a reload; it said $(cat "$TMP/said")"
		grep -qE "^ratefsctl: $CONF:$1: $2" "$TMP/said" || fail "said: $(cat "$TMP/said")"
		kept "$2"
	done
	: >"$LOG"
	kill -HUP "$DAEMON"
	within 5s grep -q 'not reloaded, nothing has changed' "$LOG" || fail "SIGHUP: $(cat "$LOG")"
	grep -qE "$CONF:$1: $2" "$LOG" || fail "SIGHUP: $(cat "$LOG")"
	kept "SIGHUP: $2"
}

# The mount that runs would move, or get another source; in every case its limit would change, too.
{ mount_of a "$SRC/a" "$TMP/none" 50; good | tail -n 4; } >"$CONF"
refuses 3 "\[mount:a\] mountpoint '$TMP/none': No such file or directory"
{ mount_of a "$SRC/none" "$TMP/a" 50; good | tail -n 4; } >"$CONF"
refuses 2 "\[mount:a\] source '$SRC/none': No such file or directory"
{ mount_of a "$SRC/a" "$TMP/plain" 50; good | tail -n 4; } >"$CONF"
refuses 3 "\[mount:a\] mountpoint '$TMP/plain': not a directory"
{ mount_of a "$SRC/a/file" "$TMP/a" 50; good | tail -n 4; } >"$CONF"
refuses 2 "\[mount:a\] source '$SRC/a/file': not a directory"
# A new mount beside those that run.
{ good 50; mount_of c "$SRC/a" "$TMP/none"; } >"$CONF"
refuses 11 "\[mount:c\] mountpoint '$TMP/none': No such file or directory"
{ good 50; printf '[fs:x]\nsource = %s\n[mount:c]\nfs = x\nmountpoint = %s\n' "$SRC/none" "$TMP/c"; } >"$CONF"
refuses 12 "\[mount:c\] source '$SRC/none': No such file or directory"
# At the place of a mount that stays, by another name.
ln -s "$TMP/b" "$TMP/link"
{ good 50; mount_of c "$SRC/a" "$TMP/link"; } >"$CONF"
refuses 11 "\[mount:c\] mountpoint '$TMP/link': ratefs is mounted there already"
# A new source that hangs, for a mount that runs.
lower_ready "$SRC/b"
lower_hangs
nap 100ms # the kernel remembers the attributes of the lower mount for a moment
{ mount_of a "$LOWER/." "$TMP/a" 50; good | tail -n 4; } >"$CONF"
refuses 1 "\[mount:a\] source '$LOWER' or mountpoint '$TMP/a' does not respond"
lower_goes_on

# A mount whose source has disappeared since the start is not new: the reload changes the rest, and tells about that mount.
exec 7<&-
{ good 50; mount_of c "$SRC/a" "$TMP/c"; } >"$CONF"
ok ctl reload >/dev/null
ok ctl unmount c
mv "$TMP/c" "$TMP/hidden"
says "c: mountpoint '$TMP/c': No such file or directory" ctl mount c
good 60 >"$TMP/part"
{ cat "$TMP/part"; mount_of c "$SRC/a" "$TMP/c"; } >"$CONF"
rc=0
"$RATEFSCTL" reload >"$TMP/said" 2>"$TMP/err" || rc=$?
equal "$rc $(cat "$TMP/err")" "1 ratefsctl: reloaded, but mount 'c': mountpoint '$TMP/c': No such file or directory"
grep -q "mount 'a': iops=60, was 50" "$TMP/said" || fail "said: $(cat "$TMP/said")"
equal "$(ctl show a --json | jq -r .options.iops.value)" 60

# What can be made is made: a mount at the place of another that goes, on top of a new one, and two that change places.
mv "$TMP/hidden" "$TMP/c"
mkdir "$SRC/a/below"
{ mount_of b "$SRC/a" "$TMP/b"; mount_of c "$TMP/b/below" "$TMP/c"; mount_of a "$SRC/a" "$TMP/a" 60; } >"$CONF"
ok ctl reload >/dev/null
equal "$(ls "$TMP/b")" "$(ls "$SRC/a")"
{ mount_of a "$SRC/a" "$TMP/b"; mount_of b "$SRC/b" "$TMP/a"; mount_of c "$SRC/b" "$TMP/full"; } >"$CONF"
ok ctl reload >/dev/null
equal "$(ctl list --json | jq -rc '.daemons[].mounts[] | [.name, .state, .mountpoint]' | sort)" \
	"$(printf '["%s","mounted","%s"]\n' a "$TMP/b" b "$TMP/a" c "$TMP/full")"
kill -TERM "$DAEMON"
daemon_ended_well
lower_gone
