/* SPDX-License-Identifier: MIT */
/* What `ratefsctl top` shows, and how it reacts to keys.  Pure functions: no terminal, no socket, no clock. */
#ifndef CTL_TOP_VIEW_H
#define CTL_TOP_VIEW_H

#include "base/text.h"
#include "ctl/rates.h"

enum top_sort {
	SORT_WAIT,
	SORT_OPS,
	SORT_BYTES,
	SORT_QUEUE,
	SORT_OLDEST,
	SORT_USER,
	SORT_COMMAND,
	SORTS
};
const char *top_sort_name(enum top_sort sort);

#define TOP_INPUT_MAX 64

/* --- rows --------------------------------------------------------------------------------------- */

/* The upper part of the screen, row by row; top_rows.c. */
#define TOP_CELLS	 4
#define TOP_ROW_TEXT_MAX (RATES_TARGET_MAX + 64)
enum top_row_kind {
	ROW_HEAD,   /* what the rows below it show */
	ROW_BAR,    /* a limit, which can be changed */
	ROW_MEMBER, /* of a pool, or what is granted of it: a bar that cannot be changed */
	ROW_NOTE,   /* a text */
};
struct top_row {
	enum top_row_kind kind;
	char text[TOP_ROW_TEXT_MAX];
	const char *bar; /* of a head: the title of the bars */
	double share;	 /* of a bar, 0 to 1 or more */
	char cell[TOP_CELLS][TEXT_AMOUNT_MAX];
	bool hot; /* to be highlighted */
	/* of ROW_BAR: the option that + and - change, and its value now */
	uint64_t daemon;
	char target[RATES_TARGET_MAX], option[64];
	double value;
	bool bytes;
};

/* --- the view ------------------------------------------------------------------------------------ */

struct top_view {
	enum top_sort sort;
	char filter[TOP_INPUT_MAX]; /* keys that contain it are shown; "": all */
	bool paused;		    /* the display is frozen */
	bool help;
	unsigned selected;	       /* of the rows: a ROW_BAR */
	char chosen[TOP_ROW_TEXT_MAX]; /* text of the selected row; "": there has been none */
	uint64_t chosen_daemon;
	struct top_row turned_off; /* by the user, if that was the last change; ROW_HEAD: none */
	unsigned turned_off_at;
	unsigned skipped; /* how many keys are scrolled off the top */
	bool lost;	  /* the chosen row is gone; the first is selected instead */
	enum { TOP_WATCH, TOP_TYPES_FILTER, TOP_TYPES_VALUE } mode;
	char input[TOP_INPUT_MAX];
	char message[256]; /* the outcome of the last change; until the next key */
};

/* The figures of one screen, from the last two snapshots. */
struct top_data {
	const struct snapshot *now;
	const char *time; /* "12:34:56" */
	const char *(*user_name)(uint64_t uid);
	struct scope_rates total;
	struct top_row *row; /* the first is a head */
	struct key_rates *key;
	unsigned rows, keys;
	unsigned all_keys; /* including those that do not match the filter */
	unsigned mounts;
};
/* `before` may be NULL.  False: out of memory. */
bool top_data_make(struct top_data *d, const struct snapshot *now, const struct snapshot *before,
		   const char *time, const char *(*user_name)(uint64_t uid));
void top_data_free(struct top_data *d);
bool top_rows_make(struct top_data *d,
		   const struct snapshot *before); /* the part of top_data_make for the rows */
/* Sorts the keys that match the filter and drops the others; finds the selected row again, wherever it is now.  A limit that
 * the user has turned off keeps its row while that is selected, so that it can be set again.  False: out of memory. */
bool top_data_sort(struct top_data *d, struct top_view *v);

/* --- lines ------------------------------------------------------------------------------------ */

#define TOP_COLUMNS_MIN 80
#define TOP_COLUMNS_MAX 300
enum top_style { STYLE_PLAIN, STYLE_TITLE, STYLE_HEAD, STYLE_SELECTED, STYLE_HOT };
struct top_line {
	char text[TOP_COLUMNS_MAX + 1]; /* printable ASCII, without trailing spaces */
	enum top_style style;
};

/* Fills exactly `rows` lines for a terminal of that size; on a narrow one, the ends of the lines are cut. */
void top_draw(const struct top_view *v, const struct top_data *d, struct top_line *line,
	      unsigned rows, unsigned columns);
/* How many lines are needed to show everything. */
unsigned top_lines(const struct top_data *d);

/* --- keys ------------------------------------------------------------------------------------- */

/* Keys that are not characters. */
enum {
	TOP_KEY_UP = 0x100,
	TOP_KEY_DOWN,
	TOP_KEY_PAGE_UP,
	TOP_KEY_PAGE_DOWN,
	TOP_KEY_ENTER,
	TOP_KEY_ESCAPE,
	TOP_KEY_BACKSPACE
};

enum top_action { TOP_NOTHING, TOP_REDRAW, TOP_QUIT, TOP_SET };
/* With TOP_SET, `set` says what is to be changed. */
struct top_change {
	uint64_t daemon;
	char target[RATES_TARGET_MAX];
	char option[64], value[TOP_INPUT_MAX];
};
enum top_action top_key(struct top_view *v, const struct top_data *d, int key,
			struct top_change *set);

#endif
