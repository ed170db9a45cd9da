/* SPDX-License-Identifier: MIT */
/*
 * local.c: descriptors of the world that are neither sockets nor epoll: pipes, which are
 * streams in one direction, and those that count: eventfd, timerfd and signalfd.
 */
#include "world.h"

#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <sys/timerfd.h>

IN_PLACE_OF(raise);

static LIST_HEAD(, sim_open) of_signals;

/* ---- New ones ---- */

REPLACE(int, pipe2, (int fds[2], int flags))
{
	struct sim_open *in = sim__new(SIM_PIPE, (flags & O_NONBLOCK) | O_RDONLY);
	struct sim_open *out = sim__new(SIM_PIPE, (flags & O_NONBLOCK) | O_WRONLY);

	sim__pair(in, out);
	in->f_room = 65536;
	return (int)sim__answer(sim__two(in, out, flags & O_CLOEXEC, fds));
}

REPLACE(int, pipe, (int fds[2]))
{
	return in_pipe2(fds, 0);
}

REPLACE(int, eventfd, (unsigned n, int flags))
{
	struct sim_open *o = sim__new(SIM_COUNTER, (flags & O_NONBLOCK) | O_RDWR);

	o->f_count = n;
	o->f_by_one = flags & EFD_SEMAPHORE;
	return (int)sim__answer(sim__number(o, flags & EFD_CLOEXEC));
}

REPLACE(int, timerfd_create, (int clock, int flags))
{
	struct sim_open *o = sim__new(SIM_TIMER, (flags & O_NONBLOCK) | O_RDWR);

	o->f_clock = clock;
	return (int)sim__answer(sim__number(o, flags & TFD_CLOEXEC));
}

REPLACE(int, signalfd, (int fd, const sigset_t *set, int flags))
{
	struct sim_open *o = fd < 0 ? sim__new(SIM_SIGNALS, (flags & O_NONBLOCK) | O_RDWR)
		: sim__of_fd(fd);

	if (!o || o->f_type != SIM_SIGNALS)
		return real_signalfd(fd, set, flags);
	o->f_signals = *set;
	if (fd >= 0)
		return fd;
	sim__hold(o);
	fd = sim__number(o, flags & SFD_CLOEXEC);
	if (fd >= 0)
		LIST_INSERT_HEAD(&of_signals, o, f_of_signals);
	sim__drop(o);
	return (int)sim__answer(fd);
}

/* ---- Timers ---- */

static int64_t ns_of(struct timespec t)
{
	return (int64_t)t.tv_sec * SECOND + t.tv_nsec;
}

static struct timespec time_of(int64_t ns)
{
	return (struct timespec){ ns / SECOND, ns % SECOND };
}

/* It may have been set again. Periods are counted when it is read. */
static void expire(struct sim_open *o, struct sim_piece *unused)
{
	(void)unused;
	if (o->f_numbers > 0 && sim__count_ready(o))
		sim__changed(o, EPOLLIN);
}

static void expire_later(struct sim_open *o)
{
	if (o->f_when)
		sim__later(o->f_when, expire, o, NULL);
}

static int get_timer(const struct sim_open *o, struct itimerspec *now)
{
	int64_t left = o->f_when - sim__run.r_now;

	if (left <= 0 && o->f_every)
		left = o->f_every - -left % o->f_every;
	now->it_value = time_of(o->f_when && left > 0 ? left : 0);
	now->it_interval = time_of(o->f_every);
	return 0;
}

static int set_timer(struct sim_open *o, int flags, const struct itimerspec *new,
		     struct itimerspec *old)
{
	int64_t value = ns_of(new->it_value);

	if (o->f_type != SIM_TIMER)
		return -EINVAL;
	if (old)
		get_timer(o, old);
	if (value && flags & TFD_TIMER_ABSTIME)
		value -= sim__time(o->f_clock) - sim__run.r_now;
	else if (value)
		value += sim__run.r_now;
	o->f_when = value;
	o->f_every = ns_of(new->it_interval);
	expire_later(o);
	return 0;
}

CALL(int, timerfd_gettime, (int fd, struct itimerspec *now), (fd, now), get_timer(o, now))
CALL(int, timerfd_settime, (int fd, int flags, const struct itimerspec *new,
			    struct itimerspec *old),
     (fd, flags, new, old), set_timer(o, flags, new, old))

/* ---- Signals ---- */

/* To the process itself: of a descriptor that has it, or of the calling thread. */
REPLACE(int, kill, (pid_t pid, int sig))
{
	struct sim_open *o;

	if (!sim__self())
		return real_kill(pid, sig);
	if (pid != uposix_getpid())
		sim__escape("kill() of another process");
	LIST_FOREACH(o, &of_signals, f_of_signals)
		if (o->f_host == sim__host() && sigismember(&o->f_signals, sig) > 0) {
			o->f_count |= UINT64_C(1) << (sig - 1);
			sim__changed(o, EPOLLIN);
			return 0;
		}
	return sig ? uposix_raise(sig) : 0;
}

static ssize_t read_signal(struct sim_open *o, const struct iovec *iov)
{
	struct signalfd_siginfo *to = iov->iov_base;
	int sig = __builtin_ffsll((long long)o->f_count);

	if (iov->iov_len < sizeof *to)
		return -EINVAL;
	o->f_count &= o->f_count - 1;
	memset(to, 0, sizeof *to);
	to->ssi_signo = (uint32_t)sig;
	to->ssi_code = SI_USER;
	to->ssi_pid = (uint32_t)uposix_getpid();
	return sizeof *to;
}

/* ---- For all that count ---- */

static uint64_t count_of(const struct sim_open *o)
{
	int64_t late = sim__run.r_now - o->f_when;

	if (o->f_type != SIM_TIMER)
		return o->f_count;
	if (!o->f_when || late < 0)
		return 0;
	return o->f_every ? 1 + (uint64_t)(late / o->f_every) : 1;
}

uint32_t sim__count_ready(const struct sim_open *o)
{
	bool room = o->f_type == SIM_COUNTER && o->f_count < UINT64_MAX - 1;

	return (count_of(o) > 0 ? EPOLLIN : 0u) | (room ? EPOLLOUT : 0u);
}

void sim__count_closed(struct sim_open *o)
{
	if (o->f_type == SIM_SIGNALS)
		LIST_REMOVE(o, f_of_signals);
}

ssize_t sim__count_read(struct sim_open *o, const struct msghdr *m)
{
	uint64_t value = count_of(o);

	if (m->msg_iovlen < 1 || m->msg_iov->iov_len < sizeof value
	    || o->f_type == SIM_EPOLL)
		return -EINVAL;
	if (value == 0)
		return -EAGAIN;
	if (o->f_type == SIM_SIGNALS)
		return read_signal(o, m->msg_iov);
	if (o->f_type == SIM_TIMER) {
		o->f_when = o->f_every ? o->f_when + (int64_t)value * o->f_every : 0;
		expire_later(o);
	} else {
		value = o->f_by_one ? 1 : value;
		o->f_count -= value;
		sim__changed(o, EPOLLOUT);
	}
	memcpy(m->msg_iov->iov_base, &value, sizeof value);
	return sizeof value;
}

/* Each write is an edge. */
ssize_t sim__count_write(struct sim_open *o, const struct msghdr *m)
{
	uint64_t value = UINT64_MAX;

	if (m->msg_iovlen > 0 && m->msg_iov->iov_len >= sizeof value)
		memcpy(&value, m->msg_iov->iov_base, sizeof value);
	if (o->f_type != SIM_COUNTER || value == UINT64_MAX)
		return -EINVAL;
	if (value > UINT64_MAX - 1 - o->f_count)
		return -EAGAIN;
	o->f_count += value;
	sim__changed(o, EPOLLIN);
	return sizeof value;
}
