/* SPDX-License-Identifier: MIT */
/* The configuration file of the daemon that serves the volumes: what the administrator wrote for all of them, and one
 * [mount:vID] for each volume that is mounted.
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

/* The keys of a section; `options` are those of the user.  0, or -1 with err:
 * one of them is refused. */
int volume_conf_section(char **out, const struct volume_options *known, const char *name,
			const char *source, const char *mountpoint, const json_t *options,
			struct error *err);

/* The keys of section [mount:vID] in the text of a file; NULL: there is none. */
char *volume_conf_find(const char *text, unsigned id);

/* `head` (the administrator's file, "" for none) with the control socket in its [global]. */
char *volume_conf_head(const char *head, const char *control);

/* Appends "[mount:vID]" and its keys to *text. */
int volume_conf_add(char **text, unsigned id, const char *section);

/* The messages of `ratefs --check`, without names of files and sections, joined by "; ". */
char *volume_conf_problems(const char *output);

#endif
