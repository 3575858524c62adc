/* SPDX-License-Identifier: MIT */
#include "unit/oom.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static unsigned left; /* allocations until one fails; 0: none will */
static bool struck;

void oom_fail_at(unsigned n)
{
	left = n;
	if (n)
		struck = false;
}

bool oom_struck(void)
{
	return struck;
}

static bool fails(void)
{
	if (!left || --left)
		return false;
	struck = true;
	errno = ENOMEM;
	return true;
}

/* With --wrap, the linker makes calls of NAME call __wrap_NAME; __real_NAME is
 * the original function. */
#define WRAP(type, name, params, args)                                                             \
	type __real_##name params;                                                                 \
	type __wrap_##name params;                                                                 \
	type __wrap_##name params                                                                  \
	{                                                                                          \
		return fails() ? NULL : __real_##name args;                                        \
	}
WRAP(void *, malloc, (size_t n), (n))
WRAP(void *, calloc, (size_t n, size_t size), (n, size))
WRAP(void *, realloc, (void *p, size_t n), (p, n))
WRAP(void *, aligned_alloc, (size_t align, size_t n), (align, n))
WRAP(char *, strdup, (const char *s), (s))
WRAP(char *, strndup, (const char *s, size_t n), (s, n))
WRAP(char *, realpath, (const char *path, char *out), (path, out))

static int print(char **out, const char *fmt, va_list ap)
{
	va_list again;
	va_copy(again, ap);
	int n = vsnprintf(NULL, 0, fmt, again);
	va_end(again);
	*out = n < 0 ? NULL : __wrap_malloc((size_t)n + 1);
	return *out ? vsnprintf(*out, (size_t)n + 1, fmt, ap) : -1;
}

int __wrap_asprintf(char **out, const char *fmt, ...);
int __wrap_asprintf(char **out, const char *fmt, ...)
{
	va_list ap;
	va_start(ap, fmt);
	int n = print(out, fmt, ap);
	va_end(ap);
	return n;
}

int __wrap___asprintf_chk(char **out, int flag, const char *fmt, ...);
int __wrap___asprintf_chk(char **out, int flag, const char *fmt, ...)
{
	va_list ap;
	(void)flag;
	va_start(ap, fmt);
	int n = print(out, fmt, ap);
	va_end(ap);
	return n;
}

int __wrap_vasprintf(char **out, const char *fmt, va_list ap);
int __wrap_vasprintf(char **out, const char *fmt, va_list ap)
{
	return print(out, fmt, ap);
}

int __wrap___vasprintf_chk(char **out, int flag, const char *fmt, va_list ap);
int __wrap___vasprintf_chk(char **out, int flag, const char *fmt, va_list ap)
{
	(void)flag;
	return print(out, fmt, ap);
}

/* Replaces open_memstream by a stream whose growth can fail; the C library's own allocations are
 * not wrapped. */
struct memory {
	char **text;
	size_t *size;
};

static ssize_t memory_write(void *cookie, const char *data, size_t n)
{
	struct memory *m = cookie;
	char *more = __wrap_realloc(*m->text, *m->size + n + 1);
	if (!more)
		return 0;
	*m->text = more;
	memcpy(more + *m->size, data, n);
	*m->size += n;
	more[*m->size] = '\0';
	return (ssize_t)n;
}

static int memory_close(void *cookie)
{
	free(cookie);
	return 0;
}

FILE *__wrap_open_memstream(char **text, size_t *size);
FILE *__wrap_open_memstream(char **text, size_t *size)
{
	struct memory *m = __wrap_malloc(sizeof(*m));
	char *empty = m ? __real_malloc(1) : NULL;
	FILE *out = empty ? fopencookie(m, "w",
					(cookie_io_functions_t){.write = memory_write,
								.close = memory_close})
			  : NULL;
	if (!out) {
		free(empty);
		free(m);
		return NULL;
	}
	*empty = '\0';
	*m = (struct memory){text, size};
	*text = empty;
	*size = 0;
	return out;
}
