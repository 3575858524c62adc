/* SPDX-License-Identifier: MIT */
/* A first look at the text of a configuration file, line by line: where its sections and keys
 * are, and everything that iniparser would drop, cut or merge in silence.  What a value is, is
 * left to iniparser. */
#ifndef DAEMON_SCAN_H
#define DAEMON_SCAN_H

#include <stdbool.h>
#include <stddef.h>

#include "daemon/problems.h"

#define SCAN_LINE_MAX	  1000	/* iniparser's buffer has 1024 */
#define SCAN_KEYS_MAX	  20000 /* iniparser looks for keys one by one */
#define SCAN_SECTION_KEYS 2000

struct scan_key {
	char *name;
	unsigned line;
};

struct scan_section {
	char *name;
	bool bad; /* the line was: the values of its keys are not looked at */
	unsigned line;
	struct scan_key *key;
	unsigned n_keys;
};

struct scan {
	struct scan_section *section;
	unsigned n_sections, n_keys;
};

/* Problems are added to p.  Comments and lines that have one are blanked out, so that iniparser can read the
 * rest and the problems of values can be told in the same go. */
void scan_text(struct scan *s, char *text, size_t size, struct problems *p);
void scan_free(struct scan *s);

#endif
