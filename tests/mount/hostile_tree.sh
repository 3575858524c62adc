#!/bin/bash
# SPDX-License-Identifier: MIT
# A user of the mount reaches nothing that is out of reach on the backing filesystem: nothing
# outside the tree, no files of others, no devices; and no user can make the daemon wait for a FIFO.
. "${srcdir:-.}/tests/mount/lib.sh" || exit 1
. "${srcdir:-.}/tests/mount/hard_lib.sh" || exit 1
requires helper:hostile

backing tmpfs
mkdir -m 700 "$TMP/secret"
echo "for root only" >"$TMP/secret/file"
mkdir -m 1777 "$SRC/work"
mount_ratefs -o iops=1M,entry_timeout=0,attr_timeout=0

# Races: a directory and a link to the secret change places under a name that is being used.
equal "$(as_user alice hostile swap "$MNT/work" "$TMP/secret" 4)" 0 "names outside of the tree were reached"
[ "$(ls -A "$TMP/secret")" = file ] || fail "something was created outside of the tree: $(ls -A "$TMP/secret")"

# Others' files.
echo mine >"$SRC/of-root" && chmod 600 "$SRC/of-root"
as_user bob sh -c "echo bob >$SRC/work/of-bob && chmod 600 $SRC/work/of-bob"
refused as_user alice cat "$MNT/of-root"
refused as_user alice cat "$MNT/work/of-bob"
refused as_user alice rm -f "$MNT/work/of-bob"
refused as_user alice mv "$MNT/work/of-bob" "$MNT/work/taken"
refused as_user alice chown 1001 "$MNT/of-root"
refused as_user alice chmod 666 "$MNT/of-root"
refused as_user alice truncate -s 0 "$MNT/of-root"
refused as_user alice touch "$MNT/of-root"
refused as_user alice setfattr -n trusted.x -v 1 "$MNT/work"
refused as_user alice setfattr -n security.capability -v 0sAQAAAgAgAAAAAAAAAAAAAAAAAAA= "$MNT/work/of-bob"
refused as_user alice mknod "$MNT/work/disk" b 8 0
equal "$(cat "$SRC/of-root")" mine

# Names of attributes that the backing filesystem hides.
if setfattr -n trusted.hidden -v 1 "$SRC/work" 2>/dev/null; then
	equal "$(cd "$MNT" && as_user alice getfattr -m - work)" "$(cd "$SRC" && as_user alice getfattr -m - work)" \
		"attribute names differ from the backing filesystem"
	equal "$(getfattr --absolute-names --only-values -n trusted.hidden "$MNT/work")" 1
fi

# Set-user-ID bits are cleared when the backing filesystem would clear them.
cp /bin/true "$SRC/suid" && chmod 4777 "$SRC/suid"
as_user alice sh -c "printf x >>$MNT/suid"
equal "$(stat -c %a "$SRC/suid")" 777 "a foreign write left the set-user-ID bit on"
as_user alice sh -c "cp /bin/true $MNT/work/own; chmod 4755 $MNT/work/own"
equal "$(stat -c '%a %u' "$SRC/work/own")" "4755 1001"

# The daemon does not open FIFOs, sockets and devices: no other user waits for them.
mkfifo -m 666 "$SRC/work/fifo"
mknod -m 666 "$SRC/work/null" c 1 3
(as_user alice timeout 3 cat "$MNT/work/fifo" >/dev/null 2>&1) &
reader=$!
(as_user alice timeout 3 sh -c "echo >$MNT/work/fifo" 2>/dev/null) &
before 2s ls -l "$MNT/work" >/dev/null
before 2s as_user bob stat "$MNT/work/fifo" >/dev/null
wait $reader
settled "after a FIFO"

# Deep trees, long names, loops of links.
equal "$(as_user alice hostile deep "$MNT/work" 1500)" 1500
as_user alice ln -s loop "$MNT/work/loop"
refused as_user alice cat "$MNT/work/loop"
refused as_user alice touch "$MNT/work/$(printf 'x%.0s' {1..256})"
ok as_user alice touch "$MNT/work/$(printf 'x%.0s' {1..255})"
settled "after deep trees"
unmount_ratefs
