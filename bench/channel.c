/* SPDX-License-Identifier: MIT */
/*
 * channel.c: values from one processor to another, through a channel.
 *
 *	channel CAPACITY VALUES
 *
 * A thread of ll sends VALUES numbers, a thread on another processor receives them.
 * Prints the seconds, and the sum of the numbers: VALUES (VALUES - 1) / 2.
 */
#include "../ll.h"
#include "../usync.h"

#define BENCH_PROGRAM "channel"
#include "bench.h"

static struct usync_chan *channel;
static size_t             values;
static uint64_t           sum;

static void usage(void)
{
	fprintf(stderr, "usage: channel CAPACITY VALUES\n");
	exit(2);
}

static void send_all(void *unused)
{
	(void)unused;
	for (uint64_t i = 0; i < values; i++)
		check(usync_chan_send(channel, &i, USCHED_NEVER), "send");
	usync_chan_close(channel);
}

static void receive_all(void *unused)
{
	uint64_t value;

	(void)unused;
	while (usync_chan_recv(channel, &value, USCHED_NEVER) == 0)
		sum += value;
}

int main(int argc, char **argv)
{
	struct uprocs_conf conf = { .c_processors = 2 };
	struct uprocs *ll;
	double start;

	if (argc != 3)
		usage();
	check(usync_chan_create(sizeof(uint64_t), number(argv[1], 0, 1 << 20), &channel),
	      "channel");
	values = number(argv[2], 1, 1 << 30);
	check(ll_create(&conf, &ll), "scheduler");
	start = now();
	check(ll_start(ll_group(ll, 0), send_all, NULL, NULL), "start");
	check(ll_start(ll_group(ll, 0), receive_all, NULL, NULL), "start");
	check(uprocs_destroy(ll, USCHED_NEVER), "end");
	printf("%.6f\n%llu\n", now() - start, (unsigned long long)sum);
	usync_chan_destroy(channel);
	return 0;
}
