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
#include "ctl/containers.h"
#include "ctl/volume_check.h"
#include "ctl/volume_tree.h"

enum {
	DONE = 200,
	PENDING = 202, /* internal: the engine never sees it */
	BAD_REQUEST = 400,
	NOT_FOUND = 404,
	CONFLICT = 409,
	FAILED = 500,
};

static char *in_state(const struct volumes *v, const char *fmt, const char *name, unsigned id)
{
	char *out;
	AUTO_FREE char *tail = NULL;
	if (asprintf(&tail, fmt, name, id) < 0 ||
	    asprintf(&out, "%s/%s", v->setup.state_dir, tail) < 0)
		return NULL;
	return out;
}

static char *mountpoint_of(const struct volumes *v, const char *name)
{
	return in_state(v, "mnt/%s", name, 0);
}

static char *data_of(const struct volumes *v, const char *name, unsigned id)
{
	return in_state(v, "data/%s-%u", name, id);
}

static char *conf_path(const struct volumes *v)
{
	return in_state(v, "%s", "ratefs.conf", 0);
}

static int no_such(const char *name, struct error *err)
{
	char shown[VOLUME_NAME_MAX + 1];
	snprintf(shown, sizeof(shown), "%s", name);
	make_one_line(shown);
	error_set(err, "no such volume: '%s'", shown);
	return NOT_FOUND;
}

static int no_memory(struct error *err)
{
	error_set(err, "out of memory");
	return FAILED;
}

/* --- the state ------------------------------------------------------------------------------ */

/* Only holders of `change` write, so they may read without `look`; the new state appears under it. */
static int commit(struct volumes *v, json_t *copy, struct error *err)
{
	pthread_mutex_lock(&v->look);
	int rc = volume_state_commit(&v->state, copy, err);
	pthread_mutex_unlock(&v->look);
	return rc;
}

static int make_directory(const struct volumes *v, const char *name, mode_t mode, struct error *err)
{
	AUTO_FREE char *path = name ? in_state(v, "%s", name, 0) : strdup(v->setup.state_dir);
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
	AUTO_FREE char *path = in_state(v, "%s", "volumes.json", 0);
	return path && v->unused ? volume_state_load(&v->state, path, err)
				 : error_set(err, "out of memory");
}

void volumes_close(struct volumes *v)
{
	volume_state_free(&v->state);
	volume_options_free(&v->known);
	json_decref(v->unused);
	pthread_mutex_destroy(&v->change);
	pthread_mutex_destroy(&v->look);
}

/* --- the configuration file ----------------------------------------------------------------- */

static char *read_or_empty(const char *path)
{
	char *text = path ? volume_read_file(path) : NULL;
	return text ? text : strdup("");
}

/* What is in the file now, with the section of `add` and without that of `drop`; NULL: no memory. */
static char *conf_text(const struct volumes *v, const char *old, const char *add, const char *drop)
{
	const char *name;
	json_t *volume;
	AUTO_FREE char *head = read_or_empty(v->setup.head);
	AUTO_FREE char *text = head ? volume_conf_head(head, v->setup.control) : NULL;
	bool ok = text != NULL;
	json_object_foreach (volume_all(v->state.root), name, volume) {
		AUTO_FREE char *found = volume_conf_find(old, volume_id(volume));
		bool wanted = add && strcmp(name, add) == 0;
		if ((!found && !wanted) || (drop && strcmp(name, drop) == 0))
			continue;
		ok = ok && volume_conf_add(&text, volume_id(volume),
					   found ? found : volume_text(volume, "section")) == 0;
	}
	return ok ? take_ptr(&text) : NULL;
}

static int rewrite_conf(struct volumes *v, const char *add, const char *drop, struct error *err)
{
	AUTO_FREE char *path = conf_path(v);
	AUTO_FREE char *old = read_or_empty(path);
	AUTO_FREE char *text = path && old ? conf_text(v, old, add, drop) : NULL;
	if (!text)
		return error_set(err, "out of memory");
	return strcmp(text, old) == 0 ? 0 : volume_write_file(path, text, err);
}

/* The keys of the volume in the file; NULL: it is not there. */
static char *served_section(const struct volumes *v, const json_t *volume)
{
	AUTO_FREE char *path = conf_path(v);
	AUTO_FREE char *text = read_or_empty(path);
	return text ? volume_conf_find(text, volume_id(volume)) : NULL;
}

/* --- create --------------------------------------------------------------------------------- */

static int check_overlap(const struct volumes *v, const char *source, struct error *err)
{
	const char *name;
	json_t *volume;
	json_object_foreach (volume_all(v->state.root), name, volume) {
		const char *other = volume_source(volume);
		/* A container could put a link in the place of a directory inside its own tree. */
		if (other && volume_sources_overlap(source, other))
			return error_set(err,
					 "source: '%s' overlaps '%s' of volume '%s'; "
					 "a source may be shared, but not nested",
					 source, other, name);
	}
	return 0;
}

/* Takes `source` out of the options. */
static int find_source(const struct volumes *v, json_t *options, char **source, struct error *err)
{
	const char *key, *found = NULL;
	json_t *value;
	json_object_foreach (options, key, value) {
		if (volume_same_option(key, "source"))
			found = key;
	}
	if (!found)
		return 0;
	*source = volume_check_source(json_string_value(json_object_get(options, found)),
				      v->setup.allowed, v->setup.n_allowed, err);
	if (!*source || check_overlap(v, *source, err) < 0)
		return -1;
	json_object_del(options, found);
	return 0;
}

/* Checks a file with only this volume, so that messages do not reveal options of other volumes. */
static int check_section(const struct volumes *v, unsigned id, const char *section,
			 struct error *err)
{
	AUTO_FREE char *text = volume_conf_head("", v->setup.control);
	if (!text || volume_conf_add(&text, id, section) < 0)
		return error_set(err, "out of memory");
	return v->daemon->check(v->daemon_ctx, text, err);
}

static int make_section(const struct volumes *v, json_t *volume, const char *name,
			struct error *err)
{
	AUTO_FREE char *data = data_of(v, name, volume_id(volume));
	AUTO_FREE char *mountpoint = mountpoint_of(v, name);
	AUTO_FREE char *section = NULL;
	const char *source = volume_source(volume) ? volume_source(volume) : data;
	if (!data || !mountpoint) {
		no_memory(err);
		return FAILED;
	}
	if (volume_conf_section(&section, &v->known, name, source, mountpoint,
				json_object_get(volume, "options"), err) < 0 ||
	    check_section(v, volume_id(volume), section, err) < 0)
		return BAD_REQUEST;
	return json_object_set_new(volume, "section", json_string(section)) < 0 ? no_memory(err)
										: DONE;
}

/* An empty directory may be left from a crash; any other contains data. */
static int make_data(const struct volumes *v, const json_t *volume, const char *name,
		     struct error *err)
{
	AUTO_FREE char *path = data_of(v, name, volume_id(volume));
	if (!path)
		return no_memory(err);
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
		return no_memory(err);
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
	int rc = copy ? create_new(v, copy, name, source, options, err) : no_memory(err);
	if (rc != DONE) {
		json_decref(copy);
		return rc;
	}
	return commit(v, copy, err) < 0 ? FAILED : DONE;
}

int volumes_create(struct volumes *v, const char *name, json_t *options, struct error *err)
{
	json_t *own = json_copy(options);
	if (!own)
		return no_memory(err);
	pthread_mutex_lock(&v->change);
	int rc = create_locked(v, name, own, err);
	pthread_mutex_unlock(&v->change);
	json_decref(own);
	return rc;
}

/* --- mount and unmount ---------------------------------------------------------------------- */

static int set_reference(struct volumes *v, const char *name, const char *id, bool present,
			 struct error *err)
{
	json_t *copy = volume_state_begin(&v->state);
	json_t *references = volume_references(volume_find(copy, name));
	if (!copy ||
	    (present && json_object_set_new(references, id, json_integer(time(NULL))) < 0)) {
		json_decref(copy);
		return error_set(err, "out of memory");
	}
	if (!present)
		json_object_del(references, id);
	return commit(v, copy, err);
}

/* Keeps what `ratefsctl set --save` changed for the next mount. */
static int keep_section(struct volumes *v, const char *name, struct error *err)
{
	const json_t *volume = volume_find(v->state.root, name);
	AUTO_FREE char *section = served_section(v, volume);
	if (!section || strcmp(section, volume_text(volume, "section")) == 0)
		return 0;
	json_t *copy = volume_state_begin(&v->state);
	if (!copy ||
	    json_object_set_new(volume_find(copy, name), "section", json_string(section)) < 0) {
		json_decref(copy);
		return error_set(err, "out of memory");
	}
	return commit(v, copy, err);
}

/* Unmounts a volume that nobody refers to.  0: it is not mounted any more; 1 with err: it is in use; -1 with err. */
static int release(struct volumes *v, const char *name, struct error *err)
{
	AUTO_FREE char *served = served_section(v, volume_find(v->state.root, name));
	if (!served)
		return 0;
	int rc = v->daemon->unmount(v->daemon_ctx, name, err);
	if (rc != 0)
		return rc;
	AUTO_FREE char *mountpoint = mountpoint_of(v, name);
	if (keep_section(v, name, err) < 0 || rewrite_conf(v, NULL, name, err) < 0)
		return -1;
	if (mountpoint)
		rmdir(mountpoint);
	return 0;
}

/* The source may have been replaced by a link since the volume was created. */
static int check_source_again(const struct volumes *v, const json_t *volume, struct error *err)
{
	const char *source = volume_source(volume);
	if (!source)
		return 0;
	AUTO_FREE char *now =
		volume_check_source(source, v->setup.allowed, v->setup.n_allowed, err);
	if (now && strcmp(now, source) != 0)
		return error_set(err, "source: '%s' now leads to '%s'", source, now);
	return now ? 0 : -1;
}

/* 0; 1: still being mounted; -1 with err. */
static int bring_up(struct volumes *v, const char *name, struct error *err)
{
	AUTO_FREE char *mountpoint = mountpoint_of(v, name);
	if (!mountpoint)
		return error_set(err, "out of memory");
	/* A dead mount answers ENOTCONN: the daemon will replace it. */
	if (mkdir(mountpoint, 0755) < 0 && errno != EEXIST)
		return error_set(err, "%s: %s", mountpoint, strerror(errno));
	if (rewrite_conf(v, name, NULL, err) < 0)
		return -1;
	return v->daemon->mount(v->daemon_ctx, name, err);
}

static int mount_locked(struct volumes *v, const char *name, const char *id, struct error *err)
{
	const json_t *volume = volume_find(v->state.root, name);
	if (!volume)
		return no_such(name, err);
	if (check_source_again(v, volume, err) < 0)
		return FAILED;
	bool new = !json_object_get(volume_references(volume), id);
	/* Updates the time of an existing reference, too, so that it is not collected now. */
	if (set_reference(v, name, id, true, err) < 0)
		return FAILED;
	json_object_del(v->unused, name);
	int rc = bring_up(v, name, err);
	if (rc >= 0)
		return rc ? PENDING : DONE;
	struct error ignored = ERROR_INIT;
	if (new)
		volumes_unmount_locked(v, name, id, &ignored);
	return FAILED;
}

static int check_id(const char *id, struct error *err)
{
	if (*id && strlen(id) <= 256)
		return 0;
	error_set(err, "ID: must identify the user of the volume, in at most 256 characters");
	return -1;
}

/* Mounting may take long (a tree with a size is counted first, a source may hang), so this waits without the lock. */
int volumes_mount(struct volumes *v, const char *name, const char *id, struct error *err)
{
	const struct timespec pause = {.tv_nsec = 300 * 1000 * 1000};
	if (check_id(id, err) < 0)
		return BAD_REQUEST;
	time_t end = time(NULL) + v->setup.mount_wait_s;
	for (;;) {
		pthread_mutex_lock(&v->change);
		int rc = mount_locked(v, name, id, err);
		if (rc == PENDING && time(NULL) >= end) {
			struct error ignored = ERROR_INIT;
			error_set(err, "volume '%s' is still being mounted; try again", name);
			volumes_unmount_locked(v, name, id, &ignored);
			rc = FAILED;
		}
		pthread_mutex_unlock(&v->change);
		if (rc != PENDING)
			return rc;
		nanosleep(&pause, NULL);
	}
}

int volumes_unmount_locked(struct volumes *v, const char *name, const char *id, struct error *err)
{
	const json_t *volume = volume_find(v->state.root, name);
	struct error why = ERROR_INIT;
	if (!volume)
		return no_such(name, err);
	if (json_object_get(volume_references(volume), id) &&
	    set_reference(v, name, id, false, err) < 0)
		return FAILED;
	/* A failed unmount must not keep the engine from ending the container: volumes_collect tries again. */
	if (json_object_size(volume_references(volume_find(v->state.root, name))) == 0 &&
	    release(v, name, &why) != 0)
		log_warning("volume '%s' stays mounted: %s", name, why.text);
	return DONE;
}

int volumes_unmount(struct volumes *v, const char *name, const char *id, struct error *err)
{
	pthread_mutex_lock(&v->change);
	int rc = volumes_unmount_locked(v, name, id, err);
	pthread_mutex_unlock(&v->change);
	return rc;
}

/* --- remove --------------------------------------------------------------------------------- */

/* Moves the tree to the trash first, because deleting it may take long. */
static void to_trash(const struct volumes *v, const char *name, unsigned id)
{
	AUTO_FREE char *from = data_of(v, name, id), *to = in_state(v, "trash/%s-%u", name, id);
	if (!from || !to || (rename(from, to) < 0 && errno != ENOENT))
		log_error("volume '%s': its data stays in %s: %s", name, from ? from : "data",
			  strerror(errno));
}

static void *empty_trash(void *path)
{
	AUTO_FREE char *own = path;
	AUTO_DIR trash = opendir(own);
	for (const struct dirent *e; trash && (e = readdir(trash));) {
		if (e->d_name[0] == '.')
			continue;
		int rc = volume_tree_delete(dirfd(trash), e->d_name);
		if (rc < 0 && rc != -ENOENT)
			log_warning("%s/%s: cannot be deleted completely: %s", own, e->d_name,
				    strerror(-rc));
	}
	return NULL;
}

static void start_emptying(const struct volumes *v)
{
	pthread_t thread;
	char *path = in_state(v, "%s", "trash", 0);
	if (path && pthread_create(&thread, NULL, empty_trash, path) == 0)
		pthread_detach(thread);
	else
		free(path); /* the next call of this function deletes it */
}

static int remove_locked(struct volumes *v, const char *name, struct error *err)
{
	const json_t *volume = volume_find(v->state.root, name);
	if (!volume)
		return no_such(name, err);
	unsigned id = volume_id(volume);
	size_t references = json_object_size(volume_references(volume));
	bool own = !volume_source(volume);
	if (references) {
		error_set(err, "volume '%s' is in use by %zu container%s", name, references,
			  references == 1 ? "" : "s");
		return CONFLICT;
	}
	int rc = release(v, name, err);
	if (rc != 0) {
		error_prefix(err, "volume '%s'", name);
		return rc > 0 ? CONFLICT : FAILED;
	}
	json_t *copy = volume_state_begin(&v->state);
	if (!copy)
		return no_memory(err);
	json_object_del(volume_all(copy), name);
	if (commit(v, copy, err) < 0)
		return FAILED;
	if (own) {
		to_trash(v, name, id);
		start_emptying(v);
	}
	return DONE;
}

int volumes_remove(struct volumes *v, const char *name, struct error *err)
{
	pthread_mutex_lock(&v->change);
	int rc = remove_locked(v, name, err);
	pthread_mutex_unlock(&v->change);
	return rc;
}

/* --- after a restart ------------------------------------------------------------------------ */

static void recover_one(struct volumes *v, const char *name, const json_t *volume)
{
	struct error err = ERROR_INIT;
	if (!json_object_size(volume_references(volume)))
		return;
	if (check_source_again(v, volume, &err) < 0 || bring_up(v, name, &err) < 0)
		log_warning("volume '%s': %s", name, err.text);
}

void volumes_recover(struct volumes *v)
{
	const char *name;
	json_t *volume;
	pthread_mutex_lock(&v->change);
	json_object_foreach (volume_all(v->state.root), name, volume) {
		recover_one(v, name, volume);
	}
	pthread_mutex_unlock(&v->change);
	start_emptying(v);
}
