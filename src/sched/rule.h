/* SPDX-License-Identifier: MIT */
/* Which requests belong to a class: a list of alternatives, each a conjunction of terms.
 *
 *	uid:backup, gid:students & op:write, cgroup:/system.slice/backup*, comm:rsync*
 *
 *	uid, gid   a number or, if the caller of rule_parse can resolve it, a name
 *	cgroup     a glob for the path; '*' matches within one component, "/x/" followed by two stars
 *	           matches /x and everything below it
 *	comm       a glob for the program's name, which programs can choose themselves
 *	op         read, write, meta, readdir or open
 *	all        every request
 *
 * Locking  immutable once parsed.
 * Errors   messages for people. */
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

/* All terms must be true. */
struct rule_terms {
	struct rule_term *term;
	unsigned n;
};

struct rule {
	struct rule_terms *either; /* one of these must be true */
	unsigned n;
	uint32_t fields; /* bit per rule_field that it asks for */
};

/* Looks up the number of a user or group.  0, or -1 with err: there is none of that name. */
typedef int rule_resolve(enum rule_field field, const char *name, uint32_t *number,
			 struct error *err);

/* NULL with err: what is wrong and what to write instead.  Free it with rule_free. */
struct rule *rule_parse(const char *text, rule_resolve *resolve, struct error *err);
struct rule *rule_copy(const struct rule *r); /* NULL: out of memory */
void rule_free(struct rule *r);

/* A request as rules see it; fields that the rule does not ask for need not be filled in. */
struct rule_subject {
	uint32_t uid, gid;
	enum cost_class cls;
	const char *cgroup, *comm; /* NULL: unknown, matches nothing */
};
bool rule_matches(const struct rule *r, const struct rule_subject *s);
/* Matches one glob with the path of a cgroup or with a name. */
bool rule_glob_matches(bool cgroup, const char *glob, const char *text);
/* 0, or -1 with err: nothing can match the glob. */
int rule_check_glob(bool cgroup, const char *text, struct error *err);

/* The operations that an alternative can match: bit per cost_class. */
uint32_t rule_ops(const struct rule_terms *alternative);
/* Those of these operations that `earlier` takes completely, as far as the text shows: whoever matches the alternative
 * matches `earlier`, too.  cgroup:/ followed by two stars, and comm:*, are taken for "all", although they do not match callers
 * that could not be looked up. */
uint32_t rule_taken_ops(const struct rule *earlier, const struct rule_terms *alternative);
/* True: it takes all operations of all alternatives. */
bool rule_covers(const struct rule *earlier, const struct rule *later);

#endif
