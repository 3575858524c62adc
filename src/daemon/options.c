/* SPDX-License-Identifier: MIT */
/* Parses the values of options. */
#include "daemon/options.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/cleanup.h"
#include "base/units.h"
#include "daemon/option_parse.h"

static unsigned row(const struct option_def *o)
{
	return o - options;
}

static void *field(const struct option_def *o, struct settings *s)
{
	return (char *)s + o->offset;
}

/* --- values in ------------------------------------------------------------------------------ */

static int parse_rate(const struct option_def *o, struct settings *s, const char *value,
		      struct error *err)
{
	uint64_t rate = 0;
	int rc = option_is_off(value)		? 0
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
	int rc = option_is_off(value)		? 0
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
		return error_set(err, "'%s': has no unit; write for example %sms or %ss", value,
				 value, value);
	int rc = option_is_off(value)	      ? 0
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

static int parse_timeout(const struct option_def *o, struct settings *s, const char *value,
			 struct error *err)
{
	uint64_t ns = 0;
	int64_t *out = field(o, s);
	if (strcasecmp(value, "auto") == 0) {
		*out = -1;
		return 0;
	}
	if (!option_is_off(value) && units_parse_duration(value, &ns, err) < 0)
		return -1;
	*out = min_u64(ns, INT64_MAX);
	return 0;
}

int option_choice(const char *words, const char *value)
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
	int i = option_choice(o->syntax, value);
	if (i < 0)
		return error_set(err, "'%s': must be one of %s", value, o->syntax);
	*(unsigned *)field(o, s) = i;
	return 0;
}

static int parse_bool_value(const char *value, bool *out, struct error *err)
{
	int i = option_choice("yes|no|true|false|on|off|1|0", value);
	if (i < 0)
		return error_set(err, "'%s': must be yes or no", value);
	*out = i % 2 == 0;
	return 0;
}

bool is_other_target(const char *name)
{
	return !strcmp(name, "global") || !strncmp(name, "fs:", 3) || !strncmp(name, "pool:", 5);
}

static int check_text(const struct option_def *o, const char *value, struct error *err)
{
	if (!*value)
		return error_set(err, "is empty; give a value, or leave it out");
	if (!strcmp(o->name, "name") && is_other_target(value))
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
		return option_no_memory(err);
	free(*out);
	*out = copy;
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
		return words_put(&s->fuse, o->name, o->opposite) ? 0 : option_no_memory(err);
	if (o->opposite)
		return words_put(&s->fuse, o->opposite, o->name) ? 0 : option_no_memory(err);
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
			return option_no_memory(err);
	} else if (asprintf(&text, "%s=%s", o->name, value) < 0) {
		return option_no_memory(err);
	}
	return words_put(&s->fuse, text, NULL) ? 0 : option_no_memory(err);
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
		return option_parse_latency(field(o, s), value, err);
	case OPTION_SEEK:
		return option_parse_seek(field(o, s), value, err);
	case OPTION_STALL:
		return option_parse_stall(field(o, s), value, err);
	case OPTION_TEXT:
		return parse_text(o, s, value, err);
	case OPTION_WEIGHTS:
		return option_parse_weights(field(o, s), value, scope, batch[row(o)], err);
	case OPTION_MATCH:
		return option_parse_match(field(o, s), value, err);
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

/* Hints for options of other filesystems, and for options of ratefs that
 * belong in another place. */
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
				 "%s: belongs to a class; use [class:NAME] in a file, or "
				 "'ratefsctl class add'",
				 o->name);
	if (!option_is_in(o, scope) && option_widest(o) == SCOPE_POOL)
		return error_set(err,
				 "%s: belongs to a pool; use [pool:NAME] in a file, or -o pool.%s",
				 o->name, o->name);
	if (!option_is_in(o, scope))
		return error_set(err, "%s: belongs to the %s scope, not to %s; set it there",
				 o->name, scope_kind_name(option_widest(o)),
				 scope_kind_name(scope));
	bool bare_ok = o->type == OPTION_FLAG || o->type == OPTION_BOOL || o->type == OPTION_NOISE;
	if (!value && !bare_ok)
		return error_set(err, "%s: needs a value; write %s=%s", o->name, o->name,
				 o->syntax);
	if (o->type == OPTION_BOOL && !value)
		value = "yes";
	if (set_value(o, s, scope, value, batch, err) < 0)
		return error_prefix(err, "%s", o->name);
	s->given[row(o)] = batch[row(o)] = true;
	return 0;
}
