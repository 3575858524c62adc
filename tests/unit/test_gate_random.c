/* SPDX-License-Identifier: MIT */
/* Random schedules against a model.  Each round is a new world: scopes, limits, and some hundred
 * random events (requests, cancels, time-outs, ends with short or failed transfers, limit changes,
 * pauses, mounts that come and go, late wake-ups), and then the end of everything.  Asserted:
 *	nothing is granted early: the window invariant of every bucket, at the moment of release;
 *	debts are paid: what was done without waiting is taken from every bucket in the end;
 *	every job ends exactly once, and FIFO within (mount, key, class);
 *	whenever nothing is going on: the inside is consistent and nobody waits without a reason;
 *	at the end: no gate, claim, prepaid op, permit or parked job is left.
 * RATEFS_ROUNDS sets the number of rounds, RATEFS_SEED the first seed. */
#include "unit/gate_check.h"
#include "unit/world.h"

#define MAX_FS	   3
#define MAX_MOUNTS 6
#define MAX_JOBS   256
#define KEYS	   5

/* What has been granted and not yet been earned back, per limit. */
struct shadow {
	double owed;
	uint64_t at_ns;
	/* Of that, what was paid for debts at this very moment: the model may hear of a grant after the payment,
	 * although the grant came first. */
	double just_paid;
	uint64_t peak; /* highest rate so far: bounds what 5 ms of backdating can add */
};

struct model_scope {
	struct shadow limit[LIMIT_KINDS];
};

struct sim {
	struct world w;
	uint64_t rng;
	struct gate_fs *fs[MAX_FS];
	struct gate_mount *mount[MAX_MOUNTS];
	unsigned fs_of[MAX_MOUNTS];
	struct gate_mount_config cfg[MAX_MOUNTS];
	struct limiter_config fs_cfg[MAX_FS], global_cfg;
	struct model_scope global, fs_model[MAX_FS], mount_model[MAX_MOUNTS];
	bool taking;
	unsigned n_fs;
	struct work job[MAX_JOBS];
	unsigned mount_of[MAX_JOBS];
	uint64_t seq_of[MAX_JOBS], seq;
	enum { FREE, WAITING, RUNNING } at[MAX_JOBS];
	uint64_t last_seq[MAX_MOUNTS][KEYS][COST_CLASSES];
	bool draining[MAX_MOUNTS];
	uint64_t debt_ops[MAX_MOUNTS][COST_CLASSES], debt_bytes[MAX_MOUNTS][COST_CLASSES];
	bool hold_open; /* jobs keep running until the simulation ends them */
	uint64_t released, refused, cancelled, parked, paid, turns;
};

static uint64_t rnd(struct sim *s, uint64_t below)
{
	s->rng ^= s->rng << 13;
	s->rng ^= s->rng >> 7;
	s->rng ^= s->rng << 17;
	return (s->rng * 0x2545F4914F6CDD1DULL >> 11) % below;
}

static bool chance(struct sim *s, unsigned percent)
{
	return rnd(s, 100) < percent;
}

/* --- the model --- */

static void shadow_drain(struct shadow *x, const struct limit_config *l, uint64_t now_ns)
{
	x->peak = max_u64(x->peak, l->rate_per_sec);
	x->owed -= (double)l->rate_per_sec * (double)(now_ns - x->at_ns) / 1e9;
	if (x->owed <= 0)
		x->owed = 0;
	if (x->at_ns != now_ns)
		x->just_paid = 0;
	x->at_ns = now_ns;
}

static bool charged(const struct limiter_config *c, enum cost_class cls, unsigned kind)
{
	bool meta_read = cls == COST_META_READ, meta_write = cls == COST_META_WRITE;
	bool meta = cls == COST_META || cls == COST_OPENCLOSE || meta_read || meta_write;
	if (!c->limit[kind].enabled)
		return false;
	switch (kind) {
	case LIMIT_IOPS:
		return !meta || !c->limit[LIMIT_META_IOPS].enabled;
	case LIMIT_META_IOPS:
		return meta;
	case LIMIT_READ_IOPS:
		return cls == COST_READ || cls == COST_COPY;
	case LIMIT_WRITE_IOPS:
		return cls == COST_WRITE || cls == COST_COPY;
	case LIMIT_BPS:
		return cls == COST_READ || cls == COST_WRITE || cls == COST_COPY || meta_read ||
		       meta_write;
	case LIMIT_READ_BPS:
		return cls == COST_READ || cls == COST_READDIR || cls == COST_COPY || meta_read;
	default:
		return cls == COST_WRITE || cls == COST_COPY || meta_write;
	}
}

static double tokens(enum cost_class cls, unsigned kind, double ops, double bytes)
{
	if (!limit_kind_is_bytes(kind))
		return ops;
	return kind == LIMIT_BPS && cls == COST_COPY ? 2 * bytes : bytes;
}

/* A grant is allowed if it fits beside what is still owed (if it is larger than the bucket: if nothing is owed), with a
 * tolerance of 5 ms of backdating and one prepaid op per lane. */
static void model_grant(struct model_scope *ms, const struct limiter_config *c,
			const struct cost *cost, uint64_t now_ns)
{
	for (unsigned k = 0; k < LIMIT_KINDS; k++) {
		if (!charged(c, cost->cls, k) || !c->limit[k].rate_per_sec)
			continue;
		double n = tokens(cost->cls, k, cost->ops, (double)cost->bytes);
		double cap = (double)limit_capacity(&c->limit[k], c->window_ns);
		shadow_drain(&ms->limit[k], &c->limit[k], now_ns);
		double slack = (double)ms->limit[k].peak * 0.005 + 2;
		slack += ms->limit[k].just_paid + (limit_kind_is_bytes(k) ? 0 : LANES);
		must_say(ms->limit[k].owed + (n < cap ? n : cap) <= cap + slack,
			 "%s granted early: owed %.0f, asked %.0f, capacity %.0f, slack %.1f",
			 limit_kind_name(k), ms->limit[k].owed, n, cap, slack);
		ms->limit[k].owed += n;
	}
}

static bool in_chain(const struct chain *ch, const struct limiter *l, unsigned kind)
{
	for (unsigned i = 0; ch && i < ch->links; i++)
		if (ch->link[i].limiter == l && ch->link[i].kind == kind)
			return true;
	return false;
}

/* Charges tokens without checking; a grant knows only the limits that existed when it was made. */
static void model_correct(struct model_scope *ms, const struct limiter_config *c,
			  const struct chain *ch, const struct limiter *l, enum cost_class cls,
			  double ops, double bytes, uint64_t now_ns)
{
	for (unsigned k = 0; k < LIMIT_KINDS; k++) {
		if (!charged(c, cls, k) || !in_chain(ch, l, k))
			continue;
		shadow_drain(&ms->limit[k], &c->limit[k], now_ns);
		ms->limit[k].owed += tokens(cls, k, ops, bytes);
		if (bytes > 0 || ops > 0)
			ms->limit[k].just_paid += tokens(cls, k, ops, bytes);
		if (ms->limit[k].owed < 0)
			ms->limit[k].owed = 0;
	}
}

static void corrected(struct sim *s, unsigned m, const struct chain *ch, enum cost_class cls,
		      double ops, double bytes)
{
	unsigned f = s->fs_of[m];
	uint64_t now = s->w.clock.now;
	model_correct(&s->global, &s->global_cfg, ch, s->w.gate->global.limiter, cls, ops, bytes,
		      now);
	model_correct(&s->fs_model[f], &s->fs_cfg[f], ch, s->fs[f]->node.limiter, cls, ops, bytes,
		      now);
	model_correct(&s->mount_model[m], &s->cfg[m].limits, ch, s->mount[m]->leaf.node.limiter,
		      cls, ops, bytes, now);
}

struct debt {
	uint64_t ops[COST_CLASSES], bytes[COST_CLASSES];
};

static void add_debt(struct key *key, void *arg)
{
	struct debt *d = arg;
	for (const struct account *a = key->accounts; a; a = a->next) {
		must((a->owed_ops || a->owed_bytes) == (a->debt.state == JOB_PARKED));
		d->ops[a->cls] += a->owed_ops;
		d->bytes[a->cls] += a->owed_bytes;
	}
}

/* Charges what has been paid of debts since the last call to the limits of this moment.  A debt whose limit now
 * has rate 0 was dropped. */
static void look_at_debts(struct sim *s, unsigned m)
{
	struct debt now = {0};
	keys_each(&s->mount[m]->leaf.keys, add_debt, &now);
	for (unsigned c = 0; c < COST_CLASSES; c++) {
		uint64_t ops = s->debt_ops[m][c] - now.ops[c];
		uint64_t bytes = s->debt_bytes[m][c] - now.bytes[c];
		struct cost paid = {(enum cost_class)c, (uint32_t)ops, bytes};
		s->debt_ops[m][c] = now.ops[c];
		s->debt_bytes[m][c] = now.bytes[c];
		must(ops <= UINT32_MAX && bytes < 1ULL << 60); /* nothing is owed twice */
		if ((!ops && !bytes) || s->draining[m] || s->cfg[m].dry_run ||
		    chain_misconfigured(leaf_limits(&s->mount[m]->leaf, c), &paid))
			continue;
		corrected(s, m, leaf_limits(&s->mount[m]->leaf, c), (enum cost_class)c, (double)ops,
			  (double)bytes);
		s->paid += ops;
	}
}

static void tell_debts(struct sim *s)
{
	for (unsigned m = 0; m < MAX_MOUNTS && !s->taking; m++)
		if (s->mount[m])
			look_at_debts(s, m);
}

static void look(struct sim *s)
{
	tell_debts(s);
	gate_check(s->w.gate);
}

static void granted(struct sim *s, unsigned m, const struct grant *gr)
{
	const struct cost *c = &gr->cost;
	uint64_t now = s->w.clock.now;
	unsigned f = s->fs_of[m];
	if (s->draining[m])
		return;
	tell_debts(s);
	if (s->cfg[m].dry_run) {
		corrected(s, m, gr->chain, c->cls, c->ops, (double)c->bytes);
		return;
	}
	model_grant(&s->global, &s->global_cfg, c, now);
	model_grant(&s->fs_model[f], &s->fs_cfg[f], c, now);
	model_grant(&s->mount_model[m], &s->cfg[m].limits, c, now);
}

/* A limit that changes keeps its level, as far as it fits; one that is new is full. */
static void model_limits(struct model_scope *ms, const struct limiter_config *old,
			 const struct limiter_config *new, uint64_t now_ns)
{
	for (unsigned k = 0; k < LIMIT_KINDS; k++) {
		struct shadow *x = &ms->limit[k];
		if (!old->limit[k].enabled || !new->limit[k].enabled) {
			*x = (struct shadow){.at_ns = now_ns};
			continue;
		}
		shadow_drain(x, &old->limit[k], now_ns);
		x->owed += (double)limit_capacity(&new->limit[k], new->window_ns) -
			   (double)limit_capacity(&old->limit[k], old->window_ns);
		if (x->owed < 0)
			x->owed = 0;
	}
}

/* --- events --- */

static void finish(struct sim *s, unsigned i)
{
	struct work *k = &s->job[i];
	const struct grant *gr = &k->job.grant;
	unsigned m = s->mount_of[i];
	uint64_t bytes = gr->cost.bytes, moved = bytes;
	enum gate_outcome out = OUTCOME_OK;
	if (chance(s, 20))
		out = chance(s, 50) ? OUTCOME_FAILED : OUTCOME_CANCELLED;
	else if (chance(s, 40))
		moved = rnd(s, bytes + 1);
	if (out != OUTCOME_OK)
		moved = 0;
	s->at[i] = FREE;
	tell_debts(s); /* before the refund, in the order in which it happened */
	if (gr->chain && !gr->probe)
		corrected(s, m, gr->chain, gr->cost.cls, 0, (double)moved - (double)bytes);
	gate_done(gr, out, moved);
}

static void ended(struct work *k)
{
	struct sim *s = container_of(k->world, struct sim, w);
	unsigned i = (unsigned)(k - s->job), m = s->mount_of[i];
	must(s->at[i] == WAITING);
	must(k->ends == 1);
	if (k->fate == REFUSED) {
		s->at[i] = FREE;
		s->refused++;
		return;
	}
	s->released++;
	s->at[i] = RUNNING;
	if (!k->job.probe) {
		uint64_t *last = &s->last_seq[m][k->job.key.id][k->job.cost.cls];
		must_say(s->seq_of[i] > *last, "order within a key is FIFO");
		*last = s->seq_of[i];
		granted(s, m, &k->job.grant);
	}
	if (k->job.probe || !s->hold_open || chance(s, 40))
		finish(s, i);
}

static unsigned some_mount(struct sim *s)
{
	unsigned m = (unsigned)rnd(s, MAX_MOUNTS);
	while (!s->mount[m])
		m = (m + 1) % MAX_MOUNTS;
	return m;
}

static uint64_t random_bytes(struct sim *s, enum cost_class cls)
{
	if (cls == COST_META || cls == COST_OPENCLOSE)
		return 0;
	switch (rnd(s, 4)) {
	case 0:
		return rnd(s, 100);
	case 1:
		return 4 * KIB;
	case 2:
		return MIB;
	default:
		return rnd(s, 200 * KIB);
	}
}

static void submit(struct sim *s)
{
	unsigned i = 0;
	while (i < MAX_JOBS && s->at[i] != FREE)
		i++;
	if (i == MAX_JOBS)
		return;
	unsigned m = some_mount(s);
	enum cost_class cls = (enum cost_class)rnd(s, COST_CLASSES);
	struct work *k = &s->job[i];
	memset(k, 0, sizeof(*k));
	k->on_end = ended;
	k->job.probe = chance(s, 4);
	s->mount_of[i] = m;
	s->seq_of[i] = ++s->seq;
	s->at[i] = WAITING;
	enum gate_verdict v =
		work_submit(&s->w, k, s->mount[m], cls, random_bytes(s, cls), rnd(s, KEYS));
	if (v == GATE_FULL || v == GATE_NO_ROOM || v == GATE_MISCONFIGURED)
		s->at[i] = FREE;
	s->parked += v == GATE_PARKED;
}

/* A request that is always admitted; its key may go into debt for it. */
static void submit_unwaiting(struct sim *s)
{
	unsigned m = some_mount(s);
	enum cost_class cls = chance(s, 70) ? COST_META : COST_WRITE;
	struct cost c = {cls, 1, random_bytes(s, cls)};
	struct caller caller = {.tid = (uint32_t)rnd(s, KEYS)};
	struct grant gr;
	gate_step(s->w.gate, s->w.clock.now);
	look(s);
	s->taking = true; /* others may be admitted before it is known that it owes */
	bool charged = gate_take(s->mount[m], &c, &caller, &gr);
	s->taking = false;
	if (charged) {
		granted(s, m, &gr);
	} else {
		const struct chain *ch = leaf_limits(&s->mount[m]->leaf, cls);
		bool owes = ch && !chain_misconfigured(ch, &c);
		s->debt_ops[m][cls] += owes ? c.ops : 0;
		s->debt_bytes[m][cls] += owes ? c.bytes : 0;
		must((gr.chain != NULL) == owes);
	}
	gate_done(&gr, OUTCOME_OK, gr.cost.bytes);
}

static void submit_nonblocking(struct sim *s)
{
	unsigned m = some_mount(s);
	enum cost_class cls = chance(s, 50) ? COST_READ : COST_WRITE;
	struct cost c = {cls, 1, 1 + random_bytes(s, cls)};
	struct caller caller = {.tid = (uint32_t)rnd(s, KEYS)};
	struct grant gr;
	if (gate_try_nonblocking(s->mount[m], &c, &caller, GATE_PARTIAL_BYTES, &gr) != GATE_GO)
		return;
	s->turns++;
	must((gr.cost.bytes) <= (c.bytes));
	must((gr.cost.bytes) >= (1));
	granted(s, m, &gr);
	gate_done(&gr, OUTCOME_OK, gr.cost.bytes);
}

static void cancel(struct sim *s)
{
	for (unsigned n = 0, i = (unsigned)rnd(s, MAX_JOBS); n < MAX_JOBS;
	     n++, i = (i + 1) % MAX_JOBS) {
		if (s->at[i] != WAITING)
			continue;
		must(gate_cancel(s->w.gate, &s->job[i].job));
		must(s->job[i].ends == 0);
		must(!gate_cancel(s->w.gate, &s->job[i].job));
		s->at[i] = FREE;
		s->cancelled++;
		return;
	}
}

static void finish_some(struct sim *s)
{
	for (unsigned i = 0; i < MAX_JOBS; i++)
		if (s->at[i] == RUNNING && chance(s, 30))
			finish(s, i);
}

/* Wake-ups come in time, a little late, or much too late. */
static void pass(struct sim *s)
{
	uint64_t until = s->w.clock.now + rnd(s, chance(s, 20) ? 2 * SEC : 60 * MS);
	while (s->w.clock.armed_ns <= until) {
		uint64_t late = chance(s, 50) ? 0 : rnd(s, chance(s, 80) ? 4 * MS : 40 * MS);
		s->w.clock.now = max_u64(s->w.clock.now, s->w.clock.armed_ns + late);
		s->w.clock.armed_ns = NEVER;
		gate_step(s->w.gate, s->w.clock.now);
		look(s);
	}
	s->w.clock.now = max_u64(s->w.clock.now, until);
}

static void random_limits(struct sim *s, struct limiter_config *c, unsigned percent)
{
	*c = (struct limiter_config){.window_ns = chance(s, 30) ? SEC : 0};
	for (unsigned k = 0; k < LIMIT_KINDS; k++) {
		if (!chance(s, percent))
			continue;
		bool bytes = limit_kind_is_bytes(k);
		uint64_t top = bytes ? 64 * MIB : 3000;
		set_limit(c, (enum limit_kind)k, 1 + rnd(s, chance(s, 30) ? top / 100 : top));
		if (bytes)
			c->limit[k].rate_per_sec += 20 * KIB;
		if (chance(s, 20))
			c->limit[k].burst = rnd(s, bytes ? MIB : 20);
		if (chance(s, 2))
			c->limit[k].rate_per_sec = 0;
	}
	if (chance(s, percent))
		c->max_inflight = 1 + rnd(s, 6);
}

static void random_mount_config(struct sim *s, struct gate_mount_config *c)
{
	static const struct weight_rule rules[] = {{{FAIR_PROCESS, 1}, NULL, 3},
						   {{FAIR_PROCESS, 0}, NULL, 7}};
	*c = mount_config();
	random_limits(s, &c->limits, 25);
	c->weight = 1 + (uint32_t)rnd(s, 3);
	c->max_wait_ns = chance(s, 30) ? 1 + rnd(s, 500 * MS) : 0;
	c->max_parked = chance(s, 10) ? 1 + rnd(s, 20) : 0;
	c->max_keys = chance(s, 30) ? 2 : 0;
	c->full_rejects = chance(s, 20);
	c->dry_run = chance(s, 5);
	c->weights = chance(s, 30) ? rules : NULL;
	c->n_weights = c->weights ? 2 : 0;
}

/* The model must know the new limits before the gate admits jobs under them. */
static void change_limits(struct sim *s)
{
	uint64_t now = s->w.clock.now;
	gate_step(s->w.gate, now);
	look(s);
	struct limiter_config old;
	unsigned m, f;
	switch (rnd(s, 4)) {
	case 0:
		old = s->global_cfg;
		random_limits(s, &s->global_cfg, 20);
		model_limits(&s->global, &old, &s->global_cfg, now);
		must(gate_set_global(s->w.gate, &s->global_cfg) == 0);
		break;
	case 1:
		f = (unsigned)rnd(s, s->n_fs);
		old = s->fs_cfg[f];
		random_limits(s, &s->fs_cfg[f], 15);
		model_limits(&s->fs_model[f], &old, &s->fs_cfg[f], now);
		must(gate_set_fs(s->fs[f], &s->fs_cfg[f]) == 0);
		break;
	default:
		m = some_mount(s);
		old = s->cfg[m].limits;
		random_mount_config(s, &s->cfg[m]);
		model_limits(&s->mount_model[m], &old, &s->cfg[m].limits, now);
		must(gate_set_mount(s->mount[m], &s->cfg[m]) == 0);
		break;
	}
}

static void add_mount(struct sim *s, unsigned m)
{
	s->fs_of[m] = (unsigned)rnd(s, s->n_fs);
	random_mount_config(s, &s->cfg[m]);
	s->mount_model[m] = (struct model_scope){0};
	for (unsigned k = 0; k < LIMIT_KINDS; k++)
		s->mount_model[m].limit[k].at_ns = s->w.clock.now;
	memset(s->last_seq[m], 0, sizeof(s->last_seq[m]));
	s->draining[m] = false;
	memset(s->debt_ops[m], 0, sizeof(s->debt_ops[m]));
	memset(s->debt_bytes[m], 0, sizeof(s->debt_bytes[m]));
	s->mount[m] = gate_mount_new(s->fs[s->fs_of[m]], "m", &s->cfg[m]);
	must((s->mount[m]) != NULL);
}

static void remove_mount(struct sim *s, unsigned m)
{
	gate_step(s->w.gate, s->w.clock.now);
	s->draining[m] = true;
	gate_mount_drain(s->mount[m], chance(s, 50));
	for (unsigned i = 0; i < MAX_JOBS; i++) {
		if (s->at[i] == FREE || s->mount_of[i] != m)
			continue;
		must(s->at[i] == RUNNING);
		finish(s, i);
	}
	gate_check(s->w.gate);
	gate_mount_free(s->mount[m]);
	s->mount[m] = NULL;
}

static void come_or_go(struct sim *s)
{
	unsigned m = (unsigned)rnd(s, MAX_MOUNTS), there = 0;
	for (unsigned i = 0; i < MAX_MOUNTS; i++)
		there += s->mount[i] != NULL;
	if (!s->mount[m])
		add_mount(s, m);
	else if (there > 1)
		remove_mount(s, m);
}

static void pause_or_resume(struct sim *s)
{
	bool on = chance(s, 40);
	switch (rnd(s, 4)) {
	case 0:
		gate_pause_global(s->w.gate, on);
		break;
	case 1:
		gate_pause_fs(s->fs[rnd(s, s->n_fs)], on);
		break;
	default:
		gate_pause_mount(s->mount[some_mount(s)], on);
		break;
	}
}

/* --- a round --- */

static void begin(struct sim *s, uint64_t seed)
{
	memset(s, 0, sizeof(*s));
	s->rng = seed * 0x9E3779B97F4A7C15ULL + 88172645463325252ULL;
	for (unsigned i = 0; i < 8; i++)
		rnd(s, 2);
	world_init(&s->w);
	s->hold_open = chance(s, 60);
	s->n_fs = 1 + (unsigned)rnd(s, MAX_FS);
	for (unsigned f = 0; f < s->n_fs; f++) {
		random_limits(s, &s->fs_cfg[f], 15);
		s->fs[f] = gate_fs_new(s->w.gate, "f", &s->fs_cfg[f]);
	}
	random_limits(s, &s->global_cfg, 20);
	must(gate_set_global(s->w.gate, &s->global_cfg) == 0);
	for (unsigned m = 0; m < 1 + rnd(s, MAX_MOUNTS); m++)
		add_mount(s, m);
}

static void event(struct sim *s)
{
	uint64_t what = rnd(s, 1000);
	if (what < 550)
		submit(s);
	else if (what < 600)
		submit_nonblocking(s);
	else if (what < 630)
		submit_unwaiting(s);
	else if (what < 780)
		pass(s);
	else if (what < 850)
		finish_some(s);
	else if (what < 950)
		cancel(s);
	else if (what < 975)
		change_limits(s);
	else if (what < 990)
		pause_or_resume(s);
	else
		come_or_go(s);
	look(s);
}

/* Lifts all pauses and ends all running jobs: whatever waits must then be admitted without further help. */
static void end(struct sim *s)
{
	gate_pause_global(s->w.gate, false);
	for (unsigned f = 0; f < s->n_fs; f++)
		gate_pause_fs(s->fs[f], false);
	for (unsigned m = 0; m < MAX_MOUNTS; m++)
		if (s->mount[m])
			gate_pause_mount(s->mount[m], false);
	s->hold_open = false;
	for (unsigned i = 0; i < MAX_JOBS; i++)
		if (s->at[i] == RUNNING)
			finish(s, i);
	look(s);
	for (unsigned n = 0; n < 100000 && s->w.clock.armed_ns != NEVER; n++) {
		world_until(&s->w, s->w.clock.armed_ns);
		look(s);
	}
	for (unsigned i = 0; i < MAX_JOBS; i++)
		must_say(s->at[i] == FREE, "a job was forgotten");
	gate_check_empty(s->w.gate);
	struct scope_stats st;
	gate_stats_global(s->w.gate, &st);
	must(st.inflight.in_flight == 0);
	for (unsigned m = 0; m < MAX_MOUNTS; m++)
		if (s->mount[m])
			gate_mount_free(s->mount[m]);
	for (unsigned f = 0; f < s->n_fs; f++)
		gate_fs_free(s->fs[f]);
	gate_check_empty(s->w.gate);
	gate_free(s->w.gate);
}

#if defined(__SANITIZE_THREAD__)
#define ROUNDS 1000 /* twenty times slower, and the test has only one thread */
#else
#define ROUNDS 3000
#endif

static uint64_t env_number(const char *name, uint64_t otherwise)
{
	const char *text = getenv(name);
	return text && *text ? strtoull(text, NULL, 0) : otherwise;
}

START_TEST(random_schedules_keep_every_promise)
{
	static struct sim s;
	uint64_t rounds = unit_rounds(ROUNDS), seed = env_number("RATEFS_SEED", 1);
	uint64_t released = 0, refused = 0, cancelled = 0, parked = 0, paid = 0, turns = 0;
	for (uint64_t i = 0; i < rounds; i++) {
		if (getenv("RATEFS_VERBOSE"))
			fprintf(stderr, "seed %llu\n", (unsigned long long)(seed + i));
		begin(&s, seed + i);
		for (unsigned n = 0; n < 150; n++)
			event(&s);
		end(&s);
		released += s.released;
		refused += s.refused;
		cancelled += s.cancelled;
		parked += s.parked;
		paid += s.paid;
		turns += s.turns;
	}
	printf("# released %llu refused %llu cancelled %llu, of them parked %llu; debts %llu turns %llu\n",
	       (unsigned long long)released, (unsigned long long)refused,
	       (unsigned long long)cancelled, (unsigned long long)parked, (unsigned long long)paid,
	       (unsigned long long)turns);
	must(rounds < 100 || (refused && cancelled && parked > released / 10 && paid && turns));
}
END_TEST

UNIT_MAIN("gate_random", random_schedules_keep_every_promise)
