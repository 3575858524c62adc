/* SPDX-License-Identifier: MIT */
/* The control protocol: lines of requests against a daemon without real mounts.  Every line has an answer, which is one
 * line of JSON, understood by the same parser, with the code of an error if it is one. */
#include <unistd.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "daemon/commands.h"
#include "daemon/registry.h"
#include "fuzz/fuzz.h"
#include "proto/json_in.h"
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
	proto_init();
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

/* What a client would receive. */
static void check_answer(json_t *answer)
{
	struct error err = ERROR_INIT;
	size_t size = 0;
	AUTO_FREE char *line = proto_line(answer, &size);
	MUST(line && size == strlen(line) && size <= PROTO_ANSWER_MAX);
	MUST(strchr(line, '\n') == line + size - 1);
	AUTO_JSON *again = proto_parse(line, size - 1, PROTO_DEPTH_MAX, &err);
	MUST(again && json_equal(again, answer));
	MUST(get_u64(again, "v") == PROTO_VERSION);
	if (get_true(again, "ok"))
		return;
	const json_t *error = get_part(again, "error");
	const char *code = get_text(error, "code");
	MUST(strcmp(proto_code_name(proto_code_find(code)), code) == 0 && strcmp(code, "ok") != 0);
	MUST(*get_text(error, "text"));
}

static void run(json_t *request)
{
	struct command_reply reply;
	MUST(command_reply_init(&reply));
	command_run(&registry, request, &reply);
	MUST(!reply.no_memory);
	while (reply.await.n && !await_is_over(&registry, &reply.await)) {
		usleep(100);
		registry_progress(&registry);
	}
	await_report(&registry, &reply.await, &reply);
	AUTO_JSON *answer = command_answer(&reply, json_object_get(request, "id"));
	MUST(answer);
	check_answer(answer);
	command_reply_free(&reply);
}

static void obey(const char *line, size_t size)
{
	struct error err = ERROR_INIT;
	AUTO_JSON *request = proto_parse(line, size, PROTO_DEPTH_MAX, &err);
	if (request) {
		run(request);
		return;
	}
	MUST(error_is_set(&err));
	AUTO_JSON *answer = command_refusal(PROTO_BAD_REQUEST, err.text);
	check_answer(answer);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const char *line = (const char *)data, *end = line + size;
	start();
	while (line < end) {
		const char *newline = memchr(line, '\n', (size_t)(end - line));
		size_t n = (size_t)((newline ? newline : end) - line);
		obey(line, n);
		line += n + 1;
	}
	stop();
	return 0;
}
