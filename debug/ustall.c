/* SPDX-License-Identifier: MIT */
/*
 * ustall.c: reports of threads that keep their processor for longer than c_stall.
 *
 *	the monitor         finds a stalled thread, and notes the case
 *	the reporter        finds the thread's calls and all names, and writes the message
 *
 * The stalled thread may hold any lock, for example that of malloc() or of the dynamic
 * linker, and the search for names may wait for that lock. So the reporter is a native
 * thread that does nothing else, and its memory is allocated before. If the reporter has
 * written nothing within LATE, the monitor writes what is known, as numbers, by system
 * calls only.
 *
 * A stretch is the time for which a thread keeps its processor. When a look of the
 * monitor finds that the progress has changed, a new stretch has begun. Its time counts
 * from the end of that look to the start of the present look, so a report never says more
 * than the true time. Time in which the thread had no CPU is left out. But the kernel
 * counts a wait for a CPU only once the wait has ended. So if a thread computes or is
 * ready, only CPU time counts.
 *
 * A signal handler may answer late, so the memory of a reporter is freed only after the
 * native threads of the processors have ended.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE             /* process_vm_readv(), Dl_info in src/base/code.h */
#endif
#include "ustall.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "../src/base/code.h"
#include "../src/base/lock.h"
#include "../src/base/native.h"
#include "../src/proc/slice.h"
#include "../src/base/text.h"
#include "../src/base/when.h"
#include "../uproc.h"
#include "snap.h"

enum {
	SHOWN       = 16,               /* the most calls in a message */
	REPORT_SIZE = 6144,             /* characters of a message */
	MS          = 1000000,          /* ns of a millisecond */
	ANSWER      = 200,              /* ms to wait for a handler's answer */
	LATE        = 500,              /* ms to wait for the reporter's message */
	CPU_PART    = 2,                /* a thread computes if it had a CPU for at least
					   half the time */
	FILE_MAX    = 256,              /* characters of a file in /proc */
};

#define RECORD_EVERY INT64_C(10000000000)       /* ns between records of stalls */

/* The present stretch of a processor. Only the monitor uses this struct. */
struct stretch {
	uint64_t sr_seen;               /* the progress during this stretch */
	int64_t  sr_since;              /* ns: when the stretch began */
	int64_t  sr_cpu;                /* ns: CPU time before the stretch */
	int64_t  sr_waited;             /* ns: waits for a CPU before the stretch */
	int64_t  sr_next;               /* ns from sr_since to the next message */
};

enum how_stalled { ON_CPU, ASLEEP, UNKNOWN };

/* A case: a thread that keeps a processor. */
struct stalled {
	struct usched       *sd_sched;
	const struct ustack *sd_thread;
	uintptr_t            sd_func;   /* the function of the thread, or 0 */
	unsigned             sd_number; /* the number of the processor */
	uint64_t             sd_progress;
	int64_t              sd_time;   /* ns of the stretch, without waits for a CPU */
	int64_t              sd_cpu;    /* ns of sd_time on a CPU */
	enum how_stalled     sd_how;
	long                 sd_call;   /* ASLEEP: the system call, or -1 */
	uintptr_t            sd_time_at;        /* ASLEEP: the call's fourth argument */
	uintptr_t            sd_pc;     /* ASLEEP: the PC */
};

/*
 * The states of us_case. The monitor changes VACANT to POSTED, and the reporter changes
 * POSTED to WRITING, then to VACANT. If the reporter is late, the monitor changes POSTED
 * to GIVEN_UP, and the reporter changes that to VACANT.
 */
enum { VACANT, POSTED, WRITING, GIVEN_UP };

/* The reporter. */
struct ustall {
	const struct upreempt_all *us_all;
	pthread_t            us_native;
	bool                 us_made;   /* the native thread exists */
	sem_t                us_posted;
	uint32_t             us_stop;   /* atomic: 1 if the reporter must end */
	int                  us_state;  /* atomic */
	int64_t              us_since;  /* ns: when the case was POSTED */
	struct stalled       us_case;   /* constant unless us_state is VACANT */
	size_t               us_count;  /* atomic: number of the calls that are known */
	struct uinspect_snap us_snap;
	int64_t              us_record; /* ns: when the next record may be written */
	char                 us_lines[REPORT_SIZE];
	struct stretch       us_stretches[];    /* one for each processor */
};

/* ---- What the monitor finds ---- */

/* Returns the CPU time of the native thread of `s', in ns. */
static int64_t cpu_time(const struct usched *s)
{
	clockid_t clock;

	upreempt__native(s, &clock);
	return when_by(clock);
}

/* Reads a file of /proc about the native thread of `s'. Returns false if that fails. */
static bool read_task(const struct usched *s, const char *file, char bytes[FILE_MAX])
{
	struct text t = { .t_bytes = bytes, .t_room = FILE_MAX, .t_fd = -1 };
	clockid_t clock;
	ssize_t n = -1;
	int fd;

	text_add(&t, "/proc/self/task/%u/%s", (unsigned)upreempt__native(s, &clock),
		 file);
	bytes[t.t_used] = '\0';
	fd = open(bytes, O_RDONLY | O_CLOEXEC);
	if (fd >= 0) {
		n = read(fd, bytes, FILE_MAX - 1);
		close(fd);
	}
	bytes[n > 0 ? n : 0] = '\0';
	return n > 0;
}

/* Returns the ns for which the native thread was ready and had no CPU. Returns -1 if the
   ns are not known, because no descriptor is left to open a file. */
static int64_t waited(const struct usched *s)
{
	char text[FILE_MAX], *at;

	if (!read_task(s, "schedstat", text))
		return -1;
	strtoll(text, &at, 10);                 /* skips the CPU time */
	return strtoll(at, NULL, 10);
}

/* Returns the time of the stretch in ns, without the known waits for a CPU. */
static int64_t time_kept(const struct stretch *h, const struct usched *s, int64_t t)
{
	int64_t w = waited(s);

	return t - h->sr_since
		- (h->sr_waited >= 0 && w > h->sr_waited ? w - h->sr_waited : 0);
}

/* Finds out whether the native thread sleeps. The file says "running"; or has the number
   of a system call, its six arguments, SP and PC; or has -1, SP and PC. */
static void ask_kernel(struct stalled *e)
{
	char text[FILE_MAX], *at, *end;
	bool known = read_task(e->sd_sched, "syscall", text);

	e->sd_how = UNKNOWN;
	if (!known)
		return;
	e->sd_call = strtol(text, &at, 10);
	e->sd_how = at == text ? ON_CPU : ASLEEP;
	for (unsigned i = 1; at != text; i++, at = end) {
		uintptr_t word = strtoul(at, &end, 16);

		if (end == at)
			break;
		if (i == 4)
			e->sd_time_at = word;
		e->sd_pc = word;
	}
}

static void add_words(struct text *t, const struct stalled *e)
{
	if (e->sd_how == UNKNOWN && e->sd_cpu < e->sd_time / CPU_PART) {
		text_put(t, "it sleeps in the kernel, or has no CPU");
	} else if (e->sd_how != ASLEEP) {
		text_put(t, "it computes");
	} else if (e->sd_call < 0) {
		text_put(t, "it sleeps in the kernel");
	} else {
		text_add(t, "it sleeps in system call %u", (unsigned)e->sd_call);
	}
}

/* Adds an address; with `named' also the function, for which locks are taken. */
static void add_code(struct text *t, uintptr_t address, bool named)
{
	if (named)
		code_add(t, address);
	else
		text_hex(t, address);
}

/* Adds the message about `e', of whose calls the first `count' are known. */
static void compose(struct text *t, const struct stalled *e, const char *name,
		    const uintptr_t *calls, size_t count, bool named)
{
	size_t shown = count < SHOWN ? count : SHOWN;

	text_put(t, "usched: stall: ");
	text_thread(t, e->sd_thread, name);
	if (e->sd_func) {
		text_put(t, ", function ");
		add_code(t, e->sd_func, named);
	}
	text_add(t, ", has kept processor %u for %zu ms, %zu ms of that on a CPU: ",
		 e->sd_number, (size_t)(e->sd_time / MS), (size_t)(e->sd_cpu / MS));
	add_words(t, e);
	text_put(t, count > 0 ? ", at\n" : "\n");
	for (size_t i = 0; i < shown; i++) {
		text_put(t, "usched:   ");
		add_code(t, calls[i] - 1, named);
		text_put(t, "\n");
	}
	if (count > shown)
		text_add(t, "usched:   and %zu more\n", count - shown);
}

/* Writes a message of numbers, for the monitor, with the calls if the reporter has found
   them. Does not wait, so the message is lost if standard error is full. */
static void write_numbers(const struct stalled *e, const struct ustall *r)
{
	size_t count = r ? __atomic_load_n(&r->us_count, __ATOMIC_ACQUIRE) : 0;
	struct pollfd ready = { .fd = STDERR_FILENO, .events = POLLOUT };
	char lines[REPORT_SIZE / 2];
	struct text t = TEXT(lines, STDERR_FILENO);

	compose(&t, e, "", r ? r->us_snap.sn_calls : NULL, count, false);
	if (poll(&ready, 1, 0) > 0)
		text_flush(&t);
}

/* Posts a case. If the reporter was given up, writes numbers instead. Returns false if
   the reporter is busy, but will soon be free. */
static bool begin_case(struct ustall *r, const struct stalled *e)
{
	int state = LOAD(r->us_state);

	if (state == GIVEN_UP)
		write_numbers(e, NULL);
	if (state != VACANT)
		return state == GIVEN_UP;
	r->us_case = *e;
	r->us_case.sd_thread = GET(e->sd_sched->s_current);
	if (r->us_case.sd_thread)
		r->us_case.sd_func = function_of(r->us_case.sd_thread);
	r->us_count = 0;
	r->us_since = when_now();
	SWAP(&r->us_state, POSTED);
	sem_post(&r->us_posted);
	return true;
}

static void look_at_stretch(struct ustall *r, size_t i)
{
	struct stretch *h = &r->us_stretches[i];
	struct stalled e = { .sd_number = (unsigned)i };
	int64_t t = when_now();
	clockid_t clock;

	e.sd_sched = upreempt__at(r->us_all, i);
	if (upreempt__native(e.sd_sched, &clock) == 0)
		return;
	if (r->us_all->ua_state(e.sd_sched, &e.sd_progress) != UPREEMPT_RUNS) {
		h->sr_next = 0;
		return;
	}
	if (h->sr_next == 0 || e.sd_progress != h->sr_seen) {
		h->sr_seen = e.sd_progress;
		h->sr_next = r->us_all->ua_limit;
		h->sr_cpu = cpu_time(e.sd_sched);
		h->sr_waited = waited(e.sd_sched);
		h->sr_since = when_now();
		return;
	}
	if (t - h->sr_since < h->sr_next)
		return;
	e.sd_time = time_kept(h, e.sd_sched, t);
	if (e.sd_time < h->sr_next)
		return;
	e.sd_cpu = cpu_time(e.sd_sched) - h->sr_cpu;
	if (e.sd_cpu > e.sd_time)
		e.sd_cpu = e.sd_time;
	ask_kernel(&e);
	if (e.sd_how == ON_CPU && e.sd_cpu < r->us_all->ua_limit)
		return;
	if (begin_case(r, &e))
		while (h->sr_next <= e.sd_time)
			h->sr_next *= 2;
}

static void looked(struct ustall *r)
{
	int state = POSTED;

	if (LOAD(r->us_state) == POSTED && when_now() - r->us_since > (int64_t)LATE * MS
	    && CAS(&r->us_state, &state, GIVEN_UP))
		write_numbers(&r->us_case, r);
}

/* ---- The reporter ---- */

/* Returns whether the thread is still in the stretch of the case. */
static bool is_there(const struct ustall *r)
{
	const struct stalled *e = &r->us_case;
	uint64_t progress;

	return r->us_all->ua_state(e->sd_sched, &progress) == UPREEMPT_RUNS
		&& progress == e->sd_progress;
}

/* Returns whether the thread sleeps, and a signal would end the sleep with EINTR. That is
   not so for a futex(2) without a time, since the kernel goes on with such a wait. */
static bool sleeps_once(const struct stalled *e)
{
	return e->sd_how == ASLEEP && !(e->sd_call == SYS_futex && e->sd_time_at == 0);
}

/* Finds the calls of the thread, or only the PC if the thread must not get a signal. */
static void find_calls(struct ustall *r)
{
	const struct stalled *e = &r->us_case;
	struct uinspect_snap *s = &r->us_snap;

	if (!is_there(r))
		return;
	if (sleeps_once(e)) {
		s->sn_calls[0] = e->sd_pc;
		s->sn_count = e->sd_pc != 0;
	} else {
		uinspect__ask(s, uproc_from(e->sd_sched));
		upreempt__ask(e->sd_sched);
		if (!uinspect__await(s, ANSWER))
			return;
	}
	if (is_there(r))
		__atomic_store_n(&r->us_count, s->sn_count, __ATOMIC_RELEASE);
}

static void answer_snap(struct ustall *r, const struct usched *s, const void *context)
{
	uinspect__answer(&r->us_snap, s, context);
}

static void compose_named(struct ustall *r, struct text *t)
{
	const struct ustack *u = r->us_case.sd_thread;
	char name[USTACK_NAME_MAX] = "";

	if (u)
		ustack_get_name(u, name, sizeof name);
	if (!is_there(r))                       /* the name may be another thread's */
		name[0] = '\0';
	compose(t, &r->us_case, name, r->us_snap.sn_calls, r->us_count, true);
}

/* Writes the message to standard error, or line by line to c_log. */
static void write_text(const struct ustall *r, struct text *t)
{
	char *at = t->t_bytes, *end;

	if (!r->us_all->ua_log) {
		t->t_fd = STDERR_FILENO;
		text_flush(t);
		return;
	}
	while ((end = (char *)memchr(at, '\n', (size_t)(t->t_bytes + t->t_used - at)))) {
		*end = '\0';
		r->us_all->ua_log(at);
		at = end + 1;
	}
}

/* Keeps the record of the first of several stalls for a while. */
static void record_stall(struct ustall *r)
{
	int64_t now = when_now();

	if (now >= r->us_record && uproc__observer.po_record
	    && uproc__observer.po_record(-1) == 0)
		r->us_record = now + RECORD_EVERY;
}

static void *report_stalls(void *reporter)
{
	struct ustall *r = (struct ustall *)reporter;

	name_native("usched reporter");
	for (;;) {
		struct text t = TEXT(r->us_lines, -1);
		int state = POSTED;

		while (sem_wait(&r->us_posted))
			;
		if (LOAD(r->us_stop))
			break;
		find_calls(r);
		compose_named(r, &t);
		if (CAS(&r->us_state, &state, WRITING)) {
			write_text(r, &t);
			record_stall(r);
		}
		SWAP(&r->us_state, VACANT);
	}
	return NULL;
}

/* ---- The table ---- */

static int make_reporter(struct ustall **result, const struct upreempt_all *all)
{
	struct ustall *r = (struct ustall *)
		calloc(1, sizeof *r + all->ua_count * sizeof r->us_stretches[0]);
	int rc;

	if (!r)
		return -ENOMEM;
	r->us_all = all;
	sem_init(&r->us_posted, 0, 0);
	*result = r;
	rc = start_native(&r->us_native, report_stalls, r);
	r->us_made = rc == 0;
	return rc;
}

static void stop(struct ustall *r)
{
	if (!r->us_made)
		return;
	SWAP(&r->us_stop, 1);
	sem_post(&r->us_posted);
	pthread_join(r->us_native, NULL);
	r->us_made = false;
}

static void free_reporter(struct ustall *r)
{
	stop(r);
	sem_destroy(&r->us_posted);
	free(r);
}

void ustall_install(void)
{
	static const struct upreempt_stalls table = {
		make_reporter, stop, free_reporter, look_at_stretch, looked, answer_snap,
	};

	upreempt__report(&table);
}
#ifdef USCHED_CHECK
__attribute__((constructor)) static void install_stalls(void)
{
	ustall_install();
}
#endif
