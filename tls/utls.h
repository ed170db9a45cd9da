/* SPDX-License-Identifier: MIT */
/*
 * utls.h: TLS over descriptors, for code that blocks. `make TLS=1' builds libusched-tls,
 * over OpenSSL 3; libusched itself does not need OpenSSL. `pkg-config --libs usched-tls
 * usched' has the options for both. To compile TLS into a program, add tls/utls.c,
 * tls/utls_context.c and -lssl -lcrypto.
 *
 * A context has what connections share: certificates, keys, authorities, protocols. The
 * files of a context can be loaded again while connections go on. A session is TLS over
 * one descriptor of unet.h. The descriptor stays the caller's, who closes it by
 * unet_close(), before or after utls_free(). Nothing else may read or write the
 * descriptor while a session uses it.
 *
 * Defaults: TLS 1.2 and 1.3; OpenSSL's ciphers at security level 2, or at a higher level
 * that the system demands, in the server's order; no renegotiation, no compression.
 * Clients verify the server's certificate and name. Sessions are resumed by tickets.
 *
 * Threads wait outside of OpenSSL, so that no frames of OpenSSL are copied, and hold no
 * lock then. A thread that waits in utls_wait_readable() or utls_read() keeps no buffer.
 *
 * Calls that may wait take a deadline last, switch threads if they wait, and may be made
 * by threads and native threads, as in unet.h. They return a number of at least 0, or an
 * error of unet.h, and then have transferred nothing. All other calls neither wait nor
 * switch. Signal handlers must make none of these calls. Further errors are
 *
 *   -EPROTO      The peer breaks the protocol, has refused ours, or is not verified; or
 *                the peer sends 1024 records in a row without data, or does not take
 *                replies; or OpenSSL fails. utls_error() has the text. All later calls
 *                fail, too.
 *   -ECONNRESET  Also: the connection ended before the end of the peer's stream, so that
 *                the data may be truncated. All later calls fail in the same way.
 *   -EBUSY       Another thread is inside a call of the same direction. A session has
 *                one reader and one writer at a time, as a descriptor has, which may be
 *                on two processors. utls_handshake() counts as a reader and a writer,
 *                utls_shutdown() as a writer.
 *   -ENOMEM      Also: OpenSSL has no memory. All later calls fail, too.
 */
#ifndef USCHED_TLS_H
#define USCHED_TLS_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Contexts. */

/* Names of two PEM files. */
struct utls_certificate {
	const char *t_chain;            /* the certificate, and after it those of the
					   authorities that link it to a root */
	const char *t_key;              /* the private key, which is not encrypted */
};

enum {
	UTLS_CLIENT     = 1,            /* sessions are those of clients; by default, of
					   servers */
	UTLS_VERIFY     = 2,            /* a server demands certificates of its clients */
	UTLS_ASK        = 4,            /* a server asks for certificates, and verifies
					   them */
	UTLS_UNVERIFIED = 8,            /* a client does not verify the server: for
					   tests */
};

/* Zeros are the defaults. */
struct utls_conf {
	unsigned                       f_flags;
	/*
	 * A server has at least one certificate, and presents the first one that matches
	 * the name in the client's request, or otherwise the first one. A client has one
	 * certificate or none.
	 */
	const struct utls_certificate *f_certificates;
	size_t                         f_count;
	/*
	 * A PEM file with the certificates of authorities. NULL: a client uses the
	 * system's authorities, a server none.
	 */
	const char                    *f_authorities;
	/*
	 * Protocols for ALPN, such as "h2,http/1.1", or NULL. A client offers these
	 * protocols. A server takes the first protocol of the client that is also in this
	 * list; if there is none, the handshake fails.
	 */
	const char                    *f_alpn;
};

struct utls_context;
struct ubuf_ops;

/*
 * Creates a context. Reads of the files block natively: make this call before the
 * scheduler runs, or by uoffload(). After an error *why is the text of the error, which
 * is static; `why' may be NULL.
 * 0; -ENOENT, -EACCES and the like: a file cannot be read; -EPROTO: a file does not have
 * what is expected, or certificate and key do not match; -EINVAL: the configuration makes
 * no sense; -ENOMEM: no memory.
 */
int utls_context_create(const struct utls_conf *conf, struct utls_context **context,
			const char **why);

/*
 * Replaces the configuration of a context, for sessions that are created from now on.
 * Earlier sessions keep the old configuration. Earlier tickets are no longer accepted,
 * since their clients may have been verified by authorities that are not in use any more;
 * such clients make a full handshake. After an error nothing has changed. May be called
 * at any time, from any native thread.
 * 0, or an error as utls_context_create().
 */
int utls_context_load(struct utls_context *k, const struct utls_conf *conf,
		      const char **why);

/* Frees a context. Sessions that were created with the context go on. */
void utls_context_free(struct utls_context *k);

/* Sessions. */

struct utls;

/*
 * Creates a session over the connected socket `fd'. For a client, `host' is the name or
 * address that the server's certificate must have; a name is also sent to the server.
 * `host' may be NULL only with UTLS_UNVERIFIED. For a server, `host' is NULL.
 * 0; -EINVAL: `host' is NULL for a client, or is not NULL for a server, or is too long;
 * -ENOMEM: no memory.
 */
int utls_create(struct utls_context *k, int fd, const char *host, struct utls **session);

/*
 * Frees a session, which no other thread may use any more. Sends nothing to the peer, and
 * leaves the descriptor open. `s' may be NULL.
 */
void utls_free(struct utls *s);

/*
 * Makes the handshake. After -ETIMEDOUT or -ECANCELED the call may be repeated, and
 * continues. Reads and writes also make the handshake if it is not complete; then only
 * one thread may use the session. From the client's first byte to the end of the
 * handshake, a session of a server takes about 30 KB more than before and after. So a
 * server should limit the number of handshakes at a time.
 * 0, or an error as above.
 */
int utls_handshake(struct utls *s, int64_t deadline);

/*
 * Reads at most `size' bytes. A thread that does not have to wait gives way as in
 * unet.h.
 * Returns the number of bytes; 0: the peer has ended its stream; or an error as above.
 */
ssize_t utls_read(struct utls *s, void *buffer, size_t size, int64_t deadline);

/*
 * Writes at most `size' bytes. If the deadline comes or the thread is cancelled, up to 32
 * KiB of the written bytes may not have been sent; the next call sends these bytes first.
 * With deadline 0 the call does not switch.
 * Returns how many bytes were written, at least one, or an error as above; -EPIPE:
 * after utls_shutdown().
 */
ssize_t utls_write(struct utls *s, const void *buffer, size_t size, int64_t deadline);

/*
 * Returns the operations for ubuf_in_over() and ubuf_out_over() of ubuf.h, whose peer is
 * a session then: for lines and formatted text. When ubuf_flush() returns 0, all is sent.
 * The result is constant.
 */
const struct ubuf_ops *utls_ops(void);

/*
 * These calls transfer exactly `size' bytes, unless there is an error. *done is the
 * number of transferred bytes; `done' may be NULL. When utls_write_all() returns 0, all
 * bytes are sent, also of earlier calls, and also if `size' is 0.
 * 0, or an error as above; -EPIPE: utls_read_all() has met the end of the stream.
 */
int utls_read_all(struct utls *s, void *buffer, size_t size, size_t *done,
		  int64_t deadline);
int utls_write_all(struct utls *s, const void *buffer, size_t size, size_t *done,
		   int64_t deadline);

/*
 * Waits until there is something to read, and reads nothing. May return early, as
 * unet_wait().
 * 0, or an error as above.
 */
int utls_wait_readable(struct utls *s, int64_t deadline);

/*
 * Sends the end of the stream. Reads are still possible, and return 0 at the end of the
 * peer's stream.
 * 0, or an error as above; -ENOTCONN: the handshake is not complete.
 */
int utls_shutdown(struct utls *s, int64_t deadline);

/* Facts about a session. */

/* Returns the text of the error with which the session failed, or "". The text is
   static. */
const char *utls_error(const struct utls *s);

/* Returns the host name in the client's request, or NULL. Valid until utls_free(). */
const char *utls_name(const struct utls *s);

enum { UTLS_ALPN_MAX = 256 };

/*
 * Writes the protocol that ALPN has chosen, or "", to `text': at most UTLS_ALPN_MAX
 * bytes.
 * Returns `text'.
 */
char *utls_alpn(const struct utls *s, char *text);

/* Returns whether the session resumed an earlier one. */
int utls_resumed(const struct utls *s);

/*
 * Returns OpenSSL's SSL object, to look at certificates and the like, or to set options
 * before the handshake. OpenSSL's queue of errors belongs to the native thread: a caller
 * that reads the queue after a call of OpenSSL must not switch in between.
 */
void *utls_ssl(struct utls *s);

/*
 * A ticket, with which a client resumes a session. A ticket can be used for any session
 * with the same host.
 */
struct utls_ticket;

/*
 * Stores the latest ticket of a client's session in *ticket, which the caller frees.
 * 0; -EAGAIN: the server has sent no ticket yet; tickets arrive during reads.
 */
int utls_ticket(struct utls *s, struct utls_ticket **ticket);

/*
 * Has a client's session resume the session of a ticket, if the server agrees. Must be
 * called before the handshake. The ticket stays the caller's, and may be used again.
 * 0; -ENOMEM: no memory.
 */
int utls_resume(struct utls *s, struct utls_ticket *ticket);

/* Frees a ticket. */
void utls_ticket_free(struct utls_ticket *ticket);

#ifdef __cplusplus
}
#endif

#endif /* USCHED_TLS_H */
