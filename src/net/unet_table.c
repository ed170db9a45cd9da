/* SPDX-License-Identifier: MIT */
/*
 * unet_table.c: the table of descriptors, and adoption: the first call on a number makes
 * the file non-blocking, and finds out its kind. Waits are in unet_wait.c, and unet.c
 * empties entries. src/net/net.h says what an entry is, and has the invariants.
 */
#include <fcntl.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "net.h"

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
int unet__set_blocking(int fd)
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
	if (blocked)
		d->d_turns |= NET_BLOCKED;
	if (get_kind(d) != NET_NEW)
		return;
	set_ready(d, NET_IN, true);
	set_ready(d, NET_OUT, true);
	__atomic_store_n(&d->d_kind, (uint8_t)unet__kind_of(d->d_fd), __ATOMIC_RELEASE);
}

/*
 * Adopts the file. Meanwhile no other file gets the number, because of d_inside. If the
 * descriptor is closed or forgotten meanwhile, clears O_NONBLOCK again if this call has
 * set it.
 */
int unet__adopt(struct descriptor *d, uint32_t generation)
{
	int rc = -EBADF;

	if (net_enter(d, generation)) {
		rc = unet__set_nonblocking(d->d_fd);
		uwait_lock(&d->d_lock);
		if (rc >= 0 && generation_of(d) == generation)
			found(d, rc > 0);
		uwait_unlock(&d->d_lock);
		if (rc > 0 && generation_of(d) != generation)
			unet__set_blocking(d->d_fd);
		net_leave(d);
	}
	return rc < 0 ? rc : 0;
}

int unet__adopt_fd(int fd)
{
	struct descriptor *d;
	int rc = net_find(fd, &d);

	return rc ? rc : unet__adopt(d, generation_of(d));
}
