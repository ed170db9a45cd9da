/* SPDX-License-Identifier: MIT */
/*
 * utls.h: TLS over descriptors, for code that blocks. It is built by `make TLS=1', over
 * OpenSSL 3, as libusched-tls; the library itself needs no OpenSSL. `pkg-config --libs
 * usched-tls usched' names both. To compile TLS in, add tls/utls.c, tls/utls_context.c
 * and -lssl -lcrypto.
 *
 * A context has what connections share: certificates, keys, authorities, protocols. It
 * can be loaded again while connections go on. A session is TLS over one descriptor of
 * unet.h. The descriptor stays the caller's, who closes it by unet_close(), before or
 * after utls_free(). While a session is used nothing else may read or write the
 * descriptor.
 *
 * Defaults: TLS 1.2 and 1.3, OpenSSL's ciphers at security level 2 or what the system
 * demands beyond that, in the server's order; no renegotiation, no compression. Clients
 * verify the server's certificate and name. Sessions are resumed by tickets.
 *
 * Threads wait outside of OpenSSL, at the depth of the public call, so the frames of
 * OpenSSL are not copied; no lock is held then. A thread that waits in
 * utls_wait_readable() or utls_read() keeps no buffer.
 *
 * Calls that may wait take a deadline last, switch threads if they wait, and may be made
 * by threads and native threads, as in unet.h. They return a number of at least 0, or an
 * error of unet.h with nothing transferred. All other calls neither wait nor switch. No
 * call is for signal handlers. Further errors are
 *
 *   -EPROTO      The peer breaks the protocol, has refused ours, or is not verified; or
 *                it sends 1024 records in a row without data, or does not take replies;
 *                or OpenSSL fails. utls_error() has the text. All later calls fail, too.
 *   -ECONNRESET  Also: the connection ended without the peer's end of the stream, so
 *                what was read may be truncated. All later calls say so.
 *   -EBUSY       Another thread is inside a call of the same direction. A session has
 *                one reader and one writer at a time, as a descriptor has, and they may
 *                be on two processors. utls_handshake() is both, utls_shutdown() a
 *                writer.
 *   -ENOMEM      Also: in OpenSSL. All later calls fail, too.
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

/* Files of PEM. */
struct utls_certificate {
	const char *t_chain;            /* the server's or client's certificate first */
	const char *t_key;              /* not encrypted */
};

enum {
	UTLS_CLIENT     = 1,            /* sessions connect; by default they accept */
	UTLS_VERIFY     = 2,            /* a server demands certificates of its clients */
	UTLS_ASK        = 4,            /* a server asks for certificates, and verifies
					   them */
	UTLS_UNVERIFIED = 8,            /* a client takes any server: for tests */
};

/* Zeros are the defaults. */
struct utls_conf {
	unsigned                       f_flags;
	/*
	 * A server has at least one certificate. It presents the first for the name that
	 * the client asks for, or else the first of all. A client has one or none.
	 */
	const struct utls_certificate *f_certificates;
	size_t                         f_count;
	/* A file of PEM. NULL: the system's for clients, none for servers. */
	const char                    *f_authorities;
	/*
	 * "h2,http/1.1", or NULL for none: what a client offers. A server takes the first
	 * protocol of the client that is also in this list; without a common one the
	 * handshake fails.
	 */
	const char                    *f_alpn;
};

struct utls_context;
struct ubuf_ops;

/*
 * Makes a context. The files are read natively: call it before the scheduler runs, or by
 * uoffload(). An error sets *why, unless NULL, to its text, which is static.
 * 0; -ENOENT, -EACCES and the like: of a file; -EPROTO: a file has not what it should
 * have, or certificate and key do not fit; -EINVAL: a configuration that makes no sense;
 * -ENOMEM: no memory.
 */
int utls_context_create(const struct utls_conf *conf, struct utls_context **context,
			const char **why);

/*
 * Replaces all of the context, for sessions that are created from now on. Earlier
 * sessions keep what they have. Earlier tickets are no longer accepted, since their
 * clients may have been verified by authorities that are not in use any more: such
 * clients make a full handshake. After an error nothing has changed. May be called at any
 * time, from any native thread.
 * 0, or an error as utls_context_create().
 */
int utls_context_load(struct utls_context *k, const struct utls_conf *conf,
		      const char **why);

/* Frees the caller's hold of a context. Sessions of the context go on. */
void utls_context_free(struct utls_context *k);

/* Sessions. */

struct utls;

/*
 * Makes a session over the connected socket `fd'. A client names the host: the server's
 * certificate must be for that name or address, and a name is sent to the server; NULL
 * only with UTLS_UNVERIFIED. For servers `host' is NULL.
 * 0; -EINVAL: `host' is missing, or is too much; -ENOMEM: no memory.
 */
int utls_create(struct utls_context *k, int fd, const char *host, struct utls **session);

/*
 * Frees a session. No other thread may use it any more. Tells the peer nothing, and
 * leaves the descriptor open. NULL: does nothing.
 */
void utls_free(struct utls *s);

/*
 * Makes the handshake. After -ETIMEDOUT or -ECANCELED the call may be repeated, and goes
 * on. Reads and writes make the handshake if it is not complete; do so with one thread.
 * From the client's first byte to the end of the handshake a server's session has about
 * 30 KB more than before and after: a server bounds how many handshakes it makes at a
 * time.
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
 * Writes at most `size' bytes. At the deadline, or if the thread is cancelled, up to 32
 * KiB of the bytes that the session took may not be sent yet; the next call sends them
 * before all else. With deadline 0 the call does not switch.
 * Returns how many bytes the session took, at least one, or an error as above; -EPIPE:
 * after utls_shutdown().
 */
ssize_t utls_write(struct utls *s, const void *buffer, size_t size, int64_t deadline);

/*
 * Returns what ubuf_in_over() and ubuf_out_over() of ubuf.h take, with a session as the
 * peer: for lines and formatted text. When ubuf_flush() returns 0, all is sent. The
 * result is constant.
 */
const struct ubuf_ops *utls_ops(void);

/*
 * Transfer exactly `size' bytes; *done, unless NULL, is how many were taken. When
 * utls_write_all() returns 0, all bytes are sent, with those that earlier calls have
 * left, also for size 0.
 * 0, or an error as above; -EPIPE: from reading, the end came before.
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
 * Sends the end of the stream. Reads go on: a read that returns 0 has the peer's end.
 * 0, or an error as above; -ENOTCONN: the handshake is not complete.
 */
int utls_shutdown(struct utls *s, int64_t deadline);

/* What is known of a session. */

/* Returns the text of the error that the session failed with, or "". Static. */
const char *utls_error(const struct utls *s);

/* Returns the name that the client asked for, or NULL. Valid until utls_free(). */
const char *utls_name(const struct utls *s);

enum { UTLS_ALPN_MAX = 256 };

/*
 * Writes the protocol agreed upon, or "", to `text': at most UTLS_ALPN_MAX bytes.
 * Returns `text'.
 */
char *utls_alpn(const struct utls *s, char *text);

/* Returns whether the session resumed an earlier one. */
int utls_resumed(const struct utls *s);

/*
 * Returns OpenSSL's SSL, to look at certificates and the like, or to set options before
 * the handshake. Between a call of OpenSSL and a look at its queue of errors, which is
 * the native thread's, no call may be made that switches.
 */
void *utls_ssl(struct utls *s);

/*
 * A ticket, with which a client resumes a session. It is good for any session of the same
 * host.
 */
struct utls_ticket;

/*
 * Gets a client's ticket in *ticket, which the caller frees.
 * 0; -EAGAIN: the server has sent no ticket yet: it comes with what is read.
 */
int utls_ticket(struct utls *s, struct utls_ticket **ticket);

/*
 * Has a client's session resume that of the ticket, if the server agrees. Before the
 * handshake. The ticket stays the caller's, and may be used more than once.
 * 0; -ENOMEM: no memory.
 */
int utls_resume(struct utls *s, struct utls_ticket *ticket);

/* Frees a ticket. */
void utls_ticket_free(struct utls_ticket *ticket);

#ifdef __cplusplus
}
#endif

#endif /* USCHED_TLS_H */
