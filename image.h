/* SPDX-License-Identifier: MIT */
/*
 * image.h: the memory that a scheduler lends to its dispatchers.
 *
 * Images in size classes, and records: blocks of one size, of the scheduler's
 * choosing, in which it keeps a thread together with a small image. An
 * image_pool belongs to a scheduler and may be used by any native thread; each
 * of its processors takes blocks through an image_cache of its own, which has
 * no lock and meets the pool only once for some dozens of blocks.
 *
 *        cache (processor)              pool (lock)
 *        class c:  free  -> b b b  <--  batches of class c -> b b .. b
 *                  spare -> b .. b -->                     -> b b .. b
 *                                       arenas of class c  -> [blocks....|    ]
 *                                                                 carved ^
 *
 * Blocks return to their class and stay there until image_pool_fini(): memory
 * is not given back to the system before. So a record remains a record, and to
 * look into one that has been freed is no memory error; proc.c depends on that.
 *
 * And stacks: address ranges with a guard page below each.
 */
#ifndef USCHED_IMAGE_H
#define USCHED_IMAGE_H

#include <pthread.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Class 0 are the records. The sizes of the others grow by 64 bytes up to 512
 * and then by a quarter of a power of two up to 1 MiB; what is larger is
 * mapped and unmapped each time.
 */
enum { IMAGE_CLASSES = 1 + 8 + 4 * 11 };

struct image_block;             /* a free block: see image.c */
struct image_arena;

struct image_cache {
	struct image_pool *i_pool;
	struct image_shelf {
		struct image_block *h_free;
		struct image_block *h_spare;    /* a whole batch, or NULL */
		size_t              h_count;    /* blocks on h_free */
	} i_shelf[IMAGE_CLASSES];
};

struct image_pool {
	pthread_mutex_t i_lock;
	struct image_class {    /* i_lock, but for c_size and c_batch: constant */
		size_t              c_size;
		size_t              c_batch;    /* blocks that move at a time */
		struct image_block *c_batches;
		struct image_arena *c_arenas;   /* the newest first */
	} i_class[IMAGE_CLASSES];
	size_t i_bytes;         /* i_lock; mapped for classes */

	pthread_mutex_t    i_outside_lock;      /* taken before i_lock */
	struct image_cache i_outside;   /* of native threads that have no cache */
};

/*
 * A pool without memory, with records of `record' bytes, rounded up to 16.
 * 0; -EINVAL: more than 1 MiB.
 */
int image_pool_init(struct image_pool *pool, size_t record);

/* Frees every block of the pool, those that are in use included. */
void image_pool_fini(struct image_pool *pool);

/* Bytes of address space that the pool's classes have mapped. */
size_t image_pool_bytes(struct image_pool *pool);

/*
 * Calls f(record, arg) for each record that was ever taken from the pool or
 * moved to a cache. The caller keeps others from taking records meanwhile.
 */
void image_pool_walk(struct image_pool *pool, void (*f)(void *record, void *arg),
		     void *arg);

/* A cache without blocks. It needs no end: the pool's end is its end. */
void image_cache_init(struct image_cache *cache, struct image_pool *pool);

/*
 * A record, aligned to 16 bytes and, if its size is a multiple of 64, to 64; NULL
 * if there is no memory. From byte 16 on, its content is what its last user
 * left, zero at first.
 * From the cache's native thread, or with a NULL cache from any.
 */
void *image_record(struct image_pool *pool, struct image_cache *cache);
void image_record_free(struct image_pool *pool, struct image_cache *cache,
		       void *record);

/*
 * An image of at least *size bytes, aligned to 64, with its real size in
 * *size; NULL if there is no memory. From the cache's native thread.
 */
void *image_alloc(struct image_cache *cache, size_t *size);

/* Takes back an image, with the size that image_alloc() gave. */
void image_free(struct image_cache *cache, void *image, size_t size);

struct image_stacks {
	char  *k_map;
	size_t k_count;
	size_t k_size;          /* bytes of a stack, whole pages */
	size_t k_stride;        /* from a stack to the next: its guard included */
};

/*
 * Maps `count' stacks of at least `size' bytes.
 * 0; -ENOMEM: no memory, address space or mappings left; nothing was mapped.
 */
int image_stacks_map(struct image_stacks *stacks, size_t count, size_t size);

/* The lowest address of stack i; it is k_size bytes long. */
void *image_stacks_base(const struct image_stacks *stacks, size_t i);

void image_stacks_unmap(struct image_stacks *stacks);

#ifdef __cplusplus
}
#endif

#endif /* USCHED_IMAGE_H */
