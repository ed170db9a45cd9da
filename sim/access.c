/* SPDX-License-Identifier: MIT */
/*
 * access.c: accesses to memory as operations. Code that is compiled with
 * -fsanitize=thread calls __tsan_read4() and the like before each access. Here such a
 * call is a step if more than one thread uses the memory location, at least one of them
 * writes to it, and nothing orders two of these uses. This file takes the place of
 * libtsan, and defines the functions that compilers call. (KCSAN of the Linux kernel does
 * the same.)
 *
 * Vector clocks tell what is ordered (Flanagan, Freund: FastTrack, 2009). clocks[t][u] is
 * how much thread t knows of thread u: of its uses up to that number. What a thread knows
 * is left in an object by unlock, signal or a post, at the end of the thread, by a
 * message, or by an atomic operation; the thread that then locks, waits, joins or
 * receives takes it from there.
 *
 * The first runs find out which locations have uses without an order. In later runs,
 * accesses to others become steps when that run finds such uses, and otherwise one time
 * in ODDS, since a lock may order what is ordered otherwise in another run. Accesses are
 * not counted while one thread is left and has joined the others.
 */
#include <dlfcn.h>
#include <link.h>

#include "host.h"

enum {
	GRAIN = 2,                      /* this many low bits of an address are dropped: a
					   location is four bytes */
	MOST  = 256,                    /* bytes of a range whose accesses are recorded */
	ODDS  = 16,
	CLOCKS = 128,                   /* threads that have clocks; no use of another
					   thread is ordered */
	SYNCS = 512,                    /* entries of syncs[] */
	STACK = 1 << 16,                /* bytes of a stack that are taken for its own */
};

bool sim__traced;

/* The profile from the first runs, with the objects that are new in this run. */
struct sim_profile sim__profile;

/* What threads know, and, from clocks[CLOCKS] on, what they have left in syncs[]. */
static uint32_t clocks[CLOCKS + SYNCS + 1][CLOCKS];
static struct sim_entry syncs[SYNCS + 1];

/* Whether a thread has ended that no thread has joined since. */
static bool unjoined;

/* The step in which the second thread began. */
static uint32_t second_born;

/* ---- What is ordered ---- */

static uint32_t *left_in(uintptr_t object)
{
	struct sim_entry *e = sim__entry(syncs, SYNCS, object);
	uint32_t *left = clocks[CLOCKS + (e - syncs)];

	if (!e->e_value++)
		memset(left, 0, sizeof clocks[0]);      /* of an earlier run */
	return left;
}

static void join(uint32_t *to, const uint32_t *from)
{
	for (uint32_t i = 0; i < sim__run.r_started && i < CLOCKS; i++)
		to[i] = from[i] > to[i] ? from[i] : to[i];
}

void sim__leave_in(uintptr_t object, const struct sim_thread *t)
{
	const uint32_t n = t->t_number;

	if (!sim__traced || n >= CLOCKS || !object)
		return;
	join(left_in(object), clocks[n]);
	clocks[n][n]++;
	unjoined |= object == SIM_AT_END;
}

static void take_from(uintptr_t object, const struct sim_thread *t)
{
	if (t->t_number < CLOCKS && object)
		join(clocks[t->t_number], left_in(object));
	unjoined &= object != SIM_AT_END;
}

void sim__settle(struct sim_thread *t)
{
	for (int i = 0; i < 2; i++) {
		take_from(t->t_from[i], t);
		t->t_from[i] = 0;
	}
}

void sim__done(const void *object)
{
	struct sim_thread *self = sim__self();

	if (!self)
		return;
	sim__settle(self);
	sim__leave_in((uintptr_t)object, self);
}

void sim__inherit(const struct sim_thread *new, struct sim_thread *parent)
{
	uint32_t n = new->t_number, by = parent ? parent->t_number : CLOCKS;

	if (!sim__traced || n >= CLOCKS)
		return;
	unjoined &= n > 0;
	if (n == 1)
		second_born = (uint32_t)new->t_born;
	if (n == 0)
		memset(syncs, 0, sizeof syncs);
	memset(clocks[n], 0, sizeof clocks[n]);
	if (by < CLOCKS) {
		sim__settle(parent);
		join(clocks[n], clocks[by]);
		clocks[by][by]++;
	}
	clocks[n][n] = 1;
}

/* Returns whether a use comes before what thread t does now. A use of memory that has
   been a block or a stack since is none, and is forgotten. */
static bool is_ordered(struct sim_use *u, uintptr_t at, const struct sim_thread *t)
{
	const uint32_t n = t->t_number;

	if (u->u_clock == 0 || u->u_thread == n)
		return true;
	if (n < CLOCKS && u->u_thread < CLOCKS && u->u_clock <= clocks[n][u->u_thread])
		return true;
	if (u->u_step < sim__born(at)
	    || (at - (uintptr_t)&at < STACK && u->u_step < t->t_born))
		u->u_clock = 0;
	return u->u_clock == 0;
}

/* Notes two uses without an order, for the end of all runs. Neighbours in a location do
   not race. */
static void note_race(struct sim_object *o, const struct sim_use *a,
		      const struct sim_use *b)
{
	const uintptr_t one = a->u_place << 1 | a->u_writes;
	const uintptr_t other = b->u_place << 1 | b->u_writes;

	if (o->b_named || !(a->u_bytes & b->u_bytes))
		return;
	o->b_named = true;
	if (sim__run.r_outcome && !sim__is_own(a->u_place))
		sim__add_race(&sim__run.r_outcome->u_races, (struct sim_race){
			one < other ? one : other, one < other ? other : one });
}

/* Records a use, and returns whether nothing orders it and an earlier use. */
static bool is_race(struct sim_object *o, const struct sim_use *now,
		    const struct sim_thread *t)
{
	const uintptr_t at = o->b_object << GRAIN;
	struct sim_use *u = o->b_uses;
	bool races = false;

	for (int i = 0; i < (now->u_writes ? 3 : 1); i++)
		if (!is_ordered(&u[i], at, t)) {
			note_race(o, &u[i], now);
			races = true;
		}
	if (!now->u_writes)
		u += u[1].u_thread == now->u_thread || is_ordered(&u[1], at, t) ? 1 : 2;
	*u = *now;
	return races;
}

/* The races are in the order of places, in whatever order the runs end. */
void sim__add_race(struct sim_races *all, struct sim_race race)
{
	struct sim_race *r = all->s_race, *end = r + all->s_count;

	while (r < end && (r->a_use < race.a_use
			   || (r->a_use == race.a_use && r->a_other < race.a_other)))
		r++;
	if (all->s_count == SIM_RACES
	    || (r < end && r->a_use == race.a_use && r->a_other == race.a_other))
		return;
	memmove(r + 1, r, (size_t)(end - r) * sizeof *r);
	*r = race;
	all->s_count++;
}

/* Returns whether an object is of a block that threads have made in this run since they
   last used the object. In another run the block may be another thread's. */
static bool is_new(const struct sim_object *o)
{
	const uint32_t born = sim__born(o->b_object << GRAIN);

	return born > second_born && born > o->b_uses[0].u_step
		&& born > o->b_uses[1].u_step && born > o->b_uses[2].u_step;
}

/* ---- Objects ---- */

/* Returns whether an ordered access is a step, which the seed and the number of such
   accesses of the thread decide. So choices that are left out change little of this. */
static bool is_drawn(struct sim_thread *t)
{
	const uint64_t n = (uint64_t)t->t_number << 40 | t->t_ordered_uses++;

	return sim__run.r_strategy == &sim__all
		|| sim__hash(sim__run.r_conf.c_seed, n) % ODDS == 0;
}

/* In the first runs no use is a step. If a thread uses what another thread alone had
   written to in these runs, and has not used in this run yet, there is no order. */
bool sim__uses(uintptr_t at, size_t size, enum sim_kind kind, uintptr_t place)
{
	const uintptr_t object = at >> GRAIN;
	struct sim_run *r = &sim__run;
	struct sim_profile *p = r->r_profile;
	struct sim_thread *self = sim__self();
	const uint32_t n = self ? self->t_number : 0;
	const bool alone = r->r_live < 2;
	const struct sim_use now = { place, n < CLOCKS ? clocks[n][n] : 1,
		(uint32_t)r->r_steps, (uint16_t)n, kind != SIM_READS,
		(uint8_t)((size < 4 ? (1 << size) - 1 : 15) << at % 4) };
	struct sim_entry *e;
	struct sim_object *o;

	if (!self || object == 0)
		return false;
	sim__settle(self);
	if (alone && !unjoined)
		return false;
	e = sim__entry(p->p_index, SIM_INDEX, object);
	if (e == &p->p_index[SIM_INDEX] || (alone && !e->e_value))
		return !alone && !r->r_learns && is_drawn(self);
	if (!e->e_value) {
		e->e_value = ++p->p_used;
		p->p_object[p->p_used] = (struct sim_object){ .b_object = object,
							      .b_first = n };
	}
	o = &p->p_object[e->e_value];
	if (!o->b_shared && o->b_first != n && is_new(o))
		o->b_first = n;
	if (!o->b_shared && o->b_first != n) {
		o->b_shared = true;
		o->b_races |= o->b_written && !o->b_uses[0].u_clock;
	}
	o->b_written |= kind == SIM_WRITES;
	o->b_named |= !place;
	o->b_races |= !place || is_race(o, &now, self);
	return !alone && !r->r_learns && o->b_shared && o->b_written
		&& (o->b_races || is_drawn(self));
}

/* Another thread may be the first to use an object in a later run. */
void sim__learned(struct sim_profile *first)
{
	struct sim_profile *p = &sim__profile;

	for (uint32_t i = 1; i <= first->p_used; i++) {
		struct sim_object *o = &first->p_object[i];
		struct sim_entry *e;

		memset(o->b_uses, 0, sizeof o->b_uses);
		if (!o->b_written)
			continue;
		e = sim__entry(p->p_index, SIM_INDEX, o->b_object);
		if (!e->e_value)
			e->e_value = ++p->p_used;
		p->p_object[e->e_value] = *o;
	}
	p->p_calls |= first->p_calls;
}

/* ---- Thread-local variables ---- */

/* Where the native thread has thread-local variables, such as errno. A thread of the
   simulation sees only values of that thread there, so no access is shared. */
static uintptr_t local_from, local_to;

static int note_local(struct dl_phdr_info *info, size_t size, void *unused)
{
	const uintptr_t at = (uintptr_t)info->dlpi_tls_data;
	const ElfW(Phdr) *h = info->dlpi_phdr;

	(void)size;
	(void)unused;
	for (size_t i = 0; at && i < info->dlpi_phnum; i++)
		if (h[i].p_type == PT_TLS) {
			if (!local_from || at < local_from)
				local_from = at;
			if (at + h[i].p_memsz > local_to)
				local_to = at + h[i].p_memsz;
		}
	return 0;
}

/* ---- The calls of compilers ---- */

#define HERE ((uintptr_t)__builtin_return_address(0))

#pragma GCC diagnostic ignored "-Wmissing-prototypes"
#define CALL(type, name, ...)						\
	__attribute__((visibility("default"))) type __tsan_##name(__VA_ARGS__)

/* An access to a range of memory is at most one step. The accesses of MOST bytes are
   recorded. Whether the memory was freed is looked at after the step. */
static void access_memory(uintptr_t at, size_t size, enum sim_kind kind,
			  const char *does, uintptr_t place)
{
	uintptr_t shared = 0;

	if (!sim__traced || (at >= local_from && at < local_to))
		return;
	for (size_t i = 0; i < size && i < MOST; i += 8)
		if (sim__uses(at + i, size - i, kind, place) && !shared)
			shared = (at + i) >> GRAIN;
	if (shared)
		sim__step((struct sim_op){ shared, place, place, does, kind, 0 });
	sim__check_heap(at, size, does, place);
}

#define READS(at, size)  access_memory((uintptr_t)(at), size, SIM_READS, "reads", HERE)
#define WRITES(at, size) access_memory((uintptr_t)(at), size, SIM_WRITES, "writes", HERE)

void sim__frees(uintptr_t at, size_t size, uintptr_t place)
{
	if (!sim__is_own(place))
		access_memory(at, size, SIM_WRITES, "frees", place);
}

#define ACCESS(name, size, how)						\
	CALL(void, name, void *at)					\
	{								\
		how(at, size);						\
	}

#define SIZES(way, how)							\
	ACCESS(way##1, 1, how) ACCESS(way##2, 2, how) ACCESS(way##4, 4, how)	\
	ACCESS(way##8, 8, how) ACCESS(way##16, 16, how)

#define ALIGNED_OR_NOT(way, how) SIZES(way, how) SIZES(unaligned_##way, how)

ALIGNED_OR_NOT(read, READS)
ALIGNED_OR_NOT(write, WRITES)
ALIGNED_OR_NOT(read_write, WRITES)
ALIGNED_OR_NOT(volatile_read, READS)
ALIGNED_OR_NOT(volatile_write, WRITES)
ACCESS(vptr_read, sizeof(void *), READS)

CALL(void, vptr_update, void *at, void *value)
{
	(void)value;
	WRITES(at, sizeof value);
}

/* At the start of the program all thread-local variables are in one area. */
CALL(void, init, void)
{
	if (!sim__traced)
		dl_iterate_phdr(note_local, NULL);
	sim__traced = true;
}

/* A plug-in or a program of --with may load the library later. */
void *sim__of_libstdcxx(const char *name)
{
	void *late = dlopen("libstdc++.so.6", RTLD_LAZY | RTLD_NOLOAD);

	return dlsym(late ? late : RTLD_NEXT, name);
}

/* libstdc++ has made a static variable that several threads may want to make. */
int uposix___cxa_guard_release(void *guard)
{
	static __typeof__(uposix___cxa_guard_release) *real;
	void *found;

	if (!real) {
		found = sim__of_libstdcxx("__cxa_guard_release");
		memcpy(&real, &found, sizeof real);
	}
	sim__done((void *)((uintptr_t)guard >> GRAIN));
	return real(guard);
}

CALL(void, func_entry, __attribute__((unused)) void *caller) { }
CALL(void, func_exit, void) { }
CALL(void, ignore_thread_begin, void) { }
CALL(void, ignore_thread_end, void) { }

CALL(void, read_range, void *at, size_t size) { READS(at, size); }
CALL(void, write_range, void *at, size_t size) { WRITES(at, size); }

/* Functions of libc. gcc leaves calls of them as they are, and the program's memcpy() is
   uposix_memcpy(); clang calls __tsan_memcpy(). */
#define LIBC(type, name, arguments, accesses, result)			\
	type uposix_##name arguments					\
	{								\
		accesses;						\
		return result;						\
	}

#define STRING(at)       READS(at, strlen(at) + 1)

/* Returns how many bytes of two strings, but at most n, a function looks at that compares
   them, or that copies `s', which is `t' then. */
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
	struct sim_thread *self = sim__self();

	if (sim__run.r_learns)
		sim__uses((uintptr_t)at, 1, kind, 0);
	sim__step((struct sim_op){ object, place, place, kind == SIM_READS
				   ? "reads, atomically," : "writes, atomically,", kind,
				   0 });
	sim__check_heap((uintptr_t)at, 1, "uses, atomically,", place);
	if (!self || !sim__traced)
		return;
	take_from(object, self);
	if (kind == SIM_WRITES)
		sim__leave_in(object, self);
}

#define ORDER __attribute__((unused)) int
#define SEQ   __ATOMIC_SEQ_CST

#define OPERATION(bits, type, name, kind, body, ...)			\
	CALL(type, atomic##bits##_##name, volatile uint##bits##_t *at, __VA_ARGS__)	\
	{								\
		access_atomic(at, kind, HERE);				\
		body;							\
	}

#define UPDATE(bits, name, operation)					\
	OPERATION(bits, uint##bits##_t, name, SIM_WRITES,		\
		  return operation(at, value, SEQ), uint##bits##_t value, ORDER order)

/* The variants "strong" and "weak" return whether the old value was the expected value;
   "val" returns the old value. */
#define EXCHANGE(bits, type, variant, body, expected)			\
	OPERATION(bits, type, compare_exchange_##variant, SIM_WRITES, body, expected,	\
		  uint##bits##_t value, ORDER order, ORDER otherwise)

#define SWAPPED(expected)						\
	__atomic_compare_exchange_n(at, expected, value, 0, SEQ, SEQ)

#define ATOMIC(bits)							\
	OPERATION(bits, uint##bits##_t, load, SIM_READS,		\
		  return __atomic_load_n(at, SEQ), ORDER order)		\
	OPERATION(bits, void, store, SIM_WRITES,			\
		  __atomic_store_n(at, value, SEQ), uint##bits##_t value, ORDER order)	\
	UPDATE(bits, exchange, __atomic_exchange_n)			\
	UPDATE(bits, fetch_add, __atomic_fetch_add)			\
	UPDATE(bits, fetch_sub, __atomic_fetch_sub)			\
	UPDATE(bits, fetch_and, __atomic_fetch_and)			\
	UPDATE(bits, fetch_or, __atomic_fetch_or)			\
	UPDATE(bits, fetch_xor, __atomic_fetch_xor)			\
	UPDATE(bits, fetch_nand, __atomic_fetch_nand)			\
	EXCHANGE(bits, int, strong, return SWAPPED(expected), uint##bits##_t *expected) \
	EXCHANGE(bits, int, weak, return SWAPPED(expected), uint##bits##_t *expected)	\
	EXCHANGE(bits, uint##bits##_t, val, SWAPPED(&expected); return expected,	\
		 uint##bits##_t expected)

ATOMIC(8)
ATOMIC(16)
ATOMIC(32)
ATOMIC(64)

CALL(void, atomic_thread_fence, ORDER order) { }
CALL(void, atomic_signal_fence, ORDER order) { }
