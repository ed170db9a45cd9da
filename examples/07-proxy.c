/* SPDX-License-Identifier: MIT */
/*
 * A TCP proxy: it copies bytes between the clients of a port and another server. Build it
 * with
 *
 *   cc -O2 examples/07-proxy.c build/one/usched-all.c -Ibuild/one -pthread -o proxy
 *
 * after `make one'. Run it with
 * a port, the server's host and port and, optionally, a number of processors:
 *
 *   ./proxy 7001 localhost:7000
 *
 * A connection has two threads, one for each direction. Each is a loop of wait, read,
 * write, so neither direction holds up the other. When one side ends its stream, the
 * proxy ends that direction, and the other goes on. After an error both sides get a reset
 * and not the end of a stream, so they do not take what they have for all.
 *
 * SIGTERM and SIGINT end it. It stops accepting, gives the connections some time to end,
 * and then cancels them.
 */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "usched-all.h"

#define CONNECT (10 * USYNC_SECOND)     /* for the server, at each address */
#define IDLE    (300 * USYNC_SECOND)    /* without bytes in both directions */
#define GRACE   (10 * USYNC_SECOND)     /* for connections to end after a signal */
#define PAUSE   (USYNC_SECOND / 10)     /* after a failed accept */

enum {
	CONNECTIONS = 8192,             /* more wait until one has ended */
	SIZE        = 16384,            /* bytes of a buffer */
	ADDRESSES   = 8,                /* of the server, tried in turn */
};

enum { UP, DOWN };                      /* from the client, and to it */

/* On the heap: other threads follow pointers to it. */
struct connection {
	struct connection *next, *prev;
	struct ustack     *thread[2];   /* NULL: not started, or ended */
	int                fd[2];       /* the source of each; -1: not connected */
	int                broken;
	int                ended[2];    /* a source has, and the other side was told */
	_Atomic int64_t    idle_until;  /* moved by both threads */
};

/*
 * All threads share these. A native mutex protects the list and the connections in it,
 * except idle_until: no thread switches while it holds the mutex, and to lock it cannot
 * fail, unlike a usync_mutex.
 */
static struct uprocs         *rr;
static struct usync_sem   room = { .sm_count = CONNECTIONS };
static struct usync_group open_connections;
static pthread_mutex_t    lock = PTHREAD_MUTEX_INITIALIZER;
static struct connection *connections;
static struct unet_addr   server[ADDRESSES];
static int                servers;
static int                listener;
static int                signals;

static void down(void *arg);

static int check(int rc, const char *what)
{
	if (rc < 0) {
		fprintf(stderr, "proxy: %s: %s\n", what, ustack_error(rc));
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

/* Drops unread bytes; a broken connection is reset, and drops unsent bytes, too. */
static void close_one(int fd, int broken)
{
	struct linger reset = { .l_onoff = 1 };

	if (fd < 0)
		return;
	if (broken)
		setsockopt(fd, SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
	unet_close(fd);
}

/* The threads have ended. */
static void free_connection(struct connection *c)
{
	close_one(c->fd[UP], c->broken);
	close_one(c->fd[DOWN], c->broken);
	free(c);
	usync_group_done(&open_connections);
	usync_sem_post(&room);
}

/*
 * The thread of one direction ends, with 0 or an error; an error ends the other thread as
 * well. The last thread closes: while a thread uses the numbers, they must not be reused.
 */
static void leave(struct connection *c, int way, int rc)
{
	struct ustack *other;

	pthread_mutex_lock(&lock);
	other = c->thread[!way];
	c->thread[way] = NULL;
	c->broken |= rc < 0;
	if (other && rc < 0)
		ustack_cancel(other);
	if (!other)
		unlist(c);
	pthread_mutex_unlock(&lock);
	if (!other)
		free_connection(c);
}

/* Reads and writes once. Returns the number of bytes, 0 at the end, or an error. */
static ssize_t copy(struct connection *c, int way)
{
	int64_t by = usync_after(IDLE);
	char *buffer = malloc(SIZE);
	ssize_t n = buffer ? unet_read(c->fd[way], buffer, SIZE, by) : -ENOMEM;
	int rc = 0;

	if (n > 0)
		rc = unet_write_all(c->fd[!way], buffer, (size_t)n, NULL, by);
	free(buffer);
	atomic_store_explicit(&c->idle_until, by, memory_order_relaxed);
	return rc ? rc : n;
}

/* Waits without a buffer. The time-out is for both directions together. */
static int wait_for_more(struct connection *c, int way)
{
	int64_t until;
	int rc;

	do {
		until = atomic_load_explicit(&c->idle_until, memory_order_relaxed);
		rc = unet_wait(c->fd[way], POLLIN, until);
	} while (rc == -ETIMEDOUT && until != c->idle_until);
	return rc;
}

/*
 * Of a reset only one of both threads learns: the other one reads the end of a stream. A
 * connection of which one direction has ended is not hung up, but one that was reset is.
 */
static int end_stream(struct connection *c, int way)
{
	struct pollfd p = { .fd = c->fd[way] };
	int rc = -ECONNRESET;

	pthread_mutex_lock(&lock);
	if (!c->broken && (c->ended[!way] || poll(&p, 1, 0) == 0)) {
		c->ended[way] = 1;
		rc = unet_shutdown(c->fd[!way], SHUT_WR);
	}
	pthread_mutex_unlock(&lock);
	return rc;
}

/* Copies what one side sends, up to and including its end. */
static int pump(struct connection *c, int way)
{
	ssize_t n;

	do {
		n = wait_for_more(c, way);
		if (n == 0)
			n = copy(c, way);
	} while (n > 0);
	return n < 0 ? (int)n : end_stream(c, way);
}

/* Reports that no server takes a connection: once a second at most, with a count. */
static void report(int error)
{
	static int64_t next;
	static unsigned unsaid;

	pthread_mutex_lock(&lock);
	unsaid++;
	if (usync_after(0) >= next) {
		fprintf(stderr, "proxy: no server to connect to: %s (%u times)\n",
			ustack_error(error), unsaid);
		next = usync_after(USYNC_SECOND);
		unsaid = 0;
	}
	pthread_mutex_unlock(&lock);
}

/* Reports the error of the first address, which the resolver prefers. */
static int connect_one(void)
{
	int rc = -EINVAL, first = 0;

	for (int i = 0; i < servers && rc < 0 && rc != -ECANCELED; i++) {
		rc = unet_connect(&server[i], usync_after(CONNECT));
		if (i == 0)
			first = rc;
	}
	if (rc < 0)
		report(first);
	return rc;
}

/* The first thread of a connection. It starts the second. */
static void up(void *arg)
{
	struct connection *c = arg;
	int rc = connect_one();

	ustack_detach(ustack_self());
	if (rc >= 0) {
		c->fd[DOWN] = rc;
		c->idle_until = usync_after(IDLE);
		pthread_mutex_lock(&lock);
		rc = rr_start(rr, down, c, &c->thread[DOWN]);
		pthread_mutex_unlock(&lock);
	}
	if (rc == 0)
		rc = pump(c, UP);
	leave(c, UP, rc);
}

static void down(void *arg)
{
	struct connection *c = arg;

	ustack_detach(ustack_self());
	leave(c, DOWN, pump(c, DOWN));
}

/* Starts the threads of a new connection. Without memory for one, closes it. */
static void start(int fd)
{
	struct connection *c = calloc(1, sizeof *c);
	int rc;

	if (!c) {
		close_one(fd, 1);
		usync_sem_post(&room);
		return;
	}
	c->fd[UP] = fd;
	c->fd[DOWN] = -1;
	usync_group_add(&open_connections, 1);
	pthread_mutex_lock(&lock);
	enlist(c);
	rc = rr_start(rr, up, c, &c->thread[UP]);
	pthread_mutex_unlock(&lock);
	if (rc)
		leave(c, UP, rc);
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

static void cancel_all(void)
{
	pthread_mutex_lock(&lock);
	for (struct connection *c = connections; c; c = c->next)
		for (int way = UP; way <= DOWN; way++)
			if (c->thread[way])
				ustack_cancel(c->thread[way]);
	pthread_mutex_unlock(&lock);
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
	if (usync_group_wait(&open_connections, usync_after(GRACE)))
		cancel_all();
	usync_group_wait(&open_connections, usync_after(GRACE));
}

/* Reads "HOST:PORT": looks a name up now. Returns how many addresses, or an error. */
static int find_server(char *text)
{
	char *colon = strrchr(text, ':');
	int n;

	if (unet_addr(text, server) == 0)
		return 1;
	if (!colon || colon == text)
		return -EINVAL;
	*colon = 0;
	n = unet_resolve(text, colon + 1, SOCK_STREAM, server, ADDRESSES,
			 usync_after(CONNECT));
	*colon = ':';
	return n;
}

/* 0: the text is no number from 1 to max. */
static unsigned number(const char *text, unsigned max)
{
	char *end;
	long n = strtol(text, &end, 10);

	return *end || n < 1 || n > (long)max ? 0 : (unsigned)n;
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
	unsigned port = argc > 2 ? number(argv[1], 65535) : 0;
	unsigned processors = argc > 3 ? number(argv[3], 1024) : 0;
	/* A single processor runs in main(): one native thread is faster than two. */
	struct uprocs_conf conf = { .c_processors = processors,
				    .c_embed = processors == 1 };
	struct unet_addr address;
	struct ustack *thread;
	char text[32];
	sigset_t set;
	int64_t by;

	if (argc > 4 || !port || !strchr(argv[2], ':') || (argc > 3 && !processors)) {
		fprintf(stderr, "usage: proxy PORT HOST:PORT [PROCESSORS]\n");
		return 2;
	}
	block_signals(&set);
	servers = check(find_server(argv[2]), argv[2]);
	snprintf(text, sizeof text, "127.0.0.1:%u", port);
	check(unet_addr(text, &address), text);
	listener = check(unet_listen(&address, 0, 0), text);
	signals = check(unet_signals(&set), "signals");
	check(rr_create(&conf, &rr), "scheduler");
	check(rr_start(rr, serve, NULL, &thread), "start");
	puts("ready");
	fflush(stdout);
	check(ustack_join(thread, NULL, USCHED_NEVER), "join");
	by = usync_after(GRACE);
	check(uprocs_destroy(rr, by), "end");   /* says what is left */
	return check(uoffload_drain(by), "end");
}
