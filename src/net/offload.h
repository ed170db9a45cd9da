/* SPDX-License-Identifier: MIT */
/*
 * offload.h: a job of the pool in uoffload.c, for the calls that have one made: ufile.c
 * and unet_resolve.c. Private.
 *
 * A job is on the heap, together with input and output, since the native thread must not
 * follow pointers to the stack of a blocked thread. Under the lock of the pool, a job
 * belongs to the waiter; after the waiter gave up, to the pool.
 */
#ifndef USCHED_PRIVATE_OFFLOAD_H
#define USCHED_PRIVATE_OFFLOAD_H

#include <stdbool.h>

#include "../../uoffload.h"
#include "../../uwait.h"

#define OFFLOAD_PRIVATE __attribute__((visibility("hidden")))

/* Each class has native threads of its own. */
enum job_kind { OFFLOAD_CALLS, OFFLOAD_FILES, OFFLOAD_NAMES, OFFLOAD_CLASSES };

enum { OFFLOAD_WAITS = 1 };             /* a result: the caller has to block */

struct job {
	struct job     *j_next;         /* o_lock: in the queue, or in o_going */
	enum job_kind   j_kind;         /* constant */
	void          (*j_func)(void *data);
	void          (*j_drop)(void *data);
	struct uwaiter *j_waiter;       /* o_lock; NULL: the waiter has gone */
	bool            j_done;         /* o_lock */
	/* The function is not called once the waiter has gone; constant. */
	bool            j_skip;
	_Alignas(16) char j_data[];
};

/* Returns a new job with `size' bytes of data; NULL: no memory. */
OFFLOAD_PRIVATE struct job *uoffload__new_job(enum job_kind kind,
					      void (*func)(void *data),
					      void (*drop)(void *data), size_t size);

/* Queues the job. OFFLOAD_WAITS; 0: the job is done; an error: the job was freed. */
OFFLOAD_PRIVATE int uoffload__begin(struct job *job, int64_t deadline,
				    struct uwaiter **w, const void *where);

/* Gives the job up after a wait that ended with the error rc. Returns rc; 0: job done. */
OFFLOAD_PRIVATE int uoffload__give_up(struct job *job, int rc);

/*
 * Runs the job and waits. 0: the job is done, and the caller frees it. An error: the pool
 * frees the job. Inlined, so that a report has the place in the program.
 */
__attribute__((always_inline))
static inline int offload_run(struct job *job, int64_t deadline)
{
	struct uwaiter *w;
	int rc = uoffload__begin(job, deadline, &w, __builtin_return_address(0));

	if (rc != OFFLOAD_WAITS)
		return rc;
	rc = uwait_block(w);
	return rc ? uoffload__give_up(job, rc) : 0;
}

#endif /* USCHED_PRIVATE_OFFLOAD_H */
