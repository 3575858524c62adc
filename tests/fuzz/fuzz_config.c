/* SPDX-License-Identifier: MIT */
/* The configuration file: any bytes are either a whole, usable configuration or a list of problems, a line each. */
#include "daemon/config_file.h"

#include "base/cleanup.h"
#include "fuzz/fuzz.h"

static void check_mount(const struct configuration *c, const struct settings *m)
{
	MUST(m->name && m->name[0]);
	MUST(m->mountpoint && m->mountpoint[0] == '/');
	const struct settings *fs = m->fs ? configuration_find_fs(c, m->fs) : NULL;
	MUST(m->source || (fs && fs->source));
	for (unsigned i = 0; i < c->n_mounts; i++)
		MUST(&c->mount[i] == m || strcmp(c->mount[i].mountpoint, m->mountpoint) != 0);
}

static void check_problems(const struct problems *p)
{
	AUTO_FREE char *text = problems_text(p);
	MUST(p->n > 0 && text);
	for (unsigned i = 0; i < p->n && i < PROBLEMS_MAX; i++)
		MUST(p->line[i] && p->line[i][0] && !strchr(p->line[i], '\n'));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct configuration c;
	struct problems problems = {.file = "ratefs.conf"};
	char *text = malloc(size + 1); /* config_load leaves room for one byte more */
	MUST(text);
	memcpy(text, data, size);
	if (config_parse(&c, text, size, &problems) == 0) {
		MUST(problems.n == 0);
		for (unsigned i = 0; i < c.n_mounts; i++)
			check_mount(&c, &c.mount[i]);
		configuration_free(&c);
	} else {
		check_problems(&problems);
	}
	problems_free(&problems);
	free(text);
	return 0;
}
