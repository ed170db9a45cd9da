/* SPDX-License-Identifier: MIT */
/* The echo server with State Threads. */
#include "st.h"

static void talk(st_netfd_t peer)
{
	char buffer[BUFFER_SIZE];
	ssize_t length;

	while ((length = st_read(peer, buffer, sizeof buffer, ST_UTIME_NO_TIMEOUT)) > 0)
		if (st_write(peer, buffer, (size_t)length, ST_UTIME_NO_TIMEOUT) != length)
			return;
}

int main(int argc, char **argv)
{
	if (argc != 2)
		usage(argv[0], "PORT");
	serve(port_argument(argv[0], "PORT", argv[1]));
}
