/* SPDX-License-Identifier: MIT */
/* drive.h: what drive.c, partner.c and trap.c know of each other. */
#ifndef USCHED_CORPUS_DRIVE_H
#define USCHED_CORPUS_DRIVE_H

#include "corpus.h"

enum { CORPUS_STACK = 256 << 10 };       /* bytes, of each thread */

enum { PLACE_WORKER, PLACE_PARTNER, PLACES };

/* The function of the other thread: rubbish in all registers, then hand back. */
void corpus_partner(void *worker);

/* Whether this machine has what a caller needs. */
int corpus_has(int needs);

/* Walks from the calling thread must find the caller of the calling function. */
void trap_here(int place);

/* The same; and from now on a signal handler runs at each instruction. */
void trap_begin(void);
void trap_end(void);

/* Prints what was seen. 0, or 1 if something was wrong. */
int trap_report(void);

#endif /* USCHED_CORPUS_DRIVE_H */
