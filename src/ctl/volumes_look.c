/* SPDX-License-Identifier: MIT */
/* Status of volumes for the engine, and detection of containers that are gone. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "ctl/containers.h"
#include "ctl/volumes_internal.h"

#define FSNAME	     "ratefs-volume:"
#define LOOKS_ENOUGH 2
/* Podman uses this ID for every mount (libpod/volume_internal_common.go). */
#define PODMAN_ID "2f73349cfc4630255319c6c8dfc1b46a8996ace9d14d8e07563b165915918ec2"

/* --- containers that use volumes ------------------------------------------------------------ */

/* {"NAME of a volume": {"ID of a container, or pid:N": true}} */
struct uses {
	const struct volumes *v;
	json_t *volumes;
	bool no_memory;
};

static void note_use(void *ctx, const struct container_mount *m)
{
	struct uses *u = ctx;
	char who[CONTAINER_ID_LEN + 1];
	if (strncmp(m->source, FSNAME, strlen(FSNAME)) != 0)
		return;
	const char *name = m->source + strlen(FSNAME);
	AUTO_FREE char *mountpoint = volumes_mountpoint(u->v, name);
	if (!mountpoint || container_mount_is_hosts(m, mountpoint))
		return;
	snprintf(who, sizeof(who), "pid:%d", (int)m->pid);
	if (!json_object_get(u->volumes, name))
		u->no_memory |= json_object_set_new(u->volumes, name, json_object()) < 0;
	u->no_memory |= json_object_set_new(json_object_get(u->volumes, name),
					    *m->container ? m->container : who, json_true()) < 0;
}

/* The uses of all volumes; NULL: not known. */
static json_t *find_uses(const struct volumes *v)
{
	struct uses u = {.v = v, .volumes = json_object()};
	if (u.volumes && containers_each(note_use, &u) && !u.no_memory)
		return u.volumes;
	json_decref(u.volumes);
	return NULL;
}

/* --- for the engine ------------------------------------------------------------------------- */

json_t *volumes_keys(json_t *object)
{
	json_t *list = json_array();
	const char *key;
	json_t *value;
	json_object_foreach (object, key, value) {
		json_array_append_new(list, json_string(key));
	}
	return list;
}

static json_t *describe(const struct volumes *v, const char *name, const json_t *volume)
{
	bool mounted = json_object_size(volume_references(volume)) > 0;
	return json_pack("{ss, ss, so}", "Name", name, "CreatedAt", volume_text(volume, "created"),
			 "Mountpoint",
			 mounted ? json_sprintf("%s/mnt/%s", v->setup.state_dir, name)
				 : json_string(""));
}

static json_t *describe_status(const struct volumes *v, const char *name, json_t *volume)
{
	const char *source = volume_source(volume);
	json_t *uses = find_uses(v), *daemon = v->daemon->status(v->daemon_ctx, name);
	json_t *status = json_pack(
		"{so, sO, sI, so}", "source",
		source ? json_string(source)
		       : json_sprintf("%s/data/%s-%u", v->setup.state_dir, name, volume_id(volume)),
		"options", json_object_get(volume, "options"), "references",
		(json_int_t)json_object_size(volume_references(volume)), "containers",
		volumes_keys(json_object_get(uses, name)));
	if (daemon && status)
		json_object_update(status, daemon);
	json_decref(uses);
	json_decref(daemon);
	return status;
}

json_t *volumes_get(struct volumes *v, const char *name, bool status)
{
	pthread_mutex_lock(&v->look);
	json_t *volume = json_deep_copy(volume_find(v->state.root, name));
	pthread_mutex_unlock(&v->look);
	json_t *out = volume ? describe(v, name, volume) : NULL;
	/* without a lock, because it waits for the daemon */
	if (out && status)
		json_object_set_new(out, "Status", describe_status(v, name, volume));
	json_decref(volume);
	return out;
}

json_t *volumes_list(struct volumes *v)
{
	json_t *list = json_array(), *volume;
	const char *name;
	pthread_mutex_lock(&v->look);
	json_object_foreach (volume_all(v->state.root), name, volume)
		json_array_append_new(list, describe(v, name, volume));
	pthread_mutex_unlock(&v->look);
	return list;
}

/* --- containers that are gone --------------------------------------------------------------- */

bool volumes_daemon_is_silent(const struct volumes *v)
{
	const char *name;
	json_t *volume;
	uint64_t ignored;
	json_object_foreach (volume_all(v->state.root), name, volume) {
		if (json_object_size(volume_references(volume)))
			return !v->daemon->requests(v->daemon_ctx, name, &ignored);
	}
	return false;
}

static bool is_old(const struct volumes *v, json_t *references)
{
	const char *id;
	json_t *since;
	json_object_foreach (references, id, since) {
		if (volumes_now() - json_integer_value(since) < v->setup.collect_after_s)
			return false;
	}
	return true;
}

/* True: enough searches in a row have found no container that uses the volume, and no request between them.  *silent: the daemon
 * does not answer. */
static bool is_deserted(struct volumes *v, const char *name, const json_t *volume, json_t *uses,
			bool *silent)
{
	json_t *references = volume_references(volume);
	uint64_t requests = 0;
	bool may_be = json_object_size(references) && !json_object_get(uses, name) &&
		      !json_object_get(references, PODMAN_ID) && is_old(v, references);
	*silent = may_be && !v->daemon->requests(v->daemon_ctx, name, &requests);
	if (!may_be || *silent) {
		json_object_del(v->unused, name);
		return false;
	}
	const json_t *before = json_object_get(v->unused, name);
	json_int_t looks = 1;
	if (before && json_integer_value(json_array_get(before, 1)) == (json_int_t)requests)
		looks += json_integer_value(json_array_get(before, 0));
	json_object_set_new(v->unused, name, json_pack("[I, I]", looks, (json_int_t)requests));
	return looks >= LOOKS_ENOUGH;
}

/* Unmounts the volume first: its references must not be lost while something uses it. */
static void drop_references(struct volumes *v, const char *name)
{
	struct error err = ERROR_INIT;
	size_t n = json_object_size(volume_references(volume_find(v->state.root, name)));
	json_t *copy = volumes_release(v, name, &err) == 0 ? volume_state_begin(&v->state) : NULL;
	json_object_clear(volume_references(volume_find(copy, name)));
	if (copy && volumes_commit(v, copy, SYNC_DATA, &err) == 0)
		log_info("volume '%s': no container uses it any more; dropped %zu reference%s",
			 name, n, n == 1 ? "" : "s");
	else
		log_warning("volume '%s': no container uses it any more, but it stays mounted: %s",
			    name, error_is_set(&err) ? err.text : "out of memory");
}

/* False: the daemon does not answer. */
static bool collect_one(struct volumes *v, const char *name, json_t *uses)
{
	struct error err = ERROR_INIT;
	const json_t *volume = volume_find(v->state.root, name);
	bool silent;
	if (is_deserted(v, name, volume, uses, &silent))
		drop_references(v, name);
	else if (!json_object_size(volume_references(volume)))
		volumes_unmount_locked(
			v, name, "", &err); /* without a reference: a volume that stayed mounted */
	return !silent;
}

void volumes_collect(struct volumes *v)
{
	/* Search before locking: a volume that is mounted meanwhile has a reference too young to be dropped. */
	json_t *uses = find_uses(v);
	if (!uses)
		return;
	pthread_mutex_lock(&v->change);
	json_t *names = volumes_keys(volume_all(v->state.root));
	bool silent = false;
	for (size_t i = 0; i < json_array_size(names) && !silent; i++)
		silent = !collect_one(v, json_string_value(json_array_get(names, i)), uses);
	pthread_mutex_unlock(&v->change);
	json_decref(names);
	json_decref(uses);
}
