/* SPDX-License-Identifier: MIT */
/*
 * stop.h: a native thread is in a call with a descriptor and stops after any number of
 * instructions, or waits; the test closes the descriptor and gives its number to a new
 * one. Linked with --wrap for each __wrap in stop.c.
 */
#ifndef USCHED_TEST_STOP_H
#define USCHED_TEST_STOP_H

#include <semaphore.h>

#include "net.h"

/*
 * c_open() makes a descriptor with `what' to read, and its peer. `got' gets the bytes
 * read, and a `w' for each byte sent.
 */
struct call {
	const char *c_name;
	void (*c_open)(int fds[2], const char *what);
	int  (*c_call)(int fd, char *got);
	bool c_never_waits;
};

extern struct stop {
	const struct call *s_call;
	int         s_fd;
	size_t      s_left;             /* instructions before the stop */
	bool        s_steps;            /* in the call */
	int         s_rc;
	char        s_got[4];
	sem_t       s_ready;            /* it has stopped, waits, or has returned */
	atomic_bool s_stopped, s_over, s_swapped;
	atomic_bool s_awaited;          /* the close waits for it */
} stop;

extern bool forgets;                    /* the close is a unet_forget() and a close(2) */
extern _Thread_local int failure;       /* of the next sendmsg() or accept4() */

/* Closes when the call has stopped or returned; then `new' gets the number. */
void close_after(size_t steps, const struct call *call, const char *what, int new[2]);

/* How many instructions the call takes until it returns or waits. */
size_t instructions_of(const struct call *call, const char *what);

/* Skips the test where there are no single steps. */
void needs_steps(void);

#endif /* USCHED_TEST_STOP_H */
