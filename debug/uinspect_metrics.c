/* SPDX-License-Identifier: MIT */
/*
 * uinspect_metrics.c: counters of processors, in the text format 0.0.4 of Prometheus.
 *
 * A counter is a word that any native thread may read, without help of the processor. The
 * counters are read one after the other. A write may wait for long, so the schedulers are
 * unpinned before the text is written.
 */
#include "uinspect.h"

#include <errno.h>
#include <stdlib.h>

#include "../src/base/cancel.h"
#include "../src/base/lock.h"
#include "../src/base/text.h"
#include "../uevents.h"
#include "../upreempt.h"
#include "../uproc.h"

enum { METRICS_SIZE = 4096 };   /* characters written at a time */

/* The values of a processor. */
struct column {
	struct column      *cm_next;
	uint32_t            cm_scheduler;
	unsigned            cm_processor;
	struct usched_stats cm_stats;
	uint64_t            cm_parks, cm_looks, cm_mail, cm_events, cm_expired,
			    cm_threads, cm_queue, cm_waiters;
	uint64_t            cm_longest;         /* ns, or NO_VALUE */
};

/* Stands for a value that the processor does not have. */
#define NO_VALUE UINT64_MAX

#define AT(member) offsetof(struct column, member)

/* The metrics, in the order in which they are written. */
static const struct metric {
	size_t      me_at;              /* of a uint64_t in struct column */
	const char *me_name, *me_type, *me_help;
} metrics[] = {
	{ AT(cm_stats.st_switches), "usched_switches_total", "counter",
	  "Launches and resumes of threads, except for those that went on at once." },
	{ AT(cm_stats.st_launches), "usched_launches_total", "counter",
	  "Threads that began to run." },
	{ AT(cm_stats.st_evictions), "usched_evictions_total", "counter",
	  "Frames of threads copied off a stack." },
	{ AT(cm_stats.st_loads), "usched_loads_total", "counter",
	  "Frames of threads copied back." },
	{ AT(cm_stats.st_bytes), "usched_copied_bytes_total", "counter",
	  "Bytes copied by evictions and loads." },
	{ AT(cm_stats.st_preempted), "usched_preemptions_total", "counter",
	  "Times that a thread gave way as its slice was over." },
	{ AT(cm_stats.st_moves), "usched_moves_total", "counter",
	  "Threads that came from another processor." },
	{ AT(cm_parks), "usched_parks_total", "counter",
	  "Times that the processor went to sleep." },
	{ AT(cm_looks), "usched_looks_total", "counter",
	  "Looks for events while threads were ready." },
	{ AT(cm_mail), "usched_mail_total", "counter",
	  "Threads that others started, woke or cancelled here." },
	{ AT(cm_events), "usched_events_total", "counter",
	  "Descriptors that the kernel said were ready." },
	{ AT(cm_expired), "usched_timers_expired_total", "counter",
	  "Timers and deadlines that came." },
	{ AT(cm_threads), "usched_threads", "gauge",
	  "Threads that were started and have not ended." },
	{ AT(cm_queue), "usched_queue_length", "gauge",
	  "Threads that are ready to run." },
	{ AT(cm_waiters), "usched_waiters", "gauge",
	  "Threads that wait for a time, a descriptor or a native thread." },
	{ AT(cm_stats.st_image_bytes), "usched_image_bytes", "gauge",
	  "Bytes of images beside the records of threads." },
	{ AT(cm_stats.st_deepest), "usched_deepest_bytes", "gauge",
	  "Bytes of frames of the deepest thread that blocked, if over 1 KiB or "
	  "evicted." },
	{ AT(cm_longest), "usched_longest_stretch_seconds", "gauge",
	  "Longest time that a thread kept the processor, as seen once in a slice." },
};

/* Returns how many threads are ready. This is inexact, because the two counters are read
   one after the other. */
static uint64_t queue_length(const struct uproc *p)
{
	size_t head = __atomic_load_n(&p->p_head, __ATOMIC_ACQUIRE);
	size_t n = GET(p->p_tail) - head;

	return n > SIZE_MAX / 2 ? 0 : n;
}

/* Fills in the values, which were zeros. */
static void read_processor(struct column *o, const struct uproc *p)
{
	const struct uevents *e = __atomic_load_n(&p->p_sched.s_events, __ATOMIC_ACQUIRE);
	uint32_t threads = uproc_count(p);      /* inexact, like queue_length() */
	int64_t longest = -1;

	usched_stats(&p->p_sched, &o->cm_stats);
	o->cm_parks = GET(p->p_parked);
	o->cm_looks = GET(p->p_looked_for);
	o->cm_mail = GET(p->p_mailed);
	o->cm_threads = threads > INT32_MAX ? 0 : threads;
	o->cm_queue = queue_length(p);
	if (e) {
		o->cm_events = GET(e->e_ready);
		o->cm_expired = GET(e->e_expired);
		o->cm_waiters = GET(e->e_waiting);
	}
	if (p->p_procs->r_conf.c_slice > 0)
		longest = upreempt__longest(&p->p_sched);
	o->cm_longest = longest < 0 ? NO_VALUE : (uint64_t)longest;
}

/* Reads a column for each processor. Begins with the last one of the newest scheduler,
   as the list *columns grows at its head. Returns 0 or -ENOMEM. */
static int read_columns(struct column **columns)
{
	uint32_t number = UINT32_MAX;
	struct uprocs *r;
	int rc = 0;

	while (rc == 0 && (r = uprocs__pin(number))) {
		for (unsigned j = LOAD(r->r_made); j-- > 0; ) {
			struct column *o = (struct column *)calloc(1, sizeof *o);

			if (!o) {
				rc = -ENOMEM;
				break;
			}
			o->cm_next = *columns;
			o->cm_scheduler = r->r_number;
			o->cm_processor = j;
			read_processor(o, uproc_at(r, j));
			*columns = o;
		}
		number = r->r_number;
		uprocs__unpin(r);
	}
	return rc;
}

static void show_metric(struct text *t, const struct metric *m,
			const struct column *columns)
{
	text_add(t, "# HELP %s %s\n# TYPE %s %s\n", m->me_name, m->me_help, m->me_name,
		 m->me_type);
	for (const struct column *o = columns; o; o = o->cm_next) {
		uint64_t value = *(const uint64_t *)(const void *)
			((const char *)o + m->me_at);

		if (value == NO_VALUE)
			continue;
		text_add(t, "%s{scheduler=\"%u\",processor=\"%u\"} ", m->me_name,
			 o->cm_scheduler, o->cm_processor);
		if (m->me_at == AT(cm_longest))
			text_seconds(t, value, 9);
		else
			text_number(t, value);
		text_put(t, "\n");
	}
}

int uinspect_metrics(int fd)
{
	char lines[METRICS_SIZE];
	struct text t = TEXT(lines, fd);
	struct column *columns = NULL, *next;
	int before = defer_cancel(), rc = read_columns(&columns);

	if (rc == 0) {
		t.t_wait = -1;
		for (size_t i = 0; i < sizeof metrics / sizeof *metrics; i++)
			show_metric(&t, &metrics[i], columns);
		text_flush(&t);
		rc = t.t_rc;
	}
	for (; columns; columns = next) {
		next = columns->cm_next;
		free(columns);
	}
	allow_cancel(before);
	return rc;
}
