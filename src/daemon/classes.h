/* SPDX-License-Identifier: MIT */
/* The classes of a mount (struct settings: class, n_classes): what can be wrong with them as a whole, and
 * how they get to the gate. */
#ifndef DAEMON_CLASSES_H
#define DAEMON_CLASSES_H

#include <stdbool.h>

#include "daemon/settings.h"

/* Is told one problem: of which class, with which of its options ("" for the class as such). */
typedef void class_report(void *ctx, const struct settings *class, const char *option,
			  const char *text);

/* Names, parents, classes that nothing can reach, reservations.  Returns how many problems there are. */
unsigned classes_check(const struct settings *mount, class_report *report, void *ctx);
/* The same for one message: 0, or -1 with the first problem. */
int classes_check_one(const struct settings *mount, struct error *err);

/* Do the two mean the same to the classes of the gate? */
bool classes_equal(const struct settings *a, const struct settings *b);
/* Hands all classes of the mount to the gate; those that it has already keep what was spent.  `common` are
 * the weights of the whole file.  0 or -errno and nothing has changed. */
int classes_apply(struct gate_mount *gate, const struct settings *mount,
		  const struct weights *common);

/* The rules of the lists, of which an earlier list comes before a later one; to be freed, but their
 * globs stay those of the lists.  False: out of memory. */
bool weight_rules_of(const struct weights *const *list, unsigned n, struct weight_rule **rules,
		     unsigned *n_rules);
/* The longest wait that may be allowed where max_wait is `ns`; 0: no bound. */
uint64_t longest_wait_ns(uint64_t ns);

#endif
