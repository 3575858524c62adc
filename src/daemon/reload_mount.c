/* SPDX-License-Identifier: MIT */
/* Reads the file again to make one of its mounts. */
#include <string.h>

#include "daemon/reload.h"
#include "daemon/reload_back.h"
#include "daemon/reload_internal.h"

struct section {
	struct registry *r;
	const struct configuration *c;
	struct command_reply *reply;
};

/* Forgets mounts that are down and no longer in the file, and the one whose
 * section is read again. */
static void forget_down(struct section *j, const char *name)
{
	list_for_each_safe (it, &j->r->mounts) {
		struct served_mount *m = list_entry(it, struct served_mount, link);
		if (served_state(m) != SERVED_DOWN ||
		    (strcmp(m->s.name, name) != 0 && configuration_find_mount(j->c, m->s.name)))
			continue;
		if (strcmp(m->s.name, name) != 0)
			registry_tell(j->r, "mount_removed", "mount", m->s.name, NULL, NULL);
		registry_drop_fs(registry_find_own_fs(j->r, m->s.name, true));
		registry_forget_mount(m);
	}
}

static struct served_mount *take_section(struct section *j, const struct settings *wanted)
{
	const struct settings *fs = wanted->fs ? configuration_find_fs(j->c, wanted->fs) : NULL;
	struct served_mount *m = registry_find_mount(j->r, wanted->name);
	if (m && served_state(m) != SERVED_DOWN)
		return m; /* the caller reports its state */
	bool new = !m;
	forget_down(j, wanted->name);
	if (fs && !registry_find_own_fs(j->r, fs->name, false) && !registry_add_fs(j->r, fs, false))
		return NULL;
	m = registry_add_mount(j->r, wanted);
	if (m && new)
		registry_tell(j->r, "mount_added", "mount", m->s.name, NULL, NULL);
	return m;
}

static void mount_section(struct section *j, const char *name)
{
	const struct settings *wanted = configuration_find_mount(j->c, name);
	if (!wanted) {
		command_fail(j->reply, PROTO_NO_TARGET, "there is no mount '%s' in %s", name,
			     j->r->file);
		return;
	}
	struct served_mount *m = take_section(j, wanted);
	if (!m) {
		command_fail(j->reply, PROTO_NO_MEMORY, "out of memory");
		return;
	}
	m->asked = true;
	if (served_state(m) == SERVED_DOWN && registry_mount(m, &j->reply->err) < 0)
		j->reply->code = PROTO_FAILED;
	else if (served_state(m) == SERVED_ENDING)
		command_fail(j->reply, PROTO_WRONG_STATE, "is still being unmounted");
	else if (served_state(m) == SERVED_MOUNTING)
		await_mount(&j->reply->await, m);
}

enum reload_result reload_mount(struct registry *r, const char *name, bool again,
				struct problems *p, struct command_reply *reply)
{
	struct configuration c;
	struct section j = {r, &c, reply};
	const struct served_mount *m = registry_find_mount(r, name);
	if (m && served_state(m) == SERVED_UP) {
		if (again) /* another client has mounted it meanwhile */
			reload_forget_read();
		return RELOAD_DONE;
	}
	enum reload_result res;
	if (!reload_read(r, again, &c, p, &res))
		return res;
	reload_forget_read();
	reload_settle(r);
	mount_section(&j, name);
	configuration_free(&c);
	return RELOAD_DONE;
}
