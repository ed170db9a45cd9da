/* SPDX-License-Identifier: MIT */
/*
 * httpd.c: a fuzz target for examples/05-httpd.c, to be run in a directory with some
 * files: it answers what the input asks for. Each answer has a status and as many bytes
 * as it says, nothing is between them, and work is bounded: work.c.
 */
#define _GNU_SOURCE             /* memmem(), and for the example */
#define USCHED_DEBUG                    /* usched-all.h has uinspect.h */
#include <errno.h>
#include <http_parser.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "fuzz.h"

int httpd_main(int argc, char **argv);

/* The parser's bytes are work. */
static size_t execute(http_parser *p, const http_parser_settings *s, const char *data,
		      size_t size)
{
	size_t n = http_parser_execute(p, s, data, size);

	fuzz_charge(n);
	return n;
}

enum {                                  /* blocks, as fuzz_work */
	OPEN_WORK    = 2000,            /* of a call of the system */
	REQUEST_WORK = 400000,          /* 64 KiB: 8 of fields, seven times, and chunks */
};

/* Each other openat2() finds that a file was renamed meanwhile. */
static unsigned opens;

static long open_anew(long number, int fd, const char *path, struct open_how *how,
		      size_t size)
{
	fuzz_charge(OPEN_WORK);
	if (number == SYS_openat2 && opens++ % 2 == 0) {
		errno = EAGAIN;
		return -1;
	}
	return syscall(number, fd, path, how, size);
}

#undef syscall
#define syscall open_anew

/* In the place of counters, which differ from run to run: always the same file. */
static int put_metrics(int fd)
{
	const struct timespec times[2] = { { 0 } };
	static const char text[] = "usched_processors 1\n";

	return write(fd, text, sizeof text - 1) < 0 || futimens(fd, times) ? -errno : 0;
}

#define main httpd_main
#define http_parser_execute execute
#define uinspect_metrics put_metrics
#include "../../examples/05-httpd.c"
#undef main
#undef uinspect_metrics

#include "peers.h"

static const char VERSION[] = "HTTP/1.1 ";

static bool begins(const char *text, const char *end)
{
	size_t size = sizeof VERSION - 1;

	return (size_t)(end - text) > size && memcmp(text, VERSION, size) == 0;
}

/* Behind the answer at `text'. To HEAD, the body is only announced. */
static const char *skip_answer(const char *text, const char *end, bool heads)
{
	const char *body = memmem(text, (size_t)(end - text), "\r\n\r\n", 4);
	const char *length = memmem(text, (size_t)(end - text), "Content-Length: ", 16);
	long size = 0;

	CHECK(begins(text, end) && body);
	CHECK(text[9] >= '1' && text[9] <= '5' && text[12] == ' ');
	body += 4;
	if (length && length < body)
		size = strtol(length + 16, NULL, 10);
	CHECK(size >= 0);
	if (heads && (body == end || begins(body, end)))
		return body;
	CHECK(end - body >= size);
	return body + size;
}

static void check_answers(struct peer *p)
{
	const char *text = p->got, *end = text + p->size;

	while (text < end)
		text = skip_answer(text, end, p->heads);
}

static void reset(void)
{
	for (size_t i = 0; i < KEPT; i++) {
		free(kept[i]);
		kept[i] = NULL;
	}
	CHECK(busy.g_count == 0);
	slots.sm_count = 0;
	costs = 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	http_parser_set_max_header_size(8192);
	fuzz_work = REQUEST_WORK;
	opens = 0;
	return feed(connection, reset, check_answers, data, size);
}
