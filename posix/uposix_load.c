/* SPDX-License-Identifier: MIT */
/*
 * uposix_load.c: libc's own functions, for libusched-posix.so only. The calls of this
 * library are wrapped by the linker: read() is __wrap_read(), which jumps to what
 * uposix__real[] has for it.
 */
#include "uposix_set.h"

#include "../src/base/sim.h"

#include <dlfcn.h>
#include <string.h>

#define HIDDEN __attribute__((visibility("hidden")))

void uposix__find(void) HIDDEN;
void uposix__look(const void *where) HIDDEN;

extern void *uposix__real[] HIDDEN;

/*
 * With 1 libstdc++ counts references without atomic operations. Natively the processors
 * are threads for it, in a simulation none is. Of glibc from 2.32 on.
 */
extern char __libc_single_threaded __attribute__((weak));

static const struct name {
	const char *n_name;
	bool        n_later;
} names[] = {
#define NAME(name) { #name, false },
#define LATER(name) { #name, true },
#include "uposix_names.h"
};

enum { COUNT = sizeof names / sizeof names[0] };

/* Stands for a function that this libc does not have: only newer programs call it. */
static int missing(void)
{
	return ENOSYS;
}

static void find_all(bool later)
{
	for (size_t i = 0; i < COUNT; i++)
		if (names[i].n_later == later) {
			void *found = dlsym(RTLD_NEXT, names[i].n_name);

			uposix__real[i] = found ? found : (void *)(uintptr_t)missing;
		}
}

#ifdef USCHED_SIM
void *uposix__replace(const char *name, void *with)
{
	for (size_t i = 0; i < COUNT; i++)
		if (strcmp(names[i].n_name, name) == 0) {
			void *before = uposix__real[i];

			uposix__real[i] = with;
			return before;
		}
	return NULL;
}
#endif

/* One that is not found yet was called, from anywhere. */
void uposix__find(void)
{
	static unsigned calls;

	find_all(calls++ > 0);
}

/* A call with LOOKS, from `where'. */
void uposix__look(const void *where)
{
	if (usched__is_tired())
		uposix__let_run(where);
}

/*
 * libc has conditions in two versions, on some machines. The newer one is the only one
 * that is as large as pthread_cond_t.
 */
static void find_conditions(void)
{
	for (size_t i = 0; i < COUNT; i++)
		if (strncmp(names[i].n_name, "pthread_cond_", 13) == 0) {
			void *found = dlvsym(RTLD_NEXT, names[i].n_name, "GLIBC_2.3.2");

			if (found)
				uposix__real[i] = found;
		}
}

/* What crti.o of libc has each object call before its constructors. */
void __gmon_start__(void);

void __gmon_start__(void)
{
	uposix__loaded();
}

__attribute__((constructor(101))) static void load(void)
{
	find_all(false);
	find_all(true);
	find_conditions();
	uposix__is_loaded = true;
	if (SIMULATED && &__libc_single_threaded)
		__libc_single_threaded = 0;
	uposix__settings();
}
