/* SPDX-License-Identifier: MIT */
/*
 * uproc.h: processors, for schedulers over native threads. rr.c and ll.c are policies for
 * processors; examples/14-priority.c is a third.
 *
 * A processor is a native thread that runs one dispatcher. Each thread belongs to one
 * processor, and may move to another. Only the thread's processor touches the state of
 * the thread: whether the thread waits, its tokens, its place in the run queue. So
 * threads of one processor wake each other without a lock or an atomic instruction. Any
 * other native thread sends mail: it adds to the thread's u_mail and, if u_mail was
 * empty, pushes the thread to the processor's inbox. The processor empties the inbox at
 * each dispatch.
 *
 *	other processors,          processor
 *	native threads          +--------------------------------------+
 *	   |                    |                     the scheduler's  |
 *	   +-> u_mail += ... -->| inbox -> deliver -> run queue -> next|
 *	       push to inbox    |                        ^       |     |
 *	                        |   wakes, starts, yields|  block|     |
 *	                        +--------------------------------------+
 *
 * A processor with nothing to run parks: a mark replaces the empty inbox. A push that
 * finds the mark unparks the processor. When all processors are parked and no thread
 * waits for an event (uevents.h), only another native thread can wake a thread. This is
 * how a deadlock is found.
 *
 * If the scheduler has y_moves, a processor that is about to park asks the other
 * processors for threads: for new ones and, unless c_stay, for blocked ones, too. If a
 * processor wakes a thread of another processor, the thread may move to its waker's
 * processor. uproc_move.c moves threads; doc/moving.md says why.
 *
 * With -DSINGLE_THREAD all code is compiled without locks and atomic instructions. The
 * only processor then runs inside of ustack_join(), uprocs_run() and uprocs_destroy().
 */
#ifndef USCHED_PROC_H
#define USCHED_PROC_H

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "uprocs.h"
#include "uevents.h"
#include "uimage.h"
#include "usched.h"
#include "ustack.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Why the running thread blocks. */
enum uproc_intent {
	UPROC_BLOCK,             /* the thread takes a token, or waits for one */
	UPROC_WAIT,              /* the thread waits, and u_tokens says for what */
	UPROC_YIELD,             /* the thread joins the queue */
};

/*
 * u_tokens is owned by the processor. It is the number of wakes that no wait has used
 * yet; or one of these negative values:
 *   UPROC_WAITING   the thread waits for a token
 *   UPROC_JOINING   the thread joins another; the low bits hold UPROC_NEWS and the
 *                   number of tokens that have come meanwhile
 *   UPROC_ENDED     the thread has ended
 */
enum {
	UPROC_WAITING  = USTACK_WAITING,
	UPROC_ENDED    = INT32_MIN | 1 << 29,
	UPROC_JOINING  = INT32_MIN | 1 << 30,
	UPROC_JOINED   = 1 << 28,        /* the joined thread has ended */
	UPROC_DEADLOCK = 1 << 27,        /* the join cannot succeed */
	UPROC_NEWS     = UPROC_JOINED | UPROC_DEADLOCK,
	UPROC_TOKENS   = (1 << 27) - 1,
};

/* u_mail is shared and atomic. It has these bits, and above them the number of tokens. */
enum {
	UPROC_MAIL_KNOWN    = USTACK_KNOWN,     /* this and the next four are no mail */
	UPROC_MAIL_LIVE     = 2, /* the thread has not ended, and may get mail */
	UPROC_MAIL_NAMED    = 4, /* the thread has a name */
	UPROC_MAIL_UNJOINED = 8, /* the thread was started detached */
	UPROC_MAIL_STAYS    = 16,        /* the thread does not move */
	UPROC_MAIL_JOINED   = 32,
	UPROC_MAIL_MOVED    = UPROC_MAIL_JOINED,        /* if the thread joins no other */
	UPROC_MAIL_DEADLOCK = 64,
	UPROC_MAIL_START    = UPROC_MAIL_DEADLOCK,      /* if the thread is new */
	UPROC_MAIL_CANCEL   = 128,
	UPROC_MAIL_TOKEN    = 256,
	UPROC_MAIL_NONE     = UPROC_MAIL_KNOWN | UPROC_MAIL_LIVE | UPROC_MAIL_NAMED
			    | UPROC_MAIL_UNJOINED | UPROC_MAIL_STAYS,
};

/*
 * A record: a thread in one cache line, and after it the first image. That image has 96
 * bytes by default (x86-64), enough for a plain wait in a shallow function. So evicting
 * or loading such a thread touches three adjacent lines.
 */
struct uproc_thread {
	struct ustack        th_stack;
};

/* The part of a record that a switch does not need. uimage.c keeps it elsewhere. */
struct uproc_rest {
	struct uproc_thread *re_joiner;  /* atomic: the thread that joins this one; or
					    UPROC_OPEN, or a mark of proc.h */
	struct uproc_thread *re_next;    /* link in the inbox: owned by the pusher, then
					    by the processor */
#ifdef USCHED_SIM
	struct sim_thread   *re_sim;     /* owned by sim.c */
#endif
};

/* The re_joiner of a thread that can be joined and that no thread joins yet. If re_joiner
   is NULL, the thread cannot be joined. */
#define UPROC_OPEN ((struct uproc_thread *)1)

/* Returns the rest of a record. */
static inline struct uproc_rest *uproc_rest(const struct uproc_thread *t)
{
	return (struct uproc_rest *)uimage_rest(t);
}

/*
 * Returns the y_room bytes that the scheduler has for a thread, aligned to 8 bytes.
 * h_room (ustack.h) says what the bytes hold at first. May be called from anywhere. The
 * scheduler decides which native threads may change the bytes.
 */
static inline void *uproc_room(const struct uproc_thread *t)
{
	return uproc_rest(t) + 1;
}

/* The own stack of a thread that is started with h_stack: see uproc_stacks.c. */
struct uproc_alone;

struct uproc_alones {
	pthread_mutex_t     as_lock;     /* protects what follows */
	struct uproc_alone *as_vacant;   /* the vacant ones, linked by al_vacant */
	unsigned            as_threads;
	unsigned            as_count;    /* own stacks that are mapped */
	unsigned            as_vacants;  /* atomic: stacks in as_vacant */
	unsigned            as_least;    /* the lowest as_vacants in this period */
	unsigned            as_drop;     /* atomic: how many vacant stacks to unmap */
	uint16_t            as_colour;
};

/* Private: how many times a processor may map stacks. */
enum { UPROC_STEPS = 5 };

/* Private: a processor remembers at most so many of the threads that moved to it. */
enum { UPROC_NEW = 16 };

/* What a processor has measured: its load, and how threads behaved that moved to it. */
struct uproc_load {
	int64_t     ld_from;            /* ns: start of a span; see policy_measure() */
	int64_t     ld_idle;            /* ns of idle time in the span */
	uint64_t    ld_ran;             /* switches at the start of the span */
	uint32_t    ld_run;             /* ns: of the last two spans' mean runs of a
					   thread the shorter one; read by all */
	uint32_t    ld_share;           /* the part of the last span in which the
					   processor was busy, in 256ths; read by all */
	uint32_t    ld_last_run;        /* ns: the mean run in the last span */
	uint32_t    ld_woken;           /* wakes of other processors' threads, since
					   ld_from */
	uint32_t    ld_crossed;         /* such wakes since ld_noticed */
	int64_t     ld_noticed;         /* ns: when the last draw was due */
	int64_t     ld_woke;            /* ns: when the last idle time ended */
	uint32_t    ld_drew;            /* threads drawn since ld_given */
	int64_t     ld_given;           /* ns: when threads were last given to the
					   processor; 0: idle since that gift */
	int64_t     ld_hold;            /* ns: no requests for threads before this */
	int64_t     ld_held;            /* ns: the length of the pause up to ld_hold */
	unsigned    ld_came;            /* threads that have moved to the processor */
	const void *ld_new[UPROC_NEW];  /* the last of these threads, or NULL */
};

struct uproc {
	struct usched         p_sched;   /* first */

	/* Owned by the processor's native thread. */
	struct uproc_thread **p_queue;   /* ring of runnable threads */
	size_t                p_mask;    /* the size of the ring - 1 */
	size_t                p_head;    /* dispatches so far. The oldest thread is at the
					    index p_head & p_mask */
	size_t                p_tail;
	uint8_t               p_intent;  /* enum uproc_intent, UPROC_BLOCK unless set */
	uint8_t               p_interval;       /* dispatches from one look to the next */
	uint8_t               p_left;    /* calls of s_next before the next look */
	uint8_t               p_polls;   /* 1: events or a cancel wake threads now, and
					    the slot is closed */
	uint8_t               p_slot;    /* 1: the slot is open while p_polls is 0 */
	uint8_t               p_moves;   /* 1: threads may move from here */
	uint8_t               p_barren;  /* 1: no thread could move since the last look */
	uint8_t               p_asks;    /* 1: the processor's bit in r_asking is set */
	uint32_t              p_ended;   /* threads that have ended; read by all */
	uint8_t               p_quick;   /* counts short idle times up, long ones down */
	int8_t                p_linger;  /* up by a gain of lingering, down by a loss;
					    below 0: how often not to linger */
	int64_t               p_looked;  /* ns: the last look; 0: the processor has slept
					    since */
	uint32_t              p_credit;  /* threads that p_started counts in advance; read
					    by all */
	uint32_t              p_passed;  /* threads that p_started counts, but that began
					    elsewhere; read by all */
	size_t                p_waits;   /* p_tail at the last look */
	uint32_t              p_searches;       /* searches for threads to ask for */
	struct uproc_load     p_load;
	struct usched_stack  *p_foreign; /* vacant stacks of other processors, to be
					    returned */
	struct uprocs        *p_procs;
	struct utrace_ring   *p_ring;    /* atomic: the observer's memory, or NULL */
	struct uimage_cache   p_images;
	struct uimage_stacks  p_stacks[UPROC_STEPS];     /* mapped when threads needed
						     stacks */
	unsigned              p_steps;
	unsigned              p_unused;  /* stacks that are mapped and not used yet */
	int64_t               p_tidy;    /* ns: p_tidy to p_looks: see uproc_tidy.c */
	int64_t               p_period;
	uint64_t              p_tidied;  /* st_launches at the end of a period */
	size_t                p_walked;  /* stacks that a walk has passed */
	uint8_t               p_walks;   /* 1: a walk is under way */
	uint8_t               p_periods; /* periods until all unused memory is gone */
	uint8_t               p_looks;   /* looks until a step may be due */

	/* Counters that cost nothing, read by all. */
	uint64_t              p_parked;  /* times that the processor parked */
	uint64_t              p_looked_for;     /* looks for events while threads were
						   ready */
	uint64_t              p_mailed;  /* threads that were in the inbox */

	/* Shared, atomic; on a cache line of their own. */
	struct uproc_thread  *p_inbox    /* the thread that was pushed last, or a mark
					    of proc.h */
		__attribute__((aligned(128)));
	uint32_t              p_started; /* threads that were started */
	uint32_t              p_room;    /* threads for which a ring is allocated */
	struct usched_stack  *p_returned;       /* stacks of this processor that others
						   have returned, linked by k_next */
	uint32_t              p_drawer;  /* number of the processor that draws p_drawn,
					   plus 1; 0: no processor does */
	const struct uproc_thread *p_drawn;     /* a thread that is woken */

	/* p_lock. */
	pthread_mutex_t       p_lock;
	struct uimage_cache   p_outside; /* for callers outside of the scheduler */
	struct uproc_thread **p_larger;  /* a larger ring for the processor to adopt */
	pthread_cond_t        p_unparked;
	pthread_t             p_native;
	void                 *p_alternate;      /* a signal stack, or NULL */
};

/* A scheduler. The members are private. */
struct uprocs {
	struct usched     *r_proc;       /* first: see uprocs_sched(). An array; each
					    element begins with a struct uproc */
	struct uprocs_conf r_conf;       /* with defaults in place of zeros */
	unsigned           r_stacks;     /* stacks of each processor, to begin with */
	unsigned           r_mapped;     /* stacks mapped to begin with */
	struct uimage_pool r_images;
	struct uproc_alones r_alones;
	size_t             r_stride;     /* bytes of an element of r_proc */
	size_t             r_room;       /* y_room */
	struct uproc      *r_moving;     /* the owner of threads that are moving: the last
					    element of the array. It never runs */
	uint64_t          *r_asking;     /* atomic: a bit for each processor, set if the
					    processor asks for threads */
	uint64_t           r_place;      /* atomic: the place of starts: see RUN_LEFT */
	uint32_t           r_next;       /* atomic: calls of uprocs_on(r, 0) so far */
	uint32_t           r_stop;       /* atomic: 1: the processors are to end */
	uint32_t           r_parks;      /* atomic: times that a processor parked */
	uint32_t           r_unparks;    /* atomic: times that a processor was unparked */
	uint32_t           r_looking;    /* atomic: 1 while a deadlock is looked for */
	int64_t            r_unused;     /* ns: memory goes back if unused for so long;
					    constant */
	int64_t            r_period;     /* atomic: when the pool's period ends */
	unsigned           r_patience;   /* atomic: ns to wait for mail before parking */
	struct upreempt_monitor *r_monitor;     /* atomic: or NULL */
	struct uprocs     *r_other;      /* the next in the list of all schedulers */
	uint32_t           r_pins;       /* atomic: uprocs__pin() less uprocs__unpin() */
	uint32_t           r_number;     /* unique among all schedulers; constant */

	/*
	 * With c_embed or SINGLE_THREAD, owned by the native thread that drives the
	 * processor.
	 */
	int64_t            r_deadline; /* ns; INT64_MAX: no deadline, or no driver */
	unsigned           r_leave;      /* 1: that native thread returns when no thread
					  is ready */
	unsigned           r_returns;    /* 1: in a join, after which it may send wakes */

	/* Under r_lock. */
	pthread_mutex_t    r_lock;
	pthread_cond_t     r_changed;
	unsigned           r_held;       /* number of holds: uprocs_hold() */
	unsigned           r_inside;     /* native threads in a join or a destroy */
	unsigned           r_joining;    /* native threads of r_inside that still wait */
	unsigned           r_deadlocks;  /* deadlocks that native threads were told of */

	/* The CPUs that are allowed. */
	uint32_t           r_made;       /* atomic: processors with a native thread */
	uint32_t           r_limit;      /* atomic: the processors from this number on
					    rest, see doc/moving.md */
	int64_t            r_due;        /* atomic: when r_follow is to be called; or
					    INT64_MAX */
	void             (*r_follow)(struct uproc *p);  /* sets r_limit, at the bottom of
					    the native stack of `p' */
};

#define UPROC_ROOM_MAX ((size_t)1024)   /* bytes */

/* A scheduler over processors: its call-backs, see usched.h. */
struct uproc_policy {
	size_t           y_size;        /* bytes of an element, see uprocs_create() */
	/* The call-backs s_next, s_pick and s_ready. y_next calls uproc_next(), and
	   y_pick calls uproc_wait(), with the same pick function. y_ready puts a thread
	   where that function finds it. If y_ready is NULL, uproc_push() puts the thread
	   into the queue. */
	struct ustack *(*y_next)(struct usched *s);
	struct ustack *(*y_pick)(struct usched *s, struct ustack *self);
	void           (*y_ready)(struct usched *s, struct ustack *u);
	size_t           y_room;        /* bytes that uproc_room() has for each thread */
	int              y_slot;        /* 1: processors have the slot */
	int              y_moves;       /* 1: threads may run on any processor: an idle
					   processor gets new threads from others and,
					   unless c_stay, blocked threads, too */
};

/*
 * Makes a scheduler, and starts its processors. Each processor has y_size bytes: a struct
 * uproc, and after it the scheduler's own part, which is zeroed. uprocs_destroy() frees
 * everything.
 * Returns what rr_create() returns; -EINVAL also if y_room is over UPROC_ROOM_MAX;
 * -ENOTSUP also if a simulation has another scheduler, with another y_room.
 * From any native thread. Does not switch.
 */
int uprocs_create(const struct uprocs_conf *conf, const struct uproc_policy *policy,
		  struct uprocs **procs);

/* A processor, and whether the thread stays there. */
struct uproc_place {
	struct uproc *pp_proc;
	bool          pp_stays;
};

/*
 * Starts a thread as rr_start_with() does, on the processor of `place', whatever
 * h_processor of `how' says. Let the call be the last one in a function: the compiler
 * then makes it a jump, and reports name the caller of that function.
 * Returns what rr_start_with() returns; -EINVAL also if the processor is NULL.
 */
int uproc_start(struct uproc_place place, const struct ustack_how *how,
		void (*func)(void *), void *arg, struct ustack **thread);

/*
 * Sends mail to a thread: n * UPROC_MAIL_TOKEN gives the thread n tokens, and
 * UPROC_MAIL_CANCEL cancels the thread.
 * 0; -ESRCH: the thread has ended; -EOVERFLOW: the mail holds 2^24 - 1 tokens already.
 * From any native thread. Does not switch.
 */
int uproc_post(struct uproc_thread *t, unsigned mail);

/*
 * A pick function of a policy. Chooses the thread that is to run next, takes it from
 * where the policy keeps runnable threads, and returns it. Returns NULL only if no
 * thread is runnable, and none is in the queue: the processor may then sleep. Must find
 * every runnable thread sooner or later. May not block.
 */
typedef struct uproc_thread *uproc_pick_fn(struct uproc *p);

/* Delivers the processor's mail. Called in s_next. */
void uproc_drain(struct uproc *p);

/*
 * Looks for events while threads are ready. Called in s_next.
 * Some processors are driven by a native thread in ustack_join(), uprocs_run() or
 * uprocs_destroy(). Returns true if that native thread is to go on.
 */
bool uproc_look(struct uproc *p);

/*
 * Sleeps until `pick' has a thread to run. If there are several processors, and at least
 * as many CPUs, looks for mail and events for some microseconds before the sleep. Called
 * in s_next.
 * Returns the thread. Returns NULL if the processor is to end. With c_embed or
 * SINGLE_THREAD also returns NULL if no thread is ready and the native thread that
 * drives the processor has other things to do.
 */
struct ustack *uproc_park(struct uproc *p, uproc_pick_fn *pick);

/*
 * Returns the processor that `processor' means. The values are those of h_processor in
 * struct ustack_how; 0 means the processors in turn. NULL: there is no such processor.
 * From any native thread.
 */
struct uproc *uprocs_on(struct uprocs *r, unsigned processor);

/*
 * Returns the place for a new thread, for schedulers that spread threads. The place is
 * the processor that `how' names. If `how' is NULL or names no processor, it is the less
 * busy one of two processors. Threads that are started in a row often work together,
 * which costs least on one processor. So the choice holds for several starts: for a
 * quarter as many as the processor has threads, and for 32 at most (more from 2112
 * threads on). The first few threads are placed in turn. From any native thread.
 */
struct uproc_place uprocs_place(struct uprocs *r, const struct ustack_how *how);

#define UPROC_PRIVATE __attribute__((visibility("hidden")))

/*
 * Private: what is called when something happens on a processor. The functions are those
 * of files of debug/, and are set only in programs that are linked with such a file.
 */
struct uproc_observer {
	/*
	 * Called before the native thread of a processor is made. Returns memory for
	 * that native thread. NULL: no memory, and the scheduler is not made.
	 */
	void *(*po_map)(void);
	void  (*po_adopt)(void *memory); /* on the native thread, at the start */
	void  (*po_leave)(void);        /* on the native thread, at the end */
	void  (*po_unmap)(void *memory); /* after that thread's end */

	/*
	 * A word, atomic, which a reader of the process's memory may write. While the
	 * word is not 0, po_look and po_post are called.
	 */
	const uint32_t *po_wanted;
	/* Called in s_next; if `p' has a p_ring, also while the word is 0. */
	void (*po_look)(struct uproc *p);

	/* Called before `mail' is sent to `t'. */
	void (*po_post)(const struct uproc_thread *t, unsigned mail);
	void (*po_free)(struct uproc *p); /* when `p', which has a p_ring, has ended */

	const void *po_layout;          /* for that reader: see src/proc/layout.h */

	/* Writes what processors have traced to `fd'; -1: to the file of USCHED_RECORD.
	   Returns 0, a negative errno value, or -ENOTSUP if nothing is traced. */
	int (*po_record)(int fd);
};

/* Constructors set the first four members or the next six, before schedulers exist. */
extern struct uproc_observer uproc__observer UPROC_PRIVATE;

/*
 * Private, for debug/. uprocs__pin() pins the newest scheduler whose r_number is below
 * `number', and returns it: uprocs_destroy() then waits until uprocs__unpin() is called.
 * Returns NULL if there is none.
 */
UPROC_PRIVATE struct uprocs *uprocs__pin(uint32_t number);
UPROC_PRIVATE void           uprocs__unpin(struct uprocs *r);

/*
 * Returns whether the record `t' is a live thread of `p'. Called on the native thread of
 * `p'; the answer holds until the caller blocks. Call uproc__state() and uproc__joiner()
 * only if the answer is true, and while it holds.
 */
UPROC_PRIVATE bool uproc__has(const struct uproc *p, const struct uproc_thread *t);

/* Private: what a thread does. For UPROC_WAITS *why is set; why->wy_where may be NULL. */
enum uproc_state {
	UPROC_IS_NEW, UPROC_IS_READY, UPROC_IS_WOKEN, UPROC_WAITS, UPROC_JOINS
};

UPROC_PRIVATE enum uproc_state uproc__state(const struct uproc_thread *t,
					    struct ustack_why *why);

/* Copies the name of `u'. The thread may have ended, and the pointer need not be valid.
   0; -ENOENT: `u' has no name, and "" was copied. */
UPROC_PRIVATE int uproc__name(const struct ustack *u, char *buffer, size_t size);

/* Returns the thread that joins `t', or NULL. */
UPROC_PRIVATE const struct ustack *uproc__joiner(const struct uproc_thread *t);

/* Returns the processor whose dispatcher is `s'. */
static inline struct uproc *uproc_from(struct usched *s)
{
	return (struct uproc *)(void *)s;
}

/* Returns processor `i' of `r'; the first is 0. May be called by any native thread. */
static inline struct uproc *uproc_at(const struct uprocs *r, size_t i)
{
	return (struct uproc *)(void *)((char *)r->r_proc + i * r->r_stride);
}

/* Returns the processor that the calling thread is on, or NULL. Works anywhere. */
static inline struct uproc *uproc_self(void)
{
	struct usched *s = usched__here();

	return s->s_proc && s->s_current ? uproc_from(s) : NULL;
}

/*
 * Returns the number of threads of `p' that were started and have not ended. Any native
 * thread may call this. On native threads other than that of `p' the number may already
 * have changed.
 */
static inline uint32_t uproc_count(const struct uproc *p)
{
	uint32_t ended = __atomic_load_n(&p->p_ended, __ATOMIC_ACQUIRE);
	uint32_t credit = __atomic_load_n(&p->p_credit, __ATOMIC_RELAXED);

	return __atomic_load_n(&p->p_started, __ATOMIC_ACQUIRE) - credit - ended;
}

/* Returns the record of a thread of a processor. */
static inline struct uproc_thread *uproc_thread(struct ustack *u)
{
	return (struct uproc_thread *)(void *)u;
}

/* Returns the processor of `u'. If `u' has ended, its record must not be free yet. */
static inline struct uproc *uproc_of(const struct ustack *u)
{
	return uproc_from(usched__of(u));
}

/* Private: adds to a counter of `p', which others may read. */
#define UPROC_COUNT(counter, n) \
	__atomic_store_n(&(counter), (counter) + (size_t)(n), __ATOMIC_RELAXED)

/*
 * Puts `t' at the end of the queue. Cannot fail, since the queue has room for all threads
 * of the processor. From the processor's native thread.
 */
static inline void uproc_push(struct uproc *p, struct uproc_thread *t)
{
	p->p_queue[p->p_tail & p->p_mask] = t;
	UPROC_COUNT(p->p_tail, 1);
}

/*
 * Private. With s_stress, any runnable thread may be next. The number in the environment
 * variable USCHED_SEED seeds that choice, and is printed.
 */
#ifdef USCHED_CHECK
#define UPROC_STRESS(p) ((p)->p_sched.s_stress)
#else
#define UPROC_STRESS(p) 0
#endif
UPROC_PRIVATE void uproc__shuffle(struct uproc *p);

enum {
	UPROC_AHEAD  = 8,               /* dispatches between the prefetch of a record and
					   the use */
	UPROC_NEAR   = 4,               /* the same for the image from s_alloc */
	UPROC_CACHED = 256,             /* so many threads stay in the cache */
	UPROC_LOOK   = 64,              /* dispatches between looks for events, at most */
};

/*
 * Takes the oldest thread from the queue. Also prefetches the record of a later thread,
 * since of a million records few are in the cache. From the processor's native thread.
 * Returns the thread; NULL: the queue is empty.
 */
static inline struct uproc_thread *uproc_pop(struct uproc *p)
{
	size_t ready = p->p_tail - p->p_head;
	struct uproc_thread *t, *near;
	uintptr_t ahead;

	if (ready == 0)
		return NULL;
	if (UPROC_STRESS(p))
		uproc__shuffle(p);
	if (ready > UPROC_CACHED) {
		ahead = (uintptr_t)p->p_queue[(p->p_head + UPROC_AHEAD) & p->p_mask];
		__builtin_prefetch((const void *)ahead);
		__builtin_prefetch((const void *)(ahead + 64));
		__builtin_prefetch((const void *)(ahead + 128));
		near = p->p_queue[(p->p_head + UPROC_NEAR) & p->p_mask];
		usched__prefetch(&p->p_sched, &near->th_stack);
	}
	t = p->p_queue[p->p_head & p->p_mask];
	UPROC_COUNT(p->p_head, 1);
	return t;
}

/*
 * Handles `t', the thread that blocks, as p_intent says. If `t' yields, puts it into the
 * queue. If `t' waits and has a token, takes the token and returns true: `t' then goes
 * on at once. Called in s_next.
 */
static inline bool uproc_goes_on(struct uproc *p, struct uproc_thread *t)
{
	int32_t tokens = t->th_stack.u_tokens;
	unsigned intent = p->p_intent;

	p->p_intent = UPROC_BLOCK;
	if (intent == UPROC_YIELD)
		uproc_push(p, t);
	if (intent != UPROC_BLOCK)
		return false;
	__atomic_store_n(&t->th_stack.u_tokens, tokens - 1, __ATOMIC_RELAXED);
	return tokens > 0;
}

/*
 * Returns whether it is time to look for events. Calls of s_next count as well as
 * dispatches, since a thread that yields while it is alone is not dispatched. Called in
 * s_next.
 */
static inline bool uproc_looks(struct uproc *p)
{
	return p->p_sched.s_stats.st_switches >= p->p_sched.s_turn || --p->p_left == 0;
}

/* Private: uproc__close() closes the slot before events wake threads, and uproc__open()
   opens it afterwards. While the slot is closed, woken threads go to the queue. */
static inline void uproc__close(struct uproc *p)
{
	p->p_polls = 1;
	if (!p->p_sched.s_slot)
		p->p_sched.s_slot = USCHED_CLOSED;
}

static inline void uproc__open(struct uproc *p)
{
	p->p_polls = 0;
	if (p->p_sched.s_slot == USCHED_CLOSED && p->p_slot)
		p->p_sched.s_slot = NULL;
}

/*
 * Handles events that are due, or sleeps until an event, but not beyond `until'.
 * Meanwhile p_polls is 1, and the slot is closed. Called in s_next. Returns 1; or 0 if no
 * thread of the processor has ever waited for an event.
 */
static inline int uproc_poll(struct uproc *p, int64_t until)
{
	int rc;

	uproc__close(p);
	rc = uevents_sleep(&p->p_sched, until);
	uproc__open(p);
	return rc;
}

/* Returns how many tokens u_tokens can count: fewer if the thread joins another. */
static inline uint32_t uproc_most(int32_t tokens)
{
	return tokens < 0 ? UPROC_TOKENS : INT32_MAX;
}

/*
 * Does the work of s_next, and leaves the policy to pick(p). Parks the processor if no
 * thread is runnable. Delivers mail before anything else. So threads that were woken
 * before the running thread yields also run before it.
 */
static inline struct ustack *
uproc_next(struct uproc *p, uproc_pick_fn *pick)
{
	struct ustack *self = p->p_sched.s_current;
	struct uproc_thread *t;

	if (__atomic_load_n(&p->p_inbox, __ATOMIC_RELAXED))
		uproc_drain(p);
	if (self) {
		if (uproc_goes_on(p, uproc_thread(self)))
			return self;
	} else if (__atomic_load_n(&p->p_procs->r_stop, __ATOMIC_RELAXED)) {
		return NULL;
	}
	if (uproc_looks(p) && uproc_look(p))
		return NULL;
	t = pick(p);
	return t ? &t->th_stack : uproc_park(p, pick);
}

/*
 * Does the work of s_pick, and leaves the policy to pick(p). Notes that `self' waits,
 * and returns what pick(p) returns. If there is mail, or a look for events is due,
 * returns NULL without a pick; s_next then does the rest.
 */
static inline struct ustack *
uproc_wait(struct usched *s, struct ustack *self, uproc_pick_fn *pick)
{
	struct uproc *p = uproc_from(s);
	struct uproc_thread *t = NULL;

	if (!__atomic_load_n(&p->p_inbox, __ATOMIC_RELAXED)
	    && p->p_sched.s_stats.st_switches < p->p_sched.s_turn)
		t = pick(p);
	__atomic_store_n(&self->u_tokens, UPROC_WAITING, __ATOMIC_RELAXED);
	if (t)
		return &t->th_stack;
	p->p_intent = UPROC_WAIT;
	return NULL;
}

/* Private: see usched__forked(). */
void uproc__forked(void);

#ifdef __cplusplus
}
#endif

#endif /* USCHED_PROC_H */
