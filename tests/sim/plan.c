/* SPDX-License-Identifier: MIT */
/*
 * Hosts and faults by plan: what threads of a host inherit, that they end where they are,
 * in whatever wait, and that files of hosts are their own.
 */
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <time.h>
#include <sys/uio.h>
#include <unistd.h>

#include "../../sim/sim.h"
#include "../../usync.h"

#define NAME "/var/tmp/usched-sim-host"

enum { MS = 1000000, SECOND = 1000000000 };

static pthread_mutex_t held = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t never = PTHREAD_COND_INITIALIZER;
static sem_t closed;
static unsigned begun[3], beats[3];
static int wrote, full;

static void *wait_for_lock(void *unused)
{
	pthread_mutex_lock(&held);
	return unused;
}

static void *wait_for_sem(void *unused)
{
	sem_wait(&closed);
	return unused;
}

static void *wait_for_cond(void *unused)
{
	pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER;

	pthread_mutex_lock(&m);
	pthread_cond_wait(&never, &m);
	return unused;
}

static void *wait_for_time(void *unused)
{
	sleep(1000000);
	return unused;
}

static void *beat(void *number)
{
	for (unsigned i = 0; i < 100000; i++) {
		beats[*(int *)number]++;
		usleep(1000);
	}
	return NULL;
}

static void run_waits(void *number)
{
	static void *(*const waits[])(void *) = {
		wait_for_lock, wait_for_sem, wait_for_cond, wait_for_time, beat
	};
	pthread_t t;

	begun[*(int *)number]++;
	for (size_t i = 0; i < sizeof waits / sizeof waits[0]; i++)
		pthread_create(&t, NULL, waits[i], number);
	pthread_join(t, NULL);
}

static void run_files(void *unused)
{
	int fd = open(NAME, O_CREAT | O_EXCL | O_WRONLY, 0600);
	struct iovec more = { "y", 1 };
	char c = 'x';

	(void)unused;
	begun[2]++;
	assert(fd >= 0 || begun[2] > 1);
	for (;;) {
		if (write(fd, &c, 1) == 1)
			wrote++;
		else if (errno == ENOSPC && pwritev(fd, &more, 1, 0) < 0)
			full++;
		usleep(10000);
	}
}

static time_t now_of_day(void)
{
	return time(NULL);
}

int main(void)
{
	static int numbers[] = { 0, 1 };
	struct sim_host *a, *b, *c;
	struct timespec before, after;
	time_t day = now_of_day();
	unsigned count;

	sem_init(&closed, 0, 0);
	pthread_mutex_lock(&held);
	assert(sim_host_start("a", "10.0.0.1", run_waits, &numbers[0], &a) == 0);
	assert(sim_host_start("b", "10.0.0.2", run_waits, &numbers[1], &b) == 0);
	assert(sim_host_start("c", "10.0.0.3", run_files, NULL, &c) == 0);
	assert(sim_host_restart(a) == -EALREADY);
	sim_at(usync_after(50 * (int64_t)MS),
	       &(struct sim_fault){ SIM_CRASH, a, NULL, 0 });
	sim_at(usync_after(50 * (int64_t)MS),
	       &(struct sim_fault){ SIM_CRASH, b, NULL, 500 * (int64_t)MS });
	sim_at(usync_after(100 * (int64_t)MS),
	       &(struct sim_fault){ SIM_DISK_FULL, c, NULL, 200 * (int64_t)MS });
	sim_at(usync_after(60 * (int64_t)MS),
	       &(struct sim_fault){ SIM_CLOCK, NULL, NULL, 7200 * (int64_t)SECOND });
	clock_gettime(CLOCK_MONOTONIC, &before);
	usleep(90 * 1000);
	count = beats[0];
	assert(count > 10 && begun[1] == 1 && now_of_day() - day >= 7200);
	usleep(900 * 1000);
	clock_gettime(CLOCK_MONOTONIC, &after);
	assert(after.tv_sec - before.tv_sec < 10);
	assert(beats[0] == count && begun[0] == 1);
	assert(begun[1] == 2 && beats[1] > count + 100);
	assert(wrote > 20 && full > 5);
	assert(access(NAME, F_OK) < 0 && errno == ENOENT);
	assert(sim_host_crash(a) == -EALREADY && sim_host_crash(c) == 0);
	count = (unsigned)wrote;
	pthread_cond_broadcast(&never);
	sem_post(&closed);                      /* b's waits; those of a are gone */
	pthread_mutex_unlock(&held);
	usleep(100 * 1000);
	assert((unsigned)wrote == count && beats[0] < 1000);
	assert(sem_trywait(&closed) < 0);
	assert(sim_host_restart(c) == 0);
	usleep(100 * 1000);
	printf("%u %u %d %d\n", beats[0], beats[1], wrote, full);
	sim_host_crash(b);
	sim_host_crash(c);
	pthread_exit(NULL);                     /* that is no deadlock */
}
