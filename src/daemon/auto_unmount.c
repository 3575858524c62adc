/* SPDX-License-Identifier: MIT */
#include "daemon/auto_unmount.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "base/monotonic.h"
#include "base/util.h"
#include "daemon/background.h"
#include "fs/detach.h"

#define GRACE_NS (500 * NSEC_PER_MSEC) /* for mounts below or on it, which may be ending as well */

/* Closes everything inherited from the daemon: the FUSE device would keep the mount from being
 * seen as dead, and whoever started the daemon may wait for its output to be closed. */
static void let_go(int keep)
{
	background_close_inherited(keep);
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);
	for (int fd = 0; fd < 3 && null >= 0; fd++)
		dup2(null, fd);
	if (null > 2)
		close(null);
}

static _Noreturn void wait_for_death(int fd, const char *name, const struct mount_place *place)
{
	const _Atomic bool hurry = false;
	char told;
	ssize_t n;
	prctl(PR_SET_NAME, "ratefs-unmount", 0, 0, 0);
	setsid();
	let_go(fd);
	do
		n = read(fd, &told, 1);
	while (n < 0 && errno == EINTR);
	if (n == 0)
		mount_place_detach(place, name, monotonic_ns() + GRACE_NS, &hurry);
	_exit(0);
}

int auto_unmount_start(struct auto_unmount *a, const char *mountpoint, struct error *err)
{
	struct mount_place place;
	int fds[2];
	mount_place_find(&place, mountpoint);
	if (!place.id)
		return error_set(err, "auto_unmount: cannot identify the mount at '%s'",
				 mountpoint);
	if (pipe2(fds, O_CLOEXEC) < 0)
		return error_set(err, "auto_unmount: %s", strerror(errno));
	AUTO_FD from = fds[0], to = fds[1];
	pid_t pid = fork();
	if (pid < 0)
		return error_set(err, "auto_unmount: %s", strerror(errno));
	if (pid == 0)
		wait_for_death(from, mountpoint, &place);
	*a = (struct auto_unmount){pid, take_fd(&to)};
	return 0;
}

void auto_unmount_stop(struct auto_unmount *a)
{
	if (!a->pid)
		return;
	if (write(a->fd, "", 1) < 0)
		log_debug("auto_unmount: %s", strerror(errno)); /* the process has been killed */
	close(a->fd);
	while (waitpid(a->pid, NULL, 0) < 0 && errno == EINTR)
		;
	a->pid = 0;
}
