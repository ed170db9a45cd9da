/* SPDX-License-Identifier: MIT */
/*
 * uposix_exchange.c: gives each thread values of its own for thread-local variables,
 * with UPOSIX_TLS=exchange, and a locale of its own for uselocale(). This is for machines
 * where threads cannot have TLS blocks of their own, and for simulations.
 *
 * The TLS blocks of such objects belong to the native thread. The blocks hold the values
 * of their owner, the thread that ran last on the native thread. Before another thread
 * runs, the blocks are copied to the owner's memory, and the other thread's values are
 * copied to the blocks. A new thread gets initial values. A thread that has begun stays
 * on its native thread, so the addresses of its variables stay the same, too.
 *
 *	uposix__choose()    chooses an object; called at the first thread
 *	uposix__own()       called by a new thread, which owns the blocks from then on
 *	exchange()          is a hook that is called when another thread is about to run
 *	uposix__disown()    is called when the thread ends
 *
 * If no object is chosen, a native thread has the hook only while one of its threads has
 * a locale of its own.
 *
 * Variables of C++ and Rust register a destructor at their first use. The destructor of
 * an exchanged variable is called when the thread ends, any other destructor when the
 * native thread ends.
 */
#include "uposix_set.h"

#include "../arch/arch.h"
#include "../src/base/sim.h"

#include <dlfcn.h>
#include <stdlib.h>

bool uposix__is_loaded;                 /* see uposix_set.h */

/* A function of the dynamic linker: returns the address for a module and an offset. */
extern void *__tls_get_addr(size_t *index);

/*
 * A function of libc. After the call, libc calls func(object) when the native thread
 * ends, and keeps the shared object `dso' loaded until then.
 */
extern int __cxa_thread_atexit_impl(void (*func)(void *), void *object, void *dso);

/* An address in this object, to be passed as `dso'. */
extern void *__dso_handle __attribute__((visibility("hidden")));

enum {
	OBJECTS = 32,
	STATIC  = 64 << 10,             /* TLS blocks of objects loaded at the start lie
					   within so many bytes of the thread pointer */
};

static struct object {
	const char *o_name;             /* path; "" is the program */
	size_t      o_module;           /* module ID of the dynamic linker */
	const char *o_image;            /* the first o_filled bytes of the initial
					   values; the rest are zeros */
	size_t      o_filled;
	size_t      o_size;
} chosen[OBJECTS];                      /* constant after the first thread */
static size_t used, bytes;              /* number of objects in chosen[], and size of
					   all their TLS blocks; constant after the
					   first thread */
static uintptr_t static_from, static_to;        /* range of the TLS blocks: offset from
						   the thread pointer, plus STATIC */

/* The TLS blocks of the chosen objects, for one processor. */
struct blocks {
	struct usched_hook    b_hook;   /* must be first */
	struct uposix_thread *b_owner;  /* thread with the values here, or NULL */
	locale_t              b_locale; /* locale of the native thread */
	unsigned              b_users;  /* number of threads with a locale of their own */
	char                 *b_at[OBJECTS];
};

/* ---- The choice of objects ---- */

/*
 * Returns an address from a dynamic section. Some dynamic linkers leave the file's
 * offsets in that section and do not relocate them.
 */
static const void *address(const struct dl_phdr_info *info, ElfW(Addr) a)
{
	return (const void *)(a < info->dlpi_addr ? a + info->dlpi_addr : a);
}

/* Returns true if a relocation refers to the function that registers destructors. */
static bool has_atexit(const ElfW(Rela) *r, size_t size, const ElfW(Sym) *symbols,
		       const char *names)
{
	for (size_t i = 0; i < size / sizeof *r; i++) {
		size_t symbol = r[i].r_info >> 32;

		if (symbol && strncmp(names + symbols[symbol].st_name,
				      "__cxa_thread_atexit", 19) == 0)
			return true;
	}
	return false;
}

/* Returns true if the object may have thread-local variables with destructors. */
static bool has_destructors(const struct dl_phdr_info *info)
{
	const ElfW(Dyn) *d = NULL;
	ElfW(Addr) of[DT_JMPREL + 1] = { 0 };
	const ElfW(Sym) *symbols;
	const char *names;

	for (int i = 0; i < info->dlpi_phnum; i++)
		if (info->dlpi_phdr[i].p_type == PT_DYNAMIC)
			d = address(info, info->dlpi_addr + info->dlpi_phdr[i].p_vaddr);
	for (; d && d->d_tag != DT_NULL; d++)
		if (d->d_tag > 0 && d->d_tag <= DT_JMPREL)
			of[d->d_tag] = d->d_un.d_val;
	symbols = address(info, of[DT_SYMTAB]);
	names = address(info, of[DT_STRTAB]);
	return has_atexit(address(info, of[DT_RELA]), of[DT_RELASZ], symbols, names)
	    || has_atexit(address(info, of[DT_JMPREL]), of[DT_PLTRELSZ], symbols, names);
}

/*
 * If this library is linked into the program, calls that register destructors go to libc.
 * Then the destructors run when the native thread ends, which is too late if the
 * variables are exchanged.
 */
const char *uposix__why_shared(const struct dl_phdr_info *info, bool late)
{
	if (late || !info->dlpi_tls_data)
		return "they came by dlopen()";
	return has_destructors(info) && !uposix__is_loaded ? "there are destructors"
		: NULL;
}

const char *uposix__choose(const struct dl_phdr_info *info, const ElfW(Phdr) *h,
			   bool late)
{
	const char *why = uposix__why_shared(info, late);

	if (why)
		return why;
	for (size_t i = 0; i < used; i++)
		if (chosen[i].o_module == info->dlpi_tls_modid)
			return NULL;
	if (used == OBJECTS)
		return "there are too many such objects";
	chosen[used++] = (struct object){
		.o_name = info->dlpi_name, .o_module = info->dlpi_tls_modid,
		.o_image = address(info, info->dlpi_addr + h->p_vaddr),
		.o_filled = h->p_filesz, .o_size = h->p_memsz,
	};
	bytes += h->p_memsz;
	return NULL;
}

void uposix__keep_chosen(void)
{
	for (size_t i = 0; i < used; i++)
		if (*chosen[i].o_name)
			dlopen(chosen[i].o_name, RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE);
}

/* ---- Exchange ---- */

int uposix__make_values(struct uposix_thread *p)
{
	if (uposix__blocks)
		return 0;
	p->p_tls = bytes ? malloc(bytes) : NULL;
	return bytes && !p->p_tls ? -ENOMEM : 0;
}

static void copy_out(const struct blocks *b, char *to)
{
	for (size_t i = 0; i < used; i++) {
		memcpy(to, b->b_at[i], chosen[i].o_size);
		to += chosen[i].o_size;
	}
}

static void copy_in(const struct blocks *b, const char *from)
{
	for (size_t i = 0; i < used; i++) {
		memcpy(b->b_at[i], from, chosen[i].o_size);
		from += chosen[i].o_size;
	}
}

static void copy_new(const struct blocks *b)
{
	for (size_t i = 0; i < used; i++) {
		const struct object *o = &chosen[i];

		memcpy(b->b_at[i], o->o_image, o->o_filled);
		memset(b->b_at[i] + o->o_filled, 0, o->o_size - o->o_filled);
	}
}

/* Sets the locale of the native thread. NULL stands for the locale of the process. */
static void set_locale(struct blocks *b, locale_t locale)
{
	if (locale != b->b_locale)
		uselocale(locale ? locale : LC_GLOBAL_LOCALE);
	b->b_locale = locale;
}

/*
 * Exchanges the values before a thread runs. A thread without a record has not begun, and
 * gets initial values.
 */
static void exchange(struct usched_hook *h, enum usched_event event, struct ustack *u,
		     struct ustack *other)
{
	struct blocks *b = (struct blocks *)h;
	struct uposix_thread *p;

	if (event == USCHED_HANDS_OVER)
		u = other;
	else if (event != USCHED_RUNS)
		return;
	p = uposix__record_of(u);
	if (p && p == b->b_owner)
		return;
	if (b->b_owner)
		copy_out(b, b->b_owner->p_tls);
	b->b_owner = p;
	set_locale(b, p ? p->p_locale : NULL);
	if (p)
		copy_in(b, p->p_tls);
	else
		copy_new(b);
}

static struct blocks *blocks_here(void)
{
	struct usched_hook *h = usched__current->s_hook;

	while (h && h->ho_event != exchange)
		h = h->ho_next;
	return (struct blocks *)h;
}

/* Returns true if the object lies in an exchanged variable. */
static bool is_exchanged(const void *object)
{
	const struct blocks *b = bytes && ustack_self() ? blocks_here() : NULL;

	for (size_t i = 0; b && i < used; i++)
		if ((uintptr_t)object - (uintptr_t)b->b_at[i] < chosen[i].o_size)
			return true;
	return false;
}

void uposix__note_place(const struct dl_phdr_info *info, const ElfW(Phdr) *h)
{
	uintptr_t from = (uintptr_t)info->dlpi_tls_data
		- (uintptr_t)usched__block() + STATIC;
	uintptr_t to = from + h->p_memsz;

	if (!info->dlpi_tls_data || from > to || to > 2 * STATIC)
		return;
	if (static_to == 0 || from < static_from)
		static_from = from;
	if (to > static_to)
		static_to = to;
}

/*
 * Aborts the process if a thread waits for an object in a thread-local variable. While a
 * thread waits, another thread's values replace its exchanged variables: a wake would
 * find the other thread's object, and the wait would never end. If the variable is not
 * exchanged, the threads of a processor share one object, and would take each other's
 * wakes.
 */
void uposix__refuse_place(void *object)
{
	uintptr_t away = (uintptr_t)object - (uintptr_t)usched__block()
		+ STATIC;
	const char *why = NULL;

	if (uposix__blocks)             /* the address is the thread's own */
		return;
	if (is_exchanged(object))
		why = "--tls exchanges: no other thread can wake it";
	else if (ustack_self() && away >= static_from && away < static_to)
		why = "the threads of a processor share: they have one instead of many";
	if (!why)
		return;
	uposix__tell("a thread waits for the object %p in thread-local variables that %s."
		     " Run the program natively", object, why);
	abort();
}

/* ---- Destructors ---- */

struct uposix_destructor {
	struct uposix_destructor *d_next;
	void                    (*d_func)(void *object);
	void                     *d_object;
};

/* A destructor may register more destructors. */
void uposix__destroy_variables(struct uposix_thread *me)
{
	struct uposix_destructor *d;

	if (uposix__blocks)
		uproc__destroy_variables();
	while ((d = me->p_destructors)) {
		void (*func)(void *) = d->d_func;
		void *object = d->d_object;

		me->p_destructors = d->d_next;
		free(d);
		func(object);
	}
}

/*
 * If a thread calls exit(), libc's exit() calls this. Destroys the thread's variables
 * before the variables of the process.
 */
static void native_ends(void *unused)
{
	struct uposix_thread *me = uposix__me();

	(void)unused;
	if (me)
		uposix__destroy_variables(me);
}

int uposix___cxa_thread_atexit_impl(void (*func)(void *), void *object, void *dso)
{
	struct uposix_thread *me = uposix__me();
	struct uposix_destructor *d;

	if (!me || uposix__blocks || !is_exchanged(object))
		return __cxa_thread_atexit_impl(func, object, dso);
	d = malloc(sizeof *d);
	if (!d) {
		uposix__tell("no memory for a destructor of a thread-local variable");
		abort();
	}
	*d = (struct uposix_destructor){ me->p_destructors, func, object };
	me->p_destructors = d;
	return 0;
}

/* ---- Processors and threads ---- */

static struct blocks *new_blocks(void)
{
	struct blocks *b = calloc(1, sizeof *b);

	if (!b) {
		uposix__tell("no memory for thread-local variables");
		abort();
	}
	b->b_hook.ho_event = exchange;
	for (size_t i = 0; i < used; i++)
		b->b_at[i] = __tls_get_addr((size_t[]){ chosen[i].o_module, 0 });
	if (uposix__is_loaded && bytes)
		__cxa_thread_atexit_impl(native_ends, NULL, &__dso_handle);
	usched__set_hook(usched__current, &b->b_hook);
	return b;
}

void uposix__own(struct uposix_thread *me)
{
	struct blocks *b;

	if (uposix__blocks)
		return;
	b = blocks_here();
	if (!b)         /* so that <ctype.h> uses the locale of setlocale() */
		uselocale(LC_GLOBAL_LOCALE);
	if (!b && bytes)
		b = new_blocks();
	if (b)
		b->b_owner = me;
}

/* Sets the locale of the calling thread. NULL stands for the locale of the process. */
static void own_locale(struct blocks *b, struct uposix_thread *me, locale_t locale)
{
	b->b_users += locale != NULL;
	b->b_users -= me->p_locale != NULL;
	me->p_locale = locale;
	set_locale(b, locale);
	if (b->b_users || bytes)
		return;
	usched__drop_hook(usched__current, &b->b_hook);
	free(b);
}

locale_t uposix_uselocale(locale_t locale)
{
	struct uposix_thread *me = uposix__thread_now();
	locale_t before = uselocale(locale);
	struct blocks *b;

	if (locale == LC_GLOBAL_LOCALE)
		locale = NULL;
	else if (!locale)
		return before;
	if (!me || uposix__blocks || locale == me->p_locale)
		return before;
	b = blocks_here();
	if (!b)
		b = new_blocks();
	b->b_owner = me;
	own_locale(b, me, locale);
	return before;
}

locale_t uposix___uselocale(locale_t locale) UPOSIX_ALIAS(uselocale);

void uposix__disown(void)
{
	struct uposix_thread *me = uposix__thread_now();
	struct blocks *b;

	if (!me)
		return;
	if (uposix__blocks) {
		uproc__leave_block();
		return;
	}
	b = blocks_here();
	if (!b || !b->b_owner)
		return;
	b->b_owner = NULL;
	own_locale(b, me, NULL);
}
