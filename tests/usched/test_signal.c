/* SPDX-License-Identifier: MIT */
/*
 * test_signal.c: a flood of signals at processors whose threads are evicted and loaded
 * all the time, sleep, and send bytes to each other. A handler runs wherever SP is, goes
 * kilobytes deep, uses floating point, and interrupts system calls.
 */
#include <errno.h>
#include <fenv.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "../../ll.h"
#include "../../unet.h"
#include "../../uoffload.h"
#include "../../usync.h"
#include "../help/flood.h"
#include "../help/over.h"

enum {
	CYCLES     = 4,
	MEMBERS    = 10,                /* threads of a cycle */
	DEEPEST    = 12000,             /* bytes of frame while one blocks */
	TALKERS    = 2,                 /* pairs */
	TALK       = 4000,              /* bytes at a time */
	SLEEPERS   = 4,
	FILE_SIZE  = 50000,             /* bytes */
	OTHERS     = 2 * TALKERS + SLEEPERS + 2,
};

/* ---- Threads that wait for each other ---- */

struct member {
	struct ustack *m_thread;
	struct member *m_right;
	uint32_t       m_seed;
	atomic_size_t  m_rounds;
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
	TEST_EQUAL(ustack_wait(), 0);
	TEST_EQUAL(fegetround(), rounding);
	TEST_TRUE(sum == series(m->m_seed));
	for (size_t i = 0; i < size; i++)
		TEST_EQUAL(room[i], (unsigned char)(m->m_seed + i));
}

/* Relays each token, also the one that brings the end. */
static void relay(void *arg)
{
	static const int directions[] = { FE_TONEAREST, FE_DOWNWARD, FE_TOWARDZERO };
	struct member *m = arg;

	if (m->m_seed % 3) {                    /* others share, and go the short way */
		TEST_EQUAL(ustack_control(1), 0);
		fesetround(directions[m->m_seed % 3]);
	}
	while (!stop) {
		uint32_t r = test_random(&m->m_seed);

		wait_deep(m, 1 + (r & 3 ? r % 500 : r % DEEPEST));
		m->m_rounds++;
		ustack_wake(m->m_right->m_thread);
	}
	ustack_wake(m->m_right->m_thread);
}

/*
 * ---- Threads that wait for descriptors and for time, and native threads for files ----
 */

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
		TEST_EQUAL(unet_write_all(o->o_fd, buffer, (size_t)n, NULL,
					  long_enough()), 0);
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
		ssize_t n = ufile_pread(o->o_fd, in, TALK, (off_t)from, long_enough());

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
	void         *s_sched;
	struct member  s_members[CYCLES][MEMBERS];
	struct ustack *s_signalled[PROCESSORS];
	struct other  s_others[OTHERS + 1];     /* the last is a native thread */
	pthread_t     s_native;
};

static void join(struct ustack *thread)
{
	assert_int_equal(ustack_join(thread, NULL, USCHED_NEVER), 0);
}

static void create(struct scheduler *s, unsigned stacks)
{
	struct uprocs_conf conf = {
		.c_processors = PROCESSORS, .c_stacks = stacks, .c_image = 1,
	};

	*s = (struct scheduler){ 0 };
	assert_int_equal(over->o_create(&conf, &s->s_sched), 0);
	stop = calm = false;
	ready = 0;
	for (size_t i = 0; i < PROCESSORS; i++) {
		TEST_EQUAL(over->o_start(s->s_sched, be_signalled, (void *)(uintptr_t)i,
					 &s->s_signalled[i]), 0);
		while (ready <= i)
			pause_us(100);
	}
	assert_false(pthread_equal(natives[0], natives[1]));
}

static int start_member(struct scheduler *s, struct ll_group *group, struct member *m)
{
	if (over == &over_ll)
		return ll_start(group, relay, m, &m->m_thread);
	return over->o_start(s->s_sched, relay, m, &m->m_thread);
}

/* With ll, a cycle is in one group. */
static void start_cycle(struct scheduler *s, struct member *members, uint32_t seed)
{
	struct ll_group *group = over == &over_ll ? ll_group(s->s_sched, 0) : NULL;

	for (size_t i = 0; i < MEMBERS; i++) {
		members[i].m_right = &members[(i + 1) % MEMBERS];
		members[i].m_seed = seed + (uint32_t)i;
		assert_int_equal(start_member(s, group, &members[i]), 0);
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
	assert_int_equal(over->o_start(s->s_sched, func, o, &o->o_thread), 0);
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

static void join_all(struct scheduler *s)
{
	for (size_t c = 0; c < CYCLES; c++)
		for (size_t i = 0; i < MEMBERS; i++)
			join(s->s_members[c][i].m_thread);
	for (size_t i = 0; i < OTHERS; i++)
		join(s->s_others[i].o_thread);
	for (size_t i = 0; i < PROCESSORS; i++)
		join(s->s_signalled[i]);
	pthread_join(s->s_native, NULL);
}

static void flood(unsigned stacks)
{
	static struct scheduler s;
	size_t enough = test_scale(3000, 100);
	struct usched_stats stats;
	pthread_t sender;

	set_handlers();
	create(&s, stacks);
	for (uint32_t c = 0; c < CYCLES; c++)
		start_cycle(&s, s.s_members[c], c * MEMBERS + 1);
	start_others(&s);
	set_intervals(often(1000));
	assert_int_equal(pthread_create(&sender, NULL, send_signals, NULL), 0);
	for (size_t c = 0; c < CYCLES; c++)
		for (size_t i = 0; i < 3; i++)
			ustack_wake(s.s_members[c][i].m_thread);
	while (!all_came(enough) || !all_ran(&s))
		pause_us(1000);
	stop = true;
	pthread_join(sender, NULL);             /* before the native threads end */
	set_intervals(0);
	calm = true;
	join_all(&s);
	over->o_stats(s.s_sched, &stats);
	assert_int_equal(over->o_destroy(s.s_sched), 0);
	uoffload_drain(USCHED_NEVER);
	print_message("%s, %s: %zu signals, %zu evictions\n", over->o_name,
		      stacks == 1 ? "one stack" : "native stack", signals_handled(),
		      (size_t)stats.st_evictions);
	assert_int_equal(stats.st_evictions, stats.st_loads);
	assert_true(stats.st_evictions > 0);
}

/*
 * Memcheck knows one current stack for all native threads. After a switch between these
 * it misses the beginning of a large frame of a handler.
 */
TEST(test_flood)
{
	if (test_on_valgrind()) {
		print_message("memcheck takes large frames of handlers for wrong\n");
		skip();
	}
	if (test_emulator_fails("handlers"))
		skip();
	if (test_has_stacks())
		flood(1);
	flood(USCHED_NATIVE);
}

int main(void)
{
	return over_all(OVER_PROCS);
}
