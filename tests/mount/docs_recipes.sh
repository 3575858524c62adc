#!/bin/bash
# SPDX-License-Identifier: MIT
# Every ratefs and ratefsctl command that README and ratefs(8) show, line by line, with its directories moved
# to where the test may be.
. "${srcdir:-.}/tests/mount/lib.sh" || exit 1
requires jq

# Commands of indented and fenced blocks, continued lines joined, roff undone.
commands_of() {
	sed -E 's/^ +//; s/\\e$/\\/' "$1" | sed -E ':more; /\\$/ { N; s/\\\n[ \t]*/ /; b more }' |
		sed -E 's/[ \t]+#.*//' | grep -E '^(ratefs|ratefsctl|umount|mkdir) .*/'
}
# /srv/data -> $TMP/root/srv/data
moved() { sed -E "s#(^| )/#\\1$TMP/root/#g" <<<"$1"; }

unserved() { ! ctl list --json 2>/dev/null | grep -qF "\"$1\""; }
unmount() {
	ok umount "$1"
	within 15s unserved "$1" || fail "the daemon of $1 did not end"
}

tried=0
for page in "$srcdir/README.md" "$srcdir/man/ratefs.8"; do
	while read -r line; do
		read -ra words <<<"$(moved "$line")"
		case $line in
		*…* | *'-c '* | *FILE* | *SOURCE*) continue ;;
		'ratefs '*)
			# README makes the directories that it uses.
			[ "${page##*/}" = README.md ] || mkdir -p "${words[1]}" "${words[2]}"
			! mountpoint -q "${words[2]}" || unmount "${words[2]}"
			;;
		'ratefsctl watch '*) words[1]=stats ;;
		'umount '*) words[0]=unmount ;;
		esac
		say "${words[*]}"
		ok "${words[@]}" >"$TMP/out"
		tried=$((tried + 1))
	done < <(commands_of "$page")
done
[ "$tried" -ge 15 ] || fail "only $tried commands were found"
for daemon in $(ctl list --json | jq '.daemons[].pid'); do
	kill "$daemon"
	within 15s gone "$daemon" || fail "a daemon did not end"
done
