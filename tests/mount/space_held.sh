#!/bin/bash
# SPDX-License-Identifier: MIT
# A deleted file is counted as long as anything refers to it: an fd of O_PATH, a working directory.  One that nothing refers to
# makes room immediately.
. "${srcdir:-.}/tests/mount/space_lib.sh" || exit 1
. "${srcdir:-.}/tests/mount/hard_lib.sh" || exit 1
requires python3

# hoard WHAT: tries to store 8 MiB five times, and keeps each file by an fd of O_PATH only, without a name.  Prints how many files it
# could store, and waits.
hoard() {
	exec python3 - "$MNT" "$1" <<'END'
import os, sys, time
mnt, what = sys.argv[1:]
held = []
def fill(fd):
    left = 8 << 20
    while left:
        left -= os.write(fd, bytes(min(left, 1 << 20)))
for i in range(5):
    name = mnt + "/f"
    fd = -1
    try:
        if what == "tmpfile":
            fd = os.open(mnt, os.O_TMPFILE | os.O_WRONLY, 0o600)
            held.append(os.open("/proc/self/fd/%d" % fd, os.O_PATH))
            fill(fd)
        else:
            fd = os.open(name, os.O_CREAT | os.O_WRONLY)
            fill(fd)
            held.append(os.open(name, os.O_PATH))
    except OSError as e:
        print(i, e.strerror, flush=True)
        if fd >= 0:
            os.ftruncate(fd, 0)
            os.close(fd)
        break
    if what != "closed_later":
        os.close(fd)
    if what == "rename":
        os.close(os.open(mnt + "/small", os.O_CREAT | os.O_WRONLY))
        os.rename(mnt + "/small", name)
    elif what != "tmpfile":
        os.unlink(name)
    if what == "closed_later":
        os.close(fd)
else:
    print("all", flush=True)
time.sleep(1000)
END
}
says_so() { [ -s "$TMP/said" ]; }
is_freed() { [ "$(space used)" -lt $((2 << 20)) ]; }
refuses() { # WHAT
	: >"$TMP/said"
	hoard "$1" >"$TMP/said" 2>&1 &
	local hoarder=$!
	within 60s says_so || fail "$1: it never ends"
	grep -q "^1 No space left" "$TMP/said" || fail "$BACKING, $1: stored with size=10M, 8 MiB each: $(cat "$TMP/said")"
	[ "$(space used)" -ge $((8 << 20)) ] || fail "$BACKING, $1: a file held by O_PATH is not counted"
	# Nor does a rescan lose it, which does not see it.
	ok ctl rescan "$MNT"
	within 10s scan_is_over || fail "the rescan does not end"
	[ "$(space used)" -ge $((8 << 20)) ] || fail "$BACKING, $1: a rescan forgets a file held by O_PATH"
	kill $hoarder
	wait $hoarder 2>/dev/null
	within 10s is_freed || fail "$BACKING, $1: $(space used) bytes are counted after the last fd was closed"
	rm -f "$MNT"/*
	counts_exactly "$1"
}
scan_is_over() { [ "$(space rescanning)" = false ]; }

# A name that was given to a file held only by O_PATH stays counted.
linked() {
	python3 - "$MNT" <<'END' || fail "python3"
import ctypes, os, sys
fd = os.open(sys.argv[1], os.O_TMPFILE | os.O_WRONLY, 0o600)
os.write(fd, bytes(1 << 20))
held = os.open("/proc/self/fd/%d" % fd, os.O_PATH)
os.close(fd)
AT_FDCWD, AT_SYMLINK_FOLLOW = -100, 0x400
path, name = b"/proc/self/fd/%d" % held, os.fsencode(sys.argv[1] + "/linked")
assert ctypes.CDLL(None).linkat(AT_FDCWD, path, AT_FDCWD, name, AT_SYMLINK_FOLLOW) == 0
END
	counts_exactly "$BACKING, linked"
	rm "$MNT/linked"
}

# Deleting a file makes room for the next one, whatever is deleted.
replaced() {
	python3 - "$MNT" <<'END' || fail "$BACKING: what was deleted made no room"
import os, sys, time
os.chdir(sys.argv[1])
data = bytes(9 << 20)
for i in range(60):
    fd = os.open("big", os.O_CREAT | os.O_EXCL | os.O_WRONLY)
    n = os.write(fd, data)
    while n < len(data):
        n += os.write(fd, data[n:])
    os.close(fd)
    if i % 2:
        os.unlink("big")
    else:
        os.close(os.open("small", os.O_CREAT | os.O_WRONLY))
        os.rename("small", "big")
        os.unlink("big")
END
}

# Directories that nobody can enter any more take inodes.
inodes() {
	python3 - "$MNT" <<'END' >"$TMP/said" || fail "$BACKING: a deleted directory takes an inode; $(space refused) requests were refused"
import os, sys
os.chdir(sys.argv[1])
made = 0
held = []
try:
    for i in range(100):
        os.mkdir("d")
        held.append(os.open("d", os.O_PATH))
        os.rmdir("d")
        made += 1
except OSError as e:
    print(made, e.strerror)
for fd in held:
    os.close(fd)
for i in range(100):  # one after the other
    os.mkdir("d")
    os.rmdir("d")
END
	grep -q "No space left" "$TMP/said" || fail "$BACKING: 100 deleted directories with inodes=20"
}

each() {
	mount_ratefs -o size=10M,inodes=20
	refuses unlink
	refuses closed_later
	refuses rename
	refuses tmpfile
	linked
	replaced
	inodes
	within 10s is_exact || fail "$BACKING: counted $(space used), $(space inodes_used); there are $(held), $(names_held)"
	unmount_ratefs
	mount_ratefs -o size=10M
	equal "$(space scans)" 0 "the total of the last time was to be used"
	counts_exactly "$BACKING, mounted again"
	unmount_ratefs
	rm -rf "${SRC:?}"/* "$TMP/state"
}
on_each_counted each

# What was closed makes room immediately, even if the daemon has little CPU time to read the kernel's messages about it.
unread() {
	local hogs=() i
	mount_ratefs -o size=10M,inodes=20
	for i in 1 2 3 4 5 6; do
		yes >/dev/null &
		hogs+=($!)
	done
	python3 - "$MNT" <<'END' || fail "$BACKING: messages that nobody had read made no room"
import os, sys, time
os.chdir(sys.argv[1])
failed = 0
for i in range(20):
    held = []
    try:
        while True:
            os.mkdir("d")
            held.append(os.open("d", os.O_PATH))
            os.rmdir("d")
    except OSError:
        pass
    time.sleep(0.12)  # they were not deleted just now
    for fd in held:
        os.close(fd)
    try:
        os.mkdir("new")
        os.rmdir("new")
    except OSError as e:
        print(i, e)
        failed += 1
        time.sleep(0.5)
sys.exit(failed > 0)
END
	kill "${hogs[@]}"
	wait "${hogs[@]}" 2>/dev/null
	unmount_ratefs
	rm -rf "${SRC:?}"/* "$TMP/state"
}
# The same if the daemon has read the kernel's messages, but takes long to handle them.
not_handled() {
	faults_ready
	mount_ratefs -o size=10M,inodes=20
	python3 - "$MNT" "$DAEMON" "$FAULTS" <<'END' || fail "$BACKING: a message that was read but not handled made no room"
import os, signal, subprocess, sys, time
mnt, daemon, faults = sys.argv[1], int(sys.argv[2]), sys.argv[3]
os.chdir(mnt)
held = []
try:
    while True:
        os.mkdir("d")
        held.append(os.open("d", os.O_PATH))
        os.rmdir("d")
except OSError:
    pass
def states():
    for tid in os.listdir("/proc/%d/task" % daemon):
        with open("/proc/%d/task/%s/stat" % (daemon, tid)) as f:
            yield f.read().rpartition(")")[2].split()[0]
def struck():
    command = ["faultctl", faults, "hits", "close"]
    return int(subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout)
os.kill(daemon, signal.SIGSTOP)
while any(s != "T" for s in states()):
    time.sleep(0.001)
for fd in held:  # the kernel sends one message about all of them
    os.close(fd)
subprocess.run(["faultctl", faults, "set", "close", "delay=500", "count=1"], check=True)
os.kill(daemon, signal.SIGCONT)
while not struck():
    time.sleep(0.001)
os.mkdir("a")  # has the room of the first directory
os.mkdir("b")
END
	heal
	unmount_ratefs
	DAEMON_WRAPPER=()
	rm -rf "${SRC:?}"/* "$TMP/state"
}
# The same if many requests wait for that.
many_wait() {
	faults_ready
	mount_ratefs -o size=10M
	python3 - "$MNT" "$DAEMON" "$FAULTS" <<'END' || fail "$BACKING: what was deleted made no room for many requests that wait"
import os, signal, subprocess, sys, threading, time
mnt, daemon, faults = sys.argv[1], int(sys.argv[2]), sys.argv[3]
os.chdir(mnt)
data = bytes(600 << 10)
def fill(fd):
    n = 0
    while n < len(data):
        n += os.write(fd, data[n:])
# Started first: on its way to another program, a process would wait for the daemon, to close the files.
delayed = "read go; exec faultctl %s set close delay=300 count=1" % faults
delay = subprocess.Popen(["sh", "-c", delayed], stdin=subprocess.PIPE)
held, files, failed = [], [], []
for i in range(16):
    fd = os.open("old", os.O_CREAT | os.O_WRONLY)
    fill(fd)
    os.close(fd)
    held.append(os.open("old", os.O_PATH))
    os.unlink("old")
    files.append(os.open("new%d" % i, os.O_CREAT | os.O_WRONLY))
def replace(i):
    try:
        fill(files[i])
    except OSError as e:
        failed.append("%d: %s" % (i, e))
def states():
    for tid in os.listdir("/proc/%d/task" % daemon):
        with open("/proc/%d/task/%s/stat" % (daemon, tid)) as f:
            yield f.read().rpartition(")")[2].split()[0]
os.kill(daemon, signal.SIGSTOP)
while any(s != "T" for s in states()):
    time.sleep(0.001)
for fd in held:  # the kernel sends one message about all of them
    os.close(fd)
delay.communicate(b"go\n")
threads = [threading.Thread(target=replace, args=(i,)) for i in range(16)]
for t in threads:
    t.start()
os.kill(daemon, signal.SIGCONT)
for t in threads:
    t.join()
if failed:
    sys.exit("\n".join(failed))
END
	heal
	unmount_ratefs
	DAEMON_WRAPPER=()
	rm -rf "${SRC:?}"/* "$TMP/state"
}
# A program that waits for room and is killed is gone long before its request would be refused.  It waits as long as files are
# deleted all the time.
killed() {
	mount_ratefs -o size=10M
	python3 - "$MNT" <<'END' || fail "$BACKING: a killed program waits for room"
import os, signal, sys, threading, time
os.chdir(sys.argv[1])
held = os.open(".", os.O_TMPFILE | os.O_WRONLY, 0o600)
for i in range(9):
    os.write(held, bytes(1 << 20))
ended = False
def delete():
    while not ended:
        os.mkdir("d")
        os.rmdir("d")
def fill():
    fd = os.open("f", os.O_CREAT | os.O_WRONLY | os.O_TRUNC)
    while True:
        try:
            os.write(fd, bytes(1 << 20))
        except OSError:
            pass
deletes = threading.Thread(target=delete)
deletes.start()
took = []
for i in range(3):
    child = os.fork()
    if child == 0:
        fill()
    time.sleep(0.4)
    begin = time.monotonic()
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    took.append(time.monotonic() - begin)
ended = True
deletes.join()
if sorted(took)[1] > 0.5:
    sys.exit("gone after %s s" % took)
END
	unmount_ratefs
	rm -rf "${SRC:?}"/* "$TMP/state"
}
# Also if there are more of them than the daemon may hold open.
many_held() {
	DAEMON_WRAPPER=(prlimit --nofile=300:300)
	mount_ratefs -o size=10M
	python3 - "$MNT" >"$TMP/said" <<'END' &
import os, sys, time
os.chdir(sys.argv[1])
held = []
for i in range(80):
    fd = os.open("f", os.O_CREAT | os.O_WRONLY)
    os.write(fd, bytes(100 << 10))
    held.append(os.open("f", os.O_PATH))
    os.close(fd)
    os.unlink("f")
print("held", flush=True)
time.sleep(1000)
END
	local hoarder=$!
	within 20s grep -q held "$TMP/said" || fail "python3"
	[ "$(space used)" -ge $((80 * 100 << 10)) ] ||
		fail "$BACKING: $(space used) bytes are counted of 80 deleted files of 100 KiB that are held"
	kill $hoarder
	wait $hoarder 2>/dev/null
	within 10s is_exact || fail "$BACKING: counted $(space used) bytes; there are $(held)"
	unmount_ratefs
	DAEMON_WRAPPER=()
	rm -rf "${SRC:?}"/* "$TMP/state"
}
backing tmpfs
BACKING=tmpfs
unread
not_handled
many_wait
killed
many_held
unbacking

# A limit that is set later counts what is held already.
backing tmpfs
mount_ratefs
head -c 8M /dev/zero >"$MNT/f"
python3 -c 'import os, sys, time
fd = os.open(sys.argv[1], os.O_PATH)
os.unlink(sys.argv[1])
print("held", flush=True)
time.sleep(1000)' "$MNT/f" >"$TMP/said" &
hoarder=$!
within 20s grep -q held "$TMP/said" || fail "python3"
ok ctl set "$MNT" size=10M >/dev/null
enforced() { [ "$(space state)" = enforced ]; }
within 10s enforced || fail "not counted"
dd if=/dev/zero of="$MNT/new" bs=1M count=4 2>/dev/null && fail "8 MiB are held, and 4 more fit into 10"
kill $hoarder
wait $hoarder 2>/dev/null
within 10s is_exact || fail "counted $(space used) bytes; there are $(held)"
ok dd if=/dev/zero of="$MNT/new" bs=1M count=9 status=none
unmount_ratefs
unbacking
