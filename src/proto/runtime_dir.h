/* SPDX-License-Identifier: MIT */
/* The directory of control sockets: $RATEFS_RUNTIME_DIR, or else /run/ratefs for root and
 * $XDG_RUNTIME_DIR/ratefs for others (/run/user/UID/ratefs or /tmp/ratefs-UID if that is not set). */
#ifndef PROTO_RUNTIME_DIR_H
#define PROTO_RUNTIME_DIR_H

#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"

#define RUNTIME_DIR_MAX 64 /* so that a socket's address (108 bytes) has room for a name */

/* 0, or -1 with err if the environment names a directory that is too long. */
int runtime_dir(char *buf, size_t size, struct error *err);
/* Creates the directory with mode 0700; refuses an existing one that belongs to another user or is
 * writable by others. */
int runtime_dir_make(const char *dir, struct error *err);
/* The same checks for an existing directory, where other users could have put sockets. */
int runtime_dir_check(const char *dir, struct error *err);

#define RUNTIME_PATIENCE_S 2
/* Connects to a socket; -errno on failure.  A stale socket (-ECONNREFUSED) is removed.  -EAGAIN: the queue of new connections
 * was full for RUNTIME_PATIENCE_S, since nobody accepts them.  Sending on the connection has the same time limit. */
int runtime_connect(const char *path);
/* Calls `each` with the path of every *.sock in the directory, until it returns false. */
void runtime_each_socket(const char *dir, bool (*each)(const char *path, void *ctx), void *ctx);

#endif
