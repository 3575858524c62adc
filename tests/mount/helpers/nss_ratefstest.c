/* SPDX-License-Identifier: MIT */
/* A name service as sites have them: it opens a network socket, uses keys, may be slow, and may crash.  It knows
 * the user and the group "remote", number 4321.  The file $NSS_TEST says how it behaves: a number of seconds, or
 * "crash". */
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/keyctl.h>
#include <nss.h>
#include <pwd.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

enum nss_status _nss_ratefstest_getpwnam_r(const char *name, struct passwd *pw, char *buf,
					   size_t size, int *error);
enum nss_status _nss_ratefstest_getgrnam_r(const char *name, struct group *gr, char *buf,
					   size_t size, int *error);

static enum nss_status ask(const char *name, char *buf, size_t size, int *error)
{
	char how[16] = "";
	const char *path = getenv("NSS_TEST");
	int fd = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
	if (fd >= 0) {
		if (read(fd, how, sizeof(how) - 1) < 0)
			how[0] = '\0';
		close(fd);
	}
	if (how[0] == 'c')
		abort();
	sleep((unsigned)atoi(how));
	fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	long key = syscall(SYS_keyctl, KEYCTL_GET_KEYRING_ID, KEY_SPEC_SESSION_KEYRING, 0);
	if (fd < 0 || (key < 0 && errno == ENOSYS)) {
		*error = EIO;
		return NSS_STATUS_UNAVAIL;
	}
	close(fd);
	if (strcmp(name, "remote") != 0 || size < 16) {
		*error = ENOENT;
		return NSS_STATUS_NOTFOUND;
	}
	strcpy(buf, "remote");
	buf[8] = '\0';
	return NSS_STATUS_SUCCESS;
}

enum nss_status _nss_ratefstest_getpwnam_r(const char *name, struct passwd *pw, char *buf,
					   size_t size, int *error)
{
	enum nss_status s = ask(name, buf, size, error);
	if (s == NSS_STATUS_SUCCESS)
		*pw = (struct passwd){buf, buf + 8, 4321, 4321, buf + 8, buf + 8, buf + 8};
	return s;
}

enum nss_status _nss_ratefstest_getgrnam_r(const char *name, struct group *gr, char *buf,
					   size_t size, int *error)
{
	static char *nobody[] = {NULL};
	enum nss_status s = ask(name, buf, size, error);
	if (s == NSS_STATUS_SUCCESS)
		*gr = (struct group){buf, buf + 8, 4321, nobody};
	return s;
}
