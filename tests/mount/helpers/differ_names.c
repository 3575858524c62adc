/* SPDX-License-Identifier: MIT */
/* Steps on names: make, remove, rename, link, list. */
#define _GNU_SOURCE
#include "differ.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char known[MAX_KNOWN][PATH_LEN];
static unsigned n_known;

void remember(const char *path)
{
	unsigned at = n_known < MAX_KNOWN ? n_known++ : (unsigned)below(MAX_KNOWN);
	snprintf(known[at], PATH_LEN, "%s", path);
}

/* Few enough that steps meet, odd enough to be names of any bytes. */
static void draw_name(char *name)
{
	static const char *const odd[] = {"a",	  "b", "c",  "\xff\xfe", " ",	   "-",
					  "x\ny", "*", "\\", "\xc3\xa4", "a.b.c.", "..."};
	switch (below(5)) {
	case 0:
		strcpy(name, odd[below(12)]);
		break;
	case 1:
		memset(name, (int)('k' + below(4)), 255);
		name[255] = '\0';
		break;
	default:
		sprintf(name, "n%u", (unsigned)below(30));
	}
}

/* Mostly something that is there: most steps should find what they work on. */
void draw_path(char *path)
{
	struct stat st;
	if (!n_known || one_in(8)) {
		draw_new_path(path);
		return;
	}
	for (int i = 0; i < 6; i++) {
		strcpy(path, known[below(n_known)]);
		if (fstatat(w.root[0], path, &st, AT_SYMLINK_NOFOLLOW) == 0)
			return;
	}
}

/* A name in a directory that may exist. */
void draw_new_path(char *path)
{
	char name[256];
	if (w.only_data) {
		sprintf(path, "file%u", (unsigned)below(3));
		return;
	}
	draw_name(name);
	path[0] = '\0';
	struct stat st;
	const char *dir = n_known ? known[below(n_known)] : "";
	for (int i = 0; n_known && i < 6; i++) {
		if (fstatat(w.root[0], dir, &st, 0) == 0 && S_ISDIR(st.st_mode))
			break;
		dir = known[below(n_known)];
	}
	if (*dir && !one_in(4) && strlen(dir) + strlen(name) + 2 < 900)
		sprintf(path, "%s/", dir);
	strcat(path, name);
}

int free_slot(void)
{
	for (int i = 0; i < MAX_FDS; i++)
		if (w.fd[i][0] < 0)
			return i;
	return -1;
}

int used_slot(void)
{
	int start = (int)below(MAX_FDS);
	for (int i = 0; i < MAX_FDS; i++) {
		int slot = (start + i) % MAX_FDS;
		if (w.fd[slot][0] >= 0 && w.fd[slot][1] >= 0)
			return slot;
	}
	return -1;
}

static void draw_make(struct step *s)
{
	draw_new_path(s->path);
	remember(s->path);
}

static void draw_move(struct step *s)
{
	remember(s->path2);
}

static long run_mkdir(const struct step *s, int side)
{
	return mkdirat(w.root[side], s->path,
		       s->mode | (s->seed % 4 ? 0700 : 0) | (s->flags % 8 ? 0 : 02000));
}

static long run_rmdir(const struct step *s, int side)
{
	return unlinkat(w.root[side], s->path, AT_REMOVEDIR);
}

static long run_unlink(const struct step *s, int side)
{
	return unlinkat(w.root[side], s->path, 0);
}

static long run_mknod(const struct step *s, int side)
{
	static const mode_t types[] = {S_IFIFO, S_IFSOCK, S_IFREG, S_IFCHR};
	mode_t type = types[s->seed % 4];
	return mknodat(w.root[side], s->path, type | (s->mode & 0777), type == S_IFCHR ? 0x103 : 0);
}

static long run_symlink(const struct step *s, int side)
{
	return symlinkat(s->path2, w.root[side], s->path);
}

static long run_readlink(const struct step *s, int side)
{
	char target[PATH_LEN];
	ssize_t n = readlinkat(w.root[side], s->path, target, sizeof(target));
	if (n > 0)
		note(target, (size_t)n);
	return n;
}

static long run_link(const struct step *s, int side)
{
	return linkat(w.root[side], s->path, w.root[side], s->path2,
		      s->flags & 1 ? AT_SYMLINK_FOLLOW : 0);
}

static long run_link_open(const struct step *s, int side)
{
	if (s->slot < 0)
		return 0;
	return linkat(w.fd[s->slot][side], "", w.root[side], s->path2, AT_EMPTY_PATH);
}

static long run_rename(const struct step *s, int side)
{
	static const unsigned flags[] = {0, 0, 0, 1, 2, 4}; /* NOREPLACE, EXCHANGE, WHITEOUT */
	return renameat2(w.root[side], s->path, w.root[side], s->path2, flags[s->seed % 6]);
}

static long run_stat(const struct step *s, int side)
{
	struct stat st;
	long r = fstatat(w.root[side], s->path, &st, s->flags & 1 ? AT_SYMLINK_NOFOLLOW : 0);
	if (r == 0)
		note_stat(&st);
	return r;
}

static long run_access(const struct step *s, int side)
{
	return faccessat(w.root[side], s->path, (int)(s->seed % 8), s->flags & 1 ? AT_EACCESS : 0);
}

static int by_name(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

static long run_list(const struct step *s, int side)
{
	char *names[2000];
	int n = 0;
	int fd = openat(w.root[side], s->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *d = fd < 0 ? NULL : fdopendir(fd);
	if (!d)
		return -1;
	for (struct dirent *e; n < 2000 && (e = readdir(d));) {
		char text[300];
		snprintf(text, sizeof(text), "%s%c%u", e->d_name, '\x01', e->d_type);
		names[n++] = strdup(text);
	}
	closedir(d);
	qsort(names, (size_t)n, sizeof(names[0]), by_name);
	for (int i = 0; i < n; i++) {
		note(names[i], strlen(names[i]));
		free(names[i]);
	}
	return n;
}

const struct kind kinds_names[] = {
	{"mkdir", 8, draw_make, run_mkdir},
	{"rmdir", 3, NULL, run_rmdir},
	{"unlink", 8, NULL, run_unlink},
	{"mknod", 3, draw_make, run_mknod},
	{"symlink", 4, draw_make, run_symlink},
	{"readlink", 2, NULL, run_readlink},
	{"link", 5, draw_move, run_link},
	{"link of open", 2, draw_move, run_link_open},
	{"rename", 8, draw_move, run_rename},
	{"stat", 10, NULL, run_stat},
	{"access", 4, NULL, run_access},
	{"list", 4, NULL, run_list},
	{0},
};
