/* SPDX-License-Identifier: MIT */
/*
 * mosquitto_sub gets three messages that it has to acknowledge, and SIGTERM meanwhile. It
 * must end. The broker is a thread that knows just these packets.
 */
#include <arpa/inet.h>
#include <pthread.h>
#include <signal.h>
#include <unistd.h>

int client_main(int argc, char **argv);

static int listener;

/* Reads a packet: 1, or 0 at the end. The second byte has the length of the rest. */
static int get(int fd)
{
	unsigned char packet[128];

	return recv(fd, packet, 2, MSG_WAITALL) == 2
		&& recv(fd, packet, packet[1], MSG_WAITALL) >= 0;
}

static void *broker(void *unused)
{
	static const unsigned char accepted[] = { 0x20, 2, 0, 0 };
	unsigned char subscribed[] = { 0x90, 3, 0, 1, 1 };
	unsigned char message[] = { 0x32, 6, 0, 1, 't', 0, 1, '!' };
	int fd = accept(listener, NULL, NULL);
	sigset_t all;

	sigfillset(&all);
	pthread_sigmask(SIG_BLOCK, &all, NULL);
	get(fd);
	(void)!write(fd, accepted, sizeof accepted);
	get(fd);
	(void)!write(fd, subscribed, sizeof subscribed);
	for (; message[6] <= 3; message[6]++)
		(void)!write(fd, message, sizeof message);
	usleep(200);
	kill(getpid(), SIGTERM);
	while (get(fd))
		;
	close(fd);
	return unused;
}

int main(void)
{
	static char *arguments[] = { "mosquitto_sub", "-h", "127.0.0.1", "-p", "1883",
				     "-t", "t", "-q", "1", NULL };
	struct sockaddr_in a = { .sin_family = AF_INET, .sin_port = htons(1883),
				 .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	pthread_t t;

	listener = socket(AF_INET, SOCK_STREAM, 0);
	setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &(int){ 1 }, sizeof(int));
	bind(listener, (struct sockaddr *)&a, sizeof a);
	listen(listener, 1);
	pthread_create(&t, NULL, broker, NULL);
	client_main(sizeof arguments / sizeof *arguments - 1, arguments);
	pthread_join(t, NULL);
	return 0;
}
