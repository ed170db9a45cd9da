/* SPDX-License-Identifier: MIT */
/*
 * test_net_fair.c: a server among clients that are slow, deaf or gone; threads that never
 * wait give way.
 */
#include "../help/net.h"

#include <sys/un.h>

#include "../../ubuf.h"
#include "../../uoffload.h"

/* ---- Rude clients ---- */

struct rude {
	struct unet_addr r_addr;
	atomic_int       r_stop;
	atomic_int       r_bytes;
};

/* Sends a byte at a time, and waits for its echo. */
static void be_slow(void *arg)
{
	struct rude *r = arg;
	int fd = unet_connect(&r->r_addr, NEVER);
	char c;

	TEST_TRUE(fd >= 0);
	while (!r->r_stop || r->r_bytes < 3) {
		c = (char)('a' + r->r_bytes % 26);
		TEST_EQUAL(unet_write(fd, &c, 1, NEVER), 1);
		nap(1);
		c = 0;
		TEST_EQUAL(unet_read(fd, &c, 1, NEVER), 1);
		TEST_EQUAL(c, 'a' + r->r_bytes % 26);
		r->r_bytes++;
	}
	TEST_EQUAL(unet_close(fd), 0);
}

/* Never reads the echo, so the server's writes have to wait. */
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
		nap(1);
	}
}

static void serve_rude(int fd, void *unused)
{
	(void)unused;
	echo(fd, true);
}

/* Meanwhile other clients are served. */
NET_TEST(rude_clients)
{
	static struct rude r;
	struct unet_addr a = address(local());
	struct ustack *threads[3], *acceptor;
	size_t rounds = test_scale(1000, 20);
	int listener = unet_listen(&a, 0, 0);

	r = (struct rude){ .r_addr = bound(listener) };
	acceptor = go_acceptor(listener, serve_rude, NULL);
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
		join(threads[i]);
	TEST_EQUAL(unet_close(listener), 0);
	join(acceptor);
}

/* ---- Budgets ---- */

struct busy {
	atomic_int  b_stop;
	unsigned    b_longest;          /* run of calls without one of the other */
	unsigned   *b_other;            /* the other's b_mine */
	unsigned    b_mine;
	int         b_kind;
	int64_t     b_deadline;
};

enum { BUSY_ZERO, BUSY_SOCKET, BUSY_POLL, BUSY_WRITE, BUSY_ACCEPT, BUSY_DATAGRAM,
       BUSY_SEND, BUSY_KINDS };

static void busy_call(int kind, int fds[2], int64_t deadline)
{
	struct unet_addr to;
	struct pollfd p;
	char c;

	switch (kind) {
	case BUSY_ZERO:
	case BUSY_SOCKET:
		TEST_EQUAL(unet_read(fds[0], &c, 1, deadline), 1);
		if (kind == BUSY_SOCKET)
			put(fds[1], "x");
		break;
	case BUSY_POLL:
		p = (struct pollfd){ fds[0], POLLOUT, 0 };
		TEST_EQUAL(unet_poll(&p, 1, deadline), 1);
		break;
	case BUSY_WRITE:
		TEST_EQUAL(unet_write(fds[0], "x", 1, deadline), 1);
		expect(fds[1], "x");
		break;
	case BUSY_ACCEPT:
		close(mini_connect(bound(fds[0])));
		/* it may take a moment until it is in the queue */
		TEST_EQUAL(unet_close(unet_accept(fds[0], NULL, NEVER)), 0);
		break;
	case BUSY_SEND:
		to = bound(fds[1]);
		TEST_EQUAL(send_to(fds[0], "x", 1, 0, &to, deadline), 1);
		expect(fds[1], "x");
		break;
	default:
		put(fds[1], "x");
		TEST_EQUAL(receive_from(fds[0], &c, 1, 0, NULL, deadline), 1);
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

/* Counts its calls between two of the other thread. */
static void be_busy(void *arg)
{
	struct busy *b = arg;
	unsigned in_a_row = 0, seen = *b->b_other;
	int fds[2];

	busy_open(b->b_kind, fds);
	while (!b->b_stop) {
		busy_call(b->b_kind, fds, b->b_deadline);
		b->b_mine++;
		in_a_row = *b->b_other == seen ? in_a_row + 1 : 0;
		seen = *b->b_other;
		if (in_a_row > b->b_longest)
			b->b_longest = in_a_row;
	}
	close_both(fds);
}

/* On one processor: two threads that never wait, one that sleeps, one that reads. */
static void fair(void)
{
	static struct busy busy[2];
	static int fds[2];
	struct ustack *threads[2];

	for (int k = 0; k < 2 * BUSY_KINDS; k++) {
		int kind = k / 2;

		for (int i = 0; i < 2; i++)
			busy[i] = (struct busy){ .b_other = &busy[!i].b_mine,
						 .b_kind = kind,
						 .b_deadline = k % 2 || kind == BUSY_WRITE
							|| kind == BUSY_SEND
							? NEVER : 0 };
		for (int i = 0; i < 2; i++)
			threads[i] = go(be_busy, &busy[i]);
		nap(5);
		unix_pair(fds);
		wait_for_hello(fds);
		close_both(fds);
		for (int i = 0; i < 2; i++)
			busy[i].b_stop = 1;
		for (int i = 0; i < 2; i++) {
			join(threads[i]);
			TEST_TRUE(busy[i].b_mine > 0);
			if (busy[i].b_longest > 2 * UNET_BUDGET)
				fprintf(stderr, "kind %d: %u calls of %u\n", kind,
					busy[i].b_longest, busy[i].b_mine);
			TEST_TRUE(busy[i].b_longest <= 2 * UNET_BUDGET);
		}
	}
}

/* ---- Work ---- */

enum { WORKS = 20, FREE = 4 };          /* calls, each with work of a millisecond */

/* A thread that finds something at each call, and one beside it that yields. */
struct work {
	void              (*k_call)(struct work *k);
	const char         *k_name;
	int                 k_fds[2], k_file;
	struct ubuf_in      k_in;
	struct usync_chan  *k_full, *k_empty;
	unsigned            k_turns;    /* of the neighbour */
	bool                k_stop;
};

static void work_read(struct work *k)
{
	char c;

	TEST_EQUAL(unet_read(k->k_fds[0], &c, 1, NEVER), 1);
}

static void work_read_all(struct work *k)
{
	char two[2];

	TEST_EQUAL(unet_read_all(k->k_fds[0], two, 2, NULL, 0), 0);
}

static void work_poll(struct work *k)
{
	struct pollfd p[2] = { { k->k_fds[0], POLLIN, 0 }, { k->k_fds[1], POLLIN, 0 } };

	TEST_EQUAL(unet_poll(p, 2, NEVER), 1);
}

static void work_write(struct work *k)
{
	TEST_EQUAL(unet_write(k->k_fds[1], "x", 1, NEVER), 1);
}

static void work_line(struct work *k)
{
	char *line;

	TEST_EQUAL(ubuf_line(&k->k_in, &line, NEVER), 1);
}

static void work_take(struct work *k)
{
	char *data;

	TEST_EQUAL(ubuf_take(&k->k_in, 2, &data, NEVER), 0);
}

static void work_get(struct work *k)
{
	char c;

	TEST_EQUAL(ubuf_read(&k->k_in, &c, 1, NEVER), 1);
}

static void work_receive(struct work *k)
{
	char c;

	TEST_EQUAL(usync_chan_recv(k->k_full, &c, NEVER), 0);
}

static void work_send(struct work *k)
{
	TEST_EQUAL(usync_chan_send(k->k_empty, "x", NEVER), 0);
}

static void work_select(struct work *k)
{
	char c;
	struct usync_case cases[] = { { .cs_chan = k->k_full, .cs_op = USYNC_RECV,
					.cs_value = &c } };

	TEST_EQUAL(usync_select(cases, 1, NEVER), 0);
}

static void work_select_fd(struct work *k)
{
	struct usync_case cases[] = { { .cs_fd = k->k_fds[0], .cs_op = USYNC_READABLE } };

	TEST_EQUAL(usync_select(cases, 1, NEVER), 0);
}

static void work_file(struct work *k)
{
	char c;

	TEST_EQUAL(ufile_pread(k->k_file, &c, 1, 0, NEVER), 1);
}

static void take_turns(void *arg)
{
	struct work *k = arg;

	for (; !k->k_stop; k->k_turns++)
		TEST_EQUAL(ustack_yield(), 0);
}

/* The longest run of calls without a turn of the neighbour, behind the first FREE. */
static unsigned longest(struct work *k)
{
	unsigned in_a_row = 0, most = 0, seen = k->k_turns;

	for (int i = 0; i < WORKS; i++) {
		int64_t end;

		k->k_call(k);
		in_a_row = k->k_turns == seen ? in_a_row + 1 : 1;
		seen = k->k_turns;
		if (in_a_row > FREE)
			fprintf(stderr, "%s: call %d, %u in a row\n", k->k_name, i,
				in_a_row);
		TEST_TRUE(in_a_row <= FREE);
		if (i >= FREE && in_a_row > most)
			most = in_a_row;
		end = usync_after(MILLI);
		while (usync_after(0) < end)
			;
	}
	return most;
}

/* One call in a row is enough, behind those that do not look at the clock. */
static void work_fairly(void)
{
	static const struct {
		void      (*call)(struct work *);
		const char *name;
	} calls[] = {
		{ work_read, "read" },
		{ work_read_all, "read_all" },
		{ work_poll, "poll" },
		{ work_write, "write" },
		{ work_line, "line" },
		{ work_take, "take" },
		{ work_get, "get" },
		{ work_receive, "receive" },
		{ work_send, "send" },
		{ work_select, "select" },
		{ work_select_fd, "select_fd" },
		{ work_file, "file" },
	};
	static struct work k;
	struct ustack *u;

	for (size_t i = 0; i < COUNT(calls); i++) {
		k = (struct work){ .k_call = calls[i].call, .k_name = calls[i].name,
				   .k_file = open("/proc/self/exe", O_RDONLY) };
		unix_pair(k.k_fds);
		ubuf_in_init(&k.k_in, k.k_fds[0], 0);
		TEST_EQUAL(usync_chan_create(1, 2 * WORKS, &k.k_full), 0);
		TEST_EQUAL(usync_chan_create(1, 2 * WORKS, &k.k_empty), 0);
		for (int j = 0; j < WORKS; j++) {
			put(k.k_fds[1], "x\n");
			TEST_EQUAL(usync_chan_send(k.k_full, "x", 0), 0);
		}
		u = go(take_turns, &k);
		nap(1);
		TEST_EQUAL(longest(&k), 1);
		k.k_stop = true;
		join(u);
		ubuf_in_free(&k.k_in);
		usync_chan_destroy(k.k_full);
		usync_chan_destroy(k.k_empty);
		close(k.k_file);
		close_both(k.k_fds);
	}
}

/* ---- Any mix of calls ---- */

enum { TICKS = 3, GIVES_UP = 20 };      /* seconds: far more than a busy machine takes */

/* What the loops use. The neighbour has the lock and the end of the pair. */
static struct mix {
	unsigned            x_ticks;    /* of the neighbour */
	bool                x_stop;
	struct ustack      *x_neighbour;
	int                 x_fds[2], x_listener, x_file, x_datagram;
	struct unet_addr    x_addr;
	struct usync_mutex  x_mutex, x_held;
	struct usync_rwlock x_rwlock, x_written;
	struct usync_sem    x_sem, x_none;
	struct usync_cond   x_cond;
	struct usync_group  x_group, x_busy;
	struct usync_chan  *x_empty;
} x;

static const struct usync_key mix_key;

static void mix_datagram(void)
{
	int fd = socket(AF_INET, SOCK_DGRAM, 0);

	TEST_TRUE(fd >= 0);
	send_to(fd, "x", 1, 0, &x.x_addr, NEVER);
	TEST_EQUAL(unet_close(fd), 0);
}

static void mix_channel(void)
{
	struct usync_chan *c;
	char value = 'x';

	TEST_EQUAL(usync_chan_create(1, 1, &c), 0);
	TEST_EQUAL(usync_chan_send(c, &value, NEVER), 0);
	TEST_EQUAL(usync_chan_recv(c, &value, NEVER), 0);
	usync_chan_destroy(c);
}

static void mix_connect(void)
{
	int fd = unet_connect(&x.x_addr, NEVER), peer;

	TEST_TRUE(fd >= 0);
	peer = unet_accept(x.x_listener, NULL, NEVER);
	TEST_TRUE(peer >= 0);
	be_abrupt(fd);
	TEST_EQUAL(unet_close(fd), 0);
	TEST_EQUAL(unet_close(peer), 0);
}

static void mix_connect_at_once(void)
{
	TEST_EQUAL(unet__connect(x.x_datagram, &x.x_addr, 0), 0);
}

static void mix_buffer(void)
{
	struct ubuf_in in;
	char *line;

	put(x.x_fds[1], "x\n");
	ubuf_in_init(&in, x.x_fds[0], 0);
	TEST_EQUAL(ubuf_line(&in, &line, NEVER), 1);
	ubuf_in_free(&in);
}

static ssize_t give_line(void *unused, void *buffer, size_t size, int64_t deadline)
{
	(void)unused;
	(void)size;
	(void)deadline;
	memcpy(buffer, "x\n", 2);
	return 2;
}

static void mix_source(void)
{
	static const struct ubuf_ops ops = { .bp_read = give_line };
	static struct ubuf_in in;
	char *line;

	if (!in.bi_base.b_ops)
		ubuf_in_over(&in, &ops, NULL, 0);
	TEST_EQUAL(ubuf_line(&in, &line, NEVER), 1);
}

static ssize_t drop_all(void *unused, const void *data, size_t size, int64_t deadline)
{
	(void)unused;
	(void)data;
	(void)deadline;
	return (ssize_t)size;
}

static void mix_sink(void)
{
	static const struct ubuf_ops ops = { .bp_write = drop_all };
	struct ubuf_out out;

	ubuf_out_over(&out, &ops, NULL, 0);
	TEST_EQUAL(ubuf_write(&out, "x\n", 2, NULL, NEVER), 0);
	TEST_EQUAL(ubuf_flush(&out, NEVER), 0);
}

static void mix_file(void)
{
	char c;

	TEST_EQUAL(ufile_pread(x.x_file, &c, 1, 0, NEVER), 1);
}

static void do_nothing(void *unused)
{
	(void)unused;
}

static void mix_start(void)
{
	struct ustack *u = go(do_nothing, NULL);

	join(u);
}

static void mix_scope(void)
{
	struct usync_scope *scope;

	TEST_EQUAL(usync_scope_create(NULL, &scope, NEVER), 0);
	TEST_EQUAL(usync_scope_enter(scope), 0);
	TEST_EQUAL(usync_scope_leave(), 0);
	usync_scope_release(scope);
}

/* The end of a new pair that can be written to. */
static int new_end(int *other)
{
	int fds[2];

	unix_pair(fds);
	*other = fds[1];
	return fds[0];
}

static void close_ends(int fd, int other)
{
	TEST_EQUAL(unet_close(fd), 0);
	TEST_EQUAL(unet_close(other), 0);
}

static void mix_close(void)
{
	int other, fd = new_end(&other);

	close_ends(fd, other);
}

static void mix_forget(void)
{
	int fds[2];

	unix_pair(fds);
	TEST_EQUAL(unet_forget(fds[0]), 0);
	close_both(fds);
}

static void mix_select(void)
{
	int other, fd = new_end(&other);
	struct usync_case k = { .cs_fd = fd, .cs_op = USYNC_WRITABLE };

	TEST_EQUAL(usync_select(&k, 1, NEVER), 0);
	close_ends(fd, other);
}

static void mix_wait(void)
{
	int other, fd = new_end(&other);

	TEST_EQUAL(unet_wait(fd, POLLOUT, NEVER), 0);
	close_ends(fd, other);
}

static void mix_poll(void)
{
	int other, fd = new_end(&other);
	struct pollfd p = { fd, POLLOUT, 0 };

	TEST_EQUAL(unet_poll(&p, 1, NEVER), 1);
	close_ends(fd, other);
}

static void mix_mutex(void)
{
	TEST_EQUAL(usync_mutex_lock(&x.x_mutex, NEVER), 0);
	TEST_EQUAL(usync_mutex_unlock(&x.x_mutex), 0);
}

static void mix_signal(void)
{
	TEST_EQUAL(usync_mutex_lock(&x.x_mutex, NEVER), 0);
	usync_cond_signal(&x.x_cond);
	usync_cond_broadcast(&x.x_cond);
	TEST_EQUAL(usync_key_set(&mix_key, &x), 0);
	TEST_EQUAL(usync_mutex_unlock(&x.x_mutex), 0);
}

static void mix_rwlock(void)
{
	TEST_EQUAL(usync_rwlock_read(&x.x_rwlock, NEVER), 0);
	TEST_EQUAL(usync_rwlock_unlock(&x.x_rwlock), 0);
	TEST_EQUAL(usync_rwlock_write(&x.x_rwlock, NEVER), 0);
	TEST_EQUAL(usync_rwlock_unlock(&x.x_rwlock), 0);
}

static void mix_sem(void)
{
	TEST_EQUAL(usync_sem_post(&x.x_sem), 0);
	TEST_EQUAL(usync_sem_wait(&x.x_sem, NEVER), 0);
}

static void mix_group(void)
{
	TEST_EQUAL(usync_group_add(&x.x_group, 1), 0);
	TEST_EQUAL(usync_group_done(&x.x_group), 0);
	TEST_EQUAL(usync_group_wait(&x.x_group, NEVER), 0);
}

/* Looks for what the neighbour would have to do. */

static void look_mutex(void)
{
	TEST_EQUAL(usync_mutex_lock(&x.x_held, 0), -ETIMEDOUT);
}

static void look_rwlock(void)
{
	TEST_EQUAL(usync_rwlock_read(&x.x_written, 0), -ETIMEDOUT);
}

static void look_sem(void)
{
	TEST_EQUAL(usync_sem_wait(&x.x_none, 0), -ETIMEDOUT);
}

static void look_group(void)
{
	TEST_EQUAL(usync_group_wait(&x.x_busy, 0), -ETIMEDOUT);
}

static void look_join(void)
{
	TEST_EQUAL(ustack_join(x.x_neighbour, NULL, 0), -ETIMEDOUT);
}

static void look_channel(void)
{
	char value;

	TEST_EQUAL(usync_chan_recv(x.x_empty, &value, 0), -ETIMEDOUT);
}

static void look_select(void)
{
	struct usync_case k = { .cs_fd = x.x_fds[0], .cs_op = USYNC_READABLE };

	TEST_EQUAL(usync_select(&k, 1, 0), -ETIMEDOUT);
}

static void look_read(void)
{
	char c;

	TEST_EQUAL(unet_read(x.x_fds[0], &c, 1, 0), -ETIMEDOUT);
}

static void look_poll(void)
{
	struct pollfd p = { x.x_fds[0], POLLIN, 0 };

	TEST_EQUAL(unet_poll(&p, 1, 0), -ETIMEDOUT);
}

static void look_accept(void)
{
	TEST_EQUAL(unet_accept(x.x_listener, NULL, 0), -ETIMEDOUT);
}

static const struct {
	void      (*call)(void);
	const char *name;
} mixed[] = {
	{ mix_datagram, "new datagram socket" },
	{ mix_channel, "new channel" },
	{ mix_connect, "connect, accept, close" },
	{ mix_connect_at_once, "connect with deadline 0" },
	{ mix_buffer, "new buffer" },
	{ mix_source, "buffer of a source that never waits" },
	{ mix_sink, "buffer to a sink that never waits" },
	{ mix_file, "pread" },
	{ mix_start, "start, join" },
	{ mix_scope, "scope" },
	{ mix_close, "close" },
	{ mix_forget, "forget" },
	{ mix_select, "select on a new pair" },
	{ mix_wait, "wait for a new pair" },
	{ mix_poll, "poll of a new pair" },
	{ mix_mutex, "mutex" },
	{ mix_signal, "mutex, condition, key" },
	{ mix_rwlock, "reader-writer lock" },
	{ mix_sem, "semaphore" },
	{ mix_group, "group" },
	{ look_mutex, "mutex that is held" },
	{ look_rwlock, "reader-writer lock that is held" },
	{ look_sem, "semaphore that is 0" },
	{ look_group, "group that is not done" },
	{ look_join, "join of a thread that runs" },
	{ look_channel, "empty channel" },
	{ look_select, "select without input" },
	{ look_read, "read without input" },
	{ look_poll, "poll without input" },
	{ look_accept, "accept without a connection" },
};

static void tick(void *unused)
{
	(void)unused;
	TEST_EQUAL(usync_mutex_lock(&x.x_held, NEVER), 0);
	TEST_EQUAL(usync_rwlock_write(&x.x_written, NEVER), 0);
	while (!x.x_stop) {
		nap(1);
		x.x_ticks++;
	}
	TEST_EQUAL(usync_mutex_unlock(&x.x_held), 0);
	TEST_EQUAL(usync_rwlock_unlock(&x.x_written), 0);
}

/* i: the call; -1: all in turn. */
static void loop_until_ticks(ptrdiff_t i)
{
	int64_t end = usync_after(GIVES_UP * USYNC_SECOND);
	unsigned until = x.x_ticks + TICKS;

	for (size_t n = 0; x.x_ticks < until; n++) {
		mixed[i < 0 ? n % COUNT(mixed) : (size_t)i].call();
		if (usync_after(0) < end)
			continue;
		fprintf(stderr, "%s: the neighbour does not run\n",
			i < 0 ? "all in turn" : mixed[i].name);
		TEST_TRUE(!"a neighbour runs");
	}
}

static void loop_cancelled(void *done)
{
	TEST_EQUAL(ustack_cancel(ustack_self()), 0);
	for (size_t i = 0; i < COUNT(mixed); i++)
		if (mixed[i].call == mix_mutex || mixed[i].call == mix_scope
		    || mixed[i].call == look_sem || mixed[i].call == mix_close)
			loop_until_ticks((ptrdiff_t)i);
	*(bool *)done = true;
}

/* Whatever a thread calls, its neighbour runs; also if the thread is cancelled. */
static void any_mix(void)
{
	static bool done;
	struct ustack *u;

	x = (struct mix){ .x_listener = mini_listen(4),
			  .x_file = open("/proc/self/exe", O_RDONLY),
			  .x_datagram = socket(AF_INET, SOCK_DGRAM, 0) };
	do_not_wait(x.x_listener);
	x.x_addr = bound(x.x_listener);
	unix_pair(x.x_fds);
	TEST_EQUAL(usync_group_add(&x.x_busy, 1), 0);
	TEST_EQUAL(usync_chan_create(1, 1, &x.x_empty), 0);
	x.x_neighbour = go(tick, NULL);
	nap(1);
	for (ptrdiff_t i = -1; i < (ptrdiff_t)COUNT(mixed); i++)
		loop_until_ticks(i);
	done = false;
	u = go(loop_cancelled, &done);
	join(u);
	TEST_TRUE(done);
	x.x_stop = true;
	join(x.x_neighbour);
	usync_chan_destroy(x.x_empty);
	TEST_EQUAL(unet_close(x.x_listener), 0);
	TEST_EQUAL(unet_close(x.x_datagram), 0);
	close(x.x_file);
	close_both(x.x_fds);
}

static char shared[8];

/* Echoes through a buffer that others use, too, by calls that may not wait. */
static void echo_shared(void *letter)
{
	int fds[2];

	unix_pair(fds);
	for (int i = 0; i < 4 * UNET_BUDGET; i++) {
		put(fds[1], letter);
		TEST_EQUAL(unet_read(fds[0], shared, sizeof shared, 0), 1);
		TEST_EQUAL(unet_write(fds[0], shared, 1, 0), 1);
		expect(fds[1], letter);
	}
	close_both(fds);
}

/* A write that may not wait does not switch, though a read may. */
static void share_buffer(void)
{
	static char letters[3][2] = { "a", "b", "c" };
	struct ustack *threads[3];

	for (int i = 0; i < 3; i++)
		threads[i] = go(echo_shared, letters[i]);
	for (int i = 0; i < 3; i++)
		join(threads[i]);
}

CALM_CASE(fair, one_processor)
CALM_CASE(work_fairly, one_processor)
CALM_CASE(any_mix, one_processor)
CALM_CASE(share_buffer, one_processor)

int main(void)
{
	return over_all(OVER_ALL);
}
