/* SPDX-License-Identifier: MIT */
/*
 * uposix_net.c: accept, connect, and names of hosts. Look-ups are in the pool of native
 * threads, with all that they read and write on the heap.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#undef _FORTIFY_SOURCE
#include "uposix_io.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct host;

static int  accept_in_turn(int fd, __SOCKADDR_ARG peer, socklen_t *size, int flags,
			   struct uposix_fd *f, uint32_t age);
static struct usync_mutex *accept_mutex(struct uposix_fd *f);
static void unlock(struct usync_mutex **m);
static void accepted(int new, int flags, const struct uposix_fd *listener, bool ours);
static bool is_number(const char *host, const char *service);
static void look_up(void *lookup);
static void look_back(void *lookup);
static void find_host(void *lookup);
static struct hostent *offload_host(struct host *h);

/*
 * accept. A thread waits until the listener can be read, and tries then, so that it sees
 * each error: EMFILE, say. Others that accept from it wait for a mutex meanwhile. If it
 * was closed then, they get EBADF.
 */

int uposix_accept4(int fd, __SOCKADDR_ARG peer, socklen_t *size, int flags)
{
	struct uposix_fd *f;
	int way = uposix__way(fd, POLLIN, &f), new;

	if (way == WAY_FAILED)
		return -1;
	if (way == WAY_UNET) {
		uint32_t age = __atomic_load_n(&f->f_age, __ATOMIC_ACQUIRE);

		new = accept4(fd, peer, size, flags | SOCK_NONBLOCK);
		if (new < 0 && errno == EAGAIN)
			new = accept_in_turn(fd, peer, size, flags | SOCK_NONBLOCK, f,
					     age);
	} else {
		do
			new = accept4(fd, peer, size, flags);
		while (new < 0 && uposix__repeat(fd, POLLIN));
	}
	if (new >= 0)
		accepted(new, flags, uposix__known(fd), way == WAY_UNET);
	return new;
}

static int accept_in_turn(int fd, __SOCKADDR_ARG peer, socklen_t *size, int flags,
			  struct uposix_fd *f, uint32_t age)
{
	CLEANUP(unlock) struct usync_mutex *locked = NULL;
	struct usync_mutex *m = accept_mutex(f);
	int64_t deadline = uposix__until(f->f_receive);
	int new = -1, rc = -ENOMEM;

	if (m)
		UPOSIX_WAIT(rc, usync_mutex_lock(m, deadline));
	if (rc)
		return (int)uposix__answer(rc);
	locked = m;
	do {
		if (__atomic_load_n(&f->f_age, __ATOMIC_ACQUIRE) == age)
			UPOSIX_WAIT(rc, unet_wait_readable(fd, deadline));
		else
			rc = -EBADF;            /* the number may be another one's now */
		if (rc == 0)
			new = accept4(fd, peer, size, flags);
	} while (rc == 0 && new < 0 && errno == EAGAIN);
	return rc ? (int)uposix__answer(rc) : new;
}

static void unlock(struct usync_mutex **m)
{
	int error = errno;

	if (*m)
		usync_mutex_unlock(*m);
	errno = error;
}

/* It stays with the number. */
static struct usync_mutex *accept_mutex(struct uposix_fd *f)
{
	struct usync_mutex *m, *now = __atomic_load_n(&f->f_accept, __ATOMIC_ACQUIRE);

	if (now)
		return now;
	m = calloc(1, sizeof *m);
	if (m && !__atomic_compare_exchange_n(&f->f_accept, &now, m, 0, __ATOMIC_ACQ_REL,
					      __ATOMIC_ACQUIRE)) {
		free(m);
		m = now;
	}
	return m;
}

/* It has the time-outs of its listener. */
static void accepted(int new, int flags, const struct uposix_fd *listener, bool ours)
{
	struct uposix_fd *f;
	int kind = listener ? listener->f_kind : UNKNOWN;

	uposix__made(new, kind == STREAM || kind == PACKET ? kind : UNKNOWN,
		     flags & SOCK_NONBLOCK);
	f = uposix__known(new);
	if (!f)
		return;
	if (ours && !(flags & SOCK_NONBLOCK))
		f->f_flags = FD_OURS;
	f->f_receive = listener->f_receive;
	f->f_send = listener->f_send;
}

int uposix_accept(int fd, __SOCKADDR_ARG peer, socklen_t *size)
{
	return uposix_accept4(fd, peer, size, 0);
}

/* connect. */

/* Linux: after the time-out of SO_SNDTIMEO it goes on, and EINPROGRESS says so. */
int uposix_connect(int fd, __CONST_SOCKADDR_ARG to, socklen_t size)
{
	struct unet_addr a = { .a_size = size };
	struct uposix_fd *f;
	int way = uposix__way(fd, POLLOUT, &f), rc;
	int64_t deadline;

	if (way == WAY_FAILED)
		return -1;
	if (way == WAY_PLAIN && (rc = connect(fd, to, size)) != -1)
		return rc;
	if (way == WAY_PLAIN)
		return uposix__connecting(fd);
	if (size > sizeof a.a_sockaddr)
		return connect(fd, to, size);
	memcpy(&a.a_sockaddr, to.__sockaddr__, size);
	deadline = uposix__until(f->f_send);
	UPOSIX_WAIT(rc, unet_connect_fd(fd, &a, deadline));
	return (int)uposix__answer(rc == -ETIMEDOUT ? -EINPROGRESS : rc);
}

/* Of a native thread: O_NONBLOCK may be ours. Else it is as it is. */
int uposix__connecting(int fd)
{
	int error = errno, rc;
	socklen_t size = sizeof rc;

	if (error != EINPROGRESS)
		return -1;
	errno = EAGAIN;
	if (!uposix__repeat(fd, POLLOUT)) {
		if (errno == EAGAIN)
			errno = error;
		return -1;
	}
	if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &rc, &size))
		return -1;
	return (int)uposix__answer(-rc);
}

/* Names. */

struct lookup {
	char            *l_host;
	char            *l_service;
	struct addrinfo  l_hints;
	bool             l_hinted;
	struct addrinfo *l_found;
	int              l_rc;
	int              l_errno;
};

int uposix_getaddrinfo(const char *host, const char *service,
		       const struct addrinfo *hints, struct addrinfo **found)
{
	struct lookup *l;
	int rc;

	if (!uposix__in_thread() || is_number(host, service))
		return getaddrinfo(host, service, hints, found);
	uposix__point();
	l = calloc(1, sizeof *l);
	if (!l)
		return EAI_MEMORY;
	l->l_host = host ? strdup(host) : NULL;
	l->l_service = service ? strdup(service) : NULL;
	l->l_hinted = hints;
	if (hints)
		l->l_hints = *hints;
	rc = uposix__offload(look_up, &l, sizeof l);
	if (rc == 0) {
		rc = l->l_rc;
		errno = l->l_errno;
		*found = l->l_found;
	} else {
		errno = -rc;
		rc = EAI_SYSTEM;
	}
	free(l->l_host);
	free(l->l_service);
	free(l);
	return rc;
}

/* No look-up is needed. */
static bool is_number(const char *host, const char *service)
{
	unsigned char address[sizeof(struct in6_addr)];

	if (service && service[strspn(service, "0123456789")])
		return false;
	return !host || inet_pton(AF_INET, host, address) == 1
		|| inet_pton(AF_INET6, host, address) == 1;
}

static void look_up(void *lookup)
{
	struct lookup *l = *(struct lookup **)lookup;

	l->l_rc = getaddrinfo(l->l_host, l->l_service, l->l_hinted ? &l->l_hints : NULL,
			      &l->l_found);
	l->l_errno = errno;
}

struct back {
	struct unet_addr b_address;
	char             b_host[NI_MAXHOST];
	char             b_service[NI_MAXSERV];
	socklen_t        b_sizes[2];
	int              b_flags;
	int              b_rc;
	int              b_errno;
};

int uposix_getnameinfo(const struct sockaddr *a, socklen_t size, char *host,
		       socklen_t host_size, char *service, socklen_t service_size,
		       int flags)
{
	struct back *b;
	int rc;

	if (!uposix__in_thread() || size > sizeof b->b_address.a_sockaddr
	    || ((flags & NI_NUMERICHOST || !host) && (flags & NI_NUMERICSERV || !service))
	    || !(b = calloc(1, sizeof *b)))
		return getnameinfo(a, size, host, host_size, service, service_size,
				   flags);
	memcpy(&b->b_address.a_sockaddr, a, size);
	b->b_address.a_size = size;
	b->b_sizes[0] = !host ? 0 : host_size < NI_MAXHOST ? host_size : NI_MAXHOST;
	b->b_sizes[1] = !service ? 0
		: service_size < NI_MAXSERV ? service_size : NI_MAXSERV;
	b->b_flags = flags;
	rc = uposix__offload(look_back, &b, sizeof b);
	errno = rc ? -rc : b->b_errno;
	rc = rc ? EAI_SYSTEM : b->b_rc;
	if (rc == 0 && b->b_sizes[0] > 0)
		memcpy(host, b->b_host, strlen(b->b_host) + 1);
	if (rc == 0 && b->b_sizes[1] > 0)
		memcpy(service, b->b_service, strlen(b->b_service) + 1);
	free(b);
	return rc;
}

static void look_back(void *lookup)
{
	struct back *b = *(struct back **)lookup;

	b->b_rc = getnameinfo((struct sockaddr *)&b->b_address.a_sockaddr,
			      b->b_address.a_size,
			      b->b_sizes[0] ? b->b_host : NULL, b->b_sizes[0],
			      b->b_sizes[1] ? b->b_service : NULL, b->b_sizes[1],
			      b->b_flags);
	b->b_errno = errno;
}

/*
 * gethostbyname() and its like return libc's static buffer, from wherever they are
 * called. h_errno is a native thread's.
 */
struct host {
	char           *h_name;
	void           *h_address;
	socklen_t       h_size;
	int             h_family;
	struct hostent *h_found;
	int             h_error;
};

struct hostent *uposix_gethostbyname2(const char *name, int family)
{
	struct host *h = uposix__in_thread() ? calloc(1, sizeof *h) : NULL;

	if (!h)
		return gethostbyname2(name, family);
	h->h_name = strdup(name);
	h->h_family = family;
	return offload_host(h);
}

struct hostent *uposix_gethostbyname(const char *name)
{
	return uposix__in_thread() ? uposix_gethostbyname2(name, AF_INET)
				   : gethostbyname(name);
}

struct hostent *uposix_gethostbyaddr(const void *address, socklen_t size, int family)
{
	struct host *h = uposix__in_thread() ? calloc(1, sizeof *h) : NULL;

	if (!h)
		return gethostbyaddr(address, size, family);
	h->h_address = malloc(size);
	if (h->h_address)
		memcpy(h->h_address, address, size);
	h->h_size = size;
	h->h_family = family;
	return offload_host(h);
}

static struct hostent *offload_host(struct host *h)
{
	int rc = h->h_name || h->h_address ? uposix__offload(find_host, &h, sizeof h)
		: -ENOMEM;
	struct hostent *found = rc ? NULL : h->h_found;

	if (rc)
		errno = -rc;
	h_errno = rc ? NETDB_INTERNAL : h->h_error;
	free(h->h_name);
	free(h->h_address);
	free(h);
	return found;
}

static void find_host(void *host)
{
	struct host *h = *(struct host **)host;

	h->h_found = h->h_name ? gethostbyname2(h->h_name, h->h_family)
		: gethostbyaddr(h->h_address, h->h_size, h->h_family);
	h->h_error = h_errno;
}
