/* SPDX-License-Identifier: MIT */
#include "procs.h"

#include <sched.h>
#include <time.h>

enum { LINES = 64, LINE_SIZE = 1024 };

/* One native thread at a time calls c_log. */
static char lines[LINES][LINE_SIZE];
atomic_uint line_count;

void log_line(const char *line)
{
	unsigned i = line_count;

	if (i < LINES)
		snprintf(lines[i], LINE_SIZE, "%s", line);
	line_count = i + 1;
}

unsigned lines_with(const char *text)
{
	unsigned n = 0;

	for (unsigned i = 0; i < LINES && i < line_count; i++)
		n += strstr(lines[i], text) != NULL;
	return n;
}

void *make(const struct uprocs_conf *conf)
{
	struct uprocs_conf c = conf ? *conf : (struct uprocs_conf){ 0 };
	void *s;

	if (!c.c_log)
		c.c_log = log_line;
	line_count = 0;
	TEST_EQUAL(over->o_create(&c, &s), 0);
	return s;
}

void *make_in_order(const struct uprocs_conf *conf)
{
	if (test_is_stressed())
		skip();
	memset(script, 0, sizeof script);
	return make(conf);
}

char script[32];

void say(char c)
{
	script[strlen(script)] = c;
}

void wait_and_say(void *letter)
{
	wait_once(NULL);
	say(*(const char *)letter);
}

void say_twice(void *letter)
{
	say(*(const char *)letter);
	TEST_EQUAL(ustack_yield(), 0);
	say((char)(*(const char *)letter + 'a' - 'A'));
}

static void each_conf_up_to(size_t most, void (*test)(const struct uprocs_conf *conf))
{
	static const unsigned processors[] = { 1, 2, 4 };
	static const unsigned stacks[] = { USCHED_NATIVE, 1, 0 };
	static const size_t images[] = { 1, 0, 4096 };
	size_t kinds = test_has_stacks() ? 3 : 1;

	for (size_t p = 0; p < most; p++)
		for (size_t k = 0; k < kinds; k++)
			for (size_t i = 0; i < 3; i++) {
				struct uprocs_conf conf = {
					.c_processors = processors[p],
					.c_stacks     = stacks[k],
					.c_image      = images[i],
				};

				if (!test_is_sanitized() || (p + k + i) % 3 == 0)
					test(&conf);
			}
}

void each_conf(void (*test)(const struct uprocs_conf *conf))
{
	each_conf_up_to(3, test);
}

void each_conf_of_one(void (*test)(const struct uprocs_conf *conf))
{
	each_conf_up_to(1, test);
}

void sleep_ms(long ms)
{
	struct timespec t = { ms / 1000, ms % 1000 * 1000000 };

	nanosleep(&t, NULL);
}

void await_count(atomic_size_t *count, size_t value)
{
	while (*count < value)
		sched_yield();
}

void await_joiner(struct ustack *u)
{
	struct uproc_thread *t = uproc_thread(u);

	while (__atomic_load_n(&uproc_rest(t)->re_joiner, __ATOMIC_SEQ_CST) == UPROC_OPEN)
		sched_yield();
}

void await_end(struct ustack *u)
{
	int rc;

	while ((rc = ustack_wake(u)) == 0)
		sched_yield();
	TEST_EQUAL(rc, -ESRCH);
}

__attribute__((noinline)) void below(size_t size, void (*func)(void *), void *arg)
{
	volatile unsigned char room[size];
	unsigned char mark = (unsigned char)((uintptr_t)arg >> 4);

	for (size_t i = 0; i < size; i++)
		room[i] = (unsigned char)(mark + i);
	func(arg);
	for (size_t i = 0; i < size; i++)
		TEST_EQUAL(room[i], (unsigned char)(mark + i));
}

void spin(size_t n)
{
	for (volatile size_t i = 0; i < n; i++)
		;
}

void wake_times(struct ustack *u, size_t n)
{
	while (n-- > 0)
		TEST_EQUAL(ustack_wake(u), 0);
}

void finish(struct ustack *u)
{
	TEST_EQUAL(ustack_wake(u), 0);
	TEST_EQUAL(ustack_join(u, NULL, USCHED_NEVER), 0);
}

void nothing(void *unused)
{
	(void)unused;
}

void count_up(void *count)
{
	++*(atomic_size_t *)count;
}

void wait_once(void *unused)
{
	(void)unused;
	TEST_EQUAL(ustack_wait(), 0);
}

void start_waiter(void *s, struct ustack **thread)
{
	TEST_EQUAL(over->o_start(s, wait_once, NULL, thread), 0);
}

void take_one(void *taker)
{
	struct taker *t = taker;

	TEST_EQUAL(ustack_wait(), 0);
	t->t_got++;
}

void take(void *taker)
{
	struct taker *t = taker;

	while (t->t_got < t->t_need)
		below(t->t_depth + 1, take_one, t);
}

void start_taker(void *s, struct taker *t)
{
	TEST_EQUAL(over->o_start(s, take, t, &t->t_thread), 0);
}

void join_it(void *joins)
{
	struct joins *j = joins;

	j->j_rc = ustack_join(j->j_thread, NULL, USCHED_NEVER);
	j->j_done++;
}

void *join_native(void *joins)
{
	join_it(joins);
	return NULL;
}

void run_to_end(void *s, void (*func)(void *), void *arg)
{
	struct ustack *u;

	TEST_EQUAL(over->o_start(s, func, arg, &u), 0);
	TEST_EQUAL(ustack_join(u, NULL, USCHED_NEVER), 0);
}
