/* SPDX-License-Identifier: MIT */
/*
 * signal.c: a native thread computes while another one interrupts it by signals, whose
 * handlers compute with another rounding direction. With qemu 7.2 for ppc64le some of
 * their results are wrong.
 */
#include <fenv.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static volatile double seed = 3;
static double right, upward;
static volatile int wrong, wrong_inside, done;

static __attribute__((noinline)) double series(double x)
{
	volatile double sum = 0.1;
	volatile long double more = 0.3L;

	for (int i = 1; i < 20; i++) {
		sum = sum * x + 1.0 / i;
		more = more / x + 1.0L / (i + sum);
	}
	return sum + (double)more;
}

static double series_upward(void)
{
	fesetround(FE_UPWARD);
	return series(1.7);
}

static void handler(int signo)
{
	int rounding = fegetround();
	double sum = series_upward();

	(void)signo;
	wrong_inside += memcmp(&sum, &upward, sizeof sum) != 0;
	fesetround(rounding);
}

static void *compute(void *unused)
{
	(void)unused;
	for (int i = 0; i < 100000; i++)
		wrong += series(seed) != right;
	done = 1;
	return NULL;
}

int main(void)
{
	pthread_t thread;
	int sent = 0;

	right = series(seed);
	upward = series_upward();
	fesetround(FE_TONEAREST);
	signal(SIGUSR1, handler);
	signal(SIGUSR2, handler);
	pthread_create(&thread, NULL, compute, NULL);
	for (; !done; sent++) {
		pthread_kill(thread, sent % 2 ? SIGUSR1 : SIGUSR2);
		usleep(300);
	}
	pthread_join(thread, NULL);
	printf("%d signals; wrong: %d of 100000 sums, %d in handlers\n", sent, wrong,
	       wrong_inside);
	return wrong + wrong_inside > 0;
}
