/* SPDX-License-Identifier: MIT
 *
 * clients.c: libraries that block, called by many threads of pthreads at once. What they
 * get is checked. It knows nothing of usched: adopt.sh runs it natively, with
 * libusched-posix.so preloaded, linked with that, and compiled with uposix.h.
 *
 *   clients MODE THREADS ROUNDS PORT [FILE]
 *
 *   pq            libpq: sums by PostgreSQL at the port
 *   redis         hiredis: counters, values and pipelines of Redis at the port
 *   curl          libcurl: GET /large by the name localhost; FILE is the same file
 *   ssl           OpenSSL: messages to an echo server behind TLS; FILE is its certificate
 *   sqlite        SQLite: rows into FILE, by a connection of each thread and one of all
 *   zlib          64 KiB, deflated and inflated
 *
 * A line of output has the numbers of good and bad rounds, seconds, and seconds of
 * processors. The exit status is 0 if none was bad.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <curl/curl.h>
#include <hiredis/hiredis.h>
#include <libpq-fe.h>
#include <openssl/ssl.h>
#include <pthread.h>
#include <signal.h>
#include <sqlite3.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>
#include <zlib.h>

enum {
	BLOCK = 65536,
	WAIT = 60                       /* seconds, for what takes a fraction of one */
};

struct mode {
	const char *name;
	void (*prepare)(void);
	void (*one)(long thread);       /* says bad() if something is wrong */
	void (*check)(void);
};

static const struct mode *mode;
static long threads, rounds, port, good, bad_ones;
static const char *file;

static double now(clockid_t clock)
{
	struct timespec t;

	clock_gettime(clock, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void well(void)
{
	__atomic_fetch_add(&good, 1, __ATOMIC_RELAXED);
}

static void bad(long thread, const char *what)
{
	if (__atomic_fetch_add(&bad_ones, 1, __ATOMIC_RELAXED) < 5)
		fprintf(stderr, "clients: %s, thread %ld: %s\n", mode->name, thread,
			what);
}

static void check(long thread, bool right, const char *what)
{
	if (right)
		well();
	else
		bad(thread, what);
}

/* ---- libpq ---- */

static void pq_round(PGconn *c, long thread, long i)
{
	char number[32], sum[32];
	const char *const values[] = { number };
	long n = 100 + thread + i;
	PGresult *r;

	snprintf(number, sizeof number, "%ld", n);
	snprintf(sum, sizeof sum, "%ld", n * (n + 1) / 2);
	r = PQexecParams(c, "select sum(i), repeat('x', 5000) from "
			 "generate_series(1, $1::int) i", 1, NULL, values, NULL, NULL, 0);
	check(thread, PQresultStatus(r) == PGRES_TUPLES_OK &&
	      !strcmp(PQgetvalue(r, 0, 0), sum) && PQgetlength(r, 0, 1) == 5000,
	      PQerrorMessage(c));
	PQclear(r);
}

static void pq(long thread)
{
	char options[200];
	PGconn *c;

	snprintf(options, sizeof options, "host=127.0.0.1 port=%ld user=postgres "
		 "dbname=postgres sslmode=disable gssencmode=disable connect_timeout=%d",
		 port, WAIT);
	c = PQconnectdb(options);
	if (PQstatus(c) == CONNECTION_OK)
		for (long i = 0; i < rounds; i++)
			pq_round(c, thread, i);
	else
		bad(thread, PQerrorMessage(c));
	PQfinish(c);
}

/* ---- hiredis ---- */

/* Whether a reply is such a one. */
static bool is(redisReply *r, int type, long integer, const char *text)
{
	bool right = r && r->type == type &&
		(type != REDIS_REPLY_INTEGER || r->integer == integer) &&
		(!text || (r->str && !strcmp(r->str, text)));

	if (r)
		freeReplyObject(r);
	return right;
}

static bool redis_round(redisContext *c, long thread, long i)
{
	char value[64];
	bool right;

	snprintf(value, sizeof value, "value %ld of %ld", i, thread);
	is(redisCommand(c, "DEL a%ld.%ld", thread, i), REDIS_REPLY_INTEGER, 0, NULL);
	right = is(redisCommand(c, "INCR n%ld", thread),
		   REDIS_REPLY_INTEGER, i + 1, NULL) &&
		is(redisCommand(c, "SET v%ld %s", thread, value),
		   REDIS_REPLY_STATUS, 0, "OK") &&
		is(redisCommand(c, "GET v%ld", thread), REDIS_REPLY_STRING, 0, value);
	for (int k = 0; right && k < 20; k++)
		right = redisAppendCommand(c, "APPEND a%ld.%ld 0123456789", thread, i) ==
			REDIS_OK;
	for (int k = 0; right && k < 20; k++) {
		void *r = NULL;

		right = redisGetReply(c, &r) == REDIS_OK &&
			is(r, REDIS_REPLY_INTEGER, 10 * (k + 1), NULL);
	}
	return right;
}

static void redis(long thread)
{
	struct timeval wait = { WAIT, 0 };
	redisContext *c = redisConnectWithTimeout("127.0.0.1", (int)port, wait);

	if (!c || c->err) {
		bad(thread, c ? c->errstr : "memory");
		return;
	}
	redisSetTimeout(c, wait);
	is(redisCommand(c, "DEL n%ld", thread), REDIS_REPLY_INTEGER, 0, NULL);
	for (long i = 0; i < rounds; i++)
		check(thread, redis_round(c, thread, i),
		      c->err ? c->errstr : "another answer");
	check(thread, is(redisCommand(c, "BLPOP none%ld 0.05", thread), REDIS_REPLY_NIL,
			 0, NULL), "BLPOP");
	redisFree(c);
}

/* ---- libcurl ---- */

static char *content;           /* of FILE */
static size_t content_length;

struct body {
	size_t length;
	bool right;
};

static void curl_prepare(void)
{
	FILE *f = fopen(file, "r");
	long length;

	curl_global_init(CURL_GLOBAL_ALL);
	if (!f || fseek(f, 0, SEEK_END) || (length = ftell(f)) < 0)
		exit(2);
	rewind(f);
	content_length = (size_t)length;
	content = malloc(content_length);
	if (!content || fread(content, 1, content_length, f) != content_length)
		exit(2);
	fclose(f);
}

static size_t receive(char *bytes, size_t one, size_t n, void *to)
{
	struct body *body = to;

	n *= one;
	if (body->length + n > content_length ||
	    memcmp(bytes, content + body->length, n))
		body->right = false;
	body->length += n;
	return n;
}

static void curl(long thread)
{
	CURL *c = curl_easy_init();
	char url[64];

	snprintf(url, sizeof url, "http://localhost:%ld/large", port);
	curl_easy_setopt(c, CURLOPT_URL, url);
	curl_easy_setopt(c, CURLOPT_NOSIGNAL, 1L);
	curl_easy_setopt(c, CURLOPT_PROXY, "");
	curl_easy_setopt(c, CURLOPT_TIMEOUT, (long)WAIT);
	curl_easy_setopt(c, CURLOPT_WRITEFUNCTION, receive);
	for (long i = 0; i < rounds; i++) {
		struct body body = { 0, true };
		long code = 0;
		CURLcode rc;

		curl_easy_setopt(c, CURLOPT_WRITEDATA, &body);
		rc = curl_easy_perform(c);
		curl_easy_getinfo(c, CURLINFO_RESPONSE_CODE, &code);
		check(thread, !rc && code == 200 && body.right &&
		      body.length == content_length,
		      rc ? curl_easy_strerror(rc) : "another file");
	}
	curl_easy_cleanup(c);
}

/* ---- OpenSSL ---- */

static SSL_CTX *context;

static void ssl_prepare(void)
{
	context = SSL_CTX_new(TLS_client_method());
	if (!context || !SSL_CTX_load_verify_locations(context, file, NULL))
		exit(2);
	SSL_CTX_set_verify(context, SSL_VERIFY_PEER, NULL);
}

static bool ssl_message(SSL *ssl, long thread, long i)
{
	char out[2000], in[sizeof out];
	int got = 0, n;

	for (size_t k = 0; k < sizeof out; k++)
		out[k] = (char)(k * 7 + (size_t)thread + (size_t)i);
	if (SSL_write(ssl, out, sizeof out) != sizeof out)
		return false;
	while (got < (int)sizeof in) {
		n = SSL_read(ssl, in + got, (int)sizeof in - got);
		if (n <= 0)
			return false;
		got += n;
	}
	return !memcmp(in, out, sizeof in);
}

static void ssl(long thread)
{
	struct sockaddr_in to = { .sin_family = AF_INET };
	int fd = socket(AF_INET, SOCK_STREAM, 0);
	SSL *ssl = SSL_new(context);

	to.sin_port = htons((uint16_t)port);
	to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	if (fd < 0 || connect(fd, (struct sockaddr *)&to, sizeof to)) {
		bad(thread, "connect");
	} else if (!ssl || !SSL_set_fd(ssl, fd) || !SSL_set1_host(ssl, "localhost") ||
		   SSL_connect(ssl) != 1) {
		bad(thread, "SSL_connect");
	} else {
		for (long i = 0; i < rounds; i++)
			check(thread, ssl_message(ssl, thread, i), "other bytes");
		SSL_shutdown(ssl);
	}
	SSL_free(ssl);
	close(fd);
}

/* ---- SQLite ---- */

static sqlite3 *common;

static int take_value(void *to, int n, char **values, char **names)
{
	(void)names;
	if (n == 1)
		*(long *)to = values[0] ? atol(values[0]) : 0;
	return 0;
}

static int execute(sqlite3 *db, const char *text, long *value)
{
	return sqlite3_exec(db, text, value ? take_value : NULL, value, NULL);
}

static sqlite3 *sqlite_open(void)
{
	sqlite3 *db;

	if (sqlite3_open(file, &db))
		return NULL;
	sqlite3_busy_timeout(db, WAIT * 1000);
	execute(db, "pragma synchronous=off", NULL);
	return db;
}

static void sqlite_prepare(void)
{
	unlink(file);
	common = sqlite_open();
	if (!common || execute(common, "pragma journal_mode=wal", NULL) ||
	    execute(common, "create table t(thread int, value int)", NULL))
		exit(2);
}

static void sqlite(long thread)
{
	sqlite3 *db = sqlite_open();
	char text[100];
	int rc;

	if (!db) {
		bad(thread, "open");
		return;
	}
	for (long i = 0; i < rounds; i++) {
		long sum = 0;

		snprintf(text, sizeof text, "insert into t values(%ld, %ld)", thread, i);
		rc = execute(db, text, NULL);
		snprintf(text, sizeof text, "select sum(value) from t where thread=%ld",
			 thread);
		if (!rc)        /* one connection for all: a mutex of SQLite's */
			rc = execute(common, text, &sum);
		check(thread, !rc && sum == i * (i + 1) / 2,
		      rc ? sqlite3_errstr(rc) : "another sum");
	}
	sqlite3_close(db);
}

static void sqlite_check(void)
{
	long rows = -1;

	check(-1, !execute(common, "select count(*) from t", &rows) &&
	      rows == threads * rounds, "another number of rows");
	sqlite3_close(common);
	unlink(file);
}

/* ---- zlib ---- */

static void zlib(long thread)
{
	unsigned char *in = malloc(BLOCK), *out = malloc(2 * BLOCK);
	unsigned char *again = malloc(BLOCK);
	uint32_t random = (uint32_t)thread + 1;

	for (long i = 0; in && out && again && i < rounds; i++) {
		uLongf length = 2 * BLOCK, back = BLOCK;
		struct timespec pause = { 0, 10000000 };
		int rc;

		for (int k = 0; k < BLOCK; k++) {
			random = random * 1664525 + 1013904223;
			in[k] = (unsigned char)('a' + (random >> 24) % 20);
		}
		rc = compress2(out, &length, in, BLOCK, 1 + (int)(i % 9));
		nanosleep(&pause, NULL);
		if (!rc)
			rc = uncompress(again, &back, out, length);
		check(thread, !rc && back == BLOCK && !memcmp(in, again, BLOCK),
		      "other bytes");
	}
	free(in);
	free(out);
	free(again);
}

/* ---- All of them ---- */

static const struct mode modes[] = {
	{ "pq", NULL, pq, NULL },
	{ "redis", NULL, redis, NULL },
	{ "curl", curl_prepare, curl, NULL },
	{ "ssl", ssl_prepare, ssl, NULL },
	{ "sqlite", sqlite_prepare, sqlite, sqlite_check },
	{ "zlib", NULL, zlib, NULL }
};

static void *begin(void *number)
{
	mode->one((long)(intptr_t)number);
	return number;
}

static void run(void)
{
	pthread_t *all = calloc((size_t)threads, sizeof *all);
	long started;

	for (started = 0; all && started < threads; started++) {
		int rc = pthread_create(&all[started], NULL, begin,
					(void *)(intptr_t)started);

		if (rc) {
			bad(started, strerror(rc));
			break;
		}
	}
	for (long i = 0; i < started; i++) {
		void *result = NULL;

		if (pthread_join(all[i], &result) || result != (void *)(intptr_t)i)
			bad(i, "join");
	}
	free(all);
}

int main(int argc, char **argv)
{
	double began, time;

	for (size_t i = 0; argc >= 5 && i < sizeof modes / sizeof modes[0]; i++)
		if (!strcmp(modes[i].name, argv[1]))
			mode = &modes[i];
	if (!mode)
		return 2;
	threads = atol(argv[2]);
	rounds = atol(argv[3]);
	port = atol(argv[4]);
	file = argc > 5 ? argv[5] : NULL;
	signal(SIGPIPE, SIG_IGN);
	if (mode->prepare)
		mode->prepare();
	began = now(CLOCK_MONOTONIC);
	time = now(CLOCK_PROCESS_CPUTIME_ID);
	run();
	began = now(CLOCK_MONOTONIC) - began;
	time = now(CLOCK_PROCESS_CPUTIME_ID) - time;
	if (mode->check)
		mode->check();
	printf("%s threads %ld good %ld bad %ld seconds %.3f cpu %.3f\n", mode->name,
	       threads, good, bad_ones, began, time);
	return bad_ones != 0;
}
