/* SPDX-License-Identifier: MIT */
/*
 * ulayout.h: the layouts of the structs of usched.h, and its inline functions. Private,
 * except members that usched.h names: s_current, s_over, s_slot, s_turn and so on.
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

/* The state of C++'s exceptions on a native thread: the start of its __cxa_eh_globals. */
struct usched_caught {
	void    *cg_caught;     /* exceptions being handled */
	unsigned cg_uncaught;   /* exceptions thrown and not caught */
};

/* Events of hooks. Schedulers tell of the last four, by usched__tell() (core.h). */
enum usched_event {
	USCHED_HANDS_OVER,      /* `u' blocks and hands over to `other' */
	USCHED_BLOCKS,          /* `u' blocks, and s_next may be called */
	USCHED_RUNS,            /* `u' runs next, and may have just blocked; `other', or
				   NULL, will be evicted before, and `u' is not loaded
				   or started yet */
	USCHED_ENDS,            /* `u' has ended, or is aborted */
	USCHED_CREATES,         /* `other', or NULL, has created `u' */
	USCHED_BY_MAIL,         /* another native thread has woken `u' */
	USCHED_BY_JOIN,         /* the thread that `u' joins has ended */
	USCHED_ARRIVES,         /* `u' comes from another dispatcher */
};

/*
 * ho_event is called at each switch, below the frames of the thread that blocks, on the
 * dispatcher's native thread. The function may not block, or change errno. While there is
 * a hook, switches go the long way.
 */
struct usched_hook {
	void (*ho_event)(struct usched_hook *h, enum usched_event event,
			struct ustack *u, struct ustack *other);
	struct usched_hook *ho_next;
};

/* Functions of uco.c. */
struct usched_coroutines {
	/* Makes the records true (uco.c), because the running thread, which runs a
	   coroutine directly, is about to block or end. Returns 0; with `fits' also
	   -ENOMEM or -EFAULT. */
	int  (*cc_settle)(struct usched *s, int fits);

	/* Ends the coroutines of `u', which has ended. `inside' is the innermost of the
	   coroutines that `u' did not run directly. */
	void (*cc_abandon)(struct uco *inside, struct ustack *u);

	/* Frees s_spare, at the end of `s'. */
	void (*cc_end)(struct usched *s);
};

/* A stack; struct ustack is a thread. */
struct usched_stack {
	char                *k_bottom;
	struct ustack       *k_resident;
	struct usched       *k_sched;   /* atomic: the dispatcher that has the stack */
	uint32_t             k_size;    /* bytes below k_bottom */
	uint32_t             k_threads; /* threads launched here, and not ended */
	__extension__ union {
		struct usched_stack *k_ring;    /* next shared or unshared stack */
		void        *k_owner;   /* own stack: the scheduler's description */
	};
	struct usched_stack *k_prev;    /* neighbours in the list of vacant stacks */
	struct usched_stack *k_next;
	uint8_t              k_shared;  /* 1: several threads may share the stack */
	uint8_t              k_stays;   /* bits: why the stack's thread may not move */
	uint16_t             k_number;  /* constant: s_number of the dispatcher to
					   which the stack was added */
	uint32_t             k_memcheck;        /* memcheck's number of the stack */
};

/* Bits of k_stays: the thread of the stack was interrupted, and did not block by a call;
   has made or resumed a coroutine; has brought the stack; has run a dispatcher. */
enum { USCHED_INTERRUPTED = 1, USCHED_EXCHANGES = 2, USCHED_ALONE = 4, USCHED_NESTS = 8 };

/*
 * The spell of the running thread: how long no call has had to wait. See budget.h.
 */
struct usched_spell {
	uint32_t sp_switches;           /* st_switches at the start; 0: no spell */
	uint8_t  sp_calls;              /* calls so far that make a system call */
	int8_t   sp_left;               /* calls of locks before the next look */
	int64_t  sp_since;              /* ns: first look at the clock; 0: none yet */
	int64_t  sp_looked;             /* ns: last look at the clock */
};

struct usched {
	struct usched_calls  s_calls;   /* the first member. A copy, in which defaults
					   replace some NULL */

	/* usched.c. */
	char                *s_home;    /* frame of usched_run(), or NULL */
	struct usched_stack *s_victim;  /* shared stack where the next launch evicts */
	struct usched_stack *s_unshared; /* stacks beyond the shared ones */
	struct usched_stack  s_vacant;  /* list head. Stacks without threads come first */
	struct usched_stack  s_vacant_unshared; /* list head, with s_moves: unshared */
	struct usched_stack  s_native;
	struct usched_stack  s_new;     /* u_stack of new threads. Head of the list of
					   own stacks; k_ring: own stacks whose thread
					   has ended, linked by k_next */
	unsigned             s_stacks;    /* number of added stacks */
	uint16_t             s_colour;  /* counts colours, for the next stack */
	uint16_t             s_number;  /* k_number of its stacks; set by the scheduler */
	int                  s_owns;    /* these bits: */
#define USCHED_OWNS 1                   /* the running thread has own control words */
#define USCHED_TOLD 2                   /* s_hook is not NULL */
#define USCHED_EACH 4                   /* s_control_each */
	uint32_t             s_over;    /* 1: the slice of the running thread is over.
					   Atomic: the scheduler sets this, from any
					   native thread */
	struct usched_spell  s_spell;

	/* What files above supply, or NULL. */

	/* uproc_stacks.c: called if a launch finds no suitable vacant stack. Adds stacks.
	   NULL: the scheduler has no more stacks. */
	void (*s_grow)(struct usched *s);

	/* uproc_stacks.c: returns 1 if the address is on a stack of another processor; 2
	   if on a stack of this processor; else 0. */
	int (*s_has_stack)(const struct usched *s, const void *address);

	/* upreempt_region.c: called if a thread ends in a region. Leaves the region. */
	void (*s_leave)(struct usched *s);

	/* usched_hook.c: tells the hooks, then does what usched__go(s, u) does. */
	struct arch_jump (*s_go_told)(struct usched *s, struct ustack *u);

	/* Of uco.c; NULL until there is a coroutine. */
	const struct usched_coroutines *s_coroutines;

	void               (*s_func)(void *);   /* the function of the launched thread */
	void                *s_arg;

	/* Timers and descriptors; NULL until a thread waits for one. See uevents.h. */
	struct uevents  *s_events;

	/* Slices of time; NULL until they are wanted. See upreempt.h. */
	struct upreempt *s_slice;

	/* uproc.c: called if the running thread must wait until another native thread
	   changes *word, which is `value' now. Before the thread blocks, this watches
	   *word for a short time if the scheduler has nothing else to do. Returns 1 if
	   *word has changed, else 0. After some calls in a row also returns 0, so that
	   events are not missed. */
	int (*s_linger)(struct usched *s, const uint8_t *word, uint8_t value);

	/* uproc_report.c, in builds with USCHED_CHECK: reports that `u', which blocks or
	   ends, has changed the shared control words without ustack_control(). Does not
	   return. If this is NULL, an assertion fails instead. */
	void (*s_changed)(const struct usched *s, const struct ustack *u);

	uint8_t          s_proc;        /* 1: *s is the start of a struct uproc */
	uint8_t          s_moves;       /* 1: threads may move to other dispatchers, so
					   they are launched on unshared stacks first */
	uint8_t          s_known;       /* 1: ustack_self() sets USTACK_KNOWN in u_mail */
	uint8_t          s_stress;      /* 1: see src/core/stress.h */
	size_t           s_room;        /* bytes from u_image to the end of a record */
	struct usched_hook *s_hook;     /* see src/core/core.h */

	/* What each switch needs. With 64 bits, the next seven words and the first
	   counter are one cache line, if *s begins a cache line. */
	int                 *s_errno;   /* errno of the native thread */
	const struct usched_caught *s_caught;   /* two words; see usched.c */
	struct ustack       *s_current; /* the running thread, or NULL */
	struct ustack       *s_slot;    /* the next thread: TOKENS in usched.h */
	struct ustack       *s_chosen;  /* what s_pick returned: TOKENS in usched.h */
	uint64_t             s_turn;    /* when to call s_pick: TOKENS in usched.h */
	struct ustack       *s_inside;  /* the record of the coroutine that runs or has
					   last run directly: see uco.c */
	struct usched_stats  s_stats;   /* st_switches is the first word */

	/* Control words. While a thread with own words runs, s_control has the words that
	   the other threads share. s_first has the words at the call of usched_run(). */
	uint64_t             s_control;
	uint64_t             s_first;

	char                *s_block;   /* the native thread's TLS block; NULL: threads
					   have no blocks of their own. See core.h */
	ptrdiff_t            s_current_at; /* bytes from a block to usched__current. A
					   compiler may keep the address of that in a
					   register while the block changes */

	struct uco          *s_spare;   /* memory of a closed coroutine; or NULL */

	/* s_fiber is the fiber of the native thread. s_followed is the running fiber, or
	   NULL if its thread has ended. Then s_ended is the handle of the ended fiber. */
	USCHED_WATCHED(struct usched_fiber s_fiber)
	USCHED_WATCHED(struct usched_fiber *s_followed)
	USCHED_WATCHED(void *s_ended)
};

/*
 * What a layer above keeps for a thread. uwait.c attaches such a struct to each thread
 * that waits by uwait.h. A thread with another attachment cannot wait there. Only the
 * dispatcher's native thread may touch an attachment.
 */
struct ustack_attachment {
	const struct ustack_attachment_ops *a_ops;
	void (*a_func)(void *); /* the thread's function */
};

/* What an attachment does. */
struct ustack_attachment_ops {
	/* Called by the thread after the thread's function has returned. May block. */
	void (*ao_end)(struct ustack_attachment *a);

	/* Called only if u_cancelled. Returns the error with which waits of the thread
	   end, a negative errno value; or 0 if nothing ends them for now. */
	int (*ao_error)(const struct ustack_attachment *a);

	/* Called only if u_cancelled. Returns 1 if the thread itself was cancelled. */
	int (*ao_cancelled)(const struct ustack_attachment *a);

	/* Called when the thread was cancelled. Ends its wait, unless the thread is
	   shielded. */
	void (*ao_cancel)(struct ustack_attachment *a);

	/*
	 * Called before the thread moves to another dispatcher: gives up what belongs to
	 * this dispatcher. Returns 0 if the thread may not move. May not block. NULL: the
	 * thread never moves.
	 */
	int (*ao_leave)(struct ustack_attachment *a);

	/* Frees the attachment: the thread has ended or was aborted. May not block. */
	void (*ao_free)(struct ustack_attachment *a);

	/*
	 * Sets *why to what the thread waits for, if the wait uses the attachment. From
	 * the dispatcher's native thread; or from any native thread, while no thread of
	 * the dispatcher runs. NULL: there is nothing to describe.
	 */
	void (*ao_describe)(struct ustack_attachment *a, struct ustack_why *why);
};

/*
 * An image from s_alloc. The frames are in two parts then: the first bytes, from the top
 * on, are in the record behind this struct, as many as have room; i_frames has the rest.
 * So a thread takes less memory, and a switch touches fewer cache lines.
 */
struct usched_image {
	void  *i_frames;
	size_t i_size;
};

/* 1: the frames are in two parts. 0 for the sanitizers, which need them in one. */
#if defined(USCHED_ASAN) || defined(USCHED_TSAN)
enum { USCHED_NEAR = 0 };
#else
enum { USCHED_NEAR = 1 };
#endif

/* How a new thread begins. */
struct usched_begin {
	void    *be_arg;
	intptr_t be_fd;         /* a descriptor for u_func, or a value from below */
};

/* Values of be_fd: u_func gets only be_arg; be_arg is a struct usched__wrap (core.h). */
enum { USCHED_PLAIN = -1, USCHED_WRAPPED = -2 };

/*
 * A thread; struct usched_stack is a stack. From ustack_init() to s_done only the
 * dispatcher may write here, except to the scheduler's members. A thread is
 *
 *   new      u_stack == &s_new of its dispatcher, u_func != NULL
 *   running  s_current == this
 *   blocked  otherwise; resident if u_stack->k_resident == this
 *   ended    u_func == NULL
 *
 * A record of the scheduler begins with a struct ustack, and ends with the first image:
 * the s_room bytes from u_image on. So a switch touches one cache line of a record, and
 * further lines if frames are copied. By bytes, with 64 bits and no sanitizer:
 *
 *    0  u_top, u_pc, u_stack, u_fp, u_bp      read and written by a hand-over
 *   48  u_deep, u_errno                       read and written by a hand-over
 *   40  u_func                                used at the start and the end of the thread
 *   56  u_tokens, u_mail                      used by waits and wakes
 *   64  u_image                               used by evictions and loads
 */
struct ustack {
	char                *u_top;     /* blocked: the top. Bit 0 is set if the thread
					   is new or the frames are not in place */
	const void          *u_pc;      /* blocked: where the thread goes on */
	struct usched_stack *u_stack;   /* the stack of its launch (R1) */
	void                *u_fp;      /* blocked: the frame pointer */
	void                *u_bp;      /* blocked: the base pointer */
	__extension__ union {
		void               (*u_func)(void *);
		struct ustack_attachment *u_attachment;         /* if u_attached */
	};
	__extension__ union {
		/* The flags are the lowest bits of u_deep. ABIs with the lowest byte
		   first begin with the lowest bits, too. */
		struct {
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
			uint32_t u_deep8     : 29;
			uint32_t u_outside   : 1;
			uint32_t u_attached  : 1;
			uint32_t u_cancelled : 1;
#else
			uint32_t u_cancelled : 1;       /* perhaps cancelled: ao_error */
			uint32_t u_attached  : 1;
			uint32_t u_outside   : 1;       /* has an image from s_alloc */
			uint32_t u_deep8     : 29;      /* u_deep / 8 */
#endif
		};
		/* Bytes, up to 7 too many due to the flags. Before a thread
		   blocks deeper, the room in its image is checked. */
		uint32_t     u_deep;
	};
	int                  u_errno;   /* blocked: errno */

	/* The scheduler's. */
	int32_t              u_tokens;  /* see s_pick */
	uint32_t             u_mail;    /* not touched by ustack_init() */

	USCHED_WATCHED(struct usched_fiber u_fiber)   /* usched.c's */

	/* One of these, or the first image, which ends at the end of the record. */
	__extension__ union {
		struct usched_image u_image;    /* if u_outside */
		struct usched_begin u_begin;    /* new */
		void               *u_value;    /* ended, with DISPATCH_EXITED in u_top */
	};
};

/*
 * A bit of u_mail, with s_known: other threads may know the address of this thread. While
 * the bit is clear, no thread can send mail, except if the scheduler has told another
 * thread the address of this thread, or of an earlier thread with the same record.
 */
#define USTACK_KNOWN 1u

/*
 * The u_top of s_inside while a coroutine runs directly. Then the running frames belong
 * to s_inside, and not to the running thread's own record. See uco.c.
 */
#define USCHED_DIRECT ((char *)3)

/* Returns the top of a blocked thread. */
static inline char *usched__top(const struct ustack *u)
{
	return (char *)((uintptr_t)u->u_top & ~(uintptr_t)1);
}

/* Returns the first image of a launched thread. Compilers must not think that the image
   ends with u_image. */
static inline char *usched__first_image(const struct ustack *u)
{
	const struct usched_image *image = &u->u_image;

	__asm__("" : "+r"(image));
	return (char *)(uintptr_t)image;
}

/* Returns the image of a launched thread. */
static inline char *usched__image(const struct ustack *u)
{
	return u->u_outside ? (char *)u->u_image.i_frames : usched__first_image(u);
}

/*
 * For a thread with an image from s_alloc: usched__near() returns where in the record the
 * first bytes of the frames are, and usched__near_room() how many bytes have room there.
 */
static inline char *usched__near(const struct ustack *u)
{
	return usched__first_image(u) + sizeof(struct usched_image);
}

static inline size_t usched__near_room(const struct usched *s)
{
	return USCHED_NEAR ? (s->s_room - sizeof(struct usched_image)) & -(size_t)8 : 0;
}

/*
 * Prefetches the image from s_alloc of `u', a thread of `s' with a record that is in the
 * cache. Later bytes of a deep image come by themselves: they are copied in order.
 */
static inline void usched__prefetch(const struct usched *s, const struct ustack *u)
{
	enum { LINE = 64, MAX = 1024 };         /* bytes */
	const char *image = (const char *)u->u_image.i_frames;
	size_t deep = u->u_deep < MAX ? u->u_deep : (size_t)MAX;

	if (u->u_outside)
		for (size_t i = usched__near_room(s); i < deep; i += LINE, image += LINE)
			__builtin_prefetch(image);
}

/*
 * Returns the error with which all waits of `u' end; 0: no error. From the dispatcher's
 * native thread.
 */
static inline int usched__error(const struct ustack *u)
{
	struct ustack_attachment *a = u->u_attached ? u->u_attachment : NULL;

	if (!u->u_cancelled)
		return 0;
	return a ? a->a_ops->ao_error(a) : -ECANCELED;
}

/*
 * The hand-over as a function. Blocks `self', the running thread of `s'. Runs `u', a
 * thread of `s'; or if `u' is NULL, the thread that s_next chooses. Returns 0, or an
 * error that ustack_block() returns, too.
 */
int usched__handover(struct ustack *u, struct ustack *self, struct usched *s);

#include "uswitch.h"

/* Returns the dispatcher of `u', whose record must not be free. */
static inline struct usched *usched__of(const struct ustack *u)
{
	return __atomic_load_n(&__atomic_load_n(&u->u_stack, __ATOMIC_ACQUIRE)->k_sched,
			       __ATOMIC_RELAXED);
}

/* Returns the record whose frames are running: a coroutine's, or the running thread's. */
static inline const struct ustack *usched__runs(const struct usched *s)
{
	return s->s_inside->u_top == USCHED_DIRECT ? s->s_inside : s->s_current;
}

/* Returns the dispatcher of records whose memory went back to the system. Such memory is
   all zeros. */
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
