/* SPDX-License-Identifier: MIT */
/* differ DIRECTORY: a storm.  The same random operations in one directory, with nothing to compare:
 * several of these run concurrently test what programs do to each other.
 *
 * differ PLAIN MOUNT: a long random sequence of operations, each done in a plain directory and in
 * a mount.  Results, data and attributes of every step, and the trees every so often, must agree.
 *
 *	RATEFS_SEED=n	which sequence (default: the time; it is printed)
 *	RATEFS_ROUNDS=n	how many steps (default 4000)
 *	RATEFS_USERS=0	all as the one who runs it
 *	RATEFS_SET_IDS=0	no set-id modes
 *	RATEFS_ONLY_DATA=1	three files, open and data operations only
 * The first difference ends it with the steps that led there. */
#define _GNU_SOURCE
#include "differ.h"

#include <fcntl.h>
#include <grp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <time.h>
#include <unistd.h>

struct world w;

static uint64_t state;
static int sides = SIDES;
static time_t started;
static bool many_users = true, set_ids = true;
static struct kind_list {
	const struct kind *kind;
	unsigned until, tried, worked;
} table[100];
static unsigned n_kinds, total_weight;

uint64_t rnd(void)
{
	uint64_t z = (state += 0x9E3779B97F4A7C15u);
	z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
	z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
	return z ^ (z >> 31);
}

bool one_in(unsigned n)
{
	return below(n) == 0;
}

void fill(char *buf, size_t len, uint32_t seed)
{
	for (size_t i = 0; i < len; i++)
		buf[i] = (char)((seed = seed * 1664525u + 1013904223u) >> 24);
}

void note(const void *data, size_t len)
{
	const unsigned char *p = data;
	uint64_t h = w.out->sum ? w.out->sum : 1469598103934665603u;
	for (size_t i = 0; i < len; i++)
		h = (h ^ p[i]) * 1099511628211u;
	w.out->sum = h;
}

void note_u64(uint64_t v)
{
	note(&v, sizeof(v));
}

uint64_t comparable_time(const struct timespec *t)
{
	return t->tv_sec >= started - 1 ? 1
					: (uint64_t)t->tv_sec * 1000000000u + (uint64_t)t->tv_nsec;
}

void note_stat(const struct stat *st)
{
	note_u64(st->st_mode);
	note_u64(st->st_uid);
	note_u64(st->st_gid);
	note_u64(st->st_nlink);
	note_u64(S_ISDIR(st->st_mode) ? 0 : (uint64_t)st->st_size);
	note_u64(st->st_rdev);
	note_u64(comparable_time(&st->st_mtim));
	snprintf(w.out->text, sizeof(w.out->text),
		 "mode %o owner %u:%u links %lu size %lld mtime %llu", st->st_mode, st->st_uid,
		 st->st_gid, (unsigned long)st->st_nlink, (long long)st->st_size,
		 (unsigned long long)comparable_time(&st->st_mtim));
}

static void be(uid_t who)
{
	static uid_t now;
	if (!many_users || who == now)
		return;
	gid_t groups[] = {who, 2000};
	if (setresuid(0, 0, 0) || setgroups(2, groups) || setresgid(who, who, 0) ||
	    setresuid(who, who, 0)) {
		perror("differ: changing user");
		exit(2);
	}
	now = who;
}

static void add_kinds(const struct kind *k)
{
	for (; k->name; k++) {
		total_weight += k->weight;
		table[n_kinds++] = (struct kind_list){.kind = k, .until = total_weight};
	}
}

static void draw(struct step *s)
{
	static const uid_t users[] = {0, 1001, 1001, 1002};
	static const mode_t masks[] = {022, 022, 0, 077, 0177};
	memset(s, 0, sizeof(*s));
	unsigned pick = (unsigned)below(total_weight);
	for (unsigned i = 0; !s->kind; i++)
		if (pick < table[i].until)
			s->kind = table[i].kind;
	s->who = users[below(4)];
	s->mask = masks[below(5)];
	draw_path(s->path);
	if (one_in(2))
		draw_new_path(s->path2);
	else
		draw_path(s->path2);
	s->slot = used_slot();
	s->slot2 = used_slot();
	s->flags = (uint32_t)rnd();
	s->mode = (mode_t)(one_in(4) ? below(010000) : 0600 | below(0200));
	/* On directories only.  On files without group execute it stays when a member of the group
	 * writes, which a mount knows as of the open only: see setid_clearing of conform. */
	s->mode &= ~02000u;
	if (!set_ids)
		s->mode &= ~04000u;
	s->at = one_in(3) ? (int64_t)below(200000) : (int64_t)below(5000);
	s->len = one_in(3) ? (int64_t)below(100000) : (int64_t)below(3000);
	s->seed = (uint32_t)rnd();
	if (s->kind->draw)
		s->kind->draw(s);
}

static void show_bytes(char *to, size_t size, const char *path)
{
	size_t n = 0;
	for (; *path && n + 5 < size; path++)
		n += (size_t)snprintf(to + n, size - n,
				      *path > 32 && *path < 127 ? "%c" : "\\x%02x",
				      (unsigned char)*path);
	to[n] = '\0';
}

static void describe(const struct step *s, unsigned number, const struct outcome *o)
{
	char a[80], b[80];
	show_bytes(a, sizeof(a), s->path);
	show_bytes(b, sizeof(b), s->path2);
	printf("%6u uid %u umask %03o %s: path %s path2 %s slot %d,%d flags %x mode %o at %lld len %lld",
	       number, s->who, s->mask, s->kind->name, a, b, s->slot, s->slot2, s->flags, s->mode,
	       (long long)s->at, (long long)s->len);
	for (int side = 0; side < SIDES; side++)
		printf(" | %s %ld %s %llx %s", side ? "mount" : "plain", o[side].ret,
		       o[side].err ? strerrorname_np(o[side].err) : "ok",
		       (unsigned long long)o[side].sum, o[side].text);
	printf("\n");
}

static void count(const struct kind *k, bool worked)
{
	for (unsigned i = 0; i < n_kinds; i++) {
		if (table[i].kind == k) {
			table[i].tried++;
			table[i].worked += worked;
		}
	}
}

/* A sequence in which some kind never works tests less than it says. */
static int summary(unsigned rounds)
{
	unsigned worked = 0, never = 0;
	for (unsigned i = 0; i < n_kinds; i++) {
		worked += table[i].worked;
		if (table[i].tried > 150 && !table[i].worked) {
			printf("differ: '%s' never worked\n", table[i].kind->name);
			never++;
		}
	}
	printf("differ: %u of %u steps worked, the others failed alike\n", worked, rounds);
	return never ? 1 : 0;
}

#define HISTORY 40
static struct {
	struct step step;
	struct outcome out[SIDES];
} history[HISTORY];

static void run_step(unsigned number)
{
	struct step *s = &history[number % HISTORY].step;
	struct outcome *o = history[number % HISTORY].out;
	draw(s);
	umask(s->mask);
	for (int side = 0; side < sides; side++) {
		be(s->who);
		w.out = &o[side];
		*w.out = (struct outcome){0};
		errno = 0;
		o[side].ret = s->kind->run(s, side);
		o[side].err = o[side].ret < 0 ? errno : 0;
	}
	be(0);
	count(s->kind, o[0].ret >= 0);
	if (sides < SIDES) {
		if (s->slot >= 0) /* free is what both sides have not */
			w.fd[s->slot][1] = w.fd[s->slot][0];
		return;
	}
	if (o[0].ret != o[1].ret || o[0].err != o[1].err || o[0].sum != o[1].sum)
		w.failed = true;
}

static int give_up(unsigned number, uint64_t seed)
{
	for (unsigned i = number < HISTORY ? 0 : number - HISTORY + 1; i <= number; i++)
		describe(&history[i % HISTORY].step, i, history[i % HISTORY].out);
	printf("differ: the sides differ at step %u; again with RATEFS_SEED=%llu\n", number,
	       (unsigned long long)seed);
	return 1;
}

static uint64_t env(const char *name, uint64_t otherwise)
{
	const char *v = getenv(name);
	return v && *v ? strtoull(v, NULL, 0) : otherwise;
}

int main(int argc, char **argv)
{
	if (argc != 2 && argc != 3) {
		fprintf(stderr, "usage: differ PLAIN MOUNT | differ DIRECTORY\n");
		return 2;
	}
	sides = argc - 1;
	uint64_t seed = env("RATEFS_SEED", (uint64_t)time(NULL) ^ ((uint64_t)getpid() << 32));
	unsigned rounds = (unsigned)env("RATEFS_ROUNDS", 4000);
	set_ids = env("RATEFS_SET_IDS", 1);
	many_users = geteuid() == 0 && env("RATEFS_USERS", 1);
	state = seed;
	started = time(NULL);
	for (int side = 0; side < sides; side++) {
		w.root[side] = open(argv[1 + side], O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		if (w.root[side] < 0 || (many_users && fchmod(w.root[side], 0777) < 0)) {
			perror(argv[1 + side]);
			return 2;
		}
	}
	memset(w.fd, -1, sizeof(w.fd));
	struct statfs fs;
	w.on_tmpfs = fstatfs(w.root[0], &fs) == 0 && fs.f_type == TMPFS_MAGIC;
	w.only_data = env("RATEFS_ONLY_DATA", 0);
	add_kinds(kinds_files);
	if (!w.only_data) {
		add_kinds(kinds_names);
		add_kinds(kinds_attrs);
	}
	printf("differ: seed %llu, %u steps\n", (unsigned long long)seed, rounds);
	for (unsigned i = 0; i < rounds; i++) {
		run_step(i);
		if (sides < SIDES)
			continue;
		if (w.failed || ((i % 400 == 399 || i == rounds - 1) && !same_trees()))
			return give_up(i, seed);
	}
	return sides < SIDES ? 0 : summary(rounds);
}
