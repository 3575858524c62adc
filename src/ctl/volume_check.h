/* SPDX-License-Identifier: MIT */
/* Validates what users of a container engine ask for: names, options and sources of volumes.  None of it is trusted.
 *
 * Errors	0, or -1 with err: a line for the user who creates the volume.
 * Locking	none: pure functions, except for the look at the file system that a source needs. */
#ifndef CTL_VOLUME_CHECK_H
#define CTL_VOLUME_CHECK_H

#include <stdbool.h>
#include <sys/stat.h>

#include <jansson.h>

#include "base/error.h"

#define VOLUME_NAME_MAX 128

/* A name is one path component and one word of the configuration file: letters, digits, '_', '.', '-'. */
int volume_check_name(const char *name, struct error *err);

/* Checks one option for the configuration file: it has no line breaks and no quotes, and
 * is not one that the plugin sets (mountpoint, name, ...).  `ratefs --check` decides
 * whether the option exists. */
int volume_check_option(const char *key, const char *value, struct error *err);

/* Compares names of options, ignoring case and the difference between '-' and '_'. */
bool volume_same_option(const char *a, const char *b);

/* The directory that `source` names, without links (malloc'd), if it is one of the allowed directories or lies below one;
 * NULL with err otherwise. */
char *volume_check_source(const char *source, char *const *allowed, unsigned n_allowed,
			  struct error *err);

/* The directory at a path that volume_check_source returned, provided that still no part of it is a link. */
int volume_stat_source(const char *source, struct stat *st, struct error *err);

/* True: one of two such paths is inside the other.  False for equal ones. */
bool volume_sources_overlap(const char *a, const char *b);

#endif
