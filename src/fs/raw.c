/* SPDX-License-Identifier: MIT */
/* Messages that are answered from their raw form: those that libfuse 3.17 does not know, large reads,
 * which go by splice, and those that give something back (release, forget), which must not need memory:
 * libfuse allocates for each message and drops it where it cannot. */
#include <errno.h>
#include <fcntl.h>
#include <linux/fuse.h>
#include <linux/stat.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/util.h"
#include "fs/context.h"
#include "fs/handle.h"
#include "fs/mirror.h"
#include "fs/splice.h"
#include "fs/wire.h"

struct statx_in {
	uint32_t getattr_flags;
	uint32_t reserved;
	uint64_t fh;
	uint32_t sx_flags;
	uint32_t sx_mask;
};

struct statx_out {
	uint64_t attr_valid_s;
	uint32_t attr_valid_ns;
	uint32_t flags;
	uint64_t spare[2];
	struct statx stat; /* bit by bit the same as the kernel's struct fuse_statx */
};

static void send_reply(struct fuse_session *se, uint64_t unique, int res, void *body, size_t size)
{
	struct fuse_out_header out = {
		.len = (uint32_t)(sizeof(out) + (res ? 0 : size)), .error = res, .unique = unique};
	struct iovec iov[2] = {{&out, sizeof(out)}, {body, size}};
	fs_context.error = -res;
	ssize_t n = writev(fuse_session_fd(se), iov, res ? 1 : 2);
	(void)n; /* ENOENT: the caller is gone; nothing was handed over */
}

static int do_statx(struct fs *fs, uint64_t nodeid, const struct statx_in *in,
		    struct statx_out *out)
{
	struct inode_ref ref = INODE_REF_INIT;
	const struct inode *inode;
	int fd;
	if (in->getattr_flags & FUSE_GETATTR_FH) {
		fd = handle_from_fh(in->fh)->fd;
		inode = handle_from_fh(in->fh)->inode;
	} else {
		int res = inode_get(fs, nodeid, &ref);
		if (res < 0)
			return res;
		fd = ref.fd;
		inode = ref.inode;
	}
	struct statx *st = &out->stat;
	int res =
		statx(fd, "", AT_EMPTY_PATH | (int)in->sx_flags, in->sx_mask, st) < 0 ? -errno : 0;
	mirror_show_owner(fs, &st->stx_uid, &st->stx_gid);
	double timeout_s = res == 0 ? mirror_attr_timeout_s(fs, inode, st->stx_mode) : 0;
	out->attr_valid_s = (uint64_t)timeout_s;
	out->attr_valid_ns = (uint32_t)((timeout_s - (double)out->attr_valid_s) * 1e9);
	inode_put(fs, &ref);
	return res;
}

static bool release_or_forget(struct fs *fs, struct fuse_session *se,
			      const struct fuse_in_header *head, size_t len)
{
	const struct fuse_release_in *release = wire_args(head, len, struct fuse_release_in);
	const struct fuse_forget_in *forget = wire_args(head, len, struct fuse_forget_in);
	const struct fuse_batch_forget_in *batch =
		wire_args(head, len, struct fuse_batch_forget_in);
	switch (head->opcode) {
	case FUSE_RELEASE:
	case FUSE_RELEASEDIR:
		if (!release)
			return false;
		if (head->opcode == FUSE_RELEASE)
			file_release(fs, release->fh);
		else
			dir_release(fs, release->fh);
		send_reply(se, head->unique, 0, NULL, 0);
		return true;
	case FUSE_FORGET: /* neither of these has an answer */
		if (forget)
			inode_forget(fs, head->nodeid, forget->nlookup);
		return true;
	case FUSE_BATCH_FORGET: {
		if (!batch)
			return true;
		const struct fuse_forget_one *one = (const void *)(batch + 1);
		size_t most = (size_t)((const char *)head + len - (const char *)one) / sizeof(*one);
		for (size_t i = 0; i < most && i < batch->count; i++)
			inode_forget(fs, one[i].nodeid, one[i].nlookup);
		return true;
	}
	default:
		return false;
	}
}

bool fs_process_raw(struct fs *fs, struct fuse_session *se, const void *msg, size_t len)
{
	const struct fuse_in_header *head = msg;
	if (len < sizeof(*head))
		return false;
	/* What libfuse looks at for allow_root. */
	if (fs->cfg.owner_only && head->uid != 0 && head->uid != geteuid() &&
	    head->opcode == WIRE_STATX) {
		send_reply(se, head->unique, -EACCES, NULL, 0);
		return true;
	}
	if (head->opcode == WIRE_STATX && len >= sizeof(*head) + sizeof(struct statx_in)) {
		struct statx_in in;
		memcpy(&in, head + 1, sizeof(in));
		struct statx_out out = {0};
		int res = do_statx(fs, head->nodeid, &in, &out);
		dev_t dev = makedev(out.stat.stx_dev_major, out.stat.stx_dev_minor);
		out.stat.stx_ino = mirror_shown_ino(fs, dev, out.stat.stx_ino);
		send_reply(se, head->unique, res, &out, sizeof(out));
		return true;
	}
	if (head->opcode == FUSE_READ && len >= sizeof(*head) + sizeof(struct fuse_read_in)) {
		const struct fuse_read_in *in = (const struct fuse_read_in *)(head + 1);
		struct handle *h = handle_from_fh(in->fh);
		/* What goes past the page cache says for whom. */
		if (!(in->read_flags & FUSE_READ_LOCKOWNER))
			overwrite_pages_filled(&h->inode->open->overwrites, in->offset, in->size);
		int direct =
			(atomic_load_explicit(&h->flags, memory_order_relaxed) | (int)in->flags) &
			O_DIRECT;
		return !direct && !fs->cfg.debug &&
		       splice_read(fuse_session_fd(se), head->unique, h->fd, in->size,
				   (off_t)in->offset);
	}
	return release_or_forget(fs, se, head, len);
}
