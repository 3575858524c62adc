/* SPDX-License-Identifier: MIT */
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "ctl/volume_tree.h"
#include "ctl/volumes_internal.h"

/* Moves the tree to the trash, from where it is deleted in the background,
 * because that may take long. */
static void to_trash(struct volumes *v, const char *tree)
{
	AUTO_FREE char *from = volumes_path(v, "data/%s", tree, 0),
		       *to = volumes_path(v, "trash/%s", tree, 0);
	if (!from || !to || (rename(from, to) < 0 && errno != ENOENT)) {
		log_error("%s: cannot be deleted: %s", from ? from : tree, strerror(errno));
		return;
	}
	/* The file is told by the next change; until then, a tree that is gone does no harm there. */
	pthread_mutex_lock(&v->look);
	json_object_del(volume_removed(v->state.root), tree);
	pthread_mutex_unlock(&v->look);
}

static bool exists(const struct volumes *v, const char *name, size_t name_len, json_int_t id)
{
	const char *other;
	json_t *volume;
	json_object_foreach (volume_all(v->state.root), other, volume) {
		if (volume_id(volume) == id && strlen(other) == name_len &&
		    strncmp(other, name, name_len) == 0)
			return true;
	}
	return false;
}

/* The ID of "NAME-ID"; false: it is not such a name. */
static bool parse_tree(const char *tree, size_t *name_len, json_int_t *id)
{
	const char *dash = strrchr(tree, '-');
	char *end;
	if (!dash || !isdigit((unsigned char)dash[1]))
		return false;
	*name_len = dash - tree;
	*id = strtol(dash + 1, &end, 10);
	return !*end;
}

/* True: the name of the tree of a volume that does not exist.  IDs that were not given out are left alone: if somebody
 * deletes volumes.json, the trees of all volumes remain. */
static bool is_lost(const struct volumes *v, const char *tree)
{
	json_int_t id, next = json_integer_value(json_object_get(v->state.root, "next"));
	size_t n;
	return !strchr(tree, '/') && parse_tree(tree, &n, &id) && id <= next &&
	       !exists(v, tree, n, id);
}

/* A plugin that was killed while it removed a volume leaves its tree, and one that was killed while it made a volume an empty
 * tree.  Any other tree is left alone, because the state may be an old copy that somebody has put back. */
void volumes_find_lost(struct volumes *v)
{
	static bool told;
	json_t *removed = volumes_keys(volume_removed(v->state.root));
	for (size_t i = 0; i < json_array_size(removed); i++) {
		const char *tree = json_string_value(json_array_get(removed, i));
		if (is_lost(v, tree))
			to_trash(v, tree);
	}
	json_decref(removed);
	AUTO_FREE char *path = volumes_path(v, "%s", "data", 0);
	AUTO_DIR data = path ? opendir(path) : NULL;
	for (const struct dirent *e; data && (e = readdir(data));)
		if (is_lost(v, e->d_name) && unlinkat(dirfd(data), e->d_name, AT_REMOVEDIR) < 0 &&
		    !told)
			log_warning("%s/%s: belongs to no volume; move it away, or delete it", path,
				    e->d_name);
	told = true;
}

/* --- the trash ------------------------------------------------------------------------------ */

/* One thread empties it at a time, and complains once about each tree. */
static struct {
	pthread_mutex_t lock;
	bool runs;
	json_t *told; /* the thread's */
} trash = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void complain(const char *dir, const char *name, int rc)
{
	if (!trash.told)
		trash.told = json_object();
	if (json_object_get(trash.told, name))
		return;
	json_object_set_new(trash.told, name, json_true());
	log_warning("%s/%s: cannot be deleted completely: %s", dir, name, strerror(-rc));
}

static void *empty_trash(void *path)
{
	AUTO_FREE char *own = path;
	AUTO_DIR dir = opendir(own);
	for (const struct dirent *e; dir && (e = readdir(dir));) {
		if (e->d_name[0] == '.')
			continue;
		int rc = volume_tree_delete(dirfd(dir), e->d_name);
		if (rc < 0 && rc != -ENOENT)
			complain(own, e->d_name, rc);
	}
	pthread_mutex_lock(&trash.lock);
	trash.runs = false;
	pthread_mutex_unlock(&trash.lock);
	return NULL;
}

/* What is not deleted now is deleted by the next call. */
void volumes_empty_trash(const struct volumes *v)
{
	pthread_t thread;
	pthread_mutex_lock(&trash.lock);
	char *path = trash.runs ? NULL : volumes_path(v, "%s", "trash", 0);
	if (path && pthread_create(&thread, NULL, empty_trash, path) == 0) {
		pthread_detach(thread);
		trash.runs = true;
	} else {
		free(path);
	}
	pthread_mutex_unlock(&trash.lock);
}

/* --- remove --------------------------------------------------------------------------------- */

static int remove_locked(struct volumes *v, const char *name, struct error *err)
{
	const json_t *volume = volume_find(v->state.root, name);
	if (!volume)
		return volumes_no_such(name, err);
	AUTO_FREE char *tree = NULL;
	size_t references = json_object_size(volume_references(volume));
	bool own = !volume_source(volume);
	if (references) {
		error_set(err, "volume '%s' is in use by %zu container%s", name, references,
			  references == 1 ? "" : "s");
		return CONFLICT;
	}
	int rc = volumes_release(v, name, err);
	if (rc != 0) {
		error_prefix(err, "volume '%s'", name);
		return rc > 0 ? CONFLICT : FAILED;
	}
	json_t *copy = asprintf(&tree, "%s-%u", name, volume_id(volume)) < 0
			       ? NULL
			       : volume_state_begin(&v->state);
	if (!copy || (own && !volume_note_removed(copy, tree))) {
		json_decref(copy);
		return volumes_no_memory(err);
	}
	json_object_del(volume_all(copy), name);
	if (volumes_commit(v, copy, SYNC_ALL, err) < 0)
		return FAILED;
	if (own) {
		to_trash(v, tree);
		volumes_empty_trash(v);
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
