/* SPDX-License-Identifier: MIT */
#include "daemon/config_file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/cleanup.h"
#include "base/text.h"
#include "daemon/config_check.h"
#include "daemon/ini.h"
#include "daemon/options.h"
#include "daemon/profile.h"

/* --- sections ------------------------------------------------------------------------------- */

struct parser {
	struct configuration *c;
	struct problems *p;
};

/* A section whose options are being set. */
struct into {
	struct parser *ps;
	const struct ini_section *sec;
	struct settings *s;
	enum scope_kind scope;
	bool batch[OPTIONS_MAX];
};

/* `inside` names the key in whose value the option was found; "" for a key of its own. */
static void set_option(struct into *in, const char *name, const char *value, unsigned line,
		       const char *inside)
{
	const struct option_def *o = option_find(name);
	struct error err = ERROR_INIT;
	if (option_set(in->s, in->scope, name, value, in->batch, &err) < 0)
		problems_add(in->ps->p, line, "[%s] %s%s", in->sec->name, inside, err.text);
	if (o) {
		in->s->lines[o - options] = line;
		in->batch[o - options] = true; /* even if wrong: the option is not missing */
	}
}

/* options = a,b=c */
static void set_list(struct into *in, const char *value, unsigned line)
{
	AUTO_FREE char *copy = strdup(value);
	char *rest = copy, *word;
	if (!copy)
		problems_add(in->ps->p, line, "out of memory");
	while ((word = option_next_word(&rest))) {
		word += strspn(word, " \t");
		char *eq = strchr(word, '=');
		if (!*word)
			continue;
		if (eq)
			*eq++ = '\0';
		set_option(in, word, eq, line, "options: ");
	}
}

static void check_together(const struct into *in)
{
	struct error profile = ERROR_INIT;
	if (in->scope == SCOPE_MOUNT && profile_apply(in->s, &profile) < 0)
		problems_add(in->ps->p, in->s->lines[option_find("profile") - options], "[%s] %s",
			     in->sec->name, profile.text);
	for (unsigned i = 0; i < n_options; i++) {
		struct error err = ERROR_INIT;
		if (option_check(&options[i], in->s, in->batch, &err) < 0)
			problems_add(in->ps->p, in->s->lines[i], "[%s] %s", in->sec->name,
				     err.text);
	}
}

static void parse_options(struct parser *ps, const struct ini_section *sec, struct settings *s,
			  enum scope_kind scope)
{
	struct into in = {ps, sec, s, scope, {0}};
	for (unsigned i = 0; i < sec->n_keys; i++) {
		const char *key = sec->key[i].name, *value = sec->key[i].value;
		const struct option_def *o = option_find(key);
		if (!value)
			problems_add(ps->p, sec->key[i].line, "[%s] %s: cannot be read", sec->name,
				     key);
		else if (o && o->type == OPTION_LIST && option_is_in(o, scope))
			set_list(&in, value, sec->key[i].line);
		else
			set_option(&in, key, value, sec->key[i].line, "");
	}
	check_together(&in);
}

static void parse_weights(struct parser *ps, const struct ini_section *sec)
{
	for (unsigned i = 0; i < sec->n_keys; i++) {
		const char *key = sec->key[i].name, *value = sec->key[i].value;
		struct error err = ERROR_INIT;
		AUTO_FREE char *text = NULL;
		if (!value || asprintf(&text, "%s=%s", key, value) < 0)
			problems_add(ps->p, sec->key[i].line, "[%s] %s: cannot be read", sec->name,
				     key);
		else if (weights_parse(&ps->c->weights, text, &err) < 0)
			problems_add(ps->p, sec->key[i].line, "[%s] %s", sec->name, err.text);
	}
}

/* Adds an fs, mount, class or pool of this name; NULL: out of memory. */
static struct settings *named(struct configuration *c, const char *name, enum scope_kind scope)
{
	struct settings *s = scope == SCOPE_FS	    ? configuration_add_fs(c)
			     : scope == SCOPE_POOL  ? configuration_add_pool(c)
			     : scope == SCOPE_CLASS ? configuration_add_class(c)
						    : configuration_add_mount(c);
	unsigned *n = scope == SCOPE_FS	     ? &c->n_fs
		      : scope == SCOPE_POOL  ? &c->n_pools
		      : scope == SCOPE_CLASS ? &c->n_classes
					     : &c->n_mounts;
	if (s && (!(s->name = strdup(name)) || !(s->section = strdup(name)))) {
		settings_free(s);
		--*n;
		return NULL;
	}
	return s;
}

static void parse_named(struct parser *ps, const struct ini_section *sec, const char *name,
			enum scope_kind scope)
{
	if (!*name) {
		problems_add(ps->p, sec->line, "[%s]: the name is missing; write [%sNAME]",
			     sec->name, sec->name);
		return;
	}
	struct settings *s = named(ps->c, name, scope);
	if (!s) {
		problems_add(ps->p, sec->line, "out of memory");
		return;
	}
	s->line = sec->line;
	parse_options(ps, sec, s, scope);
}

static void unknown_section(struct parser *ps, const struct ini_section *sec)
{
	static const char *const known[] = {"global",	  "weights",	"fs:NAME",
					    "mount:NAME", "class:NAME", "pool:NAME"};
	const char *colon = strchr(sec->name, ':'), *near = NULL;
	unsigned best = 4; /* larger distances are not similar */
	for (unsigned i = 0; i < ARRAY_SIZE(known); i++) {
		const char *k = strchr(known[i], ':');
		AUTO_FREE char *a =
			strndup(sec->name, colon ? (size_t)(colon - sec->name) : strlen(sec->name));
		AUTO_FREE char *b =
			strndup(known[i], k ? (size_t)(k - known[i]) : strlen(known[i]));
		unsigned d = a && b ? text_distance(a, b) : best;
		if (d < best) {
			best = d;
			near = known[i];
		}
	}
	if (near)
		problems_add(ps->p, sec->line, "[%s]: unknown section; did you mean [%s]?",
			     sec->name, near);
	else
		problems_add(ps->p, sec->line,
			     "[%s]: unknown section; there are [global], [weights], [fs:NAME], "
			     "[mount:NAME], [class:NAME] and [pool:NAME]",
			     sec->name);
}

static void parse_section(struct parser *ps, const struct ini_section *sec)
{
	const char *name = sec->name;
	if (sec->bad)
		return; /* has been reported */
	if (strcasecmp(name, "global") == 0)
		parse_options(ps, sec, &ps->c->global, SCOPE_GLOBAL);
	else if (strcasecmp(name, "weights") == 0)
		parse_weights(ps, sec);
	else if (strncasecmp(name, "fs:", 3) == 0)
		parse_named(ps, sec, name + 3, SCOPE_FS);
	else if (strncasecmp(name, "mount:", 6) == 0)
		parse_named(ps, sec, name + 6, SCOPE_MOUNT);
	else if (strncasecmp(name, "class:", 6) == 0)
		parse_named(ps, sec, name + 6, SCOPE_CLASS);
	else if (strncasecmp(name, "pool:", 5) == 0)
		parse_named(ps, sec, name + 5, SCOPE_POOL);
	else
		unknown_section(ps, sec);
}

/* --- the file ------------------------------------------------------------------------------- */

static int parse(struct configuration *c, struct ini *ini, struct problems *p)
{
	struct parser ps = {c, p};
	for (unsigned i = 0; ini->values && i < ini->n_sections; i++)
		parse_section(&ps, &ini->section[i]);
	if (ini->values)
		config_check(c, p);
	ini_free(ini);
	if (!p->n)
		return 0;
	configuration_free(c);
	return -1;
}

int config_parse(struct configuration *c, char *text, size_t size, struct problems *p)
{
	struct ini ini;
	configuration_init(c);
	ini_parse(&ini, text, size, p);
	return parse(c, &ini, p);
}

int config_load(struct configuration *c, const char *path, struct problems *p)
{
	struct ini ini;
	configuration_init(c);
	p->file = path;
	ini_load(&ini, path, p);
	if (parse(c, &ini, p) < 0)
		return -1;
	c->file = strdup(path);
	if (c->file)
		return 0;
	problems_add(p, 0, "out of memory");
	configuration_free(c);
	return -1;
}
