#!/bin/bash
# SPDX-License-Identifier: MIT
# Runs what README and ratefs(8) show: every command, line by line, and every configuration, with
# their directories moved below a directory of the test.  A command of README that is neither run
# here nor listed below as covered by another test is a failure.
. "${srcdir:-.}/tests/mount/lib.sh" || exit 1
requires jq make

# Users and groups of the recipes, in this namespace only.
known_here() { # FILE LINE...
	local file=$1 line
	cp "$file" "$TMP/${file##*/}"
	shift
	for line in "$@"; do
		grep -q "^${line%%:*}:" "$file" || echo "$line" >>"$TMP/${file##*/}"
	done
	mount --bind "$TMP/${file##*/}" "$file" || fail "cannot add to $file"
}
known_here /etc/passwd 'backup:x:34:34::/:/bin/sh'
known_here /etc/group staff:x:50: students:x:51234:

# The directory where `ratefs run` and make are run, and the file that --check reads.
mkdir -p "$TMP/project" "$TMP/root/etc/ratefs" "$TMP/root/mnt"
printf 'all test:\n\techo built >out\n\tcat out\n' >"$TMP/project/Makefile"
cp "$srcdir/conf/ratefs.conf.example" "$TMP/root/etc/ratefs/ratefs.conf"
cd "$TMP/project" || fail "cd"

# /srv/data -> $TMP/root/srv/data
moved() { sed -E "s#(^| |of=)/#\\1$TMP/root/#g" <<<"$1"; }

unserved() { ! ctl list --json 2>/dev/null | grep -qF "\"$1\""; }
unmount() {
	ok umount "$1"
	within 15s unserved "$1" || fail "the daemon of $1 did not end"
}
# stop PID: ends a daemon and its mounts.
stop() {
	kill "$1"
	within 15s gone "$1" || fail "a daemon did not end"
}

# --- commands --------------------------------------------------------------------------------

# goes_on COMMAND: it shows a mount (trace shows only what happens) and runs until it is interrupted.
goes_on() {
	"$@" >"$TMP/out" 2>&1 &
	local pid=$!
	[ "$2" = trace ] || within 20s grep -Eq ' [1-9][0-9]* mounts? ' "$TMP/out" || fail "'$*' shows no mount: $(cat "$TMP/out")"
	nap 1s
	kill "$pid" 2>/dev/null || fail "'$*' does not go on: $(cat "$TMP/out")"
	wait "$pid"
}

tried=0
# try LINE: runs a command as the page shows it.
try() {
	local line=$1 words
	read -ra words <<<"$(moved "$line" | tr -d "'")"
	say "${words[*]}"
	tried=$((tried + 1))
	case $line in
	'ratefs run '*) ok "${words[@]}" >"$TMP/out" 2>"$TMP/report" ;;
	'ratefs -'*) ok "${words[@]}" >"$TMP/out" ;;
	'ratefs '*)
		stop_served
		! mountpoint -q "${words[2]}" || unmount "${words[2]}"
		ok "${words[@]}" >"$TMP/out"
		;;
	'ratefsctl top'* | 'ratefsctl watch'* | 'ratefsctl trace'*)
		goes_on "${words[@]}"
		;;
	'umount '*) unmount "${words[1]}" ;;
	'dd '*) at_least 3500ms "${words[@]}" status=none ;; # 20 MiB at 5 MiB/s, of which 100 ms are there at the start
	*) ok "${words[@]}" >"$TMP/out" ;;
	esac
}

# --- configurations --------------------------------------------------------------------------

SERVED=
stop_served() {
	[ -z "$SERVED" ] || stop "$SERVED"
	SERVED=
}
mounted_at() {
	ctl list --json 2>/dev/null | jq -e --arg at "$1" \
		'.daemons[].mounts[] | select(.mountpoint == $at and .state == "mounted")' >/dev/null
}
# configuration TEXT: checks sections of a file; if one of them is a mount, serves them until the
# next mount.
configuration() {
	local conf=$TMP/readme.conf
	sed -E "s#^((source|mountpoint) = )/#\\1$TMP/root/#; s#redis://.*#unix:/run/ratefs/pool.sock#" <<<"$1" >"$conf"
	say "a file with $(grep -o '^\[[^]]*\]' "$conf" | xargs)"
	tried=$((tried + 1))
	stop_served
	if ! grep -q '^\[mount:' "$conf"; then
		printf '[mount:any]\nsource = /srv\nmountpoint = /mnt\nbps = 80M\niops = 1000\n' >>"$conf"
		ok ratefs --check -c "$conf"
		return
	fi
	ok ratefs --check -c "$conf"
	sed -nE 's#^(source|mountpoint) = ##p' "$conf" | xargs mkdir -p
	local at
	at=$(sed -n 's/^mountpoint = //p' "$conf")
	! mountpoint -q "$at" || unmount "$at"
	ratefs -f -c "$conf" >"$LOG" 2>&1 &
	SERVED=$!
	within 10s mounted_at "$at" || fail "it is not served: $(cat "$LOG")"
	ok touch "$at/file"
}

# --- the pages -------------------------------------------------------------------------------

# Joins continued lines and removes comments.
joined() { sed -E ':more; /\\$/ { N; s/\\\n[ \t]*/ /; b more }' | sed -E 's/[ \t]+#.*//'; }

block=
inside=
while IFS= read -r text; do
	case $text in
	'```'*)
		if [ -z "$inside" ]; then
			inside=1 block=
			continue
		fi
		inside=
		if [ "${block:0:1}" = '[' ]; then
			configuration "$block"
			continue
		fi
		while IFS= read -r line; do
			case $line in
			'') ;;
			ratefs\ * | ratefsctl\ * | umount\ * | mkdir\ * | dd\ *) try "$line" </dev/null ;;
			scripts/run) # which has built everything already
				ok "$srcdir/scripts/demo" "$builddir" >"$TMP/out"
				grep -q 'the copy is identical' "$TMP/out" || fail "scripts/demo: $(cat "$TMP/out")"
				;;
			scripts/test | scripts/package | scripts/setup) ;; # CI
			'autoreconf -fi && mkdir -p build && cd build' | '../configure --prefix=/usr --sysconfdir=/etc') ;; # tests/package
			'make && make check' | 'sudo make install') ;; # tests/package
			/srv/data*fuse.ratefs*) ;;	# docs_fstab.sh
			'systemctl enable --now ratefs' | 'systemctl reload ratefs') ;; # docs_service.sh, tests/package
			'systemctl enable --now ratefs-volume.socket') ;;	# volume_docker.sh
			'systemctl enable --now ratefs-exporter') ;;		# docs_service.sh, tests/package
			'docker volume create -d ratefs -o write_bps=20M -o iops=500 -o size=10G -o fair=cgroup box') ;; # volume_docker.sh
			'docker run -v box:/data IMAGE' | 'docker volume inspect box') ;;	# volume_docker.sh
			'echo Y > '*enable_uring) ;;	# uring.sh
			bwrap\ *) ;;	# volume_sandbox.sh
			*) fail "README shows a command that no test runs: $line" ;;
			esac
		done < <(joined <<<"$block")
		;;
	*) [ -z "$inside" ] || block+=${block:+$'\n'}$text ;;
	esac
done <"$srcdir/README.md"
stop_served
[ -s "$TMP/report" ] || fail "ratefs run reported nothing"
[ "$tried" -ge 40 ] || fail "only $tried commands of README were found"

while IFS= read -r line; do
	case $line in
	*…* | *'-c '* | *FILE* | *SOURCE*) continue ;;
	'ratefs '*)
		read -ra words <<<"$(moved "$line")"
		mkdir -p "${words[1]}" "${words[2]}"
		;;
	esac
	try "$line" </dev/null
done < <(sed -E 's/^ +//; s/\\e$/\\/' "$srcdir/man/ratefs.8" | joined | grep -E '^(ratefs|ratefsctl|umount|mkdir) .*/')
[ "$tried" -ge 50 ] || fail "only $tried commands were found"

# README links to files of this tree.
while read -r file; do
	[ -e "$srcdir/$file" ] || fail "README links to $file, which is not there"
done < <(grep -oE '\]\([^)#:]+\)' "$srcdir/README.md" | sed 's/^](//; s/)$//')

for daemon in $(ctl list --json | jq '.daemons[].pid'); do
	stop "$daemon"
done
