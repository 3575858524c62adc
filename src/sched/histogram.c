/* SPDX-License-Identifier: MIT */
/* Histograms of durations.  The index of a bucket is 4 × (log2 of the duration − 1), plus the two
 * bits that follow the leading one; durations below 4 ns are their own index. */
#include "base/util.h"
#include "sched/stats.h"

static unsigned bucket_of(uint64_t ns)
{
	if (ns < 4)
		return (unsigned)ns;
	unsigned log2 = 63 - (unsigned)__builtin_clzll(ns);
	return 4 * (log2 - 1) + (unsigned)(ns >> (log2 - 2) & 3);
}

/* The middle of a bucket. */
static uint64_t bucket_ns(unsigned i)
{
	if (i < 4)
		return i;
	unsigned log2 = i / 4 + 1;
	uint64_t low = (uint64_t)(4 + i % 4) << (log2 - 2), width = 1ULL << (log2 - 2);
	return low + width / 2;
}

void histogram_add(struct histogram *h, uint64_t ns)
{
	h->count[bucket_of(ns)]++;
	h->total++;
	h->sum_ns = add_sat_u64(h->sum_ns, ns);
	h->max_ns = max_u64(h->max_ns, ns);
}

void histogram_merge(struct histogram *to, const struct histogram *from)
{
	for (unsigned i = 0; i < HISTOGRAM_BUCKETS; i++)
		to->count[i] += from->count[i];
	to->total += from->total;
	to->sum_ns = add_sat_u64(to->sum_ns, from->sum_ns);
	to->max_ns = max_u64(to->max_ns, from->max_ns);
}

uint64_t histogram_quantile_ns(const struct histogram *h, unsigned per_mille)
{
	uint64_t rank = (h->total * per_mille + 999) / 1000, seen = 0;
	if (!h->total)
		return 0;
	for (unsigned i = 0; i < HISTOGRAM_BUCKETS; i++) {
		seen += h->count[i];
		if (seen >= max_u64(rank, 1))
			return min_u64(bucket_ns(i), h->max_ns);
	}
	return h->max_ns;
}
