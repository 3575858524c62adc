/* SPDX-License-Identifier: MIT */
#include "ctl/users.h"

#include <inttypes.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>

#define BUCKETS 1024

struct user {
	struct user *next;
	uint64_t uid;
	char name[33];
};

static struct user *known[BUCKETS];

static struct user *look_up(uint64_t uid)
{
	struct user *u = calloc(1, sizeof(*u));
	const struct passwd *pw = u ? getpwuid((uid_t)uid) : NULL;
	if (!u)
		return NULL;
	u->uid = uid;
	if (pw)
		snprintf(u->name, sizeof(u->name), "%s", pw->pw_name);
	else
		snprintf(u->name, sizeof(u->name), "%" PRIu64, uid);
	u->next = known[uid % BUCKETS];
	known[uid % BUCKETS] = u;
	return u;
}

const char *user_name(uint64_t uid)
{
	struct user *u = known[uid % BUCKETS];
	while (u && u->uid != uid)
		u = u->next;
	if (!u)
		u = look_up(uid);
	return u ? u->name : "?";
}
