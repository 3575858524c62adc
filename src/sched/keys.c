/* SPDX-License-Identifier: MIT */
/* The keys of one leaf: a bounded table.  An idle key that has no claim left in the fair order and
 * whose limits are full is no different from a new one, so it is evicted when room is needed.  If
 * no key can be evicted, new ones share a few overflow keys (and their limits) by hash; no request
 * is refused.  A caller that gets a key of its own after it has used an overflow key begins with what that key has left:
 * otherwise it would get a second burst, or would be forgiven the debt that it has left there. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "sched/gate_internal.h"

#define TABLE_MIN   16
#define EVICT_TRIES 4

static uint64_t hash(struct fair_key id)
{
	uint64_t h = (id.id ^ ((uint64_t)id.kind << 56)) * 0x9E3779B97F4A7C15ULL;
	h ^= h >> 32;
	h *= 0xD6E8FEB86659FD93ULL;
	return h ^ h >> 32;
}

static bool same(struct fair_key a, struct fair_key b)
{
	return a.kind == b.kind && a.id == b.id;
}

/* --- weights --- */

/* Rules with a glob come after all others, in the given order. */
static int compare_rules(const void *pa, const void *pb)
{
	const struct weight_rule *a = pa, *b = pb;
	if (a->glob || b->glob)
		return (a->glob != NULL) - (b->glob != NULL);
	if (a->key.kind != b->key.kind)
		return a->key.kind < b->key.kind ? -1 : 1;
	return (a->key.id > b->key.id) - (a->key.id < b->key.id);
}

static unsigned count_exact(const struct keys *k)
{
	unsigned n = 0;
	while (n < k->n_rules && !k->rules[n].glob)
		n++;
	return n;
}

void keys_rules_free(struct weight_rule *rules, unsigned n)
{
	for (unsigned i = 0; rules && i < n; i++)
		free((char *)rules[i].glob);
	free(rules);
}

/* Insertion sort: stable, and there are few rules. */
static void sort_rules(struct weight_rule *r, unsigned n)
{
	for (unsigned i = 1; i < n; i++)
		for (unsigned k = i; k && compare_rules(&r[k - 1], &r[k]) > 0; k--) {
			struct weight_rule t = r[k];
			r[k] = r[k - 1];
			r[k - 1] = t;
		}
}

int keys_rules_copy(const struct weight_rule *rules, unsigned n, struct weight_rule **out)
{
	*out = NULL;
	if (!n)
		return 0;
	struct weight_rule *copy = calloc(n, sizeof(*copy));
	if (!copy)
		return -ENOMEM;
	for (unsigned i = 0; i < n; i++) {
		copy[i] = rules[i];
		copy[i].glob = rules[i].glob ? strdup(rules[i].glob) : NULL;
		if (rules[i].glob && !copy[i].glob) {
			keys_rules_free(copy, i);
			return -ENOMEM;
		}
	}
	sort_rules(copy, n);
	*out = copy;
	return 0;
}

void keys_set_rules(struct keys *k, struct weight_rule *rules, unsigned n)
{
	keys_rules_free(k->rules, k->n_rules);
	k->rules = rules;
	k->n_rules = n;
}

static uint32_t weight_of(const struct weight_rule *r)
{
	return r->weight ? r->weight : 1;
}

/* The rule for this one key, or NULL. */
static const struct weight_rule *exact_rule(const struct keys *k, struct fair_key id)
{
	struct weight_rule wanted = {.key = id};
	unsigned exact = count_exact(k);
	return exact ? bsearch(&wanted, k->rules, exact, sizeof(*k->rules), compare_rules) : NULL;
}

static uint32_t glob_weight(const struct keys *k, struct fair_key id, const char *text)
{
	for (unsigned i = count_exact(k); i < k->n_rules; i++) {
		const struct weight_rule *r = &k->rules[i];
		if (r->key.kind == id.kind &&
		    rule_glob_matches(id.kind == FAIR_CGROUP, r->glob, text))
			return weight_of(r);
	}
	return 1;
}

uint32_t keys_weight_named(const struct leaf *f, struct fair_key id, const char *text)
{
	const struct weight_rule *r = exact_rule(&f->keys, id);
	return r ? weight_of(r) : glob_weight(&f->keys, id, text);
}

uint32_t keys_weight(const struct leaf *f, struct fair_key id)
{
	const struct caller_ops *ops = f->node.gate->callers;
	char text[CALLER_PATH_MAX] = "";
	if (count_exact(&f->keys) == f->keys.n_rules || exact_rule(&f->keys, id))
		return keys_weight_named(f, id, text); /* the path or name does not matter */
	if (!ops || (id.kind != FAIR_CGROUP && id.kind != FAIR_PROCESS))
		return 1;
	if (id.kind == FAIR_CGROUP)
		ops->cgroup_path(id.id, text, sizeof(text));
	else
		ops->name(&(struct caller){.tid = (uint32_t)id.id}, text);
	return glob_weight(&f->keys, id, text);
}

/* --- the table --- */

static void key_init(struct key *key, struct leaf *f, struct fair_key id, uint32_t weight,
		     uint64_t now_ns)
{
	memset(key, 0, sizeof(*key));
	(void)node_init(&key->node, f->node.gate, &f->node, SCOPE_KEY, NULL,
			now_ns); /* a key needs no memory, so this cannot fail */
	key->node.weight = weight;
	key->id = id;
	list_init(&key->idle);
}

bool keys_init(struct leaf *f, uint64_t now_ns)
{
	struct keys *k = &f->keys;
	memset(k, 0, sizeof(*k));
	k->n_table = TABLE_MIN;
	k->max = GATE_MAX_KEYS_DEFAULT;
	pthread_mutex_init(&k->lock, NULL);
	list_init(&k->idle);
	for (unsigned i = 0; i < OVERFLOW_KEYS; i++)
		key_init(&k->overflow[i], f, (struct fair_key){FAIR_NONE, i}, 1, now_ns);
	k->table = calloc(k->n_table, sizeof(*k->table));
	if (!k->table)
		return false;
	for (unsigned i = 0; i < LANES; i++)
		if (!fq_reserve(f->node.lane[i].fq, OVERFLOW_KEYS))
			return false;
	return true;
}

static void free_accounts(struct key *key)
{
	while (key->accounts) {
		struct account *a = key->accounts;
		key->accounts = a->next;
		key->node.gate->n_accounts--;
		free(a);
	}
}

static void key_fini(struct key *key)
{
	for (unsigned i = 0; i < LANES; i++)
		parts_free(&key->node.lane[i]);
	free_accounts(key);
	each_fini(key);
	node_fini(&key->node);
}

static void key_free(struct key *key)
{
	key_fini(key);
	free(key);
}

void keys_free(struct keys *k)
{
	for (size_t i = 0; k->table && i < k->n_table; i++)
		while (k->table[i]) {
			struct key *key = k->table[i];
			k->table[i] = key->next;
			key_free(key);
		}
	for (unsigned i = 0; i < OVERFLOW_KEYS; i++)
		if (k->overflow[i].node.gate)
			key_fini(&k->overflow[i]);
	free(k->table);
	keys_rules_free(k->rules, k->n_rules);
	pthread_mutex_destroy(&k->lock);
}

static void grow(struct keys *k)
{
	size_t n = k->n_table * 2;
	struct key **table = calloc(n, sizeof(*table));
	if (!table)
		return; /* out of memory: hash chains become longer, nothing else */
	pthread_mutex_lock(&k->lock);
	for (size_t i = 0; i < k->n_table; i++)
		while (k->table[i]) {
			struct key *key = k->table[i];
			struct key **slot = &table[hash(key->id) & (n - 1)];
			k->table[i] = key->next;
			key->next = *slot;
			*slot = key;
		}
	free(k->table);
	k->table = table;
	k->n_table = n;
	pthread_mutex_unlock(&k->lock);
}

/* Frees the key.  False: a request has pinned it meanwhile, or has used its limits and ended. */
static bool drop(struct leaf *f, struct key *key, uint64_t now_ns)
{
	struct keys *k = &f->keys;
	struct key **at = &k->table[hash(key->id) & (k->n_table - 1)];
	while (*at != key)
		at = &(*at)->next;
	pthread_mutex_lock(&k->lock);
	bool used =
		atomic_load_explicit(&key->pins, memory_order_acquire) || each_owes(key, now_ns);
	if (!used)
		*at = key->next;
	pthread_mutex_unlock(&k->lock);
	if (used)
		return false;
	list_remove(&key->idle);
	k->n--;
	key_free(key);
	return true;
}

static bool evictable(const struct leaf *f, const struct key *key, uint64_t now_ns)
{
	for (const struct account *a = key->accounts; a; a = a->next)
		if (a->vouchers)
			return false;
	for (unsigned i = 0; i < f->node.gate->lanes; i++)
		if (!fq_settled(f->node.lane[i].fq, &key->node.lane[i].item, now_ns))
			return false;
	return !each_owes(key, now_ns);
}

/* Makes room for one more key.  Looks only at a few keys: those that have been idle longest. */
static bool make_room(struct leaf *f, uint64_t now_ns)
{
	struct keys *k = &f->keys;
	unsigned tries = 0;
	list_for_each_safe (it, &k->idle) {
		if (k->n < k->max || tries++ == EVICT_TRIES)
			break;
		struct key *key = list_entry(it, struct key, idle);
		if (!evictable(f, key, now_ns) || !drop(f, key, now_ns)) {
			list_remove(&key->idle); /* try others next time */
			list_push_tail(&k->idle, &key->idle);
		}
	}
	return k->n < k->max;
}

/* Every lane must have room for every key and every class, so that re-sorting jobs never
 * allocates. */
static bool reserve(struct leaf *f)
{
	for (unsigned i = 0; i < LANES; i++)
		if (!fq_reserve(f->node.lane[i].fq,
				f->keys.n + 1 + OVERFLOW_KEYS + f->node.branch->n_children))
			return false;
	return true;
}

struct key *keys_find(const struct keys *k, struct fair_key id)
{
	struct key *key = k->table[hash(id) & (k->n_table - 1)];
	while (key && !same(key->id, id))
		key = key->next;
	return key;
}

static struct key *key_new(struct leaf *f, struct fair_key id, uint64_t now_ns)
{
	struct key *key = malloc(sizeof(*key));
	if (!key)
		return NULL;
	key_init(key, f, id, keys_weight(f, id), now_ns);
	if (each_make(f, key, now_ns))
		return key;
	key_free(key);
	return NULL;
}

/* The overflow key of an id, whose hash is h; from now on the id is one of its users. */
static struct key *share(struct keys *k, unsigned i, uint64_t h)
{
	k->overflow_users[i] |= 1ULL << (h >> 58);
	return &k->overflow[i];
}

/* True: the id, whose hash is h, may have spent what is missing in its overflow key. */
static bool has_shared(struct keys *k, unsigned i, uint64_t h, uint64_t now_ns)
{
	const struct key *overflow = &k->overflow[i];
	if (!atomic_load_explicit(&overflow->pins, memory_order_acquire) &&
	    !each_owes(overflow, now_ns))
		k->overflow_users[i] = 0;
	return k->overflow_users[i] & 1ULL << (h >> 58);
}

struct key *keys_get(struct leaf *f, struct fair_key id, uint64_t now_ns)
{
	struct keys *k = &f->keys;
	struct key *key = keys_find(k, id);
	if (key)
		return key;
	/* Jobs that are parked under the overflow key may belong to `id`: queue behind them. */
	uint64_t h = hash(id);
	unsigned i = h >> 32 & (OVERFLOW_KEYS - 1);
	const struct key *overflow = &k->overflow[i];
	if (overflow->parked || overflow->parked_below || !make_room(f, now_ns) || !reserve(f))
		return share(k, i, h);
	key = key_new(f, id, now_ns);
	if (!key)
		return share(k, i, h);
	if (has_shared(k, i, h, now_ns))
		each_inherit(key, overflow, now_ns);
	if (k->n >= k->n_table)
		grow(k);
	struct key **slot = &k->table[h & (k->n_table - 1)];
	key->next = *slot;
	pthread_mutex_lock(&k->lock);
	*slot = key;
	pthread_mutex_unlock(&k->lock);
	k->n++;
	keys_idle(k, key);
	return key;
}

bool keys_is_overflow(const struct keys *k, const struct key *key)
{
	return key >= k->overflow && key < k->overflow + OVERFLOW_KEYS;
}

void keys_idle(struct keys *k, struct key *key)
{
	if (!keys_is_overflow(k, key))
		list_push_tail(&k->idle, &key->idle);
}

void keys_busy(struct key *key)
{
	list_remove(&key->idle);
}

void keys_each(struct keys *k, void (*fn)(struct key *key, void *arg), void *arg)
{
	for (unsigned i = 0; i < OVERFLOW_KEYS; i++)
		fn(&k->overflow[i], arg);
	for (size_t i = 0; i < k->n_table; i++)
		for (struct key *key = k->table[i], *next; key; key = next) {
			next = key->next;
			fn(key, arg);
		}
}

/* --- accounts --- */

struct account *account_find(const struct key *key, enum cost_class cls)
{
	struct account *a = key->accounts;
	while (a && a->cls != cls)
		a = a->next;
	return a;
}

struct account *account_get(struct leaf *f, struct key *key, enum cost_class cls)
{
	struct gate *g = f->node.gate;
	struct account *a = account_find(key, cls);
	if (a || !heap_reserve(&g->vouchers, g->n_accounts + 1))
		return a;
	a = calloc(1, sizeof(*a));
	if (!a)
		return NULL;
	a->leaf = f;
	a->key = key;
	a->cls = cls;
	a->place =
		(struct job){.leaf = f, .key = key->id, .probe = true, .must_run = true, .own = a};
	a->debt = (struct job){.leaf = f, .key = key->id, .must_run = true, .own = a};
	list_init(&a->place.link);
	list_init(&a->debt.link);
	a->next = key->accounts;
	key->accounts = a;
	g->n_accounts++;
	return a;
}

static void key_drop_accounts(struct key *key, void *arg)
{
	uint64_t now_ns = *(const uint64_t *)arg;
	for (struct account *a = key->accounts; a; a = a->next) {
		if (a->place.state == JOB_PARKED)
			job_refuse_locked(key->node.gate, &a->place, GRANT_CANCELLED, now_ns);
		if (a->debt.state == JOB_PARKED)
			job_refuse_locked(key->node.gate, &a->debt, GRANT_CANCELLED, now_ns);
		if (a->vouchers)
			voucher_expire(a);
	}
}

void accounts_drop(struct leaf *f, uint64_t now_ns)
{
	keys_each(&f->keys, key_drop_accounts, &now_ns);
}
