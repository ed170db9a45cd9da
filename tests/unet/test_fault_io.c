/* SPDX-License-Identifier: MIT */
/*
 * test_fault_io.c: pipes, datagrams, polls, signals, files, jobs, and an embedded
 * scheduler where the n-th call fails, for every n; see sweep.h.
 */
#define _GNU_SOURCE             /* pipe2() */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../../ubuf.h"
#include "../../unet.h"
#include "../../uoffload.h"
#include "../../usync.h"
#include "../help/message.h"
#include "../help/sweep.h"

enum { SIZE = 3000 };                   /* bytes through a pipe */

enum { LINES = 6 };
#define LENGTH(i) ((i) * 1000)          /* bytes: more than a new buffer has */

#define SOON (USYNC_SECOND / 100000)
#define LATE usync_after(1000 * USYNC_SECOND)   /* never, but with a timer */

/* ---- Without a connection ---- */

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

/* After an error, writes go on behind the bytes that went through. */
static void use_pipe(void)
{
	unsigned char out[SIZE];
	size_t put = 0, n;
	struct ustack *reader;
	int fds[2];

	for (int i = 0; i < SIZE; i++)
		out[i] = (unsigned char)(i * 11);
	TEST_EQUAL(TRY(pipe2(fds, O_CLOEXEC) ? -errno : 0), 0);
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

/* Lines of all lengths, from one buffer to another. */
static void read_lines(void *fd)
{
	struct ubuf_in in;
	ssize_t n;
	char *line;

	ubuf_in_init(&in, (int)(intptr_t)fd, 2 * UBUF_SIZE);
	for (int i = 0; i < LINES; i++) {
		n = TRY(ubuf_line(&in, &line, LATE));
		TEST_EQUAL(n, LENGTH(i));
		for (ssize_t k = 0; k < n; k++)
			TEST_EQUAL(line[k], 'a' + i % 20);
	}
	n = ubuf_line(&in, &line, LATE);
	TEST_TRUE(n == -EPIPE || fault_made((int)n));
	ubuf_in_free(&in);
}

static void use_lines(void)
{
	struct ustack *reader;
	struct ubuf_out out;
	char text[LENGTH(LINES)];
	int fds[2];

	TEST_EQUAL(TRY(pipe2(fds, O_CLOEXEC) ? -errno : 0), 0);
	reader = go(read_lines, (void *)(intptr_t)fds[0]);
	ubuf_out_init(&out, fds[1], 2 * UBUF_SIZE);
	for (int i = 0; i < LINES; i++) {
		memset(text, 'a' + i % 20, sizeof text);
		TEST_EQUAL(TRY(ubuf_printf(&out, LATE, "%.*s\n", LENGTH(i), text)),
			   LENGTH(i) + 1);
	}
	TEST_EQUAL(TRY(ubuf_flush(&out, LATE)), 0);
	TEST_EQUAL(unet_close(fds[1]), 0);
	end(reader);
	TEST_EQUAL(unet_close(fds[0]), 0);
}

static void use_datagrams(void)
{
	struct unet_addr a, from;
	char text[8];
	int fd;

	TEST_EQUAL(unet_addr("127.0.0.1:0", &a), 0);
	fd = (int)TRY(bind_datagrams(&a));
	TEST_TRUE(fd >= 0);
	a.ad_size = sizeof a.ad_sockaddr;
	TEST_EQUAL(getsockname(fd, (struct sockaddr *)&a.ad_sockaddr, &a.ad_size), 0);
	TEST_EQUAL(TRY(receive_from(fd, text, sizeof text, 0, &from, usync_after(SOON))),
		   -ETIMEDOUT);
	TEST_EQUAL(TRY(send_to(fd, "hello", 5, 0, &a, LATE)), 5);
	TEST_EQUAL(TRY(receive_from(fd, text, sizeof text, 0, &from, LATE)), 5);
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

/* ---- Messages ---- */

enum { MESSAGE = 50 };                  /* bytes, and a descriptor */

/* What is left of it is sent without the descriptor. */
static void send_message(void *to)
{
	int fd = (int)(intptr_t)to;
	char out[MESSAGE];
	struct iovec two[2] = { { out, 10 }, { out + 10, MESSAGE - 10 } };
	union ancillary a = { .a_head = { .cmsg_len = CMSG_LEN(sizeof fd),
					  .cmsg_level = SOL_SOCKET,
					  .cmsg_type = SCM_RIGHTS } };
	struct msghdr m = message_of(two, 2, &a);
	size_t done;
	ssize_t put;

	for (int i = 0; i < MESSAGE; i++)
		out[i] = (char)i;
	memcpy(CMSG_DATA(&a.a_head), &fd, sizeof fd);
	put = TRY(unet_sendmsg(fd, &m, 0, LATE));
	TEST_TRUE(put > 0);
	for (; put < MESSAGE; put += (ssize_t)done) {
		two[0] = (struct iovec){ out + put, 1 };
		two[1] = (struct iovec){ out + put + 1, (size_t)(MESSAGE - put - 1) };
		unet_writev_all(fd, two, 2, &done, LATE);
	}
}

static void use_messages(void)
{
	struct ustack *sender;
	char in[MESSAGE];
	int fds[2], got = -1;

	TEST_EQUAL(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
	sender = go(send_message, (void *)(intptr_t)fds[1]);
	for (ssize_t at = 0, n; at < MESSAGE; at += n) {
		struct iovec iov = { in + at, (size_t)(MESSAGE - at) };
		union ancillary a;
		struct msghdr m = message_of(&iov, 1, &a);

		n = TRY(unet_recvmsg(fds[0], &m, MSG_CMSG_CLOEXEC, LATE));
		TEST_TRUE(n > 0);
		TEST_EQUAL(!CMSG_FIRSTHDR(&m), at > 0);
		if (at == 0)
			memcpy(&got, CMSG_DATA(CMSG_FIRSTHDR(&m)), sizeof got);
	}
	for (int i = 0; i < MESSAGE; i++)
		TEST_EQUAL(in[i], i);
	end(sender);
	TEST_EQUAL(unet_close(got) + unet_close(fds[0]) + unet_close(fds[1]), 0);
}

/* ---- A select ---- */

static void send_late(void *chan)
{
	int value = 77;

	TEST_EQUAL(TRY(usync_sleep_until(usync_after(SOON))), 0);
	TEST_EQUAL(TRY(usync_chan_send(chan, &value, LATE)), 0);
}

/* A byte and a value come, in any order; both once. */
static void use_select(void)
{
	struct ustack *writer, *sender;
	struct usync_chan *chan;
	int fds[2], value = 0;
	struct usync_case cases[2] = { { .cs_op = USYNC_RECV, .cs_value = &value },
				       { .cs_op = USYNC_READABLE } };
	char c;

	TEST_EQUAL(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
	TEST_EQUAL(TRY(usync_chan_create(sizeof value, 0, &chan)), 0);
	cases[0].cs_chan = chan;
	cases[1].cs_fd = fds[0];
	TEST_EQUAL(TRY(usync_select(cases, 2, usync_after(SOON))), -ETIMEDOUT);
	writer = go(write_late, (void *)(intptr_t)fds[1]);
	sender = go(send_late, chan);
	while (cases[0].cs_chan || cases[1].cs_fd >= 0) {
		int i = (int)TRY(usync_select(cases, 2, LATE));

		TEST_TRUE(i >= 0 && cases[i].cs_rc == 0);
		if (i == 0) {
			cases[0].cs_chan = NULL;
		} else {
			TEST_EQUAL(TRY(unet_read(fds[0], &c, 1, LATE)), 1);
			cases[1].cs_fd = -1;
		}
	}
	TEST_EQUAL(value, 77);
	end(writer);
	end(sender);
	usync_chan_destroy(chan);
	TEST_EQUAL(unet_close(fds[0]) + unet_close(fds[1]), 0);
}

/* ---- Forgetting ---- */

static int flags_of(int fd)
{
	return (int)TRY(fcntl(fd, F_GETFL) < 0 ? -errno : fcntl(fd, F_GETFL));
}

/* O_NONBLOCK stays only if a call failed that could tell, or clear it. */
static void use_forget(void)
{
	int fds[2], rc;

	TEST_EQUAL(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
	TEST_EQUAL(TRY(unet__adopt_fd(fds[0])), 0);
	TEST_TRUE(flags_of(fds[0]) & O_NONBLOCK);
	rc = unet_forget(fds[0]);
	TEST_TRUE(rc == 0 || fault_made(rc));
	TEST_TRUE(!(flags_of(fds[0]) & O_NONBLOCK) || rc);
	TEST_EQUAL(unet_close(fds[0]) + unet_close(fds[1]), 0);
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
	use_lines();
	use_datagrams();
	use_poll();
	use_messages();
	use_select();
	use_forget();
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

/* A write or read may transfer any number of bytes. */
static void use_file(void)
{
	char path[64], out[100], in[100];
	const char *tmp = getenv("TMPDIR");
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

static const struct scene waits = { .s_main = wait_variously, .s_step = 2 };
TEST_CASE(test_waits, sweep_kinds, &waits)

static void drain(void)
{
	uoffload_drain(USCHED_NEVER);
}

static const struct scene offload = { offload_all, drain, 2 };
TEST_CASE(test_offload, sweep_kinds, &offload)

/* ---- Embedded ---- */

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
	struct uprocs_conf conf = { .c_embed = 1 };
	static bool ended;
	struct ustack *u;
	int rc = over->o_create(&conf, &the);

	if (rc) {
		TEST_TRUE(fault_made(rc));
		return false;
	}
	ended = false;
	u = go(sleep_twice, &ended);
	while (!ended) {
		struct pollfd p = { .fd = over->o_run(the), .events = POLLIN };

		TEST_TRUE(p.fd >= 0 || fault_made(p.fd));
		if (p.fd >= 0 && !ended && poll(&p, 1, 300000) == 0)
			TEST_TRUE(false);
	}
	TEST_EQUAL(ustack_join(u, NULL, USCHED_NEVER), 0);
	TEST_EQUAL(over->o_destroy(the), 0);
	return true;
}

TEST(test_loop)
{
	assert_true(loop());                    /* takes what is kept for good */
	for (int kind = 0; kind < FAULT_KINDS; kind++) {
		size_t open = test_descriptors();
		long held = sweep_held(), failed = 1;

		for (long n = 1; failed > 0; n++) {
			test_seed = (uint32_t)n;
			fault_begin((enum fault_kind)kind, n, n);
			loop();
			failed = fault_end();
			TEST_EQUAL(sweep_held(), held);
			TEST_EQUAL(test_descriptors(), open);
		}
	}
}

/* Native threads inherit the mask, so this comes before any is made. */
static void block_signals(void)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGUSR2);
	pthread_sigmask(SIG_BLOCK, &set, NULL);
}

int main(void)
{
	block_signals();
	return over_all(OVER_PROCS);
}
