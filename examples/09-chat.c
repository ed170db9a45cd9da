/* SPDX-License-Identifier: MIT */
/*
 * A chat server: rooms, names, slow clients, deadlines, a goodbye. Build it with
 *
 *   cc -O2 examples/09-chat.c build/one/usched-all.c -Ibuild/one -pthread -o chat
 *
 * after `make one'. Run it
 * with a port, and talk: /name NAME, /join ROOM, /who, /quit, or a line for the room.
 *
 *   ./chat 7100 &
 *   socat - TCP:127.0.0.1:7100
 *
 * Each connection is one thread. It puts what its client says into the queues of all in
 * the room, buffers, and writes them. Where a socket is full it rings a bell, a channel,
 * and the thread of that connection writes the rest. Threads wait with usync_select() for
 * lines, a deadline, and the bell, or room in the socket. Full queues end a connection.
 *
 * There is one processor, and sends and writes with deadline 0 never switch, so no data
 * needs a lock. SIGTERM and SIGINT end the scope of all threads, and so their waits.
 */
#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "usched-all.h"

#define IDLE  (600 * USYNC_SECOND)      /* for a client to say something */
#define GRACE (3 * USYNC_SECOND)        /* for it to take the last words, and close */

enum {
	LISTS = 256,
	NAME  = 24,             /* bytes, with the final 0 */
	LINE  = 512,
	QUEUE = 65536,          /* beside what the socket holds */
};

struct client {
	struct client     *next;
	struct usync_chan *bell;        /* one ring, without a value */
	struct ubuf_out    queue;
	struct ubuf_in     in;
	int                fd;
	bool               full;        /* its thread is to write */
	char               name[NAME], room[NAME];
};

static struct client *lists[LISTS];     /* by a hash of the room */
static struct usync_scope *all;
static int listener, signals;

static int check(int rc, const char *what)
{
	if (rc >= 0)
		return rc;
	fprintf(stderr, "chat: %s: %s\n", what, ustack_error(rc));
	exit(1);
}

static struct client **list_of(const char *room)
{
	unsigned hash = 0;

	while (*room)
		hash = hash * 31 + (unsigned char)*room++;
	return &lists[hash % LISTS];
}

static void tell(struct client *c, const char *text)
{
	if (ubuf_write(&c->queue, text, strlen(text), NULL, 0))
		unet_shutdown(c->fd, SHUT_RDWR);        /* its thread reads the end */
}

static void say(struct client *c, const char *mark, const char *verb, const char *what)
{
	char text[LINE + 2 * NAME];

	snprintf(text, sizeof text, "%s%s%s%s\n", mark, c->name, verb, what);
	for (struct client *m = *list_of(c->room); m; m = m->next)
		if (strcmp(m->room, c->room) == 0)
			tell(m, text);
}

static void write_all(struct client *c)
{
	c->full = false;
	ustack_yield();                 /* others may have lines for them, too */
	for (struct client *m = *list_of(c->room); m; m = m->next)
		if (!m->full && (m->full = ubuf_flush(&m->queue, 0) != 0))
			usync_chan_send(m->bell, NULL, 0);
}

static void enter(struct client *c, const char *room)
{
	strcpy(c->room, room);
	c->next = *list_of(room);
	*list_of(room) = c;
	say(c, "* ", " joins ", room);
}

static void leave(struct client *c)
{
	struct client **at = list_of(c->room);

	say(c, "* ", " leaves ", c->room);
	write_all(c);
	while (*at != c)
		at = &(*at)->next;
	*at = c->next;
}

static bool is_good(const char *name)
{
	size_t n = strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789-_");

	for (size_t i = 0; i < LISTS; i++)
		for (struct client *c = lists[i]; c; c = c->next)
			if (strcmp(c->name, name) == 0)
				return false;   /* it is taken */
	return n > 0 && n < NAME && !name[n];
}

static void obey(struct client *c, char *line)
{
	for (char *p = line; *p; p++)
		if ((unsigned char)*p < ' ' || *p == 127)
			*p = '?';               /* nothing for terminals */
	if (*line != '/') {
		say(c, "", ": ", line);
	} else if (strncmp(line, "/name ", 6) == 0 && is_good(line + 6)) {
		say(c, "* ", " is now ", line + 6);
		strcpy(c->name, line + 6);
	} else if (strncmp(line, "/join ", 6) == 0 && is_good(line + 6)) {
		leave(c);
		enter(c, line + 6);
	} else if (strcmp(line, "/who") == 0) {
		for (struct client *m = *list_of(c->room); m; m = m->next)
			if (strcmp(m->room, c->room) == 0)
				tell(c, "= "), tell(c, m->name), tell(c, "\n");
	} else {
		tell(c, "! no such command, or no good name\n");
	}
}

/* Why the client is to go. */
static const char *converse(struct client *c)
{
	struct usync_case cases[] = { { .cs_op = USYNC_RECV, .cs_chan = c->bell },
				      { .cs_op = USYNC_READABLE, .cs_fd = c->fd },
				      { .cs_op = USYNC_WRITABLE, .cs_fd = c->fd } };
	int64_t end = usync_after(IDLE);
	char *line;
	ssize_t n;

	do {
		write_all(c);
		n = usync_select(cases + c->full, 2, end);
		while (n >= 0 && (n = ubuf_line(&c->in, &line, 0)) >= 0
		       && strcmp(line, "/quit") != 0) {
			end = usync_after(IDLE);
			obey(c, line);
		}
	} while (n == -ETIMEDOUT && usync_after(0) < end);
	return n == -ECANCELED ? "* the server ends, goodbye\n"
	     : n == -ETIMEDOUT ? "* idle for too long\n"
	     : n == -EMSGSIZE ? "* that line is too long\n" : "* bye\n";
}

/* What the client says now is read, as a close would reset the connection. */
static void say_goodbye(struct client *c, const char *words)
{
	int64_t end = usync_after(GRACE);
	char rest[256];

	leave(c);
	tell(c, words);
	ustack_shield(1);
	ubuf_flush(&c->queue, end);
	unet_shutdown(c->fd, SHUT_WR);
	while (unet_read(c->fd, rest, sizeof rest, end) > 0)
		;
}

static void talk(int fd, void *unused)
{
	struct client *c = calloc(1, sizeof *c);

	(void)unused;
	if (c && !usync_chan_create(0, 1, &c->bell)) {
		c->fd = fd;
		snprintf(c->name, NAME, "guest.%d", fd);
		ubuf_in_init(&c->in, fd, LINE);
		ubuf_out_init(&c->queue, fd, QUEUE);
		enter(c, "lobby");
		say_goodbye(c, converse(c));
		ubuf_in_free(&c->in);
		ubuf_out_free(&c->queue);
		usync_chan_destroy(c->bell);
	}
	free(c);
	unet_close(fd);
}

static int accept_all(void *unused)
{
	struct ustack_how how = { .h_serve = talk };

	(void)unused;
	while ((how.h_fd = unet_accept(listener, NULL, USCHED_NEVER)) >= 0)
		if (usync_scope_start_with(all, &how, NULL, NULL, NULL))
			unet_close(how.h_fd);   /* no memory for one more */
	unet_close(listener);
	return how.h_fd == -ECANCELED ? 0 : check(how.h_fd, "accept");
}

static void serve(void *unused)
{
	(void)unused;
	check(usync_scope_create(NULL, &all, USCHED_NEVER), "scope");
	check(usync_scope_start(all, accept_all, NULL, NULL), "start");
	check(unet_signal(signals, USCHED_NEVER), "signal");
	unet_close(signals);
	usync_scope_cancel(all, -ECANCELED);
	usync_scope_wait(all, usync_after(2 * GRACE));
}

int main(int argc, char **argv)
{
	struct uprocs_conf conf = { .c_processors = 1, .c_embed = 1, .c_stacks = 64 };
	struct unet_addr address;
	char text[32];
	struct ustack *server;
	struct uprocs *rr;
	sigset_t set;

	snprintf(text, sizeof text, "127.0.0.1:%s", argc == 2 ? argv[1] : "");
	if (unet_addr(text, &address))
		return fprintf(stderr, "usage: chat PORT\n"), 2;
	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	sigprocmask(SIG_BLOCK, &set, NULL);
	signals = check(unet_signals(&set), "signals");
	listener = check(unet_listen(&address, 0, 0), text);
	check(rr_create(&conf, &rr), "scheduler");
	check(rr_start(rr, serve, NULL, &server), "start");
	dprintf(1, "ready\n");
	check(ustack_join(server, NULL, USCHED_NEVER), "end");
	check(uprocs_destroy(rr, usync_after(GRACE)), "end");   /* says what is left */
	usync_scope_release(all);
	return 0;
}
