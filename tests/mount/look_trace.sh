#!/bin/bash
# SPDX-License-Identifier: MIT
# ratefsctl trace: each filter selects what it promises and nothing else; a refusal names the limit that refused.
. "${srcdir:-.}/tests/mount/lib.sh" || exit 1
. "${srcdir:-.}/tests/mount/rules_lib.sh" || exit 1
requires helper:iogen jq tmux

backing tmpfs
head -c 16M /dev/zero >"$SRC/file"
mkdir "$TMP/mnt_b"
cat >"$TMP/conf" <<END
[mount:a]
source = $SRC
mountpoint = $MNT
read_bps = 2M
fair = uid
allow_other = yes
[mount:b]
source = $SRC
mountpoint = $TMP/mnt_b
read_bps = 64K
allow_other = yes
[class:batch]
mounts = a
match = uid:1001
read_bps = 512K
[pool:p]
server = unix:$TMP/pool.sock
bps = 1G
END
: >"$LOG"
"$RATEFS" -f -c "$TMP/conf" >>"$LOG" 2>&1 &
DAEMON=$!
up() { answers && mountpoint -q "$TMP/mnt_b"; }
within 10s up || fail "the mounts did not come up"

# listen NAME ARGUMENT...: starts a trace that writes its events to $TMP/NAME.
listeners=()
sockets() { find "/proc/$DAEMON/fd" -lname 'socket:*' | wc -l; }
silent=$(sockets) # nobody listens
nobody_listens() { [ "$(sockets)" -le "$silent" ]; }
stop_listening() {
	kill "${listeners[@]}"
	wait "${listeners[@]}" 2>/dev/null
	within 10s nobody_listens || fail "the daemon keeps $(sockets) sockets, not $silent"
	listeners=()
}
listen() {
	"$RATEFSCTL" trace --json "${@:2}" >"$TMP/$1" 2>"$TMP/$1.err" &
	listeners+=($!)
}
listen all
listen a a
listen b b
listen batch a/batch
listen bob --key=1002
listen name --key=iogen
listen nobody --key=nobody
listen long --min-wait=300ms
all_listen() { [ "$(sockets)" -ge $((silent + ${#listeners[@]})) ]; }
within 10s all_listen || fail "trace does not subscribe: $(cat "$TMP"/*.err)"

iogen --op read --size 64K --count 24 --clients 2 --uids 1001,1002 --path "$MNT/file" >/dev/null || fail "iogen on a"
iogen --op read --size 64K --count 3 --path "$TMP/mnt_b/file" >/dev/null || fail "iogen on b"
iogen --op read --size 64K --count 4 --nonblock --path "$TMP/mnt_b/file" >/dev/null || fail "iogen, O_NONBLOCK"
ok ctl set a read_bps=3M >/dev/null
changed() { grep -q limit_changed "$TMP/all" && grep -q limit_changed "$TMP/a"; }
within 10s changed || fail "no limit_changed: $(tail -1 "$TMP/all")"
stop_listening

# has NAME FILTER: some event matches; all NAME FILTER: there are events of requests, and all of
# them match.
events() { jq -sc "[.[] | select(.op)]" "$TMP/$1"; }
has() { events "$1" | jq -e "any(.[]; $2)" >/dev/null || fail "$1: no event with $2"; }
all() { events "$1" | jq -e "length > 0 and all(.[]; $2)" >/dev/null || fail "$1: not all have $2: $(events "$1" | jq -c ".[] | select($2 | not)" | head -3)"; }
count() { jq -s "[.[] | select($2)] | length" "$TMP/$1"; }

has all '.mount == "a" and .class == "batch"'
has all '.mount == "b" and .event == "admitted"'
all a '.mount == "a"'
has a '.class == "batch"'
has a '.class == null'
equal "$(count a true)" "$(count all '.mount == "a" or .scope')" "events of a"
all b '.mount == "b"'
equal "$(count b '.event == "limit_changed"')" 0 "changes of another mount"
all batch '.class == "batch" and .uid == 1001'
equal "$(count batch .op)" "$(count all '.class == "batch"')" "events of the class"
all bob '.id == 1002 and .kind == "uid"'
equal "$(count bob .op)" "$(count all '.id == 1002 and .kind == "uid"')" "events of a key"
all name '.command == "iogen"'
equal "$(count name .op)" "$(count all '.command == "iogen"')" "events of a command"
equal "$(cat "$TMP/nobody")" "" "events of nobody"
all long '.wait_ns >= 300000000'
equal "$(count long .op)" "$(count all '(.wait_ns // 0) >= 300000000')" "long waits"

# The event of a request that was refused immediately says which limit refused it.
all b '.event == "admitted" or .event == "would_block"'
has b '.event == "would_block" and .wait_ns == 0 and .limit.name == "read_bps" and .limit.scope == "mount"'

# So are opens past max_open and writes past size, which are refused after they were admitted.
ok ctl set b max_open=1 size=1M >/dev/null # the source already holds more
enforced() { [ "$(ctl stats b --json | jq -r .space.state)" = enforced ]; }
within 10s enforced || fail "the size is not enforced: $(ctl stats b --json | jq -c .space)"
listen refusals b
refused_both() { # again and again, since the first may come before trace has subscribed
	exec 5<"$TMP/mnt_b/file" || return # the last one is not released yet
	! cat "$TMP/mnt_b/file" >/dev/null 2>&1 || fail "max_open is not enforced"
	exec 5<&-
	! echo x 2>/dev/null >"$TMP/mnt_b/new" && grep -q '"too_many_open".*"cat"' "$TMP/refusals" && grep -q no_space "$TMP/refusals"
}
within 10s refused_both || fail "no events of max_open and size: $(cat "$TMP/refusals")"
stop_listening
has refusals '.event == "too_many_open" and .op == "openclose" and .limit.name == "max_open" and .limit.scope == "mount" and .command == "cat"'
has refusals '.event == "no_space" and .mount == "b" and .op == "write" and .limit == null'
ok ctl set b max_open=off size=off >/dev/null

# The longest name that a class may have.
name=$(printf 'c%.0s' {1..64})
ok ctl class add a "$name" match=uid:1003 read_bps=256K >/dev/null
listen longest "a/$name"
hears_long_name() {
	iogen --op read --size 64K --count 4 --uids 1003 --path "$MNT/file" >/dev/null || fail "iogen"
	grep -q '"event":"admitted"' "$TMP/longest"
}
within 10s hears_long_name || fail "no event of a class with a long name: $(cat "$TMP/longest")"
stop_listening

# Changes, made by commands and by a reload, reach those who listen to the mount, and not those of another.
listen changes
listen changes_a a
listen changes_batch a/batch
listen changes_b b
within 10s all_listen || fail "trace does not subscribe: $(cat "$TMP"/*.err)"
# A connection is not yet a subscription: changes of the pool, which are told to all, show when all have subscribed.
rate=100
all_hear() {
	local name
	rate=$((rate + 1))
	ctl set pool:p bps=${rate}K >/dev/null || return
	nap 100ms
	for name in changes changes_a changes_batch changes_b; do
		grep -q '"limit_changed"' "$TMP/$name" || return
	done
}
within 20s all_hear || fail "changes of the pool are not told: $(cat "$TMP"/changes*)"
ok ctl class remove "a/$name"
ok ctl pause a >/dev/null
ok ctl resume a >/dev/null
ok ctl unmount b
ok ctl mount b
ok ctl set pool:p bps=2G >/dev/null
mkdir "$TMP/mnt_c"
# a has another limit, its class batch too, and the class new; b is called bee; c is new.
sed -i "s/read_bps = 2M/read_bps = 5M/; s/512K/1M/; s/mount:b\]/mount:bee]/" "$TMP/conf"
printf '[class:new]\nmounts = a\nmatch = uid:1005\niops = 5\n[mount:c]\nsource = %s\nmountpoint = %s\n' "$SRC" "$TMP/mnt_c" >>"$TMP/conf"
ok ctl reload >/dev/null
ok ctl set bee nonblock=wait >/dev/null # those who listened to b hear of it; the next reload undoes it
sed -i '/class:new/,$d' "$TMP/conf"
ok ctl reload >/dev/null
last() { grep -q '"event":"mount_removed"' "$TMP/changes"; }
within 10s last || fail "no event of the last change: $(cat "$TMP/changes")"
nap 500ms # for those of the others
stop_listening
changes() { jq -r 'select(.scope and ((.value // "") | tostring | test("^1[0-9][0-9]K$") | not)) | "\(.event) \(.scope) \(.name)" + (if .key then " \(.key)=\(.value)" else "" end)' "$TMP/$1"; }
told() { # NAME LINE...: exactly these lines
	equal "$(changes "$1" | sort)" "$(printf '%s\n' "${@:2}" | sort)" "changes that '$1' was told"
}
a=("class_removed mount a class=$name" "paused mount a" "resumed mount a" "limit_changed mount a read_bps=5M"
	"class_added mount a class=new" "class_removed mount a class=new")
batch="limit_changed class a/batch read_bps=1M" pool="limit_changed pool p bps=2G"
b=("unmounted mount b" "mounted mount b" "mount_renamed mount b name=bee"
	"limit_changed mount bee nonblock=wait" "limit_changed mount bee nonblock=eagain")
told changes "${a[@]}" "${b[@]}" "$batch" "$pool" "mount_added mount c" "mounted mount c" "mount_removed mount c"
told changes_a "${a[@]}" "$batch" "$pool"
told changes_batch "${a[@]}" "$batch" "$pool"
told changes_b "${b[@]}" "$pool"

# With fair=cgroup, the path of a cgroup selects its events, however long it is, also of requests that were refused immediately.
name=cgroup-$(printf 'c%.0s' {1..64})
if make_cgroups "$name" other; then
	ok ctl set bee fair=cgroup read_bps=256K >/dev/null
	path=$(cgroup_path "$name")
	listen all
	listen cgroup --key="$path"
	within 10s all_listen || fail "trace does not subscribe: $(cat "$TMP"/*.err)"
	for who in other "$name"; do
		in_cgroup "$who" iogen --op read --size 64K --count 3 --path "$TMP/mnt_b/file" >/dev/null || fail "iogen in a cgroup"
		in_cgroup "$who" iogen --op read --size 64K --count 4 --nonblock --path "$TMP/mnt_b/file" >/dev/null || fail "iogen in a cgroup, O_NONBLOCK"
	done
	# heard NAME: of both kinds of event
	heard() { jq -se --arg path "$path" '[.[] | select(.command == $path) | .event] | unique == ["admitted", "would_block"]' "$TMP/$1" >/dev/null; }
	for heard_by in all cgroup; do
		within 10s heard $heard_by || fail "no event of a cgroup: $(cat "$TMP/$heard_by")"
	done
	nap 300ms # for those of the other cgroup
	stop_listening
	all cgroup ".kind == \"cgroup\" and .command == \"$path\""
	equal "$(count cgroup .op)" "$(count all ".kind == \"cgroup\" and .command == \"$path\"")" "events of a cgroup"
	has all ".kind == \"cgroup\" and .command == \"$(cgroup_path other)\""
	remove_cgroups
else
	say "no cgroups"
fi

# In a terminal, lines appear as they happen.
tmux -S "$TMP/tmux" -f /dev/null new-session -d -s trace -x 120 -y 24 "$RATEFSCTL trace a"
appears() {
	iogen --op read --size 64K --count 4 --uids 1001 --path "$MNT/file" >/dev/null || fail "iogen"
	tmux -S "$TMP/tmux" capture-pane -p -t trace >"$TMP/screen"
	grep -Eq '^[0-9:]{8}\.[0-9]{3} a/batch +admitted +read +64\.0K after [0-9.]+[mu]?s for .*read_bps  .* iogen ' "$TMP/screen"
}
within 20s appears || fail "trace in a terminal: $(cat "$TMP/screen")"
tmux -S "$TMP/tmux" kill-server

says 'events belong to mounts' "$RATEFSCTL" trace fs:a
says 'events belong to mounts' "$RATEFSCTL" trace pool:p
says "'soon': " "$RATEFSCTL" trace --min-wait=soon
LOG_EXPECTED=. stop_ratefs
