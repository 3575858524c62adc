#!/bin/bash
# SPDX-License-Identifier: MIT
# The users of a mount are found without accessing the mount: while it is paused, and when it is
# dead.
. "${srcdir:-.}/tests/mount/lib.sh" || exit 1
requires helper:mountusers python3

backing tmpfs
head -c 64K /dev/zero >"$SRC/file"
mkdir "$SRC/dir"
mount_ratefs -o iops=50k

(cd "$MNT/dir" && exec sleep 1000) &
cwd=$!
sleep 1000 7<"$MNT/file" 8<"$MNT/dir" &
files=$!
python3 -c '
import mmap, os, sys, time # mmap keeps a copy of the descriptor
fd = os.open(sys.argv[1], os.O_RDONLY)
m = mmap.mmap(fd, 4096, prot=mmap.PROT_READ)
os.close(fd)
time.sleep(1000)' "$MNT/file" &
mapped=$!
# In another mount namespace, through a bind mount.
mkdir "$TMP/bind"
# shellcheck disable=SC2016 # the inner shell expands
unshare --mount --propagation private sh -c 'mount --bind "$1" "$2" && cd "$2/dir" && umount "$1" && exec sleep 1000' sh "$MNT" "$TMP/bind" &
elsewhere=$!
sleep 1000 &
stranger=$!
# user PID: prints how the process uses the mount; "" if it does not.
user() { timeout 5 mountusers "$MNT" | sed -nE "s/^$1 (.*) [^ ]+\$/\1/p"; }
uses() { [ "$(user "$1")" = "$2" ]; }
all_found() {
	within 5s uses $cwd "cwd=1 root=0 files=0 mapped=0" || fail "$1: the working directory"
	within 5s uses $files "cwd=0 root=0 files=2 mapped=0" || fail "$1: open files: $(user $files)"
	within 5s uses $mapped "cwd=0 root=0 files=1 mapped=1" || fail "$1: a mapped file: $(user $mapped)"
	within 5s uses $elsewhere "cwd=1 root=0 files=0 mapped=0" || fail "$1: another namespace: $(user $elsewhere)"
	equal "$(user $stranger)" "" "$1: a process elsewhere"
}
all_found "in use"
ok ctl pause mnt >/dev/null
stat --cached=never "$MNT/." >/dev/null 2>&1 &
hung=$!
all_found paused
before 3s mountusers "$MNT" >/dev/null
ok ctl resume mnt
wait $hung
kill -9 "$DAEMON"
wait "$DAEMON" 2>/dev/null
DAEMON=
all_found dead
kill $cwd $files $mapped $elsewhere $stranger
