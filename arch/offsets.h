/* SPDX-License-Identifier: MIT */
/* offsets.h: where the assembly finds what it needs; usched.c checks that it is there. */
#ifndef USCHED_OFFSETS_H
#define USCHED_OFFSETS_H

#define S_FUNC          312
#define S_ARG           320
#define S_SWITCHES      584
#define S_ERRNO         592
#define S_CAUGHT        600
#define S_CURRENT       608
#define K_BOTTOM        0
#define K_SCHED         16
#define U_TOP           0
#define U_PC            8
#define U_STACK         16
#define U_FP            24
#define U_BP            32
#define U_DEEP          48
#define U_ERRNO         52
#define CAUGHT_UNCAUGHT 8

#endif /* USCHED_OFFSETS_H */
