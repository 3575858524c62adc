/* SPDX-License-Identifier: MIT */
/* Every allocation of the daemon's control plane fails once: settings, configuration, registry,
 * commands.  The operation must report the failure and change nothing, and it must succeed when it
 * is tried again. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "daemon/await.h"
#include "daemon/classes.h"
#include "daemon/commands.h"
#include "daemon/config_file.h"
#include "daemon/loop.h"
#include "daemon/options.h"
#include "daemon/pools.h"
#include "daemon/registry.h"
#include "daemon/reload_back.h"
#include "daemon/serve_mount.h"
#include "proto/proto.h"
#include "sched/gate_internal.h"
#include "unit/oom.h"
#include "unit/unit.h"
#include "unit/fake_clock.h"

/* --- one scope's settings --- */

static void rich(struct settings *s)
{
	static const char *const values[][2] = {
		{"name", "data"},      {"fs", "shared"},	{"mountpoint", "/nonexistent/data"},
		{"read_bps", "10M"},   {"read_bps_once", "1M"}, {"fair", "uid"},
		{"ro", NULL},	       {"fsname", "x"},		{"weight", "uid:1=2+uid:2=3"},
		{"max_inflight", "9"},
	};
	bool batch[OPTIONS_MAX] = {0};
	struct error err = ERROR_INIT;
	settings_init(s);
	for (unsigned i = 0; i < ARRAY_SIZE(values); i++)
		if (option_set(s, SCOPE_MOUNT, values[i][0], values[i][1], batch, &err) < 0)
			ck_abort_msg("%s", err.text);
}

static bool same_settings(const struct settings *a, const struct settings *b)
{
	for (unsigned i = 0; i < n_options; i++)
		if (!option_equal(&options[i], a, b))
			return false;
	return a->weights.n == b->weights.n;
}

START_TEST(a_copy_is_whole_or_empty)
{
	struct settings s, empty;
	rich(&s);
	settings_init(&empty);
	OOM_EACH(n)
	{
		struct settings copy;
		bool ok = OOM_FAIL(n, settings_copy(&copy, &s));
		ck_assert(ok == !oom_struck());
		ck_assert(same_settings(&copy, ok ? &s : &empty));
		settings_free(&copy);
	}
	settings_free(&s);
}
END_TEST

static void sets_or_changes_nothing(const char *name, const char *value)
{
	OOM_EACH(n)
	{
		struct settings before, s;
		bool batch[OPTIONS_MAX] = {0};
		struct error err = ERROR_INIT;
		rich(&s);
		rich(&before);
		int rc = OOM_FAIL(n, option_set(&s, SCOPE_MOUNT, name, value, batch, &err));
		if (oom_struck()) {
			ck_assert_int_eq(rc, -1);
			ck_assert_ptr_nonnull(strstr(err.text, "memory"));
			ck_assert(same_settings(&s, &before));
			rc = option_set(&s, SCOPE_MOUNT, name, value, batch, &err);
		}
		ck_assert_int_eq(rc, 0);
		settings_free(&s);
		settings_free(&before);
	}
}

START_TEST(an_option_that_cannot_be_set_stays_as_it_was)
{
	sets_or_changes_nothing("name", "other");
	sets_or_changes_nothing("weight", "uid:3=4+uid:4=5+cgroup:/x=6");
	sets_or_changes_nothing("ro", "no");
	sets_or_changes_nothing("ro", "yes");
	sets_or_changes_nothing("rw", NULL);
	sets_or_changes_nothing("fsname", "y");
	sets_or_changes_nothing("max_read", "64K");
	sets_or_changes_nothing("read_bps", "1M");
}
END_TEST

START_TEST(fuse_options_are_whole_or_none)
{
	struct settings s;
	rich(&s);
	OOM_EACH(n)
	{
		struct error err = ERROR_INIT;
		char *text = OOM_FAIL(n, fuse_options_of(&s, "/s,\\", &err));
		ck_assert((text == NULL) == oom_struck());
		ck_assert(error_is_set(&err) == oom_struck());
		free(text);
	}
	settings_free(&s);
}
END_TEST

/* --- the file --- */

static char path[] = "/tmp/ratefs-memory.XXXXXX";

static const char first_text[] = "[global]\niops = 1k\n"
				 "[fs:shared]\nsource = /nonexistent/source\nwrite_bps = 5M\n"
				 "[mount:data]\nfs = shared\nmountpoint = /nonexistent/data\n"
				 "weight = uid:1=2+uid:2=3\noptions = noexec\npool = p\n"
				 "[mount:more]\nfs = shared\nmountpoint = /nonexistent/more\n"
				 "[class:heavy]\nmounts = data\nmatch = uid:7\nbps = 1M\n"
				 "[class:far]\nmounts = more\nmatch = uid:9\npool = p\n"
				 "[pool:p]\nserver = unix:/nonexistent/p\nbps = 4M\n"
				 "[weights]\nuid:1000 = 4\nuid:1001 = 5\n";
static const char second_text[] = "[global]\niops = 2k\nmeta_iops = 100\n"
				  "[fs:shared]\nsource = /nonexistent/source\nwrite_bps = 6M\n"
				  "[mount:data]\nfs = shared\nmountpoint = /nonexistent/data\n"
				  "read_bps = 3M\nweight = uid:1=3\npool = p\n"
				  "[mount:more]\nfs = shared\nmountpoint = /nonexistent/more\n"
				  "[fs:other]\nsource = /nonexistent/other\nbps = 9M\n"
				  "[class:heavy]\nmounts = data\nmatch = uid:7\nbps = 2M\n"
				  "[class:light]\nmounts = data\nmatch = uid:8\n"
				  "[class:far]\nmounts = more\nmatch = uid:9\npool = q\n"
				  "[pool:p]\nserver = unix:/nonexistent/p\nbps = 3M\niops = 9\n"
				  "[pool:q]\nserver = unix:/nonexistent/q\nkey = x\niops = 8\n"
				  "[weights]\nuid:1000 = 7\n";

static void drop_file(void)
{
	unlink(path);
}

/* The same file throughout a test, because answers of the daemon contain its name. */
static void write_file(const char *text)
{
	static bool made;
	if (!made) {
		close(mkstemp(path));
		atexit(drop_file);
		made = true;
	}
	AUTO_FILE f = fopen(path, "w");
	ck_assert_ptr_nonnull(f);
	fputs(text, f);
}

START_TEST(a_file_is_loaded_whole_or_told_not_to_be)
{
	write_file(first_text);
	OOM_EACH(n)
	{
		struct configuration c;
		struct problems p = {0};
		int rc = OOM_FAIL(n, config_load(&c, path, &p));
		if (oom_struck()) {
			ck_assert_int_eq(rc, -1);
			ck_assert_uint_gt(p.n, 0);
			ck_assert_uint_eq(c.n_mounts, 0);
		} else {
			ck_assert_int_eq(rc, 0);
			ck_assert_uint_eq(c.n_mounts, 2);
			ck_assert_uint_eq(c.weights.n, 2);
			ck_assert_str_eq(c.file, path);
		}
		problems_free(&p);
		configuration_free(&c);
	}
}
END_TEST

/* --- a daemon without FUSE: its mounts have a place in the gate and no session --- */

static struct fake_clock fake;
static struct registry r;
static struct loop loop; /* never runs: helpers of pools are not started */

static void on_ready(void *ctx, struct list *ready)
{
	ck_assert(list_empty(ready));
}

static void attach(struct served_mount *m)
{
	struct gate_mount_config cfg;
	struct weight_rule *rules;
	ck_assert(gate_config_of(&m->s, &r.weights, &cfg, &rules));
	m->fs = registry_find_fs(&r, "shared");
	m->gate_mount = gate_mount_new(m->fs->gate, m->s.name, &cfg);
	ck_assert_ptr_nonnull(m->gate_mount);
	ck_assert_int_eq(classes_apply(m->gate_mount, &m->s, &r.weights), 0);
	m->fs->mounts++;
	free(rules);
}

static void up(void)
{
	struct configuration c;
	struct problems p = {0};
	log_set_level(LOG_LEVEL_ERROR);
	write_file(first_text);
	ck_assert_int_eq(config_load(&c, path, &p), 0);
	fake_clock_init(&fake, NSEC_PER_SEC);
	registry_clear(&r);
	r.gate = gate_new(&fake.clk, on_ready, NULL);
	ck_assert_int_eq(gate_set_global(r.gate, &c.global.limits), 0);
	ck_assert(settings_copy(&r.global, &c.global));
	r.weights = c.weights;
	c.weights = (struct weights){0};
	r.file = strdup(path);
	ck_assert_ptr_nonnull(registry_add_fs(&r, &c.fs[0], false));
	for (unsigned i = 0; i < c.n_mounts; i++)
		attach(registry_add_mount(&r, &c.mount[i]));
	ck_assert_int_eq(loop_init(&loop), 0);
	ck_assert_int_eq(pools_open(&r, &c, &loop), 0);
	configuration_free(&c);
	fake.now += NSEC_PER_SEC / 3;
}

static void detach(struct served_mount *m)
{
	if (!m->gate_mount)
		return;
	gate_mount_free(m->gate_mount);
	m->gate_mount = NULL;
	m->fs->mounts--;
}

static void down(void)
{
	reload_settle(&r);
	pools_close(&r);
	loop_free(&loop);
	list_for_each_safe (it, &r.mounts) {
		struct served_mount *m = list_entry(it, struct served_mount, link);
		detach(m);
		registry_forget_mount(m);
	}
	list_for_each_safe (it, &r.fs)
		registry_forget_fs(list_entry(it, struct served_fs, link));
	gate_free(r.gate);
	settings_free(&r.global);
	weights_free(&r.weights);
	free(r.file);
}

/* Unlike ck_assert_str_eq, shows where long texts differ. */
static void same_text(const char *a, const char *b, const char *what, unsigned n)
{
	size_t at = 0;
	if (strcmp(a, b) == 0)
		return;
	while (a[at] == b[at])
		at++;
	at = at > 60 ? at - 60 : 0; /* show some text before the difference */
	ck_abort_msg("%s, allocation %u: %.100s, not %.100s", what, n, a + at, b + at);
}

/* The daemon's answer to a request; *code is not 0 if it is an error. */
static char *answer(const char *line, int *code)
{
	struct error err = ERROR_INIT;
	AUTO_JSON *request = proto_parse(line, strlen(line), PROTO_DEPTH_MAX, &err);
	struct command_reply reply;
	size_t size;
	*code = PROTO_NO_MEMORY;
	if (!request || !command_reply_init(&reply))
		return NULL;
	command_run(&r, request, &reply);
	if (reply.code)
		ck_assert(reply.long_text || error_is_set(&reply.err));
	AUTO_JSON *all = command_answer(&reply, NULL);
	char *text = all ? proto_line(all, &size) : NULL;
	*code = reply.code ? reply.code : text ? PROTO_OK : PROTO_NO_MEMORY;
	command_reply_free(&reply);
	return text;
}

static char *ask(const char *command, const char *target, int *code)
{
	char line[256];
	snprintf(line, sizeof(line), "{\"v\":1,\"do\":\"%s\"%s%s%s}", command,
		 target ? ",\"target\":\"" : "", target ? target : "", target ? "\"" : "");
	return answer(line, code);
}

/* A pool that gets no answer changes from "starting" to "stop" as time passes. */
static void forget_mode(char *text)
{
	static const char member[] = "\"mode\":\"";
	for (char *p = text; (p = strstr(p, member));) {
		p += sizeof(member) - 1;
		size_t n = strcspn(p, "\"");
		memmove(p, p + n, strlen(p + n) + 1);
	}
}

/* Everything that can be seen from outside. */
static char *all_state(void)
{
	static const char *const questions[][2] = {
		{"list", NULL},		{"show", "global"},  {"show", "fs:shared"},
		{"show", "data"},	{"show", "more"},    {"show", "pool:p"},
		{"show", "more/far"},	{"stats", "global"}, {"stats", "pool:p"},
		{"stats", "fs:shared"}, {"stats", "data"},   {"stats", "more"},
	};
	char *all = NULL;
	size_t size = 0;
	FILE *out = open_memstream(&all, &size);
	for (unsigned i = 0; i < ARRAY_SIZE(questions); i++) {
		int code;
		AUTO_FREE char *text = ask(questions[i][0], questions[i][1], &code);
		ck_assert_int_eq(code, 0);
		forget_mode(text);
		fprintf(out, "%s\n%s", questions[i][0], text);
	}
	list_for_each (it, &r.mounts) {
		const struct served_mount *m = list_entry(it, struct served_mount, link);
		fprintf(out, "weights of %s: %u, %u in common\n", m->s.name, m->s.weights.n,
			r.weights.n);
	}
	fclose(out);
	return all;
}

/* Either it works and answers as always, or it says that it failed and nothing has changed. */
static void obeys_or_changes_nothing(const char *line)
{
	int code;
	up();
	AUTO_FREE char *before = all_state();
	AUTO_FREE char *expected = answer(line, &code);
	ck_assert_int_eq(code, 0);
	AUTO_FREE char *after = all_state();
	down();
	OOM_EACH(n)
	{
		up();
		AUTO_FREE char *text = OOM_FAIL(n, answer(line, &code));
		if (!code)
			same_text(text, expected, line, n);
		AUTO_FREE char *now = all_state();
		if (code) {
			ck_assert_msg(oom_struck(), "'%s' failed with all the memory", line);
			bool done = strcmp(now, after) == 0; /* only the answer was lost */
			if (!done)
				same_text(now, before, line, n);
			free(text);
			text = answer(line, &code);
			ck_assert(code == PROTO_OK || (done && code == PROTO_EXISTS));
			free(now);
			now = all_state();
		}
		same_text(now, after, line, n);
		down();
	}
}

/* The same for a command that changes nothing: all attempts use one registry, which is compared at
 * the end. */
static void answers_and_changes_nothing(const char *line)
{
	int code;
	up();
	AUTO_FREE char *before = all_state();
	AUTO_FREE char *expected = answer(line, &code);
	ck_assert_int_eq(code, 0);
	OOM_EACH(n)
	{
		AUTO_FREE char *text = OOM_FAIL(n, answer(line, &code));
		if (!code)
			same_text(text, expected, line, n);
		else
			ck_assert_msg(oom_struck(), "'%s' failed with all the memory", line);
	}
	AUTO_FREE char *now = all_state();
	same_text(now, before, line, 0);
	down();
}

START_TEST(a_command_works_or_says_that_it_failed)
{
	ck_assert_ptr_nonnull(freopen("/dev/null", "w", stderr)); /* each change is logged */
	proto_init(); /* the parser, too, uses our malloc, which fails */
	answers_and_changes_nothing("{\"v\":1,\"do\":\"list\",\"id\":7}");
	answers_and_changes_nothing("{\"v\":1,\"do\":\"show\",\"target\":\"data\"}");
	answers_and_changes_nothing("{\"v\":1,\"do\":\"show\",\"target\":\"global\"}");
	answers_and_changes_nothing("{\"v\":1,\"do\":\"stats\"}");
	answers_and_changes_nothing("{\"v\":1,\"do\":\"stats\",\"target\":\"data\"}");
	answers_and_changes_nothing("{\"v\":1,\"do\":\"find\",\"target\":\"data\"}");
	obeys_or_changes_nothing(
		"{\"v\":1,\"do\":\"set\",\"target\":\"data\",\"values\":{\"read_bps\":\"1M\","
		"\"read_bps_once\":2097152,\"weight\":\"uid:5=6\"}}");
	obeys_or_changes_nothing(
		"{\"v\":1,\"do\":\"set\",\"target\":\"fs:shared\",\"values\":{\"write_bps\":\"1M\","
		"\"write_iops\":7,\"max_inflight\":4}}");
	obeys_or_changes_nothing("{\"v\":1,\"do\":\"set\",\"target\":\"global\",\"values\":"
				 "{\"iops\":\"2k\",\"meta_iops\":5}}");
	obeys_or_changes_nothing("{\"v\":1,\"do\":\"set\",\"target\":\"pool:p\",\"values\":"
				 "{\"bps\":\"2M\",\"iops\":70,\"key\":\"other\"}}");
	obeys_or_changes_nothing("{\"v\":1,\"do\":\"pause\",\"target\":\"data\"}");
	obeys_or_changes_nothing("{\"v\":1,\"do\":\"pause\",\"target\":\"fs:shared\"}");
	obeys_or_changes_nothing("{\"v\":1,\"do\":\"pause\",\"target\":\"global\"}");
	obeys_or_changes_nothing("{\"v\":1,\"do\":\"resume\",\"target\":\"global\"}");
	obeys_or_changes_nothing(
		"{\"v\":1,\"do\":\"class-add\",\"target\":\"data\",\"class\":\"more\",\"values\":"
		"{\"match\":\"uid:7,cgroup:/x/**\",\"bps\":\"1M\",\"each.iops\":5,"
		"\"weight\":\"2+comm:a=3\"}}");
	answers_and_changes_nothing("{\"v\":1,\"do\":\"class-list\"}");
}
END_TEST

/* Checks the weight of a key in all mounts and their classes. */
static void weights_are(struct fair_key key, uint32_t weight)
{
	list_for_each (it, &r.mounts) {
		struct served_mount *m = list_entry(it, struct served_mount, link);
		ck_assert_uint_eq(keys_weight(&m->gate_mount->leaf, key), weight);
		list_for_each (at, &m->gate_mount->class_leaves)
			ck_assert_uint_eq(keys_weight(list_entry(at, struct leaf, of_mount), key),
					  weight);
	}
}

START_TEST(weights_for_all_mounts_are_set_in_all_or_none)
{
	OOM_EACH(n)
	{
		struct weights more = {0};
		struct weight_rule rule = {{FAIR_PROCESS, 3}, NULL, 9};
		struct registry_change change;
		struct error err = ERROR_INIT;
		up();
		ck_assert(weights_add(&more, &rule, "process:3=9"));
		registry_change_init(&change, &r);
		ck_assert(registry_change_weights(&change, &more));
		int rc = OOM_FAIL(n, registry_change_apply(&change, &err));
		ck_assert_int_eq(rc, oom_struck() ? -1 : 0);
		ck_assert(error_is_set(&err) == oom_struck());
		if (oom_struck())
			registry_change_free(&change);
		else
			registry_change_finish(&change);
		ck_assert_uint_eq(r.weights.n, oom_struck() ? 2 : 1);
		weights_are(rule.key, oom_struck() ? 1 : 9);
		weights_free(&more);
		down();
	}
}
END_TEST

START_TEST(what_cannot_be_added_is_not_in_the_lists)
{
	OOM_EACH(n)
	{
		struct settings s;
		up();
		rich(&s);
		AUTO_FREE char *before = all_state();
		struct served_mount *m = OOM_FAIL(n, registry_add_mount(&r, &s));
		ck_assert((m == NULL) == oom_struck());
		if (!m) {
			AUTO_FREE char *now = all_state();
			same_text(now, before, "lists", n);
		}
		settings_free(&s);
		down();
	}
	OOM_EACH(n)
	{
		struct settings s;
		up();
		rich(&s);
		AUTO_FREE char *before = all_state();
		struct served_fs *fs = OOM_FAIL(n, registry_add_fs(&r, &s, false));
		ck_assert((fs == NULL) == oom_struck());
		if (!fs) {
			AUTO_FREE char *now = all_state();
			same_text(now, before, "lists", n);
		}
		settings_free(&s);
		down();
	}
}
END_TEST

/* The reload changes limits of three scopes, classes and weights, and adds an fs; it must never be
 * half done. */
START_TEST(a_reload_happens_as_a_whole_or_not_at_all)
{
	int code;
	unsigned failed = 0;
	ck_assert_ptr_nonnull(freopen("/dev/null", "w", stderr)); /* each change is logged, too */
	proto_init();
	up();
	write_file(second_text);
	free(ask("reload", NULL, &code));
	ck_assert_int_eq(code, 0);
	AUTO_FREE char *after = all_state();
	ck_assert_ptr_nonnull(registry_find_fs(&r, "other"));
	weights_are((struct fair_key){FAIR_UID, 1000}, 7);
	down();
	OOM_EACH(n)
	{
		up();
		AUTO_FREE char *before = all_state();
		write_file(second_text);
		AUTO_FREE char *text = OOM_FAIL(n, ask("reload", NULL, &code));
		AUTO_FREE char *now = all_state();
		bool done = strcmp(now, after) == 0; /* though the answer may be lost */
		if (!done) {
			ck_assert_msg(code, "allocation %u failed, and the reload said: %s", n,
				      text);
			same_text(now, before, "reload", n);
			ck_assert_ptr_null(registry_find_fs(&r, "other"));
			weights_are((struct fair_key){FAIR_UID, 1000}, 4);
			failed++;
		}
		free(text);
		text = ask("reload", NULL, &code);
		ck_assert_int_eq(code, 0);
		free(now);
		now = all_state();
		same_text(now, after, "the reload after it", n);
		weights_are((struct fair_key){FAIR_UID, 1000}, 7);
		down();
	}
	ck_assert_uint_gt(failed, 100); /* so it failed not only while reading the file */
}
END_TEST

UNIT_MAIN("memory", a_copy_is_whole_or_empty, an_option_that_cannot_be_set_stays_as_it_was,
	  fuse_options_are_whole_or_none, a_file_is_loaded_whole_or_told_not_to_be,
	  a_command_works_or_says_that_it_failed, weights_for_all_mounts_are_set_in_all_or_none,
	  what_cannot_be_added_is_not_in_the_lists, a_reload_happens_as_a_whole_or_not_at_all)
