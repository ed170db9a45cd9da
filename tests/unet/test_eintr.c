/* SPDX-License-Identifier: MIT */
/*
 * test_eintr.c: every system call that a signal can interrupt is interrupted, every other
 * time: callers of the library do not see it. Those that are made by the pool's native
 * threads are not, for all signals are blocked there. To be linked with --wrap for each
 * of them; the Makefile has the list.
 */
#define _GNU_SOURCE
#include "../help/test.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include "../../unet.h"
#include "../../uoffload.h"
#include "../../rr.h"
#include "../../usync.h"
#include "../help/message.h"

/* ---- What is interrupted ---- */

enum call {
	READ, WRITE, READV, WRITEV, RECV, SEND, RECVMSG, SENDMSG, ACCEPT, CONNECT,
	CLOSE, POLL, SLEEP, NANOSLEEP, SIGTIMEDWAIT, PREADV,
	CALLS
};

static atomic_uint calls[CALLS];

/* Every other time, beginning with the first. */
static bool interrupted(enum call call)
{
	if (calls[call]++ % 2)
		return false;
	errno = EINTR;
	return true;
}

#define WRAP(call, type, name, parameters, arguments) \
	type __real_##name parameters; \
	type __wrap_##name parameters; \
	type __wrap_##name parameters \
	{ \
		return interrupted(call) ? (type)-1 : __real_##name arguments; \
	}

WRAP(READ, ssize_t, read, (int fd, void *p, size_t n), (fd, p, n))
WRAP(WRITE, ssize_t, write, (int fd, const void *p, size_t n), (fd, p, n))
WRAP(READV, ssize_t, readv, (int fd, const struct iovec *v, int n), (fd, v, n))
WRAP(WRITEV, ssize_t, writev, (int fd, const struct iovec *v, int n), (fd, v, n))
WRAP(RECV, ssize_t, recv, (int fd, void *p, size_t n, int f), (fd, p, n, f))
WRAP(SEND, ssize_t, send, (int fd, const void *p, size_t n, int f), (fd, p, n, f))
WRAP(RECVMSG, ssize_t, recvmsg, (int fd, struct msghdr *m, int f), (fd, m, f))
WRAP(SENDMSG, ssize_t, sendmsg, (int fd, const struct msghdr *m, int f), (fd, m, f))
WRAP(ACCEPT, int, accept4, (int fd, struct sockaddr *a, socklen_t *s, int f),
     (fd, a, s, f))
WRAP(t ? SLEEP : POLL, int, poll, (struct pollfd *p, nfds_t n, int t), (p, n, t))
WRAP(SLEEP, int, epoll_wait, (int fd, struct epoll_event *e, int n, int t), (fd, e, n, t))
WRAP(NANOSLEEP, int, nanosleep, (const struct timespec *t, struct timespec *left),
     (t, left))
WRAP(SIGTIMEDWAIT, int, sigtimedwait,
     (const sigset_t *s, siginfo_t *i, const struct timespec *t), (s, i, t))
#ifdef RWF_NOWAIT                       /* there is such a call */
enum { HAS_PREADV = 1 };
WRAP(PREADV, ssize_t, preadv2, (int fd, const struct iovec *v, int n, off_t o, int f),
     (fd, v, n, o, f))
#else
enum { HAS_PREADV = 0 };
#endif

/* These have done something nevertheless: it goes on, and the number is free. */
int __real_connect(int fd, const struct sockaddr *a, socklen_t s);
int __wrap_connect(int fd, const struct sockaddr *a, socklen_t s);
int __real_close(int fd);
int __wrap_close(int fd);

int __wrap_connect(int fd, const struct sockaddr *a, socklen_t s)
{
	int rc = __real_connect(fd, a, s);

	return rc == 0 && interrupted(CONNECT) ? -1 : rc;
}

int __wrap_close(int fd)
{
	int rc = __real_close(fd);

	return rc == 0 && interrupted(CLOSE) ? -1 : rc;
}

/* epoll_pwait2(), which has no function in old C libraries. */
long __real_syscall(long number, ...);
long __wrap_syscall(long number, ...);

long __wrap_syscall(long number, ...)
{
	long a[6];
	va_list args;

	va_start(args, number);
	for (size_t i = 0; i < 6; i++)
		a[i] = va_arg(args, long);
	va_end(args);
	if (interrupted(SLEEP))
		return -1;
	return __real_syscall(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}

static void assert_called(enum call call)
{
	if (calls[call] < 2)
		fail_msg("call %d was made %u times", (int)call, calls[call]);
}

/* ---- Callers that must not see it ---- */

enum { TALK = 30000, ROUNDS = 20, DATAGRAMS = 1000 };

static struct uprocs *rr;

static int64_t soon(void)
{
	return usync_after(3600 * USYNC_SECOND);
}

/* Runs func(arg) on a thread. */
static void run(void (*func)(void *), void *arg)
{
	struct ustack *t;

	TEST_EQUAL(rr_start(rr, func, arg, &t), 0);
	TEST_EQUAL(ustack_join(t, NULL, USCHED_NEVER), 0);
}

static int set_up(void **state)
{
	struct uprocs_conf conf = { .c_processors = 2 };

	(void)state;
	for (size_t i = 0; i < CALLS; i++)
		calls[i] = 0;
	return rr_create(&conf, &rr);
}

static int tear_down(void **state)
{
	(void)state;
	return uprocs_destroy(rr, USCHED_NEVER);
}

static void fill(char *buffer, size_t size, size_t seed)
{
	for (size_t i = 0; i < size; i++)
		buffer[i] = (char)((i + seed) % 251);
}

/* In all ways to send, to one that receives in all ways. */
static void send_all(void *arg)
{
	int fd = *(int *)arg;
	static char out[TALK];
	struct iovec two[2] = { { out, 1000 }, { out + 1000, 2000 } };
	ssize_t n;

	for (size_t i = 0; i < ROUNDS; i++) {
		fill(out, TALK, i);
		TEST_EQUAL(unet_write_all(fd, out, TALK, NULL, soon()), 0);
		TEST_EQUAL(send_to(fd, out, 1, 0, NULL, soon()), 1);
		n = write_vector(fd, two, 2, soon());    /* there may be little room */
		TEST_TRUE(n > 0 && n <= 3000);
		TEST_EQUAL(unet_write_all(fd, out + n, (size_t)(3000 - n), NULL, soon()),
			   0);
	}
	TEST_EQUAL(unet_close(fd), 0);
}

static void receive_all(int fd)
{
	static char in[TALK], should[TALK];
	struct iovec two[2] = { { in, 1500 }, { in + 1500, 1500 } };
	struct unet_addr peer;

	for (size_t i = 0; i < ROUNDS; i++) {
		fill(should, TALK, i);
		TEST_EQUAL(unet_wait(fd, POLLIN, soon()), 0);
		TEST_EQUAL(unet_read_all(fd, in, TALK, NULL, soon()), 0);
		TEST_EQUAL(memcmp(in, should, TALK), 0);
		TEST_EQUAL(receive_from(fd, in, 1, 0, &peer, soon()), 1);
		TEST_EQUAL(in[0], should[0]);
		/* On a stream it may come in parts. */
		for (ssize_t got = 0, n; got < 3000; got += n) {
			two[1].iov_len = got < 1500 ? 1500 : (size_t)(3000 - got);
			two[0].iov_len = got < 1500 ? (size_t)(1500 - got) : 0;
			n = read_vector(fd, two, 2, soon());
			TEST_TRUE(n > 0 && n <= 3000 - got);
		}
	}
	TEST_EQUAL(unet_read(fd, in, TALK, soon()), 0);
	TEST_EQUAL(unet_close(fd), 0);
}

/* A connection over TCP. */
static void connect_and_send(void *arg)
{
	int fd = unet_connect(arg, soon());

	TEST_TRUE(fd >= 0);
	send_all(&fd);
}

static void serve(void *arg)
{
	struct unet_addr *a = arg;
	int listener = unet_listen(a, 0, 0), fd;
	struct ustack *t;

	TEST_TRUE(listener >= 0);
	a->ad_size = sizeof a->ad_sockaddr;
	TEST_EQUAL(getsockname(listener, (struct sockaddr *)&a->ad_sockaddr, &a->ad_size),
		   0);
	TEST_EQUAL(rr_start(rr, connect_and_send, a, &t), 0);
	fd = unet_accept(listener, NULL, soon());
	TEST_TRUE(fd >= 0);
	receive_all(fd);
	TEST_EQUAL(ustack_join(t, NULL, USCHED_NEVER), 0);
	TEST_EQUAL(unet_close(listener), 0);
}

/* A slow machine has always something to run, except for now. */
static void sleep_some(void *unused)
{
	(void)unused;
	for (int i = 0; i < 4; i++)
		TEST_EQUAL(usync_sleep_until(usync_after(2000000)), 0);
}

static void test_tcp(void **state)
{
	static const enum call used[] = {
		SEND, RECV, RECVMSG, SENDMSG, ACCEPT, CLOSE, POLL, SLEEP,
	};
	struct unet_addr a;

	(void)state;
	test_timeout(60);
	assert_int_equal(unet_addr("127.0.0.1:0", &a), 0);
	run(serve, &a);
	run(sleep_some, NULL);
	for (size_t i = 0; i < sizeof used / sizeof used[0]; i++)
		assert_called(used[i]);
}

/* To a UNIX socket connect(2) succeeds at once, except for the interruption. */
static void connect_twice(void *arg)
{
	for (int i = 0; i < 8; i++) {
		int fd = i % 2 ? unet_connect(arg, soon())
			: socket(AF_UNIX, SOCK_STREAM, 0);

		TEST_TRUE(fd >= 0);
		if (i % 2 == 0)
			TEST_EQUAL(unet__connect(fd, arg, soon()), 0);
		TEST_EQUAL(unet_close(fd), 0);
	}
}

static void test_connect(void **state)
{
	struct unet_addr a;
	char name[64];
	int listener;

	(void)state;
	test_timeout(60);
	snprintf(name, sizeof name, "@usched-eintr-%ld", (long)getpid());
	assert_int_equal(unet_addr(name, &a), 0);
	listener = unet_listen(&a, 16, 0);
	assert_true(listener >= 0);
	run(connect_twice, &a);
	assert_int_equal(unet_close(listener), 0);
	assert_called(CONNECT);
}

/* ---- Messages, files, and what is forgotten ---- */

enum { MESSAGE = 30 };                  /* bytes, from a file, too */

/* Each message brings a descriptor. */
static void send_messages(void *arg)
{
	int fd = ((int *)arg)[0], file = ((int *)arg)[2];
	char out[MESSAGE];

	for (size_t i = 0; i < ROUNDS; i++) {
		struct iovec two[2] = { { out, 10 }, { out + 10, MESSAGE - 10 } };
		union ancillary a = { .a_head = { .cmsg_len = CMSG_LEN(sizeof file),
						  .cmsg_level = SOL_SOCKET,
						  .cmsg_type = SCM_RIGHTS } };
		struct msghdr m = message_of(two, 2, &a);

		fill(out, MESSAGE, i);
		memcpy(CMSG_DATA(&a.a_head), &file, sizeof file);
		TEST_EQUAL(unet_wait(fd, POLLOUT, soon()), 0);
		TEST_EQUAL(unet_sendmsg(fd, &m, 0, soon()), MESSAGE);
		TEST_EQUAL(unet_writev_all(fd, two, 2, NULL, soon()), 0);
	}
	TEST_EQUAL(unet_forget(fd), 0);
	TEST_EQUAL(fcntl(fd, F_GETFL) & O_NONBLOCK, 0);
	TEST_EQUAL(shutdown(fd, SHUT_WR), 0);
}

static void expect_bytes(int fd, const char *should)
{
	char in[MESSAGE];

	TEST_EQUAL(unet_read_all(fd, in, MESSAGE, NULL, soon()), 0);
	TEST_EQUAL(memcmp(in, should, MESSAGE), 0);
}

static void receive_messages(int fd, int file)
{
	struct usync_case one = { .cs_op = USYNC_READABLE, .cs_fd = fd };
	char in[MESSAGE], should[MESSAGE], there[MESSAGE];
	int got;

	TEST_EQUAL(pread(file, there, MESSAGE, 0), MESSAGE);
	for (size_t i = 0; i < ROUNDS; i++) {
		struct iovec iov = { in, MESSAGE };
		union ancillary a;
		struct msghdr m = message_of(&iov, 1, &a);

		TEST_EQUAL(usync_select(&one, 1, soon()), 0);
		TEST_EQUAL(unet_recvmsg(fd, &m, MSG_CMSG_CLOEXEC, soon()), MESSAGE);
		fill(should, MESSAGE, i);
		TEST_EQUAL(memcmp(in, should, MESSAGE), 0);
		memcpy(&got, CMSG_DATA(CMSG_FIRSTHDR(&m)), sizeof got);
		TEST_EQUAL(pread(got, in, MESSAGE, 0), MESSAGE);
		TEST_EQUAL(__real_close(got), 0);
		TEST_EQUAL(memcmp(in, there, MESSAGE), 0);
		expect_bytes(fd, should);
	}
	TEST_EQUAL(unet_read(fd, in, 1, soon()), 0);
}

static void use_messages(void *arg)
{
	int *fds = arg;
	struct ustack *t;

	TEST_EQUAL(rr_start(rr, send_messages, fds, &t), 0);
	receive_messages(fds[1], fds[2]);
	TEST_EQUAL(ustack_join(t, NULL, USCHED_NEVER), 0);
	TEST_EQUAL(unet_close(fds[0]) + unet_close(fds[1]), 0);
}

static void test_messages(void **state)
{
	static const enum call used[] = { RECVMSG, SENDMSG, POLL, RECV };
	size_t before = test_descriptors();
	int fds[3];

	(void)state;
	test_timeout(60);
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
	fds[2] = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	assert_true(fds[2] >= 0);
	run(use_messages, fds);
	__real_close(fds[2]);
	assert_in_range(test_descriptors(), 0, before + 4);     /* a processor has two */
	for (size_t i = 0; i < sizeof used / sizeof used[0]; i++)
		assert_called(used[i]);
}

/* A pipe without a reader in the end: then there is a SIGPIPE to take out. */
static void use_pipe(void *arg)
{
	static const char text[] = "through a pipe";
	char in[sizeof text];
	int *ends = arg;

	for (int i = 0; i < 4; i++) {
		TEST_EQUAL(unet_write(ends[1], text, sizeof text, soon()), sizeof text);
		TEST_EQUAL(unet_read(ends[0], in, sizeof in, soon()), sizeof text);
		TEST_EQUAL(memcmp(in, text, sizeof text), 0);
	}
	TEST_EQUAL(unet_close(ends[0]), 0);
	for (int i = 0; i < 2; i++)
		TEST_EQUAL(unet_write(ends[1], text, sizeof text, soon()), -EPIPE);
	TEST_EQUAL(unet_close(ends[1]), 0);
}

static void test_pipe(void **state)
{
	int ends[2];

	(void)state;
	test_timeout(60);
	assert_int_equal(pipe(ends), 0);
	run(use_pipe, ends);
	assert_called(READ);
	assert_called(WRITEV);
	assert_called(SIGTIMEDWAIT);
}

static void use_poll(void *arg)
{
	int *ends = arg;
	struct pollfd fds[2] = { { ends[0], POLLIN, 0 }, { ends[1], POLLOUT, 0 } };

	for (int i = 0; i < 4; i++)
		TEST_EQUAL(unet_poll(fds, 2, soon()), 1);
	TEST_EQUAL(unet_poll(fds, 1, usync_after(1000000)), -ETIMEDOUT);
	TEST_EQUAL(usync_sleep_until(usync_after(1000000)), 0);
}

static void test_poll(void **state)
{
	int ends[2];

	(void)state;
	test_timeout(60);
	assert_int_equal(pipe(ends), 0);
	run(use_poll, ends);
	assert_called(POLL);
	assert_called(SLEEP);
	assert_int_equal(unet_close(ends[0]), 0);
	assert_int_equal(unet_close(ends[1]), 0);
}

/*
 * A datagram to a receiver that is full, which it is until the sender, a native thread,
 * has tried often enough.
 */
static void *receive_late(void *arg)
{
	const struct timespec ms = { 0, 1000000 };
	char in[8];

	for (int left = DATAGRAMS; left > 0;) {
		__real_nanosleep(&ms, NULL);
		while (calls[NANOSLEEP] >= 2
		       && __real_recv(*(int *)arg, in, sizeof in, MSG_DONTWAIT) > 0)
			left--;
	}
	return NULL;
}

static void test_datagrams(void **state)
{
	struct unet_addr a;
	pthread_t native;
	char name[64];
	int to, from;

	(void)state;
	test_timeout(60);
	snprintf(name, sizeof name, "@usched-eintr-to-%ld", (long)getpid());
	assert_int_equal(unet_addr(name, &a), 0);
	to = bind_datagrams(&a);
	from = socket(AF_UNIX, SOCK_DGRAM, 0);
	assert_true(to >= 0 && from >= 0);
	assert_int_equal(pthread_create(&native, NULL, receive_late, &to), 0);
	for (int i = 0; i < DATAGRAMS; i++)
		assert_int_equal(send_to(from, "12345678", 8, 0, &a, soon()), 8);
	pthread_join(native, NULL);
	assert_called(NANOSLEEP);
	assert_called(SENDMSG);
	assert_int_equal(unet_close(to), 0);
	assert_int_equal(unet_close(from), 0);
}

/* Files: what is in memory is read without the pool, where all signals are blocked. */
static void use_file(void *arg)
{
	int fd = *(int *)arg;
	char in[5] = "";

	TEST_EQUAL(ufile_pwrite(fd, "abcde", 5, 0, soon()), 5);
	for (int i = 0; i < 4; i++) {
		TEST_EQUAL(ufile_pread(fd, in, 5, 0, soon()), 5);
		TEST_EQUAL(memcmp(in, "abcde", 5), 0);
	}
}

static void test_file(void **state)
{
	FILE *file = tmpfile();
	int fd;

	(void)state;
	test_timeout(60);
	assert_non_null(file);
	fd = fileno(file);
	run(use_file, &fd);
	if (HAS_PREADV)
		assert_called(PREADV);
	uoffload_drain(USCHED_NEVER);
	fclose(file);
}

/* A wake from outside, to a processor that sleeps: it writes to its eventfd. */
static void wait_long(void *arg)
{
	struct usync_sem *sem = arg;

	TEST_EQUAL(usync_sem_wait(sem, soon()), 0);
}

static void test_wake(void **state)
{
	static struct usync_sem sem;
	struct ustack *t;

	(void)state;
	test_timeout(60);
	while (calls[WRITE] < 4) {
		struct timespec ms = { 0, 1000000 };

		assert_int_equal(rr_start(rr, wait_long, &sem, &t), 0);
		__real_nanosleep(&ms, NULL);
		assert_int_equal(usync_sem_post(&sem), 0);
		assert_int_equal(ustack_join(t, NULL, USCHED_NEVER), 0);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_tcp, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_connect, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_messages, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_pipe, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_poll, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_datagrams, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_file, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_wake, set_up, tear_down),
	};

	return cmocka_run_group_tests_name("eintr", tests, NULL, NULL);
}
