/* SPDX-License-Identifier: MIT */
/* The classes of a mount (struct settings: class, n_classes): checks them as a whole and passes
 * them to the gate. */
#ifndef DAEMON_CLASSES_H
#define DAEMON_CLASSES_H

#include <stdbool.h>

#include "daemon/settings.h"

/* Reports one problem: of which class, with which of its options ("" for the class itself). */
typedef void class_report(void *ctx, const struct settings *class, const char *option,
			  const char *text);

/* Checks names, parents, classes that can never be used, and reservations.  Returns the number of
 * problems. */
unsigned classes_check(const struct settings *mount, class_report *report, void *ctx);
/* The same, reporting only the first problem: 0, or -1 with err. */
int classes_check_one(const struct settings *mount, struct error *err);

/* True: both result in the same classes of the gate. */
bool classes_equal(const struct settings *a, const struct settings *b);
/* All classes of the mount as the gate wants them; `common` are the weights of the whole file.  NULL: out
 * of memory. */
struct gate_class_config *classes_config_of(const struct settings *mount,
					    const struct weights *common);
void classes_config_free(struct gate_class_config *cfg, unsigned n);
/* Passes all classes of the mount to the gate; existing ones are not refilled.
 * 0, or -errno and nothing has changed. */
int classes_apply(struct gate_mount *gate, const struct settings *mount,
		  const struct weights *common);

/* Combines the rules of the lists, of which an earlier one takes precedence.  To be freed, but
 * their globs belong to the lists.  False: out of memory. */
bool weight_rules_of(const struct weights *const *list, unsigned n, struct weight_rule **rules,
		     unsigned *n_rules);
/* The longest wait to allow if max_wait is `ns`; 0: no bound. */
uint64_t longest_wait_ns(uint64_t ns);

#endif
