/* SPDX-License-Identifier: MIT */
/*
 * examples/18-log.c on three to five hosts, with clients, while hosts crash and the
 * network and disks fail.
 *
 *	log [NODES]
 *
 * After each step it is checked that
 *
 *	- a term has at most one leader, which has all that was committed in terms before;
 *	- logs with an entry of the same index and term are the same up to it;
 *	- a node never loses or changes what it has committed, and two agree on it;
 *	- machines that have applied as many entries are in the same state.
 *
 * The entries that were committed are the order in which all appends happened. So the
 * history of the clients is linearizable if an answer fits to it, and no call misses what
 * was answered before it began. At the end all is well again: then the nodes come to the
 * same state.
 */
#include <assert.h>
#include <sys/stat.h>

#include "rr.h"
#include "../../sim/sim.h"
#include "ubuf.h"

/* The example starts its threads: so its node is seen; and what it reads is. */
static int see(struct uprocs *rr, void (*func)(void *), void *arg,
	       struct ustack **thread);
static ssize_t see_line(struct ubuf_in *in, char **line, int64_t deadline);
int run_log(int argc, char **argv);

#ifndef LOG
#define LOG "../../examples/18-log.c"
#endif
#define main      run_log
#define rr_start  see
#define ubuf_line see_line
#include LOG
#undef main
#undef rr_start
#undef ubuf_line

enum {
	MOST = 5, CLIENTS = 3, CALLS = 20, FAULTS = 20,
	INDEXES = 1000, TERMS = 1000, KINDS = 40
};

/* What was found of a node at the last look. */
struct look {
	const struct node *node;
	number             commit, term;
	size_t             saved;
	enum role          role;
};

static char names[MOST][32], ports[MOST][32], directories[MOST][40];
static char *arguments[MOST][MOST + 3];
static int nodes = 3;
static struct sim_host *hosts[MOST];
static struct node *running[MOST];
static struct look looks[MOST];

static int leaders[TERMS];              /* by the term; 0: none yet */
static struct kind { number term, sum; } kinds[INDEXES][KINDS];
static struct {
	number term, in, state;         /* of the entry, of the leader, after it */
	char   text[TEXT + 1];
} committed[INDEXES];
static number all;                      /* committed */

static number known;                    /* the highest index that a client was told */
static int ended, answered;
static bool over;

/* Of this run. */
static int64_t pause_ns;                /* between calls of a client */
static int length;                      /* of texts */
static unsigned votes;                  /* one of so many brings faults; 0: none does */

static int see(struct uprocs *rr, void (*func)(void *), void *arg,
	       struct ustack **thread)
{
	if (func == watch)
		running[((struct node *)arg)->id - 1] = arg;
	return rr_start(rr, func, arg, thread);
}

/* ---- What is always so ---- */

static char wrong[200];

#define WRONG(...) (snprintf(wrong, sizeof wrong, __VA_ARGS__), wrong)

static bool has(const struct node *n, number i)
{
	const struct entry *e = &n->log[i];

	return i <= n->last && e->term == committed[i].term
		&& e->size == strlen(committed[i].text)
		&& memcmp(n->journal + e->at, committed[i].text, e->size) == 0;
}

static const char *check_log(const struct node *n)
{
	number sum = 0;

	for (number i = 1; i <= n->last && i < INDEXES; i++) {
		const struct entry *e = &n->log[i];
		struct kind *k = kinds[i];

		sum = add_to_sum(sum * 31 + e->term, n->journal + e->at, e->size);
		while (k->term && k->term != e->term && k < kinds[i] + KINDS - 1)
			k++;
		if (k->term == e->term && k->sum != sum)
			return WRONG("node %d has another log up to %llu, of term %llu",
				     n->id, i, e->term);
		*k = (struct kind){ e->term, sum };
	}
	for (number i = 1; i <= n->commit && i <= all; i++)
		if (!has(n, i))
			return WRONG("node %d has lost %llu", n->id, i);
	return NULL;
}

static const char *check_leader(const struct node *n)
{
	int *leader = &leaders[n->term < TERMS ? n->term : 0];

	if (*leader && *leader != n->id)
		return WRONG("nodes %d and %d lead in term %llu", *leader, n->id,
			     n->term);
	*leader = n->term < TERMS ? n->id : 0;
	for (number i = 1; i <= all; i++)
		if (committed[i].in < n->term && !has(n, i))
			return WRONG("node %d leads without %llu", n->id, i);
	return NULL;
}

/* A new one, which the node has committed. */
static const char *add(const struct node *n)
{
	const struct entry *e = &n->log[++all];

	if (all >= INDEXES)
		sim_fail("too many entries");
	committed[all].term = e->term;
	committed[all].in = n->term;
	memcpy(committed[all].text, n->journal + e->at, e->size);
	committed[all].state = add_to_sum(committed[all - 1].state, committed[all].text,
					  e->size);
	for (number i = 1; i < all && e->size > 0; i++)
		if (strcmp(committed[i].text, committed[all].text) == 0)
			return WRONG("%llu is there again, as %llu", i, all);
	for (int k = 0; k < nodes; k++)
		if (running[k] && running[k]->role == LEADER && running[k]->term > n->term
		    && !has(running[k], all))
			return WRONG("node %d leads without %llu", k + 1, all);
	return NULL;
}

static const char *check_commit(const struct node *n, struct look *l)
{
	const char *text = NULL;

	if (n->commit > n->last)
		return WRONG("node %d has committed what it has not", n->id);
	while (!text && l->commit < n->commit) {
		l->commit++;
		if (l->commit > all)
			text = add(n);
		else if (!has(n, l->commit))
			text = WRONG("node %d has another %llu", n->id, l->commit);
	}
	return text;
}

static const char *check_node(const struct node *n, struct look *l)
{
	const char *text = NULL;

	if (l->node != n)
		*l = (struct look){ .node = n };
	if (l->saved != n->saved)
		text = check_log(n);
	if (!text && l->commit != n->commit)
		text = check_commit(n, l);
	if (!text && n->role == LEADER && (l->role != LEADER || l->term != n->term))
		text = check_leader(n);
	if (!text && n->applied <= all && n->state != committed[n->applied].state)
		text = WRONG("node %d is in another state at %llu", n->id, n->applied);
	l->saved = n->saved;
	l->role = n->role;
	l->term = n->term;
	return text;
}

static const char *check(void *unused)
{
	const char *text = NULL;

	(void)unused;
	for (int k = 0; !text && k < nodes; k++)
		if (running[k])
			text = check_node(running[k], &looks[k]);
	return text;
}

/* ---- Clients ---- */

struct client {
	int            fd, node, number;
	struct ubuf_in in;
};

/* 0, or an error: then another node is asked next. */
static int call(struct client *c, const char *text, char **answer)
{
	struct unet_addr a;
	ssize_t rc = 0;

	assert(unet_addr(ports[c->node], &a) == 0);
	if (c->fd < 0 && (rc = c->fd = unet_connect(&a, usync_after(2 * PATIENCE))) >= 0)
		ubuf_in_init(&c->in, c->fd, 0);
	if (rc >= 0)
		rc = unet_write_all(c->fd, text, strlen(text), NULL, usync_after(CLIENT));
	if (rc >= 0)
		rc = ubuf_line(&c->in, answer, usync_after(2 * CLIENT));
	return rc < 0 ? (int)rc : 0;
}

static void turn_to(struct client *c, int node)
{
	if (c->fd >= 0) {
		ubuf_in_free(&c->in);
		unet_close(c->fd);
	}
	c->fd = -1;
	c->node = node;
}

static void judge(bool append, const char *text, number index, number before, bool is_end)
{
	if (is_end && index <= before)
		sim_fail("there is no %llu, and a client had %llu", index, before);
	if (is_end)
		return;
	if (append && index <= before)
		sim_fail("a client gets %llu, and one had %llu", index, before);
	if (index < 1 || index > all || strcmp(committed[index].text, text) != 0)
		sim_fail("a client has '%.12s' as %llu, which is '%.12s'", text, index,
			 index <= all ? committed[index].text : "not committed");
	if (index > known)
		known = index;
}

/* One call. Returns whether it was answered. */
static bool do_call(struct client *c, bool append)
{
	static int texts;
	number before = known, index = sim_choose(2) ? known + sim_choose(2) + !known
						    : 1 + sim_choose(known + 2);
	char text[TEXT + 1], line[TEXT + 20], *answer;

	snprintf(text, sizeof text, "%d by %d%*s.", ++texts, c->number, length, "");
	if (append)
		snprintf(line, sizeof line, "append %s\n", text);
	else
		snprintf(line, sizeof line, "read %llu\n", index);
	if (call(c, line, &answer)) {
		turn_to(c, (int)sim_choose((uint64_t)nodes));
		return false;
	}
	if (strncmp(answer, "ok ", 3) == 0 && append)
		judge(true, text, strtoull(answer + 3, NULL, 10), before, false);
	else if (strncmp(answer, "ok ", 3) == 0)
		judge(false, answer + 3, index, before, false);
	else if (strcmp(answer, "end") == 0)
		judge(false, text, index, before, true);
	else if (strncmp(answer, "leader ", 7) != 0)
		return false;
	for (int k = 0; k < nodes; k++)
		if (strncmp(answer, "leader ", 7) == 0
		    && strcmp(answer + 7, ports[k]) == 0) {
			turn_to(c, k);
			return false;
		}
	if (strncmp(answer, "leader ", 7) != 0)
		return true;
	turn_to(c, (int)sim_choose((uint64_t)nodes));
	return false;
}

static void be_client(void *arg)
{
	struct client *c = calloc(1, sizeof *c);

	c->number = (int)(intptr_t)arg;
	c->fd = -1;
	c->node = c->number % nodes;
	for (int i = 0; i < CALLS && !over; ) {
		if (sim_choose(4) == 1)
			turn_to(c, (int)sim_choose((uint64_t)nodes));
		if (do_call(c, sim_choose(2) == 0)) {
			answered++;
			i++;
		}
		usync_sleep_until(usync_after((int64_t)sim_choose((uint64_t)pause_ns)));
	}
	turn_to(c, 0);
	ended++;
}

/* ---- Hosts, and faults ---- */

static void run_node(void *arg)
{
	int k = (int)(intptr_t)arg;

	do {
		usync_sleep_until(usync_after(100 * MS));
		mkdir(directories[k], 0777);
	} while (run_log(nodes + 3, arguments[k]));
}

static void start_nodes(void)
{
	static char program[] = "log", numbers[MOST][2];

	for (int k = 0; k < nodes; k++) {
		snprintf(names[k], sizeof names[k], "10.0.0.%d", k + 1);
		snprintf(ports[k], sizeof ports[k], "10.0.0.%d:7000", k + 1);
		snprintf(directories[k], sizeof directories[k], "/var/tmp/usched-log-%d",
			 k + 1);
		numbers[k][0] = (char)('1' + k);
		arguments[k][0] = program;
		arguments[k][1] = numbers[k];
		arguments[k][2] = directories[k];
		for (int i = 0; i < nodes; i++)
			arguments[i][3 + k] = ports[k];
	}
	for (intptr_t k = 0; k < nodes; k++)
		assert(sim_host_start(names[k], names[k], run_node, (void *)k,
				      &hosts[k]) == 0);
}

/* Of any order of magnitude. */
static int64_t some_time(void)
{
	return ((1 + (int64_t)sim_choose(1000)) * MS << sim_choose(13)) / 1000;
}

/* Each kind in some of the runs only: so one does not hide another. */
static unsigned maybe(unsigned often)
{
	return sim_choose(3) == 1 ? often : 0;
}

static void choose_rates(void)
{
	struct sim_faults f = {
		.f_crash = maybe(500u << sim_choose(4)), .f_down_ns = some_time(),
		.f_full = maybe(40), .f_short = maybe(20),
		.f_sync_fails = maybe(4u << sim_choose(5)), .f_reset = maybe(100),
		.f_no_answer = maybe(20), .f_slow = maybe(10), .f_partition = maybe(300),
		.f_latency_most_ns = maybe(1) * some_time() / 2,
	};

	sim_faults(&f);
	votes = maybe(3);
	pause_ns = 10 * MS << sim_choose(9);
	length = sim_choose(2) ? 900 : 0;
}

/* That of the highest term, or any. */
static int leader_now(void)
{
	int found = (int)sim_choose((uint64_t)nodes);
	number term = 0;

	for (int k = 0; k < nodes; k++)
		if (running[k] && running[k]->role == LEADER && running[k]->term > term) {
			term = running[k]->term;
			found = k;
		}
	return found;
}

/* Clients reach it, and other nodes do not. It may be full when they do again. */
static void isolate(int a, int64_t time)
{
	for (int b = 0; b < nodes; b++)
		if (b != a)
			assert(sim_at(usync_after(0), &(struct sim_fault){
				SIM_PARTITION, hosts[a], hosts[b], time }) == 0);
	if (sim_choose(3) == 1)
		assert(sim_at(usync_after(0), &(struct sim_fault){
			SIM_DISK_FULL, hosts[a], NULL, 2 * time }) == 0);
}

static void fail_somehow(void)
{
	static const enum sim_fault_kind some[] = {
		SIM_CRASH, SIM_PARTITION, SIM_CRASH, SIM_PARTITION, SIM_RESET, SIM_SLOW,
		SIM_DISK_FULL,
	};
	enum sim_fault_kind kind = some[sim_choose(sizeof some / sizeof some[0])];
	int a = sim_choose(2) ? leader_now() : (int)sim_choose((uint64_t)nodes);
	int b = (a + 1 + (int)sim_choose((uint64_t)nodes - 1)) % nodes;
	int64_t time = kind == SIM_RESET ? 0 : some_time();
	struct sim_fault f = { kind, hosts[a], NULL, time };

	if (kind != SIM_CRASH && kind != SIM_DISK_FULL && sim_choose(2))
		f.b = hosts[b];
	if (kind == SIM_PARTITION && sim_choose(2))
		isolate(a, 4 * some_time());
	else
		assert(sim_at(usync_after(0), &f) == 0);
}

/* The node has got a vote. It does not reach the others, which crash, and are soon back:
   what they have not saved of the vote they give another one. */
static void fail_at_vote(int a)
{
	isolate(a, (1 + (int64_t)sim_choose(4)) * PATIENCE);
	for (int b = 0; b < nodes; b++)
		if (b != a && sim_choose(4) > 0)
			assert(sim_at(usync_after(0), &(struct sim_fault){
				SIM_CRASH, hosts[b], NULL,
				1 + (int64_t)sim_choose(100) * MS }) == 0);
}

static ssize_t see_line(struct ubuf_in *in, char **line, int64_t deadline)
{
	ssize_t rc = ubuf_line(in, line, deadline);
	int yes = 0;

	for (int k = 0; k < nodes && rc >= 0 && votes > 0 && !over; k++)
		for (int b = 0; running[k] && b < nodes; b++) {
			const struct peer *p = &running[k]->peers[b];

			if (&p->in == in && p->request.role == CANDIDATE
			    && sscanf(*line, "%*u %d", &yes) == 1 && yes
			    && sim_choose(votes) == 1)
				fail_at_vote(k);
		}
	return rc;
}

static bool is_same(void)
{
	for (int k = 0; k < nodes; k++)
		if (!running[k] || running[k]->applied != all)
			return false;
	return true;
}

/* Without faults all is done in time. */
static void end_well(void)
{
	int64_t end = usync_after(120 * USYNC_SECOND);
	struct client *c = calloc(1, sizeof *c);
	bool done = false;

	sim_faults(&(struct sim_faults){ 0 });
	usync_sleep_until(usync_after(15 * USYNC_SECOND));
	c->fd = -1;
	while (!done || ended < CLIENTS || !is_same()) {
		done = done || do_call(c, true);
		if (usync_after(0) > end)
			sim_fail("no progress after the faults: %llu are committed",
				 all);
		usync_sleep_until(usync_after(100 * MS));
	}
}

int main(int argc, char **argv)
{
	static char addresses[CLIENTS][16];

	if (argc > 1)
		nodes = atoi(argv[1]);
	sim_always(check, NULL);
	choose_rates();
	start_nodes();
	for (intptr_t k = 0; k < CLIENTS; k++) {
		snprintf(addresses[k], sizeof addresses[k], "10.0.1.%d", (int)k + 1);
		assert(sim_host_start(addresses[k], addresses[k], be_client, (void *)k,
				      NULL) == 0);
	}
	for (int i = 0; i < FAULTS; i++) {
		usync_sleep_until(usync_after(sim_choose(2) ? some_time()
					      : (int64_t)sim_choose(3000) * MS));
		fail_somehow();
	}
	over = true;
	end_well();
	printf("log: %llu entries in %llu terms, %d answers\n", all,
	       committed[all].term, answered);
	return 0;
}
