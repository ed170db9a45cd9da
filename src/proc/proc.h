/* SPDX-License-Identifier: MIT */
/*
 * proc.h: what the modules of processors share; private to them. uproc.h has the
 * picture. Each module calls only those above it in this list:
 *
 *	uproc_stacks.c  stacks: those that threads share, and those of h_stack
 *	uproc_ring.c    runnable threads, records and the inbox; the observer's table
 *	uproc_name.c    names of threads
 *	uproc_local.c   whether a thread's frames depend on its native thread
 *	uproc_layout.c  where a reader of the process's memory finds threads
 *	uproc_move.c    threads that move
 *	uproc_mail.c    mail
 *	uproc_report.c  reports
 *	uproc_tidy.c    memory that goes back to the system
 *	uproc_park.c    native threads, and how they park
 *	uproc_join.c    the end of threads, joins
 *	uproc_start.c   places and starts
 *	uproc.c         a processor: looks for events, yields, how it is made and freed
 *	uprocs.c        schedulers: their configuration, start and end, the list of all
 */
#ifndef USCHED_PRIVATE_PROC_H
#define USCHED_PRIVATE_PROC_H

#include "../../uproc.h"
#include "../base/lock.h"
#include "../core/core.h"

#pragma GCC visibility push(hidden)

/* Marks: addresses that differ from those of all threads. The first three stand in
   re_joiner, the last three in p_inbox. */
enum { UPROC_MARKS = 6 };
extern struct uproc_thread uproc__marks[UPROC_MARKS];
#define ENDED    (&uproc__marks[0])
#define TAKEN    (&uproc__marks[1])     /* the thread ended, and its joiner frees it */
#define DETACHED ((struct uproc_thread *)NULL)
#define OPEN     UPROC_OPEN
#define NATIVE   (&uproc__marks[2])     /* a native thread joins the thread */
#define PARKED   (&uproc__marks[3])     /* the processor sleeps, or is about to */
#define STOPPED  (&uproc__marks[4])     /* the processor must not park */
#define ASKED    (&uproc__marks[5])     /* a processor asks for threads */

enum {
	UPROC_NATIVE_STACK = 8 << 20,           /* bytes of the stack of a native thread,
						   if the program sets no size */
	ASKING_BITS        = 64,                /* bits in a word of r_asking */
};

/* Returns the number of `p'. The first processor has 0. */
static inline size_t uproc__index(const struct uproc *p)
{
	const struct uprocs *r = p->p_procs;

	return (size_t)((const char *)p - (const char *)r->r_proc) / r->r_stride;
}

/*
 * Returns whether the scheduler's only processor has no native thread of its own. It
 * then runs on a native thread that joins or calls uprocs_run().
 */
static inline bool uproc__is_driven(const struct uprocs *r)
{
	return ONE_NATIVE || r->r_conf.c_embed;
}

/* Returns whether `p' is to give its threads to the processors below the limit. Threads
   that must stay run on. */
static inline bool uproc__rests(const struct uproc *p)
{
	return p->p_sched.s_number >= GET(p->p_procs->r_limit);
}

/* Returns whether the processor runs on top of the frames of a thread that might move. If
   so, usched_run() must return, and run_native() calls it again on the native stack. */
static inline bool uproc__is_in_the_way(const struct uproc *p)
{
	const struct ustack *self = p->p_sched.s_current;

	return self && p->p_sched.s_moves && !self->u_stack->k_shared;
}

/* ---- uproc_stacks.c ---- */

/*
 * Doubles the number of stacks, up to c_stacks. The head of a stack that is added takes a
 * page; a stack that is only mapped takes no memory. Returns 0 or -ENOMEM.
 */
int uproc__add_stacks(struct uproc *p);

/* Sets s_grow, as uproc__add_stacks() does unless memory is short. A launch that finds no
   vacant stack then adds stacks, up to c_stacks. */
void uproc__set_grow(struct uproc *p);

/* The call-back s_has_stack. Returns 2 if `address' is on a stack of `s', 1 if it is on a
   stack of another processor of the scheduler, otherwise 0. */
int uproc__find_stack(const struct usched *s, const void *address);

/*
 * Counts one more thread with an own stack, and takes a stack for that thread. `size' is
 * in bytes, or USTACK_OWN.
 * Returns 0; -EAGAIN if c_alone threads have own stacks already; -ENOMEM.
 */
int uproc__take_alone(struct uproc *p, size_t size, struct usched_stack **stack);

/* Returns where an own stack of a scheduler with c_tls refers to its block. */
char **uproc__place_of_block(const struct usched_stack *stack);

/* Gives back an own stack whose thread was not started. */
void uproc__put_alone(struct uproc *p, struct usched_stack *stack);

/* Makes vacant the own stacks of threads that have ended on `p', except the stack that
   the caller runs on. */
void uproc__sort_left(struct uproc *p);

/* Frees all own stacks, after all threads have ended, and before processors are freed. */
void uproc__unmap_alones(struct uprocs *r);

/* Ends a period. uproc__drop_alones() is to unmap as many own stacks as were vacant
   during the whole period. */
void uproc__age_alones(struct uproc_alones *o);

/* Unmaps some of these stacks. Returns whether more of them are to be unmapped. */
bool uproc__drop_alones(struct uproc_alones *o);

static inline void uproc__take_left(struct uproc *p)
{
	if (__builtin_expect(*usched__left(&p->p_sched) != NULL, 0))
		uproc__sort_left(p);
}

/* ---- uproc_ring.c ---- */

/* The list of all schedulers, linked by r_other. */
extern struct uprocs *uproc__schedulers;

/* Returns whether the observer wants calls. Called in each look for events and by senders
   of mail, but not in switches. */
static inline bool uproc__is_watched(void)
{
	return uproc__observer.po_wanted && GET(*uproc__observer.po_wanted);
}

/* Called in s_next. Calls the observer, which begins or ends to observe `p'. */
static inline void uproc__look_at_observer(struct uproc *p)
{
	if (uproc__is_watched() || GET(p->p_ring))
		uproc__observer.po_look(p);
}

/* Counts n more threads in p_started, and makes room for n more in the ring of `p'.
   Returns 0 or -ENOMEM. */
int uproc__count_started(struct uproc *p, uint32_t n);

/* Returns the number of threads of `p' that have not begun. */
uint32_t uproc__new_of(const struct uproc *p);

/* Puts p_larger in place of the ring of `p'. Some native thread has allocated it. */
void uproc__adopt_room(struct uproc *p);

/* Makes `t' runnable. `t' is new or has moved to `p'. */
static inline void uproc__make_runnable(struct uproc *p, struct uproc_thread *t)
{
	if (p->p_mask + 1 < LOAD(p->p_room))
		uproc__adopt_room(p);
	uproc_push(p, t);
}

/* Frees a record. Records are in the cache of the calling processor, not of `p'. So
   threads that start each other have records near each other in memory. */
void uproc__put_record(struct uproc *p, struct uproc_thread *t);

/* Ends the sleep of `p'. Called after the caller has seen PARKED in the inbox of `p'. */
void uproc__unpark(struct uproc *p);

/* Pushes `t', which is in no inbox, to the inbox of `p', and unparks `p' if needed. */
void uproc__push_inbox(struct uproc *p, struct uproc_thread *t);

/* ---- uproc_name.c ---- */

/*
 * Names a thread before its start; the start then sets UPROC_MAIL_NAMED. An empty text
 * gives no name. Returns 0 or -ENOMEM.
 */
int uproc__begin_name(const struct ustack *u, const char *text);

/* Drops the name of `u'. `u' has UPROC_MAIL_NAMED and has ended. */
void uproc__forget_name(const struct ustack *u);

/* In the child of a fork: forgets all names, and initializes their lock anew. */
void uproc__forget_names(void);

/* The lists of names, linked by nm_next. A thread's address selects the list. */
enum { UPROC_NAME_LISTS = 4096 };
extern struct uproc_name *uproc__names[UPROC_NAME_LISTS];

struct uproc_name {
	const struct ustack *nm_thread; /* the thread that has the name */
	char                 nm_text[USTACK_NAME_MAX];
	struct uproc_name   *nm_next;
};

/* ---- uproc_local.c ---- */

/* The most ranges of addresses that are noted for one native thread. */
enum { UPROC_LOCALS = 16 };

struct uproc_local {
	uintptr_t lo_begin, lo_end;
};

struct uproc_locals {
	unsigned ls_count;              /* ranges noted in ls_range; 0: none yet */
	bool     ls_full;               /* ls_range has no room for all */
	struct uproc_local ls_range[UPROC_LOCALS];
};

/* True in the child of a fork. Threads that have run then stay: see uproc_local.c. */
extern bool uproc__local_lost;

/* Notes the ranges of the calling native thread. */
void uproc__note_locals(struct uproc_locals *l);

/* Returns whether the frames of `u', which has blocked on this native thread, may contain
   an address in a range of `l'. */
bool uproc__keeps_local(const struct uproc_locals *l, const struct ustack *u);

/* ---- uproc_move.c ---- */

/*
 * uproc__ask() asks other processors for threads while `p' is idle, and does not wait for
 * an answer. uproc__stop_asking() withdraws the request at the time `now'.
 */
void uproc__ask(struct uproc *p);
void uproc__stop_asking(struct uproc *p, int64_t now);

/* Gives threads of `p' to processors that ask; or, if `p' rests, to all below the limit.
   A processor that rests and has asked before no longer asks. */
void uproc__give(struct uproc *p);

/*
 * Decides whether the calling processor draws `t', a thread of `o' that the caller
 * wakes. If so, notes in `o' that `t' is to move here. After this call the caller pushes
 * `t' to the inbox of `o'.
 */
void uproc__draw(struct uproc *o, const struct uproc_thread *t);

/* `t' is in the inbox of `p'. Returns the processor that draws `t', or NULL. */
struct uproc *uproc__drawer(struct uproc *p, const struct uproc_thread *t);

/* Moves `t' from `p' to `q', or returns false. `t' is runnable and in no queue. */
bool uproc__follow(struct uproc *p, struct uproc_thread *t, struct uproc *q);

/* Makes `p' the owner of `t', which has moved here, or was started from elsewhere. */
void uproc__arrive(struct uproc *p, struct uproc_thread *t);

/* `u' has ended. If its stack is another processor's, puts the stack into p_foreign. */
void uproc__leave_stack(struct uproc *p, struct ustack *u);

/* Returns the stacks in p_foreign to their processors, except the stack that the caller
   is on. Takes in the stacks of `p' that other processors have returned. */
void uproc__exchange_stacks(struct uproc *p);

/* Returns whether a processor asks for threads, and threads of `p' may move. */
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
	if (p->p_moves && !p->p_barren
	    && (uproc__rests(p) || (!p->p_asks && uproc__is_wanted(p))))
		uproc__give(p);
}

static inline void uproc__return_stacks(struct uproc *p)
{
	if (p->p_foreign || GET(p->p_returned))
		uproc__exchange_stacks(p);
}

/* ---- uproc_mail.c ---- */

/* Adds `more' tokens to u_tokens of a thread, as many as fit, and drops the excess. */
static inline void uproc__add_tokens(int32_t *tokens, uint32_t more)
{
	uint32_t most = uproc_most(*tokens);
	uint32_t room = most - ((uint32_t)*tokens & most);  /* 0: UPROC_WAITING */

	SET(*tokens, *tokens + (int32_t)(more < room ? more : room));
}

/* `t' has ended and is in no list: tells its joiner, or frees `t' if detached. */
void uproc__settle_thread(struct uproc *p, struct uproc_thread *t);

/* The call-backs s_wake, s_cancel and s_interrupt. */
int  uproc__wake(struct usched *s, struct ustack *u);
int  uproc__cancel(struct usched *s, struct ustack *u);
void uproc__interrupt(struct usched *s, struct ustack *u);

/* ---- uproc_report.c ---- */

/*
 * Reports the threads that are stuck. All processors are parked, and threads are left.
 * Tells the threads that join others. Returns false if no thread joins.
 */
bool uproc__report_stuck(struct uprocs *r);

/* Returns the number of threads, which is not exact while processors run. */
uint32_t uproc__threads(const struct uprocs *r);

/* The call-back s_changed, in builds with USCHED_CHECK: reports `u', and aborts. */
void uproc__report_changed(const struct usched *s, const struct ustack *u);

/* In builds with USCHED_CHECK: writes to standard error which thread `u' is. */
void uproc__introduce(const struct ustack *u);

/* Sets `text' to a space and the name of `u' in quotes, or to "" if `u' has no name.
   Returns `text'. */
const char *uproc__quote_name(const struct ustack *u, char text[USTACK_NAME_MAX + 4]);

/* Writes a line of a report to c_log or standard error. */
void uproc__print(const struct uprocs *r, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/* ---- uproc_tidy.c ---- */

/* Returns the time when `p' is next to give memory back, or USCHED_NEVER. Called before
   sleeps, and in looks for events. */
int64_t uproc__tidy_time(struct uproc *p);

/* After a sleep: if a step is due, gives back memory. Returns whether one was due. */
bool uproc__tidy_idle(struct uproc *p);

/* While threads are ready: if a step is due, gives back memory. */
void uproc__tidy_busy(struct uproc *p);

/* ---- uproc_park.c ---- */

/* Makes the native threads of the processors below the limit. Returns 0, -ENOMEM or
   -EAGAIN. */
int  uproc__start_natives(struct uprocs *r);

/* Makes the native thread of the next processor, which counts as parked until then.
   Returns 0, -ENOMEM or -EAGAIN. */
int  uproc__start_native(struct uprocs *r);

/* Ends all native threads, which have nothing to run. */
void uproc__stop_natives(struct uprocs *r);

/*
 * Finds out whether all threads have ended or are in a deadlock. Tells joiners of a
 * deadlock. Returns whether all threads have ended. Called under r_lock, by a native
 * thread that waits for the end of one thread or of all.
 */
bool uproc__detect_end(struct uprocs *r);

/* Returns whether no event can come and no native thread holds the scheduler. The caller
   must hold no lock. */
bool uproc__is_stuck(struct uproc *p);

/* Removes the mark PARKED, if it is in the inbox of `p'. Returns whether it was. */
bool uproc__unmark(struct uproc *p);

/* The call-back s_linger: see uproc_park.c. */
int uproc__linger(struct usched *s, const uint8_t *word, uint8_t value);

/* ---- uproc_join.c ---- */

/*
 * Called on a native thread. Waits until `t' has ended, and frees `t'. If `t' is NULL,
 * waits until all threads have ended; no other native thread may then wait here.
 * Returns 0; -EDEADLK; -ETIMEDOUT; -EINVAL from claim(); -EPERM if another native thread
 * waits; -EBUSY if the driven processor is running already.
 */
int  uproc__await(struct uprocs *r, struct uproc_thread *t, void **value,
		  int64_t deadline);

/* The call-backs s_done, s_detach and s_join. */
void uproc__done(struct usched *s, struct ustack *u);
int  uproc__detach(struct usched *s, struct ustack *u);
int  uproc__join(struct usched *s, struct ustack *u, void **value, int64_t deadline);

/* ---- uproc_start.c ---- */

/* The call-back s_start. */
int uproc__start_beside(struct usched *s, const struct ustack_how *how,
			void (*func)(void *), void *arg, struct ustack **thread);

/* ---- uproc.c ---- */

/* Makes the dispatcher of `p', and those parts that r_moving also has. Returns 0 or an
   error of usched_init(). */
int  uproc__init(struct uproc *p, struct uprocs *r, const struct uproc_policy *policy);

/* Makes slices and a ring for a processor. Returns 0 or an error of uprocs_create(). */
int  uproc__make_parts(struct uproc *p);

/* Makes stacks and events, where they are missing, for a processor that will run. Returns
   0 or an error of uprocs_create(). */
int  uproc__make_stacks(struct uproc *p);

/* Frees what uproc__init() and the functions above have made. */
void uproc__fini(struct uproc *p);

#pragma GCC visibility pop

#endif /* USCHED_PRIVATE_PROC_H */
