/* SPDX-License-Identifier: MIT */
#include "daemon/config_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <iniparser.h>

#include "base/cleanup.h"
#include "base/text.h"
#include "daemon/config_check.h"
#include "daemon/options.h"
#include "daemon/profile.h"
#include "daemon/scan.h"

/* --- values, by iniparser ------------------------------------------------------------------- */

static int quiet(const char *fmt, ...)
{
	return 0; /* the scan has named every problem already */
}

/* iniparser 4.1 reads files only: give it one in memory, so that what was scanned is what is
 * read, even if the file changes meanwhile. */
static dictionary *load_text(const char *text, size_t size)
{
	AUTO_FD fd = memfd_create("ratefs.conf", MFD_CLOEXEC);
	char path[40];
	if (fd < 0 || write(fd, text, size) != (ssize_t)size)
		return NULL;
	iniparser_set_error_callback(quiet);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	return iniparser_load(path);
}

static const char *value_of(const dictionary *d, const char *section, const char *key)
{
	char path[2 * SCAN_LINE_MAX + 2];
	snprintf(path, sizeof(path), "%s:%s", section, key);
	return iniparser_getstring(d, path, NULL);
}

/* --- sections ------------------------------------------------------------------------------- */

struct parser {
	struct configuration *c;
	struct problems *p;
	const dictionary *d;
};

/* One section on its way into the settings. */
struct into {
	struct parser *ps;
	const struct scan_section *sec;
	struct settings *s;
	enum scope_kind scope;
	bool batch[OPTIONS_MAX];
};

/* `inside` is the key in whose value it was found, "" for a key of its own. */
static void set_option(struct into *in, const char *name, const char *value, unsigned line,
		       const char *inside)
{
	const struct option_def *o = option_find(name);
	struct error err = ERROR_INIT;
	if (option_set(in->s, in->scope, name, value, in->batch, &err) < 0)
		problems_add(in->ps->p, line, "[%s] %s%s", in->sec->name, inside, err.text);
	if (o) {
		in->s->lines[o - options] = line;
		in->batch[o - options] = true; /* given, if badly: nobody is to miss it */
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

static void parse_options(struct parser *ps, const struct scan_section *sec, struct settings *s,
			  enum scope_kind scope)
{
	struct into in = {ps, sec, s, scope, {0}};
	for (unsigned i = 0; i < sec->n_keys; i++) {
		const char *key = sec->key[i].name, *value = value_of(ps->d, sec->name, key);
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

static void parse_weights(struct parser *ps, const struct scan_section *sec)
{
	for (unsigned i = 0; i < sec->n_keys; i++) {
		const char *key = sec->key[i].name, *value = value_of(ps->d, sec->name, key);
		struct error err = ERROR_INIT;
		AUTO_FREE char *text = NULL;
		if (!value || asprintf(&text, "%s=%s", key, value) < 0)
			problems_add(ps->p, sec->key[i].line, "[%s] %s: cannot be read", sec->name,
				     key);
		else if (weights_parse(&ps->c->weights, text, &err) < 0)
			problems_add(ps->p, sec->key[i].line, "[%s] %s", sec->name, err.text);
	}
}

static struct settings *named(struct configuration *c, const char *name, enum scope_kind scope)
{
	struct settings *s = scope == SCOPE_FS	    ? configuration_add_fs(c)
			     : scope == SCOPE_CLASS ? configuration_add_class(c)
						    : configuration_add_mount(c);
	if (!s || !(s->name = strdup(name)) || !(s->section = strdup(name)))
		return NULL;
	return s;
}

static void parse_named(struct parser *ps, const struct scan_section *sec, const char *name,
			enum scope_kind scope)
{
	if (!*name) {
		problems_add(ps->p, sec->line, "[%s]: the name is missing", sec->name);
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

static void unknown_section(struct parser *ps, const struct scan_section *sec)
{
	static const char *const known[] = {"global", "weights", "fs:NAME", "mount:NAME",
					    "class:NAME"};
	const char *colon = strchr(sec->name, ':'), *near = NULL;
	unsigned best = 4; /* farther is not near */
	for (unsigned i = 0; i < ARRAY_SIZE(known); i++) {
		const char *k = strchr(known[i], ':');
		AUTO_FREE char *a = strndup(sec->name, colon ? colon - sec->name : SCAN_LINE_MAX);
		AUTO_FREE char *b = strndup(known[i], k ? k - known[i] : SCAN_LINE_MAX);
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
			     "[mount:NAME] and [class:NAME]",
			     sec->name);
}

static void parse_section(struct parser *ps, const struct scan_section *sec)
{
	const char *name = sec->name;
	if (sec->bad)
		return; /* told by the scan */
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
	else
		unknown_section(ps, sec);
}

/* --- the file ------------------------------------------------------------------------------- */

int config_parse(struct configuration *c, char *text, size_t size, struct problems *p)
{
	struct scan scan;
	configuration_init(c);
	scan_text(&scan, text, size, p);
	dictionary *d = load_text(text, size);
	if (d) {
		struct parser ps = {c, p, d};
		for (unsigned i = 0; i < scan.n_sections; i++)
			parse_section(&ps, &scan.section[i]);
		iniparser_freedict(d);
		config_check(c, p);
	} else if (!p->n) {
		problems_add(p, 0, "cannot be read by iniparser");
	}
	scan_free(&scan);
	if (!p->n)
		return 0;
	configuration_free(c);
	return -1;
}

static char *read_all(const char *path, size_t *size, struct problems *p)
{
	AUTO_FD fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
	struct stat st;
	if (fd < 0 || fstat(fd, &st) < 0) {
		problems_add(p, 0, "%s", strerror(errno));
		return NULL;
	}
	AUTO_FREE char *text = malloc(CONFIG_SIZE_MAX + 1);
	if (!text || !S_ISREG(st.st_mode)) {
		problems_add(p, 0, "%s",
			     !text		   ? "out of memory"
			     : S_ISDIR(st.st_mode) ? "is a directory"
						   : "is not a regular file");
		return NULL;
	}
	ssize_t n;
	for (*size = 0; *size <= CONFIG_SIZE_MAX; *size += n) {
		n = read(fd, text + *size, CONFIG_SIZE_MAX + 1 - *size);
		if (n == 0)
			return take_ptr(&text);
		if (n < 0 && errno != EINTR) {
			problems_add(p, 0, "%s", strerror(errno));
			return NULL;
		}
		n = n < 0 ? 0 : n;
	}
	problems_add(p, 0, "is larger than 1 MiB; that cannot be a configuration");
	return NULL;
}

int config_load(struct configuration *c, const char *path, struct problems *p)
{
	size_t size;
	configuration_init(c);
	p->file = path;
	AUTO_FREE char *text = read_all(path, &size, p);
	if (!text || config_parse(c, text, size, p) < 0)
		return -1;
	c->file = strdup(path);
	if (c->file)
		return 0;
	problems_add(p, 0, "out of memory");
	configuration_free(c);
	return -1;
}
