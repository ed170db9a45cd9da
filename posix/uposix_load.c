/* SPDX-License-Identifier: MIT */
/*
 * uposix_load.c: finds libc's own functions, for libusched-posix.so only. The linker
 * wraps calls of this library: read() here is __wrap_read(), which jumps to the address
 * in uposix__real[].
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
 * If this variable is 1, libstdc++ counts references without atomic operations, which is
 * wrong with several processors. A simulation has only one native thread, so libc leaves
 * the variable 1, and load() clears it. glibc has the variable since 2.32.
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

/*
 * Takes the place of a function that this libc lacks; only programs for a newer libc call
 * such a function.
 */
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

/*
 * Finds the addresses of functions. Called when the program calls a function whose
 * address is not known yet, which may happen anywhere.
 */
void uposix__find(void)
{
	static unsigned calls;

	find_all(calls++ > 0);
}

/* Called before each call of a function of the rows LOOKS; `where' is the place of the
   call. */
void uposix__look(const void *where)
{
	if (usched__is_tired())
		uposix__let_run(where);
}

/*
 * Finds the newer version of the functions whose names have this start. On x86-64 libc
 * also has an older one, with other arguments, and before glibc 2.36 dlsym(RTLD_NEXT)
 * finds that.
 */
static void find_newer(const char *start, const char *version)
{
	for (size_t i = 0; i < COUNT; i++) {
		void *found = strncmp(names[i].n_name, start, strlen(start)) ? NULL
			: dlvsym(RTLD_NEXT, names[i].n_name, version);

		if (found)
			uposix__real[i] = found;
	}
}

/*
 * Functions of liburing and libaio, which make system calls themselves. A wait in one of
 * these calls would block the processor. So the first call of a program fails as on a
 * kernel that has no such calls, and the program does without.
 */
int io_uring_queue_init(void);
int io_uring_queue_init_params(void) __attribute__((alias("io_uring_queue_init")));
int io_uring_queue_init_mem(void) __attribute__((alias("io_uring_queue_init")));
int io_setup(void) __attribute__((alias("io_uring_queue_init")));
int io_queue_init(void) __attribute__((alias("io_uring_queue_init")));

int io_uring_queue_init(void)
{
	return -ENOSYS;
}

/* crti.o of libc makes each object call this before the object's constructors. */
void __gmon_start__(void);

void __gmon_start__(void)
{
	uposix__loaded();
}

static void *end_at_once(void *unused)
{
	return unused;
}

/* libc prepares for setuid() in the first native thread: a simulation has no other. */
static void begin_threads(void)
{
	pthread_t t;

	if (pthread_create(&t, NULL, end_at_once, NULL) == 0)
		pthread_join(t, NULL);
}

__attribute__((constructor(101))) static void load(void)
{
	find_all(false);
	find_all(true);
	find_newer("pthread_cond_", "GLIBC_2.3.2");
	find_newer("timer_create", "GLIBC_2.3.3");
	find_newer("pthread_getaffinity_np", "GLIBC_2.3.4");
	find_newer("pthread_setaffinity_np", "GLIBC_2.3.4");
	find_newer("sched_setaffinity", "GLIBC_2.3.4");
	find_newer("lio_listio", "GLIBC_2.4");
	find_newer("posix_spawn", "GLIBC_2.15");
	uposix__is_loaded = true;
	if (SIMULATED && &__libc_single_threaded) {
		begin_threads();
		__libc_single_threaded = 0;
	}
	uposix__settings();
}
