/* SPDX-License-Identifier: MIT */
/*
 * chat-load.c: clients of a chat server, examples/09-chat.c or one with its commands. So
 * many clients talk in rooms of so many; each says a line in turn, at a given rate for
 * all together, and what is said has to come to all members of its room, once. In the
 * end it prints what the server, a process, took for that: microseconds of CPU time for
 * each line that a client got, and its memory with all clients connected.
 *
 * One native thread runs the clients over epoll.
 */
#define BENCH_PROGRAM "chat-load"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "bench.h"

enum { EVENTS = 256, SETTLE = 2000 /* ms */, LATE = 100 /* s */ };

struct client {
	int  fd;
	bool middle;            /* of a line */
};

static struct client *clients;
static size_t count, room;
static int epoll;
static uint64_t got;            /* lines that were said, not those of the server */

static void usage(void)
{
	fprintf(stderr, "usage: %s PORT PID CLIENTS ROOM LINES_PER_SECOND SECONDS\n",
		BENCH_PROGRAM);
	exit(2);
}

static void put(struct client *c, const char *text, size_t size)
{
	need(send(c->fd, text, size, MSG_NOSIGNAL) == (ssize_t)size, "send");
}

static void join(struct client *c, size_t i, uint16_t port)
{
	struct sockaddr_in address = { .sin_family = AF_INET, .sin_port = htons(port),
				       .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	struct epoll_event e = { .events = EPOLLIN, .data.u64 = i };
	char text[64];
	int one = 1;

	c->fd = socket(AF_INET, SOCK_STREAM, 0);
	need(c->fd >= 0, "socket");
	need(!connect(c->fd, (struct sockaddr *)&address, sizeof address), "connect");
	setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
	put(c, text, (size_t)snprintf(text, sizeof text, "/name c%zu\n/join r%zu\n", i,
				      i / room));
	need(!fcntl(c->fd, F_SETFL, O_NONBLOCK), "fcntl");
	need(!epoll_ctl(epoll, EPOLL_CTL_ADD, c->fd, &e), "epoll_ctl");
}

/* Lines of the server begin with a mark. */
static void take(struct client *c)
{
	static char buffer[65536];
	ssize_t n = recv(c->fd, buffer, sizeof buffer, 0);

	if (n == 0) {
		fprintf(stderr, "%s: the server drops a client\n", BENCH_PROGRAM);
		_Exit(1);
	}
	need(n > 0 || errno == EAGAIN, "recv");
	for (ssize_t i = 0; i < n; i++) {
		if (!c->middle)
			got += !strchr("*=!", buffer[i]);
		c->middle = buffer[i] != '\n';
	}
}

static int look(int milliseconds)
{
	struct epoll_event events[EVENTS];
	int n = epoll_wait(epoll, events, EVENTS, milliseconds);

	for (int i = 0; i < n; i++)
		take(&clients[events[i].data.u64]);
	return n;
}

/* Seconds of CPU time of a process. */
static double cpu_of(size_t pid)
{
	char path[64], text[1024], *after;
	unsigned long user, system;
	FILE *file;

	snprintf(path, sizeof path, "/proc/%zu/stat", pid);
	file = fopen(path, "r");
	need(file && fgets(text, sizeof text, file), path);
	fclose(file);
	after = strrchr(text, ')');
	if (!after || sscanf(after, ") %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u"
				    " %lu %lu", &user, &system) != 2)
		fail(path, -ENOTSUP);
	return (double)(user + system) / (double)sysconf(_SC_CLK_TCK);
}

/* MiB of memory of a process. */
static double memory_of(size_t pid)
{
	unsigned long pages = 0;
	char path[64];
	FILE *file;

	snprintf(path, sizeof path, "/proc/%zu/statm", pid);
	file = fopen(path, "r");
	need(file && fscanf(file, "%*u %lu", &pages) == 1, path);
	fclose(file);
	return (double)pages * (double)sysconf(_SC_PAGESIZE) / 1048576;
}

/* Returns how many lines are to come. */
static uint64_t talk(size_t rate, size_t seconds)
{
	uint64_t said = 0, all = rate * seconds, expected = 0;
	double began = now();
	char text[64];

	while (said < all) {
		size_t i = (size_t)(said * 7919 % count), first = i / room * room, size;

		if (now() < began + (double)said / (double)rate) {
			look(1);
			continue;
		}
		size = (size_t)snprintf(text, sizeof text, "this is line %llu of many\n",
					(unsigned long long)said);
		put(&clients[i], text, size);
		expected += (count - first < room ? count - first : room);
		if (said++ % 16 == 0)
			look(0);
	}
	return expected;
}

int main(int argc, char **argv)
{
	size_t pid, rate, seconds;
	uint64_t expected;
	double cpu, late;

	if (argc != 7)
		usage();
	pid = number(argv[2], 1, 1 << 30);
	count = number(argv[3], 1, 1 << 20);
	room = number(argv[4], 1, 1 << 20);
	rate = number(argv[5], 1, 100000000);
	seconds = number(argv[6], 1, 1000000);
	raise_limit();
	clients = calloc(count, sizeof *clients);
	epoll = epoll_create1(0);
	need(clients && epoll >= 0, "epoll");
	for (size_t i = 0; i < count; i++) {
		join(&clients[i], i, (uint16_t)number(argv[1], 1, 65535));
		while (look(1) > 0)     /* no burst of greetings */
			;
	}
	while (look(SETTLE) > 0)
		;
	printf("memory: %.1f MiB\n", memory_of(pid));
	cpu = cpu_of(pid);
	expected = talk(rate, seconds);
	for (late = now() + LATE; got < expected && now() < late;)
		look(10);
	look(100);
	cpu = cpu_of(pid) - cpu;
	printf("%llu lines of %llu came\nCPU: %.2f s, %.3f us a line\n",
	       (unsigned long long)got, (unsigned long long)expected, cpu,
	       cpu * 1e6 / (double)expected);
	printf("memory then: %.1f MiB\n", memory_of(pid));
	return got != expected;
}
