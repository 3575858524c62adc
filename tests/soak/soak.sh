#!/bin/bash
# SPDX-License-Identifier: MIT
# A long life: mixed load on two mounts of one tree, while limits change, clients are killed, mounts come and go and the daemon
# is restarted.  At the end: limits are exact, nothing is held, nothing has grown, both mounts show what the tree has.
#
#	make soak SOAK_SECONDS=3600		default 600; 30 as one of the mount tests
#	SOAK_SEED=7				the same choices again
. "${srcdir:-.}/tests/mount/lib.sh" || exit 1
. "${srcdir:-.}/tests/mount/hard_lib.sh" || exit 1
requires jq helper:iogen helper:hostile

SECONDS_ALL=${SOAK_SECONDS:-30}
[ -n "${SOAK_SECONDS:-}" ] || ! sanitized || SECONDS_ALL=20
SEED=${SOAK_SEED:-$((RANDOM * 32768 + RANDOM))}
RANDOM=$SEED
say "$SECONDS_ALL seconds, SOAK_SEED=$SEED"

backing tmpfs 2G
M1=$TMP/m1 M2=$TMP/m2 MNT=$TMP/m1
mkdir -p "$M1" "$M2" "$SRC/churn"
chmod 1777 "$SRC" "$SRC/churn"
head -c 32M /dev/urandom >"$SRC/file"
LOG_EXPECTED="$LOG_EXPECTED|reloaded|unmounted|mounted|still in use|has no effect|has no effect here"

cat >"$TMP/conf" <<END
[global]
bps = 400M
[fs:data]
source = $SRC
iops = 50k
[mount:m1]
fs = data
mountpoint = $M1
fair = uid
${RATEFS_TEST_TRANSPORT:+transport = $RATEFS_TEST_TRANSPORT}
[mount:m2]
fs = data
mountpoint = $M2
cache = page
${RATEFS_TEST_TRANSPORT:+transport = $RATEFS_TEST_TRANSPORT}
END

start_daemon() {
	"$RATEFS" -f -c "$TMP/conf" >>"$LOG" 2>&1 &
	DAEMON=$!
	within 20s both_up || fail "the mounts did not come up"
}
both_up() { mountpoint -q "$M1" && mountpoint -q "$M2"; }
stop_daemon() {
	kill -TERM "$DAEMON" || fail "the daemon is gone"
	within 20s gone "$DAEMON" || fail "the daemon does not end"
	wait "$DAEMON" || fail "the daemon ended with exit code $?"
	DAEMON=
}
# Beside those that make known names quicker to reach, which are the daemon's to keep.
inode_fds() {
	local m sum=0
	for m in m1 m2; do sum=$((sum + $(ctl stats $m --json | jq .inode_fds))); done
	echo $sum
}
# A thread that has moved large reads keeps a pipe.
pipe_fds() { echo $((2 * $(find "/proc/$DAEMON/task" -mindepth 1 -maxdepth 1 | wc -l))); }
fds_back() { [ $(($(daemon_fds) - $(inode_fds))) -le $((fds + $(pipe_fds) + 10)) ]; }
alive() { kill -0 "$DAEMON" 2>/dev/null || fail "the daemon is gone"; }

# --- load -----------------------------------------------------------------------------------------

STOP=$TMP/stop
CLIENTS=()
# A client that is started again whenever it ends, as it will when it is killed or its mount goes.
client() {
	(
		trap - EXIT
		while ! [ -e "$STOP" ]; do
			timeout 20 "$@" >/dev/null 2>&1 </dev/null
			sleep 0.05
		done
	) &
	CLIENTS+=($!)
}
churn() { # DIRECTORY: names come and go
	local d=$1/churn/$BASHPID i
	mkdir "$d" || return
	for ((i = 0; i < 30; i++)); do
		echo "$i" >"$d/$i" && mv "$d/$i" "$d/x$i" && ln "$d/x$i" "$d/l$i" && cat "$d/l$i"
	done
	ls -l "$d"
	rm -r "$d"
}
export -f churn
# Content that can be checked: each file says its own name, whole or not at all.
write_checked() {
	local f=$1/checked.$RANDOM
	yes "${f##*/}" | head -c $((RANDOM * 4)) >"$TMP/tmp.$BASHPID" || return
	cp "$TMP/tmp.$BASHPID" "$f.part" && sync "$f.part" && mv "$f.part" "$f"
	rm -f "$TMP/tmp.$BASHPID"
}
export -f write_checked
export TMP

start_clients() {
	rm -f "$STOP"
	local m alice=(setpriv --reuid 1001 --regid 1001 --clear-groups --) bob=(setpriv --reuid 1002 --regid 1002 --clear-groups --)
	for m in "$M1" "$M2"; do
		client iogen --op read --size 4K,64K,1M --mix --random --clients 4 --threads --time 15 --path "$m/file"
		client iogen --op read --size 64K --clients 3 --uids 1001,1002,1003 --time 10 --path "$m/file"
		client "${alice[@]}" iogen --op write --size 64K --file-size 4M --clients 3 --threads --time 15 --path "$m/w"
		client iogen --op stat --clients 2 --threads --time 15 --path "$m/file"
		client iogen --op read --size 64K --nonblock --poll --clients 2 --threads --time 10 --path "$m/file"
		client bash -c "churn $m"
		client bash -c "write_checked $m"
		client "${bob[@]}" hostile storm "$m/file" 5
	done
	client hostile mmap-copy "$M1/file" "$M2/mapped"
	client grep -rc nothing "$M2/churn"
}
stop_clients() {
	local c
	touch "$STOP"
	for c in "${CLIENTS[@]}"; do
		slay "$c"
	done
	CLIENTS=()
	pkill -9 -x 'iogen|hostile|cp|grep' # whose parents were killed
}

# --- chaos ----------------------------------------------------------------------------------------

pick() { local n=$((RANDOM % $# + 1)); echo "${!n}"; }
any_rate() { pick off 1M 5M 20M 100M 300M; }
any_iops() { pick off 200 1000 5000 20k; }
quietly() { "$@" >"$TMP/ctl.out" 2>&1 || { alive; say "'$*': $(head -1 "$TMP/ctl.out")"; false; }; }

change_limits() {
	local target
	target=$(pick global fs:data m1 m2)
	quietly ctl set "$target" "$(pick bps read_bps write_bps)=$(any_rate)" \
		"$(pick iops meta_iops read_iops write_iops)=$(any_iops)" "window=$(pick 10ms 100ms 1s)" ||
		fail "limits cannot be changed"
	[ "$(pick 1 2 3)" != 1 ] || quietly ctl set "$target" "max_inflight=$(pick off 2 16)" || fail "max_inflight"
}
change_policy() {
	quietly ctl set "$(pick m1 m2)" "$(pick fair=none fair=uid fair=process fair=handle fair=cgroup \
		max_wait=2s max_wait=off interrupt=any interrupt=fatal nonblock=wait nonblock=eagain \
		on_full=reject on_full=wait weight=uid:1001=4 max_keys=16 max_keys=4096 max_parked=50 max_parked=65536)" ||
		fail "policy cannot be changed"
}
pause_a_while() {
	local target
	target=$(pick global fs:data m1 m2)
	quietly ctl pause "$target" || fail "pause"
	nap "$(pick 50 200 500)ms"
	quietly ctl resume "$target" || fail "resume"
}
kill_a_client() {
	local pids
	mapfile -t pids < <(pgrep -x 'iogen|hostile|cp|grep')
	[ ${#pids[@]} = 0 ] || kill -9 "$(pick "${pids[@]}")" 2>/dev/null
}
remount() {
	quietly ctl unmount m2 && { within 10s quietly ctl mount m2 || fail "m2 does not come back"; }
}
look() { quietly ctl stats "$(pick m1 m2 global fs:data)" --json || fail "stats"; }
restart() {
	stop_daemon
	start_daemon
	restarts=$((restarts + 1))
}

: >"$LOG"
start_daemon
fds=$(daemon_fds) kb=$(daemon_kb) restarts=0 rounds=0
start_clients
end=$(($(now_ms) + SECONDS_ALL * 1000))
while [ "$(now_ms)" -lt $end ]; do
	rounds=$((rounds + 1))
	case $((RANDOM % 20)) in
	0 | 1 | 2 | 3 | 4 | 5) change_limits ;;
	6 | 7 | 8) change_policy ;;
	9 | 10) pause_a_while ;;
	11 | 12 | 13 | 14) kill_a_client ;;
	15) remount ;;
	16) quietly ctl reload || fail "reload" ;;
	17 | 18) look ;;
	19) [ $((RANDOM % 3)) != 0 ] || restart ;;
	esac
	alive
	nap "$(pick 10 100 300)ms"
done

# --- the reckoning --------------------------------------------------------------------------------

most_kb=$(daemon_kb)
quietly ctl resume global
stop_clients
quietly ctl reload || fail "reload at the end"
for MNT in "$M2" "$M1"; do
	settled "on $MNT after $rounds rounds"
done
within 10s fds_back || fail "descriptors leaked: $fds at the start, $(daemon_fds) now, $(inode_fds) of inodes"
sanitized || [ $((most_kb - kb)) -lt $((500 * 1024)) ] || fail "grown from $kb to $most_kb KiB"

# Limits are as exact as on the first day.
quietly ctl set m1 read_bps=20M bps=off iops=off max_inflight=off max_wait=off on_full=wait fair=uid window=100ms || fail "set"
quietly ctl set fs:data iops=off bps=off read_bps=off read_iops=off max_inflight=off || fail "set"
quietly ctl set global bps=off read_bps=off iops=off read_iops=off max_inflight=off || fail "set"
iogen --op read --size 64K --clients 4 --threads --skip 1 --time 4 --path "$M1/file" >"$TMP/io.json" || fail "iogen at the end"
sanitized || about 5% "$(json .total.bytes_per_s "$TMP/io.json")" $((20 << 20))

# No file is torn, and both mounts show what is there.
for f in "$SRC"/checked.*; do
	case $f in *.part | *'*') continue ;; esac
	cmp <(yes "${f##*/}" | head -c "$(stat -c %s "$f")") "$f" || fail "$f is torn"
done
quietly ctl set m1 read_bps=off
rm -rf "$SRC"/w* "$SRC/mapped"
nap 1500ms # names of the page cache's mount are believed for a second
for m in "$M1" "$M2"; do
	diff -r "$SRC" "$m" || fail "$m shows something else than the tree"
done
stop_daemon
log_silent
say "$rounds rounds, $restarts restarts, $most_kb KiB at most"
