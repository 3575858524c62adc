/* SPDX-License-Identifier: MIT */
#include "sched/device.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/util.h"

#define PIECE_SHIFT 20 /* pieces of 1 MiB, spread over the device (device.h) */
#define STREAMS	    64 /* files whose transfers can be merged concurrently */

/* Consecutive transfers of one file. */
struct stream {
	uint64_t file, end, merged_bytes;
	enum device_op op;
};

/* A Poisson process: the first stall that is not over yet, and the generator for those after it. */
struct stalls {
	uint64_t state, begin_ns;
};

struct device {
	struct device_config cfg;
	uint64_t state; /* of the generator */
	/* where the last transfer ended */
	uint64_t head_file, head_end;
	uint32_t head_place;
	struct stream stream[STREAMS];
	struct stalls stalls;
	uint64_t slot_free_ns
		[]; /* queue_depth entries, a heap: the slot that is free first comes first */
};

/* --- random numbers --- */

/* splitmix64 */
static uint64_t scramble(uint64_t x)
{
	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9ULL;
	x = (x ^ x >> 27) * 0x94d049bb133111ebULL;
	return x ^ x >> 31;
}

static uint64_t draw(uint64_t *state)
{
	return scramble(*state += 0x9e3779b97f4a7c15ULL);
}

/* In (0, 1). */
static double draw_unit(uint64_t *state)
{
	return ((double)(draw(state) >> 11) + 0.5) / 9007199254740992.0; /* 2^53 */
}

/* 0 … n inclusive, for n < 2^63. */
static uint64_t draw_up_to(uint64_t n, uint64_t *state)
{
	return (uint64_t)((u128)draw(state) * (n + 1) >> 64);
}

static double draw_normal(uint64_t *state)
{
	double u = draw_unit(state), v = draw_unit(state);
	return sqrt(-2 * log(u)) * cos(2 * M_PI * v);
}

#define P99_SIGMAS 2.3263478740408408 /* of a normal distribution */

static uint64_t draw_lognormal_ns(double median_ns, double p99_ns, uint64_t *state)
{
	double sigma = log(p99_ns / median_ns) / P99_SIGMAS;
	double ns = median_ns * exp(sigma * draw_normal(state));
	return ns < (double)LATENCY_MAX_NS ? (uint64_t)llround(ns) : LATENCY_MAX_NS;
}

uint64_t latency_draw_ns(const struct latency *l, uint64_t *state)
{
	switch (l->shape) {
	case LATENCY_UNIFORM:
		return l->ns - l->spread_ns + draw_up_to(2 * l->spread_ns, state);
	case LATENCY_LOGNORMAL:
		return draw_lognormal_ns((double)l->ns, (double)l->spread_ns, state);
	case LATENCY_FIXED:
		return l->ns;
	default:
		return 0;
	}
}

/* --- life --- */

bool device_config_models(const struct device_config *c)
{
	for (unsigned i = 0; i < LATENCY_KINDS; i++)
		if (c->latency[i].shape != LATENCY_OFF)
			return true;
	return c->seek_max_ns || c->rotation_ns || c->merge_bytes || c->stall_ns;
}

static void stall_next(struct stalls *s, const struct device_config *c, uint64_t from_ns)
{
	double gap_ns = -log(draw_unit(&s->state)) * (double)c->stall_every_ns;
	s->begin_ns = add_sat_u64(from_ns, (uint64_t)gap_ns);
}

static int later_first(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
	return x > y ? -1 : x < y;
}

/* Takes over the work that the old queue still has to do; if there are fewer slots now, only the
 * work that takes longest. */
static void take_slots(struct device *d, const struct device *old)
{
	uint64_t n = d->cfg.queue_depth, n_old = old->cfg.queue_depth, all[DEVICE_QUEUE_MAX];
	memcpy(all, old->slot_free_ns, n_old * sizeof(*all));
	qsort(all, n_old, sizeof(*all), later_first);
	for (uint64_t i = 0; i < n && i < n_old; i++)
		d->slot_free_ns[n - 1 - i] = all[i];
}

struct device *device_new(const struct device_config *cfg, const struct device *old,
			  uint64_t now_ns)
{
	struct device *d = calloc(1, sizeof(*d) + cfg->queue_depth * sizeof(d->slot_free_ns[0]));
	if (!d)
		return NULL;
	if (old) {
		*d = *old;
		d->cfg = *cfg;
		take_slots(d, old);
	}
	if (!old || cfg->seed != old->cfg.seed) {
		d->cfg = *cfg;
		d->state = cfg->seed ? cfg->seed : scramble(now_ns ^ (uintptr_t)d);
		d->stalls.state = scramble(d->state);
	}
	if (cfg->stall_ns &&
	    (!old || cfg->seed != old->cfg.seed || cfg->stall_ns != old->cfg.stall_ns ||
	     cfg->stall_every_ns != old->cfg.stall_every_ns))
		stall_next(&d->stalls, cfg, now_ns);
	return d;
}

void device_free(struct device *d)
{
	free(d);
}

/* --- operations --- */

uint32_t device_ops(uint64_t bytes, uint64_t iops_size)
{
	if (!iops_size || bytes <= iops_size)
		return 1;
	return (uint32_t)min_u64((bytes - 1) / iops_size + 1, UINT32_MAX);
}

uint32_t device_merged_ops(struct device *d, const struct device_access *a, uint64_t bytes)
{
	if (!d->cfg.merge_bytes || (a->op != DEVICE_READ && a->op != DEVICE_WRITE))
		return device_ops(bytes, d->cfg.iops_size);
	struct stream *s = &d->stream[scramble(a->file) % STREAMS];
	bool follows = s->end == a->offset && s->file == a->file && s->op == a->op &&
		       s->merged_bytes && s->merged_bytes + bytes <= d->cfg.merge_bytes;
	*s = (struct stream){
		.file = a->file,
		.op = a->op,
		.end = a->offset + bytes,
		.merged_bytes = bytes + (follows ? s->merged_bytes : 0),
	};
	return follows ? 0 : device_ops(bytes, d->cfg.iops_size);
}

/* --- time --- */

static const struct latency *latency_of(const struct device_config *c, enum latency_kind kind)
{
	return c->latency[kind].shape == LATENCY_OFF ? &c->latency[LATENCY_ALL] : &c->latency[kind];
}

static uint64_t latency_ns(struct device *d, enum device_op op)
{
	static const enum latency_kind kinds[] = {
		[DEVICE_META] = LATENCY_META,	[DEVICE_READ] = LATENCY_READ,
		[DEVICE_WRITE] = LATENCY_WRITE, [DEVICE_SYNC] = LATENCY_SYNC,
		[DEVICE_COPY] = LATENCY_READ,
	};
	uint64_t ns = latency_draw_ns(latency_of(&d->cfg, kinds[op]), &d->state);
	if (op == DEVICE_COPY)
		ns += latency_draw_ns(latency_of(&d->cfg, LATENCY_WRITE), &d->state);
	return ns;
}

/* The position of a byte of a file, as a fraction of the device in units of 2^-32. */
static uint32_t place_of(uint64_t file, uint64_t offset)
{
	return (uint32_t)(scramble(scramble(file) + (offset >> PIECE_SHIFT)) >> 32);
}

static uint64_t root(uint64_t n)
{
	uint64_t r = (uint64_t)sqrt((double)n);
	while (r > UINT32_MAX || r * r > n)
		r--;
	return r;
}

/* The arm accelerates and brakes, so its time grows with the square root of the distance. */
static uint64_t seek_ns(const struct device *d, uint32_t to)
{
	uint64_t far = to > d->head_place ? to - d->head_place : d->head_place - to;
	uint64_t part = root(far << 32);
	return d->cfg.seek_min_ns +
	       (uint64_t)((u128)(d->cfg.seek_max_ns - d->cfg.seek_min_ns) * part >> 32);
}

/* Moves the head; takes no time if the transfer begins where the previous one ended. */
static uint64_t move_ns(struct device *d, const struct device_access *a, uint64_t bytes)
{
	uint64_t ns = 0;
	if (a->op != DEVICE_READ && a->op != DEVICE_WRITE && a->op != DEVICE_COPY)
		return 0;
	if (a->file != d->head_file || a->offset != d->head_end) {
		ns = seek_ns(d, place_of(a->file, a->offset));
		if (d->cfg.rotation_ns)
			ns += draw_up_to(d->cfg.rotation_ns - 1, &d->state);
	}
	d->head_file = a->op == DEVICE_COPY ? 0 : a->file; /* the target of a copy is not known */
	d->head_end = a->offset + bytes;
	d->head_place = place_of(a->file, d->head_end - (bytes > 0));
	return ns;
}

/* When work that begins at start_ns is finished, taking stalls into account. */
static uint64_t through_stalls_ns(struct device *d, uint64_t at_ns, uint64_t start_ns,
				  uint64_t work_ns)
{
	const struct device_config *c = &d->cfg;
	uint64_t done_ns = add_sat_u64(start_ns, work_ns);
	if (!c->stall_ns)
		return done_ns;
	while (d->stalls.begin_ns + c->stall_ns <= at_ns)
		stall_next(&d->stalls, c, d->stalls.begin_ns + c->stall_ns);
	struct stalls s = d->stalls; /* a copy: the device itself has not advanced that far */
	while (s.begin_ns < done_ns || s.begin_ns <= start_ns) {
		uint64_t end_ns = s.begin_ns + c->stall_ns;
		if (end_ns > start_ns)
			done_ns += s.begin_ns > start_ns ? c->stall_ns : end_ns - start_ns;
		stall_next(&s, c, end_ns);
	}
	return done_ns;
}

/* Occupies the first slot until until_ns, and restores the heap. */
static void slot_take(struct device *d, uint64_t until_ns)
{
	uint64_t n = d->cfg.queue_depth, i = 0, *slot = d->slot_free_ns;
	for (uint64_t child; (child = 2 * i + 1) < n; i = child) {
		if (child + 1 < n && slot[child + 1] < slot[child])
			child++;
		if (slot[child] >= until_ns)
			break;
		slot[i] = slot[child];
	}
	slot[i] = until_ns;
}

uint64_t device_date_ns(struct device *d, const struct device_access *a, uint64_t bytes,
			uint64_t at_ns)
{
	uint64_t start_ns = d->cfg.queue_depth ? max_u64(at_ns, d->slot_free_ns[0]) : at_ns;
	uint64_t work_ns = latency_ns(d, a->op) + move_ns(d, a, bytes);
	uint64_t date_ns = through_stalls_ns(d, at_ns, start_ns, work_ns);
	if (d->cfg.queue_depth)
		slot_take(d, date_ns);
	return date_ns;
}
