/* SPDX-License-Identifier: MIT */
#include "daemon/loop.h"

#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <time.h>
#include <unistd.h>

#include "base/log.h"
#include "base/monotonic.h"

int loop_init(struct loop *l)
{
	memset(l, 0, sizeof(*l));
	l->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	return l->epoll_fd < 0 ? -errno : 0;
}

void loop_free(struct loop *l)
{
	if (l->epoll_fd >= 0)
		close(l->epoll_fd);
	l->epoll_fd = -1;
}

int loop_watch(struct loop *l, struct watch *w, uint32_t events)
{
	struct epoll_event ev = {.events = events, .data.ptr = w};
	if (epoll_ctl(l->epoll_fd, EPOLL_CTL_MOD, w->fd, &ev) == 0)
		return 0;
	if (errno == ENOENT && epoll_ctl(l->epoll_fd, EPOLL_CTL_ADD, w->fd, &ev) == 0)
		return 0;
	return -errno;
}

void loop_unwatch(struct loop *l, struct watch *w)
{
	epoll_ctl(l->epoll_fd, EPOLL_CTL_DEL, w->fd, NULL);
}

int64_t loop_now_ms(void)
{
	return (int64_t)(monotonic_ns() / NSEC_PER_MSEC);
}

void loop_run(struct loop *l)
{
	int64_t last_tick = loop_now_ms();
	while (!l->stop) {
		/* One at a time: a callback may free what a later event of the same batch refers
		 * to. */
		struct epoll_event ev;
		int n = epoll_wait(l->epoll_fd, &ev, 1, l->tick ? 1000 : -1);
		if (n < 0 && errno != EINTR) {
			log_error("epoll: %s", strerror(errno));
			return;
		}
		if (n > 0) {
			struct watch *w = ev.data.ptr;
			w->ready(w, ev.events);
		}
		if (l->tick && loop_now_ms() - last_tick >= 1000) {
			last_tick = loop_now_ms();
			l->tick(l->tick_ctx);
		}
	}
}
