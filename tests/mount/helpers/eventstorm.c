/* SPDX-License-Identifier: MIT */
/* A storm of events: threads whose requests are refused as fast as they can ask, a daemon's control socket, a subscriber that
 * reads, and one that never does.  Everything is the daemon's own code but the mount, so that the kernel does
 * not slow the requests down.
 *
 *	eventstorm SOCKET		prints one line of JSON
 *
 * Rounds with and without the deaf subscriber take turns, so that their speed can be compared. */
#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/log.h"
#include "base/monotonic.h"
#include "base/util.h"
#include "daemon/control.h"
#include "daemon/registry.h"
#include "sched/gate.h"

#define PRODUCERS 2
#define ROUNDS	  10	 /* of each kind */
#define PER_ROUND 200000 /* requests of each producer */
#define QUIET	  1000	 /* events after the storm: few enough to be kept */

static struct registry registry;
static struct control control;
static struct loop loop;
static struct gate_mount *mount;
static const char *path;

static void die(const char *what)
{
	fprintf(stderr, "eventstorm: %s: %s\n", what, strerror(errno));
	exit(1);
}

/* --- requests ------------------------------------------------------------------------------- */

static void *produce(void *arg)
{
	const struct cost cost = {.cls = COST_READ, .ops = 1, .bytes = 4096};
	const struct caller me = {.tid = (uint32_t)syscall(SYS_gettid), .uid = getuid()};
	struct grant grant;
	for (unsigned n = *(const unsigned *)arg; n; n--)
		if (gate_try(mount, &cost, &me, &grant) != GATE_FULL)
			die("a request was not refused");
	return NULL;
}

/* Nanoseconds per request. */
static double storm(unsigned n)
{
	pthread_t thread[PRODUCERS];
	uint64_t begin_ns = monotonic_ns();
	for (unsigned i = 0; i < PRODUCERS; i++)
		if (pthread_create(&thread[i], NULL, produce, &n))
			die("thread");
	for (unsigned i = 0; i < PRODUCERS; i++)
		pthread_join(thread[i], NULL);
	return (double)(monotonic_ns() - begin_ns) / n / PRODUCERS;
}

/* --- subscribers ---------------------------------------------------------------------------- */

struct subscriber {
	FILE *in;
	_Atomic bool reads;
	_Atomic uint64_t got, dropped;
	pthread_t thread;
};

static void subscribe(struct subscriber *s)
{
	static const char request[] = "{\"v\":1,\"do\":\"subscribe\"}\n";
	struct sockaddr_un a = {.sun_family = AF_UNIX};
	char line[256];
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	snprintf(a.sun_path, sizeof(a.sun_path), "%s", path);
	if (fd < 0 || connect(fd, (struct sockaddr *)&a, sizeof(a)) < 0 ||
	    send(fd, request, strlen(request), 0) < 0)
		die("subscribe");
	s->in = fdopen(fd, "r");
	if (!s->in || !fgets(line, sizeof(line), s->in) || !strstr(line, "\"ok\":true"))
		die("subscribe");
}

static void *listen_to(void *arg)
{
	struct subscriber *s = arg;
	char line[1024];
	while (!s->reads)
		usleep(1000);
	while (fgets(line, sizeof(line), s->in)) {
		const char *count = strstr(line, "\"event\":\"dropped\",\"count\":");
		if (count)
			s->dropped += strtoull(strrchr(count, ':') + 1, NULL, 10);
		else
			s->got++;
	}
	return NULL;
}

static void begin(struct subscriber *s, bool reads)
{
	memset(s, 0, sizeof(*s));
	s->reads = reads;
	subscribe(s);
	if (pthread_create(&s->thread, NULL, listen_to, s))
		die("thread");
}

/* Waits until nothing is missing. */
static void expect(struct subscriber *s, uint64_t events)
{
	uint64_t end_ns = monotonic_ns() + 30 * NSEC_PER_SEC;
	while (s->got + s->dropped != events && monotonic_ns() < end_ns)
		usleep(1000);
}

static void end(struct subscriber *s)
{
	shutdown(fileno(s->in), SHUT_RDWR);
	pthread_join(s->thread, NULL);
	fclose(s->in);
}

/* --- the daemon ----------------------------------------------------------------------------- */

static void nothing(void *ctx)
{
}

static void *serve_clients(void *arg)
{
	loop_run(&loop);
	return NULL;
}

static void start(void)
{
	static char name[] = "storm", source[] = "/";
	struct configuration c = {0};
	struct settings fs;
	struct error err = ERROR_INIT;
	struct gate_mount_config cfg = {.fair = FAIR_PROCESS, .full_rejects = true};
	const struct caller me = {.tid = (uint32_t)getpid()};
	const struct cost cost = {.cls = COST_READ, .ops = 1};
	static struct grant held;
	pthread_t main_thread;
	settings_init(&c.global);
	settings_init(&fs);
	c.global.control = (char *)path;
	fs.name = name;
	fs.source = source;
	cfg.limits.max_inflight = 1;
	registry_clear(&registry);
	if (loop_init(&loop) < 0 || control_open(&control, &c.global, name, &err) < 0 ||
	    registry_init(&registry, &c, false, &err) < 0 ||
	    control_serve(&control, &loop, &registry, nothing, NULL) < 0)
		die(err.text);
	struct served_fs *served = registry_add_fs(&registry, &fs, false);
	struct served_mount *m = registry_add_mount(&registry, &fs);
	if (!served || !m || !(mount = gate_mount_new(served->gate, name, &cfg)))
		die("mount");
	m->gate_mount = mount;
	if (gate_try(mount, &cost, &me, &held) != GATE_GO) /* from now on it is full */
		die("the first request was refused");
	if (pthread_create(&main_thread, NULL, serve_clients, NULL))
		die("thread");
}

static uint64_t resident_kib(void)
{
	unsigned long pages = 0;
	FILE *f = fopen("/proc/self/statm", "re");
	if (!f || fscanf(f, "%*u %lu", &pages) != 1)
		die("statm");
	fclose(f);
	return pages * (uint64_t)sysconf(_SC_PAGESIZE) / 1024;
}

static int by_size(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;
	return (x > y) - (x < y);
}

static double median(double *ns)
{
	qsort(ns, ROUNDS, sizeof(*ns), by_size);
	return (ns[ROUNDS / 2 - 1] + ns[ROUNDS / 2]) / 2;
}

int main(int argc, char **argv)
{
	static struct subscriber reader, deaf;
	double with[ROUNDS], without[ROUNDS], nobody[ROUNDS];
	uint64_t events = 0, deaf_events = 0, deaf_got = 0, deaf_dropped = 0, missing = 0;
	if (argc != 2)
		return 2;
	path = argv[1];
	log_set_level(LOG_LEVEL_ERROR);
	start();
	for (unsigned i = 0; i < ROUNDS; i++)
		nobody[i] = storm(PER_ROUND / 10);
	begin(&reader, true);
	storm(PER_ROUND); /* memory that threads keep has been allocated */
	events += PRODUCERS * PER_ROUND;
	uint64_t before_kib = resident_kib(), most_kib = 0;
	for (unsigned i = 0; i < ROUNDS; i++) {
		without[i] = storm(PER_ROUND);
		events += PRODUCERS * PER_ROUND;
		expect(&reader, events); /* the other one gets none of these */
		begin(&deaf, false);
		with[i] = storm(PER_ROUND);
		events += PRODUCERS * PER_ROUND;
		deaf_events += PRODUCERS * PER_ROUND;
		most_kib = resident_kib() > most_kib ? resident_kib() : most_kib;
		expect(&reader, events);
		if (i < ROUNDS - 1) {
			deaf.reads = true;
			expect(&deaf, PRODUCERS * PER_ROUND);
			deaf_got += deaf.got;
			deaf_dropped += deaf.dropped;
			end(&deaf);
		}
	}
	uint64_t got = reader.got, dropped = reader.dropped;
	storm(QUIET / PRODUCERS); /* the deaf one is still there */
	events += QUIET;
	expect(&reader, events);
	uint64_t quiet_got = reader.got - got, quiet_dropped = reader.dropped - dropped;
	deaf.reads = true;
	deaf_events += QUIET;
	expect(&deaf, PRODUCERS * PER_ROUND + QUIET);
	deaf_got += deaf.got;
	deaf_dropped += deaf.dropped;
	missing = events - reader.got - reader.dropped;
	printf("{\"per_second\":%.0f,\"ns\":{\"nobody\":%.0f,\"reader\":%.0f,\"reader_and_deaf\":%.0f},"
	       "\"events\":%" PRIu64 ",\"reader\":{\"got\":%" PRIu64 ",\"dropped\":%" PRIu64
	       ",\"missing\":%" PRId64 "},\"quiet\":{\"events\":%d,\"got\":%" PRIu64
	       ",\"dropped\":%" PRIu64 "},\"deaf\":{\"events\":%" PRIu64 ",\"got\":%" PRIu64
	       ",\"dropped\":%" PRIu64 "},\"grown_kib\":%" PRIu64 "}\n",
	       1e9 / median(with), median(nobody), median(without), median(with), events,
	       (uint64_t)reader.got, (uint64_t)reader.dropped, (int64_t)missing, QUIET, quiet_got,
	       quiet_dropped, deaf_events, deaf_got, deaf_dropped,
	       most_kib > before_kib ? most_kib - before_kib : 0);
	unlink(path);
	return 0;
}
