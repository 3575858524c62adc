/* SPDX-License-Identifier: MIT */
/* Reading and writing the values of the option table. */
#include "daemon/options.h"

#include <grp.h>
#include <pwd.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/cleanup.h"
#include "base/units.h"
#include "fs/key.h"

static unsigned row(const struct option_def *o)
{
	return o - options;
}

static void *field(const struct option_def *o, struct settings *s)
{
	return (char *)s + o->offset;
}

static struct limit_config *limit_of(const struct option_def *o, struct settings *s)
{
	return &s->limits.limit[o->kind];
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
	struct limit_config *l = limit_of(o, s);
	uint64_t rate = 0;
	int rc = is_off(value)			? 0
		 : limit_kind_is_bytes(o->kind) ? units_parse_byte_rate(value, &rate, err)
						: units_parse_op_rate(value, &rate, err);
	if (rc < 0)
		return -1;
	if (rate > BUCKET_RATE_MAX)
		return error_set(err, "'%s': too large; the most is 2^53 per second", value);
	l->enabled = rate > 0;
	l->rate_per_sec = rate;
	return 0;
}

static int parse_tokens(const struct option_def *o, struct settings *s, const char *value,
			struct error *err)
{
	struct limit_config *l = limit_of(o, s);
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

static int parse_number(const struct option_def *o, struct settings *s, const char *value,
			struct error *err)
{
	char low[UNITS_TEXT_MAX], high[UNITS_TEXT_MAX];
	uint64_t n = 0;
	int rc = is_off(value)		      ? 0
		 : o->type == OPTION_BYTES    ? units_parse_bytes(value, &n, err)
		 : o->type == OPTION_DURATION ? units_parse_duration(value, &n, err)
					      : units_parse_count(value, &n, err);
	if (rc < 0)
		return -1;
	if (n < o->min || n > o->max)
		return error_set(err, "'%s': must be between %s and %s", value,
				 option_format_number(o, o->min, low),
				 option_format_number(o, o->max, high));
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

/* By its name a mount is found again: not by what stands for something else. */
static int check_text(const struct option_def *o, const char *value, struct error *err)
{
	if (!*value)
		return error_set(err, "is empty");
	if (!strcmp(o->name, "name") && (!strcmp(value, "global") || !strncmp(value, "fs:", 3)))
		return error_set(err, "'%s' means something else to ratefsctl; take another name",
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
	char *copy = strdup(value);
	if (!copy)
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
	if (kind == FAIR_UID) {
		const struct passwd *pw = getpwnam(id);
		if (!pw)
			return error_set(err, "there is no user '%s'", id);
		*out = pw->pw_uid;
		return 0;
	}
	if (kind == FAIR_GID) {
		const struct group *gr = getgrnam(id);
		if (!gr)
			return error_set(err, "there is no group '%s'", id);
		*out = gr->gr_gid;
		return 0;
	}
	return error_set(err, "'%s' is not a process id", id);
}

int weight_parse(const char *text, struct weight_rule *rule, struct error *err)
{
	static const enum fair_kind kinds[] = {FAIR_PROCESS, FAIR_UID, FAIR_GID, FAIR_CGROUP};
	AUTO_FREE char *copy = strdup(text);
	if (!copy)
		return no_memory(err);
	char *id = strchr(copy, ':'), *weight = strrchr(copy, '=');
	char *end;
	if (!id || !weight || weight < id)
		return error_set(err, "'%s': write it like uid:1000=4", text);
	*id++ = '\0';
	*weight++ = '\0';
	int kind = choice_index("process|uid|gid|cgroup", copy);
	if (kind < 0)
		return error_set(err,
				 "'%s': must begin with process:, uid:, gid: or cgroup:", text);
	unsigned long n = strtoul(weight, &end, 10);
	if (*end || *weight < '0' || *weight > '9' || n < 1 || n > 10000)
		return error_set(err, "'%s': the weight must be between 1 and 10000", text);
	rule->key.kind = kinds[kind];
	rule->weight = n;
	if (rule->key.kind != FAIR_CGROUP)
		return parse_id(rule->key.kind, id, &rule->key.id, err);
	if (*id != '/')
		return error_set(err, "'%s': a cgroup begins with '/'", text);
	rule->key.id = key_cgroup_id(id);
	return 0;
}

/* "uid:1=2+gid:3=4". */
static int parse_weights(struct weights *w, const char *value, bool adds, struct error *err)
{
	struct weights fresh = {0};
	AUTO_FREE char *copy = strdup(value);
	char *save = NULL;
	if (!copy)
		return no_memory(err);
	for (char *one = strtok_r(copy, "+", &save); one; one = strtok_r(NULL, "+", &save)) {
		struct weight_rule rule;
		if (weight_parse(one, &rule, err) < 0 ||
		    (!weights_add(&fresh, &rule, one) && no_memory(err) < 0)) {
			weights_free(&fresh);
			return -1;
		}
	}
	if (!adds)
		weights_free(w);
	for (unsigned i = 0; i < fresh.n; i++)
		if (!weights_add(w, &fresh.rule[i], fresh.text[i]))
			no_memory(err);
	weights_free(&fresh);
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
	words_remove(&s->fuse, o->name);
	if (o->opposite && !words_put(&s->fuse, o->opposite, NULL))
		return no_memory(err);
	return 0;
}

static int set_fuse_value(const struct option_def *o, struct settings *s, const char *value,
			  struct error *err)
{
	uint64_t bytes;
	AUTO_FREE char *text = NULL;
	if (strcmp(o->name, "max_read") == 0) { /* libfuse wants a plain number */
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

static int set_list(struct settings *s, const char *value, bool *batch, struct error *err)
{
	AUTO_FREE char *copy = strdup(value);
	char *rest = copy, *word;
	if (!copy)
		return no_memory(err);
	while ((word = option_next_word(&rest))) {
		char *eq = strchr(word, '=');
		if (!*word)
			continue;
		if (eq)
			*eq++ = '\0';
		if (strcmp(word, "options") == 0)
			return error_set(err, "'options' inside options");
		if (option_set(s, OPTION_MOUNT, word, eq, batch, err) < 0)
			return -1;
	}
	return 0;
}

/* --- one option ----------------------------------------------------------------------------- */

static int set_value(const struct option_def *o, struct settings *s, const char *value, bool *batch,
		     struct error *err)
{
	switch (o->type) {
	case OPTION_RATE:
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
	case OPTION_TEXT:
		return parse_text(o, s, value, err);
	case OPTION_WEIGHTS:
		return parse_weights(field(o, s), value, batch[row(o)], err);
	case OPTION_FLAG:
		return set_flag(o, s, value, err);
	case OPTION_VALUE:
		return set_fuse_value(o, s, value, err);
	case OPTION_LIST:
		return set_list(s, value, batch, err);
	case OPTION_NOISE:
		break;
	}
	return 0;
}

static int unknown(const char *name, enum option_scope scope, struct error *err)
{
	const char *near = option_nearest(name, scope);
	if (near)
		return error_set(err, "unknown option '%s'; did you mean '%s'?", name, near);
	return error_set(err, "unknown option '%s'; see ratefs --help", name);
}

int option_set(struct settings *s, enum option_scope scope, const char *name, const char *value,
	       bool batch[OPTIONS_MAX], struct error *err)
{
	const struct option_def *o = option_find(name);
	if (!o)
		return unknown(name, scope, err);
	if (!(o->scopes & scope))
		return error_set(err, "%s: belongs to the %s scope, not to %s", o->name,
				 option_scope_name(o->scopes & -o->scopes),
				 option_scope_name(scope));
	bool bare_ok = o->type == OPTION_FLAG || o->type == OPTION_BOOL || o->type == OPTION_NOISE;
	if (!value && !bare_ok)
		return error_set(err, "%s: needs a value: %s=%s", o->name, o->name, o->syntax);
	if (o->type == OPTION_BOOL && !value)
		value = "yes";
	if (set_value(o, s, value, batch, err) < 0) {
		if (o->type != OPTION_LIST)
			error_prefix(err, "%s", o->name);
		return -1;
	}
	s->given[row(o)] = batch[row(o)] = true;
	return 0;
}
