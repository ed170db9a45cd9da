/* SPDX-License-Identifier: MIT */
/*
 * unet.c: how an entry of the table passes to another file: by a new descriptor, a close,
 * unet_forget(), or a fork. Each of these ends the waits for the old file. The table and
 * adoption are in unet_table.c, waits in unet_wait.c, and invariants in src/net/net.h.
 */
#include <fcntl.h>
#include <sched.h>

#include "../base/cancel.h"
#include "net.h"

_Static_assert((int)UNET_BUDGET == BUDGET_CALLS_MAX, "calls of a thread");

/* Empties the entry, under d_lock. The caller then finishes the waits in *told. */
static void reset(struct descriptor *d, enum kind kind, struct told *told)
{
	*told = (struct told){ 0 };
	__atomic_store_n(&d->d_kind, (uint8_t)kind, __ATOMIC_RELAXED);
	__atomic_store_n(&d->d_generation, d->d_generation + 1, __ATOMIC_RELEASE);
	__atomic_store_n(&d->d_lasting, 0, __ATOMIC_RELAXED);
	d->d_turns = 0;
	for (int i = NET_IN; i <= NET_OUT; i++) {
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

/*
 * Begins a close. While close(2) lingers, before end_close(), another file may get the
 * number and be entered. Returns the generation, so that end_close() sees whether that
 * has happened.
 */
static uint32_t begin_close(struct descriptor *d, struct told *told, bool *blocked)
{
	uint32_t generation;

	uwait_lock(&d->d_lock);
	*blocked = d->d_turns & NET_BLOCKED;
	reset(d, NET_CLOSING, told);
	generation = d->d_generation;
	uwait_unlock(&d->d_lock);
	while (__atomic_fetch_add(&d->d_inside, 0, __ATOMIC_ACQ_REL) & NET_INSIDE)
		sched_yield();
	return generation;
}

/* Ends a close. Waits that began after begin_close() may be for the old file or for the
   new one, so they begin anew. */
static void end_close(struct descriptor *d, uint32_t generation, const struct told *told)
{
	bool waited = false;

	uwait_lock(&d->d_lock);
	if (d->d_generation == generation) {
		__atomic_store_n(&d->d_kind, NET_NEW, __ATOMIC_RELEASE);
		waited = d->d_first[NET_IN] || d->d_first[NET_OUT];
	}
	uwait_unlock(&d->d_lock);
	unet__tell(told, NET_CLOSED);
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
	rc = close_deferred(fd) == -EBADF ? -EBADF : 0;
	end_close(d, generation, &told);
	return rc;
}

int unet_forget(int fd)
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
	uevents_forget(fd);
	rc = blocked ? unet__set_blocking(fd) : fcntl(fd, F_GETFD) < 0 ? -errno : 0;
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
	idle = !d->d_first[NET_IN] && !d->d_first[NET_OUT] && !(d->d_turns & NET_TURNS)
		&& !(__atomic_load_n(&d->d_inside, __ATOMIC_ACQUIRE) & NET_INSIDE);
	uwait_unlock(&d->d_lock);
	return idle;
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
