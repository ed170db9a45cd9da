/* SPDX-License-Identifier: MIT */
/*
 * heap.c: the heap of a program that was compiled with -fsanitize=thread, in which an
 * access to freed memory, or beside a block, fails the run. Other programs have libc's
 * heap.
 *
 * A block is in a slot of 2^n bytes, and all slots of a size are in one region. So the
 * slot of any address is found by a shift. A slot begins with a header. A freed block
 * keeps its header until the slot is used again, which is when KEPT bytes of slots of
 * this size have been freed. Blocks from before main(), and very large blocks, are
 * libc's.
 */
#include <dlfcn.h>
#include <errno.h>
#include <malloc.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>

#include "run.h"

enum {
	SMALLEST = 6,                   /* a slot has at least 2^SMALLEST bytes */
	CLASSES  = 25,                  /* sizes of slots: the largest has 1 GB */
	REGION   = 32,                  /* a region has 2^REGION bytes */
	AFTER    = 8,                   /* the least bytes between a block and the end of
					   its slot */
	KEPT     = 1 << 20,             /* bytes of slots of a size that are freed and not
					   used */
	LINKER   = 1 << 19,             /* bytes that the dynamic linker may have */
};

/* Where the regions are, unless other memory is there. */
#define BASE ((uintptr_t)1 << 45)

struct block {
	size_t        b_size;
	STAILQ_ENTRY(block) b_of_freed;
	uintptr_t     b_place;          /* address of the code that has made or freed the
					   block */
	uint32_t      b_born;           /* r_steps when the block was made */
	uint16_t      b_thread;         /* thread that has made or freed the block */
	uint8_t       b_shift;          /* the block is 2^b_shift bytes behind the begin
					   of the slot; 0: the slot has not been used */
	bool          b_freed;
};

/* The region of a size of slots, in bytes. */
static struct class {
	size_t              c_used;     /* slots */
	size_t              c_kept;     /* freed slots */
	STAILQ_HEAD(, block) c_freed;   /* these, the oldest first */
} classes[CLASSES];

static uintptr_t heap;                          /* the first region; 0: none */
static uintptr_t linker;                        /* the dynamic linker, whose blocks are
						   libc's: calls here use dlsym() */

/* The functions of libc, which exports them by these names as well. */
void *__libc_malloc(size_t size);
void *__libc_calloc(size_t n, size_t size);
void *__libc_realloc(void *old, size_t size);
void *__libc_memalign(size_t align, size_t size);
void  __libc_free(void *old);

void sim__begin_heap(void)
{
	const size_t size = (size_t)1 << REGION;
	void *memory;

	if (!sim__traced)
		return;
	memory = mmap((void *)BASE, (CLASSES + 1) * size, PROT_READ | PROT_WRITE,
		      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (memory == MAP_FAILED)
		return;
	madvise(memory, (CLASSES + 1) * size, MADV_NOHUGEPAGE);
	heap = ((uintptr_t)memory + size - 1) & -size;
	linker = getauxval(AT_BASE);
	for (int i = 0; i < CLASSES; i++)
		STAILQ_INIT(&classes[i].c_freed);
}

static uintptr_t begin_of(const struct block *b)
{
	return (uintptr_t)b + ((uintptr_t)1 << b->b_shift);
}

/* Returns the slot of an address, or NULL if the address is not in a region. */
static struct block *slot_of(uintptr_t at)
{
	size_t class = (at - heap) >> REGION;

	return !heap || class >= CLASSES ? NULL
		: (struct block *)(at & -((uintptr_t)1 << (class + SMALLEST)));
}

static uint16_t number(void)
{
	const struct sim_thread *self = sim__self();

	return self ? (uint16_t)self->t_number : 0;
}

/* Fails the run: `does' at `place' is wrong at this address, which is in the slot. */
static void complain(const struct block *b, uintptr_t at, const char *does,
		     uintptr_t place)
{
	char here[SIM_PLACE], there[SIM_PLACE];
	size_t from = at - begin_of(b);

	sim__name_place(here, place);
	sim__name_place(there, b->b_place);
	if (b->b_freed)
		sim_fail("thread %u %s%s what thread %u has freed%s", number(), does,
			 here, b->b_thread, there);
	if (!b->b_shift)
		sim_fail("thread %u %s%s memory that is in no block", number(), does,
			 here);
	sim_fail("thread %u %s%s %s a block of %zu bytes that thread %u has made%s",
		 number(), does, here, at < begin_of(b) ? "before"
		 : from < b->b_size ? "inside" : "after", b->b_size, b->b_thread, there);
}

void sim__check_heap(uintptr_t at, size_t size, const char *does, uintptr_t place)
{
	const struct block *b = slot_of(at);
	size_t from;

	if (!b || size == 0)
		return;
	from = at - begin_of(b);
	if (b->b_freed || from >= b->b_size)
		complain(b, at, does, place);
	if (size > b->b_size - from)
		complain(b, begin_of(b) + b->b_size, does, place);
}

uint32_t sim__born(uintptr_t at)
{
	const struct block *b = slot_of(at);

	return b ? b->b_born : 0;
}

/* Returns a new block, with zeros if `clears', or NULL if libc is to make the block. */
static void *make(size_t size, size_t align, bool clears, uintptr_t place)
{
	const size_t offset = align > sizeof(struct block) ? align : sizeof(struct block);
	const size_t most = (size_t)1 << (SMALLEST + CLASSES - 1);
	size_t slot = (size_t)1 << SMALLEST;
	struct class *c = classes;
	struct block *b;

	if (!heap || !sim__self() || sim__is_own(place) || place - linker < LINKER
	    || size > most || offset + size + AFTER > most)
		return NULL;
	for (; slot < offset + size + AFTER; slot *= 2)
		c++;
	if (c->c_kept > KEPT) {
		b = STAILQ_FIRST(&c->c_freed);
		STAILQ_REMOVE_HEAD(&c->c_freed, b_of_freed);
		c->c_kept -= slot;
		if (clears)
			memset((char *)b + offset, 0, size);
	} else {
		if (c->c_used == (size_t)1 << REGION)
			return NULL;
		b = (struct block *)(heap + ((uintptr_t)(c - classes) << REGION)
				     + c->c_used);
		c->c_used += slot;
	}
	*b = (struct block){ .b_size = size, .b_place = place, .b_thread = number(),
			     .b_born = (uint32_t)sim__run.r_steps,
			     .b_shift = (uint8_t)__builtin_ctzl(offset) };
	return (char *)b + offset;
}

/* Frees a block. Programs see that memory is freed only by its next use, so this is a
   write to all of the block. */
static void release(struct block *b, uintptr_t at, uintptr_t place)
{
	const size_t class = ((uintptr_t)b - heap) >> REGION;

	if (at == begin_of(b) && !b->b_freed)
		sim__frees(at, b->b_size, place);
	if (at != begin_of(b) || b->b_freed)
		complain(b, at, "frees", place);
	b->b_freed = true;
	b->b_place = place;
	b->b_thread = number();
	STAILQ_INSERT_TAIL(&classes[class].c_freed, b, b_of_freed);
	classes[class].c_kept += (size_t)1 << (class + SMALLEST);
}

/* ---- The calls of programs ---- */

#define CALL __attribute__((visibility("default")))
#define HERE ((uintptr_t)__builtin_return_address(0))

CALL void *malloc(size_t size)
{
	void *new = make(size, 0, false, HERE);

	return new ? new : __libc_malloc(size);
}

CALL void *calloc(size_t n, size_t size)
{
	void *new = size && n > SIZE_MAX / size ? NULL
		: make(n * size, 0, true, HERE);

	return new ? new : __libc_calloc(n, size);
}

CALL void free(void *old)
{
	struct block *b = slot_of((uintptr_t)old);

	if (b)
		release(b, (uintptr_t)old, HERE);
	else
		__libc_free(old);
}

/* Always moves a block, unless the block is libc's. */
CALL void *realloc(void *old, size_t size)
{
	struct block *b = slot_of((uintptr_t)old);
	void *new;

	if (old && !b)
		return __libc_realloc(old, size);
	if (b && size == 0)
		return free(old), NULL;
	new = make(size, 0, false, HERE);
	new = new ? new : __libc_malloc(size);
	if (b && new) {
		memcpy(new, old, b->b_size < size ? b->b_size : size);
		release(b, (uintptr_t)old, HERE);
	}
	return new;
}

CALL void *memalign(size_t align, size_t size)
{
	void *new = align & (align - 1) ? NULL : make(size, align, false, HERE);

	return new ? new : __libc_memalign(align, size);
}

CALL void *aligned_alloc(size_t align, size_t size) __attribute__((alias("memalign")));

CALL int posix_memalign(void **new, size_t align, size_t size)
{
	void *memory;

	if (align % sizeof(void *) || align & (align - 1) || align == 0)
		return EINVAL;
	memory = make(size, align, false, HERE);
	memory = memory ? memory : __libc_memalign(align, size);
	if (!memory)
		return ENOMEM;
	*new = memory;
	return 0;
}

CALL size_t malloc_usable_size(void *block)
{
	const struct block *b = slot_of((uintptr_t)block);
	__typeof__(malloc_usable_size) *real;
	void *found;

	if (b)
		return b->b_size;
	/* Not RTLD_NEXT, which may find the function of another library, such as
	   jemalloc: blocks are libc's. */
	found = dlsym(dlopen("libc.so.6", RTLD_LAZY | RTLD_NOLOAD), "malloc_usable_size");
	memcpy(&real, &found, sizeof real);
	return real(block);
}
