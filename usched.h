/* SPDX-License-Identifier: MIT */
/*
 * usched.h: cooperative threads that share stacks.
 *
 * Words, used in this sense and no other throughout the code:
 *
 *   thread      struct ustack: a cooperative user-space thread.
 *   dispatcher  struct usched: blocks and resumes threads. It owns no policy
 *               and no memory, and runs inside usched_run() on one native
 *               thread.
 *   scheduler   who supplies the dispatcher's call-backs: s_next, s_alloc and
 *               s_free, and perhaps others. rr.h and ll.h are two.
 *   stack       struct usched_stack: an address range on which threads run,
 *               growing down from its bottom. The part of the native stack
 *               below the frame of usched_run() is one; a scheduler may lend
 *               the dispatcher others, and then those are used instead.
 *   top         the lowest live address of a blocked thread. Its frames are
 *               exactly the bytes [top, bottom).
 *   image       the heap buffer that holds a blocked thread's frames while
 *               another thread uses its stack.
 *   resident    the thread whose frames are in place on a stack: at most one
 *               for each stack.
 *   evict       copy [top, bottom) to the image.
 *   load        copy the image back, always to the same addresses.
 *   processor   one native thread that runs one dispatcher (uproc.h).
 *
 * The one thing to know when writing code for threads that move: while a
 * thread is blocked, the addresses of its locals may hold the locals of
 * another thread. Pointers into a thread's own stack are always good for that
 * thread; nobody else, no other thread and not the kernel, may follow one
 * while the thread is blocked. What threads share belongs on the heap.
 *
 * Each function says below whether it may switch threads and from where it
 * may be called. "Its native thread" is the one inside usched_run() or, when
 * none is, the one that will call it next: a dispatcher has no locks. Errors
 * are negative errno values; errno itself says nothing.
 */
#ifndef USCHED_H
#define USCHED_H

#include <errno.h>
#include <stddef.h>
#include <stdint.h>

#include "uhere.h"

#ifdef __cplusplus
extern "C" {
#endif

#define USCHED_VERSION "0.1.0"

/* The deadline that never comes. Deadlines are in ns of CLOCK_MONOTONIC. */
#define USCHED_NEVER INT64_MAX

struct usched;
struct ustack;
struct uevents;                 /* uevents.h */

/*
 * Sanitizers follow threads from stack to stack, and for that there is more to be kept:
 * see watch/watch.h. All of a program is built with one, or nothing. So what programs begin with
 * has another name with each, and nothing else links.
 */
#ifdef __has_feature
#define USCHED_HAS(sanitizer) __has_feature(sanitizer)
#else
#define USCHED_HAS(sanitizer) 0
#endif
#if defined(__SANITIZE_ADDRESS__) || USCHED_HAS(address_sanitizer)
#define USCHED_ASAN
#define USCHED_BUILD(call) call##_asan
#elif defined(__SANITIZE_THREAD__) || USCHED_HAS(thread_sanitizer)
#define USCHED_TSAN
#define USCHED_BUILD(call) call##_tsan
#elif USCHED_HAS(memory_sanitizer)
#define USCHED_BUILD(call) call##_msan
#else
#define USCHED_BUILD(call) call
#endif
#define usched_init USCHED_BUILD(usched_init)

#if defined(USCHED_ASAN) || defined(USCHED_TSAN)
struct usched_fiber {
	void       *f_handle;   /* what the sanitizer knows it by */
	const void *f_base;     /* of its stack: the lower end, */
	size_t      f_size;     /* and bytes */
};
#define USCHED_WATCHED(member) member;
#else
#define USCHED_WATCHED(member)
#endif

/* What C++ keeps for each native thread: the first words of its __cxa_eh_globals. */
struct usched_caught {
	void    *c_caught;      /* exceptions that were caught, and are being handled */
	unsigned c_uncaught;    /* how many were thrown and not caught */
};

/*
 * Call-backs. They run on the stack of the thread that blocks or ends, below its frames,
 * or on the native stack when none does; they may not block the thread (call
 * ustack_block() or what calls it), but for s_join, and s_alloc and s_free abort neither
 * `u' nor the thread that runs. `s' is their dispatcher.
 */

/*
 * The next thread to run, one that is blocked or was never run. May return the
 * thread that is blocking, ustack_self(): then nothing moves and
 * ustack_block() returns. May sleep until there is something to run. NULL ends
 * usched_run(). Whatever the scheduler records about a blocking thread it
 * may record here, for the thread's image is reserved by now.
 */
typedef struct ustack *usched_next_fn(struct usched *s);

/*
 * An image of at least *size bytes for `u', and its real size in *size (at
 * most USCHED_IMAGE_MAX); NULL when there is no memory. The thread owns it until
 * s_free. Called on the way into a block, so it may be slow only rarely: for the
 * thread that blocks, or for one that is evicted, is much less deep than it was and
 * could do with a smaller image; then NULL is no failure.
 */
typedef void *usched_alloc_fn(struct usched *s, struct ustack *u, size_t *size);

/* Takes back an image from s_alloc or from ustack_init(), with its size. */
typedef void usched_free_fn(struct usched *s, struct ustack *u,
			    void *image, size_t size);

/*
 * `u' has ended or was aborted. Its image is already back. The dispatcher will
 * not touch `u' again: this is the one place where its owner may free it (R6).
 */
typedef void usched_done_fn(struct usched *s, struct ustack *u);

/*
 * Makes `u' runnable, or has its next wait return at once. ustack_wake() calls it, from
 * the native threads that the scheduler allows; see s_pick.
 */
typedef int usched_wake_fn(struct usched *s, struct ustack *u);

/*
 * Tokens. With s_pick, u_tokens of a thread counts the wakes that no wait has used: it is
 * 0 at first, and ustack_wait() and, on the dispatcher's native thread, ustack_wake()
 * change it without a call while it is not negative. The scheduler makes it negative while
 * the thread waits, and may while it does anything else; then s_wake is called. Without
 * s_pick, u_tokens stays INT32_MIN: each wake is an s_wake, each wait a block.
 *
 * s_pick: the calling thread has no token and waits for one. Notes that, and returns the
 * thread to run meanwhile, or NULL: then it blocks, and s_next is asked.
 * s_unpick: it does not wait after all, since blocking has failed. Undoes s_pick.
 */
typedef struct ustack *usched_pick_fn(struct usched *s);
typedef void usched_unpick_fn(struct usched *s);

/* Blocks the calling thread until all that are runnable have run. As ustack_yield(). */
typedef int usched_yield_fn(struct usched *s);

/* Frees `u' when it ends. As ustack_detach(). */
typedef int usched_detach_fn(struct usched *s, struct ustack *u);

/*
 * Has ustack_cancel_here(u) called on the dispatcher's native thread, soon. This is
 * what ustack_cancel() calls, from wherever the scheduler allows.
 * 0; -ESRCH: it has ended.
 */
typedef int usched_cancel_fn(struct usched *s, struct ustack *u);

/*
 * Waits until `u' has ended, and frees it. `where' is in the call, for reports. A native
 * thread waits no longer than until `deadline'. A thread of the dispatcher waits until
 * s_interrupt is called for it, and then its join returns -EDEADLK. ustack_join() calls it.
 */
typedef int usched_join_fn(struct usched *s, struct ustack *u, const void *where,
			   int64_t deadline);

/* Ends the s_join that `u' is in, if it is in one. On the dispatcher's native thread. */
typedef void usched_interrupt_fn(struct usched *s, struct ustack *u);

/* Counters since usched_init(), but for s_images and s_image_bytes: now. */
struct usched_stats {
	uint64_t s_launches;    /* threads that began to run */
	uint64_t s_images;      /* images held by threads */
	uint64_t s_image_bytes; /* their sizes added up */
	uint64_t s_deepest;     /* bytes: the largest bottom - top of a block; one of up to
				   1 KiB may not count unless it was evicted */
	uint64_t s_bytes;       /* bytes copied by evictions and loads */
	uint64_t s_evictions;
	uint64_t s_loads;
	uint64_t s_switches;    /* launches, and times a thread went on; but for self-resumes */
};

struct usched_stack {
	char                *k_bottom;
	struct ustack       *k_resident;
	struct usched       *k_sched;   /* whose it is: constant */
	uint32_t             k_size;    /* bytes below k_bottom */
	uint32_t             k_threads; /* launched here and not ended */
	struct usched_stack *k_ring;    /* the next that is shared, or else the next of s_own */
	struct usched_stack *k_prev;    /* vacant stacks: without a resident */
	struct usched_stack *k_next;
	uint32_t             k_shared;  /* 1: several threads may live here */
	uint32_t             k_memcheck;        /* its name there */
};

struct usched {
	/* Private to usched.c. */
	char                *s_home;    /* frame of usched_run(), or NULL */
	struct usched_stack *s_victim;  /* shared: where the next launch may evict */
	struct usched_stack *s_own;     /* the others */
	struct usched_stack  s_vacant;  /* list head: those without threads first */
	struct usched_stack  s_native;
	struct usched_stack  s_new;     /* where threads are before they are launched */
	unsigned             s_stacks;    /* stacks */
	unsigned             s_colour;  /* of the next */
	int                  s_fd;      /* what the launched thread gets first; -1: none */

	/* Timers and descriptors that its threads wait for, once one does; uevents.h. */
	struct uevents  *s_events;

	/* Set by the scheduler before usched_init(); the last ones are hot. */
	int              s_keep;        /* 1: images that have become too large are kept */
	int              s_polls;       /* 1: s_next sees to s_events, see uevents.h */
	usched_alloc_fn *s_alloc;
	usched_free_fn  *s_free;
	usched_done_fn  *s_done;        /* or NULL, as all that follow but s_next */
	usched_yield_fn *s_yield;
	usched_cancel_fn *s_cancel;
	usched_detach_fn *s_detach;
	usched_join_fn  *s_join;        /* with */
	usched_interrupt_fn *s_interrupt;
	usched_unpick_fn *s_unpick;     /* with */
	usched_pick_fn  *s_pick;
	usched_wake_fn  *s_wake;
	usched_next_fn  *s_next;

	/* Private again, and last: next to what is hot of a scheduler's own. */
	struct usched_stats  s_stats;   /* read with usched_stats() */
	int                 *s_errno;   /* errno of the native thread that runs it */
	const struct usched_caught *s_caught;   /* likewise; zeros if there is no C++ */
	struct ustack       *s_current; /* the thread that runs, or NULL */
	USCHED_WATCHED(struct usched_fiber s_fiber)           /* the native thread that runs it */
	USCHED_WATCHED(struct usched_fiber *s_followed)        /* who runs: that, a thread, or NULL: */
	USCHED_WATCHED(void *s_ended)                   /* who has ended */
};

/* What a thread waits for, for who reports it. */
struct ustack_why {
	char        y_what[128];        /* in words */
	uintptr_t   y_holder;           /* the address of the thread that has it; or another
					   number, of a native thread; 0: not known, nobody */
	const void *y_where;            /* code: where its call will return to; or NULL */
};

/*
 * What a thread has besides its frames, for a layer above: uwait.c has one for each thread
 * that waits there, so threads with another's cannot wait there. Only the dispatcher's
 * native thread may touch it.
 */
struct ustack_attachment {
	void (*a_func)(void *);                         /* ustack_attach() sets it */
	int    a_shield;                                /* 1: waits go on although the thread
							   was cancelled */
	void (*a_end)(struct ustack_attachment *l);          /* by the thread, whose function
							   has returned; may block */
	void (*a_cancel)(struct ustack_attachment *l);       /* the thread was cancelled */
	void (*a_free)(struct ustack_attachment *l);         /* the thread has ended or was
							   aborted; may not block */
	void (*a_describe)(struct ustack_attachment *l, struct ustack_why *why);     /* or NULL:
							   fills in what the thread waits
							   for, if by means of `l'; from any
							   native thread, while it and what
							   it waits for stand still */
};

/*
 * Private to usched.c from ustack_init() to s_done, but for the last two. The
 * states of a thread, as the fields tell them:
 *   new      u_stack == &s_new of its dispatcher, u_func != NULL
 *   running  s_current == this
 *   blocked  otherwise; resident if u_stack->k_resident == this
 *   ended    u_func == NULL
 */
struct ustack {
	char                *u_top;     /* blocked: its top; new: the argument */
	void                *u_image;
	struct usched_stack *u_stack;   /* where it was launched (R1) */
	__extension__ union {
		void               (*u_func)(void *);
		struct ustack_attachment *u_attachment;   /* u_attached: it has u_func */
	};
	uint32_t             u_size      : 30;  /* bytes in u_image */
	uint32_t             u_cancelled : 1;
	uint32_t             u_attached  : 1;
	uint32_t             u_deep;    /* bytes: a block that is no deeper needs no look;
					   new: 1 + the descriptor that it gets, or 0 */

	/* The scheduler's. */
	int32_t              u_tokens;  /* see s_pick */
	uint32_t             u_mail;    /* left alone by ustack_init() */

	USCHED_WATCHED(struct usched_fiber u_fiber)   /* usched.c's */
};

/* Private: whether what `u' does to wait fails. From the dispatcher's native thread. */
static inline int usched__is_cancelled(const struct ustack *u)
{
	return u->u_cancelled && !(u->u_attached && u->u_attachment->a_shield);
}

/* Private: ustack_switch() from `self', which runs on `s', to another thread of `s'. */
int usched__handover(struct ustack *u, struct ustack *self, struct usched *s);

/*
 * Makes `s' ready for use with the native stack as its one stack. The
 * call-backs must be set.
 * 0; -EINVAL: a required call-back is missing; -ENOTSUP: this machine keeps a
 * shadow stack, which cannot be copied.
 */
int usched_init(struct usched *s);

/*
 * Lends `s' the range [base, base + size) as a stack, which stays the
 * caller's to free after usched_fini(). From the first call on, threads are
 * launched on lent stacks only. The first 64 are shared by threads; each of the
 * others has one thread at a time, which is never evicted (R7). The head of the
 * range is used for book-keeping and an offset that spreads the stacks over the
 * sets of a cache, away from what each switch writes: up to 4 KiB. There should
 * be a guard page below.
 * 0; -EINVAL: less than USCHED_STACK_MIN, or more than _MAX; -ENOTSUP: the portable
 * switch has the native stack only; -EBUSY: threads live on the native stack.
 * From the dispatcher's native thread. Does not switch.
 */
int usched_add_stack(struct usched *s, void *base, size_t size);

#define USCHED_STACK_MIN ((size_t)8192)         /* bytes */
#define USCHED_STACK_MAX ((size_t)1 << 30)      /* depths and rooms add up in 32 bits */
#define USCHED_IMAGE_MAX (USCHED_STACK_MAX - 1) /* bytes: no thread is as deep */

/*
 * Runs threads until s_next returns NULL. Those that are blocked then stay
 * blocked: usched_run() may be called again. With lent stacks that may be at
 * any depth and on any native thread, one at a time; on the native stack, while
 * threads live there, it must be from the same depth of the same native
 * thread. A thread may itself run another dispatcher.
 * 0; -EBUSY: `s' is running already; -EINVAL: threads live on the native stack,
 * and this is not the depth or not the native thread where they were launched;
 * nothing was run.
 */
int usched_run(struct usched *s);

/*
 * Ends the use of `s'.
 * 0; -EBUSY: it is running, or has threads that were launched and have not
 * ended (ustack_abort() them); nothing was done.
 */
int usched_fini(struct usched *s);

/*
 * A snapshot of the counters. From any native thread; a dispatcher that
 * is running goes on counting meanwhile, and the parts may be of different age.
 */
void usched_stats(const struct usched *s, struct usched_stats *out);

/*
 * Makes `u' a new thread of `s' which will run func(arg) when s_next first
 * returns it, and ends when `func' returns. `image', of `size' bytes, is a
 * first image for it, or NULL: like one from s_alloc it goes to s_free when it is
 * exchanged, or else when the thread ends. A thread that never blocks, or shares
 * its stack with none, needs none. The caller owns *u until s_done.
 * 0; -EINVAL: func is NULL, or size over USCHED_IMAGE_MAX.
 * From any native thread: only *u is written. Does not switch.
 */
int ustack_init(struct usched *s, struct ustack *u, void (*func)(void *),
		void *arg, void *image, size_t size);

/*
 * As ustack_init(), for a thread that runs func(fd, arg).
 * Besides, -EINVAL: fd is negative or INT_MAX.
 */
int ustack_init_fd(struct usched *s, struct ustack *u, void (*func)(int fd, void *arg),
		   int fd, void *arg, void *image, size_t size);

/*
 * Blocks the calling thread: asks s_next for a thread and runs that. Returns
 * when s_next has chosen this one again.
 * 0; or, with nothing changed and s_next not asked: -ENOMEM: no image for the
 * thread's frames; -EPERM: not called by a thread; -EFAULT: the stack
 * pointer is not in the thread's stack (a handler on an alternate signal stack), of
 * which on the native stack 64 MiB are taken into account.
 * Switches.
 */
int ustack_block(void);

/*
 * The dispatcher of a thread, also of one that has ended, as long as *u and the
 * dispatcher's stacks are there.
 * From any native thread. Does not switch.
 */
USCHED_INLINE struct usched *ustack_sched(const struct ustack *u)
{
	return __atomic_load_n(&u->u_stack, __ATOMIC_ACQUIRE)->k_sched;
}

/*
 * Blocks the calling thread and runs `u' without asking s_next: a direct
 * hand-off. `u' must be new or blocked, and no longer in the scheduler's
 * queues; the caller must be known to someone who will have it run again.
 * 0 (at once, if `u' is the caller); as ustack_block(); -EINVAL: `u' has ended
 * or is not of this dispatcher.
 * Switches.
 */
USCHED_INLINE int ustack_switch(struct ustack *u)
{
	struct usched *s = usched__here();
	struct ustack *self = s->s_current;

	if (!self)
		return -EPERM;
	if (u == self)
		return 0;
	return u ? usched__handover(u, self, s) : -EINVAL;
}

/*
 * Reserves an image deep enough for the calling function to call
 * ustack_block() or ustack_switch(), or to have functions do so whose frames
 * take up to `room' bytes: that block then cannot fail with -ENOMEM (R4). For
 * those who must tell others that they wait before they block.
 * 0; -ENOMEM (also for a room beyond USCHED_STACK_MAX), -EPERM, -EFAULT as
 * ustack_block().
 * Does not switch.
 */
int ustack_reserve(size_t room);

/*
 * Ends `u' where it is: its frames are dropped, no destructor, clean-up
 * handler or longjmp sees them, exceptions of C++ that it handles are not freed;
 * its image goes to s_free and then s_done is called. If `u' is the caller, does not
 * return. The scheduler must have forgotten `u'.
 * 0; -EINVAL: `u' has ended; -EBUSY: it is running, but in it runs another
 * dispatcher, whose thread the caller is.
 * From the dispatcher's native thread, in or out of usched_run(). Switches
 * if `u' is the caller.
 */
int ustack_abort(struct ustack *u);

/*
 * What s_cancel has to bring about: notes it in `u' and tells its local.
 * From the dispatcher's native thread. Does not switch.
 */
void ustack_cancel_here(struct ustack *u);

/*
 * Gives the calling thread a local, which stays the caller's until its a_free is called.
 * 0; -EPERM: not called by a thread; -EBUSY: it has one.
 * Does not switch.
 */
int ustack_attach(struct ustack_attachment *l);

/* What `u' runs; NULL: it has ended. From the dispatcher's native thread. */
USCHED_INLINE void (*ustack_func(const struct ustack *u))(void *)
{
	return u->u_attached ? u->u_attachment->a_func : u->u_func;
}

#ifdef __cplusplus
}
#endif

#endif /* USCHED_H */
