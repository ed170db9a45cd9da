/* SPDX-License-Identifier: MIT */
/* What is left at the end: a thread, a descriptor, or nothing but a fault to come. */
#include <pthread.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "../../sim/sim.h"

static void *wait_for_ever(void *unused)
{
	pause();
	return unused;
}

static void *end(void *unused)
{
	return unused;
}

int main(int argc, char **argv)
{
	const char *left = argc > 1 ? argv[1] : "nothing";
	int fd = socket(AF_INET, SOCK_STREAM, 0);
	pthread_t t;

	if (sim_at(INT64_MAX, &(struct sim_fault){ .kind = SIM_CLOCK }))
		return 1;
	if (pthread_create(&t, NULL, strcmp(left, "thread") ? end : wait_for_ever, NULL))
		return 1;
	if (strcmp(left, "thread") != 0)
		pthread_join(t, NULL);
	if (strcmp(left, "descriptor") != 0)
		close(fd);
	return 0;
}
