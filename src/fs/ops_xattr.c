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

#define ACL_ACCESS  "system.posix_acl_access"
#define ACL_DEFAULT "system.posix_acl_default"
#define TRUSTED	    "trusted."
#define USER	    "user."

/* An ACL is for the owner to change, and who does so from outside the file's group takes its
 * set-group-id bit away; what users store is theirs.  The rest is the kernel's to allow. */
static void be_who_matters(fuse_req_t req, const char *name)
{
	if (fuse_req_ctx(req)->uid != 0 && !strcmp(name, ACL_ACCESS))
		creds_be_caller_with_groups(fs_of(req), req);
	else if (!strcmp(name, ACL_DEFAULT) || !strncmp(name, USER, strlen(USER)))
		creds_be_caller(fs_of(req), req);
	else
		creds_be_daemon(fs_of(req));
}

void op_setxattr(fuse_req_t req, fuse_ino_t ino, const char *name, const char *value, size_t size,
		 int flags)
{
	struct fs *fs = fs_of(req);
	struct inode_ref ref;
	int res = inode_get(fs, ino, &ref);
	if (res == 0) {
		be_who_matters(req, name);
		res = setxattr(fd_path(ref.fd).text, name, value, size, flags) < 0 ? -errno : 0;
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
		be_who_matters(req, name);
		res = removexattr(fd_path(ref.fd).text, name) < 0 ? -errno : 0;
		inode_put(fs, &ref);
	}
	reply_status(req, res);
}

/* n: what the system call gave; the caller asked for `size` bytes, or with 0 for their number. */
static void answer(fuse_req_t req, ssize_t n, size_t size)
{
	if (n < 0)
		reply_status(req, (int)n);
	else if (size == 0)
		reply_size(req, (size_t)n);
	else if ((size_t)n > size)
		reply_status(req, -ERANGE);
	else
		reply_buf(req, fs_context.buffer, (size_t)n);
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

/* trusted.* is listed for the privileged only, and the daemon is. */
static size_t without_trusted(char *list, size_t len)
{
	size_t kept = 0;
	for (size_t at = 0; at < len;) {
		size_t n = strnlen(list + at, len - at) + 1;
		if (strncmp(list + at, TRUSTED, strlen(TRUSTED)) != 0) {
			memmove(list + kept, list + at, n);
			kept += n;
		}
		at += n;
	}
	return kept;
}

void op_listxattr(fuse_req_t req, fuse_ino_t ino, size_t size)
{
	struct fs *fs = fs_of(req);
	struct inode_ref ref;
	ssize_t n = inode_get(fs, ino, &ref);
	if (n == 0) {
		n = listxattr(fd_path(ref.fd).text, fs_context.buffer, XATTR_LIST_MAX);
		if (n < 0)
			n = -errno;
		inode_put(fs, &ref);
	}
	if (n > 0 && fs->is_root && fuse_req_ctx(req)->uid != 0)
		n = (ssize_t)without_trusted(fs_context.buffer, (size_t)n);
	answer(req, n, size);
}
