/* SPDX-License-Identifier: MIT */
#include "ctl/volume_conf.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/ini_lines.h"
#include "base/util.h"
#include "ctl/volume_check.h"

/* --- what ratefs knows ---------------------------------------------------------------------- */

static bool is_flag(const char *type)
{
	static const char *const flags[] = {"bool", "fuse-flag", "ignored"};
	for (unsigned i = 0; i < ARRAY_SIZE(flags); i++)
		if (strcmp(type, flags[i]) == 0)
			return true;
	return false;
}

/* name, scopes, type, syntax, ... */
static bool add_option(struct volume_options *o, char *line)
{
	char *field[4];
	for (unsigned i = 0; i < ARRAY_SIZE(field); i++)
		if (!(field[i] = strsep(&line, "\t")))
			return true; /* not a line of the table: skip it */
	struct volume_option *more = realloc(o->option, (o->n + 1) * sizeof(*more));
	if (!more)
		return false;
	o->option = more;
	struct volume_option *new = &more[o->n];
	*new = (struct volume_option){strdup(field[0]), strdup(field[3]), is_flag(field[2])};
	o->n++;
	return new->name &&new->syntax;
}

bool volume_options_parse(struct volume_options *o, const char *text)
{
	AUTO_FREE char *copy = strdup(text);
	char *rest = copy, *line;
	*o = (struct volume_options){0};
	while (copy && (line = strsep(&rest, "\n")))
		if (!add_option(o, line))
			return false;
	return copy != NULL;
}

void volume_options_free(struct volume_options *o)
{
	for (unsigned i = 0; i < o->n; i++) {
		free(o->option[i].name);
		free(o->option[i].syntax);
	}
	free(o->option);
	*o = (struct volume_options){0};
}

static const struct volume_option *find_option(const struct volume_options *o, const char *key)
{
	for (unsigned i = 0; i < o->n; i++)
		if (volume_same_option(o->option[i].name, key))
			return &o->option[i];
	return NULL;
}

/* --- one section ---------------------------------------------------------------------------- */

/* `docker volume create -o ro` sends an empty value. */
static int put_option(FILE *out, const struct volume_options *known, const char *key,
		      const char *value, struct error *err)
{
	const struct volume_option *o = find_option(known, key);
	if (volume_check_option(key, value, err) < 0)
		return -1;
	if (!*value && o && !o->flag)
		return error_set(err, "%s: needs a value; write %s=%s", key, key, o->syntax);
	fprintf(out, "%s = \"%s\"\n", key, *value ? value : "yes");
	return 0;
}

/* How many of the options have one of these names. */
static unsigned n_given(const json_t *options, const char *a, const char *b)
{
	unsigned n = 0;
	const char *key;
	json_t *value;
	json_object_foreach ((json_t *)options, key, value)
		n += volume_same_option(key, a) || volume_same_option(key, b);
	return n;
}

void volume_conf_mount_name(char name[VOLUME_SECTION_MAX], unsigned id)
{
	snprintf(name, VOLUME_SECTION_MAX, "mount:v%u", id);
}

void volume_conf_fs_name(char name[VOLUME_SECTION_MAX], const char *source)
{
	uint64_t h = 0xcbf29ce484222325ULL; /* FNV-1a */
	for (; *source; source++)
		h = (h ^ (uint8_t)*source) * 0x100000001b3ULL;
	snprintf(name, VOLUME_SECTION_MAX, "fs:s%016" PRIx64, h);
}

static int put_section(FILE *out, const struct volume_options *known,
		       const struct volume_place *place, const json_t *options, struct error *err)
{
	const char *key;
	char fs[VOLUME_SECTION_MAX];
	json_t *value;
	volume_conf_fs_name(fs, place->source);
	fprintf(out, "name = \"%s\"\n", place->name);
	/* Nobody can lead the volume elsewhere by a link in the place of its source, whoever starts the daemon and when. */
	if (place->shared)
		fprintf(out, "fs = \"%s\"\nsource_nofollow = yes\n", fs + strlen("fs:"));
	else
		fprintf(out, "source = \"%s\"\n", place->source);
	fprintf(out, "mountpoint = \"%s\"\n", place->mountpoint);
	fprintf(out, "fsname = \"ratefs-volume:%s\"\n", place->name);
	/* Containers can create anything in a volume: nothing in it may grant privileges on the host. */
	if (!n_given(options, "suid", "nosuid"))
		fputs("nosuid = yes\n", out);
	if (!n_given(options, "dev", "nodev"))
		fputs("nodev = yes\n", out);
	json_object_foreach ((json_t *)options, key, value) {
		if (n_given(options, key, key) > 1)
			return error_set(err, "%s: is given twice", key);
		if (put_option(out, known, key, json_string_value(value), err) < 0)
			return -1;
	}
	return 0;
}

int volume_conf_section(char **out, const struct volume_options *known,
			const struct volume_place *place, const json_t *options, struct error *err)
{
	size_t size;
	char *text = NULL;
	FILE *f = open_memstream(&text, &size);
	if (!f)
		return error_set(err, "out of memory");
	int rc = put_section(f, known, place, options, err);
	if (fclose(f) != 0 && rc == 0)
		rc = error_set(err, "out of memory");
	if (rc < 0)
		free(text);
	else
		*out = text;
	return rc;
}

/* --- the file ------------------------------------------------------------------------------- */

/* The first line after the header [name]; NULL: there is no such section. */
static const char *section_start(const char *text, const char *name)
{
	const char *end = text + strlen(text);
	struct ini_line l;
	for (; ini_line_read(&l, text, end); text = l.next)
		if (l.kind == INI_SECTION && ini_section_is(l.name, name))
			return l.next ? l.next : end;
	return NULL;
}

char *volume_conf_find(const char *text, const char *section)
{
	const char *from = section_start(text, section), *to = from;
	const char *end = text + strlen(text);
	struct ini_line l;
	if (!from)
		return NULL;
	while (ini_line_read(&l, to, end) && l.kind != INI_SECTION)
		to = l.next ? l.next : end;
	while (to > from && to[-1] == '\n' && (to - 1 == from || to[-2] == '\n'))
		to--; /* empty lines before the next section */
	return strndup(from, to - from);
}

char *volume_conf_head(const char *head, const char *control)
{
	char *out = NULL;
	const char *global = section_start(head, "global");
	const char *keys = "on_mount_error = continue\n";
	int n = global ? asprintf(&out, "%.*scontrol = \"%s\"\n%s%s\n", (int)(global - head), head,
				  control, keys, global)
		       : asprintf(&out, "[global]\ncontrol = \"%s\"\n%s%s\n", control, keys, head);
	return n < 0 ? NULL : out;
}

int volume_conf_add(char **text, const char *section, const char *keys)
{
	char *out;
	size_t n = strlen(keys);
	if (asprintf(&out, "%s\n[%s]\n%s%s", *text, section, keys,
		     n && keys[n - 1] == '\n' ? "" : "\n") < 0)
		return -1;
	free(*text);
	*text = out;
	return 0;
}

/* "ratefs: FILE:LINE: [mount:v1] iops: ..." -> "iops: ...", and of the administrator's sections "[global] iops: ..." */
static const char *without_place(const char *line)
{
	const char *section = strstr(line, ": [");
	const char *end = section ? strstr(section, "] ") : NULL;
	if (end)
		return strncmp(section, ": [mount:v", 10) == 0 ? end + 2 : section + 2;
	return strncmp(line, "ratefs: ", 8) == 0 ? line + 8 : line;
}

char *volume_conf_problems(const char *output)
{
	AUTO_FREE char *copy = strdup(output);
	char *rest = copy, *line, *out = copy ? strdup("") : NULL;
	while (out && (line = strsep(&rest, "\n"))) {
		char *more;
		if (!*line)
			continue;
		if (asprintf(&more, "%s%s%s", out, *out ? "; " : "", without_place(line)) < 0)
			more = NULL;
		free(out);
		out = more;
	}
	return out;
}
