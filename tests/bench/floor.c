/* SPDX-License-Identifier: MIT */
/* The floor of a FUSE daemon: what is left when the daemon does nothing.
 *
 *	floor dev|uring [calls] -f SOURCE MOUNTPOINT
 *
 * A directory in which every name is a file of 16 MiB of zeros; reads and writes go past the page cache and are answered
 * immediately, without touching a byte.  Names like f000000, which names.c makes, exist only while they are created.
 * Requests come by /dev/fuse or by io_uring, as with ratefs's transport=, but without libfuse.  The replies let the kernel
 * make as many round trips as with ratefs -o cache=strict.  SOURCE is ignored.
 *
 * With `calls`, each request makes the system calls that no mirror can do without: in SOURCE stat, open, pread, pwrite and
 * so on, with what the kernel asks for, and after an open the notification that makes the kernel ask for the attributes of an
 * open file.  Files that are read or written must exist there, with at least 16 MiB: a short read or write is an error.
 * Names, attributes and handles are still made up.
 *
 * What a mirror is short of this is its own; what this is short of the backing directory is the kernel's. */
#include <errno.h>
#include <fcntl.h>
#include <linux/fuse.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include "fs/uring.h"
#include "fs/wire.h"

#define FILE_SIZE     (16ULL << 20)
#define MAX_TRANSFER  (1U << 20)
#define MESSAGE_MAX   (MAX_TRANSFER + 4096)
#define THREADS_MAX   64
#define RING_DEPTH    16
#define NAMES_MAX     1000000
#define NO_REPLY      (-1000)
#define NODE_OF_NAME  (1ULL << 32) /* plus the number in the name */
#define OVER_IO_URING (1U << (41 - 32))
/* Newer than the header of some systems. */
#define OPEN_PARALLEL_WRITES (1U << 6)
#define OPEN_NOFLUSH	     (1U << 5)
#define KILLPRIV_V2	     (1U << 28)
#define INIT_EXTENDED	     (1U << 30)

static int fuse_fd;
static int source = -1; /* calls: SOURCE */
static char zeros[MAX_TRANSFER];
static _Atomic bool created[NAMES_MAX];

/* --- the calls of a mirror ------------------------------------------------------------------------------ */

#define NAMES_KNOWN 1024
static char known[NAMES_KNOWN][32]; /* by node: for open */

static int call_open(uint64_t node, uint32_t flags)
{
	struct stat st;
	int fd = openat(source, known[node % NAMES_KNOWN], (int)(flags & O_ACCMODE) | O_CLOEXEC);
	return fd < 0 || fstat(fd, &st) < 0 ? -1 : fd;
}

static void call_stat(const char *name)
{
	struct stat st;
	fstatat(source, name, &st, AT_SYMLINK_NOFOLLOW);
}

static void call_getattr(uint64_t node, const struct fuse_getattr_in *in)
{
	struct stat st;
	if (in->getattr_flags & FUSE_GETATTR_FH)
		fstat((int)in->fh, &st);
	else if (node == FUSE_ROOT_ID)
		fstat(source, &st);
	else
		call_stat(known[node % NAMES_KNOWN]);
}

static int call_create(const char *name)
{
	struct stat st;
	int fd = openat(source, name, O_CREAT | O_RDWR | O_CLOEXEC, 0644);
	return fd < 0 || fstat(fd, &st) < 0 ? -1 : fd;
}

static void call_lookup(uint64_t node, const char *name)
{
	call_stat(name);
	char *place = known[node % NAMES_KNOWN];
	if (strcmp(place, name) != 0) /* the same for all threads, unless names collide */
		snprintf(place, sizeof(known[0]), "%s", name);
}

/* data: of a write, or a buffer for a read.  False: not all of it was read or written. */
static bool call(const struct fuse_in_header *in, const void *args, const char *name, char *data)
{
	const struct fuse_read_in *rw = args; /* a write begins with the same fields */
	switch (in->opcode) {
	case FUSE_GETATTR:
		call_getattr(in->nodeid, args);
		break;
	case FUSE_UNLINK:
		unlinkat(source, name, 0);
		break;
	case FUSE_READ:
		return pread((int)rw->fh, data, rw->size, (off_t)rw->offset) == (ssize_t)rw->size;
	case FUSE_WRITE:
		return pwrite((int)rw->fh, data, rw->size, (off_t)rw->offset) == (ssize_t)rw->size;
	case FUSE_RELEASE:
		close((int)((const struct fuse_release_in *)args)->fh);
		break;
	default:
		break;
	}
	return true;
}

/* --- the answers ------------------------------------------------------------------------------------- */

/* The number in a name that names.c makes, or -1. */
static long number_of(const char *name)
{
	char *end;
	long n = name[0] == 'f' && strlen(name) == 7 ? strtol(name + 1, &end, 10) : -1;
	return n >= 0 && n < NAMES_MAX && !*end ? n : -1;
}

static uint64_t node_of(const char *name)
{
	uint32_t hash = 2166136261U;
	for (; *name; name++)
		hash = (hash ^ (unsigned char)*name) * 16777619U;
	return hash | 2;
}

static struct fuse_attr attr_of(uint64_t node)
{
	return (struct fuse_attr){
		.ino = node,
		.mode = node == FUSE_ROOT_ID ? S_IFDIR | 0755 : S_IFREG | 0644,
		.nlink = 1,
		.size = FILE_SIZE,
	};
}

/* The kernel keeps the attributes for a timer tick, but not those of an open file. */
static struct fuse_entry_out entry_of(const char *name, bool is_open)
{
	long n = number_of(name);
	uint64_t node = n < 0 ? node_of(name) : NODE_OF_NAME + (uint64_t)n;
	return (struct fuse_entry_out){
		.nodeid = node, .attr_valid_nsec = is_open ? 0 : 1, .attr = attr_of(node)};
}

static struct fuse_open_out open_with(uint32_t flags)
{
	bool reads = (flags & O_ACCMODE) == O_RDONLY;
	return (struct fuse_open_out){.open_flags = FOPEN_DIRECT_IO | OPEN_PARALLEL_WRITES |
						    (reads ? OPEN_NOFLUSH : 0)};
}

static int lookup(const char *name, struct fuse_entry_out *out)
{
	long n = number_of(name);
	struct fuse_entry_out entry = entry_of(name, false);
	if (source >= 0)
		call_lookup(entry.nodeid, name);
	if (n >= 0 && !atomic_load_explicit(&created[n], memory_order_relaxed))
		return -ENOENT;
	*out = entry; /* with io_uring, in the place of the name */
	return sizeof(*out);
}

static int create(const struct fuse_create_in *in, const char *name, char *out)
{
	struct fuse_entry_out entry = entry_of(name, true);
	struct fuse_open_out open = open_with(in->flags);
	long n = number_of(name);
	if (n < 0)
		return -EPERM;
	atomic_store_explicit(&created[n], true, memory_order_relaxed);
	if (source >= 0)
		open.fh = (uint64_t)call_create(name);
	memcpy(out, &entry, sizeof(entry));
	memcpy(out + sizeof(entry), &open, sizeof(open));
	return sizeof(entry) + sizeof(open);
}

static int unlink_name(const char *name)
{
	long n = number_of(name);
	if (n < 0)
		return -EPERM;
	atomic_store_explicit(&created[n], false, memory_order_relaxed);
	return 0;
}

static int getattr(uint64_t node, struct fuse_attr_out *out)
{
	*out = (struct fuse_attr_out){.attr_valid_nsec = node == FUSE_ROOT_ID,
				      .attr = attr_of(node)};
	return sizeof(*out);
}

static int open_node(uint64_t node, uint32_t flags, struct fuse_open_out *out)
{
	*out = open_with(flags);
	if (source >= 0) {
		out->fh = (uint64_t)call_open(node, flags);
		wire_notify_attr(fuse_fd, node);
	}
	return sizeof(*out);
}

/* Puts the reply into `out`, except for data, which is zeros.  Returns its length, -errno or NO_REPLY. */
static int answer(const struct fuse_in_header *in, const void *args, const char *name, char *data,
		  void *out)
{
	if (source >= 0 && !call(in, args, name, data))
		return -EIO;
	switch (in->opcode) {
	case FUSE_LOOKUP:
		return lookup(name, out);
	case FUSE_GETATTR:
		return getattr(in->nodeid, out);
	case FUSE_OPEN:
		return open_node(in->nodeid, ((const struct fuse_open_in *)args)->flags, out);
	case FUSE_CREATE:
		return create(args, name, out);
	case FUSE_UNLINK:
		return unlink_name(name);
	case FUSE_READ:
		return (int)((const struct fuse_read_in *)args)->size;
	case FUSE_WRITE:
		*(struct fuse_write_out *)out =
			(struct fuse_write_out){.size = ((const struct fuse_write_in *)args)->size};
		return sizeof(struct fuse_write_out);
	case FUSE_FLUSH:
	case FUSE_RELEASE:
		return 0;
	case FUSE_FORGET:
	case FUSE_BATCH_FORGET:
	case FUSE_INTERRUPT:
		return NO_REPLY;
	default:
		return -ENOSYS;
	}
}

static struct fuse_out_header header_of(uint64_t unique, int res)
{
	return (struct fuse_out_header){
		.len = (uint32_t)(sizeof(struct fuse_out_header) + (res > 0 ? (size_t)res : 0)),
		.error = res < 0 ? res : 0,
		.unique = unique};
}

/* --- /dev/fuse ----------------------------------------------------------------------------------------- */

static void answer_message(const struct fuse_in_header *in)
{
	static _Thread_local char read_data[MAX_TRANSFER];
	char out[256] __attribute__((aligned(8)));
	const void *args = in + 1;
	const char *name = args;
	char *data = in->opcode == FUSE_WRITE ? (char *)args + sizeof(struct fuse_write_in)
					      : (source < 0 ? zeros : read_data);
	if (in->opcode == FUSE_CREATE)
		name += sizeof(struct fuse_create_in);
	int res = answer(in, args, name, data, out);
	if (res == NO_REPLY)
		return;
	struct fuse_out_header header = header_of(in->unique, res);
	struct iovec iov[] = {{&header, sizeof(header)},
			      {in->opcode == FUSE_READ ? data : out, res > 0 ? (size_t)res : 0}};
	ssize_t n = writev(fuse_fd, iov, 2);
	(void)n; /* ENOENT: the caller is gone */
}

static void *serve_messages(void *unused)
{
	char *message = malloc(MESSAGE_MAX);
	for (;;) {
		ssize_t n = message ? read(fuse_fd, message, MESSAGE_MAX) : -1;
		if (n >= 0)
			answer_message((struct fuse_in_header *)message);
		else if (!message || (errno != EINTR && errno != EAGAIN && errno != ENOENT))
			break; /* unmounted */
	}
	free(message);
	return NULL;
}

/* --- io_uring: one pinned thread for each CPU ------------------------------------------------------------- */

struct ring_header {
	char in_out[128], args[128];
	uint64_t flags, commit_id;
	uint32_t payload_size, padding;
	uint64_t reserved;
};
struct ring_command {
	uint64_t flags, commit_id;
	uint16_t queue;
	uint8_t padding[6];
};
enum { RING_REGISTER = 1, RING_COMMIT_AND_FETCH = 2 };

struct entry {
	struct ring_header *header;
	struct iovec iov[2];
};

static void submit(struct uring *u, struct entry *e, uint32_t command, uint16_t queue)
{
	struct io_uring_sqe *sqe = uring_get(u);
	struct ring_command c = {.commit_id = e->header->commit_id, .queue = queue};
	if (!sqe)
		return;
	sqe->opcode = IORING_OP_URING_CMD;
	sqe->flags = IOSQE_FIXED_FILE;
	sqe->cmd_op = command;
	sqe->user_data = (uintptr_t)e;
	if (command == RING_REGISTER) {
		sqe->addr = (uintptr_t)e->iov;
		sqe->len = 2;
	}
	memcpy(sqe->cmd, &c, sizeof(c));
}

static void answer_entry(struct entry *e)
{
	struct ring_header *h = e->header;
	struct fuse_in_header in;
	memcpy(&in, h->in_out, sizeof(in));
	char *payload = e->iov[1].iov_base;
	int res = answer(&in, h->args, payload, payload, payload);
	struct fuse_out_header out = header_of(in.unique, res);
	memcpy(h->in_out, &out, sizeof(out));
	h->payload_size = res > 0 ? (uint32_t)res : 0;
}

static bool make_entry(struct entry *e)
{
	char *memory = mmap(NULL, 4096 + MAX_TRANSFER, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (memory == MAP_FAILED)
		return false;
	e->header = (struct ring_header *)memory;
	e->iov[0] = (struct iovec){memory, sizeof(*e->header)};
	e->iov[1] = (struct iovec){memory + 4096, MAX_TRANSFER};
	return true;
}

static void settle_on(unsigned cpu)
{
	cpu_set_t set;
	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	sched_setaffinity(0, sizeof(set), &set);
	sched_setscheduler(0, SCHED_BATCH, &(struct sched_param){0});
}

static void *serve_ring(void *arg)
{
	uint16_t queue = (uint16_t)(uintptr_t)arg;
	struct entry entry[RING_DEPTH];
	struct io_uring_cqe cqe;
	struct uring u;
	settle_on(queue);
	if (uring_open(&u, 2 * RING_DEPTH, 4 * RING_DEPTH, fuse_fd) < 0) {
		fprintf(stderr, "floor: cannot open an io_uring\n");
		exit(1);
	}
	for (unsigned i = 0; i < RING_DEPTH; i++)
		if (make_entry(&entry[i]))
			submit(&u, &entry[i], RING_REGISTER, queue);
	for (;;) {
		int res = uring_enter(&u, true);
		if (res < 0 && res != -EINTR && res != -EAGAIN && res != -EBUSY)
			break;
		while (uring_take(&u, &cqe)) {
			struct entry *e = (struct entry *)(uintptr_t)cqe.user_data;
			if (cqe.res < 0) /* unmounted; the process ends, and its memory with it */
				return NULL;
			answer_entry(e);
			submit(&u, e, RING_COMMIT_AND_FETCH, queue);
		}
	}
	return NULL;
}

/* --- the mount ---------------------------------------------------------------------------------------------- */

static bool answer_init(bool uring)
{
	_Alignas(8) char message[8192 + 4096];
	ssize_t n = read(fuse_fd, message, sizeof(message));
	const struct fuse_in_header *in = (void *)message;
	const struct fuse_init_in *init = (void *)(in + 1);
	if (n < (ssize_t)(sizeof(*in) + sizeof(*init)) || in->opcode != FUSE_INIT)
		return false;
	if (uring && !(init->flags2 & OVER_IO_URING)) {
		fprintf(stderr, "floor: the kernel does not offer io_uring\n");
		return false;
	}
	struct fuse_init_out out = {
		.major = FUSE_KERNEL_VERSION,
		.minor = init->minor,
		.max_readahead = init->max_readahead,
		.flags = init->flags &
			 (FUSE_ASYNC_READ | FUSE_BIG_WRITES | FUSE_ATOMIC_O_TRUNC | FUSE_ASYNC_DIO |
			  FUSE_PARALLEL_DIROPS | FUSE_MAX_PAGES | KILLPRIV_V2 | INIT_EXTENDED),
		.flags2 = uring ? OVER_IO_URING : 0,
		.max_background = UINT16_MAX,
		.congestion_threshold = UINT16_MAX,
		.max_write = MAX_TRANSFER,
		.max_pages = MAX_TRANSFER / 4096,
		.time_gran = 1,
	};
	struct fuse_out_header header = header_of(in->unique, sizeof(out));
	struct iovec iov[] = {{&header, sizeof(header)}, {&out, sizeof(out)}};
	return writev(fuse_fd, iov, 2) > 0;
}

static bool mount_on(const char *mountpoint)
{
	char options[128];
	fuse_fd = open("/dev/fuse", O_RDWR | O_CLOEXEC);
	snprintf(
		options, sizeof(options),
		"fd=%d,rootmode=40000,user_id=%u,group_id=%u,default_permissions,allow_other,max_read=%u",
		fuse_fd, getuid(), getgid(), MAX_TRANSFER);
	if (fuse_fd < 0 ||
	    mount("floor", mountpoint, "fuse.floor", MS_NOSUID | MS_NODEV, options) < 0) {
		fprintf(stderr, "floor: cannot mount %s: %s\n", mountpoint, strerror(errno));
		return false;
	}
	return true;
}

int main(int argc, char **argv)
{
	bool uring = argc > 1 && !strcmp(argv[1], "uring");
	bool calls = argc == 6 && !strcmp(argv[2], "calls");
	char **rest = argv + (calls ? 3 : 2);
	if (argc != (calls ? 6 : 5) || (!uring && strcmp(argv[1], "dev")) ||
	    strcmp(rest[0], "-f")) {
		fprintf(stderr, "usage: floor dev|uring [calls] -f SOURCE MOUNTPOINT\n");
		return 2;
	}
	if (calls && (source = open(rest[1], O_PATH | O_DIRECTORY | O_CLOEXEC)) < 0) {
		fprintf(stderr, "floor: %s: %s\n", rest[1], strerror(errno));
		return 1;
	}
	if (!mount_on(rest[2]) || !answer_init(uring))
		return 1;
	pthread_t thread[THREADS_MAX];
	long queues = uring ? sysconf(_SC_NPROCESSORS_CONF) : 0, started = 0;
	/* As ratefs has it: a few more readers than CPUs; beside rings one, for FORGET. */
	long n = queues + (uring ? 1 : sysconf(_SC_NPROCESSORS_ONLN) + 8);
	while (started < n && started < THREADS_MAX &&
	       pthread_create(&thread[started], NULL,
			      started < queues ? serve_ring : serve_messages,
			      (void *)(uintptr_t)started) == 0)
		started++;
	while (started > 0)
		pthread_join(thread[--started], NULL);
	return 0;
}
