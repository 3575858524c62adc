#!/bin/bash
# SPDX-License-Identifier: MIT
# ratefsctl top in a terminal: what it shows, how it reacts to keys, and how much CPU it uses; on a
# pipe, plain lines.
. "${srcdir:-.}/tests/mount/lib.sh" || exit 1
requires helper:iogen tmux jq

backing tmpfs
head -c 64M /dev/zero >"$SRC/file"
mount_ratefs -o read_bps=4M,global.bps=1G,each.iops=400,fair=process,size=256M,inodes=100
chmod 777 "$MNT"

tm() { tmux -S "$TMP/tmux" -f /dev/null "$@"; }
screen() { tm capture-pane -p -t top; }
shows() { screen >"$TMP/screen" && grep -Eq -- "$1" "$TMP/screen"; }
must_show() {
	within 10s shows "$1" || {
		sed 's/^/  screen: /' "$TMP/screen" >&2
		fail "the screen does not show '$1'"
	}
}
type_keys() { tm send-keys -t top "$@"; }
limit_is() { [ "$(ctl show mnt --json | jq -r '.options.read_bps.value')" = "$1" ]; }
cpu_ns() { cut -d ' ' -f 1 "/proc/$1/schedstat"; }
top_pid() { pgrep -nx ratefsctl; }

as_user alice iogen --op read --size 64K --forever --clients 3 --path "$MNT/file" >/dev/null 2>&1 &
load=$!
tm new-session -d -s top -x 80 -y 24 "$RATEFSCTL top; echo \"ended with \$?\"; sleep 60"

# 80 x 24: the limits of all scopes, who waits, for what.
must_show '^> mnt\.read_bps +\[#{15,18}\.{0,3}\] +(3\.[5-9]|4\.[0-9])M +4\.0M .* (9[0-9]|100)%'
must_show '^  mnt\.each\.iops .* 400 +each '
must_show '^  global\.bps .*1\.0G'
must_show '^  mnt\.size +\[#{4,5}\.+\] +64\.0M +256M +192M +0$'
must_show '^  mnt\.inodes +\[\.+\] +2 +100 +98 +0$'
who=$(id -un 1001 2>/dev/null || echo 1001) # the user may exist
must_show "^${who:0:8} +iogen +- .*M +(9[0-9]|100)% read_bps +[1-9] +[0-9.]+ms"
equal "$(wc -l <"$TMP/screen")" 24 "lines of the screen"
must_show 'q quit'

# Who does not wait is there as well, with all requests, until it stops.  Nobody else counts them.
cp "$(command -v iogen)" "$TMP/quiet"
as_user bob "$TMP/quiet" --op stat --interval 0.02 --forever --path "$MNT/file" >/dev/null 2>&1 &
quiet=$!
bob=$(id -un 1002 2>/dev/null || echo 1002)
must_show "^${bob:0:8} +quiet +- +[1-9][0-9]{0,2} +0 +0% - +0 +-"
ctl stats mnt --json | jq -e 'all(.keys_by_use[]; .uid != 1002)' >/dev/null || fail "stats shows a key that has not waited"
pkill -KILL -x quiet # of this test's own pid namespace
wait "$quiet" 2>/dev/null
bob_is_gone() { screen >"$TMP/screen" && ! grep -q "^${bob:0:8} " "$TMP/screen"; }
within 10s bob_is_gone || fail "a caller that does nothing is still shown: $(cat "$TMP/screen")"

# A larger terminal shows more.
tm resize-window -t top -x 140 -y 40
must_show "^mnt +$who +[0-9]+ +iogen"
tm resize-window -t top -x 80 -y 24

# Sort, filter, help, pause.
type_keys s
must_show 'sorted by ops'
type_keys / nobody Enter
must_show 'nobody who matches the filter'
type_keys Escape
must_show "^${who:0:8} +iogen"
type_keys h
must_show 'share of the time in which requests waited for it'
type_keys h p
must_show PAUSED
type_keys p

# A limit is changed in place: by a tenth, by a typed value; one that makes no sense is refused.
type_keys +
within 10s limit_is 4506K || fail "+ has not changed the limit: $(ctl show mnt --json | jq -c .options.read_bps)"
must_show 'set mnt read_bps=4506K'
type_keys "=" 2M Enter
within 10s limit_is 2M || fail "a typed value has not changed the limit"
must_show '^> mnt\.read_bps .* 2\.0M'
type_keys "=" 2Q Enter
must_show "2Q.*unknown suffix"
limit_is 2M || fail "a wrong value has changed the limit"
# A limit that is turned off stays selected, so that it can be set again.
type_keys "=" off Enter
within 10s limit_is off || fail "the limit is not off"
must_show '^> mnt\.read_bps .* off '
type_keys +
must_show "mnt.read_bps is off; '=' sets a value"
type_keys "=" 2M Enter
within 10s limit_is 2M || fail "a limit that was off has not been set again"
must_show '^> mnt\.read_bps .* 2\.0M'

# It uses less than 20 ms of CPU per second; twice that is allowed for busy machines.
pid=$(top_pid)
[ -n "$pid" ] || fail "top is not there"
used=$(cpu_ns "$pid")
sleep 3
used=$((($(cpu_ns "$pid") - used) / 3000))
say "CPU of top: $used us a second"
sanitized || [ $used -le 40000 ] || fail "top used $used us of CPU a second"

# Space is a limit like others.
type_keys Down Down Down "=" 512M Enter
must_show '^> mnt\.size .* 512M'
type_keys q
must_show 'ended with 0'
tm kill-server

# On a pipe: the same as lines.
plain() { # [TARGET]: begins to write them to $TMP/plain
	"$RATEFSCTL" top "$@" >"$TMP/plain" &
	plain=$!
}
plain_has() { within 20s grep -Eq "$1" "$TMP/plain"; }
plain_ends() {
	kill $plain
	wait $plain 2>/dev/null
}
plain
plain_has '^> mnt\.read_bps +\[#' || fail "no limit on a pipe: $(head -20 "$TMP/plain")"
plain_has "^mnt +$who +[0-9]+ +iogen " || fail "no key on a pipe"
plain_ends
! grep -q "$(printf '\033')" "$TMP/plain" || fail "control codes on a pipe"
! grep -q 'q quit' "$TMP/plain" || fail "keys to press on a pipe"
says 'no daemon has a mount' "$RATEFSCTL" top nonexistent

# A target: one mount by its name or any path on it, or all mounts of a daemon.
for target in mnt "$MNT" "$MNT/file" global; do
	plain "$target"
	plain_has '^ratefs top .* 1 mount ' || fail "top $target: $(cat "$TMP/plain")"
	plain_has '^> mnt\.read_bps ' || fail "top $target shows no limit: $(cat "$TMP/plain")"
	plain_ends
done

# The same on terminals that cannot do more, such as those of editors.
for term in dumb no-such-terminal; do
	tm new-session -d -s top -x 120 -y 40 "TERM=$term $RATEFSCTL top"
	within 10s shows '^> mnt\.read_bps +\[#' || fail "nothing is shown with TERM=$term: $(screen)"
	! grep -q 'q quit' "$TMP/screen" || fail "keys to press with TERM=$term"
	tm kill-session -t top
	nap 200ms
done

# It ends with its terminal, even if SIGHUP is ignored.
tm new-session -d -s top -x 80 -y 24 "trap '' HUP; exec $RATEFSCTL top"
must_show 'q quit'
pid=$(top_pid)
tm kill-server
within 5s gone "$pid" || fail "top goes on without a terminal"
pkill -KILL -x iogen # of this test's own pid namespace
wait "$load" 2>/dev/null
unmount_ratefs

# A daemon that exits and comes back: the screen says so, and no longer than that.
mount_ratefs -o iops=100
tm new-session -d -s top -x 80 -y 24 "$RATEFSCTL top; echo \"ended with \$?\"; sleep 60"
must_show '^> mnt\.iops '
unmount_ratefs
must_show ' 0 mounts '
must_show 'you have no running ratefs daemons'
mount_ratefs -o iops=100
must_show '^> mnt\.iops '
must_show 'q quit'
type_keys q
must_show 'ended with 0'
tm kill-server
unmount_ratefs

# A daemon is found by its process ID whatever the name of its socket.
mount_ratefs -o iops=100,control=/run/ratefs/other.sock
tm new-session -d -s top -x 80 -y 24 "$RATEFSCTL top; echo \"ended with \$?\"; sleep 60"
must_show '^> mnt\.iops '
type_keys +
must_show 'set mnt iops=110'
equal "$(ctl --daemon="$DAEMON" show mnt --json | jq -r .options.iops.value)" 110
says 'you have no running daemon with process ID 1 ' "$RATEFSCTL" --daemon=1 list
type_keys q
must_show 'ended with 0'
tm kill-server
unmount_ratefs

# 4,096 keys: all of them are sorted and filtered, with less than 20 ms of CPU per second (measured:
# 8; twice the bound is allowed for busy machines).  A sanitizer makes the daemon too slow for that many.
keys=4096
! sanitized || keys=512
mount_ratefs -o read_iops=4096,fair=handle,max_parked=100000
iogen --op read --size 4K --forever --threads --clients $((keys - 1)) --path "$MNT/file" >/dev/null 2>&1 &
load=$!
cp "$(command -v iogen)" "$TMP/needle"
as_user bob "$TMP/needle" --op read --size 4K --forever --path "$MNT/file" >/dev/null 2>&1 &
needle=$!
all_wait() { [ "$(ctl stats mnt --json | jq .keys_now)" -ge $keys ]; }
within 60s all_wait || fail "there are only $(ctl stats mnt --json | jq .keys_now) keys"
tm new-session -d -s top -x 80 -y 24 "$RATEFSCTL top; echo \"ended with \$?\"; sleep 60"
must_show "^ratefs top .* $keys keys"
type_keys / needle Enter
must_show '^1002 +needle '
must_show "^ratefs top .* 1 of $keys keys"
type_keys Escape s s s s s s
must_show 'sorted by command'
type_keys S
must_show 'sorted by user'
pid=$(top_pid)
used=$(cpu_ns "$pid")
sleep 5
used=$((($(cpu_ns "$pid") - used) / 5000))
say "CPU of top with $keys keys: $used us a second"
sanitized || [ $used -le 40000 ] || fail "top used $used us of CPU a second"
type_keys q
must_show 'ended with 0'
tm kill-server
pkill -KILL -x 'iogen|needle'
wait "$load" "$needle" 2>/dev/null
unmount_ratefs
