/* SPDX-License-Identifier: MIT */
/*
 * embed.h: what the tests of embedded schedulers share. The event loop calls poll(2). A
 * descriptor that is not readable when it should be hangs the loop, and the time is up.
 * One that is readable for nothing keeps it turning, and the turns are counted.
 */
#ifndef USCHED_TEST_EMBED_H
#define USCHED_TEST_EMBED_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

#include "../../uprocs.h"
#include "../../usync.h"
#include "over.h"

enum { SLEEPS = 20, WAKES = 30, MILLI = 1000000 };      /* of a thread; ns */

extern void      *embedded;             /* the scheduler */
extern bool       on_native;            /* its threads are on the stack of the loop */
extern atomic_int lines;                /* that it reported */
extern atomic_int done;                 /* counted by threads */
extern size_t     turns;                /* of the last loop */

/* A c_log that counts. */
void count_line(const char *line);

/* Runs `test' with stacks and without. It destroys the scheduler. No descriptor leaks. */
void each(void (*test)(void));

/* Starts a thread that is joined or detached later. */
struct ustack *go(void (*func)(void *), void *arg);

/*
 * Turns until so many threads are done, and then until there is nothing to do, which is
 * soon. All calls of run are here: on the native stack they have to be from one depth.
 * The descriptor, or what run returned.
 */
int loop(int n);

/* Destroys the scheduler. No deadlock was reported. */
void finish(void);

void sleep_native(long ms);

/* Threads' functions, which add to `done' in the end: */
void once(void *unused);
void sleep_often(void *unused);         /* SLEEPS times */
void wait_often(void *unused);          /* for WAKES tokens */

/* Starts a thread that echoes, and a native thread that talks to it. */
struct ustack *go_echo(pthread_t *native);

#endif /* USCHED_TEST_EMBED_H */
