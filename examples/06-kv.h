/* SPDX-License-Identifier: MIT */
/*
 * 06-kv.h: the data of 06-kv.c, and its commands: keys, blocked clients, replies. A
 * command on data is atomic: its thread has `turn' until it waits for the client. So a
 * long one can give way, by rest(): others of the processor run, and only commands on
 * data wait.
 */
#ifndef KV_H
#define KV_H

#define _GNU_SOURCE             /* POLLRDHUP */
#define HASH_NONFATAL_OOM 1
#define HASH_FUNCTION(key, size, hash) ((hash) = hash_of(key, size))
#include <hiredis/hiredis.h>
#include <hiredis/sds.h>
#include <sodium/crypto_shorthash.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/queue.h>
#include <time.h>
#include <uthash.h>

#include "usched-all.h"

enum {
	BATCH       = 16 << 10,         /* bytes of a read, and of a line of words */
	FLUSH       = 64 << 10,         /* bytes of replies that are written at once */
	OUT_MAX     = 256 << 20,        /* bytes of replies to commands */
	COMMAND_MAX = 64 << 20,         /* bytes of arguments */
	UNREAD_MAX  = 8 << 20,          /* bytes that a subscriber may leave unread */
	ARGS_MAX    = 1 << 20,
	HEADER_MAX  = 32,               /* bytes of the line with a size */
	KEYS_MAX    = 64,               /* that a client waits for at once */
	STEPS       = 512,              /* from rest to rest, of about 50 ns each */
	STEP_BYTES  = 1024,             /* of a reply, copied in the time of one step */
	SWEEP       = 4096,             /* keys checked in a row, ten times a second */
	SHORT       = 256,              /* bytes of a reply besides its strings */
	FEW         = 4,                /* arguments whose memory is used again */
	SLACK       = 32,               /* bytes that a string used again may waste */
	KEPT_MAX    = 4096,             /* bytes of a string or of replies kept for it */
};

struct entry {
	UT_hash_handle hh;
	int64_t        expires;         /* ns of CLOCK_MONOTONIC */
	sds            key, string;
	char           type;            /* s, and as in commands[] */
	sds           *list;            /* a ring of `places', a power of 2 */
	size_t         first, length, places, count;    /* count: of a stream */
	struct member *members;         /* of a set, a hash or a sorted set */
	struct member **heap;           /* of a sorted set, with HASH_COUNT() of them */
};

struct conn {
	int               fd, bell;     /* bell: eventfd to wake it, or -1 */
	int               protocol;     /* RESP: 2, or 3 after HELLO 3 */
	int64_t           id;
	bool              quit, lost;   /* lost: a reply, for want of memory */
	int64_t           until;        /* ns: the next command has come by then */
	struct ustack    *thread;
	redisReader      *reader;       /* NULL: idle */
	sds               out;          /* replies; set while it waits: bell was rung */
	sds              *a;            /* the command and its arguments */
	size_t            n, missing, bytes;    /* of a: all, yet to come, their bytes */
	size_t            places;       /* of the array */
	struct entry      channels;     /* its subscriptions, a set */
	TAILQ_ENTRY(conn) next, turn;
};

static TAILQ_HEAD(, conn) conns = TAILQ_HEAD_INITIALIZER(conns);      /* by next */
static TAILQ_HEAD(, conn) waiting = TAILQ_HEAD_INITIALIZER(waiting);  /* by turn */
static struct usync_group clients, blocked;
static struct usync_mutex turn;         /* to execute, and to change the lists */
static unsigned steps;                  /* since the last rest */
static struct entry *table, *next_to_sweep;
static struct uprocs *rr;
static int listener, signals;
static int64_t last_id;
static int64_t end = USCHED_NEVER;       /* ns: threads read no more after it */
static int64_t idle = 300 * USYNC_SECOND;       /* between commands, and for a write */
static redisReader *spare;              /* reused by the next connection, */
static sds *spare_args, spare_out;      /* as these: FEW arguments, and replies */
static char batch[BATCH];               /* shared: empty while a thread waits */
static unsigned char seed[crypto_shorthash_KEYBYTES];   /* of hash_of(); by main() */

static const char OK[] = "+OK\r\n", SYNTAX[] = "-ERR syntax error\r\n";
static const char OOM[] = "-OOM out of memory\r\n";
static const char RANGE[] = "-ERR value is not an integer or out of range\r\n";
static const char WRONGTYPE[] =
	"-WRONGTYPE Operation against a key holding the wrong kind of value\r\n";

/*
 * Returns the hash of a key, a member or a channel: SipHash, so that a client that does
 * not know the seed finds no keys with equal hashes.
 */
static unsigned hash_of(const void *key, size_t size)
{
	unsigned char bytes[crypto_shorthash_BYTES];
	unsigned hash;

	crypto_shorthash(bytes, key, size, seed);
	memcpy(&hash, bytes, sizeof hash);
	return hash;
}

/* Lets others run, if much was done. It may switch: entries stay only with a turn. */
static void rest(void)
{
	if (steps >= STEPS) {
		steps = 0;
		ustack_yield();
	}
}

/* The caller is shielded: only want of memory ends the wait. */
static void take_turn(void)
{
	while (usync_mutex_lock(&turn, USCHED_NEVER))
		ustack_yield();
}

/*
 * Makes room for so many bytes more of replies, since sdscatfmt() does not check. False:
 * there is no memory; the client is closed, as no reply can be sent.
 */
static bool room(struct conn *c, size_t size)
{
	sds old = c->out ? c->out : spare_out ? spare_out : sdsempty(), new = NULL;

	spare_out = old == spare_out ? NULL : spare_out;
	steps += 1 + (unsigned)(size / STEP_BYTES);
	if (old && !c->lost && sdslen(old) + size <= OUT_MAX)
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
		return SAY(c, c->protocol == 3 ? "_\r\n" : "$-1\r\n");
	return room(c, sdslen(s) + SHORT)
		? SAY(c, "$%U\r\n%S\r\n", (uint64_t)sdslen(s), s) : NULL;
}

/* The caller is shielded. Other threads may add to c->out meanwhile. */
static void flush(struct conn *c)
{
	sds out = c->out;

	c->out = NULL;
	if (out && unet_write_all(c->fd, out, sdslen(out), NULL, usync_after(idle)) < 0)
		c->quit = true;
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
	for (size_t i = 0; a && i < places; i++, steps++) {
		sdsfree(a[i]);
		rest();
	}
	free(a);
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
	int rc = c->bell < 0 ? unet_wait(c->fd, POLLIN, deadline)
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

/* The i-th of a list, from its head. */
static sds *at(const struct entry *e, size_t i)
{
	return &e->list[(e->first + i) & (e->places - 1)];
}

/* In 06-kv-members.h. */
static void drop_member(struct entry *e, struct member *m);

static void clear(struct entry *e)
{
	for (; e->length > 0; rest(), steps++)
		sdsfree(*at(e, --e->length));
	free(e->list);
	for (; e->members; rest(), steps++)
		drop_member(e, e->members);
	free(e->heap);
	sdsfree(e->string);
	e->list = NULL;
	e->places = 0;
	e->heap = NULL;
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
static struct entry *make(sds key, char type)
{
	struct entry *e = calloc(1, sizeof *e);

	if (!e)
		return NULL;
	e->type = type;
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

	steps++;
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
		e = make(key, 's');
	else if (!e->string)
		clear(e);
	if (!e)
		return false;
	e->type = 's';
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
enum { GET, SET, INCR, DECR, INCRBY, DECRBY, DEL, EXISTS, EXPIRE, TTL, MGET, MSET,
       SADD, SREM, SPOP, SCARD, SISMEMBER, SMEMBERS, HSET, HGET, HDEL, HLEN, HGETALL,
       ZADD, ZPOPMIN, ZCARD, ZSCORE,
       LPUSH, RPUSH, LPOP, RPOP, LLEN, LRANGE, XADD, XLEN, PUBLISH,
       PING, ECHO, INFO, COMMAND, CONFIG, HELLO, CLIENT, SELECT, QUIT,  /* without turn */
       BLPOP, SUBSCRIBE, UNSUBSCRIBE, IDS };

static const struct {
	const char *name;
	int         arity;              /* with the name; negative: at least */
	char        type;               /* of the key a[1]: string, list, stream (x), set
					   (m), hash, sorted set (z), any; 0: no key */
} commands[IDS] = {
	{ "get", 2, 's' }, { "set", -3, 0 }, { "incr", 2, 's' }, { "decr", 2, 's' },
	{ "incrby", 3, 's' }, { "decrby", 3, 's' }, { "del", -2, 0 },
	{ "exists", -2, 0 }, { "expire", 3, 'a' }, { "ttl", 2, 'a' }, { "mget", -2, 0 },
	{ "mset", -3, 0 }, { "sadd", -3, 'm' }, { "srem", -3, 'm' }, { "spop", 2, 'm' },
	{ "scard", 2, 'm' }, { "sismember", 3, 'm' }, { "smembers", 2, 'm' },
	{ "hset", -4, 'h' }, { "hget", 3, 'h' }, { "hdel", -3, 'h' }, { "hlen", 2, 'h' },
	{ "hgetall", 2, 'h' }, { "zadd", -4, 'z' }, { "zpopmin", 2, 'z' },
	{ "zcard", 2, 'z' }, { "zscore", 3, 'z' },
	{ "lpush", -3, 'l' }, { "rpush", -3, 'l' }, { "lpop", 2, 'l' },
	{ "rpop", 2, 'l' }, { "llen", 2, 'l' }, { "lrange", 4, 'l' },
	{ "xadd", -5, 'x' }, { "xlen", 2, 'x' },
	{ "publish", 3, 0 }, { "ping", -1, 0 }, { "echo", 2, 0 }, { "info", -1, 0 },
	{ "command", 1, 0 }, { "config", 3, 0 }, { "hello", -1, 0 }, { "client", -2, 0 },
	{ "select", 2, 0 }, { "quit", -1, 0 }, { "blpop", -3, 0 }, { "subscribe", -2, 0 },
	{ "unsubscribe", -1, 0 },
};

/* Of SET: when the key expires, by a word such as EX and a number. False: neither. */
static bool expiry(sds word, sds number, int64_t *when, const char **error)
{
	static const char *const words[] = { "ex", "px", "exat", "pxat" };
	struct timespec t;
	int64_t unit, n;
	int i = 0;

	while (i < 4 && strcasecmp(word, words[i]) != 0)
		i++;
	if (i == 4)
		return false;
	unit = i % 2 ? USYNC_SECOND / 1000 : USYNC_SECOND;
	if (!integer(number, 1, INT64_MAX / 4 / unit, &n)) {
		*error = RANGE;
		return true;
	}
	n *= unit;
	clock_gettime(CLOCK_REALTIME, &t);
	if (i >= 2)                             /* since 1970 */
		n -= t.tv_sec * USYNC_SECOND + t.tv_nsec;
	*when = usync_after(n);
	return true;
}

static const char *set(struct conn *c)
{
	bool nx = false, xx = false, get = false, keep = false;
	const char *error = NULL;
	struct entry *e = c->n > 3 ? find(c->a[1]) : NULL;
	int64_t when = USCHED_NEVER;

	for (size_t i = 3; i < c->n; i++, steps++) {
		rest();
		if (strcasecmp(c->a[i], "nx") == 0)
			nx = true;
		else if (strcasecmp(c->a[i], "xx") == 0)
			xx = true;
		else if (strcasecmp(c->a[i], "get") == 0)
			get = true;
		else if (strcasecmp(c->a[i], "keepttl") == 0)
			keep = true;
		else if (when == USCHED_NEVER && i + 1 < c->n
			 && expiry(c->a[i], c->a[i + 1], &when, &error))
			i++;
		else
			return SYNTAX;
	}
	if ((nx && xx) || (keep && when != USCHED_NEVER))
		return SYNTAX;
	if (error)
		return error;
	if (get && e && e->type != 's')
		return WRONGTYPE;
	if (e ? nx : xx)
		return say(c, get && e ? e->string : NULL);
	if (!put(c->a[1], &c->a[2], keep && e ? e->expires : when))
		return OOM;
	return get ? say(c, c->a[2]) : OK;      /* which is the one before now */
}

static const char *increase(struct conn *c, struct entry *e, int64_t by, bool down)
{
	int64_t n = 0;
	bool done;
	sds text;

	if (e && !integer(e->string, INT64_MIN, INT64_MAX, &n))
		return RANGE;
	if (down ? __builtin_sub_overflow(n, by, &n) : __builtin_add_overflow(n, by, &n))
		return "-ERR increment or decrement would overflow\r\n";
	text = sdsfromlonglong(n);
	done = text && put(c->a[1], &text, e ? e->expires : USCHED_NEVER);
	sdsfree(text);
	return done ? SAY(c, ":%I\r\n", n) : OOM;
}

static const char *do_strings(struct conn *c, int id, struct entry *e)
{
	int64_t n = 0;

	switch (id) {
	case GET: return say(c, e ? e->string : NULL);
	case SET: return set(c);
	case MGET:
		SAY(c, "*%U\r\n", (uint64_t)c->n - 1);
		for (size_t i = 1; i < c->n; i++, rest())
			say(c, (e = find(c->a[i])) ? e->string : NULL);
		return NULL;
	case MSET:
		for (size_t i = 1; c->n % 2 && i < c->n; i += 2, rest())
			if (!put(c->a[i], &c->a[i + 1], USCHED_NEVER))
				return OOM;     /* the keys before it are set */
		return c->n % 2 ? OK : SYNTAX;
	case INCRBY: case DECRBY:
		if (!integer(c->a[2], INT64_MIN, INT64_MAX, &n))
			return RANGE;
		return increase(c, e, n, id == DECRBY);
	case INCR: case DECR: return increase(c, e, 1, id == DECR);
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
		for (size_t i = 1; i < c->n; i++, rest())
			if ((e = find(c->a[i])) && ++n && id == DEL)
				drop(e);
		return SAY(c, ":%I\r\n", n);
	}
}

/*
 * Replies with the name, if there is one, and the head or the tail. Without room, that
 * stays.
 */
static const char *pop(struct conn *c, struct entry *e, sds name, bool tail)
{
	sds s = *at(e, tail ? e->length - 1 : 0);

	if (!room(c, sdslen(s) + (name ? sdslen(name) : 0) + SHORT))
		return NULL;
	if (name) {
		SAY(c, "*2\r\n");
		say(c, name);
	}
	say(c, s);
	sdsfree(s);
	e->first += !tail;
	if (--e->length == 0)
		drop(e);
	return NULL;
}

/* Makes room for so many more. False: there is no memory. */
static bool grow(struct entry *e, size_t more)
{
	size_t places = e->places ? e->places : 1;
	sds *list;

	if (e->length + more <= e->places)
		return true;
	while (places < e->length + more)
		places *= 2;
	list = malloc(places * sizeof *list);
	if (!list)
		return false;
	for (size_t i = 0; i < e->length; i++) {
		list[i] = *at(e, i);
		steps += i % 16 == 0;
		rest();
	}
	free(e->list);
	e->list = list;
	e->first = 0;
	e->places = places;
	return true;
}

/* Takes over the arguments from the i-th on. False: there is no memory. */
static bool append(struct conn *c, struct entry *e, size_t i, bool tail)
{
	if (!e)
		return false;
	if (!grow(e, c->n - i)) {
		if (e->length == 0)
			drop(e);
		return false;
	}
	for (; i < c->n; i++, steps++, rest()) {
		e->first -= !tail;
		*at(e, tail ? e->length : 0) = c->a[i];
		e->length++;
		c->a[i] = NULL;
	}
	return true;
}

/* Serves blocked clients, first come, first served. Skips clients that are gone. */
static const char *push(struct conn *c, struct entry *e, bool tail)
{
	struct conn *to = TAILQ_FIRST(&waiting), *next;
	size_t left;

	if (!append(c, e, 2, tail))
		return OOM;
	left = e->length;
	SAY(c, ":%U\r\n", (uint64_t)left);
	for (; to && left > 0; to = next, steps++, rest()) {
		struct pollfd p = { to->fd, POLLRDHUP, 0 };
		sds name = c->a[1];

		next = TAILQ_NEXT(to, turn);
		if (place(to->a + 1, to->n - 2, name) == to->n - 2 || poll(&p, 1, 0) > 0
		    || !ring(to, sdslen(name) + sdslen(*at(e, 0)) + SHORT))
			continue;
		TAILQ_REMOVE(&waiting, to, turn);
		pop(to, e, name, false);
		left--;
	}
	return NULL;
}

static const char *range(struct conn *c, const struct entry *e)
{
	int64_t from, to, length = e ? (int64_t)e->length : 0;

	if (!integer(c->a[2], INT64_MIN, INT64_MAX, &from)
	    || !integer(c->a[3], INT64_MIN, INT64_MAX, &to))
		return RANGE;
	from = from >= 0 ? from : from < -length ? 0 : from + length;
	to = to >= 0 ? to : to + length;
	to = to < length ? to : length - 1;
	SAY(c, "*%I\r\n", from <= to ? to - from + 1 : 0);
	for (; from <= to; from++, rest())
		say(c, *at(e, (size_t)from));
	return NULL;
}

/* A stream is a list of texts here: only XADD with * and XLEN are there. */
static const char *add_to_stream(struct conn *c, struct entry *e)
{
	static int64_t last_ms, last_number;
	struct timespec t;
	char text[48];
	int64_t ms;
	sds id;

	if (strcmp(c->a[2], "*") != 0)
		return "-ERR only the ID * is supported\r\n";
	if (c->n % 2 == 0)
		return "-ERR wrong number of arguments for 'xadd' command\r\n";
	clock_gettime(CLOCK_REALTIME, &t);
	ms = t.tv_sec * 1000 + t.tv_nsec / 1000000;
	last_number = ms > last_ms ? 0 : last_number + 1;
	last_ms = ms > last_ms ? ms : last_ms;
	snprintf(text, sizeof text, "%lld-%lld", (long long)last_ms,
		 (long long)last_number);
	id = sdsnew(text);
	if (!id)
		return OOM;
	sdsfree(c->a[2]);
	c->a[2] = id;
	e = e ? e : make(c->a[1], 'x');
	/* The ID, its fields and their values: XLEN counts by IDs. */
	if (!append(c, e, 2, true))
		return OOM;
	e->count++;
	return SAY(c, "$%u\r\n%s\r\n", (unsigned)strlen(text), text);
}

static const char *blpop(struct conn *c)
{
	char *tail, *text = c->a[c->n - 1];
	double s = strtod(text, &tail);
	struct entry *e;
	int rc;

	if (*tail || tail == text || !(s >= 0 && s < 1e9))
		return "-ERR timeout is not a float or out of range\r\n";
	if (c->n - 2 > KEYS_MAX)
		return "-ERR too many keys\r\n";
	for (size_t i = 1; i < c->n - 1; i++) {
		e = find(c->a[i]);
		if (e && e->type != 'l')
			return WRONGTYPE;
		if (e)
			return pop(c, e, c->a[i], false);
	}
	TAILQ_INSERT_TAIL(&waiting, c, turn);
	usync_group_add(&blocked, 1);
	usync_mutex_unlock(&turn);
	flush(c);
	ustack_shield(0);
	rc = await(c, POLLRDHUP, s > 0 ? usync_after((int64_t)(s * 1e9)) : USCHED_NEVER);
	ustack_shield(1);
	take_turn();
	usync_group_done(&blocked);
	if (c->out)
		return NULL;                    /* served */
	TAILQ_REMOVE(&waiting, c, turn);
	c->quit |= rc >= 0;                     /* the client is gone */
	if (rc == -ETIMEDOUT)
		return c->protocol == 3 ? "_\r\n" : "*-1\r\n";
	return "-ERR the server ends\r\n";
}

#include "06-kv-members.h"

/* UNSUBSCRIBE without arguments ends all subscriptions. */
static const char *subscribe(struct conn *c, bool on)
{
	struct entry *all = &c->channels;
	size_t i = 1;

	all->type = 'm';
	do {
		struct member *m = c->n > 1 ? find_member(all, c->a[i]) : all->members;

		if (on && !m && !add_member(all, c->a[i]))
			return OOM;
		SAY(c, "%s3\r\n$%s\r\n", c->protocol == 3 ? ">" : "*",
		    on ? "9\r\nsubscribe" : "11\r\nunsubscribe");
		say(c, c->n > 1 ? c->a[i] : m ? m->name : NULL);
		if (!on && m)
			drop_member(all, m);
		SAY(c, ":%u\r\n", HASH_COUNT(all->members));
		rest();
	} while (++i < c->n || (c->n == 1 && all->members));
	return NULL;
}

static const char *publish(struct conn *c)
{
	size_t size = sdslen(c->a[1]) + sdslen(c->a[2]) + 2 * SHORT;
	struct conn *to;
	int64_t count = 0;

	TAILQ_FOREACH(to, &conns, next) {
		steps++;
		rest();
		if (!to->quit && find_member(&to->channels, c->a[1]) && ring(to, size)) {
			count++;
			SAY(to, "%s3\r\n$7\r\nmessage\r\n",
			    to->protocol == 3 ? ">" : "*");
			say(to, c->a[1]);
			say(to, c->a[2]);
			to->quit = sdslen(to->out) > UNREAD_MAX;
			if (to->quit)                   /* the client does not read */
				unet_shutdown(to->fd, SHUT_RDWR);
		}
	}
	return SAY(c, ":%I\r\n", count);
}

/* HELLO [2|3 [AUTH name password] [SETNAME name]]: any password will do. */
static const char *hello(struct conn *c)
{
	int64_t protocol = c->protocol;

	if (c->n > 1 && !integer(c->a[1], INT64_MIN, INT64_MAX, &protocol))
		return "-ERR Protocol version is not an integer or out of range\r\n";
	if (protocol != 2 && protocol != 3)
		return "-NOPROTO unsupported protocol version\r\n";
	for (size_t i = 2; i < c->n; steps++, rest()) {
		bool auth = strcasecmp(c->a[i], "auth") == 0;

		if ((!auth && strcasecmp(c->a[i], "setname") != 0)
		    || i + (auth ? 2 : 1) >= c->n)
			return SYNTAX;
		if (auth && strcmp(c->a[i + 1], "default") != 0)
			return "-WRONGPASS invalid username-password pair or user is "
				"disabled.\r\n";
		i += auth ? 3 : 2;
	}
	c->protocol = (int)protocol;
	SAY(c, protocol == 3 ? "%%7\r\n" : "*14\r\n");
	SAY(c, "$6\r\nserver\r\n$5\r\nredis\r\n$7\r\nversion\r\n$5\r\n7.0.0\r\n");
	SAY(c, "$5\r\nproto\r\n:%I\r\n$2\r\nid\r\n:%I\r\n", protocol, c->id);
	return SAY(c, "$4\r\nmode\r\n$10\r\nstandalone\r\n$4\r\nrole\r\n$6\r\nmaster\r\n"
		   "$7\r\nmodules\r\n*0\r\n");
}

/* What clients send when they connect: names and versions, which are not kept. */
static const char *client(struct conn *c)
{
	if (strcasecmp(c->a[1], "id") == 0 && c->n == 2)
		return SAY(c, ":%I\r\n", c->id);
	if (strcasecmp(c->a[1], "getname") == 0 && c->n == 2)
		return say(c, NULL);
	if (strcasecmp(c->a[1], "setname") == 0 && c->n == 3)
		return OK;
	if (strcasecmp(c->a[1], "setinfo") == 0 && c->n == 4)
		return OK;
	return "-ERR unknown subcommand, or wrong number of arguments\r\n";
}

static const char *list_commands(struct conn *c)
{
	SAY(c, "*%i\r\n", IDS);
	for (int i = 0; i < IDS; i++, rest())
		SAY(c, "*6\r\n$%u\r\n%s\r\n:%i\r\n*0\r\n:0\r\n:0\r\n:0\r\n",
		    (unsigned)strlen(commands[i].name), commands[i].name,
		    commands[i].arity);
	return NULL;
}

static const char *do_others(struct conn *c, int id, struct entry *e)
{
	char text[SHORT / 2];

	switch (id) {
	case LPUSH: case RPUSH: return push(c, e ? e : make(c->a[1], 'l'), id == RPUSH);
	case LPOP: case RPOP: return e ? pop(c, e, NULL, id == RPOP) : say(c, NULL);
	case LLEN: return SAY(c, ":%U\r\n", (uint64_t)(e ? e->length : 0));
	case LRANGE: return range(c, e);
	case XADD: return add_to_stream(c, e);
	case XLEN: return SAY(c, ":%U\r\n", (uint64_t)(e ? e->count : 0));
	case HELLO: return hello(c);
	case CLIENT: return client(c);
	case SELECT:
		return strcmp(c->a[1], "0") ? "-ERR DB index is out of range\r\n" : OK;
	case BLPOP: return c->channels.members ? SYNTAX : blpop(c);
	case SUBSCRIBE: case UNSUBSCRIBE: return subscribe(c, id == SUBSCRIBE);
	case PUBLISH: return publish(c);
	case PING:
		if (c->channels.members && c->protocol == 2)
			return "*2\r\n$4\r\npong\r\n$0\r\n\r\n";
		return c->n > 1 ? say(c, c->a[1]) : "+PONG\r\n";
	case ECHO: return say(c, c->a[1]);
	case CONFIG:                    /* CONFIG GET, for redis-benchmark */
		SAY(c, c->protocol == 3 ? "%%1\r\n" : "*2\r\n");
		say(c, c->a[2]);
		return SAY(c, "$0\r\n\r\n");
	case INFO:
		snprintf(text, sizeof text, "redis_version:7.0.0\r\nkeys:%u\r\n"
			 "connected_clients:%u\r\nblocked_clients:%u\r\n",
			 HASH_COUNT(table), clients.g_count, blocked.g_count);
		return SAY(c, "$%u\r\n%s\r\n", (unsigned)strlen(text), text);
	case COMMAND: return list_commands(c);
	default:                        /* QUIT */
		c->quit = true;
		return OK;
	}
}

#endif /* KV_H */
