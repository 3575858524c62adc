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
#include "daemon/config_check.h"
#include "daemon/options.h"
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

static void parse_options(struct parser *ps, const struct scan_section *sec, struct settings *s,
			  enum option_scope scope)
{
	bool batch[OPTIONS_MAX] = {0};
	for (unsigned i = 0; i < sec->n_keys; i++) {
		const char *key = sec->key[i].name, *value = value_of(ps->d, sec->name, key);
		struct error err = ERROR_INIT;
		if (!value)
			problems_add(ps->p, sec->key[i].line, "[%s] %s: cannot be read", sec->name,
				     key);
		else if (option_set(s, scope, key, value, batch, &err) < 0)
			problems_add(ps->p, sec->key[i].line, "[%s] %s", sec->name, err.text);
	}
}

static void parse_weights(struct parser *ps, const struct scan_section *sec)
{
	for (unsigned i = 0; i < sec->n_keys; i++) {
		const char *key = sec->key[i].name, *value = value_of(ps->d, sec->name, key);
		struct error err = ERROR_INIT;
		struct weight_rule rule;
		AUTO_FREE char *text = NULL;
		if (!value || asprintf(&text, "%s=%s", key, value) < 0)
			problems_add(ps->p, sec->key[i].line, "[%s] %s: cannot be read", sec->name,
				     key);
		else if (weight_parse(text, &rule, &err) < 0)
			problems_add(ps->p, sec->key[i].line, "[%s] %s", sec->name, err.text);
		else if (!weights_add(&ps->c->weights, &rule, text))
			problems_add(ps->p, sec->key[i].line, "out of memory");
	}
}

static struct settings *named(struct configuration *c, const char *name, enum option_scope scope)
{
	struct settings *s =
		scope == OPTION_FS ? configuration_add_fs(c) : configuration_add_mount(c);
	if (!s || !(s->name = strdup(name)) || !(s->section = strdup(name)))
		return NULL;
	return s;
}

static void parse_named(struct parser *ps, const struct scan_section *sec, const char *name,
			enum option_scope scope)
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
	static const char *const known[] = {"global", "weights", "fs:NAME", "mount:NAME"};
	const char *colon = strchr(sec->name, ':'), *near = NULL;
	unsigned best = 4; /* farther is not near */
	for (unsigned i = 0; i < ARRAY_SIZE(known); i++) {
		const char *k = strchr(known[i], ':');
		AUTO_FREE char *a = strndup(sec->name, colon ? colon - sec->name : SCAN_LINE_MAX);
		AUTO_FREE char *b = strndup(known[i], k ? k - known[i] : SCAN_LINE_MAX);
		unsigned d = a && b ? option_distance(a, b) : best;
		if (d < best) {
			best = d;
			near = known[i];
		}
	}
	if (near)
		problems_add(ps->p, sec->line, "[%s]: unknown section; did you mean [%s]?",
			     sec->name, near);
	else
		problems_add(
			ps->p, sec->line,
			"[%s]: unknown section; there are [global], [weights], [fs:NAME] and [mount:NAME]",
			sec->name);
}

static void parse_section(struct parser *ps, const struct scan_section *sec)
{
	const char *name = sec->name;
	if (!*name)
		return; /* told by the scan */
	if (strcasecmp(name, "global") == 0)
		parse_options(ps, sec, &ps->c->global, OPTION_GLOBAL);
	else if (strcasecmp(name, "weights") == 0)
		parse_weights(ps, sec);
	else if (strncasecmp(name, "fs:", 3) == 0)
		parse_named(ps, sec, name + 3, OPTION_FS);
	else if (strncasecmp(name, "mount:", 6) == 0)
		parse_named(ps, sec, name + 6, OPTION_MOUNT);
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
	return 0;
}
