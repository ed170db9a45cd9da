/* SPDX-License-Identifier: MIT */
/*
 * uwait.h: how to wait for somebody who may be anywhere: what usync.c and unet.c are made
 * of, and other things can be. Over any scheduler, and for native threads as well.
 *
 * Who waits is a waiter: there is one for each thread that ever waited here, and for
 * each native thread. It puts nodes into queues, under their locks, blocks, and is
 * granted once: by who takes a node of it out of a queue, by its deadline, or because it
 * was cancelled.
 *
 *	rc = uwait_prepare(&w, deadline);       nobody knows yet; this may fail
 *	if (rc)
 *		return rc;
 *	lock the queue
 *	if (what it wants is there) {
 *		unlock the queue
 *		return 0;
 *	}
 *	uwait_begin(w);
 *	uwait_push(queue, &w->w_node);
 *	unlock the queue
 *	rc = uwait_block(w);                    the result of the grant
 *	if (rc < 0) {
 *		lock the queue                  nobody took the node
 *		uwait_remove(queue, &w->w_node);
 *		unlock the queue
 *	}
 *
 * Nodes and waiters are never on a thread's stack, where others could not follow a
 * pointer to them while the thread is blocked.
 */
#ifndef USCHED_WAIT_H
#define USCHED_WAIT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "uevents.h"
#include "ustack.h"

#ifdef __cplusplus
extern "C" {
#endif

struct uwaiter;

/* What is waited for. */
struct uwait_kind {
	const char *k_name;             /* such as "mutex" */
	void (*k_tell)(const struct uwaiter *w, struct ustack_why *why);        /* what there
					   is to say beyond name and address; or NULL */
};

struct uwait_node {
	struct uwait_node *n_next;
	struct uwait_node *n_prev;      /* of the first, itself; NULL: it is in no queue */
	struct uwaiter    *n_waiter;
	uintptr_t          n_tag;       /* the queue's */
};

/* Zeros are an empty queue. */
struct uwait_queue {
	struct uwait_node *q_first;
	struct uwait_node *q_last;
};

struct uwaiter {
	/* Its own native thread's. */
	struct ustack_attachment w_attachment;
	struct ustack      *w_thread;   /* NULL: a native thread, which w_native tells more of */
	struct uwait_native *w_native;
	uintptr_t           w_name;     /* of the thread or native thread: no two have the same */
	struct utimer       w_timer;    /* may be armed for an earlier time than the deadline */
	int64_t             w_deadline; /* of the wait that is going on */
	uint8_t             w_joins;    /* 1: in s_join; 2: and the deadline came */
	uint8_t             w_counted;  /* by uevents_count() */
	int                 w_owed;     /* wakes by grants that no block has taken */
	void               *w_room;     /* for nodes, see uwait_room() */
	size_t              w_size;     /* of w_room, bytes */
	void               *w_values;   /* of keys, usync.c's; freed with it */

	/* For reports: uwait_note(). */
	const struct uwait_kind *w_kind;
	const void         *w_object;
	const void         *w_where;

	/* Who grants writes it. */
	uint32_t            w_state;    /* atomic: enum in uwait.c */
	int                 w_result;

	struct uwait_node   w_node;     /* for who waits in one queue only */
};

/* A lock for some instructions: who holds it may not block. Zeros are an open one. */
struct uwait_lock {
	uint32_t l_held;
};

void uwait_lock_slow(struct uwait_lock *l);

static inline void uwait_lock(struct uwait_lock *l)
{
	if (__atomic_exchange_n(&l->l_held, 1, __ATOMIC_ACQUIRE))
		uwait_lock_slow(l);
}

static inline void uwait_unlock(struct uwait_lock *l)
{
	__atomic_store_n(&l->l_held, 0, __ATOMIC_RELEASE);
}

/*
 * The waiter of the calling thread or native thread; it is made if there is none, and
 * ends with the thread.
 * NULL: no memory.
 * Does not switch.
 */
struct uwaiter *uwait_self(void);

/* The w_name of the caller, even, without making a waiter. Does not switch. */
uintptr_t uwait_name(void);

/*
 * Sees to it that uwait_block() cannot fail: *w is the caller's waiter.
 * 0; -ENOMEM: for a waiter, or for the thread's image; -ECANCELED; -ETIMEDOUT: the
 * deadline is 0 or less, that is, the caller does not want to wait; -ENOTSUP, -EMFILE, -ENFILE,
 * -ENOSPC: there is a deadline and the scheduler has no events, or cannot make them; -EFAULT as
 * ustack_block(). Does not switch.
 */
int uwait_prepare(struct uwaiter **w, int64_t deadline);

/* As uwait_prepare() for a wait that somebody outside of all threads will end. */
int uwait_prepare_outside(struct uwaiter **w, int64_t deadline);

/*
 * Notes what the wait that was prepared is for, an object of that kind or NULL, and the
 * return address of the call in question: __builtin_return_address(0) in a function that is
 * UWAIT_CALL, lest it be inlined. For reports; who does not is said to wait for a grant.
 */
static inline void uwait_note(struct uwaiter *w, const struct uwait_kind *kind,
			      const void *object, const void *where)
{
	w->w_kind = kind;
	w->w_object = object;
	w->w_where = where;
}

#define UWAIT_CALL __attribute__((noinline))

/*
 * The events that will end the wait which is prepared: those of the thread's dispatcher; a native
 * thread has some of its own, which are made if there are none, and waits in there.
 * 0; -ENOMEM; -EMFILE, -ENFILE, -ENOSPC: no descriptor or interest left.
 * After uwait_prepare_outside(). Does not switch.
 */
int uwait_events(struct uwaiter *w, struct uevents **e);

/*
 * Memory for nodes and what belongs to them, at least `size' bytes, aligned to 16; `w'
 * keeps it. NULL: no memory. Not while it waits.
 */
void *uwait_room(struct uwaiter *w, size_t size);

/*
 * The wait of `w' begins: from now on it can be granted. Under the lock of the first
 * queue that it is pushed to, before that.
 */
void uwait_begin(struct uwaiter *w);

/*
 * Blocks until the wait has been granted; nodes that nobody popped are still in their
 * queues then. The result of the grant; -ETIMEDOUT; -ECANCELED; -ENOMEM: its frames are
 * much deeper than those of uwait_prepare() were, and there is no image for them.
 * Switches.
 */
int uwait_block(struct uwaiter *w);

/*
 * Ends the wait, which the waiter itself has begun and not blocked in; false: somebody
 * has claimed it, uwait_block() will return at once.
 */
bool uwait_withdraw(struct uwaiter *w);

/*
 * ustack_join() with a deadline, by a thread. `where' is in the call, for reports.
 * Switches.
 */
int uwait_join(struct ustack *u, const void *where, int64_t deadline);

/*
 * Takes it on to end the wait of `w'; false: it does not wait, or somebody else does.
 * Until uwait_finish() the waiter stays where it is, so its nodes can be written to.
 * Under the lock of a queue in which `w' has a node; or from its own native thread.
 * Does not switch.
 */
bool uwait_claim(struct uwaiter *w);

/*
 * Has uwait_block() return `result', at least 0. From any native thread. Does not
 * switch.
 */
void uwait_finish(struct uwaiter *w, int result);

/* All under the queue's lock. */
void uwait_push(struct uwait_queue *q, struct uwait_node *n);
void uwait_remove(struct uwait_queue *q, struct uwait_node *n);         /* if it is there */

/* Takes the first out whose waiter can be claimed. NULL: there is none. */
struct uwait_node *uwait_pop(struct uwait_queue *q);

#ifdef __cplusplus
}
#endif

#endif /* USCHED_WAIT_H */
