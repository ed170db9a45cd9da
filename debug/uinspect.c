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
 * collector is a thread of that processor, started like any other: the start wakes a
 * parked processor, and on a busy processor the collector waits for a turn. While the
 * collector runs, no other thread of the processor does.
 *
 * A task belongs to the collector during a batch, and else to the dump: k_state, under
 * d_lock, says to which. The dump may give up a processor that does not answer, only
 * between batches; the task then has what was collected so far. The collector notices
 * when it runs at last. The last user of a dump frees it.
 *
 * uprocs_destroy() waits while the scheduler is pinned.
 *
 * If a processor does not answer, the signal of uinspect_install() asks what runs there:
 * see snap.h.
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
	PIECE        = 300000,          /* ns between two yields, at most */
	MEMORY_CHUNK = 64 << 10,        /* bytes allocated at a time */
	LOOK_EVERY   = 20,              /* ms between looks at processors */
	ANSWER_IN    = 1000,            /* ms until an answer, also to a signal */
};

/* Bytes below the top of a thread, for the unwinder and a signal. */
#if defined(USCHED_ASAN) || defined(USCHED_TSAN)
enum { VISIT_ROOM = 64 << 10 };         /* sanitizers make frames larger */
#else
enum { VISIT_ROOM = 16 << 10 };
#endif

/* The state of uinspect_install(). */
static struct {
	pthread_mutex_t i_lock;
	int             i_signal;       /* atomic: 0: not installed */
	bool            i_made;         /* i_lock: the native thread exists */
	sem_t           i_posted;
	pthread_t       i_native;       /* atomic: the native thread asked last */
	int             i_sent;         /* atomic: signals from here, not from a user */
	struct uinspect_snap i_snap;    /* i_lock: one dump at a time asks */
} inspector = { .i_lock = PTHREAD_MUTEX_INITIALIZER };

/* ---- Schedulers that stay ---- */

void uinspect__unpin(struct pins *n)
{
	for (size_t i = 0; i < n->n_count; i++)
		uprocs__unpin(n->n_all[i]);
	free(n->n_all);
	n->n_all = NULL;
}

/* Schedulers may be created between the count and the call, hence the loop. */
int uinspect__pin(struct pins *n)
{
	size_t room = 4, found;

	for (;;) {
		n->n_count = 0;
		n->n_all = (struct uprocs **)calloc(room, sizeof(struct uprocs *));
		if (!n->n_all)
			return -ENOMEM;
		found = uprocs__pin(n->n_all, room);
		n->n_count = found < room ? found : room;
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
	struct dump *d = k->k_dump;
	bool wanted;

	pthread_mutex_lock(&d->d_lock);
	wanted = k->k_state != TASK_GONE;
	if (wanted) {
		k->k_state = to;
		k->k_steps++;
	}
	if (to == TASK_DONE)
		pthread_cond_signal(&d->d_changed);
	pthread_mutex_unlock(&d->d_lock);
	return wanted;
}

/* Notes a call, if the frame is between the thread's top and the bottom of the stack. */
static _Unwind_Reason_Code add_frame(struct _Unwind_Context *context, void *task)
{
	const void *end = (const void *)(uintptr_t)TOP_OF(context);
	uintptr_t at = (uintptr_t)_Unwind_GetIP(context);
	struct task *k = (struct task *)task;

	if (stack_is_deeper(end, k->k_top))
		return _URC_NO_REASON;
	if (!stack_is_deeper(end, k->k_bottom) || !at || k->k_key.e_depth == SNAP_FRAMES)
		return _URC_END_OF_STACK;
	k->k_frames[k->k_key.e_depth++] = at;
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

	if (k->k_dump->d_how & UINSPECT_BRIEF)
		return;
	k->k_top = usched__top(u);
	k->k_bottom = u->u_stack->k_bottom;
	if (u->u_stack->k_size - stack_depth(k->k_bottom, k->k_top) >= VISIT_ROOM
	    && usched__visit(u, trace_frames, k) == 0 && k->k_key.e_depth > 0)
		return;
	where = k->k_why.y_where ? k->k_why.y_where : usched__where(u);
	k->k_frames[0] = (uintptr_t)where;
	k->k_key.e_depth = where != NULL;
}

/*
 * Returns memory of the dump, aligned to 8; NULL: there is no memory. Under d_lock, until
 * all collectors are done.
 */
static void *get_memory(struct dump *d, size_t size)
{
	struct chunk *c = d->d_chunks;
	void *memory;

	size = (size + 7) / 8 * 8;
	if (!c || c->c_used + size > MEMORY_CHUNK - sizeof *c) {
		c = (struct chunk *)malloc(MEMORY_CHUNK);
		if (!c)
			return NULL;
		c->c_next = d->d_chunks;
		c->c_used = 0;
		d->d_chunks = c;
	}
	memory = c->c_bytes + c->c_used;
	c->c_used += size;
	return memory;
}

/* Returns a copy; NULL: the text is empty, or there is no memory. As get_memory(). */
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
	const struct group_key *e = &k->k_key;
	uint64_t hash = mix(e->e_func, (uintptr_t)e->e_kind);

	hash = mix(hash, (uintptr_t)e->e_how);
	hash = mix(hash, (uintptr_t)e->e_state << 8 | e->e_number);
	for (size_t i = 0; i < e->e_depth; i++)
		hash = mix(hash, k->k_frames[i]);
	return hash;
}

/* Returns whether the thread that the task looks at belongs to the group. */
static bool fits(const struct group *g, const struct task *k)
{
	const struct group_key *a = &g->g_key, *b = &k->k_key;

	return a->e_func == b->e_func && a->e_kind == b->e_kind && a->e_how == b->e_how
		&& a->e_state == b->e_state && a->e_number == b->e_number
		&& a->e_depth == b->e_depth
		&& memcmp(g->g_frames, k->k_frames, a->e_depth * sizeof(uintptr_t)) == 0;
}

/* Returns the group of the thread that the task looks at. Under d_lock. NULL: no
   memory. */
static struct group *group_of(const struct task *k, uint64_t hash)
{
	struct dump *d = k->k_dump;
	struct group **bucket = &d->d_buckets[hash >> 32 & (DUMP_BUCKETS - 1)], *g;
	size_t size = k->k_key.e_depth * sizeof(uintptr_t);

	for (g = *bucket; g; g = g->g_next)
		if (g->g_hash == hash && fits(g, k))
			return g;
	g = (struct group *)get_memory(d, sizeof *g + size);
	if (!g)
		return NULL;
	*g = (struct group){ .g_next = *bucket, .g_older = d->d_newest, .g_hash = hash,
			     .g_key = k->k_key };
	d->d_newest = g;
	d->d_groups++;
	memcpy(g->g_frames, k->k_frames, size);
	g->g_last = &g->g_first;
	*bucket = g;
	return g;
}

/* Adds a copy of `m' to the group of the thread that the task looks at. */
static void add_member(struct task *k, const struct member *m, const char *name)
{
	struct dump *d = k->k_dump;
	uint64_t hash = hash_of(k);
	struct member *kept = NULL;
	struct group *g;

	pthread_mutex_lock(&d->d_lock);
	g = group_of(k, hash);
	if (g)
		kept = (struct member *)get_memory(d, sizeof *kept);
	if (kept) {
		*kept = *m;
		kept->m_name = keep_text(d, name);
		if (k->k_key.e_state == UPROC_WAITS)
			kept->m_more = keep_text(d, k->k_why.y_more);
		*g->g_last = kept;
		g->g_last = &kept->m_next;
		g->g_count++;
	} else {
		d->d_lost++;
	}
	pthread_mutex_unlock(&d->d_lock);
}

/* Fills in k_why, k_key and k_frames. */
static void look_at_thread(struct task *k, struct uproc_thread *t)
{
	struct ustack *u = &t->t_stack;

	k->k_why = (struct ustack_why){ .y_how = "" };
	k->k_key = (struct group_key){ .e_func = (uintptr_t)ustack_func(u) };
	k->k_key.e_state = (uint8_t)uproc__state(t, &k->k_why);
	if (k->k_key.e_state == UPROC_WAITS) {
		k->k_key.e_kind = k->k_why.y_kind;
		k->k_key.e_how = k->k_why.y_how;
		k->k_key.e_number = k->k_why.y_number != 0;
	}
	if (k->k_key.e_state != UPROC_IS_NEW)
		find_frames(k, u);
}

static void add_thread(struct task *k, struct uproc_thread *t)
{
	struct ustack *u = &t->t_stack;
	struct member m = { .m_thread = (uintptr_t)u, .m_task = k };
	char name[USTACK_NAME_MAX] = "";

	if (!uproc__has(k->k_proc, t) || ustack_func(u) == collect)
		return;
	k->k_threads++;
	look_at_thread(k, t);
	m.m_joiner = (uintptr_t)uproc__joiner(t);
	if (k->k_key.e_state == UPROC_WAITS) {
		m.m_object = k->k_why.y_object;
		m.m_holder = k->k_why.y_holder;
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
	size_t before = k->k_threads;

	for (unsigned n = 1; k->k_threads - before < DUMP_BATCH; n++) {
		if (k->k_at == k->k_got) {
			k->k_got = uimage_pool_next(&k->k_proc->p_procs->r_images,
						    &k->k_walk, k->k_records, DUMP_BATCH);
			k->k_at = 0;
		}
		if (k->k_got == 0)
			return false;
		add_thread(k, (struct uproc_thread *)k->k_records[k->k_at++]);
		if (n % CLOCK_EVERY == 0 && when_now() > end)
			break;
	}
	return true;
}

static void leave_dump(struct dump *d)
{
	struct chunk *c, *next;
	bool last;

	pthread_mutex_lock(&d->d_lock);
	last = --d->d_users == 0;
	pthread_mutex_unlock(&d->d_lock);
	if (!last)
		return;
	for (c = d->d_chunks; c; c = next) {
		next = c->c_next;
		free(c);
	}
	for (size_t i = 0; i < d->d_count; i++)
		free(d->d_tasks[i]);
	pthread_cond_destroy(&d->d_changed);
	pthread_mutex_destroy(&d->d_lock);
	free(d->d_tasks);
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
		ustack_yield();         /* fails without memory, which does no harm */
	}
	leave_dump(k->k_dump);
}

/* ---- Dumps ---- */

static int make_tasks(struct dump *d)
{
	size_t n = 0;

	for (size_t i = 0; i < d->d_pins.n_count; i++)
		n += d->d_pins.n_all[i]->r_conf.c_processors;
	d->d_tasks = (struct task **)calloc(n + 1, sizeof(struct task *));
	if (!d->d_tasks)
		return -ENOMEM;
	for (unsigned i = 0; i < d->d_pins.n_count; i++)
		for (unsigned j = 0; j < d->d_pins.n_all[i]->r_conf.c_processors; j++) {
			struct task *k = (struct task *)calloc(1, sizeof *k);

			if (!k)
				return -ENOMEM;
			k->k_dump = d;
			k->k_proc = uproc_at(d->d_pins.n_all[i], j);
			k->k_scheduler = i;
			k->k_number = j;
			d->d_tasks[d->d_count++] = k;
		}
	return 0;
}

/* Starts the collector. uprocs_hold() announces a start from outside, so that the threads
   are not taken for deadlocked. */
static int start_collector(struct task *k)
{
	struct uprocs *r = k->k_proc->p_procs;
	int rc;

	struct ustack *u;

	if (ONE_NATIVE && uproc_self() && uproc_self() != k->k_proc)
		return -EBUSY;                  /* that processor runs only later */
	uprocs_hold(r, 1);
	rc = uproc_start((struct uproc_place){ k->k_proc, 1 }, NULL, collect, k,
			 ONE_NATIVE ? &u : NULL);
	uprocs_hold(r, 0);
	return rc || !ONE_NATIVE ? rc : ustack_join(u, NULL, USCHED_NEVER);
}

static int ask_all(struct dump *d)
{
	for (size_t i = 0; i < d->d_count; i++) {
		struct task *k = d->d_tasks[i];

		k->k_since = when_now();
		pthread_mutex_lock(&d->d_lock);
		d->d_users++;
		pthread_mutex_unlock(&d->d_lock);
		if (start_collector(k) == 0)
			continue;
		pthread_mutex_lock(&d->d_lock);
		k->k_state = TASK_REFUSED;
		d->d_users--;
		pthread_mutex_unlock(&d->d_lock);
	}
	return 0;
}

/* Returns false, under d_lock, if the task is done, or the processor does not answer. */
static bool expects(struct task *k, int64_t now)
{
	if (k->k_state >= TASK_DONE)
		return false;
	if (k->k_steps != k->k_seen || k->k_state == TASK_BUSY) {
		k->k_seen = k->k_steps;
		k->k_since = now;
	}
	if (now - k->k_since < ANSWER_IN * INT64_C(1000000))
		return true;
	k->k_state = TASK_GONE;
	return false;
}

static void await_all(struct dump *d)
{
	bool expected = true;

	pthread_mutex_lock(&d->d_lock);
	while (expected) {
		int64_t now = when_now(), until = now + LOOK_EVERY * INT64_C(1000000);
		struct timespec t = when_of(until);

		expected = false;
		for (size_t i = 0; i < d->d_count; i++)
			expected |= expects(d->d_tasks[i], now);
		if (expected)
			pthread_cond_timedwait(&d->d_changed, &d->d_lock, &t);
	}
	for (size_t i = 0; i < d->d_count; i++) /* without the collector */
		d->d_tasks[i]->k_all = uproc_count(d->d_tasks[i]->k_proc)
			- (d->d_tasks[i]->k_state == TASK_GONE);
	pthread_mutex_unlock(&d->d_lock);
}

/* Returns false if no answer comes: `p' blocks the signal, or sleeps in the kernel. */
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

	k->k_runs = (uintptr_t)s->s_thread;
	k->k_runs_func = s->s_func;
	if (s->s_thread && ustack_get_name(s->s_thread, name, sizeof name) == 0)
		k->k_runs_name = keep_text(k->k_dump, name);
	k->k_runs_depth = s->s_count;
	memcpy(k->k_frames, s->s_calls, sizeof s->s_calls);
}

/* Asks the processors that do not answer what they run. */
static void ask_natives(struct dump *d)
{
	int sig = __atomic_load_n(&inspector.i_signal, __ATOMIC_ACQUIRE);

	for (size_t i = 0; sig && i < d->d_count; i++) {
		struct task *k = d->d_tasks[i];

		if (k->k_state != TASK_GONE || k->k_proc->p_procs->r_conf.c_embed)
			continue;
		pthread_mutex_lock(&inspector.i_lock);
		if (snap_native(k->k_proc, sig))
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
	d->d_fd = fd;
	d->d_how = how;
	d->d_users = 1;
	pthread_mutex_init(&d->d_lock, NULL);
	when_init_cond(&d->d_changed);
	before = defer_cancel();
	rc = uinspect__pin(&d->d_pins);
	if (rc == 0)
		rc = make_tasks(d);
	if (rc == 0)
		rc = ask_all(d);
	if (rc == 0) {
		await_all(d);
		ask_natives(d);
	}
	uinspect__unpin(&d->d_pins);
	if (rc == 0)
		rc = uinspect__show(d);
	leave_dump(d);
	allow_cancel(before);
	return rc;
}

/* A dump for a thread: made by another native thread, so that the caller's processor can
   go on. */
struct dump_job {
	int                j_fd;
	unsigned           j_how;
	int                j_rc;
	struct usync_group j_done;
};

static void *run_apart(void *arg)
{
	struct dump_job *job = (struct dump_job *)arg;

	name_native("usched inspect");
	job->j_rc = dump_here(job->j_fd, job->j_how);
	usync_group_done(&job->j_done);
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
	*job = (struct dump_job){ .j_fd = fd, .j_how = how };
	usync_group_add(&job->j_done, 1);
	uprocs_hold(r, 1);
	rc = -pthread_create(&native, NULL, run_apart, job);
	if (rc == 0) {
		rc = usync_group_wait(&job->j_done, USCHED_NEVER);
		pthread_join(native, NULL);     /* soon over */
		rc = rc ? rc : job->j_rc;
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

/* Makes the native thread that dumps, and that handles no signals. Under i_lock. */
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
