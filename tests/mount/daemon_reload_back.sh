#!/bin/bash
# SPDX-License-Identifier: MIT
# A reload whose new mount turns out to be impossible only when it is made leaves everything as it was before: mounts, whatever
# they are called and whichever scope they are in, limits, classes, pauses, and what `set` has changed.
. "${srcdir:-.}/tests/mount/lib.sh" || exit 1
. "${srcdir:-.}/tests/mount/hard_lib.sh" || exit 1
requires jq

LOG_EXPECTED=.
backing tmpfs
mkdir "$SRC/a" "$SRC/b" "$TMP/one" "$TMP/two" "$TMP/three" "$TMP/four" "$TMP/down"
echo a >"$SRC/a/file"
echo b >"$SRC/b/file"
head -c 1M /dev/zero >"$SRC/b/big"
CONF=$TMP/ratefs.conf
# Fails when it is mounted, with SELinux and without.
bad() { printf '[mount:bad]\nsource = %s\nmountpoint = %s\ncontext = nonsense\n' "$SRC" "${1:-$TMP/four}"; }
good() {
	cat <<-END2
	[global]
	iops = 1000
	[fs:data]
	source = $SRC/a
	bps = 10M
	[mount:one]
	fs = data
	mountpoint = $TMP/one
	iops = 100
	[mount:two]
	source = $SRC/b
	mountpoint = $TMP/two
	[mount:three]
	source = $SRC/a
	mountpoint = $TMP/three
	[mount:down]
	source = $SRC/b
	mountpoint = $TMP/down
	[class:some]
	mounts = two
	match = uid:12345
	bps = 1M
	[weights]
	uid:12345 = 3
	END2
}
good >"$CONF"
"$RATEFS" -f -c "$CONF" >>"$LOG" 2>&1 & # appends: the log is emptied below
DAEMON=$!
serving() { grep -q "serving.*$TMP/down" "$LOG" || gone "$DAEMON"; }
within 5s serving || fail "no mounts"
ok ctl set fs:two iops=77 >/dev/null
ok ctl set one iops=150 >/dev/null
ok ctl pause three >/dev/null
ok ctl unmount down
exec 7<"$TMP/two/file" # a mount that stays is not made again

everything() {
	local t
	for t in global fs:data fs:two one two three down two/some; do ctl show "$t" --json | jq -c "[.paused, .options]"; done
	ctl list --json | jq -S '[.daemons[].mounts[] | {name, state, mountpoint, source, classes: [.classes[]?.name]}] | sort_by(.name)'
	findmnt -rno TARGET | grep "^$TMP/" | sort
	cat "$TMP/one/file" "$TMP/two/file"
}
device=$(stat -c %d "$TMP/two")
everything >"$TMP/before"
kept() { # what was tried
	everything >"$TMP/after"
	cmp -s "$TMP/before" "$TMP/after" || fail "$1: $(diff "$TMP/before" "$TMP/after")"
	equal "$(stat -c %d "$TMP/two")" "$device" "$1: a mount that stays was made again"
}
# Reading the file fails, by command and by signal, and all is as before.
goes_back() { # what is tried
	local rc=0
	"$RATEFSCTL" reload >"$TMP/said" 2>&1 || rc=$?
	equal $rc 1 "$1: exit status of a reload that said $(cat "$TMP/said")"
	grep -q "^ratefsctl: not reloaded, everything is as before: mount 'bad': cannot mount on .*context=nonsense" "$TMP/said" ||
		fail "$1: said $(cat "$TMP/said")"
	equal "$(wc -l <"$TMP/said")" 1 "$1: notes of what was undone"
	kept "$1"
	: >"$LOG"
	kill -HUP "$DAEMON"
	within 5s grep -q "the reload is undone, because mount 'bad' failed" "$LOG" || fail "$1: SIGHUP: $(cat "$LOG")"
	settled() { ! ctl list --json | grep -q '"mounting"' && everything >"$TMP/after" && cmp -s "$TMP/before" "$TMP/after"; }
	within 5s settled || true
	kept "$1, by SIGHUP"
}

{ good; bad; } >"$CONF"
goes_back "one mount more"
{ good | sed 's/iops = 100$/iops = 50/; s/bps = 1M/bps = 2M/; s/uid:12345 = 3/uid:12345 = 5/; s/iops = 1000/iops = 3k/'; bad; } >"$CONF"
goes_back "other limits"
{ good | sed "s|^source = $SRC/a|source = $SRC/b|"; bad; } >"$CONF"
goes_back "other sources of an fs and of a mount"
{ good | sed 's/:data\]/:other]/; s/fs = data/fs = other/; s/:one\]/:uno]/; s/:two\]/:zwei]/; s/mounts = two/mounts = zwei/'; bad; } >"$CONF"
goes_back "an fs, a mount in it and a mount that stays have other names"
{ good | sed "s|^fs = data|source = $SRC/b|; /^.fs:data/,+2d; s/:one\]/:uno]/"; bad; } >"$CONF"
goes_back "an fs is gone"
{ good | sed "s|mountpoint = $TMP/one|mountpoint = $TMP/x|; s|mountpoint = $TMP/three|mountpoint = $TMP/one|; s|$TMP/x|$TMP/three|"; bad; } >"$CONF"
goes_back "two mounts have changed places"
{ good | sed '/mount:three/,/mount:down/{/mount:down/!d}; /mount:down/,+2d'; bad "$TMP/three"; } >"$CONF"
goes_back "it is at the place of another"

# What is changed by hand while the new mount comes up is not undone, so the reload stays.
mkdir "$SRC/slow"
lower_ready "$SRC/slow"
coming() { [ "$(ctl list --json | jq -r '.daemons[].mounts[] | select(.name == "slow") | .state')" = mounting ]; }
for by_hand in "set one iops=5" "class remove two/some" "unmount three" "resume three"; do
	good >"$CONF"
	ok ctl reload >/dev/null
	findmnt -rno TARGET "$TMP/three" >/dev/null || ok ctl mount three
	ok ctl pause three >/dev/null
	{ good | sed 's/bps = 10M/bps = 20M/'; bad | sed "s/:bad/:slow/; s|= $SRC\$|= $LOWER/.|"; } >"$CONF"
	lower_hangs
	"$RATEFSCTL" reload >"$TMP/said" 2>&1 &
	client=$!
	within 10s coming || fail "the new mount is not being made: $(cat "$TMP/said")"
	# shellcheck disable=SC2086 # words
	ok ctl $by_hand >/dev/null
	lower_goes_on
	wait $client && fail "$by_hand: a mount that failed is no error"
	grep -q "reloaded, but mount 'slow': cannot mount" "$TMP/said" || fail "$by_hand: said $(cat "$TMP/said")"
	equal "$(ctl show fs:data --json | jq -r .options.bps.value)" 20M "$by_hand: the reload"
	case $by_hand in
	set*) equal "$(ctl show one --json | jq -r .options.iops.value)" 5 "$by_hand" ;;
	class*) refused ctl show two/some ;;
	unmount*) refused findmnt -rno TARGET "$TMP/three" ;;
	resume*) equal "$(ctl show three --json | jq .paused)" false "$by_hand" ;;
	esac
done
lower_gone

# The next reload counts.  An fs that moves counts its new source, even while its old mount is being ended.
exec 7<&-
for i in 1 2 3; do
	good | sed "s/^bps = 10M/size = 3M/" >"$CONF"
	ok ctl reload >/dev/null
	good | sed "s/^bps = 10M/size = 3M/; s|^source = $SRC/a|source = $SRC/b|; s|$TMP/one|$TMP/four|" >"$CONF"
	ok ctl reload >/dev/null
	equal "$(cat "$TMP/four/file")" b
	used=$(df -B1 --output=used "$TMP/four" | tail -n 1)
	[ "$used" -ge 1048576 ] || fail "the fs counts another source: $used, try $i"
done
equal "$(ctl show one --json | jq -r .options.iops.value)" 100

# A mount that is down and goes, while its own fs has options.
ok ctl unmount three
ok ctl set fs:three iops=5 >/dev/null
good | sed '/mount:three/,/mount:down/{/mount:down/!d}' >"$CONF"
ok ctl reload >/dev/null
refused ctl show three
kill -TERM "$DAEMON"
daemon_ended_well
