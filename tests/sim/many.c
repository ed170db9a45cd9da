/* SPDX-License-Identifier: MIT */
/* Ten thousand connections, by epoll on both sides, of which each echoes twice. */
#include "check.h"

#include <sys/epoll.h>
#include <sys/resource.h>

enum { PORTS = 7000, TURNS = 2, FOUND = 64 };

static int many;

static void add(int set, int fd, uint32_t events)
{
	struct epoll_event e = { .events = events, .data.fd = fd };

	CHECK(epoll_ctl(set, EPOLL_CTL_ADD, fd, &e) == 0);
}

static void *serve(void *arg)
{
	int listener = (int)(intptr_t)arg, set = epoll_create1(0), ended = 0, fd;
	struct epoll_event found[FOUND];
	char c;

	add(set, listener, EPOLLIN);
	while (ended < many) {
		int n = epoll_wait(set, found, FOUND, -1);

		for (int i = 0; i < n; i++) {
			fd = found[i].data.fd;
			if (fd == listener) {
				fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK);
				CHECK(fd >= 0);
				add(set, fd, EPOLLIN);
			} else if (read(fd, &c, 1) == 1) {
				CHECK(write(fd, &c, 1) == 1);
			} else {
				CHECK(close(fd) == 0);
				ended++;
			}
		}
	}
	return NULL;
}

int main(int argc, char **argv)
{
	struct rlimit limit;
	struct sockaddr_in a = address("10.0.0.1", PORTS);
	struct epoll_event found[FOUND];
	int set, ended = 0;
	pthread_t t;
	char *turns, c;

	many = argc > 1 ? atoi(argv[1]) : 200;
	getrlimit(RLIMIT_NOFILE, &limit);
	limit.rlim_cur = limit.rlim_max;
	setrlimit(RLIMIT_NOFILE, &limit);
	turns = calloc((size_t)many * 2 + 1000, 1);
	t = started(serve, (void *)(intptr_t)listener_at("10.0.0.1", PORTS));
	set = epoll_create1(0);
	for (int i = 0; i < many; i++) {
		int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);

		CHECK(fd >= 0);
		CHECK(connect(fd, (struct sockaddr *)&a, sizeof a) < 0);
		CHECK(errno == EINPROGRESS);
		add(set, fd, EPOLLIN | EPOLLOUT | EPOLLET);
	}
	while (ended < many) {
		int n = epoll_wait(set, found, FOUND, -1);

		for (int i = 0; i < n; i++) {
			int fd = found[i].data.fd;

			if (turns[fd] > 0 && read(fd, &c, 1) != 1)
				continue;
			if (turns[fd]++ < TURNS) {
				CHECK(write(fd, "x", 1) == 1);
				continue;
			}
			turns[fd] = 0;
			CHECK(close(fd) == 0);
			ended++;
		}
	}
	CHECK(pthread_join(t, NULL) == 0);
	printf("many: %d\n", many);
	return 0;
}
