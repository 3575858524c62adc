/* SPDX-License-Identifier: MIT */
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "ctl/volume_tree.h"
#include "ctl/volumes_internal.h"

/* Moves the tree to the trash, from where it is deleted in the background,
 * because that may take long. */
static void to_trash(const struct volumes *v, const char *name, unsigned id)
{
	AUTO_FREE char *from = volumes_data(v, name, id),
		       *to = volumes_path(v, "trash/%s-%u", name, id);
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

void volumes_empty_trash(const struct volumes *v)
{
	pthread_t thread;
	char *path = volumes_path(v, "%s", "trash", 0);
	if (path && pthread_create(&thread, NULL, empty_trash, path) == 0)
		pthread_detach(thread);
	else
		free(path); /* the next call of this function deletes it */
}

static int remove_locked(struct volumes *v, const char *name, struct error *err)
{
	const json_t *volume = volume_find(v->state.root, name);
	if (!volume)
		return volumes_no_such(name, err);
	unsigned id = volume_id(volume);
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
	json_t *copy = volume_state_begin(&v->state);
	if (!copy)
		return volumes_no_memory(err);
	json_object_del(volume_all(copy), name);
	if (volumes_commit(v, copy, SYNC_ALL, err) < 0)
		return FAILED;
	if (own) {
		to_trash(v, name, id);
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
