/* SPDX-License-Identifier: MIT */
#include "ctl/save.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/ini_lines.h"

#define LOCK_TRIES    100
#define LOCK_PAUSE_NS 50000000 /* 5 s in total */

/* --- editing -------------------------------------------------------------------------------- */

static void put_value(FILE *out, const char *value)
{
	bool quotes = !*value || strpbrk(value, "#;'\"") || isspace((unsigned char)*value);
	char quote = strchr(value, '"') ? '\'' : '"';
	if (quotes)
		fprintf(out, "%c%s%c", quote, value, quote);
	else
		fputs(value, out);
}

static void put_text(FILE *out, const char *from, const char *to)
{
	fwrite(from, 1, to - from, out);
}

struct edit {
	FILE *out;
	const char *end; /* of the old text */
	struct save_section section;
	const struct save_value *v;
	unsigned n;
	bool *done;
};

/* Writes the line, with the new value if it sets one of the keys. */
static void put_line(struct edit *e, const struct ini_line *l, bool inside)
{
	for (unsigned i = 0; inside && l->kind == INI_KEY && i < e->n; i++) {
		if (!ini_key_is(l->name, e->v[i].key))
			continue;
		put_text(e->out, l->start, l->value.from);
		put_value(e->out, e->v[i].value);
		put_text(e->out, l->value.to, l->end);
		e->done[i] = true;
		return;
	}
	put_text(e->out, l->start, l->end);
}

static void put_missing(struct edit *e)
{
	for (unsigned i = 0; i < e->n; i++) {
		if (e->done[i])
			continue;
		fprintf(e->out, "%s = ", e->v[i].key);
		put_value(e->out, e->v[i].value);
		fputc('\n', e->out);
		e->done[i] = true;
	}
}

/* Finds the last line of the section that is not blank or a comment, behind which missing keys are
 * added (NULL: there is no such section), and marks the keys that the section has. */
static const char *find_section(struct edit *e, const char *text)
{
	const char *last = NULL;
	bool inside = false;
	struct ini_line l;
	for (; ini_line_read(&l, text, e->end); text = l.next) {
		if (l.kind == INI_SECTION)
			inside = ini_section_is(l.name, e->section.name);
		if (inside && l.kind != INI_NOTHING)
			last = l.start;
		for (unsigned i = 0; inside && l.kind == INI_KEY && i < e->n; i++)
			e->done[i] |= ini_key_is(l.name, e->v[i].key);
	}
	return last;
}

/* Finds where a new section is put: at the line of e->section.before, or at the first of the comment lines directly
 * above it, which belong to it; NULL: at the end. */
static const char *find_place(const struct edit *e, const char *text)
{
	const char *comment = NULL;
	struct ini_line l;
	for (; e->section.before && ini_line_read(&l, text, e->end); text = l.next) {
		if (l.kind == INI_SECTION && ini_section_is(l.name, e->section.before))
			return comment ? comment : l.start;
		if (l.kind != INI_NOTHING || l.start == l.end)
			comment = NULL;
		else if (!comment)
			comment = l.start;
	}
	return NULL;
}

static void put_section(struct edit *e)
{
	fprintf(e->out, "[%s]\n", e->section.name);
	put_missing(e);
}

static void edit_lines(struct edit *e, const char *text)
{
	const char *last = find_section(e, text), *at = text;
	const char *place = last ? NULL : find_place(e, text);
	bool inside = false;
	struct ini_line l;
	for (; ini_line_read(&l, at, e->end); at = l.next) {
		if (l.start == place) {
			put_section(e);
			fputc('\n', e->out);
		}
		if (l.kind == INI_SECTION)
			inside = ini_section_is(l.name, e->section.name);
		put_line(e, &l, inside);
		if (l.next || l.start == last)
			fputc('\n', e->out);
		if (l.start == last)
			put_missing(e);
	}
	if (!last && !place) {
		fputs(*text && e->end[-1] != '\n' ? "\n\n" : "\n", e->out);
		put_section(e);
	}
}

char *save_edit(const char *text, struct save_section section, const struct save_value *v,
		unsigned n)
{
	char *result = NULL;
	size_t size;
	AUTO_FREE bool *done = calloc(n + 1, sizeof(*done));
	FILE *out = open_memstream(&result, &size);
	if (!out || !done) {
		if (out)
			fclose(out);
		free(result);
		return NULL;
	}
	struct edit e = {out, text + strlen(text), section, v, n, done};
	edit_lines(&e, text);
	if (fclose(out) == 0)
		return result;
	free(result);
	return NULL;
}

/* --- files ---------------------------------------------------------------------------------- */

static char *read_text(const char *path, struct stat *st)
{
	AUTO_FD fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0 || fstat(fd, st) < 0)
		return NULL;
	AUTO_FREE char *text = calloc(1, st->st_size + 1);
	off_t done = 0;
	while (text && done < st->st_size) {
		ssize_t n = read(fd, text + done, st->st_size - done);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return NULL; /* a part must not replace the file */
		if (n == 0)
			break;
		done += n;
	}
	return take_ptr(&text);
}

int save_has_section(const char *path, const char *section, struct error *err)
{
	struct stat st;
	struct ini_line l;
	AUTO_FREE char *text = read_text(path, &st);
	if (!text)
		return error_set(err, "%s: %s", path, strerror(errno));
	const char *end = text + strlen(text);
	for (const char *at = text; ini_line_read(&l, at, end); at = l.next)
		if (l.kind == INI_SECTION && ini_section_is(l.name, section))
			return 1;
	return 0;
}

static int write_text(const char *path, const char *text, const struct stat *st)
{
	AUTO_FD fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	size_t size = strlen(text), done = 0;
	if (fd < 0)
		return -1;
	while (done < size) {
		ssize_t n = write(fd, text + done, size - done);
		if (n < 0 && errno != EINTR)
			return -1;
		done += n > 0 ? n : 0;
	}
	if (fchown(fd, st->st_uid, st->st_gid) < 0 && errno != EPERM)
		return -1;
	return fchmod(fd, st->st_mode & 07777) < 0 || fsync(fd) < 0 ? -1 : 0;
}

/* Locks the directory of the file, because the file itself is replaced.  Anybody who can read the directory could lock it
 * for ever, so we wait only for a few seconds.  -EWOULDBLOCK: still locked; a filesystem without locks is not an error. */
static int lock_directory(const char *real)
{
	const struct timespec pause = {.tv_nsec = LOCK_PAUSE_NS};
	AUTO_FREE char *dir = strdup(real);
	if (!dir)
		return -ENOMEM;
	AUTO_FD fd = open(dirname(dir), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	for (unsigned i = 0; flock(fd, LOCK_EX | LOCK_NB) < 0 && errno == EWOULDBLOCK; i++) {
		if (i == LOCK_TRIES)
			return -EWOULDBLOCK;
		nanosleep(&pause, NULL);
	}
	return take_fd(&fd);
}

int save_file(const char *path, struct save_section section, const struct save_value *v, unsigned n,
	      struct error *err)
{
	struct stat st;
	AUTO_FREE char *real = realpath(path, NULL); /* keeps a symbolic link */
	AUTO_FREE char *temporary = NULL;
	AUTO_FD lock = real ? lock_directory(real) : -1;
	if (lock == -EWOULDBLOCK || lock == -ENOMEM)
		return error_set(err, "%s: %s", path,
				 lock == -ENOMEM ? "out of memory"
						 : "another process has locked its directory");
	AUTO_FREE char *old = real ? read_text(real, &st) : NULL;
	if (!old)
		return error_set(err, "%s: %s", path, strerror(errno));
	AUTO_FREE char *text = save_edit(old, section, v, n);
	if (!text || asprintf(&temporary, "%s.%d~", real, (int)getpid()) < 0)
		return error_set(err, "out of memory");
	if (write_text(temporary, text, &st) == 0 && rename(temporary, real) == 0)
		return 0;
	error_set(err, "%s: %s", path, strerror(errno));
	unlink(temporary);
	return -1;
}
