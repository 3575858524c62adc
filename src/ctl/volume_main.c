/* SPDX-License-Identifier: MIT */
/* ratefs-volume: throttled volumes for Docker and Podman. */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "ctl/volume_api.h"
#include "ctl/volume_daemon.h"
#include "ctl/volume_http.h"
#include "ctl/volume_privileges.h"
#include "ctl/volume_socket.h"
#include "proto/proto.h"

#include "config.h"

#define LOOK_EVERY_S 30

struct arguments {
	struct volume_setup setup;
	const char *socket;
};

static const struct option flags[] = {
	{"allow-source", required_argument, NULL, 'a'},
	{"collect-after", required_argument, NULL, 'C'},
	{"config", required_argument, NULL, 'c'},
	{"control", required_argument, NULL, 'k'},
	{"help", no_argument, NULL, 'h'},
	{"ratefs", required_argument, NULL, 'r'},
	{"socket", required_argument, NULL, 's'},
	{"state", required_argument, NULL, 'd'},
	{"version", no_argument, NULL, 'V'},
	{NULL, 0, NULL, 0},
};

static void help(void)
{
	puts("usage: ratefs-volume [OPTION...]\n"
	     "Throttled volumes for Docker and Podman; see ratefs-volume(8).\n"
	     "\n"
	     "  -a, --allow-source=DIR    volumes may have DIR, or a directory below it, as their source\n"
	     "  -c, --config=FILE         limits of all volumes together (" RATEFS_SYSCONFDIR
	     "/ratefs/volume.conf)\n"
	     "  -d, --state=DIR           the state directory (" RATEFS_STATEDIR ")\n"
	     "  -s, --socket=PATH         where the engine connects (" RATEFS_PLUGIN_SOCKET ")\n"
	     "      --control=PATH        control socket of the daemon that serves the volumes\n"
	     "      --collect-after=SECONDS  drop references of containers that are gone after this time\n"
	     "      --ratefs=PATH         the ratefs program\n"
	     "  -h, --help                show this help\n"
	     "  -V, --version             show the version");
}

static int allow(struct volume_setup *s, const char *dir, struct error *err)
{
	char **more = realloc(s->allowed, (s->n_allowed + 1) * sizeof(*more));
	if (!more)
		return error_set(err, "out of memory");
	s->allowed = more;
	if (dir[0] != '/')
		return error_set(err, "--allow-source: '%s' is not an absolute path", dir);
	return (more[s->n_allowed++] = strdup(dir)) ? 0 : error_set(err, "out of memory");
}

static int parse_seconds(const char *text, unsigned *out, struct error *err)
{
	char *end;
	unsigned long n = strtoul(text, &end, 10);
	if (*text < '0' || *text > '9' || *end || n > 86400)
		return error_set(
			err, "--collect-after: '%s' is not a number of seconds up to 86400", text);
	*out = n;
	return 0;
}

/* 0: continue; 1: done; -1 with err. */
static int parse(struct arguments *a, int argc, char **argv, struct error *err)
{
	int c, rc = 0;
	opterr = 0;
	while (rc == 0 && (c = getopt_long(argc, argv, ":a:c:d:s:hV", flags, NULL)) != -1) {
		switch (c) {
		case 'a':
			rc = allow(&a->setup, optarg, err);
			break;
		case 'c':
			a->setup.head = optarg;
			break;
		case 'C':
			rc = parse_seconds(optarg, &a->setup.collect_after_s, err);
			break;
		case 'd':
			a->setup.state_dir = optarg;
			break;
		case 'k':
			a->setup.control = optarg;
			break;
		case 'r':
			a->setup.ratefs = optarg;
			break;
		case 's':
			a->socket = optarg;
			break;
		case 'h':
			help();
			return 1;
		case 'V':
			printf("ratefs-volume %s\n", PACKAGE_VERSION);
			return 1;
		case '?': /* of several letters after one '-', optind is still at that argument */
			if (optopt && strncmp(argv[optind - 1], "--", 2) != 0)
				return error_set(err,
						 "unknown option '-%c'; see ratefs-volume --help",
						 optopt);
			return error_set(err, "unknown option '%s'; see ratefs-volume --help",
					 argv[optind - 1]);
		default:
			return error_set(err,
					 "a value is missing after '%s'; see ratefs-volume --help",
					 argv[optind - 1]);
		}
	}
	if (rc == 0 && optind < argc)
		return error_set(err, "unexpected argument '%s'; see ratefs-volume --help",
				 argv[optind]);
	if (rc == 0 && a->setup.state_dir[0] != '/')
		return error_set(err, "--state: '%s' is not an absolute path", a->setup.state_dir);
	return rc;
}

/* Two plugins with one state directory would overwrite each other's changes.  The descriptor holds the lock. */
static int lock_state(const struct volume_setup *s, struct error *err)
{
	AUTO_FREE char *path = NULL;
	if (asprintf(&path, "%s/lock", s->state_dir) < 0)
		return error_set(err, "out of memory");
	AUTO_FD fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd < 0)
		return error_set(err, "%s: %s", path, strerror(errno));
	if (flock(fd, LOCK_EX | LOCK_NB) < 0)
		return error_set(err, "%s: another ratefs-volume uses this state directory",
				 s->state_dir);
	return take_fd(&fd);
}

static char *call(void *ctx, const char *path, const char *body, size_t size, unsigned *status)
{
	return volume_api_call(ctx, path, body, size, status);
}

/* Restores the volumes, and checks them periodically until a signal arrives.  Engines are already served: a source that hangs
 * delays only its own volume. */
static void look_after(struct volumes *v, const sigset_t *ends)
{
	struct timespec every = {.tv_sec = LOOK_EVERY_S};
	if (v->setup.collect_after_s < LOOK_EVERY_S)
		every.tv_sec = v->setup.collect_after_s ? v->setup.collect_after_s : 1;
	volumes_recover(v);
	while (sigtimedwait(ends, NULL, &every) < 0) {
		if (errno != EAGAIN)
			continue;
		volumes_recover(v);
		volumes_collect(v);
	}
}

static int serve(struct volumes *v, const char *socket, struct error *err)
{
	sigset_t ends;
	sigemptyset(&ends);
	sigaddset(&ends, SIGTERM);
	sigaddset(&ends, SIGINT);
	pthread_sigmask(SIG_BLOCK, &ends, NULL); /* all threads inherit it */
	signal(SIGPIPE, SIG_IGN);
	int fd = volume_socket_open(socket, err);
	if (fd < 0)
		return -1;
	struct volume_http *http = volume_http_start(fd, call, v);
	if (!http)
		return error_set(err, "cannot serve HTTP: %s", strerror(errno));
	volume_socket_ready();
	look_after(v, &ends);
	volume_http_stop(http);
	return 0;
}

static int run(struct arguments *a, struct error *err)
{
	struct volumes v = {.setup = a->setup, .daemon = &volume_daemon, .daemon_ctx = &v.setup};
	if (volume_privileges_drop(err) < 0)
		return -1;
	umask(022);
	if (chdir("/") < 0)
		return error_set(err, "chdir /: %s", strerror(errno));
	int rc = volumes_open(&v, err);
	AUTO_FD lock = rc == 0 ? lock_state(&v.setup, err) : -1;
	if (rc == 0)
		rc = lock < 0 ? -1 : volume_daemon_options(&v.setup, &v.known, err);
	if (rc == 0)
		rc = volumes_begin(&v, err);
	if (rc == 0)
		rc = serve(&v, a->socket, err);
	volumes_close(&v);
	return rc;
}

int main(int argc, char **argv)
{
	struct arguments a = {.setup = {.state_dir = RATEFS_STATEDIR,
					.head = RATEFS_SYSCONFDIR "/ratefs/volume.conf",
					.control = "/run/ratefs/ratefs-volume.sock",
					.ratefs = RATEFS_BINDIR "/ratefs",
					.mount_wait_s = 100,
					.collect_after_s = 60},
			      .socket = RATEFS_PLUGIN_SOCKET};
	struct error err = ERROR_INIT;
	proto_init();
	int rc = parse(&a, argc, argv, &err);
	if (rc == 0)
		rc = run(&a, &err) < 0 ? 2 : 1;
	else if (rc < 0)
		rc = 3;
	for (unsigned i = 0; i < a.setup.n_allowed; i++)
		free(a.setup.allowed[i]);
	free(a.setup.allowed);
	if (error_is_set(&err))
		log_error("%s", err.text);
	return rc == 1 ? EXIT_SUCCESS : rc == 2 ? EXIT_FAILURE : 2;
}
