/* SPDX-License-Identifier: MIT */
/*
 * upreempt.c: slices of time, and the monitor of processors. upreempt_region.c has the
 * regions that a signal interrupts. The monitor also makes debug/ustall.c look at
 * threads that keep their processor for too long: see src/proc/slice.h.
 *
 * The monitor. No switch notes the time, as that would make each switch slower. But
 * count() tells how many switches there were, plus how many times a thread gave way. The
 * monitor looks at the count of each processor once in a slice, and notes when the count
 * was first seen. Between one and two slices after the last change the monitor sets
 * s_over, and stores the count in sl_over. If another thread runs by then, that thread
 * finds another count, and goes on. A thread that gives way notes the time, so the next
 * thread has one slice. If all processors are idle in some looks in a row, the monitor
 * sets mo_asleep, and sleeps if all inboxes still have the mark PARKED. A processor
 * removes the mark before it reads mo_asleep. So either the monitor finds the mark gone,
 * or the processor sees mo_asleep and wakes the monitor.
 *
 * Without a monitor s_over is always 1, and ustack_check() keeps the same notes. Without
 * c_slice no monitor ends slices. A slice is then BUDGET_SPELL, as for calls that never
 * wait (src/wait/budget.h).
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE             /* for pthread_setname_np() */
#endif
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "../wait/budget.h"
#include "../base/native.h"
#include "../core/core.h"
#include "slice.h"
#include "../base/when.h"
#include "../../ustack.h"

enum {
	EARLY       = 8,        /* a slice is over when 1/8 of the slice is left */
	QUIET       = 8,        /* looks in a row at idle processors before a sleep */
	SKIP_MAX    = 32,       /* the most calls of ustack_check() from one look at the
				   clock to the next: then a look costs each call 1 ns */
	OFTEN       = 32,       /* the most looks at the clock in a slice */
	SELDOM      = 8,        /* the fewest looks at the clock in a slice */
	STALL_LOOKS = 2,        /* looks of the monitor in c_stall ns */
};

#ifdef USCHED_TSAN
enum { MONITORED = 0 };
#else
enum { MONITORED = 1 };
#endif

extern inline int ustack_check(void);

/* ---- Slices of a dispatcher ---- */

/* The table that ustall_install() has registered, or NULL. */
static const struct upreempt_stalls *stalls;

void upreempt__report(const struct upreempt_stalls *table)
{
	__atomic_store_n(&stalls, table, __ATOMIC_RELEASE);
}

int slice__is_over(struct usched *s, struct ustack *u, void *context)
{
	(void)u;
	(void)context;
	return GET(slice_of(s)->sl_over) == count(s);
}

/* ---- ustack_check() ---- */

void slice__count_given(struct usched *s)
{
	struct slice *l = slice_of(s);

	SET(s->s_stats.st_preempted, s->s_stats.st_preempted + 1);
	SET(l->sl_gave_at, when_now());
	__atomic_store_n(&l->sl_gave, count(s), __ATOMIC_RELEASE);
}

/*
 * Returns whether the clock says that the slice is over. Adapts sl_skip so that the
 * clock is read between SELDOM and OFTEN times in a slice, however far apart the calls
 * are. After a wait the first call does not read the clock, and the second call does.
 */
static bool clock_over(struct slice *l, struct usched *s)
{
	int64_t t, passed;

	if (l->sl_seen != count(s)) {
		l->sl_seen = count(s);
		l->sl_since = 0;
		l->sl_skip = 1;
		return false;
	}
	if (++l->sl_calls < l->sl_skip)
		return false;
	t = when_now();
	passed = t - l->sl_looked;
	l->sl_calls = 0;
	l->sl_looked = t;
	if (passed > l->sl_length / SELDOM && l->sl_skip > 1)
		l->sl_skip /= 2;
	else if (passed < l->sl_length / OFTEN && l->sl_skip < SKIP_MAX)
		l->sl_skip *= 2;
	if (l->sl_since == 0)
		l->sl_since = t;
	return t - l->sl_since >= l->sl_length;
}

/* Begins a slice of the running thread. Its next ustack_check() reads the clock. */
BY_THREADS static void begin_turn(void)
{
	struct usched *s = usched__current;
	struct slice *l = slice_of(s);

	if (!l || l->sl_monitored)
		return;
	l->sl_seen = count(s);
	l->sl_since = l->sl_looked = when_now();
	l->sl_calls = 0;
	l->sl_skip = 1;
}

static int yield_slice(struct usched *s)
{
	struct slice *l = slice_of(s);
	int rc;

	if (!l->sl_monitored) {
		if (!clock_over(l, s))
			return 0;
	} else {
		SET(s->s_over, 0);
		if (GET(l->sl_over) != count(s))
			return 0;               /* s_over was for another thread */
	}
	slice__count_given(s);
	rc = ustack_yield();
	begin_turn();
	return rc;
}

static void end_slices(struct upreempt *q)
{
	free(q);
}

int slice__begin(struct usched *s, struct slice **slice)
{
	struct slice *l = (struct slice *)calloc(1, sizeof *l);

	if (!l)
		return -ENOMEM;
	l->sl_head = (struct upreempt){ s, end_slices };
	l->sl_blind.s_slice = &l->sl_head;
	SET(usched__observer.ob_give_way, &yield_slice);
	s->s_slice = &l->sl_head;
	*slice = l;
	return 0;
}

int upreempt__begin(struct usched *s, int64_t length, int64_t stall, bool monitored)
{
	struct slice *l;
	int rc;

#ifdef USCHED_WHOLE             /* libusched-check.a: links ustall.o, too */
	extern void ustall_install(void);

	__asm__ volatile("" : : "r"(ustall_install));
#endif
	if (MONITORED && stall && !__atomic_load_n(&stalls, __ATOMIC_ACQUIRE)) {
		if (!IS_CHECKED)
			return -ENOTSUP;
		stall = 0;
	}
	rc = slice__begin(s, &l);
	if (rc)
		return rc;
	if (MONITORED && monitored && !slice_on_valgrind())
		l->sl_stall = stall;
	l->sl_monitored = MONITORED && monitored && length && usched__probe() > 0;
	l->sl_length = length ? length : BUDGET_SPELL;
	l->sl_since = when_now();       /* the count has been 0 since now */
	l->sl_skip = 1;
	if (!l->sl_monitored)
		s->s_over = 1;
	s->s_calls.s_preempt = slice__is_over;
	return 0;
}

int64_t upreempt__longest(const struct usched *s)
{
	const struct slice *l = slice_of(s);

	return l->sl_monitored ? GET(l->sl_longest) : -1;
}

struct upreempt_monitor {
	pthread_mutex_t    mo_lock;
	pthread_cond_t     mo_changed;
	pthread_t          mo_native;
	bool               mo_stop;     /* under mo_lock */
	uint32_t           mo_asleep;   /* atomic: 1: sleeps until upreempt__wake() */
	struct upreempt_all mo_all;
	struct ustall     *mo_reporter; /* the reporter of stalls, or NULL */
	int64_t            mo_period;   /* ns from a look to the next */
};

/* The handler that the process had before install(). */
static struct sigaction previous;

/* The values of the monitor's signals, which say what is wanted. No other sender knows
   these addresses. */
static const char marks[2] = { 0 };
#define YIELD (&marks[0])
#define SNAP  (&marks[1])
static pthread_mutex_t installing = PTHREAD_MUTEX_INITIALIZER;

/* ---- Signals of the monitor ---- */

/* Sends SIGURG with the value `mark', which tells on_signal() the purpose. */
static void interrupt_slice(const struct slice *l, const char *mark)
{
	siginfo_t info;

	memset(&info, 0, sizeof info);
	info.si_signo = SIGURG;
	info.si_code = SI_QUEUE;
	info.si_pid = getpid();
	info.si_uid = getuid();
	info.si_value.sival_ptr = (void *)(uintptr_t)mark;
	syscall(SYS_rt_tgsigqueueinfo, info.si_pid, GET(l->sl_tid), SIGURG, &info);
}

pid_t upreempt__native(const struct usched *s, clockid_t *clock)
{
	const struct slice *l = slice_of(s);
	pid_t tid = __atomic_load_n(&l->sl_tid, __ATOMIC_ACQUIRE);

	*clock = l->sl_clock;
	return tid;
}

void upreempt__ask(const struct usched *s)
{
	interrupt_slice(slice_of(s), SNAP);
}

/* Answers upreempt__ask(). Runs in the signal handler on a processor's native thread. */
static void answer(const void *context)
{
	struct slice *l = slice_of(usched__current);
	int error = errno;

	if (l && l->sl_reporter)
		stalls->ts_answer(l->sl_reporter, l->sl_head.pr_sched, context);
	errno = error;
}

/* Hands a SIGURG of another sender to the previous handler. Without such a handler the
   signal is ignored, as by default. */
static void chain(int signal, siginfo_t *info, void *context)
{
	if (previous.sa_flags & SA_SIGINFO)
		previous.sa_sigaction(signal, info, context);
	else if (previous.sa_handler != SIG_DFL && previous.sa_handler != SIG_IGN)
		previous.sa_handler(signal);
}

static void on_signal(int signal, siginfo_t *info, void *context)
{
	const void *mark = info->si_code == SI_QUEUE ? info->si_value.sival_ptr : NULL;

	if (mark == YIELD)
		upreempt(context);
	else if (mark == SNAP)
		answer(context);
	else
		chain(signal, info, context);
}

/*
 * Installs the handler, unless it is installed. The handler stays for ever, since signals
 * may still be on their way. For slices the handler is installed without SA_ONSTACK, so
 * that the handler runs on the thread's stack.
 */
static void install(int flags)
{
	struct sigaction action, now;
	bool ours;

	memset(&action, 0, sizeof action);
	action.sa_sigaction = on_signal;
	action.sa_flags = SA_SIGINFO | SA_RESTART | flags;
	sigemptyset(&action.sa_mask);
	pthread_mutex_lock(&installing);
	if (sigaction(SIGURG, NULL, &now) == 0) {
		ours = now.sa_flags & SA_SIGINFO && now.sa_sigaction == on_signal;
		if (!ours)
			previous = now;
		if (!ours || (now.sa_flags & SA_ONSTACK && !flags))
			sigaction(SIGURG, &action, NULL);
	}
	pthread_mutex_unlock(&installing);
}

void upreempt__hold(int on)
{
	(on ? pthread_mutex_lock : pthread_mutex_unlock)(&installing);
}

/* ---- The monitor ---- */

/* Returns whether a signal may make the running thread give way. Outside of regions the
   thread must have computed ever since the last look, since the signal may end a system
   call. */
static bool can_interrupt(struct slice *l, enum upreempt_state state, uint64_t progress)
{
	uint64_t seen = l->sl_progress;
	int64_t before = l->sl_cpu;

	if (GET(l->sl_region))
		return true;
	if (state != UPREEMPT_RUNS || !OBSERVER(ob_may_stop) || !GET(l->sl_tid))
		return false;
	l->sl_progress = progress;
	l->sl_cpu = when_by(l->sl_clock);
	return progress == seen && l->sl_cpu - before >= l->sl_length / EARLY;
}

static void look_at_slice(struct slice *l, struct usched *s, bool idle, bool can)
{
	uint64_t counted = count(s);
	int64_t t = when_now();

	if (idle || counted != l->sl_seen) {
		l->sl_seen = counted;
		l->sl_since = t;
		if (counted - __atomic_load_n(&l->sl_gave, __ATOMIC_ACQUIRE) <= 1
		    && GET(l->sl_gave_at))
			l->sl_since = GET(l->sl_gave_at);
	}
	if (!idle && t - l->sl_since > l->sl_longest)
		SET(l->sl_longest, t - l->sl_since);
	if (!idle && t - l->sl_since >= l->sl_length - l->sl_length / EARLY) {
		SET(l->sl_over, counted);
		__atomic_store_n(&s->s_over, 1, __ATOMIC_RELEASE);
		if (can) {
			install(0);             /* the program may have a new handler */
			interrupt_slice(l, YIELD);
		}
	}
}

static bool look_at(struct upreempt_monitor *m, size_t i)
{
	struct usched *s = upreempt__at(&m->mo_all, i);
	struct slice *l = slice_of(s);
	uint64_t progress;
	enum upreempt_state state = m->mo_all.ua_state(s, &progress);

	if (l->sl_monitored)
		look_at_slice(l, s, state == UPREEMPT_IDLE,
			      can_interrupt(l, state, progress));
	if (m->mo_reporter)
		stalls->ts_look(m->mo_reporter, i);
	return state != UPREEMPT_IDLE;
}

/* Looks at all processors. Returns whether a processor is not idle. */
static bool look(struct upreempt_monitor *m)
{
	bool busy = false;

	for (size_t i = 0; i < m->mo_all.ua_count; i++)
		busy |= look_at(m, i);
	if (m->mo_reporter)
		stalls->ts_looked(m->mo_reporter);
	return busy;
}

static void wait_period(struct upreempt_monitor *m)
{
	int64_t until = when_now() + m->mo_period;
	struct timespec t = when_of(until);

	while (!m->mo_stop
	       && pthread_cond_timedwait(&m->mo_changed, &m->mo_lock, &t) != ETIMEDOUT)
		;
}

static void *monitor(void *arg)
{
	struct upreempt_monitor *m = (struct upreempt_monitor *)arg;
	unsigned quiet = 0;

	name_native("usched monitor");
	pthread_mutex_lock(&m->mo_lock);
	while (!m->mo_stop) {
		quiet = look(m) ? 0 : quiet + 1;
		if (quiet <= QUIET) {
			wait_period(m);
			continue;
		}
		SWAP(&m->mo_asleep, 1);
		if (!look(m))
			while (LOAD(m->mo_asleep) && !m->mo_stop)
				pthread_cond_wait(&m->mo_changed, &m->mo_lock);
		SWAP(&m->mo_asleep, 0);
		quiet = 0;
	}
	pthread_mutex_unlock(&m->mo_lock);
	return NULL;
}

void upreempt__unwatch(struct upreempt_monitor *m)
{
	if (m->mo_reporter)
		stalls->ts_free(m->mo_reporter);
	pthread_cond_destroy(&m->mo_changed);
	pthread_mutex_destroy(&m->mo_lock);
	free(m);
}

void upreempt__adopt(struct usched *s)
{
	struct slice *l = slice_of(s);
	sigset_t one;

	if (!l->sl_monitored && l->sl_stall == 0)
		return;
	sigemptyset(&one);
	sigaddset(&one, SIGURG);
	pthread_sigmask(SIG_UNBLOCK, &one, NULL);
	pthread_sigmask(SIG_SETMASK, NULL, &l->sl_mask);
	if (pthread_getcpuclockid(pthread_self(), &l->sl_clock))
		l->sl_clock = CLOCK_MONOTONIC;
	__atomic_store_n(&l->sl_tid, (pid_t)syscall(SYS_gettid), __ATOMIC_RELEASE);
}

int upreempt__watch(struct upreempt_monitor **result, char *first, size_t stride,
		    size_t n, upreempt__state_fn *state, upreempt__log_fn *log)
{
	const struct slice *l = slice_of((struct usched *)(void *)first);
	int64_t stall = l->sl_stall;
	struct upreempt_monitor *m;
	int rc = 0;

	*result = NULL;
	if (!l->sl_monitored && stall == 0)
		return 0;
	m = (struct upreempt_monitor *)calloc(1, sizeof *m);
	if (!m)
		return -ENOMEM;
	m->mo_all = (struct upreempt_all){ first, stride, n, state, log, stall };
	m->mo_period = stall ? stall / STALL_LOOKS : INT64_MAX;
	if (l->sl_monitored && l->sl_length < m->mo_period)
		m->mo_period = l->sl_length;
	pthread_mutex_init(&m->mo_lock, NULL);
	when_init_cond(&m->mo_changed);
	install(l->sl_monitored ? 0 : SA_ONSTACK);
	if (stall)
		rc = stalls->ts_make(&m->mo_reporter, &m->mo_all);
	for (size_t i = 0; i < n; i++)
		slice_of(upreempt__at(&m->mo_all, i))->sl_reporter = m->mo_reporter;
	if (rc == 0)
		rc = start_native(&m->mo_native, monitor, m);
	if (rc == 0)
		*result = m;
	else
		upreempt__unwatch(m);
	return rc;
}

void upreempt__stop(struct upreempt_monitor *m)
{
	pthread_mutex_lock(&m->mo_lock);
	m->mo_stop = true;
	pthread_cond_signal(&m->mo_changed);
	pthread_mutex_unlock(&m->mo_lock);
	pthread_join(m->mo_native, NULL);
	if (m->mo_reporter)
		stalls->ts_stop(m->mo_reporter);
}

void upreempt__wake(struct upreempt_monitor *m)
{
	if (!LOAD(m->mo_asleep))
		return;
	pthread_mutex_lock(&m->mo_lock);
	SWAP(&m->mo_asleep, 0);
	pthread_cond_signal(&m->mo_changed);
	pthread_mutex_unlock(&m->mo_lock);
}
