/* SPDX-License-Identifier: MIT */
/*
 * The cycle workload with native threads. Each waits for messages at its own semaphore,
 * which counts them; nothing else in POSIX does so in a single call. The threads are kept
 * on P processors.
 *
 * The number of blocks is that of voluntary context switches while the clock runs. The
 * kernel counts them.
 */
#include "posix.h"

#include <sys/resource.h>

enum { THREAD_BYTES = 24 << 10 };       /* of one, at least, with the kernel's part */

struct member {
	sem_t messages;
	size_t index;
	pthread_t thread;
};

static struct {
	size_t n, r, m;
} arg;

static struct member *member;
static size_t arrived, finished;        /* threads, twice; cycles. Atomic */
static sem_t conductor;

static void run_first(struct member *me, struct member *right, size_t i)
{
	if (__atomic_add_fetch(&arrived, 1, __ATOMIC_ACQ_REL) % (arg.n * arg.r) == 0)
		up(&conductor);
	down(&me->messages);            /* i == 0: to start */
	up(&right->messages);
	if (i == 0)
		down(&me->messages);
}

static void *relay(void *self)
{
	struct member *me = self, *right;
	size_t i = me->index % arg.n, turn = 1 % arg.n;

	right = &member[me->index - i + (i + 1) % arg.n];
	run_first(me, right, i);        /* before the clock starts */
	run_first(me, right, i);
	for (size_t left = arg.m - 1; left > 0; left--) {
		if (turn == i) {
			up(&right->messages);
			down(&me->messages);
		} else {
			down(&me->messages);
			up(&right->messages);
		}
		if (++turn == arg.n)
			turn = 0;
	}
	if (i == (arg.m - 1) % arg.n
	    && __atomic_add_fetch(&finished, 1, __ATOMIC_ACQ_REL) == arg.r)
		up(&conductor);
	return NULL;
}

static size_t switches(void)
{
	struct rusage use;

	getrusage(RUSAGE_SELF, &use);
	return (size_t)use.ru_nvcsw;
}

static void start(size_t threads)
{
	pthread_attr_t attr;

	small_stacks(&attr);
	member = calloc(threads, sizeof *member);
	if (!member || sem_init(&conductor, 0, 0))
		fail("not enough memory");
	for (size_t i = 0; i < threads; i++) {
		member[i].index = i;
		sem_init(&member[i].messages, 0, 0);
	}
	for (size_t i = 0; i < threads; i++)
		check(pthread_create(&member[i].thread, &attr, relay, &member[i]),
		      "pthread_create");
}

/* Waits until all threads have run their first round, or all cycles have finished. */
static void start_cycles(void)
{
	for (size_t c = 0; c < arg.r; c++)
		up(&member[c * arg.n].messages);
	down(&conductor);
}

int main(int argc, char **argv)
{
	static const char names[] = "N R M P";
	size_t value[4], threads, blocks;
	double seconds;

	arguments(argc, argv, names, value);
	if (value[0] < 2)
		usage(argv[0], names);
	use_processors(value[3]);
	arg.n = value[0], arg.r = value[1], arg.m = value[2];
	threads = cycle_threads(arg.n, arg.r, THREAD_BYTES);
	start(threads);
	down(&conductor);               /* until all have arrived */
	start_cycles();
	blocks = switches();
	seconds = now();
	start_cycles();
	seconds = now() - seconds;
	blocks = switches() - blocks;
	for (size_t i = 0; i < threads; i++)
		check(pthread_join(member[i].thread, NULL), "pthread_join");
	if (counts_blocks())
		printf("%zu\n", blocks);
	else
		printf("%.6f\n", seconds);
	free(member);
	return 0;
}
