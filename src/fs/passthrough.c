/* SPDX-License-Identifier: MIT */
/* Chooses how the data of an open file is transferred.  The kernel accepts only some combinations
 * on one inode and returns EIO to the program otherwise, so the open files of an inode have to
 * agree:
 *
 *	limited  already open             the new handle
 *	no       nothing                  PASS, or CACHED where passthrough is not available
 *	no       PASS, PASS_DIRECT        PASS
 *	no       DIRECT                   DIRECT, until the last one is closed
 *	no       CACHED                   CACHED
 *	yes      nothing, DIRECT, CACHED  DIRECT
 *	yes      PASS, PASS_DIRECT        PASS_DIRECT with the same backing ID
 *
 * Reads and writes of a PASS_DIRECT handle reach us, but the kernel maps the file of the source itself,
 * whatever the flags of the open: loads and stores through such a mapping are neither limited nor
 * counted.  So such handles are counted (passthrough_maps).
 *
 * All of this happens under the inode's lock, which is held during the ioctl so that two first opens
 * do not register the file twice. */
#include <errno.h>
#include <fcntl.h>
#include <fuse_lowlevel.h>
#include <stdlib.h>
#include <sys/ioctl.h>

#include "fs/creds.h"
#include "fs/handle.h"
#include "fs/mirror.h"
#include "fs/space_hooks.h"
#include "sched/gate.h"

#ifndef FUSE_DEV_IOC_BACKING_OPEN
struct fuse_backing_map {
	int32_t fd;
	uint32_t flags;
	uint64_t padding;
};
#define FUSE_DEV_IOC_BACKING_OPEN  _IOW(229, 1, struct fuse_backing_map)
#define FUSE_DEV_IOC_BACKING_CLOSE _IOW(229, 2, uint32_t)
#endif

static bool limited(const struct fs *fs)
{
	switch (fs->cfg.cache) {
	case CACHE_STRICT:
		return true;
	case CACHE_PAGE:
		return false;
	case CACHE_AUTO:
		break;
	}
	return fs->cfg.gate_mount && !(gate_unlimited(fs->cfg.gate_mount, COST_READ) &&
				       gate_unlimited(fs->cfg.gate_mount, COST_WRITE));
}

/* 0: not possible for this file.  The kernel transfers the data with the credentials of the thread
 * that registers the file.  Without CAP_FSETID, writes clear set-id bits, as they do for nearly
 * every caller. */
static int32_t register_backing(struct fs *fs, const struct handle *h)
{
	struct fuse_backing_map map = {.fd = h->fd};
	if (creds_be_registrar(fs, h->uid, h->gid) < 0)
		return 0;
	int id = ioctl(fs->dev_fd, FUSE_DEV_IOC_BACKING_OPEN, &map);
	if (id > 0)
		return id;
	if (errno != ENOMEM && errno != EMFILE && errno != ENFILE && errno != EINVAL)
		atomic_store(&fs->passthrough_usable, false);
	return 0;
}

static void unregister_backing(struct fs *fs, const struct handle *h, int32_t id)
{
	uint32_t which = (uint32_t)id;
	if (id > 0 && creds_be_registrar(fs, h->uid, h->gid) == 0)
		(void)ioctl(fs->dev_fd, FUSE_DEV_IOC_BACKING_CLOSE, &which);
}

/* True: passthrough would behave differently from the source.  Root keeps set-id bits when it
 * writes; and O_APPEND and O_DIRECT can be cleared by fcntl (dd does for its last block), which
 * the file registered with the kernel does not follow. */
static bool needs_us(const struct handle *h, const struct stat *st)
{
	if (h->flags & (O_APPEND | O_DIRECT))
		return true;
	return (h->flags & O_ACCMODE) != O_RDONLY && (st->st_mode & (S_ISUID | S_ISGID));
}

/* While space is counted, no file is opened in passthrough, not even for reading: if another handle
 * then opened the file for writing, the kernel would map the backing file for it, and stores into
 * that mapping would bypass us. */
static enum io_mode choose_locked(struct fs *fs, const struct handle *h, struct open_state *o,
				  const struct stat *st)
{
	if (fs->cfg.cache == CACHE_PAGE)
		return IO_CACHED;
	/* Reserved blocks and quotas depend on the user who writes. */
	bool others = o->n_pass && o->backing_uid != h->uid && (h->flags & O_ACCMODE) != O_RDONLY;
	bool direct = limited(fs) || needs_us(h, st) || others || (o->n_pass && space_counts(fs));
	if (o->n_pass)
		return direct ? IO_PASS_DIRECT : IO_PASS;
	if (direct || o->n_direct)
		return IO_DIRECT;
	if (o->n_cached || space_counts(fs) ||
	    !atomic_load_explicit(&fs->passthrough_usable, memory_order_relaxed))
		return IO_CACHED;
	o->backing_id = register_backing(fs, h);
	o->backing_uid = h->uid;
	return o->backing_id ? IO_PASS : IO_CACHED;
}

static void count_bypass(struct fs *fs, const struct handle *h, int n)
{
	bool can_map = (h->flags & O_ACCMODE) != O_WRONLY;
	if (h->mode == IO_PASS)
		atomic_fetch_add_explicit(&fs->passthrough_handles, (uint64_t)n,
					  memory_order_relaxed);
	else if (h->mode == IO_PASS_DIRECT && can_map)
		atomic_fetch_add_explicit(&fs->passthrough_maps, (uint64_t)n, memory_order_relaxed);
}

static bool same_time(struct timespec a, struct timespec b)
{
	return a.tv_sec == b.tv_sec && a.tv_nsec == b.tv_nsec;
}

struct open_state *open_state_of_locked(struct inode *inode)
{
	if (!inode->open) {
		inode->open = calloc(1, sizeof(*inode->open));
		if (inode->open) {
			list_init(&inode->open->handles);
			overwrites_init(&inode->open->overwrites);
		}
	}
	return inode->open;
}

/* The page cache is kept if the file is as we left it: close-to-open consistency, as on NFS. */
static bool cache_is_fresh_locked(struct open_state *o, const struct stat *st)
{
	bool fresh = same_time(o->cached_mtime, st->st_mtim) && o->cached_size == st->st_size;
	o->cached_mtime = st->st_mtim;
	o->cached_size = st->st_size;
	return fresh;
}

/* Adds a handle, whose mode has been chosen, to the open_state of its inode. */
static void enter_locked(struct handle *h, struct open_state *o)
{
	list_push_tail(&o->handles, &h->of_inode);
	atomic_fetch_add_explicit(&h->inode->n_open, 1, memory_order_relaxed);
	switch (h->mode) {
	case IO_DIRECT:
		o->n_direct++;
		break;
	case IO_CACHED:
		o->n_cached++;
		break;
	case IO_PASS:
	case IO_PASS_DIRECT:
		o->n_pass++;
		h->mappable = (h->flags & O_ACCMODE) == O_RDWR;
		atomic_fetch_add_explicit(&h->inode->n_mappable, h->mappable, memory_order_relaxed);
		break;
	}
	h->direct_io = h->mode == IO_DIRECT || h->mode == IO_PASS_DIRECT;
	atomic_store_explicit(&h->bypasses, h->mode == IO_PASS, memory_order_release);
	atomic_store_explicit(&h->entered, true, memory_order_release);
}

void handle_enter_mode(struct fs *fs, struct handle *h)
{
	pthread_mutex_t *lock = inode_lock(fs, h->inode);
	pthread_mutex_lock(lock);
	enter_locked(h, h->inode->open);
	pthread_mutex_unlock(lock);
	space_opened(fs, h);
	count_bypass(fs, h, 1);
}

int handle_open_mode(struct fs *fs, struct handle *h, struct inode *inode, const struct stat *st,
		     struct fuse_file_info *fi)
{
	pthread_mutex_t *lock = inode_lock(fs, inode);
	pthread_mutex_lock(lock);
	struct open_state *o = open_state_of_locked(inode);
	if (!o) {
		pthread_mutex_unlock(lock);
		return -ENOMEM;
	}
	h->inode = inode;
	inode->nlookup++; /* until the handle is closed */
	h->mode = choose_locked(fs, h, o, st);
	enter_locked(h, o);
	if (h->mode == IO_CACHED)
		fi->keep_cache = cache_is_fresh_locked(o, st);
	else if (h->mode != IO_DIRECT)
		fi->backing_id = o->backing_id;
	pthread_mutex_unlock(lock);
	space_opened(fs, h);
	count_bypass(fs, h, 1);
	fi->direct_io = h->direct_io;
	fi->parallel_direct_writes = h->direct_io;
	fi->fh = h->number;
	return 0;
}

void handle_close_mode(struct fs *fs, struct handle *h)
{
	struct stat st;
	bool changed =
		h->mode == IO_CACHED && atomic_load(&h->written) && mirror_stat(h->fd, &st) == 0;
	pthread_mutex_t *lock = inode_lock(fs, h->inode);
	int32_t unused_id = 0;
	pthread_mutex_lock(lock);
	struct open_state *o = h->inode->open;
	list_remove(&h->of_inode);
	atomic_fetch_sub_explicit(&h->inode->n_open, 1, memory_order_relaxed);
	switch (h->mode) {
	case IO_DIRECT:
		o->n_direct--;
		break;
	case IO_CACHED:
		o->n_cached--;
		if (changed)
			cache_is_fresh_locked(o, &st);
		break;
	case IO_PASS:
	case IO_PASS_DIRECT:
		atomic_fetch_sub_explicit(&h->inode->n_mappable, h->mappable, memory_order_relaxed);
		if (--o->n_pass == 0) {
			unused_id = o->backing_id;
			o->backing_id = 0;
		}
		break;
	}
	pthread_mutex_unlock(lock);
	unregister_backing(fs, h, unused_id);
	count_bypass(fs, h, -1);
}
