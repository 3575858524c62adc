/* SPDX-License-Identifier: MIT */
/* Parses the values of options. */
#include "daemon/options.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/cleanup.h"
#include "base/units.h"
#include "daemon/names.h"
#include "fs/cgroup.h"

static unsigned row(const struct option_def *o)
{
	return o - options;
}

static void *field(const struct option_def *o, struct settings *s)
{
	return (char *)s + o->offset;
}

static int no_memory(struct error *err)
{
	return error_set(err, "out of memory");
}

/* --- values in ------------------------------------------------------------------------------ */

static bool is_off(const char *value)
{
	return strcasecmp(value, "off") == 0 || strcasecmp(value, "unlimited") == 0;
}

static int parse_rate(const struct option_def *o, struct settings *s, const char *value,
		      struct error *err)
{
	uint64_t rate = 0;
	int rc = is_off(value)			? 0
		 : limit_kind_is_bytes(o->kind) ? units_parse_byte_rate(value, &rate, err)
						: units_parse_op_rate(value, &rate, err);
	if (rc < 0)
		return -1;
	if (rate > BUCKET_RATE_MAX)
		return error_set(err, "'%s': too large; the most is 2^53 per second", value);
	struct limit_config *l = field(o, s);
	if (o->type == OPTION_RESERVE) {
		*(uint64_t *)field(o, s) = rate;
	} else if (o->type == OPTION_PEAK) {
		l->peak_per_sec = rate;
	} else {
		l->enabled = rate > 0;
		l->rate_per_sec = rate;
	}
	return 0;
}

static int parse_tokens(const struct option_def *o, struct settings *s, const char *value,
			struct error *err)
{
	struct limit_config *l = field(o, s);
	uint64_t tokens = 0;
	int rc = is_off(value)			? 0
		 : limit_kind_is_bytes(o->kind) ? units_parse_bytes(value, &tokens, err)
						: units_parse_count(value, &tokens, err);
	if (rc < 0)
		return -1;
	if (tokens > BUCKET_CAPACITY_MAX / 2)
		return error_set(err, "'%s': too large; the most is 2^59", value);
	if (o->type == OPTION_BURST)
		l->burst = tokens;
	else
		l->once = tokens;
	return 0;
}

/* For most times a bare number means seconds; a window is usually meant in milliseconds. */
static bool needs_unit(const struct option_def *o, const char *value)
{
	return strcmp(o->name, "window") == 0 && strspn(value, "0123456789.") == strlen(value);
}

static int parse_number(const struct option_def *o, struct settings *s, const char *value,
			struct error *err)
{
	char bound[UNITS_TEXT_MAX];
	uint64_t n = 0;
	if (*value && needs_unit(o, value))
		return error_set(err, "'%s': give a unit, for example %sms or %ss", value, value,
				 value);
	int rc = is_off(value)		      ? 0
		 : o->type == OPTION_BYTES    ? units_parse_bytes(value, &n, err)
		 : o->type == OPTION_DURATION ? units_parse_duration(value, &n, err)
					      : units_parse_count(value, &n, err);
	if (rc < 0)
		return -1;
	if (n < o->min || n > o->max)
		return error_set(err, "'%s': must be %s %s", value,
				 n < o->min ? "at least" : "at most",
				 option_format_number(o, n < o->min ? o->min : o->max, bound));
	*(uint64_t *)field(o, s) = n;
	return 0;
}

/* --- the device --- */

static int parse_time(const char *text, uint64_t *ns, struct error *err)
{
	if (*text && strspn(text, "123456789.0") == strlen(text) && strtod(text, NULL) > 0)
		return error_set(err, "'%s': give a unit, for example %sms or %ss", text, text,
				 text);
	if (units_parse_duration(text, ns, err) < 0)
		return -1;
	if (*ns > LATENCY_MAX_NS)
		return error_set(err, "'%s': must be at most 1h", text);
	return 0;
}

/* "A", or "A" and "B" around one of `marks`, which is stored in *mark (0: none). */
static int parse_times(const char *value, const char *marks, char *mark, uint64_t ns[2],
		       struct error *err)
{
	AUTO_FREE char *copy = strdup(value);
	if (!copy)
		return no_memory(err);
	char *at = strpbrk(copy, marks);
	*mark = at ? *at : '\0';
	if (at)
		*at++ = '\0';
	ns[1] = 0;
	return parse_time(copy, &ns[0], err) < 0 || (at && parse_time(at, &ns[1], err) < 0) ? -1
											    : 0;
}

static int parse_latency(struct latency *l, const char *value, struct error *err)
{
	uint64_t ns[2] = {0, 0};
	char mark = 0;
	if (is_off(value)) {
		*l = (struct latency){0};
		return 0;
	}
	if (parse_times(value, "~^", &mark, ns, err) < 0)
		return -1;
	if (mark == '~' && ns[1] > ns[0])
		return error_set(err, "'%s': the part after '~' must not be the larger one", value);
	if (mark == '^' && (!ns[0] || ns[1] <= ns[0]))
		return error_set(err, "'%s': write MEDIAN^P99, the smaller one first", value);
	*l = (struct latency){mark == '~'   ? LATENCY_UNIFORM
			      : mark == '^' ? LATENCY_LOGNORMAL
					    : LATENCY_FIXED,
			      ns[0], ns[1]};
	return 0;
}

/* Fills two consecutive fields. */
static int parse_seek(uint64_t *out, const char *value, struct error *err)
{
	uint64_t ns[2] = {0, 0};
	char mark = 0;
	if (!is_off(value) && parse_times(value, "-", &mark, ns, err) < 0)
		return -1;
	if (!is_off(value) && !mark)
		ns[1] = ns[0];
	if (ns[1] < ns[0])
		return error_set(err, "'%s': write MIN-MAX, the smaller one first", value);
	out[0] = ns[0];
	out[1] = ns[1];
	return 0;
}

static int parse_stall(uint64_t *out, const char *value, struct error *err)
{
	uint64_t ns[2] = {0, 0};
	char mark = 0;
	if (!is_off(value)) {
		if (parse_times(value, "/", &mark, ns, err) < 0)
			return -1;
		if (!mark || !ns[0])
			return error_set(err, "'%s': write LENGTH/EVERY, for example 200ms/30s",
					 value);
		if (ns[1] < NSEC_PER_MSEC || ns[0] > ns[1])
			return error_set(
				err, "'%s': EVERY must be at least 1ms and not shorter than LENGTH",
				value);
	}
	out[0] = ns[0];
	out[1] = ns[1];
	return 0;
}

static int parse_timeout(const struct option_def *o, struct settings *s, const char *value,
			 struct error *err)
{
	uint64_t ns = 0;
	int64_t *out = field(o, s);
	if (strcasecmp(value, "auto") == 0) {
		*out = -1;
		return 0;
	}
	if (!is_off(value) && units_parse_duration(value, &ns, err) < 0)
		return -1;
	*out = min_u64(ns, INT64_MAX);
	return 0;
}

/* The index of `value` among "a|b|c", or -1. */
static int choice_index(const char *words, const char *value)
{
	for (int i = 0;; i++) {
		size_t n = strcspn(words, "|");
		if (strlen(value) == n && strncasecmp(words, value, n) == 0)
			return i;
		if (!words[n])
			return -1;
		words += n + 1;
	}
}

static int parse_choice(const struct option_def *o, struct settings *s, const char *value,
			struct error *err)
{
	int i = choice_index(o->syntax, value);
	if (i < 0)
		return error_set(err, "'%s': must be one of %s", value, o->syntax);
	*(unsigned *)field(o, s) = i;
	return 0;
}

static int parse_bool_value(const char *value, bool *out, struct error *err)
{
	int i = choice_index("yes|no|true|false|on|off|1|0", value);
	if (i < 0)
		return error_set(err, "'%s': must be yes or no", value);
	*out = i % 2 == 0;
	return 0;
}

/* Mounts are found by name, so it must not be one that means something else. */
static int check_text(const struct option_def *o, const char *value, struct error *err)
{
	if (!*value)
		return error_set(err, "is empty");
	if (!strcmp(o->name, "name") && (!strcmp(value, "global") || !strncmp(value, "fs:", 3)))
		return error_set(err, "'%s' has another meaning for ratefsctl; choose another name",
				 value);
	if (!strcmp(o->name, "control") && value[0] != '/' && strcmp(value, "off") != 0)
		return error_set(err, "'%s' is neither an absolute path nor off", value);
	return 0;
}

static int parse_text(const struct option_def *o, struct settings *s, const char *value,
		      struct error *err)
{
	char **out = field(o, s);
	if (check_text(o, value, err) < 0)
		return -1;
	bool none = !strcmp(o->name, "parent") && !strcasecmp(value, "none");
	char *copy = none ? NULL : strdup(value);
	if (!copy && !none)
		return no_memory(err);
	free(*out);
	*out = copy;
	return 0;
}

/* --- weights -------------------------------------------------------------------------------- */

static int parse_id(enum fair_kind kind, const char *id, uint64_t *out, struct error *err)
{
	char *end;
	*out = strtoull(id, &end, 10);
	if (*id >= '0' && *id <= '9' && !*end)
		return 0;
	if (kind == FAIR_UID || kind == FAIR_GID)
		return names_find(kind == FAIR_UID ? NAME_USER : NAME_GROUP, id, out, err);
	return error_set(err, "'%s' is not a process id", id);
}

/* What a rule applies to; the glob is to be freed. */
static int parse_whose(struct weight_rule *rule, const char *kind, const char *id, const char *text,
		       struct error *err)
{
	static const enum fair_kind kinds[] = {FAIR_PROCESS, FAIR_UID, FAIR_GID, FAIR_CGROUP,
					       FAIR_PROCESS};
	int i = choice_index("process|uid|gid|cgroup|comm", kind);
	if (i < 0)
		return error_set(
			err, "'%s': must begin with process:, uid:, gid:, cgroup: or comm:", text);
	bool comm = strcasecmp(kind, "comm") == 0;
	rule->key.kind = kinds[i];
	if (!comm && rule->key.kind != FAIR_CGROUP)
		return parse_id(rule->key.kind, id, &rule->key.id, err);
	if (!comm && *id != '/')
		return error_set(err, "'%s': a cgroup begins with '/'", text);
	if (!*id)
		return error_set(err, "'%s': the name of the program is missing", text);
	if (!comm && !strpbrk(id, "*?[")) {
		rule->key.id = cgroup_id(id);
		return 0;
	}
	rule->glob = strdup(id);
	return rule->glob ? 0 : no_memory(err);
}

static int parse_weight(const char *text, uint32_t *weight)
{
	char *end;
	unsigned long n = strtoul(text, &end, 10);
	*weight = (uint32_t)n;
	return *end || *text < '0' || *text > '9' || n < 1 || n > WEIGHT_MAX ? -1 : 0;
}

int weights_parse(struct weights *w, const char *text, struct error *err)
{
	struct weight_rule rule = {0};
	AUTO_FREE char *copy = strdup(text);
	if (!copy)
		return no_memory(err);
	char *id = strchr(copy, ':'), *weight = strrchr(copy, '=');
	if (!id || !weight || weight < id)
		return error_set(err, "'%s': write it like uid:1000=4", text);
	const char *comma = strchr(text, ',');
	if (comma && strchr(comma, ':') && strchr(comma, '='))
		return error_set(err, "'%s': join weights with '+', not ','", text);
	*id++ = '\0';
	*weight++ = '\0';
	if (parse_weight(weight, &rule.weight) < 0)
		return error_set(err, "'%s': the weight must be between 1 and %u", text,
				 WEIGHT_MAX);
	if (parse_whose(&rule, copy, id, text, err) < 0)
		return -1;
	bool added = weights_add(w, &rule, text);
	free((char *)rule.glob);
	return added ? 0 : no_memory(err);
}

/* A number without a key is the share of the class itself. */
static int parse_own_weight(struct weights *w, const char *text, enum scope_kind scope,
			    struct error *err)
{
	if (scope == SCOPE_MOUNT)
		return error_set(err, "'%s': the share of a mount is mount_weight", text);
	if (parse_weight(text, &w->own) < 0)
		return error_set(err, "'%s': the weight must be between 1 and %u", text,
				 WEIGHT_MAX);
	return 0;
}

/* "uid:1=2+gid:3=4", "3": adds to the existing weights or replaces them; all or none. */
static int parse_weights(struct weights *w, const char *value, enum scope_kind scope, bool adds,
			 struct error *err)
{
	struct weights fresh = {0};
	AUTO_FREE char *copy = strdup(value);
	char *save = NULL;
	int rc = copy ? 0 : no_memory(err);
	if (rc == 0 && adds && !weights_copy(&fresh, w))
		rc = no_memory(err);
	for (char *one = copy ? strtok_r(copy, "+", &save) : NULL; one && rc == 0;
	     one = strtok_r(NULL, "+", &save))
		rc = strspn(one, "0123456789") == strlen(one)
			     ? parse_own_weight(&fresh, one, scope, err)
			     : weights_parse(&fresh, one, err);
	if (rc < 0) {
		weights_free(&fresh);
		return -1;
	}
	weights_free(w);
	*w = fresh;
	return 0;
}

/* --- matches -------------------------------------------------------------------------------- */

static int resolve(enum rule_field field, const char *name, uint32_t *number, struct error *err)
{
	uint64_t id;
	if (names_find(field == RULE_UID ? NAME_USER : NAME_GROUP, name, &id, err) < 0)
		return -1;
	*number = (uint32_t)id;
	return 0;
}

static int parse_match(struct match *m, const char *value, struct error *err)
{
	bool none = strcasecmp(value, "none") == 0;
	struct match fresh = {0};
	if (!none && !(fresh.rule = rule_parse(value, resolve, err)))
		return -1;
	if (!none && !(fresh.text = strdup(value))) {
		rule_free(fresh.rule);
		return no_memory(err);
	}
	match_free(m);
	*m = fresh;
	return 0;
}

/* --- FUSE ----------------------------------------------------------------------------------- */

static int set_flag(const struct option_def *o, struct settings *s, const char *value,
		    struct error *err)
{
	bool on = true;
	if (value && parse_bool_value(value, &on, err) < 0)
		return -1;
	if (on)
		return words_put(&s->fuse, o->name, o->opposite) ? 0 : no_memory(err);
	if (o->opposite)
		return words_put(&s->fuse, o->opposite, o->name) ? 0 : no_memory(err);
	words_remove(&s->fuse, o->name);
	return 0;
}

static int set_fuse_value(const struct option_def *o, struct settings *s, const char *value,
			  struct error *err)
{
	uint64_t bytes;
	AUTO_FREE char *text = NULL;
	if (!*value)
		return error_set(err, "is empty; give a value, or leave it out");
	if (strcmp(o->name, "max_read") == 0) { /* libfuse requires a plain number */
		if (units_parse_bytes(value, &bytes, err) < 0)
			return -1;
		if (bytes < 4096 || bytes > 1 << 20)
			return error_set(err, "'%s': must be between 4K and 1M", value);
		if (asprintf(&text, "max_read=%llu", (unsigned long long)bytes) < 0)
			return no_memory(err);
	} else if (asprintf(&text, "%s=%s", o->name, value) < 0) {
		return no_memory(err);
	}
	return words_put(&s->fuse, text, NULL) ? 0 : no_memory(err);
}

/* --- one option ----------------------------------------------------------------------------- */

static int set_value(const struct option_def *o, struct settings *s, enum scope_kind scope,
		     const char *value, bool *batch, struct error *err)
{
	switch (o->type) {
	case OPTION_RATE:
	case OPTION_PEAK:
	case OPTION_RESERVE:
		return parse_rate(o, s, value, err);
	case OPTION_BURST:
	case OPTION_ONCE:
		return parse_tokens(o, s, value, err);
	case OPTION_COUNT:
	case OPTION_BYTES:
	case OPTION_DURATION:
		return parse_number(o, s, value, err);
	case OPTION_TIMEOUT:
		return parse_timeout(o, s, value, err);
	case OPTION_CHOICE:
		return parse_choice(o, s, value, err);
	case OPTION_BOOL:
		return parse_bool_value(value, field(o, s), err);
	case OPTION_LATENCY:
		return parse_latency(field(o, s), value, err);
	case OPTION_SEEK:
		return parse_seek(field(o, s), value, err);
	case OPTION_STALL:
		return parse_stall(field(o, s), value, err);
	case OPTION_TEXT:
		return parse_text(o, s, value, err);
	case OPTION_WEIGHTS:
		return parse_weights(field(o, s), value, scope, batch[row(o)], err);
	case OPTION_MATCH:
		return parse_match(field(o, s), value, err);
	case OPTION_FLAG:
		return set_flag(o, s, value, err);
	case OPTION_VALUE:
		return set_fuse_value(o, s, value, err);
	case OPTION_LIST: /* split by daemon/config_file.c */
		return error_set(err, "is for configuration files");
	case OPTION_NOISE:
		break;
	}
	return 0;
}

/* What users try who know other filesystems, or who confuse places in ratefs. */
static const char *hint(const char *name)
{
	static const char *const owners[] = {"uid", "gid", "umask", "fmask", "dmask"};
	static const char *const weights[] = {"uid:", "gid:", "process:", "cgroup:", "comm:"};
	for (unsigned i = 0; i < ARRAY_SIZE(owners); i++)
		if (strcasecmp(name, owners[i]) == 0)
			return "owners and permissions are those of the source";
	for (unsigned i = 0; i < ARRAY_SIZE(weights); i++)
		if (strncasecmp(name, weights[i], strlen(weights[i])) == 0)
			return "join weights with '+': weight=uid:0=4+uid:1=2";
	if (strncasecmp(name, "global.", 7) == 0)
		return "limits of all mounts belong to global: [global] in a file, "
		       "'ratefsctl set global'";
	if (strncasecmp(name, "fs.", 3) == 0)
		return "limits of a source belong to its fs: [fs:NAME] in a file, "
		       "'ratefsctl set fs:NAME'";
	return NULL;
}

static int unknown(const char *name, enum scope_kind scope, struct error *err)
{
	const char *advice = hint(name), *near = advice ? NULL : option_nearest(name, scope);
	if (near)
		return error_set(err, "unknown option '%s'; did you mean '%s'?", name, near);
	return error_set(err, "unknown option '%s'; %s", name,
			 advice ? advice : "see ratefs --help");
}

int option_set(struct settings *s, enum scope_kind scope, const char *name, const char *value,
	       bool batch[OPTIONS_MAX], struct error *err)
{
	const struct option_def *o = option_find(name);
	if (!o)
		return unknown(name, scope, err);
	if (!option_is_in(o, scope) && option_widest(o) == SCOPE_CLASS)
		return error_set(err,
				 "%s: belongs to a class: [class:NAME] in a file, or 'ratefsctl "
				 "class add'",
				 o->name);
	if (!option_is_in(o, scope) && option_widest(o) == SCOPE_POOL)
		return error_set(err, "%s: belongs to a pool: [pool:NAME] in a file, or -o pool.%s",
				 o->name, o->name);
	if (!option_is_in(o, scope))
		return error_set(err, "%s: belongs to the %s scope, not to %s", o->name,
				 scope_kind_name(option_widest(o)), scope_kind_name(scope));
	bool bare_ok = o->type == OPTION_FLAG || o->type == OPTION_BOOL || o->type == OPTION_NOISE;
	if (!value && !bare_ok)
		return error_set(err, "%s: needs a value: %s=%s", o->name, o->name, o->syntax);
	if (o->type == OPTION_BOOL && !value)
		value = "yes";
	if (set_value(o, s, scope, value, batch, err) < 0)
		return error_prefix(err, "%s", o->name);
	s->given[row(o)] = batch[row(o)] = true;
	return 0;
}
