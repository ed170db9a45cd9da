/* SPDX-License-Identifier: MIT */
/*
 * test_close_step.c: a native thread closes a descriptor while another one, stopped after
 * any instruction or waiting, is in a call with it. A new descriptor gets the number at
 * once; the call leaves it alone.
 */
#include "../help/stop.h"

#include <sys/eventfd.h>
#include <sys/un.h>

static bool blocks_natively(int fd)
{
	return !(fcntl(fd, F_GETFL) & O_NONBLOCK);
}

/* How much is left in the new descriptor. */
static size_t read_rest(int fd)
{
	char rest;
	size_t n = 0;

	assert_int_equal(unet__adopt_fd(fd), 0);
	assert_false(blocks_natively(fd));
	while (unet_read(fd, &rest, 1, 0) == 1) {
		assert_int_equal(rest, 'n');
		n++;
	}
	return n;
}

/* How many bytes the peer has got. */
static size_t sent_to(int peer)
{
	char byte;
	size_t n = 0;

	while (recv(peer, &byte, 1, MSG_DONTWAIT) == 1) {
		assert_int_equal(byte, 'w');
		n++;
	}
	return n;
}

static size_t count(char letter)
{
	size_t n = 0;

	for (const char *p = stop.s_got; *p; p++)
		n += *p == letter;
	return n;
}

/* Before it looks up its file a call may get the new one; never from then on. */
static void close_anywhere(const struct call *call, const char *what)
{
	size_t all = instructions_of(call, what), stops = test_scale(16, 8);
	bool knows = false;

	for (size_t n = 0; n < all; n += all / stops + 1) {
		bool touched, right;
		int new[2];

		close_after(n, call, what, new);
		touched = !blocks_natively(new[0]);
		if (touched)
			right = !knows && stop.s_rc != -EBADF && count('o') == 0;
		else
			right = count('n') == 0 && (*what || stop.s_rc == -EBADF);
		knows = !touched;
		if (!right || read_rest(new[0]) != 2 - count('n')
		    || sent_to(new[1]) != (touched ? count('w') : 0))
			fail_msg("%s of \"%s\", after %zu instructions: %d, \"%s\"",
				 call->c_name, what, n, stop.s_rc, stop.s_got);
		close_both(new);
	}
	assert_true(knows);
}

static void open_pipe(int fds[2], const char *what)
{
	assert_int_equal(pipe(fds), 0);
	put(fds[1], what);
}

/* With nothing to read, there is no room to write, either. */
static void open_packets(int fds[2], const char *what)
{
	char large[1000] = "";

	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, fds), 0);
	assert_int_equal(setsockopt(fds[0], SOL_SOCKET, SO_SNDBUF, &(int){ 1 },
				    sizeof(int)), 0);
	while (!*what && send(fds[0], large, sizeof large, MSG_DONTWAIT) > 0)
		;
	for (; *what; what++)
		assert_int_equal(write(fds[1], what, 1), 1);
}

static int note_sent(ssize_t n, char *got)
{
	if (n > 0)
		memset(got, 'w', (size_t)n);
	return (int)n;
}

static int read_one(int fd, char *got)
{
	return (int)unet_read(fd, got, 1, NEVER);
}

static int read_both(int fd, char *got)
{
	return unet_read_all(fd, got, 2, NULL, NEVER);
}

static int write_one(int fd, char *got)
{
	return note_sent(unet_write(fd, "w", 1, NEVER), got);
}

static int write_both(int fd, char *got)
{
	size_t done;
	int rc = unet_write_all(fd, "ww", 2, &done, NEVER);

	note_sent((ssize_t)done, got);
	return rc;
}

/* With this family of address unet_sendmsg() retries. */
static int send_again(int fd, char *got)
{
	struct unet_addr to = { .ad_size = sizeof(sa_family_t) };

	to.ad_sockaddr.ss_family = AF_UNIX;
	failure = EAGAIN;
	return note_sent(send_to(fd, "w", 1, 0, &to, NEVER), got);
}

static int wait_for_it(int fd, char *got)
{
	(void)got;
	return unet_wait(fd, POLLIN, NEVER);
}

static int wait_for_room(int fd, char *got)
{
	(void)got;
	return unet_wait(fd, POLLOUT, NEVER);
}

static int receive_message(int fd, char *got)
{
	struct iovec iov = { got, 1 };
	struct msghdr message = { .msg_iov = &iov, .msg_iovlen = 1 };

	return (int)unet_recvmsg(fd, &message, 0, NEVER);
}

static int send_message(int fd, char *got)
{
	struct iovec iov = { (char[]){ 'w' }, 1 };
	struct msghdr message = { .msg_iov = &iov, .msg_iovlen = 1 };

	return note_sent(unet_sendmsg(fd, &message, 0, NEVER), got);
}

static int write_all_vectors(int fd, char *got)
{
	struct iovec iov[2] = { { NULL, 0 }, { (char[]){ 'w' }, 1 } };
	size_t done;
	int rc = unet_writev_all(fd, iov, 2, &done, NEVER);

	note_sent((ssize_t)done, got);
	return rc;
}

static int poll_for(int fd, short events)
{
	struct pollfd one = { fd, events, 0 };
	int rc = unet_poll(&one, 1, NEVER);

	return rc == 1 && one.revents & POLLNVAL ? -EBADF : rc;
}

static int poll_in(int fd, char *got)
{
	(void)got;
	return poll_for(fd, POLLIN);
}

static int poll_out(int fd, char *got)
{
	(void)got;
	return poll_for(fd, POLLOUT);
}

static int adopt_it(int fd, char *got)
{
	(void)got;
	return unet__adopt_fd(fd);
}

/* A listener; its number goes to an eventfd, which is no socket. */
static void open_listener(int fds[2], const char *what)
{
	struct sockaddr_un name = { .sun_family = AF_UNIX };
	socklen_t size = sizeof name.sun_family;

	if (what[0] == 'n') {
		fds[0] = eventfd(0, 0);
		fds[1] = dup(fds[0]);
		assert_int_equal(unet__adopt_fd(fds[0]), 0);
		return;
	}
	fds[0] = socket(AF_UNIX, SOCK_STREAM, 0);
	fds[1] = socket(AF_UNIX, SOCK_STREAM, 0);
	assert_int_equal(bind(fds[0], (const void *)&name, size), 0);
	assert_int_equal(listen(fds[0], 1), 0);
	size = sizeof name;
	assert_int_equal(getsockname(fds[0], (void *)&name, &size), 0);
	if (what[0])
		assert_int_equal(connect(fds[1], (const void *)&name, size), 0);
	assert_int_equal(unet__adopt_fd(fds[0]), 0);
}

static int accept_it(int fd, char *got)
{
	(void)got;
	return unet_accept(fd, NULL, NEVER);
}

static int accept_again(int fd, char *got)
{
	failure = EMFILE;
	return accept_it(fd, got);
}

/* A write that takes it for a file gets SIGPIPE. */
static void use_accepted(int fd)
{
	assert_int_equal(unet_write(fd, "x", 1, NEVER), -EPIPE);
	assert_int_equal(unet_close(fd), 0);
}

/* Once a call knows its file it asks no other. */
static void accept_anywhere(const struct call *call, const char *what, size_t stops)
{
	size_t all = instructions_of(call, what);
	bool knows = false;

	if (stop.s_rc >= 0)
		use_accepted(stop.s_rc);
	for (size_t n = 0; n < all; n += all / stops + 1) {
		int new[2];

		close_after(n, call, what, new);
		close_both(new);
		if (stop.s_rc >= 0)
			use_accepted(stop.s_rc);
		else if (stop.s_rc != -EBADF && (knows || stop.s_rc != -ENOTSOCK))
			fail_msg("%s of \"%s\", stopped after %zu instructions: %d",
				 call->c_name, what, n, stop.s_rc);
		knows = stop.s_rc != -ENOTSOCK;
	}
	assert_true(knows);
}

TEST(what_is_accepted_is_a_socket)
{
	static const struct call once = { .c_name = "accept", .c_open = open_listener,
					  .c_call = accept_it };
	static const struct call again = { .c_name = "accept, again",
					   .c_open = open_listener,
					   .c_call = accept_again };

	needs_steps();
	accept_anywhere(&once, "o", 60);        /* the accept takes few instructions */
	accept_anywhere(&once, "", test_scale(16, 8));
	accept_anywhere(&again, "o", test_scale(16, 8));
}

TEST(a_call_stays_with_its_file)
{
	static const struct call all[] = {
		{ "read, pipe", open_pipe, read_one, false },
		{ "wait_readable, pipe", open_pipe, wait_for_it, false },
		{ "poll, pipe", open_pipe, poll_in, false },
		{ "read", open_packets, read_one, false },
		{ "read_all", open_packets, read_both, false },
		{ "wait_readable", open_packets, wait_for_it, false },
		{ "poll in", open_packets, poll_in, false },
		{ "write", open_packets, write_one, false },
		{ "write_all", open_packets, write_both, false },
		{ "writev_all", open_packets, write_all_vectors, false },
		{ "recvmsg", open_packets, receive_message, false },
		{ "sendmsg", open_packets, send_message, false },
		{ "wait_writable", open_packets, wait_for_room, false },
		{ "sendmsg, again", open_packets, send_again, false },
		{ "poll out", open_packets, poll_out, false },
		{ "adopt", open_packets, adopt_it, true },
	};

	test_timeout(300);
	needs_steps();
	for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
		close_anywhere(&all[i], "oo");
		if (!all[i].c_never_waits)
			close_anywhere(&all[i], "");
	}
}

/* So does unet_forget(), after which the old file blocks natively. */
TEST(forgotten_as_closed)
{
	static const struct call some[] = {
		{ "read", open_packets, read_one, false },
		{ "write_all", open_packets, write_both, false },
		{ "poll in", open_packets, poll_in, false },
		{ "adopt", open_packets, adopt_it, true },
	};

	test_timeout(300);
	needs_steps();
	forgets = true;
	for (size_t i = 0; i < sizeof some / sizeof *some; i++) {
		close_anywhere(&some[i], "oo");
		if (!some[i].c_never_waits)
			close_anywhere(&some[i], "");
	}
	forgets = false;
}

int main(void)
{
	return test_run_all();
}
