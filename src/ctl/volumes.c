/* SPDX-License-Identifier: MIT */
#include "ctl/volumes.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "base/text.h"
#include "ctl/volume_check.h"
#include "ctl/volume_probe.h"
#include "ctl/volumes_internal.h"

#define CONF_MAX    (1 << 20) /* what the daemon reads; see ratefs.conf(5) */
#define SECTION_MAX 4096      /* of one volume */

char *volumes_path(const struct volumes *v, const char *fmt, const char *name, unsigned id)
{
	char *out;
	AUTO_FREE char *tail = NULL;
	if (asprintf(&tail, fmt, name, id) < 0 ||
	    asprintf(&out, "%s/%s", v->setup.state_dir, tail) < 0)
		return NULL;
	return out;
}

char *volumes_mountpoint(const struct volumes *v, const char *name)
{
	return volumes_path(v, "mnt/%s", name, 0);
}

char *volumes_data(const struct volumes *v, const char *name, unsigned id)
{
	return volumes_path(v, "data/%s-%u", name, id);
}

static char *conf_path(const struct volumes *v)
{
	return volumes_path(v, "%s", "ratefs.conf", 0);
}

int volumes_no_such(const char *name, struct error *err)
{
	char shown[VOLUME_NAME_MAX + 1];
	snprintf(shown, sizeof(shown), "%s", name);
	make_one_line(shown);
	error_set(err, "no such volume: '%s'", shown);
	return NOT_FOUND;
}

int volumes_no_memory(struct error *err)
{
	error_set(err, "out of memory");
	return FAILED;
}

/* --- the state ------------------------------------------------------------------------------ */

int volumes_commit(struct volumes *v, json_t *copy, enum volume_sync sync, struct error *err)
{
	pthread_mutex_lock(&v->look);
	int rc = volume_state_commit(&v->state, copy, sync, err);
	pthread_mutex_unlock(&v->look);
	return rc;
}

void volumes_make_spares(const struct volumes *v)
{
	AUTO_FREE char *conf = conf_path(v);
	if (conf)
		volume_make_spare(conf);
	volume_make_spare(v->state.path);
}

static int make_directory(const struct volumes *v, const char *name, mode_t mode, struct error *err)
{
	AUTO_FREE char *path = name ? volumes_path(v, "%s", name, 0) : strdup(v->setup.state_dir);
	if (!path)
		return error_set(err, "out of memory");
	if (mkdir(path, mode) < 0 && errno != EEXIST)
		return error_set(err, "%s: %s", path, strerror(errno));
	return 0;
}

/* Only root may enter the trees and mounts of containers, because programs in them may be set-user-ID. */
static int check_directory(const char *path, struct error *err)
{
	struct stat st;
	if (lstat(path, &st) < 0)
		return error_set(err, "%s: %s", path, strerror(errno));
	if (!S_ISDIR(st.st_mode) || st.st_uid != geteuid() || (st.st_mode & 077))
		return error_set(err, "%s: must be a directory of this user, with mode 0700", path);
	return 0;
}

int volumes_open(struct volumes *v, struct error *err)
{
	pthread_mutex_init(&v->change, NULL);
	pthread_mutex_init(&v->look, NULL);
	v->unused = json_object();
	if (make_directory(v, NULL, 0700, err) < 0 ||
	    check_directory(v->setup.state_dir, err) < 0 ||
	    make_directory(v, "data", 0700, err) < 0 || make_directory(v, "mnt", 0700, err) < 0 ||
	    make_directory(v, "trash", 0700, err) < 0)
		return -1;
	v->state_dir = realpath(v->setup.state_dir, NULL);
	if (!v->state_dir)
		return error_set(err, "%s: %s", v->setup.state_dir, strerror(errno));
	v->setup.state_dir = v->state_dir;
	AUTO_FREE char *path = volumes_path(v, "%s", "volumes.json", 0);
	return path && v->unused ? volume_state_load(&v->state, path, err)
				 : error_set(err, "out of memory");
}

void volumes_close(struct volumes *v)
{
	volume_state_free(&v->state);
	volume_options_free(&v->known);
	json_decref(v->unused);
	free(v->state_dir);
	pthread_mutex_destroy(&v->change);
	pthread_mutex_destroy(&v->look);
}

/* --- the configuration file ----------------------------------------------------------------- */

static char *read_or_empty(const char *path)
{
	char *text = path ? volume_read_file(path) : NULL;
	return text ? text : strdup("");
}

/* Appends the [fs:] of a source, unless it is already there: as it is in `old`, or new. */
static int add_source(char **text, const char *old, const char *source)
{
	char name[VOLUME_SECTION_MAX];
	volume_conf_fs_name(name, source);
	AUTO_FREE char *there = volume_conf_find(*text, name), *found = volume_conf_find(old, name);
	AUTO_FREE char *new = NULL;
	if (there)
		return 0;
	if (asprintf(&new, "source = \"%s\"\n", source) < 0)
		return -1;
	return volume_conf_add(text, name, found ? found : new);
}

/* Appends the sections of a volume: the keys of its mount are given. */
static int add_volume(char **text, const char *old, const json_t *volume, const char *keys)
{
	char name[VOLUME_SECTION_MAX];
	const char *source = volume_source(volume);
	volume_conf_mount_name(name, volume_id(volume));
	if (source && add_source(text, old, source) < 0)
		return -1;
	return volume_conf_add(text, name, keys);
}

/* The text of the file, with the section of `add` and without that of `drop`; NULL: no memory. */
static char *conf_text(const struct volumes *v, const char *old, const char *add, const char *drop)
{
	const char *name;
	json_t *volume;
	AUTO_FREE char *head = read_or_empty(v->setup.head);
	AUTO_FREE char *text = head ? volume_conf_head(head, v->setup.control) : NULL;
	bool ok = text != NULL;
	json_object_foreach (volume_all(v->state.root), name, volume) {
		char section[VOLUME_SECTION_MAX];
		volume_conf_mount_name(section, volume_id(volume));
		AUTO_FREE char *found = volume_conf_find(old, section);
		bool wanted = add && strcmp(name, add) == 0;
		if ((!found && !wanted) || (drop && strcmp(name, drop) == 0))
			continue;
		ok = ok && add_volume(&text, old, volume,
				      found ? found : volume_text(volume, "section")) == 0;
	}
	return ok ? take_ptr(&text) : NULL;
}

int volumes_rewrite_conf(struct volumes *v, const char *add, const char *drop, struct error *err)
{
	AUTO_FREE char *path = conf_path(v);
	AUTO_FREE char *old = read_or_empty(path);
	AUTO_FREE char *text = path && old ? conf_text(v, old, add, drop) : NULL;
	if (!text)
		return error_set(err, "out of memory");
	/* The daemon would refuse the file, and so every other volume. */
	if (add && strlen(text) > CONF_MAX)
		return error_set(err, "too many volumes are mounted: %s would exceed %d KiB", path,
				 CONF_MAX >> 10);
	return strcmp(text, old) == 0 ? 0 : volume_write_file(path, text, SYNC_DATA, err);
}

char *volumes_served_section(const struct volumes *v, const json_t *volume)
{
	char section[VOLUME_SECTION_MAX];
	AUTO_FREE char *path = conf_path(v);
	AUTO_FREE char *text = read_or_empty(path);
	volume_conf_mount_name(section, volume_id(volume));
	return text ? volume_conf_find(text, section) : NULL;
}

/* --- create --------------------------------------------------------------------------------- */

static int check_overlap(const struct volumes *v, const char *source, struct error *err)
{
	const char *name;
	json_t *volume;
	const char *own = v->setup.state_dir;
	if (strcmp(source, own) == 0 || volume_sources_overlap(source, own))
		return error_set(err,
				 "source: '%s' overlaps '%s', where the driver keeps its state; "
				 "use another directory",
				 source, own);
	json_object_foreach (volume_all(v->state.root), name, volume) {
		const char *other = volume_source(volume);
		/* The container with the outer tree could replace the inner source by a link. */
		if (other && volume_sources_overlap(source, other))
			return error_set(err,
					 "source: '%s' overlaps '%s' of volume '%s'; "
					 "a source may be shared, but not nested",
					 source, other, name);
	}
	return 0;
}

/* Removes `source` from the options, and checks it. */
static int find_source(const struct volumes *v, json_t *options, char **source, struct error *err)
{
	const char *key, *found = NULL;
	json_t *value;
	json_object_foreach (options, key, value) {
		if (!volume_same_option(key, "source"))
			continue;
		if (found)
			return error_set(err, "source: is given twice");
		found = key;
	}
	if (!found)
		return 0;
	struct stat st;
	if (volume_probe(json_string_value(json_object_get(options, found)), v->setup.allowed,
			 v->setup.n_allowed, source, &st, err) < 0 ||
	    check_overlap(v, *source, err) < 0)
		return -1;
	json_object_del(options, found);
	return 0;
}

/* Checks a file with only this volume, so that messages do not reveal options of other volumes, and with the administrator's
 * sections: the volume may name a pool, and its options must not contradict a class, or no daemon could read the file. */
static int check_section(const struct volumes *v, const json_t *volume, const char *keys,
			 struct error *err)
{
	AUTO_FREE char *head = read_or_empty(v->setup.head);
	AUTO_FREE char *text = head ? volume_conf_head(head, v->setup.control) : NULL;
	if (!text || add_volume(&text, "", volume, keys) < 0)
		return error_set(err, "out of memory");
	return v->daemon->check(v->daemon_ctx, text, err);
}

static int make_section(const struct volumes *v, json_t *volume, const char *name,
			struct error *err)
{
	AUTO_FREE char *data = volumes_data(v, name, volume_id(volume));
	AUTO_FREE char *mountpoint = volumes_mountpoint(v, name);
	AUTO_FREE char *section = NULL;
	const char *source = volume_source(volume);
	if (!data || !mountpoint)
		return volumes_no_memory(err);
	const struct volume_place place = {.name = name,
					   .mountpoint = mountpoint,
					   .source = source ? source : data,
					   .shared = source};
	if (volume_conf_section(&section, &v->known, &place, json_object_get(volume, "options"),
				err) < 0 ||
	    check_section(v, volume, section, err) < 0)
		return BAD_REQUEST;
	if (strlen(section) > SECTION_MAX) {
		error_set(err, "the options of a volume are longer than %d bytes", SECTION_MAX);
		return BAD_REQUEST;
	}
	return json_object_set_new(volume, "section", json_string(section)) < 0
		       ? volumes_no_memory(err)
		       : DONE;
}

/* Makes the directory of a volume.  An empty one may be left from a crash; any other contains data
 * and is refused. */
static int make_data(const struct volumes *v, const json_t *volume, const char *name,
		     struct error *err)
{
	AUTO_FREE char *path = volumes_data(v, name, volume_id(volume));
	if (!path)
		return volumes_no_memory(err);
	if (rmdir(path) < 0 && errno != ENOENT) {
		error_set(err, "%s: already exists, but belongs to no volume; move it away", path);
		return FAILED;
	}
	if (mkdir(path, 0755) < 0 || chmod(path, 0755) < 0) {
		error_set(err, "%s: %s", path, strerror(errno));
		return FAILED;
	}
	return DONE;
}

static int create_new(struct volumes *v, json_t *copy, const char *name, const char *source,
		      json_t *options, struct error *err)
{
	char created[32];
	time_t now = time(NULL);
	struct tm tm;
	strftime(created, sizeof(created), "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&now, &tm));
	json_t *volume = volume_new(copy, name, source, options, created);
	if (!volume)
		return volumes_no_memory(err);
	int rc = make_section(v, volume, name, err);
	return rc == DONE && !source ? make_data(v, volume, name, err) : rc;
}

static bool same_source(const char *a, const char *b)
{
	return a && b ? strcmp(a, b) == 0 : a == b;
}

static int create_again(const json_t *volume, const char *name, const char *source,
			const json_t *options, struct error *err)
{
	if (json_equal(json_object_get(volume, "options"), options) &&
	    same_source(volume_source(volume), source))
		return DONE;
	error_set(err, "volume '%s' already exists with other options", name);
	return CONFLICT;
}

static int create_locked(struct volumes *v, const char *name, json_t *options, struct error *err)
{
	AUTO_FREE char *source = NULL;
	if (volume_check_name(name, err) < 0 || find_source(v, options, &source, err) < 0)
		return BAD_REQUEST;
	const json_t *there = volume_find(v->state.root, name);
	if (there)
		return create_again(there, name, source, options, err);
	json_t *copy = volume_state_begin(&v->state);
	int rc = copy ? create_new(v, copy, name, source, options, err) : volumes_no_memory(err);
	if (rc != DONE) {
		json_decref(copy);
		return rc;
	}
	return volumes_commit(v, copy, SYNC_ALL, err) < 0 ? FAILED : DONE;
}

int volumes_create(struct volumes *v, const char *name, json_t *options, struct error *err)
{
	json_t *own = json_copy(options);
	if (!own)
		return volumes_no_memory(err);
	pthread_mutex_lock(&v->change);
	int rc = create_locked(v, name, own, err);
	pthread_mutex_unlock(&v->change);
	json_decref(own);
	return rc;
}
