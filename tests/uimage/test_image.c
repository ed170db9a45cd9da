/* SPDX-License-Identifier: MIT */
/*
 * test_image.c: size classes, caches, records, memory that goes back. test_guard.c has
 * the stacks.
 */
#include "../help/test.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "../../uimage.h"

static struct uimage_pool *make_pool(size_t record)
{
	struct uimage_pool *pool = malloc(sizeof *pool);

	assert_non_null(pool);
	assert_int_equal(uimage_pool_init(pool, record, 0), 0);
	return pool;
}

static void free_pool(struct uimage_pool *pool)
{
	uimage_pool_fini(pool);
	free(pool);
}

/* Within what libc may map. */
static void check_unmapped(size_t before)
{
	if (!test_is_scaled())
		assert_in_range(test_address_space(), 0, before + (512 << 10));
}

/* ---- Size classes ---- */

enum { LARGEST = 2 << 20 };

TEST(test_sizes)
{
	struct uimage_pool *pool;
	struct uimage_cache cache;
	size_t step = 1000 / test_scale(1000, 10);

	pool = make_pool(256);
	uimage_cache_init(&cache, pool);
	for (size_t n = 1; n <= LARGEST; n += n < 2000 || n > 1040000 ? step : 13) {
		size_t size = n;
		char *p = uimage_alloc(&cache, &size);

		assert_non_null(p);
		assert_int_equal((uintptr_t)p % 64, 0);
		assert_true(size >= n);
		if (n <= 512)
			assert_true(size - n < 64);
		else if (n <= 1 << 20)
			assert_true((size - n) * 4 < n);
		else
			assert_true(size - n < 65536);
		p[0] = p[size - 1] = 1;
		uimage_free(&cache, p, size);
		if (n > 1050000)
			n += 4093;
	}
	free_pool(pool);
}

/* A size that cannot be mapped gets NULL. */
TEST(test_too_large)
{
	struct uimage_pool *pool;
	struct uimage_cache cache;
	size_t sizes[] = {
		SIZE_MAX, SIZE_MAX - 4096, SIZE_MAX / 4 * 3,
#if SIZE_MAX > UINT32_MAX
		SIZE_MAX / 2, (size_t)1 << 60,
#endif
	};

	pool = make_pool(256);
	uimage_cache_init(&cache, pool);
	for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
		assert_null(uimage_alloc(&cache, &sizes[i]));
	free_pool(pool);
	pool = malloc(sizeof *pool);
	assert_int_equal(uimage_pool_init(pool, UIMAGE_RECORD_MAX + 1, 0), -EINVAL);
	free(pool);
}

/* ---- Blocks ---- */

struct held {
	unsigned char *h_memory;
	size_t         h_size;
	unsigned char  h_mark;
};

static void fill(const struct held *h)
{
	memset(h->h_memory, h->h_mark, h->h_size);
}

/* Every byte in small ones, and some in large ones. */
static void check(const struct held *h)
{
	size_t step = h->h_size > 8192 ? 61 : 1;

	for (size_t i = 0; i < h->h_size; i += step)
		TEST_EQUAL(h->h_memory[i], h->h_mark);
	TEST_EQUAL(h->h_memory[h->h_size - 1], h->h_mark);
}

static size_t random_size(uint32_t *seed)
{
	uint32_t r = test_random(seed);

	return 1 + test_random(seed) % ((size_t)1 << (4 + r % 18));     /* to 2 MiB */
}

TEST(test_no_overlap)
{
	enum { HELD = 200 };
	static struct held held[HELD];
	size_t rounds = test_scale(20000, 500);
	struct uimage_pool *pool;
	struct uimage_cache cache;
	uint32_t seed = 1;

	pool = make_pool(256);
	uimage_cache_init(&cache, pool);
	for (size_t i = 0; i < rounds + HELD; i++) {
		size_t k = i < rounds ? test_random(&seed) % HELD : i - rounds;
		struct held *h = &held[k];

		if (h->h_memory) {
			check(h);
			uimage_free(&cache, h->h_memory, h->h_size);
			h->h_memory = NULL;
		} else if (i < rounds) {
			h->h_size = random_size(&seed);
			h->h_memory = uimage_alloc(&cache, &h->h_size);
			h->h_mark = (unsigned char)i;
			assert_non_null(h->h_memory);
			fill(h);
		}
	}
	free_pool(pool);
}

/* The block that was freed last is in the cache of the processor, and comes first. */
TEST(test_last_in_first_out)
{
	enum { BLOCKS = 300 };
	static const size_t sizes[] = { 64, 512, 640, 4096, 20000, 1 << 20 };
	struct uimage_pool *pool;
	struct uimage_cache cache, other;
	void *blocks[BLOCKS];

	pool = make_pool(256);
	uimage_cache_init(&cache, pool);
	uimage_cache_init(&other, pool);
	for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++) {
		size_t size = sizes[k], n = size < 20000 ? BLOCKS : 10;

		for (size_t i = 0; i < n; i++)
			assert_non_null(blocks[i] = uimage_alloc(&cache, &size));
		for (size_t i = 0; i < n; i++) {
			void *again;

			uimage_free(&cache, blocks[i], size);
			again = uimage_alloc(&cache, &size);
			assert_ptr_equal(again, blocks[i]);
			uimage_free(&cache, again, size);
		}
		for (size_t i = n; i-- > 0; )
			assert_ptr_equal(uimage_alloc(&cache, &size), blocks[i]);
	}
	for (size_t i = 0; i < BLOCKS; i++)
		blocks[i] = uimage_record(i % 2 ? &cache : &other);
	for (size_t i = BLOCKS; i-- > 0; )
		uimage_record_free(i % 2 ? &cache : &other, blocks[i]);
	for (size_t i = 0; i < BLOCKS; i++)
		assert_ptr_equal(uimage_record(i % 2 ? &cache : &other), blocks[i]);
	free_pool(pool);
}

/* ---- One cache allocates, another frees ---- */

enum { PIPE = 1000 };

struct pipe_end {
	struct uimage_pool    *p_pool;
	struct uimage_cache    p_cache;
	struct held           p_ring[PIPE];
	atomic_size_t         p_put;
	atomic_size_t         p_got;
	size_t                p_count;
};

static void *consume(void *arg)
{
	struct pipe_end *p = arg;

	uimage_cache_init(&p->p_cache, p->p_pool);
	for (size_t i = 0; i < p->p_count; i++) {
		struct held *h = &p->p_ring[i % PIPE];

		while (p->p_put <= i)
			sched_yield();
		check(h);
		uimage_free(&p->p_cache, h->h_memory, h->h_size);
		p->p_got = i + 1;
	}
	return NULL;
}

static void pass(size_t size)
{
	struct pipe_end *p = calloc(1, sizeof *p);
	size_t count = test_scale(200000, 5000) / (1 + size / 2048);
	struct uimage_cache cache;
	pthread_t native;

	assert_non_null(p);
	p->p_pool = make_pool(size);
	p->p_count = count;
	uimage_cache_init(&cache, p->p_pool);
	assert_int_equal(pthread_create(&native, NULL, consume, p), 0);
	for (size_t i = 0; i < count; i++) {
		struct held *h = &p->p_ring[i % PIPE];

		while (i - p->p_got >= PIPE)
			sched_yield();
		h->h_size = size;
		h->h_memory = uimage_alloc(&cache, &h->h_size);
		h->h_mark = (unsigned char)i;
		assert_non_null(h->h_memory);
		fill(h);
		p->p_put = i + 1;
	}
	pthread_join(native, NULL);
	/* On the way, in both caches, and in arenas, which double. */
	assert_in_range(p->p_pool->ip_bytes, 0,
			3 * (PIPE + 4 * 64) * size + (4 << 20));
	free_pool(p->p_pool);
	free(p);
}

TEST(test_producer_consumer)
{
	pass(64);
	pass(256);
	pass(3000);
	pass(40000);
}

/* ---- Records ---- */

enum { RECORDS = 5000, WALKED = 2 * RECORDS };

struct walked {
	size_t w_count;
	void  *w_records[WALKED];
};

static void note(void *record, void *arg)
{
	struct walked *w = arg;

	TEST_TRUE(w->w_count < WALKED);
	w->w_records[w->w_count++] = record;
}

static int by_address(const void *a, const void *b)
{
	uintptr_t x = *(const uintptr_t *)a, y = *(const uintptr_t *)b;

	return (x > y) - (x < y);
}

static void walk_records(size_t record)
{
	static struct walked w;
	static void *records[RECORDS];
	struct uimage_pool *pool = make_pool(record);
	struct uimage_cache caches[3];
	size_t found = 0;

	for (int i = 0; i < 3; i++)
		uimage_cache_init(&caches[i], pool);
	w.w_count = 0;
	uimage_pool_walk(pool, note, &w);
	assert_int_equal(w.w_count, 0);
	for (size_t i = 0; i < RECORDS; i++) {
		unsigned char *r = uimage_record(&caches[i % 3]);
		size_t k;

		assert_non_null(r);
		assert_int_equal((uintptr_t)r % (record % 64 ? 16 : 64), 0);
		for (k = 16; k < record && r[k] == 0; k++)
			;
		assert_true(k >= record);               /* zero at first */
		memset(r, (int)(i % 255 + 1), record);
		records[i] = r;
	}
	/* All that were taken, each once; and a batch per cache at most. */
	uimage_pool_walk(pool, note, &w);
	assert_in_range(w.w_count, RECORDS, RECORDS + 3 * 64);
	qsort(w.w_records, w.w_count, sizeof *w.w_records, by_address);
	for (size_t i = 1; i < w.w_count; i++)
		assert_true((char *)w.w_records[i] - (char *)w.w_records[i - 1]
			    >= (ptrdiff_t)record);
	for (size_t i = 0; i < RECORDS; i++)
		found += bsearch(&records[i], w.w_records, w.w_count,
				 sizeof *w.w_records, by_address) != NULL;
	assert_int_equal(found, RECORDS);
	/* Freed, they keep all but their first 16 bytes. */
	for (size_t i = 0; i < RECORDS; i++)
		uimage_record_free(&caches[i % 3], records[i]);
	for (size_t i = 0; i < RECORDS; i++)
		for (size_t k = 16; k < record; k++)
			assert_int_equal(((unsigned char *)records[i])[k], i % 255 + 1);
	w.w_count = 0;
	uimage_pool_walk(pool, note, &w);
	assert_in_range(w.w_count, RECORDS, RECORDS + 3 * 64);
	free_pool(pool);
}

TEST(test_records)
{
	static const size_t sizes[] = { 16, 24, 64, 81, 256, 1000, 4096 };

	for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
		walk_records(sizes[i]);
}

/* ---- Memory of the system ---- */

TEST(test_large_are_mapped)
{
	struct uimage_pool *pool;
	struct uimage_cache cache;
	size_t before, bytes;

	pool = make_pool(256);
	uimage_cache_init(&cache, pool);
	before = test_address_space();
	bytes = pool->ip_bytes;
	for (size_t i = 0; i < 100; i++) {
		size_t size = ((size_t)1 << 20) + 1 + i * 100000;
		char *p = uimage_alloc(&cache, &size);

		assert_non_null(p);
		assert_int_equal(pool->ip_bytes, bytes);
		p[0] = p[size - 1] = 1;
		uimage_free(&cache, p, size);
		check_unmapped(before);
	}
	free_pool(pool);
}

TEST(test_pool_bytes)
{
	struct uimage_pool *pool;
	size_t before, used = 0, bytes = 0;

	before = test_address_space();
	for (int round = 0; round < 3; round++) {
		struct uimage_cache cache;

		pool = make_pool(256);
		uimage_cache_init(&cache, pool);
		assert_int_equal(pool->ip_bytes, 0);
		used = 0;
		for (size_t i = 0; i < 100000; i++) {
			assert_non_null(uimage_record(&cache));
			used += 256;
		}
		bytes = pool->ip_bytes;
		/* Arenas double. */
		assert_in_range(bytes, used, 2 * used + (1 << 20));
		free_pool(pool);
		check_unmapped(before);
	}
}

/* ---- Memory that goes back ---- */

enum { TRIMMED = 6000 };

static void *blocks[TRIMMED];

static void trim(struct uimage_pool *pool, struct uimage_cache *cache)
{
	for (int period = 0; period < 2; period++) {
		uimage_cache_trim(cache);
		uimage_pool_age(pool);
		while (uimage_pool_trim(pool))
			;
	}
	assert_int_equal(pool->ip_free, 0);
}

/* Whether the page of an address is in memory. */
static bool is_resident(const void *address)
{
	uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
	unsigned char there = 0;

	assert_int_equal(mincore((void *)((uintptr_t)address & -page), 1, &there), 0);
	return there & 1;
}

static size_t count_resident(size_t n)
{
	size_t count = 0;

	for (size_t i = 0; i < n; i++)
		count += is_resident(blocks[i]);
	return count;
}

static void *take(struct uimage_cache *cache, size_t size, bool record)
{
	size_t real = size;

	return record ? uimage_record(cache) : uimage_alloc(cache, &real);
}

static void put_back(struct uimage_cache *cache, void *block, size_t size, bool record)
{
	if (record)
		uimage_record_free(cache, block);
	else
		uimage_free(cache, block, size);
}

/*
 * All but every `keep'-th block are freed, and their memory dropped. Then as many are
 * taken again: the same addresses, and no others.
 */
static void drop_and_take(size_t size, size_t keep, bool record)
{
	struct uimage_pool *pool = make_pool(record ? size : 256);
	size_t n = size > 4096 ? TRIMMED / 10 : TRIMMED, bytes;
	struct uimage_cache cache;

	uimage_cache_init(&cache, pool);
	for (size_t i = 0; i < n; i++) {
		blocks[i] = take(&cache, size, record);
		memset(blocks[i], (int)(i % 255 + 1), size);
	}
	bytes = pool->ip_bytes;
	for (size_t i = 0; i < n; i++)
		if (i % keep)
			put_back(&cache, blocks[i], size, record);
	trim(pool, &cache);
	/* A block that is kept keeps two pages besides its own; a chunk's head, too. */
	if (!test_on_valgrind())
		assert_in_range(count_resident(n), 0,
				(n / keep + 1 + n * size / UIMAGE_CHUNK)
				* (3 + 2 * (4096 / size)) + 100);
	for (size_t i = 0; i < n; i++)
		if (i % keep)
			assert_non_null(blocks[i] = take(&cache, size, record));
	assert_int_equal(pool->ip_bytes, bytes);
	for (size_t i = 0; i < n; i++)
		if (i % keep)
			memset(blocks[i], (int)(i % 255 + 1), size);
	for (size_t i = 0; i < n; i++)
		for (size_t k = 0; k < size; k++)
			TEST_EQUAL(((unsigned char *)blocks[i])[k], i % 255 + 1);
	free_pool(pool);
}

TEST(test_drop)
{
	static const size_t sizes[] = { 64, 320, 1280, 4096, 20480 };

	for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
		for (int record = 0; record < 2; record++) {
			drop_and_take(sizes[i], TRIMMED, record);
			drop_and_take(sizes[i], 50, record);
			drop_and_take(sizes[i], 2, record);
		}
}

/* A record without memory is zeros, with its rest, and bits that are kept come back. */
TEST(test_drop_records)
{
	enum { AT = 60, KEPT = 1, GONE = 2, REST = 16 };
	struct uimage_pool *pool = malloc(sizeof *pool);
	struct uimage_cache cache;
	size_t zeros = 0;

	assert_int_equal(uimage_pool_init(pool, 160, REST), 0);
	uimage_pool_keep(pool, AT, KEPT);
	uimage_cache_init(&cache, pool);
	for (size_t i = 0; i < TRIMMED; i++) {
		blocks[i] = uimage_record(&cache);
		memset(blocks[i], 0, 160);
		*(uint32_t *)(void *)((char *)blocks[i] + AT) = i % 20 ? GONE : KEPT;
		memset(uimage_rest(blocks[i]), 7, REST);
	}
	for (size_t i = 0; i < TRIMMED; i++)
		uimage_record_free(&cache, blocks[i]);
	trim(pool, &cache);
	for (size_t i = 0; i < TRIMMED; i++) {
		uint32_t word = *(uint32_t *)(void *)((char *)blocks[i] + AT);
		char rest = *(char *)uimage_rest(blocks[i]);

		TEST_TRUE(word == 0 || word == (i % 20 ? GONE : KEPT));
		TEST_TRUE(rest == 0 || rest == 7);
		zeros += word == 0 && rest == 0;
	}
	assert_in_range(zeros, TRIMMED * 3 / 4, TRIMMED);
	for (size_t i = 0; i < TRIMMED; i++) {
		const char *r = uimage_record(&cache);

		TEST_TRUE(*(const uint32_t *)(const void *)(r + AT) & KEPT);
	}
	free_pool(pool);
}

/* What caches take in each period stays, and the rest goes after two. */
TEST(test_age)
{
	enum { SIZE = 4096, USED = TRIMMED / 4 };
	struct uimage_pool *pool = make_pool(256);
	struct uimage_cache cache;

	uimage_cache_init(&cache, pool);
	for (size_t i = 0; i < TRIMMED; i++)
		memset(blocks[i] = take(&cache, SIZE, false), 1, SIZE);
	for (size_t i = 0; i < TRIMMED; i++)
		put_back(&cache, blocks[i], SIZE, false);
	for (int period = 0; period < 4; period++) {
		void *used[USED];

		for (size_t i = 0; i < USED; i++)
			used[i] = take(&cache, SIZE, false);
		for (size_t i = 0; i < USED; i++)
			put_back(&cache, used[i], SIZE, false);
		uimage_pool_age(pool);
		while (uimage_pool_trim(pool))
			;
		assert_in_range(pool->ip_free, (USED - 16) * SIZE,
				(period ? USED + 16 : TRIMMED) * SIZE);
	}
	if (!test_on_valgrind())
		assert_in_range(count_resident(TRIMMED), USED - 16, USED + 100);
	free_pool(pool);
}

/* Blocks of all sizes while memory goes back in steps: none is given twice. */
TEST(test_trim_at_random)
{
	enum { HELD = 1000 };
	static struct held held[HELD];
	size_t rounds = test_scale(100000, 2000);
	struct uimage_pool *pool = make_pool(256);
	struct uimage_cache caches[2];
	uint32_t seed = 1;

	memset(held, 0, sizeof held);
	uimage_cache_init(&caches[0], pool);
	uimage_cache_init(&caches[1], pool);
	for (size_t i = 0; i < rounds; i++) {
		struct held *h = &held[test_random(&seed) % HELD];
		struct uimage_cache *cache = &caches[test_random(&seed) % 2];

		if (h->h_memory) {
			check(h);
			uimage_free(cache, h->h_memory, h->h_size);
			h->h_memory = NULL;
		} else {
			h->h_size = random_size(&seed) % 5000 + 1;
			h->h_memory = uimage_alloc(cache, &h->h_size);
			h->h_mark = (unsigned char)i;
			fill(h);
		}
		if (test_random(&seed) % 16 == 0)
			uimage_pool_trim(pool);
		if (test_random(&seed) % 256 == 0)
			uimage_pool_age(pool);
		if (test_random(&seed) % 256 == 0)
			uimage_cache_trim(cache);
	}
	for (size_t i = 0; i < HELD; i++)
		if (held[i].h_memory)
			check(&held[i]);
	free_pool(pool);
}

int main(void)
{
	return test_run_all();
}
