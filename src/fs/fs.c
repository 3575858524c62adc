/* SPDX-License-Identifier: MIT */
/* The life of a mirror: opens its source, negotiates with the kernel, provides counts. */
#include "fs/fs.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <linux/mount.h>
#include <linux/openat2.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "base/util.h"
#include "fs/creds.h"
#include "fs/fdlimit.h"
#include "fs/mirror.h"
#include "fs/request.h"
#include "fs/space_internal.h"
#include "fs/splice.h"

static _Thread_local char *buffer;

char *fs_thread_buffer(void)
{
	return buffer;
}

/* Threads that could not start for lack of memory are retried continually, so this is logged only
 * from time to time. */
static void say_no_memory(void)
{
	static _Atomic uint64_t next_ns;
	if (log_is_due(&next_ns))
		log_error(
			"no memory for the buffer of another thread: fewer requests run concurrently");
}

/* Frees what a thread holds when it ends, whatever kind of thread it is. */
static pthread_key_t thread_end;

static void on_thread_end(void *unused)
{
	fs_thread_stop();
}

static void make_thread_end(void)
{
	if (pthread_key_create(&thread_end, on_thread_end) != 0)
		log_error("out of thread keys: threads will not free their memory");
}

bool fs_thread_start(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	pthread_once(&once, make_thread_end);
	creds_thread_start();
	if (buffer)
		return true;
	void *p = mmap(NULL, FS_BUFFER_SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
		       -1, 0);
	if (p == MAP_FAILED) {
		say_no_memory();
		return false;
	}
	buffer = p;
	pthread_setspecific(thread_end, p); /* any value but NULL */
	splice_thread_start();
	return true;
}

void fs_thread_stop(void)
{
	splice_thread_stop();
	creds_thread_stop();
	if (buffer)
		munmap(buffer, FS_BUFFER_SIZE);
	buffer = NULL;
}

static int open_directory(const struct fs_config *cfg)
{
	struct open_how how = {.flags = O_PATH | O_DIRECTORY | O_CLOEXEC,
			       .resolve = RESOLVE_NO_SYMLINKS};
	if (!cfg->nofollow)
		return open(cfg->source, O_PATH | O_DIRECTORY | O_CLOEXEC);
	return (int)syscall(SYS_openat2, AT_FDCWD, cfg->source, &how, sizeof(how));
}

/* A clone of the mount that contains the source, without what is mounted below it.  A walk inside
 * never leaves it, and mounts on top of the source or inside it do not exist in it. */
static int clone_tree(int source)
{
	return (int)syscall(SYS_open_tree, source, "",
			    OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_EMPTY_PATH);
}

/* Access times are updated by the source, so its mount flags must be those of this mount.  An
 * unwanted update does little harm; a caller that sets strictatime relies on it, so that failure
 * is an error. */
static int set_atime(const struct fs *fs, struct error *err)
{
	struct mount_attr attr = {0};
	bool strict = fs->cfg.strict_atime && !fs->cfg.no_atime;
	if (fs->cfg.no_atime || strict) {
		attr.attr_set = strict ? MOUNT_ATTR_STRICTATIME : MOUNT_ATTR_NOATIME;
		attr.attr_clr = MOUNT_ATTR__ATIME;
	}
	if (fs->cfg.no_dir_atime)
		attr.attr_set |= MOUNT_ATTR_NODIRATIME;
	if (!attr.attr_set || (fs->no_xdev && !strict))
		return 0;
	if (!fs->no_xdev &&
	    syscall(SYS_mount_setattr, fs->root_fd, "", AT_EMPTY_PATH, &attr, sizeof(attr)) == 0)
		return 0;
	if (strict)
		return error_set(
			err, "%s: cannot set strictatime: leave it out, or run the daemon as root",
			fs->cfg.source);
	log_warning("%s: reading will change access times: %s", fs->cfg.source, strerror(errno));
	return 0;
}

static int open_source(struct fs *fs, struct error *err)
{
	const char *source = fs->cfg.source;
	AUTO_FD plain = open_directory(&fs->cfg);
	if (plain < 0)
		return error_set(err, "%s: cannot open the source directory: %s", source,
				 fs->cfg.nofollow && errno == ELOOP
					 ? "its path leads through a symbolic link"
					 : strerror(errno));
	fs->root_fd = clone_tree(plain);
	if (fs->root_fd < 0) {
		fs->root_fd = take_fd(&plain);
		fs->no_xdev = true;
	}
	if (set_atime(fs, err) < 0)
		return -1;
	fs->mount_fd = openat(fs->root_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fs->mount_fd < 0)
		return error_set(err, "%s: cannot read the source directory: %s", source,
				 strerror(errno));
	fs->proc_fd = open("/proc/self/fd", O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (fs->proc_fd < 0)
		return error_set(err, "/proc/self/fd: %s; ratefs needs /proc mounted",
				 strerror(errno));
	return 0;
}

static bool source_checks(const struct fs *fs)
{
	struct statfs st;
	return fstatfs(fs->root_fd, &st) < 0 || creds_source_checks((uint64_t)st.f_type);
}

/* Filesystems that are known not to wait for other machines or programs. */
static enum source_kind source_kind(const struct fs *fs)
{
	struct statfs st;
	if (fs->cfg.own_namespace || fstatfs(fs->root_fd, &st) < 0)
		return SOURCE_UNKNOWN;
	switch ((uint32_t)st.f_type) {
	case TMPFS_MAGIC:
	case RAMFS_MAGIC:
		return SOURCE_MEMORY;
	case EXT4_SUPER_MAGIC:
	case XFS_SUPER_MAGIC:
	case BTRFS_SUPER_MAGIC:
	case F2FS_SUPER_MAGIC:
		return SOURCE_DISK;
	default:
		return SOURCE_UNKNOWN;
	}
}

/* On these filesystems a handle is valid only as long as the kernel remembers the file. */
static bool handles_fade(const struct fs *fs)
{
	struct statfs st;
	return fstatfs(fs->root_fd, &st) < 0 || st.f_type == FUSE_SUPER_MAGIC ||
	       st.f_type == MSDOS_SUPER_MAGIC || st.f_type == EXFAT_SUPER_MAGIC;
}

/* Checks that handles can be opened, not only obtained: that needs CAP_DAC_READ_SEARCH. */
static bool handles_work(struct fs *fs)
{
	struct fhandle fh;
	if (handles_fade(fs))
		return false;
	fs->by_handle = true;
	fhandle_of(fs, fs->root_fd, "", &fh);
	if (!fh.bytes)
		return false;
	AUTO_FD fd = fhandle_open(fs, &fh, O_PATH | O_CLOEXEC);
	return fd >= 0;
}

#define MOMENT_S 1e-6 /* the kernel rounds any timeout above 0 up to one or two timer ticks */

static void set_timeouts(struct fs *fs)
{
	double by_mode = fs->cfg.cache == CACHE_STRICT ? 0.0 : 1.0;
	fs->attr_timeout_s = fs->cfg.attr_timeout_s < 0 ? by_mode : fs->cfg.attr_timeout_s;
	fs->entry_timeout_s = fs->cfg.entry_timeout_s < 0 ? by_mode : fs->cfg.entry_timeout_s;
}

struct fs *fs_new(const struct fs_config *cfg, struct error *err)
{
	/* pthread_cancel and others load this library when first used, which fails and aborts the
	 * process when no fd is left. */
	dlopen("libgcc_s.so.1", RTLD_NOW | RTLD_GLOBAL);
	fdlimit_init();
	struct fs *fs = aligned_alloc(64, (sizeof(*fs) + 63) / 64 * 64);
	if (!fs) {
		error_set(err, "out of memory");
		return NULL;
	}
	memset(fs, 0, sizeof(*fs));
	fs->root_fd = fs->mount_fd = fs->proc_fd = fs->dev_fd = -1;
	handle_table_init(&fs->handle_table);
	fs->cfg = *cfg;
	fs->cfg.source = strdup(cfg->source);
	fs->is_root = geteuid() == 0;
	set_timeouts(fs);
	struct timespec now;
	clock_gettime(CLOCK_REALTIME, &now);
	fs->generation = (uint64_t)now.tv_sec * NSEC_PER_SEC + (uint64_t)now.tv_nsec;
	if (!fs->cfg.source || open_source(fs, err) < 0) {
		fs_free(fs);
		return NULL;
	}
	fs->source_checks = source_checks(fs);
	fs->kind = source_kind(fs);
	/* If the source checks identity itself, its answers to one user are not valid for
	 * another. */
	if (cfg->cache == CACHE_STRICT && cfg->attr_timeout_s < 0 && !fs->source_checks)
		fs->moment_s = MOMENT_S;
	fs->by_handle = handles_work(fs);
	durable_init(&fs->durable, fs, fs->root_fd);
	int res = inode_table_init(fs, fs->root_fd);
	if (res < 0) {
		error_set(err, "%s: %s", cfg->source, strerror(-res));
		fs_free(fs);
		return NULL;
	}
	res = space_attach(fs->cfg.space, fs);
	fs->attached = res == 0;
	if (res < 0) {
		error_set(err, "%s: %s", cfg->source, strerror(-res));
		fs_free(fs);
		return NULL;
	}
	fs_set_space(fs, &cfg->space_policy);
	return fs;
}

void fs_set_space(struct fs *fs, const struct space_policy *p)
{
	atomic_store(&fs->limit_bytes, p->limits.bytes);
	atomic_store(&fs->limit_inodes, p->limits.inodes);
	atomic_store(&fs->quota_is_edquot, p->edquot);
	if (fs->cfg.space && space_limits_any(&p->limits))
		space_begin(fs->cfg.space);
}

void fs_free(struct fs *fs)
{
	if (!fs)
		return;
	if (fs->attached)
		space_hide(fs->cfg.space, fs);
	handles_free(fs);
	if (fs->attached)
		inodes_release(fs);
	if (fs->attached)
		space_detach(fs->cfg.space);
	inode_table_free(fs);
	for (int *fd = (int[]){fs->root_fd, fs->mount_fd, fs->proc_fd, -2}; *fd != -2; fd++)
		if (*fd >= 0)
			close(*fd);
	free((char *)fs->cfg.source);
	free(fs);
}

void fs_attach(struct fs *fs, struct fuse_session *se)
{
	fs->dev_fd = fuse_session_fd(se);
}

bool fs_source_is_read_only(const struct fs *fs)
{
	struct statvfs st;
	return fstatvfs(fs->root_fd, &st) == 0 && (st.f_flag & ST_RDONLY);
}

bool fs_close_idle(struct fs *fs)
{
	return inode_table_close_idle(fs);
}

void fs_look(const struct fs *fs, struct fs_counts *out)
{
	*out = (struct fs_counts){
		.inodes = atomic_load(&fs->inodes.n),
		.inode_fds = atomic_load(&fs->inodes.n_fds),
		.handles = atomic_load(&fs->handles),
		.passthrough_handles = atomic_load(&fs->passthrough_handles),
		.passthrough_maps = atomic_load(&fs->passthrough_maps),
	};
}

/* -- negotiation with the kernel -- */

static void want_passthrough(struct fs *fs, struct fuse_conn_info *conn)
{
	if (!fs->is_root || fs->cfg.cache != CACHE_AUTO || fs->dev_fd < 0)
		return;
	if (!fuse_set_feature_flag(conn, FUSE_CAP_PASSTHROUGH))
		return;
	/* If the source is itself a stacked filesystem, we need one more level of stacking, and
	 * then no filesystem can be stacked on us.  So ask for that level only if it is needed. */
	struct statfs st;
	bool stacked = fstatfs(fs->root_fd, &st) == 0 &&
		       (st.f_type == OVERLAYFS_SUPER_MAGIC || st.f_type == FUSE_SUPER_MAGIC);
	conn->max_backing_stack_depth =
		stacked ? FUSE_BACKING_STACKED_OVER : FUSE_BACKING_STACKED_UNDER;
	atomic_store(&fs->passthrough_usable, true);
}

static void agree(void *userdata, struct fuse_conn_info *conn)
{
	struct fs *fs = userdata;
	static const uint64_t wanted[] = {
		FUSE_CAP_ASYNC_READ,
		FUSE_CAP_ASYNC_DIO,
		FUSE_CAP_ATOMIC_O_TRUNC,  /* open(O_TRUNC) is a single step in the source as well */
		FUSE_CAP_PARALLEL_DIROPS, /* a slow lookup must not block its directory */
		FUSE_CAP_DIRECT_IO_ALLOW_MMAP,
		FUSE_CAP_IOCTL_DIR,
		FUSE_CAP_SPLICE_WRITE,
		/* Default ACLs decide whether the umask applies, so the source applies both. */
		FUSE_CAP_DONT_MASK,
		FUSE_CAP_POSIX_ACL,
		/* The source clears set-id bits and file capabilities, because writes, truncations
		 * and opens run as the caller. */
		FUSE_CAP_HANDLE_KILLPRIV_V2,
		FUSE_CAP_AUTO_INVAL_DATA,
	};
	for (size_t i = 0; i < ARRAY_SIZE(wanted); i++)
		fuse_set_feature_flag(conn, wanted[i]);
	/* Sends attributes with listings only if the kernel caches them.  Not _AUTO: see habit.h. */
	fuse_unset_feature_flag(conn, FUSE_CAP_READDIRPLUS);
	fuse_unset_feature_flag(conn, FUSE_CAP_READDIRPLUS_AUTO);
	if (fs->attr_timeout_s > 0 && fs->entry_timeout_s > 0) {
		fuse_set_feature_flag(conn, FUSE_CAP_READDIRPLUS);
		fuse_set_feature_flag(conn, FUSE_CAP_CACHE_SYMLINKS);
	}
	/* File handles are offered only if those that programs and NFS clients keep remain valid
	 * for the next daemon. */
	fuse_unset_feature_flag(conn, FUSE_CAP_EXPORT_SUPPORT);
	fuse_set_feature_flag(conn, fs->durable.format ? FUSE_CAP_EXPORT_SUPPORT
						       : FUSE_CAP_NO_EXPORT_SUPPORT);
	want_passthrough(fs, conn);
	conn->max_write = 1U << 20;
	conn->max_background = 65535;
	conn->congestion_threshold = 65535;
	conn->no_interrupt = 1; /* the receive loop keeps track of what can be interrupted */
	conn->time_gran = 1;
}

const struct fuse_lowlevel_ops fs_ops = {.init = agree};
