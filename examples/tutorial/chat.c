/* SPDX-License-Identifier: MIT */
/*
 * Chat: step two of doc/tutorial.md. A client says its name in its first line. Then
 * "/join ROOM" takes it to a room, and any other line goes to all in its room.
 *
 * Each connection is a thread. It waits for two things at once: lines of its client, and
 * lines for it, which come through a channel.
 */
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "rr.h"
#include "ubuf.h"
#include "unet.h"

enum {
	NAME  = 16,                     /* bytes, with the final 0 */
	LINE  = 256,
	QUEUE = 64,                     /* lines that a client has not read */
};

struct line {
	char text[LINE];
};

/* On the heap: other threads follow pointers to it. */
struct member {
	struct member     *next;
	struct usync_chan *lines;
	char               name[NAME], room[NAME];
};

/* No thread waits with this lock held, so it may be a native one. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct member *members;

static int64_t soon(void)
{
	return usync_after(10 * USYNC_SECOND);
}

/* A send with deadline 0 does not wait: a client that does not read loses lines. */
static void say(const struct member *m, const char *verb, const char *what)
{
	struct line line;

	snprintf(line.text, LINE, "%s%s%.200s\n", m->name, verb, what);
	pthread_mutex_lock(&lock);
	for (struct member *to = members; to; to = to->next)
		if (strcmp(to->room, m->room) == 0)
			usync_chan_send(to->lines, &line, 0);
	pthread_mutex_unlock(&lock);
}

/* Makes `m' a member, unless there is one of that name. */
static bool enter(struct member *m, const char *name)
{
	struct member *other;

	pthread_mutex_lock(&lock);
	for (other = members; other && strcmp(other->name, name) != 0; )
		other = other->next;
	if (!other) {
		snprintf(m->name, NAME, "%s", name);
		m->next = members;
		members = m;
	}
	pthread_mutex_unlock(&lock);
	return !other;
}

static void go_to(struct member *m, const char *room)
{
	if (*m->room)
		say(m, " leaves ", m->room);
	pthread_mutex_lock(&lock);
	snprintf(m->room, NAME, "%s", room);
	pthread_mutex_unlock(&lock);
	if (*m->room)
		say(m, " joins ", m->room);
}

static void leave(struct member *m)
{
	struct member **at = &members;

	go_to(m, "");
	pthread_mutex_lock(&lock);
	while (*at != m)
		at = &(*at)->next;
	*at = m->next;
	pthread_mutex_unlock(&lock);
}

/* All lines that have arrived. 0, or why there will be no more. */
static int hear(struct member *m, struct ubuf_in *in)
{
	char *text;
	ssize_t n;

	while ((n = ubuf_line(in, &text, 0)) >= 0)
		if (strncmp(text, "/join ", 6) == 0)
			go_to(m, text + 6);
		else
			say(m, ": ", text);
	return n == -ETIMEDOUT ? 0 : (int)n;
}

static int converse(struct member *m, struct ubuf_in *in, int fd)
{
	struct line line;
	struct usync_case cases[] = {
		{ .cs_op = USYNC_RECV, .cs_chan = m->lines, .cs_value = &line },
		{ .cs_op = USYNC_READABLE, .cs_fd = fd },
	};
	int rc;

	do {
		rc = hear(m, in);
		if (rc == 0 && (rc = (int)usync_select(cases, 2, USCHED_NEVER)) == 0)
			rc = unet_write_all(fd, line.text, strlen(line.text), NULL,
					    soon());
	} while (rc >= 0);
	return rc;
}

static void talk(int fd, void *unused)
{
	struct member *m = calloc(1, sizeof *m);
	struct ubuf_in in;
	char *name;

	(void)unused;
	ubuf_in_init(&in, fd, LINE);
	if (m && usync_chan_create(sizeof(struct line), QUEUE, &m->lines) == 0) {
		if (ubuf_line(&in, &name, soon()) <= 0 || strlen(name) >= NAME) {
			unet_write_all(fd, "no name\n", 8, NULL, soon());
		} else if (!enter(m, name)) {
			unet_write_all(fd, "taken\n", 6, NULL, soon());
		} else {
			unet_write_all(fd, "welcome\n", 8, NULL, soon());
			go_to(m, "lobby");
			printf("%s: %s\n", m->name, ustack_error(converse(m, &in, fd)));
			leave(m);
		}
		usync_chan_destroy(m->lines);
	}
	ubuf_in_free(&in);
	free(m);
	unet_close(fd);
}

int main(int argc, char **argv)
{
	struct ustack_how how = { .h_serve = talk };
	struct unet_addr address;
	struct uprocs *rr;
	int listener;

	setvbuf(stdout, NULL, _IOLBF, 0);
	if (argc != 2 || unet_addr(argv[1], &address))
		return fprintf(stderr, "usage: chat ADDRESS:PORT\n"), 2;
	listener = unet_listen(&address, 0, 0);
	if (listener < 0)
		return fprintf(stderr, "chat: %s\n", ustack_error(listener)), 1;
	if (rr_create(NULL, &rr))
		return fprintf(stderr, "chat: no scheduler\n"), 1;
	while ((how.h_fd = unet_accept(listener, NULL, USCHED_NEVER)) >= 0)
		if (rr_start_with(rr, &how, NULL, NULL, NULL))
			unet_close(how.h_fd);   /* no memory for one more */
	return 1;
}
