/* SPDX-License-Identifier: MIT */
#include "ctl/volume_check.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/util.h"

#define KEY_MAX	  64
#define VALUE_MAX 800 /* a line of the configuration file has at most 1000 bytes */

static bool only_has(const char *text, const char *others)
{
	for (; *text; text++)
		if (!isalnum((unsigned char)*text) && !strchr(others, *text))
			return false;
	return true;
}

int volume_check_name(const char *name, struct error *err)
{
	if (!*name)
		return error_set(err, "the volume has no name");
	if (strlen(name) > VOLUME_NAME_MAX)
		return error_set(err, "the name of a volume has at most %d characters",
				 VOLUME_NAME_MAX);
	if (!isalnum((unsigned char)*name) || !only_has(name, "_.-"))
		return error_set(err, "the name of a volume starts with a letter or digit and "
				      "contains only letters, digits, '_', '.' and '-'");
	return 0;
}

/* --- options -------------------------------------------------------------------------------- */

static int plain(int c)
{
	return c == '-' ? '_' : tolower(c);
}

bool volume_same_option(const char *a, const char *b)
{
	for (; *a && plain((unsigned char)*a) == plain((unsigned char)*b); a++, b++)
		;
	return *a == *b;
}

/* True: the plugin sets this option: place and name of the mount; or `options`,
 * which could contain them. */
static bool is_ours(const char *key)
{
	static const char *const ours[] = {
		"mountpoint", "name", "fs", "options", "fsname", "subtype", "source_nofollow"};
	for (unsigned i = 0; i < ARRAY_SIZE(ours); i++)
		if (volume_same_option(key, ours[i]))
			return true;
	return false;
}

static bool is_writable_value(const char *value)
{
	for (const char *p = value; *p; p++)
		if ((unsigned char)*p < ' ' || *p == 0x7f || *p == '"' || *p == '\'')
			return false;
	return !*value || value[strlen(value) - 1] != '\\'; /* a '\' would continue the line */
}

int volume_check_option(const char *key, const char *value, struct error *err)
{
	if (!*key || strlen(key) > KEY_MAX || !only_has(key, "_.-"))
		return error_set(err,
				 "the name of an option consists of at most %d letters, digits, "
				 "'_', '.' and '-'",
				 KEY_MAX);
	if (is_ours(key))
		return error_set(err, "%s: is set by the volume driver and cannot be given", key);
	if (strlen(value) > VALUE_MAX)
		return error_set(err, "%s: the value is longer than %d bytes", key, VALUE_MAX);
	if (!is_writable_value(value))
		return error_set(err,
				 "%s: a value must not contain quotes or control characters, "
				 "or end in '\\'",
				 key);
	return 0;
}

/* --- sources -------------------------------------------------------------------------------- */

static bool is_below(const char *path, const char *dir)
{
	size_t n = strlen(dir);
	if (n == 1) /* "/" */
		return true;
	return strncmp(path, dir, n) == 0 && path[n] == '/';
}

bool volume_sources_overlap(const char *a, const char *b)
{
	return strcmp(a, b) != 0 && (is_below(a, b) || is_below(b, a));
}

static bool is_in(const char *path, const char *dir)
{
	return strcmp(path, dir) == 0 || is_below(path, dir);
}

/* `path` has no links, so neither has an allowed directory that contains it as it is written.  The others are looked at only
 * if there is none: one of them may hang. */
static bool is_allowed(const char *path, char *const *allowed, unsigned n_allowed)
{
	for (unsigned i = 0; i < n_allowed; i++)
		if (is_in(path, allowed[i]))
			return true;
	for (unsigned i = 0; i < n_allowed; i++) {
		AUTO_FREE char *dir = realpath(allowed[i], NULL);
		if (dir && is_in(path, dir))
			return true;
	}
	return false;
}

/* The message does not reveal whether a directory exists that the user may not use. */
static int refuse(const char *source, unsigned n_allowed, struct error *err)
{
	return error_set(
		err, "source: '%s' is not %s; see --allow-source in ratefs-volume(8)", source,
		n_allowed ? "a directory below one that is allowed" : "allowed: no source is");
}

char *volume_check_source(const char *source, char *const *allowed, unsigned n_allowed,
			  struct error *err)
{
	struct stat st;
	if (source[0] != '/') {
		error_set(err, "source: '%s' is not an absolute path", source);
		return NULL;
	}
	AUTO_FREE char *path = realpath(source, NULL);
	if (!path || !is_allowed(path, allowed, n_allowed) || lstat(path, &st) < 0 ||
	    !S_ISDIR(st.st_mode)) {
		refuse(source, n_allowed, err);
		return NULL;
	}
	if (strlen(path) > VALUE_MAX || volume_check_option("source", path, err) < 0) {
		error_set(err, "source: '%s' cannot be written to a configuration file", source);
		return NULL;
	}
	return take_ptr(&path);
}

int volume_stat_source(const char *source, struct stat *st, struct error *err)
{
	struct open_how how = {.flags = O_PATH | O_DIRECTORY | O_CLOEXEC,
			       .resolve = RESOLVE_NO_SYMLINKS};
	AUTO_FD fd = (int)syscall(SYS_openat2, AT_FDCWD, source, &how, sizeof(how));
	if (fd < 0 || fstat(fd, st) < 0)
		return error_set(err, "source: '%s': %s", source, strerror(errno));
	return 0;
}
