/* SPDX-License-Identifier: MIT */
/*
 * uproc_start.c: the choice of a processor for a new thread, and the start. A start
 * fails before other threads can see the new thread, or not at all. After the last step
 * the thread belongs to the processor, and this file does not touch the record any more.
 */
#include <limits.h>
#include <string.h>

#include "../base/check.h"
#include "block.h"
#include "policy.h"
#include "proc.h"
#include "../base/sim.h"

enum {
	CREDIT = 16,                    /* threads to count at once: p_credit */
};

/* ---- Places ---- */

/* r_place is the number of the processor of a run, plus RUN_LEFT for each start that is
   left in the run. */
#define RUN_LEFT ((uint64_t)1 << 32)

/*
 * Returns the larger of two numbers: how many threads are in the queue of `p', and how
 * many were started and have not begun. New threads may be in the queue or on their way.
 * The result is an estimate, since the counters are read one after the other.
 */
static uint32_t work_of(const struct uproc *p)
{
	size_t queued = GET(p->p_tail) - GET(p->p_head);
	uint32_t fresh = uproc__new_of(p);

	return queued > fresh ? (uint32_t)queued : fresh;
}

/*
 * Begins a run. Of the next two processors, takes the one that has less to do. Returns
 * r_place. A choice of two is enough: the longest queue of n processors then grows as
 * log log n. Without a choice it grows as log n.
 */
static uint64_t begin_run(const struct uprocs *r, uint64_t last)
{
	uint32_t limit = GET(r->r_limit);
	size_t next = (size_t)((last + 1) % limit);
	size_t second = (size_t)((last + 2) % limit);

	if (work_of(uproc_at(r, second)) < work_of(uproc_at(r, next)))
		next = second;
	return next + (uint64_t)(policy_run(uproc_count(uproc_at(r, next))) - 1)
		* RUN_LEFT;
}

/* Returns the processor for the next thread of a scheduler that spreads threads. */
static struct uproc *spread(struct uprocs *r)
{
	uint64_t old, place;

	if (GET(r->r_limit) == 1)
		return uproc_at(r, 0);
	old = LOAD(r->r_place);
	do
		place = old >= RUN_LEFT && (uint32_t)old < GET(r->r_limit)
			? old - RUN_LEFT : begin_run(r, old);
	while (!CAS(&r->r_place, &old, place));
	return uproc_at(r, (uint32_t)place);
}

struct uproc_place uprocs_place(struct uprocs *r, const struct ustack_how *how)
{
	if (how && how->h_processor)
		return (struct uproc_place){ uprocs_on(r, how->h_processor), true };
	return (struct uproc_place){ spread(r), false };
}

struct uproc *uprocs_on(struct uprocs *r, unsigned processor)
{
	struct uproc *self;

	if (SIMULATED)
		return uproc_at(r, 0);
	if (processor == 0)
		return uproc_at(r, FETCH_ADD(&r->r_next, 1) % GET(r->r_limit));
	if (processor != USCHED_BESIDE)
		return processor <= LOAD(r->r_made) ? uproc_at(r, processor - 1) : NULL;
	self = uproc_self();
	return self && self->p_procs == r ? self : NULL;
}

/* ---- Starts ---- */

/*
 * Counts one more thread of `p', and makes a place for it in the ring. On the native
 * thread of `p' this counts several threads at once, so that the next calls need no
 * atomic instruction. Returns 0 or -ENOMEM.
 */
static int make_place(struct uproc *p)
{
	uint32_t credit = p == uproc_self() ? p->p_credit : 0;

	if (credit == 0 && p == uproc_self() && uproc__count_started(p, CREDIT) == 0)
		credit = CREDIT;
	if (credit == 0)
		return uproc__count_started(p, 1);
	SET(p->p_credit, credit - 1);
	return 0;
}

static struct uproc_thread *get_record(struct uproc *p)
{
	struct uproc *self = uproc_self();
	struct uproc_thread *t;

	if (self && self->p_procs == p->p_procs) {
		t = (struct uproc_thread *)uimage_record(&self->p_images);
	} else {
		lock(&p->p_lock);
		t = (struct uproc_thread *)uimage_record(&p->p_outside);
		unlock(&p->p_lock);
	}
	return t;
}

/* Returns a named record that has a place in the ring of `p'. NULL: no memory. */
static struct uproc_thread *new_thread(struct uproc *p, const char *name)
{
	struct uproc_thread *t = get_record(p);

	if (!t)
		return NULL;
	if (make_place(p) == 0) {
		if (!name || uproc__begin_name(&t->th_stack, name) == 0)
			return t;
		FETCH_ADD(&p->p_started, -(uint32_t)1);
	}
	uproc__put_record(p, t);
	return NULL;
}

/*
 * Returns the first owner of a new thread of `p'. This is `p' if `p' is the caller.
 * Otherwise it is r_moving, as for a thread that moves, until `p' makes itself the
 * owner.
 */
static struct usched *first_owner(struct uproc *p)
{
	return p == uproc_self() ? &p->p_sched : &p->p_procs->r_moving->p_sched;
}

/* Tells hooks that there is a new thread. Meanwhile u_pc is the place of creation, since
   the thread has no place yet at which to go on. */
static void tell_created(struct uproc_thread *t, const void *where)
{
	struct usched *here = usched__here();
	const struct usched__wrap *wrap;

	if (__builtin_expect(here->s_hook == NULL, 1))
		return;
	wrap = usched__wrap_of(&t->th_stack);
	t->th_stack.u_pc = wrap && wrap->wr_where ? wrap->wr_where : where;
	usched__tell(here, USCHED_CREATES, &t->th_stack, here->s_current);
}

/* Fills the y_room bytes of a new record from `from'. If `from' is NULL, copies the
   bytes of the starting thread, or stores zeros if no thread of `r' starts `t'. */
static void fill_room(const struct uprocs *r, struct uproc_thread *t, const void *from)
{
	struct uproc *self = uproc_self();

	if (!from && self && self->p_procs == r)
		from = uproc_room(uproc_thread(self->p_sched.s_current));
	if (from)
		memcpy(uproc_room(t), from, r->r_room);
	else
		memset(uproc_room(t), 0, r->r_room);
}

/* Hands a new thread to its processor. */
static void start_thread(struct uproc_place place, struct uproc_thread *t,
			 const struct ustack_how *how, struct ustack **thread)
{
	struct uproc *self = uproc_self(), *p = place.pp_proc;
	uint32_t mail = GET(t->th_stack.u_mail) & UPROC_MAIL_KNOWN;     /* KNOWN stays */

	if (thread) {
		uproc_rest(t)->re_joiner = how->h_detached ? DETACHED : OPEN;
		*thread = &t->th_stack;
		mail |= UPROC_MAIL_KNOWN | UPROC_MAIL_LIVE;
	} else {
		mail |= UPROC_MAIL_UNJOINED | UPROC_MAIL_LIVE;
	}
	if (how->h_name)
		mail |= UPROC_MAIL_NAMED;
	if (place.pp_stays && p->p_moves)
		mail |= UPROC_MAIL_STAYS;
	if (p != self)
		mail |= UPROC_MAIL_START | UPROC_MAIL_MOVED;
	if (p->p_procs->r_room > 0)
		fill_room(p->p_procs, t, how->h_room);
	if (SIMULATED)
		sim__started(t);
	/* This store sets LIVE. Mail by stale handles was refused until now. */
	__atomic_store_n(&t->th_stack.u_mail, mail, __ATOMIC_RELEASE);
	if (p == self)
		uproc__make_runnable(p, t);
	else
		uproc__push_inbox(p, t);
}

static int check_how(const struct uproc *p, const struct ustack_how *how,
		     void (*func)(void *))
{
	if (how->h_serve ? func || how->h_fd < 0 || how->h_fd == INT_MAX : !func)
		return -EINVAL;
	if (!p || how->h_stack > USCHED_STACK_MAX
	    || (how->h_stack > USTACK_OWN && how->h_stack < USCHED_STACK_MIN))
		return -EINVAL;
	if (how->h_stack && __atomic_load_n(&p->p_steps, __ATOMIC_ACQUIRE) == 0)
		return -ENOTSUP;
	return 0;
}

/* Makes `u' a new thread. `func' is NULL if the thread is to serve a descriptor. */
static inline void init_thread(struct usched *s, struct ustack *u,
			       const struct ustack_how *how, void (*func)(void *),
			       void *arg)
{
	if (func)
		ustack_init(s, u, func, arg);
	else
		ustack_init_fd(s, u, how->h_serve, how->h_fd, arg);
}

__attribute__((noinline))
int uproc_start(struct uproc_place place, const struct ustack_how *how,
		void (*func)(void *), void *arg, struct ustack **thread)
{
	static const struct ustack_how plain = { .h_processor = 0 };
	struct usched_stack *stack = NULL;
	struct uproc *p = place.pp_proc;
	struct uproc_thread *t = NULL;
	char *block = NULL;
	int rc;

	CALLED("rr_start(), ll_start(), or one with a how,");
	check(arg, CHECK_ARGUMENT, "start");
	check_inside(arg, CHECK_ITS_BLOCK, "start", __builtin_return_address(0));
	if (!how)
		how = &plain;
	rc = check_how(p, how, func);
	if (rc == 0 && how->h_stack)
		rc = uproc__take_alone(p, how->h_stack, &stack);
	if (rc)
		return rc;
	if (p->p_procs->r_conf.c_tls)
		block = uproc__new_block(p->p_procs,
					 stack ? uproc__place_of_block(stack) : NULL);
	if (block || !p->p_procs->r_conf.c_tls)
		t = new_thread(p, how->h_name);
	if (!t) {
		if (block)
			uproc__drop_block(block);
		if (stack)
			uproc__put_alone(p, stack);
		return -ENOMEM;
	}
	if (block) {
		arg = uproc__begin_on(block, how, func, arg, __builtin_return_address(0));
		func = usched__wrapped;
	}
	init_thread(first_owner(p), &t->th_stack, how, func, arg);
	if (stack)
		usched__place_alone(&t->th_stack, stack);
	tell_created(t, __builtin_return_address(0));
	start_thread(place, t, how, thread);
	return 0;
}

int uproc__start_beside(struct usched *s, const struct ustack_how *how,
			void (*func)(void *), void *arg, struct ustack **thread)
{
	struct uproc *p = uproc_from(s);
	bool chosen = p->p_moves || (how && how->h_processor);
	struct uproc_place place = { p, true };

	return uproc_start(chosen ? uprocs_place(p->p_procs, how) : place, how, func, arg,
			   thread);
}

int ustack_stay(int on)
{
	struct ustack *u = ustack_self();
	uint32_t before;

	if (!u)
		return -EPERM;
	if (!ustack_sched(u)->s_proc)
		return -ENOTSUP;
	before = on ? FETCH_OR(&u->u_mail, UPROC_MAIL_STAYS)
		: FETCH_AND(&u->u_mail, ~(uint32_t)UPROC_MAIL_STAYS);
	return (before & UPROC_MAIL_STAYS) != 0;
}
