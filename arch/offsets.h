/* SPDX-License-Identifier: MIT */
/* offsets.h: where the assembly finds what it needs; usched.c checks that it is there. */
#ifndef USCHED_OFFSETS_H
#define USCHED_OFFSETS_H

#define S_CURRENT       368
#define S_SWITCHES      280
#define K_BOTTOM        0
#define K_RESIDENT      8
#define K_SCHED         16
#define U_TOP           0
#define U_STACK         16
#define U_DEEP          36

#endif /* USCHED_OFFSETS_H */
