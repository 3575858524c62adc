#!/bin/bash
# SPDX-License-Identifier: MIT
# What the command sees: the same paths, but a view of them that no other process sees.
. "${srcdir:-.}/tests/mount/lib.sh" || exit 1
. "$srcdir/tests/mount/run_lib.sh" || exit 1
backing tmpfs
cd "$DIR" || exit 1
echo text >file

equal "$(run -q -- sh -c 'pwd; cat file; echo more >>file')" "$DIR
text"
grep -q more file || fail "what the command wrote is not there"
run -q -- grep -q " $DIR fuse.ratefs " /proc/self/mounts || fail "the command does not see the mount"
"$RATEFS" run -q -- sh -c "touch started; until [ -e seen ]; do sleep 0.01; done" &
within 5s test -e started || fail "the command did not start"
! mounts_left || fail "the mount is visible outside"
touch seen
wait $! || fail "the command"
nothing_left

# Environment, arguments, standard input and output, descriptors of the caller.
# shellcheck disable=SC2016
equal "$(FOO='a b' run -q -- sh -c 'printf "%s|" "$FOO" "$@"' sh 'x y' '' '*')" 'a b|x y||*|'
equal "$(echo from a pipe | run -q cat)" "from a pipe"
equal "$(run -q -- sh -c 'cat <&7' 7<file | head -n 1)" text
equal "$(run -q -- sh -c 'ls /proc/self/fd | wc -l')" "$(sh -c 'ls /proc/self/fd | wc -l')" "descriptors"
equal "$(umask 027; run -q -- sh -c umask)" 0027 "umask"
(mkdir -p deep/er && cd deep/er && equal "$(run -q -C "$DIR" -- pwd)" "$DIR/deep/er") || exit 1
(cd / && equal "$(run -q -C "$DIR" -- sh -c "pwd; cat $DIR/file | head -n 1")" "/
text") || exit 1
equal "$(yes | run -q -- head -c 3000000 | wc -c)" 3000000 "a pipe that the command leaves early"
(trap '' HUP; run -q -- sh -c 'kill -HUP $$; exit 5'; equal $? 5 "an ignored signal") || exit 1
(trap '' CHLD; run -q -- sh -c 'exit 6'; equal $? 6 "where SIGCHLD is ignored") || exit 1

# Limits apply to the command as a whole, over all its directories.
mkdir one two
for d in one two; do head -c 300K /dev/zero >$d/data; done
between 400ms 20s run -q -C one -C two -o read_bps=1M,window=10ms -- cat one/data two/data >/dev/null
between 180ms 20s run -q -C one -C two -o mount.read_bps=1M,mount.window=10ms -- sh -c 'cat one/data & cat two/data & wait' >/dev/null

# Other filesystems inside: they are visible, and a message says that they are not throttled.
mkdir -p sub/mount
mount -t tmpfs tmpfs sub/mount
mkdir sub/mount/inner
mount -t tmpfs tmpfs sub/mount/inner
echo deep >sub/mount/inner/f
: >bound
mount --bind file bound
out=$(run -o read_bps=1K -- sh -c 'cat sub/mount/inner/f; head -n 1 bound; head -c 1M /dev/zero >sub/mount/big' 2>"$TMP/err") || fail "$(cat "$TMP/err")"
equal "$out" "deep
text" "files of other filesystems"
grep -q "not throttled.*$DIR/sub/mount" "$TMP/err" || fail "no word about the submount: $(cat "$TMP/err")"
equal "$(stat -c %s sub/mount/big)" 1048576
if users_can; then
	chmod 777 "$DIR" "$RATEFS_RUNTIME_DIR"
	equal "$(as_user alice "$RATEFS" run -q -- cat sub/mount/inner/f)" deep "a submount, as a user"
fi
umount sub/mount/inner sub/mount bound
nothing_left

# Nested runs: the stricter limit applies.
equal "$(run -q -o iops=1000 -- "$RATEFS" run -q -o iops=2000 -- head -n 1 file)" text "run in run"
ends 9 run -q -- "$RATEFS" run -q -- "$RATEFS" run -q -- sh -c 'exit 9'
nothing_left
