/* SPDX-License-Identifier: MIT */
#include "base/log.h"
#include "base/monotonic.h"

#include <errno.h>
#include <inttypes.h>
#include <paths.h>
#include <poll.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <syslog.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/text.h"

#define LINE_MAX_BYTES 1200
#define PATIENCE_MS    100 /* for the reader of a pipe or a terminal */

static _Atomic enum log_level level_max = LOG_LEVEL_INFO;
static atomic_bool use_syslog;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards what follows */
static int log_fd = STDERR_FILENO, logger_fd = -1;
static const char *logger_ident;
static uint64_t lost; /* lines since the last one that was written */

static const int syslog_priority[] = {
	[LOG_LEVEL_ERROR] = LOG_ERR,
	[LOG_LEVEL_WARNING] = LOG_WARNING,
	[LOG_LEVEL_INFO] = LOG_INFO,
	[LOG_LEVEL_DEBUG] = LOG_DEBUG,
};

void log_to_syslog(const char *ident)
{
	openlog(ident, LOG_PID, LOG_DAEMON);
	pthread_mutex_lock(&lock);
	logger_ident = ident;
	pthread_mutex_unlock(&lock);
	atomic_store(&use_syslog, true);
}

void log_set_fd(int fd)
{
	pthread_mutex_lock(&lock);
	log_fd = fd;
	pthread_mutex_unlock(&lock);
}

void log_set_level(enum log_level max)
{
	atomic_store(&level_max, max);
}

bool log_enabled(enum log_level level)
{
	return level <= atomic_load_explicit(&level_max, memory_order_relaxed);
}

/* --- writing; false: the reader does not take the line now -------------------------------------- */

static int connect_logger(void)
{
	const struct sockaddr_un to = {.sun_family = AF_UNIX, .sun_path = _PATH_LOG};
	AUTO_FD fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0 || connect(fd, (const struct sockaddr *)&to, sizeof(to)) < 0)
		return -errno;
	return take_fd(&fd);
}

/* What syslog(3) does, but that waits while the queue of the logger is full. */
static bool send_to_logger(enum log_level level, const char *line)
{
	char text[LINE_MAX_BYTES + 100], at[24] = "";
	time_t now = time(NULL);
	struct tm tm;
	if (localtime_r(&now, &tm))
		strftime(at, sizeof(at), "%h %e %T", &tm);
	snprintf(text, sizeof(text), "<%d>%s %s[%d]: %s", LOG_DAEMON | syslog_priority[level], at,
		 logger_ident, (int)getpid(), line);
	for (int attempt = 0; attempt < 2; attempt++) {
		if (logger_fd < 0)
			logger_fd = connect_logger();
		if (logger_fd == -EPROTOTYPE) /* one that reads a stream */
			syslog(syslog_priority[level], "%s", line);
		if (logger_fd < 0 || send(logger_fd, text, strlen(text), MSG_NOSIGNAL) >= 0)
			return true; /* without a logger, nobody misses the line */
		if (errno == EAGAIN || errno == ENOBUFS)
			return false;
		close(logger_fd); /* it was started again */
		logger_fd = -1;
	}
	return true;
}

static bool write_to_fd(const char *line)
{
	struct pollfd p = {.fd = log_fd, .events = POLLOUT};
	if (poll(&p, 1, lost ? 0 : PATIENCE_MS) == 0)
		return false;
	dprintf(log_fd, "%s: %s\n", program_invocation_short_name, line);
	return true;
}

static bool put(enum log_level level, const char *line)
{
	return atomic_load(&use_syslog) ? send_to_logger(level, line) : write_to_fd(line);
}

static bool put_lost(void)
{
	char line[80];
	snprintf(line, sizeof(line), "%" PRIu64 " lines of the log were lost: it was not read",
		 lost);
	return put(LOG_LEVEL_WARNING, line);
}

/* --- lines --------------------------------------------------------------------------------------- */

void log_write(enum log_level level, const char *fmt, ...)
{
	if (!log_enabled(level))
		return;
	char line[LINE_MAX_BYTES];
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(line, sizeof(line), fmt, ap);
	va_end(ap);
	make_one_line(line);
	pthread_mutex_lock(&lock);
	if (lost && put_lost())
		lost = 0;
	if (lost || !put(level, line))
		lost++;
	pthread_mutex_unlock(&lock);
}

bool log_is_due(_Atomic uint64_t *next_ns)
{
	uint64_t now_ns = monotonic_ns(), due_ns = atomic_load(next_ns);
	return now_ns >= due_ns &&
	       atomic_compare_exchange_strong(next_ns, &due_ns, now_ns + 60 * NSEC_PER_SEC);
}
