/* SPDX-License-Identifier: MIT */
/*
 * contend.c: a mutex for which two processors compete.
 *
 *	contend usync|pthread HELD MILLISECONDS
 *
 * Two threads of ll on two processors, or two native threads, lock a mutex, hold it for
 * HELD ns, and leave it for as long, again and again. Prints the locks per millisecond.
 */
#include <pthread.h>
#include <stdbool.h>
#include <unistd.h>

#include "../ll.h"
#include "../usync.h"

#define BENCH_PROGRAM "contend"
#include "bench.h"

struct side {
	size_t locks __attribute__((aligned(128)));
};

static struct usync_mutex mutex;
static pthread_mutex_t    native = PTHREAD_MUTEX_INITIALIZER;
static struct side        sides[2];
static int64_t            held;         /* ns */
static bool               over;         /* atomic */

static void usage(void)
{
	fprintf(stderr, "usage: contend usync|pthread HELD MILLISECONDS\n");
	exit(2);
}

static void pass_time(void)
{
	if (held > 0)
		spin_until(uevents_now() + held);
}

static bool goes_on(void)
{
	return !__atomic_load_n(&over, __ATOMIC_RELAXED);
}

static void compete(void *arg)
{
	struct side *side = arg;

	while (goes_on()) {
		check(usync_mutex_lock(&mutex, USCHED_NEVER), "lock");
		side->locks++;
		pass_time();
		usync_mutex_unlock(&mutex);
		pass_time();
	}
}

static void *compete_natively(void *arg)
{
	struct side *side = arg;

	while (goes_on()) {
		pthread_mutex_lock(&native);
		side->locks++;
		pass_time();
		pthread_mutex_unlock(&native);
		pass_time();
	}
	return NULL;
}

static void wait_and_end(unsigned ms)
{
	usleep(ms * 1000);
	__atomic_store_n(&over, true, __ATOMIC_RELAXED);
}

static void run(unsigned ms)
{
	struct usched_conf conf = { .c_processors = 2 };
	struct ll *ll;

	check(ll_create(&conf, &ll), "scheduler");
	for (int i = 0; i < 2; i++)
		check(ll_start(ll, ll_group(ll), compete, &sides[i], NULL), "start");
	wait_and_end(ms);
	check(ll_destroy(ll), "end");
}

static void run_natively(unsigned ms)
{
	pthread_t threads[2];

	for (int i = 0; i < 2; i++)
		check(-pthread_create(&threads[i], NULL, compete_natively, &sides[i]),
		      "start");
	wait_and_end(ms);
	for (int i = 0; i < 2; i++)
		pthread_join(threads[i], NULL);
}

int main(int argc, char **argv)
{
	unsigned ms;

	if (argc != 4)
		usage();
	held = (int64_t)number(argv[2], 0, 1000000);
	ms = (unsigned)number(argv[3], 1, 60000);
	if (strcmp(argv[1], "usync") == 0)
		run(ms);
	else if (strcmp(argv[1], "pthread") == 0)
		run_natively(ms);
	else
		usage();
	printf("%.6f\n", (double)(sides[0].locks + sides[1].locks) / ms);
	return 0;
}
