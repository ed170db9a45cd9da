/* SPDX-License-Identifier: MIT */
/*
 * stall.h: the calls between the monitor of upreempt.c and debug/ustall.c, which reports
 * threads that keep their processor. upreempt.c calls debug/ustall.c only through struct
 * upreempt_stalls, which ustall_install() registers. Private.
 */
#ifndef USCHED_PRIVATE_STALL_H
#define USCHED_PRIVATE_STALL_H

#include <sys/types.h>
#include <time.h>

#include "../../upreempt.h"

struct ustall;

/* The processors that a monitor looks at. */
struct upreempt_all {
	char                *ua_first;  /* the first dispatcher */
	size_t               ua_stride; /* bytes from a dispatcher to the next */
	size_t               ua_count;  /* dispatchers */
	upreempt__state_fn  *ua_state;
	upreempt__log_fn    *ua_log;
	int64_t              ua_limit;  /* ns: c_stall */
};

struct upreempt_stalls {
	/* Makes *w, which ts_free frees. `all' must outlive *w. Returns 0, -ENOMEM or
	   -EAGAIN. */
	int  (*ts_make)(struct ustall **w, const struct upreempt_all *all);

	/*
	 * ts_stop stops the reporter's native thread, while the native threads of the
	 * processors still exist. ts_free frees the reporter.
	 */
	void (*ts_stop)(struct ustall *w);
	void (*ts_free)(struct ustall *w);

	/* The monitor calls ts_look at each processor i, and ts_looked after the last. */
	void (*ts_look)(struct ustall *w, size_t i);
	void (*ts_looked)(struct ustall *w);

	/* The handler of upreempt__ask() calls this, on the native thread of `s'. */
	void (*ts_answer)(struct ustall *w, const struct usched *s, const void *context);
};

/* Registers the table, before processors are made. */
UPREEMPT_PRIVATE void upreempt__report(const struct upreempt_stalls *table);

/*
 * Returns the native thread of `s', and stores the clock of that thread's CPU time.
 * 0: the native thread has not begun.
 */
UPREEMPT_PRIVATE pid_t upreempt__native(const struct usched *s, clockid_t *clock);

/* Sends the native thread of `s' the signal whose handler calls ts_answer. */
UPREEMPT_PRIVATE void upreempt__ask(const struct usched *s);

static inline struct usched *upreempt__at(const struct upreempt_all *all, size_t i)
{
	return (struct usched *)(void *)(all->ua_first + i * all->ua_stride);
}

#endif /* USCHED_PRIVATE_STALL_H */
