/* SPDX-License-Identifier: MIT */
/*
 * uinspect.c: dumps of all threads, and counters of processors.
 *
 *	uinspect_dump(), on a native thread         each processor
 *
 *	pins all schedulers
 *	starts a thread on each processor     -->   collect(): visits its threads, a batch
 *	waits until all are done, or one            at a time, and yields between
 *	does not answer for a second          <--   done
 *	groups, prints, unpins
 *
 * Only the native thread of a processor looks at its threads. So it is a thread that does
 * so, started like any other: it wakes a processor that is parked, and waits for its turn
 * on a busy one. While it runs no other thread of that processor does.
 *
 * A task is the dump's, but for a batch, when it is the collector's: k_state, under
 * d_lock, says so. The dump gives up a processor that does not answer between batches
 * only; then its task has what was collected. The collector finds that when it runs at
 * last. The last of them all frees the dump.
 *
 * A pinned scheduler stays: uprocs_fini() waits for the end of the collection.
 *
 * What a processor runs that does not answer: uinspect_install()'s handler copies its
 * registers and frames to a buffer that is ready, and returns. They are unwound later, on
 * the dump's native thread: in a handler an unwinder may wait for a lock that the
 * interrupted code holds. Reports of stalls do the same: debug/uinspect_stall.inc.
 *
 * Nothing else needs this file, so programs may leave it out.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE             /* Dl_info in private/code.h, pthread_setname_np() */
#endif
#include "uinspect.h"

#include <inttypes.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>
#include <unwind.h>

#include "../private/cancel.h"
#include "../private/code.h"
#include "../private/direction.h"
#include "../private/native.h"
#include "../private/when.h"
#include "../private/where.h"
#include "uframes.h"
#include "../upreempt.h"
#include "../uproc.h"
#include "../usync.h"
#include "utrace.h"

enum {
	BATCH    = 256,                 /* threads, */
	CHECK    = 16,                  /* of which so many between looks at the clock, */
	PIECE    = 300000,              /* ns: and no longer, between two yields */
	FRAMES   = UINSPECT_FRAMES,     /* calls of a thread that are shown */
	BUCKETS  = 4096,                /* of groups, for each processor */
	CHUNK    = 64 << 10,            /* bytes of memory got at a time */
	TICK     = 20,                  /* ms between looks at processors */
	PATIENCE = 1000,                /* ms for an answer, also to a signal */
	MILLI    = 1000000,             /* ns */
	COPY     = 64 << 10,            /* bytes of frames */
	CONTEXT  = 40,                  /* registers, more than machines have */
	HOME_MAX = 64 << 20,            /* bytes of frames on a native stack */
};

struct walk;

/* What a native thread is doing. */
struct uinspect_snap {
	pthread_t     s_native;         /* atomic, as the next one */
	int           s_state;          /* FREE, WANTED, TAKEN, READY */
	int           s_sent;           /* atomic: signals that are no user's */
	struct uproc *s_proc;
	const struct ustack *s_thread;  /* or NULL */
	uintptr_t     s_func;
	uint64_t      s_known;          /* bits: of these registers; others are not */
	uintptr_t     s_registers[CONTEXT];
	struct walk  *s_walk;           /* of a report, or NULL */
	uintptr_t     s_low;            /* of the copy: its address there, */
	size_t        s_size;           /* and bytes */
	char          s_bytes[COPY];
};

enum { FREE, WANTED, TAKEN, READY };

/* Of uinspect_install(). */
static struct {
	pthread_mutex_t i_lock;
	int             i_signal;       /* atomic: 0: not installed */
	bool            i_made;         /* i_lock: the native thread is */
	sem_t           i_posted;
	struct uinspect_snap     i_snap;         /* i_lock: one dump at a time asks */
} inspector = { .i_lock = PTHREAD_MUTEX_INITIALIZER };

/* A thread. */
struct member {
	struct member *m_next;
	uintptr_t      m_thread;
	const void    *m_object;
	uintptr_t      m_holder;
	const char    *m_name;          /* or NULL, as the next one */
	const char    *m_more;
	struct task   *m_task;
	int64_t        m_started;       /* ns ago, or -1, as the next one */
	int64_t        m_blocked;
	uintptr_t      m_where;         /* behind the call that started it, or 0 */
};

/* For what it keeps, if it is linked. */
extern __typeof__(utrace__ages) utrace__ages __attribute__((weak));
extern __typeof__(utrace__delays) utrace__delays __attribute__((weak));

/* Threads that are equal but for these. */
struct group {
	struct group  *g_next;          /* in the bucket */
	uint64_t       g_hash;
	struct member *g_first;
	struct member **g_last;
	size_t         g_count;
	struct key {
		uintptr_t   e_func;
		const char *e_kind;
		const char *e_how;
		uint8_t     e_state;
		uint8_t     e_number;
		uint16_t    e_depth;    /* frames behind */
	} g_key;
	uintptr_t      g_frames[];
};

/* A join: m_thread of the joiner, and what it joins. */
struct link {
	struct link *l_next;
	uintptr_t    l_joiner;
	uintptr_t    l_joined;
};

struct chunk {
	struct chunk *c_next;
	size_t        c_used;
	_Alignas(16) char c_bytes[];
};

enum { ASKED, IDLE, BUSY, DONE, GONE, REFUSED };

/* A processor's part of a dump. */
struct task {
	struct dump  *k_dump;
	struct uproc *k_proc;
	unsigned      k_scheduler;
	unsigned      k_number;
	int           k_state;          /* d_lock; as the next one */
	unsigned      k_steps;          /* batches */
	unsigned      k_seen;           /* of these, by the dump, */
	int64_t       k_since;          /* and when */

	/* The collector's in a batch, else the dump's. */
	struct uimage_walk k_walk;
	void         *k_records[BATCH];
	size_t        k_got, k_at;
	struct chunk *k_chunks;
	struct group *k_groups[BUCKETS];
	struct link  *k_joins;
	size_t        k_threads;
	size_t        k_lost;           /* for want of memory */
	struct ustack_why k_why;        /* of the thread that is looked at, as these */
	struct key    k_key;
	const char   *k_top, *k_bottom;
	uintptr_t     k_frames[FRAMES];

	size_t        k_all;            /* threads that it has, if it does not answer, */
	uintptr_t     k_runs;           /* that which runs, or 0, */
	const char   *k_runs_name;
	uintptr_t     k_runs_func;
	size_t        k_runs_depth;     /* and its calls, in k_frames */
};

struct dump {
	int             d_fd;
	unsigned        d_how;
	struct uprocs **d_pinned;
	size_t          d_schedulers;
	struct task   **d_tasks;
	size_t          d_count;
	pthread_mutex_t d_lock;
	pthread_cond_t  d_changed;
	size_t          d_users;        /* d_lock: the dump, and collectors */
};

static int  dump_here(int fd, unsigned how);
static int  pin_all(struct dump *d);
static int  make_tasks(struct dump *d);
static int  ask_all(struct dump *d);
static void await_all(struct dump *d);
static bool expects(struct task *k, int64_t now);
static void ask_natives(struct dump *d);
static bool snap_native(struct uinspect_snap *s, struct uproc *p, int sig);
static bool await_snap(struct uinspect_snap *s, unsigned ms);
static void keep_snap(struct task *k, const struct uinspect_snap *s);
static void leave_dump(struct dump *d);
static void free_task(struct task *k);
static void collect(void *task);
static bool collect_batch(struct task *k);
static void look_at(struct task *k, struct uproc_thread *t);
static void find_frames(struct task *k, struct ustack *u);
static void trace(void *task);
static struct group *group_of(struct task *k);
static void add_member(struct task *k, struct group *g, const struct ustack *u);
static void *get_memory(struct task *k, size_t size);
static const char *keep_text(struct task *k, const char *text);
static int64_t now_ns(void);

/* In debug/uinspect_unwind.inc. */
static size_t unwind(const struct uinspect_snap *s, struct walk *w,
		     uintptr_t frames[FRAMES]);
static struct walk *new_walk(void);

/* In debug/uinspect_show.inc. */
static int show(struct dump *d);

/* ---- Dumps ---- */

/* From a thread: on a native thread of its own, so the thread's processor goes on. */
struct job {
	int                j_fd;
	unsigned           j_how;
	int                j_rc;
	struct usync_group j_done;
};

static void *run_job(void *arg)
{
	struct job *job = arg;

	name_native("usched inspect");
	job->j_rc = dump_here(job->j_fd, job->j_how);
	usync_group_done(&job->j_done);
	return NULL;
}

static int dump_apart(struct uprocs *r, int fd, unsigned how)
{
	struct job *job = calloc(1, sizeof *job);
	int rc, shielded = job ? ustack_shield(1) : -ENOMEM;
	pthread_t native;

	if (shielded < 0) {
		free(job);
		return -ENOMEM;
	}
	*job = (struct job){ .j_fd = fd, .j_how = how };
	usync_group_add(&job->j_done, 1);
	uproc_hold(r);
	rc = -pthread_create(&native, NULL, run_job, job);
	if (rc == 0) {
		rc = usync_group_wait(&job->j_done, USCHED_NEVER);
		pthread_join(native, NULL);     /* which is ending */
		rc = rc ? rc : job->j_rc;
	}
	uproc_release(r);
	ustack_shield(shielded);
	free(job);
	return rc;
}

int uinspect_dump(int fd, unsigned how)
{
	struct uproc *p = uproc_self();

#ifdef SINGLE_THREAD
	p = NULL;                               /* there is no other native thread */
#endif
	return p ? dump_apart(p->p_procs, fd, how) : dump_here(fd, how);
}

static int dump_here(int fd, unsigned how)
{
	struct dump *d = calloc(1, sizeof *d);
	pthread_condattr_t attr;
	int before, rc;

	if (!d)
		return -ENOMEM;
	d->d_fd = fd;
	d->d_how = how;
	d->d_users = 1;
	pthread_mutex_init(&d->d_lock, NULL);
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&d->d_changed, &attr);
	pthread_condattr_destroy(&attr);
	before = defer_cancel();
	rc = pin_all(d);
	if (rc == 0)
		rc = make_tasks(d);
	if (rc == 0)
		rc = ask_all(d);
	if (rc == 0) {
		await_all(d);
		ask_natives(d);
	}
	for (size_t i = 0; i < d->d_schedulers; i++)
		uprocs__unpin(d->d_pinned[i]);
	if (rc == 0)
		rc = show(d);
	leave_dump(d);
	allow_cancel(before);
	return rc;
}

/* There may be more than there were when memory was made for them. */
static int pin_all(struct dump *d)
{
	size_t room = 4, n;

	for (;;) {
		d->d_pinned = calloc(room, sizeof(struct uprocs *));
		if (!d->d_pinned)
			return -ENOMEM;
		n = uprocs__pin(d->d_pinned, room);
		d->d_schedulers = n < room ? n : room;
		if (n <= room)
			return 0;
		while (d->d_schedulers > 0)
			uprocs__unpin(d->d_pinned[--d->d_schedulers]);
		free(d->d_pinned);
		room = 2 * n;
	}
}

static int make_tasks(struct dump *d)
{
	size_t n = 0;

	for (size_t i = 0; i < d->d_schedulers; i++)
		n += d->d_pinned[i]->r_conf.c_processors;
	d->d_tasks = calloc(n + 1, sizeof(struct task *));
	if (!d->d_tasks)
		return -ENOMEM;
	for (unsigned i = 0; i < d->d_schedulers; i++)
		for (unsigned j = 0; j < d->d_pinned[i]->r_conf.c_processors; j++) {
			struct task *k = calloc(1, sizeof *k);

			if (!k)
				return -ENOMEM;
			k->k_dump = d;
			k->k_proc = uproc_at(d->d_pinned[i], j);
			k->k_scheduler = i;
			k->k_number = j;
			d->d_tasks[d->d_count++] = k;
		}
	return 0;
}

/* A start is announced, as any from outside, or may be taken for a deadlock. */
static int start_collector(struct task *k)
{
	struct uprocs *r = k->k_proc->p_procs;
	int rc;

#ifdef SINGLE_THREAD
	struct ustack *u;

	if (uproc_self() && uproc_self() != k->k_proc)
		return -EBUSY;                  /* it runs later */
	rc = uproc_start((struct uproc_place){ k->k_proc, 1 }, collect, k, &u);
	return rc ? rc : ustack_join(u, USCHED_NEVER);
#endif
	uproc_hold(r);
	rc = uproc_start((struct uproc_place){ k->k_proc, 1 }, collect, k, NULL);
	uproc_release(r);
	return rc;
}

static int ask_all(struct dump *d)
{
	for (size_t i = 0; i < d->d_count; i++) {
		struct task *k = d->d_tasks[i];

		k->k_since = now_ns();
		pthread_mutex_lock(&d->d_lock);
		d->d_users++;
		pthread_mutex_unlock(&d->d_lock);
		if (start_collector(k) == 0)
			continue;
		pthread_mutex_lock(&d->d_lock);
		k->k_state = REFUSED;
		d->d_users--;
		pthread_mutex_unlock(&d->d_lock);
	}
	return 0;
}

static void await_all(struct dump *d)
{
	bool expected = true;

	pthread_mutex_lock(&d->d_lock);
	while (expected) {
		int64_t now = now_ns(), until = now + TICK * INT64_C(1000000);
		struct timespec t = when_of(until);

		expected = false;
		for (size_t i = 0; i < d->d_count; i++)
			expected |= expects(d->d_tasks[i], now);
		if (expected)
			pthread_cond_timedwait(&d->d_changed, &d->d_lock, &t);
	}
	for (size_t i = 0; i < d->d_count; i++) /* but for the collector */
		d->d_tasks[i]->k_all = uproc_count(d->d_tasks[i]->k_proc)
			- (d->d_tasks[i]->k_state == GONE);
	pthread_mutex_unlock(&d->d_lock);
}

/* Under d_lock. False: it is done, or will not answer. */
static bool expects(struct task *k, int64_t now)
{
	if (k->k_state >= DONE)
		return false;
	if (k->k_steps != k->k_seen || k->k_state == BUSY) {
		k->k_seen = k->k_steps;
		k->k_since = now;
	}
	if (now - k->k_since < PATIENCE * INT64_C(1000000))
		return true;
	k->k_state = GONE;
	return false;
}

/* Of processors that do not answer, what they run. */
static void ask_natives(struct dump *d)
{
	int sig = __atomic_load_n(&inspector.i_signal, __ATOMIC_ACQUIRE);

	for (size_t i = 0; sig && i < d->d_count; i++) {
		struct task *k = d->d_tasks[i];

		if (k->k_state != GONE || k->k_proc->p_procs->r_conf.c_embed)
			continue;
		pthread_mutex_lock(&inspector.i_lock);
		if (snap_native(&inspector.i_snap, k->k_proc, sig))
			keep_snap(k, &inspector.i_snap);
		pthread_mutex_unlock(&inspector.i_lock);
	}
}

/* False: it blocks the signal, or sleeps in the kernel. */
static bool snap_native(struct uinspect_snap *s, struct uproc *p, int sig)
{
	s->s_proc = p;
	__atomic_store_n(&s->s_native, p->p_native, __ATOMIC_RELAXED);
	__atomic_store_n(&s->s_state, WANTED, __ATOMIC_RELEASE);
	__atomic_add_fetch(&s->s_sent, 1, __ATOMIC_RELAXED);
	if (pthread_kill(p->p_native, sig))
		__atomic_sub_fetch(&s->s_sent, 1, __ATOMIC_RELAXED);
	return await_snap(s, PATIENCE);
}

/* False: it was not taken. */
static bool await_snap(struct uinspect_snap *s, unsigned ms)
{
	int state = WANTED;

	for (unsigned i = 0; i < ms; i++) {
		if (__atomic_load_n(&s->s_state, __ATOMIC_ACQUIRE) == READY)
			break;
		nanosleep(&(struct timespec){ 0, MILLI }, NULL);
	}
	if (__atomic_compare_exchange_n(&s->s_state, &state, FREE, 0, __ATOMIC_ACQUIRE,
					__ATOMIC_ACQUIRE))
		return false;
	while (__atomic_load_n(&s->s_state, __ATOMIC_ACQUIRE) != READY)
		sched_yield();
	return true;
}

static void keep_snap(struct task *k, const struct uinspect_snap *s)
{
	char name[USTACK_NAME_MAX];
	struct walk *walk;

	k->k_runs = (uintptr_t)s->s_thread;
	k->k_runs_func = s->s_func;
	if (s->s_thread && ustack_get_name(s->s_thread, name, sizeof name) == 0)
		k->k_runs_name = keep_text(k, name);
	walk = new_walk();
	if (walk && usched__registers > 0)
		k->k_runs_depth = unwind(s, walk, k->k_frames);
	free(walk);
}

static void leave_dump(struct dump *d)
{
	bool last;

	pthread_mutex_lock(&d->d_lock);
	last = --d->d_users == 0;
	pthread_mutex_unlock(&d->d_lock);
	if (!last)
		return;
	for (size_t i = 0; i < d->d_count; i++)
		free_task(d->d_tasks[i]);
	pthread_cond_destroy(&d->d_changed);
	pthread_mutex_destroy(&d->d_lock);
	free(d->d_tasks);
	free(d->d_pinned);
	free(d);
}

static void free_task(struct task *k)
{
	struct chunk *c, *next;

	for (c = k->k_chunks; c; c = next) {
		next = c->c_next;
		free(c);
	}
	free(k);
}

/* ---- On each processor ---- */

/* From `from' to `to', or false: the dump has given up. */
static bool change(struct task *k, int to)
{
	struct dump *d = k->k_dump;
	bool wanted;

	pthread_mutex_lock(&d->d_lock);
	wanted = k->k_state != GONE;
	if (wanted) {
		k->k_state = to;
		k->k_steps++;
	}
	if (to == DONE)
		pthread_cond_signal(&d->d_changed);
	pthread_mutex_unlock(&d->d_lock);
	return wanted;
}

static void collect(void *task)
{
	struct task *k = task;

	while (change(k, BUSY)) {
		bool more = collect_batch(k);

		change(k, more ? IDLE : DONE);
		if (!more)
			break;
		ustack_yield();         /* without memory for that it goes on */
	}
	leave_dump(k->k_dump);
}

/* False: there are no more. */
static bool collect_batch(struct task *k)
{
	int64_t end = now_ns() + PIECE;
	size_t before = k->k_threads;

	for (unsigned n = 1; k->k_threads - before < BATCH; n++) {
		if (k->k_at == k->k_got) {
			k->k_got = uimage_pool_next(&k->k_proc->p_procs->r_images,
						    &k->k_walk, k->k_records, BATCH);
			k->k_at = 0;
		}
		if (k->k_got == 0)
			return false;
		look_at(k, k->k_records[k->k_at++]);
		if (n % CHECK == 0 && now_ns() > end)
			break;
	}
	return true;
}

static void look_at(struct task *k, struct uproc_thread *t)
{
	struct ustack *u = &t->t_stack;
	const struct ustack *joiner;
	struct group *g;

	if (!uproc__has(k->k_proc, t) || ustack_func(u) == collect)
		return;
	k->k_threads++;
	k->k_why = (struct ustack_why){ .y_how = "" };
	k->k_key = (struct key){ .e_func = (uintptr_t)ustack_func(u) };
	k->k_key.e_state = (uint8_t)uproc__state(t, &k->k_why);
	if (k->k_key.e_state == UPROC_WAITS) {
		k->k_key.e_kind = k->k_why.y_kind;
		k->k_key.e_how = k->k_why.y_how;
		k->k_key.e_number = k->k_why.y_number != 0;
	}
	if (k->k_key.e_state != UPROC_IS_NEW)
		find_frames(k, u);
	g = group_of(k);
	if (g)
		add_member(k, g, u);
	joiner = uproc__joiner(t);
	if (joiner) {
		struct link *l = get_memory(k, sizeof *l);

		if (l) {
			*l = (struct link){ k->k_joins, (uintptr_t)joiner, (uintptr_t)u };
			k->k_joins = l;
		}
	}
}

/* Without a visit, the place where it waits. */
static void find_frames(struct task *k, struct ustack *u)
{
	const void *where;

	if (k->k_dump->d_how & UINSPECT_BRIEF)
		return;
	k->k_top = usched__top(u);
	k->k_bottom = u->u_stack->k_bottom;
	if (ustack_visit(u, trace, k) == 0 && k->k_key.e_depth > 0)
		return;
	where = k->k_why.y_where ? k->k_why.y_where : usched__where(u);
	k->k_frames[0] = (uintptr_t)where;
	k->k_key.e_depth = where != NULL;
}

/* The EHABI's unwinder has this as a macro. Its CFA is another thing; r13 is SP. */
#ifdef _Unwind_GetIP
#define TOP_OF(context) _Unwind_GetGR(context, 13)
#else
#define TOP_OF(context) _Unwind_GetCFA(context)
#endif

/* Of the frames above the thread's top, up to the bottom of its stack. */
static _Unwind_Reason_Code add_frame(struct _Unwind_Context *context, void *task)
{
	const void *end = (const void *)(uintptr_t)TOP_OF(context);
	uintptr_t at = (uintptr_t)_Unwind_GetIP(context);
	struct task *k = task;

	if (stack_is_deeper(end, k->k_top))
		return _URC_NO_REASON;
	if (!stack_is_deeper(end, k->k_bottom) || !at || k->k_key.e_depth == FRAMES)
		return _URC_END_OF_STACK;
	k->k_frames[k->k_key.e_depth++] = at;
	return _URC_NO_REASON;
}

static void trace(void *task)
{
	_Unwind_Backtrace(add_frame, task);
}

static uint64_t mix(uint64_t hash, uintptr_t word)
{
	return (hash ^ word) * UINT64_C(0x9e3779b97f4a7c15) ^ hash >> 29;
}

static uint64_t hash_of(const struct task *k)
{
	const struct key *e = &k->k_key;
	uint64_t hash = mix(e->e_func, (uintptr_t)e->e_kind);

	hash = mix(hash, (uintptr_t)e->e_how);
	hash = mix(hash, (uintptr_t)e->e_state << 8 | e->e_number);
	for (size_t i = 0; i < e->e_depth; i++)
		hash = mix(hash, k->k_frames[i]);
	return hash;
}

static bool same_key(const struct key *a, const uintptr_t *a_frames, const struct key *b,
		     const uintptr_t *b_frames)
{
	return a->e_func == b->e_func && a->e_kind == b->e_kind && a->e_how == b->e_how
		&& a->e_state == b->e_state && a->e_number == b->e_number
		&& a->e_depth == b->e_depth
		&& memcmp(a_frames, b_frames, a->e_depth * sizeof *a_frames) == 0;
}

/* NULL: no memory. */
static struct group *group_of(struct task *k)
{
	uint64_t hash = hash_of(k);
	struct group **bucket = &k->k_groups[hash >> 32 & (BUCKETS - 1)], *g;
	size_t size = k->k_key.e_depth * sizeof(uintptr_t);

	for (g = *bucket; g; g = g->g_next)
		if (g->g_hash == hash
		    && same_key(&g->g_key, g->g_frames, &k->k_key, k->k_frames))
			return g;
	g = get_memory(k, sizeof *g + size);
	if (!g) {
		k->k_lost++;
		return NULL;
	}
	*g = (struct group){ .g_next = *bucket, .g_hash = hash, .g_key = k->k_key };
	memcpy(g->g_frames, k->k_frames, size);
	g->g_last = &g->g_first;
	*bucket = g;
	return g;
}

static void add_member(struct task *k, struct group *g, const struct ustack *u)
{
	struct member *m = get_memory(k, sizeof *m);
	char name[USTACK_NAME_MAX];

	if (!m) {
		k->k_lost++;
		return;
	}
	*m = (struct member){ .m_thread = (uintptr_t)u, .m_task = k, .m_started = -1,
			      .m_blocked = -1 };
	if (utrace__ages)
		utrace__ages(u, &m->m_started, &m->m_where, &m->m_blocked);
	if (k->k_key.e_state < UPROC_IS_WOKEN)
		m->m_blocked = -1;
	if (k->k_key.e_state == UPROC_WAITS) {
		m->m_object = k->k_why.y_object;
		m->m_holder = k->k_why.y_holder;
		m->m_more = keep_text(k, k->k_why.y_more);
	}
	if (__atomic_load_n(&u->u_mail, __ATOMIC_RELAXED) & UPROC_MAIL_NAMED
	    && ustack_get_name(u, name, sizeof name) == 0)
		m->m_name = keep_text(k, name);
	*g->g_last = m;
	g->g_last = &m->m_next;
	g->g_count++;
}

/* Aligned to 8. NULL: there is none. It is the task's. */
static void *get_memory(struct task *k, size_t size)
{
	struct chunk *c = k->k_chunks;
	void *memory;

	size = (size + 7) / 8 * 8;
	if (!c || c->c_used + size > CHUNK - sizeof *c) {
		c = malloc(CHUNK);
		if (!c)
			return NULL;
		c->c_next = k->k_chunks;
		c->c_used = 0;
		k->k_chunks = c;
	}
	memory = c->c_bytes + c->c_used;
	c->c_used += size;
	return memory;
}

/* NULL: it is empty, or there is no memory. */
static const char *keep_text(struct task *k, const char *text)
{
	size_t size = strlen(text) + 1;
	char *kept = size > 1 ? get_memory(k, size) : NULL;

	if (kept)
		memcpy(kept, text, size);
	return kept;
}

static int64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* ---- By a signal ---- */

/*
 * From `sp' to the end of the frames: the bottom of the thread's own stack, or
 * usched_run(), on the native stack. 0: `sp' is on no stack that is known.
 */
static size_t frames_from(const struct uproc *p, uintptr_t sp, bool *on_own)
{
	const struct ustack *u = usched__runs(&p->p_sched);
	uintptr_t home = (uintptr_t)p->p_sched.s_home, deep;

	if (u) {
		deep = (uintptr_t)u->u_stack->k_bottom - sp;
		*on_own = deep <= u->u_stack->k_size;
		if (*on_own)
			return deep;
	}
	*on_own = false;
	return home - sp < HOME_MAX ? home - sp : 0;
}

/* Frames have parts that sanitizers do not let be read. */
#ifdef USCHED_ASAN
__attribute__((no_sanitize("address")))
#endif
static void copy_stack(char *to, const char *from, size_t n)
{
	for (size_t i = 0; i < n; i++)
		((volatile char *)to)[i] = from[i];
}

/*
 * Where it is not sure that all of it is mapped: in the middle of a switch SP may be on
 * the stack of another thread than s_current. Returns how many bytes are there.
 */
static size_t read_stack(char *to, uintptr_t from, size_t n)
{
	struct iovec here = { to, n }, there = { (void *)from, n };
	ssize_t got = process_vm_readv(getpid(), &here, 1, &there, 1, 0);

	return got > 0 ? (size_t)got : 0;
}

static void copy_frames(struct uinspect_snap *s, uintptr_t sp)
{
	bool on_own;

	s->s_low = sp;
	s->s_size = frames_from(s->s_proc, sp, &on_own);
	if (s->s_size > COPY)
		s->s_size = COPY;
	if (on_own)
		copy_stack(s->s_bytes, (const char *)sp, s->s_size);
	else
		s->s_size = read_stack(s->s_bytes, sp, s->s_size);
}

/* In the handler, on the native thread of the processor. */
static void take_snap(struct uinspect_snap *s, const char *context)
{
	const struct ustack *u = s->s_proc->p_sched.s_current;

	for (unsigned i = 0; i < usched__registers; i++)
		memcpy(&s->s_registers[i], context + usched__context[i],
		       sizeof s->s_registers[i]);
	s->s_known = UINT64_MAX;
	s->s_thread = u;
	s->s_func = u ? (uintptr_t)ustack_func(u) : 0;
	s->s_size = 0;
	if (usched__registers > 0)
		copy_frames(s, s->s_registers[usched__sp]);
	__atomic_store_n(&s->s_state, READY, __ATOMIC_RELEASE);
}

static void on_signal(int sig, siginfo_t *info, void *context)
{
	struct uinspect_snap *s = &inspector.i_snap;
	int error = errno, wanted = WANTED;
	bool ours = pthread_equal(__atomic_load_n(&s->s_native, __ATOMIC_RELAXED),
				  pthread_self())
		&& __atomic_load_n(&s->s_sent, __ATOMIC_RELAXED) > 0;

	(void)sig;
	(void)info;
	if (ours) {
		__atomic_sub_fetch(&s->s_sent, 1, __ATOMIC_RELAXED);
		if (__atomic_compare_exchange_n(&s->s_state, &wanted, TAKEN, 0,
						__ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
			take_snap(s, context);
	} else {
		sem_post(&inspector.i_posted);
	}
	errno = error;
}

static void *dump_when_posted(void *unused)
{
	(void)unused;
	name_native("usched inspect");
	for (;;)
		if (sem_wait(&inspector.i_posted) == 0)
			uinspect_dump(STDERR_FILENO, 0);
	return NULL;
}

/* Under i_lock. It handles no signals. */
static int make_native(void)
{
	pthread_t native;
	sigset_t all, old;
	int rc;

	if (inspector.i_made)
		return 0;
	sem_init(&inspector.i_posted, 0, 0);
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	rc = pthread_create(&native, NULL, dump_when_posted, NULL);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	if (rc)
		return -rc;
	pthread_detach(native);
	inspector.i_made = true;
	return 0;
}

int uinspect_install(int sig)
{
	struct sigaction action = {
		.sa_sigaction = on_signal,
		.sa_flags = SA_SIGINFO | SA_RESTART | SA_ONSTACK,
	};
	int rc;

#ifdef SINGLE_THREAD
	return -ENOTSUP;
#endif
	sigemptyset(&action.sa_mask);
	pthread_mutex_lock(&inspector.i_lock);
	rc = make_native();
	if (rc == 0 && sigaction(sig, &action, NULL))
		rc = -errno;
	if (rc == 0)
		__atomic_store_n(&inspector.i_signal, sig, __ATOMIC_RELEASE);
	pthread_mutex_unlock(&inspector.i_lock);
	return rc;
}

void uinspect__forked(void)
{
	inspector.i_lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
	inspector.i_made = false;
}

#include "uinspect_unwind.inc"
#include "uinspect_stall.inc"
#include "uinspect_show.inc"
#include "uinspect_metrics.inc"
