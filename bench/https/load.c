/* SPDX-License-Identifier: MIT */
/*
 * load.c: a client of HTTPS servers, one native thread over epoll. It gets /1k over many
 * connections, compares what comes, and looks at the server's processor time and memory
 * from outside.
 *
 *   load busy PORT PID CONNECTIONS SECONDS   opens the connections, with a request on
 *              each; then each sends the next request after its answer, for so long
 *   load new PORT PID CONNECTIONS SECONDS    so many connections at a time, each for one
 *              request: the server closes it
 *   load idle PORT PID CONNECTIONS           opens them, with a request on each, and
 *              looks at anonymous resident memory; then each has to answer again
 *
 * The last line of output is names and values. Any error ends it, with status 1.
 */
#define _GNU_SOURCE             /* memmem() */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum {
	EVENTS   = 256,
	AT_ONCE  = 64,                  /* connections that are being opened */
	LONGEST  = 65536,               /* bytes of an answer */
	BODY     = 1024,
	PATIENCE = 20,                  /* seconds without any answer */
	SETTLE   = 500000,              /* us until the server is at rest */
};

#define REQUEST "GET /1k HTTP/1.1\r\nHost: localhost\r\n"

struct connection {
	int    fd;
	SSL   *ssl;
	bool   is_open;                 /* has had an answer */
	bool   asks;                    /* an answer is to come */
	size_t got;                     /* bytes of it */
};

static enum { BUSY, NEW, IDLE } mode;
static struct sockaddr_in server = { .sin_family = AF_INET };
static SSL_CTX *context;
static struct connection *all;
static size_t connections, next, opening, opened, answers;
static size_t length;                   /* of an answer; 0: not known yet */
static bool goes_round;                 /* an answer is followed by a request */
static int epoll;
static char body[BODY];

static _Noreturn void die(const char *what)
{
	fprintf(stderr, "load: %s: %s\n", what, errno ? strerror(errno) : "");
	ERR_print_errors_fp(stderr);
	exit(1);
}

static double seconds_of(clockid_t clock)
{
	struct timespec t;

	if (clock_gettime(clock, &t))
		die("clock_gettime");
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static double kib_of(long pid)
{
	char name[64], line[128];
	unsigned long kib = 0;
	FILE *file;

	snprintf(name, sizeof name, "/proc/%ld/status", pid);
	file = fopen(name, "r");
	if (!file)
		die(name);
	while (fgets(line, sizeof line, file) && !sscanf(line, "RssAnon: %lu kB", &kib))
		;
	fclose(file);
	return (double)kib;
}

static void ask(struct connection *c)
{
	static const char *const text[] = { REQUEST "\r\n",
					    REQUEST "Connection: close\r\n\r\n" };
	const char *request = text[mode == NEW];

	errno = 0;
	if (SSL_write(c->ssl, request, (int)strlen(request)) <= 0)
		die("a request cannot be sent");
	c->asks = true;
	c->got = 0;
}

static void dial(struct connection *c)
{
	struct epoll_event event = { .events = EPOLLIN | EPOLLOUT | EPOLLET,
				     .data = { .ptr = c } };
	int one = 1;

	errno = 0;
	*c = (struct connection){ .fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0) };
	if (c->fd < 0 || setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one)
	    || (connect(c->fd, (struct sockaddr *)&server, sizeof server)
		&& errno != EINPROGRESS))
		die("connect");
	c->ssl = SSL_new(context);
	if (!c->ssl || SSL_set_fd(c->ssl, c->fd) != 1)
		die("SSL_new");
	SSL_set_connect_state(c->ssl);
	if (epoll_ctl(epoll, EPOLL_CTL_ADD, c->fd, &event))
		die("epoll_ctl");
	opening++;
}

static void hang_up(struct connection *c)
{
	SSL_free(c->ssl);
	close(c->fd);
}

/* Of the first answer; all are as long. */
static void learn(const char *text, size_t n)
{
	const char *end = memmem(text, n, "\r\n\r\n", 4);

	if (!end || strncmp(text, "HTTP/1.1 200 ", 13) != 0)
		die("the answer is not HTTP/1.1 200");
	length = (size_t)(end + 4 - text) + BODY;
}

/* So much more of the answer is here. */
static void take(struct connection *c, const char *text, size_t n)
{
	size_t skip;

	if (!c->asks)
		die("there is more than the answer");
	if (!length)
		learn(text, n);
	skip = length - BODY > c->got ? length - BODY - c->got : 0;
	c->got += n;
	if (c->got > length || (n > skip && memcmp(text + skip, body, n - skip) != 0))
		die("the answer is wrong");
	if (c->got < length)
		return;
	c->asks = false;
	answers++;
	if (!c->is_open) {
		c->is_open = true;
		opening--;
		opened++;
	}
	if (goes_round && mode == BUSY)
		ask(c);
}

/* The connection has ended: another one takes its place. */
static void follow(struct connection *c)
{
	if (mode != NEW || c->asks)
		die("the server closes a connection");
	hang_up(c);
	dial(c);
}

/* Until it would wait. */
static void drive(struct connection *c)
{
	static char text[LONGEST];
	int n;

	errno = 0;
	ERR_clear_error();
	if (!c->is_open && !c->asks) {
		n = SSL_do_handshake(c->ssl);
		if (n == 1)
			ask(c);
		else if (SSL_get_error(c->ssl, n) != SSL_ERROR_WANT_READ
			 && SSL_get_error(c->ssl, n) != SSL_ERROR_WANT_WRITE)
			die("the handshake fails");
	}
	while ((c->is_open || c->asks)
	       && (n = SSL_read(c->ssl, text, sizeof text)) > 0)
		take(c, text, (size_t)n);
	if ((c->is_open || c->asks) && SSL_get_error(c->ssl, n) != SSL_ERROR_WANT_READ) {
		if (SSL_get_error(c->ssl, n) != SSL_ERROR_ZERO_RETURN)
			die("a connection fails");
		follow(c);
	}
}

static void turn(void)
{
	struct epoll_event events[EVENTS];
	int n;

	while (mode != NEW && next < connections && opening < AT_ONCE)
		dial(&all[next++]);
	n = epoll_wait(epoll, events, EVENTS, PATIENCE * 1000);
	errno = 0;
	if (n <= 0)
		die("no answer");
	for (int i = 0; i < n; i++)
		drive(events[i].data.ptr);
}

static void open_all(size_t n)
{
	connections = n;
	while (opened < n)
		turn();
}

static void ask_all(void)
{
	for (size_t i = 0; i < connections; i++)
		ask(&all[i]);
}

/* Requests for so long. */
static void measure(double seconds, clockid_t processor)
{
	double begin = seconds_of(CLOCK_MONOTONIC), used = seconds_of(processor), now;

	answers = 0;
	goes_round = true;
	if (mode == BUSY)
		ask_all();
	do {
		turn();
		now = seconds_of(CLOCK_MONOTONIC);
	} while (now < begin + seconds);
	used = seconds_of(processor) - used;
	printf("rate %.0f cpu_us %.2f\n", (double)answers / (now - begin),
	       used * 1e6 / (double)answers);
}

static void look(long pid)
{
	size_t n = connections;
	double before, after;

	open_all(1);                    /* what the first one takes does not count */
	usleep(SETTLE);
	before = kib_of(pid);
	open_all(n + 1);
	usleep(SETTLE);
	after = kib_of(pid);
	answers = 0;
	ask_all();
	while (answers < connections)
		turn();
	printf("kb %.2f\n", (after - before) / (double)n);
}

int main(int argc, char **argv)
{
	clockid_t processor;
	long pid;

	if (argc < 5)
		return fprintf(stderr, "usage: load busy|new|idle PORT PID CONNECTIONS "
			       "[SECONDS]\n"), 2;
	mode = argv[1][0] == 'b' ? BUSY : argv[1][0] == 'n' ? NEW : IDLE;
	server.sin_port = htons((uint16_t)atoi(argv[2]));
	server.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	pid = atol(argv[3]);
	connections = strtoul(argv[4], NULL, 10);
	memset(body, 'u', sizeof body);
	epoll = epoll_create1(0);
	context = SSL_CTX_new(TLS_client_method());
	all = calloc(connections + 1, sizeof *all);
	if (epoll < 0 || !context || !all || !connections)
		die("begin");
	errno = clock_getcpuclockid((pid_t)pid, &processor);
	if (errno)
		die("clock_getcpuclockid");
	SSL_CTX_set_mode(context, SSL_MODE_RELEASE_BUFFERS);
	SSL_CTX_set_read_ahead(context, 1);
	if (mode == IDLE)
		return look(pid), 0;
	if (mode == BUSY)
		open_all(connections);
	else
		for (size_t i = 0; i < connections; i++)
			dial(&all[i]);
	measure(argc > 5 ? atof(argv[5]) : 3, processor);
	return 0;
}
