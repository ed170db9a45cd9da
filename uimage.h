/* SPDX-License-Identifier: MIT */
/*
 * uimage.h: the memory of a scheduler's dispatchers.
 *
 * Images in size classes, and records: blocks of one size, chosen by the scheduler, each
 * for a thread and a small image. A pool belongs to a scheduler, and any native thread
 * may use it. Each processor takes blocks through a cache of its own, which has no lock,
 * and goes to the pool once for dozens of blocks.
 *
 *	cache (processor)              pool (lock)
 *	class c:  free  -> b b b  <--  batches of class c -> b b .. b
 *	          spare -> b .. b -->                     -> b b .. b
 *	                               arenas of class c  -> [blocks....|    ]
 *	                               and their free blocks     carved ^
 *
 * Blocks return to their class, and their addresses stay there until uimage_pool_fini().
 * So a record stays a record, and reading one that was freed is no memory error:
 * uproc_mail.c depends on that. But the memory of free blocks goes back to the system, by
 * pages, when uimage_pool_trim() is called: then they are zeros.
 *
 * And stacks: address ranges with a guard below each. No call switches.
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
 * Class 0 is for records. Other sizes grow by 64 bytes up to 512, then by a quarter of a
 * power of two up to 1 MiB. Larger images are mapped and unmapped each time.
 */
enum { UIMAGE_CLASSES = 1 + 8 + 4 * 11 };

/*
 * Records are in chunks that are aligned to their size:
 *
 *	| head | rest rest rest ... | record record record ... | unused |
 *	                            ^ ik_first
 */
enum { UIMAGE_CHUNK = 256 << 10, UIMAGE_HEAD = 64 };    /* bytes */

struct uimage_chunk {
	uint32_t ik_first;              /* bytes from here to the first record, */
	uint32_t ik_size;               /* of a record, */
	uint32_t ik_rest;               /* and of its rest */
	uint32_t ik_count;              /* of records */
	uint32_t ik_inverse;            /* of ik_size, times 2^32, rounded up */
	uint32_t ik_kept;               /* ip_lock; see uimage_pool_keep() */
};

struct uimage_block;             /* a free block: see uimage.c */

/* Private: so many bytes that blocks behind it start on a cache line. */
struct uimage_arena {
	struct uimage_chunk  ar_chunk     /* of records: the head of the first */
		__attribute__((aligned(64)));
	struct uimage_arena *ar_next;    /* the one before it */
	size_t               ar_size;    /* bytes, without ar_held */
	char                *ar_carved;  /* blocks below have been handed out */
	char                *ar_end;
	struct uimage_held  *ar_held;    /* behind it */
};

struct uimage_shelf {
	struct uimage_block *sf_free;
	struct uimage_block *sf_spare;   /* a whole batch, or NULL */
	size_t               sf_count;   /* blocks on sf_free */
	struct uimage_block *sf_seen;    /* sf_free at uimage_cache_trim() */
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
	struct uimage_arena *cl_small;   /* of these, those before full size */
	size_t               cl_count;   /* batches; fewest in this period: */
	size_t               cl_least;
	size_t               cl_excess;  /* batches to take apart */
	size_t               cl_held;    /* free blocks of arenas */
	size_t               cl_dirty;   /* arenas with new ones */
	struct uimage_arena *cl_from;    /* where the next are taken, */
	struct uimage_arena *cl_drop;    /* and where pages are dropped, */
	size_t               cl_at;      /* from this block on */
};

struct uimage_pool {
	pthread_mutex_t     ip_lock;
	struct uimage_class ip_class[UIMAGE_CLASSES];
	size_t              ip_bytes;        /* ip_lock; mapped for classes */
	size_t              ip_free;         /* ip_lock; read by all: in batches */
	uint32_t            ip_work;         /* ip_lock; read by all: 1: see _trim() */
	size_t              ip_kept_at;      /* constant: see uimage_pool_keep(), */
	uint32_t            ip_kept;
	struct uimage_chunk ip_chunk;        /* and each chunk begins so */
};

/*
 * Makes a pool without memory, with records of `record' bytes, rounded up to 16, and
 * `rest' bytes for each, a multiple of 8, that are kept apart.
 * 0; -EINVAL: more than UIMAGE_RECORD_MAX in all.
 */
int uimage_pool_init(struct uimage_pool *pool, size_t record, size_t rest);

enum { UIMAGE_RECORD_MAX = 120 << 10 };

/*
 * Names bits of the word of 32 bits at byte `at' of each record, 16 or more, which do
 * not go with the memory of a free record: those that one record had then, all that
 * share its chunk have when they are taken again. Before the first record is taken.
 */
void uimage_pool_keep(struct uimage_pool *pool, size_t at, uint32_t bits);

/*
 * Frees every block of the pool, also those in use. No native thread may use the pool
 * meanwhile.
 */
void uimage_pool_fini(struct uimage_pool *pool);

/*
 * Calls f(record, arg) for each record that was ever taken from the pool or
 * moved to a cache. Others may take records meanwhile, as in uimage_pool_next().
 */
void uimage_pool_walk(struct uimage_pool *pool, void (*f)(void *record, void *arg),
		      void *arg);

/* Where such a walk is. Zeros are its beginning. */
struct uimage_walk {
	struct uimage_arena *iw_arena;
	char                *iw_record;
	int                  iw_ended;
};

/*
 * Puts the next records of a walk into `records', up to `n' of them. Others may take
 * records meanwhile: of memory that is mapped after the beginning, none is found.
 * Returns their number; 0: there are no more.
 */
size_t uimage_pool_next(struct uimage_pool *pool, struct uimage_walk *walk,
			void **records, size_t n);

/* Makes an empty cache. It ends with the pool. */
void uimage_cache_init(struct uimage_cache *cache, struct uimage_pool *pool);

/*
 * Ends a period. What was free in the pool for the whole period goes back by the next
 * calls of uimage_pool_trim(). From any native thread.
 */
void uimage_pool_age(struct uimage_pool *pool);

/*
 * Gives memory back, in one step of some hundred microseconds at most, during which
 * others cannot use the pool. Failures of madvise(2) are ignored.
 * 1: there is more to do; 0: there is not.
 * From any native thread.
 */
int uimage_pool_trim(struct uimage_pool *pool);

/* Returns whether so many bytes are free, or more is to do. From any native thread. */
static inline int uimage_pool_spares(const struct uimage_pool *pool, size_t bytes)
{
	return __atomic_load_n(&pool->ip_free, __ATOMIC_RELAXED) >= bytes
		|| __atomic_load_n(&pool->ip_work, __ATOMIC_RELAXED);
}

/*
 * Takes blocks out of the cache, for uimage_pool_trim(): of each class of which no block
 * was used since the last call. From the cache's native thread.
 */
void uimage_cache_trim(struct uimage_cache *cache);

/*
 * Gives the whole pages between `p' and `p + size' back to the system. They stay mapped,
 * and are zeros where it can do that. Does nothing where it fails.
 */
void uimage_drop(void *p, size_t size);

/*
 * The first returns a record, aligned to 16 bytes and, if its size is a multiple of 64,
 * to 64; NULL: no memory. From byte 16 on it holds what its last user left, or zeros: at
 * first, and after its memory went back to the system, except bits of
 * uimage_pool_keep(). The second takes one back, of any cache of the pool.
 * From the cache's native thread.
 */
void *uimage_record(struct uimage_cache *cache);
void uimage_record_free(struct uimage_cache *cache, void *record);

/*
 * Returns the rest of a record: what its last user left, or zeros: at first, and after
 * the memory of the record went back.
 */
static inline void *uimage_rest(const void *record)
{
	uintptr_t offset = (uintptr_t)record % UIMAGE_CHUNK;
	const struct uimage_chunk *chunk =
		(const struct uimage_chunk *)((uintptr_t)record - offset);

	/* Divided by ik_size: exact for multiples of it. */
	return (char *)(uintptr_t)chunk + UIMAGE_HEAD
		+ ((uint64_t)(offset - chunk->ik_first) * chunk->ik_inverse >> 32)
		* chunk->ik_rest;
}

/*
 * Returns an image of at least *size bytes, aligned to 64, with its real size in *size.
 * NULL: no memory.
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
 * Bytes of a guard; a page, if that is more. Guards take address space only. Smaller
 * frames cannot step over one. -fstack-clash-protection expects this size on AArch64, and
 * a page on others.
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
 * 0; -ENOMEM: no memory, address space or mappings left; nothing was mapped.
 */
int uimage_stacks_map(struct uimage_stacks *stacks, size_t count, size_t size);

/* Returns the lowest address of stack `i', from 0 on; it is is_size bytes long. */
void *uimage_stacks_base(const struct uimage_stacks *stacks, size_t i);

/* Unmaps them all. */
void uimage_stacks_unmap(struct uimage_stacks *stacks);

#ifdef __cplusplus
}
#endif

#endif /* USCHED_IMAGE_H */
