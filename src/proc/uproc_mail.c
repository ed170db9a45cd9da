/* SPDX-License-Identifier: MIT */
/*
 * uproc_mail.c: mail, and the end of threads that have mail. Mail is wakes, cancels and
 * news of joins from other native threads. This file neither starts threads nor parks.
 *
 * Invariants
 *  - A thread is in an inbox if and only if its u_mail has bits that are mail.
 *    The sender that sets the first bit pushes the thread. The processor clears u_mail
 *    after it has read re_next. So a record is in one inbox at most, and only once.
 *  - A thread that ends while in the inbox is settled when the processor takes the thread
 *    out: its joiner is told, or its record is freed. So no record in a list is freed.
 *    LIVE, a bit of u_mail, decides whether the end or the mail came first. The last step
 *    of a start sets LIVE, so a stale handle cannot change a thread that is half made.
 *  - A free record may become zeros at any time, when the memory goes back to the
 *    system. Zeros mean that the thread has ended, and that no thread may join it.
 *    uimage_pool_keep() sees to it that KNOWN is set again.
 */
#include "proc.h"

int uproc_post(struct uproc_thread *t, unsigned mail)
{
	uint32_t *box = &t->th_stack.u_mail, old = LOAD(*box), all;

	CALLED("ustack_wake(), or another call that sends mail,");
	if (uproc__is_watched())
		uproc__observer.po_post(t, mail);
	do {
		if (!(old & UPROC_MAIL_LIVE))
			return -ESRCH;
		all = mail < UPROC_MAIL_TOKEN ? old | mail : old + mail;
		if (all < old)
			return -EOVERFLOW;
	} while (!CAS(box, &old, all));
	if ((old & ~(uint32_t)UPROC_MAIL_NONE) == 0) {
		struct uproc *o = uproc_of(&t->th_stack);

		if (mail >= UPROC_MAIL_TOKEN)
			uproc__draw(o, t);
		uproc__push_inbox(o, t);
	}
	return 0;
}

/* Mail that the thread must get on this processor, so the thread is not drawn away. */
#define UPROC_MAIL_NEWS (UPROC_MAIL_JOINED | UPROC_MAIL_DEADLOCK | UPROC_MAIL_CANCEL)

/* Delivers mail to `t', a thread of `p'. `q' is the processor that draws `t', or NULL. */
static void deliver(struct uproc *p, struct uproc_thread *t, uint32_t mail,
		    struct uproc *q)
{
	int32_t *tokens = &t->th_stack.u_tokens;
	uint32_t more = mail / UPROC_MAIL_TOKEN;

	if (*tokens == UPROC_WAITING && more > 0) {
		usched__tell(&p->p_sched, USCHED_BY_MAIL, &t->th_stack, NULL);
		SET(*tokens, 0);
		uproc__add_tokens(tokens, more - 1);
		if (q && !(mail & UPROC_MAIL_NEWS) && uproc__follow(p, t, q))
			return;
		uproc_push(p, t);
		more = 0;
	}
	uproc__add_tokens(tokens, more);
	if (mail & UPROC_MAIL_CANCEL) {
		uproc__close(p);
		ustack_cancel_here(&t->th_stack);
		uproc__open(p);
	}
	/* News of a deadlock are dropped if the thread has gone on meanwhile. */
	if (mail & (UPROC_MAIL_JOINED | UPROC_MAIL_DEADLOCK) && *tokens < UPROC_WAITING) {
		if (!(*tokens & UPROC_NEWS)) {
			usched__tell(&p->p_sched, USCHED_BY_JOIN, &t->th_stack, NULL);
			uproc_push(p, t);
		}
		SET(*tokens, *tokens | (mail & UPROC_MAIL_JOINED ? UPROC_JOINED : 0)
		    | (mail & UPROC_MAIL_DEADLOCK ? UPROC_DEADLOCK : 0));
	}
}

int uproc__wake(struct usched *s, struct ustack *u)
{
	struct uproc_thread *t = uproc_thread(u);
	uint32_t most;

	if (s != usched__here() || !uproc__has(uproc_from(s), t))
		return uproc_post(t, UPROC_MAIL_TOKEN);
	most = uproc_most(u->u_tokens);
	if (((uint32_t)u->u_tokens & most) == most)
		return -EOVERFLOW;
	SET(u->u_tokens, u->u_tokens + 1);
	return 0;
}

int uproc__cancel(struct usched *s, struct ustack *u)
{
	struct uproc_thread *t = uproc_thread(u);

	if (s != usched__here() || !uproc__has(uproc_from(s), t))
		return uproc_post(t, UPROC_MAIL_CANCEL);
	ustack_cancel_here(u);
	return 0;
}

void uproc__interrupt(struct usched *s, struct ustack *u)
{
	if (s == usched__here())
		deliver(uproc_from(s), uproc_thread(u), UPROC_MAIL_DEADLOCK, NULL);
	else
		uproc_post(uproc_thread(u), UPROC_MAIL_DEADLOCK);
}

/* `t' has ended: tells that to the native thread that joins `t'. Returns false if the
   native thread has given up the join. */
static bool tell_native(struct uprocs *r, struct uproc_thread *t)
{
	struct uproc_thread *joiner = NATIVE;
	bool told;

	if (uproc__is_driven(r)) {      /* makes usched_run() return to drive() */
		uproc_rest(t)->re_joiner = TAKEN;
		r->r_stop = 1;
		return true;
	}
	lock(&r->r_lock);
	told = CAS(&uproc_rest(t)->re_joiner, &joiner, TAKEN);
	if (told) {
		r->r_joining--;
		pthread_cond_broadcast(&r->r_changed);
	}
	unlock(&r->r_lock);
	return told;
}

void uproc__settle_thread(struct uproc *p, struct uproc_thread *t)
{
	struct uproc_thread *joiner = LOAD(uproc_rest(t)->re_joiner);
	bool told;

	if (joiner == OPEN && CAS(&uproc_rest(t)->re_joiner, &joiner, ENDED))
		return;
	if (joiner == DETACHED) {
		uimage_record_free(&p->p_images, t);
		return;
	}
	if (joiner == NATIVE)
		told = tell_native(p->p_procs, t);
	else
		told = CAS(&uproc_rest(t)->re_joiner, &joiner, TAKEN);
	if (!told)
		uproc__settle_thread(p, t);            /* the joiner has given up */
	else if (joiner != NATIVE && uproc_of(&joiner->th_stack) == p)
		deliver(p, joiner, UPROC_MAIL_JOINED, NULL);
	else if (joiner != NATIVE)
		uproc_post(joiner, UPROC_MAIL_JOINED);
}

/*
 * `t' is in the inbox of `p'. Returns whether `t' moves here or was started from
 * elsewhere. If `t' joins a thread, the same bit is UPROC_MAIL_JOINED, but r_moving
 * never owns such a `t'.
 */
static bool is_moving(const struct uproc *p, struct uproc_thread *t)
{
	return GET(t->th_stack.u_mail) & UPROC_MAIL_MOVED
		&& uproc_of(&t->th_stack) == p->p_procs->r_moving && t->th_stack.u_func;
}

/* Delivers the mail of all threads in the inbox, in the order in which they came. */
void uproc_drain(struct uproc *p)
{
	struct uproc_thread *t = SWAP(&p->p_inbox, NULL), *next, *oldest = NULL;
	size_t n = 0;

	for (; t && t != STOPPED && t != ASKED; t = next) {
		next = uproc_rest(t)->re_next;
		uproc_rest(t)->re_next = oldest;
		oldest = t;
		n++;
	}
	UPROC_COUNT(p->p_mailed, n);
	for (t = oldest; t; t = next) {
		struct uproc *q = GET(p->p_drawer) ? uproc__drawer(p, t) : NULL;
		bool moving = is_moving(p, t);
		uint32_t mail;

		next = uproc_rest(t)->re_next;
		if (moving)
			uproc__arrive(p, t);
		mail = FETCH_AND(&t->th_stack.u_mail, UPROC_MAIL_NONE);
		if (moving) {
			uproc__make_runnable(p, t);
			mail &= ~(uint32_t)UPROC_MAIL_MOVED;
		}
		if (!(mail & UPROC_MAIL_LIVE))
			uproc__settle_thread(p, t);
		else
			deliver(p, t, mail, q);
	}
	uproc__share(p);
}
