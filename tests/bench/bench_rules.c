/* SPDX-License-Identifier: MIT */
/* What rules cost a request, and how exactly limits for each key and reservations are kept.  Costs are real time of
 * gate_try and gate_done, best of several rounds, taken in turn; rates are on a clock that moves only when told. */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "fs/caller.h"
#include "unit/unit.h"

/* Outside of a test the library cannot tell where it is. */
static void require(bool ok)
{
	if (!ok)
		abort();
}
#undef ck_assert_ptr_nonnull
#define ck_assert_ptr_nonnull(p) require((p) != NULL)
#include "unit/world.h"

static int missed;

static void result(const char *name, double value, const char *unit, double limit, int at_least)
{
	int ok = limit <= 0 || (at_least ? value >= limit : value <= limit);
	missed += !ok;
	printf("%-52s %12.4f %s%s\n", name, value, unit, ok ? "" : "  MISSED");
	printf("{\"name\":\"%s\",\"value\":%.6f,\"unit\":\"%s\"}\n", name, value, unit);
}

static double now_s(void)
{
	struct timespec ts;
	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

/* --- cost --- */

/* Without /proc: thread n is in cgroup /g/n. */
static uint64_t process_of(const struct caller *c, uint64_t now_ns)
{
	return c->tid;
}

static uint64_t cgroup_of(const struct caller *c, uint64_t now_ns)
{
	return c->tid;
}

static void cgroup_path(uint64_t cgroup, char *buf, size_t size)
{
	snprintf(buf, size, "/g/%u", (unsigned)cgroup);
}

static void name_of(const struct caller *c, char buf[CALLER_NAME_MAX])
{
	strcpy(buf, "bench");
}

static const struct caller_ops without_proc = {process_of, cgroup_of, cgroup_path, name_of};

static uint64_t real_now(const struct clock *c)
{
	struct timespec ts;
	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * NSEC_PER_SEC + (uint64_t)ts.tv_nsec;
}

enum { ROUNDS = 15, REQUESTS = 20000, COLD_REQUESTS = 2000 };

/* A mount with n classes, and the caller of the last of them.  COLD: every request comes in another second,
 * so that its caller is looked up in /proc, and every rule is asked. */
enum temperature { CACHED, COLD };
struct scene {
	const char *field; /* of its rules; NULL: no classes */
	unsigned n;
	enum temperature temperature;
	bool each; /* the mount has a limit for each user */
	struct world w;
	struct gate_fs *fs;
	struct gate_mount *m;
	struct caller caller;
	double best_ns;
};

static void set_classes(struct gate_mount *m, const char *field, unsigned n)
{
	static struct gate_class_config cfg[100];
	static char name[100][16];
	for (unsigned i = 0; i < n; i++) {
		char text[40];
		snprintf(name[i], sizeof(name[i]), "c%u", i);
		snprintf(text, sizeof(text), "%s%u", field, i + 1);
		cfg[i] = (struct gate_class_config){.name = name[i],
						    .match = rule_parse(text, NULL, NULL)};
	}
	if (gate_set_classes(m, cfg, n) < 0)
		exit(1);
	for (unsigned i = 0; i < n; i++)
		rule_free((struct rule *)cfg[i].match);
}

static void scene_begin(struct scene *s)
{
	struct gate_mount_config cfg = mount_config();
	set_limit(&cfg.limits, LIMIT_BPS, 1ULL << 50);
	if (s->each) {
		cfg.fair = FAIR_UID;
		set_limit(&cfg.each, LIMIT_BPS, 1ULL << 50);
	}
	world_init(&s->w);
	gate_set_caller_ops(s->w.gate, s->temperature == COLD ? &fs_caller_ops : &without_proc);
	if (s->temperature == CACHED)
		s->w.clock.clk.now_ns = real_now;
	s->m = world_mount(&s->w, &s->fs, &cfg);
	if (s->field)
		set_classes(s->m, s->field, s->n);
	s->caller = (struct caller){.tid = s->n, .uid = s->n};
	if (s->temperature == COLD)
		s->caller.tid = (uint32_t)getpid();
	s->best_ns = 1e9;
}

static void scene_round(struct scene *s)
{
	const struct cost c = {.cls = COST_READ, .ops = 1, .bytes = 4096};
	unsigned n = s->temperature == COLD ? COLD_REQUESTS : REQUESTS;
	double begin = now_s();
	for (unsigned i = 0; i < n; i++) {
		struct grant grant;
		if (s->temperature == COLD)
			s->w.clock.now += NSEC_PER_SEC;
		if (gate_try(s->m, &c, &s->caller, &grant) != GATE_GO)
			exit(1);
		gate_done(&grant, OUTCOME_OK, 4096);
	}
	double ns = (now_s() - begin) / n * 1e9;
	s->best_ns = ns < s->best_ns ? ns : s->best_ns;
}

static void measure_costs(void)
{
	static struct scene scene[] = {
		{.field = NULL, .n = 1},
		{.field = "uid:", .n = 1},
		{.field = "uid:", .n = 10},
		{.field = "uid:", .n = 100},
		{.field = "cgroup:/g/", .n = 1},
		{.field = "cgroup:/g/", .n = 10},
		{.field = "cgroup:/g/", .n = 100},
		{.field = "cgroup:/g/", .n = 1, .temperature = COLD},
		{.field = "cgroup:/g/", .n = 10, .temperature = COLD},
		{.field = "cgroup:/g/", .n = 100, .temperature = COLD},
		{.field = NULL, .n = 1, .each = true},
		{.field = "uid:", .n = 1, .each = true},
	};
	const unsigned classes = ARRAY_SIZE(scene) - 2;
	for (unsigned i = 0; i < ARRAY_SIZE(scene); i++)
		scene_begin(&scene[i]);
	for (unsigned r = 0; r < ROUNDS; r++)
		for (unsigned i = 0; i < ARRAY_SIZE(scene); i++)
			scene_round(&scene[i]);
	result("a request, no classes", scene[0].best_ns, "ns", 0, 0);
	result("a limit for each user, no classes: added",
	       scene[classes].best_ns - scene[0].best_ns, "ns", 0, 0);
	result("the same, in a class: added", scene[classes + 1].best_ns - scene[0].best_ns, "ns",
	       0, 0);
	for (unsigned i = 1; i < classes; i++) {
		const struct scene *s = &scene[i];
		char name[80];
		snprintf(name, sizeof(name), "%u classes by %.*s%s: added to a request", s->n,
			 (int)strcspn(s->field, ":"), s->field,
			 s->temperature == COLD ? ", cold"
			 : s->field[0] == 'c'	? ", cached"
						: "");
		result(name, s->best_ns - scene[0].best_ns, "ns", s->temperature == COLD ? 0 : 50,
		       0);
	}
	for (unsigned i = 0; i < ARRAY_SIZE(scene); i++)
		world_fini(&scene[i].w, scene[i].fs, scene[i].m);
}

/* --- waiting --- */

/* A request that waits: real time from the end of the one before it to its admission, all in the gate.  One user has `classes`
 * classes with `processes` processes each, which wait at a limit of the mount or of the user. */
struct crowd {
	const char *name;
	unsigned classes, processes;
	bool each;   /* the limit is that of the user */
	bool nested; /* each class is inside the one before it */
	double best_ns;
};

static struct world crowd_world;
static struct gate_mount *crowd_mount;
static uint64_t crowd_served;
static bool crowd_stops;

static void crowd_ask(struct work *k)
{
	struct job *j = &k->job;
	k->fate = PENDING;
	enum gate_verdict v = gate_try(crowd_mount, &j->cost, &j->caller, &j->grant);
	if (v == GATE_WOULD_BLOCK)
		v = gate_park(crowd_mount, j);
	if (v == GATE_GO)
		work_run(j);
}

static void crowd_next(struct work *k)
{
	if (k->fate != RAN)
		return;
	crowd_served++;
	gate_done(&k->job.grant, OUTCOME_OK, 4096);
	if (!crowd_stops)
		crowd_ask(k);
}

static void crowd_classes(const struct crowd *c)
{
	static struct gate_class_config cfg[100];
	static char name[100][16];
	for (unsigned i = 0; i < c->classes; i++) {
		char text[40];
		snprintf(name[i], sizeof(name[i]), "c%u", i);
		snprintf(text, sizeof(text), "gid:%u", i);
		cfg[i] = (struct gate_class_config){.name = name[i],
						    .parent = c->nested && i ? name[i - 1] : NULL,
						    .match = rule_parse(text, NULL, NULL),
						    .fair = FAIR_PROCESS};
	}
	require(gate_set_classes(crowd_mount, cfg, c->classes) == 0);
	for (unsigned i = 0; i < c->classes; i++)
		rule_free((struct rule *)cfg[i].match);
}

static void crowd_round(struct crowd *c)
{
	unsigned n = c->classes * c->processes;
	struct work *k = calloc(n, sizeof(*k));
	struct gate_mount_config cfg = mount_config();
	struct gate_fs *fs;
	require(k != NULL);
	cfg.fair = FAIR_UID;
	set_limit(c->each ? &cfg.each : &cfg.limits, LIMIT_BPS, 4096 * 5000);
	world_init(&crowd_world);
	gate_set_caller_ops(crowd_world.gate, &without_proc);
	crowd_mount = world_mount(&crowd_world, &fs, &cfg);
	crowd_stops = false;
	crowd_classes(c);
	for (unsigned i = 0; i < n; i++) {
		k[i] = (struct work){.world = &crowd_world, .on_end = crowd_next};
		k[i].job = (struct job){.ops = &work_ops,
					.cost = {COST_READ, 1, 4096},
					.caller = {.uid = 1, .gid = i % c->classes, .tid = 1 + i},
					.memory_bytes = 100};
		crowd_ask(&k[i]);
	}
	world_pass(&crowd_world, NSEC_PER_SEC);
	crowd_served = 0;
	double begin = now_s();
	world_pass(&crowd_world, 4 * NSEC_PER_SEC);
	double ns = (now_s() - begin) / (double)crowd_served * 1e9;
	c->best_ns = c->best_ns == 0 || ns < c->best_ns ? ns : c->best_ns;
	crowd_stops = true;
	for (unsigned i = 0; i < n; i++)
		if (k[i].fate == PENDING)
			gate_cancel(crowd_world.gate, &k[i].job);
	world_fini(&crowd_world, fs, crowd_mount);
	free(k);
}

static void measure_waiting(void)
{
	static struct crowd crowd[] = {
		{"1 class with 8 processes, limit of the mount", 1, 8, false, false, 0},
		{"1 class with 8 processes, limit of the user", 1, 8, true, false, 0},
		{"1 class with 1 process, limit of the user", 1, 1, true, false, 0},
		{"1 class with 1000 processes, limit of the mount", 1, 1000, false, false, 0},
		{"1 class with 1000 processes, limit of the user", 1, 1000, true, false, 0},
		{"100 classes with 10 processes, limit of the mount", 100, 10, false, false, 0},
		{"100 classes with 10 processes, limit of the user", 100, 10, true, false, 0},
		{"8 nested classes with 10 processes, limit of the mount", 8, 10, false, true, 0},
		{"8 nested classes with 10 processes, limit of the user", 8, 10, true, true, 0},
	};
	for (unsigned r = 0; r < 5; r++)
		for (unsigned i = 0; i < ARRAY_SIZE(crowd); i++)
			crowd_round(&crowd[i]);
	for (unsigned i = 0; i < ARRAY_SIZE(crowd); i++) {
		char name[100];
		snprintf(name, sizeof(name), "waits: %s", crowd[i].name);
		result(name, crowd[i].best_ns, "ns", 0, 0);
	}
}

/* --- exactness --- */

static struct world w;
static struct gate_mount *m;

struct greedy {
	struct work k;
	uint64_t got, uid;
	int stop;
};

static void ask(struct greedy *g)
{
	work_submit(&w, &g->k, m, COST_READ, 4096, g->uid);
}

static void next(struct work *k)
{
	struct greedy *g = k->owner;
	if (k->fate != RAN)
		return;
	g->got += 4096;
	gate_done(&k->job.grant, OUTCOME_OK, 4096);
	if (!g->stop)
		ask(g);
}

/* n callers with users 0 to n - 1 for so long. */
static void compete(struct greedy *g, unsigned n, unsigned seconds)
{
	for (unsigned i = 0; i < n; i++) {
		g[i] = (struct greedy){.uid = i};
		g[i].k.owner = &g[i];
		g[i].k.on_end = next;
		ask(&g[i]);
	}
	world_pass(&w, seconds * NSEC_PER_SEC);
	for (unsigned i = 0; i < n; i++) {
		g[i].stop = 1;
		if (g[i].k.fate == PENDING)
			gate_cancel(w.gate, &g[i].k.job);
	}
}

static void measure_each(void)
{
	enum { KEYS = 8, SECONDS = 100, RATE = 1 << 20 };
	static struct greedy g[KEYS];
	struct gate_fs *fs;
	struct gate_mount_config cfg = mount_config();
	double worst = 0, sum = 0, squares = 0;
	cfg.fair = FAIR_UID;
	set_limit(&cfg.each, LIMIT_BPS, RATE);
	world_init(&w);
	m = world_mount(&w, &fs, &cfg);
	compete(g, KEYS, SECONDS);
	for (unsigned i = 0; i < KEYS; i++) {
		double got = (double)g[i].got, off = got / ((double)RATE * SECONDS) - 1;
		off = off < 0 ? -off : off;
		worst = off > worst ? off : worst;
		sum += got;
		squares += got * got;
	}
	result("each: 8 keys, largest error of a rate", worst * 100, "percent", 0.2, 0);
	result("each: 8 keys, Jain's index", sum * sum / (KEYS * squares), "", 0.999, 1);
	world_fini(&w, fs, m);
}

static void measure_reservation(void)
{
	enum { GREEDY = 64, SECONDS = 100, RATE = 10 << 20 };
	static struct greedy g[GREEDY + 1];
	struct gate_fs *fs;
	struct gate_mount_config cfg = mount_config();
	double sum = 0;
	cfg.fair = FAIR_UID;
	set_limit(&cfg.limits, LIMIT_BPS, RATE);
	world_init(&w);
	m = world_mount(&w, &fs, &cfg);
	struct rule *r = rule_parse("uid:0", NULL, NULL);
	const struct gate_class_config c = {
		.name = "reserved", .match = r, .fair = FAIR_UID, .reserve_bps = RATE * 3ULL / 10};
	if (gate_set_classes(m, &c, 1) < 0)
		exit(1);
	rule_free(r);
	compete(g, GREEDY + 1, SECONDS);
	for (unsigned i = 0; i <= GREEDY; i++)
		sum += (double)g[i].got;
	double off = (double)g[0].got / sum * 100 - 30;
	result("a reservation of 30 % beside 64 greedy callers, error", off < 0 ? -off : off,
	       "percent", 0.5, 0);
	world_fini(&w, fs, m);
}

int main(int argc, char **argv)
{
	measure_costs();
	measure_waiting();
	measure_each();
	measure_reservation();
	return missed && argc > 1 && !strcmp(argv[1], "--strict");
}
