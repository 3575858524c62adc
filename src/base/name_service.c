/* SPDX-License-Identifier: MIT */
#include "base/name_service.h"

#include <errno.h>
#include <grp.h>
#include <pwd.h>

int64_t name_service_find(char kind, const char *name)
{
	errno = 0;
	if (kind == 'u') {
		const struct passwd *pw = getpwnam(name);
		if (pw)
			return pw->pw_uid;
	} else {
		const struct group *gr = getgrnam(name);
		if (gr)
			return gr->gr_gid;
	}
	/* Modules report "not found" by various error numbers; these mean that the lookup
	 * failed. */
	switch (errno) {
	case EIO:
	case EINTR:
	case EMFILE:
	case ENFILE:
	case ENOMEM:
	case EAGAIN:
	case ETIMEDOUT:
		return NAME_SERVICE_FAILED;
	default:
		return NAME_SERVICE_NONE;
	}
}
