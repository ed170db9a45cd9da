/* SPDX-License-Identifier: MIT */
/*
 * utls.c: sessions of TLS.
 *
 * OpenSSL reads from and writes to memory: the BIO of a session has the bytes that were
 * received, and the bytes to send. So OpenSSL never waits, and no thread blocks in
 * OpenSSL's deep frames. Before and after calls of OpenSSL, the session moves bytes from
 * and to the descriptor by unet.h, a buffer at a time: a request and its answer are one
 * read and one write, and an idle session has no buffers.
 *
 * Invariants
 *  - s_lock is held for each call of OpenSSL, and across no call that may switch. The
 *    queue of errors, which is the native thread's, is empty before such a call, and is
 *    read and emptied before the lock is released: see call_once().
 *  - s_turn is held by the thread that writes to the descriptor. Bytes go from s_out to
 *    s_sending, and from there to the descriptor, so that they stay in order while s_out
 *    grows. After the release of s_turn, the writer looks at s_out again, under s_lock.
 *    So a reader that finds s_turn taken need not wait: the writer sends the reader's
 *    bytes. A thread that looks for bytes that it has added itself needs no lock.
 *  - s_busy has at most one thread for each direction. s_much belongs to the reader.
 *    s_complete changes only while one thread has both directions.
 *  - s_in is filled by the reader, when s_in is empty.
 *  - After s_error is set, OpenSSL is not called any more.
 *
 * As long as there are records without data, such as changes of keys, empty records and
 * alerts, a call of OpenSSL does not return. So after RECORDS_AT_ONCE records the BIO
 * pretends to be empty: then the session looks at the deadline, gives way, and calls
 * OpenSSL again. After IN_VAIN such records in a row, or with ANSWERS bytes of replies
 * that the peer has not taken, the session fails.
 */
#include "utls.h"

#include <arpa/inet.h>
#include <errno.h>
#include <openssl/err.h>
#include <openssl/x509v3.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "../src/wait/budget.h"
#include "../src/base/cancel.h"
#include "../ubuf.h"
#include "../unet.h"
#include "utls_set.h"

enum { WANTS = INT32_MIN };             /* OpenSSL needs more input before it can go on */

enum { READS = 1, WRITES = 2 };

enum {                                  /* numbers of records */
	RECORDS_AT_ONCE = 16,           /* most in a call of OpenSSL, which takes 0.3 ms
					   if each changes the keys */
	IN_VAIN         = 1024,         /* most in a row without data. A ticket of 16 KiB
					   may come in 256 records, if the records are the
					   shortest of RFC 8449. */
};

enum {                                  /* numbers of bytes */
	IN_FEW  = 1024,                 /* buffer for a first read: malloc() is fast for
					   blocks of this size */
	IN_MAX  = 32768,                /* buffer for further reads: nearly two records */
	OUT_MAX = 32768,                /* most that a call writes: two records */
	ANSWERS = 16384,                /* most bytes of replies: 600 key changes */
};

enum call { HANDSHAKE, READ, WRITE, SHUTDOWN };

struct piece {
	char   *p_data;                 /* from malloc(); NULL if p_size is 0 */
	size_t  p_at, p_size;           /* p_at of p_size bytes are used up */
};

/* Members are under s_lock, unless they are constant or say otherwise. */
struct utls {
	SSL              *s_ssl;        /* constant */
	struct utls_set  *s_set;        /* constant; the session has a reference */
	int               s_fd;         /* constant */
	int               s_error;      /* error of the failed session, or 0 */
	const char       *s_text;       /* text of that error; NULL: OpenSSL has it */
	unsigned long     s_code;       /* OpenSSL's code of that error */
	uint8_t           s_busy;       /* atomic; READS, WRITES: a thread is in a call */
	bool              s_complete;   /* the handshake is complete; under s_busy */
	bool              s_much;       /* the last read got IN_FEW bytes or more; under
					   s_busy */
	bool              s_unsent;     /* s_out or s_sending has bytes; read without
					   the lock */
	bool              s_ended;      /* the input of the descriptor has ended */
	bool              s_short;      /* a call of OpenSSL had no memory */
	unsigned          s_vain;       /* records since the last data */
	unsigned          s_begun;      /* records in this call of OpenSSL */
	bool              s_answers;    /* OpenSSL writes only replies in this call */
	size_t            s_replies;    /* bytes of replies that are not sent yet */
	struct piece      s_in, s_out, s_sending;
	pthread_mutex_t   s_lock;
	struct usync_mutex s_turn;
};

/* Drops the first `size' bytes. */
static void drop_bytes(struct piece *p, size_t size)
{
	p->p_at += size;
	if (p->p_at < p->p_size)
		return;
	free(p->p_data);
	*p = (struct piece){ 0 };
}

/* The BIO, whose functions OpenSSL calls under s_lock. */

static struct utls *utls_of(BIO *b)
{
	return (struct utls *)BIO_get_data(b);
}

static int bio_read(BIO *b, char *data, int size)
{
	struct utls *s = utls_of(b);
	size_t n = s->s_in.p_size - s->s_in.p_at;

	BIO_clear_retry_flags(b);
	if (n > 0 && size == SSL3_RT_HEADER_LENGTH && s->s_begun == RECORDS_AT_ONCE) {
		BIO_set_retry_read(b);
		return -1;
	}
	if (n == 0) {
		if (!s->s_ended)
			BIO_set_retry_read(b);
		return s->s_ended ? 0 : -1;
	}
	if (size == SSL3_RT_HEADER_LENGTH) {    /* almost always the header of a record */
		s->s_begun++;
		s->s_vain++;
	}
	if (n > (size_t)size)
		n = (size_t)size;
	memcpy(data, s->s_in.p_data + s->s_in.p_at, n);
	drop_bytes(&s->s_in, n);
	return (int)n;
}

static void set_unsent(struct utls *s, bool is)
{
	__atomic_store_n(&s->s_unsent, is, __ATOMIC_RELAXED);
}

/*
 * Appends all bytes to s_out, which grows by at most two records, or the messages of a
 * handshake, in a call of OpenSSL.
 */
static int bio_write(BIO *b, const char *data, int size)
{
	struct utls *s = utls_of(b);
	struct piece *p = &s->s_out;
	char *more = (char *)realloc(p->p_data, p->p_size + (size_t)size);

	BIO_clear_retry_flags(b);
	if (!more) {
		s->s_short = true;
		return -1;
	}
	memcpy(more + p->p_size, data, (size_t)size);
	p->p_data = more;
	p->p_size += (size_t)size;
	s->s_replies += s->s_answers ? (size_t)size : 0;
	set_unsent(s, true);
	return size;
}

static long bio_control(BIO *b, int what, long number, void *pointer)
{
	struct utls *s = utls_of(b);

	(void)number, (void)pointer;
	if (what == BIO_CTRL_EOF)
		return s->s_ended && !s->s_in.p_size;
	return what == BIO_CTRL_FLUSH || what == BIO_CTRL_PUSH || what == BIO_CTRL_POP;
}

BIO_METHOD *utls__method(void)
{
	BIO_METHOD *m = BIO_meth_new(BIO_TYPE_SOURCE_SINK, "usched");

	if (m) {
		BIO_meth_set_read(m, bio_read);
		BIO_meth_set_write(m, bio_write);
		BIO_meth_set_ctrl(m, bio_control);
	}
	return m;
}

static bool is_address(const char *host)
{
	unsigned char binary[sizeof(struct in6_addr)];

	return inet_pton(AF_INET, host, binary) == 1
	       || inet_pton(AF_INET6, host, binary) == 1;
}

static int set_host(struct utls *s, const char *host)
{
	SSL *ssl = s->s_ssl;

	if (!(s->s_set->e_flags & UTLS_CLIENT)) {
		SSL_set_accept_state(ssl);
		return host ? -EINVAL : 0;
	}
	SSL_set_connect_state(ssl);
	if (!host)
		return s->s_set->e_flags & UTLS_UNVERIFIED ? 0 : -EINVAL;
	if (is_address(host))
		return X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(ssl), host) == 1
		       ? 0 : -ENOMEM;
	if (!*host || strlen(host) > TLSEXT_MAXLEN_host_name)
		return -EINVAL;
	return SSL_set1_host(ssl, host) == 1 && SSL_set_tlsext_host_name(ssl, host) == 1
	       ? 0 : -ENOMEM;
}

/*
 * OpenSSL does not resume a session that was not shut down. So the session is marked as
 * shut down, even if the peer's stream had no end: reads have returned an error then.
 */
void utls_free(struct utls *s)
{
	if (!s)
		return;
	if (s->s_complete && !s->s_error)
		SSL_set_shutdown(s->s_ssl, SSL_SENT_SHUTDOWN | SSL_RECEIVED_SHUTDOWN);
	SSL_free(s->s_ssl);
	ERR_clear_error();
	utls__release_set(s->s_set);
	free(s->s_in.p_data);
	free(s->s_out.p_data);
	free(s->s_sending.p_data);
	pthread_mutex_destroy(&s->s_lock);
	free(s);
}

/* Sessions. */

int utls_create(struct utls_context *k, int fd, const char *host, struct utls **session)
{
	struct utls *s = (struct utls *)calloc(1, sizeof *s);
	int rc = -ENOMEM;
	BIO *b = NULL;

	*session = NULL;
	if (!s)
		return rc;
	s->s_fd = fd;
	s->s_set = utls__hold_set(k);
	pthread_mutex_init(&s->s_lock, NULL);
	s->s_ssl = SSL_new(s->s_set->e_contexts[0]);
	if (s->s_ssl && (b = BIO_new(s->s_set->e_method)) != NULL) {
		BIO_set_data(b, s);
		BIO_set_init(b, 1);
		SSL_set_bio(s->s_ssl, b, b);
		rc = set_host(s, host);
	}
	ERR_clear_error();
	if (rc)
		utls_free(s);
	else
		*session = s;
	return rc;
}

/*
 * Keeps other threads out of calls in these directions until end_call(). Returns 0, or
 * -EBUSY if another thread is in such a call.
 */
static int begin_call(struct utls *s, unsigned ways)
{
	uint8_t busy = __atomic_load_n(&s->s_busy, __ATOMIC_RELAXED);

	do {
		if (busy & ways)
			return -EBUSY;
	} while (!__atomic_compare_exchange_n(&s->s_busy, &busy, (uint8_t)(busy | ways),
					      true, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED));
	return 0;
}

/* Locks the session for a few lines that do not switch. */
static void lock_session(struct utls *s)
{
	pthread_mutex_lock(&s->s_lock);
}

/*
 * Clears OpenSSL's queue of errors. Usually the queue is empty; a look at it is ten times
 * as fast as a clear.
 */
static void clear_errors(void)
{
	if (ERR_peek_error())
		ERR_clear_error();
}

/* Returns false if a call of OpenSSL would only ask for more input. */
static bool may_read(const struct utls *s)
{
	return s->s_in.p_size || s->s_ended || SSL_has_pending(s->s_ssl)
	       || SSL_get_shutdown(s->s_ssl) & SSL_RECEIVED_SHUTDOWN;
}

/*
 * Returns WANTS, 0 or an error after a call of OpenSSL that returned `rc'. An error is
 * taken from the first in OpenSSL's queue, and fails the session.
 */
static int classify(struct utls *s, enum call call, int rc)
{
	int kind = SSL_get_error(s->s_ssl, rc);
	unsigned long code = ERR_peek_error();

	if (kind == SSL_ERROR_WANT_READ && call != WRITE && call != SHUTDOWN)
		return WANTS;
	if (kind == SSL_ERROR_ZERO_RETURN && call == READ)
		return 0;
	s->s_code = code;
	if (s->s_short || ERR_GET_REASON(code) == ERR_R_MALLOC_FAILURE)
		s->s_error = -ENOMEM;
	else if (ERR_GET_REASON(code) == SSL_R_UNEXPECTED_EOF_WHILE_READING
		 || kind == SSL_ERROR_ZERO_RETURN)
		s->s_error = -ECONNRESET;
	else
		s->s_error = -EPROTO;
	return s->s_error;
}

static int call_ssl(struct utls *s, enum call call, void *buffer, int size)
{
	bool shut = SSL_get_shutdown(s->s_ssl) & SSL_SENT_SHUTDOWN;
	int rc;

	switch (call) {
	case HANDSHAKE:
		rc = SSL_do_handshake(s->s_ssl);
		s->s_complete |= rc == 1;
		s->s_vain = rc == 1 ? 0 : s->s_vain;
		break;
	case READ:
		if (!may_read(s))
			return WANTS;
		rc = SSL_read(s->s_ssl, buffer, size);
		s->s_vain = rc > 0 ? 0 : s->s_vain;
		break;
	case WRITE:
		if (shut)
			return -EPIPE;
		rc = SSL_write(s->s_ssl, buffer, size);
		break;
	default:
		if (!s->s_complete)
			return -ENOTCONN;
		rc = shut ? 1 : SSL_shutdown(s->s_ssl);
		return rc >= 0 ? 0 : classify(s, call, rc);
	}
	return rc > 0 ? rc : classify(s, call, rc);
}

static int refuse_session(struct utls *s, const char *text)
{
	s->s_text = text;
	return s->s_error = -EPROTO;
}

static void unlock_session(struct utls *s)
{
	pthread_mutex_unlock(&s->s_lock);
}

/*
 * Makes a call of OpenSSL. Returns a number of at least 0, WANTS, or an error. Clears
 * OpenSSL's queue of errors, which other threads use, too. Defers cancellation, since the
 * call may read files for random numbers.
 */
static int call_once(struct utls *s, enum call call, void *buffer, size_t size)
{
	int before = defer_cancel(), rc;

	lock_session(s);
	rc = s->s_error;
	if (!rc) {
		clear_errors();
		s->s_begun = 0;
		s->s_answers = call == READ;
		rc = call_ssl(s, call, buffer, size < OUT_MAX ? (int)size : OUT_MAX);
		clear_errors();
		if (rc == WANTS && s->s_vain > IN_VAIN)
			rc = refuse_session(s, "too many records without data");
		else if (rc == WANTS && s->s_replies > ANSWERS)
			rc = refuse_session(s, "the peer does not take replies");
	}
	unlock_session(s);
	allow_cancel(before);
	return rc;
}

/* Returns whether a deadline is past. Deadline 0 is not: such calls never wait. */
static bool is_past(int64_t deadline)
{
	return deadline > 0 && deadline != USCHED_NEVER && usync_after(0) >= deadline;
}

/*
 * Drops the first `sent' bytes of s_sending, and refills s_sending from s_out. Returns
 * true if there are more bytes to send.
 */
static bool take(struct utls *s, size_t sent)
{
	bool more;

	lock_session(s);
	drop_bytes(&s->s_sending, sent);
	if (!s->s_sending.p_size) {
		s->s_sending = s->s_out;
		s->s_out = (struct piece){ 0 };
	}
	more = s->s_sending.p_size > 0;
	s->s_replies = more ? s->s_replies : 0;
	set_unsent(s, more);
	unlock_session(s);
	return more;
}

/* Sends all bytes. The caller holds s_turn. */
static int send_all(struct utls *s, int64_t deadline)
{
	const struct piece *p = &s->s_sending;
	ssize_t n = 0;

	while (take(s, (size_t)n)) {
		n = unet_write(s->s_fd, p->p_data + p->p_at, p->p_size - p->p_at,
			       deadline);
		if (n < 0)
			return (int)n;
	}
	return 0;
}

static bool is_unsent(struct utls *s)
{
	bool is;

	lock_session(s);
	is = s->s_unsent;
	unlock_session(s);
	return is;
}

/* Sends the bytes that this thread has added, and all earlier ones. 0, or an error. */
static int flush(struct utls *s, int64_t deadline)
{
	bool more = __atomic_load_n(&s->s_unsent, __ATOMIC_RELAXED);

	for (bool again = false; more; again = true) {
		int rc = again && is_past(deadline) ? -ETIMEDOUT
			: usync_mutex_lock(&s->s_turn, deadline);

		if (rc)
			return rc;
		rc = send_all(s, deadline);
		usync_mutex_unlock(&s->s_turn);
		if (rc)
			return rc;
		more = is_unsent(s);
	}
	return 0;
}

/* Returns true if the last call of OpenSSL has left bytes. */
static bool has_bytes(struct utls *s)
{
	bool has;

	lock_session(s);
	has = s->s_in.p_size > 0;
	unlock_session(s);
	return has;
}

/* Makes `size' bytes the input of a session; 0 bytes: the end of the input. */
static void put_input(struct utls *s, char *data, size_t size, size_t room)
{
	char *fit = room > IN_FEW && size ? (char *)realloc(data, size) : NULL;

	s->s_much = size >= IN_FEW;
	if (!size)
		free(data);
	lock_session(s);
	s->s_in = (struct piece){ fit ? fit : size ? data : NULL, 0, size };
	s->s_ended |= size == 0;
	unlock_session(s);
}

/*
 * Waits for input, and reads it. A thread that waits has no buffer. The buffer is small,
 * except after a read that has filled a small buffer.
 */
static int fill_input(struct utls *s, int64_t deadline)
{
	for (;;) {
		size_t room = s->s_much ? IN_MAX : IN_FEW;
		char *data = (char *)malloc(room);
		ssize_t n = data ? unet_read(s->s_fd, data, room, 0) : -ENOMEM;
		int rc;

		if (n >= 0) {
			put_input(s, data, (size_t)n, room);
			return 0;
		}
		free(data);
		if (n != -ETIMEDOUT)
			return (int)n;
		rc = unet_wait(s->s_fd, POLLIN, deadline);
		if (rc)
			return rc;
	}
}

/*
 * Reads input for OpenSSL, or gives way if OpenSSL has left input. `again' is true after
 * the first time: then the deadline ends the call even if there always is input.
 */
static int get_more(struct utls *s, bool again, int64_t deadline)
{
	int rc;

	if (again && is_past(deadline))
		return -ETIMEDOUT;
	if (!has_bytes(s))
		return fill_input(s, deadline);
	rc = ustack_yield();
	return rc == -ECANCELED && deadline > 0 ? rc : 0;
}

/*
 * Returns true if a server's handshake has not begun. Then the server waits for the
 * client's first bytes before the call of OpenSSL, which allocates 30 KB of buffers.
 */
static bool is_before_hello(struct utls *s)
{
	bool is;

	lock_session(s);
	is = SSL_is_server(s->s_ssl) && SSL_in_before(s->s_ssl) && !s->s_error;
	unlock_session(s);
	return is;
}

static int handshake(struct utls *s, int64_t deadline)
{
	int rc, sent = is_before_hello(s) ? get_more(s, false, deadline) : 0;

	for (bool again = false; !sent; again = true) {
		rc = call_once(s, HANDSHAKE, NULL, 0);
		sent = flush(s, rc < 0 && rc != WANTS ? 0 : deadline);
		if (rc != WANTS)
			return rc < 0 ? rc : sent;
		if (!sent)
			sent = get_more(s, again, deadline);
	}
	return sent;
}

static void end_call(struct utls *s, unsigned ways)
{
	__atomic_fetch_and(&s->s_busy, (uint8_t)~ways, __ATOMIC_RELEASE);
}

int utls_handshake(struct utls *s, int64_t deadline)
{
	int rc = begin_call(s, READS | WRITES);

	if (rc)
		return rc;
	rc = handshake(s, deadline);
	end_call(s, READS | WRITES);
	return rc;
}

/*
 * Makes the handshake before the first transfer. A handshake needs both directions; the
 * caller has one, and `other' is the other.
 */
static int complete_handshake(struct utls *s, unsigned other, int64_t deadline)
{
	int rc = s->s_complete ? 0 : begin_call(s, other);

	if (rc || s->s_complete)
		return rc;
	rc = handshake(s, deadline);
	end_call(s, other);
	return rc;
}

/*
 * Reads data. Replies of OpenSSL are sent now if that needs no wait, otherwise by the
 * next call.
 */
static ssize_t read_session(struct utls *s, void *buffer, size_t size, int64_t deadline)
{
	int rc = complete_handshake(s, WRITES, deadline);

	for (bool again = false; !rc; again = true) {
		int n = call_once(s, READ, buffer, size);

		flush(s, 0);
		if (n > 0 && !again)
			budget_give_way(0);     /* there may be thousands of records */
		if (n != WANTS)
			return n;
		rc = get_more(s, again, deadline);
	}
	return rc;
}

ssize_t utls_read(struct utls *s, void *buffer, size_t size, int64_t deadline)
{
	ssize_t n = begin_call(s, READS);

	if (n)
		return n;
	n = size ? read_session(s, buffer, size, deadline) : 0;
	end_call(s, READS);
	return n;
}

static ssize_t write_session(struct utls *s, const void *buffer, size_t size,
			     int64_t deadline)
{
	int rc = complete_handshake(s, READS, deadline), n;

	if (!rc)
		rc = flush(s, deadline);
	if (rc)
		return rc;
	n = call_once(s, WRITE, (void *)(uintptr_t)buffer, size);
	rc = flush(s, n < 0 ? 0 : deadline);
	if (n < 0 || !rc || rc == -ETIMEDOUT || rc == -ECANCELED || rc == -ENOMEM)
		return n;
	return rc;
}

ssize_t utls_write(struct utls *s, const void *buffer, size_t size, int64_t deadline)
{
	ssize_t n = begin_call(s, WRITES);

	if (n)
		return n;
	n = size ? write_session(s, buffer, size, deadline) : 0;
	end_call(s, WRITES);
	return n;
}

int utls_read_all(struct utls *s, void *buffer, size_t size, size_t *done,
		  int64_t deadline)
{
	size_t at = 0;
	ssize_t n = begin_call(s, READS);

	if (n == 0) {
		for (n = 1; at < size && n > 0; at += n > 0 ? (size_t)n : 0)
			n = read_session(s, (char *)buffer + at, size - at, deadline);
		end_call(s, READS);
		n = n > 0 ? 0 : n < 0 ? n : -EPIPE;
	}
	if (done)
		*done = at;
	return (int)n;
}

int utls_write_all(struct utls *s, const void *buffer, size_t size, size_t *done,
		   int64_t deadline)
{
	size_t at = 0;
	ssize_t n = begin_call(s, WRITES);

	if (n == 0) {
		for (n = 1; at < size && n > 0; at += n > 0 ? (size_t)n : 0)
			n = write_session(s, (const char *)buffer + at, size - at,
					  deadline);
		if (n > 0)
			n = flush(s, deadline);
		end_call(s, WRITES);
	}
	if (done)
		*done = at;
	return (int)n;
}

static bool has_input(struct utls *s)
{
	bool has;

	lock_session(s);
	has = s->s_error || s->s_in.p_size || SSL_pending(s->s_ssl)
	      || SSL_get_shutdown(s->s_ssl) & SSL_RECEIVED_SHUTDOWN;
	unlock_session(s);
	return has;
}

int utls_wait_readable(struct utls *s, int64_t deadline)
{
	int rc = begin_call(s, READS);

	if (rc)
		return rc;
	if (!has_input(s))
		rc = unet_wait(s->s_fd, POLLIN, deadline);
	end_call(s, READS);
	return rc;
}

int utls_shutdown(struct utls *s, int64_t deadline)
{
	int rc = begin_call(s, WRITES);

	if (rc)
		return rc;
	rc = call_once(s, SHUTDOWN, NULL, 0);
	if (rc >= 0)
		rc = flush(s, deadline);
	end_call(s, WRITES);
	return rc;
}

static ssize_t read_op(void *peer, void *buffer, size_t size, int64_t deadline)
{
	return utls_read((struct utls *)peer, buffer, size, deadline);
}

static ssize_t write_op(void *peer, const void *data, size_t size, int64_t deadline)
{
	return utls_write((struct utls *)peer, data, size, deadline);
}

static int wait_op(void *peer, int64_t deadline)
{
	return utls_wait_readable((struct utls *)peer, deadline);
}

static int flush_op(void *peer, int64_t deadline)
{
	return utls_write_all((struct utls *)peer, NULL, 0, NULL, deadline);
}

/* The calls for ubuf.h. */

const struct ubuf_ops *utls_ops(void)
{
	static const struct ubuf_ops ops = { read_op, write_op, wait_op, flush_op };

	return &ops;
}

/* Facts about a session. */

const char *utls_error(const struct utls *s)
{
	long verified = SSL_get_verify_result(s->s_ssl);
	const char *text;

	if (!s->s_error)
		return "";
	if (s->s_text)
		return s->s_text;
	if (ERR_GET_REASON(s->s_code) == SSL_R_CERTIFICATE_VERIFY_FAILED)
		return X509_verify_cert_error_string(verified);
	text = ERR_reason_error_string(s->s_code);
	return text ? text : "OpenSSL does not say";
}

const char *utls_name(const struct utls *s)
{
	return SSL_get_servername(s->s_ssl, TLSEXT_NAMETYPE_host_name);
}

char *utls_alpn(const struct utls *s, char *text)
{
	const unsigned char *name;
	unsigned size;

	SSL_get0_alpn_selected(s->s_ssl, &name, &size);
	if (size)
		memcpy(text, name, size);
	text[size] = '\0';
	return text;
}

int utls_resumed(const struct utls *s)
{
	return SSL_session_reused(s->s_ssl);
}

void *utls_ssl(struct utls *s)
{
	return s->s_ssl;
}

int utls_ticket(struct utls *s, struct utls_ticket **ticket)
{
	SSL_SESSION *now;
	int rc = -EAGAIN;

	*ticket = NULL;
	lock_session(s);
	now = SSL_get1_session(s->s_ssl);
	if (now && SSL_SESSION_is_resumable(now)) {
		*ticket = (struct utls_ticket *)(void *)now;
		rc = 0;
	} else {
		SSL_SESSION_free(now);
	}
	unlock_session(s);
	return rc;
}

int utls_resume(struct utls *s, struct utls_ticket *ticket)
{
	int rc = SSL_set_session(s->s_ssl, (SSL_SESSION *)(void *)ticket);

	ERR_clear_error();
	return rc == 1 ? 0 : -ENOMEM;
}

void utls_ticket_free(struct utls_ticket *ticket)
{
	SSL_SESSION_free((SSL_SESSION *)(void *)ticket);
}
