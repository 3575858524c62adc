/* SPDX-License-Identifier: MIT */
/* HTTP on a Unix socket, by libmicrohttpd: one POST is one call of the handler, on a thread of its connection. */
#ifndef CTL_VOLUME_HTTP_H
#define CTL_VOLUME_HTTP_H

#include <stddef.h>

/* The answer to a POST: malloc'd text (NULL: no memory) and HTTP status.  Safe from any thread. */
typedef char *volume_http_fn(void *ctx, const char *path, const char *body, size_t size,
			     unsigned *status);

struct volume_http;

/* Serves until volume_http_stop.  Takes the listening socket over.  NULL with errno. */
struct volume_http *volume_http_start(int fd, volume_http_fn *call, void *ctx);
/* Waits for calls that are being answered. */
void volume_http_stop(struct volume_http *h);

#endif
