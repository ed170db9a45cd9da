/* SPDX-License-Identifier: MIT */
/*
 * A test of chat.c in a simulation: step five of doc/tutorial.md. Some clients want the
 * same name. At no time two of them have it.
 */
#include <pthread.h>
#include <string.h>

#include "sim/sim.h"
#include "ubuf.h"
#include "unet.h"

enum { CLIENTS = 2 };

int chat(int argc, char **argv);        /* main() of chat.c */

static char address[] = "127.0.0.1:7000";
static int anns;                        /* clients that have the name now */

static void *server(void *unused)
{
	static char *argv[] = { "chat", address, NULL };

	(void)unused;
	chat(2, argv);
	return NULL;
}

/* Goes in, stays for a moment, and leaves. */
static void *visit(void *unused)
{
	int64_t deadline = usync_after(10 * USYNC_SECOND);
	struct unet_addr a;
	struct ubuf_in in;
	char *line;
	int fd;

	unet_addr(address, &a);
	while ((fd = unet_connect(&a, deadline)) == -ECONNREFUSED)
		usync_sleep_until(usync_after(USYNC_SECOND / 1000));
	ubuf_in_init(&in, fd, 0);
	if (unet_write_all(fd, "ann\n", 4, NULL, deadline) == 0
	    && ubuf_line(&in, &line, deadline) > 0 && strcmp(line, "welcome") == 0) {
		if (++anns > 1)
			sim_fail("%d clients are ann", anns);
		usync_sleep_until(usync_after(USYNC_SECOND / 1000));
		anns--;
	}
	ubuf_in_free(&in);
	unet_close(fd);
	return unused;
}

int main(void)
{
	pthread_t thread, clients[CLIENTS];

	pthread_create(&thread, NULL, server, NULL);
	for (int i = 0; i < CLIENTS; i++)
		pthread_create(&clients[i], NULL, visit, NULL);
	for (int i = 0; i < CLIENTS; i++)
		pthread_join(clients[i], NULL);
	return 0;
}
