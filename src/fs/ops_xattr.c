/* SPDX-License-Identifier: MIT */
/* Extended attributes, ACLs among them.  An O_PATH fd takes none of the f*xattr calls, its path in
 * /proc does, and ends at the inode itself, a symbolic link included. */
#include <errno.h>
#include <linux/limits.h>
#include <string.h>
#include <sys/xattr.h>

#include "fs/context.h"
#include "fs/creds.h"
#include "fs/mirror.h"
#include "fs/reply.h"
#include "fs/space_hooks.h"

#define ACL_ACCESS "system.posix_acl_access"
#define CAPABILITY "security.capability"

/* To change an attribute is the caller's own doing, whatever its name.  Who changes an ACL from outside
 * the file's group takes its set-group-id bit away.  File capabilities also go when somebody writes:
 * the kernel then removes them by a message from the writer, who could not by itself. */
static int be_changer(fuse_req_t req, const char *name)
{
	if (fuse_req_ctx(req)->uid != 0 && !strcmp(name, ACL_ACCESS))
		return creds_be_member(fs_of(req), req);
	if (!strcmp(name, CAPABILITY))
		return creds_be_capability_setter(fs_of(req), req);
	return creds_be_plain_caller(fs_of(req), req);
}

void op_setxattr(fuse_req_t req, fuse_ino_t ino, const char *name, const char *value, size_t size,
		 int flags)
{
	struct fs *fs = fs_of(req);
	struct inode_ref ref;
	int res = inode_get(fs, ino, &ref);
	if (res == 0) {
		struct space_op space = {0};
		res = be_changer(req, name);
		if (res == 0)
			res = space_change_begin(&space, fs, ref.inode, ref.fd,
						 space_xattr_bytes(fs, name, size), 0);
		if (res == 0 && setxattr(fd_path(ref.fd).text, name, value, size, flags) < 0)
			res = -errno;
		space_end(&space, ref.fd);
		fs_context.bytes_moved = size;
		inode_put(fs, &ref);
	}
	reply_status(req, res);
}

void op_removexattr(fuse_req_t req, fuse_ino_t ino, const char *name)
{
	struct fs *fs = fs_of(req);
	struct inode_ref ref;
	int res = inode_get(fs, ino, &ref);
	if (res == 0) {
		struct space_op space = {0};
		res = be_changer(req, name);
		if (res == 0)
			res = space_change_begin(&space, fs, ref.inode, ref.fd, 0, 0);
		if (res == 0 && removexattr(fd_path(ref.fd).text, name) < 0)
			res = -errno;
		space_end(&space, ref.fd);
		inode_put(fs, &ref);
	}
	reply_status(req, res);
}

/* n: what the system call gave; the caller asked for `size` bytes, or with 0 for their number. */
static void answer(fuse_req_t req, ssize_t n, size_t size)
{
	if (n < 0) {
		reply_status(req, (int)n);
	} else if (size == 0) {
		reply_size(req, (size_t)n);
	} else if ((size_t)n > size) {
		reply_status(req, -ERANGE);
	} else {
		fs_context.bytes_moved = (uint64_t)n;
		reply_buf(req, fs_context.buffer, (size_t)n);
	}
}

void op_getxattr(fuse_req_t req, fuse_ino_t ino, const char *name, size_t size)
{
	struct fs *fs = fs_of(req);
	struct inode_ref ref;
	ssize_t n = inode_get(fs, ino, &ref);
	if (n == 0) {
		if (size > FS_BUFFER_SIZE)
			size = FS_BUFFER_SIZE;
		n = getxattr(fd_path(ref.fd).text, name, fs_context.buffer, size);
		if (n < 0)
			n = -errno;
		inode_put(fs, &ref);
	}
	answer(req, n, size);
}

void op_listxattr(fuse_req_t req, fuse_ino_t ino, size_t size)
{
	struct fs *fs = fs_of(req);
	struct inode_ref ref;
	ssize_t n = inode_get(fs, ino, &ref);
	if (n == 0) {
		n = creds_be_plain_caller(fs, req); /* trusted.* is for the privileged */
		if (n == 0) {
			n = listxattr(fd_path(ref.fd).text, fs_context.buffer, XATTR_LIST_MAX);
			if (n < 0)
				n = -errno;
		}
		inode_put(fs, &ref);
	}
	answer(req, n, size);
}
