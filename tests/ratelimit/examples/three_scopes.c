/* SPDX-License-Identifier: MIT */
/* Two users of two tenants of one service: a request needs the consent of the service, of its tenant
 * and of its user, or it costs nothing.  Time is made up, so that the output is always the same.
 *
 *	cc three_scopes.c $(pkg-config --cflags --libs libratelimit) -o three_scopes
 */
#include <ratelimit/ratelimit.h>
#include <stdio.h>
#include <stdlib.h>

static const char *const scope_name[] = {"service", "tenant", "user"};

static struct ratelimit_io *limiter(uint64_t ops_per_sec)
{
	struct ratelimit_io_config config = {
		.ops = {.size = ops_per_sec / 10, .refill_per_sec = ops_per_sec},
	};
	struct ratelimit_io *io;
	if (ratelimit_io_new(&io, &config, 0) < 0)
		exit(1);
	return io;
}

/* Requests that go at one moment, until one is refused. */
static void storm(const char *who, struct ratelimit_chain *chain, uint64_t now_ns)
{
	struct ratelimit_refusal why;
	int granted = 0;
	while (ratelimit_chain_consume(chain, 1, 0, now_ns, &why) == 0)
		granted++;
	printf("%s: %d requests, then the %s refuses for %llu us\n", who, granted,
	       scope_name[why.scope], (unsigned long long)why.wait_ns / 1000);
}

int main(void)
{
	struct ratelimit_io *service = limiter(1000), *tenant[2] = {limiter(700), limiter(700)};
	struct ratelimit_io *user[2] = {limiter(500), limiter(900)};
	struct ratelimit_chain *chain[2];
	for (int i = 0; i < 2; i++) {
		struct ratelimit_io *path[] = {service, tenant[i], user[i]};
		if (ratelimit_chain_new(&chain[i], path, 3) < 0)
			return 1;
	}
	storm("first", chain[0], 0);
	storm("second", chain[1], 0);
	storm("second, 100 ms later", chain[1], 100000000);
	for (int i = 0; i < 2; i++) {
		ratelimit_chain_free(chain[i]);
		ratelimit_io_free(user[i]);
		ratelimit_io_free(tenant[i]);
	}
	ratelimit_io_free(service);
	return 0;
}
