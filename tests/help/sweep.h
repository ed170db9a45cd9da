/* SPDX-License-Identifier: MIT */
/*
 * sweep.h: a scene is a thread's function that starts other threads. It is run again and
 * again over the scheduler `over'. Each time the next call fails, until there is none
 * left. The Makefile links test_fault*.c with sweep.c and fault.c.
 *
 * A scene repeats a call that failed for that reason. So the scene comes to its end, and
 * all that was taken is given back.
 */
#ifndef USCHED_TEST_SWEEP_H
#define USCHED_TEST_SWEEP_H

#include <errno.h>

#include "fault.h"
#include "over.h"

/* What a call returns that did not fail because another call was made to fail. */
#define TRY(call) __extension__ ({              \
	__typeof__(call) rc_;                   \
	do                                      \
		rc_ = (call);                   \
	while (fault_made((int)rc_));           \
	rc_;                                    \
})

extern void *the;                       /* scheduler */

enum { SWEEP_CONFS = 4 };
extern const struct uprocs_conf sweep_confs[SWEEP_CONFS];

/* Starts and joins threads of `the' scheduler. */
struct ustack *go(void (*func)(void *), void *arg);
void end(struct ustack *u);

struct scene {
	void (*s_main)(void *unused);   /* a thread's function */
	void (*s_after)(void);          /* gives back what is kept; or NULL */
	long   s_step;                  /* from n to the next */
};

void run_scene(const struct scene *scene, const struct uprocs_conf *conf);

/*
 * `width' calls in a row fail. With a step, the sweeps of all configurations take every
 * n together. With LONG in the environment each sweep does.
 */
void sweep(const struct scene *scene, enum fault_kind kind, long width);

/* Each kind of failure, one call at a time; and 40 calls in a row with nothing left. */
void sweep_kinds(const struct scene *scene);

/* Whether only calls of ours fail: not those of libc in a static program, nor of gcov. */
bool sweep_is_exact(void);

/* fault_held(), or 0 where it is not exact. */
long sweep_held(void);

/* A c_log that drops the line. */
void no_log(const char *line);

#endif /* USCHED_TEST_SWEEP_H */
