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
 * Only the native thread of a processor may look at the processor's threads. So the
 * collector is a thread of that processor. Its start wakes the processor if that is
 * parked, as any start does. If the processor is busy, the collector waits for a turn.
 * While the collector runs, no other thread of the processor runs.
 *
 * A task is a processor's part of a dump. During a batch a task belongs to the collector,
 * otherwise to the dump. tk_state, under du_lock, tells which. Between batches the dump
 * may give up a processor that does not answer. Then the task has what was collected so
 * far, and the collector ends the next time it runs. The last user of a dump frees it.
 *
 * uprocs_destroy() waits while the scheduler is pinned.
 *
 * If a processor does not answer, the dump sends the signal of uinspect_install() to ask
 * what runs there: see snap.h.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE             /* pthread_setname_np() */
#endif
#include "uinspect.h"

#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <unwind.h>

#include "../src/base/cancel.h"
#include "../src/core/direction.h"
#include "../src/base/lock.h"
#include "../src/base/native.h"
#include "../src/base/when.h"
#include "../src/base/where.h"
#include "dump.h"
#include "snap.h"
#include "../uproc.h"
#include "../usync.h"

enum {
	CLOCK_EVERY  = 16,              /* threads between looks at the clock */
	PIECE        = 300000,          /* ns after which a batch ends */
	MEMORY_CHUNK = 64 << 10,        /* bytes allocated at a time */
	LOOK_EVERY   = 20,              /* ms between looks at processors */
	ANSWER_IN    = 1000,            /* ms after which no answer is expected */
};

/* Bytes that a visit needs below the top of a thread, for the unwinder and a signal. */
#if defined(USCHED_ASAN) || defined(USCHED_TSAN)
enum { VISIT_ROOM = 64 << 10 };         /* sanitizers make frames larger */
#else
enum { VISIT_ROOM = 16 << 10 };
#endif

/* The native thread of uinspect_install(), and what its handler needs. */
static struct {
	pthread_mutex_t i_lock;
	int             i_signal;       /* atomic: 0 before uinspect_install() */
	bool            i_made;         /* under i_lock: the native thread exists */
	sem_t           i_posted;
	pthread_t       i_native;       /* atomic: the native thread asked last */
	int             i_sent;         /* atomic: number of signals not yet handled */
	struct uinspect_snap i_snap;    /* under i_lock, so one dump at a time asks */
} inspector = { .i_lock = PTHREAD_MUTEX_INITIALIZER };

/* ---- Schedulers that stay ---- */

void uinspect__unpin(struct pins *n)
{
	for (size_t i = 0; i < n->pn_count; i++)
		uprocs__unpin(n->pn_all[i]);
	free(n->pn_all);
	n->pn_all = NULL;
}

/* If there are more schedulers than fit, tries again with more room. */
int uinspect__pin(struct pins *n)
{
	size_t room = 4, found;

	for (;;) {
		n->pn_count = 0;
		n->pn_all = (struct uprocs **)calloc(room, sizeof(struct uprocs *));
		if (!n->pn_all)
			return -ENOMEM;
		found = uprocs__pin(n->pn_all, room);
		n->pn_count = found < room ? found : room;
		if (found <= room)
			return 0;
		uinspect__unpin(n);
		room = 2 * found;
	}
}

/* ---- On each processor ---- */

static void collect(void *task);

/* Sets the state of the task. Returns false if the dump has given up the processor. */
static bool change_task(struct task *k, int to)
{
	struct dump *d = k->tk_dump;
	bool wanted;

	pthread_mutex_lock(&d->du_lock);
	wanted = k->tk_state != TASK_GONE;
	if (wanted) {
		k->tk_state = to;
		k->tk_steps++;
	}
	if (to == TASK_DONE)
		pthread_cond_signal(&d->du_changed);
	pthread_mutex_unlock(&d->du_lock);
	return wanted;
}

/* Notes a call, if the frame is between the thread's top and the bottom of the stack. */
static _Unwind_Reason_Code add_frame(struct _Unwind_Context *context, void *task)
{
	const void *end = (const void *)(uintptr_t)TOP_OF(context);
	uintptr_t at = (uintptr_t)_Unwind_GetIP(context);
	struct task *k = (struct task *)task;

	if (stack_is_deeper(end, k->tk_top))
		return _URC_NO_REASON;
	if (!stack_is_deeper(end, k->tk_bottom) || !at
	    || k->tk_key.gk_depth == SNAP_FRAMES)
		return _URC_END_OF_STACK;
	k->tk_frames[k->tk_key.gk_depth++] = at;
	return _URC_NO_REASON;
}

static void trace_frames(void *task)
{
	_Unwind_Backtrace(add_frame, task);
}

/* Finds the calls of `u' by a visit; if that fails, only the place where `u' waits. */
static void find_frames(struct task *k, struct ustack *u)
{
	const void *where;

	if (k->tk_dump->du_how & UINSPECT_BRIEF)
		return;
	k->tk_top = usched__top(u);
	k->tk_bottom = u->u_stack->k_bottom;
	if (u->u_stack->k_size - stack_depth(k->tk_bottom, k->tk_top) >= VISIT_ROOM
	    && usched__visit(u, trace_frames, k) == 0 && k->tk_key.gk_depth > 0)
		return;
	where = k->tk_why.wy_where ? k->tk_why.wy_where : usched__where(u);
	k->tk_frames[0] = (uintptr_t)where;
	k->tk_key.gk_depth = where != NULL;
}

/*
 * Returns memory of the dump, aligned to 8 bytes, or NULL if there is no memory. Until
 * all collectors are done, called under du_lock.
 */
static void *get_memory(struct dump *d, size_t size)
{
	struct chunk *c = d->du_chunks;
	void *memory;

	size = (size + 7) / 8 * 8;
	if (!c || c->ck_used + size > MEMORY_CHUNK - sizeof *c) {
		c = (struct chunk *)malloc(MEMORY_CHUNK);
		if (!c)
			return NULL;
		c->ck_next = d->du_chunks;
		c->ck_used = 0;
		d->du_chunks = c;
	}
	memory = c->ck_bytes + c->ck_used;
	c->ck_used += size;
	return memory;
}

/* Returns a copy of the text, or NULL if the text is empty or there is no memory. Called
   like get_memory(). */
static const char *keep_text(struct dump *d, const char *text)
{
	size_t size = strlen(text) + 1;
	char *kept = size > 1 ? (char *)get_memory(d, size) : NULL;

	if (kept)
		memcpy(kept, text, size);
	return kept;
}

static uint64_t mix(uint64_t hash, uintptr_t word)
{
	return (hash ^ word) * UINT64_C(0x9e3779b97f4a7c15) ^ hash >> 29;
}

static uint64_t hash_of(const struct task *k)
{
	const struct group_key *e = &k->tk_key;
	uint64_t hash = mix(e->gk_func, (uintptr_t)e->gk_kind);

	hash = mix(hash, (uintptr_t)e->gk_how);
	hash = mix(hash, (uintptr_t)e->gk_state << 8 | e->gk_number);
	for (size_t i = 0; i < e->gk_depth; i++)
		hash = mix(hash, k->tk_frames[i]);
	return hash;
}

/* Returns whether the thread that the task looks at belongs to the group. */
static bool fits(const struct group *g, const struct task *k)
{
	const struct group_key *a = &g->gr_key, *b = &k->tk_key;

	return a->gk_func == b->gk_func && a->gk_kind == b->gk_kind
		&& a->gk_how == b->gk_how && a->gk_state == b->gk_state
		&& a->gk_number == b->gk_number && a->gk_depth == b->gk_depth
		&& memcmp(g->gr_frames, k->tk_frames,
			  a->gk_depth * sizeof(uintptr_t)) == 0;
}

/* Returns the group of the thread that the task looks at, or NULL if there is no memory.
   Called under du_lock. */
static struct group *group_of(const struct task *k, uint64_t hash)
{
	struct dump *d = k->tk_dump;
	struct group **bucket = &d->du_buckets[hash >> 32 & (DUMP_BUCKETS - 1)], *g;
	size_t size = k->tk_key.gk_depth * sizeof(uintptr_t);

	for (g = *bucket; g; g = g->gr_next)
		if (g->gr_hash == hash && fits(g, k))
			return g;
	g = (struct group *)get_memory(d, sizeof *g + size);
	if (!g)
		return NULL;
	*g = (struct group){ .gr_next = *bucket, .gr_older = d->du_newest,
			     .gr_hash = hash, .gr_key = k->tk_key };
	d->du_newest = g;
	d->du_groups++;
	memcpy(g->gr_frames, k->tk_frames, size);
	g->gr_last = &g->gr_first;
	*bucket = g;
	return g;
}

/* Adds a copy of `m' to the group of the thread that the task looks at. */
static void add_member(struct task *k, const struct member *m, const char *name)
{
	struct dump *d = k->tk_dump;
	uint64_t hash = hash_of(k);
	struct member *kept = NULL;
	struct group *g;

	pthread_mutex_lock(&d->du_lock);
	g = group_of(k, hash);
	if (g)
		kept = (struct member *)get_memory(d, sizeof *kept);
	if (kept) {
		*kept = *m;
		kept->dm_name = keep_text(d, name);
		if (k->tk_key.gk_state == UPROC_WAITS)
			kept->dm_more = keep_text(d, k->tk_why.wy_more);
		*g->gr_last = kept;
		g->gr_last = &kept->dm_next;
		g->gr_count++;
	} else {
		d->du_lost++;
	}
	pthread_mutex_unlock(&d->du_lock);
}

/* Fills in tk_why, tk_key and tk_frames for `t'. */
static void look_at_thread(struct task *k, struct uproc_thread *t)
{
	struct ustack *u = &t->th_stack;

	k->tk_why = (struct ustack_why){ .wy_how = "" };
	k->tk_key = (struct group_key){ .gk_func = (uintptr_t)ustack_func(u) };
	k->tk_key.gk_state = (uint8_t)uproc__state(t, &k->tk_why);
	if (k->tk_key.gk_state == UPROC_WAITS) {
		k->tk_key.gk_kind = k->tk_why.wy_kind;
		k->tk_key.gk_how = k->tk_why.wy_how;
		k->tk_key.gk_number = k->tk_why.wy_number != 0;
	}
	if (k->tk_key.gk_state != UPROC_IS_NEW)
		find_frames(k, u);
}

static void add_thread(struct task *k, struct uproc_thread *t)
{
	struct ustack *u = &t->th_stack;
	struct member m = { .dm_thread = (uintptr_t)u, .dm_task = k };
	char name[USTACK_NAME_MAX] = "";

	if (!uproc__has(k->tk_proc, t) || ustack_func(u) == collect)
		return;
	k->tk_threads++;
	look_at_thread(k, t);
	m.dm_joiner = (uintptr_t)uproc__joiner(t);
	if (k->tk_key.gk_state == UPROC_WAITS) {
		m.dm_object = k->tk_why.wy_object;
		m.dm_holder = k->tk_why.wy_holder;
	}
	if (__atomic_load_n(&u->u_mail, __ATOMIC_RELAXED) & UPROC_MAIL_NAMED
	    && ustack_get_name(u, name, sizeof name))
		name[0] = '\0';
	add_member(k, &m, name);
}

/* Collects a batch. Returns false after the last thread. */
static bool collect_batch(struct task *k)
{
	int64_t end = when_now() + PIECE;
	size_t before = k->tk_threads;

	for (unsigned n = 1; k->tk_threads - before < DUMP_BATCH; n++) {
		if (k->tk_at == k->tk_got) {
			k->tk_got = uimage_pool_next(&k->tk_proc->p_procs->r_images,
						     &k->tk_walk, k->tk_records,
						     DUMP_BATCH);
			k->tk_at = 0;
		}
		if (k->tk_got == 0)
			return false;
		add_thread(k, (struct uproc_thread *)k->tk_records[k->tk_at++]);
		if (n % CLOCK_EVERY == 0 && when_now() > end)
			break;
	}
	return true;
}

static void leave_dump(struct dump *d)
{
	struct chunk *c, *next;
	bool last;

	pthread_mutex_lock(&d->du_lock);
	last = --d->du_users == 0;
	pthread_mutex_unlock(&d->du_lock);
	if (!last)
		return;
	for (c = d->du_chunks; c; c = next) {
		next = c->ck_next;
		free(c);
	}
	for (size_t i = 0; i < d->du_count; i++)
		free(d->du_tasks[i]);
	pthread_cond_destroy(&d->du_changed);
	pthread_mutex_destroy(&d->du_lock);
	free(d->du_tasks);
	free(d);
}

static void collect(void *task)
{
	struct task *k = (struct task *)task;

	while (change_task(k, TASK_BUSY)) {
		bool more = collect_batch(k);

		change_task(k, more ? TASK_IDLE : TASK_DONE);
		if (!more)
			break;
		ustack_yield();         /* may fail for lack of memory, without harm */
	}
	leave_dump(k->tk_dump);
}

/* ---- Dumps ---- */

static int make_tasks(struct dump *d)
{
	size_t n = 0;

	for (size_t i = 0; i < d->du_pins.pn_count; i++)
		n += d->du_pins.pn_all[i]->r_conf.c_processors;
	d->du_tasks = (struct task **)calloc(n + 1, sizeof(struct task *));
	if (!d->du_tasks)
		return -ENOMEM;
	for (unsigned i = 0; i < d->du_pins.pn_count; i++)
		for (unsigned j = 0; j < d->du_pins.pn_all[i]->r_conf.c_processors; j++) {
			struct task *k = (struct task *)calloc(1, sizeof *k);

			if (!k)
				return -ENOMEM;
			k->tk_dump = d;
			k->tk_proc = uproc_at(d->du_pins.pn_all[i], j);
			k->tk_scheduler = i;
			k->tk_number = j;
			d->du_tasks[d->du_count++] = k;
		}
	return 0;
}

/* Starts the collector. uprocs_hold() announces a start from outside, so that the threads
   are not taken for deadlocked. */
static int start_collector(struct task *k)
{
	struct uprocs *r = k->tk_proc->p_procs;
	int rc;

	struct ustack *u;

	if (ONE_NATIVE && uproc_self() && uproc_self() != k->tk_proc)
		return -EBUSY;                  /* the other processor cannot run now */
	uprocs_hold(r, 1);
	rc = uproc_start((struct uproc_place){ k->tk_proc, 1 }, NULL, collect, k,
			 ONE_NATIVE ? &u : NULL);
	uprocs_hold(r, 0);
	return rc || !ONE_NATIVE ? rc : ustack_join(u, NULL, USCHED_NEVER);
}

static int ask_all(struct dump *d)
{
	for (size_t i = 0; i < d->du_count; i++) {
		struct task *k = d->du_tasks[i];

		k->tk_since = when_now();
		pthread_mutex_lock(&d->du_lock);
		d->du_users++;
		pthread_mutex_unlock(&d->du_lock);
		if (start_collector(k) == 0)
			continue;
		pthread_mutex_lock(&d->du_lock);
		k->tk_state = TASK_REFUSED;
		d->du_users--;
		pthread_mutex_unlock(&d->du_lock);
	}
	return 0;
}

/* Returns whether the dump still waits for the task. Gives up the processor if it has not
   answered for ANSWER_IN. Called under du_lock. */
static bool expects(struct task *k, int64_t now)
{
	if (k->tk_state >= TASK_DONE)
		return false;
	if (k->tk_steps != k->tk_seen || k->tk_state == TASK_BUSY) {
		k->tk_seen = k->tk_steps;
		k->tk_since = now;
	}
	if (now - k->tk_since < ANSWER_IN * INT64_C(1000000))
		return true;
	k->tk_state = TASK_GONE;
	return false;
}

static void await_all(struct dump *d)
{
	bool expected = true;

	pthread_mutex_lock(&d->du_lock);
	while (expected) {
		int64_t now = when_now(), until = now + LOOK_EVERY * INT64_C(1000000);
		struct timespec t = when_of(until);

		expected = false;
		for (size_t i = 0; i < d->du_count; i++)
			expected |= expects(d->du_tasks[i], now);
		if (expected)
			pthread_cond_timedwait(&d->du_changed, &d->du_lock, &t);
	}
	for (size_t i = 0; i < d->du_count; i++) /* not the collector */
		d->du_tasks[i]->tk_all = uproc_count(d->du_tasks[i]->tk_proc)
			- (d->du_tasks[i]->tk_state == TASK_GONE);
	pthread_mutex_unlock(&d->du_lock);
}

/* Asks the native thread of `p' for a snap. Returns false if no answer comes. Then that
   native thread blocks the signal, or sleeps in the kernel. */
static bool snap_native(struct uproc *p, int sig)
{
	__atomic_store_n(&inspector.i_native, p->p_native, __ATOMIC_RELAXED);
	uinspect__ask(&inspector.i_snap, p);
	__atomic_add_fetch(&inspector.i_sent, 1, __ATOMIC_RELAXED);
	if (pthread_kill(p->p_native, sig))
		__atomic_sub_fetch(&inspector.i_sent, 1, __ATOMIC_RELAXED);
	return uinspect__await(&inspector.i_snap, ANSWER_IN);
}

static void keep_snap(struct task *k, const struct uinspect_snap *s)
{
	char name[USTACK_NAME_MAX];

	k->tk_runs = (uintptr_t)s->sn_thread;
	k->tk_runs_func = s->sn_func;
	if (s->sn_thread && ustack_get_name(s->sn_thread, name, sizeof name) == 0)
		k->tk_runs_name = keep_text(k->tk_dump, name);
	k->tk_runs_depth = s->sn_count;
	memcpy(k->tk_frames, s->sn_calls, sizeof s->sn_calls);
}

/* Asks the processors that do not answer what they run. */
static void ask_natives(struct dump *d)
{
	int sig = __atomic_load_n(&inspector.i_signal, __ATOMIC_ACQUIRE);

	for (size_t i = 0; sig && i < d->du_count; i++) {
		struct task *k = d->du_tasks[i];

		if (k->tk_state != TASK_GONE || k->tk_proc->p_procs->r_conf.c_embed)
			continue;
		pthread_mutex_lock(&inspector.i_lock);
		if (snap_native(k->tk_proc, sig))
			keep_snap(k, &inspector.i_snap);
		pthread_mutex_unlock(&inspector.i_lock);
	}
}

static int dump_here(int fd, unsigned how)
{
	struct dump *d = (struct dump *)calloc(1, sizeof *d);
	int before, rc;

	if (!d)
		return -ENOMEM;
	d->du_fd = fd;
	d->du_how = how;
	d->du_users = 1;
	pthread_mutex_init(&d->du_lock, NULL);
	when_init_cond(&d->du_changed);
	before = defer_cancel();
	rc = uinspect__pin(&d->du_pins);
	if (rc == 0)
		rc = make_tasks(d);
	if (rc == 0)
		rc = ask_all(d);
	if (rc == 0) {
		await_all(d);
		ask_natives(d);
	}
	uinspect__unpin(&d->du_pins);
	if (rc == 0)
		rc = uinspect__show(d);
	leave_dump(d);
	allow_cancel(before);
	return rc;
}

/* A dump that a thread asks for. Another native thread makes the dump, so that the
   caller's processor can go on. */
struct dump_job {
	int                dj_fd;
	unsigned           dj_how;
	int                dj_rc;
	struct usync_group dj_done;
};

static void *run_apart(void *arg)
{
	struct dump_job *job = (struct dump_job *)arg;

	name_native("usched inspect");
	job->dj_rc = dump_here(job->dj_fd, job->dj_how);
	usync_group_done(&job->dj_done);
	return NULL;
}

static int dump_apart(struct uprocs *r, int fd, unsigned how)
{
	struct dump_job *job = (struct dump_job *)calloc(1, sizeof *job);
	int rc, shielded = job ? ustack_shield(1) : -ENOMEM;
	pthread_t native;

	if (shielded < 0) {
		free(job);
		return -ENOMEM;
	}
	*job = (struct dump_job){ .dj_fd = fd, .dj_how = how };
	usync_group_add(&job->dj_done, 1);
	uprocs_hold(r, 1);
	rc = -pthread_create(&native, NULL, run_apart, job);
	if (rc == 0) {
		rc = usync_group_wait(&job->dj_done, USCHED_NEVER);
		pthread_join(native, NULL);     /* the native thread ends soon */
		rc = rc ? rc : job->dj_rc;
	}
	uprocs_hold(r, 0);
	ustack_shield(shielded);
	free(job);
	return rc;
}

int uinspect_dump(int fd, unsigned how)
{
	struct uproc *p = uproc_self();

	return p && !ONE_NATIVE ? dump_apart(p->p_procs, fd, how) : dump_here(fd, how);
}

/* ---- By a signal ---- */

static void on_inspect(int sig, siginfo_t *info, void *context)
{
	int error = errno;
	bool ours = pthread_equal(__atomic_load_n(&inspector.i_native, __ATOMIC_RELAXED),
				  pthread_self())
		&& __atomic_load_n(&inspector.i_sent, __ATOMIC_RELAXED) > 0;

	(void)sig;
	(void)info;
	if (ours) {
		__atomic_sub_fetch(&inspector.i_sent, 1, __ATOMIC_RELAXED);
		uinspect__answer(&inspector.i_snap, NULL, context);
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

/* Makes the native thread that dumps. It handles no signals. Called under i_lock. */
static int make_native(void)
{
	pthread_t native;
	int rc;

	if (inspector.i_made)
		return 0;
	sem_init(&inspector.i_posted, 0, 0);
	rc = start_native(&native, dump_when_posted, NULL);
	if (rc)
		return rc;
	pthread_detach(native);
	inspector.i_made = true;
	return 0;
}

int uinspect_install(int sig)
{
	struct sigaction action;
	int rc;

	if (ONE_NATIVE)
		return -ENOTSUP;
	memset(&action, 0, sizeof action);
	action.sa_sigaction = on_inspect;
	action.sa_flags = SA_SIGINFO | SA_RESTART | SA_ONSTACK;
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
