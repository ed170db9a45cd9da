/* SPDX-License-Identifier: MIT */
#define _GNU_SOURCE
#include "stop.h"

#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <time.h>

#include "step.h"

struct stop stop;
bool forgets;
_Thread_local int failure;

static _Thread_local bool closes, calls;

/* By the linker: where this program's text is. */
extern const unsigned char __executable_start, etext;

int __real_sched_yield(void);
int __wrap_sched_yield(void);
int __wrap_sched_yield(void)
{
	if (closes)
		stop.s_awaited = true;
	return __real_sched_yield();
}

int __real_pthread_mutex_lock(pthread_mutex_t *m);
int __wrap_pthread_mutex_lock(pthread_mutex_t *m);
int __wrap_pthread_mutex_lock(pthread_mutex_t *m)
{
	if (closes && pthread_mutex_trylock(m) == 0)
		return 0;
	if (closes)
		stop.s_awaited = true;
	return __real_pthread_mutex_lock(m);
}

int __real_nanosleep(const struct timespec *t, struct timespec *left);

/* Stops until the number has a new owner, or the close waits. Not in libc. */
static bool stop_there(const unsigned char *pc)
{
	static const struct timespec moment = { .tv_nsec = 50000 };

	if (stop.s_over || stop.s_stopped)
		return false;
	if (!stop.s_steps || pc < &__executable_start || pc >= &etext)
		return true;
	if (stop.s_left-- > 0)
		return true;
	stop.s_stopped = true;
	sem_post(&stop.s_ready);
	while (!stop.s_swapped && !stop.s_awaited)
		__real_nanosleep(&moment, NULL);
	return false;
}

/* A stop where the call waits, unless it has stopped before. */
static void will_wait(void)
{
	if (calls && !atomic_exchange(&stop.s_stopped, true))
		sem_post(&stop.s_ready);
}

int __wrap_nanosleep(const struct timespec *t, struct timespec *left);
int __wrap_nanosleep(const struct timespec *t, struct timespec *left)
{
	will_wait();
	return __real_nanosleep(t, left);
}

int __real_epoll_wait(int fd, struct epoll_event *events, int max, int timeout);
int __wrap_epoll_wait(int fd, struct epoll_event *events, int max, int timeout);
int __wrap_epoll_wait(int fd, struct epoll_event *events, int max, int timeout)
{
	will_wait();
	return __real_epoll_wait(fd, events, max, timeout);
}

/* epoll_pwait2(), which old C libraries lack. */
long __real_syscall(long number, ...);
long __wrap_syscall(long number, ...);
long __wrap_syscall(long number, ...)
{
	va_list args;
	long a[6];

	va_start(args, number);
	for (size_t i = 0; i < 6; i++)
		a[i] = va_arg(args, long);
	va_end(args);
	will_wait();
	return __real_syscall(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}

/* With a time, it finds which descriptors are ready. */
int __real_poll(struct pollfd *fds, nfds_t n, int timeout);
int __wrap_poll(struct pollfd *fds, nfds_t n, int timeout);
int __wrap_poll(struct pollfd *fds, nfds_t n, int timeout)
{
	if (timeout)
		will_wait();
	return __real_poll(fds, n, timeout);
}

int __real_pthread_cond_wait(pthread_cond_t *c, pthread_mutex_t *m);
int __wrap_pthread_cond_wait(pthread_cond_t *c, pthread_mutex_t *m);
int __wrap_pthread_cond_wait(pthread_cond_t *c, pthread_mutex_t *m)
{
	if (closes)
		stop.s_awaited = true;
	return __real_pthread_cond_wait(c, m);
}

/* The call sends a byte at a time. */
ssize_t __real_send(int fd, const void *data, size_t size, int flags);
ssize_t __wrap_send(int fd, const void *data, size_t size, int flags);
ssize_t __wrap_send(int fd, const void *data, size_t size, int flags)
{
	return __real_send(fd, data, calls ? 1 : size, flags);
}

static bool fails(void)
{
	errno = failure;
	failure = 0;
	return errno != 0;
}

ssize_t __real_sendmsg(int fd, const struct msghdr *message, int flags);
ssize_t __wrap_sendmsg(int fd, const struct msghdr *message, int flags);
ssize_t __wrap_sendmsg(int fd, const struct msghdr *message, int flags)
{
	return fails() ? -1 : __real_sendmsg(fd, message, flags);
}

int __real_accept4(int fd, struct sockaddr *peer, socklen_t *size, int flags);
int __wrap_accept4(int fd, struct sockaddr *peer, socklen_t *size, int flags);
int __wrap_accept4(int fd, struct sockaddr *peer, socklen_t *size, int flags)
{
	return fails() ? -1 : __real_accept4(fd, peer, size, flags);
}

/* A wait before makes the epoll of this native thread. */
static void call_stopped(void *unused)
{
	int silent = eventfd(0, 0);
	uint64_t n;

	(void)unused;
	TEST_EQUAL(unet_read(silent, &n, sizeof n, usync_after(1)), -ETIMEDOUT);
	TEST_EQUAL(unet_close(silent), 0);
	calls = true;
	step(stop_there);
	stop.s_steps = true;
	stop.s_rc = stop.s_call->c_call(stop.s_fd, stop.s_got);
	stop.s_steps = false;
	stop.s_over = true;
	will_wait();
}

/* The first of the pair gets `number', which is free. */
static void open_at(void (*open_pair)(int fds[2], const char *what), int fds[2],
		    int number)
{
	open_pair(fds, "nn");
	if (fds[1] == number) {
		fds[1] = dup(number);
		assert_int_equal(close(number), 0);
	}
	fds[0] = at_number(fds[0], number);
}

void close_after(size_t steps, const struct call *call, const char *what, int new[2])
{
	pthread_t native;
	int old[2];

	call->c_open(old, what);
	stop = (struct stop){ .s_call = call, .s_fd = old[0], .s_left = steps };
	assert_int_equal(sem_init(&stop.s_ready, 0, 0), 0);
	native = go_native(call_stopped, NULL);
	while (sem_wait(&stop.s_ready))
		;
	closes = true;
	if (forgets) {
		assert_int_equal(unet_forget(old[0]), 0);
		assert_false(fcntl(old[0], F_GETFL) & O_NONBLOCK);
		assert_int_equal(close(old[0]), 0);
	} else {
		assert_int_equal(unet_close(old[0]), 0);
	}
	closes = false;
	open_at(call->c_open, new, old[0]);
	stop.s_swapped = true;
	join_native(native);
	assert_int_equal(close(old[1]), 0);
}

size_t instructions_of(const struct call *call, const char *what)
{
	int fds[2];

	close_after(SIZE_MAX, call, what, fds);
	close_both(fds);
	return SIZE_MAX - stop.s_left;          /* it has not stopped */
}

void needs_steps(void)
{
	if (test_is_sanitized())
		skip_because("sanitizers add too many instructions");
	stop = (struct stop){ .s_over = true };
	step(stop_there);
	if (stepper.s_steps == 0)
		skip_because("no single steps here");
}
