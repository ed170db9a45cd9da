/* SPDX-License-Identifier: MIT */
/*
 * offsets.h: the offsets of members and the values of aj_op that the assembly uses.
 * usched.c checks the numbers. For 32 bits there are two sets, as i386 aligns numbers of
 * 64 bits to 4 bytes.
 */
#ifndef USCHED_OFFSETS_H
#define USCHED_OFFSETS_H

#define OP_LOAD         2
#define OP_LAUNCH       3

#if defined(__LP64__)
#define S_FUNC          504
#define S_ARG           512
#define S_SWITCHES      632
#define S_ERRNO         576
#define S_CAUGHT        584
#define S_CURRENT       592
#define K_BOTTOM        0
#define K_SCHED         16
#define U_TOP           0
#define U_PC            8
#define U_STACK         16
#define U_FP            24
#define U_BP            32
#define U_FUNC          40
#define U_DEEP          48
#define U_ERRNO         52
#define CAUGHT_UNCAUGHT 8
#elif defined(__i386__) || defined(__arm__)
#ifdef __i386__
#define S_FUNC          304
#define S_ARG           308
#define S_SWITCHES      372
#define S_ERRNO         340
#define S_CAUGHT        344
#define S_CURRENT       348
#else
#define S_FUNC          308
#define S_ARG           312
#define S_SWITCHES      384
#define S_ERRNO         344
#define S_CAUGHT        348
#define S_CURRENT       352
#endif
#define K_BOTTOM        0
#define K_SCHED         8
#define U_TOP           0
#define U_PC            4
#define U_STACK         8
#define U_FP            12
#define U_BP            16
#define U_FUNC          20
#define U_DEEP          24
#define U_ERRNO         28
#define CAUGHT_UNCAUGHT 4
#endif

#endif /* USCHED_OFFSETS_H */
