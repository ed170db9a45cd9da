/* SPDX-License-Identifier: MIT */
/*
 * uimage.c: slabs, batches and stacks. uimage.h has the picture.
 *
 * For each class a cache has a list of free blocks, and one spare batch, so that
 * allocations around the edge of a batch do not go to the pool each time (magazines: J.
 * Bonwick and J. Adams, USENIX 2001). Whole batches go back to the pool, from processors
 * that free to processors that allocate.
 *
 * Arenas of a class double in size, so a program with ten threads maps little and one
 * with ten million maps seldom. Large ones are aligned for huge pages and ask for them:
 * otherwise a million threads touched in turn miss the TLB each time.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE             /* MAP_ANONYMOUS, madvise */
#endif
#include "../../uimage.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "../core/direction.h"
#include "image.h"
#include "../base/lock.h"

enum {
	IMAGE_LINE = 64,                /* bytes of a cache line */
	FINE_STEP  = 64,                /* bytes between the small classes, */
	FINE_MAX   = 512,               /* up to here; log2 of it is 9 */
	FINE_LOG   = 9,
	CLASS_MAX  = 1 << 20,           /* bytes of the largest class */
	BATCH_MAX  = 64,                /* blocks, */
	BATCH_SIZE = 16 << 10,          /* and bytes, in a batch */
	ARENA_MIN  = 64 << 10,          /* bytes of a class's first arena */
	WALK       = 16,                /* records of a walk at a time */
};

_Static_assert(sizeof(struct uimage_arena) == UIMAGE_HEAD, "rests begin behind it");

_Static_assert(UIMAGE_CLASSES == 1 + FINE_MAX / FINE_STEP + 4 * 11
	       && CLASS_MAX >> 11 == FINE_MAX && 1 << FINE_LOG == FINE_MAX,
	       "eleven doublings lead from the fine classes to the largest");

/* LeakSanitizer's, if linked: frames and images may have the only pointer to a block. */
void __lsan_register_root_region(const void *p, size_t size) __attribute__((weak));
void __lsan_unregister_root_region(const void *p, size_t size) __attribute__((weak));

static size_t round_up(size_t size, size_t unit)
{
	return (size + unit - 1) / unit * unit;
}

/* As many records as fit behind their rests. */
static struct uimage_chunk plan_chunk(size_t record, size_t rest)
{
	size_t count = (UIMAGE_CHUNK - UIMAGE_HEAD - IMAGE_LINE) / (record + rest);
	size_t first = round_up(UIMAGE_HEAD + count * rest, IMAGE_LINE);

	return (struct uimage_chunk){
		.k_first   = (uint32_t)first,
		.k_size    = (uint32_t)record,
		.k_rest    = (uint32_t)rest,
		.k_count   = (uint32_t)count,
		.k_inverse = (uint32_t)((((uint64_t)1 << 32) - 1) / record + 1),
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
	*pool = (struct uimage_pool){ .i_lock = PTHREAD_MUTEX_INITIALIZER };
	pool->i_chunk = plan_chunk(record, rest);
	for (size_t i = 0; i < UIMAGE_CLASSES; i++) {
		struct uimage_class *c = &pool->i_class[i];

		c->c_size = i == UIMAGE_RECORD ? record : class_size(i);
		c->c_batch = BATCH_SIZE / c->c_size;
		if (c->c_batch > BATCH_MAX)
			c->c_batch = BATCH_MAX;
		if (c->c_batch == 0)
			c->c_batch = 1;
	}
	return 0;
}

static void unmap(void *p, size_t size)
{
	if (__lsan_unregister_root_region)
		__lsan_unregister_root_region(p, size);
	munmap(p, size);
}

/* Whole pages, which are not touched before memory goes back. */
static size_t held_size(const struct uimage_class *c, size_t arena)
{
	return round_up(sizeof(struct uimage_held) + arena / c->c_size / 8 + IMAGE_LINE,
			page_size());
}

void uimage_pool_fini(struct uimage_pool *pool)
{
	for (size_t i = 0; i < UIMAGE_CLASSES; i++) {
		struct uimage_arena *a = pool->i_class[i].c_arenas, *next;

		for (; a; a = next) {
			next = a->a_next;
			unmap(a, a->a_size + held_size(&pool->i_class[i], a->a_size));
		}
	}
	pthread_mutex_destroy(&pool->i_lock);
}

/* The record after `r', in this chunk or the next; or the end of the arena. */
static char *next_record(const struct uimage_arena *a, char *r)
{
	const struct uimage_chunk *plan = &a->a_chunk;
	char *chunk = (char *)chunk_of(r);

	r += plan->k_size;
	if (r < chunk + plan->k_first + (size_t)plan->k_count * plan->k_size)
		return r;
	chunk += UIMAGE_CHUNK;
	return chunk < a->a_end ? chunk + plan->k_first : a->a_end;
}

size_t uimage_pool_next(struct uimage_pool *pool, struct uimage_walk *walk,
			void **records, size_t n)
{
	size_t got = 0;

	lock(&pool->i_lock);
	if (!walk->w_arena && !walk->w_ended)
		walk->w_arena = pool->i_class[UIMAGE_RECORD].c_arenas;
	while (walk->w_arena && got < n) {
		struct uimage_arena *a = walk->w_arena;

		if (!walk->w_record)
			walk->w_record = (char *)a + pool->i_chunk.k_first;
		for (; got < n && walk->w_record < a->a_carved; got++) {
			records[got] = walk->w_record;
			walk->w_record = next_record(a, walk->w_record);
		}
		if (walk->w_record >= a->a_carved) {
			walk->w_arena = a->a_next;
			walk->w_record = NULL;
		}
	}
	walk->w_ended = !walk->w_arena;
	unlock(&pool->i_lock);
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
	*cache = (struct uimage_cache){ .i_pool = pool };
}

void uimage__count_free(struct uimage_pool *pool, struct uimage_class *c, long n)
{
	size_t bytes = c->c_batch * c->c_size;

	c->c_count += (size_t)n;
	if (c->c_count < c->c_least)
		c->c_least = c->c_count;
	__atomic_store_n(&pool->i_free, pool->i_free + (size_t)n * bytes,
			 __ATOMIC_RELAXED);
}

static void show(void *p, size_t size)
{
	if (__lsan_register_root_region)
		__lsan_register_root_region(p, size);
}

/* Maps zeroed memory; `align' is 1 for pages, or a larger power of two. */
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

/* Makes room for a block in the newest arena of the class. */
static bool pool_grow(struct uimage_pool *pool, struct uimage_class *c)
{
	bool records = c == &pool->i_class[UIMAGE_RECORD];
	size_t size, align = records ? UIMAGE_CHUNK : 1;
	struct uimage_arena *a = c->c_arenas;

	if (a && a->a_carved < a->a_end)
		return true;
	size = a ? a->a_size * 2 : records ? (size_t)UIMAGE_CHUNK : ARENA_MIN;
	if (size > UIMAGE_ARENA_MAX)
		size = UIMAGE_ARENA_MAX;
	if (size < c->c_size + sizeof *a)
		size = round_up(sizeof *a + 2 * c->c_size, UIMAGE_HUGE_PAGE);
	if (size >= 2 * UIMAGE_HUGE_PAGE)
		align = size == UIMAGE_ARENA_MAX ? UIMAGE_ARENA_MAX     /* arena_of() */
			: UIMAGE_HUGE_PAGE;
	a = (struct uimage_arena *)map_aligned(size + held_size(c, size), align);
	if (!a)
		return false;
	a->a_size = size;
	a->a_held = (struct uimage_held *)(void *)((char *)a + size);
	if (records) {
		a->a_chunk = pool->i_chunk;
		a->a_carved = (char *)a + a->a_chunk.k_first;
		a->a_end = (char *)a + size;
	} else {
		a->a_carved = (char *)(a + 1);
		a->a_end = a->a_carved + (size - sizeof *a) / c->c_size * c->c_size;
	}
	a->a_next = c->c_arenas;
	c->c_arenas = a;
	if (size < UIMAGE_ARENA_MAX)
		c->c_small = a;
	pool->i_bytes += size + held_size(c, size);
	return true;
}

static bool is_first(const struct uimage_arena *a, const char *record)
{
	return (uintptr_t)record % UIMAGE_CHUNK == a->a_chunk.k_first;
}

/* Up to a batch of new blocks from the newest arena, in order of address. */
static size_t carve(struct uimage_class *c, struct uimage_block **list)
{
	struct uimage_arena *a = c->c_arenas;
	bool records = a->a_chunk.k_size > 0;
	size_t n = 0;

	for (; n < c->c_batch && a->a_carved < a->a_end; n++) {
		struct uimage_block *b = (struct uimage_block *)(void *)a->a_carved;

		*list = b;
		list = &b->b_next;
		a->a_carved = records ? next_record(a, a->a_carved)
				      : a->a_carved + c->c_size;
		if (records && a->a_carved < a->a_end && is_first(a, a->a_carved)) {
			*chunk_of(a->a_carved) = a->a_chunk;
			chunk_of(a->a_carved)->k_kept = 0;
		}
	}
	*list = NULL;
	return n;
}

/* Fills an empty shelf from its spare, the pool's batches, arenas, or a new carving. */
static bool refill(struct uimage_shelf *shelf, struct uimage_pool *pool,
		   size_t which)
{
	struct uimage_class *c = &pool->i_class[which];

	shelf->h_count = c->c_batch;
	shelf->h_free = shelf->h_spare;
	shelf->h_spare = NULL;
	if (shelf->h_free)
		return true;
	lock(&pool->i_lock);
	shelf->h_free = c->c_batches;
	if (shelf->h_free) {
		c->c_batches = shelf->h_free->b_batch;
		uimage__count_free(pool, c, -1);
	} else if (c->c_held > 0)
		shelf->h_count = uimage__take_held(pool, c, &shelf->h_free);
	else if (pool_grow(pool, c))
		shelf->h_count = carve(c, &shelf->h_free);
	else
		shelf->h_count = 0;
	unlock(&pool->i_lock);
	return shelf->h_free;
}

static void *cache_get(struct uimage_cache *cache, size_t which)
{
	struct uimage_shelf *shelf = &cache->i_shelf[which];
	struct uimage_block *block = shelf->h_free;

	if (!block) {
		if (!refill(shelf, cache->i_pool, which))
			return NULL;
		block = shelf->h_free;
	}
	shelf->h_free = block->b_next;
	shelf->h_count--;
	return block;
}

void *uimage_record(struct uimage_cache *cache)
{
	return cache_get(cache, UIMAGE_RECORD);
}

static void give_batch(struct uimage_pool *pool, size_t which,
		       struct uimage_block *batch)
{
	struct uimage_class *c = &pool->i_class[which];

	lock(&pool->i_lock);
	batch->b_batch = c->c_batches;
	c->c_batches = batch;
	uimage__count_free(pool, c, 1);
	unlock(&pool->i_lock);
}

static void cache_put(struct uimage_cache *cache, size_t which, void *block)
{
	struct uimage_shelf *shelf = &cache->i_shelf[which];
	struct uimage_block *b = (struct uimage_block *)block;

	if (shelf->h_count == cache->i_pool->i_class[which].c_batch) {
		if (shelf->h_spare)
			give_batch(cache->i_pool, which, shelf->h_spare);
		shelf->h_spare = shelf->h_free;
		shelf->h_free = NULL;
		shelf->h_count = 0;
	}
	b->b_next = shelf->h_free;
	shelf->h_free = b;
	shelf->h_count++;
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
	*size = cache->i_pool->i_class[which].c_size;
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
	return stack_first(stacks->k_map + i * stacks->k_stride, stacks->k_stride,
			   stacks->k_size);
}

int uimage_stacks_map(struct uimage_stacks *stacks, size_t count, size_t size)
{
	size_t guard = round_up(UIMAGE_GUARD, page_size());

	*stacks = (struct uimage_stacks){ 0 };
	if (size > SIZE_MAX / 4)
		return -ENOMEM;
	stacks->k_size = round_up(size, page_size());
	/* An odd number of pages: with an even one, tops share some sets of a TLB. */
	stacks->k_stride = (stacks->k_size + guard) | page_size();
	if (count > SIZE_MAX / 2 / stacks->k_stride)
		return -ENOMEM;
	stacks->k_map = (char *)mmap(NULL, count * stacks->k_stride, PROT_NONE,
				     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (stacks->k_map == MAP_FAILED)
		return -ENOMEM;
	show(stacks->k_map, count * stacks->k_stride);
	for (; stacks->k_count < count; stacks->k_count++) {
		char *base = (char *)uimage_stacks_base(stacks, stacks->k_count);

		if (mprotect(base, stacks->k_size, PROT_READ | PROT_WRITE)) {
			unmap(stacks->k_map, count * stacks->k_stride);
			stacks->k_count = 0;
			return -ENOMEM;
		}
	}
	return 0;
}

void uimage_stacks_unmap(struct uimage_stacks *stacks)
{
	unmap(stacks->k_map, stacks->k_count * stacks->k_stride);
}
