/* SPDX-License-Identifier: MIT */
/*
 * An echo server for continuous use: with limits, deadlines, and a graceful end.
 * Build it with
 *
 *   cc -O2 examples/04-echo.c build/one/usched-all.c -Ibuild/one -pthread -o echo
 *
 * after `make one'. Run it with
 * an address, or a port of 127.0.0.1, and, optionally, a number of processors, and talk
 * to it:
 *
 *   ./echo 127.0.0.1:7000 &
 *   socat - TCP:127.0.0.1:7000
 *
 * Each connection is a thread: a loop of wait, read, write. A waiting thread has no
 * buffer, so an idle connection costs a few hundred bytes. And its frames are shallow, so
 * a few stacks do for all: a switch copies them, which takes less time than to touch a
 * stack for each connection.
 *
 * SIGTERM and SIGINT end it. It stops accepting and cancels the threads of all
 * connections. A cancel takes effect where these wait for input and have nothing to echo.
 * They echo what was received, and close.
 */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "usched-all.h"

#define IDLE  (300 * USYNC_SECOND)      /* for a client to send something */
#define STALL (30 * USYNC_SECOND)       /* for a client to take its echo */
#define GRACE (5 * USYNC_SECOND)        /* for all to end after a signal */
#define PAUSE (USYNC_SECOND / 10)       /* after a failed accept */

enum {
	CONNECTIONS = 16384,            /* more wait until one has ended */
	SIZE        = 16384,            /* bytes of a buffer */
	STACKS      = 64,               /* of each processor */
	IMAGE       = 192,              /* bytes: for the frames of a connection */
};

/* On the heap: other threads follow pointers to it. */
struct connection {
	struct connection *next, *prev;
	struct ustack     *thread;
	int                fd;
};

/*
 * All threads share these. A native mutex protects the list: no thread switches while it
 * holds the mutex, and to lock it cannot fail, unlike a usync_mutex.
 */
static struct uprocs         *rr;
static struct usync_sem   room = { .sm_count = CONNECTIONS };
static struct usync_group open_connections;
static pthread_mutex_t    lock = PTHREAD_MUTEX_INITIALIZER;
static struct connection *connections;
static int                listener;
static int                signals;

static int check(int rc, const char *what)
{
	if (rc < 0) {
		fprintf(stderr, "echo: %s: %s\n", what, ustack_error(rc));
		exit(1);
	}
	return rc;
}

/* Both: under the lock. */
static void enlist(struct connection *c)
{
	c->prev = NULL;
	c->next = connections;
	if (c->next)
		c->next->prev = c;
	connections = c;
}

static void unlist(struct connection *c)
{
	if (c->prev)
		c->prev->next = c->next;
	else
		connections = c->next;
	if (c->next)
		c->next->prev = c->prev;
}

/*
 * Writes the rest of a buffer that the client did not take at once. The buffer is for
 * other threads meanwhile, so the rest gets one of its own. It is written even if the
 * thread is cancelled. 0, or an error.
 */
static __attribute__((noinline)) int write_rest(int fd, const char *text, size_t size)
{
	char *rest = malloc(size);
	int shield = ustack_shield(1), rc = -ENOMEM;

	if (rest) {
		memcpy(rest, text, size);
		rc = unet_write_all(fd, rest, size, NULL, usync_after(STALL));
	}
	ustack_shield(shield > 0);
	free(rest);
	return rc;
}

/*
 * Reads what has arrived, and echoes it, or drops it if `echo' is 0. Returns whether the
 * connection goes on. All threads of a native thread share the buffer: with a deadline of
 * 0 a call does not switch, so no thread waits with bytes in it.
 */
static int copy(int fd, int echo)
{
	static _Thread_local char buffer[SIZE];
	ssize_t n = unet_read(fd, buffer, sizeof buffer, 0), put = n;

	if (n <= 0)
		return n == -ETIMEDOUT;         /* nothing has arrived */
	if (echo)
		put = unet_write(fd, buffer, (size_t)n, 0);
	if (put == -ETIMEDOUT)
		put = 0;
	return put == n || (put >= 0 && !write_rest(fd, buffer + put, (size_t)(n - put)));
}

/*
 * Echoes what has arrived, sends the end of the stream, and waits until the client closes
 * as well. A close at once would answer later input with a reset, and the client would
 * lose what it has not received yet.
 */
static void finish(int fd)
{
	int64_t end = usync_after(GRACE);

	ustack_shield(1);
	while (usync_after(0) < end && unet_wait(fd, POLLIN, 0) == 0 && copy(fd, 1))
		;
	unet_shutdown(fd, SHUT_WR);
	while (usync_after(0) < end && unet_wait(fd, POLLIN, end) == 0 && copy(fd, 0))
		;
}

static void talk(void *arg)
{
	struct connection *c = arg;

	ustack_detach(c->thread);
	while (unet_wait(c->fd, POLLIN, usync_after(IDLE)) == 0 && copy(c->fd, 1))
		;
	if (ustack_cancelled())
		finish(c->fd);
	pthread_mutex_lock(&lock);
	unlist(c);                              /* no cancel from here on */
	pthread_mutex_unlock(&lock);
	unet_close(c->fd);
	free(c);
	usync_group_done(&open_connections);
	usync_sem_post(&room);
}

/* Starts a thread for the new connection. Without memory for one, closes it. */
static void start(int fd)
{
	struct connection *c = malloc(sizeof *c);
	int rc = -ENOMEM;

	usync_group_add(&open_connections, 1);
	if (c) {
		c->fd = fd;
		pthread_mutex_lock(&lock);
		enlist(c);
		rc = rr_start(rr, talk, c, &c->thread);
		if (rc)
			unlist(c);
		pthread_mutex_unlock(&lock);
	}
	if (rc) {
		free(c);
		unet_close(fd);
		usync_group_done(&open_connections);
		usync_sem_post(&room);
	}
}

/* Waits for room, and for a connection. Returns its descriptor, or an error. */
static int accept_one(void)
{
	int rc = usync_sem_wait(&room, USCHED_NEVER);

	if (rc == 0) {
		rc = unet_accept(listener, NULL, USCHED_NEVER);
		if (rc < 0)
			usync_sem_post(&room);
	}
	return rc;
}

/* The acceptor's thread, until it is cancelled. Out of memory, it cannot even sleep. */
static void accept_all(void *arg)
{
	(void)arg;
	while (!ustack_cancelled()) {
		int fd = accept_one();

		if (fd >= 0)
			start(fd);
		else if (usync_sleep_until(usync_after(PAUSE)))
			ustack_yield();
	}
}

static void serve(void *arg)
{
	struct ustack *acceptor;

	(void)arg;
	check(rr_start(rr, accept_all, NULL, &acceptor), "start");
	check(unet_signal(signals, USCHED_NEVER), "signal");
	ustack_cancel(acceptor);
	ustack_join(acceptor, NULL, USCHED_NEVER);
	unet_close(listener);
	unet_close(signals);
	pthread_mutex_lock(&lock);
	for (struct connection *c = connections; c; c = c->next)
		ustack_cancel(c->thread);
	pthread_mutex_unlock(&lock);
	usync_group_wait(&open_connections, USCHED_NEVER);
}

/* 0: the text is no number from 1 to max. */
static unsigned number(const char *text, unsigned max)
{
	char *end;
	long n = strtol(text, &end, 10);

	return *end || n < 1 || n > (long)max ? 0 : (unsigned)n;
}

/* 0, or the error of unet_addr(). A port alone is one of 127.0.0.1. */
static int find_address(const char *text, struct unet_addr *address)
{
	char here[32];

	if (number(text, 65535)) {
		snprintf(here, sizeof here, "127.0.0.1:%s", text);
		text = here;
	}
	return unet_addr(text, address);
}

/* For unet_signal(). Called before native threads start, since they inherit the mask. */
static void block_signals(sigset_t *set)
{
	sigemptyset(set);
	sigaddset(set, SIGTERM);
	sigaddset(set, SIGINT);
	pthread_sigmask(SIG_BLOCK, set, NULL);
}

int main(int argc, char **argv)
{
	unsigned processors = argc > 2 ? number(argv[2], 1024) : 0;
	/* A single processor runs in main(): one native thread is faster than two. */
	struct uprocs_conf conf = { .c_processors = processors,
				    .c_stacks = STACKS, .c_image = IMAGE,
				    .c_embed = processors == 1 };
	struct unet_addr address;
	struct ustack *server;
	sigset_t set;

	if (argc < 2 || argc > 3 || find_address(argv[1], &address)
	    || (argc > 2 && !processors)) {
		fprintf(stderr, "usage: echo ADDRESS:PORT|PORT [PROCESSORS]\n");
		return 2;
	}
	block_signals(&set);
	listener = check(unet_listen(&address, 0, 0), argv[1]);
	signals = check(unet_signals(&set), "signals");
	check(rr_create(&conf, &rr), "scheduler");
	check(rr_start(rr, serve, NULL, &server), "start");
	puts("ready");
	fflush(stdout);
	check(ustack_join(server, NULL, USCHED_NEVER), "join");
	check(uprocs_destroy(rr, USCHED_NEVER), "end");
	return 0;
}
