/* SPDX-License-Identifier: MIT */
/* image.h: what uimage.c and uimage_trim.c share; private to them. */
#ifndef USCHED_IMAGE_PRIVATE_H
#define USCHED_IMAGE_PRIVATE_H

#include <stdbool.h>
#include <sys/mman.h>
#include <unistd.h>

#include "../../uimage.h"

#ifndef MAP_NORESERVE
#define MAP_NORESERVE   0               /* the system reserves nothing, or everything */
#endif
/* -1 stands for advice that this system does not know: madvise(2) refuses -1. */
#ifndef MADV_HUGEPAGE
#define MADV_HUGEPAGE   (-1)
#define MADV_NOHUGEPAGE (-1)
#endif
#ifndef MADV_DONTNEED
#define MADV_DONTNEED   (-1)
#endif

#define UIMAGE_PRIVATE __attribute__((visibility("hidden")))

enum {
	UIMAGE_RECORD    = 0,           /* the class of records */
	UIMAGE_ARENA_MAX = 32 << 20,    /* bytes of the largest arena */
	UIMAGE_HUGE_PAGE = 2 << 20,     /* bytes; an arena of two or more huge pages asks
					   for huge pages */
};

struct uimage_block {
	struct uimage_block *bl_next;
	struct uimage_block *bl_batch; /* in the first block of a batch: the next batch */
};

/* The free blocks of an arena that are in no batch. Under ip_lock. */
struct uimage_held {
	size_t   hd_count;
	size_t   hd_from;               /* no free block has a lower number */
	bool     hd_dirty;              /* blocks were added after the last drop */
	bool     hd_plain;              /* MADV_NOHUGEPAGE was called for the arena */
	uint64_t hd_bits[];             /* 1: the block is free */
};

/* Adds `n', which may be negative, to the number of free batches. Under ip_lock. */
UIMAGE_PRIVATE void uimage__count_free(struct uimage_pool *pool, struct uimage_class *c,
				       long n);

/*
 * Takes free blocks out of the bits of an arena, in order of address, and puts them into
 * *list. cl_held must not be 0. Takes at least one block, and a batch at most. Returns
 * how many blocks were taken. Under ip_lock.
 */
UIMAGE_PRIVATE size_t uimage__take_held(struct uimage_pool *pool, struct uimage_class *c,
					struct uimage_block **list);

/* Returns the chunk that has the record. */
static inline struct uimage_chunk *chunk_of(char *record)
{
	return (struct uimage_chunk *)(void *)(record - (uintptr_t)record % UIMAGE_CHUNK);
}

static inline size_t page_size(void)
{
	return (size_t)sysconf(_SC_PAGESIZE);
}

#endif /* USCHED_IMAGE_PRIVATE_H */
