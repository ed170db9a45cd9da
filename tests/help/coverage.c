/* SPDX-License-Identifier: MIT */
/*
 * coverage.c: a process that dies by a signal, or leaves at once, first writes what gcov
 * has counted, as others do at their end. coverage.sh links all tests with it, and with
 *
 *   -Wl,--wrap=abort,--wrap=raise,--wrap=_exit
 */
#define _DEFAULT_SOURCE         /* pthread_sigmask() */
#include <signal.h>
#include <stddef.h>
#include <stdnoreturn.h>

void __gcov_dump(void);
void __gcov_reset(void);

noreturn void __real_abort(void);
noreturn void __wrap_abort(void);
noreturn void __real__exit(int status);
noreturn void __wrap__exit(int status);
int __real_raise(int signo);
int __wrap_raise(int signo);

/*
 * What has been written must not be added again. gcov has a lock: a thread that a signal
 * has give way keeps it, and the next one of its processor would wait for ever.
 */
static void write_counts(void)
{
	sigset_t all, before;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	__gcov_dump();
	__gcov_reset();
	pthread_sigmask(SIG_SETMASK, &before, NULL);
}

noreturn void __wrap_abort(void)
{
	write_counts();
	__real_abort();
}

noreturn void __wrap__exit(int status)
{
	write_counts();
	__real__exit(status);
}

/* It may return: then what comes is counted as well. */
int __wrap_raise(int signo)
{
	write_counts();
	return __real_raise(signo);
}
