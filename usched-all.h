/* SPDX-License-Identifier: MIT */
/*
 * usched-all.h: all headers for programs. Compile a program
 *
 *  - with the library as one file, after `make one': cc server.c build/one/usched-all.c
 *    -Ibuild/one -pthread, where this header contains all others;
 *  - or with the installed library: cc server.c $(pkg-config --cflags --libs usched).
 *
 * If USCHED_DEBUG is defined, there are also reports of what threads do, traces, and
 * messages on overflows and stalls; if USCHED_TLS is defined, also TLS over OpenSSL 3.
 * C++ programs may include uco.hh, too.
 */
#ifndef USCHED_ALL_H
#define USCHED_ALL_H

#include "ll.h"
#include "rr.h"
#include "ubuf.h"
#include "uco.h"
#include "uevents.h"
#include "uimage.h"
#include "unet.h"
#include "uoffload.h"
#include "upreempt.h"
#include "uproc.h"
#include "uprocs.h"
#include "usched.h"
#include "ustack.h"
#include "usync.h"
#include "uwait.h"

#ifdef USCHED_DEBUG
#include "debug/uinspect.h"
#include "debug/uoverflow.h"
#include "debug/ustall.h"
#endif

#ifdef USCHED_TLS
#include "tls/utls.h"
#endif

#endif /* USCHED_ALL_H */
