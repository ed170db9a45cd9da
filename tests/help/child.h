/* SPDX-License-Identifier: MIT */
/* child.h: functions that run in child processes, which may die, and what these tell. */
#ifndef USCHED_TEST_CHILD_H
#define USCHED_TEST_CHILD_H

#include <signal.h>
#include <stdatomic.h>

#include "procs.h"

enum { MESSAGE = 8192 };                /* characters */

struct told {
	struct ustack *t_thread;
	uintptr_t      t_low;           /* of its stack */
	size_t         t_size;
	atomic_int     t_handled;       /* calls of the handler that was there before */
	int            t_signo;
	void          *t_address;
};

extern struct told *told;               /* shared with children */
extern char said[MESSAGE];              /* by the last child, on standard error */

/* Maps `told'. */
void child_begin(void);

/* Runs func(arg) in a child. Its wait status. */
int in_child(void (*func)(void *), void *arg);

/* These fail with what the child said. A child has survived when func(arg) returned. */
enum { SURVIVED = 33 };                 /* exit status */
void assert_killed(int status, int signo);
void assert_survived(int status);
void assert_said(const char *text);
void assert_silent(void);               /* about overflows */

/* Skips where memcheck's exit status of a handled fault would be that of the child. */
void skip_on_valgrind(void);

#endif /* USCHED_TEST_CHILD_H */
