#!/bin/bash
# SPDX-License-Identifier: MIT
# If the source is on a disk, workers answer requests and get new ones themselves (ring_workers.c): parking and signals there.
for test in uring_park uring_signals; do
	URING_BACKING=ext4 bash "${srcdir:-.}/tests/mount/$test.sh" || exit
done
