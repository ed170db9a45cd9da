/* SPDX-License-Identifier: MIT */
/*
 * enter.c: calls of POSIX as operations, and main() as a thread. Each function of
 * uposix_names.h that libusched-sim exports calls sim__enter() first, in the file of the
 * machine, while sim__enters is set.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE             /* RTLD_NEXT */
#endif
#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "../posix/uposix_set.h"
#include "host.h"
#include "serve.h"

/* What a call is as an operation, besides SIM_READS and SIM_WRITES of its argument. */
enum {
	QUIET = SIM_WRITES + 1,         /* none: other threads do not see it */
	SAYS,                           /* SIM_WRITES of the standard output */
	FILES,                          /* SIM_WRITES of the names of files */
	LOOKS,                          /* SIM_READS of them */
	ALL,                            /* SIM_WRITES of anything */
	ALONE,                          /* SIM_NOTHING */
	YIELDS,                         /* SIM_NOTHING, and others go first */
	ESCAPES,                        /* it cannot be simulated */
	CALL,                           /* syscall(): that depends on its number */
	LOCKS,                          /* SIM_WRITES, when no other thread has it */
};

static const struct { const char *k_name; int k_kind; } others[] = {
	{ "pthread_self", QUIET }, { "pthread_equal", QUIET },
	{ "pthread_create", QUIET }, { "thrd_create", QUIET },
	{ "pthread_key_create", QUIET }, { "pthread_key_delete", QUIET },
	{ "pthread_getspecific", QUIET }, { "pthread_setspecific", QUIET },
	{ "pthread_exit", QUIET }, { "thrd_exit", QUIET },
	{ "pthread_setname_np", QUIET }, { "pthread_getname_np", QUIET },
	{ "pthread_getattr_np", QUIET }, { "pthread_getschedparam", QUIET },
	{ "pthread_setschedparam", QUIET }, { "pthread_setschedprio", QUIET },
	{ "pthread_getaffinity_np", QUIET }, { "pthread_setaffinity_np", QUIET },
	{ "pthread_getcpuclockid", QUIET }, { "pthread_testcancel", QUIET },
	{ "pthread_setcancelstate", QUIET }, { "pthread_setcanceltype", QUIET },
	{ "__pthread_register_cancel", QUIET }, { "__pthread_unregister_cancel", QUIET },
	{ "__pthread_register_cancel_defer", QUIET },
	{ "__pthread_unregister_cancel_restore", QUIET },
	{ "__pthread_unwind_next", QUIET },
	{ "pthread_sigmask", QUIET }, { "sigprocmask", QUIET }, { "sigpending", QUIET },
	{ "pthread_mutex_init", QUIET }, { "pthread_cond_init", QUIET },
	{ "pthread_rwlock_init", QUIET }, { "sem_init", QUIET },
	{ "pthread_barrier_init", QUIET }, { "mtx_init", QUIET }, { "cnd_init", QUIET },
	{ "pthread_mutex_getprioceiling", QUIET },
	{ "pthread_mutex_setprioceiling", QUIET },
	{ "thrd_current", QUIET }, { "thrd_equal", QUIET }, { "tss_create", QUIET },
	{ "tss_delete", QUIET }, { "tss_get", QUIET }, { "tss_set", QUIET },
	{ "fileno", QUIET }, { "fileno_unlocked", QUIET }, { "vfork", QUIET },
	{ "clock_gettime", QUIET }, { "gettimeofday", QUIET }, { "time", QUIET },
	{ "timespec_get", QUIET }, { "clock", QUIET }, { "getrandom", QUIET },
	{ "getentropy", QUIET }, { "getpid", QUIET }, { "gettid", QUIET },
	{ "getcwd", QUIET }, { "chdir", LOOKS },
	{ "getsockname", QUIET }, { "getpeername", QUIET }, { "getsockopt", QUIET },
	{ "setsockopt", QUIET },
	{ "pthread_mutex_lock", LOCKS }, { "mtx_lock", LOCKS },
	{ "sem_getvalue", SIM_READS },
	{ "sched_yield", YIELDS }, { "pthread_yield", YIELDS }, { "thrd_yield", YIELDS },
	{ "sleep", ALONE }, { "usleep", ALONE }, { "nanosleep", ALONE },
	{ "clock_nanosleep", ALONE }, { "thrd_sleep", ALONE },
	{ "pthread_cond_wait", ALL }, { "pthread_cond_timedwait", ALL },
	{ "pthread_cond_clockwait", ALL }, { "cnd_wait", ALL }, { "cnd_timedwait", ALL },
	{ "pause", ALL }, { "sigsuspend", ALL }, { "raise", ALL }, { "syscall", CALL },
	{ "poll", ALL }, { "ppoll", ALL }, { "select", ALL }, { "pselect", ALL },
	{ "epoll_wait", ALL }, { "epoll_pwait", ALL }, { "epoll_pwait2", ALL },
	{ "wait", ALL }, { "wait3", ALL }, { "waitpid", ALL }, { "waitid", ALL },
	{ "wait4", ALL }, { "fflush", ALL }, { "fcloseall", ALL },
	{ "printf", SAYS }, { "vprintf", SAYS }, { "puts", SAYS }, { "putchar", SAYS },
	{ "__printf_chk", SAYS }, { "__vprintf_chk", SAYS }, { "fputs", SAYS },
	{ "fputc", SAYS }, { "putc", SAYS }, { "fwrite", SAYS },
	{ "open", FILES }, { "open64", FILES }, { "openat", FILES },
	{ "openat64", FILES }, { "creat", FILES }, { "creat64", FILES },
	{ "__open_2", FILES }, { "__open64_2", FILES }, { "__openat_2", FILES },
	{ "__openat64_2", FILES }, { "fopen", FILES }, { "fopen64", FILES },
	{ "rename", FILES }, { "unlink", FILES }, { "remove", FILES },
	{ "mkdir", FILES }, { "stat", LOOKS }, { "stat64", LOOKS },
	{ "lstat", LOOKS }, { "lstat64", LOOKS }, { "access", LOOKS },
	{ "fstat", SIM_READS }, { "fstat64", SIM_READS },
	{ "getchar", ALL }, { "scanf", ALL }, { "vscanf", ALL },
	{ "__isoc99_scanf", ALL }, { "__isoc23_scanf", ALL },
};

static const char *const names[] = {
#define NAME(name) #name,
#include "../posix/uposix_names.h"
};

enum { NAMES = sizeof names / sizeof names[0] };

static unsigned char kinds[NAMES];
static bool is_object[NAMES];           /* the first argument is one of threads */

unsigned char sim__enters;

static void describe(struct sim_op *op, unsigned char kind)
{
	switch (kind) {
	case SAYS:
		op->o_object = 1;
		break;
	case FILES:
	case LOOKS:
		op->o_object = 2;
		op->o_kind = kind == FILES ? SIM_WRITES : SIM_READS;
		break;
	case CALL:
		sim__escape_call((long)op->o_object);
		op->o_object = 0;
		break;
	case ESCAPES:
		sim__escape(op->o_name);
		op->o_object = 0;
		break;
	case ALL:
		op->o_object = 0;
		break;
	case ALONE:
		op->o_kind = SIM_NOTHING;
		break;
	case YIELDS:
		op->o_kind = SIM_NOTHING;
		op->o_how = SIM_YIELDS;
		break;
	case LOCKS:
		op->o_how = SIM_LOCKS;
		break;
	default:
		op->o_kind = (enum sim_kind)kind;
		break;
	}
}

/*
 * Before a call, of which `offset' is the name's in a table of pointers: `object' is its
 * first argument, and `place' where it returns to.
 */
SIM_PRIVATE void sim__enter(size_t offset, uintptr_t object, uintptr_t place);

void sim__enter(size_t offset, uintptr_t object, uintptr_t place)
{
	size_t i = offset / sizeof(void *);
	struct sim_op op = { object, place, 0, names[i], SIM_WRITES, 0 };

	if (kinds[i] == QUIET)
		return;
	describe(&op, kinds[i]);
	op.o_key = sim__key(names[i], is_object[i] ? op.o_object : 0, place);
	if (sim__self())
		sim__self()->t_ordered = false;
	if (sim__run.r_learns)
		sim__uses(op.o_object, op.o_kind);
	sim__step(op);
}

static void find_kinds(void)
{
	for (size_t i = 0; i < NAMES; i++) {
		kinds[i] = SIM_WRITES;
		is_object[i] = strncmp(names[i], "pthread_", 8) == 0
			|| strncmp(names[i], "sem_", 4) == 0
			|| strncmp(names[i], "mtx_", 4) == 0
			|| strncmp(names[i], "cnd_", 4) == 0;
		for (size_t j = 0; j < sizeof others / sizeof others[0]; j++)
			if (strcmp(names[i], others[j].k_name) == 0)
				kinds[i] = (unsigned char)others[j].k_kind;
		if (sim__escapes(names[i]))
			kinds[i] = ESCAPES;
	}
}

/* ---- main() ---- */

typedef int main_fn(int argc, char **argv, char **envp);

static struct {
	main_fn *m_main;
	int      m_argc;
	char   **m_argv;
	char   **m_envp;
} program;

static void *run_main(void *unused)
{
	(void)unused;
	exit(program.m_main(program.m_argc, program.m_argv, program.m_envp));
}

static void *return_at_once(void *unused)
{
	return unused;
}

static void run_thread(void *(*func)(void *))
{
	pthread_t t;

	if (uposix_pthread_create(&t, NULL, func, NULL)
	    || uposix_pthread_join(t, NULL))
		sim_fail("no thread for main()");
}

/* In place of main(). What a run needs is made before its process is. */
static int simulate(int argc, char **argv, char **envp)
{
	program.m_argc = argc;
	program.m_argv = argv;
	program.m_envp = envp;
	find_kinds();
	sim__begin(&(struct sim_conf){ 0 }, &sim__in_order);
	run_thread(return_at_once);
	sim__serve(argv);
	sim__enters = 1;
	run_thread(run_main);
	uprocs_destroy(sim__run.r_proc->p_procs);       /* after pthread_exit() */
	exit(0);
}

/* libc's begin of a program, which calls main(). */
EXPORTED int __libc_start_main(main_fn *run, int argc, char **argv, void (*init)(void),
			       void (*fini)(void), void (*end)(void), void *stack);

int __libc_start_main(main_fn *run, int argc, char **argv, void (*init)(void),
		      void (*fini)(void), void (*end)(void), void *stack)
{
	__typeof__(__libc_start_main) *start;
	void *found = dlsym(RTLD_NEXT, "__libc_start_main");

	memcpy(&start, &found, sizeof start);
	program.m_main = run;
	return start(sim__is_wanted() ? simulate : run, argc, argv, init, fini, end,
		     stack);
}
