/* SPDX-License-Identifier: MIT */
/*
 * uproc_tidy.c: memory of processors that goes back to the system after a peak.
 *
 * Each processor gives back its stacks without frames, its caches, and the unused part
 * of its ring. Any processor gives back the pool's images and records: see
 * uimage_trim.c. A processor works in steps of some hundred microseconds. It makes them
 * while it is parked; if threads are always ready, it makes them in a tenth of the time.
 * A step touches no thread, so the processor stays parked, and deadlocks are found. The
 * stacks are those in the dispatcher's lists, wherever they were mapped.
 *
 * Memory that was not needed for a whole period goes back. So the memory of a peak has
 * gone back after two periods and the time of the steps. A processor that has nothing to
 * give back sleeps without a limit, even if native threads join threads meanwhile. The
 * memory of those threads goes back after the next start.
 *
 *	p_tidy      the time of the next step, or USCHED_NEVER
 *	p_period    the end of the processor's period
 *	r_period    the end of the pool's period, for the first processor to see
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE             /* pthread_condattr_setclock() */
#endif
#include "proc.h"
#include "../base/when.h"

enum {
	PAUSE       = 4,                /* pauses while parked are so many steps long */
	PAUSE_BUSY  = 9,                /* the same while threads are ready */
	PAUSE_MIN   = 200000,           /* ns: the shortest pause */
	PERIODS     = 2,                /* periods without a launch until the processor
					   has given back all that it has */
	TIDY_LOOKS  = 64,               /* one look in so many reads the clock */
	TIDY_EVENTS = 4,                /* the same if the processor has events, as events
					   space looks by time */
	SPARE       = 1 << 20,          /* bytes that the pool may keep in batches */
	STACK_STEP  = 2 << 20,          /* bytes of stacks that a step gives back */
	RING_SPARE  = 8192,             /* threads: smaller rings keep their memory */
};

/* Returns whether memory that all processors share may go back in another period. */
static bool has_spares(const struct uprocs *r)
{
	return GET(r->r_alones.as_vacants) > 0
		|| uimage_pool_spares(&r->r_images, SPARE);
}

int64_t uproc__tidy_time(struct uproc *p)
{
	if (p->p_tidy != USCHED_NEVER)
		return p->p_tidy;
	if (p->p_sched.s_stats.st_launches != p->p_tidied || has_spares(p->p_procs))
		p->p_tidy = p->p_period = when_now() + p->p_procs->r_unused;
	return p->p_tidy;
}

/* Gives back the part of the ring that does not hold the queue. */
static void drop_ring(const struct uproc *p)
{
	size_t size = p->p_mask + 1, tail = p->p_tail & p->p_mask;
	size_t unused = size - (p->p_tail - p->p_head), end = size - tail;

	if (size <= RING_SPARE)
		return;
	if (unused > end)
		uimage_drop(p->p_queue, (unused - end) * sizeof *p->p_queue);
	else
		end = unused;
	uimage_drop(p->p_queue + tail, end * sizeof *p->p_queue);
}

/* Prepares the steps that free memory which `p' did not use in the last period. */
static void begin_tidying(struct uproc *p)
{
	uimage_cache_trim(&p->p_images);
	lock(&p->p_lock);
	uimage_cache_trim(&p->p_outside);
	unlock(&p->p_lock);
	drop_ring(p);
	p->p_walks = 1;
	p->p_walked = 0;
}

static int drop_stack(void *low, size_t size, void *arg)
{
	size_t *left = (size_t *)arg;

	uimage_drop(low, size);
	*left -= size < *left ? size : *left;
	return *left > 0;
}

/* Makes a step. Returns whether more steps are needed. Pages that have gone back
   already, and were not used since, cost hardly any time. */
static bool tidy_step(struct uproc *p)
{
	size_t left = STACK_STEP;

	if (!p->p_walks && uproc__drop_alones(&p->p_procs->r_alones))
		return true;
	if (!p->p_walks)
		return uimage_pool_spares(&p->p_procs->r_images, SIZE_MAX)
			&& uimage_pool_trim(&p->p_procs->r_images);
	p->p_walked = usched__unused(&p->p_sched, p->p_walked, drop_stack, &left);
	p->p_walks = p->p_walked > 0;
	return true;
}

/* Makes a step. The next one is due after `pause' times the time that this one took. */
static void tidy(struct uproc *p, int64_t pause)
{
	struct uprocs *r = p->p_procs;
	int64_t begin = when_now(), end, period;

	if (begin >= p->p_period) {
		p->p_period = begin + r->r_unused;
		if (p->p_sched.s_stats.st_launches != p->p_tidied)
			p->p_periods = PERIODS;
		p->p_tidied = p->p_sched.s_stats.st_launches;
		if (p->p_periods > 0) {
			p->p_periods--;
			begin_tidying(p);
		}
		period = LOAD(r->r_period);
		if (begin >= period && CAS(&r->r_period, &period, begin + r->r_unused)) {
			uproc__age_alones(&r->r_alones);
			uimage_pool_age(&r->r_images);
		}
	}
	if (tidy_step(p)) {
		end = when_now();
		pause *= end - begin;
		p->p_tidy = end + (pause < PAUSE_MIN ? PAUSE_MIN : pause);
	} else if (p->p_periods > 0 || has_spares(r)) {
		p->p_tidy = p->p_period;
	} else {
		p->p_tidy = USCHED_NEVER;
	}
}

void uproc__tidy_busy(struct uproc *p)
{
	p->p_looks = p->p_sched.s_events ? TIDY_EVENTS : TIDY_LOOKS;
	if (when_now() >= uproc__tidy_time(p))
		tidy(p, PAUSE_BUSY);
}

bool uproc__tidy_idle(struct uproc *p)
{
	int64_t due = uproc__tidy_time(p);

	if (due == USCHED_NEVER || p->p_head != p->p_tail || when_now() < due)
		return false;
	tidy(p, PAUSE);
	return true;
}
