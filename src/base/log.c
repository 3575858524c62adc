/* SPDX-License-Identifier: MIT */
#include "base/log.h"
#include "base/monotonic.h"

#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <syslog.h>
#include <unistd.h>

#include "base/text.h"

static _Atomic enum log_level level_max = LOG_LEVEL_INFO;
static atomic_bool use_syslog;
static pthread_mutex_t fd_lock = PTHREAD_MUTEX_INITIALIZER;
static int log_fd = STDERR_FILENO; /* fd_lock */

static const int syslog_priority[] = {
	[LOG_LEVEL_ERROR] = LOG_ERR,
	[LOG_LEVEL_WARNING] = LOG_WARNING,
	[LOG_LEVEL_INFO] = LOG_INFO,
	[LOG_LEVEL_DEBUG] = LOG_DEBUG,
};

void log_to_syslog(const char *ident)
{
	openlog(ident, LOG_PID, LOG_DAEMON);
	atomic_store(&use_syslog, true);
}

void log_set_fd(int fd)
{
	pthread_mutex_lock(&fd_lock);
	log_fd = fd;
	pthread_mutex_unlock(&fd_lock);
}

void log_set_level(enum log_level max)
{
	atomic_store(&level_max, max);
}

bool log_enabled(enum log_level level)
{
	return level <= atomic_load_explicit(&level_max, memory_order_relaxed);
}

void log_write(enum log_level level, const char *fmt, ...)
{
	if (!log_enabled(level))
		return;
	char line[1200];
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(line, sizeof(line), fmt, ap);
	va_end(ap);
	make_one_line(line);
	if (atomic_load(&use_syslog)) {
		syslog(syslog_priority[level], "%s", line);
		return;
	}
	pthread_mutex_lock(&fd_lock);
	dprintf(log_fd, "%s: %s\n", program_invocation_short_name, line);
	pthread_mutex_unlock(&fd_lock);
}

bool log_is_due(_Atomic uint64_t *next_ns)
{
	uint64_t now_ns = monotonic_ns(), due_ns = atomic_load(next_ns);
	return now_ns >= due_ns &&
	       atomic_compare_exchange_strong(next_ns, &due_ns, now_ns + 60 * NSEC_PER_SEC);
}
