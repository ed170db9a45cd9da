/* SPDX-License-Identifier: MIT */
/*
 * uprocs.c: schedulers over processors: their configuration, start and end, and the list
 * of all in the process, for reports and for debuggers. A scheduler is listed from the
 * end of uprocs_create() until uprocs_destroy() takes the scheduler apart.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE             /* for CPU_COUNT */
#endif
#include <limits.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "../../arch/arch.h"
#include "layout.h"
#include "policy.h"
#include "block.h"
#include "proc.h"
#include "../base/when.h"

enum {
	FIRST_STACKS       = 64,        /* stacks of a processor to begin with */
	SIM_STACKS         = 4,         /* the same in a simulation, which copies them */
	DEFAULT_STACKS     = 1024,      /* the most stacks of a processor by default */
	DEFAULT_ALL_STACKS = 16 << 10,  /* the most of all processors together, as Linux
					   limits the mappings of a process */
	DEFAULT_STACK_SIZE = 256 << 10, /* bytes */
	UIMAGE_MAX         = 64 << 10,  /* the most bytes of frames in a record */
	PATIENCE           = 10000,     /* ns: about the cost of a sleep and a wake */
	PINNED             = 200000,    /* ns between looks at r_pins */
	FOLLOW             = 1000000000,        /* ns between looks at the CPUs allowed */
	FOLLOW_UP          = 16,        /* processors to make when more CPUs are allowed,
					   as each of so many has DEFAULT_STACKS */
	CACHE_LINES        = 128,       /* bytes that a CPU fetches together */
	SLICE_MIN          = 10000,     /* ns: the least c_slice */
	STALL_MIN          = 1000000,   /* ns: the least c_stall */
};

#ifdef USCHED_CHECK
enum { STALL_DEFAULT = 25000000 };      /* ns: c_stall */
#else
enum { STALL_DEFAULT = 0 };             /* no stall is reported */
#endif

/* The largest c_slice or c_stall, in ns, so that a sum with a time cannot overflow. */
#define SPAN_MAX ((int64_t)1 << 62)

/* The length of a period, in ns. The memory of a peak has gone back after two periods and
   some time for the steps: that is less than 10 s. */
#define UNUSED ((int64_t)3000000000)

_Static_assert(FIRST_STACKS << (UPROC_STEPS - 1) == DEFAULT_STACKS, "each step doubles");

/* The lock of uproc__schedulers. */
static pthread_mutex_t list_lock = PTHREAD_MUTEX_INITIALIZER;

/* ---- The configuration ---- */

static unsigned processors_online(void)
{
	long n = sysconf(_SC_NPROCESSORS_ONLN);

	return n < 1 ? 1 : (unsigned)n;
}

/*
 * Returns how many CPUs the process may use. The affinity is that of the caller, or, with
 * `r', that of all native threads of `r' together: a program may bind each to a CPU.
 */
static unsigned processors_allowed(const struct uprocs *r)
{
	unsigned quota = quota_cpus("/proc/self/cgroup", "/sys/fs/cgroup"), n = 0;
#ifdef CPU_COUNT
	cpu_set_t all, one;

	CPU_ZERO(&all);
	if (!r && sched_getaffinity(0, sizeof all, &all))
		CPU_ZERO(&all);
	for (size_t i = 0; r && i < r->r_made; i++)
		if (!pthread_getaffinity_np(uproc_at(r, i)->p_native, sizeof one, &one))
			CPU_OR(&all, &all, &one);
	n = (unsigned)CPU_COUNT(&all);
#else
	(void)r;
#endif
	if (n == 0)
		n = processors_online();
	return n < quota ? n : quota;
}

static unsigned default_stacks(unsigned processors)
{
	unsigned share = DEFAULT_ALL_STACKS / processors;

	if (share < FIRST_STACKS)
		return FIRST_STACKS;
	return share < DEFAULT_STACKS ? share : DEFAULT_STACKS;
}

/* Returns whether `ns' is 0, or from `min' to SPAN_MAX. */
static bool is_span(int64_t ns, int64_t min)
{
	return ns == 0 || (ns >= min && ns <= SPAN_MAX);
}

/* Sets *limit to the number of processors that run, and c_processors to the most that may
   run later. */
static int complete(struct uprocs_conf *conf, const struct uprocs_conf *given,
		    unsigned *limit)
{
	*conf = given ? *given : (struct uprocs_conf){ 0 };
	*limit = conf->c_processors;
	if (conf->c_processors == 0) {
		*limit = processors_allowed(NULL);
		conf->c_processors = processors_online();
		if (conf->c_processors > FOLLOW_UP)
			conf->c_processors = FOLLOW_UP;
		if (conf->c_processors < *limit)
			conf->c_processors = *limit;
	}
	if (conf->c_stacks == 0)
		conf->c_stacks = default_stacks(conf->c_processors);
	if (conf->c_alone == 0)
		conf->c_alone = DEFAULT_ALL_STACKS;
	if (conf->c_stack_size == 0)
		conf->c_stack_size = conf->c_stacks == USCHED_NATIVE ?
			(size_t)UPROC_NATIVE_STACK : (size_t)DEFAULT_STACK_SIZE;
	if (conf->c_image == 0)
		conf->c_image = usched__shallow;
	if (conf->c_image < sizeof(struct usched_image))
		conf->c_image = sizeof(struct usched_image);
	if (conf->c_stall == 0)
		conf->c_stall = STALL_DEFAULT;
	if (conf->c_stall == USCHED_QUIET)
		conf->c_stall = 0;
	if (conf->c_processors > INT_MAX || conf->c_image > UIMAGE_MAX
	    || conf->c_stack_size < USCHED_STACK_MIN
	    || conf->c_stack_size > USCHED_STACK_MAX
	    || !is_span(conf->c_slice, SLICE_MIN) || !is_span(conf->c_stall, STALL_MIN))
		return -EINVAL;
	if (ONE_NATIVE || conf->c_embed)
		conf->c_processors = 1;
	if (conf->c_tls && uproc__probe_blocks())
		return -ENOTSUP;
	if (conf->c_tls)
		uproc__use_blocks();
	return 0;
}

/* ---- The list of schedulers ---- */

static void enlist_scheduler(struct uprocs *r)
{
	/* Refers to the layout, so that a linker with --gc-sections keeps it. */
	__asm__ volatile("" : : "r"(&usched__layout));
	lock(&list_lock);
	r->r_number = uproc__schedulers ? uproc__schedulers->r_number + 1 : 0;
	r->r_other = uproc__schedulers;
	uproc__schedulers = r;
	unlock(&list_lock);
}

/* Takes `r' off the list, and waits until no inspection pins `r' any more. */
static void delist(struct uprocs *r)
{
	const struct timespec pause = { .tv_nsec = PINNED };
	struct uprocs **at = &uproc__schedulers;

	lock(&list_lock);
	while (*at != r)
		at = &(*at)->r_other;
	*at = r->r_other;
	unlock(&list_lock);
	while (LOAD(r->r_pins) > 0)             /* seldom, for a second at most */
		nanosleep(&pause, NULL);
}

struct uprocs *uprocs__pin(uint32_t number)
{
	struct uprocs *r;

	lock(&list_lock);
	for (r = uproc__schedulers; r && r->r_number >= number; r = r->r_other)
		;
	if (r)
		FETCH_ADD(&r->r_pins, 1);
	unlock(&list_lock);
	return r;
}

/* `r' may be freed once the last pin is gone. */
void uprocs__unpin(struct uprocs *r)
{
	FETCH_ADD(&r->r_pins, -(uint32_t)1);
}

/* Frees no memory, since another native thread may have been changing a scheduler. */
void uproc__forked(void)
{
	list_lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
	uproc__local_lost |= uproc__schedulers != NULL;
	uproc__schedulers = NULL;
	uproc__forget_names();
}

/* ---- A scheduler ---- */

/*
 * The r_follow of schedulers that were given no number of processors: sets r_limit to the
 * number of CPUs that are allowed now. One processor does it, once in FOLLOW.
 */
static void follow_limit(struct uproc *p)
{
	struct uprocs *r = p->p_procs;
	int64_t due = LOAD(r->r_due), now = when_now();
	uint32_t before = r->r_limit, limit;

	if (now < due || !CAS(&r->r_due, &due, INT64_MAX))
		return;
	limit = processors_allowed(r);
	if (limit > r->r_conf.c_processors)
		limit = r->r_conf.c_processors;
	while (r->r_made < limit && uproc__make_stacks(uproc_at(r, r->r_made)) == 0
	       && uproc__start_native(r) == 0)
		;
	if (limit > r->r_made)
		limit = r->r_made;              /* short of memory: tries again */
	SET(r->r_patience, limit > 1 ? PATIENCE : 0);
	SWAP(&r->r_limit, limit);
	for (; before < limit; before++)        /* they ask for threads */
		if (uproc__unmark(uproc_at(r, before)))
			uproc__unpark(uproc_at(r, before));
	__atomic_store_n(&r->r_due, now + FOLLOW, __ATOMIC_SEQ_CST);
}

/* Frees the first n processors, whose native threads have ended or never began. */
static void free_procs(struct uprocs *r, size_t n)
{
	while (n-- > 0) {
		usched_fini(&uproc_at(r, n)->p_sched);
		uproc__fini(uproc_at(r, n));
	}
	uproc__fini(r->r_moving);
	free(r->r_asking);
	free(r->r_proc);
}

static int make_procs(struct uprocs *r, const struct uproc_policy *policy)
{
	size_t all = r->r_conf.c_processors, n = 0, size;
	int rc = -ENOMEM;

	if (__builtin_mul_overflow(all + 1, r->r_stride, &size))
		return rc;
	r->r_proc = (struct usched *)aligned_alloc(CACHE_LINES, size);
	r->r_asking = (uint64_t *)calloc(all / ASKING_BITS + 1, sizeof *r->r_asking);
	if (r->r_proc && r->r_asking) {
		memset(r->r_proc, 0, size);
		r->r_moving = uproc_at(r, all);
		rc = uproc__init(r->r_moving, r, policy);
		for (; n < all && rc == 0; n += rc == 0) {
			rc = uproc__init(uproc_at(r, n), r, policy);
			if (rc == 0)
				rc = uproc__make_parts(uproc_at(r, n));
			if (rc == 0 && n < r->r_limit)
				rc = uproc__make_stacks(uproc_at(r, n));
			if (rc)
				uproc__fini(uproc_at(r, n));
		}
		if (rc)
			free_procs(r, n);
		return rc;
	}
	free(r->r_asking);
	free(r->r_proc);
	return rc;
}

/* Plans the first stacks of each processor. If c_stacks is `given', maps all at once. */
static void plan_stacks(struct uprocs *r, bool given, bool moves)
{
	r->r_stacks = moves && r->r_conf.c_processors > 1 ? 2 * FIRST_STACKS
		: FIRST_STACKS;
	if (SIMULATED && !given) {
		r->r_stacks = SIM_STACKS;
		r->r_conf.c_stacks = SIM_STACKS << (UPROC_STEPS - 1);
	}
	r->r_mapped = given ? r->r_conf.c_stacks : r->r_stacks;
	if (r->r_stacks > r->r_mapped)
		r->r_stacks = r->r_mapped;
}

/* Makes the records, the processors, and their native threads. */
static int begin(struct uprocs *r, const struct uproc_policy *policy)
{
	int rc = uimage_pool_init(&r->r_images,
				  offsetof(struct ustack, u_image) + r->r_conf.c_image,
				  sizeof(struct uproc_rest) + (r->r_room + 7) / 8 * 8);

	if (rc)
		return rc;
	uimage_pool_keep(&r->r_images, offsetof(struct ustack, u_mail), UPROC_MAIL_KNOWN);
	rc = make_procs(r, policy);
	if (rc == 0) {
		rc = uproc__start_natives(r);
		if (rc == 0)
			return 0;
		free_procs(r, r->r_conf.c_processors);
	}
	uimage_pool_fini(&r->r_images);
	return rc;
}

static void free_parts(struct uprocs *r)
{
	pthread_cond_destroy(&r->r_changed);
	pthread_mutex_destroy(&r->r_lock);
	free(r);
}

/* Returns a scheduler without parts, `limit' processors of which are to run; or NULL. */
static struct uprocs *new_procs(const struct uprocs_conf *conf,
				const struct uproc_policy *policy, unsigned limit)
{
	struct uprocs *r = (struct uprocs *)malloc(sizeof *r);

	if (!r)
		return NULL;
	*r = (struct uprocs){
		.r_conf    = *conf,
		.r_alones  = { .as_lock = PTHREAD_MUTEX_INITIALIZER },
		.r_stride  = (policy->y_size + CACHE_LINES - 1) / CACHE_LINES
			      * CACHE_LINES,
		.r_room    = policy->y_room,
		.r_unused  = UNUSED,
		.r_deadline = INT64_MAX,
		.r_lock    = PTHREAD_MUTEX_INITIALIZER,
		.r_limit   = limit,
		.r_due     = INT64_MAX,
		.r_follow  = follow_limit,
	};
	when_init_cond(&r->r_changed);
	if (limit > 1 && limit <= processors_allowed(NULL))
		r->r_patience = PATIENCE;
	return r;
}

int uprocs_create(const struct uprocs_conf *conf, const struct uproc_policy *policy,
		  struct uprocs **procs)
{
	struct uprocs_conf all;
	struct uprocs *r;
	size_t room = policy->y_room;
	unsigned limit;
	int rc = complete(&all, conf, &limit);

	*procs = NULL;
	if (rc)
		return rc;
	if (room > UPROC_ROOM_MAX)
		return -EINVAL;
	if (SIMULATED && sim__joins(conf, procs))       /* schedulers share records */
		return room && room != (*procs)->r_room ? -ENOTSUP : 0;
	if (SIMULATED)
		sim__conform(&all, &policy);
	r = new_procs(&all, policy, limit < all.c_processors ? limit : all.c_processors);
	if (!r)
		return -ENOMEM;
	plan_stacks(r, conf && conf->c_stacks, policy->y_moves && !all.c_stay);
	rc = begin(r, policy);
	if (rc) {
		free_parts(r);
		return rc;
	}
	if ((!conf || conf->c_processors == 0) && all.c_processors > 1)
		SWAP(&r->r_due, when_now() + FOLLOW);   /* all first ones are made */
	enlist_scheduler(r);
	*procs = r;
	return 0;
}

static void abort_left(void *record, void *unused)
{
	struct uproc_thread *t = (struct uproc_thread *)record;

	(void)unused;
	if (t->th_stack.u_func)
		ustack_abort(&t->th_stack);
}

int uprocs_destroy(struct uprocs *r, int64_t deadline)
{
	int rc;

	if (uproc_self())
		return SIMULATED ? sim__leaves(deadline) : -EPERM;
	rc = uproc__await(r, NULL, NULL, deadline);
	if (rc && rc != -EDEADLK)
		return rc;
	delist(r);
	if (rc == 0)                            /* an inspection may start threads */
		rc = uproc__await(r, NULL, NULL, INT64_MAX);
	uproc__stop_natives(r);
	if (rc)
		uimage_pool_walk(&r->r_images, abort_left, NULL);
	if (r->r_conf.c_tls)
		uproc__drop_blocks(r);
	uproc__unmap_alones(r);
	free_procs(r, r->r_conf.c_processors);
	uimage_pool_fini(&r->r_images);
	free_parts(r);
	return rc;
}

void uprocs_stats(struct uprocs *r, struct usched_stats *out)
{
	*out = (struct usched_stats){ 0 };
	for (size_t i = 0; i < r->r_conf.c_processors; i++) {
		struct usched_stats one;

		usched_stats(&uproc_at(r, i)->p_sched, &one);
		out->st_switches += one.st_switches;
		out->st_launches += one.st_launches;
		out->st_evictions += one.st_evictions;
		out->st_loads += one.st_loads;
		out->st_bytes += one.st_bytes;
		out->st_preempted += one.st_preempted;
		out->st_moves += one.st_moves;
		if (one.st_deepest > out->st_deepest)
			out->st_deepest = one.st_deepest;
		out->st_images += one.st_images;
		out->st_image_bytes += one.st_image_bytes;
	}
}
