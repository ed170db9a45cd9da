/* SPDX-License-Identifier: MIT */
/*
 * test_ubuf.c: buffered reading and writing: what came in is what goes out, whatever the
 * pieces, limits, deadlines, cancels and errors are; what an idle buffer costs.
 */
#include "../help/net.h"

#include <limits.h>
#include <wchar.h>

#include "../../ubuf.h"

#define TEXT(rc, data, text) \
	TEST_TRUE((rc) == sizeof(text) - 1 && memcmp(data, text, sizeof(text) - 1) == 0)

/* ---- A peer that gives and takes in pieces, and fails at times ---- */

struct peer {
	const char *p_data;             /* to be read */
	size_t      p_size;
	size_t      p_at;
	size_t      p_piece;            /* bytes at most */
	unsigned    p_fails;            /* one call in so many; 0: none */
	uint32_t    p_seed;
	char       *p_got;              /* written to here */
	size_t      p_end;
};

static int fails(struct peer *p)
{
	static const int errors[] = { -ETIMEDOUT, -ECANCELED, -ENOMEM, -EIO };

	return p->p_fails && test_random(&p->p_seed) % p->p_fails == 0
		? errors[test_random(&p->p_seed) % COUNT(errors)] : 0;
}

static size_t piece(struct peer *p, size_t size)
{
	size_t n = 1 + test_random(&p->p_seed) % p->p_piece;

	return n < size ? n : size;
}

static ssize_t peer_read(void *peer, void *buffer, size_t size, int64_t deadline)
{
	struct peer *p = peer;
	size_t n = piece(p, size);
	int rc = fails(p);

	(void)deadline;
	TEST_TRUE(size > 0);
	if (rc)
		return rc;
	n = n < p->p_size - p->p_at ? n : p->p_size - p->p_at;
	memcpy(buffer, p->p_data + p->p_at, n);
	p->p_at += n;
	return (ssize_t)n;
}

static ssize_t peer_write(void *peer, const void *data, size_t size, int64_t deadline)
{
	struct peer *p = peer;
	size_t n = piece(p, size);
	int rc = fails(p);

	(void)deadline;
	TEST_TRUE(size > 0);
	if (rc)
		return rc;
	memcpy(p->p_got + p->p_end, data, n);
	p->p_end += n;
	return (ssize_t)n;
}

static int peer_wait(void *peer, int64_t deadline)
{
	(void)deadline;
	return fails(peer);
}

static const struct ubuf_ops
	with_wait    = { peer_read, peer_write, peer_wait, NULL },
	without_wait = { peer_read, peer_write, NULL, NULL };

static size_t pending(const struct ubuf_out *out)
{
	return out->bo_base.b_end - out->bo_base.b_start;
}

/* ---- Each call ---- */

static void lines_of(size_t size)
{
	static const char text[] = "a\r\n\nbb\n\r\n\0x\0\n\r\r\nrest";
	struct peer p = { .p_data = text, .p_size = sizeof text - 1, .p_piece = size,
			  .p_seed = 1 };
	struct ubuf_in in;
	ssize_t n;
	char *line, c[2];

	ubuf_in_over(&in, &without_wait, &p, 0);
	n = ubuf_line(&in, &line, NEVER);
	TEXT(n, line, "a");
	TEST_EQUAL(line[1], 0);
	n = ubuf_line(&in, &line, NEVER);
	TEXT(n, line, "");
	TEST_EQUAL(line[0], 0);
	n = ubuf_line(&in, &line, NEVER);
	TEXT(n, line, "bb");
	n = ubuf_line(&in, &line, NEVER);
	TEXT(n, line, "");
	n = ubuf_line(&in, &line, NEVER);
	TEXT(n, line, "\0x\0");
	n = ubuf_line(&in, &line, NEVER);
	TEXT(n, line, "\r");
	for (int i = 0; i < 3; i++)
		TEST_EQUAL(ubuf_line(&in, &line, NEVER), -EPIPE);
	TEST_EQUAL(ubuf_take(&in, 5, &line, NEVER), -EPIPE);
	TEST_EQUAL(ubuf_take(&in, 2, &line, NEVER), 0);
	TEXT(2, line, "re");
	TEST_EQUAL(ubuf_read(&in, c, 2, NEVER), 2);
	TEST_EQUAL(memcmp(c, "st", 2), 0);
	TEST_EQUAL(ubuf_read(&in, c, 2, NEVER), 0);
	TEST_TRUE(in.bi_base.b_data == NULL);
	TEST_EQUAL(ubuf_line(&in, &line, NEVER), -EPIPE);
	ubuf_in_free(&in);
}

static void lines(void)
{
	lines_of(1);
	lines_of(3);
	lines_of(1000);
}

/* Nothing is lost at a limit, and what fits does not depend on the pieces. */
static void limits_of(size_t size)
{
	static const char text[] = "1234567\n12345678\nabcdefghij\n";
	struct peer p = { .p_data = text, .p_size = sizeof text - 1, .p_piece = size,
			  .p_seed = 1 };
	struct ubuf_in in;
	char *data, *line;

	ubuf_in_over(&in, &without_wait, &p, 8);
	TEST_EQUAL(ubuf_line(&in, &line, NEVER), 7);
	for (int i = 0; i < 2; i++)
		TEST_EQUAL(ubuf_line(&in, &line, NEVER), -EMSGSIZE);
	TEST_EQUAL(ubuf_take(&in, 9, &data, NEVER), -EMSGSIZE);
	TEST_EQUAL(ubuf_take(&in, 3, &data, NEVER), 0);
	TEST_EQUAL(ubuf_line(&in, &line, NEVER), 5);
	TEXT(5, line, "45678");
	TEST_EQUAL(ubuf_take(&in, 8, &data, NEVER), 0);
	TEXT(8, data, "abcdefgh");
	ubuf_in_free(&in);
}

static void limits(void)
{
	static const char long_one[] = "123456789\nx\n";
	struct peer p = { .p_data = long_one, .p_size = sizeof long_one - 1,
			  .p_piece = 100, .p_seed = 1 };
	struct ubuf_in in;
	char *line;

	for (size_t size = 1; size < 12; size++)
		limits_of(size);
	ubuf_in_over(&in, &with_wait, &p, 9);
	TEST_EQUAL(ubuf_line(&in, &line, NEVER), -EMSGSIZE);
	ubuf_in_free(&in);
	p.p_at = 0;
	ubuf_in_over(&in, &with_wait, &p, 10);
	TEST_EQUAL(ubuf_line(&in, &line, NEVER), 9);
	TEST_EQUAL(ubuf_line(&in, &line, NEVER), 1);
	ubuf_in_free(&in);
}

/* ---- Random calls against a model: the bytes that were sent ---- */

enum { LONGEST = 60 };                  /* bytes, of what is asked for */

static int64_t some_deadline(uint32_t *seed)
{
	switch (test_random(seed) % 4) {
	case 0: return 0;
	case 1: return usync_after((int64_t)(test_random(seed) % 100000));
	default: return NEVER;
	}
}

static bool passes(ssize_t rc)
{
	return rc == -ETIMEDOUT || rc == -ECANCELED || rc == -ENOMEM || rc == -EIO;
}

/* One call, where `left' bytes at `s' are left: how many it took. */
static size_t read_line(struct ubuf_in *in, const char *s, size_t left, uint32_t *seed,
			size_t limit)
{
	const char *end = memchr(s, '\n', left < limit ? left : limit);
	size_t n = end ? (size_t)(end - s) + 1 : 0;
	size_t ends = n > 1 && s[n - 2] == '\r' ? 2 : 1;
	char *data;
	ssize_t rc = ubuf_line(in, &data, some_deadline(seed));

	if (passes(rc))
		return 0;
	if (n == 0) {
		TEST_EQUAL(rc, left >= limit ? -EMSGSIZE : -EPIPE);
		return 0;
	}
	TEST_EQUAL(rc, n - ends);
	TEST_EQUAL(memcmp(data, s, (size_t)rc), 0);
	TEST_EQUAL(data[rc], 0);
	return n;
}

static size_t read_exact(struct ubuf_in *in, const char *s, size_t left, uint32_t *seed,
			 size_t limit)
{
	size_t n = test_random(seed) % LONGEST;
	char *data;
	int rc = ubuf_take(in, n, &data, some_deadline(seed));

	if (passes(rc))
		return 0;
	if (rc < 0) {
		TEST_EQUAL(rc, n > limit ? -EMSGSIZE : -EPIPE);
		TEST_TRUE(rc != -EPIPE || n > left);
		return 0;
	}
	TEST_TRUE(rc == 0 && n <= left);
	TEST_TRUE(n == 0 || memcmp(data, s, n) == 0);
	return n;
}

static size_t read_copy(struct ubuf_in *in, const char *s, size_t left, uint32_t *seed)
{
	size_t n = 1 + test_random(seed) % (test_random(seed) % 8 ? LONGEST : 9000);
	char copy[LONGEST + 1], *to = n > LONGEST ? malloc(n) : copy;
	ssize_t rc = ubuf_read(in, to, n, some_deadline(seed));
	size_t done = rc > 0 ? (size_t)rc : 0;

	TEST_TRUE(rc <= (ssize_t)n && (rc != 0 || left == 0));
	TEST_TRUE(rc >= 0 || passes(rc));
	TEST_EQUAL(memcmp(to, s, done), 0);
	if (to != copy)
		free(to);
	return done;
}

/* Frees the buffer if it is empty. Else returns how many bytes it took, up to 2. */
static size_t free_or_take(struct ubuf_in *in)
{
	size_t n = in->bi_base.b_end - in->bi_base.b_start;
	char *data;

	if (n == 0)
		ubuf_in_free(in);
	else
		TEST_EQUAL(ubuf_take(in, n % 3, &data, 0), 0);
	return n % 3;
}

static void read_model(struct ubuf_in *in, const char *s, size_t size, uint32_t *seed,
		       size_t limit)
{
	size_t at = 0;

	while (at < size) {
		const char *from = s + at;

		switch (test_random(seed) % 8) {
		case 0: at += read_exact(in, from, size - at, seed, limit); break;
		case 1: at += read_copy(in, from, size - at, seed); break;
		case 2: at += free_or_take(in); break;
		default: at += read_line(in, from, size - at, seed, limit);
		}
	}
	TEST_EQUAL(at, size);
	TEST_EQUAL(ubuf_read(in, &(char){ 0 }, 1, 0) > 0, 0);
}

/* Bytes that make short lines and many marks. */
static char *make_text(size_t size, uint32_t *seed)
{
	static const char letters[] = "\n\n\n\r\raaaaaaaaaaaabc\0x";
	char *s = malloc(size);

	TEST_TRUE(s != NULL);
	for (size_t i = 0; i < size; i++)
		s[i] = letters[test_random(seed) % (sizeof letters - 1)];
	return s;
}

/* One call: how many of the `left' bytes at `s' it took. */
static size_t write_one(struct ubuf_out *out, const char *s, size_t left, uint32_t *seed,
			size_t limit)
{
	size_t n = test_random(seed) % (test_random(seed) % 8 ? LONGEST : 9000);
	size_t done = 99;
	int64_t deadline = some_deadline(seed);
	int rc;

	n = n < left ? n : left;
	if (test_random(seed) % 2 && n >= 3) {
		rc = ubuf_printf(out, deadline, "%c%c%c", s[0], s[1], s[2]);
		TEST_TRUE(rc == 3 || passes(rc) || (rc == -EMSGSIZE && limit <= 3));
		return rc == 3 ? 3 : 0;
	}
	rc = ubuf_write(out, s, n, &done, deadline);
	TEST_TRUE(rc == 0 ? done == n : passes(rc) && done < n);
	TEST_TRUE(rc == 0 || n > limit || done == 0);
	TEST_TRUE(pending(out) <= limit);
	return done;
}

static void write_model(struct ubuf_out *out, const char *s, size_t size, uint32_t *seed,
			size_t limit)
{
	int rc;

	for (size_t at = 0; at < size; ) {
		if (test_random(seed) % 8 == 0) {
			rc = ubuf_flush(out, some_deadline(seed));
			TEST_TRUE(passes(rc) || (rc == 0 && pending(out) == 0));
		}
		at += write_one(out, s + at, size - at, seed, limit);
	}
	while ((rc = ubuf_flush(out, NEVER)) != 0)
		TEST_TRUE(passes(rc));
	TEST_TRUE(out->bo_base.b_data == NULL);
}

static size_t some_limit(uint32_t *seed)
{
	static const size_t limits_of_model[] = { 1, 7, 40, 4096, UBUF_LIMIT };

	return limits_of_model[test_random(seed) % COUNT(limits_of_model)];
}

static void read_from_peer(uint32_t *seed, size_t size)
{
	struct peer p = { .p_size = size, .p_fails = test_random(seed) % 2 * 5,
			  .p_piece = test_random(seed) % 2 ? 3 : 5000,
			  .p_seed = test_random(seed) };
	size_t limit = some_limit(seed);
	struct ubuf_in in;
	char *s = make_text(size, seed);

	p.p_data = s;
	ubuf_in_over(&in, test_random(seed) % 2 ? &with_wait : &without_wait, &p, limit);
	read_model(&in, s, size, seed, limit);
	ubuf_in_free(&in);
	free(s);
}

static void write_to_peer(uint32_t *seed, size_t size)
{
	struct peer p = { .p_fails = test_random(seed) % 2 * 5,
			  .p_piece = test_random(seed) % 2 ? 3 : 5000,
			  .p_seed = test_random(seed), .p_got = malloc(size) };
	size_t limit = some_limit(seed);
	struct ubuf_out out;
	char *s = make_text(size, seed);

	ubuf_out_over(&out, &with_wait, &p, limit);
	write_model(&out, s, size, seed, limit);
	TEST_EQUAL(p.p_end, size);
	TEST_EQUAL(memcmp(p.p_got, s, size), 0);
	ubuf_out_free(&out);
	free(p.p_got);
	free(s);
}

static void pieces(void)
{
	size_t rounds = test_scale(200, 8);

	for (uint32_t i = 1; i <= rounds; i++) {
		uint32_t seed = i;

		test_seed = i;
		read_from_peer(&seed, 3000);
		write_to_peer(&seed, 3000);
	}
	test_seed = 0;
}

/* ---- The same between threads, through descriptors ---- */

struct side {
	int      s_fd;
	char    *s_text;
	size_t   s_size;
	uint32_t s_seed;
};

/* The buffers are in frames, and these move. */
static void send_side(void *arg)
{
	struct side *s = arg;
	uint32_t seed = s->s_seed;
	size_t limit = some_limit(&seed);
	struct ubuf_out out;

	ubuf_out_init(&out, s->s_fd, limit);
	write_model(&out, s->s_text, s->s_size, &seed, limit);
	ubuf_out_free(&out);
	TEST_EQUAL(unet_close(s->s_fd), 0);
}

static void receive_side(void *arg)
{
	struct side *s = arg;
	uint32_t seed = s->s_seed + 1;
	size_t limit = some_limit(&seed);
	struct ubuf_in in;

	ubuf_in_init(&in, s->s_fd, limit);
	read_model(&in, s->s_text, s->s_size, &seed, limit);
	ubuf_in_free(&in);
	TEST_EQUAL(unet_close(s->s_fd), 0);
}

static void make_pipe(int fds[2])
{
	TEST_EQUAL(pipe(fds), 0);
}

static void through(void (*make)(int fds[2]), uint32_t seed)
{
	struct side *s = calloc(2, sizeof *s);
	int fds[2];

	test_seed = seed;
	make(fds);
	s[0] = (struct side){ .s_fd = fds[0], .s_size = test_scale(20000, 2000),
			      .s_seed = seed };
	s[0].s_text = make_text(s[0].s_size, &seed);
	s[1] = s[0];
	s[1].s_fd = fds[1];
	if (ustack_self()) {
		struct ustack *u = go(send_side, &s[1]);

		receive_side(&s[0]);
		join(u);
	} else {
		pthread_t native = go_native(send_side, &s[1]);

		receive_side(&s[0]);
		join_native(native);
	}
	free(s[0].s_text);
	free(s);
	test_seed = 0;
}

NET_TEST(sockets)
{
	for (uint32_t i = 1; i <= test_scale(12, 3); i++) {
		through(make_pipe, 3 * i);
		through(unix_pair, 3 * i + 1);
		through(tcp_pair, 3 * i + 2);
	}
}

/* ---- Waits that end early ---- */

struct reader {
	struct ubuf_in      r_in;
	struct ubuf_out     r_out;
	struct usync_scope *r_scope;
	atomic_int          r_step;
};

static void read_in_scope(void *arg)
{
	struct reader *r = arg;
	char *line;

	TEST_EQUAL(usync_scope_enter(r->r_scope), 0);
	TEST_EQUAL(ubuf_line(&r->r_in, &line, NEVER), -ECANCELED);
	TEST_EQUAL(usync_scope_leave(), 0);
	TEST_EQUAL(ubuf_line(&r->r_in, &line, usync_after(MILLI)), -ETIMEDOUT);
	TEST_EQUAL(ubuf_line(&r->r_in, &line, 0), -ETIMEDOUT);
	r->r_step = 1;
	TEST_EQUAL(ubuf_line(&r->r_in, &line, NEVER), 6);
	TEXT(6, line, "abcdef");
	r->r_step = 2;
	TEST_EQUAL(ubuf_line(&r->r_in, &line, NEVER), -ECANCELED);
	r->r_step = 3;
}

/* The part of a line that came before is there for the next call, of any thread. */
NET_TEST(ends_of_waits)
{
	struct reader *r = calloc(1, sizeof *r);
	struct ustack *u;
	int fds[2];
	char *line;

	unix_pair(fds);
	ubuf_in_init(&r->r_in, fds[0], 0);
	TEST_EQUAL(usync_scope_create(NULL, &r->r_scope, NEVER), 0);
	put(fds[1], "abc");
	u = go(read_in_scope, r);
	await_waiting(u);
	usync_scope_cancel(r->r_scope, -ECANCELED);
	while (r->r_step < 1)
		nap(1);
	put(fds[1], "def\ngh");
	while (r->r_step < 2)
		nap(1);
	TEST_EQUAL(ustack_cancel(u), 0);
	join(u);
	TEST_EQUAL(r->r_step, 3);
	put(fds[1], "i\n");
	TEST_EQUAL(ubuf_line(&r->r_in, &line, NEVER), 3);
	TEXT(3, line, "ghi");
	ubuf_in_free(&r->r_in);
	usync_scope_release(r->r_scope);
	close_both(fds);
	free(r);
}

/* Texts are whole at the peer though writes end at deadlines. */
NET_TEST(full_peer)
{
	struct ubuf_out out;
	int fds[2], rc, texts = 0, seen = 0, part = 0;
	char c[512];
	ssize_t n;

	unix_pair(fds);
	small_buffers(fds[0]);
	ubuf_out_init(&out, fds[0], 300);
	while ((rc = ubuf_printf(&out, usync_after(MILLI), "%0100d", texts)) == 100)
		texts++;
	TEST_EQUAL(rc, -ETIMEDOUT);
	TEST_EQUAL(ubuf_flush(&out, 0), -ETIMEDOUT);
	TEST_TRUE(pending(&out) > 0);
	do_not_wait(fds[1]);
	while ((n = read(fds[1], c, sizeof c)) > 0 || pending(&out) > 0) {
		for (ssize_t i = 0; i < n; i++) {
			part = 10 * part + (c[i] - '0');
			if (++seen % 100 == 0) {
				TEST_EQUAL(part, seen / 100 - 1);
				part = 0;
			}
		}
		rc = ubuf_flush(&out, 0);
		TEST_TRUE(rc == 0 || rc == -ETIMEDOUT);
	}
	TEST_EQUAL(seen, texts * 100);
	ubuf_out_free(&out);
	close_both(fds);
}

NET_TEST(lost_peer)
{
	struct ubuf_out out;
	struct ubuf_in in;
	int fds[2];
	char *line;

	tcp_pair(fds);
	ubuf_in_init(&in, fds[0], 0);
	ubuf_out_init(&out, fds[0], 0);
	put(fds[1], "a\nb");
	reset(fds[1]);
	TEST_EQUAL(ubuf_printf(&out, NEVER, "x"), 1);
	TEST_TRUE(ubuf_flush(&out, NEVER) < 0);
	TEST_TRUE(ubuf_flush(&out, NEVER) < 0);
	TEST_EQUAL(pending(&out), 1);
	while (ubuf_line(&in, &line, NEVER) == 1)
		;                               /* whether it is lost, systems differ */
	TEST_TRUE(ubuf_line(&in, &line, NEVER) < 0);
	ubuf_out_free(&out);
	TEST_EQUAL(pending(&out), 0);
	ubuf_in_free(&in);
	TEST_EQUAL(unet_close(fds[0]), 0);
}

/* ---- Texts ---- */

static void texts(void)
{
	static char many[UBUF_LIMIT + 1], got[3 * UBUF_LIMIT];
	struct peer p = { .p_got = got, .p_piece = 100000, .p_seed = 1 };
	struct ubuf_out out;

	memset(many, 'm', UBUF_LIMIT);
	p.p_end = 0;
	ubuf_out_over(&out, &with_wait, &p, 0);
	TEST_EQUAL(ubuf_printf(&out, NEVER, "%s", many), -EMSGSIZE);
	TEST_EQUAL(pending(&out), 0);
	TEST_EQUAL(ubuf_printf(&out, NEVER, "%lc", (wint_t)INT_MAX), -EILSEQ);
	TEST_EQUAL(ubuf_printf(&out, NEVER, "%d%s", 7, "x"), 2);
	TEST_EQUAL(ubuf_printf(&out, NEVER, "%s", ""), 0);
	TEST_EQUAL(ubuf_printf(&out, NEVER, "%s", many + 6), UBUF_LIMIT - 6);
	TEST_EQUAL(pending(&out), UBUF_LIMIT - 4);
	TEST_EQUAL(p.p_end, 0);
	TEST_EQUAL(ubuf_printf(&out, NEVER, "1234"), 4);        /* and its 0 */
	TEST_EQUAL(pending(&out), 4);
	TEST_EQUAL(ubuf_write(&out, many, UBUF_LIMIT - 4, NULL, NEVER), 0);
	TEST_EQUAL(pending(&out), UBUF_LIMIT);
	TEST_EQUAL(ubuf_write(&out, many, 0, NULL, NEVER), 0);
	TEST_EQUAL(pending(&out), UBUF_LIMIT);
	TEST_EQUAL(ubuf_flush(&out, NEVER), 0);
	TEST_EQUAL(p.p_end, 2 * UBUF_LIMIT - 4);
	TEST_EQUAL(memcmp(got, "7xm", 3), 0);
	TEST_EQUAL(memcmp(got + UBUF_LIMIT - 5, "m1234m", 6), 0);
	TEST_EQUAL(out.bo_base.b_data == NULL, 1);
	ubuf_out_free(&out);
}

static ssize_t write_nothing(void *peer, const void *data, size_t size, int64_t deadline)
{
	(void)peer, (void)data, (void)size, (void)deadline;
	return 0;
}

static void wrong_peer(void)
{
	static const struct ubuf_ops wrong = { peer_read, write_nothing, NULL, NULL };
	struct ubuf_out out;
	struct ubuf_in in;
	char *line;

	ubuf_in_over(&in, &wrong, NULL, 0);
	ubuf_out_over(&out, &wrong, NULL, 0);
	ubuf_tie(&in, &out);
	TEST_EQUAL(ubuf_printf(&out, NEVER, "a"), 1);
	TEST_EQUAL(ubuf_flush(&out, NEVER), -EIO);
	TEST_EQUAL(ubuf_line(&in, &line, NEVER), -EIO); /* "a" goes first */
	ubuf_in_free(&in);
	ubuf_out_free(&out);
}

/* ---- Idle ones, and ties ---- */

/* Answers each line. Before it waits, the answers go out. */
static void answer(void *arg)
{
	struct reader *r = arg;
	char *line;
	ssize_t n;

	while ((n = ubuf_line(&r->r_in, &line, NEVER)) >= 0)
		TEST_EQUAL(ubuf_printf(&r->r_out, NEVER, "<%s>", line), n + 2);
	TEST_EQUAL(n, -EPIPE);
}

/* On one processor, so the test may look into the other thread's buffers. */
static void idle(void)
{
	struct reader *r = calloc(1, sizeof *r);
	struct ustack *u;
	int fds[2];

	unix_pair(fds);
	ubuf_in_init(&r->r_in, fds[0], 0);
	ubuf_out_init(&r->r_out, fds[0], 0);
	ubuf_tie(&r->r_in, &r->r_out);
	u = go(answer, r);
	await_waiting(u);
	TEST_TRUE(r->r_in.bi_base.b_data == NULL);
	put(fds[1], "a\nbc\nd");
	receive(fds[1], "<a><bc>");             /* though a part of a line is there */
	put(fds[1], "e\n");
	receive(fds[1], "<de>");
	do
		nap(2);
	while (waiting(u) == 0);
	TEST_TRUE(r->r_in.bi_base.b_data == NULL);
	TEST_TRUE(r->r_out.bo_base.b_data == NULL);
	TEST_EQUAL(shutdown(fds[1], SHUT_WR), 0);
	join(u);
	ubuf_in_free(&r->r_in);
	ubuf_out_free(&r->r_out);
	close_both(fds);
	free(r);
}

CONF_CASE(lines, one_processor)
CONF_CASE(limits, one_processor)
CONF_CASE(pieces, one_processor)
CONF_CASE(texts, one_processor)
CONF_CASE(wrong_peer, one_processor)
NATIVE_CASE(sockets)
NATIVE_CASE(full_peer)
CONF_CASE(idle, one_processor)

int main(void)
{
	return over_all(OVER_ALL);
}
