#!/bin/bash
# SPDX-License-Identifier: MIT
# Changes made directly in the source become visible: immediately with cache=strict, otherwise when
# the timeouts have expired.
. "${srcdir:-.}/tests/mount/lib.sh" || exit 1

content_is() { [ "$(cat "$1" 2>/dev/null)" = "$2" ]; }
shows() { within "$patience" content_is "$MNT/$1" "$2" || fail "$mode: $1 shows '$(cat "$MNT/$1" 2>&1)', not '$2'"; }
gone_from_mount() { [ ! -e "$MNT/$1" ]; }
is_gone() { within "$patience" gone_from_mount "$1" || fail "$mode: $1 is still there"; }
mode_is() { [ "$(stat -c %a "$MNT/$1")" = "$2" ]; }

each() {
	for mode in strict auto page; do
		rm -rf "${SRC:?}"/*
		mkdir "$SRC/d"
		echo one >"$SRC/f"
		patience=3s
		[ $mode != strict ] || patience=1ms
		mount_ratefs -o cache=$mode
		shows f one
		for i in 1 2 3; do			# what was not there a moment ago
			refused cat "$MNT/new$i"
			refused cat "$MNT/d/new$i"
			echo new >"$SRC/new$i"
			mkdir "$SRC/d/new$i"
			content_is "$MNT/new$i" new || fail "$mode: a file made in the source does not show at once"
			test -d "$MNT/d/new$i" || fail "$mode: a directory made in the source does not show at once"
			rm "$MNT/new$i"
			refused cat "$MNT/new$i"
			mkdir "$SRC/new$i"
			test -d "$MNT/new$i" || fail "$mode: what was made again in the source does not show at once"
			mv "$MNT/new$i" "$MNT/d/moved$i"
			refused test -e "$MNT/new$i"
			ln -s f "$SRC/new$i"
			equal "$(readlink "$MNT/new$i")" f "$mode: a link in the place of what was moved away"
		done
		echo longer than before >"$SRC/f"
		shows f "longer than before"
		echo other >"$SRC/g"
		mv "$SRC/g" "$SRC/f"			# another file under the same name
		shows f other
		chmod 600 "$SRC/f"
		within "$patience" mode_is f 600 || fail "$mode: mode"
		rm "$SRC/f"
		is_gone f
		mkdir "$SRC/f"				# and another type
		touch "$SRC/f/in"
		within "$patience" test -d "$MNT/f" || fail "$mode: not a directory yet"
		ok test -e "$MNT/f/in"
		mv "$SRC/f" "$SRC/d/moved"
		within "$patience" test -e "$MNT/d/moved/in" || fail "$mode: did not move"
		is_gone f
		# An open file can be read after it was deleted in the source, and its reader sees
		# it grow.
		echo kept >"$SRC/open"
		shows open kept
		exec {fd}<"$MNT/open"
		rm "$SRC/open"
		equal "$(cat <&$fd)" kept "an open file"
		exec {fd}<&-
		is_gone open
		printf a >"$SRC/grows"
		shows grows a
		exec {fd}<"$MNT/grows"
		equal "$(cat <&$fd)" a
		printf b >>"$SRC/grows"
		nap 1100ms
		equal "$(cat <&$fd)" b "$mode: what was appended behind the reader"
		exec {fd}<&-
		unmount_ratefs
	done
}
backing tmpfs
BACKING=tmpfs
each

# The blocks of a deleted file that nobody has open are freed, even if the kernel still remembers it; a file that was only
# unused for that long can still be reached.
blocks_back() { [ "$(stat -f -c %f "$BACK")" -ge "$free" ]; }
mkdir "$SRC/still"
free=$(stat -f -c %f "$BACK")
dd if=/dev/zero of="$SRC/big" bs=1M count=64 status=none
mount_ratefs
setfattr -n user.a -v 1 "$MNT/big" || fail "no extended attribute"
cd "$MNT/still" || fail "cd"
touch here
rm "$SRC/big"
within 20s blocks_back || fail "a deleted file keeps its blocks"
nap 6s
touch here2
equal "$(echo *)" "here here2" "in a directory that was not used"
cd / || fail "cd"
unmount_ratefs

# A program that opens or stats a file that is being replaced finds the old or the new one, and
# never gets an error.
cat >"$TMP/replace.py" <<'EOF'
import os, signal, sys
src, mnt = sys.argv[1:]
def replace():
	os.close(os.open(src + "/t", os.O_CREAT | os.O_WRONLY, 0o600))
	os.rename(src + "/t", src + "/replaced")
replace()
pid = os.fork()
while pid == 0: replace()
try:
	for i in range(4000):
		os.close(os.open(mnt + "/replaced", os.O_RDONLY))
		os.stat(mnt + "/replaced")
finally:
	os.kill(pid, signal.SIGKILL)
	os.waitpid(pid, 0)
EOF
for mode in strict auto page; do
	mount_ratefs -o cache=$mode
	ok python3 "$TMP/replace.py" "$SRC" "$MNT"
	unmount_ratefs
done

# A directory created in the source, used and removed on the mount, and created in the source again, behaves as if both
# were one directory, in the default mode as well.
cat >"$TMP/turns.py" <<'EOF'
import errno, os, socket, stat, sys
behind, front = sys.argv[1:]
def out(what, f):
	try: print(what, f())
	except OSError as e: print(what, errno.errorcode[e.errno])
def make(path, data=b"abcdefghij"):
	fd = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o644)
	os.write(fd, data)
	os.close(fd)
def seen(path):
	st = os.lstat(path)
	return oct(st.st_mode), st.st_nlink, st.st_size if stat.S_ISREG(st.st_mode) else "-"
def content(path):
	fd = os.open(path, os.O_RDONLY)
	try: return os.read(fd, 100)
	finally: os.close(fd)
def used(path, flags):
	fd = os.open(path, flags, 0o640)
	did = []
	for f in (lambda: os.write(fd, b"XYZ"), lambda: os.lseek(fd, 0, 0), lambda: os.read(fd, 20), lambda: os.ftruncate(fd, 5)):
		try: did.append(f())
		except OSError as e: did.append(errno.errorcode[e.errno])
	os.close(fd)
	return did
b, f = behind + "/x", front + "/x"
b2, f2 = behind + "/y", front + "/y"
modes = [a | c for a in (os.O_RDONLY, os.O_WRONLY, os.O_RDWR) for c in
	(0, os.O_CREAT, os.O_CREAT | os.O_EXCL, os.O_TRUNC, os.O_APPEND, os.O_CREAT | os.O_TRUNC, os.O_CREAT | os.O_APPEND)]
for flags in modes:
	for exists in (True, False):
		out("absent", lambda: seen(f))
		if exists: make(b)
		out(("open", flags, exists), lambda: used(f, flags))
		out("attributes", lambda: seen(f))
		out("in the source", lambda: (seen(b), content(b)))
		out("unlink", lambda: os.unlink(f))
		out("gone", lambda: seen(b))
def sock(path):
	s = socket.socket(socket.AF_UNIX)
	os.chdir(os.path.dirname(path))
	s.bind(os.path.basename(path))
makers = {"file": make, "directory": os.mkdir, "link": lambda p: os.symlink("target", p), "fifo": os.mkfifo, "socket": sock}
for name, maker in makers.items():
	remove = os.rmdir if name == "directory" else os.unlink
	for made, other in ((b, f), (f, b)):
		out(("absent", name), lambda: seen(other))
		out("make", lambda: maker(made))
		out("attributes", lambda: seen(other))
		out("again", lambda: maker(other))
		out("rename", lambda: os.rename(f, f2))
		out("from", lambda: (os.path.lexists(b), os.path.lexists(f)))
		out("to", lambda: (seen(b2), seen(f2)))
		if name == "file": out("hard link", lambda: (os.link(f2, f), seen(f), seen(b), os.unlink(f)))
		out("remove", lambda: remove(f2))
		out("gone", lambda: (os.path.lexists(b2), os.path.lexists(f2)))
EOF
mkdir -p "$SRC/turns" "$PLAIN/turns"
python3 "$TMP/turns.py" "$PLAIN/turns" "$PLAIN/turns" >"$TMP/turns.plain" || fail "turns.py"
for mode in strict auto page; do
	mount_ratefs -o cache=$mode
	python3 "$TMP/turns.py" "$SRC/turns" "$MNT/turns" >"$TMP/turns.mount" || fail "turns.py"
	cmp -s "$TMP/turns.plain" "$TMP/turns.mount" || { diff "$TMP/turns.plain" "$TMP/turns.mount" | head -20; fail "turns, cache=$mode"; }
	unmount_ratefs
done
