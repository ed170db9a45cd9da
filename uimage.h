/* SPDX-License-Identifier: MIT */
/*
 * uimage.h: the memory of a scheduler's dispatchers.
 *
 * Blocks are images or records. Images come in size classes. Records have one size, which
 * the scheduler chooses; each is for a thread and a small image. A pool belongs to a
 * scheduler, and any native thread may use the pool. Each processor takes blocks from its
 * cache, which has no lock, and gets dozens of blocks from the pool at a time.
 *
 *	cache (processor)              pool (lock)
 *	class c:  free  -> b b b  <--  batches of class c -> b b .. b
 *	          spare -> b .. b -->                     -> b b .. b
 *	                               arenas of class c  -> [blocks....|    ]
 *	                               and their free blocks     carved ^
 *
 * A freed block returns to its class, and its address is used for that class only, until
 * uimage_pool_fini(). So a record stays a record, and to read a freed record is no memory
 * error, on which uproc_mail.c depends. But uimage_pool_trim() gives whole pages of free
 * blocks back to the system, and such pages are zeros afterwards.
 *
 * This header also has stacks: address ranges with a guard below each. No call switches.
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
 * Class 0 is for records. Sizes of other classes grow by 64 bytes up to 512, then by a
 * quarter of a power of two up to 1 MiB. Larger images are mapped and unmapped each time.
 */
enum { UIMAGE_CLASSES = 1 + 8 + 4 * 11 };

/*
 * Records are in chunks, which are aligned to UIMAGE_CHUNK:
 *
 *	| head | rest rest rest ... | record record record ... | unused |
 *	                            ^ ik_first
 */
enum { UIMAGE_CHUNK = 256 << 10, UIMAGE_HEAD = 64 };    /* bytes */

struct uimage_chunk {
	uint32_t ik_first;              /* bytes from here to the first record */
	uint32_t ik_size;               /* bytes of a record */
	uint32_t ik_rest;               /* bytes of the rest of a record */
	uint32_t ik_count;              /* records in a chunk */
	uint32_t ik_inverse;            /* 2^32 / ik_size, rounded up */
	uint32_t ik_kept;               /* under ip_lock: bits of uimage_pool_keep() */
};

struct uimage_block;             /* a free block: see uimage.c */

/* Private: a mapping for blocks of a class, which begin on a cache line behind this. */
struct uimage_arena {
	struct uimage_chunk  ar_chunk     /* for records: the head of the first chunk */
		__attribute__((aligned(64)));
	struct uimage_arena *ar_next;    /* the next older arena */
	size_t               ar_size;    /* bytes, without ar_held */
	char                *ar_carved;  /* the end of the blocks that were handed out */
	char                *ar_end;
	struct uimage_held  *ar_held;    /* free blocks in no batch; behind the blocks */
};

struct uimage_shelf {
	struct uimage_block *sf_free;
	struct uimage_block *sf_spare;   /* a whole batch, or NULL */
	size_t               sf_count;   /* blocks on sf_free */
	struct uimage_block *sf_seen;    /* sf_free at the last uimage_cache_trim() */
};

struct uimage_cache {
	struct uimage_pool *ic_pool;
	struct uimage_shelf ic_shelf[UIMAGE_CLASSES];
};

/* Under ip_lock, except cl_size and cl_batch, which are constant. */
struct uimage_class {
	size_t               cl_size;
	size_t               cl_batch;   /* blocks in a batch */
	struct uimage_block *cl_batches;
	struct uimage_arena *cl_arenas;  /* the newest first */
	struct uimage_arena *cl_small;   /* the newest below full size */
	size_t               cl_count;   /* batches */
	size_t               cl_least;   /* the least cl_count in this period */
	size_t               cl_excess;  /* batches to take apart */
	size_t               cl_held;    /* free blocks in no batch, in all arenas */
	size_t               cl_dirty;   /* arenas with pages that may be dropped */
	struct uimage_arena *cl_from;    /* the arena to take free blocks from next */
	struct uimage_arena *cl_drop;    /* the arena to drop pages of next */
	size_t               cl_at;      /* the next block of cl_drop */
};

struct uimage_pool {
	pthread_mutex_t     ip_lock;
	struct uimage_class ip_class[UIMAGE_CLASSES];
	size_t              ip_bytes;        /* ip_lock: bytes mapped for classes */
	size_t              ip_free;         /* ip_lock, read by all: bytes in batches */
	uint32_t            ip_work;         /* ip_lock, read by all: 1: trim has work */
	size_t              ip_kept_at;      /* constant, as ip_kept: see uimage_trim.c */
	uint32_t            ip_kept;
	struct uimage_chunk ip_chunk;        /* constant: the head of each chunk */
};

/*
 * Makes a pool, which has no memory yet. A record has `record' bytes, rounded up to a
 * multiple of 16, and in another place `rest' bytes, a multiple of 8, called its rest.
 * 0; -EINVAL: a record and its rest have more than UIMAGE_RECORD_MAX bytes.
 */
int uimage_pool_init(struct uimage_pool *pool, size_t record, size_t rest);

enum { UIMAGE_RECORD_MAX = 120 << 10 };

/*
 * Keeps `bits' of a word in each record when the memory of the record goes back to the
 * system. The word has 32 bits, and is at byte `at', 16 or more. If one of the bits was
 * set in a record whose memory went back, that bit is set in each record of the same
 * chunk that is taken later. Make this call before the first record is taken.
 */
void uimage_pool_keep(struct uimage_pool *pool, size_t at, uint32_t bits);

/*
 * Frees every block of the pool, also those in use. No native thread may use the pool
 * meanwhile.
 */
void uimage_pool_fini(struct uimage_pool *pool);

/*
 * Calls f(record, arg) for each record that was ever taken from the pool or moved to a
 * cache. As in uimage_pool_next(), other native threads may take records meanwhile.
 */
void uimage_pool_walk(struct uimage_pool *pool, void (*f)(void *record, void *arg),
		      void *arg);

/* A place in a walk over the records. Zeros are the beginning of the walk. */
struct uimage_walk {
	struct uimage_arena *iw_arena;
	char                *iw_record;
	int                  iw_ended;
};

/*
 * Puts the next records of a walk into `records', up to `n' of them. Other native threads
 * may take records meanwhile. The walk does not find records in memory that was mapped
 * after the first call.
 * Returns the number of records; 0: there are no more.
 */
size_t uimage_pool_next(struct uimage_pool *pool, struct uimage_walk *walk,
			void **records, size_t n);

/* Makes an empty cache, which ends with the pool. */
void uimage_cache_init(struct uimage_cache *cache, struct uimage_pool *pool);

/*
 * Ends a period. The next calls of uimage_pool_trim() give back as much memory as was
 * free in the pool all through this period. From any native thread.
 */
void uimage_pool_age(struct uimage_pool *pool);

/*
 * Gives a part of the memory back to the system. The call takes some hundred microseconds
 * at most, during which others cannot use the pool. Failures of madvise(2) are ignored.
 * Returns 1 if the call is to be repeated, or 0 if there was nothing to give back.
 * From any native thread.
 */
int uimage_pool_trim(struct uimage_pool *pool);

/* Returns whether at least `bytes' bytes are free, or uimage_pool_trim() has work. From
   any native thread. */
static inline int uimage_pool_spares(const struct uimage_pool *pool, size_t bytes)
{
	return __atomic_load_n(&pool->ip_free, __ATOMIC_RELAXED) >= bytes
		|| __atomic_load_n(&pool->ip_work, __ATOMIC_RELAXED);
}

/*
 * Takes the free blocks of each class that was not used since the last call out of the
 * cache, so that uimage_pool_trim() can give them back. From the cache's native thread.
 */
void uimage_cache_trim(struct uimage_cache *cache);

/*
 * Gives the whole pages between `p' and `p + size' back to the system. The pages stay
 * mapped, and are zeros. If the system cannot do that, the pages stay as they are.
 */
void uimage_drop(void *p, size_t size);

/*
 * uimage_record() returns a record, aligned to 16 bytes and, if the size is a multiple of
 * 64, to 64; NULL: no memory. A record that was used before holds from byte 16 on what
 * the last user left. A new record holds zeros, and so does a record whose memory went
 * back to the system, except for bits of uimage_pool_keep(). uimage_record_free() takes
 * back a record of any cache of the pool.
 * From the cache's native thread.
 */
void *uimage_record(struct uimage_cache *cache);
void uimage_record_free(struct uimage_cache *cache, void *record);

/*
 * Returns the rest of a record. The rest holds what its last user left; or zeros, if the
 * record is new, or its memory went back to the system.
 */
static inline void *uimage_rest(const void *record)
{
	uintptr_t offset = (uintptr_t)record % UIMAGE_CHUNK;
	const struct uimage_chunk *chunk =
		(const struct uimage_chunk *)((uintptr_t)record - offset);

	/* Divides by ik_size. The dividend is a multiple of ik_size. */
	return (char *)(uintptr_t)chunk + UIMAGE_HEAD
		+ ((uint64_t)(offset - chunk->ik_first) * chunk->ik_inverse >> 32)
		* chunk->ik_rest;
}

/*
 * Returns an image of at least *size bytes, aligned to 64, and sets *size to the size of
 * the image. NULL: no memory.
 * From the cache's native thread.
 */
void *uimage_alloc(struct uimage_cache *cache, size_t *size);

/*
 * Takes back an image, with the size that uimage_alloc() gave, from any cache of the
 * pool.
 * From the cache's native thread.
 */
void uimage_free(struct uimage_cache *cache, void *image, size_t size);

/*
 * Bytes of a guard. If a page is larger, a guard is a page. Guards take address space
 * only. A frame that is smaller than a guard cannot step over the guard.
 * -fstack-clash-protection expects this size on AArch64, and a page on other machines.
 */
enum { UIMAGE_GUARD = 64 << 10 };

struct uimage_stacks {
	char  *is_map;
	size_t is_count;
	size_t is_size;         /* bytes of a stack, whole pages */
	size_t is_stride;       /* from a stack to the next, guard included */
};

/*
 * Maps `count' stacks of at least `size' bytes.
 * 0; -ENOMEM: no memory, address space or mappings are left, and nothing was mapped.
 */
int uimage_stacks_map(struct uimage_stacks *stacks, size_t count, size_t size);

/* Returns the lowest address of stack `i', which has is_size bytes. `i' starts at 0. */
void *uimage_stacks_base(const struct uimage_stacks *stacks, size_t i);

/* Unmaps all stacks. */
void uimage_stacks_unmap(struct uimage_stacks *stacks);

#ifdef __cplusplus
}
#endif

#endif /* USCHED_IMAGE_H */
