/* SPDX-License-Identifier: MIT */
/*
 * test_close.c: while a native thread is in a call with a descriptor, another one closes
 * it, and the number is used again at once. It is not free while there is a system call
 * with it, and thereafter the call leaves it alone, wherever it was. To be linked with
 * --wrap for what has a __wrap here.
 */
#define _GNU_SOURCE
#include "test.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "../unet.h"
#include "../usync.h"
#include "step.h"

enum { ROUNDS = 5, PATIENCE = 20000000 };       /* ns that a call takes at least */

static atomic_int  watched = -1;
static atomic_bool inside, closing, closed;

ssize_t __real_read(int fd, void *buffer, size_t size);
ssize_t __wrap_read(int fd, void *buffer, size_t size);
ssize_t __wrap_read(int fd, void *buffer, size_t size)
{
	const struct timespec patience = { .tv_nsec = PATIENCE };
	ssize_t n;

	if (fd != watched)
		return __real_read(fd, buffer, size);
	inside = true;
	while (!closing)
		sched_yield();
	nanosleep(&patience, NULL);
	n = __real_read(fd, buffer, size);
	inside = false;
	return n;
}

int __real_close(int fd);
int __wrap_close(int fd);
int __wrap_close(int fd)
{
	if (fd == watched) {
		TEST_TRUE(!inside);
		closed = true;
	}
	return __real_close(fd);
}

/* What there is in the pipe is its, or that it was closed. */
static void *read_byte(void *has_byte)
{
	char byte = 0;
	ssize_t n = unet_read(watched, &byte, 1, USCHED_NEVER);

	TEST_EQUAL(n, has_byte ? 1 : -EBADF);
	TEST_EQUAL(byte, has_byte ? 'a' : 0);
	return NULL;
}

static void close_inside(bool has_byte)
{
	pthread_t reader;
	int fd[2];

	inside = closing = closed = false;
	assert_int_equal(pipe(fd), 0);
	if (has_byte)
		assert_int_equal(write(fd[1], "a", 1), 1);
	watched = fd[0];
	assert_int_equal(pthread_create(&reader, NULL, read_byte, has_byte ? fd : NULL), 0);
	while (!inside)
		sched_yield();
	closing = true;
	assert_int_equal(unet_close(fd[0]), 0);
	assert_true(closed);
	assert_int_equal(pthread_join(reader, NULL), 0);
	watched = -1;
	assert_int_equal(unet_close(fd[1]), 0);
}

static void close_waits_for_who_is_inside(void **state)
{
	(void)state;
	test_timeout(100);
	for (int i = 0; i < ROUNDS; i++) {
		close_inside(true);
		close_inside(false);
	}
}

/* ---- Stopped anywhere ---- */

/*
 * What it gets is in `got', and `w' for each byte that it sends. It is stopped where it
 * would wait, too.
 */
struct call {
	const char *c_name;
	void (*c_open)(int fds[2], const char *what);
	int  (*c_call)(int fd, char *got);
	bool c_never_waits;
};

static struct stop {
	const struct call *s_call;
	int         s_fd;
	size_t      s_left;             /* instructions until it stops */
	bool        s_steps;            /* it is in the call */
	int         s_rc;
	char        s_got[4];
	sem_t       s_ready;            /* it has stopped, or is over */
	atomic_bool s_stopped, s_over, s_swapped;
	atomic_bool s_awaited;          /* who closes waits for it */
} stop;

static _Thread_local bool closes, calls;
static _Thread_local int  failure;      /* of the next call below that can fail */

/* The linker's: this program. */
extern const unsigned char __executable_start, etext;

int __real_sched_yield(void);
int __wrap_sched_yield(void);
int __wrap_sched_yield(void)
{
	if (closes)
		stop.s_awaited = true;
	return __real_sched_yield();
}

int __real_pthread_mutex_lock(pthread_mutex_t *m);
int __wrap_pthread_mutex_lock(pthread_mutex_t *m);
int __wrap_pthread_mutex_lock(pthread_mutex_t *m)
{
	if (closes && pthread_mutex_trylock(m) == 0)
		return 0;
	if (closes)
		stop.s_awaited = true;
	return __real_pthread_mutex_lock(m);
}

int __real_nanosleep(const struct timespec *t, struct timespec *left);

/* Until the number is somebody else's, or cannot be. Not in libc. */
static bool stop_there(const unsigned char *pc)
{
	static const struct timespec moment = { .tv_nsec = 50000 };

	if (stop.s_over || stop.s_stopped)
		return false;
	if (!stop.s_steps || pc < &__executable_start || pc >= &etext || stop.s_left-- > 0)
		return true;
	stop.s_stopped = true;
	sem_post(&stop.s_ready);
	while (!stop.s_swapped && !stop.s_awaited)
		__real_nanosleep(&moment, NULL);
	return false;
}

/* If it was not stopped before. */
static void will_wait(void)
{
	if (calls && !atomic_exchange(&stop.s_stopped, true))
		sem_post(&stop.s_ready);
}

int __wrap_nanosleep(const struct timespec *t, struct timespec *left);
int __wrap_nanosleep(const struct timespec *t, struct timespec *left)
{
	will_wait();
	return __real_nanosleep(t, left);
}

/* Its events are made before. */
static void *call_stopped(void *unused)
{
	int silent = eventfd(0, 0);
	uint64_t n;

	TEST_EQUAL(unet_read(silent, &n, sizeof n, usync_after(1)), -ETIMEDOUT);
	TEST_EQUAL(unet_close(silent), 0);
	calls = true;
	step(stop_there);
	stop.s_steps = true;
	stop.s_rc = stop.s_call->c_call(stop.s_fd, stop.s_got);
	stop.s_steps = false;
	stop.s_over = true;
	will_wait();
	return unused;
}

/* The first of the pair is the descriptor `number', which is free. */
static void open_at(void (*open_pair)(int fds[2], const char *what), int fds[2],
		    int number)
{
	open_pair(fds, "nn");
	if (fds[1] == number) {
		fds[1] = dup(number);
		assert_int_equal(close(number), 0);
	}
	if (fds[0] != number) {
		assert_int_equal(dup2(fds[0], number), number);
		assert_int_equal(close(fds[0]), 0);
		fds[0] = number;
	}
}

/* Or when the call is over. new: what has the number now. */
static void close_after(size_t steps, const struct call *call, const char *what,
			int new[2])
{
	pthread_t native;
	int old[2];

	call->c_open(old, what);
	stop = (struct stop){ .s_call = call, .s_fd = old[0], .s_left = steps };
	assert_int_equal(sem_init(&stop.s_ready, 0, 0), 0);
	assert_int_equal(pthread_create(&native, NULL, call_stopped, NULL), 0);
	while (sem_wait(&stop.s_ready))
		;
	closes = true;
	assert_int_equal(unet_close(old[0]), 0);
	closes = false;
	open_at(call->c_open, new, old[0]);
	stop.s_swapped = true;
	assert_int_equal(pthread_join(native, NULL), 0);
	assert_int_equal(close(old[1]), 0);
}

static bool blocks_natively(int fd)
{
	return !(fcntl(fd, F_GETFL) & O_NONBLOCK);
}

/* What is left in the new one, which nobody but the call can have touched. */
static size_t read_rest(int fd)
{
	char rest;
	size_t n = 0;

	assert_int_equal(unet_adopt(fd), 0);
	assert_false(blocks_natively(fd));
	while (unet_read(fd, &rest, 1, 0) == 1) {
		assert_int_equal(rest, 'n');
		n++;
	}
	return n;
}

/* What its peer has got. */
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

static void close_pair(int fds[2])
{
	assert_int_equal(unet_close(fds[0]), 0);
	assert_int_equal(close(fds[1]), 0);
}

static size_t instructions_of(const struct call *call, const char *what)
{
	int fds[2];

	close_after(SIZE_MAX, call, what, fds);
	close_pair(fds);
	return SIZE_MAX - stop.s_left;          /* it was not stopped */
}

/*
 * A call that is stopped before it knows which file it is for may be for the new one, and
 * never thereafter.
 */
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
			fail_msg("%s of \"%s\", stopped after %zu instructions: %d, \"%s\"",
				 call->c_name, what, n, stop.s_rc, stop.s_got);
		close_pair(new);
	}
	assert_true(knows);
}

static void open_pipe(int fds[2], const char *what)
{
	assert_int_equal(pipe(fds), 0);
	assert_int_equal(write(fds[1], what, strlen(what)), strlen(what));
}

/* Nothing: there is no room to write, either. */
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
	return (int)unet_read(fd, got, 1, USCHED_NEVER);
}

static int read_vector(int fd, char *got)
{
	struct iovec iov[2] = { { got, 1 }, { got + 1, 1 } };

	return (int)unet_readv(fd, iov, 2, USCHED_NEVER);
}

static int receive_one(int fd, char *got)
{
	return (int)unet_recvfrom(fd, got, 1, 0, NULL, USCHED_NEVER);
}

static int read_both(int fd, char *got)
{
	return unet_read_all(fd, got, 2, NULL, USCHED_NEVER);
}

static int write_one(int fd, char *got)
{
	return note_sent(unet_write(fd, "w", 1, USCHED_NEVER), got);
}

static int write_vector(int fd, char *got)
{
	struct iovec iov = { (char[]){ 'w' }, 1 };

	return note_sent(unet_writev(fd, &iov, 1, USCHED_NEVER), got);
}

static int write_both(int fd, char *got)
{
	size_t done;
	int rc = unet_write_all(fd, "ww", 2, &done, USCHED_NEVER);

	note_sent((ssize_t)done, got);
	return rc;
}

static int send_one(int fd, char *got)
{
	return note_sent(unet_sendto(fd, "w", 1, 0, NULL, USCHED_NEVER), got);
}

/* The address is of no account; but its family has it tried again and again. */
static int send_again(int fd, char *got)
{
	struct unet_addr to = { .a_size = sizeof(sa_family_t) };

	to.a_sockaddr.ss_family = AF_UNIX;
	failure = EAGAIN;
	return note_sent(unet_sendto(fd, "w", 1, 0, &to, USCHED_NEVER), got);
}

static int wait_for_it(int fd, char *got)
{
	(void)got;
	return unet_wait_readable(fd, USCHED_NEVER);
}

static int poll_for(int fd, short events)
{
	struct pollfd one = { fd, events, 0 };
	int rc = unet_poll(&one, 1, USCHED_NEVER);

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
	return unet_adopt(fd);
}

/* Of who is stopped: a byte at a time. */
ssize_t __real_send(int fd, const void *data, size_t size, int flags);
ssize_t __wrap_send(int fd, const void *data, size_t size, int flags);
ssize_t __wrap_send(int fd, const void *data, size_t size, int flags)
{
	return __real_send(fd, data, calls ? 1 : size, flags);
}

static bool fails(void)
{
	errno = failure;
	failure = 0;
	return errno != 0;
}

ssize_t __real_sendto(int fd, const void *data, size_t size, int flags,
		      const struct sockaddr *to, socklen_t to_size);
ssize_t __wrap_sendto(int fd, const void *data, size_t size, int flags,
		      const struct sockaddr *to, socklen_t to_size);
ssize_t __wrap_sendto(int fd, const void *data, size_t size, int flags,
		      const struct sockaddr *to, socklen_t to_size)
{
	return fails() ? -1 : __real_sendto(fd, data, size, flags, to, to_size);
}

int __real_accept4(int fd, struct sockaddr *peer, socklen_t *size, int flags);
int __wrap_accept4(int fd, struct sockaddr *peer, socklen_t *size, int flags);
int __wrap_accept4(int fd, struct sockaddr *peer, socklen_t *size, int flags)
{
	return fails() ? -1 : __real_accept4(fd, peer, size, flags);
}

static void has_no_steps(void)
{
	if (test_is_sanitized())
		skip();                 /* what they add would be stepped through as well */
	stop = (struct stop){ 0 };
	stop.s_over = true;
	step(stop_there);
	if (stepper.s_steps > 0)
		return;
	print_message("no single steps here\n");
	skip();
}

/* What is accepted, and what has the listener's number next: it is no socket. */
static void open_listener(int fds[2], const char *what)
{
	struct sockaddr_un name = { .sun_family = AF_UNIX };
	socklen_t size = sizeof name.sun_family;

	if (what[0] == 'n') {
		fds[0] = eventfd(0, 0);
		fds[1] = dup(fds[0]);
		assert_int_equal(unet_adopt(fds[0]), 0);
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
	assert_int_equal(unet_adopt(fds[0]), 0);
}

static int accept_it(int fd, char *got)
{
	(void)got;
	return unet_accept(fd, NULL, USCHED_NEVER);
}

static int accept_again(int fd, char *got)
{
	failure = EMFILE;
	return accept_it(fd, got);
}

/* SIGPIPE would tell if it was not taken for one. */
static void use_accepted(int fd)
{
	assert_int_equal(unet_write(fd, "x", 1, USCHED_NEVER), -EPIPE);
	assert_int_equal(unet_close(fd), 0);
}

/* Who knows which file it is for does not ask another. */
static void accept_anywhere(const struct call *call, const char *what, size_t stops)
{
	size_t all = instructions_of(call, what);
	bool knows = false;

	if (stop.s_rc >= 0)
		use_accepted(stop.s_rc);
	for (size_t n = 0; n < all; n += all / stops + 1) {
		int new[2];

		close_after(n, call, what, new);
		close_pair(new);
		if (stop.s_rc >= 0)
			use_accepted(stop.s_rc);
		else if (stop.s_rc != -EBADF && (knows || stop.s_rc != -ENOTSOCK))
			fail_msg("%s of \"%s\", stopped after %zu instructions: %d",
				 call->c_name, what, n, stop.s_rc);
		knows = stop.s_rc != -ENOTSOCK;
	}
	assert_true(knows);
}

static void what_is_accepted_is_a_socket(void **state)
{
	static const struct call once = { "accept", open_listener, accept_it, false };
	static const struct call again = { "accept, again", open_listener, accept_again, false };

	(void)state;
	test_timeout(100);
	has_no_steps();
	accept_anywhere(&once, "o", 60);        /* it is accepted a few instructions long */
	accept_anywhere(&once, "", test_scale(16, 8));
	accept_anywhere(&again, "o", test_scale(16, 8));
}

static void a_call_stays_with_its_file(void **state)
{
	static const struct call all[] = {
		{ "read, pipe", open_pipe, read_one, false },
		{ "wait_readable, pipe", open_pipe, wait_for_it, false },
		{ "poll, pipe", open_pipe, poll_in, false },
		{ "read", open_packets, read_one, false },
		{ "readv", open_packets, read_vector, false },
		{ "recvfrom", open_packets, receive_one, false },
		{ "read_all", open_packets, read_both, false },
		{ "wait_readable", open_packets, wait_for_it, false },
		{ "poll in", open_packets, poll_in, false },
		{ "write", open_packets, write_one, false },
		{ "writev", open_packets, write_vector, false },
		{ "write_all", open_packets, write_both, false },
		{ "sendto", open_packets, send_one, false },
		{ "sendto, again", open_packets, send_again, false },
		{ "poll out", open_packets, poll_out, false },
		{ "adopt", open_packets, adopt_it, true },
	};

	(void)state;
	test_timeout(300);
	has_no_steps();
	for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
		close_anywhere(&all[i], "oo");
		if (!all[i].c_never_waits)
			close_anywhere(&all[i], "");
	}
}

/* ---- Told of the close, and late ---- */

static _Thread_local bool polls;
static atomic_bool asleep, go, looks, told;

static void come_late(void)
{
	while (polls && !go)
		__real_sched_yield();
}

int __real_epoll_wait(int fd, struct epoll_event *events, int max, int timeout);
int __wrap_epoll_wait(int fd, struct epoll_event *events, int max, int timeout);
int __wrap_epoll_wait(int fd, struct epoll_event *events, int max, int timeout)
{
	int n;

	asleep = asleep || polls;
	will_wait();
	n = __real_epoll_wait(fd, events, max, timeout);
	come_late();
	return n;
}

/* epoll_pwait2(), which has no function in old C libraries. */
long __real_syscall(long number, ...);
long __wrap_syscall(long number, ...);
long __wrap_syscall(long number, ...)
{
	va_list args;
	long a[6], n;

	va_start(args, number);
	for (size_t i = 0; i < 6; i++)
		a[i] = va_arg(args, long);
	va_end(args);
	asleep = asleep || polls;
	will_wait();
	n = __real_syscall(number, a[0], a[1], a[2], a[3], a[4], a[5]);
	come_late();
	return n;
}

int __real_poll(struct pollfd *fds, nfds_t n, int timeout);
int __wrap_poll(struct pollfd *fds, nfds_t n, int timeout);
int __wrap_poll(struct pollfd *fds, nfds_t n, int timeout)
{
	const struct timespec patience = { .tv_nsec = PATIENCE };

	if (polls && go) {
		looks = true;
		nanosleep(&patience, NULL);
	}
	return __real_poll(fds, n, timeout);
}

static void *poll_until_closed(void *fd)
{
	struct pollfd one = { *(int *)fd, POLLIN, 0 };

	polls = true;
	TEST_EQUAL(unet_poll(&one, 1, USCHED_NEVER), 1);
	TEST_EQUAL(one.revents, POLLNVAL);
	told = true;
	return NULL;
}

static void read_nothing(int fd)
{
	char byte;

	assert_int_equal(unet_read(fd, &byte, 1, usync_after(PATIENCE)), -ETIMEDOUT);
}

/*
 * Who has the number next has waited for it before; then something comes, and its events
 * tell. The other one, who finds out only now, must not make it wait again.
 */
static void nobody_forgets_for_the_next_owner(void **state)
{
	pthread_t native;
	int fds[2], silent[2];
	char bytes[2];

	(void)state;
	test_timeout(100);
	open_pipe(fds, "");
	open_pipe(silent, "");
	assert_int_equal(pthread_create(&native, NULL, poll_until_closed, fds), 0);
	while (!asleep)
		__real_sched_yield();
	close_pair(fds);
	open_at(open_pipe, fds, fds[0]);
	assert_int_equal(unet_read(fds[0], bytes, 2, USCHED_NEVER), 2);
	read_nothing(fds[0]);
	assert_int_equal(write(fds[1], "x", 1), 1);
	read_nothing(silent[0]);
	go = true;
	while (!looks && !told)
		__real_sched_yield();
	assert_int_equal(unet_read(fds[0], bytes, 1, USCHED_NEVER), 1);
	assert_int_equal(pthread_join(native, NULL), 0);
	close_pair(fds);
	close_pair(silent);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(close_waits_for_who_is_inside),
		cmocka_unit_test(a_call_stays_with_its_file),
		cmocka_unit_test(what_is_accepted_is_a_socket),
		cmocka_unit_test(nobody_forgets_for_the_next_owner),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
