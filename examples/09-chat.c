/* SPDX-License-Identifier: MIT */
/*
 * A chat server: rooms, names, slow clients, deadlines, a goodbye. Build it with
 *
 *   cc examples/09-chat.c u*.c rr.c arch/x86_64.S -I. -pthread -o chat
 *
 * or, on other machines, with their file of arch/, or with arch/setjmp.c and -lm. Run it
 * with a port, and talk: /name NAME, /join ROOM, /who, /quit, or a line for the room.
 *
 *   ./chat 7100 &
 *   socat - TCP:127.0.0.1:7100
 *
 * Each connection is one thread, which reads lines. What is said in a room is collected
 * there. One more thread, the post, runs after all that are ready, and writes it to the
 * members, once for all lines that came together. It does not wait: what a client does
 * not take yet is in the buffer of its socket, and a client that leaves that full is
 * dropped. So a slow client needs no thread, and holds up no other.
 *
 * There is one processor, and writes with deadline 0 never switch. So between two calls
 * that may wait a thread has all data for itself, and there is no lock.
 *
 * SIGTERM and SIGINT end the scope of all threads, and so their waits.
 */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "rr.h"
#include "ubuf.h"
#include "unet.h"

#define IDLE  (600 * USYNC_SECOND)      /* for a client to say something */
#define GRACE (3 * USYNC_SECOND)        /* for it to take the last words, and close */

enum {
	ROOMS  = 256,
	NAME   = 24,            /* bytes, with the final 0 */
	LINE   = 512,
	TEXT   = 8192,          /* said in a room since the last post */
	QUEUE  = 262144,        /* of a socket: what its client has not taken yet */
	STACKS = 64,            /* shared, as frames are shallow */
};

struct client {
	struct client  *next, **at;     /* in the room */
	struct room    *room;
	struct ubuf_in  in;
	int             fd;
	char            name[NAME];
};

static struct room {
	struct client *members;                 /* NULL: a free room */
	char          *text;
	size_t         size;
	char           name[NAME];
} rooms[ROOMS];

static struct usync_scope *all;
static struct usync_sem mail;                   /* wakes the post */
static int listener, signals;

static int check(int rc, const char *what)
{
	if (rc >= 0)
		return rc;
	fprintf(stderr, "chat: %s: %s\n", what, strerror(-rc));
	exit(1);
}

/* Drops a client that does not take it at once. */
static void deliver(struct client *c, const char *text, size_t size)
{
	if (unet_write(c->fd, text, size, 0) != (ssize_t)size)
		unet_shutdown(c->fd, SHUT_RDWR);        /* its thread reads the end */
}

static void post(struct room *r)
{
	for (struct client *c = r->size ? r->members : NULL; c; c = c->next)
		deliver(c, r->text, r->size);
	free(r->text);
	r->text = NULL;
	r->size = 0;
}

static int post_all(void *unused)
{
	(void)unused;
	while (usync_sem_wait(&mail, USCHED_NEVER) == 0)
		for (struct room *r = rooms; r < rooms + ROOMS; r++)
			post(r);
	return 0;
}

__attribute__((format(printf, 2, 3)))
static void say(struct room *r, const char *format, ...)
{
	va_list args;

	if (r->size > TEXT - LINE - 2 * NAME)
		post(r);
	if (!r->text && (r->text = malloc(TEXT)) == NULL)
		return;                         /* the line is lost */
	if (r->size == 0 && mail.s_count == 0)
		usync_sem_post(&mail);
	va_start(args, format);
	r->size += (size_t)vsnprintf(r->text + r->size, TEXT - r->size, format, args);
	va_end(args);
}

static void tell(struct client *c, const char *line)
{
	post(c->room);                          /* that was said before */
	deliver(c, line, strlen(line));
}

/* Or a free one, which gets the name; NULL: there is none. */
static struct room *find_room(const char *name)
{
	struct room *vacant = NULL;

	for (struct room *r = rooms; r < rooms + ROOMS; r++)
		if (!r->members)
			vacant = r;
		else if (strcmp(r->name, name) == 0)
			return r;
	return vacant ? strcpy(vacant->name, name), vacant : NULL;
}

static void leave(struct client *c)
{
	say(c->room, "* %s leaves %s\n", c->name, c->room->name);
	post(c->room);
	*c->at = c->next;
	if (c->next)
		c->next->at = c->at;
}

static void enter(struct client *c, struct room *r)
{
	post(r);                                /* not for the new member */
	c->next = r->members;
	if (c->next)
		c->next->at = &c->next;
	c->at = &r->members;
	c->room = r;
	r->members = c;
	say(r, "* %s joins %s\n", c->name, r->name);
}

static bool is_good(const char *name)
{
	size_t n = strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789-_");

	for (struct room *r = rooms; r < rooms + ROOMS; r++)
		for (struct client *c = r->members; c; c = c->next)
			if (strcmp(c->name, name) == 0)
				return false;   /* it is taken */
	return n > 0 && n < NAME && !name[n];
}

static void list_members(struct client *to)
{
	char line[NAME + 4];

	for (struct client *c = to->room->members; c; c = c->next) {
		snprintf(line, sizeof line, "= %s\n", c->name);
		tell(to, line);
	}
}

/* False: the client wants to go. */
static bool obey(struct client *c, char *line)
{
	char *word = line + strcspn(line, " ");
	struct room *r;

	for (char *p = line; *p; p++)
		if ((unsigned char)*p < ' ' || *p == 127)
			*p = '?';               /* nothing for terminals */
	if (*line != '/')
		return say(c->room, "%s: %s\n", c->name, line), true;
	word = *word ? word + 1 : word;
	if (strncmp(line, "/name ", 6) == 0 && is_good(word)) {
		say(c->room, "* %s is now %s\n", c->name, word);
		strcpy(c->name, word);
	} else if (strncmp(line, "/join ", 6) == 0 && is_good(word)
		   && (r = find_room(word)) != NULL) {
		leave(c);
		enter(c, r);
	} else if (strcmp(line, "/who") == 0) {
		list_members(c);
	} else if (strcmp(line, "/quit") == 0) {
		return false;
	} else {
		tell(c, "! no such command, or no good name\n");
	}
	return true;
}

/* Why the client is to go. */
static const char *converse(struct client *c)
{
	char *line;
	ssize_t n;

	do
		n = ubuf_line(&c->in, &line, usync_after(IDLE));
	while (n >= 0 && obey(c, line));
	return n == -ECANCELED ? "* the server ends, goodbye\n"
	     : n == -ETIMEDOUT ? "* idle for too long\n"
	     : n == -EMSGSIZE ? "* that line is too long\n" : "* bye\n";
}

/* What the client says now is read, as a close would reset the connection. */
static void say_goodbye(int fd, const char *words)
{
	int64_t end = usync_after(GRACE);
	char rest[256];

	ustack_shield(1);
	unet_write_all(fd, words, strlen(words), NULL, end);
	unet_shutdown(fd, SHUT_WR);
	while (unet_read(fd, rest, sizeof rest, end) > 0)
		;
}

static void talk(int fd, void *unused)
{
	struct client *c = calloc(1, sizeof *c);
	struct room *lobby = find_room("lobby");
	const char *words = "* the server is full\n";
	static unsigned guests;

	(void)unused;
	if (c && lobby && usync_scope_enter(all) == 0) {
		c->fd = fd;
		snprintf(c->name, NAME, "guest.%u", ++guests);
		ubuf_in_init(&c->in, fd, LINE);
		enter(c, lobby);
		words = converse(c);
		leave(c);
		ubuf_in_free(&c->in);
	}
	free(c);
	say_goodbye(fd, words);
	unet_close(fd);
}

static int accept_all(void *rr)
{
	int fd;

	while ((fd = unet_accept(listener, NULL, USCHED_NEVER)) >= 0)
		if (rr_start_fd(rr, talk, fd, NULL, NULL))
			unet_close(fd);         /* no memory for one more */
	return fd == -ECANCELED ? 0 : check(fd, "accept");
}

static void serve(void *rr)
{
	check(usync_scope_create(NULL, USCHED_NEVER, &all), "scope");
	check(usync_scope_start(all, accept_all, rr), "start");
	check(usync_scope_start(all, post_all, NULL), "start");
	check(unet_signal(signals, USCHED_NEVER), "signal");
	usync_scope_cancel(all);
	unet_close(listener);
	unet_close(signals);
}

int main(int argc, char **argv)
{
	struct usched_conf conf = { .c_processors = 1, .c_embed = 1, .c_stacks = STACKS };
	struct unet_addr address;
	int queue = QUEUE;
	char text[32];
	struct rr *rr;
	sigset_t set;

	snprintf(text, sizeof text, "127.0.0.1:%s", argc == 2 ? argv[1] : "");
	if (unet_addr(text, &address))
		return fprintf(stderr, "usage: chat PORT\n"), 2;
	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	pthread_sigmask(SIG_BLOCK, &set, NULL);
	signals = check(unet_signals(&set), "signals");
	listener = check(unet_listen(&address, 0, 0), text);
	setsockopt(listener, SOL_SOCKET, SO_SNDBUF, &queue, sizeof queue);
	check(rr_create(&conf, &rr), "scheduler");
	check(rr_start(rr, serve, rr, NULL), "start");
	puts("ready");
	fflush(stdout);
	check(rr_destroy(rr), "end");
	usync_scope_release(all);
	return 0;
}
