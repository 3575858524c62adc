/* SPDX-License-Identifier: MIT */
#include "ctl/volume_http.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include <microhttpd.h>

#define BODY_MAX	(1 << 20)
#define CONNECTIONS_MAX 512 /* fewer than descriptors; each container that starts has one */
#define IDLE_S		120
#define STACK_BYTES	(512 << 10)
#define CONTENT_TYPE	"application/vnd.docker.plugins.v1.1+json"

struct volume_http {
	struct MHD_Daemon *mhd;
	volume_http_fn *call;
	void *ctx;
};

struct request {
	char *body;
	size_t size;
	bool too_large, no_memory;
};

static enum MHD_Result reply(struct MHD_Connection *c, unsigned status, char *text)
{
	struct MHD_Response *r =
		MHD_create_response_from_buffer(strlen(text), text, MHD_RESPMEM_MUST_FREE);
	if (!r) {
		free(text);
		return MHD_NO;
	}
	MHD_add_response_header(r, MHD_HTTP_HEADER_CONTENT_TYPE, CONTENT_TYPE);
	enum MHD_Result rc = MHD_queue_response(c, status, r);
	MHD_destroy_response(r);
	return rc;
}

static enum MHD_Result refuse(struct MHD_Connection *c, unsigned status, const char *text)
{
	char *copy = strdup(text);
	return copy ? reply(c, status, copy) : MHD_NO;
}

/* The rest of a body that is too large is read and dropped, so that the answer is not lost. */
static void append(struct request *r, const char *data, size_t size)
{
	r->too_large |= size > BODY_MAX - r->size;
	char *more = r->too_large || r->no_memory ? NULL : realloc(r->body, r->size + size);
	if (!more) {
		r->no_memory |= !r->too_large;
		return;
	}
	memcpy(more + r->size, data, size);
	r->body = more;
	r->size += size;
}

static enum MHD_Result answer(struct volume_http *h, struct MHD_Connection *c, const char *path,
			      const char *method, const struct request *r)
{
	unsigned status = MHD_HTTP_INTERNAL_SERVER_ERROR;
	if (strcmp(method, MHD_HTTP_METHOD_POST) != 0)
		return refuse(c, MHD_HTTP_METHOD_NOT_ALLOWED, "{\"Err\":\"use POST\"}");
	if (r->too_large)
		return refuse(c, MHD_HTTP_CONTENT_TOO_LARGE,
			      "{\"Err\":\"the request is larger than 1 MiB\"}");
	char *text = r->no_memory ? NULL
				  : h->call(h->ctx, path, r->body ? r->body : "", r->size, &status);
	return text ? reply(c, status, text)
		    : refuse(c, MHD_HTTP_INTERNAL_SERVER_ERROR, "{\"Err\":\"out of memory\"}");
}

static enum MHD_Result on_request(void *cls, struct MHD_Connection *c, const char *path,
				  const char *method, const char *version, const char *data,
				  size_t *size, void **state)
{
	if (!*state) { /* only the headers are here */
		*state = calloc(1, sizeof(struct request));
		return *state ? MHD_YES : MHD_NO;
	}
	if (*size) {
		append(*state, data, *size);
		*size = 0;
		return MHD_YES;
	}
	return answer(cls, c, path, method, *state);
}

static void on_end(void *cls, struct MHD_Connection *c, void **state,
		   enum MHD_RequestTerminationCode code)
{
	struct request *r = *state;
	if (r)
		free(r->body);
	free(r);
	*state = NULL;
}

struct volume_http *volume_http_start(int fd, volume_http_fn *call, void *ctx)
{
	struct volume_http *h = calloc(1, sizeof(*h));
	if (!h)
		return NULL;
	*h = (struct volume_http){.call = call, .ctx = ctx};
	h->mhd = MHD_start_daemon(
		MHD_USE_THREAD_PER_CONNECTION | MHD_USE_INTERNAL_POLLING_THREAD | MHD_USE_ITC, 0,
		NULL, NULL, on_request, h, MHD_OPTION_LISTEN_SOCKET, fd,
		MHD_OPTION_CONNECTION_LIMIT, CONNECTIONS_MAX, MHD_OPTION_CONNECTION_TIMEOUT, IDLE_S,
		MHD_OPTION_THREAD_STACK_SIZE, (size_t)STACK_BYTES, MHD_OPTION_NOTIFY_COMPLETED,
		on_end, NULL, MHD_OPTION_END);
	if (h->mhd)
		return h;
	free(h);
	errno = errno ? errno : EIO;
	return NULL;
}

void volume_http_stop(struct volume_http *h)
{
	MHD_stop_daemon(h->mhd);
	free(h);
}
