/* SPDX-License-Identifier: MIT */
/*
 * stall.h: what the monitor of upreempt.c asks debug/ustall.c, which reports threads that
 * keep their processor, and back. upreempt.c knows no more of it than this table, which
 * is there once the program has called ustall_install(). Private.
 */
#ifndef USCHED_PRIVATE_STALL_H
#define USCHED_PRIVATE_STALL_H

#include <sys/types.h>
#include <time.h>

#include "../../upreempt.h"

struct ustall;

/* The processors that a monitor looks at. */
struct upreempt_all {
	char                *a_first;   /* dispatchers, */
	size_t               a_stride;  /* bytes apart, */
	size_t               a_count;
	upreempt__state_fn  *a_state;
	upreempt__log_fn    *a_log;
	int64_t              a_limit;   /* ns: of c_stall */
};

struct upreempt_stalls {
	/* 0, and *w is to be freed; -ENOMEM; -EAGAIN. `all' stays. */
	int  (*t_make)(struct ustall **w, const struct upreempt_all *all);

	/* Ends its native thread, while those of the processors exist; and frees it. */
	void (*t_stop)(struct ustall *w);
	void (*t_free)(struct ustall *w);

	/* The monitor looks at processor i; and it has looked at all. */
	void (*t_look)(struct ustall *w, size_t i);
	void (*t_looked)(struct ustall *w);

	/* In the handler of upreempt__ask(), on the native thread of `s'. */
	void (*t_answer)(struct ustall *w, const struct usched *s, const void *context);
};

/* Before processors are made. */
UPREEMPT_PRIVATE void upreempt__report(const struct upreempt_stalls *table);

/* The native thread of `s', and the clock of its CPU time. 0: it has not begun. */
UPREEMPT_PRIVATE pid_t upreempt__native(const struct usched *s, clockid_t *clock);

/* Sends it the signal that has t_answer called. */
UPREEMPT_PRIVATE void upreempt__ask(const struct usched *s);

static inline struct usched *upreempt__at(const struct upreempt_all *all, size_t i)
{
	return (struct usched *)(void *)(all->a_first + i * all->a_stride);
}

#endif /* USCHED_PRIVATE_STALL_H */
