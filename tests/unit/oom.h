/* SPDX-License-Identifier: MIT */
/* Makes one allocation after the other fail, to test how code handles that.
 *
 *	OOM_EACH (n) {				n = 1, 2, … until an attempt needs fewer allocations
 *		...				a fresh state
 *		int rc = OOM_FAIL(n, what_is_tested());
 *		...				if oom_struck(), it must have failed and changed nothing
 *	}
 *
 * A program that uses it has oom.c in its SOURCES and links with $(OOM_LINK), which makes the
 * linker redirect the allocations of our own code to oom.c.  Allocations inside the C library and
 * iniparser don't fail, except for streams in memory. */
#ifndef UNIT_OOM_H
#define UNIT_OOM_H

#include <stdbool.h>

void oom_fail_at(unsigned n); /* the n-th allocation from now on; 0: none */
bool oom_struck(void);	      /* that allocation was reached, and failed */

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
