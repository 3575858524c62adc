/* SPDX-License-Identifier: MIT */
#include "fs/caller.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "base/monotonic.h"
#include "base/util.h"
#include "fs/cgroup.h"
#include "fs/status.h"

static ssize_t read_proc(uint32_t tid, const char *name, char *buf, size_t size)
{
	char path[64];
	snprintf(path, sizeof(path), "/proc/%u/%s", tid, name);
	return proc_read(path, buf, size);
}

/* Reading /proc costs more than everything else about a parked request, so answers are kept for a
 * second.  If a thread id is reused within that second, its new owner is queued with the old one's
 * process or cgroup, which affects nothing but its turn. */
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

/* The process of a thread, or the thread itself if /proc does not tell. */
static uint64_t process_of(uint32_t tid)
{
	char status[1024];
	uint64_t tgid;
	if (read_proc(tid, "status", status, sizeof(status)) < 0 ||
	    !status_number(status, "\nTgid:", 10, &tgid))
		return tid;
	return tgid;
}

uint64_t caller_process(uint32_t tid, uint64_t now_ns)
{
	static struct cache_slot cache[CACHE_SLOTS];
	uint64_t tag = cache_tag(tid, now_ns), tgid;
	if (tid == 0 || cache_find(cache, tag, &tgid))
		return tid ? tgid : 0;
	tgid = process_of(tid);
	cache_put(cache, tag, tgid);
	return tgid;
}

static uint64_t cgroup_of_thread(uint32_t tid, uint64_t now_ns)
{
	static struct cache_slot cache[CACHE_SLOTS];
	char text[4096];
	uint64_t tag = cache_tag(tid, now_ns), id;
	if (tid == 0)
		return 0;
	if (cache_find(cache, tag, &id))
		return id;
	const char *path =
		read_proc(tid, "cgroup", text, sizeof(text)) > 0 ? cgroup_parse(text) : NULL;
	if (path) {
		id = cgroup_id(path);
		cgroup_remember(id, path);
	} else {
		id = 0;
	}
	cache_put(cache, tag, id);
	return id;
}

/* The name of the program, not of the thread: worker threads of io_uring have names of their own.
 * The kernel adds a newline. */
static void program_name(uint32_t tid, char buf[CALLER_NAME_MAX])
{
	char text[2 * CALLER_NAME_MAX];
	ssize_t n = read_proc((uint32_t)process_of(tid), "comm", text, sizeof(text));
	text[n > 0 ? strcspn(text, "\n") : 0] = '\0';
	text[CALLER_NAME_MAX - 1] = '\0';
	memcpy(buf, text, strlen(text) + 1);
}

struct opener opener_of(uint32_t tid)
{
	struct opener o = {.known = true, .cgroup = cgroup_of_thread(tid, monotonic_ns())};
	program_name(tid, o.name);
	return o;
}

/* --- for the gate --- */

/* NULL: the caller itself can be looked up, or nothing was remembered about the opener. */
static const struct opener *opener_remembered(const struct caller *c)
{
	return c->opener && c->opener->known ? c->opener : NULL;
}

static uint64_t process_of_caller(const struct caller *c, uint64_t now_ns)
{
	return caller_process(c->tid, now_ns);
}

static uint64_t cgroup_of(const struct caller *c, uint64_t now_ns)
{
	const struct opener *o = opener_remembered(c);
	return o ? o->cgroup : cgroup_of_thread(c->tid, now_ns);
}

static void cgroup_path_or_empty(uint64_t cgroup, char *buf, size_t size)
{
	if (!cgroup_path(cgroup, buf, size))
		buf[0] = '\0';
}

static void name_of(const struct caller *c, char buf[CALLER_NAME_MAX])
{
	const struct opener *o = opener_remembered(c);
	if (o)
		memcpy(buf, o->name, CALLER_NAME_MAX);
	else
		program_name(c->tid, buf);
}

const struct caller_ops fs_caller_ops = {
	.process = process_of_caller,
	.cgroup = cgroup_of,
	.cgroup_path = cgroup_path_or_empty,
	.name = name_of,
};
