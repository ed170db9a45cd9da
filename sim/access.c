/* SPDX-License-Identifier: MIT */
/*
 * access.c: accesses to memory as operations. A program that is compiled with
 * -fsanitize=thread calls __tsan_read4() and the like before each of them; here each is a
 * step, if more than one thread uses the place and one writes it. The calls are those of
 * the compilers, and stand where libtsan's would. (The Linux kernel's KCSAN has its own,
 * too.)
 *
 * The first run of a program finds out which places these are. A place that is new to a
 * later run becomes one when a second thread comes to it. While there is one thread, as
 * before the others are started, its accesses are no uses.
 */
#include <stdlib.h>
#include <string.h>

#include "run.h"

enum {
	GRAIN  = 2,                     /* bits of an address: places of four bytes */
	PROBES = 64,
};

bool sim__traced;

/* What later runs know: from the profile, and what is new to this one. */
static struct sim_object known[SIM_OBJECTS];

/* Returns its place in a table, or a free one; NULL: there is none. */
static struct sim_object *find(struct sim_object *table, uintptr_t object)
{
	size_t i = (object * UINT64_C(0x9e3779b97f4a7c15) >> 40) % SIM_OBJECTS;

	for (size_t n = 0; n < PROBES; n++, i = (i + 1) % SIM_OBJECTS)
		if (table[i].b_object == object || !table[i].b_object)
			return &table[i];
	return NULL;
}

/* In the first run it is only counted. Where tables are full all is a step. */
bool sim__uses(uintptr_t object, enum sim_kind kind)
{
	struct sim_run *r = &sim__run;
	const struct sim_thread *self = sim__self();
	struct sim_profile *p = r->r_learns ? r->r_profile : NULL;
	struct sim_object *o;

	if (!self || r->r_live < 2 || object == 0)
		return false;
	o = find(p ? p->p_object : known, object);
	if (!o)
		return !p;
	if (!o->b_object)
		*o = (struct sim_object){ .b_object = object, .b_first = self->t_number,
					  .b_order = p ? p->p_uses++ : 0 };
	o->b_shared |= o->b_first != self->t_number;
	o->b_written |= kind == SIM_WRITES;
	if (!p)
		return o->b_shared && o->b_written;
	if (self->t_number < SIM_THREADS)
		p->p_count[o - p->p_object][self->t_number]++;
	return false;
}

static int compare(const void *a, const void *b)
{
	const struct sim_object *x = a, *y = b;

	return x->b_order < y->b_order ? -1 : x->b_order > y->b_order;
}

/*
 * Those that are shared come first, in the order of their first uses, which does not
 * depend on addresses, and into the table.
 */
void sim__learned(struct sim_profile *p)
{
	static uint16_t counts[SIM_OBJECTS][SIM_THREADS];
	struct sim_object *at;
	size_t n = 0;

	for (size_t i = 0; i < SIM_OBJECTS; i++)
		if (p->p_object[i].b_shared && p->p_object[i].b_written) {
			known[n] = p->p_object[i];
			known[n++].b_place = (uint32_t)i;
		}
	qsort(known, n, sizeof known[0], compare);
	memset(p->p_object, 0, sizeof p->p_object);
	for (size_t i = 0; i < n; i++) {
		const uint16_t *count = p->p_count[known[i].b_place];

		p->p_object[i] = known[i];
		memcpy(counts[i], count, sizeof counts[i]);
		for (size_t j = 0; j < SIM_THREADS; j++)
			p->p_steps += count[j];
	}
	memcpy(p->p_count, counts, n * sizeof counts[0]);
	memset(known, 0, sizeof known);
	for (size_t i = 0; i < n; i++) {
		at = find(known, p->p_object[i].b_object);
		if (at)
			*at = p->p_object[i];
	}
	p->p_objects = (uint32_t)n;
}

/* ---- The calls of compilers ---- */

#define EXPORT __attribute__((visibility("default")))
#define HERE ((uintptr_t)__builtin_return_address(0))

static void access_memory(uintptr_t at, enum sim_kind kind, uintptr_t place)
{
	if (sim__uses(at >> GRAIN, kind))
		sim__step((struct sim_op){ at >> GRAIN, place, place,
					   kind == SIM_READS ? "reads" : "writes", kind,
					   0 });
}

/* Prototypes stand before, as -Wmissing-prototypes has it. */
#define ACCESS(name, kind)						\
	EXPORT void __tsan_##name(void *at);				\
	void __tsan_##name(void *at)					\
	{								\
		access_memory((uintptr_t)at, kind, HERE);		\
	}

#define SIZES(way, kind)						\
	ACCESS(way##1, kind) ACCESS(way##2, kind) ACCESS(way##4, kind)	\
	ACCESS(way##8, kind) ACCESS(way##16, kind)

SIZES(read, SIM_READS)
SIZES(write, SIM_WRITES)
SIZES(read_write, SIM_WRITES)
SIZES(unaligned_read, SIM_READS)
SIZES(unaligned_write, SIM_WRITES)
SIZES(unaligned_read_write, SIM_WRITES)
SIZES(volatile_read, SIM_READS)
SIZES(volatile_write, SIM_WRITES)
SIZES(unaligned_volatile_read, SIM_READS)
SIZES(unaligned_volatile_write, SIM_WRITES)
ACCESS(vptr_read, SIM_READS)

#define NOTHING(name, ...)						\
	EXPORT void __tsan_##name(__VA_ARGS__);				\
	void __tsan_##name(__VA_ARGS__)					\
	{								\
	}

EXPORT void __tsan_init(void);
void __tsan_init(void)
{
	sim__traced = true;
}

NOTHING(func_exit, void)
NOTHING(ignore_thread_begin, void)
NOTHING(ignore_thread_end, void)

EXPORT void __tsan_func_entry(void *caller);
void __tsan_func_entry(void *caller)
{
	(void)caller;
}

EXPORT void __tsan_vptr_update(void *at, void *value);
void __tsan_vptr_update(void *at, void *value)
{
	(void)value;
	access_memory((uintptr_t)at, SIM_WRITES, HERE);
}

static void access_range(uintptr_t at, size_t size, enum sim_kind kind, uintptr_t place)
{
	for (uintptr_t end = at + size; at < end; at += 8)
		access_memory(at, kind, place);
}

EXPORT void __tsan_read_range(void *at, size_t size);
void __tsan_read_range(void *at, size_t size)
{
	access_range((uintptr_t)at, size, SIM_READS, HERE);
}

EXPORT void __tsan_write_range(void *at, size_t size);
void __tsan_write_range(void *at, size_t size)
{
	access_range((uintptr_t)at, size, SIM_WRITES, HERE);
}

EXPORT void *__tsan_memcpy(void *to, const void *from, size_t size);
void *__tsan_memcpy(void *to, const void *from, size_t size)
{
	access_range((uintptr_t)from, size, SIM_READS, HERE);
	access_range((uintptr_t)to, size, SIM_WRITES, HERE);
	return memcpy(to, from, size);
}

EXPORT void *__tsan_memmove(void *to, const void *from, size_t size);
void *__tsan_memmove(void *to, const void *from, size_t size)
{
	access_range((uintptr_t)from, size, SIM_READS, HERE);
	access_range((uintptr_t)to, size, SIM_WRITES, HERE);
	return memmove(to, from, size);
}

EXPORT void *__tsan_memset(void *to, int byte, size_t size);
void *__tsan_memset(void *to, int byte, size_t size)
{
	access_range((uintptr_t)to, size, SIM_WRITES, HERE);
	return memset(to, byte, size);
}

/*
 * An atomic operation is a step in any case: it is there for other threads. The memory
 * model is that of one order of all operations; sim does not show weaker ones.
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

#define UPDATE(bits, name, operation)					\
	EXPORT uint##bits##_t						\
	__tsan_atomic##bits##_##name(volatile uint##bits##_t *at,	\
				     uint##bits##_t value, int order);	\
	uint##bits##_t							\
	__tsan_atomic##bits##_##name(volatile uint##bits##_t *at,	\
				     uint##bits##_t value, int order)	\
	{								\
		(void)order;						\
		access_atomic(at, SIM_WRITES, HERE);			\
		return operation(at, value, __ATOMIC_SEQ_CST);		\
	}

#define EXCHANGE(bits, name)				\
	EXPORT int							\
	__tsan_atomic##bits##_compare_exchange_##name(			\
		volatile uint##bits##_t *at, uint##bits##_t *expected,	\
		uint##bits##_t value, int order, int otherwise);	\
	int __tsan_atomic##bits##_compare_exchange_##name(		\
		volatile uint##bits##_t *at, uint##bits##_t *expected,	\
		uint##bits##_t value, int order, int otherwise)		\
	{								\
		(void)order;						\
		(void)otherwise;					\
		access_atomic(at, SIM_WRITES, HERE);			\
		return __atomic_compare_exchange_n(at, expected, value, 0,	\
				__ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);	\
	}

#define ATOMIC(bits)							\
	EXPORT uint##bits##_t						\
	__tsan_atomic##bits##_load(const volatile uint##bits##_t *at, int order);	\
	uint##bits##_t							\
	__tsan_atomic##bits##_load(const volatile uint##bits##_t *at, int order)	\
	{								\
		(void)order;						\
		access_atomic(at, SIM_READS, HERE);			\
		return __atomic_load_n(at, __ATOMIC_SEQ_CST);		\
	}								\
	EXPORT void							\
	__tsan_atomic##bits##_store(volatile uint##bits##_t *at,	\
				    uint##bits##_t value, int order);	\
	void __tsan_atomic##bits##_store(volatile uint##bits##_t *at,	\
					 uint##bits##_t value, int order)	\
	{								\
		(void)order;						\
		access_atomic(at, SIM_WRITES, HERE);			\
		__atomic_store_n(at, value, __ATOMIC_SEQ_CST);		\
	}								\
	UPDATE(bits, exchange, __atomic_exchange_n)			\
	UPDATE(bits, fetch_add, __atomic_fetch_add)			\
	UPDATE(bits, fetch_sub, __atomic_fetch_sub)			\
	UPDATE(bits, fetch_and, __atomic_fetch_and)			\
	UPDATE(bits, fetch_or, __atomic_fetch_or)			\
	UPDATE(bits, fetch_xor, __atomic_fetch_xor)			\
	UPDATE(bits, fetch_nand, __atomic_fetch_nand)			\
	EXCHANGE(bits, strong)						\
	EXCHANGE(bits, weak)						\
	EXPORT uint##bits##_t						\
	__tsan_atomic##bits##_compare_exchange_val(			\
		volatile uint##bits##_t *at, uint##bits##_t expected,	\
		uint##bits##_t value, int order, int otherwise);	\
	uint##bits##_t __tsan_atomic##bits##_compare_exchange_val(	\
		volatile uint##bits##_t *at, uint##bits##_t expected,	\
		uint##bits##_t value, int order, int otherwise)		\
	{								\
		(void)order;						\
		(void)otherwise;					\
		access_atomic(at, SIM_WRITES, HERE);			\
		__atomic_compare_exchange_n(at, &expected, value, 0,	\
				__ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);	\
		return expected;					\
	}

ATOMIC(8)
ATOMIC(16)
ATOMIC(32)
ATOMIC(64)

#define FENCE(name)							\
	EXPORT void __tsan_atomic_##name##_fence(int order);		\
	void __tsan_atomic_##name##_fence(int order)			\
	{								\
		(void)order;						\
	}

FENCE(thread)
FENCE(signal)
