/* SPDX-License-Identifier: MIT */
/*
 * tls.c: a fuzz target for sessions of TLS: a server of utls.h, and a client that has
 * shaken hands and then sends what the input says: records of any type, whole or in
 * pieces, encrypted with the right keys or spoiled, each up to thousands of times. The
 * first flight may be spoiled or in pieces, too.
 *
 * What holds: between two looks at the clock the server handles WORK records at most,
 * those that it writes included; few batches of them after the deadline of a call has
 * come; VAIN without a byte of data; and the replies that it keeps are bounded. Its calls
 * return what utls.h says, and it comes to its end.
 *
 * The input: a byte of flags, a byte of the first flight, and then orders, see act().
 * OpenSSL's random numbers are a sequence that begins anew with each run.
 */
#define OPENSSL_SUPPRESS_DEPRECATED     /* RAND_set_rand_method() */
#include <errno.h>
#include <openssl/core_names.h>
#include <openssl/err.h>
#include <openssl/kdf.h>
#include <openssl/pem.h>
#include <openssl/rand.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include "../../rr.h"
#include "../../tls/utls.h"
#include "../../unet.h"
#include "../../usync.h"
#include "fuzz.h"

enum {                                  /* bits of the first byte */
	OLD   = 1,                      /* TLS 1.2 */
	DEAF  = 2,                      /* the client reads nothing after the handshake */
	ECHOES = 4,                     /* the server answers */
	HASTY = 8,                      /* its deadlines are some looks away */
	READY = 16,                     /* it calls utls_wait_readable() before */
};

enum {
	WORK     = 96,                  /* records between two looks */
	BATCHES  = 6,                   /* of records, after a deadline has come */
	VAIN     = 1100,                /* records, a call's more than what is refused */
	REPLIES  = 100000,              /* bytes that the server keeps */
	SENT_MAX = 200000,              /* bytes that the client sends */
	LOOKS    = 20,                  /* ns, each a look: of a hasty deadline */
	KEY = 16, IV = 12, TAG = 16, EXPLICIT = 8, SECRET = 32, HEADER = 5,
	RECORD_MAX = 1024,              /* bytes of content */
};

static struct uprocs *rr;
static struct utls_context *context;    /* the server's */
static SSL_CTX *clients;
static unsigned flags;

static struct {
	int      fd;
	int64_t  looked;                /* fuzz_now at the last look */
	int64_t  start, deadline;       /* of the call */
	unsigned work, batches, vain;
	size_t   written, read;         /* bytes of records; of these, by the client */
} server;

static struct {
	int      fd;
	bool     old;
	uint8_t  secret[SECRET], key[KEY], iv[IV];
	uint64_t number;                /* of the next record */
	size_t   sent;
	unsigned piece;                 /* bytes sent at a time; 0: all */
	bool     spoils;                /* the next record */
} client;

/* ---- Random numbers ---- */

static uint64_t seed;

static int next_bytes(unsigned char *data, int n)
{
	for (int i = 0; i < n; i++) {
		seed = seed * 6364136223846793005u + 1442695040888963407u;
		data[i] = (unsigned char)(seed >> 56);
	}
	return 1;
}

static int be_random(void)
{
	return 1;
}

static const RAND_METHOD numbers = { .bytes = next_bytes, .pseudorand = next_bytes,
				     .status = be_random };

/* ---- Contexts ---- */

static void write_certificate(const char *path, const char *key_path)
{
	EVP_PKEY *key = EVP_EC_gen("P-256");
	X509 *x = X509_new();
	FILE *f = fopen(path, "w"), *k = fopen(key_path, "w");

	CHECK(key && x && f && k);
	ASN1_INTEGER_set(X509_get_serialNumber(x), 1);
	X509_gmtime_adj(X509_getm_notBefore(x), -3600);
	X509_gmtime_adj(X509_getm_notAfter(x), 3600000);
	CHECK(X509_set_pubkey(x, key) && X509_sign(x, key, EVP_sha256()) > 0);
	CHECK(PEM_write_X509(f, x));
	CHECK(PEM_write_PrivateKey(k, key, NULL, NULL, 0, NULL, NULL));
	fclose(f);
	fclose(k);
	X509_free(x);
	EVP_PKEY_free(key);
}

/* OpenSSL's line "CLIENT_TRAFFIC_SECRET_0 random secret". */
static void keep_secret(const SSL *ssl, const char *line)
{
	static const char label[] = "CLIENT_TRAFFIC_SECRET_0 ";
	const char *hex = strrchr(line, ' ') + 1;

	(void)ssl;
	if (strncmp(line, label, sizeof label - 1) || strlen(hex) != 2 * SECRET)
		return;
	for (size_t i = 0; i < SECRET; i++) {
		unsigned byte;

		sscanf(hex + 2 * i, "%2x", &byte);
		client.secret[i] = (uint8_t)byte;
	}
}

static void create(void)
{
	static const struct utls_certificate one = { "fuzz-tls.pem", "fuzz-tls.key" };
	const struct utls_conf conf = { .f_certificates = &one, .f_count = 1 };
	const char *why = "";

	RAND_set_rand_method(&numbers);
	write_certificate(one.t_chain, one.t_key);
	CHECK(utls_context_create(&conf, &context, &why) == 0);
	clients = SSL_CTX_new(TLS_client_method());
	CHECK(clients);
	CHECK(SSL_CTX_set_ciphersuites(clients, "TLS_AES_128_GCM_SHA256"));
	CHECK(SSL_CTX_set_cipher_list(clients, "ECDHE-ECDSA-AES128-GCM-SHA256"));
	SSL_CTX_set_keylog_callback(clients, keep_secret);
}

/* ---- The server ---- */

/* OpenSSL calls it for the header of each record, and for what is in it. */
static void count_record(int written, int version, int type, const void *data,
			 size_t size, SSL *ssl, void *arg)
{
	const uint8_t *header = data;

	(void)version, (void)ssl, (void)arg;
	if (type != SSL3_RT_HEADER || size < HEADER)
		return;
	if (fuzz_now != server.looked) {
		server.looked = fuzz_now;
		server.work = 0;
		server.batches += fuzz_now >= server.deadline;
	}
	CHECK(++server.work <= WORK);
	CHECK(server.batches <= BATCHES);
	if (written)
		server.written += (size_t)(header[3] << 8 | header[4]) + HEADER;
	else
		CHECK(++server.vain <= VAIN);
}

static void check_replies(void)
{
	int queued = 0;

	ioctl(client.fd, FIONREAD, &queued);
	CHECK(server.written <= server.read + (size_t)queued + REPLIES);
}

static int64_t begin_call(void)
{
	server.batches = 0;
	server.deadline = usync_after(flags & HASTY ? LOOKS : 30 * USYNC_SECOND);
	return server.deadline;
}

static bool is_known(ssize_t rc)
{
	return rc == -EPROTO || rc == -ECONNRESET || rc == -ETIMEDOUT || rc == -EPIPE;
}

/* Reads until the end, an error, or many deadlines. */
static void talk(struct utls *s)
{
	unsigned late = 0;
	char text[4096];
	ssize_t n = 1;

	while (n > 0 || (n == -ETIMEDOUT && ++late < 50)) {
		if (flags & READY)
			utls_wait_readable(s, begin_call());
		n = utls_read(s, text, sizeof text, begin_call());
		CHECK(n >= 0 || is_known(n));
		check_replies();
		if (n > 0)
			server.vain = 0;
		if (n > 0 && flags & ECHOES
		    && utls_write_all(s, text, (size_t)n, NULL, begin_call()))
			n = -1;
	}
	CHECK(n >= -1 || n == -ETIMEDOUT || *utls_error(s) || n == -EPIPE);
}

static void serve(int fd, void *unused)
{
	struct utls *s;
	int rc;

	(void)unused;
	CHECK(utls_create(context, fd, NULL, &s) == 0);
	SSL_set_msg_callback(utls_ssl(s), count_record);
	for (int i = 0; i < 50; i++) {
		rc = utls_handshake(s, begin_call());
		CHECK(rc == 0 || is_known(rc));
		if (rc != -ETIMEDOUT)
			break;
		usync_sleep_until(usync_after(USYNC_SECOND));
	}
	server.vain = 0;
	if (rc == 0)
		talk(s);
	utls_shutdown(s, begin_call());
	utls_free(s);
	CHECK(ERR_peek_error() == 0);
	unet_close(fd);
}

/* ---- Keys of the client ---- */

/* HKDF-Expand-Label of RFC 8446, without a context. */
static void expand(const char *label, uint8_t *out, size_t size)
{
	EVP_KDF *kdf = EVP_KDF_fetch(NULL, "HKDF", NULL);
	EVP_KDF_CTX *c = EVP_KDF_CTX_new(kdf);
	int mode = EVP_KDF_HKDF_MODE_EXPAND_ONLY;
	char digest[] = "SHA256", info[64];
	uint8_t *secret = client.secret;
	size_t n = strlen(label) + 6;
	OSSL_PARAM params[] = {
		OSSL_PARAM_construct_utf8_string(OSSL_KDF_PARAM_DIGEST, digest, 0),
		OSSL_PARAM_construct_int(OSSL_KDF_PARAM_MODE, &mode),
		OSSL_PARAM_construct_octet_string(OSSL_KDF_PARAM_KEY, secret, SECRET),
		OSSL_PARAM_construct_octet_string(OSSL_KDF_PARAM_INFO, info, n + 4),
		OSSL_PARAM_END,
	};

	info[0] = 0;
	info[1] = (char)size;
	info[2] = (char)n;
	snprintf(info + 3, sizeof info - 3, "tls13 %s", label);
	info[n + 3] = 0;
	CHECK(EVP_KDF_derive(c, out, size, params) == 1);
	EVP_KDF_CTX_free(c);
	EVP_KDF_free(kdf);
}

/* The key block of RFC 5246. */
static void expand_old(SSL *ssl)
{
	EVP_KDF *kdf = EVP_KDF_fetch(NULL, "TLS1-PRF", NULL);
	EVP_KDF_CTX *c = EVP_KDF_CTX_new(kdf);
	char digest[] = "SHA256", label[] = "key expansion";
	uint8_t master[48], block[2 * KEY + 4], theirs[32], ours[32];
	OSSL_PARAM params[] = {
		OSSL_PARAM_construct_utf8_string(OSSL_KDF_PARAM_DIGEST, digest, 0),
		OSSL_PARAM_construct_octet_string(OSSL_KDF_PARAM_SECRET, master, 48),
		OSSL_PARAM_construct_octet_string(OSSL_KDF_PARAM_SEED, label, 13),
		OSSL_PARAM_construct_octet_string(OSSL_KDF_PARAM_SEED, theirs, 32),
		OSSL_PARAM_construct_octet_string(OSSL_KDF_PARAM_SEED, ours, 32),
		OSSL_PARAM_END,
	};

	SSL_SESSION_get_master_key(SSL_get_session(ssl), master, sizeof master);
	SSL_get_server_random(ssl, theirs, sizeof theirs);
	SSL_get_client_random(ssl, ours, sizeof ours);
	CHECK(EVP_KDF_derive(c, block, sizeof block, params) == 1);
	memcpy(client.key, block, KEY);
	memcpy(client.iv, block + 2 * KEY, 4);
	EVP_KDF_CTX_free(c);
	EVP_KDF_free(kdf);
}

static void set_keys(void)
{
	expand("key", client.key, KEY);
	expand("iv", client.iv, IV);
	client.number = 0;
}

static void change_keys(void)
{
	uint8_t next[SECRET];

	expand("traffic upd", next, SECRET);
	memcpy(client.secret, next, SECRET);
	set_keys();
}

/* ---- Records ---- */

static void put(const uint8_t *data, size_t size)
{
	size_t n = client.piece ? client.piece : size;

	for (; size > 0 && client.sent < SENT_MAX; size -= n, data += n) {
		n = n < size ? n : size;
		if (unet_write_all(client.fd, data, n, NULL,
				   usync_after(60 * USYNC_SECOND)))
			client.sent = SENT_MAX;         /* the server is gone, or deaf */
		client.sent += n + 1;
		if (client.piece)
			ustack_yield();
	}
}

/* Encrypts in place: the tag is behind the content. */
static void seal(const uint8_t *nonce, const uint8_t *with, int with_size, uint8_t *data,
		 int size)
{
	EVP_CIPHER_CTX *c = EVP_CIPHER_CTX_new();
	int n;

	CHECK(EVP_EncryptInit_ex(c, EVP_aes_128_gcm(), NULL, client.key, nonce));
	CHECK(EVP_EncryptUpdate(c, NULL, &n, with, with_size));
	CHECK(EVP_EncryptUpdate(c, data, &n, data, size));
	CHECK(EVP_EncryptFinal_ex(c, data + size, &n));
	CHECK(EVP_CIPHER_CTX_ctrl(c, EVP_CTRL_GCM_GET_TAG, TAG, data + size));
	EVP_CIPHER_CTX_free(c);
}

static void set_header(uint8_t *record, uint8_t type, size_t size)
{
	record[0] = type;
	record[1] = record[2] = 3;
	record[3] = (uint8_t)(size >> 8);
	record[4] = (uint8_t)size;
}

static void set_number(uint8_t number[8])
{
	for (int i = 0; i < 8; i++)
		number[i] = (uint8_t)(client.number >> (56 - 8 * i));
	client.number++;
}

static size_t seal_new(uint8_t *record, uint8_t type, size_t size)
{
	uint8_t nonce[IV], number[8];

	set_number(number);
	memcpy(nonce, client.iv, IV);
	for (int i = 0; i < 8; i++)
		nonce[4 + i] ^= number[i];
	record[HEADER + size++] = type;
	set_header(record, SSL3_RT_APPLICATION_DATA, size + TAG);
	seal(nonce, record, HEADER, record + HEADER, (int)size);
	return HEADER + size + TAG;
}

static size_t seal_old(uint8_t *record, uint8_t type, size_t size)
{
	uint8_t nonce[IV], with[8 + HEADER];

	set_number(with);
	set_header(with + 8, type, size);
	memcpy(nonce, client.iv, 4);
	memcpy(nonce + 4, with, EXPLICIT);
	memmove(record + HEADER + EXPLICIT, record + HEADER, size);
	memcpy(record + HEADER, with, EXPLICIT);
	set_header(record, type, EXPLICIT + size + TAG);
	seal(nonce, with, sizeof with, record + HEADER + EXPLICIT, (int)size);
	return HEADER + EXPLICIT + size + TAG;
}

static void send_record(uint8_t type, const void *data, size_t size)
{
	uint8_t record[HEADER + EXPLICIT + RECORD_MAX + 1 + TAG];
	size_t n;

	memcpy(record + HEADER, data, size);
	n = client.old ? seal_old(record, type, size) : seal_new(record, type, size);
	if (client.spoils)
		record[n / 2] ^= 1;
	client.spoils = false;
	put(record, n);
}

static void send_plain(uint8_t type, const void *data, size_t size)
{
	uint8_t record[HEADER + RECORD_MAX];

	set_header(record, type, size);
	memcpy(record + HEADER, data, size);
	put(record, HEADER + size);
}

/* ---- Orders ---- */

/* From the input. */
static size_t take_bytes(uint8_t *data)
{
	size_t n = fuzz_take(256);

	n = n < fuzz_left ? n : fuzz_left;
	for (size_t i = 0; i < n; i++)
		data[i] = (uint8_t)fuzz_take(256);
	return n;
}

/* Few as a rule, or thousands. */
static unsigned take_times(void)
{
	unsigned n = fuzz_take(256);

	return n < 200 ? n % 8 + 1 : (n - 199) * 100;
}

/* A message of a handshake, in records of `piece' bytes. */
static void send_message(uint8_t type, const uint8_t *data, size_t size, size_t piece)
{
	uint8_t message[4 + 256] = { type, 0, (uint8_t)(size >> 8), (uint8_t)size };

	memcpy(message + 4, data, size);
	size += 4;
	for (size_t at = 0, n; at < size && client.sent < SENT_MAX; at += n) {
		n = piece < size - at ? piece : size - at;
		send_record(SSL3_RT_HANDSHAKE, message + at, n);
	}
}

static void send_changes(unsigned times)
{
	const uint8_t update[] = { SSL3_MT_KEY_UPDATE, 0, 0, 1, (uint8_t)fuzz_take(3) };

	for (; times > 0 && client.sent < SENT_MAX; times--) {
		send_record(SSL3_RT_HANDSHAKE, update, sizeof update);
		if (!client.old)
			change_keys();
	}
}

static void send_messages(unsigned times)
{
	static const uint8_t types[] = {
		SSL3_MT_HELLO_REQUEST, SSL3_MT_CLIENT_HELLO, SSL3_MT_NEWSESSION_TICKET,
		SSL3_MT_CERTIFICATE, SSL3_MT_FINISHED, SSL3_MT_KEY_UPDATE,
		SSL3_MT_CERTIFICATE_REQUEST, SSL3_MT_END_OF_EARLY_DATA,
	};
	uint8_t type = types[fuzz_take(sizeof types)], data[256];
	size_t piece = 1 + fuzz_take(40), size = take_bytes(data);

	for (; times > 0 && client.sent < SENT_MAX; times--)
		send_message(type, data, size, piece);
}

/* Of any type and content. */
static void send_records(unsigned times, bool plain)
{
	static const uint8_t types[] = {
		SSL3_RT_CHANGE_CIPHER_SPEC, SSL3_RT_ALERT, SSL3_RT_HANDSHAKE,
		SSL3_RT_APPLICATION_DATA, 24, 0,
	};
	uint8_t type = types[fuzz_take(sizeof types)], data[256];
	size_t size = take_bytes(data);

	for (; times > 0 && client.sent < SENT_MAX; times--)
		if (plain)
			send_plain(type, data, size);
		else
			send_record(type, data, size);
}

static void send_data(unsigned times)
{
	static const uint8_t zeros[RECORD_MAX];
	size_t size = 4 * fuzz_take(256);

	for (; times > 0 && client.sent < SENT_MAX; times--)
		send_record(SSL3_RT_APPLICATION_DATA, zeros, size);
}

static void act(unsigned order)
{
	uint8_t data[256];

	switch (order) {
	case 0: case 1: send_data(take_times()); break;
	case 2: send_changes(take_times()); break;
	case 3: send_messages(take_times()); break;
	case 4: send_records(take_times(), false); break;
	case 5: send_records(take_times(), true); break;
	case 6: put(data, take_bytes(data)); break;
	case 7: client.spoils = true; break;
	case 8: client.piece = fuzz_take(64); break;
	default: usync_sleep_until(usync_after(fuzz_take(2) ? 20 * USYNC_SECOND : 1));
	}
}

/* ---- The client ---- */

/* The first flight is one record: a byte spoiled, or in records of so many bytes. */
static void send_first(uint8_t *data, size_t size, unsigned how)
{
	size_t at = fuzz_take(256), piece = how % 64;

	if (how >= 192)
		data[at % size] ^= (uint8_t)(1u << how % 8);
	if (how < 64 || piece == 0 || size < HEADER) {
		put(data, size);
		return;
	}
	for (at = HEADER; at < size; at += piece) {
		piece = piece < size - at ? piece : size - at;
		send_plain(SSL3_RT_HANDSHAKE, data + at, piece);
	}
}

/* What OpenSSL has written. */
static void flush(BIO *out, bool *first)
{
	int n = BIO_pending(out);
	uint8_t *data = malloc((size_t)n + 1);

	CHECK(data);
	n = BIO_read(out, data, n);
	if (n > 0 && *first)
		send_first(data, (size_t)n, fuzz_take(256));
	else if (n > 0)
		put(data, (size_t)n);
	*first = *first && n <= 0;
	free(data);
}

static ssize_t read_some(void *data, size_t size)
{
	ssize_t n = unet_read(client.fd, data, size, USCHED_NEVER);

	server.read += n > 0 ? (size_t)n : 0;
	return n;
}

static bool shake(SSL *ssl)
{
	BIO *in = BIO_new(BIO_s_mem()), *out = BIO_new(BIO_s_mem());
	bool first = true;
	char data[4096];
	ssize_t n = 1;
	int rc;

	SSL_set_bio(ssl, in, out);
	SSL_set_connect_state(ssl);
	SSL_set_max_proto_version(ssl, client.old ? TLS1_2_VERSION : TLS1_3_VERSION);
	while ((rc = SSL_do_handshake(ssl)) != 1 && n > 0
	       && SSL_get_error(ssl, rc) == SSL_ERROR_WANT_READ) {
		ERR_clear_error();
		flush(out, &first);
		n = read_some(data, sizeof data);
		if (n > 0)
			BIO_write(in, data, (int)n);
	}
	ERR_clear_error();
	flush(out, &first);
	return rc == 1;
}

static void read_rest(void *unused)
{
	char data[4096];

	(void)unused;
	while (!(flags & DEAF) && read_some(data, sizeof data) > 0)
		;
}

static void run_client(void *unused)
{
	SSL *ssl = SSL_new(clients);
	struct ustack *reader;

	(void)unused;
	if (shake(ssl)) {
		if (client.old)
			expand_old(ssl), client.number = 1;
		else
			set_keys();
		CHECK(rr_start(rr, read_rest, NULL, &reader) == 0);
		while (fuzz_left > 0 && client.sent < SENT_MAX)
			act(fuzz_take(10));
		unet_shutdown(client.fd, SHUT_WR);
		CHECK(ustack_join(reader, NULL, USCHED_NEVER) == 0);
	}
	SSL_free(ssl);
	ERR_clear_error();
	unet_shutdown(client.fd, SHUT_RDWR);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct uprocs_conf conf = { .c_embed = 1, .c_stacks = 4,
				    .c_stack_size = 1 << 20 };
	struct ustack_how how = { .h_serve = serve };
	int pair[2];

	seed = 1;
	if (!context)
		create();
	fuzz_now = USYNC_SECOND;
	fuzz_input = data;
	fuzz_left = size;
	flags = fuzz_take(256);
	CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0);
	memset(&server, 0, sizeof server);
	memset(&client, 0, sizeof client);
	server.fd = pair[0];
	client.fd = pair[1];
	client.old = flags & OLD;
	CHECK(rr_create(&conf, &rr) == 0);
	how.h_fd = server.fd;
	CHECK(rr_start_with(rr, &how, NULL, NULL, NULL) == 0);
	CHECK(rr_start(rr, run_client, NULL, NULL) == 0);
	CHECK(uprocs_destroy(rr, USCHED_NEVER) == 0);
	unet_close(client.fd);
	return 0;
}
