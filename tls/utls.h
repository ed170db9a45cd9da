/* SPDX-License-Identifier: MIT */
/*
 * utls.h: TLS over descriptors, for code that blocks. It is built by `make tls', over
 * OpenSSL 3, as libusched-tls; the library itself needs no OpenSSL.
 *
 * A context has what connections share: certificates, keys, authorities, protocols. It
 * can be loaded again while connections go on. A session is TLS over one descriptor of
 * unet.h, which stays the caller's: it is closed by unet_close(), before or after
 * utls_free(). While a session is used nothing else may read or write the descriptor.
 *
 * Defaults: TLS 1.2 and 1.3, OpenSSL's ciphers at security level 2, in the server's
 * order; no renegotiation, no compression. Clients verify the server's certificate and
 * its name. Sessions are resumed by tickets.
 *
 * Calls that may wait take a deadline last, switch threads if they wait, and may be made
 * by threads and native threads, as in unet.h, and return its errors. All others neither
 * wait nor switch. No call is for signal handlers. Besides:
 *
 *   -EPROTO      the peer breaks the protocol, has refused ours, or is not verified; or
 *                it sends 1024 records in a row without data, or does not take replies;
 *                or OpenSSL fails. utls_error() has the text. All later calls fail, too
 *   -ECONNRESET  also: the connection ended without the peer's end of the stream, so
 *                what was read may be truncated. All later calls say so
 *   -EBUSY       another thread is inside a call of the same direction. A session has one
 *                reader and one writer at a time, as a descriptor has, and they may be
 *                on two processors. utls_handshake() is both, utls_shutdown() a writer
 *   -ENOMEM      also: in OpenSSL. All later calls fail, too
 *
 * Threads wait outside of OpenSSL, at the depth of the public call; no lock is held then.
 * A thread that waits in utls_wait_readable() or utls_read() keeps no buffer.
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
	const char *t_chain;            /* its own certificate first */
	const char *t_key;              /* not encrypted */
};

enum {
	UTLS_CLIENT     = 1,            /* sessions connect; by default they accept */
	UTLS_VERIFY     = 2,            /* a server demands certificates of clients */
	UTLS_ASK        = 4,            /* a server asks, and verifies what comes */
	UTLS_UNVERIFIED = 8,            /* a client takes any server: for tests */
};

/* Zeros are the defaults. */
struct utls_conf {
	unsigned                       f_flags;
	/*
	 * A server has one at least. It presents the first that is for the name which the
	 * client asks for, and the first of all if none is. A client has one or none.
	 */
	const struct utls_certificate *f_certificates;
	size_t                         f_count;
	/* A file of PEM. NULL: the system's for clients, none for servers. */
	const char                    *f_authorities;
	/*
	 * "h2,http/1.1", or NULL for none: what a client offers, or a server takes, the
	 * first that the client offers. If none is common, the handshake fails.
	 */
	const char                    *f_alpn;
};

struct utls_context;
struct ubuf_ops;

/*
 * Reads the files, natively: call it before the scheduler runs, or by uoffload(). An
 * error sets *why, unless NULL, to its text, which is static.
 * 0; -ENOENT and the like: of a file; -EPROTO: a file has not what it should have, or
 * certificate and key do not fit; -EINVAL: a configuration that makes no sense; -ENOMEM.
 */
int utls_context_create(const struct utls_conf *conf, struct utls_context **context,
			const char **why);

/*
 * Replaces all of it, for sessions that are created from now on. Others keep what they
 * have. Tickets of before are not accepted any more: their handshakes are full ones. May
 * be called at any time, from any native thread. Errors as above; then nothing changes.
 */
int utls_context_load(struct utls_context *k, const struct utls_conf *conf,
		      const char **why);

/* Its sessions go on. */
void utls_context_free(struct utls_context *k);

/* Sessions. */

struct utls;

/*
 * A session over the connected socket `fd'. A client names the host: the server's
 * certificate must be for that name or address, and a name is sent to the server; NULL
 * only with UTLS_UNVERIFIED. For servers `host' is NULL.
 * 0; -EINVAL: `host' is missing, or is too much; -ENOMEM.
 */
int utls_create(struct utls_context *k, int fd, const char *host, struct utls **session);

/* No other thread may use it any more. Tells the peer nothing. NULL: does nothing. */
void utls_free(struct utls *s);

/*
 * After -ETIMEDOUT or -ECANCELED it may be called again, and goes on. Reads and writes
 * call it if it is not complete; do so with one thread.
 */
int utls_handshake(struct utls *s, int64_t deadline);

/*
 * The number of bytes; 0: the peer has ended its stream. A thread that does not have to
 * wait gives way as in unet.h.
 */
ssize_t utls_read(struct utls *s, void *buffer, size_t size, int64_t deadline);

/*
 * How many bytes it took, at least one. At the deadline, or if the thread is cancelled,
 * up to 32 KiB of these may not be sent yet; the next call sends them before all else.
 * With deadline 0 it does not switch. -EPIPE: after utls_shutdown().
 */
ssize_t utls_write(struct utls *s, const void *buffer, size_t size, int64_t deadline);

/*
 * For ubuf_in_over() and ubuf_out_over() of ubuf.h, with a session as the peer: lines and
 * formatted text. When ubuf_flush() returns 0, all is sent. Constant.
 */
const struct ubuf_ops *utls_ops(void);

/*
 * Exactly `size' bytes; *done, unless NULL, is how many were taken. 0 from writing: all
 * are sent, also what earlier calls have left. -EPIPE from reading: the end came before.
 */
int utls_read_all(struct utls *s, void *buffer, size_t size, size_t *done,
		  int64_t deadline);
int utls_write_all(struct utls *s, const void *buffer, size_t size, size_t *done,
		   int64_t deadline);

/* Waits until there is something to read, as unet_wait_readable(). */
int utls_wait_readable(struct utls *s, int64_t deadline);

/*
 * Sends the end of the stream. Reads go on; one that returns 0 has the peer's end.
 * 0; -ENOTCONN: the handshake is not complete.
 */
int utls_shutdown(struct utls *s, int64_t deadline);

/* What is known of a session. */

/* The text of the error that the session failed with, or "". Static. */
const char *utls_error(const struct utls *s);

/* The name that the client asked for, or NULL. Valid until utls_free(). */
const char *utls_name(const struct utls *s);

enum { UTLS_ALPN_MAX = 256 };

/* The protocol agreed upon, or "": at most UTLS_ALPN_MAX bytes. Returns `text'. */
char *utls_alpn(const struct utls *s, char *text);

/* Whether it resumed an earlier one. */
int utls_resumed(const struct utls *s);

/*
 * OpenSSL's SSL, to look at certificates and the like, or to set options before the
 * handshake. Between a call of OpenSSL and a look at its queue of errors, which is the
 * native thread's, no call may be made that switches.
 */
void *utls_ssl(struct utls *s);

/* A ticket: what a client resumes. It may be used with any session of the same host. */
struct utls_ticket;

/* 0; -EAGAIN: the server has sent none yet, which comes with what is read. */
int utls_ticket(struct utls *s, struct utls_ticket **ticket);

/* Before the handshake. The ticket stays the caller's. 0; -ENOMEM. */
int utls_resume(struct utls *s, struct utls_ticket *ticket);

void utls_ticket_free(struct utls_ticket *ticket);

#ifdef __cplusplus
}
#endif

#endif /* USCHED_TLS_H */
