/* SPDX-License-Identifier: MIT */
/*
 * A replicated log: it goes on while most of its nodes are up and reach each other, and
 * keeps what it has confirmed. Build it with
 *
 *   cc -O2 examples/18-log.c build/one/usched-all.c -Ibuild/one -pthread \
 *     -o log
 *
 * after `make one'. Each
 * node has a number, a directory, and the addresses of all:
 *
 *   for i in 1 2 3; do
 *     ./log $i /tmp/$i 127.0.0.1:7201 127.0.0.1:7202 127.0.0.1:7203 &
 *   done
 *
 * "append TEXT" is answered by "ok INDEX" when most nodes have it on their disks, "read
 * INDEX" by "ok TEXT", or by "end" if there is none yet, "status" by node, leader, term,
 * last index committed, last index, and a sum. "leader ADDRESS" is to be asked instead.
 * After "error ..." the text may be in the log or not. Nodes talk on the same ports, in a
 * network that is trusted. Any signal ends a node.
 *
 * It is Raft (D. Ongaro and J. Ousterhout: In search of an understandable consensus
 * algorithm, 2014), without snapshots and changes of the members. A journal has what
 * must survive: "t TERM VOTE", the term, and the node that has its vote, or 0; "c
 * INDEX", where later entries are cut off; "e TERM TEXT", the next entry. Behind each
 * record is a sum of all up to it. A change is written and synced first, and then done,
 * by redo(), as when a node starts: so memory has nothing that a crash takes back. After
 * a failure the next write is at the same place, and sums tell it from what is behind.
 *
 * One mutex guards a node. A thread for each connection answers, one for each other node
 * asks, and one waits for the time of an election. A thread that sends lacks the mutex.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "usched-all.h"

#define MS        (USYNC_SECOND / 1000)
#define HEARTBEAT (100 * MS)
#define PATIENCE  (1000 * MS)           /* for another node; for a leader, up to twice */
#define CLIENT    (5 * USYNC_SECOND)    /* for most nodes to have an entry */
#define IDLE      (600 * USYNC_SECOND)  /* for a client to say something */

/* Bytes: of an entry; of a line beside it; of both; of the entries in a message. */
enum { TEXT = 1024, HEAD = 160, RECORD = TEXT + HEAD, BODY = 4 * RECORD, NODES = 9 };

enum role { FOLLOWER, CANDIDATE, LEADER };
typedef unsigned long long number;

struct entry {
	number term;
	size_t at, size;                /* its text, in the journal */
};

/* What another node is asked: for its vote, or to take entries after the previous one. */
struct request {
	enum role role;                 /* CANDIDATE or LEADER */
	number    term, previous, previous_term, commit, last, round;
	size_t    size;                 /* bytes of the entries */
	int64_t   time;
};

struct peer {
	struct node     *node;
	const char      *address;
	int              fd;
	struct ubuf_in   in;
	struct request   request;
	char             head[HEAD], body[BODY];
	number           voted;         /* the last term in which it has answered */
	number           next, match;   /* entries: to be sent, and known to be there */
	number           round;         /* of the leader, that it has confirmed */
	int64_t          due;           /* the next heartbeat, or attempt to connect */
};

struct node {
	struct usync_mutex turn;
	struct usync_cond  changed;
	struct uprocs     *rr;
	int                id, nodes, listener;
	struct peer        peers[NODES], *self;
	unsigned           random;

	/* The journal, which is also in memory; up to `saved' it is on the disk. */
	int                file;
	char              *journal;
	size_t             saved, used, room;
	number             saved_sum, sum;

	/* What it says. The entries are log[1] to log[last]. */
	number             term;
	int                vote;
	struct entry      *log;
	number             last;
	enum role          role;
	int                leader;      /* 0: unknown */
	int                votes;
	int64_t            election;    /* when one begins */
	number             round;       /* of heartbeats: reads wait for one */
	number             commit, applied;
	number             state;       /* of the machine that the entries drive */
};

static number add_to_sum(number sum, const char *text, size_t size)     /* FNV-1a */
{
	while (size-- > 0)
		sum = (sum ^ (unsigned char)*text++) * 0x100000001b3;
	return sum;
}

static void follow(struct node *n, int leader)
{
	n->role = FOLLOWER;
	n->leader = leader;
	usync_cond_broadcast(&n->changed);
}

/* Makes room for so many bytes, and for their entries: a record has 21 bytes at least. */
static void grow(struct node *n, size_t room)
{
	n->room = room;
	n->journal = realloc(n->journal, room);
	n->log = realloc(n->log, (room / 21 + 1) * sizeof *n->log);
	if (!n->journal || !n->log)
		abort();                        /* a node is ready for a crash */
}

/* Adds a record, which save() writes. */
__attribute__((format(printf, 2, 3)))
static void note(struct node *n, const char *format, ...)
{
	char *record;
	va_list list;
	int size;

	if (n->room - n->used < RECORD)
		grow(n, 2 * n->room);
	record = n->journal + n->used;
	va_start(list, format);
	size = vsnprintf(record, RECORD, format, list);
	va_end(list);
	n->sum = add_to_sum(n->sum, record, (size_t)size);
	n->used += (size_t)(size + sprintf(record + size, " %016llx\n", n->sum));
}

/* Does what the record at `saved' says. False: it is not whole. */
static bool redo(struct node *n)
{
	char *record = n->journal + n->saved, *text;
	char *end = memchr(record, '\n', n->used - n->saved);
	number sum, value;

	if (!end || end - record < 20)
		return false;
	sum = add_to_sum(n->saved_sum, record, (size_t)(end - 17 - record));
	if (strtoull(end - 16, NULL, 16) != sum)
		return false;
	value = strtoull(record + 2, &text, 10);
	if (*record == 't' && value > n->term)
		follow(n, 0);
	if (*record == 't')
		n->term = value, n->vote = atoi(text);
	else if (*record == 'c')
		n->last = value;
	else
		n->log[++n->last] = (struct entry){ value,
			(size_t)(text + 1 - n->journal), (size_t)(end - 18 - text) };
	n->saved_sum = sum;
	n->saved += (size_t)(end + 1 - record);
	return true;
}

/* Writes and syncs what was noted, and does it; or forgets it. 0, or an error. */
static int save(struct node *n)
{
	ssize_t rc = 0;

	for (size_t at = n->saved; rc >= 0 && at < n->used; at += (size_t)rc)
		rc = ufile_pwrite(n->file, n->journal + at, n->used - at, (off_t)at,
				  USCHED_NEVER);
	if (rc >= 0 && n->used > n->saved)
		rc = ufile_sync(n->file, USCHED_NEVER);
	if (rc < 0) {
		n->used = n->saved;
		follow(n, 0);                   /* another node may do better */
	}
	while (n->saved < n->used)
		redo(n);
	n->sum = n->saved_sum;
	return rc < 0 ? (int)rc : 0;
}

/* Reads the journal. What was not synced before is now. 0, or an error. */
static int recover(struct node *n, const char *directory)
{
	int at = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	ssize_t size;

	n->file = at < 0 ? -1 : openat(at, "journal", O_RDWR | O_CREAT | O_CLOEXEC, 0666);
	if (n->file < 0 || fsync(at) || (size = lseek(n->file, 0, SEEK_END)) < 0)
		return -errno;
	close(at);
	grow(n, (size_t)size + RECORD);
	n->log[0] = (struct entry){ 0, 0, 0 };
	if (pread(n->file, n->journal, (size_t)size, 0) != size)
		return -EIO;
	n->used = (size_t)size;
	while (redo(n))
		;
	n->used = n->saved;
	n->sum = n->saved_sum;
	return fsync(n->file) ? -errno : 0;
}

static void wait_longer(struct node *n)
{
	n->election = usync_after(PATIENCE + rand_r(&n->random) % (PATIENCE / MS) * MS);
}

/* Returns whether most nodes have confirmed that entry, and that round. */
static bool most_have(const struct node *n, number index, number round)
{
	int count = 0;

	for (int k = 0; k < n->nodes; k++)
		count += n->peers[k].match >= index && n->peers[k].round >= round;
	return count > n->nodes / 2;
}

/* The machine: here a sum of all texts. */
static void apply(struct node *n)
{
	while (n->applied < n->commit) {
		const struct entry *e = &n->log[++n->applied];

		n->state = add_to_sum(n->state, n->journal + e->at, e->size);
	}
	usync_cond_broadcast(&n->changed);
}

/* What most nodes have is committed, if it is of this term: a later leader may lack, and
   cut off, what is of one before (section 5.4.2). */
static void commit(struct node *n)
{
	for (number i = n->last; i > n->commit && n->log[i].term == n->term; i--)
		if (most_have(n, i, 0))
			n->commit = i;
	apply(n);
}

/* An entry without a text commits what is before it. */
static void lead(struct node *n)
{
	note(n, "e %llu ", n->term);
	if (save(n))
		return;
	n->role = LEADER;
	n->leader = n->id;
	for (struct peer *p = n->peers; p < n->peers + n->nodes; p++) {
		p->next = n->last;
		p->match = p->round = p == n->self ? ~0ull : 0;
	}
	n->round = 1;
	commit(n);
}

static void stand(struct node *n)
{
	wait_longer(n);
	note(n, "t %llu %d", n->term + 1, n->id);
	if (save(n))
		return;
	n->role = CANDIDATE;
	n->votes = 1;
}

static void watch(void *node)
{
	struct node *n = node;

	usync_mutex_lock(&n->turn, USCHED_NEVER);
	for (;;)
		if (n->role != LEADER && usync_after(0) >= n->election)
			stand(n);
		else
			usync_cond_wait(&n->changed, &n->turn,
					n->role == LEADER ? USCHED_NEVER : n->election);
}

/* ---- Answers to other nodes: the term, 1 or 0, and the last index that may fit ---- */

static int on_vote(struct node *n, const struct request *r, int id, char *answer)
{
	number last_term = n->log[n->last].term;
	bool up_to_date = r->previous_term > last_term
		|| (r->previous_term == last_term && r->previous >= n->last);
	int vote = r->term > n->term ? 0 : n->vote;
	bool grants = r->term >= n->term && up_to_date && (vote == 0 || vote == id);

	if (r->term > n->term || (grants && vote == 0))
		note(n, "t %llu %d", r->term, grants ? id : vote);
	if (save(n))
		return -EIO;
	if (grants)
		wait_longer(n);
	return sprintf(answer, "%llu %d 0\n", n->term, grants);
}

/* Notes the entries that are not there. Returns the index of the last in the message. */
static number take(struct node *n, const struct request *r, const char *body)
{
	number index = r->previous;
	bool same = true;

	for (const char *end = body + r->size, *next; body < end; body = next) {
		char *text;
		number term = strtoull(body, &text, 10);

		next = (const char *)memchr(body, '\n', (size_t)(end - body)) + 1;
		index++;
		if (same && index <= n->last && n->log[index].term == term)
			continue;
		if (same && index <= n->last)
			note(n, "c %llu", index - 1);
		same = false;
		note(n, "e %llu %.*s", term, (int)(next - 2 - text), text + 1);
	}
	return index;
}

static int on_entries(struct node *n, const struct request *r, int id, const char *body,
		      char *answer)
{
	bool fits = r->previous <= n->last
		&& n->log[r->previous].term == r->previous_term;
	number index;

	if (r->term < n->term)
		return sprintf(answer, "%llu 0 0\n", n->term);
	if (r->term > n->term)
		note(n, "t %llu 0", r->term);
	index = fits ? take(n, r, body) : n->last;
	if (save(n))
		return -EIO;
	follow(n, id);
	wait_longer(n);
	if (fits && r->commit > n->commit)
		n->commit = r->commit < index ? r->commit : index;
	apply(n);
	return sprintf(answer, "%llu %d %llu\n", n->term, fits, index);
}

/* ---- Questions to another node ---- */

/* The time of the next message. */
static int64_t time_for(const struct peer *p)
{
	const struct node *n = p->node;
	bool more = n->role == LEADER ? p->next <= n->last || p->round < n->round
				      : n->role == CANDIDATE && p->voted != n->term;

	return more && p->fd >= 0 ? 0 : more || n->role == LEADER ? p->due : USCHED_NEVER;
}

static void prepare(struct peer *p)
{
	struct node *n = p->node;
	struct request *r = &p->request;

	*r = (struct request){ .role = n->role, .term = n->term, .round = n->round,
			       .time = usync_after(0) };
	r->last = r->previous = r->role == LEADER ? p->next - 1 : n->last;
	r->previous_term = n->log[r->previous].term;
	for (struct entry *e; r->last < n->last && r->size + RECORD <= BODY; ) {
		e = &n->log[++r->last];
		r->size += (size_t)sprintf(p->body + r->size, "%llu %.*s\n", e->term,
					   (int)e->size, n->journal + e->at);
	}
	snprintf(p->head, HEAD, "%s %llu %d %llu %llu %llu %zu\n",
		 r->role == LEADER ? "entries" : "vote", r->term, n->id, r->previous,
		 r->previous_term, n->commit, r->size);
}

/* Sends the request. Returns the length of the answer, or an error. */
static ssize_t ask(struct peer *p, char **answer)
{
	int64_t until = usync_after(PATIENCE);
	struct iovec v[] = { { p->head, strlen(p->head) }, { p->body, p->request.size } };
	struct unet_addr a;
	ssize_t rc = 0;

	if (p->fd < 0 && (rc = unet_addr(p->address, &a)) == 0
	    && (rc = p->fd = unet_connect(&a, until)) >= 0)
		ubuf_in_init(&p->in, p->fd, HEAD);
	if (rc >= 0)
		rc = unet_writev_all(p->fd, v, 2, NULL, until);
	if (rc >= 0)
		rc = ubuf_line(&p->in, answer, until);
	if (rc < 0 && p->fd >= 0) {
		ubuf_in_free(&p->in);
		unet_close(p->fd);
		p->fd = -1;
	}
	return rc;
}

static void hear(struct peer *p, const char *answer)
{
	struct node *n = p->node;
	const struct request *r = &p->request;
	number term = 0, index = 0;
	int yes = 0;

	sscanf(answer, "%llu %d %llu", &term, &yes, &index);
	if (term > n->term)
		note(n, "t %llu 0", term);
	save(n);
	if (term != r->term || n->term != term || n->role != r->role)
		return;                         /* it is about a time that has passed */
	if (r->role == CANDIDATE) {
		p->voted = r->term;
		n->votes += yes;
		if (n->votes > n->nodes / 2)
			lead(n);
		return;
	}
	p->round = r->round;
	p->due = r->time + HEARTBEAT;
	p->match = yes ? r->last : p->match;
	p->next = yes ? r->last + 1 : index < r->previous ? index + 1 : r->previous;
	commit(n);
}

static void talk(void *peer)
{
	struct peer *p = peer;
	struct node *n = p->node;
	char *answer;
	ssize_t rc;

	usync_mutex_lock(&n->turn, USCHED_NEVER);
	for (;;) {
		while (time_for(p) > usync_after(0))
			usync_cond_wait(&n->changed, &n->turn, time_for(p));
		prepare(p);
		usync_mutex_unlock(&n->turn);
		rc = ask(p, &answer);
		usync_mutex_lock(&n->turn, USCHED_NEVER);
		if (rc >= 0)
			hear(p, answer);
		else
			p->due = usync_after(HEARTBEAT);
	}
}

/* ---- Answers to clients ---- */

static int on_append(struct node *n, const char *text, char *answer)
{
	int64_t until = usync_after(CLIENT);
	number index, term = n->term;
	int rc;

	if (strlen(text) > TEXT)
		return sprintf(answer, "error too long\n");
	note(n, "e %llu %s", term, text);
	if ((rc = save(n)))
		return sprintf(answer, "error %s\n", ustack_error(rc));
	index = n->last;
	commit(n);
	while (rc == 0 && n->commit < index && n->role == LEADER && n->term == term)
		rc = usync_cond_wait(&n->changed, &n->turn, until);
	if (n->commit >= index && n->log[index].term == term)
		return sprintf(answer, "ok %llu\n", index);
	return sprintf(answer, "error no majority\n");
}

/* A leader still leads if most nodes confirm what it sends after the read has come. */
static int on_read(struct node *n, number index, char *answer)
{
	int64_t until = usync_after(CLIENT);
	number term = n->term, round = ++n->round;
	int rc = 0;

	usync_cond_broadcast(&n->changed);
	while (rc == 0 && n->role == LEADER && n->term == term
	       && !(n->log[n->commit].term == term && most_have(n, 0, round)))
		rc = usync_cond_wait(&n->changed, &n->turn, until);
	if (rc || n->role != LEADER || n->term != term)
		return sprintf(answer, "error no majority\n");
	if (index == 0 || index > n->commit)
		return sprintf(answer, "end\n");
	return sprintf(answer, "ok %.*s\n", (int)n->log[index].size,
		       n->journal + n->log[index].at);
}

/* Returns the length of the answer, or an error, after which the connection ends. */
static int answer_line(struct node *n, struct ubuf_in *in, char *line, char *answer)
{
	struct request *r = &(struct request){ .size = 0 };
	char word[8] = "", *body = NULL;
	int id = 0, rc = -EINVAL;

	sscanf(line, "%7s", word);
	if (strcmp(word, "vote") == 0 || strcmp(word, "entries") == 0)
		sscanf(line, "%*s %llu %d %llu %llu %llu %zu", &r->term, &id,
		       &r->previous, &r->previous_term, &r->commit, &r->size);
	if (r->size > 0 && (r->size > BODY || ubuf_take(in, r->size, &body,
							usync_after(PATIENCE))))
		return -EINVAL;
	usync_mutex_lock(&n->turn, USCHED_NEVER);
	if (strcmp(word, "vote") == 0)
		rc = on_vote(n, r, id, answer);
	else if (strcmp(word, "entries") == 0)
		rc = on_entries(n, r, id, body, answer);
	else if (strcmp(word, "status") == 0)
		rc = sprintf(answer, "status %d %d %llu %llu %llu %016llx\n", n->id,
			     n->leader, n->term, n->commit, n->last, n->state);
	else if (n->role != LEADER)
		rc = sprintf(answer, "leader %s\n", n->leader ?
			     n->peers[n->leader - 1].address : "unknown");
	else if (strncmp(line, "append ", 7) == 0)
		rc = on_append(n, line + 7, answer);
	else if (strncmp(line, "read ", 5) == 0)
		rc = on_read(n, strtoull(line + 5, NULL, 10), answer);
	usync_mutex_unlock(&n->turn);
	return rc;
}

static void serve(int fd, void *node)
{
	char answer[RECORD], *line;
	struct ubuf_in in;
	int rc = 0;

	ubuf_in_init(&in, fd, BODY);
	while (rc >= 0 && ubuf_line(&in, &line, usync_after(IDLE)) >= 0
	       && (rc = answer_line(node, &in, line, answer)) >= 0)
		rc = unet_write_all(fd, answer, (size_t)rc, NULL, usync_after(IDLE));
	ubuf_in_free(&in);
	unet_close(fd);
}

static void accept_all(void *node)
{
	struct node *n = node;
	struct ustack_how how = { .h_serve = serve };

	while ((how.h_fd = unet_accept(n->listener, NULL, USCHED_NEVER)) >= 0)
		if (rr_start_with(n->rr, &how, NULL, n, NULL))
			unet_close(how.h_fd);
}

static int start(struct node *n, const char *directory)
{
	struct uprocs_conf conf = { .c_processors = 1, .c_embed = 1, .c_stacks = 64 };
	struct unet_addr a;
	int rc;

	n->random = (unsigned)usync_after(0) * (unsigned)n->id;
	wait_longer(n);
	if ((rc = recover(n, directory)) || (rc = unet_addr(n->self->address, &a))
	    || (rc = n->listener = unet_listen(&a, 0, 0)) < 0
	    || (rc = rr_create(&conf, &n->rr))
	    || (rc = rr_start(n->rr, accept_all, n, NULL)))
		return rc;
	rc = rr_start(n->rr, watch, n, NULL);
	for (struct peer *p = n->peers; rc == 0 && p < n->peers + n->nodes; p++)
		if (p != n->self)
			rc = rr_start(n->rr, talk, p, NULL);
	return rc;
}

int main(int argc, char **argv)
{
	struct node *n = calloc(1, sizeof *n);
	int id = argc > 1 ? atoi(argv[1]) : 0, rc;

	if (!n || id < 1 || id > argc - 3 || argc < 6 || argc - 3 > NODES)
		return fputs("usage: log NUMBER DIRECTORY ADDRESS:PORT...\n", stderr), 2;
	n->id = id;
	n->nodes = argc - 3;
	n->self = &n->peers[id - 1];
	for (int k = 0; k < n->nodes; k++)
		n->peers[k] = (struct peer){ n, argv[k + 3], .fd = -1 };
	rc = start(n, argv[2]);
	if (rc)
		return fprintf(stderr, "log: node %d: %s\n", id, ustack_error(rc)), 1;
	dprintf(1, "ready\n");
	uprocs_destroy(n->rr, USCHED_NEVER);
	return 0;
}
