/* SPDX-License-Identifier: MIT */
/* The main thread's event loop: file descriptors and their callbacks. */
#ifndef DAEMON_LOOP_H
#define DAEMON_LOOP_H

#include <stdbool.h>
#include <stdint.h>

struct watch {
	int fd;
	void (*ready)(struct watch *w, uint32_t events); /* EPOLL* bits; may unwatch and free w */
};

struct loop {
	int epoll_fd;
	bool stop;
	/* Called about once a second while it is not NULL. */
	void (*tick)(void *ctx);
	void *tick_ctx;
};

int loop_init(struct loop *l); /* 0 or -errno */
void loop_free(struct loop *l);
/* Starts watching w->fd for these EPOLL* events, or changes the events.  0 or -errno. */
int loop_watch(struct loop *l, struct watch *w, uint32_t events);
void loop_unwatch(struct loop *l, struct watch *w);
void loop_run(struct loop *l); /* until l->stop */
int64_t loop_now_ms(void);     /* CLOCK_MONOTONIC */

#endif
