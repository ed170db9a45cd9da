/* SPDX-License-Identifier: MIT */
/*
 * uimage.c: slabs, batches and stacks. uimage.h has the picture.
 *
 * For each class a cache has a list of free blocks, and one spare batch, so that
 * allocations around the edge of a batch do not go to the pool each time (magazines: J.
 * Bonwick and J. Adams, USENIX 2001). Whole batches go back to the pool. So blocks get
 * from processors that free them to processors that allocate them.
 *
 * Each arena of a class is twice as large as the arena before, so a program with ten
 * threads maps little, and a program with ten million threads maps seldom. Large arenas
 * are aligned for huge pages and ask for huge pages: with small pages, a program that
 * runs a million threads in turn would miss the TLB at each thread.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE             /* MAP_ANONYMOUS, madvise() */
#endif
#include <errno.h>

#include "../core/direction.h"
#include "image.h"
#include "../base/lock.h"

enum {
	IMAGE_LINE = 64,                /* bytes of a cache line */
	FINE_STEP  = 64,                /* bytes from a small class to the next */
	FINE_MAX   = 512,               /* bytes of the largest small class: 2^9 */
	FINE_LOG   = 9,
	CLASS_MAX  = 1 << 20,           /* bytes of the largest class */
	BATCH_MAX  = 64,                /* the most blocks in a batch */
	BATCH_SIZE = 16 << 10,          /* the most bytes in a batch of several blocks */
	ARENA_MIN  = 64 << 10,          /* bytes of a class's first arena */
	WALK       = 16,                /* records that a walk looks at in one step */
};

_Static_assert(sizeof(struct uimage_arena) == UIMAGE_HEAD, "rests begin behind it");

_Static_assert(UIMAGE_CLASSES == 1 + FINE_MAX / FINE_STEP + 4 * 11
	       && CLASS_MAX >> 11 == FINE_MAX && 1 << FINE_LOG == FINE_MAX,
	       "eleven doublings lead from the fine classes to the largest");

/* LeakSanitizer, if linked, has to know of frames and images, which may hold the only
   pointer to a block of the heap. */
void __lsan_register_root_region(const void *p, size_t size) __attribute__((weak));
void __lsan_unregister_root_region(const void *p, size_t size) __attribute__((weak));

static size_t round_up(size_t size, size_t unit)
{
	return (size + unit - 1) / unit * unit;
}

/* Returns the head of a chunk with as many records as fit. Rests precede the records. */
static struct uimage_chunk plan_chunk(size_t record, size_t rest)
{
	size_t count = (UIMAGE_CHUNK - UIMAGE_HEAD - IMAGE_LINE) / (record + rest);
	size_t first = round_up(UIMAGE_HEAD + count * rest, IMAGE_LINE);

	return (struct uimage_chunk){
		.ik_first   = (uint32_t)first,
		.ik_size    = (uint32_t)record,
		.ik_rest    = (uint32_t)rest,
		.ik_count   = (uint32_t)count,
		.ik_inverse = (uint32_t)((((uint64_t)1 << 32) - 1) / record + 1),
	};
}

static size_t class_size(size_t which)
{
	size_t coarse = which - 1 - FINE_MAX / FINE_STEP;

	if (which <= FINE_MAX / FINE_STEP)
		return which * FINE_STEP;
	return (5 + coarse % 4) << (coarse / 4 + FINE_LOG - 2);
}

int uimage_pool_init(struct uimage_pool *pool, size_t record, size_t rest)
{
	if (record > UIMAGE_RECORD_MAX || rest > UIMAGE_RECORD_MAX - record)
		return -EINVAL;
	record = round_up(record + !record, 16);
	*pool = (struct uimage_pool){ .ip_lock = PTHREAD_MUTEX_INITIALIZER };
	pool->ip_chunk = plan_chunk(record, rest);
	for (size_t i = 0; i < UIMAGE_CLASSES; i++) {
		struct uimage_class *c = &pool->ip_class[i];

		c->cl_size = i == UIMAGE_RECORD ? record : class_size(i);
		c->cl_batch = BATCH_SIZE / c->cl_size;
		if (c->cl_batch > BATCH_MAX)
			c->cl_batch = BATCH_MAX;
		if (c->cl_batch == 0)
			c->cl_batch = 1;
	}
	return 0;
}

static void unmap(void *p, size_t size)
{
	if (__lsan_unregister_root_region)
		__lsan_unregister_root_region(p, size);
	munmap(p, size);
}

/* Returns the bytes of the struct uimage_held of an arena, in whole pages. The pages are
   not touched before memory goes back to the system. */
static size_t held_size(const struct uimage_class *c, size_t arena)
{
	return round_up(sizeof(struct uimage_held) + arena / c->cl_size / 8 + IMAGE_LINE,
			page_size());
}

void uimage_pool_fini(struct uimage_pool *pool)
{
	for (size_t i = 0; i < UIMAGE_CLASSES; i++) {
		struct uimage_arena *a = pool->ip_class[i].cl_arenas, *next;

		for (; a; a = next) {
			next = a->ar_next;
			unmap(a, a->ar_size + held_size(&pool->ip_class[i], a->ar_size));
		}
	}
	pthread_mutex_destroy(&pool->ip_lock);
}

/* Returns the record after `r', in this chunk or the next; or the end of the arena. */
static char *next_record(const struct uimage_arena *a, char *r)
{
	const struct uimage_chunk *plan = &a->ar_chunk;
	char *chunk = (char *)chunk_of(r);

	r += plan->ik_size;
	if (r < chunk + plan->ik_first + (size_t)plan->ik_count * plan->ik_size)
		return r;
	chunk += UIMAGE_CHUNK;
	return chunk < a->ar_end ? chunk + plan->ik_first : a->ar_end;
}

size_t uimage_pool_next(struct uimage_pool *pool, struct uimage_walk *walk,
			void **records, size_t n)
{
	size_t got = 0;

	lock(&pool->ip_lock);
	if (!walk->iw_arena && !walk->iw_ended)
		walk->iw_arena = pool->ip_class[UIMAGE_RECORD].cl_arenas;
	while (walk->iw_arena && got < n) {
		struct uimage_arena *a = walk->iw_arena;

		if (!walk->iw_record)
			walk->iw_record = (char *)a + pool->ip_chunk.ik_first;
		for (; got < n && walk->iw_record < a->ar_carved; got++) {
			records[got] = walk->iw_record;
			walk->iw_record = next_record(a, walk->iw_record);
		}
		if (walk->iw_record >= a->ar_carved) {
			walk->iw_arena = a->ar_next;
			walk->iw_record = NULL;
		}
	}
	walk->iw_ended = !walk->iw_arena;
	unlock(&pool->ip_lock);
	return got;
}

void uimage_pool_walk(struct uimage_pool *pool, void (*f)(void *record, void *arg),
		      void *arg)
{
	struct uimage_walk walk = { 0 };
	void *records[WALK];
	size_t n;

	while ((n = uimage_pool_next(pool, &walk, records, WALK)) > 0)
		for (size_t i = 0; i < n; i++)
			f(records[i], arg);
}

void uimage_cache_init(struct uimage_cache *cache, struct uimage_pool *pool)
{
	*cache = (struct uimage_cache){ .ic_pool = pool };
}

void uimage__count_free(struct uimage_pool *pool, struct uimage_class *c, long n)
{
	size_t bytes = c->cl_batch * c->cl_size;

	c->cl_count += (size_t)n;
	if (c->cl_count < c->cl_least)
		c->cl_least = c->cl_count;
	SET(pool->ip_free, pool->ip_free + (size_t)n * bytes);
}

static void show(void *p, size_t size)
{
	if (__lsan_register_root_region)
		__lsan_register_root_region(p, size);
}

/* Maps zeroed memory. `align' is 1 for alignment to pages, or a larger power of two. */
static void *map_aligned(size_t size, size_t align)
{
	size_t slack = align > 1 ? align : 0, before, after;
	char *p = (char *)mmap(NULL, size + slack, PROT_READ | PROT_WRITE,
			       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED)
		return NULL;
	show(p + (-(uintptr_t)p & (align - 1)), size);
	if (slack == 0)
		return p;
	before = -(uintptr_t)p & (align - 1);
	after = slack - before;
	if (before)
		munmap(p, before);
	if (after)
		munmap(p + before + size, after);
	if (align >= UIMAGE_HUGE_PAGE)
		madvise(p + before, size, MADV_HUGEPAGE);
	return p + before;
}

/* Maps an arena if the newest arena is full. Returns false if there is no memory. */
static bool pool_grow(struct uimage_pool *pool, struct uimage_class *c)
{
	bool records = c == &pool->ip_class[UIMAGE_RECORD];
	size_t size, align = records ? UIMAGE_CHUNK : 1;
	struct uimage_arena *a = c->cl_arenas;

	if (a && a->ar_carved < a->ar_end)
		return true;
	size = a ? a->ar_size * 2 : records ? (size_t)UIMAGE_CHUNK : ARENA_MIN;
	if (size > UIMAGE_ARENA_MAX)
		size = UIMAGE_ARENA_MAX;
	if (size < c->cl_size + sizeof *a)
		size = round_up(sizeof *a + 2 * c->cl_size, UIMAGE_HUGE_PAGE);
	if (size >= 2 * UIMAGE_HUGE_PAGE)
		align = size == UIMAGE_ARENA_MAX ? UIMAGE_ARENA_MAX  /* see arena_of() */
			: UIMAGE_HUGE_PAGE;
	a = (struct uimage_arena *)map_aligned(size + held_size(c, size), align);
	if (!a)
		return false;
	a->ar_size = size;
	a->ar_held = (struct uimage_held *)(void *)((char *)a + size);
	if (records) {
		a->ar_chunk = pool->ip_chunk;
		a->ar_carved = (char *)a + a->ar_chunk.ik_first;
		a->ar_end = (char *)a + size;
	} else {
		a->ar_carved = (char *)(a + 1);
		a->ar_end = a->ar_carved + (size - sizeof *a) / c->cl_size * c->cl_size;
	}
	a->ar_next = c->cl_arenas;
	c->cl_arenas = a;
	if (size < UIMAGE_ARENA_MAX)
		c->cl_small = a;
	pool->ip_bytes += size + held_size(c, size);
	return true;
}

static bool is_first(const struct uimage_arena *a, const char *record)
{
	return (uintptr_t)record % UIMAGE_CHUNK == a->ar_chunk.ik_first;
}

/* Puts new blocks of the newest arena, a batch at most, into *list. Returns how many. */
static size_t carve(struct uimage_class *c, struct uimage_block **list)
{
	struct uimage_arena *a = c->cl_arenas;
	bool records = a->ar_chunk.ik_size > 0;
	size_t n = 0;

	for (; n < c->cl_batch && a->ar_carved < a->ar_end; n++) {
		struct uimage_block *b = (struct uimage_block *)(void *)a->ar_carved;

		*list = b;
		list = &b->bl_next;
		a->ar_carved = records ? next_record(a, a->ar_carved)
				      : a->ar_carved + c->cl_size;
		if (records && a->ar_carved < a->ar_end && is_first(a, a->ar_carved)) {
			*chunk_of(a->ar_carved) = a->ar_chunk;
			chunk_of(a->ar_carved)->ik_kept = 0;
		}
	}
	*list = NULL;
	return n;
}

/* Fills an empty shelf from the first source that has blocks: the spare batch, the pool's
   batches, the free blocks of arenas, or new blocks of an arena. */
static bool refill(struct uimage_shelf *shelf, struct uimage_pool *pool,
		   size_t which)
{
	struct uimage_class *c = &pool->ip_class[which];

	shelf->sf_count = c->cl_batch;
	shelf->sf_free = shelf->sf_spare;
	shelf->sf_spare = NULL;
	if (shelf->sf_free)
		return true;
	lock(&pool->ip_lock);
	shelf->sf_free = c->cl_batches;
	if (shelf->sf_free) {
		c->cl_batches = shelf->sf_free->bl_batch;
		uimage__count_free(pool, c, -1);
	} else if (c->cl_held > 0)
		shelf->sf_count = uimage__take_held(pool, c, &shelf->sf_free);
	else if (pool_grow(pool, c))
		shelf->sf_count = carve(c, &shelf->sf_free);
	else
		shelf->sf_count = 0;
	unlock(&pool->ip_lock);
	return shelf->sf_free;
}

static void *cache_get(struct uimage_cache *cache, size_t which)
{
	struct uimage_shelf *shelf = &cache->ic_shelf[which];
	struct uimage_block *block = shelf->sf_free;

	if (!block) {
		if (!refill(shelf, cache->ic_pool, which))
			return NULL;
		block = shelf->sf_free;
	}
	shelf->sf_free = block->bl_next;
	shelf->sf_count--;
	return block;
}

void *uimage_record(struct uimage_cache *cache)
{
	return cache_get(cache, UIMAGE_RECORD);
}

static void give_batch(struct uimage_pool *pool, size_t which,
		       struct uimage_block *batch)
{
	struct uimage_class *c = &pool->ip_class[which];

	lock(&pool->ip_lock);
	batch->bl_batch = c->cl_batches;
	c->cl_batches = batch;
	uimage__count_free(pool, c, 1);
	unlock(&pool->ip_lock);
}

static void cache_put(struct uimage_cache *cache, size_t which, void *block)
{
	struct uimage_shelf *shelf = &cache->ic_shelf[which];
	struct uimage_block *b = (struct uimage_block *)block;

	if (shelf->sf_count == cache->ic_pool->ip_class[which].cl_batch) {
		if (shelf->sf_spare)
			give_batch(cache->ic_pool, which, shelf->sf_spare);
		shelf->sf_spare = shelf->sf_free;
		shelf->sf_free = NULL;
		shelf->sf_count = 0;
	}
	b->bl_next = shelf->sf_free;
	shelf->sf_free = b;
	shelf->sf_count++;
}

void uimage_record_free(struct uimage_cache *cache, void *record)
{
	cache_put(cache, UIMAGE_RECORD, record);
}

static size_t class_of(size_t size)
{
	size_t log;

	if (size <= FINE_MAX)
		return size ? (size + FINE_STEP - 1) / FINE_STEP : 1;
	log = (size_t)(63 - __builtin_clzll(size - 1));         /* 2^log < size */
	return 1 + FINE_MAX / FINE_STEP + 4 * (log - FINE_LOG)
		 + ((size - 1) >> (log - 2)) % 4;
}

void *uimage_alloc(struct uimage_cache *cache, size_t *size)
{
	size_t which;

	if (*size > CLASS_MAX) {
		*size = round_up(*size, page_size());
		return map_aligned(*size, 1);
	}
	which = class_of(*size);
	*size = cache->ic_pool->ip_class[which].cl_size;
	return cache_get(cache, which);
}

void uimage_free(struct uimage_cache *cache, void *image, size_t size)
{
	if (size > CLASS_MAX)
		unmap(image, size);
	else
		cache_put(cache, class_of(size), image);
}

void *uimage_stacks_base(const struct uimage_stacks *stacks, size_t i)
{
	return stack_first(stacks->is_map + i * stacks->is_stride, stacks->is_stride,
			   stacks->is_size);
}

int uimage_stacks_map(struct uimage_stacks *stacks, size_t count, size_t size)
{
	size_t guard = round_up(UIMAGE_GUARD, page_size());

	*stacks = (struct uimage_stacks){ 0 };
	if (size > SIZE_MAX / 4)
		return -ENOMEM;
	stacks->is_size = round_up(size, page_size());
	/* An odd number of pages, or else all tops would share few sets of a TLB. */
	stacks->is_stride = (stacks->is_size + guard) | page_size();
	if (count > SIZE_MAX / 2 / stacks->is_stride)
		return -ENOMEM;
	stacks->is_map = (char *)mmap(NULL, count * stacks->is_stride, PROT_NONE,
				      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (stacks->is_map == MAP_FAILED)
		return -ENOMEM;
	show(stacks->is_map, count * stacks->is_stride);
	for (; stacks->is_count < count; stacks->is_count++) {
		char *base = (char *)uimage_stacks_base(stacks, stacks->is_count);

		if (mprotect(base, stacks->is_size, PROT_READ | PROT_WRITE)) {
			unmap(stacks->is_map, count * stacks->is_stride);
			stacks->is_count = 0;
			return -ENOMEM;
		}
	}
	return 0;
}

void uimage_stacks_unmap(struct uimage_stacks *stacks)
{
	unmap(stacks->is_map, stacks->is_count * stacks->is_stride);
}
