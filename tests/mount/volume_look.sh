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

# --- what a plugin leaves that was killed while it removed a volume
kill_plugin
mkdir -p "$STATE/data/killed-1/deep/er" "$STATE/data/mine"
start_plugin
no_tree() { [ ! -e "$STATE/data/killed-1" ] && [ -z "$(ls "$STATE/trash")" ]; }
within 10s no_tree || fail "the tree stays: $(ls "$STATE/data" "$STATE/trash")"
[ -d "$STATE/data/mine" ] || fail "something was deleted that is not the driver's"
kill_plugin TERM
stop_daemon
! grep -E 'Sanitizer|runtime error' "$TMP/plugin.log" || fail "a sanitizer complained"
