/* SPDX-License-Identifier: MIT */
#include "fs/key.h"

#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "fs/handle.h"

/* --- /proc ------------------------------------------------------------------------------- */

static ssize_t read_file(const char *path, char *buf, size_t size)
{
	AUTO_FD fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -1;
	ssize_t n = read(fd, buf, size - 1);
	if (n < 0)
		return -1;
	buf[n] = '\0';
	return n;
}

static ssize_t read_proc(uint32_t tid, const char *name, char *buf, size_t size)
{
	char path[64];
	snprintf(path, sizeof(path), "/proc/%u/%s", tid, name);
	return read_file(path, buf, size);
}

static bool status_field(const char *status, const char *name, int base, uint64_t *out)
{
	const char *at = strstr(status, name);
	if (!at)
		return false;
	*out = strtoull(at + strlen(name), NULL, base);
	return true;
}

#define SIGNAL_BIT(s) (1ULL << ((s)-1))
/* Signals whose default action is not to end the process. */
#define HARMLESS                                                                                   \
	(SIGNAL_BIT(SIGCHLD) | SIGNAL_BIT(SIGCONT) | SIGNAL_BIT(SIGURG) | SIGNAL_BIT(SIGWINCH) |   \
	 SIGNAL_BIT(SIGSTOP) | SIGNAL_BIT(SIGTSTP) | SIGNAL_BIT(SIGTTIN) | SIGNAL_BIT(SIGTTOU))

bool caller_is_dying(uint32_t tid)
{
	char status[4096];
	uint64_t own, shared, blocked, ignored, caught;
	/* Who cannot be asked is let go: better an early EINTR than an unkillable process. */
	if (tid == 0 || read_proc(tid, "status", status, sizeof(status)) < 0)
		return true;
	if (!status_field(status, "\nSigPnd:", 16, &own) ||
	    !status_field(status, "\nShdPnd:", 16, &shared) ||
	    !status_field(status, "\nSigBlk:", 16, &blocked) ||
	    !status_field(status, "\nSigIgn:", 16, &ignored) ||
	    !status_field(status, "\nSigCgt:", 16, &caught))
		return true;
	uint64_t pending = own | shared;
	if (pending & SIGNAL_BIT(SIGKILL))
		return true;
	return pending & ~blocked & ~ignored & ~caught & ~HARMLESS;
}

/* The kernel's, in /proc/PID/stat: bits of include/linux/sched.h that have not moved since 2.6. */
#define TASK_EXITING  0x4U
#define TASK_SIGNALED 0x400U

/* Killed or exiting, or gone. */
static bool task_leaves(const char *path)
{
	char stat[512];
	unsigned flags;
	if (read_file(path, stat, sizeof(stat)) < 0)
		return true;
	const char *at = strrchr(stat, ')'); /* the name may hold anything */
	if (!at || sscanf(at + 1, " %*c %*d %*d %*d %*d %*d %u", &flags) != 1)
		return true;
	return flags & (TASK_EXITING | TASK_SIGNALED);
}

bool process_has_died(uint32_t tid, uint32_t process)
{
	char path[320];
	snprintf(path, sizeof(path), "/proc/%u/stat", tid);
	if (!task_leaves(path))
		return false;
	snprintf(path, sizeof(path), "/proc/%u/task", process);
	DIR *tasks = opendir(path);
	if (!tasks)
		return true;
	bool all = true;
	const struct dirent *d;
	while (all && (d = readdir(tasks)) != NULL) {
		if (d->d_name[0] == '.')
			continue;
		snprintf(path, sizeof(path), "/proc/%u/task/%s/stat", process, d->d_name);
		all = task_leaves(path);
	}
	closedir(tasks);
	return all;
}

/* --- remembered look-ups ------------------------------------------------------------------- */

/* Asking /proc costs more than the rest of a parked request together, so answers are kept for a
 * second.  A stale one after a thread id was reused costs a turn, nothing else. */
#define CACHE_SLOTS 4096
struct cache_slot {
	_Atomic uint64_t tag; /* tid and second; written last */
	_Atomic uint64_t id;
};

static uint64_t cache_tag(uint32_t tid, uint64_t now_ns)
{
	return (uint64_t)tid << 32 | (uint32_t)(now_ns / NSEC_PER_SEC + 1);
}

static bool cache_find(struct cache_slot *cache, uint64_t tag, uint64_t *id)
{
	struct cache_slot *s = &cache[(tag >> 32) % CACHE_SLOTS];
	if (atomic_load_explicit(&s->tag, memory_order_acquire) != tag)
		return false;
	*id = atomic_load_explicit(&s->id, memory_order_acquire);
	return atomic_load_explicit(&s->tag, memory_order_relaxed) == tag;
}

static void cache_put(struct cache_slot *cache, uint64_t tag, uint64_t id)
{
	struct cache_slot *s = &cache[(tag >> 32) % CACHE_SLOTS];
	atomic_store_explicit(&s->tag, 0, memory_order_relaxed);
	atomic_store_explicit(&s->id, id, memory_order_release);
	atomic_store_explicit(&s->tag, tag, memory_order_release);
}

uint64_t key_process(uint32_t tid, uint64_t now_ns)
{
	static struct cache_slot cache[CACHE_SLOTS];
	char status[1024];
	uint64_t tag = cache_tag(tid, now_ns), tgid;
	if (tid == 0 || cache_find(cache, tag, &tgid))
		return tid ? tgid : 0;
	if (read_proc(tid, "status", status, sizeof(status)) < 0 ||
	    !status_field(status, "\nTgid:", 10, &tgid))
		tgid = tid;
	cache_put(cache, tag, tgid);
	return tgid;
}

/* --- cgroups ------------------------------------------------------------------------------- */

/* Paths of the cgroups seen, so that statistics can name them; bounded, oldest slot reused. */
#define CGROUP_NAMES 1024
static struct {
	pthread_mutex_t lock;
	struct {
		uint64_t id;
		char *path;
	} slot[CGROUP_NAMES];
} cgroups = {.lock = PTHREAD_MUTEX_INITIALIZER};

uint64_t key_cgroup_id(const char *path)
{
	uint64_t h = 0xcbf29ce484222325ULL; /* FNV-1a */
	for (; *path; path++)
		h = (h ^ (uint8_t)*path) * 0x100000001b3ULL;
	return h;
}

static void remember_cgroup(uint64_t id, const char *path)
{
	pthread_mutex_lock(&cgroups.lock);
	if (cgroups.slot[id % CGROUP_NAMES].id != id) {
		free(cgroups.slot[id % CGROUP_NAMES].path);
		cgroups.slot[id % CGROUP_NAMES].path = strdup(path);
		cgroups.slot[id % CGROUP_NAMES].id = id;
	}
	pthread_mutex_unlock(&cgroups.lock);
}

bool key_cgroup_path(uint64_t id, char *buf, size_t size)
{
	pthread_mutex_lock(&cgroups.lock);
	const char *path = cgroups.slot[id % CGROUP_NAMES].path;
	bool known = path && cgroups.slot[id % CGROUP_NAMES].id == id;
	if (known)
		snprintf(buf, size, "%s", path);
	pthread_mutex_unlock(&cgroups.lock);
	return known;
}

static uint64_t cgroup_of(uint32_t tid, uint64_t now_ns)
{
	static struct cache_slot cache[CACHE_SLOTS];
	char text[4096];
	uint64_t tag = cache_tag(tid, now_ns), id;
	if (tid == 0)
		return 0;
	if (cache_find(cache, tag, &id))
		return id;
	char *path = NULL;
	if (read_proc(tid, "cgroup", text, sizeof(text)) > 0) {
		path = strncmp(text, "0::", 3) == 0 ? text : strstr(text, "\n0::");
		path = path ? strchr(path, '/') : strchr(text, '/'); /* v1: its first hierarchy */
	}
	if (path) {
		path[strcspn(path, "\n")] = '\0';
		id = key_cgroup_id(path);
		remember_cgroup(id, path);
	} else {
		id = 0;
	}
	cache_put(cache, tag, id);
	return id;
}

/* --- the key ------------------------------------------------------------------------------- */

struct fair_key key_of(enum fair_kind kind, const struct fuse_in_header *in, size_t len,
		       uint64_t now_ns)
{
	struct fair_key key = {.kind = kind};
	uint32_t pid = in->pid, uid = in->uid, gid = in->gid;
	uint64_t fh = wire_fh(in, len);
	if (pid == 0 && fh) { /* write-back and the like carry nobody: it is the opener's */
		const struct handle *h = handle_from_fh(fh);
		pid = (uint32_t)h->pid;
		uid = h->uid;
		gid = h->gid;
	}
	switch (kind) {
	case FAIR_HANDLE:
		key.id = fh ? fh : key_process(pid, now_ns);
		break;
	case FAIR_PROCESS:
		key.id = key_process(pid, now_ns);
		break;
	case FAIR_UID:
		key.id = uid;
		break;
	case FAIR_GID:
		key.id = gid;
		break;
	case FAIR_CGROUP:
		key.id = cgroup_of(pid, now_ns);
		break;
	default:
		break;
	}
	return key;
}
