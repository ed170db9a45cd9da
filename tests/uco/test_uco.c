/* SPDX-License-Identifier: MIT */
/* test_uco.c: coroutines, over each scheduler, and over the dispatcher alone. */
#include "../../uco.h"

#include "../help/mini.h"
#include "../help/net.h"

enum { VALUES = 100, LEVELS = 9, WORKERS = 12, SHARED = 8, STEPS = 200,
       FAR = 40 };

static void *word(uintptr_t n)
{
	return (void *)n;
}

/* Gives 0, 1, 2, ..., *arg - 1, or from where the value of a resume says. */
static void *count(void *arg, void *value)
{
	uintptr_t n = (uintptr_t)value, end = (uintptr_t)arg;
	void *next = NULL;

	for (; n < end; n += 1 + (uintptr_t)next)
		if (uco_yield(word(n), &next))
			return NULL;
	return word(end + 1);
}

NET_TEST(values)
{
	struct uco *co;
	void *value;

	TEST_EQUAL(uco_create(count, word(VALUES), &co), 0);
	TEST_EQUAL(uco_status(co), UCO_NEW);
	for (uintptr_t i = 5; i < VALUES; i++) {
		TEST_EQUAL(uco_resume(co, i == 5 ? word(5) : NULL, &value), 0);
		TEST_EQUAL((uintptr_t)value, i);
		TEST_EQUAL(uco_status(co), UCO_SUSPENDED);
		pause_thread();
	}
	TEST_EQUAL(uco_resume(co, word(0), &value), 1);
	TEST_EQUAL((uintptr_t)value, VALUES + 1);
	TEST_EQUAL(uco_status(co), UCO_ENDED);
	TEST_EQUAL(uco_resume(co, NULL, NULL), -ESRCH);
	TEST_EQUAL(uco_close(co), 0);
	TEST_EQUAL(uco_create(count, word(VALUES), &co), 0);
	TEST_EQUAL(uco_resume(co, NULL, NULL), 0);
	TEST_EQUAL(uco_resume(co, word(7), &value), 0);
	TEST_EQUAL((uintptr_t)value, 8);
	while (uco_resume(co, NULL, NULL) == 0)
		;
	TEST_EQUAL(uco_close(co), 0);
}

static void *look_around(void *arg, void *value)
{
	struct uco **all = arg;

	TEST_TRUE(uco_self() == value);
	TEST_EQUAL(uco_status(value), UCO_RUNNING);
	TEST_EQUAL(uco_resume(value, NULL, NULL), -EBUSY);
	TEST_EQUAL(uco_close(value), -EBUSY);
	if (value == all[0]) {
		TEST_EQUAL(uco_resume(all[1], all[1], NULL), 1);
		TEST_EQUAL(uco_status(value), UCO_RUNNING);
		TEST_EQUAL(uco_close(all[1]), 0);
	} else {
		TEST_EQUAL(uco_status(all[0]), UCO_RESUMING);
		TEST_EQUAL(uco_resume(all[0], NULL, NULL), -EBUSY);
		TEST_EQUAL(uco_close(all[0]), -EBUSY);
	}
	return NULL;
}

NET_TEST(states)
{
	struct uco **co = calloc(2, sizeof *co);

	TEST_TRUE(co);
	TEST_TRUE(!uco_self());
	TEST_EQUAL(uco_yield(NULL, NULL), -EPERM);
	TEST_EQUAL(uco_create(NULL, NULL, &co[0]), -EINVAL);
	for (size_t i = 0; i < 2; i++)
		TEST_EQUAL(uco_create(look_around, co, &co[i]), 0);
	TEST_EQUAL(uco_resume(co[0], co[0], NULL), 1);
	TEST_EQUAL(uco_yield(NULL, NULL), -EPERM);
	TEST_TRUE(!uco_self());
	TEST_EQUAL(uco_close(co[0]), 0);
	free(co);
}

static void try_outside(void *co)
{
	struct uco *mine;

	TEST_TRUE(!uco_self());
	TEST_EQUAL(uco_create(count, NULL, &mine), -EPERM);
	TEST_EQUAL(uco_resume(co, NULL, NULL), -EPERM);
	TEST_EQUAL(uco_yield(NULL, NULL), -EPERM);
}

NET_TEST(outside)
{
	struct uco *co;

	TEST_EQUAL(uco_create(count, word(2), &co), 0);
	in_native(try_outside, co);
	TEST_EQUAL(uco_resume(co, NULL, NULL), 0);
	in_native(try_outside, co);
	TEST_EQUAL(uco_close(co), 0);
}

/* Leaves of a full tree, from left to right: each level is a coroutine of its own. */
static void *leaves(void *level, void *unused)
{
	uintptr_t depth = (uintptr_t)level;
	struct uco *co;
	void *value;

	(void)unused;
	if (depth == 0)
		TEST_EQUAL(uco_yield(word(1), NULL), 0);
	for (int side = 0; side < 2 && depth > 0; side++) {
		TEST_EQUAL(uco_create(leaves, word(depth - 1), &co), 0);
		while (uco_resume(co, NULL, &value) == 0)
			TEST_EQUAL(uco_yield(value, NULL), 0);
		TEST_EQUAL(uco_close(co), 0);
	}
	return NULL;
}

NET_TEST(nested)
{
	uintptr_t n = 0;
	struct uco *co;
	void *value;

	TEST_EQUAL(uco_create(leaves, word(LEVELS), &co), 0);
	for (; uco_resume(co, NULL, &value) == 0; n += (uintptr_t)value)
		;
	TEST_EQUAL(n, (uintptr_t)1 << LEVELS);
	TEST_EQUAL(uco_close(co), 0);
}

static int cleaned;

static void *clean(void *yields, void *unused)
{
	(void)unused;
	while (uco_yield(NULL, NULL) == 0)
		;
	for (uintptr_t i = 0; i < (uintptr_t)yields; i++)
		TEST_EQUAL(uco_yield(NULL, NULL), -ECANCELED);
	pause_thread();                         /* it may wait */
	cleaned++;
	return NULL;
}

NET_TEST(closing)
{
	struct uco *co;

	cleaned = 0;
	TEST_EQUAL(uco_create(clean, word(3), &co), 0);
	TEST_EQUAL(uco_close(co), 0);
	TEST_EQUAL(cleaned, 0);
	for (int resumes = 1; resumes < 4; resumes++) {
		TEST_EQUAL(uco_create(clean, word(3), &co), 0);
		for (int i = 0; i < resumes; i++)
			TEST_EQUAL(uco_resume(co, NULL, NULL), 0);
		TEST_EQUAL(uco_close(co), 0);
		TEST_EQUAL(cleaned, resumes);
	}
}

/* ---- What is the thread's ---- */

struct own {
	struct ustack     *o_self;
	struct usync_mutex o_mutex;
	struct usync_key   o_key;
	struct uco        *o_co;
	int                o_rc;
};

static void *be_another(void *arg, void *unused)
{
	struct own *o = arg;

	(void)unused;
	TEST_TRUE(ustack_self() == o->o_self);
	TEST_TRUE(usync_key_get(&o->o_key) == &o->o_key);
	TEST_EQUAL(usync_key_set(&o->o_key, &o->o_mutex), 0);
	TEST_EQUAL(usync_mutex_lock(&o->o_mutex, NEVER), 0);
	errno = EDOM;
	TEST_EQUAL(uco_yield(NULL, NULL), 0);
	TEST_EQUAL(errno, ERANGE);
	TEST_EQUAL(usync_mutex_lock(&o->o_mutex, NEVER), 0);
	TEST_EQUAL(ustack_wait(), 0);           /* the wake of it */
	TEST_EQUAL(uco_yield(NULL, NULL), 0);
	TEST_EQUAL(usync_sleep_until(NEVER), -ECANCELED);
	TEST_EQUAL(ustack_yield(), -ECANCELED);
	TEST_EQUAL(uco_yield(NULL, NULL), -ECANCELED);  /* gave it: then it is closed */
	return NULL;
}

static void identify(void *arg)
{
	struct own *o = arg;

	o->o_self = ustack_self();
	TEST_EQUAL(usync_key_set(&o->o_key, &o->o_key), 0);
	TEST_EQUAL(uco_create(be_another, o, &o->o_co), 0);
	TEST_EQUAL(uco_resume(o->o_co, NULL, NULL), 0);
	TEST_EQUAL(errno, EDOM);
	TEST_TRUE(usync_key_get(&o->o_key) == &o->o_mutex);
	TEST_EQUAL(usync_mutex_unlock(&o->o_mutex), 0);
	errno = ERANGE;
	TEST_EQUAL(ustack_wake(o->o_self), 0);
	TEST_EQUAL(uco_resume(o->o_co, NULL, NULL), 0);
	TEST_EQUAL(usync_mutex_unlock(&o->o_mutex), 0);
	TEST_EQUAL(uco_resume(o->o_co, NULL, NULL), 0);
	TEST_EQUAL(uco_status(o->o_co), UCO_SUSPENDED);
	TEST_EQUAL(uco_close(o->o_co), 0);
	o->o_rc = 1;
}

NET_TEST(identity)
{
	static struct own all;
	struct own *o = &all;
	struct ustack *u;

	all = (struct own){ .o_rc = 0 };
	u = go(identify, o);
	nap(2);
	TEST_EQUAL(ustack_cancel(u), 0);
	join(u);
	TEST_EQUAL(o->o_rc, 1);
}

/* ---- A generator that reads a socket ---- */

struct reader {
	int    r_fd;
	char   r_byte;
	size_t r_others;
	bool   r_over;
};

static void *read_bytes(void *arg, void *unused)
{
	struct reader *r = arg;

	(void)unused;
	while (unet_read(r->r_fd, &r->r_byte, 1, NEVER) == 1)
		TEST_EQUAL(uco_yield(&r->r_byte, NULL), 0);
	return NULL;
}

static void write_bytes(void *fd)
{
	for (char c = 'a'; c <= 'z'; c++) {
		nap(1);
		TEST_EQUAL(send(*(int *)fd, &c, 1, MSG_NOSIGNAL), 1);
	}
	TEST_EQUAL(unet_close(*(int *)fd), 0);
}

NET_TEST(sockets)
{
	struct reader *r = calloc(1, sizeof *r);
	int *fd = calloc(2, sizeof *fd);
	struct ustack *u;
	struct uco *co;
	void *byte;
	char c;

	TEST_TRUE(r && fd);
	TEST_EQUAL(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fd), 0);
	r->r_fd = fd[1];
	u = go(write_bytes, fd);
	TEST_EQUAL(uco_create(read_bytes, r, &co), 0);
	for (c = 'a'; uco_resume(co, NULL, &byte) == 0; c++)
		TEST_EQUAL(*(char *)byte, c);
	TEST_EQUAL(c, 'z' + 1);
	TEST_EQUAL(uco_close(co), 0);
	join(u);
	TEST_EQUAL(unet_close(r->r_fd), 0);
	free(r);
	free(fd);
}

/* ---- Many of all kinds ---- */

struct shared {
	struct uco    *s_co[SHARED];
	size_t         s_given[SHARED];
	struct usched *s_sched;
	atomic_size_t  s_done;          /* workers */
};

/* Frames with a pattern, waits and yields at different depths. */
static void burrow(struct shared *s, size_t which, uint32_t *seed, unsigned depth)
{
	volatile unsigned char frame[80];

	for (size_t i = 0; i < sizeof frame; i++)
		frame[i] = (unsigned char)(which + depth + i);
	if (depth > 0) {
		burrow(s, which, seed, depth - 1);
	} else {
		if (test_random(seed) % 4 == 0)
			pause_thread();
		TEST_EQUAL(uco_yield(word(s->s_given[which]), NULL), 0);
		s->s_given[which]++;
		if (test_random(seed) % 4 == 0)
			pause_thread();
	}
	for (size_t i = 0; i < sizeof frame; i++)
		TEST_EQUAL(frame[i], (unsigned char)(which + depth + i));
}

struct digger {
	struct shared *d_shared;
	size_t         d_which;
};

static void *dig(void *arg, void *unused)
{
	struct digger *d = arg;
	uint32_t seed = (uint32_t)d->d_which + 1;

	(void)unused;
	for (size_t i = 0; i < STEPS; i++)
		burrow(d->d_shared, d->d_which, &seed, test_random(&seed) % 16);
	return NULL;
}

/* Resumes whichever is not running. The coroutines are the dispatcher's, so it stays. */
static void work(void *arg)
{
	struct shared *s = arg;
	volatile char frame[300];
	uint32_t seed = (uint32_t)(uintptr_t)ustack_self() | 1;
	void *value;
	int rc;

	for (size_t i = 0; i < sizeof frame; i++)
		frame[i] = (char)i;
	ustack_stay(1);
	if (s->s_sched != ustack_sched(ustack_self()))
		return;
	for (size_t left = SHARED; left > 0;) {
		size_t i = test_random(&seed) % SHARED, given = s->s_given[i];

		rc = uco_resume(s->s_co[i], NULL, &value);
		TEST_TRUE(rc == 0 || rc == 1 || rc == -EBUSY || rc == -ESRCH);
		if (rc == 0)
			TEST_TRUE((uintptr_t)value >= given);
		if (rc == -EBUSY || test_random(&seed) % 8 == 0)
			pause_thread();
		for (i = left = 0; i < SHARED; i++)
			left += uco_status(s->s_co[i]) != UCO_ENDED;
	}
	for (size_t i = 0; i < sizeof frame; i++)
		TEST_EQUAL(frame[i], (char)i);
	s->s_done++;
}

NET_TEST(many)
{
	struct shared *s = calloc(1, sizeof *s);
	struct digger *d = calloc(SHARED, sizeof *d);
	struct ustack *u[WORKERS];

	TEST_TRUE(s && d);
	s->s_sched = ustack_sched(ustack_self());
	for (size_t i = 0; i < SHARED; i++) {
		d[i] = (struct digger){ s, i };
		TEST_EQUAL(uco_create(dig, &d[i], &s->s_co[i]), 0);
	}
	for (size_t i = 0; i < WORKERS; i++)
		u[i] = go(work, s);
	for (size_t i = 0; i < WORKERS; i++)
		join(u[i]);
	TEST_TRUE(s->s_done <= WORKERS);
	for (size_t i = 0; i < SHARED; i++) {
		TEST_EQUAL(s->s_given[i], STEPS);
		TEST_EQUAL(uco_close(s->s_co[i]), 0);
	}
	free(d);
	free(s);
}

static void resume_far(void *arg)
{
	struct uco *co = arg;

	if (ustack_sched(&co->co_frames) != ustack_sched(ustack_self()))
		TEST_EQUAL(uco_resume(co, NULL, NULL), -EXDEV);
	else
		TEST_EQUAL(uco_resume(co, NULL, NULL), 0);
}

NET_TEST(far_away)
{
	struct ustack *u[FAR];
	struct uco *co;

	TEST_EQUAL(uco_create(count, word(VALUES), &co), 0);
	for (size_t i = 0; i < FAR; i++)
		u[i] = go(resume_far, co);
	for (size_t i = 0; i < FAR; i++)
		join(u[i]);
	TEST_EQUAL(uco_close(co), 0);
}

static void resume_once(void *co)
{
	TEST_EQUAL(uco_resume(co, NULL, NULL), 0);
	TEST_EQUAL(uco_yield(NULL, NULL), -EPERM);
}

static void close_it(void *co)
{
	TEST_EQUAL(uco_close(co), 0);
}

/* The one that a thread resumed last: others end, take it, and close it. */
static void latest(void)
{
	struct uco *co, *next;

	TEST_EQUAL(uco_create(count, word(VALUES), &co), 0);
	join(go(resume_once, co));
	for (int i = 0; i < 3; i++) {
		TEST_EQUAL(uco_resume(co, NULL, NULL), 0);
		join(go(resume_once, co));
		TEST_TRUE(!uco_self());
		TEST_EQUAL(uco_yield(NULL, NULL), -EPERM);
	}
	TEST_EQUAL(uco_resume(co, NULL, NULL), 0);
	join(go(close_it, co));
	TEST_EQUAL(uco_yield(NULL, NULL), -EPERM);
	TEST_TRUE(!uco_self());
	TEST_EQUAL(uco_create(count, word(VALUES), &next), 0);  /* in its place */
	TEST_EQUAL(uco_status(next), UCO_NEW);
	TEST_EQUAL(uco_yield(NULL, NULL), -EPERM);
	TEST_EQUAL(uco_resume(next, NULL, NULL), 0);
	TEST_EQUAL(uco_close(next), 0);
}

/* A million: each gives one value, and ends. */
static void a_million(void)
{
	size_t n = test_is_sanitized() ? 1000 : test_scale(1000000, 1000), sum = 0;
	struct uco **co = calloc(n, sizeof *co);
	void *value;

	TEST_TRUE(co);
	for (size_t i = 0; i < n; i++) {
		TEST_EQUAL(uco_create(count, word(i % 2 + 1), &co[i]), 0);
		TEST_EQUAL(uco_resume(co[i], word(i % 2), &value), 0);
		sum += (uintptr_t)value;
	}
	TEST_EQUAL(sum, n / 2);
	for (size_t i = 0; i < n; i++) {
		TEST_EQUAL(uco_resume(co[i], NULL, &value), 1);
		TEST_EQUAL((uintptr_t)value, i % 2 + 2);
		TEST_EQUAL(uco_close(co[i]), 0);
	}
	free(co);
}

/* ---- Over the dispatcher alone ---- */

static struct mini mini;
static struct ustack *threads;
static struct uco *kept[3];

static void over_each_number(void (*func)(void *))
{
	static const unsigned stacks[] = { 0, 1, 2, 3, MINI_STACKS };

	for (size_t i = 0; i < COUNT(stacks); i++) {
		mini_init(&mini, stacks[i], 64 << 10);
		threads = calloc(2, sizeof *threads);
		TEST_TRUE(threads);
		for (size_t t = 0; t < 2; t++)
			mini_start(&mini, &threads[t], func, NULL);
		TEST_EQUAL(usched_run(&mini.p_sched), 0);
		mini_fini(&mini);
		free(threads);
	}
}

static void *block_between(void *arg, void *value)
{
	TEST_EQUAL(ustack_block(), 0);
	TEST_EQUAL(uco_yield(value, NULL), 0);
	TEST_EQUAL(ustack_block(), 0);
	return arg;
}

static void use_plain(void *unused)
{
	struct uco *co[3];
	void *value;

	(void)unused;
	for (size_t i = 0; i < COUNT(co); i++)
		TEST_EQUAL(uco_create(block_between, word(i), &co[i]), 0);
	for (size_t i = 0; i < COUNT(co); i++) {
		TEST_EQUAL(uco_resume(co[i], word(i + 7), &value), 0);
		TEST_EQUAL((uintptr_t)value, i + 7);
	}
	TEST_EQUAL(ustack_block(), 0);
	for (size_t i = 0; i < COUNT(co); i++) {
		TEST_EQUAL(uco_resume(co[i], NULL, &value), 1);
		TEST_EQUAL((uintptr_t)value, i);
		TEST_EQUAL(uco_close(co[i]), 0);
	}
}

TEST_ONCE(test_plain)
{
	over_each_number(use_plain);
}

/* Blocks or yields at each depth up to 1500 bytes; the frames must be as they were. */
static void wander_below(uint32_t *seed, unsigned depth)
{
	volatile uint32_t frame[24], own = test_random(seed);

	for (size_t i = 0; i < COUNT(frame); i++)
		frame[i] = own + (uint32_t)i;
	if (depth > 0)
		wander_below(seed, depth - 1);
	else if (!uco_self() || test_random(seed) % 2)
		TEST_EQUAL(ustack_block(), 0);
	else
		TEST_EQUAL(uco_yield(NULL, NULL), 0);
	for (size_t i = 0; i < COUNT(frame); i++)
		TEST_EQUAL(frame[i], own + (uint32_t)i);
}

static void *wander(void *arg, void *unused)
{
	uint32_t seed = (uint32_t)(uintptr_t)arg;

	(void)unused;
	for (unsigned i = 0; i < 30; i++)
		wander_below(&seed, test_random(&seed) % 12);
	return NULL;
}

/* Threads on own stacks run these coroutines, whose frames are on shared stacks. */
static struct uco *pool[20];
static size_t next_pool;

static void leave_to_others(struct uco **co)
{
	for (size_t i = 0; i < 2; i++)
		TEST_EQUAL(uco_close(co[i]), 0);
}

static void take_over(void *unused)
{
	struct uwaiter *w = uwait_self();

	(void)unused;
	TEST_TRUE(w && uwait_room(w, 0));
	while (next_pool < COUNT(pool))
		TEST_EQUAL(ustack_block(), 0);
	for (size_t i = 0; i < COUNT(pool); i++)
		for (int rc = 0; rc == 0;) {
			rc = uco_resume(pool[i], NULL, NULL);
			TEST_TRUE(rc == 0 || rc == 1 || rc == -ESRCH || rc == -EBUSY);
			TEST_EQUAL(ustack_block(), 0);
		}
	w = uwait_self();
	TEST_TRUE(w && uwait_room(w, 0));
}

static void resume_all(void *unused)
{
	uint32_t seed = 3 * ++mini.p_allocs;
	struct uco *co[3];
	size_t left = COUNT(co);

	(void)unused;
	for (size_t i = 0; i < COUNT(co); i++)
		TEST_EQUAL(uco_create(wander, word(seed + i + 1), &co[i]), 0);
	if (next_pool < COUNT(pool)) {          /* for others; begun here */
		pool[next_pool++] = co[0];
		TEST_TRUE(uco_resume(co[0], NULL, NULL) >= 0);
		for (unsigned i = 0; i < 3; i++)
			TEST_EQUAL(ustack_block(), 0);
		leave_to_others(&co[1]);
		return;
	}
	for (size_t i; left > 0; left -= uco_resume(co[i], NULL, NULL) == 1) {
		i = test_random(&seed) % COUNT(co);
		wander_below(&seed, test_random(&seed) % 12);
	}
	for (size_t i = 0; i < COUNT(co); i++)
		TEST_EQUAL(uco_close(co[i]), 0);
}

static void close_pool(void *unused)
{
	(void)unused;
	for (size_t i = 0; i < COUNT(pool); i++) {
		while (i >= next_pool || uco_status(pool[i]) != UCO_ENDED)
			TEST_EQUAL(ustack_block(), 0);
	}
	while (mini.p_dones < 100)    /* all the others */
		TEST_EQUAL(ustack_block(), 0);
	for (size_t i = 0; i < COUNT(pool); i++)
		TEST_EQUAL(uco_close(pool[i]), 0);
}

/* On stacks that are shared, and on others. */
TEST_ONCE(test_mixed)
{
	enum { THREADS = 100 };

	mini_init(&mini, MINI_STACKS, 64 << 10);
	threads = calloc(THREADS + 1, sizeof *threads);
	TEST_TRUE(threads);
	next_pool = 0;
	for (size_t i = 0; i < THREADS; i++)
		mini_start(&mini, &threads[i], i < 40 || i >= 70 ? resume_all : take_over,
			   NULL);
	mini_start(&mini, &threads[THREADS], close_pool, NULL);
	TEST_EQUAL(usched_run(&mini.p_sched), 0);
	mini_fini(&mini);
	free(threads);
}

/* ---- A thread with an own stack, and frames on a shared one ---- */

enum { ALL_SHARED = 64, OWN = 4, SHALLOW = 400 };

static struct guarded {
	struct ustack g_thread;
	unsigned char g_behind[2048];   /* what its first image has not */
} *guarded;
static struct uco *others[ALL_SHARED + OWN];

static void *block_inside(void *unused, void *value)
{
	volatile unsigned char frame[SHALLOW];

	(void)unused;
	TEST_EQUAL(uco_yield(NULL, NULL), 0);
	for (size_t i = 0; i < sizeof frame; i++)
		frame[i] = (unsigned char)i;
	TEST_EQUAL(mini_wait(), 0);
	for (size_t i = 0; i < sizeof frame; i++)
		TEST_EQUAL(frame[i], (unsigned char)i);
	return value;
}

/* It has a room, but has run no coroutine. */
static void resume_begun(void *unused)
{
	(void)unused;
	TEST_TRUE(!ustack_self()->u_stack->k_shared);
	TEST_TRUE(uwait_room(uwait_self(), 0));
	TEST_EQUAL(uco_resume(kept[0], NULL, NULL), 1);
	TEST_EQUAL(uco_close(kept[0]), 0);
}

static void begin(uco_fn *func, struct uco **co)
{
	TEST_EQUAL(uco_create(func, word(1), co), 0);
	TEST_EQUAL(uco_resume(*co, NULL, NULL), 0);
}

/*
 * The stacks that are not shared are taken first: by this thread and by some of
 * `others', which end. The other thread takes one of them, and waits, while all shared
 * stacks are taken.
 */
static void evict_it(void *unused)
{
	(void)unused;
	for (size_t i = 0; i + 1 < OWN; i++)
		begin(count, &others[i]);
	begin(block_inside, &kept[0]);
	TEST_TRUE(kept[0]->co_frames.u_stack->k_shared);
	for (size_t i = 0; i + 1 < OWN; i++)
		TEST_EQUAL(uco_close(others[i]), 0);
	mini_start(&mini, &guarded[1].g_thread, resume_begun, NULL);
	TEST_EQUAL(ustack_block(), 0);
	for (size_t i = 0; i < COUNT(others); i++)
		begin(count, &others[i]);
	for (size_t i = 0; i < COUNT(others); i++)
		TEST_EQUAL(uco_close(others[i]), 0);
	for (size_t i = 0; i < sizeof guarded->g_behind; i++)
		TEST_EQUAL(guarded[1].g_behind[i], 0);
	mini_push(&mini, &guarded[1].g_thread);
}

TEST_ONCE(test_room)
{
	if (!test_has_stacks() || test_is_stressed())   /* that has shared ones only */
		skip();
	mini_init(&mini, ALL_SHARED + OWN, 64 << 10);
	guarded = calloc(2, sizeof *guarded);
	TEST_TRUE(guarded);
	mini_start(&mini, &guarded[0].g_thread, evict_it, NULL);
	TEST_EQUAL(usched_run(&mini.p_sched), 0);
	mini_fini(&mini);
	free(guarded);
}

static void *yield_below(void *value)
{
	volatile size_t size = 20000;
	volatile char *frame = __builtin_alloca(size);  /* on no fake stack */
	int rc;

	frame[0] = 1;
	rc = uco_yield(value, NULL);
	TEST_EQUAL(frame[0], 1);
	return word((uintptr_t)(intptr_t)rc);
}

static void *yield_deep(void *unused, void *value)
{
	(void)unused;
	TEST_EQUAL(uco_yield(NULL, NULL), 0);
	mini.p_no_memory = true;
	TEST_EQUAL((intptr_t)yield_below(value), -ENOMEM);
	TEST_TRUE(uco_self() == kept[0]);
	TEST_EQUAL(uco_status(uco_self()), UCO_RUNNING);
	mini.p_no_memory = false;
	return yield_below(value);
}

static int resume_below(struct uco *co)
{
	volatile size_t size = 9000;
	volatile char *frame = __builtin_alloca(size);
	int rc;

	frame[0] = 1;
	rc = uco_resume(co, NULL, NULL);
	TEST_EQUAL(frame[0], 1);
	return rc;
}

static void use_no_memory(void *unused)
{
	struct uco *co;

	(void)unused;
	TEST_EQUAL(uco_create(yield_deep, NULL, &co), 0);
	kept[0] = co;
	mini.p_no_memory = true;
	TEST_EQUAL(resume_below(co), -ENOMEM);
	TEST_EQUAL(uco_status(co), UCO_NEW);
	TEST_TRUE(!uco_self());
	mini.p_no_memory = false;
	TEST_EQUAL(resume_below(co), 0);
	TEST_EQUAL(uco_resume(co, NULL, NULL), 0);
	TEST_EQUAL(resume_below(co), 1);
	TEST_EQUAL(uco_close(co), 0);
}

TEST_ONCE(test_no_memory)
{
	for (unsigned stacks = 0; stacks < 3; stacks++) {
		mini_init(&mini, stacks, 64 << 10);
		threads = calloc(1, sizeof *threads);
		TEST_TRUE(threads);
		mini_start(&mini, threads, use_no_memory, NULL);
		TEST_EQUAL(usched_run(&mini.p_sched), 0);
		mini_fini(&mini);
		free(threads);
	}
}

/* Each resumes the next; the last waits, and is aborted there. */
static void *chain(void *arg, void *unused)
{
	size_t next = (uintptr_t)arg;

	(void)unused;
	if (next == COUNT(kept)) {
		mini_wait();
		TEST_EQUAL(ustack_abort(ustack_self()), 0);
	}
	TEST_EQUAL(uco_resume(kept[next], NULL, NULL), 0);
	return NULL;
}

static void be_aborted(void *unused)
{
	(void)unused;
	for (size_t i = 0; i < COUNT(kept); i++)
		TEST_EQUAL(uco_create(chain, word(i + 1), &kept[i]), 0);
	chain(NULL, NULL);
}

TEST_ONCE(test_abort)
{
	for (unsigned i = 0; i < 10; i++) {
		mini_init(&mini, i / 2, 64 << 10);
		threads = calloc(1, sizeof *threads);
		TEST_TRUE(threads);
		mini_start(&mini, threads, be_aborted, NULL);
		TEST_EQUAL(usched_run(&mini.p_sched), 0);
		TEST_EQUAL(usched_fini(&mini.p_sched), -EBUSY);
		TEST_EQUAL(uco_status(kept[2]), UCO_RUNNING);
		if (i % 2) {
			TEST_EQUAL(ustack_abort(threads), 0);
		} else {                        /* by itself */
			mini_push(&mini, threads);
			TEST_EQUAL(usched_run(&mini.p_sched), 0);
		}
		for (size_t k = 0; k < COUNT(kept); k++) {
			TEST_EQUAL(uco_status(kept[k]), UCO_ENDED);
			TEST_EQUAL(uco_close(kept[k]), 0);
		}
		TEST_EQUAL(mini.p_dones, 1);
		mini_fini(&mini);
		free(threads);
	}
}

/* Frames fit into records. */
static const struct uprocs_conf roomy = {
	.c_processors = 1, .c_stacks = 2, .c_image = 2048,
};

CONF_CASE(many, roomy)
CONF_CASE(nested, roomy)
CONF_CASE(latest, one_processor)
CONF_CASE(a_million, one_processor)

int main(void)
{
	return over_all(OVER_ALL);
}
