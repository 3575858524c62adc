/* SPDX-License-Identifier: MIT */
#include "ctl/users.h"

#include <errno.h>
#include <inttypes.h>
#include <pwd.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/monotonic.h"

#define BUCKETS	  1024
#define KEPT_NS	  (60 * NSEC_PER_SEC)
#define FAILED_NS NSEC_PER_SEC

struct user {
	struct user *next;
	uint64_t uid;
	uint64_t until_ns;
	char name[65];
};

static struct user *known[BUCKETS];

static void look_up(struct user *u, uint64_t now_ns)
{
	errno = 0;
	const struct passwd *pw = getpwuid((uid_t)u->uid);
	/* These mean that there is no such user, see getpwuid(3); others that the service does not answer. */
	bool none = !pw && (errno == 0 || errno == ENOENT || errno == ESRCH);
	if (pw && strlen(pw->pw_name) < sizeof(u->name))
		snprintf(u->name, sizeof(u->name), "%s", pw->pw_name);
	else if (pw || none || !u->name[0])
		snprintf(u->name, sizeof(u->name), "%" PRIu64, u->uid);
	u->until_ns = now_ns + (pw || none ? KEPT_NS : FAILED_NS);
}

static struct user *add(uint64_t uid)
{
	struct user *u = calloc(1, sizeof(*u));
	if (!u)
		return NULL;
	u->uid = uid;
	u->next = known[uid % BUCKETS];
	known[uid % BUCKETS] = u;
	return u;
}

const char *user_name(uint64_t uid)
{
	uint64_t now_ns = monotonic_ns();
	struct user *u = known[uid % BUCKETS];
	while (u && u->uid != uid)
		u = u->next;
	if (!u)
		u = add(uid);
	if (u && now_ns >= u->until_ns)
		look_up(u, now_ns);
	return u ? u->name : "?";
}
