/* SPDX-License-Identifier: MIT */
/*
 * test_net_storm.c: many connections with bytes of their own; both directions at once;
 * threads and native threads at the two ends of a connection.
 */
#include "../help/net.h"

/* ---- A storm of connections ---- */

enum { STORMERS = 8, STORM_SIZE = 6000 };

struct storm {
	struct unet_addr s_addr;
	int              s_listener;
	size_t           s_rounds;
	atomic_size_t    s_served;
	atomic_uint      s_seed;
};

/* What the i-th byte of a connection is. */
static unsigned char byte_of(uint32_t id, size_t i)
{
	return (unsigned char)(id * 2654435761u + i * 40503u + (i >> 8));
}

/* Some clients reset the connection, after they have got everything. */
static void serve_storm(int fd, void *arg)
{
	struct storm *s = arg;
	ssize_t n = echo(fd, false);

	TEST_TRUE(n == 0 || n == -ECONNRESET);
	s->s_served++;
}

/* Sends and receives pieces in turn; then closes, shuts down or resets. */
static void storm_once(struct storm *s, uint32_t id, uint32_t *seed)
{
	size_t size = 1 + test_random(seed) % STORM_SIZE, i = 0, k;
	unsigned char data[512];
	int fd = unet_connect(&s->s_addr, NEVER);

	TEST_TRUE(fd >= 0);
	while (i < size) {
		size_t n = 1 + test_random(seed) % sizeof data;

		if (n > size - i)
			n = size - i;
		for (k = 0; k < n; k++)
			data[k] = byte_of(id, i + k);
		TEST_EQUAL(unet_write_all(fd, data, n, NULL, NEVER), 0);
		memset(data, 0, n);
		TEST_EQUAL(unet_read_all(fd, data, n, NULL, NEVER), 0);
		for (k = 0; k < n; k++)
			TEST_EQUAL(data[k], byte_of(id, i + k));
		i += n;
	}
	if (id % 3 == 0) {
		TEST_EQUAL(unet_shutdown(fd, SHUT_WR), 0);
		TEST_EQUAL(unet_read(fd, data, 1, NEVER), 0);
	}
	if (id % 5 == 0)
		be_abrupt(fd);
	TEST_EQUAL(unet_close(fd), 0);
}

static void connect_storm(void *arg)
{
	struct storm *s = arg;
	uint32_t seed = ++s->s_seed, id = seed << 16;

	for (size_t i = 0; i < s->s_rounds; i++)
		storm_once(s, id++, &seed);
}

NET_TEST(storm)
{
	static struct storm s;
	struct ustack *stormers[STORMERS], *acceptor;
	struct unet_addr a = address(local());

	s = (struct storm){ .s_rounds = test_scale(200, 5) };
	s.s_listener = unet_listen(&a, 0, 0);
	s.s_addr = bound(s.s_listener);
	acceptor = go_acceptor(s.s_listener, serve_storm, &s);
	for (size_t i = 0; i < STORMERS; i++)
		stormers[i] = go(connect_storm, &s);
	for (size_t i = 0; i < STORMERS; i++)
		join(stormers[i]);
	while (s.s_served < STORMERS * s.s_rounds)
		nap(1);
	TEST_EQUAL(unet_close(s.s_listener), 0);
	join(acceptor);
}

/* ---- Both directions at once ---- */

struct flow {
	int            f_fd;
	uint32_t       f_id;
	size_t         f_size;
	uint32_t       f_seed;
	unsigned char *f_data;
};

enum { FLOW_PIECE = 20000 };

static void flow_out(void *arg)
{
	struct flow *f = arg;

	for (size_t i = 0; i < f->f_size; ) {
		size_t n = 1 + test_random(&f->f_seed) % FLOW_PIECE, half;
		struct iovec iov[2];
		ssize_t rc;

		for (size_t k = 0; k < n; k++)
			f->f_data[k] = byte_of(f->f_id, i + k);
		half = n / 3;
		iov[0] = (struct iovec){ f->f_data, half };
		iov[1] = (struct iovec){ f->f_data + half, n - half };
		rc = n % 2 ? write_vector(f->f_fd, iov, 2, NEVER)
			: unet_write(f->f_fd, f->f_data, n, NEVER);
		TEST_TRUE(rc > 0 && (size_t)rc <= n);
		i += (size_t)rc;
		if (i >= f->f_size)
			TEST_EQUAL(unet_shutdown(f->f_fd, SHUT_WR), 0);
	}
}

static void flow_in(void *arg)
{
	struct flow *f = arg;
	size_t i = 0;
	ssize_t rc;

	do {
		size_t n = 1 + test_random(&f->f_seed) % FLOW_PIECE;
		struct iovec iov[2] = {
			{ f->f_data, n / 2 }, { f->f_data + n / 2, n - n / 2 },
		};

		rc = n % 2 ? read_vector(f->f_fd, iov, 2, NEVER)
			: unet_read(f->f_fd, f->f_data, n, NEVER);
		TEST_TRUE(rc >= 0 && (size_t)rc <= n);
		for (size_t k = 0; k < (size_t)rc; k++)
			TEST_EQUAL(f->f_data[k], byte_of(f->f_id, i + k));
		i += (size_t)rc;
	} while (rc > 0);
	TEST_TRUE(i >= f->f_size);
}

/* Flows 0 and 1 write, 2 and 3 read; 0 and 3 are one direction. */
static struct flow make_flow(const int fds[2], size_t i, uint32_t seed, size_t size)
{
	struct flow f = { .f_fd = fds[i % 2], .f_id = i == 0 || i == 3, .f_seed = seed,
			  .f_size = size, .f_data = malloc(FLOW_PIECE) };

	TEST_TRUE(f.f_data != NULL);
	return f;
}

/* A reader and a writer at each end, on different processors if there are some. */
static void duplex(void (*make)(int fds[2]))
{
	static struct flow flows[4];
	size_t size = test_scale(4 << 20, 100000);
	struct ustack *threads[4];
	int fds[2];

	make(fds);
	for (int i = 0; i < 2; i++)
		small_buffers(fds[i]);
	for (size_t i = 0; i < 4; i++) {
		flows[i] = make_flow(fds, i, 7 + (uint32_t)i, size);
		threads[i] = go(i < 2 ? flow_out : flow_in, &flows[i]);
	}
	for (size_t i = 0; i < 4; i++) {
		join(threads[i]);
		free(flows[i].f_data);
	}
	close_both(fds);
}

NET_TEST(duplex_all)
{
	duplex(tcp_pair);
	duplex(unix_pair);
}

/* ---- Threads and native threads ---- */

/* A thread and a native thread at each end. */
NET_TEST(mixed)
{
	static struct flow flows[4];
	struct ustack *out, *in;
	pthread_t natives[2];
	int fds[2];

	tcp_pair(fds);
	for (size_t i = 0; i < 4; i++)
		flows[i] = make_flow(fds, i, 3, test_scale(1 << 20, 50000));
	out = go(flow_out, &flows[0]);
	in = go(flow_in, &flows[3]);
	natives[0] = go_native(flow_out, &flows[1]);
	natives[1] = go_native(flow_in, &flows[2]);
	join(out);
	join(in);
	for (int i = 0; i < 2; i++)
		join_native(natives[i]);
	for (size_t i = 0; i < 4; i++)
		free(flows[i].f_data);
	close_both(fds);
}

/* Descriptors outlive a scheduler; the next one and a native thread use them. */
static int survivor[2];

static void use_survivor(void)
{
	wait_for_hello(survivor);
}

static void use_survivor_native(void *unused)
{
	(void)unused;
	put(survivor[1], "native");
	receive(survivor[0], "native");
}

TEST(test_survivor)
{
	tcp_pair(survivor);
	for (int i = 0; i < 2; i++) {
		each_conf(use_survivor);
		in_native(use_survivor_native, NULL);
	}
	for (int i = 0; i < 2; i++)
		assert_int_equal(unet_close(survivor[i]), 0);
}

int main(void)
{
	return over_all(OVER_ALL);
}
