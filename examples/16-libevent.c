/* SPDX-License-Identifier: MIT */
/*
 * Threads inside a loop of libevent (libevent-dev): a server and a client, each a thread
 * that blocks, and a timer of the loop, all on one native thread. Build it with
 *
 *   cc -O2 examples/16-libevent.c build/one/usched-all.c -Ibuild/one -pthread \
 *     -levent_core -o libevent
 *
 * It prints:
 *
 *   question 1, answer 1
 *   the loop's timer
 *   question 2, answer 2
 *   the loop's timer
 *   question 3, answer 3
 *   the loop's timer
 *   end
 *
 * The scheduler has no native thread of its own (c_embed). An event of its descriptor
 * runs the threads that are ready. Call-backs of the loop that wake threads make that
 * event active, and threads may call functions of the loop.
 */
#include <event2/event.h>
#include <stdio.h>
#include <sys/socket.h>

#include "usched-all.h"

/* ---- What it takes to have threads in a loop ---- */

static struct uprocs *rr;
static struct event *turn;

static void run(evutil_socket_t fd, short what, void *unused)
{
	(void)fd, (void)what, (void)unused;
	uprocs_run(rr);
}

/* After threads were started or woken from outside of all threads. */
static void run_soon(void)
{
	event_active(turn, EV_READ, 0);
}

static int begin(struct event_base *loop)
{
	struct uprocs_conf conf = { .c_embed = 1 };
	int fd = rr_create(&conf, &rr);

	if (fd == 0 && (fd = uprocs_run(rr)) >= 0)
		turn = event_new(loop, fd, EV_READ | EV_PERSIST, run, NULL);
	return turn ? event_add(turn, NULL) : -1;
}

/* ---- The program ---- */

static struct event *timer;
static struct usync_sem ticks;

static void ticked(evutil_socket_t fd, short what, void *unused)
{
	(void)fd, (void)what, (void)unused;
	puts("the loop's timer");
	usync_sem_post(&ticks);
	run_soon();
}

static void serve(int fd, void *unused)
{
	char c;

	(void)unused;
	while (unet_read(fd, &c, 1, USCHED_NEVER) == 1)
		unet_write_all(fd, &c, 1, NULL, USCHED_NEVER);
	unet_close(fd);
	event_del(turn);                /* the last one: without it the loop ends */
}

static void ask(int fd, void *unused)
{
	struct timeval soon = { .tv_usec = 10000 };
	char answer;

	(void)unused;
	for (int i = 1; i <= 3; i++) {
		unet_write_all(fd, &"0123"[i], 1, NULL, USCHED_NEVER);
		unet_read_all(fd, &answer, 1, NULL, USCHED_NEVER);
		printf("question %d, answer %c\n", i, answer);
		event_add(timer, &soon);
		usync_sem_wait(&ticks, usync_after(60 * USYNC_SECOND));
	}
	unet_close(fd);
}

static int start(void (*serve_it)(int fd, void *arg), int fd)
{
	const struct ustack_how how = { .h_serve = serve_it, .h_fd = fd };

	return rr_start_with(rr, &how, NULL, NULL, NULL);
}

int main(void)
{
	struct event_base *loop = event_base_new();
	int fds[2];

	if (!loop || socketpair(AF_UNIX, SOCK_STREAM, 0, fds) || begin(loop)
	    || start(serve, fds[0]) || start(ask, fds[1]))
		return 1;
	timer = event_new(loop, -1, 0, ticked, NULL);
	run_soon();
	if (!timer || event_base_dispatch(loop) < 0 || uprocs_destroy(rr, USCHED_NEVER))
		return 1;
	event_free(timer);
	event_free(turn);
	event_base_free(loop);
	puts("end");
	return 0;
}
