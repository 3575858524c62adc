/* SPDX-License-Identifier: MIT */
/* "ADDRESS:PORT" as a socket address. */
#ifndef CTL_LISTEN_H
#define CTL_LISTEN_H

#include <stdbool.h>
#include <sys/socket.h>

#include "base/error.h"

#define LISTEN_TEXT_MAX 80

/* 127.0.0.1:9944, [::1]:9944, localhost:9944, or only a port, which means 127.0.0.1.  0.0.0.0 and [::] mean
 * every address of the machine; an empty address is an error, so that nobody opens a port to the world by mistake.
 * 0, or -1 with err. */
int listen_parse(const char *text, struct sockaddr_storage *out, struct error *err);
/* A socket that listens there, or -1 with err. */
int listen_open(const struct sockaddr_storage *a, struct error *err);
/* "127.0.0.1:9944", "[::1]:9944" */
char *listen_text(const struct sockaddr_storage *a, char buf[LISTEN_TEXT_MAX]);
/* True: only this machine can reach the address. */
bool listen_is_local(const struct sockaddr_storage *a);

#endif
