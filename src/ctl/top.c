/* SPDX-License-Identifier: MIT */
/* `ratefsctl top`: the terminal and the clock around top_view.h.  Without a terminal, plain lines. */
#include <curses.h>
#include <inttypes.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/monotonic.h"
#include "ctl/collect.h"
#include "ctl/ctl.h"
#include "ctl/top_view.h"
#include "ctl/users.h"

#define KEYS_MAX  4096 /* fetched of each mount: those that waited longest */
#define ROUND_NS  NSEC_PER_SEC
#define ESCAPE_MS 25 /* if no escape sequence follows in this time, it was the Esc key */

struct top {
	struct collect_options from;
	struct snapshot *now, *before;
	struct top_view view;
	struct top_data data;
	char time[16];
	bool complains; /* view.message says why a daemon is missing */
};

/* --- figures --------------------------------------------------------------------------------- */

static void forget(struct top *t)
{
	top_data_free(&t->data);
	snapshot_free(t->now);
	snapshot_free(t->before);
	t->now = t->before = NULL;
}

/* Computes the figures again, because the order or the filter may have changed. */
static bool remake(struct top *t)
{
	top_data_free(&t->data);
	if (!top_data_make(&t->data, t->now, t->before, t->time, user_name))
		return false;
	return top_data_sort(&t->data, &t->view);
}

/* Fetches new figures.  `next` false: rates are still computed from the same earlier snapshot. */
static bool look(struct top *t, bool next)
{
	struct error err = ERROR_INIT;
	top_data_free(&t->data);
	struct snapshot *s = collect(&t->from, &err);
	if (!s)
		return false;
	if (err.text[0] || t->complains)
		snprintf(t->view.message, sizeof(t->view.message), "%.255s", err.text);
	t->complains = err.text[0];
	snapshot_free(next ? t->before : t->now);
	if (next)
		t->before = t->now;
	t->now = s;
	t->from.patience_ms = s->daemons_failed ? COLLECT_AGAIN_MS : CLIENT_PATIENCE_MS;
	time_t seconds = time(NULL);
	struct tm tm;
	strftime(t->time, sizeof(t->time), "%H:%M:%S", localtime_r(&seconds, &tm));
	return remake(t);
}

/* --- changes ---------------------------------------------------------------------------------- */

static void change(struct top *t, const struct top_change *set)
{
	char pid[24];
	struct error err = ERROR_INIT;
	struct daemons found;
	AUTO_JSON *answer = NULL;
	snprintf(pid, sizeof(pid), "%" PRIu64, set->daemon);
	if (daemons_find(&found, t->from.which ? t->from.which : pid, CLIENT_PATIENCE_MS, &err) ==
	    PROTO_OK) {
		json_t *request = request_new("set", set->target);
		json_t *values = json_pack("{s:s}", set->option, set->value);
		if (request && json_object_set_new(request, "values", values) < 0) {
			json_decref(request);
			request = NULL;
		}
		daemon_call(&found.daemon[0], request, &answer, &err);
	}
	daemons_free(&found);
	AUTO_FREE char *why = answer_error(answer);
	t->complains = false;
	if (why || err.text[0])
		snprintf(t->view.message, sizeof(t->view.message), "%.255s", why ? why : err.text);
	else
		snprintf(t->view.message, sizeof(t->view.message), "set %.100s %.60s=%.60s",
			 set->target, set->option, set->value);
}

/* --- plain lines ------------------------------------------------------------------------------- */

static bool print_plain(struct top *t)
{
	/* Without a terminal, the help in the footer is of no use. */
	unsigned rows = top_lines(&t->data);
	AUTO_FREE struct top_line *line = calloc(rows + 1, sizeof(*line));
	if (!line)
		return false;
	top_draw(&t->view, &t->data, line, rows + 1, TOP_COLUMNS_MIN + 30);
	for (unsigned i = 0; i < rows; i++)
		puts(line[i].text);
	if (*t->view.message)
		puts(t->view.message);
	t->view.message[0] = '\0';
	putchar('\n');
	return fflush(stdout) == 0;
}

static void sleep_until(uint64_t ns)
{
	const struct timespec at = {.tv_sec = (time_t)(ns / NSEC_PER_SEC),
				    .tv_nsec = (long)(ns % NSEC_PER_SEC)};
	clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, NULL);
}

/* The first rates appear after one second. */
static int run_plain(struct top *t, bool clear)
{
	bool ok = look(t, true);
	for (uint64_t at = monotonic_ns() + ROUND_NS; ok && t->now->daemons; at += ROUND_NS) {
		sleep_until(at);
		ok = look(t, true);
		if (ok && clear)
			fputs("\033[H\033[2J", stdout);
		ok = ok && print_plain(t);
	}
	if (ok)
		return ctl_complain(PROTO_NO_TARGET, t->view.message[0]
							     ? t->view.message
							     : "no daemon is running any more");
	return ferror(stdout) ? 0 : ctl_complain(PROTO_NO_MEMORY, "out of memory");
}

/* --- the terminal ------------------------------------------------------------------------------ */

static int attributes(enum top_style style)
{
	switch (style) {
	case STYLE_TITLE:
		return A_BOLD;
	case STYLE_HEAD:
		return A_REVERSE;
	case STYLE_SELECTED:
		return A_BOLD | COLOR_PAIR(1);
	case STYLE_HOT:
		return COLOR_PAIR(2);
	default:
		return A_NORMAL;
	}
}

static bool paint(struct top *t)
{
	unsigned rows = (unsigned)LINES, columns = (unsigned)COLS;
	AUTO_FREE struct top_line *line = calloc(rows, sizeof(*line));
	if (!line)
		return false;
	top_draw(&t->view, &t->data, line, rows, columns);
	erase();
	for (unsigned i = 0; i < rows; i++) {
		attrset(attributes(line[i].style));
		/* Headings are highlighted over the whole width. */
		mvprintw((int)i, 0, "%-*s", line[i].style == STYLE_HEAD ? COLS : 0, line[i].text);
	}
	attrset(A_NORMAL);
	refresh();
	return true;
}

static int key_of(int c)
{
	switch (c) {
	case KEY_UP:
		return TOP_KEY_UP;
	case KEY_DOWN:
		return TOP_KEY_DOWN;
	case KEY_PPAGE:
		return TOP_KEY_PAGE_UP;
	case KEY_NPAGE:
		return TOP_KEY_PAGE_DOWN;
	case KEY_BACKSPACE:
	case '\b':
	case 0x7f:
		return TOP_KEY_BACKSPACE;
	case KEY_ENTER:
	case '\n':
	case '\r':
		return TOP_KEY_ENTER;
	case 0x1b:
		return TOP_KEY_ESCAPE;
	default:
		return c < 0x100 ? c : 0;
	}
}

/* False: TERM names no terminal, or one whose cursor cannot be moved, such as "dumb" in editors. */
static bool begin_terminal(SCREEN **screen)
{
	char move_cursor[] = "cup";
	*screen = newterm(NULL, stdout, stdin);
	if (!*screen)
		return false;
	const char *move = tigetstr(move_cursor);
	if (!move || move == (const char *)-1) {
		endwin();
		delscreen(*screen);
		return false;
	}
	cbreak();
	noecho();
	keypad(stdscr, TRUE);
	set_escdelay(ESCAPE_MS);
	curs_set(0);
	if (has_colors() && start_color() == OK && use_default_colors() == OK) {
		init_pair(1, COLOR_CYAN, -1);
		init_pair(2, COLOR_RED, -1);
	}
	return true;
}

/* Waits for a key until the next round; ERR: there was none. */
static int next_key(uint64_t until_ns)
{
	uint64_t now_ns = monotonic_ns();
	timeout(until_ns > now_ns ? (int)((until_ns - now_ns) / NSEC_PER_MSEC) + 1 : 0);
	return getch();
}

/* True: the terminal was closed, and SIGHUP is ignored.  getch() would no longer wait. */
static bool terminal_is_gone(void)
{
	struct pollfd p = {.fd = STDIN_FILENO, .events = POLLIN};
	return poll(&p, 1, 0) > 0 && (p.revents & (POLLHUP | POLLERR | POLLNVAL));
}

/* False: quit, or out of memory with t->now NULL. */
static bool answer_key(struct top *t, int c)
{
	struct top_change set;
	switch (top_key(&t->view, &t->data, key_of(c), &set)) {
	case TOP_QUIT:
		return false;
	case TOP_SET:
		change(t, &set);
		return look(t, false);
	default:
		return remake(t);
	}
}

static bool run_rounds(struct top *t)
{
	uint64_t at_ns = monotonic_ns();
	bool ok = look(t, true), go_on = true;
	while (ok && go_on) {
		ok = paint(t);
		/* At least one key is read between two looks, however long a look takes. */
		int c = ok ? next_key(at_ns + ROUND_NS) : ERR;
		if (c != ERR && c != KEY_RESIZE) {
			go_on = answer_key(t, c);
			ok = go_on || t->data.now; /* if there is data, the user has quit */
		} else if (c == ERR && terminal_is_gone()) {
			go_on = false;
		}
		if (ok && go_on && monotonic_ns() >= at_ns + ROUND_NS) {
			at_ns = monotonic_ns();
			ok = t->view.paused || look(t, true);
		}
	}
	return ok;
}

static int run_terminal(struct top *t)
{
	SCREEN *screen;
	if (!begin_terminal(&screen))
		return run_plain(t, false);
	bool ok = run_rounds(t);
	endwin();
	delscreen(screen);
	return ok ? 0 : ctl_complain(PROTO_NO_MEMORY, "out of memory");
}

/* --- the commands ------------------------------------------------------------------------------- */

/* Finds the daemon and the mount of the target; a wider target means all mounts of its daemon.  To be freed: *name. */
static enum proto_code choose(struct ctl *c, struct collect_options *o, char **name)
{
	struct daemon_ref *d = NULL;
	struct error err = ERROR_INIT;
	AUTO_FREE char *target = NULL;
	AUTO_JSON *found = NULL;
	if (!c->n)
		return PROTO_OK;
	enum proto_code code = ctl_locate(c, &d, &target);
	if (code)
		return code;
	code = daemon_call(d, request_new("find", target), &found, &err);
	if (code) {
		ctl_complain(code, err.text);
		return code;
	}
	const char *scope = get_text(found, "scope");
	bool class = strcmp(scope, "class") == 0;
	o->which = d->path;
	if (!class && strcmp(scope, "mount") != 0)
		return PROTO_OK;
	*name = strdup(get_text(found, "name"));
	if (!*name)
		return ctl_complain(PROTO_NO_MEMORY, "out of memory"), PROTO_NO_MEMORY;
	char *slash = class ? strrchr(*name, '/') : NULL;
	if (slash)
		*slash = '\0'; /* of MOUNT/CLASS, keep the mount */
	o->mount = *name;
	return PROTO_OK;
}

static int run_view(struct ctl *c, bool plain)
{
	AUTO_FREE char *name = NULL;
	struct top t = {.from = {.which = c->which, .keys = KEYS_MAX, .watch = true}};
	t.from.patience_ms = c->daemons.n_silent ? COLLECT_AGAIN_MS : CLIENT_PATIENCE_MS;
	enum proto_code code = choose(c, &t.from, &name);
	if (code)
		return proto_exit_status(code);
	bool terminal = isatty(STDOUT_FILENO) && isatty(STDIN_FILENO);
	int rc = plain || !terminal ? run_plain(&t, plain && isatty(STDOUT_FILENO))
				    : run_terminal(&t);
	forget(&t);
	return rc;
}

int run_top(struct ctl *c)
{
	return run_view(c, false);
}

int run_plain_top(struct ctl *c)
{
	return run_view(c, true);
}
