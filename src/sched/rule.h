/* SPDX-License-Identifier: MIT */
/* Which requests belong to a class: a list of alternatives, each a conjunction.
 *
 *	uid:backup, gid:students & op:write, cgroup:/system.slice/backup*, comm:rsync*
 *
 *	uid, gid   a number or, where the caller of rule_parse can resolve it, a name
 *	cgroup     a glob on the path; '*' stays within one component, "/x/" followed by two stars is
 *	           /x and all below it
 *	comm       a glob on the program's name, which every program chooses for itself
 *	op         read, write, meta, readdir or open
 *
 * Units    none.  Locking: immutable once parsed.  Errors: for people. */
#ifndef SCHED_RULE_H
#define SCHED_RULE_H

#include <stdbool.h>

#include "base/error.h"
#include "limit/cost.h"
#include "sched/caller.h"

enum rule_field { RULE_UID, RULE_GID, RULE_CGROUP, RULE_COMM, RULE_OP, RULE_FIELDS };

struct rule_term {
	enum rule_field field;
	uint32_t number; /* uid, gid; op: bit per cost_class */
	char *glob;	 /* cgroup, comm */
};

/* All terms must hold. */
struct rule_terms {
	struct rule_term *term;
	unsigned n;
};

struct rule {
	struct rule_terms *either; /* one of these must hold */
	unsigned n;
	uint32_t fields; /* bit per rule_field that it asks for */
};

/* Says which number a user or group name has.  0, or -1 with err: nobody has that name. */
typedef int rule_resolve(enum rule_field field, const char *name, uint32_t *number,
			 struct error *err);

/* NULL with err: what is wrong and what to write instead.  rule_free ends it. */
struct rule *rule_parse(const char *text, rule_resolve *resolve, struct error *err);
struct rule *rule_copy(const struct rule *r); /* NULL: out of memory */
void rule_free(struct rule *r);

/* A request as rules see it; what they do not ask for need not be filled in. */
struct rule_subject {
	uint32_t uid, gid;
	enum cost_class cls;
	const char *cgroup, *comm; /* NULL: unknown, matches nothing */
};
bool rule_matches(const struct rule *r, const struct rule_subject *s);
/* One glob, on the path of a cgroup or on a name. */
bool rule_glob_matches(bool cgroup, const char *glob, const char *text);

/* True where every request that `later` matches is matched by `earlier` already, as far as that can be
 * told from the text: `later` can then never be reached behind it. */
bool rule_covers(const struct rule *earlier, const struct rule *later);

/* "uid" … "op". */
const char *rule_field_name(enum rule_field field);

#endif
