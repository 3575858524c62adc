/* SPDX-License-Identifier: MIT */
/* The upper part of `ratefsctl top`: a bar for each limit, for used space, and for this daemon's share of each pool. */
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/util.h"
#include "ctl/top_view.h"

struct list {
	struct top_row *row;
	unsigned n, room;
	bool failed;
};

static struct top_row *add(struct list *l, enum top_row_kind kind)
{
	static struct top_row lost;
	if (l->n == l->room && !l->failed) {
		unsigned room = 2 * l->room + 16;
		struct top_row *row = realloc(l->row, room * sizeof(*row));
		l->failed = !row;
		l->row = row ? row : l->row;
		l->room = row ? room : l->room;
	}
	struct top_row *r = l->failed ? &lost : &l->row[l->n++];
	*r = (struct top_row){.kind = kind};
	return r;
}

static void add_head(struct list *l, const char *what, const char *bar,
		     const char *const cell[TOP_CELLS])
{
	struct top_row *r = add(l, ROW_HEAD);
	snprintf(r->text, sizeof(r->text), "%s", what);
	r->bar = bar;
	for (unsigned i = 0; i < TOP_CELLS; i++)
		snprintf(r->cell[i], sizeof(r->cell[i]), "%s", cell[i]);
}

static void PRINTF_LIKE(3, 4) add_note(struct list *l, bool hot, const char *format, ...)
{
	struct top_row *r = add(l, ROW_NOTE);
	va_list ap;
	r->hot = hot;
	va_start(ap, format);
	vsnprintf(r->text, sizeof(r->text), format, ap);
	va_end(ap);
}

static void amount(char cell[TEXT_AMOUNT_MAX], double n, bool bytes)
{
	/* less than a tenth is shown as 0 */
	text_amount(bytes || n >= 10 ? n : round(n * 10) / 10, bytes ? 1024 : 1000, cell);
}

static void word(char cell[TEXT_AMOUNT_MAX], const char *text)
{
	snprintf(cell, TEXT_AMOUNT_MAX, "%s", text);
}

/* A bar that + and - change. */
static struct top_row *add_bar(struct list *l, uint64_t daemon, const char *target,
			       const char *option, double value, bool bytes)
{
	struct top_row *r = add(l, ROW_BAR);
	r->daemon = daemon;
	snprintf(r->target, sizeof(r->target), "%s", target);
	snprintf(r->option, sizeof(r->option), "%s", option);
	snprintf(r->text, sizeof(r->text), "%s.%s", r->target, r->option);
	r->value = value;
	r->bytes = bytes;
	return r;
}

/* --- limits ------------------------------------------------------------------------------------- */

static void add_limit(struct list *list, const struct limit_rates *r)
{
	const struct snap_limit *l = r->limit;
	char target[RATES_TARGET_MAX];
	double most = l->rate ? l->per_sec : (double)l->permits;
	struct top_row *row = add_bar(list, r->seen_from->daemon, limit_target(r, target), l->name,
				      most, l->bytes);
	/* The rate of a pool here is what was granted and cannot be changed; the pool's own limit
	 * has a bar further below. */
	row->kind = limit_is_of_pool(l) ? ROW_MEMBER : ROW_BAR;
	row->share = most > 0 ? r->used / most : 0;
	row->hot = r->refused_share >= 0.5;
	amount(row->cell[0], r->used, l->bytes);
	amount(row->cell[1], most, l->bytes);
	if (l->rate && !l->each)
		amount(row->cell[2], l->level, l->bytes);
	else
		word(row->cell[2], l->each ? "each" : "-");
	snprintf(row->cell[3], sizeof(row->cell[3]), "%.0f%%", 100 * r->refused_share);
}

static bool add_limits(struct list *list, const struct top_data *d, const struct snapshot *before)
{
	unsigned n;
	struct limit_rates *l = limit_rates(d->now, before, d->key, d->keys, &n);
	add_head(list, "LIMIT", "IN USE",
		 (const char *const[]){"NOW/S", "RATE/S", "LEVEL", "BLOCKING"});
	for (unsigned i = 0; l && i < n; i++)
		add_limit(list, &l[i]);
	free(l);
	return l;
}

/* --- space -------------------------------------------------------------------------------------- */

static void add_space(struct list *list, const struct snap_scope *s, const char *option,
		      uint64_t used, uint64_t most, double refused)
{
	char target[RATES_TARGET_MAX];
	bool bytes = strcmp(option, "size") == 0, failed = strcmp(s->space_state, "failed") == 0;
	snprintf(target, sizeof(target), "%s%s", strcmp(s->scope, "fs") == 0 ? "fs:" : "", s->name);
	struct top_row *row = add_bar(list, s->daemon, target, option, (double)most, bytes);
	row->share = (double)used / (double)most;
	row->hot = used >= most || failed;
	amount(row->cell[0], (double)used, bytes);
	amount(row->cell[1], (double)most, bytes);
	if (strcmp(s->space_state, "counting") == 0 || failed)
		word(row->cell[2], failed ? "failed" : "counts");
	else
		amount(row->cell[2], used < most ? (double)(most - used) : 0, bytes);
	amount(row->cell[3], refused, false);
}

static bool is(const struct snap_scope *s, const char *scope)
{
	return strcmp(s->scope, scope) == 0;
}

/* The daemon reports the tighter limit of a mount and its fs; a limit is shown only for the scope
 * that sets it. */
static void add_spaces(struct list *list, const struct snapshot *now, const struct snapshot *before)
{
	bool any = false;
	double seconds = snapshot_seconds(now, before);
	for (unsigned i = 0; i < now->scopes; i++) {
		const struct snap_scope *s = &now->scope[i];
		if (!is(s, "mount") && !is(s, "fs"))
			continue;
		const struct snap_scope *was = snapshot_find(before, s->daemon, s->scope, s->name);
		const struct snap_scope *fs =
			is(s, "mount") ? snapshot_find(now, s->daemon, "fs", s->fs) : NULL;
		bool size = s->space_limit && (!fs || s->space_limit != fs->space_limit);
		bool inodes = s->inodes_limit && (!fs || s->inodes_limit != fs->inodes_limit);
		double refused = was && seconds > 0 && s->space_refused > was->space_refused
					 ? (double)(s->space_refused - was->space_refused) / seconds
					 : 0;
		if ((size || inodes) && !any)
			add_head(list, "SPACE", "IN USE",
				 (const char *const[]){"USED", "LIMIT", "LEFT", "ENOSPC/S"});
		any |= size || inodes;
		if (size)
			add_space(list, s, "size", s->space_used, s->space_limit, refused);
		if (inodes)
			add_space(list, s, "inodes", s->inodes_used, s->inodes_limit, refused);
	}
}

/* --- pools -------------------------------------------------------------------------------------- */

static void add_member(struct list *list, const struct snap_pool_member *m,
		       const struct snap_pool_limit *l)
{
	struct top_row *row = add(list, ROW_MEMBER);
	double share = snapshot_pool_share(m, l);
	if (m->weight != 1)
		snprintf(row->text, sizeof(row->text), "  %s, weight %" PRIu64, m->host, m->weight);
	else
		snprintf(row->text, sizeof(row->text), "  %s", m->host);
	row->share = l->rate > 0 ? share / l->rate : 0;
	amount(row->cell[0], share, l->bytes);
	text_ns(m->age_ns, row->cell[3]);
}

static void add_pool_limit(struct list *list, uint64_t daemon, const struct snap_pool *p,
			   const struct snap_pool_limit *l)
{
	char target[RATES_TARGET_MAX];
	snprintf(target, sizeof(target), "pool:%s", p->name);
	struct top_row *row = add_bar(list, daemon, target, l->name, l->rate, l->bytes);
	row->share = !l->limited_here || l->rate <= 0 ? 1 : l->granted / l->rate;
	row->hot = p->lost_ns;
	if (l->limited_here)
		amount(row->cell[0], l->granted, l->bytes);
	else
		word(row->cell[0], "all");
	amount(row->cell[1], l->rate, l->bytes);
	if (l->wants_all)
		word(row->cell[2], "all");
	else
		amount(row->cell[2], l->demand, l->bytes);
	word(row->cell[3], "-");
	if (p->answered)
		text_ns(p->answer_age_ns, row->cell[3]);
	for (unsigned i = 0; i < p->listed; i++)
		add_member(list, &p->member[i], l);
}

/* What the daemon does without a lease. */
static const char *meanwhile(const char *mode)
{
	static const struct {
		const char *mode, *text;
	} known[] = {
		{"share", "an equal share"},
		{"stop", "nothing is admitted"},
		{"open", "NO LIMIT"},
		{"starting", "nothing is admitted yet"},
	};
	for (unsigned i = 0; i < ARRAY_SIZE(known); i++)
		if (strcmp(known[i].mode, mode) == 0)
			return known[i].text;
	return mode;
}

static void add_pool(struct list *list, uint64_t daemon, const struct snap_pool *p)
{
	char lost[TEXT_AMOUNT_MAX];
	for (unsigned i = 0; i < p->limits; i++)
		add_pool_limit(list, daemon, p, &p->limit[i]);
	if (p->lost_ns)
		add_note(list, true, "  pool:%s LOST for %s: %s; %s", p->name,
			 text_ns(p->lost_ns, lost), meanwhile(p->mode),
			 *p->error ? p->error : "no answer from the server");
	else if (*p->error)
		add_note(list, true, "  pool:%s: %s", p->name, p->error);
	if (p->members > p->listed && p->listed)
		add_note(list, false, "    and %" PRIu64 " more members", p->members - p->listed);
}

static void add_pools(struct list *list, const struct snapshot *now)
{
	bool any = false;
	for (unsigned i = 0; i < now->scopes; i++) {
		const struct snap_scope *s = &now->scope[i];
		if (s->pools && !any)
			add_head(list, "POOL", "GRANTED",
				 (const char *const[]){"HERE/S", "POOL/S", "WANTED", "AGE"});
		any |= s->pools > 0;
		for (unsigned k = 0; k < s->pools; k++)
			add_pool(list, s->daemon, &s->pool[k]);
	}
}

bool top_rows_make(struct top_data *d, const struct snapshot *before)
{
	struct list list = {0};
	bool ok = add_limits(&list, d, before);
	add_spaces(&list, d->now, before);
	add_pools(&list, d->now);
	d->row = list.row;
	d->rows = list.n;
	return ok && !list.failed;
}
