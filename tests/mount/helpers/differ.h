/* SPDX-License-Identifier: MIT */
/* The parts of differ: one random operation (step) and what came of it (outcome), done on two
 * sides: a plain directory and a mount. */
#ifndef DIFFER_H
#define DIFFER_H

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum { SIDES = 2, MAX_FDS = 24, MAX_KNOWN = 400, PATH_LEN = 1200 };

struct step {
	const struct kind *kind;
	uid_t who;
	mode_t mask;
	char path[PATH_LEN], path2[PATH_LEN];
	int slot, slot2; /* open files */
	uint32_t flags;
	mode_t mode;
	int64_t at, len;
	uint32_t seed; /* of data, names of attributes, … */
};

struct outcome {
	long ret;
	int err;
	uint64_t sum;	/* of data and attributes that came back */
	char text[120]; /* the same for people, where there is something to say */
};

/* The two worlds. */
struct world {
	int root[SIDES];
	int fd[MAX_FDS][SIDES]; /* -1: free */
	bool failed, only_data;
	bool on_tmpfs;	     /* which is peculiar in ways that cannot be seen through FUSE */
	struct outcome *out; /* where the running side notes sums */
};
extern struct world w;

struct kind {
	const char *name;
	unsigned weight;
	void (*draw)(struct step *s); /* NULL: the usual path, path2, numbers */
	long (*run)(const struct step *s, int side);
};
extern const struct kind kinds_names[], kinds_files[], kinds_attrs[];

/* Random numbers that only the seed decides. */
uint64_t rnd(void);
static inline uint64_t below(uint64_t n)
{
	return rnd() % n;
}
bool one_in(unsigned n);

/* Paths: mostly of things that were made before. */
void draw_path(char *path);
void draw_new_path(char *path);
void remember(const char *path);
int free_slot(void);
int used_slot(void); /* -1: none */

/* Into the outcome of the running side. */
void note(const void *data, size_t len);
void note_u64(uint64_t v);
/* Everything of a file's attributes that must agree on both sides. */
struct stat;
void note_stat(const struct stat *st);
/* Times before the start of the run were set by hand and must agree; later ones are "now". */
uint64_t comparable_time(const struct timespec *t);

/* Contents, names, attributes below both roots, as root.  False: they differ, and says where. */
bool same_trees(void);

void fill(char *buf, size_t len, uint32_t seed);

#endif
