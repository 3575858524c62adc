#!/bin/bash
# SPDX-License-Identifier: MIT
# This project compiles on the mount, in parallel, to the same objects.  RATEFS_TEST_FULL=1: all of
# it, with configure.
. "${srcdir:-.}/tests/mount/lib.sh" || exit 1
requires gcc ar make

compile() {
	cat >Makefile <<-'END'
		SOURCES := $(wildcard src/base/*.c src/limit/*.c)
		OBJECTS := $(SOURCES:.c=.o)
		CFLAGS := -std=gnu11 -O1 -Isrc -D_GNU_SOURCE -pthread
		lib.a: $(OBJECTS) ; ar crD $@ $^
		-include $(SOURCES:.c=.d)
		%.o: %.c ; gcc $(CFLAGS) -MMD -c -o $@ $<
	END
	make -s -j2 && make -s -q && sha256sum lib.a
	touch src/base/util.h
	make -s -q && echo "make does not see a change"
	make -s -j2 && sha256sum lib.a
}
full() {
	autoreconf -fi >/dev/null 2>&1 && mkdir build && cd build && ../configure -q && make -s -j2 && ./ratefs -V
}
prepare() {
	tar -C "$srcdir" -cf - --exclude='./build*' --exclude=./.git . | tar -C "$1" -xf -
	if [ -e "$srcdir/.libfuse" ]; then
		ln -sfn "$(readlink -f "$srcdir/.libfuse")" "$1/.libfuse"
	fi
}
each() {
	prepare "$PLAIN"
	prepare "$SRC"
	local mode
	for mode in $(modes); do
		find "$PLAIN" "$SRC" -name '*.[oda]' -delete
		mount_ratefs -o "cache=$mode"
		same_on_both compile
		unmount_ratefs
	done
	if [ -n "${RATEFS_TEST_FULL:-}" ]; then
		mount_ratefs
		same_on_both full
		unmount_ratefs
	fi
}
backing tmpfs
BACKING=tmpfs
each
