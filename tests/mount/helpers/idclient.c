/* SPDX-License-Identifier: MIT */
/* idclient DIRECTORY ROUNDS: every kind of call that a mount passes on, in DIRECTORY, which must allow them
 * all.  The first that fails is named, exit 1.  `idclient DIRECTORY refused`: the same calls, where each must
 * fail, on entries that are there already: file, dir, link. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/xattr.h>
#include <unistd.h>

static int failures;

static void expect(const char *what, int done, int wanted)
{
	if (done == wanted)
		return;
	printf("uid %u: %s %s%s%s\n", geteuid(), what, wanted ? "failed: " : "worked but must not",
	       wanted ? strerror(errno) : "", "");
	failures++;
}
#define WORKS(call) expect(#call, (call) >= 0, 1)
#define FAILS(call) expect(#call, (call) >= 0, 0)

static int list(const char *name)
{
	DIR *d = opendir(name);
	if (!d)
		return -1;
	errno = 0;
	while (readdir(d))
		;
	int bad = errno;
	if (fsync(dirfd(d)) < 0)
		bad = errno;
	closedir(d);
	errno = bad;
	return bad ? -1 : 0;
}

static int map_and_store(int fd)
{
	char *p = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (p == MAP_FAILED)
		return -1;
	p[0]++;
	int res = msync(p, 4096, MS_SYNC);
	munmap(p, 4096);
	return res;
}

static void data(const char *name)
{
	static char buf[200 << 10];
	int flags = 0;
	int fd = open(name, O_RDWR | O_CREAT | O_EXCL, 0666);
	WORKS(fd);
	WORKS(write(fd, buf, sizeof(buf)));
	WORKS(pread(fd, buf, 4096, 0));
	WORKS(pread(fd, buf, sizeof(buf), 0)); /* large ones are spliced */
	WORKS(fsync(fd));
	WORKS(fdatasync(fd));
	WORKS(lseek(fd, 0, SEEK_DATA));
	WORKS(fallocate(fd, 0, 0, sizeof(buf)));
	WORKS(ftruncate(fd, 8192));
	WORKS(ioctl(fd, FS_IOC_GETFLAGS, &flags));
	loff_t from = 0, to = 4096;
	WORKS(copy_file_range(fd, &from, fd, &to, 1000, 0));
	WORKS(map_and_store(fd));
	struct stat st;
	WORKS(fstat(fd, &st));
	WORKS(fchmod(fd, 0666));
	WORKS(futimens(fd, NULL));
	close(fd);
	WORKS(truncate(name, 100));
	fd = open(name, O_WRONLY | O_TRUNC);
	WORKS(fd);
	close(fd);
	fd = open(name, O_RDONLY);
	WORKS(fd);
	close(fd);
}

static void everything(void)
{
	char buf[300];
	struct stat st;
	struct statvfs sv;
	data("f");
	WORKS(stat("f", &st));
	WORKS(chmod("f", 0664));
	WORKS(chown("f", geteuid(), getegid()));
	WORKS(utimensat(AT_FDCWD, "f", NULL, 0));
	WORKS(setxattr("f", "user.a", "v", 1, 0));
	WORKS(setxattr("f", "system.x", "v", 1, 0));
	WORKS(getxattr("f", "system.x", buf, sizeof(buf)));
	WORKS(listxattr("f", buf, sizeof(buf)));
	WORKS(removexattr("f", "system.x"));
	WORKS(removexattr("f", "user.a"));
	WORKS(mkdir("d", 0777));
	WORKS(list("d"));
	WORKS(mkfifo("p", 0666));
	WORKS(symlink("f", "l"));
	WORKS(readlink("l", buf, sizeof(buf)));
	WORKS(link("f", "h"));
	WORKS(rename("h", "i"));
	WORKS(list("."));
	WORKS(statvfs("f", &sv));
	WORKS(unlink("i"));
	WORKS(unlink("l"));
	WORKS(unlink("p"));
	WORKS(rmdir("d"));
	WORKS(unlink("f"));
}

static void nothing(const char *dir)
{
	char buf[300], file[300], made[300], link_name[300], sub[300];
	struct stat st;
	snprintf(file, sizeof(file), "%s/file", dir);
	snprintf(made, sizeof(made), "%s/made", dir);
	snprintf(link_name, sizeof(link_name), "%s/link", dir);
	snprintf(sub, sizeof(sub), "%s/dir", dir);
	FAILS(stat(file, &st));
	FAILS(open(file, O_RDONLY));
	FAILS(open(file, O_WRONLY | O_TRUNC));
	FAILS(open(made, O_WRONLY | O_CREAT, 0666));
	FAILS(truncate(file, 0));
	FAILS(chmod(file, 0600));
	FAILS(utimensat(AT_FDCWD, file, NULL, 0));
	FAILS(setxattr(file, "system.x", "v", 1, 0));
	FAILS(setxattr(file, "user.x", "v", 1, 0));
	FAILS(getxattr(file, "system.x", buf, sizeof(buf)));
	FAILS(listxattr(file, buf, sizeof(buf)));
	FAILS(removexattr(file, "system.x"));
	FAILS(readlink(link_name, buf, sizeof(buf)));
	FAILS(mkdir(made, 0777));
	FAILS(mkfifo(made, 0666));
	FAILS(symlink("x", made));
	FAILS(link(file, made));
	FAILS(rename(file, made));
	FAILS(unlink(file));
	FAILS(rmdir(sub));
	FAILS(list(sub));
}

int main(int argc, char **argv)
{
	if (argc != 3)
		return 2;
	umask(0);
	if (strcmp(argv[2], "refused") == 0) {
		nothing(argv[1]);
		return failures != 0;
	}
	if (chdir(argv[1]) < 0) {
		perror(argv[1]);
		return 1;
	}
	for (int n = atoi(argv[2]); n > 0 && !failures; n--)
		everything();
	return failures != 0;
}
