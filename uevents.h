/* SPDX-License-Identifier: MIT */
/*
 * uevents.h: timers, and descriptors that become ready, for the threads of a dispatcher.
 * Each dispatcher has one struct uevents, s_events. The first wait of a thread for an
 * event makes s_events. Programs use usync.h and unet.h instead of this header.
 *
 * If s_polls is 1, the scheduler must
 *
 *  - call uevents_look() in s_next regularly while threads are ready. Before each call
 *    the scheduler decides whether the blocking thread goes on at once, since the call
 *    may wake threads, and these join the queue;
 *  - sleep in s_next only by uevents_sleep(), and end such a sleep by
 *    uevents_interrupt();
 *  - call uevents_close() after the dispatcher's last use.
 *
 * These calls do nothing for a dispatcher without events. If s_polls is 0, a call of a
 * thread fails with -ENOTSUP if the call needs a deadline or has to wait for a
 * descriptor.
 *
 * Timers expire, and ready descriptors are found, only when s_next makes these calls. So
 * a thread that computes for long delays both, unless it calls ustack_check(). After
 * fork(2) the child must not use these events, nor run the dispatcher.
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

/* The function that is called when a timer expires. All timers of a dispatcher have the
   same function. It may not block, and may arm the timer again. */
typedef void uexpired_fn(struct uexpiry *x);

/* A registered descriptor. Part of an object that is never freed. */
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
 * The events of a dispatcher. The inline functions below call the functions in this
 * struct. Programs may read the counters.
 */
struct uevents {
	void (*e_poll)(struct uevents *e, int64_t until);
	void (*e_interrupt)(struct uevents *e);
	void (*e_close)(struct uevents *e);
	int  (*e_expose)(struct uevents *e);
	void (*e_arm)(struct uevents *e, struct uexpiry *x, uexpired_fn *expired);
	void (*e_disarm)(struct uevents *e, struct uexpiry *x);

	uint64_t e_serial;      /* unique in the process, not 0: constant */

	/* Written on the dispatcher's native thread; read by all. */
	uint32_t e_waiting;     /* threads that wait for events: uevents_waited() */
	uint64_t e_ready;       /* descriptors that the kernel has found ready, so far */
	uint64_t e_expired;     /* timers and deadlines that have come, so far */
};

/* Values for `until' in e_poll that are not times. */
#define UEVENTS_RUN  ((int64_t)0)       /* run what is due or ready; do not sleep */
#define UEVENTS_LOOK ((int64_t)-1)      /* the same, unless that was done just now */

/*
 * Sets *e to the events of `s', and makes the events at the first call. If the process
 * has no descriptors left for the poller, timers and interrupts work all the same, and
 * each uevents_add() tries again to open the poller.
 * 0; -ENOMEM: no memory; -ENOTSUP: `s' does not look for events (s_polls).
 * From the dispatcher's native thread.
 */
int uevents_of(struct usched *s, struct uevents **e);

/*
 * Makes events without a dispatcher for the calling native thread, and sets *e to these
 * events. Close them with e_close.
 * 0; -ENOMEM: no memory.
 */
int uevents_create(struct uevents **e);

/*
 * Registers `fd' until `fd' is closed. Each time that `fd' becomes ready for one of
 * `ways' (an edge: EPOLLET), in_ready is called on the dispatcher's native thread. `ways'
 * are UEVENTS_INPUT, UEVENTS_URGENT, UEVENTS_OUTPUT and UEVENTS_PEER_END. If
 * UEVENTS_OUTPUT is one of `ways', or if `fd' is registered already, in_ready is called
 * for all four. in_ready is always called for errors and hang-ups.
 *
 * 0; -EBADF: `fd' is no descriptor; -EEXIST: `fd' was registered already, new ways were
 * added, and in_ready is called once more if `fd' is ready; -ENOMEM: no memory; -EMFILE,
 * -ENFILE: no descriptors are left for the poller; -EPERM: `fd' is a file, which is
 * always ready; -ENOSPC: no watch of epoll(7) is left. From any native thread.
 */
int uevents_add(struct uevents *e, int fd, unsigned ways, struct uinterest *i);

/*
 * Private: as uevents_add(). If `fd' is registered for the ways already, and is still the
 * same file, the call returns -EEXIST and changes nothing.
 */
int uevents__again(struct uevents *e, int fd, unsigned ways, struct uinterest *i)
	__attribute__((visibility("hidden")));

/*
 * Undoes the registration of `fd', if there is one. close(2) does that, too.
 * From the native thread of `e'.
 */
void uevents_remove(struct uevents *e, int fd);

/*
 * Undoes the registrations of `fd' with all dispatchers of the process. `fd' stays open.
 * From any native thread.
 */
void uevents_forget(int fd);

/* Private: see usched__forked(). */
void uevents__hold(int on);
void uevents__forked(void);

/*
 * Private: descriptors of the library have numbers that programs seldom use, and posix/
 * keeps programs from closing them. uevents__own() moves a new descriptor to such a
 * number if possible, notes that the number is the library's, and returns the number.
 * uevents__own(-1) returns -1. uevents__disown() removes the note before a close(2), and
 * returns `fd'. uevents__next_own() returns the first noted number from `first' to
 * `last', or -1.
 * From any native thread.
 */
int uevents__own(int fd);
int uevents__disown(int fd);
int uevents__next_own(unsigned first, unsigned last);

/* Returns the time now, in ns of CLOCK_MONOTONIC. From anywhere. */
int64_t uevents_now(void);

/*
 * Returns the time of the next tick of the system's coarse clock, in ns. The call is
 * faster than uevents_now(), and the time is later than now, by up to the length of a
 * tick. From anywhere.
 */
int64_t uevents_next_tick(void);

/*
 * Returns whether a thread waits for an event: a timer, the kernel, or a native thread
 * that works for the thread. If no thread waits for an event and no thread is ready, the
 * scheduler has a deadlock, or needs wakes by other native threads.
 * From any native thread.
 */
static inline int uevents_waited(const struct usched *s)
{
	struct uevents *e = __atomic_load_n(&s->s_events, __ATOMIC_ACQUIRE);

	return e && __atomic_load_n(&e->e_waiting, __ATOMIC_ACQUIRE) > 0;
}

/*
 * Counts threads for uevents_waited(). If `n' is 1, a thread starts to wait for an event;
 * if `n' is -1, a thread stops waiting for an event. uwait_block() makes this call by
 * itself.
 * From the native thread of `e'.
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
 * Sleeps until an event or an interrupt, but not beyond `until': a time of
 * CLOCK_MONOTONIC in ns, or USCHED_NEVER. The sleep may end early. So look for work, and
 * then sleep again.
 * Returns 1; 0: the dispatcher has no events, so the call did not sleep.
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
 * Ends the uevents_sleep() that is going on. If there is none, ends the next
 * uevents_sleep(). A native thread that wakes a thread notes the wake in the scheduler,
 * under a lock, and then makes this call; the scheduler looks for such notes before and
 * after a sleep.
 * Returns 1; 0: the dispatcher has no events, and so sleeps in another way.
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
 * Closes the events. Afterwards threads of `s' may be aborted, but must not run.
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
