/* SPDX-License-Identifier: MIT */
/* Dividing a rate by demand and weight: max-min shares.  Pure arithmetic.
 *
 * Nobody gets less than others per weight while wanting more ("water level").  What is left when all
 * demands are met is divided by weight on top, so that a member whose demand rises need not ask first.
 * The numbers are whole; they are computed in doubles, in the same steps as in pool.lua, so that both
 * servers grant the same. */
#ifndef POOL_DIVIDE_H
#define POOL_DIVIDE_H

#include <stdbool.h>
#include <stdint.h>

/* How a rate is divided at the moment: enough to tell any member's share. */
struct pool_level {
	double level;  /* share per weight of those who want more; < 0: all demands are met … */
	double spare;  /* … and this is left … */
	double weight; /* … for members of this weight in all */
};

struct pool_wish {
	double demand, weight; /* weight > 0 */
	bool met;	       /* scratch */
};

/* Changes `wish[].met` only. */
struct pool_level pool_divide(double rate, struct pool_wish *wish, unsigned n);
/* The share of a member, at most `rate`. */
double pool_share(const struct pool_level *l, double rate, double demand, double weight);

#endif
