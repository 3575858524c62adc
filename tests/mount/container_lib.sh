# SPDX-License-Identifier: MIT
# shellcheck shell=bash
# An image for container engines: busybox, and nothing else.

! sanitized || skip "an engine adds nothing to what the sanitizers see in volume_plugin.sh"

# Prints the first static busybox that works.
busybox_static() {
	local b
	for b in /bin/busybox /usr/bin/busybox; do
		if [ -x "$b" ] && ! ldd "$b" >/dev/null 2>&1; then
			echo "$b"
			return
		fi
	done
	return 1
}
# make_image: creates the image as a tree in $TMP/image.
make_image() {
	local busybox applet
	busybox=$(busybox_static) || skip "needs a static busybox"
	mkdir -p "$TMP/image/bin" "$TMP/image/data" "$TMP/image/tmp"
	cp "$busybox" "$TMP/image/bin/busybox"
	for applet in sh cat dd df head ls mkdir sleep stat sync touch true wc id; do
		ln -s busybox "$TMP/image/bin/$applet"
	done
}
