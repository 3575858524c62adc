/* SPDX-License-Identifier: MIT */
#include "ctl/top_view.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/units.h"
#include "base/util.h"

#define PAGE 10 /* keys per page */

/* --- the figures ------------------------------------------------------------------------------ */

static bool is_mount(const struct snap_scope *s)
{
	return strcmp(s->scope, "mount") == 0;
}

bool top_data_make(struct top_data *d, const struct snapshot *now, const struct snapshot *before,
		   const char *time, const char *(*user_name)(uint64_t uid))
{
	*d = (struct top_data){.now = now, .time = time, .user_name = user_name};
	double seconds = snapshot_seconds(now, before);
	for (unsigned i = 0; i < now->scopes; i++) {
		const struct snap_scope *s = &now->scope[i];
		if (!is_mount(s))
			continue;
		struct scope_rates r = scope_rates(
			s, snapshot_find(before, s->daemon, s->scope, s->name), seconds);
		d->mounts++;
		d->total.ops_per_sec += r.ops_per_sec;
		d->total.bytes_per_sec += r.bytes_per_sec;
		d->total.refused_per_sec += r.refused_per_sec;
	}
	d->key = key_rates(now, before, &d->keys);
	d->all_keys = d->keys;
	if (d->key && top_rows_make(d, before))
		return true;
	top_data_free(d);
	return false;
}

void top_data_free(struct top_data *d)
{
	free(d->row);
	free(d->key);
	*d = (struct top_data){0};
}

static bool matches(const struct top_data *d, const struct key_rates *k, const char *filter)
{
	char user[SNAP_USER_MAX];
	const char *const text[] = {snapshot_key_user(k->key, d->user_name, user), k->key->command,
				    k->key->class, k->key->limit, k->mount->name};
	for (unsigned i = 0; i < ARRAY_SIZE(text); i++)
		if (strcasestr(text[i], filter))
			return true;
	return false;
}

static int descending(double x, double y)
{
	return x > y ? -1 : x < y;
}

/* qsort takes no context argument; only one thread draws. */
static enum top_sort sorted_by;
static const char *(*user_name_of)(uint64_t uid);

static int compare(const void *a, const void *b)
{
	const struct key_rates *x = a, *y = b;
	char x_user[SNAP_USER_MAX], y_user[SNAP_USER_MAX];
	int rc = 0;
	switch (sorted_by) {
	case SORT_OPS:
		rc = descending(x->ops_per_sec, y->ops_per_sec);
		break;
	case SORT_BYTES:
		rc = descending(x->bytes_per_sec, y->bytes_per_sec);
		break;
	case SORT_QUEUE:
		rc = descending((double)x->key->parked_now, (double)y->key->parked_now);
		break;
	case SORT_OLDEST:
		rc = descending((double)x->key->oldest_ns, (double)y->key->oldest_ns);
		break;
	case SORT_USER:
		rc = strcmp(snapshot_key_user(x->key, user_name_of, x_user),
			    snapshot_key_user(y->key, user_name_of, y_user));
		break;
	case SORT_COMMAND:
		rc = strcmp(x->key->command, y->key->command);
		break;
	default:
		break;
	}
	rc = rc ? rc : descending(x->waiting, y->waiting);
	rc = rc ? rc : descending((double)x->key->oldest_ns, (double)y->key->oldest_ns);
	return rc ? rc : descending((double)y->key->id, (double)x->key->id);
}

/* The row before or after `from` that is a bar; `from` itself if there is none. */
static unsigned next_bar(const struct top_data *d, unsigned from, int step)
{
	for (unsigned i = from + (unsigned)step; i < d->rows; i += (unsigned)step)
		if (d->row[i].kind == ROW_BAR)
			return i;
	return from;
}

static void choose(struct top_view *v, const struct top_data *d, unsigned row)
{
	bool bar = row < d->rows && d->row[row].kind == ROW_BAR;
	v->selected = row;
	v->lost = false;
	v->chosen_daemon = bar ? d->row[row].daemon : 0;
	snprintf(v->chosen, sizeof(v->chosen), "%s", bar ? d->row[row].text : "");
}

static bool is_row(const struct top_row *r, const char *text, uint64_t daemon)
{
	return r->kind == ROW_BAR && r->daemon == daemon && strcmp(r->text, text) == 0;
}

/* True: the chosen row is a limit that the user has turned off; it has disappeared, although its daemon still answers. */
static bool was_turned_off(const struct top_view *v, const struct top_data *d)
{
	bool daemon = false;
	if (!is_row(&v->turned_off, v->chosen, v->chosen_daemon))
		return false;
	for (unsigned i = 0; i < d->now->scopes; i++)
		daemon |= d->now->scope[i].daemon == v->chosen_daemon;
	for (unsigned i = 0; i < d->rows; i++)
		if (is_row(&d->row[i], v->chosen, v->chosen_daemon))
			return false;
	return daemon;
}

static bool put_back(const struct top_view *v, struct top_data *d)
{
	static const char *const off[TOP_CELLS] = {"-", "off", "-", "-"};
	unsigned at = v->turned_off_at < d->rows ? v->turned_off_at : d->rows;
	struct top_row *row = realloc(d->row, (d->rows + 1) * sizeof(*row));
	if (!row)
		return false;
	d->row = row;
	memmove(row + at + 1, row + at, (d->rows - at) * sizeof(*row));
	d->rows++;
	row[at] = v->turned_off;
	row[at].value = row[at].share = 0;
	row[at].hot = false;
	for (unsigned i = 0; i < TOP_CELLS; i++)
		snprintf(row[at].cell[i], sizeof(row[at].cell[i]), "%s", off[i]);
	return true;
}

/* If the chosen row is gone, selects the first bar, not whatever took its place.  Even that is not changed by the next
 * key, which may have been meant for the chosen row. */
static void find_chosen(struct top_view *v, const struct top_data *d)
{
	unsigned first = next_bar(d, 0, 1);
	for (unsigned i = 0; *v->chosen && i < d->rows; i++)
		if (is_row(&d->row[i], v->chosen, v->chosen_daemon)) {
			v->selected = i;
			v->lost = false;
			return;
		}
	v->selected = first;
	v->lost = *v->chosen;
	if (!v->lost)
		choose(v, d, first);
}

bool top_data_sort(struct top_data *d, struct top_view *v)
{
	if (was_turned_off(v, d) && !put_back(v, d))
		return false;
	find_chosen(v, d);
	unsigned kept = 0;
	for (unsigned i = 0; i < d->keys; i++)
		if (!*v->filter || matches(d, &d->key[i], v->filter))
			d->key[kept++] = d->key[i];
	d->keys = kept;
	sorted_by = v->sort;
	user_name_of = d->user_name;
	if (kept)
		qsort(d->key, kept, sizeof(*d->key), compare);
	return true;
}

const char *top_sort_name(enum top_sort sort)
{
	static const char *const names[SORTS] = {"wait",   "ops",  "bytes",  "queue",
						 "oldest", "user", "command"};
	return names[sort];
}

/* --- changing a limit -------------------------------------------------------------------------- */

/* A tenth more or less, rounded to the largest unit of which the value has at least ten. */
static uint64_t step(double value, double by, bool bytes)
{
	double base = bytes ? 1024 : 10, unit = 1, next = value * by;
	while (next / (unit * base) >= (bytes ? 10 : 100))
		unit *= base;
	uint64_t rounded = (uint64_t)(next / unit + 0.5) * (uint64_t)unit;
	if (rounded == (uint64_t)value) /* small numbers change by one */
		rounded = by > 1 ? rounded + 1 : rounded - 1;
	return rounded ? rounded : 1; /* 0 would be no limit at all */
}

static const struct top_row *selected(const struct top_view *v, const struct top_data *d)
{
	return v->selected < d->rows && d->row[v->selected].kind == ROW_BAR ? &d->row[v->selected]
									    : NULL;
}

/* True: the chosen row is gone, and the key does nothing but say so. */
static bool is_gone(struct top_view *v, const struct top_data *d)
{
	if (!v->lost)
		return false;
	snprintf(v->message, sizeof(v->message),
		 "nothing was changed: %.150s is gone, another limit is selected now", v->chosen);
	choose(v, d, v->selected);
	return true;
}

static bool means_off(const char *value)
{
	return strcasecmp(value, "off") == 0 || !value[strspn(value, "0")];
}

static enum top_action change(struct top_view *v, const struct top_data *d, const char *value,
			      struct top_change *set)
{
	const struct top_row *r = selected(v, d);
	if (is_gone(v, d))
		return TOP_REDRAW;
	if (!r)
		return TOP_NOTHING;
	choose(v, d, v->selected);
	v->turned_off = means_off(value) ? *r : (struct top_row){.kind = ROW_HEAD};
	v->turned_off_at = v->selected;
	*set = (struct top_change){.daemon = r->daemon};
	memcpy(set->target, r->target, sizeof(set->target));
	memcpy(set->option, r->option, sizeof(set->option));
	snprintf(set->value, sizeof(set->value), "%s", value);
	return TOP_SET;
}

static enum top_action nudge(struct top_view *v, const struct top_data *d, double by,
			     struct top_change *set)
{
	const struct top_row *r = selected(v, d);
	char text[UNITS_TEXT_MAX];
	if (is_gone(v, d))
		return TOP_REDRAW;
	if (!r)
		return TOP_NOTHING;
	if (r->value <= 0) {
		snprintf(v->message, sizeof(v->message), "%.100s is off; '=' sets a value",
			 r->text);
		return TOP_REDRAW;
	}
	uint64_t next = step(r->value, by, r->bytes);
	return change(v, d,
		      r->bytes ? units_format_bytes(next, text) : units_format_count(next, text),
		      set);
}

/* --- keys --------------------------------------------------------------------------------------- */

static enum top_action type(struct top_view *v, const struct top_data *d, int key,
			    struct top_change *set)
{
	size_t n = strlen(v->input);
	int mode = v->mode;
	if (key == TOP_KEY_ENTER || key == TOP_KEY_ESCAPE)
		v->mode = TOP_WATCH;
	if (key == TOP_KEY_ENTER && mode == TOP_TYPES_FILTER)
		memcpy(v->filter, v->input, sizeof(v->filter));
	if (key == TOP_KEY_ENTER && mode == TOP_TYPES_VALUE && n)
		return change(v, d, v->input, set);
	if (key == TOP_KEY_BACKSPACE && n)
		v->input[n - 1] = '\0';
	else if (key >= ' ' && key < 0x7f && n + 1 < sizeof(v->input))
		memcpy(v->input + n, (const char[]){(char)key, '\0'}, 2);
	return TOP_REDRAW;
}

static void start_typing(struct top_view *v, int mode)
{
	v->mode = mode;
	v->input[0] = '\0';
}

static void move(struct top_view *v, const struct top_data *d, int key)
{
	if (key == TOP_KEY_UP)
		choose(v, d, next_bar(d, v->selected, -1));
	else if (key == TOP_KEY_DOWN)
		choose(v, d, next_bar(d, v->selected, 1));
	else if (key == TOP_KEY_PAGE_UP)
		v->skipped -= v->skipped < PAGE ? v->skipped : PAGE;
	else if (key == TOP_KEY_PAGE_DOWN && v->skipped + PAGE < d->keys)
		v->skipped += PAGE;
}

enum top_action top_key(struct top_view *v, const struct top_data *d, int key,
			struct top_change *set)
{
	v->message[0] = '\0';
	if (v->mode != TOP_WATCH)
		return type(v, d, key, set);
	switch (key) {
	case 'q':
		return TOP_QUIT;
	case 's':
	case 'S':
		v->sort = (v->sort + (key == 's' ? 1 : SORTS - 1)) % SORTS;
		break;
	case 'p':
	case ' ':
		v->paused = !v->paused;
		break;
	case 'h':
	case '?':
		v->help = !v->help;
		break;
	case '/':
		start_typing(v, TOP_TYPES_FILTER);
		break;
	case '=':
	case TOP_KEY_ENTER:
		if (!is_gone(v, d) && selected(v, d))
			start_typing(v, TOP_TYPES_VALUE);
		break;
	case '+':
		return nudge(v, d, 1.1, set);
	case '-':
		return nudge(v, d, 1 / 1.1, set);
	case TOP_KEY_ESCAPE:
		v->filter[0] = '\0';
		v->help = false;
		break;
	case 'k':
		move(v, d, TOP_KEY_UP);
		break;
	case 'j':
		move(v, d, TOP_KEY_DOWN);
		break;
	default:
		move(v, d, key);
	}
	return TOP_REDRAW;
}
