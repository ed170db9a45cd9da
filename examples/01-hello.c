/* SPDX-License-Identifier: MIT */
/*
 * Threads that greet in turn: each waits until the one before wakes it. Build it with
 *
 *   cc -O2 examples/01-hello.c build/one/usched-all.c -Ibuild/one -pthread -o hello
 *
 * after `make one'. It prints:
 *
 *   hello from thread 0
 *   hello from thread 1
 *   hello from thread 2
 */
#include <stdio.h>
#include <stdlib.h>

#include "usched-all.h"

enum { THREADS = 3 };

static struct ustack *thread[THREADS + 1];      /* NULL after the last */

static void check(int rc)
{
	if (rc < 0) {
		fprintf(stderr, "hello: %s\n", ustack_error(rc));
		exit(1);
	}
}

static void hello(void *arg)
{
	struct ustack **self = arg;

	check(ustack_wait());                       /* blocks this thread only */
	printf("hello from thread %d\n", (int)(self - thread));
	if (self[1])
		check(ustack_wake(self[1]));
}

int main(void)
{
	struct uprocs *rr;

	check(rr_create(NULL, &rr));
	for (int i = 0; i < THREADS; i++)
		check(rr_start(rr, hello, &thread[i], &thread[i]));
	check(ustack_wake(thread[0]));              /* allowed from outside, too */
	for (int i = 0; i < THREADS; i++)
		check(ustack_join(thread[i], NULL, USCHED_NEVER));
	check(uprocs_destroy(rr, USCHED_NEVER));
	return 0;
}
