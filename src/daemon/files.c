/* SPDX-License-Identifier: MIT */
#include "daemon/files.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "daemon/ini.h"
#include "daemon/loop.h"
#include "daemon/registry.h"

#define PATIENCE_MS 5000

struct file {
	char *path, *text;
	size_t size;
	enum file_result result;
	struct error err;
};

/* Reads one file, with a copy of its path, so that one that hangs does not hold up the others. */
struct file_task {
	struct task task;
	struct list link;
	struct registry *registry;
	uint64_t generation;
	int64_t since_ms;
	bool overdue;
	struct file file; /* used by the thread until done */
};

static struct {
	bool closed;
	struct file *file;
	unsigned n;
	uint64_t generation; /* of `file`; answers of an earlier one are discarded */
	struct list tasks;
} files = {.tasks = {&files.tasks, &files.tasks}};

/* --- reading -------------------------------------------------------------------------------- */

static enum file_result failed(struct error *err, const char *why)
{
	error_set(err, "%s", why);
	return FILE_FAILED;
}

static enum file_result read_all(int fd, char **text, size_t *size, struct error *err)
{
	AUTO_FREE char *buf = malloc(INI_SIZE_MAX + 1);
	ssize_t n;
	if (!buf)
		return failed(err, "out of memory");
	for (*size = 0; *size <= INI_SIZE_MAX; *size += (size_t)n) {
		n = read(fd, buf + *size, INI_SIZE_MAX + 1 - *size);
		if (n == 0) {
			*text = take_ptr(&buf);
			return FILE_READ;
		}
		if (n < 0 && errno != EINTR)
			return failed(err, strerror(errno));
		n = n < 0 ? 0 : n;
	}
	return failed(err, "is larger than 1 MiB");
}

static enum file_result read_now(const char *path, char **text, size_t *size, struct error *err)
{
	AUTO_FD fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
	struct stat st;
	if (fd < 0 || fstat(fd, &st) < 0) {
		bool absent = errno == ENOENT || errno == ENOTDIR;
		failed(err, strerror(errno));
		return absent ? FILE_ABSENT : FILE_FAILED;
	}
	if (!S_ISREG(st.st_mode))
		return failed(err,
			      S_ISDIR(st.st_mode) ? "is a directory" : "is not a regular file");
	return read_all(fd, text, size, err);
}

/* --- the task ------------------------------------------------------------------------------- */

static void run(struct task *t)
{
	struct file *f = &container_of(t, struct file_task, task)->file;
	f->result = read_now(f->path, &f->text, &f->size, &f->err);
}

static void file_free(struct file *f)
{
	free(f->path);
	free(f->text);
}

static struct file *find(const char *path)
{
	for (unsigned i = 0; i < files.n; i++)
		if (strcmp(files.file[i].path, path) == 0)
			return &files.file[i];
	return NULL;
}

static struct file_task *task_of(const char *path)
{
	list_for_each (it, &files.tasks) {
		struct file_task *k = list_entry(it, struct file_task, link);
		if (strcmp(k->file.path, path) == 0)
			return k;
	}
	return NULL;
}

static void done(struct task *t)
{
	struct file_task *k = container_of(t, struct file_task, task);
	struct file *f = k->generation == files.generation ? find(k->file.path) : NULL;
	if (f && f->result == FILE_LATER) {
		struct file unknown = *f;
		*f = k->file;
		k->file = unknown;
	}
	list_remove(&k->link);
	file_free(&k->file);
	k->registry->looks--;
	k->registry->looked = true;
	free(k);
}

static bool start(struct registry *r, const char *path)
{
	struct file_task *k = calloc(1, sizeof(*k));
	char *copy = strdup(path);
	if (!k || !copy) {
		free(k);
		free(copy);
		return false;
	}
	*k = (struct file_task){
		.task = {.run = run, .done = done},
		.registry = r,
		.generation = files.generation,
		.since_ms = loop_now_ms(),
		.file = {.path = copy, .err = ERROR_INIT},
	};
	list_push_tail(&files.tasks, &k->link);
	r->looks++;
	task_start(&r->tasks, &k->task);
	return true;
}

bool files_ask(struct registry *r)
{
	bool any = false;
	for (unsigned i = 0; i < files.n; i++) {
		const struct file *f = &files.file[i];
		if (f->result != FILE_LATER)
			continue;
		const struct file_task *k = task_of(f->path);
		any |= k ? !k->overdue : start(r, f->path);
	}
	return any;
}

void files_progress(struct registry *r)
{
	list_for_each (it, &files.tasks) {
		struct file_task *k = list_entry(it, struct file_task, link);
		if (k->overdue || loop_now_ms() - k->since_ms <= PATIENCE_MS)
			continue;
		k->overdue = true;
		r->looked = true;
	}
}

/* --- its answers ---------------------------------------------------------------------------- */

static void want(const char *path)
{
	struct file *more = realloc(files.file, (files.n + 1) * sizeof(*more));
	char *copy = strdup(path);
	if (more)
		files.file = more;
	if (more && copy)
		more[files.n++] =
			(struct file){.path = copy, .result = FILE_LATER, .err = ERROR_INIT};
	else
		free(copy);
}

enum file_result files_read(const char *path, char **text, size_t *size, struct error *err)
{
	if (!files.closed)
		return read_now(path, text, size, err);
	const struct file *f = find(path);
	if (!f)
		want(path);
	if (!f || f->result == FILE_LATER) {
		const struct file_task *k = task_of(path);
		bool overdue = k && k->overdue;
		error_set(err, overdue ? "does not respond" : "out of memory");
		return overdue ? FILE_FAILED : FILE_LATER;
	}
	if (f->result != FILE_READ) {
		*err = f->err;
		return f->result;
	}
	*text = malloc(f->size + 1);
	if (!*text)
		return failed(err, "out of memory");
	memcpy(*text, f->text, f->size);
	*size = f->size;
	return FILE_READ;
}

void files_close(void)
{
	files.closed = true;
}

bool files_are_closed(void)
{
	return files.closed;
}

void files_begin(bool again)
{
	if (!again)
		files_end();
}

void files_end(void)
{
	for (unsigned i = 0; i < files.n; i++)
		file_free(&files.file[i]);
	free(files.file);
	files.file = NULL;
	files.n = 0;
	files.generation++;
}
