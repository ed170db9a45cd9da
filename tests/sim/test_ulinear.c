/* SPDX-License-Identifier: MIT */
/*
 * test_ulinear.c: the linearizability checker: histories written by hand, after the
 * figures of Herlihy and Wing; random histories, beside all permutations; long histories
 * of an atomic object, and the same with one impossible result; memory; reports.
 */
#include "../help/test.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "../../sim/ulinear.h"

#define COUNT(array) (sizeof(array) / sizeof *(array))

enum {
	MEMORY  = 64 << 20,             /* bytes, more than any search here should need */
	CLIENTS = 10,
	NEVER   = 1000000,              /* a value that no client ever writes */
};

/* Below n. */
static uint32_t any(uint32_t n)
{
	return test_random(&test_seed) % n;
}

static struct ulinear *make(const struct ulinear_model *model, size_t memory)
{
	struct ulinear *h;

	test_timeout(60);
	assert_int_equal(ulinear_create(&h, model, memory), 0);
	return h;
}

/* ---- Histories written by hand ---- */

struct step {
	char                     s_what;        /* (c)all, (r)eturn, (f)ail, (l)ost */
	uint32_t                 s_client;
	struct ulinear_operation s_operation;
	struct ulinear_result    s_result;
};

/* Kind, value, expected. */
#define CALL(client, kind, ...) \
	{ 'c', client, OPERATION(kind, __VA_ARGS__, 0, 0), { false, 0 } }
#define OPERATION(kind, value, expected, ...) { ULINEAR_##kind, 7, value, expected }
#define GAVE(client, ...)       { 'r', client, { 0 }, { true, __VA_ARGS__ } }
#define DONE(client)            GAVE(client, 0)
#define NOTHING(client)         { 'r', client, { 0 }, { false, 0 } }
#define FAILED(client)          { 'f', client, { 0 }, { false, 0 } }
#define LOST(client)            { 'l', client, { 0 }, { false, 0 } }

/* To be destroyed. */
static struct ulinear *play(const struct ulinear_model *model, const struct step *s,
			    size_t n)
{
	struct ulinear *h = make(model, MEMORY);
	int64_t ids[26] = { 0 };

	for (; n--; s++) {
		int64_t *id = &ids[s->s_client - 'A'];

		if (s->s_what == 'c')
			*id = ulinear_call(h, s->s_client, &s->s_operation);
		else
			assert_int_not_equal(-EINVAL, s->s_what == 'r'
					     ? ulinear_return(h, *id, &s->s_result)
					     : s->s_what == 'f' ? ulinear_fail(h, *id)
					     : ulinear_lost(h, *id));
		assert_true(*id >= 0);
	}
	return h;
}

static void expect_of(const struct ulinear_model *model, const struct step *s, size_t n,
		      int rc)
{
	struct ulinear *h = play(model, s, n);

	assert_int_equal(ulinear_check(h, NULL), rc);
	assert_int_equal(ulinear_check(h, NULL), rc);   /* it changes nothing */
	ulinear_destroy(h);
}

#define EXPECT(rc, model, ...) do {                                     \
	static const struct step steps[] = { __VA_ARGS__ };             \
	expect_of(&ulinear_##model, steps, COUNT(steps), rc);           \
} while (0)

/* Herlihy and Wing, figure 1: H1 to H4. */
TEST(test_queue)
{
	EXPECT(0, queue,
	       CALL('A', ENQUEUE, 1), CALL('B', ENQUEUE, 2), DONE('A'), DONE('B'),
	       CALL('B', DEQUEUE, 0), GAVE('B', 1), CALL('A', DEQUEUE, 0), GAVE('A', 2),
	       CALL('A', ENQUEUE, 3));
	EXPECT(0, queue,
	       CALL('A', ENQUEUE, 1), CALL('B', ENQUEUE, 2), DONE('A'), DONE('B'),
	       CALL('B', DEQUEUE, 0), GAVE('B', 2), CALL('A', DEQUEUE, 0), GAVE('A', 1));
	EXPECT(-EILSEQ, queue,
	       CALL('A', ENQUEUE, 1), DONE('A'), CALL('B', ENQUEUE, 2), DONE('B'),
	       CALL('A', DEQUEUE, 0), GAVE('A', 2));
	EXPECT(0, queue,
	       CALL('A', ENQUEUE, 1), CALL('B', DEQUEUE, 0), GAVE('B', 1));
	EXPECT(-EILSEQ, queue,
	       CALL('A', ENQUEUE, 1), CALL('B', ENQUEUE, 2), DONE('A'), DONE('B'),
	       CALL('A', DEQUEUE, 0), CALL('C', DEQUEUE, 0), GAVE('A', 2), GAVE('C', 2));
	/* Empty before or after what overlaps, and never between. */
	EXPECT(0, queue,
	       CALL('A', ENQUEUE, 1), CALL('B', DEQUEUE, 0), NOTHING('B'), DONE('A'));
	EXPECT(-EILSEQ, queue,
	       CALL('A', ENQUEUE, 1), DONE('A'), CALL('B', DEQUEUE, 0), NOTHING('B'));
	EXPECT(-EILSEQ, queue, CALL('A', DEQUEUE, 0), GAVE('A', 0));
	EXPECT(-EILSEQ, queue, CALL('A', ENQUEUE, 0), NOTHING('A'));
}

/* Herlihy and Wing, after figure 2. */
TEST(test_register)
{
	EXPECT(0, register, CALL('A', GET, 0), GAVE('A', 0));
	EXPECT(0, register,
	       CALL('A', SET, 0), DONE('A'), CALL('B', SET, 1), CALL('A', GET, 0),
	       GAVE('A', 1), CALL('C', SET, 0), DONE('C'), DONE('B'), CALL('B', GET, 0),
	       GAVE('B', 0));
	EXPECT(-EILSEQ, register,
	       CALL('A', SET, 0), DONE('A'), CALL('B', SET, 1), CALL('A', GET, 0),
	       GAVE('A', 1), CALL('C', SET, 0), DONE('C'), DONE('B'), CALL('B', GET, 0),
	       GAVE('B', 1));
	EXPECT(-EILSEQ, register,       /* the new value, and then the old one */
	       CALL('A', SET, 1), CALL('B', GET, 0), GAVE('B', 1), CALL('B', GET, 0),
	       GAVE('B', 0), DONE('A'));
	/* An update that was torn apart: both added to what was not there. */
	EXPECT(-EILSEQ, map,
	       CALL('A', ADD, 1), CALL('B', ADD, 1), GAVE('A', 1), GAVE('B', 1));
}

TEST(test_lost)
{
	/* Never, late, twice late. */
	EXPECT(0, register,
	       CALL('A', SET, 1), LOST('A'), CALL('B', GET, 0), GAVE('B', 0));
	EXPECT(0, register,
	       CALL('A', SET, 1), LOST('A'), CALL('B', GET, 0), GAVE('B', 0),
	       CALL('B', GET, 0), GAVE('B', 1));
	EXPECT(-EILSEQ, register,
	       CALL('A', SET, 1), LOST('A'), CALL('B', GET, 0), GAVE('B', 1),
	       CALL('B', GET, 0), GAVE('B', 0));
	EXPECT(-EILSEQ, register,       /* it happens once */
	       CALL('A', ADD, 1), LOST('A'), CALL('B', GET, 0), GAVE('B', 1),
	       CALL('B', SET, 0), DONE('B'), CALL('B', GET, 0), GAVE('B', 1));
	EXPECT(-EILSEQ, register,       /* not before its call */
	       CALL('B', GET, 0), GAVE('B', 1), CALL('A', SET, 1), LOST('A'));
	/* Two that must both have happened, in the order of the later call first. */
	EXPECT(0, queue,
	       CALL('A', ENQUEUE, 1), LOST('A'), CALL('B', ENQUEUE, 2), LOST('B'),
	       CALL('C', DEQUEUE, 0), GAVE('C', 2), CALL('C', DEQUEUE, 0), GAVE('C', 1));
	/* A lost dequeue has taken something, or nothing. */
	EXPECT(0, queue,
	       CALL('A', ENQUEUE, 1), DONE('A'), CALL('A', ENQUEUE, 2), DONE('A'),
	       CALL('B', DEQUEUE, 0), LOST('B'), CALL('C', DEQUEUE, 0), GAVE('C', 2));
	EXPECT(-EILSEQ, queue,
	       CALL('A', ENQUEUE, 1), DONE('A'), CALL('A', ENQUEUE, 2), DONE('A'),
	       CALL('B', DEQUEUE, 0), LOST('B'), CALL('C', DEQUEUE, 0), NOTHING('C'));
	/* Two for the same state; the one that is tried first is needed later. */
	EXPECT(0, register,
	       CALL('A', ADD, 1), LOST('A'), CALL('B', SET, 1), LOST('B'),
	       CALL('C', GET, 0), GAVE('C', 1), CALL('C', SET, 5), DONE('C'),
	       CALL('C', GET, 0), GAVE('C', 6));
	EXPECT(-EILSEQ, register,       /* failed: it never happened */
	       CALL('A', SET, 1), FAILED('A'), CALL('B', GET, 0), GAVE('B', 1));
	EXPECT(0, register,
	       CALL('A', SET, 1), CALL('B', GET, 0), FAILED('A'), GAVE('B', 0));
}

/* ---- Beside all permutations ---- */

/* An object of its own, so that the models are tested, too. */
struct object {
	bool    o_queue, o_there;
	int64_t o_value;
	int64_t o_values[64];           /* a queue's, from o_first to o_last */
	size_t  o_first, o_last;
};

static struct object object_of(const struct ulinear_model *model)
{
	return (struct object){ .o_queue = model == &ulinear_queue,
				.o_there = model == &ulinear_register };
}

static struct ulinear_result act(struct object *x, const struct ulinear_operation *o)
{
	struct ulinear_result r = { true, 0 };

	switch (o->o_kind) {
	case ULINEAR_GET:
		return (struct ulinear_result){ x->o_there, x->o_there ? x->o_value : 0 };
	case ULINEAR_DELETE:
		r.r_done = x->o_there;
		x->o_there = false;
		return r;
	case ULINEAR_SWAP:
		r.r_done = x->o_there && x->o_value == o->o_expected;
		if (r.r_done)
			x->o_value = o->o_value;
		return r;
	case ULINEAR_ADD:
		x->o_value = r.r_value = (x->o_there ? x->o_value : 0) + o->o_value;
		x->o_there = true;
		return r;
	case ULINEAR_SET:
		x->o_value = o->o_value;
		x->o_there = true;
		return r;
	case ULINEAR_ENQUEUE:
		x->o_values[x->o_last++ % COUNT(x->o_values)] = o->o_value;
		assert_true(x->o_last - x->o_first <= COUNT(x->o_values));
		return r;
	default:
		r.r_done = x->o_last > x->o_first;
		if (r.r_done)
			r.r_value = x->o_values[x->o_first++ % COUNT(x->o_values)];
		return r;
	}
}

/* An operation of a random history. */
struct made {
	struct ulinear_operation m_operation;
	struct ulinear_result    m_result;
	int64_t                  m_id;
	size_t                   m_call, m_return;      /* SIZE_MAX: lost */
	bool                     m_ordered;
};

static bool may_be_next(const struct made *m, size_t n, size_t i)
{
	if (m[i].m_ordered)
		return false;
	for (size_t j = 0; j < n; j++)
		if (!m[j].m_ordered && m[j].m_return < m[i].m_call)
			return false;
	return true;
}

static bool has_order(struct made *m, size_t n, const struct object *object)
{
	size_t left = 0;

	for (size_t i = 0; i < n; i++)
		left += !m[i].m_ordered && m[i].m_return < SIZE_MAX;
	for (size_t i = 0; left && i < n; i++) {
		struct object next = *object;
		struct ulinear_result r;
		bool ordered;

		if (!may_be_next(m, n, i))
			continue;
		r = act(&next, &m[i].m_operation);
		if (m[i].m_return < SIZE_MAX
		    && (r.r_done != m[i].m_result.r_done
			|| r.r_value != m[i].m_result.r_value))
			continue;
		m[i].m_ordered = true;
		ordered = has_order(m, n, &next);
		m[i].m_ordered = false;
		if (ordered)
			return true;
	}
	return !left;
}

static const struct ulinear_model *const models[] = {
	&ulinear_register, &ulinear_map, &ulinear_queue
};

static struct ulinear_operation any_operation(const struct ulinear_model *model,
					      uint32_t values)
{
	struct ulinear_operation o = { .o_value = any(values) };

	o.o_expected = any(values);
	o.o_kind = model == &ulinear_queue ? ULINEAR_ENQUEUE + any(2)
		: any(2) ? ULINEAR_GET : any(ULINEAR_ENQUEUE);
	return o;
}

/*
 * Clients do `quiet' operations one after the other, and then up to three at a time, `n'
 * in all; up to three are lost. Their results are those of an atomic object, or near
 * them. In *rc what the calls returned.
 */
static struct ulinear *random_history(const struct ulinear_model *model, struct made *m,
				      size_t quiet, size_t n, int *rc)
{
	struct ulinear *h = make(model, MEMORY);
	struct object object = object_of(model);
	size_t called = 0, now = 0, busy = 0, lost = 0, open[3];

	for (*rc = 0; called < n || busy; now++) {
		size_t i = busy ? any((uint32_t)busy) : 0;

		if (called < n && busy < (called < quiet ? 1 : 3) && (!busy || any(2))) {
			m[called] = (struct made){ .m_call = now };
			m[called].m_operation = any_operation(model, 3);
			m[called].m_id = ulinear_call(h, 1, &m[called].m_operation);
			m[called].m_return = SIZE_MAX;
			open[busy++] = called++;
			continue;
		}
		if (lost < 3 && any(called > quiet ? 8 : 40) == 0) {
			lost++;
			*rc |= ulinear_lost(h, m[open[i]].m_id);
		} else {
			struct made *r = &m[open[i]];

			r->m_result = act(&object, &r->m_operation);
			r->m_return = now;
			if (called > quiet && any(4) == 0 && r->m_result.r_value)
				r->m_result.r_value = any(4);
			*rc |= ulinear_return(h, r->m_id, &r->m_result);
		}
		open[i] = open[--busy];
	}
	return h;
}

/* Those that are quiet first are cut many times. */
TEST(test_permutations)
{
	size_t found[2] = { 0 };

	for (test_seed = 1; found[0] + found[1] < test_scale(6000, 0); ) {
		const struct ulinear_model *model = models[any(3)];
		struct made m[48];
		size_t quiet = any(2) ? 24 + any(9) : 0, n = quiet + 2 + any(8);
		int early, rc;
		struct ulinear *h = random_history(model, m, quiet, n, &early);
		struct object object = object_of(model);
		bool right = has_order(m, n, &object);

		rc = ulinear_check(h, NULL);
		assert_int_equal(rc, right ? 0 : -EILSEQ);
		assert_true(early == 0 || early == rc);
		found[right]++;
		ulinear_destroy(h);
	}
	assert_true(found[0] > test_scale(600, 0) && found[1] > test_scale(600, 0));
	test_seed = 0;
}

/* ---- Long histories of an atomic object ---- */

struct client {
	struct ulinear_operation c_operation;
	struct ulinear_result    c_result;
	int64_t                  c_id;
	enum { IDLE, CALLED, ACTED } c_at;
};

/*
 * Each operation acts at some time between its call and its return. One operation of 100
 * is lost at most, before or after it acts. The result of operation `bad' is impossible.
 * With `pause', clients wait for each other after so many operations.
 */
static int run(struct ulinear *h, const struct ulinear_model *model, size_t n,
	       size_t keys, size_t lost, size_t bad, size_t pause)
{
	struct object *objects = calloc(keys, sizeof *objects);
	struct client clients[CLIENTS] = { 0 };
	size_t called = 0, busy = 0;
	int rc = 0;

	for (size_t i = 0; i < keys; i++)
		objects[i] = object_of(model);
	while (called < n || busy) {
		uint32_t i = any(CLIENTS);
		struct client *c = &clients[i];
		struct object *object = &objects[c->c_operation.o_key];

		if (c->c_at == IDLE && called < n
		    && (!pause || called % pause || !busy)) {
			c->c_operation = any_operation(model, 100);
			if (model == &ulinear_queue && called % 2 == 0)
				c->c_operation.o_kind = ULINEAR_DEQUEUE;
			c->c_operation.o_key = any((uint32_t)keys);
			c->c_id = ulinear_call(h, i, &c->c_operation);
			assert_true(c->c_id >= 0);
			c->c_at = CALLED;
			called++, busy++;
		} else if (c->c_at != IDLE && lost && any(100) == 0) {
			lost--, busy--;
			c->c_at = IDLE;
			rc |= ulinear_lost(h, c->c_id);
		} else if (c->c_at == CALLED) {
			c->c_result = act(object, &c->c_operation);
			c->c_at = ACTED;
		} else if (c->c_at == ACTED) {
			if (called > bad && (c->c_result.r_value || c->c_operation.o_kind
					     == ULINEAR_GET)) {
				c->c_result = (struct ulinear_result){ true, NEVER };
				bad = SIZE_MAX;
			}
			rc |= ulinear_return(h, c->c_id, &c->c_result);
			c->c_at = IDLE;
			busy--;
		}
	}
	free(objects);
	return rc;
}

TEST(test_atomic)
{
	test_seed = 12345;
	for (size_t i = 0; i < test_scale(60, 12); i++) {
		const struct ulinear_model *model = models[i % 3];
		size_t lost = i % 4 * (model != &ulinear_queue), pause = i % 2 * 20;
		size_t keys = model == &ulinear_map ? 4 : 1;
		struct ulinear *h = make(model, MEMORY);

		assert_int_equal(run(h, model, 600, keys, lost, SIZE_MAX, pause), 0);
		assert_int_equal(ulinear_check(h, stderr), 0);
		ulinear_destroy(h);
		h = make(model, MEMORY);
		run(h, model, 600, keys, lost, i * 9, pause);
		assert_int_equal(ulinear_check(h, NULL), -EILSEQ);
		ulinear_destroy(h);
	}
}

static void time_one(const char *what, const struct ulinear_model *model, size_t keys,
		     size_t lost, size_t bad)
{
	struct ulinear *h = make(model, MEMORY);
	clock_t start = clock();

	run(h, model, test_scale(10000, 700), keys, lost, bad, 0);
	assert_int_equal(ulinear_check(h, NULL), bad < SIZE_MAX ? -EILSEQ : 0);
	print_message("%s: %.3f s\n", what, (double)(clock() - start) / CLOCKS_PER_SEC);
	ulinear_destroy(h);
}

/* 10,000 operations of 10 clients. */
TEST(test_long)
{
	test_seed = 77;
	time_one("map, 100 keys", &ulinear_map, 100, 0, SIZE_MAX);
	time_one("map, 100 keys, 100 lost", &ulinear_map, 100, 100, SIZE_MAX);
	time_one("map, 100 keys, not linearizable", &ulinear_map, 100, 0, 500);
	time_one("map, 1 key", &ulinear_map, 1, 0, SIZE_MAX);
	time_one("register, 3 lost", &ulinear_register, 1, 3, SIZE_MAX);
	time_one("queue", &ulinear_queue, 1, 0, SIZE_MAX);
}

/* Some 60 MB, if the history were kept. Lost operations keep no part from being idle. */
TEST(test_flat)
{
	size_t before = 0, n = test_scale(200000, 20000);

	test_seed = 5;
	for (int i = 0; i < 2; i++, n /= 10) {
		struct ulinear *h = make(&ulinear_map, MEMORY);

		assert_int_equal(run(h, &ulinear_map, n, 10, 50, SIZE_MAX, 20), 0);
		assert_int_equal(ulinear_check(h, stderr), 0);
		if (i && !test_is_sanitized() && !test_on_valgrind())
			assert_in_range(before, 0, test_resident() + (4 << 20));
		before = test_resident();
		ulinear_destroy(h);
	}
}

/* ---- Memory, reports, errors ---- */

static char text[4096];

/* Into `text'. */
static int check(struct ulinear *h)
{
	FILE *f = fmemopen(text, sizeof text, "w");
	int rc;

	assert_non_null(f);
	rc = ulinear_check(h, f);
	fclose(f);
	return rc;
}

/* No state fits, and none is needed without a return. */
TEST(test_no_memory)
{
	struct ulinear_operation o = { .o_kind = ULINEAR_SET };
	struct ulinear_result r = { true, 0 };
	struct ulinear *h = make(&ulinear_register, 0);

	assert_int_equal(ulinear_lost(h, ulinear_call(h, 1, &o)), 0);
	assert_int_equal(check(h), 0);
	assert_int_equal(ulinear_return(h, ulinear_call(h, 1, &o), &r), -ENOMEM);
	assert_int_equal(check(h), -ENOMEM);
	ulinear_destroy(h);
}

/* With 7! orders of what is in the queue. */
static struct ulinear *hard_history(size_t memory)
{
	struct ulinear *h = make(&ulinear_queue, memory);
	struct ulinear_operation o = { .o_kind = ULINEAR_ENQUEUE };
	struct ulinear_result r = { true, NEVER };
	int64_t ids[7];

	for (uint32_t i = 0; i < 7; i++, o.o_value++)
		ids[i] = ulinear_call(h, i, &o);
	for (uint32_t i = 0; i < 7; i++)
		ulinear_return(h, ids[i], &r);
	o.o_kind = ULINEAR_DEQUEUE;
	ulinear_return(h, ulinear_call(h, 1, &o), &r);
	return h;
}

/* Valgrind, or AddressSanitizer, sees what is written behind the memory. */
TEST(test_memory)
{
	size_t memory = 0;
	int rc, before = -ENOMEM;

	for (; before == -ENOMEM; memory += memory / 4 + 8, before = rc) {
		struct ulinear *h = hard_history(memory);

		rc = check(h);
		assert_true(rc == -ENOMEM || rc == -EILSEQ);
		assert_true(!strncmp(text, rc == -ENOMEM ? "gave up" : "not line", 7));
		ulinear_destroy(h);
	}
	print_message("%zu bytes were enough\n", memory);
	assert_in_range(memory, 500000, 5000000);
}

/* One more open operation than there may be; closed ones do not count. */
TEST(test_open)
{
	struct ulinear_operation o = { .o_kind = ULINEAR_SET };
	struct ulinear_result r = { true, 0 };

	for (size_t n = 63; n <= 64; n++) {
		struct ulinear *h = make(&ulinear_register, MEMORY);

		for (size_t i = 0; i < n; i++)
			assert_int_equal(ulinear_lost(h, ulinear_call(h, 1, &o)), 0);
		for (size_t i = 0; i < 100; i++)
			assert_int_equal(ulinear_fail(h, ulinear_call(h, 1, &o)), 0);
		assert_int_equal(ulinear_return(h, ulinear_call(h, 1, &o), &r),
				 n < 64 ? 0 : -ENOMEM);
		assert_int_equal(check(h), n < 64 ? 0 : -ENOMEM);
		ulinear_destroy(h);
	}
}

TEST(test_report)
{
	static const struct step steps[] = {
		CALL('A', SET, 5), CALL('B', GET, 0), DONE('A'), GAVE('B', 5),
		CALL('C', SET, 6), LOST('C'), CALL('A', SWAP, 8, 5), CALL('B', GET, 0),
		CALL('E', ADD, 3), CALL('D', DELETE, 0), CALL('F', SWAP, 9, 1),
		GAVE('B', 7), DONE('D'), NOTHING('A'),
		CALL('A', GET, 0), NOTHING('A'),
	};
	struct ulinear *h = play(&ulinear_map, steps, COUNT(steps));

	assert_int_equal(check(h), -EILSEQ);
	assert_int_equal(check(h), -EILSEQ);
	assert_string_equal(text, "not linearizable: part 7, at the return of\n"
		"  client 66, event 7 to 11: get -> 7\n"
		"which overlaps these, or follows those without a return:\n"
		"  client 67, event 5: set 6, no return\n"
		"  client 65, event 6 to 13: swap 8 for 5 -> nothing\n"
		"  client 69, event 8: add 3, no return\n"
		"  client 68, event 9 to 12: delete -> done\n"
		"  client 70, event 10: swap 9 for 1, no return\n");
	ulinear_destroy(h);
}

static int one(struct ulinear *h, uint64_t key, enum ulinear_kind kind, bool done)
{
	struct ulinear_operation o = { .o_kind = kind, .o_key = key };
	struct ulinear_result r = { done, 0 };

	return ulinear_return(h, ulinear_call(h, 1, &o), &r);
}

TEST(test_errors)
{
	struct ulinear *h = make(&ulinear_register, MEMORY);
	struct ulinear_operation o = { .o_kind = ULINEAR_SET };
	struct ulinear_result r = { true, 0 };
	int64_t id = ulinear_call(h, 1, &o);

	assert_int_equal(ulinear_fail(h, -1), -EINVAL);
	assert_int_equal(ulinear_return(h, id + 1, &r), -EINVAL);
	assert_int_equal(ulinear_return(h, id, &r), 0);
	assert_int_equal(ulinear_return(h, id, &r), -EINVAL);
	id = ulinear_call(h, 1, &o);
	assert_int_equal(ulinear_lost(h, id), 0);
	assert_int_equal(ulinear_lost(h, id), -EINVAL);
	assert_int_equal(one(h, 0, ULINEAR_ENQUEUE, true), -EINVAL);
	assert_int_equal(one(h, 0, ULINEAR_GET, true), 0);      /* it said so */
	assert_int_equal(check(h), -EINVAL);
	ulinear_destroy(h);
}

/* An error of one part stays, whatever the others are, except that one is impossible. */
TEST(test_parts)
{
	struct ulinear *h = make(&ulinear_map, MEMORY);

	for (uint64_t key = 10; key < 3000; key++)
		assert_int_equal(one(h, key, ULINEAR_GET, false), 0);
	assert_int_equal(one(h, 2, ULINEAR_ENQUEUE, true), -EINVAL);
	assert_int_equal(one(h, 3, ULINEAR_GET, false), 0);
	assert_int_equal(ulinear_check(h, NULL), -EINVAL);
	assert_int_equal(one(h, 1, ULINEAR_GET, true), -EILSEQ);
	assert_int_equal(ulinear_check(h, NULL), -EILSEQ);
	ulinear_destroy(h);
}

/* The values that a queue may have, and one more. */
TEST(test_overflow)
{
	struct ulinear *h = make(&ulinear_queue, MEMORY);

	for (size_t i = 0; i < ULINEAR_QUEUE; i++)
		assert_int_equal(one(h, 0, ULINEAR_ENQUEUE, true), 0);
	assert_int_equal(one(h, 0, ULINEAR_ENQUEUE, true), -EOVERFLOW);
	assert_int_equal(ulinear_check(h, NULL), -EOVERFLOW);
	ulinear_destroy(h);
}

int main(void)
{
	return test_run_all();
}
