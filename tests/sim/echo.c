/* SPDX-License-Identifier: MIT */
/* An echo server with a thread for each connection, and blocking sockets. */
#include "check.h"

static void *echo(void *arg)
{
	int fd = (int)(intptr_t)arg;
	char buffer[512];
	ssize_t n;

	while ((n = read(fd, buffer, sizeof buffer)) > 0)
		CHECK(write(fd, buffer, (size_t)n) == n);
	CHECK(n == 0);
	CHECK(close(fd) == 0);
	return NULL;
}

static void *serve(void *arg)
{
	int listener = (int)(intptr_t)arg;
	pthread_t t[CLIENTS];

	for (int i = 0; i < CLIENTS; i++) {
		struct sockaddr_in peer, own;
		socklen_t size = sizeof peer;
		int fd = accept(listener, (struct sockaddr *)&peer, &size);

		CHECK(fd >= 0 && size == sizeof peer && ntohs(peer.sin_port) >= 32768);
		CHECK(getsockname(fd, (struct sockaddr *)&own, &size) == 0);
		CHECK(own.sin_port == htons(7000));
		CHECK(own.sin_addr.s_addr == inet_addr("10.0.0.1"));
		t[i] = started(echo, (void *)(intptr_t)fd);
	}
	for (int i = 0; i < CLIENTS; i++)
		CHECK(pthread_join(t[i], NULL) == 0);
	return NULL;
}

int main(void)
{
	int fd = listener_at("0.0.0.0", 7000);
	pthread_t server = started(serve, (void *)(intptr_t)fd);

	run_clients();
	CHECK(pthread_join(server, NULL) == 0);
	puts("echo: passed");
	return 0;
}
