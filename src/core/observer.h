/* SPDX-License-Identifier: MIT */
/*
 * observer.h: functions by which other files observe the dispatcher. Private.
 *
 * A member is NULL until an observer stores a function there. An observer does so before
 * the observed threads begin, and the function stays. So no file of the dispatcher refers
 * to a file of the layers above.
 */
#ifndef USCHED_OBSERVER_H
#define USCHED_OBSERVER_H

#include "../../usched.h"

/* Whether this build of the library looks for mistakes of the program. */
#ifdef USCHED_CHECK
enum { IS_CHECKED = 1 };
#else
enum { IS_CHECKED = 0 };
#endif

struct usched_observer {
	/* Called when the program makes the call that is named `call'. No preemptible
	   region may contain the call. In builds with USCHED_CHECK. The function is in
	   upreempt_region.c. */
	void (*ob_called)(const char *call);

	/* Writes to standard error which thread `u' is. In builds with USCHED_CHECK. The
	   function is in uproc.c. */
	void (*ob_introduce)(const struct ustack *u);

	/* Called only if `s' has an s_slice. Does for the running thread of `s' what
	   ustack_check() does: yields if the slice is over, and returns the result of
	   ustack_check(). The function is in upreempt.c. */
	int (*ob_give_way)(struct usched *s);

	/* Called before the running thread of `s' blocks. While the member is not NULL,
	   all switches go the long way. The function is in debug/ulocks.c, which may be
	   preloaded. */
	void (*ob_blocks)(const struct usched *s);
};

extern struct usched_observer usched__observer;

/* Reads a function from the table, or NULL. */
#define OBSERVER(function) __atomic_load_n(&usched__observer.function, __ATOMIC_RELAXED)

#ifdef USCHED_CHECK
#define CALLED(call) (OBSERVER(ob_called) ? OBSERVER(ob_called)(call) : (void)0)
#else
#define CALLED(call) ((void)0)
#endif

#endif /* USCHED_OBSERVER_H */
