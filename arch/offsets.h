/* SPDX-License-Identifier: MIT */
/* offsets.h: where the assembly finds what it needs; usched.c checks that it is there. */
#ifndef USCHED_OFFSETS_H
#define USCHED_OFFSETS_H

#define S_CURRENT       424
#define S_CAUGHT        416
#define S_ERRNO         408
#define S_SWITCHES      400
#define K_BOTTOM        0
#define K_RESIDENT      8
#define K_SCHED         16
#define U_TOP           0
#define U_STACK         16
#define U_DEEP          36
#define CAUGHT_UNCAUGHT 8

#endif /* USCHED_OFFSETS_H */
