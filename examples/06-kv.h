/* SPDX-License-Identifier: MIT */
/*
 * 06-kv.h: the data of 06-kv.c, and its commands: keys, blocked clients, replies. A
 * command runs until it waits, so none needs a lock.
 */
#ifndef KV_H
#define KV_H

#define _GNU_SOURCE             /* POLLRDHUP */
#define HASH_NONFATAL_OOM 1
#include <hiredis/hiredis.h>
#include <hiredis/sds.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/queue.h>
#include <uthash.h>

#include "unet.h"
#include "rr.h"

enum {
	BATCH       = 16 << 10,         /* bytes of a read, and of a line of words */
	FLUSH       = 64 << 10,         /* bytes of replies that are written at once */
	COMMAND_MAX = 64 << 20,         /* bytes of arguments */
	UNREAD_MAX  = 8 << 20,          /* bytes that a subscriber may leave unread */
	ARGS_MAX    = 1 << 20,
	SWEEP       = 4096,             /* keys checked in a row, ten times a second */
	SHORT       = 256,              /* bytes of a reply besides its strings */
	FEW         = 4,                /* arguments whose memory is used again */
	SLACK       = 32,               /* bytes that a string used again may waste */
	KEPT_MAX    = 4096,             /* bytes of a string or of replies kept for it */
};

struct entry {
	UT_hash_handle hh;
	int64_t        expires;         /* ns of CLOCK_MONOTONIC */
	sds            key, string;     /* string: NULL for a list */
	sds           *list;            /* its head is the last */
	size_t         length;
};

struct conn {
	int               fd, bell;     /* bell: eventfd to wake it, or -1 */
	bool              quit, lost;   /* lost: a reply, for want of memory */
	struct ustack    *thread;
	redisReader      *reader;       /* NULL: idle */
	sds               out;          /* replies; set while it waits: bell was rung */
	sds              *a;            /* the command and its arguments */
	size_t            n, missing, bytes;    /* of a: all, yet to come, their bytes */
	size_t            places;       /* of the array */
	sds              *channels;     /* its subscriptions */
	size_t            joined;       /* their number */
	TAILQ_ENTRY(conn) next, turn;
};

static TAILQ_HEAD(, conn) conns = TAILQ_HEAD_INITIALIZER(conns);      /* by next */
static TAILQ_HEAD(, conn) waiting = TAILQ_HEAD_INITIALIZER(waiting);  /* by turn */
static struct usync_group clients, blocked;
static struct entry *table, *next_to_sweep;
static struct rr *rr;
static int listener, signals;
static int64_t end = USCHED_NEVER;       /* ns: threads read no more after it */
static redisReader *spare;              /* reused by the next connection, */
static sds *spare_args, spare_out;      /* as these: FEW arguments, and replies */
static char batch[BATCH];               /* shared: empty while a thread waits */

static const char OK[] = "+OK\r\n", SYNTAX[] = "-ERR syntax error\r\n";
static const char OOM[] = "-OOM out of memory\r\n";
static const char RANGE[] = "-ERR value is not an integer or out of range\r\n";
static const char WRONGTYPE[] =
	"-WRONGTYPE Operation against a key holding the wrong kind of value\r\n";

/*
 * Makes room for so many bytes more of replies, since sdscatfmt() does not check. False:
 * there is no memory; the client is closed, as no reply can be sent.
 */
static bool room(struct conn *c, size_t size)
{
	sds old = c->out ? c->out : spare_out ? spare_out : sdsempty(), new = NULL;

	spare_out = old == spare_out ? NULL : spare_out;
	if (old && !c->lost)
		new = sdsMakeRoomFor(old, size);
	if (new)
		c->out = new;
	else if (!c->out)
		sdsfree(old);
	c->lost |= !new;                        /* the next reply would be taken for it */
	c->quit |= c->lost;
	return new;
}

/* Adds to the replies, at most SHORT: %s a string, %U a uint64_t, %I an int64_t. NULL. */
#define SAY(c, ...) \
	said(c, room(c, SHORT) ? sdscatfmt((c)->out, __VA_ARGS__) : (c)->out)

static const char *said(struct conn *c, sds out)
{
	c->out = out;
	return NULL;
}

static void answer(struct conn *c, const char *reply)
{
	size_t size = strlen(reply);

	if (room(c, size))
		c->out = sdscatlen(c->out, reply, size);
}

static const char *say(struct conn *c, sds s)
{
	if (!s)
		return SAY(c, "$-1\r\n");
	return room(c, sdslen(s) + SHORT)
		? SAY(c, "$%U\r\n%S\r\n", (uint64_t)sdslen(s), s) : NULL;
}

/* Other threads may add to c->out meanwhile. Replies are sent even if cancelled. */
static void flush(struct conn *c)
{
	sds out = c->out;

	c->out = NULL;
	ustack_shield(1);
	if (out && unet_write_all(c->fd, out, sdslen(out), NULL, USCHED_NEVER) < 0)
		c->quit = true;
	ustack_shield(0);
	if (out && !spare_out && sdsalloc(out) <= KEPT_MAX) {
		sdsclear(out);
		spare_out = out;
	} else {
		sdsfree(out);
	}
}

/*
 * An array for n arguments. What the last command has left in a spare one is used again:
 * a SET leaves the value that was there before. NULL: there is no memory.
 */
static sds *take_args(struct conn *c, size_t n)
{
	c->places = n > FEW ? n : FEW;
	c->a = n <= FEW ? spare_args : NULL;
	spare_args = c->a ? NULL : spare_args;
	if (!c->a)
		c->a = calloc(c->places + 1, sizeof *c->a);
	c->n = c->a ? n : 0;
	return c->a;
}

static sds take_arg(struct conn *c, size_t i, const char *text, size_t size)
{
	sds old = c->a[i];
	size_t place = old ? sdsalloc(old) : 0;

	if (old && size <= place && place <= size + SLACK)
		return sdscpylen(old, text, size);
	sdsfree(old);
	return c->a[i] = sdsnewlen(text, size);
}

static void free_args(sds *a, size_t places)
{
	if (a)
		sdsfreesplitres(a, (int)places);
}

static void leave_args(struct conn *c)
{
	bool keeps = c->a && !spare_args && c->places == FEW;

	for (size_t i = 0; keeps && i < FEW; i++)
		keeps = !c->a[i] || sdsalloc(c->a[i]) <= KEPT_MAX;
	if (keeps)
		spare_args = c->a;
	else
		free_args(c->a, c->places);
	c->a = NULL;
	c->n = c->places = 0;
}

/* Waits for one of `events' of the client, or for the bell. */
static int await(struct conn *c, short events, int64_t deadline)
{
	struct pollfd p[] = { { c->fd, events, 0 }, { c->bell, POLLIN, 0 } };
	eventfd_t rings;
	int rc = c->bell < 0 ? unet_wait_readable(c->fd, deadline)
			     : unet_poll(p, 2, deadline);

	if (p[1].revents)
		eventfd_read(c->bell, &rings);
	return rc;
}

/* Before a reply of `size' to another connection: room(), and wakes its thread. */
static bool ring(struct conn *c, size_t size)
{
	bool rung = c->out;

	if (!room(c, size))
		unet_shutdown(c->fd, SHUT_RDWR);
	else if (!rung)
		eventfd_write(c->bell, 1);
	return !c->lost;
}

static void clear(struct entry *e)
{
	while (e->length > 0)
		sdsfree(e->list[--e->length]);
	free(e->list);
	sdsfree(e->string);
	e->list = NULL;
	e->string = NULL;
}

static void drop(struct entry *e)
{
	next_to_sweep = e == next_to_sweep ? e->hh.next : next_to_sweep;
	HASH_DEL(table, e);
	clear(e);
	sdsfree(e->key);
	free(e);
}

/* Adds an entry to the table. NULL: there is no memory. */
static struct entry *make(sds key)
{
	struct entry *e = calloc(1, sizeof *e);

	if (!e)
		return NULL;
	e->expires = USCHED_NEVER;
	e->key = sdsdup(key);
	if (e->key)
		HASH_ADD_KEYPTR(hh, table, e->key, sdslen(key), e);
	if (e->hh.tbl)
		return e;
	sdsfree(e->key);
	free(e);
	return NULL;
}

static struct entry *find(sds key)
{
	struct entry *e;

	HASH_FIND(hh, table, key, sdslen(key), e);
	if (e && e->expires != USCHED_NEVER && e->expires <= uevents_now()) {
		drop(e);
		e = NULL;
	}
	return e;
}

/* Takes the string over, and leaves the one before. False: there is no memory. */
static bool put(sds key, sds *string, int64_t expires)
{
	struct entry *e = find(key);
	sds before;

	if (!e)
		e = make(key);
	else if (!e->string)
		clear(e);
	if (!e)
		return false;
	before = e->string;
	e->string = *string;
	e->expires = expires;
	*string = before;
	return true;
}

static size_t place(sds *names, size_t n, sds name)
{
	size_t i = 0;

	while (i < n && sdscmp(names[i], name) != 0)
		i++;
	return i;
}

/* Accepts a number in its usual form only. */
static bool integer(sds s, int64_t min, int64_t max, int64_t *n)
{
	char again[24];

	snprintf(again, sizeof again, "%lld", (long long)(*n = strtoll(s, NULL, 10)));
	return sdslen(s) == strlen(again) && !strcmp(s, again) && *n >= min && *n <= max;
}

/* The commands. They return a reply, or NULL if they have sent it. */
enum { GET, SET, INCR, DEL, EXISTS, EXPIRE, TTL, MGET, MSET, LPUSH, LPOP, PUBLISH,
       PING, ECHO, INFO, COMMAND, CONFIG, QUIT, BLPOP, SUBSCRIBE, UNSUBSCRIBE, IDS };

static const struct {
	const char *name;
	int         arity;              /* with the name; negative: at least */
	char        type;               /* of the key a[1]: string, list, any */
} commands[IDS] = {
	{ "get", 2, 's' }, { "set", -3, 0 }, { "incr", 2, 's' }, { "del", -2, 0 },
	{ "exists", -2, 0 }, { "expire", 3, 'a' }, { "ttl", 2, 'a' }, { "mget", -2, 0 },
	{ "mset", -3, 0 }, { "lpush", -3, 'l' }, { "lpop", 2, 'l' }, { "publish", 3, 0 },
	{ "ping", -1, 0 }, { "echo", 2, 0 }, { "info", -1, 0 }, { "command", 1, 0 },
	{ "config", 3, 0 }, { "quit", -1, 0 }, { "blpop", -3, 0 }, { "subscribe", -2, 0 },
	{ "unsubscribe", -1, 0 },
};

static const char *set(struct conn *c)
{
	bool px = c->n == 5 && strcasecmp(c->a[3], "px") == 0;
	int64_t unit = px ? USYNC_SECOND / 1000 : USYNC_SECOND, n = 0;

	if (c->n != 3 && !px && (c->n != 5 || strcasecmp(c->a[3], "ex") != 0))
		return SYNTAX;
	if (c->n == 5 && !integer(c->a[4], 1, INT64_MAX / 4 / unit, &n))
		return RANGE;
	n = n ? usync_after(n * unit) : USCHED_NEVER;
	return put(c->a[1], &c->a[2], n) ? OK : OOM;
}

static const char *do_strings(struct conn *c, int id, struct entry *e)
{
	int64_t n = 0;
	bool done;
	sds text;

	switch (id) {
	case GET: return say(c, e ? e->string : NULL);
	case SET: return set(c);
	case MGET:
		SAY(c, "*%U\r\n", (uint64_t)c->n - 1);
		for (size_t i = 1; i < c->n; i++)
			say(c, (e = find(c->a[i])) ? e->string : NULL);
		return NULL;
	case MSET:
		for (size_t i = 1; c->n % 2 && i < c->n; i += 2)
			if (!put(c->a[i], &c->a[i + 1], USCHED_NEVER))
				return OOM;     /* the keys before it are set */
		return c->n % 2 ? OK : SYNTAX;
	case INCR:
		if (e && !integer(e->string, INT64_MIN, INT64_MAX - 1, &n))
			return RANGE;
		text = sdsfromlonglong(n + 1);
		done = text && put(c->a[1], &text, e ? e->expires : USCHED_NEVER);
		sdsfree(text);
		return done ? SAY(c, ":%I\r\n", n + 1) : OOM;
	case EXPIRE:
		if (!integer(c->a[2], INT64_MIN, INT64_MAX / 4 / USYNC_SECOND, &n))
			return RANGE;
		if (e)
			e->expires = n > 0 ? usync_after(n * USYNC_SECOND) : 0;
		return SAY(c, ":%i\r\n", e != NULL);
	case TTL:
		n = e ? e->expires - uevents_now() + USYNC_SECOND / 2 : 0;
		return !e ? ":-2\r\n" : e->expires == USCHED_NEVER ? ":-1\r\n" :
			SAY(c, ":%I\r\n", n / USYNC_SECOND);
	default:                        /* DEL, EXISTS */
		for (size_t i = 1; i < c->n; i++)
			if ((e = find(c->a[i])) && ++n && id == DEL)
				drop(e);
		return SAY(c, ":%I\r\n", n);
	}
}

/* Replies with the name, if there is one, and the head. Without room, the head stays. */
static const char *pop(struct conn *c, struct entry *e, sds name)
{
	sds s = e->list[e->length - 1];

	if (!room(c, sdslen(s) + (name ? sdslen(name) : 0) + SHORT))
		return NULL;
	if (name) {
		SAY(c, "*2\r\n");
		say(c, name);
	}
	say(c, s);
	sdsfree(s);
	if (--e->length == 0)
		drop(e);
	return NULL;
}

/* Makes room for so many more. False: there is no memory. */
static bool grow(struct entry *e, size_t more)
{
	for (size_t n = e->length; n < e->length + more; n++)
		if ((n & (n - 1)) == 0) {                       /* full */
			sds *list = realloc(e->list, (2 * n + 1) * sizeof *e->list);

			if (!list)
				return false;
			e->list = list;
		}
	return true;
}

/* Serves blocked clients, first come, first served. Skips clients that are gone. */
static const char *push(struct conn *c, struct entry *e)
{
	struct conn *to = TAILQ_FIRST(&waiting), *next;
	size_t left;

	if (!e)
		return OOM;
	if (!grow(e, c->n - 2)) {
		if (e->length == 0)
			drop(e);
		return OOM;
	}
	for (size_t i = 2; i < c->n; i++) {
		e->list[e->length++] = c->a[i];
		c->a[i] = NULL;
	}
	left = e->length;
	SAY(c, ":%U\r\n", (uint64_t)left);
	for (; to && left > 0; to = next) {
		struct pollfd p = { to->fd, POLLRDHUP, 0 };
		sds name = c->a[1];

		next = TAILQ_NEXT(to, turn);
		if (place(to->a + 1, to->n - 2, name) == to->n - 2 || poll(&p, 1, 0) > 0
		    || !ring(to, sdslen(name) + sdslen(e->list[left - 1]) + SHORT))
			continue;
		TAILQ_REMOVE(&waiting, to, turn);
		pop(to, e, name);
		left--;
	}
	return NULL;
}

static const char *blpop(struct conn *c)
{
	char *tail, *text = c->a[c->n - 1];
	double s = strtod(text, &tail);
	struct entry *e;
	int rc;

	if (*tail || tail == text || !(s >= 0 && s < 1e9))
		return "-ERR timeout is not a float or out of range\r\n";
	for (size_t i = 1; i < c->n - 1; i++) {
		e = find(c->a[i]);
		if (e && e->string)
			return WRONGTYPE;
		if (e)
			return pop(c, e, c->a[i]);
	}
	TAILQ_INSERT_TAIL(&waiting, c, turn);
	usync_group_add(&blocked, 1);
	flush(c);
	rc = await(c, POLLRDHUP, s > 0 ? usync_after((int64_t)(s * 1e9)) : USCHED_NEVER);
	usync_group_done(&blocked);
	if (c->out)
		return NULL;                    /* served */
	TAILQ_REMOVE(&waiting, c, turn);
	c->quit |= rc >= 0;                     /* the client is gone */
	return rc == -ETIMEDOUT ? "*-1\r\n" : "-ERR the server ends\r\n";
}

/* False: there is no memory. */
static bool join(struct conn *c, sds name)
{
	sds *all = realloc(c->channels, (c->joined + 1) * sizeof *all);

	if (!all)
		return false;
	c->channels = all;
	all[c->joined] = sdsdup(name);
	if (!all[c->joined])
		return false;
	c->joined++;
	return true;
}

/* UNSUBSCRIBE without arguments ends all subscriptions. */
static const char *subscribe(struct conn *c, bool on)
{
	size_t i = 1, k;

	do {
		k = c->n > 1 ? place(c->channels, c->joined, c->a[i]) : 0;
		if (on && k == c->joined && !join(c, c->a[i]))
			return OOM;
		SAY(c, "*3\r\n$%s\r\n", on ? "9\r\nsubscribe" : "11\r\nunsubscribe");
		say(c, c->n > 1 ? c->a[i] : c->joined ? c->channels[0] : NULL);
		if (!on && k < c->joined) {
			sdsfree(c->channels[k]);
			c->channels[k] = c->channels[--c->joined];
		}
		SAY(c, ":%U\r\n", (uint64_t)c->joined);
	} while (++i < c->n || (c->n == 1 && c->joined > 0));
	return NULL;
}

static const char *publish(struct conn *c)
{
	size_t size = sdslen(c->a[1]) + sdslen(c->a[2]) + 2 * SHORT;
	struct conn *to;
	int64_t count = 0;

	TAILQ_FOREACH(to, &conns, next)
		if (!to->quit && place(to->channels, to->joined, c->a[1]) < to->joined
		    && ring(to, size)) {
			count++;
			SAY(to, "*3\r\n$7\r\nmessage\r\n");
			say(to, c->a[1]);
			say(to, c->a[2]);
			to->quit = sdslen(to->out) > UNREAD_MAX;
			if (to->quit)                   /* the client does not read */
				unet_shutdown(to->fd, SHUT_RDWR);
		}
	return SAY(c, ":%I\r\n", count);
}

static const char *do_others(struct conn *c, int id, struct entry *e)
{
	char text[SHORT / 2];

	switch (id) {
	case LPUSH: return push(c, e ? e : make(c->a[1]));
	case LPOP: return e ? pop(c, e, NULL) : say(c, NULL);
	case BLPOP: return c->joined ? SYNTAX : blpop(c);
	case SUBSCRIBE: case UNSUBSCRIBE: return subscribe(c, id == SUBSCRIBE);
	case PUBLISH: return publish(c);
	case PING:
		if (c->joined)
			return "*2\r\n$4\r\npong\r\n$0\r\n\r\n";
		return c->n > 1 ? say(c, c->a[1]) : "+PONG\r\n";
	case ECHO: return say(c, c->a[1]);
	case CONFIG:                    /* CONFIG GET, for redis-benchmark */
		SAY(c, "*2\r\n");
		say(c, c->a[2]);
		return SAY(c, "$0\r\n\r\n");
	case INFO:
		snprintf(text, sizeof text, "redis_version:7.0.0\r\nkeys:%u\r\n"
			 "connected_clients:%u\r\nblocked_clients:%u\r\n",
			 HASH_COUNT(table), clients.g_count, blocked.g_count);
		return SAY(c, "$%u\r\n%s\r\n", (unsigned)strlen(text), text);
	case COMMAND:
		SAY(c, "*%i\r\n", IDS);
		for (int i = 0; i < IDS; i++)
			SAY(c, "*6\r\n$%u\r\n%s\r\n:%i\r\n*0\r\n:0\r\n:0\r\n:0\r\n",
			    (unsigned)strlen(commands[i].name), commands[i].name,
			    commands[i].arity);
		return NULL;
	default:                        /* QUIT */
		c->quit = true;
		return OK;
	}
}

#endif /* KV_H */
