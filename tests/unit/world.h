/* SPDX-License-Identifier: MIT */
/* A gate on a fake clock, for tests: time moves only by world_until, admitted jobs are recorded with
 * the moment of their release and end immediately unless the test keeps them. */
#ifndef UNIT_WORLD_H
#define UNIT_WORLD_H

#include <stdio.h>
#include <string.h>

#include "sched/gate.h"
#include "sched/stats.h"
#include "unit/unit.h"
#include "unit/fake_clock.h"

#define KIB 1024ULL
#define MIB (1024ULL * 1024)
#define SEC NSEC_PER_SEC
#define MS  NSEC_PER_MSEC

static const struct caller nobody;

struct world;

enum fate { PENDING, RAN, REFUSED, CANCELLED };

struct work {
	struct job job;
	struct world *world;
	struct gate_mount *mount;
	enum fate fate;
	unsigned ends; /* how often it ended: must become exactly 1 */
	uint64_t came_ns, end_ns;
	unsigned order; /* of release in the whole world */
	enum grant_result why;
	void *owner;			/* for the test */
	void (*on_end)(struct work *w); /* called instead of ending immediately */
};

struct world {
	struct fake_clock clock;
	struct gate *gate;
	unsigned released;
	struct list queue; /* admitted, to be run */
	bool running;
	bool keep; /* admitted jobs keep their permits until world_end */
};

static inline void work_run(struct job *j)
{
	struct work *w = container_of(j, struct work, job);
	w->fate = RAN;
	w->ends++;
	w->end_ns = w->world->clock.now;
	w->order = w->world->released++;
	if (w->on_end)
		w->on_end(w);
	else if (!w->world->keep)
		gate_done(&j->grant, OUTCOME_OK, j->grant.cost.bytes);
}

static inline void work_refuse(struct job *j, enum grant_result why)
{
	struct work *w = container_of(j, struct work, job);
	w->fate = REFUSED;
	w->why = why;
	w->ends++;
	w->end_ns = w->world->clock.now;
	if (w->on_end)
		w->on_end(w);
}

static const struct job_ops work_ops = {work_run, work_refuse};

/* Runs jobs one after the other, as one worker would: a job whose end admits others does not run them. */
static inline void world_dispatch(void *ctx, struct list *ready)
{
	struct world *w = ctx;
	list_splice_tail(&w->queue, ready);
	if (w->running)
		return;
	w->running = true;
	while (!list_empty(&w->queue)) {
		struct job *j = list_first(&w->queue, struct job, link);
		list_remove(&j->link);
		j->ops->run(j);
	}
	w->running = false;
}

static inline void world_init(struct world *w)
{
	memset(w, 0, sizeof(*w));
	list_init(&w->queue);
	fake_clock_init(&w->clock, 1000 * SEC);
	w->gate = gate_new(&w->clock.clk, world_dispatch, w);
	ck_assert_ptr_nonnull(w->gate);
}

/* Steps the gate whenever it wants to be stepped, up to and at `until_ns`. */
static inline void world_until(struct world *w, uint64_t until_ns)
{
	while (w->clock.armed_ns <= until_ns) {
		w->clock.now = max_u64(w->clock.now, w->clock.armed_ns);
		w->clock.armed_ns = NEVER;
		gate_step(w->gate, w->clock.now);
	}
	w->clock.now = until_ns;
}

static inline void world_pass(struct world *w, uint64_t ns)
{
	world_until(w, w->clock.now + ns);
}

/* try, then park: what the fs layer does.  The verdict is GO, PARKED, FULL or MISCONFIGURED. */
static inline enum gate_verdict work_submit(struct world *w, struct work *k, struct gate_mount *m,
					    enum cost_class cls, uint64_t bytes, uint64_t key)
{
	k->job.ops = &work_ops;
	k->job.cost = (struct cost){cls, 1, bytes};
	if (gate_model(m))
		k->job.cost.ops = gate_ops(m, &k->job.cost);
	k->job.caller = (struct caller){.tid = (uint32_t)key, .uid = (uint32_t)key};
	if (!k->job.memory_bytes)
		k->job.memory_bytes = 100;
	k->world = w;
	k->mount = m;
	k->fate = PENDING;
	k->ends = 0;
	k->came_ns = w->clock.now;
	enum gate_verdict v = k->job.probe || gate_model(m) == GATE_MODEL_TIME
				      ? GATE_WOULD_BLOCK
				      : gate_try(m, &k->job.cost, &k->job.caller, &k->job.grant);
	if (v == GATE_WOULD_BLOCK)
		v = gate_park(m, &k->job);
	if (v == GATE_GO)
		work_run(&k->job);
	return v;
}

static inline struct gate_mount_config mount_config(void)
{
	return (struct gate_mount_config){.weight = 1, .fair = FAIR_PROCESS};
}

static inline void set_limit(struct limiter_config *c, enum limit_kind kind, uint64_t rate)
{
	c->limit[kind].enabled = true;
	c->limit[kind].rate_per_sec = rate;
}

/* One fs with one mount. */
static inline struct gate_mount *world_mount(struct world *w, struct gate_fs **fs,
					     const struct gate_mount_config *cfg)
{
	static const struct limiter_config none;
	*fs = gate_fs_new(w->gate, "fs", &none);
	ck_assert_ptr_nonnull(*fs);
	struct gate_mount *m = gate_mount_new(*fs, "mount", cfg);
	ck_assert_ptr_nonnull(m);
	return m;
}

static inline void world_fini(struct world *w, struct gate_fs *fs, struct gate_mount *m)
{
	gate_mount_free(m);
	gate_fs_free(fs);
	gate_free(w->gate);
}

/* Parses a rule that must be valid; free it with rule_free. */
static inline struct rule *rule(const char *text)
{
	struct error err = ERROR_INIT;
	struct rule *r = rule_parse(text, NULL, &err);
	ck_assert_msg(r != NULL, "%s", err.text);
	return r;
}

static inline void near(double is, double want, double percent)
{
	ck_assert_msg(is >= want * (1 - percent / 100) && is <= want * (1 + percent / 100),
		      "%.0f is not within %.2f %% of %.0f", is, percent, want);
}

#endif
