#!/bin/bash
# SPDX-License-Identifier: MIT
# Limits that never bind change only how data is transferred (direct I/O instead of passthrough).
. "${srcdir:-.}/tests/mount/lib.sh" || exit 1
requires helper:conform

both() {
	conforms bps=1T,iops=100M
	conforms bps=1T,iops=100M append_cleared
}
on_each_backing both
