/* SPDX-License-Identifier: MIT */
/* test_net_select.c: select over channels and descriptors together. */
#include "../help/net.h"

enum { SELECTORS = 6, NATIVES = 2, ALL = SELECTORS + NATIVES, TOKEN = 7 };

static int fds[2];
static struct usync_chan *chan, *other;
static atomic_size_t done;

static void make(size_t capacity)
{
	unix_pair(fds);
	done = 0;
	TEST_EQUAL(usync_chan_create(sizeof(size_t), capacity, &chan), 0);
	TEST_EQUAL(usync_chan_create(sizeof(size_t), 0, &other), 0);
}

static void end(void)
{
	TEST_TRUE(usync_chan_recv(chan, &(size_t){ 0 }, 0) < 0);
	usync_chan_destroy(chan);
	usync_chan_destroy(other);
	close_both(fds);
}

/* A value, what can be read, and what never happens; then the end of a channel. */
static int select_at(int64_t deadline, size_t *value, int *rc)
{
	size_t none;
	struct usync_case cases[] = {
		{ .cs_chan = chan, .cs_op = USYNC_RECV, .cs_value = value, .cs_rc = 1 },
		{ .cs_op = USYNC_READABLE, .cs_fd = fds[0], .cs_rc = 1 },
		{ .cs_op = USYNC_WRITABLE, .cs_fd = -1, .cs_rc = 1 },
		{ .cs_op = USYNC_RECV, .cs_rc = 1 },
		{ .cs_chan = other, .cs_op = USYNC_RECV, .cs_value = &none, .cs_rc = 1 },
	};
	int i = usync_select(cases, COUNT(cases), deadline);

	for (int k = 0; k < (int)COUNT(cases); k++)
		TEST_TRUE(k == i || cases[k].cs_rc == 1);
	*rc = i < 0 ? 0 : cases[i].cs_rc;
	return i;
}

/* ---- Without a wait ---- */

static int select_one(int fd, enum usync_op op, int64_t deadline)
{
	struct usync_case one = { .cs_op = op, .cs_fd = fd, .cs_rc = 1 };
	int rc = usync_select(&one, 1, deadline);

	return rc == 0 ? one.cs_rc : rc;
}

static void at_once(void *unused)
{
	static struct usync_case many[65537];
	size_t value = TOKEN;
	int rc, file = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);

	(void)unused;
	make(1);
	TEST_EQUAL(select_at(0, &value, &rc), -ETIMEDOUT);
	put(fds[1], "a");
	TEST_EQUAL(select_at(0, &value, &rc), 1);
	TEST_EQUAL(rc, 0);
	expect(fds[0], "a");
	TEST_EQUAL(select_at(0, &value, &rc), -ETIMEDOUT);
	TEST_EQUAL(usync_chan_send(chan, &value, 0), 0);
	value = 0;
	TEST_EQUAL(select_at(NEVER, &value, &rc), 0);
	TEST_EQUAL(value, TOKEN);
	TEST_EQUAL(select_one(fds[0], USYNC_WRITABLE, 0), 0);
	TEST_EQUAL(select_one(fds[0], USYNC_WRITABLE, NEVER), 0);
	TEST_EQUAL(select_one(fds[0], USYNC_READABLE, 0), -ETIMEDOUT);
	TEST_EQUAL(select_one(-1, USYNC_READABLE, usync_after(1000)), -ETIMEDOUT);
	TEST_EQUAL(select_one(999, USYNC_READABLE, 0), -EBADF);
	TEST_EQUAL(select_one(999, USYNC_WRITABLE, NEVER), -EBADF);
	TEST_EQUAL(select_one(INT32_MAX, USYNC_WRITABLE, NEVER), -EBADF);
	TEST_EQUAL(select_one(file, USYNC_READABLE, NEVER), 0);
	for (size_t i = 0; i < COUNT(many); i++)
		many[i] = (struct usync_case){ .cs_op = USYNC_READABLE, .cs_fd = fds[0] };
	TEST_EQUAL(usync_select(many, 65537, 0), -EINVAL);
	many[65533].cs_fd = fds[1];
	put(fds[0], "b");
	TEST_EQUAL(usync_select(many + 65530, 4, NEVER), 3);
	expect(fds[1], "b");
	TEST_EQUAL(unet_close(file), 0);
	end();
}

NET_TEST(without_a_wait)
{
	at_once(NULL);
	in_native(at_once, NULL);
}

/* With all cases ready each is taken at times, whatever others are there. */
NET_TEST(in_turn)
{
	size_t value = TOKEN, seen[5] = { 0 };
	int rc;

	make(1);
	put(fds[1], "a");
	TEST_EQUAL(usync_chan_send(chan, &value, 0), 0);
	TEST_EQUAL(usync_chan_close(other), 0);
	for (int i = 0; i < 100000 && (!seen[0] || !seen[1] || !seen[4]); i++) {
		int k = select_at(i % 2 ? NEVER : 0, &value, &rc);

		TEST_TRUE(k == 0 || k == 1 || k == 4);
		TEST_EQUAL(rc, k == 4 ? -EPIPE : 0);
		seen[k]++;
		if (k == 0)
			TEST_EQUAL(usync_chan_send(chan, &value, 0), 0);
	}
	TEST_TRUE(seen[0] && seen[1] && seen[4]);
	TEST_EQUAL(usync_chan_recv(chan, &value, 0), 0);
	end();
}

static atomic_bool stop;

static void count_yields(void *unused)
{
	(void)unused;
	while (!stop) {
		done++;
		ustack_yield();
	}
}

/* A descriptor that is always ready holds up no neighbour; a send at 0 does not yield. */
static void gives_way(void)
{
	struct ustack *u;
	size_t value = TOKEN;
	struct usync_case cases[] = {
		{ .cs_op = USYNC_READABLE },
		{ .cs_op = USYNC_SEND, .cs_value = &value },
	};

	make(0);
	put(fds[1], "a");
	stop = false;
	u = go(count_yields, NULL);
	nap(1);
	cases[0].cs_fd = fds[0];
	cases[1].cs_chan = other;
	done = 0;
	for (int i = 0; i < 1000; i++)
		TEST_EQUAL(usync_select(cases, 2, 0), 0);
	TEST_EQUAL(done, 0);
	for (int i = 0; i < 1000; i++)
		TEST_EQUAL(usync_select(cases, 2, NEVER), 0);
	TEST_TRUE(done > 5);
	stop = true;
	join(u);
	end();
}

/* ---- Waits ---- */

static atomic_int index_of, rc_of;
static _Atomic size_t value_of;
static int64_t until;
static struct uwaiter *_Atomic waiter;
static atomic_bool seen = true;         /* the tester reads no more of the waiter */

static void select_once(void *unused)
{
	size_t value = 0;
	int rc;

	(void)unused;
	waiter = uwait_self();
	index_of = select_at(until, &value, &rc);
	rc_of = rc;
	value_of = value;
	done++;
	while (!seen)
		pause_thread();
}

struct selecting {
	struct ustack *s_thread;
	pthread_t      s_native;
};

/* Returns when it waits, so it has noted which descriptor it is. */
static struct selecting start(bool native)
{
	struct selecting s = { 0 };

	done = 0;
	seen = false;
	waiter = NULL;
	if (native)
		s.s_native = go_native(select_once, NULL);
	else
		s.s_thread = go(select_once, NULL);
	while (done == 0 && (!waiter
			     || !__atomic_load_n(&waiter->w_state, __ATOMIC_ACQUIRE)))
		nap(1);
	seen = true;
	nap(1);
	return s;
}

static void finish(struct selecting s, int index, int rc)
{
	if (s.s_thread)
		join(s.s_thread);
	else
		join_native(s.s_native);
	TEST_EQUAL(index_of, index);
	TEST_EQUAL(rc_of, rc);
}

static void wait_as(bool native)
{
	struct usync_scope *scope;
	struct selecting s;
	size_t value = TOKEN;

	until = NEVER;
	make(0);
	s = start(native);
	put(fds[1], "a");
	finish(s, 1, 0);
	expect(fds[0], "a");
	s = start(native);
	TEST_EQUAL(usync_chan_send(chan, &value, NEVER), 0);
	finish(s, 0, 0);
	TEST_EQUAL(value_of, TOKEN);
	s = start(native);
	TEST_EQUAL(usync_chan_close(other), 0);
	finish(s, 4, -EPIPE);
	usync_chan_destroy(other);
	TEST_EQUAL(usync_chan_create(sizeof(size_t), 0, &other), 0);
	until = usync_after(2 * MILLI);
	s = start(native);
	finish(s, -ETIMEDOUT, 0);
	until = NEVER;
	if (!native) {
		s = start(false);
		ustack_cancel(s.s_thread);
		finish(s, -ECANCELED, 0);
	}
	TEST_EQUAL(usync_scope_create(NULL, &scope, usync_after(3 * MILLI)), 0);
	TEST_EQUAL(usync_scope_enter(scope), 0);
	select_once(NULL);
	TEST_EQUAL(index_of, -ETIMEDOUT);
	TEST_EQUAL(usync_scope_leave(), 0);
	usync_scope_release(scope);
	TEST_EQUAL(usync_chan_send(chan, &value, 0), -ETIMEDOUT);       /* none is left */
	s = start(native);
	put(fds[1], "b");
	finish(s, 1, 0);
	expect(fds[0], "b");
	end();
}

NET_TEST(waits_of_both)
{
	wait_as(false);
	if (!test_is_single())
		wait_as(true);
}

/* It is closed or forgotten, and its number used again, before the waiter runs. */
NET_TEST(close_waited)
{
	until = NEVER;
	for (int i = 0; i < 8; i++) {
		struct selecting s;
		int number, again[2];

		make(0);
		number = fds[0];
		s = start(i & 1 && !test_is_single());
		if (i & 4)                      /* it was ready, and is not any more */
			put(fds[1], "a");
		if (i & 2) {
			TEST_EQUAL(unet_forget(number), 0);
			TEST_EQUAL(close(number), 0);
		} else {
			TEST_EQUAL(unet_close(number), 0);
		}
		pair_at(again, number);
		if (!(i & 4))
			finish(s, 1, -EBADF);
		else
			s.s_thread ? join(s.s_thread) : join_native(s.s_native);
		TEST_EQUAL(index_of, 1);
		TEST_TRUE(rc_of == -EBADF || (i & 4 && rc_of == 0));
		close_both(again);
		TEST_EQUAL(unet_close(fds[1]), 0);
		fds[0] = number;
		usync_chan_destroy(chan);
		usync_chan_destroy(other);
	}
}

/* ---- To write ---- */

static void select_writable(void *unused)
{
	size_t value;
	struct usync_case cases[] = {
		{ .cs_chan = chan, .cs_op = USYNC_RECV, .cs_value = &value },
		{ .cs_op = USYNC_WRITABLE, .cs_fd = fds[0] },
	};

	(void)unused;
	index_of = usync_select(cases, 2, NEVER);
	done++;
}

static void write_much(void *unused)
{
	enum { MUCH = 1 << 20 };
	char *much = calloc(1, MUCH);

	(void)unused;
	TEST_TRUE(much);
	TEST_EQUAL(unet_write_all(fds[0], much, MUCH, NULL, NEVER), 0);
	free(much);
	TEST_EQUAL(unet_shutdown(fds[0], SHUT_WR), 0);
}

static void read_all(void)
{
	static char bytes[4096];

	while (unet_read(fds[1], bytes, sizeof bytes, NEVER) > 0)
		;
}

/* It waits for room; and behind a write that stays together, without a look. */
NET_TEST(writable)
{
	struct ustack *u, *writer;

	for (int lined = 0; lined < 2; lined++) {
		make(0);
		small_buffers(fds[0]);
		if (lined) {
			writer = go(write_much, NULL);
			await_waiting(writer);
		} else {
			fill(fds[0]);
		}
		u = go(select_writable, NULL);
		nap(2);
		TEST_EQUAL(done, 0);
		lined ? read_all() : drain(fds[1]);
		join(u);
		TEST_EQUAL(index_of, 1);
		if (lined)
			join(writer);
		end();
	}
}

/* ---- No message is lost or taken twice ---- */

static atomic_size_t received, sum, bytes_read, ended;
static size_t messages;

/* Until both ends have come. */
static void take_all(void *unused)
{
	size_t value;
	struct usync_case cases[] = {
		{ .cs_chan = chan, .cs_op = USYNC_RECV, .cs_value = &value },
		{ .cs_op = USYNC_READABLE, .cs_fd = fds[0] },
	};
	int open = 2;

	(void)unused;
	while (open > 0) {
		int i = usync_select(cases, 2, usync_after(MILLI / 4));
		char byte;
		ssize_t n;

		if (i == -ETIMEDOUT)
			continue;
		TEST_TRUE(i == 0 || i == 1);
		if (i == 0 && cases[0].cs_rc == 0) {
			received++;
			sum += value;
		} else if (i == 0) {
			TEST_EQUAL(cases[0].cs_rc, -EPIPE);
			cases[0].cs_chan = NULL;
			open--;
		} else {
			TEST_EQUAL(cases[1].cs_rc, 0);
			n = unet_read(fds[0], &byte, 1, 0);
			if (n == 0)
				cases[1].cs_fd = -1, open--;
			else if (n > 0)
				bytes_read++;
			else
				TEST_EQUAL(n, -ETIMEDOUT);
		}
	}
}

static void send_all(void *unused)
{
	(void)unused;
	for (size_t i = 1; i <= messages; i++) {
		if (i % 3 == 0)
			TEST_EQUAL(send(fds[1], "x", 1, MSG_NOSIGNAL), 1);
		TEST_EQUAL(usync_chan_send(chan, &i, NEVER), 0);
		if (i % 3 == 1)
			TEST_EQUAL(send(fds[1], "x", 1, MSG_NOSIGNAL), 1);
		if (i % 7 == 0)
			pause_thread();
	}
	if (++ended < 2)
		return;
	TEST_EQUAL(usync_chan_close(chan), 0);
	TEST_EQUAL(shutdown(fds[1], SHUT_WR), 0);
}

NET_TEST(storm)
{
	struct ustack *u[SELECTORS], *sender;
	const size_t others = test_is_single() ? 0 : NATIVES;
	pthread_t natives[NATIVES], from = 0;
	struct ustack *second = NULL;

	messages = test_scale(2000, 30);
	for (size_t capacity = 0; capacity < 3; capacity++) {
		make(capacity);
		received = sum = bytes_read = ended = 0;
		for (size_t i = 0; i < SELECTORS; i++)
			u[i] = go(take_all, NULL);
		for (size_t i = 0; i < others; i++)
			natives[i] = go_native(take_all, NULL);
		sender = go(send_all, NULL);
		if (others > 0)
			from = go_native(send_all, NULL);
		else
			second = go(send_all, NULL);
		join(sender);
		others > 0 ? join_native(from) : join(second);
		for (size_t i = 0; i < SELECTORS; i++)
			join(u[i]);
		for (size_t i = 0; i < others; i++)
			join_native(natives[i]);
		TEST_EQUAL(received, 2 * messages);
		TEST_EQUAL(sum, messages * (messages + 1));
		TEST_EQUAL(bytes_read, 2 * (messages / 3 + (messages + 2) / 3));
		end();
	}
}

/* ---- A connection with a queue ---- */

/* One thread: it reads lines, and writes what is in its queue. */
static void session(void *unused)
{
	size_t value;
	struct usync_case cases[] = {
		{ .cs_chan = chan, .cs_op = USYNC_RECV, .cs_value = &value },
		{ .cs_op = USYNC_READABLE, .cs_fd = fds[0] },
	};
	char text[2] = { 0 };

	(void)unused;
	for (;;) {
		int i = usync_select(cases, 2, NEVER);

		TEST_EQUAL(cases[i].cs_rc, 0);
		if (i == 0) {
			text[0] = (char)value;
			TEST_EQUAL(unet_write_all(fds[0], text, 1, NULL, NEVER), 0);
		} else if (unet_read(fds[0], text, 1, NEVER) == 0) {
			break;
		} else {
			TEST_EQUAL(unet_write_all(fds[0], text, 1, NULL, NEVER), 0);
		}
	}
}

NET_TEST(one_thread)
{
	struct ustack *u;

	make(0);
	u = go(session, NULL);
	for (size_t i = 0; i < 20; i++) {
		size_t value = 'a' + i;

		put(fds[1], "-");
		receive(fds[1], "-");
		TEST_EQUAL(usync_chan_send(chan, &value, NEVER), 0);
		receive(fds[1], (char[]){ (char)value, '\0' });
	}
	TEST_EQUAL(shutdown(fds[1], SHUT_WR), 0);
	join(u);
	end();
}

CALM_CASE(gives_way, one_processor)

int main(void)
{
	return over_all(OVER_ALL);
}
