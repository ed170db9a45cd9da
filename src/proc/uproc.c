/* SPDX-License-Identifier: MIT */
/*
 * uproc.c: processors: what they do between threads, how they are made and freed, and
 * which functions of the other modules a dispatcher calls. uproc.h has the picture, and
 * the functions that run most often. proc.h names the other modules, which have the
 * invariants. Only uprocs.c and policies call this file.
 *
 * list_lock of uprocs.c is taken before r_lock, and r_lock before p_lock.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE             /* pthread_condattr_setclock() */
#endif
#include <stdlib.h>

#include "policy.h"
#include "proc.h"
#include "../base/when.h"
#include "../../upreempt.h"

enum {
	RING_MIN   = 64,                /* threads in the smallest ring */
	NUMBER_MAX = UINT16_MAX,        /* the highest s_number */
	LOOK_TIME  = 500000,            /* ns from a look for events to the next */
};

/* ---- Between threads ---- */

/*
 * Decides when the next look for events is due. If each thread computed for a
 * millisecond, a timer could be late by UPROC_LOOK milliseconds. So the interval from
 * look to look, in dispatches, shrinks if the last interval took longer than LOOK_TIME.
 * Otherwise it doubles.
 */
static void set_turn(struct uproc *p)
{
	int64_t interval = UPROC_LOOK, looked = p->p_looked;

	if (p->p_sched.s_events || p->p_moves) {
		p->p_looked = when_now();
		policy_measure(&p->p_load, p->p_looked,
			       p->p_sched.s_stats.st_switches);
		interval = 2 * p->p_interval;
		if (looked && p->p_looked - looked > LOOK_TIME)
			interval = p->p_interval * LOOK_TIME / (p->p_looked - looked);
		if (interval > UPROC_LOOK)
			interval = UPROC_LOOK;
		if (interval == 0)
			interval = 1;
	}
	p->p_interval = p->p_left = (uint8_t)interval;
	p->p_sched.s_turn = p->p_sched.s_stats.st_switches + (uint64_t)interval;
}

/* Looks for events while threads are ready. Returns whether usched_run() is to return. */
bool uproc_look(struct uproc *p)
{
	const struct uprocs *r = p->p_procs;

	set_turn(p);
	uproc__look_at_observer(p);
	UPROC_COUNT(p->p_looked_for, 1);
	uproc_poll(p, UEVENTS_LOOK);
	p->p_barren = 0;
	uproc__return_stacks(p);
	uproc__take_left(p);
	uproc__share(p);
	p->p_waits = p->p_tail;
	if (p->p_looks-- == 0)                  /* few looks read the clock for this */
		uproc__tidy_busy(p);
	return LOAD(r->r_stop) || p->p_looked >= GET(r->r_due)
		|| (uproc__rests(p) && uproc__is_in_the_way(p))
		|| (r->r_deadline != INT64_MAX && when_now() >= r->r_deadline);
}

static int yield(struct usched *s)
{
	struct uproc *p = uproc_from(s);
	int rc;

	p->p_intent = UPROC_YIELD;
	if (s->s_events || uproc__is_wanted(p))
		p->p_left = 1;                  /* so that uproc_looks() is true */
	rc = ustack_block();
	if (rc)
		p->p_intent = UPROC_BLOCK;
	return rc;
}

/* ---- A dispatcher and its parts ---- */

static void *alloc_image(struct usched *s, struct ustack *u, size_t *size)
{
	(void)u;
	return uimage_alloc(&uproc_from(s)->p_images, size);
}

static void free_image(struct usched *s, struct ustack *u, void *image, size_t size)
{
	(void)u;
	uimage_free(&uproc_from(s)->p_images, image, size);
}

/* Puts the picked thread back to the head of the queue. */
static void unpick(struct usched *s)
{
	struct uproc *p = uproc_from(s);

	SET(s->s_current->u_tokens, 0);
	p->p_intent = UPROC_BLOCK;
	if (!s->s_chosen)
		return;
	UPROC_COUNT(p->p_head, -1);
	p->p_queue[p->p_head & p->p_mask] = uproc_thread(s->s_chosen);
}

static void queue_up(struct usched *s, struct ustack *u)
{
	uproc_push(uproc_from(s), uproc_thread(u));
}

static struct usched_calls calls_of(const struct uproc *p,
				    const struct uproc_policy *policy)
{
	const struct uprocs_conf *conf = &p->p_procs->r_conf;

	return (struct usched_calls){
		.s_next         = policy->y_next,
		.s_alloc        = alloc_image,
		.s_free         = free_image,
		.s_done         = uproc__done,
		.s_wake         = uproc__wake,
		.s_yield        = yield,
		.s_start        = uproc__start_beside,
		.s_cancel       = uproc__cancel,
		.s_detach       = uproc__detach,
		.s_join         = uproc__join,
		.s_interrupt    = uproc__interrupt,
		.s_pick         = policy->y_pick,
		.s_unpick       = unpick,
		.s_ready        = policy->y_ready ? policy->y_ready : queue_up,
		.s_mail         = (const usched_mail *)&p->p_inbox,
		.s_record       = offsetof(struct ustack, u_image) + conf->c_image,
		.s_polls        = 1,
		.s_control_each = conf->c_control != 0,
	};
}

static int init_dispatcher(struct uproc *p, const struct uproc_policy *policy)
{
	const struct usched_calls calls = calls_of(p, policy);
	struct usched *s = &p->p_sched;
	int rc = usched_init(s, &calls);

	s->s_proc = 1;
	s->s_known = 1;
	s->s_linger = uproc__linger;
	if (IS_CHECKED) {
		s->s_changed = uproc__report_changed;
		SET(usched__observer.ob_introduce, &uproc__introduce);
	}
	return rc;
}

int uproc__init(struct uproc *p, struct uprocs *r, const struct uproc_policy *policy)
{
	const struct uprocs_conf *conf = &r->r_conf;
	int rc;

	p->p_procs = r;
	rc = init_dispatcher(p, policy);
	p->p_moves = policy->y_moves && conf->c_processors > 1;
	p->p_sched.s_moves = p->p_moves && !conf->c_stay
			     && conf->c_processors <= NUMBER_MAX;
	p->p_sched.s_number = (uint16_t)uproc__index(p);
	p->p_slot = policy->y_slot && !p->p_sched.s_stress;
	p->p_room = RING_MIN;
	p->p_mask = RING_MIN - 1;
	p->p_interval = p->p_left = UPROC_LOOK;
	p->p_tidy = USCHED_NEVER;
	p->p_quick = r->r_patience > 0;
	uimage_cache_init(&p->p_images, &r->r_images);
	uimage_cache_init(&p->p_outside, &r->r_images);
	pthread_mutex_init(&p->p_lock, NULL);
	when_init_cond(&p->p_unparked);
	uproc__open(p);
	return rc;
}

int uproc__make_parts(struct uproc *p)
{
	const struct uprocs_conf *conf = &p->p_procs->r_conf;
	bool driven = uproc__is_driven(p->p_procs);

	p->p_queue = (struct uproc_thread **)calloc(RING_MIN, sizeof *p->p_queue);
	if (!p->p_queue)
		return -ENOMEM;
	if (!driven) {                          /* until its native thread is made */
		p->p_inbox = PARKED;
		p->p_procs->r_parks++;
	}
	return upreempt__begin(&p->p_sched, conf->c_slice, conf->c_stall, !driven);
}

int uproc__make_stacks(struct uproc *p)
{
	const struct uprocs_conf *conf = &p->p_procs->r_conf;
	struct uevents *e;
	int rc = p->p_steps > 0 ? 0 : uproc__add_stacks(p);

	p->p_sched.s_has_stack = uproc__find_stack;
	if (rc == 0 && (conf->c_embed || p->p_sched.s_moves))
		rc = uevents_of(&p->p_sched, &e);       /* arriving threads need events */
	if (rc == 0 && conf->c_embed) {
		rc = e->e_expose(e);                    /* for the program's loop */
		rc = rc < 0 && rc != -ENOTSUP ? rc : 0; /* uprocs_run() returns it */
	}
	return rc;
}

void uproc__fini(struct uproc *p)
{
	uevents_close(&p->p_sched);
	upreempt_close(&p->p_sched);
	if (p->p_ring)
		uproc__observer.po_free(p);
	while (p->p_steps > 0)
		uimage_stacks_unmap(&p->p_stacks[--p->p_steps]);
	if (p->p_alternate)
		uproc__observer.po_unmap(p->p_alternate);
	free(p->p_queue);
	free(p->p_larger);
	pthread_cond_destroy(&p->p_unparked);
	pthread_mutex_destroy(&p->p_lock);
}
