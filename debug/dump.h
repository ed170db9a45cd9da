/* SPDX-License-Identifier: MIT */
/*
 * dump.h: what uinspect.c collects and uinspect_show.c writes; and how a scheduler is
 * kept from being destroyed meanwhile, also for uinspect_metrics.c. Private.
 */
#ifndef USCHED_DUMP_H
#define USCHED_DUMP_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "snap.h"
#include "../uproc.h"
#include "../uwait.h"

enum {
	DUMP_BATCH   = 256,             /* threads that a collector visits in one turn */
	DUMP_BUCKETS = 4096,            /* hash buckets of groups */
};

/* All schedulers over processors, which uprocs_destroy() does not free while pinned. */
struct pins {
	struct uprocs **n_all;
	size_t          n_count;
};

#define DUMP_PRIVATE __attribute__((visibility("hidden")))

/* Pins all schedulers. 0; -ENOMEM: nothing was pinned. */
DUMP_PRIVATE int uinspect__pin(struct pins *n);

/* Unpins all schedulers, and frees n_all. n_count stays, for the text of a dump. */
DUMP_PRIVATE void uinspect__unpin(struct pins *n);

struct member {
	struct member *m_next;
	uintptr_t      m_thread;
	const void    *m_object;        /* the object that the thread waits for */
	uintptr_t      m_holder;        /* the thread that has the object, or 0 */
	uintptr_t      m_joiner;        /* the thread that joins this thread, or 0 */
	const char    *m_name;          /* or NULL */
	const char    *m_more;          /* y_more of struct ustack_why, or NULL */
	struct task   *m_task;
};

/* What all threads of a group have in common, besides the frames. */
struct group_key {
	uintptr_t   e_func;
	const char *e_kind;
	const char *e_how;
	uint8_t     e_state;
	uint8_t     e_number;
	uint16_t    e_depth;            /* elements of g_frames */
};

/* Threads that differ only in what a struct member has. */
struct group {
	struct group  *g_next;          /* in the same bucket */
	struct group  *g_older;         /* in the dump */
	uint64_t       g_hash;
	struct member *g_first;
	struct member **g_last;
	size_t         g_count;
	struct group_key g_key;
	uintptr_t      g_frames[];
};

struct chunk {
	struct chunk *c_next;
	size_t        c_used;
	_Alignas(16) char c_bytes[];
};

enum { TASK_ASKED, TASK_IDLE, TASK_BUSY, TASK_DONE, TASK_GONE, TASK_REFUSED };

/* A processor's part of a dump. */
struct task {
	struct dump  *k_dump;
	struct uproc *k_proc;
	unsigned      k_scheduler;
	unsigned      k_number;
	int           k_state;          /* d_lock */
	unsigned      k_steps;          /* d_lock: batches begun and ended */
	unsigned      k_seen;           /* k_steps when the dump last saw a change, */
	int64_t       k_since;          /* and the time of that change, in ns */

	/* For the collector during a batch, else for the dump. */
	struct uimage_walk k_walk;
	void         *k_records[DUMP_BATCH];
	size_t        k_got, k_at;
	size_t        k_threads;
	struct ustack_why k_why;        /* this and the next: of the thread looked at */
	struct group_key k_key;
	const char   *k_top, *k_bottom;
	uintptr_t     k_frames[SNAP_FRAMES];

	/* Of a processor that does not answer. */
	size_t        k_all;            /* the number of threads */
	uintptr_t     k_runs;           /* the thread that runs, or 0 */
	const char   *k_runs_name;
	uintptr_t     k_runs_func;
	size_t        k_runs_depth;     /* calls of that thread, in k_frames */
};

struct dump {
	int             d_fd;
	unsigned        d_how;
	struct pins     d_pins;
	struct task   **d_tasks;
	size_t          d_count;
	pthread_mutex_t d_lock;
	pthread_cond_t  d_changed;
	size_t          d_users;        /* d_lock, as all below: dump and collectors */
	struct chunk   *d_chunks;
	struct group   *d_buckets[DUMP_BUCKETS];
	struct group   *d_newest;
	size_t          d_groups;
	size_t          d_lost;         /* threads left out for want of memory */
};

/* Writes the text. 0; -ENOMEM; an error of write(2). */
DUMP_PRIVATE int uinspect__show(struct dump *d);

#endif /* USCHED_DUMP_H */
