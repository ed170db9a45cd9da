/* SPDX-License-Identifier: MIT */
/*
 * socks.c: a fuzz target for a proxy that its clients tell where to connect: SOCKS 4, 4a
 * and 5 (RFC 1928, 1929), and CONNECT of HTTP. It is written over ubuf.h, as programs do
 * it, and what is behind it is always backend.h. The target watches ubuf.c, too: work
 * between two looks at the clock is bounded: work.c.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "../../rr.h"
#include "../../ubuf.h"
#include "../../unet.h"
#include "../../usync.h"

static struct uprocs *rr;

#include "peers.h"
#include "backend.h"

#define SETUP (10 * USYNC_SECOND)       /* for all that comes before the bytes */

enum { V5 = 5, V4 = 4, CONNECT = 1, IPV4 = 1, NAME = 3, IPV6 = 4, FIELDS = 64 };

struct session {                        /* shared by two threads */
	int             fd, to;
	struct ubuf_in  in;
	struct ustack  *other;
	int64_t         by;
};

static int reply(const struct session *s, const void *data, size_t size)
{
	return unet_write_all(s->fd, data, size, NULL, s->by);
}

/* The user "u" has any password. 0 or an error. */
static int log_in(struct session *s)
{
	char *text, user;
	int rc = ubuf_take(&s->in, 2, &text, s->by);
	size_t n = rc ? 0 : (uint8_t)text[1];

	if (rc || text[0] != 1)
		return rc ? rc : -EPROTO;
	rc = ubuf_take(&s->in, n + 1, &text, s->by);
	if (rc)
		return rc;
	user = n == 1 ? text[0] : 0;
	rc = ubuf_take(&s->in, (uint8_t)text[n], &text, s->by);
	if (rc == 0)
		rc = reply(s, user == 'u' ? "\1\0" : "\1\1", 2);
	return rc ? rc : user == 'u' ? 0 : -EACCES;
}

/* Bytes of an address of a type, or an error. */
static int address_size(struct session *s, int type)
{
	char *size;
	int rc;

	if (type != NAME)
		return type == IPV4 ? 4 : type == IPV6 ? 16 : -EAFNOSUPPORT;
	rc = ubuf_take(&s->in, 1, &size, s->by);
	return rc ? rc : (uint8_t)*size;
}

static int ask_v5(struct session *s)
{
	char answer[10] = { V5, 0, 0, IPV4 }, *text;
	bool open, known;
	int rc = ubuf_take(&s->in, 1, &text, s->by), command;
	size_t n = rc ? 0 : (uint8_t)text[0];

	rc = rc ? rc : ubuf_take(&s->in, n, &text, s->by);
	if (rc)
		return rc;
	open = memchr(text, 0, n);
	known = !open && memchr(text, 2, n);
	rc = reply(s, open ? "\5\0" : known ? "\5\2" : "\5\xff", 2);
	rc = rc ? rc : open ? 0 : known ? log_in(s) : -EACCES;
	rc = rc ? rc : ubuf_take(&s->in, 4, &text, s->by);
	if (rc)
		return rc;
	command = text[1];
	rc = address_size(s, text[3]);
	if (rc >= 0)
		rc = ubuf_take(&s->in, (size_t)rc + 2, &text, s->by);
	answer[1] = command != CONNECT ? 7 : rc == -EAFNOSUPPORT ? 8 : 0;
	if (rc && rc != -EAFNOSUPPORT)
		return rc;
	rc = reply(s, answer, sizeof answer);
	return rc ? rc : answer[1] ? -EPROTO : 0;
}

/* The address 0.0.0.x: a name is behind that of the user. */
static int ask_v4(struct session *s)
{
	char *text;
	int rc = ubuf_take(&s->in, 7, &text, s->by);
	bool named;

	if (rc)
		return rc;
	named = memcmp(text + 3, "\0\0\0", 3) == 0 && text[6];
	rc = text[0] == CONNECT ? 0 : -EPROTO;
	for (int i = 0; i <= named && rc == 0; i += rc == 0 && !*text)
		rc = ubuf_take(&s->in, 1, &text, s->by);
	return rc ? rc : reply(s, "\0\x5a\0\0\0\0\0\0", 8);
}

static int ask_http(struct session *s)
{
	char *line, *end;
	ssize_t n = ubuf_line(&s->in, &line, s->by);
	int rc = n < 0 ? (int)n : 0, fields = 0;

	if (n >= 0 && strncmp(line, "ONNECT ", 7) != 0)
		rc = -EPROTO;
	end = rc ? NULL : strchr(line + 7, ' ');
	if (rc == 0 && (!end || strncmp(end, " HTTP/1.", 8) != 0))
		rc = -EPROTO;
	while (rc == 0 && n > 0) {
		n = ubuf_line(&s->in, &line, s->by);
		rc = n < 0 ? (int)n : ++fields > FIELDS ? -EMSGSIZE : 0;
	}
	if (rc) {
		reply(s, "HTTP/1.1 400 Bad Request\r\n\r\n", 28);
		return rc;
	}
	return reply(s, "HTTP/1.1 200 OK\r\n\r\n", 19);
}

static int ask(struct session *s)
{
	char *first;
	int rc = ubuf_take(&s->in, 1, &first, s->by);

	if (rc)
		return rc;
	return *first == V5 ? ask_v5(s) : *first == V4 ? ask_v4(s)
		: *first == 'C' ? ask_http(s) : -EPROTO;
}

static void send_down(void *arg)
{
	struct session *s = arg;
	char buffer[4096];
	ssize_t n;

	while ((n = unet_read(s->to, buffer, sizeof buffer, usync_after(PATIENCE))) > 0)
		if (unet_write_all(s->fd, buffer, (size_t)n, NULL, usync_after(PATIENCE)))
			break;
	unet_shutdown(s->fd, SHUT_WR);
}

static void send_up(struct session *s)
{
	char buffer[4096];
	ssize_t n;

	do {
		n = ubuf_read(&s->in, buffer, sizeof buffer, usync_after(PATIENCE));
		if (n > 0 && unet_write_all(s->to, buffer, (size_t)n, NULL,
					    usync_after(PATIENCE)))
			n = -1;
	} while (n > 0);
	unet_shutdown(s->to, SHUT_WR);
	if (n < 0)
		ustack_cancel(s->other);
	CHECK(ustack_join(s->other, NULL, USCHED_NEVER) == 0);
}

static void serve(int fd, void *unused)
{
	struct session *s = calloc(1, sizeof *s);
	struct ustack *behind_it;

	(void)unused;
	CHECK(s && rr_start(rr, be_backend, NULL, &behind_it) == 0);
	s->fd = fd;
	s->by = usync_after(SETUP);
	ubuf_in_init(&s->in, fd, 512);
	s->to = ask(s) ? -1 : unet_connect(&backend, s->by);
	if (s->to >= 0) {
		CHECK(rr_start(rr, send_down, s, &s->other) == 0);
		send_up(s);
		unet_close(s->to);
	} else {
		ustack_cancel(behind_it);
	}
	unet_shutdown(fd, SHUT_WR);
	while (unet_read(fd, (char[4096]){ 0 }, 4096, usync_after(SETUP)) > 0)
		;
	CHECK(ustack_join(behind_it, NULL, USCHED_NEVER) == 0);
	ubuf_in_free(&s->in);
	unet_close(fd);
	free(s);
}

static const uint8_t *input;
static size_t         input_size;

static void reset(void)
{
	open_backend(input, input_size);
}

static void check_reply(struct peer *p)
{
	CHECK(p->size == 0 || *p->got == V5 || *p->got == 0 || *p->got == 'H');
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	input = data;
	input_size = size;
	return feed(serve, reset, check_reply, data, size);
}
