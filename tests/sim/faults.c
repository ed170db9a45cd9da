/* SPDX-License-Identifier: MIT */
/*
 * Faults of the network. Clients ask a server on another host, by TCP and by UDP, until
 * it has answered; connections end, packets are lost and come twice, nothing passes for a
 * while, and the server crashes. Each request is answered at last, and answers fit.
 */
#include "check.h"

#include <signal.h>
#include <stdbool.h>

#include "../../sim/sim.h"

#define SECOND 1000000000ll

enum { CALLERS = 5, REQUESTS = 10 };

static struct sim_host *server, *callers[CALLERS];
static int answered;

static void *serve_one(void *arg)
{
	int fd = (int)(intptr_t)arg;
	uint32_t x;

	while (recv(fd, &x, sizeof x, MSG_WAITALL) == sizeof x) {
		x *= 2;
		if (write(fd, &x, sizeof x) != sizeof x)
			break;
	}
	close(fd);
	return NULL;
}

static int bound(int type, int port)
{
	struct sockaddr_in a = address("0.0.0.0", port);
	int fd;

	while ((fd = socket(AF_INET, type, 0)) < 0)
		CHECK(errno == EMFILE);
	CHECK(bind(fd, (struct sockaddr *)&a, sizeof a) == 0);
	return fd;
}

static void *serve_packets(void *unused)
{
	int fd = bound(SOCK_DGRAM, 53);
	struct sockaddr_in from;
	uint32_t x;

	(void)unused;
	for (;;) {
		socklen_t size = sizeof from;

		if (recvfrom(fd, &x, sizeof x, 0, (struct sockaddr *)&from, &size) < 0)
			continue;
		x *= 2;
		sendto(fd, &x, sizeof x, 0, (struct sockaddr *)&from, size);
	}
	return NULL;
}

static void serve(void *unused)
{
	int listener = bound(SOCK_STREAM, 80);

	(void)unused;
	CHECK(listen(listener, 10) == 0);
	pthread_detach(started(serve_packets, NULL));
	for (;;) {
		int fd = accept(listener, NULL, NULL);

		if (fd >= 0)
			pthread_detach(started(serve_one, (void *)(intptr_t)fd));
		else
			usleep(1000);
	}
}

static int is_answered(int fd, uint32_t x)
{
	struct timeval limit = { 1, 0 };
	uint32_t y = 0;
	ssize_t n;

	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
	if (write(fd, &x, sizeof x) != sizeof x)
		return 0;
	while ((n = recv(fd, &y, sizeof y, MSG_WAITALL)) == sizeof y && y != 2 * x)
		CHECK(y < 2 * x);               /* an earlier one's, that came twice */
	return n == sizeof y;
}

/* A try on a new connection, or by packets. */
static int ask(uint32_t x, int type)
{
	struct sockaddr_in a = address("10.0.0.1", type == SOCK_STREAM ? 80 : 53);
	int fd = socket(AF_INET, type, 0);
	int ok = fd >= 0 && connect(fd, (struct sockaddr *)&a, sizeof a) == 0
		&& is_answered(fd, x);

	if (fd >= 0)
		close(fd);
	return ok;
}

static void call(void *unused)
{
	(void)unused;
	for (uint32_t x = 1; x <= REQUESTS; x++)
		while (!ask(x, x % 2 ? SOCK_STREAM : SOCK_DGRAM))
			usleep(100000);
	__atomic_fetch_add(&answered, 1, __ATOMIC_RELAXED);
}

static void plan(int64_t when, enum sim_fault_kind kind, struct sim_host *other,
		 int64_t ns)
{
	CHECK(sim_at(when, &(struct sim_fault){ kind, server, other, ns }) == 0);
}

static int64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * SECOND + t.tv_nsec;
}

static int connected(int type, int port)
{
	struct sockaddr_in a = address("10.0.0.1", port);
	int fd = socket(AF_INET, type, 0);

	CHECK(connect(fd, (struct sockaddr *)&a, sizeof a) == 0);
	return fd;
}

/* Returns how many answers a packet has, or -1 if the packet cannot be sent. */
static int answers_with(struct sim_faults faults)
{
	struct timeval limit = { 1, 0 };
	int fd = connected(SOCK_DGRAM, 53), answers = 0;
	uint32_t x = 1;

	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
	sim_faults(&faults);
	if (write(fd, &x, sizeof x) != sizeof x)
		answers = -1;
	while (read(fd, &x, sizeof x) == sizeof x)
		answers++;
	sim_faults(&(struct sim_faults){ 0 });
	close(fd);
	return answers;
}

/* If each packet comes twice, a request has four answers. The first run has no faults. */
static void try_packets(void)
{
	bool faults = answers_with((struct sim_faults){ .f_no_buffer = 1 }) < 0;

	CHECK(answers_with((struct sim_faults){ .f_duplicate = 1 }) == (faults ? 4 : 1));
	CHECK(answers_with((struct sim_faults){ .f_loss = 1 }) == (faults ? 0 : 1));
}

/* Requests to connect, and data, pass when a cut has ended, or time out as on Linux. */
static void try_cuts(void)
{
	struct sockaddr_in a = address("10.0.0.1", 80);
	int fd, other;
	uint32_t x = 1;
	int64_t from = now_ns();

	plan(from, SIM_PARTITION, NULL, 5 * SECOND);
	usleep(1000);
	fd = connected(SOCK_STREAM, 80);
	CHECK(now_ns() - from > 6 * SECOND && now_ns() - from < 8 * SECOND);
	from = now_ns();
	plan(from, SIM_PARTITION, NULL, 5 * SECOND);
	usleep(1000);
	CHECK(write(fd, &x, sizeof x) == sizeof x);
	CHECK(recv(fd, &x, sizeof x, MSG_WAITALL) == sizeof x);
	CHECK(now_ns() - from > 6 * SECOND && now_ns() - from < 7 * SECOND);
	plan(now_ns(), SIM_PARTITION, NULL, 0);
	usleep(1000);
	other = socket(AF_INET, SOCK_STREAM, 0);
	from = now_ns();
	CHECK(connect(other, (struct sockaddr *)&a, sizeof a) < 0 && errno == ETIMEDOUT);
	CHECK(now_ns() - from > 127 * SECOND && now_ns() - from < 128 * SECOND);
	from = now_ns();
	CHECK(write(fd, &x, sizeof x) == sizeof x && read(fd, &x, sizeof x) < 0);
	CHECK(errno == ETIMEDOUT);
	CHECK(now_ns() - from > 924 * SECOND && now_ns() - from < 925 * SECOND);
}

/* A host that is cut off from all others reaches itself. */
static void reach_itself(void *unused)
{
	int listener = listener_at("127.0.0.1", 90);
	int64_t from;

	(void)unused;
	usleep(2000);
	from = now_ns();
	close(connected_to("127.0.0.1", 90));
	CHECK(now_ns() - from < SECOND);
	close(listener);
}

int main(void)
{
	static const char *const addresses[] = { "10.0.0.2", "10.0.0.3", "10.0.0.4",
						 "10.0.0.5", "10.0.0.6" };
	int64_t now = now_ns();

	signal(SIGPIPE, SIG_IGN);
	sim_faults(&(struct sim_faults){ .f_loss = 10, .f_duplicate = 10, .f_reset = 50,
		.f_partition = 200, .f_slow = 20, .f_no_answer = 50, .f_no_buffer = 50,
		.f_short = 5, .f_open = 50 });
	CHECK(sim_host_start("server", "10.0.0.1", serve, NULL, &server) == 0);
	for (int i = 0; i < CALLERS; i++)
		CHECK(sim_host_start(addresses[i], addresses[i], call, NULL, &callers[i])
		      == 0);
	plan(now + SECOND / 200, SIM_PARTITION, callers[0], 20 * SECOND);
	plan(now + SECOND / 100, SIM_CRASH, NULL, 3 * SECOND);
	plan(now + SECOND, SIM_SLOW, callers[1], SECOND);
	plan(now + 4 * SECOND, SIM_RESET, NULL, 0);
	while (__atomic_load_n(&answered, __ATOMIC_RELAXED) < CALLERS)
		sleep(1);
	sleep(60);                              /* until all faults have ended */
	sim_faults(&(struct sim_faults){ 0 });
	try_packets();
	try_cuts();
	CHECK(sim_host_start("alone", "10.0.0.9", reach_itself, NULL, &server) == 0);
	plan(now_ns(), SIM_PARTITION, NULL, 5 * SECOND);
	sleep(20);
	puts("faults: passed");
	return 0;
}
