/* SPDX-License-Identifier: MIT */
/*
 * model.h: what threads and the objects of sync.h are, as far as api.c can tell from what
 * it has called: see model.c. The calls are made there that concern these objects; each
 * takes its arguments from the input.
 */
#ifndef USCHED_FUZZ_MODEL_H
#define USCHED_FUZZ_MODEL_H

#include "../../ll.h"
#include "../../rr.h"
#include "../../usync.h"
#include "fuzz.h"

enum { THREADS = 8, OBJECTS = 2, KEYS = 2, CASES = 3, CHANNELS = 3 };

#define TURN INT64_C(1000000)           /* ns that uprocs_run() may take */

enum state { FREE, LIVE, ENDED };       /* ENDED: and not joined */

/* What a thread waits for. */
enum wait { NOTHING, TOKEN, JOIN, SLEEP, LOCK, READ, WRITE, COND, SEM, GROUP,
	    SELECT };

struct mutex;

struct thread {
	enum state      state;
	struct ustack  *handle;         /* or NULL */
	struct uwaiter *waiter;
	struct thread  *joiner;
	bool            detached, cancelled, shielded;
	int             tokens;
	int             depth;          /* of frames */
	void           *value[KEYS];
	unsigned        reads[OBJECTS]; /* rwlocks it has to read */
	unsigned        last[CHANNELS]; /* what it received last */

	/* Of the call in which it may wait. */
	enum wait       wait;
	void           *object;
	struct mutex   *mutex;          /* of a condition: a returned waiter has it */
	int64_t         deadline;
	uint64_t        since;          /* counts waits */
	bool            granted;
	unsigned        reports;        /* of deadlocks, before */
	struct usync_case cases[CASES];
	size_t          count;          /* of them */
};

/* The last is the native thread's, which only tries. */
extern struct thread threads[THREADS + 1];
#define native (&threads[THREADS])

extern unsigned held;                   /* k_hold() less k_release() */
extern unsigned reports;                /* of deadlocks */
extern const struct usync_key keys[KEYS];

/* rr and ll as one. */
struct kind {
	int  (*k_create)(const struct uprocs_conf *conf);
	int  (*k_destroy)(void);
	int  (*k_start)(void (*func)(void *), void *arg, struct ustack **thread);
	void (*k_hold)(void);
	void (*k_release)(void);
	int  (*k_run)(void);
	void (*k_stats)(struct usched_stats *out);
};

extern const struct kind kinds[2];
extern const struct kind *sched;

void model_begin(const struct uprocs_conf *conf, unsigned kind);
void model_log(const char *line);
bool model_endless(void);

/* A deadline from the input. */
int64_t model_deadline(struct thread *me);

/* `me' is about to wait, until `deadline'. */
void model_want(struct thread *me, enum wait wait, void *object, int64_t deadline);

/* Whether a call that may wait may return rc, which is no success. */
bool model_error(const struct thread *me, int rc);

void model_lock(struct thread *me);
void model_unlock(struct thread *me);
void model_rwlock(struct thread *me);
void model_rwunlock(struct thread *me);
void model_cond_wait(struct thread *me);
void model_signal(struct thread *me);
void model_sem_wait(struct thread *me);
void model_sem_post(struct thread *me);
void model_group_add(struct thread *me);
void model_group_done(struct thread *me);
void model_group_wait(struct thread *me);
void model_select(struct thread *me);
void model_close(struct thread *me);

/* A thread ends: what it has is released. */
void model_leave(struct thread *me);

/* Nothing is ready, and all that was due at `then' was run. */
void model_quiet(int64_t then);

/* Ends all waits that can be ended. */
void model_free_all(void);

/* All threads that could end have; then the scheduler is destroyed. */
void model_end(void);
void model_destroy(void);

#endif /* USCHED_FUZZ_MODEL_H */
