/* SPDX-License-Identifier: MIT */
/*
 * requests-load.c: a client of servers with short and long requests, see requests.c.
 *
 *	requests-load PORT PERMILLE PERCENT CONNECTIONS SECONDS
 *
 * First it measures the peak of the server, in a closed loop: each connection sends its
 * next request after the answer, for SECONDS. Then it is an open loop, for SECONDS as
 * well: requests come at random times, PERCENT % of the peak, whether or not there are
 * answers. 95 % of the requests are short ones. A request goes over a random one of the
 * connections without a request, if there is one: short requests are not to wait behind
 * a long one because both have a connection. A request counts from the time at which it
 * was due, so what keeps the client from sending counts as well.
 *
 * The first fifth of each loop is a warm-up. Prints the us that PERMILLE of 1000 short
 * requests took at most, the requests a second that the server has answered until the
 * last one came, and those that came. On standard error it prints the peak, and the share
 * of a processor that the client took in the open loop.
 */
#define BENCH_PROGRAM "requests-load"

#include <fcntl.h>
#include <math.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/timerfd.h>

#include "chain.h"

enum {
	FIRST  = 50000000,      /* ns from the start to the first request */
	EVENTS = 1024,          /* of one epoll_wait() */
	ENOUGH = 10,            /* s for the last answers */
};

struct request {
	int64_t due;            /* ns from the start */
	struct request *next;   /* of its connection */
	bool is_long;
};

struct connection {
	int fd;
	struct request *first, *last;   /* without an answer */
};

static size_t count, requests, sent, answered, shorts;
static struct connection *connections;
static struct request *request;
static double *late;                    /* us */
static int64_t begin;                   /* ns: when the open loop begins, */
static int64_t counted = INT64_MAX;     /* from there: requests count that are due then */
static int64_t last;                    /* the client fails if an answer comes later */
static bool closed;                     /* An answer has the next request sent. */
static int epoll, timer;

static void usage(void)
{
	fprintf(stderr, "usage: requests-load PORT PERMILLE PERCENT CONNECTIONS "
		"SECONDS\n");
	exit(2);
}

static bool is_long(uint64_t *x)
{
	*x = next_of(*x);
	return *x % 100 < LONGS;
}

/* All requests of the open loop, in order. */
static void plan(int64_t seconds, double gap)
{
	size_t room = (size_t)((double)seconds * 1.2e9 / gap) + 1000;
	double due = 0, end = (double)seconds * 1e9;
	uint64_t x = chain_seed;

	request = calloc(room, sizeof *request);
	late = calloc(room, sizeof *late);
	need(request && late, "memory");
	counted = seconds * 200000000;
	for (requests = 0; requests < room; requests++) {
		x = next_of(x);
		due -= log(chance_of(x)) * gap;
		if (due >= end)
			break;
		request[requests].due = (int64_t)due;
		request[requests].is_long = is_long(&x);
	}
	check(requests > 0 ? 0 : -ENODATA, "no requests");
}

static void open_connections(size_t port)
{
	struct sockaddr_in address = {
		.sin_family = AF_INET,
		.sin_port = htons((uint16_t)port),
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK),
	};
	int on = 1;

	for (size_t i = 0; i < count; i++) {
		struct connection *c = &connections[i];
		struct epoll_event event = { .events = EPOLLIN, .data.ptr = c };

		c->fd = socket(AF_INET, SOCK_STREAM, 0);
		need(c->fd >= 0, "socket");
		need(!connect(c->fd, (struct sockaddr *)&address, sizeof address),
		     "connect");
		need(!setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on),
		     "setsockopt");
		need(!epoll_ctl(epoll, EPOLL_CTL_ADD, c->fd, &event), "epoll_ctl");
	}
}

/* A random connection without a request, or any if all have one. */
static struct connection *pick(void)
{
	static uint64_t x = 2654435761;
	size_t first;

	x = next_of(x);
	first = x % count;
	for (size_t i = 0; i < count; i++) {
		struct connection *c = &connections[(first + i) % count];

		if (!c->first)
			return c;
	}
	return &connections[first];
}

static void send_over(struct connection *c, struct request *r)
{
	need(send(c->fd, r->is_long ? "l" : "s", 1, MSG_NOSIGNAL) == 1, "send");
	if (c->first)
		c->last->next = r;
	else
		c->first = r;
	c->last = r;
	sent++;
}

/* The request is one that was answered, or new. */
static void send_next(struct connection *c, struct request *r)
{
	static uint64_t x = chain_seed;

	r->is_long = is_long(&x);
	send_over(c, r);
}

/* Answers come in the order of the requests of a connection. */
static void receive(struct connection *c)
{
	char answers[256];
	ssize_t n = recv(c->fd, answers, sizeof answers, MSG_DONTWAIT);
	int64_t time = clock_of(CLOCK_MONOTONIC);

	need(n >= 0 || errno == EAGAIN, "connection lost");
	check(n == 0 ? -ECONNRESET : 0, "connection closed");
	for (ssize_t i = 0; i < n; i++) {
		struct request *r = c->first;

		check(r && answers[i] == (r->is_long ? 'l' : 's') ? 0 : -EBADMSG,
		      "wrong answer");
		c->first = r->next;
		answered++;
		if (closed)
			send_next(c, r);
		else if (!r->is_long && r->due >= counted)
			late[shorts++] = (double)(time - begin - r->due) / 1000;
	}
}

/* Has epoll_wait() return then. */
static void set_timer(int64_t ns)
{
	struct itimerspec t = {
		.it_value = { (time_t)(ns / 1000000000), (long)(ns % 1000000000) },
	};

	need(!timerfd_settime(timer, TFD_TIMER_ABSTIME, &t, NULL), "timerfd");
}

/* Waits for answers, or until a time, and receives answers. */
static void look(int64_t until)
{
	static struct epoll_event events[EVENTS];
	int ready;

	check(clock_of(CLOCK_MONOTONIC) > last ? -ETIMEDOUT : 0, "answers");
	set_timer(until);
	ready = epoll_wait(epoll, events, EVENTS, -1);
	need(ready >= 0 || errno == EINTR, "epoll_wait");
	for (int i = 0; i < ready; i++)
		if (events[i].data.ptr)
			receive(events[i].data.ptr);
}

static void await_answers(void)
{
	while (answered < sent)
		look(last + 1);
}

/* Returns the requests a second that are answered when all connections have one. */
static double measure_peak(int64_t seconds)
{
	struct request *each = calloc(count, sizeof *each);
	int64_t start = clock_of(CLOCK_MONOTONIC), from = start, time;
	size_t before = 0;
	double peak;

	need(each, "memory");
	last = start + (seconds + ENOUGH) * 1000000000;
	closed = true;
	for (size_t i = 0; i < count; i++)
		send_next(&connections[i], &each[i]);
	while ((time = clock_of(CLOCK_MONOTONIC)) < start + seconds * 1000000000) {
		if (time < start + seconds * 200000000) {
			from = time;
			before = answered;
		}
		look(last + 1);
	}
	closed = false;
	peak = (double)(answered - before) * 1e9 / (double)(time - from);
	await_answers();
	free(each);
	return peak;
}

/* Returns how many were answered when the last one was sent. Sets the client's share. */
static size_t run(int64_t seconds, double *share)
{
	int64_t cpu = clock_of(CLOCK_PROCESS_CPUTIME_ID);
	size_t done;

	sent = answered = 0;
	begin = clock_of(CLOCK_MONOTONIC) + FIRST;
	last = begin + (seconds + ENOUGH) * 1000000000;
	while (sent < requests) {
		int64_t time;

		look(begin + request[sent].due);
		time = clock_of(CLOCK_MONOTONIC) - begin;
		while (sent < requests && request[sent].due <= time)
			send_over(pick(), &request[sent]);
	}
	done = answered;
	*share = (double)(clock_of(CLOCK_PROCESS_CPUTIME_ID) - cpu) /
		 (double)(clock_of(CLOCK_MONOTONIC) - begin);
	await_answers();
	return done;
}

static void prepare(void)
{
	struct epoll_event event = { .events = EPOLLIN };

	raise_limit();
	prctl(PR_SET_TIMERSLACK, 1);
	connections = calloc(count, sizeof *connections);
	need(connections, "memory");
	epoll = epoll_create1(0);
	timer = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK);
	need(epoll >= 0 && timer >= 0, "epoll");
	need(!epoll_ctl(epoll, EPOLL_CTL_ADD, timer, &event), "epoll_ctl");
}

int main(int argc, char **argv)
{
	size_t port, permille, percent, done;
	int64_t seconds;
	double peak, share;

	if (argc != 6)
		usage();
	port = number(argv[1], 1, UINT16_MAX);
	permille = number(argv[2], 1, 999);
	percent = number(argv[3], 1, 99);
	count = number(argv[4], 1, 1 << 20);
	seconds = (int64_t)number(argv[5], 1, 3600);
	prepare();
	open_connections(port);
	peak = measure_peak(seconds);
	plan(seconds, 1e11 / (peak * (double)percent));
	done = run(seconds, &share);
	check(shorts > 0 ? 0 : -ENODATA, "no requests");
	qsort(late, shorts, sizeof *late, compare_doubles);
	fprintf(stderr, "peak %.0f requests per second, client %.1f %% of a processor\n",
		peak, share * 100);
	printf("us=%.1f rate=%.1f wanted=%.1f\n", late[shorts * permille / 1000],
	       (double)done / (double)seconds, (double)requests / (double)seconds);
	return 0;
}
