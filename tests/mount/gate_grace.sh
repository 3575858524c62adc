#!/bin/bash
# SPDX-License-Identifier: MIT
# At the end of a mount, parked requests are run for half a second, however slow the source is, and
# the rest is refused: a write that was acknowledged is in the source, a write that was refused is
# not.
. "${srcdir:-.}/tests/mount/lib.sh" || exit 1
. "${srcdir:-.}/tests/mount/hard_lib.sh" || exit 1
requires jq python3
LOG_EXPECTED="$LOG_EXPECTED|still in use; its open files stop working"

backing tmpfs
faults_ready
truncate -s 4096000 "$SRC/file"
mount_ratefs -o write_iops=1
cat >"$TMP/writers" <<'END'
import errno, os, sys, threading
fd = os.open(sys.argv[1], os.O_WRONLY)
done, refused, wrong = [], [], []
def write(i):
	try:
		os.pwrite(fd, b"x" * 4096, i * 4096)
		done.append(i)
	except OSError as e:
		(refused if e.errno in (errno.ENOTCONN, errno.ECONNABORTED) else wrong).append(i if e.errno else str(e))
threads = [threading.Thread(target=write, args=(i,)) for i in range(1000)]
for t in threads: t.start()
for t in threads: t.join()
there = open(sys.argv[2], "rb").read()
there = [i for i in range(1000) if there[i * 4096:i * 4096 + 4096] == b"x" * 4096]
lost = set(done) - set(there)
extra = set(there) & set(refused)
print(len(done), len(refused), len(wrong), len(lost), len(extra))
END
python3 "$TMP/writers" "$MNT/file" "$SRC/file" >"$TMP/said" &
writers=$!
within 30s parked 900 || fail "too few writes wait"
fault pwrite delay=100 # more than half a minute of it on one thread, more than a second on many
t0=$(now_ms)
kill -TERM "$DAEMON"
within 20s gone $writers || fail "writers hang"
took=$(($(now_ms) - t0))
wait $writers
daemon_ended_well
read -r ran refused wrong lost extra <"$TMP/said"
say "$ran done, $refused refused, in $took ms"
equal "$wrong $lost $extra" "0 0 0" "other errors, lost writes, writes that were done although they were refused"
[ "$ran" -gt 10 ] || fail "only $ran were run"
[ "$refused" -gt 100 ] || fail "only $refused were refused: the end waits for all of them"
[ $took -lt 6000 ] || fail "the end took $took ms"
