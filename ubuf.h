/* SPDX-License-Identifier: MIT */
/*
 * ubuf.h: buffers for reading and writing: lines, exactly n bytes, formatted text; over a
 * descriptor of unet.h, or over functions, such as utls_ops() for a TLS session.
 *
 * A struct ubuf_in or ubuf_out belongs to one thread at a time, and may be in its
 * frames; its members are private. One thread may read from a peer while another one
 * writes to it.
 *
 * The bytes are on the heap. A buffer begins with UBUF_SIZE bytes, a writer's with
 * UBUF_SHORT, and doubles up to its limit. A reader gives up an empty buffer before it
 * waits, and a writer after ubuf_flush(), so an idle connection has none. There are two
 * exceptions: a reader keeps the buffer if the last read has filled it, since more is
 * likely to be there, and if functions of the program cannot wait without reading.
 *
 * Calls with a deadline switch threads if they wait; threads and native threads may make
 * them. The other calls neither wait nor switch, and fail only where that is said. Each
 * call returns a number of at least 0, or a negative error. An error moves no byte: what
 * was read stays to be read, what was not written stays to be written, so the same call
 * or another one goes on. Errors do not stick: each call tries again. Errors of all
 * calls with a deadline are
 *
 *   -EPIPE      Reading: the end came before. ubuf_read() reads what came until then.
 *   -EMSGSIZE   What is asked for, or a text, does not fit into the limit.
 *   -ENOMEM     No memory for the buffer, or as in unet.h.
 *   -EIO        bp_write of the program wrote nothing.
 *   any other   Of unet.h, as -ETIMEDOUT and -ECANCELED, or of the program's functions.
 *
 * A thread that finds all it wants in the buffer gives way as at a read, by the rules of
 * unet.h.
 *
 * What calls of struct ubuf_in point to is good until the next call with the same `in',
 * and may be changed until then.
 */
#ifndef USCHED_UBUF_H
#define USCHED_UBUF_H

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
 * What reads and writes in place of unet.h. The functions keep to the deadline and
 * return errors as unet.h does, with nothing transferred. The memory that they get
 * belongs to them until they return.
 */
struct ubuf_ops {
	/* Reads at least 1 byte; 0: the end. */
	ssize_t (*bp_read)(void *peer, void *buffer, size_t size, int64_t deadline);
	/* Writes at least 1 byte. After an error it may be called again with the same
	   bytes at another address, and more behind them. */
	ssize_t (*bp_write)(void *peer, const void *data, size_t size, int64_t deadline);
	/* Waits until bp_read may find something, and not for bytes that the transport
	   has already, decrypted say. 0. NULL: each read waits with a buffer. */
	int     (*bp_wait)(void *peer, int64_t deadline);
	/* Sends what bp_write has taken and still holds, at ubuf_flush(). 0. NULL: the
	   transport holds nothing. */
	int     (*bp_flush)(void *peer, int64_t deadline);
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
};

struct ubuf_out {
	struct ubuf            bo_base;
};

struct ubuf_in {
	struct ubuf            bi_base;
	struct ubuf_out       *bi_tied; /* or NULL */
	bool                   bi_full; /* the last read got all that it asked for */
	uint8_t                bi_budget[4];    /* src/wait/budget.h: calls since then */
};

/* Reading. */

/*
 * Prepares `in' to read from `fd', or by `ops' from `peer'. `limit' is the most bytes
 * that may be in the buffer, and so the longest line, with its end; 0: UBUF_LIMIT.
 */
void ubuf_in_init(struct ubuf_in *in, int fd, size_t limit);
void ubuf_in_over(struct ubuf_in *in, const struct ubuf_ops *ops, void *peer,
		  size_t limit);

/*
 * Has `in' flush `out' whenever it must read more. So the answers to all requests that
 * have arrived go out in one write, and no answer stays behind while the peer waits.
 * Calls that read then have the errors of ubuf_flush(), too. With NULL for `out' that
 * ends.
 */
void ubuf_tie(struct ubuf_in *in, struct ubuf_out *out);

/*
 * Gives up the memory, and drops unread bytes. `in' may be used again, so an empty buffer
 * may be freed before each wait for something else.
 */
void ubuf_in_free(struct ubuf_in *in);

/*
 * Sets *line to the next line. Its end, "\n" or "\r\n", is replaced by 0 bytes; the line
 * may contain other ones.
 * Returns the length without the end.
 */
ssize_t ubuf_line(struct ubuf_in *in, char **line, int64_t deadline);

/*
 * Sets *data to the next `n' bytes, in one piece.
 * 0.
 */
int ubuf_take(struct ubuf_in *in, size_t n, char **data, int64_t deadline);

/*
 * As unet_read(), first from the buffer. `size' may be over the limit: large reads do not
 * pass through the buffer.
 * Returns what unet_read() returns.
 */
ssize_t ubuf_read(struct ubuf_in *in, void *buffer, size_t size, int64_t deadline);

/*
 * Writing. Bytes stay in the buffer until the next ones do not fit into its limit, or
 * until they are flushed. A write that failed and is not made again leaves a gap in the
 * stream, so compilers warn where a result is not used.
 */

/*
 * Prepares `out' to write to `fd', or by `ops' to `peer'. `limit' is the most bytes that
 * may be in the buffer; 0: UBUF_LIMIT.
 */
void ubuf_out_init(struct ubuf_out *out, int fd, size_t limit);
void ubuf_out_over(struct ubuf_out *out, const struct ubuf_ops *ops, void *peer,
		   size_t limit);

/*
 * Gives up the memory, and drops unwritten bytes: flush before. `out' may be used again.
 */
void ubuf_out_free(struct ubuf_out *out);

/*
 * Takes `size' bytes: all or, after an error, none. More bytes than the limit are
 * written at once, behind the others; after an error some of these may have been taken.
 * *done, unless NULL, is how many.
 * 0.
 */
int ubuf_write(struct ubuf_out *out, const void *data, size_t size, size_t *done,
	       int64_t deadline) __attribute__((warn_unused_result));

/*
 * Takes the text of printf(3), which must be shorter than the limit: all or, after an
 * error, nothing.
 * Returns the length; -EILSEQ, -EOVERFLOW as vsnprintf(3).
 */
int ubuf_printf(struct ubuf_out *out, int64_t deadline, const char *format, ...)
	__attribute__((format(printf, 3, 4), warn_unused_result));

/*
 * Writes what is in the buffer. After an error the rest stays there.
 * 0.
 */
int ubuf_flush(struct ubuf_out *out, int64_t deadline);

#ifdef __cplusplus
}
#endif

#endif /* USCHED_UBUF_H */
