/* SPDX-License-Identifier: MIT */
/*
 * server.h: arguments, the listening socket and the end, for the servers in C.
 * ../README.md says what a server does.
 */
#ifndef SERVER_H
#define SERVER_H

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdint.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "peer.h"

enum {
	BACKLOG     = 4096,     /* connections not accepted yet */
	BUFFER_SIZE = 16 << 10, /* bytes of a read */
	MOST_FILES  = 1 << 16,
};

__attribute__((noreturn)) static inline void fail_errno(const char *what)
{
	perror(what);
	_Exit(1);
}

/* Checks the arguments: PORT and, for http, DIR. Returns the port. */
static inline uint16_t server_arguments(int argc, char **argv)
{
#ifdef HTTP
	const char names[] = "PORT DIR";
	const int count = 3;
#else
	const char names[] = "PORT";
	const int count = 2;
#endif
	unsigned long port = 0;
	char *end = NULL;

	if (argc == count && *argv[1] >= '0' && *argv[1] <= '9')
		port = strtoul(argv[1], &end, 10);
	if (!end || *end || port < 1 || port > UINT16_MAX)
		usage(argv[0], names);
	return (uint16_t)port;
}

static inline void end_server(int signal_number)
{
	(void)signal_number;
	_exit(0);
}

/*
 * Raises the limit of descriptors, but not to the thousand million of some containers.
 * SIGTERM ends the program. A lost peer is an error, not a signal.
 */
static inline void prepare_process(void)
{
	struct sigaction end = { .sa_handler = end_server };
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit))
		fail_errno("getrlimit");
	limit.rlim_cur = limit.rlim_max < MOST_FILES ? limit.rlim_max : MOST_FILES;
	if (setrlimit(RLIMIT_NOFILE, &limit))
		fail_errno("setrlimit");
	if (sigaction(SIGTERM, &end, NULL) || signal(SIGPIPE, SIG_IGN) == SIG_ERR)
		fail_errno("signals");
}

/* Connections inherit TCP_NODELAY from the listening socket. */
static inline int listen_at(uint16_t port, int flags)
{
	struct sockaddr_in address = {
		.sin_family = AF_INET,
		.sin_port = htons(port),
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK),
	};
	int on = 1;
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | flags, 0);

	if (fd < 0)
		fail_errno("socket");
	if (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on)
	    || setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on))
		fail_errno("setsockopt");
	if (bind(fd, (struct sockaddr *)&address, sizeof address))
		fail_errno("bind");
	if (listen(fd, BACKLOG))
		fail_errno("listen");
	return fd;
}

static inline void print_ready(void)
{
	puts("ready");
	fflush(stdout);
}

/* Copies the rest of count buffers behind `sent' bytes. NULL: no memory. */
__attribute__((noinline, cold, unused))
static char *rest_of(const struct iovec *iov, int count, size_t sent, size_t *length)
{
	char *rest, *end;
	size_t all = 0;

	for (int i = 0; i < count; i++)
		all += iov[i].iov_len;
	*length = all - sent;
	rest = end = malloc(*length);
	for (int i = 0; rest && i < count; i++) {
		size_t skip = sent < iov[i].iov_len ? sent : iov[i].iov_len;

		sent -= skip;
		end = (char *)mempcpy(end, (char *)iov[i].iov_base + skip,
		                      iov[i].iov_len - skip);
	}
	return rest;
}

#endif
