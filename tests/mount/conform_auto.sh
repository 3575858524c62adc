#!/bin/bash
# SPDX-License-Identifier: MIT
# Programs cannot tell the mount from the backing directory: cache=auto, the default, with kernel
# passthrough if nothing is limited.
. "${srcdir:-.}/tests/mount/lib.sh" || exit 1
requires helper:conform

on_each_backing conforms cache=auto
