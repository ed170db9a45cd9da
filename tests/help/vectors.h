/* SPDX-License-Identifier: MIT */
/* vectors.h: computations that use all registers, for tests of preemption. */
#ifndef USCHED_TEST_VECTORS_H
#define USCHED_TEST_VECTORS_H

#include <stddef.h>

enum { VECTORS_SHORT = 20000 };         /* rounds: some dozens of us */

/* The widest vectors of this CPU. */
const char *vectors_name(void);

/* A sum that depends on `seed' and on each of the rounds. The same each time. */
double vectors_sum(unsigned seed, size_t rounds);

/* Whether a thread of `s', of the kind `over', gets into a region. */
int vectors_ask(void *s);

/* Times that a native thread of this process slept. */
size_t vectors_sleeps(void);

#endif /* USCHED_TEST_VECTORS_H */
