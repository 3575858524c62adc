/* SPDX-License-Identifier: MIT */
/* The control protocol: lines of requests against a daemon without real mounts.  Every line has an answer; records are
 * a path, a tab and a JSON scalar; words survive being written and read. */
#include <unistd.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "daemon/await.h"
#include "daemon/commands.h"
#include "daemon/proto.h"
#include "daemon/registry.h"
#include "fuzz/fuzz.h"
#include "sched/gate.h"
#include "unit/fake_clock.h"

static struct fake_clock fake;
static struct registry registry;

static void on_ready(void *ctx, struct list *ready)
{
	MUST(list_empty(ready)); /* nobody submits anything */
}

static void add_fs(void)
{
	struct settings s;
	settings_init(&s);
	s.name = strdup("shared");
	s.source = strdup("/nonexistent/ratefs-fuzz");
	MUST(registry_add_fs(&registry, &s, false));
	settings_free(&s);
}

static void add_mount(const char *name, const char *mountpoint)
{
	struct settings s;
	settings_init(&s);
	s.name = strdup(name);
	s.fs = strdup("shared");
	s.mountpoint = strdup(mountpoint);
	MUST(registry_add_mount(&registry, &s));
	settings_free(&s);
}

static void start(void)
{
	log_set_level(LOG_LEVEL_ERROR);
	fake_clock_init(&fake, NSEC_PER_SEC);
	registry_clear(&registry);
	registry.gate = gate_new(&fake.clk, on_ready, NULL);
	MUST(registry.gate);
	add_fs();
	add_mount("data", "/nonexistent/ratefs-fuzz/data");
	add_mount("blank", "/nonexistent/ratefs fuzz/\xff%");
}

static void stop(void)
{
	list_for_each_safe (it, &registry.mounts)
		registry_forget_mount(list_entry(it, struct served_mount, link));
	list_for_each_safe (it, &registry.fs)
		registry_forget_fs(list_entry(it, struct served_fs, link));
	gate_free(registry.gate);
	settings_free(&registry.global);
	weights_free(&registry.weights);
}

static void check_records(const char *text, size_t size)
{
	for (const char *line = text; line < text + size;) {
		const char *end = memchr(line, '\n', (size_t)(text + size - line));
		MUST(end);
		const char *tab = memchr(line, '\t', (size_t)(end - line));
		MUST(tab && tab > line && tab + 1 < end);
		MUST(!memchr(tab + 1, '\t', (size_t)(end - tab - 1)));
		MUST(strchr("\"-0123456789tfn", tab[1]));
		line = end + 1;
	}
}

static void check_words(int n, char **word)
{
	AUTO_FREE char *text = NULL;
	size_t size;
	char *again[PROTO_WORDS_MAX];
	FILE *out = open_memstream(&text, &size);
	MUST(out);
	for (int i = 0; i < n; i++) {
		if (i)
			fputc(' ', out);
		proto_put_word(out, word[i]);
	}
	MUST(fclose(out) == 0);
	MUST(!strchr(text, '\n'));
	MUST(proto_split(text, again) == n);
	for (int i = 0; i < n; i++)
		MUST(strcmp(again[i], word[i]) == 0);
}

static void obey(char *line)
{
	AUTO_FREE char *text = NULL;
	size_t size = 0;
	char *word[PROTO_WORDS_MAX];
	int n = proto_split(line, word);
	MUST(n >= -1 && n <= PROTO_WORDS_MAX);
	if (n <= 0)
		return;
	check_words(n, word);
	struct await await = {0};
	struct command_reply reply = {.out = open_memstream(&text, &size), .await = &await};
	MUST(reply.out);
	command_run(&registry, n, word, &reply);
	while (await.n && !await_is_over(&registry, &await)) {
		usleep(100);
		registry_progress(&registry);
	}
	await_report(&registry, &await, &reply);
	await_free(&await);
	MUST(fclose(reply.out) == 0);
	MUST(reply.code >= 0 && reply.code <= PROTO_NO_TARGET);
	if (reply.code)
		MUST(reply.long_text || error_is_set(&reply.err));
	else
		check_records(text, size);
	free(reply.long_text);
	free(reply.in_use);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct input in = {data, size};
	AUTO_FREE char *text = input_text(&in);
	char *rest = text, *line;
	start();
	while ((line = strsep(&rest, "\n")))
		obey(line);
	stop();
	return 0;
}
