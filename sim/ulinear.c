/* SPDX-License-Identifier: MIT */
/*
 * ulinear.c: the search for an order. ulinear.h names the papers on the algorithm.
 *
 * A configuration says what may be true of a part: its state, and the set of the open
 * operations that have happened. At the start there is one configuration. The search goes
 * from return to return. Between two returns, open operations are done in every order,
 * which adds configurations. At the second return the search keeps the configurations in
 * which the operation that returns has happened. If there are none, the history is not
 * linearizable.
 *
 *         h_memo[0]: | configurations at the last return, then what follows from them |
 *         h_memo[1]: | configurations at the next return |
 *
 * A lost operation stays open, and need not happen. So a configuration is left out if
 * another one has the same state and needs fewer lost operations. An operation that never
 * changes a state happens as soon as possible, since no other operation can notice.
 *
 * A part is idle when each operation has returned or is lost. Then the part is searched
 * up to the last return; the last configurations are kept, and operations that have
 * returned are freed.
 */
#include "ulinear.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum {
	OPEN  = 64,                     /* bits in c_set, and the most open operations */
	PARTS = 1024,                   /* chains in the hash table of parts */
};

struct operation {
	uint64_t          o_call;       /* number of the event of the call, and the id */
	uint64_t          o_return;     /* number of the event of the return */
	struct part      *o_part;
	struct operation *o_next;       /* next in the order of calls */
	struct operation *o_next_return;
	struct operation *o_next_open;  /* open operations of the history */
	uint32_t          o_client;
	unsigned          o_bit;        /* index in p_open, and bit in c_set; OPEN: the
					   operation failed */
	void             *o_result;     /* the result, which is stored after o_data; NULL:
					   there was no return */
	max_align_t       o_data[];
};

struct config {
	struct config    *c_tree[2];    /* children in m_tree, sorted by c_hash */
	uint64_t          c_hash;
	uint64_t          c_set;        /* bits of the open operations that have
					   happened */
	size_t            c_size;       /* bytes of the state */
	char              c_state[];
};

struct part {
	uint64_t          p_key;
	struct part      *p_next;       /* next in the chain */
	struct config    *p_configs;    /* configurations from which the search begins,
					   one after the other */
	size_t            p_bytes;      /* bytes of p_configs */
	struct operation *p_open[OPEN]; /* open operations, by their bits */
	struct operation *p_calls;      /* operations not in p_open yet */
	struct operation *p_last_call;
	struct operation *p_returns;
	struct operation *p_last_return;
	size_t            p_busy;       /* number of operations that have not ended */
	int               p_failed;     /* error of the last search, or 0 */
};

struct memo {
	char             *m_at;
	size_t            m_size;       /* bytes */
	size_t            m_used;       /* bytes in use */
	struct config    *m_tree;
};

struct ulinear {
	const struct ulinear_model *h_model;
	size_t            h_memory;
	uint64_t          h_events;     /* events so far */
	struct operation *h_open;
	struct part      *h_parts[PARTS];
	struct memo       h_memo[2];
	size_t            h_steps;      /* comparisons left */
	uint64_t          h_lost;       /* set of the lost operations */
	uint64_t          h_bit;        /* bit of the returning operation */
	max_align_t       h_bytes[];
};

static size_t aligned(size_t size)
{
	size_t unit = sizeof(max_align_t);

	return (size + unit - 1) / unit * unit;
}

/* ---- Configurations ---- */

static struct config *config_at(void *configs, size_t bytes)
{
	return (struct config *)(void *)((char *)configs + bytes);
}

static size_t config_size(const struct config *c)
{
	return aligned(sizeof *c + c->c_size);
}

/* FNV-1a. */
static uint64_t hash(uint64_t hash, const void *data, size_t n)
{
	for (const unsigned char *byte = data; n--; byte++)
		hash = (hash ^ *byte) * UINT64_C(0x100000001b3);
	return hash;
}

/*
 * Returns whether `old' makes `new' superfluous: `old' has the same state, and the same
 * operations have happened, except that `new' may need more lost operations.
 */
static bool covers(const struct config *old, const struct config *new, uint64_t lost)
{
	uint64_t more = new->c_set & ~old->c_set, less = old->c_set & ~new->c_set;

	return old->c_hash == new->c_hash && old->c_size == new->c_size
		&& !less && !(more & ~lost)
		&& memcmp(old->c_state, new->c_state, new->c_size) == 0;
}

/*
 * Adds the configuration that follows from `c' by operation `o'; if `o' is NULL, adds
 * `c'. Adds no configuration that another one makes superfluous. If `reads' is true,
 * takes only operations that never change a state; otherwise takes only other operations.
 * Returns 1, or 0 if `o' is not taken or cannot happen, or an error.
 */
static int enter(struct ulinear *h, const struct config *c, const struct operation *o,
		 bool reads)
{
	uint64_t set = o ? c->c_set | UINT64_C(1) << o->o_bit : c->c_set, key;
	struct memo *m = &h->h_memo[(set & h->h_bit) != 0];
	struct config *new = config_at(m->m_at, m->m_used), **at, *old;
	size_t size = c->c_size;
	int rc = 1 + reads;

	if (aligned(sizeof *new + h->h_model->m_state) > m->m_size - m->m_used)
		return -ENOMEM;
	memcpy(new->c_state, c->c_state, size);
	if (o)
		rc = h->h_model->m_apply(new->c_state, &size, o->o_data, o->o_result);
	if (rc != 1 + reads)
		return rc < 0 ? rc : 0;
	key = set & ~h->h_bit & ~h->h_lost;
	*new = (struct config){ .c_set = set & ~h->h_bit, .c_size = size, .c_hash =
				hash(hash(0, &key, sizeof key), new->c_state, size) };
	for (at = &m->m_tree; (old = *at); at = &old->c_tree[new->c_hash < old->c_hash])
		if (h->h_steps-- == 0)
			return -ENOMEM;
		else if (covers(old, new, h->h_lost))
			return 1;
	*at = new;
	m->m_used += config_size(new);
	return 1;
}

/*
 * Adds all configurations that follow from `c' by one open operation. If an operation
 * that only reads can happen, adds at most the configuration after that operation.
 * Returns 0 or an error.
 */
static int expand(struct ulinear *h, const struct part *p, const struct config *c)
{
	for (int reads = 1; reads >= 0; reads--)
		for (unsigned i = 0; i < OPEN; i++) {
			const struct operation *o = p->p_open[i];
			int rc;

			if (!o || c->c_set >> i & 1 || (reads && !o->o_result))
				continue;
			rc = enter(h, c, o, reads);
			if (rc < 0 || (reads && rc))
				return rc < 0 ? rc : 0;
		}
	return 0;
}

/* ---- The search ---- */

/* Adds to p_open the operations called before a return. 0; -ENOMEM: too many. */
static int open_calls(struct ulinear *h, struct part *p, uint64_t before)
{
	struct operation *o;

	for (; (o = p->p_calls) && o->o_call < before; p->p_calls = o->o_next) {
		if (o->o_bit == OPEN)
			continue;
		for (o->o_bit = 0; p->p_open[o->o_bit]; o->o_bit++)
			if (o->o_bit == OPEN - 1)
				return -ENOMEM;
		p->p_open[o->o_bit] = o;
		if (!o->o_result)
			h->h_lost |= UINT64_C(1) << o->o_bit;
	}
	return 0;
}

/* Goes on to the next return, with its configurations in h_memo[0]. 0 or an error. */
static int take_return(struct ulinear *h, struct part *p)
{
	struct memo *before = &h->h_memo[0], *at = &h->h_memo[1], swap = *before;
	struct operation *o = p->p_returns;
	const struct config *c;
	int rc = open_calls(h, p, o->o_return);

	h->h_bit = UINT64_C(1) << o->o_bit % OPEN;
	at->m_used = 0;
	at->m_tree = NULL;
	for (size_t n = 0; n < before->m_used && rc >= 0; n += config_size(c)) {
		c = config_at(before->m_at, n);
		rc = c->c_set & h->h_bit ? enter(h, c, NULL, false) : expand(h, p, c);
	}
	if (rc < 0 || !at->m_used)
		return rc < 0 ? rc : -EILSEQ;
	*before = *at;
	*at = swap;
	p->p_open[o->o_bit] = NULL;
	p->p_returns = o->o_next_return;
	return 0;
}

/*
 * Searches a part up to the last return. Returns 0 or an error. After an error, the
 * failed return is the first of p_returns.
 */
static int search(struct ulinear *h, struct part *p)
{
	struct memo *m = &h->h_memo[0];
	int rc = p->p_bytes > m->m_size ? -ENOMEM : 0;

	if (rc == 0)
		memcpy(m->m_at, p->p_configs, p->p_bytes);
	m->m_used = p->p_bytes;
	m->m_tree = NULL;
	h->h_lost = 0;
	h->h_steps = h->h_memory;
	for (size_t i = 0; i < OPEN; i++)
		h->h_lost |= (uint64_t)(p->p_open[i] != NULL) << i;
	while (p->p_returns && rc == 0)
		rc = take_return(h, p);
	return rc;
}

/*
 * Frees operations before `end': if `all' is true, all; otherwise those that have
 * returned or failed.
 */
static void free_calls(struct operation *o, const struct operation *end, bool all)
{
	for (struct operation *next; o != end; o = next) {
		next = o->o_next;
		if (all || o->o_result || o->o_bit == OPEN)
			free(o);
	}
}

/* Searches a part if it is idle. Returns 0 or an error. */
static int search_idle(struct ulinear *h, struct part *p)
{
	struct part after = *p;

	if (p->p_busy || p->p_failed || !p->p_returns)
		return 0;
	p->p_failed = search(h, &after);
	after.p_bytes = h->h_memo[0].m_used;
	after.p_configs = p->p_failed ? NULL : malloc(after.p_bytes);
	if (!after.p_configs)
		return p->p_failed;
	memcpy(after.p_configs, h->h_memo[0].m_at, after.p_bytes);
	free(p->p_configs);
	free_calls(p->p_calls, after.p_calls, false);
	*p = after;
	return 0;
}

/* ---- Histories ---- */

int ulinear_create(struct ulinear **h, const struct ulinear_model *model, size_t memory)
{
	struct ulinear *new = memory < SIZE_MAX / 2 ? malloc(sizeof *new + memory) : NULL;
	size_t half = memory / 2 / sizeof(max_align_t) * sizeof(max_align_t);

	if (!new)
		return -ENOMEM;
	*new = (struct ulinear){ .h_model = model, .h_memory = memory };
	for (size_t i = 0; i < 2; i++)
		new->h_memo[i] = (struct memo){ .m_at = (char *)new->h_bytes + i * half,
						.m_size = half };
	*h = new;
	return 0;
}

void ulinear_destroy(struct ulinear *h)
{
	for (size_t i = 0; i < PARTS; i++)
		for (struct part *p = h->h_parts[i], *next; p; p = next) {
			next = p->p_next;
			for (size_t bit = 0; bit < OPEN; bit++)
				free(p->p_open[bit]);
			free_calls(p->p_calls, NULL, true);
			free(p->p_configs);
			free(p);
		}
	free(h);
}

/* Returns the part that an operation is about, maybe a new one. NULL: no memory. */
static struct part *part_of(struct ulinear *h, const void *operation)
{
	const struct ulinear_model *m = h->h_model;
	uint64_t key = m->m_part ? m->m_part(operation) : 0;
	struct part **at = &h->h_parts[hash(0, &key, sizeof key) % PARTS], *p;
	struct config start = { .c_size = m->m_start_size };

	for (; (p = *at) != NULL; at = &p->p_next)
		if (p->p_key == key)
			return p;
	p = calloc(1, sizeof *p);
	if (!p || !(p->p_configs = malloc(config_size(&start)))) {
		free(p);
		return NULL;
	}
	p->p_key = key;
	p->p_bytes = config_size(&start);
	*p->p_configs = start;
	memcpy(p->p_configs->c_state, m->m_start, start.c_size);
	return *at = p;
}

int64_t ulinear_call(struct ulinear *h, uint32_t client, const void *operation)
{
	const struct ulinear_model *m = h->h_model;
	struct part *p = part_of(h, operation);
	size_t size = sizeof(struct operation) + aligned(m->m_operation) + m->m_result;
	struct operation *o = p ? malloc(size) : NULL;

	if (!o)
		return -ENOMEM;
	*o = (struct operation){ .o_call = ++h->h_events, .o_part = p,
				 .o_next_open = h->h_open, .o_client = client };
	memcpy(o->o_data, operation, m->m_operation);
	h->h_open = o;
	*(p->p_calls ? &p->p_last_call->o_next : &p->p_calls) = o;
	p->p_last_call = o;
	p->p_busy++;
	return (int64_t)o->o_call;
}

/*
 * Ends an operation. If `failed' is true, the operation has failed. Otherwise the
 * operation has returned `result', or is lost if `result' is NULL.
 */
static int end(struct ulinear *h, int64_t id, const void *result, bool failed)
{
	struct operation **at = &h->h_open, *o;
	struct part *p;

	while ((o = *at) != NULL && o->o_call != (uint64_t)id)
		at = &o->o_next_open;
	if (!o)
		return -EINVAL;
	*at = o->o_next_open;
	p = o->o_part;
	p->p_busy--;
	if (failed)
		o->o_bit = OPEN;
	if (result) {
		o->o_return = ++h->h_events;
		o->o_result = (char *)o->o_data + aligned(h->h_model->m_operation);
		memcpy(o->o_result, result, h->h_model->m_result);
		*(p->p_returns ? &p->p_last_return->o_next_return : &p->p_returns) = o;
		p->p_last_return = o;
	}
	return search_idle(h, p);
}

int ulinear_return(struct ulinear *h, int64_t id, const void *result)
{
	return end(h, id, result, false);
}

int ulinear_fail(struct ulinear *h, int64_t id)
{
	return end(h, id, NULL, true);
}

int ulinear_lost(struct ulinear *h, int64_t id)
{
	return end(h, id, NULL, false);
}

/* ---- Reports ---- */

static void show(const struct ulinear *h, const struct operation *o, FILE *report)
{
	fprintf(report, "  client %" PRIu32 ", event %" PRIu64, o->o_client, o->o_call);
	if (o->o_result)
		fprintf(report, " to %" PRIu64, o->o_return);
	fputs(": ", report);
	h->h_model->m_show(report, o->o_data, o->o_result);
	fputs(o->o_result ? "\n" : ", no return\n", report);
}

/* Shows the return at which a search failed, and the operations that were open then. */
static void show_failed(const struct ulinear *h, const struct part *p, int rc,
			FILE *report)
{
	const char *what = rc == -EILSEQ ? "not linearizable"
		: rc == -ENOMEM ? "gave up, out of memory" : strerror(-rc);

	fprintf(report, "%s: part %" PRIu64 ", at the return of\n", what, p->p_key);
	show(h, p->p_returns, report);
	fputs("which overlaps these, or follows those without a return:\n", report);
	for (unsigned i = 0; i < OPEN; i++)
		if (p->p_open[i] && p->p_open[i] != p->p_returns)
			show(h, p->p_open[i], report);
}

int ulinear_check(struct ulinear *h, FILE *report)
{
	int rc = 0;

	for (size_t i = 0; i < PARTS; i++)
		for (struct part *p = h->h_parts[i]; p && rc != -EILSEQ; p = p->p_next) {
			struct part copy = *p;
			int failed = copy.p_returns ? search(h, &copy) : 0;

			if (failed && report)
				show_failed(h, &copy, failed, report);
			rc = failed == -EILSEQ || !rc ? failed : rc;
		}
	return rc;
}
