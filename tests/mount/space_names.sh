#!/bin/bash
# SPDX-License-Identifier: MIT
# Names that are created, moved and removed: directories do not grow beyond size, and what several mounts of a tree do to the
# same names is counted once.
. "${srcdir:-.}/tests/mount/space_lib.sh" || exit 1
. "${srcdir:-.}/tests/mount/hard_lib.sh" || exit 1
requires python3 helper:spacestorm
seed=${RATEFS_SEED:-$RANDOM} rounds=${RATEFS_ROUNDS:-3}
say "RATEFS_SEED=$seed"

# --- renames make directories grow; those of ext4 never shrink
grows() {
	mount_ratefs -o size=2M
	mkdir "$MNT/here" "$MNT"/d{1,2,3,4,5,6,7,8}
	(cd "$MNT/here" && touch {1..500}) || fail "touch"
	dd if=/dev/zero of="$MNT/fill" bs=64k 2>/dev/null && fail "all of it fitted"
	equal "$(space used)" $((2 << 20)) "full"
	# When nothing is left, files can still be renamed, and replaced by others.
	ok mv "$MNT/here/1" "$MNT/here/first"
	ok mv "$MNT/here/2" "$MNT/here/first"
	python3 - "$MNT" <<'END' >"$TMP/moved" || fail "python3"
import os, sys
os.chdir(sys.argv[1])
here, moved = "here", 0
for there in ["d%d" % i for i in range(1, 9)]:
    for name in os.listdir(here):
        try:
            os.rename(here + "/" + name, there + "/" + name[-3:].rjust(250, "0"))
            moved += 1
        except OSError as e:
            print(moved, e.strerror)
            sys.exit()
    here = there
print(moved)
END
	grep -q "No space left" "$TMP/moved" || fail "all of them were moved: $(cat "$TMP/moved")"
	# One directory has grown, by one block or, to make an index, two.
	[ "$(held)" -le $(((2 << 20) + 8192)) ] || fail "$(held) bytes with size=2M"
	rm "$MNT/fill"
	ok touch "$MNT/here/new"
	ok mv "$MNT/here/new" "$MNT/d8/new"
	counts_exactly "after renames"
	unmount_ratefs
}
if loop_works && backing ext4; then
	grows
	unbacking
else
	say "no ext4: loop devices don't work here"
fi

# --- two mounts of one tree
faults_ready
mkdir "$TMP/other"
two_mounts() { # [OPTION]: of the first
	printf '[fs:box]\nsource = %s\nsize = 2G\n[mount:two]\nfs = box\nmountpoint = %s\n[mount:one]\nfs = box\nmountpoint = %s\n%s\n' \
		"$SRC" "$TMP/other" "$MNT" "${1-}" >"$TMP/ratefs.conf"
	"${DAEMON_WRAPPER[@]}" "$RATEFS" -f -c "$TMP/ratefs.conf" >"$LOG" 2>&1 &
	DAEMON=$!
	within 10s mountpoint -q "$TMP/other" || fail "the mounts did not come up"
	within 10s mountpoint -q "$MNT" || fail "the mounts did not come up"
}
# both CALL COMMAND -- COMMAND: the second begins while the daemon waits for the call of the first.
both() {
	local call=$1 first=()
	shift
	while [ "$1" != -- ]; do
		first+=("$1")
		shift
	done
	shift
	fault "$call" delay=500 count=1
	ok "${first[@]}" &
	within 5s hanging "$call" || fail "$call is not delayed"
	"$@" 2>/dev/null # what it is to change may be gone
	wait $! || fail "${first[*]}"
	heal
	counts_exactly "${first[*]##*/}, and at the same time ${*##*/}"
}
backing tmpfs
# Files that are there before: the daemon does not watch them because they were changed.
for name in two last taken other; do
	head -c 100000 /dev/zero >"$SRC/$name"
done
ln "$SRC/two" "$SRC/names"
two_mounts
# Both names of a file are removed; the last name, while the file gets another one; a name that another file takes over.
both unlinkat rm "$MNT/two" -- rm "$TMP/other/names"
both unlinkat rm "$MNT/last" -- ln "$TMP/other/last" "$TMP/other/more"
both unlinkat rm "$MNT/taken" -- mv "$TMP/other/other" "$TMP/other/taken"
stop_ratefs
rm -rf "${SRC:?}"/* "$TMP/state"

# Requests of one mount wait for room that a file without a name takes.  Those of the other mount do not have to wait for them.
mkdir "$SRC"/{1,2,3,4}
two_mounts "inodes = 5"
python3 - "$MNT" "$TMP/other" <<'END' || fail "requests of one mount wait while those of another wait for room"
import os, sys, threading, time
full, other = sys.argv[1:]
held = os.open(other, os.O_TMPFILE | os.O_WRONLY, 0o600)
ended, fitted = False, []
def refused(name):
    while not ended:
        try:
            os.mkdir(name)
            fitted.append(name)
            break
        except OSError:
            pass
def measure():
    took = 0
    for i in range(3):
        begin = time.monotonic()
        for j in range(30):
            os.mkdir(other + "/new")
            os.rmdir(other + "/new")
        took += time.monotonic() - begin
        time.sleep(0.1)
    return took
alone = measure()
threads = [threading.Thread(target=refused, args=("%s/%d/new" % (full, i),)) for i in range(1, 5)]
for t in threads:
    t.start()
time.sleep(0.1)
took = measure()
ended = True
for t in threads:
    t.join()
assert not fitted, fitted
if took > 5 * alone + 2:
    sys.exit("180 requests took %.2f s, and %.2f s alone" % (took, alone))
END
stop_ratefs
rm -rf "${SRC:?}"/* "$TMP/state"

# What is deleted makes room immediately, through whichever mount.
two_mounts "size = 10M"
python3 - "$MNT" "$TMP/other" <<'END' || fail "what was deleted through one of two mounts made no room"
import os, sys
mounts = sys.argv[1:]
data = bytes(9 << 20)
for i in range(20):
    name = "/big%d" % i
    fd = os.open(mounts[0] + name, os.O_CREAT | os.O_EXCL | os.O_WRONLY)
    n = os.write(fd, data)
    while n < len(data):
        n += os.write(fd, data[n:])
    os.close(fd)
    os.unlink(mounts[i % 2] + name)
END
stop_ratefs
unbacking

storm() {
	backing "$1"
	two_mounts
	for i in $(seq "$rounds"); do
		ok spacestorm "$MNT" $((seed + i)) 250 3 &
		ok spacestorm "$TMP/other" $((seed + i + 100)) 250 3
		wait $! || fail "spacestorm"
		counts_exactly "$1: two mounts, round $i"
	done
	stop_ratefs
	unbacking
}
storm tmpfs
! loop_works || storm ext4
