#!/bin/bash
# SPDX-License-Identifier: MIT
# Programs cannot tell the mount from the backing directory: cache=strict, every operation reaches the daemon.
. "${srcdir:-.}/tests/mount/lib.sh" || exit 1
requires helper:conform

both() {
	conforms cache=strict
	conforms cache=strict append_cleared
}
on_each_backing both
