/* SPDX-License-Identifier: MIT */
/*
 * civetweb is stopped while a client connects. The client must be answered, or its
 * connection must be closed; here it waits for a minute.
 */
#include <arpa/inet.h>
#include <civetweb.h>
#include <poll.h>
#include <pthread.h>
#include <string.h>
#include <unistd.h>

static int accepted;

static void *client(void *unused)
{
	struct sockaddr_in a = { .sin_family = AF_INET, .sin_port = htons(8080),
				 .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	int fd = socket(AF_INET, SOCK_STREAM, 0);
	struct pollfd p = { .fd = fd, .events = POLLIN };

	if (connect(fd, (struct sockaddr *)&a, sizeof a) == 0) {
		(void)!write(fd, "GET / HTTP/1.0\r\n\r\n", 18);
		accepted = poll(&p, 1, 60000) > 0 ? 1 : -1;
	}
	close(fd);
	return unused;
}

int main(void)
{
	static const char *options[] = { "listening_ports", "127.0.0.1:8080",
					 "num_threads", "1", NULL };
	static const struct mg_callbacks callbacks;
	struct mg_context *server = mg_start(&callbacks, NULL, options);
	pthread_t t;

	if (!server)
		return 2;
	pthread_create(&t, NULL, client, NULL);
	usleep(200);
	mg_stop(server);
	pthread_join(t, NULL);
	return accepted < 0;
}
