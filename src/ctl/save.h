/* SPDX-License-Identifier: MIT */
/* Writes changed options to the configuration file and preserves its comments, its order and
 * everything else. */
#ifndef CTL_SAVE_H
#define CTL_SAVE_H

#include "base/error.h"

struct save_value {
	const char *key, *value; /* key in its canonical spelling */
};

struct save_section {
	const char *name;
	const char *before; /* a new section is put in front of this one; NULL: at the end */
};

/* The new text, to be freed: values are replaced where the key is, otherwise added at the end of
 * the section, or in a new section.  NULL: out of memory. */
char *save_edit(const char *text, struct save_section section, const struct save_value *v,
		unsigned n);

/* True: the file has such a section.  -1 with err: it cannot be read. */
int save_has_section(const char *path, const char *section, struct error *err);

/* save_edit for a file, atomically: a new file replaces the old one.  0, or -1 with err. */
int save_file(const char *path, struct save_section section, const struct save_value *v, unsigned n,
	      struct error *err);

#endif
