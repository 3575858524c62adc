/* SPDX-License-Identifier: MIT */
/* Dividing a rate by demand and weight: max-min shares.  Pure arithmetic.
 *
 * Members whose demand is not met all get the same share per weight (the "water level").  If all demands are met,
 * the remainder is divided by weight, so that a member whose demand rises can use more before its next call.
 * All numbers are integers, but computed in doubles, in the same steps as in pool.lua, so that both servers grant
 * exactly the same. */
#ifndef POOL_DIVIDE_H
#define POOL_DIVIDE_H

#include <stdbool.h>
#include <stdint.h>

/* How a rate is currently divided; with it, pool_share computes the share of any member. */
struct pool_level {
	double level;  /* share per weight of members that want more; < 0: all demands are met */
	double spare;  /* if all demands are met: the rate that is left … */
	double weight; /* … and the sum of all weights, by which it is divided */
};

struct pool_wish {
	double demand, weight; /* weight > 0 */
	bool met;	       /* scratch */
};

/* Changes only `wish[].met`. */
struct pool_level pool_divide(double rate, struct pool_wish *wish, unsigned n);
/* The share of a member, at most `rate`. */
double pool_share(const struct pool_level *l, double rate, double demand, double weight);

#endif
