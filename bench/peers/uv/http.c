/* SPDX-License-Identifier: MIT */
/* The HTTP server with libuv. */
#include "../c/http.h"

struct protocol {
	struct http http;
};

#include "uv.h"

static void open_protocol(struct connection *connection)
{
	http_open(&connection->protocol.http);
}

static bool answer(struct connection *connection, size_t length)
{
	struct http *http = &connection->protocol.http;

	http_read(http, buffer, length);
	if (http_count
	    && !send_all(connection, (const uv_buf_t *)http_answers, http_count))
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
