/* SPDX-License-Identifier: MIT */
/* The scheduler: random submissions, cancellations, time, reconfiguration, pauses and completions.  Oracle: the
 * window invariant of every bucket (gate_model.c), exactly one outcome per job, first come first served within a key,
 * debts that are paid as if they were grants, nobody left behind when time goes on, and nothing held when nothing
 * waits. */
#include "base/list.h"
#include "fuzz/fuzz.h"
#include "fuzz/gate_model.h"
#include "sched/gate_internal.h"
#include "unit/fake_clock.h"

#define FS     2
#define MOUNTS 3
#define JOBS   96
#define STEPS  400
#define KEYS   64 /* more than are ever used */

enum state { FREE, PARKED, READY };

struct fuzz_job {
	struct job job;
	enum state state;
	unsigned mount;
	uint64_t order; /* of parking */
	bool fresh;	/* ready, and not looked at yet */
};

static struct world {
	struct input in;
	struct fake_clock clock;
	struct gate *gate;
	struct gate_fs *fs[FS];
	struct gate_mount *mount[MOUNTS];
	struct model *model;
	struct fuzz_job job[JOBS];
	uint64_t orders;
	unsigned parked, ready;
	struct debts {
		uint64_t ops[COST_CLASSES], bytes[COST_CLASSES];
	} debts[MOUNTS];
	bool taking;
	bool draining;	    /* limits no longer count */
	bool mixes[MOUNTS]; /* has had few keys: who has none of its own waits in another's queue */
} w;

/* --- outcomes ------------------------------------------------------------------------------- */

static bool same_queue(const struct fuzz_job *a, const struct fuzz_job *b)
{
	return a->mount == b->mount && a->job.key.kind == b->job.key.kind &&
	       a->job.key.id == b->job.key.id && a->job.cost.cls == b->job.cost.cls &&
	       a->job.probe == b->job.probe;
}

static void on_ready(void *ctx, struct list *ready)
{
	while (!list_empty(ready)) {
		struct fuzz_job *j = list_entry(ready->next, struct fuzz_job, job.link);
		list_remove(&j->job.link);
		MUST(j->state == PARKED);
		j->state = READY;
		j->fresh = true;
		w.parked--;
		w.ready++;
		if (!j->job.probe)
			model_grant(w.model, &j->job.grant, w.draining);
	}
}

/* First come, first served.  Looked at when a step is over: who is refused in the same step is told after those who go. */
static void check_order(void)
{
	for (unsigned k = 0; k < JOBS; k++) {
		struct fuzz_job *j = &w.job[k];
		if (j->state != READY || !j->fresh)
			continue;
		j->fresh = false;
		for (unsigned i = 0; i < JOBS; i++)
			MUST(w.draining || w.mixes[j->mount] || w.job[i].state != PARKED ||
			     !same_queue(&w.job[i], j) || w.job[i].order > j->order);
	}
}

static void on_refuse(struct job *job, enum grant_result why)
{
	struct fuzz_job *j = container_of(job, struct fuzz_job, job);
	MUST(j->state == PARKED);
	MUST(why == GRANT_TIMED_OUT || why == GRANT_CANCELLED || why == GRANT_MISCONFIGURED);
	j->state = FREE;
	w.parked--;
}

static void settle(unsigned mount, const struct grant *g, uint8_t how)
{
	enum gate_outcome outcome = how % 4   ? OUTCOME_OK
				    : how & 4 ? OUTCOME_FAILED
					      : OUTCOME_CANCELLED;
	uint64_t moved = outcome != OUTCOME_OK ? 0 : how & 8 ? g->cost.bytes / 2 : g->cost.bytes;
	model_done(w.model, g, moved);
	gate_done(g, outcome, moved);
}

static void on_run(struct job *job)
{
	struct fuzz_job *j = container_of(job, struct fuzz_job, job);
	struct grant grant = job->grant;
	bool probe = job->probe;
	MUST(j->state == READY);
	j->state = FREE;
	w.ready--;
	if (!probe)
		settle(j->mount, &grant, input_byte(&w.in));
}

static const struct job_ops ops = {on_run, on_refuse};

/* --- debts ---------------------------------------------------------------------------------- */

static void add_debt(struct key *key, void *arg)
{
	struct debts *d = arg;
	for (const struct account *a = key->accounts; a; a = a->next) {
		MUST((a->owed_ops || a->owed_bytes) == (a->debt.state == JOB_PARKED));
		d->ops[a->cls] += a->owed_ops;
		d->bytes[a->cls] += a->owed_bytes;
	}
}

/* What has been paid since the last look was taken from every bucket on the way. */
static void tell_debts(void)
{
	for (unsigned i = 0; i < MOUNTS && !w.taking; i++) {
		struct debts now = {0}, *was = &w.debts[i];
		const struct gate_mount *m = w.mount[i];
		keys_each(&w.mount[i]->leaf.keys, add_debt, &now);
		for (unsigned c = 0; c < COST_CLASSES; c++) {
			struct cost paid = {c, (uint32_t)(was->ops[c] - now.ops[c]),
					    was->bytes[c] - now.bytes[c]};
			MUST(now.ops[c] <= was->ops[c] && now.bytes[c] <= was->bytes[c]);
			if ((paid.ops || paid.bytes) && !w.draining &&
			    !chain_misconfigured(leaf_limits(&m->leaf, c), &paid))
				model_paid(w.model, leaf_limits(&m->leaf, c), &paid);
		}
		*was = now;
	}
}

/* --- what can be done ----------------------------------------------------------------------- */

static struct limiter_config some_limits(void)
{
	struct limiter_config c = {.window_ns = 0};
	uint8_t which = input_byte(&w.in);
	for (unsigned k = 0; k < LIMIT_KINDS; k++) {
		if (!(which & 1U << k))
			continue;
		uint8_t more = input_byte(&w.in);
		c.limit[k].enabled = true;
		c.limit[k].rate_per_sec = input_number(&w.in, 31);
		if (c.limit[k].rate_per_sec == 0 && more & 7)
			c.limit[k].rate_per_sec = 1; /* a rate of 0 is a mistake: rare */
		if (more & 32)
			c.limit[k].burst = input_number(&w.in, 24);
		if (more & 64)
			c.limit[k].once = input_number(&w.in, 24);
	}
	if (which & 128) {
		c.window_ns = input_number(&w.in, 31);
		c.max_inflight = input_number(&w.in, 4);
	}
	return c;
}

static struct gate_mount_config some_mount(void)
{
	static const struct weight_rule weights[] = {{{FAIR_UID, 1}, NULL, 3},
						     {{FAIR_PROCESS, 2}, NULL, 5}};
	uint8_t how = input_byte(&w.in);
	struct gate_mount_config c = {
		.limits = some_limits(),
		.weight = how & 3,
		.max_wait_ns = how & 4 ? input_number(&w.in, 34) : 0,
		.max_parked = how & 8 ? input_number(&w.in, 5) : 200,
		.max_keys = how & 16 ? input_number(&w.in, 4) : KEYS,
		.full_rejects = how & 32,
		.dry_run = (how & 0xc0) == 0xc0,
		.fair = how & 1 ? FAIR_UID : FAIR_PROCESS,
		.weights = weights,
		.n_weights = how & 64 ? 2 : 0,
	};
	return c;
}

static struct cost some_cost(void)
{
	struct cost c = {.cls = input_byte(&w.in) % COST_CLASSES, .ops = 1};
	if (c.cls != COST_META && c.cls != COST_OPENCLOSE)
		c.bytes = 1 + input_number(&w.in, 20); /* the kernel asks for no empty ones */
	return c;
}

static struct caller some_caller(uint8_t who)
{
	return (struct caller){.tid = who >> 1 & 15, .uid = who & 3};
}

/* Goes whatever the limits say. */
static void go_now(unsigned mount)
{
	struct cost cost = some_cost();
	cost.bytes %= 16384; /* or most of the time is spent on paying */
	struct grant grant;
	struct caller caller = some_caller(input_byte(&w.in));
	gate_step(w.gate, w.clock.now); /* what is due is not due to this */
	tell_debts();
	w.taking = true; /* others may be admitted before it is known that it owes */
	bool charged = gate_take(w.mount[mount], &cost, &caller, &grant);
	w.taking = false;
	if (!charged) {
		const struct chain *ch = leaf_limits(&w.mount[mount]->leaf, cost.cls);
		bool owes = ch && !chain_misconfigured(ch, &cost);
		w.debts[mount].ops[cost.cls] += owes ? cost.ops : 0;
		w.debts[mount].bytes[cost.cls] += owes ? cost.bytes : 0;
		MUST((grant.chain != NULL) == owes);
	}
	model_grant(w.model, &grant, !charged);
	settle(mount, &grant, charged ? input_byte(&w.in) | 1 : 1);
}

static void try_now(unsigned mount, bool partial)
{
	struct cost cost = some_cost();
	struct grant grant = {0};
	struct caller caller = some_caller(partial ? input_byte(&w.in) : 0);
	enum gate_verdict v = partial ? gate_try_nonblocking(w.mount[mount], &cost, &caller,
							     GATE_PARTIAL_BYTES, &grant)
				      : gate_try(w.mount[mount], &cost, &caller, &grant);
	if (v != GATE_GO)
		return;
	MUST(grant.cost.bytes <= cost.bytes);
	MUST(partial || grant.cost.bytes == cost.bytes);
	model_grant(w.model, &grant, false);
	settle(mount, &grant, input_byte(&w.in));
}

static void submit(unsigned mount)
{
	struct fuzz_job *j = NULL;
	for (unsigned i = 0; i < JOBS && !j; i++)
		if (w.job[i].state == FREE)
			j = &w.job[i];
	if (!j)
		return;
	uint8_t who = input_byte(&w.in);
	*j = (struct fuzz_job){
		.job = {.ops = &ops,
			.cost = some_cost(),
			.caller = some_caller(who),
			.memory_bytes = 4096,
			.probe = who > 240},
		.state = PARKED,
		.mount = mount,
		.order = w.orders++,
	};
	w.parked++;
	enum gate_verdict v = gate_park(w.mount[mount], &j->job);
	if (v == GATE_PARKED)
		return; /* and may have become ready, or have been refused, since */
	MUST(j->state == PARKED);
	w.parked--;
	j->state = FREE;
	if (v == GATE_GO && !j->job.probe) {
		struct grant grant = j->job.grant;
		model_grant(w.model, &grant, false);
		settle(mount, &grant, input_byte(&w.in));
	}
}

static struct fuzz_job *some_job(enum state state)
{
	uint8_t start = input_byte(&w.in);
	for (unsigned i = 0; i < JOBS; i++)
		if (w.job[(start + i) % JOBS].state == state)
			return &w.job[(start + i) % JOBS];
	return NULL;
}

static void cancel(void)
{
	struct fuzz_job *j = some_job(PARKED);
	if (!j)
		return;
	/* Nothing moves between the look and the call here, so it must come back. */
	MUST(gate_cancel(w.gate, &j->job));
	MUST(j->state == PARKED);
	j->state = FREE;
	w.parked--;
}

static void run_one(void)
{
	struct fuzz_job *j = some_job(READY);
	if (j)
		j->job.ops->run(&j->job);
}

static void advance(uint64_t ns)
{
	w.clock.now += ns;
	model_time(w.model, w.clock.now);
	gate_step(w.gate, w.clock.now);
}

static void reconfigure(void)
{
	uint8_t what = input_byte(&w.in);
	model_time(w.model, w.clock.now);
	gate_step(w.gate, w.clock.now); /* under the limits as they are */
	tell_debts();
	if (what % 3 == 0) {
		struct limiter_config c = some_limits();
		MUST(gate_set_global(w.gate, &c) == 0);
	} else if (what % 3 == 1) {
		struct limiter_config c = some_limits();
		MUST(gate_set_fs(w.fs[what / 3 % FS], &c) == 0);
	} else {
		struct gate_mount_config c = some_mount();
		c.dry_run = false;
		w.mixes[what / 3 % MOUNTS] |= c.max_keys < KEYS;
		MUST(gate_set_mount(w.mount[what / 3 % MOUNTS], &c) == 0);
	}
	model_reconfigured(w.model);
}

static void pause_some(bool paused)
{
	uint8_t what = input_byte(&w.in) % 6;
	if (what == 0)
		MUST(gate_pause_global(w.gate, paused) == 0);
	else if (what <= FS)
		MUST(gate_pause_fs(w.fs[what - 1], paused) == 0);
	else
		MUST(gate_pause_mount(w.mount[what - 1 - FS], paused) == 0);
}

static void one_step(void)
{
	uint8_t what = input_byte(&w.in);
	unsigned mount = (what >> 4) % MOUNTS;
	switch (what & 15) {
	case 0:
	case 1:
	case 2:
	case 3:
		submit(mount);
		break;
	case 4:
	case 5:
		try_now(mount, what & 1);
		break;
	case 6:
	case 7:
		run_one();
		break;
	case 8:
	case 9:
		advance(input_number(&w.in, 33));
		break;
	case 10:
		if (w.clock.armed_ns != NEVER && w.clock.armed_ns > w.clock.now)
			advance(w.clock.armed_ns - w.clock.now);
		break;
	case 11:
		cancel();
		break;
	case 12:
		reconfigure();
		break;
	case 13:
		pause_some(what & 16);
		break;
	case 14:
		go_now(mount);
		break;
	default:
		gate_stats_reset(w.gate);
		break;
	}
}

/* --- a life --------------------------------------------------------------------------------- */

static void start(void)
{
	struct limiter_config c;
	fake_clock_init(&w.clock, NSEC_PER_SEC);
	w.model = model_new();
	model_time(w.model, w.clock.now);
	w.gate = gate_new(&w.clock.clk, on_ready, NULL);
	MUST(w.gate);
	c = some_limits();
	MUST(gate_set_global(w.gate, &c) == 0);
	for (unsigned i = 0; i < FS; i++) {
		c = some_limits();
		w.fs[i] = gate_fs_new(w.gate, i ? "b" : "a", &c);
		MUST(w.fs[i]);
	}
	for (unsigned i = 0; i < MOUNTS; i++) {
		struct gate_mount_config mc = some_mount();
		mc.dry_run = false; /* whoever may always go breaks every bound */
		w.mixes[i] = mc.max_keys < KEYS;
		w.mount[i] = gate_mount_new(w.fs[i % FS], "m", &mc);
		MUST(w.mount[i]);
	}
}

static void run_all(void)
{
	for (unsigned i = 0; i < JOBS; i++)
		if (w.job[i].state == READY)
			w.job[i].job.ops->run(&w.job[i].job);
}

/* Turns that debts will need, at the most. */
static uint64_t instalments(void)
{
	uint64_t n = 0;
	for (unsigned i = 0; i < MOUNTS; i++)
		for (unsigned c = 0; c < COST_CLASSES; c++)
			n += w.debts[i].ops[c] + w.debts[i].bytes[c] / 4096 + 1;
	return n;
}

/* Unpaused, with time and with every admitted job ending, all must come out. */
static void let_all_go(void)
{
	gate_pause_global(w.gate, false);
	for (unsigned i = 0; i < FS; i++)
		gate_pause_fs(w.fs[i], false);
	for (unsigned i = 0; i < MOUNTS; i++)
		gate_pause_mount(w.mount[i], false);
	uint64_t rounds = 20 * (JOBS + instalments());
	for (unsigned round = 0; w.parked + w.ready > 0; round++) {
		MUST(round < rounds);
		run_all();
		tell_debts();
		if (w.parked + w.ready == 0)
			break;
		if (w.ready)
			continue;
		MUST(w.clock.armed_ns != NEVER);
		advance(w.clock.armed_ns > w.clock.now ? w.clock.armed_ns - w.clock.now : 1);
		tell_debts();
		check_order();
	}
	/* a probe keeps tokens for a moment after its turn, and debts are to be paid */
	for (unsigned round = 0; heap_top(&w.gate->due) || heap_top(&w.gate->vouchers); round++) {
		MUST(round < rounds);
		advance(w.clock.armed_ns > w.clock.now ? w.clock.armed_ns - w.clock.now : 1);
		tell_debts();
	}
}

static void end(void)
{
	uint8_t how = input_byte(&w.in);
	if (how & 1) {
		w.draining = true;
		for (unsigned i = 0; i < MOUNTS; i++)
			gate_mount_drain(w.mount[i], how & 2);
		gate_step(w.gate, w.clock.now);
		run_all();
		MUST(w.parked == 0 && w.ready == 0);
	} else {
		let_all_go();
	}
	model_check_empty(w.model);
	for (unsigned i = 0; i < MOUNTS; i++)
		gate_mount_free(w.mount[i]);
	for (unsigned i = 0; i < FS; i++)
		gate_fs_free(w.fs[i]);
	gate_free(w.gate);
	model_free(w.model);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	memset(&w, 0, sizeof(w));
	w.in = (struct input){data, size};
	start();
	for (unsigned i = 0; i < STEPS && w.in.left; i++) {
		one_step();
		tell_debts();
		check_order();
	}
	end();
	return 0;
}
