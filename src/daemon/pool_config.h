/* SPDX-License-Identifier: MIT */
/* Checks the configuration of pools, and gives scopes the rates of the pools
 * that they take part in. */
#ifndef DAEMON_POOL_CONFIG_H
#define DAEMON_POOL_CONFIG_H

#include "daemon/settings.h"
#include "pool/pool.h"

/* Checks a [pool:NAME] section, and fills in its key if it has none.  0, or -1 with err. */
int pool_config_check(struct settings *pool, struct error *err);

/* Gives a scope and its classes the rates of the pools that they name.  0, or -1 with err: there is
 * no pool of such a name. */
int pool_config_join(struct settings *s, const struct settings *pool, unsigned n,
		     struct error *err);

/* Refuses (-1 with err) a scope that takes part in the same pool as a wider one: its requests would
 * be charged twice. */
int pool_config_nested(const struct settings *s, const struct settings *fs,
		       const struct settings *global, struct error *err);

/* The limits of a pool in the units of the server. */
void pool_config_limits(const struct settings *pool, struct pool_limits *out);
/* Changes the limits of the pool to `limits`. */
void pool_config_take(struct settings *pool, const struct pool_limits *limits);

#endif
