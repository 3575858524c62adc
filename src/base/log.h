/* SPDX-License-Identifier: MIT */
/* Messages for the operator: stderr in the foreground, syslog in the background.
 * Each is one line that starts with the name of the program.  Safe from any thread.
 * Lines that a pipe, a terminal or the system's logger does not take are lost, and counted in a later line: whoever logs must
 * not wait for a reader that hangs, perhaps because its disk does. */
#ifndef BASE_LOG_H
#define BASE_LOG_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/util.h"

enum log_level { LOG_LEVEL_ERROR, LOG_LEVEL_WARNING, LOG_LEVEL_INFO, LOG_LEVEL_DEBUG };

void log_to_syslog(const char *ident);
/* Where messages go in the foreground; STDERR_FILENO at the start.  When this returns, no thread writes to the previous one
 * any more, so it can be closed. */
void log_set_fd(int fd);
void log_set_level(enum log_level max);
bool log_enabled(enum log_level level);

void log_write(enum log_level level, const char *fmt, ...) PRINTF_LIKE(2, 3);

#define log_error(...)	 log_write(LOG_LEVEL_ERROR, __VA_ARGS__)
#define log_warning(...) log_write(LOG_LEVEL_WARNING, __VA_ARGS__)
#define log_info(...)	 log_write(LOG_LEVEL_INFO, __VA_ARGS__)
#define log_debug(...)	 log_write(LOG_LEVEL_DEBUG, __VA_ARGS__)

/* True at most once per minute: for messages that could otherwise be logged for every request.  *next_ns is
 * 0 at the start. */
bool log_is_due(_Atomic uint64_t *next_ns);

#endif
