/* SPDX-License-Identifier: MIT */
/* Extended attributes, including ACLs.  The f*xattr calls do not accept an O_PATH fd, so its path
 * in /proc is used instead; it leads to the inode itself, even if that is a symbolic link. */
#include <errno.h>
#include <linux/limits.h>
#include <string.h>
#include <sys/xattr.h>

#include "base/util.h"
#include "fs/creds.h"
#include "fs/mirror.h"
#include "fs/ops.h"
#include "fs/reply.h"
#include "fs/space_hooks.h"

#define ACL_ACCESS "system.posix_acl_access"
#define CAPABILITY "security.capability"

/* Attributes are changed with the caller's rights.  A caller outside the file's group that changes
 * an ACL clears the set-group-id bit, so its groups are needed.  File capabilities are also removed
 * when somebody writes: the kernel then sends the message on behalf of the writer, who could not do
 * it itself. */
static int be_changer(struct request *req, const char *name)
{
	if (req->in->uid != 0 && !strcmp(name, ACL_ACCESS))
		return creds_be_member(req->fs, req);
	if (!strcmp(name, CAPABILITY))
		return creds_be_capability_setter(req->fs, req);
	return creds_be_plain_caller(req->fs, req);
}

/* Finds the name of the attribute, and the inode.  0 or -errno. */
static int get_named(struct request *req, const char **name, struct inode_ref *ref)
{
	*name = request_name(req, 0);
	return *name ? inode_get(req->fs, req->in->nodeid, ref) : -EINVAL;
}

void op_setxattr(struct request *req)
{
	const struct fuse_setxattr_in *in = req->args; /* its first two fields only */
	struct inode_ref ref;
	const char *name;
	int res = get_named(req, &name, &ref);
	if (res == 0) {
		const char *value = name + strlen(name) + 1;
		size_t room = (size_t)(req->payload + req->payload_len - value);
		res = in->size > room ? -EINVAL : be_changer(req, name);
		struct space_op space = {0};
		if (res == 0)
			res = space_change_begin(&space, req->fs, ref.inode, ref.fd,
						 space_xattr_bytes(req->fs, name, in->size));
		if (res == 0 &&
		    setxattr(fd_path(ref.fd).text, name, value, in->size, (int)in->flags) < 0)
			res = -errno;
		space_end(&space, ref.fd);
		req->bytes_moved = in->size;
		inode_put(req->fs, &ref);
	}
	reply_status(req, res);
}

void op_removexattr(struct request *req)
{
	struct fs *fs = req->fs;
	struct inode_ref ref;
	const char *name;
	int res = get_named(req, &name, &ref);
	if (res == 0) {
		struct space_op space = {0};
		res = be_changer(req, name);
		if (res == 0)
			res = space_change_begin(&space, fs, ref.inode, ref.fd, 0);
		if (res == 0 && removexattr(fd_path(ref.fd).text, name) < 0)
			res = -errno;
		space_end(&space, ref.fd);
		inode_put(fs, &ref);
	}
	reply_status(req, res);
}

/* n: result of the system call.  The caller asked for `size` bytes, or (size 0) for their
 * number. */
static void answer(struct request *req, ssize_t n, size_t size)
{
	if (n < 0) {
		reply_status(req, (int)n);
	} else if (size == 0) {
		reply_size(req, (size_t)n);
	} else if ((size_t)n > size) {
		reply_status(req, -ERANGE);
	} else {
		req->bytes_moved = (uint64_t)n;
		reply_buf(req, req->buffer, (size_t)n);
	}
}

void op_getxattr(struct request *req)
{
	const struct fuse_getxattr_in *in = req->args;
	struct fs *fs = req->fs;
	struct inode_ref ref;
	const char *name;
	size_t size = min_u64(in->size, FS_BUFFER_SIZE);
	ssize_t n = get_named(req, &name, &ref);
	if (n == 0) {
		n = getxattr(fd_path(ref.fd).text, name, req->buffer, size);
		if (n < 0)
			n = -errno;
		inode_put(fs, &ref);
	}
	answer(req, n, size);
}

void op_listxattr(struct request *req)
{
	const struct fuse_getxattr_in *in = req->args;
	struct fs *fs = req->fs;
	struct inode_ref ref;
	size_t size = in->size;
	ssize_t n = inode_get(fs, req->in->nodeid, &ref);
	if (n == 0) {
		n = creds_be_plain_caller(fs, req); /* only CAP_SYS_ADMIN may see trusted.* */
		if (n == 0) {
			n = listxattr(fd_path(ref.fd).text, req->buffer, XATTR_LIST_MAX);
			if (n < 0)
				n = -errno;
		}
		inode_put(fs, &ref);
	}
	answer(req, n, size);
}
