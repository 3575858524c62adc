/* SPDX-License-Identifier: MIT */
#include "ctl/volume_state.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "ctl/volume_check.h"

#define STATE_VERSION  1
#define FILE_MAX_BYTES (64 << 20)
#define SPARE_BYTES    (256 << 10) /* 500 volumes */

/* --- files ---------------------------------------------------------------------------------- */

static int write_all(int fd, const char *text)
{
	size_t size = strlen(text);
	while (size) {
		ssize_t n = write(fd, text, size);
		if (n < 0 && errno != EINTR)
			return -1;
		if (n > 0) {
			text += n;
			size -= n;
		}
	}
	return 0;
}

static int sync_directory_of(const char *path)
{
	AUTO_FREE char *copy = strdup(path);
	AUTO_FD fd = copy ? open(dirname(copy), O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
	return fd < 0 ? -1 : fsync(fd);
}

static int write_new(const char *path, const char *text, enum volume_sync sync)
{
	AUTO_FREE char *temporary = NULL;
	if (asprintf(&temporary, "%s~", path) < 0)
		return -1;
	AUTO_FD fd = open(temporary, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd >= 0 && write_all(fd, text) == 0 && (sync < SYNC_DATA || fsync(fd) == 0) &&
	    rename(temporary, path) == 0)
		return sync == SYNC_ALL ? sync_directory_of(path) : 0;
	int error = errno;
	unlink(temporary);
	errno = error;
	return -1;
}

static char *spare_of(const char *path)
{
	char *spare;
	return asprintf(&spare, "%s.spare", path) < 0 ? NULL : spare;
}

/* Writes the text over the spare file, whose blocks are allocated, and exchanges the two: the old file is the next spare.  The
 * directory is synced, because after a power failure the spare must not be in the place of the file. */
static int write_over(const char *path, const char *text)
{
	AUTO_FREE char *spare = spare_of(path);
	AUTO_FD fd = spare ? open(spare, O_WRONLY | O_CLOEXEC | O_NOFOLLOW) : -1;
	if (fd < 0 || write_all(fd, text) < 0 || ftruncate(fd, (off_t)strlen(text)) < 0 ||
	    fsync(fd) < 0 || renameat2(AT_FDCWD, spare, AT_FDCWD, path, RENAME_EXCHANGE) < 0)
		return -1;
	return sync_directory_of(path);
}

int volume_write_file(const char *path, const char *text, enum volume_sync sync, struct error *err)
{
	int rc = write_new(path, text, sync);
	if (rc == 0)
		return 0;
	int error = errno;
	if ((error == ENOSPC || error == EDQUOT) && write_over(path, text) == 0)
		return 0;
	return error_set(err, "%s: %s", path, strerror(error));
}

void volume_make_spare(const char *path)
{
	static const char zeros[SPARE_BYTES];
	AUTO_FREE char *spare = spare_of(path);
	AUTO_FD fd = spare ? open(spare, O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600) : -1;
	struct stat st;
	if (fd < 0 || fstat(fd, &st) < 0 || st.st_size >= SPARE_BYTES)
		return;
	(void)!pwrite(fd, zeros, SPARE_BYTES - (size_t)st.st_size, st.st_size);
}

char *volume_read_file(const char *path)
{
	AUTO_FD fd = open(path, O_RDONLY | O_CLOEXEC);
	struct stat st;
	if (fd < 0 || fstat(fd, &st) < 0)
		return NULL;
	if (!S_ISREG(st.st_mode) || st.st_size > FILE_MAX_BYTES) {
		errno = EINVAL;
		return NULL;
	}
	AUTO_FREE char *text = calloc(1, st.st_size + 1);
	off_t done = 0;
	while (text && done < st.st_size) {
		ssize_t n = read(fd, text + done, st.st_size - done);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return NULL;
		if (n == 0)
			break;
		done += n;
	}
	return take_ptr(&text);
}

/* --- the tree ------------------------------------------------------------------------------- */

json_t *volume_all(const json_t *root)
{
	return json_object_get(root, "volumes");
}

json_t *volume_find(const json_t *root, const char *name)
{
	return json_object_get(volume_all(root), name);
}

unsigned volume_id(const json_t *volume)
{
	return (unsigned)json_integer_value(json_object_get(volume, "id"));
}

const char *volume_text(const json_t *volume, const char *key)
{
	return json_string_value(json_object_get(volume, key));
}

const char *volume_source(const json_t *volume)
{
	return volume_text(volume, "source");
}

json_t *volume_references(const json_t *volume)
{
	return json_object_get(volume, "references");
}

bool volume_note_removed(json_t *root, const char *tree)
{
	if (!json_object_get(root, "removed") &&
	    json_object_set_new(root, "removed", json_object()) < 0)
		return false;
	return json_object_set_new(volume_removed(root), tree, json_true()) == 0;
}

json_t *volume_removed(const json_t *root)
{
	return json_object_get(root, "removed");
}

json_t *volume_new(json_t *root, const char *name, const char *source, json_t *options,
		   const char *created)
{
	json_int_t id = json_integer_value(json_object_get(root, "next"));
	json_t *volume =
		json_pack("{sI, ss?, so, ss, ss, s{}}", "id", id, "source", source, "options",
			  json_deep_copy(options), "section", "", "created", created, "references");
	if (json_object_set_new(root, "next", json_integer(id + 1)) < 0 ||
	    json_object_set_new(volume_all(root), name, volume) < 0)
		return NULL;
	return volume;
}

/* --- reading and writing -------------------------------------------------------------------- */

static bool is_volume(const char *name, const json_t *volume)
{
	struct error ignored;
	json_int_t id;
	const char *section, *created;
	json_t *options, *references, *value;
	if (volume_check_name(name, &ignored) < 0 ||
	    json_unpack((json_t *)volume, "{sI, ss, ss, so, so}", "id", &id, "section", &section,
			"created", &created, "options", &options, "references", &references) < 0)
		return false;
	json_object_foreach (options, name, value) {
		if (!json_is_string(value))
			return false;
	}
	return json_is_object(options) && json_is_object(references);
}

/* The directories of volumes, and what belongs to none, are told apart by IDs. */
static bool has_ids(json_t *volumes, json_int_t next)
{
	const char *name;
	json_t *volume;
	json_t *seen = json_object();
	bool ok = seen != NULL;
	json_object_foreach (volumes, name, volume) {
		char text[24];
		json_int_t id = json_integer_value(json_object_get(volume, "id"));
		snprintf(text, sizeof(text), "%" JSON_INTEGER_FORMAT, id);
		ok = ok && id > 0 && id < next && !json_object_get(seen, text) &&
		     json_object_set_new(seen, text, json_true()) == 0;
	}
	json_decref(seen);
	return ok;
}

static bool is_state(json_t *root)
{
	json_int_t version, next;
	json_t *volumes, *volume, *removed = NULL;
	const char *name;
	if (json_unpack(root, "{sI, sI, so, s?o}", "v", &version, "next", &next, "volumes",
			&volumes, "removed", &removed) < 0 ||
	    version != STATE_VERSION || !json_is_object(volumes) ||
	    (removed && !json_is_object(removed)))
		return false;
	json_object_foreach (volumes, name, volume) {
		if (!is_volume(name, volume))
			return false;
	}
	return next <= INT_MAX && has_ids(volumes, next);
}

static json_t *parse(const char *path, const char *text, struct error *err)
{
	json_error_t where;
	json_t *root = json_loads(text, JSON_REJECT_DUPLICATES, &where);
	if (root && is_state(root))
		return root;
	if (root)
		error_set(err, "%s: is not a state of version %d of ratefs-volume", path,
			  STATE_VERSION);
	else
		error_set(err, "%s:%d: %s", path, where.line, where.text);
	json_decref(root);
	return NULL;
}

int volume_state_load(struct volume_state *s, const char *path, struct error *err)
{
	AUTO_FREE char *text = volume_read_file(path);
	*s = (struct volume_state){.path = strdup(path)};
	if (!text && errno != ENOENT)
		return error_set(err, "%s: %s", path, strerror(errno));
	s->root = text ? parse(path, text, err)
		       : json_pack("{si, si, s{}}", "v", STATE_VERSION, "next", 1, "volumes");
	if (s->root && s->path)
		return 0;
	if (!error_is_set(err))
		error_set(err, "out of memory");
	volume_state_free(s);
	return -1;
}

void volume_state_free(struct volume_state *s)
{
	json_decref(s->root);
	free(s->path);
	*s = (struct volume_state){0};
}

json_t *volume_state_begin(const struct volume_state *s)
{
	return json_deep_copy(s->root);
}

int volume_state_commit(struct volume_state *s, json_t *copy, enum volume_sync sync,
			struct error *err)
{
	AUTO_FREE char *text = json_dumps(copy, JSON_INDENT(1));
	int rc = text ? volume_write_file(s->path, text, sync, err)
		      : error_set(err, "out of memory");
	if (rc < 0) {
		json_decref(copy);
		return -1;
	}
	json_decref(s->root);
	s->root = copy;
	return 0;
}
