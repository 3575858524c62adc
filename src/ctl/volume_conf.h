/* SPDX-License-Identifier: MIT */
/* The configuration file of the daemon that serves the volumes: what the administrator wrote for all of them, one
 * [mount:vID] for each volume that is mounted, and one [fs:sHASH] for each source that is not the driver's own directory, so
 * that volumes with the same source count its space together.
 *
 * `ratefsctl set --save` writes to the sections, so when other sections are added or removed, the existing ones are copied
 * unchanged from the file.
 * All results are malloc'd; NULL: no memory. */
#ifndef CTL_VOLUME_CONF_H
#define CTL_VOLUME_CONF_H

#include <jansson.h>

#include "base/error.h"

/* One option of `ratefs --dump-options`. */
struct volume_option {
	char *name, *syntax;
	bool flag; /* needs no value */
};
struct volume_options {
	struct volume_option *option;
	unsigned n;
};
/* Parses the output of `ratefs --dump-options`; false: no memory. */
bool volume_options_parse(struct volume_options *o, const char *text);
void volume_options_free(struct volume_options *o);

/* The names of the sections. */
#define VOLUME_SECTION_MAX 32
void volume_conf_mount_name(char name[VOLUME_SECTION_MAX], unsigned id);     /* "mount:v1" */
void volume_conf_fs_name(char name[VOLUME_SECTION_MAX], const char *source); /* "fs:s0123..." */

struct volume_place {
	const char *name, *mountpoint;
	const char *source;
	bool shared; /* the source has an [fs:] section */
};

/* The keys of a [mount:]; `options` are those of the user.  0, or -1 with err: one of them is refused. */
int volume_conf_section(char **out, const struct volume_options *known,
			const struct volume_place *place, const json_t *options, struct error *err);

/* The keys of a section in the text of a file; NULL: there is none. */
char *volume_conf_find(const char *text, const char *section);

/* `head` (the administrator's file, "" for none) with the control socket in its [global]. */
char *volume_conf_head(const char *head, const char *control);

/* Appends a section to *text. */
int volume_conf_add(char **text, const char *section, const char *keys);

/* The messages of `ratefs --check`, without the name of the file and of the volume's section, joined by "; ". */
char *volume_conf_problems(const char *output);

#endif
