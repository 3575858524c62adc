#!/bin/bash
# SPDX-License-Identifier: MIT
# sqlite3 with rollback journal and with write-ahead log: concurrent writers, crash of a writer,
# integrity_check.  Locks and shared mappings at work.
. "${srcdir:-.}/tests/mount/lib.sh" || exit 1
requires sqlite3

writer() {	# database: 10 transactions of 50 rows
	local n
	for n in $(seq 10); do
		echo "BEGIN IMMEDIATE;"
		seq 50 | sed "s/.*/INSERT INTO t(who, n, pad) VALUES (${I:?}, $n, hex(randomblob(60)));/"
		echo "COMMIT;"
	done | sqlite3 -bail -cmd '.timeout 20000' "$1" || return 1
}
database() {	# journal mode
	local db=$MNT/$1.db
	equal "$(sqlite3 "$db" "PRAGMA journal_mode=$1;")" "$1"
	sqlite3 "$db" "CREATE TABLE t(id INTEGER PRIMARY KEY, who, n, pad); CREATE INDEX i ON t(who, n);" || fail "create"
	in_parallel 4 writer "$db"
	equal "$(sqlite3 "$db" 'SELECT count(*) FROM t')" 2000 "rows ($1)"
	equal "$(sqlite3 "$db" 'PRAGMA integrity_check')" ok "integrity ($1)"
	# A writer dies in the middle of a transaction: only committed data is in the database.
	mkfifo "$TMP/sql"
	sqlite3 "$db" <"$TMP/sql" >/dev/null &
	local pid=$!
	exec {sql}>"$TMP/sql"
	echo 'BEGIN; INSERT INTO t(who) SELECT 99 FROM t; SELECT 1;' >&$sql
	nap 300ms
	disown $pid
	kill -9 $pid
	exec {sql}>&-
	rm "$TMP/sql"
	equal "$(sqlite3 -cmd '.timeout 5000' "$db" 'SELECT count(*) FROM t')" 2000 "rows after a crash ($1)"
	equal "$(sqlite3 "$db" 'PRAGMA integrity_check')" ok "integrity after a crash ($1)"
	sqlite3 "$db" 'DELETE FROM t WHERE n > 5; VACUUM;' || fail "vacuum"
	equal "$(sqlite3 "$db" 'PRAGMA integrity_check')" ok "integrity after vacuum ($1)"
}

each() {
	local mode journal
	for mode in $(modes); do
		mount_ratefs -o "cache=$mode"
		for journal in delete wal; do
			rm -f "$MNT/$journal".db*
			database $journal
		done
		unmount_ratefs
		for journal in delete wal; do
			equal "$(sqlite3 "$SRC/$journal.db" 'PRAGMA integrity_check')" ok "on the backing ($journal)"
		done
	done
}
on_each_backing each
