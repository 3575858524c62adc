/* SPDX-License-Identifier: MIT */
/* The classes of a mount (struct settings: class, n_classes): checks them as a whole and passes
 * them to the gate. */
#ifndef DAEMON_CLASSES_H
#define DAEMON_CLASSES_H

#include <stdbool.h>

#include "daemon/settings.h"

/* Reports one problem of `class`, with one of its options ("" for the class itself). */
typedef void class_report(void *ctx, const struct settings *class, const char *option,
			  const char *text);

/* Checks names, parents, classes that can never be used, and reservations.  Returns the number of
 * problems. */
unsigned classes_check(const struct settings *mount, class_report *report, void *ctx);
/* The same, reporting only the first problem: 0, or -1 with err. */
int classes_check_one(const struct settings *mount, struct error *err);

/* True: the gate would get the same classes from both. */
bool classes_equal(const struct settings *a, const struct settings *b);
/* All classes of the mount in the form that the gate takes; `common` are the weights of the section
 * [weights], which apply to every mount.  NULL: out of memory. */
struct gate_class_config *classes_config_of(const struct settings *mount,
					    const struct weights *common);
void classes_config_free(struct gate_class_config *cfg, unsigned n);
/* Passes all classes of the mount to the gate; existing ones are not refilled.
 * 0, or -errno and nothing has changed. */
int classes_apply(struct gate_mount *gate, const struct settings *mount,
		  const struct weights *common);

/* Combines the rules of several lists; earlier lists take precedence.  The caller frees *rules, but
 * not the globs in it, which belong to the lists.  False: out of memory. */
bool weight_rules_of(const struct weights *const *list, unsigned n, struct weight_rule **rules,
		     unsigned *n_rules);
/* The longest wait to allow if max_wait is `ns`; 0: no bound. */
uint64_t longest_wait_ns(uint64_t ns);

#endif
