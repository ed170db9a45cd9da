/* SPDX-License-Identifier: MIT */
/*
 * test_alone.c: threads with an own stack, or an error: pointers into their
 * frames, sizes, the limit, stacks that are used again and that go back.
 */
#include "../help/procs.h"

#include <pthread.h>
#include <sched.h>
#include <unistd.h>

#include "../../src/core/direction.h"
#include "../../uco.h"
#include "../../ll.h"
#include "../../rr.h"
#include "../../usync.h"

enum { MANY = 200, SIZE = 64 << 10, LARGE = 1 << 20, FRAME = 512 };

static int start_alone(void *s, size_t stack, void (*func)(void *), void *arg,
		       struct ustack **thread)
{
	return over->o_start_with(s, TEST_HOW(.h_stack = stack), func, arg,
				  thread);
}

/* Skips where there is no such stack. */
static void begin(void)
{
	test_timeout(60);
	if (!test_has_stacks())
		skip();
}

/* ---- Pointers ---- */

/* What a thread has in its frames, and others write. */
struct shown {
	struct usync_sem *h_answers;
	atomic_size_t     h_sum;
	size_t            h_index;
	unsigned char     h_room[FRAME];
};

struct crowd {
	struct usync_sem      c_there;
	struct usync_sem      c_go_on[MANY];
	_Atomic(struct shown *) c_shown[MANY];
	atomic_size_t         c_ended;
};

static struct crowd crowd;

static void show(void *arg)
{
	struct shown mine = { .h_index = (size_t)(uintptr_t)arg };
	struct usync_mutex lock = { 0 };        /* also what others may wait for */

	mine.h_answers = &crowd.c_go_on[mine.h_index];
	TEST_EQUAL(usync_mutex_lock(&lock, USCHED_NEVER), 0);
	crowd.c_shown[mine.h_index] = &mine;
	TEST_EQUAL(usync_sem_post(&crowd.c_there), 0);
	TEST_EQUAL(usync_sem_wait(mine.h_answers, USCHED_NEVER), 0);
	TEST_EQUAL(mine.h_sum, 7 * mine.h_index);
	for (size_t i = 0; i < FRAME; i++)
		TEST_EQUAL(mine.h_room[i], (unsigned char)(mine.h_index + i));
	TEST_EQUAL(usync_mutex_unlock(&lock), 0);
	crowd.c_ended++;
}

static void write_into(size_t i)
{
	struct shown *to = crowd.c_shown[i];

	TEST_EQUAL(to->h_index, i);
	to->h_sum += 7 * i;
	for (size_t k = 0; k < FRAME; k++)
		to->h_room[k] = (unsigned char)(i + k);
	TEST_EQUAL(usync_sem_post(to->h_answers), 0);
}

static void write_all(void *unused)
{
	(void)unused;
	for (size_t i = 0; i < MANY; i++) {
		write_into(i);
		if (i % 10 == 0)
			TEST_EQUAL(ustack_yield(), 0);
	}
}

/* Others share one stack meanwhile, and are evicted from it. */
static void disturb(void *unused)
{
	volatile char room[2000];

	(void)unused;
	for (int i = 0; i < 20; i++) {
		for (size_t k = 0; k < sizeof room; k++)
			room[k] = (char)i;
		TEST_EQUAL(ustack_yield(), 0);
	}
}

/* Threads and native threads follow pointers to locals of blocked threads. */
static void pointers(const struct uprocs_conf *conf)
{
	struct usched_stats stats;
	void *s;

	if (conf->c_stacks == USCHED_NATIVE)
		return;
	s = make(conf);
	over->o_hold(s);
	for (int round = 0; round < 4; round++) {
		struct ustack *threads[MANY], *others[4];

		memset(&crowd, 0, sizeof crowd);
		for (size_t i = 0; i < MANY; i++)
			assert_int_equal(start_alone(s, i % 3 ? USTACK_OWN : SIZE, show,
						     (void *)i, &threads[i]), 0);
		for (size_t i = 0; i < 4; i++)
			assert_int_equal(over->o_start(s, disturb, NULL, &others[i]), 0);
		for (size_t i = 0; i < MANY; i++)
			assert_int_equal(usync_sem_wait(&crowd.c_there, USCHED_NEVER), 0);
		if (round % 2)
			run_to_end(s, write_all, NULL);
		else
			for (size_t i = 0; i < MANY; i++)
				write_into(i);
		for (size_t i = 0; i < MANY; i++)
			assert_int_equal(ustack_join(threads[i], NULL, USCHED_NEVER), 0);
		for (size_t i = 0; i < 4; i++)
			assert_int_equal(ustack_join(others[i], NULL, USCHED_NEVER), 0);
		assert_int_equal(crowd.c_ended, MANY);
	}
	over->o_stats(s, &stats);
	assert_int_equal(stats.st_images, 0);
	over->o_release(s);
	assert_int_equal(over->o_destroy(s), 0);
}

TEST(test_pointers)
{
	begin();
	if (test_is_single())
		skip();
	each_conf(pointers);
}

/* ---- Sizes ---- */

struct measured {
	size_t m_size;
	size_t m_got;
};

__attribute__((noinline)) static int fill(size_t n)
{
	volatile char room[4096];

	for (size_t i = 0; i < sizeof room; i += 64)
		room[i] = (char)n;
	if (n > sizeof room + 1024)
		fill(n - sizeof room - 1024);
	TEST_EQUAL(ustack_yield(), 0);
	return room[n % sizeof room];
}

static void measure(void *arg)
{
	struct measured *m = arg;
	const struct usched_stack *k = ustack_self()->u_stack;

	m->m_got = k->k_size;
	TEST_TRUE(stack_depth(k->k_bottom, &k) < m->m_got);
	if (m->m_size > 4 * SIZE)
		fill(m->m_size * 3 / 4);
}

static void ask_too_much(void *unused)
{
	struct ustack *thread;

	(void)unused;
	TEST_EQUAL(ustack_start_with(TEST_HOW(.h_stack = SIZE_MAX), nothing,
				     NULL, &thread), -EINVAL);
}

TEST(test_sizes)
{
	static const size_t sizes[] = { USTACK_OWN, 3 * 4096, SIZE, LARGE + 1, 100 };
	struct uprocs_conf conf = { .c_processors = 2, .c_stack_size = SIZE };
	struct uprocs_conf native = { .c_processors = 1, .c_stacks = USCHED_NATIVE };
	struct ustack *thread;
	void *s;

	begin();
	assert_int_equal(ustack_start_with(TEST_HOW(.h_stack = USTACK_OWN),
					   nothing, NULL, NULL), -EPERM);
	s = make(&conf);
	for (size_t i = 0; i < 30; i++) {
		struct measured m = { .m_size = sizes[i % 4] };
		size_t least = m.m_size > USTACK_OWN ? m.m_size : SIZE;

		assert_int_equal(start_alone(s, m.m_size, measure, &m, &thread), 0);
		assert_int_equal(ustack_join(thread, NULL, USCHED_NEVER), 0);
		assert_true(m.m_got + 8192 > least);
	}
	assert_int_equal(start_alone(s, 100, nothing, NULL, NULL), -EINVAL);
	assert_int_equal(start_alone(s, USCHED_STACK_MAX + 1, nothing, NULL, NULL),
			 -EINVAL);
	assert_int_equal(start_alone(s, USTACK_OWN, NULL, NULL, NULL), -EINVAL);
	assert_int_equal(over->o_start(s, ask_too_much, NULL, NULL), 0);
	assert_int_equal(over->o_destroy(s), 0);
	s = make(&native);
	assert_int_equal(over->o_start(s, nothing, NULL, NULL), 0);
	assert_int_equal(start_alone(s, USTACK_OWN, nothing, NULL, NULL), -ENOTSUP);
	assert_int_equal(over->o_destroy(s), 0);
}

TEST(test_without_stacks)
{
	void *s;

	if (test_has_stacks())
		skip();
	s = make(NULL);
	assert_int_equal(start_alone(s, USTACK_OWN, nothing, NULL, NULL), -ENOTSUP);
	assert_int_equal(over->o_destroy(s), 0);
}

/* ---- The limit ---- */

enum { LIMIT = 5, TIMES = 300 };

/* After a join there is room at once, and no more is mapped than two a processor. */
TEST(test_limit)
{
	struct uprocs_conf conf = { .c_processors = 2, .c_alone = LIMIT };
	struct ustack *threads[LIMIT], *none = (struct ustack *)1;
	size_t mappings;
	void *s;

	begin();
	s = make(&conf);
	over->o_hold(s);
	for (size_t i = 0; i < LIMIT; i++)
		assert_int_equal(start_alone(s, SIZE, wait_once, NULL, &threads[i]), 0);
	mappings = test_mappings();
	for (size_t i = 0; i < TIMES; i++) {
		size_t k = i * 7 % LIMIT;

		assert_int_equal(start_alone(s, SIZE, wait_once, NULL, &none), -EAGAIN);
		assert_ptr_equal(none, (struct ustack *)1);
		finish(threads[k]);
		assert_int_equal(start_alone(s, SIZE, wait_once, NULL, &threads[k]), 0);
	}
	if (!test_is_sanitized())
		assert_in_range(test_mappings(), 0, mappings + 2 * 2 * 2 + 8);
	for (size_t i = 0; i < LIMIT; i++)
		finish(threads[i]);
	over->o_release(s);
	assert_int_equal(over->o_destroy(s), 0);
}

/* Of changing sizes, also more than are looked at: the number stays bounded. */
TEST(test_changing)
{
	struct uprocs_conf conf = { .c_processors = 1, .c_alone = 40 };
	struct ustack *threads[40];
	size_t mappings;
	void *s;

	begin();
	s = make(&conf);
	over->o_hold(s);
	mappings = test_mappings();
	for (size_t round = 0; round < 10; round++) {
		for (size_t i = 0; i < 40; i++)
			assert_int_equal(start_alone(s, (8 + round * 4) << 10, wait_once,
						     NULL, &threads[i]), 0);
		for (size_t i = 0; i < 40; i++)
			finish(threads[i]);
	}
	if (!test_is_sanitized())
		assert_in_range(test_mappings(), 0, mappings + 2 * 42 + 8);
	over->o_release(s);
	assert_int_equal(over->o_destroy(s), 0);
}

/* ---- Memory ---- */

static void touch_and_wait(void *unused)
{
	fill(SIZE / 2);
	wait_once(unused);
}

/* Vacant stacks are unmapped after some time; stacks in use stay. */
TEST(test_idle)
{
	struct uprocs_conf conf = { .c_processors = 1 };
	struct ustack *threads[MANY];
	size_t mappings;
	void *s;

	begin();
	if (test_is_sanitized() || test_is_single())
		skip();
	s = make(&conf);
	((struct uprocs *)s)->r_unused = 20000000;
	over->o_hold(s);
	run_to_end(s, nothing, NULL);
	mappings = test_mappings();
	for (size_t i = 0; i < MANY; i++)
		assert_int_equal(start_alone(s, USTACK_OWN, touch_and_wait, NULL,
					     &threads[i]), 0);
	sleep_ms(100);                          /* the launches are forgotten */
	for (size_t i = 10; i < MANY; i++)
		finish(threads[i]);
	for (int i = 0; i < 60000 && test_mappings() > mappings + 2 * 10 + 10; i++)
		sleep_ms(1);
	assert_in_range(test_mappings(), 0, mappings + 2 * 10 + 10);
	for (size_t i = 0; i < 10; i++)
		finish(threads[i]);
	over->o_release(s);
	assert_int_equal(over->o_destroy(s), 0);
}

/* ---- Ends ---- */

static atomic_size_t coroutines;

static void end_at_once(void *unused)
{
	(void)unused;
	TEST_EQUAL(ustack_exit(NULL), 0);
}

static void *end_inside(void *arg, void *first)
{
	TEST_EQUAL(uco_yield(first, NULL), 0);
	coroutines++;
	TEST_EQUAL(ustack_exit(arg), 0);
	return NULL;
}

static void run_coroutine(void *arg)
{
	struct uco *co;
	void *result;

	TEST_EQUAL(uco_create(end_inside, arg, &co), 0);
	*(struct uco **)arg = co;
	for (;;)
		TEST_EQUAL(uco_resume(co, NULL, &result), 0);
}

static void ends(const struct uprocs_conf *conf)
{
	struct uprocs_conf few = *conf;
	struct ustack *threads[20];
	struct uco *in[20];
	void *s, *value;

	if (conf->c_stacks == USCHED_NATIVE)
		return;
	few.c_alone = 20;
	s = make(&few);
	coroutines = 0;
	for (int round = 0; round < 4; round++) {
		for (size_t i = 0; i < 20; i++)
			assert_int_equal(start_alone(s, USTACK_OWN, i % 2 ? run_coroutine
						     : end_at_once, i % 2 ? &in[i]
						     : NULL, &threads[i]), 0);
		for (size_t i = 0; i < 20; i++) {
			assert_int_equal(ustack_join(threads[i], &value,
							   USCHED_NEVER), 0);
			assert_ptr_equal(value, i % 2 ? (void *)&in[i] : NULL);
			if (i % 2)
				assert_int_equal(uco_close(in[i]), 0);
		}
	}
	assert_int_equal(coroutines, 40);
	assert_int_equal(over->o_destroy(s), 0);
}

/* With values, and inside of coroutines, whose frames are elsewhere. */
TEST(test_ends)
{
	begin();
	each_conf(ends);
}

/* A destroy aborts those that wait, and all is unmapped. */
TEST(test_aborted)
{
	struct uprocs_conf conf = { .c_processors = 2, .c_log = log_line };
	size_t mappings = 0;

	begin();
	for (int round = 0; round < 3; round++) {
		void *s;

		assert_int_equal(over->o_create(&conf, &s), 0);
		for (size_t i = 0; i < 50; i++)
			assert_int_equal(start_alone(s, USTACK_OWN, wait_once, NULL,
						     NULL), 0);
		assert_int_equal(over->o_destroy(s), -EDEADLK);
		if (round == 0)
			mappings = test_mappings();
	}
	if (!test_is_sanitized())
		assert_in_range(test_mappings(), 0, mappings + 10);
}

/* ---- Many ---- */

struct storm {
	void         *s_sched;
	atomic_size_t s_left;
};

/* How many are left, with the one that is taken; 0: none. */
static size_t pick_one(struct storm *m)
{
	size_t left = m->s_left;

	while (left > 0 && !atomic_compare_exchange_weak(&m->s_left, &left, left - 1))
		;
	return left;
}

/* Starts others of both kinds, joins them, and moves if it may. */
static void breed(void *arg)
{
	struct storm *m = arg;
	static const struct ustack_how hows[] = { { .h_stack = SIZE },
						  { .h_stack = USTACK_OWN } };
	struct ustack *threads[3] = { 0 };
	volatile size_t mine = (size_t)&threads;
	int rc;

	for (size_t i = 0; i < 3; i++) {
		size_t left = pick_one(m);

		if (left == 0)
			break;
		if (left % 3 == 0)
			rc = ustack_start(breed, m, &threads[i]);
		else
			rc = ustack_start_with(&hows[left % 2], breed, m, &threads[i]);
		TEST_TRUE(rc == 0 || rc == -EAGAIN);
		if (rc)
			threads[i] = NULL;
		TEST_EQUAL(ustack_yield(), 0);
	}
	for (size_t i = 0; i < 3; i++)
		if (threads[i])
			TEST_EQUAL(ustack_join(threads[i], NULL, USCHED_NEVER), 0);
	TEST_EQUAL(mine, (size_t)&threads);
}

TEST(test_storm)
{
	struct storm m;

	begin();
	for (unsigned i = 0; i < 6; i++) {
		struct uprocs_conf conf = {
			.c_processors = 1 + i % 3, .c_stacks = i % 2 ? 2 : 200,
			.c_stay = i % 3 != 1, .c_alone = i % 2 ? 30 : 0,
		};
		struct ustack *thread;

		m.s_sched = make(&conf);
		m.s_left = test_scale(3000, 300);
		assert_int_equal(start_alone(m.s_sched, USTACK_OWN, breed, &m, &thread),
				 0);
		assert_int_equal(ustack_join(thread, NULL, USCHED_NEVER), 0);
		assert_int_equal(over->o_destroy(m.s_sched), 0);
	}
}

/* ---- Bottoms ---- */

enum { CROWD = 600, FIRST = 256, PAGE = 4096, SHALLOW = 2000 };

static const char *bottoms[CROWD];

static void note_bottom(void *i)
{
	bottoms[(uintptr_t)i] = ustack_self()->u_stack->k_bottom;
	TEST_EQUAL(ustack_wait(), 0);
}

static unsigned places(const char *const *at, size_t n)
{
	bool seen[PAGE] = { false };
	unsigned different = 0;

	for (size_t i = 0; i < n; i++) {
		different += !seen[(uintptr_t)at[i] % PAGE];
		seen[(uintptr_t)at[i] % PAGE] = true;
	}
	return different;
}

/* Those of the first stacks differ, for the caches; later ones are high in a page. */
TEST(test_bottoms)
{
	struct uprocs_conf conf = { .c_processors = 1, .c_alone = CROWD };
	static struct ustack *threads[CROWD];
	void *s;

	begin();
	s = make(&conf);
	for (size_t i = 0; i < CROWD; i++)
		TEST_EQUAL(start_alone(s, SIZE, note_bottom, (void *)i, &threads[i]), 0);
	for (size_t i = 0; i < CROWD; i++) {
		TEST_EQUAL(ustack_wake(threads[i]), 0);
		TEST_EQUAL(ustack_join(threads[i], NULL, USCHED_NEVER), 0);
	}
	TEST_EQUAL(over->o_destroy(s), 0);
	TEST_TRUE(places(bottoms, FIRST) >= 12);
	TEST_TRUE(places(bottoms + FIRST, CROWD - FIRST) >= 4);
	for (size_t i = FIRST; i < CROWD; i++)
		TEST_EQUAL((uintptr_t)bottoms[i] / PAGE,
			   (uintptr_t)(bottoms[i] - SHALLOW) / PAGE);
}

/* ---- Coroutines ---- */

/* In the frame, or below its end, where RISC-V has that address. No local: that may be in
   a fake frame of a sanitizer. */
#define here() ((uintptr_t)__builtin_frame_address(0) - 1)

/* Its frames are not on the thread's own stack, whose range it gets. */
static void *be_elsewhere(void *range, void *value)
{
	uintptr_t low = ((uintptr_t *)range)[0], size = ((uintptr_t *)range)[1];

	TEST_TRUE(here() - low >= size);
	TEST_EQUAL(uco_yield(value, NULL), 0);
	TEST_TRUE(here() - low >= size);
	return NULL;
}

static void resume_elsewhere(void *unused)
{
	const struct usched_stack *k = ustack_self()->u_stack;
	uintptr_t *range = malloc(2 * sizeof *range);
	struct uco *co;

	(void)unused;
	range[0] = (uintptr_t)k->k_bottom - k->k_size;
	range[1] = k->k_size;
	TEST_TRUE(here() - range[0] < range[1]);
	TEST_EQUAL(uco_create(be_elsewhere, range, &co), 0);
	TEST_EQUAL(uco_resume(co, NULL, NULL), 0);
	TEST_TRUE(here() - range[0] < range[1]);
	TEST_EQUAL(uco_resume(co, NULL, NULL), 1);
	TEST_EQUAL(uco_close(co), 0);
	free(range);
}

/* They are on stacks of the processor, as those of other threads. */
TEST(test_coroutines)
{
	struct uprocs_conf conf = { .c_processors = 1 };
	struct ustack *t;
	void *s;

	begin();
	s = make(&conf);
	assert_int_equal(start_alone(s, LARGE, resume_elsewhere, NULL, &t), 0);
	assert_int_equal(ustack_join(t, NULL, USCHED_NEVER), 0);
	assert_int_equal(over->o_destroy(s), 0);
}

int main(void)
{
	return over_all(OVER_PROCS);
}
