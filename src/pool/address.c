/* SPDX-License-Identifier: MIT */
#include "pool/address.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PORT   "6379"
#define DIGITS "0123456789"
#define NAME   "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ" DIGITS ".-_"

/* Copies the characters of `set` at *at, and advances *at.  False: there are none, or too many. */
static bool take(const char **at, const char *set, char *out, size_t size)
{
	size_t n = strspn(*at, set);
	if (!n || n >= size)
		return false;
	memcpy(out, *at, n);
	out[n] = '\0';
	*at += n;
	return true;
}

static bool skip(const char **at, char c)
{
	bool is = **at == c;
	*at += is;
	return is;
}

static bool take_host(const char **at, struct pool_address *out)
{
	if (!skip(at, '['))
		return take(at, NAME, out->host, sizeof(out->host));
	return take(at, NAME ":%", out->host, sizeof(out->host)) && skip(at, ']');
}

static int parse_redis(const char *server, const char *at, struct pool_address *out,
		       struct error *err)
{
	snprintf(out->port, sizeof(out->port), PORT);
	if (!take_host(&at, out) ||
	    (skip(&at, ':') && !take(&at, DIGITS, out->port, sizeof(out->port))) ||
	    (skip(&at, '/') && *at && !take(&at, DIGITS, out->db, sizeof(out->db))) || *at)
		return error_set(err, "'%s' is not redis://HOST[:PORT][/DB]", server);
	long port = strtol(out->port, NULL, 10);
	return port >= 1 && port <= 65535
		       ? 0
		       : error_set(err, "'%s': ports are between 1 and 65535", server);
}

int pool_address_parse(const char *server, struct pool_address *out, struct error *err)
{
	memset(out, 0, sizeof(*out));
	if (strlen(server) >= POOL_SERVER_MAX)
		return error_set(err, "is too long");
	if (strncmp(server, "unix:/", 6) == 0) {
		if (strlen(server + 5) >= sizeof(out->path))
			return error_set(err, "'%s': the path is longer than %d characters", server,
					 POOL_SOCKET_MAX - 1);
		memcpy(out->path, server + 5, strlen(server + 5) + 1);
		return 0;
	}
	if (strchr(server, '@')) /* and is not quoted */
		return error_set(err, "names and passwords go into the file of auth_file");
	out->tls = strncmp(server, "rediss://", 9) == 0;
	if (out->tls || strncmp(server, "redis://", 8) == 0)
		return parse_redis(server, server + 8 + out->tls, out, err);
	return error_set(
		err, "'%s' is neither redis://HOST[:PORT][/DB] (rediss:// for TLS) nor unix:/PATH",
		server);
}
