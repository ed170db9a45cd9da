/* SPDX-License-Identifier: MIT */
/*
 * uimage_trim.c: how the memory of free blocks goes back to the system.
 *
 * A list of free blocks runs through the blocks, so their pages cannot be dropped. So
 * batches are first taken apart: each block becomes a bit in its arena. Then a page is
 * dropped if the bits of all its blocks are set. A cache that finds no batch takes blocks
 * out of the bits again, before new blocks are carved.
 *
 *	batches  -- take_apart() -->  bits of arenas  -- drop_some() -->  no memory
 *	                                    |
 *	caches  <- uimage__take_held() -----+
 *
 * Each period takes apart as many batches as were free during the whole period before
 * (Bonwick and Adams' working set). So memory that is used in turns stays.
 *
 * The head of a chunk of records stays, since uimage_rest() reads the head, even for a
 * handle that is used too late. An arena with holes has no huge pages, since khugepaged
 * would fill the holes.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE             /* madvise() */
#endif
#include "image.h"
#include "../base/lock.h"

enum {
	STEP       = 2048,              /* the most blocks in one uimage_pool_trim() */
	STEP_BYTES = 2 << 20,           /* the most bytes dropped in one run */
};

void uimage_pool_keep(struct uimage_pool *pool, size_t at, uint32_t bits)
{
	pool->ip_kept_at = at;
	pool->ip_kept = bits;
}

void uimage_pool_age(struct uimage_pool *pool)
{
	uint32_t work = 0;

	lock(&pool->ip_lock);
	for (size_t i = 0; i < UIMAGE_CLASSES; i++) {
		struct uimage_class *c = &pool->ip_class[i];

		c->cl_excess = c->cl_least;
		c->cl_least = c->cl_count;
		work |= c->cl_excess > 0 || c->cl_dirty > 0 || c->cl_at > 0;
	}
	SET(pool->ip_work, work);
	unlock(&pool->ip_lock);
}

/* Returns the arena of a block. Searches the few arenas below full size. An arena of full
   size is aligned to its size, so the block's address tells which it is. */
static struct uimage_arena *arena_of(const struct uimage_class *c, const void *block)
{
	struct uimage_arena *a = c->cl_small;

	for (; a; a = a->ar_next)
		if ((uintptr_t)block - (uintptr_t)a < a->ar_size)
			return a;
	return (struct uimage_arena *)((uintptr_t)block & -(uintptr_t)UIMAGE_ARENA_MAX);
}

static size_t number_of(const struct uimage_class *c, const struct uimage_arena *a,
			const char *block)
{
	const struct uimage_chunk *plan = &a->ar_chunk;
	size_t offset = (size_t)(block - (const char *)a);

	if (plan->ik_size == 0)
		return (offset - sizeof *a) / c->cl_size;
	return offset / UIMAGE_CHUNK * plan->ik_count
		+ (offset % UIMAGE_CHUNK - plan->ik_first) / plan->ik_size;
}

static void keep_word(const struct uimage_pool *pool, char *record)
{
	const uint32_t *word = (const uint32_t *)(void *)(record + pool->ip_kept_at);

	chunk_of(record)->ik_kept |= GET(*word) & pool->ip_kept;
}

static void hold_list(struct uimage_pool *pool, struct uimage_class *c,
		      struct uimage_block *b)
{
	for (; b; b = b->bl_next) {
		struct uimage_arena *a = arena_of(c, b);
		struct uimage_held *h = a->ar_held;
		size_t i = number_of(c, a, (char *)b);

		h->hd_bits[i / 64] |= (uint64_t)1 << i % 64;
		h->hd_count++;
		c->cl_held++;
		if (i < h->hd_from || h->hd_count == 1)
			h->hd_from = i;
		if (!h->hd_dirty) {
			h->hd_dirty = true;
			c->cl_dirty++;
		}
		if (a->ar_chunk.ik_size > 0)
			keep_word(pool, (char *)b);
	}
	SET(pool->ip_work, 1);
}

/* Takes apart up to cl_excess batches, with at most STEP blocks together. */
static void take_apart(struct uimage_pool *pool, struct uimage_class *c)
{
	size_t n = STEP / c->cl_batch;

	for (; n > 0 && c->cl_excess > 0 && c->cl_batches; n--) {
		struct uimage_block *batch = c->cl_batches;

		c->cl_batches = batch->bl_batch;
		uimage__count_free(pool, c, -1);
		c->cl_excess--;
		hold_list(pool, c, batch);
	}
	if (!c->cl_batches)                     /* caches took the rest */
		c->cl_excess = 0;
}

static void want_huge_pages(struct uimage_arena *a, bool want)
{
	struct uimage_held *h = a->ar_held;

	if (h->hd_plain != want)
		return;
	h->hd_plain = !want;
	if (!want || a->ar_size >= 2 * UIMAGE_HUGE_PAGE)
		madvise(a, a->ar_size, want ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
}

/* Returns the number of blocks carved from the arena. */
static size_t carved(const struct uimage_class *c, const struct uimage_arena *a)
{
	if (a->ar_carved == a->ar_end && a->ar_chunk.ik_size > 0)
		return a->ar_size / UIMAGE_CHUNK * a->ar_chunk.ik_count;
	return number_of(c, a, a->ar_carved);
}

/* Returns the number of the first bit from `i' on that equals `set', or else `end'. */
static size_t seek(const uint64_t *bits, size_t i, size_t end, bool set)
{
	while (i < end) {
		uint64_t word = (set ? bits[i / 64] : ~bits[i / 64]) >> i % 64;

		if (word) {
			i += (size_t)__builtin_ctzll(word);
			break;
		}
		i = (i / 64 + 1) * 64;
	}
	return i < end ? i : end;
}

void uimage_drop(void *p, size_t size)
{
	uintptr_t page = page_size(), end = ((uintptr_t)p + size) & -page;
	uintptr_t start = ((uintptr_t)p + page - 1) & -page;

	if (start < end)
		madvise((void *)start, end - start, MADV_DONTNEED);
}

/*
 * The first record of a dropped page may begin on the page before, and that page stays.
 * So the part of the record on that page is set to zeros first. Then a late handle finds
 * a whole record of zeros.
 */
static void clear_front(char *records, size_t n, size_t size)
{
	size_t before = -(uintptr_t)records & (page_size() - 1);
	uint64_t *word = (uint64_t *)(void *)
		(records + before / size * size + sizeof(struct uimage_block));

	if (before < n * size)
		for (; (char *)word < records + before; word++)
			SET(*word, 0);
}

/* Drops the memory of records `i' to `end', which are in one chunk. */
static void drop_records(const struct uimage_arena *a, size_t i, size_t end)
{
	const struct uimage_chunk *plan = &a->ar_chunk;
	char *chunk = (char *)(uintptr_t)a + i / plan->ik_count * UIMAGE_CHUNK;
	size_t n = end - i;

	i %= plan->ik_count;
	if (n == plan->ik_count) {
		uimage_drop(chunk + UIMAGE_HEAD, UIMAGE_CHUNK - UIMAGE_HEAD);
		return;
	}
	uimage_drop(chunk + UIMAGE_HEAD + i * plan->ik_rest, n * plan->ik_rest);
	clear_front(chunk + plan->ik_first + i * plan->ik_size, n, plan->ik_size);
	uimage_drop(chunk + plan->ik_first + i * plan->ik_size, n * plan->ik_size);
}

static char *block_at(const struct uimage_class *c, const struct uimage_arena *a,
		      size_t i)
{
	const struct uimage_chunk *plan = &a->ar_chunk;
	char *base = (char *)(uintptr_t)a;

	if (plan->ik_size == 0)
		return base + sizeof *a + i * c->cl_size;
	return base + i / plan->ik_count * UIMAGE_CHUNK + plan->ik_first
		+ i % plan->ik_count * plan->ik_size;
}

/* Drops the next run of free blocks from `i' on. Returns the end of the run. */
static size_t drop_run(struct uimage_pool *pool, struct uimage_class *c,
		       struct uimage_arena *a, size_t i)
{
	const uint64_t *bits = a->ar_held->hd_bits;
	size_t most = (STEP_BYTES + c->cl_size - 1) / c->cl_size, end = carved(c, a);
	uintptr_t page = page_size(), first;

	i = seek(bits, i, end, true);
	if (c == &pool->ip_class[UIMAGE_RECORD])
		most = a->ar_chunk.ik_count - i % a->ar_chunk.ik_count;
	end = seek(bits, i, end - i < most ? end : i + most, false);
	if (i == end)
		return end;
	if (c == &pool->ip_class[UIMAGE_RECORD]) {
		drop_records(a, i, end);
		return end;
	}
	/* The last call may have ended in this run, and left a part of this page. */
	first = (uintptr_t)block_at(c, a, i) & -page;
	while (i > 0 && (uintptr_t)block_at(c, a, i) > first
	       && bits[(i - 1) / 64] >> (i - 1) % 64 & 1)
		i--;
	uimage_drop(block_at(c, a, i), (end - i) * c->cl_size);
	return end;
}

/* Drops pages of an arena. Begins where the last call has ended. */
static void drop_some(struct uimage_pool *pool, struct uimage_class *c)
{
	struct uimage_arena *a = c->cl_drop;
	size_t end, stop;

	if (c->cl_at == 0) {
		if (!a)
			a = c->cl_arenas;
		for (; a && !a->ar_held->hd_dirty; a = a->ar_next)
			;
		c->cl_drop = a;
		if (!a)
			return;                 /* the next call begins with the newest */
		a->ar_held->hd_dirty = false;
		c->cl_dirty--;
		want_huge_pages(a, false);
	}
	end = carved(c, a);
	stop = c->cl_at + (STEP_BYTES + c->cl_size - 1) / c->cl_size;
	if (stop > end)
		stop = end;
	while (c->cl_at < stop)
		c->cl_at = drop_run(pool, c, a, c->cl_at);
	if (c->cl_at >= end) {
		c->cl_drop = a->ar_next;
		c->cl_at = 0;
	}
}

int uimage_pool_trim(struct uimage_pool *pool)
{
	bool found = false;

	lock(&pool->ip_lock);
	for (size_t i = 0; i < UIMAGE_CLASSES && !found; i++) {
		struct uimage_class *c = &pool->ip_class[i];

		found = true;
		if (c->cl_excess > 0)
			take_apart(pool, c);
		else if (c->cl_dirty > 0 || c->cl_at > 0)
			drop_some(pool, c);
		else
			found = false;
	}
	SET(pool->ip_work, found);
	unlock(&pool->ip_lock);
	return found;
}

void uimage_cache_trim(struct uimage_cache *cache)
{
	struct uimage_pool *pool = cache->ic_pool;

	for (size_t i = 0; i < UIMAGE_CLASSES; i++) {
		struct uimage_shelf *shelf = &cache->ic_shelf[i];

		if (shelf->sf_free == shelf->sf_seen
		    && (shelf->sf_free || shelf->sf_spare)) {
			lock(&pool->ip_lock);
			hold_list(pool, &pool->ip_class[i], shelf->sf_free);
			hold_list(pool, &pool->ip_class[i], shelf->sf_spare);
			unlock(&pool->ip_lock);
			shelf->sf_free = shelf->sf_spare = NULL;
			shelf->sf_count = 0;
		}
		shelf->sf_seen = shelf->sf_free;
	}
}

/* Restores kept bits. The store is atomic: a handle used too late may read the word. */
static void restore_word(const struct uimage_pool *pool, char *record)
{
	uint32_t *word = (uint32_t *)(void *)(record + pool->ip_kept_at);
	uint32_t kept = chunk_of(record)->ik_kept;

	if (kept)
		SET(*word, GET(*word) | kept);
}

size_t uimage__take_held(struct uimage_pool *pool, struct uimage_class *c,
			 struct uimage_block **list)
{
	struct uimage_arena *a = c->cl_from;
	struct uimage_held *h;
	size_t n = 0, end;

	if (!a || a->ar_held->hd_count == 0)
		for (a = c->cl_arenas; a->ar_held->hd_count == 0; a = a->ar_next)
			;
	c->cl_from = a;
	h = a->ar_held;
	end = carved(c, a);
	for (; n < c->cl_batch && h->hd_count > 0; n++) {
		size_t i = seek(h->hd_bits, h->hd_from, end, true);
		struct uimage_block *b = (struct uimage_block *)(void *)block_at(c, a, i);

		h->hd_bits[i / 64] &= ~((uint64_t)1 << i % 64);
		h->hd_count--;
		h->hd_from = i + 1;
		c->cl_held--;
		if (a->ar_chunk.ik_size > 0)
			restore_word(pool, (char *)b);
		*list = b;
		list = &b->bl_next;
	}
	*list = NULL;
	if (h->hd_count == 0)
		want_huge_pages(a, true);
	return n;
}
