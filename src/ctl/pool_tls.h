/* SPDX-License-Identifier: MIT */
/* TLS to the server of a pool (rediss://), if hiredis supports it.  The server's certificate must
 * be valid for the name in `server`; hiredis itself would accept a certificate of any host. */
#ifndef CTL_POOL_TLS_H
#define CTL_POOL_TLS_H

#include <hiredis/hiredis.h>

#include "base/error.h"
#include "pool/wire.h"

/* Reads certificates and the key; called before privileges are dropped.  -1 with err. */
int pool_tls_prepare(const struct pool_setup *s, struct error *err);
/* The handshake, on a connection that has a timeout.  -1 with err. */
int pool_tls_begin(redisContext *c, const char *host, struct error *err);

#endif
