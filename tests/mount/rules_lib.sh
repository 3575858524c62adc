# shellcheck shell=bash
# SPDX-License-Identifier: MIT
# Verbs for tests of rules: concurrent readers, and cgroups.
LOG_EXPECTED="$LOG_EXPECTED|class '.*' (added|removed)|all processes are in one cgroup"
# shellcheck disable=SC2034 # the tests use it
MIB=1048576

# together SECONDS NAME=COMMAND...: all read concurrently, each with READERS processes of THREADS threads, so that some of
# them always wait.
# GOT[NAME] is what each read in the same SECONDS, which begin when all of them read.  NOISE_MS is by how much this machine
# delayed processes meanwhile.
# shellcheck disable=SC2034 # the tests read it
declare -A GOT
READERS=4
THREADS=4
together() { beside_noise read_together "$@" || exit 1; }
read_together() {
	local from to one i seconds=$1 pids=()
	shift
	rm -f "$TMP"/got.* "$TMP/stop"
	for one; do
		for ((i = 1; i <= READERS; i++)); do
			# shellcheck disable=SC2086
			${one#*=} times "$MNT/file" 16384 "$TMP/stop" "$THREADS" >"$TMP/got.${one%%=*}.$i" &
			pids+=($!)
		done
	done
	within 20s all_read || fail "a reader did not start"
	# First they use up what was saved.  Until nearly all threads wait, some of these programs may not be limited.
	within 20s all_wait $(($# * READERS * THREADS)) || fail "the readers do not wait"
	from=$(awk -v now="$EPOCHREALTIME" 'BEGIN { printf "%.3f", now + 0.3 }')
	to=$(awk -v from="$from" -v s="$seconds" 'BEGIN { printf "%.3f", from + s }')
	until awk -v now="$EPOCHREALTIME" -v to="$to" 'BEGIN { exit !(now > to) }'; do nap 50ms; done
	touch "$TMP/stop"
	wait "${pids[@]}" || fail "a reader failed"
	for one; do
		# shellcheck disable=SC2034 # the tests read it
		GOT[${one%%=*}]=$(cat "$TMP/got.${one%%=*}".* |
			awk -v from="$from" -v to="$to" '$1 >= from && $1 < to { sum += $2 } END { print sum + 0 }')
	done
}
all_wait() { [ "$(ctl stats "$MNT" --json | jq .parked_now)" -ge $(($1 * 7 / 8)) ]; } # THREADS
all_read() {
	local f
	for f in "$TMP"/got.*; do [ -s "$f" ] || return 1; done
}
# near BYTES RATE SECONDS WHAT: at most a twentieth more, and at most a tenth less, since readers need a moment to ask
# again.  While this machine stops for longer, nothing is read, and what was read before may be noticed only later: the time
# is uncertain by twice the noise.  Under a sanitizer the tolerance is wider, because readers that should wait all the time
# do not.
near() {
	local least=0.9 most=1.05
	! sanitized || least=0.7 most=1.3
	awk -v got="$1" -v rate="$2" -v s="$3" -v noise="$NOISE_MS" -v least=$least -v most=$most 'BEGIN {
		d = 2 * noise / 1000
		exit !(got >= rate * (s - d) * least && got <= rate * (s + d) * most) }' ||
		fail "$4: $1 bytes in $3 s, not $2 per second; noise is $NOISE_MS ms"
}
# shares_are A B RATIO WHAT: A is RATIO times B, within a tenth; both were measured at the same time, so that whatever stops the
# machine stops both.
shares_are() {
	local most=1.1
	! sanitized || most=1.3
	awk -v a="$1" -v b="$2" -v r="$3" -v most=$most 'BEGIN { exit !(a <= b * r * most && a * most >= b * r) }' ||
		fail "$4: $1 and $2 bytes, not $3 to 1"
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
