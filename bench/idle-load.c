/* SPDX-License-Identifier: MIT */
/*
 * idle-load.c: the memory of an HTTP server for idle connections. Opens the connections,
 * sends one request on each, and prints the growth of the server's anonymous resident
 * memory, in bytes per connection. Then sends a second request on each, and checks the
 * answer.
 *
 * Another request comes first, so that memory for the first request of all does not
 * count.
 */
#define BENCH_PROGRAM "idle-load"

#include <netinet/in.h>
#include <stdbool.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

#include "bench.h"

enum {
	MOST_ANSWER = 1 << 20,  /* bytes, with the header */
	PATIENCE    = 100,      /* seconds for an answer */
	SETTLE      = 500,      /* ms until the server is at rest */
};

static const char *path = "/1k";
static struct sockaddr_in server;
static char answer[MOST_ANSWER + 1];
static char body[MOST_ANSWER];          /* of the first answer; all are equal */
static size_t body_length = SIZE_MAX;   /* none yet */

static void usage(void)
{
	fprintf(stderr, "usage: %s PORT CONNECTIONS PID [PATH]\n", BENCH_PROGRAM);
	exit(2);
}

static _Noreturn void wrong(const char *what)
{
	fprintf(stderr, "%s: %s\n", BENCH_PROGRAM, what);
	_Exit(1);
}

/* Bytes of anonymous memory of the process. */
static double memory(size_t pid)
{
	char name[64], line[128];
	unsigned long kib;
	bool found = false;
	FILE *file;

	snprintf(name, sizeof name, "/proc/%zu/status", pid);
	file = fopen(name, "r");
	need(file, name);
	while (!found && fgets(line, sizeof line, file))
		found = sscanf(line, "RssAnon: %lu kB", &kib) == 1;
	fclose(file);
	if (!found)
		wrong("the process has no RssAnon");
	return (double)kib * 1024;
}

static int open_connection(void)
{
	struct timeval patience = { .tv_sec = PATIENCE };
	int fd = socket(AF_INET, SOCK_STREAM, 0);

	need(fd >= 0, "socket");
	need(!setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience),
	      "setsockopt");
	need(!connect(fd, (struct sockaddr *)&server, sizeof server), "connect");
	return fd;
}

/* Copies the value of a header field. False: there is none. */
static bool field(const char *name, char *value, size_t size)
{
	const char *line = answer;
	size_t length = strlen(name);

	while ((line = strstr(line, "\r\n")) && strncmp(line, "\r\n\r\n", 4)) {
		line += 2;
		if (strncasecmp(line, name, length) || line[length] != ':')
			continue;
		line += length + 1;
		line += strspn(line, " \t");
		length = strcspn(line, "\r");
		snprintf(value, size, "%.*s", (int)length, line);
		return true;
	}
	return false;
}

/* The bytes of the answer; 0: not known yet. */
static size_t answer_length(void)
{
	const char *end = strstr(answer, "\r\n\r\n");
	char text[32], *rest;
	unsigned long length;

	if (!end)
		return 0;
	if (strncmp(answer, "HTTP/1.1 200 ", 13))
		wrong("the answer is not HTTP/1.1 200");
	if (field("Connection", text, sizeof text) && !strcasecmp(text, "close"))
		wrong("the server closes the connection");
	if (!field("Content-Length", text, sizeof text))
		wrong("the answer has no Content-Length");
	length = strtoul(text, &rest, 10);
	if (*text < '0' || *text > '9' || *rest || length > MOST_ANSWER)
		wrong("the answer's Content-Length is wrong");
	return (size_t)(end + 4 - answer) + length;
}

static void check_body(const char *text, size_t length)
{
	if (body_length == SIZE_MAX) {
		memcpy(body, text, length);
		body_length = length;
	}
	if (length != body_length || memcmp(text, body, length))
		wrong("the answer is not that of the first request");
}

static void request(int fd)
{
	char text[4096];
	int length = snprintf(text, sizeof text,
	                      "GET %s HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n", path);
	size_t have = 0, want = 0;

	need(send(fd, text, (size_t)length, MSG_NOSIGNAL) == length, "request");
	while (want == 0 || have < want) {
		ssize_t got = recv(fd, answer + have, MOST_ANSWER - have, 0);

		if (got < 0 && errno == EAGAIN)
			wrong("no answer");
		need(got >= 0, "answer");
		if (got == 0)
			wrong("the connection was closed, or the answer is too long");
		have += (size_t)got;
		answer[have] = '\0';
		if (want == 0)
			want = answer_length();
	}
	if (have > want)
		wrong("there is more than the answer");
	check_body(strstr(answer, "\r\n\r\n") + 4,
	           want - (size_t)(strstr(answer, "\r\n\r\n") + 4 - answer));
}

static void settle(void)
{
	usleep(SETTLE * 1000);
}

static void warm_up(void)
{
	int fd = open_connection();

	request(fd);
	close(fd);
	settle();
}

int main(int argc, char **argv)
{
	size_t connections, pid;
	double before, after;
	int *fds;

	if (argc < 4 || argc > 5)
		usage();
	server.sin_family = AF_INET;
	server.sin_port = htons((uint16_t)number(argv[1], 1, UINT16_MAX));
	server.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	connections = number(argv[2], 1, 1 << 20);
	pid = number(argv[3], 1, INT32_MAX);
	if (argc == 5)
		path = argv[4];
	if (*path != '/' || strlen(path) > 2048 || strpbrk(path, " \r\n"))
		usage();
	raise_limit();
	fds = malloc(connections * sizeof *fds);
	need(fds, "connections");
	warm_up();
	before = memory(pid);
	for (size_t i = 0; i < connections; i++)
		request(fds[i] = open_connection());
	settle();
	after = memory(pid);
	for (size_t i = 0; i < connections; i++)
		request(fds[i]);
	for (size_t i = 0; i < connections; i++)
		close(fds[i]);
	printf("bytes_per_connection=%.1f connections=%zu\n",
	       (after - before) / (double)connections, connections);
	free(fds);
	return 0;
}
