/* SPDX-License-Identifier: MIT */
/*
 * proc.h: what the modules of processors share; private to them. uproc.h has the
 * picture, and uproc.c the invariants.
 *
 *	uproc.c         start and end of threads, mail, joins
 *	uprocs.c        schedulers: their configuration, begin and end, the list of all
 *	uproc_native.c  native threads: how they park, how they wait for threads to end
 *	uproc_move.c    threads that move
 *	uproc_local.c   whether a thread's frames depend on its native thread
 *	uproc_alone.c   stacks that threads have for themselves
 *	uproc_trim.c    memory that goes back to the system
 *	uproc_name.c    names of threads
 *	uproc_report.c  reports
 *	uproc_layout.c  what readers from outside go by
 */
#ifndef USCHED_PRIVATE_PROC_H
#define USCHED_PRIVATE_PROC_H

#include "../../uproc.h"
#include "../base/lock.h"
#include "../core/observer.h"

/* Marks in t_joiner, and the last three in p_inbox. They point nowhere. */
enum { UPROC_MARKS = 6 };
extern struct uproc_thread uproc__marks[UPROC_MARKS] UPROC_PRIVATE;
#define ENDED    (&uproc__marks[0])
#define TAKEN    (&uproc__marks[1])     /* ended, and the joiner will free it */
#define DETACHED ((struct uproc_thread *)NULL)
#define OPEN     UPROC_OPEN
#define NATIVE   (&uproc__marks[2])
#define PARKED   (&uproc__marks[3])
#define STOPPED  (&uproc__marks[4])     /* the processor must not park */
#define ASKED    (&uproc__marks[5])     /* another asks it for threads */

enum {
	UPROC_NATIVE_STACK = 8 << 20,           /* bytes, unless the program sets them */
	ASKING_BITS        = 64,                /* in a word of r_asking */
};

/* The number of `p', from 0 on. */
static inline size_t uproc__index(const struct uproc *p)
{
	const struct uprocs *r = p->p_procs;

	return (size_t)((const char *)p - (const char *)r->r_proc) / r->r_stride;
}

/* ---- uproc.c ---- */

/* Makes the dispatcher, and what needs no more than memory. 0; -ENOMEM; -ENOTSUP. */
UPROC_PRIVATE int  uproc__init(struct uproc *p, struct uprocs *r,
			       const struct uproc_policy *policy);

/* Makes what a processor that runs needs besides. 0, or as uproc__init(). */
UPROC_PRIVATE int  uproc__make_parts(struct uproc *p);

/* Frees what either of them has made. */
UPROC_PRIVATE void uproc__fini(struct uproc *p);

/*
 * Makes `joiner' the joiner of `t'; it may be the mark DETACHED.
 * 0; 1: `t' has ended, and is the caller's to free; -EINVAL: it is joined already, or
 * detached.
 */
UPROC_PRIVATE int uproc__claim(struct uproc_thread *t, struct uproc_thread *joiner);

/* Frees a thread that was joined, after its value was taken. */
UPROC_PRIVATE void uproc__put_joined(struct uproc_thread *t, void **value);

/* Counts n threads more in p_started, and makes room for them. 0; -ENOMEM. */
UPROC_PRIVATE int uproc__count_started(struct uproc *p, uint32_t n);

/* Returns the number of threads of `p' that have not begun. */
UPROC_PRIVATE uint32_t uproc__new_of(const struct uproc *p);

/* Pushes `t', which is in no inbox, to that of `p', and unparks `p'. */
UPROC_PRIVATE void uproc__push_inbox(struct uproc *p, struct uproc_thread *t);

/* For hooks a new thread is where it was created, since it has no place to go on. */
static inline void uproc__tell_created(struct uproc_thread *t, const void *where)
{
	struct usched *here = usched__here();
	const struct usched__wrap *wrap;

	if (__builtin_expect(here->s_hook == NULL, 1))
		return;
	wrap = usched__wrap_of(&t->t_stack);
	t->t_stack.u_pc = wrap && wrap->w_where ? wrap->w_where : where;
	usched__tell(here, USCHED_CREATES, &t->t_stack, here->s_current);
}

/* ---- uprocs.c ---- */

/* The list of all schedulers, by r_other. */
extern struct uprocs *uproc__schedulers UPROC_PRIVATE;

/* What was registered. */
extern struct uproc_observer uproc__observer UPROC_PRIVATE;

/* Whether the observer wants to be called, for what is not on the way of a switch. */
static inline bool uproc__is_watched(void)
{
	const uint32_t *w = uproc__observer.o_wanted;

	return w && (GET(w[0]) | GET(w[1]) | GET(w[2]) | GET(w[3]));
}

/* In s_next: the observer begins or ends. */
static inline void uproc__look_at_observer(struct uproc *p)
{
	if (uproc__is_watched() || GET(p->p_ring))
		uproc__observer.o_look(p);
}

/* ---- uproc_native.c ---- */

/*
 * Whether the processor runs on the native thread that joins, or that calls uprocs_run(),
 * and has none of its own. It is the only one.
 */
static inline bool uproc__is_driven(const struct uprocs *r)
{
	return ONE_NATIVE || r->r_conf.c_embed;
}

/* Makes the native threads of all processors. 0; -ENOMEM; -EAGAIN. */
UPROC_PRIVATE int  uproc__start_natives(struct uprocs *r);

/* Ends the first n. They have nothing to run, but may be about to park. */
UPROC_PRIVATE void uproc__stop_natives(struct uprocs *r, size_t n);

/*
 * Waits, as a native thread, until `t' has ended, and frees it; or with NULL, until all
 * threads have ended: then no other native thread may wait here.
 * 0; -EDEADLK; -ETIMEDOUT; -EINVAL as uproc__claim(); -EPERM: another one waits; -EBUSY:
 * the caller is inside the processor's run.
 */
UPROC_PRIVATE int  uproc__await(struct uprocs *r, struct uproc_thread *t, void **value,
				int64_t deadline);

/* Tells the native thread that joins `t', which has ended. False: it has given up. */
UPROC_PRIVATE bool uproc__tell_native(struct uprocs *r, struct uproc_thread *t);

/* While threads are reported, the processor that calls this waits. */
UPROC_PRIVATE void uproc__stand(struct uproc *p);

/* Ends the sleep of a processor whose mark was seen in its inbox. */
UPROC_PRIVATE void uproc__unpark(struct uproc *p);

UPROC_PRIVATE extern usched_linger_fn uproc__linger;

/* ---- uproc_move.c ---- */

UPROC_PRIVATE void uproc__set_moves(struct uproc *p, const struct uproc_policy *policy);

/*
 * An idle processor asks for threads, and, from the time `now' on, no longer. Nothing
 * waits for an answer.
 */
UPROC_PRIVATE void uproc__ask(struct uproc *p);
UPROC_PRIVATE void uproc__stop_asking(struct uproc *p, int64_t now);

/* `p', which has threads to run, gives some to processors that ask. */
UPROC_PRIVATE void uproc__give(struct uproc *p);

/*
 * `t', of `o', is woken from another native thread, and is about to be pushed to the
 * inbox of `o': if the caller is a processor that draws it, notes that in `o'.
 */
UPROC_PRIVATE void uproc__draw(struct uproc *o, const struct uproc_thread *t);

/* `t' is in the inbox of `p': which processor draws it, or NULL. */
UPROC_PRIVATE struct uproc *uproc__drawer(struct uproc *p, const struct uproc_thread *t);

/* `t', of `p', is runnable and in no queue: goes to `q'. False: it stays. */
UPROC_PRIVATE bool uproc__follow(struct uproc *p, struct uproc_thread *t,
				 struct uproc *q);

/* Takes in `t', which was in the inbox of `p' and moves there. */
UPROC_PRIVATE void uproc__arrive(struct uproc *p, struct uproc_thread *t);

/* Notes the stack of `u', a thread that has ended and may have come from elsewhere. */
UPROC_PRIVATE void uproc__leave_stack(struct uproc *p, struct ustack *u);

/* Returns stacks of other processors, except the one in use, and takes in its own. */
UPROC_PRIVATE void uproc__exchange_stacks(struct uproc *p);

/* Whether a processor asks for threads, and those of `p' may move. */
static inline bool uproc__is_wanted(const struct uproc *p)
{
	const struct uprocs *r = p->p_procs;

	if (!p->p_moves)
		return false;
	for (size_t i = 0; i <= r->r_conf.c_processors / ASKING_BITS; i++)
		if (GET(r->r_asking[i]))
			return true;
	return false;
}

static inline void uproc__share(struct uproc *p)
{
	if (!p->p_barren && !p->p_asks && uproc__is_wanted(p))
		uproc__give(p);
}

static inline void uproc__return_stacks(struct uproc *p)
{
	if (p->p_foreign || GET(p->p_returned))
		uproc__exchange_stacks(p);
}

/* ---- uproc_local.c ---- */

/* Addresses that belong to a native thread; the first are near the thread pointer. */
enum { UPROC_LOCALS = 16 };

struct uproc_local {
	uintptr_t l_begin, l_end;
};

struct uproc_locals {
	unsigned l_count;               /* of l_range; 0: these are not noted yet */
	bool     l_full;                /* there are more */
	struct uproc_local l_range[UPROC_LOCALS];
};

/* In the child of a fork: see uproc_local.c. */
extern bool uproc__local_lost UPROC_PRIVATE;

/* Notes those of the calling native thread. */
UPROC_PRIVATE void uproc__note_locals(struct uproc_locals *l);

/* Whether the frames of `u', a blocked thread of this native thread, may have one. */
UPROC_PRIVATE bool uproc__keeps_local(const struct uproc_locals *l,
				      const struct ustack *u);

/* ---- uproc_alone.c ---- */

/*
 * Counts one thread more that has a stack of its own, of `size' bytes, and takes one for
 * it, also for USTACK_OWN.
 * 0; -EAGAIN: there are c_alone; -ENOMEM.
 */
UPROC_PRIVATE int uproc__take_alone(struct uproc *p, size_t size,
				    struct usched_stack **stack);

/* Gives it back: the thread was not started. */
UPROC_PRIVATE void uproc__put_alone(struct uproc *p, struct usched_stack *stack);

/* Takes in the stacks of threads that have ended on `p', except the one in use. */
UPROC_PRIVATE void uproc__sort_left(struct uproc *p);

/* Frees all. All threads have ended. */
UPROC_PRIVATE void uproc__unmap_alones(struct uproc_alones *o);

/* At the end of a period: what was vacant all the time is to go; or all that is. */
UPROC_PRIVATE void uproc__age_alones(struct uproc_alones *o, bool all);

/* Unmaps some of those that are to go. True: there are more. */
UPROC_PRIVATE bool uproc__drop_alones(struct uproc_alones *o);

static inline void uproc__take_left(struct uproc *p)
{
	if (__builtin_expect(*usched__left(&p->p_sched) != NULL, 0))
		uproc__sort_left(p);
}

/* ---- uproc_trim.c ---- */

/* Returns when `p' has memory to give back. Before it sleeps, and in looks. */
UPROC_PRIVATE int64_t uproc__tidy_time(struct uproc *p);

/* After a sleep: a step, if it is due. True: its time has come, and nothing else. */
UPROC_PRIVATE bool uproc__tidy_idle(struct uproc *p);

/* A step, if it is due, while threads are ready. */
UPROC_PRIVATE void uproc__tidy_busy(struct uproc *p);

/* In looks, of which some ask for the time. */
static inline void uproc__tidy(struct uproc *p)
{
	if (p->p_looks-- == 0 || GET(p->p_trim))
		uproc__tidy_busy(p);
}

/* ---- uproc_name.c ---- */

/*
 * Names a thread that is to be started, with UPROC_MAIL_NAMED then. "" is no name.
 * 0; -ENOMEM.
 */
UPROC_PRIVATE int uproc__begin_name(const struct ustack *u, const char *text);

/* Drops the name of `u', which has UPROC_MAIL_NAMED and has ended. */
UPROC_PRIVATE void uproc__forget_name(const struct ustack *u);

/* In the child of a fork: there are no names, and no lock is held. */
UPROC_PRIVATE void uproc__forget_names(void);

/* The list of all names, by n_next. */
extern struct uproc_name *uproc__names UPROC_PRIVATE;

struct uproc_name {
	const struct ustack *n_thread;  /* the key */
	char                 n_text[USTACK_NAME_MAX];
	struct uproc_name   *n_next;
	struct uproc_name   *n_prev;    /* NULL: the first */
};

/* ---- uproc_report.c ---- */

/*
 * Reports threads that are stuck: all processors are parked, and threads are left. Tells
 * the threads that join. False: there are none of these.
 */
UPROC_PRIVATE bool uproc__report_stuck(struct uprocs *r);

/* Reports threads that are left at the deadline of uprocs_destroy(). Under r_lock. */
UPROC_PRIVATE void uproc__report_left(struct uprocs *r);

/* Returns the number of threads. Not exact while processors run. */
UPROC_PRIVATE uint32_t uproc__threads(const struct uprocs *r);

/* In builds with USCHED_CHECK: s_changed. */
UPROC_PRIVATE extern usched_changed_fn uproc__report_changed;

/* Writes to standard error which thread it is. In builds with USCHED_CHECK. */
UPROC_PRIVATE void uproc__introduce(const struct ustack *u);

/* The name of `u' behind a space, in quotes; or nothing. Returns the text. */
UPROC_PRIVATE const char *uproc__quote_name(const struct ustack *u,
					    char text[USTACK_NAME_MAX + 4]);

/* Writes a line to where reports go. */
UPROC_PRIVATE void uproc__print(const struct uprocs *r, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

#endif /* USCHED_PRIVATE_PROC_H */
