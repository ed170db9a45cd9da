/* SPDX-License-Identifier: MIT */
/*
 * Clocks, random numbers and numbers of processes: USCHED_SIM_TWICE=1 proves that they
 * repeat. Here: they go on, and are not the same all the time.
 */
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/timerfd.h>
#include <sys/times.h>
#include <time.h>
#include <unistd.h>

static void show_clocks(const char *who)
{
	struct timespec mono, real, day;
	struct rusage usage;
	struct timeval t;
	struct tms ticks;
	clockid_t cpu;
	intmax_t seconds = time(NULL);
	long used = clock();

	clock_gettime(CLOCK_MONOTONIC, &mono);
	clock_gettime(CLOCK_REALTIME, &real);
	gettimeofday(&t, NULL);
	timespec_get(&day, TIME_UTC);
	assert(t.tv_sec >= real.tv_sec && day.tv_sec >= t.tv_sec);
	printf("%s %jd.%09ld %jd.%09ld %jd %ld\n", who, (intmax_t)mono.tv_sec,
	       mono.tv_nsec, (intmax_t)real.tv_sec, real.tv_nsec, seconds, used);
	printf("%d\n", (int)getpid());
	assert(clock_getcpuclockid(getpid(), &cpu) == 0 && clock_gettime(cpu, &day) == 0);
	assert(pthread_getcpuclockid(pthread_self(), &cpu) == 0);
	assert(clock_gettime(cpu, &day) == 0 && clock_gettime(99, &day) < 0);
	assert(getpriority(PRIO_PROCESS, (id_t)getpid()) == getpriority(PRIO_PROCESS, 0));
	assert(getpgid(getpid()) == getpgid(0) && getsid(getpid()) == getsid(0));
	assert(getrusage(RUSAGE_SELF, &usage) == 0 && times(&ticks) != (clock_t)-1);
	printf("%ld %ld\n", (long)usage.ru_utime.tv_usec, (long)ticks.tms_utime);
}

/* What is further away than the clock goes never comes. */
static void far_timers(void)
{
	static const time_t seconds[] = { INT64_MAX, INT64_C(1) << 40, 10000000000, 1 };
	int fd = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK);
	struct itimerspec t = { 0 };
	uint64_t n;

	for (int i = 0; i < 4; i++) {
		t.it_value.tv_sec = seconds[i];
		t.it_interval.tv_sec = seconds[0];
		assert(timerfd_settime(fd, i % 2 ? TFD_TIMER_ABSTIME : 0, &t, NULL) == 0);
		usleep(1000);
		assert(read(fd, &n, sizeof n) == (i < 3 ? -1 : (ssize_t)sizeof n));
	}
	assert(read(fd, &n, sizeof n) == -1 && errno == EAGAIN);
	t = (struct itimerspec){ .it_value = { 0, 1000000000 } };
	assert(timerfd_settime(fd, 0, &t, NULL) == -1 && errno == EINVAL);
	t = (struct itimerspec){ .it_value = { 1, 0 }, .it_interval = { -1, 0 } };
	assert(timerfd_settime(fd, 0, &t, NULL) == -1 && errno == EINVAL);
	close(fd);
}

static uint64_t from_file(const char *path)
{
	uint64_t x = 0;
	int fd = open(path, O_RDONLY);
	FILE *f = fopen(path, "r");

	assert(fd >= 0 && f);
	assert(read(fd, &x, sizeof x) == sizeof x);
	close(fd);
	assert(fread(&fd, sizeof fd, 1, f) == 1);
	fclose(f);
	return x ^ (unsigned)fd;
}

static void *work(void *name)
{
	uint64_t x[4] = { 0 };

	assert(getrandom(&x[0], sizeof x[0], 0) == sizeof x[0]);
	assert(getentropy(&x[1], sizeof x[1]) == 0);
	x[2] = from_file("/dev/urandom");
	x[3] = from_file("/dev/random");
	assert(x[0] != x[1] && x[1] != x[2] && x[2] != x[3]);
	printf("%s %" PRIx64 " %" PRIx64 " %" PRIx64 " %" PRIx64 "\n", (char *)name, x[0],
	       x[1], x[2], x[3]);
	usleep((useconds_t)(x[0] % 1000));
	show_clocks(name);
	return NULL;
}

int main(void)
{
	struct timespec before, after;
	pthread_t a, b;

	clock_gettime(CLOCK_MONOTONIC, &before);
	sleep(3600);
	clock_gettime(CLOCK_MONOTONIC, &after);
	after.tv_sec -= before.tv_sec;
	assert(after.tv_sec >= 3600 && after.tv_sec < 3602);
	far_timers();
	pthread_create(&a, NULL, work, "a");
	pthread_create(&b, NULL, work, "b");
	pthread_join(a, NULL);
	pthread_join(b, NULL);
	show_clocks("main");
	return 0;
}
