/* SPDX-License-Identifier: MIT */
/*
 * macros.h: the least that can be called a thread: a function that starts with a jump
 * to the line it has left last time. It has no stack: what it has to keep across a
 * TASK_YIELD() or TASK_WAIT_UNTIL() is in a structure of its own, and it can be left
 * only in the function itself, not in one that it calls.
 *
 * All functions return TASK_ENDED or TASK_WAITS. At most one of these on a line.
 */
#ifndef MACROS_H
#define MACROS_H

struct task {
	unsigned line;                  /* where to go on; 0: at the beginning */
};

enum { TASK_WAITS, TASK_ENDED };

#define TASK_BEGIN(task)                                        \
	switch ((task)->line) {                                 \
	case 0:

#define TASK_YIELD(task)                                        \
	do {                                                    \
		(task)->line = __LINE__;                        \
		return TASK_WAITS;                              \
	case __LINE__:;                                         \
	} while (0)

#define TASK_WAIT_UNTIL(task, condition)                        \
	do {                                                    \
		(task)->line = __LINE__;                        \
		__attribute__((__fallthrough__));               \
	case __LINE__:                                          \
		if (!(condition))                               \
			return TASK_WAITS;                      \
	} while (0)

#define TASK_END(task)                                          \
	}                                                       \
	(task)->line = 0;                                       \
	return TASK_ENDED

#endif
