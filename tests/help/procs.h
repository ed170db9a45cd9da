/* SPDX-License-Identifier: MIT */
/*
 * procs.h: helpers for tests of schedulers over uproc.h: schedulers from a
 * configuration, their reports, threads that take tokens or join.
 *
 * A test can ask for an exact count: it waits for one token more than was sent. The join
 * of the waiter then returns -EDEADLK. That proves that no token was lost or invented,
 * and that all threads are asleep. The structures of uproc.h tell only when a thread is
 * in a join.
 */
#ifndef USCHED_TEST_PROCS_H
#define USCHED_TEST_PROCS_H

#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../uproc.h"
#include "over.h"

/* Lines that were reported to a scheduler of make(), since the last call of make(). */
extern atomic_uint line_count;

/* How many of the first 64 lines contain `text'. */
unsigned lines_with(const char *text);

/* c_log of make(). */
void log_line(const char *line);

/* A scheduler of the kind `over'; it logs to log_line() unless `conf' has a c_log. */
void *make(const struct uprocs_conf *conf);

/* Likewise. Skips the test under stress, which changes the order of threads. */
void *make_in_order(const struct uprocs_conf *conf);

/*
 * Letters in the order in which threads ran, all on one processor, since
 * make_in_order(). Two threads' functions: one waits and says its letter; one says it,
 * yields, and says it in lower case.
 */
extern char script[32];
void say(char c);
void wait_and_say(void *letter);
void say_twice(void *letter);

/*
 * Runs `test' with few and many processors, stacks, and bytes in the record: 27 ways.
 * With a sanitizer, where a start takes a millisecond, 9 of them.
 */
void each_conf(void (*test)(const struct uprocs_conf *conf));

/* Likewise with one processor only. */
void each_conf_of_one(void (*test)(const struct uprocs_conf *conf));

void sleep_ms(long ms);

/* Until *count is `value' at least. */
void await_count(atomic_size_t *count, size_t value);

/* Until a thread or native thread is in the join of `u'. */
void await_joiner(struct ustack *u);

/* Until a wake of `u' returns -ESRCH. Its record must not be in use again. */
void await_end(struct ustack *u);

/* Calls func(arg) below a frame of `size' bytes, and checks that the frame stays. */
void below(size_t size, void (*func)(void *), void *arg);

void spin(size_t n);

void wake_times(struct ustack *u, size_t n);

/* Wakes `u' once, and joins it. */
void finish(struct ustack *u);

/* A thread's functions. */
void nothing(void *unused);
void count_up(void *count);             /* an atomic_size_t */
void wait_once(void *unused);

/* Starts wait_once(). */
void start_waiter(void *s, struct ustack **thread);

/* take() is a thread that takes t_need tokens, and ends. */
struct taker {
	struct ustack *t_thread;
	size_t         t_need;
	atomic_size_t  t_got;
	size_t         t_depth;         /* bytes of frame where it waits */
};

void take_one(void *taker);
void take(void *taker);

/* Starts take() for `t', whose t_thread it sets. */
void start_taker(void *s, struct taker *t);

/* join_it() joins j_thread and keeps the result; join_native() is for native threads. */
struct joins {
	void          *j_sched;
	struct ustack *j_thread;
	atomic_size_t  j_done;
	int            j_rc;
};

void join_it(void *joins);
void *join_native(void *joins);

/* Starts func(arg) and joins it. */
void run_to_end(void *s, void (*func)(void *), void *arg);

#endif /* USCHED_TEST_PROCS_H */
