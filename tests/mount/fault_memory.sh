#!/bin/bash
# SPDX-License-Identifier: MIT
# Out of memory for a while: operations fail with ENOMEM or work, nothing crashes, and afterwards everything works.
. "${srcdir:-.}/tests/mount/lib.sh" || exit 1
. "${srcdir:-.}/tests/mount/hard_lib.sh" || exit 1
requires jq

backing tmpfs
faults_ready
mkdir "$SRC/tree"
for ((i = 0; i < 200; i++)); do echo $i >"$SRC/tree/$i"; done

# Runs a command, which may succeed or fail, but must end soon.
said=0
try() {
	timeout 10 "$@" >/dev/null 2>"$TMP/err"
	[ $? -lt 124 ] || fail "'$*' hung: $(cat "$TMP/err")"
	! grep -q 'Cannot allocate memory' "$TMP/err" || said=$((said + 1))
}

mount_ratefs -o iops=20k,window=10ms,attr_timeout=0,entry_timeout=0
without=0
for ((round = 0; round < 40; round++)); do
	# In each round a different allocation is the first to fail, alone or with others after it.
	fault malloc errno=ENOMEM spare=$round count=$((round % 4 * 5 + 1))
	try ls -l "$MNT/tree"
	try cat "$MNT/tree/$round"
	try sh -c "echo x >$MNT/tree/new.$round"
	try mkdir "$MNT/tree/dir.$round"
	try grep -rq nothing "$MNT/tree"
	struck malloc || without=$((without + 1))
	heal
	kill -0 "$DAEMON" || fail "the daemon is gone"
done
# A sanitizer has its own allocator, which cannot be made to fail.
if ! sanitized; then
	[ $without -lt 10 ] || fail "no allocation failed in $without of 40 rounds"
	[ $said -gt 0 ] || fail "none of the callers was told ENOMEM"
fi
settled "after a lack of memory"
equal "$(find "$MNT/tree" | wc -l)" "$(find "$SRC/tree" | wc -l)"
LOG_EXPECTED="$LOG_EXPECTED|[Mm]emory|alloc"
unmount_ratefs

# No memory for the buffers of more threads: existing ones continue, and more are started when there is memory again.
read_one() { dd if="$MNT/file" of=/dev/null bs=4K count=1 skip="$1" iflag=direct status=none; }
read_many() {
	local i pids=()
	for ((i = 0; i < 60; i++)); do read_one $i & pids[i]=$!; done
	wait "${pids[@]}"
}
head -c 4M /dev/zero >"$SRC/file"
for options in cache=strict cache=strict,read_iops=500,window=1ms; do
	mount_ratefs -o "$options"
	fault pread hang
	fault mmap errno=ENOMEM
	read_many &
	load=$!
	within 20s struck mmap 3 || fail "no thread was wanted ($options)"
	kill -0 "$DAEMON" || fail "the daemon is gone ($options)"
	faultctl "$FAULTS" clear mmap
	within 20s hanging pread 30 || fail "no more threads when there is memory ($options)"
	heal
	wait $load || fail "reads failed ($options)"
	settled "after a lack of buffers"
	unmount_ratefs
done

# The control plane: one allocation fails while a mount is added or limits are set; every fourth one
# in turn (every one with RATEFS_TEST_FULL=1).  Not while the configuration is read: iniparser 4.1
# does not check its allocations.  The command works or reports that it failed; the daemon and its
# other mount continue, and the command works afterwards.
mkdir "$SRC/a" "$SRC/b" "$MNT/a" "$MNT/b"
cat >"$TMP/conf" <<CONF
[mount:a]
source = $SRC/a
mountpoint = $MNT/a
read_bps = 1M
[mount:b]
source = $SRC/b
mountpoint = $MNT/b
fair = uid
weight = uid:1=2+uid:3=4
[weights]
uid:5 = 6
CONF
"${DAEMON_WRAPPER[@]}" "$RATEFS" -f -c "$TMP/conf" >"$LOG" 2>&1 &
DAEMON=$!
within 10s mountpoint -q "$MNT/b" || fail "the daemon with two mounts did not come up"
each_allocation() { # command
	local n=0 failures=0
	while :; do
		[ "$1" != mount ] || ok ctl unmount b
		fault malloc errno=ENOMEM spare=$n count=1
		timeout 10 "$RATEFSCTL" "$@" >/dev/null 2>&1 || failures=$((failures + 1))
		struck malloc || break
		heal
		kill -0 "$DAEMON" 2>/dev/null || fail "'$*' with allocation $n failing ended the daemon"
		before 5s stat "$MNT/a" >/dev/null
		if [ "$1" = mount ] && [ "$(ctl list --json | jq -r '[.. | objects | select(.name? == "b")][0].state')" != mounted ]; then
			ok ctl mount b
		fi
		n=$((n + ${RATEFS_TEST_FULL:-4}))
	done
	heal
	say "'$*': $n allocations, $failures failures"
	[ $failures -ge 5 ] || sanitized || fail "no allocation failed in '$*'"
}
each_allocation mount b
each_allocation set a read_bps=2M read_iops=100 weight=uid:7=8
equal "$(ctl show a --json | jq -r .options.read_bps.value)" 2M "what was set in the end"
LOG_EXPECTED="$LOG_EXPECTED|: set [a-z_]*=|has no effect"
ok kill -TERM "$DAEMON"
daemon_ended_well
