/* SPDX-License-Identifier: MIT */
/*
 * A crawler: fetches a page and all that it links to on the same host, with libcurl in
 * threads (libcurl4-openssl-dev), at most so many at a time. Build it with
 *
 *   cc -O2 examples/11-crawler.c build/one/usched-all.c -Ibuild/one -pthread -lcurl \
 *     -o crawler
 *
 * after `make one'. Run it
 * with an address, and how many to fetch at a time:
 *
 *   ./crawler http://localhost:8000/ 8
 *
 * Each worker is a thread with a handle of libcurl's multi interface, so connections are
 * used again. Libcurl says which descriptors and what time it waits for, and the thread
 * waits for these; no call of libcurl waits. The host is looked up once, by
 * unet_resolve(), and libcurl is told its addresses: else it might look up by itself,
 * natively. It has its sockets closed by unet_close().
 *
 * All workers are in one scope, which has a deadline and is cancelled by SIGINT and
 * SIGTERM. A page has a scope within, with a deadline of its own: when that comes, the
 * worker goes on with the next page.
 */
#define _GNU_SOURCE             /* strcasestr(), tdestroy() */
#include <curl/curl.h>
#include <errno.h>
#include <pthread.h>
#include <search.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "usched-all.h"

#define ALL  (600 * USYNC_SECOND)       /* for all pages */
#define PAGE (20 * USYNC_SECOND)        /* for one */

enum {
	PAGES   = 10000,        /* at most */
	WORKERS = 1000,
	BODY    = 1 << 20,      /* bytes of a page that are searched for links */
	LINK    = 2048,         /* bytes of one */
	SOME    = 64,           /* links, until others may run */
	SOCKETS = 8,            /* of a worker at a time: libcurl tries two */
	FOUND   = 8,            /* addresses of the host */
	STACKS  = 64,           /* shared: OpenSSL touches 12 KiB of each */
};

struct worker {
	CURLM        *multi;
	CURL         *easy;
	struct pollfd fds[SOCKETS];     /* what libcurl waits for */
	size_t        count;
	int64_t       timer;
	size_t        size;             /* of the page; `body' has the first BODY bytes */
	char          body[BODY + 1];
};

/* There is one processor, and so no lock. */
static struct usync_scope *all;
static struct usync_chan *queue;        /* of char *: addresses, owned by `seen' */
static void *seen;                      /* a tree of addresses */
static unsigned known, left, failed;    /* pages: found, to be done, without answer */
static unsigned long long bytes;
static char *first;                     /* the address to begin with, and its parts: */
static char *scheme, *host, *port;
static struct curl_slist *resolved;     /* what libcurl is told */
static unsigned workers;
static int signals;

static int check(int rc, const char *what)
{
	if (rc >= 0)
		return rc;
	fprintf(stderr, "crawler: %s: %s\n", what, ustack_error(rc));
	exit(1);
}

/* ---- Pages ---- */

static int compare(const void *a, const void *b)
{
	return strcmp(a, b);
}

static bool has_part(CURLU *address, CURLUPart which, const char *expected)
{
	char *part = NULL;
	bool same = curl_url_get(address, which, &part, CURLU_DEFAULT_PORT) == CURLUE_OK
		&& strcasecmp(part, expected) == 0;

	curl_free(part);
	return same;
}

/* Has the page fetched, unless it was found before or is elsewhere. */
static void add(CURLU *address)
{
	char *text = NULL;

	curl_url_set(address, CURLUPART_FRAGMENT, NULL, 0);
	if (known < PAGES && has_part(address, CURLUPART_SCHEME, scheme)
	    && has_part(address, CURLUPART_HOST, host)
	    && has_part(address, CURLUPART_PORT, port)
	    && curl_url_get(address, CURLUPART_URL, &text, 0) == CURLUE_OK
	    && !tfind(text, &seen, compare) && tsearch(text, &seen, compare)) {
		usync_chan_send(queue, &text, 0);       /* it has room for all */
		known++;
		left++;
	} else {
		curl_free(text);
	}
}

static void add_link(const char *base, const char *link)
{
	CURLU *address = curl_url();

	if (address && curl_url_set(address, CURLUPART_URL, base, 0) == CURLUE_OK
	    && curl_url_set(address, CURLUPART_URL, link, 0) == CURLUE_OK)
		add(address);
	curl_url_cleanup(address);
}

static void add_links(const char *base, const char *body)
{
	char link[LINK];

	for (unsigned links = 1; (body = strcasestr(body, "href=")) != NULL; links++) {
		bool quoted = body[5] == '"' || body[5] == '\'';
		const char mark[2] = { body[5], '\0' };
		const char *ends = quoted ? mark : " \t\r\n>";
		size_t used = 0;

		body += quoted ? 6 : 5;
		while (used < LINK - 1 && !strchr(ends, *body)) {       /* or its end */
			link[used++] = *body;
			body += strncmp(body, "&amp;", 5) == 0 ? 5 : 1;
		}
		link[used] = '\0';
		if (used < LINK - 1)
			add_link(base, link);
		if (links % SOME == 0)
			ustack_yield();         /* a page may have a hundred thousand */
	}
}

/* ---- Libcurl ---- */

static int on_socket(CURL *easy, curl_socket_t fd, int what, void *arg, void *unused)
{
	struct worker *w = arg;
	size_t i = 0;

	(void)easy, (void)unused;
	while (i < w->count && w->fds[i].fd != fd)
		i++;
	if (what == CURL_POLL_REMOVE) {
		if (i < w->count)
			w->fds[i] = w->fds[--w->count];
		return 0;
	}
	if (i == SOCKETS)
		return -1;
	w->fds[i].fd = fd;
	w->fds[i].events = (short)((what & CURL_POLL_IN ? POLLIN : 0)
				   | (what & CURL_POLL_OUT ? POLLOUT : 0));
	w->count += i == w->count;
	return 0;
}

static int on_timer(CURLM *multi, long milliseconds, void *arg)
{
	struct worker *w = arg;

	(void)multi;
	w->timer = milliseconds < 0 ? USCHED_NEVER
		 : usync_after(milliseconds * (USYNC_SECOND / 1000));
	return 0;
}

static int on_close(void *unused, curl_socket_t fd)
{
	(void)unused;
	return unet_close(fd);
}

static size_t on_data(char *data, size_t one, size_t size, void *arg)
{
	struct worker *w = arg;
	size_t room = w->size < BODY ? BODY - w->size : 0;

	(void)one;
	memcpy(w->body + (BODY - room), data, size < room ? size : room);
	w->size += size;
	return size;
}

/* Waits once for what libcurl waits for, and lets it go on. 0, or the scope's error. */
static int turn(struct worker *w, const struct usync_scope *scope, int *running)
{
	struct pollfd fds[SOCKETS];     /* call-backs change those of `w' */
	size_t count = w->count;
	int rc;

	memcpy(fds, w->fds, sizeof fds);
	rc = unet_poll(fds, count, w->timer);
	if (usync_scope_error(scope))
		return usync_scope_error(scope);
	if (rc == -ETIMEDOUT)
		curl_multi_socket_action(w->multi, CURL_SOCKET_TIMEOUT, 0, running);
	for (size_t i = 0; rc > 0 && i < count; i++) {
		int is = fds[i].revents;
		int what = (is & (POLLIN | POLLHUP) ? CURL_CSELECT_IN : 0)
			| (is & POLLOUT ? CURL_CSELECT_OUT : 0)
			| (is & POLLERR ? CURL_CSELECT_ERR : 0);

		if (is)
			curl_multi_socket_action(w->multi, fds[i].fd, what, running);
	}
	return rc == -ETIMEDOUT || rc > 0 ? 0 : rc;
}

/* The reason why there is no answer, or NULL. */
static const char *fetch(struct worker *w, const char *address,
			 const struct usync_scope *scope)
{
	int running = 1, rc = 0, n;
	const char *why = NULL;
	CURLMsg *message;

	w->size = 0;
	w->timer = USCHED_NEVER;
	curl_easy_setopt(w->easy, CURLOPT_URL, address);
	curl_multi_add_handle(w->multi, w->easy);
	curl_multi_socket_action(w->multi, CURL_SOCKET_TIMEOUT, 0, &running);
	while (running && rc == 0)
		rc = turn(w, scope, &running);
	while ((message = curl_multi_info_read(w->multi, &n)) != NULL)
		if (message->msg == CURLMSG_DONE && message->data.result != CURLE_OK)
			why = curl_easy_strerror(message->data.result);
	curl_multi_remove_handle(w->multi, w->easy);
	return rc ? ustack_error(rc) : why;
}

/* ---- Threads ---- */

static void take_answer(struct worker *w, const char *address)
{
	char *type = NULL, *to = NULL;
	long status = 0;

	curl_easy_getinfo(w->easy, CURLINFO_RESPONSE_CODE, &status);
	curl_easy_getinfo(w->easy, CURLINFO_CONTENT_TYPE, &type);
	curl_easy_getinfo(w->easy, CURLINFO_REDIRECT_URL, &to);
	printf("%ld %s, %zu bytes\n", status, address, w->size);
	bytes += w->size;
	w->body[w->size < BODY ? w->size : BODY] = '\0';
	if (to)
		add_link(address, to);
	else if (type && strncasecmp(type, "text/html", 9) == 0)
		add_links(address, w->body);
}

static int visit(struct worker *w, const char *address)
{
	struct usync_scope_how how = { .sh_parent = all };
	struct usync_scope *scope;
	const char *why;
	int rc = usync_scope_create(&how, &scope, usync_after(PAGE));

	if (rc)
		return rc;
	rc = usync_scope_enter(scope);
	if (rc == 0) {
		why = fetch(w, address, scope);
		usync_scope_leave();
		if (why)
			printf("--- %s: %s\n", address, why), failed++;
		else
			take_answer(w, address);
	}
	usync_scope_release(scope);
	return rc;
}

static int set_up(struct worker *w)
{
	w->easy = curl_easy_init();
	w->multi = curl_multi_init();
	if (!w->easy || !w->multi)
		return -ENOMEM;
	curl_easy_setopt(w->easy, CURLOPT_WRITEFUNCTION, on_data);
	curl_easy_setopt(w->easy, CURLOPT_WRITEDATA, w);
	curl_easy_setopt(w->easy, CURLOPT_CLOSESOCKETFUNCTION, on_close);
	curl_easy_setopt(w->easy, CURLOPT_RESOLVE, resolved);
	curl_easy_setopt(w->easy, CURLOPT_NOSIGNAL, 1L);
	curl_easy_setopt(w->easy, CURLOPT_PROXY, "");
	curl_multi_setopt(w->multi, CURLMOPT_SOCKETFUNCTION, on_socket);
	curl_multi_setopt(w->multi, CURLMOPT_SOCKETDATA, w);
	curl_multi_setopt(w->multi, CURLMOPT_TIMERFUNCTION, on_timer);
	curl_multi_setopt(w->multi, CURLMOPT_TIMERDATA, w);
	return 0;
}

/* An error ends all. */
static int work(void *unused)
{
	struct worker *w = calloc(1, sizeof *w);        /* pages are touched as needed */
	int rc = w ? set_up(w) : -ENOMEM;
	char *address;

	(void)unused;
	while (rc == 0 && !usync_scope_error(all)
	       && usync_chan_recv(queue, &address, USCHED_NEVER) == 0) {
		rc = visit(w, address);
		if (--left == 0)
			usync_chan_close(queue);
	}
	if (w) {
		curl_multi_cleanup(w->multi);
		curl_easy_cleanup(w->easy);
	}
	free(w);
	return rc;
}

/* Looks the host up, and tells libcurl: "host:port:address,address". */
static int resolve(void)
{
	struct unet_addr found[FOUND];
	char text[UNET_TEXT_MAX], line[FOUND * UNET_TEXT_MAX + LINK];
	int n = unet_resolve(host, port, SOCK_STREAM, found, FOUND, usync_after(PAGE));
	size_t at = (size_t)snprintf(line, sizeof line, "%.*s:%s:", LINK / 2, host, port);

	if (n <= 0 || strchr(host, ':'))
		return n;                       /* a number needs no entry */
	for (int i = 0; i < n; i++) {
		*strrchr(unet_text(&found[i], text), ':') = '\0';
		at += (size_t)snprintf(line + at, sizeof line - at, "%s%s", i ? "," : "",
				       text);
	}
	resolved = curl_slist_append(NULL, line);
	return resolved ? 0 : -ENOMEM;
}

static void obey(void *unused)
{
	(void)unused;
	if (unet_signal(signals, USCHED_NEVER) > 0)
		usync_scope_cancel(all, -ECANCELED);
}

static void crawl(void *rr)
{
	int rc;

	check(usync_scope_create(NULL, &all, usync_after(ALL)), "scope");
	check(usync_chan_create(sizeof(char *), PAGES, &queue), "queue");
	rc = resolve();
	check(rc == -ENOENT ? -EHOSTUNREACH : rc, host);        /* not "no such file" */
	add_link(first, first);
	check(rr_start(rr, obey, NULL, NULL), "start");
	for (unsigned i = 0; i < workers; i++)
		check(usync_scope_start(all, work, NULL, NULL), "start");
	usync_scope_wait(all, USCHED_NEVER);
	rc = usync_scope_error(all);
	unet_close(signals);                    /* ends obey() */
	printf("%u pages, %u of them without an answer, %llu bytes%s%s\n", known - left,
	       failed, bytes, rc ? "; " : "", rc ? ustack_error(rc) : "");
	failed += rc != 0;
	usync_scope_release(all);
	usync_chan_destroy(queue);
	tdestroy(seen, curl_free);
}

/* The parts of the first address. False: it is none. */
static bool parse(const char *text)
{
	CURLU *address = curl_url();
	bool good = address && curl_url_set(address, CURLUPART_URL, text, 0) == CURLUE_OK
		&& curl_url_get(address, CURLUPART_URL, &first, 0) == CURLUE_OK
		&& curl_url_get(address, CURLUPART_SCHEME, &scheme, 0) == CURLUE_OK
		&& curl_url_get(address, CURLUPART_HOST, &host, 0) == CURLUE_OK
		&& curl_url_get(address, CURLUPART_PORT, &port, CURLU_DEFAULT_PORT)
		   == CURLUE_OK && strncmp(scheme, "http", 4) == 0;

	curl_url_cleanup(address);
	return good;
}

int main(int argc, char **argv)
{
	struct uprocs_conf conf = { .c_processors = 1, .c_embed = 1, .c_stacks = STACKS };
	char *rest = argc == 3 ? argv[2] : NULL;
	struct uprocs *rr;
	sigset_t set;

	curl_global_init(CURL_GLOBAL_DEFAULT);
	workers = rest ? (unsigned)strtoul(rest, &rest, 10) : 0;
	if (!workers || *rest || workers > WORKERS || !parse(argv[1])) {
		fprintf(stderr, "usage: crawler ADDRESS AT_A_TIME\n");
		return 2;
	}
	sigemptyset(&set);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGTERM);
	pthread_sigmask(SIG_BLOCK, &set, NULL);
	signals = check(unet_signals(&set), "signals");
	check(rr_create(&conf, &rr), "scheduler");
	check(rr_start(rr, crawl, rr, NULL), "start");
	check(uprocs_destroy(rr, USCHED_NEVER), "end");
	curl_slist_free_all(resolved);
	for (size_t i = 0; i < 4; i++)
		curl_free((char *[]){ first, scheme, host, port }[i]);
	curl_global_cleanup();
	return uoffload_drain(usync_after(PAGE)) || failed > 0; /* says what is left */
}
