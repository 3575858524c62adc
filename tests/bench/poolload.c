/* SPDX-License-Identifier: MIT */
/* Load on the hosts of a pool, counted on one clock:
 *	poolload RATE SKIP SECONDS HOST...
 * RATE      bytes per second of the pool
 * SKIP      seconds before the measurement, in which the hosts find their shares and use up what they had saved
 * HOST      PATH=DEMAND: a file on the host's mount, or "gcra:SOCKET", which asks a script in Redis before each request
 * DEMAND    "all": two readers without a pause; a fraction of RATE, as 0.1: reads at that pace;
 *           "0-5,10-15": without a pause, but only in these seconds from the start
 * Answer    one line of JSON: the sum and how far it is off the rate, the most and the least in any second, the rates
 *           of the hosts, and for each end of an interval, how long it took until the others used 95 % of the rate. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <hiredis/hiredis.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define BLOCK	  16384
#define SLOT_NS	  10000000LL
#define SLOTS	  12000
#define HOSTS	  32
#define READERS	  2
#define INTERVALS 8
#define SECOND	  1000000000LL

struct host {
	const char *path;
	double fraction; /* 0: as much as possible */
	unsigned n;
	double from[INTERVALS], to[INTERVALS];
	_Atomic uint64_t bytes[SLOTS], calls;
};

static struct host host[HOSTS];
static unsigned hosts;
static double rate, skip, length;
static int64_t start_ns, end_ns;

/* The generic cell rate algorithm; answers how many µs to wait before the next attempt, 0: admitted. */
static const char gcra[] =
	"local t = redis.call('TIME') local now = t[1] * 1e6 + t[2] "
	"local tat = tonumber(redis.call('GET', KEYS[1]) or now) if tat < now then tat = now end "
	"if tat - now > tonumber(ARGV[2]) then return math.ceil(tat - now - ARGV[2]) end "
	"redis.call('SET', KEYS[1], string.format('%.3f', tat + ARGV[1])) return 0";

static void die(const char *what)
{
	fprintf(stderr, "poolload: %s\n", what);
	exit(2);
}

static int64_t now_ns(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * SECOND + t.tv_nsec;
}

static void sleep_until(int64_t ns)
{
	struct timespec t = {ns / SECOND, ns % SECOND};
	while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL))
		;
}

/* When the host may read again: now_ns in its intervals. */
static int64_t next_turn(const struct host *h, int64_t now)
{
	double at = (double)(now - start_ns) / SECOND;
	if (!h->n)
		return now;
	for (unsigned i = 0; i < h->n; i++)
		if (at < h->to[i])
			return at < h->from[i] ? start_ns + (int64_t)(h->from[i] * SECOND) : now;
	return end_ns;
}

static void ask_script(struct host *h, redisContext *c)
{
	for (;;) {
		redisReply *r =
			redisCommand(c, "EVAL %s 1 gcra %f %d", gcra, BLOCK * 1e6 / rate, 100000);
		if (!r || r->type != REDIS_REPLY_INTEGER)
			die("the script failed");
		long long wait_us = r->integer;
		freeReplyObject(r);
		atomic_fetch_add(&h->calls, 1);
		if (!wait_us || now_ns() > end_ns)
			return;
		sleep_until(now_ns() + wait_us * 1000);
	}
}

static void *reader(void *arg)
{
	struct host *h = arg;
	static _Thread_local char buf[BLOCK];
	bool script = strncmp(h->path, "gcra:", 5) == 0;
	redisContext *c = script ? redisConnectUnix(h->path + 5) : NULL;
	int fd = script ? -1 : open(h->path, O_RDONLY | O_CLOEXEC);
	if (script ? !c || c->err : fd < 0)
		die(h->path);
	int64_t gap =
		h->fraction > 0 ? (int64_t)(READERS * BLOCK / (h->fraction * rate) * SECOND) : 0;
	off_t at = 0;
	for (int64_t next = start_ns, now; (now = now_ns()) < end_ns; next += gap) {
		int64_t turn = next_turn(h, now);
		sleep_until(gap && next > turn ? next : turn);
		if (now_ns() >= end_ns)
			break;
		if (script)
			ask_script(h, c);
		else if (pread(fd, buf, BLOCK, at) != BLOCK)
			die("a read failed");
		at = (at + BLOCK) % (16 << 20);
		atomic_fetch_add(&h->bytes[(now_ns() - start_ns) / SLOT_NS % SLOTS], BLOCK);
	}
	return NULL;
}

/* --- results --- */

/* Bytes per second of a host, or of all, from one second on. */
static double rate_of(const struct host *h, double from, double to)
{
	uint64_t sum = 0;
	for (unsigned i = 0; i < hosts; i++)
		for (int64_t s = (int64_t)(from * 100);
		     s < (int64_t)(to * 100) && (!h || h == &host[i]); s++)
			sum += atomic_load(&host[i].bytes[s]);
	return (double)sum / (to - from);
}

static void print_seconds(void)
{
	double most = 0, least = 1e18;
	for (double t = skip; t + 1 <= skip + length; t += 0.01) {
		double r = rate_of(NULL, t, t + 1);
		most = r > most ? r : most;
		least = r < least ? r : least;
	}
	printf("\"most_in_a_second\":%.4f,\"least_in_a_second\":%.4f", most / rate, least / rate);
}

static void print_handovers(void)
{
	const char *comma = "";
	printf(",\"handover_s\":[");
	for (unsigned i = 0; i < hosts; i++)
		for (unsigned k = 0; k < host[i].n; k++) {
			double t = host[i].to[k];
			if (t < skip || t + 1 > skip + length)
				continue;
			while (t + 0.2 < skip + length && rate_of(NULL, t, t + 0.2) < 0.95 * rate)
				t += 0.01;
			printf("%s%.2f", comma, t - host[i].to[k]);
			comma = ",";
		}
	printf("]");
}

static void print_results(void)
{
	double sum = rate_of(NULL, skip, skip + length);
	uint64_t calls = 0;
	printf("{\"rate\":%.0f,\"sum\":%.0f,\"off_percent\":%.3f,", rate, sum,
	       (sum / rate - 1) * 100);
	print_seconds();
	print_handovers();
	printf(",\"hosts\":[");
	for (unsigned i = 0; i < hosts; i++) {
		printf("%s%.0f", i ? "," : "", rate_of(&host[i], skip, skip + length));
		calls += atomic_load(&host[i].calls);
	}
	printf("],\"calls_per_s\":%.1f}\n", (double)calls / (skip + length));
}

static void parse_demand(struct host *h, const char *text)
{
	if (strcmp(text, "all") == 0)
		return;
	if (!strchr(text, '-')) {
		h->fraction = strtod(text, NULL);
		return;
	}
	for (const char *at = text; at && h->n < INTERVALS;
	     at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL)
		if (sscanf(at, "%lf-%lf", &h->from[h->n], &h->to[h->n]) == 2)
			h->n++;
}

int main(int argc, char **argv)
{
	pthread_t thread[HOSTS * READERS];
	if (argc < 5 || argc - 4 > HOSTS)
		die("usage: poolload RATE SKIP SECONDS PATH=DEMAND...");
	rate = strtod(argv[1], NULL);
	skip = strtod(argv[2], NULL);
	length = strtod(argv[3], NULL);
	start_ns = now_ns() + SECOND / 10;
	end_ns = start_ns + (int64_t)((skip + length) * SECOND);
	if (rate <= 0 || skip + length > SLOTS / 100 - 1)
		die("such a rate or time is not possible");
	for (int i = 4; i < argc; i++, hosts++) {
		char *equals = strrchr(argv[i], '=');
		if (!equals)
			die(argv[i]);
		*equals = '\0';
		host[hosts].path = argv[i];
		parse_demand(&host[hosts], equals + 1);
	}
	for (unsigned i = 0; i < hosts * READERS; i++)
		if (pthread_create(&thread[i], NULL, reader, &host[i / READERS]))
			die("no thread");
	for (unsigned i = 0; i < hosts * READERS; i++)
		pthread_join(thread[i], NULL);
	print_results();
	return 0;
}
