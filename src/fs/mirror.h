/* SPDX-License-Identifier: MIT */
/* The inside of struct fs, shared by the files that carry operations out. */
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

struct fs {
	struct fs_config cfg; /* cfg.source is a copy */

	/* The source: a private clone of its mount where that is permitted, so that nothing which
	 * is mounted inside (this mount, for one) is ever entered.  Else no_xdev is set and every
	 * step refuses to cross a mount. */
	int root_fd;  /* O_PATH */
	int mount_fd; /* the same directory opened for reading: the anchor of file handles */
	int proc_fd;  /* /proc/self/fd */
	bool no_xdev;
	bool is_root;	    /* threads act as the caller */
	bool source_checks; /* by itself who is asking: see creds.h */
	bool by_handle;	    /* inodes can be reopened with open_by_handle_at */

	double attr_timeout_s, entry_timeout_s;
	uint64_t generation; /* of counted node ids: another for each life of the mount */
	struct durable_ids durable;
	struct inode_table inodes;
	/* Files are being replaced in the source: until then (CLOCK_MONOTONIC; 0: not at all) a lookup
	 * holds what it finds by fd. */
	_Atomic uint64_t hold_until_ns;
	struct habits habits;
	struct listings listings;

	/* What this mount may use of cfg.space, besides what all of its mirrors may; 0: no limit. */
	_Atomic uint64_t limit_bytes, limit_inodes;
	_Atomic bool quota_is_edquot;
	bool attached; /* to cfg.space */

	int dev_fd;			 /* of the session; -1 until fs_attach */
	_Atomic bool passthrough_usable; /* cleared by the first failure that will not pass */
	_Atomic uint64_t handles, passthrough_handles, passthrough_maps;
	struct handle_shard handle_shards[HANDLE_SHARDS];
};

static inline struct fs *fs_of(fuse_req_t req)
{
	return fuse_req_userdata(req);
}

/* "/proc/self/fd/N": the way from an O_PATH fd to calls that want a path or a real open. */
struct fd_path {
	char text[32];
};
struct fd_path fd_path(int fd);

/* One component below an O_PATH directory fd, never followed, no mount crossed.  fd or -errno. */
int mirror_open_child(const struct fs *fs, int dir_fd, const char *name);
/* stat of the same, without keeping an fd.  0 or -errno. */
int mirror_stat_child(const struct fs *fs, int dir_fd, const char *name, struct stat *st);
static inline int mirror_stat(int fd, struct stat *st)
{
	return fstatat(fd, "", st, AT_EMPTY_PATH) < 0 ? -errno : 0;
}
/* A real open of what an O_PATH fd holds.  fd or -errno; EMFILE is retried after inode fds were let
 * go. */
int mirror_reopen(struct fs *fs, int fd, int flags);

/* What fills pages must not stop short of the end of the file: to the kernel that is the end.
 * Bytes, or -1 with errno. */
ssize_t data_read_all(int fd, char *buf, size_t size, off_t off);

/* A name as it may come from the kernel: one component.  0 or -EINVAL. */
int mirror_check_name(const char *name);

/* What the kernel is told of a file.  A source may show several devices (subvolumes, an overlay), a
 * mount has but one: the numbers of all but the root's are made different, or two files would look
 * like two names of one. */
uint64_t mirror_shown_ino(const struct fs *fs, dev_t dev, uint64_t ino);
void mirror_show_owner(const struct fs *fs, uid_t *uid, gid_t *gid);
struct stat mirror_shown(const struct fs *fs, const struct stat *st);

/* Finds `name` in `dir`, takes one lookup reference and fills `e`.  0 or -errno. */
int mirror_lookup(struct fs *fs, const struct inode_ref *dir, const char *name,
		  struct fuse_entry_param *e);
/* The same for something that was just made and is held by `fd` (any kind of fd, not taken). */
int mirror_entry_of_fd(struct fs *fs, const struct inode_ref *dir, const char *name, int fd,
		       struct fuse_entry_param *e);
/* How long the kernel may remember attributes: not at all where they change without its notice.
 * `inode` may be NULL for what is no regular file. */
double mirror_attr_timeout_s(const struct fs *fs, const struct inode *inode, mode_t mode);
void mirror_fill_entry(const struct fs *fs, struct inode *inode, const struct stat *st,
		       struct fuse_entry_param *e);

/* The operations, by file. */
void op_lookup(fuse_req_t req, fuse_ino_t parent, const char *name);
void op_getattr(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi);
void op_setattr(fuse_req_t req, fuse_ino_t ino, struct stat *attr, int to_set,
		struct fuse_file_info *fi);
void op_readlink(fuse_req_t req, fuse_ino_t ino);
void op_statfs(fuse_req_t req, fuse_ino_t ino);
void op_ioctl(fuse_req_t req, fuse_ino_t ino, unsigned int cmd, void *arg,
	      struct fuse_file_info *fi, unsigned flags, const void *in_buf, size_t in_size,
	      size_t out_size);

void op_mknod(fuse_req_t req, fuse_ino_t parent, const char *name, mode_t mode, dev_t rdev);
void op_mkdir(fuse_req_t req, fuse_ino_t parent, const char *name, mode_t mode);
void op_symlink(fuse_req_t req, const char *target, fuse_ino_t parent, const char *name);
void op_link(fuse_req_t req, fuse_ino_t ino, fuse_ino_t newparent, const char *newname);
void op_unlink(fuse_req_t req, fuse_ino_t parent, const char *name);
void op_rmdir(fuse_req_t req, fuse_ino_t parent, const char *name);
void op_rename(fuse_req_t req, fuse_ino_t parent, const char *name, fuse_ino_t newparent,
	       const char *newname, unsigned int flags);

void op_opendir(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi);
void op_readdir(fuse_req_t req, fuse_ino_t ino, size_t size, off_t off, struct fuse_file_info *fi);
void op_readdirplus(fuse_req_t req, fuse_ino_t ino, size_t size, off_t off,
		    struct fuse_file_info *fi);
void dir_release(struct fs *fs, uint64_t fh);
void op_fsyncdir(fuse_req_t req, fuse_ino_t ino, int datasync, struct fuse_file_info *fi);

void op_open(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi);
void op_create(fuse_req_t req, fuse_ino_t parent, const char *name, mode_t mode,
	       struct fuse_file_info *fi);
void op_tmpfile(fuse_req_t req, fuse_ino_t parent, mode_t mode, struct fuse_file_info *fi);
void op_flush(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi);
void file_release(struct fs *fs, uint64_t fh);
void op_fsync(fuse_req_t req, fuse_ino_t ino, int datasync, struct fuse_file_info *fi);

void op_read(fuse_req_t req, fuse_ino_t ino, size_t size, off_t off, struct fuse_file_info *fi);
void op_write(fuse_req_t req, fuse_ino_t ino, const char *buf, size_t size, off_t off,
	      struct fuse_file_info *fi);
void op_fallocate(fuse_req_t req, fuse_ino_t ino, int mode, off_t offset, off_t length,
		  struct fuse_file_info *fi);
void op_lseek(fuse_req_t req, fuse_ino_t ino, off_t off, int whence, struct fuse_file_info *fi);
void op_copy_file_range(fuse_req_t req, fuse_ino_t ino_in, off_t off_in,
			struct fuse_file_info *fi_in, fuse_ino_t ino_out, off_t off_out,
			struct fuse_file_info *fi_out, size_t len, int flags);

void op_setxattr(fuse_req_t req, fuse_ino_t ino, const char *name, const char *value, size_t size,
		 int flags);
void op_getxattr(fuse_req_t req, fuse_ino_t ino, const char *name, size_t size);
void op_listxattr(fuse_req_t req, fuse_ino_t ino, size_t size);
void op_removexattr(fuse_req_t req, fuse_ino_t ino, const char *name);

#endif
