/* SPDX-License-Identifier: MIT */
/*
 * uinspect.c: dumps of all threads, while these go on. uinspect.h has an example.
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
 * uprocs_destroy() waits while the scheduler is pinned. If a processor does not answer,
 * uinspect_snap.c asks what runs there.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE             /* pthread_setname_np(); Dl_info in src/base/code.h */
#endif
#include "uinspect.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unwind.h>

#include "../src/base/cancel.h"
#include "../src/base/code.h"
#include "../src/base/lock.h"
#include "../src/base/native.h"
#include "../src/base/text.h"
#include "../src/base/when.h"
#include "../src/base/where.h"
#include "../src/core/direction.h"
#include "../src/core/outside.h"
#include "../uproc.h"
#include "../usync.h"
#include "snap.h"

enum {
	DUMP_BATCH   = 256,             /* threads that a collector visits in one turn */
	CLOCK_EVERY  = 16,              /* threads between looks at the clock */
	PIECE        = 300000,          /* ns after which a batch ends */
	DUMP_BUCKETS = 4096,            /* hash buckets of groups */
	DUMP_LINE    = 640,             /* characters about a thread, at most */
	LOOK_EVERY   = 20,              /* ms between looks at processors */
	DUMP_CODES   = 256,             /* texts of addresses that are kept */
	SHOWN_AT_ONCE = 64 << 10,       /* bytes written at a time */
};

/* Bytes that a visit needs below the top of a thread, for the unwinder and a signal. */
#if defined(USCHED_ASAN) || defined(USCHED_TSAN)
enum { VISIT_ROOM = 64 << 10 };         /* sanitizers make frames larger */
#else
enum { VISIT_ROOM = 16 << 10 };
#endif

/* The line about a thread. */
struct line {
	struct line *ln_next;
	char         ln_text[];
};

/* What all threads of a group have in common. Has no padding, and zeros behind the last
   frame, so that two of these are compared as bytes. */
struct place {
	uintptr_t   pl_func;
	const char *pl_kind;            /* NULL unless the threads wait */
	const char *pl_how;
	uintptr_t   pl_state;           /* an enum uproc_state */
	uintptr_t   pl_depth;           /* number of elements of pl_frames */
	uintptr_t   pl_frames[SNAP_FRAMES];
};

/* Threads that differ only in their lines. */
struct group {
	struct group *gr_next;          /* the next group in the bucket */
	struct group *gr_older;         /* the group that was made before this one */
	struct line  *gr_first;
	struct line **gr_last;
	size_t        gr_count;
	struct place  gr_place;
};

enum { TASK_IDLE, TASK_BUSY, TASK_DONE, TASK_GONE, TASK_REFUSED };

/* A processor's part of a dump. */
struct task {
	struct task  *tk_next;
	struct dump  *tk_dump;
	struct uproc *tk_proc;
	unsigned      tk_scheduler;
	unsigned      tk_number;
	int           tk_state;         /* under du_lock, like tk_since */
	int64_t       tk_since;         /* ns: the time of the last step */

	/* These belong to the collector during a batch, and otherwise to the dump. */
	struct uimage_walk tk_walk;
	void         *tk_records[DUMP_BATCH];
	size_t        tk_got, tk_at;
	size_t        tk_threads;
	struct place  tk_place;         /* of the present thread */
	const char   *tk_top, *tk_bottom;

	/* What is known of a processor that does not answer. */
	size_t        tk_all;           /* the number of threads */
	struct uinspect_snap tk_snap;
	char          tk_name[USTACK_NAME_MAX]; /* of the thread that runs */
};

/* The text of an address. Texts are kept, because a look into a symbol table takes long,
   and the threads have few different addresses. */
struct kept {
	uintptr_t kp_address;
	char      kp_text[CODE];        /* empty: the place is free */
};

struct dump {
	unsigned        du_how;
	unsigned        du_schedulers;
	struct task    *du_tasks;
	pthread_mutex_t du_lock;
	pthread_cond_t  du_changed;
	size_t          du_users;       /* atomic: the dump and its collectors */
	struct group   *du_buckets[DUMP_BUCKETS];       /* du_lock, as the next three */
	struct group   *du_newest;
	size_t          du_groups;
	size_t          du_lost;        /* threads left out for want of memory */

	struct text     du_text;
	struct kept     du_codes[DUMP_CODES];
	char            du_bytes[SHOWN_AT_ONCE];
};

/* ---- On each processor ---- */

static void collect(void *task);

/* Sets the state of the task. Returns false if the dump has given up the processor. */
static bool change_task(struct task *k, int to)
{
	struct dump *d = k->tk_dump;
	bool wanted;

	pthread_mutex_lock(&d->du_lock);
	wanted = k->tk_state != TASK_GONE;
	if (wanted)
		k->tk_state = to;
	k->tk_since = when_now();
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
	    || k->tk_place.pl_depth == SNAP_FRAMES)
		return _URC_END_OF_STACK;
	k->tk_place.pl_frames[k->tk_place.pl_depth++] = at;
	return _URC_NO_REASON;
}

static void trace_frames(void *task)
{
	_Unwind_Backtrace(add_frame, task);
}

/* Finds the calls of `u' by a visit; if that fails, only the place where `u' waits. */
static void find_frames(struct task *k, struct ustack *u, const struct ustack_why *why)
{
	const void *where;

	if (k->tk_dump->du_how & UINSPECT_BRIEF)
		return;
	k->tk_top = usched__top(u);
	k->tk_bottom = u->u_stack->k_bottom;
	if (u->u_stack->k_size - stack_depth(k->tk_bottom, k->tk_top) >= VISIT_ROOM
	    && usched__visit(u, trace_frames, k) == 0 && k->tk_place.pl_depth > 0)
		return;
	where = why->wy_where ? why->wy_where : usched__where(u);
	k->tk_place.pl_frames[0] = (uintptr_t)where;
	k->tk_place.pl_depth = where != NULL;
}

/* Fills in tk_place and *why for `t'. */
static void look_at_thread(struct task *k, struct uproc_thread *t, struct ustack_why *why)
{
	struct ustack *u = &t->th_stack;

	k->tk_place = (struct place){ .pl_func = (uintptr_t)ustack_func(u) };
	k->tk_place.pl_state = uproc__state(t, why);
	if (k->tk_place.pl_state == UPROC_WAITS) {
		k->tk_place.pl_kind = why->wy_kind;
		k->tk_place.pl_how = why->wy_how;
	}
	if (k->tk_place.pl_state != UPROC_IS_NEW)
		find_frames(k, u, why);
}

static void put_processor(struct text *o, const struct task *k)
{
	text_add(o, "processor %u.%u", k->tk_scheduler, k->tk_number);
}

/* Adds the line about `t', which waits as *why says if that is not NULL. */
static void put_thread(struct text *o, const struct task *k, const struct uproc_thread *t,
		       const struct ustack_why *why)
{
	const struct ustack *u = &t->th_stack, *joiner = uproc__joiner(t);
	char name[USTACK_NAME_MAX] = "";

	if (GET(u->u_mail) & UPROC_MAIL_NAMED)
		ustack_get_name(u, name, sizeof name);
	text_thread(o, u, name);
	text_put(o, ", ");
	put_processor(o, k);
	if (why && why->wy_number)
		text_add(o, ", %s %zu", why->wy_kind, (size_t)why->wy_object);
	else if (why && why->wy_object)
		text_add(o, ", %s %p", why->wy_kind, why->wy_object);
	if (why)
		text_put(o, why->wy_more);
	if (why && why->wy_holder)
		text_add(o, ", held by %p", (const void *)why->wy_holder);
	if (joiner)
		text_add(o, ", joined by %p", (const void *)joiner);
	text_put(o, "\n");
}

/* Returns the group of the thread that the task looks at, or NULL if there is no memory.
   Called under du_lock. */
static struct group *group_of(const struct task *k)
{
	struct dump *d = k->tk_dump;
	const struct place *p = &k->tk_place;
	uint64_t hash = p->pl_func;
	struct group **bucket, *g;

	for (size_t i = 0; i < p->pl_depth; i++)
		hash = (hash ^ p->pl_frames[i]) * UINT64_C(0x9e3779b97f4a7c15)
			^ hash >> 29;
	bucket = &d->du_buckets[hash >> 32 & (DUMP_BUCKETS - 1)];
	for (g = *bucket; g; g = g->gr_next)
		if (memcmp(&g->gr_place, p, sizeof *p) == 0)
			return g;
	g = (struct group *)malloc(sizeof *g);
	if (!g)
		return NULL;
	*g = (struct group){ .gr_next = *bucket, .gr_older = d->du_newest,
			     .gr_last = &g->gr_first, .gr_place = *p };
	d->du_newest = *bucket = g;
	d->du_groups++;
	return g;
}

/* Adds the text to the group of the thread that the task looks at. */
static void add_line(struct task *k, const struct text *t)
{
	struct line *line = (struct line *)calloc(1, sizeof *line + t->t_used + 1);
	struct dump *d = k->tk_dump;
	struct group *g;

	if (line)
		memcpy(line->ln_text, t->t_bytes, t->t_used);
	pthread_mutex_lock(&d->du_lock);
	g = line ? group_of(k) : NULL;
	if (g) {
		*g->gr_last = line;
		g->gr_last = &line->ln_next;
		g->gr_count++;
	} else {
		d->du_lost++;
		free(line);
	}
	pthread_mutex_unlock(&d->du_lock);
}

static void add_thread(struct task *k, struct uproc_thread *t)
{
	struct ustack_why why = { .wy_how = "" };
	char line[DUMP_LINE];
	struct text o = TEXT(line, -1);

	if (!uproc__has(k->tk_proc, t) || ustack_func(&t->th_stack) == collect)
		return;
	k->tk_threads++;
	look_at_thread(k, t, &why);
	put_thread(&o, k, t, k->tk_place.pl_kind ? &why : NULL);
	add_line(k, &o);
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
	if (FETCH_ADD(&d->du_users, -(size_t)1) > 1)
		return;
	for (struct group *g = d->du_newest, *older; g; g = older) {
		for (struct line *line = g->gr_first, *next; line; line = next) {
			next = line->ln_next;
			free(line);
		}
		older = g->gr_older;
		free(g);
	}
	for (struct task *k = d->du_tasks, *next; k; k = next) {
		next = k->tk_next;
		free(k);
	}
	pthread_cond_destroy(&d->du_changed);
	pthread_mutex_destroy(&d->du_lock);
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

/* ---- Text ---- */

static const char *const states[] = {
	[UPROC_IS_NEW] = "new", [UPROC_IS_READY] = "ready", [UPROC_IS_WOKEN] = "woken",
	[UPROC_WAITS] = "waits", [UPROC_JOINS] = "joins",
};

static const char *text_of_code(struct dump *d, uintptr_t address)
{
	struct kept *k = &d->du_codes[address / 16 % DUMP_CODES];

	if (k->kp_address != address || !k->kp_text[0]) {
		k->kp_address = address;
		code(k->kp_text, (const void *)address);
	}
	return k->kp_text;
}

/* Adds a line about a processor, and what runs there if it does not answer. */
static void put_task(struct dump *d, const struct task *k)
{
	const struct uinspect_snap *s = &k->tk_snap;
	struct text *o = &d->du_text;

	put_processor(o, k);
	text_add(o, ": threads: %zu",
		 k->tk_state == TASK_DONE ? k->tk_threads : k->tk_all);
	if (k->tk_state == TASK_REFUSED)
		text_put(o, ", not shown: no memory");
	if (k->tk_state == TASK_GONE)
		text_add(o, ", does not answer, shown: %zu", k->tk_threads);
	if (s->sn_thread) {
		text_put(o, ", runs ");
		text_thread(o, s->sn_thread, k->tk_name);
		text_add(o, ", function %s", text_of_code(d, s->sn_func));
	}
	text_put(o, s->sn_count > 0 ? ", at:" : "");
	for (size_t i = 0; i < s->sn_count; i++)
		text_add(o, "\n\t%s", text_of_code(d, s->sn_calls[i] - 1));
	text_put(o, "\n");
}

static void put_group(struct dump *d, const struct group *g)
{
	const struct place *p = &g->gr_place;
	bool one = g->gr_count == 1;
	struct text *o = &d->du_text;

	text_add(o, "\n%zu thread%s, function %s, ", g->gr_count, one ? "" : "s",
		 text_of_code(d, p->pl_func));
	if (p->pl_kind)
		text_add(o, "wait%s for %s%s", one ? "s" : "", p->pl_kind, p->pl_how);
	else
		text_put(o, !one && p->pl_state == UPROC_JOINS ? "join"
							      : states[p->pl_state]);
	text_put(o, p->pl_depth > 0 ? ", at:\n" : "\n");
	for (size_t i = 0; i < p->pl_depth; i++)        /* the last byte of the call */
		text_add(o, "\t%s\n", text_of_code(d, p->pl_frames[i] - 1));
	for (const struct line *line = g->gr_first; line; line = line->ln_next)
		text_put(o, line->ln_text);
}

/* Orders groups by size, the largest first, and then by the address of the function. */
static int compare_groups(const void *a, const void *b)
{
	const struct group *one = *(struct group *const *)a;
	const struct group *other = *(struct group *const *)b;
	uintptr_t x = one->gr_place.pl_func, y = other->gr_place.pl_func;

	if (one->gr_count != other->gr_count)
		return one->gr_count < other->gr_count ? 1 : -1;
	return (x > y) - (x < y);
}

/* Writes the text. Returns 0, -ENOMEM, or an error of write(2). */
static int show_dump(struct dump *d, int fd)
{
	size_t threads = 0, n = 0;
	struct group **groups = (struct group **)
		malloc((d->du_groups + 1) * sizeof(struct group *));

	if (!groups)
		return -ENOMEM;
	for (struct group *g = d->du_newest; g; g = g->gr_older)
		groups[n++] = g;
	qsort(groups, n, sizeof(struct group *), compare_groups);
	for (const struct task *k = d->du_tasks; k; k = k->tk_next)
		threads += k->tk_threads;
	d->du_text = (struct text)TEXT(d->du_bytes, fd);
	d->du_text.t_wait = -1;
	text_add(&d->du_text, "threads: %zu, schedulers: %u", threads, d->du_schedulers);
	if (d->du_lost > 0)
		text_add(&d->du_text, ", not shown for want of memory: %zu", d->du_lost);
	text_put(&d->du_text, "\n");
	for (const struct task *k = d->du_tasks; k; k = k->tk_next)
		put_task(d, k);
	for (size_t i = 0; i < n; i++)
		put_group(d, groups[i]);
	text_flush(&d->du_text);
	free(groups);
	return d->du_text.t_rc ? d->du_text.t_rc : d->du_lost > 0 ? -ENOMEM : 0;
}

/* ---- Dumps ---- */

/* Pins all schedulers, and makes a task for each processor. */
static int make_tasks(struct dump *d)
{
	struct task **last = &d->du_tasks, *k;
	struct uprocs *r = uprocs__pin(UINT32_MAX);

	for (; r; r = uprocs__pin(r->r_number), d->du_schedulers++)
		for (unsigned j = 0; j < LOAD(r->r_made); j++) {
			k = (struct task *)calloc(1, sizeof *k);
			if (!k && j == 0)
				uprocs__unpin(r);
			if (!k)
				return -ENOMEM;
			k->tk_dump = d;
			k->tk_proc = uproc_at(r, j);
			k->tk_scheduler = d->du_schedulers;
			k->tk_number = j;
			*last = k;
			last = &k->tk_next;
		}
	return 0;
}

/* Starts the collector. uprocs_hold() announces a start from outside, so that the threads
   are not taken for deadlocked. */
static int start_collector(struct task *k)
{
	struct uprocs *r = k->tk_proc->p_procs;
	struct ustack *u;
	int rc;

	if (ONE_NATIVE && uproc_self() && uproc_self() != k->tk_proc)
		return -EBUSY;                  /* the other processor cannot run now */
	uprocs_hold(r, 1);
	rc = uproc_start((struct uproc_place){ k->tk_proc, 1 }, NULL, collect, k,
			 ONE_NATIVE ? &u : NULL);
	uprocs_hold(r, 0);
	return rc || !ONE_NATIVE ? rc : ustack_join(u, NULL, USCHED_NEVER);
}

static void ask_all(struct dump *d)
{
	for (struct task *k = d->du_tasks; k; k = k->tk_next) {
		k->tk_since = when_now();
		FETCH_ADD(&d->du_users, 1);
		if (start_collector(k)) {
			k->tk_state = TASK_REFUSED;
			leave_dump(d);
		}
	}
}

/* Returns whether the dump still waits for the task. Gives up the processor if it has not
   answered for SNAP_ANSWER_IN. Called under du_lock. */
static bool expects(struct task *k, int64_t now)
{
	if (k->tk_state >= TASK_DONE)
		return false;
	if (k->tk_state == TASK_BUSY
	    || now - k->tk_since < SNAP_ANSWER_IN * INT64_C(1000000))
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
		for (struct task *k = d->du_tasks; k; k = k->tk_next)
			expected |= expects(k, now);
		if (expected)
			pthread_cond_timedwait(&d->du_changed, &d->du_lock, &t);
	}
	for (struct task *k = d->du_tasks; k; k = k->tk_next)   /* not the collector */
		k->tk_all = uproc_count(k->tk_proc) - (k->tk_state == TASK_GONE);
	pthread_mutex_unlock(&d->du_lock);
}

/* Asks the processors that do not answer what they run. */
static void ask_natives(struct dump *d)
{
	for (struct task *k = d->du_tasks; k; k = k->tk_next)
		if (k->tk_state == TASK_GONE && !k->tk_proc->p_procs->r_conf.c_embed
		    && uinspect__snap(&k->tk_snap, k->tk_proc) && k->tk_snap.sn_thread)
			ustack_get_name(k->tk_snap.sn_thread, k->tk_name,
					sizeof k->tk_name);
}

static int record_here(int fd)
{
	int before = defer_cancel();
	int rc = uproc__observer.po_record ? uproc__observer.po_record(fd) : -ENOTSUP;

	allow_cancel(before);
	return rc;
}

static int dump_threads(int fd, unsigned how)
{
	struct dump *d = (struct dump *)calloc(1, sizeof *d);
	int before, rc;

	if (!d)
		return -ENOMEM;
	d->du_how = how;
	d->du_users = 1;
	pthread_mutex_init(&d->du_lock, NULL);
	when_init_cond(&d->du_changed);
	before = defer_cancel();
	rc = make_tasks(d);
	if (rc == 0) {
		ask_all(d);
		await_all(d);
		ask_natives(d);
	}
	for (struct task *k = d->du_tasks; k; k = k->tk_next)
		if (k->tk_number == 0)
			uprocs__unpin(k->tk_proc->p_procs);
	if (rc == 0)
		rc = show_dump(d, fd);
	leave_dump(d);
	allow_cancel(before);
	return rc;
}

/* Starts `tool' on this process, with `fd' as its output. Returns 0 or -errno. */
static int start_tool(const char *tool, int fd, pid_t *child)
{
	char process[16], *none[] = { NULL };
	const char *words[] = { tool, "bt", "--lost", "--group", process, NULL };
	struct text number = TEXT(process, -1);
	posix_spawn_file_actions_t files;
	posix_spawnattr_t attr;
	sigset_t set;
	int rc;

	text_add(&number, "%u", (unsigned)getpid());
	process[number.t_used] = '\0';
	sigemptyset(&set);
	posix_spawnattr_init(&attr);
	posix_spawnattr_setsigmask(&attr, &set);
	posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETSIGMASK);
	posix_spawn_file_actions_init(&files);
	rc = posix_spawn_file_actions_adddup2(&files, fd, STDOUT_FILENO);
	rc = rc ? rc : posix_spawn_file_actions_adddup2(&files, fd, STDERR_FILENO);
	rc = rc ? rc : posix_spawn(child, tool, &files, &attr, (char **)words, none);
	posix_spawn_file_actions_destroy(&files);
	posix_spawnattr_destroy(&attr);
	return -rc;
}

/*
 * Another process looks for lost threads, since all native threads must stand still, and
 * their registers are needed: of one that blocks signals only ptrace(2) tells them. The
 * code, in tools/usched_view/lost.py, is the same as for core files.
 */
static int show_lost(int fd)
{
	const char *tool = outside_setting("USCHED_LOST");
	int before = defer_cancel(), status = 0, rc = -ENOTSUP;
	char line[64];
	struct text t = TEXT(line, fd);
	pid_t child;

	if (tool) {
		text_put(&t, "\nthreads that nothing can wake:\n\n");
		text_flush(&t);
		prctl(PR_SET_PTRACER, getpid());        /* allows the child */
		rc = t.t_rc ? t.t_rc : start_tool(tool, fd, &child);
	}
	if (rc == 0) {
		while (waitpid(child, &status, 0) < 0 && errno == EINTR)
			;
		rc = status ? -EIO : 0;
	}
	allow_cancel(before);
	return rc;
}

static int dump_here(int fd, unsigned how)
{
	return how & UINSPECT_RECORD ? record_here(fd)
		: how & UINSPECT_LOST ? show_lost(fd) : dump_threads(fd, how);
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
