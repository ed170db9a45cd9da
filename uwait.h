/* SPDX-License-Identifier: MIT */
/*
 * uwait.h: waiters, on which usync.c and unet.c are built, and primitives of your own may
 * be. A waiter is a thread of any scheduler, or a native thread. Any
 * thread can end the wait of a waiter, whatever its processor or scheduler, and so can a
 * native thread.
 *
 * A struct uwaiter is made when a thread or native thread waits for the first time. In a
 * wait the waiter pushes nodes to queues, under their locks, and blocks. The wait ends,
 * or is granted, once: when another thread pops a node, when the deadline comes, or when
 * the thread is cancelled.
 *
 *	w = uwait_prepare(deadline, false);
 *	rc = uwait_error(w);                    nothing is published yet
 *	if (rc)
 *		return rc;
 *	lock the queue
 *	if (the condition holds) {
 *		unlock the queue
 *		return 0;
 *	}
 *	uwait_begin(w);
 *	uwait_push(queue, &w->w_node);
 *	unlock the queue
 *	rc = uwait_block(w);                    the result of the grant
 *	if (rc < 0) {
 *		lock the queue                  the node was not popped
 *		uwait_remove(queue, &w->w_node);
 *		unlock the queue
 *	}
 *
 * uwait_queue_up() does all from uwait_begin() on. A thread that ends a wait takes the
 * lock, gets the waiter from uwait_pop(), hands over what the waiter waits for, and
 * unlocks. uwait_finish() comes last, since then the waiter may free the object.
 *
 * A thread has one waiter, so no other wait may come between uwait_prepare() and
 * uwait_block() or uwait_withdraw(). A native thread that will end waits of threads has
 * to announce that by uprocs_hold().
 *
 * Nodes and waiters are on the heap, since no other thread may follow a pointer to the
 * stack of a blocked thread. The nodes of an aborted thread stay in queues, so do not use
 * the objects for which the thread waited any more.
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

/* What a thread waits for, for reports. */
struct ustack_why {
	const char *wy_kind;            /* such as "mutex"; constant, as wy_how */
	const void *wy_object;          /* the object's address, or NULL */
	const char *wy_how;             /* such as " to read"; or "" */
	char        wy_more[128];       /* further words; or "" */
	uintptr_t   wy_holder;          /* the thread that has the object, or a number of
					   a native thread; 0: no thread, or not known */
	const void *wy_where;           /* return address of the call, or NULL */
	int         wy_number;          /* 1: wy_object is a number: a descriptor */
	int         wy_woken;           /* 1: the wait is over, and a wake is on the way;
					   other members have no meaning */
};

/* The kind of object that is waited for. */
struct uwait_kind {
	const char *kd_name;            /* such as "mutex" */
	const char *kd_how;             /* such as " to read"; or NULL */
	/*
	 * Adds to the report what is known beyond name and address; or NULL. The object
	 * stays meanwhile, as the wait cannot be granted. Use uwait_try_lock(), as
	 * another thread may hold the lock of the object and wait for this call.
	 */
	void (*kd_tell)(const struct uwaiter *w, struct ustack_why *why);
	/* Called when the node has left the queue after an error; or NULL. */
	void (*kd_left)(const void *object);
	/* Called by uwait_queue_up() after a grant with a result over 0, and may wait
	   again. Then uwait_queue_up() returns what kd_again returns. Or NULL. */
	int (*kd_again)(struct uwaiter *w, const void *object);
	bool kd_sleeps;                 /* uwait_block() returns 0 at the deadline */
	bool kd_number;                 /* the object is a number */
	bool kd_held;                   /* the first word of the object is the w_name of
					   the holder, or 0, plus any of 3 low bits */
};

struct uwait_node {
	struct uwait_node *n_next;
	struct uwait_node *n_prev;      /* the node itself, if first; NULL: in no queue */
};

/* A node in uwait_room(), for waits in several queues. */
struct uwait_place {
	struct uwait_node  wp_node;     /* first */
	struct uwaiter    *wp_waiter;
};

/* Zeros are an empty queue. */
struct uwait_queue {
	struct uwait_node *q_first;
	struct uwait_node *q_last;
};

struct usync_key;

/* A thread's value of a key; NULL is no value. */
struct uwait_value {
	struct uwait_value     *vl_next;
	const struct usync_key *vl_key;
	void                   *vl_value;
	void                  (*vl_destroy)(void *value);       /* or NULL */
};

struct uwait_member;

/* Members that few waiters need. The memory of uwait_room() follows. */
struct uwait_more {
	struct uwait_value  *mr_values; /* of usync.c, or NULL; freed with the waiter */
	struct uco          *mr_inside; /* of uco.c, or NULL */
	struct uwait_member *mr_inner;  /* for the scope entered last, or NULL */
	int64_t              mr_when;   /* when the thread was cancelled, if known */
	size_t               mr_size;   /* bytes of the room */
} __attribute__((aligned(16)));

/*
 * A waiter. Primitives may use w_node, for a wait in one queue; w_thread, unless
 * w_outside is set; w_name; and w_tag, for any purpose, under the lock of the queue. The
 * size is 128 bytes if pointers have 64 bits.
 */
struct uwaiter {
	/* Owned by the native thread of the waiter. */
	struct ustack_attachment w_attachment;
	__extension__ union {
		struct ustack *w_thread;  /* unless w_outside */
		uintptr_t      w_name;    /* unique among threads and native threads */
	};
	struct uexpiry      w_expiry;   /* armed for the deadline, or earlier */
	int64_t             w_deadline; /* of the current wait */
	struct uwait_more  *w_more;     /* or NULL */

	/* For reports: uwait_note(). */
	const struct uwait_kind *w_kind;
	const void         *w_object;
	const void         *w_where;

	struct uwait_node   w_node;     /* for waits in one queue */
	bool                w_counts  : 1;      /* uevents_count() is to count the wait */
	bool                w_scoped  : 1;      /* the thread is in scopes */
	bool                w_clipped : 1;      /* w_deadline is that of a scope */
	bool                w_late    : 1;      /* the deadline came in a join */
	bool                w_cancelled : 1;    /* the thread was cancelled */
	bool                w_shield  : 1;      /* cancels and scopes have no effect */

	/* Written by the granter. */
	uint8_t             w_state;    /* atomic: enum in wait.h */

	/* Not bit fields, since other threads read a member while others change. */
	bool                w_outside;  /* the waiter of a native thread; constant */
	bool                w_tag;      /* for the primitive; under its lock */
	bool                w_joins;    /* atomic: the thread is in a join */

	/* Owned by the native thread of the waiter. */
	bool                w_counted;  /* uevents_count() has counted the wait */
	uint8_t             w_owed;     /* wakes of grants that no block has taken */
	int                 w_result;   /* written by the granter */

	uint32_t            w_size;     /* bytes, from s_alloc: constant */
};

/* A spin lock. Hold it for some instructions, never over a block. Zeros: free. */
struct uwait_lock {
	uint32_t wl_held;
};

/* Waits for a lock that is held, and takes the lock: a part of uwait_lock(). */
void uwait_lock_slow(struct uwait_lock *l);

/*
 * Takes a lock, and spins while another thread holds it. So do nothing that takes long,
 * such as to allocate memory, while you hold a lock: other processors would be kept busy.
 */
static inline void uwait_lock(struct uwait_lock *l)
{
	if (__atomic_exchange_n(&l->wl_held, 1, __ATOMIC_ACQUIRE))
		uwait_lock_slow(l);
}

/*
 * Takes a lock unless a thread holds it.
 * Returns whether the lock was taken.
 */
static inline bool uwait_try_lock(struct uwait_lock *l)
{
	return !__atomic_exchange_n(&l->wl_held, 1, __ATOMIC_ACQUIRE);
}

/* Releases a lock. */
static inline void uwait_unlock(struct uwait_lock *l)
{
	__atomic_store_n(&l->wl_held, 0, __ATOMIC_RELEASE);
}

/*
 * Returns the waiter of the calling thread or native thread. The first call makes the
 * waiter, which ends with the thread. NULL: no memory.
 * Does not switch.
 */
struct uwaiter *uwait_self(void);

/*
 * Returns the w_name of the caller, a multiple of 8, without making a waiter. No two
 * living threads or native threads have the same name.
 * Does not switch.
 */
uintptr_t uwait_name(void);

/*
 * Prepares a wait of the caller. Set `outside' if the kernel or a native thread will end
 * the wait. Then the thread is not taken for deadlocked, and the wait needs events even
 * without a deadline. No image is reserved, so uwait_block() may fail with -ENOMEM. If
 * that does more harm than a deadline would, call ustack_reserve() next.
 * Returns the caller's waiter, or an error, which uwait_error() recognizes;
 * -ENOMEM: no memory for a waiter; -ECANCELED: the thread was cancelled, and is not
 * shielded; -ETIMEDOUT: the deadline is 0 or less, so the caller does not want to wait;
 * -ENOTSUP: the wait needs events, and the scheduler has none.
 * Does not switch.
 */
struct uwaiter *uwait_prepare(int64_t deadline, bool outside);

enum { UWAIT_ERRORS = 4095 };           /* the largest errno value of the kernel */

/*
 * Returns the error, a negative errno value, that uwait_prepare() has returned in place
 * of a waiter, or 0 if `w' is a waiter.
 */
static inline int uwait_error(const struct uwaiter *w)
{
	return (uintptr_t)w >= (uintptr_t)-(intptr_t)UWAIT_ERRORS ? (int)(intptr_t)w : 0;
}

/*
 * Notes, for reports, the object of the prepared wait, or NULL. `where' is the return
 * address of the public call: __builtin_return_address(0) in a function with UWAIT_CALL,
 * which is not inlined. Without a note the report says "a grant".
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
 * Returns memory for nodes, at least `size' bytes, aligned to 16, owned by `w'. NULL: no
 * memory.
 * Not while `w' waits.
 */
void *uwait_room(struct uwaiter *w, size_t size);

/*
 * Begins the wait of `w', which can be granted from now on. Make this call under the lock
 * of the first queue to which a node of `w' is pushed, before the push.
 */
void uwait_begin(struct uwaiter *w);

/*
 * Blocks until the wait has been granted. After an error, too, the wait has ended, but
 * nodes that were not popped are still in their queues.
 * Returns the result of the grant, at least 0; -ETIMEDOUT: the deadline has come;
 * -ECANCELED: the thread was cancelled; -ENOMEM: no image for the thread's frames.
 * Switches.
 */
int uwait_block(struct uwaiter *w);

/*
 * Has `w' wait in one queue, whose lock the caller holds: begins the wait, pushes w_node,
 * releases the lock, and blocks. After an error the node is taken out, under the lock.
 * Returns what uwait_block() returns.
 * Switches.
 */
int uwait_queue_up(struct uwaiter *w, struct uwait_lock *lock, struct uwait_queue *q);

/*
 * Ends a wait that the caller has begun, in place of uwait_block().
 * Returns false if the wait was claimed. Then call uwait_block(), which returns at once.
 */
bool uwait_withdraw(struct uwaiter *w);

/*
 * Private, for posix/: the caller is not cancelled any more, and waits as before. Does
 * not switch.
 */
void uwait__uncancel(void);

/* Private: see usched__forked(). */
void uwait__forked(void);

/*
 * Claims the wait of `w', which the caller has to end by uwait_finish(). Until then the
 * waiter stays, so the caller may write to nodes of the waiter.
 * Returns false if `w' does not wait, or was claimed before.
 * Does not switch. Under the lock of a queue in which `w' has a node, or from the native
 * thread of `w'.
 */
bool uwait_claim(struct uwaiter *w);

/*
 * Ends the wait of `w', which uwait_claim() or uwait_pop() has claimed for the caller:
 * uwait_block() returns `result', at least 0.
 * From any native thread. Does not switch.
 */
void uwait_finish(struct uwaiter *w, int result);

/* Queues. All calls are made under the lock that belongs to the queue. */

/* Puts `n' at the end. */
void uwait_push(struct uwait_queue *q, struct uwait_node *n);

/* Takes `n' out of `q', unless `n' is in no queue. */
void uwait_remove(struct uwait_queue *q, struct uwait_node *n);

/*
 * Takes the first node whose waiter can be claimed, and the nodes before it, out of a
 * queue of w_nodes, and claims the waiter.
 * Returns the waiter; NULL: no waiter can be claimed.
 */
struct uwaiter *uwait_pop(struct uwait_queue *q);

/* Private: the a_ops of attachments that are waiters. */
extern const struct ustack_attachment_ops uwait__ops
	__attribute__((visibility("hidden")));

/* Private: returns the waiter of `u', or NULL. */
static inline struct uwaiter *uwait__attached(const struct ustack *u)
{
	struct ustack_attachment *a = u->u_attached ? u->u_attachment : NULL;

	return a && a->a_ops == &uwait__ops ? (struct uwaiter *)(void *)a : NULL;
}

/* Returns the waiter of a w_node. */
static inline struct uwaiter *uwait_of(struct uwait_node *n)
{
	return (struct uwaiter *)(void *)((char *)n - offsetof(struct uwaiter, w_node));
}

#ifdef __cplusplus
}
#endif

#endif /* USCHED_WAIT_H */
