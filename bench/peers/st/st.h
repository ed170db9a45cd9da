/* SPDX-License-Identifier: MIT */
/*
 * st.h: the servers with State Threads: a thread for each connection. The including file
 * defines talk(), which returns when the connection is to be closed.
 *
 * The library runs over poll(), which unlike select() has no limit of descriptors.
 * Debian's library is built without epoll, and takes ST_EVENTSYS_ALT for select(). One
 * that is built with epoll takes a third more time for an echo with 64 or 256 busy
 * connections: it calls epoll_ctl() for each wait.
 */
#ifndef PEERS_ST_H
#define PEERS_ST_H

#include <st.h>

#include "../c/server.h"

/* Bytes; only used pages are in memory, as with the default. */
enum { STACK_SIZE = 64 << 10 };

static void talk(st_netfd_t peer);

static void *serve_connection(void *peer)
{
	talk(peer);
	st_netfd_close(peer);
	return NULL;
}

/* Out of descriptors or memory for a connection, waits a while. */
__attribute__((noreturn)) static void serve(uint16_t port)
{
	st_netfd_t listener, peer;

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

#endif
