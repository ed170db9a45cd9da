/* SPDX-License-Identifier: MIT
 *
 * load.c: an echo server, and many clients that reach it through a server in between
 * which passes on bytes. Both are one native thread over epoll, so that the server in
 * between is what is measured. What comes back is compared with what was sent.
 *
 *   load serve PORT
 *   load run [OPTION]... PORT
 *
 *   -p HOW        how the server at PORT is asked for the echo server: plain (it knows),
 *                 socks (SOCKS5), connect (HTTP's CONNECT); or http: a message is GET
 *                 /small, whose answer ends with "hello", and -m means nothing; or file
 *                 and, by datagrams, udp: see -x
 *   -x FILE       what connections say: pairs of a question and the end of its answer,
 *                 each with its length before it, in a byte. The last pair is a message
 *   -u PATH       of the page, in the place of /small
 *   -b PORT       the echo server's, for the latter two
 *   -n NUMBER     connections; default 1
 *   -m BYTES      of a message; default 100
 *   -v            each message has another length, from 1 to BYTES
 *   -k NUMBER     each connection sends so many messages, and is closed then
 *   -r NUMBER     likewise, and another connection takes its place, so often
 *   -s SECONDS    messages go round for so long, one of each connection at a time
 *   -i SECONDS    idle: each connection sends one message, and so long after the last
 *                 of them memory is looked at: what is resident, page tables, and kernel
 *                 stacks
 *   -w PID        a process to be watched: CPU time, memory; several times
 *   -t SECONDS    the time without any message after which it fails; default 30
 *   -e            the echo server ends a connection, not the client
 *
 * The last line of output is names and values; p99_us is of messages, or, where each
 * connection sends one, of connections. Of each connection the first message
 * counts as its opening. The exit status is 0 if there were no errors.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum {
	EVENTS = 256,
	AT_ONCE = 64,                   /* connections being opened: backlogs are short */
	LONGEST = 1 << 20,
	WATCHED = 64,
	PAIRS = 8,
	LATENCIES = 1 << 22,            /* those beyond are not looked at */
	KERNEL_STACK = 16               /* KiB of a native thread, on 64-bit machines */
};

enum phase { CLOSED, DIALS, GREETS, ASKS, TALKS, RESTS, ENDS };

struct connection {
	int fd;
	enum phase phase;
	bool polls_out;
	bool is_open;                   /* has had its first answer */
	const char *data;               /* what it sends, and what is to come back */
	size_t length;
	size_t out;                     /* bytes sent of it */
	size_t answer;                  /* the length of the answer */
	size_t in;
	char reply[16];                 /* the last bytes of an answer to a question */
	uint32_t random;
	double began;                   /* when the message was sent */
	int pair;                       /* of -x */
	long messages;
	long left;                      /* connections that follow it */
};

static const char *how = "plain", *page = "/small";
static int port, back;
static long connections = 1, count, again;
static size_t size = 100;
static bool varied, by_server, gets_pages;
static double seconds, idle = -1, patience = 30;
static int watched[WATCHED], watches;

static struct connection *all;
static int epoll;
static long next_dial;                  /* connections from here on were not opened yet */
static long opening, open_now, ended, errors, messages, opened;
static bool going;
static double moved;                    /* when something has happened */
static char pool[2 * LONGEST];          /* what is sent are parts of it */
static char question[128];
static size_t question_length;
static struct pair {
	const char *ask, *end;
	size_t length, end_length;
} pairs[PAIRS] = { { .ask = question, .end = "hello", .end_length = 5 } };
static int last_pair = -1;               /* the number of the last one of -x */
static bool by_datagrams;
static float *latencies;
static size_t latencies_used;

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void die(const char *what)
{
	fprintf(stderr, "load: %s: %s\n", what, strerror(errno));
	exit(2);
}

static struct sockaddr_in here(int number)
{
	struct sockaddr_in a = { .sin_family = AF_INET };

	a.sin_port = htons((uint16_t)number);
	a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	return a;
}

static void poll_for(int op, int fd, uint32_t events, void *what)
{
	struct epoll_event event = { .events = events, .data = { .ptr = what } };

	if (epoll_ctl(epoll, op, fd, &event))
		die("epoll_ctl");
}

static void no_delay(int fd)
{
	int on = 1;

	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

/* ---- The echo server ---- */

/* What a client has sent and not got back yet: it reads no more than that. */
struct echo {
	int fd;
	size_t from, to;
	bool polls_out;
	char bytes[1 << 16];
};

static void echo_close(struct echo *e)
{
	close(e->fd);
	free(e);
}

/* A ready descriptor gets one read and one write. A message "." ends the connection. */
static void echo_step(struct echo *e)
{
	ssize_t n;

	if (e->from == e->to) {
		n = read(e->fd, e->bytes, sizeof e->bytes);
		if (n < 0 && errno == EAGAIN)
			return;
		if (n <= 0 || (n == 1 && e->bytes[0] == '.')) {
			echo_close(e);
			return;
		}
		e->from = 0;
		e->to = (size_t)n;
	}
	n = send(e->fd, e->bytes + e->from, e->to - e->from, MSG_NOSIGNAL);
	if (n < 0 && errno != EAGAIN) {
		echo_close(e);
		return;
	}
	e->from += n > 0 ? (size_t)n : 0;
	if (e->polls_out != (e->from < e->to)) {
		e->polls_out = !e->polls_out;
		poll_for(EPOLL_CTL_MOD, e->fd, e->polls_out ? EPOLLOUT : EPOLLIN, e);
	}
}

static void echo_accept(int listener)
{
	struct echo *e;
	int fd;

	while ((fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC)) >= 0) {
		e = calloc(1, sizeof *e);
		if (!e)
			die("memory");
		no_delay(fd);
		e->fd = fd;
		poll_for(EPOLL_CTL_ADD, fd, EPOLLIN, e);
	}
}

__attribute__((noreturn)) static void serve(int number)
{
	struct sockaddr_in a = here(number);
	struct epoll_event ready[EVENTS];
	int listener = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0), on = 1;

	setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
	if (bind(listener, (struct sockaddr *)&a, sizeof a) || listen(listener, 4096))
		die("listen");
	poll_for(EPOLL_CTL_ADD, listener, EPOLLIN, NULL);
	printf("ready\n");
	fflush(stdout);
	for (;;) {
		int n = epoll_wait(epoll, ready, EVENTS, -1);

		for (int i = 0; i < n; i++) {
			if (ready[i].data.ptr)
				echo_step(ready[i].data.ptr);
			else
				echo_accept(listener);
		}
	}
}

/* ---- What is watched ---- */

/* A number, mostly of KiB, of a field of /proc/PID/status, of all processes. */
static double memory(const char *field)
{
	double sum = 0;

	for (int i = 0; i < watches; i++) {
		char path[64], line[256];
		FILE *file;

		snprintf(path, sizeof path, "/proc/%d/status", watched[i]);
		file = fopen(path, "r");
		if (!file)
			die(path);
		while (fgets(line, sizeof line, file))
			if (!strncmp(line, field, strlen(field)))
				sum += atof(line + strlen(field) + 1);
		fclose(file);
	}
	return sum;
}

/* Seconds, of user and system, of all processes. */
static double processor_time(void)
{
	double sum = 0;

	for (int i = 0; i < watches; i++) {
		unsigned long user, system;
		char path[64], line[1024], *rest;
		FILE *file;

		snprintf(path, sizeof path, "/proc/%d/stat", watched[i]);
		file = fopen(path, "r");
		if (!file || !fgets(line, sizeof line, file))
			die(path);
		fclose(file);
		rest = strrchr(line, ')');
		if (!rest || sscanf(rest + 1, " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u"
				    " %*u %lu %lu", &user, &system) != 2)
			die(path);
		sum += (double)(user + system) / (double)sysconf(_SC_CLK_TCK);
	}
	return sum;
}

/* ---- The clients ---- */

static void say(struct connection *c, const char *data, size_t length, size_t answer);

static void failed(struct connection *c, const char *what)
{
	static const char *const names[] = {
		"closed", "connecting", "greeting", "asking", "talking", "resting",
		"ending"
	};

	if (errors++ < 5)
		fprintf(stderr, "load: connection %ld, %s, message %ld: %s\n",
			(long)(c - all), names[c->phase], c->messages, what);
	opening -= !c->is_open;
	open_now -= c->is_open;
	ended++;
	close(c->fd);
	c->phase = CLOSED;
}

static void dial(struct connection *c)
{
	struct sockaddr_in a = here(port);

	c->fd = socket(AF_INET, (by_datagrams ? SOCK_DGRAM : SOCK_STREAM) | SOCK_NONBLOCK
		       | SOCK_CLOEXEC, 0);
	if (c->fd < 0)
		die("socket");
	c->phase = DIALS;
	c->began = now();
	c->messages = 0;
	c->pair = 0;
	c->is_open = false;
	c->length = c->out = 0;
	opening++;
	if (!by_datagrams)
		no_delay(c->fd);
	if (connect(c->fd, (struct sockaddr *)&a, sizeof a) && errno != EINPROGRESS)
		die("connect");
	c->polls_out = true;
	poll_for(EPOLL_CTL_ADD, c->fd, EPOLLIN | EPOLLOUT, c);
}

/* The next message: other bytes for each. */
static void message(struct connection *c)
{
	size_t length = size;

	c->random = c->random * 1664525 + 1013904223;
	if (varied)
		length = 1 + (c->random >> 8) % size;
	c->phase = TALKS;
	if (c->is_open)
		c->began = now();
	if (gets_pages)
		say(c, pairs[c->pair].ask, pairs[c->pair].length, SIZE_MAX);
	else
		say(c, pool + (c->random >> 4) % LONGEST, length, length);
}

static void has_ended(struct connection *c);

static void end(struct connection *c)
{
	c->phase = ENDS;
	if (by_server)
		say(c, ".", 1, 1);
	else if (by_datagrams)
		has_ended(c);
	else
		shutdown(c->fd, SHUT_WR);
}

/* One message has come back. */
static void came_back(struct connection *c)
{
	moved = now();
	if (gets_pages && c->pair < last_pair) {
		c->pair++;
		message(c);
		return;
	}
	if ((c->is_open || count == 1) && latencies_used < LATENCIES)
		latencies[latencies_used++] = (float)((moved - c->began) * 1e6);
	if (!c->is_open) {
		c->is_open = true;
		opening--;
		open_now++;
		opened++;
	} else {
		messages++;
	}
	c->messages++;
	if (count && c->messages == count)
		end(c);
	else if (going || count)
		message(c);
	else
		c->phase = RESTS;
}

/* The answer to what was sent in a phase is complete. */
static void answered(struct connection *c)
{
	switch (c->phase) {
	case GREETS:
		if (c->reply[0] != 5 || c->reply[1]) {
			failed(c, "is refused");
			return;
		}
		c->phase = ASKS;
		say(c, question, question_length, 10);
		break;
	case ASKS:
		if (!strcmp(how, "socks") && c->reply[1]) {
			failed(c, "the proxy refuses");
			return;
		}
		message(c);
		break;
	default:
		came_back(c);
		break;
	}
}

static void connected(struct connection *c)
{
	if (!strcmp(how, "socks")) {
		c->phase = GREETS;
		say(c, "\5\1\0", 3, 2);
	} else if (!strcmp(how, "connect")) {
		c->phase = ASKS;
		say(c, question, question_length, SIZE_MAX);
	} else {
		message(c);
	}
}

/* Returns false if it has failed. */
static bool send_rest(struct connection *c)
{
	bool more;

	if (c->out < c->length) {
		ssize_t n = send(c->fd, c->data + c->out, c->length - c->out,
				 MSG_NOSIGNAL);

		if (n < 0 && errno != EAGAIN) {
			failed(c, strerror(errno));
			return false;
		}
		c->out += n > 0 ? (size_t)n : 0;
	}
	more = c->out < c->length;
	if (more != c->polls_out) {
		c->polls_out = more;
		poll_for(EPOLL_CTL_MOD, c->fd, more ? EPOLLIN | EPOLLOUT : EPOLLIN, c);
	}
	return true;
}

static void say(struct connection *c, const char *data, size_t length, size_t answer)
{
	c->data = data;
	c->length = length;
	c->answer = answer;
	c->out = c->in = 0;
	memset(c->reply, 0, sizeof c->reply);
	send_rest(c);
}

static void has_ended(struct connection *c)
{
	moved = now();
	close(c->fd);
	c->phase = CLOSED;
	open_now--;
	ended++;
	if (c->left > 0) {
		c->left--;
		ended--;
		dial(c);
	}
}

/* Part of the answer to a question. That of HTTP ends with an empty line. */
static bool hear(struct connection *c, const char *bytes, size_t n)
{
	if (c->answer != SIZE_MAX) {
		memcpy(c->reply + c->in - n, bytes, n);
		return c->in == c->answer;
	}
	memmove(c->reply, c->reply + 1, sizeof c->reply - 2);
	c->reply[sizeof c->reply - 2] = bytes[0];
	if (c->in == 12 && memcmp(c->reply + sizeof c->reply - 4, "200", 3)) {
		failed(c, "the proxy does not say 200");
		return false;
	}
	return !memcmp(c->reply + sizeof c->reply - 5, "\r\n\r\n", 4);
}

/* Part of a page. Returns true at its end. */
static bool read_page(struct connection *c, const char *bytes, size_t n)
{
	size_t length = pairs[c->pair].end_length, kept = n < length ? length - n : 0;

	memmove(c->reply, c->reply + length - kept, kept);
	memcpy(c->reply + kept, bytes + n - (length - kept), length - kept);
	return !memcmp(c->reply, pairs[c->pair].end, length);
}

/* Bytes have come in a phase in which some are due. */
static void take(struct connection *c, const char *bytes, size_t n)
{
	c->in += n;
	if (c->phase != TALKS) {
		if (hear(c, bytes, n))
			answered(c);
	} else if (gets_pages) {
		if (read_page(c, bytes, n))
			answered(c);
	} else if (memcmp(bytes, c->data + c->in - n, n)) {
		failed(c, "other bytes come back");
	} else if (c->in == c->answer) {
		answered(c);
	}
}

static void receive(struct connection *c)
{
	static char bytes[1 << 16];
	size_t most = gets_pages ? sizeof bytes :
		c->answer == SIZE_MAX ? 1 : c->answer - c->in;
	ssize_t n;

	if (c->phase == RESTS || c->phase == ENDS)
		most = 1;
	if (most > sizeof bytes)
		most = sizeof bytes;
	n = read(c->fd, bytes, most);
	if (n < 0 && errno == EAGAIN)
		return;
	if (n == 0 && c->phase == ENDS) {
		has_ended(c);
	} else if (n < 0) {
		failed(c, strerror(errno));
	} else if (n == 0) {
		failed(c, "ends");
	} else if (c->phase == RESTS || c->phase == ENDS) {
		failed(c, "bytes that nothing has asked for");
	} else {
		take(c, bytes, (size_t)n);
	}
}

static void is_ready(struct connection *c, uint32_t events)
{
	if (c->phase == CLOSED)
		return;
	if (c->phase == DIALS) {
		int rc = 0;
		socklen_t n = sizeof rc;

		getsockopt(c->fd, SOL_SOCKET, SO_ERROR, &rc, &n);
		if (rc)
			failed(c, strerror(rc));
		else
			connected(c);
		return;
	}
	if ((events & EPOLLOUT) && !send_rest(c))
		return;
	if (events & ~(uint32_t)EPOLLOUT)
		receive(c);
}

static void give_up(void)
{
	long stuck = 0;

	for (long i = 0; i < connections; i++)
		if (all[i].phase != CLOSED && all[i].phase != RESTS) {
			errno = ETIMEDOUT;
			stuck++;
			failed(&all[i], "nothing happens");
		}
	fprintf(stderr, "load: nothing happens for %.0f seconds: %ld connections wait\n",
		patience, stuck);
}

/* Waits for events, once. Returns false if nothing happens any more. */
static bool step(int milliseconds)
{
	struct epoll_event ready[EVENTS];
	int n;

	while (next_dial < connections && opening < AT_ONCE)
		dial(&all[next_dial++]);
	n = epoll_wait(epoll, ready, EVENTS, milliseconds);
	for (int i = 0; i < n; i++)
		is_ready(ready[i].data.ptr, ready[i].events);
	if (now() - moved < patience)
		return true;
	give_up();
	return false;
}

static long talking(void)
{
	long n = 0;

	for (long i = 0; i < connections; i++)
		n += all[i].phase == TALKS;
	return n;
}

static long least_messages(void)
{
	long n = connections ? all[0].messages : 0;

	for (long i = 1; i < connections; i++)
		if (all[i].messages < n)
			n = all[i].messages;
	return n;
}

/* Messages go round for so many seconds. */
static void go_round(void)
{
	double began = now(), time = processor_time(), took, until;
	long before = messages;
	bool works = true;

	going = true;
	for (long i = 0; i < connections; i++)
		if (all[i].phase == RESTS)
			message(&all[i]);
	while (works && now() - began < seconds)
		works = step(100);
	took = now() - began;
	time = processor_time() - time;
	printf("rate %.0f cpu_us %.2f least %ld ", (double)(messages - before) / took,
	       time * 1e6 / (double)(messages - before ? messages - before : 1),
	       least_messages());
	going = false;
	for (until = now() + patience; works && talking() && now() < until;)
		works = step(100);
	if (works && talking())
		give_up();
}

static void close_all(void)
{
	bool works = true;

	moved = now();
	for (long i = 0; i < connections; i++)
		if (all[i].phase == RESTS)
			end(&all[i]);
	while (works && ended < connections)
		works = step(100);
}

/* Reads the file of -x. */
static void read_pairs(const char *path)
{
	static char bytes[1 << 12];
	FILE *file = fopen(path, "r");
	size_t n = file ? fread(bytes, 1, sizeof bytes, file) : 0, at = 0;
	int i;

	for (i = 0; i < PAIRS && at < n; i++) {
		pairs[i].length = (unsigned char)bytes[at];
		pairs[i].ask = bytes + at + 1;
		at += pairs[i].length + 1;
		pairs[i].end_length = (unsigned char)bytes[at];
		pairs[i].end = bytes + at + 1;
		at += pairs[i].end_length + 1;
		if (at > n || pairs[i].end_length > sizeof all->reply)
			die(path);
	}
	last_pair = i - 1;
}

static void prepare(void)
{
	uint32_t random = 12345;

	for (size_t i = 0; i < sizeof pool; i++) {
		random = random * 1664525 + 1013904223;
		pool[i] = (char)(random >> 24);
	}
	if (!strcmp(how, "socks")) {
		question_length = 10;
		memcpy(question, "\5\1\0\1\177\0\0\1", 8);
		question[8] = (char)(back >> 8);
		question[9] = (char)back;
	} else if (!strcmp(how, "http")) {
		gets_pages = true;
		question_length = (size_t)snprintf(question, sizeof question,
			"GET %s HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n", page);
		pairs[0].length = question_length;
	} else if (last_pair >= 0) {
		gets_pages = true;
		by_datagrams = !strcmp(how, "udp");
	} else {
		question_length = (size_t)snprintf(question, sizeof question,
			"CONNECT 127.0.0.1:%d HTTP/1.0\r\n\r\n", back);
	}
	all = calloc((size_t)connections, sizeof *all);
	latencies = malloc(LATENCIES * sizeof *latencies);
	if (!all || !latencies)
		die("memory");
	for (long i = 0; i < connections; i++) {
		all[i].random = (uint32_t)i * 2654435761U + 1;
		all[i].left = again;
	}
}

static int compare(const void *one, const void *other)
{
	float a = *(const float *)one, b = *(const float *)other;

	return (a > b) - (a < b);
}

static int run(void)
{
	double began = now(), time = processor_time(), kb = memory("VmRSS:");
	double tables = memory("VmPTE:"), threads = memory("Threads:");
	bool works = true;

	prepare();
	moved = now();
	while (works && (next_dial < connections || opening ||
			 (count && ended < connections)))
		works = step(100);
	time = processor_time() - time;
	printf("connections %ld opened %ld seconds %.2f open_us %.1f ", connections,
	       opened, now() - began, time * 1e6 / (double)(opened ? opened : 1));
	if (idle >= 0) {
		usleep((useconds_t)(idle * 1e6));
		tables = memory("VmPTE:") - tables;
		kb = memory("VmRSS:") - kb + tables;
		threads = memory("Threads:") - threads;
		printf("kb %.2f user %.2f threads %.0f ",
		       (kb + KERNEL_STACK * threads) / (double)connections,
		       kb / (double)connections, threads);
	}
	if (works && seconds > 0)
		go_round();
	if (works && !count)
		close_all();
	qsort(latencies, latencies_used, sizeof *latencies, compare);
	printf("p99_us %.0f messages %ld errors %ld\n", latencies_used
	       ? (double)latencies[latencies_used * 99 / 100] : 0, messages, errors);
	return errors != 0 || ended != connections;
}

static void options(int argc, char **argv)
{
	int c;

	while ((c = getopt(argc, argv, "p:u:b:n:m:vk:r:s:i:w:t:ex:")) != -1) {
		switch (c) {
		case 'p': how = optarg; break;
		case 'u': page = optarg; break;
		case 'b': back = atoi(optarg); break;
		case 'n': connections = atol(optarg); break;
		case 'm': size = (size_t)atol(optarg); break;
		case 'v': varied = true; break;
		case 'k': count = atol(optarg); break;
		case 'r': again = atol(optarg); break;
		case 's': seconds = atof(optarg); break;
		case 'i': idle = atof(optarg); break;
		case 't': patience = atof(optarg); break;
		case 'e': by_server = true; break;
		case 'x': read_pairs(optarg); break;
		case 'w':
			if (watches == WATCHED)
				exit(2);
			watched[watches++] = atoi(optarg);
			break;
		default: exit(2);
		}
	}
	if (optind != argc - 1 || size < 1 || size > LONGEST || connections < 1 ||
	    strlen(page) > 64)
		exit(2);
	port = atoi(argv[optind]);
}

int main(int argc, char **argv)
{
	struct rlimit most;

	signal(SIGPIPE, SIG_IGN);
	getrlimit(RLIMIT_NOFILE, &most);
	most.rlim_cur = most.rlim_max;
	setrlimit(RLIMIT_NOFILE, &most);
	epoll = epoll_create1(EPOLL_CLOEXEC);
	if (argc == 3 && !strcmp(argv[1], "serve"))
		serve(atoi(argv[2]));
	if (argc < 3 || strcmp(argv[1], "run")) {
		fprintf(stderr, "usage: load serve PORT | load run [OPTION]... PORT\n");
		return 2;
	}
	options(argc - 1, argv + 1);
	return run();
}
