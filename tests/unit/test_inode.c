/* SPDX-License-Identifier: MIT */
/* The inode table over a directory of its own, by file handle where the machine has them and by
 * name everywhere. */
#include <fcntl.h>
#include <ftw.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "fs/fdlimit.h"
#include "fs/inode_table.h"
#include "fs/mirror.h"
#include "fs/ops.h"
#include "fs/request.h"
#include "fs/wire.h"
#include "unit/unit.h"

static char place[64];

static struct fs *new_fs(bool by_handle)
{
	struct fs *fs = aligned_alloc(64, (sizeof(*fs) + 63) / 64 * 64);
	ck_assert_ptr_nonnull(fs);
	memset(fs, 0, sizeof(*fs));
	strcpy(place, "/tmp/ratefs-unit-XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(place));
	fs->root_fd = open(place, O_PATH | O_DIRECTORY | O_CLOEXEC);
	fs->mount_fd = open(place, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	fs->proc_fd = open("/proc/self/fd", O_PATH | O_DIRECTORY | O_CLOEXEC);
	ck_assert_int_ge(fs->mount_fd, 0);
	fs->by_handle = by_handle;
	durable_init(&fs->durable, fs, fs->root_fd);
	ck_assert_int_eq(inode_table_init(fs, fs->root_fd), 0);
	return fs;
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	return remove(path);
}

static void end_fs(struct fs *fs)
{
	inode_table_free(fs);
	close(fs->root_fd);
	close(fs->mount_fd);
	close(fs->proc_fd);
	free(fs);
	ck_assert_int_eq(nftw(place, remove_one, 16, FTW_DEPTH | FTW_PHYS), 0);
}

static bool handles_work(void)
{
	struct fs *fs = new_fs(true);
	struct fhandle fh;
	fhandle_of(fs, fs->root_fd, "", &fh);
	int fd = fh.bytes ? fhandle_open(fs, &fh, O_PATH | O_CLOEXEC) : -1;
	if (fd >= 0)
		close(fd);
	end_fs(fs);
	return fd >= 0;
}

static void make_file(struct fs *fs, const char *name)
{
	int fd = openat(fs->root_fd, name, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
	ck_assert_int_ge(fd, 0);
	close(fd);
}

static uint64_t look_up(struct fs *fs, const char *name)
{
	struct inode_ref root;
	struct fuse_entry_param e;
	ck_assert_int_eq(inode_get(fs, FUSE_ROOT_ID, &root), 0);
	ck_assert_int_eq(mirror_lookup(fs, &root, name, &e), 0);
	inode_put(fs, &root);
	return e.ino;
}

static const char *path_of(const char *name)
{
	static char path[128];
	snprintf(path, sizeof(path), "%s/%s", place, name);
	return path;
}

static ino_t number_of(struct fs *fs, uint64_t id)
{
	struct inode_ref ref;
	struct stat st;
	ck_assert_int_eq(inode_get(fs, id, &ref), 0);
	ck_assert_int_eq(mirror_stat(ref.fd, &st), 0);
	inode_put(fs, &ref);
	return st.st_ino;
}

static void both_ways(void (*test)(struct fs *fs))
{
	if (handles_work()) {
		struct fs *fs = new_fs(true);
		test(fs);
		end_fs(fs);
	}
	struct fs *fs = new_fs(false);
	test(fs);
	end_fs(fs);
}

static void ids(struct fs *fs)
{
	make_file(fs, "a");
	ck_assert_int_eq(linkat(fs->root_fd, "a", fs->root_fd, "b", 0), 0);
	uint64_t id = look_up(fs, "a");
	ck_assert_uint_eq(look_up(fs, "b"), id);
	inode_forget(fs, id, 1);
	ck_assert_uint_eq(fs->inodes.n, 1);
	inode_forget(fs, id, 1);
	ck_assert_uint_eq(fs->inodes.n, 0);
	ck_assert_uint_eq(fs->inodes.n_fds, 0);
	struct inode_ref ref;
	ck_assert_int_eq(inode_get(fs, id, &ref), -ESTALE);
	ck_assert_int_eq(look_up(fs, "a") == id, fs->durable.format != NULL);
}

START_TEST(an_inode_has_one_id_also_after_it_was_forgotten_where_its_handle_fits)
{
	both_ways(ids);
}
END_TEST

/* 0 or -errno of remembering what is not in the table; its number must then be `ino`. */
static int remember(struct fs *fs, uint64_t id, ino_t ino)
{
	struct stat st;
	struct inode *inode;
	int res = inode_remember(fs, id, &st, &inode);
	if (res < 0)
		return res;
	ck_assert_uint_eq(st.st_ino, ino);
	ck_assert_uint_eq(inode->id, id);
	inode_forget(fs, id, 1);
	ck_assert_uint_eq(fs->inodes.n, 0);
	return 0;
}

static bool ids_are_durable(void)
{
	struct fs *fs = new_fs(true);
	bool are = fs->durable.format != NULL;
	end_fs(fs);
	return are && handles_work();
}

START_TEST(a_forgotten_file_is_remembered_by_its_id_until_it_is_deleted)
{
	if (!ids_are_durable())
		return;
	struct fs *fs = new_fs(true);
	make_file(fs, "a");
	uint64_t id = look_up(fs, "a");
	ino_t ino = number_of(fs, id);
	inode_forget(fs, id, 1);
	inode_forget(fs, id, 1); /* once too often */
	ck_assert_int_eq(remember(fs, id, ino), 0);
	ck_assert_int_eq(remember(fs, id ^ 1, ino), -ESTALE); /* of another generation */
	ck_assert_int_eq(remember(fs, id & ~(uint64_t)UINT32_MAX, ino), -ESTALE); /* of any */
	ck_assert_int_eq(remember(fs, id ^ 1ULL << 40, ino), -ESTALE);
	ck_assert_int_eq(remember(fs, COUNTED_ID | id, ino), -ESTALE);
	ck_assert_int_eq(remember(fs, 0, ino), -ESTALE);
	ck_assert_int_eq(unlinkat(fs->root_fd, "a", 0), 0);
	make_file(fs, "b"); /* perhaps with its number */
	ck_assert_int_eq(remember(fs, id, ino), -ESTALE);
	end_fs(fs);
}
END_TEST

START_TEST(a_directory_outside_the_source_is_not_remembered)
{
	if (!ids_are_durable())
		return;
	struct fs *fs = new_fs(true);
	ck_assert_int_eq(mkdirat(fs->root_fd, "in", 0700), 0);
	ck_assert_int_eq(mkdirat(fs->root_fd, "in/deep", 0700), 0);
	uint64_t in = look_up(fs, "in");
	ino_t ino = number_of(fs, in);
	inode_forget(fs, in, 1);
	ck_assert_int_eq(remember(fs, in, ino), 0);
	/* As if the source were the directory below. */
	struct inode *root = fs->inodes.root;
	struct stat st;
	ck_assert_int_eq(fstatat(fs->root_fd, "in/deep", &st, 0), 0);
	ino_t real = root->ino;
	root->ino = st.st_ino;
	ck_assert_int_eq(remember(fs, in, ino), -ESTALE);
	root->ino = real;
	end_fs(fs);
}
END_TEST

START_TEST(generations_depend_on_the_source)
{
	if (!ids_are_durable())
		return;
	struct fs *fs = new_fs(true);
	uint32_t one = durable_generation(&fs->durable, 12345);
	struct durable_ids again;
	durable_init(&again, fs, fs->root_fd);
	if (access("/etc/machine-id", R_OK) == 0)
		ck_assert_uint_eq(durable_generation(&again, 12345), one);
	ck_assert_uint_ne(durable_generation(&fs->durable, 12346), one);
	end_fs(fs);
	fs = new_fs(true);
	ck_assert_uint_ne(durable_generation(&fs->durable, 12345), one);
	end_fs(fs);
}
END_TEST

START_TEST(a_name_that_goes_does_not_pin_another_file_that_had_its_number)
{
	if (!handles_work())
		return;
	struct fs *fs = new_fs(true);
	fs->durable.format = NULL; /* or the id would tell what the handle below hides */
	make_file(fs, "a");
	uint64_t id = look_up(fs, "a");
	struct inode_ref ref;
	ck_assert_int_eq(inode_get_no_fd(fs, id, &ref), 0);
	ck_assert_int_eq(ref.fd, -1);
	ref.inode->handle_type ^= 1; /* as if it were of an earlier generation */
	ck_assert_uint_eq(inode_keep_unlinked(fs, fs->root_fd, "a", &(struct stat){0}), 0);
	uint64_t now = look_up(fs, "a");
	ck_assert_uint_ne(now, id);
	ck_assert_uint_eq(inode_keep_unlinked(fs, fs->root_fd, "a", &(struct stat){0}), now);
	inode_put(fs, &ref);
	end_fs(fs);
}
END_TEST

/* The file is replaced after its attributes have been read, and before its handle is. */
START_TEST(a_handle_that_was_found_by_a_name_is_checked_when_it_is_used)
{
	if (!handles_work())
		return;
	struct fs *fs = new_fs(true);
	fs->durable.format = NULL; /* or the handle would have to fit the number */
	struct stat st;
	struct fhandle fh, used;
	struct inode_ref ref;
	int no_fd = -1;
	make_file(fs, "a");
	make_file(fs, "b");
	ck_assert_int_eq(mirror_stat_child(fs, fs->root_fd, "a", &st), 0);
	fhandle_of(fs, fs->root_fd, "b", &fh);
	struct inode *inode = inode_intern(fs, &st, &no_fd, &fh, fs->inodes.root, "a");
	ck_assert_int_eq(inode_get(fs, inode->id, &ref), -ESTALE);
	fhandle_of(fs, fs->root_fd, "a", &fh);
	inode = inode_intern(fs, &st, &no_fd, &fh, fs->inodes.root, "a");
	ck_assert(inode_handle(fs, inode, &used) && !used.sure);
	ck_assert_int_eq(inode_get(fs, inode->id, &ref), 0);
	inode_put(fs, &ref);
	ck_assert(inode_handle(fs, inode, &used) && used.sure);
	end_fs(fs);
}
END_TEST

static int opened_with;

static int note_reply(struct request *req, int error, const struct iovec *data, unsigned n)
{
	opened_with = error;
	return -ENOENT;
}

START_TEST(another_file_is_not_truncated_by_a_handle_that_was_found_by_a_name)
{
	if (!handles_work())
		return;
	struct fs *fs = new_fs(true);
	fs->durable.format = NULL;
	struct stat st;
	struct fhandle fh;
	int no_fd = -1;
	make_file(fs, "a");
	make_file(fs, "b");
	ck_assert_int_eq(truncate(path_of("b"), 100), 0);
	ck_assert_int_eq(mirror_stat_child(fs, fs->root_fd, "a", &st), 0);
	fhandle_of(fs, fs->root_fd, "b", &fh);
	struct inode *inode = inode_intern(fs, &st, &no_fd, &fh, fs->inodes.root, "a");
	static const struct transport transport = {.reply = note_reply};
	struct fuse_in_header in = {.nodeid = inode->id};
	struct fuse_open_in args = {.flags = O_WRONLY | O_TRUNC};
	struct request req = {.transport = &transport, .fs = fs, .in = &in, .args = &args};
	op_open(&req);
	ck_assert_int_eq(opened_with, -ESTALE);
	ck_assert_int_eq(mirror_stat_child(fs, fs->root_fd, "b", &st), 0);
	ck_assert_int_eq(st.st_size, 100);
	end_fs(fs);
}
END_TEST

#define MANY	 1000
#define FD_LIMIT 600

static void budget(struct fs *fs)
{
	static uint64_t id[MANY];
	static ino_t number[MANY];
	char name[16];
	for (int i = 0; i < MANY; i++) {
		snprintf(name, sizeof(name), "f%d", i);
		make_file(fs, name);
		id[i] = look_up(fs, name);
		number[i] = number_of(fs, id[i]);
		ck_assert_uint_lt(fs->inodes.n_fds, FD_LIMIT / 2);
	}
	for (int i = 0; i < MANY; i++)
		ck_assert_uint_eq(number_of(fs, id[i]), number[i]);
	ck_assert_uint_lt(fs->inodes.n_fds, FD_LIMIT / 2);
	ck_assert_uint_eq(fs->inodes.n, MANY);
}

START_TEST(more_files_than_fds_are_all_found_again)
{
	fdlimit_set(FD_LIMIT);
	both_ways(budget);
}
END_TEST

static void let_all_fds_go(void)
{
	while (fdlimit_make_room(1000))
		;
}

static void unlinked(struct fs *fs)
{
	make_file(fs, "a");
	uint64_t id = look_up(fs, "a");
	ino_t number = number_of(fs, id);
	let_all_fds_go();
	ck_assert_uint_eq(fs->inodes.n_fds, 0);
	ck_assert_uint_eq(inode_keep_unlinked(fs, fs->root_fd, "a", &(struct stat){0}), id);
	ck_assert_int_eq(unlinkat(fs->root_fd, "a", 0), 0);
	let_all_fds_go();
	ck_assert_uint_eq(number_of(fs, id), number);
	inode_forget(fs, id, 1);
	ck_assert_uint_eq(fs->inodes.n_fds, 0);
}

START_TEST(a_file_that_lost_its_name_is_held_by_fd_until_it_is_forgotten)
{
	both_ways(unlinked);
}
END_TEST

static void replaced(struct fs *fs)
{
	make_file(fs, "a");
	uint64_t id = look_up(fs, "a");
	let_all_fds_go();
	make_file(fs, "b");
	ck_assert_int_eq(renameat(fs->root_fd, "b", fs->root_fd, "a"), 0);
	struct inode_ref ref;
	ck_assert_int_eq(inode_get(fs, id, &ref), -ESTALE);
	ck_assert_uint_ne(look_up(fs, "a"), id);
}

START_TEST(a_file_replaced_behind_our_back_is_stale_and_not_the_new_one)
{
	both_ways(replaced);
}
END_TEST

START_TEST(a_file_that_is_looked_up_often_is_held_by_an_fd_until_it_is_idle)
{
	if (!handles_work())
		return;
	struct fs *fs = new_fs(true);
	make_file(fs, "a");
	make_file(fs, "b");
	uint64_t id = look_up(fs, "a");
	for (int i = 0; i < 10; i++)
		ck_assert_uint_eq(look_up(fs, "a"), id);
	ck_assert_uint_eq(fs->inodes.n_fds, 0); /* a walk through a tree opens nothing */
	for (int i = 0; i < 10; i++)
		ck_assert_uint_eq(look_up(fs, "a"), id);
	ck_assert_uint_eq(fs->inodes.n_fds, 1);
	/* The fd identifies the file, not the name. */
	ck_assert_int_eq(renameat(fs->root_fd, "b", fs->root_fd, "a"), 0);
	uint64_t other = look_up(fs, "a");
	ck_assert_uint_ne(other, id);
	ck_assert(inode_table_close_idle(fs));
	ck_assert_uint_eq(look_up(fs, "a"), other);
	inode_table_close_idle(fs);
	ck_assert_uint_eq(fs->inodes.n_fds, 0);
	inode_forget(fs, id, 21);
	inode_forget(fs, other, 2);
	ck_assert_uint_eq(fs->inodes.n, 0);
	end_fs(fs);
}
END_TEST

static void moved(struct fs *fs)
{
	ck_assert_int_eq(mkdirat(fs->root_fd, "d", 0700), 0);
	make_file(fs, "a");
	uint64_t dir_id = look_up(fs, "d"), id = look_up(fs, "a");
	ino_t number = number_of(fs, id);
	struct inode_ref dir;
	struct stat st;
	ck_assert_int_eq(inode_get(fs, dir_id, &dir), 0);
	ck_assert_int_eq(mirror_stat_child(fs, fs->root_fd, "a", &st), 0);
	ck_assert_int_eq(renameat(fs->root_fd, "a", dir.fd, "z"), 0);
	inode_moved(fs, &st, dir.inode, "z");
	inode_put(fs, &dir);
	let_all_fds_go();
	ck_assert_uint_eq(number_of(fs, id), number);
	/* What the file is found by keeps its directory, and no longer than the file. */
	inode_forget(fs, dir_id, 1);
	let_all_fds_go();
	ck_assert_uint_eq(number_of(fs, id), number);
	inode_forget(fs, id, 1);
	ck_assert_uint_eq(fs->inodes.n, 0);
}

START_TEST(a_moved_file_is_found_at_its_new_place)
{
	both_ways(moved);
}
END_TEST

#define THREADS 4
#define ROUNDS	2000
#define SHARED	50

static void *look_and_forget(void *arg)
{
	struct fs *fs = arg;
	unsigned seed = (unsigned)(uintptr_t)&seed;
	char name[16];
	for (int i = 0; i < ROUNDS; i++) {
		snprintf(name, sizeof(name), "f%d", rand_r(&seed) % SHARED);
		uint64_t id = look_up(fs, name);
		number_of(fs, id);
		if (i % 7 == 0)
			fdlimit_make_room(3);
		inode_forget(fs, id, 1);
	}
	return NULL;
}

static void threads(struct fs *fs)
{
	char name[16];
	for (int i = 0; i < SHARED; i++) {
		snprintf(name, sizeof(name), "f%d", i);
		make_file(fs, name);
	}
	pthread_t t[THREADS];
	for (int i = 0; i < THREADS; i++)
		ck_assert_int_eq(pthread_create(&t[i], NULL, look_and_forget, fs), 0);
	for (int i = 0; i < THREADS; i++)
		pthread_join(t[i], NULL);
	ck_assert_uint_eq(fs->inodes.n, 0);
	ck_assert_uint_eq(fs->inodes.n_fds, 0);
}

START_TEST(threads_that_look_up_and_forget_leave_nothing_behind)
{
	both_ways(threads);
}
END_TEST

UNIT_MAIN("inode", a_handle_that_was_found_by_a_name_is_checked_when_it_is_used,
	  another_file_is_not_truncated_by_a_handle_that_was_found_by_a_name,
	  a_name_that_goes_does_not_pin_another_file_that_had_its_number,
	  an_inode_has_one_id_also_after_it_was_forgotten_where_its_handle_fits,
	  a_forgotten_file_is_remembered_by_its_id_until_it_is_deleted,
	  a_directory_outside_the_source_is_not_remembered, generations_depend_on_the_source,
	  more_files_than_fds_are_all_found_again,
	  a_file_that_lost_its_name_is_held_by_fd_until_it_is_forgotten,
	  a_file_replaced_behind_our_back_is_stale_and_not_the_new_one,
	  a_file_that_is_looked_up_often_is_held_by_an_fd_until_it_is_idle,
	  a_moved_file_is_found_at_its_new_place,
	  threads_that_look_up_and_forget_leave_nothing_behind)
