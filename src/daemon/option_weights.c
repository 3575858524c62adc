/* SPDX-License-Identifier: MIT */
/* Parses the values of the options weight and match. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/cleanup.h"
#include "daemon/names.h"
#include "daemon/option_parse.h"
#include "fs/cgroup.h"

static int parse_id(enum fair_kind kind, const char *id, uint64_t *out, struct error *err)
{
	char *end;
	errno = 0;
	*out = strtoull(id, &end, 10);
	if (*id >= '0' && *id <= '9' && !*end)
		return errno || *out >= UINT32_MAX
			       ? error_set(err, "'%s': out of range; an id is less than %u", id,
					   UINT32_MAX)
			       : 0;
	if (kind == FAIR_UID || kind == FAIR_GID)
		return names_find(kind == FAIR_UID ? NAME_USER : NAME_GROUP, id, out, err);
	return error_set(err, "'%s' is not a process id", id);
}

/* Parses KIND:ID of a weight rule; the caller frees rule->glob. */
static int parse_whose(struct weight_rule *rule, const char *kind, const char *id, const char *text,
		       struct error *err)
{
	static const enum fair_kind kinds[] = {FAIR_PROCESS, FAIR_UID, FAIR_GID, FAIR_CGROUP,
					       FAIR_PROCESS};
	int i = option_choice("process|uid|gid|cgroup|comm", kind);
	if (i < 0)
		return error_set(
			err, "'%s': must begin with process:, uid:, gid:, cgroup: or comm:", text);
	bool comm = strcasecmp(kind, "comm") == 0;
	rule->key.kind = kinds[i];
	if (!comm && rule->key.kind != FAIR_CGROUP)
		return parse_id(rule->key.kind, id, &rule->key.id, err);
	if (!*id)
		return error_set(err, "'%s': the name of the %s is missing", text,
				 comm ? "program" : "cgroup");
	if (rule_check_glob(!comm, id, err) < 0)
		return -1;
	if (!comm && !strpbrk(id, "*?[")) {
		rule->key.id = cgroup_id(id);
		return 0;
	}
	rule->glob = strdup(id);
	return rule->glob ? 0 : option_no_memory(err);
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
		return option_no_memory(err);
	char *id = strchr(copy, ':'), *weight = strrchr(copy, '=');
	if (!id || !weight || weight < id)
		return error_set(
			err,
			"'%s': not a weight; write for example uid:1000=4, or for a class its share, like 4",
			text);
	const char *comma = strchr(text, ',');
	if (comma && strchr(comma, ':') && strchr(comma, '='))
		return error_set(err, "'%s': ',' does not separate weights; write '+'", text);
	*id++ = '\0';
	*weight++ = '\0';
	if (parse_weight(weight, &rule.weight) < 0)
		return error_set(err, "'%s': the weight must be between 1 and %u", text,
				 WEIGHT_MAX);
	if (parse_whose(&rule, copy, id, text, err) < 0)
		return -1;
	bool added = weights_add(w, &rule, text);
	free((char *)rule.glob);
	return added ? 0 : option_no_memory(err);
}

/* A number without a key is the share of the class itself. */
static int parse_own_weight(struct weights *w, const char *text, enum scope_kind scope,
			    struct error *err)
{
	if (scope == SCOPE_MOUNT)
		return error_set(
			err,
			"'%s': not the weight of a caller; use mount_weight for the share of a mount",
			text);
	if (parse_weight(text, &w->own) < 0)
		return error_set(err, "'%s': the weight must be between 1 and %u", text,
				 WEIGHT_MAX);
	return 0;
}

int option_parse_weights(struct weights *w, const char *value, enum scope_kind scope, bool adds,
			 struct error *err)
{
	struct weights fresh = {0};
	AUTO_FREE char *copy = strdup(value);
	char *save = NULL;
	int rc = copy ? 0 : option_no_memory(err);
	if (rc == 0 && adds && !weights_copy(&fresh, w))
		rc = option_no_memory(err);
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

int option_parse_match(struct match *m, const char *value, struct error *err)
{
	bool none = strcasecmp(value, "none") == 0;
	struct match fresh = {0};
	if (!none && !(fresh.rule = rule_parse(value, resolve, err)))
		return -1;
	if (!none && !(fresh.text = strdup(value))) {
		rule_free(fresh.rule);
		return option_no_memory(err);
	}
	match_free(m);
	*m = fresh;
	return 0;
}
