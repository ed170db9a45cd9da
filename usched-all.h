/* SPDX-License-Identifier: MIT */
/*
 * usched-all.h: all headers for programs. Compile a program
 *
 *  - with the library as one file, `make one': cc server.c build/one/usched-all.c
 *    -Ibuild/one -pthread, where this header is written out;
 *  - or with the installed library: cc server.c $(pkg-config --cflags --libs usched).
 *
 * With USCHED_DEBUG also reports of what threads do, traces, overflows and stalls; with
 * USCHED_TLS also TLS over OpenSSL 3. In C++ there is uco.hh besides.
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
