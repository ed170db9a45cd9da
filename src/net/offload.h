/* SPDX-License-Identifier: MIT */
/*
 * offload.h: jobs for the pool of native threads in uoffload.c. ufile.c and
 * unet_resolve.c make such jobs, too. Private.
 *
 * A job is on the heap, together with input and output, since the native thread must not
 * follow pointers to the stack of a blocked thread. A job belongs to the waiter. If the
 * waiter gives the job up, under the lock of the pool, the job passes to the pool.
 */
#ifndef USCHED_PRIVATE_OFFLOAD_H
#define USCHED_PRIVATE_OFFLOAD_H

#include <stdbool.h>

#include "../../uoffload.h"
#include "../../uwait.h"

#define OFFLOAD_PRIVATE __attribute__((visibility("hidden")))

/* The classes of jobs. Each class has native threads of its own. */
enum job_kind { OFFLOAD_CALLS, OFFLOAD_FILES, OFFLOAD_NAMES, OFFLOAD_CLASSES };

enum { OFFLOAD_WAITS = 1 };             /* a result: the caller has to block */

/* o_lock protects j_next, j_waiter and j_done. Other members except j_data are
   constant. */
struct job {
	struct job     *j_next;         /* the next job in the queue or in o_going */
	enum job_kind   j_kind;
	void          (*j_func)(void *data);
	void          (*j_drop)(void *data);
	struct uwaiter *j_waiter;       /* NULL: the waiter has gone */
	bool            j_done;
	bool            j_skip;         /* do not call j_func once the waiter has gone */
	_Alignas(16) char j_data[];
};

/* Returns a new job with `size' bytes of data, or NULL if there is no memory. */
OFFLOAD_PRIVATE struct job *uoffload__new_job(enum job_kind kind,
					      void (*func)(void *data),
					      void (*drop)(void *data), size_t size);

/* Queues the job. Returns OFFLOAD_WAITS; 0 if the job is done; or an error. If it returns
   an error, it has freed the job. */
OFFLOAD_PRIVATE int uoffload__begin(struct job *job, int64_t deadline,
				    struct uwaiter **w, const void *where);

/* Gives the job up after a wait that ended with the error rc. Returns rc, or 0 if the job
   is done. */
OFFLOAD_PRIVATE int uoffload__give_up(struct job *job, int rc);

/*
 * Runs the job and waits. Returns 0 if the job is done, or an error. After 0 the caller
 * is to free the job. After an error the pool frees the job. Inlined, so that a report
 * shows the place in the program.
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
