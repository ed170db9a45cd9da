/* SPDX-License-Identifier: MIT */
/*
 * test_net_calls.c: messages with ancillary data, sockets that are connected by hand,
 * buffers that are written whole, time-outs of the system, forgotten descriptors.
 */
#define _GNU_SOURCE
#include "../help/net.h"

#include <limits.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/un.h>

/* ---- Messages ---- */

static void send_descriptor(int to, int fd)
{
	union ancillary a = { .a_head = { .cmsg_len = CMSG_LEN(sizeof fd),
					  .cmsg_level = SOL_SOCKET,
					  .cmsg_type = SCM_RIGHTS } };
	struct iovec iov[2] = { { (char[]){ 'a' }, 1 }, { (char[]){ 'b', 'c' }, 2 } };
	struct msghdr message = message_of(iov, 2, &a);

	memcpy(CMSG_DATA(&a.a_head), &fd, sizeof fd);
	TEST_EQUAL(unet_sendmsg(to, &message, 0, NEVER), 3);
}

static struct {
	int  r_from;
	int  r_fd;
	char r_bytes[4];
} received;

static void receive_descriptor(void *unused)
{
	union ancillary a;
	struct iovec iov = { received.r_bytes, sizeof received.r_bytes };
	struct msghdr message = message_of(&iov, 1, &a);

	(void)unused;
	TEST_EQUAL(unet_recvmsg(received.r_from, &message, MSG_CMSG_CLOEXEC, NEVER), 3);
	TEST_EQUAL(message.msg_flags & (MSG_TRUNC | MSG_CTRUNC), 0);
	TEST_EQUAL(CMSG_FIRSTHDR(&message)->cmsg_type, SCM_RIGHTS);
	memcpy(&received.r_fd, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof(int));
}

/* A descriptor goes through a socket, before and while the other thread waits for it. */
NET_TEST(descriptors_are_sent)
{
	int fds[2], ends[2];
	struct ustack *u;

	for (int waits = 0; waits < 2; waits++) {
		unix_pair(fds);
		TEST_EQUAL(pipe(ends), 0);
		received.r_from = fds[1];
		if (!waits)
			send_descriptor(fds[0], ends[0]);
		u = go(receive_descriptor, NULL);
		if (waits) {
			await_waiting(u);
			send_descriptor(fds[0], ends[0]);
		}
		join(u);
		TEST_EQUAL(memcmp(received.r_bytes, "abc", 3), 0);
		TEST_TRUE(fcntl(received.r_fd, F_GETFD) & FD_CLOEXEC);
		put(ends[1], "x");
		receive(received.r_fd, "x");
		TEST_EQUAL(unet_close(received.r_fd) + close(ends[0]) + close(ends[1]),
			   0);
		close_both(fds);
	}
}

/* Datagrams with addresses; what does not fit is cut off, and told. */
NET_TEST(datagrams)
{
	struct unet_addr a = address(local()), from;
	int one = bind_datagrams(&a), other = bind_datagrams(&a);
	char bytes[4];
	struct iovec out = { (char[]){ "abcdef" }, 6 }, in = { bytes, sizeof bytes };
	struct msghdr message = message_of(&out, 1, NULL);

	a = bound(other);
	message.msg_name = &a.ad_sockaddr;
	message.msg_namelen = a.ad_size;
	TEST_EQUAL(unet_sendmsg(one, &message, 0, NEVER), 6);
	message = message_of(&in, 1, NULL);
	message.msg_name = &from.ad_sockaddr;
	message.msg_namelen = sizeof from.ad_sockaddr;
	TEST_EQUAL(unet_recvmsg(other, &message, 0, NEVER), 4);
	TEST_EQUAL(memcmp(bytes, "abcd", 4), 0);
	TEST_TRUE(message.msg_flags & MSG_TRUNC);
	from.ad_size = message.msg_namelen;
	a = bound(one);
	TEST_EQUAL(port_of(&from), port_of(&a));
	TEST_EQUAL(unet_recvmsg(other, &message, 0, 0), -ETIMEDOUT);
	TEST_EQUAL(unet_recvmsg(other, &message, 0, usync_after(MILLI)), -ETIMEDOUT);
	TEST_EQUAL(unet_close(one) + unet_close(other), 0);
}

static atomic_bool is_full, sent;

static void send_to_full(void *a)
{
	int fd = socket(AF_UNIX, SOCK_DGRAM, 0);
	struct iovec out = { (char[]){ 'x' }, 1 };
	struct msghdr message = message_of(&out, 1, NULL);
	struct unet_addr *to = a;
	ssize_t n;

	message.msg_name = &to->ad_sockaddr;
	message.msg_namelen = to->ad_size;
	while ((n = unet_sendmsg(fd, &message, 0, 0)) == 1)
		;
	TEST_EQUAL(n, -ETIMEDOUT);
	TEST_EQUAL(unet_sendmsg(fd, &message, 0, usync_after(2 * MILLI)), -ETIMEDOUT);
	is_full = true;
	TEST_EQUAL(unet_sendmsg(fd, &message, 0, NEVER), 1);
	sent = true;
	TEST_EQUAL(unet_close(fd), 0);
}

/* The receiver's queue is full: no event tells of room there. */
NET_TEST(full_receiver)
{
	static struct unet_addr a;
	char name[64];
	struct ustack *u;
	int fd;

	snprintf(name, sizeof name, "@usched-calls-%ld", (long)getpid());
	a = address(name);
	fd = bind_datagrams(&a);
	TEST_TRUE(fd >= 0);
	is_full = sent = false;
	u = go(send_to_full, &a);
	while (!is_full)
		nap(1);
	nap(20);                                /* so that it waits, most likely */
	drain(fd);
	join(u);
	TEST_EQUAL(unet_close(fd), 0);
}

/* ---- Connections by hand ---- */

NET_TEST(connects)
{
	int listener = mini_listen(4), fd = socket(AF_INET, SOCK_STREAM, 0), peer;
	struct unet_addr a = bound(listener), none = { .ad_size = sizeof(sa_family_t) };

	TEST_EQUAL(unet__connect(fd, &a, NEVER), 0);
	TEST_TRUE(fcntl(fd, F_GETFL) & O_NONBLOCK);
	peer = accept(listener, NULL, NULL);
	TEST_EQUAL(unet_write(fd, "x", 1, NEVER), 1);
	receive(peer, "x");
	TEST_EQUAL(unet__connect(fd, &a, NEVER), -EISCONN);
	TEST_EQUAL(unet_close(fd) + unet_close(peer) + close(listener), 0);
	fd = socket(AF_INET, SOCK_STREAM, 0);
	for (int i = 0; i < 2; i++)
		TEST_EQUAL(unet__connect(fd, &a, NEVER), -ECONNREFUSED);
	TEST_EQUAL(unet_close(fd), 0);
	TEST_EQUAL(unet__connect(fd, &a, NEVER), -EBADF);
	TEST_EQUAL(unet__connect(-1, &a, NEVER), -EBADF);
	fd = socket(AF_INET, SOCK_DGRAM, 0);
	TEST_EQUAL(unet__connect(fd, &a, NEVER), 0);
	none.ad_sockaddr.ss_family = AF_UNSPEC;
	TEST_EQUAL(unet__connect(fd, &none, 0), 0);
	TEST_EQUAL(unet_write(fd, "x", 1, NEVER), -EDESTADDRREQ);
	TEST_EQUAL(unet_close(fd), 0);
}

/*
 * The kernel queues connections late. A listener without a backlog is full as soon as it
 * is readable. TCP_INFO has the length of the queue, and qemu gives four bytes of it.
 */
static void await_queued(int listener)
{
	struct pollfd p = { listener, POLLIN, 0 };

	TEST_EQUAL(poll(&p, 1, -1), 1);
}

/* The system goes on with it, and the next call waits for that. */
static void connects_later(void)
{
	enum { QUEUED = 4 };
	int listener = mini_listen(0), fd = socket(AF_INET, SOCK_STREAM, 0);
	int queued[QUEUED], accepted, rc;
	struct unet_addr a = bound(listener);

	for (int i = 0; i < QUEUED; i++) {
		queued[i] = socket(AF_INET, SOCK_STREAM, 0);
		do_not_wait(queued[i]);
		connect(queued[i], sockaddr_of(&a), a.ad_size);
	}
	await_queued(listener);
	for (int i = 0; i < 3; i++)
		TEST_EQUAL(unet__connect(fd, &a, i ? usync_after(MILLI) : 0),
			   -ETIMEDOUT);
	do_not_wait(listener);
	do {
		accepted = accept(listener, NULL, NULL);
		if (accepted >= 0)
			close(accepted);
		rc = unet__connect(fd, &a, usync_after(10 * MILLI));
	} while (rc == -ETIMEDOUT);
	TEST_EQUAL(rc, 0);
	for (int i = 0; i < QUEUED; i++)
		close(queued[i]);
	TEST_EQUAL(unet_close(fd), 0);
	close(listener);
}

/* ---- Time-outs ---- */

/* The peer does not read, and TCP gives up, long before the deadline. */
static void system_times_out(void)
{
	int fds[2], wait = 1;
	int64_t deadline = usync_after(3600 * USYNC_SECOND);
	char c[1000] = "";
	int rc = 0;

	tcp_pair(fds);
	TEST_EQUAL(setsockopt(fds[0], IPPROTO_TCP, TCP_USER_TIMEOUT, &wait, sizeof wait),
		   0);
	TEST_EQUAL(unet_read(fds[0], c, 1, usync_after(MILLI)), -ETIMEDOUT);
	while (rc == 0)
		rc = unet_write_all(fds[0], c, sizeof c, NULL, deadline);
	TEST_EQUAL(rc, -ETIME);
	close_both(fds);
}

/* ---- Buffers written whole ---- */

enum { PARTS = 3000 };

static void write_parts(void *fd)
{
	struct iovec *iov = calloc(PARTS, sizeof *iov);
	unsigned char *bytes = malloc(PARTS);
	size_t done = 0, size = 0;

	TEST_TRUE(iov && bytes);
	for (size_t i = 0; i < PARTS; i++) {
		bytes[i] = (unsigned char)(i * 3);
		iov[i] = (struct iovec){ bytes, i % 50 == 0 ? i : i % 3 };
		size += iov[i].iov_len;
	}
	TEST_EQUAL(unet_writev_all(*(int *)fd, iov, PARTS, &done, NEVER), 0);
	TEST_EQUAL(done, size);
	for (size_t i = 0; i < PARTS; i++)
		TEST_TRUE(iov[i].iov_base == bytes
			  && iov[i].iov_len == (i % 50 == 0 ? i : i % 3));
	TEST_EQUAL(unet_shutdown(*(int *)fd, SHUT_WR), 0);
	free(iov);
	free(bytes);
}

NET_TEST(parts)
{
	static int fds[2];
	struct iovec none = { NULL, 0 };
	unsigned char in[PARTS];
	size_t done = 77;
	struct ustack *u;

	_Static_assert(PARTS > IOV_MAX, "more than one system call takes");
	unix_pair(fds);
	small_buffers(fds[0]);
	u = go(write_parts, &fds[0]);
	for (size_t i = 0; i < PARTS; i++) {
		size_t n = i % 50 == 0 ? i : i % 3;

		TEST_EQUAL(unet_read_all(fds[1], in, n, NULL, NEVER), 0);
		for (size_t k = 0; k < n; k++)
			TEST_EQUAL(in[k], (unsigned char)(k * 3));
	}
	TEST_EQUAL(unet_read(fds[1], in, 1, NEVER), 0);
	join(u);
	TEST_EQUAL(unet_writev_all(fds[1], NULL, 0, &done, NEVER), 0);
	TEST_EQUAL(done, 0);
	TEST_EQUAL(unet_writev_all(fds[1], &none, 1, NULL, NEVER), 0);
	TEST_EQUAL(unet_writev_all(fds[1], &none, -1, NULL, NEVER), -EINVAL);
	close_both(fds);
}

/* ---- Forgetting ---- */

static bool blocks(int fd)
{
	return !(fcntl(fd, F_GETFL) & O_NONBLOCK);
}

/* As it was found: it blocks, or it does not. The number can be used again. */
NET_TEST(forgets)
{
	int fds[2], listener, fd;
	struct unet_addr a;
	char c;

	for (int i = 0; i < 3; i++) {
		i == 0 ? unix_pair(fds) : i == 1 ? tcp_pair(fds) : (void)pipe(fds);
		for (int k = 0; k < 2; k++) {
			TEST_EQUAL(unet_read(fds[0], &c, 1, 0), -ETIMEDOUT);
			TEST_TRUE(!blocks(fds[0]));
			TEST_EQUAL(unet_forget(fds[0]), 0);
			TEST_TRUE(blocks(fds[0]));
		}
		put(fds[1], "xy");
		expect(fds[0], "x");
		receive(fds[0], "y");
		TEST_EQUAL(unet_forget(fds[0]) + unet_forget(fds[1]), 0);
		TEST_EQUAL(unet_forget(fds[0]), 0);             /* twice */
		do_not_wait(fds[1]);
		TEST_EQUAL(unet__adopt_fd(fds[1]) + unet_forget(fds[1]), 0);
		TEST_TRUE(!blocks(fds[1]));
		TEST_EQUAL(close(fds[0]) + close(fds[1]), 0);
		TEST_EQUAL(unet_forget(fds[0]), -EBADF);
	}
	TEST_EQUAL(unet_forget(-1), -EBADF);
	a = address(local());
	listener = unet_listen(&a, 1, 0);
	a = bound(listener);
	fd = mini_connect(a);
	fds[0] = unet_accept(listener, NULL, NEVER);
	TEST_EQUAL(unet_forget(listener) + unet_forget(fds[0]), 0);
	TEST_TRUE(!blocks(listener) && !blocks(fds[0]));
	TEST_EQUAL(close(listener) + close(fds[0]) + close(fd), 0);
}

/* Events of waits before do not reach the number's next user. */
NET_TEST(forgets_events)
{
	int fds[2], next[2], copy;
	char c;

	unix_pair(fds);
	TEST_EQUAL(unet_read(fds[0], &c, 1, usync_after(MILLI)), -ETIMEDOUT);
	TEST_EQUAL(unet_forget(fds[0]), 0);
	copy = dup(fds[0]);                             /* the open file stays */
	close(fds[0]);
	pair_at(next, fds[0]);
	TEST_EQUAL(unet_read(next[0], &c, 1, usync_after(MILLI)), -ETIMEDOUT);
	put(fds[1], "x");
	TEST_EQUAL(unet_read(next[0], &c, 1, usync_after(2 * MILLI)), -ETIMEDOUT);
	expect(copy, "x");
	close(copy);
	close(fds[1]);
	close_both(next);
}

NATIVE_CASE(datagrams)
NATIVE_CASE(connects)
CONF_CASE(connects_later, one_processor)
CONF_CASE(system_times_out, one_processor)
NATIVE_CASE(forgets)

int main(void)
{
	return over_all(OVER_ALL);
}
