/* SPDX-License-Identifier: MIT */
/*
 * utls_context.c: contexts of TLS. All that a load reads is in one struct utls_set, which
 * the next load replaces.
 *
 * A server has an SSL_CTX for each certificate; except for the certificate, these are
 * alike. A session begins with the first SSL_CTX, and may get another one when the client
 * has sent the name of a host.
 */
#include "utls_set.h"

#include <errno.h>
#include <openssl/err.h>
#include <openssl/x509v3.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "../src/base/cancel.h"

struct utls_context {
	pthread_mutex_t  k_lock;
	struct utls_set *k_set;         /* the latest set; under the lock */
};

/* Returns whether a configuration makes sense. */
static bool is_sound(const struct utls_conf *conf)
{
	bool client = conf->f_flags & UTLS_CLIENT;
	unsigned wrong = client ? UTLS_VERIFY | UTLS_ASK : UTLS_UNVERIFIED;

	for (size_t i = 0; i < conf->f_count; i++)
		if (!conf->f_certificates[i].t_chain || !conf->f_certificates[i].t_key)
			return false;
	return !(conf->f_flags & (wrong | ~15u))
	       && (client ? conf->f_count <= 1 : conf->f_count > 0)
	       && (conf->f_authorities || !(conf->f_flags & (UTLS_VERIFY | UTLS_ASK)));
}

/*
 * Converts a list of names with commas to the form of ALPN, where each name follows a
 * byte with its length. Returns 0, -EINVAL or -ENOMEM.
 */
static int set_alpn(struct utls_set *e, const char *text)
{
	size_t size = strlen(text) + 1, from = 0;

	if (size > UINT16_MAX)
		return -EINVAL;
	e->e_alpn = (unsigned char *)malloc(size);
	if (!e->e_alpn)
		return -ENOMEM;
	e->e_alpn_size = (unsigned)size;
	while (from < size) {
		size_t n = strcspn(text + from, ",");

		if (n == 0 || n > 255)
			return -EINVAL;
		e->e_alpn[from] = (unsigned char)n;
		memcpy(e->e_alpn + from + 1, text + from, n);
		from += n + 1;
	}
	return 0;
}

/* Replaces OpenSSL's own function, which would ask for a password on the terminal. */
static int no_password(char *buffer, int size, int writing, void *arg)
{
	(void)buffer, (void)size, (void)writing, (void)arg;
	return -1;
}

/*
 * Gives the session the SSL_CTX whose certificate matches the name in the client's
 * request. If no certificate matches, the session stays with the first SSL_CTX.
 */
static int choose_certificate(SSL *ssl, int *alert, void *arg)
{
	const char *name = SSL_get_servername(ssl, TLSEXT_NAMETYPE_host_name);
	struct utls_set *e = (struct utls_set *)arg;

	(void)alert;
	for (size_t i = 0; name && i < e->e_count; i++) {
		X509 *x = SSL_CTX_get0_certificate(e->e_contexts[i]);

		if (X509_check_host(x, name, 0, 0, NULL) != 1)
			continue;
		if (i > 0)
			SSL_set_SSL_CTX(ssl, e->e_contexts[i]);
		break;
	}
	return SSL_TLSEXT_ERR_OK;
}

static void set_defaults(SSL_CTX *c, struct utls_set *e)
{
	static const unsigned char id[] = "usched";

	SSL_CTX_set_min_proto_version(c, TLS1_2_VERSION);
	if (SSL_CTX_get_security_level(c) < 2)
		SSL_CTX_set_security_level(c, 2);
	SSL_CTX_set_options(c, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION
			       | SSL_OP_CIPHER_SERVER_PREFERENCE);
	SSL_CTX_set_mode(c, SSL_MODE_RELEASE_BUFFERS);
	SSL_CTX_set_default_passwd_cb(c, no_password);
	/* Clients keep sessions in tickets, so the server keeps none. */
	SSL_CTX_set_session_cache_mode(c, SSL_SESS_CACHE_OFF);
	SSL_CTX_set_session_id_context(c, id, sizeof id - 1);
	if (!(e->e_flags & UTLS_CLIENT)) {
		SSL_CTX_set_tlsext_servername_callback(c, choose_certificate);
		SSL_CTX_set_tlsext_servername_arg(c, e);
	}
}

static int choose_protocol(SSL *ssl, const unsigned char **out, unsigned char *size,
			   const unsigned char *in, unsigned in_size, void *arg)
{
	const struct utls_set *e = (const struct utls_set *)arg;
	unsigned char *chosen;

	(void)ssl;
	if (SSL_select_next_proto(&chosen, size, e->e_alpn, e->e_alpn_size, in, in_size)
	    != OPENSSL_NPN_NEGOTIATED)
		return SSL_TLSEXT_ERR_ALERT_FATAL;
	*out = chosen;
	return SSL_TLSEXT_ERR_OK;
}

static int load_certificate(SSL_CTX *c, const struct utls_certificate *t)
{
	return SSL_CTX_use_certificate_chain_file(c, t->t_chain) == 1
	       && SSL_CTX_use_PrivateKey_file(c, t->t_key, SSL_FILETYPE_PEM) == 1
	       && SSL_CTX_check_private_key(c) == 1 ? 0 : -EPROTO;
}

static int load_authorities(SSL_CTX *c, const struct utls_conf *conf)
{
	const char *file = conf->f_authorities;
	unsigned flags = conf->f_flags;
	int mode = flags & UTLS_VERIFY ? SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT
		   : flags & UTLS_ASK ? SSL_VERIFY_PEER
		   : (flags & (UTLS_CLIENT | UTLS_UNVERIFIED)) == UTLS_CLIENT
		   ? SSL_VERIFY_PEER : SSL_VERIFY_NONE;

	SSL_CTX_set_verify(c, mode, NULL);
	if (file && SSL_CTX_load_verify_file(c, file) != 1)
		return -EPROTO;
	if (file && !(flags & UTLS_CLIENT)) {
		STACK_OF(X509_NAME) *accepted = SSL_load_client_CA_file(file);

		if (!accepted)
			return -EPROTO;
		SSL_CTX_set_client_CA_list(c, accepted);
	}
	if (!file && flags & UTLS_CLIENT && SSL_CTX_set_default_verify_paths(c) != 1)
		return -EPROTO;
	return 0;
}

static int make_context(struct utls_set *e, const struct utls_conf *conf,
			const struct utls_certificate *t, SSL_CTX **made)
{
	bool client = e->e_flags & UTLS_CLIENT;
	SSL_CTX *c = SSL_CTX_new(client ? TLS_client_method() : TLS_server_method());
	int rc;

	*made = c;
	if (!c)
		return -ENOMEM;
	set_defaults(c, e);
	if (e->e_alpn && client
	    && SSL_CTX_set_alpn_protos(c, e->e_alpn, e->e_alpn_size))
		return -ENOMEM;
	if (e->e_alpn && !client)
		SSL_CTX_set_alpn_select_cb(c, choose_protocol, e);
	rc = t ? load_certificate(c, t) : 0;
	return rc ? rc : load_authorities(c, conf);
}

/*
 * Returns 0, -ENOMEM, -EINVAL or -EPROTO; for -EPROTO the cause is in OpenSSL's error
 * queue.
 */
static int fill_set(struct utls_set *e, const struct utls_conf *conf)
{
	int rc = conf->f_alpn ? set_alpn(e, conf->f_alpn) : 0;

	e->e_method = utls__method();
	if (!e->e_method)
		return -ENOMEM;
	for (size_t i = 0; i < e->e_count && !rc; i++)
		rc = make_context(e, conf,
				  conf->f_count ? &conf->f_certificates[i] : NULL,
				  &e->e_contexts[i]);
	return rc;
}

/* Returns an error, and its text in *why, for the first error in OpenSSL's queue. */
static int load_failure(const char **why)
{
	unsigned long code = ERR_peek_error();

	*why = ERR_reason_error_string(code);
	if (ERR_SYSTEM_ERROR(code)) {
		*why = "a file cannot be read";
		return -ERR_GET_REASON(code);
	}
	if (ERR_GET_REASON(code) == ERR_R_MALLOC_FAILURE)
		return -ENOMEM;
	if (!*why)
		*why = "OpenSSL does not say";
	return -EPROTO;
}

void utls__release_set(struct utls_set *e)
{
	if (__atomic_fetch_sub(&e->e_holds, 1, __ATOMIC_ACQ_REL) > 1)
		return;
	for (size_t i = 0; i < e->e_count; i++)
		SSL_CTX_free(e->e_contexts[i]);
	BIO_meth_free(e->e_method);
	free(e->e_alpn);
	free(e);
}

/*
 * Loads a configuration. Defers cancellation, since no call of the library is a
 * cancellation point, and reads of files would be.
 */
static int load(const struct utls_conf *conf, struct utls_set **set, const char **why)
{
	size_t count = conf->f_count ? conf->f_count : 1;
	int before, rc = -EINVAL;
	const char *unused;
	struct utls_set *e;

	why = why ? why : &unused;
	*why = "the configuration makes no sense";
	if (!is_sound(conf))
		return rc;
	*why = "out of memory";
	e = (struct utls_set *)calloc(1, sizeof *e + count * sizeof *e->e_contexts);
	if (!e)
		return -ENOMEM;
	e->e_holds = 1;
	e->e_flags = conf->f_flags;
	e->e_count = count;
	before = defer_cancel();
	ERR_clear_error();
	rc = fill_set(e, conf);
	if (rc == -EPROTO)
		rc = load_failure(why);
	ERR_clear_error();
	if (rc)
		utls__release_set(e);
	else
		*set = e, *why = "";
	allow_cancel(before);
	return rc;
}

int utls_context_create(const struct utls_conf *conf, struct utls_context **context,
			const char **why)
{
	struct utls_context *k = (struct utls_context *)calloc(1, sizeof *k);
	int rc;

	*context = NULL;
	if (!k)
		return -ENOMEM;
	pthread_mutex_init(&k->k_lock, NULL);
	rc = load(conf, &k->k_set, why);
	if (rc)
		free(k);
	else
		*context = k;
	return rc;
}

int utls_context_load(struct utls_context *k, const struct utls_conf *conf,
		      const char **why)
{
	struct utls_set *e, *before;
	int rc = load(conf, &e, why);

	if (rc)
		return rc;
	pthread_mutex_lock(&k->k_lock);
	before = k->k_set;
	k->k_set = e;
	pthread_mutex_unlock(&k->k_lock);
	utls__release_set(before);
	return 0;
}

void utls_context_free(struct utls_context *k)
{
	if (!k)
		return;
	utls__release_set(k->k_set);
	pthread_mutex_destroy(&k->k_lock);
	free(k);
}

struct utls_set *utls__hold_set(struct utls_context *k)
{
	struct utls_set *e;

	pthread_mutex_lock(&k->k_lock);
	e = k->k_set;
	__atomic_fetch_add(&e->e_holds, 1, __ATOMIC_RELAXED);
	pthread_mutex_unlock(&k->k_lock);
	return e;
}
