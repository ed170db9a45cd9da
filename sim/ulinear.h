/* SPDX-License-Identifier: MIT */
/*
 * ulinear.h: whether a history of concurrent operations is linearizable: whether each
 * operation can have happened at one point between its call and its return, so that the
 * results are those of an object that does one operation at a time (M. Herlihy and J.
 * Wing, TOPLAS 12(3), 1990).
 *
 * A program describes the object by a model, records the calls and returns of its clients
 * in the order in which they happen, and asks. The search is that of J. Wing and C. Gong
 * (Journal of Parallel and Distributed Computing 17, 1993), with configurations in the
 * order of returns (G. Lowe, Concurrency and Computation 29(4), 2017), of each part of
 * the object by itself (A. Horn and D. Kroening, FORTE 2015).
 *
 * A part is searched whenever it is idle, and its history dropped. So memory stays flat
 * if each part is idle at times. The question is NP-complete: memory and time of a search
 * are bounded, and a search may give up. Operations that never return make a search long.
 *
 * No call switches threads. A history belongs to one native thread at a time.
 */
#ifndef USCHED_LINEAR_H
#define USCHED_LINEAR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * A model: an object as functions over its state. Equal states have equal bytes, so a
 * state has no padding and no pointers.
 */
struct ulinear_model {
	size_t m_operation;     /* bytes of an operation, with its arguments */
	size_t m_result;        /* bytes of a result */
	size_t m_state;         /* most bytes of a state */
	const void *m_start;    /* first state, of each part */
	size_t m_start_size;    /* bytes of m_start */

	/* Does the operation: changes *state, which has *size bytes and any alignment,
	   and *size. With result NULL, not known, any result is allowed.
	   1: done; 2: done, and this operation with this result never changes a state;
	   0: this result is not possible here; a negative error ends the search. */
	int (*m_apply)(void *state, size_t *size, const void *operation,
		       const void *result);

	/* Returns the part of the object that the operation is about, such as its key:
	   a state is that of one part. If m_part is NULL, the object has one part. */
	uint64_t (*m_part)(const void *operation);

	/* Writes the operation and its result, or NULL, without an end of line. */
	void (*m_show)(FILE *report, const void *operation, const void *result);
};

/* Operations of the models below. */
enum ulinear_kind {
	ULINEAR_GET,            /* r_done: there is a value; r_value */
	ULINEAR_SET,            /* sets the value to o_value */
	ULINEAR_SWAP,           /* puts o_value in place of o_expected. r_done: that
				   was the value */
	ULINEAR_ADD,            /* adds o_value to the value, or to 0. r_value: the sum */
	ULINEAR_DELETE,         /* r_done: there was a value */
	ULINEAR_ENQUEUE,        /* puts o_value into the queue */
	ULINEAR_DEQUEUE,        /* r_done: the queue was not empty; r_value */
};

/* An operation of these models, with its arguments. */
struct ulinear_operation {
	enum ulinear_kind o_kind;
	uint64_t          o_key;        /* for ulinear_map */
	int64_t           o_value;
	int64_t           o_expected;
};

/*
 * The result of such an operation. Where no meaning is given above, r_done is true, and
 * r_value ignored.
 */
struct ulinear_result {
	bool    r_done;
	int64_t r_value;
};

enum { ULINEAR_QUEUE = 4096 };  /* values in a queue, at most: 32 KiB of a state */

extern const struct ulinear_model ulinear_register;     /* GET to DELETE; 0 first */
extern const struct ulinear_model ulinear_map;          /* GET to DELETE, by o_key */
extern const struct ulinear_model ulinear_queue;        /* first in, first out */

/* A history. Its members are private. */
struct ulinear;

/*
 * Makes an empty history in *h. The model must outlive the history. A search takes no
 * more than `memory' bytes for configurations, which are allocated now and touched when
 * needed; some states must fit. A search gives up after so many comparisons, too.
 * 0; -ENOMEM: no memory.
 */
int ulinear_create(struct ulinear **h, const struct ulinear_model *model, size_t memory);

/* Frees the history. */
void ulinear_destroy(struct ulinear *h);

/*
 * Records that the client calls the operation, which is copied. The number of the client
 * is for reports: a client may have several open operations.
 * Returns an id, of at least 0, which is good for one of the next three calls; -ENOMEM:
 * no memory, and nothing is recorded.
 */
int64_t ulinear_call(struct ulinear *h, uint32_t client, const void *operation);

/*
 * End an operation. With ulinear_return() it returned a result, which is copied; with
 * ulinear_fail() it certainly never happened; with ulinear_lost() it never returns, so it
 * may happen at any time after its call, or never. A lost operation that only reads may
 * as well be failed.
 * 0; -EINVAL: no open operation has this id; or the end is recorded, and the search of a
 * part that is idle now has its first error, as ulinear_check().
 */
int ulinear_return(struct ulinear *h, int64_t id, const void *result);
int ulinear_fail(struct ulinear *h, int64_t id);
int ulinear_lost(struct ulinear *h, int64_t id);

/*
 * Searches. Open operations count as lost. The history stays as it is, and may go on. If
 * the result is not 0 and `report' is not NULL, a few lines there say why.
 * 0: the history is linearizable; -EILSEQ: it is not, and the report has the first return
 * that is too much, and the operations that are open then; -ENOMEM: the search gave up,
 * out of memory or comparisons, or with more than 64 operations of a part that are open
 * or lost; other errors: of m_apply. These are -EINVAL: the model has no such operation;
 * -EOVERFLOW: a queue has more than ULINEAR_QUEUE values.
 */
int ulinear_check(struct ulinear *h, FILE *report);

#ifdef __cplusplus
}
#endif

#endif /* USCHED_LINEAR_H */
