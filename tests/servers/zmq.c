/* SPDX-License-Identifier: MIT */
/*
 * zmq.c: a proxy of ZeroMQ between clients and workers, a thread each, and the messages
 * that each client sends: zmq MESSAGES. Exits with 0 if each had its answer.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zmq.h>

enum { CLIENTS = 8, WORKERS = 8 };

static void *context;
static long messages;

static void *open_socket(int type, const char *address,
			 int (*attach)(void *, const char *))
{
	void *socket = zmq_socket(context, type);

	if (!socket || attach(socket, address)) {
		fprintf(stderr, "zmq: %s: %s\n", address, zmq_strerror(zmq_errno()));
		exit(1);
	}
	return socket;
}

static void *work(void *unused)
{
	void *socket = open_socket(ZMQ_REP, "inproc://workers", zmq_connect);
	long n;

	while (zmq_recv(socket, &n, sizeof n, 0) == sizeof n) {
		n = -n;
		zmq_send(socket, &n, sizeof n, 0);
	}
	zmq_close(socket);
	return unused;
}

static void *ask(void *right)
{
	void *socket = open_socket(ZMQ_REQ, "inproc://clients", zmq_connect);

	for (long i = 1; i <= messages; i++) {
		long n = i;

		zmq_send(socket, &n, sizeof n, 0);
		if (zmq_recv(socket, &n, sizeof n, 0) != sizeof n || n != -i)
			break;
		++*(long *)right;
	}
	zmq_close(socket);
	return NULL;
}

static void *pass_on(void *unused)
{
	void *clients = open_socket(ZMQ_ROUTER, "inproc://clients", zmq_bind);
	void *workers = open_socket(ZMQ_DEALER, "inproc://workers", zmq_bind);

	zmq_proxy(clients, workers, NULL);
	zmq_close(clients);
	zmq_close(workers);
	return unused;
}

int main(int argc, char **argv)
{
	pthread_t proxy, clients[CLIENTS], workers[WORKERS];
	long right[CLIENTS] = { 0 }, sum = 0;

	messages = argc > 1 ? atol(argv[1]) : 1000;
	context = zmq_ctx_new();
	pthread_create(&proxy, NULL, pass_on, NULL);
	for (int i = 0; i < WORKERS; i++)
		pthread_create(&workers[i], NULL, work, NULL);
	for (int i = 0; i < CLIENTS; i++)
		pthread_create(&clients[i], NULL, ask, &right[i]);
	for (int i = 0; i < CLIENTS; i++) {
		pthread_join(clients[i], NULL);
		sum += right[i];
	}
	zmq_ctx_term(context);
	pthread_join(proxy, NULL);
	for (int i = 0; i < WORKERS; i++)
		pthread_join(workers[i], NULL);
	return sum != CLIENTS * messages;
}
