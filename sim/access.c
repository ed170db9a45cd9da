/* SPDX-License-Identifier: MIT */
/*
 * access.c: accesses to memory as operations. Code that is compiled with
 * -fsanitize=thread calls __tsan_read4() and the like before each access. Here such a
 * call is a step if more than one thread uses the memory location and at least one of
 * them writes to it. This file takes the place of libtsan, and defines the functions that
 * compilers call. (KCSAN of the Linux kernel does the same.)
 *
 * The first run of a program finds out which locations these are. In later runs, accesses
 * to a location that the first run did not see become steps when a second thread has used
 * the location. Accesses are not counted while there is only one thread.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE             /* strchrnul() */
#endif
#include <string.h>

#include "run.h"

enum {
	GRAIN = 2,                      /* this many low bits of an address are dropped: a
					   location is four bytes */
	MOST  = 256,                    /* bytes of a range whose accesses are recorded */
};

bool sim__traced;

/* The profile from the first run, with the objects that are new in this run. */
struct sim_profile sim__profile;

/*
 * Returns a pointer to the hash table's slot for an object. The slot contains the
 * object's index plus 1, or 0 if the object is not in the table.
 */
static uint16_t *find(struct sim_profile *p, uintptr_t object)
{
	size_t i = (object * UINT64_C(0x9e3779b97f4a7c15) >> 40) % SIM_INDEX;

	while (p->p_index[i] && p->p_object[p->p_index[i] - 1].b_object != object)
		i = (i + 1) % SIM_INDEX;
	return &p->p_index[i];
}

/* Adds an object to the profile, and its index plus 1 to the slot `at'. */
static struct sim_object *add(struct sim_profile *p, uint16_t *at, struct sim_object o)
{
	p->p_object[p->p_used] = o;
	*at = (uint16_t)++p->p_used;
	return &p->p_object[*at - 1];
}

/*
 * In the first run uses are counted, but are not steps. In later runs, if the table has
 * no room for an object, every use of the object is a step.
 */
bool sim__uses(uintptr_t object, enum sim_kind kind)
{
	struct sim_run *r = &sim__run;
	struct sim_profile *p = r->r_profile;
	const struct sim_thread *self = sim__self();
	struct sim_object *o;
	uint16_t *at;

	if (!self || r->r_live < 2 || object == 0)
		return false;
	at = find(p, object);
	if (!*at && p->p_used == SIM_OBJECTS)
		return !r->r_learns;
	o = *at ? &p->p_object[*at - 1] : add(p, at, (struct sim_object){
		.b_object = object, .b_first = self->t_number });
	if (!o->b_shared && o->b_first != self->t_number)
		o->b_shared = true;
	if (!o->b_written && kind == SIM_WRITES)
		o->b_written = true;
	if (!r->r_learns)
		return o->b_shared && o->b_written;
	if (self->t_number < SIM_THREADS)
		p->p_count[o - p->p_object][self->t_number]++;
	return false;
}

/*
 * Copies the objects that several threads have used if `shared' is true, and otherwise
 * those of one thread that has written to them, such as memory that it has freed. Another
 * thread may come first in a later run.
 */
static void copy_objects(const struct sim_profile *first, bool shared)
{
	struct sim_profile *p = &sim__profile;

	for (size_t i = 0; i < first->p_used; i++) {
		const struct sim_object *o = &first->p_object[i];

		if (o->b_shared == shared && o->b_written)
			add(p, find(p, o->b_object), *o);
	}
}

void sim__learned(struct sim_profile *first, uint64_t steps)
{
	struct sim_profile *p = &sim__profile;
	uint16_t (*count)[SIM_THREADS] = first->p_count;

	p->p_steps = steps;
	p->p_threads = first->p_threads;
	p->p_count = count;
	memcpy(p->p_parent, first->p_parent, sizeof p->p_parent);
	copy_objects(first, true);
	p->p_shared = p->p_used;
	copy_objects(first, false);
	for (size_t i = 0; i < p->p_shared; i++) {
		size_t from = *find(first, p->p_object[i].b_object);

		memmove(count[i], count[from - 1], sizeof count[i]);
		for (size_t j = 0; j < SIM_THREADS; j++)
			p->p_steps += count[i][j];
	}
}

/* ---- The calls of compilers ---- */

#define HERE ((uintptr_t)__builtin_return_address(0))

/* The prototypes are there because of -Wmissing-prototypes. */
#define CALL(type, name, ...)						\
	__attribute__((visibility("default")))				\
	type __tsan_##name(__VA_ARGS__);				\
	type __tsan_##name(__VA_ARGS__)

/*
 * An access to a range of memory is at most one step. The accesses of MOST bytes are
 * recorded. Whether the memory was freed is looked at after the step.
 */
static void access_memory(uintptr_t at, size_t size, enum sim_kind kind,
			  const char *does, uintptr_t place)
{
	uintptr_t shared = 0;

	for (size_t i = 0; i < size && i < MOST; i += 8)
		if (sim__uses((at + i) >> GRAIN, kind) && !shared)
			shared = (at + i) >> GRAIN;
	if (shared)
		sim__step((struct sim_op){ shared, place, place, does, kind, 0 });
	sim__check_heap(at, size, does, place);
}

static void reads(const void *at, size_t size, uintptr_t place)
{
	if (sim__traced)
		access_memory((uintptr_t)at, size, SIM_READS, "reads", place);
}

static void writes(const void *at, size_t size, uintptr_t place)
{
	if (sim__traced)
		access_memory((uintptr_t)at, size, SIM_WRITES, "writes", place);
}

void sim__frees(uintptr_t at, size_t size, uintptr_t place)
{
	if (!sim__is_own(place))
		access_memory(at, size, SIM_WRITES, "frees", place);
}

#define ACCESS(name, size, how)						\
	CALL(void, name, void *at)					\
	{								\
		how(at, size, HERE);					\
	}

#define SIZES(way, how)							\
	ACCESS(way##1, 1, how) ACCESS(way##2, 2, how) ACCESS(way##4, 4, how)	\
	ACCESS(way##8, 8, how) ACCESS(way##16, 16, how)

SIZES(read, reads)
SIZES(write, writes)
SIZES(read_write, writes)
SIZES(unaligned_read, reads)
SIZES(unaligned_write, writes)
SIZES(unaligned_read_write, writes)
SIZES(volatile_read, reads)
SIZES(volatile_write, writes)
SIZES(unaligned_volatile_read, reads)
SIZES(unaligned_volatile_write, writes)
ACCESS(vptr_read, sizeof(void *), reads)

CALL(void, vptr_update, void *at, void *value)
{
	(void)value;
	writes(at, sizeof value, HERE);
}

CALL(void, init, void)
{
	sim__traced = true;
}

CALL(void, func_entry, void *caller)
{
	(void)caller;
}

CALL(void, func_exit, void) { }
CALL(void, ignore_thread_begin, void) { }
CALL(void, ignore_thread_end, void) { }

CALL(void, read_range, void *at, size_t size)
{
	reads(at, size, HERE);
}

CALL(void, write_range, void *at, size_t size)
{
	writes(at, size, HERE);
}

/*
 * Functions of libc. gcc leaves calls of them as they are, and the program's memcpy() is
 * uposix_memcpy(); clang calls __tsan_memcpy().
 */
#define LIBC(type, name, arguments, accesses, result)			\
	__typeof__(name) uposix_##name;					\
	type uposix_##name arguments					\
	{								\
		accesses;						\
		return result;						\
	}

#define READS(at, size)  reads(at, size, HERE)
#define WRITES(at, size) writes(at, size, HERE)
#define STRING(at)       READS(at, strlen(at) + 1)

/*
 * Returns how many bytes of two strings, but at most n, a function looks at that compares
 * them, or that copies `s', which is `t' then.
 */
static size_t part(const char *s, const char *t, size_t n)
{
	size_t i = 0;

	while (i < n && s[i] && s[i] == t[i])
		i++;
	return i < n ? i + 1 : n;
}

#define COPY(name)							\
	LIBC(void *, name, (void *to, const void *from, size_t size),	\
	     (READS(from, size), WRITES(to, size)), name(to, from, size))	\
	ALSO(name)

#define ALSO(name)							\
	extern __typeof__(name) __tsan_##name				\
		__attribute__((visibility("default"), alias("uposix_" #name)));

COPY(memcpy)
COPY(memmove)
LIBC(void *, memset, (void *to, int byte, size_t size), WRITES(to, size),
     memset(to, byte, size))
ALSO(memset)
LIBC(int, memcmp, (const void *a, const void *b, size_t size),
     (READS(a, size), READS(b, size)), memcmp(a, b, size))
LIBC(size_t, strlen, (const char *s), STRING(s), strlen(s))
LIBC(char *, strchr, (const char *s, int c),
     READS(s, (size_t)(strchrnul(s, c) - s) + 1), strchr(s, c))
LIBC(char *, strrchr, (const char *s, int c), STRING(s), strrchr(s, c))
LIBC(int, strcmp, (const char *s, const char *t),
     (READS(s, part(s, t, SIZE_MAX)), READS(t, part(s, t, SIZE_MAX))), strcmp(s, t))
LIBC(int, strncmp, (const char *s, const char *t, size_t n),
     (READS(s, part(s, t, n)), READS(t, part(s, t, n))), strncmp(s, t, n))
LIBC(char *, strcpy, (char *to, const char *s),
     (STRING(s), WRITES(to, strlen(s) + 1)), strcpy(to, s))
LIBC(char *, strncpy, (char *to, const char *s, size_t n),
     (READS(s, part(s, s, n)), WRITES(to, n)), strncpy(to, s, n))
LIBC(char *, strcat, (char *to, const char *s),
     (STRING(s), STRING(to), WRITES(to + strlen(to), strlen(s) + 1)), strcat(to, s))
LIBC(char *, strdup, (const char *s), STRING(s), strdup(s))

/*
 * An atomic operation is always a step, since other threads will use the same location.
 * All atomic operations are sequentially consistent: weaker memory orders are not
 * simulated.
 */
static void access_atomic(volatile const void *at, enum sim_kind kind, uintptr_t place)
{
	uintptr_t object = (uintptr_t)at >> GRAIN;

	if (sim__run.r_learns)
		sim__uses(object, kind);
	sim__step((struct sim_op){ object, place, place, kind == SIM_READS
				   ? "reads, atomically," : "writes, atomically,", kind,
				   0 });
}

#define LOAD(bits)							\
	CALL(uint##bits##_t, atomic##bits##_load,			\
	     const volatile uint##bits##_t *at, int order)		\
	{								\
		(void)order;						\
		access_atomic(at, SIM_READS, HERE);			\
		return __atomic_load_n(at, __ATOMIC_SEQ_CST);		\
	}

#define STORE(bits)							\
	CALL(void, atomic##bits##_store, volatile uint##bits##_t *at,	\
	     uint##bits##_t value, int order)				\
	{								\
		(void)order;						\
		access_atomic(at, SIM_WRITES, HERE);			\
		__atomic_store_n(at, value, __ATOMIC_SEQ_CST);		\
	}

#define UPDATE(bits, name, operation)					\
	CALL(uint##bits##_t, atomic##bits##_##name,			\
	     volatile uint##bits##_t *at, uint##bits##_t value, int order)	\
	{								\
		(void)order;						\
		access_atomic(at, SIM_WRITES, HERE);			\
		return operation(at, value, __ATOMIC_SEQ_CST);		\
	}

/*
 * The variants "strong" and "weak" return whether the old value was the expected value;
 * "val" returns the old value.
 */
#define EXCHANGE(bits, type, name, expected_type, expected_at, result)	\
	CALL(type, atomic##bits##_compare_exchange_##name,		\
	     volatile uint##bits##_t *at, expected_type expected,	\
	     uint##bits##_t value, int order, int otherwise)		\
	{								\
		bool was_expected;					\
									\
		(void)order;						\
		(void)otherwise;					\
		access_atomic(at, SIM_WRITES, HERE);			\
		was_expected = __atomic_compare_exchange_n(at, expected_at, value, \
				0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);	\
		(void)was_expected;					\
		return result;						\
	}

#define ATOMIC(bits)							\
	LOAD(bits)							\
	STORE(bits)							\
	UPDATE(bits, exchange, __atomic_exchange_n)		\
	UPDATE(bits, fetch_add, __atomic_fetch_add)		\
	UPDATE(bits, fetch_sub, __atomic_fetch_sub)		\
	UPDATE(bits, fetch_and, __atomic_fetch_and)		\
	UPDATE(bits, fetch_or, __atomic_fetch_or)		\
	UPDATE(bits, fetch_xor, __atomic_fetch_xor)		\
	UPDATE(bits, fetch_nand, __atomic_fetch_nand)		\
	EXCHANGE(bits, int, strong, uint##bits##_t *, expected, was_expected)	\
	EXCHANGE(bits, int, weak, uint##bits##_t *, expected, was_expected)	\
	EXCHANGE(bits, uint##bits##_t, val, uint##bits##_t, &expected, expected)

ATOMIC(8)
ATOMIC(16)
ATOMIC(32)
ATOMIC(64)

CALL(void, atomic_thread_fence, int order)
{
	(void)order;
}

CALL(void, atomic_signal_fence, int order)
{
	(void)order;
}
