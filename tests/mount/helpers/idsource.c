/* SPDX-License-Identifier: MIT */
/* A source that checks identity itself, as NFS with root_squash does:
 *
 *	idsource DIRECTORY LOG MOUNTPOINT [FUSE options]
 *
 * shows DIRECTORY.  What is below /uN is for user N alone, and not for root; what is below /gN for
 * members of group N, as a supplementary one.  Everybody else gets EACCES.  Each operation is written
 * to LOG as "operation path uid gid", and "DENIED" behind it where it was refused. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <fuse.h>
#include <limits.h>
#include <linux/fs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/statvfs.h>
#include <sys/xattr.h>
#include <unistd.h>

static int root_fd, log_fd;

/* libfuse passes no path for an open file that has been deleted. */
static const char *below(const char *path)
{
	return !path ? "(deleted)" : path[1] ? path + 1 : ".";
}

static int in_group(gid_t gid)
{
	static gid_t list[65536];
	int n = fuse_getgroups(65536, list);
	for (int i = 0; i < n && i < 65536; i++)
		if (list[i] == gid)
			return 1;
	return 0;
}

static int allowed(const char *path, const struct fuse_context *c)
{
	char *end;
	unsigned long id = strtoul(path + (path[1] ? 2 : 1), &end, 10);
	if (end == path + 2 || *end != '/')
		return 1;
	if (path[1] == 'u')
		return c->uid == id;
	return path[1] != 'g' || in_group((gid_t)id);
}

/* 0 or -EACCES. */
static int check(const char *op, const char *path)
{
	const struct fuse_context *c = fuse_get_context();
	if (!path)
		return 0;
	int ok = allowed(path, c);
	dprintf(log_fd, "%s %s %u %u%s\n", op, path, c->uid, c->gid, ok ? "" : " DENIED");
	return ok ? 0 : -EACCES;
}

#define CHECK(op, path)                                                                            \
	do {                                                                                       \
		int denied = check(op, path);                                                      \
		if (denied)                                                                        \
			return denied;                                                             \
	} while (0)
#define RESULT(call) ((call) < 0 ? -errno : 0)

static char *full(const char *path, char buf[PATH_MAX])
{
	snprintf(buf, PATH_MAX, "/proc/self/fd/%d/%s", root_fd, below(path));
	return buf;
}

static int made(const char *path, int res)
{
	const struct fuse_context *c = fuse_get_context();
	if (res < 0)
		return -errno;
	return RESULT(fchownat(root_fd, below(path), c->uid, c->gid, AT_SYMLINK_NOFOLLOW));
}

static int do_getattr(const char *path, struct stat *st, struct fuse_file_info *fi)
{
	CHECK("getattr", path);
	if (fi)
		return RESULT(fstat((int)fi->fh, st));
	return RESULT(fstatat(root_fd, below(path), st, AT_SYMLINK_NOFOLLOW));
}

static int do_readlink(const char *path, char *buf, size_t size)
{
	CHECK("readlink", path);
	ssize_t n = readlinkat(root_fd, below(path), buf, size - 1);
	buf[n < 0 ? 0 : n] = '\0';
	return RESULT(n);
}

static int do_mknod(const char *path, mode_t mode, dev_t dev)
{
	CHECK("mknod", path);
	return made(path, mknodat(root_fd, below(path), mode, dev));
}

static int do_mkdir(const char *path, mode_t mode)
{
	CHECK("mkdir", path);
	return made(path, mkdirat(root_fd, below(path), mode));
}

static int do_symlink(const char *target, const char *path)
{
	CHECK("symlink", path);
	return made(path, symlinkat(target, root_fd, below(path)));
}

static int do_unlink(const char *path)
{
	CHECK("unlink", path);
	return RESULT(unlinkat(root_fd, below(path), 0));
}

static int do_rmdir(const char *path)
{
	CHECK("rmdir", path);
	return RESULT(unlinkat(root_fd, below(path), AT_REMOVEDIR));
}

static int do_rename(const char *from, const char *to, unsigned flags)
{
	CHECK("rename", from);
	return RESULT(renameat2(root_fd, below(from), root_fd, below(to), flags));
}

static int do_link(const char *from, const char *to)
{
	CHECK("link", to);
	return RESULT(linkat(root_fd, below(from), root_fd, below(to), 0));
}

static int do_chmod(const char *path, mode_t mode, struct fuse_file_info *fi)
{
	CHECK("chmod", path);
	return RESULT(fchmodat(root_fd, below(path), mode, 0));
}

static int do_chown(const char *path, uid_t uid, gid_t gid, struct fuse_file_info *fi)
{
	CHECK("chown", path);
	return RESULT(fchownat(root_fd, below(path), uid, gid, AT_SYMLINK_NOFOLLOW));
}

static int do_truncate(const char *path, off_t size, struct fuse_file_info *fi)
{
	char buf[PATH_MAX];
	CHECK("truncate", path);
	return RESULT(truncate(full(path, buf), size));
}

static int do_utimens(const char *path, const struct timespec tv[2], struct fuse_file_info *fi)
{
	CHECK("utimens", path);
	return RESULT(utimensat(root_fd, below(path), tv, AT_SYMLINK_NOFOLLOW));
}

static int opened(int fd, struct fuse_file_info *fi)
{
	fi->fh = (uint64_t)fd;
	fi->direct_io = 1; /* each read and write is to be seen */
	return RESULT(fd);
}

static int do_open(const char *path, struct fuse_file_info *fi)
{
	CHECK("open", path);
	return opened(openat(root_fd, below(path), fi->flags & ~(O_CREAT | O_EXCL | O_NOFOLLOW)),
		      fi);
}

static int do_create(const char *path, mode_t mode, struct fuse_file_info *fi)
{
	CHECK("create", path);
	int fd = openat(root_fd, below(path), fi->flags | O_CREAT, mode);
	int res = made(path, fd);
	return res ? res : opened(fd, fi);
}

static int do_read(const char *path, char *buf, size_t size, off_t off, struct fuse_file_info *fi)
{
	CHECK("read", path);
	ssize_t n = pread((int)fi->fh, buf, size, off);
	return n < 0 ? -errno : (int)n;
}

static int do_write(const char *path, const char *buf, size_t size, off_t off,
		    struct fuse_file_info *fi)
{
	if (!fi->writepage) /* the kernel names nobody there either */
		CHECK("write", path);
	ssize_t n = pwrite((int)fi->fh, buf, size, off);
	return n < 0 ? -errno : (int)n;
}

static int do_statfs(const char *path, struct statvfs *st)
{
	CHECK("statfs", path);
	return RESULT(fstatvfs(root_fd, st));
}

static int do_flush(const char *path, struct fuse_file_info *fi)
{
	CHECK("flush", path);
	return 0;
}

static int do_release(const char *path, struct fuse_file_info *fi)
{
	close((int)fi->fh); /* the kernel names nobody */
	return 0;
}

static int do_fsync(const char *path, int data, struct fuse_file_info *fi)
{
	CHECK("fsync", path);
	return RESULT(fsync((int)fi->fh));
}

static int do_fallocate(const char *path, int mode, off_t off, off_t size,
			struct fuse_file_info *fi)
{
	CHECK("fallocate", path);
	return RESULT(fallocate((int)fi->fh, mode, off, size));
}

static ssize_t do_copy(const char *from, struct fuse_file_info *fi_in, off_t in, const char *to,
		       struct fuse_file_info *fi_out, off_t out, size_t size, int flags)
{
	CHECK("copy_file_range", to);
	ssize_t n = copy_file_range((int)fi_in->fh, &in, (int)fi_out->fh, &out, size, 0);
	return n < 0 ? -errno : n;
}

static off_t do_lseek(const char *path, off_t off, int whence, struct fuse_file_info *fi)
{
	CHECK("lseek", path);
	off_t res = lseek((int)fi->fh, off, whence);
	return res < 0 ? -errno : res;
}

/* Kept as user.* of the file below, so that any name works: this source guards all of them alike. */
static const char *stored(const char *name, char buf[300])
{
	snprintf(buf, 300, "user.%s", name);
	return buf;
}

static int do_setxattr(const char *path, const char *name, const char *value, size_t size,
		       int flags)
{
	char buf[PATH_MAX], key[300];
	CHECK("setxattr", path);
	return RESULT(setxattr(full(path, buf), stored(name, key), value, size, flags));
}

static int do_getxattr(const char *path, const char *name, char *value, size_t size)
{
	char buf[PATH_MAX], key[300];
	CHECK("getxattr", path);
	ssize_t n = getxattr(full(path, buf), stored(name, key), value, size);
	return n < 0 ? -errno : (int)n;
}

static int do_listxattr(const char *path, char *list, size_t size)
{
	CHECK("listxattr", path);
	if (size >= 9)
		memcpy(list, "system.x", 9);
	return 9;
}

static int do_removexattr(const char *path, const char *name)
{
	char buf[PATH_MAX], key[300];
	CHECK("removexattr", path);
	return RESULT(removexattr(full(path, buf), stored(name, key)));
}

static int do_opendir(const char *path, struct fuse_file_info *fi)
{
	CHECK("opendir", path);
	int fd = openat(root_fd, below(path), O_RDONLY | O_DIRECTORY);
	fi->fh = (uint64_t)fd;
	return RESULT(fd);
}

static int do_readdir(const char *path, void *buf, fuse_fill_dir_t fill, off_t off,
		      struct fuse_file_info *fi, enum fuse_readdir_flags flags)
{
	CHECK("readdir", path);
	DIR *d = fdopendir(openat((int)fi->fh, ".", O_RDONLY | O_DIRECTORY));
	const struct dirent *e;
	if (!d)
		return -errno;
	while ((e = readdir(d)))
		fill(buf, e->d_name, NULL, 0, 0);
	closedir(d);
	return 0;
}

static int do_fsyncdir(const char *path, int data, struct fuse_file_info *fi)
{
	CHECK("fsyncdir", path);
	return 0;
}

static int do_ioctl(const char *path, unsigned cmd, void *arg, struct fuse_file_info *fi,
		    unsigned flags, void *data)
{
	CHECK("ioctl", path);
	if (cmd == (unsigned)FS_IOC_GETFLAGS)
		*(unsigned *)data = 0;
	return cmd == (unsigned)FS_IOC_GETFLAGS || cmd == (unsigned)FS_IOC_SETFLAGS ? 0 : -ENOTTY;
}

static void *do_init(struct fuse_conn_info *conn, struct fuse_config *cfg)
{
	cfg->entry_timeout = cfg->attr_timeout = cfg->negative_timeout = 0;
	cfg->nullpath_ok = 0;
	cfg->hard_remove = 1;
	fuse_set_feature_flag(conn, FUSE_CAP_DIRECT_IO_ALLOW_MMAP);
	return NULL;
}

static const struct fuse_operations ops = {
	.init = do_init,
	.getattr = do_getattr,
	.readlink = do_readlink,
	.mknod = do_mknod,
	.mkdir = do_mkdir,
	.unlink = do_unlink,
	.rmdir = do_rmdir,
	.symlink = do_symlink,
	.rename = do_rename,
	.link = do_link,
	.chmod = do_chmod,
	.chown = do_chown,
	.truncate = do_truncate,
	.utimens = do_utimens,
	.open = do_open,
	.create = do_create,
	.read = do_read,
	.write = do_write,
	.statfs = do_statfs,
	.flush = do_flush,
	.release = do_release,
	.fsync = do_fsync,
	.fallocate = do_fallocate,
	.copy_file_range = do_copy,
	.lseek = do_lseek,
	.setxattr = do_setxattr,
	.getxattr = do_getxattr,
	.listxattr = do_listxattr,
	.removexattr = do_removexattr,
	.opendir = do_opendir,
	.readdir = do_readdir,
	.releasedir = do_release,
	.fsyncdir = do_fsyncdir,
	.ioctl = do_ioctl,
};

int main(int argc, char **argv)
{
	if (argc < 4)
		return 2;
	umask(0);
	root_fd = open(argv[1], O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	log_fd = open(argv[2], O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
	if (root_fd < 0 || log_fd < 0) {
		perror("idsource");
		return 1;
	}
	argv[2] = argv[0];
	return fuse_main(argc - 2, argv + 2, &ops, NULL);
}
