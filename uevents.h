/* SPDX-License-Identifier: MIT */
/*
 * uevents.h: what the threads of a dispatcher wait for besides each other: time, and
 * descriptors that become ready. One struct uevents for each dispatcher, made when the
 * first thread waits for such a thing: then s_events is set.
 *
 * A scheduler that sets s_polls promises, in s_next:
 *
 *  - to call uevents_look() every so often while it has something to run, after it has
 *    seen that the thread that blocks does not go on at once: for if an event wakes that, it
 *    has its turn after the others;
 *  - to call uevents_sleep() instead of going to sleep in its own way, and
 *    uevents_interrupt() where it would wake that up;
 *  - to call uevents_close() when the dispatcher has been used for the last time.
 *
 * All three do nothing where there are no events. They go through the functions that are
 * in struct uevents, so that a program without usync.c and unet.c needs no uevents.c.
 */
#ifndef USCHED_EVENT_H
#define USCHED_EVENT_H

#include <stddef.h>
#include <stdint.h>

#include "usched.h"

#ifdef __cplusplus
extern "C" {
#endif

/* One shot. The owner's, who may only touch it on the dispatcher's native thread. */
struct utimer {
	int64_t  t_when;                        /* ns of CLOCK_MONOTONIC */
	void   (*t_expired)(struct utimer *t);  /* called when it is not armed any more; may not
						   block */
	struct utimer *t_child;                 /* private: see uevents.c */
	struct utimer *t_next;
	struct utimer *t_prev;                  /* NULL: it is not armed */
};

/* A descriptor that is watched: part of an object that is never freed. */
struct uinterest {
	void (*w_ready)(struct uinterest *w, uint32_t epoll_events);       /* may not block */
};

struct uevents {
	void (*e_poll)(struct uevents *e, int64_t until);
	void (*e_interrupt)(struct uevents *e);
	void (*e_close)(struct uevents *e);
	int  (*e_expose)(struct uevents *e);
	void (*e_arm)(struct uevents *e, struct utimer *t);
	void (*e_disarm)(struct uevents *e, struct utimer *t);

	uint64_t e_serial;      /* of no other in this process, not 0: constant */

	/* Its native thread's; read by anybody. */
	uint32_t e_waiting;     /* threads that somebody outside of all threads will wake: a timer,
				   the kernel, a native thread that works for them */
};

/* What e_poll gets, besides a time until which it may sleep. */
#define UEVENTS_RUN  ((int64_t)0)       /* whatever is due or ready; do not sleep */
#define UEVENTS_LOOK ((int64_t)-1)      /* the same, unless that was done just now */

/*
 * The events of `s', which are made if there are none.
 * 0; -ENOMEM; -EMFILE, -ENFILE, -ENOSPC: no descriptor or interest left; -ENOTSUP: `s' does
 * not look for them (s_polls).
 * From the dispatcher's native thread. Does not switch.
 */
int uevents_of(struct usched *s, struct uevents **e);

/*
 * Events of nobody yet, for a native thread outside of all dispatchers. To be closed with their
 * e_close.
 * 0; -ENOMEM, -EMFILE, -ENFILE, -ENOSPC.
 */
int uevents_create(struct uevents **e);

/*
 * Has `w' told when `fd' becomes ready for anything: edges, as of EPOLLET. Ends with fd.
 * 0 or the error of epoll_ctl(2): -EPERM for files, which are always ready; -EEXIST: it
 * has been before, and w is told once more, if it is ready.
 * From any native thread.
 */
int uevents_add(struct uevents *e, int fd, struct uinterest *w);

/* Now, in ns of CLOCK_MONOTONIC. */
int64_t uevents_now(void);

/*
 * The next tick of the system's coarse clock: later than now by up to one, and quickly
 * known.
 */
int64_t uevents_next_tick(void);

/*
 * Has t->t_expired(t) called when t->t_when has come, or moves it there. Or takes that
 * back; one that is not armed is left alone. From the dispatcher's native thread.
 */
static inline void uevents_arm(struct uevents *e, struct utimer *t)
{
	e->e_arm(e, t);
}

static inline void uevents_disarm(struct uevents *e, struct utimer *t)
{
	if (t->t_prev)
		e->e_disarm(e, t);
}

/* Whether any thread waits for more than other threads. From any native thread. */
static inline int uevents_waited(const struct usched *s)
{
	struct uevents *e = __atomic_load_n(&s->s_events, __ATOMIC_ACQUIRE);

	return e && __atomic_load_n(&e->e_waiting, __ATOMIC_ACQUIRE) > 0;
}

/* Counts a thread that waits; n is 1 or -1. From the dispatcher's native thread. */
static inline void uevents_count(struct uevents *e, int n)
{
	__atomic_store_n(&e->e_waiting, e->e_waiting + (uint32_t)n, __ATOMIC_RELEASE);
}

/* Every so often, while there is something to run. From s_next. */
static inline void uevents_look(struct usched *s)
{
	if (s->s_events)
		s->s_events->e_poll(s->s_events, UEVENTS_LOOK);
}

/*
 * Sleeps until an event or an interrupt, but not beyond `until'.
 * From s_next, when there is nothing to run. 0: there are no events, so it did not.
 */
static inline int uevents_sleep(struct usched *s, int64_t until)
{
	if (!s->s_events)
		return 0;
	s->s_events->e_poll(s->s_events, until);
	return 1;
}

/*
 * Ends the uevents_sleep() that is going on, or else the next one.
 * From any native thread. 0: there are no events, so there is none.
 */
static inline int uevents_interrupt(struct usched *s)
{
	struct uevents *e = __atomic_load_n(&s->s_events, __ATOMIC_ACQUIRE);

	if (!e)
		return 0;
	e->e_interrupt(e);
	return 1;
}

/* No thread of `s' may be left, or they will be aborted without another uevents call. */
static inline void uevents_close(struct usched *s)
{
	if (s->s_events)
		s->s_events->e_close(s->s_events);
	s->s_events = NULL;
}

#ifdef __cplusplus
}
#endif

#endif /* USCHED_EVENT_H */
