/* SPDX-License-Identifier: MIT */
/* Writes and reads the fault table of faults.so.
 *
 *	faultctl FILE new
 *	faultctl FILE set CALL [errno=NAME] [short=BYTES] [delay=MS] [hang] [after] [spare=N] [count=N]
 *	faultctl FILE clear [CALL]		all rows, or that call's; who hangs goes on
 *	faultctl FILE hits|waiting CALL		prints a number
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "faults.h"

static struct fault_table *open_table(const char *path, int flags)
{
	int fd = open(path, O_RDWR | O_CLOEXEC | flags, 0666);
	if (fd < 0 || ftruncate(fd, sizeof(struct fault_table)) < 0) {
		perror(path);
		exit(1);
	}
	void *at =
		mmap(NULL, sizeof(struct fault_table), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	close(fd);
	if (at == MAP_FAILED) {
		perror("mmap");
		exit(1);
	}
	return at;
}

static int error_number(const char *name)
{
	static const struct {
		const char *name;
		int number;
	} errors[] = {{"EIO", EIO},	  {"ENOSPC", ENOSPC}, {"EMFILE", EMFILE},
		      {"ENOMEM", ENOMEM}, {"EINTR", EINTR},   {"EROFS", EROFS},
		      {"EDQUOT", EDQUOT}, {"ESTALE", ESTALE}, {"ENFILE", ENFILE},
		      {"EACCES", EACCES}, {"EAGAIN", EAGAIN}};
	for (unsigned i = 0; i < sizeof(errors) / sizeof(errors[0]); i++)
		if (strcmp(errors[i].name, name) == 0)
			return errors[i].number;
	fprintf(stderr, "faultctl: no error '%s' in the list\n", name);
	exit(2);
}

static void set(struct fault_table *t, int n, char **word)
{
	struct fault *f = t->rule;
	while (f < t->rule + FAULT_RULES && atomic_load(&f->armed))
		f++;
	if (f == t->rule + FAULT_RULES || strlen(word[0]) >= sizeof(f->call)) {
		fprintf(stderr, "faultctl: the table is full\n");
		exit(1);
	}
	memset(f, 0, sizeof(*f));
	strncpy(f->call, word[0], sizeof(f->call) - 1);
	atomic_store(&f->left, FAULT_FOREVER);
	for (int i = 1; i < n; i++) {
		const char *value = strchr(word[i], '=');
		value = value ? value + 1 : "";
		if (strncmp(word[i], "errno=", 6) == 0)
			f->error = error_number(value);
		else if (strncmp(word[i], "short=", 6) == 0)
			f->at_most = (uint32_t)strtoul(value, NULL, 10);
		else if (strncmp(word[i], "delay=", 6) == 0)
			f->delay_ms = (uint32_t)strtoul(value, NULL, 10);
		else if (strncmp(word[i], "spare=", 6) == 0)
			atomic_store(&f->spared, (int32_t)strtoul(value, NULL, 10));
		else if (strncmp(word[i], "count=", 6) == 0)
			atomic_store(&f->left, (int32_t)strtoul(value, NULL, 10));
		else if (strcmp(word[i], "hang") == 0)
			atomic_store(&f->hang, 1);
		else if (strcmp(word[i], "after") == 0)
			f->after = 1;
		else
			exit(2);
	}
	atomic_store(&f->armed, 1);
}

int main(int argc, char **argv)
{
	if (argc < 3)
		return 2;
	const char *verb = argv[2];
	struct fault_table *t =
		open_table(argv[1], strcmp(verb, "new") == 0 ? O_CREAT | O_TRUNC : 0);
	unsigned hits = 0, waiting = 0;
	if (strcmp(verb, "set") == 0 && argc > 3)
		set(t, argc - 3, argv + 3);
	for (struct fault *f = t->rule; f < t->rule + FAULT_RULES; f++) {
		if (argc > 3 && strcmp(f->call, argv[3]) != 0)
			continue;
		hits += atomic_load(&f->hits);
		waiting += atomic_load(&f->waiting);
		if (strcmp(verb, "clear") == 0) {
			atomic_store(&f->armed, 0);
			atomic_store(&f->hang, 0);
		}
	}
	if (strcmp(verb, "hits") == 0)
		printf("%u\n", hits);
	if (strcmp(verb, "waiting") == 0)
		printf("%u\n", waiting);
	return 0;
}
