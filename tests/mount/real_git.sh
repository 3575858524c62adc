#!/bin/bash
# SPDX-License-Identifier: MIT
# git: commits, clone, fsck, gc and checkout on the mount, with the same result as beside it.
. "${srcdir:-.}/tests/mount/lib.sh" || exit 1
requires git

export HOME=$TMP GIT_CONFIG_NOSYSTEM=1 GIT_AUTHOR_DATE='2026-01-01T00:00:00Z' GIT_COMMITTER_DATE='2026-01-01T00:00:00Z'
git config --global user.name test
git config --global user.email test@example.org
git config --global init.defaultBranch main
git config --global core.fsync all
git config --global advice.detachedHead false

work() {
	local i
	git init -q one
	cp -r "$srcdir/src" one/
	cd one || exit 1
	git add . && git commit -qm first
	for i in 1 2 3; do
		seq $((i * 1000)) >numbers
		git add numbers && git commit -qm "number $i"
	done
	git checkout -qb side HEAD~2 && echo side >side && git add side && git commit -qm side
	git checkout -q main && git merge -q --no-edit side
	cd ..
	git clone -q --no-local one two 2>&1
	cd two || exit 1
	git gc -q --prune=now
	git fsck --full --strict 2>/dev/null
	git log --oneline | wc -l
	git rev-parse HEAD
	git status --porcelain
	git worktree add -q ../three HEAD~1 && git -C ../three rev-parse HEAD
	git stash list
	git ls-files | wc -l
}
each() {
	local mode
	for mode in $(modes); do
		rm -rf "${PLAIN:?}"/* "${SRC:?}"/*
		mount_ratefs -o "cache=$mode"
		same_on_both work
		unmount_ratefs
		(cd "$SRC/two" && git fsck --full 2>&1) || fail "the repository is damaged"
	done
}
on_each_backing each
