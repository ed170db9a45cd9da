/* SPDX-License-Identifier: MIT */
/*
 * usched.h: the dispatcher, for authors of schedulers, ustack.h for authors of
 * threads; rr.h and ll.h are two schedulers.
 *
 * Words, used in this sense and no other throughout the code:
 *
 *   thread      struct ustack: a cooperative user-space thread.
 *   dispatcher  struct usched: blocks and resumes threads. It owns no policy and no
 *               memory, and runs inside usched_run() on one native thread.
 *   scheduler   supplies the dispatcher's call-backs: s_next, s_alloc and s_free, and
 *               perhaps others.
 *   stack       struct usched_stack: an address range on which threads run, growing down
 *               from its bottom; up on PA-RISC, where `below' is toward higher addresses.
 *               The part of the native stack below the frame of usched_run() is one. A
 *               scheduler may add others; then these are used instead.
 *   top         the lowest live address of a blocked thread. Its frames are exactly the
 *               bytes [top, bottom); on PA-RISC [bottom, top).
 *   image       the heap buffer that holds a blocked thread's frames while another
 *               thread uses its stack.
 *   resident    the thread whose frames are in place on a stack: at most one for each
 *               stack.
 *   evict       copy [top, bottom) to the image.
 *   load        copy the image back, always to the same addresses.
 *   hand over   block the running thread and run another, without asking s_next.
 *   processor   one native thread that runs one dispatcher (uproc.h).
 *
 * Each function says whether it may switch threads and from where it may be called. "Its
 * native thread" is the one inside usched_run() or, when none is, the next one to call
 * it: a dispatcher has no locks. Errors are negative errno values; errno itself says
 * nothing.
 */
#ifndef USCHED_H
#define USCHED_H

#include <errno.h>
#include <stddef.h>
#include <stdint.h>

#include "arch/uhere.h"

#ifdef __cplusplus
extern "C" {
#endif

#define USCHED_VERSION "0.1.0"

/* The deadline that never comes. Deadlines are in ns of CLOCK_MONOTONIC. */
#define USCHED_NEVER INT64_MAX

struct usched;
struct ustack;
struct ustack_how;
struct uevents;                 /* uevents.h */
struct usched_hook;
struct upreempt;                /* upreempt.h */
struct uco;                     /* uco.h */
struct arch_jump;               /* arch/arch.h */

/*
 * Programs inline functions of the library, and layouts of structs with them. This number
 * changes with any layout or inline function of an installed header. Sanitizers need more
 * state, see src/watch/watch.h, so all of a program is built with the same one, or
 * none. The names of entry points say both, so mixed builds fail to link.
 */
#define USCHED_LAYOUT 1

#ifdef __has_feature
#define USCHED_HAS(sanitizer) __has_feature(sanitizer)
#else
#define USCHED_HAS(sanitizer) 0
#endif
#if defined(__SANITIZE_ADDRESS__) || USCHED_HAS(address_sanitizer)
#define USCHED_ASAN
#define USCHED_KIND _needs_a_library_built_with_fsanitize_address_layout
#elif defined(__SANITIZE_THREAD__) || USCHED_HAS(thread_sanitizer)
#define USCHED_TSAN
#define USCHED_KIND _needs_a_library_built_with_fsanitize_thread_layout
#elif USCHED_HAS(memory_sanitizer)
#define USCHED_KIND _needs_a_library_built_with_fsanitize_memory_layout
#else
#define USCHED_KIND _layout
#endif
#define USCHED_PASTE(call, kind, layout) call##kind##layout
#define USCHED_NAME(call, kind, layout) USCHED_PASTE(call, kind, layout)
#define USCHED_BUILD(call) USCHED_NAME(call, USCHED_KIND, USCHED_LAYOUT)
#define usched_init USCHED_BUILD(usched_init)

#if defined(USCHED_ASAN) || defined(USCHED_TSAN)
struct usched_fiber {
	void       *f_handle;   /* of the sanitizer */
	const void *f_base;     /* low end of its stack */
	size_t      f_size;     /* and bytes */
};
#define USCHED_WATCHED(member) member;
#else
#define USCHED_WATCHED(member)
#endif

/* Private: C++'s state of a native thread: the first words of its __cxa_eh_globals. */
struct usched_caught {
	void    *c_caught;      /* exceptions being handled */
	unsigned c_uncaught;    /* exceptions thrown and not caught */
};

/*
 * Call-backs. They run on the stack of the thread that blocks or ends, below its frames,
 * or on the native stack without one. They may not block the thread (call ustack_block(),
 * or a function that does), except s_yield and s_join. s_alloc and s_free abort neither
 * `u' nor the running thread. `s' is the dispatcher of `u', or else of the running
 * thread.
 */

/*
 * Returns the next thread to run, blocked or new. It may be the thread that blocks,
 * ustack_self(): then nothing moves and ustack_block() returns. May sleep until a thread
 * is ready. NULL ends usched_run(). The image of the blocking thread is reserved by now,
 * so the scheduler may record here that it blocks.
 */
typedef struct ustack *usched_next_fn(struct usched *s);

/*
 * Returns an image of at least *size bytes for `u', and its real size in *size (at most
 * USCHED_IMAGE_MAX); NULL: no memory. The thread owns it until s_free. Called rarely:
 * when a thread on a shared stack blocks deeper than before, and deeper than s_room; or
 * is evicted much less deep than it was, which a smaller image would do for. Then NULL
 * is no failure. Also once for the waiter (uwait.h) of a thread, at its first wait
 * there: aligned to 8 bytes at least.
 */
typedef void *usched_alloc_fn(struct usched *s, struct ustack *u, size_t *size);

/*
 * Takes back an image from s_alloc, with its size. Threads that resume the same coroutine
 * (uco.h) may exchange images, so `u' need not be the thread that it was for.
 */
typedef void usched_free_fn(struct usched *s, struct ustack *u,
			    void *image, size_t size);

/*
 * `u' has ended or was aborted, and its image is back. The dispatcher will not touch `u'
 * again: this is the one place where its owner may free it (R6).
 */
typedef void usched_done_fn(struct usched *s, struct ustack *u);

/*
 * Makes `u' runnable, or has its next wait return at once. ustack_wake() calls it, from
 * the native threads that the scheduler allows: always without s_pick, else when it can
 * neither count the token nor make the thread runnable itself.
 */
typedef int usched_wake_fn(struct usched *s, struct ustack *u);

/* Makes `u', which waited for a token and was given it, runnable. See s_pick. */
typedef void usched_ready_fn(struct usched *s, struct ustack *u);

/*
 * Tokens. With s_pick, u_tokens of a thread counts the wakes that no wait has used, from
 * 0 on. While it is not negative, ustack_wait() takes from it and, on the dispatcher's
 * native thread, ustack_wake() adds to it without a call. The scheduler makes it
 * USTACK_WAITING while the thread waits for a token, for ustack_wake() to make it 0 and
 * have the thread run; and another negative value for reasons of its own, at which s_wake
 * is called. Without s_pick, u_tokens stays INT32_MIN: each wake is an s_wake, each wait
 * a block. ustack_wake() reads u_tokens, and then the owner: so where a handle may be
 * stale, a dispatcher makes a record its own itself, while no thread of it runs.
 *
 * s_pick: `self', the running thread, has no token and will wait. Notes that, and returns
 * the thread to run meanwhile; or NULL: then the thread blocks, and s_next is asked.
 * s_unpick: blocking has failed. Undoes s_pick: s_chosen is what that returned.
 *
 * The slot, for schedulers that run the thread next that was woken last. While s_slot is
 * NULL, ustack_wake() puts its thread there, else it calls s_ready. While a thread is
 * there, ustack_wait() hands over to it, unless it is the scheduler's turn: *s_mail is
 * not NULL, or s_switches has come to s_turn. Else it calls s_pick. So s_pick and
 * s_next take from there, too. usched_init() closes it: USCHED_CLOSED is no thread.
 */
enum { USTACK_WAITING = -1 };

#define USCHED_CLOSED ((struct ustack *)1)

/* A pointer of any type, written by other native threads. */
typedef void *usched_mail __attribute__((may_alias));

typedef struct ustack *usched_pick_fn(struct usched *s, struct ustack *self);
typedef void usched_unpick_fn(struct usched *s);

/* Blocks the calling thread until all that are runnable have run. As ustack_yield(). */
typedef int usched_yield_fn(struct usched *s);

/*
 * In builds with USCHED_CHECK: `u' has changed the floating point control words that the
 * threads of `s' share, without ustack_control(), and blocks or ends. Does not return.
 * Without it an assertion fails.
 */
typedef void usched_changed_fn(const struct usched *s, const struct ustack *u);

/*
 * Decides, in a signal handler, whether `u', the running thread, gives way. It is in a
 * region of ustack_preemptible(), and was interrupted in the program's own text.
 * `context' is the third argument of the handler. upreempt() calls it.
 * 1: `u' is to give way; 0: it goes on. May not block; of what `u' and `s' have, it may
 * read only.
 */
typedef int usched_preempt_fn(struct usched *s, struct ustack *u, void *context);

/*
 * Starts a thread beside others of `s', from a thread of `s'. ustack_start_with() calls
 * it, with the same arguments and results; ustack_start() with NULL for `how'.
 */
typedef int usched_start_fn(struct usched *s, const struct ustack_how *how,
			    void (*func)(void *), void *arg, struct ustack **thread);

/* Frees `u' when it ends; now, if it has ended. As ustack_detach(), which calls it. */
typedef int usched_detach_fn(struct usched *s, struct ustack *u);

/*
 * Has ustack_cancel_here(u) called on the dispatcher's native thread, soon.
 * ustack_cancel() calls it, from the native threads that the scheduler allows.
 * 0; -ESRCH: it has ended.
 */
typedef int usched_cancel_fn(struct usched *s, struct ustack *u);

/*
 * Waits until `u' has ended, puts ustack_value(u) into *value unless that is NULL, and
 * frees `u'. `s' is its dispatcher. `where' is a place in the call, for reports. A native
 * thread waits until `deadline' at most. A thread gets 0, not to wait at all, or
 * USCHED_NEVER; then it waits until s_interrupt is called for it, and its join returns
 * -EDEADLK; or -EAGAIN if it cannot tell whether an interrupt was for an earlier join:
 * then it is called again, unless something has ended the wait. ustack_join() calls it.
 */
typedef int usched_join_fn(struct usched *s, struct ustack *u, const void *where,
			   void **value, int64_t deadline);

/* Ends the s_join of `u', if it is in one. From any native thread. */
typedef void usched_interrupt_fn(struct usched *s, struct ustack *u);

/*
 * Looks at *word for a short time, if the scheduler has nothing else to do: the running
 * thread would block until another native thread has changed it from `value'. It counts
 * as a dispatch: after some in a row it returns 0, so that events are not missed.
 * uwait_linger() calls it.
 * 1: it has changed; 0: the thread is to block.
 */
typedef int usched_linger_fn(struct usched *s, const uint8_t *word, uint8_t value);

/* Counters since usched_init(), except s_images and s_image_bytes: now. */
struct usched_stats {
	uint64_t s_launches;    /* threads that began to run */
	uint64_t s_images;      /* images from s_alloc */
	uint64_t s_image_bytes; /* their sizes added up */
	uint64_t s_deepest;     /* bytes of the deepest block over 1 KiB or evicted */
	uint64_t s_bytes;       /* bytes copied by evictions and loads */
	uint64_t s_evictions;
	uint64_t s_loads;
	uint64_t s_preempted;   /* times that a thread gave way as its slice was over */
	uint64_t s_moves;       /* threads that came from another dispatcher; counted by
				   the scheduler */
	uint64_t s_switches;    /* launches and resumes, except self-resumes */
};

/*
 * What a hook is told. The last ones are told by schedulers, with usched__tell().
 */
enum usched_event {
	USCHED_HANDS_OVER,      /* `u' blocks, and `other' runs now */
	USCHED_BLOCKS,          /* s_next is asked, */
	USCHED_RUNS,            /* and has returned this one; it may be the same */
	USCHED_EVICTS,          /* its frames are about to be copied, */
	USCHED_LOADS,           /* and here, too */
	USCHED_STARTS,          /* it runs for the first time */
	USCHED_ENDS,            /* by itself, or it is aborted */
	USCHED_CREATES,         /* `other' has created it, or NULL */
	USCHED_BY_MAIL,         /* it waited, and another native thread woke it; */
	USCHED_BY_JOIN,         /* or the thread that it joins has ended */
	USCHED_ARRIVES,         /* it comes from another dispatcher */
};

/*
 * Is told of each switch, below the frames of the thread that blocks; on the dispatcher's
 * native thread. May not block, or change errno. Schedulers put it into s_hook, where it
 * costs nothing while there is none: with one, switches go the long way.
 */
struct usched_hook {
	void (*h_event)(struct usched_hook *h, enum usched_event event,
			struct ustack *u, struct ustack *other);
	struct usched_hook *h_next;
};

/* Private, for uco.c: see there. */
struct usched_coroutines {
	/* The running thread is about to block or end, and runs a coroutine directly:
	   makes the records true. It may fail if it `fits': 0; -ENOMEM; -EFAULT. */
	int  (*c_settle)(struct usched *s, int fits);

	/* `u' has ended; `inside' is the innermost that it did not run directly. */
	void (*c_abandon)(struct uco *inside, struct ustack *u);
};

struct usched_stack {
	char                *k_bottom;
	struct ustack       *k_resident;
	struct usched       *k_sched;   /* atomic: changes with usched_move() only */
	uint32_t             k_size;    /* bytes below k_bottom */
	uint32_t             k_threads; /* launched here and not ended */
	__extension__ union {
		struct usched_stack *k_ring;    /* the next shared one, or unshared */
		void        *k_owner;   /* ALONE: the scheduler's */
	};
	struct usched_stack *k_prev;    /* list of vacant stacks: without a resident */
	struct usched_stack *k_next;
	uint8_t              k_shared;  /* 1: several threads may live here */
	uint8_t              k_stays;   /* its thread may not move; bits: */
	uint16_t             k_number;  /* s_number of the dispatcher that it was added
					   to: constant */
	uint32_t             k_memcheck;        /* its number in memcheck */
};

/* Private, in k_stays: its thread was interrupted, and did not block by a call; it has to
   do with coroutines; the thread has brought the stack; it has run a dispatcher. */
enum { USCHED_INTERRUPTED = 1, USCHED_EXCHANGES = 2, USCHED_ALONE = 4, USCHED_NESTS = 8 };

/*
 * Private: how long the running thread has found something at each call;
 * budget.h. The rest is there so that what follows stays where cache lines begin.
 */
struct usched_spell {
	uint32_t l_switches;            /* s_switches at its beginning; 0: it is over */
	uint8_t  l_calls;               /* in it that make a system call */
	int8_t   l_left;                /* of locks and the like until one looks */
	int64_t  l_since;               /* ns of CLOCK_MONOTONIC; 0: not looked at yet, */
	int64_t  l_looked;              /* and at the last look */
};

struct usched {
	/* Private to usched.c. */
	char                *s_home;    /* frame of usched_run(), or NULL */
	struct usched_stack *s_victim;  /* shared: the next launch may evict there */
	struct usched_stack *s_unshared; /* stacks beyond the shared ones */
	struct usched_stack  s_vacant;  /* list head: those without threads first */
	struct usched_stack  s_vacant_unshared; /* with s_moves */
	struct usched_stack  s_native;
	struct usched_stack  s_new;     /* new threads are here. List head: stacks that
					   threads have brought; k_ring: those that they
					   left behind, by k_next */
	unsigned             s_stacks;    /* stacks */
	uint16_t             s_colour;  /* of the next */
	uint16_t             s_number;  /* the scheduler's: k_number of its stacks */
	int                  s_owns;    /* bits: */
#define USCHED_OWNS 1                   /* the running thread has own control words */
#define USCHED_TOLD 2                   /* s_hook is not NULL */
#define USCHED_EACH 4                   /* s_control_each */
	uint32_t             s_over;    /* atomic: 1: the slice of the running thread is
					   over; set by the scheduler, from any native
					   thread */
	uint64_t             s_control; /* those of the others meanwhile */
	uint64_t             s_first;   /* those of usched_run() */
	struct usched_spell  s_spell;

	/* Private: what files above supply, or NULL. */

	/* uproc_stacks.c: a launch has found no vacant stack. Adds some, or is NULL
	   then. */
	void (*s_grow)(struct usched *s);

	/* uproc_stacks.c: 1: the address is on a stack of another processor; 2: of this
	   one. */
	int (*s_has_stack)(const struct usched *s, const void *address);

	/* upreempt.c: the thread that ends is in a preemptible region, and leaves it. */
	void (*s_leave)(struct usched *s);

	/* usched_hook.c: tells s_hook what usched__go(u, s) will do, and does it. */
	struct arch_jump (*s_told)(struct usched *s, struct ustack *u);

	/* uco.c, once there is a coroutine. */
	const struct usched_coroutines *s_coroutines;

	void               (*s_func)(void *);   /* of the thread being launched */
	void                *s_arg;

	/* Timers and descriptors, once a thread waits for one; uevents.h. */
	struct uevents  *s_events;

	/* Slices of time, once they are wanted; upreempt.h. */
	struct upreempt *s_slice;

	/* Set by the scheduler before usched_init(); the last ones are hot. */
	size_t           s_room;        /* bytes from u_image to the end of a record */
	struct usched_hook *s_hook;     /* private: see usched__set_hook() */
	uint8_t          s_control_each; /* 1: each thread has its own control words, see
					    ustack_control() */
	uint8_t          s_known;       /* 1: ustack_self() sets USTACK_KNOWN in u_mail */
	uint8_t          s_moves;       /* 1: threads may leave: they are launched on
					   unshared stacks first */
	uint8_t          s_polls;       /* 1: s_next looks for s_events, see uevents.h */
	uint8_t          s_stress;      /* private: 1: see src/core/stress.h */
	uint8_t          s_proc;        /* private: 1: a struct uproc begins with it */
	usched_alloc_fn *s_alloc;
	usched_free_fn  *s_free;
	usched_done_fn  *s_done;        /* or NULL, as all that follow but s_next */
	usched_changed_fn *s_changed;
	usched_preempt_fn *s_preempt;
	usched_start_fn *s_start;
	usched_yield_fn *s_yield;
	usched_cancel_fn *s_cancel;
	usched_detach_fn *s_detach;
	usched_join_fn  *s_join;        /* with */
	usched_interrupt_fn *s_interrupt;
	usched_linger_fn *s_linger;
	usched_unpick_fn *s_unpick;     /* with */
	usched_pick_fn  *s_pick;
	usched_ready_fn *s_ready;       /* with */
	usched_wake_fn  *s_wake;
	usched_next_fn  *s_next;
	const usched_mail *s_mail;

	/* Private, and last: next to the hot part of a scheduler's struct. */
	struct usched_stats  s_stats;   /* read with usched_stats() */
	int                 *s_errno;   /* errno of the native thread that runs it */
	const struct usched_caught *s_caught;   /* likewise; zeros if there is no C++ */
	struct ustack       *s_current; /* the running thread, or NULL */
	struct ustack       *s_slot;    /* the scheduler's, as the next two: see s_pick */
	struct ustack       *s_chosen;
	uint64_t             s_turn;
	struct ustack       *s_inside;  /* the record of a coroutine, see uco.c: the one
					   that runs directly, if there is one */
	/* The native thread; the running fiber, or NULL and the thread that ended. */
	USCHED_WATCHED(struct usched_fiber s_fiber)
	USCHED_WATCHED(struct usched_fiber *s_followed)
	USCHED_WATCHED(void *s_ended)
};

/* What a thread waits for, for reports. */
struct ustack_why {
	const char *y_kind;             /* such as "mutex"; constant, as y_how */
	const void *y_object;           /* its address, or NULL */
	const char *y_how;              /* such as " to read"; or "" */
	char        y_more[128];        /* more in words, behind that; or "" */
	uintptr_t   y_holder;           /* the thread that has it, or a number of a native
					   thread; 0: none, or not known */
	const void *y_where;            /* return address of the call, or NULL */
	int         y_number;           /* 1: y_object is a number, as of a descriptor */
	int         y_woken;            /* 1: the wait is over, and the thread about to be
					   woken: it waits for nothing */
};

/*
 * State of a thread for a layer above. uwait.c attaches one to each thread that waits
 * there, so threads with another attachment cannot. Only the dispatcher's native thread
 * may touch it.
 */
struct ustack_attachment {
	const struct ustack_attachment_ops *a_ops;
	void (*a_func)(void *); /* the thread's; ustack_attach() sets it */
};

/* What an attachment does. */
struct ustack_attachment_ops {
	/* The thread calls it after its function. May block. */
	void (*a_end)(struct ustack_attachment *a);

	/* What ends the waits of the thread, if u_cancelled: a negative errno value; 0:
	   nothing does, for now. */
	int (*a_error)(const struct ustack_attachment *a);

	/* 1: the thread was cancelled itself. Only asked if u_cancelled. */
	int (*a_cancelled)(const struct ustack_attachment *a);

	/* The thread is cancelled: ends its wait, unless it is shielded. */
	void (*a_cancel)(struct ustack_attachment *a);

	/*
	 * The thread is to move to another dispatcher: lets go of what belongs to this
	 * one. 0: it may not move. May not block. NULL: it never may.
	 */
	int (*a_leave)(struct ustack_attachment *a);

	/* The thread has ended or was aborted. May not block. */
	void (*a_free)(struct ustack_attachment *a);

	/*
	 * Describes what the thread waits for, if by means of `a'; or NULL. From the
	 * dispatcher's native thread; from any, while none of its threads runs.
	 */
	void (*a_describe)(struct ustack_attachment *a, struct ustack_why *why);
};

/* Private: an image from s_alloc. */
struct usched_image {
	void  *i_frames;
	size_t i_size;
};

/*
 * Private to usched.c from ustack_init() to s_done, except the scheduler's part. A
 * thread is
 *
 *   new      u_stack == &s_new of its dispatcher, u_func != NULL
 *   running  s_current == this
 *   blocked  otherwise; resident if u_stack->k_resident == this
 *   ended    u_func == NULL
 *
 * It is the beginning of a record of the scheduler, and its first image the end: the
 * s_room bytes from u_image on. So what a switch touches is one cache line, and the next
 * ones if it copies. By bytes, with 64 bits and no sanitizer:
 *
 *    0  u_top, u_pc, u_stack, u_fp, u_bp      a hand-over reads and writes these,
 *   48  u_deep, u_errno                       and these
 *   40  u_func                                at the start and the end
 *   56  u_tokens, u_mail                      a wait or a wake
 *   64  u_image                               an eviction or a load
 */
struct ustack {
	char                *u_top;     /* blocked: its top; bit 0: its frames are not in
					   place, or it is new */
	const void          *u_pc;      /* blocked: where it goes on, */
	struct usched_stack *u_stack;   /* where it was launched (R1) */
	void                *u_fp;      /* blocked: its frame pointer */
	void                *u_bp;      /* and base pointer */
	__extension__ union {
		void               (*u_func)(void *);
		struct ustack_attachment *u_attachment;         /* if u_attached */
	};
	__extension__ union {
		/* From the lowest bit of u_deep up: ABIs begin where bytes do. */
		struct {
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
			uint32_t u_deep8     : 29;
			uint32_t u_outside   : 1;
			uint32_t u_attached  : 1;
			uint32_t u_cancelled : 1;
#else
			uint32_t u_cancelled : 1;       /* or may be: a_error knows */
			uint32_t u_attached  : 1;
			uint32_t u_outside   : 1;       /* has an image from s_alloc */
			uint32_t u_deep8     : 29;      /* eighths of u_deep */
#endif
		};
		/* Bytes, less than 8 too many: blocks up to this depth need no check. */
		uint32_t     u_deep;
	};
	int                  u_errno;   /* blocked: its errno */

	/* The scheduler's. */
	int32_t              u_tokens;  /* see s_pick */
	uint32_t             u_mail;    /* not touched by ustack_init() */

	USCHED_WATCHED(struct usched_fiber u_fiber)   /* usched.c's */

	/* If u_outside; new: argument and descriptor; ended: its value; else the first
	   image is here. */
	struct usched_image  u_image;
};

/*
 * In u_mail, with s_known: other threads may know the address of this one. If it is
 * clear, and the scheduler has told the address to none, now or for an earlier thread,
 * none can send mail.
 */
#define USTACK_KNOWN 1u

/*
 * Private: in u_top of s_inside while the running thread is on the frames that this
 * describes, and not on those of its own record; see uco.c.
 */
#define USCHED_DIRECT ((char *)3)

/* Private: the top of a blocked thread. */
static inline char *usched__top(const struct ustack *u)
{
	return (char *)((uintptr_t)u->u_top & ~(uintptr_t)1);
}

/* Private: the image of a launched thread. */
static inline char *usched__image(const struct ustack *u)
{
	const struct usched_image *image = &u->u_image;

	/* Compilers must not think that it ends with that member. */
	__asm__("" : "+r"(image));
	return u->u_outside ? (char *)image->i_frames : (char *)(uintptr_t)image;
}

/*
 * Private: what waits of `u' return, a negative errno value; 0: they wait. From the
 * dispatcher's native thread.
 */
static inline int usched__error(const struct ustack *u)
{
	struct ustack_attachment *a = u->u_attached ? u->u_attachment : NULL;

	if (!u->u_cancelled)
		return 0;
	return a ? a->a_ops->a_error(a) : -ECANCELED;
}

/*
 * Private: the hand-over as a function. Blocks `self', the running thread of `s', and
 * runs `u' of the same dispatcher, or asks s_next if `u' is NULL.
 */
int usched__handover(struct ustack *u, struct ustack *self, struct usched *s);

/*
 * Makes `s' ready for use, with the native stack as its one stack. The call-backs must
 * be set, and s_room, unless a record ends with its struct ustack.
 * 0; -EINVAL: a required call-back is missing, or s_room is over USCHED_IMAGE_MAX;
 * -ENOTSUP: this machine keeps a shadow stack, which cannot be copied, or code of the
 * program was compiled with -fsplit-stack, which moves frames to stacks of its own.
 * From any native thread. Does not switch.
 */
int usched_init(struct usched *s);

/*
 * Adds the range [base, base + size) as a stack of `s'. It stays the caller's, to free
 * after usched_fini(). From the first added stack on, threads are launched on added
 * stacks only. The first 64 are shared by threads; each of the others has one thread at a
 * time, which is never evicted (R7). The high end of the range, up to 4 KiB, holds
 * book-keeping and an offset: it keeps stacks apart in the sets of a cache, and from what
 * each switch writes. There should be a guard page below.
 * 0; -EINVAL: less than USCHED_STACK_MIN, or more than _MAX; -ENOTSUP: the portable
 * switch has the native stack only; -EBUSY: threads live on the native stack.
 * From the dispatcher's native thread. Does not switch.
 */
int usched_add_stack(struct usched *s, void *base, size_t size);

#define USCHED_STACK_MIN ((size_t)8192)         /* bytes */
#define USCHED_STACK_MAX ((size_t)1 << 30)      /* depths and rooms add up in 32 bits */
#define USCHED_IMAGE_MAX (USCHED_STACK_MAX - 1) /* bytes: no thread is as deep */

/*
 * Calls f(low, size, arg) for stack memory of `s' that holds no frames: of each added
 * stack from number `from' on the bytes from its low end to the frames of its resident.
 * `f' may overwrite what it finds there, or give the pages back. Ends early if `f'
 * returns 0. The stack of the caller is left out, and so is the native one.
 * Returns the number to go on with; 0: these were all.
 * From the dispatcher's native thread. Does not switch.
 */
size_t usched_unused(const struct usched *s, size_t from,
		     int (*f)(void *low, size_t size, void *arg), void *arg);

/*
 * Runs threads until s_next returns NULL. Blocked threads stay blocked, and usched_run()
 * may be called again. With added stacks that may be at any depth and on any native
 * thread, one at a time. While threads live on the native stack, it must be at the same
 * depth of the same native thread. A thread may run another dispatcher; no thread of the
 * outer one runs meanwhile, and the caller does not move from then on. The native thread
 * must not be cancelled meanwhile (pthread_setcancelstate(3)); those of rr and ll never
 * are. Threads share the floating point control words of the caller, which has them
 * again at the end.
 * 0; -EBUSY: `s' is running already; -EINVAL: threads live on the native stack, at
 * another depth or of another native thread; nothing was run.
 * Does not switch.
 */
int usched_run(struct usched *s);

/*
 * Ends the use of `s'.
 * 0; -EBUSY: it is running, or has threads that were launched and have not ended
 * (ustack_abort() them); nothing was done.
 * From the dispatcher's native thread. Does not switch.
 */
int usched_fini(struct usched *s);

/*
 * Sets *out to a snapshot of the counters. While the dispatcher runs, the parts may be
 * of different age.
 * From any native thread. Does not switch.
 */
void usched_stats(const struct usched *s, struct usched_stats *out);

/* The place of an address among stacks, as usched_onstack() of uframes.h returns it. */
enum usched_place {
	USCHED_ELSEWHERE,       /* on none of the stacks */
	USCHED_MINE,            /* in the frames of the thread that runs */
	USCHED_THEIRS,          /* in the frames of a blocked thread that is resident */
	USCHED_STALE,           /* on a stack, but in no frames: a thread was evicted, has
				   returned, or has ended */
	USCHED_REMOTE,          /* on a stack of another processor of rr or ll */
};

/*
 * Makes `u' a new thread of `s' that will run func(arg) when s_next first returns it,
 * and ends when func returns. The caller owns *u until s_done, and the s_room bytes from
 * u->u_image on, which are its first image.
 * 0; -EINVAL: `func' is NULL.
 * From any native thread: only *u is written. Does not switch.
 */
int ustack_init(struct usched *s, struct ustack *u, void (*func)(void *), void *arg);

/*
 * As ustack_init(), for a thread that runs func(fd, arg).
 * 0; -EINVAL also: `fd' is negative or INT_MAX.
 */
int ustack_init_fd(struct usched *s, struct ustack *u, void (*func)(int fd, void *arg),
		   int fd, void *arg);

/*
 * Private, for a function of the library that calls one of the program's in a thread. A
 * thread that is started with usched__wrapped and the address of such a struct calls
 * w_begin with that. Reports name the thread by w_func.
 */
struct usched__wrap {
	void      (*w_begin)(struct usched__wrap *w);
	void      (*w_func)(void *);    /* the program's, cast if its type is another */
	const void *w_where;            /* the return address of the program's call */
};
void usched__wrapped(void *wrap);

/* Private: the struct of a new thread; NULL: the thread was not started so. */
struct usched__wrap *usched__wrap_of(const struct ustack *u);

/*
 * Private, for posix/, in the child of a fork, whose only native thread is the caller's:
 * the caller is no thread from now on. Likewise others that end with __forked() have what
 * belongs to other native threads be forgotten, and their locks be open. Those that end
 * with __hold() take a lock before the fork, and release it in both processes, where the
 * child is to find whole what it is for. posix/uposix_fork.c has the list of all.
 */
void usched__forked(void);

/* Private, for posix/: returns the control words of the caller; they are *set from now
   on, unless `set' is NULL. */
uint64_t usched__control_words(const uint64_t *set);

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

#include "arch/uswitch.h"

/* Private: the dispatcher of a thread that has not ended, or cannot for now. */
static inline struct usched *usched__of(const struct ustack *u)
{
	return __atomic_load_n(&__atomic_load_n(&u->u_stack, __ATOMIC_ACQUIRE)->k_sched,
			       __ATOMIC_RELAXED);
}

/* Private: the record of the frames that run; see USCHED_DIRECT. */
static inline const struct ustack *usched__runs(const struct usched *s)
{
	return s->s_inside->u_top == USCHED_DIRECT ? s->s_inside : s->s_current;
}

/* Private: the dispatcher of threads whose memory went back to the system. */
struct usched *usched__gone(void);

/*
 * Returns the dispatcher of a thread, even one that has ended, while *u and the stacks
 * exist. If *u is zeros, since its memory went back to the system: one for which each
 * call has the error of a thread that has ended.
 * From any native thread. Does not switch.
 */
USCHED_INLINE struct usched *ustack_sched(const struct ustack *u)
{
	const struct usched_stack *k = __atomic_load_n(&u->u_stack, __ATOMIC_ACQUIRE);

	if (__builtin_expect(!k, 0))
		return usched__gone();
	return __atomic_load_n(&k->k_sched, __ATOMIC_RELAXED);
}

/*
 * Hands over to `u': blocks the calling thread and runs `u', without asking s_next. `u'
 * is new or blocked, and no longer in the scheduler's queues. The scheduler must know
 * that the caller waits.
 * 0, at once if `u' is the caller; -ENOMEM, -EPERM, -EFAULT as ustack_block(); -EINVAL:
 * `u' has ended or is not of this dispatcher.
 * Switches.
 */
USCHED_SWITCHES int ustack_switch(struct ustack *u)
{
	struct usched *s = usched__here();
	struct ustack *self = s->s_current;

	if (!self)
		return -EPERM;
	if (u == self)
		return 0;
	if (!u || !u->u_func || ustack_sched(u) != s)
		return -EINVAL;
	return usched__hand_over(u, self, s);
}

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
 * longjmp(3) sees them, and exceptions of C++ that it handles are not freed. Its image
 * goes to s_free, then s_done is called. If `u' is the caller, does not return. The
 * scheduler must have forgotten `u'. Threads of rr and ll may abort themselves, and
 * nothing else may.
 * 0; -EINVAL: `u' has ended; -EBUSY: `u' runs another dispatcher, and the caller is a
 * thread of that.
 * From the dispatcher's native thread, in or out of usched_run(). Switches if `u' is the
 * caller.
 */
int ustack_abort(struct ustack *u);

/*
 * Returns the value that `u', which has ended, gave to ustack_exit(); NULL: it gave
 * none. For s_join, from s_done until the record is used again. Does not switch.
 */
void *ustack_value(const struct ustack *u);

/*
 * Returns 1 if `u', which is runnable, may be given to another dispatcher: it is new; or
 * it blocked by a call, is alone on its stack, and is not s_current. Else 0.
 * From the dispatcher's native thread. Does not switch.
 */
int usched_may_move(const struct ustack *u);

/*
 * Makes `u', for which usched_may_move() is 1, a thread of `to', with its stack. What it
 * keeps of this native thread, such as &errno, is wrong then. The schedulers must have
 * forgotten it here, and know it there.
 * From the dispatcher's native thread; `to' may run meanwhile, but not `u'. Or with `u'
 * between dispatchers: doc/moving.md. Does not switch.
 */
void usched_move(struct ustack *u, struct usched *to);

/*
 * Take a vacant stack out of the use of its dispatcher, and into that of `s'; for a
 * stack that came with a thread and goes back to where it was added. Between the two no
 * frame may be on it: the thread that ended there may have called s_done.
 * From the native thread of its dispatcher, and of `s'. Do not switch.
 */
void usched_drop_stack(struct usched_stack *k);
void usched_take_stack(struct usched *s, struct usched_stack *k);

/*
 * Private, for uproc_alone.c: stacks that threads bring along. usched__make_stack() makes
 * the range one, which belongs to no dispatcher; `s' is where threads will probably use
 * it, and *colour counts such stacks. usched__place_alone() has `u', which is new, begin
 * on it. The thread is alone there, and stays on its processor. When it has ended, before
 * s_done, the stack is in the list that usched__left() returns, and a call of s_done may
 * still run on it. After usched__end_stack() its memory may go.
 */
struct usched_stack *usched__make_stack(const struct usched *s, void *base, size_t size,
					uint16_t *colour);
void usched__place_alone(struct ustack *u, struct usched_stack *k);
void usched__end_stack(const struct usched_stack *k);

static inline struct usched_stack **usched__left(struct usched *s)
{
	return &s->s_new.k_ring;
}

/*
 * Cancels `u', for s_cancel: marks it, calls a_cancel of its attachment, and s_interrupt
 * if its waits end now.
 * From the dispatcher's native thread. Does not switch.
 */
void ustack_cancel_here(struct ustack *u);

/*
 * Gives the calling thread an attachment, which stays the caller's until a_free.
 * 0; -EPERM: the caller is no thread; -EBUSY: it has one.
 * Does not switch.
 */
int ustack_attach(struct ustack_attachment *l);

/*
 * Private, for schedulers: puts the hook first, or takes it out, on the dispatcher's
 * native thread, in s_next or out of usched_run(). A thread that has resumed no coroutine
 * may set one.
 */
void usched__set_hook(struct usched *s, struct usched_hook *h);
void usched__drop_hook(struct usched *s, struct usched_hook *h);

/* Private: for usched__tell(). */
void usched__tell_all(struct usched *s, enum usched_event event, struct ustack *u,
		      struct ustack *other);

/* Private, for schedulers: tells all hooks, where there are some. */
static inline void usched__tell(struct usched *s, enum usched_event event,
				struct ustack *u, struct ustack *other)
{
	if (__builtin_expect(s->s_hook != NULL, 0))
		usched__tell_all(s, event, u, other);
}

/*
 * Returns the function of `u'; NULL: it has ended.
 * From the dispatcher's native thread. Does not switch.
 */
USCHED_INLINE void (*ustack_func(const struct ustack *u))(void *)
{
	return u->u_attached ? u->u_attachment->a_func : u->u_func;
}

#ifdef __cplusplus
}
#endif

#endif /* USCHED_H */
