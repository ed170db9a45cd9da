/* SPDX-License-Identifier: MIT */
/*
 * test_sync_chan.c: channels: buffers of all sizes, streams, close, budgets; between
 * processors, waits that need not block.
 */
#include "../help/place.h"

#include <errno.h>
#include <sched.h>
#include <string.h>
#include <unistd.h>

#include "../../uproc.h"

/* ---- Buffers ---- */

static int send_value(struct usync_chan *c, size_t size, uint32_t id, int64_t deadline)
{
	unsigned char value[LARGEST];

	write_value(value, size, id);
	return usync_chan_send(c, size > 0 ? value : NULL, deadline);
}

static int recv_value(struct usync_chan *c, size_t size, uint32_t *id, int64_t deadline)
{
	unsigned char value[LARGEST + 16];
	int rc;

	memset(value, 0x77, sizeof value);
	rc = usync_chan_recv(c, size > 0 ? value : NULL, deadline);
	for (size_t i = rc ? 0 : size; i < sizeof value; i++)
		TEST_EQUAL(value[i], 0x77);
	if (rc == 0)
		*id = read_value(value, size);
	return rc;
}

/* Several times round the end of the buffer, with any number of values in it. */
static void fill_and_empty(size_t size, size_t capacity)
{
	struct usync_chan *c;
	uint32_t in = 0, out = 0, id;

	TEST_EQUAL(usync_chan_create(size, capacity, &c), 0);
	for (size_t n = 0; n < 5 * capacity; n++) {
		size_t more = n % (capacity + 1);

		if (more < in - out)
			more = in - out;
		while (in - out < more)
			TEST_EQUAL(send_value(c, size, in++, 0), 0);
		if (more == capacity)
			TEST_EQUAL(send_value(c, size, in, 0), -ETIMEDOUT);
		for (size_t i = 0; i < more - more / 3; i++, out++) {
			TEST_EQUAL(recv_value(c, size, &id, 0), 0);
			if (size >= 4)
				TEST_EQUAL(id, out);
		}
	}
	TEST_EQUAL(usync_chan_close(c), 0);
	TEST_EQUAL(usync_chan_close(c), -EPIPE);
	TEST_EQUAL(send_value(c, size, in, USCHED_NEVER), -EPIPE);
	for (; out < in; out++)
		TEST_EQUAL(recv_value(c, size, &id, USCHED_NEVER), 0);
	TEST_EQUAL(recv_value(c, size, &id, USCHED_NEVER), -EPIPE);
	usync_chan_destroy(c);
}

static void fill_all(struct worker *w)
{
	(void)w;
	for (size_t i = 0; i < SIZES; i++)
		for (size_t capacity = 1; capacity < 6; capacity++)
			fill_and_empty(sizes[i], capacity);
}

static void buffers(void *s)
{
	struct worker w[2];

	for (size_t i = 0; i < 2; i++)
		start_worker(&w[i], s, i > 0, i, fill_all, NULL);
	for (size_t i = 0; i < 2; i++)
		end_worker(&w[i]);
}

TEST(test_buffers)
{
	const size_t gib = (size_t)1 << 30;
	struct usync_chan *c = NULL;

	assert_int_equal(usync_chan_create(gib + 1, 0, &c), -EINVAL);
	assert_int_equal(usync_chan_create(0, gib + 1, &c), -EINVAL);
	assert_int_equal(usync_chan_create(gib / 2, 3, &c), -EINVAL);
	assert_int_equal(usync_chan_create(SIZE_MAX, SIZE_MAX, &c), -EINVAL);
	assert_null(c);
	each_scheduler(buffers);
}

/* ---- Streams ---- */

/* Values arrive in order while both ends wait at times. */
enum { STREAM = 2000 };

struct stream {
	struct usync_chan *s_chan;
	size_t             s_size;
	size_t             s_count;
};

static void send_stream(struct worker *w)
{
	struct stream *s = w->w_shared;

	for (uint32_t i = 0; i < s->s_count; i++)
		TEST_EQUAL(send_value(s->s_chan, s->s_size, i, USCHED_NEVER), 0);
	TEST_EQUAL(usync_chan_close(s->s_chan), 0);
}

static void recv_stream(struct worker *w)
{
	struct stream *s = w->w_shared;
	uint32_t id = 0;
	int rc;

	while ((rc = recv_value(s->s_chan, s->s_size, &id, USCHED_NEVER)) == 0) {
		if (s->s_size >= 4)
			TEST_EQUAL(id, w->w_count);
		w->w_count++;
	}
	TEST_EQUAL(rc, -EPIPE);
}

static void streams(void *s)
{
	for (size_t i = 0; i < SIZES * 3 * 3; i++) {
		struct stream stream = {
			.s_size = sizes[i / 9], .s_count = test_scale(STREAM, 100) / 8,
		};
		struct worker w[2];

		assert_int_equal(usync_chan_create(stream.s_size, i % 3 * 2,
						   &stream.s_chan), 0);
		start_worker(&w[0], s, i / 3 % 3 == 1, 0, send_stream, &stream);
		start_worker(&w[1], s, i / 3 % 3 == 2, 1, recv_stream, &stream);
		end_worker(&w[0]);
		end_worker(&w[1]);
		assert_int_equal(w[1].w_count, stream.s_count);
		usync_chan_destroy(stream.s_chan);
	}
}

TEST_CASE(test_streams, each_scheduler, streams)

/* ---- Close ---- */

/* A close ends all waits: nothing is sent or received. */
static void find_closed(struct worker *w)
{
	struct place *p = w->w_shared;
	size_t value = 5, same = 5;
	struct usync_case cases[] = {
		{ p->p_full, USYNC_SEND, &same, 1, 0 },
		{ p->p_empty, USYNC_RECV, &value, 1, 0 },
	};

	switch (w->w_index % 4) {
	case 0:
		TEST_EQUAL(usync_chan_send(p->p_full, &value, USCHED_NEVER), -EPIPE);
		break;
	case 1:
		TEST_EQUAL(usync_chan_recv(p->p_empty, &value, USCHED_NEVER), -EPIPE);
		break;
	case 2:
		w->w_rc = usync_select(cases, 2, USCHED_NEVER);
		TEST_TRUE(w->w_rc >= 0);
		TEST_EQUAL(cases[w->w_rc].cs_rc, -EPIPE);
		break;
	default:
		TEST_EQUAL(usync_chan_recv(p->p_direct, &value, USCHED_NEVER), -EPIPE);
		break;
	}
	TEST_EQUAL(value, 5);
}

static void closing(void *s)
{
	struct place *p = make_place(s);
	struct worker w[QUEUE];
	size_t value = 0;

	for (size_t i = 0; i < QUEUE; i++) {
		start_worker(&w[i], s, i > 7, i, find_closed, p);
		await_waiting(&w[i]);
	}
	assert_int_equal(usync_chan_close(p->p_full), 0);
	assert_int_equal(usync_chan_close(p->p_empty), 0);
	assert_int_equal(usync_chan_close(p->p_direct), 0);
	for (size_t i = 0; i < QUEUE; i++)
		end_worker(&w[i]);
	assert_int_equal(w[2].w_rc, 0);         /* the case that was closed first */
	assert_int_equal(usync_chan_recv(p->p_full, &value, 0), 0);
	assert_int_equal(value, FILL);
	assert_int_equal(usync_chan_recv(p->p_full, &value, 0), -EPIPE);
	assert_int_equal(usync_chan_send(p->p_direct, &value, 0), -EPIPE);
	free_place(p);
}

TEST_CASE(test_close, each_scheduler, closing)

/* ---- Budgets ---- */

enum { PASS, PASS_AT_ONCE, FIND_NONE, CHOOSE, BUSY_KINDS };

static void busy_call(struct usync_chan *c, int kind)
{
	size_t value = 5;
	struct usync_case cases[] = {
		{ NULL, USYNC_RECV, NULL, 1, 0 }, { c, USYNC_SEND, &value, 1, 0 },
	};
	int64_t d = kind == PASS_AT_ONCE ? 0 : USCHED_NEVER;

	switch (kind) {
	case FIND_NONE:
		TEST_EQUAL(usync_chan_recv(c, &value, 0), -ETIMEDOUT);
		break;
	case CHOOSE:
		TEST_EQUAL(usync_select(cases, 2, USCHED_NEVER), 1);
		TEST_EQUAL(usync_chan_recv(c, &value, d), 0);
		break;
	default:
		TEST_EQUAL(usync_chan_send(c, &value, d), 0);
		TEST_EQUAL(usync_chan_recv(c, &value, d), 0);
	}
}

enum { TURNS = 8 };

static atomic_size_t busy_calls[2];
static atomic_bool busy_over;

/* Each has a channel of its own, and never has to wait. */
static void be_busy(struct worker *w)
{
	const int *kind = w->w_shared;
	atomic_size_t *other = &busy_calls[!w->w_index];
	size_t calls = 0, seen, turns = 0;
	struct usync_chan *c;

	TEST_EQUAL(usync_chan_create(sizeof(size_t), 4, &c), 0);
	busy_calls[w->w_index] = 1;
	while ((seen = *other) == 0)
		TEST_EQUAL(ustack_yield(), 0);
	while (!busy_over) {
		busy_call(c, *kind);
		busy_calls[w->w_index]++;
		calls++;
		if (*other != seen) {
			seen = *other;
			calls = 0;
			busy_over = ++turns == TURNS || busy_over;
		}
		/* Then the other has had no turn; random ones come late. */
		if (!test_is_stressed())
			TEST_TRUE(calls <= 2 * USYNC_BUDGET);
	}
	usync_chan_destroy(c);
}

static void budgets(void *s)
{
	for (int kind = 0; kind < BUSY_KINDS; kind++) {
		struct worker w[2];

		busy_calls[0] = busy_calls[1] = 0;
		busy_over = false;
		for (size_t i = 0; i < 2; i++)
			start_worker(&w[i], s, false, i, be_busy, &kind);
		for (size_t i = 0; i < 2; i++)
			end_worker(&w[i]);
	}
}

TEST_CASE(test_budgets, each_single, budgets)

/* A cancel ends it at a yield, except for calls that would not wait anyway. */
static void busy_until_cancelled(struct worker *w)
{
	struct usync_chan *c;
	size_t value = 0;
	int rc = 0;

	TEST_EQUAL(usync_chan_create(sizeof(size_t), 1, &c), 0);
	while (!ustack_cancelled())
		TEST_EQUAL(ustack_yield() == 0 || ustack_cancelled(), 1);
	for (size_t i = 0; i < 2 * USYNC_BUDGET; i++) {
		TEST_EQUAL(usync_chan_send(c, &value, 0), 0);
		TEST_EQUAL(usync_chan_recv(c, &value, 0), 0);
	}
	for (; rc == 0 && w->w_count <= USYNC_BUDGET; w->w_count++) {
		TEST_EQUAL(usync_chan_send(c, &value, 0), 0);
		rc = usync_chan_recv(c, &value, USCHED_NEVER);
	}
	TEST_EQUAL(rc, -ECANCELED);
	TEST_EQUAL(usync_chan_send(c, &value, 0), -ETIMEDOUT);  /* nothing was received */
	usync_chan_destroy(c);
}

static void cancel_busy(void *s)
{
	struct worker w;

	start_worker(&w, s, false, 0, busy_until_cancelled, NULL);
	assert_int_equal(ustack_cancel(w.w_thread), 0);
	end_worker(&w);
}

TEST_CASE(test_cancel_busy, each_single, cancel_busy)

/* ---- Between processors ---- */

/*
 * A thread receives what a native thread sends, with an s_linger that does what it is
 * told, and an s_wake that counts.
 */
enum linger { GIVES_UP, SEES, COMES_LATE, LINGERS };

static int (*real_wake)(struct usched *s, struct ustack *u);
static int (*real_linger)(struct usched *s, const uint8_t *word, uint8_t value);
static enum linger       lingers;
static atomic_size_t     lingered, woken;

static int linger_as_told(struct usched *s, const uint8_t *word, uint8_t value)
{
	(void)s;
	lingered++;
	if (lingers == GIVES_UP)
		return 0;
	while (__atomic_load_n(word, __ATOMIC_ACQUIRE) == value)
		sched_yield();
	return lingers == SEES;
}

static int count_wake(struct usched *s, struct ustack *u)
{
	woken++;
	return real_wake(s, u);
}

static void hook(struct usched *s)
{
	real_wake = s->s_calls.s_wake;
	real_linger = s->s_linger;
	s->s_calls.s_wake = count_wake;
	s->s_linger = linger_as_told;
}

static void unhook(struct usched *s)
{
	s->s_calls.s_wake = real_wake;
	s->s_linger = real_linger;
}

/* A channel of capacity 0, and how many values the tester has sent. */
struct far {
	struct usync_chan *f_chan;
	atomic_size_t      f_sent;
	size_t             f_last;
	size_t             f_lingered;          /* when the tester had sent */
};

static void recv_far(struct worker *w)
{
	struct far *f = w->w_shared;
	int32_t tokens = ustack_self()->u_tokens;
	size_t value = 0;

	hook(usched__here());
	while (value < f->f_last) {
		size_t last = value;

		w->w_rc = usync_chan_recv(f->f_chan, &value, USCHED_NEVER);
		if (w->w_rc)
			break;
		TEST_EQUAL(value, last + 1);
		TEST_EQUAL(ustack_self()->u_tokens, tokens);
		w->w_count++;
		while (f->f_sent < value)               /* wakes are counted */
			sched_yield();
	}
	unhook(usched__here());
}

static void start_far(struct worker *w, void *s, struct far *f,
		      void (*func)(struct worker *w), size_t last)
{
	*f = (struct far){ .f_last = last };
	assert_int_equal(usync_chan_create(sizeof(size_t), 0, &f->f_chan), 0);
	woken = lingered = 0;
	start_worker(w, s, false, 0, func, f);
}

enum { WAITING = 1 };                   /* a state of uwait.c: it blocks, or soon will */

/* Sends the next value to the waiting worker. The wakes that it took. */
static size_t send_far(struct worker *w, struct far *f)
{
	size_t value = f->f_sent + 1, before = woken;

	await_waiting(w);
	while (lingers == GIVES_UP
	       && __atomic_load_n(&w->w_waiter->w_state, __ATOMIC_SEQ_CST) != WAITING)
		sched_yield();
	assert_int_equal(usync_chan_send(f->f_chan, &value, USCHED_NEVER), 0);
	before = woken - before;
	f->f_lingered = lingered;
	f->f_sent = value;                      /* now the worker goes on */
	return before;
}

/* The first wait blocks, since no grant came from far before it. */
static void meet(void *s)
{
	for (lingers = GIVES_UP; lingers < LINGERS; lingers++) {
		struct worker w;
		struct far f;

		start_far(&w, s, &f, recv_far, 4);
		assert_int_equal(send_far(&w, &f), 1);
		assert_int_equal(f.f_lingered, 0);
		for (size_t i = 1; i < 4; i++) {
			size_t wakes = send_far(&w, &f);

			assert_int_equal(wakes, lingers == GIVES_UP);
			assert_int_equal(f.f_lingered, i);
		}
		end_worker(&w);
		assert_int_equal(w.w_count, 4);
		usync_chan_destroy(f.f_chan);
	}
}

TEST_CASE(test_meet, each_single, meet)

/* A close reaches a waiter that is awake; cancels and news of a deadlock come later. */
static void end_far(void *s)
{
	for (lingers = GIVES_UP; lingers < LINGERS; lingers++) {
		struct worker w;
		struct far f;

		start_far(&w, s, &f, recv_far, 4);
		send_far(&w, &f);
		await_waiting(&w);
		if (over->o_procs && lingers == GIVES_UP)
			assert_int_equal(ustack_join(w.w_thread, NULL, USCHED_NEVER),
					 -EDEADLK);
		if (lingers == GIVES_UP)
			assert_int_equal(ustack_cancel(w.w_thread), 0);
		else
			assert_int_equal(usync_chan_close(f.f_chan), 0);
		end_worker(&w);
		assert_int_equal(w.w_rc, lingers == GIVES_UP ? -ECANCELED : -EPIPE);
		assert_int_equal(w.w_count, 1);
		assert_int_equal(usync_chan_send(f.f_chan, &w, 0),
				 lingers == GIVES_UP ? -ETIMEDOUT : -EPIPE);
		usync_chan_destroy(f.f_chan);
	}
}

TEST_CASE(test_end_far, each_single, end_far)

/* Where no grant has followed, the next wait does not linger. */
static void recv_in_vain(struct worker *w)
{
	struct far *f = w->w_shared;
	size_t value;

	hook(usched__here());
	TEST_EQUAL(usync_chan_recv(f->f_chan, &value, USCHED_NEVER), 0);
	while (f->f_sent == 0)
		sched_yield();
	for (int i = 0; i < 3; i++) {
		TEST_EQUAL(usync_chan_recv(f->f_chan, &value, usync_after(1000)),
			   -ETIMEDOUT);
		TEST_EQUAL(lingered, 1);
	}
	unhook(usched__here());
}

static void in_vain(void *s)
{
	struct worker w;
	struct far f;

	lingers = GIVES_UP;
	start_far(&w, s, &f, recv_in_vain, 1);
	send_far(&w, &f);
	end_worker(&w);
	usync_chan_destroy(f.f_chan);
}

TEST_CASE(test_in_vain, each_single, in_vain)

/* Waits that never block use up the budget: then the neighbour has its turn. */
static atomic_size_t turns;

static void count_turns(struct worker *w)
{
	struct far *f = w->w_shared;

	while (f->f_sent < f->f_last) {
		turns++;
		TEST_EQUAL(ustack_yield(), 0);
	}
}

static void far_budget(void *s)
{
	struct worker w, other;
	size_t before;
	struct far f;

	lingers = SEES;
	start_far(&w, s, &f, recv_far, 4 * USYNC_BUDGET);
	start_worker(&other, s, false, 1, count_turns, &f);
	send_far(&w, &f);
	await_waiting(&w);
	before = turns;
	while (f.f_sent < f.f_last)
		send_far(&w, &f);
	end_worker(&w);
	end_worker(&other);
	assert_true(turns >= before + 3 || test_is_stressed());
	usync_chan_destroy(f.f_chan);
}

TEST_CASE(test_far_budget, each_single, far_budget)

/* ---- s_linger of processors ---- */

enum { UNUSED = 4 };

/* Whether it looks at the word, which has changed already. */
static int looks(struct uproc *p)
{
	static const uint8_t word = UNUSED + 1;

	return p->p_sched.s_linger(&p->p_sched, &word, UNUSED);
}

/* The processor, which the caller does not leave. */
static struct uproc *here_to_stay(void)
{
	TEST_TRUE(ustack_stay(1) >= 0);
	return uproc_from(usched__here());
}

static void become_ready(struct worker *w)
{
	TEST_EQUAL(usync_sem_wait(w->w_shared, USCHED_NEVER), 0);
}

/*
 * It looks while idle times are short and there is nothing else to do, and so often that
 * the next look for events is not missed.
 */
static void linger_alone(struct worker *w)
{
	struct uproc *p = here_to_stay();
	const uint8_t word = UNUSED;
	int64_t began;
	size_t n = 0;

	(void)w;
	TEST_EQUAL(ustack_yield(), 0);
	p->p_linger = 0;
	p->p_quick = 0;
	TEST_EQUAL(looks(p), 0);
	p->p_quick = 1;
	p->p_left = UPROC_LOOK;
	while (n < UPROC_LOOK && looks(p))
		n++;
	TEST_TRUE(n > 0 && n < UPROC_LOOK);
	TEST_TRUE(p->p_quick > 1);
	TEST_EQUAL(ustack_yield(), 0);          /* it may look at each switch */
	p->p_left = UPROC_LOOK;
	TEST_EQUAL(looks(p), 1);
	began = uevents_now();
	TEST_EQUAL(p->p_sched.s_linger(&p->p_sched, &word, UNUSED), 0);
	TEST_TRUE(uevents_now() - began < 100000 * (int64_t)MILLISECOND);
	p->p_left = UPROC_LOOK;
	p->p_linger = 0;
	TEST_EQUAL(p->p_sched.s_linger(&p->p_sched, &word, UNUSED), 0);
	for (n = 0; n < 1000 && !looks(p); n++)
		;
	TEST_TRUE(n > 8 && n < 1000);           /* in vain: not again for some time */
}

/* Not while a thread of the processor is ready. */
static void linger_beside(struct worker *w)
{
	struct uproc *p = here_to_stay();
	static struct usync_sem sem;
	static struct worker others[64];        /* not in a frame: others read it */
	size_t n = 0;

	do {
		TEST_TRUE(n < 64);
		start_worker(&others[n], w->w_sched, false, n, become_ready, &sem);
		while (!waits(&others[n]))
			TEST_EQUAL(ustack_yield(), 0);
	} while (ustack_sched(others[n++].w_thread) != usched__here());
	p->p_left = UPROC_LOOK;
	p->p_linger = 0;
	p->p_quick = 1;
	TEST_EQUAL(looks(p), 1);
	for (size_t i = 0; i < n; i++)
		TEST_EQUAL(usync_sem_post(&sem), 0);
	TEST_EQUAL(looks(p), 0);
	while (n > 0)
		end_worker(&others[--n]);
}

/* Nor with more processors than CPUs, where it would hold up its partner. */
static void linger_crowded(struct worker *w)
{
	struct uproc *p = here_to_stay();

	(void)w;
	for (int i = 0; i < 3; i++) {
		TEST_EQUAL(p->p_quick, 0);
		TEST_EQUAL(looks(p), 0);
		TEST_EQUAL(usync_sleep_until(usync_after(1000)), 0);
	}
}

static void lingering(void (*func)(struct worker *w), unsigned processors)
{
	/* A processor that asked this one for threads would end a look. */
	struct uprocs_conf conf = { .c_processors = processors, .c_stay = 1 };
	void *s = make_scheduler(&conf);
	struct worker w;

	if (((struct uprocs *)s)->r_patience == 0)
		func = linger_crowded;
	start_worker(&w, s, false, 0, func, NULL);
	end_worker(&w);
	assert_int_equal(over->o_destroy(s), 0);
}

TEST(test_linger)
{
	if (!over->o_procs)
		return;
	lingering(linger_alone, 2);
	lingering(linger_beside, 2);
	lingering(linger_crowded, (unsigned)sysconf(_SC_NPROCESSORS_ONLN) + 1);
}

int main(void)
{
	return over_all(OVER_ALL);
}
