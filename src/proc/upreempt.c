/* SPDX-License-Identifier: MIT */
/*
 * upreempt.c: slices of time: the monitor of processors, and threads that are interrupted
 * by a signal. upreempt.h has the picture. The monitor also has debug/ustall.c look at
 * threads that keep their processor for too long: src/proc/stall.h.
 *
 * The monitor. No switch notes the time: that would cost each of them. But each counts,
 * and so does each time that a thread gives way. So the monitor looks at these counters
 * once in a slice, and notes since when one has not changed. Between one and two slices
 * after a switch without another it sets s_over, with the count for which that is so: a
 * later thread finds another count, and goes on. A thread that gives way notes the time,
 * so the next one has one slice. When all processors were idle a few times in a row the
 * monitor sleeps until one is not. A processor that was parked then looks at m_asleep,
 * and the monitor at the mark of the parked after it has set that: one of them sees the
 * other.
 *
 * Where there is no monitor, s_over is always 1, and ustack_check() keeps the same notes.
 * Without c_slice there is none either: a slice is BUDGET_SPELL then, as for calls that
 * never wait (src/wait/budget.h).
 *
 * The signal. A region is where usched__current is the stand-in, l_blind. Only then does
 * the handler do anything, so code of usched, which begins and ends regions, is never
 * interrupted, wherever its text is. The handler yields if
 *
 *  - the interrupted instruction is in the main program, which is linked dynamically:
 *    other code may hold locks, of malloc() for example, that the next thread needs;
 *  - the signal mask is that of the beginning of the region, so this is not inside
 *    another handler;
 *  - SP is in the thread's stack, and its image has room (R4): nothing is allocated for
 *    the thread.
 *
 * The kernel has set other control words and another mask for the handler. These belong
 * to the native thread, so others get those of the beginning of the region. When the
 * thread runs again the signal is blocked until the handler returns: there is one frame
 * of a signal at most.
 *
 * The state of a region is the running thread's: one place for each dispatcher is enough,
 * and upreempt() keeps it in its frame meanwhile.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE             /* pthread_condattr_setclock() */
#endif
#include "../../upreempt.h"

#include <errno.h>
#include <link.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/syscall.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

#include "../../arch/arch.h"
#include "../wait/budget.h"
#include "../base/lock.h"
#include "../base/native.h"
#include "../core/core.h"
#include "../core/observer.h"
#include "stall.h"
#include "../base/when.h"
#include "../../ustack.h"

#ifndef AT_MINSIGSTKSZ
#define AT_MINSIGSTKSZ 51
#endif

enum {
	SIGNAL_MIN  = 4096,     /* bytes of a signal's frame, if the kernel is silent */
	HANDLER     = 2048,     /* bytes: frames from the handler to the switch */
	DEEPER      = 2048,     /* bytes: frames of functions in a region */
	ON_VALGRIND = 0x1001,   /* a request: memcheck does not know signal frames */
	MASK_BYTES  = 8,        /* of a sigset_t: what the kernel has of it */
	SIGNALS     = 65,
	EARLY       = 8,        /* this part of a slice may be missing at a look */
	QUIET       = 8,        /* looks at idle processors before it sleeps */
	SKIP_MAX    = 32,       /* calls of ustack_check() for a look at the clock: that
				   is 1 ns for a call, and so many may grow at once */
	OFTEN       = 32,       /* looks at the clock in a slice: more are too many, */
	SELDOM      = 8,        /* and less are too few */
	SHORT_TURN  = 100000,   /* ns */
	STALL_LOOKS = 2,        /* looks in the time of a stall */
};

/* Not inlined, for the reason in uabi.h. */
#define BY_THREADS __attribute__((noinline))

/* Why regions cannot be interrupted in this build, whatever the program is. */
#if defined(USCHED_TSAN) || USCHED_HAS(memory_sanitizer) \
	|| USCHED_HAS(address_sanitizer)        /* clang's: linked into the program */
enum { BY_SIGNAL = 0 };
#else
enum { BY_SIGNAL = 1 };
#endif
#ifdef USCHED_TSAN
enum { MONITORED = 0 };
#else
enum { MONITORED = 1 };
#endif

struct slice {
	struct upreempt l_head;         /* first */
	struct usched   l_blind;        /* the stand-in */
	struct ustack   l_none;         /* its thread, in check builds: it asks s_pick */
	int64_t         l_length;       /* ns; constant, as the next one */
	int             l_signal;       /* 0: none, and no monitor of slices */
	int64_t         l_stall;        /* ns; 0: none is reported; constant */
	int             l_ask;          /* the signal for that; constant */
	struct ustall  *l_reporter;     /* the monitor's, or NULL; constant */
	clockid_t       l_clock;        /* CPU time of its native thread, before l_tid */
	pid_t           l_tid;          /* atomic: of its native thread */

	/* Of the running thread, which is in a region. */
	uint32_t        l_region;       /* atomic: 1: it is */
	sigset_t        l_mask;         /* at the beginning of that, */
	uint64_t        l_words;        /* and the control words */

	/* The program's code, written when the first region begins. */
	uintptr_t       l_text, l_text_end;

	/* The monitor's; without one, of the dispatcher's native thread. */
	uint64_t        l_seen;         /* a count, and the time since when */
	int64_t         l_since;
	int64_t         l_longest;      /* atomic: the longest time seen without change */
	uint64_t        l_over;         /* atomic: the count when the slice was over */
	uint64_t        l_gave;         /* atomic: when a thread gave way last: */
	int64_t         l_gave_at;      /* the count before the next ran, and the time */
	int64_t         l_looked;       /* the last look at the clock, */
	unsigned        l_calls;        /* calls since then, */
	unsigned        l_skip;         /* and how many until the next */
};

extern inline int ustack_check(void);

/* ---- Slices of a dispatcher ---- */

static struct slice *slice_of(const struct usched *s)
{
	return (struct slice *)(void *)s->s_slice;
}

static bool is_blind(const struct usched *s)
{
	const struct slice *l = slice_of(s);

	return l && s == &l->l_blind;
}

/* Changes with each switch, and with each time that a thread gives way. */
static uint64_t count(const struct usched *s)
{
	return GET(s->s_stats.s_switches) + GET(s->s_stats.s_preempted);
}

/* In check builds: `call' is one that no region may contain. */
static void called(const char *call)
{
	const struct usched *s = usched__here();
	const struct ustack *u;

	if (!is_blind(s))
		return;
	u = slice_of(s)->l_head.q_sched->s_current;
	fprintf(stderr, "usched: %s was called in a preemptible region, by thread %p, "
		"function %p\n", call, (const void *)u,
		(void *)(uintptr_t)ustack_func(u));
	abort();
}

/* ustack_wait() is inlined into programs, which were compiled without checks. */
static struct ustack *called_wait(struct usched *s, struct ustack *self)
{
	(void)s;
	called("ustack_wait");
	return self;
}

/* Of ustall_install(), or NULL. */
static const struct upreempt_stalls *stalls;

void upreempt__report(const struct upreempt_stalls *table)
{
	__atomic_store_n(&stalls, table, __ATOMIC_RELEASE);
}

/* The policy of processors: what the monitor has found still holds. */
static int is_over(struct usched *s, struct ustack *u, void *context)
{
	(void)u;
	(void)context;
	return GET(slice_of(s)->l_over) == count(s);
}

/* ---- Signals ---- */

static bool may_give_way(const struct slice *l, const ucontext_t *context)
{
	uintptr_t at = usched__interrupted(context);

	return at >= l->l_text && at < l->l_text_end
		&& memcmp(&context->uc_sigmask, &l->l_mask, MASK_BYTES) == 0
		&& usched__fits(l->l_head.q_sched,
				(char *)__builtin_frame_address(0) - HANDLER);
}

/* ---- ustack_check() ---- */

/* The running thread gives way now. */
static void count_given(struct usched *s)
{
	struct slice *l = slice_of(s);

	SET(s->s_stats.s_preempted, s->s_stats.s_preempted + 1);
	SET(l->l_gave_at, when_now());
	__atomic_store_n(&l->l_gave, count(s), __ATOMIC_RELEASE);
}

/*
 * Reads the clock some times in a slice, however long it is from call to call. The first
 * call behind a wait does not look, and the next ones do.
 */
static bool clock_over(struct slice *l, struct usched *s)
{
	int64_t t, passed;

	if (l->l_seen != count(s)) {
		l->l_seen = count(s);
		l->l_since = 0;
		l->l_skip = 1;
		return false;
	}
	if (++l->l_calls < l->l_skip)
		return false;
	t = when_now();
	passed = t - l->l_looked;
	l->l_calls = 0;
	l->l_looked = t;
	if (passed > l->l_length / SELDOM && l->l_skip > 1)
		l->l_skip /= 2;
	else if (passed < l->l_length / OFTEN && l->l_skip < SKIP_MAX)
		l->l_skip *= 2;
	if (l->l_since == 0)
		l->l_since = t;
	return t - l->l_since >= l->l_length;
}

/* Its next call looks. */
BY_THREADS static void begin_turn(void)
{
	struct usched *s = usched__current;
	struct slice *l = slice_of(s);

	if (!l || l->l_signal)
		return;
	l->l_seen = count(s);
	l->l_since = l->l_looked = when_now();
	l->l_calls = 0;
	l->l_skip = 1;
}

static int yield_slice(struct usched *s)
{
	struct slice *l = slice_of(s);
	int rc;

	if (!l->l_signal) {
		if (!clock_over(l, s))
			return 0;
	} else {
		SET(s->s_over, 0);
		if (GET(l->l_over) != count(s))
			return 0;               /* it was another thread's */
	}
	count_given(s);
	rc = ustack_yield();
	begin_turn();
	return rc;
}

/* ---- Regions ---- */

/* Compilers move nothing of the program across these. */
#define BARRIER() __asm__ volatile("" : : : "memory")

static void enter_region(struct slice *l)
{
	SET(l->l_region, 1);
	BARRIER();
	usched__current = &l->l_blind;
	BARRIER();
}

/* The s_leave of the stand-in, for threads that end in a region, too. */
static void leave_region(struct usched *s)
{
	struct slice *l = slice_of(s);

	BARRIER();
	usched__current = l->l_head.q_sched;
	BARRIER();
	SET(l->l_region, 0);
}

/* Below the frame of the signal. Blocks the thread until its next turn. */
static void give_way(struct slice *l)
{
	struct usched *s = l->l_head.q_sched;
	struct usched_stack *k = s->s_current->u_stack;
	sigset_t mask = l->l_mask, all;
	uint64_t words = l->l_words;
	uint8_t stays = k->k_stays;

	leave_region(s);
	pthread_sigmask(SIG_SETMASK, &mask, NULL);
	if (!(s->s_owns & USCHED_OWNS))
		usched__set_control(words);
	SET(s->s_over, 0);
	count_given(s);
	k->k_stays = stays | USCHED_INTERRUPTED;
	s->s_calls.s_yield(s);                  /* if it cannot, the thread goes on */
	k->k_stays = stays;
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, NULL);
	l->l_mask = mask;
	l->l_words = words;
	enter_region(l);
}

BY_THREADS int upreempt(void *context)
{
	struct usched *s = usched__current;
	struct slice *l = slice_of(s);
	int error = errno, gives;

	if (!is_blind(s) || !may_give_way(l, (const ucontext_t *)context))
		return 0;
	s = l->l_head.q_sched;
	gives = s->s_calls.s_preempt(s, s->s_current, context) != 0;
	if (gives)
		give_way(l);
	errno = error;
	return gives;
}

static void end_slices(struct upreempt *q)
{
	free(q);
}

static int begin_slice(struct usched *s, struct slice **slice)
{
	struct slice *l = (struct slice *)calloc(1, sizeof *l);

	if (!l)
		return -ENOMEM;
	l->l_head = (struct upreempt){ s, end_slices };
	l->l_blind.s_slice = &l->l_head;
	l->l_blind.s_leave = leave_region;
	if (IS_CHECKED) {
		l->l_blind.s_current = &l->l_none;
		l->l_blind.s_inside = &l->l_none;
		l->l_blind.s_calls.s_pick = called_wait;
		__atomic_store_n(&usched__observer.o_called, &called, __ATOMIC_RELAXED);
	}
	__atomic_store_n(&usched__observer.o_give_way, &yield_slice, __ATOMIC_RELAXED);
	s->s_slice = &l->l_head;
	*slice = l;
	return 0;
}

int upreempt__begin(struct usched *s, int64_t length, int64_t stall, int signal)
{
	const uintptr_t request[6] = { ON_VALGRIND };
	struct slice *l;
	int rc;

#ifdef USCHED_WHOLE             /* libusched-check.a: brings it into the program */
	extern void ustall_install(void);

	__asm__ volatile("" : : "r"(ustall_install));
#endif
	if (signal < 0 || signal >= SIGNALS)
		return -EINVAL;
	if (MONITORED && stall && !__atomic_load_n(&stalls, __ATOMIC_ACQUIRE)) {
		if (!IS_CHECKED)
			return -ENOTSUP;
		stall = 0;
	}
	rc = begin_slice(s, &l);
	if (rc)
		return rc;
	if (MONITORED && signal && !usched__valgrind(request)) {
		l->l_stall = stall;
		l->l_ask = signal;
	}
	if (MONITORED && length && usched__probe() > 0)
		l->l_signal = signal;
	l->l_length = length ? length : BUDGET_SPELL;
	l->l_since = when_now();        /* of count 0, which nothing has changed yet */
	l->l_skip = 1;
	if (!l->l_signal)
		s->s_over = 1;
	s->s_calls.s_preempt = is_over;
	return 0;
}

int64_t upreempt__longest(const struct usched *s)
{
	const struct slice *l = slice_of(s);

	return l->l_signal ? GET(l->l_longest) : -1;
}

/*
 * Finds the code of the main program, without dl_iterate_phdr(), whose lock may stay
 * closed in the child of a fork. Parts between its first and its last instruction that
 * are not code are never interrupted. Without an interpreter the program is static: libc
 * is a part of it, and the two cannot be told apart.
 */
static bool find_text(struct slice *l)
{
	const ElfW(Phdr) *parts = (const ElfW(Phdr) *)getauxval(AT_PHDR);
	uintptr_t at = 0, first = 0, end = 0;
	bool dynamic = false;

	for (unsigned i = 0; i < getauxval(AT_PHNUM); i++) {
		const ElfW(Phdr) *part = &parts[i];
		uintptr_t from = at + part->p_vaddr;

		if (part->p_type == PT_PHDR)            /* before all that are loaded */
			at = (uintptr_t)parts - part->p_vaddr;
		dynamic |= part->p_type == PT_INTERP;
		if (part->p_type != PT_LOAD || !(part->p_flags & PF_X))
			continue;
		if (end == 0)
			first = from;
		end = from + part->p_memsz;             /* they are in order */
	}
	l->l_text = first;
	l->l_text_end = dynamic ? end : 0;
	return dynamic;
}

/* What can fail. */
static int prepare_region(struct usched *s)
{
	const uintptr_t request[6] = { ON_VALGRIND };
	size_t frame = getauxval(AT_MINSIGSTKSZ);
	struct slice *l = slice_of(s);
	int rc = 0;

	if (!BY_SIGNAL || !s->s_calls.s_preempt || !s->s_calls.s_yield
	    || usched__probe() <= 0 || usched__valgrind(request)
	    || (s->s_calls.s_preempt == is_over && !l->l_signal))
		return -ENOTSUP;
	if (!l)
		rc = begin_slice(s, &l);
	if (rc)
		return rc;
	if (l->l_text_end == 0 && !find_text(l))
		return -ENOTSUP;
	return ustack_reserve((frame ? frame : SIGNAL_MIN) + HANDLER + DEEPER);
}

BY_THREADS int ustack_preemptible(int on)
{
	struct usched *s = usched__current;
	int rc;

	if (is_blind(s)) {
		if (on > 0)
			return 1;
		leave_region(s);
		if (GET(slice_of(s)->l_head.q_sched->s_over))
			usched__give_way();
		return 1;
	}
	if (!s->s_current)
		return -EPERM;
	if (on <= 0)
		return 0;
	rc = prepare_region(s);
	if (rc)
		return rc;
	pthread_sigmask(SIG_SETMASK, NULL, &slice_of(s)->l_mask);
	slice_of(s)->l_words = usched__control();
	enter_region(slice_of(s));
	return 0;
}

struct upreempt_monitor {
	pthread_mutex_t    m_lock;
	pthread_cond_t     m_changed;
	pthread_t          m_native;
	bool               m_stop;      /* m_lock */
	uint32_t           m_asleep;    /* atomic: 1: until a processor is not idle */
	struct upreempt_all m_all;
	struct ustall     *m_reporter;  /* of stalls, or NULL */
	int64_t            m_period;    /* ns from look to look */
};

/* Of the process: the handlers that were there before. */
static struct sigaction previous[SIGNALS];
#define YIELD (&previous[0])            /* marks of signals */
#define SNAP  (&previous[1])
static pthread_mutex_t installing = PTHREAD_MUTEX_INITIALIZER;

/* ---- Signals of the monitor ---- */

/* The mark, as the value, tells which signals are ours, and what for. */
static void interrupt_slice(const struct slice *l, int signal,
			    const struct sigaction *mark)
{
	siginfo_t info;

	memset(&info, 0, sizeof info);
	info.si_signo = signal;
	info.si_code = SI_QUEUE;
	info.si_pid = getpid();
	info.si_uid = getuid();
	info.si_value.sival_ptr = (void *)(uintptr_t)mark;
	syscall(SYS_rt_tgsigqueueinfo, info.si_pid, GET(l->l_tid), signal, &info);
}

pid_t upreempt__native(const struct usched *s, clockid_t *clock)
{
	const struct slice *l = slice_of(s);
	pid_t tid = __atomic_load_n(&l->l_tid, __ATOMIC_ACQUIRE);

	*clock = l->l_clock;
	return tid;
}

void upreempt__ask(const struct usched *s)
{
	interrupt_slice(slice_of(s), slice_of(s)->l_ask, SNAP);
}

/* In the handler, on the native thread of a processor, or of a loop in a thread of it. */
static void answer(const void *context)
{
	struct slice *l = slice_of(usched__current);
	int error = errno;

	if (l && l->l_reporter)
		stalls->t_answer(l->l_reporter, l->l_head.q_sched, context);
	errno = error;
}

/* A signal of the program. The default of SIGURG is to ignore it. */
static void chain(int signal, siginfo_t *info, void *context)
{
	const struct sigaction *old = &previous[signal];

	if (old->sa_flags & SA_SIGINFO)
		old->sa_sigaction(signal, info, context);
	else if (old->sa_handler != SIG_DFL && old->sa_handler != SIG_IGN)
		old->sa_handler(signal);
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
 * Unless it is there. It stays, since signals may still be on their way. Slices need it
 * on the stack of the thread, without SA_ONSTACK.
 */
static void install(int signal, int flags)
{
	struct sigaction action, now;
	bool ours;

	memset(&action, 0, sizeof action);
	action.sa_sigaction = on_signal;
	action.sa_flags = SA_SIGINFO | SA_RESTART | flags;
	sigemptyset(&action.sa_mask);
	pthread_mutex_lock(&installing);
	if (sigaction(signal, NULL, &now) == 0) {
		ours = now.sa_flags & SA_SIGINFO && now.sa_sigaction == on_signal;
		if (!ours)
			previous[signal] = now;
		if (!ours || (now.sa_flags & SA_ONSTACK && !flags))
			sigaction(signal, &action, NULL);
	}
	pthread_mutex_unlock(&installing);
}

void upreempt__hold(int on)
{
	(on ? pthread_mutex_lock : pthread_mutex_unlock)(&installing);
}

/* ---- The monitor ---- */

static void look_at_slice(struct slice *l, struct usched *s, bool idle)
{
	uint64_t counted = count(s);
	int64_t t = when_now();

	if (idle || counted != l->l_seen) {
		l->l_seen = counted;
		l->l_since = t;
		if (counted - __atomic_load_n(&l->l_gave, __ATOMIC_ACQUIRE) <= 1
		    && GET(l->l_gave_at))
			l->l_since = GET(l->l_gave_at);
	}
	if (!idle && t - l->l_since > l->l_longest)
		SET(l->l_longest, t - l->l_since);
	if (!idle && t - l->l_since >= l->l_length - l->l_length / EARLY) {
		SET(l->l_over, counted);
		__atomic_store_n(&s->s_over, 1, __ATOMIC_RELEASE);
		if (GET(l->l_region))
			interrupt_slice(l, l->l_signal, YIELD);
	}
}

static bool look_at(struct upreempt_monitor *m, size_t i)
{
	struct usched *s = upreempt__at(&m->m_all, i);
	struct slice *l = slice_of(s);
	uint64_t progress;
	bool idle = m->m_all.a_state(s, &progress) == UPREEMPT_IDLE;

	if (l->l_signal)
		look_at_slice(l, s, idle);
	if (m->m_reporter)
		stalls->t_look(m->m_reporter, i);
	return !idle;
}

/* True: not all are idle. */
static bool look(struct upreempt_monitor *m)
{
	bool busy = false;

	for (size_t i = 0; i < m->m_all.a_count; i++)
		busy |= look_at(m, i);
	if (m->m_reporter)
		stalls->t_looked(m->m_reporter);
	return busy;
}

static void wait_period(struct upreempt_monitor *m)
{
	int64_t until = when_now() + m->m_period;
	struct timespec t = when_of(until);

	while (!m->m_stop
	       && pthread_cond_timedwait(&m->m_changed, &m->m_lock, &t) != ETIMEDOUT)
		;
}

/*
 * Linux 6.12 lets a native thread say how short its turns are. One with short turns gets
 * the CPU sooner from others that compute. Its nice value and policy stay.
 */
static void ask_for_short_turns(void)
{
	struct {
		uint32_t size, policy;
		uint64_t flags;
		int32_t  nice;
		uint32_t priority;
		uint64_t runtime, deadline, period;
	} attr;

	memset(&attr, 0, sizeof attr);
	if (syscall(SYS_sched_getattr, 0, &attr, sizeof attr, 0) || attr.policy != 0)
		return;
	attr.runtime = SHORT_TURN;
	syscall(SYS_sched_setattr, 0, &attr, 0);
}

static void *monitor(void *arg)
{
	struct upreempt_monitor *m = (struct upreempt_monitor *)arg;
	unsigned quiet = 0;

	name_native("usched monitor");
	ask_for_short_turns();
	pthread_mutex_lock(&m->m_lock);
	while (!m->m_stop) {
		quiet = look(m) ? 0 : quiet + 1;
		if (quiet <= QUIET) {
			wait_period(m);
			continue;
		}
		SWAP(&m->m_asleep, 1);
		if (!look(m))
			while (LOAD(m->m_asleep) && !m->m_stop)
				pthread_cond_wait(&m->m_changed, &m->m_lock);
		SWAP(&m->m_asleep, 0);
		quiet = 0;
	}
	pthread_mutex_unlock(&m->m_lock);
	return NULL;
}

static void init_monitor(struct upreempt_monitor *m)
{
	pthread_mutex_init(&m->m_lock, NULL);
	when_init_cond(&m->m_changed);
}

static void free_monitor(struct upreempt_monitor *m)
{
	if (m->m_reporter)
		stalls->t_free(m->m_reporter);
	pthread_cond_destroy(&m->m_changed);
	pthread_mutex_destroy(&m->m_lock);
	free(m);
}

void upreempt__adopt(struct usched *s)
{
	struct slice *l = slice_of(s);
	int signal = l->l_stall > 0 ? l->l_ask : l->l_signal;
	sigset_t one;

	if (!signal)
		return;
	sigemptyset(&one);
	sigaddset(&one, signal);
	pthread_sigmask(SIG_UNBLOCK, &one, NULL);
	if (pthread_getcpuclockid(pthread_self(), &l->l_clock))
		l->l_clock = CLOCK_MONOTONIC;
	__atomic_store_n(&l->l_tid, (pid_t)syscall(SYS_gettid), __ATOMIC_RELEASE);
}

int upreempt__watch(struct upreempt_monitor **result, char *first, size_t stride,
		    size_t n, upreempt__state_fn *state, upreempt__log_fn *log)
{
	const struct slice *l = slice_of((struct usched *)(void *)first);
	int64_t stall = l->l_stall;
	struct upreempt_monitor *m;
	int rc = 0;

	*result = NULL;
	if (!l->l_signal && stall == 0)
		return 0;
	m = (struct upreempt_monitor *)calloc(1, sizeof *m);
	if (!m)
		return -ENOMEM;
	m->m_all = (struct upreempt_all){ first, stride, n, state, log, stall };
	m->m_period = stall ? stall / STALL_LOOKS : INT64_MAX;
	if (l->l_signal && l->l_length < m->m_period)
		m->m_period = l->l_length;
	init_monitor(m);
	if (l->l_signal)
		install(l->l_signal, 0);
	else
		install(l->l_ask, SA_ONSTACK);
	if (stall)
		rc = stalls->t_make(&m->m_reporter, &m->m_all);
	for (size_t i = 0; i < n; i++)
		slice_of(upreempt__at(&m->m_all, i))->l_reporter = m->m_reporter;
	if (rc == 0)
		rc = start_native(&m->m_native, monitor, m);
	if (rc == 0)
		*result = m;
	else
		free_monitor(m);
	return rc;
}

void upreempt__stop(struct upreempt_monitor *m)
{
	pthread_mutex_lock(&m->m_lock);
	m->m_stop = true;
	pthread_cond_signal(&m->m_changed);
	pthread_mutex_unlock(&m->m_lock);
	pthread_join(m->m_native, NULL);
	if (m->m_reporter)
		stalls->t_stop(m->m_reporter);
}

void upreempt__unwatch(struct upreempt_monitor *m)
{
	free_monitor(m);
}

void upreempt__wake(struct upreempt_monitor *m)
{
	if (!LOAD(m->m_asleep))
		return;
	pthread_mutex_lock(&m->m_lock);
	SWAP(&m->m_asleep, 0);
	pthread_cond_signal(&m->m_changed);
	pthread_mutex_unlock(&m->m_lock);
}
