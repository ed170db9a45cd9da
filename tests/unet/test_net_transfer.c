/* SPDX-License-Identifier: MIT */
/*
 * test_net_transfer.c: how transfers end: the count at an error, half-closed and reset
 * connections, SIGPIPE.
 */
#include "../help/netop.h"

#include <signal.h>
#include <sys/ioctl.h>

/* ---- What was transferred before the error ---- */

struct transfer {
	int        t_fd;
	size_t     t_size;
	size_t     t_done;
	int        t_rc;
	int64_t    t_deadline;
	char      *t_data;
	atomic_int t_returned;
};

/* More than buffers hold. */
static struct transfer large_transfer(int fd)
{
	struct transfer t = { .t_fd = fd, .t_size = 8 << 20, .t_deadline = NEVER,
			      .t_data = calloc(8, 1 << 20) };

	TEST_TRUE(t.t_data != NULL);
	return t;
}

static void read_some(void *arg)
{
	struct transfer *t = arg;

	t->t_rc = unet_read_all(t->t_fd, t->t_data, t->t_size, &t->t_done, t->t_deadline);
	t->t_returned = 1;
}

static void write_some(void *arg)
{
	struct transfer *t = arg;

	t->t_rc = unet_write_all(t->t_fd, t->t_data, t->t_size, &t->t_done,
				 t->t_deadline);
	t->t_returned = 1;
}

enum { BY_DEADLINE, BY_CANCEL, BY_CLOSE, BY_PEER, WAYS };

static void interrupt_it(struct transfer *t, void (*func)(void *), int way, int other)
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
	join(u);
	TEST_EQUAL(t->t_rc, errors[way]);
}

static void partial_read(int way, void (*make)(int fds[2]))
{
	static struct transfer t;
	char data[8] = "";
	int fds[2];

	make(fds);
	put(fds[1], "12345");
	TEST_EQUAL(recv(fds[0], data, 5, MSG_PEEK | MSG_WAITALL), 5);   /* has arrived */
	t = (struct transfer){ .t_fd = fds[0], .t_size = 8, .t_data = malloc(8) };
	interrupt_it(&t, read_some, way, fds[1]);
	TEST_EQUAL(t.t_done, 5);
	TEST_EQUAL(memcmp(t.t_data, "12345", 5), 0);
	if (way < BY_CLOSE) {                   /* a later call goes on */
		put(fds[1], "67");
		TEST_EQUAL(unet_read(fds[0], data, 8, NEVER), 2);
		TEST_EQUAL(memcmp(data, "67", 2), 0);
	}
	if (way != BY_CLOSE)
		TEST_EQUAL(unet_close(fds[0]), 0);
	close(fds[1]);
	free(t.t_data);
}

/* The peer can read exactly what was written. */
static void partial_write(int way, void (*make)(int fds[2]))
{
	static struct transfer t;
	int fds[2];

	make(fds);
	small_buffers(fds[0]);
	small_buffers(fds[1]);
	t = large_transfer(fds[0]);
	interrupt_it(&t, write_some, way, fds[1]);
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

NET_TEST(partial)
{
	for (int way = 0; way < WAYS; way++) {
		partial_read(way, unix_pair);
		partial_read(way, tcp_pair);
		partial_write(way, unix_pair);
		if (way != BY_PEER)             /* TCP cannot tell */
			partial_write(way, tcp_pair);
	}
}

NET_TEST(transfer_nothing)
{
	size_t done = 77;
	int fds[2];
	char c;

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
	TEST_EQUAL(unet_read(fds[0], &c, 0, NEVER), 0); /* does not wait */
	TEST_EQUAL(unet_write_all(fds[0], "y", 1, &done, NEVER), 0);
	TEST_EQUAL(done, 1);
	expect(fds[1], "y");
	close_both(fds);
}

/* ---- Half-closed and reset connections ---- */

NET_TEST(half_close)
{
	int fds[2];
	char c;

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

/* While a reader waits, while a writer waits, and before a read. */
NET_TEST(resets)
{
	static struct transfer t;
	struct ustack *u;
	int fds[2];
	char c;

	for (int i = 0; i < 3; i++) {
		tcp_pair(fds);
		t = large_transfer(fds[0]);
		if (i < 2) {
			u = go(i ? write_some : read_some, &t);
			await_waiting(u);
			reset(fds[1]);
			join(u);
			TEST_EQUAL(t.t_rc, -ECONNRESET);
		} else {
			reset(fds[1]);
			TEST_EQUAL(unet_read(fds[0], &c, 1, NEVER), -ECONNRESET);
		}
		for (int k = 0; k < 2; k++) {
			TEST_EQUAL(unet_read(fds[0], &c, 1, NEVER), 0);
			TEST_EQUAL(unet_write(fds[0], &c, 1, NEVER), -EPIPE);
			TEST_EQUAL(unet_write_all(fds[0], &c, 1, NULL, NEVER), -EPIPE);
			TEST_EQUAL(send_to(fds[0], &c, 1, 0, NULL, NEVER), -EPIPE);
		}
		TEST_EQUAL(unet_close(fds[0]), 0);
		free(t.t_data);
	}
}

/* ---- Sockets that are shut while a call waits ---- */

static void make_udp_alone(int fds[2])
{
	struct unet_addr a = address(local());

	fds[0] = socket(AF_INET, SOCK_DGRAM, 0);
	fds[1] = -1;
	TEST_EQUAL(bind(fds[0], sockaddr_of(&a), a.ad_size), 0);
}

static void make_datagrams(int fds[2])
{
	TEST_EQUAL(socketpair(AF_UNIX, SOCK_DGRAM, 0, fds), 0);
}

static void make_unix_listener(int fds[2])
{
	struct sockaddr any = { .sa_family = AF_UNIX };

	fds[0] = socket(AF_UNIX, SOCK_STREAM, 0);
	fds[1] = -1;
	TEST_EQUAL(bind(fds[0], &any, sizeof any.sa_family), 0);
	TEST_EQUAL(listen(fds[0], 1), 0);
}

static void make_full_unix(int fds[2])
{
	unix_pair(fds);
	fill(fds[0]);
}

static void make_full_packets(int fds[2])
{
	TEST_EQUAL(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, fds), 0);
	fill(fds[0]);
}

static void make_full_datagrams(int fds[2])
{
	make_datagrams(fds);
	fill(fds[0]);
}

static int shut_how;

static void shut_here(void *fd)
{
	int rc = unet_shutdown(*(int *)fd, shut_how);

	TEST_TRUE(rc == 0 || rc == -ENOTCONN);  /* which ends waits all the same */
}

/* As another process does that has the socket, too. */
static void shut_outside(void *fd)
{
	shutdown(*(int *)fd, shut_how);
}

static void shut_native(void *fd)
{
	in_native(shut_here, fd);
}

/* What the waiting call returns, and the next one. */
static void shut_waiting(const char *name, void (*make)(int fds[2]), int how,
			 void (*shut)(void *fd), int which, ssize_t rc)
{
	static struct op op;                    /* for other threads */
	static int fds[3];
	struct ustack *u;

	op = *op_named(name);
	op.o_make = make;
	make_place(&op);
	memcpy(fds, place.p_fds, sizeof place.p_fds);
	fds[2] = dup(fds[0]);
	shut_how = how;
	u = go_op(NEVER);
	await_op(u);
	TEST_EQUAL(place.p_returned, 0);
	shut(&fds[which]);
	end_op(u, rc);
	for (int i = 0; i < 2; i++)
		op_equal(op.o_call(&place, NEVER), rc);
	close(fds[2]);
	unmake_place(false);
}

NET_TEST(shut_readers)
{
	static const char *const calls[] = { "read", "recvmsg" };
	void (*const by[])(void *) = { shut_here, shut_outside, shut_native };
	void (*const make[])(int *) = { make_udp_alone, make_datagrams };

	for (size_t i = 0; i < 2 * COUNT(calls) * COUNT(by); i++)
		shut_waiting(calls[i / 2 % COUNT(calls)], make[i % 2],
			     i % 2 ? SHUT_RDWR : SHUT_RD, by[i / 2 / COUNT(calls)],
			     i % 4 < 2 ? 0 : 2, 0);
	shut_waiting("read_all", make_datagrams, SHUT_RD, shut_here, 0, -EPIPE);
	shut_waiting("accept", make_unix_listener, SHUT_RD, shut_here, 0, -EINVAL);
}

/* What came before is read. */
NET_TEST(shut_before)
{
	struct sockaddr_storage from;
	struct iovec iov = { &(char){ 0 }, 1 };
	struct msghdr m = { .msg_name = &from, .msg_namelen = sizeof from,
			    .msg_iov = &iov, .msg_iovlen = 1, .msg_flags = MSG_TRUNC };
	struct unet_addr a;
	struct pollfd one = { .events = POLLIN };
	int fds[2];

	make_datagrams(fds);
	put(fds[1], "x");
	TEST_EQUAL(unet_shutdown(fds[0], SHUT_RD), 0);
	TEST_EQUAL(unet_read(fds[0], iov.iov_base, 1, NEVER), 1);
	TEST_EQUAL(unet_read(fds[0], iov.iov_base, 1, 0), -ETIMEDOUT);
	TEST_EQUAL(unet_read(fds[0], iov.iov_base, 1, NEVER), 0);
	one.fd = fds[0];
	TEST_EQUAL(unet_poll(&one, 1, NEVER), 1);
	TEST_EQUAL(unet_wait(fds[0], POLLIN, NEVER), 0);
	TEST_EQUAL(receive_from(fds[0], iov.iov_base, 1, 0, &a, NEVER), 0);
	TEST_EQUAL(a.ad_size, 0);
	TEST_EQUAL(unet_recvmsg(fds[0], &m, 0, NEVER), 0);
	TEST_EQUAL(m.msg_namelen, 0);
	TEST_EQUAL(m.msg_flags, 0);
	close_both(fds);
}

NET_TEST(shut_writers)
{
	static const char *const calls[] = { "write", "sendmsg", "write_all",
					     "writev_all" };
	void (*const make[])(int *) = { make_full_unix, make_full_packets,
					make_full_datagrams };

	for (size_t i = 0; i < COUNT(calls); i++) {
		for (size_t k = 0; k < COUNT(make); k++) {
			shut_waiting(calls[i], make[k], SHUT_WR, shut_here, 0, -EPIPE);
			shut_waiting(calls[i], make[k], SHUT_WR, shut_native, 2, -EPIPE);
		}
		shut_waiting(calls[i], make_full_unix, SHUT_RD, shut_here, 1, -EPIPE);
	}
}

/* ---- SIGPIPE ---- */

static atomic_int pipe_signals;

static void on_sigpipe(int signo)
{
	(void)signo;
	pipe_signals++;
}

/* Writes in each way after the reader has closed. */
static void write_broken(int fds[2])
{
	struct iovec iov = { (char[]){ "x" }, 1 };

	close(fds[0]);
	for (int i = 0; i < 2; i++) {
		TEST_EQUAL(unet_write(fds[1], "x", 1, NEVER), -EPIPE);
		TEST_EQUAL(write_vector(fds[1], &iov, 1, NEVER), -EPIPE);
		TEST_EQUAL(unet_write_all(fds[1], "x", 1, NULL, NEVER), -EPIPE);
	}
}

/* The reader closes while the writer waits for room. */
static void break_waiting(const struct op *op)
{
	struct ustack *u;

	make_place(op);
	u = go_op(NEVER);
	await_op(u);
	close(place.p_fds[1]);
	end_op(u, -EPIPE);
	place.p_fds[1] = -1;
	unmake_place(false);
}

static void broken_pipes(void)
{
	int fds[2];

	TEST_EQUAL(pipe(fds), 0);
	write_broken(fds);
	TEST_EQUAL(unet_close(fds[1]), 0);
	unix_pair(fds);
	write_broken(fds);
	TEST_EQUAL(send_to(fds[1], "x", 1, 0, NULL, NEVER), -EPIPE);
	TEST_EQUAL(unet_close(fds[1]), 0);
	break_waiting(op_named("write, pipe"));
	break_waiting(op_named("write"));
	break_waiting(op_named("writev_all"));
	break_waiting(op_named("sendmsg"));
	break_waiting(op_named("sendmsg, pipe"));
}

/* A pending SIGPIPE stays pending; the mask stays as it is. */
static void broken_pipes_native(void *unused)
{
	sigset_t set, pending, mask;
	int fds[2];

	(void)unused;
	sigemptyset(&set);
	sigaddset(&set, SIGPIPE);
	for (int blocked = 0; blocked < 2; blocked++) {
		TEST_EQUAL(pthread_sigmask(blocked ? SIG_BLOCK : SIG_UNBLOCK, &set, NULL),
			   0);
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
}

TEST(test_sigpipe)
{
	struct sigaction action = { .sa_handler = on_sigpipe }, now;

	if (test_on_valgrind())
		skip_because("valgrind takes live frames for dead ones");
	each_conf(broken_pipes);                /* by default SIGPIPE kills */
	assert_int_equal(sigaction(SIGPIPE, &action, NULL), 0);
	each_conf(broken_pipes);
	assert_int_equal(sigaction(SIGPIPE, NULL, &now), 0);
	assert_ptr_equal(now.sa_handler, on_sigpipe);
	in_native(broken_pipes_native, NULL);   /* ends with a pending one */
	assert_int_equal(pipe_signals, 0);
	signal(SIGPIPE, SIG_DFL);
}

int main(void)
{
	return over_all(OVER_ALL);
}
