/* SPDX-License-Identifier: MIT */
/*
 * unet_open.c: addresses, and calls that make descriptors: to listen, accept, connect,
 * and get signals. unet__enter() enters the new descriptors in the table.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE             /* accept4() */
#endif
#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/un.h>

#include "../base/check.h"
#include "net.h"

#ifndef ENONET
#define ENONET EHOSTUNREACH             /* only Linux has this error */
#endif

/* Whenever so many connections have failed, unet_accept() pauses. */
enum { PASSING = 16 };

/* What unet__pause() waits for, in reports. */
static const struct uwait_kind
	exhausted  = NET_PAUSE(" to accept, for a free descriptor or memory"),
	failing    = NET_PAUSE(" to accept, as connections fail"),
	queue_full = NET_PAUSE(" to connect, for a place in the backlog");

/* Addresses. */

static int parse_port(const char *text, in_port_t *port)
{
	char *end;
	unsigned long n = strtoul(text, &end, 10);

	if (*text < '0' || *text > '9' || *end || n > 65535)
		return -EINVAL;
	*port = htons((in_port_t)n);
	return 0;
}

static int unix_addr(struct unet_addr *a, const char *text)
{
	struct sockaddr_un *un = (struct sockaddr_un *)(void *)&a->ad_sockaddr;
	size_t size = strlen(text);

	if (size >= sizeof un->sun_path)
		return -ENAMETOOLONG;
	un->sun_family = AF_UNIX;
	memcpy(un->sun_path, text, size);
	if (text[0] == '@')
		un->sun_path[0] = '\0';
	else
		size++;
	a->ad_size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + size);
	return 0;
}

int unet_addr(const char *text, struct unet_addr *a)
{
	struct sockaddr_in *in = (struct sockaddr_in *)(void *)&a->ad_sockaddr;
	struct sockaddr_in6 *in6 = (struct sockaddr_in6 *)(void *)&a->ad_sockaddr;
	const char *colon = strrchr(text, ':');
	char host[INET6_ADDRSTRLEN + 2];
	in_port_t port;
	size_t size;

	check(a, CHECK_BUFFER, __func__);
	memset(a, 0, sizeof *a);
	if (text[0] == '/' || (text[0] == '@' && text[1]))
		return unix_addr(a, text);
	if (!colon || (size_t)(colon - text) >= sizeof host
	    || parse_port(colon + 1, &port))
		return -EINVAL;
	size = (size_t)(colon - text);
	memcpy(host, text, size);
	host[size] = '\0';
	if (inet_pton(AF_INET, host, &in->sin_addr) == 1) {
		in->sin_family = AF_INET;
		in->sin_port = port;
		a->ad_size = sizeof *in;
		return 0;
	}
	if (size == 0 || strcmp(host, "*") == 0)
		in6->sin6_addr = in6addr_any;
	else if (size < 2 || host[0] != '[' || host[size - 1] != ']')
		return -EINVAL;
	else if (host[size - 1] = '\0',
		 inet_pton(AF_INET6, host + 1, &in6->sin6_addr) != 1)
		return -EINVAL;
	in6->sin6_family = AF_INET6;
	in6->sin6_port = port;
	a->ad_size = sizeof *in6;
	return 0;
}

char *unet_text(const struct unet_addr *a, char *text)
{
	const struct sockaddr_in *in = (const struct sockaddr_in *)&a->ad_sockaddr;
	const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)&a->ad_sockaddr;
	const struct sockaddr_un *un = (const struct sockaddr_un *)&a->ad_sockaddr;
	char host[INET6_ADDRSTRLEN];
	int size;

	check(a, CHECK_BUFFER, __func__);
	check(text, CHECK_BUFFER, __func__);
	switch (a->ad_sockaddr.ss_family) {
	case AF_INET:
		inet_ntop(AF_INET, &in->sin_addr, host, sizeof host);
		snprintf(text, UNET_TEXT_MAX, "%s:%u", host, ntohs(in->sin_port));
		break;
	case AF_INET6:
		inet_ntop(AF_INET6, &in6->sin6_addr, host, sizeof host);
		snprintf(text, UNET_TEXT_MAX, "[%s]:%u", host, ntohs(in6->sin6_port));
		break;
	case AF_UNIX:
		size = (int)(a->ad_size - offsetof(struct sockaddr_un, sun_path));
		if (size > 0 && !un->sun_path[0])
			snprintf(text, UNET_TEXT_MAX, "@%.*s", size - 1,
				 un->sun_path + 1);
		else
			snprintf(text, UNET_TEXT_MAX, "%.*s", size < 0 ? 0 : size,
				 un->sun_path);
		break;
	default:
		snprintf(text, UNET_TEXT_MAX, "?");
	}
	return text;
}

/* Descriptors. */

static ssize_t try_accept(const struct descriptor *d, const struct op *o)
{
	struct unet_addr *a = o->o_from;

	if (a)
		a->ad_size = sizeof a->ad_sockaddr;
	return result(accept4(d->d_fd, a ? (struct sockaddr *)&a->ad_sockaddr : NULL,
			      a ? &a->ad_size : NULL, SOCK_NONBLOCK | SOCK_CLOEXEC));
}

static int connect_once(int fd, const struct unet_addr *a)
{
	const struct sockaddr *to = (const struct sockaddr *)&a->ad_sockaddr;

	return connect(fd, to, a->ad_size) ? errno : 0;
}

/* Begins a connection. Returns 0 if it is made, 1 if the attempt goes on, or an error. */
static ssize_t try_begin(const struct descriptor *d, const struct op *o)
{
	int rc = connect_once(d->d_fd, o->o_to);

	return rc == EINPROGRESS || rc == EALREADY || rc == EINTR ? 1 : failure(rc);
}

/* Gets the result of a connection. On Linux a second connect() returns the result of the
   first, and later calls return EISCONN. */
static ssize_t try_connect(const struct descriptor *d, const struct op *o)
{
	int rc = connect_once(d->d_fd, o->o_to);

	if (rc == EISCONN)
		return 0;
	return rc == EINPROGRESS || rc == EALREADY ? -EAGAIN : failure(rc);
}

/* Closes the socket after a system call has failed. Returns the error of that call. */
static int drop_socket(int fd)
{
	int rc = -errno;

	close_deferred(fd);
	return rc;
}

static int open_socket(const struct unet_addr *a, unsigned flags)
{
	int family = a->ad_sockaddr.ss_family, on = 1, off = 0;
	int fd = socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

	if (fd < 0)
		return -errno;
	if (family == AF_INET6)
		setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY,
			   flags & UNET_V6ONLY ? &on : &off, sizeof on);
	if (family != AF_UNIX)
		setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
	if (flags & UNET_REUSEPORT
	    && setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &on, sizeof on))
		return drop_socket(fd);
	return fd;
}

/* If `a' is the address in6addr_any, sets *any to INADDR_ANY with the same port, and
   returns `any'. Otherwise returns NULL. */
static const struct unet_addr *any_addr(const struct unet_addr *a, struct unet_addr *any)
{
	const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)&a->ad_sockaddr;
	struct sockaddr_in *in = (struct sockaddr_in *)(void *)&any->ad_sockaddr;

	if (in6->sin6_family != AF_INET6
	    || memcmp(&in6->sin6_addr, &in6addr_any, sizeof in6addr_any))
		return NULL;
	memset(any, 0, sizeof *any);
	in->sin_family = AF_INET;
	in->sin_port = in6->sin6_port;
	any->ad_size = sizeof *in;
	return any;
}

int unet_listen(const struct unet_addr *a, int backlog, unsigned flags)
{
	struct unet_addr any;
	int fd, on = 1;

	check(a, CHECK_BUFFER, __func__);
	fd = open_socket(a, flags);

	if (fd == -EAFNOSUPPORT && !(flags & UNET_V6ONLY) && any_addr(a, &any)) {
		a = &any;
		fd = open_socket(a, flags);
	}
	if (fd < 0)
		return fd;
	if (a->ad_sockaddr.ss_family != AF_UNIX)
		setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
	if (bind(fd, (const struct sockaddr *)&a->ad_sockaddr, a->ad_size)
	    || listen(fd, backlog > 0 ? backlog : SOMAXCONN))
		return drop_socket(fd);
	return unet__enter(fd, unet__kind_of(fd));
}

/* Returns whether the error concerns one connection only, or passes by itself. */
static bool is_passing(int rc)
{
	return rc == -ECONNABORTED || rc == -EPROTO || rc == -ENETDOWN
		|| rc == -ENOPROTOOPT
		|| rc == -EHOSTDOWN || rc == -ENONET || rc == -EHOSTUNREACH
		|| rc == -ENETUNREACH || rc == -EPERM;
}

static bool is_exhausted(int rc)
{
	return rc == -EMFILE || rc == -ENFILE || rc == -ENOBUFS || rc == -ENOMEM;
}

int unet_accept(int fd, struct unet_addr *peer, int64_t deadline)
{
	const struct op o = { .o_from = peer, .o_shut = -EINVAL };
	struct descriptor *d;
	unsigned passed = 0;
	int made, rc = net_find(fd, &d);
	uint32_t generation;
	enum kind kind;

	check(peer, CHECK_BUFFER, __func__);
	if (rc)
		return rc;
	generation = generation_of(d);
	kind = get_kind(d);  /* after the call the number may be reused */
	do {
		made = (int)net_perform(try_accept, d, NET_IN, &o, deadline, generation);
		if (is_exhausted(made) || (is_passing(made) && ++passed % PASSING == 0))
			rc = unet__pause(is_exhausted(made) ? &exhausted : &failing, fd,
					 deadline);
	} while (rc == 0 && (is_exhausted(made) || is_passing(made)));
	if (rc)
		return rc;
	return made < 0 ? made : unet__enter(made, kind);
}

/* Connects. While the backlog of a UNIX socket is full, pauses and tries again, since no
   event tells when the backlog has a place. */
__attribute__((always_inline))
static inline int connect_at(int fd, const struct unet_addr *a, int64_t deadline)
{
	const struct op o = { .o_to = a };
	struct descriptor *d;
	int rc = net_find(fd, &d);
	uint32_t generation;

	if (rc == 0)
		rc = budget_give_way(deadline);
	if (rc)
		return rc;
	generation = generation_of(d);
	while ((rc = (int)net_perform(try_begin, d, NET_OUT, &o, NET_COUNTED, generation))
	       == -ETIMEDOUT) {
		rc = unet__pause(&queue_full, fd, deadline);
		if (rc)
			return rc;
	}
	if (rc > 0)
		rc = (int)net_perform(try_connect, d, NET_OUT, &o, deadline, generation);
	return rc;
}

int unet_connect(const struct unet_addr *a, int64_t deadline)
{
	int fd, rc;

	check(a, CHECK_BUFFER, __func__);
	fd = open_socket(a, 0);
	if (fd >= 0)
		fd = unet__enter(fd, unet__kind_of(fd));
	if (fd < 0)
		return fd;
	rc = connect_at(fd, a, deadline);
	if (rc == 0)
		return fd;
	unet_close(fd);
	return rc;
}

int unet__connect(int fd, const struct unet_addr *a, int64_t deadline)
{
	return connect_at(fd, a, deadline);
}

/* Signals. */

int unet_signals(const sigset_t *set)
{
	int fd;

	check(set, CHECK_BUFFER, __func__);
	fd = signalfd(-1, set, SFD_NONBLOCK | SFD_CLOEXEC);
	return fd < 0 ? -errno : unet__enter(fd, NET_OTHER);
}

int unet_signal(int fd, int64_t deadline)
{
	struct signalfd_siginfo info;
	ssize_t n = unet_read(fd, &info, sizeof info, deadline);

	if (n < 0)
		return (int)n;
	return n == sizeof info ? (int)info.ssi_signo : -EINVAL;
}
