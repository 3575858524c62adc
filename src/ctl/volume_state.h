/* SPDX-License-Identifier: MIT */
/* What the volume plugin knows about its volumes, in one JSON file that is replaced atomically.
 *
 *	{"v": 1, "next": 3, "boot": "ID of the boot in which there were these references",
 *	 "volumes": {"box": {"id": 2, "source": "/srv/box" or null, "options": {"iops": "500"}, "section": "...",
 *	 "created": "2026-...", "references": {"ID of a container": seconds since that boot}}},
 *	 "removed": {"box-1": true}}
 *
 * `removed` has the directories of volumes that were removed and may not have been moved to the trash yet.
 *
 * `section` is the volume's section in the daemon's configuration file when it was last mounted, or when it was created.
 *
 * A change is made to a copy, which takes effect only after it has been written
 * (volume_state_begin, volume_state_commit): if the plugin dies or the disk is full, the old state
 * remains.
 * Locking	the caller's. */
#ifndef CTL_VOLUME_STATE_H
#define CTL_VOLUME_STATE_H

#include <stdbool.h>

#include <jansson.h>

#include "base/error.h"

/* What a file may contain after a power failure.  Each sync takes milliseconds, and not everything is worth one: references
 * of containers need not survive a power failure, because the containers do not. */
enum volume_sync {
	SYNC_NOTHING, /* anything */
	SYNC_DATA,    /* the old text or the new one */
	SYNC_ALL,     /* the new text */
};

struct volume_state {
	char *path;
	json_t *root;
};

/* Reads the file; an absent one is an empty state.  -1 with err: it cannot be read, or has another format. */
int volume_state_load(struct volume_state *s, const char *path, struct error *err);
void volume_state_free(struct volume_state *s);

/* A copy to change; NULL: no memory. */
json_t *volume_state_begin(const struct volume_state *s);
/* Writes the copy and puts it in force.  Takes the copy over even if it fails. */
int volume_state_commit(struct volume_state *s, json_t *copy, enum volume_sync sync,
			struct error *err);

/* All volumes, and one of them (NULL: there is none), of a state or a copy.  Borrowed. */
json_t *volume_all(const json_t *root);
json_t *volume_find(const json_t *root, const char *name);
/* Adds a volume, with a new id and a copy of the options: a state shares nothing with a request, which another
 * thread may be releasing.  NULL: no memory.  Borrowed. */
json_t *volume_new(json_t *root, const char *name, const char *source, json_t *options,
		   const char *created);

/* Adds the directory of a volume that is removed; false: no memory.  All of these; NULL: there are none. */
bool volume_note_removed(json_t *root, const char *tree);
json_t *volume_removed(const json_t *root);

unsigned volume_id(const json_t *volume);
const char *volume_source(const json_t *volume); /* NULL: the plugin's own directory */
const char *volume_text(const json_t *volume, const char *key);
json_t *volume_references(const json_t *volume);

/* Replaces the file by the text, atomically; on a full disk by means of its spare file. */
int volume_write_file(const char *path, const char *text, enum volume_sync sync, struct error *err);
/* Makes a spare file, if there is none or if it has shrunk, so that volumes can be unmounted and removed even after they have
 * filled the disk. */
void volume_make_spare(const char *path);
/* All of a file, NULL with errno. */
char *volume_read_file(const char *path);

#endif
