#!/bin/bash
# SPDX-License-Identifier: MIT
# A process that changes its cgroup, its name and its user while it works is in its new class within a second.
. "${srcdir:-.}/tests/mount/lib.sh" || exit 1
. "${srcdir:-.}/tests/mount/rules_lib.sh" || exit 1
requires jq python3

backing tmpfs
head -c 1M /dev/zero >"$SRC/file"
chmod 666 "$SRC/file"
mount_ratefs -o read_bps=1G,name=m

# read_ops CLASS: how many reads the class has admitted.
read_ops() { ctl stats "m/$1" --json | jq .classes.read.ops; }
has_read() { [ "$(read_ops "$1")" -ge "$2" ]; } # CLASS READS
# grows_alone CLASS: reads are counted in this class, and in no other.
grows_alone() {
	local class
	declare -A before
	for class in $CLASSES; do before[$class]=$(read_ops "$class"); done
	within 10s has_read "$1" $((before[$1] + 10)) || fail "class $1: the reads are not counted in it"
	for class in $CLASSES; do
		[ "$class" = "$1" ] || equal "$(read_ops "$class")" "${before[$class]}" "reads in $class that belong to $1"
	done
}

# A program that reads every 10 ms; the first line of its input becomes its name, the second its user.  It says when it has
# changed.
cat >"$TMP/reader" <<'END'
import ctypes, os, select, sys, time
fd = os.open(sys.argv[1], os.O_RDONLY)
while True:
	os.pread(fd, 4096, 0)
	time.sleep(0.01)
	if select.select([0], [], [], 0)[0]:
		what, value = os.read(0, 100).decode().split()
		if what == "name":
			ctypes.CDLL(None).prctl(15, value.encode(), 0, 0, 0)
		else:
			os.setresuid(int(value), int(value), int(value))
		print(what, flush=True)
END
mkfifo "$TMP/input"
exec 5<>"$TMP/input"
python3 "$TMP/reader" "$MNT/file" <"$TMP/input" >"$TMP/changed" &
reader=$!
changed() { grep -qx "$1" "$TMP/changed"; } # WHAT

# Names and users.
CLASSES="user name"
ok ctl class add m user match=uid:1001
ok ctl class add m name match=comm:second
echo name second >&5
within 10s changed name || fail "the program did not change its name"
nap 1100ms
grows_alone name
echo uid 1001 >&5 # a user is in the request
within 10s changed uid || fail "the program did not change its user"
grows_alone user
ok ctl class remove m/user
ok ctl class remove m/name

# Cgroups.
if make_cgroups one two; then
	CLASSES="one two"
	ok ctl class add m one "match=cgroup:$(cgroup_path one)"
	ok ctl class add m two "match=cgroup:$(cgroup_path two)/**"
	echo $reader >"$CGROUP/one/cgroup.procs"
	nap 1100ms
	grows_alone one
	echo $reader >"$CGROUP/two/cgroup.procs"
	nap 1100ms
	grows_alone two
else
	say "no cgroups"
	CGROUP=
fi
kill $reader
wait $reader 2>/dev/null
exec 5>&-
[ -z "$CGROUP" ] || remove_cgroups
unmount_ratefs
