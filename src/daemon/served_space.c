/* SPDX-License-Identifier: MIT */
#include "daemon/served_space.h"

#include <limits.h>
#include <stdlib.h>
#include <unistd.h>

#include "daemon/options.h"
#include "fs/mount.h"

#define STATE_DIR "/var/lib/ratefs"

/* The directory where totals are saved: in $RATEFS_STATE_DIR if that is set, otherwise for root
 * under /var/lib, for other users in $XDG_STATE_HOME or ~/.local/state.  Empty: nowhere. */
static char dir[PATH_MAX];

void served_space_init(void)
{
	const char *own = getenv("RATEFS_STATE_DIR"), *xdg = getenv("XDG_STATE_HOME");
	const char *home = getenv("HOME");
	int n = -1;
	if (own && own[0] == '/')
		n = snprintf(dir, sizeof(dir), "%s/space", own);
	else if (geteuid() == 0)
		n = snprintf(dir, sizeof(dir), "%s/space", STATE_DIR);
	else if (xdg && xdg[0] == '/')
		n = snprintf(dir, sizeof(dir), "%s/ratefs/space", xdg);
	else if (home && home[0] == '/')
		n = snprintf(dir, sizeof(dir), "%s/.local/state/ratefs/space", home);
	if (n < 0 || n >= PATH_MAX)
		dir[0] = '\0';
}

static struct space_limits limits_of(const struct settings *s)
{
	return (struct space_limits){s->size_bytes, s->inodes};
}

struct space *served_space_new(const struct settings *s)
{
	struct space_limits l = limits_of(s);
	struct space *sp = space_new(*dir ? dir : NULL);
	if (sp)
		space_set(sp, &l);
	return sp;
}

struct space_policy served_space_policy(const struct served_mount *m)
{
	bool own = option_is_given(option_find("on_quota"), &m->s);
	unsigned on_quota = own || !m->fs ? m->s.on_quota : m->fs->s.on_quota;
	return (struct space_policy){limits_of(&m->s), on_quota == ON_QUOTA_EDQUOT};
}

void served_space_set(struct served_mount *m)
{
	struct space_policy p = served_space_policy(m);
	if (m->session)
		fs_mount_set_space(m->session, &p);
}

void served_space_changed(struct registry *r, struct served_fs *fs)
{
	struct space_limits l = limits_of(&fs->s);
	space_set(fs->space, &l);
	list_for_each (it, &r->mounts) {
		struct served_mount *m = list_entry(it, struct served_mount, link);
		if (m->fs == fs)
			served_space_set(m);
	}
}

bool served_space_limited(const struct served_mount *m)
{
	return m->s.size_bytes || m->s.inodes ||
	       (m->fs && (m->fs->s.size_bytes || m->fs->s.inodes));
}

bool served_space_counting(const struct served_mount *m)
{
	struct space_look l = {0};
	if (m->fs)
		space_look(m->fs->space, &l);
	return l.phase == SPACE_SCANNING;
}

static uint64_t tighter(uint64_t a, uint64_t b)
{
	return !a ? b : !b ? a : min_u64(a, b);
}

/* `own`: the settings of a mount, whose limits may be tighter than those of
 * its fs; NULL: of an fs. */
static void put_space(struct json_out to, const struct space *sp, const struct settings *own)
{
	static const char *const state[] = {[SPACE_SCANNING] = "counting",
					    [SPACE_FAILED] = "failed",
					    [SPACE_ENFORCING] = "enforced"};
	struct space_look l;
	space_look(sp, &l);
	if (l.phase == SPACE_OFF)
		return;
	struct json_out o = put_object(to, "space");
	uint64_t size = tighter(l.limits.bytes, own ? own->size_bytes : 0);
	uint64_t inodes = tighter(l.limits.inodes, own ? own->inodes : 0);
	put_text(o, "state", state[l.phase]);
	if (size)
		put_u64(o, "size", size);
	put_u64(o, "used", l.bytes);
	if (inodes)
		put_u64(o, "inodes", inodes);
	put_u64(o, "inodes_used", l.inodes);
	put_u64(o, "refused", l.refused);
	put_bool(o, "rescanning", l.rescanning);
	put_u64(o, "scanned", l.scanned);
	put_u64(o, "scans", l.scans);
	put_i64(o, "corrected", l.corrected);
	put_u64(o, "scan_ns", l.scan_ns);
}

void served_space_put(struct json_out o, const struct target *t)
{
	if (!t->class && t->mount && t->mount->fs)
		put_space(o, t->mount->fs->space, &t->mount->s);
	else if (!t->class && t->fs)
		put_space(o, t->fs->space, NULL);
}

void served_space_put_mount(struct json_out o, const struct served_mount *m)
{
	if (m->fs)
		put_space(o, m->fs->space, &m->s);
}
