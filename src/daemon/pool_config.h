/* SPDX-License-Identifier: MIT */
/* Pools as they are configured: what makes sense, and which scope takes part in which. */
#ifndef DAEMON_POOL_CONFIG_H
#define DAEMON_POOL_CONFIG_H

#include "daemon/settings.h"
#include "pool/pool.h"

/* -1 with err: a [pool:NAME] that cannot work.  Fills in its key. */
int pool_config_check(struct settings *pool, struct error *err);

/* Gives a scope, and its classes, the rates of the pools that they name.  -1 with err: there is none. */
int pool_config_join(struct settings *s, const struct settings *pool, unsigned n,
		     struct error *err);

/* -1 with err: a scope and a wider one both take part in the same pool, so that its requests would pay twice. */
int pool_config_nested(const struct settings *s, const struct settings *fs,
		       const struct settings *global, struct error *err);

/* Its limits as the server counts them. */
void pool_config_limits(const struct settings *pool, struct pool_limits *out);

#endif
