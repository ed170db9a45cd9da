/* SPDX-License-Identifier: MIT */
/*
 * proc.h: processors. What every scheduler over native threads needs: rr.c and
 * ll.c are policies on top of it, and others can be.
 *
 * A processor is a native thread that runs one dispatcher. Each thread belongs
 * to one processor from its start to its end, and only that processor touches
 * its state: whether it waits, its tokens, its place in the run queue. So
 * what threads of one processor do to each other takes no lock and no atomic
 * instruction. Everybody else sends mail: adds to the thread's t_mail and,
 * if that was empty, pushes the thread to the processor's inbox, which the
 * processor empties at each dispatch.
 *
 *     other processors,          processor
 *     native threads          +--------------------------------------+
 *        |                    |                     the scheduler's  |
 *        +-> t_mail += ... -->| inbox -> deliver -> run queue -> next|
 *            push to inbox    |                        ^       |     |
 *                             |   wakes, starts, yields|  block|     |
 *                             +--------------------------------------+
 *
 * A processor with nothing to run parks: it replaces its empty inbox by a mark,
 * and whoever pushes and finds the mark has to unpark it. When all are parked
 * nobody can wake anybody any more, unless a native thread does: that is how a
 * deadlock is found.
 *
 * With -DSINGLE_THREAD all of it is compiled without locks and atomic
 * instructions, for one processor, which runs on the native thread that
 * calls uproc_join() or uprocs_destroy(), inside that call.
 */
#ifndef USCHED_PROC_H
#define USCHED_PROC_H

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "conf.h"
#include "image.h"
#include "usched.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What a thread does while it does not run. */
enum uproc_wait {
	UPROC_RUNNABLE,
	UPROC_TOKEN,             /* waits for a wake */
	UPROC_JOIN,              /* waits for the end of a thread */
	UPROC_YIELD,             /* as an intention only: goes on when it is its turn */
};

/* t_mail: these bits, and tokens in units of UPROC_MAIL_TOKEN. */
enum {
	UPROC_MAIL_ENDED    = 1, /* not mail: the thread has ended, send none */
	UPROC_MAIL_START    = 2,
	UPROC_MAIL_JOINED   = 4, /* the thread that it joins has ended */
	UPROC_MAIL_DEADLOCK = 8, /* the join cannot succeed */
	UPROC_MAIL_TOKEN    = 16,
};

/* A record: a thread, with a first image behind it. */
struct uproc_thread {
	struct ustack        t_stack;

	/* Anybody's, atomic. */
	uint64_t             t_mail;
	struct uproc_thread *t_joiner;   /* or one of the marks in proc.c */

	/* Whose push made it part of an inbox; then the processor's. */
	struct uproc_thread *t_next;

	/* Its processor's. */
	uint32_t             t_tokens;   /* wakes that no wait has used */
	uint8_t              t_wait;     /* enum uproc_wait */
	uint8_t              t_news;     /* UPROC_MAIL_JOINED, UPROC_MAIL_DEADLOCK */
};

struct uproc {
	struct usched         p_sched;   /* first */

	/* Its own native thread's. */
	struct uproc_thread **p_queue;   /* ring of runnable threads */
	size_t                p_mask;    /* its size - 1 */
	size_t                p_head;    /* counts dispatches; & p_mask: the oldest */
	size_t                p_tail;
	uint8_t               p_intent;  /* enum uproc_wait: why the thread blocks */
	struct uimage_cache   p_images;
	struct uimage_stacks  p_stacks;
	struct uprocs        *p_procs;

	/* Anybody's, atomic; on a line that others' writes may take away. */
	struct uproc_thread  *p_inbox    /* last in first; or the mark of the parked */
		__attribute__((aligned(128)));
	uint32_t              p_count;   /* threads started here and not ended */
	uint32_t              p_room;    /* threads for which a ring is allocated */

	/* p_lock. */
	pthread_mutex_t       p_lock;
	struct uproc_thread **p_larger;  /* a larger ring for the processor to adopt */
	pthread_cond_t        p_unparked;
	pthread_t             p_native;
};

/* A scheduler's processors: the first part of its object. */
struct uprocs {
	struct usched_conf r_conf;       /* without zeros */
	struct uimage_pool r_images;
	char              *r_proc;       /* an array with elements of r_stride bytes, */
	size_t             r_stride;     /* which begin with a struct uproc */
	uint64_t           r_place;      /* atomic: see uprocs_place() */
	uint32_t           r_next;       /* atomic: where uprocs_next() is */
	uint32_t           r_stop;       /* atomic: 1 when processors shall end */
	uint32_t           r_parks;      /* atomic: times that a processor parked */
	uint32_t           r_unparks;    /* atomic: and was unparked */
	unsigned           r_patience;   /* ns to wait for mail before parking */

	/* r_lock. */
	pthread_mutex_t    r_lock;
	pthread_cond_t     r_changed;
	unsigned           r_held;       /* uproc_hold() less uproc_release() */
	unsigned           r_inside;     /* native threads in join or fini */
	unsigned           r_joining;    /* of these, who still wait for it to happen */
	unsigned           r_deadlocks;  /* times that those were told of one */
};

/*
 * Starts the processors. `size' is that of an element, a struct uproc at its
 * beginning and the scheduler's part after it, zeroed; `next' and `wake' are
 * its call-backs.
 * 0; -EINVAL: no such configuration; -ENOMEM; -EAGAIN: no more native threads;
 * -ENOTSUP as usched_init(). Then nothing is left behind.
 */
int uprocs_init(struct uprocs *r, const struct usched_conf *conf, size_t size,
		usched_next_fn *next, usched_wake_fn *wake);

/*
 * Waits until all threads have ended, stops the processors, frees everything.
 * 0; -EDEADLK: the threads that are left wait, and nobody can wake them: they
 * were reported and aborted, and all is freed nevertheless; or, with nothing done,
 * -EPERM and -EINVAL as rr_destroy().
 */
int uprocs_fini(struct uprocs *r);

/* As in rr.h, where the contracts are. */
int  uproc_start(struct uproc *p, void (*func)(void *), void *arg,
		 struct ustack **thread);
int  uproc_join(struct ustack *u);
int  uproc_detach(struct ustack *u);
int  uproc_yield(void);
void uproc_hold(struct uprocs *r);
void uproc_release(struct uprocs *r);
void uprocs_stats(struct uprocs *r, struct usched_stats *out);

/*
 * Sends mail to a thread, from any native thread.
 * 0; -ESRCH: it has ended.
 */
int uproc_post(struct uproc_thread *t, unsigned mail);

/* The slow parts of uproc_next(). */
void uproc_drain(struct uproc *p);
struct ustack *uproc_park(struct uproc *p);

/* The processors in turn. */
struct uproc *uprocs_next(struct uprocs *r);

/*
 * The processor on which a scheduler that spreads threads starts the next. Threads
 * that are started one after the other have often to do with each other, which costs
 * least on one processor: so they are placed in runs, of a quarter of the threads that
 * a processor has, which leaves it with little more than its share. The first few
 * are placed in turn.
 */
struct uproc *uprocs_place(struct uprocs *r);

void uproc_done(struct usched *s, struct ustack *u);     /* every s_done */

static inline struct uproc *uproc_at(const struct uprocs *r, size_t i)
{
	return (struct uproc *)(void *)(r->r_proc + i * r->r_stride);
}

/* The processor that the calling thread is on, or NULL. */
static inline struct uproc *uproc_self(void)
{
	struct usched *s = usched__current;

	return s && s->s_done == uproc_done && s->s_current ?
		(struct uproc *)(void *)s : NULL;
}

static inline struct uproc_thread *uproc_thread(struct ustack *u)
{
	return (struct uproc_thread *)(void *)u;
}

/* Makes `t' run after all that are in the queue. */
static inline void uproc_push(struct uproc *p, struct uproc_thread *t)
{
	p->p_queue[p->p_tail++ & p->p_mask] = t;
}

enum { UPROC_AHEAD = 4 };        /* dispatches by which a prefetch comes early */

/*
 * The oldest in the queue, or NULL. Looks ahead: of a million threads, the next
 * one's record is in no cache. What the ring holds behind its tail is old, but
 * it was a record once, and to prefetch is no access.
 */
static inline struct uproc_thread *uproc_pop(struct uproc *p)
{
	uintptr_t ahead;

	if (p->p_head == p->p_tail)
		return NULL;
	ahead = (uintptr_t)p->p_queue[(p->p_head + UPROC_AHEAD) & p->p_mask];
	__builtin_prefetch((const void *)ahead);
	__builtin_prefetch((const void *)(ahead + 64));
	__builtin_prefetch((const void *)(ahead + 128));
	__builtin_prefetch((const void *)(ahead + 192));
	return p->p_queue[p->p_head++ & p->p_mask];
}

/* Uses up a token, if `t' has one. */
static inline bool uproc_take_token(struct uproc_thread *t)
{
	if (t->t_tokens == 0)
		return false;
	t->t_tokens--;
	return true;
}

/* `t', which blocks, is told what for. True: it is there, and `t' goes on. */
static inline bool uproc_goes_on(struct uproc *p, struct uproc_thread *t)
{
	unsigned intent = p->p_intent;

	if (__builtin_expect(intent == UPROC_TOKEN, 1)) {
		if (uproc_take_token(t))
			return true;
		t->t_wait = UPROC_TOKEN;
		return false;
	}
	p->p_intent = UPROC_TOKEN;
	if (intent == UPROC_YIELD) {
		uproc_push(p, t);
		return false;
	}
	if (t->t_news != 0)
		return true;
	t->t_wait = UPROC_JOIN;
	return false;
}

/*
 * The skeleton of s_next; pick(p) is the policy: a runnable thread or NULL. Mail
 * comes first, so that who was woken before a thread yields runs before it.
 */
static inline struct ustack *
uproc_next(struct uproc *p, struct uproc_thread *(*pick)(struct uproc *))
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
	t = pick(p);
	return t ? &t->t_stack : uproc_park(p);
}

/* Uses up a token of the calling thread or waits for one. */
static inline int uproc_wait(void)
{
	struct uproc *p = uproc_self();
	struct uproc_thread *t;

	if (!p)
		return -EPERM;
	t = uproc_thread(p->p_sched.s_current);
	return uproc_take_token(t) ? 0 : ustack_block();
}

/* Wakes `t': of the same processor through local(p, t), of others by mail. */
static inline int
uproc_wake(struct ustack *u, void (*local)(struct uproc *p, struct uproc_thread *t))
{
	struct uproc_thread *t = uproc_thread(u);

	if (!usched__current || u->u_sched != usched__current)
		return uproc_post(t, UPROC_MAIL_TOKEN);
	if (t->t_wait == UPROC_TOKEN) {
		t->t_wait = UPROC_RUNNABLE;
		local((struct uproc *)(void *)u->u_sched, t);
		return 0;
	}
	if (!u->u_func)
		return -ESRCH;
	t->t_tokens++;
	return 0;
}

#ifdef __cplusplus
}
#endif

#endif /* USCHED_PROC_H */
