/* SPDX-License-Identifier: MIT */
/*
 * macros.h: the simplest kind of thread: a function that starts with a jump to the line
 * where it has returned last. It has no stack. It keeps its variables in a structure
 * across a TASK_YIELD() or TASK_WAIT_UNTIL(), and only the function itself can yield, not
 * one that it calls.
 *
 * A task function returns TASK_ENDED or TASK_WAITS. A line has at most one of the macros.
 */
#ifndef MACROS_H
#define MACROS_H

struct task {
	unsigned line;                  /* where to go on; 0: the beginning */
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
