/* SPDX-License-Identifier: MIT */
/*
 * requests.c: a server with short and long requests, for requests-load.
 *
 *	requests PORT [PROCESSORS]
 *
 * A request is a byte: `s' is to compute for 20 us, `l' for 2 ms; the answer is the same
 * byte. Each connection is a thread of rr, on PROCESSORS (1). It prints `ready' when it
 * listens on 127.0.0.1:PORT, and ends upon SIGTERM.
 */
#include <signal.h>

#include "../rr.h"
#include "../unet.h"

#define BENCH_PROGRAM "requests"
#include "chain.h"

/* us: the Makefile defines others for requests-slice. */
#ifndef SLICE
#define SLICE 0
#endif

static void usage(void)
{
	fprintf(stderr, "usage: requests PORT [PROCESSORS]\n");
	exit(2);
}

static void end(int signal)
{
	(void)signal;
	_Exit(0);
}

static void serve(int fd, void *unused)
{
	char kind;

	(void)unused;
	while (unet_read(fd, &kind, 1, USCHED_NEVER) == 1) {
		compute(kind == 'l' ? LONG : SHORT);
		if (unet_write_all(fd, &kind, 1, NULL, USCHED_NEVER))
			break;
	}
	unet_close(fd);
}

int main(int argc, char **argv)
{
	struct uprocs_conf conf = { .c_processors = 1, .c_slice = SLICE * 1000 };
	struct unet_addr address;
	char text[32];
	struct uprocs *rr;
	struct ustack_how how = { .h_serve = serve };
	int listener;

	if (argc < 2 || argc > 3)
		usage();
	snprintf(text, sizeof text, "127.0.0.1:%zu", number(argv[1], 1, UINT16_MAX));
	if (argc > 2)
		conf.c_processors = (unsigned)number(argv[2], 1, 1024);
	signal(SIGTERM, end);
	raise_limit();
	calibrate();
	check(unet_addr(text, &address), "address");
	listener = unet_listen(&address, 4096, 0);
	if (listener < 0)
		fail("listen", listener);
	check(rr_create(&conf, &rr), "scheduler");
	printf("ready\n");
	fflush(stdout);
	while ((how.h_fd = unet_accept(listener, NULL, USCHED_NEVER)) >= 0)
		check(rr_start_with(rr, &how, NULL, NULL, NULL), "start");
	fail("accept", how.h_fd);
}
