/* SPDX-License-Identifier: MIT */
/* The inside of struct fs, shared by the files that carry out operations. */
#ifndef FS_MIRROR_H
#define FS_MIRROR_H

#include <errno.h>
#include <fcntl.h>
#include <fuse_lowlevel.h>
#include <stdatomic.h>
#include <sys/stat.h>

#include "fs/durable.h"
#include "fs/fs.h"
#include "fs/habit.h"
#include "fs/listing.h"
#include "fs/handle.h"
#include "fs/inode.h"

struct fs_mount;

/* Where the source keeps its data; this determines when calls to it may block. */
enum source_kind {
	SOURCE_UNKNOWN, /* perhaps on the network or in another program: always */
	SOURCE_DISK,	/* on data that is not in the kernel's memory, and on changes */
	SOURCE_MEMORY	/* never */
};

struct fs {
	struct fs_config cfg; /* cfg.source is a copy */

	/* The source: a private clone of its mount if that is permitted, so that nothing mounted
	 * inside (for example this mount) is ever entered.  Otherwise no_xdev is set, and every
	 * step refuses to cross a mount. */
	int root_fd;  /* O_PATH */
	int mount_fd; /* the same directory, opened for reading: used to open file handles */
	int proc_fd;  /* /proc/self/fd */
	bool no_xdev;
	bool is_root;	    /* threads act as the caller */
	bool source_checks; /* checks identity itself: see creds.h */
	enum source_kind kind;
	bool by_handle; /* inodes can be reopened with open_by_handle_at */

	double attr_timeout_s, entry_timeout_s;
	/* cache=strict: how long attributes are valid for the system call that is in progress,
	 * which may need them twice: the shortest time that the kernel can handle.  0: not at
	 * all. */
	double moment_s;
	uint64_t generation; /* of counted node IDs: different for each mount */
	struct durable_ids durable;
	struct inode_table inodes;
	/* While files are being replaced in the source, a lookup keeps an fd of what it finds,
	 * until this time (CLOCK_MONOTONIC; 0: not now). */
	_Atomic uint64_t hold_until_ns;
	struct habits habits;
	struct listings listings;

	/* The limits of this mount, in addition to those of cfg.space for all of its mirrors; 0:
	 * none. */
	_Atomic uint64_t limit_bytes, limit_inodes;
	_Atomic bool quota_is_edquot;
	bool attached;	      /* to cfg.space */
	struct list of_space; /* in cfg.space->mirrors */

	int dev_fd; /* of the session; -1 until fs_attach */
	bool (*is_behind)(struct fs_mount *m, uint64_t *unsure); /* receivers_are_behind, or NULL */
	struct fs_mount *mount;					 /* its argument */
	_Atomic bool passthrough_usable; /* cleared by the first failure that is permanent */
	_Atomic uint64_t handles, passthrough_handles, passthrough_maps;
	struct handle_table handle_table;
};

/* "/proc/self/fd/N": lets an O_PATH fd be used in calls that need a path or a real open. */
struct fd_path {
	char text[32];
};
struct fd_path fd_path(int fd);

/* Opens one component below an O_PATH directory fd, without following links or crossing mounts.
 * fd or -errno. */
int mirror_open_child(const struct fs *fs, int dir_fd, const char *name);
/* stat of the same, without keeping an fd.  0 or -errno. */
int mirror_stat_child(const struct fs *fs, int dir_fd, const char *name, struct stat *st);
static inline int mirror_stat(int fd, struct stat *st)
{
	return fstatat(fd, "", st, AT_EMPTY_PATH) < 0 ? -errno : 0;
}
/* Really opens what an O_PATH fd refers to.  fd or -errno; after EMFILE it closes inode fds and
 * retries. */
int mirror_reopen(struct fs *fs, int fd, int flags);

/* True: the file has so many blocks that freeing them takes long, even in memory. */
static inline bool mirror_is_large(const struct stat *st)
{
	return (uint64_t)st->st_blocks * 512 >= 64ULL << 20;
}
bool mirror_is_long_to_cut(int fd);

/* Reads until the end of the file: when filling pages, the kernel takes a short read for the end.
 * Bytes, or -1 with errno. */
ssize_t data_read_all(int fd, char *buf, size_t size, off_t off);

/* Checks that a name from the kernel is one component.  0 or -EINVAL. */
int mirror_check_name(const char *name);

/* The inode number shown to the kernel.  A source may consist of several devices (subvolumes, an
 * overlay), but a mount is one device: numbers of all devices but the root's are changed, since
 * otherwise two files could look like two names of one. */
uint64_t mirror_shown_ino(const struct fs *fs, dev_t dev, uint64_t ino);
void mirror_show_owner(const struct fs *fs, uid_t *uid, gid_t *gid);
struct stat mirror_shown(const struct fs *fs, const struct stat *st);

/* True if a lookup of this name would not have to read the directory. */
bool mirror_has_cached(int dir_fd, const char *name);
/* Finds `name` in `dir`, takes one lookup reference and fills `e`.  0 or -errno. */
int mirror_lookup(struct fs *fs, const struct inode_ref *dir, const char *name,
		  struct fuse_entry_param *e);
/* The same for something that was just created and is held by `fd` (any kind of fd, not taken
 * over). */
int mirror_entry_of_fd(struct fs *fs, const struct inode_ref *dir, const char *name, int fd,
		       struct fuse_entry_param *e);
/* How long the kernel may cache attributes: not at all if they can change without its notice.
 * `inode` may be NULL for anything but regular files.
 *
 * With cache=strict nothing is cached beyond one system call, but within a call the kernel would
 * ask for some attributes twice: for a permission check it needs those of each directory on the
 * path and of a file to be opened, and after a lookup those of the file found.  So the attributes
 * of a directory are valid for a moment (until the second timer tick from now), and so are those
 * that a lookup returns for a file that nobody has open.  Every call still reaches the daemon, with
 * its lookup or with its request on an open file. */
double mirror_attr_timeout_s(const struct fs *fs, const struct inode *inode, mode_t mode);
/* Invalidates the attributes that a lookup returned, before the reply to an open: fstat must ask
 * for them again. */
void mirror_end_moment(const struct fs *fs, uint64_t ino);
void mirror_fill_entry(const struct fs *fs, struct inode *inode, const struct stat *st,
		       struct fuse_entry_param *e);

#endif
