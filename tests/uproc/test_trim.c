/* SPDX-License-Identifier: MIT */
/*
 * test_trim.c: memory that goes back to the system after a peak; handles that are used
 * after that; threads that get the records again.
 */
#include "../help/procs.h"

#include <pthread.h>
#include <sched.h>
#include <unistd.h>

#include "../../usync.h"

enum {
	LOCALS = 4096,                  /* bytes */
	MIB    = 1 << 20,
	UNUSED = 200000000,             /* ns: less than it is, see r_unused; */
	SHORT  = 1000000,               /* or for many periods */
	WAIT   = 60000,                 /* ms for a peak to go */
};

static struct uprocs *procs(void *s)
{
	return s;
}

static bool tells_memory(void)
{
	return !test_is_sanitized() && !test_on_valgrind();
}

/* ---- A peak ---- */

static struct usync_sem gate;
static atomic_size_t inside;

/* At the beginning of a test. */
static void *begin(const struct uprocs_conf *conf)
{
	test_timeout(60);
	inside = 0;
	return make(conf);
}

static void hold_locals(void *unused)
{
	volatile char locals[LOCALS];

	(void)unused;
	for (size_t i = 0; i < sizeof locals; i += 64)
		locals[i] = 1;
	inside++;
	TEST_EQUAL(usync_sem_wait(&gate, USCHED_NEVER), 0);
	TEST_EQUAL(locals[64], 1);
	inside--;
}

/* Threads that wait at a time; where there is a handle they are known. */
static void peak(void *s, size_t n, struct ustack **threads)
{
	for (size_t i = 0; i < n; i++)
		assert_int_equal(over->o_start(s, hold_locals, NULL,
					       threads ? &threads[i] : NULL), 0);
	await_count(&inside, n);
	for (size_t i = 0; i < n; i++)
		assert_int_equal(usync_sem_post(&gate), 0);
	for (size_t i = 0; threads && i < n; i++)
		assert_int_equal(ustack_join(threads[i], NULL, USCHED_NEVER), 0);
	while (inside > 0)
		sched_yield();
}

/* ---- Handles that are used too late ---- */

enum { STALE = 5000 };

static struct ustack *stale[STALE];

/* With a sanitizer a switch takes the longer the more threads there are. */
static size_t stales(void)
{
	return test_is_sanitized() ? STALE / 5 : STALE;
}

/* What may be called from the native thread of the thread's dispatcher only. */
static void use_stale_here(struct ustack *u)
{
	TEST_EQUAL(ustack_abort(u), -EINVAL);
	TEST_TRUE(!ustack_func(u));
}

/* alone: by a thread of the only processor. */
static void use_stale(void *alone)
{
	for (size_t i = 0; i < stales(); i++) {
		struct ustack *u = stale[i];
		char name[USTACK_NAME_MAX];

		if (u == ustack_self())         /* it has got this record */
			continue;
		TEST_EQUAL(ustack_wake(u), -ESRCH);
		TEST_EQUAL(ustack_cancel(u), -ESRCH);
		TEST_EQUAL(ustack_join(u, NULL, USCHED_NEVER), -EINVAL);
		TEST_EQUAL(ustack_join(u, NULL, 0), -EINVAL);
		TEST_EQUAL(ustack_join(u, NULL, usync_after(1)), -EINVAL);
		TEST_EQUAL(ustack_detach(u), -EINVAL);
		TEST_EQUAL(ustack_name(u, "late"), -ESRCH);
		TEST_EQUAL(ustack_get_name(u, name, sizeof name), -ENOENT);
		if (alone)
			use_stale_here(u);
	}
}

static size_t count_dropped(void)
{
	size_t n = 0;

	for (size_t i = 0; i < stales(); i++)
		n += !__atomic_load_n(&stale[i]->u_stack, __ATOMIC_RELAXED);
	return n;
}

/*
 * Processors that have tidied up sleep until a thread is started, even if this native
 * thread joins others later. So if it was held up, a thread is started for them.
 */
static void await_drop(void *s)
{
	for (int ms = 1; count_dropped() < stales() / 2; ms++) {
		sleep_ms(1);
		if (ms % 1000 == 0)
			run_to_end(s, nothing, NULL);
	}
}

static void use_late(const struct uprocs_conf *conf)
{
	void *s = make(conf);

	inside = 0;
	procs(s)->r_unused = UNUSED;
	over->o_hold(s);
	peak(s, stales(), stale);
	await_drop(s);
	use_stale(NULL);
	for (size_t i = 0; i < conf->c_processors; i++)
		run_to_end(s, use_stale, conf->c_processors == 1 ? s : NULL);
	over->o_release(s);
	assert_int_equal(over->o_destroy(s), 0);
}

TEST(test_stale)
{
	static const struct uprocs_conf confs[] = {
		{ .c_processors = 1 }, { .c_processors = 2 },
		{ .c_processors = 2, .c_stacks = USCHED_NATIVE, .c_image = 4096 },
	};

	for (size_t i = 0; i < 3; i++)
		use_late(&confs[i]);
}

/*
 * Wakes and cancels by such handles while their records are dropped, and used again, and
 * the stacks below threads, which may move with their stacks.
 */
struct storm {
	void         *s_sched;
	atomic_int    s_stop;
	atomic_size_t s_ended;
};

static void yield_and_count(void *count)
{
	for (int i = 0; i < 3; i++)
		if (ustack_yield())             /* it was cancelled */
			break;
	count_up(count);
}

static void *use_stale_at_random(void *arg)
{
	struct storm *storm = arg;
	uint32_t seed = 1;

	while (!storm->s_stop) {
		for (int i = 0; i < 100; i++) {
			struct ustack *u = __atomic_load_n(
				&stale[test_random(&seed) % (stales() / 10)],
				__ATOMIC_RELAXED);

			if (u && i % 4)
				ustack_wake(u);
			else if (u)
				TEST_TRUE(ustack_cancel(u) != -ENOTSUP);
		}
		sched_yield();
	}
	return NULL;
}

static void storm_over(const struct uprocs_conf *conf)
{
	size_t rounds = test_scale(30, 10), starts = 0;
	struct storm storm = { 0 };
	pthread_t native;

	memset(stale, 0, sizeof stale);
	storm.s_sched = make(conf);
	procs(storm.s_sched)->r_unused = SHORT;
	over->o_hold(storm.s_sched);
	assert_int_equal(pthread_create(&native, NULL, use_stale_at_random, &storm), 0);
	for (size_t k = 0; k < rounds; k++) {
		for (size_t i = k % 7; i < stales() / 10; i++, starts++) {
			struct ustack *u;

			assert_int_equal(over->o_start(storm.s_sched, yield_and_count,
						       &storm.s_ended, &u), 0);
			__atomic_store_n(&stale[i], u, __ATOMIC_RELAXED);
			if (i % 2)
				assert_int_equal(ustack_join(u, NULL, USCHED_NEVER), 0);
			else
				assert_int_equal(ustack_detach(u), 0);
		}
		await_count(&storm.s_ended, starts);
	}
	storm.s_stop = 1;
	pthread_join(native, NULL);
	over->o_release(storm.s_sched);
	assert_int_equal(over->o_destroy(storm.s_sched), 0);
	assert_int_equal(storm.s_ended, starts);
}

TEST(test_storm)
{
	storm_over(&(struct uprocs_conf){ .c_processors = 2 });
	storm_over(&(struct uprocs_conf){ .c_processors = 3 });
}

/* ---- Records that are used again ---- */

#define IS_KNOWN(u) (__atomic_load_n(&(u)->u_mail, __ATOMIC_RELAXED) & USTACK_KNOWN)

static atomic_size_t known, unknown;

static void count_known(void *unused)
{
	const struct ustack *u = usched__here()->s_current;

	(void)unused;
	if (IS_KNOWN(u))
		known++;
	else
		unknown++;
}

/*
 * A record of which there may be a handle stays marked, for its next thread gets mail by
 * that; others need no atomic instruction.
 */
TEST(test_known)
{
	struct uprocs_conf conf = { .c_processors = 1 };
	void *s;

	for (int told = 0; told < 2; told++) {
		known = unknown = 0;
		s = make(&conf);
		procs(s)->r_unused = SHORT;
		over->o_hold(s);
		for (size_t i = 0; i < stales(); i++)
			assert_int_equal(over->o_start(s, nothing, NULL,
						       told ? &stale[i] : NULL), 0);
		for (size_t i = 0; told && i < stales(); i++)
			assert_int_equal(ustack_join(stale[i], NULL, USCHED_NEVER), 0);
		run_to_end(s, nothing, NULL);
		sleep_ms(100);
		for (size_t i = 0; i < stales() / 2; i++)
			assert_int_equal(over->o_start(s, count_known, NULL, NULL), 0);
		over->o_release(s);
		assert_int_equal(over->o_destroy(s), 0);
		assert_int_equal(known + unknown, stales() / 2);
		if (told)                       /* but a batch that was never used */
			assert_in_range(unknown, 0, 64);
		else if (stales() == STALE && sizeof(void *) == 8)
			/* But those that share a chunk: with 32 bits that may be all. */
			assert_in_range(unknown, 1, STALE / 2);
	}
}

/* ---- Reports ---- */

/* The walk over records meets those without memory. */
TEST(test_report)
{
	struct uprocs_conf conf = { .c_processors = 2 };
	struct ustack *t;
	void *s;

	s = begin(&conf);
	procs(s)->r_unused = UNUSED;
	over->o_hold(s);
	start_waiter(s, &t);
	peak(s, stales(), stale);
	await_drop(s);
	over->o_release(s);
	assert_int_equal(ustack_join(t, NULL, USCHED_NEVER), -EDEADLK);
	assert_int_equal(lines_with("nothing can wake: 1"), 1);
	assert_int_equal(lines_with("waits for a wake"), 1);
	assert_int_equal(over->o_destroy(s), -EDEADLK);
}

/* ---- Memory ---- */

static atomic_int stop;

/* Hands over to others for all the time, with a pause if that is wanted. */
static void go_on(void *pause)
{
	while (!stop)
		if (pause)
			usync_sleep_until(usync_after(MIB));
		else
			TEST_EQUAL(ustack_yield(), 0);
}

static void trim_peak(void *s, size_t n)
{
	size_t before, after;

	peak(s, 100, NULL);
	before = test_resident();
	peak(s, n, NULL);
	if (!tells_memory() || n * LOCALS < 32 * MIB)
		return;
	for (int ms = 0; ms < WAIT; ms += 10) {
		after = test_resident();
		if (after < before + 16 * MIB)
			break;
		sleep_ms(10);
	}
	assert_in_range(after, 0, before + 16 * MIB);
}

static void give_back(size_t threads, bool pause)
{
	struct uprocs_conf conf = { .c_processors = threads > 0 ? 1 : 2 };
	void *s = make(&conf);

	stop = 0;
	inside = 0;
	procs(s)->r_unused = UNUSED;
	over->o_hold(s);
	for (size_t i = 0; i < threads; i++)
		assert_int_equal(over->o_start(s, go_on, pause ? s : NULL, NULL), 0);
	trim_peak(s, test_scale(20000, 500));
	stop = 1;
	over->o_release(s);
	assert_int_equal(over->o_destroy(s), 0);
}

/* Nothing runs; a few threads sleep, or are always ready. */
TEST(test_idle)
{
	give_back(0, false);
	give_back(3, true);
}

TEST_OVER(OVER_RR, test_busy)
{
	give_back(2, false);
}

/* In a loop of the program: in uprocs_run(). */
TEST(test_embed)
{
	struct uprocs_conf conf = { .c_processors = 1, .c_embed = 1 };
	size_t n = test_scale(20000, 500), before;
	void *s;

	s = begin(&conf);
	procs(s)->r_unused = UNUSED;
	over->o_hold(s);
	for (size_t i = 0; i < n; i++)
		assert_int_equal(over->o_start(s, hold_locals, NULL, NULL), 0);
	while (inside < n)
		assert_true(uprocs_run(procs(s)) >= 0);
	for (size_t i = 0; i < n; i++)
		assert_int_equal(usync_sem_post(&gate), 0);
	while (inside > 0)
		assert_true(uprocs_run(procs(s)) >= 0);
	before = test_resident();
	for (int ms = 0; ms < WAIT && tells_memory() && n * LOCALS > 64 * MIB
	     && test_resident() > before - n * LOCALS / 2; ms++) {
		assert_true(uprocs_run(procs(s)) >= 0);
		sleep_ms(1);
	}
	if (tells_memory() && n * LOCALS > 64 * MIB)
		assert_in_range(test_resident(), 0, before - n * LOCALS / 2);
	over->o_release(s);
	assert_int_equal(over->o_destroy(s), 0);
}

int main(void)
{
	return over_all(OVER_PROCS);
}
