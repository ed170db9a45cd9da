/* SPDX-License-Identifier: MIT */
/*
 * unet.c: descriptors that threads wait for: their table, adoption and close. What a
 * descriptor is, and the invariants, are in src/net/net.h.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE             /* syscall() */
#endif
#include <fcntl.h>
#include <netinet/in.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "../base/cancel.h"
#include "net.h"

_Static_assert((int)UNET_BUDGET == CALLS_MAX, "calls of a thread");

struct descriptor *unet__table[CHUNKS];

/* Descriptors with SHARED; atomic. Locked for writing, none is adopted or forgotten. */
static uint32_t shares;
static pthread_rwlock_t adopting = PTHREAD_RWLOCK_INITIALIZER;

/* NULL: no memory, or no descriptor. */
struct descriptor *unet__find_chunk(int fd)
{
	size_t i = (size_t)fd / CHUNK;
	struct descriptor *chunk, *now = NULL;

	if (i >= CHUNKS)
		return NULL;
	chunk = (struct descriptor *)aligned_alloc(NET_LINE, CHUNK * sizeof *chunk);
	if (!chunk)
		return NULL;
	memset(chunk, 0, CHUNK * sizeof *chunk);
	for (size_t k = 0; k < CHUNK; k++) {
		chunk[k].d_interest.i_ready = unet__ready;
		chunk[k].d_fd = (int)(i * CHUNK + k);
	}
	if (!__atomic_compare_exchange_n(&unet__table[i], &now, chunk, 0,
					 __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) {
		free(chunk);                    /* another native thread was faster */
		chunk = now;
	}
	return &chunk[(size_t)fd % CHUNK];
}

#ifdef USCHED_CHECK
void unet__check_file(struct descriptor *d, uint32_t generation)
{
	struct stat now;
	int flags;

	uwait_lock(&d->d_lock);
	flags = fcntl(d->d_fd, F_GETFL);
	if (d->d_generation == generation && get_kind(d) > CLOSING && flags >= 0
	    && fstat(d->d_fd, &now) == 0) {
		if (d->d_checked != generation + 1)
			d->d_file = now;
		d->d_checked = generation + 1;
		if (now.st_dev != d->d_file.st_dev || now.st_ino != d->d_file.st_ino
		    || !(flags & O_NONBLOCK)) {
			fprintf(stderr, "usched: descriptor %d is another file than it "
				"was, or blocks again: close() or fcntl() was called in "
				"place of unet_close() or unet_forget()\n", d->d_fd);
			abort();
		}
	}
	uwait_unlock(&d->d_lock);
}
#endif

/* Under d_lock: forgets all. All waiters are to be told. */
static void reset(struct descriptor *d, enum kind kind, struct told *told)
{
	*told = (struct told){ 0 };
	__atomic_store_n(&d->d_kind, (uint8_t)kind, __ATOMIC_RELAXED);
	__atomic_store_n(&d->d_generation, d->d_generation + 1, __ATOMIC_RELEASE);
	__atomic_store_n(&d->d_lasting, 0, __ATOMIC_RELAXED);
	if (d->d_turns & SHARED)
		__atomic_fetch_sub(&shares, 1, __ATOMIC_RELAXED);
	d->d_turns = 0;
	for (int i = IN; i <= OUT; i++) {
		__atomic_store_n(&d->d_serial[i], 0, __ATOMIC_RELEASE);
		set_ready(d, i, true);
	}
	unet__release(d, told);
}

enum kind unet__kind_of(int fd)
{
	int type = 0;
	socklen_t size = sizeof type;
	struct stat status;

	if (getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &size)) {
		if (fstat(fd, &status) == 0 && S_ISFIFO(status.st_mode))
			return PIPE;
		return OTHER;
	}
#ifdef SO_PROTOCOL
	int protocol = 0;

	size = sizeof protocol;
	if (getsockopt(fd, SOL_SOCKET, SO_PROTOCOL, &protocol, &size) == 0
	    && type == SOCK_STREAM && protocol == IPPROTO_TCP)
		return TCP;
#endif
	return SOCKET;
}

/* Enters a new descriptor. Closes it if there is no memory. */
int unet__enter(int fd, enum kind kind)
{
	struct told told;
	struct descriptor *d;
	int rc = net_find(fd, &d);

	if (rc) {
		close_deferred(fd);
		return rc;
	}
	if (kind <= CLOSING)                    /* its listener is being closed */
		kind = unet__kind_of(fd);
	uwait_lock(&d->d_lock);
	reset(d, kind, &told);
	uwait_unlock(&d->d_lock);
	unet__tell(&told, CLOSED);                /* closed by a bare close(2) */
	return fd;
}

/* 1: it has blocked. */
int unet__set_nonblocking(int fd)
{
	int flags = fcntl(fd, F_GETFL);

	if (flags >= 0 && flags & O_NONBLOCK)
		return 0;
	if (flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) < 0)
		return -errno;
	return 1;
}

/*
 * Under d_lock. Of several that adopt it at a time one has found that it blocked. While
 * CLOSING the number may still be that of the old file, so nothing else is kept.
 */
static void found(struct descriptor *d, bool blocked)
{
	if (blocked)
		d->d_turns |= BLOCKED;
	if (get_kind(d) != NEW)
		return;
	if (!(d->d_turns & BLOCKED)) {
		d->d_turns |= SHARED;
		__atomic_fetch_add(&shares, 1, __ATOMIC_RELAXED);
	}
	set_ready(d, IN, true);
	set_ready(d, OUT, true);
	__atomic_store_n(&d->d_kind, (uint8_t)unet__kind_of(d->d_fd), __ATOMIC_RELEASE);
}

/* Inside: so the flags are not those of the number's next user. */
int unet__adopt(struct descriptor *d, uint32_t generation)
{
	int rc = -EBADF;

	pthread_rwlock_rdlock(&adopting);
	if (net_enter(d, generation)) {
		rc = unet__set_nonblocking(d->d_fd);
		uwait_lock(&d->d_lock);
		if (rc >= 0 && generation_of(d) == generation)
			found(d, rc > 0);
		uwait_unlock(&d->d_lock);
		net_leave(d);
	}
	pthread_rwlock_unlock(&adopting);
	return rc < 0 ? rc : 0;
}

int unet__adopt_fd(int fd)
{
	struct descriptor *d;
	int rc = net_find(fd, &d);

	return rc ? rc : unet__adopt(d, generation_of(d));
}

/*
 * Between these two the number may be reused, for as long as close(2) lingers: the
 * generation is for the second.
 */
static uint32_t begin_close(struct descriptor *d, struct told *told, bool *blocked)
{
	uint32_t generation;

	uwait_lock(&d->d_lock);
	*blocked = d->d_turns & BLOCKED;
	reset(d, CLOSING, told);
	generation = d->d_generation;
	uwait_unlock(&d->d_lock);
	while (__atomic_fetch_add(&d->d_inside, 0, __ATOMIC_ACQ_REL) & INSIDE)
		sched_yield();
	return generation;
}

/* A call that came between them waits for either file: its wait begins anew. */
static void end_close(struct descriptor *d, uint32_t generation, const struct told *told)
{
	bool waited = false;

	uwait_lock(&d->d_lock);
	if (d->d_generation == generation) {
		__atomic_store_n(&d->d_kind, NEW, __ATOMIC_RELEASE);
		waited = d->d_first[IN] || d->d_first[OUT];
	}
	uwait_unlock(&d->d_lock);
	unet__tell(told, CLOSED);
	if (waited)
		unet__ready(&d->d_interest, UEVENTS_HANGUP);
}

int unet_close(int fd)
{
	struct told told;
	uint32_t generation;
	struct descriptor *d;
	int rc = net_find(fd, &d);
	bool blocked;

	if (rc)
		return rc;
	budget_give_way(0);
	generation = begin_close(d, &told, &blocked);
	if (POLLER_ONCE)
		uevents_closing(fd);
	rc = close_deferred(fd) == -EBADF ? -EBADF : 0;
	end_close(d, generation, &told);
	return rc;
}

static bool may_share(struct descriptor *d)
{
	bool may;

	if (is_new(d))
		return false;
	uwait_lock(&d->d_lock);
	may = d->d_turns & SHARED;
	uwait_unlock(&d->d_lock);
	return may;
}

/* 0: their open files are the same; 1: they are not; an error: that cannot be told. */
static int compare_files(int a, int b)
{
#ifdef SYS_kcmp
	const int file = 0;             /* KCMP_FILE of linux/kcmp.h, which musl lacks */
	long rc = syscall(SYS_kcmp, getpid(), getpid(), file, a, b);

	return rc < 0 ? -errno : rc > 0;
#else
	(void)a;
	(void)b;
	return -ENOSYS;
#endif
}

/* Inside, so its number is that of its file. */
static bool has_file(struct descriptor *d, int fd)
{
	uint32_t generation = generation_of(d);
	int other = 1;

	if (!may_share(d) || !net_enter(d, generation))
		return false;
	other = compare_files(fd, d->d_fd);
	uwait_lock(&d->d_lock);
	if (generation_of(d) != generation)
		other = 1;
	if (other == 0)
		d->d_turns |= BLOCKED;
	uwait_unlock(&d->d_lock);
	net_leave(d);
	return other <= 0;
}

/*
 * While none is adopted or forgotten: whether another descriptor here has the same open
 * file, or nothing can tell. It is the one to clear O_NONBLOCK then.
 */
static bool leave_to_other(int fd)
{
	for (size_t i = 0; i < CHUNKS && __atomic_load_n(&shares, __ATOMIC_RELAXED);
	     i++) {
		struct descriptor *chunk = chunk_at(i);

		for (size_t k = 0; chunk && k < CHUNK; k++)
			if (has_file(&chunk[k], fd))
				return true;
	}
	return false;
}

int unet_forget(int fd)
{
	struct told told;
	uint32_t generation;
	struct descriptor *d;
	int flags, rc = net_find(fd, &d);
	bool blocked;

	if (rc)
		return rc;
	budget_give_way(0);
	pthread_rwlock_wrlock(&adopting);
	generation = begin_close(d, &told, &blocked);
	uevents_forget(fd);
	flags = fcntl(fd, F_GETFL);
	rc = flags < 0 ? -errno : 0;
	if (rc == 0 && blocked && !leave_to_other(fd))
		fcntl(fd, F_SETFL, flags & ~O_NONBLOCK);
	pthread_rwlock_unlock(&adopting);
	end_close(d, generation, &told);
	return rc;
}

bool unet__is_idle(int fd)
{
	struct descriptor *d;
	bool idle;

	if (net_find(fd, &d))
		return true;
	uwait_lock(&d->d_lock);
	idle = !d->d_first[IN] && !d->d_first[OUT] && !(d->d_turns & TURNS)
		&& !(__atomic_load_n(&d->d_inside, __ATOMIC_ACQUIRE) & INSIDE);
	uwait_unlock(&d->d_lock);
	return idle;
}

void unet__renewed(int fd)
{
	struct descriptor *d = chunk_at((size_t)fd / CHUNK);
	struct told told;

	if (!d || is_new(d += (size_t)fd % CHUNK))
		return;
	uwait_lock(&d->d_lock);
	reset(d, NEW, &told);
	uwait_unlock(&d->d_lock);
	unet__tell(&told, CLOSED);
}

/* What is in the table may be half changed, and has waiters that are not there. */
void unet__forked(void)
{
	for (size_t i = 0; i < CHUNKS; i++)
		__atomic_store_n(&unet__table[i], NULL, __ATOMIC_RELAXED);
	__atomic_store_n(&shares, 0, __ATOMIC_RELAXED);
	adopting = (pthread_rwlock_t)PTHREAD_RWLOCK_INITIALIZER;
}

/* A full UNIX socket sends no event when its output is shut, or its peer's input. All
   that wait to write try again: another number may be the socket's, or its peer's. */
int unet_shutdown(int fd, int how)
{
	struct sockaddr a = { .sa_family = AF_UNSPEC };
	socklen_t size = sizeof a;

	if (shutdown(fd, how))
		return -errno;
	getsockname(fd, &a, &size);
	for (size_t i = 0; a.sa_family == AF_UNIX && i < CHUNKS; i++) {
		struct descriptor *chunk = chunk_at(i);

		for (size_t k = 0; chunk && k < CHUNK; k++)
			if (!is_new(&chunk[k]) && !is_ready(&chunk[k], OUT))
				unet__ready(&chunk[k].d_interest, UEVENTS_OUTPUT);
	}
	return 0;
}
