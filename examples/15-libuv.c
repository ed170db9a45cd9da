/* SPDX-License-Identifier: MIT */
/*
 * Threads inside a loop of libuv (libuv1-dev): a server and a client, each a thread that
 * blocks, and a timer of the loop, all on one native thread. Build it with
 *
 *   cc -O2 examples/15-libuv.c build/one/usched-all.c -Ibuild/one -pthread \
 *     -luv -o libuv
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
 * The scheduler has no native thread of its own (c_embed). Before the loop sleeps, it
 * runs the threads that are ready, and it sleeps no longer than they do: it polls the
 * scheduler's descriptor. Call-backs of the loop may wake threads, and threads may call
 * functions of the loop.
 */
#include <stdio.h>
#include <stdlib.h>
#include <uv.h>

#include "usched-all.h"

/* ---- What it takes to have threads in a loop ---- */

static struct uprocs *rr;
static uv_prepare_t before_sleep;
static uv_poll_t wake_up;

static void woken(uv_poll_t *poll, int status, int events)
{
	(void)poll, (void)status, (void)events; /* run() is next */
}

static void run(uv_prepare_t *unused)
{
	int fd = uprocs_run(rr);

	(void)unused;
	if (fd < 0)
		abort();                        /* no descriptor for it is left */
	if (!wake_up.loop && uv_poll_init(before_sleep.loop, &wake_up, fd) == 0)
		uv_poll_start(&wake_up, UV_READABLE, woken);
}

static int begin(uv_loop_t *loop)
{
	struct uprocs_conf conf = { .c_embed = 1 };
	int rc = rr_create(&conf, &rr);

	uv_prepare_init(loop, &before_sleep);
	uv_prepare_start(&before_sleep, run);
	return rc;
}

static void end(void)
{
	uv_close((uv_handle_t *)&before_sleep, NULL);
	uv_close((uv_handle_t *)&wake_up, NULL);
}

/* ---- The program ---- */

static uv_timer_t timer;
static struct usync_sem ticks;

static void ticked(uv_timer_t *unused)
{
	(void)unused;
	puts("the loop's timer");
	usync_sem_post(&ticks);         /* wakes a thread; run() comes before a sleep */
}

static void serve(int fd, void *unused)
{
	char c;

	(void)unused;
	while (unet_read(fd, &c, 1, USCHED_NEVER) == 1)
		unet_write_all(fd, &c, 1, NULL, USCHED_NEVER);
	unet_close(fd);
	end();
}

static void ask(int fd, void *unused)
{
	char answer;

	(void)unused;
	for (int i = 1; i <= 3; i++) {
		unet_write_all(fd, &"0123"[i], 1, NULL, USCHED_NEVER);
		unet_read_all(fd, &answer, 1, NULL, USCHED_NEVER);
		printf("question %d, answer %c\n", i, answer);
		uv_timer_start(&timer, ticked, 10, 0);
		usync_sem_wait(&ticks, usync_after(60 * USYNC_SECOND));
	}
	unet_close(fd);
	uv_close((uv_handle_t *)&timer, NULL);
}

static int start(void (*serve_it)(int fd, void *arg), int fd)
{
	const struct ustack_how how = { .h_serve = serve_it, .h_fd = fd };

	return rr_start_with(rr, &how, NULL, NULL, NULL);
}

int main(void)
{
	uv_loop_t *loop = uv_default_loop();
	int fds[2];

	if (!loop || socketpair(AF_UNIX, SOCK_STREAM, 0, fds) || begin(loop)
	    || start(serve, fds[0]) || start(ask, fds[1]))
		return 1;
	uv_timer_init(loop, &timer);
	uv_run(loop, UV_RUN_DEFAULT);
	if (uprocs_destroy(rr, USCHED_NEVER) || uv_loop_close(loop))
		return 1;
	puts("end");
	return 0;
}
