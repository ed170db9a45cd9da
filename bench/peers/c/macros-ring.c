/* SPDX-License-Identifier: MIT */
/*
 * The ring workload: 503 tasks of macros.h. The ready task is not known, so all are
 * called in turn, as is usual for such tasks, and each checks whether it has the token.
 * In the order of the ring a round of calls passes the token 503 times; in the
 * opposite order (WORST) a round passes it once.
 */
#include "macros.h"
#include "peer.h"

enum { RING = 503 };

struct member {
	struct task task;
	int full;                       /* has the token */
	size_t token;
	struct member *next;
};

static struct member ring[RING];

__attribute__((noinline)) static int pass(struct member *me)
{
	TASK_BEGIN(&me->task);
	for (;;) {
		TASK_WAIT_UNTIL(&me->task, me->full);
		me->full = 0;
		if (me->token == 0)
			break;
		me->next->token = me->token - 1;
		me->next->full = 1;
	}
	TASK_END(&me->task);
}

/* Calls all in turn until one ends. Returns its index. */
static int run(void)
{
	for (;;) {
#ifndef WORST
		for (int i = 0; i < RING; i++)
#else
		for (int i = RING - 1; i >= 0; i--)
#endif
			if (pass(&ring[i]) == TASK_ENDED)
				return i;
	}
}

int main(int argc, char **argv)
{
	size_t passes;
	double start;
	int last;

	arguments(argc, argv, "PASSES", &passes);
	for (int i = 0; i < RING; i++) {
		ring[i].next = &ring[(i + 1) % RING];
		pass(&ring[i]);
	}
	start = now();
	ring[0].token = passes;
	ring[0].full = 1;
	last = run();
	print_seconds(now() - start, (size_t)last + 1);
	return 0;
}
