/* SPDX-License-Identifier: MIT */
/*
 * local.c: eventfd, timerfd and signalfd of the world, kill(), and timers. In an
 * eventfd, f_count is the counter; in a signalfd, the set of signals that can be read.
 */
#include "../posix/uposix_set.h"
#include "world.h"

#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <sys/timerfd.h>

/* ---- Counters and timers ---- */

/* Returns what a read would return: the counter of an eventfd, or how often a timer has
   expired. */
static uint64_t count_of(const struct sim_open *o)
{
	int64_t late = sim__run.r_now - o->f_when;

	if (!o->f_when || late < 0)
		return o->f_count;      /* 0 if this is a timer */
	return o->f_every ? 1 + (uint64_t)(late / o->f_every) : 1;
}

static uint32_t timer_ready(const struct sim_open *o)
{
	return count_of(o) > 0 ? EPOLLIN : 0;
}

static uint32_t counter_ready(const struct sim_open *o)
{
	return timer_ready(o) | (o->f_count < UINT64_MAX - 1 ? EPOLLOUT : 0u);
}

/* Called at a time for which timer `o' was armed, maybe before later changes. A periodic
   timer has no more events until a read, which returns the number of periods. */
LATER(expire)
{
	if (o->f_numbers > 0 && timer_ready(o))
		sim__changed(o, EPOLLIN);
}

LATER(ring);

/* Returns the ns after which a timer expires next; 0: the timer is not armed. */
static int64_t left_of(const struct sim_open *o)
{
	int64_t left = o->f_when - sim__run.r_now;

	if (left <= 0 && o->f_every)
		left = o->f_every - -left % o->f_every;
	return o->f_when && left > 0 ? left : 0;
}

/* Arms a timer for `value', a time of a clock that shows `now', or, if `now' is 0, from
   now on. 0 disarms the timer; INT64_MAX never comes. Only a timerfd has a type. */
static void arm(struct sim_open *o, int64_t value, int64_t now, int64_t every)
{
	int64_t most = INT64_MAX - sim__run.r_now;

	o->f_every = every;
	o->f_when = value ? sim__run.r_now + MIN(value - now, most) : 0;
	if (o->f_when)
		sim__later(o->f_when, o->f_type ? expire : ring, o, NULL);
}

static ssize_t read_count(struct sim_open *o, struct msghdr *m, UNUSED int flags)
{
	uint64_t value = count_of(o);

	if (m->msg_iovlen < 1 || m->msg_iov->iov_len < sizeof value)
		return -EINVAL;
	if (value == 0)
		return -EAGAIN;
	if (o->f_when) {
		arm(o, left_of(o), 0, o->f_every);
	} else {
		value = o->f_by_one ? 1 : value;
		o->f_count -= value;
		sim__changed(o, EPOLLOUT);
	}
	memcpy(m->msg_iov->iov_base, &value, sizeof value);
	return sizeof value;
}

/* Each write to an eventfd is an event for EPOLLET, even if the counter was not 0. */
static ssize_t write_count(struct sim_open *o, const struct msghdr *m,
			   UNUSED int flags)
{
	uint64_t value = UINT64_MAX;

	if (m->msg_iovlen > 0 && m->msg_iov->iov_len >= sizeof value)
		memcpy(&value, m->msg_iov->iov_base, sizeof value);
	if (value == UINT64_MAX)
		return -EINVAL;
	if (value > UINT64_MAX - 1 - o->f_count)
		return -EAGAIN;
	o->f_count += value;
	sim__changed(o, EPOLLIN);
	return sizeof value;
}

static const struct sim_type counter = { counter_ready, read_count, write_count, NULL };
static const struct sim_type timer = { timer_ready, read_count, NULL, NULL };

REPLACE(int, eventfd, (unsigned n, int flags))
{
	struct sim_open *o = sim__new(&counter);

	o->f_count = n;
	o->f_by_one = flags & EFD_SEMAPHORE;
	return sim__number(o, real_eventfd(0, flags));
}

/* ---- Calls for timers ---- */

/* Returns a time in ns, at most INT64_MAX; or -EINVAL. */
static int64_t ns_of(struct timespec t)
{
	if (t.tv_sec < 0 || !uposix__is_time(&t))
		return -EINVAL;
	return t.tv_sec >= INT64_MAX / SECOND ? INT64_MAX : t.tv_sec * SECOND + t.tv_nsec;
}

/* Returns whether a clock shows processor time, which stands still for a timer. */
static bool computes(clockid_t clock)
{
	return clock < 0 || clock == CLOCK_PROCESS_CPUTIME_ID
		|| clock == CLOCK_THREAD_CPUTIME_ID;
}

/* Arms a timer for a time of its clock, or from now on. Returns 0 or an error. */
static int arm_as(struct sim_open *o, bool at, const struct itimerspec *new)
{
	int64_t value = ns_of(new->it_value), every = ns_of(new->it_interval);

	if (value < 0 || every < 0)
		return -EINVAL;
	arm(o, computes(o->f_clock) ? 0 : value, at ? sim__time(o->f_clock) : 0, every);
	return 0;
}

static int show(const struct sim_open *o, struct itimerspec *now)
{
	now->it_value = sim__timespec(left_of(o));
	now->it_interval = sim__timespec(o->f_every);
	return 0;
}

REPLACE(int, timerfd_create, (int clock, int flags))
{
	struct sim_open *o = sim__new(&timer);

	o->f_clock = clock;
	return sim__number(o, real_timerfd_create(clock, flags));
}

CALL(int, timerfd_gettime, (struct itimerspec *now), (now))
{
	return show(o, now);
}

CALL(int, timerfd_settime, (int flags, const struct itimerspec *new,
			    struct itimerspec *old), (flags, new, old))
{
	const struct itimerspec to = *new;      /* the same place as `old', maybe */

	if (o->f_type != &timer)
		return -EINVAL;
	if (old)
		show(o, old);
	return arm_as(o, flags & TFD_TIMER_ABSTIME, &to);
}

/* ---- Signals ---- */

static LIST_HEAD(, sim_open) of_signals;        /* all signalfds */

/* Returns the process of a host, or of all threads without a host, as an open file that
   has no number. f_count is the set of pending signals, and f_when the next SIGALRM. */
static struct sim_open *process_of(struct sim_host *host)
{
	struct sim_open **process = &sim__state_of(host)->h_process;

	if (!*process) {
		*process = sim__new(NULL);
		(*process)->f_host = host;
	}
	return *process;
}

/* Closes a signalfd: signals that were not read become pending again. */
static void close_signals(struct sim_open *o)
{
	process_of(o->f_host)->f_count |= o->f_count;
	LIST_REMOVE(o, f_of_signals);
}

static ssize_t read_signal(struct sim_open *o, struct msghdr *m, UNUSED int flags)
{
	struct signalfd_siginfo info = { .ssi_pid = (uint32_t)uposix_getpid() };
	siginfo_t from = { .si_code = SI_USER };

	if (m->msg_iovlen < 1 || m->msg_iov->iov_len < sizeof info)
		return -EINVAL;
	if (o->f_count == 0)
		return -EAGAIN;
	from.si_signo = __builtin_ffsll((long long)o->f_count);
	if (!sim__describe(&from))
		o->f_count &= o->f_count - 1;
	info.ssi_signo = (uint32_t)from.si_signo;
	info.ssi_code = from.si_code;
	info.ssi_ptr = (uintptr_t)from.si_value.sival_ptr;
	info.ssi_int = from.si_value.sival_int;
	info.ssi_overrun = (uint32_t)(from.si_code == SI_TIMER ? from.si_overrun : 0);
	memcpy(m->msg_iov->iov_base, &info, sizeof info);
	return sizeof info;
}

static const struct sim_type signals = { timer_ready, read_signal, NULL, close_signals };

REPLACE(int, signalfd, (int fd, const sigset_t *set, int flags))
{
	struct sim_open *o = fd < 0 ? sim__new(&signals) : sim__of_fd(fd);

	if (!o || o->f_type != &signals)
		return real_signalfd(fd, set, flags);
	o->f_signals = uposix__mask_of(set);
	o->f_count |= sim__signals(o->f_signals, true);
	if (fd >= 0)
		return fd;
	fd = sim__number(o, real_signalfd(-1, set, flags));
	if (fd >= 0)
		LIST_INSERT_HEAD(&of_signals, o, f_of_signals);
	return fd;
}

uint64_t sim__signals(uint64_t set, bool take)
{
	struct sim_open *process = process_of(sim__host());
	uint64_t found = process->f_count & set;

	if (take)
		process->f_count &= ~found;
	return found;
}

/* Returns a thread on a host that does not block the signal, or NULL if there is none.
   Chance decides between several such threads. */
static struct uposix_thread *taker(const struct sim_host *host, uint64_t bit)
{
	enum { MOST = 512 };            /* others do not get signals of the process */
	struct uposix_thread *takers[MOST], *p;
	const struct sim_thread *t;
	size_t n = 0;

	LIST_FOREACH(t, &sim__run.r_threads, t_of_run) {
		p = uposix__record_of(&t->t_thread->th_stack);
		if (p && !t->t_dead && t->t_host == host && !(p->p_mask & bit)
		    && n < MOST)
			takers[n++] = p;
	}
	return n > 0 ? takers[sim__choose("the thread for a signal", n)] : NULL;
}

/* Gives a signal to a signalfd or a thread of a process; otherwise the signal stays
   pending. Returns the thread, or NULL. The caller wakes the thread for its handler. */
static struct uposix_thread *give_signal(struct sim_open *process, int sig)
{
	struct uposix_thread *p;
	struct sim_open *o;

	LIST_FOREACH(o, &of_signals, f_of_signals)
		if (o->f_host == process->f_host && o->f_signals & uposix__bit(sig)) {
			o->f_count |= uposix__bit(sig);
			sim__changed(o, EPOLLIN);
			return NULL;
		}
	p = taker(process->f_host, uposix__bit(sig));
	*(p ? &p->p_pending : &process->f_count) |= uposix__bit(sig);
	return p;
}

/* Sends a signal to the caller's process: each host is a process. The library itself
   uses the number of the real process, if a signal is to end that. */
REPLACE(int, kill, (pid_t pid, int sig))
{
	struct uposix_thread *p;

	if (!sim__self())
		return real_kill(pid, sig);
	if (pid == getpid()) {
		sim__tell(strsignal(sig));
		return real_kill(pid, sig);
	}
	if (pid != uposix_getpid())
		sim__escape("kill() of another process");
	if (sig <= 0 || sig > 64)
		return (int)sim__answer(sig ? -EINVAL : 0);
	p = give_signal(process_of(sim__host()), sig);
	if (p)
		uposix__ask(p, UPOSIX_SIGNAL);
	if (uposix__me())                       /* NULL: not a thread of POSIX */
		uposix__handle(uposix__me());
	return 0;
}

/* ---- What timers do ---- */

/* What timer_create() makes. While the signal is pending, the time of the expiry stays in
   f_when, and the timer is armed again when the signal is taken, as in Linux. */
struct timer {
	struct sim_open    t_open;      /* first, for sim__drop() */
	LIST_ENTRY(timer)  t_of_all;
	struct sim_open   *t_process;   /* before a restart of the host, another one */
	struct sigevent    t_event;
	bool               t_sent;      /* the signal is pending */
	int                t_overrun;
};

static LIST_HEAD(, timer) timers;

/* Returns a timer, or NULL if there is no such timer, or no longer. */
static struct timer *timer_of(const void *id)
{
	struct timer *t;

	LIST_FOREACH(t, &timers, t_of_all)
		if (t == id)
			return t;
	return NULL;
}

/* Returns the thread of a host that has this gettid(), or NULL. */
static struct uposix_thread *thread_of(const struct sim_host *host, pid_t id)
{
	const struct sim_thread *t;

	LIST_FOREACH(t, &sim__run.r_threads, t_of_run)
		if (SIM_THREAD + (pid_t)t->t_number == id && t->t_host == host
		    && !t->t_dead)
			return uposix__record_of(&t->t_thread->th_stack);
	return NULL;
}

static int check_event(clockid_t clock, const struct sigevent *e)
{
	if (clock >= CLOCK_MONOTONIC_RAW && clock <= CLOCK_MONOTONIC_COARSE)
		return -EOPNOTSUPP;
	if (clock > CLOCK_TAI)
		return -EINVAL;
	if (e->sigev_notify == SIGEV_NONE || e->sigev_notify == SIGEV_THREAD)
		return 0;
	if (e->sigev_signo <= 0 || e->sigev_signo > 64)
		return -EINVAL;
	return e->sigev_notify == SIGEV_SIGNAL
		|| (e->sigev_notify == SIGEV_THREAD_ID
		    && thread_of(sim__host(), e->_sigev_un._tid)) ? 0 : -EINVAL;
}

/* Arms a timer for the next time, and notes how many times have passed since. */
static void go_on(struct timer *t)
{
	uint64_t n = count_of(&t->t_open);

	t->t_overrun = n > 0 ? (int)MIN(n - 1, (uint64_t)INT32_MAX) : 0;
	arm(&t->t_open, left_of(&t->t_open), 0, t->t_open.f_every);
}

/* Returns a timer whose signal is pending for a process, or for a thread of that process;
   NULL: there is none. */
static struct timer *sent(const struct sim_open *process, int sig, pid_t thread)
{
	struct timer *t;

	LIST_FOREACH(t, &timers, t_of_all)
		if (t->t_sent && t->t_process == process && t->t_event.sigev_signo == sig
		    && (t->t_event.sigev_notify == SIGEV_SIGNAL
			|| t->t_event._sigev_un._tid == thread))
			return t;
	return NULL;
}

bool sim__describe(siginfo_t *info)
{
	const struct sim_open *process = process_of(sim__host());
	struct timer *t = sent(process, info->si_signo, uposix_gettid());

	if (!t)
		return false;
	t->t_sent = false;
	go_on(t);
	info->si_code = SI_TIMER;
	info->si_value = t->t_event.sigev_value;
	info->si_overrun = t->t_overrun;
	return sent(process, info->si_signo, uposix_gettid());
}

static void *run_event(void *of)
{
	const struct sigevent e = ((struct timer *)of)->t_event;

	uposix__set_mask(uposix__me(), ~UINT64_C(0));
	sim__self()->t_from[0] = (uintptr_t)of;
	sim__drop(of);
	e.sigev_notify_function(e.sigev_value);
	return NULL;
}

/* Makes a timer's signal pending, or starts a thread. Returns the thread for a signal;
   NULL: nothing is to wake. The thread that takes one of equal signals takes all. */
static struct uposix_thread *expired(struct timer *t)
{
	struct sim_open *o = &t->t_open;
	const struct sigevent *e = &t->t_event;
	struct uposix_thread *p;

	if (t->t_sent || e->sigev_notify == SIGEV_NONE)
		return NULL;
	if (e->sigev_notify == SIGEV_THREAD) {
		go_on(t);
		if (sim__start_late(o->f_host, run_event, sim__hold(o)))
			sim__drop(o);
		return NULL;
	}
	p = e->sigev_notify == SIGEV_THREAD_ID ? thread_of(o->f_host, e->_sigev_un._tid)
		: NULL;
	if (p)
		p->p_pending |= uposix__bit(e->sigev_signo);
	else if (e->sigev_notify == SIGEV_SIGNAL
		 && !sent(t->t_process, e->sigev_signo, 0))
		p = give_signal(t->t_process, e->sigev_signo);
	t->t_sent = true;
	return p;
}

/* Called at a time for which the timer of a process, or of the program, was armed, maybe
   before later changes or a crash. Wakes a thread by mail, since the processor may be
   asleep. */
LATER(ring)
{
	struct sim_open *process = process_of(o->f_host);
	struct timer *t = timer_of(o);
	struct uposix_thread *p = NULL;

	if (!o->f_when || o->f_when > sim__run.r_now)
		return;
	if (t && t->t_process == process) {
		p = expired(t);
	} else if (o == process) {
		arm(o, left_of(o), 0, o->f_every);
		p = give_signal(o, SIGALRM);
	}
	if (!p)
		return;
	p->p_asked |= UPOSIX_SIGNAL;
	uproc_post(uproc_thread(p->p_thread), UPROC_MAIL_CANCEL);
}

/* ---- The timer of a process ---- */

int uposix_getitimer(__itimer_which_t which, struct itimerval *now)
{
	const struct sim_open *o = process_of(sim__host());

	if (which != ITIMER_REAL)
		return getitimer(which, now);
	now->it_value = sim__timeval(left_of(o));
	now->it_interval = sim__timeval(o->f_every);
	return 0;
}

int uposix_setitimer(__itimer_which_t which, const struct itimerval *new,
		     struct itimerval *old)
{
	struct itimerspec to;

	if (which != ITIMER_REAL) {
		sim__escape("setitimer() for processor time");
		return setitimer(which, new, old);
	}
	TIMEVAL_TO_TIMESPEC(&new->it_value, &to.it_value);
	TIMEVAL_TO_TIMESPEC(&new->it_interval, &to.it_interval);
	if (old)
		uposix_getitimer(which, old);
	return (int)sim__answer(arm_as(process_of(sim__host()), false, &to));
}

useconds_t uposix_ualarm(useconds_t value, useconds_t every)
{
	struct sim_open *o = process_of(sim__host());
	int64_t left = left_of(o);

	arm(o, value * MICROSECOND, 0, every * MICROSECOND);
	return (useconds_t)(left / MICROSECOND);
}

/* Rounds the seconds that were left as Linux does: half a second counts as one, and less
   than that only if there is nothing else. */
unsigned uposix_alarm(unsigned seconds)
{
	struct sim_open *o = process_of(sim__host());
	int64_t left = left_of(o);

	arm(o, seconds * SECOND, 0, 0);
	return left < SECOND ? left > 0 : (unsigned)((left + SECOND / 2) / SECOND);
}

/* ---- Timers of the program ---- */

REPLACE(int, timer_create, (clockid_t clock, struct sigevent *e, timer_t *id))
{
	struct timer *t;
	int rc;

	if (!sim__self())
		return real_timer_create(clock, e, id);
	t = sim__memory(sizeof *t);
	t->t_event = e ? *e : (struct sigevent){ .sigev_signo = SIGALRM,
						 .sigev_value.sival_ptr = t };
	rc = check_event(clock, &t->t_event);
	if (rc) {
		free(t);
		return (int)sim__answer(rc);
	}
	t->t_open.f_refs = 1;
	t->t_open.f_clock = clock;
	t->t_open.f_host = sim__host();
	t->t_process = process_of(sim__host());
	LIST_INSERT_HEAD(&timers, t, t_of_all);
	*id = t;
	return 0;
}

int uposix_timer_settime(timer_t id, int flags, const struct itimerspec *new,
			 struct itimerspec *old)
{
	const struct itimerspec to = *new;      /* the same place as `old', maybe */
	struct timer *t;

	sim__catch_up();
	t = timer_of(id);
	if (!t)
		return (int)sim__answer(-EINVAL);
	if (old)
		show(&t->t_open, old);
	t->t_sent = false;
	sim__done(t);
	return (int)sim__answer(arm_as(&t->t_open, flags & TIMER_ABSTIME, &to));
}

int uposix_timer_gettime(timer_t id, struct itimerspec *now)
{
	struct timer *t = timer_of(id);

	return (int)sim__answer(t ? show(&t->t_open, now) : -EINVAL);
}

int uposix_timer_getoverrun(timer_t id)
{
	const struct timer *t = timer_of(id);

	return (int)sim__answer(t ? t->t_overrun : -EINVAL);
}

int uposix_timer_delete(timer_t id)
{
	struct timer *t = timer_of(id);

	if (!t)
		return (int)sim__answer(-EINVAL);
	LIST_REMOVE(t, t_of_all);
	sim__drop(&t->t_open);
	return 0;
}
