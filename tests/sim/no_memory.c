/* SPDX-License-Identifier: MIT */
/*
 * Calls that make descriptors fail for want of memory: of sockets with ENOBUFS, of others
 * with ENOMEM. What fails has taken no number, and leaves pairs whole.
 */
#include "check.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>

#include "../../sim/sim.h"

enum { TRIES = 50 };

static int failed;

/* Whether the call has made one, or else failed with that error. */
static int made(int rc, int error)
{
	CHECK(rc >= 0 || errno == error);
	failed += rc < 0;
	return rc >= 0;
}

static void try_one(int fd, int error)
{
	if (made(fd, error))
		close(fd);
}

static void try_two(int rc, const int fds[2], int error)
{
	char c = 'x';

	if (!made(rc, error))
		return;
	CHECK(write(fds[1], &c, 1) == 1 && read(fds[0], &c, 1) == 1);
	close(fds[0]);
	close(fds[1]);
}

/* The connection waits until it is accepted. */
static void try_accept(int listener)
{
	int client, fd;

	while ((client = socket(AF_INET, SOCK_STREAM, 0)) < 0)
		CHECK(errno == ENOBUFS);
	CHECK(connect(client, (struct sockaddr *)&(struct sockaddr_in){
		.sin_family = AF_INET, .sin_port = htons(80),
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK) },
		sizeof(struct sockaddr_in)) == 0);
	while (!made(fd = accept(listener, NULL, NULL), ENOBUFS))
		;
	close(client);
	CHECK(read(fd, &(char){ 0 }, 1) == 0);
	close(fd);
}

int main(void)
{
	int listener = listener_at("127.0.0.1", 80), first = dup(0), fds[2];
	int fd;

	close(first);
	sim_faults(&(struct sim_faults){ .f_no_memory = 5 });
	for (int i = 0; i < TRIES; i++) {
		try_one(socket(AF_INET, SOCK_DGRAM, 0), ENOBUFS);
		try_one(epoll_create1(0), ENOMEM);
		try_one(eventfd(0, 0), ENOMEM);
		try_one(timerfd_create(CLOCK_MONOTONIC, 0), ENOMEM);
		try_two(pipe(fds), fds, ENOMEM);
		try_two(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), fds, ENOBUFS);
		try_accept(listener);
	}
	sim_faults(&(struct sim_faults){ .f_no_memory = 1 });
	fd = socket(AF_INET, SOCK_STREAM, 0);   /* the first run of all has no faults */
	CHECK((fd < 0) == (failed > 0));
	close(fd);
	CHECK(dup(0) == first);
	puts("no_memory: passed");
	return 0;
}
