/* SPDX-License-Identifier: MIT */
/*
 * ulayout.h: the layouts of usched.h, and its inline functions. Private, except what
 * usched.h names: s_current, s_over, s_slot, s_turn, s_chosen, u_tokens, u_mail.
 */
#ifndef USCHED_ULAYOUT_H
#define USCHED_ULAYOUT_H

#include <errno.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct uevents;                 /* uevents.h */
struct upreempt;                /* upreempt.h */
struct ustack_why;              /* uwait.h */
struct uco;                     /* uco.h */
struct arch_jump;               /* arch.h */

#if defined(USCHED_ASAN) || defined(USCHED_TSAN)
struct usched_fiber {
	void       *fi_handle;  /* the sanitizer's handle */
	const void *fi_base;    /* low end of the fiber's stack */
	size_t      fi_size;    /* bytes of that stack */
};
#define USCHED_WATCHED(member) member;
#else
#define USCHED_WATCHED(member)
#endif

/* C++'s state of a native thread: the first words of its __cxa_eh_globals. */
struct usched_caught {
	void    *cg_caught;     /* exceptions being handled */
	unsigned cg_uncaught;   /* exceptions thrown and not caught */
};

/* Events of hooks. Schedulers tell the last five, with usched__tell() (core.h). */
enum usched_event {
	USCHED_HANDS_OVER,      /* `u' blocks, and `other' runs now */
	USCHED_BLOCKS,          /* s_next is called, as no thread is chosen */
	USCHED_RUNS,            /* s_next has returned `u', maybe the same */
	USCHED_EVICTS,          /* the frames of `u' are about to go to the image */
	USCHED_LOADS,           /* the frames of `u' are about to come back */
	USCHED_STARTS,          /* `u' runs for the first time */
	USCHED_ENDS,            /* `u' has ended, or is aborted */
	USCHED_CREATES,         /* `other', or NULL, has created `u' */
	USCHED_BY_MAIL,         /* another native thread has woken `u' */
	USCHED_BY_JOIN,         /* the thread that `u' joins has ended */
	USCHED_ARRIVES,         /* `u' comes from another dispatcher */
};

/*
 * ho_event is told of each switch, below the frames of the thread that blocks, on the
 * dispatcher's native thread; it may not block, or change errno. While there is a hook,
 * switches go the long way.
 */
struct usched_hook {
	void (*ho_event)(struct usched_hook *h, enum usched_event event,
			struct ustack *u, struct ustack *other);
	struct usched_hook *ho_next;
};

/* Functions of uco.c. */
struct usched_coroutines {
	/* Makes the records true, as the running thread, which runs a coroutine directly,
	   is about to block or end. May fail with `fits': 0; -ENOMEM; -EFAULT. */
	int  (*cc_settle)(struct usched *s, int fits);

	/* Ends the coroutines of `u', which has ended; `inside' is the innermost that
	   `u' did not run directly. */
	void (*cc_abandon)(struct uco *inside, struct ustack *u);
};

/* A stack; struct ustack is a thread. */
struct usched_stack {
	char                *k_bottom;
	struct ustack       *k_resident;
	struct usched       *k_sched;   /* atomic: changes with usched__move() only */
	uint32_t             k_size;    /* bytes below k_bottom */
	uint32_t             k_threads; /* threads launched here, and not ended */
	__extension__ union {
		struct usched_stack *k_ring;    /* the next shared, or unshared, stack */
		void        *k_owner;   /* of an own stack: the scheduler's description */
	};
	struct usched_stack *k_prev;    /* neighbours in the list of vacant stacks */
	struct usched_stack *k_next;
	uint8_t              k_shared;  /* 1: several threads may share the stack */
	uint8_t              k_stays;   /* bits: why the thread may not move */
	uint16_t             k_number;  /* s_number of the dispatcher that it was added
					   to: constant */
	uint32_t             k_memcheck;        /* memcheck's number of the stack */
};

/* In k_stays: the thread of the stack was interrupted, and did not block by a call; has
   to do with coroutines; has brought the stack; has run a dispatcher. */
enum { USCHED_INTERRUPTED = 1, USCHED_EXCHANGES = 2, USCHED_ALONE = 4, USCHED_NESTS = 8 };

/*
 * How long the running thread has not had to wait at any call: budget.h.
 */
struct usched_spell {
	uint32_t sp_switches;           /* st_switches at the beginning; 0: none */
	uint8_t  sp_calls;              /* calls so far that make a system call */
	int8_t   sp_left;               /* calls of locks until the next look */
	int64_t  sp_since;              /* ns: the first look; 0: no look yet */
	int64_t  sp_looked;             /* ns: the last look */
};

struct usched {
	struct usched_calls  s_calls;   /* first: a copy, without NULL where it is hot */

	/* usched.c. */
	char                *s_home;    /* frame of usched_run(), or NULL */
	struct usched_stack *s_victim;  /* shared stack: the next launch evicts there */
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
	struct usched_spell  s_spell;

	/* What files above supply, or NULL. */

	/* uproc_stacks.c: adds stacks, as a launch has found no vacant stack; NULL: the
	   scheduler has no more. */
	void (*s_grow)(struct usched *s);

	/* uproc_stacks.c: returns 1 if the address is on a stack of another processor; 2:
	   of this processor. */
	int (*s_has_stack)(const struct usched *s, const void *address);

	/* upreempt_region.c: the thread that ends is in a region, and leaves it. */
	void (*s_leave)(struct usched *s);

	/* usched_hook.c: does what usched__go(s, u) does, and tells s_hook before. */
	struct arch_jump (*s_go_told)(struct usched *s, struct ustack *u);

	/* uco.c, once there is a coroutine. */
	const struct usched_coroutines *s_coroutines;

	void               (*s_func)(void *);   /* the function of the launched thread */
	void                *s_arg;

	/* Timers and descriptors, once a thread waits for such; uevents.h. */
	struct uevents  *s_events;

	/* Slices of time, once they are wanted; upreempt.h. */
	struct upreempt *s_slice;

	/* uproc.c: watches *word for a short time, if the scheduler has nothing else to
	   do: the running thread would block until another native thread has changed
	   *word from `value'. Returns 1 if *word has changed. Counts as a dispatch: after
	   some calls in a row returns 0, so that events are not missed. */
	int (*s_linger)(struct usched *s, const uint8_t *word, uint8_t value);

	/* uproc_report.c, in builds with USCHED_CHECK: reports that `u', which blocks or
	   ends, has changed the shared control words without ustack_control(). Does not
	   return. NULL: an assertion fails. */
	void (*s_changed)(const struct usched *s, const struct ustack *u);

	uint8_t          s_proc;        /* 1: *s is the start of a struct uproc */
	uint8_t          s_moves;       /* 1: threads may leave: they are launched on
					   unshared stacks first */
	uint8_t          s_known;       /* 1: ustack_self() sets USTACK_KNOWN in u_mail */
	uint8_t          s_stress;      /* 1: see src/core/stress.h */
	size_t           s_room;        /* bytes from u_image to the end of a record */
	struct usched_hook *s_hook;     /* see src/core/core.h */

	/* What each switch needs: with 64 bits these seven words and the first counter
	   are one cache line, if *s begins with one. */
	int                 *s_errno;   /* errno of the native thread */
	const struct usched_caught *s_caught;   /* C++'s exceptions, or zeros */
	struct ustack       *s_current; /* the running thread, or NULL */
	struct ustack       *s_slot;    /* this and the next two: TOKENS in usched.h */
	struct ustack       *s_chosen;
	uint64_t             s_turn;
	struct ustack       *s_inside;  /* the record of a coroutine, see uco.c: the one
					   that runs directly, if there is one */
	struct usched_stats  s_stats;   /* st_switches first; see usched_stats() */

	/* Control words: of the threads that share them, while a thread with own control
	   words runs; and of usched_run(). */
	uint64_t             s_control;
	uint64_t             s_first;

	/* The native thread; the running fiber, or NULL and the thread that ended. */
	USCHED_WATCHED(struct usched_fiber s_fiber)
	USCHED_WATCHED(struct usched_fiber *s_followed)
	USCHED_WATCHED(void *s_ended)
};

/*
 * State of a thread for a layer above. uwait.c attaches one to each thread that waits
 * there, so threads with another attachment cannot. Only the dispatcher's native thread
 * may touch it.
 */
struct ustack_attachment {
	const struct ustack_attachment_ops *a_ops;
	void (*a_func)(void *); /* the thread's function */
};

/* What an attachment does. */
struct ustack_attachment_ops {
	/* Called by the thread after the function returned. May block. */
	void (*ao_end)(struct ustack_attachment *a);

	/* Returns what ends the waits of the thread, if u_cancelled: a negative errno
	   value; 0: nothing, for now. */
	int (*ao_error)(const struct ustack_attachment *a);

	/* Returns 1 if the thread itself was cancelled. Called only if u_cancelled. */
	int (*ao_cancelled)(const struct ustack_attachment *a);

	/* Ends the wait of the thread, which was cancelled, unless shielded. */
	void (*ao_cancel)(struct ustack_attachment *a);

	/*
	 * Lets go of what belongs to this dispatcher, before the thread moves to another
	 * dispatcher. Returns 0 if the thread may not move. May not block. NULL: the
	 * thread never moves.
	 */
	int (*ao_leave)(struct ustack_attachment *a);

	/* Frees the attachment: the thread has ended or was aborted. May not block. */
	void (*ao_free)(struct ustack_attachment *a);

	/*
	 * Describes what the thread waits for, if by means of `a'; or NULL. From the
	 * dispatcher's native thread, or from any while no thread of the dispatcher runs.
	 */
	void (*ao_describe)(struct ustack_attachment *a, struct ustack_why *why);
};

/* An image from s_alloc. */
struct usched_image {
	void  *i_frames;
	size_t i_size;
};

/* How a new thread begins. */
struct usched_begin {
	void    *be_arg;
	intptr_t be_fd;         /* a descriptor for u_func; or one of these: */
};

/* In be_fd: u_func gets be_arg alone; be_arg is a struct usched__wrap, of core.h. */
enum { USCHED_PLAIN = -1, USCHED_WRAPPED = -2 };

/*
 * A thread; struct usched_stack is a stack. usched.c's from ustack_init() to s_done,
 * except the scheduler's part. A thread is
 *
 *   new      u_stack == &s_new of its dispatcher, u_func != NULL
 *   running  s_current == this
 *   blocked  otherwise; resident if u_stack->k_resident == this
 *   ended    u_func == NULL
 *
 * A record of the scheduler begins with a struct ustack, and ends with the first image:
 * the s_room bytes from u_image on. So a switch touches one cache line, and the next ones
 * if frames are copied. By bytes, with 64 bits and no sanitizer:
 *
 *    0  u_top, u_pc, u_stack, u_fp, u_bp      a hand-over reads and writes these,
 *   48  u_deep, u_errno                       and these
 *   40  u_func                                at the start and the end
 *   56  u_tokens, u_mail                      a wait or a wake
 *   64  u_image                               an eviction or a load
 */
struct ustack {
	char                *u_top;     /* blocked: the top; bit 0: new, or the frames are
					   not in place */
	const void          *u_pc;      /* blocked: where the thread goes on */
	struct usched_stack *u_stack;   /* the stack of its launch (R1) */
	void                *u_fp;      /* blocked: the frame pointer */
	void                *u_bp;      /* blocked: the base pointer */
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
			uint32_t u_cancelled : 1;       /* or may be; see ao_error */
			uint32_t u_attached  : 1;
			uint32_t u_outside   : 1;       /* has an image from s_alloc */
			uint32_t u_deep8     : 29;      /* eighths of u_deep */
#endif
		};
		/* Bytes, up to 7 too many: a block that is no deeper needs no check. */
		uint32_t     u_deep;
	};
	int                  u_errno;   /* blocked: errno */

	/* The scheduler's. */
	int32_t              u_tokens;  /* see s_pick */
	uint32_t             u_mail;    /* not touched by ustack_init() */

	USCHED_WATCHED(struct usched_fiber u_fiber)   /* usched.c's */

	/* Or the first image, from here to the end of the record. */
	__extension__ union {
		struct usched_image u_image;    /* if u_outside */
		struct usched_begin u_begin;    /* new */
		void               *u_value;    /* ended, with DISPATCH_EXITED in u_top */
	};
};

/*
 * A bit of u_mail, with s_known: other threads may know the address of this thread. While
 * clear, and if the scheduler has told no thread the address, now or for an earlier
 * thread of the record, no thread can send mail.
 */
#define USTACK_KNOWN 1u

/*
 * The u_top of s_inside while the running thread is on the frames of s_inside, and not on
 * the frames of the thread's own record; see uco.c.
 */
#define USCHED_DIRECT ((char *)3)

/* Returns the top of a blocked thread. */
static inline char *usched__top(const struct ustack *u)
{
	return (char *)((uintptr_t)u->u_top & ~(uintptr_t)1);
}

/* Returns the image of a launched thread. */
static inline char *usched__image(const struct ustack *u)
{
	const struct usched_image *image = &u->u_image;

	/* Compilers must not think that the image ends with that member. */
	__asm__("" : "+r"(image));
	return u->u_outside ? (char *)image->i_frames : (char *)(uintptr_t)image;
}

/*
 * Returns the error with which all waits of `u' end; 0: there is none. From the
 * dispatcher's native thread.
 */
static inline int usched__error(const struct ustack *u)
{
	struct ustack_attachment *a = u->u_attached ? u->u_attachment : NULL;

	if (!u->u_cancelled)
		return 0;
	return a ? a->a_ops->ao_error(a) : -ECANCELED;
}

/*
 * The hand-over as a function. Blocks `self', the running thread of `s', and
 * runs `u' of the same dispatcher, or asks s_next if `u' is NULL.
 */
int usched__handover(struct ustack *u, struct ustack *self, struct usched *s);

#include "uswitch.h"

/* Returns the dispatcher of a thread that has not ended, or cannot end for now. */
static inline struct usched *usched__of(const struct ustack *u)
{
	return __atomic_load_n(&__atomic_load_n(&u->u_stack, __ATOMIC_ACQUIRE)->k_sched,
			       __ATOMIC_RELAXED);
}

/* Returns the record of the frames that run; see USCHED_DIRECT. */
static inline const struct ustack *usched__runs(const struct usched *s)
{
	return s->s_inside->u_top == USCHED_DIRECT ? s->s_inside : s->s_current;
}

/* Returns the dispatcher of threads whose memory went back to the system. */
struct usched *usched__gone(void);

USCHED_INLINE struct usched *ustack_sched(const struct ustack *u)
{
	const struct usched_stack *k = __atomic_load_n(&u->u_stack, __ATOMIC_ACQUIRE);

	if (__builtin_expect(!k, 0))
		return usched__gone();
	return __atomic_load_n(&k->k_sched, __ATOMIC_RELAXED);
}

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

USCHED_INLINE void (*ustack_func(const struct ustack *u))(void *)
{
	return u->u_attached ? u->u_attachment->a_func : u->u_func;
}

#ifdef __cplusplus
}
#endif

#endif /* USCHED_ULAYOUT_H */
