/* SPDX-License-Identifier: MIT */
/*
 * test_net_listen.c: addresses as text; what calls refuse; listeners and clients over
 * IPv4, IPv6 and UNIX; a thread for each connection; several listeners on a port.
 */
#include "../help/net.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/un.h>

/* ---- Addresses ---- */

TEST(test_addresses)
{
	static const char *const texts[] = {
		"127.0.0.1:80", "0.0.0.0:0", "255.255.255.255:65535", "[::1]:80",
		"[::]:1", "[2001:db8::ff:1]:65535", "/path", "/a/longer path:80", "@name",
		"@:1", "@[::1]:1",
	};
	struct unet_addr a, b;
	char text[UNET_TEXT_MAX];

	for (size_t i = 0; i < COUNT(texts); i++) {
		assert_int_equal(unet_addr(texts[i], &a), 0);
		assert_ptr_equal(unet_text(&a, text), text);
		assert_string_equal(text, texts[i]);
	}
	assert_int_equal(unet_addr("127.0.0.1:80", &a), 0);
	assert_int_equal(a.ad_sockaddr.ss_family, AF_INET);
	assert_int_equal(a.ad_size, sizeof(struct sockaddr_in));
	assert_int_equal(port_of(&a), 80);
	assert_int_equal(unet_addr("[::1]:81", &a), 0);
	assert_int_equal(a.ad_sockaddr.ss_family, AF_INET6);
	assert_int_equal(a.ad_size, sizeof(struct sockaddr_in6));
	assert_int_equal(port_of(&a), 81);
	assert_int_equal(unet_addr(":80", &a), 0);
	assert_int_equal(unet_addr("*:80", &b), 0);
	assert_int_equal(a.ad_size, b.ad_size);
	assert_memory_equal(&a.ad_sockaddr, &b.ad_sockaddr, a.ad_size);
	assert_int_equal(port_of(&a), 80);
	unet_text(&a, text);
	assert_int_equal(unet_addr(text, &b), 0);
	assert_int_equal(a.ad_size, b.ad_size);
	assert_memory_equal(&a.ad_sockaddr, &b.ad_sockaddr, a.ad_size);
}

TEST(test_bad_addresses)
{
	static const char *const texts[] = {
		"", ":", "*", "*:", "80", "127.0.0.1", "127.0.0.1:", "127.0.0.1:x",
		"127.0.0.1:80x", "127.0.0.1:65536", "127.0.0.1:-1", "127.0.0.1:+1",
		"127.0.0.1: 1", "127.0.0.1:1 ", "127.0.0.1:4294967376",
		"127.0.0.1:99999999999999999999", "127.0.0:80", "127.0.0.256:80",
		" 127.0.0.1:80", "127.0.0.1:80:80", "localhost:80", "::1:80", "::1",
		"[::1]", "[::1]80", "[::1", "[::1:80", "[]:80", "[::g]:80",
		"[127.0.0.1]:80",
		"[::1]:65536", "path", "./path",
		"1111111111111111111111111111111111111111111111111111111111111111111:80",
		"[11111111111111111111111111111111111111111111111111111111111111111]:80",
	};
	char text[UNET_TEXT_MAX + 1];
	struct unet_addr a;

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

/* Addresses that no text gives have a text, too. */
TEST(test_other_addresses)
{
	struct unet_addr a = { .ad_size = sizeof(sa_family_t) };
	char text[UNET_TEXT_MAX];

	memset(text, 'x', sizeof text);
	a.ad_sockaddr.ss_family = AF_UNIX;      /* without a name */
	assert_ptr_equal(unet_text(&a, text), text);
	assert_non_null(memchr(text, 0, sizeof text));
	memset(text, 'x', sizeof text);
	a.ad_size = sizeof(struct sockaddr_un); /* the longest, without a 0 */
	memset((char *)&a.ad_sockaddr + sizeof(sa_family_t), 'y',
	       a.ad_size - sizeof(sa_family_t));
	unet_text(&a, text);
	assert_non_null(memchr(text, 0, sizeof text));
	memset(text, 'x', sizeof text);
	a.ad_sockaddr.ss_family = AF_NETLINK;
	unet_text(&a, text);
	assert_non_null(memchr(text, 0, sizeof text));
}

/* A call that fails leaves no descriptor. */
NET_TEST(making_fails)
{
	struct unet_addr a = address(local()), taken;
	struct unet_addr strange = { .ad_size = sizeof(struct sockaddr) };
	int fd = unet_listen(&a, 0, 0);
	size_t before;

	all_have_events();                      /* a refusal may have to wait */
	before = test_descriptors();
	taken = bound(fd);
	TEST_EQUAL(unet_listen(&taken, 0, 0), -EADDRINUSE);
	TEST_EQUAL(unet_listen(&taken, 0, UNET_REUSEPORT), -EADDRINUSE);
	strange.ad_sockaddr.ss_family = AF_MAX;
	TEST_EQUAL(unet_listen(&strange, 0, 0), -EAFNOSUPPORT);
	TEST_EQUAL(unet_connect(&strange, NEVER), -EAFNOSUPPORT);
	TEST_EQUAL(test_descriptors(), before);
	TEST_EQUAL(unet_close(fd), 0);
	if (!test_emulator_fails("errors")) {
		TEST_EQUAL(unet_connect(&taken, NEVER), -ECONNREFUSED);
		TEST_EQUAL(unet_connect(&taken, usync_after(3600 * USYNC_SECOND)),
			   -ECONNREFUSED);
	}
	a = address("@usched-not-listening");
	TEST_EQUAL(unet_connect(&a, NEVER), -ECONNREFUSED);
	TEST_EQUAL(test_descriptors(), before - 1);
}

/* Each call refuses a number that is no descriptor. */
static void no_descriptor(int fd)
{
	struct unet_addr a = address("127.0.0.1:1");
	char c[4] = { 0 };
	struct iovec iov = { c, sizeof c };
	size_t done = 77;

	TEST_EQUAL(unet_accept(fd, &a, NEVER), -EBADF);
	TEST_EQUAL(unet_signal(fd, NEVER), -EBADF);
	TEST_EQUAL(unet__adopt_fd(fd), -EBADF);
	TEST_EQUAL(unet_shutdown(fd, SHUT_WR), -EBADF);
	TEST_EQUAL(unet_read(fd, c, sizeof c, NEVER), -EBADF);
	TEST_EQUAL(unet_read(fd, c, sizeof c, 0), -EBADF);
	TEST_EQUAL(unet_write(fd, c, sizeof c, NEVER), -EBADF);
	TEST_EQUAL(read_vector(fd, &iov, 1, NEVER), -EBADF);
	TEST_EQUAL(write_vector(fd, &iov, 1, NEVER), -EBADF);
	TEST_EQUAL(receive_from(fd, c, sizeof c, 0, &a, NEVER), -EBADF);
	TEST_EQUAL(send_to(fd, c, sizeof c, 0, &a, NEVER), -EBADF);
	TEST_EQUAL(unet_read_all(fd, c, sizeof c, &done, NEVER), -EBADF);
	TEST_EQUAL(done, 0);
	done = 77;
	TEST_EQUAL(unet_write_all(fd, c, sizeof c, &done, NEVER), -EBADF);
	TEST_EQUAL(done, 0);
	TEST_EQUAL(unet_wait(fd, POLLIN, NEVER), -EBADF);
	TEST_EQUAL(unet_wait(fd, POLLOUT, NEVER), -EBADF);
	TEST_EQUAL(unet_wait(fd, POLLIN | POLLOUT, NEVER), -EINVAL);
	TEST_EQUAL(unet_wait(fd, 0, NEVER), -EINVAL);
	TEST_EQUAL(unet_close(fd), -EBADF);
}

NET_TEST(no_descriptors)
{
	int fds[2];

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

/* ---- Connections ---- */

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

/* A client in another thread; the calling thread serves it. */
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
	join(u);
	TEST_EQUAL(peer.ad_size, c.c_self.ad_size);
	TEST_EQUAL(memcmp(&peer.ad_sockaddr, &c.c_self.ad_sockaddr, peer.ad_size), 0);
	if (a->ad_sockaddr.ss_family != AF_UNIX) {
		TEST_EQUAL(getsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, &size), 0);
		TEST_EQUAL(on, 1);
	}
	TEST_EQUAL(unet_close(fd), 0);
	TEST_EQUAL(unet_close(listener), 0);
}

/* A server's port is free again, though the server closed a connection first. */
static void listen_again(void)
{
	struct unet_addr a = address(local());
	int listener = unet_listen(&a, 0, 0), client, fd;

	a = bound(listener);
	client = mini_connect(a);
	fd = unet_accept(listener, NULL, NEVER);
	TEST_EQUAL(unet_close(fd), 0);          /* this end stays in TIME_WAIT */
	TEST_EQUAL(read(client, &(char){ 0 }, 1), 0);
	close(client);
	TEST_EQUAL(unet_close(listener), 0);
	listener = unet_listen(&a, 0, 0);
	TEST_TRUE(listener >= 0);
	TEST_EQUAL(unet_close(listener), 0);
}

NET_TEST(streams)
{
	char name[64];
	struct unet_addr a = address(local());

	serve_one(&a, 0);
	serve_one(&a, UNET_REUSEPORT);
	listen_again();
	snprintf(name, sizeof name, "@usched-%ld", (long)getpid());
	a = address(name);
	serve_one(&a, 0);
	make_directory();
	a = address(path_of("socket"));
	serve_one(&a, 0);
	TEST_EQUAL(unet_listen(&a, 0, 0), -EADDRINUSE);         /* the name is left */
	TEST_EQUAL(unlink(path_of("socket")), 0);
	serve_one(&a, 0);
	TEST_EQUAL(unlink(path_of("socket")), 0);
	TEST_EQUAL(unet_connect(&a, NEVER), -ENOENT);
	remove_directory();
}

static void streams_v6(void)
{
	struct unet_addr a = address("[::1]:0"), any = address(":0"), four;
	char text[UNET_TEXT_MAX];
	int fd, fd4, client;

	serve_one(&a, 0);
	serve_one(&a, UNET_V6ONLY | UNET_REUSEPORT);
	fd = unet_listen(&any, 0, 0);           /* IPv4, too */
	any = bound(fd);
	snprintf(text, sizeof text, "127.0.0.1:%d", port_of(&any));
	client = mini_connect(address(text));
	snprintf(text, sizeof text, "[::1]:%d", port_of(&any));
	close(mini_connect(address(text)));
	close(client);
	for (int i = 0; i < 2; i++)
		TEST_EQUAL(unet_close(unet_accept(fd, NULL, NEVER)), 0);
	TEST_EQUAL(unet_close(fd), 0);
	do {                                    /* the port may be in use for IPv4 */
		any = address(":0");
		fd = unet_listen(&any, 0, UNET_V6ONLY); /* leaves IPv4 free */
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
	if (!has_ipv6())
		skip_because("no IPv6 here");
	run_net_case(state);
}

/* ---- A thread for each connection ---- */

enum { CLIENTS = 20 };

static atomic_size_t served;

/* The client is in the same process, so it can look at the descriptor. */
static void serve_fd(int fd, void *count)
{
	TEST_EQUAL(unet_write_all(fd, &fd, sizeof fd, NULL, NEVER), 0);
	TEST_EQUAL(echo(fd, false), 0);
	++*(atomic_size_t *)count;
}

/* The thread that o_start_with() makes has the other end of this client's connection. */
static int connect_to(const struct unet_addr *a)
{
	struct unet_addr peer = { .ad_size = sizeof peer.ad_sockaddr }, self;
	int fd = unet_connect(a, NEVER), other = -1;

	TEST_EQUAL(unet_read_all(fd, &other, sizeof other, NULL, NEVER), 0);
	TEST_EQUAL(getpeername(other, sockaddr_of(&peer), &peer.ad_size), 0);
	self = bound(fd);
	TEST_EQUAL(peer.ad_size, self.ad_size);
	TEST_EQUAL(memcmp(&peer.ad_sockaddr, &self.ad_sockaddr, self.ad_size), 0);
	return fd;
}

NET_TEST(server)
{
	struct unet_addr a = address(local());
	struct ustack *acceptor;
	int clients[CLIENTS], listener = unet_listen(&a, 0, 0);
	char text[8];

	served = 0;
	a = bound(listener);
	acceptor = go_acceptor(listener, serve_fd, &served);
	for (int i = 0; i < CLIENTS; i++)
		clients[i] = connect_to(&a);
	for (int k = 0; k < 2 * CLIENTS; k++) {
		size_t size = (size_t)snprintf(text, sizeof text, "%d", k);

		TEST_EQUAL(unet_write(clients[k % CLIENTS], text, size, NEVER), size);
		receive(clients[k % CLIENTS], text);
	}
	TEST_EQUAL(served, 0);
	for (int i = 0; i < CLIENTS; i++)
		TEST_EQUAL(unet_close(clients[i]), 0);
	while (served < CLIENTS)
		pause_thread();
	TEST_EQUAL(unet_close(listener), 0);
	join(acceptor);
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

NET_TEST(reuse_port)
{
	static struct spread shares[LISTENERS];
	struct unet_addr a = address(local());
	struct ustack *threads[LISTENERS];

	for (int i = 0; i < LISTENERS; i++) {
		int fd = unet_listen(&a, 0, UNET_REUSEPORT);

		shares[i] = (struct spread){ .p_listener = fd };
		a = bound(fd);
		threads[i] = go(accept_share, &shares[i]);
	}
	for (int i = 0; i < SPREAD; i++)
		close(mini_connect(a));
	while (shares[0].p_count + shares[1].p_count < SPREAD)
		pause_thread();
	for (int i = 0; i < LISTENERS; i++) {
		TEST_TRUE(shares[i].p_count > 0);
		TEST_EQUAL(unet_close(shares[i].p_listener), 0);
		join(threads[i]);
	}
}

NATIVE_CASE(no_descriptors)
CASE_BY(test_streams_v6, "streams_v6", streams_v6, NULL)

int main(void)
{
	return over_all(OVER_ALL);
}
