/* SPDX-License-Identifier: MIT */
/* test_net_line.c: several threads that read from one descriptor, or write to it. */
#include "../help/net.h"

enum { THREADS = 12, BLOCK_MAX = 30000, SINGLE = 255, PIECE = 100 };

static int fds[2];
static atomic_size_t done;
static ssize_t results[THREADS];
static bool in_pieces;

ssize_t __real_send(int fd, const void *from, size_t n, int flags);
ssize_t __wrap_send(int fd, const void *from, size_t n, int flags);

/* A piece, though there is room for more: so a write yields within its budget. */
ssize_t __wrap_send(int fd, const void *from, size_t n, int flags)
{
	return __real_send(fd, from, in_pieces && n > PIECE ? PIECE : n, flags);
}

static void nothing_waits(void)
{
	char c;

	TEST_EQUAL(unet_read(fds[0], &c, 1, 0), -ETIMEDOUT);
	close_both(fds);
}

/* ---- In order ---- */

static void read_one(void *i)
{
	char c;

	TEST_EQUAL(unet_read(fds[0], &c, 1, NEVER), 1);
	*(ssize_t *)i = c;
	done++;
}

/* Bytes come at once, or one by one. */
static void readers_in_order(void)
{
	for (int single = 0; single < 2; single++) {
		struct ustack *u[THREADS];

		single ? unix_pair(fds) : tcp_pair(fds);
		done = 0;
		for (size_t i = 0; i < THREADS; i++)
			u[i] = go(read_one, &results[i]);
		nap(2);
		TEST_EQUAL(done, 0);
		for (size_t i = 0; i < THREADS && single; i++) {
			put(fds[1], (char[]){ (char)('a' + i), '\0' });
			if (i % 3 == 0)
				nap(1);
		}
		if (!single)
			put(fds[1], "abcdefghijkl");
		for (size_t i = 0; i < THREADS; i++) {
			join(u[i]);
			TEST_EQUAL(results[i], 'a' + (ssize_t)i);
		}
		nothing_waits();
	}
}

/* ---- Whole writes ---- */

struct writer {
	unsigned char w_id;
	uint32_t      w_seed;
	size_t        w_rounds;
};

static struct writer writers[THREADS];

/* Blocks of a head of four bytes and the writer's number; some are one byte. */
static void write_blocks(void *arg)
{
	struct writer *w = arg;
	unsigned char *block = malloc(BLOCK_MAX);

	TEST_TRUE(block);
	for (size_t i = 0; i < w->w_rounds; i++) {
		uint32_t size = 4 + test_random(&w->w_seed) % (BLOCK_MAX - 4);

		if (test_random(&w->w_seed) % 4 == 0) {
			block[0] = SINGLE;
			TEST_EQUAL(unet_write(fds[0], block, 1, NEVER), 1);
			continue;
		}
		memset(block, w->w_id, size);
		block[1] = (unsigned char)size;
		block[2] = (unsigned char)(size >> 8);
		TEST_EQUAL(unet_write_all(fds[0], block, size, NULL, NEVER), 0);
	}
	free(block);
	if (++done == THREADS)
		TEST_EQUAL(unet_shutdown(fds[0], SHUT_WR), 0);
}

static void read_blocks(void)
{
	unsigned char *block = malloc(BLOCK_MAX);
	int rc;

	TEST_TRUE(block);
	while ((rc = unet_read_all(fds[1], block, 1, NULL, NEVER)) == 0) {
		size_t size;

		if (block[0] == SINGLE)
			continue;
		TEST_EQUAL(unet_read_all(fds[1], block + 1, 3, NULL, NEVER), 0);
		size = block[1] | (size_t)block[2] << 8;
		TEST_EQUAL(block[3], block[0]);
		TEST_EQUAL(unet_read_all(fds[1], block + 4, size - 4, NULL, NEVER), 0);
		for (size_t i = 4; i < size; i++)
			TEST_EQUAL(block[i], block[0]);
	}
	TEST_EQUAL(rc, -EPIPE);
	free(block);
}

/* By threads, some of them native. */
static void write_whole(size_t rounds)
{
	const size_t natives = test_is_single() ? 0 : 2;
	struct ustack *u[THREADS];
	pthread_t native[2];

	done = 0;
	for (size_t i = 0; i < THREADS; i++) {
		writers[i] = (struct writer){ (unsigned char)i, (uint32_t)i + 1, rounds };
		if (i < natives)
			native[i] = go_native(write_blocks, &writers[i]);
		else
			u[i] = go(write_blocks, &writers[i]);
	}
	read_blocks();
	for (size_t i = 0; i < THREADS; i++)
		i < natives ? join_native(native[i]) : join(u[i]);
	close_both(fds);
}

NET_TEST(whole_writes)
{
	for (int tcp = 0; tcp < 2; tcp++) {
		tcp ? tcp_pair(fds) : unix_pair(fds);
		small_buffers(fds[0]);
		write_whole(test_scale(400, 40));
	}
}

/* Parts are written while there is room, so nothing but its turn keeps others away. */
NET_TEST(whole_in_pieces)
{
	unix_pair(fds);
	in_pieces = true;
	write_whole(test_scale(40, 4));
	in_pieces = false;
}

/* ---- A writer that ends amid its write ---- */

struct block {
	char    b_what;
	int64_t b_deadline;
	int     b_rc;
	size_t  b_put;
};

static struct block blocks[3];

static void write_block(void *arg)
{
	static char text[3][BLOCK_MAX];
	struct block *b = arg;

	memset(text[b - blocks], b->b_what, BLOCK_MAX);
	b->b_rc = unet_write_all(fds[0], text[b - blocks], BLOCK_MAX, &b->b_put,
				 b->b_deadline);
}

static bool has_bytes(int fd)
{
	struct pollfd one = { fd, POLLIN, 0 };

	return poll(&one, 1, 0) == 1;
}

/* By a cancel or deadline; then the others go on. */
NET_TEST(writer_ends)
{
	static char got[BLOCK_MAX];
	struct ustack *u[3];

	for (int late = 0; late < 2; late++) {
		unix_pair(fds);
		fill(fds[0]);
		drain(fds[1]);
		small_buffers(fds[0]);
		for (size_t i = 0; i < 3; i++) {
			blocks[i] = (struct block){ (char)('a' + i), NEVER, 1, 0 };
			if (i == 0 && late)
				blocks[i].b_deadline = usync_after(5 * MILLI);
			u[i] = go(write_block, &blocks[i]);
			while (i == 0 && !has_bytes(fds[1]))
				pause_thread();
		}
		if (!late)
			TEST_EQUAL(ustack_cancel(u[0]), 0);
		join(u[0]);
		TEST_EQUAL(blocks[0].b_rc, late ? -ETIMEDOUT : -ECANCELED);
		TEST_TRUE(blocks[0].b_put > 0 && blocks[0].b_put < BLOCK_MAX);
		for (size_t i = 0; i < 3; i++) {
			size_t n = blocks[i].b_put;

			n = i == 0 ? n : BLOCK_MAX;
			TEST_EQUAL(unet_read_all(fds[1], got, n, NULL, NEVER), 0);
			TEST_TRUE(i > 0 ? got[0] > 'a' : got[0] == 'a');
			for (size_t k = 0; k < n; k++)
				TEST_EQUAL(got[k], got[0]);
		}
		join(u[1]);
		join(u[2]);
		TEST_EQUAL(blocks[1].b_rc + blocks[2].b_rc, 0);
		nothing_waits();
	}
}

/* ---- A select behind a write ---- */

static atomic_bool written;

static void select_late(void *unused)
{
	struct usync_case cases[] = {
		{ .cs_op = USYNC_WRITABLE, .cs_fd = fds[0] },
	};

	(void)unused;
	TEST_EQUAL(usync_select(cases, 1, NEVER), 0);
	TEST_EQUAL(cases[0].cs_rc, 0);
	TEST_TRUE(written);
	done++;
}

static void write_and_tell(void *arg)
{
	write_block(arg);
	written = true;
}

static struct ustack *start_writer(void)
{
	struct ustack *u;

	test_timeout(2);                        /* a select that spins holds up all */
	done = 0;
	written = false;
	blocks[0] = (struct block){ 'a', NEVER, 1, 0 };
	u = go(write_and_tell, &blocks[0]);
	while (!has_bytes(fds[1]))
		pause_thread();
	TEST_TRUE(!written);
	return u;
}

static void end_writer(struct ustack *writer, struct ustack *selects)
{
	static char got[BLOCK_MAX];

	TEST_EQUAL(done, 0);
	TEST_EQUAL(unet_read_all(fds[1], got, BLOCK_MAX, NULL, NEVER), 0);
	join(writer);
	join(selects);
	TEST_EQUAL(blocks[0].b_rc, 0);
	TEST_EQUAL(done, 1);
}

/*
 * The writer gives way amid its write: there is room, and the turn is its own. A select
 * that tried again and again would let no other thread of its processor run.
 */
static void select_in_turn(void)
{
	struct ustack *writer;

	unix_pair(fds);
	in_pieces = true;
	writer = start_writer();
	end_writer(writer, go(select_late, NULL));
	in_pieces = false;
	nothing_waits();
}

/*
 * The writer waits for room. A poll that has found the descriptor readable has it ready
 * for all calls; still it is the writer's.
 */
static void select_in_line(void)
{
	struct ustack *writer, *u;
	struct pollfd one;

	unix_pair(fds);
	small_buffers(fds[0]);
	writer = start_writer();
	await_waiting(writer);
	put(fds[1], "x");
	one = (struct pollfd){ fds[0], POLLIN, 0 };
	TEST_EQUAL(unet_poll(&one, 1, 0), 1);
	u = go(select_late, NULL);
	nap(2);
	end_writer(writer, u);
	expect(fds[0], "x");
	nothing_waits();
}

/* ---- No wake is lost ---- */

static size_t total;
static atomic_size_t got;

static void read_some(void *unused)
{
	char bytes[3];
	ssize_t n;

	(void)unused;
	while ((n = unet_read(fds[0], bytes, sizeof bytes, NEVER)) > 0)
		got += (size_t)n;
	TEST_EQUAL(n, 0);
}

/* They have read all at each pause of the writer, and then the end. */
NET_TEST(all_is_read)
{
	const bool with_native = !test_is_single();
	struct ustack *u[THREADS];
	pthread_t native = 0;
	uint32_t seed = 1;
	char bytes[40] = { 0 };

	for (int tcp = 0; tcp < 2; tcp++) {
		tcp ? tcp_pair(fds) : unix_pair(fds);
		total = 0;
		got = 0;
		if (with_native)
			native = go_native(read_some, NULL);
		for (size_t i = 0; i < THREADS; i++)
			u[i] = go(read_some, NULL);
		for (size_t i = 0; i < test_scale(4000, 40); i++) {
			size_t n = 1 + test_random(&seed) % sizeof bytes;

			TEST_EQUAL(send(fds[1], bytes, n, 0), n);
			total += n;
			while (i % 4 == 0 && got < total)
				pause_thread();
		}
		TEST_EQUAL(shutdown(fds[1], SHUT_WR), 0);
		for (size_t i = 0; i < THREADS; i++)
			join(u[i]);
		if (with_native)
			join_native(native);
		TEST_EQUAL(got, total);
		close_both(fds);
	}
}

CALM_CASE(readers_in_order, one_processor)
CALM_CASE(select_in_turn, one_processor)
CALM_CASE(select_in_line, one_processor)

int main(void)
{
	return over_all(OVER_ALL);
}
