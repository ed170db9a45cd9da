/* SPDX-License-Identifier: MIT */
/*
 * uevents.h: timers, and descriptors that become ready, for the threads of a dispatcher.
 * Each dispatcher has one struct uevents, made when a thread first waits for such a
 * thing: then s_events is set. Programs use usync.h and unet.h instead.
 *
 * A scheduler of which s_polls is 1 promises, in s_next:
 *
 *  - to call uevents_look() every so often while threads are ready, after it has seen
 *    that the blocking thread does not go on at once: a thread that an event wakes
 *    queues up;
 *  - to call uevents_sleep() instead of another way of sleeping, and uevents_interrupt()
 *    to end that sleep;
 *  - to call uevents_close() after the dispatcher's last use.
 *
 * All three do nothing where there are no events. With s_polls 0 threads have no
 * deadlines and wait for no descriptors: these calls fail with -ENOTSUP.
 *
 * Timers expire, and descriptors are seen to be ready, when s_next looks. A thread that
 * computes for long delays both, unless it gives way: ustack_check(). After fork(2) the
 * child must not use these events, nor run the dispatcher.
 *
 * No call switches. A call that takes a struct uevents is for the dispatcher's native
 * thread, unless the comment on the call says otherwise.
 */
#ifndef USCHED_EVENT_H
#define USCHED_EVENT_H

#include <stddef.h>
#include <stdint.h>

#include "usched.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A time to come. Used on the dispatcher's native thread only. */
struct uexpiry {
	int64_t         x_when;                 /* ns of CLOCK_MONOTONIC */
	struct uexpiry *x_child;                /* private: the heap */
	struct uexpiry *x_next;
	struct uexpiry *x_prev;                 /* NULL: not armed */
};

/* The function of all expiries of a dispatcher: called disarmed, may not block. */
typedef void uexpired_fn(struct uexpiry *x);

/* A registered descriptor: part of an object that is never freed. */
struct uinterest {
	void (*in_ready)(struct uinterest *i, unsigned ready);  /* may not block */
};

/* What a descriptor is ready for. On Linux these are epoll's bits. */
enum {
	UEVENTS_INPUT    = 0x1,
	UEVENTS_URGENT   = 0x2,         /* out-of-band data */
	UEVENTS_OUTPUT   = 0x4,
	UEVENTS_ERROR    = 0x8,
	UEVENTS_HANGUP   = 0x10,        /* both directions have ended */
	UEVENTS_PEER_END = 0x2000,      /* the peer writes no more */
};

/*
 * The events of a dispatcher. The functions are for the inline calls below; programs
 * read the counters.
 */
struct uevents {
	void (*e_poll)(struct uevents *e, int64_t until);
	void (*e_interrupt)(struct uevents *e);
	void (*e_close)(struct uevents *e);
	int  (*e_expose)(struct uevents *e);
	void (*e_arm)(struct uevents *e, struct uexpiry *x, uexpired_fn *expired);
	void (*e_disarm)(struct uevents *e, struct uexpiry *x);

	uint64_t e_serial;      /* unique in the process, not 0: constant */

	/* Owned by its native thread; read by all. */
	uint32_t e_waiting;  /* threads that wait for time, kernel or a native thread */
	uint64_t e_ready;       /* counts descriptors that the kernel has found ready, */
	uint64_t e_expired;     /* and timers and deadlines that have come */
};

/* Times for uevents_sleep(), besides those until which it may sleep. */
#define UEVENTS_RUN  ((int64_t)0)       /* run what is due or ready; do not sleep */
#define UEVENTS_LOOK ((int64_t)-1)      /* the same, unless that was done just now */

/*
 * Sets *e to the events of `s', which are made if there are none. Without descriptors
 * left they have timers and interrupts, until uevents_add() finds some.
 * 0; -ENOMEM: no memory; -ENOTSUP: `s' does not look for events (s_polls).
 * From the dispatcher's native thread.
 */
int uevents_of(struct usched *s, struct uevents **e);

/*
 * Makes events without a dispatcher in *e, for the calling native thread. Close them
 * with e_close.
 * 0; -ENOMEM: no memory.
 */
int uevents_create(struct uevents **e);

/*
 * Registers `fd': in_ready is called, on the dispatcher's native thread, when it becomes
 * ready for one of `ways', which are UEVENTS_INPUT, UEVENTS_URGENT, UEVENTS_OUTPUT and
 * UEVENTS_PEER_END. in_ready is called for all of these ways if UEVENTS_OUTPUT is one of
 * `ways', or if `fd' is registered already; for errors and hang-ups always.
 *
 * That is at each edge (EPOLLET), until `fd' is closed.
 *
 * 0; -EBADF: `fd' is no descriptor; -EEXIST: `fd' is registered already; new ways are
 * added, and in_ready is called once more if `fd' is ready; -ENOMEM: no memory; -EMFILE,
 * -ENFILE: no descriptors left for the poller; -EPERM: a file, which is always ready;
 * -ENOSPC: no watch of epoll(7) left. From any native thread.
 */
int uevents_add(struct uevents *e, int fd, unsigned ways, struct uinterest *i);

/*
 * Private: registers `fd', unless it is registered for the ways already, and its number
 * is not another file's now: then -EEXIST, and nothing has changed. Else as
 * uevents_add().
 */
int uevents__again(struct uevents *e, int fd, unsigned ways, struct uinterest *i)
	__attribute__((visibility("hidden")));

/*
 * Undoes a registration, if there is one. close(2) does so, too.
 * From the native thread of `e'.
 */
void uevents_remove(struct uevents *e, int fd);

/*
 * Undoes the registrations of `fd' with all events of the process: for an `fd' that stays
 * open.
 * From any native thread.
 */
void uevents_forget(int fd);

/* Private: see usched__forked(). */
void uevents__hold(int on);
void uevents__forked(void);

/*
 * Private: descriptors of the library's own have numbers that programs seldom name, and
 * posix/ keeps programs from closing them. uevents__own() moves `fd', which is -1 or new
 * and close-on-exec, there if it can, and returns its number. uevents__disown(), before
 * its close(2), returns `fd'. uevents__next_own() returns the first in this range, or -1.
 * From any native thread.
 */
int uevents__own(int fd);
int uevents__disown(int fd);
int uevents__next_own(unsigned first, unsigned last);

/* Returns the time now, in ns of CLOCK_MONOTONIC. From anywhere. */
int64_t uevents_now(void);

/*
 * Returns the next tick of the system's coarse clock, in ns: faster to read, and later
 * than now by up to one tick. From anywhere.
 */
int64_t uevents_next_tick(void);

/*
 * Returns whether a thread waits for more than other threads: a timer, the kernel, or a
 * native thread that works for it. With 0 nothing will happen by itself: a scheduler
 * with nothing to run has a deadlock, or waits for other native threads.
 * From any native thread.
 */
static inline int uevents_waited(const struct usched *s)
{
	struct uevents *e = __atomic_load_n(&s->s_events, __ATOMIC_ACQUIRE);

	return e && __atomic_load_n(&e->e_waiting, __ATOMIC_ACQUIRE) > 0;
}

/*
 * Counts a thread that begins, with `n' 1, or ends, with -1, to wait for an event, for
 * uevents_waited(). uwait_block() does so itself.
 * From its native thread.
 */
static inline void uevents_count(struct uevents *e, int n)
{
	__atomic_store_n(&e->e_waiting, e->e_waiting + (uint32_t)n, __ATOMIC_RELEASE);
}

/*
 * Does what is due or ready, unless that was done just now. It may make threads
 * runnable.
 * From s_next, while threads are ready.
 */
static inline void uevents_look(struct usched *s)
{
	if (s->s_events)
		s->s_events->e_poll(s->s_events, UEVENTS_LOOK);
}

/*
 * Sleeps until an event or an interrupt, but not beyond `until', ns of CLOCK_MONOTONIC
 * or USCHED_NEVER. It may end for nothing: look for work, and sleep again.
 * 1; 0: there are no events, and it did not sleep.
 * From s_next, when no thread is ready.
 */
static inline int uevents_sleep(struct usched *s, int64_t until)
{
	if (!s->s_events)
		return 0;
	s->s_events->e_poll(s->s_events, until);
	return 1;
}

/*
 * Ends the uevents_sleep() that is going on, or else the next one. Another native thread
 * that wakes a thread puts the wake into a place of the scheduler's, under a lock, and
 * then calls this; the scheduler looks there before and after it sleeps.
 * 1; 0: there are no events, so what sleeps does so in the scheduler's own way.
 * From any native thread.
 */
static inline int uevents_interrupt(struct usched *s)
{
	struct uevents *e = __atomic_load_n(&s->s_events, __ATOMIC_ACQUIRE);

	if (!e)
		return 0;
	e->e_interrupt(e);
	return 1;
}

/*
 * Ends the events. No thread of `s' may call uevents any more, other than to be aborted.
 */
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
