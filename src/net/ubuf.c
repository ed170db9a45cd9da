/* SPDX-License-Identifier: MIT */
/*
 * ubuf.c: buffers for reading and writing.
 *
 *         b_data  b_start        b_end      b_data + b_size
 *         |       | unread bytes |  room    |
 *
 * Bytes are added at b_end and taken at b_start, by the one thread that has the buffer.
 * A call looks at the bytes, and makes the transport add bytes until there are enough.
 * Only then does the call take the bytes, so after an error they are where they were.
 *
 * Bytes are moved to the front if that frees at least as many bytes as are moved, or if
 * there is no room left. A line that is complete in the buffer is never moved.
 *
 * An empty buffer is freed before the wait for the next bytes. But if the last read has
 * filled all the room, there are probably more bytes. Then the next read is made without
 * a wait before it, and the memory is kept.
 */
#include "../../ubuf.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../wait/budget.h"
#include "../base/check.h"
#include "../../unet.h"
#include "../../ustack.h"

_Static_assert(sizeof(struct budget) == sizeof ((struct ubuf_in *)0)->bi_budget, "room");

static size_t or_default(size_t limit)
{
	return limit ? limit : UBUF_LIMIT;
}

/* Reading. */

void ubuf_in_over(struct ubuf_in *in, const struct ubuf_ops *ops, void *peer,
		  size_t limit)
{
	*in = (struct ubuf_in){ .bi_base = { .b_ops = ops, .b_peer = peer,
					     .b_limit = or_default(limit) } };
}

static inline void *as_peer(int fd)
{
	return (void *)(intptr_t)fd;
}

void ubuf_in_init(struct ubuf_in *in, int fd, size_t limit)
{
	ubuf_in_over(in, NULL, as_peer(fd), limit);
}

static inline size_t bytes_held(const struct ubuf *b)
{
	return b->b_end - b->b_start;
}

/* Frees the memory of `b', and drops the bytes in it. */
static void give_up(struct ubuf *b)
{
	free(b->b_data);
	b->b_data = NULL;
	b->b_start = b->b_end = b->b_size = 0;
}

void ubuf_tie(struct ubuf_in *in, struct ubuf_out *out)
{
	in->bi_tied = out;
}

void ubuf_in_free(struct ubuf_in *in)
{
	give_up(&in->bi_base);
}

static char *first(const struct ubuf *b)
{
	return b->b_data ? b->b_data + b->b_start : NULL;
}

static inline int fd_of(const struct ubuf *b)
{
	return (int)(intptr_t)b->b_peer;
}

/* Writes at least one byte. Returns the number of bytes, or an error. */
static inline ssize_t buf_put(const struct ubuf *b, const void *data, size_t size,
			      int64_t deadline)
{
	ssize_t n;

	if (b->b_ops && deadline != 0)
		budget_rest();
	n = b->b_ops ? b->b_ops->bp_write(b->b_peer, data, size, deadline)
		: unet_write(fd_of(b), data, size, deadline);
	return n == 0 ? -EIO : n;
}

static int buf_write_some(struct ubuf *b, int64_t deadline)
{
	ssize_t n = buf_put(b, first(b), bytes_held(b), deadline);

	b->b_start += n > 0 ? (size_t)n : 0;
	return n < 0 ? (int)n : 0;
}

int ubuf_flush(struct ubuf_out *out, int64_t deadline)
{
	struct ubuf *b = &out->bo_base;
	int rc = 0;

	check(out, CHECK_BUFFER, __func__);
	while (rc == 0 && bytes_held(b) > 0)
		rc = buf_write_some(b, deadline);
	if (rc)
		return rc;
	give_up(b);
	return b->b_ops && b->b_ops->bp_flush ? b->b_ops->bp_flush(b->b_peer, deadline)
					      : 0;
}

/* Makes room for `want' bytes at b_end. The limit must allow them. The first memory has
   at least `least' bytes, or as many as the limit allows. Returns 0 or -ENOMEM. */
static int buf_make_room(struct ubuf *b, size_t want, size_t least)
{
	size_t have = bytes_held(b), size = b->b_size;
	char *data = b->b_data;

	if (size - b->b_end >= want)
		return 0;
	if (size - have < want) {
		if (want > SIZE_MAX / 4 || have > SIZE_MAX / 4)
			return -ENOMEM;
		size = size ? size : least;
		while (size - have < want)
			size *= 2;
		size = size < b->b_limit ? size : b->b_limit;
		data = (char *)malloc(size);
		if (!data)
			return -ENOMEM;
	}
	if (have > 0)
		memmove(data, first(b), have);
	if (data != b->b_data)
		free(b->b_data);
	b->b_data = data;
	b->b_size = size;
	b->b_start = 0;
	b->b_end = have;
	return 0;
}

/* Frees an empty buffer before it waits for input, so that an idle reader has no
   memory. */
static int before_read(struct ubuf_in *in, int64_t deadline)
{
	struct ubuf *b = &in->bi_base;
	int rc = in->bi_tied ? ubuf_flush(in->bi_tied, deadline) : 0;

	if (rc)
		return rc;
	if (bytes_held(b) > 0) {
		if (bytes_held(b) <= b->b_start)
			return buf_make_room(b, b->b_size - bytes_held(b), UBUF_SIZE);
		return 0;
	}
	b->b_start = b->b_end = 0;
	if (deadline == 0 || in->bi_full || (b->b_ops && !b->b_ops->bp_wait))
		return 0;
	give_up(b);
	return b->b_ops ? b->b_ops->bp_wait(b->b_peer, deadline)
		: unet_wait(fd_of(b), POLLIN, deadline);
}

static inline ssize_t buf_get(const struct ubuf *b, void *buffer, size_t size,
			      int64_t deadline)
{
	return b->b_ops ? b->b_ops->bp_read(b->b_peer, buffer, size, deadline)
		: unet_read(fd_of(b), buffer, size, deadline);
}

/* Counts a call, and yields if that is due, since there may be thousands of lines in the
   buffer. unet_read() begins a new count. bp_read does not, even if it has waited. */
static inline int buf_give_way(struct ubuf_in *in, int64_t deadline)
{
	struct budget *b = (struct budget *)in->bi_budget;

	return budget_counts(b) && usched__tires(b) ? usched__yield_tired(deadline) : 0;
}

/* Makes one read, of at least one byte. Returns the number of bytes, 0 at the end of the
   input, or an error. The buffer must have fewer bytes than its limit. */
static ssize_t buf_fill(struct ubuf_in *in, int64_t deadline)
{
	struct ubuf *b = &in->bi_base;
	int rc = b->b_ops ? buf_give_way(in, deadline) : 0;
	size_t room;
	ssize_t n;

	if (rc == 0)
		rc = before_read(in, deadline);
	if (rc == 0)
		rc = buf_make_room(b, 1, UBUF_SIZE);
	if (rc)
		return rc;
	room = b->b_size - b->b_end;
	n = buf_get(b, b->b_data + b->b_end, room, deadline);
	in->bi_full = n > 0 && (size_t)n == room;
	if (!b->b_ops)
		budget_renew((struct budget *)in->bi_budget);
	if (n > 0)
		b->b_end += (size_t)n;
	else if (bytes_held(b) == 0)
		give_up(b);
	return n;
}

/* Returns the length of the first line with its end, or 0 if the line is not complete.
   The first `seen' bytes contain no end of a line. */
static size_t find_line(const struct ubuf *b, size_t seen)
{
	const char *at = NULL, *start = first(b);

	if (bytes_held(b) > seen)
		at = (const char *)memchr(start + seen, '\n', bytes_held(b) - seen);
	return at ? (size_t)(at - start) + 1 : 0;
}

ssize_t ubuf_line(struct ubuf_in *in, char **line, int64_t deadline)
{
	struct ubuf *b = &in->bi_base;
	size_t seen = 0, n;
	ssize_t rc = 0;

	check(in, CHECK_BUFFER, __func__);
	*line = NULL;
	while ((n = find_line(b, seen)) == 0) {
		seen = bytes_held(b);
		if (seen >= b->b_limit)
			return -EMSGSIZE;
		rc = buf_fill(in, deadline);
		if (rc <= 0)
			return rc ? rc : -EPIPE;
	}
	rc = rc ? 0 : buf_give_way(in, deadline);
	if (rc)
		return rc;
	*line = first(b);
	b->b_start += n;
	(*line)[--n] = '\0';
	if (n > 0 && (*line)[n - 1] == '\r')
		(*line)[--n] = '\0';
	return (ssize_t)n;
}

int ubuf_take(struct ubuf_in *in, size_t n, char **data, int64_t deadline)
{
	struct ubuf *b = &in->bi_base;
	ssize_t rc = 0;

	check(in, CHECK_BUFFER, __func__);
	*data = NULL;
	if (n > 0 && bytes_held(b) >= n)
		rc = buf_give_way(in, deadline);
	while (rc >= 0 && bytes_held(b) < n) {
		if (n > b->b_limit)
			return -EMSGSIZE;
		rc = buf_fill(in, deadline);
		if (rc == 0)
			return -EPIPE;
	}
	if (rc < 0)
		return (int)rc;
	*data = first(b);
	b->b_start += n;
	return 0;
}

ssize_t ubuf_read(struct ubuf_in *in, void *buffer, size_t size, int64_t deadline)
{
	struct ubuf *b = &in->bi_base;
	ssize_t n;

	check(in, CHECK_BUFFER, __func__);
	check(size ? buffer : NULL, CHECK_BUFFER, __func__);
	if (size == 0)
		return 0;
	if (bytes_held(b) == 0) {
		/* large reads bypass the buffer, since a copy would cost more */
		if (size >= UBUF_SIZE) {
			n = in->bi_tied ? ubuf_flush(in->bi_tied, deadline) : 0;
			give_up(b);
			return n ? n : buf_get(b, buffer, size, deadline);
		}
		n = buf_fill(in, deadline);
	} else {
		n = buf_give_way(in, deadline);
		n = n ? n : 1;
	}
	if (n <= 0)
		return n;
	size = size < bytes_held(b) ? size : bytes_held(b);
	memcpy(buffer, first(b), size);
	b->b_start += size;
	return (ssize_t)size;
}

/* Writing. */

void ubuf_out_over(struct ubuf_out *out, const struct ubuf_ops *ops, void *peer,
		   size_t limit)
{
	*out = (struct ubuf_out){ .bo_base = { .b_ops = ops, .b_peer = peer,
					       .b_limit = or_default(limit) } };
}

void ubuf_out_init(struct ubuf_out *out, int fd, size_t limit)
{
	ubuf_out_over(out, NULL, as_peer(fd), limit);
}

void ubuf_out_free(struct ubuf_out *out)
{
	give_up(&out->bo_base);
}

/* Writes until `size' more bytes fit, and makes room for them. */
static int reserve(struct ubuf *b, size_t size, int64_t deadline)
{
	int rc;

	if (size > b->b_limit)
		return -EMSGSIZE;
	while (b->b_limit - bytes_held(b) < size) {
		rc = buf_write_some(b, deadline);
		if (rc)
			return rc;
	}
	return buf_make_room(b, size, UBUF_SHORT);
}

int ubuf_write(struct ubuf_out *out, const void *data, size_t size, size_t *done,
	       int64_t deadline)
{
	struct ubuf *b = &out->bo_base;
	bool large = size > b->b_limit;
	size_t taken = 0;
	ssize_t n;

	check(out, CHECK_BUFFER, __func__);
	check(size ? data : NULL, CHECK_BUFFER, __func__);
	check(done, CHECK_BUFFER, __func__);
	n = large ? ubuf_flush(out, deadline) : reserve(b, size, deadline);
	if (n == 0 && !large && size > 0) {
		memcpy(b->b_data + b->b_end, data, size);
		b->b_end += size;
		taken = size;
	}
	while (n >= 0 && taken < size) {
		n = buf_put(b, (const char *)data + taken, size - taken, deadline);
		taken += n > 0 ? (size_t)n : 0;
	}
	if (done)
		*done = taken;
	return n < 0 ? (int)n : 0;
}

/* Formats into the present room. If that is too small, makes room and formats again. */
__attribute__((format(printf, 3, 0)))
static int print(struct ubuf_out *out, int64_t deadline, const char *format,
		 va_list arguments)
{
	struct ubuf *b = &out->bo_base;
	size_t room = b->b_size - b->b_end;
	int rc = 0, n = 0;
	va_list again;

	do {
		if (room == 0 || (size_t)n >= room)
			rc = reserve(b, (size_t)n + 1, deadline);
		if (rc)
			return rc;
		room = b->b_size - b->b_end;
		va_copy(again, arguments);
		n = vsnprintf(b->b_data + b->b_end, room, format, again);
		va_end(again);
		if (n < 0)
			return -errno;
	} while ((size_t)n >= room);
	b->b_end += (size_t)n;
	return n;
}

int ubuf_printf(struct ubuf_out *out, int64_t deadline, const char *format, ...)
{
	va_list arguments;
	int rc;

	check(out, CHECK_BUFFER, __func__);
	va_start(arguments, format);
	rc = print(out, deadline, format, arguments);
	va_end(arguments);
	return rc;
}
