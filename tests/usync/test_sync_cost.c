/* SPDX-License-Identifier: MIT */
/*
 * test_sync_cost.c: what a wait costs a blocked thread, beside ustack_wait(): the bytes
 * of its waiter, of the library's frames, and of its image.
 */
#include <stdlib.h>

#include "../../rr.h"
#include "../../uproc.h"
#include "../../usync.h"
#include "../../uwait.h"
#include "../help/test.h"

enum {
	WAITER = 128,                   /* bytes */
	FRAMES = 144,                   /* bytes of frames from the call to the block */
	STEP   = 64,                    /* bytes: images grow by so many */
	IMAGE  = 64,                    /* bytes of the first image: each has another */
	NEAR   = USCHED_NEAR * (IMAGE - (int)sizeof(struct usched_image)), /* of both */
	SLACK  = sizeof(void *) < 8 ? 8 : 0,    /* of images, as in usched.c */
};

/* Where the threads of a case wait, each by itself. */
static struct uprocs         *rr;
static int64_t            later;
static struct usync_sem   sem;
static struct usync_mutex mutex, outer;
static struct usync_rwlock rwlock;
static struct usync_cond  cond;
static struct usync_group group;
static struct usync_chan *empty, *full;
static struct ustack     *joined;
static int                ended;
static unsigned           allocs;       /* calls of s_alloc */

static void plain(void *unused)
{
	(void)unused;
	ustack_wait();
	ended++;
}

static void wait_sem(void *unused)
{
	(void)unused;
	usync_sem_wait(&sem, USCHED_NEVER);
	ended++;
}

static void wait_sem_until(void *unused)
{
	(void)unused;
	usync_sem_wait(&sem, later);
	ended++;
}

static void lock_mutex(void *unused)
{
	(void)unused;
	usync_mutex_lock(&mutex, later);
	ended++;
}

static void lock_to_read(void *unused)
{
	(void)unused;
	usync_rwlock_read(&rwlock, USCHED_NEVER);
	ended++;
}

static void lock_to_write(void *unused)
{
	(void)unused;
	usync_rwlock_write(&rwlock, USCHED_NEVER);
	ended++;
}

static void wait_cond(void *unused)
{
	(void)unused;
	usync_mutex_lock(&outer, USCHED_NEVER);
	usync_cond_wait(&cond, &outer, USCHED_NEVER);
	ended++;
}

static void wait_group(void *unused)
{
	(void)unused;
	usync_group_wait(&group, later);
	ended++;
}

static void receive(void *unused)
{
	(void)unused;
	usync_chan_recv(empty, NULL, USCHED_NEVER);
	ended++;
}

static void send(void *unused)
{
	(void)unused;
	usync_chan_send(full, NULL, later);
	ended++;
}

static void sleep_long(void *unused)
{
	(void)unused;
	usync_sleep_until(later);
	ended++;
}

static void join(void *unused)
{
	(void)unused;
	ustack_join(joined, NULL, USCHED_NEVER);
	ended++;
}

static void join_until(void *unused)
{
	(void)unused;
	ustack_join(joined, NULL, later);
	ended++;
}

static void run_until(uint64_t launches)
{
	struct usched_stats stats;

	do {
		assert_true(uprocs_run(rr) >= 0);
		uprocs_stats(rr, &stats);
	} while (stats.st_launches < launches);
}

static void *alloc_counted(struct usched *s, struct ustack *u, size_t *size)
{
	(void)u;
	allocs++;
	return uimage_alloc(&((struct uproc *)(void *)s)->p_images, size);
}

/* Two threads wait on the only stack, so the first is evicted. */
static struct usched_stats measure(void (*wait)(void *unused))
{
	struct uprocs_conf conf = { .c_processors = 1, .c_stacks = 1, .c_embed = 1,
				    .c_image = IMAGE };
	struct usched_stats stats;
	struct ustack *waiter;

	ended = 0;
	allocs = 0;
	later = usync_after(3600 * USYNC_SECOND);
	sem = (struct usync_sem){ 0 };
	mutex = outer = (struct usync_mutex){ 0 };
	rwlock = (struct usync_rwlock){ 0 };
	cond = (struct usync_cond){ 0 };
	group = (struct usync_group){ 0 };
	assert_int_equal(usync_chan_create(0, 0, &empty), 0);
	assert_int_equal(usync_chan_create(0, 0, &full), 0);
	assert_int_equal(usync_mutex_lock(&mutex, USCHED_NEVER), 0);
	assert_int_equal(usync_rwlock_write(&rwlock, USCHED_NEVER), 0);
	assert_int_equal(usync_group_add(&group, 1), 0);
	assert_int_equal(rr_create(&conf, &rr), 0);
	uprocs_sched(rr)->s_calls.s_alloc = alloc_counted;
	assert_int_equal(rr_start(rr, wait, NULL, &waiter), 0);
	assert_int_equal(rr_start(rr, plain, NULL, &joined), 0);
	run_until(2);
	uprocs_stats(rr, &stats);
	assert_int_equal(ended, 0);
	assert_true(stats.st_evictions >= 1);
	assert_int_equal(ustack_cancel(waiter), 0);
	if (wait == plain)
		assert_int_equal(ustack_wake(waiter), 0);
	assert_int_equal(ustack_join(waiter, NULL, USCHED_NEVER), 0);
	assert_int_equal(ustack_wake(joined), 0);
	assert_int_equal(ustack_join(joined, NULL, USCHED_NEVER), 0);
	assert_int_equal(uprocs_destroy(rr, USCHED_NEVER), 0);
	usync_chan_destroy(empty);
	usync_chan_destroy(full);
	return stats;
}

static __attribute__((noinline)) const void *here(void)
{
	return __builtin_frame_address(0);
}

static __attribute__((noinline)) const void *there(void)
{
	return here();
}

/* Whether the compiler saves frames: a call that comes last is a jump from -O2 on. */
static bool is_usual(void)
{
	return here() == there() && test_has_stacks() && !test_is_sanitized()
		&& !test_is_stressed() && !test_is_counted();
}

TEST(test_waiter)
{
	/* Granters read these, so they are in no word that the waiter's side writes. */
	_Static_assert(offsetof(struct uwaiter, w_outside)
		       != offsetof(struct uwaiter, w_tag), "no bits");

	if (sizeof(void *) == 8)
		assert_true(sizeof(struct uwaiter) <= WAITER);
}

TEST(test_frames)
{
	static void (*const waits[])(void *unused) = {
		wait_sem, wait_sem_until, lock_mutex, lock_to_read, lock_to_write,
		wait_cond, wait_group, receive, send, sleep_long,
	};
	uint64_t least, join_least;

	if (!is_usual())
		skip();
	least = measure(plain).st_deepest;
	for (size_t i = 0; i < sizeof waits / sizeof waits[0]; i++)
		assert_in_range(measure(waits[i]).st_deepest, 0, least + FRAMES);
	join_least = measure(join).st_deepest;
	assert_in_range(measure(join_until).st_deepest, 0, join_least + FRAMES);
}

/* The image is the smallest that will do. */
TEST(test_images)
{
	static void (*const waits[])(void *unused) = {
		wait_sem, wait_sem_until, lock_mutex, lock_to_read, lock_to_write,
		wait_group, receive, send, sleep_long,
	};

	if (!is_usual())
		skip();
	for (size_t i = 0; i < sizeof waits / sizeof waits[0]; i++) {
		struct usched_stats plain_wait = measure(plain);
		struct usched_stats stats = measure(waits[i]);
		uint64_t image = (stats.st_deepest + SLACK - NEAR + STEP - 1)
			/ STEP * STEP;
		uint64_t both = plain_wait.st_image_bytes / 2 + image;

		if (stats.st_deepest == plain_wait.st_deepest)
			continue;               /* the wait may be less deep */
#ifdef __x86_64__
		assert_int_equal(stats.st_image_bytes, both);
#else
		assert_in_range(stats.st_image_bytes, both - STEP, both);
#endif
	}
}

/* A thread that waits gets one image: what usched__reserve() has reserved is enough. The
   other allocations are the waiter, and the image of the thread that is joined. */
TEST(test_reserve)
{
	if (!is_usual())
		skip();
	measure(wait_cond);
	assert_int_equal(allocs, 3);
	measure(join);
	assert_int_equal(allocs, 2);
	measure(join_until);
	assert_int_equal(allocs, 3);
}

/*
 * What a condition reserves is enough to wait for the mutex again: the thread gets no
 * other image there.
 */
TEST(test_retake)
{
	struct uprocs_conf conf = { .c_processors = 1, .c_stacks = 1, .c_embed = 1,
				    .c_image = IMAGE };
	struct usched_stats first, second;
	struct ustack *waiter;

	if (!test_has_stacks() || test_is_stressed())
		skip();
	cond = (struct usync_cond){ 0 };
	outer = (struct usync_mutex){ 0 };
	ended = 0;
	assert_int_equal(rr_create(&conf, &rr), 0);
	assert_int_equal(rr_start(rr, wait_cond, NULL, &waiter), 0);
	run_until(1);
	uprocs_stats(rr, &first);
	assert_int_equal(usync_mutex_lock(&outer, 0), 0);
	usync_cond_signal(&cond);
	assert_true(uprocs_run(rr) >= 0);
	assert_true(outer.m_queue.q_first);
	uprocs_stats(rr, &second);
	assert_int_equal(first.st_image_bytes, second.st_image_bytes);
	assert_int_equal(usync_mutex_unlock(&outer), 0);
	assert_int_equal(ustack_join(waiter, NULL, USCHED_NEVER), 0);
	assert_int_equal(ended, 1);
	assert_int_equal(uprocs_destroy(rr, USCHED_NEVER), 0);
}

/* ---- A queue of one's own ---- */

static struct uwait_lock  own_lock;
static struct uwait_queue own_queue;

static void wait_own(void *unused)
{
	struct uwaiter *w;

	(void)unused;
	w = uwait_prepare(usync_after(1000), false);
	TEST_EQUAL(uwait_error(w), 0);
	uwait_lock(&own_lock);
	TEST_EQUAL(uwait_queue_up(w, &own_lock, &own_queue), -ETIMEDOUT);
	TEST_TRUE(!own_queue.q_first);
	w = uwait_prepare(USCHED_NEVER, false);
	TEST_EQUAL(uwait_error(w), 0);
	TEST_EQUAL(uwait_error(uwait_prepare(0, false)), -ETIMEDOUT);
	uwait_lock(&own_lock);
	TEST_EQUAL(uwait_queue_up(w, &own_lock, &own_queue), 7);
}

TEST(test_own)
{
	struct uwaiter *w = NULL;
	struct ustack *waiter;

	assert_int_equal(rr_create(NULL, &rr), 0);
	uprocs_hold(rr, 1);
	assert_int_equal(rr_start(rr, wait_own, NULL, &waiter), 0);
	while (!w || w->w_deadline != USCHED_NEVER) {
		uwait_lock(&own_lock);
		w = own_queue.q_first ? uwait_of(own_queue.q_first) : NULL;
		if (w && w->w_deadline == USCHED_NEVER)
			assert_ptr_equal(uwait_pop(&own_queue), w);
		else
			w = NULL;
		uwait_unlock(&own_lock);
		test_give_way();
	}
	uwait_finish(w, 7);
	uprocs_hold(rr, 0);
	assert_int_equal(ustack_join(waiter, NULL, USCHED_NEVER), 0);
	assert_int_equal(uprocs_destroy(rr, USCHED_NEVER), 0);
}

int main(void)
{
	return test_run_all();
}
