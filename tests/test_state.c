/* SPDX-License-Identifier: MIT */
/*
 * test_state.c: what the system and the compiler keep once for each native thread, and
 * a thread must find as it left it all the same: the value of errno, in whatever way it
 * blocks; and of floating point, what C can set. Registers and control words one by one
 * are in test_switch.c, exceptions in cpp.sh.
 */
#define _GNU_SOURCE             /* feenableexcept() */
#include <errno.h>
#include <fenv.h>
#include <math.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "../ll.h"
#include "../unet.h"
#include "../uoffload.h"
#include "../rr.h"
#include "mini.h"

enum {
	THREADS  = 5,
	ROUNDS   = 20,
	STACK    = 64 << 10,
	OWN      = 1000,        /* the errno of thread i is OWN + i, which no call sets */
	NOISE    = 2000,        /* a call-back's, or another's */
	INITIAL  = 3000,        /* the caller's of usched_run() */
};

/* ---- The dispatcher, with call-backs that leave something else in errno ---- */

static struct mini plain;
static struct ustack thread[THREADS];
static unsigned ended;

/* On the native stack, on one, on two that are too few, and on enough. */
static const unsigned lent[] = { 0, 1, 2, THREADS };

static struct ustack *noisy_next(struct usched *s)
{
	struct ustack *u = mini_next(s);

	errno = NOISE;
	return u;
}

static void *noisy_alloc(struct usched *s, struct ustack *u, size_t *size)
{
	void *image = mini_alloc(s, u, size);

	errno = NOISE + 1;
	return image;
}

static void noisy_done(struct usched *s, struct ustack *u)
{
	mini_done(s, u);
	errno = NOISE + 2;
}

static int by_block(void)
{
	return ustack_block();
}

static int by_hand_off(void)
{
	mini_push(&plain, ustack_self());
	return ustack_switch(plain.p_ring[plain.p_head++ % MINI_RING]);
}

static int by_resuming_itself(void)
{
	int rc;

	plain.p_self = true;
	rc = ustack_block();
	plain.p_self = false;
	return rc;
}

static int (*const ways[])(void) = { by_block, by_hand_off, by_resuming_itself };

/* What its frames take differs, so that images are exchanged. */
static int block_below(size_t size, int (*way)(void))
{
	volatile char frame[size];
	int rc;

	frame[0] = 1;
	rc = way();
	TEST_EQUAL(frame[0], 1);
	return rc;
}

static void keep_errno(void *arg)
{
	int own = OWN + (int)(uintptr_t)arg;

	TEST_EQUAL(errno, 0);
	for (unsigned n = 0; n < ROUNDS; n++)
		for (size_t way = 0; way < sizeof ways / sizeof *ways; way++) {
			errno = own;
			TEST_EQUAL(block_below(1 + 300 * (n % 4), ways[way]), 0);
			TEST_EQUAL(errno, own);
		}
	ended++;
}

/* Runs THREADS threads of func(index) on each number of stacks. */
static void run_all(void (*func)(void *))
{
	test_timeout(60);
	for (size_t i = 0; i < sizeof lent / sizeof *lent; i++) {
		ended = 0;
		mini_init(&plain, lent[i], STACK);
		plain.p_sched.s_next = noisy_next;
		plain.p_sched.s_alloc = noisy_alloc;
		plain.p_sched.s_done = noisy_done;
		for (uintptr_t k = 0; k < THREADS; k++)
			mini_start(&plain, &thread[k], func, (void *)k);
		errno = INITIAL;
		TEST_EQUAL(usched_run(&plain.p_sched), 0);
		TEST_EQUAL(errno, INITIAL);
		TEST_EQUAL(ended, THREADS);
		mini_fini(&plain);
	}
}

static void errno_is_each_threads_own(void **state)
{
	(void)state;
	run_all(keep_errno);
}

/* Those that did not block when they ended or were aborted leave nothing to others. */
static void end_noisily(void *arg)
{
	TEST_EQUAL(errno, 0);
	errno = OWN;
	ended++;
	if ((uintptr_t)arg % 2)
		ustack_abort(ustack_self());
}

static void errno_of_the_ended_is_nobodys(void **state)
{
	(void)state;
	run_all(end_noisily);
}

/* ustack_reserve() and a block that fails come back by themselves. */
static void fail_to_block(void *arg)
{
	(void)arg;
	plain.p_no_memory = true;
	errno = OWN;
	TEST_EQUAL(block_below(4000, by_block), -ENOMEM);
	TEST_EQUAL(errno, OWN);
	TEST_EQUAL(ustack_reserve(8000), -ENOMEM);
	TEST_EQUAL(errno, OWN);
	plain.p_no_memory = false;
	TEST_EQUAL(ustack_reserve(8000), 0);
	TEST_EQUAL(errno, OWN);
	ended++;
}

static void errno_is_kept_by_what_fails(void **state)
{
	(void)state;
	run_all(fail_to_block);
}

/* A thread that runs a dispatcher of its own is a caller of usched_run(), too. */
static void run_inner(void *arg)
{
	struct mini *inner = malloc(sizeof *inner);
	struct ustack *u = malloc(sizeof *u);

	TEST_TRUE(inner && u);
	mini_init(inner, 1, STACK);
	mini_start(inner, u, end_noisily, NULL);
	errno = OWN + (int)(uintptr_t)arg;
	TEST_EQUAL(usched_run(&inner->p_sched), 0);
	TEST_EQUAL(errno, OWN + (int)(uintptr_t)arg);
	TEST_EQUAL(ustack_block(), 0);
	TEST_EQUAL(errno, OWN + (int)(uintptr_t)arg);
	mini_fini(inner);
	free(inner);
	free(u);
}

static void errno_is_kept_by_an_inner_dispatcher(void **state)
{
	(void)state;
	test_timeout(60);
	mini_init(&plain, 1, STACK);
	for (uintptr_t k = 0; k < THREADS; k++)
		mini_start(&plain, &thread[k], run_inner, (void *)k);
	errno = INITIAL;
	assert_int_equal(usched_run(&plain.p_sched), 0);
	assert_int_equal(errno, INITIAL);
	mini_fini(&plain);
}

/* ---- Over rr and ll, in every way to wait ---- */

static int start_rr(void *s, void (*func)(void *), void *arg, struct ustack **u)
{
	return rr_start(s, func, arg, u);
}

static int start_ll(void *s, void (*func)(void *), void *arg, struct ustack **u)
{
	return ll_start(s, ll_group(s), func, arg, u);
}

static const struct scheduler {
	int (*start)(void *s, void (*func)(void *), void *arg, struct ustack **u);
} over_rr = { start_rr }, over_ll = { start_ll };

static const struct scheduler *over;
static void *scheduler;                         /* struct rr or ll */

/* They stand in a ring: each gives something to the next and then waits for its own. */
static struct member {
	struct member     *next;
	struct ustack     *thread;
	int                fd[2];       /* to read, to write */
	struct usync_chan *chan;        /* of char */
	struct usync_sem   sem;
	struct usync_group group;
} ring[THREADS];

static struct usync_sem    gate;
static struct usync_mutex  mutex;
static struct usync_rwlock rwlock;
static struct usync_cond   cond;

static void yield(struct member *m)
{
	(void)m;
	TEST_EQUAL(ustack_yield(), 0);
}

static void wait(struct member *m)
{
	TEST_EQUAL(ustack_wake(m->next->thread), 0);
	TEST_EQUAL(ustack_wait(), 0);
}

static void sync_yield(struct member *m)
{
	(void)m;
	TEST_EQUAL(ustack_yield(), 0);
}

static void sleep_a_little(struct member *m)
{
	(void)m;
	TEST_EQUAL(usync_sleep_until(usync_after(1000)), 0);
}

static void lock_mutex(struct member *m)
{
	(void)m;
	TEST_EQUAL(usync_mutex_lock(&mutex, USCHED_NEVER), 0);
	yield(m);
	TEST_EQUAL(usync_mutex_unlock(&mutex), 0);
}

static void lock_rwlock(struct member *m)
{
	if (m == ring)
		TEST_EQUAL(usync_rwlock_write(&rwlock, USCHED_NEVER), 0);
	else
		TEST_EQUAL(usync_rwlock_read(&rwlock, USCHED_NEVER), 0);
	yield(m);
	TEST_EQUAL(usync_rwlock_unlock(&rwlock), 0);
}

static void wait_for_condition(struct member *m)
{
	int rc;

	(void)m;
	TEST_EQUAL(usync_mutex_lock(&mutex, USCHED_NEVER), 0);
	usync_cond_signal(&cond);
	rc = usync_cond_wait(&cond, &mutex, usync_after(USYNC_SECOND / 1000));
	TEST_TRUE(rc == 0 || rc == -ETIMEDOUT);
	TEST_EQUAL(usync_mutex_unlock(&mutex), 0);
}

static void wait_for_semaphore(struct member *m)
{
	TEST_EQUAL(usync_sem_post(&m->next->sem), 0);
	TEST_EQUAL(usync_sem_wait(&m->sem, USCHED_NEVER), 0);
}

static void receive(struct member *m)
{
	char value = 1;

	TEST_EQUAL(usync_chan_send(m->next->chan, &value, USCHED_NEVER), 0);
	TEST_EQUAL(usync_chan_recv(m->chan, &value, USCHED_NEVER), 0);
}

static void select_one(struct member *m)
{
	char value = 1;
	struct usync_case one = { .s_chan = m->chan, .s_value = &value };

	TEST_EQUAL(usync_chan_send(m->next->chan, &value, USCHED_NEVER), 0);
	TEST_EQUAL(usync_select(&one, 1, USCHED_NEVER), 0);
}

static void child(void *arg)
{
	TEST_EQUAL(errno, 0);
	errno = NOISE;
	yield(arg);
	TEST_EQUAL(errno, NOISE);
	if (arg)
		TEST_EQUAL(usync_group_done(&((struct member *)arg)->group), 0);
}

static void wait_for_group(struct member *m)
{
	TEST_EQUAL(usync_group_add(&m->group, 1), 0);
	TEST_EQUAL(over->start(scheduler, child, m, NULL), 0);
	TEST_EQUAL(usync_group_wait(&m->group, USCHED_NEVER), 0);
}

static void join(struct member *m)
{
	struct ustack *u;

	(void)m;
	TEST_EQUAL(over->start(scheduler, child, NULL, &u), 0);
	TEST_EQUAL(ustack_join(u, USCHED_NEVER), 0);
}

static void sync_join(struct member *m)
{
	struct ustack *u;

	(void)m;
	TEST_EQUAL(over->start(scheduler, child, NULL, &u), 0);
	TEST_EQUAL(ustack_join(u, USCHED_NEVER), 0);
}

static void leave_noise(void *arg)
{
	(void)arg;
	errno = NOISE;
}

static void offload(struct member *m)
{
	(void)m;
	TEST_EQUAL(uoffload(leave_noise, NULL, NULL, 0, USCHED_NEVER), 0);
}

static void read_byte(struct member *m)
{
	char byte = 1;

	TEST_EQUAL(unet_write(m->next->fd[1], &byte, 1, USCHED_NEVER), 1);
	TEST_EQUAL(unet_read(m->fd[0], &byte, 1, USCHED_NEVER), 1);
}

static void await_byte(struct member *m)
{
	char byte = 1;

	TEST_EQUAL(unet_write(m->next->fd[1], &byte, 1, USCHED_NEVER), 1);
	TEST_EQUAL(unet_wait_readable(m->fd[0], USCHED_NEVER), 0);
	TEST_EQUAL(unet_read(m->fd[0], &byte, 1, USCHED_NEVER), 1);
}

static void poll_for_byte(struct member *m)
{
	struct pollfd fd = { .fd = m->fd[0], .events = POLLIN };
	char byte = 1;

	TEST_EQUAL(unet_write(m->next->fd[1], &byte, 1, USCHED_NEVER), 1);
	TEST_EQUAL(unet_poll(&fd, 1, USCHED_NEVER), 1);
	TEST_EQUAL(unet_read(m->fd[0], &byte, 1, USCHED_NEVER), 1);
}

static const struct {
	void (*wait)(struct member *m);
	bool   sets_errno;              /* it may: the thread's own system calls fail */
} waits[] = {
	{ yield, false }, { wait, false }, { sync_yield, false }, { sleep_a_little, false },
	{ lock_mutex, false }, { lock_rwlock, false }, { wait_for_condition, false },
	{ wait_for_semaphore, false }, { receive, false }, { select_one, false },
	{ wait_for_group, false }, { join, false }, { sync_join, false },
	{ offload, false }, { read_byte, true }, { await_byte, true },
	{ poll_for_byte, true },
};

static void wait_in_all_ways(void *arg)
{
	struct member *m = arg;
	int own = OWN + (int)(m - ring);

	TEST_EQUAL(errno, 0);
	TEST_EQUAL(usync_sem_wait(&gate, USCHED_NEVER), 0);
	for (size_t i = 0; i < sizeof waits / sizeof *waits; i++)
		for (unsigned n = 0; n < ROUNDS; n++) {
			errno = own;
			waits[i].wait(m);
			TEST_TRUE(errno == own || (waits[i].sets_errno && errno == EAGAIN));
		}
}

static void make_ring(void)
{
	for (size_t i = 0; i < THREADS; i++) {
		struct member *m = &ring[i];

		*m = (struct member){ .next = &ring[(i + 1) % THREADS] };
		TEST_EQUAL(usync_chan_create(1, 1, &m->chan), 0);
		TEST_EQUAL(socketpair(AF_UNIX, SOCK_STREAM, 0, m->fd), 0);
		TEST_EQUAL(unet_adopt(m->fd[0]), 0);
		TEST_EQUAL(unet_adopt(m->fd[1]), 0);
	}
}

static void end_ring(void)
{
	uoffload_drain();
	for (size_t i = 0; i < THREADS; i++) {
		usync_chan_destroy(ring[i].chan);
		TEST_EQUAL(unet_close(ring[i].fd[0]), 0);
		TEST_EQUAL(unet_close(ring[i].fd[1]), 0);
	}
}

static void run_ring(const struct scheduler *with, void *s)
{
	over = with;
	scheduler = s;
	make_ring();
	for (size_t i = 0; i < THREADS; i++)
		TEST_EQUAL(over->start(s, wait_in_all_ways, &ring[i], &ring[i].thread), 0);
	for (size_t i = 0; i < THREADS; i++)
		TEST_EQUAL(usync_sem_post(&gate), 0);
	for (size_t i = 0; i < THREADS; i++)
		TEST_EQUAL(ustack_join(ring[i].thread, USCHED_NEVER), 0);
	end_ring();
}

/* With few stacks frames move; with the default none does. */
static void each_conf(void (*test)(const struct usched_conf *conf))
{
	static const struct usched_conf confs[] = {
		{ .c_processors = 1, .c_stacks = USCHED_NATIVE },
		{ .c_processors = 1, .c_stacks = 1 },
		{ .c_processors = 2, .c_stacks = 1 },
		{ .c_processors = 2 },
	};

	test_timeout(60);
	for (size_t i = 0; i < sizeof confs / sizeof *confs; i++)
		test(&confs[i]);
}

static void rr_ring(const struct usched_conf *conf)
{
	struct rr *rr;

	TEST_EQUAL(rr_create(conf, &rr), 0);
	run_ring(&over_rr, rr);
	TEST_EQUAL(rr_destroy(rr), 0);
}

static void ll_ring(const struct usched_conf *conf)
{
	struct ll *ll;

	TEST_EQUAL(ll_create(conf, &ll), 0);
	run_ring(&over_ll, ll);
	TEST_EQUAL(ll_destroy(ll), 0);
}

static void errno_is_kept_by_all_waits_of_rr(void **state)
{
	(void)state;
	each_conf(rr_ring);
}

static void errno_is_kept_by_all_waits_of_ll(void **state)
{
	(void)state;
	each_conf(ll_ring);
}

/* ---- Floating point ---- */

static const int rounding[] = { FE_TONEAREST, FE_UPWARD, FE_DOWNWARD, FE_TOWARDZERO };

/* What comes out of a division, in each format: on x86-64 two units make them. */
static void divide(double *d, long double *l)
{
	volatile double      one = 1, three = 3;
	volatile long double one_l = 1, three_l = 3;

	*d = one / three;
	*l = one_l / three_l;
}

static void round_own_way(void *arg)
{
	double d, again;
	long double l, again_l;

	TEST_EQUAL(fesetround(rounding[(uintptr_t)arg % 4]), 0);
	divide(&d, &l);
	for (unsigned n = 0; n < ROUNDS; n++) {
		TEST_EQUAL(by_block(), 0);
		divide(&again, &again_l);
		TEST_TRUE(again == d && again_l == l);
		TEST_EQUAL(by_hand_off(), 0);
		divide(&again, &again_l);
		TEST_TRUE(again == d && again_l == l);
	}
	ended++;
}

static void divisions_round_in_each_threads_way(void **state)
{
	(void)state;
	run_all(round_own_way);
	assert_int_equal(fegetround(), FE_TONEAREST);
}

/*
 * One that has ended is followed by one that rounds as the one did that ran before the
 * launch: what was noted then must not be taken for what is set now.
 */
static void end_with_own_rounding(void *arg)
{
	uintptr_t number = (uintptr_t)arg;
	double d, again;
	long double l, again_l;

	TEST_EQUAL(fesetround(number % 2 ? FE_UPWARD : FE_DOWNWARD), 0);
	divide(&d, &l);
	for (uintptr_t n = 0; n <= number; n++) {
		TEST_EQUAL(by_block(), 0);
		divide(&again, &again_l);
		TEST_TRUE(again == d && again_l == l);
	}
	ended++;
}

static void the_ended_leave_no_rounding(void **state)
{
	(void)state;
	run_all(end_with_own_rounding);
}

/*
 * What the environment has besides, as far as C or one instruction can set it: which
 * exceptions trap; and on AArch64, where few machines trap, what becomes of denormals and
 * of NaNs.
 */
#if defined(__x86_64__) && defined(__GLIBC__)
#define HAS_ENVIRONMENT 1

static const uintmax_t environments[] = { FE_DIVBYZERO, FE_INVALID, FE_OVERFLOW,
					  FE_UNDERFLOW, 0 };
static const uintmax_t trap_division = FE_DIVBYZERO;

static uintmax_t environment(void)
{
	return (uintmax_t)fegetexcept();
}

static void set_environment(uintmax_t traps)
{
	TEST_EQUAL(feclearexcept(FE_ALL_EXCEPT), 0);    /* sticky flags are anybody's */
	TEST_TRUE(fedisableexcept(FE_ALL_EXCEPT) >= 0);
	TEST_TRUE(feenableexcept((int)traps) >= 0);
}

#elif defined(__aarch64__)
#define HAS_ENVIRONMENT 1

static const uintmax_t environments[] = { 1 << 24, 1 << 25, 3 << 24, 1 << 26, 0 };
static const uintmax_t trap_division = 1 << 9;

static uintmax_t environment(void)
{
	uint64_t fpcr;

	__asm__ volatile("mrs %0, fpcr" : "=r"(fpcr));
	return fpcr;
}

static void set_environment(uintmax_t fpcr)
{
	__asm__ volatile("msr fpcr, %0" : : "r"(fpcr));
}

#else
#define HAS_ENVIRONMENT 0

static const uintmax_t environments[] = { 0, 0, 0, 0, 0 }, trap_division = 0;

static uintmax_t environment(void)
{
	return 0;
}

static void set_environment(uintmax_t unused)
{
	(void)unused;
}

#endif

static void keep_environment(void *arg)
{
	uintmax_t own = environments[(uintptr_t)arg % 5];

	for (unsigned n = 0; n < ROUNDS; n++) {
		set_environment(own);
		TEST_EQUAL(by_block(), 0);
		TEST_EQUAL(environment(), own);
		set_environment(0);
		TEST_EQUAL(by_hand_off(), 0);
		TEST_EQUAL(environment(), 0);
	}
	ended++;
}

static void environments_are_each_threads_own(void **state)
{
	(void)state;
	if (!HAS_ENVIRONMENT || !test_has_stacks())
		skip();                 /* portable C keeps the rounding only */
	if (test_on_valgrind())
		skip();                 /* it has none but the rounding */
	run_all(keep_environment);
	assert_int_equal(environment(), 0);
}

/* Half of them divide by zero and go on; the others would be trapped, but do not do it. */
static void divide_by_zero(void *arg)
{
	bool traps = (uintptr_t)arg % 2;
	volatile double      d = 1, by = traps;
	volatile long double l = 1, by_l = traps;

	if (traps)
		set_environment(trap_division);
	for (unsigned n = 0; n < ROUNDS; n++)
		for (size_t way = 0; way < sizeof ways / sizeof *ways; way++) {
			d = d / by;
			l = l / by_l;
			TEST_EQUAL(ways[way](), 0);
		}
	TEST_TRUE(isinf(d) == !traps && isinf(l) == !traps);
	ended++;
}

static void traps_are_for_a_threads_own_exceptions(void **state)
{
	(void)state;
	if (!HAS_ENVIRONMENT || !test_has_stacks() || test_on_valgrind())
		skip();                 /* as above */
	run_all(divide_by_zero);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(errno_is_each_threads_own),
		cmocka_unit_test(errno_of_the_ended_is_nobodys),
		cmocka_unit_test(errno_is_kept_by_what_fails),
		cmocka_unit_test(errno_is_kept_by_an_inner_dispatcher),
		cmocka_unit_test(errno_is_kept_by_all_waits_of_rr),
		cmocka_unit_test(errno_is_kept_by_all_waits_of_ll),
		cmocka_unit_test(divisions_round_in_each_threads_way),
		cmocka_unit_test(the_ended_leave_no_rounding),
		cmocka_unit_test(environments_are_each_threads_own),
		cmocka_unit_test(traps_are_for_a_threads_own_exceptions),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
