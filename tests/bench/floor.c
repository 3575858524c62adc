/* SPDX-License-Identifier: MIT */
/* The floor of a FUSE daemon: what is left when the daemon does nothing.
 *
 *	floor -f SOURCE MOUNTPOINT
 *
 * A directory in which every name is a file of 64 MiB of zeros; reads and writes go past the page
 * cache and are answered immediately, from memory, with as few steps as libfuse allows.  SOURCE is not
 * looked at.  What a mirror is short of this is its own; what this is short of the backing directory
 * is the kernel's. */
#include <fuse_lowlevel.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define FILE_SIZE   (64LL << 20)
#define THREADS_MAX 16

static char zeros[1 << 20];

static struct stat stat_of(fuse_ino_t ino)
{
	return (struct stat){
		.st_ino = ino,
		.st_mode = ino == FUSE_ROOT_ID ? S_IFDIR | 0755 : S_IFREG | 0644,
		.st_nlink = 1,
		.st_size = FILE_SIZE,
	};
}

static void floor_init(void *userdata, struct fuse_conn_info *conn)
{
	conn->max_write = sizeof(zeros);
	conn->max_background = conn->congestion_threshold = 65535;
	conn->no_interrupt = 1;
}

static void floor_lookup(fuse_req_t req, fuse_ino_t parent, const char *name)
{
	struct fuse_entry_param e = {.ino = FUSE_ROOT_ID + 1, .attr = stat_of(FUSE_ROOT_ID + 1)};
	fuse_reply_entry(req, &e);
}

static void floor_getattr(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
	struct stat st = stat_of(ino);
	fuse_reply_attr(req, &st, 0);
}

static void floor_open(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
	fi->direct_io = 1;
	fi->parallel_direct_writes = 1;
	fuse_reply_open(req, fi);
}

static void floor_read(fuse_req_t req, fuse_ino_t ino, size_t size, off_t off,
		       struct fuse_file_info *fi)
{
	fuse_reply_buf(req, zeros, size);
}

static void floor_write(fuse_req_t req, fuse_ino_t ino, const char *buf, size_t size, off_t off,
			struct fuse_file_info *fi)
{
	fuse_reply_write(req, size);
}

static const struct fuse_lowlevel_ops floor_ops = {
	.init = floor_init,
	.lookup = floor_lookup,
	.getattr = floor_getattr,
	.open = floor_open,
	.read = floor_read,
	.write = floor_write,
};

/* As ratefs does it: a few more threads than CPUs, each with a buffer of its own. */
static void *serve(void *session)
{
	struct fuse_buf buf = {.mem = NULL};
	while (!fuse_session_exited(session) && fuse_session_receive_buf(session, &buf) > 0)
		fuse_session_process_buf(session, &buf);
	free(buf.mem);
	return NULL;
}

int main(int argc, char **argv)
{
	if (argc != 4 || strcmp(argv[1], "-f")) {
		fprintf(stderr, "usage: floor -f SOURCE MOUNTPOINT\n");
		return 2;
	}
	struct fuse_args args = FUSE_ARGS_INIT(0, NULL);
	if (fuse_opt_add_arg(&args, argv[0]) ||
	    fuse_opt_add_arg(&args, "-oallow_other,fsname=floor"))
		return 1;
	struct fuse_session *se = fuse_session_new(&args, &floor_ops, sizeof(floor_ops), NULL);
	if (!se || fuse_session_mount(se, argv[3]))
		return 1;
	pthread_t thread[THREADS_MAX];
	long n = sysconf(_SC_NPROCESSORS_ONLN) + 8, started = 0;
	while (started < n && started < THREADS_MAX &&
	       pthread_create(&thread[started], NULL, serve, se) == 0)
		started++;
	while (started > 0)
		pthread_join(thread[--started], NULL);
	fuse_session_unmount(se);
	fuse_session_destroy(se);
	fuse_opt_free_args(&args);
	return 0;
}
