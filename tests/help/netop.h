/* SPDX-License-Identifier: MIT */
/*
 * netop.h: every call of unet.h that waits, in a table. Each entry makes descriptors on
 * which the call waits, calls, and ends the wait.
 */
#ifndef USCHED_TEST_NETOP_H
#define USCHED_TEST_NETOP_H

#include "net.h"

/* p_fds: the descriptor of the call, and its peer or -1; p_file: what it may send. */
struct place {
	const struct op *p_op;
	int              p_fds[2];
	int              p_file;
	int64_t          p_deadline;
	atomic_int       p_returned;
	ssize_t          p_rc;
	char             p_buffer[16];
};

struct op {
	const char *o_name;
	void      (*o_make)(int fds[2]);
	ssize_t   (*o_call)(struct place *p, int64_t deadline);
	void      (*o_ready)(struct place *p);  /* ends the wait, */
	ssize_t     o_least;                    /* and the call returns at least this */
};

/* Of the running test. */
extern struct place place;

void make_place(const struct op *op);
void unmake_place(bool closed);
void unready_place(void);                       /* the next call waits again */

/* Compares; a failure names the call. */
void op_equal(ssize_t rc, ssize_t right);

/* A thread calls; it waits; it has returned `rc'. */
void call_op(void *unused);
struct ustack *go_op(int64_t deadline);
void await_op(const struct ustack *u);
void end_op(struct ustack *u, ssize_t rc);

/* The next call waits and succeeds, whatever happened before. */
void works(void);

const struct op *op_named(const char *name);

/* A case: first(), if any; test(op) for each; in a thread, over each configuration. */
#define OP_CASE(first, test) OP_CASE_BY(run_op_case, first, test)
#define OP_NATIVE_CASE(test) OP_CASE_BY(run_op_native_case, NULL, test)
#define OP_CASE_BY(run, first, test) \
	TEST_BY(run, #test, op_case, first, test)

struct op_case {
	void (*c_first)(void);
	void (*c_test)(const struct op *op);
};

void run_op_case(void **state);
void run_op_native_case(void **state);

#endif /* USCHED_TEST_NETOP_H */
