/* SPDX-License-Identifier: MIT */
/*
 * uevents.h: timers, and descriptors that become ready, for the threads of a dispatcher.
 * Each dispatcher has one struct uevents, which the first such wait of a thread makes:
 * then s_events is set. Programs use usync.h and unet.h instead.
 *
 * If s_polls is 1, the scheduler must
 *
 *  - call uevents_look() in s_next, regularly while threads are ready. The scheduler
 *    decides before whether the blocking thread goes on at once, since threads that
 *    events wake join the queue;
 *  - sleep by uevents_sleep() and no other call, in s_next, and end that sleep by
 *    uevents_interrupt();
 *  - call uevents_close() after the dispatcher's last use.
 *
 * These calls do nothing for a dispatcher without events. If s_polls is 0, threads have
 * no deadlines and wait for no descriptors: such calls fail with -ENOTSUP.
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

/* A timer. Used on the dispatcher's native thread only. */
struct uexpiry {
	int64_t         x_when;                 /* ns of CLOCK_MONOTONIC */
	struct uexpiry *x_child;                /* private: the heap */
	struct uexpiry *x_next;
	struct uexpiry *x_prev;                 /* NULL: not armed */
};

/* The function of all timers of a dispatcher. It may not block, and may arm the timer
   again. */
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
	uint64_t e_ready;       /* descriptors that the kernel has found ready, so far */
	uint64_t e_expired;     /* timers and deadlines that have come, so far */
};

/* Times for uevents_sleep() that stand for no time. */
#define UEVENTS_RUN  ((int64_t)0)       /* run what is due or ready; do not sleep */
#define UEVENTS_LOOK ((int64_t)-1)      /* UEVENTS_RUN, unless done just now */

/*
 * Sets *e to the events of `s', and makes the events at the first call. If the process
 * has no descriptors left, timers and interrupts work all the same; the first
 * uevents_add() that finds descriptors opens the poller.
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
 * Private: as uevents_add(). If `fd' is registered for the ways already, and is the same
 * file as then, returns -EEXIST and changes nothing.
 */
int uevents__again(struct uevents *e, int fd, unsigned ways, struct uinterest *i)
	__attribute__((visibility("hidden")));

/*
 * Undoes the registration of `fd', if there is one; close(2) does so by itself.
 * From the native thread of `e'.
 */
void uevents_remove(struct uevents *e, int fd);

/*
 * Undoes the registrations of `fd', which stays open, with all events of the process.
 * From any native thread.
 */
void uevents_forget(int fd);

/* Private: see usched__forked(). */
void uevents__hold(int on);
void uevents__forked(void);

/*
 * Private: descriptors of the library have numbers that programs seldom name, and posix/
 * keeps programs from closing them. uevents__own() moves a new descriptor, or -1, to such
 * a number if possible, and returns the number. uevents__disown() ends that before a
 * close(2), and returns `fd'. uevents__next_own() returns the first such number in a
 * range, or -1.
 * From any native thread.
 */
int uevents__own(int fd);
int uevents__disown(int fd);
int uevents__next_own(unsigned first, unsigned last);

/* Returns the time now, in ns of CLOCK_MONOTONIC. From anywhere. */
int64_t uevents_now(void);

/*
 * Returns the next tick of the system's coarse clock, in ns. The clock is faster to read
 * than uevents_now(), and the tick is later than now by up to one tick. From anywhere.
 */
int64_t uevents_next_tick(void);

/*
 * Returns whether a thread waits for an event: a timer, the kernel, or a native thread
 * that works for the thread. If none does, and no thread is ready, the scheduler has a
 * deadlock, or waits for wakes by other native threads.
 * From any native thread.
 */
static inline int uevents_waited(const struct usched *s)
{
	struct uevents *e = __atomic_load_n(&s->s_events, __ATOMIC_ACQUIRE);

	return e && __atomic_load_n(&e->e_waiting, __ATOMIC_ACQUIRE) > 0;
}

/*
 * Counts a thread that begins, with `n' 1, or ends, with -1, to wait for an event, for
 * uevents_waited(). uwait_block() makes this call by itself.
 * From its native thread.
 */
static inline void uevents_count(struct uevents *e, int n)
{
	__atomic_store_n(&e->e_waiting, e->e_waiting + (uint32_t)n, __ATOMIC_RELEASE);
}

/*
 * Expires timers and finds descriptors that are ready, unless that was done just now. May
 * make threads runnable.
 * From s_next, while threads are ready.
 */
static inline void uevents_look(struct usched *s)
{
	if (s->s_events)
		s->s_events->e_poll(s->s_events, UEVENTS_LOOK);
}

/*
 * Sleeps until an event or an interrupt, but not beyond `until', ns of CLOCK_MONOTONIC
 * or USCHED_NEVER. The sleep may end early: look for work, and sleep again.
 * 1; 0: the dispatcher has no events, and the call did not sleep.
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
 * Ends the uevents_sleep() that is going on, or else the next one. A native thread that
 * wakes a thread notes the wake in the scheduler, under a lock, and then makes this call;
 * the scheduler looks for such notes before and after a sleep.
 * 1; 0: the dispatcher has no events, so the scheduler sleeps in a way of its own.
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
 * Closes the events. Afterwards threads of `s' may be aborted, and must not run.
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
