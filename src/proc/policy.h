/* SPDX-License-Identifier: MIT */
/*
 * policy.h: where threads are placed, how many move to which processor, and how many CPUs
 * there are. The numbers, the time and the names of files come from the caller, so these
 * functions can be simulated for more processors than a machine has. doc/moving.md has
 * the results, and the protocol.
 *
 * A gift is a number of threads that move from a busy processor to an idle one, which has
 * asked for them. A processor that wakes a thread of another processor may draw that
 * thread, which then moves to the processor of its waker.
 */
#ifndef USCHED_POLICY_H
#define USCHED_POLICY_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "../../uproc.h"

enum {
	POLICY_RUN    = 32,     /* starts in a row that share a cache: policy_run() */
	POLICY_RUNS   = 1024,   /* the most starts in a row: see policy_run() */
	POLICY_LOOKS  = 16,     /* processors that a search for threads looks at */
	POLICY_PLACES = 16,     /* the most threads in a gift of threads that ran */
	POLICY_AGAIN  = 10000,  /* ns from search to search while idle and awake */
	POLICY_NOTICE = 64,     /* after so many wakes of threads of other
				   processors there is a measurement */
	POLICY_SPAN   = 50000,  /* ns: the shortest span of a measurement */
	POLICY_HOP    = 500,    /* ns: about what a wake on another processor takes */
	POLICY_LIGHT  = 240,    /* 256ths of a processor's time: threads that take less
				   fit on one processor. With more than 256 all stages
				   of a pipeline would gather there, since the slowest
				   stage holds up the others */
	POLICY_GAIN   = 1000000,        /* ns: a gift that keeps the processor busy for
					   less time was in vain */
	POLICY_HOLD   = 64000000,       /* ns: the longest pause after such gifts */
};

/*
 * Returns how many starts in a row (see uprocs_place()) go to a processor that has
 * `threads' threads, waiting ones included. A run of a quarter of the threads keeps the
 * numbers on all processors nearly equal. A run longer than POLICY_RUN would be too much
 * work at a time, unless the processor has 64 times as many threads.
 */
static inline uint32_t policy_run(uint32_t threads)
{
	uint32_t run = threads / 4;

	if (run > POLICY_RUN)
		run = threads / 64 > POLICY_RUN ? threads / 64 : POLICY_RUN;
	return run < 1 ? 1 : run > POLICY_RUNS ? POLICY_RUNS : run;
}

/*
 * Returns how many threads a processor gives to each of `asking' processors. The giver
 * has `ready' threads in its queue, and runs no thread. All that ask get the same
 * number, and at least one thread stays.
 */
static inline uint32_t policy_share(uint32_t ready, uint32_t asking)
{
	uint32_t share;

	if (ready < 2 || asking == 0)
		return 0;
	share = ready / (asking + 1);
	return share < 1 ? 1 : share;
}

/*
 * Returns how many new threads, at most `share', a processor gives to another. The giver
 * has `ours' threads, the other `theirs'; both numbers include waiting threads. A thread
 * on a shared stack cannot move back after its first run, so at most half of the
 * difference is given. Without this bound the connections of a server gather where the
 * load was low when they came: in a simulation one of 16 processors got 1.46 times the
 * average, for good. Threads that were started in a row often belong together, so a gift
 * has at least one run of starts. It may be smaller if threads have `waited' in the
 * queue from one look for events to the next. So threads that block as soon as they
 * begin stay, however many are started.
 */
static inline uint32_t policy_new(uint32_t share, uint32_t ours, uint32_t theirs,
				  int waited)
{
	uint32_t even = theirs < ours ? (ours - theirs + 1) / 2 : 0;

	if (!waited && share < policy_run(theirs))
		return 0;
	share = share < even ? share : even;
	return share < POLICY_RUNS ? share : POLICY_RUNS;
}

/* ---- Threads that follow others: the load of a processor ---- */

/* Notes that `thread', which has run on another processor, has come to this one. */
static inline void policy_arrive(struct uproc_load *l, const void *thread)
{
	l->ld_new[l->ld_came++ % UPROC_NEW] = thread;
}

/*
 * Measures what the processor did in the span from the last measurement to `now', if the
 * span is long enough. `switches' counts all switches so far. The mean run is the busy
 * time divided by the number of switches. If there were more wakes of other processors'
 * threads, they count instead of the switches, because a thread that wakes others and
 * never waits has no switches. ld_run is the shorter mean run of the last two spans,
 * since in one of these another process may have had the CPU.
 */
static inline void policy_measure(struct uproc_load *l, int64_t now, uint64_t switches)
{
	int64_t span = now - l->ld_from, busy = span - l->ld_idle;
	uint64_t runs = switches - l->ld_ran;
	uint32_t run;

	if (span < POLICY_SPAN)
		return;
	busy = busy < 0 ? 0 : busy < INT32_MAX ? busy : INT32_MAX;
	runs = runs > l->ld_woken ? runs : l->ld_woken;
	run = (uint32_t)busy / (uint32_t)(runs > 0 ? runs : 1);
	__atomic_store_n(&l->ld_run, run < l->ld_last_run ? run : l->ld_last_run,
			 __ATOMIC_RELAXED);
	__atomic_store_n(&l->ld_share, (uint32_t)(busy * 256 / span), __ATOMIC_RELAXED);
	l->ld_last_run = run;
	l->ld_ran = switches;
	l->ld_from = now;
	l->ld_idle = 0;
	l->ld_woken = 0;
}

/* Reasons to draw a woken thread that belongs to another processor. */
enum { POLICY_FRESH = 1, POLICY_DUE = 2 };

/*
 * Counts that `waker' wakes a thread of another processor. Returns reasons to draw that
 * thread: POLICY_FRESH, once, if the waker has just moved here; POLICY_DUE after
 * POLICY_NOTICE such wakes, or after the time that so many wakes take. With POLICY_DUE
 * the caller calls policy_measure().
 */
static inline unsigned policy_cross(struct uproc_load *l, const void *waker)
{
	unsigned why = 0;

	for (unsigned i = 0; i < UPROC_NEW && !why; i++)
		if (l->ld_new[i] == waker) {
			l->ld_new[i] = NULL;
			why = POLICY_FRESH;
		}
	l->ld_woken++;
	if (++l->ld_crossed < POLICY_NOTICE
	    && l->ld_woke - l->ld_noticed < POLICY_NOTICE * POLICY_HOP)
		return why;
	l->ld_crossed = 0;
	return why | POLICY_DUE;
}

/*
 * Two processors could draw threads of each other. Decides which one does, so that
 * threads do not pass each other. Returns true if it is the processor of `l', which has
 * `ready' threads in its queue. If the other processor has threads queued, the processor
 * with the shorter queue draws. Otherwise the busier processor draws, since most of the
 * group is there. `first' decides between equals.
 */
static inline bool policy_gathers(const struct uproc_load *l, uint32_t ready,
				  const struct uproc_load *other, uint32_t other_ready,
				  bool first)
{
	uint32_t share = __atomic_load_n(&other->ld_share, __ATOMIC_RELAXED);

	if (other_ready > 0 && ready != other_ready)
		return ready < other_ready;
	return l->ld_share != share ? l->ld_share > share : first;
}

/*
 * A thread of the `other' processor is woken here. Returns whether the processor of `l'
 * draws that thread. If the thread stays there, each wake takes POLICY_HOP. That is too
 * long for threads that run for less time between wakes. Threads that fit on one
 * processor gain nothing by a second processor.
 */
static inline bool policy_draws(const struct uproc_load *l,
				const struct uproc_load *other)
{
	uint32_t share = l->ld_share
		       + __atomic_load_n(&other->ld_share, __ATOMIC_RELAXED);
	uint32_t run = __atomic_load_n(&other->ld_run, __ATOMIC_RELAXED);

	if (run < l->ld_run)
		run = l->ld_run;
	return run < POLICY_HOP || (run < 16 * POLICY_HOP && share < POLICY_LIGHT);
}

/*
 * Decides for how long the processor does not ask for threads. A gift has kept the
 * processor busy for `busy' ns; then `drew' threads were drawn here, or drawn away. If
 * `busy' is small, the gift was in vain, since one of two processors is idle again. The
 * pause doubles with each gift in vain.
 */
static inline void policy_hold(struct uproc_load *l, int64_t now, int64_t busy,
			       uint32_t drew)
{
	if (busy >= POLICY_GAIN || drew == 0)
		l->ld_held = 0;
	else if (l->ld_held == 0)
		l->ld_held = POLICY_GAIN;
	else
		l->ld_held = 2 * l->ld_held < POLICY_HOLD ? 2 * l->ld_held : POLICY_HOLD;
	l->ld_hold = now + l->ld_held;
}

/* Notes that the processor was given threads. */
static inline void policy_get(struct uproc_load *l, int64_t now)
{
	l->ld_given = now;
	l->ld_drew = 0;
}

/* Judges the last gift. Called when the processor has nothing left to run. */
static inline void policy_judge(struct uproc_load *l, int64_t now)
{
	int64_t busy = now - l->ld_given;

	if (l->ld_given != 0 && (l->ld_drew > 0 || busy >= POLICY_GAIN))
		policy_hold(l, now, busy, l->ld_drew);
	l->ld_given = 0;
}

/* Stops asking for some time, since the processor's last thread was drawn away. */
static inline void policy_lose(struct uproc_load *l, int64_t now)
{
	if (now < l->ld_hold)
		return;
	policy_hold(l, now, 0, 1);
	l->ld_given = 0;
}

/* ---- How many CPUs there are ---- */

/*
 * Control groups of Linux (cgroups(7)) limit the CPU time. With version 2,
 * ROOT/GROUP/cpu.max has the time and a period, in microseconds: "50000 100000", or "max
 * 100000". With version 1 two files in ROOT/cpu/GROUP have these numbers. The limit of a
 * process is the least among those of its group and of all groups above that.
 *
 * Inside a container the group may have the name that it has outside. Below ROOT there
 * is then only the end of that name, or nothing. A file that cannot be read sets no
 * limit.
 */

/* Reads up to two numbers of a file into *a and *b. Others stay as they are. */
static inline void quota__read(const char *directory, const char *name, long long *a,
			       long long *b)
{
	char path[PATH_MAX + 32];
	FILE *file;

	snprintf(path, sizeof path, "%s/%s", directory, name);
	file = fopen(path, "re");
	if (file && fscanf(file, "%lld %lld", a, b) == 0)
		*a = 0;
	if (file)
		fclose(file);
}

/* Returns how many CPUs `directory' allows, rounded up. UINT_MAX: no limit. */
static inline unsigned quota__of(const char *directory)
{
	long long quota = 0, period = 0, unused;

	quota__read(directory, "cpu.max", &quota, &period);
	quota__read(directory, "cpu.cfs_quota_us", &quota, &unused);
	quota__read(directory, "cpu.cfs_period_us", &period, &unused);
	if (quota <= 0 || period <= 0 || quota / period >= INT_MAX)
		return UINT_MAX;
	return (unsigned)((quota + period - 1) / period);
}

/* Returns the least limit in the directories from `top' down to `group', which begins
   with a slash. */
static inline unsigned quota__along(const char *top, const char *group)
{
	char directory[PATH_MAX];
	int size = snprintf(directory, sizeof directory, "%s%s", top, group);
	unsigned least = UINT_MAX;

	if (size < 0 || (size_t)size >= sizeof directory)
		return UINT_MAX;
	for (;;) {
		unsigned one = quota__of(directory);
		char *end;

		if (one < least)
			least = one;
		end = strrchr(directory, '/');
		if (!end || end < directory + strlen(top))
			return least;
		*end = '\0';
	}
}

/*
 * Returns how many CPUs the groups named in `file' allow; UINT_MAX: no limit. In a
 * process `file' is /proc/self/cgroup, and `root' is /sys/fs/cgroup.
 */
static inline unsigned quota_cpus(const char *file, const char *root)
{
	FILE *groups = fopen(file, "re");
	unsigned least = UINT_MAX, one;
	char line[PATH_MAX], cpu[PATH_MAX];

	snprintf(cpu, sizeof cpu, "%s/cpu", root);
	while (groups && fgets(line, sizeof line, groups)) {
		char *names = strchr(line, ':'), *group;

		group = names ? strchr(names + 1, ':') : NULL;
		if (!group)
			continue;
		*group++ = '\0';
		group[strcspn(group, "\n")] = '\0';
		if (strcmp(group, "/") == 0)
			*group = '\0';
		if (names[1] == '\0')           /* version 2 */
			one = quota__along(root, group);
		else if (strcmp(names, ":cpu") == 0 || strncmp(names, ":cpu,", 5) == 0)
			one = quota__along(cpu, group);
		else
			continue;
		least = one < least ? one : least;
	}
	if (groups)
		fclose(groups);
	return least;
}

#endif /* USCHED_POLICY_H */
