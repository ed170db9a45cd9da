/* SPDX-License-Identifier: MIT */
/*
 * Echo: step one of doc/tutorial.md. Each connection is a thread, which blocks where it
 * reads and where it writes.
 */
#include <stdio.h>

#include "rr.h"
#include "unet.h"

static int64_t in_a_minute(void)
{
	return usync_after(60 * USYNC_SECOND);
}

static void echo(int fd, void *unused)
{
	char buffer[1024];
	ssize_t n;
	int rc = 0;

	(void)unused;
	while (rc == 0 && (n = unet_read(fd, buffer, sizeof buffer, in_a_minute())) > 0)
		rc = unet_write_all(fd, buffer, (size_t)n, NULL, in_a_minute());
	if (rc == 0 && n < 0)
		rc = (int)n;
	if (rc)
		fprintf(stderr, "echo: %s\n", ustack_error(rc));
	unet_close(fd);
}

int main(int argc, char **argv)
{
	struct ustack_how how = { .h_serve = echo };
	struct unet_addr address;
	struct uprocs *rr;
	int listener;

	if (argc != 2 || unet_addr(argv[1], &address))
		return fprintf(stderr, "usage: echo ADDRESS:PORT\n"), 2;
	listener = unet_listen(&address, 0, 0);
	if (listener < 0)
		return fprintf(stderr, "echo: %s\n", ustack_error(listener)), 1;
	if (rr_create(NULL, &rr))
		return fprintf(stderr, "echo: no scheduler\n"), 1;
	while ((how.h_fd = unet_accept(listener, NULL, USCHED_NEVER)) >= 0)
		if (rr_start_with(rr, &how, NULL, NULL, NULL))
			unet_close(how.h_fd);   /* no memory for one more */
	return 1;
}
