/* SPDX-License-Identifier: MIT */
/*
 * dump.h: what uinspect.c collects and uinspect_show.c writes; and schedulers that stay
 * meanwhile, for uinspect_metrics.c, too. Private.
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
	DUMP_BUCKETS = 4096,            /* of groups */
};

/* All schedulers over processors. */
struct pins {
	struct uprocs **n_all;
	size_t          n_count;
};

#define DUMP_PRIVATE __attribute__((visibility("hidden")))

/* 0; -ENOMEM: there are none. */
DUMP_PRIVATE int uinspect__pin(struct pins *n);

/* n_count stays. */
DUMP_PRIVATE void uinspect__unpin(struct pins *n);

/* A thread. Times are in ns ago, or -1: not known. */
struct member {
	struct member *m_next;
	uintptr_t      m_thread;
	const void    *m_object;        /* that it waits for, */
	uintptr_t      m_holder;        /* and which has it, or 0 */
	uintptr_t      m_joiner;        /* the thread that joins it, or 0 */
	const char    *m_name;          /* or NULL, as the next one */
	const char    *m_more;
	struct task   *m_task;
	int64_t        m_started;
	int64_t        m_blocked;
	uintptr_t      m_where;         /* behind the call that started it, or 0 */
};

/* What the threads of a group have in common. */
struct group_key {
	uintptr_t   e_func;
	const char *e_kind;
	const char *e_how;
	uint8_t     e_state;
	uint8_t     e_number;
	uint16_t    e_depth;            /* frames behind */
};

/* Threads that are equal except for what their members have. */
struct group {
	struct group  *g_next;          /* in the bucket, */
	struct group  *g_older;         /* and of the dump */
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
	int           k_state;          /* d_lock; as the next one */
	unsigned      k_steps;          /* batches */
	unsigned      k_seen;           /* of these, by the dump, */
	int64_t       k_since;          /* and when */

	/* The collector's in a batch, else the dump's. */
	struct uimage_walk k_walk;
	void         *k_records[DUMP_BATCH];
	size_t        k_got, k_at;
	size_t        k_threads;
	struct ustack_why k_why;        /* of the thread that is looked at, as these */
	struct group_key k_key;
	const char   *k_top, *k_bottom;
	uintptr_t     k_frames[SNAP_FRAMES];

	size_t        k_all;            /* threads that it has, if it does not answer, */
	uintptr_t     k_runs;           /* that which runs, or 0, */
	const char   *k_runs_name;
	uintptr_t     k_runs_func;
	size_t        k_runs_depth;     /* and its calls, in k_frames */
};

struct dump {
	int             d_fd;
	unsigned        d_how;
	struct pins     d_pins;
	struct task   **d_tasks;
	size_t          d_count;
	pthread_mutex_t d_lock;
	pthread_cond_t  d_changed;
	size_t          d_users;        /* d_lock, as all below: with collectors */
	struct chunk   *d_chunks;
	struct group   *d_buckets[DUMP_BUCKETS];
	struct group   *d_newest;
	size_t          d_groups;
	size_t          d_lost;         /* threads, for want of memory */
};

/* 0; -ENOMEM; an error of write(2). */
DUMP_PRIVATE int uinspect__show(struct dump *d);

#endif /* USCHED_DUMP_H */
