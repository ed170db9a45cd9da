/* SPDX-License-Identifier: MIT */
/*
 * poller.h: which call of the system finds descriptors that are ready. One file has it,
 * chosen when the library is built, and included by uevents.c, where its contract is:
 *
 *   uevents_epoll.inc  epoll(7)
 *   uevents_poll.inc   poll(2), with -DUSCHED_POLL: for any POSIX system
 */
#ifndef USCHED_POLLER_H
#define USCHED_POLLER_H

/*
 * Whether what i_ready tells ends the registration for that: it is made again before each
 * wait, and uevents_closing() ends it before each close(2).
 */
#ifdef USCHED_POLL
enum { POLLER_ONCE = 1 };
#else
enum { POLLER_ONCE = 0 };
#endif

#endif /* USCHED_POLLER_H */
