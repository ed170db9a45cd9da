/* SPDX-License-Identifier: MIT */
/*
 * sys/event.h: what uevents_kqueue.c uses of kqueue(2), with the names of FreeBSD, for
 * Linux: ../kqueue.c.
 */
#ifndef TESTS_KQUEUE_H
#define TESTS_KQUEUE_H

#include <stdint.h>
#include <time.h>

struct kevent {
	uintptr_t      ident;
	short          filter;
	unsigned short flags;
	unsigned       fflags;
	int64_t        data;
	void          *udata;
};

enum { EVFILT_READ = -1, EVFILT_WRITE = -2, EVFILT_TIMER = -7, EVFILT_USER = -11 };

enum {
	EV_ADD     = 0x1,
	EV_DELETE  = 0x2,
	EV_ENABLE  = 0x4,
	EV_ONESHOT = 0x10,
	EV_CLEAR   = 0x20,
	EV_EOF     = 0x8000,
};

#define NOTE_NSECONDS 0x8u
#define NOTE_TRIGGER  0x1000000u

#define EV_SET(k, i, filter_, flags_, fflags_, data_, udata_)                   \
	(*(k) = (struct kevent){ .ident = (i), .filter = (filter_),             \
				 .flags = (flags_), .fflags = (fflags_),        \
				 .data = (data_), .udata = (udata_) })

int kqueue(void);
int kevent(int kq, const struct kevent *changes, int nchanges, struct kevent *events,
	   int nevents, const struct timespec *timeout);

#endif /* TESTS_KQUEUE_H */
