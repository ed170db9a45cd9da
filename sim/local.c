/* SPDX-License-Identifier: MIT */
/*
 * local.c: eventfd, timerfd and signalfd of the world, and kill(). In an eventfd, f_count
 * is the counter; in a signalfd, the set of signals that can be read.
 */
#include "../posix/uposix_set.h"
#include "world.h"

#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <sys/timerfd.h>

/* ---- Counters and timers ---- */

/*
 * Returns what a read would return: the counter of an eventfd, or how often a timer has
 * expired.
 */
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

/*
 * Called at the time for which timer `o' was armed. Does nothing if the timer was since
 * disarmed, or armed for a later time. A periodic timer has no more events until a read,
 * which returns the number of periods.
 */
static void expire(struct sim_open *o, struct sim_piece *unused)
{
	(void)unused;
	if (o->f_numbers > 0 && timer_ready(o))
		sim__changed(o, EPOLLIN);
}

/* Arms a timer for time `when'. If `when' is 0, disarms the timer. */
static void set_next(struct sim_open *o, int64_t when)
{
	o->f_when = when;
	if (when)
		sim__later(when, expire, o, NULL);
}

static ssize_t read_count(struct sim_open *o, struct msghdr *m, int unused)
{
	uint64_t value = count_of(o);

	(void)unused;
	if (m->msg_iovlen < 1 || m->msg_iov->iov_len < sizeof value)
		return -EINVAL;
	if (value == 0)
		return -EAGAIN;
	if (o->f_when) {
		set_next(o, !o->f_every ? 0
			 : o->f_every < (INT64_MAX - o->f_when) / (int64_t)value
			 ? o->f_when + (int64_t)value * o->f_every : INT64_MAX);
	} else {
		value = o->f_by_one ? 1 : value;
		o->f_count -= value;
		sim__changed(o, EPOLLOUT);
	}
	memcpy(m->msg_iov->iov_base, &value, sizeof value);
	return sizeof value;
}

/* Each write to an eventfd is an event for EPOLLET, even if the counter was not 0. */
static ssize_t write_count(struct sim_open *o, const struct msghdr *m, int unused)
{
	uint64_t value = UINT64_MAX;

	(void)unused;
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
	return (int)sim__answer(sim__number(o, flags));
}

/* ---- Calls for timers ---- */

static bool is_time(struct timespec t)
{
	return t.tv_sec >= 0 && t.tv_nsec >= 0 && t.tv_nsec < SECOND;
}

/* Returns a time in ns. Times that are too great become INT64_MAX, which never comes. */
static int64_t ns_of(struct timespec t)
{
	return t.tv_sec >= INT64_MAX / SECOND ? INT64_MAX : t.tv_sec * SECOND + t.tv_nsec;
}

static struct timespec time_of(int64_t ns)
{
	return (struct timespec){ ns / SECOND, ns % SECOND };
}

REPLACE(int, timerfd_create, (int clock, int flags))
{
	struct sim_open *o = sim__new(&timer);

	o->f_clock = clock;
	return (int)sim__answer(sim__number(o, flags));
}

CALL(int, timerfd_gettime, (struct itimerspec *now), (now))
{
	int64_t left = o->f_when - sim__run.r_now;

	if (left <= 0 && o->f_every)
		left = o->f_every - -left % o->f_every;
	now->it_value = time_of(o->f_when && left > 0 ? left : 0);
	now->it_interval = time_of(o->f_every);
	return 0;
}

CALL(int, timerfd_settime, (int flags, const struct itimerspec *new,
			    struct itimerspec *old), (flags, new, old))
{
	int64_t now = flags & TFD_TIMER_ABSTIME ? sim__time(o->f_clock) : 0;
	int64_t value = ns_of(new->it_value), left;

	if (o->f_type != &timer || !is_time(new->it_value) || !is_time(new->it_interval))
		return -EINVAL;
	if (old)
		in_timerfd_gettime(fd, old);
	o->f_every = ns_of(new->it_interval);
	left = value - now;
	set_next(o, value == 0 ? 0 : left < INT64_MAX - sim__run.r_now
		 ? left + sim__run.r_now : INT64_MAX);
	return 0;
}

/* ---- Signals ---- */

static LIST_HEAD(, sim_open) of_signals;        /* all signalfds */

/* Returns the pending signals of the caller's host; or, if the caller is on no host, of
   all threads without a host. */
static uint64_t *pending(void)
{
	static uint64_t of_program;
	struct sim_host *host = sim__host();

	return host ? &host->h_pending : &of_program;
}

/* Closes a signalfd: signals that were not read become pending again. */
static void close_signals(struct sim_open *o)
{
	*pending() |= o->f_count;
	LIST_REMOVE(o, f_of_signals);
}

static ssize_t read_signal(struct sim_open *o, struct msghdr *m, int unused)
{
	struct signalfd_siginfo info = { .ssi_code = SI_USER };

	(void)unused;
	if (m->msg_iovlen < 1 || m->msg_iov->iov_len < sizeof info)
		return -EINVAL;
	if (o->f_count == 0)
		return -EAGAIN;
	info.ssi_signo = (uint32_t)__builtin_ffsll((long long)o->f_count);
	info.ssi_pid = (uint32_t)uposix_getpid();
	o->f_count &= o->f_count - 1;
	memcpy(m->msg_iov->iov_base, &info, sizeof info);
	return sizeof info;
}

static const struct sim_type signals = { timer_ready, read_signal, NULL, close_signals };

REPLACE(int, signalfd, (int fd, const sigset_t *set, int flags))
{
	struct sim_open *o = fd < 0 ? sim__new(&signals) : sim__of_fd(fd);

	if (!o || o->f_type != &signals)
		return real_signalfd(fd, set, flags);
	o->f_signals = *set;
	o->f_count |= sim__signals(uposix__mask_of(set), true);
	if (fd >= 0)
		return fd;
	fd = sim__number(o, flags);
	if (fd >= 0)
		LIST_INSERT_HEAD(&of_signals, o, f_of_signals);
	return (int)sim__answer(fd);
}

uint64_t sim__signals(uint64_t set, bool take)
{
	uint64_t found = *pending() & set;

	if (take)
		*pending() &= ~found;
	return found;
}

/*
 * Returns a thread on the caller's host that does not block the signal, or NULL if there
 * is none. Chance decides between several such threads.
 */
static struct uposix_thread *taker(uint64_t bit)
{
	struct uposix_thread *takers[SIM_THREADS], *p;
	const struct sim_thread *t;
	size_t n = 0;

	for (t = sim__run.r_threads; t && n < SIM_THREADS; t = t->t_next) {
		p = uposix__record_of(&t->t_thread->th_stack);
		if (p && !t->t_dead && t->t_host == sim__host()
		    && !(p->p_mask & bit))
			takers[n++] = p;
	}
	return n > 0 ? takers[sim__choose("the thread for a signal", n)] : NULL;
}

/*
 * Sends a signal to the caller's process: each host is a process. A signalfd or a thread
 * of the process gets the signal; otherwise the signal stays pending.
 */
REPLACE(int, kill, (pid_t pid, int sig))
{
	struct uposix_thread *p;
	struct sim_open *o;

	if (!sim__self())
		return real_kill(pid, sig);
	if (pid != uposix_getpid())
		sim__escape("kill() of another process");
	if (sig <= 0 || sig > 64)
		return (int)sim__answer(sig ? -EINVAL : 0);
	LIST_FOREACH(o, &of_signals, f_of_signals)
		if (o->f_host == sim__host() && sigismember(&o->f_signals, sig) > 0) {
			o->f_count |= uposix__bit(sig);
			sim__changed(o, EPOLLIN);
			return 0;
		}
	p = taker(uposix__bit(sig));
	if (p)
		return uposix_pthread_kill((pthread_t)p, sig) ? -1 : 0;
	*pending() |= uposix__bit(sig);
	return 0;
}
