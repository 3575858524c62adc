#!/bin/bash
# SPDX-License-Identifier: MIT
# Programs cannot tell the mount from the backing directory: cache=page, the page cache in between.
. "${srcdir:-.}/tests/mount/lib.sh"
requires helper:conform

on_each_backing conforms cache=page
