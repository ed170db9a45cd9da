/* SPDX-License-Identifier: MIT */
/*
 * net.h: the tests of ../unet.h that all schedulers have in common. To be included once by
 * a test program that defines
 *
 *   _GNU_SOURCE                    before all else
 *   SCHED                          rr, ll or another: SCHED_create() and so on
 *   START(s, func, arg, thread)    starts a thread on the next processor in turn
 *
 * Most of it runs in a thread, the main thread of its test, which does to others what is to be
 * tested. What is not to be tested is done by plain system calls.
 */
#include "test.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>

#include "../uconf.h"
#include "../uevents.h"
#include "../unet.h"
#include "../usync.h"

#define JOIN_NAMES(a, b) a##b
#define NAME(a, b)       JOIN_NAMES(a, b)
#define S(name)          NAME(SCHED, _##name)

#define NEVER USCHED_NEVER
#define COUNT(a) (sizeof(a) / sizeof *(a))

typedef struct SCHED sched;

static sched *the;                      /* of the test that runs */

enum { MILLI = 1000000 };               /* ns */

/* ---- Threads ---- */

static struct ustack *go(void (*func)(void *), void *arg)
{
	struct ustack *u;

	TEST_EQUAL(START(the, func, arg, &u), 0);
	return u;
}

static void end(struct ustack *u)
{
	TEST_EQUAL(ustack_join(u, NEVER), 0);
}

/* Lets others run, on this processor and elsewhere. */
static void pause_thread(void)
{
	TEST_EQUAL(test_give_way(), 0);
	sched_yield();
}

/* How many wait for the system where `u' runs. */
static uint32_t waiting(const struct ustack *u)
{
	struct uevents *e = __atomic_load_n(&ustack_sched(u)->s_events, __ATOMIC_ACQUIRE);

	return e ? __atomic_load_n(&e->e_waiting, __ATOMIC_ACQUIRE) : 0;
}

static size_t descriptors(void)
{
	DIR *dir = opendir("/proc/self/fd");
	size_t n = 0;

	TEST_TRUE(dir != NULL);
	while (readdir(dir))
		n++;
	closedir(dir);
	return n;
}

static void sleep_shortly(void *unused)
{
	(void)unused;
	TEST_EQUAL(usync_sleep_until(usync_after(MILLI)), 0);
}

/* So that no processor makes its events, with descriptors of theirs, in the middle. */
static void all_have_events(void)
{
	struct ustack *sleepers[8];

	for (int i = 0; i < 8; i++)
		sleepers[i] = go(sleep_shortly, NULL);
	for (int i = 0; i < 8; i++)
		end(sleepers[i]);
}

/* Runs main(conf) as a thread. What it opens it has to close. */
static void in_thread(const struct usched_conf *conf, void (*func)(void *))
{
	struct usched_conf c = *conf;
	size_t before = descriptors();
	struct ustack *u;

	assert_int_equal(S(create)(&c, &the), 0);
	assert_int_equal(START(the, func, &c, &u), 0);
	assert_int_equal(ustack_join(u, USCHED_NEVER), 0);
	assert_int_equal(S(destroy)(the), 0);
	assert_int_equal(descriptors(), before);
}

static const struct usched_conf few = { .c_processors = 1 };
static const struct usched_conf some = { .c_processors = 2 };

static void each_conf(void (*func)(void *))
{
	static const struct usched_conf confs[] = {
		{ .c_processors = 1, .c_stacks = USCHED_NATIVE },
		{ .c_processors = 1 },
		{ .c_processors = 2, .c_stacks = 1 },
		{ .c_processors = 3 },
	};

	for (size_t i = 0; i < COUNT(confs); i++)
		in_thread(&confs[i], func);
}

static void in_native(void *(*func)(void *), void *arg)
{
	pthread_t native;

	assert_int_equal(pthread_create(&native, NULL, func, arg), 0);
	assert_int_equal(pthread_join(native, NULL), 0);
}

static void sleep_native(long ms)
{
	struct timespec t = { ms / 1000, ms % 1000 * MILLI };

	nanosleep(&t, NULL);
}

/* ---- Descriptors, by plain system calls ---- */

static struct unet_addr address(const char *text)
{
	struct unet_addr a = { 0 };

	TEST_EQUAL(unet_addr(text, &a), 0);
	return a;
}

static struct sockaddr *plain(struct unet_addr *a)
{
	return (struct sockaddr *)(void *)&a->a_sockaddr;
}

/* Where `fd' is bound to. */
static struct unet_addr bound(int fd)
{
	struct unet_addr a = { .a_size = sizeof a.a_sockaddr };

	TEST_EQUAL(getsockname(fd, plain(&a), &a.a_size), 0);
	return a;
}

/*
 * An address of this machine, and of this process: what tests leave in TIME_WAIT would otherwise
 * take all ports away from those after them.
 */
static const char *local(void)
{
	static char text[32];
	unsigned pid = (unsigned)getpid();

	snprintf(text, sizeof text, "127.%u.%u.1:0", 1 + pid / 250 % 250, 1 + pid % 250);
	return text;
}

static int port_of(const struct unet_addr *a)
{
	const struct sockaddr_in *in = (const struct sockaddr_in *)(const void *)
		&a->a_sockaddr;

	return ntohs(in->sin_port);             /* at the same place in IPv6 */
}

static int mini_listen(int backlog)
{
	struct unet_addr a = address(local());
	int fd = socket(AF_INET, SOCK_STREAM, 0);

	TEST_TRUE(fd >= 0);
	TEST_EQUAL(bind(fd, plain(&a), a.a_size), 0);
	TEST_EQUAL(listen(fd, backlog), 0);
	return fd;
}

/* It may block. */
static int mini_connect(struct unet_addr to)
{
	int fd = socket(to.a_sockaddr.ss_family, SOCK_STREAM, 0);

	TEST_TRUE(fd >= 0);
	TEST_EQUAL(connect(fd, plain(&to), to.a_size), 0);
	return fd;
}

static void tcp_pair(int fds[2])
{
	int fd = mini_listen(1);

	fds[0] = mini_connect(bound(fd));
	fds[1] = accept(fd, NULL, NULL);
	TEST_TRUE(fds[1] >= 0);
	close(fd);
	for (int i = 0; i < 2; i++)             /* nothing is held back */
		TEST_EQUAL(setsockopt(fds[i], IPPROTO_TCP, TCP_NODELAY, &(int){ 1 },
				      sizeof(int)), 0);
}

static void unix_pair(int fds[2])
{
	TEST_EQUAL(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
}

static void put(int fd, const char *text)
{
	TEST_EQUAL(write(fd, text, strlen(text)), strlen(text));
}

/* Reads without waiting what should be there. */
static void expect(int fd, const char *text)
{
	char buffer[64];

	TEST_EQUAL(read(fd, buffer, strlen(text)), strlen(text));
	TEST_EQUAL(memcmp(buffer, text, strlen(text)), 0);
}

/* The same through ../unet.h, which waits for it. */
static void receive(int fd, const char *text)
{
	char buffer[64];

	TEST_EQUAL(unet_read_all(fd, buffer, strlen(text), NULL, NEVER), 0);
	TEST_EQUAL(memcmp(buffer, text, strlen(text)), 0);
}

static void do_not_wait(int fd)
{
	TEST_EQUAL(fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK), 0);
}

/* Writes until there is no room. */
static void fill(int fd)
{
	static const char zeros[4096];

	do_not_wait(fd);
	while (write(fd, zeros, sizeof zeros) > 0)
		;
	TEST_EQUAL(errno, EAGAIN);
	while (write(fd, zeros, 1) > 0)
		;
}

/* Reads until there is nothing. How much it was. */
static size_t drain(int fd)
{
	char buffer[4096];
	size_t sum = 0;
	ssize_t n;

	do_not_wait(fd);
	while ((n = read(fd, buffer, sizeof buffer)) > 0)
		sum += (size_t)n;
	return sum;
}

/* Has `fd' be the descriptor `number', which must be free. */
static int at_number(int fd, int number)
{
	if (fd == number)
		return fd;
	TEST_EQUAL(fcntl(fd, F_DUPFD, number), number);
	TEST_EQUAL(unet_close(fd), 0);
	return number;
}

/* A pair, of which the first is the descriptor `number'. */
static void pair_at(int fds[2], int number)
{
	unix_pair(fds);
	if (fds[1] == number) {
		fds[1] = fds[0];
		fds[0] = number;
	}
	fds[0] = at_number(fds[0], number);
}

/* A TCP window below a segment, of 64 KiB here, would wait for a timer again and again. */
static void small_buffers(int fd)
{
	int out = 4096, in = 100000;

	TEST_EQUAL(setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &out, sizeof out), 0);
	TEST_EQUAL(setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &in, sizeof in), 0);
}

/* To close it will reset the connection. */
static void be_abrupt(int fd)
{
	struct linger linger = { 1, 0 };

	TEST_EQUAL(setsockopt(fd, SOL_SOCKET, SO_LINGER, &linger, sizeof linger), 0);
}

/* Until the peer has all that was written, which a reset would drop. */
static void await_sent(int fd)
{
	int left;

	do {
		TEST_EQUAL(ioctl(fd, TIOCOUTQ, &left), 0);
		sched_yield();
	} while (left > 0);
}

static void reset(int fd)
{
	be_abrupt(fd);
	close(fd);
}

static bool has_ipv6(void)
{
	struct unet_addr a = address("[::1]:0");
	int fd = socket(AF_INET6, SOCK_STREAM, 0);
	bool has = fd >= 0 && bind(fd, plain(&a), a.a_size) == 0;

	if (fd >= 0)
		close(fd);
	return has;
}

/* A directory for sockets and files, and names in it. */
static char directory[64];

static void make_directory(void)
{
	const char *tmp = getenv("TMPDIR");

	snprintf(directory, sizeof directory, "%.40s/usched.XXXXXX", tmp ? tmp : "/tmp");
	TEST_TRUE(mkdtemp(directory) != NULL);
}

static const char *path_of(const char *name)
{
	static char path[sizeof directory + 32];

	snprintf(path, sizeof path, "%s/%.24s", directory, name);
	return path;
}

static void remove_directory(void)
{
	TEST_EQUAL(rmdir(directory), 0);
}

/* ---- Addresses ---- */

static void test_addresses(void **state)
{
	static const char *const texts[] = {
		"127.0.0.1:80", "0.0.0.0:0", "255.255.255.255:65535", "[::1]:80", "[::]:1",
		"[2001:db8::ff:1]:65535", "/path", "/a/longer path:80", "@name", "@:1", "@[::1]:1",
	};
	struct unet_addr a, b;
	char text[UNET_TEXT_MAX];

	(void)state;
	test_timeout(20);
	for (size_t i = 0; i < COUNT(texts); i++) {
		assert_int_equal(unet_addr(texts[i], &a), 0);
		assert_ptr_equal(unet_text(&a, text), text);
		assert_string_equal(text, texts[i]);
	}
	assert_int_equal(unet_addr("127.0.0.1:80", &a), 0);
	assert_int_equal(a.a_sockaddr.ss_family, AF_INET);
	assert_int_equal(a.a_size, sizeof(struct sockaddr_in));
	assert_int_equal(port_of(&a), 80);
	assert_int_equal(unet_addr("[::1]:81", &a), 0);
	assert_int_equal(a.a_sockaddr.ss_family, AF_INET6);
	assert_int_equal(a.a_size, sizeof(struct sockaddr_in6));
	assert_int_equal(port_of(&a), 81);
	assert_int_equal(unet_addr(":80", &a), 0);
	assert_int_equal(unet_addr("*:80", &b), 0);
	assert_int_equal(a.a_size, b.a_size);
	assert_memory_equal(&a.a_sockaddr, &b.a_sockaddr, a.a_size);
	assert_int_equal(port_of(&a), 80);
	unet_text(&a, text);
	assert_int_equal(unet_addr(text, &b), 0);
	assert_int_equal(a.a_size, b.a_size);
	assert_memory_equal(&a.a_sockaddr, &b.a_sockaddr, a.a_size);
}

static void test_bad_addresses(void **state)
{
	static const char *const texts[] = {
		"", ":", "*", "*:", "80", "127.0.0.1", "127.0.0.1:", "127.0.0.1:x", "127.0.0.1:80x",
		"127.0.0.1:65536", "127.0.0.1:-1", "127.0.0.1:+1", "127.0.0.1: 1", "127.0.0.1:1 ",
		"127.0.0.1:4294967376", "127.0.0.1:99999999999999999999", "127.0.0:80",
		"127.0.0.256:80", " 127.0.0.1:80", "127.0.0.1:80:80", "localhost:80", "::1:80",
		"::1", "[::1]", "[::1]80", "[::1", "[::1:80", "[]:80", "[::g]:80", "[127.0.0.1]:80",
		"[::1]:65536", "path", "./path",
		"1111111111111111111111111111111111111111111111111111111111111111111111111:80",
		"[1111111111111111111111111111111111111111111111111111111111111111111111]:80",
	};
	char text[UNET_TEXT_MAX + 1];
	struct unet_addr a;

	(void)state;
	test_timeout(20);
	for (size_t i = 0; i < COUNT(texts); i++)
		if (unet_addr(texts[i], &a) != -EINVAL)
			fail_msg("\"%s\" is an address", texts[i]);
	memset(text, 'x', sizeof text);
	for (size_t i = 0; i < 2; i++) {
		text[0] = "/@"[i];
		text[107] = 0;
		assert_int_equal(unet_addr(text, &a), 0);
		assert_string_equal(unet_text(&a, (char[UNET_TEXT_MAX]){ 0 }), text);
		text[107] = 'x';
		text[109] = 0;
		assert_int_equal(unet_addr(text, &a), -ENAMETOOLONG);
		text[109] = 'x';
	}
}

/* What is no address from text has a text all the same. */
static void test_other_addresses(void **state)
{
	struct unet_addr a = { .a_size = sizeof(sa_family_t) };
	char text[UNET_TEXT_MAX];

	(void)state;
	test_timeout(20);
	memset(text, 'x', sizeof text);
	a.a_sockaddr.ss_family = AF_UNIX;       /* no name */
	assert_ptr_equal(unet_text(&a, text), text);
	assert_non_null(memchr(text, 0, sizeof text));
	memset(text, 'x', sizeof text);
	a.a_size = sizeof(struct sockaddr_un);  /* as long as can be, without a 0 */
	memset((char *)&a.a_sockaddr + sizeof(sa_family_t), 'y', a.a_size - sizeof(sa_family_t));
	unet_text(&a, text);
	assert_non_null(memchr(text, 0, sizeof text));
	memset(text, 'x', sizeof text);
	a.a_sockaddr.ss_family = AF_NETLINK;
	unet_text(&a, text);
	assert_non_null(memchr(text, 0, sizeof text));
}

/* ---- Making descriptors ---- */

static void made_right(int fd)
{
	TEST_TRUE(fd >= 0);
	TEST_TRUE(fcntl(fd, F_GETFL) & O_NONBLOCK);
	TEST_TRUE(fcntl(fd, F_GETFD) & FD_CLOEXEC);
}

struct client {
	struct unet_addr c_addr;
	struct unet_addr c_self;
};

static void greet(void *arg)
{
	struct client *c = arg;
	int fd = unet_connect(&c->c_addr, NEVER);

	made_right(fd);
	c->c_self = bound(fd);
	TEST_EQUAL(unet_write(fd, "hello", 5, NEVER), 5);
	receive(fd, "you");
	TEST_EQUAL(unet_close(fd), 0);
}

/* A listener, a client, and who serves it. */
static void serve_one(const struct unet_addr *a, unsigned flags)
{
	static struct client c;
	struct unet_addr peer = { 0 };
	int listener = unet_listen(a, 0, flags), fd, on = 0;
	socklen_t size = sizeof on;
	struct ustack *u;

	made_right(listener);
	c.c_addr = bound(listener);
	u = go(greet, &c);
	fd = unet_accept(listener, &peer, NEVER);
	made_right(fd);
	receive(fd, "hello");
	TEST_EQUAL(unet_write(fd, "you", 3, NEVER), 3);
	end(u);
	TEST_EQUAL(peer.a_size, c.c_self.a_size);
	TEST_EQUAL(memcmp(&peer.a_sockaddr, &c.c_self.a_sockaddr, peer.a_size), 0);
	if (a->a_sockaddr.ss_family != AF_UNIX) {
		TEST_EQUAL(getsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, &size), 0);
		TEST_EQUAL(on, 1);
	}
	TEST_EQUAL(unet_close(fd), 0);
	TEST_EQUAL(unet_close(listener), 0);
}

/* The port of a server that has closed connections is free for the next. */
static void listen_again(void)
{
	struct unet_addr a = address(local());
	int listener = unet_listen(&a, 0, 0), client, fd;

	a = bound(listener);
	client = mini_connect(a);
	fd = unet_accept(listener, NULL, NEVER);
	TEST_EQUAL(unet_close(fd), 0);          /* first: it is this end that stays */
	TEST_EQUAL(read(client, &(char){ 0 }, 1), 0);
	close(client);
	TEST_EQUAL(unet_close(listener), 0);
	listener = unet_listen(&a, 0, 0);
	TEST_TRUE(listener >= 0);
	TEST_EQUAL(unet_close(listener), 0);
}

static void streams(void *conf)
{
	char name[64];
	struct unet_addr a = address(local());

	(void)conf;
	serve_one(&a, 0);
	serve_one(&a, UNET_REUSEPORT);
	listen_again();
	snprintf(name, sizeof name, "@usched-%ld", (long)getpid());
	a = address(name);
	serve_one(&a, 0);
	make_directory();
	a = address(path_of("socket"));
	serve_one(&a, 0);
	TEST_EQUAL(unet_listen(&a, 0, 0), -EADDRINUSE);         /* it is still there */
	TEST_EQUAL(unlink(path_of("socket")), 0);
	serve_one(&a, 0);
	TEST_EQUAL(unlink(path_of("socket")), 0);
	TEST_EQUAL(unet_connect(&a, NEVER), -ENOENT);
	remove_directory();
}

static void test_streams(void **state)
{
	(void)state;
	test_timeout(60);
	each_conf(streams);
}

static void streams_v6(void *conf)
{
	struct unet_addr a = address("[::1]:0"), any = address(":0"), four;
	char text[UNET_TEXT_MAX];
	int fd, fd4, client;

	(void)conf;
	serve_one(&a, 0);
	serve_one(&a, UNET_V6ONLY | UNET_REUSEPORT);
	fd = unet_listen(&any, 0, 0);           /* both kinds */
	any = bound(fd);
	snprintf(text, sizeof text, "127.0.0.1:%d", port_of(&any));
	client = mini_connect(address(text));
	snprintf(text, sizeof text, "[::1]:%d", port_of(&any));
	close(mini_connect(address(text)));
	close(client);
	for (int i = 0; i < 2; i++)
		TEST_EQUAL(unet_close(unet_accept(fd, NULL, NEVER)), 0);
	TEST_EQUAL(unet_close(fd), 0);
	do {                                    /* the port may be somebody else's in IPv4 */
		any = address(":0");
		fd = unet_listen(&any, 0, UNET_V6ONLY); /* leaves IPv4 to others */
		TEST_TRUE(fd >= 0);
		any = bound(fd);
		snprintf(text, sizeof text, "0.0.0.0:%d", port_of(&any));
		four = address(text);
		fd4 = unet_listen(&four, 0, 0);
		TEST_EQUAL(unet_close(fd), 0);
	} while (fd4 == -EADDRINUSE);
	TEST_EQUAL(unet_close(fd4), 0);
}

static void test_streams_v6(void **state)
{
	(void)state;
	test_timeout(60);
	if (!has_ipv6()) {
		print_message("no IPv6 here\n");
		skip();
	}
	each_conf(streams_v6);
}

/* Errors come from the call, and leave no descriptor. */
static void making_fails(void *conf)
{
	struct unet_addr a = address(local()), taken;
	struct unet_addr strange = { .a_size = sizeof(struct sockaddr) };
	int fd = unet_listen(&a, 0, 0);
	size_t before;

	(void)conf;
	all_have_events();                      /* to be refused may take a while */
	before = descriptors();
	taken = bound(fd);
	TEST_EQUAL(unet_listen(&taken, 0, 0), -EADDRINUSE);
	TEST_EQUAL(unet_listen(&taken, 0, UNET_REUSEPORT), -EADDRINUSE);        /* it has not */
	strange.a_sockaddr.ss_family = AF_MAX;
	TEST_EQUAL(unet_listen(&strange, 0, 0), -EAFNOSUPPORT);
	TEST_EQUAL(unet_bind(&strange, 0), -EAFNOSUPPORT);
	TEST_EQUAL(unet_connect(&strange, NEVER), -EAFNOSUPPORT);
	TEST_EQUAL(descriptors(), before);
	TEST_EQUAL(unet_close(fd), 0);
	TEST_EQUAL(unet_connect(&taken, NEVER), -ECONNREFUSED);
	TEST_EQUAL(unet_connect(&taken, usync_after(3600 * USYNC_SECOND)), -ECONNREFUSED);
	a = address("@usched-nobody-listens");
	TEST_EQUAL(unet_connect(&a, NEVER), -ECONNREFUSED);
	TEST_EQUAL(descriptors(), before - 1);
}

static void test_making_fails(void **state)
{
	(void)state;
	test_timeout(60);
	each_conf(making_fails);
}

/* Numbers that are no descriptors, for each call. */
static void no_descriptor(int fd)
{
	struct unet_addr a = address("127.0.0.1:1");
	char c[4] = { 0 };
	struct iovec iov = { c, sizeof c };
	size_t done = 77;

	TEST_EQUAL(unet_accept(fd, &a, NEVER), -EBADF);
	TEST_EQUAL(unet_signal(fd, NEVER), -EBADF);
	TEST_EQUAL(unet_adopt(fd), -EBADF);
	TEST_EQUAL(unet_shutdown(fd, SHUT_WR), -EBADF);
	TEST_EQUAL(unet_read(fd, c, sizeof c, NEVER), -EBADF);
	TEST_EQUAL(unet_read(fd, c, sizeof c, 0), -EBADF);
	TEST_EQUAL(unet_write(fd, c, sizeof c, NEVER), -EBADF);
	TEST_EQUAL(unet_readv(fd, &iov, 1, NEVER), -EBADF);
	TEST_EQUAL(unet_writev(fd, &iov, 1, NEVER), -EBADF);
	TEST_EQUAL(unet_recvfrom(fd, c, sizeof c, 0, &a, NEVER), -EBADF);
	TEST_EQUAL(unet_sendto(fd, c, sizeof c, 0, &a, NEVER), -EBADF);
	TEST_EQUAL(unet_read_all(fd, c, sizeof c, &done, NEVER), -EBADF);
	TEST_EQUAL(done, 0);
	done = 77;
	TEST_EQUAL(unet_write_all(fd, c, sizeof c, &done, NEVER), -EBADF);
	TEST_EQUAL(done, 0);
	TEST_EQUAL(unet_wait_readable(fd, NEVER), -EBADF);
	TEST_EQUAL(unet_close(fd), -EBADF);
}

static void no_descriptors(void *conf)
{
	int fds[2];

	(void)conf;
	no_descriptor(-1);
	no_descriptor(INT32_MIN);
	no_descriptor(INT32_MAX);
	no_descriptor(1 << 20);
	unix_pair(fds);
	put(fds[1], "x");
	receive(fds[0], "x");
	for (int i = 0; i < 2; i++)
		TEST_EQUAL(unet_close(fds[i]), 0);
	for (int i = 0; i < 2; i++)
		no_descriptor(fds[i]);
}

static void *no_descriptors_native(void *unused)
{
	no_descriptors(unused);
	return NULL;
}

static void test_no_descriptors(void **state)
{
	(void)state;
	test_timeout(60);
	each_conf(no_descriptors);
	in_native(no_descriptors_native, NULL);
}

/* ---- Other kinds of descriptors ---- */

/* Sends it a greeting, when it waits. */
static void send_later(void *arg)
{
	int fd = *(int *)arg;

	pause_thread();
	put(fd, "hello\n");
}

/* `fds' heap or static: both threads use it. */
static void wait_for_hello(int fds[2])
{
	struct ustack *u = go(send_later, &fds[1]);

	receive(fds[0], "hello\n");
	end(u);
}

static void close_both(const int fds[2])
{
	TEST_EQUAL(unet_close(fds[0]), 0);
	TEST_EQUAL(unet_close(fds[1]), 0);
}

static void pipes(void *conf)
{
	static int fds[2];

	(void)conf;
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

		TEST_EQUAL(unet_adopt(fds[i]), 0);
		TEST_EQUAL(unet_adopt(fds[i]), 0);
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

static void eventfds(void *conf)
{
	static int fd;
	uint64_t n = 0;
	struct ustack *u;

	(void)conf;
	fd = eventfd(0, 0);
	u = go(count_events, &fd);
	for (int i = 0; i < 2; i++) {
		TEST_EQUAL(unet_read(fd, &n, sizeof n, NEVER), sizeof n);
		TEST_EQUAL(n, 3);
		if (i == 0)
			TEST_EQUAL(write(fd, &n, sizeof n), sizeof n);
	}
	end(u);
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

/* In canonical mode each read gets a line, however many there are. */
static void terminals(void *conf)
{
	static int fds[2];
	struct termios t;
	char buffer[64];

	(void)conf;
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

static void files(void *conf)
{
	struct pollfd p = { .events = POLLIN | POLLOUT };
	struct iovec iov[2];
	char buffer[8];
	int fd;

	(void)conf;
	make_directory();
	fd = open(path_of("file"), O_RDWR | O_CREAT | O_EXCL, 0600);
	TEST_TRUE(fd >= 0);
	TEST_EQUAL(unet_adopt(fd), 0);
	TEST_EQUAL(unet_write_all(fd, "abcdef", 6, NULL, NEVER), 0);
	TEST_EQUAL(lseek(fd, 0, SEEK_SET), 0);
	receive(fd, "abc");
	iov[0] = (struct iovec){ buffer, 2 };
	iov[1] = (struct iovec){ buffer + 2, 6 };
	TEST_EQUAL(unet_readv(fd, iov, 2, NEVER), 3);
	TEST_EQUAL(memcmp(buffer, "def", 3), 0);
	TEST_EQUAL(unet_read(fd, buffer, 8, NEVER), 0);
	TEST_EQUAL(unet_read_all(fd, buffer, 8, NULL, NEVER), -EPIPE);
	p.fd = fd;
	TEST_EQUAL(unet_poll(&p, 1, NEVER), 1);
	TEST_EQUAL(p.revents, POLLIN | POLLOUT);
	TEST_EQUAL(unet_wait_readable(fd, NEVER), 0);
	TEST_EQUAL(unet_recvfrom(fd, buffer, 8, 0, NULL, NEVER), -ENOTSOCK);
	TEST_EQUAL(unet_close(fd), 0);
	TEST_EQUAL(unlink(path_of("file")), 0);
	remove_directory();
}

static void test_kinds(void **state)
{
	(void)state;
	test_timeout(60);
	each_conf(pipes);
	each_conf(eventfds);
	each_conf(files);
}

static void test_terminals(void **state)
{
	int fds[2];

	(void)state;
	test_timeout(60);
	if (!open_terminal(fds)) {
		print_message("no pseudo-terminals here\n");
		skip();
	}
	close(fds[0]);
	close(fds[1]);
	each_conf(terminals);
}

/* Signals are for the whole process: block them before there are other native threads. */
static void kill_self(void *unused)
{
	(void)unused;
	pause_thread();
	kill(getpid(), SIGTERM);
}

static void signals(void *conf)
{
	sigset_t set;
	struct ustack *u;
	int fd;

	(void)conf;
	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGUSR1);
	fd = unet_signals(&set);
	made_right(fd);
	u = go(kill_self, NULL);
	TEST_EQUAL(unet_signal(fd, NEVER), SIGTERM);
	end(u);
	kill(getpid(), SIGTERM);
	kill(getpid(), SIGUSR1);
	TEST_EQUAL(unet_signal(fd, NEVER) + unet_signal(fd, NEVER), SIGTERM + SIGUSR1);
	TEST_EQUAL(unet_signal(fd, 0), -ETIMEDOUT);
	TEST_EQUAL(unet_close(fd), 0);
}

static void block_signals(int how)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGUSR1);
	assert_int_equal(pthread_sigmask(how, &set, NULL), 0);
}

static void test_signals(void **state)
{
	(void)state;
	test_timeout(60);
	block_signals(SIG_BLOCK);
	each_conf(signals);
	block_signals(SIG_UNBLOCK);
}

/* ---- Datagrams ---- */

struct echo {
	struct unet_addr e_addr;
	int              e_fd;
	size_t           e_n;
};

static void echo_datagrams(void *arg)
{
	struct echo *e = arg;
	struct unet_addr from;
	char buffer[64];

	for (size_t i = 0; i < e->e_n; i++) {
		ssize_t n = unet_recvfrom(e->e_fd, buffer, sizeof buffer, 0, &from, NEVER);

		TEST_TRUE(n >= 0);
		TEST_EQUAL(unet_sendto(e->e_fd, buffer, (size_t)n, 0, &from, NEVER), n);
	}
}

/* Each is received by itself: one that is shorter than the buffer says nothing of the next. */
static void exchange_datagrams(struct unet_addr server, struct unet_addr client)
{
	static struct echo e;
	struct unet_addr from = { 0 };
	char buffer[64];
	struct ustack *u;
	int fd = unet_bind(&client, 0);

	e = (struct echo){ .e_fd = unet_bind(&server, 0), .e_n = 5 };
	made_right(fd);
	made_right(e.e_fd);
	e.e_addr = bound(e.e_fd);
	u = go(echo_datagrams, &e);
	for (size_t i = 0; i < 5; i++)          /* the first is empty */
		TEST_EQUAL(unet_sendto(fd, "abcd", i, 0, &e.e_addr, NEVER), i);
	for (size_t i = 0; i < 4; i++) {
		TEST_EQUAL(unet_recvfrom(fd, buffer, 64, MSG_PEEK, NULL, NEVER), i);
		TEST_EQUAL(unet_recvfrom(fd, buffer, 64, 0, &from, NEVER), i);
		TEST_EQUAL(memcmp(buffer, "abcd", i), 0);
		TEST_EQUAL(from.a_size, e.e_addr.a_size);
		TEST_EQUAL(memcmp(&from.a_sockaddr, &e.e_addr.a_sockaddr, from.a_size), 0);
	}
	TEST_EQUAL(unet_recvfrom(fd, buffer, 2, MSG_TRUNC, NULL, NEVER), 4);
	TEST_EQUAL(unet_recvfrom(fd, buffer, 64, 0, NULL, 0), -ETIMEDOUT);
	end(u);
	TEST_EQUAL(unet_close(fd), 0);
	TEST_EQUAL(unet_close(e.e_fd), 0);
}

static void datagrams(void *conf)
{
	struct unet_addr a = address(local());
	static char big[70000];
	char names[2][64];
	int fd;

	(void)conf;
	exchange_datagrams(a, a);
	if (has_ipv6())
		exchange_datagrams(address("[::1]:0"), address("[::1]:0"));
	for (int i = 0; i < 2; i++)
		snprintf(names[i], 64, "@usched-%d-%ld", i, (long)getpid());
	exchange_datagrams(address(names[0]), address(names[1]));
	fd = unet_bind(&a, UNET_REUSEPORT);
	a = bound(fd);
	TEST_EQUAL(unet_sendto(fd, big, sizeof big, 0, &a, NEVER), -EMSGSIZE);
	TEST_EQUAL(unet_bind(&a, 0), -EADDRINUSE);
	TEST_EQUAL(unet_close(unet_bind(&a, UNET_REUSEPORT)), 0);
	TEST_EQUAL(unet_close(fd), 0);
}

static void test_datagrams(void **state)
{
	(void)state;
	test_timeout(60);
	each_conf(datagrams);
}

/* ---- Every call that waits ---- */

/* Where a thread is to wait: what it has in hand, and the other end. */
struct place {
	const struct op *p_op;
	int              p_fd;
	int              p_other;
	int64_t          p_deadline;
	atomic_int       p_returned;
	ssize_t          p_rc;
	char             p_buffer[16];
};

struct op {
	const char *o_name;
	void      (*o_make)(struct place *p);
	ssize_t   (*o_call)(struct place *p, int64_t deadline);
	void      (*o_ready)(struct place *p);  /* has it come back, */
	ssize_t     o_least;                    /* with at least this */
};

static void make_listener(struct place *p)
{
	p->p_fd = mini_listen(4);
	p->p_other = -1;
}

static void make_pair(struct place *p)
{
	int fds[2];

	unix_pair(fds);
	p->p_fd = fds[0];
	p->p_other = fds[1];
}

static void make_tcp(struct place *p)
{
	int fds[2];

	tcp_pair(fds);
	p->p_fd = fds[0];
	p->p_other = fds[1];
}

static void make_pipe(struct place *p)
{
	int fds[2];

	TEST_EQUAL(pipe(fds), 0);
	p->p_fd = fds[0];
	p->p_other = fds[1];
}

static void make_full_pipe(struct place *p)
{
	int fds[2];

	TEST_EQUAL(pipe(fds), 0);
	p->p_fd = fds[1];
	p->p_other = fds[0];
	fill(p->p_fd);
}

static void make_full_pair(struct place *p)
{
	make_pair(p);
	fill(p->p_fd);
}

static void make_udp(struct place *p)
{
	struct unet_addr a = address(local());

	p->p_fd = socket(AF_INET, SOCK_DGRAM, 0);
	TEST_EQUAL(bind(p->p_fd, plain(&a), a.a_size), 0);
	a = bound(p->p_fd);
	p->p_other = socket(AF_INET, SOCK_DGRAM, 0);
	TEST_EQUAL(connect(p->p_other, plain(&a), a.a_size), 0);
}

static void make_full_datagrams(struct place *p)
{
	int fds[2];

	TEST_EQUAL(socketpair(AF_UNIX, SOCK_DGRAM, 0, fds), 0);
	p->p_fd = fds[0];
	p->p_other = fds[1];
	fill(p->p_fd);
}

static void make_eventfd(struct place *p)
{
	p->p_fd = eventfd(0, 0);
	p->p_other = dup(p->p_fd);
}

static void fill_eventfd(int fd)
{
	uint64_t most = UINT64_MAX - 1;

	TEST_EQUAL(write(fd, &most, sizeof most), sizeof most);
}

static void make_full_eventfd(struct place *p)
{
	make_eventfd(p);
	fill_eventfd(p->p_fd);
}

static void make_signals(struct place *p)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGUSR1);
	p->p_fd = unet_signals(&set);
	p->p_other = -1;
}

static ssize_t call_accept(struct place *p, int64_t deadline)
{
	int fd = unet_accept(p->p_fd, NULL, deadline);

	if (fd >= 0)
		TEST_EQUAL(unet_close(fd), 0);
	return fd;
}

static ssize_t call_read(struct place *p, int64_t deadline)
{
	return unet_read(p->p_fd, p->p_buffer, sizeof p->p_buffer, deadline);
}

static ssize_t call_readv(struct place *p, int64_t deadline)
{
	struct iovec iov[2] = { { p->p_buffer, 1 }, { p->p_buffer + 1, 15 } };

	return unet_readv(p->p_fd, iov, 2, deadline);
}

static ssize_t call_recvfrom(struct place *p, int64_t deadline)
{
	return unet_recvfrom(p->p_fd, p->p_buffer, sizeof p->p_buffer, 0, NULL, deadline);
}

static ssize_t call_read_all(struct place *p, int64_t deadline)
{
	return unet_read_all(p->p_fd, p->p_buffer, 8, NULL, deadline);
}

static ssize_t call_wait_readable(struct place *p, int64_t deadline)
{
	return unet_wait_readable(p->p_fd, deadline);
}

/* As if it were one of the others: the descriptor is told of by an error. */
static ssize_t call_poll(struct place *p, int64_t deadline, short events)
{
	struct pollfd fds[2] = { { -1, POLLIN, 0 }, { p->p_fd, events, 0 } };
	int rc = unet_poll(fds, 2, deadline);

	TEST_EQUAL(fds[0].revents, 0);
	if (rc != 1)
		return rc;
	TEST_TRUE(fds[1].revents != 0);
	return fds[1].revents & POLLNVAL ? -EBADF : fds[1].revents;
}

static ssize_t call_poll_in(struct place *p, int64_t deadline)
{
	return call_poll(p, deadline, POLLIN);
}

static ssize_t call_poll_out(struct place *p, int64_t deadline)
{
	return call_poll(p, deadline, POLLOUT);
}

static ssize_t call_signal(struct place *p, int64_t deadline)
{
	return unet_signal(p->p_fd, deadline);
}

static ssize_t call_write(struct place *p, int64_t deadline)
{
	return unet_write(p->p_fd, p->p_buffer, 8, deadline);
}

static ssize_t call_writev(struct place *p, int64_t deadline)
{
	struct iovec iov[2] = { { p->p_buffer, 1 }, { p->p_buffer + 1, 7 } };

	return unet_writev(p->p_fd, iov, 2, deadline);
}

static ssize_t call_sendto(struct place *p, int64_t deadline)
{
	return unet_sendto(p->p_fd, p->p_buffer, 8, 0, NULL, deadline);
}

static ssize_t call_write_all(struct place *p, int64_t deadline)
{
	return unet_write_all(p->p_fd, p->p_buffer, 8, NULL, deadline);
}

static void ready_connect(struct place *p)
{
	close(mini_connect(bound(p->p_fd)));
}

static void ready_send(struct place *p)
{
	put(p->p_other, "12345678");            /* all that there is to read is eight bytes */
}

static void ready_drain(struct place *p)
{
	drain(p->p_other);
}

static void ready_signal(struct place *p)
{
	(void)p;
	kill(getpid(), SIGUSR1);
}

static const struct op ops[] = {
	{ "accept",             make_listener,  call_accept,    ready_connect, 0 },
	{ "poll to accept",     make_listener,  call_poll_in,   ready_connect, POLLIN },
	{ "read",               make_pair,      call_read,      ready_send, 8 },
	{ "read, TCP",          make_tcp,       call_read,      ready_send, 8 },
	{ "read, pipe",         make_pipe,      call_read,      ready_send, 8 },
	{ "read, eventfd",      make_eventfd,   call_read,      ready_send, 8 },
	{ "readv",              make_tcp,       call_readv,     ready_send, 8 },
	{ "readv, pipe",        make_pipe,      call_readv,     ready_send, 8 },
	{ "recvfrom",           make_tcp,       call_recvfrom,  ready_send, 8 },
	{ "recvfrom, UDP",      make_udp,       call_recvfrom,  ready_send, 8 },
	{ "read_all",           make_tcp,       call_read_all,  ready_send, 0 },
	{ "wait_readable",      make_tcp,       call_wait_readable,     ready_send, 0 },
	{ "poll in",            make_tcp,       call_poll_in,   ready_send, POLLIN },
	{ "poll in, pipe",      make_pipe,      call_poll_in,   ready_send, POLLIN },
	{ "signal",             make_signals,   call_signal,    ready_signal, SIGUSR1 },
	{ "write",              make_full_pair, call_write,     ready_drain, 1 },
	{ "write, pipe",        make_full_pipe, call_write,     ready_drain, 1 },
	{ "write, eventfd",     make_full_eventfd,      call_write,     ready_drain, 8 },
	{ "writev",             make_full_pair, call_writev,    ready_drain, 1 },
	{ "sendto",             make_full_pair, call_sendto,    ready_drain, 1 },
	{ "sendto, datagrams",  make_full_datagrams,    call_sendto,    ready_drain, 8 },
	{ "write_all",          make_full_pair, call_write_all, ready_drain, 0 },
	{ "write_all, pipe",    make_full_pipe, call_write_all, ready_drain, 0 },
	{ "poll out",           make_full_pair, call_poll_out,  ready_drain, POLLOUT },
};

/* The place of the test that runs; and what it is about, should it fail. */
static struct place place;

static void make_place(const struct op *op)
{
	memset(&place, 0, sizeof place);
	memset(place.p_buffer, 1, sizeof place.p_buffer);
	place.p_op = op;
	op->o_make(&place);
	TEST_TRUE(place.p_fd >= 0);
}

static void unmake_place(bool closed)
{
	if (!closed)
		TEST_EQUAL(unet_close(place.p_fd), 0);
	if (place.p_other >= 0)
		close(place.p_other);
}

static void op_equal(ssize_t rc, ssize_t right)
{
	if (rc != right)
		fprintf(stderr, "%s:\n", place.p_op->o_name);
	TEST_EQUAL(rc, right);
}

static void call_op(void *arg)
{
	struct place *p = arg;

	p->p_rc = p->p_op->o_call(p, p->p_deadline);
	p->p_returned = 1;
}

static struct ustack *go_op(int64_t deadline)
{
	place.p_deadline = deadline;
	place.p_returned = 0;
	return go(call_op, &place);
}

/* It waits for the system, as nobody else does there. */
static void await_waiting(const struct ustack *u)
{
	while (!place.p_returned && waiting(u) == 0)
		pause_thread();
}

static void end_op(struct ustack *u, ssize_t rc)
{
	end(u);
	op_equal(place.p_rc, rc);
}

/* After whatever went before, the next one waits, and is served. */
static void works(void)
{
	struct ustack *u = go_op(NEVER);

	await_waiting(u);
	if (place.p_returned)
		op_equal(place.p_rc, -EAGAIN);          /* it should not have returned */
	place.p_op->o_ready(&place);
	end(u);
	if (place.p_rc < place.p_op->o_least)
		op_equal(place.p_rc, place.p_op->o_least);
}

static void times_out(const struct op *op)
{
	int64_t deadline;
	struct ustack *u;

	make_place(op);
	op_equal(op->o_call(&place, 0), -ETIMEDOUT);
	op_equal(op->o_call(&place, 1), -ETIMEDOUT);
	op_equal(op->o_call(&place, usync_after(-MILLI)), -ETIMEDOUT);
	deadline = usync_after(3 * MILLI);
	u = go_op(deadline);
	end_op(u, -ETIMEDOUT);
	op_equal(uevents_now() >= deadline, 1);
	works();
	unmake_place(false);
}

/* Before it waits, and while it does. */
static void is_cancelled(const struct op *op)
{
	struct ustack *u;

	make_place(op);
	for (int i = 0; i < 2; i++) {
		u = go_op(i ? usync_after(3600 * USYNC_SECOND) : NEVER);
		await_waiting(u);
		TEST_EQUAL(ustack_cancel(u), 0);
		end_op(u, -ECANCELED);
	}
	u = go_op(NEVER);
	TEST_EQUAL(ustack_cancel(u), 0);
	end_op(u, -ECANCELED);
	works();
	unmake_place(false);
}

/* A second one is refused, unless it need not wait; the first one notices nothing. */
static void is_busy(const struct op *op)
{
	struct ustack *u;

	make_place(op);
	u = go_op(NEVER);
	await_waiting(u);
	op_equal(op->o_call(&place, NEVER), -EBUSY);
	op_equal(op->o_call(&place, usync_after(3600 * USYNC_SECOND)), -EBUSY);
	op_equal(place.p_returned, 0);
	op->o_ready(&place);
	end(u);
	op_equal(place.p_rc >= op->o_least, 1);
	unmake_place(false);
}

/* Its number is another connection's at once, which has data and takes some. */
static void is_closed(const struct op *op)
{
	struct ustack *u;
	int fds[2];

	make_place(op);
	u = go_op(NEVER);
	await_waiting(u);
	op_equal(unet_close(place.p_fd), 0);
	pair_at(fds, place.p_fd);
	put(fds[1], "new");
	end_op(u, -EBADF);
	receive(fds[0], "new");
	do_not_wait(fds[1]);
	op_equal(read(fds[1], &(char){ 0 }, 1), -1);
	op_equal(errno, EAGAIN);
	close_both(fds);
	unmake_place(true);
}

static void *close_native(void *arg)
{
	op_equal(unet_close(*(int *)arg), 0);
	return NULL;
}

static void is_closed_outside(const struct op *op)
{
	pthread_t native;
	struct ustack *u;

	make_place(op);
	u = go_op(NEVER);
	await_waiting(u);
	TEST_EQUAL(pthread_create(&native, NULL, close_native, &place.p_fd), 0);
	end_op(u, -EBADF);
	pthread_join(native, NULL);
	unmake_place(true);
}

static void every_op(void (*test)(const struct op *op))
{
	for (size_t i = 0; i < COUNT(ops); i++)
		test(&ops[i]);
}

static void time_out_all(void *conf)
{
	(void)conf;
	every_op(times_out);
}

static void cancel_all(void *conf)
{
	(void)conf;
	every_op(is_cancelled);
}

static void busy_all(void *conf)
{
	(void)conf;
	every_op(is_busy);
}

static void close_all(void *conf)
{
	all_have_events();
	(void)conf;
	every_op(is_closed);
	every_op(is_closed_outside);
}

static void test_deadlines(void **state)
{
	(void)state;
	test_timeout(60);
	block_signals(SIG_BLOCK);
	each_conf(time_out_all);
	block_signals(SIG_UNBLOCK);
}

static void test_cancel(void **state)
{
	(void)state;
	test_timeout(60);
	block_signals(SIG_BLOCK);
	each_conf(cancel_all);
	block_signals(SIG_UNBLOCK);
}

static void test_busy(void **state)
{
	(void)state;
	test_timeout(60);
	block_signals(SIG_BLOCK);
	each_conf(busy_all);
	block_signals(SIG_UNBLOCK);
}

static void test_close(void **state)
{
	(void)state;
	test_timeout(60);
	block_signals(SIG_BLOCK);
	each_conf(close_all);
	block_signals(SIG_UNBLOCK);
}

/* ---- The same by native threads ---- */

static void *call_op_native(void *arg)
{
	call_op(arg);
	return NULL;
}

/* Whoever comes next waits again. */
static void make_unready(struct place *p)
{
	if (p->p_op->o_ready == ready_send)
		drain(p->p_fd);
	else if (p->p_op->o_make == make_full_eventfd)
		drain(p->p_other), fill_eventfd(p->p_fd);
	else if (p->p_op->o_ready == ready_drain)
		fill(p->p_fd);
	else if (p->p_op->o_call == call_poll_in)
		close(accept(p->p_fd, NULL, NULL));
}

/* Who waits is a native thread; who acts is whoever calls this. */
static void native_waits(const struct op *op)
{
	pthread_t native;

	make_place(op);
	op_equal(op->o_call(&place, 0), -ETIMEDOUT);
	for (int i = 0; i < 3; i++) {
		place.p_returned = 0;
		place.p_deadline = i == 0 ? usync_after(2 * MILLI) : NEVER;
		TEST_EQUAL(pthread_create(&native, NULL, call_op_native, &place), 0);
		sleep_native(1);                /* before or after it waits: both are right */
		if (i == 1)
			op->o_ready(&place);
		if (i == 2)
			op_equal(unet_close(place.p_fd), 0);
		pthread_join(native, NULL);
		if (i != 1)
			op_equal(place.p_rc, i == 0 ? -ETIMEDOUT : -EBADF);
		else if (place.p_rc < op->o_least)
			op_equal(place.p_rc, op->o_least);
		if (i == 1)
			make_unready(&place);
	}
	unmake_place(true);
}

static void native_waits_all(void *conf)
{
	(void)conf;
	every_op(native_waits);
}

static void *native_waits_native(void *unused)
{
	native_waits_all(unused);
	return NULL;
}

static void test_native_threads(void **state)
{
	(void)state;
	test_timeout(60);
	block_signals(SIG_BLOCK);
	each_conf(native_waits_all);
	in_native(native_waits_native, NULL);
	block_signals(SIG_UNBLOCK);
}

/* ---- Connecting to who does not accept ---- */

enum { BACKLOG = 1, QUEUED = 4 };

static void call_connect(void *arg)
{
	struct place *p = arg;
	struct unet_addr a = bound(p->p_fd);
	int fd = unet_connect(&a, p->p_deadline);

	p->p_rc = fd < 0 ? fd : 0;
	if (fd >= 0)
		TEST_EQUAL(unet_close(fd), 0);
	p->p_returned = 1;
}

/*
 * The system takes up connections when it has time. Of a listener tcpi_unacked is how many
 * there are; not everywhere.
 */
static void await_full(int fd)
{
	struct tcp_info info = { 0 };
	socklen_t size = sizeof info;

	for (int ms = 0; ms < 1000 && info.tcpi_unacked <= BACKLOG; ms++) {
		if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &size) < 0)
			return;                 /* it is not TCP */
		sleep_native(1);
	}
}

/* As many connections as the queue of `fd' takes; then it is full. */
static void fill_queue(int fd, int queued[QUEUED])
{
	struct unet_addr a = bound(fd);

	for (int i = 0; i < QUEUED; i++) {
		queued[i] = socket(a.a_sockaddr.ss_family, SOCK_STREAM | SOCK_NONBLOCK, 0);
		if (connect(queued[i], plain(&a), a.a_size) < 0)
			TEST_TRUE(errno == EINPROGRESS || errno == EAGAIN);
	}
	await_full(fd);
}

/* Until who connects is through: others may be before it, and it tries only now and then. */
static void accept_queue(int fd)
{
	int rc;

	do_not_wait(fd);
	while (!place.p_returned) {
		while ((rc = accept(fd, NULL, NULL)) >= 0)
			close(rc);
		pause_thread();
	}
}

static void connect_once(int64_t deadline, int rc)
{
	place.p_deadline = deadline;
	place.p_returned = 0;
	end(go(call_connect, &place));
	TEST_EQUAL(place.p_rc, rc);
}

/* Gives up, which leaves nothing open; and waits until there is room. */
static void connect_waits(const char *listener)
{
	struct unet_addr a = address(listener);
	int queued[QUEUED];
	struct ustack *u;
	size_t before;

	memset(&place, 0, sizeof place);
	place.p_fd = unet_listen(&a, BACKLOG, 0);
	fill_queue(place.p_fd, queued);
	before = descriptors();
	for (int i = 0; i < 4; i++)
		connect_once(i % 2 ? 0 : usync_after(2 * MILLI), -ETIMEDOUT);
	for (int i = 0; i < 2; i++) {
		place.p_deadline = NEVER;
		place.p_returned = 0;
		u = go(call_connect, &place);
		await_waiting(u);
		TEST_EQUAL(place.p_returned, 0);
		i == 0 ? TEST_EQUAL(ustack_cancel(u), 0) : accept_queue(place.p_fd);
		end(u);
		TEST_EQUAL(place.p_rc, i == 0 ? -ECANCELED : 0);
		TEST_EQUAL(descriptors(), before);
	}
	for (int i = 0; i < QUEUED; i++)
		close(queued[i]);
	TEST_EQUAL(unet_close(place.p_fd), 0);
}

static void connect_waits_all(void *conf)
{
	char name[64];

	(void)conf;
	all_have_events();
	connect_waits(local());
	snprintf(name, sizeof name, "@usched-full-%ld", (long)getpid());
	connect_waits(name);
}

static void test_connect_waits(void **state)
{
	(void)state;
	test_timeout(60);
	in_thread(&few, connect_waits_all);
	in_thread(&some, connect_waits_all);
}

/* ---- How much was transferred when it failed ---- */

struct transfer {
	int        t_fd;
	size_t     t_size;
	size_t     t_done;
	int        t_rc;
	int64_t    t_deadline;
	char      *t_data;
	atomic_int t_returned;
};

static void read_some(void *arg)
{
	struct transfer *t = arg;

	t->t_rc = unet_read_all(t->t_fd, t->t_data, t->t_size, &t->t_done, t->t_deadline);
	t->t_returned = 1;
}

static void write_some(void *arg)
{
	struct transfer *t = arg;

	t->t_rc = unet_write_all(t->t_fd, t->t_data, t->t_size, &t->t_done, t->t_deadline);
	t->t_returned = 1;
}

enum { BY_DEADLINE, BY_CANCEL, BY_CLOSE, BY_PEER, WAYS };

static void interrupt_transfer(struct transfer *t, void (*func)(void *), int way, int other)
{
	static const int errors[] = { -ETIMEDOUT, -ECANCELED, -EBADF, -EPIPE };
	struct ustack *u;

	t->t_returned = 0;
	t->t_done = 77;
	t->t_deadline = way == BY_DEADLINE ? usync_after(5 * MILLI) : NEVER;
	u = go(func, t);
	while (way != BY_DEADLINE && !t->t_returned && waiting(u) == 0)
		pause_thread();
	if (way == BY_CANCEL)
		TEST_EQUAL(ustack_cancel(u), 0);
	if (way == BY_CLOSE)
		TEST_EQUAL(unet_close(t->t_fd), 0);
	if (way == BY_PEER)
		TEST_EQUAL(shutdown(other, SHUT_RDWR), 0);
	end(u);
	TEST_EQUAL(t->t_rc, errors[way]);
}

static void partial_read(int way, void (*make)(int fds[2]))
{
	static struct transfer t;
	char data[8] = "";
	int fds[2];

	make(fds);
	put(fds[1], "12345");
	TEST_EQUAL(recv(fds[0], data, 5, MSG_PEEK | MSG_WAITALL), 5);   /* it is there */
	t = (struct transfer){ .t_fd = fds[0], .t_size = 8, .t_data = malloc(8) };
	interrupt_transfer(&t, read_some, way, fds[1]);
	TEST_EQUAL(t.t_done, 5);
	TEST_EQUAL(memcmp(t.t_data, "12345", 5), 0);
	if (way < BY_CLOSE) {                   /* others go on with it */
		put(fds[1], "67");
		TEST_EQUAL(unet_read(fds[0], data, 8, NEVER), 2);
		TEST_EQUAL(memcmp(data, "67", 2), 0);
	}
	if (way != BY_CLOSE)
		TEST_EQUAL(unet_close(fds[0]), 0);
	close(fds[1]);
	free(t.t_data);
}

/* What has been written is what the other end can read. */
static void partial_write(int way, void (*make)(int fds[2]))
{
	static struct transfer t;
	int fds[2];

	make(fds);
	small_buffers(fds[0]);
	small_buffers(fds[1]);
	t = (struct transfer){ .t_fd = fds[0], .t_size = 8 << 20, .t_data = calloc(8, 1 << 20) };
	TEST_TRUE(t.t_data != NULL);
	interrupt_transfer(&t, write_some, way, fds[1]);
	TEST_TRUE(t.t_done > 0 && t.t_done < t.t_size);
	if (way != BY_CLOSE)
		TEST_EQUAL(unet_close(fds[0]), 0);
	if (way != BY_PEER) {
		size_t n = 0;
		char c[512];
		ssize_t rc;

		while ((rc = read(fds[1], c, sizeof c)) > 0)
			n += (size_t)rc;
		TEST_EQUAL(rc, 0);
		TEST_EQUAL(n, t.t_done);
	}
	close(fds[1]);
	free(t.t_data);
}

static void partial(void *conf)
{
	(void)conf;
	for (int way = 0; way < WAYS; way++) {
		partial_read(way, unix_pair);
		partial_read(way, tcp_pair);
		partial_write(way, unix_pair);
		if (way != BY_PEER)             /* TCP has no word for it */
			partial_write(way, tcp_pair);
	}
}

static void transfer_nothing(void *conf)
{
	size_t done = 77;
	int fds[2];
	char c;

	(void)conf;
	tcp_pair(fds);
	TEST_EQUAL(unet_read_all(fds[0], &c, 0, &done, 0), 0);
	TEST_EQUAL(done, 0);
	done = 77;
	TEST_EQUAL(unet_write_all(fds[0], &c, 0, &done, 0), 0);
	TEST_EQUAL(done, 0);
	TEST_EQUAL(unet_read(fds[0], &c, 0, NEVER), 0);
	TEST_EQUAL(unet_write(fds[0], &c, 0, NEVER), 0);
	put(fds[1], "x");
	TEST_EQUAL(unet_read(fds[0], &c, 0, NEVER), 0);
	receive(fds[0], "x");
	TEST_EQUAL(unet_read(fds[0], &c, 1, 0), -ETIMEDOUT);
	TEST_EQUAL(unet_read(fds[0], &c, 0, NEVER), 0); /* nothing to wait for */
	TEST_EQUAL(unet_write_all(fds[0], "y", 1, &done, NEVER), 0);
	TEST_EQUAL(done, 1);
	expect(fds[1], "y");
	close_both(fds);
}

static void test_partial(void **state)
{
	(void)state;
	test_timeout(60);
	each_conf(partial);
	each_conf(transfer_nothing);
}

/* ---- Numbers that are used again ---- */

/*
 * Data is there and the reader is about to run, or does not know yet, when another thread
 * closes the descriptor and makes a new connection of that number. What it gets may be the
 * old data; of the new it gets nothing.
 */
struct swap {
	int     w_fd;
	int     w_new[2];
	ssize_t w_rc;
	char    w_got[8];
};

static void read_swapped(void *arg)
{
	struct swap *w = arg;

	w->w_rc = unet_read(w->w_fd, w->w_got, sizeof w->w_got, NEVER);
}

static void swap_it(void *arg)
{
	struct swap *w = arg;

	TEST_EQUAL(unet_close(w->w_fd), 0);
	pair_at(w->w_new, w->w_fd);
	put(w->w_new[1], "new");
}

static void swap_ready(void *conf)
{
	static struct swap w;
	struct ustack *reader, *swapper;
	int fds[2];

	all_have_events();
	(void)conf;
	for (int i = 0; i < 4; i++) {
		unix_pair(fds);
		w = (struct swap){ .w_fd = fds[0] };
		reader = go(read_swapped, &w);
		while (waiting(reader) == 0)
			pause_thread();
		if (i % 2)                      /* told when those ready have run, or before */
			put(fds[1], "old");
		swapper = go(swap_it, &w);
		if (i % 2 == 0 && send(fds[1], "old", 3, MSG_NOSIGNAL) < 0)
			TEST_EQUAL(errno, EPIPE);
		if (i / 2)
			pause_thread();
		end(swapper);
		end(reader);
		if (w.w_rc != -EBADF) {
			TEST_EQUAL(w.w_rc, 3);
			TEST_EQUAL(memcmp(w.w_got, "old", 3), 0);
		}
		receive(w.w_new[0], "new");
		close_both(w.w_new);
		close(fds[1]);
	}
}

/*
 * A reader that never has to wait gives way at some time; meanwhile its descriptor becomes
 * another's.
 */
static void read_until_closed(void *arg)
{
	struct swap *w = arg;

	do {
		w->w_rc = unet_read(w->w_fd, w->w_got, 1, NEVER);
	} while (w->w_rc == 1 && w->w_got[0] == 'o');
}

static void swap_giving_way(void *conf)
{
	static struct swap w;
	struct ustack *reader, *swapper;
	char data[1000];
	int fds[2];

	all_have_events();
	(void)conf;
	memset(data, 'o', sizeof data);
	unix_pair(fds);
	TEST_EQUAL(write(fds[1], data, sizeof data), sizeof data);
	w = (struct swap){ .w_fd = fds[0] };
	reader = go(read_until_closed, &w);
	swapper = go(swap_it, &w);
	end(swapper);
	end(reader);
	TEST_EQUAL(w.w_rc, -EBADF);
	receive(w.w_new[0], "new");
	close_both(w.w_new);
	close(fds[1]);
}

/* A number of a closed descriptor, whose file lives on as another, is that file's again. */
static void same_file_again(void *conf)
{
	int fds[2], spare;

	all_have_events();
	(void)conf;
	for (int i = 0; i < 3; i++) {
		static int again[2];

		unix_pair(fds);
		again[0] = fds[0];
		again[1] = fds[1];
		wait_for_hello(again);
		spare = dup(fds[0]);
		TEST_EQUAL(unet_close(fds[0]), 0);
		put(fds[1], "x");
		pause_thread();
		if (i == 1)
			receive(spare, "x");
		TEST_EQUAL(at_number(spare, fds[0]), fds[0]);
		if (i != 1)
			receive(fds[0], "x");
		wait_for_hello(again);
		close_both(fds);
	}
}

/* A number that the program itself got from the system is made ready for use again. */
static void other_file_again(void *conf)
{
	static int fds[2];
	int first[2];

	all_have_events();
	(void)conf;
	unix_pair(fds);
	wait_for_hello(fds);
	first[0] = fds[0];
	first[1] = fds[1];
	close_both(fds);
	TEST_EQUAL(pipe(fds), 0);
	TEST_EQUAL(fds[0], first[0]);
	TEST_EQUAL(fds[1], first[1]);
	wait_for_hello(fds);
	close_both(fds);
	tcp_pair(fds);
	wait_for_hello(fds);
	close_both(fds);
}

/* One waits on another processor for what never comes; its number is used at once. */
static void close_remote(void *conf)
{
	static struct swap w;
	size_t rounds = test_scale(5000, 50);
	struct ustack *reader;
	int fds[2];

	all_have_events();
	(void)conf;
	for (size_t i = 0; i < rounds; i++) {
		unix_pair(fds);
		w = (struct swap){ .w_fd = fds[0] };
		reader = go(read_swapped, &w);
		while (waiting(reader) == 0)
			pause_thread();
		swap_it(&w);
		end(reader);
		TEST_EQUAL(w.w_rc, -EBADF);
		receive(w.w_new[0], "new");
		close_both(w.w_new);
		close(fds[1]);
	}
}

static void test_reuse(void **state)
{
	(void)state;
	test_timeout(60);
	each_conf(swap_ready);
	if (!test_is_stressed())           /* the reader may be the last to run */
		in_thread(&few, swap_giving_way);
	each_conf(same_file_again);
	each_conf(other_file_again);
	in_thread(&few, close_remote);
	in_thread(&some, close_remote);
}

/* ---- A storm of connections, each with bytes of its own ---- */

enum { STORMERS = 8, STORM_SIZE = 6000 };

struct storm {
	struct unet_addr s_addr;
	int              s_listener;
	size_t           s_rounds;
	atomic_size_t    s_served;
	atomic_uint      s_seed;
};

static unsigned char byte_of(uint32_t id, size_t i)
{
	return (unsigned char)(id * 2654435761u + i * 40503u + (i >> 8));
}

struct served {
	struct storm *v_storm;
	int           v_fd;
};

/* Sends back what it gets; some are closed before that. */
static void serve_storm(void *arg)
{
	struct served *v = arg;
	unsigned char data[700];
	ssize_t n;

	while ((n = unet_read(v->v_fd, data, sizeof data, NEVER)) > 0)
		TEST_EQUAL(unet_write_all(v->v_fd, data, (size_t)n, NULL, NEVER), 0);
	TEST_TRUE(n == 0 || n == -ECONNRESET);
	TEST_EQUAL(unet_close(v->v_fd), 0);
	v->v_storm->s_served++;
	free(v);
}

static void accept_storm(void *arg)
{
	struct storm *s = arg;
	int fd;

	while ((fd = unet_accept(s->s_listener, NULL, NEVER)) >= 0) {
		struct served *v = malloc(sizeof *v);

		TEST_TRUE(v != NULL);
		*v = (struct served){ s, fd };
		TEST_EQUAL(START(the, serve_storm, v, NULL), 0);
	}
	TEST_EQUAL(fd, -EBADF);
}

/* Sends and receives in turn, pieces of any size; then closes, in one way or another. */
static void storm_once(struct storm *s, uint32_t id, uint32_t *seed)
{
	size_t size = 1 + test_random(seed) % STORM_SIZE, i = 0, k;
	unsigned char data[512];
	int fd = unet_connect(&s->s_addr, NEVER);

	TEST_TRUE(fd >= 0);
	while (i < size) {
		size_t n = 1 + test_random(seed) % sizeof data;

		if (n > size - i)
			n = size - i;
		for (k = 0; k < n; k++)
			data[k] = byte_of(id, i + k);
		TEST_EQUAL(unet_write_all(fd, data, n, NULL, NEVER), 0);
		memset(data, 0, n);
		TEST_EQUAL(unet_read_all(fd, data, n, NULL, NEVER), 0);
		for (k = 0; k < n; k++)
			TEST_EQUAL(data[k], byte_of(id, i + k));
		i += n;
	}
	if (id % 3 == 0) {
		TEST_EQUAL(unet_shutdown(fd, SHUT_WR), 0);
		TEST_EQUAL(unet_read(fd, data, 1, NEVER), 0);
	}
	if (id % 5 == 0)
		be_abrupt(fd);
	TEST_EQUAL(unet_close(fd), 0);
}

static void connect_storm(void *arg)
{
	struct storm *s = arg;
	uint32_t seed = ++s->s_seed, id = seed << 16;

	for (size_t i = 0; i < s->s_rounds; i++)
		storm_once(s, id++, &seed);
}

static void storm(void *conf)
{
	static struct storm s;
	struct ustack *stormers[STORMERS], *acceptor;
	struct unet_addr a = address(local());

	(void)conf;
	s = (struct storm){ .s_rounds = test_scale(200, 5) };
	s.s_listener = unet_listen(&a, 0, 0);
	s.s_addr = bound(s.s_listener);
	acceptor = go(accept_storm, &s);
	for (size_t i = 0; i < STORMERS; i++)
		stormers[i] = go(connect_storm, &s);
	for (size_t i = 0; i < STORMERS; i++)
		end(stormers[i]);
	while (s.s_served < STORMERS * s.s_rounds)
		TEST_EQUAL(usync_sleep_until(usync_after(MILLI)), 0);
	TEST_EQUAL(unet_close(s.s_listener), 0);
	end(acceptor);
}

static void test_storm(void **state)
{
	(void)state;
	test_timeout(60);
	each_conf(storm);
}

/* ---- Both directions at once ---- */

struct flow {
	int            f_fd;
	uint32_t       f_id;
	size_t         f_size;
	uint32_t       f_seed;
	unsigned char *f_data;
};

enum { FLOW_PIECE = 20000 };

static void flow_out(void *arg)
{
	struct flow *f = arg;

	for (size_t i = 0; i < f->f_size; ) {
		size_t n = 1 + test_random(&f->f_seed) % FLOW_PIECE, half;
		struct iovec iov[2];
		ssize_t rc;

		for (size_t k = 0; k < n; k++)
			f->f_data[k] = byte_of(f->f_id, i + k);
		half = n / 3;
		iov[0] = (struct iovec){ f->f_data, half };
		iov[1] = (struct iovec){ f->f_data + half, n - half };
		rc = n % 2 ? unet_writev(f->f_fd, iov, 2, NEVER)
			: unet_write(f->f_fd, f->f_data, n, NEVER);
		TEST_TRUE(rc > 0 && (size_t)rc <= n);
		i += (size_t)rc;
		if (i >= f->f_size)
			TEST_EQUAL(unet_shutdown(f->f_fd, SHUT_WR), 0);
	}
}

static void flow_in(void *arg)
{
	struct flow *f = arg;
	size_t i = 0;
	ssize_t rc;

	do {
		size_t n = 1 + test_random(&f->f_seed) % FLOW_PIECE;
		struct iovec iov[2] = {
			{ f->f_data, n / 2 }, { f->f_data + n / 2, n - n / 2 },
		};

		rc = n % 2 ? unet_readv(f->f_fd, iov, 2, NEVER)
			: unet_read(f->f_fd, f->f_data, n, NEVER);
		TEST_TRUE(rc >= 0 && (size_t)rc <= n);
		for (size_t k = 0; k < (size_t)rc; k++)
			TEST_EQUAL(f->f_data[k], byte_of(f->f_id, i + k));
		i += (size_t)rc;
	} while (rc > 0);
	TEST_TRUE(i >= f->f_size);
}

/* A reader and a writer at either end; on several processors if there are. */
static void duplex(void (*make)(int fds[2]))
{
	static struct flow flows[4];
	struct ustack *threads[4];
	int fds[2];

	make(fds);
	for (int i = 0; i < 2; i++)
		small_buffers(fds[i]);
	for (size_t i = 0; i < 4; i++) {
		flows[i] = (struct flow){
			.f_fd = fds[i % 2], .f_id = (uint32_t)(i == 0 || i == 3), .f_seed = 7 + (uint32_t)i,
			.f_size = test_scale(4 << 20, 100000), .f_data = malloc(FLOW_PIECE),
		};
		TEST_TRUE(flows[i].f_data != NULL);
		threads[i] = go(i < 2 ? flow_out : flow_in, &flows[i]);
	}
	for (size_t i = 0; i < 4; i++) {
		end(threads[i]);
		free(flows[i].f_data);
	}
	close_both(fds);
}

static void duplex_all(void *conf)
{
	(void)conf;
	duplex(tcp_pair);
	duplex(unix_pair);
}

static void test_duplex(void **state)
{
	(void)state;
	test_timeout(60);
	each_conf(duplex_all);
}

/* ---- How connections end ---- */

static void half_close(void *conf)
{
	int fds[2];
	char c;

	(void)conf;
	for (int i = 0; i < 2; i++) {
		i ? tcp_pair(fds) : unix_pair(fds);
		TEST_EQUAL(unet_shutdown(fds[0], SHUT_WR), 0);
		TEST_EQUAL(unet_write(fds[0], "x", 1, NEVER), -EPIPE);
		for (int k = 0; k < 3; k++) {
			TEST_EQUAL(unet_read(fds[1], &c, 1, NEVER), 0);
			TEST_EQUAL(unet_write(fds[1], "abc", 3, NEVER), 3);
			receive(fds[0], "abc");
		}
		TEST_EQUAL(unet_read_all(fds[1], &c, 1, NULL, NEVER), -EPIPE);
		TEST_EQUAL(unet_close(fds[1]), 0);
		TEST_EQUAL(unet_read(fds[0], &c, 1, NEVER), 0);
		TEST_EQUAL(unet_close(fds[0]), 0);
	}
	fds[0] = socket(AF_INET, SOCK_STREAM, 0);
	TEST_EQUAL(unet_shutdown(fds[0], SHUT_WR), -ENOTCONN);
	TEST_EQUAL(unet_close(fds[0]), 0);
}

/* In the midst of a wait, too: of a reader, and of a writer. */
static void resets(void *conf)
{
	static struct transfer t;
	struct ustack *u;
	int fds[2];
	char c;

	(void)conf;
	for (int i = 0; i < 3; i++) {
		tcp_pair(fds);
		t = (struct transfer){ .t_fd = fds[0], .t_size = 8 << 20, .t_deadline = NEVER };
		t.t_data = calloc(8, 1 << 20);
		TEST_TRUE(t.t_data != NULL);
		if (i < 2) {
			u = go(i ? write_some : read_some, &t);
			while (waiting(u) == 0)
				pause_thread();
			reset(fds[1]);
			end(u);
			TEST_EQUAL(t.t_rc, -ECONNRESET);
		} else {
			reset(fds[1]);
			TEST_EQUAL(unet_read(fds[0], &c, 1, NEVER), -ECONNRESET);
		}
		for (int k = 0; k < 2; k++) {
			TEST_EQUAL(unet_read(fds[0], &c, 1, NEVER), 0);
			TEST_EQUAL(unet_write(fds[0], &c, 1, NEVER), -EPIPE);
			TEST_EQUAL(unet_write_all(fds[0], &c, 1, NULL, NEVER), -EPIPE);
			TEST_EQUAL(unet_sendto(fds[0], &c, 1, 0, NULL, NEVER), -EPIPE);
		}
		TEST_EQUAL(unet_close(fds[0]), 0);
		free(t.t_data);
	}
}

static void test_ends(void **state)
{
	(void)state;
	test_timeout(60);
	each_conf(half_close);
	each_conf(resets);
}

/* ---- SIGPIPE ---- */

static atomic_int pipe_signals;

static void on_sigpipe(int signo)
{
	(void)signo;
	pipe_signals++;
}

/* Writes in each way to what nobody reads. */
static void write_broken(int fds[2])
{
	struct iovec iov = { (char[]){ "x" }, 1 };

	close(fds[0]);
	for (int i = 0; i < 2; i++) {
		TEST_EQUAL(unet_write(fds[1], "x", 1, NEVER), -EPIPE);
		TEST_EQUAL(unet_writev(fds[1], &iov, 1, NEVER), -EPIPE);
		TEST_EQUAL(unet_write_all(fds[1], "x", 1, NULL, NEVER), -EPIPE);
	}
}

/* Whoever waits for room when the reader goes away. */
static void break_waiting(void (*make)(struct place *p))
{
	static const struct op broken = { .o_name = "broken", .o_call = call_write };
	struct ustack *u;

	memset(&place, 0, sizeof place);
	make(&place);
	place.p_op = &broken;
	u = go_op(NEVER);
	await_waiting(u);
	close(place.p_other);
	end_op(u, -EPIPE);
	TEST_EQUAL(unet_close(place.p_fd), 0);
}

static void broken_pipes(void *conf)
{
	int fds[2];

	(void)conf;
	TEST_EQUAL(pipe(fds), 0);
	write_broken(fds);
	TEST_EQUAL(unet_close(fds[1]), 0);
	unix_pair(fds);
	write_broken(fds);
	TEST_EQUAL(unet_sendto(fds[1], "x", 1, 0, NULL, NEVER), -EPIPE);
	TEST_EQUAL(unet_close(fds[1]), 0);
	break_waiting(make_full_pipe);
	break_waiting(make_full_pair);
}

/* One that is pending already stays so, and the mask as it is. */
static void *broken_pipes_native(void *unused)
{
	sigset_t set, pending, mask;
	int fds[2];

	(void)unused;
	sigemptyset(&set);
	sigaddset(&set, SIGPIPE);
	for (int blocked = 0; blocked < 2; blocked++) {
		TEST_EQUAL(pthread_sigmask(blocked ? SIG_BLOCK : SIG_UNBLOCK, &set, NULL), 0);
		if (blocked)
			pthread_kill(pthread_self(), SIGPIPE);
		TEST_EQUAL(pipe(fds), 0);
		write_broken(fds);
		TEST_EQUAL(unet_close(fds[1]), 0);
		sigpending(&pending);
		TEST_EQUAL(sigismember(&pending, SIGPIPE), blocked);
		pthread_sigmask(SIG_BLOCK, NULL, &mask);
		TEST_EQUAL(sigismember(&mask, SIGPIPE), blocked);
	}
	return NULL;
}

static void test_sigpipe(void **state)
{
	struct sigaction action = { .sa_handler = on_sigpipe }, now;

	(void)state;
	test_timeout(60);
	if (test_on_valgrind())                 /* it takes live frames for new ones there */
		skip();
	each_conf(broken_pipes);                /* the default would end the program */
	assert_int_equal(sigaction(SIGPIPE, &action, NULL), 0);
	each_conf(broken_pipes);
	assert_int_equal(sigaction(SIGPIPE, NULL, &now), 0);
	assert_ptr_equal(now.sa_handler, on_sigpipe);
	in_native(broken_pipes_native, NULL);   /* ends with one pending, in a thread */
	assert_int_equal(pipe_signals, 0);
	signal(SIGPIPE, SIG_DFL);
}

/* ---- Reads that get less than they asked for ---- */

/*
 * What the peer does, in letters: `s' sends, `o' sends urgent data, `f' ends, `r' resets,
 * and `y' has all threads run, so that the reader waits, or knows of what there is.
 * The reader reads to the end in one of several ways, and must get all, whatever the
 * system has told of at once: data, an end, an error.
 */
struct script {
	int        s_fd;
	int        s_way;
	char       s_got[64];
	size_t     s_n;
	size_t     s_resets;
	atomic_int s_done;
};

enum { READ_ALL_THERE_IS, READ_BYTES, READ_VECTORS, READ_PEEKED, READ_TRUNCATED, READ_POLLED,
       READ_WAYS };

enum { SCRIPT = 5 };                            /* letters, besides the last */

static ssize_t read_polled(int fd, char *to)
{
	struct pollfd p = { fd, POLLIN, 0 };
	int rc = unet_poll(&p, 1, NEVER);

	TEST_EQUAL(rc, 1);
	rc = unet_wait_readable(fd, NEVER);
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
		return unet_readv(s->s_fd, iov, 3, NEVER);
	case READ_POLLED:
		return read_polled(s->s_fd, to);
	case READ_TRUNCATED:                    /* TCP drops the bytes */
		n = unet_recvfrom(s->s_fd, spare, 16, MSG_TRUNC, NULL, NEVER);
		if (n > 0)
			memcpy(to, "abcabcabcabcabca", (size_t)n);
		return n;
	default:
		n = unet_recvfrom(s->s_fd, spare, 16, MSG_PEEK, NULL, NEVER);
		if (n <= 0)
			return n;
		TEST_TRUE(unet_recvfrom(s->s_fd, to, 16, MSG_PEEK, NULL, NEVER) >= n);
		return unet_recvfrom(s->s_fd, to, (size_t)n, 0, NULL, NEVER);
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

/* All that was sent must arrive, but for the urgent byte. */
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
	while (!s.s_done)                       /* hangs: the test's time is up */
		pause_thread();
	end(u);
	if (s.s_n != sent)
		fprintf(stderr, "script %s, way %d:\n", letters, way);
	TEST_EQUAL(s.s_n, sent);
	for (size_t i = 0; i < sent; i++)
		TEST_EQUAL(s.s_got[i], "abc"[i % 3]);
	TEST_EQUAL(s.s_resets, strchr(letters, 'r') != NULL);
	TEST_EQUAL(unet_close(fds[0]), 0);
	if (!strchr(letters, 'r'))
		close(fds[1]);
}

/* The k-th script of n letters, and its end; false: it sends urgent data twice. */
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

static void play_all(void *conf)
{
	char letters[SCRIPT + 2];
	size_t longest = test_scale(SCRIPT, 2);

	(void)conf;
	for (size_t n = 0, scripts = 1; n <= longest; n++, scripts *= 3)
		for (size_t k = 0; k < scripts; k++)
			for (int end_with = 0; end_with < 2; end_with++)
				for (int way = 0; way < READ_WAYS; way++)
					if (script(letters, n, k, "fr"[end_with]))
						play(letters, way);
}

static void test_short_reads(void **state)
{
	(void)state;
	test_timeout(120);
	each_conf(play_all);
}

/* Messages: a read gets one, and there may be more. */
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

/* With a descriptor: a stream is read up to that. */
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

static void messages_all(void *conf)
{
	int fds[2];

	(void)conf;
	TEST_EQUAL(pipe2(fds, O_DIRECT), 0);    /* packets */
	messages(fds, send_plain);
	TEST_EQUAL(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, fds), 0);
	messages(fds, send_plain);
	TEST_EQUAL(socketpair(AF_UNIX, SOCK_DGRAM, 0, fds), 0);
	messages(fds, send_plain);
	unix_pair(fds);
	messages(fds, send_rights);
}

/* The system tells only of so many bytes, or of the end. */
static void low_water(void *conf)
{
	static struct script s;
	struct ustack *u;
	int fds[2], least = 8;

	(void)conf;
	for (int way = 0; way < READ_WAYS; way++) {
		tcp_pair(fds);
		TEST_EQUAL(setsockopt(fds[0], SOL_SOCKET, SO_RCVLOWAT, &least, sizeof least), 0);
		s = (struct script){ .s_fd = fds[0], .s_way = way };
		u = go(read_script, &s);
		pause_thread();
		for (int i = 0; i < 5; i++) {
			put(fds[1], "abc");
			if (i % 2)
				pause_thread();
		}
		TEST_EQUAL(shutdown(fds[1], SHUT_WR), 0);
		end(u);
		TEST_EQUAL(s.s_n, 15);
		close_both(fds);
	}
}

static void test_messages(void **state)
{
	(void)state;
	test_timeout(60);
	each_conf(messages_all);
	each_conf(low_water);
}

/* ---- Poll ---- */

struct polled {
	struct pollfd  p_fds[8];
	size_t         p_n;
	int            p_rc;
	atomic_int     p_returned;
};

/* On the stack: the system call is made by the thread itself. */
static void poll_them(void *arg)
{
	struct polled *p = arg;
	struct pollfd fds[8];

	memcpy(fds, p->p_fds, sizeof fds);
	p->p_rc = unet_poll(fds, p->p_n, NEVER);
	memcpy(p->p_fds, fds, sizeof fds);
	p->p_returned = 1;
}

static struct ustack *go_poll(struct polled *p)
{
	struct ustack *u = go(poll_them, p);

	while (!p->p_returned && waiting(u) == 0)
		pause_thread();
	TEST_EQUAL(p->p_returned, 0);
	return u;
}

/* What is ready at once, and what poll(2) says itself. */
static void poll_ready(void *conf)
{
	struct pollfd mine[7], right[7];
	int fds[2], gone[2], closed;

	(void)conf;
	unix_pair(fds);
	unix_pair(gone);
	TEST_EQUAL(close(gone[1]), 0);
	put(fds[1], "x");
	closed = gone[1];
	right[0] = (struct pollfd){ fds[0], POLLIN, 0 };
	right[1] = (struct pollfd){ -1, POLLIN, 77 };
	right[2] = (struct pollfd){ fds[0], POLLIN | POLLOUT, 0 };      /* again */
	right[3] = (struct pollfd){ gone[0], 0, 0 };
	right[4] = (struct pollfd){ closed, POLLIN, 0 };
	right[5] = (struct pollfd){ fds[1], POLLIN, 77 };               /* not ready */
	right[6] = (struct pollfd){ fds[1], POLLOUT | POLLPRI, 0 };
	memcpy(mine, right, sizeof mine);
	TEST_EQUAL(poll(right, 7, 0), 5);
	TEST_EQUAL(unet_poll(mine, 7, NEVER), 5);
	for (size_t i = 0; i < 7; i++)
		TEST_EQUAL(mine[i].revents, right[i].revents);
	TEST_EQUAL(mine[4].revents, POLLNVAL);
	TEST_EQUAL(unet_poll(mine, 7, 0), 5);
	close_both(fds);
	TEST_EQUAL(unet_close(gone[0]), 0);
}

static void poll_errors(void *conf)
{
	static struct pollfd many[65537];
	static struct polled p;
	struct ustack *u;
	int64_t deadline = usync_after(2 * MILLI);

	(void)conf;
	for (size_t i = 0; i < COUNT(many); i++)
		many[i] = (struct pollfd){ -1, POLLIN, 7 };
	TEST_EQUAL(unet_poll(many, 65537, 0), -EINVAL);
	TEST_EQUAL(unet_poll(many, 200, 0), -ETIMEDOUT);        /* RLIMIT_NOFILE at most */
	TEST_EQUAL(unet_poll(many, 200, deadline), -ETIMEDOUT);
	TEST_TRUE(uevents_now() >= deadline);
	TEST_EQUAL(many[199].revents, 0);
	TEST_EQUAL(unet_poll(NULL, 0, 0), -ETIMEDOUT);
	TEST_EQUAL(unet_poll(NULL, 0, usync_after(MILLI)), -ETIMEDOUT);
	p = (struct polled){ .p_n = 0 };
	u = go_poll(&p);
	TEST_EQUAL(ustack_cancel(u), 0);
	end(u);
	TEST_EQUAL(p.p_rc, -ECANCELED);
}

/* Several descriptors, of which one becomes ready; each in its turn, and duplicates of it. */
static void poll_each(void *conf)
{
	static struct polled p;
	int fds[3][2];

	(void)conf;
	for (int i = 0; i < 3; i++)
		i == 1 ? TEST_EQUAL(pipe(fds[i]), 0) : unix_pair(fds[i]);
	for (int i = 0; i < 3; i++) {
		struct ustack *u;

		p = (struct polled){ .p_n = 8 };
		for (int k = 0; k < 8; k++)
			p.p_fds[k] = (struct pollfd){ k < 6 ? fds[k % 3][0] : -1, POLLIN, 7 };
		u = go_poll(&p);
		put(fds[i][1], "x");
		end(u);
		TEST_EQUAL(p.p_rc, 2);
		for (int k = 0; k < 8; k++)
			TEST_EQUAL(p.p_fds[k].revents, k < 6 && k % 3 == i ? POLLIN : 0);
		receive(fds[i][0], "x");
	}
	for (int i = 0; i < 3; i++)
		close_both(fds[i]);
}

/* Closed meanwhile: by itself, by the peer, the peer of a pipe. */
static void poll_closed(void *conf)
{
	static struct polled p;
	struct ustack *u;
	int fds[2], other[2];

	(void)conf;
	for (int i = 0; i < 3; i++) {
		i < 2 ? unix_pair(fds) : TEST_EQUAL(pipe(fds), 0);
		unix_pair(other);
		p = (struct polled){ .p_n = 3 };
		p.p_fds[0] = (struct pollfd){ other[0], POLLIN, 0 };
		p.p_fds[1] = (struct pollfd){ fds[0], i < 2 ? POLLIN : 0, 0 };
		p.p_fds[2] = (struct pollfd){ -3, 0, 0 };
		u = go_poll(&p);
		i == 0 ? TEST_EQUAL(unet_close(fds[0]), 0) : TEST_EQUAL(close(fds[1]), 0);
		end(u);
		TEST_EQUAL(p.p_rc, 1);
		TEST_EQUAL(p.p_fds[0].revents, 0);
		TEST_EQUAL(p.p_fds[2].revents, 0);
		if (i == 0)
			TEST_EQUAL(p.p_fds[1].revents, POLLNVAL);
		else
			TEST_TRUE(p.p_fds[1].revents & POLLHUP);
		TEST_EQUAL(i == 0 ? close(fds[1]) : unet_close(fds[0]), 0);
		close_both(other);
	}
}

/* A poll counts as what it polls for, and gives it back; a reader and a poll for room go. */
static void poll_counts(void *conf)
{
	static struct polled in, out;
	struct place *p = &place;
	struct ustack *u, *v;
	char c;

	(void)conf;
	make_full_pair(p);
	in = (struct polled){ .p_n = 1, .p_fds = { { p->p_fd, POLLIN, 0 } } };
	out = (struct polled){ .p_n = 1, .p_fds = { { p->p_fd, POLLOUT, 0 } } };
	u = go_poll(&in);
	TEST_EQUAL(unet_read(p->p_fd, &c, 1, NEVER), -EBUSY);
	v = go(poll_them, &out);
	while (waiting(v) < (ustack_sched(u) == ustack_sched(v) ? 2 : 1))
		pause_thread();
	TEST_EQUAL(unet_write(p->p_fd, "x", 1, NEVER), -EBUSY);
	TEST_EQUAL(unet_poll(&(struct pollfd){ p->p_fd, POLLIN | POLLOUT, 0 }, 1, NEVER), -EBUSY);
	TEST_EQUAL(in.p_returned + out.p_returned, 0);
	drain(p->p_other);
	end(v);
	TEST_EQUAL(out.p_fds[0].revents, POLLOUT);
	TEST_EQUAL(in.p_returned, 0);
	put(p->p_other, "y");
	end(u);
	TEST_EQUAL(in.p_fds[0].revents, POLLIN);
	receive(p->p_fd, "y");
	TEST_EQUAL(unet_close(p->p_fd), 0);
	close(p->p_other);
}

enum { BESIDE = 100 };

static void poll_for_room(void *arg)
{
	struct pollfd p = { *(int *)arg, POLLOUT, 0 };

	for (int i = 0; i < BESIDE; i++)
		TEST_EQUAL(unet_poll(&p, 1, NEVER), 1);
}

/* One polls for room while another reads: on two processors they race for nothing. */
static void poll_beside(void *conf)
{
	static int fds[2];
	struct ustack *u;

	(void)conf;
	unix_pair(fds);
	u = go(poll_for_room, &fds[0]);
	for (int i = 0; i < BESIDE; i++) {
		put(fds[1], "x");
		receive(fds[0], "x");
	}
	end(u);
	close_both(fds);
}

static void test_poll(void **state)
{
	(void)state;
	test_timeout(60);
	each_conf(poll_beside);
	each_conf(poll_ready);
	each_conf(poll_errors);
	each_conf(poll_each);
	each_conf(poll_closed);
	each_conf(poll_counts);
}

/* ---- Not enough descriptors ---- */

enum { SPARE = 64 };

static struct rlimit limit_before;

/* Lowers the limit to one near to what is open. */
static void lower_limit(void)
{
	int lowest = dup(0);
	struct rlimit limit;

	TEST_TRUE(lowest >= 0);
	TEST_EQUAL(close(lowest), 0);
	TEST_EQUAL(getrlimit(RLIMIT_NOFILE, &limit_before), 0);
	limit = limit_before;
	limit.rlim_cur = (rlim_t)lowest + SPARE / 2;
	TEST_EQUAL(setrlimit(RLIMIT_NOFILE, &limit), 0);
}

static void restore_limit(void)
{
	TEST_EQUAL(setrlimit(RLIMIT_NOFILE, &limit_before), 0);
}

/* Takes all that are left. */
static size_t exhaust(int *spare)
{
	size_t count = 0;

	lower_limit();
	while (count < SPARE && (spare[count] = dup(0)) >= 0)
		count++;
	TEST_TRUE(count > 0 && count < SPARE && errno == EMFILE);
	return count;
}

struct acceptor {
	int        a_listener;
	int64_t    a_deadline;
	int        a_rc;
	atomic_int a_returned;
};

static void accept_one(void *arg)
{
	struct acceptor *a = arg;

	a->a_rc = unet_accept(a->a_listener, NULL, a->a_deadline);
	a->a_returned = 1;
}

/* Waits until there is one: which may be closed by us, or by whoever knows nothing of us. */
static void accept_exhausted(int (*close_it)(int fd))
{
	static struct acceptor a;
	int spare[SPARE];
	struct ustack *u;
	size_t n;
	int client;

	a = (struct acceptor){ .a_listener = mini_listen(4), .a_deadline = NEVER };
	TEST_EQUAL(usync_sleep_until(usync_after(1)), 0);
	u = go(accept_one, &a);                 /* what events need is made now */
	while (waiting(u) == 0)
		pause_thread();
	client = mini_connect(bound(a.a_listener));
	end(u);
	TEST_EQUAL(unet_close(a.a_rc), 0);
	close(client);
	client = mini_connect(bound(a.a_listener));
	n = exhaust(spare);
	TEST_EQUAL(unet_accept(a.a_listener, NULL, 0), -ETIMEDOUT);
	TEST_EQUAL(unet_accept(a.a_listener, NULL, usync_after(3 * MILLI)), -ETIMEDOUT);
	for (int i = 0; i < 2; i++) {
		a.a_returned = 0;
		u = go(accept_one, &a);
		while (waiting(u) == 0)
			pause_thread();
		TEST_EQUAL(usync_sleep_until(usync_after(5 * MILLI)), 0);
		TEST_EQUAL(a.a_returned, 0);
		i == 0 ? TEST_EQUAL(ustack_cancel(u), 0) : TEST_EQUAL(close_it(spare[--n]), 0);
		end(u);
		i == 0 ? TEST_EQUAL(a.a_rc, -ECANCELED) : TEST_TRUE(a.a_rc >= 0);
	}
	put(client, "x");
	receive(a.a_rc, "x");
	TEST_EQUAL(unet_close(a.a_rc), 0);
	while (n > 0)
		close(spare[--n]);
	restore_limit();
	close(client);
	TEST_EQUAL(unet_close(a.a_listener), 0);
}

static void exhausted(void *conf)
{
	struct unet_addr a = address(local());
	size_t n;
	int spare[SPARE];
	sigset_t set;

	(void)conf;
	if (!test_on_valgrind()) {              /* its accept() loses the connection then */
		accept_exhausted(close);
		accept_exhausted(unet_close);
	}
	sigemptyset(&set);
	n = exhaust(spare);
	TEST_EQUAL(unet_listen(&a, 0, 0), -EMFILE);
	TEST_EQUAL(unet_bind(&a, 0), -EMFILE);
	TEST_EQUAL(unet_connect(&a, NEVER), -EMFILE);
	TEST_EQUAL(unet_signals(&set), -EMFILE);
	while (n > 0)
		close(spare[--n]);
	restore_limit();
}

/* The first wait of a processor needs some. */
static void first_wait(void *conf)
{
	int fds[2], spare[SPARE];
	size_t n;
	char c;

	(void)conf;
	unix_pair(fds);
	n = exhaust(spare);
	for (int i = 0; i < 2; i++) {
		TEST_EQUAL(unet_read(fds[0], &c, 1, NEVER), -EMFILE);
		TEST_EQUAL(unet_read(fds[0], &c, 1, usync_after(MILLI)), -EMFILE);
		TEST_EQUAL(unet_poll(&(struct pollfd){ fds[0], POLLIN, 0 }, 1, NEVER), -EMFILE);
		put(fds[1], "x");
		TEST_EQUAL(unet_read(fds[0], &c, 1, NEVER), 1); /* does not wait */
		if (i == 0)
			close(spare[--n]);                      /* one is not enough */
	}
	while (n > 0)
		close(spare[--n]);
	restore_limit();
	TEST_EQUAL(unet_read(fds[0], &c, 1, usync_after(MILLI)), -ETIMEDOUT);
	close_both(fds);
}

static void test_exhausted(void **state)
{
	(void)state;
	test_timeout(60);
	in_thread(&few, exhausted);
	in_thread(&some, exhausted);
	in_thread(&few, first_wait);
}

/* ---- Very many connections ---- */

struct many {
	int             m_listener;
	size_t          m_n;
	struct ustack **m_threads;
	atomic_size_t   m_served;
};

static void serve_few_bytes(void *arg)
{
	struct served *v = arg;
	char data[64];
	ssize_t n;

	while ((n = unet_read(v->v_fd, data, sizeof data, NEVER)) > 0)
		TEST_EQUAL(unet_write_all(v->v_fd, data, (size_t)n, NULL, NEVER), 0);
	TEST_EQUAL(n, 0);
	TEST_EQUAL(unet_close(v->v_fd), 0);
	free(v);
}

/* One accepts, and hands over to threads that are spread. */
static void accept_many(void *arg)
{
	struct many *m = arg;

	for (size_t i = 0; i < m->m_n; i++) {
		struct served *v = malloc(sizeof *v);

		TEST_TRUE(v != NULL);
		v->v_fd = unet_accept(m->m_listener, NULL, NEVER);
		TEST_TRUE(v->v_fd >= 0);
		m->m_threads[i] = go(serve_few_bytes, v);
	}
}

/* Where threads are, without repetition. */
static size_t places_of(struct ustack *const *threads, size_t n, struct ustack **at)
{
	size_t count = 0;

	for (size_t i = 0; i < n; i++) {
		size_t k = 0;

		while (k < count && ustack_sched(at[k]) != ustack_sched(threads[i]))
			k++;
		if (k == count)
			at[count++] = threads[i];
		TEST_TRUE(count < 16);
	}
	return count;
}

static void await_blocked(struct many *m, struct ustack **at, size_t places)
{
	size_t sum;

	do {
		sleep_native(1);
		sum = 0;
		for (size_t i = 0; i < places; i++)
			sum += waiting(at[i]);
	} while (sum < m->m_n);
	TEST_EQUAL(sum, m->m_n);
}

static uint64_t images_of(struct ustack **at, size_t places)
{
	uint64_t images = 0;

	for (size_t i = 0; i < places; i++) {
		struct usched_stats stats;

		usched_stats(ustack_sched(at[i]), &stats);
		images += stats.s_images;
	}
	return images;
}

/* Both ends are of this process, as many as there may be descriptors. */
static size_t most_connections(void)
{
	struct rlimit limit;
	size_t n = test_scale(9000, 50);

	TEST_EQUAL(getrlimit(RLIMIT_NOFILE, &limit), 0);
	if (limit.rlim_cur != RLIM_INFINITY && limit.rlim_cur < 2 * n + 200) {
		n = limit.rlim_cur / 2 - 100;
		print_message("only %zu connections: RLIMIT_NOFILE\n", n);
	}
	return n;
}

/* By this native thread, with blocking sockets. */
static void echo_many(int *clients, size_t n)
{
	char text[48], back[48];

	for (size_t i = 0; i < n; i++) {
		snprintf(text, sizeof text, "%zu %zu", i, i * i);
		put(clients[i], text);
	}
	for (size_t i = 0; i < n; i++) {
		snprintf(text, sizeof text, "%zu %zu", i, i * i);
		TEST_EQUAL(recv(clients[i], back, strlen(text), MSG_WAITALL), strlen(text));
		TEST_EQUAL(memcmp(text, back, strlen(text)), 0);
	}
}

static void many_connections(const struct usched_conf *conf)
{
	struct many m = { .m_n = most_connections() };
	int *clients = calloc(m.m_n, sizeof *clients);
	size_t before = descriptors(), places;
	struct ustack *acceptor, *at[16];

	m.m_threads = calloc(m.m_n, sizeof(struct ustack *));
	TEST_TRUE(clients && m.m_threads);
	assert_int_equal(S(create)(conf, &the), 0);
	m.m_listener = mini_listen(1000);
	acceptor = go(accept_many, &m);
	for (size_t i = 0; i < m.m_n; i++)
		clients[i] = mini_connect(bound(m.m_listener));
	assert_int_equal(ustack_join(acceptor, USCHED_NEVER), 0);
	places = places_of(m.m_threads, m.m_n, at);
	await_blocked(&m, at, places);
	echo_many(clients, m.m_n);
	await_blocked(&m, at, places);
	for (size_t i = 0; i < m.m_n; i++)
		close(clients[i]);
	do {
		sleep_native(1);
	} while (waiting(at[0]) || images_of(at, places));      /* or never: time is up */
	for (size_t i = 0; i < m.m_n; i++)
		assert_int_equal(ustack_join(m.m_threads[i], USCHED_NEVER), 0);
	assert_int_equal(unet_close(m.m_listener), 0);
	assert_int_equal(S(destroy)(the), 0);
	assert_int_equal(descriptors(), before);
	free(m.m_threads);
	free(clients);
}

static void test_many(void **state)
{
	(void)state;
	test_timeout(100);
	many_connections(&few);
	many_connections(&some);
}

/* ---- Clients that are slow, deaf, or gone ---- */

struct rude {
	struct unet_addr r_addr;
	atomic_int       r_stop;
	atomic_int       r_bytes;
};

/* A byte at a time, each echoed before the next. */
static void be_slow(void *arg)
{
	struct rude *r = arg;
	int fd = unet_connect(&r->r_addr, NEVER);
	char c;

	TEST_TRUE(fd >= 0);
	while (!r->r_stop || r->r_bytes < 3) {
		c = (char)('a' + r->r_bytes % 26);
		TEST_EQUAL(unet_write(fd, &c, 1, NEVER), 1);
		TEST_EQUAL(usync_sleep_until(usync_after(MILLI)), 0);
		c = 0;
		TEST_EQUAL(unet_read(fd, &c, 1, NEVER), 1);
		TEST_EQUAL(c, 'a' + r->r_bytes % 26);
		r->r_bytes++;
	}
	TEST_EQUAL(unet_close(fd), 0);
}

/* Never reads what comes back, so that at last it cannot write. */
static void be_deaf(void *arg)
{
	struct rude *r = arg;
	char *data = calloc(1, 1 << 20);
	int fd = unet_connect(&r->r_addr, NEVER);

	TEST_TRUE(fd >= 0 && data);
	small_buffers(fd);
	while (!r->r_stop) {
		ssize_t n = unet_write(fd, data, 1 << 20, usync_after(5 * MILLI));

		TEST_TRUE(n > 0 || n == -ETIMEDOUT);
	}
	be_abrupt(fd);
	TEST_EQUAL(unet_close(fd), 0);
	free(data);
}

static void be_gone(void *arg)
{
	struct rude *r = arg;

	while (!r->r_stop) {
		int fd = unet_connect(&r->r_addr, NEVER);

		TEST_TRUE(fd >= 0);
		TEST_EQUAL(unet_write(fd, "x", 1, NEVER), 1);
		be_abrupt(fd);
		TEST_EQUAL(unet_close(fd), 0);
		TEST_EQUAL(usync_sleep_until(usync_after(MILLI)), 0);
	}
}

static void serve_anybody(void *arg)
{
	struct served *v = arg;
	char data[512];
	ssize_t n;
	int rc = 0;

	while (rc == 0 && (n = unet_read(v->v_fd, data, sizeof data, NEVER)) > 0)
		rc = unet_write_all(v->v_fd, data, (size_t)n, NULL, NEVER);
	TEST_EQUAL(unet_close(v->v_fd), 0);
	free(v);
}

static void accept_anybody(void *arg)
{
	int fd;

	while ((fd = unet_accept(*(int *)arg, NULL, NEVER)) >= 0) {
		struct served *v = malloc(sizeof *v);

		TEST_TRUE(v != NULL);
		*v = (struct served){ NULL, fd };
		TEST_EQUAL(START(the, serve_anybody, v, NULL), 0);
	}
	TEST_EQUAL(fd, -EBADF);
}

/* Meanwhile others are served as if there were no such clients. */
static void rude_clients(void *conf)
{
	static struct rude r;
	static int listener;
	struct unet_addr a = address(local());
	struct ustack *threads[3], *acceptor;
	size_t rounds = test_scale(1000, 20);

	(void)conf;
	listener = unet_listen(&a, 0, 0);
	r = (struct rude){ .r_addr = bound(listener) };
	acceptor = go(accept_anybody, &listener);
	threads[0] = go(be_slow, &r);
	threads[1] = go(be_deaf, &r);
	threads[2] = go(be_gone, &r);
	for (size_t i = 0; i < rounds; i++) {
		int fd = unet_connect(&r.r_addr, NEVER);

		TEST_TRUE(fd >= 0);
		for (int k = 0; k < 5; k++) {
			TEST_EQUAL(unet_write(fd, "hello", 5, NEVER), 5);
			receive(fd, "hello");
		}
		TEST_EQUAL(unet_close(fd), 0);
	}
	r.r_stop = 1;
	for (size_t i = 0; i < 3; i++)
		end(threads[i]);
	TEST_EQUAL(unet_close(listener), 0);
	end(acceptor);
}

static void test_rude_clients(void **state)
{
	(void)state;
	test_timeout(60);
	each_conf(rude_clients);
}

/* ---- Who never has to wait gives way ---- */

struct busy {
	atomic_int  b_stop;
	atomic_uint b_calls;
	unsigned    b_longest;          /* calls in a row */
	unsigned   *b_other;            /* which counts its own */
	unsigned    b_mine;
	int         b_kind;
};

enum { BUSY_ZERO, BUSY_SOCKET, BUSY_POLL, BUSY_WRITE, BUSY_ACCEPT, BUSY_DATAGRAM,
       BUSY_SEND, BUSY_KINDS };

static void busy_call(int kind, int fds[2])
{
	struct unet_addr to;
	char c;

	switch (kind) {
	case BUSY_ZERO:
	case BUSY_SOCKET:
		TEST_EQUAL(unet_read(fds[0], &c, 1, NEVER), 1);
		if (kind == BUSY_SOCKET)
			put(fds[1], "x");
		break;
	case BUSY_POLL:
		TEST_EQUAL(unet_poll(&(struct pollfd){ fds[0], POLLOUT, 0 }, 1, NEVER), 1);
		break;
	case BUSY_WRITE:
		TEST_EQUAL(unet_write(fds[0], "x", 1, NEVER), 1);
		expect(fds[1], "x");
		break;
	case BUSY_ACCEPT:
		close(mini_connect(bound(fds[0])));
		TEST_EQUAL(unet_close(unet_accept(fds[0], NULL, NEVER)), 0);
		break;
	case BUSY_SEND:
		to = bound(fds[1]);
		TEST_EQUAL(unet_sendto(fds[0], "x", 1, 0, &to, NEVER), 1);
		expect(fds[1], "x");
		break;
	default:
		put(fds[1], "x");
		TEST_EQUAL(unet_recvfrom(fds[0], &c, 1, 0, NULL, NEVER), 1);
	}
}

static void busy_open(int kind, int fds[2])
{
	if (kind == BUSY_ZERO) {
		fds[0] = open("/dev/zero", O_RDONLY);
		fds[1] = dup(fds[0]);
	} else if (kind == BUSY_ACCEPT) {
		fds[0] = mini_listen(4);
		fds[1] = dup(fds[0]);
	} else if (kind == BUSY_SEND) {
		fds[0] = socket(AF_UNIX, SOCK_DGRAM, 0);
		fds[1] = socket(AF_UNIX, SOCK_DGRAM, 0);
		TEST_EQUAL(bind(fds[1], &(struct sockaddr){ .sa_family = AF_UNIX },
				sizeof(sa_family_t)), 0);
	} else {
		unix_pair(fds);
	}
	TEST_TRUE(fds[0] >= 0 && fds[1] >= 0);
	if (kind == BUSY_SOCKET)
		put(fds[1], "x");
}

/* How often it can call while the other cannot. */
static void be_busy(void *arg)
{
	struct busy *b = arg;
	unsigned in_a_row = 0, seen = *b->b_other;
	int fds[2];

	busy_open(b->b_kind, fds);
	while (!b->b_stop) {
		busy_call(b->b_kind, fds);
		b->b_mine++;
		in_a_row = *b->b_other == seen ? in_a_row + 1 : 0;
		seen = *b->b_other;
		if (in_a_row > b->b_longest)
			b->b_longest = in_a_row;
	}
	close_both(fds);
}

/* On one processor, two that never wait, one that sleeps, and one whose peer is elsewhere. */
static void fair(void *conf)
{
	static struct busy busy[2];
	static int fds[2];
	struct ustack *threads[2];

	(void)conf;
	for (int kind = 0; kind < BUSY_KINDS; kind++) {
		for (int i = 0; i < 2; i++)
			busy[i] = (struct busy){ .b_other = &busy[!i].b_mine, .b_kind = kind };
		for (int i = 0; i < 2; i++)
			threads[i] = go(be_busy, &busy[i]);
		for (int i = 0; i < 5; i++)
			TEST_EQUAL(usync_sleep_until(usync_after(MILLI)), 0);
		unix_pair(fds);
		wait_for_hello(fds);
		close_both(fds);
		for (int i = 0; i < 2; i++)
			busy[i].b_stop = 1;
		for (int i = 0; i < 2; i++) {
			end(threads[i]);
			TEST_TRUE(busy[i].b_mine > 0);
			if (busy[i].b_longest > 2 * UNET_BUDGET)
				fprintf(stderr, "kind %d: %u calls of %u, the other %u\n", kind,
					busy[i].b_longest, busy[i].b_mine, busy[!i].b_mine);
			TEST_TRUE(busy[i].b_longest <= 2 * UNET_BUDGET);
		}
	}
}

static void test_fairness(void **state)
{
	(void)state;
	if (test_is_stressed())
		skip();
	test_timeout(60);
	in_thread(&few, fair);
}

/* ---- Native threads and threads together ---- */

static void *flow_out_native(void *arg)
{
	flow_out(arg);
	return NULL;
}

static void *flow_in_native(void *arg)
{
	flow_in(arg);
	return NULL;
}

/* On each end one of either kind. */
static void mixed(void *conf)
{
	static struct flow flows[4];
	struct ustack *out, *in;
	pthread_t natives[2];
	int fds[2];

	(void)conf;
	tcp_pair(fds);
	for (size_t i = 0; i < 4; i++) {
		flows[i] = (struct flow){
			.f_fd = fds[i % 2], .f_id = i == 0 || i == 3, .f_seed = 3,
			.f_size = test_scale(1 << 20, 50000), .f_data = malloc(FLOW_PIECE),
		};
		TEST_TRUE(flows[i].f_data != NULL);
	}
	out = go(flow_out, &flows[0]);
	in = go(flow_in, &flows[3]);
	TEST_EQUAL(pthread_create(&natives[0], NULL, flow_out_native, &flows[1]), 0);
	TEST_EQUAL(pthread_create(&natives[1], NULL, flow_in_native, &flows[2]), 0);
	end(out);
	end(in);
	for (int i = 0; i < 2; i++)
		pthread_join(natives[i], NULL);
	for (size_t i = 0; i < 4; i++)
		free(flows[i].f_data);
	close_both(fds);
}

/* A descriptor that outlives its scheduler is used by another, and by none. */
static int survivor[2];

static void use_survivor(void *conf)
{
	(void)conf;
	wait_for_hello(survivor);
}

static void *use_survivor_native(void *unused)
{
	put(survivor[1], "native");
	receive(survivor[0], "native");
	return unused;
}

static void test_mixed(void **state)
{
	(void)state;
	test_timeout(60);
	each_conf(mixed);
	tcp_pair(survivor);
	for (int i = 0; i < 2; i++) {
		each_conf(use_survivor);
		in_native(use_survivor_native, NULL);
	}
	for (int i = 0; i < 2; i++)
		assert_int_equal(unet_close(survivor[i]), 0);
}

/* ---- Several listeners on one port ---- */

enum { LISTENERS = 2, SPREAD = 64 };

struct spread {
	int           p_listener;
	atomic_size_t p_count;
};

static void accept_share(void *arg)
{
	struct spread *p = arg;
	int fd;

	while ((fd = unet_accept(p->p_listener, NULL, NEVER)) >= 0) {
		TEST_EQUAL(unet_close(fd), 0);
		p->p_count++;
	}
	TEST_EQUAL(fd, -EBADF);
}

static void reuse_port(void *conf)
{
	static struct spread shares[LISTENERS];
	struct unet_addr a = address(local());
	struct ustack *threads[LISTENERS];

	(void)conf;
	for (int i = 0; i < LISTENERS; i++) {
		shares[i] = (struct spread){ .p_listener = unet_listen(&a, 0, UNET_REUSEPORT) };
		a = bound(shares[i].p_listener);
		threads[i] = go(accept_share, &shares[i]);
	}
	for (int i = 0; i < SPREAD; i++)
		close(mini_connect(a));
	while (shares[0].p_count + shares[1].p_count < SPREAD)
		pause_thread();
	for (int i = 0; i < LISTENERS; i++) {
		TEST_TRUE(shares[i].p_count > 0);
		TEST_EQUAL(unet_close(shares[i].p_listener), 0);
		end(threads[i]);
	}
}

static void test_reuse_port(void **state)
{
	(void)state;
	test_timeout(60);
	each_conf(reuse_port);
}

#define NET_TESTS                                       \
	cmocka_unit_test(test_addresses),               \
	cmocka_unit_test(test_bad_addresses),           \
	cmocka_unit_test(test_other_addresses),         \
	cmocka_unit_test(test_streams),                 \
	cmocka_unit_test(test_streams_v6),              \
	cmocka_unit_test(test_making_fails),            \
	cmocka_unit_test(test_no_descriptors),          \
	cmocka_unit_test(test_kinds),                   \
	cmocka_unit_test(test_terminals),               \
	cmocka_unit_test(test_signals),                 \
	cmocka_unit_test(test_datagrams),               \
	cmocka_unit_test(test_deadlines),               \
	cmocka_unit_test(test_cancel),                  \
	cmocka_unit_test(test_busy),                    \
	cmocka_unit_test(test_close),                   \
	cmocka_unit_test(test_native_threads),          \
	cmocka_unit_test(test_connect_waits),           \
	cmocka_unit_test(test_partial),                 \
	cmocka_unit_test(test_reuse),                   \
	cmocka_unit_test(test_storm),                   \
	cmocka_unit_test(test_duplex),                  \
	cmocka_unit_test(test_ends),                    \
	cmocka_unit_test(test_sigpipe),                 \
	cmocka_unit_test(test_short_reads),             \
	cmocka_unit_test(test_messages),                \
	cmocka_unit_test(test_poll),                    \
	cmocka_unit_test(test_exhausted),               \
	cmocka_unit_test(test_many),                    \
	cmocka_unit_test(test_rude_clients),            \
	cmocka_unit_test(test_fairness),                \
	cmocka_unit_test(test_mixed),                   \
	cmocka_unit_test(test_reuse_port)
