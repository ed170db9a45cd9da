/* SPDX-License-Identifier: MIT */
/* What sockets, pipes and the like do besides: ends, errors, packets, time-outs. */
#include "check.h"

#include <fcntl.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <netdb.h>
#include <poll.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/timerfd.h>
#include <sys/un.h>
#include <time.h>

static int64_t now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static int error_of(int fd)
{
	int error = -1;
	socklen_t size = sizeof error;

	CHECK(getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size) == 0);
	return error;
}

static short ready(int fd, short events)
{
	struct pollfd one = { fd, events, 0 };

	poll(&one, 1, 0);
	return one.revents;
}

/* ---- A port at which none listens ---- */

static void test_refused(void)
{
	struct sockaddr_in a = address("127.0.0.1", 9);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
	struct pollfd one = { fd, POLLOUT, 0 };

	CHECK(connect(fd, (struct sockaddr *)&a, sizeof a) < 0 && errno == EINPROGRESS);
	CHECK(connect(fd, (struct sockaddr *)&a, sizeof a) < 0 && errno == EALREADY);
	CHECK(ready(fd, POLLOUT) == 0);
	CHECK(poll(&one, 1, -1) == 1 && one.revents & POLLERR && one.revents & POLLOUT);
	CHECK(error_of(fd) == ECONNREFUSED && error_of(fd) == 0);
	close(fd);
	fd = socket(AF_INET, SOCK_STREAM, 0);
	CHECK(connect(fd, (struct sockaddr *)&a, sizeof a) < 0 && errno == ECONNREFUSED);
	close(fd);
}

/* ---- Half-closed connections ---- */

static void *answer_at_end(void *arg)
{
	int fd = accept((int)(intptr_t)arg, NULL, NULL);
	char buffer[100];
	size_t got = 0;
	ssize_t n;

	while ((n = read(fd, buffer + got, sizeof buffer - got)) > 0)
		got += (size_t)n;
	CHECK(n == 0 && got == 11);
	CHECK(write(fd, buffer, got) == (ssize_t)got);
	CHECK(close(fd) == 0);
	return NULL;
}

static void test_half_closed(void)
{
	int listener = listener_at("127.0.0.1", 7001), fd;
	pthread_t t = started(answer_at_end, (void *)(intptr_t)listener);
	char buffer[20];

	fd = connected_to("127.0.0.1", 7001);
	CHECK(write(fd, "hello world", 11) == 11);
	CHECK(shutdown(fd, SHUT_WR) == 0);
	CHECK(write(fd, "x", 1) < 0 && errno == EPIPE);
	read_full(fd, buffer, 11);
	CHECK(memcmp(buffer, "hello world", 11) == 0);
	CHECK(read(fd, buffer, 1) == 0);
	CHECK(close(fd) == 0);
	pthread_join(t, NULL);
	CHECK(close(listener) == 0);
}

/* Sockets of datagrams, which need no peer, and of a peer that is full. */
static void *shut_later(void *arg)
{
	usleep(1000);
	shutdown((int)(intptr_t)arg, SHUT_RDWR);
	return NULL;
}

static void test_shut(void)
{
	int fds[2] = { socket(AF_INET, SOCK_DGRAM, 0), -1 };
	struct sockaddr_in a = { .sin_family = AF_INET, .sin_port = htons(7002) };
	static char block[10000];
	pthread_t t;
	char c = 0;

	CHECK(bind(fds[0], (struct sockaddr *)&a, sizeof a) == 0);
	t = started(shut_later, (void *)(intptr_t)fds[0]);
	CHECK(recv(fds[0], &c, 1, 0) == 0);
	CHECK(recv(fds[0], &c, 1, MSG_DONTWAIT) < 0 && errno == EAGAIN);
	CHECK(shutdown(fds[0], SHUT_RD) < 0 && errno == ENOTCONN);
	pthread_join(t, NULL);
	close(fds[0]);
	for (int i = 0; i < 2; i++) {
		CHECK(socketpair(AF_UNIX, i ? SOCK_DGRAM : SOCK_STREAM, 0, fds) == 0);
		t = started(shut_later, (void *)(intptr_t)fds[0]);
		while (send(fds[0], block, sizeof block, 0) > 0)
			;
		CHECK(errno == EPIPE);
		CHECK(recv(fds[0], &c, 1, 0) == 0);
		pthread_join(t, NULL);
		CHECK(close(fds[0]) == 0);
		CHECK(close(fds[1]) == 0);
	}
}

/* The other side closes with something unread: a reset; and writes to a closed one. */
static void *close_early(void *arg)
{
	int fd = accept((int)(intptr_t)arg, NULL, NULL);
	char c;

	read_full(fd, &c, 1);
	CHECK(close(fd) == 0);
	return NULL;
}

static void test_reset(void)
{
	int listener = listener_at("127.0.0.1", 7001), fd;
	pthread_t t = started(close_early, (void *)(intptr_t)listener);
	char buffer[100] = "";
	ssize_t n = 0;

	fd = connected_to("127.0.0.1", 7001);
	CHECK(write(fd, buffer, sizeof buffer) == sizeof buffer);
	n = read(fd, buffer, 1);
	CHECK(n == 0 || (n < 0 && errno == ECONNRESET));
	while ((n = write(fd, buffer, 1)) == 1)
		usleep(1000);
	CHECK(n < 0 && (errno == EPIPE || errno == ECONNRESET));
	close(fd);
	pthread_join(t, NULL);
	fd = socket(AF_INET, SOCK_STREAM, 0);
	CHECK(bind(fd, (struct sockaddr *)&(struct sockaddr_in){ .sin_family = AF_INET,
			.sin_port = htons(7001) }, sizeof(struct sockaddr_in)) < 0
	      && errno == EADDRINUSE);
	close(fd);
	close(listener);
}

/* ---- A stream larger than its room ---- */

enum { MUCH = 1000000 };

static void *send_much(void *arg)
{
	int fd = (int)(intptr_t)arg;
	char *all = malloc(MUCH);

	for (int i = 0; i < MUCH; i++)
		all[i] = (char)(i * 7 % 251);
	CHECK(write(fd, all, MUCH) == MUCH);
	free(all);
	CHECK(close(fd) == 0);
	return NULL;
}

static void take_much(int fd)
{
	static char part[30000];
	int at = 0;
	ssize_t n;

	while ((n = read(fd, part, sizeof part)) > 0)
		for (ssize_t i = 0; i < n; i++, at++)
			CHECK(part[i] == (char)(at * 7 % 251));
	CHECK(n == 0 && at == MUCH);
	close(fd);
}

static void test_much(void)
{
	int listener = listener_at("127.0.0.1", 7001), fds[2];
	void *client = (void *)(intptr_t)connected_to("127.0.0.1", 7001);
	pthread_t t = started(send_much, client);

	take_much(accept(listener, NULL, NULL));
	pthread_join(t, NULL);
	close(listener);
	CHECK(pipe(fds) == 0);
	t = started(send_much, (void *)(intptr_t)fds[1]);
	take_much(fds[0]);
	pthread_join(t, NULL);
	CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, fds) == 0);
	t = started(send_much, (void *)(intptr_t)fds[1]);
	take_much(fds[0]);
	pthread_join(t, NULL);
}

/* ---- Pipes, and descriptors that count ---- */

static void test_pipe(void)
{
	int fds[2], n;
	char c;

	CHECK(pipe(fds) == 0);
	CHECK(ready(fds[0], POLLIN) == 0 && ready(fds[1], POLLOUT) == POLLOUT);
	CHECK(write(fds[1], "ab", 2) == 2 && ioctl(fds[0], FIONREAD, &n) == 0 && n == 2);
	CHECK(read(fds[0], &c, 1) == 1 && c == 'a' && ready(fds[0], POLLIN) == POLLIN);
	n = dup(fds[1]);
	close(fds[1]);
	CHECK(ready(fds[0], POLLIN) == POLLIN);
	close(n);
	CHECK(read(fds[0], &c, 1) == 1 && ready(fds[0], POLLIN) == POLLHUP);
	CHECK(read(fds[0], &c, 1) == 0);
	close(fds[0]);
	CHECK(pipe2(fds, O_NONBLOCK) == 0);
	CHECK(read(fds[0], &c, 1) < 0 && errno == EAGAIN);
	close(fds[0]);
	CHECK(write(fds[1], "a", 1) < 0 && errno == EPIPE);
	CHECK(ready(fds[1], POLLOUT) & POLLERR);
	close(fds[1]);
}

static void *count_later(void *arg)
{
	usleep(5000);
	CHECK(eventfd_write((int)(intptr_t)arg, 3) == 0);
	return NULL;
}

static void test_counts(void)
{
	int fd = eventfd(0, 0), set = epoll_create1(0);
	int64_t begin = now();
	pthread_t t = started(count_later, (void *)(intptr_t)fd);
	struct epoll_event e = { .events = EPOLLIN, .data.fd = fd };
	struct itimerspec spec = { { 0, 10000000 }, { 0, 10000000 } };
	eventfd_t value;
	uint64_t times;

	CHECK(epoll_ctl(set, EPOLL_CTL_ADD, fd, &e) == 0);
	CHECK(epoll_ctl(set, EPOLL_CTL_ADD, fd, &e) < 0 && errno == EEXIST);
	CHECK(epoll_wait(set, &e, 1, -1) == 1 && e.data.fd == fd);
	CHECK(now() - begin >= 5000000);
	CHECK(eventfd_read(fd, &value) == 0 && value == 3);
	CHECK(epoll_wait(set, &e, 1, 20) == 0);
	pthread_join(t, NULL);
	close(fd);
	close(set);
	fd = timerfd_create(CLOCK_MONOTONIC, 0);
	begin = now();
	CHECK(timerfd_settime(fd, 0, &spec, NULL) == 0);
	CHECK(read(fd, &times, sizeof times) == sizeof times && times == 1);
	CHECK(now() - begin >= 10000000 && now() - begin < 20000000);
	usleep(35000);
	CHECK(read(fd, &times, sizeof times) == sizeof times && times == 3);
	close(fd);
}

/* ---- Packets ---- */

static void test_packets(void)
{
	struct sockaddr_in a = address("10.0.0.2", 53), from;
	int server = socket(AF_INET, SOCK_DGRAM, 0);
	int client = socket(AF_INET, SOCK_DGRAM, 0);
	struct timeval limit = { 1, 0 };
	socklen_t size = sizeof from;
	char buffer[100];
	int64_t begin;

	CHECK(bind(server, (struct sockaddr *)&a, sizeof a) == 0);
	CHECK(sendto(client, "one", 3, 0, (struct sockaddr *)&a, sizeof a) == 3);
	CHECK(recvfrom(server, buffer, 2, MSG_TRUNC, (struct sockaddr *)&from, &size)
	      == 3);
	CHECK(connect(client, (struct sockaddr *)&a, sizeof a) == 0);
	CHECK(sendto(server, "four", 4, 0, (struct sockaddr *)&from, size) == 4);
	CHECK(recv(client, buffer, sizeof buffer, 0) == 4);
	CHECK(memcmp(buffer, "four", 4) == 0);
	CHECK(setsockopt(client, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit) == 0);
	begin = now();
	CHECK(recv(client, buffer, 1, 0) < 0 && errno == EAGAIN);
	CHECK(now() - begin >= 1000000000);
	close(server);
	CHECK(send(client, "five", 4, 0) == 4);
	CHECK(recv(client, buffer, 1, 0) < 0 && errno == ECONNREFUSED);
	close(client);
}

static void test_several(void)
{
	struct sockaddr_in a = address("10.0.0.2", 54);
	struct iovec parts[2] = { { (char[]){ "one" }, 3 }, { (char[]){ "four" }, 4 } };
	int server = socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK, 0);
	int client = socket(AF_INET, SOCK_DGRAM, 0);
	struct mmsghdr two[2] = { 0 };
	char buffer[10];

	for (int i = 0; i < 2; i++)
		two[i].msg_hdr = (struct msghdr){ .msg_iov = &parts[i], .msg_iovlen = 1 };
	CHECK(bind(server, (struct sockaddr *)&a, sizeof a) == 0);
	CHECK(connect(client, (struct sockaddr *)&a, sizeof a) == 0);
	CHECK(sendmmsg(client, two, 2, MSG_DONTWAIT) == 2);
	CHECK(two[0].msg_len == 3 && two[1].msg_len == 4);
	sleep(1);
	CHECK(recv(server, buffer, sizeof buffer, 0)
	      + recv(server, buffer, sizeof buffer, 0) == 7);
	close(server);
	close(client);
}

/* ---- Sockets of the kernel ---- */

static void test_others(void)
{
	int fd = socket(AF_NETLINK, SOCK_RAW, 0), set = epoll_create1(0);
	int named = socket(AF_INET, SOCK_DGRAM, 0);
	struct epoll_event e = { .events = EPOLLIN };
	struct ifreq one = { .ifr_ifindex = 1 };
	struct { struct nlmsghdr head; struct rtgenmsg family; } asks = {
		{ sizeof asks, RTM_GETLINK, NLM_F_REQUEST | NLM_F_DUMP, 1, 0 }, { 0 },
	};
	char answer[1 << 16];

	CHECK(epoll_ctl(set, EPOLL_CTL_ADD, fd, &e) == 0);
	for (int i = 0; i < 2; i++) {
		CHECK(epoll_wait(set, &e, 1, 10) == 0);
		CHECK(poll(&(struct pollfd){ fd, POLLIN, 0 }, 1, 10) == 0);
		CHECK(send(fd, &asks, sizeof asks, 0) == sizeof asks);
		CHECK(i == 0 || epoll_wait(set, &e, 1, -1) == 1);
		CHECK(recv(fd, answer, sizeof answer, 0) > 0);
		while (recv(fd, answer, sizeof answer, MSG_DONTWAIT) > 0)
			;
	}
	CHECK(ioctl(named, SIOCGIFNAME, &one) == 0 && one.ifr_name[0]);
	CHECK(ioctl(named, TCGETS, &one) < 0 && errno == ENOTTY);
	close(fd);
	CHECK(socket(AF_NETLINK, SOCK_RAW, 0) == fd);
	CHECK(epoll_ctl(set, EPOLL_CTL_ADD, fd, &e) == 0);
	close(fd);
	CHECK(epoll_wait(set, &e, 1, 10) == 0);
	close(set);
	close(named);
}

/* Sets that watch each other are refused, and so are six in each other. */
static void test_nested(void)
{
	struct epoll_event e = { .events = EPOLLIN };
	int sets[6];

	for (int i = 0; i < 6; i++) {
		sets[i] = epoll_create1(0);
		CHECK(i == 0 || (epoll_ctl(sets[i], EPOLL_CTL_ADD, sets[i - 1], &e) == 0)
		      == (i < 5));
	}
	CHECK(errno == ELOOP);
	CHECK(epoll_ctl(sets[0], EPOLL_CTL_ADD, sets[1], &e) < 0 && errno == ELOOP);
	for (int i = 0; i < 6; i++)
		close(sets[i]);
}

/* ---- Options and flags ---- */

static int option_of(int fd, int level, int name)
{
	int value = -1;
	socklen_t size = sizeof value;

	CHECK(getsockopt(fd, level, name, &value, &size) == 0 && size == sizeof value);
	return value;
}

static void test_options(void)
{
	int fd = socket(AF_INET, SOCK_STREAM, 0), other = dup(fd), one = 1, room = 10000;
	struct timeval limit = { 0, 1500 };
	socklen_t size = sizeof limit;
	int fds[2];

	CHECK(option_of(fd, SOL_SOCKET, SO_TYPE) == SOCK_STREAM);
	CHECK(option_of(fd, SOL_SOCKET, SO_PROTOCOL) == IPPROTO_TCP);
	CHECK(option_of(fd, SOL_SOCKET, SO_RCVBUF) == 212992);
	CHECK(option_of(fd, SOL_SOCKET, SO_REUSEADDR) == 0);
	CHECK(setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one) == 0);
	CHECK(setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &room, sizeof room) == 0);
	CHECK(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit) == 0);
	CHECK(option_of(other, SOL_SOCKET, SO_REUSEADDR) == 1);
	CHECK(option_of(other, SOL_SOCKET, SO_RCVBUF) == 2 * room);
	limit.tv_usec = 0;
	CHECK(getsockopt(other, SOL_SOCKET, SO_RCVTIMEO, &limit, &size) == 0);
	CHECK(limit.tv_sec == 0 && limit.tv_usec == 1500);
	CHECK(getsockopt(fd, SOL_SOCKET, -1, &one, &size) < 0 && errno == ENOPROTOOPT);
	close(fd);
	close(other);
	CHECK(socket(AF_INET, SOCK_STREAM, IPPROTO_UDP) < 0 && errno == EPROTONOSUPPORT);
	CHECK(socket(AF_UNIX, SOCK_SEQPACKET, 0) < 0 && errno == ESOCKTNOSUPPORT);
	CHECK(pipe(fds) == 0 && fds[1] == fds[0] + 1);
	CHECK((fcntl(fds[0], F_GETFL) & O_ACCMODE) == O_RDONLY);
	CHECK((fcntl(fds[1], F_GETFL) & O_ACCMODE) == O_WRONLY);
	CHECK(write(fds[0], "a", 1) < 0 && errno == EBADF);
	CHECK(read(fds[1], &(char){ 0 }, 1) < 0 && errno == EBADF);
	close(fds[0]);
	close(fds[1]);
}

/* ---- Names ---- */

static void *greet_by_name(void *arg)
{
	int fd = accept((int)(intptr_t)arg, NULL, NULL);

	CHECK(write(fd, "hi", 2) == 2);
	close(fd);
	return NULL;
}

static void test_names(void)
{
	struct sockaddr_un u = { .sun_family = AF_UNIX,
				 .sun_path = "/tmp/no-such/socket" };
	struct stat st;
	struct addrinfo hints = { .ai_socktype = SOCK_STREAM }, *found;
	int listener = socket(AF_UNIX, SOCK_STREAM, 0);
	int fd = socket(AF_UNIX, SOCK_STREAM, 0);
	char buffer[2];
	pthread_t t;

	CHECK(connect(fd, (struct sockaddr *)&u, sizeof u) < 0 && errno == ENOENT);
	CHECK(bind(listener, (struct sockaddr *)&u, sizeof u) < 0 && errno == ENOENT);
	CHECK(mkdir("/tmp/no-such", 0700) == 0);
	CHECK(bind(listener, (struct sockaddr *)&u, sizeof u) == 0);
	CHECK(listen(listener, 5) == 0 && chmod(u.sun_path, 0600) == 0);
	CHECK(rename(u.sun_path, "/tmp/no-such/x") == 0 && stat(u.sun_path, &st) < 0);
	strcpy(u.sun_path, "/tmp/no-such/x");
	CHECK(stat(u.sun_path, &st) == 0 && st.st_mode == (S_IFSOCK | 0600));
	t = started(greet_by_name, (void *)(intptr_t)listener);
	CHECK(connect(fd, (struct sockaddr *)&u, sizeof u) == 0);
	read_full(fd, buffer, 2);
	CHECK(read(fd, buffer, 1) == 0);
	pthread_join(t, NULL);
	close(fd);
	close(listener);
	fd = socket(AF_UNIX, SOCK_STREAM, 0);
	CHECK(connect(fd, (struct sockaddr *)&u, sizeof u) < 0 && errno == ECONNREFUSED);
	CHECK(bind(fd, (struct sockaddr *)&u, sizeof u) < 0 && errno == EADDRINUSE);
	CHECK(unlink(u.sun_path) == 0);
	CHECK(bind(fd, (struct sockaddr *)&u, sizeof u) == 0);
	close(fd);
	CHECK(getaddrinfo("localhost", "80", &hints, &found) == 0);
	CHECK(found->ai_family == AF_INET6 && found->ai_next->ai_family == AF_INET);
	freeaddrinfo(found);
	CHECK(getaddrinfo("no-such-host", "80", &hints, &found) == EAI_NONAME);
}

/* Both listeners of a port get connections, if both let others have it. */
static void test_shared_port(void)
{
	struct sockaddr_in a = { .sin_family = AF_INET, .sin_port = htons(9002) };
	struct pollfd listeners[2];
	int clients[2];

	for (int i = 0; i < 2; i++) {
		listeners[i] = (struct pollfd){ .fd = socket(AF_INET, SOCK_STREAM, 0),
						.events = POLLIN };
		CHECK(i == 0 || bind(listeners[1].fd, (void *)&a, sizeof a) < 0);
		setsockopt(listeners[i].fd, SOL_SOCKET, SO_REUSEPORT, &(int){ 1 },
			   sizeof(int));
		CHECK(bind(listeners[i].fd, (struct sockaddr *)&a, sizeof a) == 0);
		CHECK(listen(listeners[i].fd, 2) == 0);
	}
	for (int i = 0; i < 2; i++) {
		clients[i] = socket(AF_INET, SOCK_STREAM, 0);
		CHECK(connect(clients[i], (struct sockaddr *)&a, sizeof a) == 0);
	}
	while (poll(listeners, 2, -1) < 2)
		;
	for (int i = 0; i < 2; i++) {
		close(clients[i]);
		close(listeners[i].fd);
	}
}

/* ---- Descriptors that are passed ---- */

static ssize_t pass_two(int to, int one, int other)
{
	struct iovec data = { "ab", 2 };
	union { struct cmsghdr c; char room[CMSG_SPACE(2 * sizeof(int))]; } u = { 0 };
	struct msghdr m = { .msg_iov = &data, .msg_iovlen = 1, .msg_control = &u,
			    .msg_controllen = sizeof u };
	int fds[] = { one, other };

	u.c.cmsg_level = SOL_SOCKET;
	u.c.cmsg_type = SCM_RIGHTS;
	u.c.cmsg_len = CMSG_LEN(sizeof fds);
	memcpy(CMSG_DATA(&u.c), fds, sizeof fds);
	return sendmsg(to, &m, 0);
}

/* Reads a message, and up to two descriptors. Returns how many descriptors came. */
static size_t take_two(int from, size_t most, ssize_t size, int fds[2], int *flags)
{
	char text[8];
	struct iovec data = { text, sizeof text };
	union { struct cmsghdr c; char room[CMSG_SPACE(2 * sizeof(int))]; } u = { 0 };
	struct msghdr m = { .msg_iov = &data, .msg_iovlen = 1, .msg_control = &u,
			    .msg_controllen = CMSG_LEN(most * sizeof(int)) };
	size_t n;

	CHECK(recvmsg(from, &m, MSG_CMSG_CLOEXEC) == size);
	*flags = m.msg_flags;
	if (m.msg_controllen == 0)
		return 0;
	CHECK(u.c.cmsg_level == SOL_SOCKET && u.c.cmsg_type == SCM_RIGHTS);
	n = (u.c.cmsg_len - CMSG_LEN(0)) / sizeof(int);
	memcpy(fds, CMSG_DATA(&u.c), n * sizeof(int));
	return n;
}

static void *pass_later(void *to)
{
	int *fds = to;

	usleep(1000);
	CHECK(pass_two(fds[0], fds[1], fds[2]) == 2);
	CHECK(close(fds[1]) == 0 && close(fds[2]) == 0 && write(fds[0], "c", 1) == 1);
	return NULL;
}

/* An end of a pipe and a file come as new descriptors of the same open files. */
static void test_passed(int kind)
{
	int file = open("/tmp/usched-sim-passed", O_CREAT | O_RDWR, 0600);
	int ends[2], pipes[2], got[2] = { -1, -1 }, flags, to[3];
	pthread_t t;
	char c;

	CHECK(socketpair(AF_UNIX, kind, 0, ends) == 0 && pipe(pipes) == 0 && file >= 0);
	CHECK(pass_two(ends[0], pipes[1], 999) < 0 && errno == EBADF);
	CHECK(recv(ends[1], &c, 1, MSG_DONTWAIT) < 0 && errno == EAGAIN);
	memcpy(to, (int[]){ ends[0], pipes[1], file }, sizeof to);
	t = started(pass_later, to);
	CHECK(take_two(ends[1], 2, 2, got, &flags) == 2 && !(flags & MSG_CTRUNC));
	CHECK(pthread_join(t, NULL) == 0 && got[0] != got[1] && got[0] != pipes[0]);
	CHECK(fcntl(got[0], F_GETFD) == FD_CLOEXEC);
	CHECK(write(got[0], "p", 1) == 1 && read(pipes[0], &c, 1) == 1 && c == 'p');
	CHECK(write(got[1], "file", 4) == 4 && pread(got[1], &c, 1, 3) == 1 && c == 'e');
	CHECK(read(ends[1], &c, 1) == 1 && c == 'c');

	/* Only one fits; the other one, and those that nobody reads, are closed. */
	CHECK(pass_two(ends[0], got[1], got[0]) == 2);
	CHECK(pass_two(ends[0], got[0], got[0]) == 2);
	close(got[0]);
	CHECK(take_two(ends[1], 1, 2, &got[0], &flags) == 1 && flags & MSG_CTRUNC);
	CHECK(pread(got[0], &c, 1, 0) == 1 && c == 'f' && ready(pipes[0], POLLIN) == 0);
	CHECK(read(ends[1], &c, 1) == 1);
	CHECK(close(ends[0]) == 0 && close(ends[1]) == 0);
	CHECK(ready(pipes[0], POLLIN) == POLLHUP && read(pipes[0], &c, 1) == 0);
	CHECK(close(got[0]) == 0 && close(got[1]) == 0 && close(pipes[0]) == 0);
}

/* ---- IPv6, which is one network with IPv4 ---- */

static struct sockaddr_in6 address6(const char *host, int port)
{
	struct sockaddr_in6 a = { .sin6_family = AF_INET6,
				  .sin6_port = htons((in_port_t)port) };

	CHECK(inet_pton(AF_INET6, host, &a.sin6_addr) == 1);
	return a;
}

/* Returns a listener with this address, or -1. */
static int listener_at6(const char *host, int port, int only6)
{
	struct sockaddr_in6 a = address6(host, port);
	int fd = socket(AF_INET6, SOCK_STREAM, 0);

	setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &only6, sizeof only6);
	if (bind(fd, (struct sockaddr *)&a, sizeof a) == 0 && listen(fd, 1) == 0)
		return fd;
	CHECK(errno == EADDRINUSE && close(fd) == 0);
	return -1;
}

/* Connects to an address, and returns the error, or else what the listener gets. */
static int reached6(int listener, const char *host, int port)
{
	struct sockaddr_in6 a = address6(host, port);
	int fd = socket(AF_INET6, SOCK_STREAM, 0), error = 0;

	if (connect(fd, (struct sockaddr *)&a, sizeof a) < 0)
		error = errno;
	else
		close(accept(listener, NULL, NULL));
	close(fd);
	return error;
}

static void test_six(void)
{
	int both = listener_at6("::", 7006, 0), four, six, fd;
	struct sockaddr_in6 mapped = address6("::ffff:127.0.0.1", 0), from;
	socklen_t size = sizeof from;

	CHECK(listener_at6("::1", 7006, 1) < 0 && listener_at6("::", 7006, 1) < 0);
	CHECK(reached6(both, "::1", 7006) == 0);
	CHECK(reached6(both, "::ffff:127.0.0.1", 7006) == 0);
	CHECK(reached6(both, "::", 7006) == 0);
	fd = connected_to("127.0.0.1", 7006);
	close(accept(both, (struct sockaddr *)&from, &size));
	CHECK(size == sizeof from && from.sin6_family == AF_INET6 && from.sin6_port != 0);
	CHECK(memcmp(&from.sin6_addr, &mapped.sin6_addr, sizeof from.sin6_addr) == 0);
	CHECK(close(fd) == 0 && close(both) == 0);
	four = listener_at("0.0.0.0", 7006);
	six = listener_at6("::", 7006, 1);
	CHECK(four >= 0 && six >= 0 && listener_at6("::", 7006, 0) < 0);
	CHECK(reached6(four, "::ffff:127.0.0.1", 7006) == 0);
	CHECK(reached6(six, "::1", 7006) == 0);
	CHECK(close(six) == 0 && reached6(four, "::1", 7006) == ECONNREFUSED);
	CHECK(close(four) == 0);
}

int main(void)
{
	signal(SIGPIPE, SIG_IGN);
	for (int fd = 3; fd < 4100; fd++)       /* as programs do at their start */
		close(fd);
	test_refused();
	test_half_closed();
	test_shut();
	test_reset();
	test_much();
	test_pipe();
	test_counts();
	test_packets();
	test_several();
	test_others();
	test_nested();
	test_options();
	test_names();
	test_six();
	test_shared_port();
	test_passed(SOCK_STREAM);
	test_passed(SOCK_DGRAM);
	puts("sockets: passed");
	return 0;
}
