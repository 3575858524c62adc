#!/bin/bash
# SPDX-License-Identifier: MIT
# Users get no more rights and space through the mount than on the backing filesystem, and no more
# than their share of turns: files that are changed directly in the source, blocks reserved for
# root, descriptors, endless closes and page faults.
. "${srcdir:-.}/tests/mount/lib.sh" || exit 1
. "${srcdir:-.}/tests/mount/hard_lib.sh" || exit 1
requires jq chattr lsattr setfacl setfattr mkfs.ext4 helper:iogen
PY=/usr/bin/python3	# other users may run it, wherever ours is
[ -x $PY ] || skip "needs $PY"

truncate -s 64M "$TMP/ext4.img"
mkfs.ext4 -q -b 4096 -m 20 -O '^metadata_csum' "$TMP/ext4.img" || skip "cannot make an ext4"
mount -o loop "$TMP/ext4.img" "$BACK" || skip "cannot mount a loop image"
mkdir -p "$SRC" "$PLAIN"
chmod 755 "$BACK"
chmod 1777 "$SRC" "$PLAIN"

# py USER 'statements' ARGUMENTS: runs Python statements, with os, sys, mmap, fcntl, struct and time
# imported; prints errors as well.
py() {
	local who=$1 what=$2
	shift 2
	as_user "$who" $PY -c "import os, sys, mmap, fcntl, struct, time
a = sys.argv[1:]
try:
	$what
except OSError as e:
	print(os.strerror(e.errno))" "$@"
}

# A file that was given to root directly in the source cannot be made set-user-ID by a user who
# still has it open.
for mode in auto strict; do
	mount_ratefs -o cache=$mode
	rm -f "$SRC/mine"
	py alice 'fd = os.open(a[0], os.O_RDWR | os.O_CREAT, 0o755); os.fstat(fd); open(a[1], "w").close()
	while os.path.exists(a[1]): time.sleep(0.02)
	os.fchmod(fd, 0o6755); print("done")' "$MNT/mine" "$MNT/ready" >"$TMP/out" &
	job=$!
	within 5s test -e "$SRC/ready" || fail "it did not get as far"
	chown root:root "$SRC/mine"
	rm "$SRC/ready"
	wait $job
	equal "$(cat "$TMP/out")" "Operation not permitted" "fchmod of a file that is root's by now, cache=$mode"
	equal "$(stat -c %a:%u "$SRC/mine")" 755:0
	unmount_ratefs
done

# Nor can its former owner grant rights by an ACL.
mount_ratefs -o attr_timeout=60
as_user alice touch "$MNT/was"
as_user alice setfacl -m u:1002:r "$MNT/was" || fail "the owner cannot set an ACL"
chown root:root "$SRC/was"
refused as_user alice setfacl -m u:1002:rw "$MNT/was"
[[ $(getfacl -cnp "$SRC/was") == *user:1002:r--* ]] || fail "$(getfacl -cn "$SRC/was")"
unmount_ratefs
rm "$SRC/was"

# Nor can a user remove another user's file in a sticky directory by a name that was the user's own
# a moment ago.
mkdir -m 1777 "$SRC/sticky"
mount_ratefs -o entry_timeout=60,attr_timeout=60
py alice 'os.close(os.open(a[0], os.O_CREAT, 0o644)); print(os.stat(a[0]).st_size)' "$MNT/sticky/x" >/dev/null
echo bob >"$SRC/sticky/y"
chown "$(uid_of bob)" "$SRC/sticky/y"
mv "$SRC/sticky/y" "$SRC/sticky/x"
equal "$(py alice 'os.unlink(a[0]); print("done")' "$MNT/sticky/x")" "Operation not permitted" "unlink of bob's file"
equal "$(py alice 'os.rename(a[0], a[1]); print("done")' "$MNT/sticky/x" "$MNT/sticky/z")" "Operation not permitted"
equal "$(cat "$SRC/sticky/x")" bob
unmount_ratefs

# Inode versions: only the owner may set them; they have four bytes, which is what programs have
# room for.
set_version='fd = os.open(a[0], os.O_RDONLY)
	fcntl.ioctl(fd, 0x40087602, struct.pack("l", 7)); print("done")'
echo x >"$SRC/roots"
mount_ratefs
equal "$(py alice "$set_version" "$MNT/roots")" "$(py alice "$set_version" "$SRC/roots")" "FS_IOC_SETVERSION by a stranger"
equal "$(lsattr -v "$MNT/roots" | cut -d ' ' -f 1)" "$(lsattr -v "$SRC/roots" | cut -d ' ' -f 1)" "lsattr -v"

# A mapped store into a file that can only be appended to is not appended.
head -c 8192 /dev/zero >"$SRC/log"
chmod 666 "$SRC/log"
chattr +a "$SRC/log"
py alice 'fd = os.open(a[0], os.O_RDWR | os.O_APPEND); m = mmap.mmap(fd, 4096); m[0] = 77; m.flush()' "$MNT/log" >/dev/null 2>&1
chattr -a "$SRC/log"
equal "$(stat -c %s "$SRC/log")" 8192 "an append-only file has grown by a store into it"
unmount_ratefs
rm -f "$SRC/log" "$SRC/mine" "$SRC/roots"

# Users cannot get blocks that are reserved for root: not by extended attributes, not by mappings,
# and not through a file that root has open as well.
as_user alice touch "$SRC"/attr{1..40}
as_user alice mkdir "$SRC/links"
as_user alice dd if=/dev/zero of="$SRC/fill" bs=64K status=none 2>/dev/null
as_user alice dd if=/dev/zero of="$SRC/fill2" bs=4K status=none 2>/dev/null
sync "$BACK"
equal "$(stat -f -c %a "$BACK")" 0 "the disk is not full for users"
truncate -s 4M "$SRC/sparse"
: >"$SRC/shared"
chmod 666 "$SRC/sparse" "$SRC/shared"
reserved() { stat -f -c %f "$BACK"; }
map_all='fd = os.open(a[0], os.O_RDWR); m = mmap.mmap(fd, 4 << 20)
	for i in range(0, 4 << 20, 4096): m[i] = 1
	m.flush(); os.fsync(fd); print("done")'
for mode in cache=auto cache=strict cache=page iops=1M,bps=10G; do
	left=$(reserved)
	mount_ratefs -o $mode
	py alice "$map_all" "$MNT/sparse" >"$TMP/out" 2>/dev/null # SIGBUS, or the error of fsync
	! grep -q "done" "$TMP/out" || fail "$mode: a map was filled out of the reserved blocks"
	equal "$(py alice 'for i in range(1, 41): os.setxattr("%s/attr%d" % (a[0], i), "user.a", b"x" * 3000)
	print("done")' "$MNT")" "No space left on device" "$mode: extended attributes"
	equal "$(py alice 'for i in range(400): os.link(a[0] + "/attr1", "%s/links/%s%d" % (a[0], "n" * 200, i))
	print("done")' "$MNT")" "No space left on device" "$mode: links"
	exec 11<>"$MNT/shared"
	py alice 'fd = os.open(a[0], os.O_WRONLY); n = os.write(fd, b"x" * (1 << 20)); print(n)' "$MNT/shared" >"$TMP/out"
	equal "$(cat "$TMP/out")" "No space left on device" "$mode: a write by alice while root has the file open"
	exec 11>&-
	as_user alice sleep 20 <"$MNT/shared" &
	job=$!
	head -c 1M /dev/zero >"$MNT/shared" || fail "$mode: root cannot write while alice reads"
	slay $job
	: >"$SRC/shared"
	unmount_ratefs
	sync "$BACK"
	rm -f "$SRC"/links/*
	[ "$(reserved)" -ge $((left - 8)) ] || fail "$mode: $left blocks were reserved, $(reserved) are left"
done
rm -rf "$SRC"/fill* "$SRC"/attr* "$SRC/links" "$SRC/sparse" "$SRC/shared"

# A file size limit that the daemon has inherited does not apply to its users, and does not kill it.
DAEMON_WRAPPER=(prlimit --fsize=100000:)
mount_ratefs -o cache=strict
head -c 1M /dev/zero >"$MNT/big" || fail "a file size limit of the daemon counts for others"
unmount_ratefs
DAEMON_WRAPPER=()
rm -f "$SRC/big"

# Closes never wait, but they do not take the turns of requests that do.
mkdir -m 777 "$SRC/a" "$SRC/b"
mount_ratefs -o iops=100,fair=uid
py alice 'fd = os.open(a[0], os.O_RDWR | os.O_CREAT)
	while True: os.close(os.dup(fd))' "$MNT/a/dup" &
job=$!
nap 1s
before 6s as_user bob ls "$MNT/b" >/dev/null
slay $job
settled "after closes"
unmount_ratefs

# Page faults wait, even if the queue is full.
head -c 8M /dev/urandom >"$SRC/a/map"
head -c 1M /dev/zero >"$SRC/a/read"
mount_ratefs -o read_bps=256K,max_parked=20,fair=uid
as_user alice iogen --op read --clients 60 --threads --size 4K --forever --path "$MNT/a/read" >/dev/null 2>&1 &
job=$!
within 10s parked 10 || fail "nothing parked"
got=$(py alice 'fd = os.open(a[0], os.O_RDONLY); m = mmap.mmap(fd, 8 << 20, prot=mmap.PROT_READ); n = 0; t = time.time()
	while time.time() - t < 3: m[n]; n += 4096
	print(n)' "$MNT/a/map")
[ "$got" -lt $((2 << 20)) ] || fail "page faults passed $got bytes in 3 s, of 256K a second"
[ "$(stat_of '.limits.read_bps.level')" -gt -1200000 ] || fail "page faults left a debt of $(stat_of '.limits.read_bps.level')"
slay $job
settled "after page faults"
unmount_ratefs

# Files without names that are held by O_PATH do not use up the descriptors.
for i in {1..60}; do echo "$i" >"$SRC/b/f$i"; done
DAEMON_WRAPPER=(prlimit --nofile=1000:1000)
mount_ratefs
py alice 'fds = []
	for i in range(900):
		p = "%s/p%d" % (a[0], i); os.mknod(p, 0o100644); fds.append(os.open(p, os.O_PATH)); os.unlink(p)
	open(a[0] + "/held", "w").close(); time.sleep(60)' "$MNT/a" &
job=$!
within 20s test -e "$SRC/a/held" || fail "900 files without names were not to be had"
before 10s as_user bob cat "$MNT"/b/f* >"$TMP/out"
equal "$(wc -l <"$TMP/out")" 60
slay $job
settled "after files without names"
unmount_ratefs
DAEMON_WRAPPER=()

# Processes can choose their names: control characters in them do not reach the terminal.
mount_ratefs -o iops=10
py alice 'open("/proc/self/comm", "w").write("\033[31mx")
	while True: os.stat(a[0]); os.listdir(a[0])' "$MNT/a" &
job=$!
within 10s parked 1
nap 300ms
ctl stats "$MNT" >"$TMP/out"
! grep -q $'\033' "$TMP/out" || fail "an escape sequence in the statistics"
slay $job
unmount_ratefs

# A configuration file that is a FIFO is an error; the daemon does not wait for it.
mkfifo "$TMP/fifo"
check_fifo() { ! "$RATEFS" -c "$TMP/fifo" --check 2>"$TMP/err"; }
before 5s check_fifo
grep -q 'not a regular file' "$TMP/err" || fail "$(cat "$TMP/err")"
