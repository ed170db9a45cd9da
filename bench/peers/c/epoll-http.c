/* SPDX-License-Identifier: MIT */
/* The HTTP server as a state machine over epoll. */
#include "http.h"

struct protocol {
	struct http http;
};

#include "epoll.h"

static void open_protocol(struct connection *connection)
{
	http_open(&connection->protocol.http);
}

static bool answer(int fd, struct connection *connection, size_t length)
{
	struct http *http = &connection->protocol.http;

	http_read(http, buffer, length);
	if (http_count && !send_all(fd, connection, http_answers, http_count))
		return false;
	return !http->ended;
}

int main(int argc, char **argv)
{
	if (argc != 3)
		usage(argv[0], "PORT DIR");
	http_prepare(argv[2]);
	serve(port_argument(argv[0], "PORT DIR", argv[1]));
}
