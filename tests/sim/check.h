/* SPDX-License-Identifier: MIT */
/* check.h: what the programs of tests/sim/ share. */
#ifndef TESTS_SIM_CHECK_H
#define TESTS_SIM_CHECK_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define CHECK(what) do {							\
	if (!(what)) {								\
		fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #what,	\
			strerror(errno));					\
		exit(1);							\
	}									\
} while (0)

static inline struct sockaddr_in address(const char *ip, int port)
{
	struct sockaddr_in a = { .sin_family = AF_INET,
				 .sin_port = htons((in_port_t)port) };

	CHECK(inet_pton(AF_INET, ip, &a.sin_addr) == 1);
	return a;
}

static inline int listener_at(const char *ip, int port)
{
	struct sockaddr_in a = address(ip, port);
	int fd = socket(AF_INET, SOCK_STREAM, 0);

	CHECK(fd >= 0);
	CHECK(bind(fd, (struct sockaddr *)&a, sizeof a) == 0);
	CHECK(listen(fd, 128) == 0);
	return fd;
}

static inline int connected_to(const char *ip, int port)
{
	struct sockaddr_in a = address(ip, port);
	int fd = socket(AF_INET, SOCK_STREAM, 0);

	CHECK(fd >= 0);
	CHECK(connect(fd, (struct sockaddr *)&a, sizeof a) == 0);
	return fd;
}

static inline void read_full(int fd, char *buffer, size_t size)
{
	for (size_t got = 0; got < size; ) {
		ssize_t n = read(fd, buffer + got, size - got);

		CHECK(n > 0);
		got += (size_t)n;
	}
}

static inline pthread_t started(void *(*func)(void *), void *arg)
{
	pthread_t t;

	CHECK(pthread_create(&t, NULL, func, arg) == 0);
	return t;
}

/* A client of an echo server: several messages, each as it was sent. */
static inline void *be_client(void *number)
{
	int n = (int)(intptr_t)number, fd = connected_to("10.0.0.1", 7000);
	char out[3000], in[3000];

	for (int i = 0; i < 5; i++) {
		size_t size = (size_t)(1 + n * 131 + i * 7) % sizeof out;

		memset(out, 'a' + (n + i) % 26, size);
		CHECK(write(fd, out, size) == (ssize_t)size);
		read_full(fd, in, size);
		CHECK(memcmp(in, out, size) == 0);
	}
	CHECK(close(fd) == 0);
	return NULL;
}

enum { CLIENTS = 20 };

static inline void run_clients(void)
{
	pthread_t t[CLIENTS];

	for (int i = 0; i < CLIENTS; i++)
		t[i] = started(be_client, (void *)(intptr_t)i);
	for (int i = 0; i < CLIENTS; i++)
		CHECK(pthread_join(t[i], NULL) == 0);
}

#endif /* TESTS_SIM_CHECK_H */
