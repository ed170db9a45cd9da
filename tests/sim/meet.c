/* SPDX-License-Identifier: MIT */
/*
 * A server with two connections, each served by a thread. A request adds one to a sum.
 * Both clients send at the same time, so requests arrive within some hundred
 * microseconds. With an argument a thread unlocks the mutex between its read and its
 * write, and an update is lost if the other request arrives just then.
 */
#include <arpa/inet.h>
#include <assert.h>
#include <pthread.h>
#include <stdbool.h>
#include <sys/socket.h>
#include <unistd.h>

enum { CLIENTS = 2, REQUESTS = 3 };

static struct sockaddr_in address = { .sin_family = AF_INET };
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_barrier_t all_ready;
static bool loses;
static int sum;

static void add_one(void)
{
	int old;

	pthread_mutex_lock(&lock);
	old = sum;
	if (loses) {
		pthread_mutex_unlock(&lock);
		pthread_mutex_lock(&lock);
	}
	sum = old + 1;
	pthread_mutex_unlock(&lock);
}

static void *serve(void *fd)
{
	char c;

	while (recv(*(int *)fd, &c, 1, 0) == 1) {
		add_one();
		assert(send(*(int *)fd, &c, 1, 0) == 1);
	}
	close(*(int *)fd);
	return NULL;
}

static void *ask(void *unused)
{
	int fd = socket(AF_INET, SOCK_STREAM, 0);
	char c = 'x';

	assert(connect(fd, (struct sockaddr *)&address, sizeof address) == 0);
	for (int i = 0; i < REQUESTS; i++) {
		pthread_barrier_wait(&all_ready);
		assert(send(fd, &c, 1, 0) == 1 && recv(fd, &c, 1, 0) == 1);
	}
	close(fd);
	return unused;
}

int main(int argc, char **argv)
{
	pthread_t clients[CLIENTS], servers[CLIENTS];
	socklen_t size = sizeof address;
	int listener = socket(AF_INET, SOCK_STREAM, 0), fds[CLIENTS];

	(void)argv;
	loses = argc > 1;
	address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	assert(bind(listener, (struct sockaddr *)&address, size) == 0
	       && listen(listener, CLIENTS) == 0
	       && getsockname(listener, (struct sockaddr *)&address, &size) == 0);
	pthread_barrier_init(&all_ready, NULL, CLIENTS);
	for (int i = 0; i < CLIENTS; i++)
		pthread_create(&clients[i], NULL, ask, NULL);
	for (int i = 0; i < CLIENTS; i++) {
		fds[i] = accept(listener, NULL, NULL);
		pthread_create(&servers[i], NULL, serve, &fds[i]);
	}
	for (int i = 0; i < CLIENTS; i++) {
		pthread_join(clients[i], NULL);
		pthread_join(servers[i], NULL);
	}
	close(listener);
	return sum != CLIENTS * REQUESTS;
}
