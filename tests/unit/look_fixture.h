/* SPDX-License-Identifier: MIT */
/* Answers of a daemon, for tests of what looks at them. */
#ifndef UNIT_LOOK_FIXTURE_H
#define UNIT_LOOK_FIXTURE_H

#include <stdio.h>
#include <stdlib.h>

#include "ctl/snapshot.h"
#include "unit/unit.h"

#define PID   4711
#define ALICE 1001
#define BOB   1002

static inline const char *known_user(uint64_t uid)
{
	return uid == ALICE ? "alice" : uid == BOB ? "bob" : "?";
}

/* What differs between two moments. */
struct moment {
	unsigned seconds, write_ops, write_bytes, blocking_ms, key_ops, key_bytes, key_wait_ms,
		oldest_ms, queue, level;
};

static inline json_t *parsed(char *text)
{
	json_error_t e;
	json_t *json = json_loads(text, 0, &e);
	ck_assert_msg(json, "%s in %s", e.text, text);
	free(text);
	return json;
}

static inline json_t *mount_answer(const struct moment *m)
{
	char *text;
	ck_assert_int_gt(
		asprintf(
			&text,
			"{\"scope\":\"mount\",\"name\":\"data\",\"mountpoint\":\"/mnt/data\",\"source\":\"/srv\","
			"\"mounted\":true,\"dry_run\":false,\"paused\":false,\"seconds\":%u,"
			"\"parked_now\":3,\"parked_bytes_now\":300,\"keys_now\":2,\"passthrough_handles\":3,\"bypassing_handles\":1,"
			"\"oldest_wait_ns\":2500000000,"
			"\"in_source\":{\"stuck\":0},\"inflight\":{\"now\":2},\"open\":{\"now\":7},"
			"\"classes\":{\"read\":{\"ops\":10,\"bytes\":100},"
			"\"write\":{\"ops\":%u,\"bytes\":%u,\"parked_total\":40,\"timed_out\":2,"
			"\"too_many_open\":7,\"no_space\":8,\"ok\":50,\"errors\":4}},"
			"\"space\":{\"size\":4096,\"used\":1024,\"inodes_used\":3},"
			"\"limits_met\":[{\"scope\":\"class\",\"of\":\"backup\",\"name\":\"write_bps\","
			"\"unit\":\"bytes\",\"rate\":1048576,\"level\":%u,\"capacity\":104857,"
			"\"blocking_ns\":%llu,\"bottleneck\":true},"
			"{\"scope\":\"mount\",\"of\":\"data\",\"name\":\"each.iops\",\"unit\":\"ops\","
			"\"rate\":50,\"capacity\":5,\"blocking_ns\":0},"
			"{\"scope\":\"mount\",\"of\":\"data\",\"name\":\"max_inflight\",\"limit\":8,\"now\":2,"
			"\"blocking_ns\":0},"
			"{\"scope\":\"global\",\"of\":\"global\",\"name\":\"bps\",\"unit\":\"bytes\","
			"\"rate\":2097152,\"level\":0,\"capacity\":209715,\"blocking_ns\":0}],"
			"\"wait_bounds_ns\":[1000000,2500000],"
			"\"waits\":[{\"class\":\"backup\",\"limit\":{\"scope\":\"class\",\"of\":\"backup\",\"name\":\"write_bps\"},"
			"\"counts\":[1,2,4],\"sum_ns\":1500000000}],"
			"\"key_table\":{\"columns\":[\"kind\",\"id\",\"uid\",\"name\",\"class\",\"limit\",\"ops\",\"bytes\","
			"\"parked_now\",\"wait_ns\",\"oldest_ns\"],"
			"\"text\":[\"process\",\"rsync\",\"backup\",\"e\\u001bvil\",\"\"],"
			"\"limits\":[{\"scope\":\"class\",\"of\":\"backup\",\"name\":\"write_bps\"},"
			"{\"scope\":\"mount\",\"name\":\"each.iops\"}],"
			"\"rows\":[[0,99,%u,1,2,0,%u,%u,%u,%llu,%llu],[0,100,%u,3,4,1,5,0,0,1000000,0]]}}",
			m->seconds, m->write_ops, m->write_bytes, m->level,
			m->blocking_ms * 1000000ULL, ALICE, m->key_ops, m->key_bytes, m->queue,
			m->key_wait_ms * 1000000ULL, m->oldest_ms * 1000000ULL, BOB),
		0);
	return parsed(text);
}

/* A member of a pool, which has lost the server if `mode` is not "leased". */
static inline json_t *pool_answer(const char *mode, const char *error, unsigned lost_ms)
{
	char *text;
	ck_assert_int_gt(
		asprintf(
			&text,
			"[{\"name\":\"farm\",\"server\":\"redis://r\",\"mode\":\"%s\",\"members\":3,\"answer_age_ns\":"
			"120000000,\"lost_ns\":%llu,\"lost_before_ns\":2000000000,\"helper_starts\":1,\"errors\":4,"
			"\"error\":\"%s\",\"limits\":{\"bps\":{\"unit\":\"bytes\",\"rate\":104857600.0,"
			"\"limited_here\":true,\"granted\":26214400.0,\"wants_all\":true}},"
			"\"who\":[{\"host\":\"alpha\",\"weight\":1,\"age_ns\":80000000,\"share\":{\"bps\":26214400.0}},"
			"{\"host\":\"beta\",\"weight\":4,\"age_ns\":90000000,\"share\":{\"bps\":78643200.0}}]}]",
			mode, lost_ms * 1000000ULL, error),
		0);
	return parsed(text);
}

/* The class and the whole daemon have moved as much as the mount. */
static inline json_t *scope_answer(const char *scope, const char *name, const struct moment *m)
{
	char *text;
	ck_assert_int_gt(asprintf(&text,
				  "{\"scope\":\"%s\",\"name\":\"%s\",\"seconds\":%u,"
				  "\"classes\":{\"read\":{\"ops\":10,\"bytes\":100},"
				  "\"write\":{\"ops\":%u,\"bytes\":%u}}}",
				  scope, name, m->seconds, m->write_ops, m->write_bytes),
			 0);
	return parsed(text);
}

static inline void add_answer(struct snapshot *s, json_t *answer)
{
	ck_assert(snapshot_add(s, PID, answer));
	json_decref(answer);
}

static inline struct snapshot *snapshot_at(const struct moment *m)
{
	struct snapshot *s = snapshot_new(m->seconds * 1000000000ULL);
	ck_assert_ptr_nonnull(s);
	ck_assert(snapshot_add_daemon(s, PID, "/etc/ratefs.conf"));
	add_answer(s, mount_answer(m));
	add_answer(s, scope_answer("class", "data/backup", m));
	add_answer(s, scope_answer("global", "global", m));
	return s;
}

static const struct moment first = {.seconds = 10,
				    .write_ops = 100,
				    .write_bytes = 1000000,
				    .blocking_ms = 500,
				    .key_ops = 20,
				    .key_bytes = 200000,
				    .key_wait_ms = 3000,
				    .level = 40000};
/* Two seconds later. */
static const struct moment second = {.seconds = 12,
				     .write_ops = 132,
				     .write_bytes = 1000000 + 2097152,
				     .blocking_ms = 2000,
				     .key_ops = 40,
				     .key_bytes = 200000 + 1048576,
				     .key_wait_ms = 4000,
				     .oldest_ms = 250,
				     .queue = 3,
				     .level = 0};

#endif
