/* SPDX-License-Identifier: MIT */
/* Load with a known shape, and what became of it as JSON: the client side of the tests and benches
 * of fairness, accuracy and latency.
 *
 *	iogen --op read --size 64K --clients 8 --skip 1 --time 10 --path /mnt/slow/file
 *
 * Every client counts only operations that end inside the measured window [skip, skip + time), so
 * that bytes / window is the achieved rate. */
#define _GNU_SOURCE
#include <errno.h>
#include <getopt.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "iogen.h"

static const struct option long_options[] = {
	{"op", required_argument, NULL, 'o'},	    {"path", required_argument, NULL, 'p'},
	{"size", required_argument, NULL, 's'},	    {"file-size", required_argument, NULL, 'f'},
	{"clients", required_argument, NULL, 'c'},  {"threads", no_argument, NULL, 'T'},
	{"uids", required_argument, NULL, 'u'},	    {"count", required_argument, NULL, 'n'},
	{"bytes", required_argument, NULL, 'b'},    {"time", required_argument, NULL, 't'},
	{"skip", required_argument, NULL, 'k'},	    {"forever", no_argument, NULL, 'F'},
	{"interval", required_argument, NULL, 'i'}, {"light", required_argument, NULL, 'l'},
	{"nonblock", no_argument, NULL, 'N'},	    {"poll", no_argument, NULL, 'P'},
	{"random", no_argument, NULL, 'R'},	    {"mix", no_argument, NULL, 'M'},
	{"direct", no_argument, NULL, 'D'},	    {"append", no_argument, NULL, 'A'},
	{"sync", no_argument, NULL, 'S'},	    {"shared", no_argument, NULL, 'H'},
	{"ready", required_argument, NULL, 'r'},    {"seed", required_argument, NULL, 'e'},
	{"help", no_argument, NULL, 'h'},	    {NULL, 0, NULL, 0},
};

static const char help_text[] =
	"usage: iogen --op OP --path PATH [options]\n"
	"OP: read write stat open mkdir (mkdir+rmdir) create (create+unlink) readdir getxattr fsync\n"
	"    statfs fstat rename\n"
	"\n"
	"  --path PATH       file to work on; several clients that write use PATH.0, PATH.1, …\n"
	"  --shared          all clients use the same file\n"
	"  --size S[,S…]     bytes per operation (4K, 1M); several: client i takes the i-th, in turn\n"
	"  --mix             each client draws from all sizes at random\n"
	"  --file-size S     writers go round in this much (default 64M); readers: what the file has\n"
	"  --random          random offsets instead of one after the other\n"
	"  --clients N       default 1; processes, or threads with --threads\n"
	"  --uids U[,U…]     client i runs as the i-th uid (and gid), in turn\n"
	"  --light N         the last N clients are light: one --interval'ed 4 KiB operation at a time\n"
	"  --interval SEC    of light clients (default 0.1), or of all when there is no --light\n"
	"  --count N         operations per client        --bytes S   bytes per client\n"
	"  --time SEC        measured time                --skip SEC  not counted before it\n"
	"  --forever         until killed\n"
	"  --nonblock        O_NONBLOCK: EAGAIN is counted, then tried again after 1 ms\n"
	"  --poll            with --nonblock: poll(2) instead of trying again after 1 ms\n"
	"  --direct, --sync, --append   O_DIRECT, O_SYNC, O_APPEND\n"
	"  --ready FILE      is created when every client has entered its first operation\n"
	"  --seed N          of --random and --mix\n"
	"\n"
	"Answer (stdout): {\"window_s\", \"began_ns\", \"total\": {ops, bytes, ops_per_s, bytes_per_s, errors, eagain,\n"
	"short, lat_us: {min,p50,p90,p99,max,mean}}, \"jain\", \"clients\": [{id, uid, size, …}]}\n"
	"jain: fairness over the heavy clients' bytes (ops where no bytes move).  Exit 1: an operation\n"
	"failed with something else than EAGAIN.\n";

static void die(const char *what, const char *arg)
{
	fprintf(stderr, "iogen: %s%s%s\n", what, arg ? ": " : "", arg ? arg : "");
	exit(2);
}

static uint64_t size_of(const char *text, char **end)
{
	double v = strtod(text, end);
	switch (**end) {
	case 'k':
	case 'K':
		v *= 1024;
		break;
	case 'm':
	case 'M':
		v *= 1048576;
		break;
	case 'g':
	case 'G':
		v *= 1073741824.0;
		break;
	default:
		return (uint64_t)v;
	}
	(*end)++;
	return (uint64_t)v;
}

static uint64_t parse_size(const char *text)
{
	char *end;
	uint64_t v = size_of(text, &end);
	if (*end || end == text)
		die("not a size", text);
	return v;
}

static unsigned parse_list(const char *text, uint64_t *out, unsigned max)
{
	unsigned n = 0;
	char *end;
	for (const char *p = text; *p; p = *end ? end + 1 : end) {
		if (n == max)
			die("too many in the list", text);
		out[n++] = size_of(p, &end);
		if (end == p || (*end && *end != ','))
			die("not a list", text);
	}
	return n;
}

static bool parse_shape(struct plan *p, int c, const char *arg)
{
	switch (c) {
	case 'o':
		p->op = op_by_name(arg);
		return p->op || (die("unknown operation", arg), false);
	case 'p':
		p->path = arg;
		return true;
	case 's':
		p->n_sizes = parse_list(arg, p->sizes, MAX_LIST);
		return true;
	case 'f':
		p->file_size = parse_size(arg);
		return true;
	case 'c':
		p->clients = (unsigned)parse_size(arg);
		return true;
	case 'u':
		p->n_uids = parse_list(arg, p->uids, MAX_LIST);
		return true;
	case 'l':
		p->light = (unsigned)parse_size(arg);
		return true;
	case 'n':
		p->count = parse_size(arg);
		return true;
	case 'b':
		p->bytes = parse_size(arg);
		return true;
	case 't':
		p->time_s = atof(arg);
		return true;
	case 'k':
		p->skip_s = atof(arg);
		return true;
	case 'i':
		p->interval_s = atof(arg);
		return true;
	case 'r':
		p->ready = arg;
		return true;
	case 'e':
		p->seed = parse_size(arg);
		return true;
	default:
		return false;
	}
}

static void parse(struct plan *p, int argc, char **argv)
{
	*p = (struct plan){.sizes = {65536},
			   .n_sizes = 1,
			   .clients = 1,
			   .file_size = 64 << 20,
			   .interval_s = 0,
			   .seed = 1};
	for (int c; (c = getopt_long(argc, argv, "h", long_options, NULL)) != -1;) {
		if (parse_shape(p, c, optarg))
			continue;
		switch (c) {
		case 'T':
			p->threads = true;
			break;
		case 'F':
			p->forever = true;
			break;
		case 'N':
			p->nonblock = true;
			break;
		case 'P':
			p->poll = true;
			break;
		case 'R':
			p->random = true;
			break;
		case 'M':
			p->mix = true;
			break;
		case 'D':
			p->direct = true;
			break;
		case 'A':
			p->append = true;
			break;
		case 'S':
			p->sync = true;
			break;
		case 'H':
			p->shared = true;
			break;
		case 'h':
			fputs(help_text, stdout);
			exit(0);
		default:
			exit(2);
		}
	}
	if (!p->op || !p->path || optind != argc)
		die("--op and --path are needed; see --help", NULL);
	if (!p->forever && !p->count && !p->bytes && p->time_s <= 0)
		die("say how long: --count, --bytes, --time or --forever", NULL);
	if (p->light && p->interval_s == 0)
		p->interval_s = 0.1;
	if (p->light > p->clients || !p->clients || !p->n_sizes)
		die("--clients, --light or --size make no sense", NULL);
}

struct thread_arg {
	const struct plan *plan;
	struct shared *sh;
	unsigned id;
};

static void *client_thread(void *arg)
{
	struct thread_arg *a = arg;
	client_run(a->plan, a->sh, a->id);
	return NULL;
}

static void start_threads(const struct plan *p, struct shared *sh)
{
	struct thread_arg *args = calloc(p->clients, sizeof(*args));
	pthread_t *tids = calloc(p->clients, sizeof(*tids));
	pthread_attr_t attr;
	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, 128 << 10);
	for (unsigned i = 0; i < p->clients; i++) {
		args[i] = (struct thread_arg){p, sh, i};
		if (pthread_create(&tids[i], &attr, client_thread, &args[i]))
			die("too many threads", NULL);
	}
	shared_go(p, sh);
	for (unsigned i = 0; i < p->clients; i++)
		pthread_join(tids[i], NULL);
	free(args);
	free(tids);
}

static pid_t *children;
static unsigned n_children;

static void kill_children(int sig)
{
	for (unsigned i = 0; i < n_children; i++)
		kill(children[i], SIGKILL);
	_exit(128 + sig);
}

static void start_processes(const struct plan *p, struct shared *sh)
{
	children = calloc(p->clients, sizeof(*children));
	signal(SIGTERM, kill_children);
	signal(SIGINT, kill_children);
	for (unsigned i = 0; i < p->clients; i++) {
		pid_t pid = fork();
		if (pid < 0)
			die("fork", strerror(errno));
		if (pid == 0) {
			signal(SIGTERM, SIG_DFL);
			signal(SIGINT, SIG_DFL);
			client_run(p, sh, i);
			_exit(0);
		}
		children[n_children++] = pid;
	}
	shared_go(p, sh);
	for (unsigned i = 0; i < n_children; i++) {
		int status;
		waitpid(children[i], &status, 0);
		if (status)
			sh->results[i].died = 1;
	}
}

int main(int argc, char **argv)
{
	struct plan plan;
	parse(&plan, argc, argv);
	size_t bytes = sizeof(struct shared) + plan.clients * sizeof(struct result);
	struct shared *sh =
		mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (sh == MAP_FAILED)
		die("no memory", NULL);
	sh->start_ns = UINT64_MAX;
	(plan.threads ? start_threads : start_processes)(&plan, sh);
	return report(&plan, sh);
}
