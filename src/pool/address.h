/* SPDX-License-Identifier: MIT */
/* server= of a pool: who divides it between its members. */
#ifndef POOL_ADDRESS_H
#define POOL_ADDRESS_H

#include "base/error.h"
#include "pool/wire.h"

#define POOL_SOCKET_MAX 103 /* leaves room for ".lock" in the address of a socket */

struct pool_address {
	char path[POOL_SOCKET_MAX]; /* unix:/PATH; "": Redis */
	bool tls;		    /* rediss:// */
	char host[POOL_SERVER_MAX], port[8], db[12];
};

/* redis://HOST[:PORT][/DB], rediss://…, or unix:/PATH; an IPv6 address is in brackets.  0, or -1 with err. */
int pool_address_parse(const char *server, struct pool_address *out, struct error *err);

#endif
