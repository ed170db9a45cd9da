/* SPDX-License-Identifier: MIT */
/* The echo server as a state machine over epoll. */
#include "peer.h"

struct protocol {};               /* no state */

#include "epoll.h"

static void open_protocol(struct connection *connection)
{
	(void)connection;
}

static bool answer(int fd, struct connection *connection, size_t length)
{
	return send_all(fd, connection, &(struct iovec){ buffer, length }, 1);
}

int main(int argc, char **argv)
{
	if (argc != 2)
		usage(argv[0], "PORT");
	serve(port_argument(argv[0], "PORT", argv[1]));
}
