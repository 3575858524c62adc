#!/bin/bash
# SPDX-License-Identifier: MIT
# Programs cannot tell the mount from the backing directory: cache=page, the page cache in between.
. "${srcdir:-.}/tests/mount/lib.sh" || exit 1
requires helper:conform

both() {
	conforms cache=page
	conforms cache=page append_cleared
}
on_each_backing both
