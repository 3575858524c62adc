/* SPDX-License-Identifier: MIT */
#include <stdio.h>
#include <string.h>

#include "iogen.h"

/* Slot: the power of two, and the next five bits below it. */
static unsigned slot_of(uint64_t ns)
{
	unsigned e = ns < HIST_SUB ? 0 : 63u - (unsigned)__builtin_clzll(ns) - 4;
	return e * HIST_SUB + (unsigned)((ns >> e) & (HIST_SUB - 1));
}

static uint64_t slot_top_ns(unsigned slot)
{
	unsigned e = slot / HIST_SUB;
	return (((uint64_t)(slot % HIST_SUB) + 1) << e) - 1;
}

void hist_add(struct hist *h, uint64_t ns)
{
	h->slot[slot_of(ns)]++;
	h->min_ns = h->n == 0 || ns < h->min_ns ? ns : h->min_ns;
	h->max_ns = ns > h->max_ns ? ns : h->max_ns;
	h->sum_ns += ns;
	h->n++;
}

void hist_merge(struct hist *into, const struct hist *h)
{
	if (h->n == 0)
		return;
	for (unsigned i = 0; i < 64 * HIST_SUB; i++)
		into->slot[i] += h->slot[i];
	into->min_ns = into->n == 0 || h->min_ns < into->min_ns ? h->min_ns : into->min_ns;
	into->max_ns = h->max_ns > into->max_ns ? h->max_ns : into->max_ns;
	into->sum_ns += h->sum_ns;
	into->n += h->n;
}

uint64_t hist_percentile(const struct hist *h, double p)
{
	uint64_t want = (uint64_t)((double)h->n * p / 100), seen = 0;
	for (unsigned i = 0; i < 64 * HIST_SUB; i++) {
		seen += h->slot[i];
		if (seen > want)
			return slot_top_ns(i) < h->max_ns ? slot_top_ns(i) : h->max_ns;
	}
	return h->max_ns;
}

static void print_result(const struct result *r, double window_s)
{
	const struct hist *h = &r->lat;
	double mean = h->n ? (double)h->sum_ns / (double)h->n : 0;
	printf("\"ops\":%llu,\"bytes\":%llu,\"ops_per_s\":%.3f,\"bytes_per_s\":%.1f,"
	       "\"errors\":%llu,\"eagain\":%llu,\"short\":%llu,\"errno\":%d,",
	       (unsigned long long)r->ops, (unsigned long long)r->bytes,
	       window_s > 0 ? (double)r->ops / window_s : 0,
	       window_s > 0 ? (double)r->bytes / window_s : 0, (unsigned long long)r->errors,
	       (unsigned long long)r->eagain, (unsigned long long)r->shorts, r->last_errno);
	printf("\"lat_us\":{\"min\":%.1f,\"p50\":%.1f,\"p90\":%.1f,\"p99\":%.1f,\"max\":%.1f,\"mean\":%.1f}",
	       (double)h->min_ns / 1e3, (double)hist_percentile(h, 50) / 1e3,
	       (double)hist_percentile(h, 90) / 1e3, (double)hist_percentile(h, 99) / 1e3,
	       (double)h->max_ns / 1e3, mean / 1e3);
}

static void add(struct result *t, const struct result *r)
{
	t->ops += r->ops;
	t->bytes += r->bytes;
	t->errors += r->errors;
	t->eagain += r->eagain;
	t->shorts += r->shorts;
	t->last_errno = r->last_errno ? r->last_errno : t->last_errno;
	if (r->first_ns && (!t->first_ns || r->first_ns < t->first_ns))
		t->first_ns = r->first_ns;
	t->last_ns = r->last_ns > t->last_ns ? r->last_ns : t->last_ns;
	hist_merge(&t->lat, &r->lat);
}

/* (sum x)^2 / (n sum x^2): 1 when all got the same. */
static double jain(const struct plan *p, const struct shared *sh, bool by_bytes)
{
	double sum = 0, squares = 0;
	unsigned n = 0;
	for (unsigned i = 0; i < p->clients; i++) {
		if (is_light(p, i))
			continue;
		double x = (double)(by_bytes ? sh->results[i].bytes : sh->results[i].ops);
		sum += x;
		squares += x * x;
		n++;
	}
	return squares > 0 ? sum * sum / (n * squares) : 1;
}

int report(const struct plan *p, struct shared *sh)
{
	static struct result total, light;
	int bad = 0;
	for (unsigned i = 0; i < p->clients; i++) {
		add(is_light(p, i) ? &light : &total, &sh->results[i]);
		bad |= sh->results[i].died ||
		       (sh->results[i].errors && sh->results[i].last_errno != 11);
	}
	uint64_t from = atomic_load(&sh->start_ns) + (uint64_t)(p->skip_s * 1e9);
	double window_s = p->time_s > 0 ? p->time_s : (double)(total.last_ns - from) / 1e9;
	printf("{\"window_s\":%.6f,\"began_ns\":%llu,\"jain\":%.6f,\"total\":{", window_s,
	       (unsigned long long)from, jain(p, sh, total.bytes > 0));
	print_result(&total, window_s);
	if (p->light) {
		printf("},\"light\":{");
		print_result(&light, window_s);
	}
	printf("},\"clients\":[");
	for (unsigned i = 0; i < p->clients; i++) {
		unsigned long long uid = p->n_uids ? p->uids[i % p->n_uids] : 0;
		unsigned long long size = is_light(p, i) ? 4096 : p->sizes[i % p->n_sizes];
		printf("%s\n{\"id\":%u,\"uid\":%llu,\"size\":%llu,", i ? "," : "", i, uid, size);
		print_result(&sh->results[i], window_s);
		printf("}");
	}
	printf("]}\n");
	return bad ? 1 : 0;
}
