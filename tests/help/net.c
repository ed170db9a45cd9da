/* SPDX-License-Identifier: MIT */
#include "net.h"

#include "../../src/base/sim.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <time.h>

/* ---- Threads ---- */

void *scheduler;

const struct uprocs_conf one_processor = { .c_processors = 1 };
const struct uprocs_conf two_processors = { .c_processors = 2 };

struct ustack *go(void (*func)(void *), void *arg)
{
	struct ustack *u;

	TEST_EQUAL(over->o_start(scheduler, func, arg, &u), 0);
	return u;
}

void join(struct ustack *u)
{
	TEST_EQUAL(ustack_join(u, NULL, NEVER), 0);
}

struct native {
	void (*n_func)(void *);
	void  *n_arg;
};

static void *run_native(void *arg)
{
	struct native n = *(struct native *)arg;

	free(arg);
	n.n_func(n.n_arg);
	return NULL;
}

pthread_t go_native(void (*func)(void *), void *arg)
{
	struct native *n = malloc(sizeof *n);
	pthread_t native;

	TEST_TRUE(n != NULL);
	*n = (struct native){ func, arg };
	TEST_EQUAL(pthread_create(&native, NULL, run_native, n), 0);
	return native;
}

void join_native(pthread_t native)
{
	TEST_EQUAL(pthread_join(native, NULL), 0);
}

void in_native(void (*func)(void *), void *arg)
{
	join_native(go_native(func, arg));
}

void pause_thread(void)
{
	TEST_EQUAL(test_give_way(), 0);
	sched_yield();
}

void nap(size_t n)
{
	while (n-- > 0)
		TEST_EQUAL(usync_sleep_until(usync_after(MILLI)), 0);
}

void sleep_native(long ms)
{
	struct timespec t = { ms / 1000, ms % 1000 * MILLI };

	nanosleep(&t, NULL);
}

uint32_t waiting(const struct ustack *u)
{
	struct uevents *e = __atomic_load_n(&ustack_sched(u)->s_events, __ATOMIC_ACQUIRE);

	return e ? __atomic_load_n(&e->e_waiting, __ATOMIC_ACQUIRE) : 0;
}

void await_waiting(const struct ustack *u)
{
	while (waiting(u) == 0)
		pause_thread();
}

static void nap_once(void *unused)
{
	(void)unused;
	nap(1);
}

void all_have_events(void)
{
	struct ustack *sleepers[8];

	for (int i = 0; i < 8; i++)
		sleepers[i] = go(nap_once, NULL);
	for (int i = 0; i < 8; i++)
		join(sleepers[i]);
}

void call_case(void *c_func)
{
	(*(void (**)(void))c_func)();
}

static void in_thread(const struct uprocs_conf *conf, void (*func)(void))
{
	size_t before = test_descriptors();

	block_signals(SIG_BLOCK);
	assert_int_equal(over->o_create(conf, &scheduler), 0);
	join(go(call_case, &func));
	assert_int_equal(over->o_destroy(scheduler), 0);
	block_signals(SIG_UNBLOCK);
	assert_int_equal(test_descriptors(), before);
}

void each_conf(void (*func)(void))
{
	static const struct uprocs_conf confs[] = {
		{ .c_processors = 1, .c_stacks = USCHED_NATIVE },
		{ .c_processors = 1 },
		{ .c_processors = 2, .c_stacks = 1 },
		{ .c_processors = 3 },
	};

	for (size_t i = 0; i < (SIMULATED ? 1 : COUNT(confs)); i++)
		in_thread(&confs[i], func);
}

void run_net_case(void **state)
{
	const struct net_case *c = *state;

	test_timeout(100);
	if (c->c_conf)
		in_thread(c->c_conf, c->c_func);
	else
		each_conf(c->c_func);
}

void skip_because(const char *why)
{
	print_message("%s\n", why);
	skip();
}

void run_calm_case(void **state)
{
	if (test_is_stressed())
		skip_because("threads run in any order here");
	run_net_case(state);
}

void run_native_case(void **state)
{
	struct net_case *c = *state;

	test_timeout(100);
	in_native(call_case, &c->c_func);
}

void block_signals(int how)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGUSR1);
	assert_int_equal(pthread_sigmask(how, &set, NULL), 0);
}

/* ---- Addresses ---- */

struct unet_addr address(const char *text)
{
	struct unet_addr a = { 0 };

	TEST_EQUAL(unet_addr(text, &a), 0);
	return a;
}

struct sockaddr *sockaddr_of(struct unet_addr *a)
{
	return (struct sockaddr *)(void *)&a->ad_sockaddr;
}

struct unet_addr bound(int fd)
{
	struct unet_addr a = { .ad_size = sizeof a.ad_sockaddr };

	TEST_EQUAL(getsockname(fd, sockaddr_of(&a), &a.ad_size), 0);
	return a;
}

/* The port is at the same offset in IPv6. */
int port_of(const struct unet_addr *a)
{
	const struct sockaddr_in *in = (const struct sockaddr_in *)(const void *)
		&a->ad_sockaddr;

	return ntohs(in->sin_port);
}

bool has_ipv6(void)
{
	struct unet_addr a = address("[::1]:0");
	int fd = socket(AF_INET6, SOCK_STREAM, 0);
	bool has = fd >= 0 && bind(fd, sockaddr_of(&a), a.ad_size) == 0;

	if (fd >= 0)
		close(fd);
	return has;
}

const char *local(void)
{
	static char text[32];
	unsigned pid = (unsigned)getpid();

	snprintf(text, sizeof text, "127.%u.%u.1:0", 1 + pid / 250 % 250, 1 + pid % 250);
	return text;
}

/* ---- Descriptors, by plain system calls ---- */

int mini_listen(int backlog)
{
	struct unet_addr a = address(local());
	int fd = socket(AF_INET, SOCK_STREAM, 0);

	TEST_TRUE(fd >= 0);
	TEST_EQUAL(bind(fd, sockaddr_of(&a), a.ad_size), 0);
	TEST_EQUAL(listen(fd, backlog), 0);
	return fd;
}

int mini_connect(struct unet_addr to)
{
	int fd = socket(to.ad_sockaddr.ss_family, SOCK_STREAM, 0);

	TEST_TRUE(fd >= 0);
	TEST_EQUAL(connect(fd, sockaddr_of(&to), to.ad_size), 0);
	return fd;
}

/* Without Nagle's delay. */
void tcp_pair(int fds[2])
{
	int fd = mini_listen(1);

	fds[0] = mini_connect(bound(fd));
	fds[1] = accept(fd, NULL, NULL);
	TEST_TRUE(fds[1] >= 0);
	close(fd);
	for (int i = 0; i < 2; i++)
		TEST_EQUAL(setsockopt(fds[i], IPPROTO_TCP, TCP_NODELAY, &(int){ 1 },
				      sizeof(int)), 0);
}

void unix_pair(int fds[2])
{
	TEST_EQUAL(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
}

int at_number(int fd, int number)
{
	if (fd == number)
		return fd;
	TEST_EQUAL(fcntl(fd, F_DUPFD, number), number);
	TEST_EQUAL(unet_close(fd), 0);
	return number;
}

void pair_at(int fds[2], int number)
{
	unix_pair(fds);
	if (fds[1] == number) {
		fds[1] = fds[0];
		fds[0] = number;
	}
	fds[0] = at_number(fds[0], number);
}

void put(int fd, const char *text)
{
	TEST_EQUAL(write(fd, text, strlen(text)), strlen(text));
}

void expect(int fd, const char *text)
{
	char buffer[64];

	TEST_EQUAL(read(fd, buffer, strlen(text)), strlen(text));
	TEST_EQUAL(memcmp(buffer, text, strlen(text)), 0);
}

void receive(int fd, const char *text)
{
	char buffer[64];

	TEST_EQUAL(unet_read_all(fd, buffer, strlen(text), NULL, NEVER), 0);
	TEST_EQUAL(memcmp(buffer, text, strlen(text)), 0);
}

void do_not_wait(int fd)
{
	TEST_EQUAL(fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK), 0);
}

void fill(int fd)
{
	static const char zeros[4096];

	do_not_wait(fd);
	while (write(fd, zeros, sizeof zeros) > 0)
		;
	TEST_EQUAL(errno, EAGAIN);
	while (write(fd, zeros, 1) > 0)
		;
}

void drain(int fd)
{
	char buffer[4096];

	do_not_wait(fd);
	while (read(fd, buffer, sizeof buffer) > 0)
		;
}

/* With a TCP window below a segment, 64 KiB here, senders wait for timers. */
void small_buffers(int fd)
{
	int out = 4096, in = 100000;

	TEST_EQUAL(setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &out, sizeof out), 0);
	TEST_EQUAL(setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &in, sizeof in), 0);
}

void be_abrupt(int fd)
{
	struct linger linger = { 1, 0 };

	TEST_EQUAL(setsockopt(fd, SOL_SOCKET, SO_LINGER, &linger, sizeof linger), 0);
}

void reset(int fd)
{
	be_abrupt(fd);
	close(fd);
}

void made_right(int fd)
{
	TEST_TRUE(fd >= 0);
	TEST_TRUE(fcntl(fd, F_GETFL) & O_NONBLOCK);
	TEST_TRUE(fcntl(fd, F_GETFD) & FD_CLOEXEC);
}

void close_both(const int fds[2])
{
	TEST_EQUAL(unet_close(fds[0]), 0);
	TEST_EQUAL(unet_close(fds[1]), 0);
}

static void send_later(void *fd)
{
	pause_thread();
	put(*(int *)fd, "hello\n");
}

void wait_for_hello(int fds[2])
{
	struct ustack *u = go(send_later, &fds[1]);

	receive(fds[0], "hello\n");
	join(u);
}

ssize_t echo(int fd, bool rude)
{
	char data[700];
	ssize_t n;
	int rc = 0;

	while (rc == 0 && (n = unet_read(fd, data, sizeof data, NEVER)) > 0) {
		rc = unet_write_all(fd, data, (size_t)n, NULL, NEVER);
		TEST_TRUE(rc == 0 || rude);
	}
	TEST_EQUAL(unet_close(fd), 0);
	return rc ? rc : n;
}

static struct acceptor {
	int    a_listener;
	void (*a_func)(int fd, void *arg);
	void  *a_arg;
} acceptor;

static void accept_all(void *arg)
{
	const struct acceptor *a = arg;
	int fd;

	while ((fd = unet_accept(a->a_listener, NULL, NEVER)) >= 0)
		TEST_EQUAL(over->o_start_with(scheduler, TEST_FD(a->a_func, fd), NULL,
					      a->a_arg, NULL), 0);
	TEST_EQUAL(fd, -EBADF);
}

struct ustack *go_acceptor(int listener, void (*func)(int fd, void *arg), void *arg)
{
	acceptor = (struct acceptor){ listener, func, arg };
	return go(accept_all, &acceptor);
}

/* ---- Files ---- */

char directory[64];

void make_directory(void)
{
	const char *tmp = getenv("TMPDIR");

	snprintf(directory, sizeof directory, "%.40s/usched.XXXXXX", tmp ? tmp : "/tmp");
	TEST_TRUE(mkdtemp(directory) != NULL);
}

const char *path_of(const char *name)
{
	static char path[sizeof directory + 32];

	snprintf(path, sizeof path, "%s/%.24s", directory, name);
	return path;
}

void remove_directory(void)
{
	TEST_EQUAL(rmdir(directory), 0);
}
