/* SPDX-License-Identifier: MIT */
/*
 * echo-load.c: a client of echo servers. Each connection sends a message, waits until all
 * of it comes back, checks it, and sends the next. The first fifth of the time is a
 * warm-up. For the rest it prints the round trips per second, and their latency. One
 * native thread runs it over epoll. A round trip is a read, a comparison and a write, so
 * the server is the bottleneck.
 *
 * A message is a piece of `pool', which has random bytes. It begins elsewhere for each
 * connection and round. It is written from the pool, and compared with it.
 */
#define BENCH_PROGRAM "echo-load"

#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "bench.h"

enum {
	STARTS    = 1 << 16,    /* where in the pool a message can begin */
	MOST_SIZE = 1 << 20,    /* bytes of a message */
	EVENTS    = 1024,       /* of one epoll_wait() */
	STEPS     = 32,         /* histogram buckets for each power of 2: 3 % */
	BUCKETS   = 64 * STEPS,
};

struct connection {
	int fd;
	uint32_t start;         /* of its message in the pool */
	size_t sent, received;  /* bytes of it */
	uint64_t since;         /* ns: start of the message */
};

static size_t count, size;
static struct connection *connections;
static unsigned char pool[STARTS + MOST_SIZE];
static unsigned char buffer[64 << 10];
static int epoll;

static bool counting;                   /* the warm-up is over */
static uint64_t round_trips, slowest;   /* ns */
static uint64_t histogram[BUCKETS];

static void usage(void)
{
	fprintf(stderr, "usage: %s PORT CONNECTIONS SECONDS [SIZE]\n", BENCH_PROGRAM);
	exit(2);
}

static _Noreturn void wrong(const char *what)
{
	fprintf(stderr, "%s: %s\n", BENCH_PROGRAM, what);
	_Exit(1);
}

static uint64_t nanoseconds(void)
{
	return (uint64_t)clock_of(CLOCK_MONOTONIC);
}

/* The same bytes in each run. */
static void fill_pool(void)
{
	uint64_t x = 88172645463325252;

	for (size_t i = 0; i < sizeof pool; i++) {
		x = next_of(x);
		pool[i] = (unsigned char)(x >> 32);
	}
}

/* Below STEPS ns one bucket each; then STEPS of equal width between powers of 2. */
static size_t bucket_of(uint64_t ns)
{
	int shift;

	if (ns < STEPS)
		return (size_t)ns;
	shift = 63 - __builtin_clzll(ns) - __builtin_ctz(STEPS);
	return (size_t)(shift + 1) * STEPS + (size_t)(ns >> shift) - STEPS;
}

/* The middle of a bucket, in ns. */
static double value_of(size_t bucket)
{
	size_t shift = bucket / STEPS;

	if (shift == 0)
		return (double)bucket;
	return ((double)(bucket % STEPS + STEPS) + 0.5) * (double)(1ULL << (shift - 1));
}

static double percentile(uint64_t percent)
{
	uint64_t rank = round_trips * percent / 100, seen = 0;
	size_t bucket = 0;

	while ((seen += histogram[bucket]) <= rank && bucket < BUCKETS - 1)
		bucket++;
	return value_of(bucket) < (double)slowest ? value_of(bucket) : (double)slowest;
}

/* Writes as much as there is room for. The rest follows an event. */
static void send_message(struct connection *c)
{
	const unsigned char *text = pool + c->start;
	ssize_t sent = send(c->fd, text + c->sent, size - c->sent, MSG_NOSIGNAL);

	need(sent >= 0 || errno == EAGAIN, "connection lost");
	if (sent > 0)
		c->sent += (size_t)sent;
}

static void next_message(struct connection *c, uint64_t time)
{
	c->start = (c->start + 40503) % STARTS;         /* odd: each start in turn */
	c->sent = c->received = 0;
	c->since = time;
	send_message(c);
}

static void end_message(struct connection *c)
{
	uint64_t time = nanoseconds(), took = time - c->since;

	if (counting) {
		round_trips++;
		histogram[bucket_of(took)]++;
		if (took > slowest)
			slowest = took;
	}
	next_message(c, time);
}

/* A short read has emptied the socket: the next byte is a new event. */
static void receive(struct connection *c)
{
	size_t want;
	ssize_t length;

	do {
		want = size - c->received;
		if (want > sizeof buffer)
			want = sizeof buffer;
		length = recv(c->fd, buffer, want, 0);
		if (length < 0 && errno == EAGAIN)
			return;
		need(length >= 0, "connection lost");
		if (length == 0)
			wrong("connection closed by the server");
		if (c->received + (size_t)length > c->sent
		    || memcmp(pool + c->start + c->received, buffer, (size_t)length))
			wrong("not the bytes that were sent");
		c->received += (size_t)length;
	} while ((size_t)length == want && c->received < size);
	if (c->received == size)
		end_message(c);
}

static void open_connections(size_t port)
{
	struct sockaddr_in address = {
		.sin_family = AF_INET,
		.sin_port = htons((uint16_t)port),
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK),
	};
	socklen_t length = sizeof address;
	int on = 1;

	for (size_t i = 0; i < count; i++) {
		struct epoll_event event = {
			.events = EPOLLIN | EPOLLOUT | EPOLLET,
			.data.ptr = &connections[i],
		};
		int fd = socket(AF_INET, SOCK_STREAM, 0);

		need(fd >= 0, "socket");
		need(!connect(fd, (struct sockaddr *)&address, length), "connect");
		need(!setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on),
		      "setsockopt");
		need(fcntl(fd, F_SETFL, O_NONBLOCK) >= 0, "fcntl");
		need(!epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event), "epoll_ctl");
		connections[i].fd = fd;
		connections[i].start = (uint32_t)(i % STARTS);
	}
}

static void handle(struct connection *c, uint32_t events)
{
	if (c->sent < size && events & EPOLLOUT)
		send_message(c);
	if (events & (EPOLLIN | EPOLLERR | EPOLLHUP))
		receive(c);
}

/* Returns the seconds behind the warm-up. */
static double run(uint64_t duration)
{
	static struct epoll_event events[EVENTS];
	uint64_t begin = nanoseconds(), time = begin, since = begin;

	for (size_t i = 0; i < count; i++)
		next_message(&connections[i], time);
	while (time - begin < duration) {
		int ready = epoll_wait(epoll, events, EVENTS, 10);

		need(ready >= 0 || errno == EINTR, "epoll_wait");
		for (int i = 0; i < ready; i++)
			handle(events[i].data.ptr, events[i].events);
		time = nanoseconds();
		if (!counting && time - begin >= duration / 5) {
			counting = true;
			since = time;
		}
	}
	return (double)(time - since) / 1e9;
}

/* An unanswered message has taken so long at least. */
static void count_unanswered(void)
{
	uint64_t time = nanoseconds();

	for (size_t i = 0; i < count; i++)
		if (time - connections[i].since > slowest)
			slowest = time - connections[i].since;
}

int main(int argc, char **argv)
{
	size_t port, seconds;
	double counted;

	if (argc < 4 || argc > 5)
		usage();
	port = number(argv[1], 1, UINT16_MAX);
	count = number(argv[2], 1, 1 << 20);
	seconds = number(argv[3], 1, 1 << 20);
	size = argc == 5 ? number(argv[4], 1, MOST_SIZE) : 64;
	raise_limit();
	fill_pool();
	connections = calloc(count, sizeof *connections);
	need(connections, "connections");
	epoll = epoll_create1(0);
	need(epoll >= 0, "epoll_create1");
	open_connections(port);
	counted = run((uint64_t)seconds * 1000000000);
	if (round_trips == 0)
		wrong("no message was answered");
	count_unanswered();
	printf("round_trips_per_s=%.0f p50_us=%.1f p99_us=%.1f max_us=%.1f errors=0\n",
	       (double)round_trips / counted, percentile(50) / 1e3, percentile(99) / 1e3,
	       (double)slowest / 1e3);
	return 0;
}
