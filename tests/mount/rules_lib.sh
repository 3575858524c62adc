# shellcheck shell=bash
# SPDX-License-Identifier: MIT
# Verbs for tests of rules: concurrent readers, and cgroups.
LOG_EXPECTED="$LOG_EXPECTED|class '.*' (added|removed)"
# shellcheck disable=SC2034 # the tests use it
MIB=1048576

# near BYTES RATE SECONDS WHAT: at most a tenth less, since the machine may stop at times, and a
# twentieth more.  Under a sanitizer the tolerance is wider, because readers that should wait all
# the time do not.
near() {
	local least=0.9 most=1.05
	! sanitized || least=0.7 most=1.3
	awk "BEGIN { exit !($1 >= $2 * $3 * $least && $1 <= $2 * $3 * $most) }" ||
		fail "$4: $1 bytes in $3 s, not $2 per second"
}
# together SECONDS NAME=COMMAND...: all read concurrently, each with four processes, so that one of
# them always waits; GOT[NAME] is how much each read in the same SECONDS.
# shellcheck disable=SC2034 # the tests read it
declare -A GOT
together() {
	local from to one i pids=()
	from=$(awk -v now="$EPOCHREALTIME" 'BEGIN { printf "%.3f", now + 0.7 }')
	to=$(awk -v from="$from" -v s="$1" 'BEGIN { printf "%.3f", from + s }')
	shift
	for one; do
		for i in 1 2 3 4; do
			# shellcheck disable=SC2086
			${one#*=} between "$MNT/file" 16384 "$from" "$to" >"$TMP/got.${one%%=*}.$i" &
			pids+=($!)
		done
	done
	wait "${pids[@]}" || fail "a reader failed"
	for one; do
		# shellcheck disable=SC2034 # the tests read it
		GOT[${one%%=*}]=$(cat "$TMP/got.${one%%=*}".* | awk '{ sum += $1 } END { print sum }')
	done
}

# make_cgroups NAME...: creates cgroups below CGROUP; false: there is no writable unified hierarchy.
make_cgroups() {
	local name
	CGROUP=$(findmnt -nt cgroup2 -o TARGET | head -1)
	[ -n "$CGROUP" ] || return 1
	CGROUP=$CGROUP/ratefs-test.$(basename "$TMP")
	mkdir "$CGROUP" 2>/dev/null || return 1
	for name; do mkdir "$CGROUP/$name" || return 1; done
}
in_cgroup() { # NAME COMMAND...
	local name=$1
	shift
	bash -c 'echo $$ >"$1/cgroup.procs" && shift && exec "$@"' bash "$CGROUP/$name" "$@"
}
# cgroup_path NAME: the path of the cgroup as its own processes see it.
cgroup_path() { in_cgroup "$1" sed -n 's/^0:://p' /proc/self/cgroup; }
remove_cgroups() {
	find "$CGROUP" -depth -type d -exec rmdir {} + || fail "cgroups are left in $CGROUP"
}
