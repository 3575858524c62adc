#!/bin/bash
# SPDX-License-Identifier: MIT
# At least 100,000 events per second while one subscriber never reads: requests are not slowed down,
# memory is bounded, every lost event is counted, and another subscriber still gets its events.
. "${srcdir:-.}/tests/mount/lib.sh" || exit 1
requires helper:eventstorm jq

eventstorm "$TMP/storm.sock" >"$TMP/result" || fail "eventstorm"
say "$(cat "$TMP/result")"
is() { jq -e "$1" "$TMP/result" >/dev/null || fail "not true: $1, of $(cat "$TMP/result")"; }

# Nothing is lost without being counted.
is '.reader.missing == 0'
is '.deaf.got + .deaf.dropped == .deaf.events'
is '.deaf.dropped > 0 and .deaf.got > 100'
# The other subscriber gets as much as it can read, and everything once the storm is over.
is '.reader.got > 10000'
is '.quiet.got == .quiet.events and .quiet.dropped == 0'
if sanitized; then
	say "a sanitizer decides about speed and memory"
	exit 0
fi
is '.per_second >= 100000'
is '.ns.reader_and_deaf < .ns.reader * 2' # medians of rounds that take turns
is '.grown_kib < 4096'
