/* SPDX-License-Identifier: MIT */
/*
 * requests-load.c: a client of servers with short and long requests, see requests.c.
 *
 *	requests-load PORT PERMILLE LOAD CONNECTIONS SECONDS PROCESSORS
 *
 * It sends requests at random times over random connections, so many that they take LOAD
 * percent of the time of PROCESSORS: 95 % of them are short ones. It does not wait for
 * answers before it sends more: it is an open loop. A request counts from the time at
 * which it was due, so what keeps the client from sending counts as well. It goes on for
 * SECONDS, of which the first fifth is a warm-up. Prints the us that PERMILLE of 1000
 * short requests took at most, and how many there were.
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

static size_t count, requests, answered, shorts;
static struct connection *connections;
static struct request *request;
static double *late;                    /* us */
static int64_t begin, counted;          /* ns */
static int epoll, timer;

static void usage(void)
{
	fprintf(stderr, "usage: requests-load PORT PERMILLE LOAD CONNECTIONS SECONDS "
		"PROCESSORS\n");
	exit(2);
}

/* All requests, in order. */
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
		x = next_of(x);
		request[requests].is_long = x % 100 < LONGS;
	}
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

static void send_request(struct request *r)
{
	static uint64_t x = 2654435761;
	struct connection *c;

	x = next_of(x);
	c = &connections[x % count];
	need(send(c->fd, r->is_long ? "l" : "s", 1, MSG_NOSIGNAL) == 1, "send");
	if (c->first)
		c->last->next = r;
	else
		c->first = r;
	c->last = r;
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
		if (!r->is_long && r->due >= counted)
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

static void run(int64_t last)
{
	static struct epoll_event events[EVENTS];
	size_t next = 0;

	begin = clock_of(CLOCK_MONOTONIC) + FIRST;
	while (answered < requests) {
		int64_t time = clock_of(CLOCK_MONOTONIC) - begin;
		int ready;

		while (next < requests && request[next].due <= time)
			send_request(&request[next++]);
		check(time > last ? -ETIMEDOUT : 0, "answers");
		set_timer(begin + (next < requests ? request[next].due : last + 1));
		ready = epoll_wait(epoll, events, EVENTS, -1);
		need(ready >= 0 || errno == EINTR, "epoll_wait");
		for (int i = 0; i < ready; i++)
			if (events[i].data.ptr)
				receive(events[i].data.ptr);
	}
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
	size_t port, permille, load, seconds;

	if (argc != 7)
		usage();
	port = number(argv[1], 1, UINT16_MAX);
	permille = number(argv[2], 1, 999);
	load = number(argv[3], 1, 99);
	count = number(argv[4], 1, 1 << 20);
	seconds = number(argv[5], 1, 3600);
	prepare();
	plan((int64_t)seconds, gap_of(load, number(argv[6], 1, 1024)));
	open_connections(port);
	run(((int64_t)seconds + ENOUGH) * 1000000000);
	check(shorts > 0 ? 0 : -ENODATA, "no requests");
	qsort(late, shorts, sizeof *late, compare_doubles);
	printf("us=%.1f requests=%zu\n", late[shorts * permille / 1000], shorts);
	return 0;
}
