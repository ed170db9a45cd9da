/* SPDX-License-Identifier: MIT */
/*
 * place.h: all ways to wait, for tests that hold for each of them. A place has an object
 * of each kind, in a state in which a wait blocks. A point is one way to wait at a place.
 */
#ifndef USCHED_TEST_PLACE_H
#define USCHED_TEST_PLACE_H

#include "sync.h"

enum { QUEUE = 12, FILL = 1000 };

struct place {
	struct usync_mutex  p_mutex;            /* locked by the tester */
	struct usync_rwlock p_read;             /* written by the tester */
	struct usync_rwlock p_write;            /* read by the tester */
	struct usync_mutex  p_with;             /* p_cond's; free */
	struct usync_cond   p_cond;
	struct usync_sem    p_sem;
	struct usync_group  p_group;            /* one thing is not done */
	struct usync_chan  *p_direct;           /* without capacity */
	struct usync_chan  *p_empty;
	struct usync_chan  *p_full;             /* FILL is in it */
	struct ustack      *p_thread;           /* until a post of p_stop */
	struct usync_sem    p_stop;
	size_t              p_released;
	atomic_size_t       p_reached;          /* waits with result 0, their workers */
	size_t              p_order[QUEUE];
};

struct place *make_place(void *s);
void free_place(struct place *p);

/* A wait that failed has changed nothing. */
void check_place(struct place *p);

/* How many waits one release ends. */
enum ends { ONE, CHAIN, ALL, NONE };

struct point {
	const char *o_name;
	enum ends   o_ends;
	int       (*o_wait)(struct worker *w, struct place *p, int64_t deadline);
	void      (*o_done)(struct place *p);           /* after the wait; or NULL */
	void      (*o_release)(struct place *p);        /* by the tester */
};

enum { MUTEX = 0, JOIN = 15, POINTS };

extern const struct point points[POINTS];

/* A join blocks without a waiter: its begin cannot be seen. */
bool is_join(const struct point *o);

/* A worker at a point of a place. */
struct visit {
	struct place       *v_place;
	const struct point *v_point;
	int64_t             v_deadline;
	atomic_size_t       v_step;             /* how far the worker is */
};

void release_place(const struct point *o, struct place *p);

/*
 * Returns when the worker, of which w_shared begins with a visit, is in the queue of the
 * point; for a join, when it should have begun.
 */
void await_visit(struct worker *w, const struct point *o);

/* Each point with each scheduler, with `flag' and without; and with one processor. */
typedef void point_test(void *s, const struct point *o, bool flag);
void each_point(point_test *test);
void each_point_single(point_test *test);

#endif /* USCHED_TEST_PLACE_H */
