#!/bin/bash
# SPDX-License-Identifier: MIT
# A handled signal does not disturb a program that waits (interrupt=fatal); with interrupt=any the
# program gets EINTR.  A git clone with its progress timer works under a tight limit.
. "${srcdir:-.}/tests/mount/lib.sh" || exit 1
requires helper:signalled git

backing tmpfs
mount_ratefs -o meta_iops=100,window=20ms
out=$(signalled "$MNT" 10) || fail "signalled"
[[ $out =~ ^[1-9][0-9]*\ signals,\ 0\ interrupted,\ 0\ failed$ ]] || fail "interrupt=fatal: $out"
unmount_ratefs

mount_ratefs -o meta_iops=100,window=20ms,interrupt=any
out=$(signalled "$MNT" 10) || fail "signalled"
[[ $out =~ ,\ [1-9][0-9]*\ interrupted ]] || fail "interrupt=any: $out"
unmount_ratefs

git init -q "$TMP/origin"
for i in {1..40}; do echo "$i" >"$TMP/origin/file$i"; done
git -C "$TMP/origin" add .
git -C "$TMP/origin" -c user.name=t -c user.email=t@example.org commit -qm one
mount_ratefs -o meta_iops=400,window=20ms
before 60s git clone -q --progress "$TMP/origin" "$MNT/clone" 2>"$TMP/progress"
ok git -C "$MNT/clone" fsck --strict >/dev/null 2>&1
unmount_ratefs
