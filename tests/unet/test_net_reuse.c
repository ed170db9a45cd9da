/* SPDX-License-Identifier: MIT */
/*
 * test_net_reuse.c: a descriptor is closed while threads use it, and a new one gets its
 * number at once.
 */
#include "../help/netop.h"

/* The new connection has data and room, which the old call must not touch. */
static void is_closed(const struct op *op)
{
	struct ustack *u;
	int fds[2];

	make_place(op);
	u = go_op(NEVER);
	await_op(u);
	op_equal(unet_close(place.p_fds[0]), 0);
	pair_at(fds, place.p_fds[0]);
	put(fds[1], "new");
	end_op(u, -EBADF);
	receive(fds[0], "new");
	do_not_wait(fds[1]);
	op_equal(read(fds[1], &(char){ 0 }, 1), -1);
	op_equal(errno, EAGAIN);
	close_both(fds);
	unmake_place(true);
}

/* The number can be used natively, and be closed. */
static void is_forgotten(const struct op *op)
{
	struct ustack *u;

	make_place(op);
	u = go_op(NEVER);
	await_op(u);
	op_equal(unet_forget(place.p_fds[0]), 0);
	end_op(u, -EBADF);
	works();
	op_equal(unet_forget(place.p_fds[0]), 0);
	op_equal(close(place.p_fds[0]), 0);
	unmake_place(true);
}

static void close_place(void *unused)
{
	(void)unused;
	op_equal(unet_close(place.p_fds[0]), 0);
}

static void is_closed_outside(const struct op *op)
{
	pthread_t native;
	struct ustack *u;

	make_place(op);
	u = go_op(NEVER);
	await_op(u);
	native = go_native(close_place, NULL);
	end_op(u, -EBADF);
	join_native(native);
	unmake_place(true);
}

/* ---- Ready before the close ---- */

/*
 * Data arrives; before the reader runs, another thread closes the descriptor and opens a
 * new connection with its number. The reader may get the old data, never the new.
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

NET_TEST(swap_ready)
{
	static struct swap w;
	struct ustack *reader, *swapper;
	int fds[2];

	all_have_events();
	for (int i = 0; i < 4; i++) {
		unix_pair(fds);
		w = (struct swap){ .w_fd = fds[0] };
		reader = go(read_swapped, &w);
		await_waiting(reader);
		if (i % 2)                      /* before the swap, or amid it */
			put(fds[1], "old");
		swapper = go(swap_it, &w);
		if (i % 2 == 0 && send(fds[1], "old", 3, MSG_NOSIGNAL) < 0)
			TEST_EQUAL(errno, EPIPE);
		if (i / 2)
			pause_thread();
		join(swapper);
		join(reader);
		if (w.w_rc != -EBADF) {
			TEST_EQUAL(w.w_rc, 3);
			TEST_EQUAL(memcmp(w.w_got, "old", 3), 0);
		}
		receive(w.w_new[0], "new");
		close_both(w.w_new);
		close(fds[1]);
	}
}

/* A reader that never waits gives way by its budget. Its number is swapped then. */
static void read_until_closed(void *arg)
{
	struct swap *w = arg;

	do {
		w->w_rc = unet_read(w->w_fd, w->w_got, 1, NEVER);
	} while (w->w_rc == 1 && w->w_got[0] == 'o');
}

static void swap_giving_way(void)
{
	static struct swap w;
	struct ustack *reader, *swapper;
	char data[1000];
	int fds[2];

	all_have_events();
	memset(data, 'o', sizeof data);
	unix_pair(fds);
	TEST_EQUAL(write(fds[1], data, sizeof data), sizeof data);
	w = (struct swap){ .w_fd = fds[0] };
	reader = go(read_until_closed, &w);
	swapper = go(swap_it, &w);
	join(swapper);
	join(reader);
	TEST_EQUAL(w.w_rc, -EBADF);
	receive(w.w_new[0], "new");
	close_both(w.w_new);
	close(fds[1]);
}

/* The file of a closed descriptor lives on as a duplicate, which gets the number back. */
NET_TEST(same_file_again)
{
	int fds[2], spare;

	all_have_events();
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

/* The program gets the number from the system, not from unet.h. */
NET_TEST(other_file_again)
{
	static int fds[2];
	int first[2];

	all_have_events();
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

/* The reader waits on this processor or another; nothing arrives. */
static void close_remote(void)
{
	static struct swap w;
	size_t rounds = test_scale(5000, 50);
	struct ustack *reader;
	int fds[2];

	all_have_events();
	for (size_t i = 0; i < rounds; i++) {
		unix_pair(fds);
		w = (struct swap){ .w_fd = fds[0] };
		reader = go(read_swapped, &w);
		await_waiting(reader);
		swap_it(&w);
		join(reader);
		TEST_EQUAL(w.w_rc, -EBADF);
		receive(w.w_new[0], "new");
		close_both(w.w_new);
		close(fds[1]);
	}
}

OP_CASE(all_have_events, is_closed)
OP_CASE(NULL, is_forgotten)
OP_CASE(all_have_events, is_closed_outside)
CALM_CASE(swap_giving_way, one_processor)
CONF_CASE(close_remote, one_processor)
CONF_CASE(close_remote, two_processors)

int main(void)
{
	return over_all(OVER_ALL);
}
