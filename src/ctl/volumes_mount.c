/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "ctl/volume_probe.h"
#include "ctl/volumes_internal.h"

int64_t volumes_now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_BOOTTIME, &t);
	return t.tv_sec;
}

static int set_reference(struct volumes *v, const char *name, const char *id, bool present,
			 struct error *err)
{
	json_t *copy = volume_state_begin(&v->state);
	json_t *references = volume_references(volume_find(copy, name));
	if (!copy ||
	    (present && json_object_set_new(references, id, json_integer(volumes_now())) < 0)) {
		json_decref(copy);
		return error_set(err, "out of memory");
	}
	if (!present)
		json_object_del(references, id);
	return volumes_commit(v, copy, SYNC_DATA, err);
}

/* Copies the volume's section to the state, so that changes by `ratefsctl set --save` apply to the
 * next mount. */
static int keep_section(struct volumes *v, const char *name, struct error *err)
{
	const json_t *volume = volume_find(v->state.root, name);
	AUTO_FREE char *section = volumes_served_section(v, volume);
	if (!section || strcmp(section, volume_text(volume, "section")) == 0)
		return 0;
	json_t *copy = volume_state_begin(&v->state);
	if (!copy ||
	    json_object_set_new(volume_find(copy, name), "section", json_string(section)) < 0) {
		json_decref(copy);
		return error_set(err, "out of memory");
	}
	return volumes_commit(v, copy, SYNC_ALL, err);
}

int volumes_release(struct volumes *v, const char *name, struct error *err)
{
	AUTO_FREE char *served = volumes_served_section(v, volume_find(v->state.root, name));
	if (!served)
		return 0;
	int rc = v->daemon->unmount(v->daemon_ctx, name, err);
	if (rc != 0)
		return rc;
	AUTO_FREE char *mountpoint = volumes_mountpoint(v, name);
	if (keep_section(v, name, err) < 0 || volumes_rewrite_conf(v, NULL, name, err) < 0)
		return -1;
	if (mountpoint)
		rmdir(mountpoint);
	return 0;
}

/* The source may have been replaced by a link since the volume was created. */
static int check_source_again(const struct volumes *v, const json_t *volume, struct error *err)
{
	const char *source = volume_source(volume);
	AUTO_FREE char *now = NULL;
	struct stat st;
	if (!source)
		return 0;
	if (volume_probe(source, v->setup.allowed, v->setup.n_allowed, &now, &st, err) < 0)
		return -1;
	return strcmp(now, source) == 0
		       ? 0
		       : error_set(err, "source: '%s' now leads to '%s'", source, now);
}

/* Somebody may have put a link in the place of the source for a moment, after check_source_again or when another daemon was
 * started, and the daemon followed it.  The container that asks does not have the mount yet. */
static int check_mounted_source(const struct volumes *v, const char *name, struct error *err)
{
	const char *source = volume_source(volume_find(v->state.root, name));
	AUTO_FREE char *path = NULL;
	struct stat st;
	if (!source)
		return 0;
	if (volume_probe(source, v->setup.allowed, v->setup.n_allowed, &path, &st, err) < 0)
		return -1;
	return v->daemon->shows(v->daemon_ctx, name, &st)
		       ? 0
		       : error_set(
				 err,
				 "source: '%s' is not the directory that was mounted: it has been "
				 "replaced",
				 source);
}

/* 0; 1: still being mounted; -1 with err. */
static int bring_up(struct volumes *v, const char *name, struct error *err)
{
	AUTO_FREE char *mountpoint = volumes_mountpoint(v, name);
	if (!mountpoint)
		return error_set(err, "out of memory");
	/* EEXIST also for a dead mount, which the daemon will replace. */
	if (mkdir(mountpoint, 0755) < 0 && errno != EEXIST)
		return error_set(err, "%s: %s", mountpoint, strerror(errno));
	if (volumes_rewrite_conf(v, name, NULL, err) < 0)
		return -1;
	return v->daemon->mount(v->daemon_ctx, name, err);
}

/* *added: set if the volume did not have this reference yet. */
static int mount_locked(struct volumes *v, const char *name, const char *id, bool *added,
			struct error *err)
{
	const json_t *volume = volume_find(v->state.root, name);
	if (!volume)
		return volumes_no_such(name, err);
	if (check_source_again(v, volume, err) < 0)
		return FAILED;
	bool new = !json_object_get(volume_references(volume), id);
	/* Updates the time of an existing reference, too, so that it is not collected now. */
	if (set_reference(v, name, id, true, err) < 0)
		return FAILED;
	*added |= new;
	json_object_del(v->unused, name);
	int rc = bring_up(v, name, err);
	if (rc == 0)
		rc = check_mounted_source(v, name, err);
	if (rc < 0)
		return FAILED;
	return rc ? PENDING : DONE;
}

static int check_id(const char *id, struct error *err)
{
	if (*id && strlen(id) <= 256)
		return 0;
	error_set(err, "ID: must identify the user of the volume, in at most 256 characters");
	return -1;
}

/* Mounting may take long (a tree with a size limit is counted first, a source may hang), so this
 * waits without the lock. */
int volumes_mount(struct volumes *v, const char *name, const char *id, struct error *err)
{
	const struct timespec pause = {.tv_nsec = 300 * 1000 * 1000};
	if (check_id(id, err) < 0)
		return BAD_REQUEST;
	int64_t end = volumes_now() + v->setup.mount_wait_s;
	bool added = false;
	for (;;) {
		struct error ignored = ERROR_INIT;
		pthread_mutex_lock(&v->change);
		int rc = mount_locked(v, name, id, &added, err);
		if (rc == PENDING && volumes_now() >= end) {
			error_set(err, "volume '%s' is still being mounted; try again", name);
			rc = FAILED;
		}
		if (rc == FAILED && added)
			volumes_unmount_locked(v, name, id, &ignored);
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
		return volumes_no_such(name, err);
	if (json_object_get(volume_references(volume), id) &&
	    set_reference(v, name, id, false, err) < 0)
		return FAILED;
	/* A failed unmount must not keep the engine from ending the container: volumes_collect tries again. */
	if (json_object_size(volume_references(volume_find(v->state.root, name))) == 0 &&
	    volumes_release(v, name, &why) != 0)
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

/* --- after a restart ------------------------------------------------------------------------ */

/* "" if the kernel does not tell, so that references are kept. */
static char *boot_id(void)
{
	char text[64] = "";
	AUTO_FILE f = fopen("/proc/sys/kernel/random/boot_id", "re");
	text[f ? fread(text, 1, sizeof(text) - 1, f) : 0] = '\0';
	text[strcspn(text, "\n")] = '\0';
	return strdup(text);
}

static void release_all(struct volumes *v)
{
	struct error err = ERROR_INIT;
	json_t *names = volumes_keys(volume_all(v->state.root));
	for (size_t i = 0; i < json_array_size(names); i++) {
		const char *name = json_string_value(json_array_get(names, i));
		if (volumes_release(v, name, &err) != 0)
			log_warning("volume '%s': %s", name, err.text);
	}
	json_decref(names);
}

int volumes_begin(struct volumes *v, struct error *err)
{
	AUTO_FREE char *boot = boot_id();
	const char *before = volume_text(v->state.root, "boot"), *name;
	json_t *volume;
	if (before && boot && strcmp(before, boot) == 0)
		return 0;
	json_t *copy = boot ? volume_state_begin(&v->state) : NULL;
	if (!copy || json_object_set_new(copy, "boot", json_string(boot)) < 0) {
		json_decref(copy);
		return error_set(err, "out of memory");
	}
	json_object_foreach (volume_all(copy), name, volume)
		json_object_clear(volume_references(volume));
	if (volumes_commit(v, copy, SYNC_DATA, err) < 0)
		return -1;
	release_all(v); /* or a daemon would mount what is in the configuration file */
	return 0;
}

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
	volumes_make_spares(v);
	bool silent = volumes_daemon_is_silent(v);
	if (silent)
		log_warning("the ratefs daemon does not answer at %s", v->setup.control);
	json_object_foreach (volume_all(v->state.root), name, volume) {
		if (!silent)
			recover_one(v, name, volume);
	}
	volumes_find_lost(v);
	pthread_mutex_unlock(&v->change);
	volumes_empty_trash(v);
}
