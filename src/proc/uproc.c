/* SPDX-License-Identifier: MIT */
/*
 * uproc.c: processors: start and end of threads, mail, joins. uproc.h has the picture and
 * the part that is hot, src/proc/proc.h names the other modules of processors.
 *
 * Invariants
 *  - A thread is in an inbox if and only if its u_mail has bits that are mail.
 *    The sender that sets the first bit pushes the thread. The processor clears u_mail
 *    after it has read t_next. So a record is in at most one inbox, once.
 *  - A thread that ends while it is in the inbox is settled when it is taken out. No
 *    record is freed while it is in a list. LIVE, in the same word, decides whether the
 *    end or the mail came first. It is set in the last step of the record's next start,
 *    so a stale handle cannot change a thread that is half made.
 *  - A free record may become zeros at any time, when its memory goes back to the system.
 *    That is a thread which has ended, and which none may join. KNOWN comes back with
 *    the next start.
 *  - t_joiner changes by compare-and-swap, and from NATIVE under r_lock only:
 *
 *	OPEN   -> joiner      a thread joins, or a native thread: NATIVE
 *	OPEN   -> DETACHED
 *	OPEN   -> ENDED       the thread ends without a joiner
 *	joiner -> TAKEN       the thread ends, and its joiner is told
 *	ENDED  -> TAKEN       a join or a detach comes after the end
 *	joiner -> OPEN        the joiner gives up: a deadlock, its deadline, a cancel
 *
 *    The joiner that was told frees the record, or the caller that replaced ENDED by
 *    TAKEN. A detached one is freed at its end. While a record is free the word is
 *    DETACHED, so the start and the end of a thread that none knows leave it alone.
 *    TAKEN is not ENDED, since the joiner may not have run yet, and until then a second
 *    join must fail. A joiner that gives up and finds TAKEN waits for the news: it must
 *    not come in the middle of a later wait.
 *  - A ring has room for all threads of its processor, so making a thread runnable cannot
 *    fail. The room is made when a thread is started.
 *  - r_joining counts the native threads whose join is not over. The end that a native
 *    thread waits for takes it off the count, not the native thread. While the count is
 *    not zero and all processors are parked, threads are stuck, unless a thread waits for
 *    an event, or a native thread has announced a wake: uprocs_hold(), or a join (not a
 *    destroy) with a deadline.
 *  - Locks: list_lock before r_lock, and that before p_lock.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE             /* pthread_condattr_setclock() */
#endif
#include "../../uproc.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>

#include "../base/check.h"
#include "../core/outside.h"
#include "policy.h"
#include "proc.h"
#include "../core/stress.h"
#include "../base/when.h"
#include "../../upreempt.h"

enum {
	RING_MIN  = 64,                 /* threads */
	JOINS_MIN = 32,                 /* notes of joins */
	CREDIT    = 16,                 /* threads, see make_place() */
	LOOK_TIME = 500000,             /* ns from a look to the next */
};

struct uproc_thread uproc__marks[UPROC_MARKS];

/* ---- Stacks ---- */

static int map_stacks(struct uproc *p, unsigned n)
{
	struct uimage_stacks *stacks = &p->p_stacks[p->p_steps];
	int rc = uimage_stacks_map(stacks, n, p->p_procs->r_conf.c_stack_size);

	if (rc)
		return rc;
	p->p_unused = n;
	__atomic_store_n(&p->p_steps, p->p_steps + 1, __ATOMIC_RELEASE);
	return 0;
}

static int add_stack(struct uproc *p, struct uimage_stacks *stacks)
{
	void *base = uimage_stacks_base(stacks, stacks->k_count - p->p_unused);
	int rc = usched_add_stack(&p->p_sched, base, stacks->k_size);

	if (rc == 0) {
		p->p_unused--;
	} else {                                /* the first already */
		__atomic_store_n(&p->p_steps, p->p_steps - 1, __ATOMIC_RELEASE);
		uimage_stacks_unmap(stacks);
	}
	return rc;
}

/*
 * Doubles the number of stacks, up to c_stacks. Those that are mapped and not used take
 * no memory: the head of a stack is a page.
 */
static int add_stacks(struct uproc *p)
{
	const struct uprocs_conf *conf = &p->p_procs->r_conf;
	unsigned have = p->p_sched.s_stacks, more = have ? have : p->p_procs->r_stacks;
	int rc = 0;

	if (conf->c_stacks == USCHED_NATIVE)
		return 0;
	if (more > conf->c_stacks - have)
		more = conf->c_stacks - have;
	if (p->p_unused == 0)
		rc = map_stacks(p, have ? more : p->p_procs->r_mapped);
	for (; rc == 0 && more > 0; more--)
		rc = add_stack(p, &p->p_stacks[p->p_steps - 1]);
	return rc == -ENOTSUP ? 0 : rc;         /* then threads use the native stack */
}

static void grow(struct usched *s);

static void set_grow(struct uproc *p)
{
	bool more = p->p_steps > 0
		&& p->p_sched.s_stacks < p->p_procs->r_conf.c_stacks;

	p->p_sched.s_grow = more ? grow : NULL;
}

/* In a launch that finds no vacant stack. */
static void grow(struct usched *s)
{
	struct uproc *p = (struct uproc *)(void *)s;

	s->s_grow = NULL;
	if (add_stacks(p) == 0)
		set_grow(p);
}

/* Stacks that are being mapped may be missing. */
static bool has_stack(const struct uproc *p, const void *address)
{
	unsigned steps = __atomic_load_n(&p->p_steps, __ATOMIC_ACQUIRE);

	for (unsigned i = 0; i < steps; i++) {
		const struct uimage_stacks *k = &p->p_stacks[i];
		uintptr_t offset = (uintptr_t)address - (uintptr_t)k->k_map;

		if (offset < k->k_count * k->k_stride
		    && (uintptr_t)address - (uintptr_t)
			uimage_stacks_base(k, offset / k->k_stride) < k->k_size)
			return true;
	}
	return false;
}

/* s_has_stack. */
static int find_stack(const struct usched *s, const void *address)
{
	const struct uproc *self = (const struct uproc *)(const void *)s;

	if (s->s_done != uproc_done)
		return 0;
	for (size_t i = 0; i < self->p_procs->r_conf.c_processors; i++) {
		const struct uproc *p = uproc_at(self->p_procs, i);

		if (has_stack(p, address))
			return p == self ? 2 : 1;
	}
	return 0;
}

/* ---- The ring of runnable threads ---- */

/* Under p_lock: allocates a ring for at least `count', for the owner to adopt. */
static int enlarge_ring(struct uproc *p, uint32_t count)
{
	uint32_t room = p->p_room;
	struct uproc_thread **ring;

	if (count > UINT32_MAX / 2)
		return -ENOMEM;                 /* there is no such power of two */
	while (room < count)
		room *= 2;
	if (room == p->p_room)
		return 0;                       /* another caller did it */
	ring = (struct uproc_thread **)calloc(room, sizeof *ring);
	if (!ring)
		return -ENOMEM;
	free(p->p_larger);
	p->p_larger = ring;
	__atomic_store_n(&p->p_room, room, __ATOMIC_SEQ_CST);
	return 0;
}

int uproc__count_started(struct uproc *p, uint32_t n)
{
	uint32_t ended = __atomic_load_n(&p->p_ended, __ATOMIC_ACQUIRE);
	uint32_t count = FETCH_ADD(&p->p_started, n) + n - ended;
	int rc;

	if (count <= LOAD(p->p_room))
		return 0;
	lock(&p->p_lock);
	rc = enlarge_ring(p, count);
	unlock(&p->p_lock);
	if (rc)
		FETCH_ADD(&p->p_started, -n);
	return rc;
}

/*
 * Counts one thread more, and makes a place for it in the ring. The processor's own
 * native thread counts several at once, and then needs no atomic instruction for them.
 */
static int make_place(struct uproc *p)
{
	uint32_t credit = p == uproc_self() ? p->p_credit : 0;

	if (credit == 0 && p == uproc_self() && uproc__count_started(p, CREDIT) == 0)
		credit = CREDIT;
	if (credit == 0)
		return uproc__count_started(p, 1);
	__atomic_store_n(&p->p_credit, credit - 1, __ATOMIC_RELAXED);
	return 0;
}

static void adopt_room(struct uproc *p)
{
	struct uproc_thread **old = p->p_queue;
	size_t mask;

	lock(&p->p_lock);
	p->p_queue = p->p_larger;
	p->p_larger = NULL;
	mask = p->p_room - 1;
	unlock(&p->p_lock);
	for (size_t i = p->p_head; i != p->p_tail; i++)
		p->p_queue[i & mask] = old[i & p->p_mask];
	p->p_mask = mask;
	free(old);
	set_grow(p);                            /* it may have failed */
}

/* `t' is new. */
static void make_runnable(struct uproc *p, struct uproc_thread *t)
{
	if (p->p_mask + 1 < LOAD(p->p_room))
		adopt_room(p);
	uproc_push(p, t);
}

/* The thread that was picked is the oldest again. */
static void unpick(struct usched *s)
{
	struct uproc *p = (struct uproc *)(void *)s;

	SET(s->s_current->u_tokens, 0);
	p->p_intent = UPROC_BLOCK;
	if (!s->s_chosen)
		return;
	UPROC_COUNT(p->p_head, -1);
	p->p_queue[p->p_head & p->p_mask] = uproc_thread(s->s_chosen);
}

#ifdef USCHED_CHECK
static uint32_t seed_value;

static void choose_seed(void)
{
	const char *given = outside_setting("USCHED_SEED");

	seed_value = given ? (uint32_t)strtoul(given, NULL, 10) : (uint32_t)when_now();
	seed_value += seed_value == 0;
	fprintf(stderr, "usched: USCHED_SEED=%u\n", (unsigned)seed_value);
}

static uint32_t seed(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, choose_seed);
	return seed_value;
}

/* Exchanges the oldest in the queue with a random one. (Marsaglia's xorshift.) */
void uproc__shuffle(struct uproc *p)
{
	static __thread uint32_t state;
	size_t other;
	struct uproc_thread **a = &p->p_queue[p->p_head & p->p_mask], **b, *t = *a;

	if (state == 0)                 /* each processor has its own sequence */
		state = seed() + (uint32_t)uproc__index(p);
	state ^= state << 13;
	state ^= state >> 17;
	state ^= state << 5;
	other = p->p_head + state % (p->p_tail - p->p_head);
	b = &p->p_queue[other & p->p_mask];
	*a = *b;
	*b = t;
}
#endif

/* ---- Records and images ---- */

/*
 * A record for a thread of `p'; from the caller's cache, so that threads which start each
 * other lie together. NULL: no memory.
 */
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

static void put_record(struct uproc *p, struct uproc_thread *t)
{
	struct uproc *self = uproc_self();

	__atomic_store_n(&uproc_rest(t)->t_joiner, DETACHED, __ATOMIC_RELAXED);
	if (self && self->p_procs == p->p_procs) {
		uimage_record_free(&self->p_images, t);
		return;
	}
	lock(&p->p_lock);
	uimage_record_free(&p->p_outside, t);
	unlock(&p->p_lock);
}

static void *alloc_image(struct usched *s, struct ustack *u, size_t *size)
{
	(void)u;
	return uimage_alloc(&((struct uproc *)(void *)s)->p_images, size);
}

static void free_image(struct usched *s, struct ustack *u, void *image, size_t size)
{
	(void)u;
	uimage_free(&((struct uproc *)(void *)s)->p_images, image, size);
}

/* ---- Mail ---- */

void uproc__push_inbox(struct uproc *p, struct uproc_thread *t)
{
	struct uproc_thread *first = LOAD(p->p_inbox);

	do {
		uproc_rest(t)->t_next = first == PARKED || first == ASKED ? NULL : first;
	} while (!CAS(&p->p_inbox, &first, t));
	if (first == PARKED)
		uproc__unpark(p);
}

int uproc_post(struct uproc_thread *t, unsigned mail)
{
	uint32_t *box = &t->t_stack.u_mail, old = LOAD(*box), all;

	CALLED("ustack_wake(), or another call that sends mail,");
	if (uproc__is_watched())
		uproc__observer.o_post(t, mail);
	do {
		if (!(old & UPROC_MAIL_LIVE))
			return -ESRCH;
		all = mail < UPROC_MAIL_TOKEN ? old | mail : old + mail;
		if (all < old)
			return -EOVERFLOW;
	} while (!CAS(box, &old, all));
	if ((old & ~(uint32_t)UPROC_MAIL_NONE) == 0) {
		struct uproc *o = uproc_of(&t->t_stack);

		if (mail >= UPROC_MAIL_TOKEN)
			uproc__draw(o, t);
		uproc__push_inbox(o, t);
	}
	return 0;
}

/* Excess tokens are dropped. */
static void add_tokens(int32_t *tokens, uint32_t more)
{
	uint32_t most = uproc_most(*tokens);
	uint32_t room = most - ((uint32_t)*tokens & most);  /* none if it is WAITING */

	SET(*tokens, *tokens + (int32_t)(more < room ? more : room));
}

/* What cannot be told of a thread that follows another. */
#define UPROC_MAIL_NEWS (UPROC_MAIL_JOINED | UPROC_MAIL_DEADLOCK | UPROC_MAIL_CANCEL)

/* Takes in the mail of `t', a thread of this processor, which `q' draws, unless NULL. */
static void deliver(struct uproc *p, struct uproc_thread *t, uint32_t mail,
		    struct uproc *q)
{
	int32_t *tokens = &t->t_stack.u_tokens;
	uint32_t more = mail / UPROC_MAIL_TOKEN;

	if (*tokens == UPROC_WAITING && more > 0) {
		usched__tell(&p->p_sched, USCHED_BY_MAIL, &t->t_stack, NULL);
		SET(*tokens, 0);
		add_tokens(tokens, more - 1);
		if (q && !(mail & UPROC_MAIL_NEWS) && uproc__follow(p, t, q))
			return;
		uproc_push(p, t);
		more = 0;
	}
	add_tokens(tokens, more);
	if (mail & UPROC_MAIL_CANCEL) {
		uproc__close(p);
		ustack_cancel_here(&t->t_stack);
		uproc__open(p);
	}
	/* News of a deadlock may be late: the thread may have gone on. */
	if (mail & (UPROC_MAIL_JOINED | UPROC_MAIL_DEADLOCK) && *tokens < UPROC_WAITING) {
		if (!(*tokens & UPROC_NEWS)) {
			usched__tell(&p->p_sched, USCHED_BY_JOIN, &t->t_stack, NULL);
			uproc_push(p, t);
		}
		SET(*tokens, *tokens | (mail & UPROC_MAIL_JOINED ? UPROC_JOINED : 0)
		    | (mail & UPROC_MAIL_DEADLOCK ? UPROC_DEADLOCK : 0));
	}
}

/* Only `p' makes a thread its own: so the thread that had LIVE is of `p' still. */
bool uproc__has(const struct uproc *p, const struct uproc_thread *t)
{
	const struct ustack *u = &t->t_stack;

	return __atomic_load_n(&u->u_mail, __ATOMIC_ACQUIRE) & UPROC_MAIL_LIVE
		&& ustack_sched(u) == &p->p_sched;
}

static int wake(struct usched *s, struct ustack *u)
{
	struct uproc_thread *t = uproc_thread(u);
	uint32_t most;

	if (s != usched__here() || !uproc__has((struct uproc *)(void *)s, t))
		return uproc_post(t, UPROC_MAIL_TOKEN);
	most = uproc_most(u->u_tokens);
	if (((uint32_t)u->u_tokens & most) == most)
		return -EOVERFLOW;
	SET(u->u_tokens, u->u_tokens + 1);
	return 0;
}

static int cancel(struct usched *s, struct ustack *u)
{
	struct uproc_thread *t = uproc_thread(u);

	if (s != usched__here() || !uproc__has((struct uproc *)(void *)s, t))
		return uproc_post(t, UPROC_MAIL_CANCEL);
	ustack_cancel_here(u);
	return 0;
}

static void interrupt(struct usched *s, struct ustack *u)
{
	if (s == usched__here())
		deliver((struct uproc *)(void *)s, uproc_thread(u), UPROC_MAIL_DEADLOCK,
			NULL);
	else
		uproc_post(uproc_thread(u), UPROC_MAIL_DEADLOCK);
}

/* ---- The end of a thread, and joins ---- */

int uproc__claim(struct uproc_thread *t, struct uproc_thread *joiner)
{
	struct uproc_thread *now = OPEN;

	if (CAS(&uproc_rest(t)->t_joiner, &now, joiner))
		return 0;
	if (now == ENDED && CAS(&uproc_rest(t)->t_joiner, &now, TAKEN))
		return 1;
	return -EINVAL;
}

void uproc__put_joined(struct uproc_thread *t, void **value)
{
	if (value)
		*value = ustack_value(&t->t_stack);
	put_record(uproc_of(&t->t_stack), t);
}

const struct ustack *uproc__joiner(const struct uproc_thread *t)
{
	const struct uproc_thread *joiner = LOAD(uproc_rest(t)->t_joiner);

	for (size_t i = 0; i < UPROC_MARKS; i++)
		if (joiner == &uproc__marks[i])
			return NULL;
	return joiner && joiner != OPEN ? &joiner->t_stack : NULL;
}

/* `t' has ended and is in no list: tells the joiner, or frees it. */
static void settle_thread(struct uproc *p, struct uproc_thread *t)
{
	struct uproc_thread *joiner = LOAD(uproc_rest(t)->t_joiner);
	bool told;

	if (joiner == OPEN && CAS(&uproc_rest(t)->t_joiner, &joiner, ENDED))
		return;
	if (joiner == DETACHED) {
		uimage_record_free(&p->p_images, t);
		return;
	}
	if (joiner == NATIVE)
		told = uproc__tell_native(p->p_procs, t);
	else
		told = CAS(&uproc_rest(t)->t_joiner, &joiner, TAKEN);
	if (!told)
		settle_thread(p, t);            /* the joiner has given up */
	else if (joiner != NATIVE && uproc_of(&joiner->t_stack) == p)
		deliver(p, joiner, UPROC_MAIL_JOINED, NULL);
	else if (joiner != NATIVE)
		uproc_post(joiner, UPROC_MAIL_JOINED);
}

void uproc_done(struct usched *s, struct ustack *u)
{
	struct uproc *p = (struct uproc *)(void *)s;
	struct uproc_thread *t = uproc_thread(u);
	uint32_t mail = GET(u->u_mail);

	SET(u->u_tokens, UPROC_ENDED);
	if (SIMULATED)
		sim__ended(t);
	if (p->p_sched.s_moves)
		uproc__leave_stack(p, u);
	uproc__take_left(p);
	__atomic_store_n(&p->p_ended, p->p_ended + 1, __ATOMIC_RELEASE);
	/*
	 * Not known. Nor was an earlier thread with this record, of which there could be
	 * a stale handle: KNOWN stays.
	 */
	if (mail == (UPROC_MAIL_UNJOINED | UPROC_MAIL_LIVE)) {
		__atomic_store_n(&u->u_mail, 0, __ATOMIC_RELEASE);
		uimage_record_free(&p->p_images, t);
		return;
	}
	mail = FETCH_AND(&u->u_mail, ~(uint32_t)UPROC_MAIL_LIVE);
	if (mail & UPROC_MAIL_NAMED)
		uproc__forget_name(u);
	if (mail & ~(uint32_t)UPROC_MAIL_NONE)
		return;                         /* it is in the inbox */
	if (mail & UPROC_MAIL_UNJOINED)
		uimage_record_free(&p->p_images, t);
	else
		settle_thread(p, t);
}

static int detach(struct usched *s, struct ustack *u)
{
	int rc = uproc__claim(uproc_thread(u), DETACHED);

	if (rc > 0)
		put_record((struct uproc *)(void *)s, uproc_thread(u));
	return rc < 0 ? rc : 0;
}

/* Without waiting. */
static int join_ended(const struct uproc_thread *me, struct uproc_thread *t)
{
	struct uproc_thread *now = ENDED;

	if (t == me)
		return -EDEADLK;
	if (CAS(&uproc_rest(t)->t_joiner, &now, TAKEN))
		return 0;
	return now == OPEN ? -ETIMEDOUT : -EINVAL;
}

/*
 * What ended an earlier join, if anything did, may have sent news once more, which are
 * still on their way. They are not for the next join. True: there were some, of which the
 * caller cannot tell whether they were for this one.
 */
static bool take_late_news(struct uproc_thread *me)
{
	bool some = false;

	while (LOAD(me->t_stack.u_mail) & UPROC_MAIL_DEADLOCK) {
		some = true;
		uproc_of(&me->t_stack)->p_intent = UPROC_YIELD;
		ustack_block();                 /* cannot fail: reserved */ /* R4 */
	}
	return some;
}

/* As many again. The first of them, or 0. */
static size_t more_notes(struct uproc *p)
{
	size_t first = p->p_join_room ? p->p_join_room : 1;
	size_t room = p->p_join_room ? 2 * p->p_join_room : JOINS_MIN;
	struct uproc_join *joins = (struct uproc_join *)realloc(p->p_joins,
								room * sizeof *joins);

	if (!joins)
		return 0;
	for (size_t i = first; i < room; i++)
		joins[i] = (struct uproc_join){ .j_next = (i + 1) % room };
	p->p_joins = joins;
	p->p_join_room = room;
	return first;
}

/*
 * Notes where `me' joins. The number of the note; 0: no memory, so a report takes the
 * place from the frame.
 */
static size_t note_join(struct uproc *p, const struct uproc_thread *me, const void *where)
{
	size_t i = p->p_join_free;

	if (i == 0)
		i = more_notes(p);
	if (i == 0)
		return 0;
	p->p_join_free = p->p_joins[i].j_next;
	p->p_joins[i] = (struct uproc_join){ me, { where } };
	return i;
}

static void drop_note(struct uproc *p, size_t i)
{
	if (i == 0)
		return;
	p->p_joins[i] = (struct uproc_join){ .j_next = p->p_join_free };
	p->p_join_free = i;
}

static int join_by_thread(struct uproc_thread *me, struct uproc_thread *t,
			  const void *where)
{
	int32_t *tokens = &me->t_stack.u_tokens, had, news;
	struct uproc_thread *joiner;
	int rc = ustack_reserve(0);
	struct uproc *p;
	size_t note;
	bool gave_up;

	if (t == me)
		rc = -EDEADLK;
	if (rc == 0)
		rc = take_late_news(me) ? -EAGAIN : uproc__claim(t, me);
	if (rc)
		return rc < 0 ? rc : 0;
	p = uproc_of(&me->t_stack);             /* a thread that joins stays */
	note = note_join(p, me, where);
	had = *tokens;
	do {
		SET(*tokens, UPROC_JOINING);
		p->p_intent = UPROC_WAIT;
		ustack_block();                 /* cannot fail: reserved */ /* R4 */
		news = *tokens;
		SET(*tokens, had);
		add_tokens(tokens, (uint32_t)news & UPROC_TOKENS);
		had = *tokens;
		joiner = me;
		gave_up = !(news & UPROC_JOINED)
			&& CAS(&uproc_rest(t)->t_joiner, &joiner, OPEN);
	} while (!gave_up && !(news & UPROC_JOINED));   /* JOINED is on its way */
	drop_note(p, note);
	return gave_up ? -EDEADLK : 0;
}

static int join(struct usched *s, struct ustack *u, const void *where, void **value,
		int64_t deadline)
{
	struct uproc *self = uproc_self(), *p = (struct uproc *)(void *)s;
	struct uproc_thread *t = uproc_thread(u);
	struct uproc_thread *me;
	int rc;

	if (!self)
		return uproc__await(p->p_procs, t, value, deadline);
	me = uproc_thread(ustack_self());       /* KNOWN: its joined thread sends mail */
	rc = deadline == 0 ? join_ended(me, t) : join_by_thread(me, t, where);
	if (rc == 0)
		uproc__put_joined(t, value);
	return rc;
}

/* ---- What comes between threads: the inbox, and looks ---- */

/*
 * Whether `t', in the inbox of `p', moves here, or was started by another. Only such a
 * thread, or one that joins, has the bit, and no thread that joins has that owner.
 */
static bool is_moving(const struct uproc *p, struct uproc_thread *t)
{
	return GET(t->t_stack.u_mail) & UPROC_MAIL_MOVED
		&& uproc_of(&t->t_stack) == p->p_procs->r_moving && t->t_stack.u_func;
}

/* Delivers what is in the inbox, the oldest first. */
void uproc_drain(struct uproc *p)
{
	struct uproc_thread *t = SWAP(&p->p_inbox, NULL), *next, *oldest = NULL;
	size_t n = 0;

	for (; t && t != STOPPED && t != ASKED; t = next) {
		next = uproc_rest(t)->t_next;
		uproc_rest(t)->t_next = oldest;
		oldest = t;
		n++;
	}
	UPROC_COUNT(p->p_mailed, n);
	for (t = oldest; t; t = next) {
		struct uproc *q = GET(p->p_drawer) ? uproc__drawer(p, t) : NULL;
		bool moving = is_moving(p, t);
		uint32_t mail;

		next = uproc_rest(t)->t_next;
		if (moving)
			uproc__arrive(p, t);
		mail = FETCH_AND(&t->t_stack.u_mail, UPROC_MAIL_NONE);
		if (moving) {
			make_runnable(p, t);
			mail &= ~(uint32_t)UPROC_MAIL_MOVED;
		}
		if (!(mail & UPROC_MAIL_LIVE))
			settle_thread(p, t);
		else
			deliver(p, t, mail, q);
	}
	uproc__share(p);
}

/*
 * When the next look is due. Threads that compute for a millisecond each would keep
 * timers waiting for 64: so there are fewer dispatches to the next if those since the
 * last took long, and twice as many if not.
 */
static void set_turn(struct uproc *p)
{
	int64_t interval = UPROC_LOOK, looked = p->p_looked;

	if (p->p_sched.s_events || p->p_moves) {
		p->p_looked = when_now();
		policy_measure(&p->p_load, p->p_looked,
			       p->p_sched.s_stats.s_switches);
		interval = 2 * p->p_interval;
		if (looked && p->p_looked - looked > LOOK_TIME)
			interval = p->p_interval * LOOK_TIME / (p->p_looked - looked);
		if (interval > UPROC_LOOK)
			interval = UPROC_LOOK;
		if (interval == 0)
			interval = 1;
	}
	p->p_interval = p->p_left = (uint8_t)interval;
	p->p_sched.s_turn = p->p_sched.s_stats.s_switches + (uint64_t)interval;
}

/* Looks for events while threads are ready. True: usched_run() is to return. */
bool uproc_look(struct uproc *p)
{
	const struct uprocs *r = p->p_procs;

	uproc__stand(p);
	set_turn(p);
	uproc__look_at_observer(p);
	UPROC_COUNT(p->p_looked_for, 1);
	uproc_poll(p, UEVENTS_LOOK);
	p->p_barren = 0;
	uproc__return_stacks(p);
	uproc__take_left(p);
	uproc__share(p);
	p->p_waits = p->p_tail;
	uproc__tidy(p);
	return LOAD(r->r_stop)
		|| (r->r_deadline != INT64_MAX && when_now() >= r->r_deadline);
}

static int yield(struct usched *s)
{
	struct uproc *p = (struct uproc *)(void *)s;
	int rc;

	p->p_intent = UPROC_YIELD;
	if (s->s_events || uproc__is_wanted(p))
		p->p_left = 1;                  /* so that uproc_looks() is true */
	rc = ustack_block();
	if (rc)
		p->p_intent = UPROC_BLOCK;
	return rc;
}

/* ---- Places and starts ---- */

uint32_t uproc__new_of(const struct uproc *p)
{
	uint32_t counted = GET(p->p_credit) + GET(p->p_passed);
	uint64_t begun = GET(p->p_sched.s_stats.s_launches);
	uint32_t fresh = GET(p->p_started) - counted - (uint32_t)begun;

	return fresh > INT32_MAX ? 0 : fresh;       /* of different age */
}

/* r_place: where the run is, and how many starts are left of it, in units of: */
#define RUN_LEFT ((uint64_t)1 << 32)

/*
 * The threads that `p' has to run: those in its queue, or those that were started and
 * have not begun, which may be there or on the way. The numbers may be of different age.
 */
static uint32_t work_of(const struct uproc *p)
{
	size_t queued = GET(p->p_tail) - GET(p->p_head);
	uint32_t fresh = uproc__new_of(p);

	return queued > fresh ? (uint32_t)queued : fresh;
}

/* On the processor with less to do of the next two in turn. */
static uint64_t begin_run(const struct uprocs *r, uint64_t last)
{
	size_t next = (size_t)((last + 1) % r->r_conf.c_processors);
	size_t second = (size_t)((last + 2) % r->r_conf.c_processors);

	if (policy_place(work_of(uproc_at(r, next)), work_of(uproc_at(r, second))))
		next = second;
	return next + (uint64_t)(policy_run(uproc_count(uproc_at(r, next))) - 1)
		* RUN_LEFT;
}

/* The processor for the next thread of a scheduler that spreads them. */
static struct uproc *spread(struct uprocs *r)
{
	uint64_t old, place;

	if (r->r_conf.c_processors == 1)
		return uproc_at(r, 0);
	old = LOAD(r->r_place);
	do
		place = old >= RUN_LEFT ? old - RUN_LEFT : begin_run(r, old);
	while (!CAS(&r->r_place, &old, place));
	return uproc_at(r, (uint32_t)place);
}

struct uproc_place uprocs_place(struct uprocs *r, const struct ustack_how *how)
{
	if (how && how->h_processor)
		return (struct uproc_place){ uprocs_on(r, how->h_processor), true };
	return (struct uproc_place){ spread(r), false };
}

struct uproc *uprocs_next(struct uprocs *r)
{
	return uproc_at(r, FETCH_ADD(&r->r_next, 1) % r->r_conf.c_processors);
}

struct uproc *uprocs_on(struct uprocs *r, unsigned processor)
{
	struct uproc *self;

	if (SIMULATED)
		return uproc_at(r, 0);
	if (processor != USCHED_BESIDE)
		return processor <= r->r_conf.c_processors ? uproc_at(r, processor - 1) :
			NULL;
	self = uproc_self();
	return self && self->p_procs == r ? self : NULL;
}

/* Returns a record, and a place in the ring of `p'; NULL: no memory. */
static struct uproc_thread *new_thread(struct uproc *p, const char *name)
{
	struct uproc_thread *t = get_record(p);

	if (!t || (!name && make_place(p) == 0))
		return t;
	if (name && uproc__begin_name(&t->t_stack, name) == 0) {
		if (make_place(p) == 0)
			return t;
		uproc__forget_name(&t->t_stack);
	}
	put_record(p, t);
	return NULL;
}

/*
 * Returns the owner of a new thread of `p': if another starts the thread, as for one that
 * moves. So only `p' makes a thread its own.
 */
static struct usched *first_owner(struct uproc *p)
{
	return p == uproc_self() ? &p->p_sched : &p->p_procs->r_moving->p_sched;
}

/* Hands a new thread to its processor; `how' may be NULL. */
static void start_thread(struct uproc_place place, struct uproc_thread *t,
			 const struct ustack_how *how, struct ustack **thread)
{
	struct uproc *self = uproc_self(), *p = place.w_proc;
	uint32_t mail = GET(t->t_stack.u_mail) & UPROC_MAIL_KNOWN;      /* it stays */

	if (thread) {
		uproc_rest(t)->t_joiner = how && how->h_detached ? DETACHED : OPEN;
		*thread = &t->t_stack;
		mail |= UPROC_MAIL_KNOWN | UPROC_MAIL_LIVE;
	} else {
		mail |= UPROC_MAIL_UNJOINED | UPROC_MAIL_LIVE;
	}
	if (how && how->h_name)
		mail |= UPROC_MAIL_NAMED;
	if (place.w_stays && p->p_moves)
		mail |= UPROC_MAIL_STAYS;
	if (p != self)
		mail |= UPROC_MAIL_START | UPROC_MAIL_MOVED;
	if (SIMULATED)
		sim__started(t);
	/* Until now it was not LIVE, which refuses stale handles. */
	__atomic_store_n(&t->t_stack.u_mail, mail, __ATOMIC_RELEASE);
	if (p == self)
		make_runnable(p, t);
	else
		uproc__push_inbox(p, t);
}

static int check_how(struct uproc_place place, const struct ustack_how *how,
		     void (*func)(void *))
{
	const struct uproc *p = place.w_proc;

	if (how->h_serve ? func || how->h_fd < 0 || how->h_fd == INT_MAX : !func)
		return -EINVAL;
	if (!p || how->h_stack > USCHED_STACK_MAX
	    || (how->h_stack > USTACK_OWN && how->h_stack < USCHED_STACK_MIN))
		return -EINVAL;
	if (how->h_stack && __atomic_load_n(&p->p_steps, __ATOMIC_ACQUIRE) == 0)
		return -ENOTSUP;
	return 0;
}

static int start_with(struct uproc_place place, const struct ustack_how *how,
		      void (*func)(void *), void *arg, struct ustack **thread,
		      const void *where)
{
	struct usched_stack *stack = NULL;
	struct uproc *p = place.w_proc;
	struct uproc_thread *t;
	int rc = check_how(place, how, func);

	if (rc == 0 && how->h_stack)
		rc = uproc__take_alone(p, how->h_stack, &stack);
	if (rc)
		return rc;
	t = new_thread(p, how->h_name);
	if (!t) {
		if (stack)
			uproc__put_alone(p, stack);
		return -ENOMEM;
	}
	if (how->h_serve)
		ustack_init_fd(first_owner(p), &t->t_stack, how->h_serve, how->h_fd, arg);
	else
		ustack_init(first_owner(p), &t->t_stack, func, arg);
	if (stack)
		usched__place_alone(&t->t_stack, stack);
	uproc__tell_created(t, where);
	start_thread(place, t, how, thread);
	return 0;
}

__attribute__((noinline))
int uproc_start(struct uproc_place place, const struct ustack_how *how,
		void (*func)(void *), void *arg, struct ustack **thread)
{
	struct uproc_thread *t;

	CALLED("rr_start(), ll_start(), or one with a how,");
	check(arg, ARGUMENT, "start");
	check_inside(arg, ITS_BLOCK, "start", __builtin_return_address(0));
	if (how)
		return start_with(place, how, func, arg, thread,
				  __builtin_return_address(0));
	if (!func)
		return -EINVAL;
	t = new_thread(place.w_proc, NULL);
	if (!t)
		return -ENOMEM;
	ustack_init(first_owner(place.w_proc), &t->t_stack, func, arg);
	uproc__tell_created(t, __builtin_return_address(0));
	start_thread(place, t, NULL, thread);
	return 0;
}

static int start_beside(struct usched *s, const struct ustack_how *how,
			void (*func)(void *), void *arg, struct ustack **thread)
{
	struct uproc *p = (struct uproc *)(void *)s;
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
	if (ustack_sched(u)->s_done != uproc_done)
		return -ENOTSUP;
	before = on ? FETCH_OR(&u->u_mail, UPROC_MAIL_STAYS)
		: FETCH_AND(&u->u_mail, ~(uint32_t)UPROC_MAIL_STAYS);
	return (before & UPROC_MAIL_STAYS) != 0;
}

/* ---- A processor ---- */

static void set_call_backs(struct usched *s, const struct uproc_policy *policy)
{
	s->s_next = policy->y_next;
	s->s_pick = policy->y_pick;
	s->s_unpick = unpick;
	s->s_ready = policy->y_ready;
	s->s_wake = wake;
	s->s_start = start_beside;
	s->s_yield = yield;
	s->s_alloc = alloc_image;
	s->s_free = free_image;
	s->s_done = uproc_done;
	s->s_cancel = cancel;
	s->s_detach = detach;
	s->s_join = join;
	s->s_interrupt = interrupt;
	s->s_linger = uproc__linger;
	if (IS_CHECKED) {
		s->s_changed = uproc__report_changed;
		__atomic_store_n(&usched__observer.o_introduce, &uproc__introduce,
				 __ATOMIC_RELAXED);
	}
}

int uproc__init(struct uproc *p, struct uprocs *r,
		      const struct uproc_policy *policy)
{
	int rc;

	p->p_procs = r;
	set_call_backs(&p->p_sched, policy);
	uproc__set_moves(p, policy);
	p->p_sched.s_mail = (const usched_mail *)&p->p_inbox;
	p->p_slot = policy->y_slot && !stressed();
	p->p_sched.s_polls = 1;
	p->p_sched.s_known = 1;
	p->p_sched.s_keep = r->r_conf.c_keep != 0;
	p->p_sched.s_control_each = r->r_conf.c_control != 0;
	p->p_sched.s_room = r->r_conf.c_image;
	p->p_room = RING_MIN;
	p->p_mask = RING_MIN - 1;
	p->p_interval = p->p_left = UPROC_LOOK;
	p->p_tidy = USCHED_NEVER;
	p->p_quick = r->r_patience > 0;
	uimage_cache_init(&p->p_images, &r->r_images);
	uimage_cache_init(&p->p_outside, &r->r_images);
	pthread_mutex_init(&p->p_lock, NULL);
	when_init_cond(&p->p_unparked);
	rc = usched_init(&p->p_sched);
	uproc__open(p);
	return rc;
}

/* The program's loop needs the descriptors. */
static int expose_events(struct uproc *p)
{
	struct uevents *e;
	int rc = uevents_of(&p->p_sched, &e);

	if (rc == 0) {
		rc = e->e_expose(e);
		rc = rc == -ENOTSUP ? 0 : rc;           /* uprocs_run() returns it */
	}
	return rc < 0 ? rc : 0;
}

static int begin_slices(struct uproc *p)
{
	const struct uprocs_conf *conf = &p->p_procs->r_conf;

	return upreempt__begin(&p->p_sched, conf->c_slice, conf->c_stall,
			       uproc__is_driven(p->p_procs) ? 0 : conf->c_signal);
}

int uproc__make_parts(struct uproc *p)
{
	const struct uprocs_conf *conf = &p->p_procs->r_conf;
	struct uevents *e;
	int rc;

	p->p_queue = (struct uproc_thread **)calloc(RING_MIN, sizeof *p->p_queue);
	rc = p->p_queue ? add_stacks(p) : -ENOMEM;
	set_grow(p);
	p->p_sched.s_has_stack = find_stack;
	if (rc == 0 && conf->c_embed)
		rc = expose_events(p);
	else if (rc == 0 && p->p_sched.s_moves)
		rc = uevents_of(&p->p_sched, &e);       /* for threads that bring waits */
	if (rc == 0)
		rc = begin_slices(p);
	return rc;
}

void uproc__fini(struct uproc *p)
{
	uevents_close(&p->p_sched);
	upreempt_close(&p->p_sched);
	if (p->p_ring)
		uproc__observer.o_free(p);
	while (p->p_steps > 0)
		uimage_stacks_unmap(&p->p_stacks[--p->p_steps]);
	if (p->p_alternate)
		uproc__observer.o_unmap(p->p_alternate);
	free(p->p_queue);
	free(p->p_larger);
	free(p->p_joins);
	pthread_cond_destroy(&p->p_unparked);
	pthread_mutex_destroy(&p->p_lock);
}
