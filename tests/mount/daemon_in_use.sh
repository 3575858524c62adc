#!/bin/bash
# SPDX-License-Identifier: MIT
# A mount in use is not removed: unmount, reload and SIGHUP refuse and name its users, unless --force is given.
. "${srcdir:-.}/tests/mount/lib.sh" || exit 1
requires jq

mkdir "$SRC/a" "$SRC/b" "$SRC/a/dir" "$TMP/m1" "$TMP/m2" "$TMP/m3"
echo hello >"$SRC/a/file"
CONF=$TMP/ratefs.conf
LOG_EXPECTED=.

state() { ctl list --json | jq -r ".daemons[0].mounts[] | select(.name == \"$1\") | .state"; }
value() { ctl show "$1" --json | jq -r ".options.$2.value"; }
write_conf() {	# write_conf NAME [SECTION NAME SOURCE MOUNTPOINT]...: the first has its name changed by tests
	cat >"$CONF" <<-END
	[mount:$1]
	source = $SRC/a
	mountpoint = $TMP/m1
	iops = ${3:-1000}

	[mount:other]
	source = $SRC/b
	mountpoint = ${2:-$TMP/m2}
	END
}
without_the_first() { printf '[mount:other]\nsource = %s\nmountpoint = %s\niops = 77\n' "$SRC/b" "$TMP/m2" >"$CONF"; }
# complains PATTERN command...: the command fails, and a line of its output matches.
complains() {
	local pattern=$1 out
	shift
	out=$("$@" 2>&1) && fail "'$*' worked but must not"
	grep -Eq -- "$pattern" <<<"$out" || fail "'$*' said '$out', not '$pattern'"
}
mounted() { findmnt -nro TARGET -t fuse.ratefs | grep "^$TMP/" | sort | tr '\n' ' '; }
log_has() { grep -Eq "$1" "$LOG"; }

write_conf one
"$RATEFS" -f -c "$CONF" >"$LOG" 2>&1 &
DAEMON=$!
within 5s log_has "serving $SRC/b" || fail "no mounts"
(cd "$TMP/m1/dir" && exec sleep 1000) &
user=$!
in_there() { [ "$(readlink /proc/$user/cwd)" = "$TMP/m1/dir" ] && [ "$(cat /proc/$user/comm)" = sleep ]; }
within 5s in_there || fail "no working directory"

# A working directory counts as use; finding it needs no access to the mount, which is paused the second time.
for pause in no yes; do
	[ $pause = no ] || ok ctl pause one >/dev/null
	complains "one: is in use: no open file.*--force" ctl unmount one
	complains "^  sleep \(process $user, user 0\): working directory\$" ctl unmount one
	[ $pause = no ] || ok ctl resume one
done
equal "$(state one)" mounted

# A reload that would remove the mount changes nothing.
without_the_first
complains "mount 'one' would be unmounted, but is in use" ctl reload
complains "^  sleep \(process $user, user 0\): working directory\$" ctl reload
equal "$(state one)" mounted
equal "$(value other iops)" off "changed by a reload that was refused"
ok cat "$TMP/m1/file" >/dev/null

# The same for SIGHUP, which reports it in the log.
before=$(grep -c "not reloaded, nothing has changed" "$LOG")
kill -HUP "$DAEMON"
refused_again() { [ "$(grep -c "not reloaded, nothing has changed" "$LOG")" -gt "$before" ]; }
within 5s refused_again || fail "SIGHUP: nothing in the log"
log_has "mount 'one' would be unmounted, but is in use" || fail "SIGHUP: the log does not say why"
equal "$(state one)" mounted "after SIGHUP"

# A section that was only renamed is the same mount: it stays mounted, in use, with its new limits.
id=$(findmnt -no ID "$TMP/m1")
write_conf renamed "$TMP/m2" 2000
ok ctl reload >"$TMP/out"
grep -q "mount 'one': is called 'renamed' now" "$TMP/out" || fail "reload says: $(cat "$TMP/out")"
equal "$(findmnt -no ID "$TMP/m1")" "$id" "mount ID after renaming"
equal "$(state renamed) $(state one)" "mounted " "states after renaming"
equal "$(value renamed iops)" 2k
ok ctl set fs:renamed iops=5k >/dev/null
ok cat "/proc/$user/cwd/../file" >/dev/null
# This also holds if two sections swap their names.
id2=$(findmnt -no ID "$TMP/m2")
printf '[mount:other]\nsource = %s\nmountpoint = %s\n[mount:renamed]\nsource = %s\nmountpoint = %s\n' \
	"$SRC/a" "$TMP/m1" "$SRC/b" "$TMP/m2" >"$CONF"
ok ctl reload >/dev/null
equal "$(findmnt -no ID "$TMP/m1") $(findmnt -no ID "$TMP/m2")" "$id $id2" "mount IDs after an exchange of names"
equal "$(ctl list --json | jq -r '.daemons[0].mounts[] | select(.name == "other") | .mountpoint')" "$TMP/m1"
write_conf one
ok ctl reload >/dev/null
equal "$(findmnt -no ID "$TMP/m1")" "$id"

# A mount in use is unmounted with --force, an unused one without.
write_conf one "$TMP/m3"
ok ctl reload >/dev/null
equal "$(mounted)" "$TMP/m1 $TMP/m3 "
without_the_first
refused ctl reload
equal "$(mounted)" "$TMP/m1 $TMP/m3 " "one is in use, and the other not moved"
ok ctl reload --force >/dev/null
equal "$(mounted)" "$TMP/m2 "
equal "$(value other iops)" 77
kill $user
wait $user 2>/dev/null

# Repeatedly: asking does no harm to an idle mount.
exec 8<"$TMP/m2"
for _ in 1 2 3; do
	complains "is in use: 1 open file" ctl unmount other
done
exec 8<&-
# A mount below it counts as use.
mkdir "$SRC/b/below"
mount -t tmpfs below "$TMP/m2/below"
complains "is in use: no open file.*mount below it" ctl unmount other
umount "$TMP/m2/below"
ok ctl unmount other
equal "$(mounted)" ""
