/* SPDX-License-Identifier: MIT */
/*
 * kqueue.c: a stand-in for kqueue(2) on Linux, over epoll(7), for the tests of
 * uevents_kqueue.c. It does what the manual page of FreeBSD says of EVFILT_READ and
 * EVFILT_WRITE with EV_CLEAR, of one EVFILT_USER, and of one EVFILT_TIMER that is
 * EV_ONESHOT; other flags are EINVAL.
 *
 * A kqueue is an epoll set with two others in it, one for each direction, so that an edge
 * of one direction is no event of the other:
 *
 * 	kqueue --level--> READ  --edge--> descriptors, USER, TIMER
 * 	           |----> WRITE --edge--> descriptors
 *
 * It differs: a child inherits it; a number that is closed is forgotten only if no other
 * number has its file; `data' is 0, and the error of a socket EIO.
 */
#define _GNU_SOURCE
#include "sys/event.h"

#include <poll.h>
#include <stdbool.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/timerfd.h>

#include "../../src/base/cancel.h"
#include "../../src/base/when.h"

enum { READ, WRITE, USER, TIMER, OWN };         /* q_own: sets, eventfd, timerfd */

/* NUMBERS: of descriptors; above them are USER and TIMER. BATCH: of one epoll_wait(2). */
enum { QUEUES = 1 << 16, NUMBERS = 1 << 20, BATCH = 64 };

struct queue {
	int   q_own[OWN];               /* -1: not open */
	int   q_first;                  /* the directions take turns */
	void *q_data[NUMBERS + OWN][2];
};

static struct queue *queues[QUEUES];            /* by descriptor */

int __close(int fd);                    /* close(2) of glibc */

/* Closes what a kqueue has, too. */
int close(int fd)
{
	struct queue *q = fd >= 0 && fd < QUEUES ? queues[fd] : NULL;

	if (q) {
		queues[fd] = NULL;
		for (int i = 0; i < OWN; i++)
			if (q->q_own[i] >= 0)
				__close(q->q_own[i]);
		munmap(q, sizeof *q);
	}
	return __close(fd);
}

/* Returns an error, or 0, as do those below. */
static int add(int set, int fd, uint32_t events, uint64_t ident)
{
	struct epoll_event event = { .events = events, .data.u64 = ident };

	return fd >= 0 && epoll_ctl(set, EPOLL_CTL_ADD, fd, &event) == 0 ? 0 : errno;
}

int kqueue(void)
{
	struct queue *q = mmap(NULL, sizeof *q, PROT_READ | PROT_WRITE,
			       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	int kq = q == MAP_FAILED ? -1 : epoll_create1(0), error = errno;

	if (q != MAP_FAILED && (kq < 0 || kq >= QUEUES))
		munmap(q, sizeof *q);
	if (kq < 0 || kq >= QUEUES)
		return -1;
	queues[kq] = q;
	for (int i = 0; i < OWN; i++)
		q->q_own[i] = i <= WRITE ? epoll_create1(EPOLL_CLOEXEC) : -1;
	if (!(error = add(kq, q->q_own[READ], EPOLLIN, 0))
	    && !(error = add(kq, q->q_own[WRITE], EPOLLIN, 0)))
		return kq;
	close(kq);
	errno = error;
	return -1;
}

/* No point of cancellation, as a kevent(2) without room for events is not. */
static bool has_lost_reader(int fd)
{
	struct pollfd one = { .fd = fd, .events = POLLOUT };
	struct stat status;
	int before = defer_cancel();
	bool lost = fstat(fd, &status) == 0 && S_ISFIFO(status.st_mode)
		&& poll(&one, 1, 0) == 1 && one.revents & POLLERR;

	allow_cancel(before);
	return lost;
}

/* A file, which epoll refuses, is ready: there is no edge. */
static int change_number(struct queue *q, const struct kevent *k)
{
	int way = k->filter == EVFILT_WRITE ? WRITE : READ, set = q->q_own[way];
	int fd = (int)k->ident;
	struct epoll_event event = { .data.u64 = k->ident };

	if (k->ident >= NUMBERS)
		return EBADF;
	if (k->flags == EV_DELETE)
		return epoll_ctl(set, EPOLL_CTL_DEL, fd, &event) ? errno : 0;
	if (k->flags != EV_ENABLE && k->flags != (EV_ADD | EV_CLEAR))
		return EINVAL;
	if (way == WRITE && k->flags & EV_ADD && has_lost_reader(fd))
		return EPIPE;
	event.events = EPOLLET | (way == WRITE ? EPOLLOUT : EPOLLIN | EPOLLRDHUP);
	__atomic_store_n(&q->q_data[fd][way], k->udata, __ATOMIC_RELEASE);
	if (epoll_ctl(set, EPOLL_CTL_MOD, fd, &event) == 0)
		return 0;
	if (!(k->flags & EV_ADD))
		return errno == EPERM ? ENOENT : errno;
	return errno == EPERM ? 0 : errno == ENOENT
		? add(set, fd, event.events, k->ident) : errno;
}

/* Each write is an edge, so what is written is never read. */
static int change_user(struct queue *q, const struct kevent *k)
{
	if (k->flags == (EV_ADD | EV_CLEAR)) {
		q->q_data[NUMBERS + USER][READ] = k->udata;
		q->q_own[USER] = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
		return add(q->q_own[READ], q->q_own[USER], EPOLLIN | EPOLLET,
			   NUMBERS + USER);
	}
	if (k->flags || k->fflags != NOTE_TRIGGER)
		return EINVAL;
	return eventfd_write(q->q_own[USER], 1) ? errno : 0;
}

static int change_timer(struct queue *q, const struct kevent *k)
{
	struct itimerspec spec = { .it_value = when_of(k->data) };
	int *timer = &q->q_own[TIMER], rc = 0;

	if (k->flags == (EV_ADD | EV_ONESHOT) && k->fflags == NOTE_NSECONDS) {
		q->q_data[NUMBERS + TIMER][READ] = k->udata;
		if (*timer < 0)
			*timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC);
		rc = add(q->q_own[READ], *timer, EPOLLIN | EPOLLET, NUMBERS + TIMER);
	} else if (k->flags != EV_DELETE || *timer < 0) {
		rc = k->flags == EV_DELETE ? ENOENT : EINVAL;
	}
	return rc && rc != EEXIST ? rc
		: timerfd_settime(*timer, 0, &spec, NULL) ? errno : 0;
}

static int collect(struct queue *q, int way, struct kevent *events, int n)
{
	struct epoll_event found[BATCH];

	n = n > 0 ? epoll_wait(q->q_own[way], found, n < BATCH ? n : BATCH, 0) : 0;
	for (int i = 0; i < n; i++) {
		uint64_t ident = found[i].data.u64;
		bool ended = found[i].events & (EPOLLHUP | EPOLLERR | EPOLLRDHUP);

		EV_SET(&events[i], ident < NUMBERS ? ident : 0,
		       ident == NUMBERS + USER ? EVFILT_USER
		       : ident == NUMBERS + TIMER ? EVFILT_TIMER
		       : way == WRITE ? EVFILT_WRITE : EVFILT_READ,
		       (unsigned short)(ended ? EV_CLEAR | EV_EOF : EV_CLEAR),
		       found[i].events & EPOLLERR ? EIO : 0, 0,
		       __atomic_load_n(&q->q_data[ident][way], __ATOMIC_ACQUIRE));
	}
	return n > 0 ? n : 0;
}

int kevent(int kq, const struct kevent *changes, int nchanges, struct kevent *events,
	   int nevents, const struct timespec *timeout)
{
	struct queue *q = kq >= 0 && kq < QUEUES ? queues[kq] : NULL;
	struct pollfd one = { .fd = kq, .events = POLLIN };
	int n, before = errno, rc = q ? 0 : EBADF;

	for (int i = 0; i < nchanges && rc == 0; i++)
		rc = changes[i].filter == EVFILT_USER ? change_user(q, &changes[i])
			: changes[i].filter == EVFILT_TIMER ? change_timer(q, &changes[i])
			: change_number(q, &changes[i]);
	errno = rc ? rc : before;
	if (rc || nevents == 0)
		return rc ? -1 : 0;
	n = ppoll(&one, 1, timeout, NULL);
	if (n <= 0)
		return n;
	q->q_first = WRITE - q->q_first;
	n = collect(q, q->q_first, events, nevents);
	return n + collect(q, WRITE - q->q_first, events + n, nevents - n);
}
