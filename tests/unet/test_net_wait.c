/* SPDX-License-Identifier: MIT */
/*
 * test_net_wait.c: every call of unet.h that waits: deadlines, cancel, other waiters,
 * native threads that wait; connections to full queues; unet_poll(); how deep a blocked
 * thread is.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE             /* POLLRDHUP */
#endif
#include "../help/netop.h"

#include <netinet/in.h>
#include <sys/eventfd.h>

#include "../../src/core/direction.h"

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

/* While it waits, and before. */
static void is_cancelled(const struct op *op)
{
	struct ustack *u;

	make_place(op);
	for (int i = 0; i < 2; i++) {
		u = go_op(i ? usync_after(3600 * USYNC_SECOND) : NEVER);
		await_op(u);
		TEST_EQUAL(ustack_cancel(u), 0);
		end_op(u, -ECANCELED);
	}
	u = go_op(NEVER);
	TEST_EQUAL(ustack_cancel(u), 0);
	end_op(u, -ECANCELED);
	works();
	unmake_place(false);
}

/* unet_wait() may return early. */
static ssize_t call_until_error(struct place *p, int64_t deadline)
{
	ssize_t rc;

	while ((rc = p->p_op->o_call(p, deadline)) == 0)
		;
	return rc;
}

static void wait_for_cancel(void *deadline)
{
	struct place mine = { .p_op = place.p_op, .p_fds = { place.p_fds[0] } };

	memset(mine.p_buffer, 1, sizeof mine.p_buffer);
	op_equal(call_until_error(&mine, *(int64_t *)deadline), -ECANCELED);
}

/* Others wait behind it, up to a deadline or a cancel. The first one keeps waiting. */
static void others_wait(const struct op *op)
{
	static int64_t deadline;
	struct ustack *u, *v;
	ssize_t first;

	make_place(op);
	u = go_op(NEVER);
	await_op(u);
	op_equal(op->o_call(&place, 0), -ETIMEDOUT);
	op_equal(op->o_call(&place, usync_after(MILLI)), -ETIMEDOUT);
	for (int i = 0; i < 2; i++) {
		deadline = i ? usync_after(3600 * USYNC_SECOND) : NEVER;
		v = go(wait_for_cancel, &deadline);
		nap(1);
		TEST_EQUAL(ustack_cancel(v), 0);
		join(v);
	}
	op_equal(place.p_returned, 0);
	op->o_ready(&place);
	join(u);
	first = place.p_rc;
	op_equal(first >= op->o_least, 1);
	unready_place();
	works();
	unmake_place(false);
}

static void wait_for_close(void *deadline)
{
	struct place mine = { .p_op = place.p_op, .p_fds = { place.p_fds[0] } };

	memset(mine.p_buffer, 1, sizeof mine.p_buffer);
	op_equal(call_until_error(&mine, *(int64_t *)deadline), -EBADF);
}

/* All of them are told. */
static void others_closed(const struct op *op)
{
	static int64_t deadline, never = NEVER;
	struct ustack *waiters[3];

	make_place(op);
	deadline = usync_after(3600 * USYNC_SECOND);
	for (size_t i = 0; i < COUNT(waiters); i++)
		waiters[i] = go(wait_for_close, i == 1 ? &deadline : &never);
	for (size_t i = 0; i < COUNT(waiters); i++)
		await_waiting(waiters[i]);
	nap(1);
	op_equal(unet_close(place.p_fds[0]), 0);
	for (size_t i = 0; i < COUNT(waiters); i++)
		join(waiters[i]);
	unmake_place(true);
}

/* ---- Native threads ---- */

/* A native thread waits; the calling thread ends the wait, before or after it began. */
static void native_waits(const struct op *op)
{
	pthread_t native;

	make_place(op);
	op_equal(op->o_call(&place, 0), -ETIMEDOUT);
	for (int i = 0; i < 3; i++) {
		place.p_deadline = i == 0 ? usync_after(2 * MILLI) : NEVER;
		native = go_native(call_op, NULL);
		sleep_native(1);
		if (i == 1)
			op->o_ready(&place);
		if (i == 2)
			op_equal(unet_close(place.p_fds[0]), 0);
		join_native(native);
		if (i != 1)
			op_equal(place.p_rc, i == 0 ? -ETIMEDOUT : -EBADF);
		else if (place.p_rc < op->o_least)
			op_equal(place.p_rc, op->o_least);
		if (i == 1)
			unready_place();
	}
	unmake_place(true);
}

/* With a pthread_cancel() that comes during the call, or is pending all the time. */
static void call_cancelled(void *pending)
{
	int before;

	if (pending)
		pthread_cancel(pthread_self());
	call_op(NULL);
	if (place.p_rc >= 0 && pending)
		op_equal(unet_close(place.p_fds[0]), 0);
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before);
	op_equal(before, PTHREAD_CANCEL_ENABLE);
}

static void native_is_cancelled(const struct op *op)
{
	pthread_t native;

	make_place(op);
	place.p_deadline = NEVER;
	for (int i = 0; i < 2; i++) {
		place.p_returned = 0;
		native = go_native(call_cancelled, i ? &place : NULL);
		sleep_native(1);
		if (i == 0)
			pthread_cancel(native);
		sleep_native(1);
		op_equal(place.p_returned, 0);
		op->o_ready(&place);
		join_native(native);
		op_equal(place.p_returned, 1);
		if (place.p_rc < op->o_least)
			op_equal(place.p_rc, op->o_least);
		if (i == 0)
			unready_place();
	}
	unmake_place(true);
}

/* ---- Listeners with a full queue ---- */

enum { QUEUED = 4 };

static ssize_t call_connect(struct place *p, int64_t deadline)
{
	struct unet_addr a = bound(p->p_fds[0]);
	int fd = unet_connect(&a, deadline);

	if (fd >= 0)
		TEST_EQUAL(unet_close(fd), 0);
	return fd < 0 ? fd : 0;
}

static ssize_t call_connect_fd(struct place *p, int64_t deadline)
{
	struct unet_addr a = bound(p->p_fds[0]);
	int fd = socket(a.ad_sockaddr.ss_family, SOCK_STREAM, 0);
	int rc = unet__connect(fd, &a, deadline);

	TEST_EQUAL(unet_close(fd), 0);          /* it is open all the same */
	return rc;
}

/*
 * The kernel queues connections late. A listener without a backlog is full as soon as it
 * is readable. TCP_INFO has the length of the queue, and qemu gives four bytes of it.
 */
static void await_full(int fd)
{
	struct pollfd p = { fd, POLLIN, 0 };

	TEST_EQUAL(poll(&p, 1, -1), 1);
}

/* Fills the queue of `fd' with connections. */
static void fill_queue(int fd, int queued[QUEUED])
{
	struct unet_addr a = bound(fd);

	for (int i = 0; i < QUEUED; i++) {
		queued[i] = socket(a.ad_sockaddr.ss_family, SOCK_STREAM, 0);
		do_not_wait(queued[i]);
		if (connect(queued[i], sockaddr_of(&a), a.ad_size) < 0)
			TEST_TRUE(errno == EINPROGRESS || errno == EAGAIN);
	}
	await_full(fd);
}

/* Until the call has connected: the kernel serves others first, and retries seldom. */
static void accept_queue(struct place *p)
{
	int fd;

	do_not_wait(p->p_fds[0]);
	while (!p->p_returned) {
		while ((fd = accept(p->p_fds[0], NULL, NULL)) >= 0)
			close(fd);
		nap(1);
	}
}

static void listen_at(const char *text, int fds[2])
{
	struct unet_addr a = address(text);

	fds[0] = unet_listen(&a, 1, 0);
	TEST_EQUAL(listen(fds[0], 0), 0);
	fds[1] = -1;
}

static void make_listener(int fds[2])
{
	listen_at(local(), fds);
}

static void make_unix_listener(int fds[2])
{
	char name[64];

	snprintf(name, sizeof name, "@usched-full-%ld", (long)getpid());
	listen_at(name, fds);
}

/* A call that gives up leaves no descriptor. Another one waits for room. */
static void connect_waits(const struct op *op)
{
	int queued[QUEUED];
	struct ustack *u;
	size_t before;

	make_place(op);
	fill_queue(place.p_fds[0], queued);
	before = test_descriptors();
	for (int i = 0; i < 4; i++)
		end_op(go_op(i % 2 ? 0 : usync_after(2 * MILLI)), -ETIMEDOUT);
	for (int i = 0; i < 2; i++) {
		u = go_op(NEVER);
		await_op(u);
		op_equal(place.p_returned, 0);
		i == 0 ? TEST_EQUAL(ustack_cancel(u), 0) : op->o_ready(&place);
		end_op(u, i == 0 ? -ECANCELED : 0);
		TEST_EQUAL(test_descriptors(), before);
	}
	for (int i = 0; i < QUEUED; i++)
		close(queued[i]);
	unmake_place(false);
}

static void connect_waits_all(void)
{
	static const struct op connects[] = {
		{ "connect", make_listener, call_connect, accept_queue, 0 },
		{ "connect, UNIX", make_unix_listener, call_connect, accept_queue, 0 },
		{ "connect_fd", make_listener, call_connect_fd, accept_queue, 0 },
		{ "connect_fd, UNIX", make_unix_listener, call_connect_fd, accept_queue,
		  0 },
	};

	all_have_events();
	for (size_t i = 0; i < COUNT(connects); i++)
		connect_waits(&connects[i]);
}

/* ---- Polls ---- */

struct polled {
	struct pollfd  p_fds[8];
	size_t         p_n;
	int            p_rc;
	atomic_int     p_returned;
};

/* The array is on the stack, so the thread itself must make the system call. */
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

/* Descriptors that are ready: the same answers as from poll(2). */
NET_TEST(poll_ready)
{
	struct pollfd mine[7], right[7];
	int fds[2], gone[2], closed;

	unix_pair(fds);
	unix_pair(gone);
	TEST_EQUAL(close(gone[1]), 0);
	put(fds[1], "x");
	closed = gone[1];
	right[0] = (struct pollfd){ fds[0], POLLIN, 0 };
	right[1] = (struct pollfd){ -1, POLLIN, 77 };
	right[2] = (struct pollfd){ fds[0], POLLIN | POLLOUT, 0 };      /* twice */
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

NET_TEST(poll_errors)
{
	static struct pollfd many[65537];
	static struct polled p;
	struct ustack *u;
	int64_t deadline = usync_after(2 * MILLI);

	for (size_t i = 0; i < COUNT(many); i++)
		many[i] = (struct pollfd){ -1, POLLIN, 7 };
	TEST_EQUAL(unet_poll(many, 65537, 0), -EINVAL);
	TEST_EQUAL(unet_poll(many, 200, 0), -ETIMEDOUT);        /* below RLIMIT_NOFILE */
	TEST_EQUAL(unet_poll(many, 200, deadline), -ETIMEDOUT);
	TEST_TRUE(uevents_now() >= deadline);
	TEST_EQUAL(many[199].revents, 0);
	TEST_EQUAL(unet_poll(NULL, 0, 0), -ETIMEDOUT);
	TEST_EQUAL(unet_poll(NULL, 0, usync_after(MILLI)), -ETIMEDOUT);
	p = (struct polled){ .p_n = 0 };
	u = go_poll(&p);
	TEST_EQUAL(ustack_cancel(u), 0);
	join(u);
	TEST_EQUAL(p.p_rc, -ECANCELED);
}

/* Three descriptors, each twice: one after the other becomes ready. */
NET_TEST(poll_each)
{
	static struct polled p;
	int fds[3][2];

	for (int i = 0; i < 3; i++)
		i == 1 ? TEST_EQUAL(pipe(fds[i]), 0) : unix_pair(fds[i]);
	for (int i = 0; i < 3; i++) {
		struct ustack *u;

		p = (struct polled){ .p_n = 8 };
		for (int k = 0; k < 8; k++)
			p.p_fds[k] = (struct pollfd){ k < 6 ? fds[k % 3][0] : -1,
						      POLLIN, 7 };
		u = go_poll(&p);
		put(fds[i][1], "x");
		join(u);
		TEST_EQUAL(p.p_rc, 2);
		for (int k = 0; k < 8; k++)
			TEST_EQUAL(p.p_fds[k].revents, k < 6 && k % 3 == i ? POLLIN : 0);
		receive(fds[i][0], "x");
	}
	for (int i = 0; i < 3; i++)
		close_both(fds[i]);
}

/* During the poll the descriptor is closed, or its peer, or the writer of a pipe. */
NET_TEST(poll_closed)
{
	static struct polled p;
	struct ustack *u;
	int fds[2], other[2];

	for (int i = 0; i < 3; i++) {
		i < 2 ? unix_pair(fds) : TEST_EQUAL(pipe(fds), 0);
		unix_pair(other);
		p = (struct polled){ .p_n = 3 };
		p.p_fds[0] = (struct pollfd){ other[0], POLLIN, 0 };
		p.p_fds[1] = (struct pollfd){ fds[0], i < 2 ? POLLIN : 0, 0 };
		p.p_fds[2] = (struct pollfd){ -3, 0, 0 };
		u = go_poll(&p);
		i == 0 ? TEST_EQUAL(unet_close(fds[0]), 0) : TEST_EQUAL(close(fds[1]), 0);
		join(u);
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

static atomic_int transfers;

static void read_one(void *fds)
{
	char c;

	TEST_EQUAL(unet_read(((int *)fds)[0], &c, 1, NEVER), 1);
	transfers++;
}

static void write_one(void *fds)
{
	TEST_EQUAL(unet_write(((int *)fds)[0], "x", 1, NEVER), 1);
	transfers++;
}

/* Polls wait beside readers and writers, and take nothing from them. */
NET_TEST(poll_counts)
{
	static struct polled in, out, both;
	static int fds[2];
	struct ustack *u[5];

	unix_pair(fds);
	fill(fds[0]);
	transfers = 0;
	in = (struct polled){ .p_n = 1, .p_fds = { { fds[0], POLLIN, 0 } } };
	out = (struct polled){ .p_n = 1, .p_fds = { { fds[0], POLLOUT, 0 } } };
	both = (struct polled){ .p_n = 1, .p_fds = { { fds[0], POLLIN | POLLOUT, 0 } } };
	u[0] = go(poll_them, &in);
	u[1] = go(read_one, fds);
	u[2] = go(poll_them, &both);
	u[3] = go(write_one, fds);
	u[4] = go(poll_them, &out);
	nap(3);
	TEST_EQUAL(in.p_returned + out.p_returned + both.p_returned + transfers, 0);
	drain(fds[1]);
	join(u[2]);
	join(u[3]);
	join(u[4]);
	TEST_EQUAL(out.p_fds[0].revents, POLLOUT);
	TEST_EQUAL(both.p_fds[0].revents, POLLOUT);
	TEST_EQUAL(in.p_returned, 0);
	TEST_EQUAL(transfers, 1);
	put(fds[1], "yy");
	join(u[0]);
	join(u[1]);
	TEST_EQUAL(in.p_fds[0].revents, POLLIN);
	TEST_EQUAL(transfers, 2);
	receive(fds[0], "y");
	close_both(fds);
}

enum { BESIDE = 100 };

/*
 * A native thread polls two descriptors. The first is closed while it enters the second:
 * for ThreadSanitizer.
 */
static void poll_two(void *fds)
{
	struct pollfd p[2] = { { ((int *)fds)[0], POLLIN, 0 },
			       { ((int *)fds)[2], POLLIN, 0 } };

	TEST_TRUE(unet_poll(p, 2, NEVER) > 0);
	TEST_EQUAL(p[0].revents, POLLNVAL);
}

static void poll_races(void)
{
	static int fds[4];
	pthread_t native;

	unix_pair(fds + 2);
	for (size_t i = 0; i < test_scale(1000, 40); i++) {
		unix_pair(fds);
		TEST_EQUAL(unet__adopt_fd(fds[0]), 0);
		native = go_native(poll_two, fds);
		for (volatile size_t k = i % 40 * 1000; k > 0; k--)
			;
		TEST_EQUAL(unet_close(fds[0]), 0);
		join_native(native);
		close(fds[1]);
	}
	close_both(fds + 2);
}

static void poll_for_room(void *arg)
{
	struct pollfd p = { *(int *)arg, POLLOUT, 0 };

	for (int i = 0; i < BESIDE; i++)
		TEST_EQUAL(unet_poll(&p, 1, NEVER), 1);
}

/* A poll for room beside a reader, maybe on another processor. */
NET_TEST(poll_beside)
{
	static int fds[2];
	struct ustack *u;

	unix_pair(fds);
	u = go(poll_for_room, &fds[0]);
	for (int i = 0; i < BESIDE; i++) {
		put(fds[1], "x");
		receive(fds[0], "x");
	}
	join(u);
	close_both(fds);
}

/*
 * Bytes beyond ustack_wait(). On s390 each frame has 160 for what it calls, and on
 * AArch64 each saves registers in pairs.
 */
#if defined(__s390__)
enum { SHALLOW = 256 + 2 * 160 };
#elif defined(__aarch64__)
enum { SHALLOW = 256 + 64 };
#else
enum { SHALLOW = 256 };
#endif

static char *called_at;                 /* where the frame of shallow_call() begins */
static int shallow_fd;

static void by_wait(void)
{
	TEST_EQUAL(ustack_wait(), 0);
}

static void by_wait_readable(void)
{
	TEST_EQUAL(unet_wait(shallow_fd, POLLIN, NEVER), 0);
}

static void by_read(void)
{
	static char c;

	TEST_EQUAL(unet_read(shallow_fd, &c, 1, NEVER), 1);
}

static void by_read_all(void)
{
	static char c;

	TEST_EQUAL(unet_read_all(shallow_fd, &c, 1, NULL, NEVER), 0);
}

static void shallow_call(void *call)
{
	called_at = __builtin_frame_address(0);
	(*(void (**)(void))call)();
}

/* The bytes between shallow_call() and the top of the thread, which blocks in `call'. */
static long depth_in(void (*call)(void), int fds[2])
{
	struct ustack *u = go(shallow_call, &call);
	long deep;

	if (call == by_wait)
		nap(1);
	else
		await_waiting(u);
	deep = (long)stack_depth(called_at, u->u_top);
	if (call == by_wait)
		TEST_EQUAL(ustack_wake(u), 0);
	else
		put(fds[1], "x");
	join(u);
	if (call == by_wait_readable)
		receive(fds[0], "x");
	return deep;
}

/* A blocked thread's image holds little of this library. */
static void frames_are_shallow(void)
{
	void (*const calls[])(void) = { by_wait_readable, by_read, by_read_all };
	int fds[2];
	long plain;

	unix_pair(fds);
	shallow_fd = fds[0];
	plain = depth_in(by_wait, fds);
	for (size_t i = 0; i < COUNT(calls); i++)
		TEST_EQUAL(depth_in(calls[i], fds) - plain < SHALLOW, 1);
	close_both(fds);
}

static void run_shallow_case(void **state)
{
#if !defined(__OPTIMIZE__) || defined(__OPTIMIZE_SIZE__) || defined(__SSP_ALL__) \
	|| defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) \
	|| defined(__clang__) || defined(USCHED_CHECK) \
	|| defined(__hppa__)            /* frames of 64 bytes and more */
	skip_because("the compiler does not save frames");
#endif
	run_calm_case(state);
}

/* ---- Descriptors that move ---- */

/* The epoll instances of this process that have the descriptor. */
static size_t count_watchers(int fd)
{
	char path[64], link[64], line[256];
	size_t n = 0;

	for (int i = 0; i < 1024; i++) {
		int number;
		ssize_t size;
		FILE *f;

		snprintf(path, sizeof path, "/proc/self/fd/%d", i);
		size = readlink(path, link, sizeof link - 1);
		link[size > 0 ? size : 0] = '\0';
		snprintf(path, sizeof path, "/proc/self/fdinfo/%d", i);
		f = strstr(link, "[eventpoll]") ? fopen(path, "r") : NULL;
		while (f && fgets(line, sizeof line, f))
			n += sscanf(line, "tfd: %d", &number) == 1 && number == fd;
		if (f)
			fclose(f);
	}
	return n;
}

enum { MOVERS = 32 };

static struct mover {
	int              m_fd;          /* -1: it is not to read */
	struct usync_sem m_go;
	struct usched   *m_sched;
	atomic_int       m_read;
	struct ustack   *m_thread;
} movers[MOVERS];

/* Reads bytes until an 'e'. */
static void read_bytes(void *mover)
{
	struct mover *m = mover;
	char c = 0;

	m->m_sched = ustack_sched(ustack_self());
	m->m_read = 0;
	TEST_EQUAL(usync_sem_wait(&m->m_go, NEVER), 0);
	while (m->m_fd >= 0 && c != 'e') {
		TEST_EQUAL(unet_read(m->m_fd, &c, 1, NEVER), 1);
		m->m_read++;
	}
}

static void begin_mover(struct mover *m, int fd)
{
	m->m_fd = fd;
	TEST_EQUAL(usync_sem_post(&m->m_go), 0);
}

static void send_byte(struct mover *m, int to, const char *byte)
{
	int before = m->m_read;

	nap(1);                                 /* so that it waits, most likely */
	put(to, byte);
	while (m->m_read == before)
		nap(1);
}

/* The first, and one on another processor. */
static struct mover *start_movers(void)
{
	struct mover *other = NULL;

	for (int i = 0; i < MOVERS; i++) {
		movers[i] = (struct mover){ .m_read = -1 };
		movers[i].m_thread = go(read_bytes, &movers[i]);
		while (movers[i].m_read < 0)
			nap(1);
		if (movers[i].m_sched != movers[0].m_sched)
			other = &movers[i];
	}
	for (int i = 1; i < MOVERS; i++)
		if (&movers[i] != other)
			begin_mover(&movers[i], -1);
	return other;
}

/* A processor that does not read the descriptor any more leaves it. */
static void moves(void)
{
	struct mover *other;
	int fds[2];

	if (!over->o_procs)                     /* one processor */
		return;
	unix_pair(fds);
	other = start_movers();
	TEST_TRUE(other != NULL);
	begin_mover(&movers[0], fds[0]);
	do
		send_byte(&movers[0], fds[1], "x");
	while (count_watchers(fds[0]) == 0);
	send_byte(&movers[0], fds[1], "e");
	TEST_EQUAL(count_watchers(fds[0]), 1);
	begin_mover(other, fds[0]);
	for (int i = 0; i < 1000 && (i < 20 || count_watchers(fds[0]) != 1); i++)
		send_byte(other, fds[1], "x");
	TEST_EQUAL(count_watchers(fds[0]), 1);
	send_byte(other, fds[1], "e");
	for (int i = 0; i < MOVERS; i++)
		join(movers[i].m_thread);
	close_both(fds);
}

enum { READERS = 5 };

static int watched;
static struct uwaiter *_Atomic readers[READERS];

static void read_twice(void *i)
{
	char c[2];

	readers[(uintptr_t)i] = uwait_self();
	TEST_EQUAL(unet_read_all(watched, c, 2, NULL, NEVER), -EBADF);
}

/* One that came after the descriptor was forgotten would wait for ever. */
static void await_readers(void)
{
	for (int i = 0; i < READERS; i++)
		while (!readers[i]
		       || !__atomic_load_n(&readers[i]->w_state, __ATOMIC_ACQUIRE))
			nap(1);
}

/* After it no processor or native thread watches it. */
static void forgotten(void)
{
	struct ustack *u[READERS];
	pthread_t native;
	int fds[2];

	unix_pair(fds);
	watched = fds[0];
	for (int i = 0; i < READERS; i++)
		readers[i] = NULL;
	native = go_native(read_twice, NULL);
	for (uintptr_t i = 1; i < READERS; i++)
		u[i] = go(read_twice, (void *)i);
	await_readers();
	TEST_TRUE(count_watchers(fds[0]) > 0);
	TEST_EQUAL(unet_forget(fds[0]), 0);
	TEST_EQUAL(count_watchers(fds[0]), 0);
	for (int i = 1; i < READERS; i++)
		join(u[i]);
	join_native(native);
	TEST_EQUAL(close(fds[0]) + close(fds[1]), 0);
}

/* ---- What a wait looks for ---- */

/* There is input, and it waits for urgent data: nothing ends its sleep. */
static void poll_sleeps(void)
{
	struct pollfd one = { .events = POLLPRI };
	const struct uevents *e;
	uint64_t before;
	int fds[2];

	unix_pair(fds);
	put(fds[1], "x");
	one.fd = fds[0];
	TEST_EQUAL(unet_poll(&one, 1, usync_after(MILLI)), -ETIMEDOUT);
	e = ustack_sched(ustack_self())->s_events;
	before = e->e_ready;
	TEST_EQUAL(unet_poll(&one, 1, usync_after(20 * MILLI)), -ETIMEDOUT);
	TEST_TRUE(e->e_ready - before < 5);
	receive(fds[0], "x");
	close_both(fds);
}

static int looked_at = -1, closed_then = -1;
static _Atomic unsigned looks;

int __real_poll(struct pollfd *fds, nfds_t n, int ms);
int __wrap_poll(struct pollfd *fds, nfds_t n, int ms);

int __wrap_poll(struct pollfd *fds, nfds_t n, int ms)
{
	bool look = n == 1 && fds->fd == looked_at && ms == 0;
	int rc = __real_poll(fds, n, ms);

	looks += look;
	if (look && closed_then >= 0) {
		TEST_EQUAL(close(closed_then), 0);
		closed_then = -1;
	}
	return rc;
}

/*
 * What poll(2) did not find is not asked for again before the wait, but once after it:
 * input whose edge nothing has taken in yet is found at a deadline that has passed.
 */
static void poll_looks(void)
{
	struct pollfd one = { .events = POLLIN };
	int fds[2];

	unix_pair(fds);
	one.fd = looked_at = fds[0];
	looks = 0;
	TEST_EQUAL(unet_poll(&one, 1, 0), -ETIMEDOUT);
	TEST_EQUAL(looks, 1);
	TEST_EQUAL(unet_poll(&one, 1, usync_after(MILLI)), -ETIMEDOUT);
	TEST_EQUAL(looks, 2);
	put(fds[1], "x");
	TEST_EQUAL(unet_poll(&one, 1, 1), 1);
	TEST_EQUAL(one.revents, POLLIN);
	TEST_EQUAL(unet_poll(&one, 1, NEVER), 1);
	receive(fds[0], "x");
	looked_at = -1;
	close_both(fds);
}

/* The reader of a full pipe goes between the look and the wait: that is no wait. */
NET_TEST(reader_goes)
{
	struct pollfd one = { .events = POLLOUT };
	int fds[2];

	for (int i = 0; i < 2; i++) {
		TEST_EQUAL(pipe(fds), 0);
		fill(fds[1]);
		one.fd = looked_at = fds[1];
		closed_then = fds[0];
		if (i == 0)
			TEST_EQUAL(unet_wait(fds[1], POLLOUT, NEVER), 0);
		else
			TEST_EQUAL(unet_poll(&one, 1, NEVER), 1);
		TEST_EQUAL(closed_then, -1);
		looked_at = -1;
		TEST_EQUAL(unet_close(fds[1]), 0);
	}
}

/* Of two, it keeps in mind that one has no input. */
static void poll_tells(void)
{
	struct pollfd both[2] = { { .events = POLLIN }, { .events = POLLIN } };
	int a[2], b[2];

	unix_pair(a);
	unix_pair(b);
	both[0].fd = a[0], both[1].fd = looked_at = b[0];
	put(a[1], "x");
	TEST_EQUAL(unet_poll(both, 2, NEVER), 1);
	TEST_EQUAL(both[0].revents, POLLIN);
	receive(a[0], "x");
	looks = 0;
	TEST_EQUAL(unet_poll(&both[1], 1, usync_after(MILLI)), -ETIMEDOUT);
	TEST_EQUAL(looks, 1);
	looked_at = -1;
	close_both(a);
	close_both(b);
}

/* Of urgent data and of others than sockets and pipes it keeps nothing in mind. */
static void poll_looks_always(void)
{
	struct pollfd one = { .events = POLLIN };
	int fds[2], event = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);

	tcp_pair(fds);
	one.fd = fds[0];
	TEST_EQUAL(unet_poll(&one, 1, usync_after(MILLI)), -ETIMEDOUT);
	TEST_EQUAL(send(fds[1], "!", 1, MSG_OOB), 1);
	nap(2);                                 /* the edge is taken in */
	TEST_EQUAL(unet_poll(&one, 1, 0), -ETIMEDOUT);
	one.events |= POLLPRI;
	TEST_EQUAL(unet_poll(&one, 1, NEVER), 1);
	TEST_EQUAL(one.revents, POLLPRI);
	close_both(fds);

	looks = 0;
	one = (struct pollfd){ event, POLLIN, 0 };
	looked_at = event;
	for (int i = 0; i < 2; i++)
		TEST_EQUAL(unet_poll(&one, 1, usync_after(MILLI)), -ETIMEDOUT);
	TEST_EQUAL(looks, 4);
	looked_at = -1;
	TEST_EQUAL(unet_close(event), 0);
}

static void poll_for_end(void *fd)
{
	struct pollfd one = { *(int *)fd, POLLRDHUP, 0 };

	TEST_EQUAL(unet_poll(&one, 1, NEVER), 1);
	TEST_TRUE(one.revents & POLLRDHUP);
}

/* What is there already is read beside a poll for the end, which goes on. */
NET_TEST(poll_leaves_input)
{
	static int fds[2];              /* not in frames, for another thread reads it */
	struct ustack *u;
	char c;

	unix_pair(fds);
	TEST_EQUAL(unet_read(fds[0], &c, 1, usync_after(MILLI)), -ETIMEDOUT);
	put(fds[1], "xyz");
	nap(2);                                 /* the edge is taken in */
	receive(fds[0], "x");
	u = go(poll_for_end, &fds[0]);
	await_waiting(u);
	receive(fds[0], "y");
	TEST_EQUAL(unet_wait(fds[0], POLLIN, NEVER), 0);
	receive(fds[0], "z");
	put(fds[1], "x");
	receive(fds[0], "x");
	TEST_EQUAL(unet_close(fds[1]), 0);
	join(u);
	TEST_EQUAL(unet_close(fds[0]), 0);
}

/* There is input, and two wait for the end, each in its own sleep: both sleep. */
static void polls_sleep(void)
{
	pthread_t natives[2];
	unsigned before = 0, rest = 0;
	int fds[2];

	unix_pair(fds);
	put(fds[1], "x");
	looks = 0;
	looked_at = fds[0];
	for (int i = 0; i < 2; i++)
		natives[i] = go_native(poll_for_end, &fds[0]);
	for (int i = 0; i < 10000 && rest < 20; i++) {
		sleep_native(1);
		rest = looks == before && looks >= 2 ? rest + 1 : 0;
		before = looks;
	}
	TEST_EQUAL(rest, 20);
	TEST_EQUAL(unet_close(fds[1]), 0);
	for (int i = 0; i < 2; i++)
		join_native(natives[i]);
	looked_at = -1;
	TEST_EQUAL(unet_close(fds[0]), 0);
}

static void close_later(void *fd)
{
	TEST_EQUAL(unet_close(*(int *)fd), 0);
}

/* While the call gives way the second is closed, before a look at the first. */
static void poll_of_closed(void)
{
	struct pollfd both[2] = { { .events = POLLIN }, { .events = POLLIN } };
	struct ustack *u;
	static int b[2];                /* not in frames, for another thread reads it */
	int a[2];

	unix_pair(a);
	unix_pair(b);
	both[0].fd = a[0], both[1].fd = b[0];
	TEST_EQUAL(unet_poll(both, 2, usync_after(MILLI)), -ETIMEDOUT);
	put(a[1], "x");
	nap(2);                                 /* the edge is taken in */
	u = go(close_later, &b[0]);
	TEST_EQUAL(unet_poll(&both[1], 1, 0), -ETIMEDOUT);      /* so it is tired first */
	do
		TEST_TRUE(unet_poll(both, 2, NEVER) > 0);
	while (!(both[1].revents & POLLNVAL));
	receive(a[0], "x");
	join(u);
	close_both(a);
	TEST_EQUAL(close(b[1]), 0);
}

static void no_fdinfo(void **state)
{
	if (access("/proc/self/fdinfo", R_OK))
		skip_because("no /proc/self/fdinfo here");
	run_net_case(state);
}

OP_CASE(NULL, times_out)
OP_CASE(NULL, is_cancelled)
OP_CASE(NULL, others_wait)
OP_CASE(NULL, others_closed)
OP_CASE(NULL, native_waits)
OP_NATIVE_CASE(native_waits)
OP_CASE(NULL, native_is_cancelled)
NATIVE_CASE(poll_races)
CASE_BY(run_shallow_case, "frames_are_shallow", frames_are_shallow,
	&one_processor)
CONF_CASE(connect_waits_all, one_processor)
CONF_CASE(connect_waits_all, two_processors)
CASE_BY(no_fdinfo, "moves", moves, &two_processors)
CASE_BY(no_fdinfo, "forgotten", forgotten, &two_processors)
CONF_CASE(poll_sleeps, one_processor)
CONF_CASE(poll_looks, one_processor)
CONF_CASE(poll_tells, one_processor)
CONF_CASE(poll_looks_always, one_processor)
NATIVE_CASE(polls_sleep)
CALM_CASE(poll_of_closed, one_processor)

int main(void)
{
	return over_all(OVER_ALL);
}
