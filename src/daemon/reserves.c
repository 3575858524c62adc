/* SPDX-License-Identifier: MIT */
#include "daemon/reserves.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/units.h"
#include "daemon/registry.h"

static const struct {
	const char *option;
	size_t offset;
	enum limit_kind kind;
} reserves[] = {{"reserve.bps", offsetof(struct settings, reserve_bps), LIMIT_BPS},
		{"reserve.iops", offsetof(struct settings, reserve_iops), LIMIT_IOPS}};

static uint64_t own_reserve(const struct settings *s, unsigned r)
{
	return *(const uint64_t *)((const char *)s + reserves[r].offset);
}

static char *amount(unsigned r, uint64_t n, char buf[UNITS_TEXT_MAX])
{
	return limit_kind_is_bytes(reserves[r].kind) ? units_format_bytes(n, buf)
						     : units_format_count(n, buf);
}

static bool is_child(const struct settings *s, const char *parent)
{
	return parent ? s->parent && strcmp(s->parent, parent) == 0 : !s->parent;
}

/* The larger of a class's own reservation and the sum of those of its children.  The parents may
 * form a cycle, which is reported elsewhere; `depth` ends the recursion even then. */
static uint64_t reserve_of(const struct settings *mount, const struct settings *s, unsigned r,
			   unsigned depth)
{
	uint64_t below = 0;
	for (unsigned i = 0; i < mount->n_classes && depth < GATE_CLASS_DEPTH_MAX; i++)
		if (is_child(&mount->class[i], s -> name))
			below = add_sat_u64(below,
					    reserve_of(mount, &mount->class[i], r, depth + 1));
	return max_u64(own_reserve(s, r), below);
}

/* --- sums ----------------------------------------------------------------------------------- */

/* The rate that reservations of a scope must not exceed: that of its limit or, if it is less, of the limits for reads and
 * for writes together.  With meta_iops, other operations have iops for themselves, but reservations are for both. */
struct most {
	uint64_t rate; /* NEVER: no limit */
	char text[80]; /* "bps=10M" */
};

static void set_together(struct most *most, unsigned r, const char *limits, uint64_t rate)
{
	char text[UNITS_TEXT_MAX];
	most->rate = rate;
	snprintf(most->text, sizeof(most->text), "%s, together %s", limits, amount(r, rate, text));
}

static struct most most_of(const struct limiter_config *limits, unsigned r)
{
	enum limit_kind kind = reserves[r].kind;
	const struct limit_config *l = &limits->limit[kind];
	const struct limit_config *meta = &limits->limit[LIMIT_META_IOPS];
	const struct limit_config *read = &limits->limit[LIMIT_READ_BPS];
	const struct limit_config *write = &limits->limit[LIMIT_WRITE_BPS];
	struct most most = {.rate = l->enabled ? l->rate_per_sec : NEVER};
	char rate[UNITS_TEXT_MAX];
	snprintf(most.text, sizeof(most.text), "%s=%s", limit_kind_name(kind),
		 amount(r, most.rate, rate));
	if (kind == LIMIT_IOPS && l->enabled && meta->enabled)
		set_together(&most, r, "iops and meta_iops",
			     add_sat_u64(l->rate_per_sec, meta->rate_per_sec));
	if (kind != LIMIT_BPS || !read->enabled || !write->enabled)
		return most;
	uint64_t both = add_sat_u64(read->rate_per_sec, write->rate_per_sec);
	if (both < most.rate)
		set_together(&most, r, "read_bps and write_bps", both);
	return most;
}

/* The sum of the reservations in one scope.  The class with which the sum exceeds
 * the limit is reported. */
struct sum {
	unsigned reserve; /* index into reserves[] */
	struct most most;
	const char *what; /* "mount 'data'" */
	bool adding;	  /* true: computes `all`; false: reports */
	uint64_t all, total;
	class_report *report;
	void *ctx;
	unsigned problems;
};

static void add(struct sum *sum, const struct settings *class, uint64_t n)
{
	uint64_t before = sum->total, most = sum->most.rate;
	char all[UNITS_TEXT_MAX], text[400];
	if (sum->adding) {
		sum->all = add_sat_u64(sum->all, n);
		return;
	}
	sum->total = add_sat_u64(before, n);
	if (!n || sum->total <= most || before > most)
		return;
	snprintf(text, sizeof(text),
		 "reservations in %s add up to %s, above its %s; lower one of them, or raise the "
		 "limit",
		 sum->what, amount(sum->reserve, sum->all, all), sum->most.text);
	sum->report(sum->ctx, class, reserves[sum->reserve].option, text);
	sum->problems++;
}

/* Adds the classes of a mount that are directly below `parent` (NULL: below the mount). */
static void add_children(struct sum *sum, const struct settings *mount, const char *parent)
{
	for (unsigned i = 0; i < mount->n_classes; i++)
		if (is_child(&mount->class[i], parent))
			add(sum, &mount->class[i],
			    reserve_of(mount, &mount->class[i], sum -> reserve, 0));
}

unsigned reserves_check_shared(const struct settings *scope, const char *what,
			       const struct settings *const *mount, unsigned n,
			       class_report *report, void *ctx)
{
	unsigned problems = 0;
	for (unsigned r = 0; r < ARRAY_SIZE(reserves); r++) {
		struct sum sum = {.reserve = r,
				  .most = most_of(&scope->limits, r),
				  .what = what,
				  .adding = true,
				  .report = report,
				  .ctx = ctx};
		for (unsigned i = 0; i < n; i++)
			add_children(&sum, mount[i], NULL);
		sum.adding = false;
		for (unsigned i = 0; i < n; i++)
			add_children(&sum, mount[i], NULL);
		problems += sum.problems;
	}
	return problems;
}

static unsigned check_class(const struct settings *mount, const struct settings *s, unsigned r,
			    class_report *report, void *ctx)
{
	const struct most most = most_of(&s->limits, r);
	char what[200], text[200];
	snprintf(what, sizeof(what), "class '%s'", s->name);
	struct sum sum = {.reserve = r,
			  .most = most,
			  .what = what,
			  .adding = true,
			  .report = report,
			  .ctx = ctx};
	add_children(&sum, mount, s->name);
	sum.adding = false;
	add_children(&sum, mount, s->name);
	if (own_reserve(s, r) <= most.rate)
		return sum.problems;
	snprintf(text, sizeof(text), "is above its own %s; lower it, or raise the limit",
		 most.text);
	report(ctx, s, reserves[r].option, text);
	return sum.problems + 1;
}

unsigned reserves_check_mount(const struct settings *mount, class_report *report, void *ctx)
{
	char what[200];
	snprintf(what, sizeof(what), "mount '%s'", mount->name ? mount->name : "");
	unsigned problems = reserves_check_shared(mount, what, &mount, 1, report, ctx);
	for (unsigned r = 0; r < ARRAY_SIZE(reserves); r++)
		for (unsigned i = 0; i < mount->n_classes; i++)
			problems += check_class(mount, &mount->class[i], r, report, ctx);
	return problems;
}

/* --- what is served ------------------------------------------------------------------------- */

/* The class may be one of another mount than the one that is changed, so it is not named. */
static void first_problem(void *ctx, const struct settings *class, const char *option,
			  const char *text)
{
	struct error *err = ctx;
	if (!error_is_set(err))
		error_set(err, "%s: %s", option, text);
}

static bool is_in(const struct served_mount *m, const struct served_fs *fs)
{
	return !fs || m->fs == fs || (!m->fs && m->s.fs && strcmp(m->s.fs, fs->s.name) == 0);
}

/* Checks one scope that is being served; fs NULL: global. */
static int check_scope(struct registry *r, const struct served_fs *fs, const void *changed,
		       const struct settings *s, const struct settings **mount, struct error *err)
{
	const struct settings *scope = fs ? &fs->s : &r->global;
	char what[200] = "global";
	unsigned n = 0;
	if (changed == (fs ? (const void *)fs : r))
		scope = s;
	if (fs)
		snprintf(what, sizeof(what), "fs '%s'", fs->s.name);
	list_for_each (it, &r->mounts) {
		const struct served_mount *m = list_entry(it, struct served_mount, link);
		if (is_in(m, fs))
			mount[n++] = changed == m ? s : &m->s;
	}
	return reserves_check_shared(scope, what, mount, n, first_problem, err) ? -1 : 0;
}

int reserves_check_live(struct registry *r, const void *changed, const struct settings *s,
			struct error *err)
{
	size_t n = 1;
	list_for_each (it, &r->mounts)
		n++;
	AUTO_FREE const struct settings **mount = calloc(n, sizeof(*mount));
	if (!mount)
		return error_set(err, "nothing was changed: out of memory");
	if (check_scope(r, NULL, changed, s, mount, err) < 0)
		return -1;
	list_for_each (it, &r->fs)
		if (check_scope(r, list_entry(it, struct served_fs, link), changed, s, mount, err) <
		    0)
			return -1;
	return 0;
}
