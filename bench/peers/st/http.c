/* SPDX-License-Identifier: MIT */
/* The HTTP server with State Threads. */
#include "../c/http.h"
#include "st.h"

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

int main(int argc, char **argv)
{
	if (argc != 3)
		usage(argv[0], "PORT DIR");
	http_prepare(argv[2]);
	serve(port_argument(argv[0], "PORT DIR", argv[1]));
}
