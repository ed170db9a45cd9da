/* SPDX-License-Identifier: MIT */
/*
 * unet.c: the table of descriptors. The first call on a number adopts the file: makes the
 * file non-blocking, and finds out its kind. An entry passes to another file by a new
 * descriptor, a close, unet_forget(), or a fork. Each of these ends the waits for the old
 * file. Waits are in unet_wait.c, and invariants in src/net/net.h.
 */
#include <fcntl.h>
#include <netinet/in.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "net.h"

_Static_assert((int)UNET_BUDGET == BUDGET_CALLS_MAX, "calls of a thread");

struct descriptor *unet__table[NET_CHUNKS];

/* Makes the chunk of fd. Returns the entry of fd, or NULL if there is no memory or fd is
   beyond the table. */
struct descriptor *unet__find_chunk(int fd)
{
	size_t i = (size_t)fd / NET_CHUNK;
	struct descriptor *chunk, *now = NULL;

	if (i >= NET_CHUNKS)
		return NULL;
	chunk = (struct descriptor *)aligned_alloc(NET_LINE, NET_CHUNK * sizeof *chunk);
	if (!chunk)
		return NULL;
	memset(chunk, 0, NET_CHUNK * sizeof *chunk);
	for (size_t k = 0; k < NET_CHUNK; k++)
		chunk[k].d_fd = (int)(i * NET_CHUNK + k);
	if (!__atomic_compare_exchange_n(&unet__table[i], &now, chunk, 0,
					 __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) {
		free(chunk);                    /* another native thread was faster */
		chunk = now;
	}
	return &chunk[(size_t)fd % NET_CHUNK];
}

#ifdef USCHED_CHECK
void unet__check_file(struct descriptor *d, uint32_t generation)
{
	struct stat now;
	int flags;

	uwait_lock(&d->d_lock);
	flags = fcntl(d->d_fd, F_GETFL);
	if (d->d_generation == generation && get_kind(d) > NET_CLOSING && flags >= 0
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

enum kind unet__kind_of(int fd)
{
	int type = 0;
	socklen_t size = sizeof type;
	struct stat status;

	if (getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &size)) {
		if (fstat(fd, &status) == 0 && S_ISFIFO(status.st_mode))
			return NET_PIPE;
		return NET_OTHER;
	}
#ifdef SO_PROTOCOL
	int protocol = 0;

	size = sizeof protocol;
	if (getsockopt(fd, SOL_SOCKET, SO_PROTOCOL, &protocol, &size) == 0
	    && type == SOCK_STREAM && protocol == IPPROTO_TCP)
		return NET_TCP;
#endif
	return NET_SOCKET;
}

/* Sets O_NONBLOCK. Returns 0 if the flag was set before, 1 if not, or an error. */
int unet__set_nonblocking(int fd)
{
	int flags = fcntl(fd, F_GETFL);

	if (flags >= 0 && flags & O_NONBLOCK)
		return 0;
	if (flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) < 0)
		return -errno;
	return 1;
}

/* Clears O_NONBLOCK. Returns 0, or an error. */
static int set_blocking(int fd)
{
	int flags = fcntl(fd, F_GETFL);

	return flags < 0 || fcntl(fd, F_SETFL, flags & ~O_NONBLOCK) < 0 ? -errno : 0;
}

/*
 * Records an adoption, under d_lock. If `blocked' is set, this adoption found O_NONBLOCK
 * clear. Other adoptions at the same time find the flag set. While the kind is
 * NET_CLOSING, only `blocked' is recorded, since the old file may still have the number.
 */
static void found(struct descriptor *d, bool blocked)
{
	d->d_blocked |= blocked;
	if (get_kind(d) != NET_NEW)
		return;
	set_ready(d, NET_IN, true);
	set_ready(d, NET_OUT, true);
	__atomic_store_n(&d->d_kind, (uint8_t)unet__kind_of(d->d_fd), __ATOMIC_RELEASE);
}

/* Adopts the file, unless the descriptor was closed or forgotten. */
int unet__adopt(struct descriptor *d, uint32_t generation)
{
	int rc = -EBADF;

	uwait_lock(&d->d_lock);
	if (generation_of(d) == generation) {
		rc = unet__set_nonblocking(d->d_fd);
		if (rc >= 0)
			found(d, rc > 0);
	}
	uwait_unlock(&d->d_lock);
	return rc < 0 ? rc : 0;
}

int unet__adopt_fd(int fd)
{
	struct descriptor *d;
	int rc = net_find(fd, &d);

	return rc ? rc : unet__adopt(d, generation_of(d));
}

/* Empties the entry, under d_lock. The caller then finishes the waits in *told. */
static void reset(struct descriptor *d, enum kind kind, struct told *told)
{
	*told = (struct told){ 0 };
	__atomic_store_n(&d->d_kind, (uint8_t)kind, __ATOMIC_RELAXED);
	__atomic_store_n(&d->d_generation, d->d_generation + 1, __ATOMIC_RELEASE);
	__atomic_store_n(&d->d_lasting, 0, __ATOMIC_RELAXED);
	d->d_blocked = false;
	for (int i = NET_IN; i <= NET_OUT; i++) {
		d->d_turns[i] = NET_NO_TURN;
		__atomic_store_n(&d->d_serial[i], 0, __ATOMIC_RELEASE);
		set_ready(d, i, true);
	}
	unet__release(d, told);
}

/* Enters a new descriptor in the table, and returns fd. If there is no memory, closes fd
   and returns an error. */
int unet__enter(int fd, enum kind kind)
{
	struct told told;
	struct descriptor *d;
	int rc = net_find(fd, &d);

	if (rc) {
		close_deferred(fd);
		return rc;
	}
	/* The listener was not adopted yet, or is being closed. */
	if (kind <= NET_CLOSING)
		kind = unet__kind_of(fd);
	uwait_lock(&d->d_lock);
	reset(d, kind, &told);
	uwait_unlock(&d->d_lock);
	/* Ends waits that were left when a file was closed by a bare close(2). */
	unet__tell(&told, NET_CLOSED);
	return fd;
}

/* Closes `fd', or only takes it out of the table and of all pollers. While close(2)
   lingers, another file may get the number and be entered: the generation shows that. */
static int close_or_forget(int fd, bool closes)
{
	bool blocked, waited = false;
	struct descriptor *d;
	int rc = net_find(fd, &d);
	uint32_t generation;
	struct told told;

	if (rc)
		return rc;
	budget_give_way(0);
	uwait_lock(&d->d_lock);
	blocked = d->d_blocked;
	reset(d, NET_CLOSING, &told);
	generation = d->d_generation;
	uwait_unlock(&d->d_lock);
	while (__atomic_fetch_add(&d->d_inside, 0, __ATOMIC_ACQ_REL) & NET_INSIDE)
		sched_yield();
	if (closes) {
		rc = close_deferred(fd) == -EBADF ? -EBADF : 0;
	} else {
		uevents_forget(fd);
		rc = blocked ? set_blocking(fd) : fcntl(fd, F_GETFD) < 0 ? -errno : 0;
	}
	uwait_lock(&d->d_lock);
	if (d->d_generation == generation) {
		__atomic_store_n(&d->d_kind, NET_NEW, __ATOMIC_RELEASE);
		waited = d->d_first[NET_IN] || d->d_first[NET_OUT];
	}
	uwait_unlock(&d->d_lock);
	unet__tell(&told, NET_CLOSED);
	if (waited)     /* for the old file or for the new one: these begin anew */
		unet__ready(&d->d_interest, UEVENTS_HANGUP);
	return rc;
}

int unet_close(int fd)
{
	return close_or_forget(fd, true);
}

int unet_forget(int fd)
{
	return close_or_forget(fd, false);
}

bool unet__hold(int fd)
{
	struct descriptor *d;

	if (net_find(fd, &d))
		return false;
	uwait_lock(&d->d_lock);
	if (!d->d_first[NET_IN] && !d->d_first[NET_OUT]
	    && !d->d_turns[NET_IN] && !d->d_turns[NET_OUT]
	    && get_kind(d) != NET_CLOSING) {
		__atomic_store_n(&d->d_kind, NET_NEW, __ATOMIC_RELEASE);
		if (!(__atomic_fetch_add(&d->d_inside, 0, __ATOMIC_ACQ_REL) & NET_INSIDE))
			return true;
	}
	uwait_unlock(&d->d_lock);
	return false;
}

void unet__let_go(int fd)
{
	struct descriptor *d;

	if (net_find(fd, &d) == 0)
		uwait_unlock(&d->d_lock);
}

void unet__renewed(int fd)
{
	struct descriptor *d = chunk_at((size_t)fd / NET_CHUNK);
	struct told told;

	if (!d || is_new(d += (size_t)fd % NET_CHUNK))
		return;
	uwait_lock(&d->d_lock);
	reset(d, NET_NEW, &told);
	uwait_unlock(&d->d_lock);
	unet__tell(&told, NET_CLOSED);
}

/* Drops the table in the child of a fork, since entries may be half changed, and have
   waiters that the child lacks. */
void unet__forked(void)
{
	for (size_t i = 0; i < NET_CHUNKS; i++)
		__atomic_store_n(&unet__table[i], NULL, __ATOMIC_RELAXED);
}

/* A full UNIX socket gives no event when its output or its peer's input is shut down. So
   all waits to write try again, since any of them may be for such a socket. */
int unet_shutdown(int fd, int how)
{
	struct sockaddr a = { .sa_family = AF_UNSPEC };
	socklen_t size = sizeof a;

	if (shutdown(fd, how))
		return -errno;
	getsockname(fd, &a, &size);
	for (size_t i = 0; a.sa_family == AF_UNIX && i < NET_CHUNKS; i++) {
		struct descriptor *chunk = chunk_at(i);

		for (size_t k = 0; chunk && k < NET_CHUNK; k++)
			if (!is_new(&chunk[k]) && !is_ready(&chunk[k], NET_OUT))
				unet__ready(&chunk[k].d_interest, UEVENTS_OUTPUT);
	}
	return 0;
}
