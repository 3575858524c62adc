/* SPDX-License-Identifier: MIT */
/* Parsers of values, for options.c.  All of them return 0, or -1 with err;
 * then nothing has changed. */
#ifndef DAEMON_OPTION_PARSE_H
#define DAEMON_OPTION_PARSE_H

#include <strings.h>

#include "daemon/options.h"

static inline bool option_is_off(const char *value)
{
	return strcasecmp(value, "off") == 0 || strcasecmp(value, "unlimited") == 0;
}

static inline int option_no_memory(struct error *err)
{
	return error_set(err, "out of memory");
}

/* The index of `value` among "a|b|c", or -1. */
int option_choice(const char *words, const char *value);

/* option_device.c */
int option_parse_latency(struct latency *l, const char *value, struct error *err);
/* `out` points to the first of two consecutive fields; both are filled. */
int option_parse_seek(uint64_t *out, const char *value, struct error *err);
int option_parse_stall(uint64_t *out, const char *value, struct error *err);

/* option_weights.c */
/* "uid:1=2+gid:3=4", "3": adds to the existing weights or replaces them; all or none. */
int option_parse_weights(struct weights *w, const char *value, enum scope_kind scope, bool adds,
			 struct error *err);
int option_parse_match(struct match *m, const char *value, struct error *err);

#endif
