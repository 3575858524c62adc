/* SPDX-License-Identifier: MIT */
#include "pool/divide.h"

#include <math.h>

/* The sum of all demands.  Stops once it exceeds `rate`, so that it stays exact in doubles. */
static double total_demand(double rate, const struct pool_wish *wish, unsigned n)
{
	double sum = 0;
	for (unsigned i = 0; i < n && sum <= rate; i++)
		sum += wish[i].demand;
	return sum;
}

struct pool_level pool_divide(double rate, struct pool_wish *wish, unsigned n)
{
	struct pool_level l = {.level = -1};
	double left = rate, weight = 0;
	for (unsigned i = 0; i < n; i++) {
		wish[i].met = false;
		weight += wish[i].weight;
	}
	l.weight = weight;
	double total = total_demand(rate, wish, n);
	if (total <= rate) {
		l.spare = rate - total;
		return l;
	}
	for (bool again = true; again && weight > 0;) {
		l.level = left / weight;
		again = false;
		for (unsigned i = 0; i < n; i++) {
			if (wish[i].met || wish[i].demand > l.level * wish[i].weight)
				continue;
			wish[i].met = again = true;
			left -= wish[i].demand;
			weight -= wish[i].weight;
		}
	}
	return l;
}

double pool_share(const struct pool_level *l, double rate, double demand, double weight)
{
	double share = l->level >= 0   ? fmin(demand, l->level * weight)
		       : l->weight > 0 ? demand + l->spare * weight / l->weight
				       : demand;
	return floor(fmin(share, rate));
}
