/* SPDX-License-Identifier: MIT */
/*
 * test_net_read.c: reads that get less than they ask for. Whatever epoll tells at once,
 * data, urgent data, an end or an error, the reader gets all of it.
 */
#define _GNU_SOURCE
#include "../help/net.h"

#include <sys/ioctl.h>

/* Waits until the peer has all that was written, as a reset drops the rest. */
static void await_sent(int fd)
{
	int left;

	do {
		TEST_EQUAL(ioctl(fd, TIOCOUTQ, &left), 0);
		sched_yield();
	} while (left > 0);
}
/* ---- Scripts ---- */

/*
 * What the peer does, in letters: `s' sends, `o' sends urgent data, `f' ends, `r' resets,
 * `y' lets other threads run, so that the reader waits or gets events. The reader reads
 * to the end in one of several ways.
 */
struct script {
	int        s_fd;
	int        s_way;
	char       s_got[64];
	size_t     s_n;
	size_t     s_resets;
	atomic_int s_done;
};

enum { READ_ALL_THERE_IS, READ_BYTES, READ_VECTORS, READ_PEEKED, READ_TRUNCATED,
       READ_POLLED, READ_WAYS };

enum { SCRIPT = 5 };                            /* letters, without the last */

static ssize_t read_polled(int fd, char *to)
{
	struct pollfd p = { fd, POLLIN, 0 };
	int rc = unet_poll(&p, 1, NEVER);

	TEST_EQUAL(rc, 1);
	rc = unet_wait(fd, POLLIN, NEVER);
	return rc ? rc : unet_read(fd, to, 16, NEVER);
}

static ssize_t read_somehow(struct script *s)
{
	char *to = s->s_got + s->s_n, spare[16];
	struct iovec iov[3] = { { to, 2 }, { to + 2, 0 }, { to + 2, 14 } };
	ssize_t n;

	switch (s->s_way) {
	case READ_ALL_THERE_IS:
		return unet_read(s->s_fd, to, 32, NEVER);
	case READ_BYTES:
		return unet_read(s->s_fd, to, 1, NEVER);
	case READ_VECTORS:
		return read_vector(s->s_fd, iov, 3, NEVER);
	case READ_POLLED:
		return read_polled(s->s_fd, to);
	case READ_TRUNCATED:                    /* TCP drops the bytes */
		n = receive_from(s->s_fd, spare, 16, MSG_TRUNC, NULL, NEVER);
		if (n > 0)
			memcpy(to, "abcabcabcabcabca", (size_t)n);
		return n;
	default:
		n = receive_from(s->s_fd, spare, 16, MSG_PEEK, NULL, NEVER);
		if (n <= 0)
			return n;
		TEST_TRUE(receive_from(s->s_fd, to, 16, MSG_PEEK, NULL, NEVER) >= n);
		return receive_from(s->s_fd, to, (size_t)n, 0, NULL, NEVER);
	}
}

static void read_script(void *arg)
{
	struct script *s = arg;
	ssize_t n;

	do {
		n = read_somehow(s);
		if (n > 0)
			s->s_n += (size_t)n;
		s->s_resets += n == -ECONNRESET;
		TEST_TRUE(n >= 0 || n == -ECONNRESET);
		TEST_TRUE(s->s_n + 32 <= sizeof s->s_got);
	} while (n);
	s->s_done = 1;
}

/* All data arrives, without the urgent byte. */
static void play(const char *letters, int way)
{
	static struct script s;
	size_t sent = 0;
	struct ustack *u;
	int fds[2];

	tcp_pair(fds);
	s = (struct script){ .s_fd = fds[0], .s_way = way };
	u = go(read_script, &s);
	for (const char *p = letters; *p; p++) {
		if (*p == 's') {
			put(fds[1], "abc");
			sent += 3;
		}
		if (*p == 'o')
			TEST_EQUAL(send(fds[1], "!", 1, MSG_OOB), 1);
		if (*p == 'f')
			TEST_EQUAL(shutdown(fds[1], SHUT_WR), 0);
		if (*p == 'r') {
			await_sent(fds[1]);
			reset(fds[1]);
		}
		if (*p == 'y')
			pause_thread();
	}
	while (!s.s_done)                       /* or for ever: the test times out */
		pause_thread();
	join(u);
	if (s.s_n != sent || s.s_resets != (strchr(letters, 'r') != NULL))
		fprintf(stderr, "script %s, way %d:\n", letters, way);
	TEST_EQUAL(s.s_n, sent);
	for (size_t i = 0; i < sent; i++)
		TEST_EQUAL(s.s_got[i], "abc"[i % 3]);
	TEST_EQUAL(s.s_resets, strchr(letters, 'r') != NULL);
	TEST_EQUAL(unet_close(fds[0]), 0);
	if (!strchr(letters, 'r'))
		close(fds[1]);
}

/* The k-th script of n letters, and `last'. False: it sends urgent data twice. */
static bool script(char *letters, size_t n, size_t k, char last)
{
	size_t urgent = 0;

	for (size_t i = 0; i < n; i++, k /= 3) {
		letters[i] = "syo"[k % 3];
		urgent += letters[i] == 'o';
	}
	letters[n] = last;
	letters[n + 1] = 0;
	return urgent < 2;
}

NET_TEST(play_all)
{
	char letters[SCRIPT + 2];
	size_t longest = test_scale(SCRIPT, 2);

	for (size_t n = 0, scripts = 1; n <= longest; n++, scripts *= 3)
		for (size_t k = 0; k < scripts; k++)
			for (int end_with = 0; end_with < 2; end_with++)
				for (int way = 0; way < READ_WAYS; way++)
					if (script(letters, n, k, "fr"[end_with]))
						play(letters, way);
}

/* ---- Messages ---- */

/* A read gets one message; more may be there. */
static void messages(int fds[2], ssize_t (*send_one)(int fd, const char *text))
{
	char buffer[64];

	for (int i = 0; i < 3; i++) {
		TEST_EQUAL(send_one(fds[1], "one"), 3);
		TEST_EQUAL(send_one(fds[1], "three"), 5);
		pause_thread();
		TEST_EQUAL(unet_read(fds[0], buffer, sizeof buffer, NEVER), 3);
		TEST_EQUAL(unet_read(fds[0], buffer, sizeof buffer, NEVER), 5);
		TEST_EQUAL(unet_read(fds[0], buffer, sizeof buffer, i), -ETIMEDOUT);
	}
	close_both(fds);
}

static ssize_t send_plain(int fd, const char *text)
{
	return write(fd, text, strlen(text));
}

/* With a descriptor, which ends a read from a stream. */
static ssize_t send_rights(int fd, const char *text)
{
	union {
		struct cmsghdr u_header;
		char           u_room[CMSG_SPACE(sizeof(int))];
	} control = { .u_header = { .cmsg_len = CMSG_LEN(sizeof(int)),
				    .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS } };
	struct iovec iov = { (void *)(uintptr_t)text, strlen(text) };
	struct msghdr m = { .msg_iov = &iov, .msg_iovlen = 1, .msg_control = &control,
			    .msg_controllen = sizeof control };

	memcpy(CMSG_DATA(&control.u_header), &fd, sizeof fd);
	return sendmsg(fd, &m, 0);
}

NET_TEST(messages_all)
{
	int fds[2];

	TEST_EQUAL(pipe2(fds, O_DIRECT), 0);    /* packets */
	messages(fds, send_plain);
	TEST_EQUAL(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, fds), 0);
	messages(fds, send_plain);
	TEST_EQUAL(socketpair(AF_UNIX, SOCK_DGRAM, 0, fds), 0);
	messages(fds, send_plain);
	unix_pair(fds);
	messages(fds, send_rights);
}

/* SO_RCVLOWAT: epoll tells of eight bytes or of the end. */
NET_TEST(low_water)
{
	static struct script s;
	struct ustack *u;
	int fds[2], least = 8;

	for (int way = 0; way < READ_WAYS; way++) {
		tcp_pair(fds);
		TEST_EQUAL(setsockopt(fds[0], SOL_SOCKET, SO_RCVLOWAT, &least,
				      sizeof least), 0);
		s = (struct script){ .s_fd = fds[0], .s_way = way };
		u = go(read_script, &s);
		pause_thread();
		for (int i = 0; i < 5; i++) {
			put(fds[1], "abc");
			if (i % 2)
				pause_thread();
		}
		TEST_EQUAL(shutdown(fds[1], SHUT_WR), 0);
		join(u);
		TEST_EQUAL(s.s_n, 15);
		close_both(fds);
	}
}

int main(void)
{
	return over_all(OVER_ALL);
}
