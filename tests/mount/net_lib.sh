# SPDX-License-Identifier: MIT
# shellcheck shell=bash
# A network namespace of its own for a test, so that its ports do not conflict with others.  Source this before anything else.
if [ -z "${RATEFS_TEST_NET:-}" ]; then
	unshare --net true 2>/dev/null || { echo "${0##*/}: skipped: needs network namespaces" >&2; exit 77; }
	RATEFS_TEST_NET=1 exec unshare --net bash "$0" "$@"
fi
command -v ip >/dev/null || { echo "${0##*/}: skipped: needs the command 'ip'" >&2; exit 77; }
ip link set lo up
