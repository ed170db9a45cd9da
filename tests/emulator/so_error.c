/* SPDX-License-Identifier: MIT */
/*
 * so_error.c: SO_ERROR is a number of this machine. qemu 7.2 gives that of the host, so
 * it is wrong where the numbers differ, as on MIPS.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <sys/socket.h>

int main(void)
{
	struct sockaddr_in to = { .sin_family = AF_INET };
	socklen_t size = sizeof to;
	int taken = socket(AF_INET, SOCK_STREAM, 0);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
	struct pollfd p = { fd, POLLOUT, 0 };
	int error = 0;

	to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	bind(taken, (struct sockaddr *)&to, sizeof to);         /* and no listen() */
	getsockname(taken, (struct sockaddr *)&to, &size);
	connect(fd, (struct sockaddr *)&to, sizeof to);
	poll(&p, 1, 1000);
	size = sizeof error;
	getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size);
	printf("%d, not %d\n", error, ECONNREFUSED);
	return error != ECONNREFUSED;
}
