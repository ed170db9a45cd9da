/* SPDX-License-Identifier: MIT */
/*
 * pool.h: what the tests of uoffload.h share: calls that wait natively at a gate, counts
 * of them, and configurations with no native thread left after each.
 */
#ifndef USCHED_TEST_POOL_H
#define USCHED_TEST_POOL_H

#include "../../uoffload.h"
#include "net.h"

/* Native threads of this process, without those of an emulator or a sanitizer. */
size_t natives(void);
void await_natives(size_t n);

/* A case: func() runs as a thread, over each configuration, and leaves nothing. */
#define POOL_CASE(func) CASE_BY(run_pool_case, #func, func, NULL)
void run_pool_case(void **state);

/* ---- Calls ---- */

extern atomic_bool open_gate;
extern atomic_int entered, running, most, finished;     /* calls; `most' at once */
extern atomic_int dropped, spared;      /* drops after a call, and without one */
extern atomic_int order[64];            /* c_in of the calls */

void reset_counts(bool gate);
void await_count(const atomic_int *count, int n);

struct call {
	pthread_t c_native;
	int       c_in;
	int       c_out;                /* 3 * c_in */
};

void pass_gate(void *call);
void drop_call(void *call);

/* A thread that offloads pass_gate(). */
struct caller {
	struct call c_call;
	int64_t     c_deadline;
	int         c_rc;
	atomic_int  c_returned;
};

void call_it(void *caller);
struct ustack *go_call(struct caller *c, int in, int64_t deadline);

/* The only native thread is in a call, until it is freed; then nothing is left. */
struct ustack *occupy_pool(void);
void free_pool(struct ustack *occupier);

#endif /* USCHED_TEST_POOL_H */
