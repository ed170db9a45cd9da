/* SPDX-License-Identifier: MIT */
/*
 * ubuf.h: buffers for reading and writing: lines, parts up to a mark, exactly n bytes,
 * formatted text; over a descriptor, or over functions, as utls_ops() of a TLS session.
 *
 * A struct ubuf_in or ubuf_out belongs to one thread at a time, and may be in its frames.
 * Its bytes are on the heap, or in memory that the program lends. An empty buffer has no
 * memory while its thread waits to read, and none after ubuf_flush(), so an idle
 * connection costs none. It begins with UBUF_SIZE bytes, for a writer with UBUF_SHORT,
 * and doubles up to its limit.
 *
 * Calls with a deadline switch threads if they wait; threads and native threads may make
 * them. They return a number of at least 0 or one of these. The next call goes on, and no
 * byte is lost: what was read stays to be read, what was not written stays to be written.
 *
 *   -EPIPE      reading: the end came before; what came until then is still there
 *   -EMSGSIZE   it does not fit into the limit
 *   -ENOMEM     no memory for the buffer, or as in unet.h
 *   any other   of unet.h, as -ETIMEDOUT and -ECANCELED, or of the program's functions
 *
 * A thread that finds all it wants in the buffer gives way as at a read, by the rules of
 * unet.h.
 *
 * Errors do not stick: each call tries again. What calls of struct ubuf_in point to is
 * good until the next call with it, and may be changed.
 */
#ifndef USCHED_UBUF_H
#define USCHED_UBUF_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#ifdef __cplusplus
extern "C" {
#endif

enum {
	UBUF_SIZE  = 4096,              /* bytes, of a reader's first buffer */
	UBUF_SHORT = 1024,              /* of a writer's: many may have some words each */
	UBUF_LIMIT = 16384,             /* bytes, for limit 0 */
};

/*
 * What reads and writes in place of unet.h, with the deadlines and errors of unet.h. The
 * memory that it gets belongs to it until it returns.
 */
struct ubuf_ops {
	/* At least 1 byte; 0: the end. */
	ssize_t (*o_read)(void *peer, void *buffer, size_t size, int64_t deadline);
	/* At least 1 byte. */
	ssize_t (*o_write)(void *peer, const void *data, size_t size, int64_t deadline);
	/* Waits until o_read may find something: 0. NULL: reads wait with a buffer. */
	int     (*o_wait)(void *peer, int64_t deadline);
	/* Sends what o_write has taken and still holds: 0. NULL: it holds nothing. */
	int     (*o_flush)(void *peer, int64_t deadline);
};

/* Private: b_start to b_end is to be read, or to be written. */
struct ubuf {
	const struct ubuf_ops *b_ops;   /* NULL: unet.h */
	void                  *b_peer;  /* or the descriptor */
	char                  *b_data;
	size_t                 b_start;
	size_t                 b_end;
	size_t                 b_size;
	size_t                 b_limit;
	bool                   b_lent;  /* b_data is the program's */
};

struct ubuf_out {
	struct ubuf            w_base;
};

struct ubuf_in {
	struct ubuf            i_base;
	struct ubuf_out       *i_tied;  /* or NULL */
	bool                   i_full;  /* the last read got all that it asked for */
	uint8_t                i_budget[4];     /* private/budget.h: calls since then */
};

/*
 * Reading. `limit' is the most bytes that may be in the buffer, and so the longest line,
 * with its end; 0: UBUF_LIMIT.
 */

void ubuf_in_init(struct ubuf_in *in, int fd, size_t limit);
void ubuf_in_over(struct ubuf_in *in, const struct ubuf_ops *ops, void *peer,
		  size_t limit);

/* Another limit, from now on. What is in the buffer stays. */
void ubuf_in_limit(struct ubuf_in *in, size_t limit);

/*
 * From now on the buffer is `memory', the program's, which may be in the thread's frames.
 * It does not grow. NULL: the heap, as at first.
 * 0; -EBUSY: there are unread bytes; -EINVAL: size 0.
 */
int ubuf_in_lend(struct ubuf_in *in, void *memory, size_t size);

/* From now on `in' flushes `out', which may be NULL, whenever it has to read more. */
void ubuf_tie(struct ubuf_in *in, struct ubuf_out *out);

/* Gives up the memory of an empty buffer, as before a wait for something else. */
void ubuf_in_trim(struct ubuf_in *in);

/* Gives up the memory, and drops unread bytes. `in' may be used again. */
void ubuf_in_free(struct ubuf_in *in);

/*
 * The next line: its length without the end, "\n" or "\r\n". *line ends with a 0 in its
 * place; it may contain others.
 */
ssize_t ubuf_line(struct ubuf_in *in, char **line, int64_t deadline);

/*
 * All up to the next `mark', of `size' bytes, and the mark itself: the length of both,
 * not ended by a 0. Besides, -EINVAL: size 0.
 */
ssize_t ubuf_until(struct ubuf_in *in, const void *mark, size_t size, char **data,
		   int64_t deadline);

/* The next `n' bytes, in one piece. 0. */
int ubuf_take(struct ubuf_in *in, size_t n, char **data, int64_t deadline);

/*
 * What is in the buffer, but at least `n' bytes, all of which stay unread: how many there
 * are. n 0 finds what there is, does not wait and does not fail.
 */
ssize_t ubuf_peek(struct ubuf_in *in, size_t n, char **data, int64_t deadline);

/* Drops `n' bytes, or all in the buffer if these are fewer: how many. Does not wait. */
size_t ubuf_skip(struct ubuf_in *in, size_t n);

/*
 * As unet_read() and unet_read_all(), behind what is in the buffer. They know no limit,
 * and large reads pass the buffer by.
 */
ssize_t ubuf_read(struct ubuf_in *in, void *buffer, size_t size, int64_t deadline);
int ubuf_read_all(struct ubuf_in *in, void *buffer, size_t size, size_t *done,
		  int64_t deadline);

/*
 * Writing. Bytes stay in the buffer until the next ones do not fit into its limit, or
 * until they are flushed.
 */

void ubuf_out_init(struct ubuf_out *out, int fd, size_t limit);
void ubuf_out_over(struct ubuf_out *out, const struct ubuf_ops *ops, void *peer,
		   size_t limit);

/* As ubuf_in_lend(). -EBUSY: there are unwritten bytes. */
int ubuf_out_lend(struct ubuf_out *out, void *memory, size_t size);

/* Gives up the memory, and drops unwritten bytes. `out' may be used again. */
void ubuf_out_free(struct ubuf_out *out);

/*
 * Takes `size' bytes: all or, after an error, none. More than the limit are written at
 * once; then some may have been taken. *done, unless NULL, is how many. 0.
 */
int ubuf_write(struct ubuf_out *out, const void *data, size_t size, size_t *done,
	       int64_t deadline) __attribute__((warn_unused_result));

/*
 * Likewise text as of printf(3), which must be shorter than the limit: its length.
 * Besides, -EILSEQ, -EOVERFLOW: of vsnprintf().
 */
int ubuf_printf(struct ubuf_out *out, int64_t deadline, const char *format, ...)
	__attribute__((format(printf, 3, 4), warn_unused_result));
int ubuf_vprintf(struct ubuf_out *out, int64_t deadline, const char *format,
		 va_list arguments)
	__attribute__((format(printf, 3, 0), warn_unused_result));

/* Writes what is in the buffer. 0. */
int ubuf_flush(struct ubuf_out *out, int64_t deadline);

/* How many bytes are to be written. */
size_t ubuf_pending(const struct ubuf_out *out);

#ifdef __cplusplus
}
#endif

#endif /* USCHED_UBUF_H */
