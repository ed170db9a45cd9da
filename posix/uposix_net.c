/* SPDX-License-Identifier: MIT */
/*
 * uposix_net.c: accept, connect, and names of hosts. The pool of native threads looks up
 * names. All memory that the pool reads and writes is on the heap.
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

static void unlock(struct usync_mutex **m)
{
	int error = errno;

	if (*m)
		usync_mutex_unlock(*m);
	errno = error;
}

/* Returns the mutex of a listener. The mutex is never freed. */
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

static int accept_in_turn(int fd, __SOCKADDR_ARG peer, socklen_t *size, int flags,
			  struct uposix_fd *f, uint32_t age)
{
	CLEANUP(unlock) struct usync_mutex *locked = NULL;
	struct usync_mutex *m = accept_mutex(f);
	int64_t deadline = uposix__until(f->f_receive);
	bool restarts = deadline == USCHED_NEVER;
	int new = -1, rc = -ENOMEM;

	if (m)
		UPOSIX_WAIT(rc, restarts, usync_mutex_lock(m, deadline));
	if (rc)
		return (int)uposix__answer(rc);
	locked = m;
	do {
		if (__atomic_load_n(&f->f_age, __ATOMIC_ACQUIRE) == age)
			UPOSIX_WAIT(rc, restarts, unet_wait(fd, POLLIN, deadline));
		else
			rc = -EBADF;            /* closed meanwhile */
		if (rc == 0)
			new = accept4(fd, peer, size, flags);
		if (rc == 0 && new < 0 && errno == EAGAIN && unet__is_shut(fd))
			rc = -EINVAL;           /* what accept(2) returns then */
	} while (rc == 0 && new < 0 && errno == EAGAIN);
	return rc ? (int)uposix__answer(rc) : new;
}

/* Gives a new connection the time-outs of its listener. */
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
	f->f_least = listener->f_least;
}

/*
 * accept. A thread waits until the listener is readable, and then calls accept(2), which
 * reports errors such as EMFILE. Only one thread waits for the listener; all other
 * threads wait for its mutex. If the listener is closed meanwhile, their result is EBADF.
 */

int uposix_accept4(int fd, __SOCKADDR_ARG peer, socklen_t *size, int flags)
{
	struct uposix_fd *f;
	int way = uposix__way(fd, POLLIN, &f), new;
	ssize_t n;

	if (way == WAY_FAILED)
		return -1;
	if (way == WAY_UNET) {
		uint32_t age = __atomic_load_n(&f->f_age, __ATOMIC_ACQUIRE);

		uposix__pace();
		new = accept4(fd, peer, size, flags | SOCK_NONBLOCK);
		if (new < 0 && errno == EAGAIN)
			new = accept_in_turn(fd, peer, size, flags | SOCK_NONBLOCK, f,
					     age);
	} else {
		do
			new = accept4(fd, peer, size, flags);
		while (new < 0 && uposix__repeat(&n, fd, POLLIN));
	}
	if (new >= 0)
		accepted(new, flags, uposix__known(fd), way == WAY_UNET);
	return new;
}

int uposix_accept(int fd, __SOCKADDR_ARG peer, socklen_t *size)
{
	return uposix_accept4(fd, peer, size, 0);
}

/* connect. */

/*
 * Waits for the end of a native thread's connect(), which returned EINPROGRESS only
 * because this library has set O_NONBLOCK.
 */
static int connecting(int fd)
{
	int error = errno, rc;
	socklen_t size = sizeof rc;

	if (error != EINPROGRESS)
		return -1;
	errno = EAGAIN;
	if (!uposix__repeat(NULL, fd, POLLOUT)) {
		if (errno == EAGAIN)
			errno = error;
		return -1;
	}
	if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &rc, &size))
		return -1;
	return (int)uposix__answer(-rc);
}

/*
 * After the time-out of SO_SNDTIMEO the result is EINPROGRESS, and the connection is
 * still being made, as on Linux.
 */
int uposix_connect(int fd, __CONST_SOCKADDR_ARG to, socklen_t size)
{
	struct unet_addr a = { .ad_size = size };
	struct uposix_fd *f;
	int way = uposix__way(fd, POLLOUT, &f), rc;
	int64_t deadline;

	if (way == WAY_FAILED)
		return -1;
	if (way == WAY_PLAIN && (rc = connect(fd, to, size)) != -1)
		return rc;
	if (way == WAY_PLAIN)
		return connecting(fd);
	if (size > sizeof a.ad_sockaddr)
		return connect(fd, to, size);
	memcpy(&a.ad_sockaddr, to.__sockaddr__, size);
	deadline = uposix__until(f->f_send);
	UPOSIX_WAIT(rc, deadline == USCHED_NEVER, unet__connect(fd, &a, deadline));
	return (int)uposix__answer(rc == -ETIMEDOUT ? -EINPROGRESS : rc);
}

/* Names. */

struct lookup {
	struct uposix_job l_job;
	char             *l_host;
	char             *l_service;
	struct addrinfo   l_hints;
	bool              l_hinted;
	struct addrinfo  *l_found;
};

/* Returns true if host and service are numeric, so that libc's call does not wait. */
static bool is_number(const char *host, const char *service)
{
	unsigned char address[sizeof(struct in6_addr)];

	if (service && service[strspn(service, "0123456789")])
		return false;
	return !host || inet_pton(AF_INET, host, address) == 1
		|| inet_pton(AF_INET6, host, address) == 1;
}

static long look_up(void *lookup)
{
	struct lookup *l = lookup;

	return getaddrinfo(l->l_host, l->l_service, l->l_hinted ? &l->l_hints : NULL,
			   &l->l_found);
}

/* Returns the result of a look-up that the pool could not make. */
static int no_pool(int rc)
{
	return rc == -ENOMEM ? EAI_MEMORY : EAI_SYSTEM;
}

int uposix_getaddrinfo(const char *host, const char *service,
		       const struct addrinfo *hints, struct addrinfo **found)
{
	struct lookup l = { .l_job.j_call = look_up, .l_hinted = hints };
	int rc;

	if (!uposix__in_thread() || is_number(host, service))
		return uposix__pace(), getaddrinfo(host, service, hints, found);
	uposix__point();
	l.l_host = host ? strdup(host) : NULL;
	l.l_service = service ? strdup(service) : NULL;
	if (hints)
		l.l_hints = *hints;
	rc = uposix__offload(&l.l_job, sizeof l);
	if (rc == 0)
		*found = l.l_found;
	free(l.l_host);
	free(l.l_service);
	return rc ? no_pool(rc) : (int)l.l_job.j_result;
}

struct back {
	struct uposix_job b_job;
	struct unet_addr b_address;
	char             b_host[NI_MAXHOST];
	char             b_service[NI_MAXSERV];
	socklen_t        b_sizes[2];
	int              b_flags;
};

static long look_back(void *lookup)
{
	struct back *b = lookup;

	return getnameinfo((struct sockaddr *)&b->b_address.ad_sockaddr,
			   b->b_address.ad_size,
			   b->b_sizes[0] ? b->b_host : NULL, b->b_sizes[0],
			   b->b_sizes[1] ? b->b_service : NULL, b->b_sizes[1],
			   b->b_flags);
}

int uposix_getnameinfo(const struct sockaddr *a, socklen_t size, char *host,
		       socklen_t host_size, char *service, socklen_t service_size,
		       int flags)
{
	struct back *b;
	int rc;

	if (!uposix__in_thread() || size > sizeof b->b_address.ad_sockaddr
	    || ((flags & NI_NUMERICHOST || !host) && (flags & NI_NUMERICSERV || !service))
	    || !(b = calloc(1, sizeof *b)))
		return uposix__pace(), getnameinfo(a, size, host, host_size, service,
						   service_size, flags);
	memcpy(&b->b_address.ad_sockaddr, a, size);
	b->b_address.ad_size = size;
	b->b_sizes[0] = !host ? 0 : host_size < NI_MAXHOST ? host_size : NI_MAXHOST;
	b->b_sizes[1] = !service ? 0
		: service_size < NI_MAXSERV ? service_size : NI_MAXSERV;
	b->b_flags = flags;
	b->b_job.j_call = look_back;
	rc = uposix__offload(&b->b_job, sizeof *b);
	rc = rc ? no_pool(rc) : (int)b->b_job.j_result;
	if (rc == 0 && b->b_sizes[0] > 0)
		memcpy(host, b->b_host, strlen(b->b_host) + 1);
	if (rc == 0 && b->b_sizes[1] > 0)
		memcpy(service, b->b_service, strlen(b->b_service) + 1);
	free(b);
	return rc;
}

int res_search(const char *name, int space, int type, unsigned char *answer, int size);

/*
 * gethostbyname() and its like return a static buffer of libc, which is the same for all
 * native threads. h_errno belongs to a native thread, so the pool stores the value in
 * h_error.
 */
struct host {
	struct uposix_job h_job;
	char             *h_name;
	void             *h_address;
	socklen_t         h_size;
	int               h_family;
	struct hostent   *h_found;
	int               h_error;
};

static long find_host(void *host)
{
	struct host *h = host;

	h->h_found = h->h_name ? gethostbyname2(h->h_name, h->h_family)
		: gethostbyaddr(h->h_address, h->h_size, h->h_family);
	h->h_error = h_errno;
	return 0;
}

static struct hostent *offload_host(struct host *h)
{
	h->h_job.j_call = find_host;
	h->h_error = NETDB_INTERNAL;
	if (h->h_name || h->h_address)
		uposix__offload(&h->h_job, sizeof *h);
	h_errno = h->h_error;
	free(h->h_name);
	free(h->h_address);
	return h->h_found;
}

struct hostent *uposix_gethostbyname2(const char *name, int family)
{
	struct host h = { .h_family = family };

	if (!uposix__in_thread())
		return gethostbyname2(name, family);
	h.h_name = strdup(name);
	return offload_host(&h);
}

struct hostent *uposix_gethostbyname(const char *name)
{
	return uposix__in_thread() ? uposix_gethostbyname2(name, AF_INET)
				   : gethostbyname(name);
}

struct hostent *uposix_gethostbyaddr(const void *address, socklen_t size, int family)
{
	struct host h = { .h_size = size, .h_family = family };

	if (!uposix__in_thread())
		return gethostbyaddr(address, size, family);
	h.h_address = malloc(size);
	if (h.h_address)
		memcpy(h.h_address, address, size);
	return offload_host(&h);
}

/*
 * gethostbyname_r() and its like. The pool fills a buffer on the heap with the alignment
 * of the caller's buffer. Afterwards pointers into that buffer are changed to point into
 * the caller's buffer.
 */
struct found {
	struct uposix_job f_job;
	void           *f_key;          /* a name, or an address */
	socklen_t       f_size;         /* bytes of the address; 0: a name */
	int             f_family;       /* 0 for gethostbyname_r() */
	char           *f_heap;
	char           *f_buffer;       /* start of the buffer, inside f_heap */
	size_t          f_room;
	struct hostent  f_host;
	struct hostent *f_result;
	int             f_error;        /* h_errno */
};

enum { ALIGNED = 16 };

/*
 * Allocates a struct found, with the key and a buffer behind it. If NULL is returned, the
 * caller calls libc's function itself.
 */
static struct found *new_found(const void *key, size_t size, const char *buffer,
			       size_t room)
{
	struct found *f = uposix__in_thread() ? calloc(1, sizeof *f + size) : NULL;
	char *heap = f ? malloc(room + ALIGNED) : NULL;

	if (!heap) {
		free(f);
		return NULL;
	}
	f->f_key = memcpy(f + 1, key, size);
	f->f_heap = heap;
	f->f_buffer = heap + (uintptr_t)buffer % ALIGNED;
	f->f_room = room;
	return f;
}

static long find_found(void *found)
{
	struct found *f = found;

	if (f->f_size)
		return gethostbyaddr_r(f->f_key, f->f_size, f->f_family, &f->f_host,
				       f->f_buffer, f->f_room, &f->f_result, &f->f_error);
	if (f->f_family)
		return gethostbyname2_r(f->f_key, f->f_family, &f->f_host, f->f_buffer,
					f->f_room, &f->f_result, &f->f_error);
	return gethostbyname_r(f->f_key, &f->f_host, f->f_buffer, f->f_room,
			       &f->f_result, &f->f_error);
}

/* Returns the place in the caller's buffer that corresponds to `p' in f_buffer. */
static char *moved(const struct found *f, const void *p, char *buffer)
{
	size_t at = (uintptr_t)p - (uintptr_t)f->f_buffer;

	return p && at < f->f_room ? buffer + at : (char *)(uintptr_t)p;
}

static void give_host(const struct found *f, struct hostent *host, char *buffer)
{
	char **lists[2] = { f->f_host.h_aliases, f->f_host.h_addr_list };

	for (int i = 0; i < 2; i++)
		for (char **at = lists[i]; at && *at; at++)
			*at = moved(f, *at, buffer);
	memcpy(buffer, f->f_buffer, f->f_room);
	*host = f->f_host;
	host->h_name = moved(f, host->h_name, buffer);
	host->h_aliases = (char **)(void *)moved(f, lists[0], buffer);
	host->h_addr_list = (char **)(void *)moved(f, lists[1], buffer);
}

static int offload_found(struct found *f, struct hostent *host, char *buffer,
			 struct hostent **result, int *error)
{
	int rc;

	f->f_job.j_call = find_found;
	rc = uposix__offload(&f->f_job, sizeof *f);
	*result = NULL;
	*error = rc ? NETDB_INTERNAL : f->f_error;
	rc = rc ? -rc : (int)f->f_job.j_result;
	if (rc == 0 && f->f_result) {
		give_host(f, host, buffer);
		*result = host;
	}
	free(f->f_heap);
	free(f);
	return rc;
}

int uposix_gethostbyname_r(const char *name, struct hostent *host, char *buffer,
			   size_t size, struct hostent **result, int *error)
{
	struct found *f = new_found(name, strlen(name) + 1, buffer, size);

	if (!f)
		return gethostbyname_r(name, host, buffer, size, result, error);
	return offload_found(f, host, buffer, result, error);
}

int uposix_gethostbyname2_r(const char *name, int family, struct hostent *host,
			    char *buffer, size_t size, struct hostent **result,
			    int *error)
{
	struct found *f = new_found(name, strlen(name) + 1, buffer, size);

	if (!f)
		return gethostbyname2_r(name, family, host, buffer, size, result, error);
	f->f_family = family;
	return offload_found(f, host, buffer, result, error);
}

int uposix_gethostbyaddr_r(const void *address, socklen_t length, int family,
			   struct hostent *host, char *buffer, size_t size,
			   struct hostent **result, int *error)
{
	struct found *f = new_found(address, length, buffer, size);

	if (!f || length == 0) {
		free(f);
		return gethostbyaddr_r(address, length, family, host, buffer, size,
				       result, error);
	}
	f->f_size = length;
	f->f_family = family;
	return offload_found(f, host, buffer, result, error);
}

/*
 * Queries to name servers. The settings in _res belong to a native thread, so the pool
 * does not use the program's settings.
 */

int res_query(const char *name, int space, int type, unsigned char *answer, int size);

struct query {
	struct uposix_job q_job;
	char          *q_name;
	int            q_class;
	int            q_type;
	int            q_size;
	bool           q_search;
	int            q_error;
	unsigned char  q_answer[];
};

static struct query *new_query(int space, int type, int size)
{
	struct query *q = uposix__in_thread() && size >= 0
		? calloc(1, sizeof *q + (size_t)size) : NULL;

	if (q) {
		q->q_class = space;
		q->q_type = type;
		q->q_size = size;
	}
	return q;
}

static long ask(void *query)
{
	struct query *q = query;
	int n = (q->q_search ? res_search : res_query)(q->q_name, q->q_class, q->q_type,
						       q->q_answer, q->q_size);

	q->q_error = h_errno;
	return n;
}

static int offload_query(struct query *q, const char *name, unsigned char *answer)
{
	int n;

	q->q_job = (struct uposix_job){ .j_call = ask, .j_result = -1 };
	q->q_error = NETDB_INTERNAL;
	q->q_name = strdup(name);
	if (q->q_name)
		uposix__offload(&q->q_job, sizeof *q + (size_t)q->q_size);
	n = (int)q->q_job.j_result;
	if (n > 0)
		memcpy(answer, q->q_answer, (size_t)(n < q->q_size ? n : q->q_size));
	h_errno = q->q_error;
	free(q->q_name);
	free(q);
	return n;
}

int uposix_res_query(const char *name, int space, int type, unsigned char *answer,
		     int size)
{
	struct query *q = new_query(space, type, size);

	return q ? offload_query(q, name, answer)
		: res_query(name, space, type, answer, size);
}

int uposix_res_search(const char *name, int space, int type, unsigned char *answer,
		      int size)
{
	struct query *q = new_query(space, type, size);

	if (!q)
		return res_search(name, space, type, answer, size);
	q->q_search = true;
	return offload_query(q, name, answer);
}
