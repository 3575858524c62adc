#!/bin/bash
# SPDX-License-Identifier: MIT
# No way of transferring data bypasses the limits: with each, the bytes of a user stay below the
# bound that ratefs(8) states.
. "${srcdir:-.}/tests/mount/lib.sh" || exit 1
. "${srcdir:-.}/tests/mount/hard_lib.sh" || exit 1
requires helper:hostile

SIZE=$((4 << 20))
RATE=$((2 << 20))
backing tmpfs
chmod 1777 "$SRC"
mount_ratefs -o "bps=$RATE,fair=uid"

# The bound in ratefs(8): rate × (t + 5 ms) + max(capacity, largest request); the largest request is 1 MiB, capacity is less.
bounded() { # "BYTES SECONDS" what
	awk -v rate=$RATE -v what="$2" '
		NF == 2 && $1 + 0 > 0 { if ($1 <= rate * ($2 + 0.005) + 1048576) exit 0 }
		{ print what ": " $0 " is more than " rate " bytes per second"; exit 1 }' <<<"$1" ||
		fail "limit passed by $2: $1"
}
# file NAME: creates a new file for each way, so that none of its pages is cached.
file() { as_user alice sh -c "head -c $SIZE /dev/urandom >$SRC/file.$1"; echo "$MNT/file.$1"; }
way() { # NAME COMMAND...: what it prints is bounded
	local name=$1 out
	shift
	nap 600ms # full again: each way begins with the same
	out=$(as_user alice timeout 60 "$@") || fail "$name: '$*' ended with $?"
	bounded "$out" "$name"
}
timed() { # COMMAND that moves SIZE bytes
	local t0
	t0=$(now_ms)
	"$@" || return
	awk -v b=$SIZE -v ms=$(($(now_ms) - t0)) 'BEGIN { print b, ms / 1000 }'
}
export -f timed now_ms
export SIZE

sh_way() { # NAME SHELL TEXT
	# shellcheck disable=SC2016 # expanded by the inner shell
	way "$1" bash -c 'timed '"$2"
}

f=$(file read);   sh_way "read" "dd if=$f of=/dev/null bs=1M status=none"
f=$(file tiny);   sh_way "small reads" "dd if=$f of=/dev/null bs=4K status=none"
f=$(file direct); sh_way "O_DIRECT" "dd if=$f of=/dev/null bs=1M iflag=direct status=none"
f=$(file many)
for i in 1 2 3 4; do echo "dd if=$f of=/dev/null bs=1M skip=$((i - 1)) count=1 status=none &"; done >"$TMP/many.sh"
echo wait >>"$TMP/many.sh"
sh_way "four processes" "bash $TMP/many.sh"
f=$(file mmap);   way "mmap" hostile mmap-read "$f"
f=$(file splice); way "splice" hostile splice-read "$f"
f=$(file send);   way "sendfile" hostile sendfile "$f" /dev/null
f=$(file aio);    way "AIO" hostile aio-read "$f" 32
f=$(file uring)
out=$(as_user alice timeout 60 hostile uring-read "$f" 32); rc=$?
case $rc in
0) bounded "$out" "io_uring" ;;
77) say "no io_uring here" ;;
*) fail "uring-read ended with $rc" ;;
esac

way "mmap write" hostile mmap-write "$MNT/w.mmap" $SIZE
way "shared description" hostile shared-write "$MNT/w.shared" $SIZE
sh_way "O_DIRECT write" "dd if=/dev/zero of=$MNT/w.direct bs=1M count=4 oflag=direct status=none"
sh_way "O_APPEND" "dd if=/dev/zero of=$MNT/w.append bs=64K count=64 oflag=append conv=notrunc status=none"
f=$(file link)
ok as_user alice ln "$f" "$MNT/other-name"
sh_way "a second name" "dd if=$MNT/other-name of=/dev/null bs=1M status=none"

# copy_file_range is charged in both directions, so it gets half the rate.
f=$(file copy)
nap 600ms
out=$(as_user alice timeout 60 hostile copy-range "$f" "$MNT/w.copy") || fail "copy_file_range"
bounded "$(awk '{ print $1 * 2, $2 }' <<<"$out")" "copy_file_range"
cmp "$f" "$MNT/w.copy" || fail "copy_file_range copied something else"

# A clone would copy everything immediately and for free: it must not be possible.
out=$(as_user alice hostile clone "$f" "$MNT/w.clone")
[[ $out == refused* ]] || bounded "$out" "FICLONE"

# Reading holes is charged like reading data.
ok as_user alice truncate -s $SIZE "$MNT/sparse"
sh_way "holes" "dd if=$MNT/sparse of=/dev/null bs=1M status=none"
unmount_ratefs
