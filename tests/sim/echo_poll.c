/* SPDX-License-Identifier: MIT */
/* An echo server of one thread, with poll(), and one with epoll and edges or without. */
#include "check.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/epoll.h>

/* Echoes what is there. Returns whether the connection goes on. */
static int echo(int fd)
{
	char buffer[512];
	ssize_t n;

	while ((n = read(fd, buffer, sizeof buffer)) > 0)
		CHECK(write(fd, buffer, (size_t)n) == n);
	CHECK(n == 0 || errno == EAGAIN);
	if (n == 0)
		CHECK(close(fd) == 0);
	return n < 0;
}

static int accepted(int listener)
{
	int fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK);

	CHECK(fd >= 0 || errno == EAGAIN);
	return fd;
}

static void *serve_by_poll(void *arg)
{
	struct pollfd fds[CLIENTS + 1] = { { (int)(intptr_t)arg, POLLIN, 0 } };
	nfds_t n = 1;
	int ended = 0, fd;

	fcntl(fds[0].fd, F_SETFL, O_NONBLOCK);
	while (ended < CLIENTS) {
		int found = poll(fds, n, 10000);

		CHECK(found > 0);
		for (nfds_t i = n; i-- > 1; )
			if (fds[i].revents && !echo(fds[i].fd)) {
				fds[i] = fds[--n];
				ended++;
			}
		while (fds[0].revents && (fd = accepted(fds[0].fd)) >= 0)
			fds[n++] = (struct pollfd){ fd, POLLIN, 0 };
	}
	return NULL;
}

static uint32_t edges;

static void add(int set, int fd)
{
	struct epoll_event e = { .events = EPOLLIN | edges, .data.fd = fd };

	CHECK(epoll_ctl(set, EPOLL_CTL_ADD, fd, &e) == 0);
}

static void *serve_by_epoll(void *arg)
{
	int listener = (int)(intptr_t)arg, set = epoll_create1(0), ended = 0, fd;

	fcntl(listener, F_SETFL, O_NONBLOCK);
	add(set, listener);
	while (ended < CLIENTS) {
		struct epoll_event found[3];
		int n = epoll_wait(set, found, 3, -1);

		CHECK(n > 0);
		for (int i = 0; i < n; i++)
			if (found[i].data.fd != listener)
				ended += !echo(found[i].data.fd);
			else
				while ((fd = accepted(listener)) >= 0)
					add(set, fd);
	}
	CHECK(close(set) == 0);
	return NULL;
}

static void run(void *(*server)(void *))
{
	int fd = listener_at("0.0.0.0", 7000);
	pthread_t t = started(server, (void *)(intptr_t)fd);

	run_clients();
	CHECK(pthread_join(t, NULL) == 0);
	CHECK(close(fd) == 0);
}

int main(void)
{
	run(serve_by_poll);
	run(serve_by_epoll);
	edges = EPOLLET;
	run(serve_by_epoll);
	puts("poll: passed");
	return 0;
}
