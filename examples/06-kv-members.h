/* SPDX-License-Identifier: MIT */
/*
 * 06-kv-members.h: the members of sets, hashes and sorted sets, and their commands: a
 * part of 06-kv.h. The members of each are in a hash table of their own. Those of a
 * sorted set are also in a binary heap: no parent is after its child.
 */
#ifndef KV_MEMBERS_H
#define KV_MEMBERS_H

struct member {
	UT_hash_handle hh;
	sds            name, value;     /* value: of a hash */
	double         score;           /* of a sorted set, with the place in the heap */
	size_t         place;
};

static bool is_before(const struct member *a, const struct member *b)
{
	return a->score < b->score
		|| (a->score == b->score && sdscmp(a->name, b->name) < 0);
}

static void set_place(struct entry *e, struct member *m, size_t i)
{
	e->heap[i] = m;
	m->place = i;
}

/* Puts a member where it belongs in a heap of n, of which `place' is free. */
static void sift(struct entry *e, struct member *m, size_t i, size_t n)
{
	for (; i > 0 && is_before(m, e->heap[(i - 1) / 2]); i = (i - 1) / 2)
		set_place(e, e->heap[(i - 1) / 2], i);
	for (size_t child; (child = 2 * i + 1) < n; i = child) {
		if (child + 1 < n && is_before(e->heap[child + 1], e->heap[child]))
			child++;
		if (!is_before(e->heap[child], m))
			break;
		set_place(e, e->heap[child], i);
	}
	set_place(e, m, i);
}

static struct member *find_member(const struct entry *e, sds name)
{
	struct member *m = NULL;

	if (e)
		HASH_FIND(hh, e->members, name, sdslen(name), m);
	return m;
}

static void drop_member(struct entry *e, struct member *m)
{
	size_t n = HASH_COUNT(e->members) - 1;

	if (e->heap && m->place < n)
		sift(e, e->heap[n], m->place, n);
	HASH_DEL(e->members, m);
	sdsfree(m->name);
	sdsfree(m->value);
	free(m);
}

/* Into the heap of a sorted set, last. False: there is no memory. */
static bool add_place(struct entry *e, struct member *m)
{
	size_t n = HASH_COUNT(e->members);
	struct member **heap = e->heap;

	if (n == 0 || (n & (n - 1)) == 0) {     /* full */
		heap = realloc(heap, (n ? 2 * n : 1) * sizeof *heap);
		if (!heap)
			return false;
		e->heap = heap;
	}
	m->place = n;
	return true;
}

/* NULL: there is no memory. */
static struct member *add_member(struct entry *e, sds name)
{
	struct member *m = calloc(1, sizeof *m);

	if (!m)
		return NULL;
	m->name = sdsdup(name);
	if (m->name && (e->type != 'z' || add_place(e, m)))
		HASH_ADD_KEYPTR(hh, e->members, m->name, sdslen(name), m);
	if (m->hh.tbl)
		return m;
	sdsfree(m->name);
	free(m);
	return NULL;
}

/* SADD, HSET, ZADD: how many are new. What comes before one without memory is added. */
static const char *add_members(struct conn *c, struct entry *e, int id)
{
	size_t step = id == SADD ? 1 : 2;
	int64_t added = 0;

	if ((c->n - 2) % step)
		return SYNTAX;
	for (size_t i = 2; id == ZADD && i < c->n; i += 2, steps++, rest()) {
		char *tail;
		double score = strtod(c->a[i], &tail);

		if (*tail || tail == c->a[i] || score != score)
			return "-ERR value is not a valid float\r\n";
	}
	e = e ? e : make(c->a[1], id == SADD ? 'm' : id == HSET ? 'h' : 'z');
	for (size_t i = 2; e && i < c->n; i += step, steps++, rest()) {
		sds name = c->a[id == ZADD ? i + 1 : i];
		struct member *m = find_member(e, name);

		added += !m;
		if (!m && !(m = add_member(e, name))) {
			if (!e->members)
				drop(e);
			return OOM;
		}
		if (id == HSET) {
			sdsfree(m->value);
			m->value = c->a[i + 1];
			c->a[i + 1] = NULL;
		} else if (id == ZADD) {
			m->score = strtod(c->a[i], NULL);
			sift(e, m, m->place, HASH_COUNT(e->members));
		}
	}
	return e ? SAY(c, ":%I\r\n", added) : OOM;
}

static const char *drop_members(struct conn *c, struct entry *e)
{
	struct member *m;
	int64_t n = 0;

	for (size_t i = 2; i < c->n; i++, steps++, rest())
		if ((m = find_member(e, c->a[i])) && ++n) {
			drop_member(e, m);
			if (!e->members) {
				drop(e);
				e = NULL;
			}
		}
	return SAY(c, ":%I\r\n", n);
}

static const char *say_score(struct conn *c, double score)
{
	char text[32];

	snprintf(text, sizeof text, "%.17g", score);
	return c->protocol == 3 ? SAY(c, ",%s\r\n", text)
		: SAY(c, "$%u\r\n%s\r\n", (unsigned)strlen(text), text);
}

/* SPOP, ZPOPMIN. Without room, the member stays. */
static const char *pop_member(struct conn *c, struct entry *e, bool sorted)
{
	struct member *m = !e ? NULL : sorted ? e->heap[0] : e->members;

	if (!m)
		return sorted ? "*0\r\n" : say(c, NULL);
	if (!room(c, sdslen(m->name) + 2 * SHORT))
		return NULL;
	if (sorted)
		SAY(c, "*2\r\n");
	say(c, m->name);
	if (sorted)
		say_score(c, m->score);
	drop_member(e, m);
	if (!e->members)
		drop(e);
	return NULL;
}

/* SMEMBERS, HGETALL */
static const char *say_members(struct conn *c, const struct entry *e, bool values)
{
	unsigned n = e ? HASH_COUNT(e->members) : 0;

	if (c->protocol == 3)
		SAY(c, values ? "%%%u\r\n" : "~%u\r\n", n);
	else
		SAY(c, "*%u\r\n", values ? 2 * n : n);
	for (struct member *m = e ? e->members : NULL; m; m = m->hh.next, rest()) {
		say(c, m->name);
		if (values)
			say(c, m->value);
	}
	return NULL;
}

static const char *do_members(struct conn *c, int id, struct entry *e)
{
	const struct member *m = c->n > 2 ? find_member(e, c->a[2]) : NULL;

	switch (id) {
	case SADD: case HSET: case ZADD: return add_members(c, e, id);
	case SREM: case HDEL: return drop_members(c, e);
	case SPOP: case ZPOPMIN: return pop_member(c, e, id == ZPOPMIN);
	case SMEMBERS: case HGETALL: return say_members(c, e, id == HGETALL);
	case SISMEMBER: return SAY(c, ":%i\r\n", m != NULL);
	case HGET: return say(c, m ? m->value : NULL);
	case ZSCORE: return m ? say_score(c, m->score) : say(c, NULL);
	default:                        /* SCARD, HLEN, ZCARD */
		return SAY(c, ":%u\r\n", e ? HASH_COUNT(e->members) : 0);
	}
}

#endif /* KV_MEMBERS_H */
