/* SPDX-License-Identifier: MIT */
/* The parts of iogen: what to do (plan), one client's loop, what came of it. */
#ifndef IOGEN_H
#define IOGEN_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define MAX_LIST 64
#define HIST_SUB 32 /* slots per power of two: latencies are right to 3 % */

struct op;

struct plan {
	const struct op *op;
	const char *path, *ready;
	uint64_t sizes[MAX_LIST], uids[MAX_LIST];
	unsigned n_sizes, n_uids, clients, light;
	uint64_t file_size, count, bytes, seed;
	double time_s, skip_s, interval_s;
	bool threads, forever, nonblock, poll, random, mix, direct, append, sync, shared;
};

struct hist {
	uint64_t n, sum_ns, min_ns, max_ns;
	uint32_t slot[64 * HIST_SUB];
};

struct result {
	uint64_t ops, bytes, errors, eagain, shorts;
	uint64_t first_ns, last_ns; /* of counted operations */
	int last_errno, died;
	struct hist lat;
};

/* Between all clients, whether processes or threads. */
struct shared {
	_Atomic uint64_t start_ns; /* UINT64_MAX: not yet */
	_Atomic uint32_t go;	   /* a futex: start_ns is set */
	atomic_uint opened, entered;
	struct result results[];
};

uint64_t now_ns(void);
void sleep_until_ns(uint64_t t);
const struct op *op_by_name(const char *name);

/* One client from opening its file to its last operation. */
void client_run(const struct plan *p, struct shared *sh, unsigned id);
/* Lets all clients begin together and, with --ready, says when all are in their first operation. */
void shared_go(const struct plan *p, struct shared *sh);

void hist_add(struct hist *h, uint64_t ns);
void hist_merge(struct hist *into, const struct hist *h);
uint64_t hist_percentile(const struct hist *h, double p);

/* Prints the JSON; returns the exit code. */
int report(const struct plan *p, struct shared *sh);

static inline bool is_light(const struct plan *p, unsigned id)
{
	return p->light && id >= p->clients - p->light;
}

#endif
