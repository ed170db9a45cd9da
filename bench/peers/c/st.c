/* SPDX-License-Identifier: MIT */
/*
 * The servers for echo and, with HTTP, for http with State Threads: a thread for each
 * connection.
 *
 * The library runs over poll(), which unlike select() has no limit of descriptors.
 * Debian's library is built without epoll, and takes ST_EVENTSYS_ALT for select(). One
 * that is built with epoll takes a third more time for an echo with 64 or 256 busy
 * connections: it calls epoll_ctl() for each wait.
 */
#include <st.h>

#ifdef HTTP
#include "http.h"
#else
#include "server.h"
#endif

/* Bytes; only used pages are in memory, as with the default. */
enum { STACK_SIZE = 64 << 10 };

#ifdef HTTP
/* Shared: no other thread runs between the read and the end of http_read(). */
static char buffer[BUFFER_SIZE];

/* Answers change when other threads run, so a rest to be written is copied. */
static int send_answers(st_netfd_t peer)
{
	ssize_t sent = writev(st_netfd_fileno(peer), http_answers, http_count);
	size_t length = 0;
	char *rest;
	int good;

	if (sent < 0 && errno != EAGAIN)
		return 0;
	for (int i = 0; i < http_count; i++)
		length += http_answers[i].iov_len;
	if (sent == (ssize_t)length)
		return 1;
	rest = rest_of(http_answers, http_count, sent < 0 ? 0 : (size_t)sent, &length);
	good = rest && st_write(peer, rest, length, ST_UTIME_NO_TIMEOUT)
	               == (ssize_t)length;
	free(rest);
	return good;
}

static void talk(st_netfd_t peer)
{
	struct http http;
	ssize_t length;

	http_open(&http);
	while (!http.ended) {
		length = st_read(peer, buffer, sizeof buffer, ST_UTIME_NO_TIMEOUT);
		if (length <= 0)
			return;
		http_read(&http, buffer, (size_t)length);
		if (http_count && !send_answers(peer))
			return;
	}
}

#else
static void talk(st_netfd_t peer)
{
	char buffer[BUFFER_SIZE];
	ssize_t length;

	while ((length = st_read(peer, buffer, sizeof buffer, ST_UTIME_NO_TIMEOUT)) > 0)
		if (st_write(peer, buffer, (size_t)length, ST_UTIME_NO_TIMEOUT) != length)
			return;
}

#endif

static void *serve_connection(void *peer)
{
	talk(peer);
	st_netfd_close(peer);
	return NULL;
}

/* Out of descriptors or memory for a connection, waits a while. */
int main(int argc, char **argv)
{
	uint16_t port = server_arguments(argc, argv);
	st_netfd_t listener, peer;

#ifdef HTTP
	http_prepare(argv[2]);
#endif
	prepare_process();
	if (st_set_eventsys(ST_EVENTSYS_POLL) || st_init())
		fail_errno("st_init");
	listener = st_netfd_open_socket(listen_at(port, 0));
	if (!listener)
		fail_errno("st_netfd_open_socket");
	print_ready();
	for (;;) {
		peer = st_accept(listener, NULL, NULL, ST_UTIME_NO_TIMEOUT);
		if (!peer)
			st_usleep(1000);
		else if (!st_thread_create(serve_connection, peer, 0, STACK_SIZE))
			st_netfd_close(peer);
	}
}
