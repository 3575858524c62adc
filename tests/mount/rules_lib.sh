# shellcheck shell=bash
# SPDX-License-Identifier: MIT
# For tests of rules: readers at the same time, and cgroups.
LOG_EXPECTED="$LOG_EXPECTED|class '.*' (added|removed)"
# shellcheck disable=SC2034 # the tests use it
MIB=1048576

# near BYTES RATE SECONDS what: a quarter less or half more, for readers do not start and stop together
near() {
	awk "BEGIN { exit !($1 >= $2 * $3 * 0.75 && $1 <= $2 * $3 * 1.5) }" ||
		fail "$4: $1 bytes in $3 s, not $2 per second"
}
# together SECONDS NAME=COMMAND...: all read at the same time; what each got is in GOT[NAME]
# shellcheck disable=SC2034 # the tests read it
declare -A GOT
together() {
	local seconds=$1 one pids=()
	shift
	for one; do
		# shellcheck disable=SC2086
		${one#*=} read "$MNT/file" 65536 "$seconds" >"$TMP/got.${one%%=*}" &
		pids+=($!)
	done
	wait "${pids[@]}" || fail "a reader failed"
	for one; do
		read -r GOT["${one%%=*}"] _ <"$TMP/got.${one%%=*}"
	done
}

# make_cgroups NAME...: below CGROUP; false where there is no unified hierarchy to write to
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
# As processes in it see it.
cgroup_path() { in_cgroup "$1" sed -n 's/^0:://p' /proc/self/cgroup; }
remove_cgroups() {
	find "$CGROUP" -depth -type d -exec rmdir {} + || fail "cgroups are left in $CGROUP"
}
