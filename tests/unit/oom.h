/* SPDX-License-Identifier: MIT */
/* Allocations that fail when told to, one by one: the oracle of what runs out of memory.
 *
 *	OOM_EACH (n) {				n = 1, 2, … until an attempt needs fewer allocations
 *		...				a fresh state
 *		int rc = OOM_FAIL(n, what_is_tested());
 *		...				oom_struck(): it must have failed, and changed nothing
 *	}
 *
 * A program that uses it has oom.c in its SOURCES and links with $(OOM_LINK), by which the linker sends the
 * allocations of our own code there.  Those inside the C library and iniparser don't fail, but for streams in memory. */
#ifndef UNIT_OOM_H
#define UNIT_OOM_H

#include <stdbool.h>

void oom_fail_at(unsigned n); /* the n-th allocation from now on; 0: none */
bool oom_struck(void);	      /* it was reached */

#define OOM_EACH(n) for (unsigned n = 1, oom_again = 1; oom_again; oom_again = oom_struck(), n++)
/* clang-format off */
#define OOM_FAIL(n, expression) ({                                                                 \
		oom_fail_at(n);                                                                    \
		__auto_type oom_result = (expression);                                             \
		oom_fail_at(0);                                                                    \
		oom_result;                                                                        \
	})
/* clang-format on */

#endif
