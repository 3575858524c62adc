/* SPDX-License-Identifier: MIT */
#define _GNU_SOURCE
#include "conform.h"

#include <dirent.h>
#include <grp.h>
#include <stdarg.h>
#include <sys/socket.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>
#include <time.h>

static const struct topic *const all_topics[] = {
	topics_names, topics_paths, topics_rename, topics_owner, topics_access, topics_times,
	topics_data,  topics_space, topics_attr,   topics_locks, topics_dirs,	topics_special,
};
static const char *current = "";
static int failures, checks;

void trace(const char *fmt, ...)
{
	va_list ap;
	printf("%s: ", current);
	va_start(ap, fmt);
	vprintf(fmt, ap);
	va_end(ap);
	putchar('\n');
}

static void complain(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
static void complain(const char *fmt, ...)
{
	va_list ap;
	fflush(stdout);
	fprintf(stderr, "%s: WRONG: ", current);
	va_start(ap, fmt);
	vfprintf(stderr, fmt, ap);
	va_end(ap);
	fputc('\n', stderr);
	failures++;
}

const char *errno_name(int err)
{
	const char *name = strerrorname_np(err);
	return name ? name : "?";
}

long traced(const char *text, long result, int want)
{
	int err = result == -1 ? errno : 0;
	checks++;
	if (err)
		trace("%s: %s", text, errno_name(err));
	else
		trace("%s = %ld", text, result);
	if (want >= 0 && err != want)
		complain("%s: %s, expected %s", text, err ? errno_name(err) : "worked",
			 want ? errno_name(want) : "success");
	return result;
}

int keep_fd(const char *text, int fd, int want)
{
	traced(text, fd < 0 ? -1 : 0, want);
	return fd;
}

void as(uid_t who)
{
	gid_t groups[] = {who, CREW};
	fflush(stdout);
	if (setresuid(0, 0, 0) || setgroups(who == CAROL || who == ROOT ? 1 : 2, groups) ||
	    setresgid(who, who, 0) || setresuid(who, who, 0)) {
		perror("conform: changing user");
		exit(2);
	}
}

static char type_char(mode_t mode)
{
	return S_ISREG(mode)	? 'f'
	       : S_ISDIR(mode)	? 'd'
	       : S_ISLNK(mode)	? 'l'
	       : S_ISFIFO(mode) ? 'p'
	       : S_ISSOCK(mode) ? 's'
	       : S_ISCHR(mode)	? 'c'
	       : S_ISBLK(mode)	? 'b'
				: '?';
}

void show(const char *path)
{
	struct stat st;
	if (lstat(path, &st) < 0) {
		trace("%s: %s", path, errno_name(errno));
		return;
	}
	/* A directory's size is the filesystem's own business and depends on its history. */
	long long size = S_ISDIR(st.st_mode) ? 0 : (long long)st.st_size;
	trace("%s: %c %04o %u:%u links %lu size %lld dev %u,%u", path, type_char(st.st_mode),
	      st.st_mode & 07777, st.st_uid, st.st_gid, (unsigned long)st.st_nlink, size,
	      major(st.st_rdev), minor(st.st_rdev));
}

void show_data(int fd)
{
	char buf[65536];
	uint64_t sum = 1469598103934665603u, len = 0;
	ssize_t n;
	while ((n = pread(fd, buf, sizeof(buf), (off_t)len)) > 0) {
		for (ssize_t i = 0; i < n; i++)
			sum = (sum ^ (unsigned char)buf[i]) * 1099511628211u;
		len += (uint64_t)n;
	}
	trace("%s %llu bytes, sum %016llx", n < 0 ? errno_name(errno) : "data",
	      (unsigned long long)len, (unsigned long long)sum);
}

static struct timespec coarse_now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_REALTIME_COARSE, &t);
	return t;
}

static bool differ(struct timespec a, struct timespec b)
{
	return a.tv_sec != b.tv_sec || a.tv_nsec != b.tv_nsec;
}

/* The clock of file times ticks 100 to 1000 times a second, and on an idle machine not always in
 * time. */
static void next_tick(void)
{
	for (int ticks = 0; ticks < 2; ticks++) {
		struct timespec before = coarse_now();
		while (!differ(before, coarse_now()))
			usleep(1000);
	}
}

struct times times_before(const char *path)
{
	struct stat st = {0};
	if (lstat(path, &st) < 0)
		complain("no times of %s: %s", path, errno_name(errno));
	next_tick();
	return (struct times){st.st_atim, st.st_mtim, st.st_ctim};
}

void times_after(const char *text, const char *which, const char *path, const struct times *t)
{
	struct stat st = {0};
	char got[8] = "";
	if (lstat(path, &st) < 0)
		complain("no times of %s: %s", path, errno_name(errno));
	if (strchr(which, 'a') && differ(t->a, st.st_atim))
		strcat(got, "a");
	if (differ(t->c, st.st_ctim))
		strcat(got, "c");
	if (differ(t->m, st.st_mtim))
		strcat(got, "m");
	trace("%s moves '%s' of %s", text, got, path);
	if (strcmp(got, which) != 0)
		complain("%s moved '%s' of %s, expected '%s'", text, got, path, which);
}

void make_file(const char *path, mode_t mode)
{
	int fd = open(path, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0600);
	if (fd < 0 || fchmod(fd, mode) < 0)
		complain("cannot make %s: %s", path, errno_name(errno));
	if (fd >= 0)
		close(fd);
}

static int make_node(const char *path, mode_t mode)
{
	switch (mode & S_IFMT) {
	case S_IFDIR:
		return mkdir(path, 0700);
	case S_IFLNK:
		return symlink("target", path);
	case S_IFCHR:
		return mknod(path, S_IFCHR | 0600, makedev(1, 3));
	case S_IFBLK:
		return mknod(path, S_IFBLK | 0600, makedev(7, 250));
	default:
		return mknod(path, (mode & S_IFMT) | 0600, 0);
	}
}

void make_owned(const char *path, mode_t mode, uid_t uid, gid_t gid)
{
	if (make_node(path, mode) < 0 || lchown(path, uid, gid) < 0 ||
	    (!S_ISLNK(mode) && chmod(path, mode & 07777) < 0))
		complain("cannot make %s: %s", path, errno_name(errno));
}

/* By descriptors: some trees here are deeper than a path is long. */
static int remove_at(int dir, const char *name)
{
	if (unlinkat(dir, name, 0) == 0)
		return 0;
	if (errno != EISDIR)
		return -1;
	int fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	DIR *d = fd < 0 ? NULL : fdopendir(fd);
	int bad = d ? 0 : -1;
	for (struct dirent *e; d && (e = readdir(d));)
		if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0)
			bad |= remove_at(dirfd(d), e->d_name);
	if (d)
		closedir(d);
	return bad ? bad : unlinkat(dir, name, AT_REMOVEDIR);
}

void remove_all(const char *path)
{
	if (remove_at(AT_FDCWD, path) < 0 && errno != ENOENT)
		complain("cannot remove %s: %s", path, errno_name(errno));
}

void write_all(int fd, const char *text)
{
	if (write(fd, text, strlen(text)) != (ssize_t)strlen(text))
		complain("short write: %s", errno_name(errno));
}

void fill(char *buf, size_t len, unsigned seed)
{
	for (size_t i = 0; i < len; i++)
		buf[i] = (char)((seed = seed * 1664525u + 1013904223u) >> 24);
}

bool on_tmpfs(void)
{
	struct statfs s;
	return getenv("CONFORM_TMPFS") || (statfs(".", &s) == 0 && s.f_type == 0x01021994);
}

static bool wanted(const struct topic *g, int argc, char **argv)
{
	for (int i = 1; i < argc; i++)
		if (strcmp(argv[i], g->name) == 0)
			return true;
	return argc == 1 && !g->alone;
}

/* Each topic in an empty directory of its own, as root with umask 022. */
static void run(const struct topic *g)
{
	current = g->name;
	if (mkdir(g->name, 0755) < 0 && errno != EEXIST)
		complain("no directory for it: %s", errno_name(errno));
	if (chdir(g->name) < 0) {
		perror("conform: chdir");
		exit(2);
	}
	as(ROOT);
	umask(022);
	g->run();
	as(ROOT);
	umask(022);
	if (chdir("..") < 0)
		exit(2);
	if (!g->alone)
		remove_all(g->name);
}

int main(int argc, char **argv)
{
	int ran = 0;
	for (size_t i = 0; i < sizeof(all_topics) / sizeof(all_topics[0]); i++) {
		for (const struct topic *g = all_topics[i]; g->name; g++) {
			if (argc == 2 && strcmp(argv[1], "--list") == 0) {
				puts(g->name);
			} else if (wanted(g, argc, argv)) {
				run(g);
				ran++;
			}
		}
	}
	if (argc == 2 && strcmp(argv[1], "--list") == 0)
		return 0;
	printf("%d checks\n", checks);
	return failures || ran == 0;
}
