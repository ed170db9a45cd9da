/* SPDX-License-Identifier: MIT */
/*
 * test_net_kinds.c: unet.h over pipes, eventfds, files, terminals, signals and datagrams.
 */
#define _GNU_SOURCE
#include "../help/net.h"

#include <signal.h>
#include <sys/eventfd.h>
#include <sys/uio.h>
#include <termios.h>

NET_TEST(pipes)
{
	static int fds[2];

	TEST_EQUAL(pipe(fds), 0);
	wait_for_hello(fds);
	TEST_TRUE(fcntl(fds[0], F_GETFL) & O_NONBLOCK);
	TEST_EQUAL(unet_write(fds[1], "ab", 2, NEVER), 2);
	TEST_TRUE(fcntl(fds[1], F_GETFL) & O_NONBLOCK);
	receive(fds[0], "ab");
	TEST_EQUAL(unet_shutdown(fds[0], SHUT_RD), -ENOTSOCK);
	TEST_EQUAL(unet_accept(fds[0], NULL, NEVER), -ENOTSOCK);
	TEST_EQUAL(unet_close(fds[1]), 0);
	TEST_EQUAL(unet_read(fds[0], &(char){ 0 }, 1, NEVER), 0);
	TEST_EQUAL(unet_close(fds[0]), 0);
	unix_pair(fds);
	for (int i = 0; i < 2; i++) {
		int flags = fcntl(fds[i], F_GETFD);

		TEST_EQUAL(unet__adopt_fd(fds[i]), 0);
		TEST_EQUAL(unet__adopt_fd(fds[i]), 0);
		TEST_TRUE(fcntl(fds[i], F_GETFL) & O_NONBLOCK);
		TEST_EQUAL(fcntl(fds[i], F_GETFD), flags);
	}
	wait_for_hello(fds);
	close_both(fds);
}

static void count_events(void *arg)
{
	int fd = *(int *)arg;
	uint64_t n = 3;

	pause_thread();
	TEST_EQUAL(unet_write(fd, &n, sizeof n, NEVER), sizeof n);
}

/*
 * An eventfd with room, but too little: poll(2) says at once that it can be written to.
 * The deadline comes all the same.
 */
NET_TEST(late_though_ready)
{
	uint64_t n = UINT64_MAX - 10;
	int fd = eventfd(0, 0);

	TEST_EQUAL(unet_write(fd, &n, sizeof n, NEVER), sizeof n);
	TEST_EQUAL(unet_write(fd, &n, sizeof n, usync_after(3 * MILLI)), -ETIMEDOUT);
	TEST_EQUAL(unet_close(fd), 0);
}

/*
 * False: it is not the same by a vector. qemu, up to 10.0 at least, swaps the bytes of
 * the number for a program of the other byte order in read() and write() only.
 */
static bool has_vectors(void)
{
	uint64_t n = 3, m = 0;
	struct iovec from = { &n, sizeof n };
	int fd = eventfd(0, 0);
	bool same = writev(fd, &from, 1) == sizeof n && read(fd, &m, sizeof m) == sizeof m
		&& m == n;

	close(fd);
	return same;
}

NET_TEST(eventfds)
{
	static int fd;
	uint64_t n = 0;
	struct ustack *u;

	if (!has_vectors()) {
		print_message("the emulator takes eventfds for bytes in writev()\n");
		return;
	}
	fd = eventfd(0, 0);
	u = go(count_events, &fd);
	for (int i = 0; i < 2; i++) {
		TEST_EQUAL(unet_read(fd, &n, sizeof n, NEVER), sizeof n);
		TEST_EQUAL(n, 3);
		if (i == 0)
			TEST_EQUAL(write(fd, &n, sizeof n), sizeof n);
	}
	join(u);
	TEST_EQUAL(unet_read(fd, &n, sizeof n, 0), -ETIMEDOUT);
	TEST_EQUAL(write(fd, &n, sizeof n), sizeof n);
	pause_thread();
	TEST_EQUAL(unet_read(fd, &n, 1, NEVER), -EINVAL);
	TEST_EQUAL(unet_close(fd), 0);
}

/* Opens both sides of a pseudo-terminal, the slave first. Containers may have none. */
static bool open_terminal(int fds[2])
{
	char name[64];

	fds[0] = -1;
	fds[1] = posix_openpt(O_RDWR | O_NOCTTY);
	if (fds[1] < 0)
		return false;
	if (grantpt(fds[1]) == 0 && unlockpt(fds[1]) == 0
	    && ptsname_r(fds[1], name, sizeof name) == 0)
		fds[0] = open(name, O_RDWR | O_NOCTTY);
	if (fds[0] < 0)
		close(fds[1]);
	return fds[0] >= 0;
}

/* In canonical mode each read gets one line. */
static void terminals(void)
{
	static int fds[2];
	struct termios t;
	char buffer[64];

	TEST_TRUE(open_terminal(fds));
	TEST_EQUAL(tcgetattr(fds[0], &t), 0);
	t.c_lflag &= ~(tcflag_t)ECHO;
	TEST_EQUAL(tcsetattr(fds[0], TCSANOW, &t), 0);
	wait_for_hello(fds);
	put(fds[1], "one\ntwo\nthree\n");
	TEST_EQUAL(unet_read(fds[0], buffer, sizeof buffer, NEVER), 4);
	TEST_EQUAL(unet_read(fds[0], buffer, sizeof buffer, NEVER), 4);
	TEST_EQUAL(unet_read(fds[0], buffer, sizeof buffer, NEVER), 6);
	TEST_EQUAL(memcmp(buffer, "three\n", 6), 0);
	TEST_EQUAL(unet_write(fds[0], "x", 1, NEVER), 1);
	receive(fds[1], "x");
	TEST_EQUAL(unet_close(fds[0]), 0);
	TEST_EQUAL(unet_read(fds[1], buffer, sizeof buffer, NEVER), -EIO);
	TEST_EQUAL(unet_close(fds[1]), 0);
}

NET_TEST(files)
{
	struct pollfd p = { .events = POLLIN | POLLOUT };
	struct iovec iov[2];
	char buffer[8];
	int fd;

	make_directory();
	fd = open(path_of("file"), O_RDWR | O_CREAT | O_EXCL, 0600);
	TEST_TRUE(fd >= 0);
	TEST_EQUAL(unet__adopt_fd(fd), 0);
	TEST_EQUAL(unet_write_all(fd, "abcdef", 6, NULL, NEVER), 0);
	TEST_EQUAL(lseek(fd, 0, SEEK_SET), 0);
	receive(fd, "abc");
	iov[0] = (struct iovec){ buffer, 2 };
	iov[1] = (struct iovec){ buffer + 2, 6 };
	TEST_EQUAL(read_vector(fd, iov, 2, NEVER), 3);
	TEST_EQUAL(memcmp(buffer, "def", 3), 0);
	TEST_EQUAL(unet_read(fd, buffer, 8, NEVER), 0);
	TEST_EQUAL(unet_read_all(fd, buffer, 8, NULL, NEVER), -EPIPE);
	p.fd = fd;
	TEST_EQUAL(unet_poll(&p, 1, NEVER), 1);
	TEST_EQUAL(p.revents, POLLIN | POLLOUT);
	TEST_EQUAL(unet_wait(fd, POLLIN, NEVER), 0);
	TEST_EQUAL(unet_close(fd), 0);
	TEST_EQUAL(unlink(path_of("file")), 0);
	remove_directory();
}

static void read_hello(void *fd)
{
	receive(*(int *)fd, "hello");
}

/* What is no part of the input is read while another thread waits for that. */
NET_TEST(beside_input)
{
	static int fds[2];
	char c;
	struct iovec iov = { &c, 1 };
	struct msghdr m = { .msg_iov = &iov, .msg_iovlen = 1 };
	struct ustack *u;
	ssize_t n;

	do {                    /* again if a read went past the byte, which drops it */
		tcp_pair(fds);
		u = go(read_hello, &fds[0]);
		await_waiting(u);
		TEST_EQUAL(unet_recvmsg(fds[0], &m, MSG_ERRQUEUE, NEVER), -ETIMEDOUT);
		TEST_EQUAL(receive_from(fds[0], &c, 1, MSG_OOB, NULL, NEVER), -EINVAL);
		TEST_EQUAL(send(fds[1], "!", 1, MSG_OOB), 1);
		n = receive_from(fds[0], &c, 1, MSG_OOB, NULL, NEVER);
		TEST_TRUE(n == 1 || n == -EINVAL || n == -ETIMEDOUT);
		put(fds[1], "hello");
		join(u);
		put(fds[1], "x");
		TEST_EQUAL(unet_wait(fds[0], POLLIN, NEVER), 0);
		TEST_EQUAL(unet_recvmsg(fds[0], &m, MSG_ERRQUEUE, NEVER), -ETIMEDOUT);
		receive(fds[0], "x");           /* which is known to be there */
		close_both(fds);
	} while (n < 0);
}

static void test_terminals(void **state)
{
	int fds[2];

	if (!open_terminal(fds))
		skip_because("no pseudo-terminals here");
	close(fds[0]);
	close(fds[1]);
	run_net_case(state);
}

/* ---- Signals ---- */

static void kill_self(void *unused)
{
	(void)unused;
	pause_thread();
	kill(getpid(), SIGTERM);
}

NET_TEST(signals)
{
	sigset_t set;
	struct ustack *u;
	int fd;

	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGUSR1);
	fd = unet_signals(&set);
	made_right(fd);
	u = go(kill_self, NULL);
	TEST_EQUAL(unet_signal(fd, NEVER), SIGTERM);
	join(u);
	kill(getpid(), SIGTERM);
	kill(getpid(), SIGUSR1);
	TEST_EQUAL(unet_signal(fd, NEVER) + unet_signal(fd, NEVER), SIGTERM + SIGUSR1);
	TEST_EQUAL(unet_signal(fd, 0), -ETIMEDOUT);
	TEST_EQUAL(unet_close(fd), 0);
}

/* ---- Datagrams ---- */

struct echo {
	struct unet_addr e_addr;
	int              e_fd;
};

static void echo_datagrams(void *arg)
{
	struct echo *e = arg;
	struct unet_addr from;
	char buffer[64];

	for (int i = 0; i < 5; i++) {
		ssize_t n = receive_from(e->e_fd, buffer, 64, 0, &from, NEVER);

		TEST_TRUE(n >= 0);
		TEST_EQUAL(send_to(e->e_fd, buffer, (size_t)n, 0, &from, NEVER), n);
	}
}

/* A read gets one datagram, also where the buffer has room for the next. */
static void exchange_datagrams(struct unet_addr server, struct unet_addr client)
{
	static struct echo e;
	struct unet_addr from = { 0 };
	char buffer[64];
	struct ustack *u;
	int fd = bind_datagrams(&client);

	e = (struct echo){ .e_fd = bind_datagrams(&server) };
	e.e_addr = bound(e.e_fd);
	u = go(echo_datagrams, &e);
	for (size_t i = 0; i < 5; i++)          /* the first is empty */
		TEST_EQUAL(send_to(fd, "abcd", i, 0, &e.e_addr, NEVER), i);
	for (size_t i = 0; i < 4; i++) {
		TEST_EQUAL(receive_from(fd, buffer, 64, MSG_PEEK, NULL, NEVER), i);
		TEST_EQUAL(receive_from(fd, buffer, 64, 0, &from, NEVER), i);
		TEST_EQUAL(memcmp(buffer, "abcd", i), 0);
		TEST_EQUAL(from.ad_size, e.e_addr.ad_size);
		TEST_EQUAL(memcmp(&from.ad_sockaddr, &e.e_addr.ad_sockaddr, from.ad_size),
			   0);
	}
	TEST_EQUAL(receive_from(fd, buffer, 2, MSG_TRUNC, NULL, NEVER), 4);
	TEST_EQUAL(receive_from(fd, buffer, 64, 0, NULL, 0), -ETIMEDOUT);
	join(u);
	TEST_EQUAL(unet_close(fd), 0);
	TEST_EQUAL(unet_close(e.e_fd), 0);
}

NET_TEST(datagrams)
{
	struct unet_addr a = address(local());
	static char big[70000];
	char names[2][64];
	int fd;

	exchange_datagrams(a, a);
	if (has_ipv6())
		exchange_datagrams(address("[::1]:0"), address("[::1]:0"));
	for (int i = 0; i < 2; i++)
		snprintf(names[i], 64, "@usched-%d-%ld", i, (long)getpid());
	exchange_datagrams(address(names[0]), address(names[1]));
	fd = bind_datagrams(&a);
	a = bound(fd);
	TEST_EQUAL(send_to(fd, big, sizeof big, 0, &a, NEVER), -EMSGSIZE);
	TEST_EQUAL(bind_datagrams(&a), -EADDRINUSE);
	TEST_EQUAL(unet_close(fd), 0);
}

CASE_BY(test_terminals, "terminals", terminals, NULL)

int main(void)
{
	return over_all(OVER_ALL);
}
