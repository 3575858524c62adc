#!/bin/bash
# SPDX-License-Identifier: MIT
# A mount answers, a file can be written and read through it, and it is unmounted without a message.
. "${srcdir:-.}/tests/mount/lib.sh" || exit 1

backing tmpfs
echo hello >"$SRC/there"
mount_ratefs
equal "$(cat "$MNT/there")" hello
echo world >"$MNT/here"
equal "$(cat "$SRC/here")" world
before 2s ls -l "$MNT" >/dev/null
unmount_ratefs

mount_ratefs
stop_ratefs TERM
