#!/bin/bash
# SPDX-License-Identifier: MIT
# Which references ratefs-volume collects: not those of a volume that somebody uses, or that Podman counts; but those of one
# that only a copy of the host's tree has.  The state directory lies behind a link and has a blank in its path, as mountinfo
# writes neither.
. "${srcdir:-.}/tests/mount/lib.sh" || exit 1
. "${srcdir:-.}/tests/mount/volume_lib.sh" || exit 1
requires unshare

mkdir "$TMP/real place" "$TMP/rootfs"
ln -s "$TMP/real place" "$TMP/link"
STATE=$TMP/link/state
AFTER=1 # seconds between two searches; what uses a volume must ask for something within them
! sanitized || AFTER=3
start_plugin --collect-after=$AFTER
looks() { nap $((5 * AFTER)); } # five searches; two would be enough
is_mounted() { mountpoint -q "$STATE/mnt/$1"; }
is_not_mounted() { ! is_mounted "$1"; }

# --- requests from the host's own namespace, such as those of Docker, which copies files of the image to a new volume
asks Create '{"Name":"copied"}'
mnt=$(asks Mount '{"Name":"copied","ID":"one"}' .Mountpoint)
equal "$mnt" "$TMP/real place/state/mnt/copied"
while sleep 0.1; do echo text >"$mnt/file" || break; done 2>/dev/null &
copies=$!
looks
is_mounted copied || fail "collected while an engine copies files to it"
kill $copies
wait $copies 2>/dev/null
within 30s is_not_mounted copied || fail "not collected: $(asks Get '{"Name":"copied"}' .Volume)"
# The references are dropped after the volume has been unmounted.
no_reference() { [ "$(asks Get '{"Name":"copied"}' .Volume.Status.references)" = 0 ]; }
within 10s no_reference || fail "a reference is left: $(asks Get '{"Name":"copied"}' .Volume)"

# --- a file that is open, but idle: the reference stays, too
asks Mount '{"Name":"copied","ID":"one"}'
exec 7>"$mnt/open"
looks
is_mounted copied || fail "unmounted with an open file"
equal "$(asks Get '{"Name":"copied"}' .Volume.Status.references)" 1 "dropped, although it stays mounted:"
exec 7>&-
within 30s is_not_mounted copied || fail "not collected after the file was closed"

# --- Podman's one reference for all of its containers
asks Create '{"Name":"podman"}'
asks Mount '{"Name":"podman","ID":"2f73349cfc4630255319c6c8dfc1b46a8996ace9d14d8e07563b165915918ec2"}'

# --- a namespace with a copy of the host's tree is not a container that uses all volumes
asks Mount '{"Name":"copied","ID":"one"}'
exec 7>"$mnt/open" # so that it stays until the copy is there
unshare --mount --propagation slave sh -c "mount --rbind / '$TMP/rootfs' && mount --make-rslave '$TMP/rootfs' && exec sleep 1000" 7>&- &
watcher=$!
has_copy() { grep -q "$TMP/rootfs$TMP/real.040place/state/mnt/copied" "/proc/$watcher/mountinfo"; }
within 10s has_copy || fail "no copy of the tree: $(cat /proc/$watcher/mountinfo)"
equal "$(asks Get '{"Name":"copied"}' '.Volume.Status.containers | length')" 0 "the copy is taken for a container:"
exec 7>&-
within 30s is_not_mounted copied || fail "not collected: a copy of the host's tree has it"
kill $watcher
wait $watcher 2>/dev/null

is_mounted podman || fail "Podman's reference was collected: it will not ask for the mount again"

# --- after a boot all references are gone, and nothing is mounted
kill_plugin TERM
stop_daemon
jq '.boot = "another"' "$STATE/volumes.json" >"$TMP/state.json" && cat "$TMP/state.json" >"$STATE/volumes.json"
start_plugin --collect-after=$AFTER
asks Create '{"Name":"new"}'
asks Mount '{"Name":"new","ID":"one"}'
is_not_mounted podman || fail "mounted again, though nobody asked for it"
asks Remove '{"Name":"podman"}'
asks Unmount '{"Name":"new","ID":"one"}'

# --- what a plugin leaves that was killed while it removed a volume, or made one
id=$(jq '.volumes.new.id' "$STATE/volumes.json")
asks Remove '{"Name":"new"}'
kill_plugin
change_state() { jq "$1" "$STATE/volumes.json" >"$TMP/state.json" && cat "$TMP/state.json" >"$STATE/volumes.json"; }
jq -e ".removed[\"new-$id\"]" "$STATE/volumes.json" >/dev/null || fail "it is not noted which tree is to be deleted"
mkdir -p "$STATE/data/new-$id/deep/er" "$STATE/data/mine" "$STATE/data/made-1"
# Data of which the state knows nothing stays: somebody may have put an old copy of the state back.
mkdir -p "$STATE/data/other-1/deep"
change_state '.next = 20'
start_plugin
no_tree() { [ ! -e "$STATE/data/new-$id" ] && [ ! -e "$STATE/data/made-1" ] && [ -z "$(ls "$STATE/trash")" ]; }
within 10s no_tree || fail "the tree stays: $(ls "$STATE/data" "$STATE/trash")"
[ -d "$STATE/data/mine" ] || fail "something was deleted that is not the driver's"
[ -d "$STATE/data/other-1/deep" ] || fail "data was deleted that the state does not know"
grep -q 'data/other-1: belongs to no volume' "$TMP/plugin.log" || fail "nothing was said about such data"
# The directory of a volume that exists stays, whatever was noted.
asks Create '{"Name":"safe"}'
mkdir "$STATE/data/safe-20/deep"
kill_plugin
change_state '.removed["safe-20"] = true | .removed["../safe-20"] = true'
start_plugin
asks Create '{"Name":"another"}'
[ -d "$STATE/data/safe-20/deep" ] || fail "the data of a volume was deleted"
# A state whose IDs are wrong is refused: by them the driver finds the data of volumes.
kill_plugin
cp "$STATE/volumes.json" "$TMP/good.json"
for wrong in '.volumes.safe.id = -1' '.volumes.safe.id = .volumes.another.id' '.next = 20' '.removed = 1'; do
	change_state "$wrong"
	says 'is not a state of version 1' "$VOLUME" --state="$STATE" --socket="$SOCK" --ratefs="$RATEFS"
	cat "$TMP/good.json" >"$STATE/volumes.json"
done
start_plugin
kill_plugin TERM
stop_daemon
! grep -E 'Sanitizer|runtime error' "$TMP/plugin.log" || fail "a sanitizer complained"
