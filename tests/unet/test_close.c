/* SPDX-License-Identifier: MIT */
/*
 * test_close.c: a native thread closes a descriptor while another one is in a call with
 * it, and the number is used again. Linked with --wrap for each __wrap here.
 */
#include "../help/net.h"

#include <sys/epoll.h>
#include <time.h>

enum { ROUNDS = 5, PATIENCE = 20000000 };       /* ns that a call takes at least */

static const struct timespec patience = { .tv_nsec = PATIENCE };

/* ---- The number is not free during a system call ---- */

static atomic_int  watched = -1;
static atomic_bool inside, closing, closed;

static _Thread_local bool polls;
static atomic_bool asleep, proceed, looks, told;

/* A close(2) that lingers: the number is free before that returns. */
static atomic_int  lingering = -1;
static atomic_bool released;

ssize_t __real_read(int fd, void *buffer, size_t size);
ssize_t __wrap_read(int fd, void *buffer, size_t size);
ssize_t __wrap_read(int fd, void *buffer, size_t size)
{
	ssize_t n;

	if (fd != watched)
		return __real_read(fd, buffer, size);
	inside = true;
	while (!closing)
		sched_yield();
	nanosleep(&patience, NULL);
	n = __real_read(fd, buffer, size);
	inside = false;
	return n;
}

int __real_close(int fd);
int __wrap_close(int fd);
int __wrap_close(int fd)
{
	int rc;

	if (fd == watched) {
		TEST_TRUE(!inside);
		closed = true;
	}
	if (fd != lingering)
		return __real_close(fd);
	lingering = -1;
	closing = true;
	while (!inside)
		sched_yield();
	rc = __real_close(fd);
	closed = true;
	while (!released)
		sched_yield();
	return rc;
}

/* It gets the byte in the pipe, else -EBADF. */
static void read_byte(void *has_byte)
{
	char byte = 0;
	ssize_t n = unet_read(watched, &byte, 1, NEVER);

	TEST_EQUAL(n, has_byte ? 1 : -EBADF);
	TEST_EQUAL(byte, has_byte ? 'a' : 0);
}

static void close_inside(bool has_byte)
{
	pthread_t reader;
	int fd[2];

	inside = closing = closed = false;
	assert_int_equal(pipe(fd), 0);
	if (has_byte)
		put(fd[1], "a");
	watched = fd[0];
	reader = go_native(read_byte, has_byte ? fd : NULL);
	while (!inside)
		sched_yield();
	closing = true;
	assert_int_equal(unet_close(fd[0]), 0);
	assert_true(closed);
	join_native(reader);
	watched = -1;
	assert_int_equal(unet_close(fd[1]), 0);
}

TEST(close_waits_for_a_system_call)
{
	for (int i = 0; i < ROUNDS; i++) {
		close_inside(true);
		close_inside(false);
	}
}

/* ---- The number is free while close(2) lingers ---- */

static void read_nothing(int fd)
{
	char byte;

	assert_int_equal(unet_read(fd, &byte, 1, usync_after(PATIENCE)), -ETIMEDOUT);
}

static void close_slowly(void *fd)
{
	TEST_EQUAL(unet_close(*(int *)fd), 0);
}

/* As close(2) has not freed the number yet. It gets the byte of the next file. */
static void read_early(void *fd)
{
	char byte = 0;

	polls = true;
	TEST_EQUAL(unet_read(*(int *)fd, &byte, 1, NEVER), 1);
	TEST_EQUAL(byte, 'e');
}

static void read_late(void *fd)
{
	char byte = 0;

	inside = true;
	TEST_EQUAL(unet_read(*(int *)fd, &byte, 1, NEVER), 1);
	TEST_EQUAL(byte, 'l');
}

static pthread_t begin_lingering(int fds[2])
{
	inside = closing = closed = released = asleep = false;
	unix_pair(fds);
	lingering = fds[0];
	return go_native(close_slowly, fds);
}

/* No call of the next user waits for the close, and none blocks. */
TEST(the_next_user_goes_on_while_a_close_lingers)
{
	pthread_t closer, reader;
	int old[2], new[2];
	struct pollfd one = { .events = POLLIN };
	char byte;

	closer = begin_lingering(old);
	inside = true;
	while (!closed)
		sched_yield();
	pair_at(new, old[0]);
	one.fd = new[0];
	assert_int_equal(unet_read(new[0], &byte, 1, 0), -ETIMEDOUT);
	read_nothing(new[0]);
	assert_int_equal(unet_poll(&one, 1, usync_after(MILLI)), -ETIMEDOUT);
	put(new[1], "a");
	assert_int_equal(unet_poll(&one, 1, NEVER), 1);
	assert_int_equal(unet_read(new[0], &byte, 1, NEVER), 1);
	inside = false;
	reader = go_native(read_late, new);
	while (!inside)
		sched_yield();
	sleep_native(20);                       /* so that it waits, most likely */
	released = true;
	join_native(closer);
	put(new[1], "l");
	join_native(reader);
	read_nothing(new[0]);
	put(new[1], "c");
	assert_int_equal(unet_read(new[0], &byte, 1, NEVER), 1);
	assert_int_equal(byte, 'c');
	close_both(new);
	assert_int_equal(unet_close(old[1]), 0);
}

/* What it has adopted, and waits for, is not taken for the next user's. */
TEST(a_call_as_a_close_begins_spoils_nothing)
{
	pthread_t closer, reader;
	int old[2], new[2];
	char byte;

	closer = begin_lingering(old);
	while (!closing)
		sched_yield();
	proceed = true;
	reader = go_native(read_early, old);
	while (!asleep)
		sched_yield();
	inside = true;
	while (!closed)
		sched_yield();
	pair_at(new, old[0]);
	read_nothing(new[0]);
	released = true;
	join_native(closer);
	put(new[1], "e");
	join_native(reader);
	read_nothing(new[0]);
	put(new[1], "c");
	assert_int_equal(unet_read(new[0], &byte, 1, NEVER), 1);
	close_both(new);
	assert_int_equal(unet_close(old[1]), 0);
}

/* ---- A poll learns of the close late ---- */

static void come_late(void)
{
	while (polls && !proceed)
		sched_yield();
}

int __real_epoll_wait(int fd, struct epoll_event *events, int max, int timeout);
int __wrap_epoll_wait(int fd, struct epoll_event *events, int max, int timeout);
int __wrap_epoll_wait(int fd, struct epoll_event *events, int max, int timeout)
{
	int n;

	asleep = asleep || polls;
	n = __real_epoll_wait(fd, events, max, timeout);
	come_late();
	return n;
}

/* epoll_pwait2(), which old C libraries lack. */
long __real_syscall(long number, ...);
long __wrap_syscall(long number, ...);
long __wrap_syscall(long number, ...)
{
	va_list args;
	long a[6], n;

	va_start(args, number);
	for (size_t i = 0; i < 6; i++)
		a[i] = va_arg(args, long);
	va_end(args);
	asleep = asleep || polls;
	n = __real_syscall(number, a[0], a[1], a[2], a[3], a[4], a[5]);
	come_late();
	return n;
}

int __real_poll(struct pollfd *fds, nfds_t n, int timeout);
int __wrap_poll(struct pollfd *fds, nfds_t n, int timeout);
int __wrap_poll(struct pollfd *fds, nfds_t n, int timeout)
{
	if (polls && proceed) {
		looks = true;
		nanosleep(&patience, NULL);
	}
	return __real_poll(fds, n, timeout);
}

static void poll_until_closed(void *fd)
{
	struct pollfd one = { *(int *)fd, POLLIN, 0 };

	polls = true;
	TEST_EQUAL(unet_poll(&one, 1, NEVER), 1);
	TEST_EQUAL(one.revents, POLLNVAL);
	told = true;
}

/*
 * The next owner of the number has waited for it; then data arrives, and its epoll tells.
 * The late poll must not make it wait again.
 */
TEST(a_late_poll_takes_no_event_of_the_next_owner)
{
	pthread_t native;
	int fds[2], silent[2];
	char bytes[2];

	unix_pair(fds);
	unix_pair(silent);
	asleep = proceed = false;
	native = go_native(poll_until_closed, fds);
	while (!asleep)
		sched_yield();
	close_both(fds);
	pair_at(fds, fds[0]);
	put(fds[1], "nn");
	assert_int_equal(unet_read(fds[0], bytes, 2, NEVER), 2);
	read_nothing(fds[0]);
	put(fds[1], "x");
	read_nothing(silent[0]);
	proceed = true;
	while (!looks && !told)
		sched_yield();
	assert_int_equal(unet_read(fds[0], bytes, 1, NEVER), 1);
	join_native(native);
	close_both(fds);
	close_both(silent);
}

/* ---- A close ends the connection, though a native thread sleeps for it ---- */

static void read_until_closed(void *fd)
{
	char byte;

	TEST_EQUAL(unet_read(*(int *)fd, &byte, 1, NEVER), -EBADF);
}

TEST(close_is_seen_at_once)
{
	static const struct timespec moment = { .tv_nsec = MILLI };

	for (int i = 0; i < 50; i++) {
		pthread_t reader;
		int fds[2], fd;
		char byte;

		unix_pair(fds);
		fd = fds[0];
		reader = go_native(read_until_closed, &fd);
		nanosleep(&moment, NULL);       /* so that it sleeps, most likely */
		assert_int_equal(unet_close(fds[0]), 0);
		assert_int_equal(recv(fds[1], &byte, 1, MSG_DONTWAIT), 0);
		join_native(reader);
		assert_int_equal(unet_close(fds[1]), 0);
	}
}

int main(void)
{
	return test_run_all();
}
