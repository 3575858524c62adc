/* SPDX-License-Identifier: MIT */
#include "daemon/classes.h"

#include <ctype.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/cleanup.h"
#include "base/units.h"
#include "daemon/options.h"
#include "daemon/reserves.h"

#define CLASS_NAME_MAX 64

/* --- checks --------------------------------------------------------------------------------- */

struct check {
	const struct settings *mount;
	class_report *report;
	void *ctx;
	unsigned n;
};

static void problem(struct check *c, const struct settings *s, const char *option, const char *fmt,
		    ...) PRINTF_LIKE(4, 5);
static void problem(struct check *c, const struct settings *s, const char *option, const char *fmt,
		    ...)
{
	char text[400];
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	c->report(c->ctx, s, option, text);
	c->n++;
}

/* Names are written as [class:NAME], and as MOUNT/NAME. */
static bool is_class_name(const char *name)
{
	size_t n = strlen(name);
	for (const char *p = name; *p; p++)
		if (iscntrl((unsigned char)*p) || strchr("/[]#;'\"\\", *p))
			return false;
	return n && n <= CLASS_NAME_MAX && name[0] != ' ' && name[n - 1] != ' ' &&
	       strcasecmp(name, "none") != 0;
}

static void check_name(struct check *c, unsigned i)
{
	const struct settings *s = &c->mount->class[i];
	if (!is_class_name(s->name))
		problem(c, s, "",
			"'%.80s' cannot be the name of a class; use at most %d characters, without "
			"'/', brackets, quotes, '#' and ';', and not 'none'",
			s->name, CLASS_NAME_MAX);
	for (unsigned k = 0; k < i; k++)
		if (strcmp(c->mount->class[k].name, s->name) == 0)
			problem(c, s, "", "there are two classes of that name; rename one");
}

static const struct settings *parent_of(const struct check *c, const struct settings *s)
{
	return s->parent ? settings_find_class(c->mount, s->parent) : NULL;
}

/* Reports a cycle of parents once: at its first class in the order of the file. */
static void report_cycle(struct check *c, const struct settings *s)
{
	char names[200] = "";
	size_t n = 0;
	const struct settings *at = s;
	do {
		if (at < s)
			return;
		n += (size_t)snprintf(names + n, sizeof(names) - n, "'%s' in ", at->name);
		at = parent_of(c, at);
	} while (at != s && n < sizeof(names));
	problem(c, s, "parent", "the classes are inside each other: %.150s'%s'; %s", names, s->name,
		"give one of them another parent, or none");
}

/* Follows `parent` from this class to the mount. */
static void check_parent(struct check *c, const struct settings *s)
{
	unsigned depth = 0;
	if (s->parent && !parent_of(c, s))
		problem(c, s, "parent", "there is no class '%s' in mount '%s'; add it there first",
			s->parent, c->mount->name);
	for (const struct settings *at = parent_of(c, s); at; at = parent_of(c, at)) {
		if (at == s) {
			report_cycle(c, s);
			return;
		}
		if (++depth < GATE_CLASS_DEPTH_MAX)
			continue;
		/* If the parents form a cycle without this class, a class in the cycle is
		 * reported instead. */
		if (depth == GATE_CLASS_DEPTH_MAX && !at->parent)
			problem(c, s, "parent",
				"more than %d classes inside each other; give it a parent further "
				"out",
				GATE_CLASS_DEPTH_MAX);
		return;
	}
}

/* Reports the i-th class if the classes before it take all requests that it matches. */
static void check_reach(struct check *c, unsigned i)
{
	const struct settings *s = &c->mount->class[i], *last = NULL;
	const struct rule *r = s->match.rule;
	bool several = false;
	for (unsigned k = 0; r && k < r->n; k++) {
		uint32_t left = rule_ops(&r->either[k]);
		for (unsigned e = 0; e < i && left; e++) {
			const struct settings *earlier = &c->mount->class[e];
			uint32_t taken =
				earlier->match.rule
					? left & rule_taken_ops(earlier->match.rule, &r->either[k])
					: 0;
			if (!taken)
				continue;
			left &= ~taken;
			several |= last && last != earlier;
			last = !last || earlier > last ? earlier : last;
		}
		if (left)
			return;
	}
	if (last)
		problem(c, s, "match",
			"the class is never used: %s'%s', which %s tried earlier, %s all of it; "
			"put this class before '%s'",
			several ? "classes up to " : "", last->name, several ? "are" : "is",
			several ? "take" : "takes", last->name);
}

unsigned classes_check(const struct settings *mount, class_report *report, void *ctx)
{
	struct check c = {mount, report, ctx, 0};
	for (unsigned i = 0; i < mount->n_classes; i++) {
		check_name(&c, i);
		check_parent(&c, &mount->class[i]);
		check_reach(&c, i);
	}
	return c.n + reserves_check_mount(mount, report, ctx);
}

static void first_problem(void *ctx, const struct settings *class, const char *option,
			  const char *text)
{
	struct error *err = ctx;
	if (!error_is_set(err))
		error_set(err, "class '%s': %s%s%s", class->name, option, *option ? ": " : "",
			  text);
}

int classes_check_one(const struct settings *mount, struct error *err)
{
	return classes_check(mount, first_problem, err) ? -1 : 0;
}

/* --- passing them to the gate --------------------------------------------------------------- */

static bool same_class(const struct settings *a, const struct settings *b)
{
	for (unsigned i = 0; i < n_options; i++)
		if (option_is_in(&options[i], SCOPE_CLASS) && !option_equal(&options[i], a, b))
			return false;
	for (unsigned k = 0; k < LIMIT_KINDS; k++) /* their pool's rates may have changed */
		if (a->limits.limit[k].pool_per_sec != b->limits.limit[k].pool_per_sec)
			return false;
	return strcmp(a->name, b->name) == 0;
}

bool classes_equal(const struct settings *a, const struct settings *b)
{
	if (a->n_classes != b->n_classes)
		return false;
	for (unsigned i = 0; i < a->n_classes; i++)
		if (!same_class(a->class + i, b->class + i))
			return false;
	/* options that classes inherit from their mount */
	return !a->n_classes ||
	       (a->max_wait_ns == b->max_wait_ns && option_equal(option_find("weight"), a, b));
}

static bool same_key(const struct weight_rule *a, const struct weight_rule *b)
{
	return !a->glob && !b->glob && a->key.kind == b->key.kind && a->key.id == b->key.id;
}

/* Of several rules for one key the last applies; of several globs that match, the first. */
static void add_rules(struct weight_rule *rules, unsigned *n, const struct weights *w)
{
	for (unsigned i = w->n; i-- > 0;) {
		unsigned k = 0;
		while (k < *n && !same_key(&rules[k], &w->rule[i]))
			k++;
		if (k == *n && !w->rule[i].glob)
			rules[(*n)++] = w->rule[i];
	}
	for (unsigned i = 0; i < w->n; i++)
		if (w->rule[i].glob)
			rules[(*n)++] = w->rule[i];
}

bool weight_rules_of(const struct weights *const *list, unsigned n, struct weight_rule **rules,
		     unsigned *n_rules)
{
	unsigned room = 1;
	for (unsigned i = 0; i < n; i++)
		room += list[i]->n;
	*n_rules = 0;
	*rules = calloc(room, sizeof(**rules));
	for (unsigned i = 0; *rules && i < n; i++)
		add_rules(*rules, n_rules, list[i]);
	return *rules;
}

/* If the kernel has a time limit for FUSE requests (0: none), it aborts the whole connection when
 * a request exceeds it: waits must end earlier. */
uint64_t longest_wait_ns(uint64_t ns)
{
	static const char *const limits[] = {"/proc/sys/fs/fuse/max_request_timeout",
					     "/proc/sys/fs/fuse/default_request_timeout"};
	uint64_t longest_ns = ns ? ns : NEVER;
	for (unsigned i = 0; i < ARRAY_SIZE(limits); i++) {
		AUTO_FILE f = fopen(limits[i], "re");
		unsigned seconds;
		if (f && fscanf(f, "%u", &seconds) == 1 && seconds)
			longest_ns = min_u64(longest_ns, seconds * NSEC_PER_SEC * 3 / 4);
	}
	return longest_ns == NEVER ? 0 : longest_ns;
}

/* The shortest max_wait of a class, its parents and the mount. */
static uint64_t max_wait_ns(const struct settings *mount, const struct settings *s)
{
	uint64_t shortest_ns = mount->max_wait_ns ? mount->max_wait_ns : NEVER;
	for (; s; s = s->parent ? settings_find_class(mount, s->parent) : NULL)
		if (s->max_wait_ns)
			shortest_ns = min_u64(shortest_ns, s->max_wait_ns);
	return longest_wait_ns(shortest_ns == NEVER ? 0 : shortest_ns);
}

static bool config_of(const struct settings *mount, const struct settings *s,
		      const struct weights *common, struct gate_class_config *out)
{
	const struct weights *const weights[] = {&s->weights, &mount->weights, common};
	struct weight_rule *rules;
	*out = (struct gate_class_config){
		.name = s->name,
		.parent = s->parent,
		.match = s->match.rule,
		.limits = s->limits,
		.each = s->each,
		.fair = s->fair,
		.weight = s->weights.own,
		.reserve_bps = s->reserve_bps,
		.reserve_iops = s->reserve_iops,
		.max_wait_ns = max_wait_ns(mount, s),
		.max_keys = s->max_keys,
	};
	out->each.window_ns = s->limits.window_ns;
	bool ok = weight_rules_of(weights, ARRAY_SIZE(weights), &rules, &out->n_weights);
	out->weights = rules;
	return ok;
}

struct gate_class_config *classes_config_of(const struct settings *mount,
					    const struct weights *common)
{
	struct gate_class_config *cfg = calloc(mount->n_classes + 1, sizeof(*cfg));
	for (unsigned n = 0; cfg && n < mount->n_classes; n++)
		if (!config_of(mount, &mount->class[n], common, &cfg[n])) {
			classes_config_free(cfg, n);
			return NULL;
		}
	return cfg;
}

void classes_config_free(struct gate_class_config *cfg, unsigned n)
{
	while (n--)
		free((struct weight_rule *)cfg[n].weights);
	free(cfg);
}

int classes_apply(struct gate_mount *gate, const struct settings *mount,
		  const struct weights *common)
{
	struct gate_class_config *cfg = classes_config_of(mount, common);
	int rc = cfg ? gate_set_classes(gate, cfg, mount->n_classes) : -ENOMEM;
	classes_config_free(cfg, cfg ? mount->n_classes : 0);
	return rc;
}
