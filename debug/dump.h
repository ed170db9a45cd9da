/* SPDX-License-Identifier: MIT */
/*
 * dump.h: what uinspect.c collects and uinspect_show.c writes. Also pins, by which these
 * files and uinspect_metrics.c keep the schedulers from being destroyed. Private.
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

/* All schedulers over processors. uprocs_destroy() waits while they are pinned. */
struct pins {
	struct uprocs **pn_all;
	size_t          pn_count;
};

#define DUMP_PRIVATE __attribute__((visibility("hidden")))

/* Pins all schedulers. Returns 0, or -ENOMEM if nothing was pinned. */
DUMP_PRIVATE int uinspect__pin(struct pins *n);

/* Unpins all schedulers, and frees pn_all. pn_count stays, for the text of a dump. */
DUMP_PRIVATE void uinspect__unpin(struct pins *n);

struct member {
	struct member *dm_next;
	uintptr_t      dm_thread;
	const void    *dm_object;       /* the object that the thread waits for */
	uintptr_t      dm_holder;       /* the thread that has the object, or 0 */
	uintptr_t      dm_joiner;       /* the thread that joins this thread, or 0 */
	const char    *dm_name;         /* the name, or NULL */
	const char    *dm_more;         /* wy_more of struct ustack_why, or NULL */
	struct task   *dm_task;
};

/* What all threads of a group have in common, besides the frames. */
struct group_key {
	uintptr_t   gk_func;
	const char *gk_kind;
	const char *gk_how;
	uint8_t     gk_state;
	uint8_t     gk_number;
	uint16_t    gk_depth;           /* number of elements of gr_frames */
};

/* Threads that differ only in what their struct member says. */
struct group {
	struct group  *gr_next;         /* the next group in the bucket */
	struct group  *gr_older;        /* the group that was made before this one */
	uint64_t       gr_hash;
	struct member *gr_first;
	struct member **gr_last;
	size_t         gr_count;
	struct group_key gr_key;
	uintptr_t      gr_frames[];
};

struct chunk {
	struct chunk *ck_next;
	size_t        ck_used;
	_Alignas(16) char ck_bytes[];
};

enum { TASK_ASKED, TASK_IDLE, TASK_BUSY, TASK_DONE, TASK_GONE, TASK_REFUSED };

/* A processor's part of a dump. */
struct task {
	struct dump  *tk_dump;
	struct uproc *tk_proc;
	unsigned      tk_scheduler;
	unsigned      tk_number;
	int           tk_state;         /* under du_lock, like tk_steps */
	unsigned      tk_steps;         /* batches begun, plus batches ended */
	unsigned      tk_seen;          /* tk_steps when the dump last saw a change */
	int64_t       tk_since;         /* ns: the time of that change */

	/* These belong to the collector during a batch, and otherwise to the dump. */
	struct uimage_walk tk_walk;
	void         *tk_records[DUMP_BATCH];
	size_t        tk_got, tk_at;
	size_t        tk_threads;
	struct ustack_why tk_why;       /* this and tk_key: of the present thread */
	struct group_key tk_key;
	const char   *tk_top, *tk_bottom;
	uintptr_t     tk_frames[SNAP_FRAMES];

	/* What is known of a processor that does not answer. */
	size_t        tk_all;           /* the number of threads */
	uintptr_t     tk_runs;          /* the thread that runs, or 0 */
	const char   *tk_runs_name;
	uintptr_t     tk_runs_func;
	size_t        tk_runs_depth;    /* calls of tk_runs, in tk_frames */
};

struct dump {
	int             du_fd;
	unsigned        du_how;
	struct pins     du_pins;
	struct task   **du_tasks;
	size_t          du_count;
	pthread_mutex_t du_lock;
	pthread_cond_t  du_changed;
	size_t          du_users;       /* the dump and its collectors; under du_lock */
	struct chunk   *du_chunks;      /* this and the next four: under du_lock */
	struct group   *du_buckets[DUMP_BUCKETS];
	struct group   *du_newest;
	size_t          du_groups;
	size_t          du_lost;        /* threads left out for want of memory */
};

/* Writes the text. Returns 0, -ENOMEM, or an error of write(2). */
DUMP_PRIVATE int uinspect__show(struct dump *d);

#endif /* USCHED_DUMP_H */
