/* SPDX-License-Identifier: MIT */
#include "fs/durable.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/random.h>
#include <sys/statfs.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/siphash.h"
#include "base/util.h"
#include "fs/mirror.h"

/* Where the low half of the inode number and the generation are; each is 32 bits in native byte
 * order. */
struct handle_format {
	int32_t type;
	uint8_t bytes, number_at, generation_at;
};

static const struct handle_format formats[] = {
	{0x01, 8, 0, 4},   /* ext4, ext2, f2fs and others */
	{0x01, 12, 4, 0},  /* tmpfs */
	{0x81, 12, 0, 8},  /* XFS */
	{0x4d, 20, 0, 16}, /* Btrfs; the subvolume is that of the root */
};

static void put_word(struct fhandle *fh, unsigned at, uint32_t word)
{
	memcpy(fh->data + at, &word, sizeof(word));
}

static uint32_t get_word(const struct fhandle *fh, unsigned at)
{
	uint32_t word;
	memcpy(&word, fh->data + at, sizeof(word));
	return word;
}

static bool same(const struct fhandle *a, const struct fhandle *b)
{
	return a->type == b->type && a->bytes == b->bytes &&
	       memcmp(a->data, b->data, a->bytes) == 0;
}

uint64_t durable_number(uint64_t id)
{
	return id >> 32;
}

bool durable_handle(const struct durable_ids *d, uint64_t id, struct fhandle *out)
{
	if (!d->format || (id & COUNTED_ID))
		return false;
	*out = d->root;
	put_word(out, d->format->number_at, (uint32_t)durable_number(id));
	put_word(out, d->format->generation_at, (uint32_t)id);
	return true;
}

uint64_t durable_id(const struct durable_ids *d, const struct stat *st, const struct fhandle *fh)
{
	struct fhandle back;
	const struct handle_format *f = d->format;
	if (!f || fh->type != f->type || fh->bytes != f->bytes || st->st_dev != d->dev)
		return 0;
	uint64_t number = get_word(fh, f->number_at);
	uint64_t id = number << 32 | get_word(fh, f->generation_at);
	if (number != st->st_ino || !number || !durable_handle(d, id, &back) || !same(&back, fh))
		return 0;
	return id;
}

uint32_t durable_generation(const struct durable_ids *d, uint64_t id)
{
	return (uint32_t)siphash(d->key, &id, sizeof(id));
}

/* Derives the key from values that the next daemon finds again but other users cannot know. */
static void make_key(struct durable_ids *d, const struct fs *fs)
{
	struct {
		char machine[32];
		struct fhandle root;
		fsid_t filesystem;
	} of;
	memset(&of, 0, sizeof(of));
	struct statfs st;
	AUTO_FD fd = open("/etc/machine-id", O_RDONLY | O_CLOEXEC);
	if (fd < 0 || read(fd, of.machine, sizeof(of.machine)) != (ssize_t)sizeof(of.machine) ||
	    fstatfs(fs->root_fd, &st) < 0) {
		if (getrandom(d->key, sizeof(d->key), 0) == (ssize_t)sizeof(d->key))
			return;
	} else {
		of.filesystem = st.f_fsid;
	}
	of.root.type = d->root.type;
	of.root.bytes = d->root.bytes;
	memcpy(of.root.data, d->root.data, d->root.bytes);
	for (uint64_t i = 0; i < ARRAY_SIZE(d->key); i++)
		d->key[i] = siphash((uint64_t[2]){i, 0}, &of, sizeof(of));
}

void durable_init(struct durable_ids *d, const struct fs *fs, int root_fd)
{
	struct stat st;
	*d = (struct durable_ids){0};
	if (!fs->by_handle || mirror_stat(root_fd, &st) < 0)
		return;
	fhandle_of(fs, root_fd, "", &d->root);
	d->dev = st.st_dev;
	for (unsigned i = 0; i < ARRAY_SIZE(formats) && !d->format; i++) {
		d->format = &formats[i];
		if (!durable_id(d, &st, &d->root))
			d->format = NULL;
	}
	if (d->format)
		make_key(d, fs);
}
