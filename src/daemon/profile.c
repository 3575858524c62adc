/* SPDX-License-Identifier: MIT */
#include "daemon/profile.h"

#include <ctype.h>
#include <dirent.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/cleanup.h"
#include "base/text.h"
#include "base/units.h"
#include "daemon/files.h"
#include "daemon/ini.h"
#include "daemon/options.h"

#define NAME_SIZE    64
#define LINES_MAX    64
#define DIRS_MAX     3
#define PROFILES_MAX 512

struct line {
	char *key, *value;
};

struct profile {
	char name[NAME_SIZE];
	char *title, *source, *date, *sizes; /* sizes: NULL if none is needed */
	struct line option[LINES_MAX];
	unsigned n_options;
	uint64_t size, size_min, size_max;
};

static void profile_free(struct profile *p)
{
	free(p->title);
	free(p->source);
	free(p->date);
	free(p->sizes);
	for (unsigned i = 0; i < p->n_options; i++) {
		free(p->option[i].key);
		free(p->option[i].value);
	}
	memset(p, 0, sizeof(*p));
}

/* --- where they are ------------------------------------------------------------------------- */

static char directory[DIRS_MAX][PATH_MAX];
static unsigned n_directories;
static bool remembered;

static void find_directories(void)
{
	const char *own = getenv("RATEFS_PROFILES"), *home = getenv("HOME");
	const char *config = getenv("XDG_CONFIG_HOME");
	n_directories = 0;
	if (own && *own) {
		snprintf(directory[n_directories++], PATH_MAX, "%s", own);
		return;
	}
	if (config && *config == '/')
		snprintf(directory[n_directories++], PATH_MAX, "%s/ratefs/profiles", config);
	else if (home && *home == '/')
		snprintf(directory[n_directories++], PATH_MAX, "%s/.config/ratefs/profiles", home);
	snprintf(directory[n_directories++], PATH_MAX, "%s/ratefs/profiles", RATEFS_SYSCONFDIR);
	snprintf(directory[n_directories++], PATH_MAX, "%s/profiles", RATEFS_DATADIR);
}

void profiles_init(void)
{
	find_directories();
	remembered = true;
}

/* True: the file is a profile ("aws-gp2.ini"); its name is the file's without the extension. */
static bool profile_name(const char *file, char name[NAME_SIZE])
{
	size_t len = strlen(file);
	if (file[0] == '.' || len < 5 || len - 4 >= NAME_SIZE ||
	    strcmp(file + len - 4, ".ini") != 0)
		return false;
	snprintf(name, NAME_SIZE, "%.*s", (int)(len - 4), file);
	return true;
}

static int by_name(const void *a, const void *b)
{
	return strcmp(a, b);
}

/* All names, sorted, without duplicates. */
static unsigned names(char name[PROFILES_MAX][NAME_SIZE])
{
	unsigned n = 0, kept = 0;
	if (!remembered)
		find_directories();
	for (unsigned i = 0; i < n_directories; i++) {
		AUTO_DIR d = opendir(directory[i]);
		for (const struct dirent *e; d && n < PROFILES_MAX && (e = readdir(d));)
			n += profile_name(e->d_name, name[n]);
	}
	qsort(name, n, NAME_SIZE, by_name);
	for (unsigned i = 0; i < n; i++)
		if (!kept || strcmp(name[kept - 1], name[i]) != 0)
			memmove(name[kept++], name[i], NAME_SIZE);
	return kept;
}

static int unknown(const char *name, struct error *err)
{
	char(*known)[NAME_SIZE] = malloc((size_t)PROFILES_MAX * NAME_SIZE);
	const char *near = NULL;
	unsigned best = strlen(name) / 2 < 4 ? (unsigned)strlen(name) / 2 + 1 : 5;
	/* A running daemon looks for no similar names: the directories may hang. */
	unsigned n = known && !files_are_closed() ? names(known) : 0;
	for (unsigned i = 0; i < n; i++) {
		/* The known name comes first: text_distance turns its '-' into '_', which finds
		 * aws-gp2 for a typed aws_gp2. */
		unsigned d = text_distance(known[i], name);
		if (strncmp(known[i], name, strlen(name)) == 0 || strstr(known[i], name))
			d = 1;
		if (d < best) {
			best = d;
			near = known[i];
		}
	}
	if (near)
		error_set(err, "unknown profile '%s'; did you mean '%s'?", name, near);
	else
		error_set(err, "unknown profile '%s'; ratefs --profiles lists them", name);
	free(known);
	return -1;
}

/* --- reading -------------------------------------------------------------------------------- */

static char *trim(char *text)
{
	char *end = text + strlen(text);
	while (isspace((unsigned char)*text))
		text++;
	while (end > text && isspace((unsigned char)end[-1]))
		*--end = '\0';
	return text;
}

static int take_about(struct profile *p, const char *key, const char *value, struct error *err)
{
	const struct {
		const char *name;
		char **to;
	} row[] = {{"title", &p->title},
		   {"source", &p->source},
		   {"date", &p->date},
		   {"sizes", &p->sizes}};
	for (unsigned i = 0; i < ARRAY_SIZE(row); i++) {
		if (strcmp(key, row[i].name) != 0)
			continue;
		free(*row[i].to);
		*row[i].to = strdup(value);
		return *row[i].to ? 0 : error_set(err, "out of memory");
	}
	return error_set(err, "unknown key '%s'", key);
}

static int take_option(struct profile *p, const char *key, const char *value, struct error *err)
{
	struct line *l = &p->option[p->n_options];
	if (p->n_options == LINES_MAX)
		return error_set(err, "too many lines");
	*l = (struct line){strdup(key), strdup(value)};
	p->n_options++;
	return l->key && l->value ? 0 : error_set(err, "out of memory");
}

static void take_section(struct profile *p, const struct ini_section *s, struct problems *problems)
{
	bool is_options = strcasecmp(s->name, "options") == 0;
	if (!is_options && strcasecmp(s->name, "profile") != 0)
		problems_add(problems, s->line, "unknown section [%s]", s->name);
	for (unsigned i = 0; !problems->n && i < s->n_keys; i++) {
		const struct ini_key *k = &s->key[i];
		struct error err = ERROR_INIT;
		if ((is_options ? take_option : take_about)(p, k->name, k->value ? k->value : "",
							    &err) < 0)
			problems_add(problems, k->line, "%s", err.text);
	}
}

/* Otherwise than FILE_READ with err. */
static enum file_result read_file(struct profile *p, const char *path, struct error *err)
{
	struct problems problems = {.file = path};
	struct ini ini;
	AUTO_FREE char *text = NULL;
	size_t size;
	enum file_result result = files_read(path, &text, &size, err);
	if (result != FILE_READ) {
		error_prefix(err, "%s", path);
		return result;
	}
	ini_parse(&ini, text, size, &problems);
	for (unsigned i = 0; i < ini.n_sections && !problems.n; i++)
		take_section(p, &ini.section[i], &problems);
	if (problems.n)
		error_set(err, "%s", problems.line[0] ? problems.line[0] : "out of memory");
	ini_free(&ini);
	result = problems.n ? FILE_FAILED : FILE_READ;
	problems_free(&problems);
	return result;
}

static int parse_sizes(struct profile *p, struct error *err)
{
	if (!p->sizes)
		return 0;
	AUTO_FREE char *copy = strdup(p->sizes);
	char *dash = copy ? strchr(copy, '-') : NULL;
	if (!dash)
		return error_set(err, "sizes: write MIN-MAX");
	*dash++ = '\0';
	return units_parse_bytes(trim(copy), &p->size_min, err) < 0 ||
			       units_parse_bytes(trim(dash), &p->size_max, err) < 0
		       ? -1
		       : 0;
}

static int read_profile(struct profile *p, const char *name, struct error *err)
{
	bool unread = false;
	if (!remembered)
		find_directories();
	if (!*name || *name == '.' || strchr(name, '/') || strlen(name) >= NAME_SIZE)
		return unknown(name, err);
	for (unsigned i = 0; i < n_directories; i++) {
		AUTO_FREE char *path = NULL;
		if (asprintf(&path, "%s/%s.ini", directory[i], name) < 0)
			return error_set(err, "out of memory");
		enum file_result result = read_file(p, path, err);
		unread |= result == FILE_LATER;
		if (result == FILE_ABSENT || unread)
			continue; /* if it is to be read later, so are those in the other places */
		snprintf(p->name, sizeof(p->name), "%s", name);
		if (result != FILE_READ)
			return -1;
		if (parse_sizes(p, err) < 0)
			return error_prefix(err, "%s", path);
		if (!p->title)
			return error_set(err, "%s: has no title", path);
		return 0;
	}
	*err = unread ? *err : (struct error)ERROR_INIT;
	return unread ? -1 : unknown(name, err);
}

/* --- values --------------------------------------------------------------------------------- */

#define GIB 1073741824.0

/* "3", "0.12M", "40M", for bytes and operations. */
static int parse_number(const char *text, double *out, const char **rest, struct error *err)
{
	static const struct {
		const char *suffix;
		double factor;
	} row[] = {{"kB", 1e3}, {"MB", 1e6},	  {"GB", 1e9}, {"TB", 1e12},
		   {"K", 1024}, {"M", 1048576.0}, {"G", GIB},  {"T", GIB * 1024}};
	char *end;
	*out = strtod(text, &end);
	if (end == text)
		return error_set(err, "'%s': a number was expected", text);
	for (unsigned i = 0; i < ARRAY_SIZE(row); i++) {
		size_t n = strlen(row[i].suffix);
		if (strncmp(end, row[i].suffix, n) == 0) {
			*out *= row[i].factor;
			end += n;
			break;
		}
	}
	*rest = end;
	return 0;
}

/* A number, or "NUMBER/GiB", "NUMBER/TiB". */
static int parse_term(const char *text, double size, double *out, struct error *err)
{
	const char *rest = "";
	if (parse_number(text, out, &rest, err) < 0)
		return -1;
	if (strcmp(rest, "/GiB") == 0)
		*out *= size / GIB;
	else if (strcmp(rest, "/TiB") == 0)
		*out *= size / GIB / 1024;
	else if (*rest)
		return error_set(err, "'%s': unexpected '%s'", text, rest);
	return 0;
}

/* TERM [+ TERM] [min TERM] [max TERM] */
static int evaluate(char *text, double size, double *out, struct error *err)
{
	char *save = NULL;
	const char *word = strtok_r(text, " ", &save);
	if (parse_term(word, size, out, err) < 0)
		return -1;
	while ((word = strtok_r(NULL, " ", &save))) {
		const char *term = strtok_r(NULL, " ", &save);
		double n;
		if (!term || parse_term(term, size, &n, err) < 0)
			return error_set(err, "'%s' needs a number", word);
		if (strcmp(word, "+") == 0)
			*out += n;
		else if (strcmp(word, "min") == 0)
			*out = *out < n ? n : *out;
		else if (strcmp(word, "max") == 0)
			*out = *out > n ? n : *out;
		else
			return error_set(err, "'%s': '+', min or max was expected", word);
	}
	return 0;
}

/* The part of "A up to SIZE, B up to SIZE, C" that applies to the size; modifies the text. */
static int choose(char *text, uint64_t size, char **out, struct error *err)
{
	char *save = NULL;
	for (char *part = strtok_r(text, ",", &save); part; part = strtok_r(NULL, ",", &save)) {
		char *until = strstr(part, " up to ");
		uint64_t most = UINT64_MAX;
		if (until) {
			*until = '\0';
			if (units_parse_bytes(trim(until + 7), &most, err) < 0)
				return -1;
		}
		*out = trim(part);
		if (size <= most)
			return 0;
	}
	return error_set(err, "has no value for this size");
}

/* The value of an option for the size, as after -o; to be freed. */
static char *value_for(const struct profile *p, const char *value, struct error *err)
{
	AUTO_FREE char *copy = strdup(value);
	char *part = NULL, *text = NULL;
	double n;
	if (!copy) {
		error_set(err, "out of memory");
		return NULL;
	}
	if (choose(copy, p->size, &part, err) < 0 || !part)
		return NULL;
	if (!strchr(part, ' ') && !strstr(part, "/GiB") && !strstr(part, "/TiB"))
		return strdup(part);
	if (evaluate(part, (double)p->size, &n, err) < 0)
		return NULL;
	if (asprintf(&text, "%.0f", n) < 0) {
		error_set(err, "out of memory");
		return NULL;
	}
	return text;
}

/* "NAME" or "NAME:SIZE". */
static int profile_open(struct profile *p, const char *text, struct error *err)
{
	AUTO_FREE char *name = strdup(text);
	memset(p, 0, sizeof(*p));
	if (!name)
		return error_set(err, "out of memory");
	char *size = strchr(name, ':');
	if (size)
		*size++ = '\0';
	if (read_profile(p, name, err) < 0 || (size && units_parse_bytes(size, &p->size, err) < 0))
		return -1;
	if (size && !p->sizes)
		return error_set(err, "'%s': this profile has no sizes; write profile=%s", text,
				 name);
	if (size && (p->size < p->size_min || p->size > p->size_max))
		return error_set(err, "'%s': %s has sizes of %s", text, name, p->sizes);
	return 0;
}

static int needs_size(const struct profile *p, struct error *err)
{
	if (!p->sizes || p->size)
		return 0;
	return error_set(
		err,
		"'%s' depends on the size of the device; write profile=%s:SIZE, with a size of %s",
		p->name, p->name, p->sizes);
}

/* --- settings ------------------------------------------------------------------------------- */

static int set_one(struct settings *s, const struct profile *p, const struct line *l,
		   struct error *err)
{
	bool batch[OPTIONS_MAX] = {false};
	const struct option_def *o = option_find(l->key);
	if (o && option_is_given(o, s))
		return 0;
	AUTO_FREE char *value = value_for(p, l->value, err);
	if (!value)
		return error_prefix(err, "%s", l->key);
	if (option_set(s, SCOPE_MOUNT, l->key, value, batch, err) < 0)
		return -1;
	s->given[o - options] = false;
	return 0;
}

int profile_apply(struct settings *s, struct error *err)
{
	struct profile p;
	int rc = 0;
	if (!s->profile)
		return 0;
	if (profile_open(&p, s->profile, err) < 0 || needs_size(&p, err) < 0)
		rc = error_prefix(err, "profile");
	for (unsigned i = 0; rc == 0 && i < p.n_options; i++)
		if (set_one(s, &p, &p.option[i], err) < 0)
			rc = error_prefix(err, "profile %s", p.name);
	profile_free(&p);
	return rc;
}

/* --- for people ----------------------------------------------------------------------------- */

void profiles_list(FILE *out)
{
	char(*known)[NAME_SIZE] = malloc((size_t)PROFILES_MAX * NAME_SIZE);
	unsigned n = known ? names(known) : 0;
	for (unsigned i = 0; i < n; i++) {
		struct error err = ERROR_INIT;
		struct profile p;
		char name[NAME_SIZE + 8];
		int rc = profile_open(&p, known[i], &err);
		snprintf(name, sizeof(name), "%s%s", known[i], rc == 0 && p.sizes ? ":SIZE" : "");
		fprintf(out, "%-22s %s\n", name, rc == 0 ? p.title : err.text);
		profile_free(&p);
	}
	if (!n)
		fprintf(out, "no profiles were found\n");
	free(known);
}

static void explain_option(const struct profile *p, const struct line *l, FILE *out)
{
	struct error err = ERROR_INIT;
	const struct option_def *o = option_find(l->key);
	AUTO_FREE char *value =
		p->sizes && !p->size ? strdup(l->value) : value_for(p, l->value, &err);
	struct settings s;
	bool batch[OPTIONS_MAX] = {false};
	settings_init(&s);
	AUTO_FREE char *shown = NULL;
	if (o && value && !(p->sizes && !p->size) &&
	    option_set(&s, SCOPE_MOUNT, l->key, value, batch, &err) == 0)
		shown = option_text(o, &s);
	settings_free(&s);
	fprintf(out, "  %-14s %-26s %s\n", l->key,
		shown	? shown
		: value ? value
			: err.text,
		o ? o->help : "");
}

int profile_explain(const char *text, FILE *out, struct error *err)
{
	struct profile p;
	int rc = profile_open(&p, text, err);
	if (rc == 0) {
		fprintf(out, "%s: %s\n", p.name, p.title);
		fprintf(out, "Figures: %s%s%s\n", p.source ? p.source : "of unknown source",
			p.date ? ", " : "", p.date ? p.date : "");
		if (p.sizes && !p.size)
			fprintf(out,
				"Sizes: %s; ratefs --profiles %s:SIZE shows the figures of one\n",
				p.sizes, p.name);
		fprintf(out, "\n-o profile=%s sets\n", text);
		for (unsigned i = 0; i < p.n_options; i++)
			explain_option(&p, &p.option[i], out);
		fprintf(out, "\nOptions given explicitly override these.\n");
	}
	profile_free(&p);
	return rc;
}
