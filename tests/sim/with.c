/* SPDX-License-Identifier: MIT */
/*
 * A server (-l COUNT) and its client (-n COUNT), for usched-run --with. The server counts
 * the bytes that it gets, and its exit status tells whether the count was right. Both
 * have the variable `count', one each.
 */
#include <poll.h>
#include <signal.h>

#include "check.h"

static const char *const path = "/tmp/usched-sim-with";
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static long count, wanted;
static int port = 7000;

static void *echo(void *arg)
{
	int fd = (int)(intptr_t)arg;
	char c;

	while (read(fd, &c, 1) == 1) {
		pthread_mutex_lock(&lock);
		count++;
		pthread_mutex_unlock(&lock);
		CHECK(write(fd, &c, 1) == 1);
	}
	CHECK(close(fd) == 0);
	return NULL;
}

static void end(int sig)
{
	(void)sig;
	exit(count == wanted ? 0 : 3);
}

/* The clients must not begin in the wait that comes before listen(). */
static void serve(void)
{
	struct sockaddr_in a = address("0.0.0.0", port);
	int listener = socket(AF_INET, SOCK_STREAM, 0);
	FILE *f = fopen(path, "a");
	int fd = fileno(f);

	CHECK(bind(listener, (struct sockaddr *)&a, sizeof a) == 0);
	CHECK(poll(NULL, 0, 1) == 0);
	signal(SIGTERM, end);
	CHECK(f && fputs("ready", f) >= 0 && fclose(f) == 0 && close(fd) < 0);
	CHECK(listen(listener, 128) == 0);
	for (;;)
		if ((fd = accept(listener, NULL, NULL)) >= 0)
			pthread_detach(started(echo, (void *)(intptr_t)fd));
}

static void ask(void)
{
	struct sockaddr_in a = address("127.0.0.1", port);
	int fd = socket(AF_INET, SOCK_STREAM, 0);
	FILE *f = fopen(path, "r");
	char line[16], c;

	signal(SIGTERM, SIG_IGN);               /* that of the server stays */
	CHECK(f && fgets(line, sizeof line, f) && strncmp(line, "ready", 5) == 0);
	CHECK(connect(fd, (struct sockaddr *)&a, sizeof a) == 0);
	for (; count < wanted; count++)
		CHECK(write(fd, "x", 1) == 1 && read(fd, &c, 1) == 1);
	/* The other descriptors end with the program. */
	CHECK(printf("with: sent %ld\n", count) > 0 && fclose(stdout) == 0);
}

int main(int argc, char **argv)
{
	int option, last = 0;

	while ((option = getopt(argc, argv, "l:n:p:")) > 0) {
		if (option == 'p') {
			port = atoi(optarg);
			continue;
		}
		last = option;
		wanted = atol(optarg);
	}
	CHECK(optind == argc);
	if (last == 'l')
		serve();
	if (last == 'n')
		ask();
	return 0;
}
