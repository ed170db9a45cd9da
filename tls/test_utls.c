/* SPDX-License-Identifier: MIT */
/*
 * test_utls.c: sessions of TLS over rr, ll and foreign.h, with net.h. tls.sh makes
 * the certificates in the directory that USCHED_TLS names, and runs it.
 */
#include "../tests/help/net.h"

#include <openssl/err.h>
#include <openssl/ssl.h>

#include "../ubuf.h"
#include "utls.h"

enum { BIG = 1 << 20 };

/* A session each for the server and for the client, of one connection. */
struct both {
	int          b_fds[2];
	struct utls *b_server, *b_client;
	int          b_rc;              /* of the server's handshake */
	int64_t      b_deadline;
};

static const char *const chains[] = { "a", "b", "client", "stranger" };
static char paths[COUNT(chains)][2][128], authorities[128];

static struct utls_certificate certificate(size_t i)
{
	return (struct utls_certificate){ paths[i][0], paths[i][1] };
}

static struct utls_context *context(unsigned flags, size_t first, size_t n,
				    const char *alpn)
{
	struct utls_certificate some[2] = { certificate(first), certificate(first + 1) };
	struct utls_conf conf = { flags, some, n, authorities, alpn };
	struct utls_context *k;
	const char *why = NULL;

	TEST_EQUAL(utls_context_create(&conf, &k, &why), 0);
	return k;
}

static struct both *connect_by(void (*make_pair)(int fds[2]), struct utls_context *server,
			       struct utls_context *client, const char *host)
{
	struct both *b = calloc(1, sizeof *b);

	TEST_TRUE(b);
	make_pair(b->b_fds);
	b->b_deadline = NEVER;
	TEST_EQUAL(utls_create(server, b->b_fds[0], NULL, &b->b_server), 0);
	TEST_EQUAL(utls_create(client, b->b_fds[1], host, &b->b_client), 0);
	return b;
}

static struct both *connect_both(struct utls_context *server, struct utls_context *client,
				 const char *host)
{
	return connect_by(tcp_pair, server, client, host);
}

static void accept_it(void *arg)
{
	struct both *b = arg;

	b->b_rc = utls_handshake(b->b_server, b->b_deadline);
}

/* The result of the client's handshake. */
static int shake(struct both *b)
{
	struct ustack *u = go(accept_it, b);
	int rc = utls_handshake(b->b_client, NEVER);

	join(u);
	return rc;
}

static void end(struct both *b)
{
	utls_free(b->b_client);
	utls_free(b->b_server);
	TEST_EQUAL(unet_close(b->b_fds[0]), 0);
	TEST_EQUAL(unet_close(b->b_fds[1]), 0);
	free(b);
}

static void send_text(struct utls *from, struct utls *to, const char *text)
{
	char got[64] = "";
	size_t size = strlen(text), done;

	TEST_EQUAL(utls_write_all(from, text, size, &done, NEVER), 0);
	TEST_EQUAL(done, size);
	TEST_EQUAL(utls_read_all(to, got, size, &done, NEVER), 0);
	TEST_EQUAL(done, size);
	TEST_EQUAL(strcmp(got, text), 0);
}

/* ---- What works ---- */

/* A direction of a session: bytes that follow from the seed. */
struct half {
	struct utls *h_session;
	unsigned     h_seed;
};

static unsigned char byte_at(const struct half *h, size_t i)
{
	return (unsigned char)(i * 7 + (i >> 11) + h->h_seed);
}

static void write_much(void *arg)
{
	struct half *h = arg;
	unsigned char *data = malloc(BIG);

	TEST_TRUE(data);
	for (size_t i = 0; i < BIG; i++)
		data[i] = byte_at(h, i);
	TEST_EQUAL(utls_write_all(h->h_session, data, BIG, NULL, NEVER), 0);
	TEST_EQUAL(utls_shutdown(h->h_session, NEVER), 0);
	TEST_EQUAL(utls_write(h->h_session, "x", 1, NEVER), -EPIPE);
	free(data);
}

static void read_much(void *arg)
{
	struct half *h = arg;
	unsigned char *data = malloc(BIG);
	size_t wrong = 0;

	TEST_TRUE(data);
	TEST_EQUAL(utls_read_all(h->h_session, data, BIG, NULL, NEVER), 0);
	for (size_t i = 0; i < BIG; i++)
		wrong += data[i] != byte_at(h, i);
	TEST_EQUAL(wrong, 0);
	TEST_EQUAL(utls_read(h->h_session, data, BIG, NEVER), 0);
	TEST_EQUAL(utls_read(h->h_session, data, BIG, NEVER), 0);
	free(data);
}

/* Both directions at once, with a reader and a writer at each end; keys change. */
NET_TEST(talk)
{
	struct utls_context *server = context(0, 0, 2, "h2,http/1.1");
	struct utls_context *client = context(UTLS_CLIENT, 0, 0, "http/1.1,h2");
	struct both *b = connect_both(server, client, "a.example");
	struct half *h = calloc(4, sizeof *h);
	char text[UTLS_ALPN_MAX];
	struct ustack *u[4];

	TEST_EQUAL(shake(b), 0);
	TEST_EQUAL(b->b_rc, 0);
	TEST_EQUAL(strcmp(utls_alpn(b->b_server, text), "h2"), 0);
	TEST_EQUAL(strcmp(utls_alpn(b->b_client, text), "h2"), 0);
	TEST_EQUAL(strcmp(utls_name(b->b_server), "a.example"), 0);
	TEST_EQUAL(utls_resumed(b->b_client), 0);
	send_text(b->b_client, b->b_server, "hello");
	send_text(b->b_server, b->b_client, "how are you");
	TEST_EQUAL(SSL_key_update(utls_ssl(b->b_client), SSL_KEY_UPDATE_REQUESTED), 1);
	for (unsigned i = 0; i < 4; i++)
		h[i] = (struct half){ i < 2 ? b->b_client : b->b_server, i % 3 ? 5 : 3 };
	for (int i = 0; i < 4; i++)     /* client: 3 out, 5 in; server: 5 out, 3 in */
		u[i] = go(i % 2 ? read_much : write_much, &h[i]);
	for (int i = 0; i < 4; i++)
		join(u[i]);
	TEST_EQUAL(strcmp(utls_error(b->b_client), ""), 0);
	end(b);
	free(h);
	utls_context_free(server);
	utls_context_free(client);
}

/* Around what the first read of a burst takes, what one record has, and two. */
NET_TEST(sizes)
{
	static const size_t around[] = { 1, 1002, 2048, 16384, 32768 };
	struct utls_context *server = context(0, 0, 1, NULL);
	struct utls_context *client = context(UTLS_CLIENT, 0, 0, NULL);
	struct both *b = connect_both(server, client, "a.example");
	struct half h = { NULL, 1 };
	size_t wrong = 0, done;

	TEST_EQUAL(shake(b), 0);
	for (size_t i = 0; i < 3 * COUNT(around); i++) {
		size_t size = around[i % COUNT(around)] + i / COUNT(around);
		unsigned char *data = malloc(size + 1);

		for (size_t j = 0; j < size; j++)
			data[j] = byte_at(&h, j);
		TEST_EQUAL(utls_write_all(b->b_client, data, size, NULL, NEVER), 0);
		memset(data, 0, size);
		TEST_EQUAL(utls_read_all(b->b_server, data, size, &done, NEVER), 0);
		for (size_t j = 0; j < size; j++)
			wrong += data[j] != byte_at(&h, j);
		TEST_EQUAL(utls_read(b->b_server, data, 1, 0), -ETIMEDOUT);
		free(data);
	}
	TEST_EQUAL(wrong, 0);
	end(b);
	utls_context_free(server);
	utls_context_free(client);
}

/* The text that a client gets with its error, for this host. */
static const char *refusal(struct utls_context *server, const char *host)
{
	struct utls_context *client = context(UTLS_CLIENT, 0, 0, NULL);
	struct both *b = connect_both(server, client, host);
	const char *text;
	int rc = shake(b);

	text = utls_error(b->b_client);
	TEST_EQUAL(rc, *text ? -EPROTO : 0);
	if (rc)                         /* all later calls as well */
		TEST_EQUAL(utls_read(b->b_client, &rc, 1, NEVER), -EPROTO);
	end(b);
	utls_context_free(client);
	return text;
}

NET_TEST(names)
{
	struct utls_context *server = context(0, 0, 2, NULL);

	TEST_EQUAL(strcmp(refusal(server, "a.example"), ""), 0);
	TEST_EQUAL(strcmp(refusal(server, "b.example"), ""), 0);
	TEST_EQUAL(strcmp(refusal(server, "x.wild.example"), ""), 0);
	TEST_EQUAL(strcmp(refusal(server, "127.0.0.1"), ""), 0);
	TEST_EQUAL(strcmp(refusal(server, "127.0.0.2"), "IP address mismatch"), 0);
	TEST_EQUAL(strcmp(refusal(server, "c.example"), "hostname mismatch"), 0);
	utls_context_free(server);
	server = context(0, 3, 1, NULL);
	TEST_TRUE(strstr(refusal(server, "stranger.example"), "certificate"));
	utls_context_free(server);
}

/* What the server says to a client with `n' certificates, the first of which is this. */
static int present(unsigned flags, size_t first, size_t n)
{
	struct utls_context *server = context(flags, 0, 1, NULL);
	struct utls_context *client = context(UTLS_CLIENT, first, n, NULL);
	struct both *b = connect_both(server, client, "a.example");
	int rc;
	char c;

	shake(b);
	rc = b->b_rc;
	if (rc) {
		TEST_TRUE(*utls_error(b->b_server));
		TEST_EQUAL(utls_read(b->b_client, &c, 1, NEVER), -EPROTO);
		TEST_TRUE(strstr(utls_error(b->b_client), "alert"));
	} else {
		send_text(b->b_client, b->b_server, "it is me");
	}
	end(b);
	utls_context_free(server);
	utls_context_free(client);
	return rc;
}

NET_TEST(clients)
{
	TEST_EQUAL(present(UTLS_VERIFY, 2, 1), 0);
	TEST_EQUAL(present(UTLS_VERIFY, 0, 0), -EPROTO);
	TEST_EQUAL(present(UTLS_VERIFY, 3, 1), -EPROTO);
	TEST_EQUAL(present(UTLS_ASK, 2, 1), 0);
	TEST_EQUAL(present(UTLS_ASK, 0, 0), 0);
	TEST_EQUAL(present(UTLS_ASK, 3, 1), -EPROTO);
	TEST_EQUAL(present(0, 3, 1), 0);
}

/* Whether the session with this ticket was resumed; gets the next one. */
static int resume(struct utls_context *server, struct utls_context *client, int version,
		  struct utls_ticket **ticket)
{
	struct both *b = connect_both(server, client, "a.example");
	int resumed;

	SSL_set_max_proto_version(utls_ssl(b->b_client), version);
	if (*ticket)
		TEST_EQUAL(utls_resume(b->b_client, *ticket), 0);
	utls_ticket_free(*ticket);
	TEST_EQUAL(shake(b), 0);
	send_text(b->b_server, b->b_client, "with tickets");
	resumed = utls_resumed(b->b_client);
	TEST_EQUAL(utls_resumed(b->b_server), resumed);
	TEST_EQUAL(utls_ticket(b->b_client, ticket), 0);
	end(b);
	return resumed;
}

/* Connections go on with what they have. A load that fails changes nothing. */
NET_TEST(reload)
{
	struct utls_certificate some[2] = { certificate(1),
					    { paths[0][0], paths[1][1] } };
	struct utls_conf now = { .f_certificates = some, .f_count = 1 };
	struct utls_conf wrong = { .f_certificates = &some[1], .f_count = 1 };
	struct utls_context *server = context(0, 0, 1, NULL);
	struct utls_context *client = context(UTLS_CLIENT, 0, 0, NULL);
	struct both *b = connect_both(server, client, "a.example");
	struct both *late = connect_both(server, client, "a.example");
	const char *why = NULL;

	TEST_EQUAL(shake(b), 0);
	TEST_EQUAL(utls_context_load(server, &wrong, &why), -EPROTO);
	TEST_EQUAL(strcmp(why, "key values mismatch"), 0);
	TEST_EQUAL(strcmp(refusal(server, "a.example"), ""), 0);
	TEST_EQUAL(utls_context_load(server, &now, &why), 0);
	TEST_EQUAL(strcmp(refusal(server, "b.example"), ""), 0);
	TEST_EQUAL(strcmp(refusal(server, "a.example"), "hostname mismatch"), 0);
	TEST_EQUAL(shake(late), 0);
	send_text(b->b_client, b->b_server, "still here");
	utls_context_free(server);
	utls_context_free(client);
	send_text(b->b_server, b->b_client, "without contexts");
	send_text(late->b_server, late->b_client, "likewise");
	end(b);
	end(late);
}

NET_TEST(tickets)
{
	struct utls_certificate one = certificate(0);
	struct utls_conf conf = { .f_certificates = &one, .f_count = 1 };
	struct utls_context *server = context(0, 0, 1, NULL);
	struct utls_context *client = context(UTLS_CLIENT, 0, 0, NULL);
	const int versions[] = { TLS1_2_VERSION, TLS1_3_VERSION };

	for (size_t i = 0; i < COUNT(versions); i++) {
		struct utls_ticket *ticket = NULL;

		TEST_EQUAL(resume(server, client, versions[i], &ticket), 0);
		TEST_EQUAL(resume(server, client, versions[i], &ticket), 1);
		TEST_EQUAL(resume(server, client, versions[i], &ticket), 1);
		TEST_EQUAL(utls_context_load(server, &conf, NULL), 0);
		TEST_EQUAL(resume(server, client, versions[i], &ticket), 0);
		utls_ticket_free(ticket);
	}
	utls_context_free(server);
	utls_context_free(client);
}

/* ---- What fails ---- */

static void confs(void)
{
	struct utls_certificate a = certificate(0), none = { "/nowhere", "/nowhere" };
	struct utls_certificate odd = { paths[0][1], paths[0][0] };
	struct utls_context *k;
	const char *why = NULL;
	const struct {
		struct utls_conf conf;
		int              rc;
	} wrong[] = {
		{ { .f_flags = 0 }, -EINVAL },
		{ { UTLS_CLIENT | UTLS_VERIFY, NULL, 0, NULL, NULL }, -EINVAL },
		{ { UTLS_UNVERIFIED, &a, 1, NULL, NULL }, -EINVAL },
		{ { UTLS_VERIFY, &a, 1, NULL, NULL }, -EINVAL },
		{ { 64, &a, 1, NULL, NULL }, -EINVAL },
		{ { 0, &a, 1, NULL, "h2,,x" }, -EINVAL },
		{ { 0, &none, 1, NULL, NULL }, -ENOENT },
		{ { 0, &odd, 1, NULL, NULL }, -EPROTO },
		{ { UTLS_CLIENT, NULL, 0, "/nowhere", NULL }, -ENOENT },
		{ { UTLS_CLIENT, NULL, 0, paths[0][1], NULL }, -EPROTO },
	};

	for (size_t i = 0; i < COUNT(wrong); i++) {
		TEST_EQUAL(utls_context_create(&wrong[i].conf, &k, &why), wrong[i].rc);
		TEST_TRUE(why && *why);
		TEST_EQUAL(ERR_peek_error(), 0);
	}
}

/* Bytes that OpenSSL has asked for. */
static atomic_size_t asked;

static void *counted_malloc(size_t size, const char *file, int line)
{
	(void)file, (void)line;
	asked += size;
	return malloc(size);
}

static void *counted_realloc(void *p, size_t size, const char *file, int line)
{
	(void)file, (void)line;
	asked += size;
	return realloc(p, size);
}

static void counted_free(void *p, const char *file, int line)
{
	(void)file, (void)line;
	free(p);
}

/*
 * A handshake that ends by its deadline or by a cancel goes on in the next call. OpenSSL
 * has no buffers for one of which nothing has come.
 */
NET_TEST(late)
{
	struct utls_context *server = context(0, 0, 1, NULL);
	struct utls_context *client = context(UTLS_CLIENT, 0, 0, NULL);
	struct both *b = connect_both(server, client, "a.example");
	struct ustack *u;
	size_t before;
	char c;

	before = asked;
	b->b_deadline = usync_after(5 * MILLI);
	accept_it(b);
	TEST_EQUAL(b->b_rc, -ETIMEDOUT);
	TEST_EQUAL(asked, before);
	b->b_deadline = NEVER;
	u = go(accept_it, b);
	await_waiting(u);
	TEST_EQUAL(utls_read(b->b_server, &c, 1, 0), -EBUSY);
	TEST_EQUAL(ustack_cancel(u), 0);
	join(u);
	TEST_EQUAL(b->b_rc, -ECANCELED);
	TEST_EQUAL(utls_shutdown(b->b_client, NEVER), -ENOTCONN);
	TEST_EQUAL(utls_handshake(b->b_client, 0), -ETIMEDOUT);
	TEST_EQUAL(shake(b), 0);
	send_text(b->b_client, b->b_server, "at last");
	TEST_EQUAL(utls_read(b->b_server, &c, 1, 0), -ETIMEDOUT);
	TEST_EQUAL(utls_wait_readable(b->b_server, usync_after(MILLI)), -ETIMEDOUT);
	TEST_EQUAL(utls_read(b->b_server, &c, 1, usync_after(MILLI)), -ETIMEDOUT);
	end(b);
	utls_context_free(server);
	utls_context_free(client);
}

/* Bytes that were taken and not sent are sent by later calls, in their order. */
NET_TEST(slow)
{
	struct utls_context *server = context(0, 0, 1, NULL);
	struct utls_context *client = context(UTLS_CLIENT, 0, 0, NULL);
	struct both *b = connect_both(server, client, "a.example");
	struct half *h = calloc(2, sizeof *h);
	unsigned char *data = malloc(BIG);
	size_t at = 0, done, times = 0;
	struct ustack *u = NULL;
	int rc;

	TEST_EQUAL(shake(b), 0);
	small_buffers(b->b_fds[0]);
	h[0] = (struct half){ b->b_server, 9 };
	h[1] = (struct half){ b->b_client, 9 };
	for (size_t i = 0; i < BIG; i++)
		data[i] = byte_at(h, i);
	while ((rc = utls_write_all(b->b_server, data + at, BIG - at, &done,
				    usync_after(MILLI))) != 0) {
		TEST_EQUAL(rc, -ETIMEDOUT);
		at += done;
		if (++times == 3)
			u = go(read_much, &h[1]);
	}
	TEST_TRUE(times > 2);
	TEST_EQUAL(at + done, BIG);
	TEST_EQUAL(utls_shutdown(b->b_server, NEVER), 0);
	join(u);
	end(b);
	free(h);
	free(data);
	utls_context_free(server);
	utls_context_free(client);
}

/* Of lines, each with a mark, until the end. */
static void answer_lines(void *arg)
{
	struct utls *s = arg;
	struct ubuf_out out;
	struct ubuf_in in;
	char *line;
	ssize_t n;

	ubuf_in_over(&in, utls_ops(), s, 0);
	ubuf_out_over(&out, utls_ops(), s, 0);
	ubuf_tie(&in, &out);
	while ((n = ubuf_line(&in, &line, NEVER)) >= 0)
		TEST_TRUE(ubuf_printf(&out, NEVER, "%s!\n", line) > 0);
	TEST_EQUAL(n, -EPIPE);
	TEST_EQUAL(utls_shutdown(s, NEVER), 0);
	ubuf_in_free(&in);
	ubuf_out_free(&out);
}

NET_TEST(lines)
{
	struct utls_context *server = context(0, 0, 1, NULL);
	struct utls_context *client = context(UTLS_CLIENT, 0, 0, NULL);
	struct both *b = connect_both(server, client, "a.example");
	struct ustack *u = go(answer_lines, b->b_server);
	struct ubuf_out out;
	struct ubuf_in in;
	char *line;

	ubuf_in_over(&in, utls_ops(), b->b_client, 0);
	ubuf_out_over(&out, utls_ops(), b->b_client, 0);
	for (int i = 0; i < 300; i++)           /* more than one buffer of answers */
		TEST_TRUE(ubuf_printf(&out, NEVER, "%d of many\n", i) > 0);
	TEST_EQUAL(ubuf_flush(&out, NEVER), 0);
	for (int i = 0; i < 300; i++) {
		TEST_TRUE(ubuf_line(&in, &line, NEVER) > 0);
		TEST_EQUAL(atoi(line), i);
		TEST_EQUAL(line[strlen(line) - 1], '!');
	}
	TEST_EQUAL(ubuf_line(&in, &line, usync_after(MILLI)), -ETIMEDOUT);
	TEST_EQUAL(utls_shutdown(b->b_client, NEVER), 0);
	TEST_EQUAL(ubuf_line(&in, &line, NEVER), -EPIPE);
	join(u);
	ubuf_in_free(&in);
	ubuf_out_free(&out);
	end(b);
	utls_context_free(server);
	utls_context_free(client);
}

/* A flush is done when all is sent: the buffer may be empty, and the session not. */
NET_TEST(flushes)
{
	struct utls_context *server = context(0, 0, 1, NULL);
	struct utls_context *client = context(UTLS_CLIENT, 0, 0, NULL);
	struct both *b = connect_both(server, client, "a.example");
	char *data = calloc(1, BIG);
	size_t left = BIG, before;
	struct ubuf_out out;
	ssize_t n;

	TEST_EQUAL(shake(b), 0);
	small_buffers(b->b_fds[0]);
	ubuf_out_over(&out, utls_ops(), b->b_server, BIG);
	TEST_EQUAL(ubuf_write(&out, data, BIG, NULL, NEVER), 0);
	do {
		before = out.bo_base.b_end - out.bo_base.b_start;
		TEST_EQUAL(ubuf_flush(&out, usync_after(MILLI)), -ETIMEDOUT);
	} while (out.bo_base.b_end - out.bo_base.b_start < before);
	left -= before;
	ubuf_out_free(&out);
	while (ubuf_flush(&out, usync_after(MILLI)) == -ETIMEDOUT) {
		n = utls_read(b->b_client, data, 5000, usync_after(MILLI));
		TEST_TRUE(n > 0 || n == -ETIMEDOUT);
		left -= n > 0 ? (size_t)n : 0;
	}
	TEST_EQUAL(utls_read_all(b->b_client, data, left, NULL,
				 usync_after(100 * USYNC_SECOND)), 0);
	free(data);
	end(b);
	utls_context_free(server);
	utls_context_free(client);
}

/* Streams that end without their end, before and after the handshake. */
NET_TEST(truncated)
{
	struct utls_context *server = context(0, 0, 1, NULL);
	struct utls_context *client = context(UTLS_CLIENT, 0, 0, NULL);
	struct both *b = connect_both(server, client, "a.example");
	char c;

	TEST_EQUAL(shake(b), 0);
	send_text(b->b_server, b->b_client, "so far");
	TEST_EQUAL(unet_shutdown(b->b_fds[0], SHUT_WR), 0);
	TEST_EQUAL(utls_read(b->b_client, &c, 1, NEVER), -ECONNRESET);
	TEST_EQUAL(utls_read(b->b_client, &c, 1, NEVER), -ECONNRESET);
	end(b);
	b = connect_both(server, client, "a.example");
	TEST_EQUAL(shake(b), 0);
	TEST_EQUAL(utls_shutdown(b->b_server, NEVER), 0);       /* half closed */
	TEST_EQUAL(utls_read(b->b_client, &c, 1, NEVER), 0);
	send_text(b->b_client, b->b_server, "one way");
	TEST_EQUAL(utls_shutdown(b->b_client, 0), 0);
	TEST_EQUAL(utls_read(b->b_server, &c, 1, NEVER), 0);
	end(b);
	b = connect_both(server, client, "a.example");
	TEST_EQUAL(unet_shutdown(b->b_fds[1], SHUT_WR), 0);
	accept_it(b);
	TEST_EQUAL(b->b_rc, -ECONNRESET);
	end(b);
	utls_context_free(server);
	utls_context_free(client);
}

/* Of a handshake, a byte of which is changed, or of which nothing is right. */
static void rubbish(void)
{
	static const char request[] = "GET / HTTP/1.1\r\nHost: a.example\r\n\r\n";
	struct utls_context *server = context(0, 0, 1, NULL);
	struct utls_context *client = context(UTLS_CLIENT, 0, 0, NULL);
	unsigned seed = 1;

	for (size_t i = 0; i < test_scale(400, 20); i++) {
		struct both *b = connect_both(server, client, "a.example");
		unsigned char text[2048];
		ssize_t n = sizeof request;

		memcpy(text, request, sizeof request);
		if (i > 0) {
			utls_handshake(b->b_client, 0);
			n = unet_read(b->b_fds[0], text, sizeof text, NEVER);
			TEST_TRUE(n > 64);
			seed = seed * 1103515245 + 12345;
			text[(seed >> 8) % (i % 2 ? 16u : (unsigned)n)] ^= 1u << (i % 8);
		}
		TEST_EQUAL(unet_write(b->b_fds[1], text, (size_t)n, 0), n);
		TEST_EQUAL(unet_shutdown(b->b_fds[1], SHUT_WR), 0);
		accept_it(b);
		TEST_TRUE(b->b_rc == -EPROTO || b->b_rc == -ECONNRESET);
		TEST_TRUE(*utls_error(b->b_server));
		TEST_EQUAL(ERR_peek_error(), 0);
		if (i == 0)
			TEST_EQUAL(strcmp(utls_error(b->b_server), "http request"), 0);
		end(b);
	}
	utls_context_free(server);
	utls_context_free(client);
}

/* ---- Peers that flood ---- */

enum { FLOOD = 200 };                   /* changes of keys: much more than at once */

/* A client that changes keys, asks for the same each time, and reads no reply. */
struct flood {
	struct utls *f_client;
	int          f_changes;
	int          f_rc;
};

/* Until the peer does not take more; a byte of data ends it. */
static void change_keys(void *arg)
{
	struct flood *f = arg;

	for (int i = 0; i < f->f_changes && f->f_rc == 0; i++) {
		TEST_EQUAL(SSL_key_update(utls_ssl(f->f_client),
					  SSL_KEY_UPDATE_REQUESTED), 1);
		f->f_rc = utls_handshake(f->f_client, NEVER);
	}
	if (f->f_rc == 0)
		f->f_rc = utls_write_all(f->f_client, "x", 1, NULL, NEVER);
}

static struct both *shaken(void (*make_pair)(int fds[2]), struct utls_context *server,
			   struct utls_context *client)
{
	struct both *b = connect_by(make_pair, server, client, "a.example");

	TEST_EQUAL(shake(b), 0);
	send_text(b->b_server, b->b_client, "tickets come before");
	return b;
}

/* More records without data than a peer has a use for. */
NET_TEST(floods)
{
	struct utls_context *server = context(0, 0, 1, NULL);
	struct utls_context *client = context(UTLS_CLIENT, 0, 0, NULL);
	struct both *b = shaken(tcp_pair, server, client);
	struct flood *f = calloc(1, sizeof *f);
	struct ustack *u;
	char c;

	*f = (struct flood){ b->b_client, 3000, 0 };
	u = go(change_keys, f);
	TEST_EQUAL(utls_read(b->b_server, &c, 1, NEVER), -EPROTO);
	TEST_EQUAL(strcmp(utls_error(b->b_server), "too many records without data"), 0);
	TEST_EQUAL(utls_write(b->b_server, "x", 1, NEVER), -EPROTO);
	for (int i = 0; i < 2; i++)
		unet_shutdown(b->b_fds[i], SHUT_RDWR);  /* the first may reset both */
	join(u);
	end(b);
	free(f);
	utls_context_free(server);
	utls_context_free(client);
}

/* The deadline comes though the socket has something all the time; nothing is lost. */
NET_TEST(floods_late)
{
	struct utls_context *server = context(0, 0, 1, NULL);
	struct utls_context *client = context(UTLS_CLIENT, 0, 0, NULL);
	struct both *b = shaken(tcp_pair, server, client);
	struct flood f = { b->b_client, FLOOD, 0 };
	int64_t long_ago = 1;
	char c;

	change_keys(&f);
	TEST_EQUAL(utls_read(b->b_server, &c, 1, long_ago), -ETIMEDOUT);
	TEST_EQUAL(utls_read(b->b_server, &c, 1, NEVER), 1);
	TEST_EQUAL(c, 'x');
	send_text(b->b_client, b->b_server, "as if nothing had been");
	send_text(b->b_server, b->b_client, "both ways");
	end(b);
	utls_context_free(server);
	utls_context_free(client);
}

struct neighbour {
	bool     n_stop;
	unsigned n_turns;
};

static void take_turns(void *arg)
{
	struct neighbour *n = arg;

	for (; !n->n_stop; n->n_turns++)
		TEST_EQUAL(ustack_yield(), 0);
}

/* A thread on the same processor has its turns before the data comes. */
static void floods_fairly(void)
{
	struct utls_context *server = context(0, 0, 1, NULL);
	struct utls_context *client = context(UTLS_CLIENT, 0, 0, NULL);
	struct both *b = shaken(tcp_pair, server, client);
	struct flood f = { b->b_client, FLOOD, 0 };
	struct neighbour *n = calloc(1, sizeof *n);
	struct ustack *u;
	unsigned before;
	char c;

	change_keys(&f);
	u = go(take_turns, n);
	nap(1);
	before = n->n_turns;
	TEST_EQUAL(utls_read(b->b_server, &c, 1, NEVER), 1);
	TEST_TRUE(n->n_turns - before >= FLOOD / 32);
	n->n_stop = true;
	join(u);
	end(b);
	free(n);
	utls_context_free(server);
	utls_context_free(client);
}

/* Likewise if records come with data, of which each takes a millisecond of work. */
static void works_fairly(void)
{
	struct utls_context *server = context(0, 0, 1, NULL);
	struct utls_context *client = context(UTLS_CLIENT, 0, 0, NULL);
	struct both *b = shaken(tcp_pair, server, client);
	struct neighbour *n = calloc(1, sizeof *n);
	struct ustack *u;
	unsigned before;
	char c;

	for (int i = 0; i < 40; i++)            /* they come with one read */
		TEST_EQUAL(utls_write(b->b_client, "x", 1, NEVER), 1);
	u = go(take_turns, n);
	nap(1);
	before = n->n_turns;
	for (int i = 0; i < 40; i++) {
		int64_t end;

		TEST_EQUAL(utls_read(b->b_server, &c, 1, NEVER), 1);
		end = usync_after(MILLI);
		while (usync_after(0) < end)
			;
	}
	TEST_TRUE(n->n_turns - before >= 40 / 4 - 1);
	n->n_stop = true;
	join(u);
	end(b);
	free(n);
	utls_context_free(server);
	utls_context_free(client);
}

static void flood_on(void *arg)
{
	struct flood *f = arg;

	while (f->f_rc == 0)
		change_keys(f);
}

/*
 * Replies that the peer does not read are kept up to a limit, data among them or not. Not
 * over TCP: Linux drops what comes to a peer whose buffer is full, acknowledgements too.
 */
NET_TEST(hoards)
{
	struct utls_context *server = context(0, 0, 1, NULL);
	struct utls_context *client = context(UTLS_CLIENT, 0, 0, NULL);
	struct both *b = shaken(unix_pair, server, client);
	struct flood *f = calloc(1, sizeof *f);
	struct ustack *u;
	ssize_t n = 1;
	char c;

	*f = (struct flood){ b->b_client, FLOOD, 0 };
	small_buffers(b->b_fds[0]);
	small_buffers(b->b_fds[1]);
	u = go(flood_on, f);                    /* it waits until the server reads */
	for (int i = 0; i < 200 && n == 1; i++)
		n = utls_read(b->b_server, &c, 1, NEVER);
	TEST_EQUAL(n, -EPROTO);
	TEST_EQUAL(strcmp(utls_error(b->b_server), "the peer does not take replies"), 0);
	for (int i = 0; i < 2; i++)
		unet_shutdown(b->b_fds[i], SHUT_RDWR);  /* the first may reset both */
	join(u);
	end(b);
	free(f);
	utls_context_free(server);
	utls_context_free(client);
}

/* Leaves errors of its own in the queue wherever other threads wait. */
static void spoil(void *arg)
{
	atomic_int *stop = arg;

	while (!*stop) {
		ERR_raise(ERR_LIB_USER, 1);
		nap(1);
	}
	ERR_clear_error();
}

static void queue_of_errors(void)
{
	struct utls_context *server = context(0, 0, 1, NULL);
	struct utls_context *client = context(UTLS_CLIENT, 0, 0, NULL);
	atomic_int *stop = calloc(1, sizeof *stop);
	struct ustack *u = go(spoil, stop);
	char c;

	for (int i = 0; i < 4; i++) {
		struct both *b = connect_both(server, client, "a.example");

		ERR_raise(ERR_LIB_USER, 2);
		TEST_EQUAL(utls_handshake(b->b_server, usync_after(3 * MILLI)),
			   -ETIMEDOUT);
		TEST_EQUAL(shake(b), 0);
		ERR_raise(ERR_LIB_USER, 3);
		TEST_EQUAL(utls_read(b->b_client, &c, 1, usync_after(3 * MILLI)),
			   -ETIMEDOUT);
		send_text(b->b_client, b->b_server, "none of my errors");
		end(b);
	}
	*stop = 1;
	join(u);
	free(stop);
	utls_context_free(server);
	utls_context_free(client);
}

/* ---- Many ---- */

struct many {
	struct utls_context *m_context;
	atomic_int           m_served;
};

static void serve(int fd, void *arg)
{
	struct many *m = arg;
	struct utls *s;
	char c;

	TEST_EQUAL(utls_create(m->m_context, fd, NULL, &s), 0);
	while (utls_wait_readable(s, NEVER) == 0 && utls_read(s, &c, 1, NEVER) == 1)
		TEST_EQUAL(utls_write_all(s, &c, 1, NULL, NEVER), 0);
	TEST_EQUAL(utls_shutdown(s, NEVER), 0);
	utls_free(s);
	unet_close(fd);
	m->m_served++;
}

static void many(void)
{
	size_t n = test_scale(1000, 20);
	struct utls_context *client = context(UTLS_CLIENT, 0, 0, NULL);
	struct many *m = calloc(1, sizeof *m);
	struct utls **s = calloc(n, sizeof *s);
	int *fds = calloc(n, sizeof *fds), listener = mini_listen(128);
	struct unet_addr at = bound(listener);
	struct ustack *acceptor;
	char c;

	m->m_context = context(0, 0, 1, NULL);
	acceptor = go_acceptor(listener, serve, m);
	for (size_t i = 0; i < n; i++) {
		fds[i] = unet_connect(&at, NEVER);
		TEST_TRUE(fds[i] >= 0);
		TEST_EQUAL(utls_create(client, fds[i], "a.example", &s[i]), 0);
		TEST_EQUAL(utls_handshake(s[i], NEVER), 0);
	}
	for (size_t i = 0; i < n; i++)
		TEST_EQUAL(utls_write(s[i], "abc" + i % 3, 1, NEVER), 1);
	for (size_t i = 0; i < n; i++) {
		TEST_EQUAL(utls_read(s[i], &c, 1, NEVER), 1);
		TEST_EQUAL(c, "abc"[i % 3]);
		TEST_EQUAL(utls_shutdown(s[i], NEVER), 0);
		TEST_EQUAL(utls_read(s[i], &c, 1, NEVER), 0);
		utls_free(s[i]);
		unet_close(fds[i]);
	}
	while ((size_t)m->m_served < n)
		nap(1);
	TEST_EQUAL(unet_close(listener), 0);
	join(acceptor);
	utls_context_free(m->m_context);
	utls_context_free(client);
	free(m);
	free(s);
	free(fds);
}

NATIVE_CASE(confs)
CONF_CASE(rubbish, one_processor)
CONF_CASE(floods_fairly, one_processor)
CONF_CASE(works_fairly, one_processor)
CONF_CASE(queue_of_errors, one_processor)
CONF_CASE(many, two_processors)

int main(void)
{
	const char *where = getenv("USCHED_TLS");

	if (!where)
		return 77;
	if (CRYPTO_set_mem_functions(counted_malloc, counted_realloc, counted_free) != 1)
		return 1;
	snprintf(authorities, sizeof authorities, "%s/ca.pem", where);
	for (size_t i = 0; i < COUNT(chains); i++) {
		snprintf(paths[i][0], sizeof paths[i][0], "%s/%s.pem", where, chains[i]);
		snprintf(paths[i][1], sizeof paths[i][1], "%s/%s.key", where, chains[i]);
	}
	return over_all(OVER_ALL);
}
