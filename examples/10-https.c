/* SPDX-License-Identifier: MIT */
/*
 * A web server over TLS for the files of a directory: HTTP/1.1, a thread for each
 * connection. It needs Linux 5.6 and OpenSSL 3 (libssl-dev). Run it with a port, a
 * directory, and a certificate and its key; more of these are for other names:
 *
 *   cc -O2 examples/10-https.c build/one/usched-all.c -Ibuild/one -DUSCHED_TLS \
 *     -pthread -lssl -lcrypto -o https
 *   ./https 8443 /usr/share/doc chain.pem key.pem &
 *   curl --cacert authority.pem https://localhost:8443/copyright
 *
 * SIGHUP reads the certificates again; connections go on with what they have. SIGTERM
 * ends the scope of all connections, and so their waits.
 *
 * An idle connection is a session of OpenSSL and a few frames: its thread waits without a
 * buffer, outside of OpenSSL. Answers with small files are kept for a second. With
 * -DKEEP=0 each request opens its file.
 */
#define _GNU_SOURCE             /* syscall(), memmem() */
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "usched-all.h"

enum {
	CERTIFICATES = 16,
	SIZE         = 16384,           /* bytes: of a request, and of a part of a file */
	STACKS       = 64,              /* shared: OpenSSL touches 12 KiB of each */
	KEPT         = 256,             /* answers, with their heads at most SIZE bytes */
	HANDSHAKES   = 128,             /* at a time: more clients wait */
	TRIES        = 64,              /* to open a file while others are renamed */
};

#ifndef KEEP
#define KEEP USYNC_SECOND               /* for an answer, from when its file was read */
#endif

#define HEAD  "HTTP/1.1 %d %s\r\nContent-Length: %lld\r\n" \
	      "Strict-Transport-Security: max-age=31536000\r\n" \
	      "Content-Security-Policy: default-src 'self'\r\n" \
	      "X-Content-Type-Options: nosniff\r\n\r\n"
#define GREET (10 * USYNC_SECOND)       /* for a client to complete its handshake */
#define IDLE  (60 * USYNC_SECOND)       /* between requests */
#define STALL (10 * USYNC_SECOND)       /* to receive a request, or to send an answer */
#define LINGER (5 * USYNC_SECOND)       /* for a client to take its last answer */

struct work {
	struct utls *session;
	size_t       have;              /* bytes of `in' */
	char         in[SIZE + 1], out[SIZE];
};

struct answer {
	int64_t until;
	size_t  path, size;             /* bytes */
	char    data[];                 /* the path, with its 0, then the answer */
};

static struct answer *kept[KEPT];       /* by a hash of the path */
static struct utls_certificate certificates[CERTIFICATES];
static struct utls_conf conf = { .f_certificates = certificates, .f_alpn = "http/1.1" };
static struct utls_context *context;
static struct usync_sem handshakes = { .sm_count = HANDSHAKES };
static struct uprocs *rr;
static struct usync_scope *all;
static int directory, listener, signals;

static int check(int rc, const char *what)
{
	if (rc >= 0)
		return rc;
	fprintf(stderr, "https: %s: %s\n", what, ustack_error(rc));
	exit(1);
}

static bool put(struct work *w, size_t size)
{
	return utls_write_all(w->session, w->out, size, NULL, usync_after(STALL)) == 0;
}

static bool put_head(struct work *w, int status, const char *text)
{
	return put(w, (size_t)snprintf(w->out, SIZE, HEAD, status, text, 0LL));
}

static struct answer **slot_of(const char *path)
{
	unsigned hash = 0;

	while (*path)
		hash = hash * 31 + (unsigned char)*path++;
	return &kept[hash % KEPT];
}

static void keep(const char *path, const char *data, size_t size)
{
	struct answer **slot = slot_of(path), *a;
	size_t n = strlen(path) + 1;

	a = KEEP ? malloc(sizeof *a + n + size) : NULL;
	if (!a)
		return;
	*a = (struct answer){ usync_after(KEEP), n, size };
	memcpy(a->data, path, n);
	memcpy(a->data + n, data, size);
	free(*slot);
	*slot = a;
}

/* A copy is sent, since the answer may be exchanged meanwhile. */
static size_t copy_kept(struct work *w, const char *path)
{
	const struct answer *a = *slot_of(path);

	if (!a || strcmp(a->data, path) != 0 || a->until <= usync_after(0))
		return 0;
	memcpy(w->out, a->data + a->path, a->size);
	return a->size;
}

/* The head goes with the first part of the file: one record for small ones. */
static bool put_file(struct work *w, const char *path, int fd, long long size)
{
	long long from = 0;
	size_t at = (size_t)snprintf(w->out, SIZE, HEAD, 200, "OK", size);

	do {
		size_t room = SIZE - at, left = (size_t)(size - from);
		ssize_t n = left ? ufile_pread(fd, w->out + at, room < left ? room : left,
					       from, USCHED_NEVER) : 0;

		if (n < 0 || (n == 0 && left))
			return false;
		at += (size_t)n;
		if (n == size)
			keep(path, w->out, at);
		if (!put(w, at))
			return false;
		from += n;
		at = 0;
	} while (from < size);
	return true;
}

/*
 * Opens no file outside of the directory. A path with `..' fails with EAGAIN if any file
 * of the system is renamed meanwhile, since `..' might lead outside then.
 */
static int open_path(const char *path)
{
	struct open_how how = { .flags = O_NONBLOCK, .resolve = RESOLVE_IN_ROOT };
	int fd, tries = TRIES;

	do
		fd = (int)syscall(SYS_openat2, directory, path, &how, sizeof how);
	while (fd < 0 && errno == EAGAIN && --tries > 0);
	return fd;
}

/*
 * Returns whether a head, up to `last', has a line that another server may read in
 * another way: a fold, a blank before the colon, a CR, LF or NUL alone. *body: a body
 * comes behind the head.
 */
static bool is_malformed(const char *line, const char *last, bool *body)
{
	*body = false;
	for (bool first = true; line <= last; first = false) {
		size_t size = strcspn(line, "\r\n"), name = strcspn(line, ": \t\r\n");
		const char *value = line + name + 1, *end = line + size;

		if (end != last && strncmp(end, "\r\n", 2) != 0)
			return true;
		if (!first && (name == 0 || line[name] != ':'))
			return true;
		if (name == 14 && strncasecmp(line, "Content-Length", name) == 0)
			*body |= value + strspn(value, " \t0") != end;
		*body |= name == 17 && strncasecmp(line, "Transfer-Encoding", name) == 0;
		line = end + 2;
	}
	return false;
}

/* False: the connection ends, so that no body is read as a request. GET needs none. */
static bool answer(struct work *w, char *request, const char *last)
{
	char *path = request + 4, *end = strpbrk(path, " ?\r");
	struct stat st;
	size_t size;
	bool good, body;
	int fd;

	if (is_malformed(request, last, &body))
		return put_head(w, 400, "Bad Request") && false;
	if (strncmp(request, "GET /", 5) != 0 || !end)
		return put_head(w, 405, "Method Not Allowed") && false;
	if (body)
		return put_head(w, 413, "Content Too Large") && false;
	*end = '\0';
	size = copy_kept(w, path);
	if (size)
		return put(w, size);
	fd = open_path(path);
	if (fd < 0 && (errno == EMFILE || errno == ENFILE || errno == ENOMEM
		       || errno == ENOSYS || errno == EAGAIN))
		return put_head(w, 503, "Service Unavailable");
	if (fd < 0)
		return put_head(w, 404, "Not Found");
	if (fstat(fd, &st) || !S_ISREG(st.st_mode))
		good = put_head(w, 404, "Not Found");
	else
		good = put_file(w, path, fd, st.st_size);
	close(fd);
	return good;
}

/* Answers until no request is incomplete. Not in the frames of idle connections. */
__attribute__((noinline))
static bool talk(struct utls *session)
{
	struct work *w = malloc(sizeof *w);
	int64_t deadline = usync_after(STALL);
	bool good = w != NULL;

	if (w) {
		w->session = session;
		w->have = 0;
	}
	while (good) {
		ssize_t n = utls_read(session, w->in + w->have, SIZE - w->have, deadline);
		char *end;

		good = n > 0;
		w->have += good ? (size_t)n : 0;
		while (good && (end = memmem(w->in, w->have, "\r\n\r\n", 4)) != NULL) {
			bool last = memmem(w->in, (size_t)(end - w->in),
					   "onnection: close", 16) != NULL;

			*end = '\0';
			good = answer(w, w->in, end) && !last;
			w->have -= (size_t)(end + 4 - w->in);
			memmove(w->in, end + 4, w->have);
			deadline = usync_after(STALL);
		}
		if (w->have == 0)
			break;
	}
	free(w);
	return good;
}

/* Makes a handshake, of which HANDSHAKES run at a time: each has 40 KB of buffers. */
static int greet(int fd, struct utls **session)
{
	int64_t deadline = usync_after(GREET);
	int rc = unet_wait(fd, POLLIN, deadline);

	if (rc == 0)
		rc = usync_sem_wait(&handshakes, deadline);
	if (rc)
		return rc;
	rc = utls_create(context, fd, NULL, session);
	if (rc == 0)
		rc = utls_handshake(*session, deadline);
	usync_sem_post(&handshakes);
	return rc;
}

/* Reads and drops: unread bytes would cause a reset, which takes the last answer back. */
static void drain(int fd)
{
	static char dropped[SIZE];
	int64_t deadline = usync_after(LINGER);

	unet_shutdown(fd, SHUT_WR);
	for (int i = 0; i < 64; i++)
		if (unet_read(fd, dropped, SIZE, deadline) <= 0)
			break;
}

static void connection(int fd, void *unused)
{
	struct utls *s = NULL;

	(void)unused;
	if (greet(fd, &s) == 0) {
		while (utls_wait_readable(s, usync_after(IDLE)) == 0 && talk(s))
			;
		utls_shutdown(s, usync_after(STALL));
		drain(fd);
	}
	utls_free(s);
	unet_close(fd);
}

/* Accepts until the listener is closed. Out of memory, it yields. */
static void accept_all(void *unused)
{
	struct ustack_how how = { .h_serve = connection };

	(void)unused;
	while ((how.h_fd = unet_accept(listener, NULL, USCHED_NEVER)) != -EBADF)
		if (how.h_fd < 0)
			ustack_yield();
		else if (usync_scope_start_with(all, &how, NULL, NULL, NULL))
			unet_close(how.h_fd);
}

static void obey(void *unused)
{
	const char *why;

	(void)unused;
	check(usync_scope_create(NULL, &all, USCHED_NEVER), "scope");
	check(rr_start(rr, accept_all, NULL, NULL), "start");
	while (check(unet_signal(signals, USCHED_NEVER), "signal") == SIGHUP)
		if (utls_context_load(context, &conf, &why))
			dprintf(2, "https: certificates stay as they are: %s\n", why);
	unet_close(listener);
	unet_close(signals);
	usync_scope_cancel(all, -ECANCELED);
	usync_scope_wait(all, usync_after(STALL));
}

int main(int argc, char **argv)
{
	struct uprocs_conf one = { .c_processors = 1, .c_stacks = STACKS, .c_embed = 1 };
	struct unet_addr address;
	struct ustack *obeys;
	const char *why = NULL;
	char text[64];
	sigset_t set;

	for (int i = 3; i + 1 < argc && conf.f_count < CERTIFICATES; i += 2) {
		certificates[conf.f_count].t_chain = argv[i];
		certificates[conf.f_count++].t_key = argv[i + 1];
	}
	snprintf(text, sizeof text, "127.0.0.1:%s", argc > 4 ? argv[1] : "");
	if (unet_addr(text, &address))
		return dprintf(2, "usage: https PORT DIRECTORY CHAIN KEY...\n"), 2;
	if (utls_context_create(&conf, &context, &why))
		return dprintf(2, "https: %s\n", why), 1;
	directory = open(argv[2], O_DIRECTORY);
	check(directory < 0 ? -errno : 0, argv[2]);
	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGHUP);
	pthread_sigmask(SIG_BLOCK, &set, NULL);
	signals = check(unet_signals(&set), "signals");
	listener = check(unet_listen(&address, 0, 0), text);
	check(rr_create(&one, &rr), "scheduler");
	check(rr_start(rr, obey, NULL, &obeys), "start");
	dprintf(1, "ready\n");
	check(ustack_join(obeys, NULL, USCHED_NEVER), "end");
	check(uprocs_destroy(rr, usync_after(STALL)), "end");   /* says what is left */
	return 0;
}
