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
#include <string.h>

#include "snap.h"
#include "../uproc.h"
#include "../uwait.h"

enum {
	DUMP_BATCH   = 256,             /* threads that a collector visits in one turn */
	DUMP_BUCKETS = 4096,            /* of groups, for each processor */
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

/* A thread. */
struct member {
	struct member *m_next;
	uintptr_t      m_thread;
	const void    *m_object;
	uintptr_t      m_holder;
	const char    *m_name;          /* or NULL, as the next one */
	const char    *m_more;
	struct task   *m_task;
	int64_t        m_started;       /* ns ago, or -1, as the next one */
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

/* Threads that are equal except for these. */
struct group {
	struct group  *g_next;          /* in the bucket, */
	struct group  *g_older;         /* and of the task */
	uint64_t       g_hash;
	struct member *g_first;
	struct member **g_last;
	size_t         g_count;
	struct group_key g_key;
	uintptr_t      g_frames[];
};

/* A join: m_thread of the joiner, and what it joins. */
struct link {
	struct link *l_next;
	uintptr_t    l_joiner;
	uintptr_t    l_joined;
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
	struct chunk *k_chunks;
	struct group *k_groups[DUMP_BUCKETS];
	struct group *k_newest;
	size_t        k_count;          /* of groups */
	struct link  *k_joins;
	size_t        k_holders;        /* words of members and of links that name one */
	size_t        k_threads;
	size_t        k_lost;           /* for want of memory */
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
	size_t          d_users;        /* d_lock: the dump, and collectors */
};

/* 0; -ENOMEM; an error of write(2). */
DUMP_PRIVATE int uinspect__show(struct dump *d);

static inline uint64_t dump_mix(uint64_t hash, uintptr_t word)
{
	return (hash ^ word) * UINT64_C(0x9e3779b97f4a7c15) ^ hash >> 29;
}

static inline bool dump_same(const struct group_key *a, const uintptr_t *a_frames,
			     const struct group_key *b, const uintptr_t *b_frames)
{
	return a->e_func == b->e_func && a->e_kind == b->e_kind && a->e_how == b->e_how
		&& a->e_state == b->e_state && a->e_number == b->e_number
		&& a->e_depth == b->e_depth
		&& memcmp(a_frames, b_frames, a->e_depth * sizeof *a_frames) == 0;
}

#endif /* USCHED_DUMP_H */
