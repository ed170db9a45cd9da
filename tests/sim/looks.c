/* SPDX-License-Identifier: MIT */
/*
 * A thread looks again and again, by calls that do not wait, for what one that sleeps is
 * about to do. Where threads run in their order the sleeper gets its turn, too.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE             /* pthread_tryjoin_np() */
#endif
#include <assert.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { LOOKS = 7 };

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_t actor;
static sem_t acted;
static int fds[2];
static sigset_t signals;

static void *act(void *unused)
{
	pthread_mutex_lock(&mutex);
	usleep(20000);
	pthread_mutex_unlock(&mutex);
	sem_post(&acted);
	assert(write(fds[1], "x", 1) == 1);
	assert(kill(getpid(), SIGUSR1) == 0);
	return unused;
}

static int has_found(int look)
{
	struct pollfd one = { .fd = fds[0], .events = POLLIN };
	int n = 0;
	char c;

	switch (look) {
	case 0:
		return poll(&one, 1, 0) == 1;
	case 1:
		return recv(fds[0], &c, 1, MSG_DONTWAIT) == 1;
	case 2:
		return ioctl(fds[0], FIONREAD, &n) == 0 && n > 0;
	case 3:
		return sem_trywait(&acted) == 0;
	case 4:
		return pthread_tryjoin_np(actor, NULL) == 0;
	case 5:
		return sigtimedwait(&signals, NULL, &(struct timespec){ 0 }) == SIGUSR1;
	default:
		if (pthread_mutex_trylock(&mutex))
			return 0;
		return pthread_mutex_unlock(&mutex) == 0;
	}
}

int main(void)
{
	sigemptyset(&signals);
	sigaddset(&signals, SIGUSR1);
	pthread_sigmask(SIG_BLOCK, &signals, NULL);
	for (int i = 0; i < LOOKS; i++) {
		sem_init(&acted, 0, 0);
		assert(socketpair(AF_UNIX, SOCK_STREAM, 0, fds) == 0);
		assert(pthread_create(&actor, NULL, act, NULL) == 0);
		usleep(5000);
		while (!has_found(i))
			;
		if (i != 4)
			pthread_join(actor, NULL);
		sigtimedwait(&signals, NULL, &(struct timespec){ 0 });
		close(fds[0]);
		close(fds[1]);
	}
	puts("looks: passed");
	return 0;
}
