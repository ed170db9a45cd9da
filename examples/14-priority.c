/* SPDX-License-Identifier: MIT */
/*
 * A scheduler of the program's own, over two native threads: of the threads that are
 * ready, the one with the highest priority runs first. Build it with
 *
 *   cc -O2 examples/14-priority.c build/one/usched-all.c -Ibuild/one -pthread \
 *     -o priority
 *
 * after `make one'. It prints:
 *
 *   processor 0: high high high normal normal normal low low low
 *   processor 1: high high high normal normal normal low low low
 *
 * Each processor has a queue for each priority. uproc.h does the rest: native threads,
 * wakes from other processors, sleep, timers, joins. Threads that became ready come from
 * uproc_pop(), first in, first out; choose() puts them into the queues of their
 * priorities. A thread of low priority runs only while no other one is ready.
 *
 * The priority of a thread is in its uproc_room(), with the link of the queue. A thread
 * begins with the priority of the thread that starts it, unless h_room has another one.
 */
#include <stdio.h>
#include <stdlib.h>

#include "usched-all.h"

enum priority { LOW, NORMAL, HIGH, PRIORITIES };

/* What the scheduler has for each thread. */
struct room {
	enum priority        priority;
	struct uproc_thread *next;      /* in a queue */
};

/* A processor. Only its native thread touches the queues. */
struct processor {
	struct uproc base;              /* first */
	struct queue {
		struct uproc_thread *first;
		struct uproc_thread *last;
	} queue[PRIORITIES];
};

static struct room *room(const struct uproc_thread *t)
{
	return uproc_room(t);
}

static void push(struct queue *q, struct uproc_thread *t)
{
	room(t)->next = NULL;
	if (q->first)
		room(q->last)->next = t;
	else
		q->first = t;
	q->last = t;
}

static struct uproc_thread *choose(struct uproc *p)
{
	struct queue *queue = ((struct processor *)(void *)p)->queue;
	struct uproc_thread *t;

	while ((t = uproc_pop(p)))
		push(&queue[room(t)->priority], t);
	for (int i = PRIORITIES - 1; i >= 0; i--) {
		t = queue[i].first;
		if (t) {
			queue[i].first = room(t)->next;
			return t;
		}
	}
	return NULL;
}

/* Call-backs: s_next, s_pick. */

static struct ustack *next(struct usched *s)
{
	return uproc_next(uproc_from(s), choose);
}

static struct ustack *pick(struct usched *s, struct ustack *self)
{
	return uproc_wait(s, self, choose);
}

static const struct uproc_policy policy = {
	.y_size = sizeof(struct processor),
	.y_room = sizeof(struct room),
	.y_next = next,
	.y_pick = pick,
};

/* The program: on each processor nine threads, each of which notes that it runs. */

enum { PROCESSORS = 2, EACH = 3 };

static const char *const names[] = { "low", "normal", "high" };

/* What ran on a processor; its native thread writes. */
static struct history {
	const char *ran[PRIORITIES * EACH];
	int         runs;
} history[PROCESSORS];

static void check(int rc)
{
	if (rc < 0) {
		fprintf(stderr, "priority: %s\n", ustack_error(rc));
		exit(1);
	}
}

static void work(void *arg)
{
	struct history *h = arg;

	h->ran[h->runs++] = names[room(uproc_thread(ustack_self()))->priority];
}

/* The priority of this thread is high, so all are started before one of them runs. */
static void start_all(void *arg)
{
	for (int i = 0; i < PRIORITIES * EACH; i++) {
		const struct room it = { .priority = (enum priority)(i % PRIORITIES) };
		const struct ustack_how how = { .h_processor = USCHED_BESIDE,
						.h_room = &it };

		check(ustack_start_with(&how, work, arg, NULL));
	}
}

int main(void)
{
	const struct uprocs_conf conf = { .c_processors = PROCESSORS };
	const struct room high = { .priority = HIGH };
	struct uprocs *procs;

	check(uprocs_create(&conf, &policy, &procs));
	for (unsigned i = 0; i < PROCESSORS; i++) {
		const struct ustack_how how = { .h_processor = USCHED_ON(i),
						.h_room = &high };

		check(uproc_start(uprocs_place(procs, &how), &how, start_all, &history[i],
				  NULL));
	}
	check(uprocs_destroy(procs, USCHED_NEVER));
	for (int i = 0; i < PROCESSORS; i++) {
		printf("processor %d:", i);
		for (int k = 0; k < history[i].runs; k++)
			printf(" %s", history[i].ran[k]);
		printf("\n");
	}
	return 0;
}
