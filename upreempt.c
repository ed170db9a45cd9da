/* SPDX-License-Identifier: MIT */
/*
 * upreempt.c: slices of time: the monitor of processors, and threads that are interrupted
 * by a signal. upreempt.h has the picture. The monitor also finds threads that keep their
 * processor for too long: private/upreempt_stall.inc.
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
 * Without c_slice there is none either: a slice is SPELL then, as for calls that never
 * wait (private/budget.h).
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
#define _GNU_SOURCE             /* dl_iterate_phdr(), pthread_condattr_setclock() */
#endif
#include "upreempt.h"

#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <pthread.h>
#include <semaphore.h>
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

#include "arch/arch.h"
#include "private/budget.h"
#include "private/code.h"
#include "private/lock.h"
#include "private/native.h"
#include "private/observer.h"
#include "private/when.h"
#include "debug/uinspect.h"
#include "ustack.h"

#ifndef AT_MINSIGSTKSZ
#define AT_MINSIGSTKSZ 51
#endif

enum {
	TEXTS       = 4,        /* executable parts of the program */
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

/* Not inlined, for the reason in uhere.h. */
#define BY_THREADS __attribute__((noinline))

#define GET(word) __atomic_load_n(&(word), __ATOMIC_RELAXED)
#define SET(word, value) __atomic_store_n(&(word), value, __ATOMIC_RELAXED)

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

/* These builds find calls of usched in regions. */
#ifdef USCHED_CHECK
#define CHECKS_CALLS
#endif

struct text {
	uintptr_t t_from, t_to;
};

/* Of a processor, for c_stall; the monitor's but for the first four. */
struct stall {
	int64_t          a_limit;       /* ns; 0: not wanted; constant, as the next one */
	int              a_signal;      /* asks for calls */
	clockid_t        a_clock;       /* CPU time of its native thread, before l_tid */
	struct uinspect_snap *a_snap;   /* the monitor's, or NULL; constant */
	uint64_t         a_seen;        /* the progress, */
	int64_t          a_since;       /* the time since when, */
	int64_t          a_cpu;         /* and the CPU time then, */
	int64_t          a_waited;      /* and that for which it had waited for a CPU */
	int64_t          a_next;        /* ns since then: of the next message */
};

struct slice {
	struct upreempt l_head;         /* first */
	struct usched   l_blind;        /* the stand-in */
#ifdef CHECKS_CALLS
	struct ustack   l_none;         /* its thread: a wait of that asks s_pick */
#endif
	int64_t         l_length;       /* ns; constant, as the next one */
	int             l_signal;       /* 0: none, and no monitor of slices */
	pid_t           l_tid;          /* atomic: of its native thread */
	struct stall    l_stall;

	/* Of the running thread, which is in a region. */
	uint32_t        l_region;       /* atomic: 1: it is */
	sigset_t        l_mask;         /* at the beginning of that, */
	uint64_t        l_words;        /* and the control words */

	/* Written when the first region begins. */
	unsigned        l_texts;
	struct text     l_text[TEXTS];

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

static int  begin(struct usched *s, struct slice **slice);
static void end(struct upreempt *q);
#ifdef CHECKS_CALLS
static void called(const char *call);
static usched_pick_fn called_wait;
#endif
static void leave_region(struct usched *s);
static usched_preempt_fn is_over;
static void count_given(struct usched *s);
static uint64_t count(const struct usched *s);
static void begin_turn(void);
static bool clock_over(struct slice *l, struct usched *s);
static struct slice *slice_of(const struct usched *s);
static bool is_blind(const struct usched *s);
static int  ready(struct usched *s);
static void enter(struct slice *l);
static void leave(struct slice *l);
static int  find_texts(struct dl_phdr_info *info, size_t size, void *arg);
static bool may_give_way(const struct slice *l, const ucontext_t *context);
static void give_way(struct slice *l);
static int64_t now(void);

extern inline int ustack_check(void);

/* ---- ustack_check() ---- */

BY_THREADS int usched__give_way(void)
{
	struct usched *s = usched__current;
	struct slice *l = slice_of(s);
	int rc;

	if (!s->s_current)
		return 0;
	if (l && !l->l_signal) {
		if (!clock_over(l, s))
			return 0;
	} else {
		SET(s->s_over, 0);
		if (l && GET(l->l_over) != count(s))
			return 0;               /* it was another thread's */
	}
	count_given(s);
	rc = ustack_yield();
	begin_turn();
	return rc;
}

/* Its next call looks. */
BY_THREADS static void begin_turn(void)
{
	struct usched *s = usched__current;
	struct slice *l = slice_of(s);

	if (!l || l->l_signal)
		return;
	l->l_seen = count(s);
	l->l_since = l->l_looked = now();
	l->l_calls = 0;
	l->l_skip = 1;
}

/* The running thread gives way now. */
static void count_given(struct usched *s)
{
	struct slice *l = slice_of(s);

	SET(s->s_stats.s_preempted, s->s_stats.s_preempted + 1);
	if (!l)
		return;
	SET(l->l_gave_at, now());
	__atomic_store_n(&l->l_gave, count(s), __ATOMIC_RELEASE);
}

/* Changes with each switch, and with each time that a thread gives way. */
static uint64_t count(const struct usched *s)
{
	return GET(s->s_stats.s_switches) + GET(s->s_stats.s_preempted);
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
	t = now();
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

static int64_t now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* ---- Slices of a dispatcher ---- */

int upreempt__begin(struct usched *s, int64_t length, int64_t stall, int signal)
{
	const uintptr_t request[6] = { ON_VALGRIND };
	struct slice *l;
	int rc;

	if (signal < 0 || signal >= SIGNALS)
		return -EINVAL;
	rc = begin(s, &l);
	if (rc)
		return rc;
	if (MONITORED && signal && !usched__valgrind(request)) {
		l->l_stall.a_limit = stall;
		l->l_stall.a_signal = signal;
	}
	if (MONITORED && length && usched__probe() > 0)
		l->l_signal = signal;
	l->l_length = length ? length : SPELL;
	l->l_since = now();             /* of count 0, which nothing has changed yet */
	l->l_skip = 1;
	if (!l->l_signal)
		s->s_over = 1;
	s->s_preempt = is_over;
	return 0;
}

static int begin(struct usched *s, struct slice **slice)
{
	struct slice *l = calloc(1, sizeof *l);

	if (!l)
		return -ENOMEM;
	l->l_head = (struct upreempt){ s, end };
	l->l_blind.s_slice = &l->l_head;
	l->l_blind.s_leave = leave_region;
#ifdef CHECKS_CALLS
	l->l_blind.s_current = &l->l_none;
	l->l_blind.s_inside = &l->l_none;
	l->l_blind.s_pick = called_wait;
	__atomic_store_n(&usched__observer.o_called, called, __ATOMIC_RELAXED);
#endif
	s->s_slice = &l->l_head;
	*slice = l;
	return 0;
}

static void end(struct upreempt *q)
{
	free(q);
}

static struct slice *slice_of(const struct usched *s)
{
	return (struct slice *)(void *)s->s_slice;
}

static bool is_blind(const struct usched *s)
{
	const struct slice *l = slice_of(s);

	return l && s == &l->l_blind;
}

int64_t upreempt__longest(const struct usched *s)
{
	const struct slice *l = slice_of(s);

	return l->l_signal ? GET(l->l_longest) : -1;
}

/* The policy of processors: what the monitor has found still holds. */
static int is_over(struct usched *s, struct ustack *u, void *context)
{
	(void)u;
	(void)context;
	return GET(slice_of(s)->l_over) == count(s);
}

/* ---- Regions ---- */

BY_THREADS int ustack_preemptible(int on)
{
	struct usched *s = usched__current;
	int rc;

	if (is_blind(s)) {
		struct slice *l = slice_of(s);

		if (on > 0)
			return 1;
		leave(l);
		if (GET(l->l_head.q_sched->s_over))
			usched__give_way();
		return 1;
	}
	if (!s->s_current)
		return -EPERM;
	if (on <= 0)
		return 0;
	rc = ready(s);
	if (rc == 0)
		enter(slice_of(s));
	return rc;
}

/* What can fail. */
static int ready(struct usched *s)
{
	const uintptr_t request[6] = { ON_VALGRIND };
	size_t frame = getauxval(AT_MINSIGSTKSZ);
	struct slice *l = slice_of(s);
	int rc = 0;

	if (!BY_SIGNAL || !s->s_preempt || !s->s_yield || usched__probe() <= 0
	    || (s->s_preempt == is_over && !l->l_signal) || usched__valgrind(request))
		return -ENOTSUP;
	if (!l)
		rc = begin(s, &l);
	if (rc)
		return rc;
	if (l->l_texts == 0)
		dl_iterate_phdr(find_texts, l);
	if (l->l_texts == 0)
		return -ENOTSUP;
	return ustack_reserve((frame ? frame : SIGNAL_MIN) + HANDLER + DEEPER);
}

/*
 * The main program comes first. Without an interpreter it is static: libc is a part of
 * it, and the two cannot be told apart.
 */
static int find_texts(struct dl_phdr_info *info, size_t size, void *arg)
{
	struct slice *l = arg;
	bool dynamic = false;
	unsigned n = 0;

	(void)size;
	for (unsigned i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *part = &info->dlpi_phdr[i];
		uintptr_t from = info->dlpi_addr + part->p_vaddr;

		dynamic |= part->p_type == PT_INTERP;
		if (part->p_type == PT_LOAD && part->p_flags & PF_X && n < TEXTS)
			l->l_text[n++] = (struct text){ from, from + part->p_memsz };
	}
	l->l_texts = dynamic ? n : 0;
	return 1;
}

/* Compilers move nothing of the program across these. */
#define BARRIER() __asm__ volatile("" : : : "memory")

static void enter(struct slice *l)
{
	pthread_sigmask(SIG_SETMASK, NULL, &l->l_mask);
	l->l_words = usched__control();
	SET(l->l_region, 1);
	BARRIER();
	usched__current = &l->l_blind;
	BARRIER();
}

static void leave(struct slice *l)
{
	BARRIER();
	usched__current = l->l_head.q_sched;
	BARRIER();
	SET(l->l_region, 0);
}

/* For a thread that ends in a region. */
static void leave_region(struct usched *s)
{
	leave(slice_of(s));
}

#ifdef CHECKS_CALLS
/* `call' is one that no region may contain. */
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
#endif

/* ---- Signals ---- */

BY_THREADS int upreempt(void *context)
{
	struct usched *s = usched__current;
	struct slice *l = slice_of(s);
	int error = errno, gives = 0;

	if (!is_blind(s) || !may_give_way(l, context))
		return 0;
	s = l->l_head.q_sched;
	if (s->s_preempt(s, s->s_current, context)) {
		give_way(l);
		gives = 1;
	}
	errno = error;
	return gives;
}

static bool may_give_way(const struct slice *l, const ucontext_t *context)
{
	uintptr_t at = usched__interrupted(context);
	bool own = false;

	for (unsigned i = 0; i < l->l_texts; i++)
		own |= at - l->l_text[i].t_from < l->l_text[i].t_to - l->l_text[i].t_from;
	return own && memcmp(&context->uc_sigmask, &l->l_mask, MASK_BYTES) == 0
		&& usched__fits(l->l_head.q_sched,
				(char *)__builtin_frame_address(0) - HANDLER);
}

/* Below the frame of the signal. Blocks the thread until its next turn. */
static void give_way(struct slice *l)
{
	struct usched *s = l->l_head.q_sched;
	struct usched_stack *k = s->s_current->u_stack;
	sigset_t mask = l->l_mask, all;
	uint64_t words = l->l_words;
	uint8_t stays = k->k_stays;

	leave(l);
	pthread_sigmask(SIG_SETMASK, &mask, NULL);
	if (!(s->s_owns & USCHED_OWNS))
		usched__set_control(words);
	SET(s->s_over, 0);
	count_given(s);
	k->k_stays = stays | USCHED_INTERRUPTED;
	s->s_yield(s);                  /* if it cannot, the thread goes on */
	k->k_stays = stays;
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, NULL);
	l->l_mask = mask;
	l->l_words = words;
	SET(l->l_region, 1);
	BARRIER();
	usched__current = &l->l_blind;
	BARRIER();
}

/* ---- The monitor ---- */

struct upreempt_monitor {
	pthread_mutex_t    m_lock;
	pthread_cond_t     m_changed;
	pthread_t          m_native;
	bool               m_stop;      /* m_lock */
	uint32_t           m_asleep;    /* atomic: 1: until a processor is not idle */
	upreempt__state_fn *m_state;
	struct reporter    *m_reporter; /* of stalls, or NULL */
	char              *m_first;     /* dispatchers, */
	size_t             m_stride;    /* so far apart, */
	size_t             m_count;
	int64_t            m_period;    /* ns from look to look */
};

/* Of the process: the handlers that were there before. */
static struct sigaction previous[SIGNALS];
#define YIELD (&previous[0])            /* marks of signals */
#define SNAP  (&previous[1])
static pthread_mutex_t installing = PTHREAD_MUTEX_INITIALIZER;

static void install(int signal, int flags);
static void on_signal(int signal, siginfo_t *info, void *context);
static void chain(int signal, siginfo_t *info, void *context);
static void init_monitor(struct upreempt_monitor *m);
static void free_monitor(struct upreempt_monitor *m);
static int  start(pthread_t *native, void *(*func)(void *), void *arg);
static void *monitor(void *arg);
static bool look(struct upreempt_monitor *m);
static bool look_at(struct upreempt_monitor *m, struct usched *s);
static void look_at_slice(struct slice *l, struct usched *s, bool idle);
static int  interrupt(const struct slice *l, int signal, const struct sigaction *mark);
static void wait_period(struct upreempt_monitor *m);

/* In private/upreempt_stall.inc. */
static int  make_reporter(struct upreempt_monitor *m, upreempt__log_fn *log);
static void stop_reporter(struct reporter *r);
static void free_reporter(struct reporter *r);
static void find_clock(struct slice *l);
static void look_at_stall(struct upreempt_monitor *m, struct usched *s);
static void look_at_reporter(struct reporter *r);
static void answer(const void *context);

void upreempt__adopt(struct usched *s)
{
	struct slice *l = slice_of(s);
	int signal = l->l_stall.a_limit > 0 ? l->l_stall.a_signal : l->l_signal;
	sigset_t one;

	if (!signal)
		return;
	sigemptyset(&one);
	sigaddset(&one, signal);
	pthread_sigmask(SIG_UNBLOCK, &one, NULL);
	find_clock(l);
	__atomic_store_n(&l->l_tid, (pid_t)syscall(SYS_gettid), __ATOMIC_RELEASE);
}

int upreempt__watch(struct upreempt_monitor **result, char *first, size_t stride,
		    size_t n, upreempt__state_fn *state, upreempt__log_fn *log)
{
	const struct slice *l = slice_of((struct usched *)(void *)first);
	int64_t stall = l->l_stall.a_limit;
	struct upreempt_monitor *m;
	int rc = 0;

	*result = NULL;
	if (!l->l_signal && stall == 0)
		return 0;
	m = calloc(1, sizeof *m);
	if (!m)
		return -ENOMEM;
	m->m_state = state;
	m->m_first = first;
	m->m_stride = stride;
	m->m_count = n;
	m->m_period = stall ? stall / STALL_LOOKS : INT64_MAX;
	if (l->l_signal && l->l_length < m->m_period)
		m->m_period = l->l_length;
	init_monitor(m);
	if (l->l_signal)
		install(l->l_signal, 0);
	else
		install(l->l_stall.a_signal, SA_ONSTACK);
	if (stall)
		rc = make_reporter(m, log);
	if (rc == 0)
		rc = start(&m->m_native, monitor, m);
	if (rc == 0)
		*result = m;
	else
		free_monitor(m);
	return rc;
}

static void init_monitor(struct upreempt_monitor *m)
{
	pthread_condattr_t attr;

	pthread_mutex_init(&m->m_lock, NULL);
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&m->m_changed, &attr);
	pthread_condattr_destroy(&attr);
}

static void free_monitor(struct upreempt_monitor *m)
{
	if (m->m_reporter)
		free_reporter(m->m_reporter);
	pthread_cond_destroy(&m->m_changed);
	pthread_mutex_destroy(&m->m_lock);
	free(m);
}

/* Signals of the program are not for it. */
static int start(pthread_t *native, void *(*func)(void *), void *arg)
{
	sigset_t all, before;
	int rc;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	rc = pthread_create(native, NULL, func, arg);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return -rc;
}

void upreempt__stop(struct upreempt_monitor *m)
{
	pthread_mutex_lock(&m->m_lock);
	m->m_stop = true;
	pthread_cond_signal(&m->m_changed);
	pthread_mutex_unlock(&m->m_lock);
	pthread_join(m->m_native, NULL);
	if (m->m_reporter)
		stop_reporter(m->m_reporter);
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
	struct upreempt_monitor *m = arg;
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

/* True: not all are idle. */
static bool look(struct upreempt_monitor *m)
{
	bool busy = false;

	for (size_t i = 0; i < m->m_count; i++)
		busy |= look_at(m, (void *)(m->m_first + i * m->m_stride));
	if (m->m_reporter)
		look_at_reporter(m->m_reporter);
	return busy;
}

static bool look_at(struct upreempt_monitor *m, struct usched *s)
{
	struct slice *l = slice_of(s);
	uint64_t progress;
	bool idle = m->m_state(s, &progress) == UPREEMPT_IDLE;

	if (l->l_signal)
		look_at_slice(l, s, idle);
	if (l->l_stall.a_limit > 0)
		look_at_stall(m, s);
	return !idle;
}

static void look_at_slice(struct slice *l, struct usched *s, bool idle)
{
	uint64_t counted = count(s);
	int64_t t = now();

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
			interrupt(l, l->l_signal, YIELD);
	}
}

/* The mark, as the value, tells which signals are ours, and what for. */
static int interrupt(const struct slice *l, int signal, const struct sigaction *mark)
{
	siginfo_t info;

	memset(&info, 0, sizeof info);
	info.si_signo = signal;
	info.si_code = SI_QUEUE;
	info.si_pid = getpid();
	info.si_uid = getuid();
	info.si_value.sival_ptr = (void *)(uintptr_t)mark;
	return (int)syscall(SYS_rt_tgsigqueueinfo, info.si_pid, GET(l->l_tid), signal,
			    &info);
}

static void wait_period(struct upreempt_monitor *m)
{
	int64_t until = now() + m->m_period;
	struct timespec t = when_of(until);

	while (!m->m_stop
	       && pthread_cond_timedwait(&m->m_changed, &m->m_lock, &t) != ETIMEDOUT)
		;
}

/*
 * Unless it is there. It stays, since signals may still be on their way. Slices need it
 * on the stack of the thread, without SA_ONSTACK.
 */
static void install(int signal, int flags)
{
	struct sigaction action = { .sa_sigaction = on_signal }, now;
	bool ours;

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

/* A signal of the program. The default of SIGURG is to ignore it. */
static void chain(int signal, siginfo_t *info, void *context)
{
	const struct sigaction *old = &previous[signal];

	if (old->sa_flags & SA_SIGINFO)
		old->sa_sigaction(signal, info, context);
	else if (old->sa_handler != SIG_DFL && old->sa_handler != SIG_IGN)
		old->sa_handler(signal);
}

#include "private/upreempt_stall.inc"
