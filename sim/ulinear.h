/* SPDX-License-Identifier: MIT */
/*
 * ulinear.h: a check whether a history of concurrent operations is linearizable. A
 * history is linearizable if each operation can have happened at one point between its
 * call and its return, so that the results are those of an object that does one operation
 * at a time (M. Herlihy and J. Wing, TOPLAS 12(3), 1990).
 *
 * A program describes the object by a model, records the calls and returns of its clients
 * in the order in which they happen, and calls ulinear_check(). The algorithm is by J.
 * Wing and C. Gong (Journal of Parallel and Distributed Computing 17, 1993), with
 * configurations in the order of returns (G. Lowe, Concurrency and Computation 29(4),
 * 2017). Each part of the object is checked apart (A. Horn and D. Kroening, FORTE 2015).
 *
 * A part without open operations is searched at once, and its history is freed. So memory
 * does not grow if each part is without open operations at times. The problem is
 * NP-complete: memory and time of a search have limits, at which the search gives up.
 * Operations that never return make a search long.
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
 * A model describes an object by functions over its state. Equal states must have equal
 * bytes; so a state has no padding and no pointers.
 */
struct ulinear_model {
	size_t m_operation;     /* bytes of an operation, with its arguments */
	size_t m_result;        /* bytes of a result */
	size_t m_state;         /* the most bytes of a state */
	const void *m_start;    /* first state of each part */
	size_t m_start_size;    /* bytes of m_start */

	/* Does the operation by changing *state and *size. *state has *size bytes, at any
	   alignment. If `result' is NULL, the result is not known, and any result is
	   right.
	   1: done; 2: done, and this operation with this result never changes a state;
	   0: in this state the operation has another result; a negative error ends the
	   search. */
	int (*m_apply)(void *state, size_t *size, const void *operation,
		       const void *result);

	/* Returns the number of the part that the operation is about, such as a key.
	   Each part has a state of its own. If m_part is NULL, there is one part. */
	uint64_t (*m_part)(const void *operation);

	/* Writes the operation and its result, which may be NULL, without a newline. */
	void (*m_show)(FILE *report, const void *operation, const void *result);
};

/* The operations of the models below. Each comment says which members of struct
   ulinear_result the operation sets. */
enum ulinear_kind {
	ULINEAR_GET,            /* r_done: whether there is a value; r_value: the value */
	ULINEAR_SET,            /* sets the value to o_value */
	ULINEAR_SWAP,           /* if the value is o_expected, sets it to o_value. r_done:
				   whether the value was o_expected */
	ULINEAR_ADD,            /* adds o_value to the value, or to 0 if there is no
				   value. r_value: the sum */
	ULINEAR_DELETE,         /* removes the value. r_done: whether there was a value */
	ULINEAR_ENQUEUE,        /* puts o_value into the queue */
	ULINEAR_DEQUEUE,        /* takes a value from the queue. r_done: whether there
				   was a value; r_value: the value */
};

/* An operation of these models, with its arguments. */
struct ulinear_operation {
	enum ulinear_kind o_kind;
	uint64_t          o_key;        /* for ulinear_map */
	int64_t           o_value;
	int64_t           o_expected;
};

/*
 * The result of such an operation. If enum ulinear_kind does not speak of r_done, r_done
 * must be true; if enum ulinear_kind does not speak of r_value, r_value is ignored.
 */
struct ulinear_result {
	bool    r_done;
	int64_t r_value;
};

enum { ULINEAR_QUEUE = 4096 };  /* the most values in a queue: a state of 32 KiB */

/*
 * Models. A register has one value, at first 0. A map has a value for each o_key, and is
 * empty at first. Both have the operations from ULINEAR_GET to ULINEAR_DELETE. A queue is
 * first in, first out, and has the operations ULINEAR_ENQUEUE and ULINEAR_DEQUEUE.
 */
extern const struct ulinear_model ulinear_register;
extern const struct ulinear_model ulinear_map;
extern const struct ulinear_model ulinear_queue;

/* A history. Its members are private. */
struct ulinear;

/*
 * Creates an empty history in *h. The model must outlive the history. `memory' is the
 * limit of a search: the search gives up when its configurations need more than `memory'
 * bytes, or after `memory' comparisons of configurations. The bytes are allocated now,
 * but become resident only when a search needs them.
 * 0; -ENOMEM: no memory.
 */
int ulinear_create(struct ulinear **h, const struct ulinear_model *model, size_t memory);

/* Frees the history. */
void ulinear_destroy(struct ulinear *h);

/*
 * Records that the client calls the operation, which is copied. The number of the client
 * appears only in reports, so a client may have several open operations.
 * Returns an id, of at least 0, for use in one of the next three calls; -ENOMEM: no
 * memory, and nothing is recorded.
 */
int64_t ulinear_call(struct ulinear *h, uint32_t client, const void *operation);

/*
 * These calls end an operation. ulinear_return(): the operation has returned a result,
 * which is copied. ulinear_fail(): the operation has certainly not happened, and never
 * will. ulinear_lost(): the operation never returns. It may happen at any time after its
 * call, or never. If an operation that only reads is lost, ulinear_fail() makes the
 * search shorter.
 * 0; -EINVAL: no open operation has this id; any other error: the end was recorded, and
 * ulinear_check() returned this error for the operation's part of the history.
 */
int ulinear_return(struct ulinear *h, int64_t id, const void *result);
int ulinear_fail(struct ulinear *h, int64_t id);
int ulinear_lost(struct ulinear *h, int64_t id);

/*
 * Checks the history. Open operations count as lost. The history does not change, and may
 * go on. If the result is not 0 and `report' is not NULL, writes the reason there.
 * 0: the history is linearizable; -EILSEQ: it is not, and the report has the first return
 * that fits no order, and the operations that are open then; -ENOMEM: the search gave up,
 * at the limit of memory or comparisons, or because more than 64 operations of a part are
 * open or lost; other errors: of m_apply. The models above return -EINVAL: the model has
 * no such operation; -EOVERFLOW: a queue has more than ULINEAR_QUEUE values.
 */
int ulinear_check(struct ulinear *h, FILE *report);

#ifdef __cplusplus
}
#endif

#endif /* USCHED_LINEAR_H */
