/* SPDX-License-Identifier: MIT */
/*
 * test_signal.c: a flood of signals at processors whose threads are evicted and loaded all
 * the time, sleep, and send bytes to each other. A handler runs wherever SP is, goes
 * kilobytes deep, uses floating point, and interrupts system calls.
 */
#define _GNU_SOURCE
#include "test.h"

#include <errno.h>
#include <fenv.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include "../ll.h"
#include "../unet.h"
#include "../uoffload.h"
#include "../rr.h"
#include "../usync.h"

enum {
	PROCESSORS = 2,
	CYCLES     = 4,
	MEMBERS    = 10,                /* threads of a cycle */
	DEEPEST    = 12000,             /* bytes of frame while one blocks */
	LEVELS     = 4,                 /* of calls in a handler, */
	ROOM       = 2048,              /* each with so many bytes of frame */
	ALTERNATE  = 512 << 10,         /* bytes of an alternate stack: handlers nest there */
	TERMS      = 20,
	KINDS      = 6,
	SENT       = 4,                 /* the first: by timers of one native thread, and sent */
	TALKERS    = 2,                 /* pairs */
	TALK       = 4000,              /* bytes at a time */
	SLEEPERS   = 4,
	FILE_SIZE  = 50000,             /* bytes */
	OTHERS     = 2 * TALKERS + SLEEPERS + 2,
};

/* On the stack where it meets us or on another; and with system calls that fail or not. */
static const struct kind {
	int k_signo;
	int k_flags;
} kinds[KINDS] = {
	{ SIGUSR1, SA_RESTART }, { SIGUSR2, SA_RESTART | SA_ONSTACK },
	{ SIGHUP, 0 }, { SIGWINCH, SA_ONSTACK },
	{ SIGPROF, SA_RESTART }, { SIGVTALRM, SA_ONSTACK },
};

static atomic_size_t handled[KINDS];
static atomic_size_t ready;
static atomic_bool   stop, calm;
static pthread_t     natives[PROCESSORS + 1];   /* the last is no processor */
static char          alternate[PROCESSORS][ALTERNATE];
static double        expected;                  /* what each handler works out */

/* ---- Handlers ---- */

/* Depends on the rounding direction. */
static __attribute__((noinline)) double series(double x)
{
	volatile double sum = 0.1;
	volatile long double more = 0.3L;

	for (int i = 1; i < TERMS; i++) {
		sum = sum * x + 1.0 / i;
		more = more / x + 1.0L / (i + sum);
	}
	return sum + (double)more;
}

static double series_upward(void)
{
	fesetround(FE_UPWARD);
	return series(1.7);
}

/* Quickly, or there is no time left for the threads. */
static __attribute__((noinline)) void scribble(int signo, int level)
{
	volatile unsigned char room[ROOM];

	for (size_t i = 0; i < ROOM; i += 61)
		room[i] = (unsigned char)(signo + level);
	if (level > 0)
		scribble(signo, level - 1);
	for (size_t i = 0; i < ROOM; i += 61)
		TEST_EQUAL(room[i], (unsigned char)(signo + level));
}

/* What it does it undoes. */
static void handler(int signo)
{
	int saved = errno, rounding = fegetround();
	double sum = series_upward();

	TEST_TRUE(memcmp(&sum, &expected, sizeof sum) == 0);
	errno = ENOTRECOVERABLE;
	scribble(signo, LEVELS - 1);
	TEST_EQUAL(errno, ENOTRECOVERABLE);
	for (size_t i = 0; i < KINDS; i++)
		handled[i] += kinds[i].k_signo == signo;
	fesetround(rounding);
	errno = saved;
}

static void set_handlers(void)
{
	int rounding = fegetround();

	expected = series_upward();
	fesetround(rounding);
	for (size_t i = 0; i < KINDS; i++) {
		struct sigaction action = { .sa_handler = handler };

		handled[i] = 0;
		sigemptyset(&action.sa_mask);
		action.sa_flags = kinds[i].k_flags;
		assert_int_equal(sigaction(kinds[i].k_signo, &action, NULL), 0);
	}
}

/* ---- Where signals come from ---- */

/* Rarely where machines are slow: handlers must leave them some time. */
static long often(long us)
{
	return us * 100 / (long)test_scale(100, 1);
}

/* The timers of the calling native thread, so that they meet it anywhere. */
static void set_timers(timer_t *timer)
{
	for (size_t k = 0; k < SENT; k++) {
		long ns = 1000 * often(90 + 17 * (long)k);
		struct itimerspec each = { { 0, ns }, { 0, ns } };
		struct sigevent event = {
			.sigev_notify = SIGEV_THREAD_ID, .sigev_signo = kinds[k].k_signo,
			._sigev_un._tid = gettid(),
		};

		TEST_EQUAL(timer_create(CLOCK_MONOTONIC, &event, &timer[k]), 0);
		TEST_EQUAL(timer_settime(timer[k], 0, &each, NULL), 0);
	}
}

/* On each processor, until there are no signals but from its timers. */
static void be_signalled(void *arg)
{
	size_t i = (size_t)(uintptr_t)arg;
	stack_t stack = { .ss_sp = alternate[i], .ss_size = ALTERNATE }, before;
	timer_t timer[SENT];

	TEST_EQUAL(sigaltstack(&stack, &before), 0);
	set_timers(timer);
	natives[i] = pthread_self();
	ready++;
	while (!calm)
		TEST_EQUAL(usync_sleep_until(usync_after(USYNC_SECOND / 1000)), 0);
	for (size_t k = 0; k < SENT; k++)
		timer_delete(timer[k]);
	TEST_EQUAL(sigaltstack(&before, NULL), 0);
}

static void pause_us(long us)
{
	nanosleep(&(struct timespec){ 0, us * 1000 }, NULL);
}

/* Its own signals are blocked, and so are those of the native threads that it makes. */
static void *send_signals(void *unused)
{
	sigset_t all;

	(void)unused;
	sigfillset(&all);
	pthread_sigmask(SIG_BLOCK, &all, NULL);
	while (!stop) {
		for (size_t i = 0; i <= PROCESSORS; i++)
			for (size_t k = 0; k < SENT; k++)
				pthread_kill(natives[i], kinds[k].k_signo);
		pause_us(often(200));
	}
	return NULL;
}

static void set_intervals(long us)
{
	struct itimerval each = { { 0, us }, { 0, us } };

	assert_int_equal(setitimer(ITIMER_PROF, &each, NULL), 0);
	assert_int_equal(setitimer(ITIMER_VIRTUAL, &each, NULL), 0);
}

/* ---- Threads that wait for each other ---- */

struct member {
	struct ustack  *m_thread;
	struct member  *m_right;
	int           (*m_wait)(void);
	int           (*m_wake)(struct ustack *thread);
	uint32_t        m_seed;
	atomic_size_t   m_rounds;
};

static __attribute__((noinline)) void wait_deep(struct member *m, size_t size)
{
	volatile unsigned char room[size];
	int rounding = fegetround();
	double sum;

	for (size_t i = 0; i < size; i++)
		room[i] = (unsigned char)(m->m_seed + i);
	errno = (int)(m->m_seed % 1000);
	sum = series(m->m_seed);
	TEST_EQUAL(errno, m->m_seed % 1000);
	TEST_EQUAL(m->m_wait(), 0);
	TEST_EQUAL(fegetround(), rounding);
	TEST_TRUE(sum == series(m->m_seed));
	for (size_t i = 0; i < size; i++)
		TEST_EQUAL(room[i], (unsigned char)(m->m_seed + i));
}

/* Relays what comes round until the end, which comes round, too. */
static void relay(void *arg)
{
	static const int directions[] = { FE_TONEAREST, FE_DOWNWARD, FE_TOWARDZERO };
	struct member *m = arg;

	fesetround(directions[m->m_seed % 3]);
	while (!stop) {
		uint32_t r = test_random(&m->m_seed);

		wait_deep(m, 1 + (r & 3 ? r % 500 : r % DEEPEST));
		m->m_rounds++;
		m->m_wake(m->m_right->m_thread);
	}
	m->m_wake(m->m_right->m_thread);
}

/* ---- Threads that wait for descriptors and for time, and native threads for files ---- */

struct other {
	struct ustack *o_thread;
	int            o_fd;
	uint32_t       o_seed;
	atomic_size_t  o_rounds;
};

static int64_t long_enough(void)
{
	return usync_after(1000 * USYNC_SECOND);
}

static void fill(unsigned char *buffer, size_t size, uint32_t from)
{
	for (size_t i = 0; i < size; i++)
		buffer[i] = (unsigned char)((from + i) % 251);
}

static void talk(void *arg)
{
	struct other *o = arg;
	unsigned char out[TALK], in[TALK];

	while (!stop) {
		size_t size = 1 + test_random(&o->o_seed) % TALK;

		fill(out, size, o->o_seed);
		TEST_EQUAL(unet_write_all(o->o_fd, out, size, NULL, long_enough()), 0);
		TEST_EQUAL(unet_read_all(o->o_fd, in, size, NULL, long_enough()), 0);
		TEST_EQUAL(memcmp(in, out, size), 0);
		o->o_rounds++;
	}
	TEST_EQUAL(unet_close(o->o_fd), 0);
}

static void echo(void *arg)
{
	struct other *o = arg;
	char buffer[TALK / 3];
	ssize_t n;

	while ((n = unet_read(o->o_fd, buffer, sizeof buffer, long_enough())) > 0) {
		TEST_EQUAL(unet_write_all(o->o_fd, buffer, (size_t)n, NULL, long_enough()), 0);
		o->o_rounds++;
	}
	TEST_EQUAL(n, 0);
	TEST_EQUAL(unet_close(o->o_fd), 0);
}

static void *talk_natively(void *arg)
{
	talk(arg);
	return NULL;
}

static void sleep_often(void *arg)
{
	struct other *o = arg;

	while (!stop) {
		int64_t until = usync_after(50000 + test_random(&o->o_seed) % 1000000);

		TEST_EQUAL(usync_sleep_until(until), 0);
		TEST_TRUE(usync_after(0) >= until);
		o->o_rounds++;
	}
}

static void read_file(void *arg)
{
	struct other *o = arg;
	unsigned char in[TALK] = "", should[TALK];

	while (!stop) {
		uint32_t from = test_random(&o->o_seed) % (FILE_SIZE - TALK);
		ssize_t n = ufile_pread(o->o_fd, in, TALK, from, long_enough());

		TEST_TRUE(n > 0);
		fill(should, (size_t)n, from);
		TEST_EQUAL(memcmp(in, should, (size_t)n), 0);
		TEST_EQUAL(ufile_sync(o->o_fd, long_enough()), 0);
		o->o_rounds++;
	}
	close(o->o_fd);
}

static int make_file(void)
{
	static unsigned char content[FILE_SIZE];
	const char *tmp = getenv("TMPDIR");
	char name[64];
	int fd;

	snprintf(name, sizeof name, "%.40s/usched.XXXXXX", tmp ? tmp : "/tmp");
	fd = mkstemp(name);
	assert_true(fd >= 0);
	unlink(name);
	fill(content, FILE_SIZE, 0);
	assert_int_equal(write(fd, content, FILE_SIZE), FILE_SIZE);
	return fd;
}

/* ---- The flood ---- */

struct scheduler {
	struct rr *s_rr;
	struct ll *s_ll;                        /* one of the two */
	struct member s_members[CYCLES][MEMBERS];
	struct ustack *s_signalled[PROCESSORS];
	struct other  s_others[OTHERS + 1];     /* the last is a native thread */
	pthread_t     s_native;
};

static void start(struct scheduler *s, struct ll_group *group, void (*func)(void *),
		  void *arg, struct ustack **thread)
{
	assert_int_equal(s->s_ll ? ll_start(s->s_ll, group, func, arg, thread)
			 : rr_start(s->s_rr, func, arg, thread), 0);
}

static void join(struct scheduler *s, struct ustack *thread)
{
	assert_int_equal(s->s_ll ? ustack_join(thread, USCHED_NEVER) : ustack_join(thread, USCHED_NEVER), 0);
}

static void create(struct scheduler *s, bool local, unsigned stacks)
{
	struct usched_conf conf = {
		.c_processors = PROCESSORS, .c_stacks = stacks, .c_image = 1,
	};

	*s = (struct scheduler){ 0 };
	assert_int_equal(local ? ll_create(&conf, &s->s_ll) : rr_create(&conf, &s->s_rr), 0);
	stop = calm = false;
	ready = 0;
	for (size_t i = 0; i < PROCESSORS; i++) {
		start(s, local ? ll_group(s->s_ll) : NULL, be_signalled, (void *)(uintptr_t)i,
		      &s->s_signalled[i]);
		while (ready <= i)
			pause_us(100);
	}
	assert_false(pthread_equal(natives[0], natives[1]));
}

static void start_cycle(struct scheduler *s, struct member *members, uint32_t seed)
{
	struct ll_group *group = s->s_ll ? ll_group(s->s_ll) : NULL;

	for (size_t i = 0; i < MEMBERS; i++) {
		members[i].m_right = &members[(i + 1) % MEMBERS];
		members[i].m_wait = s->s_ll ? ustack_wait : ustack_wait;
		members[i].m_wake = s->s_ll ? ustack_wake : ustack_wake;
		members[i].m_seed = seed + (uint32_t)i;
		start(s, group, relay, &members[i], &members[i].m_thread);
	}
}

static void make_pair(struct other *one, struct other *two)
{
	int ends[2];

	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
	one->o_fd = ends[0];
	two->o_fd = ends[1];
}

static void start_other(struct scheduler *s, void (*func)(void *), struct other *o)
{
	start(s, NULL, func, o, &o->o_thread);
}

static void start_others(struct scheduler *s)
{
	struct other *o = s->s_others;

	for (uint32_t i = 0; i <= OTHERS; i++)
		o[i].o_seed = i + 1;
	for (size_t i = 0; i < TALKERS; i++) {
		make_pair(o, o + 1);
		start_other(s, echo, o++);
		start_other(s, talk, o++);
	}
	for (size_t i = 0; i < SLEEPERS; i++)
		start_other(s, sleep_often, o++);
	o->o_fd = make_file();
	start_other(s, read_file, o++);
	make_pair(o, o + 1);
	start_other(s, echo, o++);
	assert_int_equal(pthread_create(&s->s_native, NULL, talk_natively, o), 0);
	natives[PROCESSORS] = s->s_native;
}

static bool all_ran(const struct scheduler *s)
{
	bool ran = true;

	for (size_t c = 0; c < CYCLES; c++)
		for (size_t i = 0; i < MEMBERS; i++)
			ran = ran && s->s_members[c][i].m_rounds > 0;
	for (size_t i = 0; i <= OTHERS; i++)
		ran = ran && s->s_others[i].o_rounds > 0;
	return ran;
}

/* Enough of each kind; those of the last two need a native thread that computes. */
static bool all_came(size_t enough)
{
	for (size_t k = 0; k < KINDS; k++)
		if (handled[k] < (k < SENT ? enough : 1))
			return false;
	return true;
}

static void join_all(struct scheduler *s)
{
	for (size_t c = 0; c < CYCLES; c++)
		for (size_t i = 0; i < MEMBERS; i++)
			join(s, s->s_members[c][i].m_thread);
	for (size_t i = 0; i < OTHERS; i++)
		join(s, s->s_others[i].o_thread);
	for (size_t i = 0; i < PROCESSORS; i++)
		join(s, s->s_signalled[i]);
	pthread_join(s->s_native, NULL);
}

static void flood(bool local, unsigned stacks)
{
	static struct scheduler s;
	size_t enough = test_scale(3000, 100), count = 0;
	struct usched_stats stats;
	pthread_t sender;

	set_handlers();
	create(&s, local, stacks);
	for (uint32_t c = 0; c < CYCLES; c++)
		start_cycle(&s, s.s_members[c], c * MEMBERS + 1);
	start_others(&s);
	set_intervals(often(1000));
	assert_int_equal(pthread_create(&sender, NULL, send_signals, NULL), 0);
	for (size_t c = 0; c < CYCLES; c++)
		for (size_t i = 0; i < 3; i++)
			s.s_members[c][i].m_wake(s.s_members[c][i].m_thread);
	while (!all_came(enough) || !all_ran(&s))
		pause_us(1000);
	stop = true;
	pthread_join(sender, NULL);             /* before the native threads end */
	set_intervals(0);
	calm = true;
	join_all(&s);
	if (local)
		ll_stats(s.s_ll, &stats);
	else
		rr_stats(s.s_rr, &stats);
	assert_int_equal(local ? ll_destroy(s.s_ll) : rr_destroy(s.s_rr), 0);
	uoffload_drain();
	for (size_t k = 0; k < KINDS; k++)
		count += handled[k];
	print_message("%s, %s: %zu signals, %zu evictions\n", local ? "ll" : "rr",
		      stacks == 1 ? "one stack" : "native stack", count,
		      (size_t)stats.s_evictions);
	assert_int_equal(stats.s_evictions, stats.s_loads);
	assert_true(stats.s_evictions > 0);
}

/*
 * Memcheck has one idea of which stack is current for all native threads; after it
 * has gone from one to another it misses that a handler's large frame begins.
 */
static void skip_on_valgrind(void)
{
	if (test_on_valgrind()) {
		print_message("memcheck takes large frames of handlers for wrong\n");
		skip();
	}
}

static void test_rr(void **state)
{
	(void)state;
	skip_on_valgrind();
	test_timeout(120);
	if (test_has_stacks())
		flood(false, 1);
	flood(false, USCHED_NATIVE);
}

static void test_ll(void **state)
{
	(void)state;
	skip_on_valgrind();
	test_timeout(120);
	if (test_has_stacks())
		flood(true, 1);
	flood(true, USCHED_NATIVE);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_rr),
		cmocka_unit_test(test_ll),
	};

	return cmocka_run_group_tests_name("signal", tests, NULL, NULL);
}
