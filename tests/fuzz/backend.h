/* SPDX-License-Identifier: MIT */
/*
 * backend.h: the servers behind a proxy that is fuzzed, one for each client, in threads
 * of the same scheduler. After peers.h. The first byte of the input says what they do.
 */
#include <stdio.h>
#include <unistd.h>

enum {
	ECHO,                           /* sends back what it gets */
	COUNTS,                         /* how much it was, in the end */
	FLOODS,                         /* sends FLOOD bytes first */
	ENDS,                           /* its stream at once, and reads on */
	LEAVES,                         /* closes at once */
	DEAF,                           /* reads nothing */
	HOWS,
};

enum { FLOOD = 300000 };                /* bytes */

#define PATIENCE (400 * USYNC_SECOND)

static unsigned how;
static struct unet_addr backend;
static int behind = -1;                 /* listens there */

static void open_backend(const uint8_t *data, size_t size)
{
	char text[64];

	how = size > 0 ? data[0] / PIECE_MAX % HOWS : 0;
	snprintf(text, sizeof text, "@usched-fuzz-%d", (int)getpid());
	CHECK(unet_addr(text, &backend) == 0);
	if (behind >= 0)
		unet_close(behind);
	behind = unet_listen(&backend, 0, 0);
	CHECK(behind >= 0);
}

static void send_flood(int fd)
{
	static const char zeros[10000];
	int rc = 0;

	for (size_t i = 0; i < FLOOD / sizeof zeros && rc == 0; i++)
		rc = unet_write_all(fd, zeros, sizeof zeros, NULL,
				    usync_after(PATIENCE));
}

static void be_backend(void *unused)
{
	int fd = unet_accept(behind, NULL, usync_after(PATIENCE));
	char buffer[4096], text[32];
	size_t count = 0;
	ssize_t n = how == LEAVES || how == DEAF ? 0 : 1;

	(void)unused;
	if (fd < 0)
		return;
	if (how == DEAF)
		usync_sleep_until(usync_after(PATIENCE));
	if (how == ENDS)
		unet_shutdown(fd, SHUT_WR);
	if (how == FLOODS)
		send_flood(fd);
	while (n > 0) {
		n = unet_read(fd, buffer, sizeof buffer, usync_after(2 * PATIENCE));
		count += n > 0 ? (size_t)n : 0;
		if (n > 0 && (how == ECHO || how == FLOODS)
		    && unet_write_all(fd, buffer, (size_t)n, NULL, usync_after(PATIENCE)))
			n = -1;
	}
	if (how == COUNTS && n == 0)
		unet_write_all(fd, text, (size_t)sprintf(text, "%zu", count), NULL,
			       usync_after(PATIENCE));
	unet_close(fd);
}
