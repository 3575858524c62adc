#!/bin/bash
# SPDX-License-Identifier: MIT
# One daemon, many mounts: configuration file, shared limits, reload.
. "${srcdir:-.}/tests/mount/lib.sh" || exit 1
requires helper:iogen jq

backing tmpfs
mkdir "$SRC/a" "$SRC/b" "$TMP/m1" "$TMP/m2" "$TMP/m3"
head -c 4M /dev/zero >"$SRC/a/file"
CONF=$TMP/ratefs.conf
LOG_EXPECTED=.

start() {
	"$RATEFS" -f -c "$CONF" >"$LOG" 2>&1 &
	DAEMON=$!
	within 5s serving || fail "no mounts"
}
serving() { grep -q serving "$LOG" || gone "$DAEMON"; }
state() { ctl list --json | jq -r ".daemons[0].mounts[] | select(.name == \"$1\") | .state"; }
value() { ctl show "$1" --json | jq -r ".options.$2.value"; }
log_says() { grep -Eq "$1" "$LOG" || fail "the log does not say '$1'"; }

write_conf() {
	cat >"$CONF" <<-END
	# two mounts of one tree
	[global]
	iops = 10k

	[fs:data]
	source = $SRC/a
	write_bps = 1M

	[mount:one]
	fs = data
	mountpoint = $TMP/m1

	[mount:two]
	fs = data
	mountpoint = $TMP/m2
	fair = uid          # by user
	options = noexec
	END
}
write_conf
ok "$RATEFS" --check -c "$CONF"
start
equal "$(state one) $(state two)" "mounted mounted"
findmnt -no OPTIONS "$TMP/m2" | grep -q noexec || fail "noexec of the file got lost"

# Both mounts write 512K: at 1 MiB/s together, this takes a second (less what the bucket holds at
# the start).
both() {
	iogen --op write --size 64K --bytes 512K --path "$TMP/m1/x" >/dev/null &
	iogen --op write --size 64K --bytes 512K --path "$TMP/m2/y" >/dev/null && wait $!
}
at_least 800ms both

# One is unmounted from outside, the other continues; the first can be mounted again.
umount "$TMP/m1"
one_ended() { [ "$(state one)" = unmounted ]; }
within 2s one_ended || fail "the end of a mount went unnoticed"
ok cat "$TMP/m2/file" >/dev/null
ok ctl mount one
ok cat "$TMP/m1/file" >/dev/null
says 'one: is mounted already' ctl mount one
ok ctl unmount one
equal "$(state one)" unmounted
equal "$(ctl stats one)" "mount one: $SRC/a at $TMP/m1, not mounted"
says 'one: is not mounted' ctl unmount one
ok ctl mount one

# Files that were open when a mount ended are closed, and no longer counted.
exec 8<"$TMP/m1/file"
out=$(ctl unmount one 2>&1) && fail "unmounted in use"
[[ $out == *"one: is in use: 1 open file"* ]] || fail "in use, but unmount says: $out"
ok ctl unmount one --force
exec 8<&-
closed() { ! find "/proc/$DAEMON/fd" -lname '*/file' | grep -q .; }
within 5s closed || fail "the daemon keeps files of a mount that is gone"
equal "$(ctl stats global --json | jq .open.now)" 0 "open files"
ok ctl mount one

# Reload: a limit changes, a mount is added, a mount is removed; this affects waiting requests immediately.
iogen --op write --size 1M --bytes 8M --path "$TMP/m2/z" >/dev/null &
writer=$!
nap 300ms
sed -i 's/^write_bps = 1M/write_bps = 1G/; /mount:one/,/^$/d' "$CONF"
printf '[mount:three]\nsource = %s\nmountpoint = %s\n' "$SRC/b" "$TMP/m3" >>"$CONF"
kill -HUP "$DAEMON"
within 3s gone "$writer" || fail "the writer did not feel the reload"
equal "$(value fs:data write_bps)" 1G
equal "$(state three)" mounted
! mountpoint -q "$TMP/m1" || fail "a mount that is no longer in the file is still there"
ok touch "$TMP/m3/x"
ok test -e "$SRC/b/x"

# A file with errors changes nothing, and all of its problems are reported.
cp "$CONF" "$CONF.good"
printf '[mount:bad]\niops = 3Q\nnonsense\n' >>"$CONF"
out=$(ctl reload 2>&1) && fail "a bad file was reloaded"
equal "$(printf '%s\n' "$out" | wc -l)" 4 "lines of '$out'"
kill -HUP "$DAEMON"
within 2s grep -q 'nothing has changed' "$LOG" || fail "SIGHUP with a bad file is not in the log"
equal "$(value fs:data write_bps) $(state two) $(state three)" "1G mounted mounted"
cp "$CONF.good" "$CONF"
ok ctl reload

# A reload discards what was set and not saved; the fs scope of a mount stays its own.
ok ctl set fs:three read_bps=5M >/dev/null
ok ctl set two iops=55 >/dev/null
ok ctl reload
equal "$(value fs:three read_bps) $(value two iops)" "off off"

# Exactly the changes are printed; without changes nothing is.
ok ctl set two iops=77 >/dev/null
sed -i 's/^iops = 10k/iops = 20k/; s/^write_bps = 1G/write_bps = 2G/; s/^fair = uid/fair = gid/' "$CONF"
equal "$(ctl reload | sort)" "$(printf "fs 'data': write_bps=2G, was 1G\nglobal: iops=20k, was 10k\nmount 'two': fair=gid, was uid\nmount 'two': iops=off, was 77")"
equal "$(ctl reload)" ""
sed -i 's/^fair = gid/fair = uid/' "$CONF"

# Changes that cannot be made while mounted are reported.
sed -i 's/^fair = uid.*/&\ncache = strict/' "$CONF"
ctl reload | grep -q "mount 'two': cache takes effect at the next mount" || fail "cache changed silently"

umount "$TMP/m2" "$TMP/m3"
daemon_ended_well

# on_mount_error.
write_conf
sed -i "s,$TMP/m2,$TMP/nowhere," "$CONF"
says "mount 'two': mountpoint .*nowhere': No such file" "$RATEFS" -c "$CONF"
! mountpoint -q "$TMP/m1" || fail "a mount was left behind"
sed -i 's/^\[global\]/&\non_mount_error = continue/' "$CONF"
start
equal "$(state one) $(state two)" "mounted unmounted"
log_says "mount 'two': mountpoint"
mkdir "$TMP/nowhere"
ok ctl reload
equal "$(state two)" mounted
stop_all() { kill -TERM "$DAEMON" && daemon_ended_well; }
stop_all
! mountpoint -q "$TMP/nowhere" || fail "a mount outlived its daemon"

# Errors in a file: exit status 2, all of them reported, nothing mounted.
printf '[mount:x]\niops = 5Q\nfair = no\n[golbal]\n' >"$CONF"
rc=0
out=$("$RATEFS" -c "$CONF" 2>&1) || rc=$?
equal "$rc" 2 "exit code"
equal "$(printf '%s\n' "$out" | wc -l)" 5 "lines of '$out'"
head -c 10M /dev/urandom >"$CONF"
before 2s says 'larger than 1 MiB' "$RATEFS" --check -c "$CONF"
head -c 900K /dev/urandom >"$CONF"
before 2s refused "$RATEFS" --check -c "$CONF"
says 'No such file' "$RATEFS" -c /nonexistent
