/* SPDX-License-Identifier: MIT */
/* ratefs-exporter: metrics of running ratefs daemons for Prometheus, over HTTP. */
#include <getopt.h>
#include <microhttpd.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "base/list.h"
#include "base/monotonic.h"
#include "ctl/client.h"
#include "ctl/collect.h"
#include "ctl/listen.h"
#include "ctl/metrics.h"
#include "ctl/users.h"
#include "proto/proto.h"

#include "config.h"

#define LISTEN_DEFAULT	"127.0.0.1:9944"
#define USERS_MAX	100
#define KEYS_MAX	4096 /* fetched of each mount, to find its users */
#define CONNECTIONS_MAX 256
#define CONNECTIONS_USE 128 /* if there are more, the oldest is closed: a scrape takes no time */
#define CONNECTION_S	5   /* an idle client is disconnected after this time */
#define KEPT_NS		NSEC_PER_SEC /* daemons are asked at most so often, however many clients ask us */

struct exporter {
	struct collect_options from;
	struct metrics_options metrics;
	const char *listen;
	struct list clients; /* oldest first */
	unsigned n_clients;
	/* the last answer */
	char *text;
	size_t size;
	uint64_t at_ns;
};

/* --- one request ------------------------------------------------------------------------------ */

static enum MHD_Result reply(struct MHD_Connection *c, unsigned status, char *text, size_t size,
			     enum MHD_ResponseMemoryMode mode, const char *type)
{
	struct MHD_Response *r = MHD_create_response_from_buffer(size, text, mode);
	if (!r)
		return MHD_NO; /* closes the connection */
	MHD_add_response_header(r, MHD_HTTP_HEADER_CONTENT_TYPE, type);
	MHD_add_response_header(r, MHD_HTTP_HEADER_CONNECTION, "close");
	if (status == MHD_HTTP_METHOD_NOT_ALLOWED)
		MHD_add_response_header(r, MHD_HTTP_HEADER_ALLOW, "GET, HEAD");
	enum MHD_Result rc = MHD_queue_response(c, status, r);
	MHD_destroy_response(r);
	return rc;
}

static enum MHD_Result say(struct MHD_Connection *c, unsigned status, const char *text)
{
	return reply(c, status, (char *)text, strlen(text), MHD_RESPMEM_PERSISTENT,
		     *text == '<' ? "text/html; charset=utf-8" : "text/plain; charset=utf-8");
}

/* False: out of memory. */
static bool make_text(struct exporter *e)
{
	struct error err = ERROR_INIT;
	char *text = NULL;
	size_t size = 0;
	struct snapshot *s = collect(&e->from, &err);
	FILE *out = s ? open_memstream(&text, &size) : NULL;
	if (out)
		metrics_write(s, &e->metrics, out);
	snapshot_free(s);
	if (!out || fclose(out) != 0 || !text) {
		free(text);
		return false;
	}
	free(e->text);
	e->text = text;
	e->size = size;
	e->at_ns = monotonic_ns();
	return true;
}

/* MHD serves all clients with one thread. */
static enum MHD_Result reply_metrics(struct exporter *e, struct MHD_Connection *c)
{
	bool fresh = e->text && monotonic_ns() - e->at_ns < KEPT_NS;
	if (!fresh && !make_text(e))
		return say(c, MHD_HTTP_INTERNAL_SERVER_ERROR, "out of memory\n");
	return reply(c, MHD_HTTP_OK, e->text, e->size, MHD_RESPMEM_MUST_COPY,
		     "text/plain; version=0.0.4; charset=utf-8");
}

static enum MHD_Result handle(void *ctx, struct MHD_Connection *c, const char *url,
			      const char *method, const char *version, const char *data,
			      size_t *size, void **state)
{
	static char headers_seen;
	if (!*state) { /* only the headers are here; MHD calls again */
		*state = &headers_seen;
		return MHD_YES;
	}
	if (*size) { /* discards uploaded data */
		*size = 0;
		return MHD_YES;
	}
	if (strcmp(method, MHD_HTTP_METHOD_GET) != 0 && strcmp(method, MHD_HTTP_METHOD_HEAD) != 0)
		return say(c, MHD_HTTP_METHOD_NOT_ALLOWED, "only GET is served\n");
	if (strcmp(url, "/metrics") == 0)
		return reply_metrics(ctx, c);
	if (strcmp(url, "/") == 0)
		return say(c, MHD_HTTP_OK,
			   "<!DOCTYPE html><title>ratefs-exporter</title>"
			   "<p>ratefs-exporter: <a href=\"/metrics\">metrics</a></p>\n");
	return say(c, MHD_HTTP_NOT_FOUND, "there is only /metrics\n");
}

/* --- connections ------------------------------------------------------------------------------- */

struct client {
	struct list link;
	int fd;
};

/* MHD disconnects clients that are idle.  Those that send a byte now and then would use up all connections in the end, so
 * the oldest make room for new ones. */
static void on_connection(void *ctx, struct MHD_Connection *c, void **client,
			  enum MHD_ConnectionNotificationCode what)
{
	struct exporter *e = ctx;
	struct client *cl = *client;
	if (what == MHD_CONNECTION_NOTIFY_CLOSED && cl) {
		list_remove(&cl->link);
		e->n_clients--;
		free(cl);
	}
	if (what != MHD_CONNECTION_NOTIFY_STARTED)
		return;
	const union MHD_ConnectionInfo *fd =
		MHD_get_connection_info(c, MHD_CONNECTION_INFO_CONNECTION_FD);
	cl = *client = fd ? calloc(1, sizeof(*cl)) : NULL;
	if (!cl)
		return;
	cl->fd = fd->connect_fd;
	list_push_tail(&e->clients, &cl->link);
	const struct client *oldest = list_first(&e->clients, struct client, link);
	if (++e->n_clients > CONNECTIONS_USE && oldest)
		shutdown(oldest->fd, SHUT_RDWR);
}

/* --- the program ------------------------------------------------------------------------------- */

static int complain(const char *text, int status)
{
	fprintf(stderr, "ratefs-exporter: %s\n", text);
	return status;
}

static int serve(struct exporter *e)
{
	struct sockaddr_storage address;
	struct error err = ERROR_INIT;
	char where[LISTEN_TEXT_MAX];
	sigset_t ends;
	int sig;
	if (listen_parse(e->listen, &address, &err) < 0)
		return complain(err.text, 2);
	int fd = listen_open(&address, &err);
	if (fd < 0)
		return complain(err.text, 1);
	sigemptyset(&ends);
	sigaddset(&ends, SIGTERM);
	sigaddset(&ends, SIGINT);
	pthread_sigmask(SIG_BLOCK, &ends, NULL); /* before there are threads */
	signal(SIGPIPE, SIG_IGN);
	unsigned flags = MHD_USE_INTERNAL_POLLING_THREAD | MHD_USE_AUTO |
			 (address.ss_family == AF_INET6 ? MHD_USE_IPv6 : 0);
	struct MHD_Daemon *d = MHD_start_daemon(
		flags, 0, NULL, NULL, handle, e, MHD_OPTION_LISTEN_SOCKET, fd,
		MHD_OPTION_CONNECTION_LIMIT, (unsigned)CONNECTIONS_MAX,
		MHD_OPTION_NOTIFY_CONNECTION, on_connection, e, MHD_OPTION_CONNECTION_TIMEOUT,
		(unsigned)CONNECTION_S, MHD_OPTION_END);
	if (!d) {
		close(fd);
		return complain("cannot serve HTTP: out of memory or threads", 1);
	}
	if (!listen_is_local(&address))
		complain(
			"anybody who can connect to this address can read the names of mounts and users",
			0);
	printf("ratefs-exporter: serving metrics at http://%s/metrics\n",
	       listen_text(&address, where));
	fflush(stdout);
	sigwait(&ends, &sig);
	MHD_stop_daemon(d);
	free(e->text);
	return 0;
}

static void help(void)
{
	printf("usage: ratefs-exporter [OPTION...]\n\n"
	       "Serves metrics of running ratefs daemons to Prometheus, at /metrics.\n\n"
	       "  -l, --listen=ADDRESS:PORT  where to listen (default " LISTEN_DEFAULT ")\n"
	       "  -d, --daemon=PID|PATH      this daemon only (its process id or socket)\n"
	       "  -u, --users=N              export the N users per mount that waited most (default %d)\n"
	       "  -h, --help                 this text\n"
	       "  -V, --version              the version\n",
	       METRICS_USERS_DEFAULT);
}

static int misused(const char *before, const char *arg, const char *after)
{
	struct error err = ERROR_INIT;
	error_set(&err, "%s'%s'%s", before, arg, after);
	return complain(err.text, 2);
}

/* Of several letters after one '-', optind is still at that argument. */
static int unknown_flag(const char *arg)
{
	const char letter[] = {'-', (char)optopt, '\0'};
	return misused("unknown flag ", optopt && strncmp(arg, "--", 2) != 0 ? letter : arg,
		       "; see ratefs-exporter --help");
}

static int parse_users(const char *text, unsigned *users)
{
	char *end;
	unsigned long n = strtoul(text, &end, 10);
	if (*text < '0' || *text > '9' || *end || n > USERS_MAX)
		return misused("--users: ", text, " is not a number from 0 to 100");
	*users = (unsigned)n;
	return -1;
}

/* -1: continue; otherwise the exit status. */
static int parse(struct exporter *e, int argc, char **argv)
{
	static const struct option names[] = {
		{"listen", required_argument, NULL, 'l'}, {"daemon", required_argument, NULL, 'd'},
		{"users", required_argument, NULL, 'u'},  {"help", no_argument, NULL, 'h'},
		{"version", no_argument, NULL, 'V'},	  {NULL, 0, NULL, 0},
	};
	int flag, rc = -1;
	opterr = 0;
	while (rc < 0 && (flag = getopt_long(argc, argv, ":l:d:u:hV", names, NULL)) != -1) {
		switch (flag) {
		case 'l':
			e->listen = optarg;
			break;
		case 'd':
			e->from.which = optarg;
			break;
		case 'u':
			rc = parse_users(optarg, &e->metrics.users);
			break;
		case 'h':
			help();
			return 0;
		case 'V':
			printf("ratefs-exporter %s\n", PACKAGE_VERSION);
			return 0;
		case ':':
			return misused("", argv[optind - 1],
				       " needs a value; see ratefs-exporter --help");
		default:
			return unknown_flag(argv[optind - 1]);
		}
	}
	if (rc < 0 && optind < argc)
		return misused("unexpected argument ", argv[optind],
			       "; see ratefs-exporter --help");
	return rc;
}

int main(int argc, char **argv)
{
	struct exporter e = {
		.from = {.keys = KEYS_MAX, .patience_ms = CLIENT_PATIENCE_MS},
		.metrics = {.version = PACKAGE_VERSION,
			    .users = METRICS_USERS_DEFAULT,
			    .user_name = user_name},
		.listen = LISTEN_DEFAULT,
	};
	int rc = parse(&e, argc, argv);
	list_init(&e.clients);
	proto_init();
	return rc >= 0 ? rc : serve(&e);
}
