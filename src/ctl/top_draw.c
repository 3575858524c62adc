/* SPDX-License-Identifier: MIT */
/* The lines of `ratefsctl top`:
 *
 *	title, totals
 *	LIMIT ...	a bar for each limit, then for space and pools; at most half of the screen
 *	USER ...	a row for each key, as many as there is room for
 *	what the keyboard does, or what is being typed */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "base/util.h"
#include "ctl/top_view.h"

#define FIXED_LINES    4  /* title, totals, head of the keys, foot */
#define NAME_TYPED_FOR 40 /* columns for the name of a limit whose new value is being typed */

/* --- cells -------------------------------------------------------------------------------------- */

/* A line that is being filled from the left. */
struct pen {
	char *text;
	unsigned at, room;
};

static void put_char(struct pen *p, char c)
{
	if (p->at < p->room)
		p->text[p->at++] = c;
}

/* One column of the screen for each character, whatever the text: names may be any bytes. */
static unsigned next_char(const char **text, char *out)
{
	unsigned char c = (unsigned char)*(*text)++;
	*out = c < ' ' || c >= 0x7f ? '?' : (char)c;
	while (c >= 0xc0 && ((unsigned char)**text & 0xc0) == 0x80)
		(*text)++;
	return 1;
}

static unsigned length(const char *text)
{
	unsigned n = 0;
	char c;
	while (*text)
		n += next_char(&text, &c);
	return n;
}

/* A text that does not fit ends in '+'. */
static void left(struct pen *p, const char *text, unsigned width)
{
	unsigned n = length(text);
	for (unsigned i = 0; i < width; i++) {
		char c = ' ';
		if (*text)
			next_char(&text, &c);
		put_char(p, n > width && i == width - 1 ? '+' : c);
	}
}

/* The same for names that differ at their end, such as "MOUNT/CLASS.LIMIT": '+' replaces the middle of a long one. */
static void both_ends(struct pen *p, const char *text, unsigned width)
{
	unsigned n = length(text), begin = width / 3;
	char c;
	if (n <= width) {
		left(p, text, width);
		return;
	}
	for (unsigned i = 0; i < n; i++) {
		next_char(&text, &c);
		if (i < begin || i >= n - (width - begin - 1))
			put_char(p, c);
		else if (i == begin)
			put_char(p, '+');
	}
}

static void right(struct pen *p, const char *text, unsigned width)
{
	unsigned n = length(text);
	for (; width > n; width--)
		put_char(p, ' ');
	left(p, text, width);
}

static void gap(struct pen *p)
{
	put_char(p, ' ');
}

/* Less than a tenth per second is shown as none. */
static void amount(struct pen *p, double n, bool bytes, unsigned width)
{
	char buf[TEXT_AMOUNT_MAX];
	right(p, text_amount(bytes || n >= 10 ? n : round(n * 10) / 10, bytes ? 1024 : 1000, buf),
	      width);
}

static void percent(struct pen *p, double share, unsigned width)
{
	char buf[16];
	snprintf(buf, sizeof(buf), "%.0f%%", 100 * (share < 10 ? share : 9.99));
	right(p, buf, width);
}

static void end_line(struct pen *p)
{
	while (p->at && p->text[p->at - 1] == ' ')
		p->at--;
	p->text[p->at] = '\0';
}

static struct pen begin_line(struct top_line *l, unsigned columns)
{
	return (struct pen){l->text, 0, columns < TOP_COLUMNS_MAX ? columns : TOP_COLUMNS_MAX};
}

static void set_line(struct top_line *l, enum top_style style, const char *text, unsigned columns)
{
	struct pen p = begin_line(l, columns);
	l->style = style;
	left(&p, text, p.room);
	end_line(&p);
}

/* --- the title ---------------------------------------------------------------------------------- */

static void draw_title(const struct top_view *v, const struct top_data *d, struct top_line *line,
		       unsigned columns)
{
	char text[TOP_COLUMNS_MAX + 1], ops[TEXT_AMOUNT_MAX], bytes[TEXT_AMOUNT_MAX],
		refused[TEXT_AMOUNT_MAX];
	uint64_t parked = 0, in_flight = 0, open = 0, bypassing = 0, stuck = 0;
	for (unsigned i = 0; i < d->now->scopes; i++) {
		const struct snap_scope *s = &d->now->scope[i];
		if (strcmp(s->scope, "mount") != 0)
			continue;
		parked += s->parked_now;
		in_flight += s->in_flight;
		open += s->open;
		bypassing += s->bypassing_handles;
		stuck += s->stuck;
	}
	char shown[32] = "";
	if (d->keys != d->all_keys)
		snprintf(shown, sizeof(shown), "%u of ", d->keys);
	snprintf(text, sizeof(text), "ratefs top  %s  %u mount%s  %s%u key%s  sorted by %s%s%s%s",
		 d->time, d->mounts, d->mounts == 1 ? "" : "s", shown, d->all_keys,
		 d->all_keys == 1 ? "" : "s", top_sort_name(v->sort), *v->filter ? "  filter " : "",
		 v->filter, v->paused ? "  PAUSED" : "");
	set_line(&line[0], STYLE_TITLE, text, columns);
	snprintf(text, sizeof(text),
		 "%s ops/s  %s bytes/s  refused %s/s  waiting %llu  in flight %llu  open %llu",
		 text_amount(d->total.ops_per_sec, 1000, ops),
		 text_amount(d->total.bytes_per_sec, 1024, bytes),
		 text_amount(d->total.refused_per_sec, 1000, refused), (unsigned long long)parked,
		 (unsigned long long)in_flight, (unsigned long long)open);
	size_t n = strlen(text);
	if (bypassing)
		n += (size_t)snprintf(text + n, sizeof(text) - n, "  bypassing %llu",
				      (unsigned long long)bypassing);
	if (stuck && n < sizeof(text))
		snprintf(text + n, sizeof(text) - n, "  STUCK %llu", (unsigned long long)stuck);
	set_line(&line[1], stuck ? STYLE_HOT : STYLE_PLAIN, text, columns);
}

/* --- limits, space, pools ------------------------------------------------------------------------ */

struct row_columns {
	unsigned name, bar;
};
static const unsigned cell_width[TOP_CELLS] = {7, 8, 8, 9};

static struct row_columns row_columns(unsigned columns)
{
	unsigned more = columns > TOP_COLUMNS_MIN ? columns - TOP_COLUMNS_MIN : 0;
	return (struct row_columns){23 + more / 2, 20 + more - more / 2};
}

static void bar(struct pen *p, double share, unsigned width)
{
	unsigned inside = width - 2, full = (unsigned)((share > 1 ? 1 : share) * inside + 0.5);
	put_char(p, '[');
	for (unsigned i = 0; i < inside; i++)
		put_char(p, i < full ? '#' : '.');
	put_char(p, ']');
}

static enum top_style row_style(const struct top_row *r, bool is_selected)
{
	if (r->kind == ROW_HEAD)
		return STYLE_HEAD;
	return is_selected ? STYLE_SELECTED : r->hot ? STYLE_HOT : STYLE_PLAIN;
}

static void draw_row(const struct top_row *r, bool is_selected, struct top_line *line,
		     unsigned columns)
{
	struct row_columns w = row_columns(columns);
	struct pen p = begin_line(line, columns);
	line->style = row_style(r, is_selected);
	left(&p, is_selected ? "> " : "  ", 2);
	if (r->kind == ROW_NOTE) {
		left(&p, r->text, p.room - p.at);
		end_line(&p);
		return;
	}
	both_ends(&p, r->text, w.name);
	gap(&p);
	if (r->kind == ROW_HEAD)
		left(&p, r->bar, w.bar);
	else
		bar(&p, r->share, w.bar);
	gap(&p);
	for (unsigned i = 0; i < TOP_CELLS; i++)
		right(&p, r->cell[i], cell_width[i]);
	end_line(&p);
}

/* Draws the part of the list that contains the selected row, below the head of its section.
 * Returns the number of lines. */
static unsigned draw_rows(const struct top_view *v, const struct top_data *d, struct top_line *line,
			  unsigned lines, unsigned columns)
{
	unsigned shown = d->rows < lines ? d->rows : lines;
	unsigned first = v->selected >= shown ? v->selected - shown + 1 : 0, head = first;
	bool begins_below = shown > 1 && d->row[first + 1].kind == ROW_HEAD; /* a new section */
	while (head && !begins_below && d->row[head].kind != ROW_HEAD)
		head--;
	if (shown)
		draw_row(&d->row[head], false, &line[0], columns);
	for (unsigned i = 1; i < shown; i++)
		draw_row(&d->row[first + i], first + i == v->selected, &line[i], columns);
	return shown;
}

/* --- keys --------------------------------------------------------------------------------------- */

struct key_columns {
	unsigned mount, id, class, limit; /* 0: not shown */
};

static struct key_columns key_columns(unsigned columns)
{
	struct key_columns w = {.class = 8, .limit = 13};
	unsigned more = columns > TOP_COLUMNS_MIN ? columns - TOP_COLUMNS_MIN : 0;
	if (more >= 9) {
		w.id = 8;
		more -= 9;
	}
	if (more >= 11) {
		w.mount = 10;
		more -= 11;
	}
	w.class += more / 2;
	w.limit += more - more / 2;
	return w;
}

static void key_head(struct top_line *line, unsigned columns)
{
	struct key_columns w = key_columns(columns);
	struct pen p = begin_line(line, columns);
	line->style = STYLE_HEAD;
	if (w.mount)
		left(&p, "MOUNT", w.mount + 1);
	left(&p, "USER", 9);
	if (w.id)
		left(&p, "ID", w.id + 1);
	left(&p, "COMMAND", 14);
	left(&p, "CLASS", w.class + 1);
	right(&p, "OPS/S", 6);
	right(&p, "BYTES/S", 8);
	right(&p, "WAIT", 6);
	gap(&p);
	left(&p, "FOR", w.limit + 1);
	right(&p, "QUEUE", 5);
	right(&p, "OLDEST", 7);
	end_line(&p);
}

/* A text that does not fit begins with '+'. */
static void end_of(struct pen *p, const char *text, unsigned width)
{
	unsigned n = length(text);
	bool cut = n > width;
	char c;
	for (; cut && n >= width; n--)
		next_char(&text, &c);
	if (cut)
		put_char(p, '+');
	left(p, text, cut ? width - 1 : width);
}

/* The end of a cgroup's path says more than its beginning. */
static void put_command(struct pen *p, const char *command, unsigned width)
{
	if (*command == '/')
		end_of(p, command, width);
	else
		left(p, *command ? command : "-", width);
}

/* "class:NAME.LIMIT" is cut at its beginning, too: the class has a column of its own. */
static void put_limit(struct pen *p, const char *limit, unsigned width)
{
	static const char class[] = "class:";
	bool is_long = length(limit) > width && strncmp(limit, class, strlen(class)) == 0;
	end_of(p, is_long ? limit + strlen(class) : limit, width);
}

static void key_row(const struct top_data *d, const struct key_rates *r, struct top_line *line,
		    unsigned columns)
{
	char buf[TEXT_AMOUNT_MAX], user[SNAP_USER_MAX];
	const struct snap_key *k = r->key;
	struct key_columns w = key_columns(columns);
	struct pen p = begin_line(line, columns);
	line->style = STYLE_PLAIN;
	if (w.mount) {
		left(&p, r->mount->name, w.mount);
		gap(&p);
	}
	left(&p, snapshot_key_user(k, d->user_name, user), 8);
	gap(&p);
	if (w.id) {
		snprintf(buf, sizeof(buf), "%llu", (unsigned long long)k->id);
		left(&p, buf, w.id);
		gap(&p);
	}
	put_command(&p, k->command, 13);
	gap(&p);
	left(&p, *k->class ? k->class : "-", w.class);
	gap(&p);
	amount(&p, r->ops_per_sec, false, 6);
	amount(&p, r->bytes_per_sec, true, 8);
	percent(&p, r->waiting, 6);
	gap(&p);
	put_limit(&p, *k->limit ? k->limit : "-", w.limit);
	gap(&p);
	snprintf(buf, sizeof(buf), "%llu", (unsigned long long)k->parked_now);
	right(&p, buf, 5);
	right(&p, text_ns(k->oldest_ns, buf), 7);
	end_line(&p);
}

static void draw_keys(const struct top_view *v, const struct top_data *d, struct top_line *line,
		      unsigned rows, unsigned columns)
{
	unsigned skipped = v->skipped < d->keys ? v->skipped : 0;
	for (unsigned i = 0; i < rows; i++) {
		if (skipped + i < d->keys)
			key_row(d, &d->key[skipped + i], &line[i], columns);
		else
			set_line(&line[i], STYLE_PLAIN, "", columns);
	}
	if (!d->keys && rows)
		set_line(&line[0], STYLE_PLAIN,
			 *v->filter ? "nobody who matches the filter makes requests"
				    : "nobody makes requests",
			 columns);
}

/* --- the whole ---------------------------------------------------------------------------------- */

/* What is being typed, after the name of what it is for. */
static void draw_input(const struct top_view *v, struct top_line *line, unsigned columns)
{
	char text[TOP_INPUT_MAX + 3];
	struct pen p = begin_line(line, columns);
	unsigned n = length(v->chosen);
	bool filter = v->mode == TOP_TYPES_FILTER;
	const char *what = filter ? "show keys that contain" : "new value of ";
	line->style = STYLE_TITLE;
	left(&p, what, length(what));
	if (!filter)
		both_ends(&p, v->chosen, n < NAME_TYPED_FOR ? n : NAME_TYPED_FOR);
	snprintf(text, sizeof(text), ": %s_", v->input);
	left(&p, text, length(text));
	end_line(&p);
}

static void draw_foot(const struct top_view *v, struct top_line *line, unsigned columns)
{
	char text[TOP_COLUMNS_MAX + 1];
	if (v->mode != TOP_WATCH) {
		draw_input(v, line, columns);
		return;
	}
	if (*v->message)
		snprintf(text, sizeof(text), "%s", v->message);
	else
		snprintf(
			text, sizeof(text),
			"q quit  s sort  / filter  p pause  up/down limit  +/- change  = value  h help");
	set_line(line, STYLE_TITLE, text, columns);
}

static void draw_help(struct top_line *line, unsigned rows, unsigned columns)
{
	static const char *const text[] = {
		"All rates are those of the last second.",
		"",
		"LIMIT    scope and name, as for 'ratefsctl set'; IN USE: share of its rate",
		"LEVEL    available tokens; less than 0 is debt; 'each': every key has its own",
		"BLOCKING share of the time in which requests waited for it",
		"SPACE    used part of size and inodes; 'counts': not yet enforced",
		"POOL     part of a limit over many hosts that is granted here, and its members",
		"WAIT     share of the time in which requests of the key waited, FOR this limit",
		"OPS/S, BYTES/S of a key: all of its requests, including those that did not wait",
		"QUEUE    requests that wait now; OLDEST: how long the first of them has waited",
		"",
		"s S      next and previous order        /  show only keys that contain a text",
		"p space  freeze the display             Esc  no filter",
		"up down  choose a limit                 + -  a tenth more or less",
		"= Enter  type its value (off: no limit) PgUp PgDn  more keys",
		"q        quit",
	};
	for (unsigned i = 0; i < rows; i++)
		set_line(&line[i], STYLE_PLAIN, i < ARRAY_SIZE(text) ? text[i] : "", columns);
}

unsigned top_lines(const struct top_data *d)
{
	return FIXED_LINES - 1 + d->rows + (d->keys ? d->keys : 1);
}

void top_draw(const struct top_view *v, const struct top_data *d, struct top_line *line,
	      unsigned rows, unsigned columns)
{
	struct top_line spare[FIXED_LINES + 1];
	if (rows < ARRAY_SIZE(spare)) { /* too small: show as many lines as fit, from the top */
		top_draw(v, d, spare, ARRAY_SIZE(spare), columns);
		memcpy(line, spare, rows * sizeof(*line));
		return;
	}
	unsigned room = rows - FIXED_LINES,
		 half = d->keys < room / 2 ? room - d->keys : room - room / 2;
	draw_title(v, d, line, columns);
	draw_foot(v, &line[rows - 1], columns);
	if (v->help) {
		draw_help(&line[2], rows - 3, columns);
		return;
	}
	unsigned shown = draw_rows(v, d, &line[2], half, columns);
	key_head(&line[2 + shown], columns);
	draw_keys(v, d, &line[3 + shown], room - shown, columns);
}
