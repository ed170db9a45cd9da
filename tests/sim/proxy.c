/* SPDX-License-Identifier: MIT */
/*
 * examples/07-proxy: clients and a server behind it send each other bytes at the same
 * time, which come as they were sent, up to the end, or the connection is reset.
 */
#include "server.h"

enum { PORT = 7001, BEHIND = 7000, CONNECTIONS = 6, MOST = 400000, BUFFER = 20000 };

/* A direction: what is sent there is known from the number. */
struct stream {
	int      fd;
	uint32_t number;
	bool     ends;                  /* early, without the end of the stream */
};

static struct sim_host *behind;
static bool listens;                    /* the server behind the proxy does */
static uint32_t last_number;

static size_t size_of(uint32_t number)
{
	return number * 2654435761u % 4 ? number * 40503u % 1000 : number * 40503u % MOST;
}

static char byte_of(uint32_t number, size_t at)
{
	return (char)(number + at * 7 % 251);
}

/* No end of the stream is sent then. */
static void give_up(int fd)
{
	struct linger reset = { .l_onoff = 1 };

	setsockopt(fd, SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
	unet_close(fd);
}

/* Sends all and the end. Returns NULL, or another pointer after an error. */
static void *send_stream(void *stream)
{
	const struct stream *s = stream;
	size_t size = size_of(s->number);
	char *buffer = malloc(BUFFER);
	int rc = 0;

	for (size_t at = 0; rc == 0 && !s->ends && at < size; ) {
		size_t n = 1 + sim_choose(BUFFER);

		n = n < size - at ? n : size - at;
		for (size_t i = 0; i < n; i++)
			buffer[i] = byte_of(s->number, at + i);
		rc = unet_write_all(s->fd, buffer, n, NULL, usync_after(60 * SECOND));
		at += n;
		pause_sometimes();
	}
	free(buffer);
	return rc || s->ends || unet_shutdown(s->fd, SHUT_WR) ? stream : NULL;
}

/* 1: up to the end; 0: the end came early; or an error. */
static int receive_stream(const struct stream *s)
{
	size_t size = size_of(s->number), at = 0;
	char *buffer = malloc(BUFFER);
	ssize_t n;

	while ((n = unet_read(s->fd, buffer, BUFFER, usync_after(60 * SECOND))) > 0)
		for (ssize_t i = 0; i < n; i++, at++)
			if (at >= size || buffer[i] != byte_of(s->number, at))
				sim_fail("byte %zu of %zu is wrong", at, size);
	free(buffer);
	return n < 0 ? (int)n : at == size;
}

/* Both directions, and closes. Of a reset only one of the two threads learns. */
static void exchange(int fd, uint32_t out, uint32_t in)
{
	struct stream *s = malloc(2 * sizeof *s);
	pthread_t sender;
	void *failed;
	int rc;

	s[0] = (struct stream){ fd, out, false };
	s[1] = (struct stream){ fd, in, false };
	sender = started(send_stream, &s[0]);
	rc = receive_stream(&s[1]);
	s[0].ends = rc < 0;
	CHECK(pthread_join(sender, &failed) == 0);
	if (rc == 0 && !failed)
		sim_fail("the end of a stream came early");
	if (rc > 0 && !failed) {
		unet_close(fd);
	} else {
		lose(rc);
		give_up(fd);
	}
	free(s);
}

/* ---- Behind it ---- */

static void *serve_one(void *arg)
{
	int fd = (int)(intptr_t)arg;
	uint32_t *number = malloc(sizeof *number);
	size_t n;

	if (unet_read_all(fd, number, sizeof *number, &n, usync_after(60 * SECOND)))
		give_up(fd);
	else
		exchange(fd, ~*number, *number);
	free(number);
	return NULL;
}

static void serve_behind(void *unused)
{
	struct unet_addr a = at("10.0.0.2", BEHIND);
	int listener, fd;

	(void)unused;
	while ((listener = unet_listen(&a, 0, 0)) < 0)
		usync_sleep_until(usync_after(SECOND));
	listens = true;
	while ((fd = unet_accept(listener, NULL, USCHED_NEVER)) >= 0)
		pthread_detach(started(serve_one, (void *)(intptr_t)fd));
	sim_fail("accept: %s", strerror(-fd));
}

static void stop_behind(void)
{
	sim_host_crash(behind);
}

/* ---- Clients ---- */

static void ask(void *unused)
{
	uint32_t *number = malloc(sizeof *number);

	(void)unused;
	for (int i = 0; i < CONNECTIONS; i++) {
		int fd = reach(PORT);

		*number = ++last_number;
		if (unet_write_all(fd, number, sizeof *number, NULL,
				   usync_after(60 * SECOND)))
			give_up(fd);
		else
			exchange(fd, *number, ~*number);
	}
	free(number);
}

int main(int argc, char **argv)
{
	static char *arguments[] = { "proxy", "7001", "10.0.0.2:7000", NULL };

	prepare(argc > 1 ? argv[1] : NULL);
	CHECK(sim_host_start("behind", "10.0.0.2", serve_behind, NULL, &behind) == 0);
	while (!listens)
		usync_sleep_until(usync_after(SECOND));
	server.s_argv = arguments;
	server.s_stop = stop_behind;
	run_server(4, PORT, ask);
	return 0;
}
