/* SPDX-License-Identifier: MIT */
/* The script in Redis against the server in memory: the same calls on the same fake clock must get the same
 * answers.
 *	poolcheck compare SOCKET SCRIPT CALLS [SEED]	random calls, compared one by one
 *	poolcheck fill SOCKET SCRIPT MEMBERS		so many members lease, during one second of the fake clock
 *	poolcheck load SOCKET SCRIPT MEMBERS SECONDS	times calls of many members: microseconds each
 *	poolcheck hostile SOCKET KEY	calls that no member makes, of a helper that serves a pool: it must not answer them */
#include <hiredis/hiredis.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "pool/server.h"
#include "pool/wire.h"

#define MEMBERS 40
#define ARGS	(5 + 7 + 5 * POOL_LIMITS)

static uint64_t seed = 20240229;

static uint64_t below(uint64_t n)
{
	seed ^= seed >> 12;
	seed ^= seed << 25;
	seed ^= seed >> 27;
	return seed * 0x2545f4914f6cdd1dULL % n;
}

static void die(const char *what, const char *why)
{
	fprintf(stderr, "poolcheck: %s: %s\n", what, why ? why : "?");
	exit(1);
}

static redisReply *need(redisContext *c, redisReply *r)
{
	if (!r)
		die("connection", c->errstr);
	if (r->type == REDIS_REPLY_ERROR)
		die("server", r->str);
	return r;
}

static void load(redisContext *c, const char *path, char sha[41])
{
	static char text[65536];
	FILE *f = fopen(path, "r");
	if (!f)
		die(path, "cannot be read");
	text[fread(text, 1, sizeof(text) - 1, f)] = '\0';
	fclose(f);
	redisReply *r = need(c, redisCommand(c, "SCRIPT LOAD %s", text));
	snprintf(sha, 41, "%s", r->str);
	freeReplyObject(r);
}

static void ask(redisContext *c, const char *sha, bool fake, const struct pool_call *call,
		struct pool_answer *out)
{
	char number[ARGS][24];
	const char *word[ARGS + 1] = {"EVALSHA", sha, fake ? "2" : "1", "{p}"};
	int n = 4;
	if (fake)
		word[n++] = "{p}clock";
	word[n++] = call->id;
	word[n++] = call->who;
	uint64_t values[5 + 5 * POOL_LIMITS] = {call->seq, call->lease_ms * 1000ULL, call->weight,
						call->leave, call->version};
	memcpy(values + 5, call->limits.rate, sizeof(call->limits.rate));
	memcpy(values + 5 + POOL_LIMITS, call->limits.capacity, sizeof(call->limits.capacity));
	memcpy(values + 5 + 2 * POOL_LIMITS, call->set, sizeof(call->set));
	memcpy(values + 5 + 3 * POOL_LIMITS, call->hold, sizeof(call->hold));
	memcpy(values + 5 + 4 * POOL_LIMITS, call->demand, sizeof(call->demand));
	for (unsigned i = 0; i < 5 + 5 * POOL_LIMITS; i++) {
		snprintf(number[i], sizeof(number[i]), "%llu", (unsigned long long)values[i]);
		word[n++] = number[i];
	}
	void *reply = NULL, *kept = NULL;
	redisAppendCommandArgv(c, n, word, NULL);
	if (fake) /* the key must not expire, by the real clock, while this machine is busy elsewhere */
		redisAppendCommand(c, "PERSIST {p}");
	redisGetReply(c, &reply);
	if (fake)
		redisGetReply(c, &kept);
	redisReply *r = need(c, reply);
	freeReplyObject(kept);
	if (r->type != REDIS_REPLY_ARRAY || r->elements != 5 + 3 * POOL_LIMITS)
		die("answer", "wrong shape");
	memset(out, 0, sizeof(*out));
	out->seq = call->seq;
	out->status = (enum pool_status)atoi(r->element[0]->str);
	out->members = (uint32_t)atoi(r->element[1]->str);
	out->wants_more = atoi(r->element[2]->str);
	out->version = strtoull(r->element[3]->str, NULL, 10);
	snprintf(out->who, sizeof(out->who), "%s", r->element[4]->str);
	for (unsigned k = 0; k < POOL_LIMITS; k++) {
		out->limits.rate[k] = strtoull(r->element[5 + 3 * k]->str, NULL, 10);
		out->limits.capacity[k] = strtoull(r->element[6 + 3 * k]->str, NULL, 10);
		out->grant[k] = strtoull(r->element[7 + 3 * k]->str, NULL, 10);
	}
	freeReplyObject(r);
}

static uint64_t any_rate(void)
{
	return below(4) == 0 ? 0 : below(1ULL << (1 + below(51)));
}

static void show(const char *who, const struct pool_answer *a)
{
	fprintf(stderr, "%s: status %d members %u more %d version %llu by %s\n", who, a->status,
		a->members, a->wants_more, (unsigned long long)a->version, a->who);
	for (unsigned k = 0; k < POOL_LIMITS; k++)
		fprintf(stderr, "  rate %llu capacity %llu grant %llu\n",
			(unsigned long long)a->limits.rate[k],
			(unsigned long long)a->limits.capacity[k], (unsigned long long)a->grant[k]);
}

static bool equal(const struct pool_answer *a, const struct pool_answer *b)
{
	return a->status == b->status && a->members == b->members &&
	       a->wants_more == b->wants_more && a->version == b->version &&
	       strcmp(a->who, b->who) == 0 &&
	       memcmp(&a->limits, &b->limits, sizeof(a->limits)) == 0 &&
	       memcmp(a->grant, b->grant, sizeof(a->grant)) == 0;
}

static int compare(redisContext *c, const char *path, unsigned calls)
{
	static uint64_t seq[MEMBERS], held[MEMBERS][POOL_LIMITS];
	struct pool_server s;
	char sha[41];
	int64_t now_us = 1700000000000000;
	unsigned status[4] = {0};
	load(c, path, sha);
	freeReplyObject(need(c, redisCommand(c, "FLUSHALL")));
	pool_server_init(&s);
	for (unsigned i = 0; i < calls; i++) {
		unsigned m = (unsigned)below(i % 1000 < 500 ? 5 : MEMBERS);
		struct pool_call call = {.seq = below(20) ? ++seq[m] : seq[m],
					 .weight = 1 + (uint32_t)below(4),
					 .lease_ms = below(8) ? 500 : 1000,
					 .leave = below(50) == 0,
					 .version = s.version + below(1000) / 998};
		bool sets = below(100) == 0;
		struct pool_answer here, there;
		bool doubtful = below(2000) == 0;
		snprintf(call.id, sizeof(call.id), "member%u", m);
		snprintf(call.who, sizeof(call.who), "host%u", m);
		for (unsigned k = 0; k < POOL_LIMITS; k++) {
			call.limits.rate[k] = any_rate();
			call.limits.capacity[k] = 1 + below(1000000);
			call.set[k] = sets && call.seq > 2 && below(2) ? call.seq - below(3) : 0;
			call.demand[k] = below(3) ? POOL_DEMAND_ALL : any_rate();
			call.hold[k] = held[m][k];
		}
		now_us += (int64_t)below(below(2000) ? 8000 : below(5) ? 800000 : 30000000);
		if (below(2000) == 0)
			now_us -= (int64_t)below(5000000);
		freeReplyObject(need(c, redisCommand(c, "SET {p}clock %lld", (long long)now_us)));
		if (below(3000) == 0) { /* the data is lost */
			freeReplyObject(need(c, redisCommand(c, "DEL {p}")));
			pool_server_free(&s);
		}
		if (doubtful && s.last_us)
			freeReplyObject(need(c, redisCommand(c, "HSET {p} r another")));
		pool_serve(&s, &call, now_us, doubtful && s.last_us, &here);
		ask(c, sha, true, &call, &there);
		status[here.status]++;
		if (!equal(&here, &there)) {
			fprintf(stderr, "poolcheck: call %u of member %u, seq %llu\n", i, m,
				(unsigned long long)call.seq);
			show("memory", &here);
			show("script", &there);
			return 1;
		}
		memcpy(held[m], here.grant, sizeof(here.grant));
	}
	printf("%u calls: %u granted, %u learning, %u stale\n", calls, status[0], status[1],
	       status[2]);
	pool_server_free(&s);
	return 0;
}

/* As many members as a pool can have die, and another one joins. */
static int compare_full(redisContext *c, const char *path)
{
	struct pool_server s;
	struct pool_answer here, there;
	char sha[41];
	load(c, path, sha);
	freeReplyObject(need(c, redisCommand(c, "FLUSHALL")));
	pool_server_init(&s);
	for (unsigned i = 0; i < POOL_MEMBERS_MAX + 3; i++) {
		struct pool_call call = {.seq = 1, .weight = 1, .lease_ms = 500, .who = "host"};
		bool late = i > POOL_MEMBERS_MAX;
		call.limits.rate[0] = call.demand[0] = 1000000;
		snprintf(call.id, sizeof(call.id), "%u", i);
		int64_t now_us = 1700000000000000 + i + (late ? 2000000 : 0);
		freeReplyObject(need(c, redisCommand(c, "SET {p}clock %lld", (long long)now_us)));
		pool_serve(&s, &call, now_us, false, &here);
		ask(c, sha, true, &call, &there);
		if (!equal(&here, &there) ||
		    (here.status == POOL_FULL) != (i == POOL_MEMBERS_MAX)) {
			fprintf(stderr, "poolcheck: member %u of a full pool\n", i);
			show("memory", &here);
			show("script", &there);
			return 1;
		}
	}
	printf("a full pool: %u members after all others have died\n", here.members);
	pool_server_free(&s);
	return 0;
}

/* --- hostile --- */

/* Whether the helper answers one call. */
static bool answers(const char *path, const struct pool_local_call *call)
{
	struct sockaddr_un a = {.sun_family = AF_UNIX};
	struct pool_local_hello hello;
	struct pool_answer answer;
	snprintf(a.sun_path, sizeof(a.sun_path), "%s", path);
	int fd = socket(AF_UNIX, SOCK_SEQPACKET, 0);
	if (fd < 0 || connect(fd, (struct sockaddr *)&a, sizeof(a)) < 0 ||
	    recv(fd, &hello, sizeof(hello), 0) != sizeof(hello) || hello.full)
		die(path, "no helper serves it");
	bool sent = send(fd, call, sizeof(*call), MSG_NOSIGNAL) == sizeof(*call);
	bool got = sent && recv(fd, &answer, sizeof(answer), 0) == sizeof(answer);
	close(fd);
	return got;
}

static int hostile(const char *path, const char *key)
{
	struct pool_local_call good = {
		.call = {.id = "0123", .who = "host", .seq = 1, .lease_ms = 500, .weight = 1}};
	snprintf(good.key, sizeof(good.key), "%s", key);
	struct pool_local_call bad[7];
	for (unsigned i = 0; i < 7; i++)
		bad[i] = good;
	memset(bad[0].key, 'k', sizeof(bad[0].key));
	memset(bad[1].call.id, 'i', sizeof(bad[1].call.id));
	snprintf(bad[2].call.who, sizeof(bad[2].call.who), "\033[31m\377");
	memset(&bad[3].call.leave, 255, 1);
	bad[4].call.version = POOL_VERSION_MAX + 1;
	bad[5].call.weight = UINT32_MAX;
	bad[6].call.limits.rate[4] = 1;
	bad[6].call.set[4] = 1;
	for (unsigned i = 0; i < 7; i++)
		if (answers(path, &bad[i])) {
			fprintf(stderr, "poolcheck: call %u was answered\n", i);
			return 1;
		}
	good.call.leave = true;
	return answers(path, &good) ? 0 : 1;
}

static double seconds(void)
{
	struct timespec ts;
	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

static int by_time(const void *a, const void *b)
{
	double d = *(const double *)a - *(const double *)b;
	return (d > 0) - (d < 0);
}

/* Call number n of many members, one after the other. */
static struct pool_call ordinary_call(size_t n, unsigned members, const uint64_t *hold)
{
	unsigned m = (unsigned)(n % members);
	struct pool_call call = {.seq = n + 1, .weight = 1, .lease_ms = 500};
	snprintf(call.id, sizeof(call.id), "%032u", m);
	snprintf(call.who, sizeof(call.who), "host%u", m);
	call.limits.rate[4] = 1000000000ULL * POOL_MILLI;
	call.limits.capacity[4] = 100000000;
	call.demand[4] = m % 3 ? POOL_DEMAND_ALL : 1000000;
	call.hold[4] = hold[m];
	return call;
}

static int fill(redisContext *c, const char *path, unsigned members)
{
	char sha[41];
	load(c, path, sha);
	freeReplyObject(need(c, redisCommand(c, "DEL {p}")));
	uint64_t *hold = calloc(members, sizeof(*hold));
	if (!hold)
		die("memory", "out of it");
	for (size_t n = 0; n < (size_t)5 * members;
	     n++) { /* a second; the first half is spent learning */
		long long now_us = 1700000000000000 + (long long)(n / members) * 200000;
		freeReplyObject(need(c, redisCommand(c, "SET {p}clock %lld", now_us)));
		struct pool_call call = ordinary_call(n, members, hold);
		struct pool_answer a;
		ask(c, sha, true, &call, &a);
		hold[n % members] = a.grant[4];
	}
	free(hold);
	return 0;
}

/* Each member calls twice per lease of half a second, the default; the round trips are timed. */
static int measure(redisContext *c, const char *path, unsigned members, double length)
{
	char sha[41];
	load(c, path, sha);
	freeReplyObject(need(c, redisCommand(c, "DEL {p}")));
	uint64_t *hold = calloc(members, sizeof(*hold));
	size_t room = (size_t)(4 * members * length) + 1, n = 0;
	double *took = calloc(room, sizeof(*took)), start = seconds();
	if (!hold || !took)
		die("memory", "out of it");
	for (; n < room; n++) {
		struct pool_call call = ordinary_call(n, members, hold);
		struct pool_answer a;
		double due = start + (double)n / (4.0 * members), now = seconds();
		if (now < due) {
			struct timespec nap = {.tv_nsec = (long)((due - now) * 1e9)};
			nanosleep(&nap, NULL);
		}
		double t = seconds();
		ask(c, sha, false, &call, &a);
		took[n] = seconds() - t;
		hold[n % members] = a.grant[4];
	}
	double all = seconds() - start;
	qsort(took, n, sizeof(*took), by_time);
	printf("{\"members\":%u,\"calls_per_s\":%.0f,\"p50_us\":%.0f,\"p99_us\":%.0f,\"max_us\":%.0f}\n",
	       members, (double)n / all, took[n / 2] * 1e6, took[n * 99 / 100] * 1e6,
	       took[n - 1] * 1e6);
	free(hold);
	free(took);
	return 0;
}

int main(int argc, char **argv)
{
	if (argc == 4 && strcmp(argv[1], "hostile") == 0)
		return hostile(argv[2], argv[3]);
	if (argc < 5)
		die("usage",
		    "poolcheck compare|fill|load SOCKET SCRIPT CALLS|MEMBERS [SEED|SECONDS]");
	redisContext *c = redisConnectUnix(argv[2]);
	if (!c || c->err)
		die(argv[2], c ? c->errstr : "out of memory");
	unsigned n = (unsigned)atoi(argv[4]);
	if (strcmp(argv[1], "fill") == 0)
		return fill(c, argv[3], n);
	if (strcmp(argv[1], "load") == 0)
		return measure(c, argv[3], n, argc > 5 ? atof(argv[5]) : 5);
	if (argc > 5 && atoll(argv[5]))
		seed = (uint64_t)atoll(argv[5]);
	printf("seed %llu\n", (unsigned long long)seed);
	int rc = compare(c, argv[3], n) || compare_full(c, argv[3]);
	redisFree(c);
	return rc;
}
