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

/* The metrics, in the order in which they are written. */
enum {
	METRIC_SWITCHES, METRIC_LAUNCHES, METRIC_EVICTIONS, METRIC_LOADS, METRIC_BYTES,
	METRIC_PREEMPTED, METRIC_MOVES, METRIC_PARKS, METRIC_LOOKS, METRIC_MAIL,
	METRIC_EVENTS, METRIC_EXPIRED, METRIC_THREADS, METRIC_QUEUE, METRIC_WAITERS,
	METRIC_IMAGE_BYTES, METRIC_DEEPEST, METRIC_LONGEST,
	METRICS
};

/* Stands for a value that the processor does not have. */
#define NO_VALUE UINT64_MAX

static const struct metric {
	const char *me_name, *me_type, *me_help;
} metrics[METRICS] = {
	[METRIC_SWITCHES] = { "usched_switches_total", "counter",
	  "Launches and resumes of threads, except for those that went on at once." },
	[METRIC_LAUNCHES] = { "usched_launches_total", "counter",
	  "Threads that began to run." },
	[METRIC_EVICTIONS] = { "usched_evictions_total", "counter",
	  "Frames of threads copied off a stack." },
	[METRIC_LOADS] = { "usched_loads_total", "counter",
	  "Frames of threads copied back." },
	[METRIC_BYTES] = { "usched_copied_bytes_total", "counter",
	  "Bytes copied by evictions and loads." },
	[METRIC_PREEMPTED] = { "usched_preemptions_total", "counter",
	  "Times that a thread gave way as its slice was over." },
	[METRIC_MOVES] = { "usched_moves_total", "counter",
	  "Threads that came from another processor." },
	[METRIC_PARKS] = { "usched_parks_total", "counter",
	  "Times that the processor went to sleep." },
	[METRIC_LOOKS] = { "usched_looks_total", "counter",
	  "Looks for events while threads were ready." },
	[METRIC_MAIL] = { "usched_mail_total", "counter",
	  "Threads that others started, woke or cancelled here." },
	[METRIC_EVENTS] = { "usched_events_total", "counter",
	  "Descriptors that the kernel said were ready." },
	[METRIC_EXPIRED] = { "usched_timers_expired_total", "counter",
	  "Timers and deadlines that came." },
	[METRIC_THREADS] = { "usched_threads", "gauge",
	  "Threads that were started and have not ended." },
	[METRIC_QUEUE] = { "usched_queue_length", "gauge",
	  "Threads that are ready to run." },
	[METRIC_WAITERS] = { "usched_waiters", "gauge",
	  "Threads that wait for a time, a descriptor or a native thread." },
	[METRIC_IMAGE_BYTES] = { "usched_image_bytes", "gauge",
	  "Bytes of images beside the records of threads." },
	[METRIC_DEEPEST] = { "usched_deepest_bytes", "gauge",
	  "Bytes of frames of the deepest thread that blocked, if over 1 KiB or "
	  "evicted." },
	[METRIC_LONGEST] = { "usched_longest_stretch_seconds", "gauge",
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

/* Reads all values. The caller has set them to 0. */
static void read_processor(uint64_t *values, const struct uproc *p)
{
	const struct uevents *e = __atomic_load_n(&p->p_sched.s_events, __ATOMIC_ACQUIRE);
	uint32_t threads = uproc_count(p);      /* inexact, like queue_length() */
	int64_t longest = -1;
	struct usched_stats s;

	usched_stats(&p->p_sched, &s);
	values[METRIC_SWITCHES] = s.st_switches;
	values[METRIC_LAUNCHES] = s.st_launches;
	values[METRIC_EVICTIONS] = s.st_evictions;
	values[METRIC_LOADS] = s.st_loads;
	values[METRIC_BYTES] = s.st_bytes;
	values[METRIC_PREEMPTED] = s.st_preempted;
	values[METRIC_MOVES] = s.st_moves;
	values[METRIC_IMAGE_BYTES] = s.st_image_bytes;
	values[METRIC_DEEPEST] = s.st_deepest;
	values[METRIC_PARKS] = GET(p->p_parked);
	values[METRIC_LOOKS] = GET(p->p_looked_for);
	values[METRIC_MAIL] = GET(p->p_mailed);
	values[METRIC_THREADS] = threads > INT32_MAX ? 0 : threads;
	values[METRIC_QUEUE] = queue_length(p);
	if (e) {
		values[METRIC_EVENTS] = GET(e->e_ready);
		values[METRIC_EXPIRED] = GET(e->e_expired);
		values[METRIC_WAITERS] = GET(e->e_waiting);
	}
	if (p->p_procs->r_conf.c_slice > 0)
		longest = upreempt__longest(&p->p_sched);
	values[METRIC_LONGEST] = longest < 0 ? NO_VALUE : (uint64_t)longest;
}

struct column {
	struct column *cm_next;
	uint32_t       cm_scheduler;
	unsigned       cm_processor;
	uint64_t       cm_values[METRICS];
};

/* Reads a column for each processor. Begins with the last one of the newest scheduler,
   as the list *columns grows at its head. Returns 0 or -ENOMEM. */
static int read_columns(struct column **columns)
{
	uint32_t number = UINT32_MAX;
	struct uprocs *r;
	int rc = 0;

	while (rc == 0 && (r = uprocs__pin(number))) {
		for (unsigned j = r->r_conf.c_processors; j-- > 0; ) {
			struct column *o = (struct column *)calloc(1, sizeof *o);

			if (!o) {
				rc = -ENOMEM;
				break;
			}
			*o = (struct column){ *columns, r->r_number, j, { 0 } };
			read_processor(o->cm_values, uproc_at(r, j));
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
		uint64_t value = o->cm_values[m - metrics];

		if (value == NO_VALUE)
			continue;
		text_add(t, "%s{scheduler=\"%u\",processor=\"%u\"} ", m->me_name,
			 o->cm_scheduler, o->cm_processor);
		if (m == &metrics[METRIC_LONGEST])      /* the value is in ns */
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
		for (size_t i = 0; i < METRICS; i++)
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
