/* SPDX-License-Identifier: MIT */
/*
 * test_fault_net.c: net.h, uoffload.h, uevents.h where the n-th call fails. See sweep.h. A
 * connection may get lost that way; then its client makes another.
 */
#define _GNU_SOURCE             /* pipe2() */
#include "sweep.h"

#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "../unet.h"
#include "../uoffload.h"

enum {
	CLIENTS  = 3,                   /* threads, of each listener */
	SIZE     = 3000,                /* bytes that each sends, and gets back */
	ATTEMPTS = 200,
};

#define SOON (USYNC_SECOND / 100000)
#define LATE usync_after(1000 * USYNC_SECOND)    /* what takes so long is lost */

static struct unet_addr tcp, local;     /* where they listen */
static struct usync_group native_ends;

/* Whether it may be so where something is made to fail. */
static bool may_be(intmax_t rc)
{
	return rc < 0 && rc != -ETIMEDOUT && rc != -ECANCELED && rc != -EBADF && rc != -EBUSY
		&& rc != -EFAULT && rc != -EINTR;
}

/* ---- Connections ---- */

static void echo(void *arg)
{
	int fd = (int)(intptr_t)arg;
	char buffer[500];
	ssize_t n;

	do {
		n = TRY(unet_wait_readable(fd, LATE));
		if (n == 0)
			n = unet_read(fd, buffer, sizeof buffer, LATE);
		if (n > 0)
			n = unet_write_all(fd, buffer, (size_t)n, NULL, LATE) ? -EPIPE : n;
	} while (n > 0);
	TEST_TRUE(n == 0 || may_be(n));
	TEST_EQUAL(unet_close(fd), 0);
}

/* Until it is cancelled. */
static void accept_all(void *arg)
{
	int listener = (int)(intptr_t)arg, fd;

	while ((fd = unet_accept(listener, NULL, USCHED_NEVER)) != -ECANCELED)
		if (fd < 0)
			TEST_TRUE(may_be(fd) && fd != -ECONNABORTED);
		else if (over->s_start(the, echo, (void *)(intptr_t)fd, NULL))
			TEST_EQUAL(unet_close(fd), 0);
}

/* In two parts, of which the first is a small one. */
static int talk_once(const struct unet_addr *to)
{
	unsigned char out[SIZE], in[SIZE];
	struct iovec parts[] = { { out, 10 }, { out + 10, SIZE - 10 } };
	int fd = unet_connect(to, LATE), rc = 0;
	ssize_t n;

	if (fd < 0)
		return fd;
	for (int i = 0; i < SIZE; i++)
		out[i] = (unsigned char)(i * 7 + fd);
	n = unet_writev(fd, parts, 2, LATE);
	if (n < 0)
		rc = (int)n;
	else
		rc = unet_write_all(fd, out + n, SIZE - (size_t)n, NULL, LATE);
	if (rc == 0)
		rc = unet_read_all(fd, in, SIZE, NULL, LATE);
	if (rc == 0)
		TEST_EQUAL(memcmp(in, out, SIZE), 0);
	TEST_EQUAL(unet_close(fd), 0);
	return rc;
}

static void talk(void *to)
{
	int rc = -EIO;

	for (int i = 0; i < ATTEMPTS && (rc = talk_once(to)) != 0; i++)
		TEST_TRUE(may_be(rc));
	TEST_EQUAL(rc, 0);
}

static void *talk_as_native(void *to)
{
	talk(to);
	TEST_EQUAL(usync_group_done(&native_ends), 0);
	rr_release(the);                        /* the same in ll */
	return NULL;
}

static int listen_at(struct unet_addr *a, const char *text)
{
	int fd;

	TEST_EQUAL(unet_addr(text, a), 0);
	fd = (int)TRY(unet_listen(a, 0, 0));
	TEST_TRUE(fd >= 0);
	a->a_size = sizeof a->a_sockaddr;
	TEST_EQUAL(getsockname(fd, (struct sockaddr *)&a->a_sockaddr, &a->a_size), 0);
	return fd;
}

static void connect_all(void *unused)
{
	struct ustack *acceptors[2], *clients[2 * CLIENTS];
	int listeners[2];
	pthread_t native;
	char text[32];

	(void)unused;
	snprintf(text, sizeof text, "@usched-fault-%d", (int)getpid());
	listeners[0] = listen_at(&tcp, "127.0.0.1:0");
	listeners[1] = listen_at(&local, text);
	for (int i = 0; i < 2; i++)
		acceptors[i] = go(accept_all, (void *)(intptr_t)listeners[i]);
	TEST_EQUAL(usync_group_add(&native_ends, 1), 0);
	rr_hold(the);                           /* the same in ll */
	TEST_EQUAL(TRY(-pthread_create(&native, NULL, talk_as_native, &tcp)), 0);
	for (int i = 0; i < 2 * CLIENTS; i++)
		clients[i] = go(talk, i < CLIENTS ? &tcp : &local);
	for (int i = 0; i < 2 * CLIENTS; i++)
		end(clients[i]);
	TEST_EQUAL(TRY(usync_group_wait(&native_ends, USCHED_NEVER)), 0);
	pthread_join(native, NULL);
	for (int i = 0; i < 2; i++) {
		TEST_EQUAL(ustack_cancel(acceptors[i]), 0);
		end(acceptors[i]);
		TEST_EQUAL(unet_close(listeners[i]), 0);
	}
}

/* ---- What has no connection ---- */

static void read_pipe(void *fd)
{
	unsigned char in[SIZE];
	size_t got = 0, n;

	while (got < SIZE) {
		int rc = unet_read_all((int)(intptr_t)fd, in + got, SIZE - got, &n, LATE);

		TEST_TRUE(rc == 0 || fault_made(rc));
		got += n;
	}
	for (int i = 0; i < SIZE; i++)
		TEST_EQUAL(in[i], (unsigned char)(i * 11));
}

/* What went through before an error is not to be written again. */
static void use_pipe(void)
{
	unsigned char out[SIZE];
	size_t put = 0, n;
	struct ustack *reader;
	int fds[2];

	for (int i = 0; i < SIZE; i++)
		out[i] = (unsigned char)(i * 11);
	TEST_EQUAL(pipe2(fds, O_CLOEXEC), 0);
	reader = go(read_pipe, (void *)(intptr_t)fds[0]);
	while (put < SIZE) {
		int rc = unet_write_all(fds[1], out + put, SIZE - put, &n, LATE);

		TEST_TRUE(rc == 0 || fault_made(rc));
		put += n;
	}
	end(reader);
	TEST_EQUAL(unet_close(fds[0]), 0);
	TEST_EQUAL(unet_close(fds[1]), 0);
}

static void use_datagrams(void)
{
	struct unet_addr a, from;
	char text[8];
	int fd;

	TEST_EQUAL(unet_addr("127.0.0.1:0", &a), 0);
	fd = (int)TRY(unet_bind(&a, 0));
	TEST_TRUE(fd >= 0);
	a.a_size = sizeof a.a_sockaddr;
	TEST_EQUAL(getsockname(fd, (struct sockaddr *)&a.a_sockaddr, &a.a_size), 0);
	TEST_EQUAL(TRY(unet_recvfrom(fd, text, sizeof text, 0, &from, usync_after(SOON))),
		   -ETIMEDOUT);
	TEST_EQUAL(TRY(unet_sendto(fd, "hello", 5, 0, &a, LATE)), 5);
	TEST_EQUAL(TRY(unet_recvfrom(fd, text, sizeof text, 0, &from, LATE)), 5);
	TEST_EQUAL(memcmp(text, "hello", 5), 0);
	TEST_EQUAL(unet_close(fd), 0);
}

static void write_late(void *fd)
{
	TEST_EQUAL(TRY(usync_sleep_until(usync_after(SOON))), 0);
	TEST_EQUAL(TRY(unet_write((int)(intptr_t)fd, "x", 1, LATE)), 1);
}

static void use_poll(void)
{
	struct ustack *writer;
	struct pollfd p[2];
	char c;
	int fds[2];

	TEST_EQUAL(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
	for (int i = 0; i < 2; i++)
		p[i] = (struct pollfd){ .fd = fds[i], .events = POLLIN };
	TEST_EQUAL(TRY(unet_poll(p, 2, usync_after(SOON))), -ETIMEDOUT);
	writer = go(write_late, (void *)(intptr_t)fds[1]);
	TEST_EQUAL(TRY(unet_poll(p, 2, LATE)), 1);
	TEST_EQUAL(p[0].revents, POLLIN);
	TEST_EQUAL(p[1].revents, 0);
	TEST_EQUAL(TRY(unet_read(fds[0], &c, 1, LATE)), 1);
	end(writer);
	TEST_EQUAL(unet_close(fds[0]), 0);
	TEST_EQUAL(unet_close(fds[1]), 0);
}

static void use_signals(void)
{
	sigset_t set;
	int fd;

	sigemptyset(&set);
	sigaddset(&set, SIGUSR2);
	fd = (int)TRY(unet_signals(&set));
	TEST_TRUE(fd >= 0);
	TEST_EQUAL(TRY(unet_signal(fd, usync_after(SOON))), -ETIMEDOUT);
	TEST_EQUAL(kill(getpid(), SIGUSR2), 0);
	TEST_EQUAL(TRY(unet_signal(fd, LATE)), SIGUSR2);
	TEST_EQUAL(unet_close(fd), 0);
}

static void wait_variously(void *unused)
{
	(void)unused;
	use_pipe();
	use_datagrams();
	use_poll();
	use_signals();
}

/* ---- The pool ---- */

static atomic_int made, dropped;

static void make(void *argument)
{
	made++;
	++*(int *)argument;
}

static void drop(void *argument)
{
	(void)argument;
	dropped++;
}

static void use_pool(void)
{
	int argument = 1, rc, failures = 0;

	made = dropped = 0;
	while ((rc = uoffload(make, drop, &argument, sizeof argument, LATE))) {
		TEST_TRUE(fault_made(rc));
		TEST_EQUAL(argument, 1);
		failures++;
	}
	TEST_EQUAL(argument, 2);
	TEST_EQUAL(made, 1);
	TEST_EQUAL(dropped, failures);
}

/* Whatever is written and read at a time. */
static void use_file(void)
{
	char path[64], out[100], in[100];
	const char *tmp = getenv("TMPDIR");
	struct stat status;
	ssize_t n;
	int fd;

	for (int i = 0; i < 100; i++)
		out[i] = (char)i;
	snprintf(path, sizeof path, "%.40s/usched.%d", tmp ? tmp : "/tmp", (int)getpid());
	fd = (int)TRY(ufile_open(path, O_CREAT | O_RDWR, 0600, LATE));
	TEST_TRUE(fd >= 0);
	for (ssize_t at = 0; at < 100; at += n) {
		n = TRY(ufile_pwrite(fd, out + at, 100 - (size_t)at, at, LATE));
		TEST_TRUE(n > 0);
	}
	TEST_EQUAL(TRY(ufile_sync(fd, LATE)), 0);
	for (ssize_t at = 0; at < 100; at += n) {
		n = TRY(ufile_pread(fd, in + at, 100 - (size_t)at, at, LATE));
		TEST_TRUE(n > 0);
	}
	TEST_EQUAL(memcmp(in, out, 100), 0);
	TEST_EQUAL(TRY(ufile_stat(path, &status, LATE)), 0);
	TEST_EQUAL(status.st_size, 100);
	TEST_EQUAL(unet_close(fd), 0);
	TEST_EQUAL(unlink(path), 0);
}

static void offload_all(void *unused)
{
	struct unet_addr found[2];

	(void)unused;
	use_pool();
	use_file();
	TEST_TRUE(TRY(unet_resolve("127.0.0.1", "80", SOCK_STREAM, found, 2, LATE)) > 0);
}

/* ---- Numbers for which the table must grow ---- */

enum { CHUNK = 1024 };                  /* as in ../unet.c */

static int make_listener(void)
{
	struct unet_addr a;

	TEST_EQUAL(unet_addr("127.0.0.1:0", &a), 0);
	return unet_listen(&a, 0, 0);
}

static int make_bound(void)
{
	struct unet_addr a;

	TEST_EQUAL(unet_addr("127.0.0.1:0", &a), 0);
	return unet_bind(&a, 0);
}

static int make_signals(void)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGUSR2);
	return unet_signals(&set);
}

static int make_connected(void)
{
	return unet_connect(&tcp, LATE);
}

static int make_adopted(void)
{
	int fd = dup(STDIN_FILENO), rc = unet_adopt(fd);

	TEST_TRUE(rc == 0 || rc == -ENOMEM);
	if (rc)
		close(fd);
	return rc ? rc : fd;
}

/* All numbers below the next chunk's are taken. */
static int next_chunk(void)
{
	int fd;

	do
		fd = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 0);
	while (fd >= 0 && fd % CHUNK != CHUNK - 1);
	return fd + 1;
}

static void test_numbers(void **state)
{
	static int (*const makers[])(void) = {
		make_listener, make_bound, make_signals, make_connected, make_adopted };
	struct rlimit limit;
	int listener, first, next = 0;

	(void)state;
	test_timeout(60);
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
	if (limit.rlim_max < 8 * CHUNK)
		skip();
	limit.rlim_cur = 8 * CHUNK;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
	listener = listen_at(&tcp, "127.0.0.1:0");
	first = dup(STDERR_FILENO);
	fault_only = "aligned_alloc";
	for (size_t i = 0; i < sizeof makers / sizeof *makers; i++) {
		next = next_chunk();
		fault_begin(FAULT_USED_UP, 1, 1);
		assert_int_equal(makers[i](), -ENOMEM);
		fault_end();
		assert_int_equal(makers[i](), next);            /* so nothing leaked */
	}
	fault_only = NULL;
	for (int fd = first; fd <= next; fd++)
		unet_close(fd);
	unet_close(listener);
}

/* ---- In a loop of ours ---- */

static void sleep_twice(void *ended)
{
	for (int i = 0; i < 2; i++)
		TEST_EQUAL(TRY(usync_sleep_until(usync_after(USYNC_SECOND / 1000))), 0);
	use_poll();
	*(bool *)ended = true;
}

/* False: not even a scheduler. */
static bool loop(void)
{
	struct usched_conf conf = { .c_embed = 1 };
	static bool ended;
	struct ustack *u;
	struct rr *rr;
	int rc = rr_create(&conf, &rr);

	if (rc) {
		TEST_TRUE(fault_made(rc));
		return false;
	}
	over = &schedulers[0];
	the = rr;
	ended = false;
	u = go(sleep_twice, &ended);
	while (!ended) {
		struct pollfd p = { .fd = rr_run(rr), .events = POLLIN };

		TEST_TRUE(p.fd >= 0 || fault_made(p.fd));
		if (p.fd >= 0 && !ended && poll(&p, 1, 20000) == 0)
			TEST_TRUE(false);
	}
	TEST_EQUAL(ustack_join(u, USCHED_NEVER), 0);
	TEST_EQUAL(rr_destroy(rr), 0);
	return true;
}

static void test_loop(void **state)
{
	(void)state;
	test_timeout(60);
	assert_true(loop());                    /* what is made once is there then */
	for (int kind = 0; kind < FAULT_KINDS; kind++) {
		long open = descriptors(), held = fault_held(), failed = 1;

		for (long n = 1; failed > 0; n++) {
			test_seed = (uint32_t)n;
			fault_begin((enum fault_kind)kind, n, n);
			loop();
			failed = fault_end();
			TEST_EQUAL(fault_held(), held);
			TEST_EQUAL(descriptors(), open);
		}
	}
}

/* ---- All of it ---- */

static void sweep_kinds(const struct scene *scene)
{
	for (int kind = 0; kind < FAULT_KINDS; kind++)
		sweep(scene, (enum fault_kind)kind, 1);
	sweep(scene, FAULT_USED_UP, 40);
}

static void test_connections(void **state)
{
	static const struct scene scene = { .s_main = connect_all, .s_step = 4 };

	(void)state;
	sweep_kinds(&scene);
}

static void test_waits(void **state)
{
	static const struct scene scene = { .s_main = wait_variously, .s_step = 2 };

	(void)state;
	sweep_kinds(&scene);
}

static void test_offload(void **state)
{
	static const struct scene scene = { offload_all, uoffload_drain, 2 };

	(void)state;
	sweep_kinds(&scene);
}

/* One that has no epoll_pwait2(): nobody may ask for it again and again. */
static void test_old_kernel(void **state)
{
	static const struct scene scene = { .s_main = connect_all };
	static const struct usched_conf some = { .c_processors = 2 };

	(void)state;
	test_timeout(20);
	over = &schedulers[0];
	fault_only = "epoll_pwait2";
	fault_begin(FAULT_BROKEN, 1, LONG_MAX);
	run_scene(&scene, &some);
	assert_true(fault_end() > 0);
	fault_only = NULL;
}

/* Before there are native threads: all have them blocked. */
static void block_signals(void)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGUSR2);
	pthread_sigmask(SIG_BLOCK, &set, NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_loop),
		cmocka_unit_test(test_numbers),
		cmocka_unit_test(test_old_kernel),
		cmocka_unit_test(test_waits),
		cmocka_unit_test(test_offload),
		cmocka_unit_test(test_connections),
	};

	block_signals();
	return cmocka_run_group_tests_name("fault_net", tests, NULL, NULL);
}
