/* SPDX-License-Identifier: MIT */
/*
 * peers.h: what the fuzz targets of servers share: clients at the other ends of socket
 * pairs, in threads of the server's own scheduler. After the example, which has `rr'.
 *
 * The input is what the first client sends, except for
 *
 *   PAUSE      the server is to run first
 *   SLEEP      time passes
 *   REPEAT n   the last piece n times more
 *   PEER n     the next client goes on
 *
 * What a server answers may not depend on how the bytes come together: without these, the
 * same is sent once more in small pieces.
 */
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "fuzz.h"

enum { PAUSE = 0xff, SLEEP = 0xfe, REPEAT = 0xfd, PEER = 0xfc };

enum {
	PEERS      = 2,
	PIECE_MAX  = 7,                 /* bytes */
	PIECES_MAX = 128,               /* fit what the system keeps of a stream */
	REPEAT_MAX = 200000,            /* bytes in all */
	AT_ONCE    = 4096,              /* bytes of them */
	GOT_MAX    = 1 << 24,           /* bytes: then a client leaves */
};

#define NAP (30 * USYNC_SECOND)

static struct peer {
	int      fd;
	uint32_t recent;                /* the last four bytes that it has sent */
	bool     heads;                 /* HEAD was among them */
	char    *got;
	size_t   size, room;
	bool     left;                  /* `got' has no end, and is not checked */
} peers[PEERS];

static size_t pieces;                   /* bytes sent at a time; 0: all */
static size_t repeated;                 /* bytes */

static void read_answers(void *arg)
{
	struct peer *p = arg;
	char buffer[16384];
	ssize_t n;

	while (!p->left
	       && (n = unet_read(p->fd, buffer, sizeof buffer, USCHED_NEVER)) > 0) {
		if (p->size + (size_t)n > p->room) {
			p->room = 2 * (p->size + (size_t)n);
			p->got = realloc(p->got, p->room);
			CHECK(p->got);
		}
		memcpy(p->got + p->size, buffer, (size_t)n);
		p->size += (size_t)n;
		p->left = p->size >= GOT_MAX;
	}
	if (p->left)
		unet_shutdown(p->fd, SHUT_RDWR);
}

/* The server may have closed, or not read any more. */
static void send_piece(struct peer *p, const uint8_t *from, size_t size)
{
	size_t n = pieces ? pieces : size;

	for (size_t i = 0; i < size; i++) {
		p->recent = p->recent << 8 | from[i];
		p->heads |= p->recent == 0x48454144;
	}
	for (; size > 0; size -= n, from += n) {
		n = n < size ? n : size;
		unet_write_all(p->fd, from, n, NULL, usync_after(60 * USYNC_SECOND));
		if (pieces)
			ustack_yield();
	}
}

/* Many at once: a piece of a few bytes is repeated thousands of times. */
static void repeat(struct peer *p, const uint8_t *from, size_t size, unsigned times)
{
	static uint8_t many[AT_ONCE];
	size_t n = 0;

	for (; times > 0 && repeated < REPEAT_MAX; times--, repeated += size + 1) {
		if (size > AT_ONCE - n) {
			send_piece(p, many, n);
			n = 0;
		}
		if (size > AT_ONCE) {
			send_piece(p, from, size);
		} else if (size > 0) {
			memcpy(many + n, from, size);
			n += size;
		}
	}
	send_piece(p, many, n);
}

static void write_requests(void *unused)
{
	struct peer *p = peers;
	const uint8_t *last = fuzz_input;
	size_t size = 0;

	(void)unused;
	while (fuzz_left > 0) {
		unsigned byte = *fuzz_input;

		if (byte < PEER) {
			last = fuzz_input;
			for (size = 0; fuzz_left > 0 && *fuzz_input < PEER; size++)
				fuzz_take(256);
			send_piece(p, last, size);
			continue;
		}
		fuzz_take(256);
		if (byte == PEER)
			p = &peers[fuzz_take(PEERS)];
		else if (byte == REPEAT)
			repeat(p, last, size, fuzz_take(256));
		else
			usync_sleep_until(usync_after(byte == SLEEP ? NAP : 1));
	}
	for (p = peers; p < peers + PEERS; p++)
		unet_shutdown(p->fd, SHUT_WR);
}

/* Until all have ended. What was answered is in `peers'. */
static void run_server(void (*serve)(int fd, void *), const uint8_t *data, size_t size)
{
	struct uprocs_conf conf = { .c_embed = 1, .c_stacks = 4 };
	struct ustack_how how = { .h_serve = serve };

	fuzz_now = USYNC_SECOND;
	fuzz_input = data;
	fuzz_left = size;
	repeated = 0;
	CHECK(rr_create(&conf, &rr) == 0);
	for (struct peer *p = peers; p < peers + PEERS; p++) {
		int pair[2];

		CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0);
		*p = (struct peer){ .fd = pair[0], .got = malloc(1) };
		how.h_fd = pair[1];
		CHECK(rr_start_with(rr, &how, NULL, NULL, NULL) == 0);
		CHECK(rr_start(rr, read_answers, p, NULL) == 0);
	}
	CHECK(rr_start(rr, write_requests, NULL, NULL) == 0);
	CHECK(uprocs_destroy(rr, USCHED_NEVER) == 0);
	for (struct peer *p = peers; p < peers + PEERS; p++)
		unet_close(p->fd);
}

static bool is_plain(const uint8_t *data, size_t size)
{
	while (size > 0 && data[size - 1] < PEER)
		size--;
	return size == 0;
}

/* One run, between reset(), and check() of what each client got. */
static void run_once(void (*serve)(int fd, void *), void (*reset)(void),
		     void (*check)(struct peer *p), const uint8_t *data, size_t size)
{
	reset();
	run_server(serve, data, size);
	for (struct peer *p = peers; p < peers + PEERS; p++)
		if (!p->left)
			check(p);
}

/* The first byte is the size of the pieces, if it is sent once more. */
static int feed(void (*serve)(int fd, void *), void (*reset)(void),
		void (*check)(struct peer *p), const uint8_t *data, size_t size)
{
	struct peer first[PEERS];

	if (size == 0)
		return -1;
	pieces = 0;
	run_once(serve, reset, check, data + 1, size - 1);
	memcpy(first, peers, sizeof first);
	if (is_plain(data + 1, size - 1)) {
		pieces = 1 + data[0] % PIECE_MAX + size / PIECES_MAX;
		run_once(serve, reset, check, data + 1, size - 1);
		CHECK(peers[0].size == first[0].size);
		CHECK(memcmp(peers[0].got, first[0].got, first[0].size) == 0);
		for (int i = 0; i < PEERS; i++)
			free(peers[i].got);
	}
	for (int i = 0; i < PEERS; i++)
		free(first[i].got);
	return 0;
}
