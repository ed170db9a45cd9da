/* SPDX-License-Identifier: MIT */
/*
 * ubuf.h: buffers to read and write lines, exactly n bytes, or formatted text. Below a
 * buffer is a descriptor of unet.h, or functions, such as utls_ops() for a TLS session.
 *
 * Only one thread at a time may use a struct ubuf_in or ubuf_out. The struct may be in a
 * frame of that thread, and its members are private. One thread may read from a peer
 * while another thread writes to that peer.
 *
 * The buffers are on the heap. A reader's buffer has UBUF_SIZE bytes at first, a writer's
 * buffer UBUF_SHORT bytes. Each doubles as needed, up to its limit. A reader frees an
 * empty buffer before a wait. A writer frees its buffer after ubuf_flush(). So an idle
 * connection has no buffer. A reader keeps an empty buffer in two cases: if the last read
 * has filled the buffer, since more bytes are probably there; and if bp_wait is NULL,
 * since then only bp_read can wait.
 *
 * Calls with a deadline switch threads if they wait. Threads and native threads may make
 * these calls. The other calls neither wait nor switch, and cannot fail. A call with a
 * deadline returns a number of at least 0, or a negative error. An error loses no byte.
 * Bytes that came can still be read, and bytes that were not written are still to be
 * written. The next call tries again. Errors of all calls with a deadline are
 *
 *   -EPIPE      The input ended too early. ubuf_read() can read what came before.
 *   -EMSGSIZE   The line, the bytes or the text would not fit into the limit.
 *   -ENOMEM     No memory for the buffer, or as in unet.h.
 *   -EIO        bp_write returned 0.
 *   any other   An error of unet.h, such as -ETIMEDOUT, or of functions of the program.
 *
 * A call that finds all it needs in the buffer yields at times, by the rules of unet.h.
 *
 * If a call sets a pointer to a line or to other data, the data is valid, and may be
 * changed, until the next call with the same `in'.
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
	UBUF_SIZE  = 4096,              /* bytes of a reader's buffer at first */
	UBUF_SHORT = 1024,              /* bytes of a writer's buffer at first */
	UBUF_LIMIT = 16384,             /* bytes; the limit, if `limit' is 0 */
};

/*
 * Functions that read and write in place of unet.h. They keep to the deadline, and return
 * errors, as unet.h does. If they return an error, they have transferred nothing. Once
 * they have returned, they must not use the memory that they got.
 */
struct ubuf_ops {
	/* Reads at least 1 byte. Returns the number; 0: the input has ended. */
	ssize_t (*bp_read)(void *peer, void *buffer, size_t size, int64_t deadline);
	/* Writes at least 1 byte. Returns the number. After an error, the next call may
	   pass the same bytes at another address, and more bytes behind them. */
	ssize_t (*bp_write)(void *peer, const void *data, size_t size, int64_t deadline);
	/* Waits until bp_read may find bytes. Does not wait if the transport already has
	   bytes, for example decrypted bytes. Returns 0. NULL: bp_read itself waits. */
	int     (*bp_wait)(void *peer, int64_t deadline);
	/* For ubuf_flush(): sends the bytes that bp_write has taken but not sent. Returns
	   0. NULL: bp_write itself sends all bytes that it takes. */
	int     (*bp_flush)(void *peer, int64_t deadline);
};

/* Private: the bytes from b_start to b_end are still to be read, or to be written. */
struct ubuf {
	const struct ubuf_ops *b_ops;   /* NULL: unet.h */
	void                  *b_peer;  /* the peer, or the descriptor */
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
	struct ubuf_out       *bi_tied; /* of ubuf_tie(), or NULL */
	bool                   bi_full; /* the last read filled all the room */
	uint8_t                bi_budget[4];    /* calls so far: src/wait/budget.h */
};

/* Reading. */

/*
 * Prepare `in' to read from `fd', or to read from `peer' by `ops'. The buffer may hold at
 * most `limit' bytes, so a line with its end must not be longer. 0 stands for UBUF_LIMIT.
 */
void ubuf_in_init(struct ubuf_in *in, int fd, size_t limit);
void ubuf_in_over(struct ubuf_in *in, const struct ubuf_ops *ops, void *peer,
		  size_t limit);

/*
 * Makes calls with `in' flush `out' before they read more from the peer. So the answers
 * to all requests that have arrived go out in one write, and no answer stays in the
 * buffer while the peer waits. Calls with `in' may then return errors of ubuf_flush(),
 * too. If `out' is NULL, calls with `in' flush nothing from now on.
 */
void ubuf_tie(struct ubuf_in *in, struct ubuf_out *out);

/*
 * Frees the memory, and drops unread bytes. `in' may be used again. So before each wait
 * for something else, a program may free an empty buffer.
 */
void ubuf_in_free(struct ubuf_in *in);

/*
 * Sets *line to the next line. The end of the line, "\n" or "\r\n", is replaced by 0
 * bytes. The line itself may contain 0 bytes, too.
 * Returns the length of the line without the end.
 */
ssize_t ubuf_line(struct ubuf_in *in, char **line, int64_t deadline);

/*
 * Sets *data to the next `n' bytes, in one piece.
 * 0.
 */
int ubuf_take(struct ubuf_in *in, size_t n, char **data, int64_t deadline);

/*
 * Reads as unet_read() does, but first takes the bytes in the buffer. `size' may exceed
 * the limit, since large reads do not pass through the buffer.
 * Returns what unet_read() returns.
 */
ssize_t ubuf_read(struct ubuf_in *in, void *buffer, size_t size, int64_t deadline);

/*
 * Writing. Bytes stay in the buffer until further bytes would exceed the limit, or until
 * a flush. If a write fails and is not made again, the stream has a gap. So compilers
 * warn if the result of a write is not used.
 */

/*
 * Prepare `out' to write to `fd', or to write to `peer' by `ops'. The buffer may hold at
 * most `limit' bytes. 0 stands for UBUF_LIMIT.
 */
void ubuf_out_init(struct ubuf_out *out, int fd, size_t limit);
void ubuf_out_over(struct ubuf_out *out, const struct ubuf_ops *ops, void *peer,
		   size_t limit);

/*
 * Frees the memory, and drops unwritten bytes, so call ubuf_flush() before. `out' may be
 * used again.
 */
void ubuf_out_free(struct ubuf_out *out);

/*
 * Puts `size' bytes into the buffer. After an error none of them is there. But if `size'
 * is over the limit, the bytes in the buffer and then the `size' bytes are written at
 * once, and some of them may have been written before an error. Unless `done' is NULL,
 * *done is set to the number of the `size' bytes that were put or written.
 * 0.
 */
int ubuf_write(struct ubuf_out *out, const void *data, size_t size, size_t *done,
	       int64_t deadline) __attribute__((warn_unused_result));

/*
 * Puts into the buffer the text that printf(3) would write. After an error, nothing was
 * put. The text must be shorter than the limit.
 * Returns the length of the text; -EILSEQ or -EOVERFLOW: vsnprintf(3) failed so.
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
