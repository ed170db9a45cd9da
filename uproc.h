/* SPDX-License-Identifier: MIT */
/*
 * uproc.h: processors, for schedulers over native threads. rr.c and ll.c are policies on
 * top of it, and others can be.
 *
 * A processor is a native thread that runs one dispatcher. Each thread belongs to one
 * processor, and may move to another. Only its processor touches the thread's state:
 * whether it waits, its tokens, its place in the run queue. So threads of one processor
 * wake each other without a lock or an atomic instruction. All others send mail: they add
 * to the thread's u_mail and, if that was empty, push the thread to the processor's
 * inbox. The processor empties its inbox at each dispatch.
 *
 *	other processors,          processor
 *	native threads          +--------------------------------------+
 *	   |                    |                     the scheduler's  |
 *	   +-> u_mail += ... -->| inbox -> deliver -> run queue -> next|
 *	       push to inbox    |                        ^       |     |
 *	                        |   wakes, starts, yields|  block|     |
 *	                        +--------------------------------------+
 *
 * A processor with nothing to run parks: it replaces its empty inbox by a mark. A push
 * that finds the mark unparks the processor. When all processors are parked and no thread
 * waits for an event (uevents.h), only another native thread can wake a thread. This is
 * how a deadlock is found.
 *
 * Before it parks it asks for threads of others, if the scheduler has y_moves: new ones,
 * and unless c_stay others, too. A thread that is woken from another processor may go
 * there. uproc_move.c does that; doc/moving.md says why it is right.
 *
 * With -DSINGLE_THREAD all of it is compiled without locks and atomic instructions, for
 * one processor. It runs on the native thread that joins, calls uprocs_run() or
 * uprocs_destroy(), inside that call.
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
	UPROC_BLOCK,             /* it takes a token, or waits for one */
	UPROC_WAIT,              /* it waits for what u_tokens says */
	UPROC_YIELD,             /* it queues up */
};

/*
 * u_tokens, owned by the processor: the wakes that no wait has used, or below zero
 *   UPROC_WAITING   it waits for a token
 *   UPROC_JOINING   it joins a thread; news of that and, in the low bits, the tokens that
 *                   have come meanwhile
 *   UPROC_ENDED
 */
enum {
	UPROC_WAITING  = USTACK_WAITING,
	UPROC_ENDED    = INT32_MIN | 1 << 29,
	UPROC_JOINING  = INT32_MIN | 1 << 30,
	UPROC_JOINED   = 1 << 28,        /* the thread has ended */
	UPROC_DEADLOCK = 1 << 27,        /* the join cannot succeed */
	UPROC_NEWS     = UPROC_JOINED | UPROC_DEADLOCK,
	UPROC_TOKENS   = (1 << 27) - 1,
};

/* u_mail, shared, atomic: these bits, and tokens in units of UPROC_MAIL_TOKEN. */
enum {
	UPROC_MAIL_KNOWN    = USTACK_KNOWN,     /* not mail, as the next four */
	UPROC_MAIL_LIVE     = 2, /* the thread has not ended: else send none */
	UPROC_MAIL_NAMED    = 4, /* the thread has a name */
	UPROC_MAIL_UNJOINED = 8, /* it was started detached */
	UPROC_MAIL_STAYS    = 16,        /* it does not move */
	UPROC_MAIL_JOINED   = 32,
	UPROC_MAIL_MOVED    = UPROC_MAIL_JOINED,        /* one that joins stays */
	UPROC_MAIL_DEADLOCK = 64,
	UPROC_MAIL_START    = UPROC_MAIL_DEADLOCK,      /* a new one cannot join */
	UPROC_MAIL_CANCEL   = 128,
	UPROC_MAIL_TOKEN    = 256,
	UPROC_MAIL_NONE     = UPROC_MAIL_KNOWN | UPROC_MAIL_LIVE | UPROC_MAIL_NAMED
			    | UPROC_MAIL_UNJOINED | UPROC_MAIL_STAYS,
};

/*
 * A record: a thread in one cache line, with its first image behind. The 96 bytes of the
 * default (x86-64) are enough for a plain wait in a shallow function, so that to evict or
 * load such a thread touches three adjacent lines.
 */
struct uproc_thread {
	struct ustack        t_stack;
};

/* The part of a record that a switch does not need: uimage.c keeps it apart. */
struct uproc_rest {
	struct uproc_thread *t_joiner;   /* atomic; or UPROC_OPEN, or a mark of proc.h */
	struct uproc_thread *t_next;     /* inbox link: owned by the pusher, then by the
					    processor */
#ifdef USCHED_SIM
	struct sim_thread   *t_sim;      /* sim.c's */
#endif
};

/* In t_joiner: a thread may join, and none does yet. NULL: none may. */
#define UPROC_OPEN ((struct uproc_thread *)1)

/* Returns the rest of a record. */
static inline struct uproc_rest *uproc_rest(const struct uproc_thread *t)
{
	return (struct uproc_rest *)uimage_rest(t);
}

/*
 * Returns the y_room bytes that the scheduler has for a thread, aligned to 8 bytes. They
 * begin as h_room says (ustack.h). From anywhere; who may change them is the scheduler's
 * decision.
 */
static inline void *uproc_room(const struct uproc_thread *t)
{
	return uproc_rest(t) + 1;
}

/* Own stacks, those of h_stack: see uproc_alone.c. */
struct uproc_alone;

struct uproc_alones {
	pthread_mutex_t     o_lock;      /* of all that follows */
	struct uproc_alone *o_all;       /* by a_other */
	struct uproc_alone *o_vacant;    /* by a_vacant */
	unsigned            o_threads;
	unsigned            o_count;     /* of o_all, */
	unsigned            o_vacants;   /* atomic: and of o_vacant, */
	unsigned            o_least;     /* and the least of these in this period */
	unsigned            o_drop;      /* atomic: of these, that are to go */
	uint16_t            o_colour;
};

/* Private: times that a processor maps stacks. */
enum { UPROC_STEPS = 5 };

/* Private: threads that have moved to a processor, which it notes. */
enum { UPROC_NEW = 16 };

/* Private: a thread that joins, and where in the program; for reports. */
struct uproc_join {
	const struct uproc_thread *j_thread;     /* NULL: the note is free */
	__extension__ union {
		const void        *j_where;
		size_t             j_next;       /* free note; 0: none */
	};
};

/* What a processor has measured of itself, and what came of threads that moved to it. */
struct uproc_load {
	int64_t     l_from;             /* ns: begin of a span, in which it idled for */
	int64_t     l_idle;             /* ns, */
	uint64_t    l_ran;              /* and its switches then; see policy_measure() */
	uint32_t    l_run;              /* ns: the mean run of its threads, in the last
					   two, and */
	uint32_t    l_share;            /* 256ths of the time that it was busy, in the
					   last; both read by all */
	uint32_t    l_last_run;         /* in that one alone */
	uint32_t    l_woken;            /* wakes of threads of others in this span, */
	uint32_t    l_crossed;          /* and since a processor was to draw some */
	int64_t     l_noticed;          /* ns: since then, */
	int64_t     l_woke;             /* ns: and when it last began to run */
	uint32_t    l_drew;             /* threads, since it was given some */
	int64_t     l_given;            /* ns: when that was; 0: it has idled since */
	int64_t     l_hold;             /* ns: it asks for none before that, */
	int64_t     l_held;             /* ns, for so long */
	unsigned    l_came;             /* threads that have moved here; the last: */
	const void *l_new[UPROC_NEW];   /* NULL: it has drawn one */
};

struct uproc {
	struct usched         p_sched;   /* first */

	/* Owned by its native thread. */
	struct uproc_thread **p_queue;   /* ring of runnable threads */
	size_t                p_mask;    /* its size - 1 */
	size_t                p_head;    /* counts dispatches; & p_mask: the oldest */
	size_t                p_tail;
	uint8_t               p_intent;  /* enum uproc_intent, UPROC_BLOCK unless set */
	uint8_t               p_interval;       /* dispatches from a look to the next */
	uint8_t               p_left;    /* calls of s_next until the next look */
	uint8_t               p_polls;   /* 1: events or a cancel wake threads now, and
					    the slot is closed */
	uint8_t               p_slot;    /* 1: else it is open */
	uint8_t               p_moves;   /* 1: its threads may move */
	uint8_t               p_barren;  /* 1: none could, since the last look */
	uint8_t               p_asks;    /* 1: its bit in r_asking is set */
	uint32_t              p_ended;   /* threads; read by all */
	uint8_t               p_quick;   /* short idle times lately, less others */
	int8_t                p_linger;  /* gains by lingering lately, less others;
					    below 0: how often not to try */
	int64_t               p_looked;  /* ns; 0: it has slept since */
	uint32_t              p_credit;  /* counted in p_started, and not started yet;
					    read by all */
	uint32_t              p_passed;  /* of those in p_started, moves of threads that
					    began elsewhere; read by all */
	size_t                p_waits;   /* p_tail at the last look */
	uint32_t              p_searches;       /* for threads of others */
	struct uproc_load     p_load;
	struct usched_stack  *p_foreign; /* vacant stacks of others, to go back */
	struct uprocs        *p_procs;
	struct utrace_ring   *p_ring;    /* atomic: the observer's, or NULL */
	struct uimage_cache   p_images;
	struct uimage_stacks  p_stacks[UPROC_STEPS];     /* mapped as they were needed */
	unsigned              p_steps;
	unsigned              p_unused;  /* stacks that are mapped and not used yet */
	struct uproc_join    *p_joins;   /* notes; the first is not used */
	size_t                p_join_room;
	size_t                p_join_free;      /* the first free note */
	int64_t               p_tidy;    /* ns: see uproc_tidy.c */
	int64_t               p_period;
	uint64_t              p_tidied;  /* s_launches when a period ended */
	size_t                p_walked;  /* stacks that this walk has passed, */
	uint8_t               p_walks;   /* 1: and it goes on */
	uint8_t               p_periods; /* to go */
	uint8_t               p_looks;   /* until a step may be due */

	/* Counted where it costs nothing, and read by all. */
	uint64_t              p_parked;  /* times that it parked, */
	uint64_t              p_looked_for;     /* and looked for events while threads
						   were ready */
	uint64_t              p_mailed;  /* threads that were in its inbox */

	/* Shared, atomic; on a cache line of their own. */
	struct uproc_thread  *p_inbox    /* last in first; or the mark of the parked */
		__attribute__((aligned(128)));
	uint32_t              p_started; /* threads */
	uint32_t              p_room;    /* threads for which a ring is allocated */
	struct usched_stack  *p_returned;       /* added here, and back; by k_next */
	uint32_t              p_trim;    /* 1: it is to give back what it can */
	uint32_t              p_stands;  /* 1: in a look, it waits for r_lock */
	uint32_t              p_drawer;  /* the processor that draws it, + 1; 0: none */
	const struct uproc_thread *p_drawn;     /* a thread that is woken */

	bool                  p_still;   /* r_lock: no thread of it runs meanwhile */

	/* p_lock. */
	pthread_mutex_t       p_lock;
	struct uimage_cache   p_outside; /* for callers on none of these processors */
	struct uproc_thread **p_larger;  /* a larger ring for the processor to adopt */
	pthread_cond_t        p_unparked;
	pthread_t             p_native;
	void                 *p_alternate;      /* stack of its native thread, or NULL */
};

enum { UPROC_SAID = 40 };               /* lines of a report of a deadlock, at most */

/* Private, but the first part of a scheduler's object: its processors. */
struct uprocs {
	struct usched     *r_proc;       /* first, see uprocs__first(); an array, whose
					    elements begin with a struct uproc */
	struct uprocs_conf r_conf;       /* without zeros */
	unsigned           r_stacks;     /* for each processor, to begin with, */
	unsigned           r_mapped;     /* and so many are mapped then */
	struct uimage_pool r_images;
	struct uproc_alones r_alones;
	size_t             r_stride;     /* bytes of an element of r_proc */
	size_t             r_room;       /* y_room */
	struct uproc      *r_moving;     /* threads on their way belong to this one, the
					    last in the array, that never runs */
	uint64_t          *r_asking;     /* atomic: bits of those that ask for threads */
	uint64_t           r_place;      /* atomic: see uprocs_place() */
	uint32_t           r_next;       /* atomic: where uprocs_next() is */
	uint32_t           r_stop;       /* atomic: 1 when processors shall end */
	uint32_t           r_parks;      /* atomic: times that a processor parked */
	uint32_t           r_unparks;    /* atomic: and was unparked */
	uint32_t           r_looking;    /* atomic: 1 while a deadlock is looked for */
	int64_t            r_unused;     /* ns: a period without use, after which memory
					    goes back: constant */
	int64_t            r_period;     /* atomic: end of the pool's period */
	unsigned           r_patience;   /* ns to wait for mail before parking */
	struct upreempt_monitor *r_monitor;     /* atomic: or NULL */
	struct uprocs     *r_other;      /* the next in the list of all: see uprocs.c */
	uint32_t           r_pins;       /* atomic: inspections that keep it */
	uint32_t           r_number;     /* no other one's of the list: constant */

	/*
	 * Owned by the native thread that drives the processor: c_embed, SINGLE_THREAD.
	 */
	int64_t            r_deadline; /* ns; INT64_MAX: for ever, or it does not drive */
	unsigned           r_leave;      /* 1: returns when nothing is ready */
	unsigned           r_returns;    /* 1: from a join, and may wake threads then */

	/* r_lock. */
	pthread_mutex_t    r_lock;
	pthread_cond_t     r_changed;
	unsigned           r_held;       /* uprocs_hold() less uprocs_release() */
	unsigned           r_inside;     /* native threads in join or fini */
	unsigned           r_joining;    /* of these, that still wait */
	unsigned           r_deadlocks;  /* times that these were told of one */
	uint64_t           r_said[UPROC_SAID];  /* hashes of what the last report has */
};

#define UPROC_ROOM_MAX ((size_t)1024)   /* bytes */

/* A scheduler over processors: its call-backs, see usched.h. */
struct uproc_policy {
	size_t           y_size;        /* bytes of an element, see uprocs_create() */
	/* s_next, by uproc_next(); s_pick, by uproc_wait(); and s_ready, which puts a
	   thread where the two find it. */
	struct ustack *(*y_next)(struct usched *s);
	struct ustack *(*y_pick)(struct usched *s, struct ustack *self);
	void           (*y_ready)(struct usched *s, struct ustack *u);
	size_t           y_room;        /* bytes for each thread: uproc_room() */
	int              y_slot;        /* 1: it has the slot */
	int              y_moves;       /* 1: its threads may run anywhere: an idle
					   processor gets new ones of others, and unless
					   c_stay more */
};

/*
 * Makes a scheduler, and starts its processors. The policy's size is that of an element:
 * a struct uproc, and the scheduler's part after it, zeroed. uprocs_destroy() frees all.
 * What rr_create() returns; -EINVAL also: y_room is over UPROC_ROOM_MAX;
 * -ENOTSUP also: a simulation has another scheduler, with another y_room.
 * From any native thread. Does not switch.
 */
int uprocs_create(const struct uprocs_conf *conf, const struct uproc_policy *policy,
		  struct uprocs **procs);

/* A processor, and whether the thread stays there. */
struct uproc_place {
	struct uproc *w_proc;
	bool          w_stays;
};

/*
 * Starts a thread as `how' says, except for its processor, which `place' has: -EINVAL, if
 * that is NULL; as rr_start_with(). Call it last, so that it is left by a jump and knows
 * from where in the program it was called.
 */
int uproc_start(struct uproc_place place, const struct ustack_how *how,
		void (*func)(void *), void *arg, struct ustack **thread);

/*
 * Sends mail to a thread: UPROC_MAIL_TOKEN is a token, and a multiple of it is as many;
 * UPROC_MAIL_CANCEL cancels it.
 * 0; -ESRCH: it has ended; -EOVERFLOW: the mail holds 2^24 - 1 tokens already.
 * From any native thread. Does not switch.
 */
int uproc_post(struct uproc_thread *t, unsigned mail);

/*
 * A policy: takes a runnable thread out of where it was, or returns NULL. May not block.
 * A pick that keeps threads elsewhere than in the queue must find each of them at last.
 * It returns NULL only when the queue is empty, too, for then the processor sleeps.
 */
typedef struct uproc_thread *uproc_pick_fn(struct uproc *p);

/* Delivers the processor's mail. In s_next. */
void uproc_drain(struct uproc *p);

/*
 * Looks for events while threads are ready. In s_next.
 * Returns true if the native thread that drives the processor, in ustack_join(),
 * uprocs_run() or uprocs_destroy(), is to go on.
 */
bool uproc_look(struct uproc *p);

/*
 * Sleeps until `pick' has a thread to run. In s_next. If there are several processors,
 * and no more than CPUs, it first looks for mail and events for some microseconds.
 * Returns the thread; NULL: the processor is to end, or with c_embed or SINGLE_THREAD
 * nothing is ready and the native thread that drives it has other things to do.
 */
struct ustack *uproc_park(struct uproc *p, uproc_pick_fn *pick);

/* Returns the processors in turn. From any native thread. */
struct uproc *uprocs_next(struct uprocs *r);

/*
 * Returns the processor that h_processor of a struct ustack_how means, if that is not 0.
 * NULL: there is none.
 * From any native thread.
 */
struct uproc *uprocs_on(struct uprocs *r, unsigned processor);

/*
 * Returns the place for the next thread of a scheduler that spreads them, unless `how',
 * which may be NULL, has a processor for it: the one of two with less to do. Threads that
 * are started in a row often work together, which costs least on one processor. So they
 * are placed in runs of a quarter of the threads that a processor has, and of 32 at most.
 * The first few are placed in turn.
 * From any native thread.
 */
struct uproc_place uprocs_place(struct uprocs *r, const struct ustack_how *how);

#define UPROC_PRIVATE __attribute__((visibility("hidden")))

/*
 * Private: what looks on, as the files of debug/ do. Processors know no more of it than
 * this table, which is empty unless a program has such a file.
 */
struct uproc_observer {
	/*
	 * Memory for the native thread of a processor, before that is made. NULL: there
	 * is none, and the scheduler is not made.
	 */
	void *(*o_map)(void);
	void  (*o_adopt)(void *memory); /* on this native thread, as it begins, */
	void  (*o_leave)(void);         /* and as it ends */
	void  (*o_unmap)(void *memory); /* after that */

	/*
	 * Four words, atomic, which readers of the process's memory may write. While they
	 * are not 0 the next two are called.
	 */
	const uint32_t *o_wanted;
	void (*o_look)(struct uproc *p); /* in s_next; also while there is a p_ring */
	void (*o_post)(const struct uproc_thread *t, unsigned mail);    /* to be sent */
	void (*o_free)(struct uproc *p); /* it has ended, and has a p_ring */

	const void *o_layout;           /* for these readers: see src/proc/layout.h */
};

/*
 * Registers the first four if *o has o_map, and the others if it has o_wanted. From a
 * constructor: before there are schedulers.
 */
UPROC_PRIVATE void uproc__observe(const struct uproc_observer *o);

/*
 * Private, for uinspect.c. The schedulers of the process, of which up to `room' stay
 * until they are unpinned. Their number, which may be larger.
 */
UPROC_PRIVATE size_t uprocs__pin(struct uprocs **all, size_t room);
UPROC_PRIVATE void   uprocs__unpin(struct uprocs *r);

/*
 * Whether `t', any record, is a live thread of `p'. It stays so while the caller, on the
 * native thread of `p', does not block. So for the next ones, too.
 */
UPROC_PRIVATE bool uproc__has(const struct uproc *p, const struct uproc_thread *t);

/* Private: what a thread does. It waits for *why, or joins; why->y_where may be NULL. */
enum uproc_state {
	UPROC_IS_NEW, UPROC_IS_READY, UPROC_IS_WOKEN, UPROC_WAITS, UPROC_JOINS
};

UPROC_PRIVATE enum uproc_state uproc__state(const struct uproc_thread *t,
					    struct ustack_why *why);

/* The name of `u', which may have ended, or "". `u' is not followed. */
UPROC_PRIVATE void uproc__name(const struct ustack *u, char *buffer, size_t size);

/* The thread that joins `t', or NULL. */
UPROC_PRIVATE const struct ustack *uproc__joiner(const struct uproc_thread *t);

/* Returns the processor whose dispatcher is `s'. */
static inline struct uproc *uproc_from(struct usched *s)
{
	return (struct uproc *)(void *)s;
}

/* Returns processor `i' of `r', from 0 on. From any native thread. */
static inline struct uproc *uproc_at(const struct uprocs *r, size_t i)
{
	return (struct uproc *)(void *)((char *)r->r_proc + i * r->r_stride);
}

/* Returns the processor that the calling thread is on, or NULL. From anywhere. */
static inline struct uproc *uproc_self(void)
{
	struct usched *s = usched__here();

	return s->s_proc && s->s_current ? uproc_from(s) : NULL;
}

/*
 * Returns the number of threads of `p' that were started and have not ended. From any
 * native thread; for another one it may have changed already.
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

/* Returns the processor of `u', which has not ended, or whose record is not free. */
static inline struct uproc *uproc_of(const struct ustack *u)
{
	return uproc_from(usched__of(u));
}

/* Private: adds to a counter of `p', which others may read. */
#define UPROC_COUNT(counter, n) \
	__atomic_store_n(&(counter), (counter) + (size_t)(n), __ATOMIC_RELAXED)

/*
 * Queues up `t'. Cannot fail: there is room for all threads of the processor. From its
 * native thread.
 */
static inline void uproc_push(struct uproc *p, struct uproc_thread *t)
{
	p->p_queue[p->p_tail & p->p_mask] = t;
	UPROC_COUNT(p->p_tail, 1);
}

/*
 * Private: with s_stress any runnable thread may be next. USCHED_SEED, a number in the
 * environment, seeds the choice, and is printed.
 */
#ifdef USCHED_CHECK
#define UPROC_STRESS(p) ((p)->p_sched.s_stress)
#else
#define UPROC_STRESS(p) 0
#endif
UPROC_PRIVATE void uproc__shuffle(struct uproc *p);

enum {
	UPROC_AHEAD  = 8,               /* dispatches from a prefetch to its use */
	UPROC_CACHED = 256,             /* threads that stay in the cache */
	UPROC_LOOK   = 64,              /* dispatches between looks for events, at most */
};

/*
 * Takes the oldest thread from the queue. Prefetches a later one: of a million threads,
 * few records are in a cache. From the processor's native thread.
 * Returns it, or NULL.
 */
static inline struct uproc_thread *uproc_pop(struct uproc *p)
{
	size_t ready = p->p_tail - p->p_head;
	struct uproc_thread *t;
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
	}
	t = p->p_queue[p->p_head & p->p_mask];
	UPROC_COUNT(p->p_head, 1);
	return t;
}

/*
 * Arranges for `t', which blocks, to run again: it is queued up if it yields. In s_next.
 * Returns true if it has a token, which is used up, and goes on at once.
 */
static inline bool uproc_goes_on(struct uproc *p, struct uproc_thread *t)
{
	int32_t tokens = t->t_stack.u_tokens;
	unsigned intent = p->p_intent;

	p->p_intent = UPROC_BLOCK;
	if (intent == UPROC_YIELD)
		uproc_push(p, t);
	if (intent != UPROC_BLOCK)
		return false;
	__atomic_store_n(&t->t_stack.u_tokens, tokens - 1, __ATOMIC_RELAXED);
	return tokens > 0;
}

/*
 * Returns whether to look for events. Calls of s_next count, too: a thread that yields
 * alone is not dispatched. In s_next.
 */
static inline bool uproc_looks(struct uproc *p)
{
	return p->p_sched.s_stats.s_switches >= p->p_sched.s_turn || --p->p_left == 0;
}

/* Private: around what wakes threads that no thread will wait for. They queue up. */
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
 * Runs events, or sleeps until there are some, but not beyond `until'. Meanwhile p_polls
 * is 1, and the slot is closed. In s_next.
 * 1; 0: the processor has no events.
 */
static inline int uproc_poll(struct uproc *p, int64_t until)
{
	int rc;

	uproc__close(p);
	rc = uevents_sleep(&p->p_sched, until);
	uproc__open(p);
	return rc;
}

/* Returns the most tokens that u_tokens can count: fewer while the thread joins. */
static inline uint32_t uproc_most(int32_t tokens)
{
	return tokens < 0 ? UPROC_TOKENS : INT32_MAX;
}

/*
 * The skeleton of s_next, which parks the processor if need be. pick(p) is the policy: a
 * runnable thread or NULL. Mail comes first, so that threads woken before a yield run
 * before the thread that yields.
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
	return t ? &t->t_stack : uproc_park(p, pick);
}

/*
 * The skeleton of s_pick: notes that `self' waits.
 * Returns what pick(p) does; NULL, for s_next to decide: there is mail, it is time to
 * look for events, or nothing is runnable.
 */
static inline struct ustack *
uproc_wait(struct usched *s, struct ustack *self, uproc_pick_fn *pick)
{
	struct uproc *p = uproc_from(s);
	struct uproc_thread *t = NULL;

	if (!__atomic_load_n(&p->p_inbox, __ATOMIC_RELAXED)
	    && p->p_sched.s_stats.s_switches < p->p_sched.s_turn)
		t = pick(p);
	__atomic_store_n(&self->u_tokens, UPROC_WAITING, __ATOMIC_RELAXED);
	if (t)
		return &t->t_stack;
	p->p_intent = UPROC_WAIT;
	return NULL;
}

/* Private: see usched__forked(). */
void uproc__forked(void);

#ifdef __cplusplus
}
#endif

#endif /* USCHED_PROC_H */
