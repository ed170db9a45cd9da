/* SPDX-License-Identifier: MIT */
#include "netop.h"

#include <signal.h>
#include <sys/eventfd.h>

static void make_listener(int fds[2])
{
	fds[0] = mini_listen(4);
	fds[1] = -1;
}

static void make_pipe(int fds[2])
{
	TEST_EQUAL(pipe(fds), 0);
}

static void make_full_pipe(int fds[2])
{
	int pair[2];

	make_pipe(pair);
	fds[0] = pair[1];
	fds[1] = pair[0];
	fill(fds[0]);
}

static void make_full_pair(int fds[2])
{
	unix_pair(fds);
	fill(fds[0]);
}

static void make_udp(int fds[2])
{
	struct unet_addr a = address(local());

	fds[0] = socket(AF_INET, SOCK_DGRAM, 0);
	TEST_EQUAL(bind(fds[0], sockaddr_of(&a), a.ad_size), 0);
	a = bound(fds[0]);
	fds[1] = socket(AF_INET, SOCK_DGRAM, 0);
	TEST_EQUAL(connect(fds[1], sockaddr_of(&a), a.ad_size), 0);
}

static void make_full_datagrams(int fds[2])
{
	TEST_EQUAL(socketpair(AF_UNIX, SOCK_DGRAM, 0, fds), 0);
	fill(fds[0]);
}

static void make_eventfd(int fds[2])
{
	fds[0] = eventfd(0, 0);
	fds[1] = dup(fds[0]);
}

static void fill_eventfd(int fd)
{
	uint64_t most = UINT64_MAX - 1;

	TEST_EQUAL(write(fd, &most, sizeof most), sizeof most);
}

static void make_full_eventfd(int fds[2])
{
	make_eventfd(fds);
	fill_eventfd(fds[0]);
}

static void make_signals(int fds[2])
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGUSR1);
	fds[0] = unet_signals(&set);
	fds[1] = -1;
}

static ssize_t call_accept(struct place *p, int64_t deadline)
{
	int fd = unet_accept(p->p_fds[0], NULL, deadline);

	if (fd >= 0)
		TEST_EQUAL(unet_close(fd), 0);
	return fd;
}

static ssize_t call_read(struct place *p, int64_t deadline)
{
	return unet_read(p->p_fds[0], p->p_buffer, sizeof p->p_buffer, deadline);
}

static ssize_t call_recvmsg(struct place *p, int64_t deadline)
{
	struct iovec iov = { p->p_buffer, sizeof p->p_buffer };
	struct msghdr message = { .msg_iov = &iov, .msg_iovlen = 1 };

	return unet_recvmsg(p->p_fds[0], &message, 0, deadline);
}

static ssize_t call_read_all(struct place *p, int64_t deadline)
{
	return unet_read_all(p->p_fds[0], p->p_buffer, 8, NULL, deadline);
}

static ssize_t call_wait_readable(struct place *p, int64_t deadline)
{
	return unet_wait(p->p_fds[0], POLLIN, deadline);
}

/* Returns what the other calls would: a descriptor that is none is an error. */
static ssize_t call_poll(struct place *p, int64_t deadline, short events)
{
	struct pollfd fds[2] = { { -1, POLLIN, 0 }, { p->p_fds[0], events, 0 } };
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
	return unet_signal(p->p_fds[0], deadline);
}

static ssize_t call_write(struct place *p, int64_t deadline)
{
	return unet_write(p->p_fds[0], p->p_buffer, 8, deadline);
}

static ssize_t call_sendmsg(struct place *p, int64_t deadline)
{
	struct iovec iov = { p->p_buffer, 8 };
	struct msghdr message = { .msg_iov = &iov, .msg_iovlen = 1 };

	return unet_sendmsg(p->p_fds[0], &message, 0, deadline);
}

static ssize_t call_writev_all(struct place *p, int64_t deadline)
{
	struct iovec iov[3] = { { p->p_buffer, 1 }, { NULL, 0 }, { p->p_buffer + 1, 7 } };

	return unet_writev_all(p->p_fds[0], iov, 3, NULL, deadline);
}

static ssize_t call_wait_writable(struct place *p, int64_t deadline)
{
	return unet_wait(p->p_fds[0], POLLOUT, deadline);
}

static ssize_t call_write_all(struct place *p, int64_t deadline)
{
	return unet_write_all(p->p_fds[0], p->p_buffer, 8, NULL, deadline);
}

static void ready_connect(struct place *p)
{
	close(mini_connect(bound(p->p_fds[0])));
}

static void ready_send(struct place *p)
{
	put(p->p_fds[1], "12345678");            /* eight bytes, as eventfds need */
}

static void ready_drain(struct place *p)
{
	drain(p->p_fds[1]);
}

static void ready_signal(struct place *p)
{
	(void)p;
	kill(getpid(), SIGUSR1);
}

static const struct op ops[] = {
	{ "accept",             make_listener,  call_accept,    ready_connect, 0 },
	{ "poll to accept",     make_listener,  call_poll_in,   ready_connect, POLLIN },
	{ "read",               unix_pair,      call_read,      ready_send, 8 },
	{ "read, TCP",          tcp_pair,       call_read,      ready_send, 8 },
	{ "read, pipe",         make_pipe,      call_read,      ready_send, 8 },
	{ "read, eventfd",      make_eventfd,   call_read,      ready_send, 8 },
	{ "recvmsg",            tcp_pair,       call_recvmsg,   ready_send, 8 },
	{ "recvmsg, UDP",       make_udp,       call_recvmsg,   ready_send, 8 },
	{ "recvmsg, pipe",      make_pipe,      call_recvmsg,   ready_send, 8 },
	{ "read_all",           tcp_pair,       call_read_all,  ready_send, 0 },
	{ "wait_readable",      tcp_pair,       call_wait_readable,     ready_send, 0 },
	{ "poll in",            tcp_pair,       call_poll_in,   ready_send, POLLIN },
	{ "poll in, pipe",      make_pipe,      call_poll_in,   ready_send, POLLIN },
	{ "signal",             make_signals,   call_signal,    ready_signal, SIGUSR1 },
	{ "write",              make_full_pair, call_write,     ready_drain, 1 },
	{ "write, pipe",        make_full_pipe, call_write,     ready_drain, 1 },
	{ "write, eventfd",     make_full_eventfd,      call_write,     ready_drain, 8 },
	{ "sendmsg",            make_full_pair, call_sendmsg,   ready_drain, 1 },
	{ "sendmsg, datagrams", make_full_datagrams,    call_sendmsg,   ready_drain, 8 },
	{ "sendmsg, pipe",      make_full_pipe, call_sendmsg,   ready_drain, 1 },
	{ "write_all",          make_full_pair, call_write_all, ready_drain, 0 },
	{ "write_all, pipe",    make_full_pipe, call_write_all, ready_drain, 0 },
	{ "writev_all",         make_full_pair, call_writev_all,        ready_drain, 0 },
	{ "wait_writable",      make_full_pair, call_wait_writable,     ready_drain, 0 },
	{ "poll out",           make_full_pair, call_poll_out,  ready_drain, POLLOUT },
};

struct place place;

void make_place(const struct op *op)
{
	memset(&place, 0, sizeof place);
	memset(place.p_buffer, 1, sizeof place.p_buffer);
	place.p_op = op;
	op->o_make(place.p_fds);
	place.p_file = open("/proc/self/exe", O_RDONLY);
	TEST_TRUE(place.p_fds[0] >= 0);
}

void unmake_place(bool closed)
{
	if (!closed)
		TEST_EQUAL(unet_close(place.p_fds[0]), 0);
	if (place.p_fds[1] >= 0)
		close(place.p_fds[1]);
	close(place.p_file);
}

void unready_place(void)
{
	if (place.p_op->o_ready == ready_send)
		drain(place.p_fds[0]);
	else if (place.p_op->o_make == make_full_eventfd)
		drain(place.p_fds[1]), fill_eventfd(place.p_fds[0]);
	else if (place.p_op->o_ready == ready_drain)
		fill(place.p_fds[0]);
	else if (place.p_op->o_call == call_poll_in)
		close(accept(place.p_fds[0], NULL, NULL));
}

void op_equal(ssize_t rc, ssize_t right)
{
	if (rc != right)
		fprintf(stderr, "%s:\n", place.p_op->o_name);
	TEST_EQUAL(rc, right);
}

void call_op(void *unused)
{
	(void)unused;
	place.p_rc = place.p_op->o_call(&place, place.p_deadline);
	place.p_returned = 1;
}

struct ustack *go_op(int64_t deadline)
{
	place.p_deadline = deadline;
	place.p_returned = 0;
	return go(call_op, NULL);
}

void await_op(const struct ustack *u)
{
	while (!place.p_returned && waiting(u) == 0)
		pause_thread();
}

void end_op(struct ustack *u, ssize_t rc)
{
	join(u);
	op_equal(place.p_rc, rc);
}

void works(void)
{
	struct ustack *u = go_op(NEVER);

	await_op(u);
	if (place.p_returned)
		op_equal(place.p_rc, -EAGAIN);          /* it should not have returned */
	place.p_op->o_ready(&place);
	join(u);
	if (place.p_rc < place.p_op->o_least)
		op_equal(place.p_rc, place.p_op->o_least);
}

const struct op *op_named(const char *name)
{
	size_t i = 0;

	while (i < COUNT(ops) && strcmp(ops[i].o_name, name) != 0)
		i++;
	TEST_TRUE(i < COUNT(ops));
	return &ops[i];
}

static const struct op_case *op_case;

static void every_op(void)
{
	if (op_case->c_first)
		op_case->c_first();
	for (size_t i = 0; i < COUNT(ops); i++)
		op_case->c_test(&ops[i]);
}

void run_op_case(void **state)
{
	op_case = *state;
	test_timeout(100);
	each_conf(every_op);
}

void run_op_native_case(void **state)
{
	void (*func)(void) = every_op;

	op_case = *state;
	test_timeout(100);
	block_signals(SIG_BLOCK);
	in_native(call_case, &func);
	block_signals(SIG_UNBLOCK);
}
