/* SPDX-License-Identifier: MIT */
/*
 * uevents_sim.c: the poller of a simulation: private/poller.h. Descriptors are those of
 * its world, sim/world.h, and to sleep has the clock jump.
 */
#include "private/poller.h"

#ifdef USCHED_SIM

#include <errno.h>
#include <stdlib.h>

#include "sim/world.h"
#include "uevents.h"

struct poller {
	struct sim_set     p_set;
	bool               p_rung;
	struct epoll_event p_found[POLLER_BATCH];
};

enum {
	EDGES_IN  = EPOLLIN | EPOLLRDHUP | EPOLLPRI,
	EDGES_ALL = EDGES_IN | EPOLLOUT,
};

int uevents__poller_open(struct poller **made, bool rung)
{
	struct poller *p = calloc(1, sizeof *p);

	if (!p)
		return -ENOMEM;
	sim__init_set(&p->p_set);
	p->p_rung = rung;
	*made = p;
	return 0;
}

void uevents__poller_close(struct poller *p)
{
	sim__end_set(&p->p_set);
	free(p);
}

static uint32_t edges(unsigned ways)
{
	return (ways & UEVENTS_OUTPUT ? EDGES_ALL : EDGES_IN) | EPOLLET;
}

int uevents__poller_again(struct poller *p, int fd, unsigned ways, struct uinterest *i)
{
	return sim__watch(&p->p_set, fd, true, edges(ways), (epoll_data_t){ .ptr = i });
}

/* As with epoll: a thread may wait to write. */
int uevents__poller_add(struct poller *p, int fd, unsigned ways, struct uinterest *i)
{
	int rc = uevents__poller_again(p, fd, ways, i);

	if (rc == -EEXIST)
		sim__watch(&p->p_set, fd, false, edges(UEVENTS_OUTPUT),
			   (epoll_data_t){ .ptr = i });
	return rc;
}

void uevents__poller_remove(struct poller *p, int fd)
{
	sim__unwatch(&p->p_set, fd);
}

void uevents__poller_interrupt(struct poller *p)
{
	p->p_rung = true;
}

int uevents__poller_sleep(struct poller *p, bool forever, int64_t left)
{
	int64_t until = forever ? INT64_MAX : sim__run.r_now + left;
	int n;

	sim__catch_up();
	while ((n = sim__find(&p->p_set, p->p_found, POLLER_BATCH)) == 0
	       && !p->p_rung && sim__run.r_now < until)
		if (!sim__pass(until)) {
			sim__stuck();
			break;
		}
	p->p_rung = false;
	return n;
}

void uevents__poller_tell(struct poller *p, int n)
{
	for (int i = 0; i < n; i++) {
		struct uinterest *interest = p->p_found[i].data.ptr;

		interest->i_ready(interest, p->p_found[i].events);
	}
}

int uevents__poller_expose(struct poller *p, int64_t when)
{
	(void)p;
	(void)when;
	return -ENOTSUP;
}

#endif /* USCHED_SIM */
