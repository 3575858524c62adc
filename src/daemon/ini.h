/* SPDX-License-Identifier: MIT */
/* Reads a file in ini format: the configuration, or a profile.  iniparser reads the values; the lines
 * (ini_lines.h) tell where its sections and keys are, and find what iniparser would silently drop,
 * truncate or merge.
 *
 * Ownership  struct ini owns everything in it; ini_free frees it. */
#ifndef DAEMON_INI_H
#define DAEMON_INI_H

#include <stdbool.h>
#include <stddef.h>

#include "daemon/problems.h"

#define INI_SIZE_MAX (1U << 20)

struct ini_key {
	char *name;
	const char *value; /* NULL: iniparser did not find it */
	unsigned line;
};

struct ini_section {
	char *name;
	bool bad; /* has been reported; its keys are skipped */
	unsigned line;
	struct ini_key *key;
	unsigned n_keys;
};

struct ini {
	struct ini_section *section; /* in the order of the file */
	unsigned n_sections, n_keys;
	struct _dictionary_ *values; /* iniparser's; NULL: it could not read the text */
};

/* Adds every problem to p.  Call ini_free in either case. */
void ini_parse(struct ini *ini, char *text, size_t size, struct problems *p);
/* The same for a file: a regular one of at most INI_SIZE_MAX bytes. */
void ini_load(struct ini *ini, const char *path, struct problems *p);
void ini_free(struct ini *ini);

#endif
