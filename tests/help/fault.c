/* SPDX-License-Identifier: MIT */
/*
 * fault.c: see fault.h. With -DFAULT_PRELOAD it is a shared object to preload into any
 * program. Then calls of the program and of all its libraries can fail. The environment:
 *
 *   FAULT=KIND:FIRST:LAST   as fault_begin(); KIND is a number
 *   FAULT_LOG=FILE          has a line for each call that failed, "NAME N ERRNO", and one
 *                           at exit, "held HELD CALLS": blocks and native threads that
 *                           were not given back, and the calls that could have failed
 *
 * WRAP(), CALL() and TRANSFER() define functions, at the beginning of a line: the
 * Makefile finds the names there.
 */
#define _GNU_SOURCE
#include "fault.h"
#include "test.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#ifdef FAULT_PRELOAD
/* Names in the headers of libc may be macros, or have types that are no ISO C. */
#define WRAP(type, name, params)                        \
	static type (*real_##name) params;              \
	type preload_##name params __asm__(#name);        \
	type preload_##name params
#define REAL(name) (find(__extension__ (void **)&real_##name, #name), real_##name)
#define CREATE     REAL(pthread_create)
#else
#define WRAP(type, name, params)                        \
	type __real_##name params;                      \
	type __wrap_##name params;                      \
	type __wrap_##name params
#define REAL(name) __real_##name
#define CREATE     test_create_native
#endif

enum { ERRORS = 256 };

const char *fault_only;

static atomic_int  fault_kind;
static atomic_long first_bad, last_bad; /* calls that fail; 0: none */
static atomic_long calls, failures;     /* since fault_begin() */
static atomic_long held, mapped;
static atomic_bool made[ERRORS];        /* likewise */

static void note(const char *name, long n, long more);
static bool number_fails(long number, const long *a);

#ifdef FAULT_PRELOAD
static void find(void **real, const char *name)
{
	if (!*real)
		*real = dlsym(RTLD_NEXT, name);
}
#endif

void fault_begin(enum fault_kind kind, long first, long last)
{
	first_bad = last_bad = 0;
	calls = failures = 0;
	for (int i = 0; i < ERRORS; i++)
		made[i] = false;
	fault_kind = (int)kind;
	last_bad = last;
	first_bad = first;
}

long fault_end(void)
{
	first_bad = last_bad = 0;
	return failures;
}

long fault_held(void)
{
	return held + mapped;
}

bool fault_made(int rc)
{
	return rc < 0 && rc > -ERRORS && rc != -EINTR && made[-rc];
}

/* Takes the error of each kind, or 0. True: the call is to fail, and errno is set. */
static bool fails(const char *name, int used_up, int broken, int interrupted, int cut)
{
	const int errors[FAULT_KINDS] = { used_up, broken, interrupted, cut };
	int error = errors[atomic_load(&fault_kind)];
	long n;

	if (!error || !first_bad || (fault_only && strcmp(name, fault_only) != 0))
		return false;
	n = ++calls;
	if (n < first_bad || n > last_bad)
		return false;
	failures++;
	made[error] = true;
	note(name, n, error);
	errno = error;
	return true;
}

/* ---- Memory and native threads ---- */

static void *hold(void *p)
{
	held += p != NULL;
	return p;
}

WRAP(void *, malloc, (size_t size))
{
	return fails("malloc", ENOMEM, 0, 0, 0) ? NULL : hold(REAL(malloc)(size));
}

WRAP(void *, calloc, (size_t n, size_t size))
{
	return fails("calloc", ENOMEM, 0, 0, 0) ? NULL : hold(REAL(calloc)(n, size));
}

WRAP(void *, realloc, (void *p, size_t size))
{
	void *now;

	if (fails("realloc", ENOMEM, 0, 0, 0))
		return NULL;
	now = REAL(realloc)(p, size);
	held += !p && now;
	return now;
}

WRAP(void *, aligned_alloc, (size_t align, size_t size))
{
	return fails("aligned_alloc", ENOMEM, 0, 0, 0) ? NULL
		: hold(REAL(aligned_alloc)(align, size));
}

WRAP(void, free, (void *p))
{
	held -= p != NULL;
	REAL(free)(p);
}

WRAP(void *, mmap, (void *at, size_t size, int prot, int flags, int fd, off_t offset))
{
	void *p;

	if (fails("mmap", ENOMEM, 0, 0, 0))
		return MAP_FAILED;
	p = REAL(mmap)(at, size, prot, flags, fd, offset);
	if (p != MAP_FAILED)
		mapped += (long)size;
	return p;
}

WRAP(int, munmap, (void *p, size_t size))
{
	mapped -= (long)size;
	return REAL(munmap)(p, size);
}

WRAP(int, pthread_create, (pthread_t *native, const pthread_attr_t *attr,
			   void *(*func)(void *), void *arg))
{
	int rc = fails("pthread_create", EAGAIN, 0, 0, 0) ? EAGAIN
		: CREATE(native, attr, func, arg);

	held += rc == 0;
	return rc;
}

WRAP(int, pthread_join, (pthread_t native, void **result))
{
	held--;
	return REAL(pthread_join)(native, result);
}

/* A sanitizer makes its key before main(), and takes no error there. */
static atomic_bool in_main;
static atomic_uint its_key = UINT_MAX;

__attribute__((constructor)) static void enter_main(void)
{
	in_main = true;
}

WRAP(int, pthread_key_create, (pthread_key_t *key, void (*destroy)(void *)))
{
	int rc = fails("pthread_key_create", EAGAIN, 0, 0, 0) ? EAGAIN
		: REAL(pthread_key_create)(key, destroy);

	if (!in_main && rc == 0)
		its_key = *key;
	return rc;
}

WRAP(int, pthread_setspecific, (pthread_key_t key, const void *value))
{
	if (value && key != its_key && fails("pthread_setspecific", ENOMEM, 0, 0, 0))
		return ENOMEM;
	return REAL(pthread_setspecific)(key, value);
}

/* ---- Calls that return -1: used up, broken, interrupted ---- */

#define CALL(name, params, args, used_up, broken, interrupted)          \
	WRAP(int, name, params)                                         \
	{                                                               \
		if (fails(#name, used_up, broken, interrupted, 0))      \
			return -1;                                      \
		return REAL(name) args;                                 \
	}

CALL(mprotect, (void *p, size_t size, int prot), (p, size, prot), ENOMEM, 0, 0)
CALL(epoll_create1, (int flags), (flags), EMFILE, ENFILE, 0)
CALL(epoll_wait, (int fd, struct epoll_event *events, int n, int ms), (fd, events, n, ms),
     0, 0, ms ? EINTR : 0)
CALL(eventfd, (unsigned value, int flags), (value, flags), EMFILE, ENFILE, 0)
CALL(pipe2, (int *fds, int flags), (fds, flags), EMFILE, ENFILE, 0)
CALL(timerfd_create, (int clock, int flags), (clock, flags), EMFILE, ENFILE, 0)
CALL(signalfd, (int fd, const sigset_t *set, int flags), (fd, set, flags), EMFILE,
     ENFILE, 0)
CALL(socket, (int family, int type, int protocol), (family, type, protocol), EMFILE,
     ENOBUFS, 0)
CALL(setsockopt, (int fd, int level, int name, const void *value, socklen_t size),
     (fd, level, name, value, size), ENOMEM, 0, 0)
CALL(bind, (int fd, const struct sockaddr *a, socklen_t size), (fd, a, size), ENOMEM,
     EADDRINUSE, 0)
CALL(listen, (int fd, int backlog), (fd, backlog), ENOMEM, EADDRINUSE, 0)
CALL(accept4, (int fd, struct sockaddr *a, socklen_t *size, int flags),
     (fd, a, size, flags), EMFILE, ECONNABORTED, EINTR)
CALL(shutdown, (int fd, int how), (fd, how), 0, ENOTCONN, 0)
CALL(nanosleep, (const struct timespec *t, struct timespec *left), (t, left), 0, 0, EINTR)
CALL(stat, (const char *path, struct stat *status), (path, status), ENOMEM, EACCES, 0)
CALL(fsync, (int fd), (fd), 0, EIO, 0)

/* Sleeps are not of the library, and too many to have each fail in turn. */
WRAP(int, poll, (struct pollfd *fds, nfds_t n, int ms))
{
	if (ms == 0 && fails("poll", ENOMEM, 0, EINTR, 0))
		return -1;
	return REAL(poll)(fds, n, ms);
}

/* An interrupted connect goes on. */
WRAP(int, connect, (int fd, const struct sockaddr *a, socklen_t size))
{
	int rc;

	if (fails("connect", ENOBUFS, ECONNREFUSED, 0, 0))
		return -1;
	rc = REAL(connect)(fd, a, size);
	return fails("connect", 0, 0, EINTR, 0) ? -1 : rc;
}

/* The descriptor is closed all the same. */
WRAP(int, close, (int fd))
{
	int rc = REAL(close)(fd);

	return fails("close", 0, EIO, EINTR, 0) ? -1 : rc;
}

/* Other operations fail by mistakes only. */
WRAP(int, epoll_ctl, (int fd, int op, int other, struct epoll_event *event))
{
	if (op == EPOLL_CTL_ADD && fails("epoll_ctl", ENOMEM, ENOSPC, 0, 0))
		return -1;
	return REAL(epoll_ctl)(fd, op, other, event);
}

WRAP(int, fcntl, (int fd, int command, ...))
{
	va_list args;
	long arg;

	va_start(args, command);
	arg = va_arg(args, long);               /* or anything */
	va_end(args);
	if (fails("fcntl", 0, EPERM, 0, 0))
		return -1;
	return REAL(fcntl)(fd, command, arg);
}

WRAP(int, open, (const char *path, int flags, ...))
{
	va_list args;
	unsigned mode;

	va_start(args, flags);
	mode = va_arg(args, unsigned);
	va_end(args);
	if (fails("open", EMFILE, EACCES, 0, 0))
		return -1;
	return REAL(open)(path, flags, mode);
}

WRAP(long, syscall, (long number, ...))
{
	long a[6];
	va_list args;

	va_start(args, number);
	for (int i = 0; i < 6; i++)
		a[i] = va_arg(args, long);
	va_end(args);
	if (number_fails(number, a))
		return -1;
	return REAL(syscall)(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}

/*
 * An old kernel lacks them, or a sandbox. A wait of no time is not interrupted. What
 * openat2() says if a file was renamed meanwhile, is for the caller to try again.
 */
static bool number_fails(long number, const long *a)
{
	const int64_t *t = (const void *)a[3];

	(void)t;                        /* headers may lack the number */
	switch (number) {
#ifdef SYS_epoll_pwait2
	case SYS_epoll_pwait2:
		return (!t || t[0] || t[1]) && fails("epoll_pwait2", 0, ENOSYS, EINTR, 0);
#endif
#ifdef SYS_openat2
	case SYS_openat2:
		return fails("openat2", EMFILE, ENOSYS, EAGAIN, 0);
#endif
	default:
		return false;
	}
}

WRAP(int, getaddrinfo, (const char *host, const char *service,
			const struct addrinfo *hints, struct addrinfo **list))
{
	if (fails("getaddrinfo", ENOMEM, 0, 0, 0))
		return EAI_MEMORY;
	if (fails("getaddrinfo", 0, EAGAIN, 0, 0))
		return EAI_AGAIN;
	return REAL(getaddrinfo)(host, service, hints, list);
}

/* ---- Transfers of `n' bytes or buffers; true: in ---- */

/* Objects of the kernel, like an eventfd, cannot break. Their mode has no type. */
static bool may_break(int fd)
{
	struct stat status;

	return fstat(fd, &status) == 0 && status.st_mode & S_IFMT;
}

/*
 * Not messages: the rest of one would be lost. Nor input from TCP: by epoll(7), a short
 * read means that nothing is left.
 */
static bool may_be_short(int fd, bool in)
{
	int type = SOCK_STREAM, protocol = 0;
	socklen_t size = sizeof type;

	getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &size);
	getsockopt(fd, SOL_SOCKET, SO_PROTOCOL, &protocol, &size);
	return type == SOCK_STREAM && !(in && protocol == IPPROTO_TCP) && may_break(fd);
}

static bool transfer_fails(const char *name, int fd, int used_up, int broken, int eintr)
{
	if (may_break(fd))
		return fails(name, used_up, broken, eintr, 0);
	return fails(name, 0, 0, eintr, 0);
}

static bool is_short(const char *name, int fd, bool in, size_t n)
{
	return n > 1 && may_be_short(fd, in) && fails(name, 0, 0, 0, EAGAIN);
}

#define TRANSFER(name, in, params, args, used_up, broken, eintr)        \
	WRAP(ssize_t, name, params)                                     \
	{                                                               \
		if (transfer_fails(#name, fd, used_up, broken, eintr))  \
			return -1;                                      \
		if (is_short(#name, fd, in, (size_t)n))                 \
			n = 1;                                          \
		return REAL(name) args;                                 \
	}

TRANSFER(read, true, (int fd, void *to, size_t n), (fd, to, n), EIO, ECONNRESET, EINTR)
TRANSFER(recv, true, (int fd, void *to, size_t n, int flags), (fd, to, n, flags), ENOMEM,
	 ECONNRESET, EINTR)
TRANSFER(write, false, (int fd, const void *from, size_t n), (fd, from, n), ENOSPC, EPIPE,
	 EINTR)
TRANSFER(send, false, (int fd, const void *from, size_t n, int flags),
	 (fd, from, n, flags), ENOBUFS, EPIPE, EINTR)
TRANSFER(readv, true, (int fd, const struct iovec *iov, int n), (fd, iov, n), EIO,
	 ECONNRESET, EINTR)
TRANSFER(writev, false, (int fd, const struct iovec *iov, int n), (fd, iov, n), ENOSPC,
	 EPIPE, EINTR)
TRANSFER(pread, true, (int fd, void *to, size_t n, off_t from), (fd, to, n, from), ENOMEM,
	 EIO, 0)
TRANSFER(pwrite, false, (int fd, const void *from, size_t n, off_t to), (fd, from, n, to),
	 ENOSPC, EIO, 0)
#ifdef RWF_NOWAIT                       /* there is such a call */
/* Pages that are not in memory, and a system that cannot tell. */
TRANSFER(preadv2, true, (int fd, const struct iovec *iov, int n, off_t from, int flags),
	 (fd, iov, n, from, flags), EAGAIN, EOPNOTSUPP, 0)
#endif

WRAP(ssize_t, recvmsg, (int fd, struct msghdr *message, int flags))
{
	struct iovec *iov = message->msg_iov, first = { NULL, 0 };
	__typeof__(message->msg_iovlen) n = message->msg_iovlen;
	ssize_t rc;

	if (transfer_fails("recvmsg", fd, ENOMEM, ECONNRESET, EINTR))
		return -1;
	if (n > 0)
		first = *iov;
	if (is_short("recvmsg", fd, true, first.iov_len)) {
		first.iov_len = 1;
		message->msg_iov = &first;
		message->msg_iovlen = 1;
	}
	rc = REAL(recvmsg)(fd, message, flags);
	message->msg_iov = iov;
	message->msg_iovlen = n;
	return rc;
}

WRAP(ssize_t, sendmsg, (int fd, const struct msghdr *message, int flags))
{
	struct msghdr first = *message;

	if (transfer_fails("sendmsg", fd, ENOBUFS, EPIPE, EINTR))
		return -1;
	if (is_short("sendmsg", fd, false, message->msg_iovlen))
		first.msg_iovlen = 1;
	return REAL(sendmsg)(fd, &first, flags);
}

/* ---- The environment ---- */

/* A line for the log. */
static void note(const char *name, long n, long more)
{
	const char *log = getenv("FAULT_LOG");
	char line[64];
	int fd, size;

	if (!log)
		return;
	size = snprintf(line, sizeof line, "%s %ld %ld\n", name, n, more);
	fd = REAL(open)(log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
	if (REAL(write)(fd, line, (size_t)size) != size)
		abort();
	REAL(close)(fd);
}

#ifdef FAULT_PRELOAD
__attribute__((constructor)) static void begin(void)
{
	const char *text = getenv("FAULT");
	long first, last;
	int kind;

	if (text && sscanf(text, "%d:%ld:%ld", &kind, &first, &last) == 3)
		fault_begin((enum fault_kind)kind, first, last);
}

__attribute__((destructor)) static void end(void)
{
	fault_end();
	note("held", held, calls);
}
#endif
