/* SPDX-License-Identifier: MIT */
/*
 * usched.h: the dispatcher, for authors of schedulers. ustack.h declares what threads
 * call. To link, usched.c, src/core/, src/wait/ustack.c and a file of arch/ are enough.
 *
 *   thread      struct ustack: a cooperative user-space thread.
 *   dispatcher  struct usched: blocks and resumes threads, inside usched_run() and on one
 *               native thread. A dispatcher has no policy, no memory and no locks.
 *   scheduler   supplies call-backs, which give the dispatcher memory, and the thread
 *               that runs next.
 *   stack       an address range on which threads run. A stack grows down from its bottom
 *               (on PA-RISC up: `below' is toward higher addresses there). The native
 *               stack below the frame of usched_run() is one stack. If the scheduler adds
 *               stacks, threads run only on these. Several threads share a stack.
 *   top         the lowest live address of a blocked thread. The thread's frames are
 *               exactly the bytes from the top to the bottom.
 *   image       the heap buffer for a blocked thread's frames.
 *
 * A thread that blocks stays resident: its frames stay in place until another thread
 * needs the stack. Then the dispatcher evicts the blocked thread. Before that thread runs
 * again, the dispatcher loads its frames, always to the same addresses:
 *
 *	   stack                               image of A
 *	+----------+ bottom                   +----------+
 *	| frames   |   ---- evict A ---->     | frames   |
 *	|     of A |   <---- load A -----     |     of A |
 *	+----------+ top of A                 +----------+
 *	|   free   |
 *	:          :
 *
 * The running thread must not follow a pointer into the frames of a blocked thread: other
 * frames may be there.
 *
 * The comment of a call says whether the call may switch threads, and who may make it.
 * The dispatcher's native thread is the native thread inside usched_run(). If there is
 * none, it is the native thread that calls usched_run() next. Errors are negative errno
 * values; errno itself says nothing.
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
#define USCHED_IMAGE_MAX (USCHED_STACK_MAX - 1) /* bytes: no thread is deeper */

struct usched;                  /* a dispatcher */
struct ustack;                  /* a thread; struct usched_stack is a stack */
struct ustack_how;              /* ustack.h */

/* A pointer of any type. Other native threads set the pointer when they have news. */
typedef void *usched_mail __attribute__((may_alias));

/*
 * What a scheduler supplies. s_next, s_alloc and s_free are required. All other members
 * may be NULL or 0; a call of ustack.h that needs such a member returns -ENOTSUP.
 *
 * The dispatcher's native thread calls s_next, s_alloc, s_free and s_done, on the stack
 * of the thread that blocks or ends, below the thread's frames. Only s_yield and s_join
 * may call ustack_block(), or functions that call ustack_block(). `s' is the dispatcher
 * of `u'; if there is no `u', the dispatcher of the running thread.
 */
struct usched_calls {
	/*
	 * Returns the blocked or new thread that is to run next. NULL ends usched_run().
	 * s_current is the thread that blocks; NULL: a thread has ended, or usched_run()
	 * has begun. If s_next returns s_current, nothing moves and ustack_block()
	 * returns. At this point the block cannot fail any more. So a thread that yields
	 * may be queued here, not earlier. s_next may sleep until a thread is ready.
	 */
	struct ustack *(*s_next)(struct usched *s);

	/*
	 * Returns an image of at least *size bytes for `u', aligned to 8, and sets *size
	 * to its real size: USCHED_IMAGE_MAX at most. NULL: no memory. Called in three
	 * cases: a thread on a shared stack blocks deeper than its image has room for; or
	 * a much smaller image would do, and then NULL is no failure; or a thread waits
	 * by uwait.h for the first time.
	 */
	void *(*s_alloc)(struct usched *s, struct ustack *u, size_t *size);

	/* Takes back an image that s_alloc gave to `u' or another thread (uco.h). */
	void (*s_free)(struct usched *s, struct ustack *u, void *image, size_t size);

	/* `u' has ended or was aborted, and has no image. In s_done and later the record
	   may be freed or used again, but not earlier. s_next is called afterwards. */
	void (*s_done)(struct usched *s, struct ustack *u);

	/*
	 * For ustack_wake(u), on the caller's native thread; the scheduler decides which
	 * native threads may call. If `u' is blocked in ustack_wait(), makes it runnable.
	 * If not, counts a token: when `u' next blocks, s_next takes that, and returns
	 * `u'. With s_pick, s_wake is called only from outside of usched_run(s), or if
	 * u_tokens is INT32_MAX or a negative value of the scheduler's own.
	 */
	int (*s_wake)(struct usched *s, struct ustack *u);

	/* For ustack_yield(): lets other threads run, as the policy says. For example,
	   s_yield notes for s_next that s_current yields, and calls ustack_block(). */
	int (*s_yield)(struct usched *s);

	/* For ustack_start_with(), and for ustack_start(), where `how' is NULL. The
	   caller is a thread of `s'. Starts a thread on the caller's scheduler. */
	int (*s_start)(struct usched *s, const struct ustack_how *how,
		       void (*func)(void *), void *arg, struct ustack **thread);

	/* For ustack_cancel(): makes the native thread call ustack_cancel_here(u). */
	int (*s_cancel)(struct usched *s, struct ustack *u);

	/* For ustack_detach(): frees `u' when the thread ends; if it has ended, now. */
	int (*s_detach)(struct usched *s, struct ustack *u);

	/*
	 * For ustack_join(): waits until `u' has ended, puts ustack_value(u) into *value
	 * unless `value' is NULL, and frees `u'. If the caller is no thread, s_join waits
	 * until `deadline' at most. If it is a thread, `deadline' is 0, for no wait, or
	 * USCHED_NEVER. If s_interrupt is called for the waiting thread, s_join returns
	 * -EDEADLK, or -EAGAIN if the interrupt may have been for an earlier join.
	 */
	int (*s_join)(struct usched *s, struct ustack *u, void **value, int64_t deadline);

	/* Ends the s_join that `u' is in, if any. From any native thread. */
	void (*s_interrupt)(struct usched *s, struct ustack *u);

	/*
	 * For upreempt(), in the signal handler that interrupted `u': returns 1 if `u' is
	 * to give way. `context' is the handler's third argument. May only read *u, *s.
	 */
	int (*s_preempt)(struct usched *s, struct ustack *u, void *context);

	/* ---- Faster waits: TOKENS, below. With s_pick, s_unpick is required. ---- */

	struct ustack *(*s_pick)(struct usched *s, struct ustack *self);
	void (*s_unpick)(struct usched *s);
	void (*s_ready)(struct usched *s, struct ustack *u);    /* or NULL: s_wake */

	/* While *s_mail is not NULL, ustack_wait() does not run the thread in s_slot. */
	const usched_mail *s_mail;

	/* The number of bytes from the struct ustack to the end of each record. The bytes
	   behind the struct are the thread's first image, where the dispatcher writes.
	   With 0, the bytes behind the struct belong to the scheduler. The bytes in front
	   of the struct always belong to the scheduler. */
	size_t s_record;

	/* 1: s_next drives timers and descriptors, as uevents.h says. */
	uint8_t s_polls;

	/* 1: each thread has its own control words, as after ustack_control(). */
	uint8_t s_control_each;
};

/*
 * The struct of a scheduler has a struct usched. Each record has a struct ustack. These
 * need not be zeroed; arch/ulayout.h has their layouts. A scheduler may use
 *
 *   s->s_current  the running thread; NULL: no thread runs.
 *   s->s_over     1: the slice of the running thread is over. Any native thread may store
 *                 1, atomically. The thread's next ustack_check() stores 0, and yields.
 *   s->s_slot, s->s_turn, u->u_tokens: TOKENS.
 *
 * TOKENS make waits and wakes on one native thread as cheap as a switch. A wake gives a
 * thread a token; a wait takes a token, or blocks. Without s_pick each ustack_wake()
 * calls s_wake, and each ustack_wait() blocks. With s_pick, on the dispatcher's native
 * thread, the two functions themselves change u_tokens of the thread:
 *
 *	 the number of tokens      ustack_wait(), 0: s_pick stores
 *	+----------------------+  ----------------------------->  +----------------+
 *	|     0, 1, 2, ...     |                                  | USTACK_WAITING |
 *	+----------------------+  <-----------------------------  +----------------+
 *	 wake: + 1, wait: - 1      ustack_wake(): 0, and s_ready
 *
 * s_pick stores USTACK_WAITING, and returns the thread that is to run while `self' waits.
 * If s_pick returns NULL, `self' blocks and s_next chooses. If the block fails, s_unpick
 * stores 0; the thread that s_pick returned, now s->s_chosen, is to run next again.
 * s_ready makes `u', which waited, runnable.
 *
 * s_slot is for schedulers whose next thread is the one woken last. usched_init()
 * stores USCHED_CLOSED there: no slot. If s_slot is NULL, ustack_wake() puts the thread
 * there, and does not call s_ready. ustack_wait() runs the thread in the slot, and does
 * not call s_pick. But if *s_mail is not NULL, or st_switches (usched_stats()) has
 * reached s_turn, the queue has its turn, and ustack_wait() calls s_pick. So s_pick and
 * s_next must look into the slot, too.
 */
enum { USTACK_WAITING = -1 };

#define USCHED_CLOSED ((struct ustack *)1)

/* Counters since usched_init(); but st_images and st_image_bytes are current. */
struct usched_stats {
	uint64_t st_switches;   /* times that another thread began or went on */
	uint64_t st_launches;   /* threads that began to run */
	uint64_t st_images;     /* images from s_alloc */
	uint64_t st_image_bytes; /* their sizes added up */
	uint64_t st_deepest;    /* bytes of the deepest thread, evicted or over 1 KiB */
	uint64_t st_bytes;      /* bytes copied by evictions and loads */
	uint64_t st_evictions;
	uint64_t st_loads;
	uint64_t st_preempted;  /* times that a thread gave way at the end of its slice */
	uint64_t st_moves;      /* threads that came from another dispatcher */
};

/*
 * Makes *s a dispatcher. Its only stack is the native stack. *calls is copied.
 * 0; -EINVAL: a required call-back or s_unpick is missing, or s_record is too large;
 * -ENOTSUP: this machine keeps a shadow stack, which cannot be copied; or code of the
 * program was compiled with -fsplit-stack, an option that moves frames to other stacks.
 * From any native thread. Does not switch.
 */
int usched_init(struct usched *s, const struct usched_calls *calls);

/*
 * Adds the range [base, base + size) as a stack of `s'. The caller keeps the range, and
 * may free it after usched_fini(). If there are added stacks, threads are launched on
 * these only. Threads share the first 64 added stacks. All further stacks are unshared:
 * they have one thread at a time, which is never evicted (R7). Up to 4 KiB at the high
 * end of the range hold book-keeping. There should be a guard page below the range.
 * 0; -EINVAL: `size' is below USCHED_STACK_MIN or above USCHED_STACK_MAX; -ENOTSUP: the
 * portable switch has the native stack only; -EBUSY: threads live on the native stack.
 * From the dispatcher's native thread. Does not switch.
 */
int usched_add_stack(struct usched *s, void *base, size_t size);

/*
 * Runs threads until s_next returns NULL. Blocked threads stay blocked, and usched_run()
 * may be called again. With added stacks any native thread may call, at any depth, but
 * only one at a time. While threads live on the native stack, only the native thread with
 * that stack may call, at the same depth. A thread may run another dispatcher: meanwhile
 * no thread of the outer one runs, and the caller never leaves the outer one after that.
 * The native thread must not be cancelled meanwhile: see pthread_setcancelstate(3).
 * Threads share the caller's floating point control words. The end restores these.
 * 0; -EBUSY: `s' is running already; -EINVAL, and nothing was run: threads live on the
 * native stack at another depth, or on that of another native thread.
 * Does not switch.
 */
int usched_run(struct usched *s);

/*
 * Ends the use of `s'.
 * 0; -EBUSY: `s' is running, or threads of `s' have begun and not ended. ustack_abort()
 * ends such threads.
 * From the dispatcher's native thread. Does not switch.
 */
int usched_fini(struct usched *s);

/* Sets *out to the counters. From any native thread. Does not switch. */
void usched_stats(const struct usched *s, struct usched_stats *out);

/*
 * Makes `u' a new thread of `s'. Once s_next has returned `u', the thread runs func(arg).
 * The thread ends when `func' returns. The caller owns the record until s_done.
 * 0; -EINVAL: `func' is NULL.
 * From any native thread, since only the record is written. Does not switch.
 */
int ustack_init(struct usched *s, struct ustack *u, void (*func)(void *), void *arg);

/* As ustack_init(), for a thread that runs func(fd, arg). 0; -EINVAL: `func' is NULL, or
   `fd' is negative or INT_MAX. */
int ustack_init_fd(struct usched *s, struct ustack *u, void (*func)(int fd, void *arg),
		   int fd, void *arg);

/*
 * Blocks the calling thread: asks s_next for a thread, and runs that thread. The caller
 * goes on after s_next has chosen it again. If the call fails, it fails at once: nothing
 * has changed, and s_next was not called.
 * 0; -ENOMEM: no image for the thread's frames; -EPERM: the caller is no thread;
 * -EFAULT: the stack pointer is not in the thread's stack (a handler on an alternate
 * signal stack), or is more than 64 MiB down the native stack.
 * Switches.
 */
int ustack_block(void);

/*
 * Hands over to `u': blocks the calling thread and runs `u', without asking s_next. `u'
 * must be new or blocked, and in no queue of the scheduler. The scheduler must know that
 * the caller waits.
 * 0, at once if `u' is the caller; -ENOMEM, -EPERM, -EFAULT as ustack_block(); -EINVAL:
 * `u' has ended or is not of this dispatcher.
 * Switches.
 */
USCHED_SWITCHES int ustack_switch(struct ustack *u);

/*
 * Reserves an image for the caller's frames, and for `room' bytes of frames below. Then
 * ustack_block() and ustack_switch() cannot fail with -ENOMEM (R4), if they are called by
 * the calling function, or by callees whose frames take up to `room' bytes. For callers
 * that publish a wait before they block.
 * 0; -ENOMEM: no image, or `room' is over USCHED_STACK_MAX; -EPERM, -EFAULT as
 * ustack_block().
 * Does not switch.
 */
int ustack_reserve(size_t room);

/*
 * Ends `u' where the thread is. Its frames are dropped: no destructor, clean-up handler
 * or longjmp(3) sees them, and C++ exceptions that `u' handles are not freed. s_free gets
 * the image, then s_done is called. Before the call the scheduler must have forgotten
 * `u'. A thread of rr or ll may be aborted only by itself.
 * 0; -EINVAL: `u' has ended; -EBUSY: `u' runs another dispatcher, and the caller is a
 * thread of that dispatcher. If `u' is the caller, does not return.
 * From the dispatcher's native thread, in or out of usched_run(). Switches if `u' is the
 * caller.
 */
int ustack_abort(struct ustack *u);

/*
 * Returns the value that `u' gave to ustack_exit(); NULL: `u' gave no value. For s_join.
 * `u' must have ended, and the record must not be used again yet. Does not switch.
 */
void *ustack_value(const struct ustack *u);

/*
 * For s_cancel: cancels `u'. If its waits are to end now, calls s_interrupt, too.
 * From the dispatcher's native thread. Does not switch.
 */
void ustack_cancel_here(struct ustack *u);

/*
 * Returns the dispatcher of `u', also if `u' has ended. The record and the stacks must
 * still exist. For a record of zeros, returns a dispatcher that only has ended threads.
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
