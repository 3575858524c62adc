/* SPDX-License-Identifier: MIT */
/* The tables of a mirror, written out and read back by another one of the same source. */
#include "fs/state.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "fs/fdlimit.h"
#include "fs/mirror.h"
#include "fs/request.h"
#include "unit/unit.h"

static char place[64];
static struct fuse_in_header head = {.pid = 11, .uid = 12, .gid = 13};

static struct fs *new_fs(bool by_handle)
{
	struct error err = {0};
	const struct fs_config cfg = {.source = place,
				      .cache = CACHE_STRICT,
				      .attr_timeout_s = -1,
				      .entry_timeout_s = -1};
	struct fs *fs = fs_new(&cfg, &err);
	ck_assert_msg(fs != NULL, "%s", err.text);
	if (!by_handle && fs->by_handle) { /* as for those who may not use handles */
		fs->by_handle = false;
		durable_init(&fs->durable, fs, fs->root_fd);
	}
	return fs;
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	return remove(path);
}

static void make_place(void)
{
	strcpy(place, "/tmp/ratefs-state-XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(place));
	int dir = open(place, O_RDONLY | O_DIRECTORY);
	ck_assert_int_eq(mkdirat(dir, "d", 0700), 0);
	for (const char **name = (const char *[]){"d/a", "d/b", "gone", NULL}; *name; name++) {
		int fd = openat(dir, *name, O_CREAT | O_WRONLY, 0600);
		ck_assert_int_eq(write(fd, *name, strlen(*name)), (ssize_t)strlen(*name));
		close(fd);
	}
	close(dir);
}

static void remove_place(void)
{
	ck_assert_int_eq(nftw(place, remove_one, 16, FTW_DEPTH | FTW_PHYS), 0);
}

static uint64_t look_up(struct fs *fs, uint64_t dir, const char *name)
{
	struct inode_ref ref;
	struct fuse_entry_param e;
	ck_assert_int_eq(inode_get(fs, dir, &ref), 0);
	ck_assert_int_eq(mirror_lookup(fs, &ref, name, &e), 0);
	inode_put(fs, &ref);
	return e.ino;
}

static struct handle *open_file(struct fs *fs, uint64_t id, int flags)
{
	struct request req = {.fs = fs, .in = &head};
	struct inode_ref ref;
	struct stat st;
	struct fuse_file_info fi = {0};
	ck_assert_int_eq(handle_reserve(&req), 0);
	ck_assert_int_eq(inode_get(fs, id, &ref), 0);
	int fd = mirror_reopen(fs, ref.fd, flags);
	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(mirror_stat(fd, &st), 0);
	struct handle *h = handle_new(&req, &fd, flags);
	ck_assert_int_eq(handle_open_mode(fs, h, ref.inode, &st, &fi), 0);
	ck_assert_uint_eq(fi.fh, h->number);
	inode_put(fs, &ref);
	return h;
}

static void close_file(struct fs *fs, struct handle *h)
{
	struct inode *inode = h->inode;
	handle_close_mode(fs, h);
	handle_free(fs, h);
	inode_unref(fs, inode, 1);
}

static void holds(struct fs *fs, uint64_t id, const char *text)
{
	char buf[16] = "";
	struct inode_ref ref;
	ck_assert_int_eq(inode_get(fs, id, &ref), 0);
	int fd = mirror_reopen(fs, ref.fd, O_RDONLY);
	ck_assert_int_ge(fd, 0);
	ck_assert_int_ge(read(fd, buf, sizeof(buf) - 1), 0);
	ck_assert_str_eq(buf, text);
	close(fd);
	inode_put(fs, &ref);
}

static void there_and_back(bool by_handle)
{
	make_place();
	struct fs *old = new_fs(by_handle);
	uint64_t d = look_up(old, FUSE_ROOT_ID, "d"), a = look_up(old, d, "a");
	uint64_t b = look_up(old, d, "b"), gone = look_up(old, FUSE_ROOT_ID, "gone");
	ck_assert_uint_eq(look_up(old, d, "a"), a); /* twice: two references */
	struct handle *reader = open_file(old, a, O_RDONLY), *writer = open_file(old, b, O_RDWR);
	struct handle *closed = open_file(old, b, O_RDONLY);
	uint64_t stale = closed->number;
	close_file(old, closed);
	uint64_t kept = inode_keep_unlinked(old, old->root_fd, "gone", &(struct stat){0});
	ck_assert_uint_eq(kept, gone);
	ck_assert_int_eq(unlinkat(old->root_fd, "gone", 0), 0);

	struct fs_state state = {0}, once_more = {0};
	ck_assert_int_eq(fs_state_save(old, &state), 0);
	struct fs *fs = new_fs(by_handle);
	ck_assert_int_eq(fs_state_load(fs, &state), 0);
	ck_assert_int_eq(fs_state_save(fs, &once_more), 0);
	ck_assert_uint_eq(once_more.len, state.len);
	ck_assert_uint_eq(once_more.n_fds, state.n_fds);
	uint64_t read_number = reader->number, written_number = writer->number;
	fs_state_free(&state);
	fs_state_free(&once_more);
	fs_free(old); /* nothing of it is shared */

	ck_assert_uint_eq(fs->inodes.n, 4);
	holds(fs, a, "d/a");
	holds(fs, b, "d/b");
	holds(fs, gone, "gone");
	const struct handle *h = handle_find(&fs->handle_table, read_number);
	ck_assert_ptr_nonnull(h);
	ck_assert(h->direct_io && h->mode == IO_DIRECT && h->flags == O_RDONLY);
	ck_assert(h->pid == 11 && h->uid == 12 && h->gid == 13);
	ck_assert_uint_eq(h->inode->id, a);
	char buf[4] = "";
	ck_assert_int_eq(pread(h->fd, buf, 3, 0), 3);
	ck_assert_str_eq(buf, "d/a");
	ck_assert_ptr_null(handle_find(&fs->handle_table, stale));

	/* It goes on from there: what is open is closed, what was looked up is forgotten. */
	close_file(fs, handle_find(&fs->handle_table, read_number));
	close_file(fs, handle_find(&fs->handle_table, written_number));
	ck_assert_uint_eq(fs->handles, 0);
	ck_assert_uint_eq(look_up(fs, d, "a"), a);
	inode_forget(fs, a, 3);
	inode_forget(fs, b, 1);
	inode_forget(fs, gone, 1);
	inode_forget(fs, d, 1);
	ck_assert_uint_eq(fs->inodes.n, 0);
	ck_assert_uint_eq(fs->inodes.n_fds, 0);
	fs_free(fs);
	remove_place();
}

START_TEST(a_later_daemon_knows_the_same_inodes_and_open_files)
{
	there_and_back(true); /* where the machine has file handles */
	there_and_back(false);
}
END_TEST

START_TEST(what_is_no_state_of_this_source_is_refused)
{
	make_place();
	struct fs *old = new_fs(true);
	uint64_t d = look_up(old, FUSE_ROOT_ID, "d");
	struct handle *h = open_file(old, look_up(old, d, "a"), O_RDONLY);
	ck_assert_ptr_nonnull(h);
	struct fs_state state = {0};
	ck_assert_int_eq(fs_state_save(old, &state), 0);
	for (size_t len = 0; len < state.len; len += 7) { /* cut anywhere */
		struct fs_state cut = state;
		cut.len = len;
		struct fs *fs = new_fs(true);
		ck_assert_int_eq(fs_state_load(fs, &cut), -EINVAL);
		fs_free(fs);
	}
	struct fs_state no_fds = state;
	no_fds.n_fds = 0;
	struct fs *fs = new_fs(true);
	ck_assert_int_eq(fs_state_load(fs, &no_fds), -EINVAL);
	fs_free(fs);
	state.data[0]++;
	fs = new_fs(true);
	ck_assert_int_eq(fs_state_load(fs, &state), -EINVAL);
	fs_free(fs);
	fs_state_free(&state);
	fs_free(old);
	remove_place();
}
END_TEST

UNIT_MAIN("state", a_later_daemon_knows_the_same_inodes_and_open_files,
	  what_is_no_state_of_this_source_is_refused)
