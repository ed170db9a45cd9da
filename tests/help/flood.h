/* SPDX-License-Identifier: MIT */
/*
 * flood.h: a flood of signals at two processors and a native thread: handlers go
 * kilobytes deep and use floating point; timers and a native thread send.
 */
#ifndef USCHED_TEST_FLOOD_H
#define USCHED_TEST_FLOOD_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

enum { PROCESSORS = 2 };

extern atomic_size_t ready;                     /* calls of be_signalled() */
extern atomic_bool   stop, calm;                /* end the flood: all; what timers send */
extern pthread_t     natives[PROCESSORS + 1];   /* the last is no processor */

/* Computes; it depends on the rounding direction. */
double series(double x);

void set_handlers(void);

/* `us', or longer on slow machines, to leave time for the threads. */
long often(long us);

void pause_us(long us);

/* A thread's function, for processor number `arg'; until `calm' it has timers. */
void be_signalled(void *arg);

/* A native thread: sends signals to `natives' until `stop'. */
void *send_signals(void *unused);

/* Timers of the process, each `us'; 0: none. */
void set_intervals(long us);

/* Whether there were enough signals of each kind that is sent, and one of the others. */
bool all_came(size_t enough);

size_t signals_handled(void);

#endif /* USCHED_TEST_FLOOD_H */
