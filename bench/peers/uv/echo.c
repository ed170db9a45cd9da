/* SPDX-License-Identifier: MIT */
/* The echo server with libuv. */
#include "../c/peer.h"

struct protocol {};               /* no state */

#include "uv.h"

static void open_protocol(struct connection *connection)
{
	(void)connection;
}

static bool answer(struct connection *connection, size_t length)
{
	uv_buf_t buf = uv_buf_init(buffer, (unsigned)length);

	return send_all(connection, &buf, 1);
}

int main(int argc, char **argv)
{
	if (argc != 2)
		usage(argv[0], "PORT");
	serve(port_argument(argv[0], "PORT", argv[1]));
}
