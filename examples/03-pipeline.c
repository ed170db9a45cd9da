/* SPDX-License-Identifier: MIT */
/*
 * A pipeline: how many words of each length has a text? Build it with
 *
 *   cc -O2 examples/03-pipeline.c build/one/usched-all.c -Ibuild/one -pthread \
 *     -o pipeline
 *
 * after `make one'. It prints:
 *
 *   1 letter: 7
 *   2 letters: 20
 *   3 letters: 16
 *   4 letters: 17
 *   5 letters: 8
 *   6 letters: 6
 *   7 letters: 3
 *   8 letters: 1
 *   12 letters: 1
 *
 * Each stage is a thread. Channels connect the stages:
 *
 *                       +--> worker --lengths[0]--+
 *     reader --lines----+--> worker --lengths[1]--+--> counter
 *                       +--> worker --lengths[2]--+
 *
 * The workers share one channel: a line goes to the next free worker. The counter has a
 * channel from each worker, and selects among them. A stage that has no more to send
 * closes its channel, so the end follows the last value down the pipeline. No stage runs
 * far ahead of the next: `lines' holds four lines, the other channels hold nothing.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "usched-all.h"

enum {
	WORKERS = 3,
	LINES   = 4,                    /* capacity of the channel */
	LONGEST = 32,
};

#define PATIENCE (60 * USYNC_SECOND)    /* a longer wait is an error */

static const char *const text[] = {
	"A thread that waits is no more than the frames on its stack. When",
	"another one needs the place they are copied to the heap, and when",
	"it is to go on they are copied back. As long as there is room for",
	"all of them nothing is copied, and a wait is a few instructions.",
	"A channel is a queue with two ends; a stage of a pipeline waits at",
	"both, and has no idea of the others.",
};

static struct usync_chan *lines;                /* of const char * */
static struct usync_chan *lengths[WORKERS];     /* of size_t, one from each worker */
static unsigned           count[LONGEST + 1];   /* words of each length */

static int check(int rc)
{
	if (rc < 0) {
		fprintf(stderr, "pipeline: %s\n", ustack_error(rc));
		exit(1);
	}
	return rc;
}

static void read_lines(void *arg)
{
	(void)arg;
	for (size_t i = 0; i < sizeof text / sizeof *text; i++)
		check(usync_chan_send(lines, &text[i], USCHED_NEVER));
	check(usync_chan_close(lines));
}

static void work(void *arg)
{
	struct usync_chan *out = *(struct usync_chan **)arg;
	const char *line;
	int rc;

	while ((rc = usync_chan_recv(lines, &line, USCHED_NEVER)) == 0) {
		for (line += strspn(line, " .,;"); *line; line += strspn(line, " .,;")) {
			size_t length = strcspn(line, " .,;");

			check(usync_chan_send(out, &length, USCHED_NEVER));
			line += length;
		}
	}
	if (rc != -EPIPE)
		check(rc);
	check(usync_chan_close(out));
}

/* Takes lengths from all workers, until all have closed. */
static void count_lengths(void *arg)
{
	struct usync_case worker[WORKERS];
	size_t length[WORKERS];
	int open = WORKERS;

	(void)arg;
	for (int i = 0; i < WORKERS; i++)
		worker[i] = (struct usync_case){
			.cs_chan  = lengths[i],
			.cs_op    = USYNC_RECV,
			.cs_value = &length[i],
		};
	while (open > 0) {
		int i = check(usync_select(worker, WORKERS, usync_after(PATIENCE)));

		if (worker[i].cs_rc == 0) {
			count[length[i] < LONGEST ? length[i] : LONGEST]++;
		} else {
			worker[i].cs_chan = NULL;       /* closed: left out from now on */
			open--;
		}
	}
}

int main(void)
{
	struct ustack *thread[WORKERS + 2];
	struct uprocs *rr;

	check(rr_create(NULL, &rr));
	check(usync_chan_create(sizeof(const char *), LINES, &lines));
	for (int i = 0; i < WORKERS; i++) {
		check(usync_chan_create(sizeof(size_t), 0, &lengths[i]));
		check(rr_start(rr, work, &lengths[i], &thread[i]));
	}
	check(rr_start(rr, read_lines, NULL, &thread[WORKERS]));
	check(rr_start(rr, count_lengths, NULL, &thread[WORKERS + 1]));
	for (int i = 0; i < WORKERS + 2; i++)
		check(ustack_join(thread[i], NULL, USCHED_NEVER));
	check(uprocs_destroy(rr, USCHED_NEVER));
	usync_chan_destroy(lines);
	for (int i = 0; i < WORKERS; i++)
		usync_chan_destroy(lengths[i]);
	for (int i = 1; i <= LONGEST; i++)
		if (count[i])
			printf("%d letter%s: %u\n", i, i > 1 ? "s" : "", count[i]);
	return 0;
}
