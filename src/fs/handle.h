/* SPDX-License-Identifier: MIT */
/* An open file or directory: what fi->fh points to. */
#ifndef FS_HANDLE_H
#define FS_HANDLE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/types.h>
#include <time.h>

#include <fuse_lowlevel.h>

#include "base/list.h"
#include "base/util.h"
#include "fs/overwrite.h"

struct fs;
struct fs_opener;
struct inode;
struct open_way;
struct space_slot;

enum io_mode {
	IO_DIRECT,	/* every read and write reaches us */
	IO_CACHED,	/* the kernel's page cache */
	IO_PASS,	/* kernel passthrough: reads and writes bypass us */
	IO_PASS_DIRECT, /* limited while other handles of the file are in passthrough; not its maps */
};

struct dir_stream {
	pthread_mutex_t lock;
	char *buf; /* of getdents64; NULL until first read */
	size_t pos, len;
	off_t next; /* offset of the entry at pos */
};

struct handle {
	int fd;
	_Atomic int flags; /* as opened; O_DIRECT and O_APPEND follow fcntl(F_SETFL) */
	enum io_mode mode;
	bool direct_io; /* reads and writes come as the program made them */
	bool mappable;	/* stores into a map of it pass us by */
	_Atomic bool written;
	_Atomic bool bypasses; /* its reads and writes do not reach the daemon: mode is IO_PASS */
	_Atomic uint64_t listener[2]; /* read, write: the kernel's name of who polls it; 0: nobody */
	bool membership_matters;      /* to writes: see creds_be_writer */
	bool append_only;	      /* the backing file can only be opened so */
	pid_t pid;		      /* the opener: release and write-back come without one */
	uid_t uid;
	gid_t gid;
	const struct open_way *counted; /* where max_open counts it; NULL: nowhere */
	struct inode *inode;
	_Atomic(struct space_slot *) slot; /* where its space is counted; NULL: not yet */
	struct list of_inode;		   /* in open_state->handles */
	struct list of_fs;		   /* in handle_shard->handles */
	struct dir_stream *dir;		   /* directories only */
};

static inline struct handle *handle_from_fh(uint64_t fh)
{
	return (struct handle *)(uintptr_t)fh;
}

/* What the open files of one inode agree on.  Guarded by inode_lock, but `overwrites` by its own. */
struct open_state {
	struct list handles;
	unsigned n_direct, n_cached, n_pass; /* n_pass counts IO_PASS and IO_PASS_DIRECT */
	int32_t backing_id;		     /* of all n_pass handles; 0: none */
	uid_t backing_uid;		     /* with whose credentials it acts */
	/* The data that the page cache may hold is as of these. */
	struct timespec cached_mtime;
	off_t cached_size;
	struct overwrites overwrites;
};

static inline void open_state_free(struct open_state *o)
{
	if (o)
		overwrites_destroy(&o->overwrites);
	free(o);
}

/* All handles of a mount, for its end: the kernel does not release those that are open when the
 * connection is cut.  In parts, so that opens seldom meet. */
#define HANDLE_SHARDS 16
struct handle_shard {
	_Alignas(CACHE_LINE) pthread_mutex_t lock;
	struct list handles;
};
void handles_init(struct fs *fs);
/* See fs_mount_bypassing. */
unsigned handles_bypassing(struct fs *fs, struct fs_opener *out, unsigned n);
/* Those whose writes do not reach us are looked at from now on. */
void handles_adopt_bypassing(struct fs *fs);
void handles_free(struct fs *fs); /* no thread runs an operation any more */

/* -ENFILE when max_open is reached, or when the user has more than its share of what the process
 * can open.  The reservation passes to the handle that is made next; handle_free gives it back. */
int handle_reserve(fuse_req_t req);
void handle_unreserve(fuse_req_t req);

/* Takes *fd.  NULL: out of memory, *fd untouched. */
struct handle *handle_new(fuse_req_t req, int *fd, int flags);
void handle_free(struct fs *fs, struct handle *h);

/* Decides how the data of a newly opened regular file goes, enters the handle into its inode's
 * state and fills the answer to the kernel.  0 or -ENOMEM.  `st` is the file as it is now. */
int handle_open_mode(struct fs *fs, struct handle *h, struct inode *inode, const struct stat *st,
		     struct fuse_file_info *fi);
/* Before handle_free. */
void handle_close_mode(struct fs *fs, struct handle *h);

#endif
