/* SPDX-License-Identifier: MIT */
/* The keys of one mount: a bounded table.  A key that is idle and has used up its turn cannot be
 * told from one never seen, so it may go when room is needed; when all are busy, newcomers share
 * a few overflow keys by hash, and nobody is refused. */
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

static int compare_rules(const void *pa, const void *pb)
{
	const struct weight_rule *a = pa, *b = pb;
	if (a->key.kind != b->key.kind)
		return a->key.kind < b->key.kind ? -1 : 1;
	return (a->key.id > b->key.id) - (a->key.id < b->key.id);
}

int keys_rules_copy(const struct weight_rule *rules, unsigned n, struct weight_rule **out)
{
	*out = NULL;
	if (!n)
		return 0;
	*out = malloc(n * sizeof(**out));
	if (!*out)
		return -ENOMEM;
	memcpy(*out, rules, n * sizeof(**out));
	qsort(*out, n, sizeof(**out), compare_rules);
	return 0;
}

uint32_t keys_weight(const struct keys *k, struct fair_key id)
{
	struct weight_rule wanted = {.key = id};
	const struct weight_rule *r = k->n_rules ? bsearch(&wanted, k->rules, k->n_rules,
							   sizeof(*k->rules), compare_rules)
						 : NULL;
	return r && r->weight ? r->weight : 1;
}

static void key_init(struct key *key, struct fair_key id, uint32_t weight)
{
	*key = (struct key){.id = id};
	list_init(&key->idle);
	for (unsigned i = 0; i < LANES; i++) {
		key->queue[i].key = key;
		list_init(&key->queue[i].jobs);
		fq_item_init(&key->queue[i].item, weight);
	}
}

bool keys_init(struct keys *k, uint32_t max, const struct weight_rule *rules, unsigned n_rules)
{
	*k = (struct keys){.n_table = TABLE_MIN, .max = max};
	list_init(&k->idle);
	k->table = calloc(k->n_table, sizeof(*k->table));
	if (!k->table || keys_rules_copy(rules, n_rules, &k->rules) < 0) {
		free(k->table);
		return false;
	}
	k->n_rules = n_rules;
	for (unsigned i = 0; i < OVERFLOW_KEYS; i++)
		key_init(&k->overflow[i], (struct fair_key){FAIR_NONE, i}, 1);
	return true;
}

void keys_free(struct keys *k)
{
	for (size_t i = 0; i < k->n_table; i++)
		while (k->table[i]) {
			struct key *key = k->table[i];
			k->table[i] = key->next;
			free(key);
		}
	free(k->table);
	free(k->rules);
}

static void grow(struct keys *k)
{
	size_t n = k->n_table * 2;
	struct key **table = calloc(n, sizeof(*table));
	if (!table)
		return; /* longer chains, nothing worse */
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
}

static void drop(struct gate_mount *m, struct key *key)
{
	struct keys *k = &m->keys;
	struct key **at = &k->table[hash(key->id) & (k->n_table - 1)];
	while (*at != key)
		at = &(*at)->next;
	*at = key->next;
	list_remove(&key->idle);
	k->n--;
	for (struct scope *s = &m->scope; s; s = s->parent)
		s->keys_now--;
	free(key);
}

static bool evictable(const struct gate_mount *m, const struct key *key, uint64_t now_ns)
{
	for (unsigned i = 0; i < m->scope.gate->lanes; i++)
		if (!fq_settled(&m->scope.lane[i].fq, &key->queue[i].item, now_ns))
			return false;
	return true;
}

/* Room for one more?  Looks at a few keys only: those idle for longest. */
static bool make_room(struct gate_mount *m, uint64_t now_ns)
{
	struct keys *k = &m->keys;
	unsigned tries = 0;
	list_for_each_safe (it, &k->idle) {
		if (k->n < k->max || tries++ == EVICT_TRIES)
			break;
		struct key *key = list_entry(it, struct key, idle);
		if (evictable(m, key, now_ns))
			drop(m, key);
	}
	return k->n < k->max;
}

/* Every lane must be able to take every key, so that sorting jobs anew never needs memory. */
static bool reserve(struct gate_mount *m)
{
	for (unsigned i = 0; i < LANES; i++)
		if (!fq_reserve(&m->scope.lane[i].fq, m->keys.n + 1 + OVERFLOW_KEYS))
			return false;
	return true;
}

struct key *keys_get(struct gate_mount *m, struct fair_key id, uint64_t now_ns)
{
	struct keys *k = &m->keys;
	uint64_t h = hash(id);
	for (struct key *key = k->table[h & (k->n_table - 1)]; key; key = key->next)
		if (same(key->id, id))
			return key;

	/* While jobs wait under the overflow key, one of them may be of this id: stay behind it. */
	struct key *overflow = &k->overflow[h >> 32 & (OVERFLOW_KEYS - 1)];
	if (overflow->parked || !make_room(m, now_ns) || !reserve(m))
		return overflow;
	struct key *key = malloc(sizeof(*key));
	if (!key)
		return overflow;
	if (k->n >= k->n_table)
		grow(k);
	key_init(key, id, keys_weight(k, id));
	struct key **slot = &k->table[h & (k->n_table - 1)];
	key->next = *slot;
	*slot = key;
	k->n++;
	for (struct scope *s = &m->scope; s; s = s->parent)
		s->keys_now++;
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
