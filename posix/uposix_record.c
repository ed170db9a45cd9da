/* SPDX-License-Identifier: MIT */
/*
 * uposix_record.c: the records of threads: the list of all records, the record of the
 * caller, requests to a thread, and the state in the child of a fork.
 *
 * A record is in the list from uposix__new_record() to uposix__free_record(). A native
 * thread has no record, with one exception: if a thread calls fork(), the native thread
 * of the child has the record of that thread. `uthreads --lost' does not follow the list:
 * src/proc/layout.h.
 */
#include "uposix_set.h"

#include "../src/base/sim.h"
#include "../src/proc/layout.h"
#include "../uproc.h"

#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>

struct uwait_lock uposix__lock;
struct uposix_records uposix__records;
struct uposix_counts uposix__counts;
struct uposix_forked uposix__forked;

static const struct usync_key self_key;
static __thread struct uposix_thread *self_record USCHED_TLS_MODEL;    /* in place of
						   self_key, if in_blocks() */

/* A simulation looks for the records of all threads. */
static inline bool in_blocks(void)
{
	return uposix__blocks && !SIMULATED;
}

struct uposix_thread *uposix__me(void)
{
	if (__builtin_expect(ustack_self() != NULL, 1))
		return in_blocks() ? self_record : usync_key_get(&self_key);
	if (__builtin_expect(uposix__forked.f_me != NULL, 0)
	    && pthread_equal(pthread_self(), uposix__forked.f_native))
		return uposix__forked.f_me;
	return NULL;
}

/* The record of a thread with a block has ended with the block. */
int uposix__set_me(struct uposix_thread *me)
{
	if (in_blocks() && me)
		self_record = me;
	if (in_blocks())
		return 0;
	return usync_key_set(&self_key, me);
}

struct uposix_thread *uposix__record_of(const struct ustack *u)
{
	return usync__key_of(u, &self_key);
}

static uintptr_t magic(const struct uposix_thread *p)
{
	return __atomic_load_n(&p->p_magic, __ATOMIC_ACQUIRE);
}

bool uposix__is_gone(const struct uposix_thread *p)
{
	return magic(p) != UPOSIX_MAGIC;
}

struct uposix_thread *uposix__thread(pthread_t thread)
{
	struct uposix_thread *p = (struct uposix_thread *)thread;

	return p && (magic(p) == UPOSIX_MAGIC || magic(p) == UPOSIX_GONE) ? p : NULL;
}

/* Returns a new record in the list of all records, or NULL if there is no memory. */
struct uposix_thread *uposix__new_record(void)
{
	struct uposix_thread *p;
	struct uposix_records *r = &uposix__records;
	struct uposix_counts *c = &uposix__counts;

	uwait_lock(&uposix__lock);
	p = r->r_vacant;
	if (p) {
		r->r_vacant = p->p_next;
	} else {
		uwait_unlock(&uposix__lock);
		p = malloc(sizeof *p);
		uwait_lock(&uposix__lock);
	}
	if (p) {
		*p = (struct uposix_thread){ .p_next = r->r_all, .p_mask = ~(uint64_t)0,
					     .p_magic = UPOSIX_MAGIC };
		if (p->p_next)
			p->p_next->p_prev = p;
		r->r_all = p;
		c->c_started++;
		if (++c->c_now > c->c_most)
			c->c_most = c->c_now;
	}
	c->c_refused += !p;
	uwait_unlock(&uposix__lock);
	return p;
}

void uposix__free_record(struct uposix_thread *p)
{
	free(p->p_tls);
	p->p_tls = NULL;
	uwait_lock(&uposix__lock);
	*(p->p_prev ? &p->p_prev->p_next : &uposix__records.r_all) = p->p_next;
	if (p->p_next)
		p->p_next->p_prev = p->p_prev;
	p->p_magic = UPOSIX_GONE;
	p->p_next = uposix__records.r_vacant;
	uposix__records.r_vacant = p;
	uwait_unlock(&uposix__lock);
}

pthread_t uposix_pthread_self(void)
{
	struct uposix_thread *me = uposix__me();

	return me ? (pthread_t)me : pthread_self();
}

uint64_t uposix__mask(void)
{
	const struct uposix_thread *me = uposix__thread_now();
	sigset_t set;

	if (me)
		return me->p_mask;
	pthread_sigmask(SIG_BLOCK, NULL, &set);
	return uposix__mask_of(&set);
}

void uposix__set_native_mask(uint64_t mask)
{
	sigset_t set;

	uposix__set_of(mask, &set);
	pthread_sigmask(SIG_SETMASK, &set, NULL);
}

/* Makes the system call itself. The catcher is not told of this change of the mask. */
void uposix__hold_handlers(uint64_t *old)
{
	const uint64_t set = ~(3 * uposix__bit(UPOSIX_INTERNAL));

	if (!ustack_self())
		syscall(SYS_rt_sigprocmask, SIG_BLOCK, &set, old, sizeof set);
}

void uposix__release_handlers(const uint64_t *old)
{
	if (!ustack_self())
		syscall(SYS_rt_sigprocmask, SIG_SETMASK, old, NULL, sizeof *old);
}

void uposix__lock_record(struct uposix_thread *p, uint64_t *old)
{
	uposix__hold_handlers(old);
	uwait_lock(&p->p_lock);
}

void uposix__unlock_record(struct uposix_thread *p, const uint64_t *old)
{
	uwait_unlock(&p->p_lock);
	uposix__release_handlers(old);
}

void uposix__ask(struct uposix_thread *p, uint32_t what)
{
	uint64_t old;

	__atomic_fetch_or(&p->p_asked, what, __ATOMIC_ACQ_REL);
	if (p == uposix__me())
		return;
	uposix__lock_record(p, &old);
	if (p->p_thread && !p->p_ended)
		ustack_cancel(p->p_thread);
	uposix__unlock_record(p, &old);
}

static void hold_threads(int on)
{
	(on ? uwait_lock : uwait_unlock)(&uposix__lock);
}

/* Ends the wait of a thread that the child of a fork does not have. */
static void forget(struct uposix_thread *p)
{
	if (p->p_waiter && !p->p_ended)
		uwait_withdraw(p->p_waiter);
	p->p_magic = UPOSIX_GONE;
}

/*
 * In the child of a fork, the native thread takes the record of the thread that called
 * fork(). The records of other threads are not freed.
 */
static void threads_forked(void)
{
	struct uposix_thread *me = uposix__me();
	struct ustack *u = ustack_self();

	for (struct uposix_thread *p = uposix__records.r_all; p; p = p->p_next)
		if (p != me)
			forget(p);
	uposix__records.r_all = NULL;
	uposix__counts = (struct uposix_counts){ 0 };
	uposix__forked.f_count++;
	if (!u)
		return;
	uposix__forked.f_me = me;
	uposix__forked.f_name = (uintptr_t)u;
	usched__forked();
	uposix__forked.f_native = pthread_self();
	if (!me)
		return;
	me->p_lock = (struct uwait_lock){ 0 };  /* a thread of the parent may have held
						   this lock */
	__atomic_store_n(&me->p_pending, 0, __ATOMIC_RELAXED);
	uposix__set_native_mask(me->p_mask);
}

UPOSIX_AT_FORK(UPOSIX_THREADS, hold_threads, threads_forked)

__attribute__((constructor)) static void show_records(void)
{
	uproc__lists[1].ll_head = &uposix__records;
	uproc__lists[1].ll_links = sizeof uposix__records;
}

_Static_assert(sizeof uposix__records == offsetof(struct uposix_thread, p_magic),
	       "a record begins with the links");
