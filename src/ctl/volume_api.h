/* SPDX-License-Identifier: MIT */
/* The volume plugin protocol of Docker, version 1: JSON in, JSON out, one call per path. */
#ifndef CTL_VOLUME_API_H
#define CTL_VOLUME_API_H

#include <stddef.h>

#include "ctl/volumes.h"

/* The answer to a POST, as malloc'd text (NULL: no memory), and its HTTP
 * status.  Both report errors. */
char *volume_api_call(struct volumes *v, const char *path, const char *body, size_t size,
		      unsigned *status);

#endif
