/* SPDX-License-Identifier: MIT */
#include "sched/rule.h"

#include <ctype.h>
#include <errno.h>
#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/util.h"

#define BIT(n) (1U << (n))

static const char *field_name(enum rule_field field)
{
	static const char *const names[RULE_FIELDS] = {"uid", "gid", "cgroup", "comm", "op"};
	return names[field];
}

/* copy_file_range reads and writes. */
static const struct {
	const char *name;
	uint32_t classes;
} ops[] = {
	{"read", BIT(COST_READ) | BIT(COST_COPY)},
	{"write", BIT(COST_WRITE) | BIT(COST_COPY)},
	{"meta", BIT(COST_META) | BIT(COST_META_READ) | BIT(COST_META_WRITE)},
	{"readdir", BIT(COST_READDIR)},
	{"open", BIT(COST_OPENCLOSE)},
};

#define ALL_OPS (BIT(COST_CLASSES) - 1)

#define MATCH_SYNTAX "write uid:NAME, gid:NAME, cgroup:/PATH, comm:NAME, op:OP or all"

/* --- parsing --- */

static char *trim(char *text)
{
	while (isspace((unsigned char)*text))
		text++;
	size_t n = strlen(text);
	while (n && isspace((unsigned char)text[n - 1]))
		text[--n] = '\0';
	return text;
}

static int parse_number(struct rule_term *t, const char *text, rule_resolve *resolve,
			struct error *err)
{
	char *end;
	errno = 0;
	unsigned long long n = strtoull(text, &end, 10);
	if (isdigit((unsigned char)*text) && !*end) {
		if (errno || n >= UINT32_MAX)
			return error_set(err, "'%s': out of range; an id is less than %u", text,
					 UINT32_MAX);
		t->number = (uint32_t)n;
		return 0;
	}
	if (resolve)
		return resolve(t->field, text, &t->number, err);
	return error_set(err, "unknown %s '%s'; use an existing name or a number",
			 t->field == RULE_UID ? "user" : "group", text);
}

static int parse_ops(struct rule_term *t, char *text, struct error *err)
{
	for (char *rest = text, *word; (word = strsep(&rest, "|"));) {
		unsigned i = 0;
		word = trim(word);
		while (i < ARRAY_SIZE(ops) && strcmp(word, ops[i].name) != 0)
			i++;
		if (i == ARRAY_SIZE(ops))
			return error_set(err,
					 "unknown op '%s'; use read, write, meta, readdir or open",
					 word);
		t->number |= ops[i].classes;
	}
	return 0;
}

/* The length of the shortest name that the glob can match, or less. */
static size_t shortest_match(const char *glob)
{
	size_t n = 0;
	for (const char *p = glob; *p; p++)
		n += *p != '*';
	return strpbrk(glob, "[\\") ? 0 : n;
}

static bool has_dots(const char *path)
{
	for (const char *at = path; (at = strchr(at, '/')); at++) {
		size_t n = strcspn(at + 1, "/");
		if ((n == 1 || n == 2) && strspn(at + 1, ".") >= n)
			return true;
	}
	return false;
}

int rule_check_glob(bool cgroup, const char *text, struct error *err)
{
	size_t n = strlen(text);
	if (!cgroup && n >= CALLER_NAME_MAX && !strpbrk(text, "*?[\\"))
		return error_set(err, "comm '%s': names have at most 15 characters; use '%.15s'",
				 text, text);
	if (!cgroup)
		return shortest_match(text) < CALLER_NAME_MAX
			       ? 0
			       : error_set(err,
					   "comm '%s': names have at most 15 characters, so this "
					   "matches none; use fewer",
					   text);
	if (text[0] != '/')
		return error_set(
			err, "cgroup '%s': must be a path that starts with '/', like /ci/**", text);
	if (strstr(text, "//") || (n > 1 && text[n - 1] == '/'))
		return error_set(err, "cgroup '%s': no path has an empty component; remove a '/'",
				 text);
	if (has_dots(text))
		return error_set(err, "cgroup '%s': no path has a component '.' or '..'; remove it",
				 text);
	return 0;
}

static int parse_glob(struct rule_term *t, const char *text, struct error *err)
{
	if (rule_check_glob(t->field == RULE_CGROUP, text, err) < 0)
		return -1;
	t->glob = strdup(text);
	return t->glob ? 0 : error_set(err, "out of memory");
}

static int parse_term(struct rule_term *t, char *text, rule_resolve *resolve, struct error *err)
{
	char *colon = strchr(text, ':');
	unsigned field = 0;
	if (!*text)
		return error_set(err, "a term is empty; remove a '&'");
	if (strcmp(text, "all") == 0) {
		*t = (struct rule_term){.field = RULE_OP, .number = ALL_OPS};
		return 0;
	}
	if (!colon || !colon[1])
		return error_set(err, "'%s': not a term of a match; " MATCH_SYNTAX, text);
	*colon = '\0';
	char *value = trim(colon + 1), *name = trim(text);
	while (field < RULE_FIELDS && strcmp(name, field_name(field)) != 0)
		field++;
	if (field == RULE_FIELDS)
		return error_set(err, "unknown field '%s'; use uid, gid, cgroup, comm or op", name);
	t->field = field;
	switch (field) {
	case RULE_UID:
	case RULE_GID:
		return parse_number(t, value, resolve, err);
	case RULE_OP:
		return parse_ops(t, value, err);
	default:
		return parse_glob(t, value, err);
	}
}

static bool same_term(const struct rule_term *a, const struct rule_term *b)
{
	return a->field == b->field && a->number == b->number &&
	       (!a->glob || strcmp(a->glob, b->glob) == 0);
}

/* --- globs --- */

/* The number of characters before the first that is not literal. */
static size_t literal_length(bool cgroup, const char *glob)
{
	return strcspn(glob, cgroup ? "*?[" : "*?[\\");
}

static bool is_literal(bool cgroup, const char *glob)
{
	return !glob[literal_length(cgroup, glob)];
}

/* True: nothing matches both globs, as far as their literal beginnings show. */
static bool globs_disjoint(bool cgroup, const char *a, const char *b)
{
	if (is_literal(cgroup, a))
		return !rule_glob_matches(cgroup, b, a);
	if (is_literal(cgroup, b))
		return !rule_glob_matches(cgroup, a, b);
	return strncmp(a, b, min_u64(literal_length(cgroup, a), literal_length(cgroup, b))) != 0;
}

static bool is_subtree(const char *cgroup_glob)
{
	size_t n = strlen(cgroup_glob);
	return n >= 3 && strcmp(cgroup_glob + n - 3, "/**") == 0;
}

/* True: whatever matches `later` matches `glob`, as far as the texts show: `later` is literal, or `glob` is a literal
 * beginning and everything that continues it.  In the path of a cgroup, one star continues it within a component only. */
static bool glob_covers(bool cgroup, const char *glob, const char *later)
{
	size_t n = literal_length(cgroup, glob);
	if (is_literal(cgroup, later))
		return rule_glob_matches(cgroup, glob, later);
	if (literal_length(cgroup, later) < n || strncmp(later, glob, n) != 0)
		return false;
	if (cgroup && is_subtree(glob))
		return strcmp(glob + n, "**") == 0;
	return strcmp(glob + n, "*") == 0 &&
	       !(cgroup && (is_subtree(later) || strchr(later + n, '/')));
}

/* --- matches that are impossible --- */

/* Refuses two users, two groups, or operations, cgroups or names that exclude each other in one alternative: nothing
 * matches that. */
static int check_possible(const struct rule_terms *all, const struct rule_term *t,
			  struct error *err)
{
	uint32_t classes = t->number;
	for (unsigned i = 0; i < all->n; i++) {
		const struct rule_term *o = &all->term[i];
		if (o->field != t->field)
			continue;
		if (t->glob && globs_disjoint(t->field == RULE_CGROUP, o->glob, t->glob))
			return error_set(err,
					 "no %s matches both '%s' and '%s'; separate alternatives "
					 "with ','",
					 field_name(t->field), o->glob, t->glob);
		classes &= o->number;
		if (!t->glob && (t->field == RULE_OP ? !classes : o->number != t->number))
			return error_set(
				err, "no request has two of '%s'; separate alternatives with ','",
				field_name(t->field));
	}
	return 0;
}

static int parse_terms(struct rule_terms *all, char *text, rule_resolve *resolve, struct error *err)
{
	char *rest = trim(text), *word;
	if (!*rest)
		return error_set(err, "an alternative is empty; remove a ','");
	while ((word = strsep(&rest, "&"))) {
		struct rule_term t = {0}, *more;
		int rc = parse_term(&t, trim(word), resolve, err);
		if (rc == 0)
			rc = check_possible(all, &t, err);
		more = rc < 0 ? NULL : reallocarray(all->term, all->n + 1, sizeof(*more));
		if (!more) {
			free(t.glob);
			return rc < 0 ? rc : error_set(err, "out of memory");
		}
		all->term = more;
		all->term[all->n++] = t;
	}
	return 0;
}

static struct rule_terms *add_terms(struct rule *r)
{
	struct rule_terms *more = reallocarray(r->either, r->n + 1, sizeof(*more));
	if (!more)
		return NULL;
	r->either = more;
	r->either[r->n] = (struct rule_terms){0};
	return &r->either[r->n++];
}

static void note_fields(struct rule *r)
{
	for (unsigned i = 0; i < r->n; i++)
		for (unsigned k = 0; k < r->either[i].n; k++)
			r->fields |= BIT(r->either[i].term[k].field);
}

struct rule *rule_parse(const char *text, rule_resolve *resolve, struct error *err)
{
	AUTO_FREE char *copy = strdup(text);
	struct rule *r = calloc(1, sizeof(*r));
	char *rest = copy, *word;
	if (!copy || !r) {
		error_set(err, "out of memory");
		rule_free(r);
		return NULL;
	}
	if (!*trim(copy)) {
		error_set(err, "is empty; " MATCH_SYNTAX);
		rule_free(r);
		return NULL;
	}
	while ((word = strsep(&rest, ","))) {
		struct rule_terms *all = add_terms(r);
		if (!all)
			error_set(err, "out of memory");
		if (!all || parse_terms(all, word, resolve, err) < 0) {
			rule_free(r);
			return NULL;
		}
	}
	note_fields(r);
	return r;
}

struct rule *rule_copy(const struct rule *from)
{
	struct rule *r = calloc(1, sizeof(*r));
	for (unsigned i = 0; r && i < from->n; i++) {
		struct rule_terms *all = add_terms(r);
		const struct rule_terms *f = &from->either[i];
		if (all)
			all->term = calloc(f->n, sizeof(*all->term));
		if (!all || !all->term)
			goto oom;
		for (; all->n < f->n; all->n++) {
			all->term[all->n] = f->term[all->n];
			if (!f->term[all->n].glob)
				continue;
			all->term[all->n].glob = strdup(f->term[all->n].glob);
			if (!all->term[all->n].glob)
				goto oom;
		}
	}
	if (r)
		r->fields = from->fields;
	return r;
oom:
	rule_free(r);
	return NULL;
}

void rule_free(struct rule *r)
{
	for (unsigned i = 0; r && i < r->n; i++) {
		for (unsigned k = 0; k < r->either[i].n; k++)
			free(r->either[i].term[k].glob);
		free(r->either[i].term);
	}
	if (r)
		free(r->either);
	free(r);
}

/* --- matching --- */

/* A backslash stands for itself: names that systemd has escaped contain some, as in
 * machine-qemu\x2d1.scope. */
#define CGROUP_FLAGS (FNM_PATHNAME | FNM_NOESCAPE)

static bool cgroup_matches(const char *glob, const char *path)
{
	size_t n = strlen(glob);
	if (!is_subtree(glob))
		return fnmatch(glob, path, CGROUP_FLAGS) == 0;
	if (n == 3)
		return true; /* "/" and two stars: all cgroups */
	/* The directory itself or anything below it: compare as many components as the glob has. */
	char dir[CALLER_PATH_MAX], head[CALLER_PATH_MAX];
	if (n - 3 >= sizeof(dir) || strlen(path) >= sizeof(head))
		return false;
	memcpy(dir, glob, n - 3);
	dir[n - 3] = '\0';
	memcpy(head, path, strlen(path) + 1);
	unsigned components = 0;
	for (const char *p = dir; *p; p++)
		components += *p == '/';
	for (char *p = head; *p; p++)
		if (*p == '/' && components-- == 0) {
			*p = '\0';
			break;
		}
	return fnmatch(dir, head, CGROUP_FLAGS) == 0;
}

bool rule_glob_matches(bool cgroup, const char *glob, const char *text)
{
	return cgroup ? cgroup_matches(glob, text) : fnmatch(glob, text, 0) == 0;
}

static bool term_matches(const struct rule_term *t, const struct rule_subject *s)
{
	switch (t->field) {
	case RULE_UID:
		return s->uid == t->number;
	case RULE_GID:
		return s->gid == t->number;
	case RULE_OP:
		return t->number & BIT(s->cls);
	case RULE_CGROUP:
		return s->cgroup && rule_glob_matches(true, t->glob, s->cgroup);
	default:
		return s->comm && rule_glob_matches(false, t->glob, s->comm);
	}
}

static bool all_match(const struct rule_terms *all, const struct rule_subject *s)
{
	for (unsigned i = 0; i < all->n; i++)
		if (!term_matches(&all->term[i], s))
			return false;
	return true;
}

bool rule_matches(const struct rule *r, const struct rule_subject *s)
{
	for (unsigned i = 0; i < r->n; i++)
		if (all_match(&r->either[i], s))
			return true;
	return false;
}

/* --- covering --- */

/* True: the term matches all requests, except those whose caller could not be looked up. */
static bool matches_all(const struct rule_term *t)
{
	switch (t->field) {
	case RULE_CGROUP:
		return strcmp(t->glob, "/**") == 0;
	case RULE_COMM:
		return strcmp(t->glob, "*") == 0;
	default:
		return false;
	}
}

/* True: some term of `later` implies `t`. */
static bool is_demanded(const struct rule_term *t, const struct rule_terms *later)
{
	if (matches_all(t))
		return true;
	for (unsigned i = 0; i < later->n; i++) {
		const struct rule_term *o = &later->term[i];
		if (same_term(t, o) || (t->glob && t->field == o->field &&
					glob_covers(t->field == RULE_CGROUP, t->glob, o->glob)))
			return true;
	}
	return false;
}

/* True: whoever matches `later` matches `earlier`, whatever the operation. */
static bool covers_callers(const struct rule_terms *earlier, const struct rule_terms *later)
{
	for (unsigned i = 0; i < earlier->n; i++)
		if (earlier->term[i].field != RULE_OP && !is_demanded(&earlier->term[i], later))
			return false;
	return true;
}

uint32_t rule_ops(const struct rule_terms *alternative)
{
	uint32_t classes = ALL_OPS;
	for (unsigned i = 0; i < alternative->n; i++)
		if (alternative->term[i].field == RULE_OP)
			classes &= alternative->term[i].number;
	return classes;
}

uint32_t rule_taken_ops(const struct rule *earlier, const struct rule_terms *alternative)
{
	uint32_t classes = 0;
	for (unsigned i = 0; i < earlier->n; i++)
		if (covers_callers(&earlier->either[i], alternative))
			classes |= rule_ops(&earlier->either[i]);
	return classes & rule_ops(alternative);
}

bool rule_covers(const struct rule *earlier, const struct rule *later)
{
	for (unsigned i = 0; i < later->n; i++)
		if (rule_taken_ops(earlier, &later->either[i]) != rule_ops(&later->either[i]))
			return false;
	return true;
}
