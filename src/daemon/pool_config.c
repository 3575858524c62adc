/* SPDX-License-Identifier: MIT */
#include "daemon/pool_config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/options.h"
#include "pool/address.h"

_Static_assert(LIMIT_KINDS == POOL_LIMITS, "pools know the limits of scopes by their number");

static int check_server(const char *server, struct error *err)
{
	struct pool_address address;
	if (!server)
		return error_set(err, "server: is missing; give redis://HOST[:PORT] or unix:/PATH");
	if (pool_address_parse(server, &address, err) < 0) {
		error_prefix(err, "server");
		return -1;
	}
	return 0;
}

static int check_tls(const struct settings *pool, struct error *err)
{
	const struct {
		const char *option, *path;
	} file[] = {
		{"tls_ca", pool->tls_ca}, {"tls_cert", pool->tls_cert}, {"tls_key", pool->tls_key}};
	for (unsigned i = 0; i < ARRAY_SIZE(file); i++) {
		if (!file[i].path || !*file[i].path)
			continue;
		if (strncmp(pool->server, "rediss://", 9) != 0)
			return error_set(err, "%s: TLS needs server=rediss://HOST[:PORT]",
					 file[i].option);
		if (strlen(file[i].path) >= POOL_PATH_MAX)
			return error_set(err, "%s: is too long", file[i].option);
	}
	if (pool->tls_key && *pool->tls_key && !(pool->tls_cert && *pool->tls_cert))
		return error_set(err, "tls_key: needs tls_cert");
	return 0;
}

static int check_limits(const struct settings *pool, struct error *err)
{
	bool any = false;
	for (unsigned k = 0; k < LIMIT_KINDS; k++) {
		const struct limit_config *l = &pool->limits.limit[k];
		any |= l->enabled;
		if (l->enabled && (!l->rate_per_sec || l->rate_per_sec > POOL_RATE_MAX))
			return error_set(err, "%s: the limit of a pool is between 1 and 4T",
					 limit_kind_name(k));
	}
	return any ? 0 : error_set(err, "has no limit; give bps, iops or another");
}

int pool_config_check(struct settings *pool, struct error *err)
{
	if (check_server(pool->server, err) < 0 || check_tls(pool, err) < 0 ||
	    check_limits(pool, err) < 0)
		return -1;
	if (strlen(pool->name) >= 64)
		return error_set(err, "the name is too long");
	if (pool->key && (!*pool->key || strlen(pool->key) >= POOL_KEY_MAX))
		return error_set(err, "key: must have between 1 and %d characters",
				 POOL_KEY_MAX - 1);
	if (!pool->key && asprintf(&pool->key, "ratefs:{%s}", pool->name) < 0) {
		pool->key = NULL;
		return error_set(err, "out of memory");
	}
	return 0;
}

static const struct settings *find(const struct settings *pool, unsigned n, const char *name)
{
	for (unsigned i = 0; i < n; i++)
		if (pool[i].name && strcmp(pool[i].name, name) == 0)
			return &pool[i];
	return NULL;
}

static int join(struct settings *s, const struct settings *pool, unsigned n, struct error *err)
{
	bool none = !s->pool || strcmp(s->pool, "none") == 0;
	const struct settings *p = none ? NULL : find(pool, n, s->pool);
	if (!none && !p)
		return error_set(err, "pool: there is no [pool:%s]", s->pool);
	for (unsigned k = 0; k < LIMIT_KINDS; k++)
		s->limits.limit[k].pool_per_sec =
			p && p->limits.limit[k].enabled ? p->limits.limit[k].rate_per_sec : 0;
	snprintf(s->limits.pool, sizeof(s->limits.pool), "%s", p ? p->name : "");
	return 0;
}

int pool_config_join(struct settings *s, const struct settings *pool, unsigned n, struct error *err)
{
	int rc = join(s, pool, n, err);
	for (unsigned i = 0; i < s->n_classes && rc == 0; i++)
		rc = join(&s->class[i], pool, n, err);
	return rc;
}

static bool same_pool(const struct settings *a, const struct settings *b)
{
	return a && b && a->pool && b->pool && strcmp(a->pool, "none") != 0 &&
	       strcmp(a->pool, b->pool) == 0;
}

static int twice(const struct settings *s, const char *wider, const char *name, struct error *err)
{
	return error_set(err, "pool: already takes part in pool '%s' by [%s%s%s]", s->pool, wider,
			 name ? ":" : "", name ? name : "");
}

static int check_nested(const struct settings *s, const struct settings *mount,
			const struct settings *fs, const struct settings *global, struct error *err)
{
	return mount && same_pool(s, mount) ? twice(s, "mount", mount->name, err)
	       : same_pool(s, fs)	    ? twice(s, "fs", fs->name, err)
	       : same_pool(s, global)	    ? twice(s, "global", NULL, err)
					    : 0;
}

int pool_config_nested(const struct settings *s, const struct settings *fs,
		       const struct settings *global, struct error *err)
{
	int rc = check_nested(s, NULL, fs, global, err);
	for (unsigned i = 0; i < s->n_classes && rc == 0; i++) {
		const struct settings *class = &s->class[i], *parent = class;
		rc = check_nested(class, s, fs, global, err);
		/* A cycle of parents is reported elsewhere; the counter ends the loop even then. */
		for (unsigned up = 0; rc == 0 && up < s->n_classes && parent->parent; up++) {
			parent = settings_find_class(s, parent->parent);
			if (!parent)
				break;
			if (parent != class && same_pool(class, parent))
				rc = twice(class, "class", parent->name, err);
		}
		if (rc < 0)
			error_prefix(err, "class '%s'", class->name);
	}
	return rc;
}

void pool_config_limits(const struct settings *pool, struct pool_limits *out)
{
	memset(out, 0, sizeof(*out));
	for (unsigned k = 0; k < LIMIT_KINDS; k++) {
		const struct limit_config *l = &pool->limits.limit[k];
		if (!l->enabled)
			continue;
		out->rate[k] = l->rate_per_sec * POOL_MILLI;
		out->capacity[k] =
			min_u64(limit_capacity(l, pool->limits.window_ns), POOL_CAPACITY_MAX);
	}
}

void pool_config_take(struct settings *pool, const struct pool_limits *limits)
{
	struct pool_limits now;
	pool_config_limits(pool, &now);
	for (unsigned k = 0; k < LIMIT_KINDS; k++) {
		struct limit_config *l = &pool->limits.limit[k];
		if (limits->rate[k] == now.rate[k] && limits->capacity[k] == now.capacity[k])
			continue;
		*l = (struct limit_config){.enabled = limits->rate[k],
					   .rate_per_sec = limits->rate[k] / POOL_MILLI};
		uint64_t steady = limit_capacity(l, pool->limits.window_ns);
		l->burst = limits->capacity[k] > steady ? limits->capacity[k] - steady : 0;
	}
}
