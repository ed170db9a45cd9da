/* SPDX-License-Identifier: MIT */
/*
 * usched.h: the dispatcher, for authors of schedulers. Their threads call what ustack.h
 * declares. usched.c, src/core/, src/wait/ustack.c and a file of arch/ link alone.
 *
 *   thread      struct ustack: a cooperative user-space thread.
 *   dispatcher  struct usched: blocks and resumes threads, inside usched_run() and on one
 *               native thread. A dispatcher has no policy, no memory and no locks.
 *   scheduler   supplies what the dispatcher lacks, by call-backs: which thread runs
 *               next, and memory.
 *   stack       an address range on which threads run, growing down from its bottom (up
 *               on PA-RISC, where `below' is toward higher addresses). The native stack
 *               below the frame of usched_run() is one. A scheduler may add others, which
 *               are then used instead. Several threads share a stack.
 *   top         the lowest live address of a blocked thread. Its frames are exactly the
 *               bytes from the top to the bottom.
 *   image       the heap buffer for a blocked thread's frames.
 *
 * A thread that blocks stays resident: its frames stay in place until another thread
 * needs the stack. Then the dispatcher evicts the blocked thread, and loads its frames
 * before it runs again, always to the same addresses:
 *
 *	   stack                               image of A
 *	+----------+ bottom                   +----------+
 *	| frames   |   ---- evict A ---->     | frames   |
 *	|     of A |   <---- load A -----     |     of A |
 *	+----------+ top of A                 +----------+
 *	|   free   |
 *	:          :
 *
 * The running thread must not follow a pointer into the frames of a blocked one: other
 * frames may be there.
 *
 * Each declaration says whether a call may switch threads, and from where it may be made.
 * The dispatcher's native thread is the one inside usched_run() or, if no thread is, the
 * next one to call that. Errors are negative errno values; errno itself says nothing.
 */
#ifndef USCHED_H
#define USCHED_H

#include <stddef.h>
#include <stdint.h>

#include "arch/uabi.h"

#ifdef __cplusplus
extern "C" {
#endif

#define USCHED_VERSION "0.1.0"

/* The deadline that never comes. Deadlines are in ns of CLOCK_MONOTONIC. */
#define USCHED_NEVER INT64_MAX

#define USCHED_STACK_MIN ((size_t)8192)         /* bytes */
#define USCHED_STACK_MAX ((size_t)1 << 30)      /* bytes: depths fit 32 bits */
#define USCHED_IMAGE_MAX (USCHED_STACK_MAX - 1) /* bytes: no thread is as deep */

struct usched;                  /* a dispatcher */
struct ustack;                  /* a thread; struct usched_stack is a stack */
struct ustack_how;              /* ustack.h */

/* A pointer of any type, which other native threads set when they have news. */
typedef void *usched_mail __attribute__((may_alias));

/*
 * What a scheduler supplies: s_next, s_alloc and s_free, at least. Other members may be
 * NULL or 0; then the calls of ustack.h that need them return -ENOTSUP.
 *
 * s_next to s_done are called on the dispatcher's native thread, on the stack of the
 * thread that blocks or ends, below its frames. No call-back may call ustack_block() or
 * what calls it, except s_yield and s_join. `s' is the dispatcher of `u', or else of the
 * running thread.
 */
struct usched_calls {
	/*
	 * Returns the thread that is to run next, blocked or new; NULL ends usched_run().
	 * s_current is the thread that blocks; NULL: a thread has ended, or usched_run()
	 * has begun. If s_next returns s_current, nothing moves and ustack_block()
	 * returns. The block cannot fail any more: so here, and not before, a thread that
	 * yields may be queued. s_next may sleep until a thread is ready.
	 */
	struct ustack *(*s_next)(struct usched *s);

	/*
	 * Returns an image of at least *size bytes for `u', aligned to 8, and sets *size
	 * to its real size: USCHED_IMAGE_MAX at most. NULL: no memory. Called when a
	 * thread on a shared stack blocks deeper than its image has room for; when a much
	 * smaller image would do, where NULL is no failure; and at the first wait of a
	 * thread by uwait.h.
	 */
	void *(*s_alloc)(struct usched *s, struct ustack *u, size_t *size);

	/* Takes back an image, which s_alloc may have given to another thread (uco.h). */
	void (*s_free)(struct usched *s, struct ustack *u, void *image, size_t size);

	/* `u' has ended or was aborted, and has no image. From now on, and not before,
	   the record may be freed or used again. s_next is called afterwards. */
	void (*s_done)(struct usched *s, struct ustack *u);

	/*
	 * For ustack_wake(u), on the native thread that called it; the scheduler decides
	 * which native threads may. If `u' is blocked in ustack_wait(), makes `u'
	 * runnable; else counts a token, which s_next takes when `u' blocks next, and
	 * then returns `u'. With s_pick only two cases are left for s_wake: the caller is
	 * outside of usched_run(), or u_tokens is a negative value of the scheduler's.
	 */
	int (*s_wake)(struct usched *s, struct ustack *u);

	/* For ustack_yield(): lets other threads run, as the policy says. For example,
	   notes for s_next that s_current yields, and calls ustack_block(). */
	int (*s_yield)(struct usched *s);

	/* For ustack_start_with(), of a thread of `s'; ustack_start() has NULL for
	   `how'. Starts a thread on the caller's scheduler. */
	int (*s_start)(struct usched *s, const struct ustack_how *how,
		       void (*func)(void *), void *arg, struct ustack **thread);

	/* For ustack_cancel(): the native thread is to call ustack_cancel_here(u). */
	int (*s_cancel)(struct usched *s, struct ustack *u);

	/* For ustack_detach(): frees `u' when it ends; now, if it has ended. */
	int (*s_detach)(struct usched *s, struct ustack *u);

	/*
	 * For ustack_join(): waits until `u' has ended, puts ustack_value(u) into *value
	 * unless that is NULL, and frees `u'. A native thread waits until `deadline' at
	 * most. A thread passes 0, not to wait at all, or USCHED_NEVER, to wait until
	 * s_interrupt is called for it: then s_join returns -EDEADLK; or -EAGAIN if the
	 * interrupt may have been for an earlier join.
	 */
	int (*s_join)(struct usched *s, struct ustack *u, void **value, int64_t deadline);

	/* Ends the s_join that `u' is in, if any. From any native thread. */
	void (*s_interrupt)(struct usched *s, struct ustack *u);

	/*
	 * For upreempt(), in the signal handler that has interrupted `u', whose third
	 * argument is `context': returns 1 if `u' is to give way. May only read *u, *s.
	 */
	int (*s_preempt)(struct usched *s, struct ustack *u, void *context);

	/* ---- Faster waits: TOKENS, below. s_pick and s_unpick come together. ---- */

	struct ustack *(*s_pick)(struct usched *s, struct ustack *self);
	void (*s_unpick)(struct usched *s);
	void (*s_ready)(struct usched *s, struct ustack *u);    /* or NULL: s_wake */

	/* While *s_mail is not NULL, ustack_wait() does not take from the slot. */
	const usched_mail *s_mail;

	/* 0, or the number of bytes from the struct ustack to the end of each record:
	   then the bytes behind the struct are the thread's first image, and the
	   dispatcher writes there. With 0, the bytes behind the struct are the
	   scheduler's. The bytes in front of the struct always are. */
	size_t s_record;

	/* 1: s_next drives timers and descriptors, as uevents.h says. */
	uint8_t s_polls;

	/* 1: each thread has its own control words, as after ustack_control(). */
	uint8_t s_control_each;
};

/*
 * A scheduler's struct has a struct usched, and each record a struct ustack, which need
 * not be zeroed; arch/ulayout.h has their layouts. A scheduler may use
 *
 *   s->s_current  the running thread; NULL: no thread runs.
 *   s->s_over     set to 1, atomically, by any native thread: the slice of the running
 *                 thread is over. Its next ustack_check() stores 0, and yields.
 *   s->s_slot, s->s_turn, u->u_tokens: TOKENS.
 *
 * TOKENS make waits and wakes on one native thread as cheap as a switch. A wake gives a
 * thread a token; a wait takes one, or blocks. Without s_pick each ustack_wake() calls
 * s_wake, and each ustack_wait() blocks. With s_pick the two change u_tokens of the
 * thread, on the dispatcher's native thread and without a call:
 *
 *	 the number of tokens      ustack_wait(), 0: s_pick stores
 *	+----------------------+  ----------------------------->  +----------------+
 *	|     0, 1, 2, ...     |                                  | USTACK_WAITING |
 *	+----------------------+  <-----------------------------  +----------------+
 *	 wake: + 1, wait: - 1      ustack_wake(): 0, and s_ready
 *
 * s_pick stores USTACK_WAITING, and returns the thread that is to run while `self' waits;
 * or NULL: then `self' blocks and s_next is asked. If the block fails, s_unpick stores 0
 * and makes s->s_chosen, what s_pick had returned, the next thread again. s_ready makes
 * `u', which waited, runnable.
 *
 * The slot is for schedulers that run next what was woken last. usched_init() leaves
 * USCHED_CLOSED in s_slot: no slot. While s_slot is NULL, ustack_wake() puts its thread
 * there instead of calling s_ready, and ustack_wait() runs it without s_pick, unless
 * *s_mail is not NULL, or st_switches of usched_stats() has reached s_turn, when the
 * queue has its turn. So s_pick and s_next must look into the slot, too.
 */
enum { USTACK_WAITING = -1 };

#define USCHED_CLOSED ((struct ustack *)1)

/* Counters since usched_init(), except st_images and st_image_bytes: now. */
struct usched_stats {
	uint64_t st_switches;   /* launches and resumes, except self-resumes */
	uint64_t st_launches;   /* threads that began to run */
	uint64_t st_images;     /* images from s_alloc */
	uint64_t st_image_bytes; /* their sizes added up */
	uint64_t st_deepest;    /* bytes of the deepest block over 1 KiB or evicted */
	uint64_t st_bytes;      /* bytes copied by evictions and loads */
	uint64_t st_evictions;
	uint64_t st_loads;
	uint64_t st_preempted;  /* times that a thread gave way as its slice was over */
	uint64_t st_moves;      /* threads that came from another dispatcher */
};

/*
 * Makes *s a dispatcher with the native stack as its one stack. *calls is copied.
 * 0; -EINVAL: a required call-back or s_unpick is missing, or s_record is too large;
 * -ENOTSUP: this machine keeps a shadow stack, which cannot be copied, or code of the
 * program was compiled with -fsplit-stack, which moves frames to stacks of its own.
 * From any native thread. Does not switch.
 */
int usched_init(struct usched *s, const struct usched_calls *calls);

/*
 * Adds the range [base, base + size) as a stack of `s'. The range stays the caller's, to
 * free after usched_fini(). From the first added stack on, threads are launched on added
 * stacks only. The first 64 are shared by threads; each of the others, an unshared stack,
 * has one thread at a time, which is never evicted (R7). Up to 4 KiB at the high end of
 * the range hold book-keeping. There should be a guard page below.
 * 0; -EINVAL: less than USCHED_STACK_MIN, or more than _MAX; -ENOTSUP: the portable
 * switch has the native stack only; -EBUSY: threads live on the native stack.
 * From the dispatcher's native thread. Does not switch.
 */
int usched_add_stack(struct usched *s, void *base, size_t size);

/*
 * Runs threads until s_next returns NULL. Blocked threads stay blocked, and usched_run()
 * may be called again. With added stacks any native thread may call, at any depth, one at
 * a time; while threads live on the native stack, only that native thread, at the same
 * depth. A thread may run another dispatcher: no thread of the outer one runs meanwhile,
 * and the caller does not move to another dispatcher from then on. The native thread must
 * not be cancelled meanwhile: see pthread_setcancelstate(3). Threads share the floating
 * point control words of the caller, which are restored at the end.
 * 0; -EBUSY: `s' is running already; -EINVAL: threads live on the native stack, at
 * another depth or of another native thread, and nothing was run.
 * Does not switch.
 */
int usched_run(struct usched *s);

/*
 * Ends the use of `s'.
 * 0; -EBUSY: `s' is running, or has threads that have begun and not ended; they may be
 * aborted, by ustack_abort().
 * From the dispatcher's native thread. Does not switch.
 */
int usched_fini(struct usched *s);

/* Sets *out to the counters. From any native thread. Does not switch. */
void usched_stats(const struct usched *s, struct usched_stats *out);

/*
 * Makes `u' a new thread of `s', which runs func(arg) when s_next first returns `u', and
 * ends when func returns. The caller owns the record until s_done.
 * 0; -EINVAL: `func' is NULL.
 * From any native thread: only the record is written. Does not switch.
 */
int ustack_init(struct usched *s, struct ustack *u, void (*func)(void *), void *arg);

/* As ustack_init(), for a thread that runs func(fd, arg). 0; -EINVAL: also if `fd' is
   negative or INT_MAX. */
int ustack_init_fd(struct usched *s, struct ustack *u, void (*func)(int fd, void *arg),
		   int fd, void *arg);

/*
 * Blocks the calling thread: asks s_next for a thread and runs that. The caller goes on
 * when s_next has chosen it again. An error comes at once, with nothing changed and
 * s_next not asked.
 * 0; -ENOMEM: no image for the thread's frames; -EPERM: the caller is no thread;
 * -EFAULT: the stack pointer is not in the thread's stack (a handler on an alternate
 * signal stack), or over 64 MiB down the native stack.
 * Switches.
 */
int ustack_block(void);

/*
 * Hands over to `u': blocks the calling thread and runs `u', without asking s_next. `u'
 * is new or blocked, and no longer in the scheduler's queues. The scheduler must know
 * that the caller waits.
 * 0, at once if `u' is the caller; -ENOMEM, -EPERM, -EFAULT as ustack_block(); -EINVAL:
 * `u' has ended or is not of this dispatcher.
 * Switches.
 */
USCHED_SWITCHES int ustack_switch(struct ustack *u);

/*
 * Reserves an image deep enough for the calling function to call ustack_block() or
 * ustack_switch(), or for callees to do so whose frames take up to `room' bytes. Then
 * that block cannot fail with -ENOMEM (R4). For callers that publish a wait before they
 * block.
 * 0; -ENOMEM: no image, or `room' is over USCHED_STACK_MAX; -EPERM, -EFAULT as
 * ustack_block().
 * Does not switch.
 */
int ustack_reserve(size_t room);

/*
 * Ends `u' where it is. Its frames are dropped: no destructor, clean-up handler or
 * longjmp(3) sees them, and exceptions of C++ that `u' handles are not freed. The image
 * goes to s_free, then s_done is called. The scheduler must have forgotten `u'. Threads
 * of rr and ll may abort themselves, and nothing else may abort them.
 * 0; -EINVAL: `u' has ended; -EBUSY: `u' runs another dispatcher, and the caller is a
 * thread of that. If `u' is the caller, does not return.
 * From the dispatcher's native thread, in or out of usched_run(). Switches if `u' is the
 * caller.
 */
int ustack_abort(struct ustack *u);

/*
 * Returns the value that `u', which has ended, gave to ustack_exit(); NULL: it gave no
 * value. For s_join, from s_done until the record is used again. Does not switch.
 */
void *ustack_value(const struct ustack *u);

/*
 * Cancels `u', for s_cancel, and calls s_interrupt if its waits end now.
 * From the dispatcher's native thread. Does not switch.
 */
void ustack_cancel_here(struct ustack *u);

/*
 * Returns the dispatcher of `u', even after the thread has ended, while the record and
 * the stacks exist. A record of zeros has a dispatcher all of whose threads have ended.
 * From any native thread. Does not switch.
 */
USCHED_INLINE struct usched *ustack_sched(const struct ustack *u);

/*
 * Returns the function of `u'; NULL: `u' has ended.
 * From the dispatcher's native thread. Does not switch.
 */
USCHED_INLINE void (*ustack_func(const struct ustack *u))(void *);

#ifdef __cplusplus
}
#endif

#include "arch/ulayout.h"

#endif /* USCHED_H */
