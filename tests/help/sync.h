/* SPDX-License-Identifier: MIT */
/*
 * sync.h: what the tests of usync.h share: schedulers in several configurations, and
 * workers. A worker is a thread or a native thread.
 */
#ifndef USCHED_TEST_SYNC_H
#define USCHED_TEST_SYNC_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "../../uprocs.h"
#include "../../usync.h"
#include "over.h"

enum { MILLISECOND = 1000000 };         /* ns */

/* ---- Schedulers ---- */

/* A scheduler of `over' that prints nothing. */
void *make_scheduler(const struct uprocs_conf *conf);

/*
 * 1, 2 and 4 processors if it can have them, each with few and with many stacks. Sets the
 * seed of workers.
 */
void each_conf(void (*test)(const struct uprocs_conf *conf));

/* Likewise with a scheduler, which is then destroyed. */
void each_scheduler(void (*test)(void *s));

/* Likewise, with one processor. */
void each_single(void (*test)(void *s));

/* ---- Workers ---- */

struct worker {
	void           *w_sched;
	struct ustack  *w_thread;               /* NULL: a native thread */
	pthread_t       w_native;
	void          (*w_func)(struct worker *w);
	void           *w_shared;
	size_t          w_index;
	uint32_t        w_seed;
	int             w_rc;
	size_t          w_count;
	struct uwaiter *_Atomic w_waiter;
	atomic_bool     w_ended;
};

void start_worker(struct worker *w, void *s, bool native, size_t index,
		  void (*func)(struct worker *w), void *shared);
void end_worker(struct worker *w);

/* Whether a worker that has not ended waits: the state of its waiter is not 0. */
bool waits(struct worker *w);
void await_waiting(struct worker *w);

void await_count(atomic_size_t *count, size_t value);

/* A random number below n. */
uint32_t any(struct worker *w, uint32_t n);

/* USCHED_NEVER, a past deadline, or one that comes soon. */
int64_t any_deadline(struct worker *w);

/* Yields, computes, or does nothing. */
void pause_worker(struct worker *w);

/* Cancels random threads of the first n workers. */
void cancel_some(const struct worker *w, size_t n);

/* A thread that takes the semaphore `arg' once. */
void wait_for_sem(void *arg);

/* Returns after the dispatcher of `u' has taken in all that was sent to it before. */
void settle(void *s, const struct ustack *u);

/* ---- Values ---- */

static const size_t sizes[] = { 0, 1, 8, 100, 4000 };   /* bytes */

enum { SIZES = sizeof sizes / sizeof *sizes, LARGEST = 4000 };

/* Fills a value with `id'; a short one has the low bytes of it. */
void write_value(unsigned char *value, size_t size, uint32_t id);

/* Its id. All bytes are checked. */
uint32_t read_value(const unsigned char *value, size_t size);

/* ---- Storms ---- */

enum { STORM_THREADS = 40, STORM_NATIVES = 3, STORMERS = STORM_THREADS + STORM_NATIVES,
       MOST_CANCELS = 3 };

#endif /* USCHED_TEST_SYNC_H */
