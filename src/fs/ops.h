/* SPDX-License-Identifier: MIT */
/* The operations, by file.  Each replies exactly once (reply.h), on every path, unless its row says that it has
 * no answer. */
#ifndef FS_OPS_H
#define FS_OPS_H

struct request;

/* ops_meta.c */
void op_lookup(struct request *req);
void op_getattr(struct request *req);
void op_setattr(struct request *req);
void op_readlink(struct request *req);
void op_statfs(struct request *req);
void op_ioctl(struct request *req);
void op_statx(struct request *req); /* ops_statx.c */

/* ops_name.c */
void op_mknod(struct request *req);
void op_mkdir(struct request *req);
void op_symlink(struct request *req);
void op_link(struct request *req);
void op_unlink(struct request *req);
void op_rmdir(struct request *req);
void op_rename(struct request *req);
void op_rename2(struct request *req);

/* ops_dir.c */
void op_opendir(struct request *req);
void op_readdir(struct request *req);
void op_readdirplus(struct request *req);
void op_releasedir(struct request *req);

/* ops_file.c */
void op_open(struct request *req);
void op_create(struct request *req);
void op_tmpfile(struct request *req);
void op_flush(struct request *req);
void op_release(struct request *req);
void op_fsync(struct request *req); /* of directories as well */

/* ops_data.c */
void op_read(struct request *req);
void op_write(struct request *req);
void op_fallocate(struct request *req);
void op_lseek(struct request *req);
void op_copy_file_range(struct request *req);

/* ops_xattr.c */
void op_setxattr(struct request *req);
void op_getxattr(struct request *req);
void op_listxattr(struct request *req);
void op_removexattr(struct request *req);

/* ops_session.c: between the kernel and the mount. */
void op_init(struct request *req);
void op_destroy(struct request *req);
void op_forget(struct request *req);
void op_batch_forget(struct request *req);
void op_interrupt(struct request *req);
void op_ignore(struct request *req);
void op_unknown(struct request *req);
void op_poll(struct request *req); /* poll.c */

#endif
