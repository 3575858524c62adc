#!/bin/bash
# SPDX-License-Identifier: MIT
# ratefs-volume without an engine: the protocol, options, sources, crashes of every process, many
# volumes concurrently.
. "${srcdir:-.}/tests/mount/lib.sh" || exit 1
. "${srcdir:-.}/tests/mount/volume_lib.sh" || exit 1
requires unshare python3

mkdir -p "$TMP/allowed/box"
# Each change of a volume is synced to disk; hundreds of them would take most of the time.
mkdir -m 700 "$STATE"
mount -t tmpfs -o mode=700 tmpfs "$STATE" || fail "tmpfs"
start_plugin --allow-source="$TMP/allowed"

# --- rights: only those that it and the daemon need (needed[] in src/ctl/volume_privileges.c), also for what it starts
# Threads of connections that have just ended may disappear meanwhile.
for thread in "/proc/$PLUGIN" "/proc/$PLUGIN/task"/*; do
	rights=$(grep -E '^(Cap|NoNewPrivs)' "$thread/status" 2>/dev/null) || continue
	equal "$(tr -s '\t\n' ' ' <<<"$rights")" "CapInh: 0000000000000000 CapPrm: 00000000882803df CapEff: 00000000882803df \
CapBnd: 00000000882803df CapAmb: 0000000000000000 NoNewPrivs: 1 " "rights of thread ${thread##*/}"
done
equal "$(stat -c %a "$STATE" "$SOCK" | xargs)" "700 600" "modes of the state directory and the socket"
equal "$(sed -n 's/^CapabilityBoundingSet=//p' "$srcdir/conf/ratefs-volume.service.in" | tr ' ' '\n' | sort | xargs)" \
	"$(sed -n '/needed\[\] = {/,/};/p' "$srcdir/src/ctl/volume_privileges.c" | grep -o 'CAP_[A-Z_]*' | sort | xargs)" \
	"capabilities of the service, and of the program"

# --- options: the same messages as on the command line
for option in iops=x write_bps=10mbit iops= foo=3 max_open=-1 ro=maybe profile=nosuch fair=luck; do
	on_command_line=$("$RATEFS" "$SRC" "$MNT" -o "${option%=}" 2>&1)
	post VolumeDriver.Create "{\"Name\":\"bad\",\"Opts\":{\"${option%%=*}\":\"${option#*=}\"}}" || fail "no answer"
	equal "$STATUS ratefs: $(jq -r .Err <<<"$ANSWER")" "400 $on_command_line" "-o $option"
done
refuses 400 'mountpoint: is set by' Create '{"Name":"bad","Opts":{"mountpoint":"/etc"}}'
refuses 400 'Source-NoFollow: is set by' Create '{"Name":"bad","Opts":{"Source-NoFollow":"no"}}'
refuses 400 'options: is set by' Create '{"Name":"bad","Opts":{"options":"source=/etc"}}'
refuses 400 'a value must not contain quotes' Create '{"Name":"bad","Opts":{"iops":"1\nsource = /etc"}}'
refuses 400 'write-bps: is given twice|write_bps: is given twice' Create '{"Name":"bad","Opts":{"write_bps":"1M","write-bps":"2M"}}'
refuses 400 'unknown option' Create '{"Name":"bad","Opts":{"global.iops":"1"}}'
equal "$(asks List '' '.Volumes | length')" 0 "a refused volume is there"

# --- invalid and malicious names
# shellcheck disable=SC2016 # it is a name
for name in '..' '../../etc' '/etc' 'a/b' 'a b' '-rf' '.hidden' 'a\nb' '[x]' '$(id)' "$(printf 'a%.0s' {1..129})" '' 'ü'; do
	refuses 400 'name' Create "{\"Name\":\"$name\"}"
	refuses 404 'no such volume' Get "{\"Name\":\"$name\"}"
	refuses 404 'no such volume' Remove "{\"Name\":\"$name\"}"
done
refuses 404 "no such volume: 'aaa" Get "{\"Name\":\"$(printf 'a%.0s' {1..127})ü\"}" # cut in the middle of a character
refuses 400 "name: 'global'" Create '{"Name":"global"}'

# --- sources
refuses 400 'not a directory below one that is allowed' Create '{"Name":"bad","Opts":{"source":"/etc"}}'
ln -s /etc "$TMP/allowed/link"
refuses 400 'not a directory below' Create "{\"Name\":\"bad\",\"Opts\":{\"source\":\"$TMP/allowed/link\"}}"
refuses 400 'not a directory below' Create "{\"Name\":\"bad\",\"Opts\":{\"source\":\"$TMP/allowed/../state\"}}"
refuses 400 'source: is given twice' Create "{\"Name\":\"bad\",\"Opts\":{\"source\":\"$TMP/allowed/box\",\"Source\":\"/etc\"}}"
asks Create "{\"Name\":\"mine\",\"Opts\":{\"source\":\"$TMP/allowed/box\"}}"

# --- one volume: rates, live changes, status
asks Create '{"Name":"box","Opts":{"write_bps":"1M","iops":"10k","cache":"strict"}}'
mnt=$(asks Mount '{"Name":"box","ID":"one"}' .Mountpoint)
mountpoint -q "$mnt" || fail "nothing is mounted at $mnt"
between 1800ms 20s dd if=/dev/zero of="$mnt/f" bs=64k count=32 status=none
equal "$(stat -c %s "$STATE"/data/box-*/f)" 2097152
ok ctl set box write_bps=100M >/dev/null
before 10s dd if=/dev/zero of="$mnt/f" bs=64k count=128 status=none
status=$(asks Get '{"Name":"box"}' .Volume.Status)
equal "$(jq -r .references <<<"$status")" 1
[ "$(jq -r '.limits.write_bps.rate' <<<"$status")" = 104857600 ] || fail "status has no limits: $status"
equal "$(jq -r .waiting <<<"$status")" 0
equal "$(asks Path '{"Name":"box"}' .Mountpoint)" "$mnt"
# Another volume is mounted: options that were set remain in force.
mine=$(asks Mount '{"Name":"mine","ID":"one"}' .Mountpoint)
echo hello >"$mine/file"
equal "$(cat "$TMP/allowed/box/file")" hello
# No container gets a mount of another directory than the source, such as that of a link that was in its place
# while the daemon opened it.
mv "$TMP/allowed/box" "$TMP/allowed/moved"
mkdir "$TMP/allowed/box"
refuses 500 'it has been replaced' Mount '{"Name":"mine","ID":"two"}'
rmdir "$TMP/allowed/box"
mv "$TMP/allowed/moved" "$TMP/allowed/box"
asks Mount '{"Name":"mine","ID":"two"}'
asks Unmount '{"Name":"mine","ID":"two"}'
mountpoint -q "$mine" || fail "unmounted although a container uses it"
equal "$(ctl show box --json | jq -r '.options.write_bps.value // .options.write_bps')" 100M "set was undone by another volume"
equal "$(findmnt -no OPTIONS "$mnt" | grep -Eo 'nosuid|nodev' | sort | xargs)" "nodev nosuid"
equal "$(ctl list --json | jq '.daemons | length')" 1 "one daemon serves all volumes"

# The driver's own directories are nobody's source, whatever is allowed.
kill_plugin TERM
start_plugin --allow-source="$TMP"
refuses 400 'where the driver keeps its state' Create "{\"Name\":\"thief\",\"Opts\":{\"source\":\"$STATE/data\"}}"
refuses 400 'where the driver keeps its state' Create "{\"Name\":\"thief\",\"Opts\":{\"source\":\"$TMP\"}}"
kill_plugin TERM
start_plugin --allow-source="$TMP/allowed"

# --- the plugin is killed in the middle of everything; mounts go on
daemon=$(daemon_pid)
exec 7>"$mnt/open"
for i in 1 2 3 4 5; do
	(for j in $(seq 1000); do # until the plugin does not answer
		post VolumeDriver.Mount "{\"Name\":\"box\",\"ID\":\"storm$j\"}" || break
		post VolumeDriver.Unmount "{\"Name\":\"box\",\"ID\":\"storm$j\"}" || break
		post VolumeDriver.Create "{\"Name\":\"storm$i-$j\"}" || break
		post VolumeDriver.Remove "{\"Name\":\"storm$i-$j\"}" || break
	done) 2>/dev/null &
	clients=$!
	nap $((100 + RANDOM % 200))ms
	kill_plugin
	wait $clients
	jq -e .v "$STATE/volumes.json" >/dev/null || fail "the state is broken after kill -9"
	start_plugin --allow-source="$TMP/allowed"
done
echo still >&7 || fail "the mount has gone with the plugin"
exec 7>&-
equal "$(daemon_pid)" "$daemon" "the daemon has changed"
# What the kills left half done can be undone by the calls that an engine repeats.
for name in $(asks List '' '.Volumes[].Name' | grep storm); do
	asks Remove "{\"Name\":\"$name\"}"
done
for id in $(jq -r '.volumes.box.references | keys[]' "$STATE/volumes.json" | grep storm); do
	asks Unmount "{\"Name\":\"box\",\"ID\":\"$id\"}"
done
equal "$(asks Get '{"Name":"box"}' .Volume.Status.references)" 1
# No tree is left of volumes that do not exist; the driver looks for them when it starts.
kill_plugin TERM
start_plugin --allow-source="$TMP/allowed"
trees_are_gone() { ! find "$STATE/data" "$STATE/trash" -name 'storm*' | grep -q .; }
within 20s trees_are_gone || fail "trees of killed calls are left: $(ls "$STATE/data" "$STATE/trash")"
says 'another ratefs-volume uses' "$VOLUME" --state="$STATE" --socket="$TMP/second.sock" --ratefs="$RATEFS"

# --- the daemon is killed: the next mount brings everything back
kill -9 "$daemon"
within 5s gone "$daemon" || fail "kill -9"
asks Mount '{"Name":"box","ID":"two"}'
echo again >"$mnt/f" || fail "the volume is dead"
echo again >"$mine/file" || fail "the other volume is dead"
[ "$(daemon_pid)" != "$daemon" ] || fail "the daemon is a ghost"
# A daemon that is started for one volume mounts the others too: not what a link in the place of a source leads to.
mkdir "$TMP/secret"
touch "$TMP/secret/secret"
kill -9 "$(daemon_pid)"
mv "$TMP/allowed/box" "$TMP/allowed/moved"
ln -s "$TMP/secret" "$TMP/allowed/box"
asks Mount '{"Name":"box","ID":"two"}'
[ ! -e "$mine/secret" ] || fail "a daemon that was started again followed a link"
refuses 500 'is not a directory below one' Mount '{"Name":"mine","ID":"two"}'
rm "$TMP/allowed/box"
mv "$TMP/allowed/moved" "$TMP/allowed/box"
asks Mount '{"Name":"mine","ID":"two"}'
asks Unmount '{"Name":"mine","ID":"two"}'
equal "$(cat "$mine/file")" again "the right source is not mounted again"

# --- in use
refuses 409 "volume 'box' is in use by 2 containers" Remove '{"Name":"box"}'
asks Unmount '{"Name":"box","ID":"one"}'
mountpoint -q "$mnt" || fail "unmounted while in use"
exec 7>"$mnt/open"
asks Unmount '{"Name":"box","ID":"two"}'
mountpoint -q "$mnt" || fail "unmounted with an open file"
refuses 409 'in use' Remove '{"Name":"box"}'
exec 7>&-
asks Remove '{"Name":"box"}'
[ -z "$(find "$STATE/data" -name 'box-*')" ] || fail "the data of a removed volume is there"

# --- a reference whose container is gone is collected; one whose container still exists is not
asks Unmount '{"Name":"mine","ID":"one"}'
kill_plugin TERM
start_plugin --allow-source="$TMP/allowed" --collect-after=1
asks Create '{"Name":"left"}'
mnt=$(asks Mount '{"Name":"left","ID":"crashed"}' .Mountpoint)
mkdir "$TMP/inside"
# shellcheck disable=SC2016 # for sh
unshare --mount --propagation private sh -c \
	'mount --bind "$1" "$2" && umount "$1" && exec sleep 1000' sh "$mnt" "$TMP/inside" &
sandbox=$!
nap 5s # five searches; two would be enough
mountpoint -q "$mnt" || fail "collected although a sandbox has it"
equal "$(asks Get '{"Name":"left"}' '.Volume.Status.containers | length')" 1 "the sandbox is not seen"
# Meanwhile the plugin notices by itself that the daemon is dead.
kill -9 "$(daemon_pid)"
alive() { stat --cached=never "$mnt/." >/dev/null 2>&1; }
within 30s alive || fail "the plugin did not start another daemon"
kill -9 $sandbox
wait $sandbox 2>/dev/null
unmounted() { ! mountpoint -q "$mnt"; }
within 30s unmounted || fail "the reference was not collected"
unreferenced() { [ "$(asks Get '{"Name":"left"}' '.Volume.Status.containers | length')" = 0 ]; }
within 10s unreferenced || fail "the reference stayed after the unmount"
asks Remove '{"Name":"left"}'
# A volume that was still in use when its last container ended is unmounted later.
asks Create '{"Name":"held"}'
mnt=$(asks Mount '{"Name":"held","ID":"one"}' .Mountpoint)
exec 7>"$mnt/open"
asks Unmount '{"Name":"held","ID":"one"}'
mountpoint -q "$mnt" || fail "unmounted with an open file"
exec 7>&-
within 30s unmounted || fail "it stays mounted although nothing uses it"
asks Remove '{"Name":"held"}'
kill_plugin TERM
start_plugin --allow-source="$TMP/allowed"
asks Mount '{"Name":"mine","ID":"one"}'

# --- what is mounted in a volume is not deleted with it, even if it is a directory of the same filesystem
asks Create '{"Name":"bound"}'
data=$(echo "$STATE"/data/bound-*)
mkdir "$STATE/elsewhere" "$data/on"
touch "$STATE/elsewhere/file" "$data/file"
mount --bind "$STATE/elsewhere" "$data/on" || fail "mount --bind"
asks Remove '{"Name":"bound"}'
in_trash=$(echo "$STATE"/trash/bound-*)
file_is_gone() { [ -d "$in_trash/on" ] && ! [ -e "$in_trash/file" ]; }
within 20s file_is_gone || fail "the trash holds $(ls "$STATE/trash" "$STATE"/trash/*)"
complained() { grep -q "bound.* cannot be deleted completely" "$TMP/plugin.log"; }
within 20s complained || fail "no message: $(cat "$TMP/plugin.log")"
[ -e "$STATE/elsewhere/file" ] || fail "a file of another directory was deleted with the volume"
umount "$in_trash/on" || fail "umount"
rm -r "$STATE/elsewhere"

# --- nothing of a daemon that was killed is left when its volume is removed
nothing_at() { ! grep -qF " $1 " /proc/self/mountinfo; }
asks Create '{"Name":"dead"}'
mnt=$(asks Mount '{"Name":"dead","ID":"one"}' .Mountpoint)
kill -9 "$(daemon_pid)"
asks Unmount '{"Name":"dead","ID":"one"}'
# If the plugin has just started another daemon, which is still mounting the volume, it unmounts it when it looks the next time.
within 45s nothing_at "$mnt" || fail "a dead mount was left"
asks Remove '{"Name":"dead"}'
asks Mount '{"Name":"mine","ID":"one"}'
# The same if another daemon runs already, which could not mount the volume, because its source has gone.
mkdir "$TMP/allowed/gone"
asks Create "{\"Name\":\"dead\",\"Opts\":{\"source\":\"$TMP/allowed/gone\"}}"
mnt=$(asks Mount '{"Name":"dead","ID":"one"}' .Mountpoint)
kill -9 "$(daemon_pid)"
rmdir "$TMP/allowed/gone"
asks Mount '{"Name":"mine","ID":"one"}'
asks Unmount '{"Name":"dead","ID":"one"}'
within 45s nothing_at "$mnt" || fail "a dead mount was left of a volume that the new daemon cannot mount"
asks Remove '{"Name":"dead"}'

# --- the same if it takes seconds to die, because it has much memory or the machine is busy
# dies_slowly PID SECONDS: holds a process that was killed before it closes its files.  Run it in the
# background.
dies_slowly() {
	exec python3 - "$1" "$2" <<'EOF'
import ctypes, os, sys, time
SEIZE, DETACH, TRACEEXIT, WALL = 0x4206, 17, 0x40, 0x40000000
ptrace = ctypes.CDLL(None).ptrace
ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
pid = int(sys.argv[1])
if ptrace(SEIZE, pid, None, TRACEEXIT) < 0:
    sys.exit(print("cannot", flush=True))
print("ready", flush=True)
os.waitpid(pid, WALL)
time.sleep(float(sys.argv[2]))
ptrace(DETACH, pid, None, None)
EOF
}
for call in Unmount Mount; do
	asks Create '{"Name":"slow"}'
	mnt=$(asks Mount '{"Name":"slow","ID":"one"}' .Mountpoint)
	daemon=$(daemon_pid)
	dies_slowly "$daemon" 3 >"$TMP/said" &
	tracer=$!
	within 10s grep -q . "$TMP/said"
	grep -q ready "$TMP/said" || say "no ptrace: this daemon dies quickly"
	kill -9 "$daemon"
	asks $call '{"Name":"slow","ID":"one"}'
	if [ $call = Unmount ]; then
		within 45s nothing_at "$mnt" || fail "a dead mount was left by a daemon that died slowly"
	else
		touch "$mnt/file" || fail "mounted again, but dead"
		asks Unmount '{"Name":"slow","ID":"one"}'
	fi
	wait $tracer
	asks Remove '{"Name":"slow"}'
	asks Mount '{"Name":"mine","ID":"one"}'
done

# --- --save outlives the mount
asks Create '{"Name":"saved","Opts":{"iops":"100"}}'
asks Mount '{"Name":"saved","ID":"one"}'
ok ctl set saved iops=77 --save >/dev/null
asks Unmount '{"Name":"saved","ID":"one"}'
asks Mount '{"Name":"saved","ID":"one"}'
equal "$(ctl show saved --json | jq -r '.options.iops.value // .options.iops')" 77 "--save is lost"
asks Unmount '{"Name":"saved","ID":"one"}'
asks Remove '{"Name":"saved"}'

# --- 50 volumes concurrently
calls=()
for i in $(seq 50); do
	(asks Create "{\"Name\":\"many$i\",\"Opts\":{\"iops\":\"$((i + 10))\"}}" &&
		asks Mount "{\"Name\":\"many$i\",\"ID\":\"c\"}") &
	calls+=($!)
done
wait "${calls[@]}"
equal "$(findmnt -rno TARGET -t fuse.ratefs | grep -c "$STATE/mnt/many")" 50
equal "$(ctl show many50 --json | jq -r '.options.iops.value // .options.iops')" 60
calls=()
for i in $(seq 50); do
	(asks Unmount "{\"Name\":\"many$i\",\"ID\":\"c\"}" && asks Remove "{\"Name\":\"many$i\"}") &
	calls+=($!)
done
wait "${calls[@]}"
equal "$(asks List '' '.Volumes | map(.Name) | join(" ")')" mine
! findmnt -rno TARGET -t fuse.ratefs | grep -q "$STATE/mnt/many" || fail "mounts were left"

# --- the manual page has every flag
for flag in $("$VOLUME" --help | grep -Eo -- '--[a-z-]+'); do
	grep -q -- "Fl Fl ${flag#--}" "$srcdir/man/ratefs-volume.8" || fail "$flag is not in ratefs-volume(8)"
done
says "unknown option '--nonsense'" "$VOLUME" --nonsense
says "not an absolute path" "$VOLUME" --allow-source=here

# --- HTTP
equal "$(curl -s -o /dev/null -w '%{http_code}' --unix-socket "$SOCK" http://localhost/VolumeDriver.List)" 405
post VolumeDriver.Create "{\"Name\":\"$(head -c 2M /dev/zero | tr '\0' a)\"}" || fail "no answer to a large request"
equal "$STATUS" 413
refuses 404 'unknown call' Nonsense '{}'
refuses 400 'JSON' Create '{'
refuses 400 'JSON' Create '"name"'
asks List null
# An engine that starts hundreds of containers has as many connections; some clients never finish their request.
python3 - "$SOCK" >"$TMP/connected" <<'EOF' &
import socket, sys, time
clients = []
for i in range(300):
    s = socket.socket(socket.AF_UNIX)
    s.connect(sys.argv[1])
    s.sendall(b"POST /VolumeDriver.List HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{"[:i])
    clients.append(s)
print("connected", flush=True)
time.sleep(1000)
EOF
clients=$!
within 20s grep -q connected "$TMP/connected" || fail "300 clients cannot connect"
before 20s asks List null
kill $clients
wait $clients 2>/dev/null

# --- socket activation, and the end: SIGTERM leaves mounts alone
kill_plugin TERM
mountpoint -q "$mine" || fail "the mount ended with the plugin"
rm -f "$SOCK"
python3 - "$SOCK" "$VOLUME" --state="$STATE" --ratefs="$RATEFS" --allow-source="$TMP/allowed" \
	>>"$TMP/plugin.log" 2>&1 <<'EOF' &
import os, socket, sys
s = socket.socket(socket.AF_UNIX)
s.bind(sys.argv[1])
s.listen()
if s.fileno() != 3:
    os.dup2(s.fileno(), 3)
os.set_inheritable(3, True)
os.environ.update(LISTEN_FDS="1", LISTEN_PID=str(os.getpid()))
os.execv(sys.argv[2], sys.argv[2:])
EOF
PLUGIN=$!
within 20s plugin_answers || fail "no answer by socket activation"
equal "$(asks List '' '.Volumes[0].Name')" mine
asks Unmount '{"Name":"mine","ID":"one"}'
asks Remove '{"Name":"mine"}'
equal "$(cat "$TMP/allowed/box/file")" again "a source was deleted with its volume"
kill_plugin TERM
stop_daemon

# --- volumes that have filled the disk of the state directory can be unmounted and removed
STATE=$TMP/small
mkdir -m 700 "$STATE"
mount -t tmpfs -o size=2M,mode=700 tmpfs "$STATE"
start_plugin
for name in one two; do
	asks Create "{\"Name\":\"$name\"}"
	mnt=$(asks Mount "{\"Name\":\"$name\",\"ID\":\"one\"}" .Mountpoint)
	dd if=/dev/zero of="$mnt/fill" bs=4k status=none 2>/dev/null
	[ $name = two ] || truncate -s -16k "$mnt/fill"	# the second volume needs some
done
[ "$(stat -fc %a "$STATE")" = 0 ] || fail "the disk is not full"
for name in one two; do
	asks Unmount "{\"Name\":\"$name\",\"ID\":\"one\"}"
	dd if=/dev/zero of="$STATE/more" bs=4k oflag=append conv=notrunc status=none 2>/dev/null
done
asks Remove '{"Name":"one"}'
asks Remove '{"Name":"two"}'
kill_plugin TERM
stop_daemon
! grep -E 'Sanitizer|runtime error' "$TMP/plugin.log" || fail "a sanitizer complained"
