/* SPDX-License-Identifier: MIT */
/* ratefsctl trace: events as they happen, of one target or of all daemons. */
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/cleanup.h"
#include "base/text.h"
#include "base/util.h"
#include "ctl/ctl.h"
#include "ctl/render.h"

/* --- asking ---------------------------------------------------------------------------------- */

static int add_filters(const struct ctl *c, json_t *request)
{
	char *end;
	if (c->min_wait_ns && json_object_set_new(request, "min_wait_ns",
						  json_integer((json_int_t)c->min_wait_ns)) < 0)
		return -1;
	if (!c->key)
		return 0;
	long long id = strtoll(c->key, &end, 10);
	json_t *key = *c->key && !*end ? json_integer(id) : json_string(c->key);
	return json_object_set_new(request, "key", key);
}

static int subscribe(struct ctl *c, struct daemon_ref *d, const char *target)
{
	struct error err = ERROR_INIT;
	AUTO_JSON *request = request_new("subscribe", target), *answer = NULL;
	if (!request || add_filters(c, request) < 0)
		return ctl_complain(PROTO_NO_MEMORY, "out of memory");
	enum proto_code code = daemon_call(d, json_incref(request), &answer, &err);
	return code ? ctl_complain(code, err.text) : 0;
}

/* --- printing -------------------------------------------------------------------------------- */

static void put_time(const json_t *event, FILE *out)
{
	double at = get_real(event, "time");
	time_t seconds = (time_t)at;
	struct tm tm;
	char text[16] = "";
	if (localtime_r(&seconds, &tm))
		strftime(text, sizeof(text), "%H:%M:%S", &tm);
	fprintf(out, "%s.%03u", text, (unsigned)((at - (double)seconds) * 1000));
}

/* Of a request that waited for several limits: " (500ms), global.bps (100ms)", after the name of the first */
static void put_parts(const json_t *event, FILE *out)
{
	const json_t *limits = get_part(event, "limits"), *limit;
	char wait[TEXT_AMOUNT_MAX], name[RENDER_NAME_MAX];
	size_t i;
	if (json_array_size(limits) < 2)
		return;
	json_array_foreach (limits, i, limit) {
		if (i)
			fprintf(out, ", %s", render_limit_name(event, limit, name));
		fprintf(out, " (%s)", text_ns(get_u64(limit, "wait_ns"), wait));
	}
}

/* "17:04:11.250 slow/backup  admitted  read  64.0K after 120ms for read_bps  process 17 dd (alice)" */
static void put_request(const json_t *event, FILE *out)
{
	char amount[TEXT_AMOUNT_MAX], wait[TEXT_AMOUNT_MAX], user[TEXT_AMOUNT_MAX];
	char name[RENDER_NAME_MAX];
	const char *class = get_text(event, "class");
	const json_t *limit = get_part(event, "limit");
	AUTO_FREE char *where = NULL;
	if (asprintf(&where, "%s%s%s", get_text(event, "mount"), *class ? "/" : "", class) < 0)
		return;
	put_time(event, out);
	fprintf(out, " %-16s %-13s %-9s %7s", where, get_text(event, "event"),
		get_text(event, "op"),
		get_u64(event, "bytes") ? text_amount(get_u64(event, "bytes"), 1024, amount) : "");
	if (get_u64(event, "wait_ns"))
		fprintf(out, " after %s", text_ns(get_u64(event, "wait_ns"), wait));
	if (limit)
		fprintf(out, " %s %s", get_u64(event, "wait_ns") ? "for" : "by",
			render_limit_name(event, limit, name));
	put_parts(event, out);
	fprintf(out, "  %s %" PRIu64 " %s (%s)\n", get_text(event, "kind"), get_u64(event, "id"),
		get_text(event, "command"), render_user(get_u64(event, "uid"), user));
}

static void put_change(const json_t *event, FILE *out)
{
	const char *key = get_text(event, "key"), *scope = get_text(event, "scope");
	AUTO_FREE char *where = NULL;
	bool prefix = strcmp(scope, "fs") == 0 || strcmp(scope, "pool") == 0;
	if (asprintf(&where, "%s%s%s", prefix ? scope : "", prefix ? ":" : "",
		     get_text(event, "name")) < 0)
		return;
	put_time(event, out);
	fprintf(out, " %-16s %-13s", where, get_text(event, "event"));
	if (*key)
		fprintf(out, " %s=%s", key, get_text(event, "value"));
	fputc('\n', out);
}

static void put_event(const struct ctl *c, json_t *event, FILE *out)
{
	if (c->json) {
		ctl_put_json(event);
		putchar('\n');
		return;
	}
	render_prepare(event, true);
	if (strcmp(get_text(event, "event"), "dropped") == 0)
		fprintf(out, "... %" PRIu64 " events were dropped: they were not read in time\n",
			get_u64(event, "count"));
	else if (json_object_get(event, "op"))
		put_request(event, out);
	else
		put_change(event, out);
}

/* --- the stream ------------------------------------------------------------------------------ */

/* Prints all events that a daemon has sent.  -1: continue; else the exit status. */
static int drain(const struct ctl *c, struct daemon_ref *d)
{
	struct error err = ERROR_INIT;
	for (;;) {
		AUTO_JSON *event = NULL;
		enum proto_code code = daemon_next(d, 0, &event, &err);
		if (code)
			return ctl_complain(code, err.text);
		if (!event)
			return -1;
		put_event(c, event, stdout);
	}
}

/* Goes on with the other daemons after one has exited. */
static int stream(const struct ctl *c, struct daemon_ref *d, unsigned n)
{
	AUTO_FREE struct pollfd *p = calloc(n + 1, sizeof(*p)); /* + 1: never of size 0 */
	unsigned left = n;
	int rc = 0;
	if (!p)
		return ctl_complain(PROTO_NO_MEMORY, "out of memory");
	for (unsigned i = 0; i < n; i++) /* events may have arrived together with the answer */
		p[i] = (struct pollfd){.fd = d[i].fd, .events = POLLIN, .revents = POLLIN};
	for (;;) {
		for (unsigned i = 0; i < n; i++) {
			int ended = p[i].revents ? drain(c, &d[i]) : -1;
			if (ended < 0)
				continue;
			rc = ended;
			p[i] = (struct pollfd){.fd = -1};
			left--;
		}
		if (fflush(stdout) != 0 || !left)
			return rc;
		if (poll(p, n, -1) < 0 && errno != EINTR)
			return ctl_complain(PROTO_FAILED, strerror(errno));
	}
}

int run_trace(struct ctl *c)
{
	struct daemon_ref *d = NULL;
	AUTO_FREE char *name = NULL;
	if (c->n) {
		enum proto_code code = ctl_locate(c, &d, &name);
		if (code)
			return proto_exit_status(code);
		int rc = subscribe(c, d, name);
		return rc ? rc : stream(c, d, 1);
	}
	ctl_silent(c);
	for (unsigned i = 0; i < c->daemons.n; i++) {
		int rc = subscribe(c, &c->daemons.daemon[i], NULL);
		if (rc)
			return rc;
	}
	return stream(c, c->daemons.daemon, c->daemons.n);
}
