/* SPDX-License-Identifier: MIT */
/* A pool in Redis or Valkey: one script call per call of the member.  The script is loaded if the server
 * does not have it; after a failure the helper reconnects, after a growing pause. */
#include <errno.h>
#include <hiredis/hiredis.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>

#include "base/text.h"
#include "ctl/pool_link.h"
#include "ctl/pool_script.h"
#include "ctl/pool_tls.h"
#include "pool/address.h"

#define PAUSE_FIRST_MS 50 /* after the second failure; after the first, reconnect immediately */
#define PAUSE_MOST_MS  2000
#define REDIRECTIONS   3	    /* in a row, at most */
#define NUMBER_MAX     (1ULL << 53) /* in a double, all whole numbers up to here are exact */
#define ARGS	       (4 + 7 + 5 * POOL_LIMITS)
#define DAMAGED	       "; the pool's data is damaged and expires soon"
#define RIGHTS	       "; ratefs-pool(8) lists the rights that the user needs"

struct redis {
	redisContext *c;
	const char *server;	/* as configured */
	struct pool_address at; /* parsed from `server`, or the node of a cluster that has the key */
	uint64_t lease_ms;
	bool refused;	  /* the password was refused; the file may have another by now */
	bool asking;	  /* this node is about to take over the key */
	char sha[41];	  /* hash of the script; "": to be loaded */
	unsigned attempt; /* selects the address to try first, if the name has several */
	uint64_t pause_ms, retry_ms; /* length of the next pause; end of the current one */
	uint64_t pause_most_ms;
	struct error last;
};

static int prepare(struct pool_link *l, struct error *err)
{
	struct redis *r = calloc(1, sizeof(*r));
	if (!r)
		return error_set(err, "out of memory");
	l->state = r;
	r->server = l->setup.server;
	r->lease_ms = l->setup.lease_ms;
	/* A server that has lost its data learns for one lease: the helpers of all hosts must find it in that time. */
	r->pause_most_ms = r->lease_ms / 4 < PAUSE_MOST_MS ? r->lease_ms / 4 : PAUSE_MOST_MS;
	if (pool_address_parse(r->server, &r->at, err) < 0)
		return -1;
	return r->at.tls ? pool_tls_prepare(&l->setup, err) : 0;
}

/* --- the connection --- */

static void disconnect(struct redis *r)
{
	if (r->c)
		redisFree(r->c);
	r->c = NULL;
}

/* Disconnects; after a pause, the next call connects to the configured server again, because the
 * cluster node to which that server referred may be gone, and the server's name may have another
 * address by then. */
static int give_up(struct redis *r, const struct error *why)
{
	disconnect(r);
	pool_address_parse(r->server, &r->at, NULL);
	r->asking = false;
	r->retry_ms = pool_now_ms() + r->pause_ms;
	r->pause_ms = r->pause_ms ? 2 * r->pause_ms : PAUSE_FIRST_MS;
	if (r->pause_ms > r->pause_most_ms)
		r->pause_ms = r->pause_most_ms;
	r->attempt++;
	r->last = *why;
	return -1;
}

static int failed(struct redis *r, struct error *err)
{
	bool late = errno == EAGAIN || errno == ETIMEDOUT;
	const char *text = !r->c			       ? "out of memory"
			   : r->c->err == REDIS_ERR_IO && late ? "no answer in time"
			   : r->c->err == REDIS_ERR_OOM	       ? "the answer is too long"
			   : r->c->errstr[0]		       ? r->c->errstr
							       : strerror(errno);
	error_set(err, "%s:%s: %s", r->at.host, r->at.port, text);
	return give_up(r, err);
}

/* What a command said that failed inside the script.  Redis 6 puts places before it: "ERR Error running script (call to f_…):
 * @user_script:265: @user_script: 265: -READONLY …", or only the first of the two. */
static const char *without_places(const char *said)
{
	static const char error[] = "ERR Error running script", place[] = "@user_script:";
	bool has = strncmp(said, error, strlen(error)) == 0;
	for (const char *at; has && (at = strstr(said, place));) {
		said = at + strlen(place);
		said += strspn(said, " 0123456789:-");
	}
	return said;
}

/* Sets err to the server's message, with a remedy if one is known. */
static void quote(const struct redis *r, const char *said, struct error *err)
{
	static const struct {
		const char *says, *help;
	} remedy[] = {
		{"NOAUTH", "; give its password by auth_file"},
		/* The same error, if the first command is long. */
		{"ERR Protocol error: unauthenticated", "; give its password by auth_file"},
		{"DENIED", "; see bind and protected-mode in its configuration, and auth_file"},
		{"WRONGPASS", "; see auth_file"},
		{"ERR Client sent AUTH", "; remove auth_file"},
		{"ERR AUTH <password> called without", "; remove auth_file"},
		{"NOPERM", RIGHTS},
		{"ERR The user executing the script", RIGHTS},
		{"The user executing the script", RIGHTS}, /* Redis 6 */
		{"ERR ACL failure in script", RIGHTS},
		{"ERR another version of ratefs",
		 "; choose another key until all hosts have the same version"},
		{"WRONGTYPE", "; another program uses the key: choose another key"},
		{"CROSSSLOT", "; choose another key"},
		{"ERR user_script:", DAMAGED},
		{"user_script:", DAMAGED}, /* Redis 6 */
		{"OOM", "; give the server more memory"},
		{"ERR unknown command", "; it must be Redis 6 or newer, or Valkey"},
		{"ERR SELECT is not allowed in cluster", "; a cluster has no /DB"},
		{"ERR DB index", "; see the /DB of server"},
	};
	const char *help = "";
	said = without_places(said);
	for (unsigned i = 0; i < ARRAY_SIZE(remedy); i++)
		if (strncmp(said, remedy[i].says, strlen(remedy[i].says)) == 0)
			help = remedy[i].help;
	const char *script = strstr(said, " script: "); /* followed by a hash, which is cut off */
	bool hash = script && strspn(script + 9, "0123456789abcdef") == 40;
	int n = hash ? (int)(script - said) : (int)strcspn(said, "\r\n");
	int most = POOL_ERROR_MAX - 90 - (int)strlen(help);
	for (int end = most; n > most && end > 0; end--)
		if (strncmp(said + end, ". ", 2) == 0) /* a long text ends with a whole sentence */
			n = end;
	error_set(err, "%s:%s: %.*s%s", r->at.host, r->at.port, n < most ? n : most, said, help);
}

/* Sends a command and waits for its reply, for a lease, and for another one at most if the end of the reply is late.
 * redisCommandArgv would wait as long as parts of a reply arrive. */
static redisReply *exchange(struct redis *r, int n, const char **word)
{
	uint64_t end_ms = pool_now_ms() + r->lease_ms;
	void *reply = NULL;
	int sent = 0;
	errno = 0;
	int rc = redisAppendCommandArgv(r->c, n, word, NULL);
	while (rc == REDIS_OK && !sent)
		rc = redisBufferWrite(r->c, &sent);
	while (rc == REDIS_OK && !reply) {
		rc = redisBufferRead(r->c);
		if (rc == REDIS_OK)
			rc = redisGetReplyFromReader(r->c, &reply);
		if (rc == REDIS_OK && !reply && pool_now_ms() >= end_ms) {
			r->c->err = REDIS_ERR_IO;
			errno = ETIMEDOUT;
			return NULL;
		}
	}
	return reply;
}

/* Sends a command and returns its reply.  NULL with err: it failed; after an error reply the
 * connection is kept. */
static redisReply *command(struct redis *r, int n, const char **word, struct error *err)
{
	redisReply *reply = exchange(r, n, word);
	if (!reply) {
		failed(r, err);
		return NULL;
	}
	if (reply->type != REDIS_REPLY_ERROR)
		return reply;
	quote(r, reply->str, err);
	freeReplyObject(reply);
	return NULL;
}

/* The same if only success matters. */
static int tell(struct redis *r, int n, const char **word, struct error *err)
{
	redisReply *reply = command(r, n, word, err);
	if (!reply) {
		return r->c ? give_up(r, err) : -1;
	}
	freeReplyObject(reply);
	return 0;
}

static int log_in(struct pool_link *l, struct redis *r, struct error *err)
{
	char auth[POOL_AUTH_MAX];
	memcpy(auth, l->setup.auth, sizeof(auth));
	char *password = strchr(auth, ':');
	if (password)
		*password++ = '\0';
	const char *both[] = {"AUTH", auth, password}, *select[] = {"SELECT", r->at.db};
	redisReply *reply = *auth ? command(r, password ? 3 : 2, both, err) : NULL;
	bool ok = !*auth || reply;
	explicit_bzero(auth, sizeof(auth));
	if (reply)
		freeReplyObject(reply);
	if (!ok) {
		/* After any other error, as of a server with too many clients, the password may be right. */
		r->refused =
			r->c && (strstr(err->text, ": WRONGPASS") || strstr(err->text, "AUTH"));
		return r->c ? give_up(r, err) : -1;
	}
	return *r->at.db ? tell(r, 2, select, err) : 0;
}

static struct timeval timeval_of(uint64_t ms)
{
	return (struct timeval){.tv_sec = (time_t)(ms / 1000), .tv_usec = (long)(ms % 1000) * 1000};
}

static redisContext *connect_to(const struct addrinfo *a, int port, uint64_t ms)
{
	char address[NI_MAXHOST];
	if (getnameinfo(a->ai_addr, a->ai_addrlen, address, sizeof(address), NULL, 0,
			NI_NUMERICHOST) != 0)
		return NULL;
	errno = 0;
	return redisConnectWithTimeout(address, port, timeval_of(ms));
}

/* Tries the addresses of the server one after the other, starting with a different one each time,
 * because a replica that is not (yet) the primary accepts connections, too.  hiredis itself would
 * try only the first address. */
static int connect_to_any(struct redis *r, uint64_t ms, struct error *err)
{
	const struct addrinfo hints = {.ai_socktype = SOCK_STREAM};
	struct addrinfo *list = NULL;
	unsigned n = 0;
	int rc = getaddrinfo(r->at.host, NULL, &hints, &list);
	if (rc != 0) {
		error_set(err, "%s:%s: %s", r->at.host, r->at.port, gai_strerror(rc));
		return give_up(r, err);
	}
	for (const struct addrinfo *a = list; a; a = a->ai_next)
		n++;
	uint64_t began_ms = pool_now_ms();
	for (unsigned i = 0; i < n && pool_now_ms() - began_ms < ms; i++) {
		const struct addrinfo *a = list;
		for (unsigned skip = (r->attempt + i) % n; skip; skip--)
			a = a->ai_next;
		disconnect(r);
		r->c = connect_to(a, (int)strtol(r->at.port, NULL, 10), ms);
		if (r->c && !r->c->err)
			break;
	}
	freeaddrinfo(list);
	return r->c && !r->c->err ? 0 : failed(r, err);
}

static int connect_redis(struct pool_link *l, struct redis *r, struct error *err)
{
	if (r->c)
		return 0;
	if (pool_now_ms() < r->retry_ms) {
		*err = r->last;
		return -1;
	}
	if (connect_to_any(r, r->lease_ms, err) < 0)
		return -1;
	redisEnableKeepAlive(r->c);
	if (redisSetTimeout(r->c, timeval_of(r->lease_ms)) != REDIS_OK)
		return failed(r, err);
	if (r->at.tls && pool_tls_begin(r->c, r->at.host, err) < 0) {
		error_prefix(err, "%s:%s", r->at.host, r->at.port);
		return give_up(r, err);
	}
	return log_in(l, r, err);
}

/* --- the script --- */

static int load_script(struct redis *r, struct error *err)
{
	const char *word[] = {"SCRIPT", "LOAD", pool_script};
	redisReply *reply = command(r, 3, word, err);
	if (!reply)
		return -1;
	bool ok = reply->type == REDIS_REPLY_STRING && reply->len == 40;
	if (ok)
		memcpy(r->sha, reply->str, sizeof(r->sha));
	else
		error_set(err, "%s:%s: SCRIPT LOAD gave no hash", r->at.host, r->at.port);
	freeReplyObject(reply);
	return ok ? 0 : -1;
}

struct text_args {
	const char *word[ARGS];
	char number[ARGS][24];
	int n;
};

static void put_text(struct text_args *a, const char *text)
{
	a->word[a->n++] = *text ? text : "-";
}

static void put_number(struct text_args *a, uint64_t n)
{
	snprintf(a->number[a->n], sizeof(a->number[0]), "%llu", (unsigned long long)n);
	a->word[a->n] = a->number[a->n];
	a->n++;
}

static void put_numbers(struct text_args *a, const uint64_t n[POOL_LIMITS])
{
	for (unsigned k = 0; k < POOL_LIMITS; k++)
		put_number(a, n[k]);
}

static void put_call(struct text_args *a, const char *sha, const char *key,
		     const struct pool_call *c)
{
	put_text(a, "EVALSHA");
	put_text(a, sha);
	put_text(a, "1");
	put_text(a, key);
	put_text(a, c->id);
	put_text(a, c->who);
	put_number(a, c->seq);
	put_number(a, (uint64_t)c->lease_ms * 1000);
	put_number(a, c->weight);
	put_number(a, c->leave);
	put_number(a, c->version);
	put_numbers(a, c->limits.rate);
	put_numbers(a, c->limits.capacity);
	put_numbers(a, c->set);
	put_numbers(a, c->hold);
	put_numbers(a, c->demand);
}

static bool number_of(const redisReply *reply, uint64_t *out)
{
	char *end;
	if (reply->type != REDIS_REPLY_STRING || reply->len == 0 || reply->str[0] == '-')
		return false;
	errno = 0;
	*out = strtoull(reply->str, &end, 10);
	return errno == 0 && *end == '\0' && *out <= NUMBER_MAX;
}

/* The server is not trusted: checks all numbers. */
static bool parse_answer(const redisReply *reply, struct pool_answer *out)
{
	uint64_t head[4], status;
	if (reply->type != REDIS_REPLY_ARRAY || reply->elements != 5 + 3 * POOL_LIMITS ||
	    reply->element[4]->type != REDIS_REPLY_STRING)
		return false;
	for (unsigned i = 0; i < 4; i++)
		if (!number_of(reply->element[i], &head[i]))
			return false;
	status = head[0];
	if (status > POOL_FULL || head[1] > UINT32_MAX)
		return false;
	out->status = (enum pool_status)status;
	out->members = (uint32_t)head[1];
	out->wants_more = head[2];
	out->version = head[3];
	snprintf(out->who, sizeof(out->who), "%s", reply->element[4]->str);
	make_one_line(out->who);
	for (unsigned k = 0; k < POOL_LIMITS; k++)
		if (!number_of(reply->element[5 + 3 * k], &out->limits.rate[k]) ||
		    !number_of(reply->element[6 + 3 * k], &out->limits.capacity[k]) ||
		    !number_of(reply->element[7 + 3 * k], &out->grant[k]))
			return false;
	return pool_answer_is_sound(out);
}

/* In a cluster, a node that does not have the key names the one that does: "MOVED 3999
 * 127.0.0.1:6381", or "ASK …" while the key is moving there; without a host, another port of the
 * same host.  Sets the address to that node.  False: the error is another one. */
static bool follow(struct redis *r, const struct error *err)
{
	const char *moved = strstr(err->text, ": MOVED "), *ask = strstr(err->text, ": ASK ");
	const char *at = moved ? strrchr(moved, ' ') : ask ? strrchr(ask, ' ') : NULL;
	const char *colon = at ? strrchr(at, ':') : NULL;
	if (!colon)
		return false;
	if (colon - at > 1)
		snprintf(r->at.host, sizeof(r->at.host), "%.*s", (int)(colon - at - 1), at + 1);
	snprintf(r->at.port, sizeof(r->at.port), "%.7s", colon + 1);
	disconnect(r);
	r->asking = !moved;
	return true;
}

static int call_once(struct pool_link *l, const struct pool_call *c, struct pool_answer *out,
		     struct error *err)
{
	struct redis *r = l->state;
	struct text_args a = {.n = 0};
	const char *asking[] = {"ASKING"};
	if (connect_redis(l, r, err) < 0 || (!r->sha[0] && load_script(r, err) < 0) ||
	    (r->asking && tell(r, 1, asking, err) < 0))
		return -1;
	put_call(&a, r->sha, l->setup.key, c);
	redisReply *reply = command(r, a.n, a.word, err);
	if (!reply)
		return -1;
	bool ok = parse_answer(reply, out);
	freeReplyObject(reply);
	if (!ok) {
		error_set(err, "%s:%s: invalid answer", r->at.host, r->at.port);
		return give_up(r, err);
	}
	r->pause_ms = 0;
	return 0;
}

/* True: the error will last until the server restarts or another one, at another
 * address, becomes primary; or the server closes the connection after it. */
static bool needs_new_connection(const struct error *err)
{
	static const char *const says[] = {": READONLY ",
					   ": LOADING ",
					   ": MASTERDOWN ",
					   ": CLUSTERDOWN ",
					   ": ERR Protocol error",
					   ": DENIED ",
					   ": ERR max number of clients"};
	for (unsigned i = 0; i < ARRAY_SIZE(says); i++)
		if (strstr(err->text, says[i]))
			return true;
	return false;
}

static int call(struct pool_link *l, const struct pool_call *c, struct pool_answer *out,
		struct error *err)
{
	struct redis *r = l->state;
	int rc = call_once(l, c, out, err);
	for (unsigned i = 0; i < REDIRECTIONS && rc < 0 && r->c && follow(r, err); i++)
		rc = call_once(l, c, out, err);
	if (rc < 0 && r->c && strstr(err->text, "NOSCRIPT")) {
		r->sha[0] = '\0';
		rc = call_once(l, c, out, err);
	}
	if (rc < 0 && r->c && needs_new_connection(err))
		give_up(r, err);
	l->outdated = r->refused;
	return rc;
}

/* --- members --- */

/* "seq called expires weight charge demand … host", as pool.lua writes it. */
static bool parse_member(const char *text, struct pool_listed *m, double *called_us)
{
	double v[4 + 2 * POOL_LIMITS];
	char *end = NULL;
	for (unsigned i = 0; i < 4 + 2 * POOL_LIMITS; i++) {
		v[i] = strtod(text, &end);
		if (end == text || !(v[i] >= 0 && v[i] < 1e17))
			return false;
		text = end;
	}
	*called_us = v[1];
	m->weight = v[3] <= POOL_WEIGHT_MAX ? (uint32_t)v[3] : 0;
	for (unsigned k = 0; k < POOL_LIMITS; k++)
		m->charged[k] = (uint64_t)v[4 + 2 * k];
	snprintf(m->who, sizeof(m->who), "%.63s", *text == ' ' ? text + 1 : text);
	make_one_line(m->who);
	return true;
}

/* Ages are relative to the newest call of any member. */
static bool list(struct pool_link *l, struct pool_listing *out)
{
	struct redis *r = l->state;
	struct error err = ERROR_INIT;
	const char *word[] = {"HGETALL", l->setup.key};
	double called_us[POOL_LISTED] = {0}, newest_us = 0;
	redisReply *reply = r->c ? command(r, 2, word, &err) : NULL;
	if (!reply)
		return false;
	for (size_t i = 0; reply->type == REDIS_REPLY_ARRAY && i + 1 < reply->elements; i += 2) {
		const redisReply *key = reply->element[i], *value = reply->element[i + 1];
		if (key->type != REDIS_REPLY_STRING || value->type != REDIS_REPLY_STRING ||
		    strncmp(key->str, "m:", 2) != 0 || out->n == POOL_LISTED)
			continue;
		if (parse_member(value->str, &out->member[out->n], &called_us[out->n]))
			out->n++;
	}
	freeReplyObject(reply);
	for (unsigned i = 0; i < out->n; i++)
		newest_us = called_us[i] > newest_us ? called_us[i] : newest_us;
	for (unsigned i = 0; i < out->n; i++)
		out->member[i].age_us = (uint64_t)(newest_us - called_us[i]);
	return true;
}

const struct pool_link_ops pool_redis_ops = {.prepare = prepare, .call = call, .list = list};
