/* SPDX-License-Identifier: MIT */
/*
 * A key-value server that speaks the Redis protocol. Build it with
 *
 *   cc -O2 examples/06-kv.c build/one/usched-all.c -Ibuild/one -pthread -lhiredis \
 *     -lsodium -o kv
 *
 * with hiredis 0.14, uthash and libsodium. `kv PORT [SECONDS]' serves 127.0.0.1:PORT
 * until SIGTERM. A client that sends no whole command for SECONDS, 300 by default, or
 * takes no replies for as long, is closed; subscribers and blocked clients may wait. It
 * prints:
 *
 *   ready
 *
 * Each connection is a thread. It reads what has arrived, executes the commands, and
 * writes all their replies at once. main() runs all threads, and a command on data is
 * atomic: a long one gives way, but other commands on data wait for it. SIGTERM cancels
 * the threads: they answer what has arrived, and end. Out of memory, a command gets an
 * error reply; only hiredis, which splits lines of words, ends the program then. The
 * commands are in 06-kv.h, the members of sets and hashes in 06-kv-members.h.
 */
#include "06-kv.h"

#include <sys/random.h>

#define LINGER (5 * USYNC_SECOND)        /* for a client to take its last replies */

static const char *perform(struct conn *c, int id)
{
	struct entry *e = commands[id].type ? find(c->a[1]) : NULL;

	if (e && commands[id].type != 'a' && commands[id].type != e->type)
		return WRONGTYPE;
	if (id >= BLPOP && c->bell < 0 && (c->bell = eventfd(0, EFD_CLOEXEC)) < 0)
		return "-ERR no descriptor is left\r\n";
	return id <= MSET ? do_strings(c, id, e)
		: id <= ZSCORE ? do_members(c, id, e) : do_others(c, id, e);
}

static const char *execute(struct conn *c)
{
	int id = 0, n = (int)c->n, arity;
	const char *reply;

	while (id < IDS && strcasecmp(c->a[0], commands[id].name) != 0)
		id++;
	if (id == IDS)
		return "-ERR unknown command\r\n";
	arity = commands[id].arity;
	if (arity < 0 ? n < -arity : n != arity)
		return SAY(c, "-ERR wrong number of arguments for '%s' command\r\n",
			   commands[id].name);
	if (id >= PING && id <= QUIT)
		return do_others(c, id, NULL);
	take_turn();
	reply = perform(c, id);
	usync_mutex_unlock(&turn);
	return reply;
}

/* Call-backs of hiredis for an array of strings. run() also takes a line of words. */
static void *on_array(const redisReadTask *t, int n)
{
	struct conn *c = t->privdata;

	c->bytes = SIZE_MAX;                    /* too many, rather than out of memory */
	if (t->parent || n > ARGS_MAX)
		return NULL;
	c->missing = (size_t)n;
	c->bytes = 0;
	return take_args(c, (size_t)n);
}

static void *on_string(const redisReadTask *t, char *text, size_t size)
{
	struct conn *c = t->privdata;

	c->bytes = t->type == REDIS_REPLY_STRING ? c->bytes + size : SIZE_MAX;
	c->missing--;
	return c->bytes > COMMAND_MAX ? NULL : take_arg(c, (size_t)t->idx, text, size);
}

/* The reply to an array that is malformed or too large. */
static const char *refuse(const struct conn *c, const redisReader *r)
{
	return r->err == REDIS_ERR_OOM && c->bytes <= COMMAND_MAX
		? OOM : "-ERR Protocol error\r\n";
}

static bool split_line(struct conn *c, redisReader *r)
{
	char *line = r->buf + r->pos, *nl = memchr(line, '\n', r->len - r->pos);
	int n = 0;

	if (!nl)
		return false;
	*nl = '\0';
	c->a = sdssplitargs(line, &n);
	c->quit = !c->a;                        /* unbalanced quotes */
	c->n = c->places = (size_t)n;
	r->pos += (size_t)(nl + 1 - line);
	return true;
}

/* Whether what is missing is the rest of a line with a size, or of a string: too long. */
static bool is_long(const redisReader *r)
{
	const char *next = r->buf + r->pos;

	if (r->len - r->pos > HEADER_MAX && !memchr(next, '\n', HEADER_MAX))
		return true;
	return r->ridx > 0 && r->rstack[r->ridx].type == REDIS_REPLY_STRING
		&& strtoll(next, NULL, 10) > COMMAND_MAX;
}

/* Executes the complete commands, and keeps the rest. */
static void run(struct conn *c, redisReader *r)
{
	while (!c->quit && r->pos < r->len) {
		bool line = r->ridx < 0 && r->buf[r->pos] != '*';
		const char *reply = NULL;
		void *all = NULL;

		if (r->len - r->pos > (size_t)(line ? 0 : COMMAND_MAX) + 2 * BATCH
		    || (!line && redisReaderGetReply(r, &all) != REDIS_OK)
		    || (all && c->missing > 0) || (!line && !all && is_long(r))) {
			reply = refuse(c, r);
			c->quit = true;
		} else if (!(line ? split_line(c, r) : all != NULL)) {
			break;
		} else if (c->quit) {
			reply = refuse(c, r);
		} else if (c->n > 0) {
			reply = execute(c);
			c->until = uevents_now() + idle;
		}
		if (reply)
			answer(c, reply);
		leave_args(c);
		if (c->out && sdslen(c->out) > FLUSH)
			flush(c);
		steps++;
		rest();
	}
	if (r->pos > 0)
		sdsrange(r->buf, (int)r->pos, -1);
	r->len -= r->pos;
	r->pos = 0;
}

/* Reads what has arrived, and executes it. Replies are sent even if cancelled. */
static void receive(struct conn *c)
{
	static redisReplyObjectFunctions functions = {
		.createArray = on_array, .createString = on_string };
	ssize_t n = unet_read(c->fd, batch, BATCH, 0);

	ustack_shield(1);
	if (n > 0) {
		redisReader *r = c->reader ? c->reader : spare ? spare :
			redisReaderCreateWithFunctions(&functions);

		spare = r == spare ? NULL : spare;
		c->reader = r;
		if (!r || redisReaderFeed(r, batch, (size_t)n) != REDIS_OK) {
			answer(c, OOM);
			c->quit = true;
		} else {
			r->privdata = c;
			run(c, r);
		}
		if (!c->quit && !spare && r->len == 0 && r->ridx < 0) {
			spare = r;
			c->reader = NULL;
		}
	}
	flush(c);
	ustack_shield(0);
	if (n <= 0 ? n != -ETIMEDOUT || end != USCHED_NEVER
		   : end != USCHED_NEVER && uevents_now() > end)
		c->quit = true;
}

/* Waits for more of the client. A subscriber may be silent. */
static bool may_go_on(struct conn *c)
{
	return !c->quit && (end != USCHED_NEVER
		|| await(c, POLLIN, c->channels.members ? USCHED_NEVER : c->until) >= 0
		|| end != USCHED_NEVER);
}

static void serve(int fd, void *unused)
{
	struct conn *c = calloc(1, sizeof *c);
	int64_t until;

	(void)unused;
	if (!c) {
		unet_close(fd);
		return;
	}
	*c = (struct conn){ .fd = fd, .bell = -1, .thread = ustack_self(),
			    .until = usync_after(idle), .protocol = 2, .id = ++last_id };
	TAILQ_INSERT_TAIL(&conns, c, next);
	usync_group_add(&clients, 1);
	while (may_go_on(c))
		receive(c);
	ustack_shield(1);
	unet_shutdown(c->fd, SHUT_WR);
	until = usync_after(LINGER);
	while (unet_read(c->fd, batch, BATCH, until) > 0)
		;                       /* unread input would cause a reset */
	take_turn();
	TAILQ_REMOVE(&conns, c, next);
	usync_mutex_unlock(&turn);
	unet_close(c->fd);
	if (c->bell >= 0)
		unet_close(c->bell);
	if (c->reader)
		redisReaderFree(c->reader);
	free_args(c->a, c->places);
	clear(&c->channels);
	sdsfree(c->out);
	free(c);
	usync_group_done(&clients);
}

/* Accepts until the listener is closed. Out of memory, it yields. */
static void accept_clients(void *unused)
{
	struct ustack_how how = { .h_serve = serve };

	(void)unused;
	while ((how.h_fd = unet_accept(listener, NULL, USCHED_NEVER)) != -EBADF)
		if (how.h_fd < 0)
			ustack_yield();
		else if (rr_start_with(rr, &how, NULL, NULL, NULL))
			unet_close(how.h_fd);
}

/* Drops expired keys until a signal comes, and then ends the connections. */
static void watch(void *unused)
{
	struct conn *c;
	int rc;

	(void)unused;
	while ((rc = unet_signal(signals, usync_after(USYNC_SECOND / 10))) < 0) {
		if (rc != -ETIMEDOUT)
			ustack_yield();
		take_turn();
		for (unsigned i = 0; i < SWEEP && i < HASH_COUNT(table); i++, rest()) {
			struct entry *e = next_to_sweep ? next_to_sweep : table;

			next_to_sweep = e->hh.next;
			find(e->key);
		}
		usync_mutex_unlock(&turn);
	}
	end = usync_after(USYNC_SECOND / 2);
	unet_close(signals);
	unet_close(listener);
	TAILQ_FOREACH(c, &conns, next)
		ustack_cancel(c->thread);
	while (usync_group_wait(&clients, end + LINGER) == -ENOMEM)
		ustack_yield();
	TAILQ_FOREACH(c, &conns, next)
		unet_shutdown(c->fd, SHUT_RDWR);        /* their clients do not read */
	while (usync_group_wait(&clients, usync_after(LINGER)) == -ENOMEM)
		ustack_yield();
}

static int begin(const struct unet_addr *address, const sigset_t *set,
		 struct ustack **watcher)
{
	struct uprocs_conf conf = { .c_processors = 1, .c_stacks = 256, .c_embed = 1 };
	int rc;

	if ((rc = listener = unet_listen(address, 0, 0)) < 0
	    || (rc = signals = unet_signals(set)) < 0 || (rc = rr_create(&conf, &rr))
	    || (rc = rr_start(rr, watch, NULL, watcher)))
		return rc;
	return rr_start(rr, accept_clients, NULL, NULL);
}

int main(int argc, char **argv)
{
	struct unet_addr address;
	struct ustack *watcher;
	char text[32], *rest = "";
	sigset_t set;
	int rc;

	snprintf(text, sizeof text, "127.0.0.1:%s", argc > 1 ? argv[1] : "");
	if (argc > 2)
		idle = strtol(argv[2], &rest, 10);
	if (argc > 3 || unet_addr(text, &address) || argv[1][0] == '0' || *rest
	    || idle < 1 || (argc > 2 && idle > 1000000)) {
		fputs("usage: kv PORT [SECONDS]\n", stderr);
		return 2;
	}
	if (argc > 2)
		idle *= USYNC_SECOND;
	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	sigprocmask(SIG_BLOCK, &set, NULL);
	if (getrandom(seed, sizeof seed, 0) != sizeof seed) {
		perror("kv: getrandom");
		return 1;
	}
	rc = begin(&address, &set, &watcher);
	if (rc < 0) {
		fprintf(stderr, "kv: cannot serve %s: %s\n", text, ustack_error(rc));
		return 1;
	}
	puts("ready");
	fflush(stdout);
	ustack_join(watcher, NULL, USCHED_NEVER);
	if (uprocs_destroy(rr, usync_after(LINGER)))
		return 1;               /* said what is left, and uses the table */
	while (table)
		drop(table);
	if (spare)
		redisReaderFree(spare);
	free_args(spare_args, FEW);
	sdsfree(spare_out);
	return 0;
}
